//! redb, a B-tree: the peer that is no LSM tree. Each write is a transaction of its own that is not
//! synced, as the other engines' are; a batch is one.
use super::{Engine, EngineConfig, Visit, Write};
use crate::{Error, Result};
use ::redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

pub(super) struct Redb(Database);

fn failed(source: impl Into<::redb::Error>) -> Error {
    Error::engine("redb", source.into())
}

impl Redb {
    pub(super) fn open(config: &EngineConfig) -> Result<Self> {
        std::fs::create_dir_all(&config.dir)?;
        let cache = usize::try_from(config.memory).unwrap_or(usize::MAX);
        let database = Database::builder()
            .set_cache_size(cache)
            .create(config.dir.join("entries.redb"))
            .map_err(failed)?;
        let engine = Self(database);
        // So that reading before the first write finds a table.
        engine.change(Durability::Immediate, |_| Ok(()))?;
        Ok(engine)
    }

    fn change(
        &self,
        durability: Durability,
        apply: impl FnOnce(&mut ::redb::Table<'_, &[u8], &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction: WriteTransaction = self.0.begin_write().map_err(failed)?;
        transaction.set_durability(durability).map_err(failed)?;
        {
            let mut table = transaction.open_table(ENTRIES).map_err(failed)?;
            apply(&mut table)?;
        }
        transaction.commit().map_err(failed)
    }
}

impl Engine for Redb {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let transaction = self.0.begin_read().map_err(failed)?;
        let table = transaction.open_table(ENTRIES).map_err(failed)?;
        let found = table.get(key).map_err(failed)?;
        Ok(found.is_some_and(|value| {
            into.extend_from_slice(value.value());
            true
        }))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        self.change(Durability::None, |table| {
            for write in writes {
                match *write {
                    Write::Put(key, value) => table.insert(key, value).map_err(failed)?,
                    Write::Delete(key) => table.remove(key).map_err(failed)?,
                };
            }
            Ok(())
        })
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let transaction = self.0.begin_read().map_err(failed)?;
        let table = transaction.open_table(ENTRIES).map_err(failed)?;
        let mut seen = 0;
        for entry in table.range(from..).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            visit(key.value(), value.value())?;
            seen += 1;
        }
        Ok(seen)
    }

    fn flush(&self) -> Result<()> {
        self.change(Durability::Immediate, |_| Ok(()))
    }
}
