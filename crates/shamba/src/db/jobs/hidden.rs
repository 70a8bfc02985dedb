//! Tables that a range tombstone hides from every reader leave the tree without being read, with
//! the edit that brings the tombstone to a place.

use crate::base::fragment::successor;
use crate::compaction::{Boundaries, FragmentMerge, hidden_files};
use crate::error::Result;
use crate::version::{FileMeta, RemovedFile, Version};

/// Files of a version that the fragments hide, if there are any fragments.
pub(super) fn hidden(
    version: &Version,
    fragments: Option<FragmentMerge>,
    boundaries: &Boundaries,
) -> Result<Vec<FileMeta>> {
    let hidden = fragments.map(|mut all| hidden_files(version, &mut all, boundaries));
    Ok(hidden.transpose()?.unwrap_or_default())
}

/// How those of them leave the tree that are in it by now, and that no merge has. The caller holds
/// the tree.
pub(super) fn removes(version: &Version, hidden: &[FileMeta]) -> Vec<RemovedFile> {
    let free = hidden.iter().filter(|file| !file.is_busy());
    let remove = |file: &FileMeta| {
        let mut runs = version.runs();
        let (level, _) = runs.find(|(_, run)| run.position_of(file).is_some())?;
        Some(RemovedFile {
            level: level as u32,
            file: file.clone(),
        })
    };
    free.filter_map(remove).collect()
}

/// The end of the keys up to one, which is one of them. It may be longer than any key, as the end
/// of a range tombstone in a table.
pub(super) fn end_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first of the keys after one.
pub(super) fn start_after(key: &[u8]) -> Vec<u8> {
    successor(key)
}
