//! Blocks and properties of any bytes ([`crate::fuzzing`]), one at a time; [`whole`] has tables.

pub(crate) mod whole;

use std::cmp::Ordering;

use super::block::{BlockBuilder, Cursor, DataBlock, Search};
use super::compressor::Compressor;
use super::format::{self, Codec, Compression, Footer, FooterError};
use super::index::{Boundary, IndexBlock, IndexBuilder};
use super::properties::Properties;
use super::top_index::{ParsedTop, TopIndexBuilder};
use crate::base::checksum::checksum;
use crate::base::expiring::EXPIRY_BYTES;
use crate::base::key::{EntryKind, Tag, compare};
use crate::budget::{Budget, Role};
use crate::filter::{Family, FilterPlan, Layout, MAX_MODULES, ModulePlan};
use crate::fs::{AlignedBuf, PAGE};
use crate::fuzzing::{Input, chunked};

/// Walks stop here.
const MOST_STEPS: usize = 1 << 16;

/// A key, a sequence number and a data block's payload.
pub(crate) fn data_block(data: &[u8]) {
    let mut input = Input(data);
    let key = input.chunk();
    let tag = Tag::seek(input.u16().into());
    let payload = input.0;
    let Ok(block) = DataBlock::parse(payload) else {
        return;
    };
    if let Ok(Search::Found { tag: found, value }) = block.search(key, tag) {
        assert!(found <= tag && payload.get(value).is_some());
    }
    let mut cursor = Cursor::default();
    let mut entries = Vec::new();
    let mut at = cursor.first(&block);
    while let Ok(true) = at {
        let value = payload
            .get(cursor.value())
            .expect("a value is in the block");
        entries.push((cursor.key().to_vec(), cursor.tag(), value));
        assert!(entries.len() < MOST_STEPS, "a walk ends");
        let mut quick = Cursor::default();
        at = match entries.len() {
            1 => quick.first(&block).and_then(|_| cursor.next(&block)),
            _ => cursor.next(&block),
        };
        if entries.len() == 1 && quick.advance(payload) {
            assert_eq!(
                (at, quick.key()),
                (Ok(true), cursor.key()),
                "`advance` is `next`"
            );
        }
    }
    let sound = at.is_ok();
    for target in [Tag::NEWEST, tag, Tag::OLDEST] {
        let _ = cursor.seek(&block, key, target);
        for _ in 0..8 {
            let _ = cursor.next(&block);
        }
        let _ = cursor.seek_for_prev(&block, key, target);
        for _ in 0..8 {
            let _ = cursor.prev(&block);
        }
    }
    let mut steps = 0;
    let mut back = cursor.last(&block);
    while let Ok(true) = back {
        steps += 1;
        assert!(steps < MOST_STEPS, "a walk ends");
        back = cursor.prev(&block);
    }
    // Entries in order, as a builder takes them, come back through every door.
    let sorted = entries.is_sorted_by(|a, b| compare(&a.0, a.1, &b.0, b.1) == Ordering::Less);
    if !sound || !sorted || entries.is_empty() || payload.len() > 4 * PAGE {
        return;
    }
    let mut builder = BlockBuilder::new(3);
    for (key, tag, value) in &entries {
        builder.add(key, *tag, value);
    }
    let mut payload = Vec::new();
    builder.finish(&mut payload);
    let block = DataBlock::parse(&payload).expect("a block that was built");
    for (number, (key, tag, value)) in entries.iter().enumerate() {
        let found = block.search(key, *tag).expect("a sound block");
        let Search::Found {
            tag: newest,
            value: at,
        } = found
        else {
            panic!("an entry is not found");
        };
        assert_eq!((newest, &payload[at]), (*tag, *value));
        let (at, before) = (cursor.seek(&block, key, *tag), number.checked_sub(1));
        assert_eq!((at, cursor.key()), (Ok(true), key.as_slice()));
        let moved = cursor.prev(&block);
        assert_eq!(moved, Ok(before.is_some()));
        assert_eq!(
            cursor.key(),
            before.map_or(&[][..], |before| &entries[before].0)
        );
    }
}

