//! What was written, in order, and which of its prefixes a recovered database may be. Every prefix
//! is known by a sum over its entries, so that a state is found among thousands at once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use shamba::{Db, Result, WriteBatch};

use crate::common::{Map, all_contents};

/// One operation of a batch: keyspace, key, value or delete.
pub type BatchOp = (&'static str, Vec<u8>, Option<Vec<u8>>);

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
        for (name, key, value) in &batch {
            let map = self.state.entry(name).or_default();
            let before = match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
            sum = sum.wrapping_sub(before.map_or(0, |before| part(name, key, &before)));
            let after = value.as_ref().map_or(0, |value| part(name, key, value));
            sum = sum.wrapping_add(after);
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

/// Makes the batch of a database.
pub fn to_batch(db: &Db, ops: &[BatchOp]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for (name, key, value) in ops {
        let keyspace = db.keyspace(name)?;
        match value {
            Some(value) => batch.put_in(&keyspace, key, value),
            None => batch.delete_in(&keyspace, key),
        }
    }
    Ok(batch)
}

/// The sum of everything in a database, checked to be the same by lookups and by scans.
pub fn read_sum(db: &Db) -> Result<u64> {
    let mut sum = 0u64;
    for (name, map) in all_contents(db)? {
        let keyspace = db.keyspace(&name)?;
        let keys: Vec<&Vec<u8>> = map.keys().collect();
        let looked_up = keyspace.multi_get(&keys)?;
        for ((key, value), looked_up) in map.iter().zip(looked_up) {
            let same = looked_up.as_deref() == Some(value.as_slice());
            assert!(same, "{name}: a lookup of {key:?} and a scan differ");
            sum = sum.wrapping_add(part(&name, key, value));
        }
    }
    Ok(sum)
}
