//! Table 2: how lookup cost grows, checked on the model's numbers and on measured trees.
use super::trees;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::monkey::{point_lookup_cost, threshold_bits, uniform_cost};
use shamba_model::tree::{MergePolicy, Tree};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-table-2",
    title: "Asymptotic lookup cost",
    claim: "With filters above M_threshold a lookup costs O(L e^-M/N) in the state of the art (times T with \
            tiering) and O(e^-M/N) with Monkey: a factor L less. Below it, L with uniform filters, and with \
            Monkey only as many levels as have no filter. At the limit of T both are a log or a sorted array.",
    seconds: 4.0,
    run,
};

const ENTRIES: f64 = (1u64 << 40) as f64;

/// Reads of an empty lookup with uniform filters and Monkey's.
fn costs(policy: MergePolicy, ratio: u32, levels: u32, bits_per_key: f64) -> Result<(f64, f64)> {
    let tree = Tree::new(policy, ratio, levels, ENTRIES)?;
    let bits = bits_per_key * ENTRIES;
    Ok((
        uniform_cost(&tree, 0.0, bits)?,
        point_lookup_cost(&tree, 0.0, bits)?,
    ))
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Reads of an empty lookup by the model as levels double");
    let (mut even_growth, mut best_growth): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut series = vec![Series::new("uniform, model"), Series::new("Monkey, model")];
    for (policy, ratio) in [
        (MergePolicy::Leveling, 2),
        (MergePolicy::Leveling, 10),
        (MergePolicy::Tiering, 4),
        (MergePolicy::Tiering, 10),
    ] {
        let bits = 5.0;
        let all: Vec<(f64, f64)> = [5, 10, 20]
            .into_iter()
            .map(|levels| costs(policy, ratio, levels, bits))
            .collect::<Result<_>>()?;
        for (levels, (even, best)) in [5.0, 10.0, 20.0].into_iter().zip(&all) {
            table.add(row! {
                "policy": trees::policy(policy),
                "T": f64::from(ratio),
                "bits per key": bits,
                "levels": levels,
                "uniform": *even,
                "Monkey": *best,
            });
        }
        even_growth.push(all[2].0 / all[1].0);
        best_growth.push(all[2].1 / all[1].1);
    }
    for levels in 1..=20 {
        let (even, best) = costs(MergePolicy::Leveling, 2, levels, 5.0)?;
        series[0].points.push((f64::from(levels), even));
        series[1].points.push((f64::from(levels), best));
    }
    let (even_4, best_4) = costs(MergePolicy::Leveling, 4, 10, 8.0)?;
    let (even_t, best_t) = costs(MergePolicy::Tiering, 4, 10, 8.0)?;
    let tree = Tree::new(MergePolicy::Leveling, 2, 20, ENTRIES)?;
    let threshold = threshold_bits(&tree, 0.0)? / ENTRIES;
    let (even_few, best_few) = costs(MergePolicy::Leveling, 2, 20, threshold / 16.0)?;
    let (measured, panel, growth) = measured(lab)?;
    let all_near = |values: &[f64], goal: f64| values.iter().all(|v| (v / goal - 1.0).abs() < 0.02);
    Ok(Findings {
        setting: format!("The model with N = 2^40. Measured: {}", trees::setting(lab)),
        claims: vec![
            Claim::statement(
                "growth of uniform filters' cost from 10 to 20 levels (model)",
                "O(L): 2",
                format!("{even_growth:.3?}"),
                all_near(&even_growth, 2.0),
            ).by_model(),
            Claim::statement(
                "growth of Monkey's cost from 10 to 20 levels (model)",
                "O(1): 1",
                format!("{best_growth:.3?}"),
                all_near(&best_growth, 1.0),
            ).by_model(),
            Claim::statement(
                "cost of tiering over that of leveling, T = 4 (model)",
                "O(T): T - 1",
                format!(
                    "uniform {:.3}, Monkey {:.3}",
                    even_t / even_4,
                    best_t / best_4
                ),
                all_near(&[even_t / even_4, best_t / best_4], 3.0),
            ).by_model(),
            Claim::figure("M_threshold at T = 2, bits per key", 1.44, threshold).by_model(),
            Claim::statement(
                "reads with a sixteenth of M_threshold in 20 levels (model)",
                "uniform: about all 20; Monkey: the four levels without filters and what the others let through",
                format!("{even_few:.1} and {best_few:.1}"),
                best_few < 6.5 && even_few > 15.0,
            ).by_model(),
            Claim::statement(
                "growth of searches in vain as measured levels double",
                "uniform 2, Monkey about 1",
                format!("{:.2}, {:.2}", growth.0, growth.1),
                growth.0 > 1.7 && growth.1 < 1.25,
            ),
        ],
        tables: vec![table, measured],
        panels: vec![
            Panel {
                title: "by the model, T = 2, 5 bits per key".into(),
                x: "levels".into(),
                y: "reads per empty lookup".into(),
                log_y: false,
                series,
            },
            panel,
        ],
        ..Findings::default()
    })
}

/// Half of the default levels, and all of them.
fn measured(lab: &mut Lab<'_>) -> Result<(Report, Panel, (f64, f64))> {
    let default = trees::default(lab);
    let mut table =
        Report::titled("Searches in vain of an empty lookup, measured beside the model");
    let mut series = Vec::new();
    let mut growth = Vec::new();
    for filters in [Filters::Uniform, Filters::Zero] {
        let mut ends = Vec::new();
        for levels in 1..=default.levels {
            let tree = FullTree {
                levels,
                filters,
                ..default
            };
            let seen = trees::equal(lab, tree, &[Lookups::Mixed(0.0)])?.lookups[0];
            let (x, name) = (f64::from(levels), trees::name(filters));
            trees::add(&mut series, &format!("{name}, measured"), (x, seen.in_vain));
            trees::add(&mut series, &format!("{name}, model"), (x, seen.model));
            table.add(row! {
                "filters": name,
                "levels": x,
                "searches in vain": seen.in_vain,
                "model": seen.model,
            });
            if levels == default.levels / 2 || levels == default.levels {
                ends.push(seen.in_vain);
            }
        }
        growth.push(ends[1] / ends[0]);
    }
    let panel = Panel {
        title: "measured".into(),
        x: "levels".into(),
        y: "searches in vain per empty lookup".into(),
        log_y: false,
        series,
    };
    Ok((table, panel, (growth[0], growth[1])))
}
