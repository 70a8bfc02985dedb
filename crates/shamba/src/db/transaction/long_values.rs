//! Values of a transaction that are too long to be written whole: each goes into a file of its own
//! when it is put, and the batch points there. Nothing points to the files of one that is not
//! committed, and they go with it. Single-threaded.

use std::sync::{Arc, Weak};

use crate::db::DbShared;
use crate::db::in_pieces::UnpointedFile;
use crate::error::Result;

/// The files of the values.
#[derive(Debug, Default)]
pub(super) struct LongValues {
    /// None while there are none.
    db: Option<Weak<DbShared>>,
    files: Vec<UnpointedFile>,
}

impl LongValues {
    /// What one more takes, in bytes.
    pub(super) const FILE_BYTES: usize = size_of::<UnpointedFile>();

    /// What they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.files.capacity() * Self::FILE_BYTES
    }

    /// One more of a database's.
    pub(super) fn push(&mut self, db: &Arc<DbShared>, file: UnpointedFile) {
        self.db.get_or_insert_with(|| Arc::downgrade(db));
        self.files.reserve_exact(1);
        self.files.push(file);
    }

    /// Nothing is to point to those behind the first so many.
    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(db) = self.db.as_ref().and_then(Weak::upgrade) {
            let from = len.min(self.files.len());
            UnpointedFile::give_up_all(self.files.drain(from..), db.inner());
        }
    }

    /// The batch that points to them was written, or was not.
    pub(super) fn settle(mut self, written: &Result<()>) {
        if written.is_ok()
            && let Some(db) = self.db.as_ref().and_then(Weak::upgrade)
        {
            for file in self.files.drain(..) {
                file.settle(db.inner(), written);
            }
        }
    }
}

impl Drop for LongValues {
    fn drop(&mut self) {
        self.truncate(0);
    }
}
