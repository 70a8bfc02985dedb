//! Merges that scans have paid for: they come once scans have read as much as they cost, where the
//! scans go, and for nothing else.

use std::sync::Arc;

use crate::common::{Rng, scattered_key as key};
use shamba::fs::{BlockKind, MemFs, MeteredFs, Purpose};
use shamba::{Db, IterOptions, KeyspaceOptions, MemoryBudget, Options};

const KEYS: u64 = 60_000;

/// What keys begin with is below this.
const SPREAD: u64 = 999_983;

/// Entries of a scan, of which those with values of one page have 50.
const RANGE: usize = 10;

struct Subject {
    db: Db,
    fs: MeteredFs,
    rng: Rng,
}

impl Subject {
    /// A tree of several levels, under memory that holds a small part of it.
    fn new(memory: u64, keyspace: impl Fn(KeyspaceOptions) -> KeyspaceOptions) -> Self {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let options = |memory| {
            let options = KeyspaceOptions::new()
                .write_buffer(64 << 10)
                .target_file(64 << 10)
                .size_ratio(4);
            Options::new()
                .fs(Arc::new(fs.clone()))
                .memory(MemoryBudget::bytes(memory))
                .background_threads(0)
                .keyspace(keyspace(options))
        };
        let db = options(16 << 20).open("/db").unwrap();
        for number in 0..KEYS {
            db.put(key(number * 7_919 % KEYS), [number as u8; 48])
                .unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        db.close().unwrap();
        let db = options(memory).open("/db").unwrap();
        db.wait_for_compaction().unwrap();
        let rng = Rng::new(5);
        let subject = Subject { db, fs, rng };
        assert!(subject.runs() >= 4, "{}", subject.runs());
        subject
    }

    fn runs(&self) -> usize {
        self.db.stats().keyspaces[0]
            .levels
            .iter()
            .map(|level| level.runs)
            .sum()
    }

    /// Pages that scans read, and that merges read and wrote.
    fn pages(&self) -> [u64; 2] {
        let data = self.fs.counts().reads(BlockKind::Data, Purpose::Scan);
        let counters = self.db.stats().counters;
        let merged = counters.compaction_bytes_read + counters.compaction_bytes_written;
        [data.pages, merged >> 12]
    }

    /// Scans from keys in so much of the key range; what merges they paid for are made. Gives the
    /// data pages that each read.
    fn scan(&mut self, scans: u64, percent: u64) -> f64 {
        let before = self.pages()[0];
        for at in 0..scans {
            let from = self.rng.below(SPREAD * percent / 100).to_be_bytes();
            let mut cursor = self.db.cursor(IterOptions::default()).unwrap();
            cursor.seek(from).unwrap();
            let mut last = from.to_vec();
            for _ in 0..RANGE {
                if !cursor.valid() {
                    break;
                }
                assert!(*cursor.key() >= *last);
                last = cursor.key().to_vec();
                cursor.next().unwrap();
            }
            if at % 256 == 255 {
                self.db.wait_for_compaction().unwrap();
            }
        }
        self.db.wait_for_compaction().unwrap();
        (self.pages()[0] - before) as f64 / scans as f64
    }
}

#[test]
fn scans_pay_for_merges_and_read_less_then() {
    let mut subject = Subject::new(1 << 20, |options| options);
    let merged = subject.pages()[1];
    let first = subject.scan(500, 100);
    subject.scan(40_000, 100);
    let [read, now] = subject.pages();
    // Much less than all that they read: what they find their place by is the smaller part.
    assert!(now > merged, "nothing was merged");
    assert!(
        now - merged <= read / 4,
        "{} merged, {read} read",
        now - merged
    );
    let last = subject.scan(500, 100);
    assert!(last < 0.7 * first, "{last} against {first}");
    // All is there.
    let entries = subject.db.iter().map(Result::unwrap);
    assert_eq!(entries.count() as u64, KEYS);
}

#[test]
fn where_scans_do_not_go_nothing_is_merged() {
    let merged = |percent| {
        let mut subject = Subject::new(1 << 20, |options| options);
        let before = subject.pages()[1];
        subject.scan(40_000, percent);
        subject.pages()[1] - before
    };
    let (part, all) = (merged(40), merged(100));
    assert!(
        0 < part && part < all * 6 / 10,
        "{part} of {all} pages merged"
    );
}

#[test]
fn without_the_option_with_memory_or_from_end_to_end_scans_merge_nothing() {
    let merged = |memory, on, scans: &dyn Fn(&mut Subject)| {
        let mut subject = Subject::new(memory, |options| options.merge_for_scans(on));
        let before = subject.pages()[1];
        scans(&mut subject);
        subject.db.wait_for_compaction().unwrap();
        subject.pages()[1] - before
    };
    let short = |subject: &mut Subject| {
        subject.scan(20_000, 100);
    };
    assert!(merged(1 << 20, true, &short) > 0);
    assert_eq!(merged(1 << 20, false, &short), 0);
    // Memory holds what they need.
    assert_eq!(merged(16 << 20, true, &short), 0);
    // They find their place once, whatever they read then.
    let whole = |subject: &mut Subject| {
        for _ in 0..40 {
            let mut cursor = subject.db.cursor(IterOptions::default()).unwrap();
            // The first key: of numbers from 0 on, it is that of 0.
            cursor.seek(key(0)).unwrap();
            let mut entries = 0;
            while cursor.valid() {
                entries += 1;
                cursor.next().unwrap();
            }
            assert_eq!(entries, KEYS);
        }
    };
    assert_eq!(merged(1 << 20, true, &whole), 0);
    let lookups = |subject: &mut Subject| {
        for _ in 0..50_000 {
            let number = subject.rng.below(KEYS);
            assert!(subject.db.get(key(number)).unwrap().is_some());
        }
    };
    assert_eq!(merged(1 << 20, true, &lookups), 0);
    // The same place again and again: it is in memory, or the cursor has it.
    for fill_cache in [true, false] {
        let again = |subject: &mut Subject| {
            let options = IterOptions::default().fill_cache(fill_cache);
            let mut cursor = subject.db.cursor(options).unwrap();
            for _ in 0..20_000 {
                cursor.seek(key(700)).unwrap();
                assert_eq!(*cursor.key(), key(700));
            }
        };
        assert_eq!(merged(1 << 20, true, &again), 0);
    }
}

/// A database on its way to another design moves levels up; what was read is not to send them down
/// again.
#[test]
fn a_move_to_another_design_ends_after_scans() {
    let mut subject = Subject::new(1 << 20, |options| options);
    let mut cursor = subject.db.cursor(IterOptions::default()).unwrap();
    for _ in 0..4000 {
        let from = subject.rng.below(SPREAD).to_be_bytes();
        cursor.seek(from).unwrap();
    }
    drop(cursor);
    let keyspace = subject.db.default_keyspace();
    let mut design = keyspace.design();
    design.size_ratio = 2;
    let before = subject.db.stats().counters;
    subject.db.redesign(design).unwrap();
    subject.db.wait_for_compaction().unwrap();
    let stats = subject.db.stats();
    assert!(!stats.keyspaces[0].moving);
    let moves = stats.counters.trivial_moves - before.trivial_moves;
    assert!(moves < 1000, "{moves} moves");
}
