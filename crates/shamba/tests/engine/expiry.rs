//! Entries with a time to live: there until their time and gone from then on, for every read,
//! wherever they lie; as of its own time for a snapshot; and dropped by merges.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Replay, Rng, files_ending};
use shamba::fs::MemFs;
use shamba::{
    Append, Clock, Db, Error, IterOptions, Keyspace, KeyspaceOptions, ManualClock, MemoryBudget,
    Options, Snapshot, WriteBatch, WriteOptions,
};

const MINUTE: Duration = Duration::from_secs(60);

struct Place {
    fs: MemFs,
    clock: ManualClock,
}

impl Place {
    fn new() -> Place {
        Place {
            fs: MemFs::new(),
            clock: ManualClock::new(),
        }
    }

    fn options(&self) -> Options {
        let options = Options::new().fs(Arc::new(self.fs.clone()));
        let options = options.clock(Arc::new(self.clock.clone()));
        options.background_threads(0)
    }

    fn open(&self) -> Db {
        self.options().open("/db").unwrap()
    }

    /// The time in so long.
    fn after(&self, by: Duration) -> SystemTime {
        self.clock.now() + by
    }
}

fn for_a_minute() -> WriteOptions {
    WriteOptions::new().ttl(MINUTE)
}

/// What all ways of reading a key say of it, which is the same.
fn read(db: &Db, key: &str) -> Option<String> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let found = db.get(key).unwrap().map(|value| text(&value));
    assert_eq!(db.contains_key(key).unwrap(), found.is_some(), "{key}");
    let several = db.multi_get(&[key, "nothing", key]).unwrap();
    for value in [&several[0], &several[2]] {
        assert_eq!(value.as_deref().map(text), found, "{key}");
    }
    let of_iter = |entry: Option<shamba::Result<(Vec<u8>, shamba::Value)>>| {
        entry.map(|entry| text(&entry.unwrap().1))
    };
    assert_eq!(of_iter(db.range(key..=key).next()), found, "{key}");
    assert_eq!(of_iter(db.range(key..=key).next_back()), found, "{key}");
    let mut cursor = db.cursor(IterOptions::default()).unwrap();
    cursor.seek(key).unwrap();
    let at = cursor.valid() && cursor.key() == key.as_bytes();
    assert_eq!(at.then(|| text(cursor.value())), found, "{key}");
    cursor.seek_for_prev(key).unwrap();
    let at = cursor.valid() && cursor.key() == key.as_bytes();
    assert_eq!(at.then(|| text(cursor.value())), found, "{key}");
    found
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn an_entry_is_gone_from_its_time_on_wherever_it_lies() {
    // In the memtable; replayed from the log; in a table; merged; and opened again.
    for place in 0..5 {
        let at = Place::new();
        let mut db = at.open();
        db.put("older", "1").unwrap();
        db.flush().unwrap();
        db.put_with("a", "expires", for_a_minute()).unwrap();
        db.put_with("older", "2", for_a_minute()).unwrap();
        db.put_with("again", "1", for_a_minute()).unwrap();
        db.put("again", "for ever").unwrap();
        db.put("b", "stays").unwrap();
        match place {
            0 => {}
            1 => {
                let fs = at.fs.kill_clone();
                let options = at.options().fs(Arc::new(fs));
                db = options.open("/db").unwrap();
            }
            2 => db.flush().unwrap(),
            3 => db.compact_range(None, None).unwrap(),
            _ => {
                db.close().unwrap();
                db = at.open();
            }
        }
        at.clock.advance(MINUTE - Duration::from_millis(1));
        assert_eq!(read(&db, "a"), some("expires"), "{place}");
        assert_eq!(read(&db, "older"), some("2"), "{place}");
        assert_eq!(db.len().unwrap(), 4);
        at.clock.advance(Duration::from_millis(1));
        for merged in [false, true] {
            if merged {
                db.compact_range(None, None).unwrap();
            }
            // What it hid does not come back.
            assert_eq!(
                (read(&db, "a"), read(&db, "older")),
                (None, None),
                "{place}"
            );
            assert_eq!(read(&db, "again"), some("for ever"), "{place}");
            assert_eq!(read(&db, "b"), some("stays"), "{place}");
            assert_eq!(db.len().unwrap(), 2);
        }
        assert_eq!(db.approximate_len(), 2, "{place}");
        assert_eq!(db.verify().unwrap().problems, 0);
        // It may come again.
        db.put("a", "new").unwrap();
        assert_eq!(read(&db, "a"), some("new"), "{place}");
    }
}

