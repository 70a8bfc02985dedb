//! The trees that the paper's lookup experiments have in common, measured once for all figures; the
//! curves that they make, as tables and diagrams; and what figures say of them.
use crate::experiments::full_tree::{Filters, FullTree, Lookups, Point};
use crate::reproduce::prelude::*;
use shamba_model::cost::{Allocation, Design, Device, Environment, Workload};
use shamba_model::tree::MergePolicy;

/// From lookups that find nothing to lookups that all find their key, on the last level: what every
/// tree is asked for that two figures have.
pub(super) fn mixes() -> [Lookups; 5] {
    [0.0, 0.25, 0.5, 0.75, 1.0].map(Lookups::Mixed)
}

/// Lookups of absent keys.
pub(super) const EMPTY: [Lookups; 1] = [Lookups::Mixed(0.0)];

/// Filters that only the state of the art and Monkey have, and those of all three.
pub(super) const TWO: [Filters; 2] = [Filters::Uniform, Filters::Zero];
pub(super) const THREE: [Filters; 3] = [Filters::Uniform, Filters::Zero, Filters::General(1.0)];

/// Bits per key in the paper's default setting.
pub(super) const BITS: f64 = 5.0;

/// How far searches may be from the model's.
const NEAR_MODEL: f64 = 0.1;

/// The paper's default: size ratio 2, at which leveling and tiering have the same runs; 5 bits per
/// key.
pub(super) fn default(lab: &Lab<'_>) -> FullTree {
    let scale = lab.scale;
    FullTree {
        policy: MergePolicy::Tiering,
        size_ratio: 2,
        levels: scale.tiny_or(4, 10),
        buffer_entries: scale.pick(32, 32, 256, 1024),
        value: scale.pick(100, 240, 240, 1000),
        bits_per_key: BITS,
        filters: Filters::Uniform,
        cached: 0.0,
        seed: lab.seed,
    }
}

/// Lookups of a kind.
pub(super) fn count(lab: &Lab<'_>) -> u64 {
    lab.scale.pick(400, 12_000, 50_000, 100_000)
}

/// The setting in a sentence.
pub(super) fn setting(lab: &Lab<'_>) -> String {
    setting_of(lab, &default(lab), "1 GB of 1 KB, 1 MB")
}

/// The same where trees are others; the paper has these entries and this buffer.
pub(super) fn setting_of(lab: &Lab<'_>, tree: &FullTree, paper: &str) -> String {
    format!(
        "Size ratio {} and {BITS} bits per key where nothing else is said, {} entries of {} B in {} levels, \
         buffers of {} entries (the paper: {paper}), full merges, Bloom filters of about equal \
         memory (the tables have the bits), no cache but 64 KiB, {} lookups of each kind; in memory, searches and reads counted by the engine.",
        tree.size_ratio,
        tree.entries(),
        tree.value + 16,
        tree.levels,
        tree.buffer_entries,
        count(lab),
    )
}

/// Measures lookups in a tree, unless another figure has: a point for each kind.
pub(super) fn measure(lab: &mut Lab<'_>, tree: FullTree, kinds: &[Lookups]) -> Result<Vec<Point>> {
    let count = count(lab);
    lab.measured("full tree", &(tree, kinds, count), |_| {
        tree.measure(kinds, count)
    })
}

/// Memory is equal if it differs by no more than this part.
const EQUAL: f64 = 0.01;

/// So many trees are written to find one of equal memory.
const TRIES: usize = 6;

/// Measures lookups in a tree whose filters come out with the bits per key that are asked for, or
/// as near to them as there is one: while it grows, a tree with Monkey's filters gets some more,
/// and levels have filters or none. Trees to be compared have equal memory so.
pub(super) fn equal(lab: &mut Lab<'_>, tree: FullTree, kinds: &[Lookups]) -> Result<Vec<Point>> {
    let wanted = tree.bits_per_key;
    let with = |bits_per_key| FullTree {
        bits_per_key,
        ..tree
    };
    // What to ask for and what comes of it: the nearest, and the nearest on each side.
    let mut asked = wanted;
    let mut best: Option<(f64, f64)> = None;
    let (mut below, mut above) = (None, None);
    for _ in 0..TRIES {
        let tried = with(asked);
        let got = lab.measured("bits", &tried, |_| tried.real_bits_per_key())?;
        let off = |got: f64| (got / wanted - 1.0).abs();
        if best.is_none_or(|(_, nearest)| off(got) < off(nearest)) {
            best = Some((asked, got));
        }
        // So few that a tree has none at all stay what they are.
        if off(got) <= EQUAL || got <= wanted / 2.0 || tree.filters == Filters::Uniform {
            break;
        }
        *(if got < wanted { &mut below } else { &mut above }) = Some((asked, got));
        asked = match (below, above) {
            (Some((low, less)), Some((high, more))) if less < more => {
                low + (high - low) * (wanted - less) / (more - less)
            }
            _ => asked * wanted / got,
        };
    }
    measure(lab, with(best.map_or(wanted, |(asked, _)| asked)), kinds)
}

