//! Changes to the tree, and their bytes in the manifest (docs/format.md, "Manifest"). This file is
//! long because each field's encoding, decoding and meaning stand together: a field is written in
//! one place and read ten lines below.
//!
//! An edit is a list of fields `tag, length, payload`. A tag's lowest bit says that a reader which
//! does not know the field may skip it; a field without that bit makes older builds refuse the
//! file. Decoding takes arbitrary bytes and never panics.
//!
//! An edit that is long goes into several records, cut between fields: each but the last ends with
//! a field that says so. It is applied when it is whole.

use std::path::Path;
use std::sync::Arc;

use super::design::StoredDesign;
use super::expiry::Expiry;
use super::feature::{Feature, Features};
use super::file_meta::{FileInfo, FileMeta};
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint};
use crate::base::key::{MAX_KEY_LEN, MAX_SEQNO, SeqNo};
use crate::error::Error;
use crate::wal::LogInfo;

/// The newest manifest format this build reads, and the one it writes.
pub(crate) const FORMAT: u32 = 5;

/// Levels are numbered below this.
pub(crate) const MAX_LEVELS: u32 = 64;

/// Where value files stand: in no level.
pub(crate) const VALUE_LEVEL: u32 = MAX_LEVELS;

/// A field that may be skipped has this bit.
const OPTIONAL: u64 = 1;

const TAG_FORMAT: u64 = 2;
const TAG_LOG_NUMBER: u64 = 4;
const TAG_NEXT_FILE: u64 = 6;
const TAG_LAST_SEQ: u64 = 8;
const TAG_NEXT_KEYSPACE: u64 = 10;
const TAG_CREATE: u64 = 12;
const TAG_DROP: u64 = 14;
const TAG_FLUSHED_SEQ: u64 = 16;
const TAG_ADD: u64 = 18;
const TAG_REMOVE: u64 = 20;
const TAG_MOVE: u64 = 22;
const TAG_NEXT_RUN: u64 = 24;
const TAG_DESIGN: u64 = 26 | OPTIONAL;
const TAG_MORE: u64 = 28;
const TAG_LOG: u64 = 30;
const TAG_LOGS_DURABLE: u64 = 32;
const TAG_REACH: u64 = 34;
const TAG_OPTIONS: u64 = 36 | OPTIONAL;
const TAG_FEATURES: u64 = 38;
const TAG_OPERATOR: u64 = 40;

/// A change to the whole database's tree. Absent fields leave things as they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct VersionEdit {
    /// The manifest's format version; the first edit of every manifest states it.
    pub(crate) format: Option<u32>,
    /// Features that are used from now on, if they were not before.
    pub(crate) features: Features,
    /// Logs with smaller numbers are needed no more.
    pub(crate) log_number: Option<u64>,
    /// Files and logs created from now on have numbers from here. Never goes back.
    pub(crate) next_file: Option<u64>,
    /// Runs formed from now on have ids from here. Never goes back.
    pub(crate) next_run: Option<u64>,
    /// The newest sequence number known to be used. Never goes back.
    pub(crate) last_seq: Option<SeqNo>,
    /// Keyspaces created from now on have ids from here. Never goes back.
    pub(crate) next_keyspace: Option<u32>,
    /// Logs that were created: their numbers and where they begin, as positions.
    pub(crate) logs: Vec<LogInfo>,
    /// Logs are durable up to this position, or not needed. Never goes back.
    pub(crate) logs_durable: Option<u64>,
    /// Changes to keyspaces, in order; at most one entry for each is usual.
    pub(crate) keyspaces: Vec<KeyspaceEdit>,
}

/// A change to one keyspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyspaceEdit {
    /// The keyspace's id, never used again once it is dropped.
    pub(crate) id: u32,
    /// Creates it under this name, before the other changes.
    pub(crate) create: Option<Arc<str>>,
    /// Drops it with all its files.
    pub(crate) drop: bool,
    /// Everything up to this sequence number is in tables.
    pub(crate) flushed_seq: Option<SeqNo>,
    /// Tables hold what was logged before this position, or some of it, and the logs that are
    /// needed are durable up to there. Never goes back.
    pub(crate) reach: Option<u64>,
    /// The design it is to have from now on.
    pub(crate) design: Option<StoredDesign>,
    /// The options it has from now on, as `options::kept` encodes them.
    pub(crate) options: Option<Arc<[u8]>>,
    /// The name of the operator that it has from now on, by which operands are merged.
    pub(crate) operator: Option<Arc<str>>,
    /// Files that leave the tree.
    pub(crate) removes: Vec<RemovedFile>,
    /// Files that change their place.
    pub(crate) moves: Vec<MovedFile>,
    /// Files that enter the tree.
    pub(crate) adds: Vec<AddedFile>,
}

