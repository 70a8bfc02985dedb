//! Time and memory when memory is plenty: every competitor in the build.
use crate::Result;
use crate::compare::{self, Settings};
use crate::engine;
use crate::report::{Cell, Report};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-compare",
    title: "Beside other engines: with memory plenty and under pressure",
    claim: "As quick as the best when memory is plenty, quicker under pressure. (Times of one run on \
            shared cores: take ratios near 1 for equal.)",
    seconds: 40.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut engines = vec!["shamba".to_owned()];
    for peer in ["rocksdb", "fjall", "redb"] {
        if engine::available().contains(&peer) {
            engines.push(peer.to_owned());
        }
    }
    let settings = Settings {
        engines: engines.clone(),
        entries: lab.scale.pick(5_000, 500_000, 2_000_000, 5_000_000),
        value_size: 100,
        reads: lab.scale.pick(5_000, 200_000, 500_000, 1_000_000),
        threads: vec![1, 2],
        repeat: lab.scale.pick(1, 1, 2, 3),
        write_rate: 20_000,
        dir: lab.home().to_owned(),
        seed: lab.seed,
    };
    let table = compare::run(&settings, |line| lab.note(line))?;
    let mut claims = Vec::new();
    for peer in engines.iter().skip(1) {
        let name = format!("shamba / {peer}");
        let Some(column) = table.columns.iter().position(|column| *column == name) else {
            continue;
        };
        // Throughput: rows whose name is that of a workload.
        for row in table.rows.iter().filter(|row| is_throughput(row)) {
            if let (Some(Cell::Text(phase)), Some(Cell::Text(threads)), Some(Cell::Number(ratio))) =
                (row.first(), row.get(1), row.get(column))
            {
                let what = format!("{phase}, {threads} threads, times the throughput of {peer}");
                let mut claim = Claim::at_least(what, 1.0, *ratio);
                if let Some((ours, theirs)) = pages(&table, phase, threads, &engines[0], peer)
                    && theirs < ours
                {
                    claim = claim.because(format!(
                        "{peer} reads through the system's page cache, which its budget does not hold: the \
                         disk read {theirs:.3} pages a lookup for it, {ours:.3} for us, who read past the cache"
                    ));
                }
                claims.push(claim);
            }
        }
    }
    let notes = match engines.len() {
        1 => vec!["No other engine is in this build (--features rocksdb,fjall,redb).".to_owned()],
        _ => Vec::new(),
    };
    Ok(Findings {
        setting: format!(
            "{} entries of 116 B; see the table's title. Files on this machine's disk, through the page cache \
             but where memory is short.",
            settings.entries
        ),
        tables: vec![table],
        claims,
        notes,
        ..Findings::default()
    })
}

/// Pages a lookup that the disk read for the two engines in a phase, where that was measured.
fn pages(
    table: &Report,
    phase: &str,
    threads: &str,
    ours: &str,
    theirs: &str,
) -> Option<(f64, f64)> {
    let name = format!("{phase}: pages/lookup");
    let row = table
        .rows
        .iter()
        .find(|row| match (row.first(), row.get(1)) {
            (Some(Cell::Text(phase)), Some(Cell::Text(number))) => {
                *phase == name && number == threads
            }
            _ => false,
        })?;
    let of = |engine: &str| {
        let column = format!("{engine} op/s");
        let at = table.columns.iter().position(|known| *known == column)?;
        match row.get(at) {
            Some(Cell::Number(pages)) => Some(*pages),
            _ => None,
        }
    };
    Some((of(ours)?, of(theirs)?))
}

/// Whether a row of the comparison is a throughput: those have percentiles besides.
fn is_throughput(row: &[Cell]) -> bool {
    matches!(row.get(3), Some(Cell::Number(_)))
}
