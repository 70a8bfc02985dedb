//! Pure models behind the SHaMBa engine: what filters of given bits answer wrongly, and what
//! shape a tree has. Plain numbers in, plain numbers out; no I/O, no state, nothing of the engine.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
pub mod fpr;
pub mod oracle;
pub mod tree;

pub use error::ModelError;
