//! The manifest across restarts, crashes and damage.

use std::path::Path;
use std::sync::Arc;

use super::current::CURRENT;
use super::edit::{FORMAT, KeyspaceEdit, VersionEdit};
use super::file_meta::{FileInfo, FileMeta};
use super::manifest::Manifest;
use super::obsolete::Obsolete;
use super::set::TreeState;
use crate::Error;
use crate::budget::Budget;
use crate::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};

const DIR: &str = "/db";

struct OpenManifest {
    manifest: Manifest,
    obsolete: Arc<Obsolete>,
    next: u64,
}

fn fresh() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

fn open(fs: &Arc<dyn Fs>, create: bool) -> crate::Result<OpenManifest> {
    let obsolete = Obsolete::new(&Budget::new(u64::MAX));
    let dir = Path::new(DIR);
    let found = if create {
        None
    } else {
        let found = Manifest::read(&**fs, dir, &obsolete)?;
        Some((found.state, found.name))
    };
    let (manifest, state) = Manifest::begin(fs, dir, found, &obsolete)?;
    let next = state.next_file;
    Ok(OpenManifest {
        manifest,
        obsolete,
        next,
    })
}

impl OpenManifest {
    fn log(&mut self, edit: &VersionEdit) -> crate::Result<()> {
        let next = &mut self.next;
        self.manifest.log_edit(edit, || {
            *next += 1;
            *next - 1
        })
    }
}

/// The state of a folder, however many tables it has.
fn state_of(fs: &dyn Fs, dir: impl AsRef<Path>) -> crate::Result<TreeState> {
    let account = Obsolete::new(&Budget::new(u64::MAX));
    Ok(Manifest::read(fs, dir.as_ref(), &account)?.state)
}

fn path_of(db: &OpenManifest) -> std::path::PathBuf {
    Path::new(DIR).join(db.manifest.file_name())
}

fn file(number: u64, key_len: usize) -> FileMeta {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(key.len().max(key_len), b'x');
    FileMeta::new(&FileInfo {
        number,
        size: 4096,
        entries: 1,
        smallest: key.clone().into(),
        largest: key.into(),
        min_seq: number,
        max_seq: number,
        ..FileInfo::default()
    })
}

/// Step `i` of a history: adds a file to a run of level 1, and drops the one before the last.
fn step(i: u64) -> VersionEdit {
    step_of(i, 8)
}

/// A step whose edit takes several records.
fn long_step(i: u64) -> VersionEdit {
    step_of(i, 40_000)
}

fn step_of(i: u64, key_len: usize) -> VersionEdit {
    if i == 0 {
        return VersionEdit::create_keyspace(7, "default");
    }
    let mut edit = KeyspaceEdit::new(7);
    edit.add(1, 1, file(1000 + i, key_len));
    if i > 2 {
        edit.remove(1, file(1000 + i - 2, key_len));
    }
    // One that comes and goes, so that an edit with long keys goes on after its first record.
    edit.add(2, 2, file(500_000 + i, key_len));
    if i > 1 {
        edit.remove(2, file(500_000 + i - 1, key_len));
    }
    edit.flushed_seq = Some(i);
    VersionEdit::of_keyspace(edit)
}

/// The last step a state has seen; checks that the rest of the state is that step's.
fn last_step(state: &TreeState) -> Option<u64> {
    let keyspace = state.keyspaces.get(&7)?;
    let i = keyspace.flushed_seq;
    let numbers: Vec<_> = keyspace.version.files().map(|f| f.number()).collect();
    let mut want: Vec<_> = (i.saturating_sub(1).max(1)..=i).map(|i| 1000 + i).collect();
    want.extend((i > 0).then_some(500_000 + i));
    assert_eq!(numbers, want, "after step {i}");
    Some(i)
}

fn read(fs: &dyn Fs) -> crate::Result<Option<u64>> {
    Ok(last_step(&state_of(fs, DIR)?))
}

