//! Many reads at once through the io_uring of Linux: the one place where memory is lent to the
//! system past the end of a call.
//!
//! A [`Ring`] has one owner at a time. [`Ring::read`] returns only when the system is done with
//! every buffer it was given, whatever went wrong meanwhile; that is the whole argument for the
//! `unsafe` here. Its safe twin is [`super::batch`], which reads with threads.
#![expect(
    unsafe_code,
    reason = "the queue takes the addresses of buffers, whose lifetimes it cannot know"
)]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::raw_read::RawRead;

/// Reads in flight in one ring. Devices gain little from more.
pub(super) const DEPTH: u32 = 64;

/// A queue pair shared with the system.
pub(super) struct Ring(IoUring<squeue::Entry, cqueue::Entry>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring, if the system has them, allows them, and can read through them (Linux 5.6).
    pub(super) fn new() -> io::Result<Ring> {
        let ring = IoUring::new(DEPTH)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring(ring))
    }

    /// Carries out the reads and writes what each brought into its `done`; those it could not try
    /// keep `None`. Gives the ring back if it can be used again.
    pub(super) fn read(mut self, reads: &mut [RawRead<'_>]) -> Option<Ring> {
        let mut sound = true;
        let mut next = 0;
        let mut flying = 0;
        loop {
            while sound && flying + self.waiting() < DEPTH as usize {
                let Some(read) = reads.get_mut(next) else {
                    break;
                };
                sound = self.push(read, next as u64);
                next += usize::from(sound);
            }
            let waiting = self.waiting();
            if flying + waiting == 0 || (!sound && flying == 0) {
                break;
            }
            // Half of what is there, while there is more to send after it; else all.
            let more = sound && next < reads.len();
            let wanted = (flying + waiting).div_ceil(1 + usize::from(more));
            if sound {
                match self.0.submit_and_wait(wanted) {
                    Ok(_) => {}
                    Err(e) if passing(&e) => {}
                    Err(_) => sound = false,
                }
                flying += waiting - self.waiting();
            } else {
                // The system still answers what it took before; there is nothing to be done but
                // to wait for it.
                std::thread::yield_now();
            }
            for done in self.0.completion() {
                flying -= 1;
                if let Some(read) = reads.get_mut(done.user_data() as usize) {
                    read.done = Some(match done.result() {
                        code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                        count => Ok(count as usize),
                    });
                }
            }
        }
        // What was queued and never sent must not be sent when its buffer is gone.
        (sound && self.waiting() == 0).then_some(self)
    }

    /// Reads queued and not yet sent.
    fn waiting(&mut self) -> usize {
        self.0.submission().len()
    }

    fn push(&mut self, read: &mut RawRead<'_>, number: u64) -> bool {
        let Ok(len) = u32::try_from(read.buf.len()) else {
            return false;
        };
        let file = types::Fd(read.file.as_raw_fd());
        let entry = opcode::Read::new(file, read.buf.as_mut_ptr(), len)
            .offset(read.offset)
            .build()
            .user_data(number);
        // SAFETY: the buffer and the file are borrowed by `read`, which the only caller holds
        // mutably until every entry sent has been answered; entries that were not sent die with
        // the ring, which is then not used again.
        unsafe { self.0.submission().push(&entry) }.is_ok()
    }
}

/// Whether sending may succeed when it is tried again.
fn passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::fs::{AlignedBuf, PAGE};

    /// Nothing to test where rings are not allowed.
    fn ring() -> Option<Ring> {
        Ring::new().inspect_err(|e| eprintln!("no ring: {e}")).ok()
    }

    #[test]
    fn many_reads_arrive_each_in_its_buffer() {
        let Some(mut ring) = ring() else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let bytes: Vec<u8> = (0..100 * PAGE as u32 + 100)
            .map(|i| (i * 31 % 251) as u8)
            .collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        for count in [0, 1, 64, 65, 1000] {
            let mut bufs: Vec<_> = (0..count).map(|_| AlignedBuf::zeroed(PAGE)).collect();
            let offset = |i: usize| i * 7 % 102 * PAGE;
            let mut reads: Vec<_> = bufs
                .iter_mut()
                .enumerate()
                .map(|(i, buf)| RawRead {
                    file: &file,
                    offset: offset(i) as u64,
                    buf,
                    done: None,
                })
                .collect();
            ring = ring.read(&mut reads).expect("usable again");
            for (i, read) in reads.iter().enumerate() {
                let rest = bytes.get(offset(i)..).unwrap_or_default();
                let wanted = rest.get(..PAGE).unwrap_or(rest);
                let Some(Ok(got)) = read.done else {
                    panic!("{i}: {:?}", read.done);
                };
                assert_eq!(read.buf[..got], *wanted, "{i}");
            }
        }
    }

    #[test]
    fn errors_come_back_one_by_one() {
        let Some(ring) = ring() else { return };
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open(dir.path()).unwrap();
        let mut bufs = [AlignedBuf::zeroed(PAGE), AlignedBuf::zeroed(PAGE)];
        let mut reads = bufs.each_mut().map(|buf| RawRead {
            file: &folder,
            offset: 0,
            buf,
            done: None,
        });
        assert!(ring.read(&mut reads).is_some());
        for read in reads {
            let error = read.done.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        }
    }
}
