//! The handle to a keyspace (column family): a tree of its own behind one log and one memory
//! budget. Thread-safe.

use std::sync::Arc;
use std::time::SystemTime;

use super::background::Cleared;
use super::batch::WriteBatch;
use super::iter::{Cursor, Iter, IterOptions, KeyRange};
use super::keyspaces::KeyspaceInner;
use super::read::Value;
use super::stats::{approximate_len, approximate_size};
use super::tuning::Advice;
use super::{DbInner, DbShared, in_pieces};
use crate::base::clock::moment_of;
use crate::error::{Error, Result};
use crate::options::{Design, KeyspaceOptions, WriteOptions};
use crate::policy::FilterPolicy;

/// Deletions of a keyspace that is cleared key by key are written in batches of so many bytes. With
/// half of it there are twice as many records in the log; with double of it others wait twice as
/// long for one.
const BYTES_DELETED_TOGETHER: usize = 16 << 10;

/// A handle to a keyspace. Cheap to clone; it keeps the database open.
#[derive(Debug, Clone)]
pub struct Keyspace {
    db: Arc<DbShared>,
    inner: Arc<KeyspaceInner>,
}

impl Keyspace {
    pub(crate) fn new(db: Arc<DbShared>, inner: Arc<KeyspaceInner>) -> Self {
        Keyspace { db, inner }
    }

    pub(super) fn db(&self) -> &DbInner {
        self.db.inner()
    }

    pub(crate) fn inner(&self) -> &Arc<KeyspaceInner> {
        &self.inner
    }

    pub(super) fn shared(&self) -> &Arc<DbShared> {
        &self.db
    }

    pub(crate) fn id(&self) -> u32 {
        self.inner.id()
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.db.inner().shared().id()
    }

    pub(crate) fn check_database(&self, db: &DbInner) -> Result<()> {
        if self.database_id() == db.shared().id() {
            Ok(())
        } else {
            Err(Error::WrongDatabase { what: "keyspace" })
        }
    }

    /// The keyspace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The name of its merge operator, if it has one: see
    /// [`Options::merge_operator`](crate::Options::merge_operator).
    #[must_use]
    pub fn merge_operator(&self) -> Option<&str> {
        Some(self.inner.operator().ok()?.name())
    }

