//! What memory held, kept over a restart in the file `WARM` (docs/format.md, "Warm memory"): the
//! names of blocks and the keys of entries, those that are worth most first, and what the cache's
//! policy learned.
//!
//! Written at closing, read in the background once the database is open. Hints only, as `HINTS`
//! is: no bytes of a block and no value are in it, and nothing here fails.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{HINTS_MAX_BYTES, Tree};
use crate::base::checksum::checksum;
use crate::base::coding::{put_varint, take, take_len, take_u32, take_varint};
use crate::budget::{Budget, Reservation, Role, reload_at_once};
use crate::cache::{Held, HeldEntry, HeldVisitor, SpaceId, WarmBlock};
use crate::db::context::DbContext;
use crate::fs::{Access, BlockKind, Fs, PAGE, Purpose, ReadFile, ReadTag, WriteFile};

/// The file's name.
pub(super) const WARM: &str = "WARM";

const WARM_TMP: &str = "WARM.tmp";

/// What the file begins with: a name and the format's version.
const MAGIC: &[u8; 8] = b"shambaW1";

/// A frame's length and its checksum.
const FRAME_HEAD: usize = 8;

/// A frame has so many bytes at least, and about so many at most: what is named in it is read in
/// the order of files and pages, so that more of it lies close together the more there is.
const FRAME: (u64, u64) = (1 << 10, 64 << 10);

/// No record is longer: an entry's key and value are shorter than a page.
const LARGEST_RECORD: usize = PAGE;

/// The first byte of a record: an entry, data, an index block, a block of the first module; further
/// modules follow.
const ENTRY: u8 = 0;
const DATA: u8 = 1;
const INDEX: u8 = 2;
const FILTER: u8 = 3;

/// Reads that an entry saves are kept in halves, in half a byte; in the other is how often it was
/// used.
const HALVES: f32 = 2.0;
const LOW: u8 = 15;

/// What [`records`] finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::db) enum Record<'a> {
    /// A block of a file by its number.
    Block(WarmBlock),
    Entry(WarmEntry<'a>),
}

/// An entry that memory held, or an absent key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::db) struct WarmEntry<'a> {
    pub(in crate::db) keyspace: u32,
    pub(in crate::db) key: &'a [u8],
    pub(in crate::db) uses: u8,
    pub(in crate::db) saves: f32,
}

/// Appends the record of a block, in a file of this number.
fn put_block(out: &mut Vec<u8>, number: u64, block: &WarmBlock) {
    let (kind, last) = match block.kind {
        BlockKind::Index => (INDEX, None),
        BlockKind::Filter(module) => (FILTER.saturating_add(module), Some(block.columns)),
        _ => (DATA, Some(block.count)),
    };
    out.push(kind);
    for word in [number, block.page.into(), block.partition.into()] {
        put_varint(out, word);
    }
    if kind == DATA {
        put_varint(out, block.bytes.into());
    }
    out.extend(last);
}

/// Appends the record of an entry of a keyspace.
fn put_entry(out: &mut Vec<u8>, keyspace: u32, entry: &HeldEntry<'_>) {
    out.push(ENTRY);
    put_varint(out, keyspace.into());
    let saves = (entry.saves * HALVES).round().clamp(0.0, f32::from(LOW)) as u8;
    out.push(saves | entry.uses.min(LOW) << 4);
    put_varint(out, entry.key.len() as u64);
    out.extend_from_slice(entry.key);
}

/// Takes a record off; `None` where there is none that makes sense.
fn take_record<'a>(input: &mut &'a [u8]) -> Option<Record<'a>> {
    let kind = *take(input, 1)?.first()?;
    if kind == ENTRY {
        let keyspace = u32::try_from(take_varint(input)?).ok()?;
        let counts = *take(input, 1)?.first()?;
        let len = take_len(input, input.len())?;
        return Some(Record::Entry(WarmEntry {
            keyspace,
            key: take(input, len)?,
            uses: counts >> 4,
            saves: f32::from(counts & LOW) / HALVES,
        }));
    }
    let (file, page) = (take_varint(input)?, take_varint(input)?);
    let partition = take_varint(input)?;
    let mut block = WarmBlock {
        file,
        page: page.try_into().ok()?,
        bytes: 0,
        partition: partition.try_into().ok()?,
        kind: match kind {
            DATA => BlockKind::Data,
            INDEX => BlockKind::Index,
            module => BlockKind::Filter(module - FILTER),
        },
        columns: 1,
        count: 0,
    };
    match block.kind {
        BlockKind::Data => {
            block.bytes = take_varint(input)?.try_into().ok()?;
            block.count = *take(input, 1)?.first()?;
        }
        BlockKind::Filter(_) => block.columns = *take(input, 1)?.first()?,
        _ => {}
    }
    Some(Record::Block(block))
}

