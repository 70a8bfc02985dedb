//! What the kernel says this process read, wrote and occupied. Linux only; elsewhere all zero.
//!
//! The kernel counts every engine alike, which is why these numbers check the engines' own.
//! Counters are of the whole process: measure in a process that does nothing else.
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The size of the pages in which reads are reported.
pub const PAGE: u64 = 4096;

/// Counters of `/proc/self/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessIo {
    /// Bytes fetched from storage (page-cache hits do not count).
    pub read_bytes: u64,
    /// Read system calls.
    pub reads: u64,
    /// Bytes handed to storage.
    pub write_bytes: u64,
}

impl ProcessIo {
    /// The counters of the process now.
    pub fn now() -> Self {
        Self::read("/proc/self/io")
    }

    /// The counters of the calling thread alone: what it read itself, and no compaction.
    pub fn of_thread() -> Self {
        Self::read("/proc/thread-self/io")
    }

    fn read(path: &str) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        Self {
            read_bytes: field(&text, "read_bytes:"),
            reads: field(&text, "syscr:"),
            write_bytes: field(&text, "write_bytes:"),
        }
    }

    /// What happened since `earlier`, without the system calls of asking.
    pub fn since(&self, earlier: &Self) -> Self {
        // Of this thread: others may read at the same time.
        let first = Self::of_thread().reads;
        let asking = Self::of_thread().reads.saturating_sub(first);
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            reads: self
                .reads
                .saturating_sub(earlier.reads)
                .saturating_sub(asking),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
        }
    }

    /// What comes of some work, and what the process read and wrote meanwhile.
    pub fn during<T>(work: impl FnOnce() -> crate::Result<T>) -> crate::Result<(T, Self)> {
        let before = Self::now();
        let done = work()?;
        Ok((done, Self::now().since(&before)))
    }

    /// Pages of [`PAGE`] bytes fetched from storage.
    pub fn pages(&self) -> f64 {
        self.read_bytes as f64 / PAGE as f64
    }
}

/// Whether a folder lies in memory (tmpfs), where the kernel counts no reads.
#[cfg(target_os = "linux")]
pub fn is_in_memory(dir: &Path) -> std::io::Result<bool> {
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let facts = rustix::fs::statfs(dir)?;
    Ok(facts.f_type == TMPFS)
}

/// Elsewhere nothing is known.
#[cfg(not(target_os = "linux"))]
pub fn is_in_memory(_: &Path) -> std::io::Result<bool> {
    Ok(false)
}

/// The highest resident size of this process so far, in bytes.
pub fn peak_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&text, "VmHWM:") * 1024
}

/// The same without what is mapped from files, the program itself: it takes more than a small
/// budget, and is in memory anyhow. The kernel keeps no peak of the rest, so that what of files is
/// resident now is taken from the peak of all.
pub fn peak_own_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_memory().saturating_sub(field(&text, "RssFile:") * 1024)
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// What the files of a folder take on the disk, in bytes: a hole takes nothing.
pub fn bytes_in(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        bytes += if facts.is_dir() {
            bytes_in(&entry.path())?
        } else {
            facts.blocks() * 512
        };
    }
    Ok(bytes)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Read;

    /// Reads a thousand times.
    fn read_much() {
        let mut zero = fs::File::open("/dev/zero").unwrap();
        for _ in 0..1000 {
            zero.read_exact(&mut [1]).unwrap();
        }
    }

    #[test]
    fn reads_are_counted_and_asking_is_not() {
        // Of the thread: other tests of this process read too.
        let before = (ProcessIo::now(), ProcessIo::of_thread());
        read_much();
        let own = ProcessIo::of_thread().since(&before.1);
        assert_eq!(own.reads, 1000, "{own:?}");
        let all = ProcessIo::now().since(&before.0);
        assert!(all.reads >= own.reads, "{all:?}");
    }

    #[test]
    fn a_thread_counts_its_own_reads_only() {
        let before = ProcessIo::of_thread();
        std::thread::spawn(read_much).join().unwrap();
        assert!(ProcessIo::of_thread().reads - before.reads < 100);
        read_much();
        assert!(ProcessIo::of_thread().reads - before.reads >= 1000);
    }

    #[test]
    fn the_peak_is_at_least_what_is_held() {
        let held = vec![1u8; 8 << 20];
        assert!(peak_memory() > held.len() as u64);
        assert!(peak_own_memory() > held.len() as u64 && peak_own_memory() < peak_memory());
    }

    #[test]
    fn what_lies_in_memory_is_told() {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let is_tmpfs = |dir: &str| mounts.contains(&format!(" {dir} tmpfs "));
        for dir in ["/proc", "/dev/shm"] {
            if let Ok(in_memory) = is_in_memory(Path::new(dir)) {
                assert_eq!(in_memory, is_tmpfs(dir), "{dir}");
            }
        }
    }

    #[test]
    fn fields_are_found() {
        assert_eq!(field("a: 1\nread_bytes: 42\n", "read_bytes:"), 42);
        assert_eq!(field("VmHWM:\t  12 kB", "VmHWM:"), 12);
        assert_eq!(field("", "x:"), 0);
    }
}
