//! A code of bytes that orders as they do (docs/format.md, "A code of bytes"): of those that
//! separators have, each has a word, which is less than those of the greater bytes and begins none
//! of them. The least word is that of the end of a key.
//!
//! A key's bits are the words of its bytes, and zeros after its end. A byte without a word has the
//! word before it and ones ever after: no separator is between the two.

use super::alphabetic::limited_lengths;
use crate::base::coding::take;
use crate::ordered::bits;

/// Words have no more bits.
pub(super) const MOST_LEN: u8 = 12;

/// Bits of how long a word is: 0 for none, else so many lengths from the least on.
const LENGTH: u32 = 3;
const LENGTHS: u8 = (1 << LENGTH) - 1;

/// As many of these are in whole bytes.
const LENGTHS_AT_ONCE: usize = 16;

/// A word of the code: its bits from the uppermost on, and in the lowest four how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u16);

/// The bits of how long a word is.
const LEN: u16 = 0xf;

impl Word {
    /// The bits, uppermost in 64.
    #[inline]
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0 & !LEN) << 48
    }

    #[inline]
    pub(super) fn len(self) -> u32 {
        (self.0 & LEN).into()
    }
}

/// Words follow each other: the bits of each are the part of all that those before it begin. That
/// part is in the upper half of what is added for each, and its length in the lower one.
const fn step(len: u32) -> u32 {
    (1u64 << 32).unbounded_shr(len) as u32 | len & LEN as u32
}

/// The word of what was added so far, and will be for it.
#[inline]
fn word(sum: u32, step: u32) -> Word {
    Word((sum >> 16) as u16 | step as u16)
}

/// Which bytes have words, and how long these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeForm {
    /// All from the first to the last; about equally long.
    All,
    /// Some, about equally long.
    Some,
    /// Some, each as long as is stored.
    Lengths,
}

impl CodeForm {
    /// The form of a number below 4.
    #[inline]
    pub(super) fn of(number: u8) -> Option<CodeForm> {
        [CodeForm::All, CodeForm::Some, CodeForm::Lengths]
            .into_iter()
            .find(|form| *form as u8 == number)
    }
}

/// Where words are about equally long: how many of so many are a bit longer than the others, which
/// have so many bits.
fn even(count: u32) -> (u32, u32) {
    let len = count.max(1).ilog2();
    (2 * (count.max(1) - (1 << len)), len)
}

/// The length of a word of that number where words are about equally long.
#[inline]
fn even_len((longer, len): (u32, u32), number: u32) -> u32 {
    len + u32::from(number < longer)
}

/// A code as it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code<'a> {
    first: u8,
    last: u8,
    form: CodeForm,
    /// The length of the end's word and the least of the others, or nothing.
    least: u8,
    /// Of each byte from the first to the last whether it has a word, or how long that is.
    stored: &'a [u8],
}

impl<'a> Code<'a> {
    /// What `input` begins with.
    #[inline]
    pub(super) fn parse(
        input: &mut &'a [u8],
        [first, last]: [u8; 2],
        form: CodeForm,
    ) -> Option<Self> {
        let count = usize::from(last).checked_sub(first.into())? + 1;
        let mut least = 0;
        let stored = match form {
            CodeForm::All => 0,
            CodeForm::Some => count.div_ceil(8),
            CodeForm::Lengths => {
                let (&stored, rest) = input.split_first()?;
                (least, *input) = (stored, rest);
                (count * LENGTH as usize).div_ceil(8)
            }
        };
        Some(Code {
            first,
            last,
            form,
            least,
            stored: take(input, stored)?,
        })
    }

    /// The words by their bytes.
    #[inline]
    pub(super) fn words(&self) -> CodeWords {
        let mut words = CodeWords {
            words: [Word(0); 256],
            bounds: [self.first, self.last],
            end: Word(0),
        };
        let range = usize::from(self.first)..=usize::from(self.last);
        let places = words.words.get_mut(range).unwrap_or_default();
        let end = match self.form {
            CodeForm::Lengths => self.put_stored(places),
            CodeForm::All | CodeForm::Some => self.put_even(places),
        };
        words.end = word(0, step(end));
        words
    }

