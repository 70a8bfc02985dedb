//! The reference: what each keyspace held at each moment, as a map from keys to their versions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use shamba::IterOptions;

use crate::common::Map;
use crate::common::story::told;

pub type Bytes = Rc<[u8]>;

/// The time from which on an entry has no value.
pub type Expiry = u64;

/// That of one without a time to live.
pub const NEVER: Expiry = Expiry::MAX;

/// What a reader reads at: after so many writes, at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub at: u64,
    pub time: u64,
}

/// A keyspace; it lives on for iterators after it is dropped.
pub type KeyspaceRef = Rc<RefCell<Versions>>;

/// What was done to a key.
#[derive(Debug, Clone)]
pub enum Write {
    Put(Bytes, Expiry),
    Delete,
    /// An operand, merged into what was there as a [`Story`](crate::common::story::Story).
    Merge(Bytes),
}

/// A version of a key: the moment of the write, and what it did.
type Version = (u64, Write);

/// For each key its versions, oldest first; and the ranges deleted lately, each with its moment.
#[derive(Debug, Default)]
pub struct Versions(BTreeMap<Vec<u8>, Vec<Version>>, Vec<(u64, IterOptions)>);

/// What became of a key since a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    /// It was written, and has no value as it had none then.
    AbsentAgain,
    Written,
}

impl Versions {
    /// What became of a key since a moment that is held.
    pub fn change_of(&self, key: &[u8], since: Point) -> Change {
        let versions = self.0.get(key);
        let change = versions.map_or(Change::None, |versions| change(versions, since));
        let deleted = |(at, range): &(u64, IterOptions)| *at > since.at && covers(range, key);
        if change == Change::None && self.1.iter().any(deleted) {
            return Change::AbsentAgain;
        }
        change
    }

    /// Whether a range that meets a range was deleted since then.
    pub fn is_range_deleted_since(&self, range: &IterOptions, since: Point) -> bool {
        let meets = |(at, deleted): &(u64, IterOptions)| *at > since.at && meet(range, deleted);
        self.1.iter().any(meets)
    }

    /// Deletes all keys of a range at `now`.
    pub fn delete_range(&mut self, range: &IterOptions, now: u64, oldest_held: u64) {
        let keys: Vec<_> = self
            .0
            .keys()
            .filter(|key| covers(range, key))
            .cloned()
            .collect();
        for key in keys {
            self.write(&key, Write::Delete, now, oldest_held);
        }
        self.1.retain(|(at, _)| *at > oldest_held);
        self.1.push((now, range.clone()));
    }

    /// What became of each key since then.
    pub fn changes_since(&self, since: Point) -> impl Iterator<Item = (&[u8], Change)> {
        let all = self.0.iter();
        all.map(move |(key, versions)| (&**key, change(versions, since)))
    }

    /// Records a write at `now`, forgetting what no reader at or after `oldest_held` can see.
    pub fn write(&mut self, key: &[u8], write: Write, now: u64, oldest_held: u64) {
        let versions = self.0.entry(key.to_vec()).or_default();
        versions.push((now, write));
        let newest = versions.iter().rposition(|(at, _)| *at <= oldest_held);
        let needed = newest.map_or(0, |newest| base_of(versions, newest).unwrap_or(0));
        versions.drain(..needed);
    }

    /// The keys whose newest version is a put, its moment and its value.
    pub fn newest_puts(&self) -> Vec<(Vec<u8>, u64, Bytes)> {
        let newest = self.0.iter().filter_map(|(key, versions)| {
            let (at, write) = versions.last()?;
            match write {
                Write::Put(value, _) => Some((key.clone(), *at, value.clone())),
                Write::Delete | Write::Merge(_) => None,
            }
        });
        newest.collect()
    }

    /// Makes of a key's newest put one of this value, which expires when that does, or of none a
    /// deletion, as if it had been so from the start.
    pub fn filter(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let Some((_, newest)) = self.0.get_mut(key).and_then(|versions| versions.last_mut()) {
            *newest = match (&newest, value) {
                (Write::Put(_, expiry), Some(value)) => Write::Put(value.into(), *expiry),
                _ => Write::Delete,
            };
        }
    }

    /// How many operands there are above a key's last put or delete.
    pub fn operands_of(&self, key: &[u8]) -> usize {
        let newest_first = self.0.get(key).into_iter().flatten().rev();
        let operands = newest_first.take_while(|(_, write)| matches!(write, Write::Merge(_)));
        operands.count()
    }

    pub fn get(&self, key: &[u8], at: Point) -> Option<Bytes> {
        value_at(self.0.get(key)?, at)
    }

    /// The first key from `from` on that has a value.
    pub fn next_from(&self, from: Bound<&[u8]>, at: Point) -> Option<(Vec<u8>, Bytes)> {
        let mut range = self.0.range::<[u8], _>((from, Bound::Unbounded));
        range.find_map(|(key, versions)| Some((key.clone(), value_at(versions, at)?)))
    }

    /// The last key up to `to` that has a value.
    pub fn last_to(&self, to: Bound<&[u8]>, at: Point) -> Option<(Vec<u8>, Bytes)> {
        let range = self.0.range::<[u8], _>((Bound::Unbounded, to));
        range
            .rev()
            .find_map(|(key, versions)| Some((key.clone(), value_at(versions, at)?)))
    }

