//! Setters of option structs, by value, so that options can be chained. The structs are
//! `#[non_exhaustive]`: a program that sets options this way compiles as well when there are more.

use super::{
    AutoDesign, Compression, Design, DeviceCosts, Durability, FilterFamily, FilterOptions,
    KeyspaceOptions, WriteOptions,
};
use crate::compaction::MergePolicy;
use crate::filter::{FilterAllocation, ModuleSizes};
use crate::policy::FilterPolicy;

/// Makes a setter for each field of a struct. Fields after `but` have setters of their own, below.
/// A field that is in neither list does not compile.
macro_rules! setters {
    ($type:ident { $($field:ident: $value:ty,)* } but { $($other:ident,)* }) => {
        impl $type {
            $(
                #[doc = concat!(
                    "Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ")."
                )]
                #[must_use]
                pub const fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }

        const _: fn(&$type) = |all| {
            let $type { $($field: _,)* $($other: _,)* } = all;
        };
    };
}

setters!(FilterOptions {
    family: FilterFamily,
    bits_per_key: f64,
    allocation: FilterAllocation,
    modules: u8,
    module_sizes: ModuleSizes,
    partitioned: bool,
} but {});

setters!(KeyspaceOptions {
    merge_policy: MergePolicy,
    size_ratio: u32,
    write_buffer: u64,
    level0_runs: u32,
    level0_slowdown: u32,
    level0_stall: u32,
    target_file: u64,
    filter: FilterOptions,
    filter_policy: FilterPolicy,
    epoch_lookups: u64,
    restart_interval: u32,
} but {
    compression,
    auto_design,
});

setters!(AutoDesign {
    every: u64,
    horizon: u64,
    factor: f64,
} but {});

setters!(Design {
    merge_policy: MergePolicy,
    size_ratio: u32,
    write_buffer: u64,
    bits_per_key: f64,
} but {});

setters!(DeviceCosts {
    read_seconds: f64,
    write_cost: f64,
    merge_read_cost: f64,
} but {});

setters!(WriteOptions {} but { durability, });

impl KeyspaceOptions {
    /// Sets [`compression`](#structfield.compression): an array or a vector, an entry a level.
    #[must_use]
    pub fn compression(mut self, by_level: impl Into<Vec<Compression>>) -> Self {
        self.compression = by_level.into();
        self
    }

    /// Sets [`auto_design`](#structfield.auto_design).
    #[must_use]
    pub fn auto_design(mut self, auto_design: impl Into<Option<AutoDesign>>) -> Self {
        self.auto_design = auto_design.into();
        self
    }
}

impl WriteOptions {
    /// Sets [`durability`](#structfield.durability).
    #[must_use]
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into();
        self
    }
}
