//! Logs: the one format of the write-ahead log and of the manifest.
//!
//! A log is a file of records, each a byte string with a caller's number, appended in order and
//! read back in order after a restart. Call protocol: [`LogWriter::create`], then
//! `(append* (flush | sync))*`, then [`LogWriter::seal`] when a successor takes over. After a
//! restart a [`Survey`] finds where the sequence of logs validly ends, changing nothing, and hands
//! out the records up to there. A writer belongs to one thread at a time; readers share nothing.
//!
//! # Positions
//!
//! Every byte ever logged has a position: a log starts at its *base*, which is the position where
//! its predecessor ended, so positions go on from log to log. A log whose base is not the valid
//! end of its predecessor shows that something between is missing. Who keeps a list of the logs
//! elsewhere, with their bases and how far they were durable, says so ([`NeededLog`], [`Reached`]):
//! then a log that is gone, or another in its place, is noticed wherever it is in the sequence.
//!
//! Each record states up to which position everything was durable when it was written (`synced`).
//! This is how a torn tail, which a crash may leave and which nobody was promised, is told from
//! damage to durable data: if anything valid after the first invalid byte X says that X was
//! durable, data was lost.
//!
//! # Bytes
//!
//! All integers are little endian. A log file is a header of 44 bytes
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic, `SHaMBaLg` |
//! | 8..12 | format version, 1 |
//! | 12..16 | salt |
//! | 16..24 | log number |
//! | 24..32 | base |
//! | 32..40 | synced: up to where its predecessors were durable when the log was created |
//! | 40..44 | CRC-32C of bytes 0..40, in every version |
//!
//! and then records back to back, each a header of 28 bytes and its payload:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | payload length, at most 256 MiB |
//! | 4..8 | CRC-32C of the payload, started from the salt |
//! | 8..16 | the caller's number (a sequence number) |
//! | 16..24 | synced |
//! | 24..28 | CRC-32C of the record's position (8 bytes) and then bytes 0..24, started from the salt |
//! | 28.. | payload |
//!
//! The salt differs from log to log and the position from byte to byte, so neither a reused
//! block of an older file nor a payload that itself holds a log is ever taken for a record. A
//! record without payload is the seal: it ends the log and only carries `synced`. It is not synced
//! itself, so it takes up no positions: the successor's base is the position of the seal.
//!
//! Assumption about the medium: within the first 512 bytes of a file, a torn write leaves a prefix.

mod format;
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(crate) mod fuzzing;
mod mode;
mod reader;
mod recovery;
mod writer;

pub(crate) use format::{LOG_HEADER, LogInfo, RECORD_HEADER};
pub use mode::RecoveryMode;
pub(crate) use reader::Record;
pub(crate) use recovery::{NeededLog, Reached, Survey, WholeLog, recover_logs};
pub(crate) use writer::{LogStart, LogWriter};

#[cfg(test)]
mod tests;