impl KeyspaceEdit {
    /// An edit that changes nothing yet.
    pub(crate) fn new(id: u32) -> Self {
        KeyspaceEdit {
            id,
            ..KeyspaceEdit::default()
        }
    }

    /// Puts a file into a run of a level; the run is made if it is not there.
    pub(crate) fn add(&mut self, level: usize, run: u64, file: FileMeta) {
        let level = level as u32;
        self.adds.push(AddedFile { level, run, file });
    }

    /// Takes a file out of a level.
    #[cfg(test)]
    pub(crate) fn remove(&mut self, level: usize, file: FileMeta) {
        let level = level as u32;
        self.removes.push(RemovedFile { level, file });
    }
}

/// A file that enters the tree.
#[derive(Debug, Clone)]
pub(crate) struct AddedFile {
    /// Its level.
    pub(crate) level: u32,
    /// The run it joins; the run is made if it is not there.
    pub(crate) run: u64,
    /// The file.
    pub(crate) file: FileMeta,
}

/// A file that leaves the tree.
#[derive(Debug, Clone)]
pub(crate) struct RemovedFile {
    /// The level it is in.
    pub(crate) level: u32,
    /// The file.
    pub(crate) file: FileMeta,
}

/// A file that changes its place without being rewritten.
#[derive(Debug, Clone)]
pub(crate) struct MovedFile {
    /// The file.
    pub(crate) file: FileMeta,
    /// The level it leaves.
    pub(crate) from: u32,
    /// The level it goes to; may be the same.
    pub(crate) to: u32,
    /// The run it joins; the run is made if it is not there.
    pub(crate) run: u64,
}

/// Why bytes are not an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditError {
    /// They are damaged, at this many bytes from the edit's start.
    Corrupt {
        /// Where.
        at: usize,
        /// What was expected.
        what: &'static str,
    },
    /// They were written by another build: this format version, or an unknown field of it.
    Unsupported {
        /// The format version stated, or the next one when only a field is unknown.
        found: u32,
    },
    /// The database uses features that this build does not know.
    UnknownFeatures {
        /// Their names.
        names: Vec<String>,
    },
}

impl EditError {
    /// The engine's error for an edit that starts at `offset` of `file`.
    pub(crate) fn into_error(self, file: &Path, offset: u64) -> Error {
        match self {
            EditError::Corrupt { at, what } => {
                Error::corruption(file, offset + at as u64, format!("version edit: {what}"))
            }
            EditError::Unsupported { found } => Error::UnsupportedFormat {
                file: file.to_path_buf(),
                found,
                supported: FORMAT,
            },
            EditError::UnknownFeatures { names } => Error::UnknownFeatures {
                file: file.to_path_buf(),
                names,
            },
        }
    }
}

/// Whether a record ends its edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditPart {
    /// The edit goes on in the next record.
    More,
    /// The edit is whole.
    Last,
}

impl VersionEdit {
    /// An edit that changes one keyspace.
    pub(crate) fn of_keyspace(keyspace: KeyspaceEdit) -> Self {
        VersionEdit::of_keyspaces(vec![keyspace])
    }

    /// An edit that changes keyspaces, and names the features that their changes need.
    pub(crate) fn of_keyspaces(keyspaces: Vec<KeyspaceEdit>) -> Self {
        let operators = keyspaces.iter().any(|keyspace| keyspace.operator.is_some());
        VersionEdit {
            features: operators
                .then_some(Feature::MergeOperators)
                .into_iter()
                .collect(),
            keyspaces,
            ..VersionEdit::default()
        }
    }

    /// An edit that gives up the logs before `log_number`; the others are durable up to a position.
    pub(crate) fn of_logs(log_number: u64, durable: u64) -> Self {
        VersionEdit {
            log_number: Some(log_number),
            logs_durable: Some(durable),
            ..VersionEdit::default()
        }
    }

    /// An edit that says that a log was created, and up to where those before it are durable.
    pub(crate) fn of_new_log(log: LogInfo, durable: u64) -> Self {
        VersionEdit {
            logs: vec![log],
            logs_durable: Some(durable),
            ..VersionEdit::default()
        }
    }

    /// An edit that says that a feature is used.
    pub(crate) fn of_feature(feature: Feature) -> Self {
        VersionEdit {
            features: Features::from([feature]),
            ..VersionEdit::default()
        }
    }

