//! Counts words, with a secondary index that gives the most frequent ones.
//!
//! Two keyspaces: `counts` has the count of each word, `by_count` a key of count and word, so that
//! its order is that of counts. A batch changes both, so that they always agree. One thread counts:
//! several would have to hold a lock from the read of a count to the write of the next.
//!
//! ```sh
//! cargo run -p shamba-examples --bin counter -- words.db 10 < README.md
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;

use shamba::{Keyspace, KeyspaceOptions, Options, WriteBatch};

/// A key whose order is that of the count, then of the word.
fn index_key(count: u64, word: &[u8]) -> Vec<u8> {
    [&count.to_be_bytes(), word].concat()
}

fn count_of(counts: &Keyspace, word: &str) -> Result<u64, Box<dyn Error>> {
    match counts.get(word)? {
        Some(bytes) => Ok(u64::from_be_bytes((*bytes).try_into()?)),
        None => Ok(0),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("say which folder to count in")?;
    let most = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let db = Options::new().open(dir)?;
    let counts = db.open_keyspace("counts", KeyspaceOptions::default())?;
    let by_count = db.open_keyspace("by_count", KeyspaceOptions::default())?;

    for line in std::io::stdin().lock().lines() {
        let line = line?.to_lowercase();
        let mut more: BTreeMap<&str, u64> = BTreeMap::new();
        for word in line.split(|c: char| !c.is_alphanumeric()) {
            if !word.is_empty() {
                *more.entry(word).or_default() += 1;
            }
        }
        // One batch for a line: after a crash both keyspaces have all of it, or nothing.
        let mut batch = WriteBatch::new();
        for (word, more) in more {
            let before = count_of(&counts, word)?;
            if before > 0 {
                batch.delete_in(&by_count, index_key(before, word.as_bytes()));
            }
            let now = before + more;
            batch.put_in(&counts, word, now.to_be_bytes());
            batch.put_in(&by_count, index_key(now, word.as_bytes()), "");
        }
        db.write(batch)?;
    }

    for entry in by_count.iter().rev().take(most) {
        let (key, _) = entry?;
        let (count, word) = key.split_at(8);
        let count = u64::from_be_bytes(count.try_into()?);
        println!("{count}\t{}", String::from_utf8_lossy(word));
    }
    db.close()?;
    Ok(())
}
