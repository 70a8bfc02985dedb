//! Lookups that hash their key once beside lookups that hash it once for each table
//! (`Options::hash_sharing(false)`): one measured point of the figures.
//!
//! Both ways look up the same keys in two copies of one tree, in one process, in small batches that
//! alternate and change order each time; the median difference of the pairs counts, so that what
//! else the machine does disturbs few of them. Devices are modelled (`fs::MeteredFs`): what they
//! charge is added, and nothing waits. Every answer is checked, and hashes are counted. Of one
//! thread.
use super::lookups::murmur_ns;
use super::tree::{COPIES, Cell, LOAD_MEMORY, Place, RESIDENT, Tree, key};
use crate::cell::Measurement;
use crate::reproduce::prelude::*;
use crate::workload::Chooser;
use rand::RngExt as _;
use shamba::fs::{Charge, Fs, MeteredFs};
use shamba::{Counters, Db, MemoryBudget};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// The part of the data that fits into memory where it is not all: enough for filters and indexes.
const MEMORY_SHARE: u64 = 16;

/// Memory for each open table besides: one that was closed for want of it is read anew.
const TABLE_MEMORY: u64 = 8 << 10;

/// The least memory, where data is not to be resident.
const LEAST_MEMORY: u64 = 128 << 10;

/// Lookups before measuring: at least, and for each file, whose filter and index are to be read by
/// then (one in e^8 is asked for by none of so many).
const WARM_UP: u64 = 3000;
const WARM_UP_PER_FILE: u64 = 8;

/// A point: one tree, one device, one share of empty lookups. Counts are of one lookup.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Measured {
    pub(super) device: Place,
    pub(super) empty: f64,
    /// Bytes of a key.
    pub(super) key: usize,
    /// Sorted runs that the tree really has: under leveling, levels.
    pub(super) levels: u32,
    /// Microseconds with sharing, and with a hash for each table.
    pub(super) shared_us: f64,
    pub(super) each_us: f64,
    /// The share of time that sharing saves, in percent.
    pub(super) gain: f64,
    /// How far from that the truth may lie.
    pub(super) uncertain: f64,
    pub(super) shared_hashes: f64,
    pub(super) each_hashes: f64,
    /// Tables asked.
    pub(super) tables: f64,
    /// Storage reads.
    pub(super) reads: f64,
    /// Of the tables asked in vain, the percentage that the filter let pass.
    pub(super) false_positives: f64,
    /// Nanoseconds to hash a key.
    pub(super) hash_ns: f64,
}

impl Measured {
    /// Hashing's share of a lookup without sharing, in percent: with our hash, and with the times
    /// of the paper's instead.
    pub(super) fn hashing(&self) -> [f64; 2] {
        let total = self.each_us * 1e3;
        let [ours, murmur] = [self.hash_ns, murmur_ns(self.key)].map(|ns| ns * self.each_hashes);
        [ours / total, murmur / (total - ours + murmur)].map(|share| share * 100.0)
    }

    /// The gain in words, with how far from it the truth may lie.
    pub(super) fn gain(&self) -> String {
        format!("{:.1} ± {:.1}", self.gain, self.uncertain)
    }
}

/// Keys to look up, each with its number.
type Batch = Vec<(u64, Vec<u8>)>;

/// One of the two ways to hash.
struct Side {
    db: Db,
    /// What of its budget is to be no room for anything.
    _held: Option<Box<dyn Send + Sync>>,
}

/// A tree opened both ways, with sharing and without, and what charges their reads.
struct Pair<'a> {
    cell: &'a Cell,
    tree: &'a Tree,
    device: Place,
    sides: [Side; 2],
    meter: Option<MeteredFs>,
}

/// What repetitions measured of a point; of two, the first is with sharing.
#[derive(Default)]
struct Samples {
    /// Microseconds a lookup of each batch, without what modelled devices charge.
    us: [Vec<f64>; 2],
    /// The median saving of each repetition, in microseconds a lookup.
    savings: Vec<f64>,
    hash_ns: Vec<f64>,
    /// What the device charged both together, in microseconds.
    device_us: f64,
    /// Lookups of each.
    lookups: u64,
    counts: [Counts; 2],
}

/// Of the engine's counters, what a point needs.
#[derive(Default)]
struct Counts {
    hashes: u64,
    tables: u64,
    found: u64,
    false_positives: u64,
    reads: u64,
}

