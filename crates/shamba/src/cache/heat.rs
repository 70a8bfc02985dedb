//! How hot the partitions of a table are, and so what its filter and index blocks are worth.
//!
//! [`Heat`] belongs to an open table's file and outlives the open table. Readers add visits; the
//! cache notes what is resident and asks what a block is worth; readers ask whether a module is
//! worth a read. Everything is a hint in relaxed atomics, and a lost update harms nobody.
//! Thread-safe. The formulas are in `shamba_model::expected_reads`.

mod along;
mod predict;
mod resident;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use shamba_model::expected_reads::{Missing, Partition, Prior, Visits};

pub(crate) use predict::Absent;
use resident::Place;

use super::clock::{Clock, TICKS_PER_HALF_LIFE};
use super::holder::HeldBy;
use super::intern::bytes_of;
use crate::budget::{Budget, Reservation, Role, allocated, shared};
use crate::fs::{BlockKind, PAGE};

/// Modules of which is known how much is resident; later ones count as absent.
pub(crate) const TRACKED: usize = 4;

/// What all partitions of a table say of each is found anew every tick, or less often where there are
/// many.
const PARTITIONS_PER_TICK: usize = 256;

/// Counts are kept in units of 1 / SCALE visits.
const SCALE: f32 = 8.0;

/// A module is worth a read if it repays it within so many windows, provided that it stays.
const HORIZON: f32 = 4.0;

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

/// Who came to one partition.
#[derive(Debug, Default)]
struct Cell {
    empty: AtomicU16,
    positive: AtomicU16,
    scans: AtomicU16,
    /// The tick at which the counts were true.
    tick: AtomicU16,
}

/// A [`Prior`] as bits of its `f32`s.
#[derive(Debug, Default)]
struct SharedPrior {
    mean: AtomicU32,
    spread: AtomicU32,
}

impl SharedPrior {
    fn set(&self, prior: Prior) {
        self.mean.store(prior.mean.to_bits(), Relaxed);
        self.spread.store(prior.spread.to_bits(), Relaxed);
    }

    fn get(&self) -> Prior {
        Prior {
            mean: f32::from_bits(self.mean.load(Relaxed)),
            spread: f32::from_bits(self.spread.load(Relaxed)),
        }
    }
}

/// Cuts a block down to its first so many columns.
pub(crate) type Shrink = fn(&[u8], u8) -> Vec<u8>;

/// What is known of the partitions of one table.
#[derive(Debug)]
pub(crate) struct Heat {
    clock: Arc<Clock>,
    cells: Box<[Cell]>,
    /// For each partition whether its index block is resident, and how much of each tracked module.
    resident: Box<[AtomicU8]>,
    /// The same for most tables.
    modules: Arc<[ModuleShape]>,
    /// What the counts of all partitions say about each: of empty visits, positive ones and scans.
    priors: [SharedPrior; 3],
    /// The tick at which they were true.
    told: AtomicU16,
    index_pages: f32,
    shrink: Shrink,
    /// Who holds on to blocks of the table.
    pub(super) held_by: OnceLock<Box<HeldBy>>,
    _held: Reservation,
}

/// What a block, or the part of it that can be dropped first, is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Worth {
    /// Page reads saved per window.
    pub(super) value: f32,
    /// Columns that would be left without the part; 0: the part is the whole block.
    pub(super) left: u8,
}

