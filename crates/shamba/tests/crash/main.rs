//! Power failures on the simulated file system: at every sync and rename, and at random moments,
//! also while an earlier failure is being recovered from.
//!
//! After each, what was acknowledged as synced is there, the database is what some prefix of the
//! writes makes of it, and every batch is whole across its keyspaces.
//!
//! `SHAMBA_CRASH_SEEDS` sets the number of seeds (default 300; the full run is 10,000), and
//! `SHAMBA_SEED` runs the one that failed.

#[path = "../common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use common::history::{
    self, BatchOp, EXPIRES, History, KEYS, LIFE, Progress, Write, Written, expires,
    fits_transaction, read_state, to_batch, write_as_transaction,
};
use common::story::Story;
use common::{
    Replay, Rng, env_number, grouped_key, on_every_core, random_design, random_keyspace_options,
    random_options,
};
use shamba::fs::{FaultFs, Faults, Fs, MemFs, Op};
use shamba::{Clock, Db, Durability, ManualClock, Options, WriteOptions};

const DIR: &str = "/db";
const NAMES: [&str; 3] = ["default", "a", "b"];

/// A file system as a power failure left it, and how far the writer had come.
struct Crash {
    fs: MemFs,
    progress: Progress,
    at: String,
}

/// Takes crashes while a workload runs.
struct Camera {
    fs: MemFs,
    started: AtomicUsize,
    durable: AtomicUsize,
    crashes: Mutex<Vec<Crash>>,
    rng: Mutex<Rng>,
    /// Whether the operation before was a boundary, so that the moment after it is taken too.
    after_boundary: AtomicBool,
    every_boundary: bool,
    /// One in so many other operations is taken.
    sparseness: u64,
    most: usize,
}

impl Camera {
    fn new(fs: &MemFs, rng: Rng, every_boundary: bool, sparseness: u64, most: usize) -> Arc<Self> {
        Arc::new(Camera {
            fs: fs.clone(),
            started: AtomicUsize::new(0),
            durable: AtomicUsize::new(0),
            crashes: Mutex::new(Vec::new()),
            rng: Mutex::new(rng),
            after_boundary: AtomicBool::new(false),
            every_boundary,
            sparseness,
            most,
        })
    }

    /// The file system to run the workload on.
    fn watch(self: &Arc<Self>) -> Arc<dyn Fs> {
        let faults = Faults::new();
        let camera = self.clone();
        faults.set_hook(Some(Arc::new(move |op, path: &Path| camera.see(op, path))));
        Arc::new(FaultFs::new(Arc::new(self.fs.clone()), faults))
    }

    fn see(&self, op: Op, path: &Path) {
        if matches!(op, Op::Read | Op::Open | Op::List | Op::Exists) {
            return;
        }
        let boundary = matches!(op, Op::Sync | Op::SyncDir | Op::Rename | Op::Remove);
        let after = self.after_boundary.swap(boundary, Ordering::SeqCst);
        let seed = {
            let mut rng = self.rng.lock().unwrap();
            let wanted =
                (self.every_boundary && (boundary || after)) || rng.one_in(self.sparseness);
            wanted.then(|| rng.next())
        };
        if let Some(seed) = seed {
            self.take(seed, format!("before {op:?} of {}", path.display()));
        }
    }

    fn take(&self, seed: u64, at: String) {
        // In this order the two numbers hold whatever other threads do meanwhile.
        let durable = self.durable.load(Ordering::SeqCst);
        let fs = self.fs.crash_clone(seed);
        let started = self.started.load(Ordering::SeqCst);
        let mut crashes = self.crashes.lock().unwrap();
        if crashes.len() < self.most {
            crashes.push(Crash {
                fs,
                progress: Progress { started, durable },
                at,
            });
        }
    }
}

fn random_batch(rng: &mut Rng, number: usize) -> Vec<BatchOp> {
    let count = match rng.below(20) {
        0 => rng.between(50, 200),
        1..5 => rng.between(2, 12),
        _ => 1,
    };
    let size = if rng.one_in(30) { 3000 } else { 60 };
    let some_expire = rng.one_in(3);
    (0..count)
        .map(|i| {
            let at = rng.below(KEYS);
            let key = grouped_key(at);
            if rng.one_in(25) {
                // Of an empty range nothing would be logged, nor synced.
                let to = grouped_key(at + rng.between(1, 12));
                return (*rng.pick(&NAMES), key, Write::DeleteRange(to));
            }
            let expires = some_expire && rng.one_in(2);
            let kind = if expires { EXPIRES } else { "" };
            let value = format!("{kind}{number}.{i}:").into_bytes();
            let filling = rng.below(size) as usize;
            let value = [value, rng.bytes(filling)].concat();
            let write = match rng.below(10) {
                0..2 => Write::Delete,
                2..5 if !expires => Write::Merge(value),
                _ => Write::Put(value),
            };
            (*rng.pick(&NAMES), key, write)
        })
        .collect()
}

