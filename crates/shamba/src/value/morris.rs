//! Approximate counters of a byte (Morris 1978). Plain values.

/// A number from 0 to about 2^32, to within a tenth: `8 log2(1 + number)`, rounded up or down by
/// chance so that what is added or taken a little at a time is not lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MorrisCounter(pub(super) u8);

/// Steps in which the number doubles. A byte has 255, so that eight reach 2^32, which one false
/// positive past 32 columns stands for. With half of it numbers are kept to within a fifth; double
/// ends at 2^16. Neither costs pages that could be measured.
const STEPS: f32 = 8.0;

/// The numbers that a byte stands for, which lookups ask for.
#[expect(clippy::indexing_slicing, reason = "where it panics nothing is built")]
static NUMBERS: [f32; 1 << u8::BITS] = {
    /// 2^(1/8).
    const STEP: f64 = 1.090_507_732_665_257_7;
    let (mut numbers, mut steps, mut power) = ([0.0; 1 << u8::BITS], 0, 1.0);
    while steps < numbers.len() {
        numbers[steps] = (power - 1.0) as f32;
        power *= STEP;
        steps += 1;
    }
    numbers
};

impl MorrisCounter {
    /// The number nearest below or above a value, as a number from 0 to 1 drawn at random has it.
    pub(crate) fn of(value: f32, chance: f32) -> MorrisCounter {
        let exact = STEPS * (1.0 + value.max(0.0)).log2();
        let below = MorrisCounter(exact as u8);
        let above = MorrisCounter(below.0.saturating_add(1));
        let step = above.get() - below.get();
        if step > 0.0 && value - below.get() > chance * step {
            above
        } else {
            below
        }
    }

    /// The number.
    pub(crate) fn get(self) -> f32 {
        NUMBERS.get(usize::from(self.0)).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_to_within_a_tenth() {
        for value in [0.0, 0.05, 0.5, 1.0, 7.0, 100.0, 4096.0, 1e6, 4e9] {
            for chance in [0.0, 0.5, 0.999] {
                let kept = MorrisCounter::of(value, chance).get();
                assert!(
                    (kept - value).abs() <= (value + 1.0) * 0.1,
                    "{value} {kept}"
                );
            }
        }
        assert_eq!(MorrisCounter::default().get(), 0.0);
        assert_eq!(MorrisCounter::of(-1.0, 0.5), MorrisCounter::default());
        assert_eq!(MorrisCounter::of(f32::NAN, 0.5), MorrisCounter::default());
        assert_eq!(
            MorrisCounter::of(f32::INFINITY, 0.5),
            MorrisCounter(u8::MAX)
        );
    }

    #[test]
    fn a_step_is_an_eighth_of_a_doubling() {
        for steps in 0..=u8::MAX {
            let exact = (f64::from(steps) / f64::from(STEPS)).exp2() - 1.0;
            let error = f64::from(MorrisCounter(steps).get()) - exact;
            assert!(error.abs() <= exact * 1e-7, "{steps}");
        }
    }

    #[test]
    fn small_additions_add_up() {
        // What a step is larger than is added by chance: on the average it is all there.
        let mut random = 1u32;
        let mut sum = 0.0;
        for _ in 0..200 {
            let mut count = MorrisCounter::default();
            for _ in 0..100 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                count = MorrisCounter::of(count.get() + 1.0, (random >> 8) as f32 / 16_777_216.0);
            }
            sum += count.get();
        }
        assert!((sum / 200.0 - 100.0).abs() < 5.0, "{}", sum / 200.0);
    }
}
