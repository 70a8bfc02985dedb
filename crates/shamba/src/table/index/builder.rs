//! Builds index blocks.

use crate::ordered::{Shape, SymbolsBuilder, ints, symbols};

use super::{ENDS, INTEGERS, LONGER};
use super::{front_builder, pages};
use crate::base::coding::{put_varint, varint_len};
use crate::base::key::common_prefix;

/// Between two data blocks: the first key of the second up to where it differs from the last key of
/// the first.
#[derive(Debug, Default)]
pub(in crate::table) struct Boundary {
    bytes: Vec<u8>,
    /// What the last key of the first block has where they differ, if it does not end there.
    low: Option<u8>,
}

impl Boundary {
    /// Becomes that between a block that ends with key `a` and one that begins with key `b`.
    pub(in crate::table) fn set(&mut self, a: &[u8], b: &[u8]) {
        self.bytes.clear();
        let common = common_prefix(a, b);
        self.low = a.get(common).copied();
        match b.get(..=common) {
            Some(bytes) => self.bytes.extend_from_slice(bytes),
            // Versions of one key lie in both.
            None => {
                self.bytes.extend_from_slice(b);
                self.bytes.push(0);
            }
        }
    }

    /// Leaves nothing.
    pub(in crate::table) fn clear(&mut self) {
        self.bytes.clear();
        self.low = None;
    }

    /// Memory held, in bytes.
    pub(in crate::table) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Builds index blocks. What all separators have in common is kept once.
#[derive(Debug, Default)]
pub(in crate::table) struct IndexBuilder {
    /// What all separators begin with.
    prefix: Vec<u8>,
    /// What follows in each.
    suffixes: Vec<u8>,
    /// Where each suffix ends.
    ends: Vec<u32>,
    /// Of each what the key before has in place of the last byte.
    lows: Vec<Option<u8>>,
    /// Where each data block ends, in pages from the first.
    page_ends: Vec<u32>,
    /// Blocks of more than a page.
    longer: usize,
    /// When separators were encoded the last time to see how long that is: the most that they could
    /// be, and the length.
    tried: (usize, usize),
}

/// Separators as integers, what makes keys integers, and the bytes of both.
struct Integers {
    symbols: SymbolsBuilder,
    integers: Vec<u64>,
    shape: Shape,
    len: usize,
}

/// Separators in one of their forms.
enum Encoded {
    Integers(Integers),
    Front(Vec<u8>),
}

impl Encoded {
    /// The bytes.
    fn len(&self) -> usize {
        match self {
            Encoded::Integers(integers) => integers.len,
            Encoded::Front(bytes) => bytes.len(),
        }
    }
}

/// Bytes of a separator as an integer with which the other form is not tried, since it would not be
/// less: of hexadecimal digits that takes 2.0 bytes a block, of a sequence 2.1.
const LITTLE: usize = 2;

/// Separators are encoded again, to see how long that is, when they could take more by one in so
/// many; or twice as much, while they are far from too long.
const TRY_AGAIN: usize = 16;

impl IndexBuilder {
    /// Adds a data block.
    pub(in crate::table) fn push(&mut self, pages: u32) {
        let start = self.pages();
        self.longer += usize::from(pages > 1);
        self.page_ends.push(start + pages);
    }

    /// Adds the separator between the last data block and the next.
    pub(in crate::table) fn separate(&mut self, boundary: &Boundary) {
        let separator = &boundary.bytes;
        if self.ends.is_empty() {
            self.prefix.extend_from_slice(separator);
        }
        let shared = common_prefix(&self.prefix, separator);
        if shared < self.prefix.len() {
            self.shorten_prefix(shared);
        }
        let suffix = separator.get(shared..).unwrap_or_default();
        self.suffixes.extend_from_slice(suffix);
        self.ends.push(self.suffixes.len() as u32);
        self.lows.push(boundary.low);
    }

    /// Leaves so many bytes of the prefix; the others go to each suffix.
    fn shorten_prefix(&mut self, len: usize) {
        let moved = self.prefix.split_off(len);
        let all = self.suffixes.len() + self.ends.len() * moved.len();
        let mut suffixes = Vec::with_capacity(all);
        let (mut start, mut added) = (0, 0);
        for end in &mut self.ends {
            let suffix = self.suffixes.get(start..*end as usize);
            suffixes.extend_from_slice(&moved);
            suffixes.extend_from_slice(suffix.unwrap_or_default());
            start = *end as usize;
            added += moved.len() as u32;
            *end += added;
        }
        self.suffixes = suffixes;
    }

    /// Whether separators would take more than that, apart from what they have in common, with one
    /// more that begins as `key` does up to where it differs from them.
    pub(in crate::table) fn would_pass(&self, most: usize, key: &[u8]) -> bool {
        let with = |lost: usize| self.suffixes.len() + lost * self.ends.len();
        with(self.prefix.len()) > most
            && with(self.prefix.len() - common_prefix(&self.prefix, key)) > most
    }

