//! What memory is worth, in page reads saved: the policy of keeping, fetching and skipping filter,
//! index and data blocks by expected reads.
//!
//! A *partition* is a key range of a table with its filter modules and its index block. A lookup
//! that comes to it is a *visit*: positive if the key is there, else empty. So is a scan that looks
//! for its place there: it asks no filter and always needs the index. Rates are visits per window;
//! every value here is in page reads per window, so that values of different kinds of blocks
//! compare. Pure; inputs are not checked, since a policy is only a hint: with nonsense in, nonsense
//! comes out, but no panic.

/// Visits of a partition per window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Visits {
    /// Visits by keys that are not there.
    pub empty: f32,
    /// Visits by keys that are there.
    pub positive: f32,
    /// Visits by scans.
    pub scans: f32,
}

/// A filter module that is on storage and not, or not wholly, in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missing {
    /// The chance that what is missing of it lets an absent key pass.
    pub pass: f32,
    /// Pages to read for it.
    pub pages: f32,
}

/// What a visit of a partition meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Partition {
    /// Who comes.
    pub visits: Visits,
    /// The chance that the filter modules in memory let an absent key pass.
    pub pass: f32,
    /// The best module to read, if one is missing.
    pub missing: Option<Missing>,
    /// Pages to read for the index block; 0 if it is in memory.
    pub index_pages: f32,
}

impl Partition {
    /// Page reads per window that the partition's visits cost, but for the data pages of keys that
    /// are found and of scans: the cheaper of going to index and data at once, and of reading the
    /// missing module first.
    #[inline]
    #[must_use]
    pub fn reads(&self) -> f32 {
        let Visits {
            empty,
            positive,
            scans,
        } = self.visits;
        let passing = empty * self.pass;
        let search = 1.0 + self.index_pages;
        let found = (positive + scans) * self.index_pages;
        let direct = passing * search + found;
        match self.missing {
            Some(missing) => {
                let asked = (passing + positive) * missing.pages;
                direct.min(asked + passing * missing.pass * search + found)
            }
            None => direct,
        }
    }

    /// Reads that the index block saves by being in memory, where it takes `pages` to read.
    #[must_use]
    pub fn value_of_index(&self, pages: f32) -> f32 {
        let with = |index_pages| Partition {
            index_pages,
            ..*self
        };
        with(pages).reads() - with(0.0).reads()
    }

    /// Reads that a filter part saves by being in memory: one that alone lets `fpr` of absent keys
    /// pass, of a module that takes `pages` to read and of which as much is missing already as lets
    /// `rest` pass (1: nothing). Neither is counted in `pass` or `missing`, which speak of the
    /// other modules.
    #[must_use]
    pub fn value_of_filter(&self, fpr: f32, rest: f32, pages: f32) -> f32 {
        let with = Missing { pass: rest, pages };
        self.value_of_part(self.pass * fpr, with)
    }

    /// [`Self::value_of_filter`] where it is known what the part does beside the others: of the
    /// empty visits, `pass` get by the modules in memory without it and `passing` with it, and
    /// `missing` is what is missing of its module anyway. Read from storage it does as much.
    #[inline]
    #[must_use]
    pub fn value_of_part(&self, passing: f32, missing: Missing) -> f32 {
        let fpr = (passing / self.pass.max(f32::MIN_POSITIVE)).min(1.0);
        let reads = |pass, own| {
            let partition = Partition { pass, ..*self };
            let missing = Some(Missing {
                pass: own,
                ..missing
            });
            let own = Partition {
                missing,
                ..partition
            };
            partition.reads().min(own.reads())
        };
        reads(self.pass, missing.pass * fpr) - reads(passing, missing.pass)
    }

    /// Reads that this very visit is expected to save, net, by reading the missing module first;
    /// negative where it costs more than it saves. The visitor has passed what is in memory.
    #[must_use]
    pub fn saved_by_fetching(&self, missing: Missing) -> f32 {
        let passing = self.visits.empty * self.pass;
        let all = passing + self.visits.positive;
        // Nobody came before: as likely one as the other.
        let empty = if all > 0.0 { passing / all } else { 0.5 };
        empty * (1.0 - missing.pass) * (1.0 + self.index_pages) - missing.pages
    }
}

