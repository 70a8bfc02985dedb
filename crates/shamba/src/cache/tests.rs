//! Tests of the block cache as a whole.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::value::{ModuleGeometry, Outcome};

const LEN: usize = 4000;
const CHARGE: u64 = charge(LEN);

fn key(file: u64, page: u32) -> BlockKey {
    BlockKey { file, page }
}

/// Bytes that tell which block they belong to.
fn bytes(key: BlockKey, len: usize) -> Box<[u8]> {
    let mark = (key.file * 31 + u64::from(key.page)) as u8;
    vec![mark; len].into()
}

fn data(key: BlockKey, priority: Priority) -> Owner<'static> {
    Owner {
        key,
        kind: BlockKind::Data,
        priority,
        partitions: None,
        partition: 0,
        rejected_by: 0,
    }
}

fn cache(blocks: u64, shards: usize) -> (Arc<Budget>, Arc<BlockCache>) {
    // Some room for the counters of accesses, and not for another block.
    let budget =
        Budget::new(store::room_for_blocks(blocks) + blocks * (CHARGE - 4096) + CHARGE * 9 / 10);
    let cache = BlockCache::new(Store::new(Arc::clone(&budget)), shards);
    (budget, cache)
}

fn put(cache: &BlockCache, key: BlockKey, priority: Priority) -> Option<Block> {
    cache.insert(data(key, priority), &bytes(key, LEN))
}

#[derive(Debug, Clone)]
enum Step {
    Get(BlockKey),
    Insert(BlockKey, usize, bool),
    Release(usize),
    RemoveFile(u64),
    Essential(u64),
}

fn op() -> impl Strategy<Value = Step> {
    let key = (1..4u64, 0..30u32).prop_map(|(file, page)| key(file, page));
    prop_oneof![
        4 => key.clone().prop_map(Step::Get),
        6 => (key, 0..3000usize, any::<bool>()).prop_map(|(k, l, p)| Step::Insert(k, l, p)),
        2 => any::<usize>().prop_map(Step::Release),
        1 => (1..4u64).prop_map(Step::RemoveFile),
        1 => (0..30_000u64).prop_map(Step::Essential),
    ]
}

