//! Counters: a fiftieth of the entries, and as many increments as the comparison has reads.
use super::numbers::Numbers;
use crate::compare::{Cell, Line};
use crate::engine::data_model::{DataModel, number};
use crate::runner::{on_threads, share, timed};
use crate::workload::{MAX_KEY, random};
use crate::{Error, Result};
use rand::RngExt as _;

/// Counters that are incremented one after the other, each by 1, and then looked up.
pub(super) fn measure(cell: &Cell, engine: &dyn DataModel) -> Result<Vec<Line>> {
    let mut counters = Numbers::new((cell.settings.entries / 50).max(1), 0);
    let (count, threads) = (counters.count(), cell.threads);
    // Which counters a thread comes to.
    let chosen = |phase: u64, thread: usize| {
        let mut random = random(cell.seed, (phase << 8) + thread as u64 + 1);
        let own = share(cell.settings.reads, thread, threads);
        own.map(move |_| random.random_range(0..count))
    };
    let incremented = on_threads(threads, |thread, outcome| {
        let mut key = [0; MAX_KEY];
        for at in chosen(0, thread) {
            let key = counters.keys.key(at, &mut key);
            let (able, took) = timed(engine, || engine.increment(key, 1))?;
            if !able {
                break;
            }
            outcome.record(took, 1);
        }
        Ok(())
    })?;
    if incremented.operations == 0 {
        return Ok(Vec::new());
    }
    engine.wait_idle()?;
    let read = on_threads(threads, |thread, outcome| {
        let (mut key, mut value) = ([0; MAX_KEY], Vec::new());
        for at in chosen(1, thread) {
            let key = counters.keys.key(at, &mut key);
            let (found, took) = timed(engine, || engine.get(key, &mut value))?;
            outcome.record(took, 1);
            if found && number(&value)? <= 0 {
                return Err(Error::WrongAnswer(format!("counter {at} is not above 0")));
            }
        }
        Ok(())
    })?;
    for at in (0..threads.max(1)).flat_map(|thread| chosen(0, thread)) {
        counters.expect(at, 1);
    }
    counters.check(engine)?;
    Ok(vec![
        Line::phase("counter increments", &incremented.summary()),
        Line::phase("counter lookups", &read.summary()),
    ])
}
