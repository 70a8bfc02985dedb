//! Batched lookups on cold data: `multi_get` against as many single lookups, batches alternating
//! in one process, every key asked for once; on several devices.
//!
//! What a batch can gain is bounded by what the device gains from several requests at once. So the
//! same number of pages is read at random from the database's tables, one by one and as many
//! together as a batch has keys: the last two columns. A lookup that needs more than one read in
//! turn, and the processor's part, make the engine's gain smaller; pages shared by keys of a batch
//! make it larger.
use crate::cell::{self, Measurement};
use crate::experiments::Target;
use crate::reproduce::prelude::*;
use crate::workload::Random;
use rand::RngExt as _;
use shamba::fs::{Access, AlignedBuf, BlockKind, Charge, Fs, MeteredFs, PAGE, Purpose, ReadFile};
use shamba::fs::{ReadRequest, ReadTag};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the database lies: its own disk, one that reads many pages at once, and one that cannot.
const DEVICES: [Device; 3] = [Device::Disk, Device::PcieSsd, Device::Hdd];

/// Keys in a batch.
const BATCH: usize = 64;

/// A batch is no slower than its lookups one by one if it has this part of their throughput.
const NO_SLOWER: f64 = 0.9;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let engines = lab.engines.clone();
    let budgets: &[f64] = lab.scale.tiny_or(&[400.0], &[10.0, 100.0]);
    let batches = lab.scale.pick(4, 50, 200, 200);
    let mut table = Report::titled("Lookups in batches on cold data, beside reads of random pages");
    // Times the throughput of one by one, on the SSD and on the hard disk.
    let (mut many_at_once, mut one_at_once, mut real) = (Vec::new(), Vec::new(), Vec::new());
    // Every engine at every budget, on one device after the other.
    for device in DEVICES {
        for &percent in budgets {
            for &engine in &engines {
                let trial = lab.lookups(engine, percent, 1.0, Distribution::Uniform)?;
                let Measured { lookups, reads } = cell::measure(&Cell {
                    target: Target::of(lab, trial.on(device))?,
                    batches,
                })?;
                match device {
                    Device::PcieSsd => many_at_once.push(lookups.gain()),
                    Device::Hdd => one_at_once.push(lookups.gain()),
                    Device::Disk => real.push(lookups.gain()),
                    _ => {}
                }
                table.add(row! {
                    "engine": engine,
                    "device": device.to_string(),
                    "budget %": percent,
                    "keys": BATCH,
                    "single us/key": lookups.single,
                    "multi_get us/key": lookups.batched,
                    "times the throughput": lookups.gain(),
                    "single us/page": reads.single,
                    "times the pages": reads.gain(),
                });
            }
        }
    }
    // The worst case of all engines and budgets is judged.
    let least = |gains: &[f64]| gains.iter().copied().fold(f64::INFINITY, f64::min);
    let setting = format!(
        "{} entries of 64 B, all keys exist, uniform lookups, every key asked for once, {batches} batches \
         of {BATCH} keys alternating with as many lookups one by one (medians); random pages of the same \
         files beside them tell what the device itself gains; modelled devices charge without waiting, \
         what they charge is added to the times.",
        lab.scale.entries()
    );
    let y = "times the throughput";
    let panels = plot::of_report(&table, "device", "engine", "budget %", y);
    let mut claims = Vec::new();
    let what = "times the throughput of lookups one by one, at least, PCIe SSD (a device model)";
    claims.push(Claim::goal_from(what, 1.0, least(&many_at_once)).by_model());
    let what = "times the throughput of lookups one by one, at least, a disk that reads one page at a time (a device model)";
    claims.push(Claim::goal_from(what, NO_SLOWER, least(&one_at_once)).by_model());
    let what = "times the throughput of lookups one by one, at least, this machine's disk";
    claims.push(Claim::goal_from(what, 1.0, least(&real)));
    Ok(Findings::of(setting, [table], panels, claims))
}

/// One engine, one budget, one device; what a modelled one charges is added to the times.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    /// Batches of each kind.
    batches: usize,
}

/// Microseconds for each key or page, asked for alone and in batches.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Times {
    single: f64,
    batched: f64,
}

impl Times {
    /// How many times the throughput batches have.
    fn gain(self) -> f64 {
        self.single / self.batched.max(1e-9)
    }

    /// The medians of batches of so many items: what else the machine does disturbs few of them.
    fn median(batches: &[Self], items: usize) -> Self {
        let of = |time: fn(&Self) -> f64| {
            let times: Vec<f64> = batches.iter().map(time).collect();
            median(&times).unwrap_or(0.0) / items.max(1) as f64
        };
        Self {
            single: of(|times| times.single),
            batched: of(|times| times.batched),
        }
    }
}

/// What the engine makes of a device, and what the device does by itself.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    lookups: Times,
    reads: Times,
}

/// Microseconds that `work` takes, with what a device charges for it; `charged` says how many
/// nanoseconds it has charged so far.
fn timed(charged: impl Fn() -> u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = charged();
    let start = Instant::now();
    work()?;
    let took = start.elapsed().as_secs_f64() * 1e6;
    Ok(took + (charged() - before) as f64 / 1e3)
}

