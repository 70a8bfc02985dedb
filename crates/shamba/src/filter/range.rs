//! Filters of ranges: the keys of a partition to so many bits each, so that a scan knows of most
//! ranges without a key that there is none (docs/format.md, "Filters of ranges").
//!
//! Keys become integers that order as they do, of which the lowest bits are left out, as many as
//! leave the bits per key that are wanted: the bucketing of Costa et al. ("Grafite", SIGMOD 2024),
//! but of integers that know which bytes keys have in each place, so that they are spread about
//! evenly. A range is passed where a bucket with a key meets it. So ranges shorter
//! than a bucket, of whatever length, pass about as rarely as `2^(2 - bits)`; one that begins right
//! behind a key always does. `shamba-bench range-filters` compares it with others
//! (docs/policy.md). Pure.

use std::cmp::Ordering;

use crate::base::coding::{put_bytes, put_varint, take, take_bytes, take_len, take_short_varint};
use crate::base::key::{MAX_KEY_LEN, common_prefix};
use crate::ordered::bits::{self, BitWriter};
use crate::ordered::{Ints, Shape, Symbols, SymbolsOfKeys, ints};

/// The forms of a block: it lets everything pass, or has integers.
const ALL: u8 = 0;
const INTEGERS: u8 = 1;

/// A block that lets everything pass.
pub(super) const BLANK: [u8; 1] = [ALL];

/// Bytes of a key that are kept behind what it has in common with the one before. 64 bits have
/// room for 8 that may be anything, or for 16 digits, and places where all have the same byte take
/// none. Not tuned.
const KEPT: usize = 24;

/// Keys that take more memory than this each are not kept: those whose neighbours begin alike and
/// whose own are long. Not tuned.
const MOST_EACH: usize = 64;

/// The keys of a partition, as far as a filter may want them: of each what differs from the one
/// before it, and [`KEPT`] bytes at most.
#[derive(Debug, Default)]
pub(crate) struct RangeKeys {
    bytes: Vec<u8>,
    keys: Vec<KeptKey>,
    /// Kept bytes of the last key.
    last: usize,
    /// Those of the longest.
    longest: usize,
    /// Whether there are too many to be kept.
    is_too_much: bool,
}

/// A key among [`RangeKeys`].
#[derive(Debug, Clone, Copy)]
struct KeptKey {
    /// Bytes of the one before with which it begins.
    shared: u16,
    /// Whether there is more of it than is kept.
    is_cut: bool,
    /// Where its other bytes end.
    end: u32,
}

