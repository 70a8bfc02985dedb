//! Appending to a log. One thread at a time.
//!
//! After a failure nothing more happens: every further call returns the same error. One exception
//! is an append for which there was no room. What it left in the file is cut off again, durably, so
//! that the log ends with a whole record as before; what was not handed to the file stays in the
//! buffer, and a later call hands it over, or [`LogWriter::cut_back`] takes it out. A sync that
//! failed is never repeated: nobody knows what became of the pages.

use std::path::{Path, PathBuf};

use super::format::LogInfo;
use super::format::{LOG_HEADER, LogHeader, MAX_PAYLOAD, RECORD_HEADER, RecordHeader, salt};
use crate::base::checksum::checksum;
use crate::error::is_shortage;
use crate::fs::{Access, Fs, WriteFile};
use crate::{Error, Result};

/// The largest buffer for small records, in bytes.
const MAX_BUFFER: usize = 64 << 10;

/// Where a log starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogStart {
    /// The log's number.
    pub(crate) number: u64,
    /// The position where its predecessor validly ends; 0 for the first.
    pub(crate) base: u64,
    /// Up to where the predecessors are durable: `base` after a `seal`, or when there are none.
    pub(crate) synced: u64,
    /// Bytes of small records gathered before they are handed to the file, at most 64 KiB.
    pub(crate) buffer: usize,
    /// Anything that no other log has.
    pub(crate) seed: u64,
}

/// A log being written.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    header: LogHeader,
    /// The end of the last whole record, in the file or the buffer, in bytes from the file's start.
    len: u64,
    /// The bytes that the file holds, of which the last may be of a record that is not whole yet.
    in_file: u64,
    buffer: Vec<u8>,
    buffer_size: usize,
    /// Everything before this position is durable.
    synced: u64,
    sealed: bool,
    failure: Option<Error>,
}

impl LogWriter {
    /// Creates a log. Its name is durable at once, so that a recovery that finds a later log finds
    /// this one too; nothing reaches the file before the first flush.
    pub(crate) fn create(fs: &dyn Fs, path: &Path, start: LogStart) -> Result<Self> {
        let file = fs
            .create(path, Access::Buffered)
            .map_err(|e| Error::io("create", path, e))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        fs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        let header = LogHeader {
            salt: salt(start.seed, start.number),
            number: start.number,
            base: start.base,
            synced: start.synced.min(start.base),
        };
        let buffer_size = start.buffer.clamp(LOG_HEADER + RECORD_HEADER, MAX_BUFFER);
        let mut buffer = Vec::with_capacity(buffer_size);
        header.encode_into(&mut buffer);
        Ok(LogWriter {
            file,
            path: path.to_path_buf(),
            header,
            len: LOG_HEADER as u64,
            in_file: 0,
            buffer,
            buffer_size,
            synced: header.synced,
            sealed: false,
            failure: None,
        })
    }

    /// What the log says of itself.
    pub(crate) fn info(&self) -> LogInfo {
        self.header.info()
    }

    /// Appends a record made of `parts`, and gives its position. It may stay in the buffer until
    /// the next flush. A record without bytes is not written. After an error nothing of it is
    /// there, unless the log [`is_stopped`](Self::is_stopped).
    pub(crate) fn append(&mut self, first_seq: u64, parts: &[&[u8]]) -> Result<u64> {
        self.check()?;
        if self.sealed {
            return Err(Error::Closed);
        }
        let position = self.position();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > MAX_PAYLOAD {
            return Err(Error::ValueTooLarge {
                len,
                max: MAX_PAYLOAD,
                needed: None,
            });
        }
        if len > 0 {
            if let Err(error) = self.put(first_seq, len, parts) {
                self.cut_back(self.len)?;
                return Err(error);
            }
            self.len += (RECORD_HEADER + len) as u64;
        }
        Ok(position)
    }

