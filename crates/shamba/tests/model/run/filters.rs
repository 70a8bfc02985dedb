//! A compaction filter that decides: what it removes or changes is so for all who begin to read
//! later, and as it was for those who hold an older moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use shamba::{CompactionDecision, Options};

use super::{NAMES, Run};

/// Of longer ones there may be no room for another.
const LONGEST_FILTERED: usize = 1 << 10;

/// What the filter decides about entries, by key and value. It has something to decide only while a
/// step asks it: at other times nobody could say when it was asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Decisions(Arc<Mutex<HashMap<Entry, CompactionDecision>>>);

type Entry = (Vec<u8>, Vec<u8>);

impl Decisions {
    /// What was decided; of all else nothing is changed, some of it by writing it anew.
    fn decide(&self, key: &[u8], value: &[u8]) -> CompactionDecision {
        if value.len() > LONGEST_FILTERED {
            return CompactionDecision::Keep;
        }
        let decided = self.0.lock().unwrap();
        if !decided.is_empty()
            && let Some(decision) = decided.get(&(key.to_vec(), value.to_vec()))
        {
            return decision.clone();
        }
        match key.last() {
            Some(last) if last % 3 == 0 => CompactionDecision::Change(value.to_vec()),
            _ => CompactionDecision::Keep,
        }
    }
}

impl Run {
    /// A filter for one keyspace that there is or may be, now and then.
    pub(super) fn with_filter(&mut self, options: Options) -> Options {
        self.filtered = self.rng.one_in(2).then(|| *self.rng.pick(&NAMES));
        let Some(name) = self.filtered else {
            return options;
        };
        let decisions = self.decisions.clone();
        options.compaction_filter(name, move |key: &[u8], value: &[u8]| {
            decisions.decide(key, value)
        })
    }

    /// Whether a filter is asked about a value for sure: those that come through readers, which may
    /// be in pieces, have an odd length.
    pub(super) fn is_filtered(value: &[u8]) -> bool {
        value.len() <= LONGEST_FILTERED && value.len().is_multiple_of(2)
    }

    /// Decides about entries of the keyspace with a filter, and compacts all of it.
    pub(super) fn filter(&mut self) {
        let Some(name) = self.filtered else {
            return;
        };
        let Some(pair) = self.keyspaces.get(name) else {
            return;
        };
        let newest_held = self.newest_held();
        let model = pair.model.clone();
        let puts = model.borrow().newest_puts();
        let mut decided = HashMap::new();
        for (key, written, value) in puts {
            if !Run::is_filtered(&value) {
                continue;
            }
            let decision = match self.rng.below(3) {
                0 => CompactionDecision::Keep,
                1 => CompactionDecision::Remove,
                _ => {
                    let len = self.rng.below(50) as usize * 2;
                    CompactionDecision::Change(self.rng.bytes(len))
                }
            };
            // What somebody may see who reads at an older moment is not asked about.
            if newest_held.is_none_or(|held| written > held) {
                let mut model = model.borrow_mut();
                match &decision {
                    CompactionDecision::Keep => {}
                    CompactionDecision::Remove => model.filter(&key, None),
                    CompactionDecision::Change(value) => model.filter(&key, Some(value)),
                }
            }
            decided.insert((key, value.to_vec()), decision);
        }
        self.note(|| format!("filter {name}, about {} entries", decided.len()));
        *self.decisions.0.lock().unwrap() = decided;
        let pair = &self.keyspaces[name];
        let db = self.db();
        db.compact_range_in(&pair.real, None, None).unwrap();
        db.wait_for_compaction().unwrap();
        self.decisions.0.lock().unwrap().clear();
        self.scan_all(name);
    }
}
