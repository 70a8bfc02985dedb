//! A table of which bytes were changed, and the checksums with them: what was not meant to be is
//! read by every door, and gives an error or an answer.

use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::base::interner::Interner;
use crate::base::iter::InternalIterator;
use crate::budget::{Budget, Role};
use crate::cache::{BlockCache, IoPool, Store};
use crate::fs::{Access, Fs, MemFs, Purpose};
use crate::table::files::OpenFiles;
use crate::table::reader::Table;
use crate::table::source::Home;
use crate::table::{Get, GetState, Lookup, ModuleReads, TableGet};
use crate::table::{ScanOptions, TableBuildOptions, TableBuilder};

/// Tables that are changed.
const SHAPES: u8 = 8;

/// Writes a block's checksum into its last bytes.
pub(super) fn put_sum(pages: &mut [u8], salt: u32, page: u32) {
    if let Some((body, sum)) = pages.split_last_chunk_mut::<4>() {
        *sum = checksum(format::seed(salt, page), body).to_le_bytes();
    }
}

struct Env {
    fs: MemFs,
    home: Arc<Home>,
    budget: Arc<Budget>,
}

impl Env {
    fn new() -> Self {
        let fs = MemFs::new();
        let budget = Budget::new(2 << 20);
        let store = Store::new(Arc::clone(&budget));
        let home = Arc::new(Home {
            files: OpenFiles::new(Arc::new(fs.clone()), PathBuf::new(), Arc::clone(&budget), 1),
            cache: BlockCache::new(Arc::clone(&store), 1),
            io: IoPool::new(store, 4 * PAGE),
            plans: Interner::default(),
        });
        Env { fs, home, budget }
    }
}

const SALT: u32 = 7;

fn key(number: u16) -> Vec<u8> {
    format!("key{:05}", number / 2 * 7).into_bytes()
}

/// A table of some shape.
fn build(env: &Env, shape: u8) -> Vec<u8> {
    let path = PathBuf::from("/1.sst");
    let module = match shape % 4 {
        0 => ModulePlan::bloom(Family::Bloom, 8000, 4),
        1 => ModulePlan::bloom(Family::Blocked, 9000, 3),
        2 => ModulePlan::ribbon(3, 1),
        _ => ModulePlan::ribbon(8, 1),
    };
    let layout = match shape & 4 {
        0 => Layout::Partitioned,
        _ => Layout::Whole,
    };
    let options = TableBuildOptions {
        filter: FilterPlan {
            layout,
            modules: vec![module; 2],
        },
        compression: [Compression::None, Compression::Lz4, Compression::Zstd(1)]
            [usize::from(shape) % 3],
        partition_keys: 40,
        salt: SALT,
        ..TableBuildOptions::default()
    };
    let file = env
        .fs
        .create(&path, Access::Direct)
        .expect("a file in memory");
    let memory = env.budget.reserve(Role::Compaction, 0);
    let mut builder = TableBuilder::new(file, path, options, memory);
    for number in 0..150u16 {
        let (tag, len) = match number % 4 {
            1 => (Tag::new(300 - u64::from(number), EntryKind::Delete), 0),
            // One that takes several pages.
            2 if number % 40 == 2 => (Tag::new(300 - u64::from(number), EntryKind::Put), 9000),
            _ => (Tag::new(300 - u64::from(number), EntryKind::Put), 60),
        };
        let value: Vec<u8> = (0..len)
            .map(|at| (at as u8).wrapping_mul(31) ^ number as u8)
            .collect();
        builder
            .add(&key(number), tag, &value)
            .expect("an entry in order");
    }
    builder.finish(true).expect("a table in memory");
    env.fs.read_file("/1.sst").expect("the table")
}

/// Where the blocks of a sound table begin: those whose checksums are right, and between them
/// nothing.
fn blocks(table: &[u8]) -> Vec<std::ops::Range<usize>> {
    let pages = table.len() / PAGE - 1;
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < pages {
        let sound = |end: &usize| {
            format::open_block(&table[start * PAGE..end * PAGE], SALT, start as u32).is_ok()
        };
        let end = (start + 1..=pages)
            .find(sound)
            .expect("a block ends somewhere");
        blocks.push(start * PAGE..end * PAGE);
        start = end;
    }
    blocks
}