    /// An edit that creates a keyspace.
    pub(crate) fn create_keyspace(id: u32, name: &str) -> Self {
        VersionEdit::of_keyspace(KeyspaceEdit {
            create: Some(name.into()),
            ..KeyspaceEdit::new(id)
        })
    }

    /// An edit that creates a keyspace of these options, encoded, and of this operator.
    pub(crate) fn create_keyspace_of(
        id: u32,
        name: &str,
        options: Vec<u8>,
        operator: Option<&str>,
    ) -> Self {
        VersionEdit::of_keyspace(KeyspaceEdit {
            create: Some(name.into()),
            options: Some(options.into()),
            operator: operator.map(Into::into),
            ..KeyspaceEdit::new(id)
        })
    }

    /// An edit that drops a keyspace with all its files.
    pub(crate) fn drop_keyspace(id: u32) -> Self {
        VersionEdit::of_keyspace(KeyspaceEdit {
            drop: true,
            ..KeyspaceEdit::new(id)
        })
    }

    /// Hands the edit's bytes to `emit`, in parts that each fit a record: a part ends at the first
    /// field past `most` bytes. The last says whether others go on with it.
    ///
    /// # Errors
    /// Those of `emit`.
    pub(crate) fn encode_parts<E>(
        &self,
        most: usize,
        last: EditPart,
        emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = Vec::new();
        let mut scratch = Vec::new();
        let mut field = |tag: u64, write: &dyn Fn(&mut Vec<u8>)| {
            if out.len() >= most {
                put_varint(&mut out, TAG_MORE);
                put_bytes(&mut out, &[]);
                emit(&out)?;
                out.clear();
            }
            scratch.clear();
            write(&mut scratch);
            put_varint(&mut out, tag);
            put_bytes(&mut out, &scratch);
            Ok(())
        };
        // First what a reader must know to go on.
        if let Some(format) = self.format {
            field(TAG_FORMAT, &|out| put_varint(out, format.into()))?;
        }
        if !self.features.is_empty() {
            field(TAG_FEATURES, &|out| {
                for feature in &self.features {
                    put_bytes(out, feature.name().as_bytes());
                }
            })?;
        }
        // What is of the whole database.
        for (tag, value) in [
            (TAG_LOG_NUMBER, self.log_number),
            (TAG_NEXT_FILE, self.next_file),
            (TAG_NEXT_RUN, self.next_run),
            (TAG_LAST_SEQ, self.last_seq),
            (TAG_NEXT_KEYSPACE, self.next_keyspace.map(u64::from)),
            (TAG_LOGS_DURABLE, self.logs_durable),
        ] {
            if let Some(value) = value {
                field(tag, &|out| put_varint(out, value))?;
            }
        }
        for log in &self.logs {
            field(TAG_LOG, &|out| {
                put_all(out, &[log.number, log.base, log.salt.into()])
            })?;
        }
        // Then each keyspace: what is of the whole of it, then its files.
        for keyspace in &self.keyspaces {
            let id = u64::from(keyspace.id);
            if let Some(name) = &keyspace.create {
                field(TAG_CREATE, &|out| {
                    put_varint(out, id);
                    put_bytes(out, name.as_bytes());
                })?;
            }
            if keyspace.drop {
                field(TAG_DROP, &|out| put_varint(out, id))?;
            }
            if let Some(seq) = keyspace.flushed_seq {
                field(TAG_FLUSHED_SEQ, &|out| put_all(out, &[id, seq]))?;
            }
            if let Some(position) = keyspace.reach {
                field(TAG_REACH, &|out| put_all(out, &[id, position]))?;
            }
            if let Some(design) = keyspace.design {
                field(TAG_DESIGN, &|out| {
                    put_varint(out, id);
                    design.put(out);
                })?;
            }
            if let Some(options) = &keyspace.options {
                field(TAG_OPTIONS, &|out| {
                    put_varint(out, id);
                    out.extend_from_slice(options);
                })?;
            }
            // By what its operands are merged: a reader that does not know cannot read it.
            if let Some(operator) = &keyspace.operator {
                field(TAG_OPERATOR, &|out| {
                    put_varint(out, id);
                    put_bytes(out, operator.as_bytes());
                })?;
            }
            // Its files: those that go, those that move, those that come.
            for file in &keyspace.removes {
                field(TAG_REMOVE, &|out| {
                    put_all(out, &[id, u64::from(file.level), file.file.number()]);
                })?;
            }
            for file in &keyspace.moves {
                field(TAG_MOVE, &|out| {
                    let (from, to) = (u64::from(file.from), u64::from(file.to));
                    put_all(out, &[id, file.file.number(), from, to, file.run]);
                })?;
            }
            for added in &keyspace.adds {
                field(TAG_ADD, &|out| {
                    put_all(out, &[id, u64::from(added.level), added.run]);
                    put_file(out, &added.file);
                })?;
            }
        }
        // The caller goes on with this edit in further records.
        if last == EditPart::More {
            put_varint(&mut out, TAG_MORE);
            put_bytes(&mut out, &[]);
        }
        emit(&out)
    }

