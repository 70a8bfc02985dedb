//! A wrapper around any file system that fails on request.
//!
//! For tests. Every operation is counted by kind, shown to an optional hook, and then compared
//! with the planned [`Fault`]s; the first one due decides. [`Faults`] is the shared control:
//! clones act on the same file system, from any thread. Running a workload once and reading the
//! counts gives the number of places at which it can be made to fail.
//!
//! Failures behave as badly as real ones may. A failed append leaves some prefix of its bytes in
//! the file. After a failed sync, later syncs of that file report success and make nothing
//! durable, as Linux does once it has dropped the pages it could not write.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Access, DirEntry, FileLock, Fs, ReadFile, ReadTag, WriteFile};

/// A kind of operation on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// [`Fs::create`].
    Create,
    /// [`Fs::open`].
    Open,
    /// [`ReadFile::read_exact_at`].
    Read,
    /// [`WriteFile::append`].
    Append,
    /// [`WriteFile::cut_back`].
    CutBack,
    /// [`WriteFile::sync`] and [`Fs::sync_file`].
    Sync,
    /// [`Fs::sync_dir`].
    SyncDir,
    /// [`Fs::rename`].
    Rename,
    /// [`Fs::remove`].
    Remove,
    /// [`Fs::hard_link`].
    Link,
    /// [`Fs::list`].
    List,
    /// [`Fs::exists`].
    Exists,
    /// [`Fs::create_dir_all`].
    CreateDir,
    /// [`Fs::lock`].
    Lock,
}

impl Op {
    /// Every kind.
    pub const ALL: [Op; 14] = [
        Op::Create,
        Op::Open,
        Op::Read,
        Op::Append,
        Op::CutBack,
        Op::Sync,
        Op::SyncDir,
        Op::Rename,
        Op::Remove,
        Op::Link,
        Op::List,
        Op::Exists,
        Op::CreateDir,
        Op::Lock,
    ];
}

/// The error an injected failure reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultError {
    /// A portable kind.
    Kind(io::ErrorKind),
    /// A code of the operating system.
    Os(i32),
}

impl FaultError {
    /// The device failed (`EIO`, on Windows `ERROR_IO_DEVICE`).
    pub const EIO: FaultError = FaultError::Os(if cfg!(windows) { 1117 } else { 5 });
    /// The device is full (`ENOSPC`, on Windows `ERROR_DISK_FULL`).
    pub const ENOSPC: FaultError = FaultError::Os(if cfg!(windows) { 112 } else { 28 });

    pub(crate) fn to_error(self) -> io::Error {
        match self {
            FaultError::Kind(kind) => kind.into(),
            FaultError::Os(code) => io::Error::from_raw_os_error(code),
        }
    }
}

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails; of a failed append, some prefix of the bytes may be in the file.
    Fail(FaultError),
    /// A read fills the first half of its buffer and reports `UnexpectedEof`; an append writes the
    /// first half of its bytes and reports `WriteZero`. Any other operation fails with
    /// `Interrupted`.
    Short,
    /// It takes this much longer, then goes on.
    Delay(Duration),
    /// A read succeeds with one bit of its bytes inverted; other operations go on.
    FlipBit,
}

/// A planned failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    effect: Effect,
    op: Option<Op>,
    path: String,
    skip: u64,
    left: u64,
}

impl Fault {
    /// Strikes the next operation, once; the other methods narrow or widen that.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Fault {
            effect,
            op: None,
            path: String::new(),
            skip: 0,
            left: 1,
        }
    }

    /// Strikes only operations of this kind.
    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Strikes only operations on files whose path ends with this, such as `".log"`.
    #[must_use]
    pub fn path_ending(mut self, suffix: &str) -> Self {
        self.path = suffix.to_string();
        self
    }

    /// Lets this many matching operations pass first.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Strikes this many matching operations in a row.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.left = count;
        self
    }

    /// Strikes every matching operation from then on.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// Whether the fault strikes this operation; keeps its own count.
    fn strikes(&mut self, op: Op, paths: &[&Path]) -> bool {
        if self.left == 0 || self.op.is_some_and(|wanted| wanted != op) {
            return false;
        }
        let ends = |path: &&Path| path.to_string_lossy().ends_with(&self.path);
        if !self.path.is_empty() && !paths.iter().any(ends) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Called before each operation, with the path it acts on (for a rename or link, the target).
pub type Hook = Arc<dyn Fn(Op, &Path) + Send + Sync>;

/// The control of a [`FaultFs`]; clones act on the same one.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    shared: Arc<FaultState>,
}

