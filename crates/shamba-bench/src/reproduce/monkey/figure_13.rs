//! Figure 13 (A to D): mixes of lookups, temporal skew, and the trade-off between lookups and
//! updates. E and F are `figure_13_ef`.
use super::figure_8;
use super::trade_off::{self, Point};
use super::trees::{self, BesideModel};
use crate::device::Device;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::Panel;
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-13",
    title: "Mixes of lookups, temporal skew, and the trade-off (A to D)",
    claim: "(A) Monkey is better for any mix of empty and existing lookups; from 70 % existing ones on, filters \
            for the mix are better than filters for empty lookups. (B) As older entries are looked up, uniform \
            filters cost more with every level, Monkey's hardly before the last levels. (C, D) Lookups cost up \
            to 50 % less at any update cost, which can be traded for up to 70 % cheaper updates.",
    seconds: 9.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut beside = BesideModel::default();
    let (table_a, panel_a, mut claims) = mixes(lab, &mut beside)?;
    let (table_b, panel_b, more) = skew(lab, &mut beside)?;
    claims.extend(more);
    let points = trade_off::measure(lab)?;
    let (table_c, _) = figure_8::drawn(&points);
    claims.push(Claim::figure(
        "share of lookup cost that Monkey saves at best at one update cost, %",
        50.0,
        trade_off::largest_saving(&points) * 100.0,
    ));
    claims.push(
        Claim::figure(
            "share of update cost that can be had instead, lookups costing no more than uniform filters', %",
            70.0,
            trade_off::largest_trade(&points, false) * 100.0,
        ),
    );
    claims.push(beside.claim("measured searches are the model's (A, B)"));
    Ok(Findings {
        setting: format!(
            "{} C, D: entries of 706 B, five to a page. Latencies of modelled devices: lookups their searches, \
             updates the pages read and written in flushes and merges at the price of a sequential page.",
            trees::setting(lab)
        ),
        claims,
        tables: vec![table_a, table_b, table_c],
        panels: vec![
            panel_a,
            panel_b,
            curve('C', Device::SataSsd, &points),
            curve('D', Device::Hdd, &points),
        ],
        ..Findings::default()
    })
}

/// A: from lookups that find nothing to lookups that all find their key.
fn mixes(lab: &mut Lab<'_>, beside: &mut BesideModel) -> Result<(Report, Panel, Vec<Claim>)> {
    let mut table = Report::titled("Searches of a lookup by the share of existing keys (A)");
    let (mut series, mut all) = (Vec::new(), Vec::new());
    for (at, positive) in trees::MIXES.into_iter().enumerate() {
        let mut row = Vec::new();
        for filters in [Filters::Uniform, Filters::Zero, Filters::General(positive)] {
            let tree = FullTree {
                filters,
                ..trees::default(lab)
            };
            let seen = trees::equal(lab, tree, &trees::MIXES.map(Lookups::Mixed))?.lookups[at];
            beside.add(seen.searches, seen.model, trees::count(lab));
            let (x, name) = (positive * 100.0, trees::name(filters));
            trees::add(&mut series, name, (x, seen.searches));
            trees::add(&mut series, &format!("{name}, model"), (x, seen.model));
            table.add(row! {
                "existing %": x,
                "filters": name,
                "searches": seen.searches,
                "model": seen.model,
            });
            row.push(seen.in_vain);
        }
        all.push(row);
    }
    let below = all.iter().filter(|row| row[2] < row[0]).count();
    let gain = |at: usize| (1.0 - all[at][2] / all[at][1]) * 100.0;
    let claims = vec![
        Claim::statement(
            "Monkey for the mix searches in vain less often than uniform filters",
            "for any mix",
            format!("for {below} of {} mixes", all.len()),
            below == all.len(),
        ),
        Claim::statement(
            "searches in vain that Monkey for the mix saves over Monkey for empty lookups, %, at 0, 75 and 100 % existing",
            "nothing, then more and more from 70 % on",
            format!("{:.0}, {:.0}, {:.0}", gain(0), gain(3), gain(4)),
            gain(0).abs() < 10.0 && gain(3) > 0.0 && gain(4) > gain(3),
        ),
    ];
    let panel = Panel {
        title: "(A) mixes of lookups".into(),
        x: "lookups of existing keys, %".into(),
        y: "searches per lookup".into(),
        log_y: false,
        series,
    };
    Ok((table, panel, claims))
}

