//! Opening a database to be read only, beside a process that may write to it, or where nothing can
//! be written: nothing is locked and nothing is changed.
//!
//! `CURRENT`, the manifest, the logs and the tables are looked at one after the other, and a writer
//! may replace or remove any of them meanwhile. What is then missing, or does not fit together,
//! looks like damage. So what looks like damage is looked at again ([`settled`]), until it is found
//! well, or found twice in a row while no writer went on. Once the database is open its logs are in
//! memory and its tables' files are held, so that the writer is not noticed any more.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::judge::{Logs, check_tables_exist, is_database};
use super::{DEFAULT_NAME, assemble, replay, tables_of};
use crate::budget::Role;
use crate::db::DbShared;
use crate::db::batch::DEFAULT_KEYSPACE;
use crate::db::files::filenames::look_at_files;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, Fs};
use crate::options::Options;
use crate::table::TableCache;
use crate::version::{
    ByNumber, CURRENT, FoundManifest, Manifest, Obsolete, TreeState, VersionEdit,
};

/// How often a folder is looked at again that goes on changing. A writer changes the manifest with
/// each flush, and to look takes little: with half of it, one that flushes all the time is told to
/// be damaged more often; with double of it that takes twice as long.
const TRIES: u32 = 50;

/// And for how long at least: on a machine with other work a writer may get many turns for each of
/// ours. With half of it a reader gives up sooner there; with double of it damage beside a writer
/// that never rests is told so much later.
const LEAST_TIME: Duration = Duration::from_secs(4);

/// How long to wait before looking again: a record or file that is being written is whole by then.
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the database in a folder.
pub(super) fn open(dir: &Path, options: &Options) -> Result<Arc<DbShared>> {
    let mut options = options.clone().create_if_missing(false);
    options.background_threads = 0;
    let fs = &*options.fs;
    let exists = fs.exists(dir).map_err(|e| Error::io("look for", dir, e))?;
    if !exists {
        return Err(Error::NotFound {
            path: dir.to_path_buf(),
        });
    }
    // What one look found of the tables is there for the next: only new ones are opened then.
    let tables = tables_of(dir, &options);
    settled(fs, dir, || look(dir, &options, &tables)).map_err(|unsettled| unsettled.error)
}

/// Why looking at a folder failed.
#[derive(Debug)]
pub(in crate::db) struct Unsettled {
    pub(in crate::db) error: Error,
    /// Whether a writer was still changing the folder, which may be all that is wrong with it.
    pub(in crate::db) beside_writer: bool,
}

/// Looks at a folder until no writer comes in between.
pub(in crate::db) fn settled<T>(
    fs: &dyn Fs,
    dir: &Path,
    look: impl Fn() -> Result<T>,
) -> Result<T, Unsettled> {
    let (mut tries, begun) = (0, Instant::now());
    loop {
        let before = Manifest::mark_of_change(fs, dir);
        let error = match look() {
            Ok(found) => return Ok(found),
            Err(error) if may_be_a_writer(&error) => error,
            Err(error) => {
                return Err(Unsettled {
                    error,
                    beside_writer: false,
                });
            }
        };
        sleep(PAUSE);
        // Once more in any case: of a record in the middle of being written only its log tells.
        let after = Manifest::mark_of_change(fs, dir);
        // Where there is no mark, nothing tells whether there is a writer.
        let (quiet, changes) = (before.is_some() && before == after, before != after);
        if tries > 0 && quiet {
            return Err(Unsettled {
                error,
                beside_writer: false,
            });
        }
        if tries >= TRIES && (!changes || begun.elapsed() >= LEAST_TIME) {
            return Err(Unsettled {
                error: if changes { as_outdated(error) } else { error },
                beside_writer: true,
            });
        }
        tries += 1;
    }
}

/// What looks like damage beside a writer that goes on, for whom it is none.
fn as_outdated(error: Error) -> Error {
    match error {
        Error::Corruption { file, .. } => Error::Outdated { file },
        other => other,
    }
}

/// Whether an error is what a writer between two looks causes too.
fn may_be_a_writer(error: &Error) -> bool {
    use std::io::ErrorKind::{NotFound, UnexpectedEof};
    match error {
        Error::Corruption { .. } | Error::Outdated { .. } => true,
        Error::Io { source, .. } => matches!(source.kind(), NotFound | UnexpectedEof),
        _ => false,
    }
}

