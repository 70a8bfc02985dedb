//! One Bloom filter and hash functions outside the engine: how long a hash takes, how often a
//! filter errs by the way its positions are derived, and how long a lookup takes. One thread.
use crate::report::median;
use crate::workload::{Random, random};
use md5::Digest as _;
use rand_xoshiro::rand_core::Rng as _;
use std::hint::black_box;
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh64::xxh64;

/// The odd constant that the engine steps through positions with.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The most positions of a key.
const MAX_POSITIONS: usize = 16;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// XXH3, 64 bits: the engine's.
    Xxh3,
    /// XXH64: the paper's XXHash.
    Xxh64,
    /// MurmurHash64A, seed 0: the paper's primary one.
    Murmur64,
    /// The same with another seed, in the place of the paper's MurmurHash of 32 bits.
    Murmur64Other,
    /// CRC-32C, its 32 bits spread over 64 by a multiplication.
    Crc,
    /// The first 64 bits of MD5.
    Md5,
    /// The first 64 bits of SHA-256.
    Sha256,
}

impl Hash {
    /// Seven independent ones, as many as 10 bits per key need. The paper's CityHash64 is not among
    /// them: the crate for it has had one release, in 2022.
    pub(super) const ALL: [Hash; 7] = [
        Hash::Murmur64Other,
        Hash::Murmur64,
        Hash::Xxh64,
        Hash::Xxh3,
        Hash::Crc,
        Hash::Md5,
        Hash::Sha256,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Hash::Xxh3 => "XXH3",
            Hash::Xxh64 => "XXH64",
            Hash::Murmur64 => "MurmurHash64",
            Hash::Murmur64Other => "MurmurHash64, other seed",
            Hash::Crc => "CRC-32C",
            Hash::Md5 => "MD5",
            Hash::Sha256 => "SHA-256",
        }
    }

    pub(super) fn of(self, key: &[u8]) -> u64 {
        let first =
            |bytes: &[u8]| u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default());
        match self {
            Hash::Xxh3 => xxh3_64(key),
            Hash::Xxh64 => xxh64(key, 0),
            Hash::Murmur64 => murmur64(key, 0),
            Hash::Murmur64Other => murmur64(key, 0x5bd1_e995),
            Hash::Crc => u64::from(crc32c::crc32c(key)).wrapping_mul(STEP),
            Hash::Md5 => first(&md5::Md5::digest(key)),
            Hash::Sha256 => first(&sha2::Sha256::digest(key)),
        }
    }
}

/// MurmurHash64A of Austin Appleby (MurmurHash2.cpp, public domain).
fn murmur64(key: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = seed ^ (key.len() as u64).wrapping_mul(M);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 47)).wrapping_mul(M);
        h = (h ^ k).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    h = (h ^ (h >> 47)).wrapping_mul(M);
    h ^ (h >> 47)
}

/// How a filter's positions come from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derive {
    /// A hash function for each.
    Independent,
    /// `h + i * rotated h`: one hash.
    Rotation(Hash),
    /// `h1 + i * h2`: two hashes.
    Double(Hash, Hash),
    /// As the engine does: one hash, times an odd constant for each.
    Steps(Hash),
}

impl Derive {
    pub(super) fn name(self) -> String {
        match self {
            Derive::Independent => "all hash functions".to_owned(),
            Derive::Rotation(hash) => format!("{}, rotated", hash.name()),
            Derive::Double(first, second) => format!("{} + {}", first.name(), second.name()),
            Derive::Steps(hash) => format!("{}, as the engine", hash.name()),
        }
    }

    /// Calls `at` with `count` hashes, until it returns false; whether it never did.
    fn each(self, key: &[u8], count: usize, mut at: impl FnMut(u64) -> bool) -> bool {
        match self {
            // All before the first is looked at, as in the paper. With more positions than
            // functions, their hashes are stirred.
            Derive::Independent => {
                let mut hashes = [0; MAX_POSITIONS];
                for (i, hash) in hashes.iter_mut().enumerate().take(count) {
                    let round = (i / Hash::ALL.len()) as u64;
                    let function = Hash::ALL[i % Hash::ALL.len()];
                    *hash = function.of(key).wrapping_mul(round.wrapping_mul(STEP) | 1);
                }
                hashes.into_iter().take(count).all(at)
            }
            Derive::Rotation(hash) => {
                let h = hash.of(key);
                let step = h.rotate_left(17);
                (0..count as u64).all(|i| at(h.wrapping_add(i.wrapping_mul(step))))
            }
            Derive::Double(first, second) => {
                let (h, step) = (first.of(key), second.of(key));
                (0..count as u64).all(|i| at(h.wrapping_add(i.wrapping_mul(step))))
            }
            Derive::Steps(hash) => {
                let mut h = hash.of(key);
                (0..count).all(|_| {
                    h = h.wrapping_mul(STEP);
                    at(h)
                })
            }
        }
    }
}

/// A Bloom filter, of one part or of several of one position each (as ElasticBF's units).
pub(super) struct Filter {
    derive: Derive,
    hashes: usize,
    units: Vec<Vec<u64>>,
}

