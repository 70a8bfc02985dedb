//! ElasticBF: a fixed number of filter units, moved to where they save the most reads.
//!
//! A segment is a file, and its units are its filter's modules. Segments stand in queues, one for
//! each number of enabled units, the least recently probed first. A segment that was probed goes to
//! the end of its queue, and may take a unit from an *expired* one, which has not been probed for a
//! lifetime: those are looked for from the queue of the most units down, and one is taken if that
//! lowers the extra I/O expected of false positives. A new segment gets as many units as the old
//! one that is nearest to it in hotness, which it inherited. So that the memory stays the same, the
//! number of enabled units over all segments is held at `initial_units` times their number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use shamba_model::elastic::{Change, lowers_extra_io};

use super::{FileView, ModuleController};

/// Of each queue at most so many expired segments are weighed for one upgrade.
const LOOK_AT: usize = 8;

#[derive(Debug)]
struct Segment {
    units: usize,
    access: f64,
    last_access: u64,
    rates: Arc<[f64]>,
}

impl Segment {
    /// The false-positive rate with so many units.
    fn rate(&self, units: usize) -> f64 {
        self.rates.iter().take(units).product()
    }

    fn change(&self, units_after: usize) -> Change {
        Change {
            frequency: self.access,
            rate: self.rate(self.units),
            rate_after: self.rate(units_after),
        }
    }

    /// What one unit more would make of it; `None` when it has them all.
    fn upgrade(&self) -> Option<Change> {
        (self.units < self.rates.len()).then(|| self.change(self.units + 1))
    }

    fn downgrade(&self) -> Option<Change> {
        Some(self.change(self.units.checked_sub(1)?))
    }
}

/// The queues and what stands in them.
#[derive(Debug)]
pub(super) struct Elastic {
    initial_units: usize,
    lifetime: u64,
    segments: HashMap<u64, Segment>,
    /// By number of units: segments, the least recently probed first.
    queues: Vec<VecDeque<u64>>,
}

impl ModuleController for Elastic {
    fn limits(&mut self, files: &[FileView], epoch: u64) -> Vec<u8> {
        self.take_over(files);
        self.queue_accessed(files, epoch);
        self.keep_total();
        self.adjust(files, epoch);
        let units = |file: &FileView| self.segments.get(&file.number).map_or(0, |s| s.units);
        files
            .iter()
            .map(|file| u8::try_from(units(file)).unwrap_or(u8::MAX))
            .collect()
    }

    /// A place in the table of segments, which is at most seven eighths full and at least half of
    /// that, and one in a queue.
    fn bytes_per_file(&self) -> u64 {
        let place = size_of::<(u64, Segment)>() + 1;
        (place * 16 / 7 + 2 * size_of::<u64>()) as u64
    }
}

impl Elastic {
    pub(super) fn new(initial_units: u8, lifetime: u64) -> Self {
        Elastic {
            initial_units: usize::from(initial_units),
            lifetime,
            segments: HashMap::new(),
            queues: Vec::new(),
        }
    }

    /// Forgets files that are gone, learns of new ones and of what is new about the others.
    fn take_over(&mut self, files: &[FileView]) {
        let mut old = std::mem::take(&mut self.segments);
        let mut by_access: Vec<(f64, usize)> = old.values().map(|s| (s.access, s.units)).collect();
        by_access.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut new = Vec::new();
        for file in files {
            let access = file.hotness.map_or(0.0, |(access, _)| access);
            let units = match old.remove(&file.number) {
                Some(segment) => segment.units,
                None => {
                    new.push(file.number);
                    let known = file.hotness.and_then(|_| nearest(&by_access, access));
                    known.unwrap_or(self.initial_units)
                }
            };
            let segment = Segment {
                units: units.min(file.rates.len()),
                access,
                last_access: file.last_access,
                rates: file.rates.clone(),
            };
            self.segments.insert(file.number, segment);
        }
        let (segments, queues) = (&self.segments, &mut self.queues);
        let mut stray = Vec::new();
        for (units, queue) in queues.iter_mut().enumerate() {
            queue.retain(|number| match segments.get(number) {
                Some(segment) if segment.units == units => true,
                Some(_) => {
                    stray.push(*number);
                    false
                }
                None => false,
            });
        }
        for number in stray.into_iter().chain(new) {
            self.push(number);
        }
    }

