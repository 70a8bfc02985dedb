//! One thread of a case: it writes the keys it owns, in keyspaces that all share and in one of its own,
//! and reads everything.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use shamba::{
    Db, Durability, Error, Iter, IterOptions, Keyspace, MemoryBudget, Snapshot, WriteBatch,
    WriteOptions,
};

use super::ledger::{KeyId, View, sum};
use super::{BUDGETS, NAMES, Shared, key_bytes, key_number};
use crate::common::{
    Map, Rng, contents, random_design, random_filter_policy, random_keyspace_options,
};

/// Snapshots and iterators that a thread holds at most, of each.
const HELD: usize = 3;

struct HeldIter<'a> {
    view: View<'a>,
    keyspace: usize,
    iter: Iter,
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
            360..560 => self.get(),
            560..600 => self.multi_get(),
            600..620 => self.take_snapshot(),
            620..700 => self.read_snapshot(),
            700..720 => self.open_iter(),
            720..860 => self.move_iter(),
            860..880 => self.drop_one(),
            880..890 => self.scan(),
            890..930 => self.write_private(),
            930..940 => self.check_private(),
            940..943 => self.drop_private(),
            943..950 => self.change_limit(),
            950..958 => self.db.flush().unwrap(),
            958..962 => self.compact(),
            962..966 => self.redesign(),
            966..972 => self.change_policy(),
            972..980 => self.statistics(),
            980..983 => self.db.verify().unwrap().check().unwrap(),
            983..987 => self.checkpoint(),
            987..990 => self.db.wait_for_compaction().unwrap(),
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
        let len = match self.rng.below(100) {
            0 => self.rng.below(30_000),
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
        let mut writes = Vec::new();
        let mut batch = WriteBatch::new();
        let mut last = None;
        for _ in 0..count {
            let key = self.own_key();
            let bytes = key_bytes(key.1);
            let keyspace = &self.keyspaces[key.0];
            if self.rng.one_in(4) {
                batch.delete_in(keyspace, &bytes);
                writes.push((key, None));
                last = Some((key, bytes, None));
            } else {
                let value = self.value();
                let keyspace = &self.keyspaces[key.0];
                batch.put_in(keyspace, &bytes, &value);
                writes.push((key, Some(sum(&value))));
                last = Some((key, bytes, Some(value)));
            }
        }
        let durability = *self.rng.pick(&[
            None,
            None,
            None,
            Some(Durability::None),
            Some(Durability::Buffered),
            Some(Durability::Synced),
        ]);
        self.shared.ledger.begin(self.number, &writes);
        match last {
            Some((key, bytes, value)) if count == 1 && durability.is_none() => {
                let keyspace = &self.keyspaces[key.0];
                match value {
                    Some(value) => keyspace.put(bytes, value).unwrap(),
                    None => keyspace.delete(bytes).unwrap(),
                }
            }
            _ => self.db.write(batch, WriteOptions { durability }).unwrap(),
        }
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
                let Some(entries) = unless_refused(iter.and_then(entries)) else {
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
        let iter = self.keyspaces[keyspace].iter(IterOptions::default());
        let Some(iter) = unless_refused(iter) else {
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

    /// Seeks to a key and goes some steps from there, forward or backward. Everything between the two
    /// ends is judged.
    fn move_iter(&mut self) {
        let from = self.any_key().1;
        let forward = self.rng.one_in(2);
        let steps = self.rng.below(20);
        let Some(held) = self.iters.front_mut() else {
            return;
        };
        let iter = &mut held.iter;
        let mut entries = Vec::new();
        let mut moved = match forward {
            true => iter.seek(key_bytes(from)),
            false => iter.seek_for_prev(key_bytes(from)),
        };
        for step in 0.. {
            if unless_refused(moved).is_none() {
                self.iters.pop_front();
                return;
            }
            if step > steps || !iter.valid() {
                break;
            }
            entries.push((key_number(iter.key()), iter.value().to_vec()));
            moved = match forward {
                true => iter.next(),
                false => iter.prev(),
            };
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
        let iter = self.keyspaces[keyspace].iter(options);
        view.taken();
        let Some(entries) = unless_refused(iter.and_then(entries)) else {
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
            let new = unless_refused(contents(&keyspace)).unwrap_or_default();
            assert!(new.is_empty(), "a new keyspace is not empty");
            self.private = Some((keyspace, Map::new()));
        }
        let value = self.value();
        let key = self.rng.below(100).to_be_bytes().to_vec();
        let deletes = self.rng.one_in(4);
        if let Some((keyspace, map)) = &mut self.private {
            if deletes {
                keyspace.delete(&key).unwrap();
                map.remove(&key);
            } else {
                keyspace.put(&key, &value).unwrap();
                map.insert(key, value);
            }
        }
    }

    fn check_private(&mut self) {
        if let Some((keyspace, map)) = &self.private
            && let Some(entries) = unless_refused(contents(keyspace))
        {
            assert!(entries == *map, "a private keyspace differs");
        }
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

    fn change_limit(&mut self) {
        let limit = *self.rng.pick(&BUDGETS);
        self.memory.set_limit(limit).unwrap();
    }

    fn compact(&mut self) {
        let (keyspace, from) = self.any_key();
        let (from, to) = (key_bytes(from), key_bytes(self.any_key().1));
        let keyspace = &self.keyspaces[keyspace];
        match self.rng.below(3) {
            0 => keyspace.compact_range(None, None).unwrap(),
            1 => keyspace.compact_range(Some(&from), None).unwrap(),
            _ => {
                let (from, to) = (from.clone().min(to.clone()), from.max(to));
                keyspace.compact_range(Some(&from), Some(&to)).unwrap();
            }
        }
    }

    fn redesign(&mut self) {
        let keyspace = self.any_key().0;
        let design = random_design(&mut self.rng);
        self.keyspaces[keyspace].redesign(design).unwrap();
    }

    fn change_policy(&mut self) {
        let keyspace = self.any_key().0;
        let policy = random_filter_policy(&mut self.rng);
        self.keyspaces[keyspace].set_filter_policy(policy).unwrap();
    }

    /// Asks for everything that can be asked for without knowing what the answer is.
    fn statistics(&mut self) {
        let keyspace = self.any_key().0;
        let statistics = self.db.stats();
        assert_eq!(statistics.writes_stopped, None);
        assert_eq!(statistics.compactions_stopped, None);
        let _ = self.keyspaces[keyspace].advise().unwrap();
        let _ = self.keyspaces[keyspace].approximate_size(b"0", b"9");
        let usage = self.memory.usage().budget;
        assert_eq!(usage.overdraft, 0, "the budget was passed: {usage:?}");
    }

    fn checkpoint(&mut self) {
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
}

/// All entries, with the numbers of their keys.
fn entries(iter: Iter) -> shamba::Result<Vec<(u32, Vec<u8>)>> {
    iter.map(|entry| entry.map(|(key, value)| (key_number(&key), value)))
        .collect()
}

/// What an iterator gave, or nothing where iterators hold all the memory that they may.
fn unless_refused<T>(result: shamba::Result<T>) -> Option<T> {
    match result {
        Err(shamba::Error::IteratorsExhausted { .. }) => None,
        other => Some(other.unwrap()),
    }
}
