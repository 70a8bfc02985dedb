//! What modules a table's filter has: a pure decision, and its bytes in a table's properties.

use shamba_model::fpr;

use crate::base::coding::{put_varint, take_varint};

/// The most modules of one filter: their numbers fit the counters by block kind.
pub(crate) const MAX_MODULES: usize = 16;

/// The most bits per key of one module, in thousandths.
const MAX_MILLIBITS: u32 = 64_000;

/// How a module turns a hash into bits. The numbers are on storage; 3 is kept for ribbon columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub(crate) enum Family {
    /// Bits anywhere in the block.
    Bloom = 1,
    /// Bits in one cache line.
    Blocked = 2,
}

impl Family {
    fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Family::Bloom),
            2 => Some(Family::Blocked),
            _ => None,
        }
    }

    /// A block's length is a multiple of this many bytes.
    pub(super) const fn granule(self) -> usize {
        match self {
            Family::Bloom => 1,
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
    /// Bits per key, in thousandths; at least 1.
    pub(crate) millibits: u32,
    /// Bits set for each key, 1 to 30.
    pub(crate) hashes: u8,
}

impl ModulePlan {
    /// The columns of a block, 1 where it can be kept only as a whole.
    #[inline]
    pub(crate) const fn columns(&self) -> u8 {
        1
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
        self.modules.iter().map(|module| module.millibits).sum()
    }

    /// Appends the plan's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.layout as u64);
        put_varint(out, self.modules.len() as u64);
        for module in &self.modules {
            put_varint(out, module.family as u64);
            put_varint(out, u64::from(module.millibits));
            put_varint(out, u64::from(module.hashes));
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
            let millibits = take_varint(input)
                .and_then(|bits| u32::try_from(bits).ok())
                .filter(|bits| (1..=MAX_MILLIBITS).contains(bits))
                .ok_or(Malformed)?;
            let hashes = take_varint(input)
                .and_then(|hashes| u8::try_from(hashes).ok())
                .filter(|hashes| (1..=fpr::MAX_HASHES).contains(&u32::from(*hashes)))
                .ok_or(Malformed)?;
            modules.push(ModulePlan {
                family,
                millibits,
                hashes,
            });
        }
        Ok(FilterPlan { layout, modules })
    }
}

/// What filters the user wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterOptions {
    /// The family of every module.
    pub(crate) family: Family,
    /// Bits per key over all modules; 0 for no filter.
    pub(crate) bits_per_key: f64,
    /// The number of modules the bits are spread over evenly.
    pub(crate) modules: u8,
    /// How filters and indexes are cut into blocks.
    pub(crate) layout: Layout,
}

/// What a planner may know of the file to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileContext {
    /// The level it will be on, 0 for a flush.
    pub(crate) level: u32,
    /// The number of levels of the tree.
    pub(crate) levels: u32,
    /// About how many entries it will have.
    pub(crate) expected_entries: u64,
}

/// Decides a file's modules: the bits spread evenly over the modules, each with the number of
/// hashes that is best for its family. Bits that make no sense, or too few for a module to say
/// anything, give no filter.
pub(crate) fn plan(options: &FilterOptions, _file: &FileContext) -> FilterPlan {
    let count = usize::from(options.modules).clamp(1, MAX_MODULES);
    let bits = options.bits_per_key / count as f64;
    let millibits = (bits * 1000.0).round().min(f64::from(MAX_MILLIBITS));
    let hashes = match options.family {
        Family::Bloom => fpr::optimal_hashes(bits),
        Family::Blocked => fpr::optimal_blocked_hashes(bits, fpr::LINE_BITS),
    };
    let (Ok(hashes), true) = (hashes, millibits >= 1.0) else {
        return FilterPlan::none(options.layout);
    };
    let module = ModulePlan {
        family: options.family,
        millibits: millibits as u32,
        hashes: hashes as u8,
    };
    FilterPlan {
        layout: options.layout,
        modules: vec![module; count],
    }
}
