//! What of a partition's filter a lookup probed. Plain values.

use crate::filter::MAX_MODULES;

/// What of a filter a lookup asked.
#[derive(Debug, Default)]
pub(super) struct ProbedColumns {
    /// Columns asked of each module; 1 for a module that has none.
    pub(super) columns: [u8; MAX_MODULES],
    /// Whether something was not asked.
    pub(super) incomplete: bool,
}

impl ProbedColumns {
    /// So many columns of a module were asked, out of all it has.
    #[inline]
    pub(super) fn note(&mut self, module: usize, columns: u8, all: u8) {
        if let Some(slot) = self.columns.get_mut(module) {
            *slot = columns;
        }
        self.incomplete |= columns < all;
    }
}
