//! One tree of [`super`], its two copies, and the lookups that are compared. A cell belongs to one
//! thread, and removes what it wrote to a real disk.
use crate::report::median;
use crate::workload::{Chooser, Distribution, Random, mix, random};
use crate::{Error, Result};
use rand::RngExt as _;
use shamba::fs::{Charge, DeviceModel, Fs, MemFs, MeteredFs, OsFs};
use shamba::{
    Counters, Db, Durability, FilterFamily, FilterOptions, KeyspaceOptions, MemoryBudget, Options,
};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// The smallest write buffer the engine takes.
const LEAST_BUFFER: u64 = 4 << 10;

/// Bytes of a table file in the paper: the most here.
const FILE: u64 = 2 << 20;

/// Write buffers that make a file, where that is less: levels of several files stay filled, those of
/// one are emptied at once.
const BUFFERS: u64 = 4;

/// The smallest levels are emptied at once when they are full; the most write buffers added to find
/// them filled together.
const PATIENCE: u32 = 64;

/// Memory for loading.
const LOAD_MEMORY: u64 = 1 << 30;

/// The part of the data that fits into memory where it is not all: enough for filters and indexes.
const MEMORY_SHARE: u64 = 16;

/// Memory for each open table besides: one that was closed for want of it is read anew.
const TABLE_MEMORY: u64 = 8 << 10;

/// Nanoseconds that the paper's PCIe SSD takes for a page (Table 1).
const FAST_READ: u64 = 10_000;

/// Lookups before measuring, where data is not to be resident.
const WARM_UP: usize = 3000;

/// Where the data lies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// Everything in the engine's cache: no device at all.
    Resident,
    /// A file system in memory, filters and indexes cached: a RAM disk.
    Memory,
    /// The same with the latencies of non-volatile memory: 4.6 us a page.
    Nvm,
    /// With those of a PCIe SSD: 61 us a page.
    PcieSsd,
    /// With those of the paper's PCIe SSD: 10 us a page.
    FastPcieSsd,
    /// With those of a SATA SSD: 98 us a page.
    SataSsd,
    /// The disk of --dir.
    Disk,
}

impl Device {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Device::Resident => "resident",
            Device::Memory => "memory",
            Device::Nvm => "nvm",
            Device::PcieSsd => "pcie-ssd",
            Device::FastPcieSsd => "fast-pcie-ssd",
            Device::SataSsd => "sata-ssd",
            Device::Disk => "disk",
        }
    }

    fn model(self) -> Option<DeviceModel> {
        match self {
            Device::Nvm => Some(DeviceModel::NVM),
            Device::PcieSsd => Some(DeviceModel::PCIE_SSD),
            Device::FastPcieSsd => Some(DeviceModel {
                read: FAST_READ - DeviceModel::PCIE_SSD.read_page,
                ..DeviceModel::PCIE_SSD
            }),
            Device::SataSsd => Some(DeviceModel::SATA_SSD),
            Device::Resident | Device::Memory | Device::Disk => None,
        }
    }

    /// What it charges for a page; nothing where that isn't known.
    pub(crate) fn read_ns(self) -> f64 {
        self.model()
            .map_or(0.0, |model| (model.read + model.read_page) as f64)
    }
}

/// The names of families in requests.
pub(super) fn family_name(family: FilterFamily) -> &'static str {
    match family {
        FilterFamily::Bloom => "bloom",
        FilterFamily::BlockedBloom => "blocked",
        FilterFamily::Ribbon => "ribbon",
        _ => "auto",
    }
}

/// One tree and the points to be measured with it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    pub(crate) key: usize,
    pub(crate) levels: u32,
    /// Bytes of a value.
    pub(crate) value: usize,
    /// Bytes of data, about.
    pub(crate) data: u64,
    pub(crate) family: String,
    pub(crate) bits_per_key: f64,
    /// Zipf (0.99) instead of uniform lookups.
    pub(crate) zipf: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) empty: Vec<f64>,
    pub(crate) batch: usize,
    pub(crate) pairs: usize,
    /// Times that the tree is opened anew.
    pub(crate) repeat: usize,
    pub(crate) seconds: f64,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) seed: u64,
}

