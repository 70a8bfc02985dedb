//! Functions of the caller's that compactions ask what becomes of entries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Options;
use crate::compaction::CompactionFilter;

/// The filters of keyspaces, by name.
#[derive(Clone, Default)]
pub(crate) struct CompactionFilters(BTreeMap<String, Arc<dyn CompactionFilter>>);

impl CompactionFilters {
    /// The filter of a keyspace.
    pub(crate) fn of(&self, keyspace: &str) -> Option<&dyn CompactionFilter> {
        self.0.get(keyspace).map(AsRef::as_ref)
    }
}

impl fmt::Debug for CompactionFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Options {
    /// Asks a filter about the entries of a keyspace when compactions merge them, also of one that
    /// is created later; `"default"` is the default keyspace. It is not kept: each open says it
    /// anew.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use shamba::{CompactionDecision, Options};
    /// let of_guests = |key: &[u8], _value: &[u8]| match key.starts_with(b"guest/") {
    ///     true => CompactionDecision::Remove,
    ///     false => CompactionDecision::Keep,
    /// };
    /// let options = Options::new().compaction_filter("default", of_guests);
    /// let db = options.open(dir.path())?;
    /// db.put("guest/1", "a basket")?;
    /// db.put("user/1", "a basket")?;
    /// db.compact_range(None, None)?;
    /// assert_eq!(db.get("guest/1")?, None);
    /// assert!(db.get("user/1")?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn compaction_filter(
        mut self,
        keyspace: impl Into<String>,
        filter: impl CompactionFilter + 'static,
    ) -> Self {
        let filters = &mut self.compaction_filters.0;
        filters.insert(keyspace.into(), Arc::new(filter));
        self
    }
}
