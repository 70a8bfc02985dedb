//! Large values with memory for a tenth of them: overwritten, looked up, and what that reads and
//! writes and takes on the disk. Lookups are in a process and a control group of their own and go
//! past the system's cache where the engine can; where it cannot, the cache counts in the group.
use super::warmed;
use crate::Result;
use crate::compare::{Cell, Line, Press, Pressed, mib};
use crate::engine::{self, Engine, EngineConfig};
use crate::proc_io::{self, ProcessIo};
use crate::runner::{self, Data, Outcome};
use crate::workload::{KeyKind, KeySpace, ValueSpec};
use std::path::Path;

/// Bytes of a value.
const VALUE: u64 = 16 << 10;

/// A memtable, and a table file, is one part in so many of the budget. With half as many three
/// memtables leave a quarter of it for the cache; with twice as many there are twice the flushes.
const BUFFER: u64 = 8;

/// So many values as a 250th of the entries.
fn data(cell: &Cell) -> Data {
    let values = (cell.settings.entries / 250).max(1);
    let values = KeySpace::new(KeyKind::Plain, values);
    Data::new(values, ValueSpec::random(VALUE as usize), cell.seed)
}

fn config(memory: u64, dir: &Path) -> EngineConfig {
    let buffer = (memory / BUFFER).clamp(1 << 20, 64 << 20);
    EngineConfig {
        memory,
        write_buffer: buffer,
        file_size: buffer,
        direct_reads: true,
        metadata_resident: false,
        ..EngineConfig::in_memory(dir.to_owned())
    }
}

/// Writes here, and has `press` look values up.
pub(super) fn measure(cell: &Cell, dir: &Path, press: Press<'_>) -> Result<Vec<Line>> {
    let data = data(cell);
    let memory = (data.keys.entries() * VALUE / 10).max(shamba::MIN_MEMORY);
    let engine = engine::open(&cell.engine, &config(memory, dir))?;
    let mut lines = writes(cell, engine.as_ref(), &data)?;
    drop(engine);
    let size = mib(proc_io::bytes_in(dir)?);
    lines.push(Line::fact("16 KiB values on disk, MiB", size));
    lines.extend(cell.pressed(dir, memory, press)?);
    Ok(lines)
}

/// Writes every value once, and then as many random ones again.
fn writes(cell: &Cell, engine: &dyn Engine, data: &Data) -> Result<Vec<Line>> {
    let (filled, by_fill) = settled(engine, || runner::load(engine, data, cell.threads, 1))?;
    let (overwritten, by_overwrite) = settled(engine, || {
        cell.run(engine, data, "overwrite", (data.keys.entries(), 0))
    })?;
    Ok(vec![
        Line::phase("fill of 16 KiB values", &filled.summary()),
        Line::fact("written by the fill, MiB", by_fill),
        Line::phase("overwrite of 16 KiB values", &overwritten.summary()),
        Line::fact("written by the overwrite, MiB", by_overwrite),
        Line::fact("peak memory of the writes, MiB", peak_memory()),
    ])
}

/// Looks random values up, once the cache is warm.
pub(super) fn reads(pressed: &Pressed) -> Result<Vec<Line>> {
    let cell = &pressed.cell;
    let engine = engine::open(&cell.engine, &config(pressed.memory, &pressed.database))?;
    let (name, pages) = ("readrandom of 16 KiB values", "16 KiB values: pages/lookup");
    let (data, lookups) = (data(cell), cell.settings.reads / 20);
    let lines = warmed(name, pages, 1, |phase| {
        cell.run(engine.as_ref(), &data, "readrandom", (lookups, phase))
    })?;
    let peak = Line::fact("peak memory of the lookups, MiB", peak_memory());
    Ok(lines.into_iter().chain([peak]).collect())
}

/// MiB that the process took at most so far, the program itself left out.
fn peak_memory() -> f64 {
    mib(proc_io::peak_own_memory())
}

/// The outcome of writes, and the MiB that were written until the tree was at rest.
fn settled(engine: &dyn Engine, write: impl FnOnce() -> Result<Outcome>) -> Result<(Outcome, f64)> {
    let (outcome, io) = ProcessIo::during(|| {
        let outcome = write()?;
        engine.flush()?;
        engine.wait_idle()?;
        Ok(outcome)
    })?;
    Ok((outcome, mib(io.write_bytes)))
}