    /// Puts a segment at the recent end of the queue of its units.
    fn push(&mut self, number: u64) {
        let Some(units) = self.segments.get(&number).map(|segment| segment.units) else {
            return;
        };
        if self.queues.len() <= units {
            self.queues.resize_with(units + 1, VecDeque::new);
        }
        if let Some(queue) = self.queues.get_mut(units) {
            queue.push_back(number);
        }
    }

    /// Segments probed in the last epoch go to the recent end, the hottest last: it was probed
    /// last, most probably.
    fn queue_accessed(&mut self, files: &[FileView], epoch: u64) {
        for queue in &mut self.queues {
            let mut accessed = Vec::new();
            queue.retain(|number| {
                let segment = self.segments.get(number);
                let now = segment.filter(|segment| epoch > 0 && segment.last_access == epoch);
                accessed.extend(now.map(|segment| (segment.access, *number)));
                now.is_none()
            });
            accessed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            queue.extend(accessed.into_iter().map(|(_, number)| number));
        }
        debug_assert_eq!(
            self.queues.iter().map(VecDeque::len).sum::<usize>(),
            files.len()
        );
    }

    fn set_units(&mut self, number: u64, units: usize) {
        let Some(segment) = self.segments.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut segment.units, units);
        if let Some(queue) = self.queues.get_mut(before) {
            queue.retain(|other| *other != number);
        }
        self.push(number);
    }

    /// Holds the number of enabled units: files that came or went upset it.
    fn keep_total(&mut self) {
        let wanted: usize = self
            .segments
            .values()
            .map(|segment| self.initial_units.min(segment.rates.len()))
            .sum();
        let mut total: usize = self.segments.values().map(|segment| segment.units).sum();
        while total != wanted {
            let up = total < wanted;
            // The unit that gains most, or the one that costs least; by number among equals.
            let best = self
                .segments
                .iter()
                .filter_map(|(&number, segment)| {
                    let change = if up {
                        segment.upgrade()
                    } else {
                        segment.downgrade()
                    };
                    let extra = change?.extra_io().unwrap_or(0.0);
                    // Of segments nothing is known of, those with the fewest units are given some
                    // first, and those with the most lose some first.
                    let even = if up {
                        segment.units
                    } else {
                        usize::MAX - segment.units
                    };
                    Some((extra, even, number, segment.units))
                })
                .min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let Some((_, _, number, units)) = best else {
                return;
            };
            if up {
                self.set_units(number, units + 1);
                total += 1;
            } else {
                self.set_units(number, units - 1);
                total -= 1;
            }
        }
    }

    /// Gives units of expired segments to those that were probed, the hottest first.
    fn adjust(&mut self, files: &[FileView], epoch: u64) {
        let mut accessed: Vec<(f64, u64)> = files
            .iter()
            .filter(|file| epoch > 0 && file.last_access == epoch)
            .map(|file| (file.hotness.map_or(0.0, |(access, _)| access), file.number))
            .collect();
        accessed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, number) in accessed {
            while let Some(segment) = self.segments.get(&number)
                && let Some(upgrade) = segment.upgrade()
            {
                let units = segment.units;
                let Some((victim, victim_units)) = self.victim(number, &upgrade, epoch) else {
                    break;
                };
                self.set_units(victim, victim_units - 1);
                self.set_units(number, units + 1);
            }
        }
    }

    /// An expired segment whose unit is worth less than `upgrade` gains, from the queue of the most
    /// units down; with its number of units.
    fn victim(&self, upgraded: u64, upgrade: &Change, epoch: u64) -> Option<(u64, usize)> {
        let expired = |segment: &&Segment| segment.last_access + self.lifetime <= epoch;
        for (units, queue) in self.queues.iter().enumerate().skip(1).rev() {
            let candidates = queue.iter().filter(|number| **number != upgraded);
            for number in candidates.take(LOOK_AT) {
                let Some(segment) = self.segments.get(number).filter(expired) else {
                    break;
                };
                let lowers = |change| lowers_extra_io(upgrade, &change).unwrap_or(false);
                if segment.downgrade().is_some_and(lowers) {
                    return Some((*number, units));
                }
            }
        }
        None
    }
}

