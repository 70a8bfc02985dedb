//! Brings back into memory what was there before the database was closed: once, in a thread of its
//! own, what was worth most first.
//!
//! A frame of the file `WARM` after the other: its blocks are read file by file, those that lie
//! close together in one read. Then, again from the first, the keys of entries are looked up: by
//! filters and indexes that are in memory by then. Each of the two ends where memory is full and
//! what comes is worth less than what is there, and when the database closes.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::cache::WarmBlock;
use crate::db::context::DbContext;
use crate::db::files::Files;
use crate::db::files::warm::{Record, WarmEntry, WarmFile, records};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::read::ReadPath;
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::version::FileMeta;

/// See the module.
pub(in crate::db) struct Reload {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    reads: ReadPath,
}

impl Reload {
    pub(in crate::db) fn new(shared: &Arc<DbContext>, files: &Arc<Files>, reads: ReadPath) -> Self {
        Reload {
            shared: shared.clone(),
            files: files.clone(),
            reads,
        }
    }

    /// Starts to read back, where there is anything to, and threads for it.
    pub(in crate::db) fn start(self) -> Option<JoinHandle<()>> {
        let shared = self.shared.clone();
        let warm = self.files.take_warm()?;
        let thread = std::thread::Builder::new().name("shamba-reload".into());
        let started = thread.spawn(move || self.run(warm));
        // Hints only: without a thread memory fills as it is used.
        let dir = shared.dir().display();
        started
            .map_err(|e| log::warn!("{dir}: no thread to warm memory: {e}"))
            .ok()
    }

    fn run(&self, mut warm: WarmFile) {
        let mut reload = || -> Result<()> {
            self.each_frame(&mut warm, |frame| self.reload_blocks(frame))?;
            warm.rewind();
            self.each_frame(&mut warm, |frame| self.reload_entries(frame))
        };
        match reload() {
            Ok(()) => {
                self.files.set_reloaded();
                self.shared.metrics().add(Counter::reloads, 1);
            }
            Err(Error::Closed) => {}
            Err(error) => {
                // Hints only: whoever needs it meets the failure.
                let dir = self.shared.dir().display();
                log::warn!("{dir}: memory is not warmed: {error}");
            }
        }
    }

    /// Brings back what frames name, as long as memory is not full of what is worth more.
    fn each_frame(
        &self,
        warm: &mut WarmFile,
        reload: impl Fn(&[u8]) -> Result<Kept>,
    ) -> Result<()> {
        while let Some(frame) = warm.next() {
            self.shared.check_not_stopping()?;
            if reload(&frame)? == Kept::Nothing {
                break;
            }
        }
        Ok(())
    }

    fn reload_blocks(&self, frame: &[u8]) -> Result<Kept> {
        let named = records(frame).filter_map(|record| match record {
            Record::Block(block) => Some(block),
            Record::Entry(_) => None,
        });
        // No more than is accounted for.
        let mut blocks = Vec::with_capacity(named.clone().count());
        blocks.extend(named);
        let blocks = in_files(blocks, &self.files.keyspaces());
        let go_on = || self.shared.check_not_stopping();
        let (back, pages) = self.files.tables().reload(&blocks, go_on)?;
        let metrics = self.shared.metrics();
        metrics.add(Counter::reloaded_blocks, back);
        metrics.add(Counter::reload_pages, pages);
        Ok(Kept::of(back, pages > 0))
    }

    fn reload_entries(&self, frame: &[u8]) -> Result<Kept> {
        let named = records(frame).filter_map(|record| match record {
            Record::Block(_) => None,
            Record::Entry(entry) => Some(entry),
        });
        let mut entries = Vec::with_capacity(named.clone().count());
        entries.extend(named);
        // Neighbours wait for the same blocks.
        entries.sort_unstable_by_key(|entry: &WarmEntry<'_>| (entry.keyspace, entry.key));
        let (keyspaces, mut back, mut tried) = (self.files.keyspaces(), 0, false);
        for of_one in entries.chunk_by(|a, b| a.keyspace == b.keyspace) {
            let id = of_one.first().map(|entry| entry.keyspace);
            let keyspace = keyspaces.iter().find(|keyspace| Some(keyspace.id()) == id);
            if let Some(keyspace) = keyspace {
                let kept = match self.reads.reload(keyspace, of_one) {
                    Err(Error::KeyspaceDropped { .. }) => None,
                    kept => kept?,
                };
                tried |= kept.is_some();
                back += kept.unwrap_or(0);
            }
        }
        self.shared.metrics().add(Counter::reloaded_entries, back);
        Ok(Kept::of(back, tried))
    }
}

/// What memory kept of a frame.
#[derive(PartialEq)]
enum Kept {
    /// Something, or nothing was to be.
    Something,
    /// Nothing of what was read.
    Nothing,
}

impl Kept {
    fn of(kept: u64, tried: bool) -> Self {
        if tried && kept == 0 {
            Kept::Nothing
        } else {
            Kept::Something
        }
    }
}

/// Blocks in the files that are there, in order.
fn in_files(
    mut blocks: Vec<WarmBlock>,
    keyspaces: &[Arc<KeyspaceInner>],
) -> Vec<(FileMeta, WarmBlock)> {
    blocks.sort_unstable_by_key(|block| (block.file, block.page));
    blocks.dedup_by_key(|block| (block.file, block.page));
    let mut found = Vec::with_capacity(blocks.len());
    for keyspace in keyspaces {
        let state = keyspace.state();
        for file in state.version.all_files() {
            let start = blocks.partition_point(|block| block.file < file.number());
            let rest = blocks.get(start..).unwrap_or_default();
            let own = rest.iter().take_while(|block| block.file == file.number());
            found.extend(own.map(|block| (file.clone(), *block)));
        }
    }
    found
}
