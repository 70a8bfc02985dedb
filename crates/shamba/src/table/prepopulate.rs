//! What a table that is being written hands on to its readers: how hot its partitions will be, and
//! those of its blocks that will be worth their room in memory, so that nobody has to read them
//! back. While memory is plenty that is all of them: what was just written is read from there.
//!
//! Protocol: the builder gets a [`Prepopulation`] with its options and gives a [`Prepared`] with
//! its summary. [`Prepared::slot`] makes the file's slot, before the file is shown to readers;
//! [`Prepared::prepopulate`] offers the blocks to the cache, after it. Blocks are held within the
//! room of their [`Prepopulation`]; where memory is short they are left out. Data is not held: it
//! is more, and goes to the cache at once, which can drop it, under the number that the file will
//! have there; a table that is not shown to readers takes it along. All of it is hints: without a
//! `Prepopulation` a table is the same to the byte.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use shamba_model::expected_reads::Visits;

use super::reader::{Table, new_partition_stats, shapes};
use super::slot::TableSlot;
use super::top_index::{ParsedTop, TopIndex};
use crate::budget::{Budget, Reservation, Role};
use crate::cache::{BlockCache, BlockKey, Owner, Priority};
use crate::filter::{self, FilterPlan};
use crate::fs::{BlockKind, PAGE};
use crate::value::{FilterGeometry, ModuleGeometry, PartitionStats, PolicyState};

/// What a kept block takes over its bytes.
const OVERHEAD: usize = size_of::<KeptBlock>() + 16;

/// A range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeySpan<'a> {
    /// Where it starts.
    pub(crate) first: &'a [u8],
    /// Whether `first` itself is outside.
    pub(crate) open: bool,
    /// Where it ends, inclusive.
    pub(crate) last: &'a [u8],
}

impl KeySpan<'_> {
    /// Whether it starts at or before a key.
    pub(crate) fn starts_by(&self, key: &[u8]) -> bool {
        if self.open {
            self.first < key
        } else {
            self.first <= key
        }
    }
}

/// Who knows what visits are to be expected.
pub(crate) trait InheritedVisits: Debug + Send + Sync {
    /// About the visits that will come to a partition of this range.
    fn visits(&self, span: KeySpan<'_>) -> Visits;
    /// About how often a page of so many entries, of which one is `key`, will be read.
    fn page_reads(&self, key: &[u8], entries: usize) -> f32;
}

/// What tables of one flush or compaction may keep for the cache. Clones share the room.
#[derive(Debug, Clone)]
pub(crate) struct Prepopulation {
    expect: Arc<dyn InheritedVisits>,
    clock: Arc<PolicyState>,
    budget: Arc<Budget>,
    room: Arc<PrepopulationRoom>,
    /// None where only statistics are handed on.
    cache: Option<Arc<BlockCache>>,
}

/// The memory of kept blocks.
#[derive(Debug)]
struct PrepopulationRoom {
    held: Mutex<Reservation>,
    most: u64,
}

impl PrepopulationRoom {
    fn take(&self, bytes: usize) -> bool {
        let mut held = self.held.lock();
        held.bytes() + bytes as u64 <= self.most && held.try_grow(bytes as u64)
    }

    fn give_back(&self, bytes: usize) {
        self.held.lock().shrink(bytes as u64);
    }

    /// Whether all flushes and merges together hold less than one of them may.
    fn leaves_room_for_others(&self) -> bool {
        let held = self.held.lock();
        held.budget().used_by(Role::Compaction) < self.most
    }
}

impl Prepopulation {
    /// Keeps at most `most` bytes of filters and indexes, and data; with none, only statistics of
    /// partitions are prepared.
    pub(crate) fn new(
        expect: Arc<dyn InheritedVisits>,
        cache: &Arc<BlockCache>,
        most: u64,
    ) -> Self {
        let budget = Arc::clone(cache.budget());
        Prepopulation {
            expect,
            clock: Arc::clone(cache.policy()),
            room: Arc::new(PrepopulationRoom {
                held: Mutex::new(budget.reserve(Role::Compaction, 0)),
                most,
            }),
            cache: (most > 0).then(|| Arc::clone(cache)),
            budget,
        }
    }

    /// Whether blocks are kept whatever is expected of them.
    fn keeps_all(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.has_room())
    }
}

/// The data of a new table in the cache.
#[derive(Debug)]
struct NewData {
    cache: Arc<BlockCache>,
    /// The number of the file there.
    file: u64,
    /// Whether there is any that readers will not find.
    astray: bool,
}

