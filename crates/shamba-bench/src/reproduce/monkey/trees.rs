//! The trees that the paper's lookup experiments have in common, measured once for all figures, and
//! what figures say of them.
use crate::Result;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups, Measured};
use crate::plot::Series;
use crate::reproduce::{Claim, Lab};
use shamba_model::cost::{Device, Environment, Workload};
use shamba_model::tree::MergePolicy;

/// Shares of existing keys (of the last level) that every tree is asked for.
pub(super) const MIXES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Bits per key in the paper's default setting.
pub(super) const BITS: f64 = 5.0;

/// How far searches may be from the model's: the goal of the project's model experiment.
const NEAR_MODEL: f64 = 0.1;

/// The paper's default: size ratio 2, at which leveling and tiering have the same runs; 5 bits per
/// key.
pub(super) fn default(lab: &Lab<'_>) -> FullTree {
    let scale = lab.scale;
    FullTree {
        policy: MergePolicy::Tiering,
        size_ratio: 2,
        levels: scale.pick(4, 10, 10, 10),
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
    lab.scale.pick(400, 12_000, 100_000, 100_000)
}

/// The setting in a sentence.
pub(super) fn setting(lab: &Lab<'_>) -> String {
    let tree = default(lab);
    format!(
        "Size ratio 2 and {BITS} bits per key where nothing else is said, {} entries of {} B in {} levels, \
         buffers of {} entries (the paper: 1 GB of 1 KB, 1 MB), full merges, Bloom filters of equal \
         memory, no cache but 64 KiB, {} lookups of each kind; in memory, searches and reads counted by the engine.",
        tree.entries(),
        tree.value + 16,
        tree.levels,
        tree.buffer_entries,
        count(lab),
    )
}

/// Measures lookups in a tree, unless another figure has.
pub(super) fn measure(lab: &mut Lab<'_>, tree: FullTree, kinds: &[Lookups]) -> Result<Measured> {
    let count = count(lab);
    lab.once(&(tree, kinds), || tree.measure(kinds, count))
}

/// The same with all of [`MIXES`].
pub(super) fn mixes(lab: &mut Lab<'_>, tree: FullTree) -> Result<Measured> {
    measure(lab, tree, &MIXES.map(Lookups::Mixed))
}

/// Measures lookups in a tree whose filters come out with the bits per key that are asked for:
/// while it grows, a tree with Monkey's filters gets some more. Trees to be compared have equal
/// memory so.
pub(super) fn equal(lab: &mut Lab<'_>, tree: FullTree, kinds: &[Lookups]) -> Result<Measured> {
    let asked = tree.bits_per_key;
    let got = measure(lab, tree, &[])?.bits_per_key;
    let tree = match tree.filters {
        // So few that a tree has none at all stay what they are.
        _ if got < asked / 2.0 => tree,
        Filters::Uniform => tree,
        _ => FullTree {
            bits_per_key: asked * asked / got,
            ..tree
        },
    };
    measure(lab, tree, kinds)
}

/// How filters are divided, as the paper names it.
pub(super) fn name(filters: Filters) -> &'static str {
    match filters {
        Filters::Uniform => "uniform",
        Filters::Zero => "Monkey",
        Filters::General(_) => "Monkey general",
    }
}

/// Data as the model has it, on a device on which writes are as dear as reads.
pub(super) fn environment(entries: f64, entry_bytes: f64) -> Environment {
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

/// A point of a line, by name.
pub(super) fn add(series: &mut Vec<Series>, name: &str, point: (f64, f64)) {
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => series.push(Series {
            name: name.to_owned(),
            points: vec![point],
        }),
    }
}

/// Measured numbers and the model's of the same.
#[derive(Default)]
pub(super) struct BesideModel(Vec<(f64, f64, f64)>);

impl BesideModel {
    /// A mean of `count` lookups that came out as `measured`, and what the model says.
    pub(super) fn add(&mut self, measured: f64, model: f64, count: u64) {
        self.0.push((measured, model, count as f64));
    }

    /// All are within a tenth of the model's, or within three standard errors of it where few
    /// events were counted.
    pub(super) fn claim(&self, what: &str) -> Claim {
        let far = |(measured, model, count): &(f64, f64, f64)| {
            let error = 3.0 * (model.max(1e-9) / count).sqrt();
            (measured - model).abs() > (NEAR_MODEL * model).max(error)
        };
        let worst = self.0.iter().max_by(|a, b| {
            let off =
                |(measured, model, _): &(f64, f64, f64)| (measured - model).abs() / model.max(1e-9);
            off(a).total_cmp(&off(b))
        });
        let bad = self.0.iter().filter(|point| far(point)).count();
        Claim::statement(
            what,
            "curves of model and measurement lie on each other",
            match worst {
                Some((measured, model, _)) => format!(
                    "{} of {} points within 10 % or three standard errors; farthest {measured:.4} beside {model:.4}",
                    self.0.len() - bad,
                    self.0.len()
                ),
                None => "nothing measured".to_owned(),
            },
            bad == 0 && !self.0.is_empty(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Verdict;

    #[test]
    fn few_events_may_be_farther_from_the_model() {
        let verdict = |measured, model, count| {
            let mut beside = BesideModel::default();
            beside.add(measured, model, count);
            beside.claim("").verdict
        };
        assert_eq!(verdict(1.09, 1.0, 1_000_000), Verdict::Holds);
        assert_eq!(verdict(1.11, 1.0, 1_000_000), Verdict::DoesNotHold);
        assert_eq!(verdict(0.013, 0.010, 1_000), Verdict::Holds);
        assert_eq!(
            BesideModel::default().claim("").verdict,
            Verdict::DoesNotHold
        );
    }
}
