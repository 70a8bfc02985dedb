//! A real process on a real folder, killed at random moments: every write it was told was done is
//! there afterwards, in order, with nothing else.
//!
//! The writing process is the `stress` command itself ([`Kill::write_for_ever`]). It says of each
//! write on its standard output, once it is acknowledged. A case kills several processes in a row,
//! each with other options, on one database; every second killed one is killed while it recovers
//! from the one before.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use shamba::{Db, Durability, Error, MemoryBudget, Options, WriteOptions};

use crate::common::history::{
    BatchOp, Write, Written, fits_transaction, life, to_batch, write_as_transaction,
};
use crate::common::story::Story;
use crate::common::{
    Map, Rng, all_contents, check_short_scans, grouped_key, random_design, random_keyspace_options,
    small_keyspace,
};
use crate::{Kind, Tally};

const COUNTER: &[u8] = b"counter";
const FIRST: &str = "default";
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
        .merge_operator(FIRST, Story { combines: true })
        .merge_operator(SECOND, Story { combines: false })
}

/// What write number `n` does, the same in both keyspaces: it counts, and does something else.
fn operations(n: u64) -> Vec<BatchOp> {
    let mut rng = Rng::new(n);
    let at = rng.below(KEYS);
    let write = match rng.below(100) {
        0..14 => Write::Delete,
        14..16 => Write::DeleteRange(grouped_key(at + rng.between(1, 20))),
        16..30 => {
            let len = rng.below(60) as usize;
            Write::Merge(rng.bytes(len))
        }
        30..38 => Write::Put([life(&mut rng).as_bytes(), &rng.bytes(40)].concat()),
        _ => {
            let len = match rng.below(400) {
                // Under the two smaller budgets it goes into a file in pieces.
                0 => rng.between(128 << 10, 140 << 10),
                1..11 => 9000,
                _ => rng.below(300),
            };
            Write::Put(rng.bytes(len as usize))
        }
    };
    let count = Write::Put(n.to_be_bytes().to_vec());
    [FIRST, SECOND]
        .into_iter()
        .flat_map(|name| {
            let count = (name, COUNTER.to_vec(), count.clone());
            [count, (name, grouped_key(at), write.clone())]
        })
        .collect()
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
        let second = match db.keyspace(SECOND) {
            Err(Error::KeyspaceNotFound { .. }) => db.create_keyspace(SECOND, small_keyspace())?,
            known => known?,
        };
        let mut out = std::io::stdout();
        let mut n = reached(&db);
        loop {
            n += 1;
            let ops = operations(n);
            let durability = Some(if n.is_multiple_of(50) {
                Durability::Synced
            } else {
                Durability::Buffered
            });
            let options = WriteOptions::new().durability(durability);
            if n.is_multiple_of(4) && fits_transaction(&ops) {
                write_as_transaction(&db, &ops, options)?;
            } else {
                db.write_with(to_batch(&db, &ops)?, options)?;
            }
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

/// What iterators and merges read: under a large budget from the first on that a small one has no
/// room for. It may have none for a value, or for a block of each run, that was written under a
/// large one; also where it had, once merges in the background have made another tree.
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
        let mut written = Written::default();
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
                written.apply(&operations(n));
            }
            let mut model = written.state(true);
            let model: Map = model.remove(FIRST).unwrap_or_default();
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
                // Of a long value that was merged into there are two at a time.
                let got = with_room(&memory, || db.get(&key));
                assert_eq!(got.as_deref(), model.get(&key).map(Vec::as_slice));
            }
            db.verify().unwrap().check().unwrap();
            db.close().unwrap();
            tally.add("writes", reached - known);
            known = reached;
        }
    }
}
