//! The value files of a keyspace: tables of the values that other tables point to, and how much of
//! each still is pointed to. What an edit makes of them is worked out from the tables that come and
//! go with it, so that nothing is counted twice or forgotten. Immutable; shared by versions.

use std::sync::Arc;

use super::edit::VALUE_LEVEL;
use super::{FileMeta, Inconsistent, KeyspaceEdit};

/// A value file.
#[derive(Debug, Clone)]
pub(crate) struct ValueFile {
    /// Its table.
    pub(crate) file: FileMeta,
    /// Bytes of its values that tables of the version point to; a value that two tables point to
    /// counts twice.
    pub(crate) live: u64,
}

impl ValueFile {
    /// The bytes of all its values.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.pointed_to().next().map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes of values that no table points to.
    pub(crate) fn garbage(&self) -> u64 {
        self.bytes().saturating_sub(self.live)
    }

    /// Whether more than half of it is garbage: what is left is then written to another file when
    /// a merge comes to it. So a value's byte is written once more, at most, for each that is given
    /// back.
    pub(crate) fn is_mostly_garbage(&self) -> bool {
        self.garbage() > self.live
    }
}

/// The value files of a version, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueFiles(Arc<[ValueFile]>);

impl ValueFiles {
    /// The file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<&ValueFile> {
        self.0.get(self.place(number).ok()?)
    }

    /// All, by number.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, ValueFile> {
        self.0.iter()
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&number, |held| held.file.number())
    }

    /// Those after an edit.
    pub(super) fn apply(&self, edit: &KeyspaceEdit) -> Result<ValueFiles, Inconsistent> {
        let gone = || edit.removes.iter().filter(|gone| gone.level == VALUE_LEVEL);
        let new = || edit.adds.iter().filter(|added| added.level == VALUE_LEVEL);
        let points = |file: &FileMeta| file.pointed_to().next().is_some();
        // Most edits have nothing to do with them.
        if !edit.removes.iter().any(|gone| points(&gone.file))
            && !edit.adds.iter().any(|added| points(&added.file))
        {
            return Ok(self.clone());
        }
        let mut files = self.0.to_vec();
        for added in new() {
            let file = added.file.clone();
            files.push(ValueFile { file, live: 0 });
        }
        files.sort_by_key(|held| held.file.number());
        // What of a file is pointed to changes so.
        let mut count = |number: u64, change: &dyn Fn(u64) -> Option<u64>| {
            let place = files.binary_search_by_key(&number, |held| held.file.number());
            let held = place.ok().and_then(|at| files.get_mut(at));
            let held = held.ok_or_else(|| {
                Inconsistent::new(format!(
                    "a table points to value file {number}, which is none"
                ))
            })?;
            held.live = change(held.live).ok_or_else(|| {
                let what = "a table that leaves pointed to more of value file";
                Inconsistent::new(format!("{what} {number} than is counted"))
            })?;
            Ok(())
        };
        // First what is pointed to from now on, so that nothing is counted below none.
        let in_tables = edit.adds.iter().filter(|added| added.level != VALUE_LEVEL);
        for (number, bytes) in in_tables.flat_map(|added| added.file.pointed_to()) {
            count(number, &|live| live.checked_add(bytes))?;
        }
        let of_tables = edit.removes.iter().filter(|gone| gone.level != VALUE_LEVEL);
        for (number, bytes) in of_tables.flat_map(|gone| gone.file.pointed_to()) {
            count(number, &|live| live.checked_sub(bytes))?;
        }
        // Files that leave are pointed to by none.
        for gone in gone() {
            let number = gone.file.number();
            let place = files.binary_search_by_key(&number, |held| held.file.number());
            let Some(held) = place.ok().map(|at| files.remove(at)) else {
                let what = format!("value file {number} leaves, which is none");
                return Err(Inconsistent::new(what));
            };
            if held.live > 0 {
                let what = format!("value file {number} leaves, to which tables point");
                return Err(Inconsistent::new(what));
            }
        }
        Ok(ValueFiles(files.into()))
    }

    /// Those to which no table points after an edit, which is to take them out, but for those that
    /// something else holds.
    pub(crate) fn left_by(
        &self,
        edit: &KeyspaceEdit,
        is_held: impl Fn(u64) -> bool,
    ) -> Result<Vec<FileMeta>, Inconsistent> {
        let after = self.apply(edit)?;
        let mut left = Vec::new();
        for unused in after.iter().filter(|after| after.live == 0) {
            if !is_held(unused.file.number()) {
                left.push(unused.file.clone());
            }
        }
        Ok(left)
    }

    /// No two have a number, and what is pointed to is there.
    pub(super) fn check(&self) -> Result<(), Inconsistent> {
        let mut pairs = self.0.windows(2);
        let twice = pairs.find_map(|pair| match pair {
            [a, b] if a.file.number() >= b.file.number() => Some(a.file.number()),
            _ => None,
        });
        match twice {
            None => Ok(()),
            Some(number) => Err(Inconsistent::new(format!(
                "value file {number} appears twice"
            ))),
        }
    }
}
