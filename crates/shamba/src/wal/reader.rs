//! Reading one log, with a bounded buffer, from the first record to wherever it validly ends.
//!
//! What is wrong with the bytes is data here ([`LogEnd`]); only failed reads and newer formats are
//! errors. Whether damage is one is for [`super::recovery`] to judge.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    Decoded, LOG_HEADER, LogHeader, LogInfo, RECORD_HEADER, RecordHeader, VERSION,
};
use super::mode::RecoveryMode;
use crate::base::checksum::checksum;
use crate::fs::{Access, BlockKind, Fs, Purpose, ReadFile, ReadTag};
use crate::{Error, Result};

/// The bytes read at a time.
const WINDOW: usize = 64 << 10;
/// The first bytes of a file, of which a torn write leaves a prefix.
const SECTOR: usize = 512;

/// A record as it is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The number of its log.
    pub(crate) log: u64,
    /// Its position.
    pub(crate) position: u64,
    /// The caller's number.
    pub(crate) first_seq: u64,
    /// The bytes, at least one.
    pub(crate) payload: &'a [u8],
}

/// The first bytes of a log that are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogDamage {
    /// Where, in bytes from the start of the file.
    pub(crate) offset: u64,
    /// What was expected.
    pub(crate) what: &'static str,
    /// Whether a crash alone cannot have done it.
    pub(crate) certain: bool,
}

impl LogDamage {
    /// What makes nothing of a log usable, and no crash does.
    pub(super) fn of_whole_log(what: &'static str) -> Self {
        LogDamage {
            offset: 0,
            what,
            certain: true,
        }
    }
}

/// How far a log is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The log's file.
    pub(crate) path: PathBuf,
    /// What its header says; `None` when the header is missing or damaged.
    pub(crate) info: Option<LogInfo>,
    /// The position after the last record before any damage; 0 without a header.
    pub(crate) valid_end: u64,
    /// The first damage; `None` when the file ends with a record.
    pub(crate) damage: Option<LogDamage>,
    /// What the valid records after the damage say was durable, at most. Not looked for in
    /// [`RecoveryMode::PointInTime`].
    pub(crate) later_synced: Option<u64>,
    /// What the header and the records before the damage say was durable, at most.
    pub(crate) max_synced: u64,
    /// The position after the last valid record anywhere in the file.
    pub(crate) last_end: u64,
    /// The payload of the longest valid record, in bytes.
    pub(crate) longest: u32,
}

impl LogEnd {
    /// A log without a header that counts.
    pub(super) fn headless(path: &Path, damage: Option<LogDamage>) -> Self {
        LogEnd {
            path: path.to_path_buf(),
            info: None,
            valid_end: 0,
            damage,
            later_synced: None,
            max_synced: 0,
            last_end: 0,
            longest: 0,
        }
    }

    /// The most anything valid in the log says was durable.
    pub(crate) fn claims(&self) -> u64 {
        self.max_synced.max(self.later_synced.unwrap_or(0))
    }
}

/// Reads one log: hands its records to `apply`, in order, up to the first damage (in
/// [`RecoveryMode::SkipDamaged`] also those after it), and tells where it ends. In
/// [`RecoveryMode::AbsoluteConsistency`] damage is an error.
#[cfg(test)]
pub(crate) fn read_log(
    fs: &dyn Fs,
    path: &Path,
    mode: RecoveryMode,
    apply: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<LogEnd> {
    walk(open_log(fs, path)?, path, mode, u64::MAX, Some(apply))
}

type Apply<'a> = Option<&'a mut dyn FnMut(Record<'_>) -> Result<()>>;

/// A log's file, `None` if it is missing.
pub(super) type LogFile = Option<Arc<dyn ReadFile>>;

/// Opens a log.
pub(super) fn open_log(fs: &dyn Fs, path: &Path) -> Result<LogFile> {
    match fs.open(path, Access::Buffered) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("open", path, e)),
    }
}

