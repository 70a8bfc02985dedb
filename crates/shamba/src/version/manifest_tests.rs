//! The manifest across restarts, crashes and damage.

use std::path::Path;
use std::sync::Arc;

use super::edit::{FORMAT, KeyspaceEdit, VersionEdit};
use super::file_meta::{FileInfo, FileMeta, Obsolete};
use super::manifest::{CURRENT, Manifest};
use super::set::TreeState;
use crate::Error;
use crate::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};

const DIR: &str = "/db";

struct Db {
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

fn open(fs: &Arc<dyn Fs>, create: bool) -> crate::Result<Db> {
    let obsolete = Arc::new(Obsolete::default());
    let dir = Path::new(DIR);
    let found = match create {
        true => None,
        false => Some(Manifest::read(&**fs, dir)?),
    };
    let (manifest, state) = Manifest::begin(fs, dir, found, &obsolete)?;
    let next = state.next_file;
    Ok(Db {
        manifest,
        obsolete,
        next,
    })
}

impl Db {
    fn log(&mut self, edit: &VersionEdit) -> crate::Result<()> {
        let next = &mut self.next;
        self.manifest.log_edit(edit, || {
            *next += 1;
            *next - 1
        })
    }
}

fn path_of(db: &Db) -> std::path::PathBuf {
    Path::new(DIR).join(db.manifest.file_name())
}

fn file(number: u64) -> Arc<FileMeta> {
    let key = number.to_be_bytes();
    Arc::new(FileMeta::new(FileInfo {
        number,
        size: 4096,
        entries: 1,
        smallest: key.into(),
        largest: key.into(),
        min_seq: number,
        max_seq: number,
        ..FileInfo::default()
    }))
}

/// Step `i` of a history: adds a file to a run of level 1, and drops the one before the last.
fn step(i: u64) -> VersionEdit {
    if i == 0 {
        return VersionEdit::create_keyspace(7, "default");
    }
    let mut edit = KeyspaceEdit::new(7);
    edit.add(1, 1, file(1000 + i));
    if i > 2 {
        edit.remove(1, 1000 + i - 2);
    }
    edit.flushed_seq = Some(i);
    VersionEdit::of_keyspace(edit)
}

/// The last step a state has seen; checks that the rest of the state is that step's.
fn last_step(state: &TreeState) -> Option<u64> {
    let keyspace = state.keyspaces.get(&7)?;
    let i = keyspace.flushed_seq;
    let numbers: Vec<_> = keyspace.version.files().map(|f| f.number).collect();
    let want: Vec<_> = (i.saturating_sub(1).max(1)..=i).map(|i| 1000 + i).collect();
    assert_eq!(numbers, want, "after step {i}");
    Some(i)
}

fn read(fs: &dyn Fs) -> crate::Result<Option<u64>> {
    Ok(last_step(&Manifest::read(fs, Path::new(DIR))?.0))
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
    db.log(&step(3)).unwrap();
    assert_eq!(db.obsolete.take(), []);
    drop(reader);
    assert_eq!(db.obsolete.take(), [(1001, 0)]);
    let mut moved = KeyspaceEdit::new(7);
    let kept = Arc::clone(db.manifest.version(7).unwrap().files().next().unwrap());
    moved.remove(1, kept.number);
    moved.add(2, 9, kept);
    db.log(&VersionEdit::of_keyspace(moved)).unwrap();
    assert_eq!(db.obsolete.take(), [], "a moved file stays");
    db.log(&VersionEdit::drop_keyspace(7)).unwrap();
    assert_eq!(db.obsolete.take().len(), 2);
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
    edit.remove(3, 99);
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
        Err(Error::Corruption { file, what, .. }) => format!("{}: {what}", file.display()),
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
    mem.write_file(&current, line("shamba 1 ../secret").as_bytes())
        .unwrap();
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

    let missing = sound.deep_clone();
    missing.remove(&Path::new(DIR).join(&name)).unwrap();
    assert!(what(&missing).contains("it is missing"));
    let empty = sound.deep_clone();
    empty.write_file(Path::new(DIR).join(&name), b"").unwrap();
    assert!(what(&empty).contains("no edit"));
    assert_eq!(read(&sound).unwrap(), None);
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
    Manifest::write_new(&mem, copy, &db.manifest.state().snapshot()).unwrap();
    let (state, _) = Manifest::read(&mem, copy).unwrap();
    assert_eq!(last_step(&state), Some(3));
}