impl Heat {
    /// Cold partitions of a table whose blocks go through the cache of this clock.
    pub(crate) fn new(
        clock: Arc<Clock>,
        budget: &Arc<Budget>,
        partitions: usize,
        modules: Arc<[ModuleShape]>,
        index_pages: u32,
        shrink: Shrink,
    ) -> Self {
        let each = resident::counts(&modules);
        let cells = allocated(partitions * size_of::<Cell>());
        let bytes = shared(size_of::<Heat>()) + cells + allocated(partitions * each);
        let bytes = bytes + bytes_of(&modules, size_of_val(&*modules));
        let tick = clock.ticks() as u16;
        let cell = || Cell {
            tick: AtomicU16::new(tick),
            ..Cell::default()
        };
        Heat {
            _held: budget.reserve(Role::Tables, bytes as u64),
            clock,
            cells: (0..partitions).map(|_| cell()).collect(),
            resident: (0..partitions * each).map(|_| AtomicU8::new(0)).collect(),
            modules,
            priors: Default::default(),
            told: AtomicU16::new(tick.wrapping_sub(1)),
            index_pages: index_pages as f32,
            shrink,
            held_by: OnceLock::new(),
        }
    }

    /// The number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Counts `weight` lookups that came to a partition.
    #[inline]
    pub(crate) fn record(&self, partition: u32, positive: bool, weight: u16) {
        self.count(partition, weight, |cell| match positive {
            true => &cell.positive,
            false => &cell.empty,
        });
    }

    /// Counts `weight` scans that looked for their place in a partition.
    pub(crate) fn record_scan(&self, partition: u32, weight: u16) {
        self.count(partition, weight, |cell| &cell.scans);
    }

    /// Whether every visit counts at present, or a sample.
    pub(crate) fn counts_all(&self) -> bool {
        self.clock.counts_all()
    }

    #[inline]
    fn count(&self, partition: u32, weight: u16, of: impl FnOnce(&Cell) -> &AtomicU16) {
        let Some(cell) = self.cells.get(partition as usize) else {
            return;
        };
        self.age(cell);
        let (count, more) = (of(cell), weight.saturating_mul(SCALE as u16));
        count.store(count.load(Relaxed).saturating_add(more), Relaxed);
    }

