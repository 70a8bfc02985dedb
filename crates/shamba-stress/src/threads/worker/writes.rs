//! Writes to the shared keyspaces: entries, ranges that are deleted, batches of both, and values
//! that are too long to be written whole.

use std::ops::{Bound, Range};
use std::time::{Duration, SystemTime};

use shamba::{Durability, WriteBatch, WriteOptions};

use super::super::ledger::{KeyId, sum};
use super::super::{GROUP, Shared, group_prefix, key_bytes, key_stem};
use super::Worker;
use crate::common::Rng;

/// More bytes than what tells a value from all others takes.
const PREFIX: u64 = 32;

/// More bytes than an operation takes beside its value.
const OPERATION: u64 = 700;

/// What is done to keys that the thread owns.
pub(super) enum Write {
    Put(KeyId, Vec<u8>),
    Delete(KeyId),
    DeleteRange(usize, Range<u32>),
}

impl Write {
    /// What it makes of each key, for the ledger.
    pub(super) fn sums(&self) -> Vec<(KeyId, Option<u64>)> {
        match self {
            Write::Put(key, value) => vec![(*key, Some(sum(value)))],
            Write::Delete(key) => vec![(*key, None)],
            Write::DeleteRange(keyspace, range) => {
                let keys = range.clone().map(|number| ((*keyspace, number), None));
                keys.collect()
            }
        }
    }

    /// The bytes that it takes at most, where values longer than `most` are in files.
    fn memory(&self, most: u64) -> u64 {
        let value = match self {
            Write::Put(_, value) => value.len() as u64,
            _ => 0,
        };
        OPERATION + if value > most { 0 } else { value }
    }
}

/// One of the ways to say where a range begins and ends. There must be a key in it.
pub(super) fn bounds(rng: &mut Rng, range: &Range<u32>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let lower = match rng.below(3) {
        0 if range.start > 0 => Bound::Excluded(key_bytes(range.start - 1)),
        1 => Bound::Included(key_stem(range.start)),
        _ => Bound::Included(key_bytes(range.start)),
    };
    let upper = match rng.below(3) {
        0 => Bound::Included(key_bytes(range.end - 1)),
        1 => Bound::Excluded(key_stem(range.end)),
        _ => Bound::Excluded(key_bytes(range.end)),
    };
    (lower, upper)
}

impl Shared {
    /// The longest value that every budget of the case lets be written whole.
    fn longest_whole(&self) -> u64 {
        self.budgets.iter().min().unwrap() / 16
    }
}