impl Measurement for Cell {
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        let engine = self.target.open()?;
        let charged = || engine.device_ns();
        let mut lookups = self.target.lookups(1)?;
        let mut times = Vec::new();
        let mut found = Vec::new();
        for _ in 0..self.batches {
            let before = charged();
            let mut took = Duration::ZERO;
            for _ in 0..BATCH {
                took += lookups.step(engine.as_ref())?;
            }
            let single = took.as_secs_f64() * 1e6 + (charged() - before) as f64 / 1e3;
            let drawn: Vec<_> = (0..BATCH).map(|_| lookups.draw()).collect();
            let keys: Vec<&[u8]> = drawn.iter().map(|(_, key)| key.as_slice()).collect();
            let batched = timed(charged, || engine.multi_get(&keys, &mut found))?;
            times.push(Times { single, batched });
            for ((number, _), found) in drawn.iter().zip(&found) {
                lookups.check(*number, found.as_deref())?;
            }
            if found.len() != drawn.len() {
                return Err(Error::WrongAnswer(format!("{} answers", found.len())));
            }
        }
        Ok(Measured {
            lookups: Times::median(&times, BATCH),
            reads: self.reads()?,
        })
    }
}

impl Cell {
    /// The device by itself: pages of the database's files, drawn at random.
    fn reads(&self) -> Result<Times> {
        let fs = &self.target.trial.device.fs(Charge::Virtual);
        let charged = || fs.counts().device_ns;
        let mut random = random(self.target.trial.seed, 2);
        let files = Files::open(fs, &self.target.dir)?;
        let mut buf = AlignedBuf::zeroed(BATCH * PAGE);
        let mut times = Vec::new();
        for _ in 0..self.batches {
            let mut reads = files.draw(&mut random, &mut buf);
            let single = timed(charged, || {
                reads.iter_mut().for_each(ReadRequest::read);
                done(reads)
            })?;
            let mut reads = files.draw(&mut random, &mut buf);
            let batched = timed(charged, || {
                fs.read_many(&mut reads);
                done(reads)
            })?;
            times.push(Times { single, batched });
        }
        Ok(Times::median(&times, BATCH))
    }
}

fn done(reads: Vec<ReadRequest<'_>>) -> Result<()> {
    let results = reads.into_iter().map(|read| read.result);
    Ok(results.collect::<std::io::Result<()>>()?)
}

/// The tables of a database, and the whole pages of each with those before it.
struct Files(Vec<(Arc<dyn ReadFile>, u64)>);

impl Files {
    fn open(fs: &MeteredFs, dir: &Path) -> Result<Self> {
        let mut pages = 0;
        let mut files = Vec::new();
        for entry in fs.list(dir)? {
            if entry.name.ends_with(".sst") {
                pages += entry.len / PAGE as u64;
                files.push((fs.open(&dir.join(entry.name), Access::Direct)?, pages));
            }
        }
        if files.is_empty() {
            Err(Error::InvalidSetting(format!(
                "{} holds no tables",
                dir.display()
            )))
        } else {
            Ok(Self(files))
        }
    }

    /// A read of a random page for every page of `buf`.
    fn draw<'a>(&'a self, random: &mut Random, buf: &'a mut [u8]) -> Vec<ReadRequest<'a>> {
        let all = self.0.last().map_or(0, |(_, pages)| *pages);
        let request = |buf: &'a mut [u8]| {
            let page = random.random_range(0..all);
            let at = self.0.partition_point(|(_, pages)| *pages <= page);
            let (file, end) = &self.0[at];
            let offset = file.len() / PAGE as u64 - (end - page);
            ReadRequest {
                file: file.as_ref(),
                offset: offset * PAGE as u64,
                buf,
                tag: ReadTag {
                    kind: BlockKind::Data,
                    last: None,
                    purpose: Purpose::Background,
                },
                result: Ok(()),
            }
        };
        buf.chunks_exact_mut(PAGE).map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use crate::reproduce::trial::Trial;
    use crate::store::Base;
    use crate::workload::MAX_KEY;

    /// Many times the least budget.
    const ENTRIES: u64 = 100_000;

    #[test]
    fn a_device_that_reads_many_at_once_answers_batches_faster() {
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig::standard(dir.path().into(), 64 << 20);
        let base = Base::standard("shamba", ENTRIES, 1);
        let data = base.data();
        let engine = crate::engine::open("shamba", &config).unwrap();
        let (mut key, mut value) = ([0; MAX_KEY], Vec::new());
        for number in 0..ENTRIES {
            data.values.write(number, 0, &mut value);
            engine.put(data.keys.key(number, &mut key), &value).unwrap();
        }
        engine.flush().unwrap();
        engine.wait_idle().unwrap();
        drop(engine);
        let cell = |device| Cell {
            target: Target {
                trial: Trial {
                    device,
                    ..Trial::lookups(base.clone(), shamba::MIN_MEMORY, 1.0, Distribution::Uniform)
                },
                dir: dir.path().into(),
            },
            batches: 20,
        };
        // Charges alone: what the processor takes depends on the machine.
        let charged = |fs: &MeteredFs| fs.counts().device_ns;
        let charges = |device: Device| {
            let fs = device.fs(Charge::Virtual);
            let files = Files::open(&fs, dir.path()).unwrap();
            let mut buf = AlignedBuf::zeroed(16 * PAGE);
            let mut random = random(1, 2);
            let mut reads = files.draw(&mut random, &mut buf);
            reads.iter_mut().for_each(ReadRequest::read);
            done(reads).unwrap();
            let single = charged(&fs) as f64;
            let mut reads = files.draw(&mut random, &mut buf);
            fs.read_many(&mut reads);
            done(reads).unwrap();
            single / (charged(&fs) as f64 - single)
        };
        assert!(charges(Device::PcieSsd) > 10.0);
        assert_eq!(charges(Device::Hdd), 1.0);
        // A read takes 8 ms: the processor does not matter.
        let disk = cell(Device::Hdd).measure().unwrap();
        assert!(disk.lookups.single > 4000.0, "{disk:?}");
        assert!((0.9..2.0).contains(&disk.lookups.gain()), "{disk:?}");
    }
}
