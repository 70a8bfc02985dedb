//! One Bloom filter and hash functions outside the engine: how long a hash takes, how often a
//! filter errs by the way its positions are derived, and how long a lookup takes. One thread.
use crate::reproduce::prelude::*;
use crate::workload::Random;
use md5::Digest as _;
use rand_xoshiro::rand_core::Rng as _;
use shamba_model::fpr;
use std::hint::black_box;
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh64::xxh64;

/// The odd constant that the engine steps through positions with.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Keys of a filter.
pub(super) const KEYS: usize = 10_000;

/// Lookups timed together.
const BATCH: usize = 500;

/// The most positions of a key.
const MAX_POSITIONS: usize = 16;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Hash {
    /// XXH3, 64 bits: the engine's.
    Xxh3,
    /// XXH64: taken for the paper's XXHash, of which it does not say which it is.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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

    /// Calls `at` with the number of each of `count` positions and its hash, until it returns
    /// false; whether it never did.
    fn each(self, key: &[u8], count: usize, mut at: impl FnMut(usize, u64) -> bool) -> bool {
        let (h, step) = match self {
            // All before the first is looked at, as in the paper. With more positions than
            // functions, their hashes are stirred.
            Derive::Independent => {
                let mut hashes = [0; MAX_POSITIONS];
                for (i, hash) in hashes.iter_mut().enumerate().take(count) {
                    let round = (i / Hash::ALL.len()) as u64;
                    let function = Hash::ALL[i % Hash::ALL.len()];
                    *hash = function.of(key).wrapping_mul(round.wrapping_mul(STEP) | 1);
                }
                return (0..count).all(|i| at(i, hashes[i]));
            }
            Derive::Steps(hash) => {
                let mut h = hash.of(key);
                return (0..count).all(|i| {
                    h = h.wrapping_mul(STEP);
                    at(i, h)
                });
            }
            Derive::Rotation(hash) => {
                let h = hash.of(key);
                (h, h.rotate_left(17))
            }
            Derive::Double(first, second) => (first.of(key), second.of(key)),
        };
        (0..count).all(|i| at(i, h.wrapping_add((i as u64).wrapping_mul(step))))
    }
}

/// A Bloom filter's form.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Setting {
    pub(super) derive: Derive,
    /// Bytes of a key.
    pub(super) key_size: usize,
    pub(super) bits_per_key: f64,
    pub(super) positions: usize,
    /// In a unit for each position, as ElasticBF's, instead of in one part.
    pub(super) units: bool,
}

impl Setting {
    /// The share of absent keys that should pass.
    pub(super) fn theory(&self) -> f64 {
        fpr::bloom(self.bits_per_key, self.positions as u32).unwrap_or(f64::NAN)
    }
}

struct Filter {
    setting: Setting,
    /// Words of a unit, or of the whole.
    words: usize,
    /// Words from the place of one position to that of the next: none where all share the filter.
    stride: usize,
    bits: Vec<u64>,
}

impl Filter {
    fn new(setting: Setting, keys: &[Vec<u8>]) -> Self {
        let units = if setting.units { setting.positions } else { 1 };
        let words = keys.len() as f64 * setting.bits_per_key / 64.0 / units as f64;
        let words = (words.ceil() as usize).max(1);
        let mut filter = Self {
            setting,
            words,
            stride: if setting.units { words } else { 0 },
            bits: vec![0; words * units],
        };
        for key in keys {
            setting.derive.each(key, setting.positions, |i, hash| {
                let (word, bit) = filter.place(i, hash);
                filter.bits[word] |= bit;
                true
            });
        }
        filter
    }

    fn may_contain(&self, key: &[u8]) -> bool {
        (self.setting.derive).each(key, self.setting.positions, |i, hash| {
            let (word, bit) = self.place(i, hash);
            self.bits[word] & bit != 0
        })
    }

    /// The word and the bit that a position's hash says, evenly over all bits it may have.
    fn place(&self, position: usize, hash: u64) -> (usize, u64) {
        let at = ((u128::from(hash) * (self.words as u128 * 64)) >> 64) as usize;
        (position * self.stride + at / 64, 1 << (at % 64))
    }
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

/// Nanoseconds to hash a key of so many bytes by each of these, measured once: median over batches
/// of different keys in the processor's cache.
pub(super) fn hashes_ns<const N: usize>(
    lab: &mut Lab<'_>,
    hashes: [Hash; N],
    size: usize,
    batches: usize,
) -> Result<[f64; N]> {
    const ROUNDS: usize = 64;
    let mut all = [f64::NAN; N];
    for (ns, hash) in all.iter_mut().zip(hashes) {
        let asked = (hash, size, batches, lab.seed);
        *ns = lab.measured("hash", &asked, |lab| {
            let keys = keys(size, 16, &mut random(lab.seed, size as u64));
            let times = (0..batches.max(1)).map(|_| {
                let start = Instant::now();
                for _ in 0..ROUNDS {
                    for key in &keys {
                        black_box(hash.of(black_box(key)));
                    }
                }
                start.elapsed().as_secs_f64() * 1e9 / (ROUNDS * keys.len()) as f64
            });
            Ok(median(&times.collect::<Vec<_>>()).unwrap_or(f64::NAN))
        })?;
    }
    Ok(all)
}

/// How many filters of [`KEYS`] keys are made, and how many absent keys each is asked for.
#[derive(Clone, Copy, serde::Serialize)]
pub(super) struct Effort {
    pub(super) filters: usize,
    pub(super) lookups: usize,
    pub(super) seed: u64,
}

/// What came out.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Seen {
    /// Share of absent keys that pass.
    pub(super) rate: f64,
    /// Its standard error: that of as many draws, no less.
    pub(super) error: f64,
    /// Nanoseconds for an absent key: the median over batches.
    pub(super) ns: f64,
}

/// Makes filters and asks them.
pub(super) fn ask(setting: Setting, effort: Effort) -> Seen {
    let (mut passed, mut asked, mut times) = (0, 0, Vec::new());
    for number in 0..effort.filters {
        let mut random = random(effort.seed, 1 + number as u64);
        let filter = Filter::new(setting, &keys(setting.key_size, KEYS, &mut random));
        for _ in 0..effort.lookups.div_ceil(BATCH) {
            let absent = keys(setting.key_size, BATCH, &mut random);
            let start = Instant::now();
            let found = (absent.iter()).filter(|key| filter.may_contain(black_box(key)));
            passed += found.count();
            times.push(start.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
            asked += BATCH;
        }
    }
    let rate = passed as f64 / asked.max(1) as f64;
    Seen {
        rate,
        error: (rate / asked.max(1) as f64).sqrt(),
        ns: median(&times).unwrap_or(f64::NAN),
    }
}

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
            for units in [false, true] {
                let setting = Setting {
                    derive,
                    key_size: 24,
                    bits_per_key: 10.0,
                    positions: 7,
                    units,
                };
                let rate = ask(setting, effort).rate;
                let off = (rate - setting.theory()).abs();
                assert!(off < 0.003, "{derive:?}, {units}: {rate}");
                let members = keys(24, 500, &mut random(3, 3));
                let filter = Filter::new(setting, &members);
                assert!(members.iter().all(|key| filter.may_contain(key)));
            }
        }
    }
}
