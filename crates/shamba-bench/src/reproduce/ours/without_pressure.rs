//! Time and memory when memory is plenty: every competitor in the build.
use crate::Result;
use crate::compare::{self, Settings};
use crate::container;
use crate::engine;
use crate::report::{Cell, Report};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-compare",
    title: "Beside other engines: with memory plenty and under pressure",
    claim: "As quick as the best when memory is plenty, quicker under pressure. (Times of one run on \
            shared cores: take ratios near 1 for equal.)",
    seconds: if cfg!(feature = "rocksdb") {
        200.0
    } else {
        40.0
    },
    run,
};

/// What is compared with; of several settings of an engine the best counts, line by line.
const PEERS: [&str; 8] = [
    "rocksdb",
    "rocksdb:pipelined",
    "rocksdb:unordered",
    "rocksdb:mmap",
    "rocksdb:hyper-hash",
    "rocksdb:ribbon-partitioned",
    "fjall",
    "redb",
];

/// Numbers of threads.
const THREADS: [usize; 2] = [1, 2];

/// Peers that cannot read past the system's page cache.
const CACHED: [&str; 2] = ["fjall", "redb"];

/// The engine of a specification.
fn family(spec: &str) -> &str {
    spec.split(':').next().unwrap_or(spec)
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut engines = vec!["shamba".to_owned()];
    for peer in PEERS {
        if engine::available().contains(&family(peer)) {
            engines.push(peer.to_owned());
        }
    }
    let settings = Settings {
        engines: engines.clone(),
        entries: lab.scale.pick(5_000, 500_000, 2_000_000, 5_000_000),
        value_size: 100,
        reads: lab.scale.pick(5_000, 200_000, 500_000, 1_000_000),
        threads: THREADS.to_vec(),
        repeat: lab.scale.pick(1, 1, 2, 3),
        write_rate: 20_000,
        dir: lab.home().to_owned(),
        seed: lab.seed,
    };
    let compared = compare::run(&settings, |line| lab.note(line))?;
    let (table, repetitions) = (compared.medians, compared.repetitions);
    let mut claims = Vec::new();
    let mut peers: Vec<&str> = engines.iter().skip(1).map(|peer| family(peer)).collect();
    peers.dedup();
    for peer in peers {
        // Throughput: rows whose name is that of a workload.
        for row in table.rows.iter().filter(|row| compare::is_throughput(row)) {
            let (Some(Cell::Text(phase)), Some(Cell::Text(threads))) = (row.first(), row.get(1))
            else {
                continue;
            };
            let settings = engines.iter().filter(|spec| family(spec) == peer);
            let rates = settings
                .filter_map(|spec| Some((value(&table, phase, threads, spec)?, spec.as_str())));
            let best = rates.max_by(|a, b| a.0.total_cmp(&b.0));
            if let (Some((theirs, best)), Some(ours)) =
                (best, value(&table, phase, threads, &engines[0]))
            {
                let what = format!("{phase}, {threads} threads, times the throughput of {best}");
                let claim = Claim::goal_from(what, 1.0, ours / theirs);
                let cause = past_the_cache(&table, phase, threads, &engines[0], best)
                    .or_else(|| several_runs(&table, phase, threads, &engines[0], best))
                    .or_else(|| not_told_apart(&repetitions, phase, threads, &engines[0], best));
                claims.push(match cause {
                    Some(cause) => claim.because(true, cause),
                    None => claim,
                });
            }
        }
    }
    let mut notes = match engines.len() {
        1 => vec!["No other engine is in this build (--features rocksdb,fjall,redb).".to_owned()],
        _ => Vec::new(),
    };
    let fact = |name: &str, threads: &str, engine: &str| value(&table, name, threads, engine);
    for (at, engine) in engines.iter().enumerate() {
        let killed = THREADS.map(|threads| fact(compare::KILLED, &threads.to_string(), engine));
        let killed = killed
            .iter()
            .flatten()
            .filter(|killed| **killed > 0.0)
            .count();
        let seen = format!(
            "killed with {killed} of {} numbers of threads",
            THREADS.len()
        );
        match (at, fact(compare::LIMIT, "1", engine)) {
            (0, Some(limit)) => claims.push(Claim::goal(
                format!("lives within {limit:.1} MiB, what the system caches for it included"),
                "yes",
                seen,
                killed == 0,
            )),
            (_, Some(limit)) if killed > 0 => notes.push(format!(
                "{engine} took more than {limit:.1} MiB under pressure: {seen}."
            )),
            _ => {}
        }
    }
    let limited = THREADS.iter().all(|threads| {
        let of = |engine: &String| fact(compare::LIMIT, &threads.to_string(), engine);
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
    Ok(Findings {
        setting: format!(
            "{} entries of 116 B; see the table's title. Files on this machine's disk, through the system's cache; \
             {pressed}.",
            settings.entries
        ),
        dots: Some(compare::dots(&table)),
        tables: vec![table, repetitions],
        claims,
        notes,
        ..Findings::default()
    })
}

/// That the disk read less for a peer, where that was measured.
fn past_the_cache(
    table: &Report,
    phase: &str,
    threads: &str,
    ours: &str,
    peer: &str,
) -> Option<String> {
    let pages = |engine| value(table, &format!("{phase}: pages/lookup"), threads, engine);
    let (ours, theirs) = (pages(ours)?, pages(peer)?);
    (CACHED.contains(&peer) && theirs < ours).then(|| {
        format!(
            "{peer} reads through the system's page cache, which its budget does not hold: the \
             disk read {theirs:.3} pages a lookup for it, {ours:.3} for us, who read past the cache{}",
            match value(table, compare::LIMIT, threads, peer) {
                Some(limit) => format!(" (it had {limit:.1} MiB in all)"),
                None => String::new(),
            }
        )
    })
}

/// What several runs cost us, where in one run we are as quick: beside a B-tree, in which a key has
/// one place and entries lie in order, or a peer with no more runs than ours, both of them merged
/// into one.
fn several_runs(
    table: &Report,
    phase: &str,
    threads: &str,
    ours: &str,
    peer: &str,
) -> Option<String> {
    let rate = |phase: &str, engine| value(table, phase, threads, engine);
    let runs = rate(compare::RUNS, ours).filter(|runs| *runs > 1.0)?;
    let in_one = format!("{phase}, one run");
    let merged = rate(&in_one, ours)?;
    let told = match rate(compare::RUNS, peer) {
        Some(theirs) if theirs <= runs => {
            let ratio = merged / rate(&in_one, peer)?;
            let micros = 1e6 * threads.parse::<f64>().ok()?;
            let further = (micros / rate(phase, ours)? - micros / merged) / (runs - 1.0);
            (ratio >= AS_QUICK).then(|| {
                format!(
                    "{peer}'s tree had {theirs:.0} runs to ask or merge, ours {runs:.0}, of which each but \
                     one cost us {further:.2} µs: in one run each ours has {ratio:.3} times its throughput"
                )
            })
        }
        None if peer == "redb" => {
            let ratio = merged / rate(phase, peer)?;
            (ratio >= AS_QUICK).then(|| {
                format!(
                    "we ask {runs:.0} runs, or merge them, {peer} has one B-tree: in one run ours has \
                     {ratio:.3} times its throughput"
                )
            })
        }
        _ => None,
    }?;
    Some(format!(
        "{told}; `shamba-bench cpu --scans 1,1000` counts the instructions of both"
    ))
}

/// That the best of our repetitions is as quick as the least of the peer's.
fn not_told_apart(
    repetitions: &Report,
    phase: &str,
    threads: &str,
    ours: &str,
    peer: &str,
) -> Option<String> {
    let of = |engine: &str| -> Vec<f64> {
        let rows = repetitions.rows.iter().filter_map(|row| match &row[..] {
            [
                Cell::Text(p),
                Cell::Text(t),
                Cell::Text(e),
                Cell::Number(rate),
            ] if p == phase && t == threads && e == engine => Some(*rate),
            _ => None,
        });
        rows.collect()
    };
    let (own, theirs) = (of(ours), of(peer));
    let most = own.iter().copied().fold(0.0, f64::max);
    let least = theirs.iter().copied().fold(f64::INFINITY, f64::min);
    let shown = |rates: &[f64]| {
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        rates.join(" and ")
    };
    (own.len() > 1 && most >= AS_QUICK * least).then(|| {
        format!(
            "repetitions do not tell the engines apart, our best being as quick as the other's least but for a tenth: \
             ours did {} a second, {peer} {}",
            shown(&own),
            shown(&theirs)
        )
    })
}

/// From this ratio on two engines are as quick: times of one run on shared cores.
const AS_QUICK: f64 = 0.9;

/// What a line of the comparison says of an engine: of a workload its throughput.
fn value(table: &Report, line: &str, threads: &str, engine: &str) -> Option<f64> {
    let row = table
        .rows
        .iter()
        .find(|row| match (row.first(), row.get(1)) {
            (Some(Cell::Text(phase)), Some(Cell::Text(number))) => {
                phase == line && number == threads
            }
            _ => false,
        })?;
    let column = format!("{engine} op/s");
    let at = table.columns.iter().position(|known| *known == column)?;
    match row.get(at) {
        Some(Cell::Number(value)) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_that_overlap_do_not_tell_engines_apart() {
        let mut repetitions = Report::new("", &["phase", "threads", "engine", "op/s"]);
        for (engine, rate) in [
            ("ours", 80.0),
            ("ours", 95.0),
            ("near", 100.0),
            ("near", 110.0),
            ("far", 200.0),
            ("far", 210.0),
        ] {
            repetitions.push(vec![
                "scan".into(),
                "1".into(),
                engine.into(),
                Cell::Number(rate),
            ]);
        }
        let told = |peer| not_told_apart(&repetitions, "scan", "1", "ours", peer);
        let near = told("near").unwrap();
        assert!(near.contains("80 and 95") && near.contains("100 and 110"));
        assert_eq!(told("far"), None);
        let absent = not_told_apart(&repetitions, "scan", "2", "ours", "near");
        assert_eq!(absent, None);
    }
}
