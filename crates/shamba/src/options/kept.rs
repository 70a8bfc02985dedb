//! The options of a keyspace as the manifest keeps them (docs/format.md, "Options of a keyspace").
//! Pure; decoding takes arbitrary bytes and never panics.
//!
//! They are fields `tag, length, payload`, in any order. One that is absent has its default. What a
//! newer build wrote and this one does not know is left out and named ([`KeptOptions::unknown`]):
//! options say how new tables are made, and nothing of how to read old ones.

use std::time::Duration;

use super::design::{merge_policy_number, merge_policy_of};
use super::{
    AutoDesign, Compression, FilterFamily, FilterOptions, KeyspaceOptions, MOST_COMPRESSIONS,
};
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_u64, take_varint};
use crate::filter::{FilterAllocation, ModuleSizes, Prefix};
use crate::policy::{FilterPolicy, Skipping, Thresholds};

const MERGE_POLICY: u64 = 1;
const SIZE_RATIO: u64 = 2;
const WRITE_BUFFER: u64 = 3;
const LEVEL0_RUNS: u64 = 4;
const LEVEL0_SLOWDOWN: u64 = 5;
const LEVEL0_STALL: u64 = 6;
const TARGET_FILE: u64 = 7;
const COMPRESSION: u64 = 8;
const FILTER_FAMILY: u64 = 9;
const FILTER_BITS: u64 = 10;
const FILTER_ALLOCATION: u64 = 11;
const FILTER_MODULES: u64 = 12;
const FILTER_MODULE_SIZES: u64 = 13;
const FILTER_PARTITIONED: u64 = 14;
const FILTER_POLICY: u64 = 15;
const EPOCH_LOOKUPS: u64 = 16;
const AUTO_DESIGN: u64 = 17;
const RESTART_INTERVAL: u64 = 18;
const MERGE_FOR_SCANS: u64 = 19;
const TTL: u64 = 20;
const VALUE_FILES_FROM: u64 = 22;
const RANGE_FILTER: u64 = 23;
const PREFIX: u64 = 21;

/// Zstandard of level l has the number `ZSTD + l`.
const ZSTD: u64 = 2;

/// Options that were kept.
#[derive(Debug, PartialEq)]
pub(crate) struct KeptOptions {
    /// The options, as far as they are known.
    pub(crate) options: KeyspaceOptions,
    /// The tags of fields that this build does not know, or whose values it does not.
    pub(crate) unknown: Vec<u64>,
}

fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn take_f64(input: &mut &[u8]) -> Option<f64> {
    take_u64(input).map(f64::from_bits)
}

fn take_u32_varint(input: &mut &[u8]) -> Option<u32> {
    take_varint(input)?.try_into().ok()
}

