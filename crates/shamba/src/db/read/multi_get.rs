//! Point lookups of many keys at once, whose reads overlap.
//!
//! All keys are looked up at one point, each as a single lookup would be: memtables, then run by run.
//! A key goes on as far as memory answers; then all blocks that keys wait for are read together,
//! each once, and so on in rounds. There are about as many rounds as the key with most reads has
//! reads. Results do not depend on how keys are grouped.

use super::{Asking, Found, ReadPath, Value, find_in_memory, into_value};
use crate::base::key::SeqNo;
use crate::base::sample;
use crate::budget::{Reservation, Role, keys_looked_up_together, pinned_by_values};
use crate::db::keyspaces::{KeyspaceInner, ReadState};
use crate::error::Result;
use crate::table::{Lookup, LookupStats, PendingGet, Poll};
use crate::version::Run;

/// Keys that are looked up together at most; more are done in key order, so many at a time. Bounds what
/// their lookups take, and the tables they keep open.
const WINDOW: usize = 256;

/// What the lookup of a key takes until it is done, in bytes: its state, about half a kilobyte, in the list
/// of a round and in that of the next.
const KEY_MEMORY: u64 = 1 << 10;

/// A lookup between two rounds.
struct Pending<'a, R> {
    /// The key's place among the keys asked for.
    at: usize,
    /// The runs not asked yet, with their levels.
    runs: R,
    asking: Asking<'a>,
    waiter: PendingGet<'a>,
}

impl<'a, R> AsRef<PendingGet<'a>> for Pending<'a, R> {
    fn as_ref(&self) -> &PendingGet<'a> {
        &self.waiter
    }
}

impl<'a, R> AsMut<PendingGet<'a>> for Pending<'a, R> {
    fn as_mut(&mut self) -> &mut PendingGet<'a> {
        &mut self.waiter
    }
}

/// How far a lookup came.
enum Progress<W> {
    Done(Option<Found>),
    Waits(W),
}