impl Worker<'_> {
    pub(super) fn own_key(&mut self) -> KeyId {
        loop {
            let key = self.any_key();
            if self.shared.ledger.owner_of(key) == self.number {
                return key;
            }
        }
    }

    /// Keys in a row that the thread owns, mostly few.
    fn own_range(&mut self) -> (usize, Range<u32>) {
        let key = self.own_key();
        let row = self.shared.ledger.row_of(key);
        let range = match self.rng.below(8) {
            0 => row,
            1 => {
                let group = key.1 / GROUP * GROUP;
                group.max(row.start)..row.end.min(group + GROUP)
            }
            _ => {
                let more = self.rng.between(1, 12) as u32;
                key.1..row.end.min(key.1 + more)
            }
        };
        (key.0, range)
    }

    /// A value that was never written before, but for empty ones.
    pub(super) fn value(&mut self) -> Vec<u8> {
        let most = self.shared.longest_whole();
        let len = match self.rng.below(300) {
            // Under the least budget it goes into a file in pieces.
            0 => self.rng.between(most, 2 * most),
            1 => most - PREFIX,
            2..4 => self.rng.below(most - PREFIX),
            4..24 => return Vec::new(),
            24..60 => self.rng.below(3000),
            _ => self.rng.below(200),
        };
        self.written += 1;
        let mut value = format!("{}.{}:", self.number, self.written).into_bytes();
        value.extend(self.rng.bytes(len as usize));
        value
    }

    pub(super) fn some_write(&mut self) -> Write {
        match self.rng.below(100) {
            0..6 => {
                let (keyspace, range) = self.own_range();
                Write::DeleteRange(keyspace, range)
            }
            6..30 => Write::Delete(self.own_key()),
            _ => Write::Put(self.own_key(), self.value()),
        }
    }

    pub(super) fn write(&mut self, count: usize) {
        let mut writes: Vec<_> = (0..count).map(|_| self.some_write()).collect();
        // As many as the least of the case's budgets lets be in a batch.
        let most = self.shared.budgets.iter().min().unwrap() / 5;
        let mut taken = 0;
        let fits = writes.iter().take_while(|write| {
            taken += write.memory(self.shared.longest_whole());
            taken <= most
        });
        let fits = fits.count().max(1);
        writes.truncate(fits);
        let sums: Vec<_> = writes.iter().flat_map(Write::sums).collect();
        let durability = *self.rng.pick(self.shared.durabilities);
        self.shared.ledger.begin(self.number, &sums);
        match &writes[..] {
            [write] if self.rng.one_in(2) => self.write_alone(write, durability),
            _ => self.write_batch(&writes, durability),
        }
        self.shared.ledger.finish(self.number);
    }

    fn write_alone(&mut self, write: &Write, durability: Option<Durability>) {
        let options = WriteOptions::new().durability(durability);
        let simple = durability.is_none();
        let way = self.rng.below(6);
        // Longer than any case.
        let hours = self.rng.between(1, 100);
        let lives = (way > 2).then(|| Duration::from_secs(3600 * hours));
        let written = match write {
            Write::Put(key, value) => {
                let (keyspace, key) = (&self.keyspaces[key.0], key_bytes(key.1));
                match way {
                    0 => keyspace.put_reader_with(key, &value[..], options),
                    1 | 2 if simple => keyspace.put(key, value),
                    _ => keyspace.put_with(key, value, options.ttl(lives)),
                }
            }
            Write::Delete(key) => {
                let (keyspace, key) = (&self.keyspaces[key.0], key_bytes(key.1));
                if simple {
                    keyspace.delete(key)
                } else {
                    keyspace.delete_with(key, options)
                }
            }
            Write::DeleteRange(keyspace, range) => {
                let bounds = bounds(&mut self.rng, range);
                let keyspace = &self.keyspaces[*keyspace];
                let group = range.start / GROUP;
                let is_group = *range == (group * GROUP..(group + 1) * GROUP);
                match way {
                    _ if simple && is_group => keyspace.delete_prefix(group_prefix(group)),
                    0..3 if simple => keyspace.delete_range(bounds),
                    _ => keyspace.delete_range_with(bounds, options),
                }
            }
        };
        written.unwrap();
    }

    fn write_batch(&mut self, writes: &[Write], durability: Option<Durability>) {
        let mut batch = WriteBatch::new();
        let keyspaces = &self.keyspaces;
        for write in writes {
            match write {
                Write::Put(key, value) if self.rng.one_in(4) => {
                    let hours = self.rng.between(1, 100);
                    let expires = SystemTime::now() + Duration::from_secs(3600 * hours);
                    let keyspace = &keyspaces[key.0];
                    batch.put_until_in(keyspace, key_bytes(key.1), value, expires);
                }
                Write::Put(key, value) => {
                    batch.put_in(&keyspaces[key.0], key_bytes(key.1), value);
                }
                Write::Delete(key) => batch.delete_in(&keyspaces[key.0], key_bytes(key.1)),
                Write::DeleteRange(keyspace, range) => {
                    let bounds = bounds(&mut self.rng, range);
                    let added = batch.delete_range_in(&keyspaces[*keyspace], bounds);
                    added.unwrap();
                }
            }
        }
        let options = WriteOptions::new().durability(durability);
        self.db.write_with(batch, options).unwrap();
    }
}
