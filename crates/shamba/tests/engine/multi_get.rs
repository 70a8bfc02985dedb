//! Lookups of many keys at once answer as single lookups do, read each block once, and read in few
//! rounds. `SHAMBA_SEED` tries one case of the random ones.

use std::path::Path;
use std::sync::Arc;

use crate::common::{
    Map, Replay, Rng, env_number, full_run, on_every_core, random_options, small_keyspace,
    small_options,
};
use shamba::fs::{
    BlockKind, Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, MeteredFs, Op, OsFs, Purpose,
};
use shamba::{
    Db, Error, FilterPolicy, KeyspaceOptions, MIN_MEMORY, MemoryBudget, Options, Preset, WriteBatch,
};

const DIR: &str = "/db";

fn key(number: u64) -> Vec<u8> {
    format!("{:08}", number.wrapping_mul(2_654_435_761) % 100_000_000).into_bytes()
}

/// Writes keys `0..count`, some of them again, some deleted.
fn fill(db: &Db, rng: &mut Rng, count: u64) -> Map {
    let mut model = Map::new();
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for number in 0..count {
            if round > 0 && !rng.one_in(4) {
                continue;
            }
            if round > 0 && rng.one_in(3) {
                batch.delete(key(number));
                model.remove(&key(number));
            } else {
                let len = rng.below(120) as usize;
                let value = rng.bytes(len);
                batch.put(key(number), &value);
                model.insert(key(number), value);
            }
            if batch.len() >= 50 {
                db.write(std::mem::take(&mut batch)).unwrap();
            }
        }
        db.write(batch).unwrap();
    }
    model
}

fn wanted(model: &Map, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    keys.iter().map(|key| model.get(key).cloned()).collect()
}

fn answers(db: &Db, keys: &[Vec<u8>]) -> shamba::Result<Vec<Option<Vec<u8>>>> {
    let values = db.multi_get(keys)?;
    Ok(values
        .into_iter()
        .map(|value| value.map(|value| value.to_vec()))
        .collect())
}

fn random_case(seed: u64) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test --test engine multi_get"
    ));
    let mut rng = Rng::new(seed);
    let count = rng.between(1, 1500);
    let options = |rng: &mut Rng, fs: &MemFs| random_options(rng, Arc::new(fs.clone()));
    let fs = MemFs::new();
    let mut db = options(&mut rng.clone(), &fs).open(DIR).unwrap();
    let model = fill(&db, &mut rng, count);
    for round in 0..6 {
        if round == 2 {
            drop(db);
            db = options(&mut rng, &fs)
                .create_if_missing(false)
                .open(DIR)
                .unwrap();
        }
        let keys: Vec<_> = (0..rng.below(400))
            .map(|_| key(rng.below(count + count / 4 + 1)))
            .collect();
        assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        for key in keys.iter().take(40) {
            let value = db.get(key).unwrap();
            assert_eq!(value.as_deref(), model.get(key).map(Vec::as_slice));
        }
        let memory = db.stats().memory.budget;
        assert_eq!(memory.overdraft, 0, "{memory:?}");
    }
}

#[test]
fn batches_answer_as_single_lookups_do() {
    match env_number("SHAMBA_SEED") {
        Some(seed) => random_case(seed),
        None => on_every_core(if full_run() { 2000 } else { 60 }, random_case),
    }
}

/// A database on storage, and what is in it.
fn stored(count: u64, keyspace: KeyspaceOptions) -> (MemFs, Map) {
    let fs = MemFs::new();
    let options = small_options(Arc::new(fs.clone())).keyspace(keyspace);
    let db = options.open(DIR).unwrap();
    let model = fill(&db, &mut Rng::new(7), count);
    db.flush().unwrap();
    db.close().unwrap();
    (fs, model)
}

fn cold(fs: impl Fs, keyspace: KeyspaceOptions, memory: u64) -> Db {
    let options = small_options(Arc::new(fs)).keyspace(keyspace);
    options
        .memory(MemoryBudget::bytes(memory))
        .open(DIR)
        .unwrap()
}

#[test]
fn keys_on_one_page_cost_one_read() {
    let fs = MemFs::new();
    let keyspace = small_keyspace().filter_policy(FilterPolicy::All);
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let keys: Vec<_> = (0..64).map(key).collect();
    keys.iter().for_each(|key| db.put(key, b"v").unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    for memory in [MIN_MEMORY, 16 << 20] {
        let fs = MeteredFs::new(Arc::new(fs.clone()));
        let db = cold(fs.clone(), keyspace.clone(), memory);
        let before = fs.counts();
        assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some));
        let counts = fs.counts() - before;
        for kind in [BlockKind::Data, BlockKind::Index, BlockKind::Filter(0)] {
            assert_eq!(counts.reads(kind, Purpose::Lookup).reads, 1, "{kind:?}");
        }
        let reads = counts.reads_for(Purpose::Lookup).reads;
        assert_eq!(counts.batches, reads);
        let counters = db.stats().counters;
        assert_eq!((counters.lookups, counters.lookups_found), (64, 64));
        assert_eq!((counters.data_reads, counters.read_batches), (1, reads));
    }
}

