//! Throughput beside each peer in the build: how often ours is ahead, what memory each took, and
//! where its tail of latency is longer.
use super::picture;
use crate::compare::{self, PEAK};
use crate::plot::{Dots, Series};
use crate::report::{Cell, Report, joined};
use crate::reproduce::Findings;
use crate::reproduce::claim::{least_of, most_of};
use crate::{Result, engine};
use std::path::Path;

/// Engines whose throughput is compared: the beginnings of their names, in this order.
const PEERS: [(&str, &str); 3] = [("rocksdb", "RocksDB"), ("fjall", "fjall"), ("redb", "redb")];

/// Throughput with memory plenty, beside each peer in the build.
pub(super) fn section(dir: &Path, findings: &Findings) -> Result<String> {
    let Some(table) = findings.tables.first() else {
        return Ok(String::new());
    };
    let dots = ratios(table);
    let all = dots
        .series
        .iter()
        .map(|series| series.points.len())
        .sum::<usize>();
    if all == 0 {
        return Ok(String::new());
    }
    let repetitions = findings.tables.get(1);
    let lines = outcomes(table, repetitions);
    let count = |peer: Option<&str>, standing: Standing| {
        let own = lines.iter().filter(|line| line.standing == standing);
        own.filter(|line| peer.is_none_or(|peer| line.peer == peer))
            .count()
    };
    let counts = |peer| {
        use Standing::{Ahead, Behind, Level};
        [Ahead, Behind, Level].map(|standing| count(peer, standing))
    };
    let [ahead, lost, level] = counts(None);
    let peers = PEERS
        .iter()
        .filter(|(_, name)| counts(Some(name)) != [0; 3]);
    let by_peer = peers.map(|(_, name)| {
        let [ahead, lost, level] = counts(Some(name));
        let all = ahead + lost + level;
        format!("beside {name} ahead in {ahead} of {all}, behind in {lost}, level in {level}")
    });
    let by_peer = by_peer.collect::<Vec<_>>().join("; ");
    let slower = lines.iter().filter(|line| line.times < NEAR);
    let slower = joined(slower.map(|line| {
        let level = if line.standing == Standing::Level {
            ", level"
        } else {
            ""
        };
        format!(
            "{} ({:.2} of {}'s{level})",
            line.line, line.times, line.peer
        )
    }));
    let slower = match &*slower {
        "" => String::new(),
        _ => format!(
            " Medians of ours below {NEAR} of a peer's: {slower}. Two repetitions that overlap cannot tell, and \
             two all above prove little: of two equal engines a given one is so in one line of six."
        ),
    };
    let repeated = repetitions.map_or(1, |all| {
        let same = |row: &&Vec<Cell>| all.rows.first().map(|first| &first[..3]) == Some(&row[..3]);
        all.rows.iter().filter(same).count()
    });
    let (memory, tails) = (peaks(table), tails(table));
    let setting = &findings.setting;
    let what = "Our throughput beside others'";
    let picture = picture(dir, "throughput", what, |path| dots.save(path))?;
    Ok(format!(
        "## Throughput, and under pressure\n\nOurs is ahead in {ahead} of {all} lines and behind in {lost}; in {level} \
         the repetitions of both overlap (medians of {repeated} with one seed; those below 1 are in orange), beside the \
         best of each peer's settings that [were tried](results/ours.md#ours-compare): {by_peer}.{slower} {setting}\n\n\
         {memory}{tails}\n\n{picture}"
    ))
}

/// Of a line of the comparison the numbers of each family of engines, of all its settings.
fn of_families(table: &Report, row: &[Cell]) -> Vec<(&'static str, Vec<f64>)> {
    let families = [("shamba", "ours")].into_iter().chain(PEERS);
    let each = families.map(|(family, name)| {
        let own = table.columns.iter().filter(|of| {
            let spec = of.strip_suffix(" op/s");
            spec.map(engine::family) == Some(family)
        });
        let numbers = own.filter_map(|column| table.number(row, column));
        (name, numbers.collect())
    });
    each.filter(|(_, numbers): &(_, Vec<f64>)| !numbers.is_empty())
        .collect()
}

/// The least and the most of some numbers.
fn from_to(numbers: &[f64]) -> String {
    let (least, most) = (least_of(numbers), most_of(numbers));
    if least == most {
        format!("{least:.0}")
    } else {
        format!("{least:.0} to {most:.0}")
    }
}

