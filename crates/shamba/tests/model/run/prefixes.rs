//! Functions that say what prefixes are, and scans within some.

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

    /// Goes over the keys that begin as some key does, or over some of these, one way or the other.
    pub(super) fn scan_within_prefix(&mut self) {
        let name = self.name();
        let key = self.key();
        let len = self.rng.below(key.len() as u64 + 1) as usize;
        let mut options = IterOptions::prefix(&key[..len]);
        if self.rng.one_in(3) {
            options.lower = Bound::Included(key);
        }
        self.note(|| format!("scan {name} {options:?}"));
        let pair = &self.keyspaces[&name];
        let model = pair.model.borrow().map_at(self.point());
        let range = (options.lower.clone(), options.upper.clone());
        let mut expected: Vec<_> = model.range::<Vec<u8>, _>(range.clone()).collect();
        let mut found = pair.real.range(range);
        let backward = self.rng.one_in(2);
        if backward {
            expected.reverse();
        }
        for (key, value) in expected {
            let next = if backward {
                found.next_back()
            } else {
                found.next()
            };
            if let Some(Err(Error::IteratorsExhausted { .. })) = next
                && !self.iters.is_empty()
            {
                // The others have all that iterators may have.
                self.iters.clear();
                return;
            }
            let (found, its) = next.unwrap().unwrap();
            assert_eq!(
                (&found, &*its),
                (key, value.as_slice()),
                "{name} {options:?}"
            );
        }
        let next = if backward {
            found.next_back()
        } else {
            found.next()
        };
        assert!(next.is_none(), "{name} {options:?}: {next:?}");
        self.ops += 1;
    }
}
