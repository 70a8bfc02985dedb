//! Functions that say what prefixes are, and the scans that filters of prefixes or of ranges are
//! asked for.

use std::ops::Bound;

use shamba::{Error, IterOptions, KeyspaceOptions, Options, Prefix};

use super::Run;

/// All up to the last delimiter: of a key each directory is a prefix.
fn directory(key: &[u8]) -> Option<usize> {
    let at = key.iter().rposition(|byte| *byte == b'/');
    at.map(|at| at + 1)
}

/// What no function should say: other lengths of a key than of its beginnings, and too long ones.
fn unruly(key: &[u8]) -> Option<usize> {
    match key.len() % 3 {
        0 => Some(key.len()),
        1 => Some(key.len() + 7),
        _ => Some(key.iter().map(|byte| usize::from(*byte % 8)).sum()),
    }
}

impl Run {
    /// Options with the functions that those of keyspaces may name.
    pub(super) fn with_prefixes(&self, options: Options) -> Options {
        options
            .prefix_function("directory", directory)
            .prefix_function("unruly", unruly)
    }

    /// Options that name a function now and then.
    pub(super) fn name_function(&mut self, options: KeyspaceOptions) -> KeyspaceOptions {
        if !self.rng.one_in(6) {
            return options;
        }
        let function = *self.rng.pick(&["directory", "unruly"]);
        let options = options.range_filter(None);
        options.prefix(Prefix::Function(function.to_owned()))
    }

    /// Goes over the keys that begin as some key does, or over some of these.
    pub(super) fn scan_within_prefix(&mut self) {
        let key = self.key();
        let len = self.rng.below(key.len() as u64 + 1) as usize;
        let mut options = IterOptions::prefix(&key[..len]);
        if self.rng.one_in(3) {
            options.lower = Bound::Included(key);
        }
        self.scan_of(&options);
    }

    /// Goes over the keys of a range, mostly few or none.
    pub(super) fn scan_few_keys(&mut self) {
        let range = self.range();
        self.scan_of(&range);
    }

    /// Goes over the keys of a range one way or the other, now or at a snapshot.
    fn scan_of(&mut self, range: &IterOptions) {
        let name = self.name();
        let snapshot = (!self.snapshots.is_empty() && self.rng.one_in(3))
            .then(|| self.rng.below(self.snapshots.len() as u64) as usize);
        self.note(|| format!("scan {name} {range:?} at snapshot {snapshot:?}"));
        let pair = &self.keyspaces[&name];
        let bounds = (range.lower.clone(), range.upper.clone());
        let (mut found, at) = match snapshot.map(|held| &self.snapshots[held]) {
            Some(held) => (held.real.range_in(&pair.real, bounds), held.at),
            None => (pair.real.range(bounds), self.point()),
        };
        let model = pair.model.borrow().range_at(range, at);
        let backward = self.rng.one_in(2);
        let mut next = || {
            if backward {
                found.next_back()
            } else {
                found.next()
            }
        };
        let mut expected: Vec<_> = model.iter().collect();
        if backward {
            expected.reverse();
        }
        let expected = expected.into_iter().map(Some);
        for wanted in expected.chain([None]) {
            let next = next();
            if let Some(Err(Error::IteratorsExhausted { .. })) = next
                && !self.iters.is_empty()
            {
                // The others have all that iterators may have.
                self.iters.clear();
                return;
            }
            let next = next.transpose().unwrap();
            let next = next.as_ref().map(|(key, value)| (key, &**value));
            let wanted = wanted.map(|(key, value)| (key, value.as_slice()));
            assert_eq!(next, wanted, "{name} {range:?} at {at:?}");
        }
        self.ops += 1;
    }
}