/// A point: one tree, one device, one share of empty lookups. Counts are of one lookup.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    pub(crate) device: Device,
    pub(crate) empty: f64,
    /// Levels that the tree really has, each a run.
    pub(crate) levels: u32,
    /// Lookups of each kind.
    pub(crate) lookups: u64,
    /// Microseconds with sharing, and with a hash for each table.
    pub(crate) shared_us: f64,
    pub(crate) each_us: f64,
    /// The share of time that sharing saves.
    pub(crate) gain: f64,
    /// How far from that the truth may lie.
    pub(crate) uncertain: f64,
    pub(crate) shared_hashes: f64,
    pub(crate) each_hashes: f64,
    /// Tables asked.
    pub(crate) tables: f64,
    /// Storage reads.
    pub(crate) reads: f64,
    /// Of the tables asked in vain, the share that the filter let pass.
    pub(crate) false_positives: f64,
    /// Nanoseconds to hash a key.
    pub(crate) hash_ns: f64,
}

fn failed(source: shamba::Error) -> Error {
    Error::engine("shamba", source)
}

/// A tree on some storage: two copies of it, and how many entries and levels they have.
struct Tree {
    fs: Arc<dyn Fs>,
    copies: [PathBuf; 2],
    entries: u64,
    levels: u32,
    files: u64,
}

/// Lookups drawn and their answers.
struct Batch {
    numbers: Vec<u64>,
    keys: Vec<Vec<u8>>,
    /// The mark in the value found, and the value's length.
    answers: Vec<Option<(u64, usize)>>,
}

/// One of the two ways to hash.
struct Side {
    db: Db,
    /// What it counted before it was measured.
    before: Counters,
    /// Microseconds a lookup of each batch, without what modelled devices charge.
    us: Vec<f64>,
}

/// The two ways, with sharing and without, and what charges their reads.
struct Pair {
    sides: [Side; 2],
    meter: Option<MeteredFs>,
}

/// What repetitions measured of a point.
#[derive(Default)]
struct Samples {
    shared_us: Vec<f64>,
    each_us: Vec<f64>,
    /// The median saving of each repetition, in microseconds a lookup.
    savings: Vec<f64>,
    hash_ns: Vec<f64>,
    /// What the device charged both together, in microseconds.
    device_us: f64,
    lookups: u64,
    shared: Counts,
    each_hashes: u64,
}

/// Of the engine's counters, what a point needs.
#[derive(Clone, Copy, Default)]
struct Counts {
    hashes: u64,
    tables: u64,
    found: u64,
    false_positives: u64,
    reads: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.hashes += other.hashes;
        self.tables += other.tables;
        self.found += other.found;
        self.false_positives += other.false_positives;
        self.reads += other.reads;
    }
}

impl Side {
    /// Looks the keys up; microseconds for each.
    fn look_up(&self, batch: &mut Batch) -> Result<f64> {
        batch.answers.clear();
        let start = Instant::now();
        for key in &batch.keys {
            let value = self.db.get(key).map_err(failed)?;
            batch.answers.push(value.map(|value| mark(&value)));
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / batch.keys.len().max(1) as f64)
    }

    fn begin(&mut self) {
        self.us.clear();
        self.before = self.db.stats().counters;
    }

    /// What was counted since it began.
    fn counts(&self) -> Counts {
        let (now, before) = (self.db.stats().counters, self.before);
        let reads = |of: &Counters| of.data_reads + of.index_reads + of.filter_reads;
        Counts {
            hashes: now.keys_hashed - before.keys_hashed,
            tables: now.tables_probed - before.tables_probed,
            found: now.lookups_found - before.lookups_found,
            false_positives: now.false_positives - before.false_positives,
            reads: reads(&now) - reads(&before),
        }
    }
}

/// What tells a value from others, and its length.
fn mark(value: &[u8]) -> (u64, usize) {
    let head = value.first_chunk().copied().unwrap_or_default();
    (u64::from_le_bytes(head), value.len())
}

/// Writes a key: eight bytes that differ for every number, and more that follow from them.
fn write_key(number: u64, size: usize, key: &mut Vec<u8>) {
    key.clear();
    let mut word = mix(number);
    while key.len() < size {
        key.extend_from_slice(&word.to_be_bytes());
        word = word.rotate_left(23) ^ number;
    }
    key.truncate(size);
}