/// Lookups of these kinds in each of the trees with each of these filters, by [`measure`] or
/// [`equal`].
pub(super) fn sweep(
    lab: &mut Lab<'_>,
    measure: fn(&mut Lab<'_>, FullTree, &[Lookups]) -> Result<Vec<Point>>,
    trees: impl IntoIterator<Item = FullTree>,
    filters: &[Filters],
    kinds: &[Lookups],
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for tree in trees {
        for &filters in filters {
            points.extend(measure(lab, FullTree { filters, ..tree }, kinds)?);
        }
    }
    Ok(points)
}

/// Lookups of absent keys in each of the trees, with uniform filters and with Monkey's of as much
/// memory.
pub(super) fn empty(
    lab: &mut Lab<'_>,
    trees: impl IntoIterator<Item = FullTree>,
) -> Result<Vec<Point>> {
    sweep(lab, equal, trees, &TWO, &EMPTY)
}

/// The tree with each of these numbers of bits per key.
pub(super) fn with_bits(tree: FullTree, bits: &[f64]) -> impl Iterator<Item = FullTree> {
    let with = move |&bits_per_key| FullTree {
        bits_per_key,
        ..tree
    };
    bits.iter().map(with)
}

/// Trees of one level, two, and more with one buffer, asked for absent keys.
pub(super) fn by_levels(
    lab: &mut Lab<'_>,
    x: &'static str,
    at: fn(&Point) -> f64,
) -> Result<Curves> {
    let default = default(lab);
    let tree = |levels| FullTree { levels, ..default };
    let points = empty(lab, (1..=default.levels).map(tree))?;
    Ok(Curves { x, at, points })
}

/// Measured points over one quantity: a curve for each way to divide filter memory, and the
/// model's.
pub(super) struct Curves {
    /// What they are over, with its unit.
    pub(super) x: &'static str,
    pub(super) at: fn(&Point) -> f64,
    pub(super) points: Vec<Point>,
}

impl Curves {
    /// Points over filter memory.
    pub(super) fn by_bits(points: Vec<Point>) -> Self {
        Self {
            x: "bits per key",
            at: |point| point.bits_per_key,
            points,
        }
    }

    /// Of each kind of filters, uniform, Monkey's for absent keys and Monkey's for others, a number
    /// of every point.
    pub(super) fn each(&self, of: impl Fn(&Point) -> f64) -> [Vec<f64>; 3] {
        THREE.map(|filters| {
            let same = |point: &&Point| name(point.tree.filters) == name(filters);
            self.points.iter().filter(same).map(&of).collect()
        })
    }

    /// What Monkey's filters for absent keys save of a number of uniform ones', in percent.
    pub(super) fn saved(&self, of: impl Fn(&Point) -> f64) -> Vec<f64> {
        let [even, best, _] = self.each(of);
        saved(&even, &best)
    }

    /// A row of a point; `x` is the name of the column of what it is over.
    pub(super) fn row(&self, x: &str, point: &Point) -> Vec<(String, Cell)> {
        row! {
            x: (self.at)(point),
            "filters": name(point.tree.filters),
            "filter bits per key": point.bits_per_key,
            "searches": point.searches,
            "model": point.model,
            "searches in vain": point.in_vain,
            "reads": point.reads,
        }
    }

    pub(super) fn table(&self, title: impl Into<String>) -> Report {
        Report::of(title, &self.points, |point| self.row(self.x, point))
    }

    /// Searches of a lookup, each worth so much in the unit of `y`, beside the model's.
    pub(super) fn panel(&self, title: impl Into<String>, y: &str, each: f64) -> Panel {
        self.panel_over((self.x, self.at), title, y, each)
    }

    /// The same over another quantity.
    pub(super) fn panel_over(
        &self,
        (x, at): (&str, impl Fn(&Point) -> f64),
        title: impl Into<String>,
        y: &str,
        each: f64,
    ) -> Panel {
        let mut series = Vec::new();
        for point in &self.points {
            let (at, name) = (at(point), name(point.tree.filters));
            plot::add(&mut series, name, (at, point.searches * each));
            let model = format!("{name}, model");
            plot::add(&mut series, &model, (at, point.model * each));
        }
        Panel::new(title, x, y, series)
    }
}

/// How filters are divided, as the paper names it.
pub(super) fn name(filters: Filters) -> &'static str {
    match filters {
        Filters::Uniform => "uniform",
        Filters::Zero => "Monkey",
        Filters::General(_) => "Monkey general",
    }
}

