//! Figure 8: the curve of lookup cost against update cost, from a log to a sorted array.
use super::{trade_off, trees};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::cost::{Allocation, Design};
use shamba_model::curve::Curve;
use shamba_model::trade_off as model;
use shamba_model::tree::MergePolicy;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-8",
    title: "The trade-off between lookups and updates",
    claim: "For any merge policy and size ratio Monkey's lookups cost less at the same update cost; where \
            one level is left (a log, a sorted array) both are the same.",
    seconds: 3.0,
    run,
};

const POLICIES: [MergePolicy; 2] = [MergePolicy::Tiering, MergePolicy::Leveling];

/// 2^27 entries of 128 B, a buffer of 8 MB, 5 bits per key.
fn model_points(allocation: Allocation) -> Result<Vec<model::Point>> {
    let entries = f64::from(1u32 << 27);
    let environment = trees::environment(entries, 128.0);
    let workload = trees::workload(0.5, 0.0);
    let design = Design {
        policy: MergePolicy::Leveling,
        size_ratio: 2,
        buffer_bytes: 8e6,
        filter_bytes: entries * trees::BITS / 8.0,
        allocation,
    };
    let curve = Curve::ideal();
    Ok(model::trade_off(
        &design,
        &POLICIES,
        &environment,
        &workload,
        &curve,
    )?)
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let even = model_points(Allocation::Uniform)?;
    let best = model_points(Allocation::Monkey)?;
    let mut table = Report::titled(
        "Reads of an empty lookup and cost of an update by the model; 2^27 entries of 128 B",
    );
    let mut lines: Vec<Series> = Vec::new();
    let (mut below, mut several, mut apart) = (0, 0, 0.0f64);
    for (even, best) in even.iter().zip(&best) {
        let (x, policy) = (best.costs.update.log10(), trees::policy(best.design.policy));
        trees::add(
            &mut lines,
            &format!("uniform, {policy}"),
            (x, even.costs.empty_lookup),
        );
        trees::add(
            &mut lines,
            &format!("Monkey, {policy}"),
            (x, best.costs.empty_lookup),
        );
        let ratio = best.costs.empty_lookup / even.costs.empty_lookup;
        if best.costs.levels == 1 {
            apart = apart.max((ratio - 1.0).abs());
        } else {
            several += 1;
            below += i32::from(ratio < 1.0);
        }
        table.add(row! {
            "policy": policy,
            "T": f64::from(best.design.size_ratio),
            "levels": f64::from(best.costs.levels),
            "update pages": best.costs.update,
            "uniform reads": even.costs.empty_lookup,
            "Monkey reads": best.costs.empty_lookup,
        });
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let points = trade_off::measure(lab)?;
    let (measured, panel) = drawn(&points);
    let won = points.iter().filter(|p| p.monkey.0 <= p.uniform.0).count();
    let panels = vec![
        Panel {
            title: "by the model".into(),
            x: "pages per update, power of ten".into(),
            y: "reads per empty lookup".into(),
            log_y: true,
            series: lines,
        },
        panel,
    ];
    Ok(Findings {
        setting: format!(
            "Measured with entries of 706 B, five to a page, about as many for each tree. {}",
            trees::setting(lab)
        ),
        claims: vec![
            Claim::statement(
                "Monkey's lookups are cheaper at any policy and size ratio with several levels (model)",
                "everywhere",
                format!("at {below} of {several} points"),
                below == several,
            ).by_model(),
            Claim::statement(
                "with one level both are the same (model)",
                "the curves meet",
                format!("they differ by {:.1e} at most", apart),
                apart < 1e-6,
            ).by_model(),
            Claim::statement(
                "the same, measured",
                "everywhere",
                format!(
                    "at {won} of {} points, by up to {:.0} %",
                    points.len(),
                    trade_off::largest_saving(&points) * 100.0
                ),
                won == points.len(),
            ),
        ],
        tables: vec![table, measured],
        panels,
        ..Findings::default()
    })
}

/// What was measured as a table, and as one line for each kind of filters from most updates to most
/// lookups.
pub(super) fn drawn(points: &[trade_off::Point]) -> (Report, Panel) {
    let mut table =
        Report::titled("Searches in vain of an empty lookup and pages of an update, measured");
    let mut series = Vec::new();
    for point in points {
        for (name, (measured, model)) in [("uniform", point.uniform), ("Monkey", point.monkey)] {
            trees::add(
                &mut series,
                &format!("{name}, measured"),
                (point.update, measured),
            );
            trees::add(
                &mut series,
                &format!("{name}, model"),
                (point.update, model),
            );
        }
        table.add(row! {
            "policy": trees::policy(point.policy),
            "T": f64::from(point.size_ratio),
            "update pages": point.update,
            "uniform": point.uniform.0,
            "uniform, model": point.uniform.1,
            "Monkey": point.monkey.0,
            "Monkey, model": point.monkey.1,
        });
    }
    let panel = Panel {
        title: "measured, from tiering to leveling".into(),
        x: "pages read and written per update".into(),
        y: "searches in vain per empty lookup".into(),
        log_y: true,
        series,
    };
    (table, panel)
}
