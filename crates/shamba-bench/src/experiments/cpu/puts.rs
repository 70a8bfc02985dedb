//! Puts into a new database whose memtable takes all of them: nothing is flushed or merged, so what
//! is counted is the write path alone. What was put is read back.
use crate::cell::Measurement;
use crate::engine::{self, Engine, EngineConfig};
use crate::runner::check_all;
use crate::store::Base;
use crate::workload::{MAX_KEY, Permutation};
use crate::{Error, Result};
use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memtable for an entry beside its key and value: twice what any engine takes, so that
/// none fills.
const OVERHEAD: u64 = 256;

/// A time to live that does not end during the measurement.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How entries are put.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum Puts {
    /// Logged, not synced.
    Plain,
    /// Without a log.
    Unlogged,
    /// As plain ones, while a serializable transaction is open that read one of the keys.
    Transaction,
    /// As plain ones, with a time to live.
    Ttl,
}

/// One engine, one kind of puts.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    /// What is put, and into which engine.
    pub(super) base: Base,
    pub(super) puts: Puts,
    /// A new folder.
    pub(super) dir: PathBuf,
}

/// One put; whether the engine can. Valgrind counts what is done inside, by this name.
#[inline(never)]
fn counted_operation(engine: &dyn Engine, puts: Puts, key: &[u8], value: &[u8]) -> Result<bool> {
    match puts {
        Puts::Ttl => engine.put_for(key, value, TTL),
        Puts::Plain | Puts::Unlogged | Puts::Transaction => engine.put(key, value).map(|()| true),
    }
}

impl Measurement for Cell {
    type Found = ();

    /// The puts alone are counted: keys and values are made before, answers checked after.
    fn measure(&self) -> Result<()> {
        let engine = self.open()?;
        self.put_all(engine.as_ref())?;
        if engine.runs().is_some_and(|runs| runs > 0) {
            return Err(Error::InvalidSetting("the memtable was flushed".into()));
        }
        check_all(engine.as_ref(), &self.base.data(), &(0..0))
    }
}

impl Cell {
    /// The new database, with a memtable for everything.
    fn open(&self) -> Result<Box<dyn Engine>> {
        let data = self.base.data();
        let entry = data.keys.key_len() as u64 + data.values.size.mean() as u64 + OVERHEAD;
        let standard = EngineConfig::in_memory(self.dir.clone());
        let config = EngineConfig {
            wal: self.puts != Puts::Unlogged,
            write_buffer: standard.write_buffer.max(self.base.entries * entry),
            ..standard
        };
        engine::open(&self.base.engine, &config)
    }

    /// Puts every entry once, in random order.
    fn put_all(&self, engine: &dyn Engine) -> Result<()> {
        let data = self.base.data();
        let order = Permutation::new(self.base.entries, data.load_seed);
        let (mut key, mut value) = ([0; MAX_KEY], Vec::new());
        let _open = self.begun(engine, data.keys.key(0, &mut key))?;
        for index in 0..self.base.entries {
            let number = order.apply(index);
            let key = data.keys.key(number, &mut key);
            data.values.write(number, &mut value);
            if !counted_operation(engine, self.puts, key, &value)? {
                return Err(self.lacking("time to live"));
            }
        }
        Ok(())
    }

    /// The transaction that is open meanwhile, if there is to be one.
    fn begun(&self, engine: &dyn Engine, key: &[u8]) -> Result<Option<Box<dyn Any>>> {
        if self.puts != Puts::Transaction {
            return Ok(None);
        }
        let open = engine.transaction(key)?;
        open.map(Some).ok_or_else(|| self.lacking("transactions"))
    }

    fn lacking(&self, what: &str) -> Error {
        Error::InvalidSetting(format!("{} is measured without {what}", self.base.engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn cell(engine: &str, puts: Puts, dir: &tempfile::TempDir) -> Cell {
        Cell {
            base: Base::standard(engine, 300, 1),
            puts,
            dir: dir.path().join("database"),
        }
    }

    #[test]
    fn what_was_put_in_each_way_is_read_back() {
        for &puts in Puts::value_variants() {
            let dir = tempfile::tempdir().unwrap();
            cell("shamba", puts, &dir).measure().unwrap();
        }
    }

    #[test]
    fn all_but_unlogged_puts_are_in_the_log() {
        for &puts in Puts::value_variants() {
            let dir = tempfile::tempdir().unwrap();
            let cell = cell("shamba", puts, &dir);
            let engine = cell.open().unwrap();
            cell.put_all(engine.as_ref()).unwrap();
            let files = std::fs::read_dir(&cell.dir).unwrap();
            let files = files.map(|entry| entry.unwrap());
            let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "wal"));
            let logged: u64 = logs.map(|log| log.metadata().unwrap().len()).sum();
            assert_eq!(
                logged >= 300 * 64,
                puts != Puts::Unlogged,
                "{puts:?}: {logged} bytes"
            );
        }
    }

    #[test]
    fn the_transaction_that_is_open_is_serializable_and_read_what_is_put() {
        let dir = tempfile::tempdir().unwrap();
        let cell = cell("shamba", Puts::Transaction, &dir);
        let engine = cell.open().unwrap();
        let key = b"read".as_slice();
        let open = cell.begun(engine.as_ref(), key).unwrap().unwrap();
        engine.put(key, b"meanwhile").unwrap();
        let mut open = open.downcast::<shamba::Transaction>().unwrap();
        open.put("other", "written").unwrap();
        assert!(matches!(open.commit(), Err(shamba::Error::Conflict { .. })));
    }

    #[test]
    fn what_an_engine_lacks_is_said() {
        let dir = tempfile::tempdir().unwrap();
        for puts in [Puts::Transaction, Puts::Ttl] {
            let refused = cell("memory", puts, &dir).measure().unwrap_err();
            assert!(matches!(refused, Error::InvalidSetting(_)), "{refused}");
        }
        cell("memory", Puts::Plain, &dir).measure().unwrap();
    }

    #[test]
    fn what_is_not_there_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let cell = cell("memory", Puts::Plain, &dir);
        let (engine, data) = (engine::map(), cell.base.data());
        let check = || check_all(engine.as_ref(), &data, &(0..0));
        let is_wrong = || matches!(check(), Err(Error::WrongAnswer(_)));
        assert!(is_wrong());
        cell.put_all(engine.as_ref()).unwrap();
        check().unwrap();
        let mut key = [0; MAX_KEY];
        let key = data.keys.key(7, &mut key);
        engine.put(key, b"other").unwrap();
        assert!(is_wrong());
        engine.delete(key).unwrap();
        assert!(is_wrong());
    }
}