impl NewData {
    fn offer(&mut self, page: u32, partition: u32, bytes: &[u8], reads: f32) {
        let key = BlockKey {
            file: self.file,
            page,
        };
        let mut priority = Priority::Unasked;
        if reads > 0.0 {
            self.cache.expect_reads(&key, reads);
            priority = Priority::Low;
        }
        let owner = Owner {
            key,
            kind: BlockKind::Data,
            priority,
            partitions: None,
            partition,
            rejected_by: 0,
        };
        self.astray |= self.cache.offer(owner, bytes);
    }
}

impl Drop for NewData {
    fn drop(&mut self) {
        if self.astray {
            self.cache.remove_file(self.file);
        }
    }
}

/// A block that will be worth its room.
#[derive(Debug)]
struct KeptBlock {
    page: u32,
    partition: u32,
    kind: BlockKind,
    bytes: Box<[u8]>,
}

/// A table's partitions and kept blocks, until it is installed.
#[derive(Debug)]
pub(crate) struct Prepared {
    plan: FilterPlan,
    top: TopIndex,
    smallest: Box<[u8]>,
    blocks: Vec<KeptBlock>,
    room: Arc<PrepopulationRoom>,
    data: Option<NewData>,
    /// What of the room is held for all of this.
    charge: usize,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.room.give_back(self.charge);
    }
}

/// Chooses blocks while a table is written. Protocol: for each partition `begin`, `offer`
/// for each block, `end`; then [`Prepopulator::finish`].
pub(super) struct Prepopulator {
    keep: Prepopulation,
    /// One partition as hot as the one being written will be, with what was kept of it; none where
    /// nobody is expected.
    now: Option<PartitionStats>,
    partition: u32,
    active: bool,
    /// Where the partition before ends.
    from: Vec<u8>,
    blocks: Vec<KeptBlock>,
    data: Option<NewData>,
    charge: usize,
}

impl Prepopulator {
    pub(super) fn new(keep: Prepopulation) -> Self {
        Prepopulator {
            data: keep.cache.as_ref().map(|cache| NewData {
                cache: Arc::clone(cache),
                file: cache.new_file_id(),
                astray: false,
            }),
            keep,
            now: None,
            partition: 0,
            active: false,
            from: Vec::new(),
            blocks: Vec::new(),
            charge: 0,
        }
    }

    /// A partition of so many keys is about to be written out, of a table that starts with
    /// `smallest`; its keys end at `last`.
    pub(super) fn begin(&mut self, smallest: &[u8], last: &[u8], plan: &FilterPlan, keys: usize) {
        let open = self.partition > 0;
        let span = KeySpan {
            first: if open { &self.from } else { smallest },
            open,
            last,
        };
        let visits = match self.keep.room.most {
            0 => Visits::default(),
            _ => self.keep.expect.visits(span),
        };
        self.active = !visits.is_none();
        if self.active {
            let keep = &self.keep;
            let partition_stats = self.now.get_or_insert_with(|| {
                let shapes = shapes_of(plan, keys);
                let clock = Arc::clone(&keep.clock);
                PartitionStats::new(clock, &keep.budget, 1, shapes, 1)
            });
            partition_stats.clear_resident(0);
            partition_stats.inherit(0, visits);
        }
        self.from.clear();
        self.from.extend_from_slice(last);
    }

    /// A data block of so many entries, of which one is `key`, was written at a page.
    pub(super) fn offer_data(&mut self, page: u32, bytes: &[u8], key: &[u8], entries: usize) {
        let Some(data) = &mut self.data else {
            return;
        };
        let reads = self.keep.expect.page_reads(key, entries);
        if reads > self.keep.clock.price() * bytes.len() as f32 || self.keep.keeps_all() {
            data.offer(page, self.partition, bytes, reads);
        }
    }

    /// A filter or index block was written at a page.
    pub(super) fn offer(&mut self, page: u32, kind: BlockKind, bytes: &[u8]) {
        let charge = bytes.len() + OVERHEAD;
        let hot = self.now.as_ref().filter(|_| self.active);
        let hot = hot.is_some_and(|stats| stats.would_keep(0, kind, bytes.len()));
        let room = &self.keep.room;
        if (hot || self.keep.keeps_all() && room.leaves_room_for_others()) && room.take(charge) {
            self.charge += charge;
            self.blocks.push(KeptBlock {
                page,
                partition: self.partition,
                kind,
                bytes: bytes.into(),
            });
        }
    }

    /// Bytes of keys that are held.
    pub(super) fn key_bytes(&self) -> usize {
        self.from.capacity()
    }

