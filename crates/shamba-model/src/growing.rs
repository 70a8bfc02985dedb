//! Filters for the next table of a tree that is not full and goes on growing.
//!
//! [`crate::allocation`] divides memory among runs that stay as they are. A store decides the
//! filter of one table at a time, when it writes it, and the filter stays until the table is
//! written again, while the levels above fill and empty many times. So the levels count with what
//! they hold on average: those that a merge has just emptied with what they will hold ([`usual`]),
//! the level that is written to, the last one, and those that hold more than usual as they are.
//! Bits per key over all that are the total asked for; the memory of the tree is above it when all
//! levels are full, and below it after a merge has emptied them.
//!
//! A table's *visits* are the lookups that come to it in vain if no filter holds them back, per
//! lookup of the store. Where they were measured they are what counts; where not, each lookup
//! visits every run until it finds its key, and the tables of a run by their share of its entries.

use crate::ModelError;
use crate::allocation::{Filter, Run, water_filling};
use crate::curve::Curve;
use crate::tree::{MergePolicy, level_capacity};

/// A table, or several that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Table {
    /// Its entries; above 0.
    pub entries: f64,
    /// Its measured visits in vain per lookup; `None` where nothing was measured. At least 0.
    pub visits: Option<f64>,
}

/// What a level holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Content {
    /// Entries of all runs.
    pub entries: f64,
    /// Runs; a part where there is none at times.
    pub runs: f64,
}

/// A level of a tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Level {
    /// Its tables, once what is written is there and what that replaces is gone.
    pub tables: Vec<Table>,
    /// The runs that they make.
    pub runs: f64,
    /// What it holds on average while the tree grows.
    pub usual: Content,
}

/// A table counts with this part of the visits of an average one at least, however rarely it was
/// asked: what nobody asked for today gets at most about six bits per key less than the average,
/// should they ask tomorrow.
pub const LEAST_VISITS: f64 = 1.0 / 16.0;

/// By how many bits per key a table's filter may differ from what it should have where the table
/// goes before it is better to write the table again than to move it. A level down is
/// `ln T / ln^2 2` bits: 1.4 at a size ratio of 2, 4.8 at 10.
pub const MOST_MISFIT: f64 = 2.0;

/// What a level above the last holds on average while it fills and is emptied, in entries, where a
/// buffer holds `buffer_entries`. Under leveling with merges of whole levels it holds from nothing
/// to `T - 1` times what a level above it does: `(T-1)/2T` of its capacity, in a run that is there
/// `(T-1)/T` of the time. By single files (`by_file`) it gives away only what is too much, and
/// stays at its capacity. Where runs are tiered it has `(T-1)/2` of them, each of a full level
/// above it. Level 0 holds flushed buffers: under leveling half of `level0_runs - 1`.
///
/// # Errors
/// A buffer that is not finite and above 0; a size ratio below 2.
pub fn usual(
    policy: MergePolicy,
    by_file: bool,
    size_ratio: u32,
    level0_runs: u32,
    buffer_entries: f64,
    level: u32,
) -> Result<Content, ModelError> {
    ModelError::above_zero("buffer_entries", buffer_entries)?;
    let capacity = buffer_entries * level_capacity(1, size_ratio, level)? as f64;
    let (entries, runs) = match (policy, level) {
        (MergePolicy::Leveling, 0) => {
            let runs = f64::from(level0_runs.saturating_sub(1)) / 2.0;
            (runs * buffer_entries, runs)
        }
        (MergePolicy::Leveling, _) if by_file => (capacity, 1.0),
        (MergePolicy::Leveling, _) => {
            let ratio = f64::from(size_ratio);
            (capacity * (ratio - 1.0) / (2.0 * ratio), 1.0 - 1.0 / ratio)
        }
        _ => {
            let runs = (f64::from(size_ratio) - 1.0) / 2.0;
            (runs * capacity, runs)
        }
    };
    Ok(Content { entries, runs })
}

/// The share of lookups that come in vain to a run whose level has `runs` like it, where runs that
/// are older by level hold `older` of all `entries` and its level `own`, if a share `positive` of
/// lookups finds its key, anywhere alike: those that find nothing, and those that find their key in
/// an older run. With all on the last level, the coefficients of Monkey, Eq. 13.
fn visits_of_run(positive: f64, older: f64, own: f64, runs: f64, entries: f64) -> f64 {
    let behind = older + own * (runs - 1.0).max(0.0) / (2.0 * runs);
    1.0 - positive + positive * behind / entries
}

