//! Value files to which no table points yet, because what points to them is on its way into a
//! memtable, or in one. They stay in the tree until it is flushed. Thread-safe.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::base::key::{MAX_SEQNO, SeqNo};

/// The files by number; with each a sequence number that what points to it does not pass, as far as
/// that is known.
#[derive(Debug, Default)]
pub(in crate::db) struct PendingValues(Mutex<BTreeMap<u64, SeqNo>>);

impl PendingValues {
    /// An entry is to be written that points to a file.
    pub(in crate::db) fn begin(&self, file: u64) {
        self.0.lock().insert(file, MAX_SEQNO);
    }

    /// It is written, with this number or a smaller one.
    pub(in crate::db) fn written(&self, file: u64, seq: SeqNo) {
        self.0.lock().insert(file, seq);
    }

    /// It was never begun to be written.
    pub(in crate::db) fn give_up(&self, file: u64) {
        self.0.lock().remove(&file);
    }

    /// Whether something may point to a file that is in no table once everything up to a number is.
    pub(in crate::db) fn holds(&self, file: u64, flushed: SeqNo) -> bool {
        self.0.lock().get(&file).is_some_and(|&seq| seq > flushed)
    }

    /// Everything up to a number is in tables, for good.
    pub(in crate::db) fn flushed(&self, flushed: SeqNo) {
        let mut files = self.0.lock();
        if !files.is_empty() {
            files.retain(|_, seq| *seq > flushed);
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
        pending.begin(7);
        assert!(pending.holds(7, 1000));
        pending.written(7, 10);
        assert!(pending.holds(7, 9) && !pending.holds(7, 10));
        pending.flushed(9);
        assert!(pending.holds(7, 9));
        pending.flushed(10);
        assert!(!pending.holds(7, 0));
        pending.begin(8);
        pending.give_up(8);
        assert!(!pending.holds(8, 0));
    }
}
