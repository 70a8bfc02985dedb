//! A real process on a real folder, killed at random moments: every write it was told was done is
//! there afterwards, in order, with nothing else.
//!
//! `SHAMBA_KILLS` sets how often (default 15; the full run is 100). The writing process is this
//! test binary itself, told so by an environment variable.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{Map, Replay, Rng, all_contents, env_number, random_keyspace_options};
use shamba::fs::OsFs;
use shamba::{Db, Durability, MemoryBudget, Options, Result, WriteBatch, WriteOptions};

const CHILD: &str = "SHAMBA_SIGKILL_CHILD";
const COUNTER: &[u8] = b"counter";
const KEYS: u64 = 700;

fn options(rng: &mut Rng) -> Options {
    Options::new()
        .fs(Arc::new(OsFs::new()))
        .memory(MemoryBudget::bytes(1 << 20))
        .background_threads(2)
        .max_wal_bytes(256 << 10)
        .keyspace(random_keyspace_options(rng))
        .keyspace_options("second", random_keyspace_options(rng))
}

/// What write number `n` does: its key, and its value or a delete.
fn operation(n: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut rng = Rng::new(n);
    let key = format!("{:05}", rng.below(KEYS)).into_bytes();
    let len = if rng.one_in(40) {
        9000
    } else {
        rng.below(300) as usize
    };
    (key, (!rng.one_in(5)).then(|| rng.bytes(len)))
}

fn counter(db: &Db) -> Result<u64> {
    let value = db.get(COUNTER)?;
    Ok(value.map_or(0, |value| u64::from_be_bytes((&*value).try_into().unwrap())))
}

/// Writes for ever, telling of each write once it is acknowledged.
fn child(dir: &Path) -> Result<()> {
    let seed = env_number("SHAMBA_SIGKILL_SEED").unwrap();
    let db = options(&mut Rng::new(seed)).open(dir)?;
    let second = match db.keyspace("second") {
        Ok(second) => second,
        Err(_) => db.create_keyspace("second", common::small_keyspace())?,
    };
    let mut out = std::io::stdout();
    let mut n = counter(&db)?;
    loop {
        n += 1;
        let (key, value) = operation(n);
        let mut batch = WriteBatch::new();
        batch.put(COUNTER, n.to_be_bytes());
        batch.put_in(&second, COUNTER, n.to_be_bytes());
        match value {
            Some(value) => {
                batch.put(&key, &value);
                batch.put_in(&second, &key, &value);
            }
            None => {
                batch.delete(&key);
                batch.delete_in(&second, &key);
            }
        }
        let durability = Some(if n % 50 == 0 {
            Durability::Synced
        } else {
            Durability::Buffered
        });
        db.write_with(batch, WriteOptions::new().durability(durability))?;
        writeln!(out, "done {n}").unwrap();
        out.flush().unwrap();
    }
}

/// Runs a child, kills it, and gives the last write it told of.
fn run_and_kill(dir: &Path, seed: u64, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_killed_process_loses_no_acknowledged_write",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, dir)
        .env("SHAMBA_SIGKILL_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let lines = out.lines().map_while(std::result::Result::ok);
        // A line that was cut off has no number or a shorter one: only whole lines end in "\n".
        lines
            .filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok())
            .max()
            .unwrap_or(0)
    });
    std::thread::sleep(after);
    assert!(
        child.try_wait().unwrap().is_none(),
        "the writing process ended by itself"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn a_killed_process_loses_no_acknowledged_write() {
    if let Some(dir) = std::env::var_os(CHILD) {
        child(Path::new(&dir)).unwrap();
        return;
    }
    let kills = env_number("SHAMBA_KILLS").unwrap_or(15);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("db");
    let mut rng = Rng::new(env_number("SHAMBA_SEED").unwrap_or(1));
    let mut model = Map::new();
    let mut known = 0;
    for round in 0..kills {
        let after = Duration::from_millis(rng.between(5, 400));
        let _replay = Replay(format!("round {round}, killed after {after:?}"));
        let told = run_and_kill(&dir, rng.next() >> 1, after).max(known);
        let db = options(&mut rng).open(&dir).unwrap();
        let reached = counter(&db).unwrap();
        // The write after the last one told of may have been done, without time to say so.
        assert!(
            reached == told || reached == told + 1,
            "told of {told} writes, {reached} are there"
        );
        for n in known + 1..=reached {
            match operation(n) {
                (key, Some(value)) => model.insert(key, value),
                (key, None) => model.remove(&key),
            };
        }
        if reached > 0 {
            model.insert(COUNTER.to_vec(), reached.to_be_bytes().to_vec());
            for (name, contents) in all_contents(&db).unwrap() {
                assert!(
                    contents == model,
                    "{name} is not what the first {reached} writes make"
                );
            }
        }
        for n in 0..KEYS {
            let key = format!("{n:05}").into_bytes();
            assert_eq!(
                db.get(&key).unwrap().as_deref(),
                model.get(&key).map(Vec::as_slice)
            );
        }
        db.verify().unwrap().check().unwrap();
        db.close().unwrap();
        known = reached;
    }
    assert!(
        known > kills * 10,
        "only {known} writes were made: the processes had no time to do anything"
    );
}
