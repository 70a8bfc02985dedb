//! Key spaces: the mapping from an entry's number to its key, and keys that are surely absent.
use super::mix;

/// The longest key any [`KeyKind`] makes, in bytes.
pub const MAX_KEY: usize = 1024;

/// The shortest key of [`KeyKind::Sized`], in bytes.
pub const MIN_KEY: u16 = 8;

/// How keys look. Numbers run from 0 to the key space's size; keys ascend with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// 16 hex digits spreading evenly over the whole key range: plain 16-byte keys.
    Plain,
    /// 32 bytes: 16 hex digits spreading evenly, then 16 of a hash of the number. The standard
    /// setting of the SHaMBa paper (Table 5).
    Spread,
    /// So many bytes, from [`MIN_KEY`] to [`MAX_KEY`]: eight that spread evenly over the whole key
    /// range, then those of a hash of the number.
    Sized(u16),
}

/// A finite set of keys, one for each number below its size, and as many absent ones.
///
/// Numbers at or above the size are entries inserted later (YCSB D and E): they fall between the
/// first ones, evenly again, and are equally sure to differ from every absent key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpace {
    kind: KeyKind,
    entries: u64,
    step: u64,
}

impl KeySpace {
    /// The key space of `entries` keys of this kind. `entries` of 0 counts as 1.
    pub fn new(kind: KeyKind, entries: u64) -> Self {
        let entries = entries.max(1);
        Self {
            kind,
            entries,
            step: u64::MAX / entries,
        }
    }

    /// How many keys are loaded.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The length of a key in bytes.
    pub fn key_len(&self) -> usize {
        match self.kind {
            KeyKind::Plain => 16,
            KeyKind::Spread => 32,
            KeyKind::Sized(len) => usize::from(len).clamp(MIN_KEY.into(), MAX_KEY),
        }
    }

    /// Writes the key of entry `number` into `buf` and returns it.
    pub fn key<'b>(&self, number: u64, buf: &'b mut [u8; MAX_KEY]) -> &'b [u8] {
        self.at(self.position(number), mix(number), buf)
    }

    /// Writes a key that is never present and lies just after entry `number` (below
    /// [`entries`](Self::entries)), before the entry that follows it.
    pub fn absent<'b>(&self, number: u64, buf: &'b mut [u8; MAX_KEY]) -> &'b [u8] {
        let position = self.position(number).wrapping_add(self.step / 2) | 1;
        self.at(position, mix(!number), buf)
    }

    /// The key in a position, which a hash fills up.
    fn at<'b>(&self, position: u64, hash: u64, buf: &'b mut [u8; MAX_KEY]) -> &'b [u8] {
        match self.kind {
            KeyKind::Plain | KeyKind::Spread => hex(position, hash, buf, self.key_len()),
            KeyKind::Sized(_) => bytes(position, hash, buf, self.key_len()),
        }
    }

    /// The number of the loaded entry that has this key.
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        let text = || std::str::from_utf8(key.get(..16)?).ok();
        // A position lost its last bit: the entry is this one or the next.
        let guess = match self.kind {
            KeyKind::Plain | KeyKind::Spread => u64::from_str_radix(text()?, 16).ok()? / self.step,
            KeyKind::Sized(_) => u64::from_be_bytes(*key.first_chunk()?) / self.step,
        };
        let mut buf = [0; MAX_KEY];
        (guess..=guess + 1)
            .filter(|number| *number < self.entries)
            .find(|number| self.key(*number, &mut buf) == key)
    }

    /// Where entry `number` lies in the key range: always even, absent keys being odd.
    fn position(&self, number: u64) -> u64 {
        let base = (number % self.entries).wrapping_mul(self.step);
        let generation = number / self.entries;
        let offset = (u128::from(generation.reverse_bits()) * u128::from(self.step)) >> 64;
        base.wrapping_add(offset as u64) & !1
    }
}

fn hex(position: u64, hash: u64, buf: &mut [u8; MAX_KEY], len: usize) -> &[u8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (word, part) in [position, hash].iter().zip(buf[..len].chunks_mut(16)) {
        for (place, digit) in part.iter_mut().enumerate() {
            *digit = DIGITS[(word >> (60 - 4 * place)) as usize & 15];
        }
    }
    &buf[..len]
}

fn bytes(position: u64, hash: u64, buf: &mut [u8; MAX_KEY], len: usize) -> &[u8] {
    let mut word = position;
    for (place, part) in buf[..len].chunks_mut(8).enumerate() {
        part.copy_from_slice(&word.to_be_bytes()[..part.len()]);
        word = hash.rotate_left(place as u32 * 23);
    }
    &buf[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const KINDS: [KeyKind; 5] = [
        KeyKind::Plain,
        KeyKind::Spread,
        KeyKind::Sized(8),
        KeyKind::Sized(27),
        KeyKind::Sized(1024),
    ];

    fn key(space: &KeySpace, number: u64) -> Vec<u8> {
        space.key(number, &mut [0; MAX_KEY]).to_vec()
    }

    fn absent(space: &KeySpace, number: u64) -> Vec<u8> {
        space.absent(number, &mut [0; MAX_KEY]).to_vec()
    }

    #[test]
    fn keys_ascend_and_absent_ones_lie_between() {
        for kind in KINDS {
            let space = KeySpace::new(kind, 1000);
            for number in 0..999 {
                let (own, next) = (key(&space, number), key(&space, number + 1));
                let between = absent(&space, number);
                assert_eq!(own.len(), space.key_len());
                assert!(own < between && between < next, "{kind:?} {number}");
            }
        }
    }

    #[test]
    fn a_key_tells_its_number() {
        for kind in KINDS {
            let space = KeySpace::new(kind, 1234);
            for number in 0..1234 {
                assert_eq!(space.number(&key(&space, number)), Some(number), "{kind:?}");
                let absent = absent(&space, number);
                assert_eq!(space.number(&absent), None, "{kind:?} {number}");
            }
            assert_eq!(space.number(&key(&space, 1234)), None);
            assert_eq!(space.number(b"short"), None);
        }
    }

    #[test]
    fn later_entries_are_new_and_never_an_absent_key() {
        for kind in KINDS {
            let space = KeySpace::new(kind, 500);
            let present: BTreeSet<_> = (0..2500).map(|n| key(&space, n)).collect();
            assert_eq!(present.len(), 2500, "{kind:?}");
            let mut absent = (0..500).map(|n| absent(&space, n));
            assert!(absent.all(|key| !present.contains(&key)), "{kind:?}");
        }
    }

    #[test]
    fn the_standard_setting_spreads_over_the_key_range() {
        let space = KeySpace::new(KeyKind::Spread, 16_000_000);
        assert!(key(&space, 0).starts_with(b"0000"));
        assert!(key(&space, 8_000_000).starts_with(b"7fff"));
        assert!(key(&space, 15_999_999).starts_with(b"ffff"));
    }
}
