//! The engine as measurements drive it.

use shamba::{Db, IterOptions, WriteBatch, WriteOptions};
use shamba_bench::engine::{Engine, ReadCounters, Visit, Write};
use shamba_bench::{Error, Result};

/// A database under measurement. Keys are lengthened to a fixed size where one is asked for.
pub struct Measured {
    pub db: Db,
    /// Bytes added to every key.
    pub padding: usize,
}

/// Sorts before every byte of the keys it is added to, and so keeps their order.
const PADDING: u8 = b'.';

impl Measured {
    fn key<'b>(&self, key: &'b [u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
        if self.padding == 0 {
            return key;
        }
        buffer.extend_from_slice(key);
        buffer.resize(key.len() + self.padding, PADDING);
        buffer
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::engine("shamba", error)
}

impl Engine for Measured {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db
            .put(self.key(key, &mut Vec::new()), value)
            .map_err(failed)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self
            .db
            .get(self.key(key, &mut Vec::new()))
            .map_err(failed)?;
        if let Some(value) = &found {
            into.extend_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db
            .delete(self.key(key, &mut Vec::new()))
            .map_err(failed)
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        let mut buffer = Vec::new();
        for write in writes {
            buffer.clear();
            match write {
                Write::Put(key, value) => batch.put(self.key(key, &mut buffer), value),
                Write::Delete(key) => batch.delete(self.key(key, &mut buffer)),
            }
        }
        self.db
            .write(batch, WriteOptions::default())
            .map_err(failed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut iter = self.db.iter(IterOptions::default()).map_err(failed)?;
        let mut buffer = Vec::new();
        iter.seek(self.key(from, &mut buffer)).map_err(failed)?;
        let mut seen = 0;
        while iter.valid() && seen < limit {
            let key = iter.key();
            visit(&key[..key.len().saturating_sub(self.padding)], iter.value())?;
            seen += 1;
            if seen < limit {
                iter.next().map_err(failed)?;
            }
        }
        Ok(seen)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_for_compaction().map_err(failed)
    }

    fn read_counters(&self) -> Option<ReadCounters> {
        let counters = self.db.stats().counters;
        Some(ReadCounters {
            data: counters.data_reads,
            index: counters.index_reads,
            filter: counters.filter_reads,
        })
    }

    fn memory(&self) -> Option<u64> {
        Some(self.db.stats().memory.budget.used)
    }
}
