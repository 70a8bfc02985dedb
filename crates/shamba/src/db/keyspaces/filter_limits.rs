//! The part of maintenance that keeps module limits: it ends epochs and asks the keyspace's
//! controller, then and at each change of the tree, how hot files are being told.
//!
//! An epoch is a number of lookups of a keyspace. Lookups count themselves here, some at a time;
//! who counts the last of an epoch wakes the threads, or, when there are none, ends it itself. One
//! thread at a time decides limits, under a lock that readers never wait for and that is held while
//! a new version is published, so that the controller sees versions in their order and readers see
//! no file without its limit; but for what came while memory did not hold a list of all files,
//! which is read in full until there is room again. Under a controller that looks at no files, such
//! as the default's, nobody goes through them: a version is published without the lock, and an
//! epoch ends with its lookups counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use shamba_model::expected_reads::Visits;

use super::KeyspaceInner;
use crate::budget::{Budget, Reservation, Role};
use crate::filter::{FileContext, FilterPlan, PlanOptions, choose};
use crate::options::KeyspaceOptions;
use crate::policy::{EVERY_MODULE, FileView, FilterPolicy, ModuleController, Rates};
use crate::table::{ModuleReads, PAGE_PAYLOAD};
use crate::value::{Hotness, PolicyState, RecentLookups, lookups_among};
use crate::version::{FileMeta, Version};

/// An epoch is at least so many lookups for each file, so that ending it costs each lookup little;
/// and few, so that under policies that ask who was not asked for an epoch some file is found.
const LOOKUPS_PER_FILE: u64 = 1;

/// And at least one for so many entries: partitions have some thousands, and what all of them count
/// is summed up at the end of an epoch.
const ENTRIES_PER_LOOKUP: u64 = 1 << 14;

/// A keyspace's limits.
#[derive(Debug)]
pub(in crate::db) struct Limits {
    /// Lookups since the last epoch ended.
    lookups: AtomicU64,
    /// The lookups of an epoch of the present tree.
    epoch_lookups: AtomicU64,
    least_lookups: AtomicU64,
    /// Lookups of the epochs that have ended, fading.
    recent: RecentLookups,
    /// The time by which they fade: the cache's, as for what partitions count.
    time: Arc<PolicyState>,
    /// Whether the controller looks at files and sets limits: else nobody goes through them.
    sets_limits: AtomicBool,
    /// What the controller says of all lookups ([`ModuleController::reads_as_valued`]).
    as_valued: AtomicBool,
    decider: Mutex<Decider>,
}

#[derive(Debug)]
struct Decider {
    policy: FilterPolicy,
    controller: Box<dyn ModuleController>,
    /// What the controller remembers of files.
    remembered: Reservation,
    epoch: u64,
    /// The filters of new tables.
    wish: PlanOptions,
    /// Whether their bits depend on their place in the tree.
    by_place: bool,
    /// The rates that a controller was told, none before it looked at a file.
    rates: Option<Box<KnownRates>>,
}

/// False-positive rates of filters, each worked out once.
#[derive(Debug, Default)]
struct KnownRates {
    /// Of modules.
    rates: Rates,
    /// Those of whole filters: of some of the tables that are open.
    known: HashMap<FilterPlan, Arc<[f64]>>,
    /// And of files that nobody opened, by level and, where those depend on the place, bits per key
    /// in steps of 1 / [`GUESS_STEPS`], and columns to a page.
    guessed: HashMap<(u32, Option<u32>, u8), Arc<[f64]>>,
}

/// A bit per key more or less doubles a rate or halves it, and what is told of a file that nobody
/// opened is a guess: in quarters of a bit there are few to make, each once.
const GUESS_STEPS: f64 = 4.0;

/// The most filters that are known. Tables have as many as there were settings, and a few for each
/// where a module's size follows the keys; past that the rates of each module still are.
const MOST_KNOWN: usize = 1024;

impl Limits {
    /// Limits for the files of a keyspace that is opened, set.
    pub(in crate::db) fn new(
        options: &KeyspaceOptions,
        version: &Version,
        budget: &Arc<Budget>,
        time: &Arc<PolicyState>,
    ) -> Self {
        let controller = options.filter_policy.controller();
        let limits = Limits {
            lookups: AtomicU64::new(0),
            epoch_lookups: AtomicU64::new(u64::MAX),
            least_lookups: AtomicU64::new(options.epoch_lookups),
            recent: RecentLookups::default(),
            time: Arc::clone(time),
            sets_limits: AtomicBool::new(controller.looks_at_files()),
            as_valued: AtomicBool::new(controller.reads_as_valued()),
            decider: Mutex::new(Decider {
                policy: options.filter_policy,
                controller,
                remembered: budget.open_account(Role::Tables),
                epoch: 0,
                wish: options.filter_wish(),
                by_place: options.filter.allocation.rule().is_some(),
                rates: None,
            }),
        };
        limits.publish(version, || ());
        limits
    }

