//! Merges and range deletions of a plain database, and one of optimistic transactions.
use super::{Rocks, Variant, failed};
use crate::Result;
use crate::engine::data_model::{DataModel, Purpose, TIME_TO_LIVE, balance};
use crate::engine::{Engine, EngineConfig, Visit, Write, copied};
use ::rocksdb::{
    DB, ErrorKind, MergeOperands, OptimisticTransactionDB, OptimisticTransactionOptions,
    ReadOptions, WaitForCompactOptions, WriteBatch, WriteBatchWithTransaction, WriteOptions,
};

/// The sum of a counter and what is added to it; of none if one is no number.
fn sum(_key: &[u8], counter: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut sum = 0_i64;
    for number in counter.into_iter().chain(operands) {
        sum = sum.wrapping_add(i64::from_le_bytes(number.try_into().ok()?));
    }
    Some(sum.to_le_bytes().to_vec())
}

impl Rocks {
    /// Opens a database, with a merge operator that adds where counters are wanted, and a time to
    /// live where entries expire.
    pub(in crate::engine) fn open_for(
        settings: &str,
        config: &EngineConfig,
        purpose: Purpose,
    ) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let (mut options, rows) = variant.options(config)?;
        if purpose == Purpose::Counters {
            options.set_merge_operator_associative("counter", sum);
        }
        let db = match purpose {
            Purpose::Expiring => DB::open_with_ttl(&options, &config.dir, TIME_TO_LIVE),
            _ => DB::open(&options, &config.dir),
        };
        let mut rocks = Self::of(db.map_err(failed)?, rows, options, config);
        rocks.has_prefixes = variant.has("prefix8");
        Ok(rocks)
    }
}

impl DataModel for Rocks {
    fn increment(&self, key: &[u8], by: i64) -> Result<bool> {
        let merged = self.db.merge_opt(key, by.to_le_bytes(), &self.write);
        merged.map_err(failed)?;
        Ok(true)
    }

    fn count_of(&self, prefix: [u8; 8]) -> Result<Option<usize>> {
        let mut read = ReadOptions::default();
        if let Some(next) = u64::from_be_bytes(prefix).checked_add(1) {
            read.set_iterate_upper_bound(next.to_be_bytes());
        }
        // With an extractor, so that filters of prefixes are asked; the bounds have one prefix.
        read.set_prefix_same_as_start(self.has_prefixes);
        let mut cursor = self.db.raw_iterator_opt(read);
        cursor.seek(prefix);
        let found = super::visit_from(&mut cursor, usize::MAX, &mut |_, _| Ok(()))?;
        Ok(Some(found))
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        self.db.write_opt(batch, &self.write).map_err(failed)?;
        Ok(true)
    }
}

/// A database of optimistic transactions.
pub(in crate::engine) struct Transactional {
    db: OptimisticTransactionDB,
    write: WriteOptions,
    /// Without a snapshot: what is read for an update is checked from then on.
    transaction: OptimisticTransactionOptions,
}

impl Transactional {
    pub(in crate::engine) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let (options, _) = Variant::parse(settings)?.options(config)?;
        let db = OptimisticTransactionDB::open(&options, &config.dir).map_err(failed)?;
        let mut write = WriteOptions::default();
        write.disable_wal(!config.wal);
        Ok(Self {
            db,
            write,
            transaction: OptimisticTransactionOptions::default(),
        })
    }
}

impl Engine for Transactional {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_pinned(key).map_err(failed)?;
        Ok(copied(found, into))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        self.db.write_opt(batch, &self.write).map_err(failed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut cursor = self.db.raw_iterator();
        cursor.seek(from);
        super::visit_from(&mut cursor, limit, visit)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        let idle = self.db.wait_for_compact(&WaitForCompactOptions::default());
        idle.map_err(failed)
    }
}

impl DataModel for Transactional {
    fn transfer(&self, from: &[u8], to: &[u8], amount: i64) -> Result<Option<u64>> {
        let mut conflicts = 0;
        loop {
            let transaction = self.db.transaction_opt(&self.write, &self.transaction);
            let read = |key| {
                let found = transaction.get_pinned_for_update(key, true);
                balance(found.map_err(failed)?)
            };
            let (source, target) = (read(from)?, read(to)?);
            let put = |key, balance: i64| transaction.put(key, balance.to_le_bytes());
            put(from, source - amount).map_err(failed)?;
            put(to, target + amount).map_err(failed)?;
            match transaction.commit() {
                Ok(()) => return Ok(Some(conflicts)),
                // The second: what was written since is no longer in a memtable to be checked.
                Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                    conflicts += 1;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
}
