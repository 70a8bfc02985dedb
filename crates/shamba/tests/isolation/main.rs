//! Isolation of transactions: each anomaly of the literature as a script, and random histories of
//! transactions that run at a time, of which a checker says whether they can be what the isolation
//! allows (the lists that are appended to, and the graph of dependencies, as Elle has them:
//! Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB
//! 2020).
//!
//! `SHAMBA_TRANSACTIONS` sets how many transactions the random histories of one thread have
//! (default 100,000; ten times as many with `SHAMBA_FULL`), `SHAMBA_FROM` the first seed, and
//! `SHAMBA_SEED` runs the one that failed.

#[path = "../common/mod.rs"]
mod common;

mod anomalies;
mod checker;
mod clients;
mod graph;
mod planted;
mod random;
mod threads;
