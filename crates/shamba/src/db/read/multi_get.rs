//! Point lookups of many keys at once, whose reads overlap.
//!
//! All keys are looked up at one point, each as a single lookup would be: memtables, then run by
//! run. A key goes on as far as memory answers; then all blocks that keys wait for are read
//! together, each once, and so on in rounds. There are about as many rounds as the key with most
//! reads has reads. Results do not depend on how keys are grouped.

use std::cell::Cell;
use std::sync::Arc;

use super::entries::FromCache;
use super::pointed::no_file;
use super::{Found, PointReader, ReadPath, TableVisit, Value};
use crate::base::pointer::ValuePointer;
use crate::base::sample;
use crate::budget::{AdmittedWork, Role, keys_looked_up_together, pinned_by_values};
use crate::cache::Candidate;
use crate::db::keyspaces::KeyspaceInner;
use crate::db::visibility::SnapshotPoint;
use crate::error::{Error, Result};
use crate::table::{Lookup, PendingGet, Poll, WantedValue};
use crate::version::Run;

/// Keys that are looked up together at most; more are done in key order, so many at a time. Bounds
/// what their lookups take, and the tables they keep open.
const WINDOW: usize = 256;

/// What the lookup of a key takes until it is done, in bytes: its state, about half a kilobyte, in
/// the list of a round and in that of the next.
const KEY_MEMORY: u64 = 1 << 10;

/// A lookup between two rounds.
struct PendingKey<'a, R> {
    /// The key's place among the keys given.
    at: usize,
    /// The runs not visited yet, with their levels.
    runs: R,
    /// Where it is, and what it waits for there.
    visit: TableVisit<'a>,
    get: PendingGet<'a>,
    /// The key, as an entry of the cache.
    candidate: Option<Candidate>,
}

impl<'a, R> AsRef<PendingGet<'a>> for PendingKey<'a, R> {
    fn as_ref(&self) -> &PendingGet<'a> {
        &self.get
    }
}

impl<'a, R> AsMut<PendingGet<'a>> for PendingKey<'a, R> {
    fn as_mut(&mut self) -> &mut PendingGet<'a> {
        &mut self.get
    }
}

/// How far a lookup came.
enum KeyPoll<W> {
    Done(Option<Found>),
    Waits(W),
}

/// The values of a batch, as they are found.
struct BatchValues {
    values: Vec<Option<Value>>,
    found: u64,
    /// Those whose values lie in value files, and after them those whose values are merged: once
    /// all others are found.
    pointed: Vec<(usize, ValuePointer)>,
    merged: Vec<usize>,
    /// Bytes of the cache that they hold, and may hold.
    pinned: u64,
    most_pinned: u64,
}

impl BatchValues {
    fn of(keys: usize, most_pinned: u64) -> Self {
        let mut values = Vec::new();
        values.resize_with(keys, || None);
        BatchValues {
            values,
            found: 0,
            pointed: Vec::new(),
            merged: Vec::new(),
            pinned: 0,
            most_pinned,
        }
    }

    /// The newest entry of a key, by the key's place; `pointer` is that of one that points.
    fn set(&mut self, at: usize, found: Option<Found>, pointer: &Cell<ValuePointer>) {
        match found {
            Some(Found::Operand) => return self.merged.push(at),
            Some(Found::Pointer) => return self.pointed.push((at, pointer.get())),
            _ => {}
        }
        self.set_value(at, found.and_then(Found::into_value));
    }

    fn set_value(&mut self, at: usize, mut value: Option<Value>) {
        if let Some(value) = &mut value {
            self.found += 1;
            self.pinned += value.pinned() as u64;
            if self.pinned > self.most_pinned {
                *value = Value::owned(value);
            }
        }
        if let Some(slot) = self.values.get_mut(at) {
            *slot = value;
        }
    }
}

