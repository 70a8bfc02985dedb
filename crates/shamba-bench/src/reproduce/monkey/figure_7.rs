//! Figure 7: reads of an empty lookup over filter memory, Monkey's beside uniform filters'.
use super::trees::{self, BesideModel};
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::monkey;
use shamba_model::tree::{MergePolicy, Tree};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-7",
    title: "Lookup cost over filter memory, by the model and measured",
    claim: "Monkey's lookup cost is below the state of the art's for any filter memory; with none both \
            are an LSM-tree without filters.",
    seconds: 3.0,
    run,
};

/// The paper's: 2^35 entries of 16 B, size ratio 4, a buffer of 2 MB, so that there are nine
/// levels.
const ENTRIES: f64 = (1u64 << 35) as f64;
const RATIO: u32 = 4;
const LEVELS: u32 = 9;
const GB: f64 = 1e9;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut model = Report::titled(
        "Reads of an empty lookup by Eqs. 7, 8 and 55; 2^35 entries, T = 4, 9 levels",
    );
    let mut panels = Vec::new();
    let (mut below, mut points) = (0, 0);
    let (mut at_none, mut in_the_middle) = (Vec::new(), Vec::new());
    for policy in [MergePolicy::Leveling, MergePolicy::Tiering] {
        let tree = Tree::new(policy, RATIO, LEVELS, ENTRIES)?;
        let mut series = vec![Series::new("uniform, model"), Series::new("Monkey, model")];
        for step in 0..=35 {
            let bits = f64::from(step) * GB * 8.0;
            let even = monkey::uniform_cost(&tree, 0.0, bits)?;
            let best = monkey::point_lookup_cost(&tree, 0.0, bits)?;
            series[0].points.push((f64::from(step), even));
            series[1].points.push((f64::from(step), best));
            if step == 20 {
                in_the_middle.push(best);
            }
            match step {
                0 => at_none.push(best / even),
                _ => {
                    points += 1;
                    below += i32::from(best < even);
                }
            }
            model.add(row! {
                "filters GB": f64::from(step),
                "bits per key": bits / ENTRIES,
                "policy": trees::policy(policy),
                "uniform reads": even,
                "Monkey reads": best,
            });
        }
        panels.push(Panel {
            title: format!("the paper's tree, {}", trees::policy(policy)),
            x: "memory of filters, GB".into(),
            y: "reads per empty lookup".into(),
            log_y: false,
            series,
        });
    }
    let mut beside = BesideModel::default();
    let (table, panel, measured_below) = measured(lab, &mut beside)?;
    panels.push(panel);
    Ok(Findings {
        setting: format!(
            "The model's curves are the paper's tree; the measured ones T = {RATIO}, leveling: {}",
            trees::setting(lab)
        ),
        claims: vec![
            Claim::statement(
                "Monkey's cost is below uniform filters' for any memory (model)",
                "everywhere",
                format!("at {below} of {points} points"),
                below == points,
            )
            .by_model(),
            Claim::figure(
                "Monkey's cost over uniform filters' without memory",
                1.0,
                at_none[0],
            )
            .by_model(),
            Claim::figure(
                "cost of tiering over that of leveling: T - 1",
                3.0,
                in_the_middle[1] / in_the_middle[0],
            )
            .by_model(),
            Claim::statement(
                "Monkey searches in vain less often than uniform filters of the same memory (measured)",
                "everywhere",
                format!("at {} of {} points", measured_below.0, measured_below.1),
                measured_below.0 == measured_below.1,
            ),
            beside.claim("measured searches are the model's"),
        ],
        tables: vec![model, table],
        panels,
        ..Findings::default()
    })
}

/// A leveled tree of size ratio 4 with more and more bits per key.
fn measured(
    lab: &mut Lab<'_>,
    beside: &mut BesideModel,
) -> Result<(Report, Panel, (usize, usize))> {
    let mut table =
        Report::titled("Searches in vain of an empty lookup, measured beside the model");
    let mut series = Vec::new();
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    let many: &[f64] = &[0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
    let bits = lab
        .scale
        .pick(&many[4..5], &[1.0, 2.0, 4.0, 6.0], many, many);
    for &bits in bits {
        let mut both = Vec::new();
        for filters in [Filters::Uniform, Filters::Zero] {
            let tree = FullTree {
                policy: MergePolicy::Leveling,
                size_ratio: RATIO,
                levels: lab.scale.pick(2, 4, 5, 5),
                buffer_entries: 128,
                bits_per_key: bits,
                filters,
                ..trees::default(lab)
            };
            let measured = trees::measure(lab, tree, &[Lookups::Mixed(0.0)])?;
            let seen = measured.lookups[0];
            beside.add(seen.in_vain, seen.model, trees::count(lab));
            let name = trees::name(filters);
            trees::add(
                &mut series,
                &format!("{name}, measured"),
                (measured.bits_per_key, seen.in_vain),
            );
            trees::add(
                &mut series,
                &format!("{name}, model"),
                (measured.bits_per_key, seen.model),
            );
            table.add(row! {
                "filters": name,
                "bits per key": measured.bits_per_key,
                "searches in vain": seen.in_vain,
                "model": seen.model,
            });
            both.push(seen.in_vain);
        }
        found.push((bits, both));
    }
    let below = found.iter().filter(|(_, both)| both[1] < both[0]).count();
    let panel = Panel {
        title: "measured, leveling".into(),
        x: "bits per key".into(),
        y: "searches in vain per empty lookup".into(),
        log_y: false,
        series,
    };
    Ok((table, panel, (below, found.len())))
}
