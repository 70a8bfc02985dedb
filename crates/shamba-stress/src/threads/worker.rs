//! One thread of a case: it writes the keys it owns, in keyspaces that all share and in one of its
//! own, and reads everything.

mod others;
mod scans;
mod transactions;
mod updates;
mod writes;

use std::collections::VecDeque;
use std::io::Read;
use std::sync::atomic::Ordering;

use shamba::{Db, Error, Keyspace, MemoryBudget, Snapshot, ValueReader, WriteOptions};

use super::ledger::{KeyId, View};
use super::{NAMES, Shared, key_bytes};
use crate::common::{Map, Rng, contents, random_keyspace_options};
use scans::HeldIter;

/// Snapshots and iterators that a thread holds at most, of each.
const HELD: usize = 3;

/// A value of a private keyspace with so many bytes gets no operand more.
const MOST_MERGED: usize = 1000;

/// All that a reader gives.
fn all_of(mut reader: ValueReader) -> Vec<u8> {
    let mut value = Vec::new();
    reader.read_to_end(&mut value).unwrap();
    assert_eq!(
        value.len() as u64,
        reader.len(),
        "a value of another length"
    );
    value
}

pub struct Worker<'a> {
    shared: &'a Shared,
    db: &'a Db,
    memory: &'a MemoryBudget,
    rng: Rng,
    number: usize,
    keyspaces: Vec<Keyspace>,
    snapshots: VecDeque<(Snapshot, View<'a>)>,
    iters: VecDeque<HeldIter<'a>>,
    /// The keyspace that only this thread uses, if it is there, and what is in it.
    private: Option<(Keyspace, Map)>,
    private_name: String,
    checkpoints: u64,
    written: u64,
}

impl<'a> Worker<'a> {
    pub fn new(
        shared: &'a Shared,
        db: &'a Db,
        memory: &'a MemoryBudget,
        rng: Rng,
        number: usize,
        private_name: String,
    ) -> Self {
        let keyspaces = NAMES.iter().map(|name| db.keyspace(name).unwrap());
        Worker {
            shared,
            db,
            memory,
            rng,
            number,
            keyspaces: keyspaces.collect(),
            snapshots: VecDeque::new(),
            iters: VecDeque::new(),
            private: None,
            private_name,
            checkpoints: 0,
            written: 0,
        }
    }

