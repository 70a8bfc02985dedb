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
use crate::runner::{self, Amount, Data, Order};
use crate::workload::{Distribution, KeyKind, KeySpace, Sizes, ValueSpec, Workload};
use crate::{Error, Result, proc_io, row};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// In hexadecimal.
    key: String,
    /// Bytes of the value, or entries to scan.
    size: usize,
}

/// What to record.
#[derive(Clone, Debug, clap::Args)]
pub struct Recording {
    /// fillseq, fillrandom, overwrite, readrandom, readmissing, seekrandom, scan, ycsb-a to ycsb-f,
    /// mixgraph.
    #[arg(long, default_value = "ycsb-b")]
    pub workload: Workload,
    /// Distribution of keys; by default the workload's own.
    #[arg(long)]
    pub distribution: Option<Distribution>,
    /// Entries written first, in random order.
    #[arg(long, default_value_t = 100_000)]
    pub entries: u64,
    /// Operations after that.
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// Bytes of a key, or LEAST-MOST.
    #[arg(long, default_value = "32")]
    pub key_size: Sizes,
    /// Bytes of a value, LEAST-MOST, or paretoK:SIGMA:LEAST-MOST.
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
#[derive(Clone, Debug, clap::Args)]
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
    trace: PathBuf,
    memory: u64,
    device: Device,
    dir: PathBuf,
}

/// What a replay took, from the mark on.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Replayed {
    operations: u64,
    found: u64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Pages read from storage; none are from a RAM disk.
    pages: f64,
    written: u64,
}

/// Saves what it is asked, and has it done by a map in memory.
struct Recorder {
    inner: Box<dyn Engine>,
    file: Mutex<csv::Writer<std::fs::File>>,
}

impl Recorder {
    fn step(&self, op: Op, key: &[u8], size: usize) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(file.serialize(Step { op, key, size })?)
    }
}

impl Engine for Recorder {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.step(Op::Put, key, value.len())?;
        self.inner.put(key, value)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.step(Op::Get, key, 0)?;
        self.inner.get(key, into)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.step(Op::Delete, key, 0)?;
        self.inner.delete(key)
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        for write in writes {
            match *write {
                Write::Put(key, value) => self.put(key, value)?,
                Write::Delete(key) => self.delete(key)?,
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        self.step(Op::Scan, from, limit)?;
        self.inner.scan(from, limit, visit)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn wait_idle(&self) -> Result<()> {
        self.inner.wait_idle()
    }
}

/// Saves a generated workload; how many operations the file has.
pub fn record(recording: &Recording) -> Result<u64> {
    let key_size = |bytes: usize| match u16::try_from(bytes) {
        Ok(bytes @ 8..=1024) => Ok(bytes),
        _ => Err(Error::InvalidSetting(format!(
            "keys of {bytes} bytes (8 to 1024)"
        ))),
    };
    let keys = match recording.key_size {
        Sizes::Fixed(bytes) => KeyKind::Sized(key_size(bytes)?),
        Sizes::Uniform(least, most) => KeyKind::Varied(key_size(least)?, key_size(most)?),
        Sizes::Pareto { .. } => {
            let what = "keys have one size, or LEAST-MOST bytes".to_owned();
            return Err(Error::InvalidSetting(what));
        }
    };
    let data = Data {
        keys: KeySpace::new(keys, recording.entries),
        values: ValueSpec::random(recording.value_size),
        seed: recording.seed + 1,
        load_seed: recording.seed,
    };
    let recorder = Recorder {
        inner: engine::open("memory", &EngineConfig::in_memory(PathBuf::new()))?,
        file: Mutex::new(csv::Writer::from_path(&recording.out)?),
    };
    let progress = AtomicU64::new(0);
    let mut operations = 0;
    if !recording.workload.fills() {
        let filled = runner::fill(&recorder, &data, Order::Random, 1, 1, &progress)?;
        recorder.step(Op::Measure, &[], 0)?;
        operations += filled.operations;
    }
    let amount = Amount {
        operations: recording.operations,
        threads: 1,
        phase: 1,
    };
    let (named, keys) = (recording.workload, recording.distribution);
    let ran = runner::run_named(&recorder, &data, named, keys, amount, 0, &progress)?;
    let mut file = recorder.file.lock().unwrap_or_else(PoisonError::into_inner);
    file.flush()?;
    Ok(operations + ran.operations)
}

impl Measurement for Cell {
    const NAME: &str = "replay";
    type Found = Replayed;

    fn measure(&self) -> Result<Replayed> {
        let dir = tempfile::Builder::new()
            .prefix("replay-")
            .tempdir_in(&self.dir)?;
        let config = EngineConfig {
            device: self.device,
            ..EngineConfig::standard(dir.path().to_owned(), self.memory)
        };
        replay(engine::open(&self.engine, &config)?.as_ref(), &self.trace)
    }
}

/// The key of a line; its number is for the message.
fn key_of(step: &Step, line: u64) -> Result<Vec<u8>> {
    let wrong = || Error::InvalidSetting(format!("line {line}: `{}` is no key", step.key));
    if !step.key.is_ascii() || !step.key.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pairs = step.key.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).ok_or_else(wrong)).collect()
}

