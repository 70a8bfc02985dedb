//! Figure 8: the curve of lookup cost against update cost, from a log to a sorted array.
use super::{trade_off, trees};
use crate::reproduce::claim::TOLERANCE;
use crate::reproduce::prelude::*;
use shamba_model::cost::Allocation;
use shamba_model::curve::Curve;
use shamba_model::trade_off as model;
use shamba_model::tree::MergePolicy;

const POLICIES: [MergePolicy; 2] = [MergePolicy::Tiering, MergePolicy::Leveling];

/// 2^27 entries of 128 B, a buffer of 8 MB, 5 bits per key.
fn model_points(allocation: Allocation) -> Result<Vec<model::Point>> {
    let entries = f64::from(1u32 << 27);
    let environment = trees::environment(entries, 128.0);
    let workload = trees::workload(0.5, 0.0);
    let design = trees::leveled(2, 8e6, entries * trees::BITS / 8.0, allocation);
    let curve = Curve::ideal();
    Ok(model::trade_off(
        &design,
        &POLICIES,
        &environment,
        &workload,
        &curve,
    )?)
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let even = model_points(Allocation::Uniform)?;
    let best = model_points(Allocation::Monkey)?;
    let mut table = Report::titled(
        "Reads of an empty lookup and cost of an update by the model; 2^27 entries of 128 B",
    );
    let mut lines = Vec::new();
    for (even, best) in even.iter().zip(&best) {
        let (update, policy) = (best.costs.update, trees::policy(best.design.policy));
        let (even, best_reads) = (even.costs.empty_lookup, best.costs.empty_lookup);
        let x = update.log10();
        plot::add(&mut lines, &format!("uniform, {policy}"), (x, even));
        plot::add(&mut lines, &format!("Monkey, {policy}"), (x, best_reads));
        table.add(row! {
            "policy": policy,
            "T": best.design.size_ratio,
            "levels": best.costs.levels,
            "update pages": update,
            "uniform reads": even,
            "Monkey reads": best_reads,
        });
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let [empty, existing] = trade_off::measure(lab)?;
    let [even, best, _] = empty.each(|point| point.in_vain);
    let much = |(even, best): &(&f64, &f64)| **best > (1.0 - TOLERANCE) * **even;
    let lost = even.iter().zip(&best).filter(much);
    let mut off = 0.0f64;
    for point in &empty.points {
        let [model, _] = trade_off::model_writes(point)?;
        off = off.max((point.writes / model - 1.0).abs());
    }
    let setting = trees::setting(lab);
    let mut claims = Vec::new();
    let what = "Monkey has more than a tenth fewer searches in vain (\"significantly\", our limit) in every tree measured";
    claims.push(Claim::everywhere_but(what, even.len(), lost.count()));
    claims.push(trees::near_model(
        "measured searches for absent and for existing keys are the model's",
        empty.points.iter().chain(&existing.points),
    ));
    let what =
        "times that an entry is written, at most so far from the model's of the engine's tree, %";
    claims.push(Claim::goal_to(what, 15.0, off * 100.0));
    let tables = vec![
        table,
        trade_off::table("Lookups of absent keys, and updates, measured", &empty)?,
        trade_off::table("Lookups of existing keys, and updates, measured", &existing)?,
    ];
    let (x, y) = ("pages per update, power of ten", "reads per empty lookup");
    let model = Panel::new("by the model", x, y, lines);
    let title = "measured, from tiering to leveling";
    let measured = empty.panel(title, "searches per empty lookup", 1.0);
    let panels = [model, measured].map(Panel::logarithmic);
    Ok(Findings::of(setting, tables, panels, claims))
}
