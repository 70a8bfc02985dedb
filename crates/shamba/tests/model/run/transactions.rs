//! Steps that open transactions, held across other steps, and use and end them. What the commit of
//! one may say follows from what the reference holds that was written since it began.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use shamba::{
    CompareAndSwapError, Durability, Error, Isolation, IterOptions, Transaction,
    TransactionOptions, WriteOptions,
};

use super::merges::MOST_OPERANDS;
use super::{Run, read_whole};
use crate::common::story::told;
use crate::reference::{Bytes, Change, Point, Write, covers, has_keys};

/// A key of a keyspace.
type Place = (String, Vec<u8>);

/// What a transaction wrote of a key.
#[derive(Debug, Clone, Default)]
struct OwnKey {
    /// What it put or deleted last, if it did.
    base: Option<Option<Bytes>>,
    /// What it merged into the key since, the oldest first.
    operands: Vec<Bytes>,
}

/// What a transaction wrote.
type Own = BTreeMap<Place, OwnKey>;

/// A transaction in both.
pub(super) struct HeldTransaction {
    real: Transaction,
    isolation: Isolation,
    pub(super) at: Point,
    own: Own,
    /// The ranges that it deleted; what it wrote there since is in `own`.
    deleted: Vec<(String, IterOptions)>,
    savepoints: Vec<(Own, Vec<(String, IterOptions)>)>,
    /// What the commit depends on, beside what it writes.
    points: BTreeSet<Place>,
    ranges: Vec<(String, IterOptions)>,
    /// About how many bytes it holds.
    bytes: usize,
}

/// Whether memory refused what a transaction asked for.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::TransactionTooLarge { .. }
            | Error::BatchTooLarge { .. }
            | Error::IteratorsExhausted { .. }
    )
}

impl OwnKey {
    fn of(value: Option<Bytes>) -> Self {
        OwnKey {
            base: Some(value),
            operands: Vec::new(),
        }
    }

    /// The key's value, where it has one below.
    fn value(&self, below: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let base = self.base.clone().unwrap_or_else(below);
        if self.operands.is_empty() {
            return base;
        }
        let operands = self.operands.iter().map(|operand| &**operand);
        Some(told(base.as_deref(), operands).into())
    }
}

impl HeldTransaction {
    /// What it wrote itself of a key; unless that is all of it, a serializable one depends on the
    /// key.
    fn own_or_depend(&mut self, place: &Place, for_update: bool) -> OwnKey {
        let own = self.own.get(place).cloned();
        let own = own.unwrap_or_else(|| self.unwritten(place));
        if for_update || own.base.is_none() && self.isolation == Isolation::Serializable {
            self.points.insert(place.clone());
        }
        self.bytes += 100 + place.1.len();
        own
    }

    /// What it did to a key that it did not write: it may have deleted a range with it.
    fn unwritten(&self, (name, key): &Place) -> OwnKey {
        if self.deletes(name, key) {
            OwnKey::of(None)
        } else {
            OwnKey::default()
        }
    }

    /// Whether it deleted a range with a key.
    fn deletes(&self, name: &str, key: &[u8]) -> bool {
        let mut deleted = self.deleted.iter();
        deleted.any(|(of, range)| of == name && covers(range, key))
    }

    fn merged_into(&mut self, place: Place) -> &mut OwnKey {
        let unwritten = self.unwritten(&place);
        self.own.entry(place).or_insert(unwritten)
    }

    /// Whether a key has room for an operand more, in the database and in the transaction.
    fn may_merge(&self, run: &Run, place: &Place) -> bool {
        let own = self.own.get(place).map_or(0, |own| own.operands.len());
        own < MOST_OPERANDS && run.may_merge(&place.0, &place.1)
    }

    fn uses(&self, name: &str) -> bool {
        let savepoints = self.savepoints.iter().flat_map(|(own, _)| own.keys());
        let mut deleted = self.savepoints.iter().flat_map(|(_, deleted)| deleted);
        if deleted.any(|range| range.0 == name) || self.deleted.iter().any(|range| range.0 == name)
        {
            return true;
        }
        let mut places = self.own.keys().chain(&self.points).chain(savepoints);
        places.any(|place| place.0 == name) || self.ranges.iter().any(|range| range.0 == name)
    }
}

