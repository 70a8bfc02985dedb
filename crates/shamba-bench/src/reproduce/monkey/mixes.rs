//! Figure 13 (A to D): mixes of lookups, temporal skew, and the trade-off between lookups and
//! updates. E and F are `figure_13_ef`. Figure 14: temporal locality with a block cache.
use super::trade_off;
use super::trees::{self, Curves};
use crate::experiments::full_tree::{Filters, FullTree, Lookups, Point};
use crate::reproduce::prelude::*;

pub(super) fn figure_13(lab: &mut Lab<'_>) -> Result<Findings> {
    let (mixes, skew) = (mixes(lab)?, skew(lab)?);
    let [traded, _] = trade_off::measure(lab)?;
    let mut claims = Vec::from(of_mixes(&mixes));
    claims.extend(of_skew(&skew));
    let what = "share of lookup cost (searches in vain; the paper: latency) that Monkey saves at best at one update cost, %";
    let saved = traded.saved(|point| point.in_vain);
    claims.push(Claim::up_to(what, 50.0, &saved));
    let notes = vec![format!(
        "The paper's C and D are latencies on a disk without a block cache, where a search of a run is a read. Here no clock \
         ran: searches are counted. In pages that were read, which the cache of 64 KiB makes fewer, Monkey saves up to {:.1} %.",
        most_of(&traded.saved(|point| point.reads))
    )];
    let what = "share of update cost that can be had instead, lookups costing no more than uniform filters' (between measured trees by a straight line), %";
    let trade = trade_off::largest_trade(&traded) * 100.0;
    claims.push(Claim::figure(what, 70.0, trade));
    let what = "measured searches are the model's (A, B)";
    let points = mixes.points.iter().chain(&skew.points);
    claims.push(trees::near_model(what, points));
    let setting = trees::setting(lab);
    let tables = [
        mixes.table("Searches of a lookup by the share of existing keys (A)"),
        skew.table("Searches of a lookup by the level with its key (B)"),
        trade_off::table("Lookups of absent keys, and updates, measured", &traded)?,
    ];
    let panels = [
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
        let own = Filters::General(kind.number());
        let filters = [Filters::Uniform, Filters::Zero, own];
        let all = trees::sweep(lab, trees::equal, [default], &filters, &kinds)?;
        points.extend(all.into_iter().filter(|point| point.kind == kind));
    }
    Ok(Curves {
        x: "lookups of existing keys, %",
        at: |point| point.kind.number() * 100.0,
        points,
    })
}

fn of_mixes(curves: &Curves) -> [Claim; 2] {
    let [even, zero, general] = curves.each(|point| point.in_vain);
    let what = "Monkey for the mix searches in vain less often than uniform filters";
    let pairs = general.iter().zip(&even);
    let fewer = Claim::at_each(what, pairs.map(|(general, even)| general < even));
    let gains = trees::saved(&zero, &general);
    let what = "searches in vain that Monkey for the mix saves over Monkey for empty lookups, %, at 0, 75 and 100 % existing";
    let seen = format!("{:.0}, {:.0}, {:.0}", gains[0], gains[3], gains[4]);
    let holds = gains[0].abs() < 10.0 && gains[3] > 0.0 && gains[4] > gains[3];
    let paper = "nothing, then more and more from 70 % on";
    [fewer, Claim::statement(what, paper, seen, holds)]
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

/// Searches in vain of a lookup that are hardly any.
const HARDLY_ANY: f64 = 0.03;

fn of_skew(curves: &Curves) -> [Claim; 3] {
    let [even, zero, general] = curves.each(|point| point.in_vain);
    let last = even.len() - 1;
    let middle = last / 2;
    // Where the paper's Monkey begins to rise: 6 of 10 levels.
    let bend = (even.len() * 6 / 10).max(1) - 1;
    let each_level = |at: usize| even[at] / at.max(1) as f64;
    let what = "searches in vain with uniform filters at the middle and the last level";
    let [seen, end] = [middle, last].map(|at| format!("{:.3} at level {}", even[at], at + 1));
    let seen = format!("{seen}, {end}");
    let holds = (each_level(last) / each_level(middle) - 1.0).abs() < 0.15;
    let grows = Claim::statement(what, "as many more for each level", seen, holds);
    let level = bend + 1;
    let what = format!(
        "searches in vain with Monkey's filters, those for empty lookups and those for existing keys, up to level \
         {level} (under {HARDLY_ANY}, our limit)"
    );
    let (own, even) = ([zero[bend], general[bend]], even[bend]);
    let seen = format!("{own:.3?} beside {even:.3} with uniform ones");
    let few = own.iter().all(|own| *own < HARDLY_ANY && *own < even);
    let few = Claim::statement(what, "hardly any", seen, few);
    let beyond = bend + 1..=last;
    let what = format!(
        "searches in vain at each level from {} on, Monkey for existing keys beside Monkey for empty lookups",
        level + 1
    );
    let pairs = || general[beyond.clone()].iter().zip(&zero[beyond.clone()]);
    let seen = joined(pairs().map(|(own, other)| format!("{own:.3} beside {other:.3}")));
    let fewer = Claim::statement(what, "fewer", seen, pairs().all(|(own, other)| own < other));
    [grows, few, fewer]
}

/// C and D: latency of a lookup over that of an update, for which merges read and write pages one
/// after another.
fn traded_on(letter: char, device: Device, traded: &Curves) -> Panel {
    let page = device.model().map_or(0, |model| model.read_page) as f64;
    let update_us = |point: &Point| trade_off::update(point) * page / 1e3;
    let title = format!("({letter}) lookups and updates, {device}");
    let read_us = device.read_ns() as f64 / 1e3;
    let over = ("us per update", update_us);
    let panel = traded.panel_over(over, title, "us per empty lookup", read_us);
    panel.logarithmic()
}

/// Shares of the data in the cache.
const CACHES: [f64; 3] = [0.0, 0.2, 0.4];

pub(super) fn figure_14(lab: &mut Lab<'_>) -> Result<Findings> {
    let many: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9];
    let (two, three) = (&[0.5, 0.9][..], &[0.5, 0.7, 0.9][..]);
    let localities = lab.scale.pick(two, three, many, many);
    let kinds: Vec<Lookups> = localities.iter().copied().map(Lookups::Recent).collect();
    let mut table = Report::titled(
        "Pages read by a lookup; a share c of lookups is for the newest 1 - c of the entries",
    );
    let mut claims = Vec::new();
    for cached in CACHES {
        let tree = FullTree {
            cached,
            ..trees::default(lab)
        };
        let points = trees::sweep(lab, trees::equal, [tree], &trees::THREE, &kinds)?;
        let curves = Curves {
            x: "c: share of lookups for the newest 1 - c",
            at: |point| point.kind.number(),
            points,
        };
        let [even, zero, general] = curves.each(|point| point.reads);
        let name = format!(
            "Monkey with filters for absent keys, cache of {:.0} %",
            cached * 100.0
        );
        let lookups = trees::count(lab);
        let [zero, general] =
            [zero, general].map(|best| advantage(&name, (&even, &best), lookups, cached > 0.0));
        claims.extend(zero.into_iter().zip(general).map(either_monkey));
        for point in &curves.points {
            let cache = row! { "cache %": cached * 100.0 };
            table.add([cache, curves.row("c", point)].concat());
        }
    }
    let setting = trees::setting(lab);
    let panels = plot::of_report(&table, "cache %", "filters", "c", "reads");
    Ok(Findings::of(setting, [table], panels, claims))
}