impl RangeKeys {
    /// Adds a key, which has its first `shared` bytes in common with the one before.
    pub(crate) fn add(&mut self, shared: usize, key: &[u8]) {
        if self.is_too_much {
            return;
        }
        // The first one is kept whole: all may begin with more of it.
        let kept = if self.keys.is_empty() {
            key.len()
        } else {
            key.len().min(shared + KEPT)
        };
        let shared = shared.min(self.last).min(kept);
        self.bytes
            .extend_from_slice(key.get(shared..kept).unwrap_or_default());
        let end = u32::try_from(self.bytes.len());
        let shared = u16::try_from(shared);
        let (Ok(end), Ok(shared)) = (end, shared) else {
            self.give_up();
            return;
        };
        self.last = kept;
        self.longest = self.longest.max(kept);
        self.keys.push(KeptKey {
            shared,
            is_cut: kept < key.len(),
            end,
        });
        if self.bytes.len() > MOST_EACH * self.keys.len() + MAX_KEY_LEN
            || self.keys.len() > ints::MOST
        {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        *self = RangeKeys {
            is_too_much: true,
            ..RangeKeys::default()
        };
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        (self.last, self.longest, self.is_too_much) = (0, 0, false);
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<KeptKey>()
    }

    /// Bytes of memory that [`build`] takes, at most: integers, their upper bits twice, the block
    /// as it grows, and what is common to keys.
    pub(crate) fn building(&self, millibits: u32) -> usize {
        let block = self.keys.len() * (millibits as usize / 1000 + 2) / 8;
        self.keys.len() * 3 * size_of::<u64>() + 3 * block + 4 * self.longest
    }

    /// What is kept of each key, and whether there is more of it.
    pub(crate) fn each(&self, mut visit: impl FnMut(&[u8], bool)) {
        let (mut key, mut from) = (Vec::new(), 0);
        for kept in &self.keys {
            key.truncate(kept.shared.into());
            let end = kept.end as usize;
            key.extend_from_slice(self.bytes.get(from..end).unwrap_or_default());
            from = end;
            visit(&key, kept.is_cut);
        }
    }
}

/// The block of a module of `millibits` thousandths of bits per key.
pub(crate) fn build(keys: &RangeKeys, millibits: u32) -> Vec<u8> {
    if keys.is_too_much || keys.keys.is_empty() {
        return BLANK.to_vec();
    }
    // What all begin with, and how many bytes of each behind that are sure to be known.
    let mut common: Option<Vec<u8>> = None;
    keys.each(|key, _| match &mut common {
        Some(common) => common.truncate(common_prefix(common, key)),
        None => common = Some(key.to_vec()),
    });
    let common = common.unwrap_or_default();
    let mut known = usize::MAX;
    keys.each(|key, is_cut| {
        if is_cut {
            known = known.min(key.len() - common.len());
        }
    });
    let rest = |key: &[u8]| -> std::ops::Range<usize> {
        common.len()..key.len().min(common.len().saturating_add(known))
    };
    let mut symbols = SymbolsOfKeys::default();
    keys.each(|key, _| symbols.see(key.get(rest(key)).unwrap_or_default()));
    symbols.end_alphabet();
    keys.each(|key, _| symbols.place(key.get(rest(key)).unwrap_or_default()));
    let mut head = Vec::new();
    symbols.end().encode(&mut head);
    let Some(symbols) = Symbols::parse(&mut &*head) else {
        return BLANK.to_vec();
    };
    let mut integers = Vec::with_capacity(keys.len());
    keys.each(|key, _| integers.push(symbols.integer(key.get(rest(key)).unwrap_or_default(), 0)));
    integers.dedup();
    encode(&integers, &common, &head, millibits)
}

/// How many of the lowest bits the upper ones leave out: as many as come nearest to the room beside
/// so many planes, but for half a bit, and for what a unary part begins with.
fn dropped(integers: &[u64], millibits: u32, wanted: u32) -> u32 {
    let room = integers.len() as u64 * (u64::from(millibits) + 500) / 8000;
    let room = room as usize + 16;
    let plane = integers.len().div_ceil(8);
    let (mut least, mut most) = (0, u64::BITS - 1);
    while least < most {
        let middle = u32::midpoint(least, most);
        let upper = ints::encoded_len(integers, &Shape::unary(integers, middle));
        if upper.saturating_add(plane * wanted.min(middle) as usize) <= room {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    least
}

/// The block of ascending integers.
fn encode(integers: &[u64], common: &[u8], symbols: &[u8], millibits: u32) -> Vec<u8> {
    let dropped = dropped(integers, millibits, planes_of(millibits));
    let planes = planes_of(millibits).min(dropped);
    let upper: Vec<u64> = integers
        .iter()
        .map(|value| value >> dropped << dropped)
        .collect();
    let mut unary = Vec::new();
    ints::encode(&upper, &Shape::unary(&upper, dropped), &mut unary);

    // As many planes beside the upper bits as leave both within a page.
    let head = HEAD + common.len() + symbols.len() + unary.len();
    let plane = integers.len().div_ceil(8);
    let columns = columns_of(millibits);
    let others = usize::from(columns) - 1;
    let most = PLANES.min((planes as usize).saturating_sub(others)).max(1);
    let first = (PAGE_PAYLOAD.saturating_sub(head) / plane.max(1)).clamp(1, most);
    let mut block = vec![INTEGERS, columns, columns, first as u8, planes as u8];
    put_bytes(&mut block, common);
    block.extend_from_slice(symbols);
    put_varint(&mut block, integers.len() as u64);
    put_bytes(&mut block, &unary);
    for plane in 1..=planes {
        let mut writer = BitWriter::default();
        for value in integers {
            writer.push(value >> (dropped - plane) & 1, 1);
        }
        block.extend_from_slice(writer.bytes());
    }
    block
}

/// The bits of each integer that are kept in planes: all but those that say only which integer is
/// the next.
fn planes_of(millibits: u32) -> u32 {
    (millibits / 1000).saturating_sub(2).clamp(1, u64::BITS / 2)
}

/// The columns of a module of so many thousandths of bits per key.
pub(super) fn columns_of(millibits: u32) -> u8 {
    let more = (planes_of(millibits) - 1).div_ceil(PLANES as u32);
    (1 + more as u8).min(MOST_COLUMNS)
}

/// The rate at which each of so many columns lets pass what all before it do, as if they had as
/// many planes.
pub(super) fn column_fpr(columns: u8, millibits: u32) -> f32 {
    (-(planes_of(millibits) as f32) / f32::from(columns.max(1))).exp2()
}

/// The most columns of a block.
const MOST_COLUMNS: u8 = 8;

/// Planes of each column but the first, at most, if there are no more than [`MOST_COLUMNS`]; the
/// first has as many as leave it within a page, up to this and one at least. Of the keys of a
/// partition, mostly, each fills a page of memory, or nearly so: what frees no page would go with
/// the whole block.
const PLANES: usize = 4;

/// What a column is to fill, about: a page, but for what a block has beside its bytes.
const PAGE_PAYLOAD: usize = 4000;

/// Bytes of the form and of the [`Header`].
const HEAD: usize = 5;

/// What a block has behind its form.
#[derive(Debug, Clone, Copy)]
struct Header {
    /// Columns that are there, from the first one on.
    columns: u8,
    /// Columns of the module.
    all: u8,
    /// Planes of the first column.
    first: u8,
    /// Planes of all columns of the module, also those that are not there.
    planes: u8,
}

/// What there is to know of a block.
struct RangeBlock<'a> {
    header: Header,
    common: &'a [u8],
    symbols: Symbols<'a>,
    /// The upper bits of the integers.
    upper: Ints<'a>,
    /// Bytes before the planes.
    head: usize,
    /// The bits below, those of one place of all integers after those of another.
    planes: &'a [u8],
    /// Bytes of a plane.
    plane: usize,
}

impl<'a> RangeBlock<'a> {
    /// `None` where a block lets everything pass, or is not sound.
    fn parse(block: &'a [u8]) -> Option<Self> {
        let ([form, columns, all, first, planes], mut input) = block.split_first_chunk::<HEAD>()?;
        let header = Header {
            columns: *columns,
            all: *all,
            first: *first,
            planes: *planes,
        };
        if *form != INTEGERS || header.columns > header.all || header.all > MOST_COLUMNS {
            return None;
        }
        let common = take_len(&mut input, MAX_KEY_LEN)?;
        let common = take(&mut input, common)?;
        let symbols = Symbols::parse(&mut input)?;
        let count = usize::try_from(take_short_varint(&mut input)?).ok()?;
        let upper = take_bytes(&mut input)?;
        let upper = (count > 0).then(|| Ints::parse(upper, count))??;
        let range = RangeBlock {
            header,
            common,
            symbols,
            upper,
            head: block.len() - input.len(),
            planes: input,
            plane: count.div_ceil(8),
        };
        (input.len() == range.plane * range.planes_in(header.columns)).then_some(range)
    }

    /// Planes of the first so many columns.
    fn planes_in(&self, columns: u8) -> usize {
        let Header {
            all, first, planes, ..
        } = self.header;
        let (first, planes) = (usize::from(first.min(planes)), usize::from(planes));
        match (columns, all) {
            (0, _) => 0,
            (1, 2..) => first,
            // What the first one leaves is divided evenly.
            (more, 2..) => {
                let (own, others) = (usize::from(more - 1), usize::from(all - 1));
                first + ((planes - first) * own).div_ceil(others)
            }
            _ => planes,
        }
    }

    /// The integer of a key, as far as keys of the partition begin as it does; else whether it is
    /// before or behind all of them.
    fn integer(&self, key: &[u8]) -> Result<u64, Ordering> {
        let (head, rest) = key.split_at(key.len().min(self.common.len()));
        match head.cmp(self.common) {
            Ordering::Equal => Ok(self.symbols.integer(rest, 0)),
            other => Err(other),
        }
    }

    /// The integers of a range, if keys of the partition may lie between them.
    fn integers(&self, start: &[u8], end: &[u8]) -> Option<(u64, u64)> {
        let start = match self.integer(start) {
            Ok(start) => start,
            Err(Ordering::Greater) => return None,
            Err(_) => 0,
        };
        let end = match self.integer(end) {
            Ok(end) => end,
            Err(Ordering::Less) => return None,
            Err(_) => u64::MAX,
        };
        (start <= end).then_some((start, end))
    }

    /// The first bits of an integer below the upper ones, of so many planes.
    fn lower(&self, at: usize, planes: usize) -> u64 {
        (0..planes).fold(0, |bits, plane| {
            let bytes = self.planes.get(plane * self.plane..).unwrap_or_default();
            bits << 1 | bits::get(bytes, at, 1)
        })
    }

    /// Whether an integer from one to another may be there, by the upper bits and so many planes.
    fn may_hold(&self, (start, end): (u64, u64), planes: usize) -> bool {
        let dropped = self.upper.dropped();
        let [first, last] = [start, end].map(|value| value.unbounded_shr(dropped));
        // How many have upper bits up to these.
        let at_most = |upper: u64| {
            let value = upper.unbounded_shl(dropped);
            self.upper.at_most(|from| value.unbounded_shr(from))
        };
        let before = |upper: u64| upper.checked_sub(1).map_or(0, at_most);
        let (from, to) = (before(first), at_most(last));
        if from >= to {
            return false;
        }
        let unseen = dropped.saturating_sub(planes as u32);
        let known = |value: u64| (value & bits::ones(dropped)).unbounded_shr(unseen);
        let (low, high) = (known(start), known(end));
        // Of integers with the same upper bits the lower ones ascend.
        let at_least = |mut from: usize, mut to: usize, wanted: u64| {
            while from < to {
                let middle = from.midpoint(to);
                if self.lower(middle, planes) < wanted {
                    from = middle + 1;
                } else {
                    to = middle;
                }
            }
            from
        };
        if first == last {
            let at = at_least(from, to, low);
            return at < to && self.lower(at, planes) <= high;
        }
        // Of those as the start has, of those between, of those as the end has.
        let (behind, last_from) = (at_most(first), before(last));
        last_from > behind
            || at_least(from, behind, low) < behind
            || last_from < to && self.lower(last_from, planes) <= high
    }
}

/// Which columns of a block say that a partition has no key from `start` to `end`, a bit for each:
/// with more of them a block says no less, so that these are the last ones there are.
pub(super) fn rejecting_columns(block: &[u8], start: &[u8], end: &[u8]) -> u8 {
    let Some(block) = RangeBlock::parse(block).filter(|block| block.header.columns > 0) else {
        return 0;
    };
    let there = block.header.columns;
    let Some(range) = block.integers(start, end) else {
        return bits::ones(there.into()) as u8;
    };
    let may_hold = |columns: &u8| block.may_hold(range, block.planes_in(*columns));
    if may_hold(&there) {
        return 0;
    }
    let passing = (1..=there).take_while(may_hold).count() as u32;
    (bits::ones(there.into()) & !bits::ones(passing)) as u8
}

/// Whether a partition may have a key from `start` to `end`.
pub(crate) fn may_hold(block: &[u8], start: &[u8], end: &[u8]) -> bool {
    rejecting_columns(block, start, end) == 0
}

/// Which columns of its module a block has: the first ones.
pub(crate) fn columns(block: &[u8]) -> u8 {
    match block {
        [INTEGERS, columns, ..] if *columns <= MOST_COLUMNS => bits::ones((*columns).into()) as u8,
        _ => 0,
    }
}

/// A block with as many columns as are in `keep`, the first ones. What the others add is little
/// without these, so that no others are kept.
pub(crate) fn shrink(block: &[u8], keep: u8) -> Vec<u8> {
    let columns = (keep & columns(block)).count_ones() as u8;
    let Some(range) = RangeBlock::parse(block).filter(|_| columns > 0) else {
        return BLANK.to_vec();
    };
    let len = range.head + range.plane * range.planes_in(columns);
    let mut out = block.get(..len).unwrap_or(block).to_vec();
    if let Some(own) = out.get_mut(1) {
        *own = columns;
    }
    out
}

/// Whether a block has keys, and does not let everything pass by its form.
pub(crate) fn has_ranges(block: &[u8]) -> bool {
    block.first() == Some(&INTEGERS)
}

/// A filter of ranges of its own, as partitions of tables have them
/// ([`KeyspaceOptions::range_filter`](crate::KeyspaceOptions::range_filter)).
#[derive(Debug)]
pub struct RangeFilter(Vec<u8>);

impl RangeFilter {
    /// Of keys, in so many bits each.
    pub fn of(keys: &[impl AsRef<[u8]>], bits_per_key: f64) -> Self {
        let mut keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut kept, mut last) = (RangeKeys::default(), &[][..]);
        for key in keys {
            kept.add(common_prefix(last, key), key);
            last = key;
        }
        RangeFilter(build(&kept, (bits_per_key * 1000.0) as u32))
    }

    /// Whether it may have a key from `start` to `end`, both among them.
    pub fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        may_hold(&self.0, start, end)
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(keys: &[Vec<u8>]) -> RangeKeys {
        let mut kept = RangeKeys::default();
        let mut last: &[u8] = &[];
        for key in keys {
            kept.add(common_prefix(last, key), key);
            last = key;
        }
        kept
    }

    fn sorted(mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(1 << 33 | 1);
            crate::base::digest::KeyDigest::of(&self.0.to_le_bytes()).remix(0)
        }
    }

