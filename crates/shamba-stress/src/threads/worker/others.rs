//! What a thread does beside reading and writing entries: it moves data about, asks, copies, and
//! opens the database beside the one that is open.

use shamba::{Error, MemoryBudget, Options};

use super::super::{key_bytes, within_budget};
use super::Worker;
use crate::common::{random_design, random_filter_policy};

impl Worker<'_> {
    pub(super) fn change_limit(&mut self) {
        let limit = *self.rng.pick(self.shared.budgets);
        self.memory.set_limit(limit).unwrap();
    }

    pub(super) fn compact(&mut self) {
        let (keyspace, from) = self.any_key();
        let (from, to) = (key_bytes(from), key_bytes(self.any_key().1));
        let keyspace = &self.keyspaces[keyspace];
        match self.rng.below(4) {
            0 => keyspace.compact_range(None, None).unwrap(),
            1 => keyspace.compact_range(Some(&from), None).unwrap(),
            2 => {
                let end = Some(&to[..]);
                self.db.compact_range_in(keyspace, None, end).unwrap();
            }
            _ => {
                let (from, to) = (from.clone().min(to.clone()), from.max(to));
                keyspace.compact_range(Some(&from), Some(&to)).unwrap();
            }
        }
    }

    pub(super) fn redesign(&mut self) {
        let keyspace = self.any_key().0;
        let design = random_design(&mut self.rng);
        self.keyspaces[keyspace].redesign(design).unwrap();
    }

    pub(super) fn change_policy(&mut self) {
        let keyspace = self.any_key().0;
        let policy = random_filter_policy(&mut self.rng);
        self.keyspaces[keyspace].set_filter_policy(policy).unwrap();
    }

    /// Asks for everything that can be asked for without knowing what the answer is.
    pub(super) fn statistics(&mut self) {
        let keyspace = self.any_key().0;
        let statistics = self.db.stats();
        assert_eq!(statistics.writes_stopped, None);
        assert_eq!(statistics.flushes_stopped, None);
        assert_eq!(statistics.compactions_stopped, None);
        let _ = self.keyspaces[keyspace].advise().unwrap();
        let _ = self.keyspaces[keyspace].approximate_size(b"0", b"9");
        within_budget(self.memory);
    }

    pub(super) fn checkpoint(&mut self) {
        let name = format!("{}-{}", self.private_name, self.checkpoints);
        self.checkpoints += 1;
        let folder = self.shared.dir.with_file_name(name);
        let mut view = self.shared.ledger.view();
        self.db.checkpoint(&folder).unwrap();
        view.taken();
        let options = shamba::Options::new().fs(self.shared.fs.clone());
        let copy = options
            .memory(MemoryBudget::bytes(8 << 20))
            .create_if_missing(false)
            .background_threads(0)
            .open(&folder)
            .unwrap();
        self.shared.judge_all(&mut view, &copy, "a checkpoint");
        copy.verify().unwrap().check().unwrap();
        drop(copy);
        for file in self.shared.fs.list(&folder).unwrap() {
            self.shared.fs.remove(&folder.join(file.name)).unwrap();
        }
    }

    /// Opens the database to be read while it is open to be written, and verifies it as another
    /// process would.
    pub(super) fn open_beside(&mut self) {
        let options = || {
            let options = Options::new().fs(self.shared.fs.clone());
            let memory = MemoryBudget::bytes(32 << 20);
            options.memory(memory).read_only(true)
        };
        let gone = |error: &Error| matches!(error, Error::Outdated { .. });
        let mut view = self.shared.ledger.view();
        match options().open(&self.shared.dir) {
            // What was not logged is not there.
            Ok(beside) if self.shared.logged() => {
                view.taken();
                self.shared.judge_all(&mut view, &beside, "beside a writer");
            }
            Ok(_) => {}
            Err(error) => assert!(gone(&error), "{error}"),
        }
        match options().verify(&self.shared.dir, |_, _| {}) {
            Ok(summary) => summary.check().unwrap(),
            Err(error) => assert!(gone(&error), "{error}"),
        }
    }
}