impl KeptOptions {
    /// The bytes of options.
    pub(crate) fn encode(options: &KeyspaceOptions) -> Vec<u8> {
        // All by name, so that no option is forgotten.
        let KeyspaceOptions {
            merge_policy,
            size_ratio,
            write_buffer,
            level0_runs,
            level0_slowdown,
            level0_stall,
            target_file,
            compression,
            filter,
            prefix,
            range_filter,
            filter_policy,
            epoch_lookups,
            auto_design,
            merge_for_scans,
            ttl,
            value_files_from,
            restart_interval,
        } = options;
        let FilterOptions {
            family,
            bits_per_key,
            allocation,
            modules,
            module_sizes,
            partitioned,
        } = filter;
        let mut out = Vec::with_capacity(128);
        // Those that are one number.
        for (tag, value) in [
            (MERGE_POLICY, merge_policy_number(*merge_policy)),
            (SIZE_RATIO, u64::from(*size_ratio)),
            (WRITE_BUFFER, *write_buffer),
            (LEVEL0_RUNS, u64::from(*level0_runs)),
            (LEVEL0_SLOWDOWN, u64::from(*level0_slowdown)),
            (LEVEL0_STALL, u64::from(*level0_stall)),
            (TARGET_FILE, *target_file),
            (FILTER_FAMILY, family_number(*family)),
            (FILTER_MODULES, u64::from(*modules)),
            (FILTER_PARTITIONED, u64::from(*partitioned)),
            (EPOCH_LOOKUPS, *epoch_lookups),
            (RESTART_INTERVAL, u64::from(*restart_interval)),
            (MERGE_FOR_SCANS, u64::from(*merge_for_scans)),
        ] {
            put_field(&mut out, tag, |out| put_varint(out, value));
        }
        // And the others.
        put_field(&mut out, COMPRESSION, |out| {
            let numbers = compression.iter().map(|of| compression_number(*of));
            numbers.for_each(|number| put_varint(out, number));
        });
        put_field(&mut out, FILTER_BITS, |out| put_f64(out, *bits_per_key));
        put_field(&mut out, FILTER_ALLOCATION, |out| {
            put_allocation(out, allocation);
        });
        put_field(&mut out, FILTER_MODULE_SIZES, |out| {
            put_module_sizes(out, module_sizes);
        });
        put_field(&mut out, FILTER_POLICY, |out| {
            put_filter_policy(out, filter_policy);
        });
        // Those that may be absent.
        if let Some(prefix) = prefix {
            put_field(&mut out, PREFIX, |out| put_prefix(out, prefix));
        }
        if let Some(ttl) = ttl {
            put_field(&mut out, TTL, |out| {
                put_varint(out, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            });
        }
        if let Some(bits) = range_filter {
            put_field(&mut out, RANGE_FILTER, |out| put_f64(out, *bits));
        }
        if let Some(from) = value_files_from {
            put_field(&mut out, VALUE_FILES_FROM, |out| put_varint(out, *from));
        }
        if let Some(auto) = auto_design {
            put_field(&mut out, AUTO_DESIGN, |out| {
                put_varint(out, auto.every);
                put_varint(out, auto.horizon);
                put_f64(out, auto.factor);
            });
        }
        out
    }

    /// The options of these bytes; `None` where they are no fields.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut kept = KeptOptions {
            options: KeyspaceOptions::default(),
            unknown: Vec::new(),
        };
        while !bytes.is_empty() {
            let tag = take_varint(&mut bytes)?;
            let payload = take_bytes(&mut bytes)?;
            if kept.set(tag, payload).is_none() {
                kept.unknown.push(tag);
            }
        }
        Some(kept)
    }

    /// Takes a field; `None` where it is not known. What follows in its payload is of newer builds.
    fn set(&mut self, tag: u64, mut payload: &[u8]) -> Option<()> {
        let (options, input) = (&mut self.options, &mut payload);
        match tag {
            // The shape of the tree.
            MERGE_POLICY => options.merge_policy = merge_policy_of(take_varint(input)?)?,
            SIZE_RATIO => options.size_ratio = take_u32_varint(input)?,
            WRITE_BUFFER => options.write_buffer = take_varint(input)?,
            LEVEL0_RUNS => options.level0_runs = take_u32_varint(input)?,
            LEVEL0_SLOWDOWN => options.level0_slowdown = take_u32_varint(input)?,
            LEVEL0_STALL => options.level0_stall = take_u32_varint(input)?,
            TARGET_FILE => options.target_file = take_varint(input)?,
            MERGE_FOR_SCANS => options.merge_for_scans = take_varint(input)? != 0,
            TTL => {
                options.ttl = Some(match take_varint(input)? {
                    u64::MAX => Duration::MAX,
                    millis => Duration::from_millis(millis),
                });
            }
            VALUE_FILES_FROM => options.value_files_from = Some(take_varint(input)?),
            AUTO_DESIGN => {
                options.auto_design = Some(AutoDesign {
                    every: take_varint(input)?,
                    horizon: take_varint(input)?,
                    factor: take_f64(input)?,
                });
            }
            // Its blocks.
            COMPRESSION => {
                let mut levels = Vec::new();
                while !input.is_empty() {
                    // No build writes more, and none is to make a list of any length.
                    if levels.len() >= MOST_COMPRESSIONS {
                        return None;
                    }
                    levels.push(compression_of(take_varint(input)?)?);
                }
                options.compression = levels;
            }
            RESTART_INTERVAL => options.restart_interval = take_u32_varint(input)?,
            // Its filters.
            FILTER_FAMILY => options.filter.family = family_of(take_varint(input)?)?,
            FILTER_BITS => options.filter.bits_per_key = take_f64(input)?,
            FILTER_ALLOCATION => options.filter.allocation = take_allocation(input)?,
            FILTER_MODULES => options.filter.modules = take_varint(input)?.try_into().ok()?,
            FILTER_MODULE_SIZES => options.filter.module_sizes = take_module_sizes(input)?,
            FILTER_PARTITIONED => options.filter.partitioned = take_varint(input)? != 0,
            PREFIX => options.prefix = Some(take_prefix(input)?),
            RANGE_FILTER => options.range_filter = Some(take_f64(input)?),
            FILTER_POLICY => options.filter_policy = take_filter_policy(input)?,
            EPOCH_LOOKUPS => options.epoch_lookups = take_varint(input)?,
            _ => return None,
        }
        Some(())
    }
}

