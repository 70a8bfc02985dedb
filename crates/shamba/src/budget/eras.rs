//! Work that goes on, and what of it began before the limit was made smaller.
//!
//! Work takes memory, now and later, by the limit that it found when it began. So an era begins
//! with each smaller limit, and the ledger's ceiling stays until the work of earlier ones is over.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Budget;

/// The present era.
#[derive(Debug, Default)]
pub(super) struct Eras(Mutex<Era>);

#[derive(Debug, Default)]
struct Era {
    number: u64,
    /// How much work began in it and goes on.
    going_on: u64,
}

/// Work that goes on until this is dropped, and may take what the limits since it began let it.
#[derive(Debug)]
pub(crate) struct Begun {
    budget: Arc<Budget>,
    era: u64,
}

impl Eras {
    /// Work of `budget`'s begins; whoever asks for the limit afterwards may go by it.
    pub(super) fn begin(&self, budget: &Arc<Budget>) -> Begun {
        let mut era = self.0.lock();
        era.going_on += 1;
        Begun {
            budget: Arc::clone(budget),
            era: era.number,
        }
    }

    /// The limit is made smaller by `lower`, which is told how much work of this era goes on.
    pub(super) fn turn(&self, lower: impl FnOnce(u64)) {
        let mut era = self.0.lock();
        lower(std::mem::take(&mut era.going_on));
        era.number += 1;
    }
}

impl Begun {
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut era = self.budget.eras.0.lock();
        if era.number == self.era {
            era.going_on -= 1;
        } else {
            self.budget.ledger.end_earlier();
        }
    }
}
