//! Time and memory when memory is plenty: every competitor in the build.
use crate::compare::{self, Compared, Settings};
use crate::container;
use crate::engine::{CACHED, family};
use crate::reproduce::prelude::*;
use std::path::PathBuf;

/// Numbers of threads.
const THREADS: [usize; 2] = [1, 2];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    // Of several settings of an engine the best counts, line by line.
    let engines: Vec<String> = lab.engines.iter().map(|&spec| spec.to_owned()).collect();
    let settings = Settings {
        engines: engines.clone(),
        workloads: Vec::new(),
        entries: lab.scale.pick(5_000, 500_000, 2_000_000, 5_000_000),
        value_size: 100,
        reads: lab.scale.pick(5_000, 200_000, 300_000, 1_000_000),
        threads: THREADS.to_vec(),
        repeat: lab.scale.pick(1, 1, 2, 3),
        write_rate: 20_000,
        dir: PathBuf::new(),
        seed: lab.seed,
    };
    let cells = lab.measured("compare", &settings, |lab| {
        let there = Settings {
            dir: lab.home()?.to_owned(),
            ..settings.clone()
        };
        let compared = compare::run(&there, &mut |line| lab.note(line))?;
        Ok(compared.wherever(&settings))
    })?;
    let compared = Compared {
        settings: settings.clone(),
        cells,
    };
    let (table, ours) = (compared.table(), &engines[0]);
    let mut claims = Vec::new();
    let mut peers: Vec<&str> = engines.iter().skip(1).map(|peer| family(peer)).collect();
    peers.dedup();
    let phases = compare::phases();
    let lines = THREADS.map(|threads| phases.iter().map(move |phase| (phase, threads)));
    let lines: Vec<(&String, usize)> = lines.into_iter().flatten().collect();
    for peer in peers {
        for &(phase, threads) in &lines {
            let rate = |engine| compared.value(phase, threads, engine);
            let settings = engines.iter().filter(|spec| family(spec) == peer);
            let rates = settings.filter_map(|spec| Some((rate(spec)?, spec.as_str())));
            let best = rates.max_by(|a, b| a.0.total_cmp(&b.0));
            let Some(((theirs, peer), own)) = best.zip(rate(ours)) else {
                continue;
            };
            let what = format!("{phase}, {threads} threads, times the throughput of {peer}");
            let mut claim = Claim::goal_from(what, 1.0, own / theirs);
            let pair = Pair {
                compared: &compared,
                phase,
                threads,
                ours,
                peer,
            };
            if let Some((least, most)) = pair.range() {
                claim.measured += &format!(" (of repetitions {least:.3} to {most:.3})");
            }
            claims.push(if let Some(both) = pair.not_told_apart() {
                claim.without_verdict(both)
            } else if let Some(cause) = pair.past_the_cache().or_else(|| pair.several_runs()) {
                claim.because(true, cause)
            } else {
                claim
            });
        }
    }
    let mut notes = match engines.len() {
        1 => vec!["No other engine is in this build (--features rocksdb,fjall,redb).".to_owned()],
        _ => Vec::new(),
    };
    let peers = engines.iter().filter(|spec| family(spec) == "rocksdb");
    if peers.clone().count() > 1 {
        notes.push(format!(
            "Of {} settings of RocksDB the quickest counts in each line.",
            peers.count()
        ));
    }
    let had = engines.iter().map(|engine| {
        let of = |line| compared.value(line, THREADS[0], engine);
        let runs = of(compare::RUNS).map_or_else(String::new, |runs| format!("{runs:.0} runs, "));
        let peak = of(compare::PEAK).unwrap_or(f64::NAN);
        format!("{engine} {runs}{peak:.0} MiB")
    });
    notes.push(format!(
        "Sorted runs on storage, where an engine tells them, and the memory of the process at most, with one thread: {}.",
        joined(had)
    ));
    for (at, engine) in engines.iter().enumerate() {
        let of = |threads: &usize| compared.value(compare::KILLED, *threads, engine);
        let killed = THREADS.iter().filter(|threads| of(threads) > Some(0.0));
        let (killed, all) = (killed.count(), THREADS.len());
        let seen = format!("killed with {killed} of {all} numbers of threads");
        let Some(limit) = compared.value(compare::LIMIT, 1, engine) else {
            continue;
        };
        if at == 0 {
            let what =
                format!("lives within {limit:.1} MiB, what the system caches for it included");
            claims.push(Claim::statement(what, "yes", seen, killed == 0).as_goal());
        } else if killed > 0 {
            notes.push(format!(
                "{engine} took more than {limit:.1} MiB under pressure: {seen}."
            ));
        }
    }
    let limited = THREADS.iter().all(|&threads| {
        let of = |engine: &String| compared.value(compare::LIMIT, threads, engine);
        engines.iter().all(|engine| of(engine).is_some())
    });
    let pressed = if limited {
        format!(
            "under pressure each engine is in a memory control group of its budget and {} MiB more, in which what \
             the system caches for it counts: for engines that read through that cache memory beyond the budget",
            container::ALLOWANCE >> 20
        )
    } else {
        "under pressure RocksDB and ours read past it, the others have as much of it as there is: no memory \
         control group could be made"
    .to_owned()
    };
    let setting = format!(
        "{} entries of 116 B; see the table's title. Files on this machine's disk, through the system's cache; \
         {pressed}.",
        settings.entries
    );
    let dots = Some(compare::dots(&table));
    let tables = [table, compared.repetitions()];
    let found = Findings::of(setting, tables, [], claims).noting(notes);
    Ok(Findings { dots, ..found })
}

