//! How many slots a ribbon filter needs for its keys.
//!
//! Measured success of one try at solving a filter of windows of 128 slots, as [`slots`] has it
//! and in the tightest room [`slots_within`] takes (written by the engine's ignored test
//! `banding_success_table`):
#![doc = ""]
#![doc = include_str!("../measured/ribbon.md")]

use crate::ModelError;

/// Slots in the window of a key. Wider windows need fewer spare slots and more time; at 128, 3 %
/// are enough for a partition (Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast Succinct
/// Retrieval and Approximate Membership using Ribbon", 2022, table 1 and figure 3).
pub const WIDTH: usize = 128;

/// Bytes of the shortest column: one window, and the byte that a window which starts inside a
/// byte ends in.
pub const LEAST_COLUMN: usize = WIDTH / 8 + 1;

/// Slots spare per key, up to [`EVEN_KEYS`] keys. With a third more hardly one try in a hundred
/// fails, but filters are larger by it; with a third less more tries fail, and eliminations get
/// long (the engine's ignored test `time_of_building_and_probing` has the time).
const SPARE: f64 = 0.028;

/// Further slots spare per key for each doubling of the keys past [`EVEN_KEYS`]: the longest jam
/// of windows grows with the logarithm of their number (same paper, section 3).
const SPARE_PER_DOUBLING: f64 = 0.005;

/// The keys from which more keys need more spare slots for each.
const EVEN_KEYS: f64 = 8192.0;

/// Slots spare at the end.
const SPARE_AT_END: f64 = 8.0;

/// Slots per key below which about half of all tries fail.
const TIGHT: f64 = 1.012;

/// Slots that a filter over `keys` keys is best given: at these, three tries in a hundred fail at
/// most, and cost another seed.
#[must_use]
pub fn slots(keys: u64) -> u64 {
    let n = keys as f64;
    let doublings = (n / EVEN_KEYS).log2().max(0.0);
    let slots = n * (1.0 + SPARE + SPARE_PER_DOUBLING * doublings) + SPARE_AT_END;
    (slots.ceil() as u64).max(LEAST_COLUMN as u64 * 8)
}

/// [`slots`], but no more than `room` where that is a matter of trying a few more seeds: a filter
/// of one page shall not take two for the sake of a few slots.
#[must_use]
pub fn slots_within(keys: u64, room: u64) -> u64 {
    let slots = slots(keys);
    let tight = (keys as f64 * TIGHT + SPARE_AT_END).max(LEAST_COLUMN as f64 * 8.0);
    if slots > room && tight <= room as f64 {
        room
    } else {
        slots
    }
}

/// The most keys for which [`slots`] is at most `room`.
#[must_use]
pub fn keys_for(room: u64) -> u64 {
    let (mut low, mut high) = (0, room + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if slots(middle) <= room {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Bits per key of one column over `keys` keys: a little above 1.
///
/// # Errors
/// No keys.
pub fn bits_per_key(keys: u64) -> Result<f64, ModelError> {
    ModelError::check(keys > 0, "keys", keys as f64, "above 0")?;
    Ok(slots(keys) as f64 / keys as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_few_and_enough() {
        assert_eq!(slots(0), 136);
        assert_eq!(slots(1), 136);
        assert_eq!(slots(100), 136);
        assert_eq!(slots(8160), 8397);
        assert!(bits_per_key(8000).unwrap() < 1.03);
        assert!(bits_per_key(1 << 20).unwrap() < 1.064);
        assert!(bits_per_key(0).is_err());
        let mut last = 0;
        for keys in 0..20_000 {
            let slots = slots(keys);
            assert!(slots >= last && slots >= keys + SPARE_AT_END as u64);
            last = slots;
        }
    }

    #[test]
    fn rooms_are_filled() {
        assert_eq!(keys_for(8160), 7929);
        for room in [136, 200, 8160, 100_000, 3_000_000] {
            let keys = keys_for(room);
            assert!(slots(keys) <= room && slots(keys + 1) > room);
            assert_eq!(slots_within(keys, room), slots(keys));
            assert_eq!(slots_within(keys + keys / 200, room), room);
            assert!(slots_within(keys + keys / 10 + 20, room) > room);
        }
        assert_eq!(keys_for(0), 0);
        assert_eq!(slots_within(100, 110), 136);
    }

    /// The committed measurement stands behind [`slots`]: what it chooses nearly always succeeds,
    /// and the tight room of a page at least four times in ten.
    #[test]
    fn measured_success_bears_the_choice_of_slots() {
        let mut rows = 0;
        for line in include_str!("../measured/ribbon.md").lines().skip(2) {
            let cells: Vec<f64> = line
                .split('|')
                .filter_map(|cell| cell.trim().trim_end_matches(" %").parse().ok())
                .collect();
            let [keys, chosen_slots, chosen, tight_slots, tight] = cells[..] else {
                panic!("not a row: {line}");
            };
            assert_eq!(slots(keys as u64).next_multiple_of(8), chosen_slots as u64);
            assert!(chosen >= 97.0, "{keys} keys: {chosen} %");
            assert!(tight_slots <= chosen_slots && (keys > 20_000.0 || tight >= 40.0));
            rows += 1;
        }
        assert!(rows >= 10);
    }
}
