//! The partition that a builder gathers. One owner.

use super::index::{Boundary, IndexBuilder, separator};
use crate::base::digest::KeyDigest;

/// See the module.
#[derive(Default)]
pub(super) struct OpenPartition {
    pub(super) digests: Vec<KeyDigest>,
    pub(super) keys: usize,
    pub(super) index: IndexBuilder,
    /// What separates the last block written from what follows, should that be a partition.
    pub(super) separator: Vec<u8>,
    /// The same, should it be a block.
    boundary: Boundary,
}

impl OpenPartition {
    /// Adds a data block that was written.
    pub(super) fn push(&mut self, pages: u32) {
        // Between this block and the one before the index has a separator.
        if self.index.blocks() > 0 {
            self.index.separate(&self.boundary);
        }
        self.index.push(pages);
    }

    /// Notes the last key of the last block, and the first key after it, if there is one.
    pub(super) fn separate(&mut self, last: &[u8], next: Option<&[u8]>) {
        match next {
            Some(next) => {
                separator(last, next, &mut self.separator);
                self.boundary.set(last, next);
            }
            None => {
                self.separator.clear();
                self.separator.extend_from_slice(last);
                self.boundary.clear();
            }
        }
    }

    /// What the last separators take, in bytes.
    pub(super) fn separators(&self) -> usize {
        self.separator.capacity() + self.boundary.memory()
    }

    /// The next partition begins with nothing; the index was finished.
    pub(super) fn clear(&mut self) {
        self.digests.clear();
        self.keys = 0;
        self.separator.clear();
        self.boundary.clear();
    }
}