pub(crate) fn data_block_seeds() -> Vec<Vec<u8>> {
    let entries = |count: u64, long: usize| {
        let entry = move |number: u64| {
            let kind = match number % 4 {
                0 => EntryKind::Delete,
                1 => EntryKind::Expiring,
                _ => EntryKind::Put,
            };
            let key = format!("{}key{:03}", "k".repeat(long), number / 2);
            let value = match kind {
                EntryKind::Put | EntryKind::Operand | EntryKind::Pointer => {
                    vec![b'v'; long + number as usize]
                }
                EntryKind::Expiring | EntryKind::ExpiringPointer => {
                    vec![b'e'; EXPIRY_BYTES + long + number as usize]
                }
                EntryKind::Delete => Vec::new(),
            };
            (key, Tag::new(900 - number, kind), value)
        };
        (0..count).map(entry)
    };
    let mut seeds = Vec::new();
    for (count, long, interval) in [(1, 0, 1), (5, 0, 1), (12, 3, 4), (12, 200, 4), (40, 1, 16)] {
        let mut builder = BlockBuilder::new(interval);
        for (key, tag, value) in entries(count, long) {
            builder.add(key.as_bytes(), tag, &value);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        let mut tail = 899u16.to_le_bytes().to_vec();
        tail.extend_from_slice(&payload);
        let key = format!("{}key001", "k".repeat(long));
        for key in [key.as_bytes(), b"zz"] {
            seeds.push([chunked(&[], [key]), tail.clone()].concat());
        }
    }
    seeds
}

/// A key and an index block's payload.
pub(crate) fn index_block(data: &[u8]) {
    let mut input = Input(data);
    let key = input.chunk();
    let Ok(block) = IndexBlock::parse(input.0) else {
        return;
    };
    let found = block.find(key);
    assert!(found < block.blocks());
    let mut separators: Vec<Vec<u8>> = Vec::new();
    let mut pages = Vec::new();
    for number in 0..block.blocks().min(MOST_STEPS as u32) {
        let mut separator = Vec::new();
        block.separator(number, &mut separator);
        separators.push(separator);
        pages.push(block.pages(number));
    }
    separators.pop();
    assert!(block.pages(block.blocks()).is_err());
    let all: Result<Vec<_>, _> = pages.into_iter().collect();
    let Ok(pages) = all else {
        return;
    };
    if !separators.is_sorted() {
        return;
    }
    // Separators in order, as the first keys of blocks; the last of the one before is that less a
    // byte, if that is still after what is before it.
    let mut builder = IndexBuilder::default();
    let mut boundary = Boundary::default();
    let mut before: &[u8] = &[];
    for (number, pages) in pages.iter().enumerate() {
        builder.push(pages.end - pages.start);
        if let Some(first) = separators.get(number) {
            let less = first.split_last().map_or(&[][..], |(_, less)| less);
            boundary.set(less.max(before), first);
            builder.separate(&boundary);
            before = first;
        }
    }
    let mut payload = Vec::new();
    builder.finish(&mut payload);
    let built = IndexBlock::parse(&payload).expect("an index that was built");
    // A block that begins with another key than the one before ends with is found by it.
    for (number, pair) in separators.windows(2).enumerate() {
        if let [before, first] = pair
            && before < first
        {
            assert_eq!(built.find(first), number as u32 + 2);
        }
    }
    let mut again = Vec::new();
    for number in 0..separators.len() {
        let mut separator = Vec::new();
        built.separator(number as u32, &mut separator);
        again.push(separator);
    }
    assert!(again.is_sorted());
    let wanted = again.partition_point(|separator| separator.as_slice() <= key);
    assert_eq!(built.find(key), wanted as u32);
}

pub(crate) fn index_block_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut boundary = Boundary::default();
    // The last ones begin alike for long, each pair otherwise, and are front-coded.
    let cases = [
        (1, 0, 1),
        (2, 0, 1),
        (9, 1, 1),
        (9, 30, 2),
        (300, 2, 1),
        (40, 200, 1),
    ];
    for (blocks, long, pages) in cases {
        let mut builder = IndexBuilder::default();
        for number in 0..blocks {
            builder.push(pages);
            if number + 1 < blocks {
                let keys = [number, number + 1].map(|n: usize| match long {
                    200.. => format!("{:02}{}{n:03}", n / 4, "x".repeat(long)),
                    _ => format!("{}{n:03}", "x".repeat(long)),
                });
                boundary.set(keys[0].as_bytes(), keys[1].as_bytes());
                builder.separate(&boundary);
            }
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        for key in [format!("{}004", "x".repeat(long)), "y".to_owned()] {
            seeds.push([chunked(&[], [key.as_bytes()]), payload.clone()].concat());
        }
    }
    seeds
}

/// What a table says of itself. A byte says what the rest is: properties, a top-level index behind
/// the numbers of modules and pages and a key, or a footer page behind what is said in it.
pub(crate) fn table_meta(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 3 {
        0 => properties(input.0),
        1 => top(input),
        _ => footer(input),
    }
}

fn properties(bytes: &[u8]) {
    let Ok(properties) = Properties::decode(bytes) else {
        return;
    };
    let mut again = Vec::new();
    properties.encode(&mut again);
    assert_eq!(Properties::decode(&again), Ok(properties));
}

fn top(mut input: Input<'_>) {
    let modules = usize::from(input.byte()) % (MAX_MODULES + 1);
    let pages = u32::from(input.u16());
    let key = input.chunk();
    let Ok(parsed) = ParsedTop::of(input.0, modules, pages) else {
        return;
    };
    let said = parsed.memory();
    let top = parsed.build();
    assert_eq!(top.memory(), said);
    let mut separator = Vec::new();
    let found = top.find(key);
    assert!(found <= top.len());
    let mut next = 0;
    let mut wanted = top.len();
    for number in 0..top.len() {
        let partition = top.get(number).expect("a partition");
        assert_eq!(partition.first_page, next);
        next += partition.data_pages;
        for module in (0..modules).rev() {
            let pages = top.module(number, module).expect("a module");
            assert_eq!(pages.start, next);
            next = pages.end;
        }
        assert_eq!(partition.index().start, next);
        next = partition.index().end;
        separator.clear();
        top.separator(number, &mut separator);
        if *separator >= *key {
            wanted = wanted.min(number);
        }
    }
    assert_eq!((next, found), (pages, wanted));
    assert_eq!(top.get(top.len()), None);
}

fn footer(mut input: Input<'_>) {
    let repair = input.byte();
    let mut page = [0; PAGE];
    let inline = input.chunk();
    let fixed = input.chunk();
    let inline = &inline[..inline.len().min(PAGE)];
    page[..inline.len()].copy_from_slice(inline);
    let fixed = &fixed[..fixed.len().min(32)];
    page[PAGE - fixed.len()..].copy_from_slice(fixed);
    if repair & 1 == 1 {
        let sum = checksum(0, &page[..PAGE - 12]);
        page[PAGE - 12..PAGE - 8].copy_from_slice(&sum.to_le_bytes());
    }
    match Footer::open(&page) {
        Ok((footer, inline)) => {
            assert_eq!(inline.len(), footer.inline_len as usize);
            let mut input = inline;
            if let Some(bytes) = crate::base::coding::take_bytes(&mut input) {
                properties(bytes);
            }
        }
        Err(FooterError::Version(version)) => assert_ne!(version, format::FORMAT_VERSION),
        Err(FooterError::Damage(_)) => {}
    }
}

pub(crate) fn table_meta_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut sealed = Vec::new();
    for modules in 0..4usize {
        let module = match modules {
            3 => ModulePlan::ribbon(4, 1),
            2 => ModulePlan::bloom(Family::Blocked, 9000, 6),
            _ => ModulePlan::bloom(Family::Bloom, 5000, 3),
        };
        let properties = Properties {
            entries: 1000,
            keys: 900,
            tombstones: 4,
            smallest: b"apple".to_vec(),
            largest: vec![b'z'; 20],
            max_seq: 77,
            filter: FilterPlan {
                layout: Layout::Partitioned,
                modules: vec![module; modules],
            },
            compression: [Compression::None, Compression::Lz4, Compression::Zstd(3)][modules % 3],
            created_by: "0.1.0".to_owned(),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.encode(&mut bytes);
        seeds.push([&[0], bytes.as_slice()].concat());
        sealed = bytes;

        let mut top = TopIndexBuilder::default();
        let mut pages = 0;
        for (number, separator) in ["b", "bee", "beetle", "c", "dd"].iter().enumerate() {
            let data = 10 + number as u32 % 2;
            top.push(separator.as_bytes(), data, 9, &vec![2; modules], 1);
            pages += data + 2 * modules as u32 + 1;
        }
        let mut bytes = Vec::new();
        top.encode(&mut bytes);
        let pages = (pages as u16).to_le_bytes();
        for key in ["beer", ""] {
            let head = chunked(&[1, modules as u8, pages[0], pages[1]], [key.as_bytes()]);
            seeds.push([head, bytes.clone()].concat());
        }
        // Front-coded, and searched among those that begin as the key does.
        let mut top = TopIndexBuilder::default();
        let long = "l".repeat(300);
        for tail in ["a", "ab", "abbba", "abbbb", "abbbbb", "c"] {
            top.push(
                format!("{long}{tail}").as_bytes(),
                2,
                2,
                &vec![1; modules],
                1,
            );
        }
        let mut bytes = Vec::new();
        top.encode(&mut bytes);
        let pages = 6 * (3 + modules as u8);
        let key = format!("{long}abbbaa");
        let head = chunked(&[1, modules as u8, pages, 0], [key.as_bytes()]);
        seeds.push([head, bytes].concat());
    }
    for (inline, version) in [
        (0, format::FORMAT_VERSION),
        (90, format::FORMAT_VERSION),
        (0, 9),
    ] {
        let mut page = AlignedBuf::new();
        let footer = Footer {
            meta_page: 7,
            meta_pages: u32::from(inline == 0),
            inline_len: inline as u32,
            salt: 5,
        };
        footer.seal(&sealed[..inline], version, &mut page);
        let parts = [&sealed[..inline], &page[PAGE - 32..]];
        seeds.push(chunked(&[2, 1], parts));
        seeds.push(chunked(&[2, 0], parts));
    }
    seeds
}

/// A block as it is stored: its codec, how many bytes of its last page are used, whether its
/// checksum is right, and its bytes.
pub(crate) fn block_frame(data: &[u8]) {
    let mut input = Input(data);
    let (codec, repair) = (input.byte(), input.byte());
    let (salt, page) = (u32::from(input.u16()), u32::from(input.byte()));
    let payload = input.0;
    let stored = match codec % 4 {
        0 => Codec::Raw,
        1 => Codec::Lz4,
        _ => Codec::Zstd,
    };
    let mut out = AlignedBuf::new();
    let pages = format::seal_block(&mut out, payload, stored, salt, page);
    assert_eq!(out.len(), pages as usize * PAGE);
    let mut decoded = Vec::new();
    if format::read_block_into(&out, salt, page, &mut decoded).is_ok() {
        let again = format::read_block(&out, salt, page).expect("the same bytes");
        assert_eq!(*again, *decoded);
        for kind in [Compression::Lz4, Compression::Zstd(1)] {
            let mut compressor = Compressor::new(kind);
            let mut memory = Budget::new(1 << 20).reserve(Role::Compaction, 0);
            let stored = compressor.compress(&decoded, &mut memory);
            if let Some((codec, stored)) = stored.filter(|_| repair & 4 != 0) {
                let back = format::decode(codec, stored).expect("what was compressed");
                assert_eq!(*back, *decoded, "a block comes back as it was");
            }
        }
    }
    if stored == Codec::Raw {
        assert_eq!(decoded, payload);
    }
    // The same bytes as whole pages, trailer and all.
    let mut pages = payload.to_vec();
    pages.resize(payload.len().next_multiple_of(PAGE).max(PAGE), 0);
    if repair & 1 == 1 {
        let end = pages.len() - format::TRAILER;
        pages[end..end + 4].copy_from_slice(&(payload.len().min(end) as u32).to_le_bytes());
        pages[end + 4] = codec;
    }
    if repair & 2 == 2 {
        whole::put_sum(&mut pages, salt, page);
    }
    let _ = format::read_block(&pages, salt, page);
    assert!(format::read_block(&pages[..PAGE - 1], salt, page).is_err());
}

pub(crate) fn block_frame_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let raw: Vec<u8> = (0..400u32).flat_map(|i| (i / 9).to_le_bytes()).collect();
    for (number, kind) in [Compression::None, Compression::Lz4, Compression::Zstd(3)]
        .into_iter()
        .enumerate()
    {
        for len in [0, 30, raw.len()] {
            let mut compressor = Compressor::new(kind);
            let mut memory = Budget::new(1 << 20).reserve(Role::Compaction, 0);
            let (_, stored) = compressor
                .compress(&raw[..len], &mut memory)
                .unwrap_or((Codec::Raw, &raw[..len]));
            for repair in [0, 7] {
                let head = [number as u8, repair, 9, 0, 5];
                seeds.push([&head, stored].concat());
            }
        }
    }
    seeds
}
