//! Scans of everything before and after the middle half of the keys is deleted in one write, and
//! seeks among what was deleted, each of which has to come past all of it. A first deletion, behind
//! all keys, has a line of its own: an engine may have to prepare for any.
use super::{Purpose, open};
use crate::compare::{Cell, Line};
use crate::engine::Engine;
use crate::runner::{self, Data, Order, Outcome, on_threads, share, timed};
use crate::workload::{MAX_KEY, random};
use crate::{Error, Result};
use rand::RngExt as _;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

pub(super) fn measure(cell: &Cell, dir: &Path) -> Result<Vec<Line>> {
    let Some(engine) = open(cell, dir, Purpose::Entries)? else {
        return Ok(Vec::new());
    };
    let engine = engine.as_ref();
    let (data, untold) = (cell.data(), AtomicU64::new(0));
    runner::fill(engine, &data, Order::Random, cell.threads, 1, &untold)?;
    engine.wait_idle()?;
    let entries = data.keys.entries();
    let none = entries..entries;
    check(engine, &data, &none)?;
    let mut lines = vec![scans(cell, engine, entries, "scan of everything")?];
    let deleted = entries / 4..entries * 3 / 4;
    let (mut from, mut to) = ([0; MAX_KEY], [0; MAX_KEY]);
    let last = data.keys.key(entries - 1, &mut from);
    let (behind, end) = ([last, &[0]].concat(), [last, &[1]].concat());
    let timed_deletion = |from: &[u8], to: &[u8]| {
        let start = Instant::now();
        let able = engine.delete_range(from, to)?;
        Ok::<_, Error>(able.then(|| start.elapsed().as_secs_f64() * 1e6))
    };
    let first = timed_deletion(&behind, &end)?;
    let from = data.keys.key(deleted.start, &mut from);
    let to = data.keys.key(deleted.end, &mut to);
    if let Some((first, half)) = first.zip(timed_deletion(from, to)?) {
        lines.push(Line::fact("first deletion, us", first));
        lines.push(Line::fact("deleting half, us", half));
        check(engine, &data, &deleted)?;
        let left = entries - (deleted.end - deleted.start);
        lines.push(scans(cell, engine, left, "scan after half was deleted")?);
        lines.push(seeks(cell, engine, &data, &deleted)?);
    }
    Ok(lines)
}

/// Fails unless the engine has every entry but the deleted ones. Warms its cache.
fn check(engine: &dyn Engine, data: &Data, deleted: &Range<u64>) -> Result<()> {
    let mut left = (0..data.keys.entries()).filter(|number| !deleted.contains(number));
    let (mut key, mut scratch) = ([0; MAX_KEY], Vec::new());
    engine.scan(&[], usize::MAX, &mut |found, value| {
        let number = left.next();
        let expected = number.filter(|&number| data.keys.key(number, &mut key) == found);
        let stray = || Error::WrongAnswer(format!("a scan found {found:?} for {number:?}"));
        data.values
            .check(expected.ok_or_else(stray)?, 0, value, &mut scratch)
    })?;
    match left.next() {
        None => Ok(()),
        Some(number) => Err(Error::WrongAnswer(format!("entry {number} is missing"))),
    }
}

/// Each thread scans everything; a line of entries per second.
fn scans(cell: &Cell, engine: &dyn Engine, entries: u64, name: &str) -> Result<Line> {
    let outcome = on_threads(cell.threads, |_| {
        let mut outcome = Outcome::new(cell.threads)?;
        let mut bytes = 0;
        let mut visit = |key: &[u8], value: &[u8]| {
            bytes += key.len() + value.len();
            Ok(())
        };
        let (found, took) = timed(engine, || engine.scan(&[], usize::MAX, &mut visit))?;
        if found as u64 != entries || bytes == 0 {
            let what = format!("a scan found {found} entries of {entries}");
            return Err(Error::WrongAnswer(what));
        }
        outcome.record(took, entries);
        Ok(outcome)
    })?;
    Ok(Line::phase(name, &outcome.summary()))
}

/// Seeks to deleted keys: a five-hundredth as many as the comparison has reads.
fn seeks(cell: &Cell, engine: &dyn Engine, data: &Data, deleted: &Range<u64>) -> Result<Line> {
    let outcome = on_threads(cell.threads, |thread| {
        let mut outcome = Outcome::new(cell.threads)?;
        let mut random = random(cell.seed, thread as u64 + 1);
        let (mut from, mut behind) = ([0; MAX_KEY], [0; MAX_KEY]);
        let behind = data.keys.key(deleted.end, &mut behind);
        for _ in share(cell.settings.reads / 500, thread, cell.threads) {
            let number = random.random_range(deleted.clone());
            let from = data.keys.key(number, &mut from);
            let mut right = false;
            let mut visit = |key: &[u8], _: &[u8]| {
                right = key == behind;
                Ok(())
            };
            let (_, took) = timed(engine, || engine.scan(from, 1, &mut visit))?;
            outcome.record(took, 1);
            if !right {
                let what = format!("a seek to entry {number} found a deleted one or none");
                return Err(Error::WrongAnswer(what));
            }
        }
        Ok(outcome)
    })?;
    Ok(Line::phase("seeks to deleted keys", &outcome.summary()))
}