/// The records of a frame, up to the first that makes no sense.
pub(in crate::db) fn records(mut frame: &[u8]) -> impl Iterator<Item = Record<'_>> + Clone {
    std::iter::from_fn(move || take_record(&mut frame))
}

/// What stands before the body of a frame.
fn frame_head(body: &[u8]) -> [u8; FRAME_HEAD] {
    let (len, sum) = (body.len() as u32, checksum(0, body));
    (u64::from(len) | u64::from(sum) << 32).to_le_bytes()
}

/// Writes a file of what it is shown, once there is anything.
struct WarmWriter<'a> {
    fs: &'a dyn Fs,
    path: &'a Path,
    file: Option<Box<dyn WriteFile>>,
    learned: Vec<f32>,
    /// The files by their names in the cache, ascending.
    numbers: Vec<(u64, u64)>,
    /// The keyspaces by theirs, ascending.
    keyspaces: Vec<(SpaceId, u32)>,
    failed: Option<io::Error>,
    /// Records that are not written yet, and how many bytes make a frame.
    frame: Vec<u8>,
    full: usize,
    written: u64,
}

impl WarmWriter<'_> {
    /// Writes what there is as a frame.
    fn write_frame(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = self.fs.create(self.path, Access::Buffered)?;
                let file = self.file.insert(file);
                let learned = self.learned.iter().flat_map(|number| number.to_le_bytes());
                let learned: Vec<u8> = learned.collect();
                file.append(&[&MAGIC[..], &frame_head(&learned), &learned].concat())?;
                file
            }
        };
        file.append(&frame_head(&self.frame))?;
        file.append(&self.frame)?;
        self.written += (FRAME_HEAD + self.frame.len()) as u64;
        self.frame.clear();
        Ok(())
    }

    /// Writes what is left; says whether there is a file.
    fn finish(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.frame.is_empty() {
            self.write_frame()?;
        }
        Ok(self.file.is_some())
    }
}

impl HeldVisitor for WarmWriter<'_> {
    /// Adds something if it is of this database.
    fn see(&mut self, held: Held<'_>) -> bool {
        match held {
            Held::Block(block) => {
                let at = (self.numbers).binary_search_by_key(&block.file, |(id, _)| *id);
                let at = at.ok().and_then(|at| self.numbers.get(at));
                if let Some((_, number)) = at {
                    put_block(&mut self.frame, *number, &block);
                }
            }
            Held::Entry(entry) => {
                let at = (self.keyspaces).binary_search_by_key(&entry.space, |(space, _)| *space);
                let at = at.ok().and_then(|at| self.keyspaces.get(at));
                if let Some((_, id)) = at {
                    put_entry(&mut self.frame, *id, &entry);
                }
            }
        }
        self.frame.len() < self.full
    }

    fn empty(&mut self) -> bool {
        self.failed = self.write_frame().err();
        self.failed.is_none() && self.written < HINTS_MAX_BYTES
    }
}

/// Writes what memory holds of a database. Not synced: what is torn is damaged, and so ignored.
pub(super) fn write(shared: &DbContext, tree: &Tree) {
    let cache = shared.options().memory.cache();
    if !shared.options().inherit_statistics || !cache.policy().is_active() {
        return;
    }
    let (limit, keyspaces) = (shared.limit(), tree.keyspaces());
    let ids = keyspaces.keys();
    let versions: Vec<_> = ids.filter_map(|id| tree.manifest.version(*id)).collect();
    let files = || versions.iter().flat_map(|version| version.all_files());
    let count = files().count();
    let full = (reload_at_once(limit) / BYTES_READ).clamp(FRAME.0, FRAME.1) as usize;
    let listed = count * size_of::<(u64, u64)>() + keyspaces.len() * size_of::<(SpaceId, u32)>();
    let bytes = full + LARGEST_RECORD + listed;
    // Without memory for it nothing is kept.
    let Some(_held) = shared.budget().try_reserve(Role::Tables, bytes as u64) else {
        return;
    };
    let mut numbers = Vec::with_capacity(count);
    numbers.extend(files().map(|file| (file.slot().cache_id(), file.number())));
    numbers.retain(|(id, _)| *id != 0);
    numbers.sort_unstable();
    let spaces = keyspaces
        .iter()
        .map(|(id, keyspace)| (keyspace.entries().id(), *id));
    let mut spaces: Vec<_> = spaces.collect();
    spaces.sort_unstable();
    let (tmp, path) = (shared.dir().join(WARM_TMP), shared.dir().join(WARM));
    let fs = &**shared.fs();
    let mut writer = WarmWriter {
        fs,
        path: &tmp,
        file: None,
        learned: cache.policy().learned(),
        numbers,
        keyspaces: spaces,
        failed: None,
        frame: Vec::with_capacity(full + LARGEST_RECORD),
        full,
        written: 0,
    };
    cache.each_held(&mut writer);
    let mut replace = || match writer.finish()? {
        true => fs.rename(&tmp, &path),
        // What there was before is of another time.
        false if fs.exists(&path)? => fs.remove(&path),
        false => Ok(()),
    };
    if let Err(error) = replace() {
        log::warn!("{}: cannot write: {error}", path.display());
    }
}

