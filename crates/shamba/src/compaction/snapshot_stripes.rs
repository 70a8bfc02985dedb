//! Which entries a flush or compaction keeps.
//!
//! Pure. Entries come in tree order. The boundaries are the sequence numbers someone may read at:
//! every snapshot and the visible number. Of the entries of one key that fall between the same two
//! boundaries only the newest can ever be read, so the rest go. A tombstone goes too when nothing
//! older of its key can lie below and no reader needs it to hide anything: it is at or below the
//! oldest boundary, and the output is the bottom for its key.

use crate::base::key::{EntryKind, SeqNo, Tag};

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Write it with this tag.
    Keep(Tag),
    /// No reader can see it.
    Drop,
}

/// Decides entry by entry; see the module's text.
#[derive(Debug)]
pub(crate) struct Retain {
    /// Ascending.
    boundaries: Vec<SeqNo>,
    bottom: bool,
    key: Vec<u8>,
    started: bool,
    /// The index of the first boundary at or above the last kept entry of this key.
    stripe: usize,
    /// Entries kept although a newer one of the same key was kept too.
    pub(crate) shadowed: u64,
}

impl Retain {
    /// `boundaries` need not be sorted. `bottom` says that no older entry of any key that comes
    /// lies below the output.
    pub(crate) fn new(mut boundaries: Vec<SeqNo>, bottom: bool) -> Self {
        boundaries.sort_unstable();
        boundaries.dedup();
        Retain {
            boundaries,
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
        if same_key && stripe == self.stripe {
            return Verdict::Drop;
        }
        if !same_key {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.started = true;
        }
        self.stripe = stripe;
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
            bottom in any::<bool>(),
        ) {
            let history: Vec<Tag> = std::mem::take(&mut seqs)
                .into_iter()
                .rev()
                .map(|(seq, put)| Tag::new(seq, if put { EntryKind::Put } else { EntryKind::Delete }))
                .collect();
            let newest = history.first().map_or(0, |tag| tag.seq());
            let mut boundaries = boundaries;
            boundaries.push(newest);
            let mut retain = Retain::new(boundaries.clone(), bottom);
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
                    (None, Some((original, _))) => prop_assert!(false, "{:?} came from nowhere", original),
                }
            }
            let stripes = kept.len();
            prop_assert!(stripes <= retain.boundaries.len() + 1);
        }
    }

    #[test]
    fn tombstones_go_at_the_bottom_only() {
        let delete = Tag::new(5, EntryKind::Delete);
        assert_eq!(
            Retain::new(vec![9], true).judge(b"k", delete),
            Verdict::Drop
        );
        assert_eq!(
            Retain::new(vec![9], false).judge(b"k", delete),
            Verdict::Keep(delete)
        );
        assert_eq!(
            Retain::new(vec![4, 9], true).judge(b"k", delete),
            Verdict::Keep(delete)
        );
    }
}
