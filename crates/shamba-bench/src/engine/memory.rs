//! An ordered map in memory: the reference the runner itself is tested against.
use super::{Engine, Visit, Write, copied};
use crate::Result;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Nothing survives it, nothing is quicker to understand.
#[derive(Default)]
pub(super) struct Memory(RwLock<Map>);

impl Memory {
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Memory {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        Ok(copied(self.read().get(key), into))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut map = self.write();
        for write in writes {
            match write {
                Write::Put(key, value) => map.insert(key.to_vec(), value.to_vec()),
                Write::Delete(key) => map.remove(*key),
            };
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut seen = 0;
        for (key, value) in self.read().range(from.to_vec()..).take(limit) {
            visit(key, value)?;
            seen += 1;
        }
        Ok(seen)
    }
}
