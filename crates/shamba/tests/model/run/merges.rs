//! Steps that merge, with an operator whose values say everything that was merged, in order.

use shamba::{Options, WriteOptions};

use super::{NAMES, Run};
use crate::common::story::Story;
use crate::reference::Write;

/// A key with so many operands gets no more until it is put or deleted, or values would grow for
/// ever.
pub(super) const MOST_OPERANDS: usize = 12;

impl Run {
    /// The operators of all keyspaces that there are or may be. Whether they combine is for each
    /// open to say: values are the same.
    pub(super) fn with_operators(&mut self, mut options: Options) -> Options {
        for name in NAMES {
            let combines = self.rng.one_in(2);
            self.note(|| format!("the operator of {name} combines: {combines}"));
            options = options.merge_operator(name, Story { combines });
        }
        options
    }

    /// Whether a key has room for an operand more.
    pub(super) fn may_merge(&self, name: &str, key: &[u8]) -> bool {
        self.keyspaces[name].model.borrow().operands_of(key) < MOST_OPERANDS
    }

    pub(super) fn operand(&mut self) -> Vec<u8> {
        let len = match self.rng.below(60) {
            0 => self.rng.below(3000),
            1..8 => 0,
            _ => self.rng.between(1, 30),
        };
        self.rng.bytes(len as usize)
    }

    /// Merges into a key once, or several times.
    pub(super) fn merge(&mut self) {
        let (name, key) = (self.name(), self.key());
        let times = if self.rng.one_in(6) { 5 } else { 1 };
        for _ in 0..times {
            if !self.may_merge(&name, &key) {
                return;
            }
            let operand = self.operand();
            // Not of operands: what they are merged into keeps its own.
            let ttl = self.ttl();
            self.note(|| format!("merge {operand:?} into {name} {key:?} for {ttl:?}"));
            self.record_write(&name, &key, Write::Merge((&*operand).into()));
            let options = WriteOptions::new().ttl(ttl);
            let real = &self.keyspaces[&name].real;
            let done = match self.rng.below(4) {
                0 if name == "default" => self.db().merge(&key, &operand),
                1 if name == "default" => self.db().merge_with(&key, &operand, options),
                0 | 2 => real.merge(&key, &operand),
                _ => real.merge_with(&key, &operand, options),
            };
            done.unwrap();
            self.now += 1;
            self.ops += 1;
        }
    }
}