    fn put(&mut self, first_seq: u64, len: usize, parts: &[&[u8]]) -> Result<()> {
        let salt = self.header.salt;
        let header = RecordHeader {
            payload_len: len as u32,
            payload_sum: parts.iter().fold(salt, |sum, part| checksum(sum, part)),
            first_seq,
            synced: self.synced,
        };
        if self.buffer.len() + RECORD_HEADER + len > self.buffer_size {
            self.flush()?;
        }
        let position = self.position();
        header.encode_into(&mut self.buffer, salt, position);
        if self.buffer.len() + len <= self.buffer_size {
            for part in parts {
                self.buffer.extend_from_slice(part);
            }
        } else {
            // Too large to gather: straight from the caller's memory.
            self.flush()?;
            for part in parts.iter().filter(|part| !part.is_empty()) {
                self.hand_over(Some(part))?;
            }
        }
        Ok(())
    }

    /// Appends to the file: the part of a record, or the buffer. Where there is no room the file is
    /// then as it was before.
    fn hand_over(&mut self, part: Option<&[u8]>) -> Result<()> {
        self.unfinished("appending to a log");
        let bytes = part.unwrap_or(&self.buffer);
        let len = bytes.len() as u64;
        match self.file.append(bytes) {
            Err(error) if is_shortage(&error) => {
                let error = Error::io("append to", &self.path, error);
                if self.cut_file(self.in_file).is_err() {
                    self.failure = Some(error.clone());
                }
                Err(error)
            }
            written => {
                self.noted("append to", written)?;
                self.in_file += len;
                Ok(())
            }
        }
    }

    /// Cuts the file to its first bytes, durably.
    fn cut_file(&mut self, len: u64) -> Result<()> {
        self.unfinished("cutting back a log");
        let cut = self.file.cut_back(len);
        self.noted("cut back", cut)?;
        self.in_file = len;
        Ok(())
    }

    /// Takes back everything after the first `len` bytes, which end with a whole record, and of
    /// which nobody was promised more.
    pub(crate) fn cut_back(&mut self, len: u64) -> Result<()> {
        self.check()?;
        if self.in_file > len {
            self.cut_file(len)?;
        }
        let buffered = len.saturating_sub(self.in_file);
        self.buffer
            .truncate(usize::try_from(buffered).unwrap_or(usize::MAX));
        self.len = len;
        Ok(())
    }

    /// Hands everything to the file system: it survives this process, not a power failure.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.hand_over(None)?;
        self.buffer.clear();
        Ok(())
    }

    /// Makes everything appended durable. (With predecessors that are not
    /// durable, see [`LogStart::synced`], a recovery may still end before this log.)
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.unfinished("syncing a log");
        let synced = self.file.sync();
        self.noted("sync", synced)?;
        if self.synced >= self.header.base {
            self.synced = self.position();
        }
        Ok(())
    }

    /// Syncs, and then notes in the file that this was done, so that damage to the last record
    /// is not taken for a torn tail. Call it before a successor is created, and at closing;
    /// nothing can be appended afterwards.
    pub(crate) fn seal(&mut self) -> Result<()> {
        if self.sealed {
            return self.check();
        }
        self.sync()?;
        let sealed = self.put(0, 0, &[]).and_then(|()| self.flush());
        if sealed.is_err() {
            self.cut_back(self.len)?;
        }
        self.sealed = sealed.is_ok();
        sealed
    }

    /// Declares that the predecessors have become durable since this log was created.
    pub(crate) fn predecessors_synced(&mut self) {
        self.synced = self.synced.max(self.header.base);
    }

    /// Whether the log takes nothing more: what is in its file is not known.
    pub(crate) fn is_stopped(&self) -> bool {
        self.failure.is_some()
    }

    /// The position after the last record.
    pub(crate) fn position(&self) -> u64 {
        self.header.base + self.len
    }

    /// The position up to which everything is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// The log's bytes, those in the buffer included and the seal not.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The log's number.
    pub(crate) fn number(&self) -> u64 {
        self.header.number
    }

    /// The log's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the buffer's memory back, once nothing more is appended; what it held is flushed.
    pub(crate) fn release_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
            self.buffer_size = 0;
        }
    }

    /// The memory the writer holds, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// What the writer's failure is until [`Self::noted`]: a panic in between is one too.
    fn unfinished(&mut self, op: &'static str) {
        self.failure = Some(Error::Panicked { op });
    }

    /// Turns a file operation's failure into the writer's own, for good.
    fn noted(&mut self, op: &'static str, result: std::io::Result<()>) -> Result<()> {
        let result = result.map_err(|e| Error::io(op, &self.path, e));
        self.failure = result.clone().err();
        result
    }
}
