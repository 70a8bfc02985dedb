//! Logs written, damaged in every way, and read back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::format::LogInfo;
use super::format::{LOG_HEADER, LogHeader, RECORD_HEADER, VERSION};
use super::reader::{LogDamage, LogEnd, read_log};
use super::recovery::{RecoveryOutcome, decide};
use super::*;
use crate::base::checksum::checksum;
use crate::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use crate::{Error, Result};

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateTornTail,
    RecoveryMode::PointInTime,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::SkipDamaged,
];

type Records = Vec<(u64, Vec<u8>)>;

fn start(number: u64, base: u64, synced: u64) -> LogStart {
    LogStart {
        buffer: 64 << 10,
        number,
        base,
        synced,
        seed: 77,
    }
}

fn dyn_fs(fs: &MemFs) -> Arc<dyn Fs> {
    Arc::new(fs.clone())
}

fn create(fs: &MemFs, path: &str, start: LogStart) -> LogWriter {
    LogWriter::create(fs, path.as_ref(), start).unwrap()
}

fn needed(paths: &[&str]) -> Vec<NeededLog> {
    let log = |path: &&str| NeededLog {
        path: PathBuf::from(path),
        info: None,
    };
    paths.iter().map(log).collect()
}

fn recover(fs: &MemFs, paths: &[&str], mode: RecoveryMode) -> Result<(RecoveryOutcome, Records)> {
    let mut records = Records::new();
    let outcome = recover_logs(fs, needed(paths), mode, &mut |record| {
        records.push((record.first_seq, record.payload.to_vec()));
        Ok(())
    })?;
    assert_eq!(outcome.records, records.len() as u64);
    Ok((outcome, records))
}

fn tolerant(fs: &MemFs, paths: &[&str]) -> Result<(RecoveryOutcome, Records)> {
    recover(fs, paths, RecoveryMode::TolerateTornTail)
}

fn sample(count: u64) -> Records {
    (1..=count)
        .map(|i| (i, vec![i as u8; (i * 7 % 40 + 1) as usize]))
        .collect()
}

fn append_all(log: &mut LogWriter, records: &[(u64, Vec<u8>)]) {
    for (seq, payload) in records {
        let (a, b) = payload.split_at(payload.len() / 2);
        log.append(*seq, &[a, &[], b]).unwrap();
    }
}

/// A log of `count` records, every third synced, sealed or not.
fn write_log(fs: &MemFs, path: &str, start: LogStart, count: u64, seal: bool) -> (Records, u64) {
    let mut log = create(fs, path, start);
    let records = sample(count);
    for part in records.chunks(3) {
        append_all(&mut log, part);
        if part.len() == 3 {
            log.sync().unwrap();
        }
    }
    if seal {
        log.seal().unwrap();
    }
    log.flush().unwrap();
    (records, log.position())
}

