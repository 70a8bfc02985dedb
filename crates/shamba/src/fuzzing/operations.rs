//! A database on a file system in memory, with operations and options that a fuzzer chooses,
//! against a sorted map.
//!
//! Every operation is a byte and the bytes it needs. A power failure may take the writes since the
//! last that were made durable, from some point on and batch by batch; everything else is exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Input;
use super::listing::Listing;
use crate::fs::{Fs, MemFs};
use crate::{
    Compression, Cursor, Db, Durability, FilterFamily, IterOptions, KeyspaceOptions, MIN_MEMORY,
    MemoryBudget, MergePolicy, Options, Preset, Snapshot, WriteBatch, WriteOptions,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Operations of one input.
const MOST_STEPS: usize = 400;

/// Snapshots, iterators and states kept.
const MOST_HELD: usize = 4;

/// Operands of a key, so that values stay small; more are put instead.
const MOST_OPERANDS: u32 = 40;

/// A value with more bytes gets no operand either.
const MOST_MERGED: usize = 10_000;

struct OperationsRun<'a> {
    input: Input<'a>,
    fs: MemFs,
    memory: MemoryBudget,
    db: Option<Db>,
    now: Map,
    /// How many operands keys have got.
    operands: BTreeMap<Vec<u8>, u32>,
    /// The states since the one that is certainly durable, which is the first.
    undurable: Vec<Map>,
    snapshots: Vec<(Snapshot, Map)>,
    iters: Vec<(Cursor, Map)>,
}

pub(crate) fn run(data: &[u8]) {
    let mut run = OperationsRun {
        input: Input(data),
        fs: MemFs::new(),
        memory: MemoryBudget::bytes(MIN_MEMORY),
        db: None,
        now: Map::new(),
        operands: BTreeMap::new(),
        undurable: vec![Map::new()],
        snapshots: Vec::new(),
        iters: Vec::new(),
    };
    run.open();
    for _ in 0..MOST_STEPS {
        if run.input.is_empty() {
            break;
        }
        run.step();
    }
    run.check_all();
    run.reopen();
    run.check_all();
    let summary = run.db().verify().expect("a database that can be read");
    assert!(summary.problems == 0, "{summary:?}");
}