#[test]
fn reads_are_made_in_few_rounds() {
    for preset in Preset::ALL {
        let keyspace = small_keyspace().preset(preset);
        let (fs, model) = stored(4000, keyspace.clone());
        let fs = MeteredFs::new(Arc::new(fs));
        let db = cold(fs.clone(), keyspace.clone(), 32 << 20);
        let keys: Vec<_> = (0..200).map(|i| key(i * 19)).collect();
        let before = fs.counts();
        assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        let counts = fs.counts() - before;
        let runs: usize = db.stats().keyspaces[0].levels.iter().map(|l| l.runs).sum();
        // A filter's modules, the index, and the data, of one run after another.
        let most = runs as u64 * (u64::from(keyspace.filter.modules) + 2);
        let reads = counts.reads_for(Purpose::Lookup).reads;
        assert!(
            counts.batches <= most,
            "{preset}: {} rounds",
            counts.batches
        );
        assert!(reads >= 4 * counts.batches, "{preset}: {reads} reads");
        let before = fs.counts();
        assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        let again = (fs.counts() - before).reads(BlockKind::Data, Purpose::Lookup);
        assert_eq!(again.reads, 0, "{preset}: now all is cached");
    }
}

/// With the least memory, buffers are few and the cache refuses much.
#[test]
fn little_memory_is_enough_for_many_keys() {
    let (fs, model) = stored(24_000, small_keyspace());
    let db = cold(fs, small_keyspace(), MIN_MEMORY);
    let keys: Vec<_> = (0..4000).map(|i| key(i * 7)).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for keys in keys.chunks(1200) {
                    assert_eq!(answers(&db, keys).unwrap(), wanted(&model, keys));
                }
            });
        }
    });
    let memory = db.stats().memory.budget;
    assert_eq!(memory.overdraft, 0, "{memory:?}");
}

#[test]
fn every_failing_read_is_an_error_or_does_no_harm() {
    for preset in Preset::ALL {
        let keyspace = small_keyspace().preset(preset);
        let (fs, model) = stored(1200, keyspace.clone());
        let keys: Vec<_> = (0..64).map(|i| key(i * 23)).collect();
        let open = |faults: &Faults| {
            let fs = FaultFs::new(Arc::new(fs.deep_clone()), faults.clone());
            cold(MeteredFs::new(Arc::new(fs)), keyspace.clone(), 1 << 20)
        };
        let faults = Faults::new();
        let db = open(&faults);
        faults.reset_counts();
        assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        let total = faults.total();
        assert!(faults.count(Op::Read) > 50, "{preset}");
        drop(db);
        let mut failed = 0;
        let step = if full_run() { 1 } else { 5 };
        for (number, effect) in (0..total).step_by(step).zip(
            [
                Effect::Fail(FaultError::EIO),
                Effect::Short,
                Effect::Fail(FaultError::EIO),
                Effect::FlipBit,
            ]
            .into_iter()
            .cycle(),
        ) {
            let faults = Faults::new();
            let db = open(&faults);
            faults.reset_counts();
            faults.add(Fault::new(effect).after(number));
            let outcome = answers(&db, &keys);
            // Which filters are worth a read depends on samples, so the last reads may not come.
            assert!(faults.fired() == 1 || outcome.is_ok(), "{preset} {number}");
            match outcome {
                Ok(answers) => assert_eq!(answers, wanted(&model, &keys), "{preset} {number}"),
                Err(Error::Io { .. } | Error::Corruption { .. }) => failed += 1,
                Err(error) => panic!("{preset} {number}: {error:?}"),
            }
            faults.clear();
            assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        }
        assert!(failed > 5, "{preset}: {failed} failed");
    }
}

#[test]
fn the_systems_files_are_read_together() {
    for fs in [OsFs::new(), OsFs::new().without_io_uring()] {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            let options = Options::new().fs(Arc::new(fs.clone()));
            let options = options.keyspace(small_keyspace()).background_threads(0);
            options
                .memory(MemoryBudget::bytes(4 << 20))
                .open(path)
                .unwrap()
        };
        let db = open(dir.path());
        let model = fill(&db, &mut Rng::new(3), 5000);
        db.flush().unwrap();
        db.close().unwrap();
        let db = open(dir.path());
        let keys: Vec<_> = (0..500).map(|i| key(i * 11)).collect();
        assert_eq!(answers(&db, &keys).unwrap(), wanted(&model, &keys));
        let counters = db.stats().counters;
        let reads = counters.data_reads + counters.index_reads + counters.filter_reads;
        assert!(reads > 4 * counters.read_batches, "{counters:?}");
    }
}