#[test]
fn merges_drop_what_has_expired_and_nothing_that_a_snapshot_sees() {
    let at = Place::new();
    let db = at.open();
    for number in 0..100 {
        let key = format!("key{number:03}");
        db.put_with(key, [7; 1000], for_a_minute()).unwrap();
    }
    db.flush().unwrap();
    let before = db.snapshot();
    at.clock.advance(MINUTE);
    let after = db.snapshot();
    let count = |snapshot: &Snapshot| {
        let there = snapshot.get("key050").unwrap().is_some();
        let all = snapshot.iter().map(|entry| entry.unwrap().1.len());
        (there, all.sum::<usize>(), snapshot.len().unwrap())
    };
    let size = || db.default_keyspace().size_on_disk();
    let full = size();
    for _ in 0..2 {
        assert_eq!(count(&before), (true, 100_000, 100));
        assert_eq!(count(&after), (false, 0, 0));
        assert!(db.is_empty().unwrap());
        db.compact_range(None, None).unwrap();
        assert!(size() >= full / 2, "{} of {full}", size());
    }
    assert_eq!(db.stats().counters.entries_expired, 0);
    // An iterator of the snapshot holds it too.
    let mut held = before.iter();
    assert!(held.next().unwrap().is_ok());
    drop(before);
    db.compact_range(None, None).unwrap();
    assert_eq!(held.count(), 99);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.stats().counters.entries_expired, 100);
    assert_eq!(size(), 0);
    assert_eq!(count(&after), (false, 0, 0));
}

/// Over tables of older values as over nothing: what expired while it was in memory is written
/// nowhere.
#[test]
fn a_flush_drops_what_has_expired_and_nothing_that_a_snapshot_sees() {
    for (older, held) in [(false, false), (true, false), (false, true), (true, true)] {
        let at = Place::new();
        let db = at.open();
        let key = |number: u32| format!("key{number:03}");
        if older {
            for number in 0..100 {
                db.put(key(number), "of before").unwrap();
            }
            db.flush().unwrap();
        }
        let tables = || files_ending(&at.fs, "/db", ".sst");
        let before = tables();
        for number in 0..100 {
            db.put_with(key(number), "it expires", for_a_minute())
                .unwrap();
        }
        db.put_with("later", "for two", WriteOptions::new().ttl(2 * MINUTE))
            .unwrap();
        let snapshot = held.then(|| db.snapshot());
        at.clock.advance(MINUTE);
        db.flush().unwrap();
        let wanted = if held { 0 } else { 100 };
        assert_eq!(db.stats().counters.entries_expired, wanted, "{older}");
        let new: Vec<_> = (tables().into_iter())
            .filter(|name| !before.contains(name))
            .collect();
        assert_eq!(new.len(), 1, "{new:?}");
        let table = at.fs.read_file(Path::new("/db").join(&new[0])).unwrap();
        let has = |value: &str| {
            let mut parts = table.windows(value.len());
            parts.any(|part| part == value.as_bytes())
        };
        assert_eq!((has("it expires"), has("for two")), (held, true), "{older}");
        // What it hid does not come back.
        assert_eq!((read(&db, "key050"), db.len().unwrap()), (None, 1));
        if let Some(snapshot) = snapshot {
            let value = snapshot.get("key050").unwrap();
            assert_eq!(value.as_deref(), Some(&b"it expires"[..]));
            assert_eq!(snapshot.len().unwrap(), 101);
        }
    }
}

