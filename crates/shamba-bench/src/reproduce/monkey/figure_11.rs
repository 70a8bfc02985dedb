//! Figure 11: what each knob of the design contributes, over memory, for four workloads. By the
//! model.
use super::trees;
use crate::reproduce::prelude::*;
use shamba_model::cost::Allocation;
use shamba_model::curve::Curve;
use shamba_model::search::{Knob, Step, contributions};
use shamba_model::tree::MergePolicy;

/// Names and shares of lookups: of these half find their key.
const WORKLOADS: [(&str, f64); 4] = [
    ("write-mostly, 5 % lookups", 0.05),
    ("balanced, 50 % lookups", 0.5),
    ("read-heavy, 80 % lookups", 0.8),
    ("read-mostly, 95 % lookups", 0.95),
];

/// Why no verdict follows.
const UNTOLD: &str = "the paper names its workloads and gives neither their shares of lookups nor the number and size of \
                      entries: those here are chosen";

const STEPS: [(Knob, &str); 7] = [
    (Knob::None, "state of the art"),
    (Knob::Filters, "+ filter allocation"),
    (Knob::MemorySplit, "+ memory split"),
    (Knob::MergePolicy, "+ merge policy"),
    (Knob::SizeRatio, "+ size ratio"),
    (Knob::Merging, "+ policy and ratio"),
    (Knob::All, "all at once"),
];

const POLICIES: [MergePolicy; 2] = [MergePolicy::Leveling, MergePolicy::Tiering];

fn steps(lookups: f64, bits_per_entry: f64) -> Result<Vec<Step>> {
    let environment = trees::environment(1e9, 128.0);
    let memory = bits_per_entry / 8.0 * environment.entries;
    // The rule of thumb: 95 % for filters.
    let start = trees::leveled(10, 0.05 * memory, 0.95 * memory, Allocation::Uniform);
    let workload = trees::workload(lookups / 2.0, lookups / 2.0);
    let curve = Curve::ideal();
    Ok(contributions(
        &start,
        &POLICIES,
        &environment,
        &workload,
        &curve,
    )?)
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Cost of an operation in reads with what is optimized, and the design; 1e9 entries of 128 B",
    );
    let (mut least_filters, mut rule_costs) = (Vec::new(), Vec::new());
    let quick: &[f64] = &[0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0];
    let many: &[f64] = &[
        0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 25.0,
    ];
    let memories = lab.scale.pick(&[1.0, 10.0][..], quick, many, many);
    for (workload, lookups) in WORKLOADS {
        let mut rule = 1.0f64;
        for &bits in memories {
            let steps = steps(lookups, bits)?;
            let cost = |knob| {
                let step = steps.iter().find(|step| step.knob == knob);
                step.map_or(f64::NAN, |step| step.costs.average)
            };
            let best = cost(Knob::All);
            // With more the paper has another way.
            if bits <= 20.0 {
                rule = rule.max(cost(Knob::Merging) / best);
            }
            for step in &steps {
                let design = step.design;
                let filters = design.filter_bytes / (design.filter_bytes + design.buffer_bytes);
                if step.knob == Knob::All && bits == memories[0] {
                    least_filters.push(filters * 100.0);
                }
                let step_name = STEPS.iter().find(|(knob, _)| *knob == step.knob);
                table.add(row! {
                    "workload": workload,
                    "memory, bits per entry": bits,
                    "step": step_name.map_or("", |(_, name)| name),
                    "reads per operation": step.costs.average,
                    "throughput, all at once being 1": best / step.costs.average,
                    "policy": trees::policy(design.policy),
                    "T": design.size_ratio,
                    "filters % of memory": filters * 100.0,
                });
            }
        }
        rule_costs.push(rule);
    }
    let mut claims = Vec::new();
    let what = "share of the least memory that filters get";
    let seen = format!("{least_filters:.0?} % for the four workloads");
    claims.push(
        Claim::statement(
            what,
            "0 % for a write-mostly workload",
            seen,
            least_filters.first().is_some_and(|share| *share < 1.0),
        )
        .without_verdict(UNTOLD),
    );
    let what = "cost of the best policy and ratio with 95 % for filters over that of all at once, at most (up to 20 bits per entry)";
    let seen = format!("{rule_costs:.2?} for the four workloads");
    claims.push(
        Claim::statement(
            what,
            "close to 1 for all but the write-mostly one (b to d)",
            seen,
            rule_costs.iter().skip(1).all(|cost| *cost < 1.1),
        )
        .without_verdict(UNTOLD),
    );
    let y = "throughput, all at once being 1";
    let panels = plot::of_report(&table, "workload", "step", "memory, bits per entry", y);
    Ok(Findings::of("", [table], panels, claims))
}
