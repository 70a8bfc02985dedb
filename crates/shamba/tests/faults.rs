//! Every kind of failure at every operation on storage of a workload: a typed error or the right
//! answer, no panic, no hang, and nothing acknowledged is gone afterwards.
//!
//! The workload runs once to list its operations; then, for each of them, again and again with one
//! failure planned there. `SHAMBA_SEED` tries one case.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use common::history::{
    BatchOp, EXPIRES, LIFE, Write, expires, fits_transaction, to_batch, to_transaction,
};
use common::story::{Story, told};
use common::{
    Map, Replay, all_contents, contents, env_number, on_every_core, small_keyspace, small_options,
};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{
    Clock, Db, Design, Error, IterOptions, ManualClock, MergePolicy, Options, Result, WriteOptions,
};

const DIR: &str = "/db";
/// From this many bytes on a value of the second keyspace goes to a value file.
const LONG: u64 = 4 << 10;
/// No case takes a hundredth of this.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was written and not deleted, what has expired too.
type State = BTreeMap<String, Map>;
type Batch = Vec<BatchOp>;

/// The workload, what it may expect to find, and what went wrong.
struct Script {
    fs: MemFs,
    faults: Faults,
    clock: ManualClock,
    db: Option<Db>,
    /// What was acknowledged.
    state: State,
    /// What was there when the database was opened last.
    base: State,
    /// The writes since, in order; one that failed (`false`) may have happened or not.
    writes: Vec<(Batch, bool)>,
    /// How many were tried.
    number: u64,
    second_may_exist: bool,
    second_exists: bool,
    errors: Vec<Error>,
    checkpoints: Vec<(PathBuf, State)>,
    flushes: u64,
    /// What of all that there was before the first close.
    expired: u64,
    collapsed: u64,
    separated: u64,
}

impl Script {
    fn new() -> Self {
        let fs = MemFs::new();
        Script {
            fs,
            faults: Faults::new(),
            clock: ManualClock::new(),
            db: None,
            state: State::from([("default".to_owned(), Map::new())]),
            base: State::from([("default".to_owned(), Map::new())]),
            writes: Vec::new(),
            number: 0,
            second_may_exist: false,
            second_exists: false,
            errors: Vec::new(),
            checkpoints: Vec::new(),
            flushes: 0,
            expired: 0,
            collapsed: 0,
            separated: 0,
        }
    }

    fn options(&self) -> Options {
        let fs = FaultFs::new(Arc::new(self.fs.clone()), self.faults.clone());
        self.options_on(Arc::new(fs))
    }

    fn options_on(&self, fs: Arc<dyn Fs>) -> Options {
        let long = small_keyspace().value_files_from(LONG);
        small_options(fs)
            .clock(Arc::new(self.clock.clone()))
            .merge_operator("default", Story { combines: true })
            .merge_operator("second", Story { combines: false })
            .keyspace_options("default", small_keyspace())
            .keyspace_options("second", long)
    }

    /// What there is to read.
    fn readable(&self, state: &State) -> State {
        let late = self.clock.now() >= UNIX_EPOCH + LIFE;
        let mut state = state.clone();
        for map in state.values_mut() {
            map.retain(|_, value| !(late && expires(value)));
        }
        state
    }