    pub fn run(mut self, operations: u64) {
        for _ in 0..operations {
            if self.shared.stop.load(Ordering::Relaxed) {
                return;
            }
            self.step();
        }
        if self.private.is_some() {
            self.check_private();
            self.drop_private();
        }
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..300 => self.write(1),
            300..360 => {
                let count = self.rng.between(2, 30);
                self.write(count as usize);
            }
            360..500 => self.get(),
            500..510 => self.get_in_pieces(),
            510..540 => self.scan(),
            540..560 => self.contains(),
            560..600 => self.multi_get(),
            600..620 => self.take_snapshot(),
            620..630 => self.scan_snapshot(),
            630..700 => self.read_snapshot(),
            700..720 => self.open_iter(),
            720..830 => self.move_iter(),
            830..840 => self.compare_and_swap(),
            840..850 => self.fetch_update(),
            850..855 => self.transact(),
            855..860 => self.transaction(),
            860..880 => self.drop_one(),
            880..890 => self.transaction(),
            890..930 => self.write_private(),
            930..938 => self.check_private(),
            938..940 => self.clear_private(),
            940..943 => self.drop_private(),
            943..950 => self.change_limit(),
            950..1000 if self.shared.restless && self.rng.one_in(2) => self.change_limit(),
            950..958 => self.db.flush().unwrap(),
            958..962 => self.compact(),
            962..966 => self.redesign(),
            966..972 => self.change_policy(),
            972..980 => self.statistics(),
            980..983 => self.db.verify().unwrap().check().unwrap(),
            983..986 => self.checkpoint(),
            986..988 => self.open_beside(),
            988..990 => self.db.wait_for_compaction().unwrap(),
            _ => self.db.sync().unwrap(),
        }
    }

    fn any_key(&mut self) -> KeyId {
        let keyspace = self.rng.below(NAMES.len() as u64) as usize;
        let number = if self.rng.one_in(2) {
            self.rng.below(u64::from(self.shared.keys) / 10 + 1)
        } else {
            self.rng.below(u64::from(self.shared.keys))
        };
        (keyspace, number as u32)
    }

    fn get(&mut self) {
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let keyspace = &self.keyspaces[key.0];
        let got = keyspace.get(key_bytes(key.1)).unwrap();
        view.taken();
        view.judge(key, got.as_deref(), "get");
    }

    fn get_in_pieces(&mut self) {
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let keyspace = &self.keyspaces[key.0];
        let reader = keyspace.get_reader(key_bytes(key.1)).unwrap();
        view.taken();
        let got = reader.map(all_of);
        view.judge(key, got.as_deref(), "get_reader");
    }

    fn contains(&mut self) {
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let keyspace = &self.keyspaces[key.0];
        let there = keyspace.contains_key(key_bytes(key.1)).unwrap();
        view.taken();
        view.judge_presence(key, there, "contains_key");
    }

    fn keys_of_one(&mut self) -> (usize, Vec<KeyId>, Vec<Vec<u8>>) {
        let keyspace = self.any_key().0;
        let count = self.rng.below(30);
        let keys: Vec<KeyId> = (0..count).map(|_| (keyspace, self.any_key().1)).collect();
        let bytes = keys.iter().map(|key| key_bytes(key.1)).collect();
        (keyspace, keys, bytes)
    }

    fn multi_get(&mut self) {
        let (keyspace, keys, bytes) = self.keys_of_one();
        let mut view = self.shared.ledger.view();
        let got = self.keyspaces[keyspace].multi_get(&bytes).unwrap();
        view.taken();
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.into_iter().zip(got) {
            view.judge(key, got.as_deref(), "multi_get");
        }
    }

    fn take_snapshot(&mut self) {
        let mut view = self.shared.ledger.view();
        let snapshot = self.db.snapshot();
        view.taken();
        self.snapshots.push_back((snapshot, view));
        if self.snapshots.len() > HELD {
            self.snapshots.pop_front();
        }
    }

    fn read_snapshot(&mut self) {
        let (keyspace, keys, bytes) = self.keys_of_one();
        let how = self.rng.below(8);
        let Some((snapshot, view)) = self.snapshots.back_mut() else {
            return;
        };
        let real = &self.keyspaces[keyspace];
        match how {
            0..3 => {
                let got = snapshot.multi_get_in(real, &bytes).unwrap();
                for (key, got) in keys.into_iter().zip(got) {
                    view.judge(key, got.as_deref(), "multi_get at a snapshot");
                }
            }
            3 => {
                for (key, bytes) in keys.into_iter().zip(bytes) {
                    let there = snapshot.contains_key_in(real, bytes).unwrap();
                    view.judge_presence(key, there, "contains_key at a snapshot");
                }
            }
            4 => {
                for (key, bytes) in keys.into_iter().zip(bytes).take(2) {
                    let reader = snapshot.get_reader_in(real, bytes).unwrap();
                    let got = reader.map(all_of);
                    view.judge(key, got.as_deref(), "get_reader at a snapshot");
                }
            }
            _ => {
                for (key, bytes) in keys.into_iter().zip(bytes).take(4) {
                    let got = snapshot.get_in(real, bytes).unwrap();
                    view.judge(key, got.as_deref(), "get at a snapshot");
                }
            }
        }
        self.snapshots.rotate_left(1);
    }

    fn drop_one(&mut self) {
        if self.rng.one_in(2) {
            self.snapshots.pop_front();
        } else {
            self.iters.pop_front();
        }
    }

    fn write_private(&mut self) {
        if self.private.is_none() {
            let options = random_keyspace_options(&mut self.rng);
            let keyspace = self
                .db
                .create_keyspace(&self.private_name, options)
                .unwrap();
            let new = self
                .shared
                .unless_refused(contents(&keyspace))
                .unwrap_or_default();
            assert!(new.is_empty(), "a new keyspace is not empty");
            self.private = Some((keyspace, Map::new()));
        }
        let value = self.value();
        let key = self.private_key();
        let (deletes, merges) = (self.rng.one_in(4), self.rng.one_in(2));
        let end = self.rng.one_in(8).then(|| self.private_key());
        let operand_len = self.rng.between(1, 40) as usize;
        let operand = self.rng.bytes(operand_len);
        let durability = *self.rng.pick(self.shared.durabilities);
        let options = WriteOptions::new().durability(durability);
        if let Some((keyspace, map)) = &mut self.private {
            if let Some(end) = end.filter(|end| key < *end) {
                let range = key..end;
                let deleted = keyspace.delete_range_with(range.clone(), options);
                deleted.unwrap();
                map.retain(|key, _| !range.contains(key));
                return;
            }
            let there = map.get(&key).map_or(0, Vec::len);
            if merges && there < MOST_MERGED {
                keyspace.merge_with(&key, &operand, options).unwrap();
                map.entry(key).or_default().extend(operand);
                return;
            }
            if deletes {
                keyspace.delete_with(&key, options).unwrap();
                map.remove(&key);
                return;
            }
            keyspace.put_with(&key, &value, options).unwrap();
            map.insert(key, value);
        }
    }

    fn check_private(&mut self) {
        let part = self.private_key().min(self.private_key())..self.private_key();
        if let Some((keyspace, map)) = &self.private {
            if let Some(entries) = self.shared.unless_refused(contents(keyspace)) {
                assert!(entries == *map, "a private keyspace differs");
            }
            let found: shamba::Result<Vec<_>> = keyspace.range(part.clone()).collect();
            if let Some(found) = self.shared.unless_refused(found) {
                let found = found.iter().map(|(key, value)| (key, &**value));
                let wanted = map.iter().filter(|(key, _)| part.contains(*key));
                let wanted = wanted.map(|(key, value)| (key, value.as_slice()));
                assert!(found.eq(wanted), "a part of a private keyspace differs");
            }
        }
    }

    fn private_key(&mut self) -> Vec<u8> {
        self.rng.below(100).to_be_bytes().to_vec()
    }

    /// At once, or key by key where others hold snapshots.
    fn clear_private(&mut self) {
        if let Some((keyspace, map)) = &mut self.private {
            match keyspace.clear() {
                // The keys are gone through with a cursor, which may be one too many.
                Err(Error::IteratorsExhausted { .. }) => return,
                cleared => cleared.unwrap(),
            }
            map.clear();
        }
        self.check_private();
    }

    fn drop_private(&mut self) {
        let Some((keyspace, _)) = self.private.take() else {
            return;
        };
        self.db.drop_keyspace(&self.private_name).unwrap();
        let error = keyspace.put("key", "value").unwrap_err();
        assert!(matches!(error, Error::KeyspaceDropped { .. }), "{error}");
        let error = keyspace.get("key").unwrap_err();
        assert!(matches!(error, Error::KeyspaceDropped { .. }), "{error}");
    }
}