impl Counts {
    fn add(&mut self, before: &Counters, now: &Counters) {
        let reads = |of: &Counters| of.data_reads + of.index_reads + of.filter_reads;
        self.hashes += now.keys_hashed - before.keys_hashed;
        self.tables += now.tables_probed - before.tables_probed;
        self.found += now.lookups_found - before.lookups_found;
        self.false_positives += now.false_positives - before.false_positives;
        self.reads += reads(now) - reads(before);
    }
}

impl Measurement for Cell {
    type Found = Vec<Measured>;

    /// Every point of this tree.
    fn measure(&self) -> Result<Vec<Measured>> {
        let tree = self.load()?;
        let mut points = Vec::new();
        for &device in &self.devices {
            let mut all: Vec<Samples> = self.empty.iter().map(|_| Samples::default()).collect();
            for repetition in 0..self.repeat {
                let pair = Pair::open(self, &tree, device, repetition)?;
                for (&empty, samples) in self.empty.iter().zip(&mut all) {
                    pair.sample(empty, repetition, samples)?;
                }
            }
            let each = self.empty.iter().zip(&all);
            points.extend(each.map(|(&empty, samples)| samples.point(self, &tree, device, empty)));
        }
        Ok(points)
    }
}

/// What tells a value from others, and its length.
fn mark(value: &[u8]) -> (u64, usize) {
    let head = value.first_chunk().copied().unwrap_or_default();
    (u64::from_le_bytes(head), value.len())
}

impl<'a> Pair<'a> {
    /// Repetitions differ in which side is opened first, and so in what lies where in memory.
    fn open(cell: &'a Cell, tree: &'a Tree, device: Place, repetition: usize) -> Result<Self> {
        let below = || Arc::clone(&tree.fs);
        let model = device.and_then(Device::model);
        let meter = model.map(|model| MeteredFs::with_device(below(), model, Charge::Virtual));
        let fs: Arc<dyn Fs> = match &meter {
            Some(meter) => Arc::new(meter.clone()),
            None => below(),
        };
        let data = tree.entries * (cell.key + cell.value) as u64;
        let memory = match device {
            None => LOAD_MEMORY.max(data * 4),
            Some(_) => (data / MEMORY_SHARE + tree.shape.files * TABLE_MEMORY).max(LEAST_MEMORY),
        };
        let side = |which: usize| {
            let budget = MemoryBudget::bytes(memory.max(shamba::MIN_MEMORY));
            let held = budget.hold(budget.limit() - memory.min(budget.limit()));
            let options = cell.options(&fs, budget, which == 0);
            let db = options.create_if_missing(false).open(COPIES[which]);
            Ok::<Side, Error>(Side {
                db: db?,
                _held: held,
            })
        };
        let first = repetition % 2;
        let mut sides = [side(first)?, side(1 - first)?];
        sides.rotate_left(first);
        Ok(Self {
            cell,
            tree,
            device,
            sides,
            meter,
        })
    }

    /// Draws batches of a share of keys of no entry.
    fn batches(&self, empty: f64, stream: u64) -> Result<impl FnMut() -> Batch> {
        let Cell { batch, seed, .. } = *self.cell;
        let size = self.cell.key;
        let mut chooser = Chooser::new(self.cell.distribution, self.tree.entries, seed)?;
        let mut random = random(seed, stream);
        let mut draw = move |_| {
            let number = chooser.draw(&mut random) * 2 + u64::from(random.random_bool(empty));
            (number, key(number, size))
        };
        Ok(move || (0..batch).map(&mut draw).collect())
    }

    /// Looks the keys up on one side and checks the answers; microseconds for each.
    fn look_up(&self, side: usize, batch: &Batch) -> Result<f64> {
        let db = &self.sides[side].db;
        let mut answers = Vec::with_capacity(batch.len());
        let start = Instant::now();
        for (_, key) in batch {
            let value = db.get(key)?;
            answers.push(value.map(|value| mark(&value)));
        }
        let us = start.elapsed().as_secs_f64() * 1e6 / batch.len().max(1) as f64;
        for ((number, _), answer) in batch.iter().zip(answers) {
            let wanted = (number % 2 == 0).then_some((number / 2, self.cell.value));
            if answer != wanted {
                let wrong = format!("key {number}: {answer:?}, not {wanted:?}");
                return Err(Error::WrongAnswer(wrong));
            }
        }
        Ok(us)
    }

