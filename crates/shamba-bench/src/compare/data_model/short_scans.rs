//! Short scans with little memory: all that begins with eight bytes, as the entries of a user, of
//! users who have none and of users some of whom have four. Scans are in a process and a control
//! group of their own and go past the system's cache; the budget is 40 % of what filters of ten
//! bits a key and an index of 17 bytes a block of 4 KiB would take (RocksDB's).
use super::warmed;
use crate::compare::{Cell, Line, Press, Pressed};
use crate::engine::data_model::{self, DataModel, Purpose};
use crate::engine::{EngineConfig, Write};
use crate::runner::{Outcome, on_threads, share, timed};
use crate::workload::{mix, random};
use crate::{Error, Result};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use std::path::Path;

/// Entries of a user.
const EACH: u32 = 4;

/// Bytes of a value; keys have twelve.
const VALUE: usize = 52;

/// As many users as have the entries.
fn users(cell: &Cell) -> u64 {
    (cell.settings.entries / u64::from(EACH)).max(1)
}

/// What may be taken of memory, in bytes.
fn budget(cell: &Cell) -> u64 {
    let entries = users(cell) * u64::from(EACH);
    let blocks = entries * (12 + VALUE as u64) / 4096;
    (entries * 10 / 8 + blocks * 17) * 2 / 5
}

/// What the keys of a user begin with: of even numbers there are some.
fn user(number: u64) -> [u8; 8] {
    mix(number).to_be_bytes()
}

/// Writes the entries in random order, and has `press` scan.
pub(super) fn measure(cell: &Cell, dir: &Path, press: Press<'_>) -> Result<Vec<Line>> {
    let config = EngineConfig::standard(dir.to_owned(), 64 << 20);
    let Some(engine) = data_model::open(&cell.engine, &config, Purpose::Entries)? else {
        return Ok(Vec::new());
    };
    if engine.count_of(user(0))?.is_none() {
        return Ok(Vec::new());
    }
    fill(cell, engine.as_ref())?;
    drop(engine);
    cell.pressed(dir, budget(cell), press)
}

fn fill(cell: &Cell, engine: &dyn DataModel) -> Result<()> {
    let mut random = random(cell.seed, 1);
    let mut numbers: Vec<u64> = (0..users(cell) * u64::from(EACH)).collect();
    numbers.shuffle(&mut random);
    let mut value = [0; VALUE];
    for chunk in numbers.chunks(100) {
        let key = |number: &u64| {
            let entry = (number % u64::from(EACH)) as u32;
            [
                &user(number / u64::from(EACH) * 2)[..],
                &entry.to_be_bytes(),
            ]
            .concat()
        };
        let keys: Vec<Vec<u8>> = chunk.iter().map(key).collect();
        random.fill(&mut value[..]);
        let puts: Vec<Write<'_>> = keys.iter().map(|key| Write::Put(key, &value)).collect();
        engine.write_batch(&puts)?;
    }
    engine.flush()?;
    engine.wait_idle()
}

/// Scans of absent users, and then of users half of whom are there, each once the cache is warm.
pub(super) fn scans(pressed: &Pressed) -> Result<Vec<Line>> {
    let cell = &pressed.cell;
    // To be written: then all may merge what the scans come past.
    let config = EngineConfig::standard(pressed.database.clone(), pressed.memory);
    let Some(engine) = data_model::open(&cell.engine, &config, Purpose::Entries)? else {
        return Ok(Vec::new());
    };
    let mut lines = Vec::new();
    for (stream, absent, name) in [(4, 2, "empty scans"), (6, 1, "scans, half of them empty")] {
        let pages = format!("{name}: pages/scan");
        let scan = |stream| run(cell, engine.as_ref(), absent, stream);
        lines.extend(warmed(name, pages, stream, scan)?);
    }
    Ok(lines)
}

/// A twentieth as many scans as the comparison has reads, of users of whom so many halves are
/// absent.
fn run(cell: &Cell, engine: &dyn DataModel, absent: u64, stream: u64) -> Result<Outcome> {
    on_threads(cell.threads, |thread, outcome| {
        let mut random = random(cell.seed, stream * 64 + thread as u64);
        for _ in share(cell.settings.reads / 20, thread, cell.threads) {
            let number = random.random_range(0..2 * users(cell));
            let number = if absent == 2 { number | 1 } else { number };
            let (found, took) = timed(engine, || engine.count_of(user(number)))?;
            outcome.record(took, 1);
            let expected = if number % 2 == 0 { EACH as usize } else { 0 };
            if found != Some(expected) {
                let what = format!("a scan found {found:?} entries of {expected}");
                return Err(Error::WrongAnswer(what));
            }
        }
        Ok(())
    })
}
