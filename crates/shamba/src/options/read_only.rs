//! The option to open a database to be read only.

use super::Options;
use crate::error::{Error, Result};

impl Options {
    /// Whether the database is opened to be read only. Default false. Nothing is written to its
    /// folder, which may be of a read-only file system, full, or another's, and nothing is locked:
    /// any number of processes may have it open so, beside one that writes. They see it as it was
    /// when they opened it. What is in no table yet is read from the logs and kept in memory, which
    /// may take about three eighths of the budget: a reader with much less than the writer has may
    /// get [`Error::LogsExceedMemory`], which names the budget that would do, until the writer
    /// flushes or makes a checkpoint, or, where there is none, the database was opened to write
    /// once. There are no background threads, and
    /// every call that would change something gives [`Error::ReadOnly`].
    ///
    /// All tables are kept open if there are no more than [`max_open_files`](Self::max_open_files):
    /// then nothing that a writer removes is missed. Of more tables, one that is opened late may be
    /// gone ([`Error::Outdated`]). To read for long beside a writer, and of many tables, have the
    /// writer make a [`Db::checkpoint`](crate::Db::checkpoint), and open that.
    #[must_use]
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// Whether what else is asked for can be had of a database that is only read.
    pub(super) fn check_read_only(&self) -> Result<()> {
        if self.read_only && self.error_if_exists {
            let what = "a database that is opened to be read only must exist";
            return Err(Error::option("error_if_exists", what));
        }
        Ok(())
    }
}