    /// The partition is done.
    pub(super) fn end(&mut self) {
        self.partition += 1;
    }

    /// What is handed on, with the table's encoded top-level index, of so many modules; nothing
    /// where there is no room for it. Of long keys that begin alike blocks are, and ranges are not.
    pub(super) fn finish(
        mut self,
        (top, modules): (&[u8], usize),
        plan: &FilterPlan,
        pages: u32,
        smallest: &[u8],
    ) -> Option<Prepared> {
        let top = ParsedTop::of(top, modules, pages).ok()?;
        let charge =
            top.memory() + smallest.len() + size_of::<Prepared>() + size_of_val(&*plan.modules);
        let known = !top.is_front_coded() || self.keep.keeps_all();
        if !known || !self.keep.room.take_essential(charge) {
            return None;
        }
        let top = top.build();
        let blocks = std::mem::take(&mut self.blocks);
        let charge = std::mem::take(&mut self.charge) + charge;
        Some(Prepared {
            plan: plan.clone(),
            top,
            smallest: smallest.into(),
            blocks,
            room: Arc::clone(&self.keep.room),
            data: self.data.take(),
            charge,
        })
    }
}

impl Drop for Prepopulator {
    fn drop(&mut self) {
        self.keep.room.give_back(self.charge);
    }
}

impl PrepopulationRoom {
    /// Room for what is small and needed for the rest to be of use.
    fn take_essential(&self, bytes: usize) -> bool {
        self.held.lock().try_grow(bytes as u64)
    }
}

impl Prepared {
    /// The ranges of the partitions, ascending; none where keys are long and begin alike.
    pub(crate) fn spans(&self) -> impl Iterator<Item = KeySpan<'_>> {
        spans(&self.top, &self.smallest)
    }

    /// The file's slot, with the statistics that its partitions inherit, in their order.
    pub(crate) fn slot(
        &self,
        cache: &BlockCache,
        visits: impl IntoIterator<Item = Visits>,
    ) -> TableSlot {
        let partition_stats = new_partition_stats(cache, &self.plan, &self.top);
        for (partition, visits) in (0..).zip(visits) {
            partition_stats.inherit(partition, visits);
        }
        let file = self.data.as_ref().map(|data| data.file);
        let file = file.unwrap_or_else(|| cache.new_file_id());
        TableSlot::with_partition_stats(file, Arc::new(partition_stats), cache.budget())
    }

    /// Offers the blocks to the cache, in the name of the file of this slot.
    pub(crate) fn prepopulate(&mut self, cache: &BlockCache, slot: &TableSlot) {
        let Some(partition_stats) = slot.partition_stats() else {
            return;
        };
        if let Some(data) = &mut self.data {
            data.astray = false;
        }
        for block in std::mem::take(&mut self.blocks) {
            let charge = block.bytes.len() + OVERHEAD;
            self.charge = self.charge.saturating_sub(charge);
            self.room.give_back(charge);
            let owner = Owner {
                key: BlockKey {
                    file: slot.cache_id(),
                    page: block.page,
                },
                kind: block.kind,
                priority: Priority::of(block.kind),
                partitions: Some(&partition_stats),
                partition: block.partition,
                rejected_by: 0,
            };
            cache.offer(owner, &block.bytes);
        }
    }
}

impl Table {
    /// The ranges of its partitions, ascending; none where keys are long and begin alike.
    /// `smallest` is its smallest key.
    pub(crate) fn spans<'a>(&'a self, smallest: &'a [u8]) -> impl Iterator<Item = KeySpan<'a>> {
        spans(&self.top, smallest)
    }
}

fn spans<'a>(top: &'a TopIndex, smallest: &'a [u8]) -> impl Iterator<Item = KeySpan<'a>> {
    (0..top.len()).map_while(move |number| {
        Some(KeySpan {
            first: match number.checked_sub(1) {
                Some(before) => top.whole_separator(before)?,
                None => smallest,
            },
            open: number > 0,
            last: top.whole_separator(number)?,
        })
    })
}

/// About the shapes of a plan's modules over so many keys.
fn shapes_of(plan: &FilterPlan, keys: usize) -> Arc<FilterGeometry> {
    let shape = |module: &filter::ModulePlan| {
        let bytes = keys as u64 * u64::from(module.millibits) / 8000;
        let pages = u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let (blocks, pages) = filter::division(module, plan.layout, pages.max(1));
        ModuleGeometry {
            fpr: filter::column_fpr(module),
            columns: module.columns,
            blocks,
            pages,
        }
    };
    shapes(plan, plan.modules.iter().map(shape))
}
