//! How often data pages are asked for, whether resident or not: a count-min sketch with
//! conservative update (Cormode, Muthukrishnan 2005; Estan, Varghese 2002), halved now and then.
//!
//! Part of a shard and not thread-safe by itself. Beside the counts it learns what a count means:
//! with uniform lookups a page that was met once is hardly ever met again, with skewed ones it is.
//! What all shards of a cache saw of it is in one [`Calibration`].

use shamba_model::expected_reads::after_rest;

use super::calibration::{CLASSES, Calibration};
use super::decay::TICKS_PER_HALF_LIFE;
use super::policy_state::PolicyState;

/// Counters that each page has: a count is too high only if all three are shared with pages that
/// have more. With two of them the same is read. Six crowd the counters sooner: 2 % more is read
/// where keys are absent.
const ROWS: usize = 3;

/// The fewest counters, a power of two: as many as suit four pages. A shard with pages soon has
/// more, so that neither half nor double is felt.
const MIN_COUNTERS: usize = 64;

/// Counters for each page that memory holds or could hold instead: more pages must be told apart
/// than are held, and each has three. With half of it 2 % more is read where data pages are what
/// memory holds, with double 2 % less; but it takes .4 % of memory more, which filters have other
/// uses for.
const COUNTERS_PER_PAGE: u64 = 16;

/// Fewer than one of so many accesses are hardly any. Counters then grow only once they are
/// crowded: where keys are absent they would take up to .4 % of memory for nothing. Neither half
/// nor double is felt.
const SELDOM: u64 = 32;

/// Windows are so many half-lives long: the sum of what is left of each past access. Follows from
/// fading by halves (`Decay::window`), so that counts of data pages and visits of partitions
/// compare; nothing to tune.
pub(super) const WINDOW: f32 = std::f32::consts::LOG2_E;

/// The longest that counts gather before they are halved, in half-lives of the cache's clock. In
/// small caches the counters are crowded before, and decide. With half of it 4 to 6 % more is read
/// where data pages are what memory holds; with double 1 % less in the largest caches, and it takes
/// 31,000 lookups instead of 22,000 until one has followed a hot spot.
const LONGEST: f32 = 4.0;

/// Counters are crowded when more than one of so many is taken: a page never met then shares all
/// three with others once in eight times. Crowded counters are halved, and there should be more.
/// With half of it, when none is free, 2 % less is read where data pages are what memory holds, but
/// a page never met seems to have been; with double 1 % more. Where filters are, neither is felt.
const CROWDED: usize = 2;

/// A period is taken for no less of a half-life. Neither half nor double is felt.
const LEAST_PART: f32 = 1.0 / 256.0;

/// Half-lives that a shard ends at once, which nobody accessed for long: a bound on its time. After
/// as many about a sixteenth is left of each count; with half of it a quarter would be.
const ENDED_AT_ONCE: u32 = 8;

/// Counts of accesses.
#[derive(Debug)]
pub(crate) struct PageFrequency {
    counters: Box<[u8]>,
    /// How many of them are not 0; one that was doubled counts once.
    taken: usize,
    /// For how many half-lives counts have gathered, a halving counting as half of all before.
    span: f32,
    /// Accesses in this half-life that met each count.
    met: [f32; CLASSES],
    /// The counts that pages would have met which do not exist, one for each access: those of the
    /// pages they share counters with.
    strangers: [f32; CLASSES],
    /// Pages of each count when this half-life began.
    began: [f32; CLASSES],
    /// Accesses to expect of a page of each count in a window.
    rates: [f32; CLASSES],
    /// The tick at which the last half-life ended, and the accesses to the shard then.
    ended: (u32, u32),
    /// The accesses to the shard when it was last learned what counts mean.
    learned: u32,
    /// Accesses to the shard in a window; infinite at first.
    window: f32,
}

impl PageFrequency {
    /// Where most counters are taken: ends the period in which counts gather before the half-life
    /// is over, at so many accesses to the shard, so that counts mean something all the time. Keys
    /// may be many more than counters.
    #[inline]
    pub(crate) fn end_if_crowded(
        &mut self,
        accesses: u32,
        policy: &PolicyState,
        calibration: &Calibration,
    ) {
        if self.is_crowded() {
            let part = accesses.wrapping_sub(self.learned) as f32 / policy.half_life_of_shard();
            self.end_period(part, calibration);
            self.learned = accesses;
        }
    }

    /// The smallest sketch of pages.
    pub(crate) fn new() -> Self {
        PageFrequency::by(&Calibration::new(1))
    }

    /// The smallest sketch of keys.
    pub(crate) fn of_keys() -> Self {
        PageFrequency::by(&Calibration::of_keys(1))
    }

