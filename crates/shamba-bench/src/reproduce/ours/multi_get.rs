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
use crate::runner::timed;
use crate::workload::Random;
use rand::RngExt as _;
use shamba::fs::{Access, AlignedBuf, BlockKind, Charge, Fs, MeteredFs, PAGE, Purpose, ReadFile};
use shamba::fs::{ReadRequest, ReadTag};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where batches are to be faster: on disks that read many pages at once.
const DEVICES: [(Device, &str); 2] = [
    (Device::PcieSsd, "PCIe SSD (a device model)"),
    (Device::Disk, "this machine's disk"),
];

/// Keys in a batch.
const BATCH: usize = 64;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let engines = lab.engines.clone();
    let budgets: &[f64] = lab.scale.tiny_or(&[400.0], &[10.0, 100.0]);
    let batches = lab.scale.pick(4, 50, 200, 200);
    let mut table = Report::titled("Lookups in batches on cold data, beside reads of random pages");
    // Every engine at every budget, on one device after the other.
    for device in [Device::Disk, Device::PcieSsd, Device::Hdd] {
        for &percent in budgets {
            for &engine in &engines {
                let trial = lab.lookups(engine, percent, 1.0, Distribution::Uniform)?;
                let trial = trial.on(device);
                let asked = (trial.clone(), batches);
                let Measured { lookups, reads } = lab.measured("batches", &asked, |lab| {
                    let target = Target::of(lab, trial)?;
                    cell::measure(&Cell { target, batches })
                })?;
                table.add(row! {
                    "engine": engine,
                    "device": device.to_string(),
                    "budget %": percent,
                    "keys": BATCH,
                    "single us/key": lookups.single,
                    "multi_get us/key": lookups.batched,
                    GAIN: lookups.gain(),
                    "single us/page": reads.single,
                    "times the pages": reads.gain(),
                });
            }
        }
    }
    let setting = format!(
        "{} entries of 64 B, all keys exist, uniform lookups, every key asked for once, {batches} batches \
         of {BATCH} keys alternating with as many lookups one by one (medians); random pages of the same \
         files beside them tell what the device itself gains; modelled devices charge without waiting, \
         what they charge is added to the times.",
        lab.scale.entries()
    );
    let panels = plot::of_report(&table, "device", "engine", "budget %", GAIN);
    // The worst case of all engines and budgets is judged.
    let claims = DEVICES.map(|(device, name)| {
        let least = table.rows_of("device", device.to_string()).least(GAIN);
        let what = format!("{GAIN} of lookups one by one, at least, {name}");
        let claim = Claim::goal_from(what, 1.0, least);
        match device.model() {
            Some(_) => claim.by_model(),
            None => claim,
        }
    });
    Ok(Findings::of(setting, [table], panels, claims))
}

const GAIN: &str = "times the throughput";

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

    /// The medians of batches: what else the machine does disturbs few of them.
    fn median(batches: &[[Duration; 2]]) -> Self {
        let [single, batched] = [0, 1].map(|way| {
            let times = batches.iter().map(|times| times[way].as_secs_f64() * 1e6);
            median(&times.collect::<Vec<_>>()).unwrap_or(0.0) / BATCH as f64
        });
        Self { single, batched }
    }
}

/// What the engine makes of a device, and what the device does by itself.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    lookups: Times,
    reads: Times,
}

impl Measurement for Cell {
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        let engine = self.target.open()?;
        let mut lookups = self.target.lookups(1)?;
        let mut times = Vec::new();
        let mut found = Vec::new();
        for _ in 0..self.batches {
            let mut single = Duration::ZERO;
            for _ in 0..BATCH {
                single += lookups.step(engine.as_ref())?;
            }
            let drawn: Vec<_> = (0..BATCH).map(|_| lookups.draw()).collect();
            let keys: Vec<&[u8]> = drawn.iter().map(|(_, key)| key.as_slice()).collect();
            let ((), batched) = timed(engine.as_ref(), || engine.multi_get(&keys, &mut found))?;
            times.push([single, batched]);
            for ((number, _), found) in drawn.iter().zip(&found) {
                lookups.check(*number, found.as_deref())?;
            }
            if found.len() != drawn.len() {
                return Err(Error::WrongAnswer(format!("{} answers", found.len())));
            }
        }
        Ok(Measured {
            lookups: Times::median(&times),
            reads: self.reads()?,
        })
    }
}

