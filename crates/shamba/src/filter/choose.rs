//! Decides the modules of a file's filter: a pure function of what the user wants and of what is
//! known of the file. Readers never see the decision, only the plan in a table's properties.

use std::sync::OnceLock;

use shamba_model::curve::{self, Curve};
use shamba_model::{fpr, modular, ribbon};

use super::banding::MAX_COLUMNS;
use super::keys_filling;
use super::plan::{Family, FilterPlan, Layout, MAX_MILLIBITS, MAX_MODULES, ModulePlan};
use super::ribbon::MODULE_COLUMNS;

/// Which families a tree's files have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    /// One, in all files.
    Same(Family),
    /// What suits the level: quick to build where files live shortly, small where most keys are.
    ByLevel,
}

/// How large the modules of a filter are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ModuleSizes {
    /// All alike (SHaMBa-eq).
    #[default]
    Equal,
    /// The first as given, the others alike (SHaMBa-prop).
    Proportional {
        /// Bits per key of the first module, 0 to 64; the whole filter is one module if it has no
        /// more. Best such that the first modules of all files fit the memory budget:
        /// `shamba_model::modular::first_bits_per_key`.
        first_bits_per_key: f64,
    },
    /// The first as large as memory holds of all files, the others alike (SHaMBa-prop). Decided
    /// anew for each file that is written, from the memory budget and the entries of the keyspace
    /// then; a file too small for modules of a page each gets one module.
    FirstInMemory,
}

/// How filter memory is divided over the tree.
///
/// What is divided is `bits_per_key` for each of the keyspace's entries. A new table gets the bits
/// that it should have in the tree of that moment, where each level counts with what it holds on
/// average (`shamba_model::growing`). So all filters together have the total asked for, within
/// about a tenth on average: up to 8 % more when all levels are full, and up to two bits per key
/// less when a merge has just emptied the levels above the last.
///
/// Tables keep their filters until they are written again. A table that is moved, and whose filter
/// would be wrong by more than two bits per key there, is written again instead.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FilterAllocation {
    /// The same bits per key in every table; with [`FilterFamily::Auto`](crate::FilterFamily::Auto)
    /// those that it has for the level. The default.
    #[default]
    Uniform,
    /// By the sizes of runs such that lookups of absent keys read least: large runs get few bits or
    /// none (Monkey, Appendix A). For point lookups that mostly find nothing.
    Monkey,
    /// The same for lookups of which some find their key, and so visit fewer of the older runs
    /// (Monkey, Eq. 13).
    MonkeyGeneral {
        /// Lookups that find their key for each that does not: the paper's `v`, finite and at least
        /// 0. With 0 it is `Monkey`.
        existing_per_empty: f64,
    },
    /// By the lookups that did not find their key, as they are counted for each key range of each
    /// level, so that bits go where absent keys are looked up. New tables inherit the counts
    /// ([`Options::inherit_statistics`](crate::Options::inherit_statistics)). As `Monkey` until
    /// something was counted. All tables of a merge get the same bits, so key ranges differ only
    /// where merges take a file at a time.
    Measured,
}

impl FilterAllocation {
    /// The share of lookups that find their key, and whether visits are measured; `None` where
    /// sizes do not matter.
    pub(crate) fn rule(self) -> Option<(f64, bool)> {
        match self {
            FilterAllocation::Uniform => None,
            FilterAllocation::Monkey => Some((0.0, false)),
            FilterAllocation::MonkeyGeneral { existing_per_empty } => {
                Some((existing_per_empty / (1.0 + existing_per_empty), false))
            }
            FilterAllocation::Measured => Some((0.0, true)),
        }
    }
}

/// What is known when modules are sized by memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BlockRoom {
    /// Bytes that filters may take.
    pub(crate) memory: f64,
    /// Entries of all files.
    pub(crate) entries: f64,
    /// About the entries of the file to be written.
    pub(crate) file_entries: f64,
    /// Bytes of a page, the least that is read.
    pub(crate) page: f64,
}