    /// Whether files have limits at present, for which it matters how hot each is.
    pub(in crate::db) fn sets_limits(&self) -> bool {
        self.sets_limits.load(Relaxed)
    }

    /// Which modules lookups read of a file's filter.
    #[inline]
    pub(in crate::db) fn module_reads(&self, file: &FileMeta) -> ModuleReads {
        if self.as_valued.load(Relaxed) {
            ModuleReads::AsValued
        } else {
            ModuleReads::UpTo(file.module_limit())
        }
    }

    /// Decides by a policy from now on, at first for the version that `present` gives. What was
    /// counted of files stays; what the controller before remembered is gone, unless it was of the
    /// same policy.
    pub(in crate::db) fn set_policy(
        &self,
        policy: FilterPolicy,
        present: impl FnOnce() -> Arc<Version>,
    ) {
        let mut decider = self.decider.lock();
        if decider.policy == policy {
            return;
        }
        decider.policy = policy;
        decider.controller = policy.controller();
        let version = present();
        if !decider.controller.looks_at_files() {
            // As new files are, of which it will not be asked.
            let files = version.files();
            files.for_each(|file| file.set_module_limit(EVERY_MODULE));
        }
        self.decide(&mut decider, &version);
        let controller = &decider.controller;
        self.as_valued.store(controller.reads_as_valued(), Relaxed);
        self.sets_limits.store(controller.looks_at_files(), Relaxed);
    }

    /// Supposes from now on that files which nobody opened have the filters of these options, and
    /// has epochs as long as they say. The policy is set apart ([`Self::set_policy`]).
    pub(in crate::db) fn set_options(&self, options: &KeyspaceOptions) {
        let mut decider = self.decider.lock();
        decider.wish = options.filter_wish();
        decider.by_place = options.filter.allocation.rule().is_some();
        if let Some(rates) = &mut decider.rates {
            rates.guessed.clear();
        }
        self.least_lookups.store(options.epoch_lookups, Relaxed);
    }

    /// Sets the limits of a version, then lets `publish` show it to readers.
    pub(in crate::db) fn publish(&self, version: &Version, publish: impl FnOnce()) {
        if !self.sets_limits() {
            self.set_epoch(version);
            return publish();
        }
        let mut decider = self.decider.lock();
        self.decide(&mut decider, version);
        publish();
    }

    /// Makes epochs as long as suits a version.
    fn set_epoch(&self, version: &Version) {
        let sums = version.sums();
        let of_files = sums.files as u64 * LOOKUPS_PER_FILE;
        let least = of_files.max(sums.entries / ENTRIES_PER_LOOKUP);
        self.epoch_lookups
            .store(self.least_lookups.load(Relaxed).max(least), Relaxed);
    }

    fn decide(&self, decider: &mut Decider, version: &Version) {
        self.set_epoch(version);
        let files = version.sums().files;
        let count = files as u64;
        // What is seen of each, the limit that comes of it, and what the controller remembers of
        // it: once for good, and again while it is brought up to date.
        let remembered = decider.controller.bytes_per_file();
        if !decider.remembered.try_resize(count * remembered)
            || !decider.controller.looks_at_files()
        {
            return;
        }
        let each = size_of::<FileView>() + size_of::<Option<Visits>>() + 1;
        let each = each as u64 + remembered;
        let Some(_listed) = decider.remembered.try_beside(count * each) else {
            return;
        };
        // Each file's partitions are summed up once: how many lookups there were follows from all.
        let mut visits = Vec::with_capacity(files);
        let mut of_runs = Vec::new();
        for (_, run) in version.runs() {
            let start = visits.len();
            visits.extend(run.files().iter().map(FileMeta::visits));
            of_runs.push(lookups_of(visits.iter().skip(start).copied()));
        }
        let lookups = self.lookups_beside(of_runs.into_iter());
        let all = version.runs().flat_map(|(level, run)| {
            let files = run.files().iter();
            files.map(move |file| (level as u32, file))
        });
        let hotness = visits
            .into_iter()
            .map(|visits| visits.map(|v| Hotness::of(v, lookups)));
        let mut views = Vec::with_capacity(files);
        views.extend(
            all.zip(hotness)
                .map(|((level, file), hotness)| decider.view(file, level, hotness)),
        );
        let limits = decider.controller.limits(&views, decider.epoch);
        for (file, limit) in version.files().zip(limits) {
            file.set_module_limit(limit);
        }
    }

