//! Large and small counts in a byte, roughly. Plain values.

/// A number from 0 to about 2^32, to within a tenth: `8 log2(1 + number)`, rounded up or down by chance so
/// that what is added or taken a little at a time is not lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rough(pub(super) u8);

/// Steps in which the number doubles.
const STEPS: f32 = 8.0;

impl Rough {
    /// The number nearest below or above a value, as a number from 0 to 1 drawn at random has it.
    pub(super) fn of(value: f32, chance: f32) -> Rough {
        let exact = STEPS * (1.0 + value.max(0.0)).log2();
        let below = Rough(exact as u8);
        let above = Rough(below.0.saturating_add(1));
        let step = above.get() - below.get();
        match step > 0.0 && value - below.get() > chance * step {
            true => above,
            false => below,
        }
    }

    /// The number.
    pub(super) fn get(self) -> f32 {
        match self.0 {
            0 => 0.0,
            steps => (f32::from(steps) / STEPS).exp2() - 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_to_within_a_tenth() {
        for value in [0.0, 0.05, 0.5, 1.0, 7.0, 100.0, 4096.0, 1e6, 4e9] {
            for chance in [0.0, 0.5, 0.999] {
                let kept = Rough::of(value, chance).get();
                assert!(
                    (kept - value).abs() <= (value + 1.0) * 0.1,
                    "{value} {kept}"
                );
            }
        }
        assert_eq!(Rough::default().get(), 0.0);
        assert_eq!(Rough::of(-1.0, 0.5), Rough::default());
        assert_eq!(Rough::of(f32::NAN, 0.5), Rough::default());
        assert_eq!(Rough::of(f32::INFINITY, 0.5), Rough(u8::MAX));
    }

    #[test]
    fn small_additions_add_up() {
        // What a step is larger than is added by chance: on the average it is all there.
        let mut random = 1u32;
        let mut sum = 0.0;
        for _ in 0..200 {
            let mut count = Rough::default();
            for _ in 0..100 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                count = Rough::of(count.get() + 1.0, (random >> 8) as f32 / 16_777_216.0);
            }
            sum += count.get();
        }
        assert!((sum / 200.0 - 100.0).abs() < 5.0, "{}", sum / 200.0);
    }
}
