//! How many files the engine keeps open. Pure but for asking the file system what the process may.

use super::Options;

impl Options {
    /// How many tables are kept open at most.
    pub(crate) fn open_files(&self) -> usize {
        at_most_of(self.max_open_files, self.fs.open_file_limit())
    }
}

/// As many files as asked for, and at most three quarters of those that the process may open.
fn at_most_of(asked: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return asked };
    let part = usize::try_from(limit - limit / 4).unwrap_or(usize::MAX);
    asked.min(part).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Fs, OsFs};

    #[test]
    fn open_files_keep_within_the_process_limit() {
        assert_eq!(at_most_of(4096, None), 4096);
        assert_eq!(at_most_of(4096, Some(1024)), 768);
        assert_eq!(at_most_of(100, Some(1024)), 100);
        assert_eq!(at_most_of(4096, Some(u64::MAX)), 4096);
        assert_eq!(at_most_of(16, Some(0)), 1);
        // What the system really says; tests are not run with fewer files than that.
        let limit = OsFs::new().open_file_limit();
        assert!(limit.is_none_or(|limit| limit > 64), "{limit:?}");
    }
}