    /// Adds what the next record says of this edit, and tells whether it goes on in another. `find`
    /// gives the files that it takes out or moves, by their numbers.
    pub(crate) fn decode_part(
        &mut self,
        bytes: &[u8],
        find: impl Fn(u64) -> Option<FileMeta>,
    ) -> Result<EditPart, EditError> {
        let mut rest = bytes;
        let mut part = EditPart::Last;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let corrupt = |what| EditError::Corrupt { at, what };
            let tag = take_varint(&mut rest).ok_or(corrupt("a field's tag"))?;
            let mut payload = take_bytes(&mut rest).ok_or(corrupt("a field's payload"))?;
            if tag == TAG_MORE {
                if !rest.is_empty() {
                    return Err(corrupt("the end of a part"));
                }
                part = EditPart::More;
            }
            let known = self
                .decode_field(tag, &mut payload, &find)
                .ok_or(corrupt("a field's contents"))?;
            match known {
                Known::Not(names) => return Err(EditError::UnknownFeatures { names }),
                Known::Yes if payload.is_empty() => {}
                Known::Yes => return Err(corrupt("the end of a field")),
                Known::No if tag & OPTIONAL != 0 => {}
                Known::No => {
                    let found = self.format.unwrap_or(0).max(FORMAT + 1);
                    return Err(EditError::Unsupported { found });
                }
            }
            if let Some(found) = self.format
                && found != FORMAT
            {
                return Err(EditError::Unsupported { found });
            }
        }
        Ok(part)
    }

    fn decode_field(
        &mut self,
        tag: u64,
        input: &mut &[u8],
        find: &impl Fn(u64) -> Option<FileMeta>,
    ) -> Option<Known> {
        match tag {
            // Of the whole database.
            TAG_FORMAT => self.format = Some(take_u32_varint(input)?),
            TAG_FEATURES => {
                let unknown = self.take_features(input)?;
                if !unknown.is_empty() {
                    return Some(Known::Not(unknown));
                }
            }
            TAG_LOG_NUMBER => self.log_number = Some(take_varint(input)?),
            TAG_NEXT_FILE => self.next_file = Some(take_varint(input)?),
            TAG_NEXT_RUN => self.next_run = Some(take_varint(input)?),
            TAG_LAST_SEQ => self.last_seq = Some(take_seq(input)?),
            TAG_NEXT_KEYSPACE => self.next_keyspace = Some(take_u32_varint(input)?),
            TAG_LOGS_DURABLE => self.logs_durable = Some(take_varint(input)?),
            TAG_LOG => self.logs.push(LogInfo {
                number: take_varint(input)?,
                base: take_varint(input)?,
                salt: take_u32_varint(input)?,
            }),
            // Which keyspaces there are.
            TAG_CREATE => {
                let id = take_u32_varint(input)?;
                let name = std::str::from_utf8(take_bytes(input)?).ok()?.into();
                let keyspace = self.keyspace(id);
                // Created twice, or changed before it exists: no writer does that.
                if keyspace.create.replace(name).is_some() {
                    return None;
                }
            }
            TAG_DROP => {
                let id = take_u32_varint(input)?;
                self.keyspace(id).drop = true;
            }
            // How far a keyspace has come.
            TAG_FLUSHED_SEQ => {
                let id = take_u32_varint(input)?;
                let seq = take_seq(input)?;
                self.keyspace(id).flushed_seq = Some(seq);
            }
            TAG_REACH => {
                let id = take_u32_varint(input)?;
                let position = take_varint(input)?;
                self.keyspace(id).reach = Some(position);
            }
            TAG_DESIGN => {
                let id = take_u32_varint(input)?;
                let design = StoredDesign::take(input)?;
                self.keyspace(id).design = Some(design);
            }
            TAG_OPTIONS => {
                let id = take_u32_varint(input)?;
                let options = std::mem::take(input);
                self.keyspace(id).options = Some(options.into());
            }
            TAG_OPERATOR => {
                let id = take_u32_varint(input)?;
                let name = std::str::from_utf8(take_bytes(input)?).ok()?.into();
                self.keyspace(id).operator = Some(name);
            }
            // Its files. One that is named and not there is damage.
            TAG_REMOVE => {
                let id = take_u32_varint(input)?;
                let level = take_place(input)?;
                let file = find(take_varint(input)?)?;
                let removed = RemovedFile { level, file };
                self.keyspace(id).removes.push(removed);
            }
            TAG_MOVE => {
                let id = take_u32_varint(input)?;
                let moved = MovedFile {
                    file: find(take_varint(input)?)?,
                    from: take_level(input)?,
                    to: take_level(input)?,
                    run: take_varint(input)?,
                };
                self.keyspace(id).moves.push(moved);
            }
            TAG_ADD => {
                let id = take_u32_varint(input)?;
                let level = take_place(input)?;
                let run = take_varint(input)?;
                let Some(file) = take_file(input)? else {
                    return Some(Known::No);
                };
                self.keyspace(id).adds.push(AddedFile { level, run, file });
            }
            TAG_MORE => {}
            _ => return Some(Known::No),
        }
        Some(Known::Yes)
    }

    /// Takes names of features up to the end; gives those that this build does not know.
    fn take_features(&mut self, input: &mut &[u8]) -> Option<Vec<String>> {
        let mut unknown = Vec::new();
        while !input.is_empty() {
            let name = std::str::from_utf8(take_bytes(input)?).ok()?;
            match Feature::named(name) {
                Some(feature) => drop(self.features.insert(feature)),
                None => unknown.push(name.to_owned()),
            }
        }
        Some(unknown)
    }

    /// The entry of a keyspace: the last one if it is this keyspace's, else a new one.
    fn keyspace(&mut self, id: u32) -> &mut KeyspaceEdit {
        let at = match self.keyspaces.last() {
            Some(last) if last.id == id => self.keyspaces.len() - 1,
            _ => {
                self.keyspaces.push(KeyspaceEdit {
                    id,
                    ..KeyspaceEdit::default()
                });
                self.keyspaces.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "`at` is the last element")]
        &mut self.keyspaces[at]
    }
}

