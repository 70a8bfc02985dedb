//! A first pass over the whole engine: fill, overwrite, delete, read, iterate, reopen.

use shamba::{IterOptions, KeyspaceOptions, MemoryBudget, MergePolicy, Options};

fn options(policy: MergePolicy, threads: usize) -> Options {
    Options::new()
        .memory(MemoryBudget::bytes(2 << 20))
        .background_threads(threads)
        .keyspace(
            KeyspaceOptions::new()
                .merge_policy(policy)
                .size_ratio(3)
                .write_buffer(64 << 10)
                .target_file(64 << 10),
        )
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn fill_and_check(policy: MergePolicy, threads: usize) {
    let dir = tempfile::tempdir().unwrap();
    const N: u64 = 30_000;
    {
        let db = options(policy, threads).open(dir.path()).unwrap();
        for round in 0..2u64 {
            for i in 0..N {
                db.put(key(i), (i + round).to_le_bytes().repeat(5)).unwrap();
            }
        }
        for i in (0..N).step_by(3) {
            db.delete(key(i)).unwrap();
        }
        db.wait_for_compaction().unwrap();
        check(&db, N);
        db.verify().unwrap().check().unwrap();
        let memory = db.stats().memory.budget;
        assert_eq!(memory.overdraft, 0, "{memory:?}");
        db.close().unwrap();
    }
    let db = options(policy, threads).open(dir.path()).unwrap();
    check(&db, N);
    db.compact_range(None, None).unwrap();
    check(&db, N);
    let stats = db.stats();
    assert_eq!(
        stats.keyspaces[0]
            .levels
            .iter()
            .map(|level| level.entries)
            .sum::<u64>(),
        N - N.div_ceil(3)
    );
}

fn check(db: &shamba::Db, n: u64) {
    for i in 0..n {
        let value = db.get(key(i)).unwrap();
        let expected = (i % 3 != 0).then(|| (i + 1).to_le_bytes().repeat(5));
        assert_eq!(value.as_deref(), expected.as_deref(), "key {i}");
    }
    assert_eq!(db.get(b"absent").unwrap(), None);
    let mut keys: Vec<_> = (0..n).filter(|i| i % 3 != 0).map(key).collect();
    keys.sort();
    let found: Vec<_> = db.iter().map(|pair| pair.unwrap().0).collect();
    assert!(found.iter().zip(&keys).all(|(a, b)| a == b) && found.len() == keys.len());
    let mut iter = db.cursor(IterOptions::default()).unwrap();
    iter.seek_to_last().unwrap();
    for key in keys.iter().rev() {
        assert_eq!(iter.key(), key);
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
}

#[test]
fn leveling_in_the_background() {
    fill_and_check(MergePolicy::default(), 2);
}

#[test]
fn leveling_inline() {
    fill_and_check(MergePolicy::default(), 0);
}

#[test]
fn tiering() {
    fill_and_check(MergePolicy::Tiering, 1);
}

#[test]
fn lazy_leveling() {
    fill_and_check(MergePolicy::LazyLeveling, 0);
}