impl Cell {
    fn options(&self, fs: &Arc<dyn Fs>, memory: u64, sharing: bool) -> Options {
        let family = match self.family.as_str() {
            "bloom" => FilterFamily::Bloom,
            "blocked" => FilterFamily::BlockedBloom,
            "ribbon" => FilterFamily::Ribbon,
            _ => FilterFamily::Auto,
        };
        let filter = FilterOptions {
            family,
            bits_per_key: self.bits_per_key,
            ..FilterOptions::default()
        };
        // The last level is filled in part, so that the data of all is about what was wished for.
        let buffer = (self.data * 2 / 3) >> self.levels;
        Options::new()
            .fs(Arc::clone(fs))
            .memory(MemoryBudget::bytes(memory))
            .background_threads(0)
            .max_open_files(1 << 16)
            .durability(Durability::None)
            .hash_sharing(sharing)
            .keyspace(KeyspaceOptions {
                size_ratio: 2,
                level0_runs: 1,
                write_buffer: buffer.max(LEAST_BUFFER),
                target_file: (buffer * BUFFERS).clamp(LEAST_BUFFER, FILE),
                filter,
                ..KeyspaceOptions::default()
            })
    }

    /// Even numbers are keys of entries, odd ones of none.
    fn put(&self, db: &Db, number: u64, key: &mut Vec<u8>, value: &mut [u8]) -> Result<()> {
        write_key(number * 2, self.key, key);
        if let Some(head) = value.first_chunk_mut() {
            *head = number.to_le_bytes();
        }
        db.put(&*key, &*value).map_err(failed)
    }

    /// Writes until there are as many levels as there should be, and half as much again.
    fn load(&self, fs: Arc<dyn Fs>, home: &Path) -> Result<Tree> {
        let copies = [home.join("shared"), home.join("each")];
        let db = self.options(&fs, LOAD_MEMORY, true);
        let db = db.open(&copies[0]).map_err(failed)?;
        let (mut key, mut value) = (Vec::new(), vec![0; self.value]);
        let entry = (self.key + self.value) as u64;
        let buffer = ((self.data * 2 / 3) >> self.levels).max(LEAST_BUFFER);
        let step = (buffer / entry).max(1);
        let most = self.data.max(buffer << self.levels) * 2 / entry;
        let mut entries = 0;
        while shape(&db).1 < self.levels && entries < most {
            // To ask for the shape takes a look at every file.
            for _ in 0..step.max(entries / 64) {
                self.put(&db, entries, &mut key, &mut value)?;
                entries += 1;
            }
        }
        for _ in 0..entries / 2 {
            self.put(&db, entries, &mut key, &mut value)?;
            entries += 1;
        }
        // So few that the tree hardly grows.
        for _ in 0..PATIENCE.min((1 << self.levels) / 8) {
            db.flush().map_err(failed)?;
            db.wait_for_compaction().map_err(failed)?;
            if shape(&db).0 >= self.levels {
                break;
            }
            for _ in 0..step {
                self.put(&db, entries, &mut key, &mut value)?;
                entries += 1;
            }
        }
        db.flush().map_err(failed)?;
        db.wait_for_compaction().map_err(failed)?;
        let levels = shape(&db).0;
        let stats = db.stats();
        let all = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let files = all.map(|level| level.files as u64).sum();
        db.checkpoint(&copies[1]).map_err(failed)?;
        db.close().map_err(failed)?;
        Ok(Tree {
            fs,
            copies,
            entries,
            levels,
            files,
        })
    }

    /// The tree opened on a device, with sharing and without; repetitions differ in which is opened
    /// first, and so in what lies where in memory.
    fn open(&self, tree: &Tree, device: Device, repetition: usize) -> Result<Pair> {
        let below = Arc::clone(&tree.fs);
        let meter = device
            .model()
            .map(|model| MeteredFs::with_device(below, model, Charge::Virtual));
        let fs: Arc<dyn Fs> = match &meter {
            Some(meter) => Arc::new(meter.clone()),
            None => Arc::clone(&tree.fs),
        };
        let data = tree.entries * (self.key + self.value) as u64;
        let memory = match device {
            Device::Resident => LOAD_MEMORY.max(data * 4),
            _ => (data / MEMORY_SHARE + tree.files * TABLE_MEMORY).max(shamba::MIN_MEMORY * 2),
        };
        let side = |which: usize| -> Result<Side> {
            let options = self.options(&fs, memory, which == 0);
            let db = options.create_if_missing(false).open(&tree.copies[which]);
            let db = db.map_err(failed)?;
            Ok(Side {
                before: db.stats().counters,
                db,
                us: Vec::new(),
            })
        };
        let sides = if repetition.is_multiple_of(2) {
            let shared = side(0)?;
            [shared, side(1)?]
        } else {
            let each = side(1)?;
            [side(0)?, each]
        };
        Ok(Pair { sides, meter })
    }

