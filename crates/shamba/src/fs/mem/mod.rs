//! A file system in memory that can be crashed.
//!
//! For tests. A [`MemFs`] is a handle: clones share the same files, from any thread. It knows for
//! each file which bytes were synced and for each folder which changes were; [`MemFs::crash_clone`]
//! gives another, independent file system as a power failure at this instant could have left it:
//!
//! - what was synced is there;
//! - of every other 4 KiB page of a file, nothing, a prefix, or everything;
//! - files may be longer than the pages that survived; lost pages read as zeros;
//! - of every other change of a folder (create, remove, rename, link), each one independently or
//!   not at all, and a rename whole or not at all;
//! - a folder's own creation is durable once its parent was synced.
//!
//! [`MemFs::kill_clone`] gives one as the end of the writing process at this instant leaves it:
//! everything is there, and what was not synced is still not.

mod state;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Access, DirEntry, FileLock, Fs, ReadFile, ReadTag, WriteFile};
use state::{Content, Inode, MemState, NameChange, Names, parent};

/// Files in memory; clones share them.
#[derive(Debug, Clone)]
pub struct MemFs {
    state: Arc<Mutex<MemState>>,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemFs {
    /// An empty file system with a root folder.
    #[must_use]
    pub fn new() -> Self {
        let mut names = Names::default();
        names.dirs.insert(PathBuf::from("/"));
        names.dirs.insert(PathBuf::new());
        Self::with(names.clone(), names)
    }

    fn with(live: Names, durable: Names) -> Self {
        MemFs {
            state: Arc::new(Mutex::new(MemState {
                live,
                durable,
                pending: Vec::new(),
                locks: BTreeSet::new(),
            })),
        }
    }

    /// What a power failure at this instant could leave, as a new file system without locks.
    /// The same history and seed give the same result.
    #[must_use]
    pub fn crash_clone(&self, seed: u64) -> MemFs {
        let mut rng = SplitMix64::seed_from_u64(seed);
        let state = self.state.lock();
        let mut names = state.durable.clone();
        let odds = 1 + rng.next_u64() % 8;
        for change in &state.pending {
            if rng.next_u64() % 8 < odds {
                change.apply(&mut names);
            }
        }
        let Names { dirs, files } = &mut names;
        // What is in a folder that is gone is gone too; sorted, so that those above come first.
        for dir in std::mem::take(dirs) {
            if dir.parent().is_none_or(|above| dirs.contains(above)) {
                dirs.insert(dir);
            }
        }
        files.retain(|path, _| dirs.contains(parent(path)));
        // Names of one file stay names of one file.
        let mut copies: HashMap<*const Inode, Arc<Inode>> = HashMap::new();
        for inode in files.values_mut() {
            let copy = copies.entry(Arc::as_ptr(inode)).or_insert_with(|| {
                let bytes = inode.content.read().crashed(&mut rng);
                Arc::new(Inode::durable(bytes))
            });
            *inode = Arc::clone(copy);
        }
        Self::with(names.clone(), names)
    }

    /// What the end of the writing process at this instant leaves, as a new file system without
    /// locks: every byte and name is there, and a power failure may still take those not synced.
    #[must_use]
    pub fn kill_clone(&self) -> MemFs {
        let state = self.state.lock();
        let mut copies: HashMap<*const Inode, Arc<Inode>> = HashMap::new();
        let mut copy = |inode: &Arc<Inode>| {
            let copied = copies.entry(Arc::as_ptr(inode)).or_insert_with(|| {
                let content = inode.content.read().clone();
                Arc::new(Inode {
                    content: RwLock::new(content),
                })
            });
            Arc::clone(copied)
        };
        let mut names = [state.live.clone(), state.durable.clone()];
        for inode in names.iter_mut().flat_map(|names| names.files.values_mut()) {
            *inode = copy(inode);
        }
        let mut pending = state.pending.clone();
        for change in &mut pending {
            if let NameChange::Put(_, inode) | NameChange::Rename(_, _, inode) = change {
                *inode = copy(inode);
            }
        }
        let [live, durable] = names;
        MemFs {
            state: Arc::new(Mutex::new(MemState {
                live,
                durable,
                pending,
                locks: BTreeSet::new(),
            })),
        }
    }

    /// An independent copy of everything, as if all of it were synced.
    #[must_use]
    pub fn deep_clone(&self) -> MemFs {
        let state = self.state.lock();
        let mut names = state.live.clone();
        for inode in names.files.values_mut() {
            let bytes = inode.content.read().bytes.clone();
            *inode = Arc::new(Inode::durable(bytes));
        }
        Self::with(names.clone(), names)
    }

    /// The bytes of all files, each counted once whatever its number of names.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let state = self.state.lock();
        let mut seen = BTreeSet::new();
        let unique = state.live.files.values();
        unique
            .filter(|inode| seen.insert(Arc::as_ptr(inode)))
            .map(|inode| inode.len())
            .sum()
    }