/// The runs that filters are divided among, level by level: every table, as many times over as its
/// level usually holds more than now; a level that holds nothing counts as one run.
///
/// # Errors
/// A share outside 0 to 1; tables without entries; negative visits or runs.
pub fn filter_runs(
    levels: &[Level],
    written: usize,
    positive: f64,
) -> Result<Vec<Vec<Run>>, ModelError> {
    ModelError::share("positive", positive)?;
    let last = levels.iter().rposition(|level| !level.tables.is_empty());
    let mut contents = Vec::new();
    for (number, level) in levels.iter().enumerate() {
        for table in &level.tables {
            ModelError::above_zero("entries", table.entries)?;
            ModelError::not_negative("visits", table.visits.unwrap_or(0.0))?;
        }
        ModelError::not_negative("runs", level.runs)?;
        let now = Content {
            entries: level.tables.iter().map(|table| table.entries).sum(),
            runs: level.runs.max(1.0),
        };
        let stays = number == written || last.is_none_or(|last| number >= last);
        let expected = if stays || now.entries >= level.usual.entries {
            now
        } else {
            level.usual
        };
        contents.push((now, expected));
    }
    let all: f64 = contents.iter().map(|(_, expected)| expected.entries).sum();
    let mut older = all;
    let mut found = Vec::new();
    for (level, (now, expected)) in levels.iter().zip(contents) {
        older -= expected.entries;
        let visits = visits_of_run(
            positive,
            older.max(0.0),
            expected.entries,
            expected.runs,
            all,
        );
        if level.tables.is_empty() {
            let run = Run {
                entries: expected.entries,
                weight: visits * expected.runs,
            };
            found.push(if run.entries > 0.0 {
                vec![run]
            } else {
                Vec::new()
            });
            continue;
        }
        let (more, more_runs) = (expected.entries / now.entries, expected.runs / now.runs);
        let run = |table: &Table| {
            let usual = visits * now.runs * table.entries / now.entries;
            let measured = table.visits.map_or(usual, |v| v.max(usual * LEAST_VISITS));
            Run {
                entries: table.entries * more,
                weight: measured * more_runs,
            }
        };
        found.push(level.tables.iter().map(run).collect());
    }
    Ok(found)
}