/// Makes a value longer than small budgets allow one to be written whole; whether there is one.
fn lengthen(rng: &mut Rng, ops: &mut [BatchOp]) -> bool {
    let mut values = ops.iter_mut().filter_map(|op| match &mut op.2 {
        Write::Put(value) => Some(value),
        _ => None,
    });
    let value = values.next();
    value.is_some_and(|value| {
        let more = rng.between(64 << 10, 68 << 10) as usize;
        value.extend(rng.bytes(more));
        true
    })
}

/// Options with an operator for all keyspaces; whether it combines is for each to say.
fn random_merging_options(rng: &mut Rng, fs: Arc<dyn Fs>) -> Options {
    let mut options = random_options(rng, fs);
    for name in NAMES {
        let combines = rng.one_in(2);
        options = options.merge_operator(name, Story { combines });
    }
    options
}

/// Writes a history under the camera's eyes. The keyspaces are made before it looks.
fn record(rng: &mut Rng, camera: &Arc<Camera>, threads: usize, writes: usize) -> History {
    let mut history = History::default();
    let options = random_merging_options(rng, Arc::new(camera.fs.clone()));
    let mut options = options.clock(Arc::new(history.clock.clone()));
    for name in NAMES {
        options = options.keyspace_options(name, random_keyspace_options(rng));
    }
    let names = &NAMES[..rng.between(1, NAMES.len() as u64) as usize];
    {
        let db = options.clone().open(DIR).unwrap();
        for name in &names[1..] {
            db.create_keyspace(name, random_keyspace_options(rng))
                .unwrap();
        }
        db.close().unwrap();
    }
    let mut db = options
        .clone()
        .fs(camera.watch())
        .background_threads(threads)
        .open(DIR)
        .unwrap();
    while history.batches.len() < writes {
        match rng.below(60) {
            0 => {
                db.flush().unwrap();
                camera
                    .durable
                    .store(history.batches.len(), Ordering::SeqCst);
            }
            1 => {
                db.sync().unwrap();
                camera
                    .durable
                    .store(history.batches.len(), Ordering::SeqCst);
            }
            2 => db.compact_range(None, None).unwrap(),
            4..7 => {
                let name = names[rng.below(names.len() as u64) as usize];
                let keyspace = db.keyspace(name).unwrap();
                keyspace.redesign(random_design(rng)).unwrap();
            }
            7 if rng.one_in(3) => history.clock.advance(LIFE),
            3 if rng.one_in(4) => {
                db.close().unwrap();
                camera
                    .durable
                    .store(history.batches.len(), Ordering::SeqCst);
                db = options
                    .clone()
                    .fs(camera.watch())
                    .background_threads(threads)
                    .open(DIR)
                    .unwrap();
            }
            _ => {
                let mut ops = random_batch(rng, history.batches.len());
                ops.iter_mut()
                    .filter(|op| !names.contains(&op.0))
                    .for_each(|op| op.0 = "default");
                // One value may come from a reader, in pieces.
                let streamed = match &mut ops[..] {
                    [(.., Write::Put(value))] if !expires(value) && rng.one_in(5) => {
                        let more = rng.below(20_000) as usize;
                        value.extend(rng.bytes(more));
                        true
                    }
                    _ => false,
                };
                let long = !streamed && rng.one_in(40) && lengthen(rng, &mut ops);
                let synced = rng.one_in(8);
                history.batches.push(ops.clone());
                camera
                    .started
                    .store(history.batches.len(), Ordering::SeqCst);
                let durability = Some(if synced {
                    Durability::Synced
                } else {
                    Durability::Buffered
                });
                let options = WriteOptions::new().durability(durability);
                if let ([(name, key, Write::Put(value))], true) = (&ops[..], streamed) {
                    let keyspace = db.keyspace(name).unwrap();
                    keyspace.put_reader_with(key, &value[..], options).unwrap();
                } else if !long && fits_transaction(&ops) && rng.one_in(3) {
                    write_as_transaction(&db, &ops, options).unwrap();
                } else {
                    db.write_with(to_batch(&db, &ops).unwrap(), options)
                        .unwrap();
                }
                if synced {
                    camera
                        .durable
                        .store(history.batches.len(), Ordering::SeqCst);
                }
            }
        }
    }
    // The end of a process that closes nothing.
    let seed = rng.next();
    camera.take(seed, "at the end".to_owned());
    history
}

