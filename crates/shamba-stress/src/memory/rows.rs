//! The work that is measured: ways of using the engine that took more memory than they should.

use std::path::Path;

use shamba::{Compression, Db, Error, IterOptions, KeyspaceOptions, MemoryBudget, Options};

/// The engine's own threads.
pub(super) const BACKGROUND_THREADS: usize = 2;

/// How much of everything a row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Seconds a row.
    Small,
    /// What a release is measured with.
    Full,
}

impl Scale {
    fn of(self, small: u64, full: u64) -> u64 {
        match self {
            Scale::Small => small,
            Scale::Full => full,
        }
    }

    fn entries(self) -> u64 {
        self.of(150_000, 4_000_000)
    }

    fn gets(self) -> u64 {
        self.of(40_000, 300_000)
    }
}

/// A way of using the engine.
pub struct Row {
    /// What the table calls it.
    pub name: &'static str,
    /// The threads that use the engine, the first one included.
    pub threads: u64,
    work: fn(&Work) -> shamba::Result<Db>,
}

impl Row {
    /// Does the work in an empty folder; gives the database, whose accounts are looked at.
    ///
    /// # Errors
    /// As the engine's.
    ///
    /// # Panics
    /// On a wrong answer.
    pub fn run(&self, work: &Work) -> shamba::Result<Db> {
        (self.work)(work)
    }
}

/// Where and how a row works.
#[derive(Debug)]
pub struct Work<'a> {
    pub dir: &'a Path,
    pub budget: u64,
    pub scale: Scale,
    pub seed: u64,
}

/// All rows: those of the attack that found resident memory above the budget.
pub const ROWS: [Row; 11] = [
    row("loading", 1, loading),
    row("lookups", 1, lookups),
    row("batches of 10,000 lookups", 1, batches),
    row("lookups by 64 threads", 65, threads),
    row("lookups by 64 threads, Zstandard", 65, zstandard),
    row("200 iterators held", 1, iterators),
    row("keys of 1 KiB", 1, large_keys),
    row("small tables", 1, small_tables),
    row("largest values", 1, largest_values),
    row("500 keyspaces", 1, keyspaces),
    row("limit lowered and raised", 1, limit_changed),
];

const fn row(name: &'static str, threads: u64, work: fn(&Work) -> shamba::Result<Db>) -> Row {
    Row {
        name,
        threads,
        work,
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number + 1).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A byte of a value, of which a third cannot be compressed.
fn byte(number: u64, at: usize) -> u8 {
    match at % 3 {
        0 => mix(number + at as u64) as u8,
        _ => at as u8 % 7,
    }
}

fn value(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(number, at)).collect()
}

impl Work<'_> {
    fn options(&self, memory: MemoryBudget) -> Options {
        Options::new()
            .memory(memory)
            .background_threads(BACKGROUND_THREADS)
    }

    fn open(&self, keyspace: KeyspaceOptions) -> shamba::Result<Db> {
        self.options(MemoryBudget::bytes(self.budget))
            .keyspace(keyspace)
            .open(self.dir)
    }

    /// A database with entries of 16 and 100 bytes.
    fn loaded(&self, keyspace: KeyspaceOptions) -> shamba::Result<Db> {
        let db = self.open(keyspace)?;
        for number in 0..self.scale.entries() {
            db.put(key(number), value(number, 100))?;
        }
        db.flush()?;
        Ok(db)
    }

    fn get(&self, db: &Db, random: u64) -> shamba::Result<()> {
        let number = mix(self.seed ^ mix(random)) % self.scale.entries();
        let found = db.get(key(number))?;
        assert_eq!(found.as_deref(), Some(&*value(number, 100)), "{number}");
        Ok(())
    }

    fn get_from_threads(&self, db: &Db) -> shamba::Result<()> {
        let each = self.scale.gets() / 64;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..64)
                .map(|thread| {
                    let lookups = thread * each..(thread + 1) * each;
                    scope.spawn(move || lookups.into_iter().try_for_each(|n| self.get(db, n)))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
            threads.into_iter().try_for_each(join)
        })
    }
}

fn loading(work: &Work) -> shamba::Result<Db> {
    work.loaded(KeyspaceOptions::default())
}

fn lookups(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::default())?;
    (0..work.scale.gets()).try_for_each(|n| work.get(&db, n))?;
    Ok(db)
}

fn batches(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::default())?;
    for batch in 0..work.scale.of(3, 20) {
        let number = |n: u64| mix(work.seed ^ mix(batch << 32 | n)) % work.scale.entries();
        let keys: Vec<_> = (0..10_000).map(|n| key(number(n))).collect();
        for (n, found) in (0..).zip(db.multi_get(&keys)?) {
            assert_eq!(found.as_deref(), Some(&*value(number(n), 100)));
        }
    }
    Ok(db)
}

