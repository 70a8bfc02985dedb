//! The state of the whole tree: every keyspace's current version and the counters. A value:
//! applying an edit gives a new state and leaves the old one alone. The manifest holds the current
//! one, and recovery rebuilds it by applying every edit from an empty one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::edit::{AddedFile, FORMAT};
use super::{FileMeta, Inconsistent, KeyspaceEdit, StoredDesign, Version, VersionEdit};
use crate::base::key::SeqNo;

/// One keyspace.
#[derive(Debug, Clone)]
pub(crate) struct KeyspaceState {
    /// Its name.
    pub(crate) name: String,
    /// Its tables.
    pub(crate) version: Arc<Version>,
    /// Everything up to this sequence number is in tables.
    pub(crate) flushed_seq: SeqNo,
    /// The design last asked for, if ever one was.
    pub(crate) design: Option<StoredDesign>,
}

/// All keyspaces and counters.
#[derive(Debug, Clone)]
pub(crate) struct TreeState {
    /// The keyspaces by id.
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
    /// The next number for a file or log.
    pub(crate) next_file: u64,
    /// The next run's id.
    pub(crate) next_run: u64,
    /// The next keyspace's id.
    pub(crate) next_keyspace: u32,
    /// The newest sequence number known to be used.
    pub(crate) last_seq: SeqNo,
    /// Logs with smaller numbers are needed no more.
    pub(crate) log_number: u64,
    /// The next value of the install counter that files' `created` comes from: one more than the
    /// newest file's.
    pub(crate) next_created: u64,
}

impl Default for TreeState {
    fn default() -> Self {
        TreeState {
            keyspaces: BTreeMap::new(),
            next_file: 1,
            next_run: 1,
            next_keyspace: 0,
            last_seq: 0,
            log_number: 0,
            next_created: 1,
        }
    }
}

impl TreeState {
    /// The state after an edit.
    pub(crate) fn apply(&self, edit: &VersionEdit) -> Result<TreeState, Inconsistent> {
        let mut state = self.clone();
        state.next_file = state.next_file.max(edit.next_file.unwrap_or(0));
        state.next_run = state.next_run.max(edit.next_run.unwrap_or(0));
        state.next_keyspace = state.next_keyspace.max(edit.next_keyspace.unwrap_or(0));
        state.last_seq = state.last_seq.max(edit.last_seq.unwrap_or(0));
        state.log_number = state.log_number.max(edit.log_number.unwrap_or(0));
        for change in &edit.keyspaces {
            state.apply_keyspace(change)?;
        }
        Ok(state)
    }

    fn apply_keyspace(&mut self, change: &KeyspaceEdit) -> Result<(), Inconsistent> {
        let id = change.id;
        if let Some(name) = &change.create {
            if let Some((other, _)) = self.keyspaces.iter().find(|(_, ks)| ks.name == *name) {
                return Err(Inconsistent::new(format!(
                    "keyspace {id} takes the name of keyspace {other}"
                )));
            }
            let created = KeyspaceState {
                name: name.clone(),
                version: Arc::new(Version::default()),
                flushed_seq: 0,
                design: None,
            };
            if self.keyspaces.insert(id, created).is_some() {
                return Err(Inconsistent::new(format!("keyspace {id} exists already")));
            }
            let next = id.checked_add(1);
            let next = next.ok_or_else(|| Inconsistent::new("keyspace ids are used up"))?;
            self.next_keyspace = self.next_keyspace.max(next);
        }
        let keyspace = self
            .keyspaces
            .get_mut(&id)
            .ok_or_else(|| Inconsistent::new(format!("keyspace {id} does not exist")))?;
        keyspace.version = Arc::new(keyspace.version.apply(change)?);
        keyspace.flushed_seq = keyspace.flushed_seq.max(change.flushed_seq.unwrap_or(0));
        keyspace.design = change.design.or(keyspace.design);
        for added in &change.adds {
            self.next_file = self.next_file.max(added.file.number.saturating_add(1));
            self.next_run = self.next_run.max(added.run.saturating_add(1));
            self.next_created = self.next_created.max(added.file.created.saturating_add(1));
            self.last_seq = self.last_seq.max(added.file.max_seq);
        }
        for moved in &change.moves {
            self.next_run = self.next_run.max(moved.run.saturating_add(1));
        }
        if change.drop {
            self.keyspaces.remove(&id);
        }
        Ok(())
    }

