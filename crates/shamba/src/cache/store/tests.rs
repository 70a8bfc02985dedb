//! Tests of the memory that blocks lie in.

use proptest::prelude::*;

use super::chunk::Chunk;
use super::layout::{MOST_SLOTS, UNIT};
use super::size::{LEAST_UNITS, MOST_UNITS, cut};
use super::*;

/// What is resident of a store, by its own books.
fn resident(store: &Store) -> u64 {
    let frames = store.frames.lock();
    let chunks = frames.chunks.iter();
    chunks.map(Chunk::resident_bytes).sum()
}

/// Bytes that say their place and a mark; copied, since Miri takes long for each step of a loop.
fn fill(len: usize, mark: u64) -> Vec<u8> {
    let period: [u8; 256] = std::array::from_fn(|at| (at as u64 * 31 + mark) as u8);
    let mut bytes = period.repeat(len.div_ceil(period.len()));
    bytes.truncate(len);
    bytes
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn sizes_waste_little_and_a_page_takes_a_page() {
    assert_eq!(Size::of(PAGE), Size::FrameRun(1));
    assert_eq!(Size::of(PAGE - 9), Size::FrameRun(1));
    for (len, parts) in [(3_051, 3), (2_037, 2), (1_022, 1)] {
        let size = Size::of_parts(len, parts);
        assert_eq!(
            size,
            Size::Slots {
                units: 33,
                count: parts
            }
        );
    }
    assert_eq!(Size::of(2 * PAGE), Size::FrameRun(2));
    let mut before = 0;
    for len in 0..100_000 {
        let bytes = memory_of(len);
        assert!(bytes >= before && bytes as usize >= len);
        if len > 200 {
            let most = (len + HEADER) * 4 / 3;
            assert!(bytes as usize <= most, "{len}: {bytes}");
        }
        before = bytes;
    }
    for units in LEAST_UNITS..=MOST_UNITS {
        for (many, part) in [(false, 2), (true, 6)] {
            let cut = cut(units as u16, many);
            let (slots, frames) = (usize::from(cut.slots), usize::from(cut.frames) * PAGE);
            assert!(slots * units * UNIT <= frames, "{units}: {cut:?}");
            // A slot more would not fit, unless nobody could count it.
            assert!((slots + 1) * units * UNIT > frames || slots == MOST_SLOTS);
            let left = frames - slots * units * UNIT;
            assert!(left * part <= frames, "{units}: {cut:?}");
        }
    }
}

/// What a held block keeps resident once all beside it are gone, which is more than its own bytes:
/// in the first spans of a size and in later ones, which are cut otherwise.
#[test]
fn held_blocks_keep_as_much_as_they_say() {
    let lens: &[usize] = if cfg!(miri) {
        &[1_300, 7_000, 9_000]
    } else {
        &[100, 700, 1_300, 2_900, 4_100, 5_000, 7_000, 9_000, 30_000]
    };
    // More than the first spans of 7,000 bytes have room for.
    let count = if cfg!(miri) { 20 } else { 400 };
    for &len in lens {
        let mut keeps = Vec::new();
        for held in [0, count - 1] {
            let budget = Budget::new(64 << 20);
            let store = Store::new(Arc::clone(&budget));
            let bytes = fill(len, 5);
            let take = |_| store.block(Role::Data, (&bytes, 1), 0, None);
            let mut blocks: Vec<Block> = (0..count).map(|at| take(at).unwrap()).collect();
            let block = blocks.remove(held);
            drop(blocks);
            while Reclaim::reclaim(&*store, budget.used()) > 0 {}
            // Beside it is the header of its chunk; of whole frames the block's own has a frame.
            let headers = Chunk::OVERHEAD + if len > 9_000 { PAGE as u64 } else { 0 };
            assert_eq!(budget.used(), block.keeps() + headers, "{len}, {held}");
            keeps.push(block.keeps());
        }
        if len == 7_000 {
            assert!(keeps[0] < keeps[1], "{keeps:?}: spans are cut otherwise");
        }
    }
}

/// Operations of a case, and of what a full budget has: Miri takes minutes for more.
const MOST_OPS: usize = if cfg!(miri) { 40 } else { 300 };
const FULL: u64 = if cfg!(miri) { 3 << 16 } else { 1 << 20 };

proptest! {
    #[test]
    fn what_is_charged_is_what_is_resident_and_pieces_never_overlap(
        ops in prop::collection::vec((any::<u8>(), 0..60_000usize, any::<u64>()), 1..MOST_OPS),
        limit in 100_000..3_000_000u64,
    ) {
        let budget = Budget::new(limit);
        let store = Store::new(Arc::clone(&budget));
        let mut blocks: Vec<(Block, usize, u64)> = Vec::new();
        let mut runs: Vec<(FrameRun, u8)> = Vec::new();
        for (op, len, mark) in ops {
            match op % 10 {
                0..3 => {
                    let len = len % 5_000;
                    if let Ok(block) = store.block(Role::Data, (&fill(len, mark), 1), 100, None) {
                        blocks.push((block, len, mark));
                    }
                }
                3 => {
                    let parts = 1 + (mark % 6) as u8;
                    let bytes = fill(len, mark);
                    if let Ok(block) = store.block(Role::Index, (&bytes, parts), 100, None) {
                        blocks.push((block.clone(), len, mark));
                        blocks.push((block, len, mark));
                    }
                }
                4 => {
                    if let Ok(mut run) = store.run(Role::IoBuffers, len / 1_000, 0, None) {
                        run.fill(mark as u8);
                        runs.push((run, mark as u8));
                    }
                }
                7 if !blocks.is_empty() => {
                    let at = len % blocks.len();
                    blocks[at].0.repack();
                }
                8 if !blocks.is_empty() => {
                    let at = len % blocks.len();
                    let (block, old, mark) = &mut blocks[at];
                    if block.is_unshared() {
                        let shorter = *old * 2 / 3;
                        block.shorten(&fill(shorter, *mark), 2, 100);
                        *old = block.len();
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
                let starts = blocks.iter().map(|(b, ..)| b.as_ptr());
                let distinct: std::collections::HashSet<_> = starts.collect();
                100 * distinct.len() as u64
            };
            let frames = store.frames.lock();
            let chunks = frames.chunks.iter().filter(|c| c.resident_bytes() > 0).count() as u64;
            drop(frames);
            prop_assert!(budget.used() <= limit);
            prop_assert_eq!(
                budget.used() - beside,
                resident(&store) + chunks * Chunk::OVERHEAD
            );
        }
        for (block, len, mark) in &blocks {
            prop_assert!(**block == *fill(*len, *mark));
        }
        prop_assert!(runs.iter().all(|(run, mark)| **run == *vec![*mark; run.len()]));
        drop((blocks, runs));
        let most = idle_frames(limit) / PAGE as u64;
        // Only while memory is plenty there are more.
        let plenty = budget.used() + plenty_of_memory(limit) <= limit;
        prop_assert!(plenty || store.frames.lock().idle <= most);
        store.trim();
        prop_assert!(store.frames.lock().idle <= most);
        while store.reclaim(u64::MAX) > 0 {}
        prop_assert_eq!((budget.used(), resident(&store)), (0, 0));
    }
}

/// Of spans that were left half empty whole frames are free again, once blocks were moved together.
#[test]
fn what_is_moved_together_leaves_whole_frames() {
    let budget = Budget::new(FULL);
    let store = Store::new(Arc::clone(&budget));
    let put = |len| store.block(Role::Data, (&fill(len, 3), 1), 0, None);
    let mut held: Vec<_> = std::iter::from_fn(|| put(900).ok()).collect();
    let mut odd = false;
    held.retain(|_| {
        odd = !odd;
        odd
    });
    // Every span holds something: there is room for what was left over, and not for many.
    let left_over: Vec<_> = std::iter::from_fn(|| put(4_096).ok()).collect();
    assert!(left_over.len() <= 2, "{}", left_over.len());
    let before = budget.used_by(Role::Data);
    for _ in 0..2 {
        for block in &mut held {
            block.repack();
        }
    }
    assert_eq!(budget.used_by(Role::Data), before);
    assert!(held.iter().all(|block| **block == *fill(900, 3)));
    let pages: Vec<_> = std::iter::from_fn(|| put(4_096).ok()).collect();
    // Of the half that is free four fifths, and of little memory four frames less.
    let spare = if cfg!(miri) { 4 } else { 0 };
    assert!(
        pages.len() as u64 + spare > FULL / 10_000,
        "{}",
        pages.len()
    );
}

/// Slots that are free one by one in a span are free in a row once blocks were moved down.
#[test]
fn what_is_free_in_a_span_comes_together() {
    let budget = Budget::new(FULL);
    let store = Store::new(Arc::clone(&budget));
    let put = |parts: usize| {
        let bytes = fill(500 * parts, parts as u64);
        store.block(Role::Data, (&bytes, parts as u8), 0, None)
    };
    let mut held: Vec<_> = std::iter::from_fn(|| put(1).ok()).collect();
    let all = held.len();
    let mut number = 0;
    held.retain(|_| {
        number += 1;
        number % 3 > 0
    });
    // As much is free in every span, so that no block is better off in another one.
    assert!(put(4).is_err());
    for _ in 0..2 {
        for block in &mut held {
            block.repack();
        }
    }
    assert!(held.iter().all(|block| **block == *fill(500, 1)));
    let rows: Vec<_> = std::iter::from_fn(|| put(4).ok()).collect();
    assert!(rows.len() * 4 * 2 > all - held.len(), "{}", rows.len());
    assert!(rows.iter().all(|block| **block == *fill(2_000, 4)));
}

/// Blocks of four parts leave three slots of a span free, so that all spans have some: what has
/// room for a block is found among a hundred that have not.
#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn full_spans_hide_none_that_has_room() {
    let budget = Budget::new(4 << 20);
    let store = Store::new(Arc::clone(&budget));
    let put = || store.block(Role::Data, (&fill(4_060, 4), 4), 0, None);
    let mut held: Vec<_> = std::iter::from_fn(|| put().ok()).collect();
    assert!(held.len() > 800, "{}", held.len());
    for turn in 0..100 {
        drop(held.swap_remove(turn * 7));
        held.push(put().expect("in the place of the one that went"));
    }
}

/// A block in the place of one that went takes its memory, with nothing free in the budget.
#[test]
fn memory_goes_from_hand_to_hand_in_a_full_budget() {
    let budget = Budget::new(FULL);
    let store = Store::new(Arc::clone(&budget));
    let put = |len| store.block(Role::Data, (&fill(len, 0), 1), 100, None);
    let mut held: Vec<_> = std::iter::from_fn(|| put(4_000).ok()).collect();
    assert!(held.len() as u64 > FULL / 4_600, "{}", held.len());
    for len in [4_000, 3_900, 4_096] {
        held.swap_remove(held.len() / 2);
        held.push(put(len).unwrap());
    }
    assert!(put(4_000).is_err());
    // Smaller ones do with the frames of two, or of three where nothing else is left for what comes
    // beside.
    held.truncate(held.len() - if cfg!(miri) { 3 } else { 2 });
    let small: Vec<_> = std::iter::from_fn(|| put(1_300).ok()).collect();
    assert!(small.len() >= 6, "{}", small.len());
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
                for round in 0..if cfg!(miri) { 8 } else { 3_000u64 } {
                    let mark = thread * 7 + round;
                    let len = (mark as usize * 97) % 6_000;
                    if let Ok(block) = store.block(Role::Data, (&fill(len, mark), 1), 100, None) {
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
