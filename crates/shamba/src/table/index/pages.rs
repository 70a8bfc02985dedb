//! Where data blocks lie in their partition: one after the other, mostly a page each.

use std::ops::Range;

use crate::base::coding::{put_varint, take, take_len, varint_len};

/// Where data blocks end.
#[derive(Debug, Clone, Copy)]
pub(super) enum BlockPages<'a> {
    /// A page each.
    One,
    /// Where each ends, in pages from the partition's first.
    Ends(&'a [[u8; 4]]),
    /// The blocks of several pages, and by how many pages these and those before them are more than
    /// there are blocks.
    Longer(&'a [[u8; 8]]),
}

/// How they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    One,
    Ends,
    Longer,
}

/// The form of blocks of which so many are longer than a page, and its bytes.
pub(super) fn form(blocks: usize, longer: usize) -> (Form, usize) {
    let (all, some) = (4 * blocks, varint_len(longer as u64) + 8 * longer);
    match longer {
        0 => (Form::One, 0),
        _ if some < all => (Form::Longer, some),
        _ => (Form::Ends, all),
    }
}

/// Appends where blocks end.
pub(super) fn encode(ends: &[u32], longer: usize, out: &mut Vec<u8>) {
    match form(ends.len(), longer).0 {
        Form::One => {}
        Form::Ends => out.extend(ends.iter().flat_map(|end| end.to_le_bytes())),
        Form::Longer => {
            put_varint(out, longer as u64);
            let mut more = 0;
            for (block, end) in (0u32..).zip(ends) {
                let own = end - block - 1;
                if own > more {
                    out.extend_from_slice(&block.to_le_bytes());
                    out.extend_from_slice(&own.to_le_bytes());
                }
                more = own;
            }
        }
    }
}

/// The two numbers of a longer block.
fn numbers(longer: &[u8; 8]) -> (u32, u32) {
    let word = u64::from_le_bytes(*longer);
    (word as u32, (word >> 32) as u32)
}

impl<'a> BlockPages<'a> {
    #[inline]
    pub(super) fn parse(input: &mut &'a [u8], form: Form, blocks: usize) -> Option<Self> {
        Some(match form {
            Form::One => BlockPages::One,
            Form::Ends => {
                let ends = take(input, blocks.checked_mul(4)?)?;
                BlockPages::Ends(ends.as_chunks().0)
            }
            Form::Longer => {
                let count = take_len(input, blocks)?;
                let longer = take(input, count.checked_mul(8)?)?;
                BlockPages::Longer(longer.as_chunks().0)
            }
        })
    }

    /// The pages of a block; `None` if it has none.
    #[inline]
    pub(super) fn get(&self, block: u32) -> Option<Range<u32>> {
        let (start, end) = match self {
            BlockPages::One => (block, block.checked_add(1)?),
            BlockPages::Ends(ends) => {
                let end = |at: usize| ends.get(at).map(|end| u32::from_le_bytes(*end));
                let start = match (block as usize).checked_sub(1) {
                    Some(before) => end(before)?,
                    None => 0,
                };
                (start, end(block as usize)?)
            }
            BlockPages::Longer(longer) => {
                let before = longer.partition_point(|one| numbers(one).0 < block);
                let more = before.checked_sub(1).and_then(|at| longer.get(at));
                let more = more.map_or(0, |one| numbers(one).1);
                let own = longer.get(before).map(numbers);
                let own = own.filter(|own| own.0 == block).map_or(more, |own| own.1);
                (
                    block.checked_add(more)?,
                    block.checked_add(own)?.checked_add(1)?,
                )
            }
        };
        (start < end).then_some(start..end)
    }
}
