//! Integers as bytes: LEB128 varints and little-endian words. Decoders never panic: they give
//! `None` where the bytes end early or a varint is longer than its type.

/// Appends `value` as a varint of one to ten bytes.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a byte string behind its length.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many bytes [`put_varint`] writes.
#[inline]
pub(crate) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Splits a varint off the front of `input`.
#[inline]
pub(crate) fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    if first < 0x80 {
        *input = rest;
        return Some(u64::from(first));
    }
    if let Some(word) = input.first_chunk::<8>()
        && let Some((value, len)) = varint_in(u64::from_le_bytes(*word))
    {
        *input = input.get(len..)?;
        return Some(value);
    }
    take_long_varint(input)
}

/// The same, quicker for varints of two bytes and slower for longer ones.
#[inline]
pub(crate) fn take_short_varint(input: &mut &[u8]) -> Option<u64> {
    match **input {
        [low @ 0x80..=0xff, high @ 0..=0x7f, ref rest @ ..] => {
            *input = rest;
            Some(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => take_varint(input),
    }
}

/// The varint that a word of eight bytes begins with, and its length, if it ends in the word: its
/// groups of seven bits are drawn together, neighbours first.
#[inline]
pub(crate) fn varint_in(word: u64) -> Option<(u64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // All bits up to the last byte's high one.
    let bits = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let bits = (bits & 0x007f_007f_007f_007f) | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = (bits & 0x0000_3fff_0000_3fff) | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = (bits & 0x0fff_ffff) | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, ends.trailing_zeros() as usize / 8 + 1))
}

fn take_long_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    let mut shift = 0u32;
    let mut rest = *input;
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *input = rest;
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Splits a varint that must fit a `usize` and be at most `max` off the front.
#[inline]
pub(crate) fn take_len(input: &mut &[u8], max: usize) -> Option<usize> {
    let len = usize::try_from(take_varint(input)?).ok()?;
    (len <= max).then_some(len)
}

/// Splits `len` bytes off the front.
#[inline]
pub(crate) fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(head)
}

/// Splits a byte string with its length off the front.
pub(crate) fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_len(input, input.len())?;
    take(input, len)
}

/// Splits a little-endian `u32` off the front.
#[inline]
pub(crate) fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (head, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    Some(u32::from_le_bytes(*head))
}

/// Splits a little-endian `u64` off the front.
#[inline]
pub(crate) fn take_u64(input: &mut &[u8]) -> Option<u64> {
    let (head, rest) = input.split_first_chunk::<8>()?;
    *input = rest;
    Some(u64::from_le_bytes(*head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value in any::<u64>(), shift in 0u32..64, tail in any::<Vec<u8>>()) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
            bytes.extend_from_slice(&tail);
            let mut input = bytes.as_slice();
            prop_assert_eq!(take_varint(&mut input), Some(value));
            prop_assert_eq!(input, tail.as_slice());
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in any::<Vec<u8>>()) {
            let mut input = bytes.as_slice();
            if take_varint(&mut input).is_none() {
                prop_assert_eq!(input, bytes.as_slice(), "a failed decode consumes nothing");
            }
        }
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(take_varint(&mut [0xff; 10].as_slice()), None);
        assert_eq!(take_varint(&mut [0x80, 0x80].as_slice()), None);
    }
}