    fn by(calibration: &Calibration) -> Self {
        PageFrequency {
            counters: vec![0; MIN_COUNTERS].into(),
            taken: 0,
            span: 0.0,
            met: [0.0; CLASSES],
            strangers: [0.0; CLASSES],
            began: [0.0; CLASSES],
            rates: calibration.rates(1.0),
            ended: (0, 0),
            learned: 0,
            window: f32::INFINITY,
        }
    }

    /// The shard had so many accesses so far: ends the half-lives that are over, and says how many.
    /// `calibration` is of all shards.
    pub(crate) fn advance(
        &mut self,
        accesses: u32,
        policy: &PolicyState,
        calibration: &Calibration,
    ) -> u32 {
        if policy.ticks().wrapping_sub(self.ended.0) < TICKS_PER_HALF_LIFE {
            return 0;
        }
        self.end_half_lives(accesses, policy, calibration)
    }

    #[cold]
    fn end_half_lives(
        &mut self,
        accesses: u32,
        policy: &PolicyState,
        calibration: &Calibration,
    ) -> u32 {
        let (tick, before) = self.ended;
        let half_lives = policy.ticks().wrapping_sub(tick) / TICKS_PER_HALF_LIFE;
        let each = accesses.wrapping_sub(before) as f32 / half_lives.max(1) as f32;
        self.window = WINDOW * each;
        let part = accesses.wrapping_sub(self.learned) as f32 / each.max(1.0);
        let periods = half_lives.min(ENDED_AT_ONCE);
        for _ in 0..periods {
            self.end_period(part / half_lives as f32, calibration);
        }
        self.learned = accesses;
        self.ended = (
            tick.wrapping_add(half_lives * TICKS_PER_HALF_LIFE),
            accesses,
        );
        half_lives
    }

    /// What a page is worth in memory that was last accessed so many accesses to the shard ago
    /// (`rest`), in page reads per window.
    pub(crate) fn value_of(&self, hash: u64, rest: u32) -> f32 {
        self.at_rest(self.expected(hash), rest)
    }

    /// The accesses to expect in a window of what would have had `expected`, had it not rested for
    /// so many accesses to the shard.
    pub(crate) fn at_rest(&self, expected: f32, rest: u32) -> f32 {
        after_rest(expected, rest as f32 / self.window)
    }

    /// The number of counters.
    pub(crate) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Doubles the counters. Every page keeps its count: the new half is a copy of the old.
    pub(crate) fn double(&mut self) {
        self.counters = self.counters.repeat(2).into();
    }

    /// Whether there should be more counters: if there are fewer than suit so many pages, but where
    /// hardly any access is to data (`data` of `all`), only once most are taken.
    pub(crate) fn wants_more(&self, pages: u64, data: u64, all: u64) -> bool {
        counters_for(pages) > self.counters.len() as u64
            && (SELDOM * data > all || self.is_crowded())
    }

    /// Whether most counters are taken: pages that were never met seem to have been.
    pub(crate) fn is_crowded(&self) -> bool {
        CROWDED * self.taken > self.counters.len()
    }

    /// Halves the counters, down to the fewest; a page keeps at least its count. Says whether there
    /// were more.
    pub(crate) fn fold(&mut self) -> bool {
        let half = self.counters.len() / 2;
        if half < MIN_COUNTERS {
            return false;
        }
        let (low, high) = self.counters.split_at(half);
        self.counters = low.iter().zip(high).map(|(a, b)| *a.max(b)).collect();
        self.count_taken();
        true
    }

    fn place(&self, hash: u64, row: usize) -> usize {
        // Not by the bits that name the shard, which all have alike here.
        let step = (hash >> 42) | 1;
        (hash.wrapping_add(step.wrapping_mul(row as u64)) as usize) & (self.counters.len() - 1)
    }

    /// How often a page was accessed lately, or more.
    pub(crate) fn count(&self, hash: u64) -> u8 {
        let counters = (0..ROWS).filter_map(|row| self.counters.get(self.place(hash, row)));
        counters.copied().min().unwrap_or(0)
    }

    /// Goes on with counts that gathered before a restart ([`Self::count`]), of a cache whose
    /// calibration this is.
    pub(crate) fn go_on(&mut self, calibration: &Calibration) {
        self.span = LONGEST / 2.0;
        self.rates = calibration.rates(self.span / WINDOW);
    }