/// The filter of the last table of level `written`, when `bits_per_key` bits for each entry of the
/// tree are divided best (Monkey, Appendices A and B, for runs of any sizes; by measured visits
/// where tables have them). `positive` is the share of lookups that find their key, as Monkey's
/// `v/(v+1)`.
///
/// # Errors
/// No table at that place; what [`filter_runs`] and [`water_filling`] refuse.
///
/// ```
/// use shamba_model::{curve::Curve, growing::*};
/// let level = |entries| Level {
///     tables: vec![Table { entries, visits: None }],
///     runs: 1.0,
///     usual: Content::default(),
/// };
/// let levels = [level(1e5), level(1e6)];
/// let small = next_filter(&levels, 0, 0.0, 10.0, &Curve::ideal())?;
/// let large = next_filter(&levels, 1, 0.0, 10.0, &Curve::ideal())?;
/// assert!((large.rate / small.rate - 10.0).abs() < 1e-9);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn next_filter(
    levels: &[Level],
    written: usize,
    positive: f64,
    bits_per_key: f64,
    curve: &Curve,
) -> Result<Filter, ModelError> {
    let runs = filter_runs(levels, written, positive)?;
    let at: usize = runs.iter().take(written + 1).map(Vec::len).sum();
    let all: Vec<Run> = runs.into_iter().flatten().collect();
    let there = levels.get(written).is_some_and(|l| !l.tables.is_empty());
    ModelError::check(there, "written", written as f64, "a level with a table")?;
    let entries: f64 = all.iter().map(|run| run.entries).sum();
    let filters = water_filling(&all, bits_per_key * entries, curve)?;
    // What is written comes last of its level.
    Ok(filters[at - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::false_positive_reads;
    use crate::curve::Family;
    use crate::tree::Tree;

    fn table(entries: f64) -> Table {
        Table {
            entries,
            visits: None,
        }
    }

    fn level(entries: f64, runs: u32) -> Level {
        Level {
            tables: vec![table(entries / f64::from(runs)); runs as usize],
            runs: f64::from(runs),
            usual: Content::default(),
        }
    }

    /// Written from the last level up, a full tree gets what Monkey gives it, for any share of
    /// lookups that find their key on the last level, and uses the memory asked for.
    #[test]
    fn a_full_tree_gets_monkeys_filters() {
        for policy in MergePolicy::ALL {
            for positive in [0.0, 0.6] {
                let tree = Tree::new(policy, 10, 4, 1e7).unwrap();
                let levels: Vec<Level> = (1..=4)
                    .map(|i| level(tree.entries_at(i), tree.runs(i) as u32))
                    .collect();
                let runs = tree.filter_runs(positive).unwrap();
                let stored: f64 = runs.iter().map(|run| run.entries).sum();
                let curve = Curve::ideal();
                let wanted = water_filling(&runs, 8.0 * stored, &curve).unwrap();
                let mut bits = 0.0;
                for (at, wanted) in wanted.iter().enumerate() {
                    let got = next_filter(&levels, at, positive, 8.0, &curve).unwrap();
                    bits += got.bits_per_key * runs[at].entries;
                    // The paper has all existing keys on the last level, here they are everywhere.
                    let off = (got.bits_per_key - wanted.bits_per_key).abs();
                    assert!(off < if positive > 0.0 { 0.3 } else { 1e-6 }, "{off}");
                }
                assert!((bits / (8.0 * stored) - 1.0).abs() < 1e-6);
            }
        }
    }

    /// The weights are Eq. 13's where all keys are on the last level.
    #[test]
    fn lookups_that_find_their_key_spare_the_runs_behind_it() {
        let levels = [level(1e-6, 1), level(1e6, 4)];
        let runs = filter_runs(&levels, 1, 0.5).unwrap();
        assert!((runs[0][0].weight - 1.0).abs() < 1e-9);
        let last: f64 = runs[1].iter().map(|run| run.weight).sum();
        assert!((last - (4.0 - 0.5 * 5.0 / 2.0)).abs() < 1e-6, "{last}");
    }

    /// A table of the last level that is written while those above are empty counts with what they
    /// will hold, so that over the time in which they fill the mean memory is what was asked for.
    #[test]
    fn the_mean_memory_of_a_growing_tree_is_the_memory_asked_for() {
        let curve = Family::Bloom.curve().unwrap();
        for (ratio, bits) in [(2, 5.0), (4, 5.0), (4, 10.0), (10, 5.0), (10, 16.0)] {
            let usual =
                |level| usual(MergePolicy::Leveling, false, ratio, 1, 1000.0, level).unwrap();
            let shape = |fill: f64, last: bool| -> Vec<Level> {
                let of = |i: u32| {
                    let capacity = 1000.0 * f64::from(ratio).powi(i as i32);
                    let now = if i == 4 { capacity } else { fill * capacity };
                    let empty = now == 0.0 || (i == 4 && !last);
                    Level {
                        tables: if empty { vec![] } else { vec![table(now)] },
                        runs: 1.0,
                        usual: usual(i),
                    }
                };
                (1..=4).map(of).collect()
            };
            let after_merge = shape(0.0, true);
            let of_last = next_filter(&after_merge, 3, 0.0, bits, &curve).unwrap();
            let mut ratios = Vec::new();
            for part in 0..=4 {
                let full = 1.0 - 1.0 / f64::from(ratio);
                let levels = shape(f64::from(part) / 4.0 * full, true);
                let (mut memory, mut entries) = (0.0, 0.0);
                for (at, level) in levels.iter().enumerate() {
                    let Some(table) = level.tables.first() else {
                        continue;
                    };
                    let filter = match at {
                        3 => of_last,
                        _ => next_filter(&levels, at, 0.0, bits, &curve).unwrap(),
                    };
                    memory += filter.bits_per_key * table.entries;
                    entries += table.entries;
                }
                ratios.push(memory / (bits * entries));
            }
            let mean = ratios.iter().sum::<f64>() / 5.0;
            assert!(
                (mean - 1.0).abs() < 0.06,
                "T {ratio}, {bits} bits: {ratios:?}"
            );
            assert!(ratios.iter().all(|r| (r - 1.0).abs() < 0.3), "{ratios:?}");
        }
    }

    /// Hot tables get what cold ones do without, the sum is the same, and fewer lookups err.
    #[test]
    fn measured_visits_move_bits_to_where_lookups_are() {
        let curve = Curve::ideal();
        let visits = [0.9, 0.05, 0.05, 0.0];
        let tables: Vec<Table> = visits
            .iter()
            .map(|&visits| Table {
                entries: 1e5,
                visits: Some(visits),
            })
            .collect();
        let filter_of = |number: usize, measured: bool| {
            let mut tables = tables.clone();
            tables.swap(number, 3);
            if !measured {
                tables.iter_mut().for_each(|table| table.visits = None);
            }
            let level = Level {
                tables,
                runs: 1.0,
                usual: Content::default(),
            };
            next_filter(&[level], 0, 0.0, 5.0, &curve).unwrap()
        };
        let runs = visits.map(|weight| Run {
            entries: 1e5,
            weight,
        });
        let filters = [true, false].map(|on| [0, 1, 2, 3].map(|number| filter_of(number, on)));
        let reads = filters.map(|filters| false_positive_reads(&runs, &filters).unwrap());
        assert!(reads[0] < 0.6 * reads[1], "{reads:?}");
        for filters in filters {
            let bits: f64 = filters.iter().map(|filter| filter.bits_per_key).sum();
            assert!((bits - 20.0).abs() < 1e-6, "{filters:?}");
        }
        // Nobody asked the last, and it has a filter nevertheless.
        assert!(filters[0][3].bits_per_key > 0.5, "{filters:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        let curve = Curve::ideal();
        let levels = [level(1e5, 1)];
        assert!(next_filter(&levels, 0, 1.5, 5.0, &curve).is_err());
        assert!(next_filter(&levels, 1, 0.0, 5.0, &curve).is_err());
        assert!(next_filter(&levels, 0, 0.0, -5.0, &curve).is_err());
        assert!(next_filter(&[level(0.0, 1)], 0, 0.0, 5.0, &curve).is_err());
        assert!(next_filter(&[Level::default()], 0, 0.0, 5.0, &curve).is_err());
        assert!(usual(MergePolicy::Tiering, false, 1, 1, 1.0, 1).is_err());
        assert!(usual(MergePolicy::Tiering, false, 2, 1, 0.0, 1).is_err());
    }
}