    /// Visits of a partition in the present window.
    pub(crate) fn visits(&self, partition: u32) -> Visits {
        match self.cells.get(partition as usize) {
            Some(cell) => {
                self.age(cell);
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
        let worth_it = |columns: &u8| self.appraise(partition, kind, *columns).value > price;
        let columns = (1..=all).take_while(worth_it).count() as u8;
        if columns > 0 {
            self.set_resident(partition, kind, columns, true);
        }
        columns > 0
    }

    #[inline]
    fn age(&self, cell: &Cell) {
        let now = self.clock.ticks() as u16;
        let then = cell.tick.load(Relaxed);
        if now != then {
            cell.tick.store(now, Relaxed);
            let kept = kept_after(now.wrapping_sub(then));
            for count in [&cell.empty, &cell.positive, &cell.scans] {
                let before = count.load(Relaxed);
                count.store(faded(before, kept, now), Relaxed);
            }
        }
    }

    /// A partition as a visit meets it, but for module `except`; the best of the other modules
    /// that are missing is the one to read.
    fn partition(&self, place: Place<'_>, visits: Visits, except: Option<usize>) -> Partition {
        let mut partition = Partition {
            visits,
            pass: 1.0,
            missing: None,
            index_pages: self.absent_index(place),
        };
        for (number, module) in self.modules.iter().enumerate() {
            if Some(number) == except {
                continue;
            }
            let pass = self.pass_of(place, number, module);
            partition.pass *= pass;
            let whole = module.fpr.powi(i32::from(module.columns));
            let rest = whole / pass.max(1e-9);
            if rest < 0.9 && partition.missing.is_none_or(|best| rest < best.pass) {
                partition.missing = Some(Missing {
                    pass: rest,
                    pages: f32::from(module.pages),
                });
            }
        }
        partition
    }

    /// What a block is worth; `columns` are those in it, resident or about to be.
    pub(super) fn appraise(&self, partition: u32, kind: BlockKind, columns: u8) -> Worth {
        let nothing = Worth {
            value: 0.0,
            left: 0,
        };
        let Some(place) = self.place(partition) else {
            return nothing;
        };
        let visits = self.expected(partition);
        match kind {
            BlockKind::Index => Worth {
                value: self
                    .partition(place, visits, None)
                    .value_of_index(self.index_pages),
                left: 0,
            },
            BlockKind::Filter(number) => {
                let Some(module) = self.modules.get(usize::from(number)) else {
                    return nothing;
                };
                Worth {
                    value: self.value_of_column(
                        place,
                        visits,
                        usize::from(number),
                        module,
                        columns,
                    ),
                    left: columns.saturating_sub(1),
                }
            }
            _ => nothing,
        }
    }

    /// What the last of so many columns of a module is worth, or a block without columns.
    fn value_of_column(
        &self,
        place: Place<'_>,
        visits: Visits,
        number: usize,
        module: &ModuleShape,
        columns: u8,
    ) -> f32 {
        let mut others = self.partition(place, visits, Some(number));
        let share = 1.0 / f32::from(module.blocks.max(1));
        others.visits.empty *= share;
        others.visits.positive *= share;
        others.pass *= module.fpr.powi(i32::from(columns.saturating_sub(1)));
        let rest = module
            .fpr
            .powi(i32::from(module.columns.saturating_sub(columns)));
        others.value_of_filter(module.fpr, rest, f32::from(module.pages))
    }

    /// The module that a visitor should read more of before it goes on, if any; it has passed
    /// so many columns of each module (`asked`), and may have seen the index block (`past_index`)
    /// already. While there is room for all, any that is missing.
    pub(crate) fn best_to_read(
        &self,
        partition: u32,
        asked: &[u8],
        past_index: bool,
    ) -> Option<usize> {
        let place = self.place(partition)?;
        let modules = || self.modules.iter().zip(asked).enumerate();
        let mut now = self.met(place, self.expected(partition), asked);
        if past_index {
            now.index_pages = 0.0;
        }
        let mut best = None;
        for (number, (module, columns)) in modules() {
            if *columns >= module.columns {
                continue;
            }
            if !self.clock.pressed() {
                return Some(number);
            }
            let saved = self.saved_by_reading(place, &now, number, *columns);
            if saved > 0.0 && best.is_none_or(|(_, most)| saved > most) {
                best = Some((number, saved));
            }
        }
        best.map(|(number, _)| number)
    }

    /// A partition as a visitor met it who has passed so many columns of each module.
    fn met(&self, place: Place<'_>, visits: Visits, asked: &[u8]) -> Partition {
        let passed = self.modules.iter().zip(asked);
        Partition {
            visits,
            pass: passed
                .map(|(module, columns)| module.fpr.powi(i32::from(*columns)))
                .product(),
            missing: None,
            index_pages: self.absent_index(place),
        }
    }

    /// Page reads saved, net, by reading the columns of a module of which a visitor asked but
    /// `have`: now, and later by those that would stay.
    fn saved_by_reading(&self, place: Place<'_>, now: &Partition, number: usize, have: u8) -> f32 {
        let Some(module) = self.modules.get(number) else {
            return 0.0;
        };
        let pages = f32::from(module.pages);
        let net = now.saved_by_fetching(Missing {
            pass: module
                .fpr
                .powi(i32::from(module.columns.saturating_sub(have))),
            pages,
        });
        let price = self.clock.price() * pages * PAGE as f32 / f32::from(module.columns);
        let mut gain = 0.0;
        for columns in have..module.columns {
            let value = self.value_of_column(place, now.visits, number, module, columns + 1);
            if value <= price {
                break;
            }
            gain += value - price;
        }
        net + gain * HORIZON
    }

    /// The columns a whole block of this kind has.
    pub(super) fn columns(&self, kind: BlockKind) -> u8 {
        match kind {
            BlockKind::Filter(number) => self
                .modules
                .get(usize::from(number))
                .map_or(1, |module| module.columns),
            _ => 1,
        }
    }

    pub(super) fn shrink(&self, block: &[u8], columns: u8) -> Vec<u8> {
        (self.shrink)(block, columns)
    }
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
