//! Version edits and manifests of any bytes ([`crate::fuzzing`]).

use std::path::Path;
use std::sync::Arc;

use super::current::{CURRENT, current_line, read_current};
use super::edit::{EditPart, VersionEdit};
use super::files::{RECORD_BYTES, manifest_name, marks_name, number_in};
use super::replay::Replay;
use super::*;
use crate::base::checksum::checksum;
use crate::budget::{Budget, Role};
use crate::fs::{Fs, MemFs};
use crate::fuzzing::{Input, chunked};
use crate::wal::{LogInfo, fuzzing::repaired};

const DIR: &str = "/db";

/// Enough for any input's files.
const BUDGET: u64 = 64 << 20;

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = edit.encode_parts(usize::MAX, EditPart::Last, &mut |part| {
        out.extend_from_slice(part);
        Ok::<_, std::convert::Infallible>(())
    });
    out
}

/// A state as the bytes of its snapshot.
fn snapshot(state: &TreeState) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let Ok(()) = state.encode_parts(RECORD_BYTES, &mut |part| {
        parts.push(part.to_vec());
        Ok::<_, std::convert::Infallible>(())
    });
    parts
}

/// The records of a manifest, each a chunk: decoded one by one, and as edits that follow one
/// another.
pub(crate) fn version_edit(data: &[u8]) {
    let mut input = Input(data);
    let budget = Budget::new(BUDGET);
    let mut records = Vec::new();
    while !input.is_empty() {
        records.push(input.chunk());
    }
    for record in &records {
        // Every file is known, so that edits which take files out are decoded too.
        let find = |number| {
            Some(FileMeta::new(&FileInfo {
                number,
                ..FileInfo::default()
            }))
        };
        let decode = |bytes: &[u8]| {
            let mut edit = VersionEdit::default();
            let part = edit.decode_part(bytes, find);
            part.map(|_| edit)
        };
        if let Ok(edit) = decode(record) {
            let bytes = encoded(&edit);
            let again = decode(&bytes).expect("an edit that was encoded");
            assert_eq!(encoded(&again), bytes, "an edit comes back as it was");
        }
    }
    let account = Obsolete::new(&budget);
    let mut replay = Replay::new(RECORD_BYTES, &account);
    for record in &records {
        if replay.take(record).is_err() {
            return;
        }
    }
    let Ok((state, files)) = replay.finish() else {
        return;
    };
    let in_tree = |state: &TreeState| -> usize {
        let versions = state.keyspaces.values();
        versions
            .map(|keyspace| keyspace.version.all_files().count())
            .sum()
    };
    assert_eq!(files.len(), in_tree(&state));
    let versions = state.keyspaces.values().map(|keyspace| &keyspace.version);
    let memory: u64 = versions
        .flat_map(|version| version.all_files())
        .map(FileMeta::memory)
        .sum();
    assert_eq!(budget.used_by(Role::Files), memory, "files are charged");
    let parts = snapshot(&state);
    let mut replay = Replay::new(RECORD_BYTES, &account);
    for part in &parts {
        assert!(replay.take(part).is_ok(), "a snapshot can be read");
    }
    let (again, _) = replay.finish().expect("as much memory as before");
    assert_eq!(snapshot(&again), parts, "a state comes back as it was");
}

/// A folder's manifest. A byte that says what is repaired (1 the manifest, 2 its marks, 4
/// `CURRENT`), and these three as chunks.
pub(crate) fn manifest(data: &[u8]) {
    let mut input = Input(data);
    let repair = input.byte();
    let [manifest, marks, current] = [input.chunk(), input.chunk(), input.chunk()];
    let fixed = |bit: u8, bytes: &[u8]| match repair & bit {
        0 => bytes.to_vec(),
        _ => repaired(bytes),
    };
    let current = match repair & 4 {
        0 => current.to_vec(),
        _ => {
            let sum = checksum(0, current);
            [current, format!(" {sum:08x}\n").as_bytes()].concat()
        }
    };
    let fs = MemFs::new();
    let dir = Path::new(DIR);
    let write = |name: &str, bytes: &[u8]| {
        fs.write_file(dir.join(name), bytes)
            .expect("a file in memory")
    };
    fs.create_dir_all(dir).expect("a folder in memory");
    write(CURRENT, &current);
    let text = String::from_utf8_lossy(&current);
    number_in(&text);
    // What CURRENT names is there, and where it names nothing, something is read all the same.
    let current = read_current(&fs, dir).ok();
    if let Some(current) = &current {
        let line = current_line(&current.name, current.info.salt);
        assert_eq!(line, text, "one line for one manifest");
    }
    let number = current.map_or(1, |current| current.info.number);
    let manifest = fixed(1, manifest);
    // The manifest's own salt, or nothing of it would be read.
    let salt = manifest.get(12..).and_then(|rest| rest.first_chunk());
    let salt = salt.map_or(0, |salt| u32::from_le_bytes(*salt));
    write(
        CURRENT,
        current_line(&manifest_name(number), salt).as_bytes(),
    );
    write(&manifest_name(number), &manifest);
    write(&marks_name(number), &fixed(2, marks));
    let account = Obsolete::new(&Budget::new(BUDGET));
    let Ok(found) = Manifest::read(&fs, dir, &account) else {
        return;
    };
    let before = snapshot(&found.state);
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let begun = Manifest::begin(&shared, dir, Some((found.state, found.name)), &account);
    let (mut manifest, state) = begun.expect("a sound state can go into a new manifest");
    manifest.seal().expect("a log in memory");
    let found = Manifest::read(&fs, dir, &account).expect("a manifest that was begun");
    assert_eq!(snapshot(&found.state), snapshot(&state));
    assert_eq!(before.len(), snapshot(&state).len());
}

