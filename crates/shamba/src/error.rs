//! The one error type of the engine. This file is long because every failure a caller can meet is
//! a variant here, with what is needed to act on it.
//!
//! Bytes read from a disk never panic: whatever is wrong with them becomes [`Error::Corruption`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what to do about it: that is in the text that `{}` prints. A `main` that
/// returns the error prints it with `{:?}`, without.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused or failed an operation on a file or folder.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was being done, as a verb: `"open"`, `"read"`, `"sync"`.
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own error.
        source: Arc<io::Error>,
    },
    /// Bytes on storage are not what was written there.
    #[error("{} is corrupt at byte {offset}: {what}; {}", file.display(), advice(file))]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage was noticed, in bytes from the start of the file.
        offset: u64,
        /// What was expected there.
        what: String,
    },
    /// There is no database: the folder does not exist or has no files, and none is to be created,
    /// as the options say or because it is opened to be read only.
    #[error("{} does not exist or holds no database; check the path (one is created by an open to write with `create_if_missing`)", path.display())]
    NotFound {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The folder holds other files, but no database. (Folders in it do not count.)
    #[error("{} is not a SHaMBa database (it has no CURRENT file but is not empty); choose an empty folder", path.display())]
    NotADatabase {
        /// The folder asked for.
        path: PathBuf,
    },
    /// A database is there already and the options ask for a new one.
    #[error("{} already holds a database, and `error_if_exists` was set", path.display())]
    AlreadyExists {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The destination of a checkpoint holds files.
    #[error("{} is not empty; a checkpoint needs a new or an empty folder", path.display())]
    NotEmpty {
        /// The folder asked for.
        path: PathBuf,
    },
    /// Another process, or another handle of this one, has the database open to write. An open to
    /// read only never gets this.
    #[error("{} is in use by {}", path.display(), by(*holders))]
    Locked {
        /// The database folder.
        path: PathBuf,
        /// What of this process keeps it open; none where it is another process, or not known.
        holders: Option<Holders>,
    },
    /// The file was written by another version of the engine.
    #[error(
        "{} has format version {found}, but this build reads version {supported}; use a build that reads it",
        file.display()
    )]
    UnsupportedFormat {
        /// The file.
        file: PathBuf,
        /// The version it states.
        found: u32,
        /// The version this build reads.
        supported: u32,
    },
    /// The database uses something that came with a newer build. Nothing is damaged, and nothing
    /// was changed.
    #[error(
        "{} says that the database uses {}, which this build does not know; use a newer build",
        file.display(), quoted(names)
    )]
    UnknownFeatures {
        /// The manifest.
        file: PathBuf,
        /// The names of what this build does not know.
        names: Vec<String>,
    },
    /// The file is compressed in a way that this build was made without. Nothing is damaged.
    #[error(
        "{} has blocks that this build cannot decompress; build `shamba` with its cargo feature `{feature}`",
        file.display()
    )]
    MissingFeature {
        /// The file.
        file: PathBuf,
        /// The cargo feature that reads it: `"lz4"` or `"zstd"`.
        feature: &'static str,
    },
    /// An option has a value that makes no sense, or one that this build was made without.
    #[error("option `{option}` is invalid: {what}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong and which values are allowed.
        what: String,
    },
    /// A key is longer than the engine accepts under the present memory budget.
    #[error(
        "a key of {len} bytes is too large: at most {max} bytes are allowed (65,535, and a 64th of the memory budget); shorten it{}",
        or_raise(*needed)
    )]
    KeyTooLarge {
        /// The key's length in bytes.
        len: usize,
        /// The longest key accepted now, in bytes.
        max: usize,
        /// The least memory budget that would do, in bytes; none where no budget would.
        needed: Option<u64>,
    },
    /// A range to be deleted begins or ends with a key that is longer than the engine accepts there
    /// under the present memory budget: such keys stay in memory for as long as tables are open.
    #[error(
        "a range that begins or ends with a key of {len} bytes is not accepted: at most {max} bytes are allowed (65,535, and a 256th of the memory budget); end it with a shorter key{}",
        or_raise(*needed)
    )]
    RangeEndTooLarge {
        /// The longer key's length in bytes.
        len: usize,
        /// The longest that is accepted now, in bytes.
        max: usize,
        /// The least memory budget that would do, in bytes; none where no budget would.
        needed: Option<u64>,
    },
    /// A value is longer than can be written whole under the present memory budget, where it must
    /// be: as an operand, by a compaction filter, and in a batch past 64 MiB. Else
    /// [`Db::put`](crate::Db::put), [`Db::write`](crate::Db::write) and
    /// [`Transaction::put`](crate::Transaction::put) put it into a file of its own.
    #[error(
        "a value of {len} bytes is too large: at most {max} bytes are allowed (64 MiB, and a sixteenth of the memory budget); split it, or put it by itself, with `put`{}",
        or_raise(*needed)
    )]
    ValueTooLarge {
        /// The value's length in bytes.
        len: usize,
        /// The longest value accepted now, in bytes.
        max: usize,
        /// The least memory budget that would do, in bytes; none where no budget would.
        needed: Option<u64>,
    },
    /// The reader that a value was to come from failed. Nothing was written.
    #[error("the reader that the value was to come from failed, and nothing was written: {source}")]
    ValueSource {
        /// The reader's own error.
        source: Arc<io::Error>,
    },
    /// A batch would take more memory than one may, until it is in tables.
    #[error(
        "a batch that takes {len} bytes in memory is too large: at most {max} bytes are allowed (256 MiB, and three eighths of the memory budget); split it{}",
        or_raise(*needed)
    )]
    BatchTooLarge {
        /// What the batch takes in memory, in bytes
        /// ([`WriteBatch::memory`](crate::WriteBatch::memory)).
        len: usize,
        /// The most that a batch may take now, in bytes.
        max: usize,
        /// The least memory budget that would do, in bytes; none where no budget would.
        needed: Option<u64>,
    },
    /// Another write came between a transaction's reads and its commit. Nothing of the transaction
    /// was written: run it again from its beginning, as [`Db::transact`](crate::Db::transact) does.
    #[error(
        "key {} of keyspace `{keyspace}`, on which the transaction depends, was written by others since it began; run it again",
        key.escape_ascii()
    )]
    Conflict {
        /// The keyspace's name.
        keyspace: String,
        /// The key that was written.
        key: Vec<u8>,
    },
    /// A range whose keys are to be deleted ends before it begins. Nothing was deleted.
    #[error(
        "the range to be deleted begins at key {} and ends before it, at {}; were the two swapped?",
        start.escape_ascii(), end.escape_ascii()
    )]
    InvertedRange {
        /// Where it begins.
        start: Vec<u8>,
        /// Where it ends.
        end: Vec<u8>,
    },
    /// A filter of entries ([`CompactionFilter`](crate::CompactionFilter)) panicked. Its compaction
    /// changed nothing, and is tried again later.
    #[error(
        "the compaction filter of keyspace `{keyspace}` panicked at key {}; nothing was changed, and its compactions wait until it answers: mend it, and open the database again",
        key.escape_ascii()
    )]
    CompactionFilterPanicked {
        /// The keyspace's name.
        keyspace: String,
        /// The key that it was asked about.
        key: Vec<u8>,
    },
    /// A merge operator could not merge what a key has: it failed or panicked. Nothing is lost;
    /// [`Db::put`](crate::Db::put) or [`Db::delete`](crate::Db::delete) the key, or mend the
    /// operator.
    #[error(
        "the merge operator of keyspace `{keyspace}` cannot merge key {}: {cause}",
        key.escape_ascii()
    )]
    MergeFailed {
        /// The keyspace's name.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// What the operator says.
        cause: String,
    },
    /// A keyspace has a merge operator that the program did not give, or gave another instead of,
    /// or has none, and something is to be merged.
    #[error("keyspace `{keyspace}` {}", about_operators(wanted.as_deref(), given.as_deref()))]
    MergeOperator {
        /// The keyspace's name.
        keyspace: String,
        /// The name of the operator that the keyspace has.
        wanted: Option<String>,
        /// The name of the one that the program gave.
        given: Option<String>,
    },
    /// A transaction, with what it read and wrote, would take more memory than transactions and
    /// iterators may have together beside what they hold now. What it did so far is kept: commit
    /// it, or drop it.
    #[error(
        "a transaction of {len} bytes is too large: transactions and iterators may hold {max} bytes together; split it, drop others, or raise the memory budget to {needed} bytes"
    )]
    TransactionTooLarge {
        /// What the transaction would take, in bytes.
        len: u64,
        /// What all transactions and iterators may take now, in bytes.
        max: u64,
        /// A memory budget that will do, in bytes.
        needed: u64,
    },
    /// A transaction has no savepoint to go back to.
    #[error("the transaction has no savepoint; set one first")]
    NoSavepoint,
    /// The memory budget is too small for what the database holds: for what must be known of each
    /// of its tables, which grows with their number and the length of their keys, or for a key, a
    /// value or a batch that was written under a larger budget. Nothing is lost: with the larger
    /// budget that is named, or made so large while the database is open, the call that got this
    /// error succeeds. Iterating over such a value takes more: up to 16 times its length.
    #[error(
        "the memory budget of {limit} bytes is too small for what this database holds: it must be {needed} bytes at least; raise it (where it is many tables that take so much, a larger `target_file` makes them fewer)"
    )]
    BudgetTooSmall {
        /// The budget's limit, in bytes.
        limit: u64,
        /// The least limit that will do, in bytes.
        needed: u64,
    },
    /// Iterators hold as much memory as they may, or there is none left: another, or a further step
    /// of this one, is refused. Entries that are large count as they are, so that one iterator
    /// alone may be too much where one is large for the budget, and so do the many sources of a
    /// tree with many runs. With the larger budget that is named, the call that got this error
    /// succeeds, unless it comes to an entry that is larger still, of which it then tells.
    #[error(
        "iterators hold as much as they may of the memory budget of {limit} bytes; drop some, or raise the budget to {needed} bytes"
    )]
    IteratorsExhausted {
        /// The budget's limit, in bytes.
        limit: u64,
        /// A limit that will do, in bytes, beside what is held now and where each run's entries
        /// are about as large as the one that was refused.
        needed: u64,
    },
    /// No keyspace has this name.
    #[error("there is no keyspace named `{name}`; create it first")]
    KeyspaceNotFound {
        /// The name asked for.
        name: String,
    },
    /// A keyspace of this name exists already.
    #[error("a keyspace named `{name}` exists already; open it, or choose another name")]
    KeyspaceExists {
        /// The name asked for.
        name: String,
    },
    /// The keyspace was dropped while this handle to it was held.
    #[error("the keyspace `{name}` was dropped")]
    KeyspaceDropped {
        /// The keyspace's name.
        name: String,
    },
    /// A keyspace or snapshot of one database was given to another.
    #[error("a {what} of one database was used with another")]
    WrongDatabase {
        /// `"keyspace"` or `"snapshot"`.
        what: &'static str,
    },
    /// A thread panicked in the middle of changing the database: a bug.
    #[error("a thread panicked while {op}; please report it; reopen the database to go on")]
    Panicked {
        /// What it was doing.
        op: &'static str,
    },
    /// An earlier write could not be made durable; the database takes no more writes. Reads go on.
    #[error(
        "writes are stopped since an earlier failure ({cause}); reads go on; reopen the database once the cause is mended"
    )]
    Poisoned {
        /// The failure that stopped writes.
        cause: Arc<Error>,
    },
    /// There is no room for the write, because flushes or compactions keep failing. Nothing of it
    /// was written. The work is tried again, and writes go on once it succeeds.
    #[error(
        "no room for writes: flushes or compactions keep failing ({cause}); they are tried again, and writes go on once the cause is mended"
    )]
    Stalled {
        /// The last failure.
        cause: Arc<Error>,
    },
    /// The database was closed while this handle to it was held.
    #[error("the database is closed")]
    Closed,
    /// The database was opened to be read only ([`Options::read_only`](crate::Options::read_only)).
    #[error("the database was opened to be read only; open it without `read_only` to change it")]
    ReadOnly,
    /// The logs hold more that is in no table yet than an open for reading only may keep in memory.
    #[error(
        "the write-ahead logs hold more than the {max} bytes that may be kept of them in memory; open the database for reading with a memory budget of {needed} bytes at least, or once for writing"
    )]
    LogsExceedMemory {
        /// What memtables may take under the present memory budget, in bytes.
        max: u64,
        /// A memory budget under which they may take what the logs hold now, in bytes: up to a
        /// tenth more than the least one. A writer that goes on makes it more.
        needed: u64,
    },
    /// A database that is read beside whoever writes to it needs a file that was changed or removed
    /// since it was looked at.
    #[error(
        "{} was changed or removed by whoever writes to the database while it was read; open it again",
        file.display()
    )]
    Outdated {
        /// The file.
        file: PathBuf,
    },
}

