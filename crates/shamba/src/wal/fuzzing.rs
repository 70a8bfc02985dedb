//! Logs of any bytes ([`crate::fuzzing`]): surveyed and replayed in every mode.

use std::path::{Path, PathBuf};

use super::format::{Decoded, LOG_HEADER, LogHeader, MAGIC, RECORD_HEADER, RecordHeader, VERSION};
use super::*;
use crate::base::checksum::checksum;
use crate::base::coding::{take_u32, take_u64};
use crate::fs::MemFs;
use crate::fuzzing::{Input, chunked};

/// The bytes as a log whose checksums are right, as far as lengths lead from record to record.
pub(crate) fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(head) = out.first_chunk_mut::<LOG_HEADER>() else {
        return out;
    };
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(0, &head[..LOG_HEADER - 4]);
    head[LOG_HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
    let Decoded::Header(log) = LogHeader::decode(&out) else {
        panic!("a repaired header is sound");
    };
    let mut at = LOG_HEADER;
    while let Some(mut head) = out.get(at..at + RECORD_HEADER) {
        let payload_len = take_u32(&mut head).unwrap_or(0);
        let _sum = take_u32(&mut head);
        let first_seq = take_u64(&mut head).unwrap_or(0);
        let synced = take_u64(&mut head).unwrap_or(0);
        let from = at + RECORD_HEADER;
        let Some(payload) = out.get(from..from + payload_len as usize) else {
            break;
        };
        let header = RecordHeader {
            payload_len,
            payload_sum: checksum(log.salt, payload),
            first_seq,
            synced,
        };
        let mut bytes = Vec::new();
        header.encode_into(&mut bytes, log.salt, log.base.saturating_add(at as u64));
        out[at..from].copy_from_slice(&bytes);
        at = from + payload_len as usize;
    }
    out
}

/// A byte of which bit `i` says that log `i` is repaired, another that says whether logs are listed
/// with what is known of them, numbers that say how far they have to reach, and up to four logs.
pub(crate) fn log(data: &[u8]) {
    let mut input = Input(data);
    let (repair, listed) = (input.byte(), input.byte());
    let reached = Reached {
        durable: input.u16().into(),
        in_tables: input.u16().into(),
    };
    let fs = MemFs::new();
    let mut logs = Vec::new();
    for number in 0..4u64 {
        if input.is_empty() {
            break;
        }
        let bytes = input.chunk();
        let bytes = match repair >> number & 1 {
            0 => bytes.to_vec(),
            _ => repaired(bytes),
        };
        let path = PathBuf::from(format!("/{number}"));
        fs.write_file(&path, &bytes).expect("a file in memory");
        let header = match LogHeader::decode(&bytes) {
            Decoded::Header(header) if listed & 1 == 1 => Some(header),
            _ => None,
        };
        let info = header.map(|header| header.info());
        logs.push(NeededLog { path, info });
    }
    let read = |mode| {
        let survey = Survey::of(&fs, logs.clone(), reached, mode).ok()?;
        let mut records = Vec::new();
        let outcome = survey.replay(&fs, &mut |record| {
            assert!(!record.payload.is_empty(), "a record without bytes");
            records.push((record.position, record.first_seq, record.payload.to_vec()));
            Ok(())
        });
        let outcome = outcome.expect("logs that were surveyed can be replayed");
        assert_eq!(outcome.records, records.len() as u64);
        assert_eq!(outcome.end, survey.end());
        Some(records)
    };
    let strict = read(RecoveryMode::AbsoluteConsistency);
    let tolerant = read(RecoveryMode::TolerateTornTail);
    let to_a_moment = read(RecoveryMode::PointInTime);
    read(RecoveryMode::SkipDamaged).expect("what can be read is salvaged");
    if strict.is_some() {
        assert_eq!(strict, tolerant, "sound logs are read alike");
    }
    if tolerant.is_some() && to_a_moment.is_some() {
        assert_eq!(tolerant, to_a_moment, "both end at the first damage");
    }
}

pub(crate) fn log_seeds() -> Vec<Vec<u8>> {
    let fs = MemFs::new();
    let mut logs = Vec::new();
    let mut base = 0;
    for number in 0..3 {
        let path = format!("/{number}");
        let start = LogStart {
            number,
            base,
            synced: base,
            buffer: 1 << 10,
            seed: 7,
        };
        let mut log = LogWriter::create(&fs, Path::new(&path), start).expect("a log in memory");
        for record in 0..=number {
            let payload = [record as u8; 21];
            log.append(record, &[&payload]).expect("a record");
            if record == 1 {
                log.sync().expect("a sync in memory");
            }
        }
        match number {
            2 => log.flush().expect("a flush in memory"),
            _ => log.seal().expect("a sealed log"),
        }
        base = log.position();
        logs.push(fs.read_file(&path).expect("the log"));
    }
    let all = || logs.iter().map(Vec::as_slice);
    let mut torn = logs.clone();
    for log in &mut torn {
        log.pop();
    }
    vec![
        chunked(&[0; 6], all()),
        chunked(&[15, 1, 0, 0, 0, 0], all()),
        chunked(&[0, 1, 100, 0, 50, 0], all()),
        chunked(&[0; 6], all().take(1)),
        chunked(&[0; 6], all().skip(1)),
        chunked(&[0; 6], torn.iter().map(Vec::as_slice)),
        chunked(&[15, 0, 0, 0, 0, 0], torn.iter().map(Vec::as_slice)),
        chunked(&[0; 6], torn.last().map(Vec::as_slice)),
    ]
}
