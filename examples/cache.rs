//! A cache on disk for a program in a container: it never takes more than its share of the
//! container's memory, however much is in it, and keeps about as much on disk as it is told.
//!
//! What is cached here are the numbers of steps of Collatz sequences. Entries are written in
//! generations, a keyspace each; when the newest is half as large as the cache may be, the oldest
//! is dropped, which takes no time and reads nothing. Nothing is logged: what a crash takes can be
//! computed again.
//!
//! ```sh
//! cargo run -p shamba-examples --bin cache -- cache.db 1000000
//! ```

use std::error::Error;

use shamba::{Db, Durability, Keyspace, KeyspaceOptions, MemoryBudget, Options};

/// The generations there are: the one that is written, and the one before.
struct Cache {
    db: Db,
    newest: (u64, Keyspace),
    before: Option<Keyspace>,
    most_bytes: u64,
}

/// A generation is seen to be full by what of it is in tables: in steps of a small write buffer.
const WRITE_BUFFER: u64 = 256 << 10;

fn options() -> KeyspaceOptions {
    KeyspaceOptions::new().write_buffer(WRITE_BUFFER)
}

fn name(generation: u64) -> String {
    format!("generation {generation:010}")
}

impl Cache {
    fn open(dir: &str, memory: MemoryBudget, most_bytes: u64) -> Result<Self, Box<dyn Error>> {
        let db = Options::new()
            .memory(memory)
            .durability(Durability::None)
            .open(dir)?;
        let mut found = db.keyspaces();
        found.retain(|name| name.starts_with("generation "));
        found.sort();
        let newest = match found.last().and_then(|name| name.split(' ').nth(1)) {
            Some(number) => number.parse()?,
            None => 0,
        };
        let keyspace = db.open_keyspace(&name(newest), options())?;
        // One that was to be dropped as the process died.
        for old in found.iter().rev().skip(2) {
            db.drop_keyspace(old)?;
        }
        let before = newest
            .checked_sub(1)
            .and_then(|old| db.keyspace(&name(old)).ok());
        Ok(Cache {
            db,
            newest: (newest, keyspace),
            before,
            most_bytes,
        })
    }

    fn get(&self, key: &[u8]) -> shamba::Result<Option<shamba::Value>> {
        match (self.newest.1.get(key)?, &self.before) {
            (None, Some(before)) => before.get(key),
            (found, _) => Ok(found),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> shamba::Result<()> {
        self.newest.1.put(key, value)?;
        if self.newest.1.size_on_disk() + WRITE_BUFFER > self.most_bytes / 2 {
            let next = self.newest.0 + 1;
            let keyspace = self.db.open_keyspace(&name(next), options())?;
            let (old, filled) = std::mem::replace(&mut self.newest, (next, keyspace));
            self.before = Some(filled);
            if let Some(oldest) = old.checked_sub(1) {
                self.db.drop_keyspace(&name(oldest))?;
            }
        }
        Ok(())
    }
}

fn steps(mut number: u64) -> u32 {
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) {
            number / 2
        } else {
            3 * number + 1
        };
        steps += 1;
    }
    steps
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("say which folder to cache in")?;
    let numbers: u64 = arguments.next().ok_or("say how many numbers")?.parse()?;
    let most_mib = arguments
        .next()
        .map_or(Ok(64), |text| text.parse::<u64>())?;
    // A tenth of what the container may use, or of the machine without one.
    let memory = MemoryBudget::share_of_container(0.1);
    let mut cache = Cache::open(&dir, memory, most_mib << 20)?;
    let (mut hits, mut longest) = (0u64, (0, 0));
    for number in 1..=numbers {
        let key = number.to_be_bytes();
        let found = match cache.get(&key)? {
            Some(bytes) => {
                hits += 1;
                u32::from_be_bytes((*bytes).try_into()?)
            }
            None => {
                let steps = steps(number);
                cache.put(&key, &steps.to_be_bytes())?;
                steps
            }
        };
        longest = longest.max((found, number));
    }
    println!(
        "{} takes the most steps, {}; {hits} of {numbers} were cached",
        longest.1, longest.0
    );
    let stats = cache.db.stats();
    let budget = &stats.memory.budget;
    println!("memory: at most {} of {} bytes", budget.peak, budget.limit);
    println!("on disk: {} bytes", cache.db.size_on_disk()?);
    let Cache { db, .. } = cache;
    db.close()?;
    Ok(())
}