#[derive(Default)]
struct FaultState {
    counts: [AtomicU64; Op::ALL.len()],
    fired: AtomicU64,
    planned: Mutex<Vec<Fault>>,
    hook: Mutex<Option<Hook>>,
}

impl fmt::Debug for FaultState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("planned", &self.planned.lock())
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// No faults, no hook, all counts zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Plans a fault. Of several that are due, the one planned first strikes.
    pub fn add(&self, fault: Fault) {
        self.shared.planned.lock().push(fault);
    }

    /// Forgets all planned faults.
    pub fn clear(&self) {
        self.shared.planned.lock().clear();
    }

    /// Sets or removes what is called before each operation.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.shared.hook.lock() = hook;
    }

    /// Operations of this kind so far, failed ones included.
    #[must_use]
    pub fn count(&self, op: Op) -> u64 {
        let count = self.shared.counts.get(op as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Operations of all kinds so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        Op::ALL.iter().map(|&op| self.count(op)).sum()
    }

    /// How often a fault struck.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.fired.load(Ordering::Relaxed)
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        for count in self.shared.counts.iter().chain([&self.shared.fired]) {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the operation, calls the hook, waits out a delay, and gives what else strikes it.
    fn before(&self, op: Op, paths: &[&Path]) -> Option<Effect> {
        if let Some(count) = self.shared.counts.get(op as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Called outside the locks: a hook may use the control itself.
        let hook = self.shared.hook.lock().clone();
        if let (Some(hook), Some(path)) = (hook, paths.last()) {
            hook(op, path);
        }
        let effect = {
            let mut planned = self.shared.planned.lock();
            // Asked one after the other, so a fault behind the one that strikes keeps its count.
            let mut faults = planned.iter_mut();
            faults.find_map(|fault| fault.strikes(op, paths).then_some(fault.effect))
        }?;
        self.shared.fired.fetch_add(1, Ordering::Relaxed);
        match effect {
            Effect::Delay(time) => {
                std::thread::sleep(time);
                None
            }
            effect => Some(effect),
        }
    }

    fn check(&self, op: Op, paths: &[&Path]) -> io::Result<()> {
        match self.before(op, paths) {
            Some(Effect::Fail(error)) => Err(error.to_error()),
            Some(Effect::Short) => Err(io::ErrorKind::Interrupted.into()),
            Some(Effect::FlipBit | Effect::Delay(_)) | None => Ok(()),
        }
    }
}

/// A file system whose operations fail as [`Faults`] says.
#[derive(Debug, Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    faults: Faults,
}

impl FaultFs {
    /// Wraps a file system.
    #[must_use]
    pub fn new(inner: Arc<dyn Fs>, faults: Faults) -> Self {
        FaultFs { inner, faults }
    }

    /// The control.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

#[derive(Debug)]
struct FaultRead {
    inner: Arc<dyn ReadFile>,
    path: Box<Path>,
    faults: Faults,
}

impl ReadFile for FaultRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, tag: ReadTag) -> io::Result<()> {
        match self.faults.before(Op::Read, &[&self.path]) {
            Some(Effect::Fail(error)) => Err(error.to_error()),
            Some(Effect::Short) => {
                let half = buf.len() / 2;
                if let Some(head) = buf.get_mut(..half) {
                    self.inner.read_exact_at(head, offset, tag)?;
                }
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Some(Effect::FlipBit) => {
                self.inner.read_exact_at(buf, offset, tag)?;
                let middle = buf.len() / 2;
                if let Some(byte) = buf.get_mut(middle) {
                    *byte ^= 1 << (offset % 8);
                }
                Ok(())
            }
            Some(Effect::Delay(_)) | None => self.inner.read_exact_at(buf, offset, tag),
        }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

#[derive(Debug)]
struct FaultWrite {
    inner: Box<dyn WriteFile>,
    path: Box<Path>,
    faults: Faults,
    sync_failed: bool,
}

impl FaultWrite {
    fn append_part(&mut self, bytes: &[u8], len: usize) -> io::Result<()> {
        self.inner.append(bytes.get(..len).unwrap_or(bytes))
    }
}

impl WriteFile for FaultWrite {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.faults.before(Op::Append, &[&self.path]) {
            Some(Effect::Fail(error)) => {
                let spread = self.faults.total().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                self.append_part(bytes, spread as usize % (bytes.len() + 1))?;
                Err(error.to_error())
            }
            Some(Effect::Short) => {
                self.append_part(bytes, bytes.len() / 2)?;
                Err(io::ErrorKind::WriteZero.into())
            }
            Some(Effect::FlipBit | Effect::Delay(_)) | None => self.inner.append(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Err(error) = self.faults.check(Op::Sync, &[&self.path]) {
            self.sync_failed = true;
            return Err(error);
        }
        if self.sync_failed {
            return Ok(());
        }
        self.inner.sync()
    }

    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        self.faults.check(Op::CutBack, &[&self.path])?;
        if self.sync_failed {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.inner.cut_back(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

impl Fs for FaultFs {
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>> {
        self.faults.check(Op::Create, &[path])?;
        Ok(Box::new(FaultWrite {
            inner: self.inner.create(path, access)?,
            path: path.into(),
            faults: self.faults.clone(),
            sync_failed: false,
        }))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn open_file_limit(&self) -> Option<u64> {
        self.inner.open_file_limit()
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        self.faults.check(Op::Open, &[path])?;
        Ok(Arc::new(FaultRead {
            inner: self.inner.open(path, access)?,
            path: path.into(),
            faults: self.faults.clone(),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.faults.check(Op::List, &[dir])?;
        self.inner.list(dir)
    }

    fn visit(&self, dir: &Path, visit: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.faults.check(Op::List, &[dir])?;
        self.inner.visit(dir, visit)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.faults.check(Op::Exists, &[path])?;
        self.inner.exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.faults.check(Op::CreateDir, &[dir])?;
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.check(Op::Rename, &[from, to])?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.check(Op::Remove, &[path])?;
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.check(Op::Link, &[from, to])?;
        self.inner.hard_link(from, to)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.faults.check(Op::Sync, &[path])?;
        self.inner.sync_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.check(Op::SyncDir, &[dir])?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.faults.check(Op::Lock, &[path])?;
        self.inner.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;
    use crate::fs::conformance::TAG;

    fn setup() -> (MemFs, FaultFs, Faults) {
        let mem = MemFs::new();
        let fs = FaultFs::new(Arc::new(mem.clone()), Faults::new());
        let faults = fs.faults().clone();
        (mem, fs, faults)
    }

    #[test]
    fn the_nth_matching_operation_fails_once_or_for_good() {
        let (_, fs, faults) = setup();
        faults.add(
            Fault::new(Effect::Fail(FaultError::EIO))
                .on(Op::Create)
                .path_ending(".log")
                .after(1),
        );
        let create = |path: &str| fs.create(path.as_ref(), Access::Buffered);
        create("/1.log").unwrap();
        create("/2.sst").unwrap();
        let failed = create("/3.log").unwrap_err().raw_os_error();
        assert_eq!(failed, FaultError::EIO.to_error().raw_os_error());
        create("/4.log").unwrap();
        faults.add(Fault::new(Effect::Fail(FaultError::ENOSPC)).forever());
        for _ in 0..3 {
            let error = fs.list("/".as_ref()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(faults.fired(), 4);
        assert_eq!((faults.count(Op::Create), faults.count(Op::List)), (4, 3));
        faults.clear();
        fs.list("/".as_ref()).unwrap();
        faults.reset_counts();
        assert_eq!((faults.total(), faults.fired()), (0, 0));
    }

    #[test]
    fn a_failed_append_leaves_a_prefix() {
        let (mem, fs, faults) = setup();
        let mut lens = Vec::new();
        for i in 0..20 {
            let path = format!("/{i}");
            let mut file = fs.create(path.as_ref(), Access::Buffered).unwrap();
            faults.add(Fault::new(Effect::Fail(FaultError::EIO)).on(Op::Append));
            file.append(&[7; 100]).unwrap_err();
            let left = mem.read_file(&path).unwrap();
            assert!(left.len() <= 100 && left.iter().all(|&b| b == 7));
            lens.push(left.len());
        }
        assert!(lens.iter().any(|&len| len != lens[0]), "{lens:?}");
        let mut file = fs.create("/s".as_ref(), Access::Buffered).unwrap();
        faults.add(Fault::new(Effect::Short).on(Op::Append));
        file.append(&[7; 100]).unwrap_err();
        assert_eq!(mem.read_file("/s").unwrap(), [7; 50]);
    }

    #[test]
    fn a_failed_sync_is_never_made_good() {
        let (mem, fs, faults) = setup();
        let mut file = fs.create("/a".as_ref(), Access::Buffered).unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
        file.append(&[7; 100]).unwrap();
        faults.add(Fault::new(Effect::Fail(FaultError::EIO)).on(Op::Sync));
        file.sync().unwrap_err();
        file.sync().unwrap();
        let lost = (0..50).any(|seed| mem.crash_clone(seed).read_file("/a").unwrap() != [7; 100]);
        assert!(lost);
    }

    #[test]
    fn reads_come_short_or_damaged() {
        let (mem, fs, faults) = setup();
        mem.write_file("/a", &[7; 100]).unwrap();
        let file = fs.open("/a".as_ref(), Access::Direct).unwrap();
        faults.add(Fault::new(Effect::Short).on(Op::Read));
        let mut buf = [0; 100];
        let error = file.read_exact_at(&mut buf, 0, TAG).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!((buf[49], buf[50]), (7, 0));
        faults.add(Fault::new(Effect::FlipBit).on(Op::Read));
        file.read_exact_at(&mut buf, 0, TAG).unwrap();
        assert_eq!(buf.iter().filter(|&&b| b != 7).count(), 1);
        file.read_exact_at(&mut buf, 0, TAG).unwrap();
        assert_eq!(buf, [7; 100]);
    }

    #[test]
    fn the_hook_sees_every_operation_before_it_happens() {
        let (mem, fs, faults) = setup();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook: Hook = {
            let (seen, mem) = (Arc::clone(&seen), mem.clone());
            Arc::new(move |op, path| {
                seen.lock()
                    .push((op, path.to_path_buf(), mem.files().len()));
            })
        };
        faults.set_hook(Some(hook));
        fs.create("/a".as_ref(), Access::Buffered)
            .unwrap()
            .sync()
            .unwrap();
        fs.rename("/a".as_ref(), "/b".as_ref()).unwrap();
        faults.set_hook(None);
        fs.remove("/b".as_ref()).unwrap();
        let expected = [
            (Op::Create, "/a", 0),
            (Op::Sync, "/a", 1),
            (Op::Rename, "/b", 1),
        ];
        let expected = expected.map(|(op, path, files)| (op, path.into(), files));
        assert_eq!(*seen.lock(), expected);
    }

    #[test]
    fn delays_take_their_time() {
        let (_, fs, faults) = setup();
        faults.add(Fault::new(Effect::Delay(Duration::from_millis(20))).on(Op::List));
        let start = std::time::Instant::now();
        fs.list("/".as_ref()).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