#[test]
fn a_time_to_live_is_the_writes_or_the_keyspaces() {
    let at = Place::new();
    let db = at.open();
    let hours = KeyspaceOptions::new().ttl(60 * MINUTE);
    let sessions = db.open_keyspace("sessions", hours.clone()).unwrap();
    let users = db.open_keyspace("users", KeyspaceOptions::new()).unwrap();
    sessions.put("default", "v").unwrap();
    sessions.put_with("own", "v", for_a_minute()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&sessions, "batch", "v");
    batch.put_in(&users, "batch", "v");
    batch.put_until_in(&sessions, "until", "v", at.after(2 * MINUTE));
    batch.put_until("until", "v", at.after(2 * MINUTE));
    batch.put_until_in(&users, "past", "v", UNIX_EPOCH);
    batch.put("for ever", "v");
    db.write(batch).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&users, "minute", "v");
    batch.put_until_in(&users, "later", "v", at.after(2 * MINUTE));
    db.write_with(batch, for_a_minute()).unwrap();
    let mut tx = db.transaction();
    tx.put_in(&sessions, "transaction", "v").unwrap();
    tx.put_in(&users, "transaction", "v").unwrap();
    tx.commit().unwrap();
    users
        .put_with("never", "v", WriteOptions::new().ttl(Duration::MAX))
        .unwrap();
    let there = |keyspace: &Keyspace| -> Vec<String> {
        let keys = keyspace.iter().map(|entry| entry.unwrap().0);
        keys.map(|key| String::from_utf8(key).unwrap()).collect()
    };
    assert_eq!(
        there(&sessions),
        ["batch", "default", "own", "transaction", "until"]
    );
    assert_eq!(
        there(&users),
        ["batch", "later", "minute", "never", "transaction"]
    );
    at.clock.advance(MINUTE);
    assert_eq!(
        there(&sessions),
        ["batch", "default", "transaction", "until"]
    );
    assert_eq!(there(&users), ["batch", "later", "never", "transaction"]);
    at.clock.advance(MINUTE);
    assert_eq!(there(&sessions), ["batch", "default", "transaction"]);
    assert_eq!(there(&users), ["batch", "never", "transaction"]);
    assert_eq!(there(&db.default_keyspace()), ["for ever"]);
    // It is kept with the keyspace, and what was written keeps its own.
    db.close().unwrap();
    let db = at.open();
    let sessions = db.keyspace("sessions").unwrap();
    assert_eq!(sessions.options(), hours);
    sessions.put("reopened", "v").unwrap();
    db.alter_keyspace("sessions", KeyspaceOptions::new())
        .unwrap();
    sessions.put("altered", "v").unwrap();
    at.clock.advance(58 * MINUTE);
    assert_eq!(there(&sessions), ["altered", "reopened"]);
    at.clock.advance(2 * MINUTE);
    assert_eq!(there(&sessions), ["altered"]);
    at.clock.advance(Duration::from_secs(1 << 40));
    assert_eq!(
        there(&db.keyspace("users").unwrap()),
        ["batch", "never", "transaction"]
    );
}

