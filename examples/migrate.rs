//! Moves a database of fjall (or, built with `--features rocksdb`, of RocksDB) over, keyspace by
//! keyspace (column family by column family), and checks that all of it came.
//!
//! Entries come in the order of their keys, so that tables are written once and moved, not merged.
//!
//! ```sh
//! cargo run --release -p shamba-examples --bin migrate -- fjall old.db new.db
//! ```

use std::error::Error;

use shamba::{Db, Keyspace, KeyspaceOptions, Options, WriteBatch};

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Entries of one keyspace in the order of their keys.
type Entries<'a> = Box<dyn Iterator<Item = Result<Entry, Box<dyn Error>>> + 'a>;

/// What is written together. Larger batches are hardly quicker, and take memory.
const BATCH_BYTES: usize = 256 << 10;

/// Copies entries, and gives how many there were.
fn copy(db: &Db, to: &Keyspace, entries: Entries<'_>) -> Result<u64, Box<dyn Error>> {
    let (mut batch, mut count) = (WriteBatch::new(), 0);
    for entry in entries {
        let (key, value) = entry?;
        batch.put_in(to, key, value);
        count += 1;
        if batch.size() >= BATCH_BYTES {
            db.write(std::mem::take(&mut batch))?;
        }
    }
    db.write(batch)?;
    Ok(count)
}

/// Compares a keyspace with what it was copied from.
fn check(copied: &Keyspace, entries: Entries<'_>) -> Result<(), Box<dyn Error>> {
    let mut copies = copied.iter();
    for entry in entries {
        let (key, value) = entry?;
        match copies.next().transpose()? {
            Some((ours, copy)) if ours == key && *copy == *value => {}
            other => {
                let key = key.escape_ascii();
                return Err(format!("{}: {key} came as {other:?}", copied.name()).into());
            }
        }
    }
    match copies.next().transpose()? {
        None => Ok(()),
        Some((key, _)) => Err(format!("{} was not there", key.escape_ascii()).into()),
    }
}

/// Moves one keyspace; `entries` begins anew each time.
fn migrate<'a>(
    db: &Db,
    name: &str,
    entries: impl Fn() -> Entries<'a>,
) -> Result<(), Box<dyn Error>> {
    let keyspace = match name {
        "default" => db.default_keyspace(),
        name => db.open_keyspace(name, KeyspaceOptions::default())?,
    };
    if !keyspace.is_empty()? {
        return Err(format!("keyspace {name} is there and not empty").into());
    }
    let count = copy(db, &keyspace, entries())?;
    check(&keyspace, entries())?;
    println!("{name}: {count} entries");
    Ok(())
}

fn from_fjall(dir: &str, db: &Db) -> Result<(), Box<dyn Error>> {
    let old = fjall::Database::builder(dir).open()?;
    // What is written meanwhile is not moved, and no moment is mixed with another.
    for name in old.list_keyspace_names() {
        let keyspace = old.keyspace(&name, fjall::KeyspaceCreateOptions::default)?;
        migrate(db, &name, || {
            Box::new(keyspace.iter().map(|entry| {
                let (key, value) = entry.into_inner()?;
                Ok((key.to_vec(), value.to_vec()))
            }))
        })?;
    }
    Ok(())
}

#[cfg(feature = "rocksdb")]
fn from_rocksdb(dir: &str, db: &Db) -> Result<(), Box<dyn Error>> {
    use rocksdb::IteratorMode::Start;

    let options = rocksdb::Options::default();
    let names = rocksdb::DB::list_cf(&options, dir)?;
    let old = rocksdb::DB::open_cf_for_read_only(&options, dir, &names, false)?;
    for name in &names {
        let family = old.cf_handle(name).ok_or("a column family is gone")?;
        migrate(db, name, || {
            let entries = old.iterator_cf(family, Start);
            Box::new(entries.map(|entry| {
                let (key, value) = entry?;
                Ok((key.into(), value.into()))
            }))
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, from, to] = arguments.as_slice() else {
        return Err("say `fjall` or `rocksdb`, the old folder, and the new one".into());
    };
    let db = Options::new().open(to)?;
    match kind.as_str() {
        "fjall" => from_fjall(from, &db)?,
        #[cfg(feature = "rocksdb")]
        "rocksdb" => from_rocksdb(from, &db)?,
        #[cfg(not(feature = "rocksdb"))]
        "rocksdb" => return Err("build this with --features rocksdb".into()),
        other => return Err(format!("`{other}` is neither fjall nor rocksdb").into()),
    }
    db.close()?;
    Ok(())
}
