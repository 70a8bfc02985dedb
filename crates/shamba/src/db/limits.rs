//! The part of maintenance that keeps module limits: it ends epochs of the files' statistics and
//! asks the keyspace's controller, then and at each change of the tree.
//!
//! An epoch is a number of lookups of a keyspace. Lookups count themselves here, some at a time; who
//! counts the last of an epoch wakes the threads, or, when there are none, ends it itself. One
//! thread at a time decides limits, under a lock that readers never wait for and that is held while
//! a new version is published, so that the controller sees versions in their order and readers see
//! no file without its limit.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::DbInner;
use super::filters::filter_bits;
use super::keyspace::KeyspaceInner;
use crate::base::sample;
use crate::filter::{FileContext, FilterOptions, FilterPlan, choose};
use crate::options::KeyspaceOptions;
use crate::policy::{FileView, FilterPolicy, ModuleController, rates};
use crate::version::{FileMeta, Version};

/// An epoch is at least so many lookups for each file, so that ending it costs each lookup little.
const LOOKUPS_PER_FILE: u64 = 4;

/// A keyspace's limits.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Lookups since the last epoch ended.
    lookups: AtomicU64,
    /// The lookups of an epoch of the present tree.
    epoch_lookups: AtomicU64,
    least_lookups: u64,
    /// Whether lookups weigh by themselves what to read.
    by_worth: AtomicBool,
    decider: Mutex<Decider>,
}

#[derive(Debug)]
struct Decider {
    controller: Box<dyn ModuleController>,
    epoch: u64,
    /// The filters of new tables.
    wish: FilterOptions,
    /// Whether their bits depend on their place in the tree.
    by_place: bool,
    /// Rates by plan; there are as many plans as there were settings.
    known: HashMap<FilterPlan, Arc<[f64]>>,
}

impl Limits {
    /// Limits for the files of a keyspace that is opened, set.
    pub(super) fn new(options: &KeyspaceOptions, version: &Version) -> Self {
        let limits = Limits {
            lookups: AtomicU64::new(0),
            epoch_lookups: AtomicU64::new(u64::MAX),
            least_lookups: options.epoch_lookups,
            by_worth: AtomicBool::new(options.filter_policy == FilterPolicy::ExpectedReads),
            decider: Mutex::new(Decider {
                controller: options.filter_policy.controller(),
                epoch: 0,
                wish: options.filter_wish(),
                by_place: options.filter.allocation.rule().is_some(),
                known: HashMap::new(),
            }),
        };
        limits.publish(version, || ());
        limits
    }

    /// Whether lookups weigh by themselves what to read.
    #[inline]
    pub(super) fn by_worth(&self) -> bool {
        self.by_worth.load(Relaxed)
    }

    /// Decides by another policy from now on, at first for the version that `present` gives. What
    /// was counted of files stays; what the controller before remembered is gone.
    pub(super) fn set_policy(&self, policy: FilterPolicy, present: impl FnOnce() -> Arc<Version>) {
        let mut decider = self.decider.lock();
        decider.controller = policy.controller();
        self.decide(&mut decider, &present());
        let by_worth = policy == FilterPolicy::ExpectedReads;
        self.by_worth.store(by_worth, Relaxed);
    }

    /// Supposes from now on that files which nobody opened have the filters of these options.
    pub(super) fn set_wish(&self, wish: FilterOptions) {
        self.decider.lock().wish = wish;
    }

    /// Sets the limits of a version, then lets `publish` show it to readers.
    pub(super) fn publish(&self, version: &Version, publish: impl FnOnce()) {
        let mut decider = self.decider.lock();
        self.decide(&mut decider, version);
        publish();
    }

    fn decide(&self, decider: &mut Decider, version: &Version) {
        let files = version.runs().flat_map(|(level, run)| {
            let files = run.files().iter();
            files.map(move |file| (level as u32, file))
        });
        let views: Vec<_> = files
            .map(|(level, file)| decider.view(file, level))
            .collect();
        let epoch = self
            .least_lookups
            .max(views.len() as u64 * LOOKUPS_PER_FILE);
        self.epoch_lookups.store(epoch, Relaxed);
        let limits = decider.controller.limits(&views, decider.epoch);
        for (file, limit) in version.files().zip(limits) {
            file.stats.set_module_limit(limit);
        }
    }

    /// Counts lookups; whether an epoch is over with them.
    fn count(&self, lookups: u64) -> bool {
        let before = self.lookups.fetch_add(lookups, Relaxed);
        let epoch = self.epoch_lookups.load(Relaxed);
        before < epoch && before.saturating_add(lookups) >= epoch
    }
}

impl Decider {
    fn rates_of(&mut self, plan: &FilterPlan) -> Arc<[f64]> {
        if let Some(rates) = self.known.get(plan) {
            return rates.clone();
        }
        let found = rates(plan);
        self.known.insert(plan.clone(), found.clone());
        found
    }

    fn view(&mut self, file: &FileMeta, level: u32) -> FileView {
        let rates = match file.slot.peek() {
            // As of a file written now for the level.
            None => {
                let context = FileContext {
                    level,
                    expected_entries: file.entries,
                    bits_per_key: self.by_place.then(|| filter_bits(file)),
                };
                let plan = choose(&self.wish, &context).likeliest();
                self.rates_of(&plan)
            }
            Some(table) => self.rates_of(table.plan()),
        };
        let hotness = file.stats.hotness();
        FileView {
            number: file.number,
            hotness: hotness.map(|hotness| (hotness.access, hotness.positive)),
            last_access: file.stats.last_access(),
            rates,
        }
    }
}

impl DbInner {
    /// Counts point lookups of a keyspace, and those that found a value.
    #[inline]
    pub(crate) fn count_lookups(&self, keyspace: &KeyspaceInner, lookups: u64, found: u64) {
        keyspace.operations.add_lookups(lookups, found);
        thread_local! {
            /// Lookups gathered, of any keyspace, and how many are to be counted at once: else all
            /// threads would share a line.
            static UNCOUNTED: Cell<(u64, u64)> = const { Cell::new((0, sample::SAMPLE)) };
        }
        let (before, batch) = UNCOUNTED.get();
        let gathered = before + lookups;
        if gathered < batch {
            UNCOUNTED.set((gathered, batch));
            return;
        }
        UNCOUNTED.set((0, sample::batch()));
        if keyspace.limits.count(gathered) {
            if self.options.background_threads == 0 {
                end_epoch(keyspace);
                self.after_reads(keyspace);
            } else {
                self.signal.notify();
            }
        }
    }

    /// Ends the epochs that are over.
    pub(crate) fn end_epochs(&self) {
        self.all_keyspaces()
            .iter()
            .for_each(|keyspace| end_epoch(keyspace));
    }
}

/// Ends the keyspace's epoch if it is over and no other thread is at it.
fn end_epoch(keyspace: &KeyspaceInner) {
    let limits = &keyspace.limits;
    if limits.lookups.load(Relaxed) < limits.epoch_lookups.load(Relaxed) {
        return;
    }
    let Some(mut decider) = limits.decider.try_lock() else {
        return;
    };
    let lookups = limits.lookups.swap(0, Relaxed);
    decider.epoch += 1;
    keyspace.of_late();
    let version = keyspace.state.load().version.clone();
    for file in version.files() {
        file.stats.end_epoch(decider.epoch, lookups);
    }
    limits.decide(&mut decider, &version);
}

#[cfg(test)]
mod tests;
