//! A real process on a real folder, killed at random moments: every write it was told was done is
//! there afterwards, in order, with nothing else.
//!
//! The writing process is the `stress` command itself ([`Kill::write_for_ever`]). It says of each
//! write on its standard output, once it is acknowledged. A case kills several processes in a row,
//! each with other options, on one database; every second killed one is killed while it recovers
//! from the one before.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use shamba::{Db, Durability, Error, Keyspace, MemoryBudget, Options, WriteBatch, WriteOptions};

use crate::common::{
    Map, Rng, all_contents, check_short_scans, grouped_key, random_design, random_keyspace_options,
    small_keyspace,
};
use crate::{Kind, Tally};

const COUNTER: &[u8] = b"counter";
const SECOND: &str = "second";
const KEYS: u64 = 700;

/// Kills of processes.
#[derive(Debug)]
pub struct Kill {
    /// The command that writes: this one's own file.
    pub stress: PathBuf,
}

fn budget(rng: &mut Rng) -> MemoryBudget {
    MemoryBudget::bytes(*rng.pick(&[1 << 20, 2 << 20, 16 << 20]))
}

fn options(rng: &mut Rng) -> Options {
    Options::new()
        .memory(budget(rng))
        .background_threads(rng.between(1, 3) as usize)
        .max_wal_bytes(256 << 10)
        .keyspace(random_keyspace_options(rng))
        .keyspace_options(SECOND, random_keyspace_options(rng))
}

/// What a write does beside counting.
enum Operation {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Range<Vec<u8>>),
}

impl Operation {
    /// That of write number `n`.
    fn of(n: u64) -> Self {
        let mut rng = Rng::new(n);
        let at = rng.below(KEYS);
        let key = grouped_key(at);
        match rng.below(100) {
            0..18 => Operation::Delete(key),
            18..20 => Operation::DeleteRange(key..grouped_key(at + rng.between(1, 20))),
            _ => {
                let len = match rng.below(400) {
                    // Under the two smaller budgets it goes into a file in pieces.
                    0 => rng.between(128 << 10, 140 << 10),
                    1..11 => 9000,
                    _ => rng.below(300),
                };
                Operation::Put(key, rng.bytes(len as usize))
            }
        }
    }

    fn add_to(&self, batch: &mut WriteBatch, keyspace: &Keyspace) -> shamba::Result<()> {
        match self {
            Operation::Put(key, value) => batch.put_in(keyspace, key, value),
            Operation::Delete(key) => batch.delete_in(keyspace, key),
            Operation::DeleteRange(range) => {
                batch.delete_range_in(keyspace, &range.start..&range.end)?;
            }
        }
        Ok(())
    }

    fn apply(self, map: &mut Map) {
        match self {
            Operation::Put(key, value) => {
                map.insert(key, value);
            }
            Operation::Delete(key) => {
                map.remove(&key);
            }
            Operation::DeleteRange(range) => map.retain(|key, _| !range.contains(key)),
        }
    }
}

/// The number of the last write, by what each keyspace says.
fn reached(db: &Db) -> u64 {
    let value = db.get(COUNTER).unwrap();
    value.map_or(0, |value| u64::from_be_bytes((&*value).try_into().unwrap()))
}

impl Kill {
    /// The writing process: writes until it is killed.
    ///
    /// # Errors
    /// As the engine's.
    ///
    /// # Panics
    /// If nobody listens any more.
    pub fn write_for_ever(dir: &Path, seed: u64) -> shamba::Result<()> {
        let mut rng = Rng::new(seed);
        let db = options(&mut rng).open(dir)?;
        let first = db.keyspace("default")?;
        let second = match db.keyspace(SECOND) {
            Err(Error::KeyspaceNotFound { .. }) => db.create_keyspace(SECOND, small_keyspace())?,
            known => known?,
        };
        let mut out = std::io::stdout();
        let mut n = reached(&db);
        loop {
            n += 1;
            let operation = Operation::of(n);
            let mut batch = WriteBatch::new();
            batch.put(COUNTER, n.to_be_bytes());
            batch.put_in(&second, COUNTER, n.to_be_bytes());
            operation.add_to(&mut batch, &first)?;
            operation.add_to(&mut batch, &second)?;
            let durability = Some(if n.is_multiple_of(50) {
                Durability::Synced
            } else {
                Durability::Buffered
            });
            db.write_with(batch, WriteOptions::new().durability(durability))?;
            writeln!(out, "done {n}").unwrap();
            match rng.below(2000) {
                0 => db.flush()?,
                1 => db.compact_range(None, None)?,
                2 => second.redesign(random_design(&mut rng))?,
                _ => {}
            }
        }
    }

    /// Runs a process, kills it, and gives the last write it told of.
    fn run_and_kill(&self, dir: &Path, seed: u64, after: Duration) -> u64 {
        let mut child = Command::new(&self.stress)
            .arg("write-until-killed")
            .arg(dir)
            .arg(seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            // A line that was cut off has a shorter number, or none.
            let lines = out.lines().map_while(Result::ok);
            let numbers = lines.filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
            numbers.max().unwrap_or(0)
        });
        std::thread::sleep(after);
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the process ended by itself: {ended:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap()
    }
}

/// What iterators read: under a large budget from the first on that a small one has no room for. It
/// may have none for a value, or for a block of each run, that was written under a large one; also
/// where it had, once merges in the background have made another tree.
fn with_room<T>(memory: &MemoryBudget, mut read: impl FnMut() -> shamba::Result<T>) -> T {
    match read() {
        Err(Error::IteratorsExhausted { .. }) => {
            memory.set_limit(64 << 20).unwrap();
            read().unwrap()
        }
        read => read.unwrap(),
    }
}

impl Kind for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn case(&self, seed: u64, tally: &Tally) {
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("db");
        let mut model = Map::new();
        let mut known = 0;
        let mut told = 0;
        // Kills since a process last told of a write: each may have done one more than it told of.
        let mut silent = 0;
        for _ in 0..rng.between(3, 8) {
            let most = *rng.pick(&[30, 300, 1500]);
            let after = Duration::from_millis(rng.between(1, most));
            let last = self.run_and_kill(&dir, rng.next() >> 1, after);
            silent = if last > told { 1 } else { silent + 1 };
            told = told.max(last);
            tally.add("kills", 1);
            if rng.one_in(2) {
                // The next process recovers from this one.
                continue;
            }
            let memory = budget(&mut rng);
            let options = options(&mut rng).memory(memory.clone());
            let db = options.open(&dir).unwrap();
            let reached = reached(&db);
            assert!(
                (told..=told + silent).contains(&reached),
                "told of {told} writes, {reached} are there after {silent} more kills"
            );
            (told, silent) = (reached, 0);
            for n in known + 1..=reached {
                Operation::of(n).apply(&mut model);
            }
            if reached > 0 {
                model.insert(COUNTER.to_vec(), reached.to_be_bytes().to_vec());
            }
            for (name, contents) in with_room(&memory, || all_contents(&db)) {
                assert!(
                    contents == model,
                    "{name} is not what the first {reached} writes make"
                );
                let keyspace = db.keyspace(&name).unwrap();
                for _ in 0..20 {
                    with_room(&memory, || {
                        check_short_scans(&keyspace, &model, &mut rng, KEYS)
                    });
                }
            }
            for n in 0..KEYS {
                let key = grouped_key(n);
                let got = db.get(&key).unwrap();
                assert_eq!(got.as_deref(), model.get(&key).map(Vec::as_slice));
            }
            db.verify().unwrap().check().unwrap();
            db.close().unwrap();
            tally.add("writes", reached - known);
            known = reached;
        }
    }
}
