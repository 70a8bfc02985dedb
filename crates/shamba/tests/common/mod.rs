//! What the tests share: a small random generator, random options, and ways to read a whole
//! database. Nothing here keeps state between calls.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod history;
pub mod story;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use shamba::fs::{Fs, MemFs};
use shamba::{
    Compression, Db, Design, DeviceCosts, Durability, Eviction, FilterAllocation, FilterFamily,
    FilterOptions, FilterPolicy, Granularity, IterOptions, Keyspace, KeyspaceOptions, MIN_MEMORY,
    MemoryBudget, MergePolicy, ModuleSizes, Options, Prefix, Preset, Result, Skipping, Thresholds,
    WriteBatch,
};

/// Keys and their values.
pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// SplitMix64: small, seedable, the same everywhere.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0);
        self.next() % n
    }

    /// A number between two, both included.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        // Half of the values compress, half do not.
        if self.one_in(2) {
            let word = self.next().to_le_bytes();
            while bytes.len() < len {
                bytes.extend_from_slice(&word);
            }
        } else {
            while bytes.len() < len {
                bytes.extend_from_slice(&self.next().to_le_bytes());
            }
        }
        bytes.truncate(len);
        bytes
    }
}

/// A number from the environment.
pub fn env_number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Whether the complete, slow form of a test is asked for.
pub fn full_run() -> bool {
    std::env::var_os("SHAMBA_FULL").is_some()
}

/// Says on a panic how to run the failing case again.
pub struct Replay(pub String);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing case again: {}", self.0);
        }
    }
}

/// Runs `case` for the numbers `0..count`, on every core, stopping at the first panic.
pub fn on_every_core(count: u64, case: impl Fn(u64) + Sync) {
    let next = std::sync::atomic::AtomicU64::new(0);
    let failed = std::sync::atomic::AtomicBool::new(false);
    let threads = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                use std::sync::atomic::Ordering::Relaxed;
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= count || failed.load(Relaxed) {
                        return;
                    }
                    let outcome =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(number)));
                    if let Err(panic) = outcome {
                        failed.store(true, Relaxed);
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
}

pub fn random_merge_policy(rng: &mut Rng) -> MergePolicy {
    match rng.below(4) {
        0 => MergePolicy::Leveling {
            granularity: Granularity::File,
        },
        1 => MergePolicy::Leveling {
            granularity: Granularity::Level,
        },
        2 => MergePolicy::Tiering,
        _ => MergePolicy::LazyLeveling,
    }
}

pub fn random_filter_policy(rng: &mut Rng) -> FilterPolicy {
    let skipping = *rng.pick(&[Skipping::Partial, Skipping::Full]);
    match rng.below(4) {
        0 => FilterPolicy::All,
        1 => FilterPolicy::Utility {
            skipping,
            thresholds: *rng.pick(&[
                Thresholds::PAPER,
                Thresholds::RELATIVE,
                Thresholds::Absolute {
                    first: 0.0,
                    later: 1.0,
                },
                Thresholds::Relative {
                    first: 9.0,
                    later: 0.0,
                },
            ]),
        },
        2 => FilterPolicy::Elastic {
            initial_units: rng.between(1, 5) as u8,
            lifetime: rng.between(1, 4) as u32,
        },
        _ => FilterPolicy::ExpectedReads,
    }
}

/// Pages of all kinds that scans have read so far.
pub fn pages_of_scans(fs: &shamba::fs::MeteredFs) -> u64 {
    use shamba::fs::{BlockKind, Purpose};
    let counts = fs.counts();
    let kinds = (0..4).map(BlockKind::Filter);
    let kinds = kinds.chain([BlockKind::Data, BlockKind::Index]);
    kinds
        .map(|kind| counts.reads(kind, Purpose::Scan).pages)
        .sum()
}

pub fn random_allocation(rng: &mut Rng) -> FilterAllocation {
    match rng.below(5) {
        0 => FilterAllocation::Monkey,
        1 => FilterAllocation::MonkeyGeneral {
            existing_per_empty: *rng.pick(&[0.0, 0.5, 4.0, 1e300]),
        },
        2 => FilterAllocation::Measured,
        _ => FilterAllocation::Uniform,
    }
}