    /// Of ranges without a key that begin where other keys of the kind would be, the share that
    /// passes; and bits per key.
    fn measured(
        key: &dyn Fn(u64, &mut Random) -> Vec<u8>,
        after: &dyn Fn(&[u8]) -> Vec<u8>,
        bits: u32,
    ) -> (f64, f64) {
        let mut random = Random(7);
        let all = sorted((0..16_000).map(|number| key(number, &mut random)).collect());
        let (mut keys, mut others) = (Vec::new(), Vec::new());
        for (number, key) in all.into_iter().enumerate() {
            if number % 2 == 0 {
                keys.push(key);
            } else {
                others.push(key);
            }
        }
        let block = build(&kept(&keys), bits * 1000);
        let (mut empty, mut passed) = (0u32, 0u32);
        for start in &others {
            let end = after(start);
            let at = keys.partition_point(|key| key < start);
            let is_empty = keys.get(at).is_none_or(|key| *key > end);
            let may_hold = may_hold(&block, start, &end);
            assert!(may_hold || is_empty);
            empty += u32::from(is_empty);
            passed += u32::from(is_empty && may_hold);
        }
        assert!(empty > 5000, "{empty}");
        let each = block.len() as f64 * 8.0 / keys.len() as f64;
        (f64::from(passed) / f64::from(empty), each)
    }

