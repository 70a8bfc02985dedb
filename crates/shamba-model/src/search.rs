//! The search for the design that suits a workload best, and what each knob contributes.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), section 4.5: Algorithm 1 (merge policy and size ratio) with Algorithm 5 (memory
//! between buffer and filters) inside. Both are replaced by a search over trees that are full:
//!
//! - Algorithm 5 finds the zero of a derivative (Eqs. 25, 41 and 47) that is right only where all
//!   levels have filters. Below that it takes levels without filters for cheaper than they are, and
//!   gives the filters nothing where they are worth most. Here costs are those of
//!   [`crate::cost::costs`], in every regime.
//! - The number of levels is whole (Eq. 1). For a policy, a size ratio and a number of levels `L`
//!   the best buffer is therefore the least that makes do with `L` levels ([`tree::buffer_for`]):
//!   more of it saves nothing, while the same bytes save lookups as filters. That leaves, for every
//!   policy and `L`, one number to look for, the size ratio.
//! - Algorithm 1 tries one size ratio for each `L`, `N^(1/L)`, which knows nothing of the buffer.
//!   Here whole size ratios are tried over all their range, in steps that shrink around the best.
//!
//! Bounds on costs (service-level agreements) come before the average cost: designs past a bound
//! count only as signposts to those that keep it.

use crate::ModelError;
use crate::cost::{Allocation, Costs, Design, Environment, Workload, costs};
use crate::curve::Curve;
use crate::tree::{self, MergePolicy};

/// What is given, and what is looked for.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request {
    /// Data and device.
    pub environment: Environment,
    /// The operations.
    pub workload: Workload,
    /// Bytes for the write buffer and all filters together, a page at least.
    pub memory_bytes: f64,
    /// What may be changed; by default everything.
    #[cfg_attr(feature = "serde", serde(default))]
    pub knobs: Knobs,
    /// Costs that must be kept; by default none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub bounds: Bounds,
}

/// What the search may choose from.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Knobs {
    /// The merge policies to try; all by default.
    pub policies: Vec<MergePolicy>,
    /// A size ratio that must stay; any by default.
    pub size_ratio: Option<u32>,
    /// Bytes that the buffer must have, the filters having the rest; any by default.
    pub buffer_bytes: Option<f64>,
    /// How filters are allocated; [`Allocation::Monkey`] by default, which is never worse.
    pub allocation: Allocation,
}

impl Default for Knobs {
    fn default() -> Self {
        Knobs {
            policies: MergePolicy::ALL.to_vec(),
            size_ratio: None,
            buffer_bytes: None,
            allocation: Allocation::Monkey,
        }
    }
}

/// Upper bounds on costs, in reads per operation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Bounds {
    /// On [`Costs::point_lookup`].
    pub point_lookup: Option<f64>,
    /// On [`Costs::update`].
    pub update: Option<f64>,
}

/// The best design found.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Found {
    /// The design.
    pub design: Design,
    /// Its costs.
    pub costs: Costs,
    /// How many designs were tried.
    pub evaluated: u32,
}

/// Size ratios tried at once, at first and while closing in.
const FIRST_TRIES: u32 = 24;
const FURTHER_TRIES: u32 = 12;

/// The design of the least average cost that keeps the bounds. Monkey, Algorithm 1 with Eqs. 21
/// to 24, and its "Holistic design with SLAs".
///
/// # Errors
/// An argument outside its domain: memory below a page, a buffer above the memory, no policy to
/// try, no size ratio that fits the data; or [`ModelError::OutOfReach`] if no design keeps the
/// bounds.
pub fn search(request: &Request, curve: &Curve) -> Result<Found, ModelError> {
    let (environment, knobs) = (&request.environment, &request.knobs);
    environment.check()?;
    request.workload.check()?;
    request.bounds.check()?;
    let (least, most) = buffer_range(request)?;
    let count = knobs.policies.len();
    ModelError::check(count > 0, "policies", count as f64, "at least one")?;
    let data = environment.data_bytes();
    let largest = tree::largest_size_ratio(data, least)?.floor().max(2.0);
    if let Some(ratio) = knobs.size_ratio {
        let ratio = f64::from(ratio);
        ModelError::check(
            (2.0..=largest).contains(&ratio),
            "size_ratio",
            ratio,
            "from 2 to the data's bytes over the least buffer's",
        )?;
    }
    let mut search = Search {
        request,
        curve,
        largest: largest.min(f64::from(u32::MAX)) as u32,
        buffers: (least, most),
        evaluated: 0,
        best: None,
        least_update: f64::INFINITY,
        least_lookup: f64::INFINITY,
    };
    for levels in 1..=tree::levels(data, least, 2)? {
        for &policy in &knobs.policies {
            search.close_in(policy, levels)?;
        }
    }
    search.found()
}

