//! What memory is worth: the default policy, whole.
//!
//! Memory holds what saves the most storage reads per byte. [`PartitionStats`] counts who visits
//! each partition of a table and what of it is resident; [`PartitionView`](view::PartitionView) is
//! that at one moment, as plain data, and the decisions are pure functions over it: what a block or
//! a column of a filter is worth (`block_value`), what a lookup should read now and with it
//! (`read_plan`), what the visits counted say against the model (`rejections`). [`PageFrequency`]
//! says how often data pages are accessed, and keys that are in no entry; [`UseRates`] how often
//! entries will be used that were used so often; [`Hotness`] sums partitions up to files.
//! [`PolicyState`] is what all of a cache has in common: time (`decay`) and the price of memory
//! (`price`). Nothing here does I/O or takes a lock but that of a pin holder; everything is a hint,
//! and whatever it says, answers stay the same.
//!
//! `docs/policy.md` follows one partition in numbers from its first visit to its eviction, and has
//! every constant with what half and double of it do, measured.

mod block_value;
mod calibration;
mod decay;
mod fpr_forecast;
mod geometry;
#[cfg(test)]
mod golden_tests;
mod hotness;
mod morris;
mod page_frequency;
mod partition_cell;
mod partition_stats;
mod policy_state;
mod price;
mod read_plan;
mod rejections;
mod use_rates;
mod view;
#[cfg(test)]
mod walkthrough_tests;

pub(crate) use block_value::PartValue;
pub(crate) use decay::left_after;
pub(crate) use fpr_forecast::AbsentValue;
pub(crate) use geometry::{FilterGeometry, ModuleGeometry};
pub(crate) use hotness::{Hotness, RecentLookups, lookups_among};
pub(crate) use morris::MorrisCounter;
pub(crate) use page_frequency::{PageFrequency, counters_for};
pub(crate) use partition_stats::PartitionStats;
pub(crate) use policy_state::PolicyState;
pub(crate) use rejections::{ColumnEvidence, Outcome, last_of};
pub(crate) use use_rates::{MOST_USES, UseRates, observed_of_entries};