    /// Who is asked for.
    fn chooser(&self, tree: &Tree) -> Result<Chooser> {
        let distribution = match self.zipf {
            true => Distribution::Zipf(0.99),
            false => Distribution::Uniform,
        };
        Chooser::new(distribution, tree.entries, self.seed)
    }

    fn draw(&self, chooser: &Chooser, empty: f64, random: &mut Random, batch: &mut Batch) {
        batch.keys.resize_with(self.batch, Vec::new);
        batch.numbers.clear();
        for key in &mut batch.keys {
            let number = chooser.draw(random) * 2;
            let number = number + u64::from(random.random_bool(empty));
            write_key(number, self.key, key);
            batch.numbers.push(number);
        }
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        for (number, answer) in batch.numbers.iter().zip(&batch.answers) {
            let wanted = (number % 2 == 0).then_some((number / 2, self.value));
            if *answer != wanted {
                return Err(Error::WrongAnswer(format!(
                    "key {number} of seed {}: {answer:?}, not {wanted:?}",
                    self.seed
                )));
            }
        }
        Ok(())
    }

    /// Reads what is to be in memory.
    fn warm_up(&self, tree: &Tree, device: Device, empty: f64, sides: &[Side; 2]) -> Result<()> {
        let mut batch = Batch::new();
        let mut random = random(self.seed, 1);
        if device == Device::Resident {
            batch.keys.push(Vec::new());
            for number in 0..tree.entries * 2 {
                batch.numbers = vec![number];
                batch
                    .keys
                    .iter_mut()
                    .for_each(|key| write_key(number, self.key, key));
                for side in sides {
                    side.look_up(&mut batch)?;
                    self.check(&batch)?;
                }
            }
        }
        let chooser = self.chooser(tree)?;
        for _ in 0..WARM_UP.div_ceil(self.batch) {
            self.draw(&chooser, empty, &mut random, &mut batch);
            for side in sides {
                side.look_up(&mut batch)?;
                self.check(&batch)?;
            }
        }
        Ok(())
    }

    /// One repetition of one point.
    fn sample(
        &self,
        tree: &Tree,
        device: Device,
        empty: f64,
        repetition: usize,
        pair: &mut Pair,
        samples: &mut Samples,
    ) -> Result<()> {
        self.warm_up(tree, device, empty, &pair.sides)?;
        pair.sides.iter_mut().for_each(Side::begin);
        let charged = |meter: &Option<MeteredFs>| {
            let counts = meter.as_ref().map(MeteredFs::counts);
            counts.map_or(0.0, |counts| counts.device_ns as f64 / 1e3)
        };
        let before = charged(&pair.meter);
        let mut random = random(self.seed, 2 + repetition as u64);
        let mut batch = Batch::new();
        let chooser = self.chooser(tree)?;
        let limit = Duration::from_secs_f64(self.seconds / self.repeat as f64);
        let start = Instant::now();
        let [shared, each] = &mut pair.sides;
        for number in 0..self.pairs.div_ceil(self.repeat) {
            if number > 0 && start.elapsed() > limit {
                break;
            }
            self.draw(&chooser, empty, &mut random, &mut batch);
            let mut order = [&mut *shared, &mut *each];
            if number % 2 == 1 {
                order.reverse();
            }
            for side in order {
                let us = side.look_up(&mut batch)?;
                side.us.push(us);
                self.check(&batch)?;
            }
            samples.hash_ns.push(hash_ns(&batch.keys));
        }
        let lookups = (shared.us.len() * self.batch) as u64;
        let (ours, theirs) = (shared.counts(), each.counts());
        // One hash for a lookup that asks any table, and one for each table.
        if ours.hashes > lookups || theirs.hashes != theirs.tables {
            return Err(Error::WrongAnswer(format!(
                "{lookups} lookups hashed {} times with sharing, and {} times for {} tables without",
                ours.hashes, theirs.hashes, theirs.tables
            )));
        }
        let pairs = shared.us.iter().zip(&each.us);
        let saved: Vec<f64> = pairs.map(|(shared, each)| each - shared).collect();
        samples.savings.extend(median(&saved));
        samples.shared_us.append(&mut shared.us);
        samples.each_us.append(&mut each.us);
        samples.device_us += charged(&pair.meter) - before;
        samples.lookups += lookups;
        samples.shared.add(ours);
        samples.each_hashes += theirs.hashes;
        Ok(())
    }

