//! Brings entries back into the cache that were there before the database was closed: their keys
//! are looked up as `multi_get` would, so that what the cache then has of them is what tables have.
//!
//! Nobody asked for these keys: neither keys nor partitions count as looked up.

use super::ReadPath;
use super::entries::epoch_of;
use crate::base::key::{EntryKind, SeqNo};
use crate::budget::{AdmittedWork, Role, reload_at_once};
use crate::cache::{Candidate, Epoch};
use crate::db::files::warm::WarmEntry;
use crate::db::keyspaces::{KeyspaceInner, ReadState};
use crate::error::{Error, Result};
use crate::table::{Get, GetState, Lookup, PendingGet, Poll, TableGet, TableValue};
use crate::version::Run;

/// Keys that are looked up together at most: the reads of others wait beside them. With half of it
/// what was in memory is back later; with more than double, lookups meanwhile take longer.
const TOGETHER: usize = 8;

/// Reads of so many bytes are made under the smallest budgets too.
const LEAST_READ: usize = 8 << 10;

/// What the lookup of a key takes until it is done, in bytes, as of `multi_get`.
const KEY_MEMORY: u64 = 1 << 10;

/// The lookup of a key between two reads.
struct PendingEntry<'a, R> {
    candidate: Candidate,
    /// The runs not visited yet.
    runs: R,
    get: PendingGet<'a>,
}

impl<'a, R> AsRef<PendingGet<'a>> for PendingEntry<'a, R> {
    fn as_ref(&self) -> &PendingGet<'a> {
        &self.get
    }
}

impl<'a, R> AsMut<PendingGet<'a>> for PendingEntry<'a, R> {
    fn as_mut(&mut self) -> &mut PendingGet<'a> {
        &mut self.get
    }
}

/// A point at which keys are looked up.
struct Reloader<'a> {
    path: &'a ReadPath,
    keyspace: &'a KeyspaceInner,
    state: &'a ReadState,
    seq: SeqNo,
    epoch: Epoch,
    /// Entries that are in the cache again.
    kept: u64,
}

