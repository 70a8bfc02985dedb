//! The engine chooses its own design: advice, and the automatic mode.

use std::sync::Arc;

use crate::common::{Rng, small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{
    Advice, AutoDesign, Db, Design, DeviceCosts, FilterFamily, FilterOptions, IterOptions,
    KeyspaceOptions, MergePolicy, Options,
};

const DIR: &str = "/db";
const KEYS: u64 = 20_000;

fn options(auto_design: Option<AutoDesign>) -> Options {
    let keyspace = small_keyspace()
        .size_ratio(4)
        .write_buffer(16 << 10)
        .target_file(64 << 10)
        .filter(FilterOptions::new().family(FilterFamily::Bloom))
        .auto_design(auto_design);
    small_options(Arc::new(MemFs::new()))
        .keyspace(keyspace)
        .device(DeviceCosts::new(1e-4).write_cost(1.0).merge_read_cost(1.0))
}

fn key(number: u64) -> [u8; 8] {
    (number * 7919 % KEYS * 2).to_be_bytes()
}

struct Workload {
    db: Db,
    rng: Rng,
}

impl Workload {
    fn new(auto_design: Option<AutoDesign>) -> Self {
        let db = options(auto_design).open(DIR).unwrap();
        Workload {
            db,
            rng: Rng::new(1),
        }
    }

    fn load(&mut self) {
        for number in 0..KEYS {
            self.db.put(key(number), [3; 60]).unwrap();
        }
    }

    fn updates(&mut self, count: u64) {
        for _ in 0..count {
            let key = key(self.rng.below(KEYS));
            self.db
                .put(key, self.rng.next().to_be_bytes().repeat(7))
                .unwrap();
        }
    }

    fn ranges(&mut self, count: u64) {
        for _ in 0..count {
            let mut iter = self.db.cursor(IterOptions::default()).unwrap();
            iter.seek(key(self.rng.below(KEYS))).unwrap();
            for _ in 0..4 {
                iter.next().unwrap();
            }
        }
    }

    fn design(&self) -> Design {
        self.db.default_keyspace().design()
    }

    fn advice(&self) -> Advice {
        self.db.advise().unwrap().unwrap()
    }
}

#[test]
fn advice_is_for_what_is_done() {
    let mut work = Workload::new(None);
    assert_eq!(work.db.advise().unwrap(), None);
    work.updates(500);
    assert_eq!(work.db.advise().unwrap(), None, "too little is known");
    work.load();
    work.updates(100_000);
    let writing = work.advice();
    assert_eq!(writing.present.design, work.design());
    assert!(writing.workload.updates > 0.99, "{writing:?}");
    assert!(writing.gain() > 0.0 && writing.pays_after().is_finite());
    assert!(writing.best.costs.update < writing.present.costs.update / 1.5);
    // The same memory, otherwise divided.
    let memory = |design: &Design| {
        design.write_buffer as f64 + design.bits_per_key / 8.0 * writing.workload.entries * 1.2
    };
    let (now, then) = (
        memory(&writing.present.design),
        memory(&writing.best.design),
    );
    assert!(then <= now * 1.01, "{then} bytes instead of {now}");

    work.ranges(100_000);
    let scanning = work.advice();
    assert!(scanning.workload.range_lookups > 0.8, "{scanning:?}");
    let best = scanning.best;
    assert!(matches!(
        best.design.merge_policy,
        MergePolicy::Leveling { .. }
    ));
    assert!(best.costs.range_lookup < scanning.present.costs.range_lookup);
    assert!(best.costs.range_lookup < writing.best.costs.range_lookup);
    assert!(scanning.move_bytes > 0, "{scanning:?}");

    // Once moved to, it is the best there is.
    work.db.redesign(best.design).unwrap();
    work.db.wait_for_compaction().unwrap();
    work.ranges(100_000);
    let moved = work.advice();
    assert_eq!(moved.present.design, best.design);
    assert!(
        moved.gain() < moved.present.costs.average * 0.1,
        "{moved:?}"
    );
}

#[test]
fn a_move_reads_about_what_was_told() {
    let mut work = Workload::new(None);
    let tiered = work
        .design()
        .merge_policy(MergePolicy::Tiering)
        .size_ratio(6);
    work.db.redesign(tiered).unwrap();
    work.load();
    work.updates(60_000);
    work.db.wait_for_compaction().unwrap();
    work.ranges(200_000);
    let advice = work.advice();
    let read = || work.db.stats().counters.compaction_bytes_read;
    let before = read();
    work.db.redesign(advice.best.design).unwrap();
    work.db.wait_for_compaction().unwrap();
    let share = (read() - before) as f64 / advice.move_bytes as f64;
    // Merges drop what is dead, of which nobody knows before.
    assert!(
        (0.4..1.3).contains(&share),
        "{share} of what was told: {advice:?}"
    );
}

const AUTO: AutoDesign = AutoDesign::new().every(4_000).horizon(200_000).factor(2.0);

#[test]
fn a_workload_that_turns_once_is_followed() {
    let mut work = Workload::new(Some(AUTO));
    let first = work.design();
    work.load();
    work.updates(120_000);
    let writing = work.design();
    assert_ne!(writing, first, "the design of a written database");
    let mut moved = 0;
    let mut last = writing;
    for _ in 0..30 {
        work.ranges(5_000);
        moved += u32::from(work.design() != last);
        last = work.design();
    }
    assert!((1..=3).contains(&moved), "{moved} moves");
    assert!(
        matches!(last.merge_policy, MergePolicy::Leveling { .. }),
        "{last:?}"
    );
    work.db.wait_for_compaction().unwrap();
    let runs = |db: &Db| -> usize {
        let levels = db.stats().keyspaces.remove(0).levels;
        levels.iter().map(|level| level.runs).sum()
    };
    assert!(runs(&work.db) <= 6, "{}", runs(&work.db));
    work.db.verify().unwrap().check().unwrap();
}

#[test]
fn a_workload_that_turns_quickly_back_and_forth_is_taken_for_a_mixture() {
    let mut work = Workload::new(Some(AUTO));
    work.load();
    let mut last = work.design();
    let mut moves = Vec::new();
    for turn in 0..120 {
        match turn % 2 {
            0 => work.updates(3_000),
            _ => work.ranges(3_000),
        }
        if work.design() != last {
            last = work.design();
            moves.push((turn, last));
        }
    }
    // From the first design to that of the mixture, and once more when more is known.
    assert!(moves.len() <= 2, "{moves:#?}");
    assert!(moves.iter().all(|(turn, _)| *turn < 80), "{moves:?}");
}

#[test]
fn what_a_log_brings_back_was_not_asked_for_now() {
    let fs = MemFs::new();
    let open = |fs: &MemFs| small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let db = open(&fs);
    for number in 0..50 {
        db.put(key(number), [3; 60]).unwrap();
    }
    let operations = |db: &Db| db.stats().keyspaces[0].workload.operations;
    assert!(operations(&db) > 49.0);
    // As after a crash: nobody closed it.
    let again = open(&fs.deep_clone());
    assert!(again.get(key(7)).unwrap().is_some());
    assert!(operations(&again) <= 1.0, "{}", operations(&again));
}

#[test]
fn nothing_moves_by_itself_unless_asked_to() {
    let mut work = Workload::new(None);
    let first = work.design();
    work.load();
    work.updates(40_000);
    assert!(work.advice().gain() > 0.0);
    assert_eq!(work.design(), first);
}

#[test]
fn the_device_is_measured_when_nobody_says_what_it_costs() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new()
        .background_threads(0)
        .keyspace(small_keyspace())
        .open(dir.path())
        .unwrap();
    for number in 0..5_000 {
        db.put(key(number), [3; 60]).unwrap();
    }
    let device = db.advise().unwrap().unwrap().device;
    assert!(
        device.read_seconds > 0.0 && device.read_seconds < 1.0,
        "{device:?}"
    );
    assert!((0.01..=100.0).contains(&device.write_cost), "{device:?}");
    assert!((0.01..=1.0).contains(&device.merge_read_cost), "{device:?}");
    assert_eq!(
        db.advise().unwrap().unwrap().device,
        device,
        "once is enough"
    );
    assert!(!dir.path().join("DEVICE.tmp").exists());
}

#[test]
fn nonsense_is_refused_by_name() {
    let refused = |auto_design| {
        let options = KeyspaceOptions::new().auto_design(auto_design);
        options.validate().unwrap_err().to_string()
    };
    assert!(refused(AUTO.every(10)).contains("auto_design"));
    assert!(refused(AUTO.horizon(10)).contains("horizon"));
    assert!(refused(AUTO.factor(0.5)).contains("factor"));
    for (read_seconds, write_cost) in [(0.0, 1.0), (1e-4, -1.0), (f64::NAN, 1.0)] {
        let costs = DeviceCosts::new(read_seconds)
            .write_cost(write_cost)
            .merge_read_cost(1.0);
        let error = options(None).device(costs).validate().unwrap_err();
        assert!(error.to_string().contains("device"), "{error}");
    }
}
