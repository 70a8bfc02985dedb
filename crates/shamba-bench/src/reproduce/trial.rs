//! One measurement of one engine: a loaded database under a budget, on a device, and operations on
//! it. It runs in a process of its own; the same [`Trial`] asked for by two figures is measured
//! once.
use crate::cell::Measurement;
use crate::device::Device;
use crate::engine::{self, EngineConfig, FileFacts, Resident};
use crate::report::median;
use crate::runner::{self, Amount, Summary};
use crate::store::Base;
use crate::workload::{Distribution, Mix};
use crate::{Error, Result, container, proc_io};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Trial {
    /// The database.
    pub base: Base,
    /// The engine that opens it; its layout must be that of the base's.
    pub engine: String,
    /// Bytes of the budget.
    pub memory: u64,
    /// Where it lies.
    pub device: Device,
    /// The operations. One that writes gets a copy of the database.
    pub mix: Mix,
    /// Operations before measuring.
    pub warm_up: u64,
    /// Operations measured.
    pub measured: u64,
    /// Threads.
    pub threads: usize,
    /// Decides the operations.
    pub seed: u64,
    /// Whether [`Found::files`] is wanted.
    #[serde(default)]
    pub files: bool,
    /// Bytes of the memory control group in which it is measured, and in which what the system
    /// caches of its files counts: for engines that leave caching to the system.
    #[serde(default)]
    pub contained: Option<u64>,
    /// The experiment whose trial it is, where times are told: what stands beside each other by the
    /// clock is measured in turns, and shared with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_for: Option<String>,
}

/// What came out. Counts are totals over the measured operations.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// Times of the operations; what a modelled device charges is in them.
    pub times: Summary,
    /// Single writes among the operations.
    pub writes: u64,
    /// Microseconds of a write, and of any other operation.
    pub write_us: f64,
    /// The same of all that is no write.
    pub read_us: f64,
    /// Microseconds of an operation that the modelled device charged; the rest is the processor's.
    #[serde(default)]
    pub charged_us: f64,
    /// What the engine counted, by name; [`KERNEL_PAGES`] and [`KERNEL_READS`] besides.
    pub counts: BTreeMap<String, u64>,
    /// Sorted runs a lookup may visit.
    pub runs: Option<u64>,
    /// Bytes the engine says it uses.
    pub memory: Option<u64>,
    /// Peak resident bytes of the process.
    pub peak_memory: u64,
    /// The same without the program itself.
    #[serde(default)]
    pub peak_own_memory: u64,
    /// What of the blocks was in memory at the end, from engines that tell.
    #[serde(default)]
    pub resident: Option<Resident>,
    /// The tree's files at the end, if they were asked for. Their lookups are those of the warm-up
    /// as well.
    #[serde(default)]
    pub files: Vec<FileFacts>,
    /// Whether another experiment measured it, so that its times stand beside no others.
    #[serde(skip)]
    pub timed_elsewhere: bool,
}

/// Pages that the kernel read from storage for the process: none from a RAM disk.
pub const KERNEL_PAGES: &str = "kernel_pages";

/// What an engine counts that counts pages.
const OWN_PAGES: &str = "data_pages";

/// Read calls of the process.
pub const KERNEL_READS: &str = "kernel_reads";

impl Found {
    /// A count per operation that is no write.
    pub fn per_lookup(&self, name: &str) -> f64 {
        let lookups = self.times.operations.saturating_sub(self.writes).max(1);
        self.count(name) as f64 / lookups as f64
    }

    /// A count.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// What was read per lookup: by the engine's count of each kind, or by the kernel's for engines
    /// that count none.
    fn read(&self, what: &str, by_the_kernel: &str) -> f64 {
        let kinds = ["data", "index", "filter"].map(|kind| format!("{kind}_{what}"));
        if self.counts.contains_key(OWN_PAGES) {
            kinds.iter().map(|name| self.per_lookup(name)).sum()
        } else {
            self.per_lookup(by_the_kernel)
        }
    }

    /// Pages read per lookup. No number where nothing was measured.
    pub fn pages(&self) -> f64 {
        match self.times.operations {
            0 => f64::NAN,
            _ => self.read("pages", KERNEL_PAGES),
        }
    }

    /// Read operations per lookup.
    pub fn reads(&self) -> f64 {
        self.read("reads", KERNEL_READS)
    }

