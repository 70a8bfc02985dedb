//! What a measurement does to an engine: keys, values, who is asked for, in which mix.
//!
//! Everything is a function of a seed and an entry's number, so that two engines, two processes
//! and two days see the same operations, and any answer can be checked without remembering what
//! was written. All types are plain data, `Send + Sync`; each thread owns its own [`Chooser`]
//! and generator.
mod dist;
mod keys;
mod permutation;
mod sizes;
mod values;
mod ycsb;

pub(crate) use dist::HOT;
pub use dist::{Chooser, Distribution};
pub use keys::{KeyKind, KeySpace, MAX_KEY, MIN_KEY};
pub use permutation::Permutation;
pub use sizes::Sizes;
pub use values::ValueSpec;
pub use ycsb::{Mix, Operation};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// The generator used by all workloads.
pub type Random = Xoshiro256PlusPlus;

/// The generator of one stream (a thread, a phase) of a seeded measurement.
pub fn random(seed: u64, stream: u64) -> Random {
    Random::seed_from_u64(mix(seed ^ mix(stream)))
}

/// A bijective scrambling of 64 bits (the finaliser of SplitMix64).
pub(crate) fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
