//! The engine with keys of any length, as measurements drive it.

use shamba::Db;
use shamba_bench::Result;
use shamba_bench::engine::{Engine, Shamba, Visit, Write};

/// A database whose keys are lengthened by a fixed number of bytes.
pub struct Padded {
    engine: Shamba,
    padding: usize,
}

/// Sorts before every byte of the keys it is added to, and so keeps their order.
const PADDING: u8 = b'.';

impl Padded {
    pub fn new(db: &Db, padding: usize) -> Self {
        Padded {
            engine: Shamba::from(db.clone()),
            padding,
        }
    }

    fn key<'b>(&self, key: &'b [u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
        if self.padding == 0 {
            return key;
        }
        buffer.extend_from_slice(key);
        buffer.resize(key.len() + self.padding, PADDING);
        buffer
    }
}

impl Engine for Padded {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.put(self.key(key, &mut Vec::new()), value)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.engine.get(self.key(key, &mut Vec::new()), into)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.engine.delete(self.key(key, &mut Vec::new()))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        if self.padding == 0 {
            return self.engine.write_batch(writes);
        }
        let mut buffers = vec![Vec::new(); writes.len()];
        let padded: Vec<Write<'_>> = writes
            .iter()
            .zip(&mut buffers)
            .map(|(write, buffer)| match *write {
                Write::Put(key, value) => Write::Put(self.key(key, buffer), value),
                Write::Delete(key) => Write::Delete(self.key(key, buffer)),
            })
            .collect();
        self.engine.write_batch(&padded)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let padding = self.padding;
        let mut shortened = |key: &[u8], value: &[u8]| {
            let length = key.len().saturating_sub(padding);
            visit(key.get(..length).unwrap_or(key), value)
        };
        let mut buffer = Vec::new();
        self.engine
            .scan(self.key(from, &mut buffer), limit, &mut shortened)
    }

    fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    fn wait_idle(&self) -> Result<()> {
        self.engine.wait_idle()
    }

    fn memory(&self) -> Option<u64> {
        self.engine.memory()
    }
}
