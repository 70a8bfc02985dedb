//! What lookups have seen of a file, and how hot that makes it. Hints only: losing them changes no
//! answer.
//!
//! Protocol: the read path increments the two counters and nothing else, for a sample of the
//! lookups, each with its weight: readers on different cores would otherwise pass the line to and
//! fro at every lookup. Maintenance ends epochs ([`FileStats::end_epoch`]). Flush and compaction
//! create statistics that inherit ([`FileStats::restored`]). The manifest keeps counters and
//! hotness. Counters are relaxed atomics; the rest is behind a lock that no lookup takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use shamba_model::utility::{blend, measured_weight};

/// The module limit that lets a lookup probe every module a filter has.
pub(crate) const ALL_MODULES: u8 = u8::MAX;

/// Epochs over which measured counts fade, and after which a file's own are all that counts.
const WINDOW: u64 = 16;

/// How often a file is asked, and how often it has the key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hotness {
    /// The share of its keyspace's lookups that ask the file, 0 to 1.
    pub(crate) access: f64,
    /// The share of those that find their key in it, 0 to 1.
    pub(crate) positive: f64,
}

/// Hotness is stored in parts of this.
const PARTS: f64 = 1e9;

impl Hotness {
    /// That of a file that no lookup asks.
    pub(super) const NEVER: Hotness = Hotness {
        access: 0.0,
        positive: 0.0,
    };

    /// As whole numbers: what the manifest keeps of access and positive share.
    pub(super) fn to_parts(self) -> [u64; 2] {
        [self.access, self.positive].map(|share| (share.clamp(0.0, 1.0) * PARTS).round() as u64)
    }

    /// The hotness of these numbers.
    pub(super) fn from_parts(parts: [u64; 2]) -> Self {
        let [access, positive] = parts.map(|part| (part as f64 / PARTS).min(1.0));
        Hotness { access, positive }
    }
}

/// The statistics of one file. There may be very many.
#[derive(Debug)]
pub(crate) struct FileStats {
    probes: AtomicU64,
    positives: AtomicU64,
    aged: Mutex<Aged>,
}

const _: () = assert!(size_of::<FileStats>() == 56);

/// What the ends of epochs made of the counters.
#[derive(Debug)]
struct Aged {
    /// The lower halves of the counters at the end of the last epoch.
    seen: [u32; 2],
    /// Probes, positives and the keyspace's lookups, fading.
    probes: f32,
    positives: f32,
    lookups: f32,
    /// What it was given at its birth or kept over a restart, as [`Hotness::to_parts`]; nothing
    /// where there are more parts than a whole has.
    inherited: [u32; 2],
    /// The last epoch in which it was asked; 0 for never.
    last_access: u32,
    /// Epochs the file has seen end.
    age: u16,
    /// Epochs that ended before the counters were there, in which the file was not asked.
    unasked: u8,
}

/// More parts than a whole has.
const NOTHING: [u32; 2] = [u32::MAX; 2];

impl Aged {
    fn inherited(&self) -> Option<Hotness> {
        (self.inherited != NOTHING).then(|| Hotness::from_parts(self.inherited.map(u64::from)))
    }
}

impl Default for FileStats {
    fn default() -> Self {
        FileStats::restored(0, 0, None)
    }
}

impl FileStats {
    /// The statistics of a file that was not asked for so many epochs.
    pub(super) fn after(unasked: u8) -> Self {
        let mut stats = FileStats::default();
        stats.aged.get_mut().unasked = unasked;
        stats
    }

    /// Statistics as they were kept.
    pub(super) fn restored(probes: u64, positives: u64, hotness: Option<Hotness>) -> Self {
        let parts = |hotness: Hotness| hotness.to_parts().map(|part| part as u32);
        FileStats {
            probes: AtomicU64::new(probes),
            positives: AtomicU64::new(positives),
            aged: Mutex::new(Aged {
                seen: [probes as u32, positives as u32],
                probes: 0.0,
                positives: 0.0,
                lookups: 0.0,
                inherited: hotness.map_or(NOTHING, parts),
                last_access: 0,
                age: 0,
                unasked: 0,
            }),
        }
    }

    /// Counts `weight` lookups that asked this file.
    #[inline]
    pub(crate) fn record(&self, positive: bool, weight: u64) {
        self.probes.fetch_add(weight, Relaxed);
        if positive {
            self.positives.fetch_add(weight, Relaxed);
        }
    }

    /// Lookups that asked this file.
    pub(crate) fn probes(&self) -> u64 {
        self.probes.load(Relaxed)
    }

    /// Lookups that found the key here, as value or tombstone.
    pub(crate) fn positives(&self) -> u64 {
        self.positives.load(Relaxed)
    }

