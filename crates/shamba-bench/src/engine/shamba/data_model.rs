//! Merges with the ready-made operator, transactions that are run again by the engine itself, and
//! ranges deleted in one operation.
use super::Shamba;
use crate::engine::data_model::{DataModel, balance};
use crate::{Error, Result};
use ::shamba::Transaction;

impl DataModel for Shamba {
    fn increment(&self, key: &[u8], by: i64) -> Result<bool> {
        self.db.merge(key, by.to_le_bytes())?;
        Ok(true)
    }

    fn transfer(&self, from: &[u8], to: &[u8], amount: i64) -> Result<Option<u64>> {
        let mut runs = 0;
        self.db.transact(|transaction: &mut Transaction| {
            runs += 1;
            let source = balance(transaction.get(from)?)?;
            let target = balance(transaction.get(to)?)?;
            transaction.put(from, (source - amount).to_le_bytes())?;
            transaction.put(to, (target + amount).to_le_bytes())?;
            Ok::<(), Error>(())
        })?;
        Ok(Some(runs - 1))
    }

    fn count_of(&self, prefix: [u8; 8]) -> Result<Option<usize>> {
        let mut count = 0;
        for entry in self.db.prefix(prefix) {
            entry?;
            count += 1;
        }
        Ok(Some(count))
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        self.db.delete_range(from..to)?;
        Ok(true)
    }
}