fn file(number: u64, range: [&str; 2]) -> FileMeta {
    FileMeta::new(&FileInfo {
        number,
        size: 8192,
        entries: 9,
        tombstones: 1,
        smallest: range[0].as_bytes().into(),
        largest: range[1].as_bytes().into(),
        min_seq: 1,
        max_seq: number,
        created: number,
        salt: 77,
        ..FileInfo::default()
    })
}

/// Edits that use every field, one after the other.
fn edits() -> Vec<VersionEdit> {
    let of = |change: &dyn Fn(&mut KeyspaceEdit)| {
        let mut keyspace = KeyspaceEdit::new(0);
        change(&mut keyspace);
        VersionEdit::of_keyspace(keyspace)
    };
    vec![
        VersionEdit {
            format: Some(super::edit::FORMAT),
            next_file: Some(9),
            next_run: Some(3),
            last_seq: Some(70),
            next_keyspace: Some(1),
            ..VersionEdit::create_keyspace(0, "default")
        },
        VersionEdit::of_new_log(
            LogInfo {
                number: 10,
                base: 500,
                salt: 77,
            },
            400,
        ),
        of(&|keyspace| {
            keyspace.flushed_seq = Some(60);
            keyspace.reach = Some(450);
            keyspace.add(0, 1, file(4, ["a", "k"]));
            keyspace.add(0, 2, file(5, ["c", "z"]));
        }),
        of(&|keyspace| {
            keyspace.design = Some(StoredDesign {
                policy: 1,
                size_ratio: 6,
                ..StoredDesign::default()
            });
            keyspace.options = Some([2, 1, 6].into());
            keyspace.moves.push(MovedFile {
                file: file(4, ["a", "k"]),
                from: 0,
                to: 1,
                run: 3,
            });
        }),
        of(&|keyspace| {
            let level = 0;
            let file = file(5, ["c", "z"]);
            keyspace.removes.push(RemovedFile { level, file });
        }),
        VersionEdit::create_keyspace(1, "users"),
        VersionEdit::of_feature(feature::Feature::Expiring),
        VersionEdit::of_logs(10, 500),
        VersionEdit::drop_keyspace(1),
    ]
}

pub(crate) fn version_edit_seeds() -> Vec<Vec<u8>> {
    let records: Vec<Vec<u8>> = edits().iter().map(encoded).collect();
    (1..=records.len())
        .map(|count| chunked(&[], records[..count].iter().map(Vec::as_slice)))
        .collect()
}

pub(crate) fn manifest_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for count in [0, 3, edits().len()] {
        let fs = MemFs::new();
        let dir = Path::new(DIR);
        fs.create_dir_all(dir).expect("a folder in memory");
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        let account = Obsolete::new(&Budget::new(BUDGET));
        let begun = Manifest::begin(&shared, dir, None, &account);
        let (mut manifest, _) = begun.expect("a manifest");
        for edit in edits().iter().take(count) {
            manifest.log_edit(edit, || 100).expect("a sound edit");
        }
        manifest.seal().expect("a log in memory");
        let read = |name: &str| fs.read_file(dir.join(name)).expect(name);
        let line = read(CURRENT);
        let files = [read(&manifest_name(1)), read(&marks_name(1)), line];
        for repair in [0, 3] {
            seeds.push(chunked(&[repair], files.iter().map(Vec::as_slice)));
        }
        let unsummed = &files[2][..files[2].len() - 10];
        seeds.push(chunked(&[7], [&files[0], &files[1], unsummed]));
    }
    seeds
}