impl ReadPath {
    pub(in crate::db) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &KeyspaceInner,
        keys: &[K],
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Vec<Option<Value>>> {
        let budget = self.shared.budget();
        let most_pinned = pinned_by_values(self.shared.working_limit());
        let mut values = BatchValues::of(keys.len(), most_pinned);
        let count = keys.len() as u64;
        self.read(keyspace, snapshot, count, |reader| {
            let bytes = || {
                let limit = self.shared.working_limit();
                let window = keys_looked_up_together(limit, KEY_MEMORY).min(WINDOW as u64);
                window.min(count).max(1) * KEY_MEMORY
            };
            // All batches together have a share: others wait here, and hold nothing meanwhile.
            let admitted = budget.admit(AdmittedWork::Lookups, bytes, || self.shared.check_open());
            let permit = match admitted {
                Ok(permit) => permit,
                Err(error) => return (0, Err(error)),
            };
            let _held = budget.reserve(Role::Iterators, permit.bytes());
            let window = permit.bytes() / KEY_MEMORY;
            let window = window as usize;
            let mut done = reader.find_all(keys, window, &mut values);
            let pointed = std::mem::take(&mut values.pointed);
            let mut rest = &*pointed;
            while done.is_ok() && !rest.is_empty() {
                let (now, later) = rest.split_at(read_together(rest, window, most_pinned));
                done = reader.find_pointed_together(keys, now, &mut values);
                rest = later;
            }
            for at in std::mem::take(&mut values.merged) {
                if let (Ok(()), Some(key)) = (&done, keys.get(at)) {
                    let found = reader.find_merged_from(key.as_ref(), None);
                    done = found.map(|found| values.set(at, Some(found), &reader.pointer));
                }
            }
            (values.found, done)
        })?;
        Ok(values.values)
    }
}

/// How many of the first of some values are read together: a window at most, and no more bytes than
/// a batch may pin, for until all are read none is copied.
fn read_together(pointed: &[(usize, ValuePointer)], window: usize, most: u64) -> usize {
    let mut bytes = 0u64;
    let fit = pointed.iter().take(window).take_while(|(_, pointer)| {
        bytes = bytes.saturating_add(pointer.len);
        bytes <= most
    });
    fit.count().max(1)
}

/// What a key takes in the list of all, in bytes.
const LISTED: u64 = size_of::<(usize, &[u8])>() as u64;

