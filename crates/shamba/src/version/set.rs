//! The state of the whole tree: every keyspace's current version and the counters. The manifest
//! holds the current one, and recovery rebuilds it by applying every edit to an empty one. What an
//! edit changes is worked out first ([`TreeState::after`]) and put in its place once the edit is
//! durable; it costs as much as the keyspaces that the edit names, however many others there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::edit::{EditPart, FORMAT, VALUE_LEVEL};
use super::feature::Features;
use super::{FileMeta, Inconsistent, KeyspaceEdit, StoredDesign, Version, VersionEdit};
use crate::base::key::SeqNo;
use crate::wal::{LogInfo, Reached};

/// Files that a snapshot's edit is made of at a time: with keys of 64 bytes, about as many as a
/// record holds.
const FILES_OF_PART: usize = 256;

/// One keyspace.
#[derive(Debug, Clone)]
pub(crate) struct KeyspaceState {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Its tables.
    pub(crate) version: Arc<Version>,
    /// Everything up to this sequence number is in tables.
    pub(crate) flushed_seq: SeqNo,
    /// Tables hold what was logged before this position, or some of it.
    pub(crate) reach: u64,
    /// The design last asked for, if ever one was.
    pub(crate) design: Option<StoredDesign>,
    /// Its options, as `options::kept` encodes them; none of a keyspace made before they were kept.
    pub(crate) options: Option<Arc<[u8]>>,
    /// The name of its merge operator, once it has had one.
    pub(crate) operator: Option<Arc<str>>,
}

/// All keyspaces and counters.
#[derive(Debug, Clone)]
pub(crate) struct TreeState {
    /// What a reader must know beyond the format: what is, or was, used.
    pub(crate) features: Features,
    /// The keyspaces by id.
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
    /// Their ids by name.
    pub(super) names: HashMap<Arc<str>, u32>,
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
    /// The others, by number. What is not in tables is in these, and they go on
    /// from one another.
    pub(crate) logs: BTreeMap<u64, LogInfo>,
    /// They are durable up to this position.
    pub(crate) logs_durable: u64,
    /// The next value of the install counter that files' `created` comes from: one more than the
    /// newest file's.
    pub(crate) next_created: u64,
}

impl Default for TreeState {
    fn default() -> Self {
        TreeState {
            features: Features::new(),
            keyspaces: BTreeMap::new(),
            names: HashMap::new(),
            next_file: 1,
            next_run: 1,
            next_keyspace: 0,
            last_seq: 0,
            log_number: 0,
            logs: BTreeMap::new(),
            logs_durable: 0,
            next_created: 1,
        }
    }
}

/// What an edit makes of a state: checked, and not yet in its place.
#[derive(Debug)]
pub(crate) struct StateChange {
    /// Features that are used from now on.
    features: Features,
    next_file: u64,
    next_run: u64,
    next_keyspace: u32,
    last_seq: SeqNo,
    log_number: u64,
    /// Logs that were created.
    logs: Vec<LogInfo>,
    logs_durable: u64,
    next_created: u64,
    /// Keyspaces that are made, changed or dropped.
    keyspaces: BTreeMap<u32, Option<KeyspaceState>>,
    /// Names that are taken or given up.
    names: HashMap<Arc<str>, Option<u32>>,
}

