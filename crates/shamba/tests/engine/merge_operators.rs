//! Merge operators: whatever the tree does with operands, every way of reading a key gives what a
//! model of its history does, at every snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::story::Story;
use crate::common::{Replay, Rng, small_options};
#[cfg(feature = "json")]
use shamba::JsonMergePatch;
use shamba::fs::MemFs;
use shamba::{
    Append, CompactionDecision, Db, Error, Increment, IterOptions, KeyspaceOptions, ManualClock,
    Maximum, MemoryBudget, MergeError, MergeOperator, Minimum, Options, Snapshot, WriteBatch,
    WriteOptions,
};

const DIR: &str = "/db";

/// A key's value in the model: when it expires, and what it is, with what was merged into it since.
#[derive(Debug, Clone, Default, PartialEq)]
struct Entry {
    base: Option<(Option<u64>, Vec<u8>)>,
    operands: Vec<u8>,
}

impl Entry {
    fn value(&self, now: u64) -> Option<Vec<u8>> {
        let live = |expires: &Option<u64>| expires.is_none_or(|expires| now < expires);
        let base = self.base.as_ref().filter(|(expires, _)| live(expires));
        let base = base.map(|(_, value)| value.clone());
        if self.operands.is_empty() {
            return base;
        }
        let base = base.unwrap_or_else(|| b"-".to_vec());
        Some([base, self.operands.clone()].concat())
    }
}

type Model = BTreeMap<String, Entry>;

fn values(model: &Model, now: u64) -> Vec<(String, Vec<u8>)> {
    let values = model.iter();
    let values = values.filter_map(|(key, entry)| Some((key.clone(), entry.value(now)?)));
    values.collect()
}

fn pairs(
    entries: impl Iterator<Item = shamba::Result<(Vec<u8>, shamba::Value)>>,
) -> Vec<(String, Vec<u8>)> {
    let entries = entries.map(|entry| entry.unwrap());
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    entries
        .map(|(key, value)| (text(key), value.to_vec()))
        .collect()
}

/// All ways of reading agree with the model.
fn check(db: &Db, snapshot: &Snapshot, model: &Model, now: u64, rng: &mut Rng) {
    let expected = values(model, now);
    assert_eq!(pairs(snapshot.iter()), expected, "forward");
    let mut backward = pairs(snapshot.iter().rev());
    backward.reverse();
    assert_eq!(backward, expected, "backward");
    let keys: Vec<String> = (0..12).map(|_| key(rng)).collect();
    let several = snapshot.multi_get(&keys).unwrap();
    for (key, found) in keys.iter().zip(several) {
        let value = model.get(key).and_then(|entry| entry.value(now));
        assert_eq!(found.as_deref(), value.as_deref(), "several: {key}");
        assert_eq!(
            snapshot.get(key).unwrap().as_deref(),
            value.as_deref(),
            "{key}"
        );
        assert_eq!(
            snapshot.contains_key(key).unwrap(),
            value.is_some(),
            "{key}"
        );
    }
    // From anywhere, to and fro.
    let mut cursor = snapshot.cursor(IterOptions::default()).unwrap();
    let from = key(rng);
    cursor.seek(&from).unwrap();
    let mut at = expected.partition_point(|(key, _)| *key < from) as isize;
    for _ in 0..12 {
        match usize::try_from(at).ok().and_then(|at| expected.get(at)) {
            Some((key, value)) => {
                assert_eq!(
                    (cursor.key(), cursor.value()),
                    (key.as_bytes(), value.as_slice())
                );
            }
            None => {
                assert!(!cursor.valid());
                break;
            }
        }
        if rng.one_in(2) {
            cursor.next().unwrap();
            at += 1;
        } else {
            cursor.prev().unwrap();
            at -= 1;
        }
    }
    let _ = db;
}

fn key(rng: &mut Rng) -> String {
    format!("{:02}", rng.below(40))
}

struct Place {
    fs: MemFs,
    clock: ManualClock,
    combines: bool,
    memory: u64,
}

impl Place {
    fn open(&self) -> Db {
        let combines = self.combines;
        let options = small_options(Arc::new(self.fs.clone()));
        let options = options.memory(MemoryBudget::bytes(self.memory));
        let options = options.clock(Arc::new(self.clock.clone()));
        options
            .merge_operator("default", Story { combines })
            .open(DIR)
            .unwrap()
    }
}