/// What the processes took at most with memory plenty, which is not held equal.
fn peaks(table: &Report) -> String {
    let of_peak = |row: &&Vec<Cell>| row.first().is_some_and(|name| name.to_string() == PEAK);
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    for row in table.rows.iter().filter(of_peak) {
        for (name, numbers) in of_families(table, row) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(numbers),
                None => all.push((name, numbers)),
            }
        }
    }
    let each = all.iter();
    let each = joined(each.map(|(name, mib)| format!("{name} {}", from_to(mib))));
    match all[..] {
        [] => String::new(),
        _ => format!(
            "With memory plenty it is not held equal; the process took at most, in MiB: {each}."
        ),
    }
}

/// A peer's setting that is the quickest in a line, and its rate.
fn quickest<'a>(table: &'a Report, row: &[Cell], family: &str) -> Option<(&'a str, f64)> {
    let columns = table.columns.iter();
    let specs = columns.filter_map(|column| column.strip_suffix(" op/s"));
    let own = specs.filter(|spec| engine::family(spec) == family);
    let rates = own.filter_map(|spec| Some((spec, table.number(row, &format!("{spec} op/s"))?)));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Lines in which 99 of 100 operations of ours take longer than with RocksDB's setting that is the
/// quickest there.
fn tails(table: &Report) -> String {
    let rows = table.rows.iter().filter(|row| compare::is_throughput(row));
    let lines = rows.filter_map(|row| {
        let of = |spec: &str| table.number(row, &format!("{spec} p99 us"));
        let (theirs, _) = quickest(table, row, PEERS[0].0)?;
        let place = row.iter().take(2).map(Cell::to_string);
        let place = place.collect::<Vec<_>>().join(" with ");
        Some((place, of("shamba")?, of(theirs)?))
    });
    let lines: Vec<(String, f64, f64)> = lines.collect();
    let longer = lines.iter().filter(|(_, ours, theirs)| ours > theirs);
    let count = longer.clone().count();
    let longer =
        longer.map(|(place, ours, theirs)| format!("{place} ({ours:.1} against {theirs:.1})"));
    match count {
        0 => String::new(),
        _ => format!(
            " The 99th percentile of latency is longer than with RocksDB's quickest setting of the line in {count} of {} lines, \
             in microseconds, with so many threads: {}.",
            lines.len(),
            joined(longer)
        ),
    }
}

/// A median of ours below this part of a peer's is told.
const NEAR: f64 = 0.95;

/// Whether all our repetitions are quicker than all of a peer's, slower, or neither.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Ahead,
    Behind,
    Level,
}

/// What became of a line beside a peer's best setting.
#[derive(Debug)]
struct Outcome {
    peer: &'static str,
    line: String,
    /// Our median over the peer's.
    times: f64,
    standing: Standing,
}

/// Each line beside each peer.
fn outcomes(table: &Report, repetitions: Option<&Report>) -> Vec<Outcome> {
    let rates = |row: &[Cell], engine: &str| -> Vec<f64> {
        let rows = repetitions.iter().flat_map(|table| &table.rows);
        let same = rows.filter(|of| match &of[..] {
            [phase, threads, of, _] => {
                row.get(..2) == Some(&[phase.clone(), threads.clone()][..])
                    && of.to_string() == engine
            }
            _ => false,
        });
        let rate = |of: &Vec<Cell>| match of.last() {
            Some(Cell::Number(rate)) => Some(*rate),
            _ => None,
        };
        same.filter_map(rate).collect()
    };
    let mut all = Vec::new();
    for row in table.rows.iter().filter(|row| compare::is_throughput(row)) {
        for (family, peer) in PEERS {
            let Some((spec, theirs)) = quickest(table, row, family) else {
                continue;
            };
            let Some(ours) = table.number(row, "shamba op/s") else {
                continue;
            };
            let [own, peers] = [("shamba", ours), (spec, theirs)].map(|(engine, median)| {
                let rates = rates(row, engine);
                let rates = if rates.is_empty() {
                    vec![median]
                } else {
                    rates
                };
                let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
                (least, rates.into_iter().fold(0.0, f64::max))
            });
            let standing = if own.0 > peers.1 {
                Standing::Ahead
            } else if own.1 < peers.0 {
                Standing::Behind
            } else {
                Standing::Level
            };
            let place = row.iter().take(2).map(Cell::to_string);
            all.push(Outcome {
                peer,
                line: place.collect::<Vec<_>>().join(" with "),
                times: ours / theirs,
                standing,
            });
        }
    }
    all
}