impl ReadPath {
    pub(in crate::db) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &KeyspaceInner,
        keys: &[K],
        snapshot: Option<SeqNo>,
    ) -> Result<Vec<Option<Value>>> {
        self.shared.check_open()?;
        let (state, seq) = match snapshot {
            Some(seq) => (keyspace.state(), seq),
            None => keyspace.read_point(|| self.visibility.newest()),
        };
        keyspace.check_alive()?;
        let mut numbered: Vec<(usize, &[u8])> = Vec::with_capacity(keys.len());
        numbered.extend(keys.iter().map(AsRef::as_ref).enumerate());
        let window = keys_looked_up_together(self.shared.limit()).clamp(1, WINDOW as u64);
        let (window, _held) = self.hold_window(window.min(keys.len() as u64));
        if keys.len() > window {
            // Neighbours wait for the same blocks.
            numbered.sort_unstable_by_key(|(_, key)| *key);
        }
        let mut stats = LookupStats::default();
        let mut values: Vec<Option<Value>> = Vec::new();
        values.resize_with(keys.len(), || None);
        let (mut found, mut pinned) = (0, 0);
        let room = pinned_by_values(self.shared.limit());
        let mut answer = |at: usize, value: Option<Found>| {
            let mut value = into_value(value);
            if let Some(value) = &mut value {
                pinned += value.pinned() as u64;
                if pinned > room {
                    *value = Value::owned(value);
                }
            }
            found += u64::from(value.is_some());
            if let Some(slot) = values.get_mut(at) {
                *slot = value;
            }
        };
        let done = numbered.chunks(window).try_for_each(|keys| {
            self.find_together(keyspace, &state, keys, seq, &mut stats, &mut answer)
        });
        self.record(keys.len() as u64, found, &stats);
        self.count_lookups(keyspace, keys.len() as u64, found);
        done.map(|()| values)
    }

    /// As many keys, of `most` at most, as there is memory for, but one; and the memory.
    fn hold_window(&self, most: u64) -> (usize, Reservation) {
        let budget = self.shared.budget();
        let mut window = most.max(1);
        loop {
            let bytes = window * KEY_MEMORY;
            match budget.try_reserve(Role::Iterators, bytes) {
                Some(held) => return (window as usize, held),
                None if window == 1 => return (1, budget.reserve(Role::Iterators, bytes)),
                None => window /= 2,
            }
        }
    }

    /// The newest entries of keys at or before `seq`.
    fn find_together(
        &self,
        keyspace: &KeyspaceInner,
        state: &ReadState,
        keys: &[(usize, &[u8])],
        seq: SeqNo,
        stats: &mut LookupStats,
        answer: &mut impl FnMut(usize, Option<Found>),
    ) -> Result<()> {
        let mut waiting = Vec::new();
        for &(at, key) in keys {
            if let Some(found) = find_in_memory(state, key, seq) {
                answer(at, Some(found));
                continue;
            }
            let lookup = self.lookup(keyspace, key, seq);
            let runs = state.version.runs().map(|(level, run)| (level, &**run));
            match self.visit_runs(at, keyspace, lookup, runs, sample::weight(), stats)? {
                Progress::Done(found) => answer(at, found),
                Progress::Waits(pending) => waiting.push(pending),
            }
        }
        while !waiting.is_empty() {
            self.tables.read_for(&mut waiting, stats)?;
            let mut still = Vec::with_capacity(waiting.len());
            for pending in waiting {
                let at = pending.at;
                match self.go_on(pending, stats)? {
                    Progress::Done(found) => answer(at, found),
                    Progress::Waits(pending) => still.push(pending),
                }
            }
            waiting = still;
        }
        Ok(())
    }

    /// Asks the tables of the runs, as far as memory answers.
    fn visit_runs<'a, R: Iterator<Item = (usize, &'a Run)>>(
        &self,
        at: usize,
        keyspace: &'a KeyspaceInner,
        lookup: Lookup<'a>,
        mut runs: R,
        weight: u64,
        stats: &mut LookupStats,
    ) -> Result<Progress<Pending<'a, R>>> {
        loop {
            let next = runs
                .by_ref()
                .find_map(|(level, run)| Some((level, run.find(lookup.key())?)));
            let Some((level, file)) = next else {
                return Ok(Progress::Done(None));
            };
            let asking = Asking {
                keyspace,
                level,
                file,
                weight,
            };
            let (found, waits) = self.with_table(file, |table| {
                let mut state = asking.enter(table, &lookup, stats);
                let answer = match table.poll(&mut state, &lookup, stats) {
                    Ok(Poll::Read(need)) => return Ok((None, Some((table.clone(), state, need)))),
                    Ok(Poll::Answer(answer)) => Ok(answer),
                    Err(error) => Err(error),
                };
                let found = self.conclude(&asking, table, &lookup, &state, answer)?;
                Ok((found, None))
            })?;
            if found.is_some() {
                return Ok(Progress::Done(found));
            }
            if let Some((table, state, need)) = waits {
                return Ok(Progress::Waits(Pending {
                    at,
                    runs,
                    asking,
                    waiter: PendingGet {
                        table,
                        state,
                        lookup,
                        need,
                        answer: None,
                    },
                }));
            }
        }
    }

    /// Goes on after a round.
    fn go_on<'a, R: Iterator<Item = (usize, &'a Run)>>(
        &self,
        mut pending: Pending<'a, R>,
        stats: &mut LookupStats,
    ) -> Result<Progress<Pending<'a, R>>> {
        let waiter = &mut pending.waiter;
        let answer = match waiter.answer.take() {
            Some(answer) => Ok(answer),
            None => match waiter.table.poll(&mut waiter.state, &waiter.lookup, stats) {
                Ok(Poll::Answer(answer)) => Ok(answer),
                Ok(Poll::Read(need)) => {
                    waiter.need = need;
                    return Ok(Progress::Waits(pending));
                }
                Err(error) => Err(error),
            },
        };
        let Pending {
            at,
            runs,
            asking,
            waiter,
        } = pending;
        let PendingGet {
            table,
            state,
            lookup,
            ..
        } = waiter;
        match self.conclude(&asking, &table, &lookup, &state, answer)? {
            Some(found) => Ok(Progress::Done(Some(found))),
            None => self.visit_runs(at, asking.keyspace, lookup, runs, asking.weight, stats),
        }
    }
}
