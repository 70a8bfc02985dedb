//! Blocks that an open table holds on to while memory is plenty: filters and indexes of its
//! partitions, found without the block cache's hash tables, locks and reference counts, and parsed.
//!
//! The blocks stay the cache's and charged as they are. [`Opened`] is an open table with what is
//! pinned of it, immutable but for counters, and replaced as a whole: by [`Opened::pin_cached`]
//! once enough of a sample of lookups found something not pinned, and by
//! [`PartitionStats::unpin_all`] at once when the cache, making room, comes upon a block that is
//! held for this. Nothing is pinned while memory is short or recency decides, and readers then do
//! not look at what still is: what they do counts in the cache as ever. While it is plenty, the
//! blocks' uses only serve to keep time, which a sample does too. Thread-safe.
//!
//! Protocol: a [`Get`](super::get::Get) is given what is pinned, where it may be used, and takes
//! what is not from the cache; lookups of a sample then say which partition they came to
//! ([`Opened::counts_as_missed`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::reader::{OPENED_BYTES, Table};
use crate::budget::{Reservation, Role, allocated, shared};
use crate::cache::Block;
use crate::filter::{self, Parsed};

/// An open table, and what is pinned of it.
#[derive(Debug)]
pub(crate) struct Opened {
    table: Arc<Table>,
    pinned: Option<Box<Pinned>>,
    /// Lookups of the sample that found something not pinned.
    missed: AtomicU32,
    /// After so many of them it is pinned.
    patience: u32,
}

const _: () = assert!(shared(size_of::<Opened>()) == OPENED_BYTES);

/// Pinning is tried after so many lookups of the sample at least, and no more than so many times as
/// many as at first.
const PATIENCE: (u32, u32) = (8, 64);

/// Looking for all blocks of a table takes about as long as the lookups that miss them.
fn first_patience(table: &Table) -> u32 {
    (table.top.len() as u32).max(PATIENCE.0)
}

/// Blocks of a table.
#[derive(Debug)]
pub(crate) struct Pinned {
    /// The modules of each partition, where all that there is of them is in memory.
    filters: Box<[Option<Parsed<Block>>]>,
    /// The index block of each partition.
    indexes: Box<[Option<Block>]>,
    /// Blocks and modules of these.
    count: usize,
    _held: Reservation,
}

impl Opened {
    /// A table of which nothing is pinned.
    pub(super) fn new(table: Arc<Table>) -> Self {
        Opened {
            missed: AtomicU32::new(0),
            patience: first_patience(&table),
            pinned: None,
            table,
        }
    }

    /// The table.
    #[inline]
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What is pinned.
    #[inline]
    pub(crate) fn pinned(&self) -> Option<&Pinned> {
        self.pinned.as_deref()
    }

    /// Counts a lookup of the sample that came to a partition, if something of that is not pinned.
    /// Whether so many did that pinning what is in memory is worth its time.
    pub(super) fn counts_as_missed(&self, partition: usize) -> bool {
        if self.is_whole(partition) {
            return false;
        }
        let missed = self.missed.fetch_add(1, Relaxed).wrapping_add(1);
        missed.is_multiple_of(self.patience)
    }

    /// The same table, with all pinned that is in memory; `None` without memory for the list.
    pub(super) fn pin_cached(&self) -> Option<Opened> {
        let table = Arc::clone(&self.table);
        let pinned = Pinned::of(&table)?;
        let had = self.pinned.as_ref().map_or(0, |pinned| pinned.count);
        // Tried again soon while that helps, else ever more seldom.
        let patience = if pinned.count > had {
            self.patience
        } else {
            (self.patience.saturating_mul(2)).min(first_patience(&table) * PATIENCE.1)
        };
        Some(Opened {
            table,
            pinned: Some(pinned),
            missed: AtomicU32::new(0),
            patience,
        })
    }

    /// Whether a partition has nothing that could be pinned beside what is.
    fn is_whole(&self, partition: usize) -> bool {
        let modules = self.table.plan.modules.len();
        self.pinned.as_ref().is_some_and(|pinned| {
            let mut filters = partition * modules..(partition + 1) * modules;
            pinned.index(partition).is_some() && filters.all(|at| pinned.filter(at).is_some())
        })
    }
}

impl Pinned {
    /// What is in the cache of a table's filters and indexes; `None` without memory for the list.
    fn of(table: &Table) -> Option<Box<Pinned>> {
        // The pages at which the blocks of a module start.
        let (partitions, modules) = (table.top.len(), table.plan.modules.len());
        let division = |partition, number, plan| {
            let pages = table.top.module(partition, number).unwrap_or(0..0);
            let (blocks, each) = filter::division(plan, table.plan.layout, pages.len() as u32);
            pages.step_by(each.max(1).into()).take(blocks.into())
        };
        // What the lists take.
        let plans = || table.plan.modules.iter().enumerate();
        let blocks = (0..partitions)
            .flat_map(|partition| plans().map(move |(number, plan)| (partition, number, plan)))
            .map(|(partition, number, plan)| division(partition, number, plan).len());
        let lists = blocks.map(|count| allocated(count * size_of::<Block>()));
        let filters = partitions * modules * size_of::<Option<Parsed<Block>>>();
        let indexes = partitions * size_of::<Option<Block>>();
        let bytes = lists.sum::<usize>()
            + [size_of::<Pinned>(), filters, indexes]
                .map(allocated)
                .iter()
                .sum::<usize>();
        let held = table
            .blocks
            .cache()
            .budget()
            .try_reserve_now(Role::Tables, bytes as u64)?;
        // What is in memory of them.
        let mut filters = Vec::with_capacity(partitions * modules);
        let mut indexes = Vec::with_capacity(partitions);
        let mut count = 0;
        for partition in 0..partitions {
            for (number, plan) in plans() {
                let blocks = division(partition, number, plan).map(|page| table.blocks.peek(page));
                let blocks: Option<Vec<Block>> = blocks.collect();
                let parsed = blocks.and_then(|blocks| Parsed::new(plan, number, blocks));
                count += usize::from(parsed.is_some());
                filters.push(parsed);
            }
            let place = table.top.get(partition);
            let index = place.and_then(|place| table.blocks.peek(place.index_page));
            count += usize::from(index.is_some());
            indexes.push(index);
        }
        Some(Box::new(Pinned {
            filters: filters.into_boxed_slice(),
            indexes: indexes.into_boxed_slice(),
            count,
            _held: held,
        }))
    }

    /// A module of a partition's filter, if it is pinned. They are counted through all partitions:
    /// the first of a partition is at its number times how many modules there are.
    #[inline]
    pub(super) fn filter(&self, at: usize) -> Option<&Parsed<Block>> {
        self.filters.get(at)?.as_ref()
    }

    /// The index block of a partition.
    #[inline]
    pub(super) fn index(&self, partition: usize) -> Option<&Block> {
        self.indexes.get(partition)?.as_ref()
    }
}