/// The units of the segment nearest in access; `by_access` is ascending.
fn nearest(by_access: &[(f64, usize)], access: f64) -> Option<usize> {
    let at = by_access.partition_point(|(other, _)| *other < access);
    let above = by_access.get(at);
    let below = at.checked_sub(1).and_then(|at| by_access.get(at));
    let distance = |found: &&(f64, usize)| (found.0 - access).abs();
    let both = below.into_iter().chain(above);
    both.min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .map(|(_, units)| *units)
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    fn probed(number: u64, access: f64, last_access: u64) -> FileView {
        FileView {
            last_access,
            ..file(number, access, 0.0, 4)
        }
    }

    fn total(limits: &[u8]) -> u32 {
        limits.iter().map(|&units| u32::from(units)).sum()
    }

    #[test]
    fn units_move_to_the_hot_file_and_their_number_stays() {
        let mut elastic = Elastic::new(2, 2);
        let fresh: Vec<_> = (0..10)
            .map(|i| FileView {
                hotness: None,
                ..probed(i, 0.0, 0)
            })
            .collect();
        assert_eq!(elastic.limits(&fresh, 0), [2; 10]);
        let mut files: Vec<_> = (0..10).map(|i| probed(i, 0.0001, 0)).collect();
        files[3] = probed(3, 0.9, 1);
        // Nothing has expired yet.
        assert_eq!(elastic.limits(&files, 1), [2; 10]);
        files[3].last_access = 2;
        let limits = elastic.limits(&files, 2);
        assert_eq!((limits[3], total(&limits)), (4, 20), "{limits:?}");
    }

    #[test]
    fn nothing_moves_that_would_raise_the_extra_reads() {
        let mut elastic = Elastic::new(2, 1);
        // The accessed file is the least probed of all: its unit would save less than it costs.
        let mut files: Vec<_> = (0..4).map(|i| probed(i, 0.5, 1)).collect();
        files[0] = probed(0, 0.001, 9);
        assert_eq!(elastic.limits(&files, 9), [2; 4]);
    }

    #[test]
    fn a_cold_file_can_lose_its_last_unit() {
        let mut elastic = Elastic::new(1, 1);
        let files = [probed(0, 0.0, 0), probed(1, 0.0, 0), probed(2, 1.0, 5)];
        assert_eq!(elastic.limits(&files, 5), [0, 0, 3]);
    }

    #[test]
    fn a_new_file_gets_what_its_inherited_hotness_earns() {
        let mut elastic = Elastic::new(2, 1);
        let files: Vec<_> = (0..4)
            .map(|i| probed(i, if i == 0 { 0.9 } else { 0.0001 }, u64::from(i == 0)))
            .collect();
        let limits = elastic.limits(&files, 1);
        assert_eq!((limits[0], total(&limits)), (4, 8), "{limits:?}");
        // Compaction replaces the hot file, and a cold one.
        let after = [
            probed(10, 0.85, 0),
            probed(11, 0.0001, 0),
            files[2].clone(),
            files[3].clone(),
        ];
        let limits = elastic.limits(&after, 1);
        assert_eq!((limits[0], total(&limits)), (4, 8), "{limits:?}");
    }

    #[test]
    fn files_of_any_number_of_units_come_and_go() {
        let mut elastic = Elastic::new(3, 1);
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for epoch in 1..200 {
            let first = random(50);
            let files: Vec<_> = (first..first + random(30))
                .map(|number| FileView {
                    last_access: epoch - random(2).min(epoch),
                    ..file(
                        number,
                        random(1000) as f64 / 1000.0,
                        0.0,
                        random(7) as usize,
                    )
                })
                .collect();
            let limits = elastic.limits(&files, epoch);
            let wanted: usize = files.iter().map(|file| file.rates.len().min(3)).sum();
            assert_eq!(total(&limits), wanted as u32, "epoch {epoch}");
            for (file, limit) in files.iter().zip(limits) {
                assert!(usize::from(limit) <= file.rates.len());
            }
        }
    }
}