    fn plus(key: &[u8], more: u64) -> Vec<u8> {
        let (head, tail) = key.split_at(key.len() - 8);
        let number = u64::from_be_bytes(tail.try_into().unwrap()).saturating_add(more);
        [head, &number.to_be_bytes()].concat()
    }

    #[test]
    fn short_ranges_without_a_key_pass_rarely() {
        let random = |_, random: &mut Random| random.next().to_be_bytes().to_vec();
        let sequence = |number: u64, random: &mut Random| {
            (number * 1000 + random.next() % 1000)
                .to_be_bytes()
                .to_vec()
        };
        let hex = |_, random: &mut Random| {
            format!("{:016x}{:016x}", random.next(), random.next()).into_bytes()
        };
        let user_time = |number: u64, random: &mut Random| {
            let time = 1_700_000_000 + random.next() % (365 * 86_400);
            [(number / 100).to_be_bytes(), time.to_be_bytes()].concat()
        };
        let text = |key: &[u8]| [key, b"\xff"].concat();
        for bits in [6, 10, 14] {
            // What evenly spread keys would have, and more for what is not even.
            let most = 2.5 * (2.5 - f64::from(bits)).exp2();
            for (name, (passed, each)) in [
                ("random", measured(&random, &|key| plus(key, 1 << 40), bits)),
                ("sequence", measured(&sequence, &|key| plus(key, 15), bits)),
                ("hexadecimal", measured(&hex, &text, bits)),
                (
                    "a minute of a user",
                    measured(&user_time, &|key| plus(key, 60), bits),
                ),
            ] {
                assert!(passed <= most, "{name} {bits}: {passed}");
                let wanted = f64::from(bits);
                assert!(
                    (wanted - 0.8..wanted + 0.7).contains(&each),
                    "{name} {bits}: {each}"
                );
            }
        }
    }