    /// Reads what is to be in memory.
    fn warm_up(&self, empty: f64) -> Result<()> {
        let both = |batch: Batch| {
            self.look_up(0, &batch)?;
            self.look_up(1, &batch)
        };
        if self.device == RESIDENT {
            for number in 0..self.tree.entries * 2 {
                both(vec![(number, key(number, self.cell.key))])?;
            }
        }
        let lookups = WARM_UP.max(self.tree.shape.files * WARM_UP_PER_FILE);
        let mut draw = self.batches(empty, 1)?;
        for _ in 0..lookups.div_ceil(self.cell.batch as u64) {
            both(draw())?;
        }
        Ok(())
    }

    /// Of both sides what they counted, and microseconds charged by the device.
    fn counted(&self) -> ([Counters; 2], f64) {
        let charged = self.meter.as_ref().map(MeteredFs::counts);
        let us = charged.map_or(0.0, |counts| counts.device_ns as f64 / 1e3);
        let counters = self.sides.each_ref().map(|side| side.db.stats().counters);
        (counters, us)
    }

    /// One repetition of one point.
    fn sample(&self, empty: f64, repetition: usize, samples: &mut Samples) -> Result<()> {
        self.warm_up(empty)?;
        let (before, charged) = self.counted();
        let repeat = self.cell.repeat;
        let limit = Duration::from_secs_f64(self.cell.seconds / repeat as f64);
        let mut draw = self.batches(empty, 2 + repetition as u64)?;
        let mut saved = Vec::new();
        let start = Instant::now();
        for number in 0..self.cell.pairs.div_ceil(repeat) {
            if number > 0 && start.elapsed() > limit {
                break;
            }
            let batch = draw();
            let first = number % 2;
            let us = self.look_up(first, &batch)?;
            let mut us = [us, self.look_up(1 - first, &batch)?];
            us.rotate_left(first);
            saved.push(us[1] - us[0]);
            for (all, us) in samples.us.iter_mut().zip(us) {
                all.push(us);
            }
            samples.lookups += batch.len() as u64;
            samples.hash_ns.push(hash_ns(&batch));
        }
        samples.savings.extend(median(&saved));
        let (now, charged_now) = self.counted();
        samples.device_us += charged_now - charged;
        for (at, counts) in samples.counts.iter_mut().enumerate() {
            counts.add(&before[at], &now[at]);
        }
        // One hash for a lookup that asks any table, and one for each table.
        let ([shared, each], lookups) = (&samples.counts, samples.lookups);
        if shared.hashes > lookups || each.hashes != each.tables {
            return Err(Error::WrongAnswer(format!(
                "{lookups} lookups hashed {} times with sharing, and {} times for {} tables without",
                shared.hashes, each.hashes, each.tables
            )));
        }
        Ok(())
    }
}

impl Samples {
    /// What the repetitions of a point come to. Time is the median of the batches and, since few
    /// batches of empty lookups hold a read, the mean of what the device charged for both sides
    /// (they read alike).
    fn point(&self, cell: &Cell, tree: &Tree, device: Place, empty: f64) -> Measured {
        let lookups = self.lookups.max(1) as f64;
        let of = |count: u64| count as f64 / lookups;
        let [shared, each] = &self.us;
        let shared_us = median(shared).unwrap_or(0.0) + self.device_us / lookups / 2.0;
        let pairs = shared.iter().zip(each);
        let saved: Vec<f64> = pairs.map(|(shared, each)| each - shared).collect();
        let saving = median(&saved).unwrap_or(0.0);
        let each_us = shared_us + saving;
        let between = most_of(&self.savings) - least_of(&self.savings);
        let [counts, without] = &self.counts;
        let in_vain = (counts.tables - counts.found).max(1);
        Measured {
            device,
            empty,
            key: cell.key,
            levels: tree.shape.runs,
            shared_us,
            each_us,
            gain: saving / each_us * 100.0,
            uncertain: uncertainty(&saved).max(between / 2.0) / each_us * 100.0,
            shared_hashes: of(counts.hashes),
            each_hashes: of(without.hashes),
            tables: of(counts.tables),
            reads: of(counts.reads),
            false_positives: counts.false_positives as f64 / in_vain as f64 * 100.0,
            hash_ns: median(&self.hash_ns).unwrap_or(0.0),
        }
    }
}

/// Nanoseconds to hash one of the keys, with the engine's hash.
fn hash_ns(batch: &Batch) -> f64 {
    let start = Instant::now();
    for (_, key) in batch {
        black_box(xxh3_64(black_box(key)));
    }
    start.elapsed().as_secs_f64() * 1e9 / batch.len().max(1) as f64
}

