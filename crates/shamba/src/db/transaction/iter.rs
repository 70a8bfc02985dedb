//! The keys that a transaction sees: those of its snapshot and its own, merged from both ends. One
//! thread at a time.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::Transaction;
use super::own_writes::{OwnEntry, OwnRange};
use crate::db::Value;
use crate::db::iter::{Cursor, Iter, IterOptions};
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::options::Isolation;

/// The keys of a range and their values as a transaction sees them, in the order of keys: a
/// [`DoubleEndedIterator`]. Nothing is yielded after an error. While it is held the transaction
/// writes nothing.
pub struct TransactionIter<'a> {
    transaction: &'a Transaction,
    range: IterOptions,
    /// Nothing once it has ended.
    sources: Option<Sources<'a>>,
    /// Why it could not be made: told once.
    failed: Option<Error>,
}

struct Sources<'a> {
    keyspace: Arc<KeyspaceInner>,
    snapshot: BothEnds<Iter>,
    own: BothEnds<OwnRange<'a>>,
    /// What was read from the front and from the back, as the transaction names it.
    front: Option<usize>,
    back: Option<usize>,
}

impl std::fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIter")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// An iterator that can be looked at, at both ends, before it is moved.
struct BothEnds<I: Iterator> {
    inner: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

/// An end of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

impl<I: DoubleEndedIterator> BothEnds<I> {
    fn new(inner: I) -> Self {
        BothEnds {
            inner,
            front: None,
            back: None,
        }
    }

    /// The next one at an end, in its place.
    fn peek(&mut self, side: Side) -> &mut Option<I::Item> {
        let (near, far) = match side {
            Side::Front => (&mut self.front, &mut self.back),
            Side::Back => (&mut self.back, &mut self.front),
        };
        if near.is_none() {
            *near = match side {
                Side::Front => self.inner.next(),
                Side::Back => self.inner.next_back(),
            };
            // The last one may have been looked at from the other end.
            *near = near.take().or_else(|| far.take());
        }
        near
    }
}

impl<'a> TransactionIter<'a> {
    pub(super) fn new(
        transaction: &'a Transaction,
        keyspace: Result<Arc<KeyspaceInner>>,
        range: IterOptions,
    ) -> Self {
        let sources = keyspace.and_then(|keyspace| {
            let point = Some(transaction.snapshot.point());
            let cursor = Cursor::new(
                transaction.snapshot.shared(),
                &keyspace,
                range.clone(),
                point,
            )?;
            Ok(Sources {
                snapshot: BothEnds::new(Iter::new(Ok(cursor))),
                own: BothEnds::new(transaction.own.range(keyspace.id(), &range)),
                keyspace,
                front: None,
                back: None,
            })
        });
        let (sources, failed) = match sources {
            Ok(sources) => (Some(sources), None),
            Err(error) => (None, Some(error)),
        };
        TransactionIter {
            transaction,
            range,
            sources,
            failed,
        }
    }

    fn take(&mut self, side: Side) -> Option<Result<(Vec<u8>, Value)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let taken = self.step(side).transpose();
        if !matches!(taken, Some(Ok(_))) {
            self.sources = None;
        }
        taken
    }

    fn step(&mut self, side: Side) -> Result<Option<(Vec<u8>, Value)>> {
        loop {
            let Some(sources) = &mut self.sources else {
                return Ok(None);
            };
            let read = sources.snapshot.peek(side);
            let own = sources.own.peek(side);
            let order = match (&*read, &*own) {
                (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((read, _))), Some((own, _))) => match side {
                    Side::Front => (**read).cmp(own),
                    Side::Back => (*own).cmp(read),
                },
                (None, None) => {
                    self.depend(side, None)?;
                    return Ok(None);
                }
            };
            let read = if order.is_le() { read.take() } else { None };
            let own = if order.is_ge() { own.take() } else { None };
            let (key, value) = match (read.transpose()?, own) {
                // What it merged, it merged into what is read, if that is not its own.
                (read, Some((key, own))) => {
                    let (transaction, keyspace) = (self.transaction, &sources.keyspace);
                    let value = match own {
                        _ if own.is_deleted() => None,
                        _ if self.range.keys_only => Some(Value::owned(&[])),
                        OwnEntry::Base(own) => transaction.held_value_of(keyspace, key, own)?,
                        OwnEntry::Merged(own) => {
                            let below = read.as_ref().map(|(_, value)| &**value);
                            Some(transaction.merged(keyspace, key, &own, below)?)
                        }
                    };
                    (key.to_vec(), value)
                }
                (Some((key, value)), None) => {
                    let own = &self.transaction.own;
                    let is_deleted = own.deletes(sources.keyspace.id(), &key);
                    (key, (!is_deleted).then_some(value))
                }
                (None, None) => return Ok(None),
            };
            // One that the transaction deleted is passed over.
            if let Some(value) = value {
                self.depend(side, Some(&key))?;
                return Ok(Some((key, value)));
            }
        }
    }

    /// The transaction has read all from an end up to a key, or all.
    fn depend(&mut self, side: Side, key: Option<&[u8]>) -> Result<()> {
        let Some(sources) = &mut self.sources else {
            return Ok(());
        };
        if self.transaction.isolation != Isolation::Serializable {
            return Ok(());
        }
        let to = |end: &Bound<Vec<u8>>| match key {
            Some(key) => Bound::Included(key.to_vec()),
            None => end.clone(),
        };
        let (mut range, at) = (
            self.range.clone(),
            match side {
                Side::Front => &mut sources.front,
                Side::Back => &mut sources.back,
            },
        );
        match side {
            Side::Front => range.upper = to(&range.upper),
            Side::Back => range.lower = to(&range.lower),
        }
        self.transaction
            .depend_on_range(&sources.keyspace, at, range)
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(Side::Front)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(Side::Back)
    }
}

impl std::iter::FusedIterator for TransactionIter<'_> {}