impl OperationsRun<'_> {
    fn open(&mut self) {
        let (tree, filter, how) = (self.input.byte(), self.input.byte(), self.input.byte());
        let mut keyspace = KeyspaceOptions {
            merge_policy: match tree & 3 {
                0 => MergePolicy::Tiering,
                1 => MergePolicy::LazyLeveling,
                _ => MergePolicy::default(),
            },
            size_ratio: 2 + u32::from(tree >> 2 & 3),
            write_buffer: 4 << 10,
            target_file: 4096 << (tree >> 4 & 3),
            level0_runs: 1 + u32::from(tree >> 6),
            compression: vec![
                [Compression::None, Compression::Lz4, Compression::Zstd(1)][usize::from(how) % 3],
            ],
            restart_interval: 1 + u32::from(how >> 2 & 15),
            epoch_lookups: 16,
            ..KeyspaceOptions::default()
        };
        keyspace.filter.family = match filter & 3 {
            0 => FilterFamily::Bloom,
            1 => FilterFamily::BlockedBloom,
            2 => FilterFamily::Ribbon,
            _ => FilterFamily::Auto,
        };
        keyspace.filter.modules = 1 + (filter >> 2 & 3);
        keyspace.filter.partitioned = filter & 16 == 0;
        if filter & 32 != 0 {
            keyspace = keyspace.preset(Preset::Elastic);
        }
        let fs: Arc<dyn Fs> = Arc::new(self.fs.clone());
        let options = Options::new()
            .fs(fs)
            .memory(self.memory.clone())
            .background_threads(0)
            .durability(match how & 64 {
                0 => Durability::Buffered,
                _ => Durability::Synced,
            })
            .merge_operator(
                "default",
                Listing {
                    combines: how & 128 == 0,
                },
            )
            .keyspace(keyspace);
        self.db = Some(options.open("/db").expect("a database that was sound"));
        // Opening makes what it finds durable.
        self.undurable = vec![self.now.clone()];
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("an open database")
    }

    /// One of not many keys, of which some are prefixes of others.
    fn key(&mut self) -> Vec<u8> {
        let byte = self.input.byte();
        match byte >> 6 {
            0 => vec![b'k'; usize::from(byte & 7)],
            1 => vec![u8::MAX; usize::from(byte & 3)],
            2 => [&[b'L'; 300][..], &[byte & 15]].concat(),
            _ => format!("key{:03}", byte & 63).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let (len, fill) = (self.input.byte(), self.input.byte());
        let len = match len {
            250.. => 9000 + usize::from(len),
            _ => usize::from(len),
        };
        (0..len)
            .map(|at| fill ^ (at as u8).wrapping_mul(fill & 3))
            .collect()
    }

    /// Adds to a batch that an operand is merged into a key, or that it is put.
    fn merge_or_put(&mut self, batch: &mut WriteBatch, key: Vec<u8>, operand: &[u8]) {
        let before = self.now.get(&key).map(Vec::as_slice);
        let operands = self.operands.entry(key.clone()).or_default();
        let after = if *operands < MOST_OPERANDS && before.map_or(0, <[u8]>::len) < MOST_MERGED {
            *operands += 1;
            batch.merge(&key, operand);
            Listing::list(before, [operand])
        } else {
            batch.put(&key, operand);
            operand.to_vec()
        };
        self.now.insert(key, after);
    }

    /// After a write, which was made durable or not.
    fn written(&mut self, synced: bool) {
        if synced {
            self.undurable.clear();
        }
        self.undurable.push(self.now.clone());
    }

    fn step(&mut self) {
        let byte = self.input.byte();
        let synced = byte & 0x80 != 0;
        let options = if synced {
            WriteOptions::synced()
        } else {
            WriteOptions::new().durability(Durability::Buffered)
        };
        match byte & 0x1f {
            0..=5 if byte & 0x40 != 0 => {
                let (key, operand) = (self.key(), self.value());
                let mut batch = WriteBatch::new();
                self.merge_or_put(&mut batch, key, &operand);
                self.db().write_with(batch, options).expect("a write");
                self.written(synced);
            }
            0..=5 => {
                let (key, value) = (self.key(), self.value());
                self.db().put_with(&key, &value, options).expect("a write");
                self.now.insert(key, value);
                self.written(synced);
            }
            6 | 7 if byte & 0x40 != 0 => {
                let (one, other) = (self.key(), self.key());
                let (from, to) = (one.clone().min(other.clone()), one.max(other));
                let keyspace = self.db().default_keyspace();
                let deleted = keyspace.delete_range_with(&from..&to, options);
                deleted.expect("a write");
                self.now.retain(|key, _| *key < from || *key >= to);
                self.written(synced);
            }
            6 | 7 => {
                let key = self.key();
                self.db().delete_with(&key, options).expect("a write");
                self.now.remove(&key);
                self.written(synced);
            }
            8 | 9 => {
                let mut batch = WriteBatch::new();
                for _ in 0..1 + self.input.byte() % 12 {
                    let key = self.key();
                    let how = self.input.byte();
                    if how & 3 == 0 {
                        batch.delete(&key);
                        self.now.remove(&key);
                    } else if how & 0x40 != 0 {
                        let operand = self.value();
                        self.merge_or_put(&mut batch, key, &operand);
                    } else {
                        let value = self.value();
                        batch.put(&key, &value);
                        self.now.insert(key, value);
                    }
                }
                self.db().write_with(batch, options).expect("a write");
                self.written(synced);
            }
            // Many at once, so that few bytes make tables.
            10 | 11 => {
                let (from, value) = (self.input.byte(), self.value());
                for part in 0..4u8 {
                    let mut batch = WriteBatch::new();
                    for number in 10 * part..10 * part + 10 {
                        let key = format!("key{:03}", from.wrapping_add(number)).into_bytes();
                        batch.put(&key, &value);
                        self.now.insert(key, value.clone());
                    }
                    self.db().write_with(batch, options).expect("a write");
                    self.written(synced);
                }
            }
            12..=14 => {
                let key = self.key();
                let got = self.db().get(&key).expect("a lookup");
                assert_eq!(
                    got.as_deref(),
                    self.now.get(&key).map(Vec::as_slice),
                    "{key:?}"
                );
                let there = self.db().contains_key(&key).expect("a lookup");
                assert_eq!(there, self.now.contains_key(&key));
            }
            15 => {
                let keys: Vec<_> = (0..self.input.byte() % 9).map(|_| self.key()).collect();
                let got = self.db().multi_get(&keys).expect("lookups");
                for (key, got) in keys.iter().zip(got) {
                    assert_eq!(
                        got.as_deref(),
                        self.now.get(key).map(Vec::as_slice),
                        "{key:?}"
                    );
                }
            }
            16 => self.check_range(),
            17 => self.db().flush().expect("a flush"),
            18 => {
                let (from, to) = (self.key(), self.key());
                let bound = |key| Some(key).filter(|_| byte & 0x40 == 0);
                let merged = self.db().compact_range(bound(&from[..]), bound(&to[..]));
                merged.expect("a compaction");
            }
            19 => self.db().wait_for_compaction().expect("compactions"),
            20 => self.reopen(),
            21 => {
                self.db().sync().expect("a sync");
                self.undurable = vec![self.now.clone()];
            }
            22 => self.crash(),
            23 => {
                self.snapshots.truncate(MOST_HELD - 1);
                self.snapshots
                    .insert(0, (self.db().snapshot(), self.now.clone()));
            }
            24 => {
                let at = usize::from(self.input.byte());
                if at < self.snapshots.len() {
                    let (snapshot, map) = self.snapshots.remove(at);
                    let iter = snapshot
                        .cursor(IterOptions::default())
                        .expect("an iterator");
                    check_scan(iter, &map);
                }
            }
            25 => {
                let key = self.key();
                for (snapshot, map) in &self.snapshots {
                    let got = snapshot.get(&key).expect("a lookup");
                    assert_eq!(got.as_deref(), map.get(&key).map(Vec::as_slice), "{key:?}");
                }
            }
            26 => {
                self.iters.truncate(MOST_HELD - 1);
                let iter = self
                    .db()
                    .cursor(IterOptions::default())
                    .expect("an iterator");
                self.iters.insert(0, (iter, self.now.clone()));
            }
            27..=29 => self.move_iterator(),
            30 => {
                let limit = MIN_MEMORY << (self.input.byte() % 4);
                self.memory.set_limit(limit).expect("a limit");
            }
            _ => {
                // Two that write after each other at the same place.
                let key = self.key();
                for value in [&b"first"[..], b"second"] {
                    self.db().put_with(&key, value, options).expect("a write");
                    self.now.insert(key.clone(), value.to_vec());
                    self.written(synced);
                }
            }
        }
    }

    fn check_range(&mut self) {
        let (from, to) = (self.key(), self.key());
        let options = IterOptions::range(from.clone()..to.clone());
        let iter = self.db().cursor(options).expect("an iterator");
        let wanted = if from < to {
            self.now
                .range(from..to)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        } else {
            Map::new()
        };
        check_scan(iter, &wanted);
    }

    fn move_iterator(&mut self) {
        let (at, how) = (usize::from(self.input.byte()), self.input.byte());
        let key = self.key();
        let count = self.iters.len().max(1);
        let Some((iter, map)) = self.iters.get_mut(at % count) else {
            return;
        };
        let before = iter.valid().then(|| iter.key().to_vec());
        let wanted = match (how % 6, before) {
            (0, _) => iter.seek_to_first().map(|()| map.iter().next()),
            (1, _) => iter.seek_to_last().map(|()| map.iter().next_back()),
            (2, _) => iter.seek(&key).map(|()| map.range(key..).next()),
            (3, _) => iter
                .seek_for_prev(&key)
                .map(|()| map.range(..=key).next_back()),
            (4, Some(before)) => {
                use std::ops::Bound::{Excluded, Unbounded};
                let after = (Excluded(before), Unbounded);
                iter.next().map(|()| map.range(after).next())
            }
            (5, Some(before)) => iter.prev().map(|()| map.range(..before).next_back()),
            _ => return,
        };
        let wanted = wanted.expect("a move");
        let got = iter.valid().then(|| (iter.key(), iter.value()));
        assert_eq!(
            got,
            wanted.map(|(key, value)| (key.as_slice(), value.as_slice()))
        );
    }

    fn close(&mut self) {
        self.snapshots.clear();
        self.iters.clear();
        if let Some(db) = self.db.take() {
            db.close().expect("a close");
        }
    }

    fn reopen(&mut self) {
        self.close();
        self.open();
    }

    /// A power failure: what is there afterwards is one of the states since the last that was
    /// durable.
    fn crash(&mut self) {
        let seed = self.input.byte();
        let after = self.fs.crash_clone(seed.into());
        self.close();
        self.fs = after;
        let states = std::mem::take(&mut self.undurable);
        self.open();
        let entries = self.db().iter().map(|entry| entry.expect("an entry"));
        let found: Map = entries
            .map(|(key, value)| (key, value.into_vec()))
            .collect();
        assert!(states.contains(&found), "no state there was");
        self.undurable = vec![found.clone()];
        self.now = found;
    }

    fn check_all(&mut self) {
        let iter = self
            .db()
            .cursor(IterOptions::default())
            .expect("an iterator");
        check_scan(iter, &self.now);
    }
}