    /// Notes an error; gives what succeeded.
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let typed = matches!(
                    error,
                    Error::Io { .. }
                        | Error::Corruption { .. }
                        | Error::Poisoned { .. }
                        | Error::Stalled { .. }
                        | Error::Locked { .. }
                );
                assert!(typed, "not an error of storage: {error:?}");
                assert!(!error.to_string().is_empty());
                self.errors.push(error);
                None
            }
        }
    }

    fn open(&mut self) {
        let opened = self.options().open(DIR);
        self.db = self.note(opened);
        if self.db.is_none() {
            // Once the failure has passed the open succeeds.
            let again = self.options().open(DIR);
            self.db = self.note(again);
        }
    }

    fn write(&mut self, ops: Batch) {
        let Some(db) = self.db.clone() else { return };
        if ops.iter().any(|(name, ..)| db.keyspace(name).is_err()) {
            return;
        }
        self.number += 1;
        let synced = WriteOptions::synced();
        let written = match &ops[..] {
            [(name, key, Write::Put(value))] if value.len() as u64 >= LONG => {
                let keyspace = db.keyspace(name).unwrap();
                keyspace.put_reader_with(key, &value[..], synced)
            }
            ops if self.number.is_multiple_of(3) && fits_transaction(ops) => {
                // Until it is committed nothing is written.
                let Some(transaction) = self.note(to_transaction(&db, ops)) else {
                    return;
                };
                transaction.commit_with(synced)
            }
            ops => db.write_with(to_batch(&db, ops).unwrap(), synced),
        };
        // A failure that does not stop writes was a shortage: nothing was written.
        let refused = matches!(written, Err(Error::Poisoned { .. } | Error::Stalled { .. }))
            || db.stats().writes_stopped.is_none();
        if self.note(written).is_some() {
            apply(&mut self.state, &ops);
            self.writes.push((ops, true));
        } else if !refused {
            self.writes.push((ops, false));
        }
    }

    /// Whether it is known of every write whether it happened.
    fn settled(&self) -> bool {
        self.writes.iter().all(|(_, acknowledged)| *acknowledged)
    }

    /// Mostly entries that are put; some are deleted, merged into, or have a time to live, and a
    /// few ranges are deleted.
    fn puts(&mut self, range: std::ops::Range<u32>, len: usize) {
        for i in range {
            let at = i * 7919 % 199;
            let key = format!("key{at:04}").into_bytes();
            let value = [format!("{i}:").into_bytes(), vec![b'v'; len]].concat();
            let (key, write) = match i % 12 {
                5 => (key, Write::Delete),
                7 => (key, Write::Merge(value)),
                // Into these nothing is merged.
                9 => {
                    let value = [EXPIRES.as_bytes(), &value].concat();
                    ([b"live-", &key[..]].concat(), Write::Put(value))
                }
                11 if i % 24 == 11 => {
                    let to = format!("key{:04}", at + 9).into_bytes();
                    (key, Write::DeleteRange(to))
                }
                _ => (key, Write::Put(value)),
            };
            self.write(vec![("default", key, write)]);
        }
    }

    /// Values that go to value files, most of them over older ones.
    fn long_values(&mut self, count: u32) {
        for i in 0..count {
            let key = format!("key{:04}", 900 + i % 3).into_bytes();
            let value = vec![b'a' + i as u8; 6_000 + 1_000 * i as usize];
            self.write(vec![("second", key, Write::Put(value))]);
        }
    }

    /// Reads by lookups and scans; what succeeds is right.
    fn read(&mut self) {
        let Some(db) = self.db.clone() else { return };
        let settled = self.settled();
        for (name, map) in self.readable(&self.state) {
            let Ok(keyspace) = db.keyspace(&name) else {
                continue;
            };
            for i in (0..199).step_by(13) {
                let key = format!("key{i:04}").into_bytes();
                if let Some(got) = self.note(keyspace.get(&key))
                    && settled
                {
                    assert_eq!(
                        got.as_deref(),
                        map.get(&key).map(Vec::as_slice),
                        "{name} {i}"
                    );
                }
            }
            if let Some(got) = self.note(contents(&keyspace))
                && settled
            {
                assert!(got == map, "a scan of {name} gives something else");
            }
            let backward = (|| {
                let mut iter = keyspace.cursor(IterOptions::default())?;
                iter.seek_for_prev(b"key0150")?;
                let mut got = Vec::new();
                while iter.valid() {
                    got.push(iter.key().to_vec());
                    iter.prev()?;
                }
                Ok(got)
            })();
            if let Some(got) = self.note(backward)
                && settled
            {
                let wanted = map
                    .range(..=b"key0150".to_vec())
                    .rev()
                    .map(|(key, _)| key.clone());
                assert!(
                    wanted.eq(got),
                    "a backward scan of {name} gives something else"
                );
            }
        }
    }

    fn run(&mut self) {
        self.open();
        self.puts(0..60, 100);
        if let Some(db) = self.db.clone() {
            self.second_may_exist = true;
            if self
                .note(db.create_keyspace("second", small_keyspace().value_files_from(LONG)))
                .is_some()
            {
                self.second_exists = true;
                self.state.insert("second".to_owned(), Map::new());
            }
        }
        let both = |i: u32| -> Batch {
            let key = format!("key{i:04}").into_bytes();
            vec![
                ("default", key.clone(), Write::Put(vec![b'b'; 50])),
                ("second", key, Write::Merge(vec![b'c'; 50])),
            ]
        };
        (0..20).for_each(|i| self.write(both(i * 9)));
        self.long_values(4);
        self.read();
        if let Some(db) = self.db.clone() {
            self.note(db.flush());
        }
        self.puts(60..130, 120);
        self.read();
        // Runs gather, and are made one again a range at a time.
        if let Some(db) = self.db.clone() {
            let tiered = Design::default()
                .merge_policy(MergePolicy::Tiering)
                .size_ratio(3)
                .write_buffer(4 << 10)
                .bits_per_key(10.0);
            self.note(db.redesign(tiered));
            self.puts(0..120, 100);
            let leveled = tiered.merge_policy(MergePolicy::default());
            self.note(db.redesign(leveled));
            self.puts(30..60, 100);
            self.read();
        }
        self.write(vec![(
            "default",
            b"key0100".to_vec(),
            Write::Put(vec![b'L'; 30_000]),
        )]);
        self.long_values(7);
        // What has expired goes at the compaction.
        self.clock.advance(LIFE);
        if let Some(db) = self.db.clone() {
            self.note(db.compact_range(None, None));
            let to = PathBuf::from("/checkpoint");
            if self.settled() && self.note(db.checkpoint(&to)).is_some() {
                let state = self.readable(&self.state);
                self.checkpoints.push((to, state));
            }
        }
        self.read();
        if let Some(db) = self.db.take() {
            let stats = db.stats();
            self.flushes = stats.counters.flushes;
            self.expired = stats.counters.entries_expired;
            self.collapsed = stats.counters.operands_collapsed;
            self.separated = stats.keyspaces.iter().map(|k| k.values.files as u64).sum();
            self.note(db.close());
        }
        self.open();
        self.settle();
        self.puts(130..180, 80);
        self.read();
        if let Some(db) = self.db.clone() {
            self.note(db.verify().and_then(|found| found.check()));
            self.note(db.sync());
        }
        // Ends without closing, as a process would that was killed.
    }

    /// After an open: finds out which of the writes left open happened.
    fn settle(&mut self) {
        let Some(db) = self.db.clone() else { return };
        let Some(state) = self.note(all_contents(&db)) else {
            return;
        };
        self.settle_as(state);
    }

    fn settle_as(&mut self, state: State) {
        self.check_state(&state);
        self.base = state.clone();
        self.state = state;
        self.writes.clear();
    }

    /// Whether a database may hold `state` after a reopen.
    fn check_state(&mut self, state: &State) {
        let exists = state.contains_key("second");
        assert!(exists || !self.second_exists, "a keyspace is gone");
        assert!(!exists || self.second_may_exist);
        self.second_exists = exists;
        let failed = self
            .writes
            .iter()
            .filter(|(_, acknowledged)| !acknowledged)
            .count();
        assert!(failed < 6, "too many writes failed without stopping writes");
        let fits = (0..1u32 << failed).any(|happened| {
            let mut candidate = self.base.clone();
            if exists {
                candidate.entry("second".to_owned()).or_default();
            }
            let mut open_ended = 0;
            for (batch, acknowledged) in &self.writes {
                if *acknowledged || happened >> open_ended & 1 == 1 {
                    apply(&mut candidate, batch);
                }
                open_ended += u32::from(!acknowledged);
            }
            self.readable(&candidate) == *state
        });
        let count = |state: &State| {
            state
                .iter()
                .map(|(name, map)| (name.clone(), map.len()))
                .collect::<Vec<_>>()
        };
        assert!(
            fits,
            "after reopening: wanted {:?}, got {:?}; errors were {:#?}",
            count(&self.state),
            count(state),
            self.errors
        );
    }

    /// Nothing acknowledged is gone: neither by a kill of the process nor by a power failure.
    fn check(mut self, seed: u64) {
        self.faults.clear();
        let crashed = self.fs.crash_clone(seed);
        let killed = self.fs.deep_clone();
        self.db = None;
        for (fs, what) in [
            (killed, "a kill"),
            (crashed, "a power failure"),
            (self.fs.clone(), "a close"),
        ] {
            let db = self.options_on(Arc::new(fs)).open(DIR);
            let db = db.unwrap_or_else(|error| {
                panic!("after {what}: {error}; errors were {:#?}", self.errors)
            });
            let state = all_contents(&db).unwrap_or_else(|error| panic!("after {what}: {error}"));
            db.verify()
                .and_then(|found| found.check())
                .unwrap_or_else(|error| panic!("after {what}: {error}"));
            let existed = self.second_exists;
            self.check_state(&state);
            self.second_exists = existed;
            db.put(b"still", b"writable").unwrap();
        }
        for (dir, state) in &self.checkpoints {
            let options = self.options_on(Arc::new(self.fs.clone()));
            let db = options.create_if_missing(false).open(dir).unwrap();
            let mut copy = all_contents(&db).unwrap();
            copy.retain(|name, map| !map.is_empty() || state.contains_key(name));
            assert!(copy == *state, "the checkpoint is something else");
        }
    }
}

