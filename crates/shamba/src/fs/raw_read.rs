//! A read as it is handed to the system. Plain data.

use std::fs::File;
use std::io;

/// One read of a batch.
#[cfg_attr(
    not(all(target_os = "linux", feature = "io-uring")),
    expect(dead_code, reason = "only a ring looks at it")
)]
pub(super) struct RawRead<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    pub(super) buf: &'a mut [u8],
    /// How many bytes it brought, once it was tried.
    pub(super) done: Option<io::Result<usize>>,
}