    /// The edit that rebuilds this state from an empty one.
    pub(crate) fn snapshot(&self) -> VersionEdit {
        let keyspaces = self
            .keyspaces
            .iter()
            .map(|(&id, keyspace)| KeyspaceEdit {
                id,
                create: Some(keyspace.name.clone()),
                flushed_seq: Some(keyspace.flushed_seq),
                design: keyspace.design,
                adds: keyspace
                    .version
                    .runs()
                    .flat_map(|(level, run)| {
                        run.files().iter().map(move |file| AddedFile {
                            level: level as u32,
                            run: run.id(),
                            file: Arc::clone(file),
                        })
                    })
                    .collect(),
                ..KeyspaceEdit::default()
            })
            .collect();
        VersionEdit {
            format: Some(FORMAT),
            log_number: Some(self.log_number),
            next_file: Some(self.next_file),
            next_run: Some(self.next_run),
            last_seq: Some(self.last_seq),
            next_keyspace: Some(self.next_keyspace),
            keyspaces,
        }
    }

    /// The files an edit takes out of the tree, to be marked obsolete once it is durable.
    pub(crate) fn files_dropped_by(&self, edit: &VersionEdit) -> Vec<Arc<FileMeta>> {
        let mut dropped = Vec::new();
        for change in &edit.keyspaces {
            let Some(keyspace) = self.keyspaces.get(&change.id) else {
                continue;
            };
            let mut gone: HashSet<u64> = change.removes.iter().map(|gone| gone.number).collect();
            // Taken out at one place and put in at another: still there.
            for added in &change.adds {
                gone.remove(&added.file.number);
            }
            let files = keyspace.version.files();
            dropped.extend(
                files
                    .filter(|file| change.drop || gone.contains(&file.number))
                    .cloned(),
            );
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_meta::FileInfo;
    use super::super::{MovedFile, RemovedFile};
    use super::*;

    fn add(number: u64, level: u32, run: u64, range: (&str, &str)) -> AddedFile {
        AddedFile {
            level,
            run,
            file: Arc::new(FileMeta::new(FileInfo {
                number,
                size: 10,
                entries: 2,
                smallest: range.0.as_bytes().into(),
                largest: range.1.as_bytes().into(),
                min_seq: number * 10,
                max_seq: number * 10 + 9,
                created: number,
                ..FileInfo::default()
            })),
        }
    }

    fn edit(f: impl FnOnce(&mut KeyspaceEdit)) -> VersionEdit {
        let mut change = KeyspaceEdit::default();
        f(&mut change);
        VersionEdit::of_keyspace(change)
    }

    fn base() -> TreeState {
        TreeState::default()
            .apply(&edit(|k| {
                k.create = Some("default".into());
                k.design = Some(StoredDesign {
                    size_ratio: 4,
                    ..StoredDesign::default()
                });
                k.adds = vec![
                    add(1, 0, 1, ("a", "m")),
                    add(2, 0, 2, ("c", "z")),
                    add(3, 2, 3, ("a", "f")),
                    add(4, 2, 3, ("g", "z")),
                ];
            }))
            .unwrap()
    }

    fn shape(state: &TreeState) -> Vec<(usize, u64, Vec<u64>)> {
        let version = &state.keyspaces[&0].version;
        version.check().unwrap();
        version
            .runs()
            .map(|(level, run)| {
                (
                    level,
                    run.id(),
                    run.files().iter().map(|f| f.number).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn edits_add_remove_and_move() {
        let state = base();
        assert_eq!(
            shape(&state),
            [(0, 2, vec![2]), (0, 1, vec![1]), (2, 3, vec![3, 4])]
        );
        assert_eq!(
            (state.next_file, state.next_keyspace, state.last_seq),
            (5, 1, 49)
        );
        assert_eq!(state.next_created, 5);
        let after = state
            .apply(&edit(|k| {
                k.removes = vec![RemovedFile {
                    level: 2,
                    number: 3,
                }];
                k.moves = vec![MovedFile {
                    number: 1,
                    from: 0,
                    to: 1,
                    run: 9,
                }];
                k.adds = vec![add(7, 2, 3, ("b", "c")), add(8, 2, 3, ("d", "d"))];
            }))
            .unwrap();
        assert_eq!(
            shape(&after),
            [(0, 2, vec![2]), (1, 9, vec![1]), (2, 3, vec![7, 8, 4])]
        );
        assert_eq!((after.next_file, after.next_run), (9, 10));
        assert_eq!(shape(&state).len(), 3, "the old state is untouched");
        let untouched = |s: &TreeState| Arc::clone(&s.keyspaces[&0].version.runs_of(0)[0]);
        assert!(Arc::ptr_eq(&untouched(&state), &untouched(&after)));
    }

    #[test]
    fn emptied_runs_and_levels_vanish() {
        let state = base()
            .apply(&edit(|k| {
                k.removes = vec![
                    RemovedFile {
                        level: 2,
                        number: 3,
                    },
                    RemovedFile {
                        level: 2,
                        number: 4,
                    },
                ];
            }))
            .unwrap();
        assert_eq!(state.keyspaces[&0].version.levels().len(), 1);
    }

    #[test]
    fn snapshots_rebuild_the_state() {
        let state = base();
        let edit = VersionEdit::decode(&state.snapshot().encode()).unwrap();
        let back = TreeState::default().apply(&edit).unwrap();
        assert_eq!(format!("{back:?}"), format!("{state:?}"));
    }

    #[test]
    fn ids_of_dropped_keyspaces_are_not_used_again() {
        let state = base();
        let drop_it = edit(|k| k.drop = true);
        let dropped: Vec<_> = state
            .files_dropped_by(&drop_it)
            .iter()
            .map(|f| f.number)
            .collect();
        assert_eq!(dropped, [2, 1, 3, 4]);
        let state = state.apply(&drop_it).unwrap();
        assert!(state.keyspaces.is_empty());
        let edit = VersionEdit::decode(&state.snapshot().encode()).unwrap();
        assert_eq!(TreeState::default().apply(&edit).unwrap().next_keyspace, 1);
    }

    #[test]
    fn contradictions_are_refused() {
        let gone = |level, number| edit(move |k| k.removes = vec![RemovedFile { level, number }]);
        let moved = |number, from, to, run| {
            edit(move |k| {
                k.moves = vec![MovedFile {
                    number,
                    from,
                    to,
                    run,
                }]
            })
        };
        let cases = [
            ("missing file", gone(2, 9), "file 9 is not in level 2"),
            ("wrong level", gone(1, 3), "file 3 is not in level 1"),
            (
                "overlap",
                edit(|k| k.adds = vec![add(9, 2, 3, ("f", "f"))]),
                "overlap",
            ),
            (
                "number twice",
                edit(|k| k.adds = vec![add(1, 1, 9, ("f", "f"))]),
                "file 1 appears twice",
            ),
            (
                "run in two levels",
                edit(|k| k.adds = vec![add(9, 1, 3, ("f", "f"))]),
                "two runs have the id 3",
            ),
            ("move onto", moved(1, 0, 2, 3), "overlap"),
            (
                "move missing",
                moved(1, 1, 2, 9),
                "file 1 is not in level 1",
            ),
            (
                "removed and moved",
                edit(|k| {
                    k.removes = vec![RemovedFile {
                        level: 0,
                        number: 1,
                    }];
                    k.moves = vec![MovedFile {
                        number: 1,
                        from: 0,
                        to: 1,
                        run: 9,
                    }];
                }),
                "twice",
            ),
            (
                "unknown keyspace",
                edit(|k| k.id = 5),
                "keyspace 5 does not exist",
            ),
            (
                "created twice",
                edit(|k| k.create = Some("x".into())),
                "exists already",
            ),
            (
                "name taken",
                edit(|k| {
                    k.id = 5;
                    k.create = Some("default".into())
                }),
                "takes the name",
            ),
        ];
        let state = base();
        for (name, edit, want) in cases {
            let err = state.apply(&edit).expect_err(name);
            assert!(err.what.contains(want), "{name}: {err}");
        }
    }

    #[test]
    fn check_notices_level_0_runs_out_of_order() {
        let state = base()
            .apply(&edit(|k| k.adds = vec![add(0, 0, 9, ("a", "b"))]))
            .unwrap();
        let err = state.keyspaces[&0].version.check().unwrap_err();
        assert!(err.what.contains("not older"), "{err}");
    }
}