/// What of a process keeps a database open that was not closed: any of these alone does. Dropping
/// all of them closes it, and so does [`Db::close`](crate::Db::close), which ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// Handles of the database and of its keyspaces ([`Db`](crate::Db),
    /// [`Keyspace`](crate::Keyspace)).
    pub handles: usize,
    /// [`Snapshot`](crate::Snapshot)s.
    pub snapshots: usize,
    /// [`Iter`](crate::Iter)s and [`Cursor`](crate::Cursor)s; an `Iter` that is asked at both ends
    /// counts twice.
    pub iterators: usize,
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.handles, "database or keyspace handle"),
            (self.snapshots, "snapshot"),
            (self.iterators, "iterator"),
        ];
        let held = kinds.iter().filter(|(count, _)| *count > 0);
        for (number, (count, kind)) in held.enumerate() {
            let before = if number == 0 { "" } else { ", " };
            let more = if *count == 1 { "" } else { "s" };
            write!(f, "{before}{count} {kind}{more}")?;
        }
        Ok(())
    }
}

/// Who has a database open, and what to do about it.
fn by(holders: Option<Holders>) -> String {
    match holders {
        None => "another process or handle; close it first".to_owned(),
        Some(holders) => {
            format!("this process, which holds {holders}; drop all of them, or call `Db::close`")
        }
    }
}