#[test]
fn a_keyspaces_time_to_live_may_be_nothing_or_more_than_there_is() {
    // The longest that is counted, and what is longer than any count.
    let (longest, none) = (Duration::from_millis(u64::MAX - 1), Duration::ZERO);
    for (ttl, stays) in [
        (none, false),
        (Duration::from_micros(999), false),
        (longest, true),
        (Duration::MAX, true),
    ] {
        let at = Place::new();
        at.clock.advance(60 * MINUTE);
        let db = at.open();
        let options = KeyspaceOptions::new().ttl(ttl);
        let mut keyspace = db.open_keyspace("some", options).unwrap();
        let write = |db: &Db, keyspace: &Keyspace, name: &str| {
            keyspace.put(format!("{name} put"), "v").unwrap();
            let mut batch = WriteBatch::new();
            batch.put_in(keyspace, format!("{name} batch"), "v");
            db.write(batch).unwrap();
        };
        write(&db, &keyspace, "first");
        let wanted = if stays { 2 } else { 0 };
        assert_eq!(keyspace.len().unwrap(), wanted, "{ttl:?}");
        // A time of the write's own counts all the same.
        keyspace.put_with("own", "v", for_a_minute()).unwrap();
        assert_eq!(keyspace.len().unwrap(), wanted + 1, "{ttl:?}");
        at.clock.advance(Duration::from_secs(1 << 40));
        db.flush().unwrap();
        keyspace.compact_range(None, None).unwrap();
        assert_eq!(keyspace.len().unwrap(), wanted, "{ttl:?}");
        // It is kept so.
        drop(keyspace);
        db.close().unwrap();
        let db = at.open();
        keyspace = db.keyspace("some").unwrap();
        write(&db, &keyspace, "second");
        assert_eq!(keyspace.len().unwrap(), 2 * wanted, "{ttl:?}");
    }
}

/// A cached entry is asked for without the tables; one that expires must not be.
#[test]
fn the_cache_of_entries_keeps_none_that_expires() {
    let at = Place::new();
    let memory = MemoryBudget::bytes(1 << 20);
    memory.always_keep_entries();
    let db = at.options().memory(memory).open("/db").unwrap();
    let value = [7; 100];
    for number in 0..20_000u32 {
        db.put(number.to_be_bytes(), value).unwrap();
    }
    db.put("hot", "old").unwrap();
    db.compact_range(None, None).unwrap();
    let look = |times: u32, wanted: Option<&[u8]>| {
        let mut rng = Rng::new(7);
        for _ in 0..times {
            assert_eq!(db.get("hot").unwrap().as_deref(), wanted);
            db.get(rng.below(20_000).to_be_bytes()).unwrap();
        }
    };
    look(2_000, Some(b"old"));
    assert!(db.stats().counters.entry_hits > 0);
    // What the flush brings up to date, and what tables have.
    db.put_with("hot", "new", for_a_minute()).unwrap();
    db.flush().unwrap();
    look(2_000, Some(b"new"));
    let earlier = db.snapshot();
    at.clock.advance(MINUTE);
    look(2_000, None);
    assert_eq!(earlier.get("hot").unwrap().as_deref(), Some(&b"new"[..]));
    drop(earlier);
    db.put("hot", "newest").unwrap();
    look(10, Some(b"newest"));
}

#[test]
fn a_transaction_sees_what_expires_as_of_its_beginning() {
    let at = Place::new();
    let db = at.open();
    db.put_with("a", "1", for_a_minute()).unwrap();
    let mut tx = db.transaction();
    at.clock.advance(MINUTE);
    assert!(tx.get("a").unwrap().is_some() && db.get("a").unwrap().is_none());
    assert_eq!(tx.iter().count(), 1);
    // That it expires is nobody's write.
    tx.put("b", "1").unwrap();
    tx.commit_with(for_a_minute()).unwrap();
    assert_eq!(read(&db, "b"), some("1"));
    at.clock.advance(MINUTE);
    assert_eq!(read(&db, "b"), None);
}

/// A clock that goes on by a millisecond whenever it is asked.
#[derive(Debug, Default)]
struct RestlessClock(AtomicU64);

impl Clock for RestlessClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

