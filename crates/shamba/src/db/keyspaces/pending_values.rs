//! Value files to which no table points yet, because what points to them is on its way into a
//! memtable, or in one. They stay in the tree until it is flushed. Thread-safe.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::base::key::{MAX_SEQNO, SeqNo};

/// A file that something points to, or is going to, which is in no table.
#[derive(Debug)]
struct PendingFile {
    /// A sequence number that what points to it does not pass, as far as that is known.
    seq: SeqNo,
    /// The value's bytes.
    len: u64,
}

/// The files by number.
#[derive(Debug, Default)]
pub(in crate::db) struct PendingValues(Mutex<BTreeMap<u64, PendingFile>>);

impl PendingValues {
    /// An entry is to be written that points to a file with a value of so many bytes.
    pub(in crate::db) fn begin(&self, file: u64, len: u64) {
        self.0.lock().insert(
            file,
            PendingFile {
                seq: MAX_SEQNO,
                len,
            },
        );
    }

    /// It is written, with this number or a smaller one.
    pub(in crate::db) fn written(&self, file: u64, seq: SeqNo) {
        if let Some(pending) = self.0.lock().get_mut(&file) {
            pending.seq = seq;
        }
    }

    /// The bytes of all values that wait for a flush: of those to which nothing points yet, as in a
    /// transaction that is open, a flush rids nobody.
    pub(in crate::db) fn bytes(&self) -> u64 {
        let files = self.0.lock();
        let written = files.values().filter(|file| file.seq < MAX_SEQNO);
        written.map(|file| file.len).sum()
    }

    /// It was never begun to be written.
    pub(in crate::db) fn give_up(&self, file: u64) {
        self.0.lock().remove(&file);
    }

    /// Whether something may point to a file that is in no table once everything up to a number is.
    pub(in crate::db) fn holds(&self, file: u64, flushed: SeqNo) -> bool {
        let files = self.0.lock();
        files.get(&file).is_some_and(|file| file.seq > flushed)
    }

    /// Everything up to a number is in tables, for good.
    pub(in crate::db) fn flushed(&self, flushed: SeqNo) {
        let mut files = self.0.lock();
        if !files.is_empty() {
            files.retain(|_, file| file.seq > flushed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_until_what_points_to_it_is_in_tables() {
        let pending = PendingValues::default();
        assert!(!pending.holds(7, 0));
        pending.begin(7, 100);
        assert_eq!(pending.bytes(), 0);
        assert!(pending.holds(7, 1000));
        pending.written(7, 10);
        assert_eq!(pending.bytes(), 100);
        assert!(pending.holds(7, 9) && !pending.holds(7, 10));
        pending.flushed(9);
        assert!(pending.holds(7, 9));
        pending.flushed(10);
        assert!(!pending.holds(7, 0));
        assert_eq!(pending.bytes(), 0);
        pending.begin(8, 100);
        pending.give_up(8);
        assert!(!pending.holds(8, 0));
    }
}