fn put_field(out: &mut Vec<u8>, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    write(&mut payload);
    put_varint(out, tag);
    put_bytes(out, &payload);
}

fn compression_number(compression: Compression) -> u64 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        // Levels are from 1 on.
        Compression::Zstd(level) => ZSTD + u64::try_from(level).unwrap_or(0),
    }
}

/// `None` also for one that is not compiled in: tables that have it say so when they are read.
fn compression_of(number: u64) -> Option<Compression> {
    let compression = match number {
        0 => Compression::None,
        1 => Compression::Lz4,
        _ => Compression::Zstd(i32::try_from(number - ZSTD).ok()?),
    };
    compression
        .missing_feature()
        .is_none()
        .then_some(compression)
}

fn family_number(family: FilterFamily) -> u64 {
    match family {
        FilterFamily::Bloom => 0,
        FilterFamily::BlockedBloom => 1,
        FilterFamily::Ribbon => 2,
        FilterFamily::Auto => 3,
    }
}

fn family_of(number: u64) -> Option<FilterFamily> {
    match number {
        0 => Some(FilterFamily::Bloom),
        1 => Some(FilterFamily::BlockedBloom),
        2 => Some(FilterFamily::Ribbon),
        3 => Some(FilterFamily::Auto),
        _ => None,
    }
}

fn put_allocation(out: &mut Vec<u8>, allocation: &FilterAllocation) {
    match *allocation {
        FilterAllocation::Uniform => put_varint(out, 0),
        FilterAllocation::Monkey => put_varint(out, 1),
        FilterAllocation::MonkeyGeneral { existing_per_empty } => {
            put_varint(out, 2);
            put_f64(out, existing_per_empty);
        }
        FilterAllocation::Measured => put_varint(out, 3),
    }
}

fn take_allocation(input: &mut &[u8]) -> Option<FilterAllocation> {
    Some(match take_varint(input)? {
        0 => FilterAllocation::Uniform,
        1 => FilterAllocation::Monkey,
        2 => FilterAllocation::MonkeyGeneral {
            existing_per_empty: take_f64(input)?,
        },
        3 => FilterAllocation::Measured,
        _ => return None,
    })
}

fn put_module_sizes(out: &mut Vec<u8>, sizes: &ModuleSizes) {
    match *sizes {
        ModuleSizes::Equal => put_varint(out, 0),
        ModuleSizes::Proportional { first_bits_per_key } => {
            put_varint(out, 1);
            put_f64(out, first_bits_per_key);
        }
        ModuleSizes::FirstInMemory => put_varint(out, 2),
    }
}

fn take_module_sizes(input: &mut &[u8]) -> Option<ModuleSizes> {
    Some(match take_varint(input)? {
        0 => ModuleSizes::Equal,
        1 => ModuleSizes::Proportional {
            first_bits_per_key: take_f64(input)?,
        },
        2 => ModuleSizes::FirstInMemory,
        _ => return None,
    })
}

fn put_prefix(out: &mut Vec<u8>, prefix: &Prefix) {
    let (kind, of) = match prefix {
        Prefix::Fixed(len) => (0, std::slice::from_ref(len)),
        Prefix::Delimiter(byte) => (1, std::slice::from_ref(byte)),
        Prefix::Function(name) => (2, name.as_bytes()),
    };
    put_varint(out, kind);
    put_bytes(out, of);
}

fn take_prefix(input: &mut &[u8]) -> Option<Prefix> {
    Some(match (take_varint(input)?, take_bytes(input)?) {
        (0, &[len]) => Prefix::Fixed(len),
        (1, &[byte]) => Prefix::Delimiter(byte),
        (2, name) => Prefix::Function(String::from_utf8(name.to_vec()).ok()?),
        _ => return None,
    })
}

