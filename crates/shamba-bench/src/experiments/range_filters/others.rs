//! Range filters of the literature: what they answer, and the bits that their papers' encodings
//! take.
//!
//! Grafite's (SIGMOD 2024) and its bucketing are Elias-Fano of so many buckets, Rosetta's (SIGMOD
//! 2020) are Bloom filters of all lengths of prefixes that a range can need, with 1.44 bits for
//! each but the last. SuRF's (SIGMOD 2018) are ten bits for a node of its trie and as
//! many bits of each key's rest as are left. Rosetta is told the length of the ranges. What all
//! keys begin with is left out, and of what follows the first sixteen bytes are an integer, which
//! is exact where there are no more.
use super::Filter;
use crate::experiments::indexes::common;
use crate::workload::mix;
use std::collections::BTreeSet;

/// Keys as integers that order as they do, but for what is behind the sixteen bytes.
struct Numbers {
    skip: usize,
    /// The bytes that keys have behind that, of which these many count.
    bytes: usize,
}

/// Bytes of an integer.
const WIDTH: usize = size_of::<u128>();

impl Numbers {
    fn of(keys: &[Vec<u8>]) -> Self {
        let both = keys.first().zip(keys.last());
        let skip = both.map_or(0, |(first, last)| common(first, last));
        let longest = keys.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            skip,
            bytes: (longest - skip.min(longest)).clamp(1, WIDTH),
        }
    }

    /// The integer of a key, as if it began as all do.
    fn number(&self, key: &[u8]) -> u128 {
        let mut bytes = [0; WIDTH];
        let rest = key.get(self.skip..).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(rest.iter().take(self.bytes)) {
            *to = *from;
        }
        u128::from_be_bytes(bytes) >> (8 * (WIDTH - self.bytes))
    }
}

/// Whether a value from `start` to `end` is in a set.
fn meets(values: &BTreeSet<u128>, start: u128, end: u128) -> bool {
    start <= end && values.range(start..=end).next().is_some()
}

/// Grafite: integers hashed such that neighbours stay neighbours, within pieces as long as there
/// are buckets.
pub(super) struct Grafite {
    numbers: Numbers,
    buckets: u128,
    seed: u64,
    values: BTreeSet<u128>,
}

impl Grafite {
    pub(super) fn new(keys: &[Vec<u8>], bits: f64, seed: u64) -> Self {
        let mut grafite = Self {
            numbers: Numbers::of(keys),
            // Elias-Fano takes two bits and the logarithm of buckets over keys.
            buckets: (keys.len() as f64 * (bits - 2.0).exp2()) as u128,
            seed,
            values: BTreeSet::new(),
        };
        let numbers = keys.iter().map(|key| grafite.numbers.number(key));
        grafite.values = numbers.map(|number| grafite.hash(number)).collect();
        grafite
    }

    fn hash(&self, number: u128) -> u128 {
        let piece = number / self.buckets;
        let piece = mix(mix(piece as u64 ^ self.seed) ^ (piece >> 64) as u64);
        let piece = u128::from(piece) % self.buckets;
        (piece + number % self.buckets) % self.buckets
    }
}

impl Filter for Grafite {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        let (start, end) = (self.numbers.number(start), self.numbers.number(end));
        if end - start >= self.buckets {
            return true;
        }
        let within = |start: u128, end: u128| {
            let (start, end) = (self.hash(start), self.hash(end));
            if start <= end {
                return meets(&self.values, start, end);
            }
            meets(&self.values, start, u128::MAX) || meets(&self.values, 0, end)
        };
        let boundary = end / self.buckets * self.buckets;
        if start < boundary {
            return within(start, boundary - 1) || within(boundary, end);
        }
        within(start, end)
    }
}

/// Bucketing: integers without their lowest bits.
pub(super) struct Bucketing {
    numbers: Numbers,
    least: u128,
    width: u128,
    values: BTreeSet<u128>,
}

impl Bucketing {
    pub(super) fn new(keys: &[Vec<u8>], bits: f64) -> Self {
        let numbers = Numbers::of(keys);
        let all: Vec<u128> = keys.iter().map(|key| numbers.number(key)).collect();
        let least = all.first().copied().unwrap_or(0);
        let span = all.last().map_or(0, |last| last - least);
        let buckets = (keys.len() as f64 * (bits - 2.0).exp2()) as u128;
        let width = span / buckets.max(1) + 1;
        Self {
            numbers,
            least,
            width,
            values: all.iter().map(|number| (number - least) / width).collect(),
        }
    }
}

impl Filter for Bucketing {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        let bucket = |key: &[u8]| {
            let number = self.numbers.number(key).checked_sub(self.least)?;
            Some(number / self.width)
        };
        bucket(end).is_some_and(|end| meets(&self.values, bucket(start).unwrap_or(0), end))
    }
}

/// Rosetta: a Bloom filter for each length of prefixes, asked as the nodes of a segment tree.
pub(super) struct Rosetta {
    numbers: Numbers,
    /// Levels above the last one.
    levels: u32,
    filters: Vec<Bloom>,
}

