//! How hot the partitions of a table are, and so what its filter and index blocks are worth.
//!
//! [`Heat`] belongs to an open table's file and outlives the open table. Readers add visits; the
//! cache notes what is resident and asks what a block is worth; readers ask whether a module is
//! worth a read. Everything is a hint in relaxed atomics, and a lost update harms nobody.
//! Thread-safe. The formulas are in `shamba_model::expected_reads`.

mod along;
#[cfg(test)]
mod golden;
mod predict;
mod resident;
mod turned;
mod worth;

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use shamba_model::expected_reads::{Prior, Visits};

pub(crate) use predict::Absent;
pub(super) use turned::Part;
pub(crate) use turned::{Outcome, last_of};

use super::clock::{Clock, TICKS_PER_HALF_LIFE};
use super::holder::HeldBy;
use super::intern::bytes_of;
use crate::budget::{Budget, Reservation, Role, allocated, shared};
use crate::fs::BlockKind;

/// Modules of which is known how much is resident; later ones count as absent.
pub(crate) const TRACKED: usize = 4;

/// What all partitions of a table say of each is found anew every tick, or less often where there are
/// many.
const PARTITIONS_PER_TICK: usize = 256;

/// Counts are kept in units of 1 / SCALE visits.
const SCALE: f32 = 8.0;

/// What is the same of one module in all partitions of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ModuleShape {
    /// The chance that one part lets an absent key pass.
    pub(crate) fpr: f32,
    /// The parts a key is in: the columns of a block that can be kept one by one, or 1.
    pub(crate) columns: u8,
    /// About how many blocks a partition has, each over a part of its keys.
    pub(crate) blocks: u16,
    /// About how many pages a block has.
    pub(crate) pages: u16,
}

/// Who came to one partition, and what of it is in memory.
#[derive(Debug, Default)]
struct Cell {
    empty: AtomicU16,
    positive: AtomicU16,
    scans: AtomicU16,
    /// The tick at which the counts were true.
    tick: AtomicU16,
    /// Whether the index block is resident.
    index: AtomicU8,
    /// The empty visits for which those stand that got by what is resident, as a [`Rough`] number.
    past: AtomicU8,
    /// Blocks or columns resident of each module that is tracked.
    resident: [AtomicU8; TRACKED],
}

/// A [`Prior`] as the upper bits of its `f32`s: to within a two-hundredth.
#[derive(Debug, Default)]
struct SharedPrior {
    mean: AtomicU16,
    spread: AtomicU16,
}

impl SharedPrior {
    fn set(&self, prior: Prior) {
        let upper = |number: f32| (number.to_bits() >> 16) as u16;
        self.mean.store(upper(prior.mean), Relaxed);
        self.spread.store(upper(prior.spread), Relaxed);
    }

    fn get(&self) -> Prior {
        let number = |upper: &AtomicU16| f32::from_bits(u32::from(upper.load(Relaxed)) << 16);
        Prior {
            mean: number(&self.mean),
            spread: number(&self.spread),
        }
    }
}

/// What is the same of the filter in all partitions of a table, and of most tables.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) modules: Box<[ModuleShape]>,
    /// The columns in a block of columns, a bit for each.
    pub(crate) columns: fn(&[u8]) -> u8,
    /// Cuts a block down to some of its columns.
    pub(crate) keep: fn(&[u8], u8) -> Vec<u8>,
}

impl PartialEq for Shapes {
    /// Blocks of columns are cut alike wherever modules are alike.
    fn eq(&self, other: &Self) -> bool {
        self.modules == other.modules
    }
}

impl Shapes {
    /// The memory it takes behind an `Arc`, in bytes.
    fn memory(&self) -> usize {
        shared(size_of::<Self>()) + allocated(size_of_val(&*self.modules))
    }
}