    /// Puts words of stored lengths in their places; gives the length of the end's.
    #[inline]
    fn put_stored(&self, places: &mut [Word]) -> u32 {
        let (end, least) = (u32::from(self.least >> 4), u32::from(self.least & 0xf));
        let mut steps = [0; 1 << LENGTH];
        for (place, len) in steps.iter_mut().skip(1).zip(least..) {
            *place = step(len);
        }
        let mut sum = step(end);
        let bits = LENGTHS_AT_ONCE * LENGTH as usize;
        for (at, places) in places.chunks_mut(LENGTHS_AT_ONCE).enumerate() {
            let mut lengths = bits::word(self.stored, at * bits);
            for place in places {
                let length = (lengths & bits::ones(LENGTH)) as usize;
                let step = steps.get(length).copied().unwrap_or(0);
                lengths >>= LENGTH;
                *place = word(sum, step);
                sum = sum.wrapping_add(step);
            }
        }
        end
    }

    /// The same of words that are about equally long.
    #[inline]
    fn put_even(&self, places: &mut [Word]) -> u32 {
        let all = self.form == CodeForm::All;
        let count = if all {
            places.len()
        } else {
            bits::count_ones(self.stored, 0, places.len())
        };
        let even = even(count as u32 + 1);
        let end = even_len(even, 0);
        let [long, short] = [even.1 + 1, even.1].map(step);
        let (mut sum, mut longer) = (step(end), even.0.saturating_sub(1));
        for (at, places) in places.chunks_mut(64).enumerate() {
            let mut present = if all {
                u64::MAX
            } else {
                bits::word(self.stored, 64 * at)
            };
            for place in places {
                let own = present as u32 & 1;
                let step = if longer > 0 { long } else { short } & own.wrapping_neg();
                longer = longer.saturating_sub(own);
                present >>= 1;
                *place = word(sum, step);
                sum = sum.wrapping_add(step);
            }
        }
        end
    }
}

/// The words of a code by their bytes.
pub(super) struct CodeWords {
    words: [Word; 256],
    /// The first and the last byte that has one.
    bounds: [u8; 2],
    end: Word,
}

impl CodeWords {
    /// The word of a byte, if it has one.
    #[inline]
    pub(super) fn of(&self, byte: u8) -> Option<Word> {
        let word = self.words.get(usize::from(byte)).copied()?;
        (word.len() > 0).then_some(word)
    }

    /// The greatest word of the byte and those before it.
    #[cold]
    pub(super) fn at_or_before(&self, byte: u8) -> Word {
        let mut before = (0..=byte).rev().filter_map(|byte| self.of(byte));
        before.next().unwrap_or(self.end)
    }

    pub(super) fn end(&self) -> Word {
        self.end
    }

    /// The last byte from this one on whose word is not greater than some bits. One without a word
    /// has the place of the next word.
    #[inline]
    fn last(&self, byte: u8, bits: u64) -> u8 {
        let after = self
            .words
            .get(usize::from(byte) + 1..=usize::from(self.bounds[1]));
        let after = after.unwrap_or_default().iter();
        byte + after.take_while(|word| word.bits() <= bits).count() as u8
    }
}

/// Bits by which words are looked up: most of them are not longer. A separator of a path is made in
/// 0.9 microseconds so, and in 1.4 where the word is searched for among all.
const LOOKED_AT: u32 = 6;

/// The bytes by their words.
pub(super) struct CodeBytes<'w> {
    words: &'w CodeWords,
    /// The byte that some bits begin with the word of, followed by zeros; or the first one.
    begin: [u8; 1 << LOOKED_AT],
}

impl<'w> CodeBytes<'w> {
    pub(super) fn of(words: &'w CodeWords) -> Self {
        let mut bytes = CodeBytes {
            words,
            begin: [0; 1 << LOOKED_AT],
        };
        let mut byte = words.bounds[0];
        for (begin, place) in bytes.begin.iter_mut().enumerate() {
            byte = words.last(byte, (begin as u64) << (u64::BITS - LOOKED_AT));
            *place = byte;
        }
        bytes
    }

    /// The byte that some bits begin with the word of, and the word; `None` for the end.
    #[inline]
    pub(super) fn byte(&self, bits: u64) -> Option<(u8, Word)> {
        let begin = bits >> (u64::BITS - LOOKED_AT);
        let byte = self.begin.get(begin as usize).copied().unwrap_or(0);
        let byte = self.words.last(byte, bits);
        let word = self.words.of(byte)?;
        (word.bits() <= bits).then_some((byte, word))
    }
}