    /// What the repetitions of a point come to. Time is the median of the batches and, since few
    /// batches of empty lookups hold a read, the mean of what the device charged for both sides (they
    /// read alike). A real disk's reads are in the batches, of which it is the mean there.
    fn point(&self, tree: &Tree, device: Device, empty: f64, samples: &Samples) -> Measured {
        let lookups = samples.lookups.max(1) as f64;
        let of = |count: u64| count as f64 / lookups;
        let shared_us = if device == Device::Disk {
            samples.shared_us.iter().sum::<f64>() / samples.shared_us.len().max(1) as f64
        } else {
            median(&samples.shared_us).unwrap_or(0.0) + samples.device_us / lookups / 2.0
        };
        let pairs = samples.shared_us.iter().zip(&samples.each_us);
        let saved: Vec<f64> = pairs.map(|(shared, each)| each - shared).collect();
        let saving = median(&saved).unwrap_or(0.0);
        let each_us = shared_us + saving;
        let between = samples.savings.iter().copied().fold(f64::MIN, f64::max)
            - samples.savings.iter().copied().fold(f64::MAX, f64::min);
        let counts = &samples.shared;
        Measured {
            device,
            empty,
            levels: tree.levels,
            lookups: samples.lookups,
            shared_us,
            each_us,
            gain: saving / each_us,
            uncertain: uncertainty(&saved).max(between / 2.0) / each_us,
            shared_hashes: of(counts.hashes),
            each_hashes: of(samples.each_hashes),
            tables: of(counts.tables),
            reads: of(counts.reads),
            false_positives: counts.false_positives as f64
                / (counts.tables - counts.found).max(1) as f64,
            hash_ns: median(&samples.hash_ns).unwrap_or(0.0),
        }
    }

    /// Every point of this tree on one device.
    fn points(&self, tree: &Tree, device: Device) -> Result<Vec<Measured>> {
        let mut samples: Vec<Samples> = Vec::new();
        samples.resize_with(self.empty.len(), Samples::default);
        for repetition in 0..self.repeat {
            let mut pair = self.open(tree, device, repetition)?;
            for (&empty, samples) in self.empty.iter().zip(&mut samples) {
                self.sample(tree, device, empty, repetition, &mut pair, samples)?;
            }
            for side in pair.sides {
                side.db.close().map_err(failed)?;
            }
        }
        let points = self.empty.iter().zip(&samples);
        Ok(points
            .map(|(&empty, samples)| self.point(tree, device, empty, samples))
            .collect())
    }

    /// Every point of this tree.
    pub(crate) fn measure(&self) -> Result<Vec<Measured>> {
        let mut points = Vec::new();
        let (disk, others): (Vec<Device>, Vec<Device>) =
            (self.devices.iter()).partition(|device| **device == Device::Disk);
        if !others.is_empty() {
            let tree = self.load(Arc::new(MemFs::new()), Path::new("/"))?;
            for device in others {
                points.extend(self.points(&tree, device)?);
            }
        }
        if let (false, Some(dir)) = (disk.is_empty(), &self.dir) {
            std::fs::create_dir_all(dir)?;
            let home = tempfile::Builder::new()
                .prefix("hash-sharing-")
                .tempdir_in(dir)?;
            let tree = self.load(Arc::new(OsFs::new()), home.path())?;
            points.extend(self.points(&tree, Device::Disk)?);
        }
        Ok(points)
    }
}

impl Batch {
    fn new() -> Self {
        Self {
            numbers: Vec::new(),
            keys: Vec::new(),
            answers: Vec::new(),
        }
    }
}

