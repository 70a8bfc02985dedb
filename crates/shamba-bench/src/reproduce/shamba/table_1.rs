//! Table 1: what an empty lookup reads when filters and indexes do not fit in memory.
use super::pressure::{self, LOW_SKEW, MEMORY};
use crate::reproduce::prelude::*;
use shamba::MIN_MEMORY;

/// Budgets in percent of filters and indexes, and reads in KB as the paper has them.
const PAPER: [(f64, f64); 4] = [(10.0, 279.0), (40.0, 88.0), (70.0, 17.0), (100.0, 12.0)];

const UNIFORM: &str = "uniform KB";
const LOW: &str = "low skew KB";
const OURS: &str = "our default, uniform KB";
const OURS_LOW: &str = "our default, low skew KB";
const ROCKSDB_LOW: &str = "RocksDB, low skew KB";

/// The columns, and what is measured for them.
const COLUMNS: [(&str, &str, Distribution); 4] = [
    (UNIFORM, STATE_OF_THE_ART, Distribution::Uniform),
    (LOW, STATE_OF_THE_ART, LOW_SKEW),
    (OURS, "shamba", Distribution::Uniform),
    (OURS_LOW, "shamba", LOW_SKEW),
];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Bytes read by an empty lookup (KB)");
    let base = lab.base(STATE_OF_THE_ART);
    for (percent, paper) in PAPER {
        let least = MIN_MEMORY as f64 * 100.0 / lab.metadata(&base)? as f64;
        let had = percent.max(least);
        let mut row = row! { "paper's budget %": percent, "budget %": had, "paper KB": paper };
        for (column, engine, distribution) in COLUMNS {
            let trial = lab.lookups(engine, percent, 0.0, distribution)?;
            let kb = lab.measure(&trial)?.pages() * 4.096;
            row.push((column.to_owned(), kb.into()));
        }
        // What RocksDB reads is counted on a disk.
        for peer in lab.engines.clone() {
            let trial = lab.lookups(peer, percent, 0.0, LOW_SKEW)?;
            let kb = lab.measure(&trial.on(Device::Disk))?.pages() * 4.096;
            row.push((ROCKSDB_LOW.to_owned(), kb.into()));
        }
        table.add(row);
    }
    let [uniform, skewed, ours] = [UNIFORM, LOW, OURS].map(|column| table.numbers(column));
    let untold = "the paper's workload has a low skew of which it does not say how wide it is (here about as wide as its Figure \
                  2), and it does not say how large its files are (in its section 5 their filters have 80 KB): what a lookup \
                  reads hangs on both";
    // The paper has RocksDB itself.
    let (who, read) = match lab.engines[..] {
        [] => ("one filter a file in this engine", skewed.clone()),
        _ => ("RocksDB", table.numbers(ROCKSDB_LOW)),
    };
    let mut claims = Vec::new();
    for ((percent, paper), read) in PAPER.iter().zip(&read) {
        let what = format!("KB that {who} reads with {percent} % of memory, low skew");
        let claim = Claim::figure(what, *paper, *read);
        claims.push(claim.without_verdict(untold));
    }
    // With each budget, ours beside theirs.
    let lost = (PAPER.iter().zip(ours.iter().zip(&uniform)))
        .filter(|(_, (ours, theirs))| ours >= theirs)
        .map(|((percent, _), (ours, theirs))| format!("{percent} % ({ours:.1} KB, {theirs:.1})"));
    let what = "our default reads less than one filter a file, uniform";
    let lost: Vec<String> = lost.collect();
    claims.push(Claim::everywhere(what, PAPER.len(), &lost).as_goal());
    let mut columns = vec!["paper KB", UNIFORM, LOW, OURS, OURS_LOW];
    columns.extend((!lab.engines.is_empty()).then_some(ROCKSDB_LOW));
    let y = "KB read per lookup";
    let panel = Panel::of_columns("Empty lookups", &table, "budget %", y, &columns);
    let panel = panel.over(MEMORY).logarithmic();
    let setting = pressure::setting(lab) + &pressure::memory_of_both(lab)?;
    Ok(Findings::of(setting, [table], [panel], claims))
}