impl<'a> PointReader<'a> {
    /// The newest entries of keys, so many together, each by its place.
    fn find_all<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        window: usize,
        values: &mut BatchValues,
    ) -> Result<()> {
        let numbered = || keys.iter().map(AsRef::as_ref).enumerate();
        let several = keys.len() > window;
        let bytes = keys.len() as u64 * LISTED;
        let budget = self.path.shared.budget();
        let listed = several.then(|| budget.try_reserve(Role::Iterators, bytes));
        if let Some(Some(_listed)) = listed {
            // Neighbours wait for the same blocks.
            let mut all: Vec<(usize, &[u8])> = numbered().collect();
            all.sort_unstable_by_key(|(_, key)| *key);
            let mut windows = all.chunks(window);
            return windows.try_for_each(|keys| self.find_together(keys, values));
        }
        let mut together = Vec::with_capacity(window);
        let mut left = numbered().peekable();
        while left.peek().is_some() {
            together.clear();
            together.extend(left.by_ref().take(window));
            self.find_together(&together, values)?;
        }
        Ok(())
    }

    /// The values that keys point to, each by its place, of a window of those.
    fn find_pointed_together<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        pointed: &[(usize, ValuePointer)],
        values: &mut BatchValues,
    ) -> Result<()> {
        let (path, state) = (self.path, self.state);
        let (tables, files) = (&path.tables, state.version.value_files());
        let mut missing = None;
        let wanted = pointed.iter().filter_map(|&(at, pointer)| {
            let key = keys.get(at)?.as_ref();
            let Some(held) = files.get(pointer.file) else {
                missing = Some(pointer);
                return None;
            };
            let file = &held.file;
            Some(WantedValue {
                at,
                file,
                key,
                pointer,
            })
        });
        tables.values_of(wanted, &mut self.totals, |at, value| {
            values.set_value(at, Some(Value::in_table(value)));
        })?;
        missing.map_or(Ok(()), |pointer| Err(no_file(tables, pointer)))
    }

    /// The newest entries of keys, each by its place.
    fn find_together(&mut self, keys: &[(usize, &[u8])], values: &mut BatchValues) -> Result<()> {
        let mut waiting = Vec::new();
        for &(at, key) in keys {
            if let Some(found) = self.find_in_memtables(key) {
                values.set(at, Some(found.copied()), &self.pointer);
                continue;
            }
            // What the cache has by itself needs no table; others are asked of the runs.
            let lookup = self.lookup(key);
            let candidate = match self.ask_cache(&lookup) {
                FromCache::Found(found) => {
                    values.set(at, Some(found), &self.pointer);
                    continue;
                }
                FromCache::Tables(candidate) => candidate,
            };
            let runs = self.state.version.runs();
            let runs = runs.map(|(level, run)| (level, &**run));
            match self.visit_runs((at, candidate), lookup, runs, sample::weight()) {
                Ok(KeyPoll::Done(found)) => values.set(at, found, &self.pointer),
                Ok(KeyPoll::Waits(pending)) => waiting.push(pending),
                Err(error) => return self.abandon(waiting, error),
            }
        }
        // Rounds: all that keys wait for is read together, then each goes on until it waits again.
        while !waiting.is_empty() {
            let batches = &mut self.totals.batches;
            if let Err(error) = self.path.tables.read_for(&mut waiting, batches) {
                return self.abandon(waiting, error);
            }
            self.refresh();
            let mut still = Vec::with_capacity(waiting.len());
            let mut round = waiting.into_iter();
            while let Some(pending) = round.next() {
                let at = pending.at;
                match self.go_on(pending) {
                    Ok(KeyPoll::Done(found)) => values.set(at, found, &self.pointer),
                    Ok(KeyPoll::Waits(pending)) => still.push(pending),
                    Err(error) => return self.abandon(still.into_iter().chain(round), error),
                }
            }
            waiting = still;
        }
        Ok(())
    }

    /// Gives lookups up since one failed. What they did is counted all the same.
    #[cold]
    fn abandon<'k, R>(
        &mut self,
        waiting: impl IntoIterator<Item = PendingKey<'k, R>>,
        error: Error,
    ) -> Result<()> {
        for mut pending in waiting {
            self.count(&pending.visit, &pending.get.get(), None);
        }
        Err(error)
    }

    /// Asks the tables of the runs, as far as memory answers.
    fn visit_runs<'k, R: Iterator<Item = (usize, &'a Run)>>(
        &mut self,
        (at, mut candidate): (usize, Option<Candidate>),
        lookup: Lookup<'k>,
        mut runs: R,
        weight: u64,
    ) -> Result<KeyPoll<PendingKey<'k, R>>>
    where
        'a: 'k,
    {
        while let Some((level, run)) = runs.next() {
            let Some(file) = run.find(lookup.key()) else {
                continue;
            };
            let visit = TableVisit {
                level,
                file,
                weight,
            };
            let opened = self.path.tables.visit(file)?;
            let opened = opened.as_deref().ok_or(Error::Closed)?;
            // As a single lookup would, but for reads: those are made with others'.
            let mut state = self.enter(&visit, opened, &lookup);
            let mut get = self.begin(&visit, opened, &lookup, &mut state);
            let answer = match get.poll() {
                Ok(Poll::Answer(answer)) => Ok(answer),
                // The lookup lets go of what it holds pinned: many keys may wait.
                Ok(Poll::Read(need)) => {
                    let table = Arc::clone(opened.table());
                    let get = PendingGet::new(table, lookup, state, need);
                    return Ok(KeyPoll::Waits(PendingKey {
                        at,
                        runs,
                        visit,
                        get,
                        candidate,
                    }));
                }
                Err(error) => Err(error),
            };
            // A newer run has the newest entry: the first that is found is the answer.
            let found = self.record(&visit, &get, answer, &mut candidate)?;
            if let Some(found) = found {
                self.offer(candidate, &lookup, Some(&found));
                return Ok(KeyPoll::Done(Some(found)));
            }
        }
        self.offer(candidate, &lookup, None);
        Ok(KeyPoll::Done(None))
    }

    /// Goes on after a round.
    fn go_on<'k, R: Iterator<Item = (usize, &'a Run)>>(
        &mut self,
        mut pending: PendingKey<'k, R>,
    ) -> Result<KeyPoll<PendingKey<'k, R>>>
    where
        'a: 'k,
    {
        let answer = match pending.get.poll() {
            Ok(None) => return Ok(KeyPoll::Waits(pending)),
            Ok(Some(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        let PendingKey {
            at,
            runs,
            visit,
            mut get,
            mut candidate,
        } = pending;
        let found = self.record(&visit, &get.get(), answer, &mut candidate)?;
        let lookup = get.into_lookup();
        match found {
            Some(found) => {
                self.offer(candidate, &lookup, Some(&found));
                Ok(KeyPoll::Done(Some(found)))
            }
            None => self.visit_runs((at, candidate), lookup, runs, visit.weight),
        }
    }
}
