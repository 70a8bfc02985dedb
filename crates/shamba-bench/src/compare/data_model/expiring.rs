//! Entries that all live for the same time: written, gone past once all have expired, and dropped
//! by a merge of everything, with what is then left on the disk. The clock is the system's.
use crate::compare::{Cell, Line, mib};
use crate::engine::data_model::{DataModel, TIME_TO_LIVE};
use crate::runner::{self, on_threads, timed};
use crate::{Error, Result, proc_io};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long is waited after the last write, so that an engine with a clock of whole seconds takes
/// every entry for expired.
const UNTIL_EXPIRED: Duration = TIME_TO_LIVE.saturating_add(Duration::from_secs(2));

pub(super) fn measure(cell: &Cell, engine: &dyn DataModel, dir: &Path) -> Result<Vec<Line>> {
    let data = cell.data();
    let filled = runner::load(engine, &data, cell.threads, 1)?;
    engine.wait_idle()?;
    std::thread::sleep(UNTIL_EXPIRED);
    let (entries, shown) = (data.keys.entries(), AtomicU64::new(0));
    let scanned = on_threads(cell.threads, |_, outcome| {
        let visit = &mut |_: &[u8], _: &[u8]| Ok(());
        let (found, took) = timed(engine, || engine.scan(&[], usize::MAX, visit))?;
        shown.fetch_add(found as u64, Ordering::Relaxed);
        outcome.record(took, entries);
        Ok(())
    })?;
    let start = Instant::now();
    if !engine.compact()? {
        return Ok(Vec::new());
    }
    let took = start.elapsed().as_secs_f64();
    let left = engine.scan(&[], 1, &mut |_, _| Ok(()))?;
    if left > 0 {
        let what = "an entry is there that expired before everything was merged";
        return Err(Error::WrongAnswer(what.to_owned()));
    }
    let shown = shown.into_inner() as f64 / cell.threads.max(1) as f64;
    Ok(vec![
        Line::phase("fill with a time to live", &filled.summary()),
        Line::phase("scan past all that expired", &scanned.summary()),
        Line::fact("expired entries that it showed", shown),
        Line::fact("merge of what expired, s", took),
        Line::fact(
            "on disk once all expired, MiB",
            mib(proc_io::bytes_in(dir)?),
        ),
    ])
}
