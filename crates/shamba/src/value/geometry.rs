//! How the filter of a table is laid out, as far as its value depends on it. Plain values.

use crate::budget::{allocated, shared};

/// What is the same of one module in all partitions of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ModuleGeometry {
    /// The chance that one column lets an absent key pass.
    pub(crate) fpr: f32,
    /// The columns of a block that can be kept one by one, or 1.
    pub(crate) columns: u8,
    /// About how many blocks a partition has, each over a part of its keys.
    pub(crate) blocks: u16,
    /// About how many pages a block has.
    pub(crate) pages: u16,
}

impl ModuleGeometry {
    /// The chance that so many columns let an absent key pass.
    #[inline]
    pub(super) fn fpr_of(&self, columns: u8) -> f32 {
        power(self.fpr, columns)
    }

    /// The chance that an absent key passes what is missing beside so many columns.
    #[inline]
    pub(super) fn fpr_without(&self, columns: u8) -> f32 {
        self.fpr_of(self.columns.saturating_sub(columns))
    }
}

/// A small power, by squaring, as `powi` has it: that is a call, and what parts of filters are
/// worth is asked hundreds of times for one that comes in.
#[inline]
fn power(mut base: f32, mut exponent: u8) -> f32 {
    let mut product = 1.0;
    loop {
        if exponent & 1 != 0 {
            product *= base;
        }
        exponent >>= 1;
        if exponent == 0 {
            return product;
        }
        base *= base;
    }
}

/// The chance that an absent key passes a whole filter: while memory is plenty, all of it is read
/// where it is absent.
pub(super) fn fpr_of_whole(modules: &[ModuleGeometry]) -> f32 {
    let whole = modules.iter().map(|module| module.fpr_of(module.columns));
    whole.product::<f32>().min(1.0)
}

/// What is the same of the filter in all partitions of a table, and of most tables.
#[derive(Debug)]
pub(crate) struct FilterGeometry {
    pub(super) modules: Box<[ModuleGeometry]>,
    /// The chance that an absent key passes all of it.
    pub(super) fpr: f32,
    /// The columns in a block of columns, a bit for each.
    pub(super) columns: fn(&[u8]) -> u8,
    /// Cuts a block down to some of its columns.
    pub(super) keep: fn(&[u8], u8) -> Vec<u8>,
    /// The families whose blocks these two know.
    families: u8,
}

impl PartialEq for FilterGeometry {
    /// Blocks of columns are cut alike wherever modules are alike, of the same families.
    fn eq(&self, other: &Self) -> bool {
        self.families == other.families && self.modules == other.modules
    }
}

impl FilterGeometry {
    /// A filter of such modules. `columns` says which columns are in a block of columns, a bit for
    /// each; `keep` cuts a block down to some of them.
    pub(crate) fn new(
        modules: Box<[ModuleGeometry]>,
        columns: fn(&[u8]) -> u8,
        keep: fn(&[u8], u8) -> Vec<u8>,
    ) -> Self {
        FilterGeometry {
            fpr: fpr_of_whole(&modules),
            modules,
            columns,
            keep,
            families: 0,
        }
    }

    /// Of families other than those that most filters are of: the functions are for their blocks.
    pub(crate) fn of_families(self, families: u8) -> Self {
        FilterGeometry { families, ..self }
    }

    /// The memory it takes behind an `Arc`, in bytes.
    pub(super) fn memory(&self) -> usize {
        shared(size_of::<Self>()) + allocated(size_of_val(&*self.modules))
    }
}
