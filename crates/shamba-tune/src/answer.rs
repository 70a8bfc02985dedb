//! What the model answers: the present design and the best, what each step contributes, and
//! engine options.

use std::sync::OnceLock;

use serde::Serialize;
use shamba::{
    FilterAllocation, FilterFamily, FilterOptions, Granularity, KeyspaceOptions, MergePolicy,
};
use shamba_model::cost::{Allocation, Costs, Design, Workload, costs, filters};
use shamba_model::curve::{Curve, Family};
use shamba_model::search::{self, Knob};
use shamba_model::{ModelError, tree};

use crate::error::Result;
use crate::inputs::Inputs;
use crate::problem::{Problem, explain};
use crate::value::Filter;

/// Everything that is told.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// All inputs, as a description.
    pub input: Inputs,
    /// Those that the database told.
    pub from_database: Vec<String>,
    /// Those that nobody told.
    pub assumed: Vec<String>,
    /// The design there is.
    pub present: Plan,
    /// The best one that keeps what must hold.
    pub best: Plan,
    /// What each step gains, without bounds and with nothing fixed.
    pub contributions: Vec<Step>,
    /// The best design as options.
    pub options: EngineOptions,
    /// The same with inputs changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
}

/// A design with what it costs and its filters.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// Merge policy, size ratio, buffer and filters.
    #[serde(flatten)]
    pub design: Design,
    /// Bits of all filters over all entries, without those that are of no use.
    pub bits_per_key: f64,
    /// Bytes of filter memory that are of no use to any filter.
    pub spare_bytes: f64,
    /// What its operations cost.
    pub costs: Costs,
    /// Its levels, when the tree is full.
    pub levels: Vec<Level>,
}

/// A level of a full tree.
#[derive(Debug, Serialize)]
pub struct Level {
    /// 1 is the first on storage.
    pub level: u32,
    /// Its sorted runs, when it is full.
    pub runs: f64,
    /// Its entries, when it is full.
    pub entries: f64,
    /// Of the entries, without filters and index.
    pub bytes: f64,
    /// Filter bits for each of its entries.
    pub bits_per_key: f64,
    /// The share of lookups of absent keys that one of its filters lets through.
    pub false_positive_rate: f64,
}

/// A step from the present design on.
#[derive(Debug, Serialize)]
pub struct Step {
    /// What changes: `present` (nothing yet), `memory`, `filters`, `memory-split`, `merge-policy`,
    /// `size-ratio`, `merging` or `all`.
    pub step: &'static str,
    /// The design it leads to.
    #[serde(flatten)]
    pub design: Design,
    /// What that costs.
    pub costs: Costs,
    /// Throughput over that of the present design.
    pub speedup: f64,
}

/// Options of a keyspace.
#[derive(Debug, Serialize)]
pub struct EngineOptions {
    /// [`KeyspaceOptions::merge_policy`].
    pub merge_policy: MergePolicy,
    /// [`KeyspaceOptions::size_ratio`].
    pub size_ratio: u32,
    /// [`KeyspaceOptions::write_buffer`], in bytes.
    pub write_buffer: u64,
    /// [`FilterOptions::bits_per_key`].
    pub bits_per_key: f64,
    /// The name of the filter family in [`FilterFamily`].
    pub filter: &'static str,
    /// How filters are divided.
    pub allocation: Allocation,
    /// Existing keys looked up for each absent one, if it matters to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_per_empty: Option<f64>,
    /// Where the engine's options do not go as far as the design.
    pub limited: Vec<String>,
    /// What they cost.
    pub costs: Costs,
    /// As source text.
    pub rust: String,
}

/// The answer to other inputs.
#[derive(Debug, Serialize)]
pub struct WhatIf {
    /// The changes, as given.
    pub changes: Vec<String>,
    /// All inputs, changed.
    pub input: Inputs,
    /// What the design there is becomes.
    pub present: Plan,
    /// The best one.
    pub best: Plan,
    /// That as options.
    pub options: EngineOptions,
}

/// Answers a problem, and what changes with another one.
///
/// # Errors
/// [`Error::Refused`](crate::Error::Refused) where no design does what must hold.
pub fn answer(problem: &Problem, changed: Option<(Vec<String>, Problem)>) -> Result<Answer> {
    let curve = curve(problem.filter)?;
    let (present, best, options) = solve(problem, curve)?;
    let what_if = match changed {
        None => None,
        Some((changes, other)) => {
            let (present, best, options) = solve(&other, self::curve(other.filter)?)?;
            Some(WhatIf {
                changes,
                input: other.inputs,
                present,
                best,
                options,
            })
        }
    };
    Ok(Answer {
        input: problem.inputs.clone(),
        from_database: problem.from_database.clone(),
        assumed: problem.assumed.clone(),
        present,
        best,
        contributions: contributions(problem, curve).map_err(explain)?,
        options,
        what_if,
    })
}

