//! The handle that callers hold. It keeps the database open and does nothing of its own: each call
//! goes to the module that does the work. What it offers for the default keyspace, [`Keyspace`]
//! offers for any, and a [`Snapshot`] for both as far as it reads. This file is long because every
//! call stands here with its documentation, which is most of it.

use std::path::Path;
use std::sync::Arc;

use super::catalog::IfExists;
use super::checkpoint::checkpoint;
use super::iter::{Cursor, Iter, IterOptions, KeyRange};
use super::stats::{approximate_size, size_on_disk, statistics};
use super::verify::verify;
use super::{
    Advice, DbInner, DbShared, Keyspace, Snapshot, Statistics, Value, VerifySummary, WriteBatch,
    in_pieces, open,
};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::{Design, KeyspaceOptions, Options, WriteOptions};

impl Options {
    /// Opens the database in a folder.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], [`Error::NotFound`], [`Error::NotADatabase`],
    /// [`Error::AlreadyExists`], [`Error::Locked`], [`Error::UnsupportedFormat`],
    /// [`Error::UnknownFeatures`], [`Error::Corruption`], [`Error::BudgetTooSmall`],
    /// [`Error::LogsExceedMemory`] or [`Error::Io`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open(path, self)
    }
}

/// An open database. Clones are handles to the same one; it closes when the last handle, keyspace,
/// snapshot and iterator is gone, or by [`Db::close`].
#[derive(Debug, Clone)]
pub struct Db {
    pub(crate) shared: Arc<DbShared>,
}

