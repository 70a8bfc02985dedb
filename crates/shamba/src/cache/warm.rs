//! What the cache holds, as it is kept over a restart: the names of blocks, keys of entries, how
//! often each was used, and what the policy learned. No bytes of blocks and no values: those are
//! read again from tables. Thread-safe; one shard is locked at a time.

use super::BlockCache;
use super::held::Held;
use super::replacement::replacement;
use super::shard::HeldPlace;

/// Classes of worth for each factor of two.
const PER_OCTAVE: f32 = 4.0;

/// Classes of worth.
const CLASSES: usize = 256;

/// The class of what is worth a page read per window and byte.
const CLASS_OF_ONE: f32 = 192.0;

/// What is shown in one go: the rest of the most valuable eighth of all bytes, quarter, half, all.
const PARTS: [u64; 4] = [8, 4, 2, 1];

/// The class of what a byte is worth; 0 is nothing.
fn class_of(worth: f32) -> usize {
    let class = worth.log2() * PER_OCTAVE + CLASS_OF_ONE;
    // Not a number, and what is worth nothing, is 0.
    class.clamp(0.0, (CLASSES - 1) as f32) as usize
}

/// Who is shown what the cache holds.
pub(crate) trait HeldVisitor {
    /// One of all, with its shard locked. Whether another can be taken before [`Self::empty`].
    fn see(&mut self, held: Held<'_>) -> bool;

    /// With no shard locked, once it has seen enough: whether to go on.
    fn empty(&mut self) -> bool;
}

impl BlockCache {
    /// Shows what is held, and worth something, in order of what a byte of it is worth, in a few
    /// parts. Takes time in the number of all residents.
    pub(crate) fn each_held(&self, visitor: &mut dyn HeldVisitor) {
        let by = replacement(&self.policy);
        let mut bytes = [0u64; CLASSES];
        for shard in &self.shards {
            let mut add = |worth, held, _: Held<'_>| {
                if let Some(bytes) = bytes.get_mut(class_of(worth)) {
                    *bytes += held;
                }
                true
            };
            shard.lock().each_held(by, HeldPlace::default(), &mut add);
        }
        let all: u64 = bytes.iter().skip(1).sum();
        let (mut above, mut seen) = (CLASSES, 0);
        for part in PARTS {
            let mut from = above;
            while from > 1 && seen < all / part {
                from -= 1;
                seen += bytes.get(from).copied().unwrap_or(0);
            }
            if part == 1 {
                from = 1;
            }
            for shard in &self.shards {
                let mut next = Some(HeldPlace::default());
                while let Some(at) = next {
                    next = shard.lock().each_held(by, at, &mut |worth, _, held| {
                        !(from..above).contains(&class_of(worth)) || visitor.see(held)
                    });
                    if next.is_some() && !visitor.empty() {
                        return;
                    }
                }
            }
            above = from;
        }
    }

    /// Goes on with what the policy learned before a restart; false where it knows better.
    pub(crate) fn go_on_from(&self, learned: &[f32]) -> bool {
        let goes_on = self.policy.go_on_from(learned);
        if goes_on {
            for shard in &self.shards {
                shard.lock().go_on(&self.policy);
            }
        }
        goes_on
    }
}