/// What is wrong with a keyspace's merge operator, and what to do about it.
fn about_operators(wanted: Option<&str>, given: Option<&str>) -> String {
    match (wanted, given) {
        (Some(wanted), None) => format!(
            "has the merge operator `{wanted}`, which is none of the ready-made: give it to `Options::merge_operator`"
        ),
        (Some(wanted), Some(given)) => format!(
            "has the merge operator `{wanted}` and cannot be given `{given}`, which would read other values out of it"
        ),
        (None, _) => "has no merge operator: give one to `Options::merge_operator` when the database is opened".to_owned(),
    }
}

/// Names from storage, each in quotes.
fn quoted(names: &[String]) -> String {
    let quoted = names
        .iter()
        .map(|name| format!("`{}`", name.escape_debug()));
    quoted.collect::<Vec<_>>().join(", ")
}

/// What else may be done where a larger budget would do.
fn or_raise(needed: Option<u64>) -> String {
    needed.map_or_else(String::new, |needed| {
        format!(", or raise the budget to {needed} bytes")
    })
}

/// What to do about a damaged file, by what it is for.
fn advice(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".sst") {
        "run `shamba verify` to see how far the damage goes, and restore the database from a checkpoint or backup"
    } else if name.ends_with(".wal") {
        "restore the database from a checkpoint or backup, or open it with another `RecoveryMode` to get out what can be read"
    } else {
        "without it nobody knows which tables make up the database: restore the folder from a checkpoint or backup"
    }
}

