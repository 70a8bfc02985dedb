//! Figure 9: lookup and update cost as memory goes from the filters to the buffer.
use super::trees::{self, Curves};
use crate::experiments::full_tree::FullTree;
use crate::reproduce::prelude::*;
use shamba_model::cost::{Allocation, Costs, costs};
use shamba_model::curve::Curve;

/// 2^35 entries of 16 B, size ratio 4, and 35 GB for buffer and filters.
const ENTRIES: f64 = (1u64 << 35) as f64;
const MEMORY: f64 = 35e9;

fn model(buffer: f64, allocation: Allocation) -> Result<Costs> {
    let environment = trees::environment(ENTRIES, 16.0);
    let workload = trees::workload(0.5, 0.0);
    let design = trees::leveled(4, buffer, MEMORY - buffer, allocation);
    Ok(costs(&design, &environment, &workload, &Curve::ideal())?)
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Costs by the model; 2^35 entries of 16 B, T = 4, leveling, 35 GB for buffer and filters",
    );
    let (mut lookups, mut updates) = (Vec::new(), Vec::new());
    // From a page to all of it.
    let steps = 46;
    for step in 0..=steps {
        let buffer = 4096.0 * (MEMORY / 4096.0).powf(f64::from(step) / f64::from(steps));
        let even = model(buffer, Allocation::Uniform)?;
        let best = model(buffer, Allocation::Monkey)?;
        table.add(row! {
            "buffer MB": buffer / 1e6,
            "buffer %": buffer / MEMORY * 100.0,
            "uniform reads": even.empty_lookup,
            "Monkey reads": best.empty_lookup,
            "update pages": best.update,
        });
        let x = (buffer / 1e6).log10();
        lookups.push((x, [even.empty_lookup, best.empty_lookup]));
        updates.push((x, best.update));
    }
    // The sweet spot: filters keep 98 % of memory.
    let most = (0.02 * MEMORY / 1e6).log10();
    let small = lookups.iter().filter(|(x, _)| *x <= most);
    let small: Vec<[f64; 2]> = small.map(|(_, costs)| *costs).collect();
    let [even_spread, best_spread] =
        [0, 1].map(|at| trees::spread(&small.iter().map(|costs| costs[at]).collect::<Vec<_>>()));
    let falls = updates.is_sorted_by(|a, b| a.1 >= b.1 - 1e-9);
    // Where the buffer has from nothing to half of the memory, and from there to all.
    let mut at_half = updates
        .iter()
        .filter(|(x, _)| *x <= (0.5 * MEMORY / 1e6).log10());
    let at_half = at_half.next_back().map_or(f64::NAN, |(_, update)| *update);
    let ends = [updates.first(), updates.last()].map(|end| end.map_or(f64::NAN, |(_, cost)| *cost));
    let saved = [ends[0] - at_half, at_half - ends[1]];
    // Where filters of the state of the art cost more than they save.
    let least = (lookups.iter().enumerate())
        .min_by(|(_, (_, a)), (_, (_, b))| a[0].total_cmp(&b[0]))
        .map_or(0, |(at, _)| at);
    let harmed = least as f64 / f64::from(steps) * 100.0;
    let measured = measured(lab)?;
    let [even, best, _] = measured.each(|point| point.in_vain);
    let (even, best) = (trees::spread(&even), trees::spread(&best));
    let x = "buffer, power of ten of MB";
    let setting = trees::setting(lab);
    let mut claims = Vec::new();
    let what = "largest over smallest lookup cost while the buffer grows from a page to 2 % of memory (model)";
    let seen = format!("Monkey {best_spread:.2}, uniform {even_spread:.2}");
    let holds = best_spread < 1.1 && even_spread > 2.0;
    let claim = Claim::statement(what, "Monkey's stays, uniform's falls", seen, holds);
    claims.push(by_model(claim));
    let what = "updates get cheaper as the buffer grows (model)";
    let claim = Claim::statement(what, "yes", if falls { "yes" } else { "no" }, falls);
    claims.push(by_model(claim));
    let what =
        "pages an update that the first and the second half of the memory save the buffer (model)";
    let seen = format!("{:.3} and {:.3}", saved[0], saved[1]);
    let claim = Claim::statement(what, "diminishing returns", seen, saved[0] > saved[1]);
    claims.push(by_model(claim));
    let what = "part of the buffers, by powers from a page to all memory, with which uniform filters would do better with less memory (model)";
    let seen = format!("{harmed:.0} %");
    let paper = "a significant portion (a quarter, our limit)";
    let claim = Claim::statement(what, paper, seen, harmed > 25.0);
    claims.push(by_model(claim));
    let what = "largest over smallest number of searches in vain over all buffers measured";
    let seen = format!("Monkey {best:.2}, uniform {even:.2}");
    let paper = "Monkey's stays, uniform's falls";
    let claim = Claim::statement(what, paper, seen, even > 1.3 && best < 1.3);
    claims.push(claim);
    let title = "Searches of an empty lookup by the size of the buffer, measured beside the model";
    let tables = [table, measured.table(title)];
    let (reads, pages) = ("reads per empty lookup", "pages per update");
    let both = [Series::of("both, model", updates)];
    let panels = [
        Panel::new("lookups", x, reads, trees::model_lines(&lookups)),
        Panel::new("updates", x, pages, both),
        measured.panel("measured", "searches per empty lookup", 1.0),
    ];
    Ok(Findings::of(setting, tables, panels, claims))
}

/// As many entries in more and more levels.
fn measured(lab: &mut Lab<'_>) -> Result<Curves> {
    let default = trees::default(lab);
    let levels = (default.levels / 2..=default.levels).rev().step_by(2);
    let tree = |levels| FullTree {
        levels,
        buffer_entries: default.buffer_entries << (default.levels - levels),
        ..default
    };
    Ok(Curves {
        x: "entries of the buffer, power of two",
        at: |point| (point.tree.buffer_entries as f64).log2(),
        points: trees::empty(lab, levels.map(tree))?,
    })
}
