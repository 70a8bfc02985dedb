//! Which entries a flush or compaction keeps.
//!
//! Pure. Entries come in tree order. The boundaries are the sequence numbers someone may read at:
//! every snapshot and the visible number. Of the entries of one key that fall between the same two
//! boundaries only the newest can ever be read, so the rest go. A tombstone goes too when nothing
//! older of its key can lie below and no reader needs it to hide anything: it is at or below the
//! oldest boundary, and the output is the bottom for its key.
//!
//! Where there are more snapshots than memory holds a list of, readers are taken to be everywhere
//! from the oldest of those on that found no place in it, and nothing newer goes.

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
}

impl Boundaries {
    /// These alone.
    #[cfg(test)]
    pub(crate) fn of(each: &[SeqNo]) -> Self {
        Boundaries {
            each: each.to_vec(),
            dense_from: None,
        }
    }
}

/// Decides entry by entry; see the module's text.
#[derive(Debug)]
pub(crate) struct Retain {
    /// Ascending.
    boundaries: Vec<SeqNo>,
    dense_from: SeqNo,
    bottom: bool,
    key: Vec<u8>,
    started: bool,
    /// The index of the first boundary at or above the last kept entry of this key.
    stripe: usize,
    /// The number of that entry.
    kept: SeqNo,
    /// Entries kept although a newer one of the same key was kept too.
    pub(crate) shadowed: u64,
}

impl Retain {
    /// `bottom` says that no older entry of any key that comes lies below the output.
    pub(crate) fn new(boundaries: Boundaries, bottom: bool) -> Self {
        let Boundaries {
            each: mut boundaries,
            dense_from,
        } = boundaries;
        boundaries.extend(dense_from);
        boundaries.sort_unstable();
        boundaries.dedup();
        Retain {
            boundaries,
            dense_from: dense_from.unwrap_or(SeqNo::MAX),
            kept: 0,
            bottom,
            key: Vec::new(),
            started: false,
            stripe: 0,
            shadowed: 0,
        }
    }

    /// The verdict on the next entry.
    pub(crate) fn judge(&mut self, key: &[u8], tag: Tag) -> Verdict {
        let stripe = self
            .boundaries
            .partition_point(|&boundary| boundary < tag.seq());
        let same_key = self.started && self.key == key;
        // Of a newer one above where readers are everywhere, some reader sees this one instead.
        if same_key && stripe == self.stripe && self.kept <= self.dense_from {
            return Verdict::Drop;
        }
        if !same_key {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.started = true;
        }
        self.stripe = stripe;
        self.kept = tag.seq();
        // At or below the oldest boundary every reader sees this entry and nothing older.
        let settled = stripe == 0;
        if settled && self.bottom {
            return match tag.kind() {
                Some(EntryKind::Delete) => Verdict::Drop,
                Some(kind) => {
                    self.shadowed += u64::from(same_key);
                    Verdict::Keep(Tag::new(0, kind))
                }
                None => Verdict::Keep(tag),
            };
        }
        self.shadowed += u64::from(same_key);
        Verdict::Keep(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is dropped, a reader at any boundary gets the same answer.
        #[test]
        fn readers_at_boundaries_see_no_difference(
            mut seqs in prop::collection::btree_map(1u64..40, any::<bool>(), 0..20),
            boundaries in prop::collection::vec(0u64..45, 1..6),
            dense_from in prop::option::of(0u64..45),
            bottom in any::<bool>(),
        ) {
            let history: Vec<Tag> = std::mem::take(&mut seqs)
                .into_iter()
                .rev()
                .map(|(seq, put)| {
                    Tag::new(seq, if put { EntryKind::Put } else { EntryKind::Delete })
                })
                .collect();
            let newest = history.first().map_or(0, |tag| tag.seq());
            let mut boundaries = boundaries;
            boundaries.push(newest);
            let each = boundaries.clone();
            let mut retain = Retain::new(Boundaries { each, dense_from }, bottom);
            boundaries.extend(dense_from.into_iter().flat_map(|from| from..45));
            let kept: Vec<(Tag, Tag)> = history
                .iter()
                .filter_map(|&tag| match retain.judge(b"key", tag) {
                    Verdict::Keep(as_tag) => Some((tag, as_tag)),
                    Verdict::Drop => None,
                })
                .collect();
            for boundary in boundaries {
                let before = history.iter().find(|tag| tag.seq() <= boundary);
                let after = kept.iter().find(|(_, as_tag)| as_tag.seq() <= boundary);
                match (before, after) {
                    (Some(before), Some((original, _))) => prop_assert_eq!(before, original),
                    (Some(before), None) => {
                        prop_assert!(bottom && before.kind() == Some(EntryKind::Delete));
                    }
                    (None, None) => {}
                    (None, Some((original, _))) => {
                        prop_assert!(false, "{:?} came from nowhere", original)
                    }
                }
            }
            let stripes = kept.len();
            prop_assert!(dense_from.is_some() || stripes <= retain.boundaries.len() + 1);
        }
    }

    #[test]
    fn tombstones_go_at_the_bottom_only() {
        let delete = Tag::new(5, EntryKind::Delete);
        assert_eq!(
            Retain::new(Boundaries::of(&[9]), true).judge(b"k", delete),
            Verdict::Drop
        );
        assert_eq!(
            Retain::new(Boundaries::of(&[9]), false).judge(b"k", delete),
            Verdict::Keep(delete)
        );
        assert_eq!(
            Retain::new(Boundaries::of(&[4, 9]), true).judge(b"k", delete),
            Verdict::Keep(delete)
        );
    }
}
