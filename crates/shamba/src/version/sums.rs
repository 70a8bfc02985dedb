//! Sums over files: plain data.

use super::FileMeta;

/// The sums over the files of a leaf, run, level or version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// How many there are.
    pub(crate) files: usize,
    /// Their bytes.
    pub(crate) size: u64,
    /// Their entries, tombstones included.
    pub(crate) entries: u64,
    /// Their tombstones.
    pub(crate) tombstones: u64,
    /// Bytes of their filter blocks.
    pub(crate) filter_bytes: u64,
    /// Bytes of their index blocks.
    pub(crate) index_bytes: u64,
    /// Their fragments of range tombstones.
    pub(crate) ranges: u64,
    /// Their operands.
    pub(crate) operands: u64,
}

impl Sums {
    pub(super) fn of(file: &FileMeta) -> Sums {
        Sums {
            files: 1,
            size: file.size(),
            entries: file.entries(),
            tombstones: file.tombstones(),
            filter_bytes: file.filter_bytes(),
            index_bytes: file.index_bytes(),
            ranges: file.ranges(),
            operands: file.operands(),
        }
    }
}

impl std::iter::Sum for Sums {
    /// Numbers come from the disk, so that no sum may overflow.
    fn sum<I: Iterator<Item = Sums>>(parts: I) -> Sums {
        parts.fold(Sums::default(), |all, part| Sums {
            files: all.files + part.files,
            size: all.size.saturating_add(part.size),
            entries: all.entries.saturating_add(part.entries),
            tombstones: all.tombstones.saturating_add(part.tombstones),
            filter_bytes: all.filter_bytes.saturating_add(part.filter_bytes),
            index_bytes: all.index_bytes.saturating_add(part.index_bytes),
            ranges: all.ranges.saturating_add(part.ranges),
            operands: all.operands.saturating_add(part.operands),
        })
    }
}