/// What the engine answers, and how long it took.
fn timed<T>(ask: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = Instant::now();
    let answer = ask()?;
    Ok((answer, start.elapsed()))
}

/// Does what the file says, and checks every answer.
fn replay(engine: &dyn Engine, path: &Path) -> Result<Replayed> {
    let mut file = csv::Reader::from_path(path)?;
    // Where each key's value comes from: the line that put it, and the bytes.
    let mut expected: BTreeMap<Vec<u8>, (u64, usize)> = BTreeMap::new();
    let histogram = || {
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|e| Error::InvalidSetting(format!("histogram: {e}")))
    };
    let (mut latency, mut busy, mut found) = (histogram()?, 0u64, 0);
    let mut before = proc_io::ProcessIo::now();
    let (mut value, mut wanted) = (Vec::new(), Vec::new());
    for (line, step) in file.deserialize::<Step>().enumerate() {
        let (line, step) = (line as u64 + 2, step?);
        let key = key_of(&step, line)?;
        let wrong = |what: &str| Error::WrongAnswer(format!("line {line}: {what}"));
        let values = ValueSpec::random(step.size);
        let charged = engine.device_ns();
        let took = match step.op {
            Op::Measure => {
                engine.flush()?;
                engine.wait_idle()?;
                (latency, busy, found) = (histogram()?, 0, 0);
                before = proc_io::ProcessIo::now();
                continue;
            }
            Op::Put => {
                values.write(line, 0, &mut value);
                let ((), took) = timed(|| engine.put(&key, &value))?;
                expected.insert(key, (line, step.size));
                took
            }
            Op::Delete => {
                let ((), took) = timed(|| engine.delete(&key))?;
                expected.remove(&key);
                took
            }
            Op::Get => {
                let (present, took) = timed(|| engine.get(&key, &mut value))?;
                match (present, expected.get(&key)) {
                    (true, Some(&(written, size))) => {
                        ValueSpec::random(size).check(written, 0, &value, &mut wanted)?;
                        found += 1;
                    }
                    (false, None) => {}
                    (true, None) => return Err(wrong("a key that is not there was found")),
                    (false, Some(_)) => return Err(wrong("a key was not found")),
                }
                took
            }
            Op::Scan => {
                let mut seen: Vec<(Vec<u8>, usize)> = Vec::new();
                let mut see = |key: &[u8], value: &[u8]| {
                    seen.push((key.to_vec(), value.len()));
                    Ok(())
                };
                let (_, took) = timed(|| engine.scan(&key, step.size, &mut see))?;
                let range = expected.range(key..).take(step.size);
                let range = range.map(|(key, (_, size))| (key, size));
                if !range.eq(seen.iter().map(|(key, size)| (key, size))) {
                    return Err(wrong("a scan found other entries"));
                }
                took
            }
        };
        let nanos = took.as_nanos() as u64 + engine.device_ns().saturating_sub(charged);
        busy += nanos;
        latency.saturating_record(nanos.max(1));
    }
    let io = proc_io::ProcessIo::now().since(&before);
    let operations = latency.len();
    let us = |quantile| latency.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(Replayed {
        operations,
        found,
        per_second: operations as f64 * 1e9 / busy.max(1) as f64,
        p50_us: us(0.5),
        p99_us: us(0.99),
        pages: io.pages() / operations.max(1) as f64,
        written: io.write_bytes,
    })
}

