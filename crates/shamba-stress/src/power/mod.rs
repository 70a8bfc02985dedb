//! Power failures on a file system in memory: sectors, names and whole files that were not synced
//! are lost in any mixture, syncs fail and then lie, and space or files run short for a while.
//!
//! A case writes a history of batches and takes what failures could leave on the way. Each is
//! recovered, fails again while it is recovered, is written to and fails once more: three lives. In
//! each, what was acknowledged as synced is there, the database is what some prefix of the history
//! makes of it, and every batch is whole across its keyspaces. Batches delete ranges too, merge,
//! and have values that expire or are too long to be written whole; some are transactions;
//! keyspaces have filters for scans by their options.

mod camera;
mod history;
mod lying;

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use shamba::fs::{Effect, Fault, FaultError, Fs, MemFs, Op};
use shamba::{Db, Durability, Options, WriteOptions};

use crate::common::history::{BatchOp, Write, life};
use crate::common::story::Story;
use crate::common::{Rng, grouped_key, random_design, random_keyspace_options, random_options};
use crate::{Kind, Tally};
use camera::{Camera, Crash};
use history::{History, Progress, read_sum, write};

pub use lying::Dropped;

const DIR: &str = "/db";
const NAMES: [&str; 3] = ["default", "a", "b"];

/// Power failures.
#[derive(Debug, Default)]
pub struct Power {
    /// Syncs that are dropped without a word, which the checks must notice.
    pub dropped: Option<Dropped>,
}

impl Kind for Power {
    fn name(&self) -> &'static str {
        "power"
    }

    fn arguments(&self) -> String {
        let syncs = self.dropped.and_then(|syncs| syncs.to_possible_value());
        syncs.map_or_else(String::new, |syncs| {
            format!(" --drop-syncs {}", syncs.get_name())
        })
    }

    fn case(&self, seed: u64, tally: &Tally) {
        let mut rng = Rng::new(seed);
        // Many short histories and a few long ones: what goes wrong does so near a change of files,
        // and the small write buffers bring many of those.
        let writes = match rng.below(16) {
            0 => rng.between(60, 200),
            1..5 => rng.between(20, 60),
            _ => rng.between(2, 20),
        };
        let sparseness = rng.between(8, 80);
        let camera = Camera::new(&MemFs::new(), Rng::new(rng.next()), sparseness, 4);
        let history = Workload::new(&mut rng, &camera, self.dropped).run(writes as usize);
        camera.stop();
        for crash in camera.crashes() {
            tally.add("losses", check(&mut rng, &history, &crash));
        }
        tally.add("batches", history.len() as u64);
    }
}

/// How many keys there may be.
const KEYS: u64 = 60;

/// Values of more bytes are not written whole under the least budget.
const LONG: u64 = (1 << 20) / 16;

fn random_batch(rng: &mut Rng, names: &[&'static str], number: usize) -> Vec<BatchOp> {
    let count = match rng.below(20) {
        0 => rng.between(20, 120),
        1..5 => rng.between(2, 12),
        _ => 1,
    };
    let size = if rng.one_in(30) { 3000 } else { 60 };
    // One in a batch at most: of several there is no room under the least budget.
    let long = rng.one_in(40).then(|| rng.below(count));
    (0..count)
        .map(|i| {
            let at = rng.below(KEYS);
            let write = match rng.below(25) {
                // Of an empty range nothing would be logged, nor synced.
                0 => Write::DeleteRange(grouped_key(at + rng.between(1, 12))),
                1..6 => Write::Delete,
                6..10 => Write::Merge(format!("{number}.{i},").into_bytes()),
                10..12 => Write::Put(format!("{}{number}.{i}", life(rng)).into_bytes()),
                _ => {
                    let value = format!("{number}.{i}:").into_bytes();
                    let filling = if long == Some(i) {
                        LONG + rng.below(4000)
                    } else {
                        rng.below(size)
                    };
                    Write::Put([value, rng.bytes(filling as usize)].concat())
                }
            };
            (*rng.pick(names), grouped_key(at), write)
        })
        .collect()
}

fn options_for_names(rng: &mut Rng, fs: Arc<dyn Fs>) -> Options {
    let mut options = random_options(rng, fs);
    for name in NAMES {
        let combines = rng.one_in(2);
        options = options.merge_operator(name, Story { combines });
    }
    for name in &NAMES[1..] {
        options = options.keyspace_options(name, random_keyspace_options(rng));
    }
    options
}

fn checkpoint_folder(number: usize) -> PathBuf {
    PathBuf::from(format!("/checkpoints/{number}"))
}

/// Writes a history under the camera's eyes.
struct Workload<'a> {
    rng: &'a mut Rng,
    camera: &'a Arc<Camera>,
    dropped: Option<Dropped>,
    options: Options,
    names: &'static [&'static str],
    db: Option<Db>,
    history: History,
    checkpoints: usize,
    /// Whether space and files run short now and then. Nothing may stop for that.
    short: bool,
    /// Whether a sync fails, of a device that says afterwards that all is well.
    lies: bool,
}