impl ModuleSizes {
    /// The sizes of a filter of `bits` bits per key in `modules` modules, decided: those that
    /// depend on memory by SHaMBa's Eqs. 10 and 11 and section 5.1.1.
    pub(crate) fn decided(self, bits: f64, modules: u8, room: BlockRoom) -> ModuleSizes {
        if self != ModuleSizes::FirstInMemory {
            return self;
        }
        let feasible = modular::most_modules(room.file_entries, bits, room.page).unwrap_or(0);
        let fits = modular::first_bits_per_key(room.memory, room.entries, bits).unwrap_or(bits);
        let first_bits_per_key = if feasible < u32::from(modules) {
            bits
        } else {
            // Each module has a page at least.
            let least = room.page * 8.0 / room.file_entries;
            let rest = least * f64::from(modules.saturating_sub(1));
            if fits + rest > bits {
                bits
            } else {
                fits.max(least)
            }
        };
        ModuleSizes::Proportional { first_bits_per_key }
    }
}

/// What filters the user wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlanOptions {
    /// The families of the modules.
    pub(crate) families: Families,
    /// Bits per key over all modules; 0 for no filter. Beyond that without effect by level.
    pub(crate) bits_per_key: f64,
    /// The number of modules the bits are spread over; without effect by level.
    pub(crate) modules: u8,
    /// How they are spread; without effect by level.
    pub(crate) sizes: ModuleSizes,
    /// How filters and indexes are cut into blocks.
    pub(crate) layout: Layout,
}

/// What a planner may know of the file to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FileContext {
    /// The level it will be on, 0 for a flush.
    pub(crate) level: u32,
    /// About how many keys it will have.
    pub(crate) keys: u64,
    /// The most keys that a partition of it may have.
    pub(crate) partition_keys: u32,
    /// Bytes of a page that a module may fill.
    pub(crate) page: usize,
    /// Its bits per key by its place in the tree; `None`: those of the options.
    pub(crate) bits_per_key: Option<f64>,
}

/// One plan, or two of which some tables get the one and some the other: bits between two numbers
/// of columns, or too few for a Bloom filter, are had on average only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// The plan.
    pub(crate) plan: FilterPlan,
    /// The plan that this share of the tables get instead.
    pub(crate) other: Option<(FilterPlan, f64)>,
}

impl Choice {
    /// What most tables get.
    pub(crate) fn likeliest(self) -> FilterPlan {
        match self.other {
            Some((other, share)) if share > 0.5 => other,
            _ => self.plan,
        }
    }
}

/// Keys that the bits per key of ribbon columns are stated for: about those of a partition.
const NOMINAL_KEYS: u64 = 8000;

/// Columns of a module that fill a page, in partitions of about [`NOMINAL_KEYS`].
const PAGE_COLUMNS: u8 = 4;

/// Columns below level 0.
const ALL_COLUMNS: u8 = 12;

/// Other numbers of columns to a page, for more keys in a partition or fewer, where that saves one
/// in so many of the pages that a table's filters take. With half of it, or double, tables of some
/// sizes have other numbers; tables of tens of thousands of keys have as many pages in each.
const OTHER_COLUMNS: ([u8; 2], u64) = ([3, 6], 8);

/// Bits per key and modules where building speed matters.
const QUICK: (f64, usize) = (16.0, 2);

/// Below so many bits per key a Bloom filter is worth less than its bits: in as many tables as the
/// bits suffice for it has this many, and none in the others.
const LEAST_BLOOM_BITS: f64 = 1.0;

/// How close to a whole number of columns is that number.
const WHOLE: f64 = 0.02;

/// The false-positive rates of the families by bits per key, as far as the allocation of memory is
/// concerned: level 0, which is small, counts as the others.
pub(crate) fn curve(families: Families) -> &'static Curve {
    static CURVES: [OnceLock<Curve>; 3] = [const { OnceLock::new() }; 3];
    let (curve, family) = match families {
        Families::Same(Family::Bloom) => (&CURVES[0], curve::Family::Bloom),
        Families::Same(Family::Blocked) => (&CURVES[1], curve::Family::Blocked),
        Families::Same(Family::Ribbon | Family::Range) | Families::ByLevel => {
            (&CURVES[2], curve::Family::Ribbon)
        }
    };
    curve.get_or_init(|| family.curve().unwrap_or_else(|_| Curve::ideal()))
}

