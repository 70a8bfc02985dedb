//! What is known of the partitions of a table: who visits them, and what of them is resident.
//!
//! [`PartitionStats`] belongs to an open table's file and outlives the open table. Readers record
//! visits; the cache notes what is resident. A decision is made from a [`PartitionView`], which is
//! taken here; the methods named after decisions take one and ask it. Everything is a hint in
//! relaxed atomics: a lost update changes no answer. Thread-safe. The formulas are in
//! `shamba_model::expected_reads`.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use shamba_model::expected_reads::{Prior, Visits};

use super::block_value::PartValue;
use super::decay::{faded, left_after};
use super::fpr_forecast::AbsentValue;
use super::geometry::FilterGeometry;
use super::partition_cell::{Cell, SCALE, SharedPrior, add};
use super::policy_state::PolicyState;
use super::rejections::{ColumnEvidence, Outcome, Rejections, best_columns};
use super::view::{PartitionView, fpr_of_all, resident_fprs};
use crate::base::interner::unpaid_bytes;
use crate::base::once_arc::OnceArc;
use crate::base::pin_holder::{PinHolder, PinHolderSlot};
use crate::budget::{Budget, Reservation, Role, allocated, shared};
use crate::fs::BlockKind;

/// What all partitions of a table say of each is computed anew every tick, or less often where
/// there are many: once in a tick for so many partitions. That bounds the time of a tick. Only felt
/// in tables of more than 256 partitions (128 MB of entries of 64 bytes): half is twice as stale
/// there, double takes twice the time. Priors of every other tick do as well; of every eighth, 1 %
/// more is read where keys are absent.
const PARTITIONS_PER_TICK: usize = 256;

/// What is known of the partitions of one table.
#[derive(Debug)]
pub(crate) struct PartitionStats {
    policy: Arc<PolicyState>,
    cells: Box<[Cell]>,
    geometry: Arc<FilterGeometry>,
    /// What the counts of all partitions say about each: of empty visits, positive ones and scans.
    priors: [SharedPrior; 3],
    /// The tick at which they were true.
    priors_tick: AtomicU16,
    /// 255 for more.
    index_pages: u8,
    /// Whether a lookup came since this was taken last.
    accessed: AtomicBool,
    /// Those of the filter for scans, whose visitors are scans; mostly none.
    scan_filter: OnceArc<PartitionStats>,
    /// Who pins blocks of the table.
    pin_holder: OnceArc<PinHolderSlot>,
    _held: Reservation,
}

impl PartitionStats {
    /// Partitions that nobody visited, of a table whose blocks go through the cache of this policy
    /// state.
    pub(crate) fn new(
        policy: Arc<PolicyState>,
        budget: &Arc<Budget>,
        partitions: usize,
        geometry: Arc<FilterGeometry>,
        index_pages: u32,
    ) -> Self {
        let cells = allocated(partitions * size_of::<Cell>());
        let own = shared(size_of::<PartitionStats>());
        let bytes = own + cells + unpaid_bytes(&geometry, geometry.memory());
        let tick = policy.ticks() as u16;
        let cell = || Cell::at(tick);
        PartitionStats {
            _held: budget.reserve_at_once(Role::Tables, bytes as u64),
            policy,
            cells: (0..partitions).map(|_| cell()).collect(),
            geometry,
            priors: Default::default(),
            priors_tick: AtomicU16::new(tick.wrapping_sub(1)),
            index_pages: u8::try_from(index_pages).unwrap_or(u8::MAX),
            accessed: AtomicBool::new(false),
            scan_filter: OnceArc::new(),
            pin_holder: OnceArc::new(),
        }
    }

    /// The number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Those of the table's filter for scans, if it has one and was opened.
    pub(crate) fn scan_filter(&self) -> Option<Arc<PartitionStats>> {
        self.scan_filter.to_arc()
    }

    /// Makes those of the table's filter for scans, if there are none yet; the same index blocks
    /// count for them.
    pub(crate) fn set_scan_filter(&self, make: impl FnOnce() -> Arc<PartitionStats>) {
        if self.scan_filter.get().is_some() {
            return;
        }
        let scan_filter = make();
        for (own, other) in self.cells.iter().zip(&scan_filter.cells) {
            other.index.store(own.index.load(Relaxed), Relaxed);
        }
        self.scan_filter.get_or_set(scan_filter);
    }

