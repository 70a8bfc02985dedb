//! What it says of an entry in memory that it was used so often lately: how often it will be.
//!
//! As [`PageFrequency`](super::PageFrequency) learns it of pages, but that each entry has a count
//! of its own, and none is taken for another. Part of a shard and not thread-safe by itself.

use super::calibration::{CLASSES, Calibration};
use super::page_frequency::WINDOW;

/// The highest count that is kept.
pub(crate) const MOST_USES: u8 = 15;

/// Counts are halved once they have gathered for so many half-lives of the cache's clock, as halves
/// of what was before. With half of it up to 4 % more
/// is read where lookups are skewed, with double up to 5 %.
const GATHERED: f32 = 4.0;

/// What is expected of entries counts from this part of a window on as if all of it had been
/// observed; what is expected of pages, and what parts of filters are worth, is of what was
/// observed. A middle way that was found by trying (docs/policy.md), of keys that all exist, under
/// skew, with a tenth of the memory for filters and indexes. With all of a window 2 % more is read
/// in the first 10,000 lookups; with a quarter of one 1 % more in the 30,000 after 30,000, and if
/// all counts at once 3 %: entries then take the place of filters, which are read again.
const KNOWN_FROM: f32 = 0.5;

/// The share that counts of what is expected of entries, where so much of a window was observed.
pub(crate) fn observed_of_entries(observed: f32) -> f32 {
    (observed / KNOWN_FROM).min(1.0)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct UseRates {
    /// Uses in this half-life of entries of each count.
    met: [f32; CLASSES],
    /// Entries of each count when this half-life began.
    began: [f32; CLASSES],
    /// Uses to expect of an entry of each count in a window.
    rates: [f32; CLASSES],
    /// For how many half-lives counts have gathered, a halving counting as half of all before.
    span: f32,
}

/// The class of a count.
fn class_of(uses: u8) -> usize {
    usize::from(uses).min(CLASSES - 1)
}

/// The uses to expect in a window of an entry of each count, which gathered for so many windows.
/// Of one that was not used for as long half of what is of one that was used once, before that was
/// seen.
fn rates(calibration: &Calibration, windows: f32) -> [f32; CLASSES] {
    let mut rates = calibration.rates(windows);
    let [none, once, ..] = &mut rates;
    *none = calibration.rate_of_none(*once / 2.0);
    rates
}

impl UseRates {
    pub(crate) fn new() -> Self {
        UseRates {
            met: [0.0; CLASSES],
            began: [0.0; CLASSES],
            rates: rates(&Calibration::of_keys(1), 1.0),
            span: 0.0,
        }
    }

    /// Goes on with counts that gathered before a restart, of a cache whose calibration this is.
    pub(crate) fn go_on(&mut self, calibration: &Calibration) {
        self.span = GATHERED / 2.0;
        self.rates = rates(calibration, self.span / WINDOW);
    }

    /// An entry of this count was used.
    pub(crate) fn record(&mut self, uses: u8) {
        if let Some(met) = self.met.get_mut(class_of(uses)) {
            *met += 1.0;
        }
    }

    /// The uses to expect in the next window of an entry of this count.
    pub(crate) fn expected(&self, uses: u8) -> f32 {
        let highest = CLASSES - 1;
        let rate = self.rates.get(class_of(uses)).copied().unwrap_or(0.0);
        rate * usize::from(uses).max(highest) as f32 / highest as f32
    }

    /// The count of entries of which as many uses are expected.
    pub(crate) fn uses_for(&self, expected: f32) -> u8 {
        let fewer = |uses: &u8| self.expected(*uses) <= expected;
        (1..=MOST_USES).take_while(fewer).last().unwrap_or(1)
    }

    /// Ends a half-life: learns what counts meant in it, and says whether all are to be halved.
    /// There are so many entries of each count now.
    pub(crate) fn end_half_life(
        &mut self,
        entries: &[u32; MOST_USES as usize + 1],
        calibration: &Calibration,
    ) -> bool {
        let mut ended = [0.0; CLASSES];
        for (uses, entries) in (0..).zip(entries) {
            if let Some(ended) = ended.get_mut(class_of(uses)) {
                *ended += *entries as f32;
            }
        }
        self.span += 1.0;
        let mut mean = ended;
        for (mean, began) in mean.iter_mut().zip(self.began) {
            *mean = (*mean + began) / 2.0;
        }
        calibration.learn(mean, self.met.map(|met| met * WINDOW), 1.0);
        self.rates = rates(calibration, self.span / WINDOW);
        self.met = [0.0; CLASSES];
        self.began = ended;
        let halve = self.span >= GATHERED;
        if halve {
            self.span /= 2.0;
            self.began = [0.0; CLASSES];
            for (uses, entries) in (0..).zip(entries) {
                if let Some(began) = self.began.get_mut(class_of(uses / 2)) {
                    *began += *entries as f32;
                }
            }
        }
        halve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_mean_what_they_turned_out_to_mean() {
        let calibration = Calibration::of_keys(1);
        let mut rates = UseRates::new();
        // Many that nobody uses, and a thousand that are used three times in each half-life.
        let mut entries = [0; MOST_USES as usize + 1];
        entries[1] = 10_000;
        entries[8] = 1000;
        let mut halved = 0;
        for _ in 0..20 {
            (0..3000).for_each(|_| rates.record(8));
            halved += u32::from(rates.end_half_life(&entries, &calibration));
        }
        let [never, often] = [1, 8].map(|uses| rates.expected(uses));
        assert!(never < 0.01, "{never}");
        assert!((3.0..10.0).contains(&often), "{often}");
        assert_eq!(rates.expected(15), often * 15.0 / 8.0);
        // What comes in with as much expected of it is taken for one of these.
        assert_eq!((rates.uses_for(often), rates.uses_for(0.0)), (8, 1));
        assert_eq!(halved, 9);
    }
}