    /// Ends an epoch in which the keyspace saw so many lookups: what was measured before fades.
    pub(crate) fn end_epoch(&self, epoch: u64, lookups: u64) {
        let now = [self.probes() as u32, self.positives() as u32];
        let mut aged = self.aged.lock();
        let [probes, positives] = now;
        let [seen_probes, seen_positives] = aged.seen;
        let probes = probes.wrapping_sub(seen_probes);
        let positives = positives.wrapping_sub(seen_positives);
        let keep = 1.0 - 1.0 / WINDOW as f32;
        aged.seen = now;
        if aged.unasked > 0 {
            // Of about as many lookups each.
            let unasked = std::mem::take(&mut aged.unasked);
            let faded = (1.0 - keep.powi(i32::from(unasked))) / (1.0 - keep);
            aged.lookups += lookups as f32 * faded;
            aged.age = aged.age.saturating_add(u16::from(unasked));
        }
        aged.probes = aged.probes * keep + probes as f32;
        aged.positives = aged.positives * keep + positives as f32;
        aged.lookups = aged.lookups * keep + lookups as f32;
        aged.age = aged.age.saturating_add(1);
        if probes > 0 {
            aged.last_access = u32::try_from(epoch).unwrap_or(u32::MAX);
        }
    }

    /// The last epoch in which the file was asked; 0 for never.
    pub(crate) fn last_access(&self) -> u64 {
        self.aged.lock().last_access.into()
    }

    /// How hot the file is by what was inherited and measured (SHaMBa, Eq. 12); `None` when
    /// neither says anything.
    pub(crate) fn hotness(&self) -> Option<Hotness> {
        let aged = self.aged.lock();
        if aged.lookups <= 0.0 {
            return match aged.unasked {
                0 => aged.inherited(),
                _ => Some(Hotness::NEVER),
            };
        }
        let part = |of: f32, whole: f32| f64::from(of / whole).clamp(0.0, 1.0);
        let unasked = aged.inherited().map_or(0.0, |inherited| inherited.positive);
        let measured = Hotness {
            access: part(aged.probes, aged.lookups),
            positive: if aged.probes > 0.0 {
                part(aged.positives, aged.probes)
            } else {
                unasked
            },
        };
        let Some(inherited) = aged.inherited() else {
            return Some(measured);
        };
        let weight = measured_weight(aged.age.into(), WINDOW).unwrap_or(1.0);
        let mixed = |measured, inherited| blend(measured, inherited, weight).unwrap_or(measured);
        Some(Hotness {
            access: mixed(measured.access, inherited.access),
            positive: mixed(measured.positive, inherited.positive),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_count_by_their_weight() {
        let stats = FileStats::restored(7, 2, None);
        stats.record(true, 8);
        stats.record(false, 8);
        assert_eq!((stats.probes(), stats.positives()), (23, 10));
    }

    #[test]
    fn a_new_file_is_as_hot_as_it_inherited_and_an_old_one_as_it_was_measured() {
        let inherited = Hotness {
            access: 0.8,
            positive: 0.5,
        };
        let stats = FileStats::restored(0, 0, Some(inherited));
        assert_eq!(stats.hotness(), Some(inherited));
        let mut last = inherited.access;
        for epoch in 1..=WINDOW {
            for _ in 0..100 {
                stats.record(false, 1);
            }
            stats.end_epoch(epoch, 1000);
            let now = stats.hotness().unwrap().access;
            assert!(now < last, "epoch {epoch}: {now} after {last}");
            last = now;
        }
        let old = stats.hotness().unwrap();
        assert!(
            (old.access - 0.1).abs() < 1e-7 && old.positive == 0.0,
            "{old:?}"
        );
        assert_eq!(stats.last_access(), WINDOW);
    }

    /// A file whose counters are made when it is first asked is as hot as if it had had them all
    /// along.
    #[test]
    fn epochs_without_a_lookup_count_though_there_was_no_counter() {
        let (late, ever) = (FileStats::after(3), FileStats::default());
        for epoch in 1..4 {
            ever.end_epoch(epoch, 100);
        }
        assert_eq!(late.hotness(), Some(Hotness::NEVER));
        for stats in [&late, &ever] {
            stats.record(true, 50);
            stats.end_epoch(4, 100);
        }
        let [late, ever] = [late, ever].map(|stats| stats.hotness().unwrap());
        assert!(
            (late.access - ever.access).abs() < 1e-7,
            "{late:?}, {ever:?}"
        );
    }

    #[test]
    fn what_was_measured_long_ago_fades() {
        let stats = FileStats::default();
        assert_eq!(stats.hotness(), None);
        stats.record(true, 1000);
        stats.end_epoch(1, 1000);
        assert_eq!(stats.hotness().unwrap().access, 1.0);
        for epoch in 2..100 {
            stats.end_epoch(epoch, 1000);
        }
        let cold = stats.hotness().unwrap();
        assert!(cold.access < 0.01 && cold.positive > 0.99, "{cold:?}");
        assert_eq!(stats.last_access(), 1);
        assert_eq!(stats.probes(), 1000, "the counters themselves stay");
    }

    #[test]
    fn hotness_is_kept_in_parts() {
        for (access, positive) in [(0.0, 1.0), (0.25, 1e-9), (1.0, 0.0)] {
            let hotness = Hotness { access, positive };
            assert_eq!(Hotness::from_parts(hotness.to_parts()), hotness);
        }
        assert_eq!(Hotness::from_parts([u64::MAX, 0]).access, 1.0);
    }
}
