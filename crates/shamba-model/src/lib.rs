//! Pure models behind the SHaMBa engine.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
