//! All that can be said of a problem, each part by flag, description or database, or not at all.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::value::{Division, Filter, Number, Policy};

/// What is known; the flags of the command line and the keys of a description in one.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Inputs {
    /// Entries, old versions and deletions included [default: the database's]
    #[arg(long, value_name = "N", help_heading = "Data and device")]
    pub entries: Option<Number>,
    /// Bytes of an entry on storage [default: the database's mean; 128 without one]
    #[arg(long, value_name = "SIZE", help_heading = "Data and device")]
    pub entry_size: Option<Number>,
    /// Of the write buffer and all filters together. The flag is `--memory` of all commands.
    #[arg(skip)]
    pub memory: Option<Number>,
    /// Bytes that one read brings [default: 4KiB]
    #[arg(long, value_name = "SIZE", help_heading = "Data and device")]
    pub page_size: Option<Number>,
    /// Microseconds that the read of a page takes [default: 100]
    #[arg(long, value_name = "MICROS", help_heading = "Data and device")]
    pub read_latency: Option<Number>,
    /// What the write of a page costs, in reads of a page [default: 1]
    #[arg(long, value_name = "RATIO", help_heading = "Data and device")]
    pub write_cost: Option<Number>,
    /// Filter family [default: bloom]
    #[arg(
        long,
        value_enum,
        value_name = "FAMILY",
        help_heading = "Data and device"
    )]
    pub filter: Option<Filter>,

    /// Share of lookups of keys that do not exist
    #[arg(long, value_name = "SHARE", help_heading = "Workload")]
    pub empty_lookups: Option<Number>,
    /// Share of lookups of keys that exist
    #[arg(long, value_name = "SHARE", help_heading = "Workload")]
    pub existing_lookups: Option<Number>,
    /// Share of range lookups
    #[arg(long, value_name = "SHARE", help_heading = "Workload")]
    pub range_lookups: Option<Number>,
    /// Share of insertions, updates and deletions
    #[arg(long, value_name = "SHARE", help_heading = "Workload")]
    pub updates: Option<Number>,
    /// Entries that a range lookup returns [default: 100]
    #[arg(long, value_name = "N", help_heading = "Workload")]
    pub range_entries: Option<Number>,
    /// The same as a share of all entries
    #[arg(
        long,
        value_name = "SHARE",
        conflicts_with = "range_entries",
        help_heading = "Workload"
    )]
    pub selectivity: Option<Number>,

    /// Merge policy now [default: the database's if it keeps one; the engine's, leveling]
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        help_heading = "Present design"
    )]
    pub present_merge_policy: Option<Policy>,
    /// Size ratio now [default: the database's if it keeps one; the engine's, 10]
    #[arg(long, value_name = "T", help_heading = "Present design")]
    pub present_size_ratio: Option<Number>,
    /// Write buffer now [default: the database's if it keeps one; the engine's, 64MiB, or half of
    /// the memory if that is less]
    #[arg(long, value_name = "SIZE", help_heading = "Present design")]
    pub present_write_buffer: Option<Number>,
    /// Filter bits per key now [default: what memory is left; without `--memory` those of the
    /// database's files, of the design that it keeps, or 10]
    #[arg(long, value_name = "BITS", help_heading = "Present design")]
    pub present_bits_per_key: Option<Number>,
    /// How filter memory is divided now [default: uniform]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Present design")]
    pub present_allocation: Option<Division>,

    /// Pages that a point lookup may cost on average
    #[arg(long, value_name = "PAGES", help_heading = "What must hold")]
    pub max_lookup_cost: Option<Number>,
    /// Pages that an update may cost
    #[arg(long, value_name = "PAGES", help_heading = "What must hold")]
    pub max_update_cost: Option<Number>,
    /// A merge policy that must stay
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        help_heading = "What must hold"
    )]
    pub merge_policy: Option<Policy>,
    /// A size ratio that must stay
    #[arg(long, value_name = "T", help_heading = "What must hold")]
    pub size_ratio: Option<Number>,
    /// A write buffer that must stay, filters having the rest of the memory
    #[arg(long, value_name = "SIZE", help_heading = "What must hold")]
    pub write_buffer: Option<Number>,
    /// How filter memory is to be divided [default: monkey]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "What must hold")]
    pub allocation: Option<Division>,
}

impl Inputs {
    /// These, and `below` where they say nothing. Range lookups are one thing said in two ways.
    pub fn over(self, below: Inputs) -> Inputs {
        let ranges = match (self.range_entries, self.selectivity) {
            (None, None) => (below.range_entries, below.selectivity),
            own => own,
        };
        Inputs {
            entries: self.entries.or(below.entries),
            entry_size: self.entry_size.or(below.entry_size),
            memory: self.memory.or(below.memory),
            page_size: self.page_size.or(below.page_size),
            read_latency: self.read_latency.or(below.read_latency),
            write_cost: self.write_cost.or(below.write_cost),
            filter: self.filter.or(below.filter),
            empty_lookups: self.empty_lookups.or(below.empty_lookups),
            existing_lookups: self.existing_lookups.or(below.existing_lookups),
            range_lookups: self.range_lookups.or(below.range_lookups),
            updates: self.updates.or(below.updates),
            range_entries: ranges.0,
            selectivity: ranges.1,
            present_merge_policy: self.present_merge_policy.or(below.present_merge_policy),
            present_size_ratio: self.present_size_ratio.or(below.present_size_ratio),
            present_write_buffer: self.present_write_buffer.or(below.present_write_buffer),
            present_bits_per_key: self.present_bits_per_key.or(below.present_bits_per_key),
            present_allocation: self.present_allocation.or(below.present_allocation),
            max_lookup_cost: self.max_lookup_cost.or(below.max_lookup_cost),
            max_update_cost: self.max_update_cost.or(below.max_update_cost),
            merge_policy: self.merge_policy.or(below.merge_policy),
            size_ratio: self.size_ratio.or(below.size_ratio),
            write_buffer: self.write_buffer.or(below.write_buffer),
            allocation: self.allocation.or(below.allocation),
        }
    }

    /// The shares of operations, by name, in the order of the flags.
    pub fn shares(&self) -> [(&'static str, Option<Number>); 4] {
        [
            ("empty-lookups", self.empty_lookups),
            ("existing-lookups", self.existing_lookups),
            ("range-lookups", self.range_lookups),
            ("updates", self.updates),
        ]
    }

    /// Sets all shares, in the order of [`Self::shares`].
    pub fn set_shares(&mut self, shares: [Option<Number>; 4]) {
        [
            self.empty_lookups,
            self.existing_lookups,
            self.range_lookups,
            self.updates,
        ] = shares;
    }
}