/// Whether a workload may go on.
enum Next {
    More,
    /// Something failed, as was planned: the history ends here.
    Over,
}

impl<'a> Workload<'a> {
    /// Makes the database and its keyspaces, before the camera looks.
    fn new(rng: &'a mut Rng, camera: &'a Arc<Camera>, dropped: Option<Dropped>) -> Self {
        let watched = camera.watch(dropped);
        let threads = usize::from(rng.one_in(12));
        let options = options_for_names(rng, watched).background_threads(threads);
        let count = rng.between(1, NAMES.len() as u64) as usize;
        let mut workload = Workload {
            rng,
            camera,
            dropped,
            options,
            names: &NAMES[..count],
            db: None,
            history: History::new(),
            checkpoints: 0,
            short: false,
            lies: false,
        };
        workload.make();
        workload
    }

    fn make(&mut self) {
        self.camera.stop();
        let db = self.options.clone().open(DIR).unwrap();
        for name in &self.names[1..] {
            db.create_keyspace(name, random_keyspace_options(self.rng))
                .unwrap();
        }
        db.close().unwrap();
        self.camera.watch(self.dropped);
        self.db = Some(self.options.clone().open(DIR).unwrap());
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn run(mut self, writes: usize) -> History {
        self.short = self.rng.one_in(4);
        if !self.short && self.rng.one_in(6) {
            self.plan_a_failure();
        }
        while self.history.len() < writes {
            if self.short && self.rng.one_in(6) {
                self.plan_a_shortage();
            }
            let before = self.history.len();
            if let Next::Over = self.step() {
                let of_write = self.history.len() > before;
                if self.lies {
                    self.go_on_after_a_lie(of_write);
                }
                break;
            }
        }
        // The end of a process that closes nothing.
        let seed = self.rng.next();
        self.camera.take(seed, "at the end".to_owned());
        self.history
    }

    /// A sync, of a file or of a folder, or an append fails; later syncs of that file say that all
    /// is well.
    fn plan_a_failure(&mut self) {
        let op = *self
            .rng
            .pick(&[Op::Sync, Op::Sync, Op::SyncDir, Op::Append]);
        let ending = *self.rng.pick(&["", "", ".wal", ".sst"]);
        let error = *self.rng.pick(&[FaultError::EIO, FaultError::ENOSPC]);
        let fault = Fault::new(Effect::Fail(error))
            .on(op)
            .after(self.rng.below(20));
        self.lies = op != Op::Append && error == FaultError::EIO;
        let of_file = op != Op::SyncDir;
        let fault = if of_file {
            fault.path_ending(ending)
        } else {
            fault
        };
        self.camera.faults().add(fault);
    }

    /// Something cannot be had a few times.
    fn plan_a_shortage(&mut self) {
        const EMFILE: FaultError = FaultError::Os(24);
        let (error, op) = *self.rng.pick(&[
            (FaultError::ENOSPC, Op::Append),
            (FaultError::ENOSPC, Op::Append),
            (FaultError::ENOSPC, Op::Create),
            (FaultError::ENOSPC, Op::Rename),
            (EMFILE, Op::Create),
            (EMFILE, Op::Open),
            (EMFILE, Op::SyncDir),
        ]);
        let fault = Fault::new(Effect::Fail(error)).on(op);
        let fault = fault.after(self.rng.below(6)).times(self.rng.between(1, 8));
        self.camera.faults().clear();
        self.camera.faults().add(fault);
    }

    /// Goes on after a shortage, which ends here.
    fn refused(&mut self, error: &shamba::Error) -> Next {
        assert!(self.camera.faults().fired() > 0, "unasked for: {error}");
        let passes = matches!(
            error,
            shamba::Error::Io { .. } | shamba::Error::Stalled { .. }
        );
        assert!(passes, "a shortage ended in: {error}");
        self.camera.faults().clear();
        if self.db.is_none() {
            self.db = Some(self.options.clone().open(DIR).unwrap());
        }
        Next::More
    }

    /// Whether the failure that was planned is why.
    fn failed(&self, error: &shamba::Error) -> Next {
        assert!(self.camera.faults().fired() > 0, "unasked for: {error}");
        Next::Over
    }

    /// Goes on after a sync that failed. What is said to be durable now must be; and after a write
    /// that failed none may be taken, for nobody knows whether that one is there.
    fn go_on_after_a_lie(&mut self, of_write: bool) {
        for _ in 0..3 {
            if self.db.is_none() {
                return;
            }
            let written = self.write_with(true);
            assert!(
                !(of_write && written.is_ok()),
                "a write after one that failed"
            );
            let durable = written.and_then(|()| self.durable_after(|db| db.flush()));
            if durable.is_err() {
                return;
            }
        }
    }

    fn step(&mut self) -> Next {
        let result = match self.rng.below(64) {
            0..2 => self.durable_after(|db| db.flush()),
            2 => self.durable_after(|db| db.sync()),
            3 => self.db().compact_range(None, None),
            4 => self.clear(),
            8 => {
                let name = *self.rng.pick(self.names);
                let options = random_keyspace_options(self.rng);
                self.db().alter_keyspace(name, options)
            }
            5 => {
                let name = *self.rng.pick(self.names);
                let design = random_design(self.rng);
                let keyspace = self.db().keyspace(name);
                keyspace.and_then(|keyspace| keyspace.redesign(design))
            }
            6 => self.checkpoint(),
            7 => self.reopen(),
            _ => self.write(),
        };
        match result {
            Ok(()) => Next::More,
            Err(error) if self.short => self.refused(&error),
            Err(error) => self.failed(&error),
        }
    }

    fn durable_after(&mut self, act: impl FnOnce(&Db) -> shamba::Result<()>) -> shamba::Result<()> {
        act(self.db())?;
        self.camera.durable(self.history.len());
        Ok(())
    }

    /// Empties a keyspace: as if all keys that may be there were deleted at once, and durable.
    fn clear(&mut self) -> shamba::Result<()> {
        let name = *self.rng.pick(self.names);
        let keyspace = self.db().keyspace(name)?;
        let keys = (0..KEYS).map(|number| (name, grouped_key(number), Write::Delete));
        self.history.push(keys.collect());
        self.camera.started(self.history.len());
        let taken = self.camera.taken();
        let cleared = keyspace.clear();
        // It comes to its end, or to nothing; but for what stops writes for good, of which nobody
        // knows.
        if cleared.is_err() && self.db().stats().writes_stopped.is_none() {
            self.history = self.history.prefix(self.history.len() - 1);
            self.camera.started(self.history.len());
            self.camera.forget_after(taken);
        }
        cleared?;
        self.camera.durable(self.history.len());
        Ok(())
    }

    fn checkpoint(&mut self) -> shamba::Result<()> {
        // One that fails leaves the folder for the next.
        self.db().checkpoint(checkpoint_folder(self.checkpoints))?;
        self.checkpoints += 1;
        self.camera.checkpoint(self.history.len());
        Ok(())
    }

    fn reopen(&mut self) -> shamba::Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        self.camera.durable(self.history.len());
        self.db = Some(self.options.clone().open(DIR)?);
        Ok(())
    }