/// Bits per key of each level above the last: half of what is asked passes.
const UPPER: f64 = 1.44;

struct Bloom {
    words: Vec<u64>,
    hashes: u32,
}

impl Bloom {
    fn new(items: impl Iterator<Item = u64>, keys: usize, bits: f64) -> Self {
        let len = (keys as f64 * bits / 64.0).ceil().max(1.0) as usize;
        let hashes = (bits * std::f64::consts::LN_2).round().max(1.0) as u32;
        let mut bloom = Self {
            words: vec![0; len],
            hashes,
        };
        for item in items {
            for at in bloom.places(item) {
                if let Some(word) = bloom.words.get_mut(at / 64) {
                    *word |= 1 << (at % 64);
                }
            }
        }
        bloom
    }

    fn places(&self, item: u64) -> Vec<usize> {
        let bits = self.words.len() as u64 * 64;
        let places = (0..self.hashes).map(|n| (mix(item ^ mix(u64::from(n))) % bits) as usize);
        places.collect()
    }

    fn may_hold(&self, item: u64) -> bool {
        let is_set = |at: usize| {
            let word = self.words.get(at / 64);
            word.is_none_or(|word| word >> (at % 64) & 1 == 1)
        };
        self.places(item).into_iter().all(is_set)
    }
}

/// An integer of as many bits as filters hash.
fn folded(number: u128) -> u64 {
    mix(number as u64) ^ mix((number >> 64) as u64).rotate_left(1)
}

impl Rosetta {
    /// `None` where the bits do not suffice for the length of ranges.
    pub(super) fn new(keys: &[Vec<u8>], bits: f64, levels: u32) -> Option<Self> {
        let last = bits - UPPER * f64::from(levels);
        if last < UPPER {
            return None;
        }
        let numbers = Numbers::of(keys);
        let level = |level: u32| {
            let items = keys.iter().map(|key| folded(numbers.number(key) >> level));
            Bloom::new(items, keys.len(), if level == 0 { last } else { UPPER })
        };
        let filters = (0..=levels).map(level).collect();
        Some(Self {
            numbers,
            levels,
            filters,
        })
    }

    /// Whether a node of the tree, or one below it, may have a key from `start` to `end`.
    fn ask(&self, level: u32, node: u128, (start, end): (u128, u128)) -> bool {
        let first = node << level;
        let last = first | ((1 << level) - 1);
        if last < start || end < first {
            return false;
        }
        let passes = self.filters.get(level as usize);
        if !passes.is_none_or(|bloom| bloom.may_hold(folded(node))) {
            return false;
        }
        level == 0
            || self.ask(level - 1, 2 * node, (start, end))
            || self.ask(level - 1, 2 * node + 1, (start, end))
    }
}

impl Filter for Rosetta {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        let (start, end) = (self.numbers.number(start), self.numbers.number(end));
        let mut nodes = start >> self.levels..=end >> self.levels;
        nodes.any(|node| self.ask(self.levels, node, (start, end)))
    }
}

/// SuRF: each key up to the byte that tells it from its neighbours, and some bits of what follows.
pub(super) struct Surf {
    /// The least and the greatest key that begins so.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it takes.
    pub(super) bits: f64,
}

impl Surf {
    pub(super) fn new(keys: &[Vec<u8>], bits: f64) -> Self {
        let len = |at: usize| {
            let key = &keys[at];
            let with = |other: Option<&Vec<u8>>| other.map_or(0, |other| common(key, other));
            let before = with(at.checked_sub(1).and_then(|at| keys.get(at)));
            (before.max(with(keys.get(at + 1))) + 1).min(key.len())
        };
        let lens: Vec<usize> = (0..keys.len()).map(len).collect();
        let skip = Numbers::of(keys).skip;
        let mut nodes = 0;
        for (at, len) in lens.iter().enumerate() {
            let shared = at.checked_sub(1).map_or(skip, |before| {
                common(&keys[at], &keys[before]).min(lens[before])
            });
            nodes += len - shared.min(*len);
        }
        let trie = 10.0 * nodes as f64;
        let count = keys.len() as f64;
        let suffix = (bits - trie / count).max(0.0).round() as usize;
        let range = |(key, len): (&Vec<u8>, &usize)| {
            let (mut least, mut greatest) = (key[..*len].to_vec(), key[..*len].to_vec());
            let whole = (len + suffix / 8).min(key.len());
            least.extend_from_slice(&key[*len..whole]);
            greatest.extend_from_slice(&key[*len..whole]);
            let kept = suffix % 8;
            if let Some(next) = key.get(whole) {
                let unseen = 0xffu8 >> kept;
                least.push(next & !unseen);
                greatest.push(next | unseen);
            }
            greatest.extend([u8::MAX; 16]);
            (least, greatest)
        };
        Self {
            ranges: keys.iter().zip(&lens).map(range).collect(),
            bits: trie + suffix as f64 * count,
        }
    }
}

impl Filter for Surf {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        let at = self.ranges.partition_point(|range| *range.1 < *start);
        self.ranges.get(at).is_some_and(|range| *range.0 <= *end)
    }
}
