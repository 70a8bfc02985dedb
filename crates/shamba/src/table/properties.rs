//! What a table says of itself: how to decode it and what it holds, and never which policy made it
//! (docs/format.md, "Properties"). Plain data and its bytes.

use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint, varint_len};
use crate::base::key::SeqNo;
use crate::filter::{FilterPlan, Layout, PlanError};

use super::format::{Compression, Damage};
use super::stated_scan_filter::StatedScanFilter;

/// A table's properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Entries, all versions and tombstones counted.
    pub(crate) entries: u64,
    /// Different user keys.
    pub(crate) keys: u64,
    /// Tombstones among the entries.
    pub(crate) tombstones: u64,
    /// Bytes of all entries' user keys.
    pub(crate) key_bytes: u64,
    /// Bytes of the longest user key.
    pub(crate) longest_key: u32,
    /// Bytes of all entries' values.
    pub(crate) value_bytes: u64,
    /// Data blocks.
    pub(crate) data_blocks: u64,
    /// Bytes of data blocks' pages.
    pub(crate) data_bytes: u64,
    /// Payload bytes of index blocks.
    pub(crate) index_bytes: u64,
    /// Payload bytes of filter blocks.
    pub(crate) filter_bytes: u64,
    /// The smallest user key; empty in an empty table.
    pub(crate) smallest: Vec<u8>,
    /// The largest user key; empty in an empty table.
    pub(crate) largest: Vec<u8>,
    /// The range tombstones, encoded; empty where there are none.
    pub(crate) ranges: Vec<u8>,
    /// The smallest sequence number; 0 in an empty table.
    pub(crate) min_seq: SeqNo,
    /// The largest sequence number; 0 in an empty table.
    pub(crate) max_seq: SeqNo,
    /// The filter's modules.
    pub(crate) filter: FilterPlan,
    /// Of its filter for scans, if it has one.
    pub(crate) scan_filter: Option<StatedScanFilter>,
    /// How data blocks were to be compressed; each block says for itself how it is.
    pub(crate) compression: Compression,
    /// Every this many entries a data block stores a key whole.
    pub(crate) restart_interval: u32,
    /// The level the table was written for.
    pub(crate) level: u32,
    /// The version of the engine that wrote it.
    pub(crate) created_by: String,
}

impl Default for Properties {
    fn default() -> Self {
        Properties {
            entries: 0,
            keys: 0,
            tombstones: 0,
            key_bytes: 0,
            longest_key: 0,
            value_bytes: 0,
            data_blocks: 0,
            data_bytes: 0,
            index_bytes: 0,
            filter_bytes: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            ranges: Vec::new(),
            min_seq: 0,
            max_seq: 0,
            filter: FilterPlan::none(Layout::Partitioned),
            scan_filter: None,
            compression: Compression::None,
            restart_interval: 0,
            level: 0,
            created_by: String::new(),
        }
    }
}

/// Numbers that are one varint each, in the order of [`Properties::numbers`]. Ids are on storage.
const FIRST_NUMBER: u64 = 1;
const RESTART_INTERVAL: u64 = 12;
const LEVEL: u64 = 13;
const LONGEST_KEY: u64 = 14;
const SMALLEST: u64 = 32;
const LARGEST: u64 = 33;
const FILTER: u64 = 34;
const COMPRESSION: u64 = 35;
const CREATED_BY: u64 = 36;
const RANGE_TOMBSTONES: u64 = 37;
const PREFIXES: u64 = 38;

impl Properties {
    /// Modules in the top-level index: of the filter, and of that for scans.
    pub(super) fn modules(&self) -> usize {
        let scan_filter = self.scan_filter.as_ref();
        self.filter.modules.len() + scan_filter.map_or(0, |of| of.plan.modules.len())
    }

    const fn numbers(&self) -> [u64; 11] {
        [
            self.entries,
            self.keys,
            self.tombstones,
            self.key_bytes,
            self.value_bytes,
            self.data_blocks,
            self.data_bytes,
            self.index_bytes,
            self.filter_bytes,
            self.min_seq,
            self.max_seq,
        ]
    }

    fn numbers_mut(&mut self) -> [&mut u64; 11] {
        [
            &mut self.entries,
            &mut self.keys,
            &mut self.tombstones,
            &mut self.key_bytes,
            &mut self.value_bytes,
            &mut self.data_blocks,
            &mut self.data_bytes,
            &mut self.index_bytes,
            &mut self.filter_bytes,
            &mut self.min_seq,
            &mut self.max_seq,
        ]
    }