/// Half the 95 % interval of a median: 1.57 times the distance of the quartiles over the root of
/// the number (the notches of box plots; McGill, Tukey, Larsen 1978).
fn uncertainty(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    let at = |share: f64| sorted.get((last * share).round() as usize).unwrap_or(&0.0);
    1.57 * (at(0.75) - at(0.25)) / (values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tree::{NVM, RAM, Shape};
    use super::*;
    use crate::workload::Distribution;
    use shamba::fs::MemFs;

    fn cell() -> Cell {
        Cell {
            key: 24,
            value: 16,
            levels: 3,
            size_ratio: 2,
            tiered: false,
            data: 64 << 10,
            bits_per_key: 10.0,
            distribution: Distribution::Uniform,
            devices: vec![RAM],
            empty: vec![0.5],
            batch: 10,
            pairs: 4,
            repeat: 2,
            seconds: 9.0,
            seed: 3,
        }
    }

    /// Every device and share in small. Times are not looked at, counts and forms are.
    #[test]
    fn hashes_are_counted_and_every_point_is_there() {
        let cell = Cell {
            levels: 5,
            data: 1 << 20,
            devices: vec![RESIDENT, RAM, NVM],
            empty: vec![1.0, 0.0],
            ..cell()
        };
        let points = cell.measure().unwrap();
        assert_eq!(points.len(), 6, "{points:?}");
        for point in &points {
            let (shared, each) = (point.shared_hashes, point.each_hashes);
            assert!((0.9..=1.0).contains(&shared), "{point:?}");
            let most = f64::from(point.levels);
            assert!((shared..=most).contains(&each), "{point:?}");
            assert!(point.empty < 1.0 || each > 1.9, "{point:?}");
            let reads = point.device != RESIDENT && point.empty == 0.0;
            assert!(!reads || point.reads > 0.3, "little is read: {point:?}");
            assert!(point.device != RESIDENT || point.reads == 0.0);
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let cell = cell();
        let tree = cell.load().unwrap();
        let mut pair = Pair::open(&cell, &tree, RAM, 0).unwrap();
        let of = |number, asked| vec![(number, key(asked, cell.key))];
        let ask = |pair: &Pair<'_>, number, asked| pair.look_up(0, &of(number, asked));
        assert!(ask(&pair, 8, 8).is_ok() && ask(&pair, 9, 9).is_ok());
        for (number, asked) in [(8, 9), (9, 8), (8, 10)] {
            assert!(ask(&pair, number, asked).is_err(), "{number} {asked}");
        }
        let value = 17;
        let longer = Cell {
            value,
            ..cell.clone()
        };
        pair.cell = &longer;
        assert!(ask(&pair, 8, 8).is_err());
    }

    /// Hashes that sharing should save are noticed where they are made.
    #[test]
    fn hashing_too_often_is_an_error() {
        let cell = cell();
        let tree = cell.load().unwrap();
        assert!(tree.shape.runs > 1, "{} levels", tree.shape.runs);
        let mut pair = Pair::open(&cell, &tree, NVM, 0).unwrap();
        let mut samples = Samples::default();
        pair.sample(0.5, 0, &mut samples).unwrap();
        assert_eq!((samples.lookups, samples.savings.len()), (20, 1));
        pair.sides.reverse();
        assert!(pair.sample(0.5, 0, &mut samples).is_err());
    }

    /// Reads in few batches count in full, and the same on both sides.
    #[test]
    fn time_is_the_batches_and_what_the_device_charged() {
        let tree = Tree {
            fs: Arc::new(MemFs::new()),
            entries: 1,
            shape: Shape::default(),
        };
        let samples = Samples {
            us: [vec![1.0, 1.0, 50.0], vec![1.5, 1.5, 49.0]],
            savings: vec![0.4, 0.6],
            device_us: 2.0 * 30.0 * 2.5,
            lookups: 30,
            ..Samples::default()
        };
        let point = samples.point(&cell(), &tree, NVM, 1.0);
        assert_eq!((point.shared_us, point.each_us), (3.5, 4.0));
        assert_eq!(point.gain, 12.5);
        assert!(point.uncertain > 2.4, "{}", point.uncertain);
    }

    #[test]
    fn many_like_values_are_certain() {
        assert_eq!(uncertainty(&[0.5; 9]), 0.0);
        let spread: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((uncertainty(&spread) - 1.57 * 50.0 / 101f64.sqrt()).abs() < 1e-9);
        assert_eq!(uncertainty(&[]), 0.0);
    }
}