/// B: lookups of the entries of one level.
fn skew(lab: &mut Lab<'_>, beside: &mut BesideModel) -> Result<(Report, Panel, Vec<Claim>)> {
    let default = trees::default(lab);
    let kinds: Vec<Lookups> = (1..=default.levels).map(Lookups::Level).collect();
    let mut table = Report::titled("Searches of a lookup by the level with its key (B)");
    let (mut series, mut all) = (Vec::new(), Vec::new());
    for filters in [Filters::Uniform, Filters::Zero, Filters::General(1.0)] {
        let tree = FullTree { filters, ..default };
        let seen = trees::equal(lab, tree, &kinds)?;
        let name = trees::name(filters);
        for (level, seen) in (1u32..).zip(&seen.lookups) {
            let x = f64::from(level);
            beside.add(seen.searches, seen.model, trees::count(lab));
            trees::add(&mut series, name, (x, seen.searches));
            trees::add(&mut series, &format!("{name}, model"), (x, seen.model));
            table.add(row! {
                "level": x,
                "filters": name,
                "searches": seen.searches,
                "model": seen.model,
            });
        }
        all.push(
            seen.lookups
                .iter()
                .map(|seen| seen.in_vain)
                .collect::<Vec<_>>(),
        );
    }
    let last = default.levels as usize - 1;
    // Where the paper's Monkey begins to rise: 6 of 10 levels.
    let bend = (default.levels as usize * 6 / 10).max(1) - 1;
    let claims = vec![
        Claim::statement(
            "searches in vain for entries of the first level",
            "none with any filters",
            format!("{:.4}, {:.4}, {:.4}", all[0][0], all[1][0], all[2][0]),
            all.iter().all(|of| of[0] == 0.0),
        ),
        Claim::statement(
            "searches in vain with uniform filters at the middle and the last level",
            "as many more for each level",
            format!(
                "{:.3} at level {}, {:.3} at level {}",
                all[0][last / 2],
                last / 2 + 1,
                all[0][last],
                last + 1
            ),
            (all[0][last] / last as f64 / (all[0][last / 2] / (last / 2).max(1) as f64) - 1.0)
                .abs()
                < 0.15,
        ),
        Claim::statement(
            format!(
                "searches in vain with Monkey's filters up to level {}",
                bend + 1
            ),
            "hardly any",
            format!(
                "{:.3} beside {:.3} with uniform ones",
                all[1][bend], all[0][bend]
            ),
            all[1][bend] < 0.03 && all[1][bend] < all[0][bend],
        ),
        Claim::statement(
            "searches in vain at the last level, Monkey for existing keys beside Monkey for empty lookups",
            "fewer",
            format!("{:.3}, {:.3}", all[2][last], all[1][last]),
            all[2][last] < all[1][last],
        ),
    ];
    let panel = Panel {
        title: "(B) by the level of the key".into(),
        x: "level of the key, from the newest".into(),
        y: "searches per lookup".into(),
        log_y: false,
        series,
    };
    Ok((table, panel, claims))
}

/// C and D: latency of a lookup over that of an update.
fn curve(letter: char, device: Device, points: &[Point]) -> Panel {
    let read = device.read_ns() as f64 / 1e3;
    // Merges read and write pages one after another.
    let page = device
        .model()
        .map_or(0.0, |model| model.read_page as f64 / 1e3);
    let mut series = Vec::new();
    for point in points {
        let update = point.update * page;
        for (name, (measured, model)) in [("uniform", point.uniform), ("Monkey", point.monkey)] {
            trees::add(&mut series, name, (update, measured * read));
            trees::add(
                &mut series,
                &format!("{name}, model"),
                (update, model * read),
            );
        }
    }
    Panel {
        title: format!("({letter}) lookups and updates, {device}"),
        x: "us per update".into(),
        y: "us per empty lookup".into(),
        log_y: true,
        series,
    }
}