impl Run {
    /// Does something with a transaction, or begins one.
    pub(super) fn transaction(&mut self) {
        let most = if self.budget < 2 << 20 { 2 } else { 4 };
        let count = self.transactions.len() as u64;
        if count == 0 || count < most && self.rng.one_in(8) {
            return self.begin_transaction();
        }
        let held = self.rng.below(count) as usize;
        let held = self.transactions.swap_remove(held);
        // One that is held leaves iterators most of their share.
        if held.bytes as u64 > self.budget / 64 {
            return self.commit_transaction(held);
        }
        let goes_on = match self.rng.below(40) {
            0..6 => self.read_in_transaction(held),
            6..8 => self.read_several_in_transaction(held),
            8..13 => self.iterate_in_transaction(held),
            13..27 => self.write_in_transaction(held),
            27..32 => Some(self.savepoint(held)),
            32 => {
                self.note(|| format!("roll back that of {:?}", held.at));
                held.real.rollback();
                None
            }
            33 => self.exhaust_transaction(held),
            _ => {
                self.commit_transaction(held);
                None
            }
        };
        self.transactions.extend(goes_on);
    }

    fn begin_transaction(&mut self) {
        let isolation = *self
            .rng
            .pick(&[Isolation::Serializable, Isolation::Snapshot]);
        self.note(|| format!("begin a transaction at {:?}: {isolation:?}", self.point()));
        let options = TransactionOptions::new().isolation(isolation);
        self.transactions.push(HeldTransaction {
            real: self.db().transaction_with(options),
            isolation,
            at: self.point(),
            own: Own::new(),
            deleted: Vec::new(),
            savepoints: Vec::new(),
            points: BTreeSet::new(),
            ranges: Vec::new(),
            bytes: 0,
        });
    }

    fn value_then(&self, (name, key): &Place, at: Point) -> Option<Bytes> {
        self.keyspaces[name].model.borrow().get(key, at)
    }