/// Reads one log up to the position `end`; without `apply` only its checksums.
pub(super) fn walk(
    file: LogFile,
    path: &Path,
    mode: RecoveryMode,
    end: u64,
    mut apply: Apply<'_>,
) -> Result<LogEnd> {
    let mut state = LogEnd::headless(path, None);
    let Some(file) = file else {
        state.damage = Some(LogDamage::of_whole_log("the log is missing"));
        return judged(state, mode);
    };
    // A log without a sound header has nothing in it that could be trusted.
    let mut log = Bytes {
        len: file.len(),
        file,
        path,
        window: Vec::new(),
        start: 0,
    };
    let header = match log.header()? {
        Ok(header) => header,
        Err(damage) => {
            state.damage = Some(damage);
            return judged(state, mode);
        }
    };
    state.info = Some(header.info());
    state.max_synced = header.synced;
    // The header says where in the history of logs this one begins.
    let mut offset = LOG_HEADER as u64;
    let position = |offset: u64| header.base.saturating_add(offset);
    state.valid_end = position(offset);
    state.last_end = state.valid_end;
    let mut payload = Vec::new();
    while offset < log.len && position(offset) < end {
        let wanted = apply.is_some().then_some(&mut payload);
        let record = match log.record(&header, offset, wanted)? {
            Ok(record) => record,
            Err(what) => {
                // The first damage is the one to be judged.
                if state.damage.is_none() {
                    state.damage = Some(LogDamage {
                        offset,
                        what,
                        certain: false,
                    });
                }
                if mode == RecoveryMode::PointInTime || mode == RecoveryMode::AbsoluteConsistency {
                    break;
                }
                // What is valid behind it may say that it was durable, so the search goes on.
                match log.scan(&header, offset + 1)? {
                    Some(next) => offset = next,
                    None => break,
                }
                continue;
            }
        };
        let next = offset + record.record_len();
        // Behind damage, too, a record says what was durable.
        let sound = state.damage.is_none();
        if sound {
            state.max_synced = state.max_synced.max(record.synced);
        } else {
            state.later_synced = state.later_synced.max(Some(record.synced));
        }
        // A seal: the log ends here, and nothing may follow.
        if record.payload_len == 0 {
            if sound && next < log.len {
                state.damage = Some(LogDamage {
                    offset: next,
                    what: "there are bytes behind the end of a sealed log",
                    certain: false,
                });
            }
            break;
        }
        state.last_end = position(next);
        state.longest = state.longest.max(record.payload_len);
        if sound {
            state.valid_end = position(next);
        }
        // Handed out: all before damage, and what follows it only to who asked for that.
        let wanted = sound || mode == RecoveryMode::SkipDamaged;
        if let Some(apply) = apply.as_mut().filter(|_| wanted) {
            apply(Record {
                log: header.number,
                position: position(offset),
                first_seq: record.first_seq,
                payload: &payload,
            })?;
        }
        offset = next;
    }
    judged(state, mode)
}

fn judged(state: LogEnd, mode: RecoveryMode) -> Result<LogEnd> {
    match &state.damage {
        Some(damage) if mode == RecoveryMode::AbsoluteConsistency => {
            Err(Error::corruption(&state.path, damage.offset, damage.what))
        }
        _ => Ok(state),
    }
}

/// A log's bytes behind a sliding window.
struct Bytes<'a> {
    file: Arc<dyn ReadFile>,
    len: u64,
    path: &'a Path,
    window: Vec<u8>,
    /// Where the window starts in the file.
    start: u64,
}

