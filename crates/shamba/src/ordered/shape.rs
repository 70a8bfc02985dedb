//! How ascending integers are encoded in the fewest bits. Pure functions.

/// Bits of the unary part between two samples of how many of them are 1.
pub(crate) const SAMPLED: usize = 512;

/// A sample's bytes.
pub(crate) const SAMPLE: usize = size_of::<u16>();

/// Bits of the unary part, without samples.
pub(crate) fn unary(count: usize, most: u64) -> usize {
    usize::try_from(most).map_or(usize::MAX / 2, |most| {
        most.saturating_add(count + 1).min(usize::MAX / 2)
    })
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bits below what Elias-Fano has.
    pub(crate) dropped: u32,
    /// Bits of Elias-Fano that are stored as they are.
    pub(crate) low: u32,
    /// Bits of each step, which have the dropped ones from the top.
    pub(crate) steps: Vec<u8>,
    /// Bits in all.
    pub(crate) bits: usize,
}

impl Shape {
    /// The shape in which ascending integers, of which there is one at least, take least.
    pub(crate) fn of(values: &[u64]) -> Shape {
        let dropped = Dropped::of(values);
        let main = (0..=63).filter_map(|below| {
            let (main, low) = elias_fano(values, below)?;
            let flags = if dropped.count(below) > 0 {
                values.len()
            } else {
                0
            };
            let rest = dropped.bits(below);
            Some((main.saturating_add(flags + rest), below, low))
        });
        let (bits, below, low) = main.min().unwrap_or_default();
        Shape {
            dropped: below,
            low,
            steps: dropped.steps(below),
            bits,
        }
    }

    /// The shape of ascending integers of which nothing below bit `dropped` is stored, and what is
    /// above it in the unary part alone.
    pub(crate) fn unary(values: &[u64], dropped: u32) -> Shape {
        let ends = [values.last(), values.first()].map(|value| value.map_or(0, |v| v >> dropped));
        let unary = unary(values.len(), ends[0] - ends[1]);
        Shape {
            dropped,
            low: 0,
            steps: Vec::new(),
            bits: unary.saturating_add(unary / SAMPLED * SAMPLE * 8),
        }
    }

    /// The upper part of the first of these, and the largest number of the unary part.
    pub(crate) fn ends(&self, values: &[u64]) -> (u64, u64) {
        let [first, last] = [values.first(), values.last()]
            .map(|value| value.map_or(0, |value| value.unbounded_shr(self.dropped)));
        (first, (last - first).unbounded_shr(self.low))
    }
}

/// The bits that the integers take without those below bit `at`, and how many of each are stored.
fn elias_fano(values: &[u64], at: u32) -> Option<(usize, u32)> {
    let (first, last) = (values.first()?, values.last()?);
    let most = last.unbounded_shr(at) - first.unbounded_shr(at);
    let each = (most / values.len() as u64).checked_ilog2().unwrap_or(0);
    let bits = |low: u32| {
        let unary = unary(values.len(), most.unbounded_shr(low));
        let stored = values.len() * low as usize;
        let samples = unary / SAMPLED * SAMPLE * 8;
        unary.saturating_add(samples).saturating_add(stored)
    };
    let both = [each, each + 1].map(|low| (bits(low), low));
    both.into_iter().min()
}

/// What the bits below each take in the best steps.
struct Dropped {
    /// How many integers have a bit other than 0 below a bit.
    counts: [usize; 65],
    /// The least bits for what these have there, and where the first step ends.
    least: [(usize, u32); 65],
}

impl Dropped {
    fn of(values: &[u64]) -> Dropped {
        let mut dropped = Dropped {
            counts: [0; 65],
            least: [(0, 0); 65],
        };
        for value in values.iter().filter(|value| **value != 0) {
            let zeros = value.trailing_zeros() as usize;
            if let Some(longer) = dropped.counts.get_mut(zeros + 1..) {
                longer.iter_mut().for_each(|count| *count += 1);
            }
        }
        for at in 1..=64u32 {
            let own = dropped.count(at);
            if own == 0 {
                continue;
            }
            // A step to bit `to`; a bit each for whether that was all, unless it was.
            let bits = |to: u32| {
                let flags = if dropped.count(to) > 0 { own } else { 0 };
                own * (at - to) as usize + flags + dropped.bits(to)
            };
            let best = (0..at).map(|to| (bits(to), to)).min();
            if let Some((least, best)) = dropped.least.get_mut(at as usize).zip(best) {
                *least = best;
            }
        }
        dropped
    }

    fn count(&self, below: u32) -> usize {
        self.counts.get(below as usize).copied().unwrap_or(0)
    }

    fn bits(&self, below: u32) -> usize {
        self.least.get(below as usize).map_or(0, |least| least.0)
    }

    fn steps(&self, mut below: u32) -> Vec<u8> {
        let mut steps = Vec::new();
        while self.count(below) > 0 {
            let to = self.least.get(below as usize).map_or(0, |least| least.1);
            steps.push((below - to) as u8);
            below = to;
        }
        steps
    }
}