    fn read_in_transaction(&mut self, mut held: HeldTransaction) -> Option<HeldTransaction> {
        let place = (self.name(), self.key());
        let way = self.rng.below(5);
        self.note(|| format!("read {place:?} in that of {:?}, way {way}", held.at));
        let merged = held.own.get(&place).filter(|own| !own.operands.is_empty());
        let own = match merged.filter(|_| way == 1) {
            // It is there whatever lies below.
            Some(own) => own.clone(),
            None => held.own_or_depend(&place, way == 0),
        };
        let wanted = own.value(|| self.value_then(&place, held.at));
        let (name, key) = &place;
        let real = &self.keyspaces[name].real;
        let read = match way {
            0 if name == "default" => held.real.get_for_update(key),
            0 => held.real.get_for_update_in(real, key),
            1 => {
                let there = held.real.contains_key_in(real, key);
                if let Ok(there) = there {
                    assert_eq!(there, wanted.is_some(), "{place:?} at {:?}", held.at);
                    return Some(held);
                }
                there.map(|_| None)
            }
            2 => match held.real.get_reader_in(real, key) {
                Ok(read) => {
                    let read = read.map(read_whole);
                    assert_eq!(read.as_deref(), wanted.as_deref(), "{place:?} in pieces");
                    return Some(held);
                }
                Err(error) => Err(error),
            },
            _ if name == "default" => held.real.get(key),
            _ => held.real.get_in(real, key),
        };
        match read {
            Ok(read) => assert_eq!(
                read.as_deref(),
                wanted.as_deref(),
                "{place:?} at {:?}",
                held.at
            ),
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                return None;
            }
        }
        Some(held)
    }

    fn read_several_in_transaction(
        &mut self,
        mut held: HeldTransaction,
    ) -> Option<HeldTransaction> {
        let name = self.name();
        let count = self.rng.between(0, 10);
        let keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        self.note(|| format!("read {name} {keys:?} in that of {:?}", held.at));
        let read = match held.real.multi_get_in(&self.keyspaces[&name].real, &keys) {
            Ok(read) => read,
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                return None;
            }
        };
        assert_eq!(read.len(), keys.len());
        for (key, read) in keys.into_iter().zip(read) {
            let place = (name.clone(), key);
            let own = held.own_or_depend(&place, false);
            let wanted = own.value(|| self.value_then(&place, held.at));
            assert_eq!(
                read.as_deref(),
                wanted.as_deref(),
                "{place:?} at {:?}",
                held.at
            );
        }
        self.ops += count;
        Some(held)
    }

    /// Reads a range from its ends, some of it or all.
    fn iterate_in_transaction(&mut self, mut held: HeldTransaction) -> Option<HeldTransaction> {
        let name = self.name();
        let range = match self.rng.below(4) {
            0 => IterOptions::prefix(self.rng.pick(&[&b"k"[..], b"k03/", b"\xff", b""])),
            1 => IterOptions::default(),
            _ => IterOptions::default()
                .lower(self.bound())
                .upper(self.bound()),
        };
        let most = *self.rng.pick(&[0, 1, 3, 10, usize::MAX]);
        let ends = self.rng.below(3);
        self.note(|| {
            format!(
                "iterate {name} {range:?} in that of {:?}: {most}, {ends}",
                held.at
            )
        });
        let mut map = self.keyspaces[&name].model.borrow().map_at(held.at);
        map.retain(|key, _| !held.deletes(&name, key));
        for ((_, key), own) in held.own.iter().filter(|((of, _), _)| *of == name) {
            match own.value(|| map.get(key).map(|value| Bytes::from(&**value))) {
                Some(value) => map.insert(key.clone(), value.to_vec()),
                None => map.remove(key),
            };
        }
        map.retain(|key, _| covers(&range, key));
        let mut wanted = map.iter();
        let mut real = match self.rng.below(2) {
            0 if name == "default" => held.real.iter_with(range.clone()),
            _ => held
                .real
                .iter_in(&self.keyspaces[&name].real, range.clone()),
        };
        // What was read from each end.
        let (mut front, mut back) = (None, None);
        for _ in 0..most {
            let from_back = ends == 1 || ends == 2 && self.rng.one_in(2);
            let (read, wanted) = if from_back {
                (real.next_back(), wanted.next_back())
            } else {
                (real.next(), wanted.next())
            };
            let read = match read.transpose() {
                Ok(read) => read,
                Err(error) => {
                    assert!(is_refusal(&error), "{error}");
                    assert!(real.next().is_none() && real.next_back().is_none());
                    return None;
                }
            };
            let same = read.as_ref().map(|(key, value)| (&**key, &**value));
            let wanted = wanted.map(|(key, value)| (&**key, &**value));
            assert_eq!(same, wanted, "{name} {range:?} at {:?}", held.at);
            let end = if from_back { &mut back } else { &mut front };
            let Some((key, _)) = read else {
                *end = Some(range.clone());
                break;
            };
            let to = Bound::Included(key);
            *end = Some(if from_back {
                range.clone().lower(to)
            } else {
                range.clone().upper(to)
            });
            self.ops += 1;
        }
        drop(real);
        if held.isolation == Isolation::Serializable {
            for read in front.into_iter().chain(back) {
                held.ranges.push((name.clone(), read));
                held.bytes += 200;
            }
        }
        Some(held)
    }

    fn write_in_transaction(&mut self, mut held: HeldTransaction) -> Option<HeldTransaction> {
        for _ in 0..self.rng.between(1, 4) {
            if self.rng.one_in(10) {
                self.delete_range_in_transaction(&mut held);
                continue;
            }
            let place = (self.name(), self.key());
            let len = if self.rng.one_in(20) { 3000 } else { 60 };
            let len = self.rng.below(len) as usize;
            let value = if self.rng.one_in(100) {
                Some(self.long_value())
            } else {
                (!self.rng.one_in(4)).then(|| self.rng.bytes(len))
            };
            if self.rng.one_in(3) && held.may_merge(self, &place) {
                self.merge_in_transaction(&mut held, place);
                continue;
            }
            self.note(|| format!("write {place:?} in that of {:?}", held.at));
            let (name, key) = &place;
            let real = &self.keyspaces[name].real;
            let done = match &value {
                Some(value) if name == "default" => held.real.put(key, value),
                Some(value) => held.real.put_in(real, key, value),
                None if name == "default" => held.real.delete(key),
                None => held.real.delete_in(real, key),
            };
            match done {
                Ok(()) => {
                    held.bytes += 200 + key.len() + value.as_ref().map_or(0, Vec::len);
                    held.own.insert(place, OwnKey::of(value.map(Bytes::from)));
                }
                // It is as it was before.
                Err(error) => {
                    self.note(|| format!("refused: {error}"));
                    assert!(is_refusal(&error), "{error}");
                }
            }
            self.ops += 1;
        }
        Some(held)
    }

    fn delete_range_in_transaction(&mut self, held: &mut HeldTransaction) {
        let (name, range) = (self.name(), self.range());
        self.note(|| format!("delete of {name} {range:?} in that of {:?}", held.at));
        let bounds = (range.lower.clone(), range.upper.clone());
        let done = if name == "default" && self.rng.one_in(2) {
            held.real.delete_range(bounds)
        } else {
            let real = &self.keyspaces[&name].real;
            held.real.delete_range_in(real, bounds)
        };
        self.ops += 1;
        match done {
            Ok(()) => {
                let written = held.own.iter_mut();
                let within = written.filter(|((of, key), _)| *of == name && covers(&range, key));
                within.for_each(|(_, own)| *own = OwnKey::of(None));
                if has_keys(&range) {
                    held.deleted.push((name, range));
                    held.bytes += 600;
                }
            }
            Err(error) => {
                self.note(|| format!("refused: {error}"));
                let inverted = matches!(error, Error::InvertedRange { .. });
                assert!(inverted || is_refusal(&error), "{error}");
            }
        }
    }

    fn merge_in_transaction(&mut self, held: &mut HeldTransaction, place: Place) {
        let operand = self.operand();
        self.note(|| format!("merge {operand:?} into {place:?} in that of {:?}", held.at));
        let (name, key) = &place;
        let done = if name == "default" && self.rng.one_in(2) {
            held.real.merge(key, &operand)
        } else {
            let real = &self.keyspaces[name].real;
            held.real.merge_in(real, key, &operand)
        };
        self.ops += 1;
        match done {
            Ok(()) => {
                held.bytes += 200 + key.len() + operand.len();
                held.merged_into(place).operands.push(operand.into());
            }
            // It is as it was before.
            Err(error) => {
                self.note(|| format!("refused: {error}"));
                assert!(is_refusal(&error), "{error}");
            }
        }
    }

    fn savepoint(&mut self, mut held: HeldTransaction) -> HeldTransaction {
        let way = self.rng.below(4);
        self.note(|| format!("savepoint of that of {:?}, way {way}", held.at));
        if way < 2 {
            held.real.set_savepoint();
            let then = (held.own.clone(), held.deleted.clone());
            held.savepoints.push(then);
            return held;
        }
        let done = if way == 2 {
            held.real.rollback_to_savepoint()
        } else {
            held.real.pop_savepoint()
        };
        match held.savepoints.pop() {
            Some(then) => {
                done.unwrap();
                if way == 2 {
                    (held.own, held.deleted) = then;
                }
            }
            None => assert!(matches!(done, Err(Error::NoSavepoint)), "{done:?}"),
        }
        held
    }

    /// Writes, perhaps until memory refuses more; what it holds is all that was written.
    fn exhaust_transaction(&mut self, mut held: HeldTransaction) -> Option<HeldTransaction> {
        let most = if self.rng.one_in(3) { 4000 } else { 100 };
        let merges = self.rng.one_in(3);
        let number = self.rng.below(1000);
        for number in number..number + most {
            // Several of each key, where they are merged.
            let number = if merges { number / 4 } else { number };
            let place = (
                "default".to_owned(),
                format!("k03/{number:05}").into_bytes(),
            );
            let value = self.rng.bytes(300);
            let merges = merges && held.may_merge(self, &place);
            let done = if merges {
                held.real.merge(&place.1, &value)
            } else {
                held.real.put(&place.1, &value)
            };
            match done {
                Ok(()) if merges => {
                    held.merged_into(place).operands.push(value.into());
                }
                Ok(()) => drop(held.own.insert(place, OwnKey::of(Some(value.into())))),
                Err(error) => {
                    self.note(|| format!("refused: {error}"));
                    assert!(is_refusal(&error), "{error}");
                    break;
                }
            }
        }
        self.note(|| format!("that of {:?} has {} writes", held.at, held.own.len()));
        if self.rng.one_in(3) {
            self.commit_transaction(held);
        }
        None
    }

    /// Whether a commit must be refused, and whether it may.
    fn conflicts(&self, held: &HeldTransaction) -> (bool, bool) {
        let (mut must, mut may) = (false, false);
        let mut see = |change: Change| {
            must |= change == Change::Written;
            may |= change != Change::None;
        };
        let model = |name: &str| self.keyspaces.get(name).map(|pair| pair.model.borrow());
        let written = held.own.keys();
        let written = written.filter(|_| held.isolation == Isolation::Snapshot);
        for (name, key) in held.points.iter().chain(written) {
            if let Some(model) = model(name) {
                see(model.change_of(key, held.at));
            }
        }
        let snapshot = held.isolation == Isolation::Snapshot;
        let deleted = held.deleted.iter().filter(|_| snapshot);
        for (name, range) in held.ranges.iter().chain(deleted) {
            if let Some(model) = model(name) {
                if model.is_range_deleted_since(range, held.at) {
                    see(Change::AbsentAgain);
                }
                let changes = model.changes_since(held.at);
                let inside = changes.filter(|(key, _)| covers(range, key));
                inside.for_each(|(_, change)| see(change));
            }
        }
        (must, may)
    }

    pub(super) fn commit_transaction(&mut self, held: HeldTransaction) {
        let writes = !held.own.is_empty() || !held.deleted.is_empty();
        let (must, may) = self.conflicts(&held);
        let known = |name: &String| self.keyspaces.contains_key(name);
        let written = held.own.keys().chain(&held.points).map(|place| &place.0);
        let read = held
            .ranges
            .iter()
            .chain(&held.deleted)
            .map(|range| &range.0);
        let dropped = !written.chain(read).all(known);
        let durability = *self.rng.pick(&[
            None,
            Some(Durability::None),
            Some(Durability::Buffered),
            Some(Durability::Synced),
        ]);
        self.note(|| {
            format!(
                "commit that of {:?}: {:?} {:?}",
                held.at, held.deleted, held.own
            )
        });
        let ttl = self.ttl();
        let options = WriteOptions::new().durability(durability).ttl(ttl);
        self.unlogged |= durability == Some(Durability::None);
        match held.real.commit_with(options) {
            Ok(()) => assert!(!writes || !must && !dropped, "a conflict was missed"),
            Err(Error::Conflict { keyspace, key }) => {
                self.note(|| format!("a conflict at {keyspace} {key:?}"));
                assert!(writes && may, "there was no conflict at {keyspace} {key:?}");
                let place = (keyspace, key);
                let in_range = |(name, range): &(String, IterOptions)| {
                    *name == place.0 && covers(range, &place.1)
                };
                assert!(
                    held.points.contains(&place)
                        || held.isolation == Isolation::Snapshot && held.own.contains_key(&place)
                        || held.isolation == Isolation::Snapshot
                            && held.deleted.iter().any(in_range)
                        || held.ranges.iter().any(in_range),
                    "{place:?} is none of those depended on"
                );
                return;
            }
            Err(Error::KeyspaceDropped { .. }) if writes && dropped => return,
            Err(error) => {
                self.note(|| format!("refused: {error}"));
                // What it holds was charged when it was read or written.
                let too_large = matches!(error, Error::TransactionTooLarge { .. });
                assert!(is_refusal(&error) && !too_large, "{error}");
                return;
            }
        }
        if writes {
            self.ops += held.own.len() as u64;
            for (name, range) in &held.deleted {
                self.record_range(name, range);
            }
            for ((name, key), own) in held.own {
                if let Some(value) = own.base {
                    let expiry = self.expiry(&name, ttl);
                    self.record(&name, &key, value.as_deref().map(|value| (value, expiry)));
                }
                for operand in own.operands {
                    self.record_write(&name, &key, Write::Merge(operand));
                }
            }
            self.now += 1;
        }
    }

    /// Ends the transactions that a keyspace that was just dropped had a part in.
    pub(super) fn end_transactions_of(&mut self, name: &str) {
        let all = std::mem::take(&mut self.transactions);
        let (over, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|held| held.uses(name));
        self.transactions = others;
        for held in over {
            self.commit_transaction(held);
        }
    }

    /// An update of one key at once.
    pub(super) fn update(&mut self) {
        let place = (self.name(), self.key());
        let before = self.value_then(&place, self.point());
        let len = self.rng.below(100) as usize;
        let after = (!self.rng.one_in(4)).then(|| self.rng.bytes(len));
        let (name, key) = &place;
        let real = &self.keyspaces[name].real;
        self.note(|| format!("update {place:?}"));
        if self.ops.is_multiple_of(2) {
            let got = real.fetch_update(key, |value| {
                assert_eq!(value, before.as_deref(), "{place:?}");
                after.clone()
            });
            assert_eq!(got.unwrap().as_deref(), before.as_deref(), "{place:?}");
        } else {
            let wrong = real.compare_and_swap(key, Some(b"what no key has"), after.as_deref());
            let CompareAndSwapError { current, .. } = wrong.unwrap().unwrap_err();
            assert_eq!(current.as_deref(), before.as_deref(), "{place:?}");
            let right = real.compare_and_swap(key, before.as_deref(), after.as_deref());
            right.unwrap().unwrap();
        }
        let expiry = self.expiry(name, None);
        let after = after.as_deref().map(|value| (value, expiry));
        self.record(name, key, after);
        self.now += 1;
    }
}