    /// The paths of all files, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.lock().live.files.keys().cloned().collect()
    }

    /// A file's bytes.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let inode = Arc::clone(self.state.lock().file(path.as_ref())?);
        let bytes = inode.content.read().bytes.clone();
        Ok(bytes)
    }

    /// Replaces a file's bytes, durably, also for those who have it open; creates it if missing.
    /// This is how tests damage files.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        let mut state = self.state.lock();
        if let Ok(inode) = state.file(path) {
            *inode.content.write() = Content::durable(bytes.to_vec());
            return Ok(());
        }
        state.check_parent(path)?;
        let put = NameChange::Put(path.into(), Arc::new(Inode::durable(bytes.to_vec())));
        put.apply(&mut state.live);
        put.apply(&mut state.durable);
        Ok(())
    }
}

#[derive(Debug)]
struct MemRead {
    inode: Arc<Inode>,
    len: u64,
}

impl ReadFile for MemRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, _tag: ReadTag) -> io::Result<()> {
        let content = self.inode.content.read();
        let from = usize::try_from(offset)
            .ok()
            .and_then(|start| content.bytes.get(start..start.checked_add(buf.len())?))
            .ok_or(ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(from);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[derive(Debug)]
struct MemWrite {
    inode: Arc<Inode>,
    len: u64,
}

impl WriteFile for MemWrite {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inode.content.write().bytes.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inode.content.write().sync();
        Ok(())
    }

    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        let mut content = self.inode.content.write();
        content.bytes.truncate(len as usize);
        content.sync();
        self.len = len;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[derive(Debug)]
struct MemLock {
    fs: MemFs,
    path: PathBuf,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.fs.state.lock().locks.remove(&self.path);
    }
}

impl Fs for MemFs {
    fn create(&self, path: &Path, _access: Access) -> io::Result<Box<dyn WriteFile>> {
        let mut state = self.state.lock();
        state.check_parent(path)?;
        let inode = match state.file(path) {
            Ok(inode) => {
                let mut content = inode.content.write();
                let old = std::mem::take(&mut *content);
                let mut durable = old.bytes;
                durable.truncate(old.synced);
                content.before = old.before.or(Some(durable));
                Arc::clone(inode)
            }
            Err(_) => {
                let inode = Arc::new(Inode::default());
                state.change(NameChange::Put(path.into(), Arc::clone(&inode)));
                inode
            }
        };
        Ok(Box::new(MemWrite { inode, len: 0 }))
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn ReadFile>> {
        let state = self.state.lock();
        if state.live.dirs.contains(path) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let inode = Arc::clone(state.file(path)?);
        let len = inode.len();
        Ok(Arc::new(MemRead { inode, len }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        self.visit(dir, &mut |name, len| {
            let name = name.to_owned();
            entries.push(DirEntry { name, len });
        })?;
        Ok(entries)
    }

    fn visit(&self, dir: &Path, visit: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        let state = self.state.lock();
        if !state.live.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.live.files.iter().filter(|(p, _)| parent(p) == dir);
        for (path, inode) in inside {
            if let Some(name) = path.file_name() {
                visit(&name.to_string_lossy(), inode.len());
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state.lock();
        Ok(state.live.files.contains_key(path) || state.live.dirs.contains(path))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut chain: Vec<&Path> = dir.ancestors().collect();
        chain.reverse();
        for dir in chain {
            if state.live.files.contains_key(dir) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            if !state.live.dirs.contains(dir) {
                state.change(NameChange::MakeDir(dir.into()));
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = Arc::clone(state.file(from)?);
        state.check_parent(to)?;
        if from != to {
            state.change(NameChange::Rename(from.into(), to.into(), inode));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.file(path)?;
        state.change(NameChange::Remove(path.into()));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = Arc::clone(state.file(from)?);
        state.check_parent(to)?;
        if state.live.files.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.change(NameChange::Put(to.into(), inode));
        Ok(())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let inode = Arc::clone(self.state.lock().file(path)?);
        inode.content.write().sync();
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.live.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        state.pending.retain(|change| {
            let now = change.concerns(dir);
            if now {
                change.apply(&mut state.durable);
            }
            !now
        });
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut state = self.state.lock();
        if state.locks.contains(path) {
            return Err(ErrorKind::WouldBlock.into());
        }
        state.check_parent(path)?;
        if state.file(path).is_err() {
            state.change(NameChange::Put(path.into(), Arc::default()));
        }
        state.locks.insert(path.into());
        Ok(Box::new(MemLock {
            fs: self.clone(),
            path: path.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::PAGE;

    fn write(fs: &MemFs, path: &str, synced: &[u8], rest: &[u8]) {
        let mut file = fs.create(path.as_ref(), Access::Buffered).unwrap();
        file.append(synced).unwrap();
        file.sync().unwrap();
        file.append(rest).unwrap();
    }

    fn names(fs: &MemFs) -> Vec<String> {
        let files = fs.files().into_iter();
        files.map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_invents_nothing() {
        let fs = MemFs::new();
        let synced = vec![1; 6000];
        let rest: Vec<u8> = (0..20_000u32).map(|i| 2 + (i % 200) as u8).collect();
        write(&fs, "/a", &synced, &rest);
        fs.sync_dir("/".as_ref()).unwrap();
        let whole = [synced.clone(), rest].concat();
        let (mut all, mut none, mut holes, mut torn) = (0, 0, 0, 0);
        for seed in 0..500 {
            let crash = fs.crash_clone(seed);
            let left = crash.read_file("/a").unwrap();
            assert_eq!(left, fs.crash_clone(seed).read_file("/a").unwrap());
            assert!(left.starts_with(&synced), "seed {seed}");
            assert!(left.len() <= whole.len(), "seed {seed}");
            let pairs = left.iter().zip(&whole);
            assert!(pairs.clone().all(|(l, w)| l == w || *l == 0), "seed {seed}");
            all += usize::from(left == whole);
            none += usize::from(left == synced);
            let page = &left[8192.min(left.len())..12288.min(left.len())];
            holes += usize::from(page.len() == PAGE && page.iter().all(|&b| b == 0));
            torn += usize::from(page.len() == PAGE && page[0] != 0 && page[PAGE - 1] == 0);
        }
        assert!(
            all > 5 && none > 5 && holes > 5 && torn > 5,
            "{all} {none} {holes} {torn}"
        );
    }

    #[test]
    fn unsynced_folder_changes_survive_independently() {
        let fs = MemFs::new();
        fs.create_dir_all("/db".as_ref()).unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
        for path in ["/db/keep", "/db/old", "/db/gone"] {
            write(&fs, path, path.as_bytes(), b"");
        }
        fs.sync_dir("/db".as_ref()).unwrap();
        write(&fs, "/db/new", b"/db/new", b"");
        fs.rename("/db/old".as_ref(), "/db/renamed".as_ref())
            .unwrap();
        fs.remove("/db/gone".as_ref()).unwrap();
        fs.hard_link("/db/keep".as_ref(), "/db/link".as_ref())
            .unwrap();
        let mut outcomes = BTreeSet::new();
        for seed in 0..500 {
            let crash = fs.crash_clone(seed);
            let left = names(&crash);
            assert!(left.contains(&"/db/keep".into()), "seed {seed}");
            let old = left.contains(&"/db/old".into());
            let renamed = left.contains(&"/db/renamed".into());
            assert!(old != renamed, "a rename happens or does not: seed {seed}");
            outcomes.insert(left);
        }
        assert_eq!(outcomes.len(), 16);
        fs.sync_dir("/db".as_ref()).unwrap();
        for seed in 0..50 {
            assert_eq!(names(&fs.crash_clone(seed)), names(&fs));
        }
    }

    #[test]
    fn replacing_by_rename_leaves_the_old_or_the_new() {
        let fs = MemFs::new();
        write(&fs, "/CURRENT", b"old", b"");
        fs.sync_dir("/".as_ref()).unwrap();
        write(&fs, "/tmp", b"new", b"");
        fs.rename("/tmp".as_ref(), "/CURRENT".as_ref()).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            seen.insert(fs.crash_clone(seed).read_file("/CURRENT").unwrap());
        }
        assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
    }

    #[test]
    fn folders_need_a_sync_too() {
        let fs = MemFs::new();
        fs.create_dir_all("/a/b".as_ref()).unwrap();
        let lost = |fs: &MemFs, dir: &str| {
            (0..100).any(|seed| !fs.crash_clone(seed).exists(dir.as_ref()).unwrap())
        };
        assert!(lost(&fs, "/a") && lost(&fs, "/a/b"));
        fs.sync_dir("/a/b".as_ref()).unwrap();
        assert!(lost(&fs, "/a/b"), "a folder's name is in the one above");
        fs.sync_dir("/a".as_ref()).unwrap();
        assert!(lost(&fs, "/a/b") && lost(&fs, "/a"));
        fs.sync_dir("/".as_ref()).unwrap();
        assert!(!lost(&fs, "/a/b") && !lost(&fs, "/a"));
        let durably = MemFs::new();
        crate::fs::create_dir_durably(&durably, "/a/b".as_ref()).unwrap();
        assert!(!lost(&durably, "/a/b"));
    }

    #[test]
    fn a_kill_keeps_everything_and_makes_nothing_durable() {
        let fs = MemFs::new();
        write(&fs, "/a", b"synced", b" and not");
        let killed = fs.kill_clone();
        fs.write_file("/a", b"later").unwrap();
        assert_eq!(killed.read_file("/a").unwrap(), b"synced and not");
        let left = |fs: &MemFs| -> BTreeSet<Option<Vec<u8>>> {
            (0..200)
                .map(|seed| fs.crash_clone(seed).read_file("/a").ok())
                .collect()
        };
        let crashes = left(&killed);
        assert!(crashes.contains(&None) && crashes.contains(&Some(b"synced".to_vec())));
        killed.sync_dir("/".as_ref()).unwrap();
        killed.sync_file("/a".as_ref()).unwrap();
        assert_eq!(
            left(&killed),
            BTreeSet::from([Some(b"synced and not".to_vec())])
        );
    }

    #[test]
    fn emptying_a_synced_file_may_be_undone() {
        let fs = MemFs::new();
        write(&fs, "/a", b"before", b"");
        fs.sync_dir("/".as_ref()).unwrap();
        let mut file = fs.create("/a".as_ref(), Access::Buffered).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            seen.insert(fs.crash_clone(seed).read_file("/a").unwrap());
        }
        assert_eq!(seen, BTreeSet::from([vec![], b"before".to_vec()]));
        file.sync().unwrap();
        for seed in 0..50 {
            assert_eq!(fs.crash_clone(seed).read_file("/a").unwrap(), b"");
        }
    }

    #[test]
    fn clones_share_and_crash_clones_do_not() {
        let fs = MemFs::new();
        write(&fs, "/a", b"one", b"");
        fs.sync_dir("/".as_ref()).unwrap();
        let lock = fs.lock("/LOCK".as_ref()).unwrap();
        let crash = fs.crash_clone(1);
        fs.clone().write_file("/a", b"two").unwrap();
        assert_eq!(fs.read_file("/a").unwrap(), b"two");
        assert_eq!(crash.read_file("/a").unwrap(), b"one");
        crash.lock("/LOCK".as_ref()).unwrap();
        drop(lock);
        fs.hard_link("/a".as_ref(), "/b".as_ref()).unwrap();
        assert_eq!(fs.total_bytes(), 3);
        assert_eq!(fs.deep_clone().total_bytes(), 6);
    }
}
