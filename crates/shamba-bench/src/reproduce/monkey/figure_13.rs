//! Figure 13 (A to D): mixes of lookups, temporal skew, and the trade-off between lookups and
//! updates. E and F are `figure_13_ef`.
use super::trade_off;
use super::trees::{self, Curves};
use crate::experiments::full_tree::{Filters, Lookups, Point};
use crate::reproduce::prelude::*;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (mixes, skew) = (mixes(lab)?, skew(lab)?);
    let [traded, _] = trade_off::measure(lab)?;
    let mut claims = of_mixes(&mixes);
    claims.extend(of_skew(&skew));
    let [even, best, _] = traded.each(|point| point.in_vain);
    let what = "share of lookup cost (searches in vain; the paper: latency) that Monkey saves at best at one update cost, %";
    claims.push(Claim::up_to(what, 50.0, &trees::saved(&even, &best)));
    let [even_reads, best_reads, _] = traded.each(|point| point.reads);
    let notes = vec![format!(
        "The paper's C and D are latencies on a disk without a block cache, where a search of a run is a read. Here no clock \
         ran: searches are counted. In pages that were read, which the cache of 64 KiB makes fewer, Monkey saves up to {:.1} %.",
        most_of(&trees::saved(&even_reads, &best_reads))
    )];
    let what = "share of update cost that can be had instead, lookups costing no more than uniform filters' (between measured trees by a straight line), %";
    let claim = Claim::figure(what, 70.0, trade_off::largest_trade(&traded) * 100.0);
    claims.push(claim);
    claims.push(trees::near_model(
        "measured searches are the model's (A, B)",
        mixes.points.iter().chain(&skew.points),
    ));
    let setting = trees::setting(lab);
    let tables = vec![
        mixes.table("Searches of a lookup by the share of existing keys (A)"),
        skew.table("Searches of a lookup by the level with its key (B)"),
        trade_off::table("Lookups of absent keys, and updates, measured", &traded)?,
    ];
    let panels = vec![
        mixes.panel("(A) mixes of lookups", "searches per lookup", 1.0),
        skew.panel("(B) by the level of the key", "searches per lookup", 1.0),
        traded_on('C', Device::SataSsd, &traded),
        traded_on('D', Device::Hdd, &traded),
    ];
    Ok(Findings::of(setting, tables, panels, claims).noting(notes))
}

/// A: from lookups that find nothing to lookups that all find their key.
fn mixes(lab: &mut Lab<'_>) -> Result<Curves> {
    let (kinds, default) = (trees::mixes(), trees::default(lab));
    let mut points = Vec::new();
    for kind in kinds {
        let filters = [
            Filters::Uniform,
            Filters::Zero,
            Filters::General(kind.number()),
        ];
        let all = trees::sweep(lab, trees::equal, [default], &filters, &kinds)?;
        points.extend(all.into_iter().filter(|point| point.kind == kind));
    }
    Ok(Curves {
        x: "lookups of existing keys, %",
        at: |point| point.kind.number() * 100.0,
        points,
    })
}

fn of_mixes(curves: &Curves) -> Vec<Claim> {
    let [even, zero, general] = curves.each(|point| point.in_vain);
    let gain = |at: usize| (1.0 - general[at] / zero[at]) * 100.0;
    let mut claims = Vec::new();
    let what = "Monkey for the mix searches in vain less often than uniform filters";
    let claim = Claim::everywhere_but(what, even.len(), trees::not_below(&general, &even));
    claims.push(claim);
    let what = "searches in vain that Monkey for the mix saves over Monkey for empty lookups, %, at 0, 75 and 100 % existing";
    let seen = format!("{:.0}, {:.0}, {:.0}", gain(0), gain(3), gain(4));
    claims.push(Claim::statement(
        what,
        "nothing, then more and more from 70 % on",
        seen,
        gain(0).abs() < 10.0 && gain(3) > 0.0 && gain(4) > gain(3),
    ));
    claims
}

/// B: lookups of the entries of one level.
fn skew(lab: &mut Lab<'_>) -> Result<Curves> {
    let default = trees::default(lab);
    let kinds: Vec<Lookups> = (1..=default.levels).map(Lookups::Level).collect();
    let points = trees::sweep(lab, trees::equal, [default], &trees::THREE, &kinds)?;
    Ok(Curves {
        x: "level of the key, from the newest",
        at: |point| point.kind.number(),
        points,
    })
}

fn of_skew(curves: &Curves) -> Vec<Claim> {
    let [even, zero, general] = curves.each(|point| point.in_vain);
    let last = even.len() - 1;
    let middle = last / 2;
    // Where the paper's Monkey begins to rise: 6 of 10 levels.
    let bend = (even.len() * 6 / 10).max(1) - 1;
    let each_level = |at: usize| even[at] / at.max(1) as f64;
    let mut claims = Vec::new();
    let what = "searches in vain with uniform filters at the middle and the last level";
    let seen = format!(
        "{:.3} at level {}, {:.3} at level {}",
        even[middle],
        middle + 1,
        even[last],
        last + 1
    );
    let holds = (each_level(last) / each_level(middle) - 1.0).abs() < 0.15;
    let claim = Claim::statement(what, "as many more for each level", seen, holds);
    claims.push(claim);
    let what = format!(
        "searches in vain with Monkey's filters up to level {}",
        bend + 1
    );
    let seen = format!(
        "{:.3} beside {:.3} with uniform ones",
        zero[bend], even[bend]
    );
    let holds = zero[bend] < 0.03 && zero[bend] < even[bend];
    claims.push(Claim::statement(what, "hardly any", seen, holds));
    let what = "searches in vain at the last level, Monkey for existing keys beside Monkey for empty lookups";
    let seen = format!("{:.3}, {:.3}", general[last], zero[last]);
    let claim = Claim::statement(what, "fewer", seen, general[last] < zero[last]);
    claims.push(claim);
    claims
}

/// Microseconds of an update: merges read and write pages one after another.
fn update_us(point: &Point, device: Device) -> f64 {
    let page = device.model().map_or(0, |model| model.read_page);
    trade_off::update(point) * page as f64 / 1e3
}

/// C and D: latency of a lookup over that of an update.
fn traded_on(letter: char, device: Device, traded: &Curves) -> Panel {
    let curves = Curves {
        x: "us per update",
        at: match device {
            Device::Hdd => |point| update_us(point, Device::Hdd),
            _ => |point| update_us(point, Device::SataSsd),
        },
        points: traded.points.clone(),
    };
    let title = format!("({letter}) lookups and updates, {device}");
    let read_us = device.read_ns() as f64 / 1e3;
    curves
        .panel(title, "us per empty lookup", read_us)
        .logarithmic()
}