    /// The partition as it is now, aged to the present tick.
    pub(super) fn view(&self, partition: u32) -> Option<PartitionView<'_>> {
        let cell = self.aged(partition)?;
        let visits = cell.visits();
        self.refresh_priors();
        let [empty, positive, scans] = &self.priors;
        let (modules, resident) = (&*self.geometry.modules, cell.resident());
        Some(PartitionView {
            modules,
            visits,
            expected: Visits {
                empty: empty.get().expect(visits.empty),
                positive: positive.get().expect(visits.positive),
                scans: scans.get().expect(visits.scans),
            },
            implied_empty: cell.implied_empty(),
            resident,
            fprs: resident_fprs(modules, &resident),
            index_resident: cell.index.load(Relaxed) != 0,
            index_pages: f32::from(self.index_pages),
            price: self.policy.price(),
            under_pressure: self.policy.under_pressure(),
            active: self.policy.is_active(),
            passing: self.policy.passing(),
            observed: self.policy.observed_fraction(),
        })
    }

    /// Counts `weight` lookups that came to a partition.
    #[inline]
    pub(crate) fn record(&self, partition: u32, outcome: Outcome, weight: u16) {
        let Some(cell) = self.aged(partition) else {
            return;
        };
        let count = match outcome {
            Outcome::Found => &cell.positive,
            Outcome::Rejected | Outcome::FalsePositive | Outcome::Absent => &cell.empty,
        };
        add(count, weight);
        // Readers share the line.
        if !self.accessed.load(Relaxed) {
            self.accessed.store(true, Relaxed);
        }
        let implied = match outcome {
            Outcome::Found => return,
            Outcome::Rejected if weight == 1 => 0.0,
            Outcome::FalsePositive if weight == 1 => {
                1.0 / fpr_of_all(resident_fprs(&self.geometry.modules, &cell.resident()))
            }
            // Where not all of the filter was probed there is but the model; and one of a sample,
            // which stands for many, would refute it.
            _ => f32::from(weight),
        };
        if implied > 0.0 {
            cell.set_implied_empty(cell.implied_empty() + implied);
        }
    }

    /// Counts `weight` scans that looked for their place in a partition.
    pub(crate) fn record_scan(&self, partition: u32, weight: u16) {
        if let Some(cell) = self.aged(partition) {
            add(&cell.scans, weight);
        }
    }

    /// Whether every visit counts at present, or a sample.
    pub(crate) fn count_every_access(&self) -> bool {
        self.policy.count_every_access()
    }

    /// Whether it matters which columns reject visitors: some columns may have to go.
    pub(crate) fn needs_rejections(&self) -> bool {
        self.policy.under_pressure() && self.policy.is_active()
    }

    /// Notes whether a visitor who read a filter block from storage passed it.
    pub(crate) fn note_filter_read(&self, passed: bool) {
        self.policy.note_filter_read(passed);
    }

    /// Visits of a partition in the present window.
    pub(crate) fn visits(&self, partition: u32) -> Visits {
        self.aged(partition)
            .map_or_else(Visits::default, Cell::visits)
    }

    /// Visits of all partitions together.
    pub(crate) fn all_visits(&self) -> Visits {
        let mut sum = Visits::default();
        for partition in 0..self.cells.len() {
            sum += self.visits(partition as u32);
        }
        sum
    }

    /// Whether a lookup was counted since this was taken last.
    pub(crate) fn take_accessed(&self) -> bool {
        self.accessed.load(Relaxed) && self.accessed.swap(false, Relaxed)
    }

    /// Sets what is expected of a partition before anyone came.
    pub(crate) fn inherit(&self, partition: u32, visits: Visits) {
        if let Some(cell) = self.cells.get(partition as usize) {
            let count =
                |visits: f32| (visits * SCALE).round().clamp(0.0, f32::from(u16::MAX)) as u16;
            cell.empty.store(count(visits.empty), Relaxed);
            cell.positive.store(count(visits.positive), Relaxed);
            cell.scans.store(count(visits.scans), Relaxed);
            cell.set_implied_empty(visits.empty);
            cell.tick.store(self.policy.ticks() as u16, Relaxed);
        }
    }

    /// A partition, its counts faded to the present tick.
    #[inline(always)]
    fn aged(&self, partition: u32) -> Option<&Cell> {
        let cell = self.cells.get(partition as usize)?;
        let now = self.policy.ticks() as u16;
        let then = cell.tick.load(Relaxed);
        if now != then {
            cell.tick.store(now, Relaxed);
            let left = left_after(f32::from(now.wrapping_sub(then)));
            for count in [&cell.empty, &cell.positive, &cell.scans] {
                let before = count.load(Relaxed);
                count.store(faded(before, left, now), Relaxed);
            }
            cell.set_implied_empty(cell.implied_empty() * left);
        }
        Some(cell)
    }

    /// Computes what all partitions say of each anew, if that was long ago.
    fn refresh_priors(&self) {
        let now = self.policy.ticks() as u16;
        let age = now.wrapping_sub(self.priors_tick.load(Relaxed));
        if age != 0 && usize::from(age) >= self.cells.len() / PARTITIONS_PER_TICK {
            self.priors_tick.store(now, Relaxed);
            let all = 0..self.cells.len() as u32;
            let [empty, positive, scans] = &self.priors;
            empty.set(Prior::of(all.clone().map(|at| self.visits(at).empty)));
            positive.set(Prior::of(all.clone().map(|at| self.visits(at).positive)));
            scans.set(Prior::of(all.map(|at| self.visits(at).scans)));
        }
    }
}