#[test]
fn edits_survive_reopening() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    for round in 0..3 {
        let mut db = open(&fs, round == 0).unwrap();
        for i in 0..10 {
            db.log(&step(round * 10 + i)).unwrap();
        }
        if round == 1 {
            db.manifest.seal().unwrap();
        }
        assert_eq!(last_step(db.manifest.state()), Some(round * 10 + 9));
    }
    assert_eq!(read(&mem).unwrap(), Some(29));
    let files = mem.files();
    assert_eq!(files.len(), 3, "old manifests are removed: {files:?}");
}

#[test]
fn dropped_files_become_obsolete_once_unused() {
    let fs: Arc<dyn Fs> = Arc::new(fresh());
    let mut db = open(&fs, true).unwrap();
    for i in 0..3 {
        db.log(&step(i)).unwrap();
    }
    let reader = db.manifest.version(7).unwrap();
    assert_eq!(db.obsolete.take(), [(500_001, 0)]);
    db.log(&step(3)).unwrap();
    assert_eq!(db.obsolete.take(), []);
    drop(reader);
    let mut unused = db.obsolete.take();
    unused.sort_unstable();
    assert_eq!(unused, [(1001, 0), (500_002, 0)]);
    let mut moved = KeyspaceEdit::new(7);
    let kept = db
        .manifest
        .version(7)
        .unwrap()
        .files()
        .next()
        .unwrap()
        .clone();
    moved.remove(1, kept.clone());
    moved.add(2, 9, kept);
    db.log(&VersionEdit::of_keyspace(moved)).unwrap();
    assert_eq!(db.obsolete.take(), [], "a moved file stays");
    db.log(&VersionEdit::drop_keyspace(7)).unwrap();
    assert_eq!(db.obsolete.take().len(), 3);
}

#[test]
fn long_manifests_are_begun_anew() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    let first = db.manifest.file_name().to_owned();
    let mut i = 0;
    while db.manifest.file_name() == first {
        i += 1;
        db.log(&step(i)).unwrap();
        assert!(i < 100_000, "the manifest grows without end");
    }
    assert_eq!(read(&mem).unwrap(), Some(i));
    assert_eq!(mem.files().len(), 3);
    let len = |name: &str| mem.read_file(Path::new(DIR).join(name)).unwrap().len();
    assert!(len(db.manifest.file_name()) < 4096);
}

#[test]
fn numbers_of_orphans_are_not_used_again() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    drop(open(&fs, true).unwrap());
    mem.write_file(Path::new(DIR).join("000041.sst"), b"x")
        .unwrap();
    let db = open(&fs, false).unwrap();
    assert_eq!(db.manifest.file_name(), "MANIFEST-000042");
    assert_eq!(db.next, 43);
}

#[test]
fn a_contradiction_writes_nothing_and_stops_nothing() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    let mut edit = KeyspaceEdit::new(7);
    edit.remove(3, file(99, 8));
    let err = db.log(&VersionEdit::of_keyspace(edit)).unwrap_err();
    assert!(err.is_corruption(), "{err}");
    db.log(&step(1)).unwrap();
    assert_eq!(read(&mem).unwrap(), Some(1));
}

#[test]
fn crashes_keep_every_synced_edit() {
    for seed in 0..300u64 {
        let mem = fresh();
        let faults = Faults::new();
        let fs: Arc<dyn Fs> = Arc::new(FaultFs::new(Arc::new(mem.clone()), faults.clone()));
        // The power fails at some operation, wherever that is.
        let at = seed * 7 % 150;
        faults.add(
            Fault::new(Effect::Fail(FaultError::EIO))
                .after(at)
                .forever(),
        );
        let step = if seed % 2 == 0 { step } else { long_step };
        let mut done = None;
        let mut tried = None;
        let mut created = false;
        let _ = (|| -> crate::Result<()> {
            let mut db = open(&fs, true)?;
            created = true;
            for i in 0..20 {
                tried = Some(i);
                db.log(&step(i))?;
                done = Some(i);
                if i % 7 == 6 {
                    drop(db);
                    db = open(&fs, false)?;
                }
            }
            Ok(())
        })();
        let crashed = mem.crash_clone(seed);
        let found = match read(&crashed) {
            Ok(found) => found,
            Err(error) => {
                assert!(!created, "seed {seed}: {error}");
                continue;
            }
        };
        assert!(
            found >= done,
            "seed {seed}: {found:?} after {done:?} was durable"
        );
        assert!(found <= tried, "seed {seed}: {found:?} was never written");
        let fs: Arc<dyn Fs> = Arc::new(crashed);
        let mut db = open(&fs, false).unwrap();
        db.log(&step(found.map_or(0, |i| i + 1))).unwrap();
    }
}

