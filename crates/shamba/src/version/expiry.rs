//! When a file's entries expire: plain data.

use crate::base::clock::{Moment, NEVER};

/// When the first and the last of a file's entries expire that ever do; 0 where none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Expiry {
    pub(crate) first: Moment,
    pub(crate) last: Moment,
}

impl Expiry {
    /// With an entry more.
    pub(crate) fn add(&mut self, moment: Moment) {
        if moment < NEVER {
            let moment = moment.max(1);
            self.last = self.last.max(moment);
            self.first = match self.first {
                0 => moment,
                first => first.min(moment),
            };
        }
    }
}