/// The file of a database that is open, read frame by frame.
pub(in crate::db) struct WarmFile {
    file: Arc<dyn ReadFile>,
    at: u64,
    /// Where the first frame is after what was learned.
    first: u64,
    held: Reservation,
}

/// What reading takes for each byte of a frame: itself, and what is made of it: four bytes may name
/// a block, with its file twice.
const BYTES_READ: u64 = 24;

impl WarmFile {
    /// The file of a folder, and what was learned; `None` where there is none that is sound.
    pub(in crate::db) fn look(
        fs: &dyn Fs,
        dir: &Path,
        budget: &Arc<Budget>,
    ) -> Option<(WarmFile, Vec<f32>)> {
        let path = dir.join(WARM);
        let opened = || -> io::Result<Option<Arc<dyn ReadFile>>> {
            if !fs.exists(&path)? {
                return Ok(None);
            }
            Ok(Some(fs.open(&path, Access::Buffered)?))
        };
        let file = opened().unwrap_or_else(|error| {
            log::warn!("{}: cannot read, ignored: {error}", path.display());
            None
        })?;
        let mut magic = [0; MAGIC.len()];
        let mut warm = WarmFile {
            file,
            at: 0,
            first: 0,
            held: budget.open_account(Role::Tables),
        };
        warm.read(&mut magic)?;
        let learned = if magic == *MAGIC { warm.next() } else { None };
        let Some(learned) = learned else {
            log::warn!("{} is damaged and ignored", path.display());
            return None;
        };
        warm.first = warm.at;
        let numbers = learned.as_chunks::<4>().0;
        let learned = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Some((warm, learned.collect()))
    }

    /// The next frame is the first after what was learned.
    pub(in crate::db) fn rewind(&mut self) {
        self.at = self.first;
    }

    fn read(&mut self, buf: &mut [u8]) -> Option<()> {
        let tag = ReadTag {
            kind: BlockKind::Log,
            last: None,
            purpose: Purpose::Background,
        };
        self.file.read_exact_at(buf, self.at, tag).ok()?;
        self.at += buf.len() as u64;
        Some(())
    }

    /// The next frame, for which memory is held until the next one is asked for; `None` at the end,
    /// where one is damaged, and where there is no memory for it.
    pub(in crate::db) fn next(&mut self) -> Option<Vec<u8>> {
        let left = self.file.len().saturating_sub(self.at);
        if left < FRAME_HEAD as u64 {
            return None;
        }
        let mut head = [0; FRAME_HEAD];
        self.read(&mut head)?;
        let mut words = &head[..];
        let (len, sum) = (take_u32(&mut words)?, take_u32(&mut words)?);
        self.held.resize(0);
        let len = u64::from(len);
        let is_one = len <= left && len <= FRAME.1 + LARGEST_RECORD as u64;
        let fits = is_one && self.held.try_grow(len * BYTES_READ);
        if !fits {
            return None;
        }
        let mut body = vec![0; len as usize];
        self.read(&mut body)?;
        (checksum(0, &body) == sum).then_some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let block = |kind, columns, count, bytes| WarmBlock {
            file: 1 << 40,
            page: 7,
            bytes,
            partition: 300,
            kind,
            columns,
            count,
        };
        let blocks = [
            block(BlockKind::Data, 1, 255, 5000),
            block(BlockKind::Index, 1, 0, 0),
            block(BlockKind::Filter(0), 3, 0, 0),
            block(BlockKind::Filter(15), 8, 0, 0),
        ];
        for block in &blocks {
            put_block(&mut bytes, block.file, block);
        }
        let found: Vec<_> = records(&bytes).collect();
        assert_eq!(found, blocks.map(Record::Block));
        let cut = bytes.len() - 1;
        assert_eq!(records(&bytes[..cut]).count(), 3, "the last one is cut off");
    }
}