fn put_filter_policy(out: &mut Vec<u8>, policy: &FilterPolicy) {
    match *policy {
        FilterPolicy::All => put_varint(out, 0),
        FilterPolicy::ExpectedReads => put_varint(out, 1),
        FilterPolicy::Utility {
            skipping,
            thresholds,
        } => {
            put_varint(out, 2);
            put_varint(out, u64::from(skipping == Skipping::Full));
            let (relative, first, later) = match thresholds {
                Thresholds::Absolute { first, later } => (0, first, later),
                Thresholds::Relative { first, later } => (1, first, later),
            };
            put_varint(out, relative);
            put_f64(out, first);
            put_f64(out, later);
        }
        FilterPolicy::Elastic {
            initial_units,
            lifetime,
        } => {
            put_varint(out, 3);
            put_varint(out, u64::from(initial_units));
            put_varint(out, u64::from(lifetime));
        }
    }
}

fn take_filter_policy(input: &mut &[u8]) -> Option<FilterPolicy> {
    Some(match take_varint(input)? {
        0 => FilterPolicy::All,
        1 => FilterPolicy::ExpectedReads,
        2 => {
            let skipping = match take_varint(input)? {
                0 => Skipping::Partial,
                1 => Skipping::Full,
                _ => return None,
            };
            let relative = take_varint(input)?;
            let (first, later) = (take_f64(input)?, take_f64(input)?);
            FilterPolicy::Utility {
                skipping,
                thresholds: match relative {
                    0 => Thresholds::Absolute { first, later },
                    1 => Thresholds::Relative { first, later },
                    _ => return None,
                },
            }
        }
        3 => FilterPolicy::Elastic {
            initial_units: take_varint(input)?.try_into().ok()?,
            lifetime: take_u32_varint(input)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::{Granularity, MergePolicy};

    fn options() -> impl Strategy<Value = KeyspaceOptions> {
        let merge_policy = prop::sample::select(vec![
            MergePolicy::default(),
            MergePolicy::Leveling {
                granularity: Granularity::Level,
            },
            MergePolicy::Tiering,
            MergePolicy::LazyLeveling,
        ]);
        let compression = prop_oneof![
            Just(Compression::None),
            Just(Compression::Lz4),
            (1..20i32).prop_map(Compression::Zstd),
        ];
        // Those that are compiled in.
        let compression = compression.prop_map(|of: Compression| match of.missing_feature() {
            Some(_) => Compression::None,
            None => of,
        });
        let allocation = prop_oneof![
            Just(FilterAllocation::Uniform),
            Just(FilterAllocation::Monkey),
            (0.0..9.0).prop_map(|existing_per_empty| FilterAllocation::MonkeyGeneral {
                existing_per_empty
            }),
            Just(FilterAllocation::Measured),
        ];
        let sizes = prop_oneof![
            Just(ModuleSizes::Equal),
            (0.0..9.0)
                .prop_map(|first_bits_per_key| ModuleSizes::Proportional { first_bits_per_key }),
            Just(ModuleSizes::FirstInMemory),
        ];
        let thresholds =
            (any::<bool>(), 0.0..1.0, 0.0..1.0).prop_map(|(relative, first, later)| {
                if relative {
                    Thresholds::Relative { first, later }
                } else {
                    Thresholds::Absolute { first, later }
                }
            });
        let skipping = prop::sample::select(vec![Skipping::Partial, Skipping::Full]);
        let policy = prop_oneof![
            Just(FilterPolicy::All),
            Just(FilterPolicy::ExpectedReads),
            (skipping, thresholds).prop_map(|(skipping, thresholds)| FilterPolicy::Utility {
                skipping,
                thresholds
            }),
            (1..9u8, 1..9u32).prop_map(|(initial_units, lifetime)| FilterPolicy::Elastic {
                initial_units,
                lifetime
            }),
        ];
        let auto = (1000..2000u64, 2000..9000u64, 1.0..5.0).prop_map(|(every, horizon, factor)| {
            AutoDesign {
                every,
                horizon,
                factor,
            }
        });
        let family = prop::sample::select(vec![
            FilterFamily::Bloom,
            FilterFamily::BlockedBloom,
            FilterFamily::Ribbon,
            FilterFamily::Auto,
        ]);
        let filter = (family, 0.0..64.0, allocation, 1..17u8, sizes, any::<bool>()).prop_map(
            |(family, bits_per_key, allocation, modules, module_sizes, partitioned)| {
                FilterOptions {
                    family,
                    bits_per_key,
                    allocation,
                    modules,
                    module_sizes,
                    partitioned,
                }
            },
        );
        let numbers = (2..1000u32, 4096..1u64 << 31, 1..1000u32, 4096..1u64 << 40);
        let others = (
            1..u64::MAX,
            prop::option::of(auto),
            any::<bool>(),
            1..1025u32,
        );
        (
            (merge_policy, numbers),
            prop::collection::vec(compression, 1..65),
            (filter, policy),
            others,
        )
            .prop_map(|((merge_policy, numbers), compression, filters, others)| {
                let (size_ratio, write_buffer, level0_runs, target_file) = numbers;
                let (filter, filter_policy) = filters;
                let (epoch_lookups, auto_design, merge_for_scans, restart_interval) = others;
                KeyspaceOptions {
                    merge_policy,
                    size_ratio,
                    write_buffer,
                    level0_runs,
                    level0_slowdown: level0_runs + 3,
                    level0_stall: level0_runs + 5,
                    target_file,
                    compression,
                    filter,
                    prefix: match epoch_lookups % 5 {
                        0 => None,
                        1 => Some(Prefix::Delimiter(epoch_lookups as u8)),
                        2 => Some(Prefix::Function(format!("function {epoch_lookups}"))),
                        _ => Some(Prefix::Fixed(epoch_lookups as u8)),
                    },
                    range_filter: (epoch_lookups % 5 == 0).then_some(4.5),
                    filter_policy,
                    epoch_lookups,
                    auto_design,
                    merge_for_scans,
                    ttl: match epoch_lookups % 3 {
                        0 => None,
                        1 => Some(Duration::MAX),
                        _ => Some(Duration::from_millis(epoch_lookups)),
                    },
                    value_files_from: (epoch_lookups % 2 == 0).then_some(epoch_lookups),
                    restart_interval,
                }
            })
    }

    proptest! {
        #[test]
        fn options_are_what_they_were(options in options()) {
            let kept = KeptOptions::decode(&KeptOptions::encode(&options)).unwrap();
            prop_assert_eq!(kept.unknown, Vec::<u64>::new());
            prop_assert_eq!(kept.options, options);
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in any::<Vec<u8>>()) {
            let _ = KeptOptions::decode(&bytes);
        }

        #[test]
        fn damaged_options_never_panic(
            options in options(),
            at in any::<prop::sample::Index>(),
            bit in 0..8,
        ) {
            let mut bytes = KeptOptions::encode(&options);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let _ = KeptOptions::decode(&bytes).map(|kept| kept.options.validate());
        }
    }

    #[test]
    fn what_a_newer_build_kept_is_named_and_the_rest_taken() {
        let mut bytes = KeptOptions::encode(&KeyspaceOptions::new().size_ratio(7));
        put_field(&mut bytes, 99, |out| put_varint(out, 5));
        // A family that is not known yet: the default is taken.
        put_field(&mut bytes, FILTER_FAMILY, |out| put_varint(out, 77));
        // More of a field than is known.
        put_field(&mut bytes, RESTART_INTERVAL, |out| {
            put_varint(out, 3);
            put_varint(out, 4);
        });
        let kept = KeptOptions::decode(&bytes).unwrap();
        assert_eq!(kept.unknown, [99, FILTER_FAMILY]);
        assert_eq!(
            (kept.options.size_ratio, kept.options.restart_interval),
            (7, 3)
        );
        assert_eq!(KeptOptions::decode(&bytes[..bytes.len() - 1]), None);
    }

    /// Only new tables are made otherwise: a build that lacks a codec opens what names it.
    #[cfg(not(feature = "lz4"))]
    #[test]
    fn a_compression_that_is_not_compiled_in_is_left_out() {
        let mut bytes = Vec::new();
        put_field(&mut bytes, COMPRESSION, |out| put_varint(out, 1));
        let kept = KeptOptions::decode(&bytes).unwrap();
        assert_eq!(kept.unknown, [COMPRESSION]);
        assert_eq!(kept.options, KeyspaceOptions::default());
    }

    /// The numbers are on storage: what is kept once means the same for ever.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let options = KeyspaceOptions {
            compression: vec![Compression::None, Compression::Lz4, Compression::Zstd(3)],
            auto_design: Some(AutoDesign::default()),
            ..KeyspaceOptions::default()
        };
        let hex: String = KeptOptions::encode(&options)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let expected = concat!(
            "010101",
            "02010a",
            "030480808020",
            "040104",
            "050114",
            "060124",
            "070480808020",
            "090103",
            "0c0101",
            "0e0101",
            "10028010",
            "120108",
            "130101",
            "0803000105",
            "0a080000000000002440",
            "0b0100",
            "0d0100",
            "0f0101",
            "110f80800280ade2040000000000000040",
        );
        assert_eq!(hex, expected);
    }
}