impl Cell {
    /// The device by itself: pages of the database's files, drawn at random.
    fn reads(&self) -> Result<Times> {
        let trial = &self.target.trial;
        let fs = &trial.device.fs(Charge::Virtual);
        let pages = Pages::of(fs, &self.target.dir)?;
        let mut random = random(trial.seed, 2);
        let mut buf = AlignedBuf::zeroed(BATCH * PAGE);
        let mut times = Vec::new();
        for _ in 0..self.batches {
            let mut took = [Duration::ZERO; 2];
            for (together, took) in [false, true].into_iter().zip(&mut took) {
                let reads = pages.draw(&mut random, &mut buf);
                let start = Instant::now();
                let charged = read(fs, reads, together)?;
                *took = start.elapsed() + charged;
            }
            times.push(took);
        }
        Ok(Times::median(&times))
    }
}

/// Reads pages, one by one or all at once; what a device charges for them.
fn read(fs: &MeteredFs, mut reads: Vec<ReadRequest<'_>>, together: bool) -> Result<Duration> {
    let before = fs.counts().device_ns;
    if together {
        fs.read_many(&mut reads);
    } else {
        reads.iter_mut().for_each(ReadRequest::read);
    }
    let results = reads.into_iter().map(|read| read.result);
    results.collect::<std::io::Result<()>>()?;
    Ok(Duration::from_nanos(fs.counts().device_ns - before))
}

/// The whole pages of a database's tables: in which file, and where.
struct Pages(Vec<(Arc<dyn ReadFile>, u64)>);

impl Pages {
    fn of(fs: &MeteredFs, dir: &Path) -> Result<Self> {
        let mut pages = Vec::new();
        for entry in fs.list(dir)? {
            if entry.name.ends_with(".sst") {
                let file = fs.open(&dir.join(entry.name), Access::Direct)?;
                let offsets = (0..entry.len / PAGE as u64).map(|page| page * PAGE as u64);
                pages.extend(offsets.map(|offset| (Arc::clone(&file), offset)));
            }
        }
        if pages.is_empty() {
            let what = format!("{} holds no tables", dir.display());
            return Err(Error::InvalidSetting(what));
        }
        Ok(Self(pages))
    }

    /// A read of a random page for every page of `buf`.
    fn draw<'a>(&'a self, random: &mut Random, buf: &'a mut [u8]) -> Vec<ReadRequest<'a>> {
        let request = |buf: &'a mut [u8]| {
            let (file, offset) = &self.0[random.random_range(0..self.0.len() as u64) as usize];
            ReadRequest {
                file: file.as_ref(),
                offset: *offset,
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
    use crate::reproduce::trial::Trial;
    use crate::store::{Base, Load};

    #[test]
    fn a_device_that_reads_many_at_once_answers_batches_faster() {
        let dir = tempfile::tempdir().unwrap();
        // Many times the least budget.
        let base = Base::standard("shamba", 100_000, 1);
        Load::into(dir.path(), &base).measure().unwrap();
        // Charges alone: what the processor takes depends on the machine.
        let charges = |device: Device| {
            let fs = device.fs(Charge::Virtual);
            let pages = Pages::of(&fs, dir.path()).unwrap();
            let mut buf = AlignedBuf::zeroed(16 * PAGE);
            let mut random = random(1, 2);
            let [single, batched] = [false, true].map(|together| {
                let charged = read(&fs, pages.draw(&mut random, &mut buf), together);
                charged.unwrap().as_secs_f64()
            });
            single / batched
        };
        assert!(charges(Device::PcieSsd) > 10.0);
        assert_eq!(charges(Device::Hdd), 1.0);
        // A read takes 8 ms: the processor does not matter.
        let trial = Trial::lookups(base, shamba::MIN_MEMORY, 1.0, Distribution::Uniform);
        let dir = dir.path().to_owned();
        let trial = trial.on(Device::Hdd);
        let target = Target { trial, dir };
        let disk = Cell {
            target,
            batches: 20,
        }
        .measure()
        .unwrap();
        assert!(disk.lookups.single > 4000.0, "{disk:?}");
        assert!((0.9..2.0).contains(&disk.lookups.gain()), "{disk:?}");
    }
}