/// Decides the modules of a file with bits by its place in the tree, or as [`plan`] does.
pub(crate) fn choose(options: &PlanOptions, file: &FileContext) -> Choice {
    let one = |plan| Choice { plan, other: None };
    let Some(bits) = file.bits_per_key else {
        return one(plan(options, file));
    };
    let of = |modules| FilterPlan {
        layout: options.layout,
        modules,
    };
    let family = match options.families {
        Families::Same(family) => family,
        Families::ByLevel if file.level == 0 => Family::Bloom,
        Families::ByLevel => Family::Ribbon,
    };
    // Both numbers of bits that can be had next to the wanted one, and the share of the larger.
    let (least, most, share) = if family == Family::Ribbon {
        let per_column = ribbon::bits_per_key(NOMINAL_KEYS).unwrap_or(1.0);
        let columns = (bits / per_column).clamp(0.0, MAX_COLUMNS as f64);
        let (low, share) = (columns.floor(), columns.fract());
        match share {
            ..WHOLE => (low * per_column, 0.0, 0.0),
            share if share > 1.0 - WHOLE => (columns.ceil() * per_column, 0.0, 0.0),
            share => (low * per_column, columns.ceil() * per_column, share),
        }
    } else if bits < LEAST_BLOOM_BITS {
        (0.0, LEAST_BLOOM_BITS, bits / LEAST_BLOOM_BITS)
    } else {
        (bits, 0.0, 0.0)
    };
    let modules = |bits: f64| of(allocated(options, family, bits));
    Choice {
        plan: modules(least),
        other: (share > 0.0).then(|| (modules(most), share)),
    }
}

/// Modules of so many bits per key, as many as options say if each can have a hash of its own.
fn allocated(options: &PlanOptions, family: Family, bits: f64) -> Vec<ModulePlan> {
    let (wanted, sizes) = match (options.families, family) {
        (Families::Same(_), _) => (usize::from(options.modules), options.sizes),
        (Families::ByLevel, Family::Ribbon) => {
            let page = f64::from(PAGE_COLUMNS);
            let pages = bits / ribbon::bits_per_key(NOMINAL_KEYS).unwrap_or(1.0) / page;
            ((pages - WHOLE / page).ceil() as usize, ModuleSizes::Equal)
        }
        (Families::ByLevel, _) => (QUICK.1, ModuleSizes::Equal),
    };
    let most = match family {
        Family::Ribbon => wanted,
        _ => fpr::optimal_hashes(bits).map_or(1, |hashes| hashes as usize),
    };
    spread(family, bits, wanted.min(most), sizes)
}

/// Decides a file's modules. Bits that make no sense, or too few for a module to say anything,
/// give no filter.
pub(crate) fn plan(options: &PlanOptions, file: &FileContext) -> FilterPlan {
    let modules = match options.families {
        Families::Same(family) => spread(
            family,
            options.bits_per_key,
            usize::from(options.modules),
            options.sizes,
        ),
        Families::ByLevel if options.bits_per_key > 0.0 => by_level(file),
        Families::ByLevel => Vec::new(),
    };
    FilterPlan {
        layout: options.layout,
        modules,
    }
}

/// Flushed files are soon written again: a Bloom filter. The others get twelve ribbon columns in
/// modules of a page each, mostly three: two, of 0.4 % false positives in 8.3 bits, are what memory
/// holds where it is short; the third is read and kept where memory is plenty, and saves nearly all
/// false positives that are left. Memory holds as many of the columns as are worth it.
fn by_level(file: &FileContext) -> Vec<ModulePlan> {
    if file.level == 0 {
        let (bits, modules) = QUICK;
        return spread(Family::Bloom, bits, modules, ModuleSizes::Equal);
    }
    let each = file.page_columns();
    columns(&vec![each; usize::from(ALL_COLUMNS / each)])
}

impl FileContext {
    /// Of how many columns a module has that fills a page of a partition: mostly
    /// [`PAGE_COLUMNS`]. A table of 10,000 keys, which are two partitions then, the second nearly
    /// empty, with three modules of a page each like the first, has one of four modules.
    pub(crate) fn page_columns(&self) -> u8 {
        let pages = |columns: u8| {
            let keys = keys_filling(&ribbon_module(columns), 1, self.page) as u64;
            // A few keys more are not worth another layout.
            let partitions = self.keys.saturating_sub(keys / 16).div_ceil(keys.max(1));
            let fits = keys <= self.partition_keys.into();
            fits.then(|| partitions.max(1) * u64::from(ALL_COLUMNS / columns))
        };
        let (others, part) = OTHER_COLUMNS;
        let usual = pages(PAGE_COLUMNS).unwrap_or(0);
        let fewer = others.into_iter().filter_map(|columns| {
            let pages = pages(columns)?;
            (pages + usual.div_ceil(part) <= usual).then_some((pages, columns))
        });
        let fewest = fewer.min_by_key(|(pages, _)| *pages);
        fewest.map_or(PAGE_COLUMNS, |(_, columns)| columns)
    }
}