impl TreeState {
    /// Applies an edit. An error leaves everything as it was.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<(), Inconsistent> {
        let change = self.after(edit)?;
        self.set(change);
        Ok(())
    }

    /// What an edit changes. Touches the keyspaces that the edit names and no others.
    pub(crate) fn after(&self, edit: &VersionEdit) -> Result<StateChange, Inconsistent> {
        let mut after = StateChange {
            features: edit.features.clone(),
            next_file: self.next_file.max(edit.next_file.unwrap_or(0)),
            next_run: self.next_run.max(edit.next_run.unwrap_or(0)),
            next_keyspace: self.next_keyspace.max(edit.next_keyspace.unwrap_or(0)),
            last_seq: self.last_seq.max(edit.last_seq.unwrap_or(0)),
            log_number: self.log_number.max(edit.log_number.unwrap_or(0)),
            logs: edit.logs.clone(),
            logs_durable: self.logs_durable.max(edit.logs_durable.unwrap_or(0)),
            next_created: self.next_created,
            keyspaces: BTreeMap::new(),
            names: HashMap::new(),
        };
        let mut last = self.logs.last_key_value().map(|(&number, _)| number);
        for log in &edit.logs {
            if last.is_some_and(|last| log.number <= last) {
                let what = format!("log {} comes after a later one", log.number);
                return Err(Inconsistent::new(what));
            }
            // A snapshot would not have it, and so another state than the edits that led here.
            if log.number < after.log_number {
                let what = format!("log {} was given up before it is created", log.number);
                return Err(Inconsistent::new(what));
            }
            last = Some(log.number);
            after.next_file = after.next_file.max(log.number.saturating_add(1));
        }
        for change in &edit.keyspaces {
            after.apply_keyspace(self, change)?;
        }
        Ok(after)
    }

    /// Puts a change of this state in its place.
    pub(crate) fn set(&mut self, change: StateChange) {
        self.features.extend(change.features);
        self.next_file = change.next_file;
        self.next_run = change.next_run;
        self.next_keyspace = change.next_keyspace;
        self.last_seq = change.last_seq;
        self.logs
            .extend(change.logs.iter().map(|log| (log.number, *log)));
        if self.log_number != change.log_number {
            self.log_number = change.log_number;
            self.logs = self.logs.split_off(&change.log_number);
        }
        self.logs_durable = change.logs_durable;
        self.next_created = change.next_created;
        for (id, keyspace) in change.keyspaces {
            match keyspace {
                Some(keyspace) => self.keyspaces.insert(id, keyspace),
                None => self.keyspaces.remove(&id),
            };
        }
        for (name, id) in change.names {
            match id {
                Some(id) => self.names.insert(name, id),
                None => self.names.remove(&name),
            };
        }
    }

    /// How far the logs that are needed are known to reach.
    pub(crate) fn logs_reached(&self) -> Reached {
        let reaches = self.keyspaces.values().map(|keyspace| keyspace.reach);
        Reached {
            durable: self.logs_durable,
            in_tables: reaches.max().unwrap_or(0),
        }
    }

    /// Needs none of the logs so far: for a copy of the tables, when they hold everything.
    pub(crate) fn forget_logs(&mut self) {
        self.log_number = self.log_number.max(self.next_file);
        self.logs.clear();
    }

    /// The id of the keyspace of a name.
    pub(crate) fn keyspace_named(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }
}

impl StateChange {
    fn apply_keyspace(
        &mut self,
        before: &TreeState,
        change: &KeyspaceEdit,
    ) -> Result<(), Inconsistent> {
        let id = change.id;
        // As an earlier change of the same edit left it, or else as it was.
        let present = match self.keyspaces.remove(&id) {
            Some(changed) => changed,
            None => before.keyspaces.get(&id).cloned(),
        };
        let mut keyspace = match (present, &change.create) {
            (Some(keyspace), None) => keyspace,
            (None, Some(name)) => self.create(before, id, name)?,
            (Some(_), Some(_)) => {
                return Err(Inconsistent::new(format!("keyspace {id} exists already")));
            }
            (None, None) => {
                return Err(Inconsistent::new(format!("keyspace {id} does not exist")));
            }
        };
        keyspace.version = Arc::new(keyspace.version.apply(change)?);
        keyspace.flushed_seq = keyspace.flushed_seq.max(change.flushed_seq.unwrap_or(0));
        keyspace.reach = keyspace.reach.max(change.reach.unwrap_or(0));
        keyspace.design = change.design.or(keyspace.design);
        if let Some(options) = &change.options {
            keyspace.options = Some(Arc::clone(options));
        }
        if let Some(operator) = &change.operator {
            keyspace.operator = Some(Arc::clone(operator));
        }
        // Counters never go back: a number that was used once is not drawn again.
        for added in &change.adds {
            self.next_file = self.next_file.max(added.file.number().saturating_add(1));
            self.next_run = self.next_run.max(added.run.saturating_add(1));
            self.next_created = self
                .next_created
                .max(added.file.created().saturating_add(1));
            // What a value file says of its entries' numbers is true within it.
            if added.level != VALUE_LEVEL {
                self.last_seq = self.last_seq.max(added.file.max_seq());
            }
        }
        for moved in &change.moves {
            self.next_run = self.next_run.max(moved.run.saturating_add(1));
        }
        // A dropped keyspace takes its files along, after the edit's other changes to it.
        if change.drop {
            self.names.insert(Arc::clone(&keyspace.name), None);
        }
        self.keyspaces
            .insert(id, (!change.drop).then_some(keyspace));
        Ok(())
    }

