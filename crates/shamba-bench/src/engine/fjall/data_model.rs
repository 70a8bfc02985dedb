//! A database of optimistic transactions. There are no merges: counters are read and written.
use super::{Fjall, Variant, failed};
use crate::Result;
use crate::engine::data_model::{DataModel, balance, number};
use crate::engine::{Engine, EngineConfig, Visit, Write};
use ::fjall::{OptimisticTxDatabase, Readable};

/// A database of optimistic transactions.
pub(in crate::engine) struct Transactional {
    database: OptimisticTxDatabase,
    /// Its entries, outside of transactions.
    plain: Fjall,
}

impl Transactional {
    pub(in crate::engine) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let database = OptimisticTxDatabase::builder(&config.dir)
            .cache_size(config.memory)
            .worker_threads(config.background)
            .open()
            .map_err(failed)?;
        let entries = database.keyspace("entries", || variant.options(config));
        let plain = Fjall {
            entries: entries.map_err(failed)?.inner().clone(),
            database: database.inner().clone(),
        };
        Ok(Self { database, plain })
    }
}

impl Engine for Transactional {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.plain.get(key, into)
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        self.plain.write_batch(writes)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        self.plain.scan(from, limit, visit)
    }

    fn flush(&self) -> Result<()> {
        self.plain.flush()
    }

    fn wait_idle(&self) -> Result<()> {
        self.plain.wait_idle()
    }
}

impl DataModel for Transactional {
    fn increment(&self, key: &[u8], by: i64) -> Result<bool> {
        loop {
            let entries = &self.plain.entries;
            let mut transaction = self.database.write_tx().map_err(failed)?;
            let found = transaction.get(entries, key).map_err(failed)?;
            let counter = found.map_or(Ok(0), |found| number(&found))?;
            transaction.insert(entries, key, (counter + by).to_le_bytes());
            if transaction.commit().map_err(failed)?.is_ok() {
                return Ok(true);
            }
        }
    }

    fn transfer(&self, from: &[u8], to: &[u8], amount: i64) -> Result<Option<u64>> {
        let entries = &self.plain.entries;
        let mut conflicts = 0;
        loop {
            let mut transaction = self.database.write_tx().map_err(failed)?;
            let source = balance(transaction.get(entries, from).map_err(failed)?)?;
            let target = balance(transaction.get(entries, to).map_err(failed)?)?;
            transaction.insert(entries, from, (source - amount).to_le_bytes());
            transaction.insert(entries, to, (target + amount).to_le_bytes());
            if transaction.commit().map_err(failed)?.is_ok() {
                return Ok(Some(conflicts));
            }
            conflicts += 1;
        }
    }
}
