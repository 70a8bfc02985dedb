//! Figure 14: SHaMBa-prop beside RocksDB.
use super::against_rocksdb;
use crate::Result;
use crate::reproduce::{Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-14",
    title: "Modules proportional to memory beside RocksDB",
    claim: "SHaMBa-prop significantly reduces the latency of RocksDB under memory pressure, most with \
            full skipping.",
    seconds: 5.0,
    run,
};

const ENGINES: [&str; 5] = [
    "shamba:state-of-the-art",
    "shamba:shamba-prop+first={first}",
    "shamba:shamba-prop-p+paper+first={first}",
    "shamba:shamba-prop-f+paper+first={first}",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    against_rocksdb::run(lab, &ENGINES)
}
