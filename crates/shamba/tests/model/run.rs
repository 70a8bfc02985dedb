//! One case: a database, its reference, and steps that act on both and compare.

mod filters;
mod merges;
mod prefixes;
mod ranges;
mod transactions;

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Bound;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shamba::fs::{Fs, MemFs, OsFs};
use shamba::{
    Db, Durability, Error, IterOptions, Keyspace, KeyspaceOptions, ManualClock, MemoryBudget,
    Options, Role, Snapshot, ValueReader, WriteBatch, WriteOptions,
};

use crate::common::{
    Map, Rng, contents, random_budget, random_design, random_filter_policy,
    random_keyspace_options, random_options,
};
use crate::reference::{Bytes, Cursor, Expiry, KeyspaceRef, NEVER, Point, Write};
use filters::Decisions;
use transactions::HeldTransaction;

/// Where the database lies.
pub struct Storage {
    fs: Arc<dyn Fs>,
    /// The same, if it is in memory.
    memory: Option<MemFs>,
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Storage {
    pub fn memory() -> Self {
        Storage::of(MemFs::new())
    }

    fn of(memory: MemFs) -> Self {
        Storage {
            fs: Arc::new(memory.clone()),
            memory: Some(memory),
            dir: PathBuf::from("/db"),
            _temporary: None,
        }
    }

    pub fn folder() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Storage {
            fs: Arc::new(OsFs::new()),
            memory: None,
            dir: temporary.path().join("db"),
            _temporary: Some(temporary),
        }
    }
}

/// A keyspace in both.
struct Pair {
    real: Keyspace,
    model: KeyspaceRef,
}

struct HeldSnapshot {
    real: Snapshot,
    at: Point,
}

struct HeldIter {
    real: shamba::Cursor,
    model: Cursor,
    /// Whether it is a snapshot's: then it reads at that one's time.
    of_snapshot: bool,
}

const NAMES: [&str; 4] = ["default", "users", "posts", "x"];

pub struct Run {
    rng: Rng,
    storage: Storage,
    threads: usize,
    /// The keyspace with a compaction filter.
    filtered: Option<&'static str>,
    decisions: Decisions,
    db: Option<Db>,
    budget: u64,
    /// What bounds memory: the budget, or a larger one before it until no more than half of the
    /// new one is used for other things than cached blocks.
    bound: u64,
    /// The budget is never below this, so that values written stay within the share of it that is
    /// accepted.
    least_budget: u64,
    memory: MemoryBudget,
    clock: ManualClock,
    /// The clock's time, in milliseconds.
    time: u64,
    /// How many writes there were.
    now: u64,
    keyspaces: BTreeMap<String, Pair>,
    /// The options that keyspaces had when the database was closed.
    kept: BTreeMap<String, KeyspaceOptions>,
    snapshots: Vec<HeldSnapshot>,
    iters: Vec<HeldIter>,
    transactions: Vec<HeldTransaction>,
    key_space: u64,
    checkpoints: u64,
    /// Whether something was written that no log has, since all was flushed.
    unlogged: bool,
    trace: bool,
    /// Operations so far, each key of a batch and each move of an iterator counting
    /// as one, and a whole scan as one.
    pub ops: u64,
    over_budget: Option<String>,
    step: &'static str,
}

impl Run {
    pub fn start(mut rng: Rng, storage: Storage, threads: usize) -> Run {
        let key_space = *rng.pick(&[20, 200, 1000, 5000]);
        let least_budget = random_budget(&mut rng);
        let mut run = Run {
            rng,
            storage,
            threads,
            filtered: None,
            decisions: Decisions::default(),
            db: None,
            budget: 0,
            bound: 0,
            least_budget,
            memory: MemoryBudget::bytes(1 << 20),
            clock: ManualClock::new(),
            time: 0,
            now: 0,
            keyspaces: BTreeMap::new(),
            kept: BTreeMap::new(),
            snapshots: Vec::new(),
            iters: Vec::new(),
            transactions: Vec::new(),
            key_space,
            checkpoints: 0,
            unlogged: false,
            trace: std::env::var_os("SHAMBA_TRACE").is_some(),
            ops: 0,
            over_budget: None,
            step: "open",
        };
        run.open(&mut BTreeMap::new());
        run
    }

