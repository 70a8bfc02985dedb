//! Which entries a flush or compaction keeps.
//!
//! Pure. Entries come in tree order. The boundaries are the sequence numbers someone may read at:
//! every snapshot and the visible number. Of the entries of one key that fall between the same two
//! boundaries only the newest can ever be read, so the rest go. A tombstone goes too when nothing
//! older of its key can lie below and no reader needs it to hide anything: it is at or below the
//! oldest boundary, and the output is the bottom for its key. What has expired for every reader is
//! a tombstone.
//!
//! Where there are more snapshots than memory holds a list of, readers are taken to be everywhere
//! from the oldest of those on that found no place in it, and nothing newer goes.

use crate::base::clock::Moment;
use crate::base::expiring;
use crate::base::key::{EntryKind, SeqNo, Tag};

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Write it with this tag.
    Keep(Tag),
    /// No reader can see it.
    Drop,
}

/// The sequence numbers that someone may read at from now on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Boundaries {
    /// Each of these.
    pub(crate) each: Vec<SeqNo>,
    /// And, if there is such a number, any from it on.
    pub(crate) dense_from: Option<SeqNo>,
    /// The newest number that someone held.
    pub(crate) held_to: Option<SeqNo>,
    /// What expires up to this moment has expired for all of them.
    pub(crate) expired_to: Moment,
}

impl Boundaries {
    /// Whether who sees one number sees the other, for every reader.
    pub(crate) fn see_alike(&self, older: SeqNo, newer: SeqNo) -> bool {
        let between = |boundary: &SeqNo| (older..newer).contains(boundary);
        self.dense_from.is_none_or(|from| newer <= from) && !self.each.iter().any(between)
    }

    /// These alone.
    #[cfg(test)]
    pub(crate) fn of(each: &[SeqNo]) -> Self {
        Boundaries {
            each: each.to_vec(),
            ..Boundaries::default()
        }
    }
}

/// Decides entry by entry; see the module's text.
#[derive(Debug)]
pub(crate) struct Retain {
    /// Ascending.
    boundaries: Vec<SeqNo>,
    dense_from: SeqNo,
    held_to: Option<SeqNo>,
    expired_to: Moment,
    bottom: bool,
    key: Vec<u8>,
    started: bool,
    /// The index of the first boundary at or above the last kept entry of this key.
    stripe: usize,
    /// The number of that entry.
    kept: SeqNo,
    /// Whether that is an operand, which needs what is older.
    open: bool,
    /// Whether the present entry is what an operand before it needs, seen by the same readers.
    chained: bool,
    /// Entries kept although a newer one of the same key was kept too.
    pub(crate) shadowed: u64,
    /// Entries that had expired: each became a tombstone, or was dropped.
    pub(crate) expired: u64,
}

impl Retain {
    /// `bottom` says that no older entry of any key that comes lies below the output.
    pub(crate) fn new(boundaries: Boundaries, bottom: bool) -> Self {
        let Boundaries {
            each: mut boundaries,
            dense_from,
            held_to,
            expired_to,
        } = boundaries;
        boundaries.extend(dense_from);
        boundaries.sort_unstable();
        boundaries.dedup();
        Retain {
            boundaries,
            dense_from: dense_from.unwrap_or(SeqNo::MAX),
            kept: 0,
            open: false,
            chained: false,
            held_to,
            expired_to,
            expired: 0,
            bottom,
            key: Vec::new(),
            started: false,
            stripe: 0,
            shadowed: 0,
        }
    }

    /// The verdict on the next entry, over which there are these range tombstones, newest first.
    pub(crate) fn judge(&mut self, key: &[u8], tag: Tag, value: &[u8], over: &[SeqNo]) -> Verdict {
        let stripe = self.stripe_of(tag.seq());
        if self.is_hidden(tag.seq(), stripe, over) {
            self.chained = false;
            return Verdict::Drop;
        }
        let tag = self.tag_now(tag, value);
        let same_key = self.started && self.key == key;
        self.chained = same_key && stripe == self.stripe && self.open;
        // Of a newer one above where readers are everywhere, some reader sees this one instead.
        if same_key && stripe == self.stripe && self.kept <= self.dense_from && !self.chained {
            return Verdict::Drop;
        }
        if !same_key {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.started = true;
        }
        self.stripe = stripe;
        self.kept = tag.seq();
        self.open = tag.kind() == Some(EntryKind::Operand);
        let is_shadowed = same_key && !self.chained;
        // At or below the oldest boundary every reader sees this entry and nothing older.
        if self.is_settled() {
            return match tag.kind() {
                // What is merged into what is deleted is yet to learn that.
                Some(EntryKind::Delete) if !self.chained => Verdict::Drop,
                // The order of operands is that of their numbers.
                Some(EntryKind::Operand | EntryKind::Delete) | None => {
                    self.shadowed += u64::from(is_shadowed);
                    Verdict::Keep(tag)
                }
                Some(kind) => {
                    self.shadowed += u64::from(is_shadowed);
                    Verdict::Keep(Tag::new(0, kind))
                }
            };
        }
        self.shadowed += u64::from(is_shadowed);
        Verdict::Keep(tag)
    }

    fn stripe_of(&self, seq: SeqNo) -> usize {
        let boundaries = &self.boundaries;
        boundaries.partition_point(|&boundary| boundary < seq)
    }