/// Holds the files of a state's tables, where that can be done, and checks that all are there.
/// Gives what is in the folder.
pub(in crate::db) fn hold_tables(
    dir: &Path,
    options: &Options,
    tables: &TableCache,
    state: &TreeState,
) -> Result<Vec<DirEntry>> {
    let files = state.keyspaces.values();
    let files = files.flat_map(|keyspace| keyspace.version.all_files());
    let numbers: Vec<u64> = files.map(|file| file.number()).collect();
    // Before anything else, while the manifest is new.
    let held = tables.hold(&numbers);
    let entries = options.fs.list(dir);
    let entries = entries.map_err(|e| Error::io("list", dir, e))?;
    match &held {
        Ok(Some(held)) => check_tables_exist(dir, state, held)?,
        Ok(None) | Err(_) => check_tables_exist(dir, state, &entries)?,
    }
    held.map(|_| entries)
}

/// The same, of tables that may be very many. Gives what is in the folder beside them.
fn hold_many(
    dir: &Path,
    options: &Options,
    tables: &TableCache,
    state: &TreeState,
    files: &ByNumber,
) -> Result<Vec<DirEntry>> {
    let fs = &*options.fs;
    let budget = options.memory.budget();
    let _listed = budget.reserve(Role::Tables, (files.len() * size_of::<u64>()) as u64);
    let numbers: Vec<u64> = files.iter().map(|file| file.number()).collect();
    let held = tables.hold(&numbers);
    let folder = look_at_files(fs, dir, files)?;
    match &held {
        Ok(Some(held)) => check_tables_exist(dir, state, held)?,
        Ok(None) | Err(_) => folder.check(fs, dir, files)?,
    }
    held.map(|_| folder.others)
}

fn look(dir: &Path, options: &Options, tables: &Arc<TableCache>) -> Result<Arc<DbShared>> {
    let fs = &options.fs;
    is_database(dir, options)?;
    let account = Obsolete::new(options.memory.budget());
    let FoundManifest {
        mut state, files, ..
    } = Manifest::read(&**fs, dir, &account)?;
    let entries = hold_many(dir, options, tables, &state, &files)?;
    let count = files.len();
    drop(files);
    // Better the logs' files than those of tables, which are opened when they are read.
    let logs = match Logs::look(dir, &state, &entries, options) {
        Err(error) if error.is_out_of_files() && tables.release_held() => {
            Logs::look(dir, &state, &entries, options)?
        }
        found => found?,
    };
    let next_file = AtomicU64::new(state.next_file);
    if !state.keyspaces.contains_key(&DEFAULT_KEYSPACE) {
        // Its creation was cut off; an open for writing goes on with it.
        let create = VersionEdit::create_keyspace(DEFAULT_KEYSPACE, DEFAULT_NAME);
        let created = state.apply(&create);
        created.map_err(|e| Error::corruption(dir.join(CURRENT), 0, e.to_string()))?;
    }
    let manifest = Manifest::of_state(fs, dir, state, &account);
    let inner = assemble(
        dir,
        options.clone(),
        manifest,
        next_file,
        Arc::clone(tables),
    )?;
    replay::keep_logs(&inner, logs)?;
    inner.shared().budget().left_holes(count);
    DbShared::start(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    /// A writer that flushes between any two looks makes nobody call its folder damaged; without
    /// one the second look is believed.
    #[test]
    fn what_a_writer_goes_on_changing_is_outdated_and_not_damaged() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        let options = Options::new().fs(Arc::new(fs.clone()));
        let db = options.background_threads(0).open(dir).unwrap();
        let table = dir.join("000007.sst");
        let looks = std::cell::Cell::new(0);
        let look = |writes: bool| {
            looks.set(looks.get() + 1);
            if writes {
                db.put([1], [2]).unwrap();
                db.flush().unwrap();
            }
            Err::<(), _>(Error::corruption(&table, 0, "missing"))
        };
        let beside = settled(&fs, dir, || look(true)).unwrap_err();
        assert!(beside.beside_writer && looks.get() > TRIES);
        assert!(matches!(beside.error, Error::Outdated { file } if file == table));
        looks.set(0);
        let alone = settled(&fs, dir, || look(false)).unwrap_err();
        assert!(!alone.beside_writer && looks.get() == 2);
        assert!(matches!(alone.error, Error::Corruption { .. }));
        // Where CURRENT says nothing, nobody is known to write.
        let nowhere = Path::new("/none");
        let damaged = settled(&fs, nowhere, || look(false)).unwrap_err();
        assert!(matches!(damaged.error, Error::Corruption { .. }));
    }
}