    /// Options, and the keyspaces that they name.
    fn options(&mut self) -> (Options, Vec<&'static str>) {
        self.budget = random_budget(&mut self.rng).max(self.least_budget);
        let mut options = random_options(&mut self.rng, self.storage.fs.clone())
            .clock(Arc::new(self.clock.clone()))
            .keyspace(self.keyspace_options());
        options = self.with_operators(options);
        options = self.with_prefixes(options);
        options = self.with_filter(options);
        let mut named = vec!["default"];
        for name in NAMES {
            if self.rng.one_in(2) {
                options = options.keyspace_options(name, self.keyspace_options());
                named.push(name);
            }
        }
        self.memory = MemoryBudget::bytes(self.budget);
        if self.rng.one_in(2) {
            self.memory.always_keep_entries();
        }
        self.bound = self.budget;
        let options = options
            .memory(self.memory.clone())
            .background_threads(self.threads);
        (options, named)
    }

    /// A time to live, mostly none.
    fn ttl(&mut self) -> Option<Duration> {
        if !self.rng.one_in(4) {
            return None;
        }
        let millis = match self.rng.below(20) {
            0 => 0,
            1 => return Some(Duration::MAX),
            2..5 => 1000,
            _ => self.rng.between(1, 60),
        };
        Some(Duration::from_millis(millis))
    }

    fn keyspace_options(&mut self) -> KeyspaceOptions {
        let options = random_keyspace_options(&mut self.rng);
        let options = self.name_function(options);
        // As the manifest keeps it.
        let ttl = self.ttl().filter(|ttl| *ttl < Duration::MAX);
        options.ttl(if self.rng.one_in(2) { ttl } else { None })
    }

    /// When what is written into a keyspace now expires, where the write has this time to live.
    fn expiry(&self, name: &str, ttl: Option<Duration>) -> Expiry {
        let ttl = ttl.or(self.keyspaces[name].real.options().ttl);
        let ttl = ttl.map_or(NEVER, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(NEVER));
        self.time.saturating_add(ttl)
    }

    /// What is read at now.
    fn point(&self) -> Point {
        Point {
            at: self.now,
            time: self.time,
        }
    }