#[test]
fn a_failed_edit_stops_all_further_ones() {
    let mem = fresh();
    let faults = Faults::new();
    let fs: Arc<dyn Fs> = Arc::new(FaultFs::new(Arc::new(mem.clone()), faults.clone()));
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    faults.add(
        Fault::new(Effect::Fail(FaultError::EIO))
            .on(Op::Sync)
            .times(1),
    );
    assert!(matches!(db.log(&step(1)), Err(Error::Io { .. })));
    assert!(matches!(db.log(&step(1)), Err(Error::Io { .. })));
    assert_eq!(last_step(db.manifest.state()), Some(0));
    assert_eq!(db.obsolete.take(), []);
}

#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    for i in 0..6 {
        db.log(&step(i)).unwrap();
    }
    drop(db);
    let mut noticed = 0;
    for path in mem.files() {
        let sound = mem.read_file(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            let damaged = mem.deep_clone();
            damaged.write_file(&path, &bytes).unwrap();
            match read(&damaged) {
                Ok(found) => assert_eq!(found, Some(5), "{} at {at}", path.display()),
                Err(Error::Corruption { .. } | Error::UnsupportedFormat { .. }) => noticed += 1,
                Err(other) => panic!("{} at {at}: {other}", path.display()),
            }
        }
    }
    assert!(noticed > 300, "{noticed}");
}

#[test]
fn a_manifest_cut_off_anywhere_is_noticed() {
    for sealed in [false, true] {
        let mem = fresh();
        let fs: Arc<dyn Fs> = Arc::new(mem.clone());
        let mut db = open(&fs, true).unwrap();
        // Where records end.
        let mut ends = vec![mem.read_file(path_of(&db)).unwrap().len()];
        for i in 0..6 {
            db.log(&step(i)).unwrap();
            ends.push(mem.read_file(path_of(&db)).unwrap().len());
        }
        if sealed {
            db.manifest.seal().unwrap();
        }
        let whole = mem.read_file(path_of(&db)).unwrap();
        let last = ends.pop().unwrap();
        for cut in 0..whole.len() {
            let damaged = mem.kill_clone();
            damaged.write_file(path_of(&db), &whole[..cut]).unwrap();
            match read(&damaged) {
                Ok(found) => assert!(cut >= last && found == Some(5), "cut at {cut}: {found:?}"),
                Err(Error::Corruption { .. }) => assert!(cut < last, "cut at {cut}"),
                Err(other) => panic!("cut at {cut}: {other}"),
            }
        }
        for cut in ends {
            let damaged = mem.kill_clone();
            damaged.write_file(path_of(&db), &whole[..cut]).unwrap();
            let error = read(&damaged).unwrap_err().to_string();
            assert!(error.contains("was durable up to byte"), "{error}");
        }
    }
}

#[test]
fn damaged_marks_alone_do_no_harm() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    (0..4).for_each(|i| db.log(&step(i)).unwrap());
    let marks = Path::new(DIR).join("MARKS-000001");
    let sound = mem.read_file(&marks).unwrap();
    for cut in 0..sound.len() {
        let damaged = mem.kill_clone();
        damaged.write_file(&marks, &sound[..cut]).unwrap();
        assert_eq!(read(&damaged).unwrap(), Some(3), "cut at {cut}");
    }
    mem.remove(&marks).unwrap();
    assert_eq!(read(&mem).unwrap(), Some(3));
}