/// Decisions: what blocks are worth, and what to read.
impl PartitionStats {
    /// What a block is worth; `columns` are those in it, of whose last `evidence` is known.
    pub(crate) fn value_of(
        &self,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        evidence: ColumnEvidence,
    ) -> PartValue {
        let view = self.view(partition);
        view.map_or_else(PartValue::default, |view| {
            view.value_of(kind, columns, evidence)
        })
    }

    /// The module of which a visitor should read more before it goes on, if any; it has passed so
    /// many columns of each module (`probed`), and may have seen the index block already
    /// (`past_index`). While memory is plenty, any that is missing.
    pub(crate) fn best_to_read(
        &self,
        partition: u32,
        probed: &[u8],
        past_index: bool,
    ) -> Option<usize> {
        self.view(partition)?.best_to_read(probed, past_index)
    }

    /// While memory is plenty, the modules of a partition that are not all resident, a bit for
    /// each: they should be read together.
    pub(crate) fn missing_modules(&self, partition: u32) -> Option<u16> {
        // Asked before each read: no view is taken where the answer is known without.
        if self.policy.may_pin() {
            self.view(partition)?.missing_modules()
        } else {
            None
        }
    }

    /// Whether a visitor who reads module `number`, having passed so many columns of each
    /// (`probed`), should read the index block, its neighbour on storage, with it.
    pub(crate) fn coalesces_index(&self, partition: u32, probed: &[u8], number: usize) -> bool {
        let view = self.view(partition);
        view.is_some_and(|view| view.coalesces_index(probed, number))
    }

    /// The chance that a key which a partition does not hold passes all that a lookup will probe
    /// ([`PartitionView::forecast_fpr`]); 0 outside all partitions.
    pub(crate) fn forecast_fpr(&self, partition: u32, limit: usize, by_value: bool) -> f32 {
        if partition as usize >= self.cells.len() {
            return 0.0;
        }
        // A sample of lookups asks while memory is plenty: no view is taken for what is the same of
        // all.
        if by_value && !self.policy.under_pressure() {
            return self.geometry.fpr;
        }
        let view = self.view(partition);
        view.map_or(0.0, |view| view.forecast_fpr(limit, by_value))
    }

    /// What of the table is not resident and worth most, where `blocks` says how many blocks a
    /// module has in a partition. Takes time in the number of partitions.
    pub(crate) fn best_absent(&self, blocks: impl Fn(u32, u8) -> u16) -> AbsentValue {
        let partitions = (0..).map_while(|partition| Some((partition, self.view(partition)?)));
        partitions.fold(AbsentValue::default(), |best, (partition, view)| {
            best.max(view.best_absent(|number| blocks(partition, number)))
        })
    }

    /// Whether a block of a partition, of so many bytes, is worth its room at the present price; of
    /// a block of columns, whether one column is. What is worth it counts as resident from then on:
    /// for the statistics of a table that is being written, whose blocks the cache does not have.
    pub(crate) fn would_keep(&self, partition: u32, kind: BlockKind, bytes: usize) -> bool {
        let Some(view) = self.view(partition) else {
            return false;
        };
        let all = self.columns(kind).max(1);
        let price = view.price * (bytes as f32 / f32::from(all));
        let is_worth = |columns: &u8| view.value_of_next(kind, *columns) > price;
        let columns = (1..=all).take_while(is_worth).count() as u8;
        if columns > 0 {
            self.set_resident(partition, kind, columns, true);
        }
        columns > 0
    }
}