impl Db {
    /// Opens the database in a folder.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        let dir = open::absolute(&options, path.as_ref())?;
        let shared = open::open(&dir, options)?;
        Ok(Db { shared })
    }

    pub(super) fn inner(&self) -> &DbInner {
        self.shared.inner()
    }

    /// The folder, as an absolute path: it is the same wherever the process goes to later.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner().shared().dir()
    }

    /// Sets a key of the default keyspace, with the database's durability. A value longer than a
    /// sixteenth of the memory budget goes into a file of its own, which is made durable before
    /// that, as by [`Db::put_reader`].
    ///
    /// # Errors
    /// As [`Db::write`].
    #[doc(alias = "insert")]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// [`Db::put`] with a durability of its own: `WriteOptions::synced()` returns once the write is
    /// on storage.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let (inner, key, value) = (self.inner(), key.as_ref(), value.as_ref());
        in_pieces::put(inner, inner.default_keyspace(), key, value, options)
    }

    /// Removes a key of the default keyspace; one that does not exist is no error.
    ///
    /// # Errors
    /// As [`Db::write`].
    #[doc(alias = "remove")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// [`Db::delete`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let inner = self.inner();
        let keyspace = inner.default_keyspace();
        inner
            .writes()
            .write_one(keyspace, key.as_ref(), None, options)
    }

    /// Applies a batch whole: readers and recovery see all of it or nothing. Values longer than a
    /// sixteenth of the budget are written into files of their own before it.
    ///
    /// # Errors
    /// [`Error::KeyTooLarge`], [`Error::ValueTooLarge`], [`Error::BatchTooLarge`],
    /// [`Error::WrongDatabase`] or [`Error::KeyspaceDropped`] when nothing was written;
    /// [`Error::Io`] when the log failed: for want of space or files nothing was written either,
    /// and it can be tried again (with a clone, for the batch is consumed), else every later write
    /// gets [`Error::Poisoned`]; [`Error::Stalled`] while there is no room for flushes;
    /// [`Error::ReadOnly`]; [`Error::Closed`].
    #[doc(alias = "commit")]
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// [`Db::write`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        in_pieces::write(self.inner(), batch, options)
    }

    /// The value of a key of the default keyspace, if it has one.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] when a block it needs cannot be read;
    /// [`Error::BudgetTooSmall`] when the value was written under a budget many times as large;
    /// [`Error::Closed`]. Where operands are merged, [`Error::MergeFailed`], and
    /// [`Error::IteratorsExhausted`] when they take more than readers may hold.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner()
            .reads()
            .get(self.inner().default_keyspace(), key.as_ref(), None)
    }

    /// Whether a key of the default keyspace has a value. Reads what [`Db::get`] reads, and copies
    /// no value.
    ///
    /// # Errors
    /// As [`Db::get`].
    #[doc(alias = "exists")]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner()
            .reads()
            .contains_key(self.inner().default_keyspace(), key.as_ref(), None)
    }

    /// The smallest key of the default keyspace and its value, if there is any.
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    #[doc(alias = "first")]
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.default_keyspace().first_key_value()
    }

    /// The largest key of the default keyspace and its value, if there is any.
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    #[doc(alias = "last")]
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.default_keyspace().last_key_value()
    }

    /// Whether the default keyspace holds no key.
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    pub fn is_empty(&self) -> Result<bool> {
        self.default_keyspace().is_empty()
    }

    /// How many keys the default keyspace holds: exact, and read from all of it. See
    /// [`Db::approximate_len`].
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    pub fn len(&self) -> Result<u64> {
        self.default_keyspace().len()
    }

    /// About how many keys the default keyspace holds, without reading anything: what was written,
    /// less two for each deletion in tables. A key that was written again counts again until both
    /// are merged.
    #[must_use]
    pub fn approximate_len(&self) -> u64 {
        self.default_keyspace().approximate_len()
    }

    /// [`Keyspace::clear`] of the default keyspace.
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "truncate")]
    pub fn clear(&self) -> Result<()> {
        self.default_keyspace().clear()
    }

    /// The values of several keys of the default keyspace at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.inner()
            .reads()
            .multi_get(self.inner().default_keyspace(), keys, None)
    }

    /// [`Keyspace::advise`] for the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn advise(&self) -> Result<Option<Advice>> {
        self.inner()
            .advisor()
            .advise(self.inner().default_keyspace())
    }

    /// [`Keyspace::redesign`] of the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn redesign(&self, design: Design) -> Result<()> {
        self.inner()
            .redesigner()
            .redesign(self.inner().default_keyspace(), &design)
    }

    /// Every key of the default keyspace as it is now, and its value, in the order of keys. Later
    /// writes are not in it. Where it cannot be made ([`Error::Closed`],
    /// [`Error::IteratorsExhausted`]) or comes to what cannot be read, that error is what it yields
    /// last.
    #[doc(alias = "scan")]
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.iter_with(IterOptions::default())
    }

    /// The keys of a range: `"a".."b"`, `key..`, `..=key`, of anything that is bytes.
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.iter_with(IterOptions::range(range))
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.iter_with(IterOptions::prefix(prefix))
    }

    /// The keys that the options cover.
    #[must_use]
    pub fn iter_with(&self, options: IterOptions) -> Iter {
        Iter::new(self.cursor(options))
    }

    /// A cursor over the default keyspace as it is now, to seek and to go both ways. It sees no
    /// later write.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::IteratorsExhausted`]; its positioning calls report what cannot
    /// be read.
    #[doc(alias("iterator", "raw_iterator"))]
    pub fn cursor(&self, options: IterOptions) -> Result<Cursor> {
        Cursor::new(&self.shared, self.inner().default_keyspace(), options, None)
    }

    /// The database as it is now, readable for as long as the snapshot is held.
    #[doc(alias("begin_read", "read_tx"))]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.shared)
    }

    /// A handle to the default keyspace.
    #[must_use]
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace::new(self.shared.clone(), self.inner().default_keyspace().clone())
    }

    /// Opens a keyspace that exists.
    ///
    /// # Errors
    /// [`Error::KeyspaceNotFound`].
    #[doc(alias = "cf_handle")]
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let inner = self.inner().keyspace_named(name)?;
        Ok(Keyspace::new(self.shared.clone(), inner))
    }

    /// The keyspace of a name, which is created with these options if there is none, by one caller
    /// of those who come at the same time. One that exists keeps its own options.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// use shamba::KeyspaceOptions;
    /// let users = db.open_keyspace("users", KeyspaceOptions::default())?;
    /// users.put("ada", "countess")?;
    /// assert_eq!(db.open_keyspace("users", KeyspaceOptions::default())?.len()?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_keyspace`], but for [`Error::KeyspaceExists`].
    #[doc(alias("open_partition", "open_table", "create_cf", "create_column_family"))]
    pub fn open_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let inner = self
            .inner()
            .create_keyspace(name, options, IfExists::Open)?;
        Ok(Keyspace::new(self.shared.clone(), inner))
    }

    /// Gives a keyspace other options ([`Keyspace::options`] has the present ones), which are kept
    /// with it. New tables are made by them; those there are get them when they are next merged, at
    /// the latest by [`Keyspace::compact_range`]. Where they are of another [`Design`], that is a
    /// [`Keyspace::redesign`]. The name is all that cannot be changed.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use shamba::{Compression, KeyspaceOptions, Options};
    /// let db = Options::new().open(&path)?;
    /// let log = db.create_keyspace("log", KeyspaceOptions::default())?;
    /// let mut options = log.options();
    /// options.compression = vec![Compression::None, Compression::Lz4];
    /// db.alter_keyspace("log", options.clone())?;
    /// # drop(log);
    /// db.close()?;
    /// assert_eq!(Options::new().open(&path)?.keyspace("log")?.options(), options);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyspaceNotFound`] or, where it is dropped meanwhile, [`Error::KeyspaceDropped`];
    /// [`Error::InvalidOption`]; and those of [`Db::write`].
    #[doc(alias = "set_options")]
    pub fn alter_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<()> {
        self.inner().alter_keyspace(name, options)
    }

    /// Creates a keyspace. Its options are kept with it: an open takes them unless it names others
    /// ([`Options::keyspace_options`]), and [`Db::alter_keyspace`] changes them.
    ///
    /// # Errors
    /// [`Error::KeyspaceExists`], [`Error::InvalidOption`], [`Error::BudgetTooSmall`], and those of
    /// [`Db::write`].
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let inner = self
            .inner()
            .create_keyspace(name, options, IfExists::Refuse)?;
        Ok(Keyspace::new(self.shared.clone(), inner))
    }

    /// Removes a keyspace with everything in it. Handles to it give [`Error::KeyspaceDropped`]
    /// from then on; iterators already open go on.
    ///
    /// # Errors
    /// [`Error::KeyspaceNotFound`]; [`Error::InvalidOption`] for the default keyspace; those of
    /// [`Db::write`].
    #[doc(alias("delete_keyspace", "delete_partition", "delete_table", "drop_cf"))]
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.inner().drop_keyspace(name)
    }

    /// The names of all keyspaces.
    #[doc(alias("list_cf", "list_keyspace_names", "list_partitions", "list_tables"))]
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.inner()
            .files()
            .keyspaces()
            .iter()
            .map(|keyspace| keyspace.name().to_owned())
            .collect()
    }

    /// Writes every memtable to tables, and waits for it.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn flush(&self) -> Result<()> {
        self.inner().background().flush()
    }

    /// Makes every write acknowledged so far durable, whatever durability it was written with
    /// except [`Durability::None`](crate::Durability::None).
    ///
    /// # Errors
    /// As [`Db::write`].
    #[doc(alias("persist", "sync_wal"))]
    pub fn sync(&self) -> Result<()> {
        self.inner().writes().sync()
    }

    /// Waits until no flush or compaction is due or running.
    ///
    /// # Errors
    /// The failure that keeps work from being done.
    pub fn wait_for_compaction(&self) -> Result<()> {
        self.inner().background().wait_idle()
    }

    /// Merges everything between two keys (inclusive; `None` is unbounded) of the default keyspace
    /// down to one run, dropping what no reader can see.
    ///
    /// # Errors
    /// As [`Db::write`], and the failure of the compaction.
    #[doc(alias = "major_compaction")]
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.inner()
            .background()
            .compact_range(self.inner().default_keyspace(), from, to)
    }

    /// [`Keyspace::compact_range`].
    ///
    /// # Errors
    /// As [`Db::compact_range`].
    pub fn compact_range_in(
        &self,
        keyspace: &Keyspace,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        keyspace.check_database(self.inner())?;
        keyspace.compact_range(from, to)
    }

    /// A copy of the database as it is now, in a folder that must be new or empty: tables are hard
    /// links where the file system allows, copies elsewhere. Memtables are flushed first, and
    /// writes wait for that; they go on while tables are linked or copied. The copy is durable on
    /// return.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::NotEmpty`] for a folder with files in it; [`Error::Locked`]
    /// while another checkpoint is made there; those of [`Db::flush`]; [`Error::Io`]. After an
    /// error, the files that were made are removed again; the folder stays, with a `LOCK` file at
    /// most, and can be given again. What a crash leaves half-way has no `CURRENT` file and does
    /// not open as a database.
    pub fn checkpoint(&self, destination: impl AsRef<Path>) -> Result<()> {
        let shared = self.inner().shared();
        let destination = open::absolute(shared.options(), destination.as_ref())?;
        checkpoint(self.inner(), &destination)
    }

    /// About how many bytes of tables (not of memtables) the keys between two bounds (`from`
    /// inclusive, `to` exclusive) of the default keyspace take.
    #[must_use]
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        approximate_size(self.inner(), self.inner().default_keyspace(), from, to)
    }

    /// The bytes that the database's files take: tables, logs, manifest and what waits to be
    /// removed. Lists the folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[doc(alias = "disk_space")]
    pub fn size_on_disk(&self) -> Result<u64> {
        size_on_disk(self.inner())
    }

    /// Levels, files, memory by role and what more of it would be worth, counters. Reads nothing
    /// from storage; takes time in the number of blocks and of filter partitions in memory, and
    /// holds one cache shard's lock at a time.
    #[must_use]
    pub fn stats(&self) -> Statistics {
        statistics(self.inner())
    }

    /// Reads every table through and checks every checksum and invariant, and that each value is
    /// there that lies in a value file. Goes on after damage: what is damaged, and where, is in the
    /// summary; [`VerifySummary::check`] makes an error of it. [`Options::verify`] checks one that
    /// is closed, its logs too.
    ///
    /// # Errors
    /// What kept it from looking at all: [`Error::Closed`], [`Error::BudgetTooSmall`].
    pub fn verify(&self) -> Result<VerifySummary> {
        verify(self.inner(), &mut |_, _| {})
    }

    /// [`Db::verify`], telling tables checked and tables in all after each.
    ///
    /// # Errors
    /// As [`Db::verify`].
    pub fn verify_with_progress(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<VerifySummary> {
        verify(self.inner(), &mut progress)
    }

    /// Flushes, stops background work and lets go of the folder. Other handles get
    /// [`Error::Closed`] from then on.
    ///
    /// # Errors
    /// What kept the last flush from succeeding; what was logged is still there at the next open.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
