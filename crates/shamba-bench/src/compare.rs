//! Engines side by side with everything in memory.
//!
//! The same entries, the same durability (a log, not synced per write), no compression, caches
//! larger than the data. Each engine runs in a fresh process and a fresh directory; engines
//! alternate, and the medians of the repetitions are compared. Every answer is checked.
use crate::engine::{self, Engine, EngineConfig};
use crate::report::{Report, median};
use crate::runner::{self, Amount, Data, Summary};
use crate::workload::{KeyKind, KeySpace, MAX_KEY, ValueSpec, Workload};
use crate::{Error, Result, cell, proc_io};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// The lines of the comparison, in the order they run.
pub const PHASES: [Workload; 6] = [
    Workload::FillRandom,
    Workload::Overwrite,
    Workload::ReadRandom,
    Workload::ReadMissing,
    Workload::SeekRandom,
    Workload::ReadWhileWriting,
];

/// What to compare, and on how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Specifications of the engines; ratios are of the first to each other one.
    pub engines: Vec<String>,
    /// Entries of 16-byte keys and `value_size` bytes.
    pub entries: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Lookups per reading phase (seeks: a fifth).
    pub reads: u64,
    /// Thread counts, each a run of its own.
    pub threads: Vec<usize>,
    /// Repetitions of which medians are taken.
    pub repeat: usize,
    /// Writes per second of the writer in readwhilewriting; 0: as fast as it can.
    pub write_rate: u64,
    /// Where the databases are put (and removed again).
    pub dir: PathBuf,
    /// Decides every random choice.
    pub seed: u64,
}

/// One engine, one thread count, all phases, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    engine: String,
    entries: u64,
    value_size: usize,
    reads: u64,
    threads: usize,
    write_rate: u64,
    dir: PathBuf,
    seed: u64,
}

/// What a [`Cell`] measured.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    phases: Vec<(String, Summary)>,
    peak_memory: u64,
    written: u64,
}

impl Cell {
    pub(crate) fn measure(&self) -> Result<Measured> {
        let dir = tempfile::Builder::new()
            .prefix("compare-")
            .tempdir_in(&self.dir)?;
        let config = EngineConfig::in_memory(dir.path().to_owned());
        let engine = engine::open(&self.engine, &config)?;
        let data = Data {
            keys: KeySpace::new(KeyKind::Plain, self.entries),
            values: ValueSpec::random(self.value_size),
            seed: self.seed,
            load_seed: self.seed,
        };
        let mut phases = Vec::new();
        for (number, phase) in PHASES.iter().enumerate() {
            let summary = self.phase(engine.as_ref(), &data, number as u64, *phase)?;
            phases.push((phase.to_string(), summary));
        }
        drop(engine);
        Ok(Measured {
            phases,
            peak_memory: proc_io::peak_memory(),
            written: proc_io::ProcessIo::now().write_bytes,
        })
    }

    fn phase(
        &self,
        engine: &dyn Engine,
        data: &Data,
        number: u64,
        phase: Workload,
    ) -> Result<Summary> {
        let amount = Amount {
            operations: match phase {
                Workload::FillRandom | Workload::Overwrite => self.entries,
                Workload::SeekRandom => self.reads / 5,
                _ => self.reads,
            },
            threads: self.threads,
            phase: number,
        };
        let progress = AtomicU64::new(0);
        let rate = self.write_rate;
        let outcome = runner::run_named(engine, data, phase, None, amount, rate, &progress)?;
        // Reads are measured on a tree at rest and a warm cache, for every engine alike.
        if phase == Workload::FillRandom {
            engine.wait_idle()?;
        } else if phase == Workload::Overwrite {
            engine.flush()?;
            engine.wait_idle()?;
            warm(engine, data)?;
        }
        Ok(outcome.summary())
    }
}

/// Reads everything once, in key order, so that it lies in the engine's cache.
fn warm(engine: &dyn Engine, data: &Data) -> Result<()> {
    let mut from = data.keys.key(0, &mut [0; MAX_KEY]).to_vec();
    let mut seen = 0;
    loop {
        let mut last = Vec::new();
        let found = engine.scan(&from, 10_000, &mut |key, _| {
            last.clear();
            last.extend_from_slice(key);
            Ok(())
        })?;
        seen += found as u64;
        if found < 10_000 {
            break;
        }
        last.push(0);
        from = last;
    }
    if seen == data.keys.entries() {
        return Ok(());
    }
    Err(Error::WrongAnswer(format!(
        "a scan of everything found {seen} of {} entries",
        data.keys.entries()
    )))
}

