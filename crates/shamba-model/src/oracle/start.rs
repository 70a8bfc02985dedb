//! What cannot be in memory yet, since it was never read: memory is empty when a run begins. Pure
//! functions.

/// What came before the visits that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    before: f64,
}

impl Start {
    /// So much before that everything has been met.
    pub const WARM: Start = Start {
        before: f64::INFINITY,
    };

    /// Empty memory, and then `before` visits, of the same kind, for each one that counts (at least
    /// 0).
    #[must_use]
    pub fn empty(before: f64) -> Start {
        Start {
            before: before.max(0.0),
        }
    }

    /// The share of the time that counts before the first visit of a block that expects so many in
    /// that time. They are independent of each other, so that after `t` none came with the chance
    /// `e^(-visits (before + t))`; this is the mean over `t` from 0 to 1.
    pub(super) fn unmet(self, visits: f64) -> f64 {
        if self.before.is_infinite() {
            return 0.0;
        }
        let at_first = (-visits * self.before).exp();
        if visits < 1e-9 {
            at_first
        } else {
            at_first * -(-visits).exp_m1() / visits
        }
    }
}