    fn create(
        &mut self,
        before: &TreeState,
        id: u32,
        name: &Arc<str>,
    ) -> Result<KeyspaceState, Inconsistent> {
        let holder = match self.names.get(name) {
            Some(changed) => *changed,
            None => before.keyspace_named(name),
        };
        if let Some(other) = holder {
            return Err(Inconsistent::new(format!(
                "keyspace {id} takes the name of keyspace {other}"
            )));
        }
        let next = id.checked_add(1);
        let next = next.ok_or_else(|| Inconsistent::new("keyspace ids are used up"))?;
        self.next_keyspace = self.next_keyspace.max(next);
        self.names.insert(Arc::clone(name), Some(id));
        Ok(KeyspaceState {
            name: Arc::clone(name),
            version: Arc::default(),
            flushed_seq: 0,
            reach: 0,
            design: None,
            options: None,
            operator: None,
        })
    }
}

impl TreeState {
    /// The edit that rebuilds this state from an empty one, but for the files.
    fn head(&self) -> VersionEdit {
        let keyspaces = self
            .keyspaces
            .iter()
            .map(|(&id, keyspace)| KeyspaceEdit {
                id,
                create: Some(Arc::clone(&keyspace.name)),
                flushed_seq: Some(keyspace.flushed_seq),
                reach: Some(keyspace.reach),
                design: keyspace.design,
                options: keyspace.options.clone(),
                operator: keyspace.operator.clone(),
                ..KeyspaceEdit::default()
            })
            .collect();
        VersionEdit {
            format: Some(FORMAT),
            features: self.features.clone(),
            log_number: Some(self.log_number),
            next_file: Some(self.next_file),
            next_run: Some(self.next_run),
            last_seq: Some(self.last_seq),
            next_keyspace: Some(self.next_keyspace),
            logs: self.logs.values().copied().collect(),
            logs_durable: Some(self.logs_durable),
            keyspaces,
        }
    }

    /// Hands to `emit` the bytes of the edit that rebuilds this state from an empty one, in parts
    /// of about `most` bytes; no more of it than a part is in memory at a time, beside what it says
    /// of keyspaces.
    ///
    /// # Errors
    /// Those of `emit`.
    pub(super) fn encode_parts<E>(
        &self,
        most: usize,
        emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut head = self.head();
        if self
            .keyspaces
            .values()
            .all(|keyspace| keyspace.version.all_files().next().is_none())
        {
            return head.encode_parts(most, EditPart::Last, emit);
        }
        head.encode_parts(most, EditPart::More, emit)?;
        for (&id, keyspace) in &self.keyspaces {
            // Before the tables that point to them.
            let mut values = keyspace.version.value_files().iter().peekable();
            while values.peek().is_some() {
                let mut part = KeyspaceEdit::new(id);
                for held in values.by_ref().take(FILES_OF_PART) {
                    part.add(VALUE_LEVEL as usize, 0, held.file.clone());
                }
                VersionEdit::of_keyspace(part).encode_parts(most, EditPart::More, emit)?;
            }
            for (level, run) in keyspace.version.runs() {
                let mut files = run.files().iter().peekable();
                while files.peek().is_some() {
                    let mut part = KeyspaceEdit::new(id);
                    for file in files.by_ref().take(FILES_OF_PART) {
                        part.add(level, run.id(), file.clone());
                    }
                    VersionEdit::of_keyspace(part).encode_parts(most, EditPart::More, emit)?;
                }
            }
        }
        // What ends it says nothing new.
        head.keyspaces.clear();
        head.logs.clear();
        head.encode_parts(most, EditPart::Last, emit)
    }