/// What is known of the partitions of one table.
#[derive(Debug)]
pub(crate) struct Heat {
    clock: Arc<Clock>,
    cells: Box<[Cell]>,
    shapes: Arc<Shapes>,
    /// What the counts of all partitions say about each: of empty visits, positive ones and scans.
    priors: [SharedPrior; 3],
    /// The tick at which they were true.
    told: AtomicU16,
    index_pages: u16,
    /// Who holds on to blocks of the table.
    pub(super) held_by: OnceLock<Box<HeldBy>>,
    _held: Reservation,
}

impl Heat {
    /// Cold partitions of a table whose blocks go through the cache of this clock.
    pub(crate) fn new(
        clock: Arc<Clock>,
        budget: &Arc<Budget>,
        partitions: usize,
        shapes: Arc<Shapes>,
        index_pages: u32,
    ) -> Self {
        let cells = allocated(partitions * size_of::<Cell>());
        let bytes = shared(size_of::<Heat>()) + cells + bytes_of(&shapes, shapes.memory());
        let tick = clock.ticks() as u16;
        let cell = || Cell {
            tick: AtomicU16::new(tick),
            ..Cell::default()
        };
        Heat {
            _held: budget.reserve_at_once(Role::Tables, bytes as u64),
            clock,
            cells: (0..partitions).map(|_| cell()).collect(),
            shapes,
            priors: Default::default(),
            told: AtomicU16::new(tick.wrapping_sub(1)),
            index_pages: u16::try_from(index_pages).unwrap_or(u16::MAX),
            held_by: OnceLock::new(),
        }
    }

    /// Pages of an index block.
    fn index_pages(&self) -> f32 {
        f32::from(self.index_pages)
    }

    /// The number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Counts `weight` lookups that came to a partition.
    #[inline]
    pub(crate) fn record(&self, partition: u32, outcome: Outcome, weight: u16) {
        let Some(cell) = self.cells.get(partition as usize) else {
            return;
        };
        self.age(partition, cell);
        let count = match outcome {
            Outcome::Found => &cell.positive,
            Outcome::Spared | Outcome::InVain | Outcome::Absent => &cell.empty,
        };
        add(count, weight);
        let past = match outcome {
            Outcome::Found => return,
            Outcome::Spared if weight == 1 => 0.0,
            Outcome::InVain if weight == 1 => 1.0 / self.pass(cell),
            // Where not all of the filter was asked there is but the model; and one of a sample, which
            // stands for many, would refute it.
            _ => f32::from(weight),
        };
        if past > 0.0 {
            self.set_past(partition, self.past(partition) + past);
        }
    }

    /// Counts `weight` scans that looked for their place in a partition.
    pub(crate) fn record_scan(&self, partition: u32, weight: u16) {
        if let Some(cell) = self.cells.get(partition as usize) {
            self.age(partition, cell);
            add(&cell.scans, weight);
        }
    }

    /// Whether every visit counts at present, or a sample.
    pub(crate) fn counts_all(&self) -> bool {
        self.clock.counts_all()
    }

    /// Visits of a partition in the present window.
    pub(crate) fn visits(&self, partition: u32) -> Visits {
        match self.cells.get(partition as usize) {
            Some(cell) => {
                self.age(partition, cell);
                let visits = |count: &AtomicU16| f32::from(count.load(Relaxed)) / SCALE;
                Visits {
                    empty: visits(&cell.empty),
                    positive: visits(&cell.positive),
                    scans: visits(&cell.scans),
                }
            }
            None => Visits::default(),
        }
    }

    /// Visits to expect of a partition in the next window.
    fn expected(&self, partition: u32) -> Visits {
        let now = self.clock.ticks() as u16;
        let age = now.wrapping_sub(self.told.load(Relaxed));
        if age != 0 && usize::from(age) >= self.cells.len() / PARTITIONS_PER_TICK {
            self.told.store(now, Relaxed);
            let all = 0..self.cells.len() as u32;
            let [empty, positive, scans] = &self.priors;
            empty.set(Prior::of(all.clone().map(|at| self.visits(at).empty)));
            positive.set(Prior::of(all.clone().map(|at| self.visits(at).positive)));
            scans.set(Prior::of(all.map(|at| self.visits(at).scans)));
        }
        let counted = self.visits(partition);
        let [empty, positive, scans] = &self.priors;
        Visits {
            empty: empty.get().expect(counted.empty),
            positive: positive.get().expect(counted.positive),
            scans: scans.get().expect(counted.scans),
        }
    }