#[test]
fn an_edit_of_several_records_is_there_whole_or_not_at_all() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    (0..3).for_each(|i| db.log(&long_step(i)).unwrap());
    let path = path_of(&db);
    let before = mem.read_file(&path).unwrap().len();
    db.log(&long_step(3)).unwrap();
    let whole = mem.read_file(&path).unwrap();
    assert!(whole.len() - before > 128 << 10);
    // As a power failure leaves it that took the mark too.
    let marks = Path::new(DIR).join("MARKS-000001");
    mem.remove(&marks).unwrap();
    for cut in (before..=whole.len()).rev().step_by(1997) {
        let torn = mem.kill_clone();
        torn.write_file(&path, &whole[..cut]).unwrap();
        let want = if cut == whole.len() { 3 } else { 2 };
        assert_eq!(read(&torn).unwrap(), Some(want), "cut at {cut}");
    }
}

#[test]
fn a_snapshot_of_several_records_that_is_cut_off_is_noticed() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    (0..4).for_each(|i| db.log(&long_step(i)).unwrap());
    drop(db);
    let db = open(&fs, false).unwrap();
    let path = path_of(&db);
    let whole = mem.read_file(&path).unwrap();
    assert!(whole.len() > 192 << 10);
    // What a mark would say is not needed for this.
    for name in mem.files() {
        if name.to_string_lossy().contains("MARKS") {
            mem.remove(&name).unwrap();
        }
    }
    assert_eq!(read(&mem).unwrap(), Some(3));
    for cut in (0..whole.len()).step_by(1997) {
        let torn = mem.kill_clone();
        torn.write_file(&path, &whole[..cut]).unwrap();
        let error = read(&torn).unwrap_err();
        assert!(error.is_corruption(), "cut at {cut}: {error}");
    }
}

#[test]
fn a_tree_larger_than_any_record_is_logged_copied_and_read_again() {
    // 2,100 tables with two keys of 64 KiB each: 275 MB, where a record takes 268.
    const FILES: u64 = 2100;
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    let mut all = KeyspaceEdit::new(7);
    (0..FILES).for_each(|i| all.add(1, 1, file(1000 + i, 65_535)));
    db.log(&VersionEdit::of_keyspace(all)).unwrap();
    db.manifest.seal().unwrap();
    drop(db);
    // A manifest of its snapshot, at the next open.
    let db = open(&fs, false).unwrap();
    let name = path_of(&db);
    assert!(mem.read_file(&name).unwrap().len() > 256 << 20);
    let copy = Path::new("/copy");
    mem.create_dir_all(copy).unwrap();
    Manifest::write_new(&mem, copy, db.manifest.state().clone()).unwrap();
    drop(db);
    for dir in [DIR, "/copy"] {
        let state = state_of(&mem, dir).unwrap();
        let files = state.keyspaces[&7].version.files();
        assert!(files.map(|file| file.number()).eq(1000..1000 + FILES));
    }
}

#[test]
fn a_new_manifest_that_cannot_be_begun_is_told_of_and_tried_again() {
    let mem = fresh();
    let faults = Faults::new();
    let fs: Arc<dyn Fs> = Arc::new(FaultFs::new(Arc::new(mem.clone()), faults.clone()));
    let mut db = open(&fs, true).unwrap();
    faults.add(
        Fault::new(Effect::Fail(FaultError::ENOSPC))
            .on(Op::Create)
            .forever(),
    );
    let mut i = 0;
    while db
        .manifest
        .failed_rolls()
        .is_none_or(|(times, _)| *times < 3)
    {
        db.log(&long_step(i)).unwrap();
        i += 1;
        assert!(i < 1000, "nothing was tried again, or nobody was told");
    }
    let (_, error) = db.manifest.failed_rolls().unwrap();
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    assert_eq!(read(&mem).unwrap(), Some(i - 1), "the old one goes on");
    let old = db.manifest.file_name().to_owned();
    faults.clear();
    while db.manifest.failed_rolls().is_some() {
        db.log(&long_step(i)).unwrap();
        i += 1;
        assert!(i < 1000, "it was never tried again");
    }
    assert_ne!(db.manifest.file_name(), old);
    assert!(db.manifest.len() < 1 << 20);
    assert_eq!(read(&mem).unwrap(), Some(i - 1));
    assert_eq!(mem.files().len(), 3);
}