    /// Sets a key, with the database's durability.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    #[doc(alias = "insert")]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// [`Keyspace::put`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.inner.check_alive()?;
        let (key, value) = (key.as_ref(), value.as_ref());
        in_pieces::put(self.db.inner(), &self.inner, key, value, options)
    }

    /// Merges an operand into the value of a key: see [`Db::merge`](crate::Db::merge).
    ///
    /// # Errors
    /// As [`Db::merge`](crate::Db::merge).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// [`Keyspace::merge`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::merge`](crate::Db::merge).
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.inner.check_alive()?;
        let keyspace = (&self.inner, self.database_id());
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let writes = self.db.inner().writes();
        writes.merge_one(keyspace, key, operand, options)
    }

    /// Removes a key; one that does not exist is no error.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    #[doc(alias = "remove")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// [`Keyspace::delete`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.inner.check_alive()?;
        self.db
            .inner()
            .writes()
            .write_one(&self.inner, key.as_ref(), None, options)
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.inner().reads().get(&self.inner, key.as_ref(), None)
    }

    /// Whether a key has a value. Reads what [`Keyspace::get`] reads, and copies no value.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    #[doc(alias = "exists")]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db
            .inner()
            .reads()
            .contains_key(&self.inner, key.as_ref(), None)
    }

    /// The smallest key and its value, if there is any.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    #[doc(alias = "first")]
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next().transpose()
    }

    /// The largest key and its value, if there is any.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    #[doc(alias = "last")]
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn is_empty(&self) -> Result<bool> {
        self.first_key_value().map(|first| first.is_none())
    }

    /// How many keys there are: exact, and read from all of the keyspace. See
    /// [`Keyspace::approximate_len`].
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn len(&self) -> Result<u64> {
        let options = IterOptions::default().fill_cache(false).keys_only(true);
        self.cursor(options)?.count_entries()
    }

    /// About how many keys there are: see [`Db::approximate_len`](crate::Db::approximate_len).
    #[must_use]
    pub fn approximate_len(&self) -> u64 {
        approximate_len(&self.inner)
    }

    /// The bytes of the keyspace's tables. What is only in memory and in the log is not in it.
    #[doc(alias = "disk_space")]
    #[must_use]
    pub fn size_on_disk(&self) -> u64 {
        self.inner.version().sums().size
    }

    /// Removes everything in the keyspace, which stays. Mostly that is one change of the manifest,
    /// whatever there is, durable on return; memtables of all keyspaces are flushed before, and
    /// writes wait for that and for compactions of this keyspace that are under way. While a
    /// [`Snapshot`](crate::Snapshot), [`Cursor`] or [`Iter`] of the database is held, which may
    /// read what was there, it is one deletion for each key instead: not atomic, as durable as
    /// other writes, and space is reclaimed by compactions.
    ///
    /// What is written by others meanwhile may be removed too.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write), and the failure of the flush.
    #[doc(alias = "truncate")]
    pub fn clear(&self) -> Result<()> {
        if self.db.inner().background().clear_at_once(&self.inner)? == Cleared::Yes {
            return Ok(());
        }
        let options = IterOptions::default().fill_cache(false).keys_only(true);
        let mut cursor = self.cursor(options)?;
        cursor.seek_to_first()?;
        while cursor.valid() {
            let mut batch = WriteBatch::new();
            while cursor.valid() && batch.size() < BYTES_DELETED_TOGETHER {
                batch.delete_in(self, cursor.key());
                cursor.next()?;
            }
            let writes = self.db.inner().writes();
            writes.write(batch, WriteOptions::default())?;
        }
        Ok(())
    }

    /// The options of this moment, which [`Db::alter_keyspace`](crate::Db::alter_keyspace) changes.
    #[must_use]
    pub fn options(&self) -> KeyspaceOptions {
        KeyspaceOptions::clone(&self.inner.options())
    }

    /// The values of several keys at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.db.inner().reads().multi_get(&self.inner, keys, None)
    }

    /// Merges everything between two keys (inclusive; `None` is unbounded) down to one run,
    /// dropping what no reader can see.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write), and the failure of the compaction.
    #[doc(alias = "major_compaction")]
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.db
            .inner()
            .background()
            .compact_range(&self.inner, from, to)
    }

    /// About how many bytes of tables (not of memtables) the keys between two bounds take, `from`
    /// inclusive, `to` exclusive.
    #[must_use]
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        approximate_size(self.db.inner(), &self.inner, from, to)
    }

    /// Changes which filter modules lookups read, from the next lookup on and until the database is
    /// closed: opening it takes the policy of the options again, which
    /// [`Db::alter_keyspace`](crate::Db::alter_keyspace) changes. What was counted so far is kept.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// use shamba::FilterPolicy;
    /// db.keyspace("default")?.set_filter_policy(FilterPolicy::All)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] or [`Error::KeyspaceDropped`].
    pub fn set_filter_policy(&self, policy: FilterPolicy) -> Result<()> {
        policy.validate()?;
        self.inner.check_alive()?;
        let present = || self.inner.version();
        self.inner.limits().set_policy(policy, present);
        Ok(())
    }

    /// The design that the keyspace has, or is moving to.
    #[must_use]
    pub fn design(&self) -> Design {
        self.inner.options().design()
    }

    /// Whether the tree has yet to reach the design that was asked for last.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.inner.moving().is_some()
    }

    /// The present design beside the best one for the data, the recent operations and the device,
    /// with predicted costs. `None` while it is not known: before a thousand operations, or while
    /// the data are less than four write buffers. The first call measures the device, unless
    /// [`Options::device`](crate::Options::device) states what it costs: it writes and removes 4
    /// MiB.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::KeyspaceDropped`], [`Error::Io`] of the measurement, and
    /// [`Error::InvalidOption`] for a present design outside the model's domain.
    pub fn advise(&self) -> Result<Option<Advice>> {
        self.db.inner().advisor().advise(&self.inner)
    }

    /// Gives the keyspace another design, to which it moves by ordinary compactions while reads and
    /// writes go on. Returns once the design is recorded: from then on it is that of every open,
    /// whatever options that names, until this is called again, or
    /// [`Db::alter_keyspace`](crate::Db::alter_keyspace). A move that was cut off goes on at the
    /// next open. [`Db::wait_for_compaction`](crate::Db::wait_for_compaction) waits for its end.
    ///
    /// Files that were written before get the new filters when they are next merged, at the latest
    /// by the move itself, which rewrites those whose filters are clearly not what is wanted.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// use shamba::MergePolicy;
    /// let keyspace = db.default_keyspace();
    /// let tiered = keyspace.design().merge_policy(MergePolicy::Tiering).size_ratio(4);
    /// keyspace.redesign(tiered)?;
    /// db.wait_for_compaction()?;
    /// assert!(keyspace.design() == tiered && !keyspace.is_moving());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`], [`Error::KeyspaceDropped`], and those of
    /// [`Db::write`](crate::Db::write).
    pub fn redesign(&self, design: Design) -> Result<()> {
        self.db.inner().redesigner().redesign(&self.inner, &design)
    }

    /// Every key of the keyspace as it is now, and its value, in the order of keys. Later writes
    /// are not in it. Errors are those of [`Db::iter`](crate::Db::iter).
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

    /// The keys that begin with `prefix`: of `"ada"` those of `"adam"` too, of `"ada/"` not.
    ///
    /// To delete them, put them into batches of some thousand operations while going through them.
    /// That is not atomic, and what others write meanwhile is not in the iterator and stays.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.iter_with(IterOptions::prefix(prefix))
    }

    /// The keys that the options cover.
    #[must_use]
    pub fn iter_with(&self, options: IterOptions) -> Iter {
        Iter::new(self.cursor(options))
    }

    /// A cursor over the keyspace as it is now, to seek and to go both ways. It sees no later
    /// write.
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor).
    pub fn cursor(&self, options: IterOptions) -> Result<Cursor> {
        Cursor::new(&self.db, &self.inner, options, None)
    }
}

/// What batches do with handles. (Here, for a handle is made of the database, which knows batches.)
impl WriteBatch {
    /// Sets a key of a keyspace.
    pub fn put_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.bind(&keyspace.inner, keyspace.database_id());
        self.push(keyspace.id(), key.as_ref(), Some(value.as_ref()));
    }

    /// Sets a key of a keyspace, until a time: see [`WriteBatch::put_until`].
    pub fn put_until_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) {
        let expires = moment_of(expires);
        self.bind(&keyspace.inner, keyspace.database_id());
        self.push_until(keyspace.id(), key.as_ref(), value.as_ref(), expires);
    }

    /// Merges an operand into the value of a key of a keyspace: see
    /// [`Db::merge`](crate::Db::merge).
    pub fn merge_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        self.bind(&keyspace.inner, keyspace.database_id());
        self.push_operand(keyspace.id(), key.as_ref(), operand.as_ref());
    }

    /// Removes a key of a keyspace; one that does not exist is no error.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.bind(&keyspace.inner, keyspace.database_id());
        self.push(keyspace.id(), key.as_ref(), None);
    }
}