fn reopen(options: &Options, fs: Arc<dyn Fs>, at: &str) -> Db {
    options
        .clone()
        .fs(fs)
        .create_if_missing(false)
        .open(DIR)
        .unwrap_or_else(|error| panic!("crashed {at}: {error}"))
}

/// Recovers from a crash, crashing again on the way, and goes on writing.
fn check(rng: &mut Rng, history: &History, crash: &Crash) {
    let options = random_merging_options(rng, Arc::new(MemFs::new()));
    let mut options = options.clock(Arc::new(history.clock.clone()));
    for name in NAMES {
        options = options.keyspace_options(name, random_keyspace_options(rng));
    }
    let names: Vec<String>;
    let camera = Camera::new(&crash.fs, rng.clone(), false, 6, 3);
    let prefix = {
        let db = reopen(&options, camera.watch(), &crash.at);
        let state =
            read_state(&db, rng).unwrap_or_else(|error| panic!("crashed {}: {error}", crash.at));
        db.verify().unwrap().check().unwrap();
        names = db.keyspaces();
        history
            .prefix_of(&state, crash.progress)
            .unwrap_or_else(|what| panic!("crashed {}: {what}", crash.at))
    };
    for again in camera.crashes.lock().unwrap().iter() {
        let at = format!("{}, then {}", crash.at, again.at);
        let db = reopen(&options, Arc::new(again.fs.clone()), &at);
        let state = read_state(&db, rng).unwrap_or_else(|error| panic!("crashed {at}: {error}"));
        history
            .prefix_of(&state, crash.progress)
            .unwrap_or_else(|what| panic!("crashed {at}: {what}"));
    }

    // What is recovered is durable, and the database takes writes as before.
    let mut longer = History {
        batches: history.batches[..prefix].to_vec(),
        clock: ManualClock::new(),
    };
    let now = history.clock.now().duration_since(UNIX_EPOCH).unwrap();
    longer.clock.advance(now);
    let options = options.clock(Arc::new(longer.clock.clone()));
    let db = reopen(&options, Arc::new(crash.fs.clone()), &crash.at);
    for number in 0..rng.between(1, 10) as usize {
        let mut ops = random_batch(rng, 1_000_000 + number);
        ops.iter_mut()
            .filter(|op| !names.iter().any(|name| name == op.0))
            .for_each(|op| op.0 = "default");
        db.write_with(to_batch(&db, &ops).unwrap(), WriteOptions::synced())
            .unwrap();
        longer.batches.push(ops);
    }
    let fs = crash.fs.crash_clone(rng.next());
    drop(db);
    let db = reopen(&options, Arc::new(fs), &crash.at);
    let progress = Progress {
        started: longer.batches.len(),
        durable: longer.batches.len(),
    };
    for expired in [false, true] {
        if expired {
            longer.clock.advance(LIFE);
        }
        longer
            .prefix_of(&read_state(&db, rng).unwrap(), progress)
            .unwrap_or_else(|what| panic!("crashed {}, went on, crashed: {what}", crash.at));
    }
}

fn run_seed(seed: u64) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test -p shamba --test crash"
    ));
    let mut rng = Rng::new(seed);
    let threads = usize::from(rng.one_in(5));
    let writes = rng.between(20, 200) as usize;
    let sparseness = rng.between(5, 60);
    let camera = Camera::new(&MemFs::new(), Rng::new(rng.next()), false, sparseness, 8);
    let history = record(&mut rng, &camera, threads, writes);
    for crash in camera.crashes.lock().unwrap().iter() {
        check(&mut rng, &history, crash);
    }
}

#[test]
fn a_crash_at_a_random_moment_loses_nothing_synced_and_invents_nothing() {
    if let Some(seed) = env_number("SHAMBA_SEED") {
        run_seed(seed);
        return;
    }
    on_every_core(env_number("SHAMBA_CRASH_SEEDS").unwrap_or(300), run_seed);
}