proptest! {
    #[test]
    fn a_cache_holds_what_was_last_put_or_nothing(
        ops in prop::collection::vec(op(), 1..300),
        limit in 0..40_000u64,
        shards in 1..5usize,
    ) {
        let budget = Budget::new(limit);
        let cache = BlockCache::new(Store::new(Arc::clone(&budget)), shards);
        // The block that may be resident under a key, and blocks held.
        let mut model: HashMap<BlockKey, usize> = HashMap::new();
        let mut held: Vec<(BlockKey, Block)> = Vec::new();
        let mut essential = None;
        for op in ops {
            match op {
                Step::Get(key) => {
                    prop_assert_eq!(cache.contains(&key), cache.get(&key).is_some());
                    if let Some(block) = cache.get(&key) {
                        prop_assert_eq!(Some(&block.len()), model.get(&key));
                        held.push((key, block));
                    }
                }
                Step::Insert(key, len, hold) => {
                    let resident = cache.contains(&key);
                    match cache.insert(data(key, Priority::Low), &bytes(key, len)) {
                        Some(block) => {
                            if resident {
                                prop_assert_eq!(Some(&block.len()), model.get(&key));
                            } else {
                                prop_assert_eq!(block.len(), len);
                                model.insert(key, len);
                            }
                            if hold {
                                held.push((key, block));
                            }
                        }
                        None => prop_assert!(!resident),
                    }
                }
                Step::Release(at) => {
                    if !held.is_empty() {
                        held.swap_remove(at % held.len());
                    }
                }
                Step::RemoveFile(file) => {
                    cache.remove_file(file);
                    for page in 0..30 {
                        prop_assert!(!cache.contains(&key(file, page)));
                    }
                }
                Step::Essential(bytes) => {
                    drop(essential.take());
                    essential = budget.try_reserve(Role::Memtable, bytes);
                }
            }
            prop_assert!(budget.used() <= limit);
            for (key, block) in &held {
                prop_assert_eq!(&**block, &*bytes(*key, block.len()), "a held block is intact");
            }
            let total = cache.stats().total();
            let mut seen: Vec<*const u8> = held.iter().map(|(_, b)| b.as_ptr()).collect();
            seen.sort_unstable();
            seen.dedup();
            let others = [Role::Memtable, Role::Tables, Role::Spare];
            let others: u64 = others.iter().map(|role| budget.used_by(*role)).sum();
            let charged = budget.used() - others;
            prop_assert!(charged >= total.bytes);
            // A slot may be an eighth larger than what is in it.
            prop_assert!(charged <= total.bytes + seen.len() as u64 * charge(3000) * 9 / 8);
            prop_assert_eq!(total.inserts + total.refused <= total.misses, true);
        }
        drop((cache, essential));
        let mut blocks: HashMap<*const u8, u64> = HashMap::new();
        for (_, block) in &held {
            prop_assert!(block.charge() >= charge(block.len()));
            prop_assert!(block.charge() <= charge(block.len()) * 9 / 8 + 8);
            blocks.insert(block.as_ptr(), block.charge());
        }
        let charged = budget.used() - budget.used_by(Role::Spare);
        prop_assert_eq!(charged, blocks.values().sum::<u64>(), "held blocks stay charged");
        drop(held);
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_cache_in_an_idle_budget_fills_it() {
    let (budget, cache) = cache(64, 4);
    for page in 0..1000 {
        let kept = put(&cache, key(1, page), Priority::Low);
        assert!(kept.is_some() || page >= 64);
    }
    let stats = cache.stats().kind(BlockKind::Data);
    assert_eq!((stats.blocks, stats.bytes), (64, 64 * CHARGE));
    assert_eq!(stats.inserts + stats.refused, 1000);
    assert_eq!(stats.inserts - stats.evictions, 64);
    assert_eq!(budget.used_by(Role::Data), 64 * CHARGE);
    assert_eq!(budget.overdraft(), 0);
}

#[test]
fn held_blocks_are_never_victims_and_then_inserts_are_refused() {
    let (budget, cache) = cache(10, 2);
    let held: Vec<_> = (0..10)
        .map(|page| put(&cache, key(1, page), Priority::Low).unwrap())
        .collect();
    assert!(put(&cache, key(2, 0), Priority::High).is_none());
    assert!(budget.try_reserve(Role::Memtable, CHARGE).is_none());
    assert_eq!(cache.stats().total().refused, 1);
    cache.remove_file(1);
    assert!(!cache.contains(&key(1, 3)));
    assert_eq!(
        budget.used_by(Role::Data),
        10 * CHARGE,
        "held blocks are charged after removal"
    );
    drop(held);
    assert_eq!(budget.used_by(Role::Data), 0);
    assert!(put(&cache, key(2, 0), Priority::High).is_some());
}

#[test]
fn other_roles_take_memory_from_the_cache() {
    let (budget, cache) = cache(100, 8);
    for page in 0..100 {
        put(&cache, key(1, page), Priority::Low);
    }
    let memtable = budget.try_reserve(Role::Memtable, 60 * CHARGE).unwrap();
    assert_eq!(cache.stats().total().blocks, 40);
    for page in 100..200 {
        put(&cache, key(1, page), Priority::Low);
    }
    assert_eq!(cache.stats().total().blocks, 40);
    drop(memtable);
    for page in 200..300 {
        put(&cache, key(1, page), Priority::Low);
    }
    assert_eq!(cache.stats().total().blocks, 100);
    assert_eq!(budget.overdraft(), 0);
}

#[test]
fn a_block_larger_than_the_budget_is_refused_and_evicts_nothing() {
    let (_budget, cache) = cache(4, 1);
    for page in 0..4 {
        put(&cache, key(1, page), Priority::Low);
    }
    let big = vec![0u8; 8 * CHARGE as usize];
    assert!(
        cache
            .insert(data(key(2, 0), Priority::High), &big)
            .is_none()
    );
    assert_eq!(cache.stats().total().blocks, 4);
}

#[test]
fn high_priority_blocks_stay_longer() {
    let (_budget, cache) = cache(400, 4);
    cache.set_eviction(Eviction::TwoPriorityLru);
    for page in 0..200 {
        put(&cache, key(1, page), Priority::High);
        put(&cache, key(2, page), Priority::Low);
    }
    for page in 0..200 {
        put(&cache, key(3, page), Priority::Low);
    }
    let left = |file| {
        (0..200)
            .filter(|&page| cache.contains(&key(file, page)))
            .count()
    };
    let (high, low) = (left(1), left(2));
    assert!(
        high > 150 && low < high / 2,
        "{high} high and {low} low left"
    );
}

/// Blocks of 40 kB, of which shards get one to five, in a cache full of small ones.
#[test]
fn large_blocks_of_high_priority_take_room_from_other_shards() {
    let (_budget, cache) = cache(256, 16);
    cache.set_eviction(Eviction::TwoPriorityLru);
    for page in 0..256 {
        put(&cache, key(1, page), Priority::Low);
    }
    for page in 0..20 {
        let owner = data(key(2, page), Priority::High);
        assert!(cache.insert(owner, &[7; 40_000]).is_some());
    }
    let left = (0..20).filter(|&p| cache.contains(&key(2, p))).count();
    assert_eq!(left, 20, "large blocks pushed one another out");
}

/// Large blocks in use, four to a shard, and small ones that are used once, all of low priority.
/// Least recently used are always small ones.
#[test]
fn large_blocks_in_use_outlive_small_ones_that_are_not() {
    let (_budget, cache) = cache(128 * 10 + 400, 32);
    cache.set_eviction(Eviction::TwoPriorityLru);
    let mut missed = 0;
    for step in 0..20_000 {
        let large = key(2, step % 128);
        if cache.get(&large).is_none() {
            missed += u32::from(step >= 10_000);
            cache.insert(data(large, Priority::Low), &[7; 40_000]);
        }
        put(&cache, key(1, step), Priority::Low);
    }
    assert!(missed <= 100, "{missed} of 10,000 lookups missed");
}

#[test]
fn a_hot_set_survives_a_scan_of_ten_times_the_cache() {
    let (_budget, cache) = cache(1000, 4);
    for _ in 0..40 {
        for page in 0..300 {
            if cache.get(&key(1, page)).is_none() {
                put(&cache, key(1, page), Priority::Low);
            }
        }
    }
    // First while the hot set rests, then while it is in use.
    for page in 0..10_000 {
        put(&cache, key(2, page), Priority::Low);
    }
    let left = (0..300).filter(|&p| cache.contains(&key(1, p))).count();
    // While there was room for all, only a sample of their uses was counted.
    assert!(left >= 240, "{left} of 300 resting hot blocks left");
    let mut missed = 0;
    for page in 0..10_000 {
        put(&cache, key(3, page), Priority::Low);
        if page % 10 == 0 && cache.get(&key(1, page / 10 % 300)).is_none() {
            missed += 1;
            put(&cache, key(1, page / 10 % 300), Priority::Low);
        }
    }
    // Each hot block is asked for every 3000 insertions, three times what the cache holds: one that
    // was lost cannot come back, but few are lost.
    assert!(missed <= 250, "{missed} of 1000 hot lookups missed");
}

/// Partitions know of the visits there were; what data pages are worth must not be of a longer
/// time.
#[test]
fn data_pages_count_for_what_was_seen_of_a_window() {
    let policy = PolicyState::new(1);
    let mut shard = shard::Shard::new(1, &Arc::default());
    shard.count_miss(7, BlockKind::Data, &policy);
    let (mut left, mut since, mut ticks) = (0.0, 1.0, 0);
    let mut of_all = Vec::new();
    while policy.ticks() < 3 {
        shard.count_miss(8, BlockKind::Index, &policy);
        since += 1.0;
        if policy.ticks() != ticks {
            // A quarter of a half-life is over.
            (left, since) = ((left + since) * 0.5f32.powf(0.25), 0.0);
            ticks = policy.ticks();
        }
        // Shards tell their accesses now and then.
        if shard.accesses.is_multiple_of(32) {
            of_all.push(shard.value_of_page(7, 0) / (left + since));
        }
    }
    assert!(of_all.len() > 20 && of_all[0] > 0.0);
    let same = |worth: &f32| (worth / of_all[0] - 1.0).abs() < 0.01;
    assert!(of_all.iter().all(same), "{of_all:?}");
}

#[test]
fn a_new_hot_set_replaces_an_old_one() {
    let (_budget, cache) = cache(400, 2);
    for file in [1, 2] {
        for _ in 0..60 {
            for page in 0..300 {
                if cache.get(&key(file, page)).is_none() {
                    put(&cache, key(file, page), Priority::Low);
                }
            }
        }
    }
    let left = (0..300).filter(|&p| cache.contains(&key(2, p))).count();
    assert!(left >= 290, "{left} of 300 blocks of the new hot set");
}

#[test]
fn the_second_of_two_inserts_gets_the_first_block() {
    let (_budget, cache) = cache(10, 1);
    let first = put(&cache, key(1, 1), Priority::Low).unwrap();
    let second = put(&cache, key(1, 1), Priority::Low).unwrap();
    assert!(first.is(&second));
    assert_eq!(cache.stats().total().inserts, 1);
    assert_eq!(cache.stats().total().misses, 2);
}

#[test]
fn kinds_are_charged_to_their_roles() {
    let (budget, cache) = cache(10, 1);
    let kinds = [
        (BlockKind::Data, Role::Data),
        (BlockKind::Index, Role::Index),
        (BlockKind::Filter(0), Role::FilterFirst),
        (BlockKind::Filter(3), Role::FilterRest),
    ];
    for (page, (kind, role)) in (0..).zip(kinds) {
        let key = key(1, page);
        cache
            .insert(
                Owner {
                    kind,
                    ..data(key, Priority::High)
                },
                &bytes(key, LEN),
            )
            .unwrap();
        assert!(cache.get(&key).is_some());
        assert_eq!(budget.used_by(role), CHARGE);
        let stats = cache.stats().kind(kind);
        assert_eq!((stats.hits, stats.misses, stats.blocks), (1, 1, 1));
    }
    assert_eq!(cache.stats().kinds().count(), 4);
}

#[test]
fn threads_stay_within_the_budget_and_read_what_was_put() {
    let (budget, cache) = cache(50, 4);
    let limit = budget.limit();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (budget, cache) = (&budget, &cache);
            scope.spawn(move || {
                let mut state = thread + 1;
                for round in 0..20_000u32 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let key = key(1, (state >> 33) as u32 % 200);
                    let block = cache.get(&key).or_else(|| put(cache, key, Priority::Low));
                    if let Some(block) = block {
                        assert_eq!(&*block, &*bytes(key, LEN));
                    }
                    if round % 64 == 0 {
                        let _other = budget.try_reserve(Role::Compaction, 20 * CHARGE);
                        assert!(budget.used() <= limit);
                    }
                    if round % 1024 == 0 {
                        cache.remove_file(1);
                    }
                }
            });
        }
    });
    assert!(budget.peak() <= limit);
    assert_eq!(cache.stats().total().bytes, budget.used_by(Role::Data));
    drop(cache);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_is_known_of_a_partition_takes_fourteen_bytes() {
    let budget = Budget::new(1 << 20);
    let held = |partitions| {
        let module = ModuleGeometry {
            fpr: 0.5,
            columns: 1,
            blocks: 1,
            pages: 1,
        };
        let policy = Arc::new(PolicyState::new(1));
        let shapes = FilterGeometry::new([module].into(), |_| 1, |bytes, _| bytes.to_vec());
        let partitions = PartitionStats::new(policy, &budget, partitions, Arc::new(shapes), 1);
        let used = budget.used();
        drop(partitions);
        used
    };
    assert_eq!(held(320) - held(160), 160 * 14);
}