/// Runs, and the number of the deepest level that has one.
fn shape(db: &Db) -> (u32, u32) {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.fold((0, 0), |(runs, deepest), level| match level.runs as u32 {
        0 => (runs, deepest),
        here => (runs + here, deepest.max(level.level as u32)),
    })
}

/// Nanoseconds to hash one of the keys, with the engine's hash.
fn hash_ns(keys: &[Vec<u8>]) -> f64 {
    let start = Instant::now();
    for key in keys {
        black_box(xxh3_64(black_box(key)));
    }
    start.elapsed().as_secs_f64() * 1e9 / keys.len().max(1) as f64
}

/// Half the 95 % interval of a median: 1.57 times the distance of the quartiles over the root of the
/// number (the notches of box plots; McGill, Tukey, Larsen 1978).
fn uncertainty(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = sorted.len().saturating_sub(1) as f64;
        sorted
            .get((last * share).round() as usize)
            .copied()
            .unwrap_or(0.0)
    };
    1.57 * (at(0.75) - at(0.25)) / (values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell {
            key: 24,
            levels: 3,
            value: 16,
            data: 64 << 10,
            family: "bloom".into(),
            bits_per_key: 10.0,
            zipf: false,
            devices: vec![Device::Memory],
            empty: vec![0.5],
            batch: 10,
            pairs: 4,
            repeat: 2,
            seconds: 9.0,
            dir: None,
            seed: 3,
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let cell = cell();
        let mut batch = Batch {
            numbers: vec![8, 9],
            keys: Vec::new(),
            answers: vec![Some((4, 16)), None],
        };
        assert!(cell.check(&batch).is_ok());
        for wrong in [None, Some((5, 16)), Some((4, 15))] {
            batch.answers[0] = wrong;
            assert!(cell.check(&batch).is_err(), "{wrong:?}");
        }
        batch.answers = vec![Some((4, 16)), Some((4, 16))];
        assert!(cell.check(&batch).is_err());
    }

    /// Hashes that sharing should save are noticed where they are made.
    #[test]
    fn hashing_too_often_is_an_error() {
        let cell = cell();
        let tree = cell.load(Arc::new(MemFs::new()), Path::new("/")).unwrap();
        assert!(tree.levels > 1, "{} levels", tree.levels);
        let mut pair = cell.open(&tree, Device::Nvm, 0).unwrap();
        let mut samples = Samples::default();
        let sample = |pair: &mut Pair, samples: &mut Samples| {
            cell.sample(&tree, Device::Nvm, 0.5, 0, pair, samples)
        };
        sample(&mut pair, &mut samples).unwrap();
        assert_eq!((samples.lookups, samples.savings.len()), (20, 1));
        pair.sides.reverse();
        assert!(sample(&mut pair, &mut samples).is_err());
    }

    /// Reads in few batches count in full, and the same on both sides.
    #[test]
    fn time_is_the_batches_and_what_the_device_charged() {
        let cell = cell();
        let tree = Tree {
            fs: Arc::new(MemFs::new()),
            copies: [PathBuf::new(), PathBuf::new()],
            entries: 1,
            levels: 2,
            files: 2,
        };
        let samples = Samples {
            shared_us: vec![1.0, 1.0, 50.0],
            each_us: vec![1.5, 1.5, 49.0],
            savings: vec![0.4, 0.6],
            device_us: 2.0 * 30.0 * 2.5,
            lookups: 30,
            ..Samples::default()
        };
        let point = cell.point(&tree, Device::Nvm, 1.0, &samples);
        assert_eq!((point.shared_us, point.each_us), (3.5, 4.0));
        assert_eq!(point.gain, 0.125);
        assert!(point.uncertain > 0.024, "{}", point.uncertain);
    }

    #[test]
    fn keys_differ_and_have_their_size() {
        let mut keys = std::collections::BTreeSet::new();
        for size in [8, 13, 64] {
            for number in 0..1000 {
                let mut key = Vec::new();
                write_key(number, size, &mut key);
                assert_eq!(key.len(), size);
                assert!(keys.insert(key));
            }
        }
    }

    #[test]
    fn many_like_values_are_certain() {
        assert_eq!(uncertainty(&[0.5; 9]), 0.0);
        let spread: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((uncertainty(&spread) - 1.57 * 50.0 / 101f64.sqrt()).abs() < 1e-9);
        assert_eq!(uncertainty(&[]), 0.0);
    }
}