/// A claim of lookups that find their keys, with Monkey's filters for absent keys, beside the same
/// with those for existing ones: no verdict hangs on which of them the paper has.
fn either_monkey((zero, general): (Claim, Claim)) -> Claim {
    let reason = format!(
        "the appendix does not say which of its Monkeys it has, and with filters for existing keys it is otherwise: {}",
        general.measured
    );
    zero.clone().unless(zero.verdict != general.verdict, reason)
}

/// What is claimed of the reads of `lookups` lookups with uniform filters and with Monkey's.
fn advantage(
    name: &str,
    (even, best): (&[f64], &[f64]),
    lookups: u64,
    is_cached: bool,
) -> Vec<Claim> {
    let advantage = even.iter().zip(best).map(|(even, best)| even - best);
    let advantage: Vec<f64> = advantage.collect();
    // Where nearly all is cached, reads are few, and which they are is chance.
    let error = |reads: &f64| 3.0 * (2.0 * reads / lookups as f64).sqrt();
    let pairs = || advantage.iter().zip(even);
    let above = pairs().filter(|(less, even)| **less < -error(even)).count();
    let clearly = pairs().filter(|(less, even)| **less > error(even)).count();
    let seen = format!(
        "by more than three standard errors at {clearly} of {} points, more than uniform filters by as much at {above}; \
         {advantage:.4?} pages less a lookup",
        advantage.len(),
    );
    let what = format!("{name}: fewer reads than uniform filters");
    let claim = Claim::statement(what, "at every locality", seen, above == 0);
    let unclear = "at some localities the difference is within three standard errors";
    let mut claims = vec![claim.unless(above == 0 && clearly < advantage.len(), unclear)];
    if is_cached {
        let (first, last) = (advantage[0], advantage[advantage.len() - 1]);
        let what = format!(
            "{name}: pages saved at the least and the most locality (nearly: less than half of the pages, our limit)"
        );
        let paper = "the curves nearly meet";
        // In pages they near, as uniform filters' do; in parts of these they need not.
        let parts = even.iter().zip(&advantage).map(|(even, less)| less / even);
        let parts: Vec<f64> = parts.collect();
        let (least, most) = (parts[0], parts[parts.len() - 1]);
        let crossed = if last < 0.0 {
            ": they have crossed"
        } else {
            ""
        };
        let seen = format!(
            "{first:.4} and {last:.4}{crossed}; of uniform filters' pages {least:.2} and {most:.2}"
        );
        let holds = last.abs() < first / 2.0;
        claims.push(Claim::statement(what, paper, seen, holds));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Verdict;

    #[test]
    fn no_verdict_hangs_on_which_monkey_it_is() {
        let claim = |holds| Claim::statement("it saves", "yes", "so much", holds);
        let verdict = |zero, general| either_monkey((claim(zero), claim(general))).verdict;
        assert_eq!(verdict(true, true), Verdict::Holds);
        assert_eq!(verdict(false, false), Verdict::DoesNotHold);
        assert_eq!(verdict(false, true), Verdict::NotComparable);
    }

    #[test]
    fn an_advantage_is_one_everywhere_and_what_is_left_is_small() {
        let verdicts = |best: &[f64]| {
            let claims = advantage("", (&[1.0, 0.5], best), 100_000, true);
            claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        use Verdict::{DoesNotHold, Holds, NotComparable};
        assert_eq!(verdicts(&[0.6, 0.45]), [Holds; 2]);
        assert_eq!(verdicts(&[0.6, 0.55]), [DoesNotHold, Holds]);
        assert_eq!(verdicts(&[0.6, 0.2]), [Holds, DoesNotHold]);
        assert_eq!(verdicts(&[0.6, 0.499]), [NotComparable, Holds]);
    }
}