fn history(seed: u64) {
    let _replay = Replay(format!("history of seed {seed}"));
    let mut rng = Rng::new(seed);
    let place = Place {
        fs: MemFs::new(),
        clock: ManualClock::new(),
        combines: rng.one_in(2),
        memory: *rng.pick(&[1 << 20, 4 << 20]),
    };
    let mut now = 0u64;
    let mut db = place.open();
    let mut model = Model::new();
    let mut held: Vec<(Snapshot, Model, u64)> = Vec::new();
    for step in 0..600u64 {
        let word = format!("{step},");
        match rng.below(100) {
            0..35 => {
                let key = key(&mut rng);
                db.merge(&key, &word).unwrap();
                model.entry(key).or_default().operands.extend(word.bytes());
            }
            35..50 => {
                // Several of one key in one batch too.
                let mut batch = WriteBatch::new();
                let mut key = key(&mut rng);
                for part in 0..rng.between(1, 5) {
                    let word = format!("{step}.{part},");
                    if rng.one_in(2) {
                        key = self::key(&mut rng);
                    }
                    let entry = model.entry(key.clone()).or_default();
                    match rng.below(5) {
                        0 => {
                            batch.put(&key, &word);
                            *entry = Entry {
                                base: Some((None, word.into_bytes())),
                                operands: Vec::new(),
                            };
                        }
                        1 => {
                            batch.delete(&key);
                            *entry = Entry::default();
                        }
                        _ => {
                            batch.merge(&key, &word);
                            entry.operands.extend(word.bytes());
                        }
                    }
                }
                db.write(batch).unwrap();
            }
            50..58 => {
                let key = key(&mut rng);
                db.put(&key, &word).unwrap();
                let base = Some((None, word.into_bytes()));
                model.insert(
                    key,
                    Entry {
                        base,
                        operands: Vec::new(),
                    },
                );
            }
            58..62 => {
                let (key, ttl) = (key(&mut rng), rng.between(1, 50));
                let options = WriteOptions::new().ttl(Duration::from_millis(ttl));
                db.put_with(&key, &word, options).unwrap();
                let base = Some((Some(now + ttl), word.into_bytes()));
                model.insert(
                    key,
                    Entry {
                        base,
                        operands: Vec::new(),
                    },
                );
            }
            62..68 => {
                let key = key(&mut rng);
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            68..72 => {
                let by = rng.between(1, 20);
                place.clock.advance(Duration::from_millis(by));
                now += by;
            }
            72..76 => db.flush().unwrap(),
            76..79 => db.compact_range(None, None).unwrap(),
            79..84 => held.push((db.snapshot(), model.clone(), now)),
            84..87 if !held.is_empty() => {
                let at = rng.below(held.len() as u64) as usize;
                drop(held.swap_remove(at));
            }
            87..89 => {
                held.clear();
                if rng.one_in(2) {
                    db.close().unwrap();
                } else {
                    drop(db);
                }
                db = place.open();
            }
            _ => {
                check(&db, &db.snapshot(), &model, now, &mut rng);
                if let Some((snapshot, model, taken)) = held.last() {
                    check(&db, snapshot, model, *taken, &mut rng);
                }
            }
        }
    }
    for (snapshot, model, taken) in &held {
        check(&db, snapshot, model, *taken, &mut rng);
    }
    held.clear();
    db.compact_range(None, None).unwrap();
    check(&db, &db.snapshot(), &model, now, &mut rng);
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn histories_are_read_as_they_were_written() {
    let count = if std::env::var_os("SHAMBA_FULL").is_some() {
        3000
    } else {
        60
    };
    crate::common::on_every_core(count, |seed| history(seed + 1));
}

/// Of more snapshots than memory has a list for, each reads what it saw.
#[test]
fn snapshots_that_are_in_no_list_see_operands_as_they_were() {
    for combines in [false, true] {
        let (fs, mut rng) = (MemFs::new(), Rng::new(u64::from(combines)));
        let db = open(&fs, Story { combines }).unwrap();
        let mut model = Model::new();
        // Each with the value of one key.
        let mut held: Vec<(Snapshot, String, Option<Vec<u8>>)> = Vec::new();
        for step in 0..12_000u64 {
            let (key, word) = (key(&mut rng), format!("{step},"));
            let entry = model.entry(key.clone()).or_default();
            if rng.one_in(12) {
                db.put(&key, &word).unwrap();
                *entry = Entry {
                    base: Some((None, word.into_bytes())),
                    operands: Vec::new(),
                };
            } else {
                db.merge(&key, &word).unwrap();
                entry.operands.extend(word.bytes());
            }
            let seen = if rng.one_in(2) {
                key
            } else {
                self::key(&mut rng)
            };
            let value = model.get(&seen).and_then(|entry| entry.value(0));
            held.push((db.snapshot(), seen, value));
        }
        for _ in 0..3 {
            for (snapshot, key, value) in &held {
                let found = snapshot.get(key).unwrap();
                assert_eq!(found.as_deref(), value.as_deref(), "{key}");
            }
            db.compact_range(None, None).unwrap();
            let mut number = 0;
            held.retain(|_| {
                number += 1;
                number % 3 != 0
            });
        }
        held.clear();
        db.compact_range(None, None).unwrap();
        assert_eq!(pairs(db.iter()), values(&model, 0));
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

fn number(value: Option<shamba::Value>) -> Option<i64> {
    value.map(|value| i64::from_le_bytes(value[..].try_into().unwrap()))
}

fn open(fs: &MemFs, operator: impl MergeOperator + 'static) -> shamba::Result<Db> {
    let options = small_options(Arc::new(fs.clone()));
    options.merge_operator("default", operator).open(DIR)
}

/// What is read often and written more often costs one entry, once it was merged.
#[test]
fn operands_collapse_into_one_value() {
    let fs = MemFs::new();
    let db = open(&fs, Increment).unwrap();
    for _ in 0..20_000 {
        db.merge("visits", 1i64.to_le_bytes()).unwrap();
    }
    assert_eq!(number(db.get("visits").unwrap()), Some(20_000));
    db.compact_range(None, None).unwrap();
    let stats = db.stats();
    let entries: u64 = stats.keyspaces[0]
        .levels
        .iter()
        .map(|level| level.entries)
        .sum();
    assert_eq!(entries, 1);
    assert!(stats.counters.operands_collapsed >= 20_000);
    assert_eq!(number(db.get("visits").unwrap()), Some(20_000));
    let before = db.stats().counters.tables_probed;
    db.get("visits").unwrap();
    assert_eq!(db.stats().counters.tables_probed, before + 1);
}

/// Operands are what to do with a number, `[a, b]` for a * x + b: it matters in which order.
struct Steps {
    at_writes: bool,
    /// The most operands that were merged at once.
    most: Arc<AtomicUsize>,
}

impl MergeOperator for Steps {
    fn name(&self) -> &str {
        "steps"
    }

    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        self.most.fetch_max(operands.len(), Ordering::Relaxed);
        let mut value = base.map_or(vec![1, 0], <[u8]>::to_vec);
        for operand in operands {
            value = self.combine(key, &value, operand).ok_or("not two bytes")?;
        }
        Ok(value)
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let ([a, b], [c, d]) = (older, newer) else {
            return None;
        };
        let b = c.wrapping_mul(*b).wrapping_add(*d);
        Some(vec![c.wrapping_mul(*a), b])
    }

    fn combines_at_writes(&self) -> bool {
        self.at_writes
    }
}

/// Fails where a lookup of what is in memory gathers operands that were combined as they were
/// written, or writes combine those of an operator that did not ask for it.
#[test]
fn operators_that_ask_for_it_combine_as_operands_are_written() {
    for (at_writes, expected) in [(true, 1), (false, 20)] {
        let most = Arc::new(AtomicUsize::new(0));
        let operator = Steps {
            at_writes,
            most: Arc::clone(&most),
        };
        let db = open(&MemFs::new(), operator).unwrap();
        for step in 0..20u8 {
            db.merge("key", [2, step]).unwrap();
        }
        let sum = (0..20u8).fold(0u8, |sum, step| sum.wrapping_mul(2).wrapping_add(step));
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&[0, sum][..]));
        assert_eq!(most.load(Ordering::Relaxed), expected);
    }
}

/// Every way of reading at every snapshot, with operands that are combined as they are written.
#[test]
fn histories_of_operands_that_are_combined_as_they_are_written() {
    type Values = BTreeMap<String, Vec<u8>>;
    fn check(snapshot: &Snapshot, model: &Values) {
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(pairs(snapshot.iter()), expected);
        let keys: Vec<String> = (0..10).map(|key| key.to_string()).collect();
        for (key, several) in keys.iter().zip(snapshot.multi_get(&keys).unwrap()) {
            let found = snapshot.get(key).unwrap();
            assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice), "{key}");
            assert_eq!(found.as_deref(), several.as_deref(), "{key}");
        }
    }
    crate::common::on_every_core(40, |seed| {
        let _replay = Replay(format!("seed {seed}"));
        let mut rng = Rng::new(seed);
        let fs = MemFs::new();
        let open = || {
            let steps = Steps {
                at_writes: true,
                most: Arc::default(),
            };
            open(&fs, steps).unwrap()
        };
        let (mut db, mut model) = (open(), Values::new());
        let mut held: Vec<(Snapshot, Values)> = Vec::new();
        for _ in 0..400 {
            let key = rng.below(10).to_string();
            let step = [rng.below(256) as u8, rng.below(256) as u8];
            match rng.below(60) {
                0..3 => {
                    db.put(&key, step).unwrap();
                    model.insert(key, step.to_vec());
                }
                3..5 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                5 => {
                    db.delete_range(key.as_str()..).unwrap();
                    model.retain(|other, _| *other < key);
                }
                6 => db.flush().unwrap(),
                7 => db.compact_range(None, None).unwrap(),
                8 => {
                    held.clear();
                    db.close().unwrap();
                    db = open();
                }
                9..12 => held.push((db.snapshot(), model.clone())),
                12 if !held.is_empty() => {
                    held.swap_remove(rng.below(held.len() as u64) as usize);
                }
                13..15 => {
                    check(&db.snapshot(), &model);
                    held.iter()
                        .for_each(|(snapshot, model)| check(snapshot, model));
                }
                _ => {
                    db.merge(&key, step).unwrap();
                    let value = model.entry(key).or_insert(vec![1, 0]);
                    value[0] = value[0].wrapping_mul(step[0]);
                    value[1] = value[1].wrapping_mul(step[0]).wrapping_add(step[1]);
                }
            }
        }
        check(&db.snapshot(), &model);
        held.iter()
            .for_each(|(snapshot, model)| check(snapshot, model));
    });
}

