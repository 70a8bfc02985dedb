//! What modules a table's filter has, and the bytes of that in a table's properties. Plain data,
//! whoever decides it ([`super::choose`]).

use shamba_model::fpr;

use super::banding::MAX_COLUMNS;
use super::ribbon::MODULE_COLUMNS;
use crate::base::coding::{put_varint, take_varint};

/// The most modules of one filter: their numbers fit the counters by block kind.
pub(crate) const MAX_MODULES: usize = 16;

/// The most bits per key of one Bloom module, in thousandths. A ribbon module over few keys has
/// more: its columns have at least one window.
pub(super) const MAX_MILLIBITS: u32 = 64_000;

/// How a module turns a hash into bits. The numbers are on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub(crate) enum Family {
    /// Bits anywhere in the block.
    Bloom = 1,
    /// Bits in one cache line.
    Blocked = 2,
    /// Columns of a ribbon filter that all ribbon modules of the table share.
    Ribbon = 3,
    /// Keys as integers without their lowest bits; only in filters of ranges.
    Range = 4,
}

impl Family {
    fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Family::Bloom),
            2 => Some(Family::Blocked),
            3 => Some(Family::Ribbon),
            4 => Some(Family::Range),
            _ => None,
        }
    }

    /// A block's length is a multiple of this many bytes.
    pub(super) const fn granule(self) -> usize {
        match self {
            Family::Bloom | Family::Ribbon | Family::Range => 1,
            Family::Blocked => super::blocked::LINE,
        }
    }
}

/// How a module is cut into blocks. The numbers are on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Layout {
    /// One block over all keys of the table.
    Whole = 0,
    /// Blocks of a page, by ranges of keys.
    Partitioned = 1,
}

/// One module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ModulePlan {
    /// The family.
    pub(crate) family: Family,
    /// Bits per key, in thousandths; at least 1. Of a ribbon module a consequence: nominal in a
    /// plan, what was written in a table's properties.
    pub(crate) millibits: u32,
    /// Bits set for each key, 1 to 30; 0 in modules of ribbon columns and of ranges.
    pub(crate) hashes: u8,
    /// Parts of which memory can hold some: 1 to 8 columns in a ribbon module or one of ranges, 1
    /// in others.
    pub(crate) columns: u8,
}

impl ModulePlan {
    /// A module of a Bloom family.
    pub(crate) const fn bloom(family: Family, millibits: u32, hashes: u8) -> Self {
        ModulePlan {
            family,
            millibits,
            hashes,
            columns: 1,
        }
    }

    /// The module of a filter of ranges.
    pub(crate) const fn range(columns: u8, millibits: u32) -> Self {
        ModulePlan {
            family: Family::Range,
            millibits,
            hashes: 0,
            columns,
        }
    }

    /// A module of ribbon columns.
    pub(crate) const fn ribbon(columns: u8, millibits: u32) -> Self {
        ModulePlan {
            family: Family::Ribbon,
            millibits,
            hashes: 0,
            columns,
        }
    }
}

/// A table's filter: its modules in the order of probing. None: the table has no filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FilterPlan {
    /// How modules and the index are cut into blocks.
    pub(crate) layout: Layout,
    /// The modules.
    pub(crate) modules: Vec<ModulePlan>,
}

/// Why stored bytes are no filter plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanError {
    /// The bytes make no sense.
    Malformed,
    /// A layout, family or number of modules this build does not know.
    Unknown,
}

impl FilterPlan {
    /// No filter.
    pub(crate) const fn none(layout: Layout) -> Self {
        FilterPlan {
            layout,
            modules: Vec::new(),
        }
    }

    /// All modules' bits per key, in thousandths.
    pub(crate) fn millibits(&self) -> u32 {
        let millibits = self.modules.iter().map(|module| module.millibits);
        millibits.fold(0, u32::saturating_add)
    }

    /// The plan of a table as its readers need it, alike for tables that were planned alike:
    /// without the bits per key that its ribbon modules came to.
    pub(crate) fn for_readers(mut self) -> Self {
        let modules = self.modules.iter_mut();
        modules
            .filter(|module| module.family == Family::Ribbon)
            .for_each(|module| module.millibits = 1);
        self.modules.shrink_to_fit();
        self
    }

    /// The number of ribbon columns in the modules before `module`.
    pub(super) fn columns_before(&self, module: usize) -> usize {
        let before = self.modules.iter().take(module);
        before
            .filter(|module| module.family == Family::Ribbon)
            .map(|module| usize::from(module.columns))
            .sum()
    }

    /// Appends the plan's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.layout as u64);
        put_varint(out, self.modules.len() as u64);
        for module in &self.modules {
            put_varint(out, module.family as u64);
            put_varint(out, u64::from(module.millibits));
            put_varint(
                out,
                u64::from(match module.family {
                    Family::Bloom | Family::Blocked => module.hashes,
                    Family::Ribbon | Family::Range => module.columns,
                }),
            );
        }
    }

    /// Takes a plan off the front of `input`.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, PlanError> {
        use PlanError::{Malformed, Unknown};
        let layout = match take_varint(input).ok_or(Malformed)? {
            0 => Layout::Whole,
            1 => Layout::Partitioned,
            _ => return Err(Unknown),
        };
        let count = take_varint(input).ok_or(Malformed)?;
        if count > MAX_MODULES as u64 {
            return Err(Unknown);
        }
        let mut modules = Vec::new();
        for _ in 0..count {
            let family =
                Family::from_number(take_varint(input).ok_or(Malformed)?).ok_or(Unknown)?;
            let (most_bits, most) = match family {
                Family::Bloom | Family::Blocked => (MAX_MILLIBITS, fpr::MAX_HASHES),
                Family::Ribbon | Family::Range => (u32::MAX, MODULE_COLUMNS as u32),
            };
            let millibits = take_varint(input)
                .and_then(|bits| u32::try_from(bits).ok())
                .filter(|bits| (1..=most_bits).contains(bits))
                .ok_or(Malformed)?;
            let number = take_varint(input)
                .and_then(|number| u8::try_from(number).ok())
                .filter(|number| (1..=most).contains(&u32::from(*number)))
                .ok_or(Malformed)?;
            modules.push(match family {
                Family::Bloom | Family::Blocked => ModulePlan::bloom(family, millibits, number),
                Family::Ribbon => ModulePlan::ribbon(number, millibits),
                Family::Range => ModulePlan::range(number, millibits),
            });
        }
        let plan = FilterPlan { layout, modules };
        if plan.columns_before(plan.modules.len()) > MAX_COLUMNS {
            return Err(Malformed);
        }
        Ok(plan)
    }
}