/// A leveled design.
pub(super) fn leveled(
    size_ratio: u32,
    buffer_bytes: f64,
    filter_bytes: f64,
    allocation: Allocation,
) -> Design {
    Design {
        policy: MergePolicy::Leveling,
        size_ratio,
        buffer_bytes,
        filter_bytes,
        allocation,
    }
}

/// Data as the model has it, on a device on which writes are as dear as reads.
pub fn environment(entries: f64, entry_bytes: f64) -> Environment {
    Environment {
        entries,
        entry_bytes,
        device: Device {
            page_bytes: 4096.0,
            read_seconds: 1e-4,
            write_cost: 1.0,
            merge_read_cost: 1.0,
        },
    }
}

/// Shares of lookups of absent and of existing keys; the rest are updates.
pub(super) fn workload(empty: f64, existing: f64) -> Workload {
    Workload {
        empty_lookups: empty,
        existing_lookups: existing,
        range_lookups: 0.0,
        updates: 1.0 - empty - existing,
        selectivity: 0.0,
    }
}

/// A merge policy's name.
pub(super) fn policy(policy: MergePolicy) -> &'static str {
    match policy {
        MergePolicy::Leveling => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
    }
}

/// The largest over the smallest.
pub(super) fn spread(values: &[f64]) -> f64 {
    most_of(values) / least_of(values)
}

/// What the others are less than the ones, in percent.
pub(super) fn saved(ones: &[f64], others: &[f64]) -> Vec<f64> {
    let saved = |(one, other): (&f64, &f64)| (1.0 - other / one) * 100.0;
    ones.iter().zip(others).map(saved).collect()
}

/// Searches are all within a tenth of the model's, or within three standard errors of it where few
/// events were counted.
pub(super) fn near_model<'a>(what: &str, points: impl IntoIterator<Item = &'a Point>) -> Claim {
    let points = points.into_iter().map(|point| {
        let (measured, model) = (point.searches, point.model);
        let error = 3.0 * (model.max(1e-9) / point.count as f64).sqrt();
        let far = (measured - model).abs() > (NEAR_MODEL * model).max(error);
        let off = (measured - model).abs() / model.max(1e-9);
        (off, far, measured, model)
    });
    let points: Vec<_> = points.collect();
    let bad = points.iter().filter(|(_, far, ..)| *far).count();
    let worst = points.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let (near, all) = (points.len() - bad, points.len());
    let seen = match worst {
        Some((.., measured, model)) => {
            format!("{near} of {all} points; farthest {measured:.4} beside {model:.4}")
        }
        None => "nothing measured".to_owned(),
    };
    let aim = "within 10 % or three standard errors at each point";
    Claim::statement(what, aim, seen, bad == 0 && all > 0).as_goal()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reproduce::Verdict;

    /// A point of a tree that is only named.
    pub(crate) fn point(filters: Filters, searches: f64, model: f64) -> Point {
        Point {
            tree: FullTree {
                policy: MergePolicy::Leveling,
                size_ratio: 2,
                levels: 1,
                buffer_entries: 1,
                value: 0,
                bits_per_key: BITS,
                filters,
                cached: 0.0,
                seed: 1,
            },
            kind: EMPTY[0],
            count: 1_000_000,
            bits_per_key: BITS,
            writes: 1.0,
            searches,
            in_vain: searches,
            reads: searches,
            model,
        }
    }

    #[test]
    fn few_events_may_be_farther_from_the_model() {
        let verdict = |searches, model, count| {
            let point = point(Filters::Zero, searches, model);
            near_model("", &[Point { count, ..point }]).verdict
        };
        assert_eq!(verdict(1.09, 1.0, 1_000_000), Verdict::Met);
        assert_eq!(verdict(1.11, 1.0, 1_000_000), Verdict::Missed);
        assert_eq!(verdict(0.013, 0.010, 1_000), Verdict::Met);
        assert_eq!(near_model("", &[]).verdict, Verdict::Missed);
    }
}