pub fn random_keyspace_options(rng: &mut Rng) -> KeyspaceOptions {
    let compression = |rng: &mut Rng| match rng.below(4) {
        0 => Compression::Lz4,
        1 => Compression::Zstd(*rng.pick(&[1, 3, 9])),
        _ => Compression::None,
    };
    let level0_runs = rng.between(1, 6) as u32;
    let level0_slowdown = level0_runs + rng.between(0, 20) as u32;
    let options = KeyspaceOptions::new()
        .merge_policy(random_merge_policy(rng))
        .size_ratio(rng.between(2, 10) as u32)
        .write_buffer(*rng.pick(&[4 << 10, 8 << 10, 16 << 10, 64 << 10, 1 << 20]))
        .level0_runs(level0_runs)
        .level0_slowdown(level0_slowdown)
        .level0_stall(level0_slowdown + rng.between(1, 10) as u32)
        .target_file(*rng.pick(&[4 << 10, 8 << 10, 20 << 10, 128 << 10, 64 << 20]))
        .compression(
            (0..rng.between(1, 3))
                .map(|_| compression(rng))
                .collect::<Vec<_>>(),
        )
        .filter(
            FilterOptions::new()
                .family(*rng.pick(&[
                    FilterFamily::Bloom,
                    FilterFamily::BlockedBloom,
                    FilterFamily::Ribbon,
                    FilterFamily::Auto,
                ]))
                .bits_per_key(*rng.pick(&[0.0, 0.5, 1.0, 4.0, 7.3, 10.0, 10.0, 15.0, 20.0]))
                .allocation(random_allocation(rng))
                .modules(*rng.pick(&[1, 1, 2, 3, 7, 16]))
                .module_sizes(if rng.one_in(3) {
                    ModuleSizes::Proportional {
                        first_bits_per_key: *rng.pick(&[0.0, 1.0, 3.0, 7.0, 12.0]),
                    }
                } else {
                    ModuleSizes::Equal
                })
                .partitioned(rng.one_in(2)),
        )
        .prefix(match rng.below(6) {
            0 => Some(Prefix::Fixed(*rng.pick(&[1, 2, 4, 6]))),
            1 => Some(Prefix::Delimiter(*rng.pick(b"/0"))),
            _ => None,
        })
        .range_filter(rng.one_in(4).then(|| *rng.pick(&[4.0, 6.5, 10.0, 20.0])))
        .filter_policy(random_filter_policy(rng))
        .auto_design(None)
        .epoch_lookups(*rng.pick(&[1, 8, 64, 2048]))
        .merge_for_scans(!rng.one_in(4))
        .restart_interval(*rng.pick(&[1, 2, 8, 16, 64]))
        .value_files_from(rng.one_in(3).then(|| *rng.pick(&[64, 100, 1000])));
    let options = match options.range_filter {
        Some(_) => options.prefix(None),
        None => options,
    };
    if rng.one_in(3) {
        let mut options = options.preset(*rng.pick(&Preset::ALL));
        options.filter.allocation = random_allocation(rng);
        options.filter.partitioned ^= rng.one_in(2);
        return options;
    }
    options
}

/// Another design for a keyspace that has small data.
pub fn random_design(rng: &mut Rng) -> Design {
    Design::default()
        .merge_policy(random_merge_policy(rng))
        .size_ratio(rng.between(2, 10) as u32)
        .write_buffer(*rng.pick(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]))
        .bits_per_key(*rng.pick(&[0.0, 4.0, 10.0, 20.0]))
}

/// Memory budgets from little to plenty.
pub const BUDGETS: [u64; 8] = [
    1 << 20,
    1 << 20,
    1088 << 10,
    1280 << 10,
    3 << 19,
    2 << 20,
    4 << 20,
    32 << 20,
];

/// A budget of any size.
pub fn random_budget(rng: &mut Rng) -> u64 {
    *rng.pick(&BUDGETS)
}

/// A budget of which most is held, so that a small database finds memory short.
pub struct Scarce {
    pub memory: MemoryBudget,
    _held: Box<dyn Send + Sync>,
}

impl Scarce {
    /// The least budget, of which so many bytes are left.
    pub fn leaving(left: u64) -> Scarce {
        let memory = MemoryBudget::bytes(MIN_MEMORY);
        let _held = memory.hold(MIN_MEMORY - left).unwrap();
        Scarce { memory, _held }
    }
}

