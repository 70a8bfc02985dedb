//! Figure 13: SHaMBa-eq beside RocksDB.
use super::against_rocksdb;
use crate::Result;
use crate::reproduce::{Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-13",
    title: "Equal-sized modules beside RocksDB",
    claim: "SHaMBa-eq has a lower latency than RocksDB when memory is short, for empty lookups and for \
            existing keys, most with skipping.",
    seconds: 30.0,
    run,
};

const ENGINES: [&str; 5] = [
    "shamba:state-of-the-art",
    "shamba:shamba-eq",
    "shamba:shamba-eq-p+paper",
    "shamba:shamba-eq-f+paper",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    against_rocksdb::run(lab, &ENGINES)
}