enum Known {
    Yes,
    No,
    /// A field that names features of which these are not known.
    Not(Vec<String>),
}

fn put_all(out: &mut Vec<u8>, values: &[u64]) {
    for &value in values {
        put_varint(out, value);
    }
}

/// The field of a file that says when its entries expire.
const EXPIRY: u64 = 5;

/// The field of a file that says how many range tombstones it has; not to be skipped.
const RANGE_TOMBSTONES: u64 = 6;

/// The field of a file that says how many operands it has; may be skipped.
const OPERANDS: u64 = 6 | OPTIONAL;

/// The field of a file that says which value files it points to; not to be skipped.
const POINTS_TO: u64 = 8;

fn put_file(out: &mut Vec<u8>, file: &FileMeta) {
    let info = file.info();
    put_all(
        out,
        &[
            info.number,
            info.size,
            info.entries,
            info.tombstones,
            info.garbage,
        ],
    );
    put_bytes(out, &info.smallest);
    put_bytes(out, &info.largest);
    put_all(out, &[info.min_seq, info.max_seq, info.created]);
    put_all(out, &[info.filter_bytes, info.index_bytes]);
    put_varint(out, u64::from(info.salt));
    // What a file has none of is left out.
    let mut field = |tag: u64, numbers: &[u64]| {
        let mut payload = Vec::new();
        put_all(&mut payload, numbers);
        put_varint(out, tag);
        put_bytes(out, &payload);
    };
    if info.expiry.last > 0 {
        field(EXPIRY, &[info.expiry.first, info.expiry.last]);
    }
    if info.ranges > 0 {
        field(RANGE_TOMBSTONES, &[info.ranges]);
    }
    if info.operands > 0 {
        field(OPERANDS, &[info.operands]);
    }
    if !info.points_to.is_empty() {
        let numbers = info
            .points_to
            .iter()
            .flat_map(|&(file, bytes)| [file, bytes]);
        field(POINTS_TO, &numbers.collect::<Vec<_>>());
    }
}