fn apply(state: &mut State, batch: &Batch) {
    for (name, key, write) in batch {
        let Some(map) = state.get_mut(*name) else {
            continue;
        };
        match write {
            Write::Put(value) => {
                map.insert(key.clone(), value.clone());
            }
            Write::Delete => {
                map.remove(key);
            }
            Write::Merge(operand) => {
                let base = map.get(key).map(Vec::as_slice);
                map.insert(key.clone(), told(base, [&operand[..]]));
            }
            Write::DeleteRange(to) => map.retain(|at, _| at < key || at >= to),
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    index: u64,
    op: Op,
    path: PathBuf,
    effect: Effect,
    forever: bool,
}

/// Every failure at every operation of the workload.
fn cases() -> Vec<Case> {
    let seen: Arc<Mutex<Vec<(Op, PathBuf)>>> = Arc::default();
    let mut script = Script::new();
    let list = seen.clone();
    script
        .faults
        .set_hook(Some(Arc::new(move |op, path: &Path| {
            list.lock().unwrap().push((op, path.to_path_buf()))
        })));
    script.run();
    assert!(
        script.errors.is_empty(),
        "without faults: {:#?}",
        script.errors
    );
    assert!(script.flushes > 1 && !script.checkpoints.is_empty());
    assert!(
        script.expired > 0 && script.collapsed > 0 && script.separated > 0,
        "nothing expired, was merged or went to a value file"
    );
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    script.check(0);
    let of_op = |(index, (op, path)): (usize, &(Op, PathBuf))| {
        let fail = Effect::Fail;
        let mut effects = vec![
            (fail(FaultError::EIO), false),
            (fail(FaultError::EIO), true),
        ];
        if !matches!(op, Op::Read | Op::Open | Op::List | Op::Exists) {
            effects.extend([
                (fail(FaultError::ENOSPC), false),
                (fail(FaultError::ENOSPC), true),
            ]);
        }
        match op {
            Op::Read => effects.extend([(Effect::Short, false), (Effect::FlipBit, false)]),
            Op::Append => effects.push((Effect::Short, false)),
            _ => {}
        }
        let case = |(effect, forever)| Case {
            index: index as u64,
            op: *op,
            path: path.clone(),
            effect,
            forever,
        };
        effects.into_iter().map(case).collect::<Vec<_>>()
    };
    seen.iter().enumerate().flat_map(of_op).collect()
}

fn run_case(number: u64, case: &Case) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={number} cargo test -p shamba --test faults: {:?} at {} {}: {:?}, forever: {}",
        case.op,
        case.index,
        case.path.display(),
        case.effect,
        case.forever
    ));
    let mut script = Script::new();
    let fault = Fault::new(case.effect).after(case.index);
    script
        .faults
        .add(if case.forever { fault.forever() } else { fault });
    script.run();
    assert!(
        script.faults.fired() > 0,
        "the failure was never met: the workload is not the same each time"
    );
    script.check(number);
}

