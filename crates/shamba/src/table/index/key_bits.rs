//! A key's bits, one after the other as they are needed.

use super::code::{CodeWords, MOST_LEN};

/// As many bits are seen at once. With 16, 24 or 32 a search of paths takes 4 % longer; more would
/// have words looked up at nearly each step.
pub(super) const SEEN: u32 = 40;

/// Words are looked up while there are no more bits than this: one more fits the 64.
const FULL: u32 = u64::BITS - MOST_LEN as u32;

/// What is left of a key's bits (see [`super::code`]).
#[derive(Clone)]
pub(super) struct KeyBits<'k> {
    /// The bytes whose words are not in `next` yet.
    rest: &'k [u8],
    words: &'k CodeWords,
    /// The next bits, the first uppermost.
    next: u64,
    /// How many of these are of words: more than there are once the key has ended.
    have: u32,
    /// What follows then: zeros, or ones.
    tail: u64,
}

/// More than a word has.
const ENDED: u32 = u32::MAX / 2;

impl<'k> KeyBits<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8], words: &'k CodeWords) -> Self {
        let mut bits = KeyBits {
            rest: key,
            words,
            next: 0,
            have: 0,
            tail: 0,
        };
        bits.fill();
        bits
    }

    #[inline]
    fn fill(&mut self) {
        while self.have <= FULL {
            let Some((&byte, rest)) = self.rest.split_first() else {
                self.have = ENDED;
                return;
            };
            self.rest = rest;
            if let Some(word) = self.words.of(byte) {
                self.next |= word.bits() >> self.have;
                self.have += word.len();
                continue;
            }
            // No separator goes on with this byte: those up to it are before the key.
            let word = self.words.at_or_before(byte);
            let have = self.have + word.len();
            self.next |= word.bits() >> self.have | u64::MAX.unbounded_shr(have);
            (self.have, self.tail) = (ENDED, u64::MAX);
        }
    }

    /// The next bits: [`SEEN`] of them at least.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether zeros are all that is left.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.have >= ENDED / 2 && self.next == 0
    }

    /// Goes on by so many bits: [`SEEN`] at most.
    #[inline]
    pub(super) fn advance(&mut self, bits: u32) {
        self.next = self.next << bits | self.tail & !(u64::MAX << bits);
        if self.have < ENDED / 2 {
            self.have -= bits;
            if self.have < SEEN {
                self.fill();
            }
        }
    }
}