fn threads(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::default())?;
    work.get_from_threads(&db)?;
    Ok(db)
}

fn zstandard(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::new().compression([Compression::Zstd(3)]))?;
    work.get_from_threads(&db)?;
    Ok(db)
}

/// Iterators that stand at 200 places, moved in turn. One that is refused for want of memory is
/// none.
fn iterators(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::default())?;
    // How many runs there are, and so what an iterator takes, is a matter of how far merges are.
    db.wait_for_compaction()?;
    let mut iterators = Vec::new();
    for n in 0..200 {
        let made = db.cursor(IterOptions::default()).and_then(|mut iterator| {
            iterator.seek(key(mix(work.seed ^ n) % work.scale.entries()))?;
            Ok(iterator)
        });
        match made {
            Ok(iterator) => iterators.push(iterator),
            Err(Error::IteratorsExhausted { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    assert!(iterators.len() > 100, "{} iterators", iterators.len());
    for _ in 0..work.scale.of(20, 200) {
        for iterator in &mut iterators {
            if iterator.valid() {
                match iterator.next() {
                    // It is not valid any more.
                    Ok(()) | Err(Error::IteratorsExhausted { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    drop(iterators);
    Ok(db)
}

fn large_keys(work: &Work) -> shamba::Result<Db> {
    let db = work.open(KeyspaceOptions::default())?;
    let count = work.scale.of(20_000, 200_000);
    let long = |number: u64| [&key(number)[..], &value(number, 1008)].concat();
    for number in 0..count {
        db.put(long(number), value(number, 100))?;
    }
    db.flush()?;
    for n in 0..work.scale.gets() {
        let number = mix(work.seed ^ mix(n)) % count;
        let found = db.get(long(number))?;
        assert_eq!(found.as_deref(), Some(&*value(number, 100)));
    }
    Ok(db)
}

/// Tables of 64 KiB: 600, or 5,600 and more.
fn small_tables(work: &Work) -> shamba::Result<Db> {
    let db = work.loaded(KeyspaceOptions::new().target_file(64 << 10))?;
    (0..work.scale.gets()).try_for_each(|n| work.get(&db, n))?;
    Ok(db)
}

fn largest_values(work: &Work) -> shamba::Result<Db> {
    let db = work.open(KeyspaceOptions::default())?;
    let len = work.budget as usize / 16;
    let count = work.scale.of(150, 600);
    // What is measured is the engine: the row itself holds one value at a time.
    let mut value = Vec::new();
    for number in 0..count {
        value.clear();
        value.extend((0..len).map(|at| byte(number, at)));
        db.put(key(number), &*value)?;
    }
    drop(value);
    db.flush()?;
    for n in 0..count {
        let number = mix(work.seed ^ mix(n)) % count;
        let found = db.get(key(number))?.expect("it was put");
        assert!(found.len() == len && (0..len).all(|at| found[at] == byte(number, at)));
    }
    Ok(db)
}

fn keyspaces(work: &Work) -> shamba::Result<Db> {
    let db = work.open(KeyspaceOptions::default())?;
    let open = |n| db.create_keyspace(&format!("keyspace {n}"), KeyspaceOptions::default());
    let keyspaces: Vec<_> = (0..500).map(open).collect::<Result<_, _>>()?;
    for number in 0..work.scale.of(100_000, 2_000_000) {
        let keyspace = &keyspaces[mix(work.seed ^ number) as usize % keyspaces.len()];
        keyspace.put(key(number), value(number, 100))?;
    }
    db.flush()?;
    for n in 0..work.scale.gets() {
        let number = mix(work.seed ^ mix(n)) % work.scale.of(100_000, 2_000_000);
        let keyspace = &keyspaces[mix(work.seed ^ number) as usize % keyspaces.len()];
        let found = keyspace.get(key(number))?;
        assert_eq!(found.as_deref(), Some(&*value(number, 100)));
    }
    Ok(db)
}

/// The limit goes down to an eighth, or the least there is, and up again while it is read and
/// written.
fn limit_changed(work: &Work) -> shamba::Result<Db> {
    let memory = MemoryBudget::bytes(work.budget);
    let db = work.options(memory.clone()).open(work.dir)?;
    for number in 0..work.scale.entries() {
        db.put(key(number), value(number, 100))?;
        if number % (work.scale.entries() / 8) == 0 {
            let low = (work.budget / 8).max(shamba::MIN_MEMORY);
            let parts = [work.budget, low, work.budget / 2];
            memory.set_limit(parts[(number / (work.scale.entries() / 8)) as usize % 3])?;
        }
    }
    memory.set_limit(work.budget)?;
    (0..work.scale.gets()).try_for_each(|n| work.get(&db, n))?;
    Ok(db)
}