    fn write(&mut self) -> shamba::Result<()> {
        let synced = self.rng.one_in(8);
        self.write_with(synced)
    }

    fn write_with(&mut self, synced: bool) -> shamba::Result<()> {
        let ops = random_batch(self.rng, self.names, self.history.len());
        self.history.push(ops.clone());
        self.camera.started(self.history.len());
        let durability = Some(if synced {
            Durability::Synced
        } else {
            Durability::Buffered
        });
        let taken = self.camera.taken();
        let options = WriteOptions::new().durability(durability);
        let db = self.db.as_ref().unwrap();
        let written = write(self.rng, db, &ops, options);
        if written.is_err() && (self.short || self.db().stats().writes_stopped.is_none()) {
            // Nothing of it is there from now on; it may have been for a moment. So it is of a long
            // value that did not get into its file.
            self.history = self.history.prefix(self.history.len() - 1);
            self.camera.started(self.history.len());
            self.camera.forget_after(taken);
        }
        written?;
        if synced {
            self.camera.durable(self.history.len());
        }
        Ok(())
    }
}

fn reopen(options: &Options, fs: Arc<dyn Fs>, at: &str) -> Db {
    options
        .clone()
        .fs(fs)
        .create_if_missing(false)
        .open(DIR)
        .unwrap_or_else(|error| panic!("crashed {at}: {error}"))
}

