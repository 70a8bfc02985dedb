//! Recorded operations: saved as a CSV file, and replayed on any engine with every answer checked.
//!
//! A line is `op,key,size`: the operation (`put`, `get`, `delete`, `scan`, or `measure`, from which
//! on times and reads count), its key in hexadecimal, and the bytes of the value or the entries to
//! scan. Values are not kept: a replay makes its own. [`record`] saves a generated workload; any
//! program can write such a file of its own operations. A replay runs on one thread and starts from
//! an empty database, so that a trace begins with what it needs to find.
use crate::cell::{self, Measurement};
use crate::device::Device;
use crate::engine::{self, Engine, EngineConfig, Visit, Write};
use crate::report::Report;
use crate::runner::{self, Amount, Data, Outcome, Summary, timed};
use crate::workload::{Distribution, KeyKind, KeySpace, MAX_KEY, MIN_KEY, Mix, Sizes, ValueSpec};
use crate::{Error, Result, proc_io, row};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Op {
    Put,
    Get,
    Delete,
    Scan,
    /// From here on times and reads count.
    Measure,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Step {
    op: Op,
    #[serde(with = "hex::serde")]
    key: Vec<u8>,
    /// Bytes of the value, or entries to scan.
    size: usize,
}

fn key_sizes() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(MIN_KEY.into()..=MAX_KEY as i64)
}

/// What to record.
#[derive(Clone, Debug, clap::Args)]
pub struct Recording {
    /// overwrite, readrandom, readmissing, seekrandom, scan, mixgraph, ycsb-a to ycsb-f.
    #[arg(long, default_value = "ycsb-b")]
    pub workload: Mix,
    /// Distribution of keys; by default the workload's own.
    #[arg(long)]
    pub distribution: Option<Distribution>,
    /// Entries written first, in random order.
    #[arg(long, default_value_t = 100_000)]
    pub entries: u64,
    /// Operations after that.
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 32, value_parser = key_sizes())]
    pub key_size: u16,
    /// Bytes of a value, LEAST-MOST, or graph: those of Facebook's social graph.
    #[arg(long, default_value = "32")]
    pub value_size: Sizes,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The file to write.
    #[arg(long)]
    pub out: PathBuf,
}

/// On what to replay.
#[derive(Clone, Debug, clap::Args, serde::Serialize, serde::Deserialize)]
pub struct Replaying {
    /// The recorded file.
    pub trace: PathBuf,
    /// Engines.
    #[arg(long, value_delimiter = ',', default_value = "shamba")]
    pub engines: Vec<String>,
    /// Bytes of memory, each.
    #[arg(long, default_value_t = 8 << 20)]
    pub memory: u64,
    /// Where the databases lie.
    #[arg(long, value_enum, default_value_t = Device::Disk)]
    pub device: Device,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// One engine replays a trace.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    engine: String,
    replaying: Replaying,
}

/// What a replay took, from the mark on.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Replayed {
    times: Summary,
    /// Lookups that found their key.
    found: u64,
    /// Pages read from storage per operation; none are from a RAM disk.
    pages: f64,
    /// Bytes written to storage per operation.
    written: f64,
}

/// Saves what it is asked, and has it done by a map in memory.
struct Recorder {
    inner: Box<dyn Engine>,
    file: Mutex<csv::Writer<std::fs::File>>,
}

impl Recorder {
    fn step(&self, op: Op, key: &[u8], size: usize) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key.to_vec();
        Ok(file.serialize(Step { op, key, size })?)
    }
}

impl Engine for Recorder {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.step(Op::Get, key, 0)?;
        self.inner.get(key, into)
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        for write in writes {
            match *write {
                Write::Put(key, value) => self.step(Op::Put, key, value.len())?,
                Write::Delete(key) => self.step(Op::Delete, key, 0)?,
            }
        }
        self.inner.write_batch(writes)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        self.step(Op::Scan, from, limit)?;
        self.inner.scan(from, limit, visit)
    }
}

/// Saves a generated workload; how many operations the file has.
pub fn record(recording: &Recording) -> Result<u64> {
    let data = Data {
        keys: KeySpace::new(KeyKind::Sized(recording.key_size), recording.entries),
        values: ValueSpec::random(recording.value_size),
        seed: recording.seed + 1,
        load_seed: recording.seed,
    };
    let mut mix = recording.workload.clone();
    mix.distribution = recording.distribution.unwrap_or(mix.distribution);
    let recorder = Recorder {
        inner: engine::map(),
        file: Mutex::new(csv::Writer::from_path(&recording.out)?),
    };
    let filled = runner::load(&recorder, &data, 1, 1)?;
    recorder.step(Op::Measure, &[], 0)?;
    let amount = Amount::new(recording.operations, 1, 1);
    let ran = runner::measure(&recorder, &data, &mix, amount)?;
    let mut file = recorder.file.lock().unwrap_or_else(PoisonError::into_inner);
    file.flush()?;
    Ok(filled.operations + ran.operations)
}

impl Measurement for Cell {
    type Found = Replayed;

    fn measure(&self) -> Result<Replayed> {
        let dir = tempfile::TempDir::with_prefix_in("replay-", &self.replaying.dir)?;
        let config = EngineConfig {
            device: self.replaying.device,
            ..EngineConfig::standard(dir.path().to_owned(), self.replaying.memory)
        };
        let engine = engine::open(&self.engine, &config)?;
        replay(engine.as_ref(), &self.replaying.trace)
    }
}