/// For each workload and number of threads our throughput over that of each peer: of several
/// settings of a peer its best.
fn ratios(table: &Report) -> Dots {
    let best = |row: &[Cell], family| quickest(table, row, family).map(|(_, rate)| rate);
    let rows = table.rows.iter();
    let lines = || {
        rows.clone()
            .filter(|row| compare::is_throughput(row))
            .enumerate()
    };
    let series = PEERS.map(|(family, name)| {
        let times = lines().filter_map(|(number, row)| {
            let (ours, theirs) = (best(row, "shamba")?, best(row, family)?);
            (theirs > 0.0).then(|| (ours / theirs, number as f64))
        });
        Series::of(name, times)
    });
    Dots {
        title: "Our throughput, times that of each peer's best of the settings tried".to_owned(),
        x: "times as fast".to_owned(),
        series: series.into(),
        aimed: Some(1.0),
        ..compare::dots(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn what_repetitions_do_not_tell_apart_is_no_lead() {
        let phases = [
            ("fillrandom", 5.0, 4.0),
            ("overwrite", 2.0, 3.0),
            ("ycsb-a", 4.0, 3.5),
        ];
        let table = Report::of("", phases, |(phase, ours, theirs)| {
            row! { "phase": phase, "threads": "1", "shamba op/s": ours, "redb op/s": theirs }
        });
        use Standing::{Ahead, Behind, Level};
        let standings = |repetitions| {
            let lines = outcomes(&table, repetitions);
            let told = lines.iter().map(|line| (line.peer, line.standing));
            told.collect::<Vec<_>>()
        };
        let redb = |standings: [Standing; 3]| standings.map(|standing| ("redb", standing));
        assert_eq!(standings(None), redb([Ahead, Behind, Ahead]));
        // The last line's from 3 to 5, and from 2 to 4.
        let all = phases.iter().flat_map(|&(phase, ours, theirs)| {
            let apart = if phase == "ycsb-a" { 1.0 } else { 0.1 };
            let of = move |engine, rate: f64| {
                [(phase, engine, rate - apart), (phase, engine, rate + apart)]
            };
            of("shamba", ours).into_iter().chain(of("redb", theirs))
        });
        let all = Report::of("", all, |(phase, engine, rate)| {
            row! { "phase": phase, "threads": "1", "engine": engine, "op/s": rate }
        });
        assert_eq!(standings(Some(&all)), redb([Ahead, Behind, Level]));
        let second = &outcomes(&table, None)[1];
        assert_eq!(
            (&*second.line, (second.times * 100.0).round()),
            ("overwrite with 1", 67.0)
        );
    }

    #[test]
    fn memory_and_tails_of_latency_are_told() {
        let lines = [
            ("fillrandom", 1, [7.5, 7.0, 8.0]),
            ("overwrite", 2, [6.5, 7.0, 8.0]),
            (PEAK, 1, [90.0, 50.0, 60.0]),
            (PEAK, 2, [95.0, 50.0, 55.0]),
        ];
        let table = Report::of("", lines, |(line, threads, [ours, one, other])| {
            row! { "phase": line, "threads": threads.to_string(),
            "shamba op/s": ours, "rocksdb op/s": one, "rocksdb:hash op/s": other,
            "shamba p99 us": ours, "rocksdb p99 us": other, "rocksdb:hash p99 us": one }
        });
        let memory = peaks(&table);
        assert!(
            memory.ends_with("ours 90 to 95, RocksDB 50 to 60."),
            "{memory}"
        );
        let tails = tails(&table);
        // The quickest setting has the shorter tail of RocksDB's two.
        let told = "in 1 of 2 lines, in microseconds, with so many threads: fillrandom with 1 (7.5 against 7.0).";
        assert!(tails.ends_with(told), "{tails}");
    }

    #[test]
    fn the_best_setting_of_each_peer_counts() {
        let table = Report::of(
            "",
            [("fillrandom", 4.0), ("size on disk, MiB", 1.0)],
            |(phase, rate)| {
                row! { "phase": phase, "threads": "1", "shamba op/s": rate, "shamba p99 us": 1.0,
                "rocksdb op/s": 1.0, "rocksdb:hash op/s": 2.0, "redb op/s": 8.0 }
            },
        );
        let dots = ratios(&table);
        assert_eq!(dots.rows, ["fillrandom, 1 thread"]);
        let points = dots.series.iter().map(|series| &series.points[..]);
        assert_eq!(
            points.collect::<Vec<_>>(),
            [&[(2.0, 0.0)][..], &[], &[(0.5, 0.0)]]
        );
    }
}
