//! Scans of everything before and after the middle half of the keys is deleted in one write, and
//! seeks among what was deleted, each of which has to come past all of it. A first deletion, behind
//! all keys, has a line of its own: an engine may have to prepare for any.
use crate::compare::{Cell, Line};
use crate::engine::Engine;
use crate::engine::data_model::DataModel;
use crate::runner::{self, Data, check_all, on_threads, share, timed};
use crate::workload::{MAX_KEY, random};
use crate::{Error, Result};
use rand::RngExt as _;
use std::ops::Range;
use std::time::Instant;

pub(super) fn measure(cell: &Cell, engine: &dyn DataModel) -> Result<Vec<Line>> {
    let data = cell.data();
    runner::load(engine, &data, cell.threads, 1)?;
    engine.wait_idle()?;
    let entries = data.keys.entries();
    check_all(engine, &data, &(0..0))?;
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
        check_all(engine, &data, &deleted)?;
        let left = entries - (deleted.end - deleted.start);
        lines.push(scans(cell, engine, left, "scan after half was deleted")?);
        lines.push(seeks(cell, engine, &data, &deleted)?);
    }
    Ok(lines)
}

/// Each thread scans everything; a line of entries per second.
fn scans(cell: &Cell, engine: &dyn Engine, entries: u64, name: &str) -> Result<Line> {
    let outcome = on_threads(cell.threads, |_, outcome| {
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
        Ok(())
    })?;
    Ok(Line::phase(name, &outcome.summary()))
}

/// Seeks to deleted keys: a five-hundredth as many as the comparison has reads.
fn seeks(cell: &Cell, engine: &dyn Engine, data: &Data, deleted: &Range<u64>) -> Result<Line> {
    let outcome = on_threads(cell.threads, |thread, outcome| {
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
        Ok(())
    })?;
    Ok(Line::phase("seeks to deleted keys", &outcome.summary()))
}
