//! A wrapper around any file system that counts, and that can make reads and writes cost what
//! they would on another device.
//!
//! Thread-safe: clones share their counters, which are relaxed atomics, so a count may lag another
//! by the operations in flight. A page is [`PAGE`] bytes; a read counts every page it touches.

use std::any::Any;
use std::io;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::device::DeviceModel;
use super::{
    Access, BlockKind, DirEntry, FileLock, Fs, PAGE, Purpose, ReadFile, ReadRequest, ReadTag,
    WriteFile,
};

/// Data, index, footer, log and 16 filter modules.
const KINDS: usize = 20;
const PURPOSES: usize = 3;

const fn kind_index(kind: BlockKind) -> usize {
    match kind {
        BlockKind::Data => 0,
        BlockKind::Index => 1,
        BlockKind::Footer => 2,
        BlockKind::Log => 3,
        BlockKind::Filter(module) => 4 + if module < 16 { module as usize } else { 15 },
    }
}

const fn purpose_index(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Lookup => 0,
        Purpose::Scan => 1,
        Purpose::Background => 2,
    }
}

/// How a device's latencies are charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// Added up in [`IoCounts::device_ns`]; nothing waits.
    Virtual,
    /// The calling thread waits as well.
    Real,
}

#[derive(Debug, Default)]
struct ReadCell {
    reads: AtomicU64,
    pages: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Meter {
    reads: [[ReadCell; PURPOSES]; KINDS],
    batches: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    dir_syncs: AtomicU64,
    device_ns: AtomicU64,
    device: Option<(DeviceModel, Charge)>,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Waits precisely: sleeps most of a long time and spins the rest.
fn wait(time: Duration) {
    /// How late a sleep may wake up.
    const SLACK: Duration = Duration::from_micros(80);
    let start = Instant::now();
    if let Some(sleep) = time.checked_sub(SLACK).filter(|sleep| *sleep > SLACK) {
        std::thread::sleep(sleep);
    }
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Meter {
    fn charge(&self, cost: impl FnOnce(&DeviceModel) -> u64) {
        let Some((model, charge)) = &self.device else {
            return;
        };
        let ns = cost(model);
        add(&self.device_ns, ns);
        if *charge == Charge::Real {
            wait(Duration::from_nanos(ns));
        }
    }

    /// Counts a read; gives its pages.
    fn count_read(&self, tag: ReadTag, offset: u64, len: usize) -> u64 {
        let page = PAGE as u64;
        let end = offset.saturating_add(len as u64);
        let pages = if len == 0 {
            0
        } else {
            end.div_ceil(page) - offset / page
        };
        let count = |kind, reads, pages, bytes| {
            let by_purpose = self.reads.get(kind_index(kind));
            if let Some(cell) = by_purpose.and_then(|row| row.get(purpose_index(tag.purpose))) {
                add(&cell.reads, reads);
                add(&cell.pages, pages);
                add(&cell.bytes, bytes);
            }
        };
        match tag.last.filter(|_| pages > 1) {
            Some(last) => {
                count(tag.kind, 1, pages - 1, (len as u64).saturating_sub(page));
                count(last, 0, 1, page.min(len as u64));
            }
            None => count(tag.kind, 1, pages, len as u64),
        }
        pages
    }

    /// Charges reads that were asked for together, of so many pages in all.
    fn charge_reads(&self, reads: u64, pages: u64) {
        self.charge(|device| {
            let waits = reads.div_ceil(u64::from(device.parallel.max(1)));
            waits * device.read + pages * device.read_page
        });
    }

    fn write(&self, len: usize) {
        add(&self.writes, 1);
        add(&self.bytes_written, len as u64);
        self.charge(|device| device.write + len as u64 * device.write_page / PAGE as u64);
    }

    fn sync(&self, counter: &AtomicU64) {
        add(counter, 1);
        self.charge(|device| device.sync);
    }
}

/// Reads of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCount {
    /// Read requests.
    pub reads: u64,
    /// Pages they touched.
    pub pages: u64,
    /// Bytes they asked for.
    pub bytes: u64,
}

impl ReadCount {
    fn plus(self, other: ReadCount) -> ReadCount {
        ReadCount {
            reads: self.reads + other.reads,
            pages: self.pages + other.pages,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// The counters of a [`MeteredFs`] at one moment. Subtracting an earlier moment gives what
/// happened between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoCounts {
    reads: [[ReadCount; PURPOSES]; KINDS],
    /// Times that reads were asked for together ([`Fs::read_many`]). The reads count one by one.
    pub batches: u64,
    /// Append requests.
    pub writes: u64,
    /// Bytes appended.
    pub bytes_written: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of folders.
    pub dir_syncs: u64,
    /// What the device model charged, in nanoseconds, added up over all threads; they do not wait
    /// for each other.
    pub device_ns: u64,
}

impl IoCounts {
    /// Reads of one kind for one purpose.
    #[must_use]
    pub fn reads(&self, kind: BlockKind, purpose: Purpose) -> ReadCount {
        let row = self.reads.get(kind_index(kind));
        let count = row.and_then(|row| row.get(purpose_index(purpose)));
        count.copied().unwrap_or_default()
    }

    /// Reads of one kind for all purposes.
    #[must_use]
    pub fn reads_of(&self, kind: BlockKind) -> ReadCount {
        let row = self.reads.get(kind_index(kind)).into_iter().flatten();
        row.fold(ReadCount::default(), |sum, count| sum.plus(*count))
    }

    /// Reads of all kinds for one purpose.
    #[must_use]
    pub fn reads_for(&self, purpose: Purpose) -> ReadCount {
        let counts = self
            .reads
            .iter()
            .filter_map(|row| row.get(purpose_index(purpose)));
        counts.fold(ReadCount::default(), |sum, count| sum.plus(*count))
    }

    /// All reads.
    #[must_use]
    pub fn all_reads(&self) -> ReadCount {
        let counts = self.reads.iter().flatten();
        counts.fold(ReadCount::default(), |sum, count| sum.plus(*count))
    }
}

impl Sub for IoCounts {
    type Output = IoCounts;

    fn sub(mut self, earlier: IoCounts) -> IoCounts {
        let old = earlier.reads.iter().flatten();
        for (now, old) in self.reads.iter_mut().flatten().zip(old) {
            now.reads -= old.reads;
            now.pages -= old.pages;
            now.bytes -= old.bytes;
        }
        IoCounts {
            reads: self.reads,
            batches: self.batches - earlier.batches,
            writes: self.writes - earlier.writes,
            bytes_written: self.bytes_written - earlier.bytes_written,
            syncs: self.syncs - earlier.syncs,
            dir_syncs: self.dir_syncs - earlier.dir_syncs,
            device_ns: self.device_ns - earlier.device_ns,
        }
    }
}

/// A file system that counts; clones share their counters.
#[derive(Debug, Clone)]
pub struct MeteredFs {
    inner: Arc<dyn Fs>,
    meter: Arc<Meter>,
}

impl MeteredFs {
    /// Wraps a file system and counts.
    #[must_use]
    pub fn new(inner: Arc<dyn Fs>) -> Self {
        MeteredFs {
            inner,
            meter: Arc::default(),
        }
    }

    /// Wraps a file system, counts, and charges a device's latencies on top of its own.
    #[must_use]
    pub fn with_device(inner: Arc<dyn Fs>, device: DeviceModel, charge: Charge) -> Self {
        MeteredFs {
            inner,
            meter: Arc::new(Meter {
                device: Some((device, charge)),
                ..Meter::default()
            }),
        }
    }

    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        let meter = &*self.meter;
        let mut reads = [[ReadCount::default(); PURPOSES]; KINDS];
        let cells = meter.reads.iter().flatten();
        for (count, cell) in reads.iter_mut().flatten().zip(cells) {
            *count = ReadCount {
                reads: get(&cell.reads),
                pages: get(&cell.pages),
                bytes: get(&cell.bytes),
            };
        }
        IoCounts {
            reads,
            batches: get(&meter.batches),
            writes: get(&meter.writes),
            bytes_written: get(&meter.bytes_written),
            syncs: get(&meter.syncs),
            dir_syncs: get(&meter.dir_syncs),
            device_ns: get(&meter.device_ns),
        }
    }
}

#[derive(Debug)]
struct MeteredRead {
    inner: Arc<dyn ReadFile>,
    meter: Arc<Meter>,
}

impl ReadFile for MeteredRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, tag: ReadTag) -> io::Result<()> {
        let pages = self.meter.count_read(tag, offset, buf.len());
        self.meter.charge_reads(1, pages);
        self.inner.read_exact_at(buf, offset, tag)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

#[derive(Debug)]
struct MeteredWrite {
    inner: Box<dyn WriteFile>,
    meter: Arc<Meter>,
}

impl WriteFile for MeteredWrite {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.meter.write(bytes.len());
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.meter.sync(&self.meter.syncs);
        self.inner.sync()
    }

    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        self.meter.sync(&self.meter.syncs);
        self.inner.cut_back(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

/// The file that a metered file counts for.
fn file_below(file: &dyn ReadFile) -> &dyn ReadFile {
    let metered = (file as &dyn Any).downcast_ref::<MeteredRead>();
    metered.map_or(file, |metered| &*metered.inner)
}

impl Fs for MeteredFs {
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(MeteredWrite {
            inner: self.inner.create(path, access)?,
            meter: Arc::clone(&self.meter),
        }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(MeteredRead {
            inner: self.inner.open(path, access)?,
            meter: Arc::clone(&self.meter),
        }))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn open_file_limit(&self) -> Option<u64> {
        self.inner.open_file_limit()
    }

    fn read_many(&self, reads: &mut [ReadRequest<'_>]) {
        add(&self.meter.batches, 1);
        let count =
            |read: &ReadRequest<'_>| (self.meter).count_read(read.tag, read.offset, read.buf.len());
        let pages = reads.iter().map(count).sum();
        self.meter.charge_reads(reads.len() as u64, pages);
        let mut below: Vec<_> = reads
            .iter_mut()
            .map(|read| ReadRequest {
                file: file_below(read.file),
                offset: read.offset,
                buf: read.buf,
                tag: read.tag,
                result: Ok(()),
            })
            .collect();
        self.inner.read_many(&mut below);
        let results: Vec<_> = below.into_iter().map(|read| read.result).collect();
        for (read, result) in reads.iter_mut().zip(results) {
            read.result = result;
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn visit(&self, dir: &Path, visit: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.inner.visit(dir, visit)
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
        self.meter.sync(&self.meter.syncs);
        self.inner.sync_file(path)
    }

    fn sync_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        paths
            .iter()
            .for_each(|_| self.meter.sync(&self.meter.syncs));
        self.inner.sync_files(paths)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.meter.sync(&self.meter.dir_syncs);
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn read(file: &dyn ReadFile, offset: u64, len: usize, kind: BlockKind, purpose: Purpose) {
        let mut buf = vec![0; len];
        let tag = ReadTag {
            kind,
            last: None,
            purpose,
        };
        file.read_exact_at(&mut buf, offset, tag).unwrap();
    }

    fn workload(fs: &MeteredFs) {
        let mut file = fs.create("/a".as_ref(), Access::Direct).unwrap();
        file.append(&[1; 3 * PAGE]).unwrap();
        file.sync().unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
        let file = fs.open("/a".as_ref(), Access::Direct).unwrap();
        read(&*file, 0, PAGE, BlockKind::Data, Purpose::Lookup);
        read(&*file, 4000, 200, BlockKind::Data, Purpose::Lookup);
        read(&*file, 0, 3 * PAGE, BlockKind::Data, Purpose::Scan);
        read(&*file, 0, 1, BlockKind::Filter(3), Purpose::Lookup);
        read(&*file, 0, 1, BlockKind::Filter(200), Purpose::Background);
    }

    #[test]
    fn counts_by_kind_and_purpose() {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        workload(&fs);
        let first = fs.counts();
        let count = |reads, pages, bytes| ReadCount {
            reads,
            pages,
            bytes,
        };
        let page = PAGE as u64;
        assert_eq!(
            first.reads(BlockKind::Data, Purpose::Lookup),
            count(2, 3, page + 200)
        );
        assert_eq!(first.reads_of(BlockKind::Data), count(3, 6, 4 * page + 200));
        assert_eq!(first.reads_of(BlockKind::Filter(3)), count(1, 1, 1));
        assert_eq!(first.reads_of(BlockKind::Filter(15)), count(1, 1, 1));
        assert_eq!(first.reads_of(BlockKind::Index), ReadCount::default());
        assert_eq!(first.reads_for(Purpose::Lookup), count(3, 4, page + 201));
        assert_eq!(first.all_reads(), count(5, 8, 4 * page + 202));
        assert_eq!((first.writes, first.bytes_written), (1, 3 * page));
        assert_eq!((first.syncs, first.dir_syncs, first.device_ns), (1, 1, 0));
        workload(&fs.clone());
        assert_eq!(fs.counts() - first, first);
    }

    #[test]
    fn neighbours_are_one_read_and_pages_of_their_kinds() {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        workload(&fs);
        let before = fs.counts();
        let tag = ReadTag {
            kind: BlockKind::Filter(0),
            last: Some(BlockKind::Index),
            purpose: Purpose::Lookup,
        };
        let file = fs.open("/a".as_ref(), Access::Direct).unwrap();
        let mut buf = [0; 2 * PAGE];
        file.read_exact_at(&mut buf, 0, tag).unwrap();
        let counts = fs.counts() - before;
        let (filter, index) = (
            counts.reads_of(BlockKind::Filter(0)),
            counts.reads_of(BlockKind::Index),
        );
        assert_eq!((filter.reads, filter.pages), (1, 1));
        assert_eq!((index.reads, index.pages), (0, 1));
        assert_eq!(counts.all_reads().bytes, 2 * PAGE as u64);
    }

    #[test]
    fn charges_a_device() {
        let model = DeviceModel {
            read: 1,
            parallel: 2,
            read_page: 10,
            write: 100,
            write_page: 1000,
            sync: 10_000,
        };
        let fs = MeteredFs::with_device(Arc::new(MemFs::new()), model, Charge::Virtual);
        workload(&fs);
        let before = fs.counts();
        assert_eq!(before.device_ns, 5 + 80 + 100 + 3000 + 20_000);
        // Of five reads together two are served at a time.
        let file = fs.open("/a".as_ref(), Access::Direct).unwrap();
        let mut pages = [[0; PAGE]; 5];
        let mut reads: Vec<_> = (pages.iter_mut())
            .map(|page| ReadRequest {
                file: &*file,
                offset: 0,
                buf: page,
                tag: ReadTag {
                    kind: BlockKind::Data,
                    last: None,
                    purpose: Purpose::Lookup,
                },
                result: Ok(()),
            })
            .collect();
        fs.read_many(&mut reads);
        let counts = fs.counts() - before;
        assert_eq!((counts.batches, counts.all_reads().reads), (1, 5));
        assert_eq!(counts.device_ns, 3 + 50);
    }

    #[test]
    fn real_charges_are_waited_out() {
        let inner = MemFs::new();
        inner.write_file("/a", &[0; PAGE]).unwrap();
        let fs = MeteredFs::with_device(Arc::new(inner), DeviceModel::SATA_SSD, Charge::Real);
        let file = fs.open("/a".as_ref(), Access::Direct).unwrap();
        let start = Instant::now();
        for _ in 0..10 {
            read(&*file, 0, PAGE, BlockKind::Data, Purpose::Lookup);
        }
        let charged = Duration::from_nanos(fs.counts().device_ns);
        assert_eq!(charged, Duration::from_micros(980));
        assert!(start.elapsed() >= charged);
    }
}