/// Spreads bits per key over at most `count` modules of one family.
fn spread(family: Family, bits: f64, count: usize, sizes: ModuleSizes) -> Vec<ModulePlan> {
    if !(bits.is_finite() && bits > 0.0) {
        return Vec::new();
    }
    let count = count.clamp(1, MAX_MODULES);
    if family == Family::Ribbon {
        return ribbon_modules(bits, count, sizes);
    }
    let bits: Vec<f64> = divide(bits, count, sizes)
        .into_iter()
        .map(|bits| bits.min(f64::from(MAX_MILLIBITS) / 1000.0))
        .collect();
    let modules: Option<Vec<ModulePlan>> = hashes(family, &bits).and_then(|hashes| {
        let module = |(bits, hashes): (&f64, u32)| {
            let millibits = (bits * 1000.0).round();
            (millibits >= 1.0).then(|| ModulePlan::bloom(family, millibits as u32, hashes as u8))
        };
        bits.iter().zip(hashes).map(module).collect()
    });
    modules.unwrap_or_default()
}

/// The bits per key of each module.
fn divide(bits: f64, count: usize, sizes: ModuleSizes) -> Vec<f64> {
    match sizes {
        ModuleSizes::Proportional { first_bits_per_key } if count > 1 => {
            let rest = (bits - first_bits_per_key) / (count - 1) as f64;
            // Less than a thousandth of a bit is no module.
            if first_bits_per_key > 0.0 && rest >= 0.001 {
                let mut all = vec![rest; count];
                all.iter_mut().take(1).for_each(|b| *b = first_bits_per_key);
                all
            } else if first_bits_per_key > 0.0 {
                vec![bits]
            } else {
                vec![bits / count as f64; count]
            }
        }
        _ => vec![bits / count as f64; count],
    }
}

/// The hashes of each Bloom module. Standard modules share out the hashes that are best for the
/// bits of all of them, as the paper does; a blocked one has the number that is best for its own
/// lines, which crowd differently in every module.
fn hashes(family: Family, bits: &[f64]) -> Option<Vec<u32>> {
    let each = |best: &dyn Fn(f64) -> Result<u32, shamba_model::ModelError>| {
        bits.iter()
            .map(|&bits| best(bits))
            .collect::<Result<Vec<_>, _>>()
    };
    let total: f64 = bits.iter().sum();
    let hashes = match family {
        // Past these bits one module would want more hashes than it may have.
        Family::Bloom if total <= 40.0 => {
            fpr::optimal_hashes(total).and_then(|all| modular::divide_hashes(all, bits))
        }
        Family::Bloom => each(&fpr::optimal_hashes),
        _ => each(&|bits| fpr::optimal_blocked_hashes(bits, fpr::LINE_BITS)),
    };
    hashes.ok()
}

/// The ribbon modules whose columns are nearest to the bits.
fn ribbon_modules(bits: f64, count: usize, sizes: ModuleSizes) -> Vec<ModulePlan> {
    let per_column = ribbon::bits_per_key(NOMINAL_KEYS).unwrap_or(1.0);
    let total = ((bits / per_column).round() as usize).min(MAX_COLUMNS);
    if total == 0 {
        return Vec::new();
    }
    let count = count.clamp(total.div_ceil(MODULE_COLUMNS), total);
    let (mut left, mut modules) = (total, Vec::new());
    if let ModuleSizes::Proportional { first_bits_per_key } = sizes
        && count > 1
    {
        // The others have at least a column each, and room for all the rest.
        let most = (total - (count - 1)).min(MODULE_COLUMNS);
        let least = total.saturating_sub((count - 1) * MODULE_COLUMNS).max(1);
        let first = ((first_bits_per_key / per_column).round() as usize).clamp(least, most);
        modules.push(first as u8);
        left -= first;
    }
    for remaining in (1..=count - modules.len()).rev() {
        let next = left.div_ceil(remaining);
        modules.push(next as u8);
        left -= next;
    }
    columns(&modules)
}

/// Ribbon modules of so many columns each.
fn columns(modules: &[u8]) -> Vec<ModulePlan> {
    let module = |&columns: &u8| ribbon_module(columns);
    modules.iter().map(module).collect()
}

fn ribbon_module(columns: u8) -> ModulePlan {
    let millibits = ribbon::slots(NOMINAL_KEYS) * u64::from(columns) * 1000 / NOMINAL_KEYS;
    ModulePlan::ribbon(columns, u32::try_from(millibits).unwrap_or(u32::MAX))
}