/// The family's false-positive rates; computed once, which takes some milliseconds.
pub(crate) fn curve(filter: Filter) -> Result<&'static Curve> {
    static CURVES: [OnceLock<Curve>; 4] = [const { OnceLock::new() }; 4];
    let [bloom, blocked, ribbon, ideal] = &CURVES;
    let known = match filter {
        Filter::Bloom => bloom,
        Filter::BlockedBloom => blocked,
        Filter::Ribbon => ribbon,
        Filter::Ideal => ideal,
    };
    if let Some(curve) = known.get() {
        return Ok(curve);
    }
    let curve = Family::from(filter).curve().map_err(explain)?;
    Ok(known.get_or_init(|| curve))
}

fn solve(problem: &Problem, curve: &Curve) -> Result<(Plan, Plan, EngineOptions)> {
    let found = search::search(&problem.request, curve).map_err(explain)?;
    let present = plan(problem, &problem.present, curve).map_err(explain)?;
    let best = plan(problem, &found.design, curve).map_err(explain)?;
    let options = engine_options(problem, &best, curve)?;
    Ok((present, best, options))
}

fn plan(problem: &Problem, design: &Design, curve: &Curve) -> Result<Plan, ModelError> {
    let (environment, workload) = (&problem.request.environment, &problem.request.workload);
    let tree = design.tree(environment)?;
    let filters = filters(design, environment, workload, curve)?;
    let levels = (1..).zip(filters).map(|(level, filter)| Level {
        level,
        runs: tree.runs(level),
        entries: tree.entries_at(level),
        bytes: tree.entries_at(level) * environment.entry_bytes,
        bits_per_key: filter.bits_per_key,
        false_positive_rate: filter.rate,
    });
    let levels: Vec<Level> = levels.collect();
    let used = filter_bits(&levels) / 8.0;
    // Rounding leaves nothing over.
    let used = if used > design.filter_bytes * (1.0 - 1e-6) {
        design.filter_bytes
    } else {
        used
    };
    Ok(Plan {
        design: *design,
        bits_per_key: used * 8.0 / environment.entries,
        spare_bytes: design.filter_bytes - used,
        costs: costs(design, environment, workload, curve)?,
        levels,
    })
}

/// Bits of the filters of all levels.
fn filter_bits(levels: &[Level]) -> f64 {
    levels
        .iter()
        .map(|level| level.bits_per_key * level.entries)
        .sum()
}

/// The steps of the model, with one before them where the present design has other memory than is
/// to be had: the difference goes to its filters, or comes from them.
fn contributions(problem: &Problem, curve: &Curve) -> Result<Vec<Step>, ModelError> {
    let request = &problem.request;
    let (environment, workload) = (&request.environment, &request.workload);
    let present = &problem.present;
    let start = Design {
        filter_bytes: request.memory_bytes - present.buffer_bytes,
        ..*present
    };
    let now = costs(present, environment, workload, curve)?;
    let step = |step, design, costs: Costs| Step {
        step,
        design,
        costs,
        speedup: costs.throughput / now.throughput,
    };
    let mut steps = Vec::new();
    let other_memory = start.filter_bytes != present.filter_bytes;
    if other_memory {
        steps.push(step("present", *present, now));
    }
    let policies = &request.knobs.policies;
    for turned in search::contributions(&start, policies, environment, workload, curve)? {
        let name = match turned.knob {
            Knob::None if other_memory => "memory",
            Knob::None => "present",
            Knob::Filters => "filters",
            Knob::MemorySplit => "memory-split",
            Knob::MergePolicy => "merge-policy",
            Knob::SizeRatio => "size-ratio",
            Knob::Merging => "merging",
            Knob::All => "all",
        };
        steps.push(step(name, turned.design, turned.costs));
    }
    Ok(steps)
}

/// What [`KeyspaceOptions::validate`] allows.
const SIZE_RATIOS: (u32, u32) = (2, 1000);
const WRITE_BUFFERS: (f64, f64) = (4096.0, (2u64 << 30) as f64);
const MOST_BITS: f64 = 64.0;