    /// Data blocks so far.
    pub(in crate::table) fn blocks(&self) -> u32 {
        self.page_ends.len() as u32
    }

    /// Pages of the data blocks so far.
    pub(in crate::table) fn pages(&self) -> u32 {
        self.page_ends.last().copied().unwrap_or(0)
    }

    /// Memory held, in bytes.
    pub(in crate::table) fn memory(&self) -> usize {
        let bytes = self.prefix.capacity() + self.suffixes.capacity() + 2 * self.lows.capacity();
        bytes + 4 * (self.ends.capacity() + self.page_ends.capacity())
    }

    /// Memory that [`finish`](Self::finish) and [`is_longer_than`](Self::is_longer_than) take
    /// meanwhile, in bytes.
    pub(in crate::table) fn scratch(&self) -> usize {
        let each = 6 * size_of::<u64>() * self.ends.len();
        each + 3 * (self.suffixes.len() + front_builder::most(0, 0))
    }

    /// Separators, each with what makes it an integer.
    fn boundaries(&self) -> impl Iterator<Item = symbols::Boundary<'_>> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).zip(&self.lows);
        ranges.map(|((start, end), low)| {
            let bytes = self.suffixes.get(start as usize..*end as usize);
            symbols::Boundary {
                bytes: bytes.unwrap_or_default(),
                low: *low,
            }
        })
    }

    /// The separators as the integers that take least.
    fn integers(&self) -> Option<Integers> {
        if self.ends.is_empty() || self.ends.len() > ints::MOST {
            return None;
        }
        let all = SymbolsBuilder::of(self.boundaries());
        let all = all.into_iter().map(|symbols| {
            let integers = self.boundaries().map(|boundary| symbols.integer(&boundary));
            let integers: Vec<u64> = integers.collect();
            let shape = Shape::of(&integers);
            Integers {
                len: symbols.encoded_len() + ints::encoded_len(&integers, &shape),
                symbols,
                integers,
                shape,
            }
        });
        all.min_by_key(|integers| integers.len)
    }

    /// The separators in the form that takes less: as integers if both do as well.
    fn smaller(&self) -> Encoded {
        let integers = self.integers();
        // Front-coded they never take as little as most integers do.
        let few = LITTLE * self.ends.len();
        match integers {
            Some(integers) if integers.len <= few => return Encoded::Integers(integers),
            _ => {}
        }
        let front = front_builder::encode(self.boundaries());
        match integers {
            Some(integers) if integers.len <= front.len() => Encoded::Integers(integers),
            _ => Encoded::Front(front),
        }
    }

    /// The bytes before the separators.
    fn head(&self) -> usize {
        let pages = pages::form(self.page_ends.len(), self.longer).1;
        let prefix = varint_len(self.prefix.len() as u64) + self.prefix.len();
        1 + varint_len(self.page_ends.len() as u64) + pages + prefix
    }

    /// Whether the payload would be longer than that, about; at least half of it that separators do
    /// not share, where what they share is long: otherwise each index would have that and few
    /// separators.
    pub(in crate::table) fn is_longer_than(&mut self, most: usize) -> bool {
        let most = most.max(self.prefix.len() + most / 2);
        let head = self.head();
        let size = front_builder::most(self.ends.len(), self.suffixes.len());
        if head + size <= most {
            return false;
        }
        let grown = |(tried, len): (usize, usize)| {
            let grown = len.saturating_mul(size) / tried.max(1);
            head.saturating_add(grown)
        };
        let (tried, _) = self.tried;
        let near = grown(self.tried) > most / 4 * 3;
        let often = if near { TRY_AGAIN } else { 1 };
        if size < tried || size > tried + tried / often {
            self.tried = (size, self.smaller().len());
        }
        grown(self.tried) > most
    }

    /// Completes the payload and leaves the builder empty.
    pub(in crate::table) fn finish(&mut self, payload: &mut Vec<u8>) {
        let encoded = self.smaller();
        let encoding = match encoded {
            Encoded::Integers(_) => INTEGERS,
            Encoded::Front(_) => 0,
        };
        let pages = match pages::form(self.page_ends.len(), self.longer).0 {
            pages::Form::One => 0,
            pages::Form::Ends => ENDS,
            pages::Form::Longer => LONGER,
        };
        payload.clear();
        payload.reserve_exact(self.head() + encoded.len());
        payload.push(encoding | pages);
        put_varint(payload, self.page_ends.len() as u64);
        pages::encode(&self.page_ends, self.longer, payload);
        put_varint(payload, self.prefix.len() as u64);
        payload.extend_from_slice(&self.prefix);
        match encoded {
            Encoded::Integers(chosen) => {
                chosen.symbols.encode(payload);
                ints::encode(&chosen.integers, &chosen.shape, payload);
            }
            Encoded::Front(bytes) => payload.extend_from_slice(&bytes),
        }
        self.prefix.clear();
        self.suffixes.clear();
        self.ends.clear();
        self.lows.clear();
        self.page_ends.clear();
        (self.longer, self.tried) = (0, (0, 0));
    }
}
