//! Files of the operating system that are being written, from start to end by one thread each.
//!
//! A directly written file gets whole pages. Its last, partial page is held back until `sync`
//! or until the file is dropped, then written padded and cut to its true length; so readers see
//! every whole page at once and the partial one after `sync` or drop.

use std::io;

use super::{BOUNCE, OsHandle};
use crate::fs::buf::{AlignedBuf, is_aligned};
use crate::fs::{PAGE, WriteFile};

#[derive(Debug)]
pub(super) struct OsWrite {
    handle: OsHandle,
    /// Whether the file was created for direct I/O; `tail` is used even after a refusal.
    direct: bool,
    /// Appended bytes past the last whole page written.
    tail: AlignedBuf,
    /// Whether `tail` is in the file as well.
    tail_written: bool,
    /// Bytes of the file before `tail`.
    written: u64,
    failed: bool,
    /// Whether a sync failed, after which nobody knows what is in the file.
    sync_failed: bool,
}

impl OsWrite {
    /// A file that was just created; `direct` for whole pages.
    pub(super) fn new(handle: OsHandle) -> Self {
        OsWrite {
            direct: handle.is_direct(),
            handle,
            tail: AlignedBuf::new(),
            tail_written: false,
            written: 0,
            failed: false,
            sync_failed: false,
        }
    }

    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other(
                "an earlier write or sync of this file failed",
            ));
        }
        // Set for the time of the work, so that a panic in it counts as a failure too.
        self.failed = true;
        work(self)?;
        self.failed = false;
        Ok(())
    }

    fn append_direct(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.tail.is_empty() {
            let whole = bytes.len() - bytes.len() % PAGE;
            let (head, rest) = bytes.split_at_checked(whole).unwrap_or((&[], bytes));
            if !head.is_empty() && is_aligned(head) {
                self.handle.write_full(head, self.written)?;
                self.written += head.len() as u64;
                bytes = rest;
            }
        }
        while !bytes.is_empty() {
            let room = BOUNCE - self.tail.len();
            let (head, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.tail.extend_from_slice(head);
            self.tail_written = false;
            bytes = rest;
            let whole = self.tail.len() - self.tail.len() % PAGE;
            let pages = self.tail.get(..whole).unwrap_or_default();
            self.handle.write_full(pages, self.written)?;
            self.written += whole as u64;
            self.tail.drain_front(whole);
        }
        if self.tail.is_empty() {
            self.tail = AlignedBuf::new();
        }
        Ok(())
    }

    fn write_tail(&mut self) -> io::Result<()> {
        if self.tail.is_empty() || self.tail_written {
            return Ok(());
        }
        let len = self.tail.len();
        self.tail.pad_to_page();
        let written = self.handle.write_full(&self.tail, self.written);
        self.tail.set_len(len);
        written?;
        self.handle.file.set_len(self.written + len as u64)?;
        self.tail_written = true;
        Ok(())
    }
}

impl WriteFile for OsWrite {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.guarded(|file| {
            if file.direct {
                return file.append_direct(bytes);
            }
            file.handle.write_full(bytes, file.written)?;
            file.written += bytes.len() as u64;
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.guarded(|file| {
            file.write_tail()?;
            file.sync_failed = true;
            file.handle.file.sync_data()?;
            file.sync_failed = false;
            Ok(())
        })
    }

    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        // Logs are not written directly; whoever writes a table begins it anew.
        if self.direct || self.sync_failed || len > self.written {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.failed = true;
        self.handle.file.set_len(len)?;
        self.written = len;
        self.sync_failed = true;
        self.handle.file.sync_all()?;
        (self.failed, self.sync_failed) = (false, false);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.written + self.tail.len() as u64
    }
}

impl Drop for OsWrite {
    fn drop(&mut self) {
        // Unsynced bytes promise nothing, so there is nobody to tell of a failure here.
        let _ = self.guarded(Self::write_tail);
    }
}
