//! What a table says of itself: how to decode it and what it holds, never which policy made it
//! (docs/format.md, "Properties"). Plain data and its bytes.

use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint};
use crate::base::key::SeqNo;
use crate::filter::{FilterPlan, Layout, PlanError};

use super::format::{Compression, Damage};

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
    /// The smallest sequence number; 0 in an empty table.
    pub(crate) min_seq: SeqNo,
    /// The largest sequence number; 0 in an empty table.
    pub(crate) max_seq: SeqNo,
    /// The filter's modules.
    pub(crate) filter: FilterPlan,
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
            value_bytes: 0,
            data_blocks: 0,
            data_bytes: 0,
            index_bytes: 0,
            filter_bytes: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            min_seq: 0,
            max_seq: 0,
            filter: FilterPlan::none(Layout::Partitioned),
            compression: Compression::None,
            restart_interval: 0,
            level: 0,
            created_by: String::new(),
        }
    }
}

/// Numbers that are one varint each, in the order of [`Properties::numbers`]. Ids are on storage.
const FIRST_NUMBER: u64 = 1;
const SMALLEST: u64 = 32;
const LARGEST: u64 = 33;
const FILTER: u64 = 34;
const COMPRESSION: u64 = 35;
const CREATED_BY: u64 = 36;

impl Properties {
    fn numbers(&mut self) -> [&mut u64; 11] {
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
        let mut copy = self.clone();
        let mut bytes = Vec::new();
        let mut field = |id: u64, write: &dyn Fn(&mut Vec<u8>)| {
            bytes.clear();
            write(&mut bytes);
            put_varint(out, id);
            put_bytes(out, &bytes);
        };
        for (id, number) in (FIRST_NUMBER..).zip(copy.numbers()) {
            field(id, &|b| put_varint(b, *number));
        }
        field(12, &|b| put_varint(b, u64::from(self.restart_interval)));
        field(13, &|b| put_varint(b, u64::from(self.level)));
        field(SMALLEST, &|b| b.extend_from_slice(&self.smallest));
        field(LARGEST, &|b| b.extend_from_slice(&self.largest));
        field(FILTER, &|b| self.filter.encode(b));
        field(COMPRESSION, &|b| match self.compression {
            Compression::None => b.push(0),
            Compression::Lz4 => b.push(1),
            Compression::Zstd(level) => {
                b.push(2);
                b.extend_from_slice(&level.to_le_bytes());
            }
        });
        field(CREATED_BY, &|b| {
            b.extend_from_slice(self.created_by.as_bytes());
        });
    }

    /// Reads properties; fields of unknown ids are skipped, missing ones have their defaults,
    /// except that there must be a filter plan.
    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Damage> {
        let mut properties = Properties::default();
        let mut filter = None;
        while !input.is_empty() {
            properties.field(&mut input, &mut filter)?;
        }
        properties.filter = filter.ok_or(BAD)?;
        Ok(properties)
    }

    fn field(&mut self, input: &mut &[u8], filter: &mut Option<FilterPlan>) -> Result<(), Damage> {
        let id = take_varint(input).ok_or(BAD)?;
        let mut bytes = take_bytes(input).ok_or(BAD)?;
        let number = |mut bytes: &[u8]| take_varint(&mut bytes).ok_or(BAD);
        let small = |bytes| number(bytes).and_then(|n| u32::try_from(n).map_err(|_| BAD));
        match id {
            12 => self.restart_interval = small(bytes)?,
            13 => self.level = small(bytes)?,
            SMALLEST => self.smallest = bytes.to_vec(),
            LARGEST => self.largest = bytes.to_vec(),
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
            CREATED_BY => self.created_by = String::from_utf8_lossy(bytes).into_owned(),
            id => {
                let place = id
                    .checked_sub(FIRST_NUMBER)
                    .and_then(|i| usize::try_from(i).ok());
                let target = place.and_then(|place| self.numbers().into_iter().nth(place));
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
            level in any::<u32>(),
            zstd in any::<i32>(),
        ) {
            let mut properties = Properties {
                smallest,
                largest,
                level,
                restart_interval: level / 2,
                compression: Compression::Zstd(zstd),
                created_by: "0.1".into(),
                ..Properties::default()
            };
            for (to, from) in properties.numbers().into_iter().zip(numbers) {
                *to = from;
            }
            let mut bytes = Vec::new();
            properties.encode(&mut bytes);
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