    /// Counts `weight` accesses.
    pub(crate) fn record(&mut self, hash: u64, weight: u8) {
        let count = self.count(hash);
        let stranger = self.count(stranger_to(hash));
        for (all, count) in [(&mut self.met, count), (&mut self.strangers, stranger)] {
            if let Some(met) = all.get_mut(usize::from(count).min(CLASSES - 1)) {
                *met += f32::from(weight);
            }
        }
        self.raise(hash, count.saturating_add(weight));
    }

    /// Counts as many accesses as one who has so many in a window would have had while counts
    /// gathered.
    pub(crate) fn suppose(&mut self, hash: u64, accesses: f32) {
        let windows = (self.span / WINDOW).max(1.0);
        let count = (accesses * windows).round().min(f32::from(u8::MAX)) as u8;
        self.raise(hash, count);
    }

    /// Raises a page's count to this one.
    pub(crate) fn raise(&mut self, hash: u64, count: u8) {
        for row in 0..ROWS {
            let place = self.place(hash, row);
            if let Some(counter) = self.counters.get_mut(place)
                && *counter < count
            {
                self.taken += usize::from(*counter == 0);
                *counter = count;
            }
        }
    }

    fn count_taken(&mut self) {
        self.taken = self.counters.iter().filter(|counter| **counter > 0).count();
    }

    /// The accesses to expect in the next window.
    fn expected(&self, hash: u64) -> f32 {
        self.rate(usize::from(self.count(hash)))
    }

    /// About how many pages have each count.
    fn pages(&self) -> [f32; CLASSES] {
        let mut counters = [0u32; 1 << u8::BITS];
        for counter in &self.counters {
            if let Some(counters) = counters.get_mut(usize::from(*counter)) {
                *counters += 1;
            }
        }
        let mut pages = [0.0; CLASSES];
        for (count, counters) in counters.into_iter().enumerate() {
            if let Some(pages) = pages.get_mut(count.min(CLASSES - 1)) {
                *pages += counters as f32 / ROWS as f32;
            }
        }
        pages
    }

    /// Ends a period, a part of a half-life of the cache's clock: learns what counts meant in it,
    /// and forgets half of everything where it is long ago that it did, or most counters are taken:
    /// a page never met would seem to have been.
    fn end_period(&mut self, part: f32, calibration: &Calibration) {
        let part = part.clamp(LEAST_PART, 1.0);
        let ended = self.pages();
        self.span += part;
        // Of the accesses by pages never met before, which alone meet no count at all, as large a
        // part met each count as of strangers. What is left was by pages that had been met.
        let [new, as_many] = [self.met, self.strangers].map(|[none, ..]| none);
        let new_pages = new / as_many.max(1.0);
        let met = std::array::from_fn(|count| {
            let of = |all: &[f32; CLASSES]| all.get(count).copied().unwrap_or(0.0);
            (of(&self.met) - new_pages * of(&self.strangers)) * WINDOW / part
        });
        let mut pages = ended;
        for (pages, began) in pages.iter_mut().zip(self.began) {
            *pages = (*pages + began) / 2.0;
        }
        calibration.learn(pages, met, part);
        self.rates = calibration.rates(self.span / WINDOW);
        let taken: f32 = ended.iter().skip(1).sum();
        self.began = ended;
        if self.span >= LONGEST || taken * (CROWDED * ROWS) as f32 > self.counters.len() as f32 {
            self.halve();
            self.began = self.pages();
        }
        (self.met, self.strangers) = ([0.0; CLASSES], [0.0; CLASSES]);
    }

    /// Forgets half of everything.
    fn halve(&mut self) {
        for counter in &mut self.counters {
            *counter /= 2;
        }
        self.count_taken();
        self.span /= 2.0;
    }

    /// The accesses to expect in a window of a page with this count.
    fn rate(&self, count: usize) -> f32 {
        let highest = CLASSES - 1;
        let rate = self.rates.get(count.min(highest)).copied().unwrap_or(0.0);
        // Of higher counts as many go on as of the highest that is told apart.
        rate * count.max(highest) as f32 / highest as f32
    }
}

/// The counters that suit so many pages, which memory holds or could hold.
pub(crate) fn counters_for(pages: u64) -> u64 {
    COUNTERS_PER_PAGE * pages
}