    /// The edit that rebuilds this state from an empty one.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> VersionEdit {
        let mut edit = self.head();
        for (change, keyspace) in edit.keyspaces.iter_mut().zip(self.keyspaces.values()) {
            for held in keyspace.version.value_files().iter() {
                change.add(VALUE_LEVEL as usize, 0, held.file.clone());
            }
            for (level, run) in keyspace.version.runs() {
                for file in run.files().iter() {
                    change.add(level, run.id(), file.clone());
                }
            }
        }
        edit
    }

    /// The files an edit takes out of the tree, to be marked obsolete once it is durable.
    pub(crate) fn files_dropped_by(&self, edit: &VersionEdit) -> Vec<FileMeta> {
        let mut dropped = Vec::new();
        for change in &edit.keyspaces {
            let Some(keyspace) = self.keyspaces.get(&change.id) else {
                continue;
            };
            if change.drop {
                dropped.extend(keyspace.version.all_files().cloned());
                continue;
            }
            // Taken out at one place and put in at another: still there.
            let added = change.adds.iter().map(|added| added.file.number());
            let added: HashSet<u64> = if change.removes.is_empty() {
                HashSet::new()
            } else {
                added.collect()
            };
            let gone = change.removes.iter().filter_map(|gone| {
                let version = &keyspace.version;
                version.file_in(gone.level as usize, &gone.file)
            });
            dropped.extend(gone.filter(|file| !added.contains(&file.number())).cloned());
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::super::edit::AddedFile;
    use super::super::file_meta::FileInfo;
    use super::super::{MovedFile, RemovedFile};
    use super::*;

    fn add(number: u64, level: u32, run: u64, range: (&str, &str)) -> AddedFile {
        AddedFile {
            level,
            run,
            file: FileMeta::new(&FileInfo {
                number,
                size: 10,
                entries: 2,
                smallest: range.0.as_bytes().into(),
                largest: range.1.as_bytes().into(),
                min_seq: number * 10,
                max_seq: number * 10 + 9,
                created: number,
                ..FileInfo::default()
            }),
        }
    }

    /// The files of [`base`], and any other.
    fn known(number: u64) -> FileMeta {
        let range = match number {
            1 => ("a", "m"),
            2 => ("c", "z"),
            3 => ("a", "f"),
            4 => ("g", "z"),
            _ => ("n", "n"),
        };
        add(number, 0, 0, range).file
    }

    fn removed(level: u32, number: u64) -> RemovedFile {
        let file = known(number);
        RemovedFile { level, file }
    }

    fn edit(f: impl FnOnce(&mut KeyspaceEdit)) -> VersionEdit {
        let mut change = KeyspaceEdit::default();
        f(&mut change);
        VersionEdit::of_keyspace(change)
    }

    /// A state after an edit.
    fn after(state: &TreeState, edit: &VersionEdit) -> TreeState {
        let mut state = state.clone();
        state.apply(edit).unwrap();
        state
    }

    fn base() -> TreeState {
        let edit = edit(|k| {
            k.create = Some("default".into());
            k.design = Some(StoredDesign {
                size_ratio: 4,
                ..StoredDesign::default()
            });
            k.options = Some([1, 1, 1].into());
            k.adds = vec![
                add(1, 0, 1, ("a", "m")),
                add(2, 0, 2, ("c", "z")),
                add(3, 2, 3, ("a", "f")),
                add(4, 2, 3, ("g", "z")),
            ];
        });
        after(&TreeState::default(), &edit)
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
                    run.files().iter().map(|f| f.number()).collect(),
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
        let change = edit(|k| {
            k.removes = vec![removed(2, 3)];
            k.moves = vec![MovedFile {
                file: known(1),
                from: 0,
                to: 1,
                run: 9,
            }];
            k.adds = vec![add(7, 2, 3, ("b", "c")), add(8, 2, 3, ("d", "d"))];
        });
        let after = after(&state, &change);
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
        let gone = edit(|k| k.removes = vec![removed(2, 3), removed(2, 4)]);
        let state = after(&base(), &gone);
        assert_eq!(state.keyspaces[&0].version.levels().len(), 1);
    }

    #[test]
    fn snapshots_rebuild_the_state() {
        let state = base();
        let edit = VersionEdit::decode(&state.snapshot().encode(), |_| None).unwrap();
        let back = after(&TreeState::default(), &edit);
        assert_eq!(format!("{back:?}"), format!("{state:?}"));
    }

    #[test]
    fn ids_of_dropped_keyspaces_are_not_used_again() {
        let state = base();
        let drop_it = edit(|k| k.drop = true);
        let dropped: Vec<_> = state
            .files_dropped_by(&drop_it)
            .iter()
            .map(|f| f.number())
            .collect();
        assert_eq!(dropped, [2, 1, 3, 4]);
        let state = after(&state, &drop_it);
        assert!(state.keyspaces.is_empty());
        assert_eq!(state.keyspace_named("default"), None);
        let edit = VersionEdit::decode(&state.snapshot().encode(), |_| None).unwrap();
        assert_eq!(after(&TreeState::default(), &edit).next_keyspace, 1);
    }

    #[test]
    fn an_edit_touches_the_keyspaces_it_names_and_no_others() {
        let mut state = base();
        for id in 1..1000u32 {
            let create = VersionEdit::create_keyspace(id, &format!("keyspace {id}"));
            state.apply(&create).unwrap();
        }
        let other = state.keyspaces[&500].clone();
        let holders = Arc::strong_count(&other.name);
        let versions = Arc::strong_count(&other.version);
        let mut flushed = edit(|k| k.flushed_seq = Some(9));
        flushed
            .keyspaces
            .extend(VersionEdit::create_keyspace(1000, "one more").keyspaces);
        flushed
            .keyspaces
            .extend(VersionEdit::drop_keyspace(700).keyspaces);
        let change = state.after(&flushed).unwrap();
        assert_eq!(change.keyspaces.len(), 3);
        // Neither copied on the way nor put in anew.
        assert_eq!(Arc::strong_count(&other.name), holders);
        state.set(change);
        assert_eq!(Arc::strong_count(&other.name), holders);
        assert_eq!(Arc::strong_count(&other.version), versions);
        assert_eq!(state.keyspaces.len(), 1000);
        assert_eq!(state.keyspace_named("one more"), Some(1000));
        assert_eq!(state.keyspace_named("keyspace 700"), None);
    }

    #[test]
    fn logs_are_known_from_their_creation_until_they_are_given_up() {
        let log = |number, base| LogInfo {
            number,
            base,
            salt: number as u32,
        };
        let mut state = base();
        for (number, base) in [(7, 100), (9, 300), (12, 450)] {
            let edit = VersionEdit::of_new_log(log(number, base), base - 50);
            state.apply(&edit).unwrap();
        }
        let logs = [log(7, 100), log(9, 300), log(12, 450)];
        assert!(state.logs.values().eq(&logs));
        for number in [5, 9, 12] {
            let edit = VersionEdit::of_new_log(log(number, 500), 0);
            state.after(&edit).unwrap_err();
        }
        let mut too_late = VersionEdit::of_new_log(log(13, 500), 450);
        too_late.log_number = Some(14);
        let error = state.after(&too_late).unwrap_err();
        assert!(error.what.contains("given up before"), "{error}");
        let mut given_up = edit(|k| k.reach = Some(300));
        given_up.log_number = Some(8);
        state.apply(&given_up).unwrap();
        assert!(state.logs.keys().eq([&9, &12]));
        let reached = Reached {
            durable: 400,
            in_tables: 300,
        };
        assert_eq!(state.logs_reached(), reached);
        let edit = VersionEdit::decode(&state.snapshot().encode(), |_| None).unwrap();
        let mut back = after(&TreeState::default(), &edit);
        assert_eq!(format!("{back:?}"), format!("{state:?}"));
        back.forget_logs();
        assert!(back.logs.is_empty() && back.log_number >= 13);
    }

    #[test]
    fn a_name_is_free_once_its_keyspace_is_dropped_in_the_same_edit_too() {
        let mut both = edit(|k| k.drop = true);
        let create = || VersionEdit::create_keyspace(1, "default").keyspaces;
        both.keyspaces.extend(create());
        let state = after(&base(), &both);
        assert_eq!(state.keyspace_named("default"), Some(1));
        let mut twice = VersionEdit::create_keyspace(2, "x");
        twice
            .keyspaces
            .extend(VersionEdit::create_keyspace(3, "x").keyspaces);
        let error = state.after(&twice).unwrap_err();
        assert!(error.what.contains("takes the name"), "{error}");
    }

    #[test]
    fn contradictions_are_refused() {
        let gone = |level, number| edit(move |k| k.removes = vec![removed(level, number)]);
        let moved = |number, from, to, run| {
            edit(move |k| {
                k.moves = vec![MovedFile {
                    file: known(number),
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
                    k.removes = vec![removed(0, 1)];
                    k.moves = vec![MovedFile {
                        file: known(1),
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
            let err = state.after(&edit).expect_err(name);
            assert!(err.what.contains(want), "{name}: {err}");
        }
    }

    #[test]
    fn check_notices_a_number_that_appears_twice() {
        let twice = edit(|k| k.adds = vec![add(1, 1, 9, ("f", "f"))]);
        let state = after(&base(), &twice);
        let err = state.keyspaces[&0].version.check().unwrap_err();
        assert!(err.what.contains("file 1 appears twice"), "{err}");
    }

    #[test]
    fn check_notices_level_0_runs_out_of_order() {
        let newer = edit(|k| k.adds = vec![add(0, 0, 9, ("a", "b"))]);
        let state = after(&base(), &newer);
        let err = state.keyspaces[&0].version.check().unwrap_err();
        assert!(err.what.contains("not older"), "{err}");
    }
}