/// What an edit or a new manifest finds scarce leaves the edit out, and it can be logged later.
#[test]
fn edits_are_logged_once_there_is_room() {
    // ERROR_TOO_MANY_OPEN_FILES on Windows.
    const EMFILE: FaultError = FaultError::Os(if cfg!(windows) { 4 } else { 24 });
    const ENOSPC: FaultError = FaultError::ENOSPC;
    let scarce = [
        (EMFILE, Op::SyncDir, ""),
        (EMFILE, Op::Create, ""),
        (ENOSPC, Op::Create, ""),
        (ENOSPC, Op::Append, ""),
        (ENOSPC, Op::Append, "CURRENT.tmp"),
        (ENOSPC, Op::Rename, ""),
    ];
    let mut refused = 0;
    for ((error, op, path), skip) in scarce
        .iter()
        .flat_map(|of| (0..4).map(move |skip| (of, skip)))
    {
        let mem = fresh();
        let faults = Faults::new();
        let fs: Arc<dyn Fs> = Arc::new(FaultFs::new(Arc::new(mem.clone()), faults.clone()));
        let mut db = open(&fs, true).unwrap();
        db.log(&step(0)).unwrap();
        let fault = Fault::new(Effect::Fail(*error)).on(*op).path_ending(path);
        faults.add(fault.after(skip).times(2));
        let (first, mut i) = (db.manifest.file_name().to_owned(), 1);
        while db.manifest.file_name() == first || faults.fired() < 1 || i % 8 > 0 {
            let mut tries = 0;
            while db.log(&long_step(i)).is_err() {
                assert!(!db.manifest.is_stopped(), "{error:?} {op:?} {skip}");
                refused += 1;
                tries += 1;
                assert!(tries < 4);
                for seed in 0..4 {
                    assert_eq!(read(&mem.crash_clone(seed)).unwrap(), Some(i - 1));
                }
            }
            i += 1;
            assert!(i < 1000, "{error:?} {op:?} {skip}: never met");
        }
        for seed in 0..4 {
            assert_eq!(read(&mem.crash_clone(seed)).unwrap(), Some(i - 1));
        }
        db.manifest.seal().unwrap();
        assert_eq!(mem.files().len(), 3, "{error:?} {op:?} {skip}");
    }
    assert!(refused > 6, "{refused}");
}

#[test]
fn torn_tails_end_quietly() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    db.log(&step(1)).unwrap();
    let path = Path::new(DIR).join(db.manifest.file_name());
    drop(db);
    let mut bytes = mem.read_file(&path).unwrap();
    bytes.extend_from_slice(&[0xab; 50]);
    mem.write_file(&path, &bytes).unwrap();
    assert_eq!(read(&mem).unwrap(), Some(1));
}