    #[test]
    fn every_column_has_planes_and_the_first_ones_fit_a_page_each() {
        for (count, bits) in [
            (300, 10),
            (4000, 10),
            (4000, 8),
            (8000, 10),
            (8000, 14),
            (8000, 32),
        ] {
            let mut random = Random(9);
            let keys = (0..count).map(|_| random.next().to_be_bytes().to_vec());
            let block = build(&kept(&sorted(keys.collect())), bits * 1000);
            let range = RangeBlock::parse(&block).unwrap();
            let all = range.header.all;
            let planes: Vec<usize> = (0..=all).map(|columns| range.planes_in(columns)).collect();
            assert!(
                planes.is_sorted_by(|a, b| a < b),
                "{count} {bits}: {planes:?}"
            );
            assert_eq!(planes.last(), Some(&(bits as usize - 2)));
            let first = shrink(&block, 1).len();
            assert!(first <= 4096 || planes[1] == 1, "{count} {bits}: {first}");
        }
    }

    #[test]
    fn what_lies_outside_is_absent() {
        let keys = sorted(
            (0..100u32)
                .map(|n| format!("user{n:03}/x").into_bytes())
                .collect(),
        );
        let block = build(&kept(&keys), 10_000);
        assert!(!may_hold(&block, b"a", b"user"));
        assert!(!may_hold(&block, b"uses", b"z"));
        assert!(may_hold(&block, b"", b"z"));
        assert!(may_hold(&block, b"a", b"user000/x"));
        assert!(!may_hold(&block, b"z", b"a"));
    }

