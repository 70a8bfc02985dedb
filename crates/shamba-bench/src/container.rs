//! A memory control group around one process: what a container does.
//!
//! Its limit counts the pages that the system caches for the process as well, so that an engine
//! which leaves caching to the system has no more than [`ALLOWANCE`] of it beside its budget.
use crate::Result;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a process may take beyond its engine's budget, in bytes: code, stacks, the measurement
/// itself, and the system's cache.
pub const ALLOWANCE: u64 = 32 << 20;

/// Where the system may have groups, and the file with the limit: version 1, version 2.
const PLACES: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];

/// The files that say how often a group was full, and the word before the number: version 1,
/// version 2.
const TIMES_FULL: [(&str, &str); 2] = [("memory.failcnt", ""), ("memory.events", "max ")];

/// An empty group with a limit, removed when dropped: whoever entered must have ended by then.
#[derive(Debug)]
pub struct Container {
    dir: PathBuf,
}

impl Container {
    /// A group of so many bytes; `None` where the system lets us make none, for want of rights or
    /// of control groups.
    pub fn new(limit: u64) -> Option<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("shamba-bench-{}-{number}", std::process::id());
        PLACES.iter().find_map(|(place, file)| {
            let dir = Path::new(place).join(&name);
            // One that was left by a process of the same number, which was killed.
            let _ = std::fs::remove_dir(&dir);
            std::fs::create_dir(&dir).ok()?;
            let made = Container { dir };
            // Where memory is not controlled here there is no such file.
            let file = made.dir.join(file);
            let limited = file.exists() && std::fs::write(file, limit.to_string()).is_ok();
            limited.then_some(made)
        })
    }

    /// How often it was full, so that the system took back memory that it could, or killed a
    /// process.
    pub fn times_full(&self) -> u64 {
        let number = |(file, word): &(&str, &str)| {
            let text = std::fs::read_to_string(self.dir.join(file)).ok()?;
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
        };
        TIMES_FULL.iter().find_map(number).unwrap_or(0)
    }

    /// Its folder: what [`enter`] asks for.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // One that stays behind is empty, and costs a name.
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// From now on this process is in the group.
///
/// # Errors
/// The system's.
pub fn enter(group: &Path) -> Result<()> {
    let process = std::process::id().to_string();
    Ok(std::fs::write(group.join("cgroup.procs"), process)?)
}

/// Makes the system forget what it caches of the files of a folder: it would count for whoever read
/// or wrote them first.
///
/// # Errors
/// The system's.
pub fn forget_files(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            forget_files(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(std::io::Error::from)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_removed_and_a_process_can_enter_it_where_there_are_any() {
        let Some(made) = Container::new(1 << 30) else {
            eprintln!("skipped: this process may make no control groups");
            return;
        };
        let dir = made.dir().to_owned();
        let there = std::process::Command::new("sh")
            .args([
                "-c",
                "echo $$ > \"$0/cgroup.procs\" && cat /proc/self/cgroup",
            ])
            .arg(&dir)
            .output()
            .unwrap();
        let name = dir.file_name().unwrap().to_string_lossy();
        assert!(String::from_utf8_lossy(&there.stdout).contains(&*name));
        drop(made);
        assert!(!dir.exists());
    }

    #[test]
    fn files_are_the_same_after_they_were_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let file = dir.path().join("in/file");
        std::fs::write(&file, [7; 10_000]).unwrap();
        forget_files(dir.path()).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), [7; 10_000]);
    }
}