    /// The keyspace's lookups that still count.
    pub(in crate::db) fn recent_lookups(&self, version: &Version) -> f64 {
        let runs = version.runs().map(|(_, run)| run.files());
        self.lookups_beside(runs.map(|files| lookups_of(files.iter().map(FileMeta::visits))))
    }

    /// The same, where so many came to each run. A lookup asks one file of a run at most: so there
    /// were at least as many as came to the run that was asked most, also before a restart, over
    /// which only visits are kept.
    fn lookups_beside(&self, of_runs: impl Iterator<Item = f64>) -> f64 {
        let counted = self.recent.at(self.time.ticks()) + self.lookups.load(Relaxed) as f64;
        of_runs.fold(counted, f64::max)
    }

    /// Counts lookups; whether an epoch is over with them.
    pub(in crate::db) fn count(&self, lookups: u64) -> bool {
        let before = self.lookups.fetch_add(lookups, Relaxed);
        let epoch = self.epoch_lookups.load(Relaxed);
        before < epoch && before.saturating_add(lookups) >= epoch
    }
}

/// The lookups that came to the files of a run.
fn lookups_of(visits: impl Iterator<Item = Option<Visits>>) -> f64 {
    visits.flatten().map(lookups_among).sum()
}

impl KnownRates {
    fn rates_of(&mut self, plan: &FilterPlan) -> Arc<[f64]> {
        if let Some(rates) = self.known.get(plan) {
            return rates.clone();
        }
        let found = self.rates.of(plan);
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(plan.clone(), found.clone());
        found
    }
}

impl Decider {
    /// The rates of a file that nobody opened: as if it were written now for the level.
    fn guess(&mut self, file: &FileMeta, level: u32) -> Arc<[f64]> {
        let steps = (self.by_place).then(|| (file.filter_bits() * GUESS_STEPS).round() as u32);
        let known = self.rates.get_or_insert_default();
        let context = FileContext {
            level,
            keys: file.entries(),
            partition_keys: u32::MAX,
            page: PAGE_PAYLOAD,
            bits_per_key: steps.map(|steps| f64::from(steps) / GUESS_STEPS),
        };
        let of = (level, steps, context.page_columns());
        if let Some(rates) = known.guessed.get(&of) {
            return rates.clone();
        }
        let plan = choose(&self.wish, &context).likeliest();
        let rates = known.rates_of(&plan);
        known.guessed.insert(of, rates.clone());
        rates
    }

    fn view(&mut self, file: &FileMeta, level: u32, hotness: Option<Hotness>) -> FileView {
        let rates = match file.slot().peek() {
            None => self.guess(file, level),
            Some(table) => {
                let known = self.rates.get_or_insert_default();
                known.rates_of(table.plan())
            }
        };
        FileView {
            number: file.number(),
            hotness: hotness.map(|hotness| (hotness.access, hotness.positive)),
            last_access: file.last_access(self.epoch),
            rates,
        }
    }
}

/// Ends the keyspace's epoch if it is over; false when another thread is at it.
pub(in crate::db) fn end_epoch(keyspace: &KeyspaceInner) -> bool {
    let limits = keyspace.limits();
    if limits.lookups.load(Relaxed) < limits.epoch_lookups.load(Relaxed) {
        return true;
    }
    let fold_operations = || {
        let active = keyspace.state().active.len() as u64;
        keyspace.operations().of_late(active);
    };
    let tell_lookups = || {
        let lookups = limits.lookups.swap(0, Relaxed);
        limits.recent.add(lookups, limits.time.ticks());
    };
    if !limits.sets_limits() {
        tell_lookups();
        fold_operations();
        return true;
    }
    let Some(mut decider) = limits.decider.try_lock() else {
        return false;
    };
    tell_lookups();
    decider.epoch += 1;
    fold_operations();
    let version = keyspace.version();
    for file in version.files() {
        file.end_epoch();
    }
    limits.decide(&mut decider, &version);
    true
}

#[cfg(test)]
mod tests;