/// What is resident, and what its columns rejected.
impl PartitionStats {
    /// Notes that a block came or went, or how many columns are resident now.
    pub(crate) fn set_resident(&self, partition: u32, kind: BlockKind, columns: u8, here: bool) {
        let Some(cell) = self.cells.get(partition as usize) else {
            return;
        };
        match kind {
            BlockKind::Index => {
                cell.index.store(u8::from(here), Relaxed);
                if let Some(scan_filter) = self.scan_filter.get() {
                    scan_filter.set_resident(partition, kind, columns, here);
                }
            }
            BlockKind::Filter(number) => {
                let number = usize::from(number);
                let module = self.geometry.modules.get(number);
                let (Some(resident), Some(module)) = (cell.resident.get(number), module) else {
                    return;
                };
                let count = resident.load(Relaxed);
                let count = match (module.columns > 1, here) {
                    (true, true) => columns,
                    (true, false) => 0,
                    (false, true) => count.saturating_add(1),
                    (false, false) => count.saturating_sub(1),
                };
                resident.store(count, Relaxed);
            }
            _ => {}
        }
    }

    /// Takes back what [`Self::would_keep`] noted as resident.
    pub(crate) fn clear_resident(&self, partition: u32) {
        if let Some(cell) = self.cells.get(partition as usize) {
            cell.index.store(0, Relaxed);
            let resident = cell.resident.iter();
            resident.for_each(|count| count.store(0, Relaxed));
        }
    }

    /// The number of empty visits for which one sole rejection by a block's last column stands.
    pub(crate) fn visits_per_sole_rejection(&self, partition: u32, kind: BlockKind) -> f32 {
        let view = self.view(partition);
        view.map_or(0.0, |view| view.visits_per_sole_rejection(kind))
    }

    /// The last column of a block is evicted, which had so many sole rejections. Gives those to
    /// expect of the one that is the last then.
    pub(crate) fn note_eviction(
        &self,
        partition: u32,
        kind: BlockKind,
        sole_rejections: f32,
    ) -> f32 {
        let view = self.view(partition);
        let after = view.and_then(|view| view.after_eviction(kind, sole_rejections));
        self.note_rejections(partition, after)
    }

    /// These columns of a block are about to be resident (those there before among them), of which
    /// some rejected the visitor it was read for (`rejected_by`). Gives the sole rejections to
    /// expect of the last of them.
    pub(crate) fn note_insert(
        &self,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        rejected_by: u8,
    ) -> f32 {
        let view = self.view(partition);
        let after = view.and_then(|view| view.after_insert(kind, columns, rejected_by));
        self.note_rejections(partition, after)
    }

    fn note_rejections(&self, partition: u32, after: Option<Rejections>) -> f32 {
        let Some((cell, after)) = self.cells.get(partition as usize).zip(after) else {
            return 0.0;
        };
        if let Some(implied_empty) = after.implied_empty {
            cell.set_implied_empty(implied_empty);
        }
        after.sole_rejections
    }

    /// The columns that a whole block of this kind has.
    pub(crate) fn columns(&self, kind: BlockKind) -> u8 {
        match kind {
            BlockKind::Filter(number) => self
                .geometry
                .modules
                .get(usize::from(number))
                .map_or(1, |module| module.columns),
            _ => 1,
        }
    }

    /// The columns to keep of a whole block, if so many may stay: those that are resident (`had`),
    /// those that rejected the visitor it was read for, the others.
    pub(crate) fn best_columns(&self, kind: BlockKind, count: u8, had: u8, rejected_by: u8) -> u8 {
        best_columns(self.columns(kind), count, had, rejected_by)
    }

    /// A block cut down to some of its columns.
    pub(crate) fn keep_columns(&self, block: &[u8], columns: u8) -> Vec<u8> {
        (self.geometry.keep)(block, columns)
    }

    /// The columns in a block, a bit for each.
    pub(crate) fn columns_in(&self, block: &[u8]) -> u8 {
        (self.geometry.columns)(block)
    }

    /// Somebody pins blocks of the table from now on, in the place of who did before.
    pub(crate) fn set_pin_holder(&self, holder: Weak<dyn PinHolder>) {
        let slot = self.pin_holder.get();
        slot.unwrap_or_else(|| self.pin_holder.get_or_set(Arc::default()))
            .set(holder);
    }

    /// Tells who pins blocks of the table to let go of them.
    #[cold]
    pub(crate) fn unpin_all(&self) {
        if let Some(slot) = self.pin_holder.get() {
            slot.unpin_all();
        }
    }
}
