//! One thread of a case: it writes the keys it owns, in keyspaces that all share and in one of its
//! own, and reads everything.

mod others;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use shamba::{
    Cursor, Db, Error, IterOptions, Keyspace, MemoryBudget, Snapshot, WriteBatch, WriteOptions,
};

use super::ledger::{KeyId, View, sum};
use super::{NAMES, Shared, entries, key_bytes, key_number};
use crate::common::{Map, Rng, contents, random_keyspace_options};

/// Snapshots and iterators that a thread holds at most, of each.
const HELD: usize = 3;

/// A value of a private keyspace with so many bytes gets no operand more.
const MOST_MERGED: usize = 1000;

/// More bytes than what tells a value from all others takes.
const PREFIX: u64 = 32;

struct HeldIter<'a> {
    view: View<'a>,
    keyspace: usize,
    iter: Cursor,
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
            360..540 => self.get(),
            540..560 => self.contains(),
            560..600 => self.multi_get(),
            600..620 => self.take_snapshot(),
            620..700 => self.read_snapshot(),
            700..720 => self.open_iter(),
            720..860 => self.move_iter(),
            860..880 => self.drop_one(),
            880..890 => self.scan(),
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

    fn own_key(&mut self) -> KeyId {
        loop {
            let key = self.any_key();
            if self.shared.ledger.owner_of(key) == self.number {
                return key;
            }
        }
    }

    /// A value that was never written before, but for empty ones.
    fn value(&mut self) -> Vec<u8> {
        // The longest that the least of the case's budgets lets be written.
        let most = self.shared.budgets.iter().min().unwrap() / 16;
        let len = match self.rng.below(100) {
            0 => match self.rng.below(4) {
                0 => most - PREFIX,
                _ => self.rng.below(most - PREFIX),
            },
            1..8 => return Vec::new(),
            8..20 => self.rng.below(3000),
            _ => self.rng.below(200),
        };
        self.written += 1;
        let mut value = format!("{}.{}:", self.number, self.written).into_bytes();
        value.extend(self.rng.bytes(len as usize));
        value
    }

    fn write(&mut self, count: usize) {
        let mut keys: Vec<KeyId> = (0..count).map(|_| self.own_key()).collect();
        let mut values: Vec<_> = keys
            .iter()
            .map(|_| (!self.rng.one_in(4)).then(|| self.value()))
            .collect();
        // As many as the least of the case's budgets lets be in a batch.
        let most = self.shared.budgets.iter().min().unwrap() / 5;
        let mut taken = 0;
        let fits = values.iter().take_while(|value| {
            taken += 128 + value.as_ref().map_or(0, Vec::len) as u64;
            taken <= most
        });
        let fits = fits.count().max(1);
        keys.truncate(fits);
        values.truncate(fits);
        let writes = keys.iter().zip(&values);
        let writes: Vec<_> = writes
            .map(|(key, value)| (*key, value.as_deref().map(sum)))
            .collect();
        let durability = *self.rng.pick(self.shared.durabilities);
        let (options, simple) = (
            WriteOptions::new().durability(durability),
            durability.is_none(),
        );
        self.shared.ledger.begin(self.number, &writes);
        let keyspaces = &self.keyspaces;
        if let ([key], [value]) = (&keys[..], &values[..])
            && self.rng.one_in(2)
        {
            let (keyspace, bytes) = (&keyspaces[key.0], key_bytes(key.1));
            let written = match value {
                Some(value) if simple => keyspace.put(bytes, value),
                Some(value) => keyspace.put_with(bytes, value, options),
                None if simple => keyspace.delete(bytes),
                None => keyspace.delete_with(bytes, options),
            };
            written.unwrap();
            return self.shared.ledger.finish(self.number);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in keys.iter().zip(&values) {
            match value {
                Some(value) => batch.put_in(&keyspaces[key.0], key_bytes(key.1), value),
                None => batch.delete_in(&keyspaces[key.0], key_bytes(key.1)),
            }
        }
        self.db.write_with(batch, options).unwrap();
        self.shared.ledger.finish(self.number);
    }

    fn get(&mut self) {
        let key = self.any_key();
        let mut view = self.shared.ledger.view();
        let keyspace = &self.keyspaces[key.0];
        let got = keyspace.get(key_bytes(key.1)).unwrap();
        view.taken();
        view.judge(key, got.as_deref(), "get");
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
            0 => {
                let iter = snapshot.iter_in(real, IterOptions::default());
                let Some(entries) = self.shared.unless_refused(entries(iter)) else {
                    return self.drop_one();
                };
                let all = 0..self.shared.keys;
                let how = "a scan at a snapshot";
                self.shared
                    .judge_stretch(view, keyspace, all, &entries, how);
            }
            1..4 => {
                let got = snapshot.multi_get_in(real, &bytes).unwrap();
                for (key, got) in keys.into_iter().zip(got) {
                    view.judge(key, got.as_deref(), "multi_get at a snapshot");
                }
            }
            4 => {
                for (key, bytes) in keys.into_iter().zip(bytes) {
                    let there = snapshot.contains_key_in(real, bytes).unwrap();
                    view.judge_presence(key, there, "contains_key at a snapshot");
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

    fn open_iter(&mut self) {
        let keyspace = self.any_key().0;
        let mut view = self.shared.ledger.view();
        let iter = self.keyspaces[keyspace].cursor(IterOptions::default());
        let Some(iter) = self.shared.unless_refused(iter) else {
            return self.drop_one();
        };
        view.taken();
        let iter = HeldIter {
            view,
            keyspace,
            iter,
        };
        self.iters.push_back(iter);
        if self.iters.len() > HELD {
            self.iters.pop_front();
        }
    }

    /// Seeks to a key and goes some steps from there, forward or backward. Everything between the
    /// two ends is judged.
    fn move_iter(&mut self) {
        let from = self.any_key().1;
        let forward = self.rng.one_in(2);
        let steps = self.rng.below(20);
        let Some(held) = self.iters.front_mut() else {
            return;
        };
        let iter = &mut held.iter;
        let mut entries = Vec::new();
        let mut moved = if forward {
            iter.seek(key_bytes(from))
        } else {
            iter.seek_for_prev(key_bytes(from))
        };
        for step in 0.. {
            if self.shared.unless_refused(moved).is_none() {
                self.iters.pop_front();
                return;
            }
            if step > steps || !iter.valid() {
                break;
            }
            entries.push((key_number(iter.key()), iter.value().to_vec()));
            moved = if forward { iter.next() } else { iter.prev() };
        }
        let last = entries.last().map(|entry| entry.0).filter(|_| iter.valid());
        let range = if forward {
            from..last.map_or(self.shared.keys, |last| last + 1)
        } else {
            entries.reverse();
            last.unwrap_or(0)..from + 1
        };
        let how = if forward { "a scan" } else { "a backward scan" };
        self.shared
            .judge_stretch(&mut held.view, held.keyspace, range, &entries, how);
        self.iters.rotate_left(1);
    }

    fn drop_one(&mut self) {
        if self.rng.one_in(2) {
            self.snapshots.pop_front();
        } else {
            self.iters.pop_front();
        }
    }

    /// A part of a keyspace, with an end that the iterator knows.
    fn scan(&mut self) {
        let (keyspace, from) = self.any_key();
        let to = self.any_key().1;
        let (from, to) = (from.min(to), from.max(to));
        let mut options = IterOptions::range(key_bytes(from)..key_bytes(to));
        options.fill_cache = self.rng.one_in(2);
        let mut view = self.shared.ledger.view();
        let iter = self.keyspaces[keyspace].iter_with(options);
        view.taken();
        let Some(entries) = self.shared.unless_refused(entries(iter)) else {
            return self.drop_one();
        };
        self.shared
            .judge_stretch(&mut view, keyspace, from..to, &entries, "a scan of a range");
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
        let key = self.rng.below(100).to_be_bytes().to_vec();
        let (deletes, merges) = (self.rng.one_in(4), self.rng.one_in(2));
        let operand_len = self.rng.between(1, 40) as usize;
        let operand = self.rng.bytes(operand_len);
        let durability = *self.rng.pick(self.shared.durabilities);
        let options = WriteOptions::new().durability(durability);
        if let Some((keyspace, map)) = &mut self.private {
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
        if let Some((keyspace, map)) = &self.private
            && let Some(entries) = self.shared.unless_refused(contents(keyspace))
        {
            assert!(entries == *map, "a private keyspace differs");
        }
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