    /// Sets what is expected of a partition before anyone came.
    pub(crate) fn inherit(&self, partition: u32, visits: Visits) {
        if let Some(cell) = self.cells.get(partition as usize) {
            let count =
                |visits: f32| (visits * SCALE).round().clamp(0.0, f32::from(u16::MAX)) as u16;
            cell.empty.store(count(visits.empty), Relaxed);
            cell.positive.store(count(visits.positive), Relaxed);
            cell.scans.store(count(visits.scans), Relaxed);
            self.set_past(partition, visits.empty);
            cell.tick.store(self.clock.ticks() as u16, Relaxed);
        }
    }

    /// Visits of all partitions together.
    pub(crate) fn all_visits(&self) -> Visits {
        let mut sum = Visits::default();
        for partition in 0..self.cells.len() {
            sum += self.visits(partition as u32);
        }
        sum
    }

    /// Whether a block of a partition, of so many bytes, is worth its room at the present price; of
    /// a block of columns, whether one column is. What is worth it counts as resident from then on:
    /// for the heat of a table that is being written, whose blocks the cache does not have.
    pub(crate) fn suppose_kept(&self, partition: u32, kind: BlockKind, bytes: usize) -> bool {
        let all = self.columns(kind).max(1);
        let price = self.clock.price() * (bytes as f32 / f32::from(all));
        let worth_it = |columns: &u8| self.worth_of_next(partition, kind, *columns) > price;
        let columns = (1..=all).take_while(worth_it).count() as u8;
        if columns > 0 {
            self.set_resident(partition, kind, columns, true);
        }
        columns > 0
    }

    #[inline]
    fn age(&self, partition: u32, cell: &Cell) {
        let now = self.clock.ticks() as u16;
        let then = cell.tick.load(Relaxed);
        if now != then {
            cell.tick.store(now, Relaxed);
            let kept = kept_after(now.wrapping_sub(then));
            for count in [&cell.empty, &cell.positive, &cell.scans] {
                let before = count.load(Relaxed);
                count.store(faded(before, kept, now), Relaxed);
            }
            self.set_past(partition, self.past(partition) * kept);
        }
    }

    /// The columns a whole block of this kind has.
    pub(super) fn columns(&self, kind: BlockKind) -> u8 {
        match kind {
            BlockKind::Filter(number) => self
                .shapes
                .modules
                .get(usize::from(number))
                .map_or(1, |module| module.columns),
            _ => 1,
        }
    }

    pub(super) fn shrink(&self, block: &[u8], columns: u8) -> Vec<u8> {
        (self.shapes.keep)(block, columns)
    }

    /// The columns in a block, a bit for each.
    pub(super) fn columns_in(&self, block: &[u8]) -> u8 {
        (self.shapes.columns)(block)
    }
}

fn add(count: &AtomicU16, weight: u16) {
    let more = weight.saturating_mul(SCALE as u16);
    count.store(count.load(Relaxed).saturating_add(more), Relaxed);
}

/// So much of a count. Up or down to the next whole one as chance has it (of the tick and the count),
/// since small counts that were always rounded down would fade away sooner than large ones.
fn faded(count: u16, kept: f32, tick: u16) -> u16 {
    let chance = (tick ^ count.rotate_left(8)).wrapping_mul(0x9e37) >> 8;
    (f32::from(count) * kept + f32::from(chance) / 256.0) as u16
}

/// What is left of a count after so many ticks.
fn kept_after(ticks: u16) -> f32 {
    (-f32::from(ticks) / TICKS_PER_HALF_LIFE as f32).exp2()
}
