//! A process may have only so many files open: tables are closed in time, and when there are none
//! left all the same, those that nobody uses make room. Iterators hold tables, and no more files
//! than there may be.

mod common;

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{contents, files_ending, small_options};
use shamba::fs::{Access, DirEntry, FileLock, Fs, MemFs, OsFs, ReadFile, ReadTag, WriteFile};
use shamba::{IterOptions, KeyspaceOptions, Options};

/// What `open` answers when the process has too many files open.
const EMFILE: i32 = 24;

/// Memory, with so many open files at most.
#[derive(Debug)]
struct FewFiles {
    inner: MemFs,
    /// What may be open, and what the file system says of it.
    most: usize,
    says: Option<u64>,
    open: Arc<AtomicUsize>,
    refused: AtomicUsize,
    peak: AtomicUsize,
}

impl FewFiles {
    fn new(most: usize, says: Option<u64>) -> Arc<Self> {
        FewFiles::of(MemFs::new(), most, says)
    }

    fn of(inner: MemFs, most: usize, says: Option<u64>) -> Arc<Self> {
        Arc::new(FewFiles {
            inner,
            most,
            says,
            open: Arc::default(),
            refused: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn ReadFile>,
    open: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadFile for Counted {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, tag: ReadTag) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset, tag)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

impl Fs for FewFiles {
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>> {
        self.inner.create(path, access)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        if self.open.load(Ordering::SeqCst) >= self.most {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let inner = self.inner.open(path, access)?;
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(open, Ordering::SeqCst);
        Ok(Arc::new(Counted {
            inner,
            open: self.open.clone(),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }

    fn open_file_limit(&self) -> Option<u64> {
        self.says
    }
}

/// Writes and reads a database of more than `tables` tables.
fn write_and_read(fs: &Arc<FewFiles>, entries: u32, tables: usize) {
    let options = small_options(fs.clone()).memory(shamba::MemoryBudget::bytes(8 << 20));
    let db = options.max_open_files(4096).open("/db").unwrap();
    for number in 0..entries {
        db.put(number.wrapping_mul(2_654_435_761).to_be_bytes(), [1; 60])
            .unwrap();
    }
    db.compact_range(None, None).unwrap();
    let stats = db.stats();
    let levels = &stats.keyspaces[0].levels;
    let files: usize = levels.iter().map(|level| level.files).sum();
    assert!(files > tables, "only {files} tables");
    for number in 0..entries {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        assert!(db.contains_key(key).unwrap());
    }
    assert_eq!(
        contents(&db.default_keyspace()).unwrap().len(),
        entries as usize
    );
    db.close().unwrap();
}

#[test]
fn the_files_a_process_may_have_bound_the_tables_that_are_open() {
    let fs = FewFiles::new(24, Some(24));
    write_and_read(&fs, 6000, 2 * 24);
    let peak = fs.peak.load(Ordering::SeqCst);
    assert!((10..24).contains(&peak), "{peak} files were open");
    assert_eq!(fs.refused.load(Ordering::SeqCst), 0);
}

/// The system keeps some KiB for each open file, which a container counts.
#[test]
fn a_small_budget_keeps_few_files_open() {
    let fs = FewFiles::new(4096, None);
    write_and_read(&fs, 40_000, 300);
    let peak = fs.peak.load(Ordering::SeqCst);
    assert!((200..=257).contains(&peak), "{peak} files were open");
}

/// Tables by the hundred that a merge reads are open one of each run at a time.
#[test]
fn a_merge_closes_its_inputs_as_it_passes_them() {
    let fs = FewFiles::new(4096, None);
    let options = small_options(fs.clone()).memory(shamba::MemoryBudget::bytes(64 << 20));
    // Else what fits is kept open for who looks it up.
    let options = options.max_open_files(4096).inherit_statistics(false);
    let db = options.open("/db").unwrap();
    for number in 0..6000u32 {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        db.put(key, [1; 60]).unwrap();
    }
    // Nobody has looked anything up.
    db.compact_range(None, None).unwrap();
    let files: usize = db.stats().keyspaces[0].levels.iter().map(|l| l.files).sum();
    assert!(files > 48, "only {files} tables");
    assert_eq!(db.stats().open_tables, 0);
    let peak = fs.peak.load(Ordering::SeqCst);
    assert!((2..5).contains(&peak), "{peak} files were open");
    db.close().unwrap();
}

#[test]
fn tables_that_nobody_uses_make_room_when_files_run_out() {
    let fs = FewFiles::new(24, None);
    write_and_read(&fs, 6000, 2 * 24);
    assert!(
        fs.refused.load(Ordering::SeqCst) > 20,
        "hardly ever short of files: {fs:?}"
    );
}

/// Logs that an idle keyspace needs, and tables of the other.
#[test]
fn logs_are_read_where_fewer_files_may_be_open_than_there_are() {
    const LOGS: usize = 50;
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open("/db").unwrap();
    let idle = db.create_keyspace("idle", KeyspaceOptions::default());
    idle.unwrap().put("key", b"value").unwrap();
    let mut written = 0u32;
    while files_ending(&fs, "/db", ".wal").len() < LOGS {
        db.put(written.to_be_bytes(), [1; 100]).unwrap();
        written += 1;
    }
    let fs = fs.kill_clone();
    for most in [4, 8, 24, 40] {
        for read_only in [true, false] {
            let few = FewFiles::of(fs.deep_clone(), most, None);
            let options = small_options(few.clone()).read_only(read_only);
            let db = options.open("/db").unwrap();
            let idle = db.keyspace("idle").unwrap();
            assert_eq!(idle.get("key").unwrap().as_deref(), Some(&b"value"[..]));
            assert_eq!(
                contents(&db.default_keyspace()).unwrap().len(),
                written as usize
            );
            let refused = few.refused.load(Ordering::SeqCst);
            assert!(refused > 0 || !read_only, "never short of files");
        }
    }
}

/// Positions iterators all over the keys, more than files may be open, and moves each in turn,
/// while lookups and writes go on.
fn many_iterators(options: Options, dir: &Path, iterators: u32, mut look: impl FnMut()) {
    let db = options.open(dir).unwrap();
    let key = |number: u32| number.to_be_bytes();
    const KEYS: u32 = 12_000;
    for number in 0..KEYS {
        let number = number.wrapping_mul(7919) % KEYS;
        db.put(key(number), [number as u8; 60]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let stats = db.stats();
    let levels = &stats.keyspaces[0].levels;
    let files: usize = levels.iter().map(|level| level.files).sum();
    assert!(files > iterators as usize, "only {files} tables");
    look();
    let step = KEYS / iterators;
    let mut open: Vec<_> = (0..iterators)
        .map(|number| {
            let mut iter = db.cursor(IterOptions::default()).unwrap();
            iter.seek(key(number * step)).unwrap();
            (iter, number * step)
        })
        .collect();
    for round in 0..2 * step.min(100) {
        for (iter, at) in &mut open {
            assert_eq!(iter.key(), key(*at));
            assert_eq!(iter.value(), [*at as u8; 60]);
            if *at + 1 < KEYS {
                iter.next().unwrap();
                *at += 1;
            }
        }
        let number = round.wrapping_mul(2_654_435_761) % KEYS;
        assert!(db.contains_key(key(number)).unwrap());
        db.put(key(number), [number as u8; 60]).unwrap();
    }
    db.flush().unwrap();
    look();
    drop(open);
    db.close().unwrap();
}

#[test]
fn iterators_hold_no_more_files_than_may_be_open() {
    let fs = FewFiles::new(usize::MAX, None);
    let options = small_options(fs.clone()).memory(shamba::MemoryBudget::bytes(16 << 20));
    let mut peaks = Vec::new();
    many_iterators(options.max_open_files(16), Path::new("/db"), 60, || {
        peaks.push(fs.peak.load(Ordering::SeqCst));
    });
    assert_eq!(peaks.len(), 2);
    assert!(peaks[0] < 17 && peaks[1] == 16, "{peaks:?}");
}

/// The same in a process that may have 64 files open.
#[test]
fn many_iterators_work_where_few_files_may_be_open() {
    const DIR: &str = "SHAMBA_TEST_FEW_FILES";
    const NAME: &str = "many_iterators_work_where_few_files_may_be_open";
    if let Some(dir) = std::env::var_os(DIR) {
        let options = small_options(Arc::new(OsFs::new())).background_threads(2);
        let options = options.memory(shamba::MemoryBudget::bytes(16 << 20));
        return many_iterators(options, Path::new(&dir), 80, || {});
    }
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 64 && exec \"$0\" --exact \"$1\" --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(DIR, dir.path().join("db"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{text}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}