/// The operands that tables of the default keyspace hold.
fn operands(db: &Db) -> u64 {
    let levels = &db.stats().keyspaces[0].levels;
    levels.iter().map(|level| level.operands).sum()
}

/// Operands that readers keep apart are counted where they lie, in the next life too; merged into a
/// value they are none.
#[test]
fn statistics_tell_how_many_operands_tables_hold() {
    let fs = MemFs::new();
    let db = open(&fs, Increment).unwrap();
    db.put("other", "1").unwrap();
    db.put("visits", 5i64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..3 {
        db.merge("visits", 1i64.to_le_bytes()).unwrap();
        snapshots.push(db.snapshot());
    }
    assert_eq!(operands(&db), 0);
    db.flush().unwrap();
    assert_eq!(operands(&db), 3);
    drop(snapshots);
    db.close().unwrap();
    let db = open(&fs, Increment).unwrap();
    assert_eq!(operands(&db), 3);
    db.verify().unwrap().check().unwrap();
    // Of those that nobody keeps apart a flush makes one.
    for _ in 0..4 {
        db.merge("visits", 1i64.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(operands(&db), 4);
    db.compact_range(None, None).unwrap();
    assert_eq!(operands(&db), 0);
    db.close().unwrap();
    let db = open(&fs, Increment).unwrap();
    assert_eq!(operands(&db), 0);
    assert_eq!(number(db.get("visits").unwrap()), Some(12));
    db.verify().unwrap().check().unwrap();
}

#[test]
fn the_ready_made_are_there_without_being_given() {
    let fs = MemFs::new();
    let options = || small_options(Arc::new(fs.clone()));
    let all = options()
        .merge_operator("counter", Increment)
        .merge_operator("minimum", Minimum)
        .merge_operator("maximum", Maximum)
        .merge_operator("append", Append);
    let db = all.open(DIR).unwrap();
    let named = |name: &str| {
        db.create_keyspace(name, KeyspaceOptions::default())
            .unwrap()
    };
    let all = ["counter", "minimum", "maximum", "append"].map(named);
    for operand in [*b"bbbbbbbb", *b"aaaaaaaa", *b"cccccccc"] {
        all.iter()
            .for_each(|keyspace| keyspace.merge("key", operand).unwrap());
    }
    drop(all);
    db.close().unwrap();
    // By the command, or by a program that knows nothing of them.
    let db = options().open(DIR).unwrap();
    let get = |name: &str| db.keyspace(name).unwrap().get("key").unwrap().unwrap();
    assert_eq!(*get("minimum"), *b"aaaaaaaa");
    assert_eq!(*get("maximum"), *b"cccccccc");
    assert_eq!(*get("append"), *b"bbbbbbbbaaaaaaaacccccccc");
    let sum = [*b"bbbbbbbb", *b"aaaaaaaa", *b"cccccccc"].map(i64::from_le_bytes);
    let sum = sum.into_iter().fold(0, i64::wrapping_add);
    assert_eq!(*get("counter"), sum.to_le_bytes());
}

/// A document and patches of it, each with what it makes of the document: members are set, removed,
/// and set again, within objects too; and what is no object replaces all.
#[cfg(feature = "json")]
const PATCHES: [(&str, &str); 8] = [
    (
        r#"{"name":"Ada","at":{"city":"London","zip":1},"tags":["a","b"]}"#,
        r#"{"name":"Ada","at":{"city":"London","zip":1},"tags":["a","b"]}"#,
    ),
    (
        r#"{"at":{"zip":null,"street":"Square"},"age":36}"#,
        r#"{"name":"Ada","at":{"city":"London","street":"Square"},"tags":["a","b"],"age":36}"#,
    ),
    (
        r#"{"name":null,"tags":["c"]}"#,
        r#"{"at":{"city":"London","street":"Square"},"tags":["c"],"age":36}"#,
    ),
    (
        r#"{"at":"sea","name":"Countess"}"#,
        r#"{"name":"Countess","at":"sea","tags":["c"],"age":36}"#,
    ),
    (
        r#"{"at":{"port":null,"ship":true},"tags":null,"age":null}"#,
        r#"{"name":"Countess","at":{"ship":true}}"#,
    ),
    ("[1,2]", "[1,2]"),
    (r#""words""#, r#""words""#),
    (r#"{"new":1,"none":null}"#, r#"{"new":1}"#),
];

/// All ways of reading a key find a document.
#[cfg(feature = "json")]
fn check_document(db: &Snapshot, key: &str, expected: &str) {
    let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
    let check = |value: &[u8]| assert_eq!(json(value), json(expected.as_bytes()), "{key}");
    check(&db.get(key).unwrap().unwrap());
    check(db.multi_get(&["none", key]).unwrap()[1].as_deref().unwrap());
    check(&db.range(key..=key).next().unwrap().unwrap().1);
    check(&db.range(key..=key).next_back().unwrap().unwrap().1);
    let mut cursor = db.cursor(IterOptions::default()).unwrap();
    cursor.seek(key).unwrap();
    assert_eq!(cursor.key(), key.as_bytes());
    check(cursor.value());
}

#[cfg(feature = "json")]
#[test]
fn json_patches_make_one_document_wherever_they_lie() {
    // Between two patches there is nothing, a flush, a compaction, or an opening. With snapshots
    // each operand stays apart, without them those that meet become one.
    for place in 0..4 {
        for holds in [false, true] {
            let fs = MemFs::new();
            let mut db = open(&fs, JsonMergePatch).unwrap();
            let mut snapshots = Vec::new();
            // The first is put, or merged into nothing.
            db.put("put", PATCHES[0].0).unwrap();
            for (step, (patch, document)) in PATCHES.into_iter().enumerate() {
                db.merge("new", patch).unwrap();
                if step > 0 {
                    db.merge("put", patch).unwrap();
                }
                match place {
                    0 => {}
                    1 => db.flush().unwrap(),
                    2 => db.compact_range(None, None).unwrap(),
                    _ if holds => {}
                    // It is ready-made, so that nobody has to give it.
                    _ => {
                        db.close().unwrap();
                        db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
                    }
                }
                for key in ["new", "put"] {
                    check_document(&db.snapshot(), key, document);
                }
                if holds {
                    snapshots.push((db.snapshot(), document));
                }
            }
            for how in 0..3 {
                match how {
                    0 => {}
                    1 => db.flush().unwrap(),
                    _ => db.compact_range(None, None).unwrap(),
                }
                let now = (db.snapshot(), PATCHES[PATCHES.len() - 1].1);
                for (snapshot, document) in snapshots.iter().chain([&now]) {
                    check_document(snapshot, "new", document);
                    check_document(snapshot, "put", document);
                }
                assert_eq!(now.0.iter().count(), 2);
            }
            snapshots.clear();
            db.compact_range(None, None).unwrap();
            assert_eq!(*db.get("new").unwrap().unwrap(), *br#"{"new":1}"#);
            assert_eq!(operands(&db), 0);
            db.verify().unwrap().check().unwrap();
        }
    }
}

/// Patches of a key without a value between a flush and the next, of which no two can be made one
/// before they are merged into it.
#[cfg(feature = "json")]
#[test]
fn json_patches_of_tables_apart_are_merged_in_order() {
    let fs = MemFs::new();
    let db = open(&fs, JsonMergePatch).unwrap();
    let base = r#"{"a":{"b":1}}"#;
    db.put("key", base).unwrap();
    db.compact_range(None, None).unwrap();
    let held = db.snapshot();
    // In one table: what the first replaces the second adds to.
    db.merge("key", r#"{"a":2}"#).unwrap();
    db.merge("key", r#"{"a":{"c":3}}"#).unwrap();
    db.flush().unwrap();
    assert_eq!(operands(&db), 2);
    check_document(&db.snapshot(), "key", r#"{"a":{"c":3}}"#);
    check_document(&held, "key", base);
    // What is no object hides what is older, without the value.
    db.merge("key", "7").unwrap();
    db.merge("key", "8").unwrap();
    db.flush().unwrap();
    check_document(&db.snapshot(), "key", "8");
    drop(held);
    db.compact_range(None, None).unwrap();
    check_document(&db.snapshot(), "key", "8");
    assert_eq!(operands(&db), 0);
}

#[cfg(feature = "json")]
#[test]
fn what_is_no_json_is_told_and_not_lost() {
    let fs = MemFs::new();
    let db = open(&fs, JsonMergePatch).unwrap();
    db.put("sound", "{}").unwrap();
    db.merge("sound", r#"{"a":1}"#).unwrap();
    db.merge("wrong", r#"{"a":1}"#).unwrap();
    db.merge("wrong", "{").unwrap();
    // Nor is it hidden by what replaces it.
    db.merge("wrong", "7").unwrap();
    for how in 0..3 {
        match how {
            0 => {}
            1 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
        let failed = |error| assert!(matches!(error, Error::MergeFailed { .. }), "{error}");
        failed(db.get("wrong").unwrap_err());
        failed(db.iter().nth(1).unwrap().unwrap_err());
        check_document(&db.snapshot(), "sound", r#"{"a":1}"#);
    }
    db.put("wrong", "{}").unwrap();
    check_document(&db.snapshot(), "wrong", "{}");
}

#[test]
fn an_operator_is_kept_with_its_keyspace() {
    let fs = MemFs::new();
    let plain = || small_options(Arc::new(fs.clone()));
    let db = plain().open(DIR).unwrap();
    let refused = |wanted: Option<&str>, given: Option<&str>, error: Error| {
        let words = error.to_string();
        let Error::MergeOperator {
            keyspace,
            wanted: w,
            given: g,
        } = error
        else {
            panic!("{words}");
        };
        assert_eq!(
            (keyspace.as_str(), w.as_deref(), g.as_deref()),
            ("default", wanted, given)
        );
        assert!(words.contains("merge operator"), "{words}");
    };
    refused(None, None, db.merge("key", "a").unwrap_err());
    let mut batch = WriteBatch::new();
    batch.put("other", "b");
    batch.merge("key", "a");
    refused(None, None, db.write(batch).unwrap_err());
    assert!(db.get("other").unwrap().is_none(), "none of the batch");
    db.close().unwrap();
    // It may come later, and not go.
    let story = Story { combines: true };
    let db = open(&fs, story).unwrap();
    db.merge("key", "a").unwrap();
    db.close().unwrap();
    let before = fs.files();
    refused(Some("story"), None, plain().open(DIR).unwrap_err());
    refused(
        Some("story"),
        Some("counter"),
        open(&fs, Increment).unwrap_err(),
    );
    refused(
        Some("story"),
        None,
        plain().read_only(true).open(DIR).unwrap_err(),
    );
    assert_eq!(fs.files(), before);
    let db = open(&fs, story).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"-a"[..]));
}

/// Fails, or panics, as long as it is told to.
struct Fragile {
    fails: Arc<AtomicBool>,
    panics: bool,
}

impl MergeOperator for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }

    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        if self.fails.load(Ordering::SeqCst) {
            assert!(!self.panics, "its own panic");
            return Err("out of order".into());
        }
        Story { combines: false }.merge(key, base, operands)
    }
}

#[test]
fn an_operator_that_fails_loses_nothing() {
    for panics in [false, true] {
        let (fs, fails) = (MemFs::new(), Arc::new(AtomicBool::new(true)));
        let operator = Fragile {
            fails: fails.clone(),
            panics,
        };
        let db = open(&fs, operator).unwrap();
        db.put("base", "b").unwrap();
        db.delete("gone").unwrap();
        for word in ["1", "2", "3"] {
            for key in ["base", "gone", "new"] {
                db.merge(key, word).unwrap();
            }
            db.flush().unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.wait_for_compaction().unwrap();
        let failed = |error: Error| match error {
            Error::MergeFailed {
                keyspace, cause, ..
            } => {
                assert_eq!(keyspace, "default");
                assert!(cause == "it panicked" || cause == "out of order", "{cause}");
            }
            error => panic!("{error}"),
        };
        failed(db.get("base").unwrap_err());
        failed(db.multi_get(&["none", "new"]).unwrap_err());
        failed(db.iter().next().unwrap().unwrap_err());
        failed(db.iter().next_back().unwrap().unwrap_err());
        assert!(db.contains_key("gone").unwrap());
        fails.store(false, Ordering::SeqCst);
        let expected = [("base", "b123"), ("gone", "-123"), ("new", "-123")];
        let read = || pairs(db.iter());
        let expected = expected.map(|(key, value)| (key.to_owned(), value.into()));
        assert_eq!(read(), expected);
        db.compact_range(None, None).unwrap();
        assert_eq!(read(), expected);
        db.verify().unwrap().check().unwrap();
    }
}

/// What operands come to may be larger than what may be written: it is read all the same, and the
/// budget is not passed.
#[test]
fn what_is_too_large_for_a_value_stays_in_parts() {
    let fs = MemFs::new();
    let db = open(&fs, Append).unwrap();
    let part = |number: u32| vec![number as u8; 10_000];
    for number in 0..40 {
        db.merge("log", part(number)).unwrap();
        if number % 7 == 0 {
            db.flush().unwrap();
        }
    }
    let whole: Vec<u8> = (0..40).flat_map(part).collect();
    for round in 0..2 {
        match db.get("log") {
            Ok(found) => assert_eq!(found.as_deref(), Some(&whole[..]), "{round}"),
            Err(error) => assert!(matches!(error, Error::IteratorsExhausted { .. }), "{error}"),
        }
        db.compact_range(None, None).unwrap();
    }
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    // Under a larger budget it is one value.
    db.close().unwrap();
    let options = Options::new()
        .fs(Arc::new(fs))
        .memory(MemoryBudget::bytes(64 << 20));
    let db = options.open(DIR).unwrap();
    assert_eq!(db.get("log").unwrap().as_deref(), Some(&whole[..]));
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("log").unwrap().as_deref(), Some(&whole[..]));
}

/// A filter is asked about what operands came to, and about no operand.
#[test]
fn filters_see_values() {
    let fs = MemFs::new();
    let filter = |_: &[u8], value: &[u8]| {
        assert_eq!(value.len(), 8);
        match i64::from_le_bytes(value.try_into().unwrap()) {
            3 => CompactionDecision::Remove,
            _ => CompactionDecision::Keep,
        }
    };
    let options = small_options(Arc::new(fs.clone())).compaction_filter("default", filter);
    let db = options
        .merge_operator("default", Increment)
        .open(DIR)
        .unwrap();
    for key in ["three", "two", "three", "two", "three"] {
        db.merge(key, 1i64.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(number(db.get("three").unwrap()), None);
    assert_eq!(number(db.get("two").unwrap()), Some(2));
}

#[test]
fn transactions_merge_without_reading() {
    let fs = MemFs::new();
    let db = open(&fs, Story { combines: true }).unwrap();
    db.put("a", "A").unwrap();
    let mut one = db.transaction();
    let mut other = db.transaction();
    one.merge("a", "1").unwrap();
    other.merge("a", "2").unwrap();
    one.merge("b", "1").unwrap();
    one.commit().unwrap();
    // Nobody has read it.
    other.commit().unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"A12"[..]));
    let mut reader = db.transaction();
    reader.merge("a", "3").unwrap();
    assert_eq!(reader.get("a").unwrap().as_deref(), Some(&b"A123"[..]));
    db.merge("a", "4").unwrap();
    assert!(matches!(reader.commit(), Err(Error::Conflict { .. })));
    // What it is merged into is its own: nothing of others is read.
    let mut own = db.transaction();
    own.put("a", "B").unwrap();
    own.merge("a", "5").unwrap();
    assert_eq!(own.get("a").unwrap().as_deref(), Some(&b"B5"[..]));
    own.delete("b").unwrap();
    own.merge("b", "6").unwrap();
    own.set_savepoint();
    own.merge("b", "7").unwrap();
    assert_eq!(own.get("b").unwrap().as_deref(), Some(&b"-67"[..]));
    own.rollback_to_savepoint().unwrap();
    db.merge("a", "8").unwrap();
    own.commit().unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"B5"[..]));
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"-6"[..]));
    let plain = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    let refused = plain.transaction().merge("a", "1").unwrap_err();
    assert!(matches!(refused, Error::MergeOperator { wanted: None, .. }));
}

/// All that a transaction reads is what the model says, before and after it is committed.
#[test]
fn transactions_see_what_they_merge() {
    crate::common::on_every_core(40, |seed| {
        let _replay = Replay(format!("transactions of seed {seed}"));
        let mut rng = Rng::new(seed + 1);
        let fs = MemFs::new();
        let db = open(
            &fs,
            Story {
                combines: rng.one_in(2),
            },
        )
        .unwrap();
        let mut model = Model::new();
        for round in 0..25 {
            let mut own = model.clone();
            let mut savepoint = None;
            let mut transaction = db.transaction();
            for step in 0..rng.below(20) {
                let (key, word) = (key(&mut rng), format!("{round}.{step},"));
                match rng.below(9) {
                    0 => {
                        transaction.put(&key, &word).unwrap();
                        let base = Some((None, word.into_bytes()));
                        own.insert(
                            key,
                            Entry {
                                base,
                                operands: Vec::new(),
                            },
                        );
                    }
                    1 => {
                        transaction.delete(&key).unwrap();
                        own.remove(&key);
                    }
                    2 if savepoint.is_none() => {
                        transaction.set_savepoint();
                        savepoint = Some(own.clone());
                    }
                    3 if savepoint.is_some() => {
                        transaction.rollback_to_savepoint().unwrap();
                        own = savepoint.take().unwrap();
                    }
                    4 => {
                        let value = own.get(&key).and_then(|entry| entry.value(0));
                        let found = transaction.get(&key).unwrap();
                        assert_eq!(found.as_deref(), value.as_deref());
                        assert_eq!(transaction.contains_key(&key).unwrap(), value.is_some());
                        let several = transaction.multi_get(&[&key, "none"]).unwrap();
                        assert_eq!(several[0].as_deref(), value.as_deref());
                    }
                    5 => {
                        let expected = values(&own, 0);
                        assert_eq!(pairs(transaction.iter()), expected);
                        let mut backward = pairs(transaction.iter().rev());
                        backward.reverse();
                        assert_eq!(backward, expected);
                    }
                    _ => {
                        transaction.merge(&key, &word).unwrap();
                        own.entry(key).or_default().operands.extend(word.bytes());
                    }
                }
            }
            if rng.one_in(4) {
                drop(transaction);
            } else {
                transaction.commit().unwrap();
                model = own;
            }
            match rng.below(6) {
                0 => db.flush().unwrap(),
                1 => db.compact_range(None, None).unwrap(),
                _ => assert_eq!(pairs(db.iter()), values(&model, 0)),
            }
        }
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    });
}

/// What operands are yet to be merged into is no filter's to remove.
#[test]
fn filters_leave_what_operands_are_merged_into() {
    let (fs, clock) = (MemFs::new(), ManualClock::new());
    let short = |_: &[u8], value: &[u8]| match value.len() {
        1 => CompactionDecision::Remove,
        _ => CompactionDecision::Keep,
    };
    let options = small_options(Arc::new(fs)).clock(Arc::new(clock));
    let options = options.compaction_filter("default", short);
    let db = options.merge_operator("default", Append).open(DIR).unwrap();
    let minute = WriteOptions::new().ttl(Duration::from_secs(60));
    for key in ["merged", "alone"] {
        db.put_with(key, "a", minute).unwrap();
    }
    db.merge("merged", "b").unwrap();
    for _ in 0..2 {
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get("merged").unwrap().as_deref(), Some(&b"ab"[..]));
        assert_eq!(db.get("alone").unwrap(), None);
    }
}