#[test]
fn a_crash_at_any_sync_or_rename_loses_nothing_synced_and_invents_nothing() {
    on_every_core(6, |seed| {
        let _replay = Replay(format!("seed {seed} of the boundaries"));
        let mut rng = Rng::new(0xb0_0000 + seed);
        let camera = Camera::new(&MemFs::new(), Rng::new(seed), true, 50, usize::MAX);
        let history = record(&mut rng, &camera, 0, 120);
        let crashes = camera.crashes.lock().unwrap();
        assert!(
            crashes.len() > 20,
            "only {} crashes were taken",
            crashes.len()
        );
        for crash in crashes.iter() {
            check(&mut rng, &history, crash);
        }
    });
}

/// A process is killed, so that everything it wrote is in the system's cache and much of it not on
/// storage; then the power fails while the next process recovers.
fn kill_then_crash(seed: u64) {
    let _replay = Replay(format!("seed {seed} of the kills"));
    let mut rng = Rng::new(0x9111_0000 + seed);
    let fs = MemFs::new();
    let mut history = History::default();
    let options = random_merging_options(&mut rng, Arc::new(fs.clone()));
    let mut options = options.clock(Arc::new(history.clock.clone()));
    for name in NAMES {
        options = options.keyspace_options(name, random_keyspace_options(&mut rng));
    }
    let db = options.clone().open(DIR).unwrap();
    for name in &NAMES[1..] {
        db.create_keyspace(name, random_keyspace_options(&mut rng))
            .unwrap();
    }
    let mut durable = 0;
    for number in 0..rng.between(5, 60) as usize {
        let ops = random_batch(&mut rng, number);
        let synced = rng.one_in(20);
        let durability = Some(if synced {
            Durability::Synced
        } else {
            Durability::Buffered
        });
        let options = WriteOptions::new().durability(durability);
        if fits_transaction(&ops) && rng.one_in(2) {
            write_as_transaction(&db, &ops, options).unwrap();
        } else {
            db.write_with(to_batch(&db, &ops).unwrap(), options)
                .unwrap();
        }
        history.batches.push(ops);
        if synced {
            durable = history.batches.len();
        }
    }
    let killed = fs.kill_clone();
    drop(db);

    let camera = Camera::new(&killed, Rng::new(seed), true, 3, usize::MAX);
    let progress = |durable| Progress {
        started: history.batches.len(),
        durable,
    };
    let db = reopen(&options, camera.watch(), "by a kill");
    let whole = progress(history.batches.len());
    history
        .prefix_of(&read_state(&db, &mut rng).unwrap(), whole)
        .unwrap_or_else(|what| panic!("killed: {what}"));
    let recovered = killed.crash_clone(seed);
    for crash in camera.crashes.lock().unwrap().iter() {
        let at = format!("by a kill, then {}", crash.at);
        let db = reopen(&options, Arc::new(crash.fs.clone()), &at);
        let state = read_state(&db, &mut rng).unwrap();
        history
            .prefix_of(&state, progress(durable))
            .unwrap_or_else(|what| panic!("crashed {at}: {what}"));
    }
    let db = reopen(&options, Arc::new(recovered), "once recovered");
    let state = read_state(&db, &mut rng).unwrap();
    history
        .prefix_of(&state, whole)
        .unwrap_or_else(|what| panic!("what was recovered is not durable: {what}"));
}

#[test]
fn a_power_failure_while_a_kill_is_recovered_from_splits_no_batch() {
    on_every_core(60, kill_then_crash);
}

#[test]
fn a_finished_checkpoint_survives_a_power_failure() {
    on_every_core(20, |seed| {
        let mut rng = Rng::new(0xc4_0000 + seed);
        let fs = MemFs::new();
        let options = random_merging_options(&mut rng, Arc::new(fs.clone()));
        let options = options.clock(Arc::new(ManualClock::new()));
        let db = options.clone().open(DIR).unwrap();
        let mut written = Written::default();
        for number in 0..60 {
            let mut ops = random_batch(&mut rng, number);
            ops.iter_mut().for_each(|op| op.0 = "default");
            db.write(to_batch(&db, &ops).unwrap()).unwrap();
            written.apply(&ops);
        }
        let state = written.state(false);
        let copy = Path::new("/backups/today/db");
        db.checkpoint(copy).unwrap();
        for crash in 0..40 {
            let crashed = fs.crash_clone(seed * 1000 + crash);
            let options = options.clone().fs(Arc::new(crashed));
            let db = options.create_if_missing(false).open(copy).unwrap();
            assert!(
                read_state(&db, &mut rng).unwrap() == state,
                "seed {seed}: {crash}"
            );
        }
    });
}