/// What one read operation is worth saving, in page reads. A device that takes 60 us for an
/// operation and 1.4 us for each page of it (an NVMe flash SSD) would have it a multiple of a page;
/// it is this little so that where memory is short, joint reads cost hardly any pages, which
/// another reader of the same device may be waiting for. Felt in the first lookups of a cold
/// database: half reads with 1 % more operations, double with 2 % fewer and .6 % more pages.
const OPERATION: f32 = 1.0 / 16.0;

/// A filter module that is about to be read, whose neighbour on storage is the index block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbours {
    /// The module.
    pub module: Missing,
    /// Pages to read for the index block, which is not in memory.
    pub index_pages: f32,
    /// What the memory the index block would take is worth, in page reads per window: nothing while
    /// there is free memory.
    pub room: f32,
    /// For how many windows it is expected to stay where it is worth more than its room.
    pub windows: f32,
}

impl Partition {
    /// What a visitor saves, net, in page reads, by reading the index block with the filter module
    /// in one operation instead of alone if the module lets it pass; negative where it costs more.
    /// The visitor has passed what is in memory (`pass`).
    ///
    /// Of the visitors `v = (positive + empty pass module.pass) / (positive + empty pass)` go on to
    /// need the index, and save an operation. To the others it is `index_pages` for nothing, unless
    /// the block stays, being worth more than its room, until a later one needs it who would have
    /// read it then: of value `(positive + empty pass module.pass + scans) index_pages - room` a
    /// window. This project's own policy. Visits: per window; at least one is assumed by the caller
    /// where nothing is known.
    #[must_use]
    pub fn saved_by_joining(&self, both: Neighbours) -> f32 {
        let passing = self.visits.empty * self.pass;
        let needing = passing * both.module.pass + self.visits.positive;
        let all = passing + self.visits.positive;
        let needs = if all > 0.0 {
            needing / all
        } else {
            // Nobody came before: as likely one as the other.
            0.5 + 0.5 * both.module.pass
        };
        let value = (needing + self.visits.scans) * both.index_pages - both.room;
        let later = (value / both.index_pages.max(1e-9) * both.windows).clamp(0.0, 1.0);
        let in_vain = (1.0 - needs) * (1.0 - later);
        (1.0 - in_vain) * OPERATION - in_vain * both.index_pages
    }
}

impl Visits {
    /// The part of them that comes to each of so many partitions that share their range, all alike;
    /// all of them where there is none.
    #[must_use]
    pub fn among(self, partitions: usize) -> Visits {
        let share = 1.0 / partitions.max(1) as f32;
        Visits {
            empty: self.empty * share,
            positive: self.positive * share,
            scans: self.scans * share,
        }
    }

    /// No visits.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.no_lookups() && self.scans <= 0.0
    }

    /// No visits by lookups.
    #[must_use]
    pub fn no_lookups(self) -> bool {
        self.empty <= 0.0 && self.positive <= 0.0
    }
}

impl std::ops::AddAssign for Visits {
    fn add_assign(&mut self, more: Visits) {
        self.empty += more.empty;
        self.positive += more.positive;
        self.scans += more.scans;
    }
}

/// What is to be expected of each of many alike, each of which was counted for a while: the counts
/// differ by chance and because the rates do.
///
/// Counts are faded: `count = sum of 2^(-age / half-life)` over events, so that by chance alone
/// their variance is half of their mean (a Poisson count has all of it).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prior {
    /// The mean count.
    pub mean: f32,
    /// The squared coefficient of variation of the rates: 0 where all are alike.
    pub spread: f32,
}

impl Prior {
    /// From all counts, by moments: what variance they have beyond that of chance is the rates'.
    /// Fewer than two are as different as can be.
    #[must_use]
    pub fn of(counts: impl Iterator<Item = f32> + Clone) -> Prior {
        let (mut n, mut sum) = (0.0f32, 0.0f32);
        for count in counts.clone() {
            n += 1.0;
            sum += count;
        }
        if n < 2.0 || sum <= 0.0 {
            return Prior {
                mean: sum / n.max(1.0),
                spread: f32::INFINITY,
            };
        }
        let mean = sum / n;
        let squares: f32 = counts.map(|count| (count - mean) * (count - mean)).sum();
        let variance = squares / (n - 1.0);
        Prior {
            mean,
            spread: (variance - mean / 2.0).max(0.0) / (mean * mean),
        }
    }