/// A scan forward and back gives what is in a map.
fn check_scan(mut iter: Cursor, map: &Map) {
    iter.seek_to_last().expect("a move");
    for (key, value) in map.iter().rev() {
        assert!(iter.valid(), "{key:?} is missing");
        assert_eq!(
            (iter.key(), iter.value()),
            (key.as_slice(), value.as_slice())
        );
        iter.prev().expect("a move");
    }
    assert!(!iter.valid(), "{:?} is too many", iter.key());
    iter.seek_to_first().expect("a move");
    for (key, value) in map {
        assert!(iter.valid(), "{key:?} is missing");
        assert_eq!(
            (iter.key(), iter.value()),
            (key.as_slice(), value.as_slice())
        );
        iter.next().expect("a move");
    }
    assert!(!iter.valid(), "{:?} is too many", iter.key());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let fill = |from: u8, len: u8| [10, from, len, 7];
    let mut seeds = Vec::new();
    for (tree, filter, how) in [
        (0, 0, 0),
        (1, 2, 1),
        (2, 3, 2),
        (0x53, 0x25, 4),
        (0x13, 0x12, 65),
    ] {
        let head = [tree, filter, how];
        let mut seed = head.to_vec();
        for from in [0, 20, 200] {
            seed.extend(fill(from, 200));
            // A snapshot, an iterator, a flush, lookups, and moves of the iterator.
            seed.extend([
                23, 26, 17, 12, 0xc3, 14, 0x81, 27, 0, 2, 0xc9, 28, 0, 4, 0, 29, 0, 5, 0,
            ]);
        }
        seed.extend([
            6, 0xc5, 8, 3, 0xc1, 1, 9, 9, 0xc2, 0, 18, 0xc0, 0xe0, 19, 16, 0, 0xff, 24, 0,
        ]);
        seeds.push(seed.clone());
        // Reopened; power failures after writes that were synced and others.
        seed.extend([
            20, tree, filter, how, 25, 0xc3, 0x81, 0xc4, 99, 3, 1, 0xc5, 99, 3, 21,
        ]);
        seed.extend([
            2, 0xc7, 5, 5, 22, 3, tree, filter, how, 30, 2, 0x12, 0, 0, 0x52, 0, 0, 31, 0xc1,
        ]);
        seeds.push(seed);
    }
    // Merges: onto values, deletes and nothing, flushed between, in batches, with a snapshot held.
    for how in [0, 128, 65] {
        let mut seed = vec![1, 2, how];
        seed.extend(fill(0, 200));
        for operand in 0..6 {
            seed.extend([
                0x40, 0xc3, 5, operand, 0x41, 0xf0, 0, 0, 0xc2, 0x83, 30, operand,
            ]);
            seed.extend([
                6, 0xc4, 8, 2, 0xc4, 0x41, 3, 1, 0xc5, 0, 0xc5, 0x41, 2, 2, 23, 26, 17,
            ]);
            seed.extend([27, 0, 2, 0xc3, 28, 0, 4, 0, 29, 0, 5, 0, 25, 0xc4, 12, 0xf0]);
        }
        seed.extend([
            18, 0xc0, 0xe0, 19, 16, 0, 0xff, 24, 0, 20, 1, 2, how, 22, 3, 1, 2, how,
        ]);
        seeds.push(seed);
    }
    seeds.push(Vec::new());
    seeds
}