/// Us and a peer in one line of the comparison.
struct Pair<'a> {
    compared: &'a Compared,
    phase: &'a str,
    threads: usize,
    ours: &'a str,
    peer: &'a str,
}

impl Pair<'_> {
    /// What a line says of us, and of the peer.
    fn both(&self, line: &str) -> (Option<f64>, Option<f64>) {
        let of = |engine| self.compared.value(line, self.threads, engine);
        (of(self.ours), of(self.peer))
    }

    /// The ratio of our slowest repetition to the peer's quickest, and of our quickest to its
    /// slowest.
    fn range(&self) -> Option<(f64, f64)> {
        let of = |engine| self.compared.values(self.phase, self.threads, engine);
        let (own, theirs) = (of(self.ours), of(self.peer));
        let several = own.len() > 1 && theirs.len() > 1;
        several.then(|| {
            (
                least_of(&own) / most_of(&theirs),
                most_of(&own) / least_of(&theirs),
            )
        })
    }

    /// That the disk read less for a peer, by as much as it is quicker, where that was measured.
    fn past_the_cache(&self) -> Option<String> {
        let (ours, theirs) = self.both(&format!("{}: pages/lookup", self.phase));
        let (ours, theirs, peer) = (ours?, theirs?, self.peer);
        let (rate, peers_rate) = self.both(self.phase);
        let slower = peers_rate? / rate?;
        (CACHED.contains(&peer) && ours >= theirs * (1.0 + AS_MUCH * (slower - 1.0))).then(|| {
            let limit = self.both(compare::LIMIT).1;
            let limit = limit.map_or_else(String::new, |limit| {
                format!(" (it had {limit:.1} MiB in all)")
            });
            format!(
                "{peer} reads through the system's page cache, which its budget does not hold: the \
                 disk read {theirs:.3} pages a lookup for it, {ours:.3} for us, who read past the cache{limit}"
            )
        })
    }

    /// What several runs cost us, where in one run we are as quick: beside a B-tree, in which a key
    /// has one place and entries lie in order, or a peer with no more runs than ours, both of them
    /// merged into one.
    fn several_runs(&self) -> Option<String> {
        let peer = self.peer;
        let (runs, peers_runs) = self.both(compare::RUNS);
        let runs = runs.filter(|runs| *runs > 1.0)?;
        let (rate, peers_rate) = self.both(self.phase);
        let (merged, peers_merged) = self.both(&format!("{}{}", self.phase, compare::IN_ONE_RUN));
        let merged = merged?;
        let (theirs, told) = match peers_runs {
            Some(theirs) if theirs <= runs => {
                let micros = 1e6 * self.threads as f64;
                let further = (micros / rate? - micros / merged) / (runs - 1.0);
                let told = format!(
                    "{peer}'s tree had {theirs:.0} runs to ask or merge, ours {runs:.0}, of which each but \
                     one cost us {further:.2} µs: in one run each ours has"
                );
                (peers_merged?, told)
            }
            None if peer == "redb" => {
                let told = format!(
                    "we ask {runs:.0} runs, or merge them, {peer} has one B-tree: in one run ours has"
                );
                (peers_rate?, told)
            }
            _ => return None,
        };
        let ratio = merged / theirs;
        (ratio >= AS_QUICK).then(|| {
            format!(
                "{told} {ratio:.3} times its throughput; `shamba-bench cpu --scans 1,1000` counts the \
                 instructions of both"
            )
        })
    }

    /// That neither's repetitions are all quicker than the other's: whoever has the better median,
    /// it is no lead.
    fn not_told_apart(&self) -> Option<String> {
        let of = |engine| self.compared.values(self.phase, self.threads, engine);
        let (own, theirs) = (of(self.ours), of(self.peer));
        let apart = |a: &[f64], b: &[f64]| least_of(a) > most_of(b);
        let [own_shown, theirs_shown] = [&own, &theirs].map(|rates| {
            let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            rates.join(" and ")
        });
        let overlap = !apart(&own, &theirs) && !apart(&theirs, &own);
        (own.len() > 1 && overlap).then(|| {
            format!(
                "repetitions do not tell the engines apart: ours did {own_shown} a second, {} {theirs_shown}",
                self.peer,
            )
        })
    }
}

/// What explains this part of a difference is its cause.
const AS_MUCH: f64 = 0.5;

/// From this ratio on two engines are as quick: times of one run on shared cores.
const AS_QUICK: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::compared;

    #[test]
    fn repetitions_that_overlap_do_not_tell_engines_apart() {
        let rates = [
            ("ours", 80.0),
            ("near", 100.0),
            ("far", 200.0),
            ("behind", 75.0),
        ];
        let mut compared = compared("scan", &rates);
        for (at, more) in [(0, 25.0), (1, 10.0), (2, 10.0), (3, 10.0)] {
            let mut again = compared.cells[at].clone();
            again.1[0].value += more;
            compared.cells.push(again);
        }
        let told = |threads, peer| {
            let pair = Pair {
                compared: &compared,
                phase: "scan",
                threads,
                ours: "ours",
                peer,
            };
            pair.not_told_apart()
        };
        let near = told(1, "near").unwrap();
        assert!(near.contains("80 and 105") && near.contains("100 and 110"));
        let range = |peer| {
            let pair = Pair {
                compared: &compared,
                phase: "scan",
                threads: 1,
                ours: "ours",
                peer,
            };
            pair.range()
        };
        assert_eq!(range("far"), Some((80.0 / 210.0, 105.0 / 200.0)));
        // A lead is none either where repetitions overlap.
        assert!(told(1, "behind").is_some());
        assert_eq!(told(1, "far"), None);
        assert_eq!(told(2, "near"), None);
    }
}