    /// Microseconds that a modelled device takes for the reads of a lookup, nothing else: from
    /// counts, so that it is the same on every machine. 0 on a device that is not modelled.
    pub fn device_us(&self, device: Device) -> f64 {
        let ns = device.model().map_or(0.0, |model| {
            self.reads() * model.read as f64 + self.pages() * model.read_page as f64
        });
        ns / 1000.0
    }
}

/// The median of a number that trials found.
pub(crate) fn median_of(found: &[Found], value: impl Fn(&Found) -> f64) -> Option<f64> {
    median(&found.iter().map(value).collect::<Vec<_>>())
}

impl Trial {
    /// Lookups, a share of them for existing keys.
    pub fn lookups(base: Base, memory: u64, positive: f64, distribution: Distribution) -> Self {
        Self {
            engine: base.engine.clone(),
            memory,
            device: Device::Ram,
            mix: Mix::lookups(positive, distribution),
            warm_up: 0,
            measured: 0,
            threads: 1,
            seed: base.seed + 1,
            files: false,
            contained: None,
            timed_for: None,
            base,
        }
    }

    /// So many operations, after so many to warm up.
    #[must_use]
    pub fn lasting(self, (warm_up, measured): (u64, u64)) -> Self {
        Self {
            warm_up,
            measured,
            ..self
        }
    }

    /// The same on another device.
    #[must_use]
    pub fn on(self, device: Device) -> Self {
        Self { device, ..self }
    }
}

/// A trial and the folder with its database: what the process is asked for.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    pub(super) trial: Trial,
    pub(super) dir: PathBuf,
    /// The memory control group that it enters.
    pub(super) group: Option<PathBuf>,
}

impl Measurement for Cell {
    type Found = Found;

    fn measure(&self) -> Result<Found> {
        if let Some(group) = &self.group {
            container::enter(group)?;
        }
        let trial = &self.trial;
        let writes = trial.mix.writes();
        let config = EngineConfig {
            read_only: !writes,
            counters: true,
            device: trial.device,
            // What is charged for work in the background could be charged to any operation.
            background: if trial.device.model().is_some() { 0 } else { 2 },
            ..trial.base.config(self.dir.clone(), trial.memory)
        };
        // What an engine learned in another trial must neither help nor hinder.
        engine::forget(&self.dir)?;
        let engine = engine::open(&trial.engine, &config)?;
        let engine = engine.as_ref();
        let mut data = trial.base.data();
        data.seed = trial.seed;
        let run = |operations, phase| {
            let amount = Amount::new(operations, trial.threads, phase);
            runner::measure(engine, &data, &trial.mix, amount)
        };
        if trial.warm_up > 0 {
            run(trial.warm_up, 1)?;
        }
        let counted = engine.counts();
        let charged = engine.device_ns();
        let (outcome, io) = proc_io::ProcessIo::during(|| run(trial.measured, 2))?;
        let mut counts = engine.counts();
        for (name, count) in &mut counts {
            *count = count.saturating_sub(counted.get(name).copied().unwrap_or(0));
        }
        let by_the_kernel = trial.device == Device::Disk && !counts.contains_key(OWN_PAGES);
        if by_the_kernel && proc_io::is_in_memory(&self.dir)? {
            let what = format!(
                "{} lies in memory, where nobody counts the reads of {}: name a folder on a disk, or on a \
                 loop device over a file in memory",
                self.dir.display(),
                trial.engine
            );
            return Err(Error::InvalidSetting(what));
        }
        counts.insert(KERNEL_PAGES.to_owned(), io.read_bytes / proc_io::PAGE);
        counts.insert(KERNEL_READS.to_owned(), io.reads);
        let (writing, reading) = outcome.split();
        let others = outcome.operations.saturating_sub(outcome.writes());
        let each = |time: Duration, count: u64| match count {
            0 => 0.0,
            _ => time.as_secs_f64() * 1e6 / count as f64,
        };
        let charged = engine.device_ns().saturating_sub(charged);
        Ok(Found {
            charged_us: each(Duration::from_nanos(charged), outcome.operations),
            times: outcome.summary(),
            writes: outcome.writes(),
            write_us: each(writing, outcome.writes()),
            read_us: each(reading, others),
            counts,
            runs: engine.runs(),
            memory: engine.memory(),
            peak_memory: proc_io::peak_memory(),
            peak_own_memory: proc_io::peak_own_memory(),
            resident: engine.resident(),
            files: if trial.files {
                engine.files()
            } else {
                Vec::new()
            },
            timed_elsewhere: false,
        })
    }
}