/// A code that is to be stored.
pub(super) struct CodeBuilder {
    pub(super) bounds: [u8; 2],
    pub(super) form: CodeForm,
    /// What is stored besides.
    pub(super) stored: Vec<u8>,
}

impl CodeBuilder {
    /// The code that takes least, with what is stored of it, of bytes that occur so often; 0 for
    /// those that need no word. `None` if none does.
    pub(super) fn of(weights: &[u64; 256]) -> Option<CodeBuilder> {
        let used = |at: &usize| weights.get(*at).is_some_and(|weight| *weight > 0);
        let (first, last) = ((0..256).find(used)?, (0..256).rfind(used)?);
        let range = weights.get(first..=last)?;
        let some: Vec<u64> = range.iter().copied().filter(|weight| *weight > 0).collect();
        let forms = [CodeForm::All, CodeForm::Some, CodeForm::Lengths].map(|form| {
            let of = if form == CodeForm::All { range } else { &some };
            let own: Vec<u64> = std::iter::once(&0).chain(of).copied().collect();
            let lengths = if form == CodeForm::Lengths {
                limited_lengths(&own, LENGTHS - 1, MOST_LEN)
            } else {
                let even = even(own.len() as u32);
                let numbers = 0..own.len() as u32;
                numbers.map(|number| even_len(even, number) as u8).collect()
            };
            let words = own.iter().zip(&lengths);
            let bits: u64 = words.map(|(weight, len)| weight * u64::from(*len)).sum();
            let code = CodeBuilder {
                bounds: [first as u8, last as u8],
                form,
                stored: stored(form, range, &lengths),
            };
            (bits / 2 + 8 * code.stored.len() as u64, code)
        });
        let least = forms.into_iter().min_by_key(|(bits, _)| *bits);
        least.map(|(_, code)| code)
    }

    /// As readers see it.
    pub(super) fn code(&self) -> Option<Code<'_>> {
        Code::parse(&mut self.stored.as_slice(), self.bounds, self.form)
    }
}

/// What is stored of a code of bytes that occur so often, and whose words are so long, that of the
/// end before the others.
fn stored(form: CodeForm, range: &[u64], lengths: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (width, end) = match form {
        CodeForm::All => return out,
        CodeForm::Some => (1, 0),
        CodeForm::Lengths => (LENGTH, lengths.first().copied().unwrap_or(0)),
    };
    let mut others = lengths.iter().skip(1);
    let least = others.clone().min().copied().unwrap_or(0);
    if form == CodeForm::Lengths {
        out.push(end << 4 | least);
    }
    let mut writer = bits::BitWriter::default();
    for weight in range {
        let len = if *weight > 0 { others.next() } else { None };
        let more = match form {
            CodeForm::Lengths => len.map_or(0, |len| len - least + 1),
            _ => u8::from(len.is_some()),
        };
        writer.push(more.into(), width);
    }
    out.extend_from_slice(writer.bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_order_as_bytes_do_and_begin_no_other(
            some in proptest::collection::vec((any::<u8>(), 1u64..1000), 1..300),
            shift in 0u32..8,
        ) {
            let mut weights = [0; 256];
            for (byte, weight) in some {
                weights[usize::from(byte >> shift)] = weight;
            }
            let built = CodeBuilder::of(&weights).unwrap();
            let words = built.code().unwrap().words();
            let bytes = CodeBytes::of(&words);
            let mut before = words.end();
            for (byte, weight) in (0..=255).zip(weights) {
                prop_assert!(words.of(byte).is_some() || weight == 0);
                if let Some(word) = words.of(byte) {
                    prop_assert!(word.len() > 0 && word.len() <= MOST_LEN.into());
                    let end = before.bits() + (1 << (u64::BITS - before.len()));
                    prop_assert!(word.bits() >= end);
                    prop_assert_eq!(bytes.byte(word.bits()), Some((byte, word)));
                    let last = word.bits() | u64::MAX >> word.len();
                    prop_assert_eq!(bytes.byte(last), Some((byte, word)));
                    before = word;
                }
                prop_assert_eq!(words.at_or_before(byte), before);
            }
            prop_assert_eq!(bytes.byte(words.end().bits()), None);
        }
    }
}