    /// Appends the properties as fields of id, length, bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fields_beside_keys());
        for (id, bytes) in self.long_fields() {
            put_varint(out, id);
            put_bytes(out, bytes);
        }
    }

    /// Appends the length of the properties and the properties. What may be long is not copied on
    /// the way.
    pub(super) fn encode_with_len(&self, out: &mut Vec<u8>) {
        let long = self.long_fields().map(|(id, bytes)| {
            let len = bytes.len();
            varint_len(id) + varint_len(len as u64) + len
        });
        let len = self.fields_beside_keys().len() + long.sum::<usize>();
        out.reserve_exact(varint_len(len as u64) + len);
        put_varint(out, len as u64);
        self.encode(out);
    }

    /// The keys, and range tombstones if there are any.
    fn long_fields(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let keys = [(SMALLEST, &*self.smallest), (LARGEST, &self.largest)];
        let ranges = (!self.ranges.is_empty()).then_some((RANGE_TOMBSTONES, &*self.ranges));
        keys.into_iter().chain(ranges)
    }

    fn fields_beside_keys(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut field = |id: u64, bytes: &[u8]| {
            put_varint(&mut out, id);
            put_bytes(&mut out, bytes);
        };
        let varint = |number: u64| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            bytes
        };
        for (id, number) in (FIRST_NUMBER..).zip(self.numbers()) {
            field(id, &varint(number));
        }
        field(RESTART_INTERVAL, &varint(u64::from(self.restart_interval)));
        field(LEVEL, &varint(u64::from(self.level)));
        field(LONGEST_KEY, &varint(u64::from(self.longest_key)));
        let mut filter = Vec::new();
        self.filter.encode(&mut filter);
        field(FILTER, &filter);
        let compression = match self.compression {
            Compression::None => vec![0],
            Compression::Lz4 => vec![1],
            Compression::Zstd(level) => [&[2], level.to_le_bytes().as_slice()].concat(),
        };
        field(COMPRESSION, &compression);
        field(CREATED_BY, self.created_by.as_bytes());
        if let Some(scan_filter) = &self.scan_filter {
            field(PREFIXES, &scan_filter.encode());
        }
        out
    }

    /// Reads properties; fields of unknown ids are skipped, missing ones have their defaults,
    /// except that there must be a filter plan.
    pub(super) fn decode(input: &[u8]) -> Result<Self, Damage> {
        let (mut properties, [smallest, largest, ranges]) = Self::decode_beside_keys(input)?;
        properties.smallest = smallest.to_vec();
        properties.largest = largest.to_vec();
        properties.ranges = ranges.to_vec();
        Ok(properties)
    }

    /// The same, with the smallest and the largest key and the range tombstones where they lie
    /// instead of among the properties.
    pub(super) fn decode_beside_keys(mut input: &[u8]) -> Result<(Self, [&[u8]; 3]), Damage> {
        let mut properties = Properties::default();
        let mut long = [&[][..]; 3];
        let mut filter = None;
        while !input.is_empty() {
            properties.field(&mut input, &mut long, &mut filter)?;
        }
        properties.filter = filter.ok_or(BAD)?;
        Ok((properties, long))
    }

    fn field<'a>(
        &mut self,
        input: &mut &'a [u8],
        [smallest, largest, ranges]: &mut [&'a [u8]; 3],
        filter: &mut Option<FilterPlan>,
    ) -> Result<(), Damage> {
        let id = take_varint(input).ok_or(BAD)?;
        let mut bytes = take_bytes(input).ok_or(BAD)?;
        let number = |mut bytes: &[u8]| take_varint(&mut bytes).ok_or(BAD);
        let small = |bytes| number(bytes).and_then(|n| u32::try_from(n).map_err(|_| BAD));
        match id {
            // What a reader decodes the table by.
            RESTART_INTERVAL => self.restart_interval = small(bytes)?,
            LEVEL => self.level = small(bytes)?,
            LONGEST_KEY => self.longest_key = small(bytes)?,
            SMALLEST => *smallest = bytes,
            LARGEST => *largest = bytes,
            RANGE_TOMBSTONES => *ranges = bytes,
            PREFIXES => self.scan_filter = Some(StatedScanFilter::decode(bytes)?),
            FILTER => {
                *filter = Some(FilterPlan::decode(&mut bytes).map_err(|error| match error {
                    PlanError::Malformed => BAD,
                    PlanError::Unknown => Damage(
                        "the filter is of a kind this build does not know; a newer build may",
                    ),
                })?);
            }
            COMPRESSION => {
                self.compression = match bytes.split_first() {
                    Some((1, _)) => Compression::Lz4,
                    Some((2, level)) => Compression::Zstd(
                        level
                            .first_chunk()
                            .map_or(0, |level| i32::from_le_bytes(*level)),
                    ),
                    _ => Compression::None,
                }
            }
            // What people may want to know.
            CREATED_BY => self.created_by = String::from_utf8_lossy(bytes).into_owned(),
            // A count, or what a newer build says: that is passed over.
            id => {
                let place = id
                    .checked_sub(FIRST_NUMBER)
                    .and_then(|i| usize::try_from(i).ok());
                let target = place.and_then(|place| self.numbers_mut().into_iter().nth(place));
                if let Some(target) = target {
                    *target = number(bytes)?;
                }
            }
        }
        Ok(())
    }
}

const BAD: Damage = Damage("the properties are malformed");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip_and_skip_what_is_unknown(
            numbers in any::<[u64; 11]>(),
            smallest in any::<Vec<u8>>(),
            largest in any::<Vec<u8>>(),
            ranges in any::<Vec<u8>>(),
            level in any::<u32>(),
            zstd in any::<i32>(),
        ) {
            let mut properties = Properties {
                smallest,
                largest,
                ranges,
                level,
                restart_interval: level / 2,
                longest_key: level / 3,
                compression: Compression::Zstd(zstd),
                created_by: "0.1".into(),
                ..Properties::default()
            };
            for (to, from) in properties.numbers_mut().into_iter().zip(numbers) {
                *to = from;
            }
            let mut bytes = Vec::new();
            properties.encode(&mut bytes);
            let mut with_len = Vec::new();
            properties.encode_with_len(&mut with_len);
            let mut input = &*with_len;
            prop_assert_eq!(take_bytes(&mut input), Some(&*bytes));
            prop_assert!(input.is_empty());
            put_varint(&mut bytes, 999);
            put_bytes(&mut bytes, b"from the future");
            prop_assert_eq!(Properties::decode(&bytes), Ok(properties));
            prop_assert!(Properties::decode(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in any::<Vec<u8>>()) {
            let _ = Properties::decode(&bytes);
        }
    }

    #[test]
    fn a_filter_plan_must_be_there() {
        assert_eq!(Properties::decode(&[]), Err(BAD));
    }
}