/// `None`: damaged; `Some(None)`: it has a field this build must know and does not.
fn take_file(input: &mut &[u8]) -> Option<Option<FileMeta>> {
    let mut info = FileInfo {
        number: take_varint(input)?,
        size: take_varint(input)?,
        entries: take_varint(input)?,
        tombstones: take_varint(input)?,
        garbage: take_varint(input)?,
        smallest: take_key(input)?,
        largest: take_key(input)?,
        min_seq: take_seq(input)?,
        max_seq: take_seq(input)?,
        created: take_varint(input)?,
        filter_bytes: take_varint(input)?,
        index_bytes: take_varint(input)?,
        salt: take_u32_varint(input)?,
        ..FileInfo::default()
    };
    // What contradicts itself is damage.
    if info.smallest > info.largest || info.min_seq > info.max_seq {
        return None;
    }
    while !input.is_empty() {
        let tag = take_varint(input)?;
        let mut payload = take_bytes(input)?;
        // What not every file has.
        if tag == EXPIRY {
            info.expiry = Expiry {
                first: take_varint(&mut payload)?,
                last: take_varint(&mut payload)?,
            };
        } else if tag == RANGE_TOMBSTONES {
            info.ranges = take_varint(&mut payload)?;
        } else if tag == OPERANDS {
            info.operands = take_varint(&mut payload)?;
        } else if tag == POINTS_TO {
            while !payload.is_empty() {
                let values = (take_varint(&mut payload)?, take_varint(&mut payload)?);
                info.points_to.push(values);
            }
        } else if tag & OPTIONAL == 0 {
            return Some(None);
        }
    }
    Some(Some(FileMeta::new(&info)))
}

fn take_key(input: &mut &[u8]) -> Option<Box<[u8]>> {
    let key = take_bytes(input)?;
    (key.len() <= MAX_KEY_LEN).then(|| key.into())
}

fn take_seq(input: &mut &[u8]) -> Option<SeqNo> {
    take_varint(input).filter(|&seq| seq <= MAX_SEQNO)
}

fn take_u32_varint(input: &mut &[u8]) -> Option<u32> {
    take_varint(input)?.try_into().ok()
}

fn take_level(input: &mut &[u8]) -> Option<u32> {
    take_u32_varint(input).filter(|&level| level < MAX_LEVELS)
}