impl Bytes<'_> {
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let tag = ReadTag {
            kind: BlockKind::Log,
            last: None,
            purpose: Purpose::Background,
        };
        self.file
            .read_exact_at(buf, offset, tag)
            .map_err(|e| Error::io("read", self.path, e))
    }

    /// The bytes from `offset`: at least `want` (at most [`WINDOW`]) unless the file ends before.
    fn at(&mut self, offset: u64, want: usize) -> Result<&[u8]> {
        let have = self.start + self.window.len() as u64;
        let need = offset.saturating_add(want as u64).min(self.len);
        if offset < self.start || need > have {
            let count = self.len.saturating_sub(offset).min(WINDOW as u64);
            let mut window = std::mem::take(&mut self.window);
            window.resize(count as usize, 0);
            self.read(&mut window, offset)?;
            self.window = window;
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        Ok(self.window.get(skip..).unwrap_or_default())
    }

    /// The log's header, or how it is damaged.
    fn header(&mut self) -> Result<Result<LogHeader, LogDamage>> {
        let head = self.at(0, SECTOR)?;
        match LogHeader::decode(head) {
            Decoded::Header(header) => Ok(Ok(header)),
            Decoded::Newer(found) => Err(Error::UnsupportedFormat {
                file: self.path.to_path_buf(),
                found,
                supported: VERSION,
            }),
            Decoded::Invalid => {
                // A crash can tear the header off, but then nothing stands behind it either.
                let sector = head.get(..SECTOR).unwrap_or(head);
                let behind = sector.get(LOG_HEADER..).unwrap_or_default();
                Ok(Err(LogDamage {
                    offset: 0,
                    what: "the log's header is not valid",
                    certain: behind.iter().any(|&byte| byte != 0),
                }))
            }
        }
    }

    /// The header of the record at `offset`, if there is one and its payload is within the file.
    fn record_header(&mut self, log: &LogHeader, offset: u64) -> Result<Option<RecordHeader>> {
        let len = self.len;
        let bytes = self.at(offset, RECORD_HEADER)?;
        let header = RecordHeader::decode(bytes, log.salt, log.base.saturating_add(offset));
        Ok(header.filter(|header| header.record_len() <= len - offset))
    }

    /// The record at `offset`, its payload checked and, if wanted, kept.
    fn record(
        &mut self,
        log: &LogHeader,
        offset: u64,
        keep: Option<&mut Vec<u8>>,
    ) -> Result<Result<RecordHeader, &'static str>> {
        let Some(header) = self.record_header(log, offset)? else {
            return Ok(Err("the header of a log record is not valid"));
        };
        let from = offset + RECORD_HEADER as u64;
        let len = header.payload_len as usize;
        let sum = match keep {
            Some(payload) => {
                self.copy(from, len, payload)?;
                checksum(log.salt, payload)
            }
            None => self.sum(log.salt, from, len)?,
        };
        if sum != header.payload_sum {
            return Ok(Err("the checksum of a log record does not match"));
        }
        Ok(Ok(header))
    }

    /// Copies `len` bytes at `offset`, which are within the file, into `out`.
    fn copy(&mut self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if len <= WINDOW {
            let bytes = self.at(offset, len)?;
            out.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
            return Ok(());
        }
        out.resize(len, 0);
        self.read(out, offset)
    }

    /// The checksum of `len` bytes at `offset`.
    fn sum(&mut self, seed: u32, mut offset: u64, mut len: usize) -> Result<u32> {
        let mut sum = seed;
        while len > 0 {
            let bytes = self.at(offset, 1)?;
            let part = bytes.get(..len).unwrap_or(bytes);
            sum = checksum(sum, part);
            let count = part.len();
            if count == 0 {
                break;
            }
            offset += count as u64;
            len -= count;
        }
        Ok(sum)
    }

    /// The offset of the first valid record at or after `from`, at any byte.
    fn scan(&mut self, log: &LogHeader, from: u64) -> Result<Option<u64>> {
        let last = self.len.saturating_sub(RECORD_HEADER as u64);
        for offset in from..=last {
            if self.record_header(log, offset)?.is_some() && self.record(log, offset, None)?.is_ok()
            {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}
