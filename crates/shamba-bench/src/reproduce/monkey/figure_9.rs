//! Figure 9: lookup and update cost as memory goes from the filters to the buffer.
use super::trees;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::cost::{Allocation, Costs, Design, costs};
use shamba_model::curve::Curve;
use shamba_model::tree::MergePolicy;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-9",
    title: "Memory between buffer and filters",
    claim: "With Monkey the lookup cost does not depend on the size of the buffer, until the buffer takes \
            what the filters need; the state of the art's falls as the buffer grows, so that its filters \
            and buffer compete. A larger buffer makes updates cheaper, at diminishing returns.",
    seconds: 1.5,
    run,
};

/// 2^35 entries of 16 B, size ratio 4, and 35 GB for buffer and filters.
const ENTRIES: f64 = (1u64 << 35) as f64;
const MEMORY: f64 = 35e9;

fn model(buffer: f64, allocation: Allocation) -> Result<Costs> {
    let environment = trees::environment(ENTRIES, 16.0);
    let workload = trees::workload(0.5, 0.0);
    let design = Design {
        policy: MergePolicy::Leveling,
        size_ratio: 4,
        buffer_bytes: buffer,
        filter_bytes: MEMORY - buffer,
        allocation,
    };
    Ok(costs(&design, &environment, &workload, &Curve::ideal())?)
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Costs by the model; 2^35 entries of 16 B, T = 4, leveling, 35 GB for buffer and filters",
    );
    let mut lookups = vec![Series::new("uniform, model"), Series::new("Monkey, model")];
    let mut updates = vec![Series::new("both, model")];
    let mut all = Vec::new();
    // From a page to all of it.
    let steps = 46;
    for step in 0..=steps {
        let buffer = 4096.0 * (MEMORY / 4096.0).powf(f64::from(step) / f64::from(steps));
        let (even, best) = (
            model(buffer, Allocation::Uniform)?,
            model(buffer, Allocation::Monkey)?,
        );
        let x = (buffer / 1e6).log10();
        lookups[0].points.push((x, even.empty_lookup));
        lookups[1].points.push((x, best.empty_lookup));
        updates[0].points.push((x, best.update));
        table.add(row! {
            "buffer MB": buffer / 1e6,
            "buffer %": buffer / MEMORY * 100.0,
            "uniform reads": even.empty_lookup,
            "Monkey reads": best.empty_lookup,
            "update pages": best.update,
        });
        all.push((buffer, even, best));
    }
    // The sweet spot: filters keep 98 % of memory.
    let small = || all.iter().filter(|(buffer, ..)| *buffer <= 0.02 * MEMORY);
    let spread = |of: fn(&(f64, Costs, Costs)) -> f64| {
        let most = small().map(of).fold(f64::MIN, f64::max);
        most / small().map(of).fold(f64::MAX, f64::min)
    };
    let (even_spread, best_spread) = (spread(|a| a.1.empty_lookup), spread(|a| a.2.empty_lookup));
    let falls = all.is_sorted_by(|a, b| a.2.update >= b.2.update - 1e-9);
    let (measured, measured_panel, spreads) = measured(lab)?;
    let panel = |title: &str, y: &str, series| Panel {
        title: title.into(),
        x: "buffer, power of ten of MB".into(),
        y: y.into(),
        log_y: false,
        series,
    };
    Ok(Findings {
        setting: format!(
            "The model: the paper's tree. Measured: buffers of fewer and more entries for as many entries and \
             as much filter memory. {}",
            trees::setting(lab)
        ),
        claims: vec![
            Claim::statement(
                "largest over smallest lookup cost while the buffer grows from a page to 2 % of memory (model)",
                "Monkey's stays, uniform's falls",
                format!("Monkey {best_spread:.2}, uniform {even_spread:.2}"),
                best_spread < 1.1 && even_spread > 2.0,
            ).by_model(),
            Claim::statement(
                "updates get cheaper as the buffer grows (model)",
                "yes",
                if falls { "yes" } else { "no" },
                falls,
            ).by_model(),
            Claim::statement(
                "largest over smallest number of searches in vain over all buffers measured",
                "Monkey's stays, uniform's falls",
                format!("Monkey {:.2}, uniform {:.2}", spreads[1], spreads[0]),
                spreads[1] < spreads[0] && spreads[1] < 1.3,
            ),
        ],
        tables: vec![table, measured],
        panels: vec![
            panel("lookups", "reads per empty lookup", lookups),
            panel("updates", "pages per update", updates),
            measured_panel,
        ],
        ..Findings::default()
    })
}

/// As many entries in more and more levels.
fn measured(lab: &mut Lab<'_>) -> Result<(Report, Panel, [f64; 2])> {
    let default = trees::default(lab);
    let mut table = Report::titled(
        "Searches in vain of an empty lookup by the size of the buffer, measured beside the model",
    );
    let mut series = Vec::new();
    let mut found = [Vec::new(), Vec::new()];
    for levels in (default.levels / 2..=default.levels).rev().step_by(2) {
        for (at, filters) in [Filters::Uniform, Filters::Zero].into_iter().enumerate() {
            let tree = FullTree {
                levels,
                buffer_entries: default.buffer_entries << (default.levels - levels),
                filters,
                ..default
            };
            let seen = trees::equal(lab, tree, &[Lookups::Mixed(0.0)])?;
            let (bits, seen) = (seen.bits_per_key, seen.lookups[0]);
            let x = (tree.buffer_entries as f64).log2();
            let name = trees::name(filters);
            trees::add(&mut series, &format!("{name}, measured"), (x, seen.in_vain));
            trees::add(&mut series, &format!("{name}, model"), (x, seen.model));
            found[at].push(seen.in_vain);
            table.add(row! {
                "buffer entries": tree.buffer_entries as f64,
                "levels": f64::from(levels),
                "filters": name,
                "bits per key": bits,
                "searches in vain": seen.in_vain,
                "model": seen.model,
            });
        }
    }
    let panel = Panel {
        title: "measured".into(),
        x: "entries of the buffer, power of two".into(),
        y: "searches in vain per empty lookup".into(),
        log_y: false,
        series,
    };
    let spread = |all: &Vec<f64>| {
        all.iter().copied().fold(f64::MIN, f64::max) / all.iter().copied().fold(f64::MAX, f64::min)
    };
    Ok((table, panel, [spread(&found[0]), spread(&found[1])]))
}