/// The hash of no page, as well mixed.
fn stranger_to(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_forgets_no_access() {
        let mut sketch = sketch_of(1024);
        let hash = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..20).for_each(|i| sketch.record(hash(i), 3));
        while sketch.fold() {}
        assert_eq!(sketch.len(), MIN_COUNTERS);
        assert!((0..20).all(|i| sketch.count(hash(i)) >= 3));
    }

    fn sketch_of(len: usize) -> PageFrequency {
        let mut sketch = PageFrequency::new();
        while sketch.len() < len {
            sketch.double();
        }
        sketch
    }

    #[test]
    fn counts_stay_when_there_are_more_counters() {
        let mut sketch = sketch_of(1024);
        for i in 0..40 {
            sketch.record(hash(i), 1 + i as u8);
        }
        let counts: Vec<u8> = (0..40).map(|i| sketch.count(hash(i))).collect();
        sketch.double();
        assert_eq!(
            counts,
            (0..40).map(|i| sketch.count(hash(i))).collect::<Vec<_>>()
        );
    }

    fn hash(i: u64) -> u64 {
        let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn counts_are_never_too_low_and_seldom_too_high() {
        let mut sketch = sketch_of(4096);
        for i in 0..500u64 {
            for _ in 0..=i % 4 {
                sketch.record(hash(i), 1);
            }
        }
        let mut wrong = 0;
        for i in 0..500u64 {
            let (count, true_count) = (sketch.count(hash(i)), (i % 4 + 1) as u8);
            assert!(count >= true_count);
            wrong += u32::from(count != true_count);
        }
        assert!(wrong < 10, "{wrong}");
        sketch.halve();
        assert_eq!(sketch.count(hash(3)), 2);
    }

    #[test]
    fn what_is_supposed_counts_as_met() {
        let mut sketch = sketch_of(1024);
        sketch.suppose(hash(1), 5.0);
        assert_eq!(sketch.count(hash(1)), 5);
        sketch.suppose(hash(1), 2.0);
        sketch.suppose(hash(2), 1e9);
        assert_eq!((sketch.count(hash(1)), sketch.count(hash(2))), (5, 255));
    }

    #[test]
    fn a_page_met_once_is_worth_what_such_pages_turned_out_to_be() {
        let calibration = Calibration::new(1);
        let mut uniform = sketch_of(1 << 14);
        for i in 0..20_000u64 {
            uniform.record(hash(i * 7919 % 100_000), 1);
            if i % 1000 == 999 {
                uniform.end_period(1.0, &calibration);
            }
        }
        uniform.record(hash(7919), 1);
        assert!(uniform.expected(hash(7919)) < 0.1);
        // The same pages again and again, two rounds to a half-life.
        let calibration = Calibration::new(1);
        let mut again = sketch_of(1 << 14);
        for i in 0..20_000u64 {
            again.record(hash(i % 500), 1);
            if i % 1000 == 999 {
                again.end_period(1.0, &calibration);
            }
        }
        assert!(again.expected(hash(3)) > 1.0);
    }

    /// A sketch of a shard's keys after lookups of them, of which the shard's name is a part of the
    /// hash; one in so many is of one of three keys.
    fn sketch_of_keys(one_hot_in: u64) -> PageFrequency {
        let (policy, calibration) = (PolicyState::new(16), Calibration::of_keys(16));
        let mut sketch = PageFrequency::of_keys();
        for i in 0..200_000u64 {
            let key = if i % one_hot_in == 0 {
                i / one_hot_in % 3
            } else {
                1000 + i
            };
            let hash = hash(key) & !(0xf << 32) | 5 << 32;
            sketch.end_if_crowded(i as u32, &policy, &calibration);
            sketch.record(hash, 1);
        }
        sketch
    }

    #[test]
    fn keys_without_number_make_none_seem_hot() {
        let sketch = sketch_of_keys(u64::MAX);
        let rates: Vec<f32> = (1..CLASSES).map(|count| sketch.rate(count)).collect();
        assert!(rates.iter().all(|rate| *rate < 0.1), "{rates:?}");
        let sketch = sketch_of_keys(4);
        assert!(sketch.rate(CLASSES - 1) > 1.0, "{:?}", sketch.rates);
        assert!(
            sketch.rate(1) < sketch.rate(CLASSES - 1) / 2.0,
            "{:?}",
            sketch.rates
        );
    }

    /// Counters that are all taken make every page seem to have been met.
    #[test]
    fn strangers_tell_how_often_counts_are_of_others() {
        let calibration = Calibration::new(1);
        let mut small = sketch_of(1 << 10);
        let mut next = 0;
        for i in 0..40_000u64 {
            // One of fifty pages every other time, else one that never comes again.
            next += i % 2;
            let page = if i % 2 == 0 { i / 2 % 50 } else { 1000 + next };
            small.record(hash(page), 1);
            if i % 1000 == 999 {
                small.end_period(1.0, &calibration);
            }
        }
        small.record(hash(7777), 1);
        let (hot, new) = (small.expected(hash(20)), small.expected(hash(7777)));
        assert!(hot > 5.0, "{hot}");
        assert!(new < 0.5, "{new}");
    }
}