#[test]
fn counters_are_as_many_as_accesses_to_data_need() {
    let counters = |kind: BlockKind| {
        let (_budget, cache) = cache(400, 1);
        for page in 0..300 {
            let owner = Owner {
                kind,
                ..data(key(1, page), Priority::Low)
            };
            cache.insert(owner, &bytes(key(1, page), LEN));
        }
        let shards = cache.shards.iter();
        shards
            .map(|shard| shard.lock().page_frequency.len())
            .sum::<usize>()
    };
    // Indexes are no data: their accesses are not counted, and no memory is taken for that.
    assert_eq!(counters(BlockKind::Index), 64);
    assert_eq!(counters(BlockKind::Data), 8192);
}

#[test]
fn what_is_free_between_blocks_is_taken_before_blocks_go() {
    // A third of a page each, and every other one goes: nearly every frame is half empty.
    let (budget, cache) = cache(300, 4);
    for page in 0..400 {
        for file in [1, 2] {
            let key = key(file, page);
            cache.insert(data(key, Priority::Low), &bytes(key, 1300));
        }
    }
    cache.remove_file(2);
    let left = || cache.stats().total().blocks;
    assert_eq!(left(), 400);
    let (loose, free) = (cache.store.loose(), budget.limit() - budget.used());
    assert!(loose > 100 * crate::fs::PAGE as u64, "{loose}");
    let memtable = budget.try_reserve(Role::Memtable, free + loose / 2);
    assert!(memtable.is_some());
    assert!(left() > 390, "{} of 400", left());
}