/// Appends all that a scan visits.
fn into(seen: &mut Vec<u8>) -> impl FnMut(&[u8], &[u8]) -> Result<()> {
    |key, value| {
        seen.extend_from_slice(key);
        seen.extend_from_slice(value);
        Ok(())
    }
}

/// Does what the file says, and checks every answer.
fn replay(engine: &dyn Engine, path: &Path) -> Result<Replayed> {
    let mut file = csv::Reader::from_path(path)?;
    // Every answer is to be that of a map in memory.
    let right = engine::map();
    let (mut outcome, mut found) = (Outcome::new(1)?, 0);
    let mut before = proc_io::ProcessIo::now();
    let (mut value, mut wanted) = (Vec::new(), Vec::new());
    for (line, step) in (2..).zip(file.deserialize()) {
        let Step { op, key, size } = step?;
        let (right_too, took) = match op {
            Op::Measure => {
                engine.flush()?;
                engine.wait_idle()?;
                (outcome, found) = (Outcome::new(1)?, 0);
                before = proc_io::ProcessIo::now();
                continue;
            }
            Op::Put => {
                ValueSpec::random(size).write(line, &mut value);
                right.put(&key, &value)?;
                (true, timed(engine, || engine.put(&key, &value))?.1)
            }
            Op::Delete => {
                right.delete(&key)?;
                (true, timed(engine, || engine.delete(&key))?.1)
            }
            Op::Get => {
                let (present, took) = timed(engine, || engine.get(&key, &mut value))?;
                found += u64::from(present);
                let same = right.get(&key, &mut wanted)? == present;
                (same && (!present || value == wanted), took)
            }
            Op::Scan => {
                value.clear();
                wanted.clear();
                let (seen, took) =
                    timed(engine, || engine.scan(&key, size, &mut into(&mut value)))?;
                let same = right.scan(&key, size, &mut into(&mut wanted))? == seen;
                (same && value == wanted, took)
            }
        };
        if !right_too {
            return Err(Error::WrongAnswer(format!("line {line}: {op:?}")));
        }
        outcome.record(took, 1);
    }
    let io = proc_io::ProcessIo::now().since(&before);
    let operations = outcome.operations.max(1) as f64;
    Ok(Replayed {
        times: outcome.summary(),
        found,
        pages: io.pages() / operations,
        written: io.write_bytes as f64 / operations,
    })
}

/// Replays the trace on each engine, in processes of their own.
pub fn run(replaying: &Replaying, note: &mut dyn FnMut(String)) -> Result<Report> {
    std::fs::create_dir_all(&replaying.dir)?;
    let (trace, memory) = (replaying.trace.display(), replaying.memory);
    let title = format!(
        "{trace} replayed under {memory} bytes of memory, on {}",
        replaying.device
    );
    let mut report = Report::titled(title);
    for engine in &replaying.engines {
        note(format!("replaying on {engine}"));
        let replayed = cell::measure(&Cell {
            engine: engine.clone(),
            replaying: replaying.clone(),
        })?;
        report.add(row! {
            "engine": engine,
            "operations": replayed.times.operations,
            "lookups that found": replayed.found,
            "op/s": replayed.times.per_second,
            "p50 us": replayed.times.p50_us,
            "p99 us": replayed.times.p99_us,
            "pages read/op": replayed.pages,
            "written bytes/op": replayed.written,
        });
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::settings;

    fn recording(workload: &str, out: &Path) -> Recording {
        let given = "--entries 500 --operations 400 --key-size 24 --value-size graph --seed 5";
        settings(&format!(
            "{given} --workload {workload} --out {}",
            out.display()
        ))
    }

    #[test]
    fn what_was_recorded_is_replayed_on_any_engine() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        for workload in ["ycsb-a", "ycsb-e", "mixgraph", "readmissing"] {
            assert_eq!(record(&recording(workload, &path)).unwrap(), 900);
            let config = EngineConfig::standard(dir.path().join(workload), 4 << 20);
            let shamba = engine::open("shamba", &config).unwrap();
            let [here, there] = [engine::map(), shamba].map(|e| replay(e.as_ref(), &path).unwrap());
            assert_eq!([here.times.operations, there.times.operations], [400; 2]);
            assert_eq!(here.found, there.found);
        }
    }

    #[test]
    fn wrong_answers_and_wrong_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let outcome = |text: &str, engine: &dyn Engine| {
            std::fs::write(&path, format!("op,key,size\n{text}")).unwrap();
            replay(engine, &path)
        };
        let engine = engine::map();
        assert!(outcome("put,0a,3\nget,0A,0\nget,0b,0\nscan,00,5\n", engine.as_ref()).is_ok());
        // The engine still has the key that this trace did not write.
        let wrong = outcome("get,0a,0\n", engine.as_ref());
        assert!(matches!(wrong, Err(Error::WrongAnswer(_))), "{wrong:?}");
        for text in ["fetch,0a,1\n", "get,0,0\n", "get,zz,0\n", "get,0a\n"] {
            assert!(outcome(text, engine::map().as_ref()).is_err(), "{text}");
        }
    }
}