/// Whether an operation failed since the process, or the system, has too many files open.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|e| e.raw_os_error());
    // Windows: `ERROR_TOO_MANY_OPEN_FILES`.
    #[cfg(not(unix))]
    let codes = [4];
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

/// Whether an operation failed for want of something that may be there again later: space, open
/// files or memory. What such an operation was to do was not done, but for a part of an append.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    let kinds = [StorageFull, QuotaExceeded, OutOfMemory];
    is_out_of_files(error) || kinds.contains(&error.kind())
}

impl Error {
    /// An I/O error with its operation and path.
    pub(crate) fn io(op: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Error::Io {
            op,
            path: path.as_ref().to_path_buf(),
            source: Arc::new(source),
        }
    }

    /// A corruption error.
    pub(crate) fn corruption(file: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption {
            file: file.as_ref().to_path_buf(),
            offset,
            what: what.into(),
        }
    }

    /// An invalid-option error.
    pub(crate) fn option(option: &'static str, what: impl Into<String>) -> Self {
        Error::InvalidOption {
            option,
            what: what.into(),
        }
    }

    /// Whether something was not done for want of what may be there again later, so that it can be
    /// tried again. A sync that failed is no such thing, whatever it says, unless the file could
    /// not be opened.
    pub(crate) fn is_shortage(&self) -> bool {
        match self {
            Error::Io { op, source, .. } => {
                is_out_of_files(source) || (*op != "sync" && is_shortage(source))
            }
            _ => false,
        }
    }

    /// Whether the process, or the system, has too many files open.
    pub(crate) fn is_out_of_files(&self) -> bool {
        matches!(self, Error::Io { source, .. } if is_out_of_files(source))
    }

    /// Whether it stays however often the same is tried: what is stored is damaged, or needs
    /// another build.
    pub(crate) fn is_for_good(&self) -> bool {
        self.is_corruption() || matches!(self, Error::MissingFeature { .. })
    }

    /// Whether the error says that stored bytes are damaged.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. })
    }
}
