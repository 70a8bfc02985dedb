//! Compresses payloads of blocks, within memory that is charged before it is taken. One owner.

use super::format::{Codec, Compression};
use super::zstd_encoder::{ZstdBounds, ZstdEncoder};
use crate::budget::Reservation;

/// Compresses payloads.
pub(super) struct Compressor {
    kind: Compression,
    zstd: Option<ZstdEncoder>,
    out: Vec<u8>,
}

impl Compressor {
    pub(super) fn new(kind: Compression) -> Self {
        Compressor {
            kind,
            zstd: None,
            out: Vec::new(),
        }
    }

    /// The compressed payload behind its length before compression; `None` when it cannot be made.
    /// What that takes is taken from `memory` first, and what was taken under another limit is
    /// given back before.
    pub(super) fn compress(
        &mut self,
        raw: &[u8],
        memory: &mut Reservation,
    ) -> Option<(Codec, &[u8])> {
        let bound = match self.kind {
            #[cfg(feature = "lz4")]
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            Compression::Zstd(_) => ZstdEncoder::bound(raw.len())?,
            _ => return None,
        };
        // Memory is charged before it is taken; a budget that changed asks for another Zstandard
        // context.
        let limit = memory.limit();
        self.refit(limit);
        self.out.clear();
        let mut more = (bound + 4).saturating_sub(self.out.capacity()) as u64;
        if self.zstd.is_none() {
            more += compressor_bytes(self.kind, limit);
        }
        if more > 0 {
            memory.grow(more);
        }
        self.out.reserve_exact(bound + 4);
        self.out.resize(bound + 4, 0);
        // The length comes first, so that readers know how much room they need.
        let (head, target) = self.out.split_first_chunk_mut::<4>()?;
        *head = u32::try_from(raw.len()).ok()?.to_le_bytes();
        let len = match self.kind {
            Compression::Zstd(level) => {
                let encoder = match &mut self.zstd {
                    Some(encoder) => encoder,
                    empty => empty.insert(ZstdEncoder::new(ZstdBounds::of(level, limit))?),
                };
                encoder.compress(raw, target)?
            }
            #[cfg(feature = "lz4")]
            Compression::Lz4 => lz4_flex::block::compress_into(raw, target).ok()?,
            _ => return None,
        };
        Some((self.kind.codec(), self.out.get(..len + 4)?))
    }

    /// Gives the buffer back if it is larger than so many bytes, and what was taken under another
    /// limit.
    pub(super) fn keep(&mut self, bytes: usize, limit: u64) {
        if self.out.capacity() > bytes {
            self.out = Vec::new();
        }
        self.refit(limit);
    }

    /// Gives back what compresses with other bounds than those of a limit.
    fn refit(&mut self, limit: u64) {
        if let Compression::Zstd(level) = self.kind {
            self.zstd
                .take_if(|encoder| encoder.bounds() != ZstdBounds::of(level, limit));
        }
    }

    /// Memory held, in bytes; LZ4's tables are the stack's.
    pub(super) fn memory(&self) -> usize {
        let zstd = self
            .zstd
            .as_ref()
            .map_or(0, |encoder| encoder.bounds().memory());
        self.out.capacity() + zstd as usize
    }
}

/// The most bytes that compressing takes beside the blocks.
pub(crate) fn compressor_bytes(kind: Compression, limit: u64) -> u64 {
    match kind {
        Compression::Zstd(level) => ZstdBounds::of(level, limit).memory(),
        _ => 0,
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;
    use crate::budget::{Budget, Role};
    use crate::table::format::decode;

    /// Fails where Zstandard chooses for itself: 950 KB at level 9 for blocks of 64 KB, and 30 MB
    /// at level 19 for entries of a MiB.
    #[test]
    fn compressing_takes_what_is_charged_at_every_level_under_every_budget() {
        let mut seed = 1u64;
        let mut raw = |len: u64| -> Vec<u8> {
            (0..len)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b'a' + (seed >> 61) as u8
                })
                .collect()
        };
        let mut failed = Vec::new();
        for mib in [1, 2, 4, 16, 64, 256] {
            let limit = mib << 20;
            let largest = raw((limit / 16).min(4 << 20));
            let others = [1, 3000, 4087, 16_000, 60_000].map(&mut raw);
            for level in 1..=22 {
                let kind = Compression::Zstd(level);
                let mut memory = Budget::new(limit).reserve(Role::Compaction, 0);
                let mut compressor = Compressor::new(kind);
                for raw in others.iter().chain([&largest]) {
                    let (_, stored) = compressor.compress(raw, &mut memory).unwrap();
                    assert_eq!(*decode(Codec::Zstd, stored).unwrap(), **raw);
                    let taken = compressor.zstd.as_mut().unwrap().measured() as u64;
                    let charged = compressor_bytes(kind, limit);
                    if taken > charged || charged > limit / 16 {
                        failed.push((mib, level, raw.len(), taken, charged));
                    }
                    let all = compressor.out.capacity() as u64 + charged;
                    assert_eq!(memory.bytes(), all);
                    assert_eq!(compressor.memory() as u64, all);
                }
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }
}