    /// The count to expect, in the next window, of the one that has `count`: the mean of the
    /// posterior of a gamma prior with this mean and spread (empirical Bayes: Robbins 1956; the
    /// gamma-Poisson form of Efron and Morris 1973). Between the mean, where all are alike, and
    /// the count itself, where they differ by more than chance.
    #[inline]
    #[must_use]
    pub fn expect(&self, count: f32) -> f32 {
        // Chance is half of what it is for a Poisson count.
        let own = 2.0 * self.mean * self.spread;
        if own.is_finite() {
            self.mean + (count - self.mean) * own / (own + 1.0)
        } else {
            count
        }
    }
}

/// What to believe of a faded count of which a model expects so much: the model, unless the count
/// differs from it by more than an event and two standard deviations (the variance of a faded count
/// is half of its mean), and then the count. The model is that filter columns turn absent keys away
/// independently. It holds of keys that are each asked for once in a while. Of one asked for again
/// and again a column turns away all visits or none, and the counts soon tell. This project's own
/// rule: a choice between two hypotheses in place of a mean over both, which would let single
/// visits of cold partitions count.
#[inline]
#[must_use]
pub fn unless_refuted(expected: f32, counted: f32) -> f32 {
    /// Standard deviations. With half of it the model is refuted by chance: 3 % more is read where
    /// keys are absent, and .7 % less where they are skewed; with double hot keys go unnoticed, and
    /// skewed lookups read 1.5 % more.
    const DEVIATIONS: f32 = 2.0;
    /// With half of it single visits refute the model, and 2 % more is read where keys are absent;
    /// with double up to .9 % less, and hot keys of cold partitions are noticed later.
    const EVENTS: f32 = 1.0;
    let variance = expected.max(0.0) / 2.0;
    let by_chance = (DEVIATIONS * DEVIATIONS * variance).sqrt() + EVENTS;
    if (counted - expected).abs() > by_chance {
        counted
    } else {
        expected
    }
}

/// The visits to expect of a partition that is merged out of those of several runs, newest first;
/// `None` for a run that has nothing in its range. An empty visit of a newer run goes on to the
/// older one and is counted there too, so the oldest one's empty visits are all there are; each
/// positive visit was of one run. A scan comes to all runs. This project's own policy ("counters
/// are inherited at compaction").
#[must_use]
pub fn merged_visits(runs: impl IntoIterator<Item = Option<Visits>>) -> Visits {
    let mut merged = Visits::default();
    for run in runs.into_iter().flatten() {
        merged.positive += run.positive;
        merged.empty = run.empty;
        merged.scans = merged.scans.max(run.scans);
    }
    merged
}

/// The visits to expect of a new partition above one that has these: the same lookups come to it.
/// Those find their key in it that would have found it below, as far as the new one has those keys:
/// `share` of them, the new entries over the entries below (at most all).
#[must_use]
pub fn visits_above(below: Visits, share: f32) -> Visits {
    let positive = below.positive * share.clamp(0.0, 1.0);
    Visits {
        empty: below.empty + below.positive - positive,
        positive,
        scans: below.scans,
    }
}

/// The reads of data to expect in a window of a new page of so many entries, in place of entries of
/// these runs or above them: of a run, the visits that come to one of its entries there, and the
/// part that its entries are of all those the new page is one of, above 1 where it lies above more.
/// A lookup finds its key in one run; a scan reads a page of each. This project's own policy: pages
/// of a partition count as alike.
#[must_use]
pub fn page_reads(runs: impl IntoIterator<Item = (Visits, f32)>, entries: f32) -> f32 {
    let (mut found, mut scans) = (0.0f32, 0.0f32);
    for (visits, part) in runs {
        found += visits.positive * part;
        scans = scans.max(visits.scans * part);
    }
    (found + scans) * entries
}

/// The accesses to expect in the next window of each of `items` that were accessed equally often in
/// the last few: so many accesses were `met` in a window, where `expected` of each were before that
/// was seen. With uniform accesses to many items one access says next to nothing; with skewed ones
/// it does (the question of Good, "The population frequencies of species", 1953).
#[must_use]
pub fn further_accesses(expected: f32, items: f32, met: f32) -> f32 {
    /// Items' worth of belief in what is expected: a count that few items have says little. Half
    /// and double change what a cache that just opened reads by .2 %, and nothing later.
    const BELIEF: f32 = 64.0;
    (met + BELIEF * expected) / (items + BELIEF)
}

