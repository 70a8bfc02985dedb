//! "ElasticBF: Elastic Bloom filter management with locality awareness" (by its slides).
mod access_frequency;
mod against_monkey;
mod common;
mod pairs;
mod put_scan;
mod sensitivity;

use super::catalogue::Run;

/// The figures of the slides.
pub(super) const ALL: &[(&str, Run)] = &[
    ("elasticbf-access-frequency", access_frequency::run),
    ("elasticbf-micro-benchmark", pairs::micro_benchmark),
    ("elasticbf-mixed", pairs::mixed),
    ("elasticbf-put-scan", put_scan::run),
    ("elasticbf-ycsb", pairs::ycsb),
    ("elasticbf-against-monkey", against_monkey::run),
    ("elasticbf-sensitivity", sensitivity::run),
];
