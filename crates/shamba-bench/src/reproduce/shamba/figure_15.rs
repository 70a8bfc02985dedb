//! Figure 15: what modules gain by the size of indexes beside filters, that is, by the size of
//! keys.
use super::pressure::MEMORY;
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::{Distribution, KeyKind};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-15",
    title: "The gain by size of keys",
    claim: "With entries of 128 B SHaMBa-eq is up to twice as fast where keys are small and indexes far \
            smaller than filters; with indexes larger than filters (keys over 64 B) the gain shrinks.",
    seconds: 25.0,
    run,
};

/// Bytes of an entry.
const ENTRY: u16 = 128;

/// Index over filter size with 128-byte entries, by key size, as the paper's Table 2 has them (and
/// its text for 124 B).
const PAPER: [(u16, f64); 4] = [(8, 0.2), (32, 0.8), (64, 1.6), (124, 3.1)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (scale, entries) = (lab.scale, lab.scale.entries());
    let sizes: &[u16] = match scale.pick(0, 1, 1, 1) {
        0 => &[8, 124],
        _ => &[8, 32, 64, 124],
    };
    let budgets: &[f64] = match scale.pick(0, 1, 2, 2) {
        0 => &[40.0],
        1 => &[25.0, 50.0, 75.0, 100.0],
        _ => &[10.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0],
    };
    let mut table = Report::titled("SHaMBa-eq over one filter a file, by key size");
    let mut series = Vec::new();
    let mut gains = Vec::new();
    let mut indexes = Vec::new();
    for &size in sizes {
        let base = |engine: &str| Base {
            keys: KeyKind::Sized(size),
            value: usize::from(ENTRY - size).into(),
            entries: entries / 2,
            ..lab.base(engine)
        };
        let (plain, equal) = (base(STATE_OF_THE_ART), base("shamba:shamba-eq"));
        let filters = plain.entries as f64 * plain.bits_per_key / 8.0;
        let index = lab.metadata(&plain)? as f64 / filters - 1.0;
        indexes.push(index);
        let mut line = Series::new(format!("keys of {size} B"));
        for percent in lab.budgets(&plain, budgets)? {
            let mut measure = |base: &Base| {
                let trial = lab.lookups_in(base.clone(), percent, 0.0, Distribution::Uniform)?;
                lab.measure(&trial.on(Device::Disk))
            };
            let (before, after) = (measure(&plain)?, measure(&equal)?);
            let gain = before.times.mean_us / after.times.mean_us;
            let paper = PAPER.iter().find(|paper| paper.0 == size);
            table.add(row! {
                "key bytes": u32::from(size),
                "paper, index over filter bytes": paper.map(|paper| paper.1),
                "index over filter bytes": index,
                "budget %": percent,
                "state of the art, us": before.times.mean_us,
                "shamba-eq, us": after.times.mean_us,
                "state of the art, pages": before.pages(),
                "shamba-eq, pages": after.pages(),
                "times as fast": gain,
            });
            line.points.push((percent, gain));
        }
        gains.push(line.points.iter().map(|point| point.1).collect::<Vec<_>>());
        series.push(line);
    }
    let last = sizes.len() - 1;
    let best = gains
        .iter()
        .map(|gains| gains.iter().copied().fold(0.0, f64::max));
    let best: Vec<f64> = best.collect();
    let claims = vec![
        Claim::up_to("times as fast, keys of 8 B", 2.0, &gains[0]),
        Claim::statement(
            "the gain shrinks with larger keys",
            "yes",
            format!("at best {best:.2?} times for keys of {sizes:?} B"),
            best[last] < best[0],
        )
        .because(indexes[last] < 1.0, format!(
            "indexes do not grow with keys here: separators are cut to the shortest that separate, so \
             that indexes take {:.3} of the bytes of filters with keys of {} B and {:.3} with {} B",
            indexes[0], sizes[0], indexes[last], sizes[last]
        )),
    ];
    let clock = "times are this machine's, its disk read past the page cache";
    let title = "SHaMBa-eq over one filter a file";
    Ok(Findings {
        setting: super::pressure::setting(lab, clock).replace(
            &format!("{entries} entries of 64 B (keys 32 B)"),
            &format!(
                "{} entries of {ENTRY} B, uniform empty lookups",
                entries / 2
            ),
        ),
        tables: vec![table],
        panels: vec![Panel::new(title, MEMORY, "times as fast", series)],
        claims,
        ..Findings::default()
    })
}