#[test]
fn a_crash_while_keyspaces_come_and_go_leaves_each_whole_or_not_there() {
    on_every_core(20, |seed| {
        let _replay = Replay(format!("seed {seed} of the keyspaces"));
        let mut rng = Rng::new(0xca_0000 + seed);
        let fs = MemFs::new();
        let camera = Camera::new(&fs, Rng::new(seed), true, 10, usize::MAX);
        let options = random_merging_options(&mut rng, camera.watch());
        // 0: nothing; 1: the database is there; 2: the keyspace; 3: its content; 4: it is gone.
        let reach = |number: usize| camera.started.store(number, Ordering::SeqCst);
        let done = |number: usize| camera.durable.store(number, Ordering::SeqCst);
        reach(1);
        let db = options.clone().open(DIR).unwrap();
        done(1);
        reach(2);
        let keyspace = db
            .create_keyspace("a", random_keyspace_options(&mut rng))
            .unwrap();
        done(2);
        reach(3);
        let batch: Vec<BatchOp> = (0..50)
            .map(|i| {
                (
                    NAMES[i % 2],
                    format!("{i}").into_bytes(),
                    if i % 3 == 0 {
                        Write::Merge(vec![7; 100])
                    } else {
                        Write::Put(vec![7; 100])
                    },
                )
            })
            .collect();
        db.write_with(to_batch(&db, &batch).unwrap(), WriteOptions::synced())
            .unwrap();
        done(3);
        db.flush().unwrap();
        drop(keyspace);
        reach(4);
        db.drop_keyspace("a").unwrap();
        done(4);
        db.close().unwrap();
        camera.take(seed, "at the end".to_owned());

        let mut whole = Written::default();
        whole.apply(&batch);
        let whole = whole.state(false);
        let default_only = history::State::from([("default".to_owned(), whole["default"].clone())]);
        for crash in camera.crashes.lock().unwrap().iter() {
            let db = options.clone().fs(Arc::new(crash.fs.clone())).open(DIR);
            let db = db.unwrap_or_else(|error| panic!("crashed {}: {error}", crash.at));
            let state = read_state(&db, &mut rng).unwrap();
            let has = db.keyspace("a").is_ok();
            let reached = match (has, &state) {
                (false, state) if state.is_empty() => 0..=1,
                (true, state) if state.is_empty() => 2..=2,
                (true, state) if *state == whole => 3..=3,
                (false, state) if *state == default_only => 4..=4,
                _ => panic!("crashed {}: keyspace there: {has}, {state:?}", crash.at),
            };
            let Progress { started, durable } = crash.progress;
            assert!(
                *reached.end() >= durable && *reached.start() <= started,
                "crashed {}: {reached:?}, {:?}",
                crash.at,
                crash.progress
            );
        }
    });
}

#[test]
fn writes_without_log_survive_once_flushed_and_never_turn_into_others() {
    on_every_core(40, |seed| {
        let _replay = Replay(format!("seed {seed} of the writes without log"));
        let mut rng = Rng::new(0xd0_0000 + seed);
        let fs = MemFs::new();
        let options = random_options(&mut rng, Arc::new(fs.clone()));
        let db = options.clone().open(DIR).unwrap();
        // For each key everything written to it, and how many of those were durable at a flush.
        let mut written: Vec<Vec<Option<Vec<u8>>>> = vec![vec![None]; 40];
        let mut durable = vec![0; 40];
        for number in 0..300 {
            let id = rng.below(40) as usize;
            let key = format!("{id:03}");
            if rng.one_in(40) {
                db.flush().unwrap();
                durable = written.iter().map(|values| values.len() - 1).collect();
            }
            let value = (!rng.one_in(6)).then(|| format!("{number}").into_bytes());
            let durability =
                Some(*rng.pick(&[Durability::None, Durability::None, Durability::Synced]));
            let mut batch = shamba::WriteBatch::new();
            match &value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
            db.write_with(batch, WriteOptions::new().durability(durability))
                .unwrap();
            written[id].push(value);
            if durability == Some(Durability::Synced) {
                durable[id] = written[id].len() - 1;
            }
        }
        let crashed = fs.crash_clone(seed);
        drop(db);
        let db = reopen(&options, Arc::new(crashed), "at the end");
        for id in 0..40 {
            let got = db
                .get(format!("{id:03}"))
                .unwrap()
                .map(shamba::Value::into_vec);
            let allowed = &written[id][durable[id]..];
            assert!(
                allowed.contains(&got),
                "{id}: {got:?} is not of {allowed:?}"
            );
        }
    });
}
