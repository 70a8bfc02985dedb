//! Reads and writes of one key in one: `compare_and_swap`, `fetch_update`, `transact`. Of the
//! thread's own keys nobody else changes the value, so that it is known whether each succeeds. Of
//! others' keys a swap that is never to succeed, and an update that changes nothing, must leave
//! what their owners wrote, whatever these write meanwhile.

use shamba::{Error, WriteOptions};

use super::super::key_bytes;
use super::super::ledger::{KeyId, sum};
use super::Worker;
use super::transactions::{LONGEST, unless_too_large};

/// No value is this: they begin with the number of a thread, or are empty.
const NOBODYS: &[u8] = b"nobody writes this";

impl Worker<'_> {
    /// Whether writes may ask for what the database does by default, as these do.
    fn may_write_by_default(&self) -> bool {
        self.shared.durabilities.contains(&None)
    }

    /// A new value, or none for a key that is to be removed.
    fn value_or_none(&mut self) -> Option<Vec<u8>> {
        let value = self.value();
        (value.len() <= LONGEST && !self.rng.one_in(4)).then_some(value)
    }

    /// What the present value of a key is, as a reader is told.
    fn current(&self, key: KeyId) -> Option<Vec<u8>> {
        let mut view = self.shared.ledger.view();
        let got = self.keyspaces[key.0].get(key_bytes(key.1)).unwrap();
        view.taken();
        view.judge(key, got.as_deref(), "get before an update");
        got.map(shamba::Value::into_vec)
    }

    /// Writes a key of its own, by what gives a result; none where there was no memory for it.
    fn write_own<T>(
        &self,
        key: KeyId,
        new: Option<&[u8]>,
        write: impl FnOnce() -> shamba::Result<T>,
    ) -> Option<T> {
        let ledger = &self.shared.ledger;
        ledger.begin(self.number, &[(key, new.map(sum))]);
        let written = unless_too_large(write());
        if written.is_some() {
            ledger.finish(self.number);
        } else {
            ledger.abandon(self.number);
        }
        written
    }

    pub(super) fn compare_and_swap(&mut self) {
        if !self.may_write_by_default() {
            return;
        }
        let new = self.value_or_none();
        if self.rng.one_in(2) {
            let key = self.own_key();
            let current = self.current(key);
            if self.rng.one_in(3) {
                return self.swap_in_vain(key, current.as_deref(), new.as_deref());
            }
            let keyspace = &self.keyspaces[key.0];
            let swap =
                || keyspace.compare_and_swap(key_bytes(key.1), current.as_deref(), new.as_deref());
            if let Some(swapped) = self.write_own(key, new.as_deref(), swap) {
                assert!(swapped.is_ok(), "{key:?} was not swapped: {swapped:?}");
                let now = self.keyspaces[key.0].get(key_bytes(key.1)).unwrap();
                assert_eq!(now.as_deref(), new.as_deref(), "{key:?} after a swap");
            }
            return;
        }
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let swapped =
            self.keyspaces[key.0].compare_and_swap(key_bytes(key.1), Some(NOBODYS), new.as_deref());
        let Some(swapped) = unless_too_large(swapped) else {
            return;
        };
        view.taken();
        let failed = swapped.expect_err("a swap for a value that nobody wrote");
        view.judge(key, failed.current.as_deref(), "compare_and_swap");
    }

    /// Expects what a key of the thread's own has not.
    fn swap_in_vain(&mut self, key: KeyId, current: Option<&[u8]>, new: Option<&[u8]>) {
        let expected = match current {
            Some(_) if self.rng.one_in(2) => None,
            _ => Some(NOBODYS),
        };
        let swapped = self.keyspaces[key.0].compare_and_swap(key_bytes(key.1), expected, new);
        if let Some(swapped) = unless_too_large(swapped) {
            let failed = swapped.expect_err("a swap for another value");
            assert_eq!(
                failed.current.as_deref(),
                current,
                "a failed swap of {key:?}"
            );
        }
        let now = self.keyspaces[key.0].get(key_bytes(key.1)).unwrap();
        assert_eq!(now.as_deref(), current, "{key:?} after a failed swap");
    }

    pub(super) fn fetch_update(&mut self) {
        if !self.may_write_by_default() {
            return;
        }
        if self.rng.one_in(2) {
            let (key, new) = (self.own_key(), self.value_or_none());
            let current = self.current(key);
            let keyspace = &self.keyspaces[key.0];
            let update = || {
                keyspace.fetch_update(key_bytes(key.1), |before| {
                    assert_eq!(
                        before,
                        current.as_deref(),
                        "what is to be updated of {key:?}"
                    );
                    new.as_deref()
                })
            };
            if let Some(before) = self.write_own(key, new.as_deref(), update) {
                assert_eq!(before.as_deref(), current.as_deref(), "before an update");
                let now = self.keyspaces[key.0].get(key_bytes(key.1)).unwrap();
                assert_eq!(now.as_deref(), new.as_deref(), "{key:?} after an update");
            }
            return;
        }
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let same = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
        let before = self.keyspaces[key.0].fetch_update(key_bytes(key.1), same);
        let Some(before) = unless_too_large(before) else {
            return;
        };
        view.taken();
        view.judge(key, before.as_deref(), "fetch_update");
    }

    /// Reads any key and writes one of its own, again where others wrote what it read.
    pub(super) fn transact(&mut self) {
        let (read, key, new) = (self.any_key(), self.own_key(), self.value_or_none());
        let durability = *self.rng.pick(self.shared.durabilities);
        let options = WriteOptions::new().durability(durability);
        let keyspaces = &self.keyspaces;
        let mut view = self.shared.ledger.view();
        self.shared
            .ledger
            .begin(self.number, &[(key, new.as_deref().map(sum))]);
        let done = self
            .db
            .transact_with(Default::default(), options, |transaction| {
                let found = transaction.get_in(&keyspaces[read.0], key_bytes(read.1))?;
                let (keyspace, bytes) = (&keyspaces[key.0], key_bytes(key.1));
                match &new {
                    Some(new) => transaction.put_in(keyspace, bytes, new)?,
                    None => transaction.delete_in(keyspace, bytes)?,
                }
                Ok(found)
            });
        let found = match done {
            Err(Error::Conflict { .. }) => None,
            done => unless_too_large(done),
        };
        let Some(found) = found else {
            return self.shared.ledger.abandon(self.number);
        };
        self.shared.ledger.finish(self.number);
        view.taken();
        view.judge(read, found.as_deref(), "get in transact");
    }
}
