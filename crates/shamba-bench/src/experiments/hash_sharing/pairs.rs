//! The lookups of [`super`] that are compared: a tree opened twice, with sharing and without, and
//! pairs of batches over both. Of one thread; what was written to a real disk is removed.
use super::tree::{Cell, LOAD_MEMORY, Place, Tree, failed, write_key};
use crate::cell::Measurement;
use crate::report::median;
use crate::workload::{Chooser, Distribution, Random, random};
use crate::{Error, Result};
use rand::RngExt as _;
use shamba::fs::{Charge, Fs, MemFs, MeteredFs, OsFs};
use shamba::{Counters, Db, MemoryBudget};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// The part of the data that fits into memory where it is not all: enough for filters and indexes.
const MEMORY_SHARE: u64 = 16;

/// Memory for each open table besides: one that was closed for want of it is read anew.
const TABLE_MEMORY: u64 = 8 << 10;

/// The least memory, where data is not to be resident.
const LEAST_MEMORY: u64 = 128 << 10;

/// Lookups before measuring, where data is not to be resident: at least, and for each file, whose
/// filter and index are to be read by then (one in e^8 is asked for by none of so many).
const WARM_UP: u64 = 3000;
const WARM_UP_PER_FILE: u64 = 8;

/// A point: one tree, one device, one share of empty lookups. Counts are of one lookup.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    pub(crate) device: Place,
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
    /// What of its budget is to be no room for anything.
    _held: Option<Box<dyn Send + Sync>>,
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

impl Measurement for Cell {
    const NAME: &str = "hash-sharing";
    type Found = Vec<Measured>;

    /// Every point of this tree.
    fn measure(&self) -> Result<Vec<Measured>> {
        let mut points = Vec::new();
        let (disk, others): (Vec<Place>, Vec<Place>) =
            (self.devices.iter()).partition(|device| **device == Place::DISK);
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
            points.extend(self.points(&tree, Place::DISK)?);
        }
        Ok(points)
    }
}

impl Cell {
    /// The tree opened on a device, with sharing and without; repetitions differ in which is opened
    /// first, and so in what lies where in memory.
    fn open(&self, tree: &Tree, device: Place, repetition: usize) -> Result<Pair> {
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
            Place::Resident => LOAD_MEMORY.max(data * 4),
            _ => (data / MEMORY_SHARE + tree.files * TABLE_MEMORY).max(LEAST_MEMORY),
        };
        let side = |which: usize| -> Result<Side> {
            let budget = MemoryBudget::bytes(memory.max(shamba::MIN_MEMORY));
            let held = budget.hold(budget.limit() - memory.min(budget.limit()));
            let options = self.options(&fs, budget, which == 0);
            let db = options.create_if_missing(false).open(&tree.copies[which]);
            let db = db.map_err(failed)?;
            Ok(Side {
                before: db.stats().counters,
                db,
                _held: held,
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
        let distribution = if self.zipf {
            Distribution::Zipf(0.99)
        } else {
            Distribution::Uniform
        };
        Chooser::new(distribution, tree.entries, self.seed)
    }

    fn draw(&self, chooser: &mut Chooser, empty: f64, random: &mut Random, batch: &mut Batch) {
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
    fn warm_up(&self, tree: &Tree, device: Place, empty: f64, sides: &[Side; 2]) -> Result<()> {
        let mut batch = Batch::new();
        let mut random = random(self.seed, 1);
        if device == Place::Resident {
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
        let mut chooser = self.chooser(tree)?;
        let lookups = WARM_UP.max(tree.files * WARM_UP_PER_FILE);
        for _ in 0..lookups.div_ceil(self.batch as u64) {
            self.draw(&mut chooser, empty, &mut random, &mut batch);
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
        device: Place,
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
        let mut chooser = self.chooser(tree)?;
        let limit = Duration::from_secs_f64(self.seconds / self.repeat as f64);
        let start = Instant::now();
        let [shared, each] = &mut pair.sides;
        for number in 0..self.pairs.div_ceil(self.repeat) {
            if number > 0 && start.elapsed() > limit {
                break;
            }
            self.draw(&mut chooser, empty, &mut random, &mut batch);
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
    /// batches of empty lookups hold a read, the mean of what the device charged for both sides
    /// (they read alike). A real disk's reads are in the batches, of which it is the mean there.
    fn point(&self, tree: &Tree, device: Place, empty: f64, samples: &Samples) -> Measured {
        let lookups = samples.lookups.max(1) as f64;
        let of = |count: u64| count as f64 / lookups;
        let shared_us = if device == Place::DISK {
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
    fn points(&self, tree: &Tree, device: Place) -> Result<Vec<Measured>> {
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

/// Nanoseconds to hash one of the keys, with the engine's hash.
fn hash_ns(keys: &[Vec<u8>]) -> f64 {
    let start = Instant::now();
    for key in keys {
        black_box(xxh3_64(black_box(key)));
    }
    start.elapsed().as_secs_f64() * 1e9 / keys.len().max(1) as f64
}

/// Half the 95 % interval of a median: 1.57 times the distance of the quartiles over the root of
/// the number (the notches of box plots; McGill, Tukey, Larsen 1978).
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
    use crate::device::Device;
    use std::path::PathBuf;

    fn cell() -> Cell {
        Cell {
            key: 24,
            levels: 3,
            size_ratio: 2,
            tiered: false,
            value: 16,
            data: 64 << 10,
            bits_per_key: 10.0,
            zipf: false,
            family: "bloom".into(),
            devices: vec![Place::On(Device::Ram)],
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
        let mut pair = cell.open(&tree, Place::On(Device::Nvm), 0).unwrap();
        let mut samples = Samples::default();
        let sample = |pair: &mut Pair, samples: &mut Samples| {
            cell.sample(&tree, Place::On(Device::Nvm), 0.5, 0, pair, samples)
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
        let point = cell.point(&tree, Place::On(Device::Nvm), 1.0, &samples);
        assert_eq!((point.shared_us, point.each_us), (3.5, 4.0));
        assert_eq!(point.gain, 0.125);
        assert!(point.uncertain > 0.024, "{}", point.uncertain);
    }

    #[test]
    fn many_like_values_are_certain() {
        assert_eq!(uncertainty(&[0.5; 9]), 0.0);
        let spread: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((uncertainty(&spread) - 1.57 * 50.0 / 101f64.sqrt()).abs() < 1e-9);
        assert_eq!(uncertainty(&[]), 0.0);
    }
}
