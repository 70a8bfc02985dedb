//! What the engine knows of its own data and use: estimates for people and for the choice of a
//! design. They are made from counts that are kept anyway, when somebody asks, and decide nothing
//! by themselves.

use std::collections::BTreeMap;

use super::{KeyspaceInner, ReadState};

/// A keyspace's data, and its recent operations: each counts half as much after 8,192 more, so
/// that estimates follow a changed workload. All numbers are estimates, since the database was
/// opened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorkloadEstimate {
    /// Entries in tables and memtables, old versions and tombstones included: `N`.
    pub entries: f64,
    /// Bytes that an entry takes in tables, without filters and indexes; of what is in memory while
    /// there are no tables. 0 while there is nothing.
    pub entry_bytes: f64,
    /// Bytes of a key, before compression: the mean of the first and last keys of all tables;
    /// `None` while there are none.
    pub key_bytes: Option<f64>,
    /// Operations that the shares below are made of, as many as still count. Few say little.
    pub operations: f64,
    /// The share of operations that are point lookups without a result, 0 to 1.
    pub empty_lookups: f64,
    /// Point lookups that find a value.
    pub existing_lookups: f64,
    /// Positionings of iterators.
    pub range_lookups: f64,
    /// Puts and deletes.
    pub updates: f64,
    /// Entries that an iterator passes after it was positioned, on average, itself included; 0
    /// without range lookups.
    pub entries_per_range: f64,
    /// The share of lookups that fall into the tenth of the key ranges that is read most, of the
    /// level that holds most data: 0.1 where all are alike, 1 where only that tenth is read.
    /// `None` while too few lookups came there to tell: fewer than four for each range.
    pub hottest_tenth: Option<f64>,
}

impl WorkloadEstimate {
    /// The operations as the cost model takes them; `None` while there were none.
    #[must_use]
    pub fn model(&self) -> Option<shamba_model::cost::Workload> {
        (self.operations > 0.0).then(|| shamba_model::cost::Workload {
            empty_lookups: self.empty_lookups,
            existing_lookups: self.existing_lookups,
            range_lookups: self.range_lookups,
            updates: self.updates,
            selectivity: (self.entries_per_range / self.entries.max(1.0)).min(1.0),
        })
    }
}

impl WorkloadEstimate {
    /// Everything known of a keyspace at this moment.
    pub(in crate::db) fn of(keyspace: &KeyspaceInner) -> WorkloadEstimate {
        let state = keyspace.state();
        let late = keyspace.operations().of_late(state.active.len() as u64);
        let all = late.operations().max(f64::MIN_POSITIVE);
        let mut estimate = WorkloadEstimate {
            operations: late.operations(),
            empty_lookups: late.empty / all,
            existing_lookups: late.existing / all,
            range_lookups: late.ranges / all,
            updates: late.updates / all,
            ..WorkloadEstimate::default()
        };
        if late.ranges > 0.0 {
            estimate.entries_per_range = 1.0 + late.steps / late.ranges;
        }
        add_data(&mut estimate, &state);
        estimate.hottest_tenth = hottest_tenth(&state);
        estimate
    }
}

/// Entries and their sizes.
fn add_data(estimate: &mut WorkloadEstimate, state: &ReadState) {
    let memtables = || state.memtables();
    let buffered: usize = memtables().map(|memtable| memtable.len()).sum();
    let sums = state.version.sums();
    let stored = sums.entries as f64;
    estimate.entries = stored + buffered as f64;
    if stored > 0.0 {
        let other = sums.filter_bytes.saturating_add(sums.index_bytes);
        let data = sums.size.saturating_sub(other);
        estimate.entry_bytes = data as f64 / stored;
    } else if buffered > 0 {
        let used: usize = memtables().map(|memtable| memtable.bytes_used()).sum();
        estimate.entry_bytes = used as f64 / buffered as f64;
    }
    let ends = state.version.files();
    let ends = ends.flat_map(|file| [file.smallest().len(), file.largest().len()]);
    let (count, bytes) = ends.fold((0u64, 0), |(count, sum), len| (count + 1, sum + len));
    estimate.key_bytes = (count > 0).then(|| bytes as f64 / count as f64);
}

/// Visits of ranges of one size, counted by how many they are: to a sixteenth of an octave, so that
/// it takes no more memory for many ranges than for few.
#[derive(Debug, Default)]
struct VisitCounts {
    /// How many ranges, and their visits.
    of_range: BTreeMap<u32, (u64, f64)>,
    ranges: u64,
    visits: f64,
}

impl VisitCounts {
    fn add(&mut self, visits: f32) {
        // Bits of numbers above zero are in the numbers' order: sign, exponent and four bits of the
        // rest.
        let (ranges, sum) = self.of_range.entry(visits.to_bits() >> 19).or_default();
        *ranges += 1;
        *sum += f64::from(visits);
        self.ranges += 1;
        self.visits += f64::from(visits);
    }

    /// Visits of so many ranges, of those that have most.
    fn of_most(&self, mut ranges: f64) -> f64 {
        let mut found = 0.0;
        for &(count, sum) in self.of_range.values().rev() {
            let part = (ranges / count as f64).clamp(0.0, 1.0);
            found += sum * part;
            ranges -= count as f64;
        }
        found
    }
}

/// See [`WorkloadEstimate::hottest_tenth`].
fn hottest_tenth(state: &ReadState) -> Option<f64> {
    let levels = state.version.levels();
    let largest = levels.iter().max_by_key(|level| level.entries())?;
    let mut known = VisitCounts::default();
    let mut unknown = 0;
    for file in largest.files() {
        match file.slot().partition_stats() {
            Some(partition_stats) => (0..partition_stats.len()).for_each(|partition| {
                let visits = partition_stats.visits(partition as u32);
                known.add(visits.empty + visits.positive);
            }),
            None => unknown += 1,
        }
    }
    if known.ranges == 0 {
        return None;
    }
    // A file that nobody opened counts as what its like have.
    let files = (largest.sums().files - unknown).max(1) as f64;
    let each = (known.ranges as f64 / files).round().max(1.0);
    let ranges = known.ranges as f64 + each * unknown as f64;
    if known.visits < 4.0 * ranges {
        return None;
    }
    Some(known.of_most(ranges / 10.0) / known.visits)
}

#[cfg(test)]
mod tests {
    use super::VisitCounts;

    #[test]
    fn visits_of_the_hottest_are_those_of_a_sorted_list() {
        for (ranges, skew) in [
            (1, 1.0),
            (9, 0.0),
            (10, 1.0),
            (1000, 0.0),
            (5000, 0.7),
            (5000, 1.3),
        ] {
            let mut visits: Vec<f32> = (1..=ranges)
                .map(|rank| 1e6 / f64::from(rank).powf(skew))
                .map(|visits| visits as f32)
                .collect();
            visits.extend([0.0; 3]);
            let mut counts = VisitCounts::default();
            visits.iter().rev().for_each(|&visits| counts.add(visits));
            let sum = |visits: &[f32]| visits.iter().map(|&v| f64::from(v)).sum::<f64>();
            assert!((counts.visits / sum(&visits) - 1.0).abs() < 1e-6);
            for tenths in 0..=10 {
                let most = visits.len() * tenths / 10;
                let (exact, found) = (sum(&visits[..most]), counts.of_most(most as f64));
                let error = (exact - found) / sum(&visits);
                assert!(
                    (-1e-6..0.03).contains(&error),
                    "{ranges} {skew} {most}: {exact} {found}"
                );
            }
            assert!(counts.of_range.len() < 400);
        }
    }
}