/// Where whole blocks of columns leave no room for another one between them, blocks come in with as
/// many columns as do, and next to nothing lies free.
#[test]
fn columns_come_in_between_blocks() {
    const COLUMN: usize = 1010;
    // The first byte says which columns there are; seven are before them.
    fn keep(block: &[u8], columns: u8) -> Vec<u8> {
        let there = (0..4).filter(|column| block[0] >> column & 1 == 1);
        let mut kept = vec![block[0] & columns; 7];
        for (column, bytes) in there.zip(block[7..].chunks(COLUMN)) {
            if columns >> column & 1 == 1 {
                kept.extend_from_slice(bytes);
            }
        }
        kept
    }
    let (budget, cache) = cache(1000, 2);
    let module = ModuleGeometry {
        fpr: 0.5,
        columns: 4,
        blocks: 1,
        pages: 1,
    };
    let shapes = FilterGeometry::new([module].into(), |block| block[0], keep);
    let policy = Arc::clone(cache.policy());
    let partitions = PartitionStats::new(policy, &budget, 2000, Arc::new(shapes), 1);
    let partitions = Arc::new(partitions);
    let block = [[0b1111; 7].as_slice(), &[7; 4 * COLUMN]].concat();
    for page in 0..2000 {
        partitions.record(page, Outcome::Rejected, 1);
        let owner = Owner {
            kind: BlockKind::Filter(0),
            partitions: Some(&partitions),
            partition: page,
            ..data(key(1, page), Priority::Low)
        };
        cache.insert(owner, &block);
    }
    let (loose, limit) = (cache.store.loose(), budget.limit());
    assert!(
        loose * 25 < limit,
        "{loose} of {limit} bytes are free between blocks"
    );
}
