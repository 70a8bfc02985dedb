//! What every other module builds on: keys and tags, key digests, integer coding, checksums, the
//! iterator contract, samples, memory mapped from the system, two small shared pointers, values
//! held once, who pins blocks, sizes as text, clocks, values that expire, pointers to values.
//! Nothing here does I/O.

pub(crate) mod checksum;
pub(crate) mod clock;
pub(crate) mod coding;
pub(crate) mod digest;
pub(crate) mod expiring;
pub(crate) mod fragment;
pub(crate) mod interner;
pub(crate) mod iter;
pub(crate) mod key;
pub(crate) mod once_arc;
pub(crate) mod pages;
pub(crate) mod pin_holder;
pub(crate) mod pointer;
pub(crate) mod sample;
pub(crate) mod size;
pub(crate) mod thin;