impl Filter {
    /// A filter in `units` parts: 1, or as many as hashes.
    pub(super) fn new(
        derive: Derive,
        keys: &[Vec<u8>],
        bits_per_key: f64,
        hashes: usize,
        units: usize,
    ) -> Self {
        let words = (keys.len() as f64 * bits_per_key / 64.0 / units as f64).ceil() as usize;
        let mut filter = Self {
            derive,
            hashes,
            units: vec![vec![0; words.max(1)]; units],
        };
        let mut positions = Vec::new();
        for key in keys {
            positions.clear();
            derive.each(key, hashes, |hash| {
                positions.push(hash);
                true
            });
            for (i, &hash) in positions.iter().enumerate() {
                let unit = &mut filter.units[i % units];
                let (word, bit) = place(hash, unit.len());
                unit[word] |= bit;
            }
        }
        filter
    }

    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        let mut units = self.units.iter().cycle();
        self.derive.each(key, self.hashes, |hash| {
            units.next().is_some_and(|unit| {
                let (word, bit) = place(hash, unit.len());
                unit[word] & bit != 0
            })
        })
    }
}

/// The word and the bit that a hash says, evenly over all bits.
fn place(hash: u64, words: usize) -> (usize, u64) {
    let at = ((u128::from(hash) * (words as u128 * 64)) >> 64) as usize;
    (at / 64, 1 << (at % 64))
}

/// Random keys of one size. The first are of entries, others of none; streams differ.
pub(super) fn keys(size: usize, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let key = |_| {
        let mut key = vec![0; size];
        random.fill_bytes(&mut key);
        key
    };
    (0..count).map(key).collect()
}

/// Nanoseconds to hash a key of so many bytes: median over batches of different keys in the
/// processor's cache.
pub(super) fn hash_ns(hash: Hash, size: usize, batches: usize, seed: u64) -> f64 {
    let keys = keys(size, 16, &mut random(seed, size as u64));
    let rounds = 64;
    let mut times = Vec::new();
    for _ in 0..batches.max(1) {
        let start = Instant::now();
        for _ in 0..rounds {
            for key in &keys {
                black_box(hash.of(black_box(key)));
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / (rounds * keys.len()) as f64);
    }
    median(&times).unwrap_or(f64::NAN)
}

/// What a filter is asked.
pub(super) struct Setting {
    pub(super) derive: Derive,
    pub(super) key_size: usize,
    pub(super) bits_per_key: f64,
    pub(super) hashes: usize,
    pub(super) units: usize,
}

/// How many filters are made, of how many keys, and how many absent keys each is asked for.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) filters: usize,
    pub(super) keys: usize,
    pub(super) lookups: usize,
    pub(super) seed: u64,
}

/// What came out.
pub(super) struct Seen {
    /// Share of absent keys that pass.
    pub(super) rate: f64,
    /// Its standard error: that of as many draws, no less.
    pub(super) error: f64,
    /// Nanoseconds for an absent key: the median over batches.
    pub(super) ns: f64,
}

/// Makes filters and asks them.
pub(super) fn ask(setting: &Setting, effort: Effort) -> Seen {
    let (mut passed, mut asked, mut times) = (0u64, 0u64, Vec::new());
    for number in 0..effort.filters {
        let mut random = random(effort.seed, 1 + number as u64);
        let members = keys(setting.key_size, effort.keys, &mut random);
        let filter = Filter::new(
            setting.derive,
            &members,
            setting.bits_per_key,
            setting.hashes,
            setting.units,
        );
        for _ in 0..effort.lookups.div_ceil(BATCH) {
            let absent = keys(setting.key_size, BATCH, &mut random);
            let start = Instant::now();
            let found = absent
                .iter()
                .filter(|key| filter.may_contain(black_box(key)));
            passed += found.count() as u64;
            times.push(start.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
            asked += BATCH as u64;
        }
    }
    let rate = passed as f64 / asked.max(1) as f64;
    Seen {
        rate,
        error: (rate / asked.max(1) as f64).sqrt(),
        ns: median(&times).unwrap_or(f64::NAN),
    }
}

/// Lookups timed together.
const BATCH: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    /// SMHasher's verification value of MurmurHash64A: the hash of the hashes of keys 0, 1, 2, ...
    /// of lengths 0 to 255.
    #[test]
    fn murmur_is_the_references() {
        let key: Vec<u8> = (0..=255).collect();
        let hashes: Vec<u8> = (0..256)
            .flat_map(|len| murmur64(&key[..len], 256 - len as u64).to_le_bytes())
            .collect();
        assert_eq!(murmur64(&hashes, 0) as u32, 0x1f0d_3804);
    }

    #[test]
    fn filters_hold_their_keys_and_err_as_the_theory_says() {
        let effort = Effort {
            filters: 4,
            keys: 2_000,
            lookups: 10_000,
            seed: 1,
        };
        for derive in [
            Derive::Independent,
            Derive::Rotation(Hash::Murmur64),
            Derive::Rotation(Hash::Crc),
            Derive::Double(Hash::Murmur64, Hash::Xxh64),
            Derive::Steps(Hash::Xxh3),
        ] {
            for units in [1, 7] {
                let setting = Setting {
                    derive,
                    key_size: 24,
                    bits_per_key: 10.0,
                    hashes: 7,
                    units,
                };
                let seen = ask(&setting, effort);
                assert!(
                    (seen.rate - 0.0082).abs() < 0.003,
                    "{derive:?}, {units}: {}",
                    seen.rate
                );
                let members = keys(24, 500, &mut random(3, 3));
                let filter = Filter::new(derive, &members, 10.0, 7, units);
                assert!(members.iter().all(|key| filter.may_contain(key)));
            }
        }
    }
}