    /// Whether a range tombstone is over an entry that every reader sees who sees the entry.
    #[inline]
    fn is_hidden(&self, seq: SeqNo, stripe: usize, over: &[SeqNo]) -> bool {
        // The last that is newer than the entry is seen by most.
        let newer = over.partition_point(|&tombstone| tombstone > seq);
        let last = newer.checked_sub(1).and_then(|last| over.get(last));
        last.is_some_and(|&last| last <= self.dense_from && self.stripe_of(last) == stripe)
    }

    /// The range tombstones of a fragment (newest first) that are to be written: of those that the
    /// same readers see the newest, and at the bottom none that all do.
    pub(crate) fn range_tombstones(&self, seqs: &[SeqNo]) -> Vec<SeqNo> {
        let mut kept: Vec<SeqNo> = Vec::new();
        for &seq in seqs {
            let stripe = self.stripe_of(seq);
            let covered = |&last: &SeqNo| last <= self.dense_from && self.stripe_of(last) == stripe;
            let is_over = self.bottom && stripe == 0;
            if !is_over && !kept.last().is_some_and(covered) {
                kept.push(seq);
            }
        }
        kept
    }

    /// Whether every reader sees the present entry, and nothing older of its key lies below.
    pub(crate) fn is_settled(&self) -> bool {
        self.bottom && self.stripe == 0
    }

    /// Whether the present entry is needed by operands before it, and seen by the same readers.
    pub(crate) fn is_chained(&self) -> bool {
        self.chained
    }

    /// Whether who sees an operand of a number sees all before it that are chained to it.
    pub(crate) fn may_collapse(&self, seq: SeqNo) -> bool {
        seq <= self.dense_from
    }

    /// The newest number that someone held: nobody who reads by now may see what is newer.
    pub(crate) fn held_to(&self) -> Option<SeqNo> {
        self.held_to
    }

    /// The tag of an entry: a tombstone's once it has expired.
    fn tag_now(&mut self, tag: Tag, value: &[u8]) -> Tag {
        let expires = tag.kind().is_some_and(EntryKind::expires);
        if expires && expiring::at(value, self.expired_to).is_none() {
            self.expired += 1;
            return Tag::new(tag.seq(), EntryKind::Delete);
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader at a number and a moment sees of a key: the number of its entry.
    fn seen(entries: &[(Tag, Moment, SeqNo)], at: SeqNo, time: Moment) -> Option<SeqNo> {
        let (tag, expiry, number) = *entries.iter().find(|(tag, ..)| tag.seq() <= at)?;
        match tag.kind()? {
            EntryKind::Put | EntryKind::Pointer => Some(number),
            EntryKind::Expiring | EntryKind::ExpiringPointer => (time < expiry).then_some(number),
            EntryKind::Delete | EntryKind::Operand => None,
        }
    }

    proptest! {
        /// Whatever is dropped, a reader at any boundary gets the same answer.
        #[test]
        fn readers_at_boundaries_see_no_difference(
            seqs in prop::collection::btree_map(1u64..40, (0..5, 0u64..10), 0..20),
            boundaries in prop::collection::vec(0u64..45, 1..6),
            dense_from in prop::option::of(0u64..45),
            expired_to in 0u64..10,
            bottom in any::<bool>(),
        ) {
            let entry = |(seq, (kind, expiry)): (SeqNo, (i32, Moment))| {
                let kind = match kind {
                    0 => EntryKind::Delete,
                    1 => EntryKind::Put,
                    2 => EntryKind::Pointer,
                    3 => EntryKind::ExpiringPointer,
                    _ => EntryKind::Expiring,
                };
                (Tag::new(seq, kind), expiry, seq)
            };
            let history: Vec<_> = seqs.into_iter().rev().map(entry).collect();
            let newest = history.first().map_or(0, |(.., number)| *number);
            let mut boundaries = boundaries;
            boundaries.push(newest);
            let each = boundaries.clone();
            let all = Boundaries { each, dense_from, expired_to, ..Boundaries::default() };
            let mut retain = Retain::new(all, bottom);
            boundaries.extend(dense_from.into_iter().flat_map(|from| from..45));
            let kept: Vec<_> = history
                .iter()
                .filter_map(|&(tag, expiry, number)| {
                    match retain.judge(b"key", tag, &expiry.to_le_bytes(), &[]) {
                        Verdict::Keep(as_tag) => Some((as_tag, expiry, number)),
                        Verdict::Drop => None,
                    }
                })
                .collect();
            for boundary in boundaries {
                for time in expired_to..12 {
                    prop_assert_eq!(seen(&history, boundary, time), seen(&kept, boundary, time));
                }
                // What hides something below stays where there may be something.
                let hides = history.iter().any(|(tag, ..)| tag.seq() <= boundary);
                let still = kept.iter().any(|(tag, ..)| tag.seq() <= boundary);
                prop_assert!(bottom || hides == still);
            }
            let stripes = kept.len();
            prop_assert!(dense_from.is_some() || stripes <= retain.boundaries.len() + 1);
        }
    }

    #[test]
    fn tombstones_go_at_the_bottom_only() {
        let delete = Tag::new(5, EntryKind::Delete);
        assert_eq!(
            Retain::new(Boundaries::of(&[9]), true).judge(b"k", delete, b"", &[]),
            Verdict::Drop
        );
        assert_eq!(
            Retain::new(Boundaries::of(&[9]), false).judge(b"k", delete, b"", &[]),
            Verdict::Keep(delete)
        );
        assert_eq!(
            Retain::new(Boundaries::of(&[4, 9]), true).judge(b"k", delete, b"", &[]),
            Verdict::Keep(delete)
        );
    }
}