    #[test]
    fn keys_that_take_too_much_have_no_filter() {
        let long = |n: u32| [&n.to_be_bytes()[..], &[7; 60_000]].concat();
        let keys: Vec<_> = (0..8).map(long).collect();
        // Of each but the first only the first bytes are kept.
        assert!(has_ranges(&build(&kept(&keys), 10_000)));
        // Those that differ at their end are kept whole.
        let long = |n: u32| {
            let n = 1 << 20 | n;
            [&[1; 60_000][..], &n.to_be_bytes(), &[n as u8; 5000]].concat()
        };
        let mut keys = RangeKeys::default();
        for n in 0..70_000u32 {
            keys.add(if n % 2 == 0 { 0 } else { 60_000 }, &long(n / 256));
        }
        assert!(keys.is_too_much);
        assert_eq!(build(&keys, 10_000), BLANK);
        assert!(may_hold(&BLANK, b"a", b"a"));
        keys.clear();
        keys.add(0, b"a");
        assert!(!may_hold(&build(&keys, 10_000), b"b", b"c"));
    }

    /// Keys that often begin alike, some of them long.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let of = |symbols: &'static [u8], most: usize| {
            let byte = proptest::sample::select(symbols);
            let key = proptest::collection::vec(byte, 0..most);
            proptest::collection::vec(key, 1..200)
        };
        let any_bytes = proptest::collection::vec(any::<Vec<u8>>(), 1..60);
        let numbers = proptest::collection::vec(any::<u64>(), 1..200);
        let numbers =
            numbers.prop_map(|all| all.iter().map(|n| n.to_be_bytes().to_vec()).collect());
        let after = (
            proptest::collection::vec(any::<u8>(), 0..50),
            of(b"abc", 40),
        );
        let after = after.prop_map(|(before, keys)| {
            keys.into_iter()
                .map(|key| [before.clone(), key].concat())
                .collect()
        });
        // One of them is what the others begin with, and these have 64 bits behind it.
        let first = of(b"0123456789abcdef", 17).prop_map(|keys| {
            let others = keys.into_iter().filter(|key| key.len() == 16);
            let others = others.map(|key| [b"dir/", &key[..]].concat());
            others.chain([b"dir".to_vec()]).collect()
        });
        let keys = prop_oneof![
            first,
            of(b"\0\x01\xff", 6),
            of(b"aeinrst", 50),
            any_bytes,
            numbers,
            after
        ];
        keys.prop_map(sorted)
    }

    proptest! {
        #[test]
        fn no_key_is_missed(
            keys in keys(),
            millibits in 4_000u32..32_000,
            probes in proptest::collection::vec(any::<[(u16, u8, u8); 2]>(), 40),
        ) {
            let block = build(&kept(&keys), millibits);
            prop_assert!(has_ranges(&block));
            for probe in probes {
                // Keys, and what is before or behind some of their beginnings.
                let [start, end] = probe.map(|(key, cut, byte)| {
                    let mut key = keys[usize::from(key) % keys.len()].clone();
                    if byte % 4 > 0 {
                        key.truncate(usize::from(cut) % (key.len() + 1));
                        key.extend([byte].repeat(usize::from(byte % 3)));
                    }
                    key
                });
                let at = keys.partition_point(|key| *key < start);
                if keys.get(at).is_some_and(|key| *key <= end) {
                    prop_assert!(may_hold(&block, &start, &end), "{start:?} {end:?}");
                    for keep in 1..=MOST_COLUMNS {
                        let part = shrink(&block, bits::ones(keep.into()) as u8);
                        prop_assert!(may_hold(&part, &start, &end), "{start:?} {end:?} {keep}");
                    }
                }
            }
            for key in &keys {
                prop_assert!(may_hold(&block, key, key));
            }
        }

        /// A part of a block says no more than the block, and none of its parts misses a key.
        #[test]
        fn a_part_of_a_block_says_less(keys in keys(), millibits in 4_000u32..32_000, keep: u8) {
            let block = build(&kept(&keys), millibits);
            let all = columns(&block);
            prop_assert_eq!(all, bits::ones(columns_of(millibits).into()) as u8);
            let part = shrink(&block, keep);
            prop_assert_eq!(columns(&part).count_ones(), (keep & all).count_ones());
            prop_assert_eq!(&shrink(&part, u8::MAX), &part);
            for key in &keys {
                prop_assert!(may_hold(&part, key, key));
                // What begins as it does, but for the last byte.
                let mut other = key.clone();
                if let Some(last) = other.last_mut() {
                    *last ^= 1;
                }
                let whole = rejecting_columns(&block, &other, &other);
                prop_assert_eq!(rejecting_columns(&part, &other, &other), whole & columns(&part));
            }
        }

        #[test]
        fn changed_blocks_are_asked_without_panic(
            keys in keys(),
            changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
            ends in any::<[(u16, u8); 2]>(),
        ) {
            let mut block = build(&kept(&keys), 10_000);
            for (at, to) in changes {
                let at = usize::from(at) % block.len().min(64);
                block[at] = to;
            }
            let [start, end] = ends.map(|(key, byte)| {
                [&keys[usize::from(key) % keys.len()][..], &[byte]].concat()
            });
            may_hold(&block, &start, &end);
            may_hold(&shrink(&block, 0b101), &start, &end);
        }

        #[test]
        fn any_bytes_are_asked_without_panic(
            mut block in any::<Vec<u8>>(),
            start: Vec<u8>,
            end: Vec<u8>,
        ) {
            may_hold(&block, &start, &end);
            shrink(&block, 0b11);
            block.splice(0..0, [INTEGERS, 3, 3, 1, 9, 0, 0]);
            may_hold(&block, &start, &end);
            shrink(&block, 0b11);
        }
    }
}