/// The prefix of the history that a database is.
fn survived(rng: &mut Rng, db: &Db, history: &History, progress: Progress, at: &str) -> usize {
    let sum = read_sum(db, rng).unwrap_or_else(|error| panic!("crashed {at}: {error}"));
    let found = history.find(sum, progress);
    found.unwrap_or_else(|what| panic!("crashed {at}: {what}"))
}

/// Recovers from a crash, crashing again on the way, and goes on writing. Gives how many power
/// failures that were.
fn check(rng: &mut Rng, history: &History, crash: &Crash) -> u64 {
    let options = options_for_names(rng, Arc::new(MemFs::new()));
    let at = &crash.at;
    let mut losses = 2;
    for (number, batches) in crash.checkpoints.iter().enumerate() {
        let fs = crash.fs.deep_clone();
        let options = options.clone().fs(Arc::new(fs)).create_if_missing(false);
        let copy = options.open(checkpoint_folder(number));
        let copy = copy.unwrap_or_else(|error| panic!("checkpoint, crashed {at}: {error}"));
        let whole = Progress {
            started: *batches,
            durable: *batches,
        };
        survived(
            rng,
            &copy,
            history,
            whole,
            &format!("{at}, checkpoint {number}"),
        );
    }

    // The second life ends while it recovers, and the third begins there.
    let camera = Camera::new(&crash.fs, rng.clone(), 24, 2);
    let db = reopen(&options, camera.watch(None), at);
    let prefix = survived(rng, &db, history, crash.progress, at);
    if rng.one_in(4) {
        db.verify().unwrap().check().unwrap();
    }
    let names: Vec<&'static str> = NAMES
        .into_iter()
        .filter(|name| db.keyspace(name).is_ok())
        .collect();
    for again in camera.crashes() {
        losses += 1;
        let at = format!("{at}, then {}", again.at);
        let db = reopen(&options, Arc::new(again.fs), &at);
        survived(rng, &db, history, crash.progress, &at);
    }
    camera.stop();

    // What is recovered is durable, and the database goes on as before, with the logs it found.
    let mut longer = history.prefix(prefix);
    let mut durable = longer.len();
    for number in 0..rng.between(1, 10) as usize {
        let synced = rng.one_in(2);
        let done = match rng.below(10) {
            what @ 0..2 => {
                durable = longer.len();
                match what {
                    0 => db.flush(),
                    _ => db.compact_range(None, None),
                }
            }
            _ => {
                let ops = random_batch(rng, &names, 1_000_000 + number);
                longer.push(ops.clone());
                let durability = if synced {
                    Durability::Synced
                } else {
                    Durability::Buffered
                };
                let durability = Some(durability);
                let options = WriteOptions::new().durability(durability);
                let written = write(rng, &db, &ops, options);
                if synced {
                    durable = longer.len();
                }
                written
            }
        };
        done.unwrap_or_else(|error| panic!("crashed {at}, went on: {error}"));
    }
    let fs = crash.fs.crash_clone(rng.next());
    drop(db);
    let at = format!("{at}, went on, crashed");
    let whole = Progress {
        started: longer.len(),
        durable,
    };
    let db = reopen(&options, Arc::new(fs), &at);
    survived(rng, &db, &longer, whole, &at);
    losses
}
