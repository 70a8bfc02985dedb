//! Steps that delete ranges of keys.

use shamba::{Error, IterOptions, WriteBatch};

use super::Run;

impl Run {
    /// A range, mostly of few keys.
    pub(super) fn range(&mut self) -> IterOptions {
        let prefixes = [&b"k"[..], b"k03/", b"k05/0001", b"L", b"\xff", b""];
        match self.rng.below(12) {
            0 => IterOptions::prefix(self.rng.pick(&prefixes)),
            1 => IterOptions::default(),
            2..4 => IterOptions::default()
                .lower(self.bound())
                .upper(self.bound()),
            _ => {
                let (kind, first) = (self.rng.below(7), self.rng.below(self.key_space));
                let last = first + self.rng.below(self.key_space / 20 + 2);
                let key = |id: u64| format!("k{kind:02}/{id:05}");
                IterOptions::range(key(first)..key(last))
            }
        }
    }

    /// Deletes a range of keys, in one of the ways there are.
    pub(super) fn delete_range(&mut self) {
        let name = self.name();
        let range = self.range();
        self.note(|| format!("delete of {name} {range:?}"));
        let bounds = (range.lower.clone(), range.upper.clone());
        let done = if name == "default" && self.rng.one_in(2) {
            self.db().delete_range(bounds)
        } else {
            self.keyspaces[&name].real.delete_range(bounds)
        };
        match done {
            Ok(()) => {
                self.record_range(&name, &range);
                self.now += 1;
            }
            Err(error) => assert!(matches!(error, Error::InvertedRange { .. }), "{error}"),
        }
    }

    pub(super) fn delete_range_in_batch(&mut self, batch: &mut WriteBatch, name: &str) {
        let range = self.range();
        self.note(|| format!("with the deletion of {name} {range:?}"));
        let bounds = (range.lower.clone(), range.upper.clone());
        let done = if name == "default" && self.rng.one_in(2) {
            batch.delete_range(bounds)
        } else {
            batch.delete_range_in(&self.keyspaces[name].real, bounds)
        };
        match done {
            Ok(()) => self.record_range(name, &range),
            Err(error) => assert!(matches!(error, Error::InvertedRange { .. }), "{error}"),
        }
    }

    pub(super) fn record_range(&mut self, name: &str, range: &IterOptions) {
        let oldest = self.oldest_held();
        let model = &self.keyspaces[name].model;
        model.borrow_mut().delete_range(range, self.now + 1, oldest);
    }
}