#[test]
fn keys_that_are_looked_up_together_are_looked_up_at_one_time() {
    for flushed in [false, true] {
        let clock = Arc::new(RestlessClock::default());
        let options = Options::new().fs(Arc::new(MemFs::new())).clock(clock);
        let db = options.background_threads(0).open("/db").unwrap();
        let mut batch = WriteBatch::new();
        let keys: Vec<_> = (0..50u32).map(u32::to_be_bytes).collect();
        for key in &keys {
            batch.put_until(key, "v", UNIX_EPOCH + Duration::from_millis(200));
        }
        db.write(batch).unwrap();
        if flushed {
            db.flush().unwrap();
        }
        let mut answers = [false, false];
        for _ in 0..300 {
            let found = db.multi_get(&keys).unwrap();
            let there = found[0].is_some();
            assert!(found.iter().all(|value| value.is_some() == there));
            answers[usize::from(there)] = true;
        }
        assert_eq!(answers, [true, true]);
    }
}

/// A clock at the epoch, that once it is let go is a minute later or not, in turn, so many times.
#[derive(Debug, Default)]
struct WaveringClock {
    goes: AtomicBool,
    turns: AtomicU64,
}

impl Clock for WaveringClock {
    fn now(&self) -> SystemTime {
        if !self.goes.load(Ordering::SeqCst) {
            return UNIX_EPOCH;
        }
        let turns = self.turns.load(Ordering::SeqCst);
        self.turns.store(turns.saturating_sub(1), Ordering::SeqCst);
        UNIX_EPOCH + MINUTE * u32::from(turns.is_multiple_of(2))
    }
}

/// What it said when a file was chosen holds when the file is rewritten.
#[test]
fn a_clock_that_goes_back_and_forth_causes_no_merge_in_vain() {
    for turns in [5_000, 5_001] {
        let clock = Arc::new(WaveringClock::default());
        clock.turns.store(turns, Ordering::SeqCst);
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let options = options.background_threads(0).clock(clock.clone());
        let db = options.open("/db").unwrap();
        let mut batch = WriteBatch::new();
        for number in 0..100u32 {
            batch.put_until(number.to_be_bytes(), "v", UNIX_EPOCH + MINUTE / 2);
        }
        db.write(batch).unwrap();
        db.compact_range(None, None).unwrap();
        let before = db.stats().counters.compactions;
        clock.goes.store(true, Ordering::SeqCst);
        while clock.turns.load(Ordering::SeqCst) > 0 {
            db.wait_for_compaction().unwrap();
            db.compact_range(None, None).unwrap();
            db.get("key").unwrap();
        }
        let counters = db.stats().counters;
        assert!(counters.compactions <= before + 1, "{counters:?}");
        assert_eq!(counters.entries_expired, 100);
    }
}

