//! Scans of the shared keyspaces: of all keys, of the keys that begin alike, of a few in a row.

use std::ops::{Bound, Range};

use shamba::{Cursor, IterOptions};

use super::super::ledger::View;
use super::super::{GROUP, entries, group_prefix, key_bytes, key_number, key_stem};
use super::writes::bounds;
use super::{HELD, Worker};

/// A cursor that is held across other operations.
pub(super) struct HeldIter<'a> {
    view: View<'a>,
    keyspace: usize,
    /// The keys that lie within its bounds.
    range: Range<u32>,
    iter: Cursor,
}

/// What is scanned.
pub(super) struct Stretch {
    pub(super) keyspace: usize,
    /// The keys that lie within the bounds.
    pub(super) range: Range<u32>,
    pub(super) options: IterOptions,
}

impl Worker<'_> {
    /// What to scan: mostly keys that filters can be asked for.
    pub(super) fn some_stretch(&mut self) -> Stretch {
        let (keyspace, from) = self.any_key();
        let (range, options) = match self.rng.below(10) {
            0 => (0..self.shared.keys, IterOptions::default()),
            1 => {
                let to = self.any_key().1;
                let range = from.min(to)..from.max(to);
                let options = IterOptions::range(key_bytes(range.start)..key_bytes(range.end));
                (range, options)
            }
            2..5 => {
                let group = from / GROUP;
                let prefix = IterOptions::prefix(group_prefix(group));
                let all = group * GROUP..(group + 1) * GROUP;
                match self.rng.below(3) {
                    0 => (
                        from..all.end,
                        prefix.lower(Bound::Included(key_bytes(from))),
                    ),
                    _ => (all, prefix),
                }
            }
            5 => (from..from + 1, IterOptions::prefix(key_stem(from))),
            _ => {
                let range = from..from + self.rng.between(1, 6) as u32;
                let (lower, upper) = bounds(&mut self.rng, &range);
                (range, IterOptions::default().lower(lower).upper(upper))
            }
        };
        let options = options.fill_cache(self.rng.one_in(2));
        Stretch {
            keyspace,
            range,
            options,
        }
    }

    pub(super) fn open_iter(&mut self) {
        let Stretch {
            keyspace,
            range,
            options,
        } = self.some_stretch();
        let mut view = self.shared.ledger.view();
        let iter = self.keyspaces[keyspace].cursor(options);
        let Some(iter) = self.shared.unless_refused(iter) else {
            return self.drop_one();
        };
        view.taken();
        let iter = HeldIter {
            view,
            keyspace,
            range,
            iter,
        };
        self.iters.push_back(iter);
        if self.iters.len() > HELD {
            self.iters.pop_front();
        }
    }

    /// Seeks to a key and goes some steps from there, forward or backward. Everything between the
    /// two ends is judged.
    pub(super) fn move_iter(&mut self) {
        let anywhere = self.any_key().1;
        let forward = self.rng.one_in(2);
        let steps = self.rng.below(20);
        let beside = self.rng.one_in(8);
        let Some(held) = self.iters.front_mut() else {
            return;
        };
        let (iter, all) = (&mut held.iter, held.range.clone());
        let from = if beside || all.is_empty() {
            anywhere
        } else {
            all.start + anywhere % (all.end - all.start)
        };
        let mut entries = Vec::new();
        let mut moved = if forward {
            iter.seek(key_bytes(from))
        } else {
            iter.seek_for_prev(key_bytes(from))
        };
        for step in 0.. {
            if self.shared.unless_refused(moved).is_none() {
                self.iters.pop_front();
                return;
            }
            if step > steps || !iter.valid() {
                break;
            }
            entries.push((key_number(iter.key()), iter.value().to_vec()));
            moved = if forward { iter.next() } else { iter.prev() };
        }
        let last = entries.last().map(|entry| entry.0).filter(|_| iter.valid());
        let range = if forward {
            from.max(all.start)..last.map_or(all.end, |last| last + 1)
        } else {
            entries.reverse();
            last.unwrap_or(all.start)..all.end.min(from + 1)
        };
        let how = if forward { "a scan" } else { "a backward scan" };
        self.shared
            .judge_stretch(&mut held.view, held.keyspace, range, &entries, how);
        self.iters.rotate_left(1);
    }

    /// A part of a keyspace, from one end or the other.
    pub(super) fn scan(&mut self) {
        let Stretch {
            keyspace,
            range,
            options,
        } = self.some_stretch();
        let backward = self.rng.one_in(3);
        let mut view = self.shared.ledger.view();
        let iter = self.keyspaces[keyspace].iter_with(options);
        view.taken();
        let read = if backward {
            entries(iter.rev()).map(|mut entries| {
                entries.reverse();
                entries
            })
        } else {
            entries(iter)
        };
        let Some(entries) = self.shared.unless_refused(read) else {
            return self.drop_one();
        };
        self.shared
            .judge_stretch(&mut view, keyspace, range, &entries, "a scan of a range");
    }

    /// The same at the snapshot taken last.
    pub(super) fn scan_snapshot(&mut self) {
        let Stretch {
            keyspace,
            range,
            options,
        } = self.some_stretch();
        let real = &self.keyspaces[keyspace];
        let Some((snapshot, view)) = self.snapshots.back_mut() else {
            return;
        };
        let iter = snapshot.iter_in(real, options);
        let Some(entries) = self.shared.unless_refused(entries(iter)) else {
            return self.drop_one();
        };
        self.shared
            .judge_stretch(view, keyspace, range, &entries, "a scan at a snapshot");
        self.snapshots.rotate_left(1);
    }
}