    fn open(&mut self, models: &mut BTreeMap<String, KeyspaceRef>) {
        let kept = std::mem::take(&mut self.kept);
        let (options, named) = self.options();
        self.note(|| format!("open with {options:?}"));
        let db = options.open(&self.storage.dir).unwrap();
        let mut names = db.keyspaces();
        names.sort();
        models.entry("default".to_owned()).or_default();
        assert!(
            names.iter().eq(models.keys()),
            "{names:?} against {:?}",
            models.keys()
        );
        for (name, model) in std::mem::take(models) {
            let real = db.keyspace(&name).unwrap();
            // What the open does not name is as it was.
            if let Some(kept) = kept.get(&name).filter(|_| !named.contains(&&*name)) {
                assert_eq!(real.options(), *kept, "{name}");
            }
            assert_same(
                &contents(&real).unwrap(),
                &model.borrow().map_at(self.point()),
                &name,
            );
            self.keyspaces.insert(name, Pair { real, model });
        }
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn note(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>6} {}", self.ops, what());
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let id = if self.rng.one_in(2) {
            self.rng.below(self.key_space / 10 + 1)
        } else {
            self.rng.below(self.key_space)
        };
        match id % 16 {
            // The empty key, a long key, and keys that are prefixes of others.
            0 if id == 0 => Vec::new(),
            1 => [vec![b'L'; 300], id.to_be_bytes().to_vec()].concat(),
            2 => vec![u8::MAX; 1 + (id / 16 % 4) as usize],
            3 => vec![b'k'; 1 + (id / 16 % 8) as usize],
            _ => format!("k{:02}/{id:05}", id % 7).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let most = self.least_budget / 16;
        let len = match self.rng.below(200) {
            0 => self.rng.below(most.min(2 << 20) + 1),
            1..6 => self.rng.below(20_000.min(most) + 1),
            6..20 => 0,
            _ => self.rng.below(200),
        };
        self.rng.bytes(len as usize)
    }

    /// One that is not written whole under the least budget.
    fn long_value(&mut self) -> Vec<u8> {
        let most = (self.least_budget / 16).min(1 << 20);
        let len = most + self.rng.between(1, 4000);
        self.rng.bytes(len as usize)
    }

    fn name(&mut self) -> String {
        let names: Vec<&String> = self.keyspaces.keys().collect();
        (*self.rng.pick(&names)).clone()
    }

    /// The moments at which somebody reads.
    fn held(&self) -> impl Iterator<Item = u64> {
        let snapshots = self.snapshots.iter().map(|held| held.at.at);
        let iters = self.iters.iter().map(|held| held.model.at.at);
        let transactions = self.transactions.iter().map(|held| held.at.at);
        snapshots.chain(iters).chain(transactions)
    }

    /// The moment at or after which every reader reads.
    fn oldest_held(&self) -> u64 {
        self.held().min().unwrap_or(self.now).min(self.now)
    }

    /// The moment at or before which every reader reads.
    fn newest_held(&self) -> Option<u64> {
        self.held().max()
    }

    fn record(&mut self, name: &str, key: &[u8], value: Option<(&[u8], Expiry)>) {
        let put = |(value, expiry)| Write::Put(Bytes::from(value), expiry);
        self.record_write(name, key, value.map_or(Write::Delete, put));
    }

    fn record_write(&mut self, name: &str, key: &[u8], write: Write) {
        let oldest = self.oldest_held();
        let model = &self.keyspaces[name].model;
        model.borrow_mut().write(key, write, self.now + 1, oldest);
    }

    pub fn step(&mut self) {
        let (name, step): (&'static str, fn(&mut Self)) = match self.rng.below(1000) {
            0..219 => ("put", Self::put),
            219 => ("filter", Self::filter),
            220..300 => ("merge", Self::merge),
            300..356 => ("delete", Self::delete),
            356..380 => ("delete a range", Self::delete_range),
            380..450 => ("batch", Self::batch),
            450..452 => ("change the budget", Self::change_budget),
            452..454 => ("change a filter policy", Self::change_policy),
            454 => ("redesign", Self::redesign),
            455 => ("alter", Self::alter),
            456..580 => ("get", Self::get),
            580..590 => ("scan few keys", Self::scan_few_keys),
            590..600 => ("scan within a prefix", Self::scan_within_prefix),
            600..630 => ("multi_get", Self::multi_get),
            630..650 => ("take a snapshot", Self::take_snapshot),
            650..665 => ("drop a snapshot", Self::drop_snapshot),
            665..720 => ("get at a snapshot", Self::get_at_snapshot),
            720..745 => ("open an iterator", Self::open_iter),
            745..755 => ("drop an iterator", Self::drop_iter),
            755..850 => ("move an iterator", Self::move_iter),
            850..943 => ("transaction", Self::transaction),
            943..955 => ("go on", Self::go_on),
            955..960 => ("update", Self::update),
            960..972 => ("flush", Self::flush),
            972..976 => ("compact", Self::compact),
            976..978 => ("scan", Self::scan),
            978 => ("clear", Self::clear),
            979..983 => ("change keyspaces", Self::change_keyspaces),
            983..991 => ("sizes", Self::sizes),
            991..994 => ("verify", Self::verify),
            994..997 => ("sync", Self::sync),
            997 => ("checkpoint", Self::checkpoint),
            _ => ("reopen", Self::reopen),
        };
        self.step = name;
        let before = self.ops;
        step(self);
        self.ops = self.ops.max(before + 1);
        self.check_memory();
    }

    fn check_memory(&mut self) {
        let usage = self.memory.usage().budget;
        assert_eq!(usage.limit, self.budget);
        let over = usage.overdraft > 0 || usage.used > self.bound;
        let cached = usage.by_role.iter().filter(|(role, _)| {
            matches!(
                role,
                Role::Data | Role::Entries | Role::Index | Role::FilterFirst | Role::FilterRest
            )
        });
        let cached: u64 = cached.map(|(_, bytes)| bytes).sum();
        if usage.used <= self.budget && usage.used.saturating_sub(cached) <= self.budget / 2 {
            self.bound = self.budget;
        }
        if self.over_budget.is_none() && over {
            let (iters, snapshots) = (self.iters.len(), self.snapshots.len());
            let held = (iters, snapshots, self.transactions.len());
            self.over_budget = Some(format!(
                "at operation {} ({}), {held:?} iterators, snapshots and transactions held: \
                 {usage:?}",
                self.ops, self.step
            ));
        }
    }

    fn write(&mut self, batch: WriteBatch, ttl: Option<Duration>) {
        let durability = *self.rng.pick(&[
            None,
            None,
            Some(Durability::None),
            Some(Durability::Buffered),
            Some(Durability::Synced),
        ]);
        let options = WriteOptions::new().durability(durability).ttl(ttl);
        self.unlogged |= durability == Some(Durability::None);
        self.db().write_with(batch, options).unwrap();
        self.now += 1;
    }

    fn put(&mut self) {
        let (name, key, mut value) = (self.name(), self.key(), self.value());
        let ttl = self.ttl();
        // From a reader, in pieces where it is longer than one.
        let streamed = self.rng.one_in(12);
        if streamed {
            let most = 30_000.min(self.least_budget / 16);
            let len = self.rng.below(most + 1);
            value = self.rng.bytes(len as usize | 1);
        } else if self.rng.one_in(200) {
            value = self.long_value();
        }
        self.note(|| format!("put {name} {key:?} {} bytes for {ttl:?}", value.len()));
        let expiry = self.expiry(&name, ttl);
        self.record(&name, &key, Some((&value, expiry)));
        let options = WriteOptions::new().ttl(ttl);
        if streamed {
            let real = &self.keyspaces[&name].real;
            real.put_reader_with(&key, &value[..], options).unwrap();
        } else if name == "default" && self.rng.one_in(2) {
            self.db().put_with(&key, &value, options).unwrap();
        } else {
            let real = &self.keyspaces[&name].real;
            real.put_with(&key, &value, options).unwrap();
        }
        self.now += 1;
    }

    fn delete(&mut self) {
        let (name, key) = (self.name(), self.key());
        self.note(|| format!("delete {name} {key:?}"));
        self.record(&name, &key, None);
        if name == "default" && self.rng.one_in(2) {
            self.db().delete(&key).unwrap();
        } else {
            self.keyspaces[&name].real.delete(&key).unwrap();
        }
        self.now += 1;
    }

    fn batch(&mut self) {
        let count = self.rng.between(1, 25);
        let mut batch = WriteBatch::new();
        let ttl = self.ttl();
        self.note(|| format!("batch of {count} for {ttl:?}"));
        let (mut name, mut key) = (self.name(), self.key());
        for _ in 0..count {
            // Now and then the same key again.
            if !self.rng.one_in(6) {
                (name, key) = (self.name(), self.key());
            }
            if self.rng.one_in(20) {
                self.delete_range_in_batch(&mut batch, &name);
            } else if self.rng.one_in(4) {
                batch.delete_in(&self.keyspaces[&name].real, &key);
                self.record(&name, &key, None);
            } else if self.rng.one_in(4) && self.may_merge(&name, &key) {
                let operand = self.operand();
                if name == "default" && self.rng.one_in(2) {
                    batch.merge(&key, &operand);
                } else {
                    batch.merge_in(&self.keyspaces[&name].real, &key, &operand);
                }
                self.record_write(&name, &key, Write::Merge(operand.into()));
            } else {
                let value = if self.rng.one_in(1000) {
                    self.long_value()
                } else {
                    let len = self.rng.below(100) as usize;
                    self.rng.bytes(len)
                };
                let expiry = if self.rng.one_in(6) {
                    let expiry = (self.time + self.rng.below(80)).saturating_sub(10);
                    let real = &self.keyspaces[&name].real;
                    if name == "default" {
                        batch.put_until(&key, &value, at_time(expiry));
                    } else {
                        batch.put_until_in(real, &key, &value, at_time(expiry));
                    }
                    expiry
                } else {
                    batch.put_in(&self.keyspaces[&name].real, &key, &value);
                    self.expiry(&name, ttl)
                };
                self.record(&name, &key, Some((&value, expiry)));
            }
        }
        assert!(batch.len() as u64 <= count);
        self.write(batch, ttl);
        self.ops += count;
    }

    fn get(&mut self) {
        let (name, key) = (self.name(), self.key());
        self.note(|| format!("get {name} {key:?}"));
        let pair = &self.keyspaces[&name];
        let wanted = pair.model.borrow().get(&key, self.point());
        if self.ops.is_multiple_of(2) {
            let there = pair.real.contains_key(&key).unwrap();
            assert_eq!(there, wanted.is_some(), "{name} {key:?}");
        }
        if self.ops.is_multiple_of(9) {
            let got = pair.real.get_reader(&key).unwrap().map(read_whole);
            assert_eq!(
                got.as_deref(),
                wanted.as_deref(),
                "{name} {key:?} in pieces"
            );
        }
        let got = pair.real.get(&key).unwrap();
        assert_eq!(got.as_deref(), wanted.as_deref(), "{name} {key:?}");
    }

    fn multi_get(&mut self) {
        let name = self.name();
        let count = self.rng.between(0, 20);
        let keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        self.note(|| format!("multi_get {name} {keys:?}"));
        let pair = &self.keyspaces[&name];
        let got = pair.real.multi_get(&keys).unwrap();
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.iter().zip(got) {
            assert_eq!(
                got.as_deref(),
                pair.model.borrow().get(key, self.point()).as_deref(),
                "{name} {key:?}"
            );
        }
        self.ops += count;
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() < 5 {
            let at = self.point();
            self.note(|| format!("snapshot at {at:?}"));
            let real = self.db().snapshot();
            self.snapshots.push(HeldSnapshot { real, at });
        }
    }

    fn drop_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let held = self.rng.below(self.snapshots.len() as u64) as usize;
            self.note(|| format!("drop snapshot {held}"));
            self.snapshots.swap_remove(held);
        }
    }

    fn get_at_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let held = self.rng.below(self.snapshots.len() as u64) as usize;
        let (name, key) = (self.name(), self.key());
        self.note(|| format!("get {name} {key:?} at snapshot {held}"));
        let held = &self.snapshots[held];
        let pair = &self.keyspaces[&name];
        let wanted = pair.model.borrow().get(&key, held.at);
        let got = if self.ops.is_multiple_of(2) {
            held.real.get_in(&pair.real, &key).unwrap()
        } else {
            let keys = [&key[..], b"", &key[..]];
            let mut got = held.real.multi_get_in(&pair.real, &keys).unwrap();
            assert_eq!((got.len(), &got[0]), (3, &got[2]));
            got.swap_remove(0)
        };
        assert_eq!(
            got.as_deref(),
            wanted.as_deref(),
            "{name} {key:?} at {:?}",
            held.at
        );
        let there = held.real.contains_key_in(&pair.real, &key).unwrap();
        assert_eq!(there, wanted.is_some(), "{name} {key:?} at {:?}", held.at);
        if self.ops.is_multiple_of(5) {
            let got = held.real.get_reader_in(&pair.real, &key).unwrap();
            let got = got.map(read_whole);
            assert_eq!(
                got.as_deref(),
                wanted.as_deref(),
                "{name} {key:?} at {:?} in pieces",
                held.at
            );
        }
    }

    fn open_iter(&mut self) {
        // Each iterator pins a block of each run: hold as many as the budget is meant for.
        let most = (self.budget / (128 << 10)).clamp(1, 4) as usize;
        if self.iters.len() >= most {
            let held = self.rng.below(self.iters.len() as u64) as usize;
            self.iters.swap_remove(held);
        }
        let name = self.name();
        let options = match self.rng.below(4) {
            0 => IterOptions::prefix(self.rng.pick(&[
                &b"k"[..],
                b"k03/",
                b"L",
                b"\xff",
                b"\xff\xff",
                b"",
            ])),
            1 => IterOptions::default()
                .lower(self.bound())
                .upper(self.bound()),
            _ => IterOptions::default(),
        };
        let options = options.fill_cache(self.rng.one_in(2));
        let snapshot = (!self.snapshots.is_empty() && self.rng.one_in(2))
            .then(|| self.rng.below(self.snapshots.len() as u64) as usize);
        self.note(|| format!("iterate {name} {options:?} at snapshot {snapshot:?}"));
        let pair = &self.keyspaces[&name];
        let (real, at) = match snapshot {
            Some(held) => {
                let held = &self.snapshots[held];
                (
                    held.real.cursor_in(&pair.real, options.clone()).unwrap(),
                    held.at,
                )
            }
            None => (pair.real.cursor(options.clone()).unwrap(), self.point()),
        };
        assert!(!real.valid());
        let model = Cursor {
            keyspace: Rc::clone(&pair.model),
            at,
            options,
            place: None,
        };
        self.iters.push(HeldIter {
            real,
            model,
            of_snapshot: snapshot.is_some(),
        });
    }

    /// Time goes on. What expires meanwhile may be gone or there for an iterator of no snapshot:
    /// there is none then.
    fn go_on(&mut self) {
        let plain = self.iters.iter().any(|held| !held.of_snapshot);
        if plain && self.rng.one_in(2) {
            return;
        }
        self.iters.retain(|held| held.of_snapshot);
        let most = if self.rng.one_in(10) { 200 } else { 20 };
        let by = self.rng.between(1, most);
        self.time += by;
        self.clock.advance(Duration::from_millis(by));
        self.note(|| format!("it is {}", self.time));
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn drop_iter(&mut self) {
        if !self.iters.is_empty() {
            let held = self.rng.below(self.iters.len() as u64) as usize;
            self.note(|| format!("drop iterator {held}"));
            self.iters.swap_remove(held);
        }
    }

    fn move_iter(&mut self) {
        if self.iters.is_empty() {
            return;
        }
        let held = self.rng.below(self.iters.len() as u64) as usize;
        let moves = if self.rng.one_in(4) {
            self.rng.between(1, 30)
        } else {
            1
        };
        for _ in 0..moves {
            let kind = self.rng.below(20);
            let key = self.key();
            self.note(|| format!("move {kind} iterator {held} {key:?}"));
            let HeldIter { real, model, .. } = &mut self.iters[held];
            let (moved, ()) = match kind {
                0 => (real.seek_to_first(), model.first()),
                1 => (real.seek_to_last(), model.last()),
                2..4 => (real.seek(&key), model.seek(&key)),
                4..6 => (real.seek_for_prev(&key), model.seek_for_prev(&key)),
                6..14 => (real.next(), model.next()),
                _ => (real.prev(), model.prev()),
            };
            if let Err(Error::IteratorsExhausted { .. }) = moved {
                // The others have all that iterators may have.
                self.iters.swap_remove(held);
                return;
            }
            moved.unwrap();
            assert_eq!(
                real.valid(),
                model.place.is_some(),
                "after move {kind} to {key:?}: {model:?}"
            );
            let (key, value) = model
                .place
                .as_ref()
                .map_or((&[][..], &[][..]), |(key, value)| (key, value));
            assert_eq!(real.key(), key);
            assert_eq!(real.value(), value, "of {key:?}");
            self.ops += 1;
        }
    }

    fn flush(&mut self) {
        self.note(|| "flush".to_owned());
        self.db().flush().unwrap();
    }

    fn sync(&mut self) {
        self.note(|| "sync".to_owned());
        self.db().sync().unwrap();
    }

    fn change_budget(&mut self) {
        let budget = random_budget(&mut self.rng).max(self.least_budget);
        self.note(|| format!("a budget of {budget}"));
        self.memory.set_limit(budget).unwrap();
        self.budget = budget;
        self.bound = self.bound.max(budget);
        self.check_memory();
        assert!(self.memory.set_limit(shamba::MIN_MEMORY - 1).is_err());
        if self.rng.one_in(2) {
            // What callers hold, and what was begun under the budget before, is let go of; then
            // nothing is left that does not fit.
            self.iters.clear();
            self.transactions.clear();
            self.db().flush().unwrap();
            self.db().wait_for_compaction().unwrap();
            self.check_memory();
            let usage = self.memory.usage().budget;
            assert!(usage.used <= usage.limit, "{usage:?}");
        }
    }

    fn change_policy(&mut self) {
        let name = self.name();
        let policy = random_filter_policy(&mut self.rng);
        self.note(|| format!("filter policy of {name}: {policy:?}"));
        self.keyspaces[&name]
            .real
            .set_filter_policy(policy)
            .unwrap();
    }

    fn redesign(&mut self) {
        let name = self.name();
        let design = random_design(&mut self.rng);
        self.note(|| format!("redesign {name}: {design:?}"));
        let real = &self.keyspaces[&name].real;
        real.redesign(design).unwrap();
        assert_eq!(real.design(), design);
        if self.rng.one_in(4) {
            self.iters.clear();
            self.db().wait_for_compaction().unwrap();
            assert!(!self.keyspaces[&name].real.is_moving());
        }
    }

    fn alter(&mut self) {
        let name = self.name();
        let options = self.keyspace_options();
        self.note(|| format!("alter {name}: {options:?}"));
        self.db().alter_keyspace(&name, options.clone()).unwrap();
        assert_eq!(self.keyspaces[&name].real.options(), options);
    }

    fn clear(&mut self) {
        let name = self.name();
        self.note(|| format!("clear {name}"));
        let present = self.keyspaces[&name].model.borrow().map_at(self.point());
        for key in present.keys() {
            self.record(&name, key, None);
        }
        self.keyspaces[&name].real.clear().unwrap();
        self.now += 1;
        assert!(self.keyspaces[&name].real.is_empty().unwrap());
    }

    fn compact(&mut self) {
        let name = self.name();
        let from = self.rng.one_in(2).then(|| self.key());
        let to = self.rng.one_in(2).then(|| self.key());
        self.note(|| format!("compact {name} {from:?} to {to:?}"));
        let pair = &self.keyspaces[&name];
        self.db()
            .compact_range_in(&pair.real, from.as_deref(), to.as_deref())
            .unwrap();
        self.db().wait_for_compaction().unwrap();
    }

    fn scan(&mut self) {
        let name = self.name();
        self.note(|| format!("scan {name}"));
        self.scan_all(&name);
        self.ops += 2;
    }

    /// Compares all of a keyspace. What is held may have all that iterators may have: then it goes.
    fn scan_all(&mut self, name: &str) {
        match self.compare_all(name) {
            Err(Error::IteratorsExhausted { .. }) => {
                let held = self.iters.len() + self.transactions.len();
                assert!(held > 0, "refused, and nothing is held");
                self.note(|| "let go of iterators and transactions".to_owned());
                self.iters.clear();
                self.transactions.clear();
                self.compare_all(name).unwrap();
            }
            compared => compared.unwrap(),
        }
    }

    /// Compares all of a keyspace, from both ends.
    fn compare_all(&self, name: &str) -> shamba::Result<()> {
        let pair = &self.keyspaces[name];
        let model = pair.model.borrow().map_at(self.point());
        assert_same(&contents(&pair.real)?, &model, name);
        let mut iter = pair.real.cursor(IterOptions::default())?;
        iter.seek_to_last()?;
        for (key, value) in model.iter().rev() {
            assert_eq!(
                (iter.key(), iter.value()),
                (key.as_slice(), value.as_slice()),
                "{name} backward"
            );
            iter.prev()?;
        }
        assert!(!iter.valid());
        Ok(())
    }

    fn change_keyspaces(&mut self) {
        let name = *self.rng.pick(&NAMES);
        if self.keyspaces.contains_key(name) {
            let exists = self
                .db()
                .create_keyspace(name, random_keyspace_options(&mut self.rng.clone()));
            assert!(
                matches!(exists, Err(Error::KeyspaceExists { .. })),
                "{exists:?}"
            );
        }
        if name == "default" {
            assert!(matches!(
                self.db().drop_keyspace(name),
                Err(Error::InvalidOption { .. })
            ));
        } else if let Some(pair) = self.keyspaces.remove(name) {
            self.note(|| format!("drop keyspace {name}"));
            self.db().drop_keyspace(name).unwrap();
            assert!(matches!(
                pair.real.get(b"k"),
                Err(Error::KeyspaceDropped { .. })
            ));
            assert!(matches!(
                pair.real.put(b"k", b"v"),
                Err(Error::KeyspaceDropped { .. })
            ));
            assert!(matches!(
                self.db().keyspace(name),
                Err(Error::KeyspaceNotFound { .. })
            ));
            self.end_transactions_of(name);
        } else {
            self.note(|| format!("create keyspace {name}"));
            let options = self.keyspace_options();
            let real = self.db().create_keyspace(name, options).unwrap();
            self.keyspaces.insert(
                name.to_owned(),
                Pair {
                    real,
                    model: KeyspaceRef::default(),
                },
            );
        }
    }

    fn sizes(&mut self) {
        let (from, to) = (self.key(), self.key());
        let name = self.name();
        let Pair { real, model } = &self.keyspaces[&name];
        let map = model.borrow().map_at(self.point());
        assert_eq!(real.len().unwrap(), map.len() as u64);
        assert_eq!(real.is_empty().unwrap(), map.is_empty());
        for (end, found, wanted) in [
            ("first", real.first_key_value(), map.first_key_value()),
            ("last", real.last_key_value(), map.last_key_value()),
        ] {
            let found = found.unwrap();
            let found = found.as_ref().map(|(key, value)| (&**key, &**value));
            let wanted = wanted.map(|(key, value)| (&**key, &**value));
            assert_eq!(found, wanted, "{end}");
        }
        let stats = self.db().stats();
        assert_eq!(stats.writes_stopped, None);
        assert_eq!(stats.flushes_stopped, None);
        assert_eq!(stats.compactions_stopped, None);
        let held = self.snapshots.len() + self.iters.len() + self.transactions.len();
        assert_eq!(stats.snapshots, held);
        assert_eq!(stats.keyspaces.len(), self.keyspaces.len());
        for keyspace in &stats.keyspaces {
            for level in &keyspace.levels {
                assert!(
                    level.runs <= level.files && level.tombstones <= level.entries,
                    "{level:?}"
                );
                assert_eq!(level.files == 0, level.bytes == 0, "{level:?}");
            }
        }
        if self.threads == 0 {
            let size = self.db().approximate_size(&from, &to);
            if from >= to {
                assert_eq!(size, 0);
            }
            let whole = self.db().approximate_size(b"", &[u8::MAX; 8]);
            assert!(size <= whole, "{from:?} to {to:?}: {size} of {whole}");
            let default = stats
                .keyspaces
                .iter()
                .find(|keyspace| keyspace.name == "default")
                .unwrap();
            let tables: u64 = default.levels.iter().map(|level| level.bytes).sum();
            assert!(
                whole >= tables
                    && whole <= tables + default.values.value_bytes + default.memtable_bytes,
                "{whole}: {default:?}"
            );
        }
    }

    fn verify(&mut self) {
        self.note(|| "verify".to_owned());
        self.db().verify().unwrap().check().unwrap();
    }

    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let dir = self
            .storage
            .dir
            .with_file_name(format!("checkpoint{}", self.checkpoints));
        self.note(|| format!("checkpoint {}", dir.display()));
        self.db().checkpoint(&dir).unwrap();
        assert!(matches!(
            self.db().checkpoint(&dir),
            Err(Error::NotEmpty { .. })
        ));
        let budget = random_budget(&mut self.rng).max(self.least_budget);
        let options = random_options(&mut self.rng, self.storage.fs.clone())
            .clock(Arc::new(self.clock.clone()))
            .keyspace(self.keyspace_options())
            .memory(MemoryBudget::bytes(budget))
            .create_if_missing(false);
        let options = self.with_operators(options);
        let options = self.with_prefixes(options);
        let copy = options.open(&dir).unwrap();
        assert_eq!(copy.keyspaces().len(), self.keyspaces.len());
        for (name, pair) in &self.keyspaces {
            let copied = contents(&copy.keyspace(name).unwrap()).unwrap();
            assert_same(&copied, &pair.model.borrow().map_at(self.point()), name);
        }
        // What happens to the copy does not concern the original.
        copy.put(b"only in the copy", b"1").unwrap();
        copy.merge(b"only in the copy", b"2").unwrap();
        copy.compact_range(None, None).unwrap();
        copy.verify().unwrap().check().unwrap();
        copy.close().unwrap();
        for entry in self.storage.fs.list(&dir).unwrap() {
            self.storage.fs.remove(&dir.join(entry.name)).unwrap();
        }
    }

    fn reopen(&mut self) {
        let keyspaces = self.keyspaces.iter();
        let options = keyspaces.map(|(name, pair)| (name.clone(), pair.real.options()));
        self.kept = options.collect();
        let killed = self.rng.one_in(3).then(|| self.kill()).flatten();
        self.close();
        if let Some(killed) = killed {
            self.storage = Storage::of(killed);
        }
        self.unlogged = false;
        self.go_on();
        let keyspaces = std::mem::take(&mut self.keyspaces);
        let mut models = keyspaces
            .into_iter()
            .map(|(name, pair)| (name, pair.model))
            .collect();
        self.open(&mut models);
    }

    /// What a killed process would leave, where that can be had.
    fn kill(&mut self) -> Option<MemFs> {
        let memory = self.storage.memory.clone()?;
        if self.unlogged {
            self.flush();
        }
        self.note(|| "kill".to_owned());
        Some(memory.kill_clone())
    }

    fn close(&mut self) {
        self.note(|| "close".to_owned());
        self.check_memory();
        self.iters.clear();
        self.transactions.clear();
        self.snapshots.clear();
        let db = self.db.take().unwrap();
        if self.rng.one_in(2) {
            db.close().unwrap();
            let closed = self.keyspaces["default"].real.get(b"k");
            assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
        }
        // Otherwise the last handle dropped, a keyspace's, closes it.
    }

    /// Compares everything a last time; gives the number of operations made, and where first more
    /// memory was accounted than the budget.
    pub fn finish(mut self) -> (u64, Option<String>) {
        self.scan();
        self.verify();
        self.reopen();
        self.check_memory();
        (self.ops, self.over_budget)
    }
}

fn read_whole(mut reader: ValueReader) -> Vec<u8> {
    let mut value = Vec::new();
    reader.read_to_end(&mut value).unwrap();
    value
}

fn at_time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn assert_same(got: &Map, wanted: &Map, name: &str) {
    if got == wanted {
        return;
    }
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(key, value)| got.get(*key) != Some(value))
        .map(|(key, _)| key)
        .collect();
    let extra: Vec<_> = got
        .keys()
        .filter(|key| !wanted.contains_key(*key))
        .collect();
    panic!(
        "{name}: {} keys differ or are missing: {missing:?}; {} should not be there: {extra:?}",
        missing.len(),
        extra.len()
    );
}