/// What to expect in a window, before that was seen, of an item that was accessed `count` times, 1
/// or more, in the last few `windows`. Of one that was accessed once a quarter of a little less
/// than the count (the discount that the frequencies of a power law have: Pitman and Yor, "The
/// two-parameter Poisson-Dirichlet distribution", 1997); of others in proportion to what turned out
/// for those that were accessed once less (`fewer`), but at most the whole: so the few items of
/// high counts are judged by the many of low ones. Where one access was chance, so were most of the
/// others.
#[must_use]
pub fn accesses_at_first(count: f32, windows: f32, fewer: Option<f32>) -> f32 {
    /// Accesses. Neither half of it nor 3/4 is felt.
    const DISCOUNT: f32 = 0.5;
    /// Between uniform accesses, where none go on, and a few pages accessed again and again. With
    /// half of it a cache that just opened reads 1 % more where accesses are skewed, with double
    /// 1 % less; later neither is felt.
    const SHARE: f32 = 0.25;
    let more = count - DISCOUNT;
    let own = more / windows.max(1.0);
    fewer.map_or(SHARE * own, |fewer| own.min(fewer * more / (more - 1.0)))
}

/// The accesses to expect in the next window of an item of which `expected` were expected, when it
/// has rested for so many `windows`. Accesses that come at random leave a rest of four times their
/// mean distance once in e^4 = 55 times; who rests longer is taken for one that comes as seldom as
/// that rest says, so that what was hot for long need not be forgotten as slowly. This project's
/// own rule.
#[inline]
#[must_use]
pub fn after_rest(expected: f32, windows: f32) -> f32 {
    /// Mean distances that a rest may last. With half of it pages are forgotten by chance, and up
    /// to 7 % more is read where they are what memory holds; with double it takes 35,000 lookups
    /// instead of 22,000 until such a memory has followed a hot spot.
    const PATIENCE: f32 = 4.0;
    if expected * windows <= PATIENCE {
        expected
    } else {
        PATIENCE / windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(empty: f32, positive: f32, pass: f32, index_pages: f32) -> Partition {
        Partition {
            visits: Visits {
                empty,
                positive,
                scans: 0.0,
            },
            pass,
            missing: None,
            index_pages,
        }
    }

    #[test]
    fn a_column_saves_what_section_6_of_the_design_says() {
        // e f (1 - f_column) (1 + [index absent]), where reading the filter would not pay.
        let p = partition(8.0, 100.0, 0.25, 0.0);
        assert!((p.value_of_filter(0.5, 1.0, 1.0) - 8.0 * 0.25 * 0.5).abs() < 1e-5);
        let absent = partition(8.0, 100.0, 0.25, 1.0);
        assert!((absent.value_of_filter(0.5, 1.0, 1.0) - 8.0 * 0.25 * 0.5 * 2.0).abs() < 1e-5);
    }

    #[test]
    fn a_column_that_turns_a_hot_key_away_is_worth_its_visits() {
        let p = partition(100.0, 0.0, 0.75, 0.0);
        let nothing = Missing {
            pass: 1.0,
            pages: 1.0,
        };
        // A quarter of the visits pass with it, three quarters without.
        assert!((p.value_of_part(0.25, nothing) - 50.0).abs() < 1e-3);
        // Nobody is turned away by it alone.
        assert!(p.value_of_part(0.75, nothing).abs() < 1e-3);
        // Nor where what is missing of its module would be read.
        let dear = partition(100.0, 0.0, 0.1, 2.0);
        let some = Missing {
            pass: 0.125,
            pages: 1.0,
        };
        assert!(dear.value_of_part(0.1, some).abs() < 1e-3);
        let model = partition(100.0, 3.0, 0.25, 1.0);
        let missing = Missing {
            pass: 0.25,
            pages: 1.0,
        };
        let same = model.value_of_part(0.125, missing);
        assert!((same - model.value_of_filter(0.5, 0.25, 1.0)).abs() < 1e-5);
    }

    #[test]
    fn a_model_holds_until_counts_refute_it() {
        // One visit more or less refutes nothing, and many expected are not refuted by some.
        for (expected, counted) in [(0.0, 1.0), (0.1, 1.0), (3.0, 0.0), (50.0, 60.0)] {
            assert_eq!(unless_refuted(expected, counted), expected, "{counted}");
        }
        for (expected, counted) in [(0.0, 1.5), (0.1, 2.0), (8.0, 1.0), (50.0, 62.0)] {
            assert_eq!(unless_refuted(expected, counted), counted, "{expected}");
        }
        assert!(unless_refuted(f32::NAN, 1.0).is_nan());
    }

    #[test]
    fn the_index_is_worth_its_passing_visits() {
        let p = partition(8.0, 3.0, 0.25, 1.0);
        assert!((p.value_of_index(1.0) - (8.0 * 0.25 + 3.0)).abs() < 1e-5);
    }

    #[test]
    fn scans_need_the_index_and_no_filter() {
        let lookups = partition(8.0, 3.0, 0.25, 1.0);
        let mut both = lookups;
        both.visits.scans = 5.0;
        let more = both.value_of_index(1.0) - lookups.value_of_index(1.0);
        assert!((more - 5.0).abs() < 1e-5);
        let filter = |p: Partition| p.value_of_filter(0.5, 1.0, 1.0);
        assert!((filter(both) - filter(lookups)).abs() < 1e-5);
    }

    #[test]
    fn reading_the_filter_bounds_the_cost_of_empty_visits() {
        let module = Missing {
            pass: 1.0 / 16.0,
            pages: 1.0,
        };
        let mut p = partition(10.0, 0.0, 1.0, 1.0);
        assert!((p.reads() - 20.0).abs() < 1e-5);
        p.missing = Some(module);
        assert!((p.reads() - 11.25).abs() < 1e-5);
        assert!(p.saved_by_fetching(module) > 0.8);
        p.visits.positive = 1000.0;
        assert!(p.saved_by_fetching(module) < 0.0);
        p.index_pages = 0.0;
        p.visits.positive = 0.0;
        assert!(p.saved_by_fetching(module) < 0.0, "one read for another");
    }

    #[test]
    fn the_index_comes_along_where_it_is_needed_or_stays() {
        let neighbours = |room| Neighbours {
            module: Missing {
                pass: 1.0 / 16.0,
                pages: 1.0,
            },
            index_pages: 1.0,
            room,
            windows: 8.0,
        };
        let saved = |empty, positive, room| {
            partition(empty, positive, 1.0, 1.0).saved_by_joining(neighbours(room))
        };
        // All go on to need it: an operation saved, no page lost, whatever its room is worth.
        assert_eq!(saved(0.0, 5.0, 100.0), OPERATION);
        // One in sixteen needs it and it would not stay.
        assert!(saved(10.0, 0.0, 100.0) < -0.8);
        // It stays, and soon somebody needs it.
        assert_eq!(saved(10.0, 0.0, 0.0), OPERATION);
        // Free memory, but nobody is likely to need it before long.
        assert!(saved(0.1, 0.0, 0.0) < 0.0);
        // Nobody came before: not without memory to spare.
        assert!(saved(0.0, 0.0, 1.0) < 0.0);
        assert_eq!(saved(0.5, 0.5, 0.0), OPERATION);
        // Half go on to need it, at a dear price of memory: a page for every other visit.
        assert!(saved(5.0, 5.0, 100.0) < -0.3);
    }

    #[test]
    fn the_module_that_is_missing_anyway_gives_way() {
        // Four columns of one module are here and two of another: without a third of the other, one
        // read still settles an empty visit; without one of the first, it takes two.
        let other = |pass, missing| Partition {
            pass,
            missing: Some(Missing {
                pass: missing,
                pages: 1.0,
            }),
            ..partition(100.0, 0.0, 1.0, 1.0)
        };
        let of_second = Partition {
            missing: None,
            ..other(1.0 / 16.0 / 2.0, 1.0)
        };
        let of_second = of_second.value_of_filter(0.5, 0.25, 1.0);
        let of_first = other(1.0 / 4.0 / 8.0, 0.25).value_of_filter(0.5, 1.0, 1.0);
        assert!(of_first > of_second * 1.05, "{of_first} {of_second}");
    }

    #[test]
    fn a_merged_partition_has_the_visits_of_all_counted_once() {
        let visits = |empty, positive| {
            Some(Visits {
                empty,
                positive,
                scans: 8.0,
            })
        };
        // 100 come to the newest; 10 find their key there, 20 of 90 in the next, 30 of 70 below.
        let runs = [visits(90.0, 10.0), visits(70.0, 20.0), visits(40.0, 30.0)];
        assert_eq!(Some(merged_visits(runs)), visits(40.0, 60.0));
        assert_eq!(Some(merged_visits([runs[0], None])), runs[0]);
        assert_eq!(merged_visits([None]), Visits::default());
    }

    #[test]
    fn all_who_come_to_a_partition_come_to_the_one_above() {
        let below = Visits {
            empty: 30.0,
            positive: 50.0,
            scans: 7.0,
        };
        let above = visits_above(below, 0.1);
        assert_eq!((above.empty, above.positive), (75.0, 5.0));
        assert_eq!(visits_above(below, 7.0), below);
        assert_eq!(below.among(2).positive, 25.0);
        assert!(!below.is_none() && Visits::default().among(0).is_none());
    }

    #[test]
    fn a_count_says_as_much_as_the_counts_differ_by_more_than_chance() {
        // Faded counts of equal rates: their variance is half of their mean.
        let alike = Prior::of([3.0, 5.0, 4.0, 2.0, 6.0].into_iter());
        assert!(alike.spread < 0.05, "{alike:?}");
        assert!((alike.expect(6.0) - 4.0).abs() < 0.6);
        let unlike = Prior::of([0.0, 100.0, 1.0, 90.0, 2.0].into_iter());
        assert!((unlike.expect(100.0) - 100.0).abs() < 2.0);
        assert!(unlike.expect(2.0) < 4.0);
        // The more alike they are, the more the mean says; the mean itself always stays.
        let expect = |spread| Prior { mean: 4.0, spread }.expect(8.0);
        assert!(expect(0.0) == 4.0 && expect(0.1) < expect(1.0) && expect(1.0) < 8.0);
        assert_eq!(unlike.expect(unlike.mean), unlike.mean);
        // Nothing to learn from one, or from nothing.
        assert_eq!(Prior::of([7.0].into_iter()).expect(3.0), 3.0);
        assert_eq!(Prior::of([0.0; 9].into_iter()).expect(3.0), 3.0);
        assert_eq!(Prior::of([].into_iter()).expect(3.0), 3.0);
    }

    #[test]
    fn a_new_page_is_read_by_those_who_read_its_entries() {
        let visits = |positive, scans| Visits {
            empty: 9.0,
            positive,
            scans,
        };
        // All entries are of one run: 50 of them.
        assert_eq!(page_reads([(visits(0.125, 0.25), 1.0)], 50.0), 18.75);
        // A tenth of them are of another, to which the same scans come, its entries being sparser.
        let runs = [(visits(1.0, 2.5), 0.125), (visits(0.125, 0.25), 0.875)];
        assert_eq!(page_reads(runs, 8.0), 8.0 * (0.125 + 0.109_375 + 0.312_5));
        assert_eq!(page_reads([], 50.0), 0.0);
    }

    #[test]
    fn a_long_rest_says_more_than_old_counts() {
        assert_eq!(after_rest(8.0, 0.0), 8.0);
        assert_eq!(after_rest(8.0, 0.5), 8.0);
        assert_eq!(after_rest(8.0, 1.0), 4.0);
        assert_eq!(after_rest(0.1, 8.0), 0.1);
        assert_eq!(after_rest(8.0, 16.0), 0.25);
    }

    #[test]
    fn chance_is_told_from_habit() {
        let once = accesses_at_first(1.0, 1.0, None);
        assert!(further_accesses(once, 1000.0, 40.0) < 0.05);
        assert!(further_accesses(once, 1000.0, 1000.0) > 0.9);
        assert_eq!(further_accesses(once, 0.0, 0.0), 0.125);
        assert_eq!(accesses_at_first(1.0, 2.0, None), 0.0625);
        assert_eq!(accesses_at_first(4.5, 2.0, Some(10.0)), 2.0);
        assert!((accesses_at_first(4.5, 1.0, Some(0.03)) - 0.04).abs() < 1e-6);
    }
}