fn damaged(result: Result<(RecoveryOutcome, Records)>, what: &str) {
    match result {
        Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
        Ok((_, records)) => panic!("{what}: gave {} records", records.len()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(
        logs in prop::collection::vec(
            prop::collection::vec((any::<u64>(), 1usize..100_000, 0u8..4), 0..12), 1..4),
        base in 0u64..1 << 60,
        sealed in any::<bool>(),
    ) {
        let fs = MemFs::new();
        let mut expected = Records::new();
        let mut paths = Vec::new();
        let mut position = base;
        for (number, ops) in logs.iter().enumerate() {
            let path = format!("/{number}");
            let mut log = create(&fs, &path, start(number as u64, position, position));
            for (i, (seq, len, then)) in ops.iter().enumerate() {
                // Mostly small records, some that pass the buffer by.
                let len = if i % 4 == 0 { *len } else { len % 300 + 1 };
                let payload: Vec<u8> = (0..len).map(|b| (b * 31 + i) as u8).collect();
                let at = log.position();
                let parts = [&payload[..len / 3], &payload[len / 3..]];
                prop_assert_eq!(log.append(*seq, &parts).unwrap(), at);
                prop_assert_eq!(log.position(), at + (RECORD_HEADER + len) as u64);
                expected.push((*seq, payload));
                match then {
                    0 => log.flush().unwrap(),
                    1 => log.sync().unwrap(),
                    _ => {}
                }
                prop_assert!(log.synced() <= log.position());
                prop_assert!(log.memory() <= 64 << 10);
            }
            if sealed {
                log.seal().unwrap();
                let error = log.append(1, &[b"x"]).unwrap_err();
                prop_assert_eq!(error.to_string(), Error::Closed.to_string());
            }
            log.sync().unwrap();
            position = log.position();
            paths.push(path);
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        for mode in MODES {
            let (outcome, records) = recover(&fs, &paths, mode).unwrap();
            prop_assert_eq!(&records, &expected);
            prop_assert_eq!(outcome.end, position);
            prop_assert_eq!(outcome.stopped, None);
        }
    }

    /// Two logs with syncs in between, then a power failure: what is found is a prefix that has
    /// everything synced, and it is never taken for corruption.
    #[test]
    fn a_crash_leaves_a_prefix_with_all_that_was_synced(
        ops in prop::collection::vec((1usize..9000, 0u8..8), 1..30),
        rotate_at in 0usize..30,
        sealed in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let fs = MemFs::new();
        let mut log = create(&fs, "/1", start(1, 0, 0));
        let (mut paths, mut synced, mut all) = (vec!["/1"], 0, Records::new());
        let mut rotated_dirty = false;
        for (i, (len, then)) in ops.iter().enumerate() {
            if i == rotate_at {
                if sealed {
                    log.seal().unwrap();
                    synced = all.len();
                } else {
                    log.flush().unwrap();
                }
                rotated_dirty = !sealed;
                log = create(&fs, "/2", start(2, log.position(), log.synced()));
                paths.push("/2");
            }
            let payload: Vec<u8> = (0..*len).map(|b| (b % 251) as u8 ^ i as u8).collect();
            log.append(i as u64, &[&payload]).unwrap();
            all.push((i as u64, payload));
            match then {
                0 => log.flush().unwrap(),
                1 => {
                    log.sync().unwrap();
                    // Behind a predecessor that is not durable, nothing counts as durable.
                    if !rotated_dirty || log.synced() == log.position() {
                        synced = all.len();
                    }
                }
                _ => {}
            }
        }
        for i in 0..8 {
            let crash = fs.crash_clone(seed.wrapping_add(i));
            let (outcome, records) = tolerant(&crash, &paths).unwrap();
            prop_assert!(records.len() >= synced, "{} of {} synced", records.len(), synced);
            prop_assert_eq!(&records[..], &all[..records.len()]);
            // Life goes on at the end found, next to what the crash left.
            let mut log = create(&crash, "/3", start(3, outcome.end, outcome.end));
            log.append(99, &[b"after"]).unwrap();
            log.sync().unwrap();
            let mut paths = paths.clone();
            paths.push("/3");
            let (_, again) = tolerant(&crash, &paths).unwrap();
            prop_assert_eq!(again.len(), records.len() + 1);
            prop_assert_eq!(again.last().unwrap(), &(99, b"after".to_vec()));
        }
    }
}

#[test]
fn a_tail_torn_at_any_byte_ends_quietly() {
    let fs = MemFs::new();
    let (records, _) = write_log(&fs, "/1", start(1, 500, 500), 10, true);
    let bytes = fs.read_file("/1").unwrap();
    let mut last = 0;
    for len in 0..bytes.len() {
        for zeros in [0, 100] {
            let mut torn = bytes[..len].to_vec();
            torn.resize(len + zeros, 0);
            fs.write_file("/1", &torn).unwrap();
            let (outcome, left) = tolerant(&fs, &["/1"]).unwrap();
            assert_eq!(left[..], records[..left.len()], "cut at {len}");
            assert!(left.len() >= last);
            last = left.len();
            let header = 500 + LOG_HEADER as u64;
            assert!(outcome.end == 0 && left.is_empty() || outcome.end >= header);
            let (_, same) = recover(&fs, &["/1"], RecoveryMode::PointInTime).unwrap();
            assert_eq!(same, left);
            if zeros > 0 || outcome.end != 500 + len as u64 {
                assert!(outcome.stopped.is_some(), "cut at {len}");
                let strict = recover(&fs, &["/1"], RecoveryMode::AbsoluteConsistency);
                damaged(strict, "a torn tail");
            }
        }
    }
    assert_eq!(last, records.len());
}

#[test]
fn a_flip_of_any_byte_of_a_sealed_log_is_noticed_or_harmless() {
    let fs = MemFs::new();
    let (records, end) = write_log(&fs, "/1", start(1, 500, 500), 10, true);
    let bytes = fs.read_file("/1").unwrap();
    let seal = bytes.len() - RECORD_HEADER;
    assert_eq!(end, 500 + seal as u64);
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff, bytes[at]] {
            let mut flipped = bytes.clone();
            flipped[at] ^= mask;
            if flipped == bytes {
                continue;
            }
            fs.write_file("/1", &flipped).unwrap();
            let result = tolerant(&fs, &["/1"]);
            if at < seal {
                damaged(result, &format!("byte {at}"));
            } else {
                assert_eq!(result.unwrap().1, records);
            }
            damaged(
                recover(&fs, &["/1"], RecoveryMode::AbsoluteConsistency),
                "strict",
            );
            let (_, prefix) = recover(&fs, &["/1"], RecoveryMode::PointInTime).unwrap();
            assert_eq!(prefix[..], records[..prefix.len()]);
            let (outcome, salvaged) = recover(&fs, &["/1"], RecoveryMode::SkipDamaged).unwrap();
            assert!(outcome.stopped.is_some());
            if (LOG_HEADER..seal).contains(&at) {
                assert_eq!(salvaged.len(), records.len() - 1, "byte {at}");
                assert!(salvaged.iter().all(|record| records.contains(record)));
                assert!(outcome.end >= prefix.len() as u64);
            }
        }
    }
}

/// Three records; the second is damaged; `sync` says what was synced before the third.
fn with_hole(sync: bool) -> (MemFs, u64) {
    let fs = MemFs::new();
    let mut log = create(&fs, "/1", start(1, 0, 0));
    log.append(1, &[b"first"]).unwrap();
    log.sync().unwrap();
    let hole = log.append(2, &[b"second"]).unwrap();
    if sync {
        log.sync().unwrap();
    }
    log.append(3, &[b"third"]).unwrap();
    log.flush().unwrap();
    let mut bytes = fs.read_file("/1").unwrap();
    bytes[hole as usize..][..RECORD_HEADER + 6].fill(0);
    fs.write_file("/1", &bytes).unwrap();
    (fs, hole)
}

#[test]
fn a_hole_in_durable_records_is_an_error_and_one_in_others_is_the_end() {
    let (fs, hole) = with_hole(true);
    match tolerant(&fs, &["/1"]).unwrap_err() {
        Error::Corruption { file, offset, .. } => {
            assert_eq!((file, offset), (PathBuf::from("/1"), hole));
        }
        other => panic!("{other}"),
    }
    for (fs, mode) in [
        (with_hole(false).0, RecoveryMode::TolerateTornTail),
        (with_hole(false).0, RecoveryMode::PointInTime),
        (with_hole(true).0, RecoveryMode::PointInTime),
    ] {
        let (outcome, records) = recover(&fs, &["/1"], mode).unwrap();
        assert_eq!(records, [(1, b"first".to_vec())]);
        assert_eq!(outcome.end, hole);
        assert_eq!(outcome.stopped.unwrap().offset, hole);
    }
    let (_, records) = recover(&fs, &["/1"], RecoveryMode::SkipDamaged).unwrap();
    assert_eq!(records, [(1, b"first".to_vec()), (3, b"third".to_vec())]);
}

#[test]
fn a_hole_in_the_middle_of_several_logs() {
    let build = |seal: bool| {
        let fs = MemFs::new();
        let (first, end) = write_log(&fs, "/1", start(1, 0, 0), 6, seal);
        let synced = if seal { end } else { 0 };
        let (second, _) = write_log(&fs, "/2", start(2, end, synced), 6, true);
        (fs, [first, second].concat())
    };
    for seal in [true, false] {
        let (fs, all) = build(seal);
        assert_eq!(tolerant(&fs, &["/1", "/2"]).unwrap().1, all);
        // Without the first log the second starts the sequence; the caller knows which exist.
        assert_eq!(tolerant(&fs, &["/2"]).unwrap().1, all[6..]);
    }
    // A torn end of a predecessor that was sealed: its successor says so.
    let (fs, all) = build(true);
    let bytes = fs.read_file("/1").unwrap();
    fs.write_file("/1", &bytes[..bytes.len() - RECORD_HEADER - 1])
        .unwrap();
    damaged(tolerant(&fs, &["/1", "/2"]), "a durable end is gone");
    let (_, records) = recover(&fs, &["/1", "/2"], RecoveryMode::PointInTime).unwrap();
    assert_eq!(records, all[..5]);
    let (_, records) = recover(&fs, &["/1", "/2"], RecoveryMode::SkipDamaged).unwrap();
    assert_eq!(records, [&all[..5], &all[6..]].concat());
    // The seal alone is no loss.
    fs.write_file("/1", &bytes[..bytes.len() - 5]).unwrap();
    assert_eq!(tolerant(&fs, &["/1", "/2"]).unwrap().1, all);
    damaged(
        recover(&fs, &["/1", "/2"], RecoveryMode::AbsoluteConsistency),
        "a torn seal",
    );
    // A whole log in the middle is gone.
    let (_, end) = write_log(
        &fs,
        "/2",
        start(2, tolerant(&fs, &["/1"]).unwrap().0.end, 0),
        3,
        true,
    );
    write_log(&fs, "/3", start(3, end, end), 3, true);
    damaged(tolerant(&fs, &["/1", "/3"]), "a log is gone");
    // The end of a predecessor that nobody called durable.
    let (fs, all) = build(false);
    let bytes = fs.read_file("/1").unwrap();
    fs.write_file("/1", &bytes[..bytes.len() - 1]).unwrap();
    let (outcome, records) = tolerant(&fs, &["/1", "/2"]).unwrap();
    assert_eq!(records, all[..5]);
    assert_eq!(outcome.stopped.unwrap().path, Path::new("/1"));
}

#[test]
fn a_log_without_its_header() {
    let fs = MemFs::new();
    let (first, end) = write_log(&fs, "/1", start(1, 0, 0), 6, true);
    write_log(&fs, "/2", start(2, end, end), 6, true);
    let second = fs.read_file("/2").unwrap();
    // The header of the last log was never durable.
    for torn in [&[][..], &second[..20], &[0; 44], &[0; 9000]] {
        fs.write_file("/2", torn).unwrap();
        let (outcome, records) = tolerant(&fs, &["/1", "/2"]).unwrap();
        assert_eq!((outcome.end, &records), (end, &first));
        damaged(
            recover(&fs, &["/1", "/2"], RecoveryMode::AbsoluteConsistency),
            "strict",
        );
        // Alone, it is the beginning of nothing, until a log starts afresh.
        assert_eq!(tolerant(&fs, &["/2"]).unwrap().0.end, 0);
        let (third, _) = write_log(&fs, "/3", start(3, 0, 0), 2, false);
        assert_eq!(tolerant(&fs, &["/2", "/3"]).unwrap().1, third);
    }
    // A successor that calls it durable.
    write_log(&fs, "/3", start(3, end + 5000, end + 5000), 2, false);
    damaged(
        tolerant(&fs, &["/1", "/2", "/3"]),
        "a durable log's header is gone",
    );
    damaged(
        tolerant(&fs, &["/2", "/3"]),
        "the first log's header is gone",
    );
    // Bytes a crash does not leave.
    fs.write_file("/2", &[&[0; 44], &second[44..]].concat())
        .unwrap();
    damaged(tolerant(&fs, &["/1", "/2"]), "a damaged header");
    let (_, records) = recover(&fs, &["/1", "/2"], RecoveryMode::PointInTime).unwrap();
    assert_eq!(records, first);
    let (_, records) = recover(&fs, &["/2", "/1"], RecoveryMode::SkipDamaged).unwrap();
    assert_eq!(records, first);
}

#[test]
fn a_payload_that_holds_a_log_fools_nobody() {
    // The inner log is as like the outer one as can be: same number, base and seed, and its
    // records say that everything was durable.
    let inner = MemFs::new();
    write_log(&inner, "/1", start(1, 0, 0), 12, true);
    let copy = inner.read_file("/1").unwrap();
    for seed in [77, 78] {
        let fs = MemFs::new();
        let mut log = create(
            &fs,
            "/1",
            LogStart {
                seed,
                ..start(1, 0, 0)
            },
        );
        log.append(1, &[b"first"]).unwrap();
        let at = log.append(2, &[&copy, &copy]).unwrap() as usize;
        log.flush().unwrap();
        let whole = fs.read_file("/1").unwrap();
        for flip in [at, at + RECORD_HEADER + copy.len() + 3] {
            let mut bytes = whole.clone();
            bytes[flip] ^= 1;
            fs.write_file("/1", &bytes).unwrap();
            for mode in [RecoveryMode::TolerateTornTail, RecoveryMode::SkipDamaged] {
                let (_, records) = recover(&fs, &["/1"], mode).unwrap();
                assert_eq!(records, [(1, b"first".to_vec())]);
            }
        }
    }
}

#[test]
fn blocks_of_an_older_file_are_no_records() {
    let fs = MemFs::new();
    write_log(&fs, "/1", start(1, 0, 0), 9, true);
    let old = fs.read_file("/1").unwrap();
    let (records, _) = write_log(&fs, "/2", start(2, 0, 0), 6, false);
    let new = fs.read_file("/2").unwrap();
    // Same base and same lengths, so the old records line up behind the new ones.
    fs.write_file("/2", &[&new, &old[new.len()..]].concat())
        .unwrap();
    let (_, left) = recover(&fs, &["/2"], RecoveryMode::SkipDamaged).unwrap();
    assert_eq!(left, records);
    assert_eq!(tolerant(&fs, &["/2"]).unwrap().1, records);
}

#[test]
fn a_newer_format_is_refused_in_every_mode() {
    let fs = MemFs::new();
    write_log(&fs, "/1", start(1, 0, 0), 3, true);
    let mut bytes = fs.read_file("/1").unwrap();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let sum = checksum(0, &bytes[..40]);
    bytes[40..44].copy_from_slice(&sum.to_le_bytes());
    fs.write_file("/1", &bytes).unwrap();
    for mode in MODES {
        match recover(&fs, &["/1"], mode).unwrap_err() {
            Error::UnsupportedFormat {
                found, supported, ..
            } => {
                assert_eq!((found, supported), (VERSION + 1, VERSION));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_log_read_alone_says_how_it_ends() {
    let fs = MemFs::new();
    let (records, end) = write_log(&fs, "/1", start(9, 500, 400), 7, false);
    let mut seen = Vec::new();
    let log = read_log(&fs, "/1".as_ref(), RecoveryMode::default(), &mut |record| {
        assert_eq!(record.log, 9);
        seen.push((record.position, record.payload.len()));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen.len(), records.len());
    assert_eq!(seen[0].0, 500 + LOG_HEADER as u64);
    assert_eq!(log.damage, None);
    assert_eq!(
        log.info,
        Some(LogInfo {
            number: 9,
            base: 500,
            salt: log.info.map_or(0, |info| info.salt),
        })
    );
    assert_eq!((log.valid_end, log.last_end), (end, end));
    assert_eq!((log.max_synced, log.later_synced), (400, None));
    let stop = read_log(&fs, "/1".as_ref(), RecoveryMode::default(), &mut |_| {
        Err(Error::Closed)
    });
    assert!(matches!(stop, Err(Error::Closed)));
}

#[test]
fn large_records_pass_the_buffer_by() {
    let fs = MemFs::new();
    let mut log = create(&fs, "/1", start(1, 0, 0));
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 255) as u8).collect();
    log.append(1, &[b"small"]).unwrap();
    assert_eq!(fs.total_bytes(), 0, "small records wait in the buffer");
    log.append(2, &[&large, b"tail"]).unwrap();
    assert_eq!(fs.total_bytes(), log.len());
    assert!(log.memory() <= 64 << 10);
    log.append(3, &[b"after"]).unwrap();
    log.flush().unwrap();
    let (_, records) = tolerant(&fs, &["/1"]).unwrap();
    assert_eq!(records[1].1, [&large[..], b"tail"].concat());
    assert_eq!(records.len(), 3);
}

#[test]
fn a_failure_stops_the_writer_for_good() {
    for (op, nth) in [
        (Op::Append, 0),
        (Op::Sync, 0),
        (Op::Sync, 1),
        (Op::Append, 1),
    ] {
        let faults = Faults::new();
        let mem = MemFs::new();
        let fs = FaultFs::new(dyn_fs(&mem), faults.clone());
        let mut log = LogWriter::create(&fs, "/1".as_ref(), start(1, 0, 0)).unwrap();
        faults.add(Fault::new(Effect::Fail(FaultError::EIO)).on(op).after(nth));
        log.append(1, &[b"one"]).unwrap();
        let first = log.sync().and_then(|()| {
            log.append(2, &[b"two"])?;
            log.sync()
        });
        let text = first.unwrap_err().to_string();
        let position = log.position();
        for result in [
            log.append(3, &[b"x"]).map(drop),
            log.flush(),
            log.sync(),
            log.seal(),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.to_string(), text);
            let Error::Io { source, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(
                source.raw_os_error(),
                FaultError::EIO.to_error().raw_os_error()
            );
        }
        assert_eq!(log.position(), position);
        // Whatever part of a failed append arrived, what comes back is a prefix.
        let (_, records) = tolerant(&mem, &["/1"]).unwrap();
        assert!(records.len() <= 2 && records.iter().zip(1..).all(|(r, i)| r.0 == i));
    }
}

/// Records of any length meet a full disk at any append: none of a refused one is left, and once
/// there is room the log goes on as if it had never been asked for.
#[test]
fn a_log_goes_on_when_there_is_room_again() {
    let mut met = 0;
    for nth in 0..12 {
        for then in ["append", "flush", "cut"] {
            let (faults, mem) = (Faults::new(), MemFs::new());
            let fs = FaultFs::new(dyn_fs(&mem), faults.clone());
            let start = LogStart {
                buffer: 300,
                ..start(1, 0, 0)
            };
            let mut log = LogWriter::create(&fs, "/1".as_ref(), start).unwrap();
            let full = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Append);
            faults.add(full.after(nth).times(2));
            let mut kept = Records::new();
            let mut whole = log.len();
            for (seq, len) in (1..).zip([10, 40, 5, 900, 20, 1, 299, 3000, 7, 60, 2]) {
                let record = vec![seq as u8; len];
                let (a, b) = record.split_at(len / 3);
                let appended = log.append(seq, &[a, b]).map(drop);
                let outcome = appended.and_then(|()| log.flush());
                assert!(!log.is_stopped(), "{outcome:?}");
                match (outcome, then) {
                    (Ok(()), _) => kept.push((seq, record)),
                    // Its own flush failed, or none of it is there.
                    (Err(_), "flush") => {
                        met += 1;
                        if log.len() > whole {
                            kept.push((seq, record));
                        }
                        let _ = log.flush();
                    }
                    (Err(_), _) => {
                        met += 1;
                        log.cut_back(whole).unwrap();
                        assert_eq!(log.len(), whole);
                        let found = tolerant(&mem, &["/1"]);
                        // Even the header may not have come to the file.
                        if let Ok((_, found)) = found {
                            assert_eq!(found, kept);
                        }
                    }
                }
                whole = log.len();
            }
            log.flush().unwrap();
            match then {
                "append" => log.sync().unwrap(),
                _ => log.seal().unwrap(),
            }
            let (outcome, records) = recover(&mem, &["/1"], MODES[2]).unwrap();
            assert_eq!(records, kept, "{nth}, then {then}");
            assert_eq!(outcome.end, log.position());
        }
    }
    assert!(met > 30, "{met}");
}

#[test]
fn a_log_that_cannot_be_cut_back_stops() {
    let (faults, mem) = (Faults::new(), MemFs::new());
    let fs = FaultFs::new(dyn_fs(&mem), faults.clone());
    let mut log = LogWriter::create(&fs, "/1".as_ref(), start(1, 0, 0)).unwrap();
    faults.add(Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Append));
    faults.add(Fault::new(Effect::Fail(FaultError::EIO)).on(Op::CutBack));
    log.append(1, &[b"one"]).unwrap();
    let first = log.flush().unwrap_err().to_string();
    assert!(log.is_stopped());
    assert_eq!(log.append(2, &[b"x"]).unwrap_err().to_string(), first);
    assert_eq!(log.sync().unwrap_err().to_string(), first);
}

#[test]
fn failed_reads_are_errors_and_not_the_end_of_the_log() {
    let mem = MemFs::new();
    write_log(&mem, "/1", start(1, 0, 0), 10, true);
    let faults = Faults::new();
    let fs = FaultFs::new(dyn_fs(&mem), faults.clone());
    let run = || {
        recover_logs(&fs, needed(&["/1"]), RecoveryMode::SkipDamaged, &mut |_| {
            Ok(())
        })
    };
    run().unwrap();
    let total = faults.total();
    assert!(total >= 4);
    for nth in 0..total {
        for effect in [Effect::Fail(FaultError::EIO), Effect::Short] {
            faults.add(Fault::new(effect).after(nth));
            assert!(matches!(run(), Err(Error::Io { .. })), "operation {nth}");
        }
    }
}

#[test]
fn a_claim_of_durability_waits_for_the_predecessors() {
    let fs = MemFs::new();
    let mut log = create(&fs, "/2", start(2, 1000, 300));
    log.append(1, &[b"x"]).unwrap();
    log.sync().unwrap();
    assert_eq!(log.synced(), 300);
    log.predecessors_synced();
    assert_eq!(log.synced(), 1000);
    log.sync().unwrap();
    assert_eq!(log.synced(), log.position());
    assert_eq!((log.number(), log.path()), (2, Path::new("/2")));
}

#[test]
fn headers_round_trip_and_any_flip_is_noticed() {
    let header = LogHeader {
        salt: 1,
        number: 2,
        base: 3,
        synced: 4,
    };
    let mut bytes = Vec::new();
    header.encode_into(&mut bytes);
    assert_eq!(
        LogHeader::decode(&bytes),
        super::format::Decoded::Header(header)
    );
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(LogHeader::decode(&flipped), super::format::Decoded::Invalid);
    }
}

fn end(number: u64, base: u64, valid_end: u64) -> LogEnd {
    LogEnd {
        path: PathBuf::from(format!("{number}.log")),
        info: Some(LogInfo {
            number,
            base,
            salt: 7,
        }),
        valid_end,
        damage: None,
        later_synced: None,
        max_synced: base,
        last_end: valid_end,
        longest: 0,
    }
}

#[test]
fn the_chain_passes_over_logs_an_earlier_recovery_gave_up() {
    let torn = LogEnd {
        damage: Some(LogDamage {
            offset: 100,
            what: "torn",
            certain: false,
        }),
        ..end(1, 0, 100)
    };
    let given_up = LogEnd {
        max_synced: 50,
        ..end(2, 300, 400)
    };
    let ends = [torn, given_up, end(3, 100, 200)];
    let plan = decide(
        &ends,
        None,
        Reached::default(),
        RecoveryMode::TolerateTornTail,
    )
    .unwrap();
    assert_eq!(plan.logs, [(0, 100), (2, 200)]);
    assert_eq!((plan.end, plan.stopped), (200, None));
    decide(
        &ends,
        None,
        Reached::default(),
        RecoveryMode::AbsoluteConsistency,
    )
    .unwrap_err();
    let before = decide(
        &ends[..2],
        None,
        Reached::default(),
        RecoveryMode::TolerateTornTail,
    )
    .unwrap();
    assert_eq!(before.logs, [(0, 100)]);
    assert_eq!(before.stopped.unwrap().path, Path::new("1.log"));
}

#[test]
fn no_logs_are_an_empty_history() {
    for mode in MODES {
        let plan = decide(&[], None, Reached::default(), mode).unwrap();
        assert_eq!((plan.logs.len(), plan.end, plan.stopped), (0, 0, None));
    }
}