fn engine_options(problem: &Problem, best: &Plan, curve: &Curve) -> Result<EngineOptions> {
    let environment = &problem.request.environment;
    // Up: the search often finds the least buffer with which so many levels are enough.
    let (size_ratio, buffer) = (best.design.size_ratio, best.design.buffer_bytes.ceil());
    let ratio = size_ratio.clamp(SIZE_RATIOS.0, SIZE_RATIOS.1);
    let write_buffer = buffer.clamp(WRITE_BUFFERS.0, WRITE_BUFFERS.1);
    // Over the entries that have filters: those of the buffer have none.
    let filtered: f64 = best.levels.iter().map(|level| level.entries).sum();
    let bits = (filter_bits(&best.levels) / filtered * 100.0).floor() / 100.0;
    let bits_per_key = bits.min(MOST_BITS);
    let mut limited = Vec::new();
    if ratio != size_ratio {
        limited.push(format!(
            "size ratio {size_ratio}: the engine's go to {ratio}"
        ));
    }
    if bits_per_key != bits {
        limited.push(format!(
            "{bits} bits per key: the engine's go to {MOST_BITS}"
        ));
    }
    if write_buffer != buffer {
        limited.push(format!(
            "a write buffer of {buffer} bytes: the engine's go from 4 KiB to 2 GiB"
        ));
    }
    let policy = match best.design.policy {
        tree::MergePolicy::Leveling => MergePolicy::Leveling {
            granularity: Granularity::File,
        },
        tree::MergePolicy::Tiering => MergePolicy::Tiering,
        tree::MergePolicy::LazyLeveling => MergePolicy::LazyLeveling,
    };
    let (family, filter) = match problem.filter {
        Filter::Bloom | Filter::Ideal => (FilterFamily::Bloom, "Bloom"),
        Filter::BlockedBloom => (FilterFamily::BlockedBloom, "BlockedBloom"),
        Filter::Ribbon => (FilterFamily::Ribbon, "Ribbon"),
    };
    let options = KeyspaceOptions::new()
        .merge_policy(policy)
        .size_ratio(ratio)
        .write_buffer(write_buffer as u64)
        .filter(
            FilterOptions::new()
                .family(family)
                .bits_per_key(bits_per_key)
                .allocation(match best.design.allocation {
                    Allocation::Uniform => FilterAllocation::Uniform,
                    Allocation::MonkeyZero => FilterAllocation::Monkey,
                    Allocation::Monkey => FilterAllocation::MonkeyGeneral {
                        existing_per_empty: existing_per_empty(&problem.request.workload),
                    },
                }),
        );
    options.validate()?;
    let largest = tree::largest_size_ratio(environment.data_bytes(), write_buffer);
    let largest = largest.map_err(explain)?.floor().clamp(2.0, 1000.0) as u32;
    let same = Design {
        policy: best.design.policy,
        size_ratio: ratio.min(largest),
        buffer_bytes: write_buffer.max(environment.device.page_bytes),
        filter_bytes: bits_per_key / 8.0 * filtered,
        allocation: best.design.allocation,
    };
    let costs = costs(&same, environment, &problem.request.workload, curve).map_err(explain)?;
    Ok(EngineOptions {
        merge_policy: policy,
        size_ratio: ratio,
        write_buffer: options.write_buffer,
        bits_per_key,
        filter,
        allocation: best.design.allocation,
        existing_per_empty: match options.filter.allocation {
            FilterAllocation::MonkeyGeneral { existing_per_empty } => Some(existing_per_empty),
            _ => None,
        },
        limited,
        costs,
        rust: rust(&options, filter),
    })
}

/// Existing keys looked up for each absent one, which the engine wants finite: as many as make no
/// difference to filters where no absent one is looked up, and 0 without lookups, as the model has
/// it.
fn existing_per_empty(workload: &Workload) -> f64 {
    const MOST: f64 = 1e6;
    if workload.existing_lookups * MOST <= workload.empty_lookups {
        return 0.0;
    }
    let ratio = (workload.existing_lookups / workload.empty_lookups).min(MOST);
    // Six digits: what a person would write.
    let digits = 10f64.powf(5.0 - ratio.log10().floor());
    (ratio * digits).round() / digits
}

/// Options as they are written in a program.
fn rust(options: &KeyspaceOptions, family: &str) -> String {
    let policy = match options.merge_policy {
        MergePolicy::Tiering => "MergePolicy::Tiering",
        MergePolicy::LazyLeveling => "MergePolicy::LazyLeveling",
        _ => "MergePolicy::Leveling { granularity: Granularity::File }",
    };
    let allocation = match options.filter.allocation {
        FilterAllocation::Monkey => {
            "\n            .allocation(FilterAllocation::Monkey)".to_owned()
        }
        FilterAllocation::MonkeyGeneral { existing_per_empty } => format!(
            "
            .allocation(FilterAllocation::MonkeyGeneral {{
                existing_per_empty: {existing_per_empty:?},
            }})"
        ),
        _ => String::new(),
    };
    format!(
        "KeyspaceOptions::new()
    .merge_policy({policy})
    .size_ratio({})
    .write_buffer({})
    .filter(
        FilterOptions::new()
            .family(FilterFamily::{family})
            .bits_per_key({:?}){allocation},
    )",
        options.size_ratio, options.write_buffer, options.filter.bits_per_key
    )
}