/// Runs the comparison. `note` gets a line about each finished cell.
pub fn run(settings: &Settings, mut note: impl FnMut(String)) -> Result<Report> {
    std::fs::create_dir_all(&settings.dir)?;
    let mut results: Vec<(usize, usize, Measured)> = Vec::new();
    for repetition in 0..settings.repeat.max(1) {
        for &threads in &settings.threads {
            for (which, engine) in settings.engines.iter().enumerate() {
                let request = cell::Request::Compare(Cell {
                    engine: engine.clone(),
                    entries: settings.entries,
                    value_size: settings.value_size,
                    reads: settings.reads,
                    threads,
                    write_rate: settings.write_rate,
                    dir: settings.dir.clone(),
                    seed: settings.seed + repetition as u64,
                });
                let measured: Measured = cell::measure(&request)?;
                note(line(engine, threads, repetition, &measured));
                results.push((which, threads, measured));
            }
        }
    }
    Ok(report(settings, &results))
}

fn line(engine: &str, threads: usize, repetition: usize, measured: &Measured) -> String {
    let rates: Vec<String> = measured
        .phases
        .iter()
        .map(|(phase, summary)| format!("{phase} {:.0}/s", summary.per_second))
        .collect();
    format!(
        "#{} {engine}, {threads} thread(s): {}",
        repetition + 1,
        rates.join(", ")
    )
}

fn report(settings: &Settings, results: &[(usize, usize, Measured)]) -> Report {
    let mut columns = vec!["phase".to_owned(), "threads".to_owned()];
    for engine in &settings.engines {
        columns.push(format!("{engine} op/s"));
        columns.push(format!("{engine} p99 us"));
    }
    let first = settings.engines.first().cloned().unwrap_or_default();
    for engine in settings.engines.iter().skip(1) {
        columns.push(format!("{first} / {engine}"));
    }
    let mut report = Report {
        title: format!(
            "{} entries of 16 B keys and {} B values, in memory, median of {}; op/s of engine time",
            settings.entries, settings.value_size, settings.repeat
        ),
        columns,
        rows: Vec::new(),
    };
    for &threads in &settings.threads {
        let of = |which: usize, value: &dyn Fn(&Measured) -> Option<f64>| {
            let values: Vec<f64> = results
                .iter()
                .filter(|(w, t, _)| *w == which && *t == threads)
                .filter_map(|(_, _, measured)| value(measured))
                .collect();
            median(&values)
        };
        for phase in PHASES.map(|phase| phase.to_string()) {
            let summary = |measured: &Measured, value: fn(&Summary) -> f64| {
                let found = measured.phases.iter().find(|(name, _)| *name == phase);
                found.map(|(_, summary)| value(summary))
            };
            let rates: Vec<_> = (0..settings.engines.len())
                .map(|which| of(which, &|m| summary(m, |s| s.per_second)))
                .collect();
            let mut row = vec![phase.clone().into(), threads.to_string().into()];
            for (which, rate) in rates.iter().enumerate() {
                row.push((*rate).into());
                row.push(of(which, &|m| summary(m, |s| s.p99_us)).into());
            }
            let ours = rates.first().copied().flatten();
            for rate in rates.iter().skip(1) {
                row.push(ours.zip(*rate).map(|(ours, theirs)| ours / theirs).into());
            }
            report.push(row);
        }
        for (name, value) in [
            (
                "peak memory, MiB",
                (|m| m.peak_memory) as fn(&Measured) -> u64,
            ),
            ("written, MiB", |m| m.written),
        ] {
            let mib: Vec<_> = (0..settings.engines.len())
                .map(|which| of(which, &|m| Some(value(m) as f64 / f64::from(1 << 20))))
                .collect();
            let mut row = vec![name.into(), threads.to_string().into()];
            for value in &mib {
                row.push((*value).into());
                row.push(None.into());
            }
            let ours = mib.first().copied().flatten();
            for value in mib.iter().skip(1) {
                row.push(ours.zip(*value).map(|(ours, theirs)| ours / theirs).into());
            }
            report.push(row);
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_run_and_ratios_are_of_the_first_engine() {
        let dir = tempfile::tempdir().unwrap();
        let cell = Cell {
            engine: "memory".into(),
            entries: 3000,
            value_size: 10,
            reads: 2000,
            threads: 2,
            write_rate: 0,
            dir: dir.path().to_owned(),
            seed: 1,
        };
        let measured = cell.measure().unwrap();
        assert_eq!(measured.phases.len(), PHASES.len());
        assert_eq!(measured.phases[2].1.operations, 2000);

        let mut slower = measured.clone();
        for (_, summary) in &mut slower.phases {
            summary.per_second /= 2.0;
        }
        let settings = Settings {
            engines: vec!["memory".into(), "slower".into()],
            entries: 3000,
            value_size: 10,
            reads: 2000,
            threads: vec![2],
            repeat: 1,
            write_rate: 0,
            dir: dir.path().to_owned(),
            seed: 1,
        };
        let report = report(&settings, &[(0, 2, measured), (1, 2, slower)]);
        for row in report.rows.iter().take(PHASES.len()) {
            let crate::report::Cell::Number(ratio) = row[row.len() - 1] else {
                panic!("no ratio in {row:?}");
            };
            assert!((ratio - 2.0).abs() < 1e-9);
        }
    }
}