#[test]
fn bad_folders_give_clear_errors() {
    let what = |mem: &MemFs| match read(mem) {
        // Windows writes another separator.
        Err(Error::Corruption { file, what, .. }) => {
            format!("{}: {what}", file.display()).replace('\\', "/")
        }
        other => panic!("{other:?}"),
    };
    let mem = fresh();
    let current = Path::new(DIR).join(CURRENT);
    assert!(what(&mem).contains("/db/CURRENT: the file is missing"));
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    assert!(open(&fs, false).is_err());
    let name = open(&fs, true).unwrap().manifest.file_name().to_owned();
    let sound = mem.deep_clone();

    for bad in [
        "",
        "nonsense\n",
        "shamba 1 MANIFEST-000001\n",
        "shamba 1 MANIFEST-000001 00000000\n",
    ] {
        mem.write_file(&current, bad.as_bytes()).unwrap();
        assert!(what(&mem).contains("checksum"), "{bad}");
    }
    mem.write_file(&current, &[b'x'; 1000]).unwrap();
    assert!(what(&mem).contains("longer"));
    let line = |text: &str| {
        let sum = crate::base::checksum::checksum(0, text.as_bytes());
        format!("{text} {sum:08x}\n")
    };
    mem.write_file(
        &current,
        line(&format!("shamba {FORMAT} ../secret")).as_bytes(),
    )
    .unwrap();
    assert!(what(&mem).contains("does not name a manifest"));
    let no_salt = line(&format!("shamba {FORMAT} MANIFEST-000001"));
    mem.write_file(&current, no_salt.as_bytes()).unwrap();
    assert!(what(&mem).contains("does not name a manifest"));
    mem.write_file(&current, line("shamba 9 SOMETHING").as_bytes())
        .unwrap();
    assert!(matches!(
        read(&mem),
        Err(Error::UnsupportedFormat {
            found: 9,
            supported: FORMAT,
            ..
        })
    ));
    mem.write_file(&current, line("shamba 1 MANIFEST-000001").as_bytes())
        .unwrap();
    let error = read(&mem).unwrap_err().to_string();
    assert!(error.contains("format version 1"), "{error}");
    assert!(error.contains("use a build that reads it"), "{error}");

    let missing = sound.deep_clone();
    missing.remove(&Path::new(DIR).join(&name)).unwrap();
    assert!(what(&missing).contains("it is missing"));
    let empty = sound.deep_clone();
    empty.write_file(Path::new(DIR).join(&name), b"").unwrap();
    assert!(what(&empty).contains("no edit"));
    assert_eq!(read(&sound).unwrap(), None);
}

#[test]
fn a_manifest_of_another_history_is_damage_and_its_marks_say_nothing() {
    let begun = |steps: u64| {
        let mem = fresh();
        let fs: Arc<dyn Fs> = Arc::new(mem.clone());
        let mut db = open(&fs, true).unwrap();
        for i in 0..steps {
            db.log(&step(i)).unwrap();
        }
        let name = db.manifest.file_name().to_owned();
        db.manifest.seal().unwrap();
        (mem, name)
    };
    let ((ours, name), (other, other_name)) = (begun(3), begun(9));
    assert_eq!(name, other_name, "numbers alone do not tell them apart");
    let file = |name: &str| Path::new(DIR).join(name);
    let of_other = |name: &str| other.read_file(file(name)).unwrap();

    // Longer than ours, so that its length tells nothing.
    let swapped = ours.deep_clone();
    swapped.write_file(file(&name), &of_other(&name)).unwrap();
    let error = read(&swapped).unwrap_err();
    assert!(error.is_corruption(), "{error}");

    let marks = name.replace("MANIFEST", "MARKS");
    let with_marks = ours.deep_clone();
    with_marks
        .write_file(file(&marks), &of_other(&marks))
        .unwrap();
    assert_eq!(read(&with_marks).unwrap(), Some(2));
}

#[test]
fn an_ended_manifest_writes_nothing_more() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    db.log(&step(0)).unwrap();
    db.manifest.seal().unwrap();
    db.manifest.end();
    let before = mem.deep_clone();
    assert!(matches!(db.log(&step(1)), Err(Error::Closed)));
    for entry in mem.list(Path::new(DIR)).unwrap() {
        let path = Path::new(DIR).join(entry.name);
        assert_eq!(
            mem.read_file(&path).unwrap(),
            before.read_file(&path).unwrap()
        );
    }
}

#[test]
fn checkpoints_have_a_manifest_of_their_own() {
    let mem = fresh();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let mut db = open(&fs, true).unwrap();
    for i in 0..4 {
        db.log(&step(i)).unwrap();
    }
    let copy = Path::new("/copy");
    mem.create_dir_all(copy).unwrap();
    Manifest::write_new(&mem, copy, db.manifest.state().clone()).unwrap();
    let state = state_of(&mem, copy).unwrap();
    assert_eq!(last_step(&state), Some(3));
}
