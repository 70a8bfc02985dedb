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
use std::time::Duration;

use common::{
    Map, Replay, all_contents, contents, env_number, on_every_core, small_keyspace, small_options,
};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, MemFs, Op};
use shamba::{
    Db, Design, Error, IterOptions, MergePolicy, Options, Result, WriteBatch, WriteOptions,
};

const DIR: &str = "/db";
/// No case takes a hundredth of this.
const PATIENCE: Duration = Duration::from_secs(60);

type State = BTreeMap<String, Map>;
type Batch = Vec<(&'static str, Vec<u8>, Option<Vec<u8>>)>;

/// The workload, what it may expect to find, and what went wrong.
struct Script {
    fs: MemFs,
    faults: Faults,
    db: Option<Db>,
    /// What was acknowledged.
    state: State,
    /// What was there when the database was opened last.
    base: State,
    /// The writes since, in order; one that failed (`false`) may have happened or not.
    writes: Vec<(Batch, bool)>,
    second_may_exist: bool,
    second_exists: bool,
    errors: Vec<Error>,
    checkpoints: Vec<(PathBuf, State)>,
    flushes: u64,
}

impl Script {
    fn new() -> Self {
        let fs = MemFs::new();
        Script {
            fs,
            faults: Faults::new(),
            db: None,
            state: State::from([("default".to_owned(), Map::new())]),
            base: State::from([("default".to_owned(), Map::new())]),
            writes: Vec::new(),
            second_may_exist: false,
            second_exists: false,
            errors: Vec::new(),
            checkpoints: Vec::new(),
            flushes: 0,
        }
    }

    fn options(&self) -> Options {
        small_options(Arc::new(FaultFs::new(
            Arc::new(self.fs.clone()),
            self.faults.clone(),
        )))
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
        let mut batch = WriteBatch::new();
        for (name, key, value) in &ops {
            let Ok(keyspace) = db.keyspace(name) else {
                return;
            };
            match value {
                Some(value) => batch.put_in(&keyspace, key, value),
                None => batch.delete_in(&keyspace, key),
            }
        }
        let written = db.write_with(batch, WriteOptions::synced());
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

    fn puts(&mut self, range: std::ops::Range<u32>, len: usize) {
        for i in range {
            let key = format!("key{:04}", i * 7919 % 199).into_bytes();
            let value =
                (i % 6 != 5).then(|| [format!("{i}:").into_bytes(), vec![b'v'; len]].concat());
            self.write(vec![("default", key, value)]);
        }
    }

    /// Reads by lookups and scans; what succeeds is right.
    fn read(&mut self) {
        let Some(db) = self.db.clone() else { return };
        let settled = self.settled();
        for (name, map) in self.state.clone() {
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
                .note(db.create_keyspace("second", small_keyspace()))
                .is_some()
            {
                self.second_exists = true;
                self.state.insert("second".to_owned(), Map::new());
            }
        }
        let both = |i: u32| -> Batch {
            let key = format!("key{i:04}").into_bytes();
            vec![
                ("default", key.clone(), Some(vec![b'b'; 50])),
                ("second", key, Some(vec![b'c'; 50])),
            ]
        };
        (0..20).for_each(|i| self.write(both(i * 9)));
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
            Some(vec![b'L'; 30_000]),
        )]);
        if let Some(db) = self.db.clone() {
            self.note(db.compact_range(None, None));
            let to = PathBuf::from("/checkpoint");
            if self.settled() && self.note(db.checkpoint(&to)).is_some() {
                self.checkpoints.push((to, self.state.clone()));
            }
        }
        self.read();
        if let Some(db) = self.db.take() {
            self.flushes = db.stats().counters.flushes;
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
            candidate == *state
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
            let db = small_options(Arc::new(fs)).open(DIR);
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
            let db = small_options(Arc::new(self.fs.clone()))
                .create_if_missing(false)
                .open(dir)
                .unwrap();
            let mut copy = all_contents(&db).unwrap();
            copy.retain(|name, map| !map.is_empty() || state.contains_key(name));
            assert!(copy == *state, "the checkpoint is something else");
        }
    }
}

fn apply(state: &mut State, batch: &Batch) {
    for (name, key, value) in batch {
        let Some(map) = state.get_mut(*name) else {
            continue;
        };
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
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
