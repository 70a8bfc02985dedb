//! Figure 10: what filters for the lookups there are gain over filters for absent keys, by the
//! model and measured.
use super::trees;
use crate::Result;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use shamba_model::allocation::{Filter, uniform, water_filling};
use shamba_model::cost::point_lookup;
use shamba_model::curve::Curve;
use shamba_model::tree::{MergePolicy, Tree};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-10",
    title: "Filters for lookups of existing keys",
    claim: "With 1 bit per key Monkey for any lookups does what Monkey for empty lookups does; with more it is \
            up to 20 % better, the more the more lookups find their key. They outperform uniform filters by \
            up to 80 % and 60 %.",
    seconds: 12.0,
    run,
};

/// Existing lookups for each empty one.
const RATIOS: [f64; 5] = [0.25, 1.0, 4.0, 16.0, 64.0];

/// Levels of the paper's trees: 1 GB over a buffer of 1 MB, T = 2.
const LEVELS: u32 = 10;

/// Reads of a lookup with uniform filters, Monkey's for absent keys, and Monkey's for these
/// lookups.
fn costs(tree: &Tree, positive: f64, bits_per_key: f64) -> Result<[f64; 3]> {
    let curve = Curve::ideal();
    let of = |filters: Vec<Filter>| point_lookup(tree, &filters, positive);
    let runs = |positive| tree.filter_runs(positive);
    let stored: f64 = runs(0.0)?.iter().map(|run| run.entries).sum();
    let bits = bits_per_key * stored;
    Ok([
        of(uniform(&runs(0.0)?, bits, &curve)?)?,
        of(water_filling(&runs(0.0)?, bits, &curve)?)?,
        of(water_filling(&runs(positive)?, bits, &curve)?)?,
    ])
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        format!("Reads of a lookup by the model; T = 2, {LEVELS} levels"),
        &[
            "existing per empty",
            "bits per key",
            "uniform",
            "Monkey zero",
            "Monkey general",
        ],
    );
    let tree = Tree::new(MergePolicy::Leveling, 2, LEVELS, f64::from(1u32 << 20))?;
    let (mut panels, mut zero_at_1) = (Vec::new(), f64::INFINITY);
    let mut gains: Vec<f64> = Vec::new();
    let (mut zero_below_even, mut general_below_even) = (0.0f64, 0.0f64);
    for ratio in RATIOS {
        let mut series = ["uniform", "Monkey zero", "Monkey general"].map(Series::new);
        let mut gain = 0.0f64;
        for bits in 1..=12 {
            let bits = f64::from(bits);
            let all = costs(&tree, ratio / (1.0 + ratio), bits)?;
            let [even, zero, general] = all;
            for (series, cost) in series.iter_mut().zip(all) {
                series.points.push((bits, general / cost));
            }
            if bits == 1.0 {
                zero_at_1 = zero_at_1.min(general / zero);
            }
            gain = gain.max(1.0 - general / zero);
            zero_below_even = zero_below_even.max(1.0 - zero / even);
            general_below_even = general_below_even.max(1.0 - general / even);
            let mut row = vec![ratio.into(), bits.into()];
            row.extend(all.map(Into::into));
            table.push(row);
        }
        gains.push(gain);
        panels.push(Panel {
            title: format!("{ratio} existing lookups for each empty one, model"),
            x: "bits per key".into(),
            y: "throughput, Monkey general being 1".into(),
            log_y: false,
            series: series.into(),
        });
    }
    let (measured, panel, won, of) = measured(lab)?;
    panels.push(panel);
    Ok(Findings {
        setting: format!(
            "Throughput is 1 over reads. Measured: {}",
            trees::setting(lab)
        ),
        claims: vec![
            Claim::figure(
                "with 1 bit per key, cost of general over that of zero (model)",
                1.0,
                zero_at_1,
            )
            .by_model(),
            Claim::figure(
                "cost that general saves beside zero, up to, % (model)",
                20.0,
                gains.iter().fold(0.0, |a, b| b.max(a)) * 100.0,
            )
            .by_model(),
            Claim::statement(
                "the more lookups find their key, the more general gains over zero, % (model)",
                "yes",
                format!(
                    "{:.1?}",
                    gains.iter().map(|gain| gain * 100.0).collect::<Vec<_>>()
                ),
                gains.is_sorted(),
            )
            .by_model(),
            Claim::figure(
                "cost that general saves beside uniform, up to, % (model)",
                80.0,
                general_below_even * 100.0,
            )
            .by_model(),
            Claim::figure(
                "cost that zero saves beside uniform, up to, % (model)",
                60.0,
                zero_below_even * 100.0,
            )
            .by_model(),
            Claim::statement(
                "general searches no more than zero, and that no more than uniform (measured, within 3 %)",
                "everywhere",
                format!("at {won} of {of} points"),
                won == of,
            ),
        ],
        tables: vec![table, measured],
        panels,
        ..Findings::default()
    })
}

/// Trees of three kinds of filters, asked for three existing keys in four lookups.
fn measured(lab: &mut Lab<'_>) -> Result<(Report, Panel, usize, usize)> {
    let positive = 0.75;
    let at = trees::MIXES
        .iter()
        .position(|mix| *mix == positive)
        .unwrap_or(0);
    let mut table = Report::new(
        format!("Searches of a lookup, {positive} of keys existing, measured beside the model"),
        &["filters", "bits per key", "searches", "model"],
    );
    let (mut series, mut won, mut of) = (Vec::new(), 0, 0);
    let few: &[f64] = &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
    for &bits in lab.scale.pick(&few[3..4], few, few, few) {
        let mut all = Vec::new();
        for filters in [Filters::Uniform, Filters::Zero, Filters::General(positive)] {
            let tree = FullTree {
                bits_per_key: bits,
                filters,
                ..trees::default(lab)
            };
            let seen = trees::mixes(lab, tree)?;
            let model = tree.model(Lookups::Mixed(positive), seen.bits_per_key)?;
            let (bits, searches) = (seen.bits_per_key, seen.lookups[at].searches);
            let name = trees::name(filters);
            all.push(searches);
            trees::add(&mut series, name, (bits, searches));
            trees::add(&mut series, &format!("{name}, model"), (bits, model));
            table.push(vec![
                name.into(),
                bits.into(),
                searches.into(),
                model.into(),
            ]);
        }
        of += 1;
        won += usize::from(all[2] <= all[1] * 1.03 && all[1] <= all[0] * 1.03);
    }
    let panel = Panel {
        title: format!("measured, {positive} of keys existing"),
        x: "bits per key".into(),
        y: "searches per lookup".into(),
        log_y: false,
        series,
    };
    Ok((table, panel, won, of))
}
