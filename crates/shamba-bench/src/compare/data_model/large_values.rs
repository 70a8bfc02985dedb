//! Large values with memory for a tenth of them: overwritten, looked up, and what that reads and
//! writes and takes on the disk. Lookups are in a process and a control group of their own and go
//! past the system's cache where the engine can; where it cannot, the cache counts in the group.
use crate::cell::Measurement;
use crate::compare::{Cell, Line, in_container, mib};
use crate::container::{self, ALLOWANCE};
use crate::engine::{self, Engine, EngineConfig};
use crate::runner::{self, Amount, Data, Order, Outcome};
use crate::workload::{KeyKind, KeySpace, ValueSpec};
use crate::{Result, proc_io};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// Bytes of a value.
const VALUE: u64 = 16 << 10;

/// A memtable, and a table file, is one part in so many of the budget. With half as many three
/// memtables leave a quarter of it for the cache; with twice as many there are twice the flushes.
const BUFFER: u64 = 8;

/// Lookups of the values in a process and a control group of their own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct LargeReads {
    cell: Cell,
    /// The database.
    database: PathBuf,
    /// The control group to enter.
    container: Option<PathBuf>,
}

impl Measurement for LargeReads {
    type Found = Vec<Line>;

    fn measure(&self) -> Result<Vec<Line>> {
        if let Some(group) = &self.container {
            container::enter(group)?;
        }
        let engine = engine::open(&self.cell.engine, &config(&self.cell, &self.database))?;
        reads(&self.cell, engine.as_ref(), &data(&self.cell))
    }
}

#[cfg(test)]
impl LargeReads {
    /// The same outside of a group.
    pub(super) fn free(self) -> Self {
        let container = None;
        Self { container, ..self }
    }
}

/// So many values as a 250th of the entries.
fn data(cell: &Cell) -> Data {
    let values = (cell.settings.entries / 250).max(1);
    let values = KeySpace::new(KeyKind::Plain, values);
    Data::new(values, ValueSpec::random(VALUE as usize), cell.seed)
}

/// Memory for a tenth of the values, and at least what a database can be opened with.
fn config(cell: &Cell, dir: &Path) -> EngineConfig {
    let memory = (data(cell).keys.entries() * VALUE / 10).max(shamba::MIN_MEMORY);
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
pub(super) fn measure(
    cell: &Cell,
    dir: &Path,
    press: impl FnOnce(LargeReads) -> Result<Vec<Line>>,
) -> Result<Vec<Line>> {
    let config = config(cell, dir);
    let engine = engine::open(&cell.engine, &config)?;
    let mut lines = writes(cell, engine.as_ref(), &data(cell))?;
    drop(engine);
    let size = mib(proc_io::bytes_in(dir)?);
    lines.push(Line::fact("16 KiB values on disk, MiB", size));
    container::forget_files(dir)?;
    lines.extend(in_container(config.memory + ALLOWANCE, |container| {
        press(LargeReads {
            cell: cell.clone(),
            database: dir.to_owned(),
            container,
        })
    })?);
    Ok(lines)
}

/// Operations of a mix that has a name; a phase repeats no other's choices.
fn run(
    cell: &Cell,
    engine: &dyn Engine,
    data: &Data,
    mix: &str,
    (operations, phase): (u64, u64),
) -> Result<Outcome> {
    let amount = Amount {
        operations,
        threads: cell.threads,
        phase,
    };
    runner::run(engine, data, &mix.parse()?, amount, &AtomicU64::new(0))
}

/// Writes every value once, and then as many random ones again.
fn writes(cell: &Cell, engine: &dyn Engine, data: &Data) -> Result<Vec<Line>> {
    let (filled, by_fill) = settled(engine, || {
        let untold = AtomicU64::new(0);
        runner::fill(engine, data, Order::Random, cell.threads, 1, &untold)
    })?;
    let (overwritten, by_overwrite) = settled(engine, || {
        run(cell, engine, data, "overwrite", (data.keys.entries(), 0))
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
fn reads(cell: &Cell, engine: &dyn Engine, data: &Data) -> Result<Vec<Line>> {
    let lookups = cell.settings.reads / 20;
    let look_up = |phase| run(cell, engine, data, "readrandom", (lookups, phase));
    look_up(1)?;
    let before = proc_io::ProcessIo::now();
    let found = look_up(2)?;
    let io = proc_io::ProcessIo::now().since(&before);
    let pages = io.pages() / found.operations.max(1) as f64;
    Ok(vec![
        Line::phase("readrandom of 16 KiB values", &found.summary()),
        Line::fact("16 KiB values: pages/lookup", pages),
        Line::fact("peak memory of the lookups, MiB", peak_memory()),
    ])
}

/// MiB that the process took at most so far, the program itself left out.
fn peak_memory() -> f64 {
    mib(proc_io::peak_own_memory())
}

/// The outcome of writes, and the MiB that were written until the tree was at rest.
fn settled(engine: &dyn Engine, write: impl FnOnce() -> Result<Outcome>) -> Result<(Outcome, f64)> {
    let before = proc_io::ProcessIo::now();
    let outcome = write()?;
    engine.flush()?;
    engine.wait_idle()?;
    let io = proc_io::ProcessIo::now().since(&before);
    Ok((outcome, mib(io.write_bytes)))
}