impl Bounds {
    fn check(&self) -> Result<(), ModelError> {
        for (name, bound) in [
            ("the bound on point lookups", self.point_lookup),
            ("the bound on updates", self.update),
        ] {
            if let Some(bound) = bound {
                ModelError::above_zero(name, bound)?;
            }
        }
        Ok(())
    }

    /// By which share of itself each bound is passed.
    fn excess(&self, costs: &Costs) -> (f64, f64) {
        let excess = |cost: f64, bound: Option<f64>| {
            bound.map_or(0.0, |bound| (cost / bound - 1.0).max(0.0))
        };
        (
            excess(costs.point_lookup, self.point_lookup),
            excess(costs.update, self.update),
        )
    }
}

/// The least and the most that the buffer may have.
fn buffer_range(request: &Request) -> Result<(f64, f64), ModelError> {
    let page = request.environment.device.page_bytes;
    let memory = request.memory_bytes;
    ModelError::check(
        memory.is_finite() && memory >= page,
        "memory_bytes",
        memory,
        "finite and at least a page",
    )?;
    let Some(buffer) = request.knobs.buffer_bytes else {
        return Ok((page, memory));
    };
    ModelError::check(
        buffer >= page && buffer <= memory,
        "buffer_bytes",
        buffer,
        "at least a page and at most the memory",
    )?;
    Ok((buffer, buffer))
}

struct Search<'a> {
    request: &'a Request,
    curve: &'a Curve,
    /// The largest size ratio that fits the data.
    largest: u32,
    buffers: (f64, f64),
    evaluated: u32,
    best: Option<(Score, Found)>,
    /// The least update cost at all, and the least lookup cost of designs that keep the bound on
    /// updates.
    least_update: f64,
    least_lookup: f64,
}

/// Less is better: first the share by which bounds are passed, then the average cost.
type Score = (f64, f64);

impl Search<'_> {
    /// The size ratios with which the data fill `levels` levels under some buffer allowed. `None`
    /// if there are none.
    fn size_ratios(&self, levels: u32) -> Result<Option<(u32, u32)>, ModelError> {
        let data = self.request.environment.data_bytes();
        let (least, most) = self.buffers;
        let whole = |ratio: f64| (ratio * (1.0 - 1e-12)).ceil().min(f64::from(u32::MAX)) as u32;
        let mut low = whole(tree::size_ratio_for(data, most, levels)?);
        let mut high = match levels {
            1 => self.largest,
            more => whole(tree::size_ratio_for(data, least, more - 1)?) - 1,
        };
        if let Some(ratio) = self.request.knobs.size_ratio {
            (low, high) = (low.max(ratio), high.min(ratio));
        }
        Ok((low <= high).then_some((low, high)))
    }

    /// Tries size ratios over all their range, then again between the neighbours of the best, until
    /// no whole number is left between them.
    fn close_in(&mut self, policy: MergePolicy, levels: u32) -> Result<(), ModelError> {
        let Some((mut low, mut high)) = self.size_ratios(levels)? else {
            return Ok(());
        };
        let mut tries = FIRST_TRIES;
        loop {
            let ratios = spread(low, high, tries);
            let mut best: Option<(Score, usize)> = None;
            for (at, &ratio) in ratios.iter().enumerate() {
                let score = self.evaluate(policy, ratio, levels)?;
                if best.is_none_or(|(least, _)| score < least) {
                    best = Some((score, at));
                }
            }
            let Some((_, at)) = best else { return Ok(()) };
            if ratios.len() as u64 > u64::from(high - low) {
                return Ok(());
            }
            let neighbour = |at: Option<usize>| at.and_then(|at| ratios.get(at)).copied();
            low = neighbour(at.checked_sub(1)).unwrap_or(low);
            high = neighbour(Some(at + 1)).unwrap_or(high);
            tries = FURTHER_TRIES;
        }
    }

    fn evaluate(
        &mut self,
        policy: MergePolicy,
        size_ratio: u32,
        levels: u32,
    ) -> Result<Score, ModelError> {
        let request = self.request;
        let (least, most) = self.buffers;
        let enough = tree::buffer_for(request.environment.data_bytes(), size_ratio, levels)?;
        let buffer_bytes = enough.clamp(least, most);
        let design = Design {
            policy,
            size_ratio,
            buffer_bytes,
            filter_bytes: request.memory_bytes - buffer_bytes,
            allocation: request.knobs.allocation,
        };
        let costs = costs(&design, &request.environment, &request.workload, self.curve)?;
        self.evaluated += 1;
        let (lookup, update) = request.bounds.excess(&costs);
        self.least_update = self.least_update.min(costs.update);
        if update == 0.0 {
            self.least_lookup = self.least_lookup.min(costs.point_lookup);
        }
        let score = (lookup + update, costs.average);
        if self.best.is_none_or(|(least, _)| score < least) {
            let found = Found {
                design,
                costs,
                evaluated: 0,
            };
            self.best = Some((score, found));
        }
        Ok(score)
    }

    fn found(self) -> Result<Found, ModelError> {
        let bounds = &self.request.bounds;
        match self.best {
            Some(((0.0, _), found)) => Ok(Found {
                evaluated: self.evaluated,
                ..found
            }),
            _ if self.least_lookup.is_finite() => Err(ModelError::OutOfReach {
                name: match bounds.update {
                    Some(_) => "the point lookup cost (with updates within their bound)",
                    None => "the point lookup cost",
                },
                bound: bounds.point_lookup.unwrap_or(f64::INFINITY),
                best: self.least_lookup,
            }),
            _ => Err(ModelError::OutOfReach {
                name: "the update cost",
                bound: bounds.update.unwrap_or(f64::INFINITY),
                best: self.least_update,
            }),
        }
    }
}