/// Random options of a database without threads, so that the same seed does the same.
pub fn random_options(rng: &mut Rng, fs: Arc<dyn Fs>) -> Options {
    let options = Options::new();
    let options = match rng.below(3) {
        0 => options,
        1 => options.eviction(Eviction::ExpectedReads),
        _ => options.eviction(Eviction::TwoPriorityLru),
    };
    // A device on which a few reads of scans pay for a merge, on which many do, or the default.
    let options = match *rng.pick(&[None, Some(0.01), Some(0.3)]) {
        Some(cost) => {
            let device = DeviceCosts::new(1e-4).write_cost(cost);
            options.device(device.merge_read_cost(cost))
        }
        None => options,
    };
    options
        .fs(fs)
        .memory(MemoryBudget::bytes(*rng.pick(&BUDGETS)))
        .background_threads(0)
        .durability(*rng.pick(&[
            Durability::Buffered,
            Durability::Buffered,
            Durability::Synced,
        ]))
        .max_open_files(*rng.pick(&[16, 40, 4096]))
        .hash_sharing(rng.one_in(2))
        .max_wal_bytes(*rng.pick(&[64 << 10, 1 << 20, 1 << 30]))
        .keyspace(random_keyspace_options(rng))
}

/// Options of a database small enough that a few hundred writes flush and compact.
pub fn small_options(fs: Arc<dyn Fs>) -> Options {
    Options::new()
        .fs(fs)
        .memory(MemoryBudget::bytes(1 << 20))
        .background_threads(0)
        .keyspace(small_keyspace())
}

/// The keyspace options of [`small_options`].
pub fn small_keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new()
        .size_ratio(3)
        .write_buffer(8 << 10)
        .level0_runs(2)
        .target_file(8 << 10)
}

/// A key of which those with numbers beside it are elsewhere.
pub fn scattered_key(number: u64) -> [u8; 16] {
    let spread = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 999_983).to_be_bytes();
    let mut key = [b'-'; 16];
    key[..8].copy_from_slice(&spread);
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Writes so many entries under scattered keys of even numbers, all in one run, and closes the
/// database.
pub fn fill_one_run(db: Db, entries: u64) {
    let mut batch = WriteBatch::new();
    for number in 0..entries {
        batch.put(scattered_key(2 * number), [7; 20]);
        if batch.len() == 500 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
}

/// So many entries under scattered keys of even numbers, all in one run, opened with the least
/// memory and what `options` says.
pub fn scarce_run(entries: u64, options: impl Fn(Options) -> Options) -> Db {
    let fs = MemFs::new();
    let with = |memory| {
        Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(memory))
            .background_threads(0)
    };
    fill_one_run(with(64 << 20).open("/db").unwrap(), entries);
    options(with(MIN_MEMORY)).open("/db").unwrap()
}

/// How many keys in a row of those that [`grouped_key`] makes begin alike, up to a delimiter.
const GROUP: u64 = 8;

/// A key of a number. Keys come in groups that have a prefix of their own, such as `k03/`.
pub fn grouped_key(number: u64) -> Vec<u8> {
    format!("k{:02}/{:02}", number / GROUP, number % GROUP).into_bytes()
}

/// Compares a few scans for which filters are asked with what is in a keyspace, whose keys are
/// [`grouped_key`]s below a number: within a group, of a part of one, of a few keys in a row.
pub fn check_short_scans(keyspace: &Keyspace, map: &Map, rng: &mut Rng, keys: u64) -> Result<()> {
    for kind in 0..6 {
        let at = rng.below(keys);
        let key = grouped_key(at);
        let group = IterOptions::prefix(&key[..4]);
        let options = match kind {
            0..2 => group,
            2 => group.lower(Bound::Included(key)),
            3 => IterOptions::range(&key..=&key),
            _ => IterOptions::range(key..grouped_key(at + rng.between(1, 4))),
        };
        let bounds = (options.lower.clone(), options.upper.clone());
        let wanted = map.range::<Vec<u8>, _>(bounds);
        let found: Result<Vec<_>> = keyspace.iter_with(options.clone()).collect();
        let found = found?;
        let found = found.iter().map(|(key, value)| (key, &**value));
        let same = found.eq(wanted.map(|(key, value)| (key, value.as_slice())));
        assert!(same, "{}: {options:?} differs", keyspace.name());
    }
    Ok(())
}

/// Everything in a keyspace, by a scan.
pub fn contents(keyspace: &Keyspace) -> Result<Map> {
    let entries = keyspace.iter();
    entries
        .map(|entry| entry.map(|(key, value)| (key, value.into_vec())))
        .collect()
}

/// Everything in every keyspace.
pub fn all_contents(db: &Db) -> Result<BTreeMap<String, Map>> {
    db.keyspaces()
        .into_iter()
        .map(|name| Ok((name.clone(), contents(&db.keyspace(&name)?)?)))
        .collect()
}

/// The names of the files in a folder that end so, sorted.
pub fn files_ending(fs: &dyn Fs, dir: impl AsRef<Path>, suffix: &str) -> Vec<String> {
    let mut names: Vec<String> = fs
        .list(dir.as_ref())
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(suffix))
        .collect();
    names.sort();
    names
}
