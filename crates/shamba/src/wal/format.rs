//! Headers of logs and records as bytes. Pure; the layout is in the parent module's words.

use crate::base::checksum::checksum;
use crate::base::coding::{take_u32, take_u64};

/// What a log says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogInfo {
    /// The log's number.
    pub(crate) number: u64,
    /// The position of its first byte.
    pub(crate) base: u64,
    /// What its checksums start from, which no other log has: it tells a log of this history from
    /// one of a copy that went another way.
    pub(crate) salt: u32,
}

/// The first bytes of every log.
pub(super) const MAGIC: [u8; 8] = *b"SHaMBaLg";
/// The version this build writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;
/// The length of a log's header.
pub(crate) const LOG_HEADER: usize = 44;
/// The length of a record's header.
pub(crate) const RECORD_HEADER: usize = 28;
/// The longest payload, in bytes.
pub(super) const MAX_PAYLOAD: usize = 256 << 20;

/// The header of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) salt: u32,
    pub(super) number: u64,
    pub(super) base: u64,
    pub(super) synced: u64,
}

/// What the first bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    Header(LogHeader),
    /// A sound header of a newer format.
    Newer(u32),
    Invalid,
}

/// A salt for a log, from the database's seed and the log's number.
pub(super) fn salt(seed: u64, number: u64) -> u32 {
    checksum(checksum(!0, &seed.to_le_bytes()), &number.to_le_bytes())
}

impl LogHeader {
    /// What it says of the log.
    pub(super) fn info(&self) -> LogInfo {
        LogInfo {
            number: self.number,
            base: self.base,
            salt: self.salt,
        }
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.synced.to_le_bytes());
        let fields = out.last_chunk::<{ LOG_HEADER - 4 }>();
        let sum = fields.map_or(0, |fields| checksum(0, fields));
        out.extend_from_slice(&sum.to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8]) -> Decoded {
        Self::try_decode(bytes).unwrap_or(Decoded::Invalid)
    }

    fn try_decode(bytes: &[u8]) -> Option<Decoded> {
        let bytes = bytes.first_chunk::<LOG_HEADER>()?;
        let (summed, sum) = bytes.split_last_chunk::<4>()?;
        if checksum(0, summed) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = summed.strip_prefix(&MAGIC)?;
        let version = take_u32(&mut rest)?;
        if version > VERSION {
            return Some(Decoded::Newer(version));
        }
        Some(Decoded::Header(LogHeader {
            salt: take_u32(&mut rest)?,
            number: take_u64(&mut rest)?,
            base: take_u64(&mut rest)?,
            synced: take_u64(&mut rest)?,
        }))
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) payload_len: u32,
    pub(super) payload_sum: u32,
    pub(super) first_seq: u64,
    pub(super) synced: u64,
}

impl RecordHeader {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>, salt: u32, position: u64) {
        out.extend_from_slice(&self.payload_len.to_le_bytes());
        out.extend_from_slice(&self.payload_sum.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&self.synced.to_le_bytes());
        let fields = out.last_chunk::<{ RECORD_HEADER - 4 }>();
        let sum = fields.map_or(0, |fields| header_sum(salt, position, fields));
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// The header at `position`, if these bytes are one.
    pub(super) fn decode(bytes: &[u8], salt: u32, position: u64) -> Option<Self> {
        let bytes = bytes.first_chunk::<RECORD_HEADER>()?;
        let (fields, sum) = bytes.split_last_chunk::<4>()?;
        let mut rest = fields;
        let header = RecordHeader {
            payload_len: take_u32(&mut rest)?,
            payload_sum: take_u32(&mut rest)?,
            first_seq: take_u64(&mut rest)?,
            synced: take_u64(&mut rest)?,
        };
        // The cheap tests first: a scan for records tries every byte.
        let plausible = header.payload_len as usize <= MAX_PAYLOAD && header.synced <= position;
        (plausible && header_sum(salt, position, fields) == u32::from_le_bytes(*sum))
            .then_some(header)
    }

    /// The length of the record with its payload.
    pub(super) fn record_len(&self) -> u64 {
        RECORD_HEADER as u64 + u64::from(self.payload_len)
    }
}

fn header_sum(salt: u32, position: u64, fields: &[u8]) -> u32 {
    checksum(checksum(salt, &position.to_le_bytes()), fields)
}