/// At most `count` whole numbers from `low` to `high`, both included, in even ratios; all of them
/// if they are no more than that.
pub(crate) fn spread(low: u32, high: u32, count: u32) -> Vec<u32> {
    if high - low < count {
        return (low..=high).collect();
    }
    let (first, last) = (f64::from(low), f64::from(high));
    let at = |i: u32| first * (last / first).powf(f64::from(i) / f64::from(count - 1));
    let mut all: Vec<u32> = (0..count).map(|i| at(i).round() as u32).collect();
    all[0] = low;
    all[count as usize - 1] = high;
    all.dedup();
    all
}

/// A knob, or knobs, turned from a given design on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Knob {
    /// None: the design as given.
    None,
    /// Filters by [`Allocation::Monkey`], as in all that follow.
    Filters,
    /// And memory between buffer and filters.
    MemorySplit,
    /// And the merge policy, with memory split as given.
    MergePolicy,
    /// And the size ratio, with memory split as given.
    SizeRatio,
    /// And policy and size ratio, with memory split as given.
    Merging,
    /// All at once.
    All,
}

/// A design after turning a knob.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// What was turned.
    pub knob: Knob,
    /// The best design it leads to.
    pub design: Design,
    /// Its costs.
    pub costs: Costs,
}

/// What each knob contributes, starting from `start` and with its memory: Monkey, Figure 11. Each
/// knob is turned alone on top of Monkey's filters, and then all at once.
///
/// # Errors
/// As [`search`] and [`costs`].
pub fn contributions(
    start: &Design,
    policies: &[MergePolicy],
    environment: &Environment,
    workload: &Workload,
    curve: &Curve,
) -> Result<Vec<Step>, ModelError> {
    let first = costs(start, environment, workload, curve)?;
    let mut steps = vec![Step {
        knob: Knob::None,
        design: *start,
        costs: first,
    }];
    let (own, all) = (&[start.policy][..], policies);
    let ratio = Some(start.size_ratio);
    let buffer = Some(start.buffer_bytes);
    for (knob, policies, size_ratio, buffer_bytes) in [
        (Knob::Filters, own, ratio, buffer),
        (Knob::MemorySplit, own, ratio, None),
        (Knob::MergePolicy, all, ratio, buffer),
        (Knob::SizeRatio, own, None, buffer),
        (Knob::Merging, all, None, buffer),
        (Knob::All, all, None, None),
    ] {
        let request = Request {
            environment: *environment,
            workload: *workload,
            memory_bytes: start.buffer_bytes + start.filter_bytes,
            knobs: Knobs {
                policies: policies.to_vec(),
                size_ratio,
                buffer_bytes,
                allocation: Allocation::Monkey,
            },
            bounds: Bounds::default(),
        };
        let found = search(&request, curve)?;
        steps.push(Step {
            knob,
            design: found.design,
            costs: found.costs,
        });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests;