/// A level, or [`VALUE_LEVEL`].
fn take_place(input: &mut &[u8]) -> Option<u32> {
    take_u32_varint(input).filter(|&level| level <= VALUE_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(number: u64) -> FileMeta {
        FileMeta::new(&FileInfo {
            number,
            ..FileInfo::default()
        })
    }

    /// The edit of these bytes, where every file that it names is there.
    fn decode(bytes: &[u8]) -> Result<VersionEdit, EditError> {
        VersionEdit::decode(bytes, |number| Some(numbered(number)))
    }

    fn info() -> impl Strategy<Value = FileInfo> {
        (
            (any::<u64>(), any::<u64>(), any::<u64>()),
            (any::<u64>(), any::<u64>(), any::<u64>()),
            (any::<Vec<u8>>(), any::<Vec<u8>>()),
            (0..=MAX_SEQNO, 0..=MAX_SEQNO),
            (any::<u64>(), any::<u64>(), any::<u32>()),
        )
            .prop_map(
                |(
                    (number, size, entries),
                    (tombstones, garbage, created),
                    (a, b),
                    (s, t),
                    (filter_bytes, index_bytes, salt),
                )| {
                    FileInfo {
                        number,
                        size,
                        entries,
                        tombstones,
                        garbage,
                        smallest: a.clone().min(b.clone()).into(),
                        largest: a.max(b).into(),
                        min_seq: s.min(t),
                        max_seq: s.max(t),
                        created,
                        filter_bytes,
                        index_bytes,
                        salt,
                        // Of half of them none expires.
                        expiry: Expiry {
                            first: (salt % 2).into(),
                            last: if salt % 2 == 0 { 0 } else { size | 1 },
                        },
                        ranges: if salt % 3 == 0 { created } else { 0 },
                        operands: if salt % 5 == 0 { entries } else { 0 },
                        points_to: (0..u64::from(salt % 4)).map(|at| (at, size)).collect(),
                    }
                },
            )
    }

    fn added() -> impl Strategy<Value = AddedFile> {
        (0..=VALUE_LEVEL, any::<u64>(), info()).prop_map(|(level, run, info)| AddedFile {
            level,
            run,
            file: FileMeta::new(&info),
        })
    }

    fn keyspace() -> impl Strategy<Value = KeyspaceEdit> {
        let removed = (0..=VALUE_LEVEL, any::<u64>()).prop_map(|(level, number)| RemovedFile {
            level,
            file: numbered(number),
        });
        let moved = (any::<u64>(), 0..MAX_LEVELS, 0..MAX_LEVELS, any::<u64>()).prop_map(
            |(number, from, to, run)| MovedFile {
                file: numbered(number),
                from,
                to,
                run,
            },
        );
        let design = (any::<[u64; 5]>(), any::<[bool; 2]>()).prop_map(|(numbers, flags)| {
            let [policy, size_ratio, write_buffer, millibits, since] = numbers;
            StoredDesign {
                policy,
                size_ratio,
                write_buffer,
                millibits,
                since,
                reached: flags[0],
                rewrite_filters: flags[1],
            }
        });
        (
            any::<Option<String>>(),
            any::<bool>(),
            (
                prop::option::of(0..=MAX_SEQNO),
                any::<Option<u64>>(),
                prop::option::of(design),
                any::<Option<Vec<u8>>>(),
                prop::option::of("[a-z]{1,9}"),
            ),
            prop::collection::vec(removed, 0..4),
            prop::collection::vec(moved, 0..4),
            prop::collection::vec(added(), 0..4),
        )
            .prop_map(|(create, drop, of_whole, removes, moves, adds)| {
                let (flushed_seq, reach, design, options, operator) = of_whole;
                KeyspaceEdit {
                    id: 0,
                    create: create.map(Into::into),
                    drop,
                    flushed_seq,
                    reach,
                    design,
                    options: options.map(Into::into),
                    operator: operator.map(Into::into),
                    removes,
                    moves,
                    adds,
                }
            })
            .prop_filter("an empty entry leaves no bytes", |k| {
                k.create.is_some() || k.drop || k.flushed_seq.is_some()
            })
    }

    pub(crate) fn edits() -> impl Strategy<Value = VersionEdit> {
        (
            prop::option::of(Just(FORMAT)),
            any::<Option<u64>>(),
            any::<Option<u64>>(),
            prop::option::of(0..=MAX_SEQNO),
            (
                any::<Option<u32>>(),
                any::<Option<u64>>(),
                any::<bool>(),
                prop::collection::vec(any::<(u64, u64, u32)>(), 0..4),
            ),
            prop::collection::vec(keyspace(), 0..4),
        )
            .prop_map(
                |(format, log_number, next_file, last_seq, others, mut keyspaces)| {
                    let (next_keyspace, logs_durable, expires, logs) = others;
                    let log = |(number, base, salt)| LogInfo { number, base, salt };
                    let next_run = next_file.map(|next| next / 2);
                    for (id, keyspace) in keyspaces.iter_mut().enumerate() {
                        keyspace.id = id as u32 * 1000;
                    }
                    let known = Feature::ALL.into_iter();
                    VersionEdit {
                        format,
                        features: known.filter(|_| expires).collect(),
                        log_number,
                        next_file,
                        next_run,
                        last_seq,
                        next_keyspace,
                        logs: logs.into_iter().map(log).collect(),
                        logs_durable,
                        keyspaces,
                    }
                },
            )
    }

    impl VersionEdit {
        /// The edit in one record.
        pub(crate) fn encode(&self) -> Vec<u8> {
            let mut parts = self.parts(usize::MAX);
            assert_eq!(parts.len(), 1);
            parts.remove(0)
        }

        fn parts(&self, most: usize) -> Vec<Vec<u8>> {
            let mut parts = Vec::new();
            let emitted = self.encode_parts(most, EditPart::Last, &mut |part| {
                parts.push(part.to_vec());
                Ok::<_, ()>(())
            });
            emitted.unwrap();
            parts
        }

        /// The edit of one record.
        pub(crate) fn decode(
            bytes: &[u8],
            find: impl Fn(u64) -> Option<FileMeta>,
        ) -> Result<Self, EditError> {
            let mut edit = VersionEdit::default();
            edit.decode_part(bytes, find).map(|_| edit)
        }
    }

    proptest! {
        #[test]
        fn edits_round_trip_in_parts_of_any_size(edit in edits(), most in 0..300usize) {
            let mut back = VersionEdit::default();
            let parts = edit.parts(most);
            for (i, part) in parts.iter().enumerate() {
                let find = |number| Some(numbered(number));
                let more = back.decode_part(part, find).unwrap();
                prop_assert_eq!(more == EditPart::Last, i + 1 == parts.len());
            }
            prop_assert_eq!(format!("{back:?}"), format!("{edit:?}"));
        }

        #[test]
        fn edits_round_trip(edit in edits()) {
            let bytes = edit.encode();
            let back = decode(&bytes).unwrap();
            prop_assert_eq!(format!("{back:?}"), format!("{edit:?}"));
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in any::<Vec<u8>>()) {
            if let Ok(edit) = decode(&bytes) {
                decode(&edit.encode()).unwrap();
            }
        }

        #[test]
        fn damaged_edits_never_panic(
            edit in edits(),
            at in any::<prop::sample::Index>(),
            bit in 0..8,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = edit.encode();
            if !bytes.is_empty() {
                let cut = cut.index(bytes.len());
                if let Ok(part) = decode(&bytes[..cut]) {
                    prop_assert!(part.encode().len() <= cut);
                }
                let at = at.index(bytes.len());
                bytes[at] ^= 1u8 << bit;
                let _ = decode(&bytes);
            }
        }
    }

    #[test]
    fn unknown_fields_are_skipped_or_refused_by_their_tag() {
        let mut bytes = VersionEdit {
            last_seq: Some(7),
            ..VersionEdit::default()
        }
        .encode();
        put_varint(&mut bytes, 1000 | OPTIONAL);
        put_bytes(&mut bytes, b"whatever");
        assert_eq!(decode(&bytes).unwrap().last_seq, Some(7));
        put_varint(&mut bytes, 1000);
        put_bytes(&mut bytes, b"whatever");
        let err = decode(&bytes).unwrap_err();
        assert_eq!(err, EditError::Unsupported { found: FORMAT + 1 });
        assert!(matches!(
            err.into_error(Path::new("MANIFEST-000001"), 0),
            Error::UnsupportedFormat { supported, .. } if supported == FORMAT
        ));
    }

    #[test]
    fn unknown_features_are_refused_by_their_names_before_the_fields_that_need_them() {
        let of = |names: &[&str]| {
            let mut payload = Vec::new();
            names
                .iter()
                .for_each(|name| put_bytes(&mut payload, name.as_bytes()));
            let mut bytes = Vec::new();
            put_varint(&mut bytes, TAG_FEATURES);
            put_bytes(&mut bytes, &payload);
            // Of a field that came with them.
            put_varint(&mut bytes, 1000);
            put_bytes(&mut bytes, b"whatever");
            decode(&bytes).unwrap_err()
        };
        let names = ["time travel".to_owned(), "write hints".to_owned()];
        let error = of(&[&names[0], "expiring entries", &names[1]]);
        assert_eq!(
            error,
            EditError::UnknownFeatures {
                names: names.into()
            }
        );
        let said = error.into_error(Path::new("MANIFEST-000001"), 0);
        assert_eq!(
            said.to_string(),
            "MANIFEST-000001 says that the database uses `time travel`, `write hints`, which \
             this build does not know; use a newer build"
        );
        let unsupported = EditError::Unsupported { found: FORMAT + 1 };
        assert_eq!(of(&["expiring entries"]), unsupported);
        assert_eq!(of(&[]), unsupported);
    }

    #[test]
    fn unknown_fields_of_a_file_are_skipped_or_refused_by_their_tag() {
        let mut file = Vec::new();
        put_file(&mut file, &FileMeta::new(&FileInfo::default()));
        for (tag, ok) in [(1000 | OPTIONAL, true), (1000, false)] {
            let mut payload = Vec::new();
            put_all(&mut payload, &[0, 0, 0]);
            payload.extend_from_slice(&file);
            put_varint(&mut payload, tag);
            put_bytes(&mut payload, b"x");
            let mut bytes = Vec::new();
            put_varint(&mut bytes, TAG_ADD);
            put_bytes(&mut bytes, &payload);
            let decoded = decode(&bytes);
            assert_eq!(decoded.is_ok(), ok, "{decoded:?}");
            if let Err(err) = decoded {
                assert_eq!(err, EditError::Unsupported { found: FORMAT + 1 });
            }
        }
    }

    #[test]
    fn a_file_without_operands_is_written_as_before_they_were_counted() {
        let bytes = |operands| {
            let mut bytes = Vec::new();
            let info = FileInfo {
                operands,
                ..FileInfo::default()
            };
            put_file(&mut bytes, &FileMeta::new(&info));
            bytes
        };
        let without = bytes(0);
        // Thirteen numbers and keys, each a byte here.
        assert_eq!(without, [0; 13]);
        assert_eq!(bytes(5), [&without[..], &[7, 1, 5]].concat());
    }

    #[test]
    fn a_design_of_a_newer_build_is_read_as_far_as_it_is_known() {
        let design = StoredDesign {
            policy: 3,
            size_ratio: 7,
            reached: true,
            ..StoredDesign::default()
        };
        let mut payload = vec![5];
        design.put(&mut payload);
        payload.extend_from_slice(b"more");
        let mut bytes = Vec::new();
        put_varint(&mut bytes, TAG_DESIGN);
        put_bytes(&mut bytes, &payload);
        let edit = decode(&bytes).unwrap();
        assert_eq!(edit.keyspaces[0].id, 5);
        assert_eq!(edit.keyspaces[0].design, Some(design));
    }

    #[test]
    fn a_newer_format_is_refused() {
        let bytes = VersionEdit {
            format: Some(FORMAT + 3),
            ..VersionEdit::default()
        }
        .encode();
        assert_eq!(
            decode(&bytes).unwrap_err(),
            EditError::Unsupported { found: FORMAT + 3 }
        );
    }
}