/// A byte that chooses the table, one of which bit 0 keeps the old checksums, one that says what to
/// ask, and then changes: a block (255 is the footer), a place in it from its end, and bytes behind
/// their number.
pub(crate) fn table(data: &[u8]) {
    let mut input = Input(data);
    let (shape, how, ask) = (input.byte() % SHAPES, input.byte(), input.byte());
    let env = Env::new();
    let mut bytes = build(&env, shape);
    let places = blocks(&bytes);
    while !input.is_empty() {
        let (block, back) = (input.byte(), usize::from(input.u16()));
        let len = usize::from(input.byte() % 64);
        let new = input.take(len);
        let footer = bytes.len() - PAGE..bytes.len();
        let range = match block {
            255 => footer,
            _ => places[usize::from(block) % places.len()].clone(),
        };
        let at = range.end - 1 - back % range.len();
        let end = (at + new.len()).min(range.end);
        bytes[at..end].copy_from_slice(&new[..end - at]);
    }
    if how & 1 == 0 {
        for place in &places {
            put_sum(&mut bytes[place.clone()], SALT, (place.start / PAGE) as u32);
        }
        let page = bytes.len() - PAGE;
        let sum = checksum(0, &bytes[page..page + PAGE - 12]);
        bytes[page + PAGE - 12..page + PAGE - 8].copy_from_slice(&sum.to_le_bytes());
    }
    env.fs
        .write_file("/1.sst", &bytes)
        .expect("a file in memory");
    read(&env, ask, how & 2 == 2);
}

fn read(env: &Env, ask: u8, fill_cache: bool) {
    let file = env
        .fs
        .open("/1.sst".as_ref(), Access::Direct)
        .expect("the table");
    let handle = env.home.files.adopt(1, file);
    let id = env.home.cache.new_file_id();
    let empty = arc_swap::ArcSwapOption::empty();
    let opened = Table::open(handle, id, Arc::clone(&env.home), &empty, None);
    let Ok(table) = opened.map(Arc::new) else {
        return;
    };
    let get = |key: &[u8]| {
        let lookup = Lookup::new(key, 400, true);
        let mut state = GetState::new(&table, &lookup, ModuleReads::UpTo(ask % 3));
        Get::new(&table, None, &lookup, &mut state).finish()
    };
    for number in (u16::from(ask)..160).step_by(11) {
        let wanted = key(number);
        if let Ok(TableGet::Found { value, .. }) = get(&wanted) {
            assert_eq!(value.to_vec().len(), value.len());
        }
        let _ = get(&[&wanted[..], b"x"].concat());
    }
    let mut scan = table.iter(ScanOptions {
        purpose: Purpose::Scan,
        sources: 1,
        fill_cache,
        readahead_pages: u32::from(ask % 4),
        lazy: ask & 16 != 0,
        budget: Arc::clone(&env.budget),
    });
    let settled = |scan: &mut crate::table::TableIter| scan.materialize().is_ok() && scan.valid();
    let mut steps = 0;
    if scan.seek_to_first().is_ok() {
        while settled(&mut scan) && steps < MOST_STEPS {
            steps += scan.key().len().min(1) + 1;
            if scan.next().is_err() {
                break;
            }
        }
    }
    if scan.seek_to_last().is_ok() {
        while settled(&mut scan) && steps < MOST_STEPS {
            steps += scan.value().len().min(1) + 1;
            if scan.prev().is_err() {
                break;
            }
        }
    }
    assert!(steps < MOST_STEPS, "walks end");
    for number in (u16::from(ask)..160).step_by(37) {
        let _ = scan.seek(&key(number), Tag::seek(200));
        let _ = scan.materialize();
        let _ = scan.seek_for_prev(&key(number), Tag::seek(200));
        let _ = scan.materialize();
    }
    let _ = table.verify(None);
    let _ = table.properties();
    table.best_absent();
    drop(scan);
}

pub(crate) fn table_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..SHAPES).map(|shape| vec![shape, 2, 3 * shape]).collect();
    for shape in 0..SHAPES {
        let change = |block: u8, back: u16, bytes: &[u8]| {
            let back = back.to_le_bytes();
            [&[block, back[0], back[1], bytes.len() as u8], bytes].concat()
        };
        for (block, back, bytes) in [
            // Data, an index or filter, the footer's numbers, its properties.
            (0, 40, &[0xff, 0xff, 0x03][..]),
            (3, 4090, &[1, 2, 3, 4]),
            (shape + 4, 4000, &[0; 9]),
            (255, 31, &[1, 0, 0, 0]),
            (255, 4000, &[9]),
        ] {
            let change = change(block, back, bytes);
            seeds.push([&[shape, 0, 16], change.as_slice()].concat());
        }
    }
    seeds.truncate(40);
    seeds
}