impl ReadPath {
    /// Offers the cache what tables have of keys, some of them together. Gives how many it has
    /// then; `None` where that is not to be.
    pub(in crate::db) fn reload(
        &self,
        keyspace: &KeyspaceInner,
        entries: &[WarmEntry<'_>],
    ) -> Result<Option<u64>> {
        let budget = self.shared.budget();
        let open = || self.shared.check_not_stopping();
        let mut kept = None;
        let mut rest = entries;
        while !rest.is_empty() {
            let bytes = || {
                let room = reload_at_once(self.shared.working_limit()) / KEY_MEMORY;
                room.clamp(1, TOGETHER.min(rest.len()) as u64) * KEY_MEMORY
            };
            open()?;
            let permit = budget.admit(AdmittedWork::Lookups, bytes, open)?;
            let _held = budget.reserve(Role::Iterators, permit.bytes());
            let together = (permit.bytes() / KEY_MEMORY) as usize;
            let (now, later) = rest.split_at(together.min(rest.len()));
            let more = self.reload_together(keyspace, now)?;
            kept = more.map(|more| kept.unwrap_or(0) + more).or(kept);
            rest = later;
        }
        Ok(kept)
    }

    fn reload_together(
        &self,
        keyspace: &KeyspaceInner,
        entries: &[WarmEntry<'_>],
    ) -> Result<Option<u64>> {
        let Some(epoch) = epoch_of(&self.shared, keyspace) else {
            return Ok(None);
        };
        let (state, seq) = keyspace.read_point(|| self.visibility.newest());
        keyspace.check_alive()?;
        if !keyspace.entries().shows_all_to(seq) {
            return Ok(None);
        }
        // What is read here is no sign that time has passed.
        let cache = self.shared.options().memory.cache();
        let _paused = cache.policy().pause();
        let mut reloader = Reloader {
            path: self,
            keyspace,
            state: &state,
            seq,
            epoch,
            kept: 0,
        };
        reloader.look_up(entries)?;
        Ok(Some(reloader.kept))
    }
}

impl<'a> Reloader<'a> {
    fn look_up(&mut self, entries: &[WarmEntry<'_>]) -> Result<()> {
        let mut waiting = Vec::new();
        let cache = self.path.shared.options().memory.cache();
        // As far as memory answers.
        for entry in entries {
            let share = self.path.shared.options().hash_sharing;
            let lookup = Lookup::new(entry.key, self.seq, share).for_entry();
            let space = self.keyspace.entries();
            let was = (entry.uses, entry.saves);
            let candidate = cache.candidate(space, lookup.digest(&mut 0), was);
            let runs = self.state.version.runs().map(|(_, run)| &**run);
            waiting.extend(self.visit_runs(candidate, lookup, runs)?);
        }
        let most = (reload_at_once(self.path.shared.limit()) as usize).max(LEAST_READ);
        while !waiting.is_empty() {
            // What is in a large block is no entry.
            waiting.retain(|pending| pending.get.bytes() <= most);
            self.path.tables.read_for(&mut waiting, &mut 0)?;
            // Each goes on until it waits again, or has its answer.
            let mut still = Vec::with_capacity(waiting.len());
            for mut pending in waiting {
                match pending.get.poll()? {
                    None => still.push(pending),
                    Some(answer) => {
                        let PendingEntry {
                            candidate,
                            runs,
                            get,
                        } = pending;
                        let lookup = get.into_lookup();
                        match answer {
                            TableGet::Absent => {
                                still.extend(self.visit_runs(candidate, lookup, runs)?);
                            }
                            found => self.offer(candidate, &lookup, Some(found)),
                        }
                    }
                }
            }
            waiting = still;
        }
        Ok(())
    }

    /// Asks the tables of the runs, as far as memory answers; what waits for a read then.
    fn visit_runs<'k, R: Iterator<Item = &'a Run>>(
        &mut self,
        candidate: Candidate,
        lookup: Lookup<'k>,
        mut runs: R,
    ) -> Result<Option<PendingEntry<'k, R>>>
    where
        'a: 'k,
    {
        while let Some(run) = runs.next() {
            let Some(file) = run.find(lookup.key()) else {
                continue;
            };
            let opened = self.path.tables.visit(file)?;
            let table = opened.as_deref().ok_or(Error::Closed)?.table();
            let reads = self.keyspace.limits().module_reads(file);
            let mut state = GetState::new(table, &lookup, reads);
            match Get::new(table, None, &lookup, &mut state).poll()? {
                Poll::Answer(TableGet::Absent) => {}
                Poll::Answer(found) => {
                    self.offer(candidate, &lookup, Some(found));
                    return Ok(None);
                }
                Poll::Read(need) => {
                    return Ok(Some(PendingEntry {
                        candidate,
                        runs,
                        get: PendingGet::new(table.clone(), lookup, state, need),
                    }));
                }
            }
        }
        self.offer(candidate, &lookup, None);
        Ok(None)
    }

    fn offer(&mut self, candidate: Candidate, lookup: &Lookup<'_>, found: Option<TableGet>) {
        let value = match &found {
            Some(TableGet::Found { tag, value }) => match tag.kind() {
                Some(EntryKind::Put) => Some(value),
                Some(EntryKind::Delete) => None,
                // What is true for a while only is not kept, nor what is not the value yet.
                Some(_) | None => return,
            },
            Some(TableGet::Absent) | None => None,
        };
        let cache = self.path.shared.options().memory.cache();
        let of = (self.keyspace.entries(), self.epoch);
        let value = value.map(|value: &TableValue| &**value);
        // What is too long was left out, and an empty value looks the same: it comes with a lookup.
        if value.is_some_and(<[u8]>::is_empty) {
            return;
        }
        self.kept += u64::from(cache.offer_entry(of, candidate, lookup.key(), value));
    }
}