/// Runs a case on a thread of its own, to notice when it does not end.
fn run_watched(number: u64, case: &Case) {
    let (done, wait) = mpsc::channel();
    let owned = case.clone();
    let thread = std::thread::spawn(move || {
        run_case(number, &owned);
        done.send(()).unwrap();
    });
    match wait.recv_timeout(PATIENCE) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(RecvTimeoutError::Timeout) => panic!("case {number} hangs: {case:?}"),
    }
}

#[test]
fn any_failure_anywhere_gives_an_error_or_the_answer_and_loses_nothing() {
    let cases = cases();
    if let Some(number) = env_number("SHAMBA_SEED") {
        run_watched(number, &cases[number as usize]);
        return;
    }
    on_every_core(cases.len() as u64, |number| {
        run_watched(number, &cases[number as usize]);
    });
}

/// Makes the operation with this number panic, counted from now on this kind of thread, those on
/// logs left out.
fn panic_at(faults: &Faults, number: u64, on_thread: &'static str) -> Arc<AtomicU64> {
    let left = Arc::new(AtomicU64::new(number));
    let count = left.clone();
    faults.set_hook(Some(Arc::new(move |op, path: &Path| {
        let name = path.to_string_lossy();
        let concerns = !name.ends_with(".wal");
        let here = std::thread::current()
            .name()
            .is_some_and(|thread| thread.starts_with(on_thread));
        if concerns && here && !std::thread::panicking() {
            // Exactly once: what comes after is as it would be.
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                panic!("injected at {op:?} of {name}");
            }
        }
    })));
    count
}

