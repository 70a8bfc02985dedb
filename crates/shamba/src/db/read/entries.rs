//! Entries that the cache has by themselves, on the way of a lookup: asked for after the memtables
//! and before the tables, and offered once tables have answered.

use super::{Found, PointReader, Value};
use crate::cache::{CachedEntry, Candidate, Epoch};
use crate::db::context::DbContext;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::table::Lookup;

/// What the cache says of a key.
pub(super) enum FromCache {
    Found(Found),
    /// Tables are to be asked; the candidate for an entry, if there may be one.
    Tables(Option<Candidate>),
}

/// When lookups at a point may begin to ask for entries, to be asked for before the read state:
/// `None` where they are not to.
#[inline]
pub(super) fn epoch_of(shared: &DbContext, keyspace: &KeyspaceInner) -> Option<Epoch> {
    let options = shared.options();
    let uses = options.cache_entries && options.memory.cache().uses_entries();
    uses.then(|| keyspace.entries().epoch())?
}

impl PointReader<'_> {
    /// The newest entry of the key looked up in what is not memtables.
    #[inline]
    pub(super) fn find_below_memtables(&mut self, lookup: &Lookup<'_>) -> Result<Option<Found>> {
        if self.epoch.is_none() {
            return self.find_in_tables(lookup, &mut None);
        }
        match self.ask_cache(lookup) {
            FromCache::Found(found) => Ok(Some(found)),
            FromCache::Tables(mut candidate) => {
                let found = self.find_in_tables(lookup, &mut candidate)?;
                self.offer(candidate, lookup, found.as_ref());
                Ok(found)
            }
        }
    }

    /// What the cache has of the key looked up.
    pub(super) fn ask_cache(&mut self, lookup: &Lookup<'_>) -> FromCache {
        let Some(epoch) = self.epoch else {
            return FromCache::Tables(None);
        };
        let mut hashes = 0;
        let digest = lookup.digest(&mut hashes);
        self.totals.hashes += u64::from(hashes);
        let cache = self.path.shared.options().memory.cache();
        let of = (self.keyspace.entries(), epoch);
        match cache.entry(of, (lookup.key(), digest), lookup.key_only()) {
            CachedEntry::Known(value) => {
                self.totals.entry_hits += 1;
                let value = value.map(|value| Found::Value(Value::boxed(value)));
                FromCache::Found(value.unwrap_or(Found::Tombstone))
            }
            CachedEntry::Unknown(candidate) => {
                self.totals.entry_misses += 1;
                FromCache::Tables(Some(candidate))
            }
        }
    }

    /// Offers the cache what tables have of a key.
    pub(super) fn offer(
        &self,
        candidate: Option<Candidate>,
        lookup: &Lookup<'_>,
        found: Option<&Found>,
    ) {
        let value = match found {
            Some(Found::Value(value)) => Some(&**value),
            Some(Found::Tombstone | Found::Operand | Found::Pointer) | None => None,
        };
        let Some((candidate, epoch)) = candidate.zip(self.epoch) else {
            return;
        };
        // Of a lookup for the key only the value is not there.
        if value.is_some() && lookup.key_only() {
            return;
        }
        let cache = self.path.shared.options().memory.cache();
        let of = (self.keyspace.entries(), epoch);
        cache.offer_entry(of, candidate, lookup.key(), value);
    }
}