/// A batch in which something has a time to live of its own is written with another for the rest.
#[test]
fn the_largest_values_may_have_a_time_to_live() {
    for limit in [1 << 20, 2 << 20, 32 << 20] {
        let at = Place::new();
        let options = at.options().memory(MemoryBudget::bytes(limit));
        let options = options.merge_operator("default", Append);
        let mut db = options.clone().open("/db").unwrap();
        let most = match db.merge("a", vec![0; 65 << 20]).unwrap_err() {
            Error::ValueTooLarge { max, .. } => max,
            error => panic!("{error}"),
        };
        let value = vec![7; most];
        let until = at.after(MINUTE);
        db.put_with("put", &value, for_a_minute()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put_until("until", &value, until);
        db.write(batch.clone()).unwrap();
        batch.clear();
        batch.put_until("both", &value, until);
        batch.put("other", "v");
        db.write_with(batch.clone(), for_a_minute()).unwrap();
        // Longer ones point into files, of the batch's own time or of the write's.
        let one_more = vec![7; most + 1];
        db.put_with("file of put", &one_more, for_a_minute())
            .unwrap();
        batch.clear();
        batch.put_until("file until", &one_more, until);
        batch.put("file of batch", &one_more);
        db.write_with(batch, for_a_minute()).unwrap();
        for step in 0..4 {
            match step {
                0 => {}
                1 => {
                    let fs = Arc::new(at.fs.kill_clone());
                    db = options.clone().fs(fs).open("/db").unwrap();
                }
                2 => db.flush().unwrap(),
                _ => db.compact_range(None, None).unwrap(),
            }
            for key in ["put", "until", "both"] {
                let found = db.get(key).unwrap();
                assert!(
                    found.as_deref() == Some(&value),
                    "{key} under {limit}, {step}"
                );
            }
            for key in ["file of put", "file until", "file of batch"] {
                let found = db.get(key).unwrap();
                assert!(found.as_deref() == Some(&one_more), "{key} under {limit}");
            }
            assert_eq!(db.len().unwrap(), 7);
        }
        assert_eq!(db.stats().memory.budget.overdraft, 0);
        at.clock.advance(MINUTE);
        assert!(db.is_empty().unwrap());
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// Random writes, with and without a time to live, flushes, merges, snapshots and opens while time
/// goes on, beside a map.
#[test]
fn expiring_entries_are_those_of_a_map() {
    for seed in 0..200 {
        let _replay = Replay(format!("seed {seed} of tests/engine/expiry.rs"));
        let mut rng = Rng::new(seed);
        let at = Place::new();
        let keyspace = KeyspaceOptions::new()
            .write_buffer(16 << 10)
            .target_file(16 << 10)
            .size_ratio(rng.between(2, 4) as u32);
        let open = || {
            let options = at.options().keyspace(keyspace.clone());
            options.open("/db").unwrap()
        };
        let mut db = open();
        let (mut now, mut model) = (0, Model::new());
        let mut snapshots: Vec<(Snapshot, crate::common::Map)> = Vec::new();
        let live = |model: &Model, now: u64| -> crate::common::Map {
            let live = model.iter().filter(|(_, (_, expiry))| now < *expiry);
            live.map(|(key, (value, _))| (key.clone(), value.clone()))
                .collect()
        };
        let all = |iter: shamba::Iter| -> crate::common::Map {
            iter.map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap())
                .collect()
        };
        for _ in 0..400 {
            let key = format!("key{:02}", rng.below(60)).into_bytes();
            match rng.below(100) {
                0..30 => {
                    let (len, ttl) = (rng.below(300) as usize, rng.below(50));
                    let value = rng.bytes(len);
                    let options = WriteOptions::new().ttl(Duration::from_millis(ttl));
                    db.put_with(&key, &value, options).unwrap();
                    model.insert(key, (value, now + ttl));
                }
                30..50 => {
                    let value = rng.bytes(20);
                    db.put(&key, &value).unwrap();
                    model.insert(key, (value, u64::MAX));
                }
                50..58 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                58..75 => {
                    let wanted = live(&model, now).get(&key).cloned();
                    assert_eq!(db.get(&key).unwrap().map(Vec::from), wanted);
                    assert_eq!(db.contains_key(&key).unwrap(), wanted.is_some());
                }
                75..83 => {
                    let by = rng.below(20);
                    at.clock.advance(Duration::from_millis(by));
                    now += by;
                }
                83..86 => snapshots.push((db.snapshot(), live(&model, now))),
                86..89 if !snapshots.is_empty() => {
                    let held = rng.below(snapshots.len() as u64) as usize;
                    snapshots.swap_remove(held);
                }
                89..92 => db.flush().unwrap(),
                92..94 => db.compact_range(None, None).unwrap(),
                94..97 => {
                    assert_eq!(all(db.iter()), live(&model, now));
                    let back: Vec<_> = db.iter().rev().map(|entry| entry.unwrap().0).collect();
                    assert!(back.iter().rev().eq(live(&model, now).keys()));
                }
                97..99 => {
                    for (snapshot, wanted) in &snapshots {
                        assert_eq!(all(snapshot.iter()), *wanted);
                        let value = snapshot.get(&key).unwrap().map(Vec::from);
                        assert_eq!(value.as_ref(), wanted.get(&key));
                    }
                }
                _ => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = open();
                }
            }
        }
        assert_eq!(db.verify().unwrap().problems, 0);
    }
}