/// Replays the trace on each engine, in processes of their own.
pub fn run(replaying: &Replaying, note: &mut dyn FnMut(String)) -> Result<Report> {
    std::fs::create_dir_all(&replaying.dir)?;
    let mut report = Report::titled(format!(
        "{} replayed under {} bytes of memory, on {}",
        replaying.trace.display(),
        replaying.memory,
        replaying.device
    ));
    for engine in &replaying.engines {
        note(format!("replaying on {engine}"));
        let replayed: Replayed = cell::measure(&Cell {
            engine: engine.clone(),
            trace: replaying.trace.clone(),
            memory: replaying.memory,
            device: replaying.device,
            dir: replaying.dir.clone(),
        })?;
        let operations = replayed.operations as f64;
        report.add(row! {
            "engine": engine.clone(),
            "operations": operations,
            "lookups that found": replayed.found,
            "op/s": replayed.per_second,
            "p50 us": replayed.p50_us,
            "p99 us": replayed.p99_us,
            "pages read/op": replayed.pages,
            "written bytes/op": replayed.written as f64 / operations.max(1.0),
        });
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(workload: &str, out: &Path) -> Recording {
        Recording {
            workload: workload.parse().unwrap(),
            distribution: None,
            entries: 500,
            operations: 400,
            key_size: Sizes::Uniform(8, 24),
            value_size: Sizes::GRAPH_VALUES,
            seed: 5,
            out: out.to_owned(),
        }
    }

    fn memory() -> Box<dyn Engine> {
        engine::open("memory", &EngineConfig::in_memory("".into())).unwrap()
    }

    #[test]
    fn what_was_recorded_is_replayed_on_any_engine() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        for workload in ["ycsb-a", "ycsb-e", "mixgraph", "readmissing"] {
            assert_eq!(record(&recording(workload, &path)).unwrap(), 900);
            let config = EngineConfig::standard(dir.path().join(workload), 4 << 20);
            let shamba = engine::open("shamba", &config).unwrap();
            let [here, there] = [memory(), shamba].map(|e| replay(e.as_ref(), &path).unwrap());
            assert_eq!(here.operations, 400);
            assert_eq!(
                (here.operations, here.found),
                (there.operations, there.found)
            );
        }
        assert!(record(&recording("fillrandom", &path)).unwrap() == 500);
        assert_eq!(replay(memory().as_ref(), &path).unwrap().operations, 500);
    }

    #[test]
    fn wrong_answers_and_wrong_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let outcome = |text: &str, engine: &dyn Engine| {
            std::fs::write(&path, format!("op,key,size\n{text}")).unwrap();
            replay(engine, &path)
        };
        let engine = memory();
        assert!(outcome("put,0a,3\nget,0A,0\nget,0b,0\nscan,00,5\n", engine.as_ref()).is_ok());
        // The engine still has the key that this trace did not write.
        let wrong = outcome("get,0a,0\n", engine.as_ref());
        assert!(matches!(wrong, Err(Error::WrongAnswer(_))), "{wrong:?}");
        for text in ["fetch,0a,1\n", "get,0,0\n", "get,zz,0\n", "get,0a\n"] {
            assert!(outcome(text, memory().as_ref()).is_err(), "{text}");
        }
    }
}
