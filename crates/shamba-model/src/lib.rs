//! Pure models behind the SHaMBa engine: what filters of given bits answer wrongly, what their
//! modules are worth, how memory is best divided among them, what trees of which shape cost, and
//! which design is best for a workload. Plain numbers in, plain numbers out; no I/O, no state,
//! nothing of the engine.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod allocation;
pub mod bound;
#[cfg(test)]
mod brute_force;
pub mod cost;
pub mod curve;
pub mod elastic;
mod error;
pub mod expected_reads;
pub mod fpr;
pub mod growing;
pub mod hash_sharing;
pub mod matching;
pub mod merging;
pub mod modular;
pub mod monkey;
pub mod oracle;
pub mod presets;
pub mod ribbon;
pub mod search;
pub mod trade_off;
pub mod tree;
pub mod utility;
pub mod write_memory;

pub use error::ModelError;
