//! What a simulated file system consists of: names, files, and which of their changes are durable.
//!
//! Plain data; [`super::MemFs`] holds it behind its lock. What a power failure leaves of a file is
//! decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

use crate::fs::PAGE;

#[derive(Debug)]
pub(super) struct MemState {
    pub(super) live: Names,
    pub(super) durable: Names,
    /// Changes of `live` that no sync covers yet, in order.
    pub(super) pending: Vec<NameChange>,
    pub(super) locks: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Arc<Inode>>,
}

#[derive(Debug, Clone)]
pub(super) enum NameChange {
    MakeDir(PathBuf),
    Put(PathBuf, Arc<Inode>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, Arc<Inode>),
}

#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) content: RwLock<Content>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// The prefix of `bytes` that is durable.
    pub(super) synced: usize,
    /// What was durable before the file was emptied, until the emptying is synced.
    pub(super) before: Option<Vec<u8>>,
}

impl NameChange {
    pub(super) fn concerns(&self, dir: &Path) -> bool {
        match self {
            NameChange::MakeDir(path) | NameChange::Put(path, _) | NameChange::Remove(path) => {
                parent(path) == dir
            }
            NameChange::Rename(from, to, _) => parent(from) == dir || parent(to) == dir,
        }
    }

    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameChange::MakeDir(path) => {
                names.dirs.insert(path.clone());
            }
            NameChange::Put(path, inode) => {
                names.files.insert(path.clone(), Arc::clone(inode));
            }
            NameChange::Remove(path) => {
                names.files.remove(path);
            }
            NameChange::Rename(from, to, inode) => {
                // A new file may have taken the old name since; it is not this one.
                if names
                    .files
                    .get(from)
                    .is_some_and(|old| Arc::ptr_eq(old, inode))
                {
                    names.files.remove(from);
                }
                names.files.insert(to.clone(), Arc::clone(inode));
            }
        }
    }
}

impl MemState {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<&Arc<Inode>> {
        self.live
            .files
            .get(path)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn check_parent(&self, path: &Path) -> io::Result<()> {
        if self.live.dirs.contains(path) {
            return Err(ErrorKind::IsADirectory.into());
        }
        if self.live.dirs.contains(parent(path)) {
            Ok(())
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }
}

impl Content {
    /// What a power failure may leave of the file.
    pub(super) fn crashed(&self, rng: &mut SplitMix64) -> Vec<u8> {
        if let Some(before) = &self.before
            && chance(rng, 2)
        {
            return before.clone();
        }
        let mut left = self.bytes.get(..self.synced).unwrap_or_default().to_vec();
        let unsynced = self.bytes.len() - self.synced;
        let len = self.synced
            + match rng.next_u64() % 4 {
                0 => 0,
                1 => below(rng, unsynced + 1),
                _ => unsynced,
            };
        left.resize(len, 0);
        // Some crashes lose few pages, some lose most.
        let odds = 1 + rng.next_u64() % 8;
        let first = self.synced - self.synced % PAGE;
        for page in (first..len).step_by(PAGE) {
            if rng.next_u64() % 8 >= odds {
                continue;
            }
            let start = page.max(self.synced);
            let mut end = (page + PAGE).min(len);
            if chance(rng, 4) {
                end = start + below(rng, end - start + 1);
            }
            if let (Some(to), Some(from)) = (left.get_mut(start..end), self.bytes.get(start..end)) {
                to.copy_from_slice(from);
            }
        }
        left
    }
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

pub(super) fn chance(rng: &mut SplitMix64, one_in: u64) -> bool {
    rng.next_u64().is_multiple_of(one_in)
}

pub(super) fn below(rng: &mut SplitMix64, bound: usize) -> usize {
    (rng.next_u64() % (bound as u64).max(1)) as usize
}

impl Content {
    pub(super) fn sync(&mut self) {
        self.synced = self.bytes.len();
        self.before = None;
    }

    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Content {
            synced: bytes.len(),
            bytes,
            before: None,
        }
    }
}

impl Inode {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Inode {
            content: RwLock::new(Content::durable(bytes)),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.content.read().bytes.len() as u64
    }
}
