//! Tests of the memory that blocks lie in.

use proptest::prelude::*;

use super::*;

/// What is resident of a store, by its own books.
fn resident(store: &Store) -> u64 {
    let frames = store.frames.lock();
    let chunks = frames.chunks.iter();
    chunks.map(Chunk::resident_bytes).sum()
}

fn fill(len: usize, mark: u64) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + mark) as u8).collect()
}

#[test]
fn sizes_waste_little_and_a_page_takes_a_page() {
    assert_eq!(Size::of(PAGE), Size::Run(1));
    assert_eq!(Size::of(PAGE - 9), Size::Run(1));
    assert_eq!(Size::of(2 * PAGE), Size::Run(2));
    let mut before = 0;
    for len in 0..100_000 {
        let bytes = memory_of(len);
        assert!(bytes >= before && bytes as usize >= len);
        if len > 200 {
            let most = (len + HEADER) * 13 / 10;
            assert!(bytes as usize <= most, "{len}: {bytes}");
        }
        before = bytes;
    }
    for class in CLASSES {
        assert!(class.slots <= 16 && class.slot() % HEADER == 0);
        assert!(class.slot() * usize::from(class.slots) <= usize::from(class.frames) * PAGE);
    }
}

proptest! {
    #[test]
    fn what_is_charged_is_what_is_resident_and_pieces_never_overlap(
        ops in prop::collection::vec((any::<u8>(), 0..60_000usize, any::<u64>()), 1..300),
        limit in 100_000..3_000_000u64,
    ) {
        let budget = Budget::new(limit);
        let store = Store::new(Arc::clone(&budget));
        let mut blocks: Vec<(Block, usize, u64)> = Vec::new();
        let mut runs: Vec<(Run, u8)> = Vec::new();
        for (op, len, mark) in ops {
            match op % 8 {
                0..3 => {
                    let len = len % 5_000;
                    if let Ok(block) = store.block(Role::Data, mark, &fill(len, mark), 100, None) {
                        blocks.push((block, len, mark));
                    }
                }
                3 => {
                    if let Ok(block) = store.block(Role::Index, mark, &fill(len, mark), 100, None) {
                        blocks.push((block.clone(), len, mark));
                        blocks.push((block, len, mark));
                    }
                }
                4 => {
                    if let Ok(mut run) = store.run(Role::IoBuffers, len / 1_000, None) {
                        run.fill(mark as u8);
                        runs.push((run, mark as u8));
                    }
                }
                5 if !runs.is_empty() => drop(runs.swap_remove(len % runs.len())),
                6 => {
                    store.reclaim(mark % 50_000);
                }
                _ if !blocks.is_empty() => drop(blocks.swap_remove(len % blocks.len())),
                _ => {}
            }
            let beside: u64 = {
                let distinct: std::collections::HashSet<_> = blocks.iter().map(|(b, ..)| b.as_ptr()).collect();
                100 * distinct.len() as u64
            };
            let chunks = store.frames.lock().chunks.iter().filter(|c| c.resident_bytes() > 0).count() as u64;
            prop_assert!(budget.used() <= limit);
            prop_assert_eq!(
                budget.used() - beside,
                resident(&store) + chunks * (Chunk::OVERHEAD - PAGE as u64)
            );
        }
        for (block, len, mark) in &blocks {
            prop_assert!(**block == *fill(*len, *mark));
        }
        prop_assert!(runs.iter().all(|(run, mark)| run.iter().all(|byte| byte == mark)));
        drop((blocks, runs));
        let most = limit / IDLE_SHARE / PAGE as u64;
        prop_assert!(store.frames.lock().idle <= most);
        while store.reclaim(u64::MAX) > 0 {}
        prop_assert_eq!((budget.used(), resident(&store)), (0, 0));
    }
}

/// A block in the place of one that went takes its memory, with nothing free in the budget.
#[test]
fn memory_goes_from_hand_to_hand_in_a_full_budget() {
    let budget = Budget::new(1 << 20);
    let store = Store::new(Arc::clone(&budget));
    let put = |len| store.block(Role::Data, 0, &fill(len, 0), 100, None);
    let mut held: Vec<_> = std::iter::from_fn(|| put(4_000).ok()).collect();
    assert!(held.len() > 230, "{}", held.len());
    for len in [4_000, 3_900, 4_096] {
        held.swap_remove(100);
        held.push(put(len).unwrap());
    }
    assert!(put(4_000).is_err());
    // Smaller ones do with the frames of two.
    held.truncate(held.len() - 2);
    let small: Vec<_> = std::iter::from_fn(|| put(900).ok()).collect();
    assert!(small.len() >= 8, "{}", small.len());
}

#[test]
fn threads_share_blocks_and_the_last_gives_the_memory_back() {
    let budget = Budget::new(1 << 20);
    let store = Store::new(Arc::clone(&budget));
    let shared = Mutex::new(Vec::<Block>::new());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (store, shared) = (&store, &shared);
            scope.spawn(move || {
                for round in 0..3_000u64 {
                    let mark = thread * 7 + round;
                    let len = (mark as usize * 97) % 6_000;
                    if let Ok(block) = store.block(Role::Data, mark, &fill(len, mark), 100, None) {
                        let mut shared = shared.lock();
                        shared.push(block);
                        if shared.len() > 50 {
                            shared.swap_remove(round as usize % 50);
                        }
                    }
                    let some: Vec<Block> = shared.lock().iter().take(5).cloned().collect();
                    for block in some {
                        let first = block.first().copied().unwrap_or(0);
                        let last = block.last().copied().unwrap_or(0);
                        let steps = (block.len() as u64).saturating_sub(1) * 31;
                        assert_eq!(last, first.wrapping_add(steps as u8));
                    }
                }
            });
        }
    });
    drop(shared);
    while store.reclaim(u64::MAX) > 0 {}
    assert_eq!(budget.used(), 0);
}