/// After a panic in a job: a typed error for everyone, right reads, and a whole database at the
/// next open.
fn check_after_panic(db: Db, fs: &MemFs, wanted: &Map, number: u64) {
    let error = db.put(b"more", b"x").unwrap_err();
    let cause = match &error {
        Error::Poisoned { cause } => (**cause).clone(),
        other => panic!("operation {number}: {other:?}"),
    };
    assert!(matches!(cause, Error::Panicked { .. }), "{cause:?}");
    assert!(db.flush().is_err() && db.compact_range(None, None).is_err());
    assert!(db.checkpoint("/copy").is_err());
    // Either nothing was due, or what is due cannot be done.
    let _ = db.wait_for_compaction();
    assert!(contents(&db.default_keyspace()).unwrap() == *wanted);
    let _ = db.close();
    let db = small_options(Arc::new(fs.kill_clone())).open(DIR).unwrap();
    assert!(
        contents(&db.default_keyspace()).unwrap() == *wanted,
        "operation {number}"
    );
    db.verify().unwrap().check().unwrap();
}

fn watched(what: String, case: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("caller".to_owned())
        .spawn(move || {
            case();
            done.send(()).unwrap();
        })
        .unwrap();
    match wait.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("hangs: {what}"),
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

#[test]
fn a_panic_in_a_flush_or_compaction_stops_writes_and_hangs_nobody() {
    for threads in [0, 2] {
        let mut fired = 0;
        for number in 1..200 {
            let (tell, told) = mpsc::channel();
            watched(
                format!("operation {number}, {threads} threads"),
                move || {
                    let fs = MemFs::new();
                    let faults = Faults::new();
                    let options =
                        small_options(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
                    let db = options.background_threads(threads).open(DIR).unwrap();
                    let mut wanted = Map::new();
                    for i in 0..60u32 {
                        let (key, value) = (format!("{:03}", i * 7 % 50), vec![i as u8; 200]);
                        db.put(&key, &value).unwrap();
                        wanted.insert(key.into_bytes(), value);
                    }
                    db.wait_for_compaction().unwrap();
                    // On a thread of the database, or on the caller's.
                    let thread = if threads > 0 { "shamba-" } else { "caller" };
                    let left = panic_at(&faults, number, thread);
                    let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        db.flush()?;
                        db.wait_for_compaction()?;
                        if threads == 0 {
                            return db.compact_range(None, None);
                        }
                        db.put(b"more", b"once")?;
                        wanted.insert(b"more".to_vec(), b"once".to_vec());
                        db.flush()?;
                        db.wait_for_compaction()
                    }));
                    let struck = left.load(Ordering::SeqCst) > u64::MAX / 2
                        || left.load(Ordering::SeqCst) == 0;
                    faults.set_hook(None);
                    if !struck {
                        worked.unwrap().unwrap()
                    } else {
                        assert!(!matches!(worked, Ok(Ok(()))) || threads > 0);
                        // A thread may be in the middle of its last work.
                        while db.put(b"more", b"x").is_ok() {
                            wanted.insert(b"more".to_vec(), b"x".to_vec());
                        }
                        check_after_panic(db, &fs, &wanted, number);
                    }
                    tell.send(struck).unwrap();
                },
            );
            if !told.recv().unwrap() {
                break;
            }
            fired += 1;
        }
        assert!(fired > 10, "{threads} threads: only {fired} operations");
    }
}