    /// The entries of a range.
    pub fn range_at(&self, range: &IterOptions, at: Point) -> Map {
        if !has_keys(range) {
            return Map::new();
        }
        let bounds = (as_slice(&range.lower), as_slice(&range.upper));
        let versions = self.0.range::<[u8], _>(bounds);
        let values = versions
            .filter_map(|(key, versions)| Some((key.clone(), value_at(versions, at)?.to_vec())));
        values.collect()
    }

    pub fn map_at(&self, at: Point) -> Map {
        let values = self
            .0
            .iter()
            .filter_map(|(key, versions)| Some((key.clone(), value_at(versions, at)?.to_vec())));
        values.collect()
    }
}

/// The place of what is no operand at a place or before it.
fn base_of(versions: &[Version], newest: usize) -> Option<usize> {
    let up_to = &versions[..=newest];
    up_to
        .iter()
        .rposition(|(_, write)| !matches!(write, Write::Merge(_)))
}

fn value_at(versions: &[Version], point: Point) -> Option<Bytes> {
    let newest = versions.iter().rposition(|(at, _)| *at <= point.at)?;
    let base = base_of(versions, newest);
    let value = match base.map(|base| &versions[base].1) {
        Some(Write::Put(value, expiry)) => (point.time < *expiry).then_some(value),
        _ => None,
    };
    let operands = &versions[base.map_or(0, |base| base + 1)..=newest];
    if operands.is_empty() {
        return value.cloned();
    }
    let operands = operands.iter().map(|(_, write)| match write {
        Write::Merge(operand) => &**operand,
        Write::Put(..) | Write::Delete => unreachable!("only operands are above the base"),
    });
    Some(told(value.map(|value| &**value), operands).into())
}

fn change(versions: &[Version], since: Point) -> Change {
    match versions.last() {
        Some((written, _)) if *written > since.at => {
            let now = Point {
                at: *written,
                ..since
            };
            if value_at(versions, now).is_none() && value_at(versions, since).is_none() {
                Change::AbsentAgain
            } else {
                Change::Written
            }
        }
        _ => Change::None,
    }
}

/// What an iterator over the reference is at.
#[derive(Debug)]
pub struct Cursor {
    pub keyspace: KeyspaceRef,
    pub at: Point,
    pub options: IterOptions,
    pub place: Option<(Vec<u8>, Bytes)>,
}

/// Whether a range has a key.
pub fn covers(range: &IterOptions, key: &[u8]) -> bool {
    let bounds = (as_slice(&range.lower), as_slice(&range.upper));
    std::ops::RangeBounds::<[u8]>::contains(&bounds, key)
}

/// Whether there can be a key in a range.
pub fn has_keys(range: &IterOptions) -> bool {
    let behind = |key: &Vec<u8>| [key, &[0][..]].concat();
    let start = match &range.lower {
        Bound::Included(key) => key.clone(),
        Bound::Excluded(key) => behind(key),
        Bound::Unbounded => Vec::new(),
    };
    match &range.upper {
        Bound::Included(key) => start < behind(key),
        Bound::Excluded(key) => start < *key,
        Bound::Unbounded => true,
    }
}

/// Whether two ranges may have a key in common.
fn meet(one: &IterOptions, other: &IterOptions) -> bool {
    let ends_before = |one: &IterOptions, other: &IterOptions| match (&one.upper, &other.lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start))
        | (Bound::Included(end) | Bound::Excluded(end), Bound::Excluded(start)) => end < start,
    };
    !ends_before(one, other) && !ends_before(other, one)
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Cursor {
    fn inside(&self, found: Option<(Vec<u8>, Bytes)>) -> Option<(Vec<u8>, Bytes)> {
        found.filter(|(key, _)| {
            let from = match &self.options.lower {
                Bound::Included(lower) => key >= lower,
                Bound::Excluded(lower) => key > lower,
                Bound::Unbounded => true,
            };
            let to = match &self.options.upper {
                Bound::Included(upper) => key <= upper,
                Bound::Excluded(upper) => key < upper,
                Bound::Unbounded => true,
            };
            from && to
        })
    }

    fn forward(&mut self, from: Bound<&[u8]>) {
        let found = self.keyspace.borrow().next_from(from, self.at);
        self.place = self.inside(found);
    }

    fn backward(&mut self, to: Bound<&[u8]>) {
        let found = self.keyspace.borrow().last_to(to, self.at);
        self.place = self.inside(found);
    }

    pub fn first(&mut self) {
        let lower = self.options.lower.clone();
        self.forward(as_slice(&lower));
    }

    pub fn last(&mut self) {
        let upper = self.options.upper.clone();
        self.backward(as_slice(&upper));
    }

    pub fn seek(&mut self, key: &[u8]) {
        let below = match &self.options.lower {
            Bound::Included(lower) => key < lower.as_slice(),
            Bound::Excluded(lower) => key <= lower.as_slice(),
            Bound::Unbounded => false,
        };
        if below {
            self.first()
        } else {
            self.forward(Bound::Included(key))
        }
    }

    pub fn seek_for_prev(&mut self, key: &[u8]) {
        let above = match &self.options.upper {
            Bound::Included(upper) => key > upper.as_slice(),
            Bound::Excluded(upper) => key >= upper.as_slice(),
            Bound::Unbounded => false,
        };
        if above {
            self.last()
        } else {
            self.backward(Bound::Included(key))
        }
    }

    pub fn next(&mut self) {
        if let Some((key, _)) = self.place.take() {
            self.forward(Bound::Excluded(&key));
        }
    }

    pub fn prev(&mut self) {
        if let Some((key, _)) = self.place.take() {
            self.backward(Bound::Excluded(&key));
        }
    }
}
