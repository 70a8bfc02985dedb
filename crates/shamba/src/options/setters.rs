//! Setters of option structs, by value, so that options can be chained. The structs are
//! `#[non_exhaustive]`: a program that sets options this way compiles as well when there are more.

use std::time::Duration;

use super::{
    AutoDesign, Compression, Design, DeviceCosts, Durability, FilterFamily, FilterOptions,
    KeyspaceOptions, WriteOptions,
};
use crate::compaction::MergePolicy;
use crate::filter::{FilterAllocation, ModuleSizes, Prefix};
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
    merge_for_scans: bool,
    restart_interval: u32,
} but {
    compression,
    prefix,
    range_filter,
    auto_design,
    ttl,
    value_files_from,
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

setters!(WriteOptions {} but { durability, ttl, });

impl KeyspaceOptions {
    /// Sets [`compression`](#structfield.compression): an array or a vector, an entry a level.
    #[must_use]
    pub fn compression(mut self, by_level: impl Into<Vec<Compression>>) -> Self {
        self.compression = by_level.into();
        self
    }

    /// Sets [`prefix`](#structfield.prefix).
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Option<Prefix>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets [`range_filter`](#structfield.range_filter).
    #[must_use]
    pub fn range_filter(mut self, bits_per_key: impl Into<Option<f64>>) -> Self {
        self.range_filter = bits_per_key.into();
        self
    }

    /// Sets [`auto_design`](#structfield.auto_design).
    #[must_use]
    pub fn auto_design(mut self, auto_design: impl Into<Option<AutoDesign>>) -> Self {
        self.auto_design = auto_design.into();
        self
    }

    /// Sets [`ttl`](#structfield.ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: impl Into<Option<Duration>>) -> Self {
        self.ttl = ttl.into();
        self
    }
}

impl KeyspaceOptions {
    /// Sets [`value_files_from`](#structfield.value_files_from).
    #[must_use]
    pub fn value_files_from(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.value_files_from = bytes.into();
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

    /// Sets [`ttl`](#structfield.ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: impl Into<Option<Duration>>) -> Self {
        self.ttl = ttl.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the two it is depends on how the tests are built; `.ci/run` builds them both ways.
    #[test]
    fn compression_that_is_not_compiled_in_is_refused_by_name() {
        for (compression, feature, there) in [
            (Compression::None, "", true),
            (Compression::Lz4, "`lz4`", cfg!(feature = "lz4")),
            (Compression::Zstd(3), "`zstd`", cfg!(feature = "zstd")),
        ] {
            let by_level = [Compression::None, compression];
            match KeyspaceOptions::new().compression(by_level).validate() {
                Ok(()) => assert!(there, "{compression:?}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!there && text.contains(feature), "{text}");
                    assert!(text.contains("`compression`"), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_may_be_left_open_is_set_with_and_without_some() {
        let auto = AutoDesign::new().factor(3.0);
        let options = KeyspaceOptions::new();
        assert_eq!(options.clone().auto_design(auto).auto_design, Some(auto));
        assert_eq!(options.auto_design(None).auto_design, None);
        let synced = WriteOptions::new().durability(Durability::Synced);
        assert_eq!(synced, WriteOptions::synced());
        assert_eq!(synced.durability(None), WriteOptions::new());
    }

    /// A file of settings says what differs from the defaults, and no more.
    #[cfg(feature = "serde")]
    #[test]
    fn options_are_read_from_what_differs() {
        let filter = FilterOptions::new().family(FilterFamily::BlockedBloom);
        let options = KeyspaceOptions::new()
            .merge_policy(MergePolicy::LazyLeveling)
            .compression([Compression::None, Compression::Zstd(3)])
            .filter(filter.modules(2))
            .auto_design(AutoDesign::new());
        let text = serde_json::to_string(&options).unwrap();
        let back: KeyspaceOptions = serde_json::from_str(&text).unwrap();
        assert_eq!(back, options);
        let text = r#"{"size_ratio": 4, "filter": {"family": "ribbon"}}"#;
        let read: KeyspaceOptions = serde_json::from_str(text).unwrap();
        let ribbon = FilterOptions::new().family(FilterFamily::Ribbon);
        assert_eq!(read, KeyspaceOptions::new().size_ratio(4).filter(ribbon));
    }
}
