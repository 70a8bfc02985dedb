//! What was written, in order, and which of its prefixes a recovered database may be. Every prefix
//! is known by a sum over its entries, so that a state is found among thousands at once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use shamba::{Db, Result, WriteOptions};

use super::KEYS;
use crate::common::history::{
    BatchOp, Write, expires, fits_transaction, to_batch, write_as_transaction,
};
use crate::common::story::told;
use crate::common::{Map, Rng, all_contents, check_short_scans, grouped_key};

/// How far a writer had come: no crash at this moment may leave fewer than `durable` batches of
/// the history, nor more than `started`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    pub started: usize,
    pub durable: usize,
}

/// Batches in the order they were written.
#[derive(Debug, Clone)]
pub struct History {
    /// The sum of the state after so many batches.
    sums: Vec<u64>,
    state: BTreeMap<&'static str, Map>,
    batches: Vec<Vec<BatchOp>>,
}

/// The part of a sum that one entry is. An order does not matter, and an entry can be taken out
/// again.
fn part(keyspace: &str, key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (keyspace, key, value).hash(&mut hasher);
    hasher.finish()
}

impl History {
    pub fn new() -> Self {
        History {
            sums: vec![0],
            state: BTreeMap::new(),
            batches: Vec::new(),
        }
    }

    /// How many batches there are.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    pub fn push(&mut self, batch: Vec<BatchOp>) {
        let mut sum = self.sums[self.len()];
        for (name, key, write) in &batch {
            let map = self.state.entry(name).or_default();
            let end = match write {
                Write::DeleteRange(end) => end.clone(),
                _ => [key, &[0][..]].concat(),
            };
            // What expires has, by the system's clock.
            let value = match write {
                Write::Put(value) => Some(value.clone()).filter(|value| !expires(value)),
                Write::Merge(operand) => {
                    let base = map.get(key).map(Vec::as_slice);
                    Some(told(base, [&operand[..]]))
                }
                Write::Delete | Write::DeleteRange(_) => None,
            };
            map.retain(|at, before| {
                let stays = at < key || *at >= end;
                if !stays {
                    sum = sum.wrapping_sub(part(name, at, before));
                }
                stays
            });
            if let Some(value) = value {
                sum = sum.wrapping_add(part(name, key, &value));
                map.insert(key.clone(), value);
            }
        }
        self.sums.push(sum);
        self.batches.push(batch);
    }

    /// The history of its first batches only.
    pub fn prefix(&self, batches: usize) -> History {
        let mut history = History::new();
        for batch in &self.batches[..batches] {
            history.push(batch.clone());
        }
        history
    }

    /// The number of batches whose prefix of the history a state is, within what `progress` allows;
    /// if there are several, the largest.
    pub fn find(&self, state: u64, progress: Progress) -> std::result::Result<usize, String> {
        let is = |batches: &usize| self.sums[*batches] == state;
        let started = progress.started.min(self.len());
        if let Some(found) = (progress.durable..=started).rev().find(is) {
            return Ok(found);
        }
        Err(match (0..self.sums.len()).find(is) {
            Some(elsewhere) => format!("{elsewhere} batches survived, {progress:?}"),
            None => format!("no prefix of the writes survived, {progress:?}"),
        })
    }
}

/// Writes a batch: one of a single operation as such now and then, some as transactions.
pub fn write(rng: &mut Rng, db: &Db, ops: &[BatchOp], options: WriteOptions) -> Result<()> {
    if let [(name, key, write)] = ops
        && !matches!(write, Write::Put(value) if expires(value))
        && rng.one_in(4)
    {
        let keyspace = db.keyspace(name)?;
        return match write {
            Write::Put(value) if rng.one_in(2) => {
                keyspace.put_reader_with(key, &value[..], options)
            }
            Write::Put(value) => keyspace.put_with(key, value, options),
            Write::Delete => keyspace.delete_with(key, options),
            Write::Merge(operand) => keyspace.merge_with(key, operand, options),
            Write::DeleteRange(end) => keyspace.delete_range_with(key..end, options),
        };
    }
    if fits_transaction(ops) && rng.one_in(4) {
        return write_as_transaction(db, ops, options);
    }
    db.write_with(to_batch(db, ops)?, options)
}

/// The sum of everything in a database, checked to be the same by lookups, by a scan of all, and
/// by scans of few keys, which filters are asked for.
pub fn read_sum(db: &Db, rng: &mut Rng) -> Result<u64> {
    let mut sum = 0u64;
    for (name, map) in all_contents(db)? {
        let keyspace = db.keyspace(&name)?;
        let keys: Vec<Vec<u8>> = (0..KEYS).map(grouped_key).collect();
        for (key, looked_up) in keys.iter().zip(keyspace.multi_get(&keys)?) {
            let same = looked_up.as_deref() == map.get(key).map(Vec::as_slice);
            assert!(same, "{name}: a lookup of {key:?} and a scan differ");
        }
        for (key, value) in &map {
            sum = sum.wrapping_add(part(&name, key, value));
        }
        check_short_scans(&keyspace, &map, rng, KEYS)?;
    }
    Ok(sum)
}
