//! Measurements over time, asked by range, forgotten after some days.
//!
//! A day is a keyspace, so that forgetting one is `drop_keyspace`: no deletions, no compaction. A
//! time to come is refused: one that is wrong would make all that is there old. In
//! it a key is the series, a zero byte and the time, so that a series lies together in time's
//! order.
//!
//! ```sh
//! printf 'cpu 1700000000 0.5\ncpu 1700000060 0.7\n' |
//!     cargo run -p shamba-examples --bin time-series -- series.db add 7
//! cargo run -p shamba-examples --bin time-series -- series.db ask cpu 1700000000 1700000100
//! ```

use std::error::Error;
use std::io::BufRead;
use std::time::{SystemTime, UNIX_EPOCH};

use shamba::{Db, KeyspaceOptions, MemoryBudget, Options};

const DAY: u64 = 86_400;

/// Keyspaces sort as their days do.
fn keyspace_of(day: u64) -> String {
    format!("day {day:08}")
}

fn day_of(keyspace: &str) -> Option<u64> {
    keyspace.strip_prefix("day ")?.parse().ok()
}

fn key(series: &str, time: u64) -> Vec<u8> {
    [series.as_bytes(), &[0], &time.to_be_bytes()].concat()
}

fn days(db: &Db) -> Vec<u64> {
    let names = db.keyspaces();
    let mut days: Vec<u64> = names.iter().filter_map(|name| day_of(name)).collect();
    days.sort_unstable();
    days
}

/// Adds what standard input has. With each new day the oldest are forgotten.
fn add(db: &Db, days_kept: usize) -> Result<(), Box<dyn Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut known = days(db);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut fields = line.split_whitespace();
        let (Some(series), Some(time), Some(value)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("`{line}` is no series, time and value").into());
        };
        let (time, value): (u64, f64) = (time.parse()?, value.parse()?);
        if time > now + DAY {
            return Err(format!("`{line}`: times are seconds since 1970, and not to come").into());
        }
        let day = db.open_keyspace(&keyspace_of(time / DAY), KeyspaceOptions::default())?;
        day.put(key(series, time), value.to_be_bytes())?;
        if !known.contains(&(time / DAY)) {
            known = days(db);
            for old in known.iter().rev().skip(days_kept) {
                db.drop_keyspace(&keyspace_of(*old))?;
                println!("day {old} is forgotten");
            }
            known = days(db);
        }
    }
    Ok(())
}

/// Prints a series from one time up to another.
fn ask(db: &Db, series: &str, from: u64, to: u64) -> Result<(), Box<dyn Error>> {
    let mut days = days(db);
    days.retain(|day| (from / DAY..=to / DAY).contains(day));
    let (mut count, mut sum) = (0u32, 0.0);
    for day in days {
        let keyspace = db.keyspace(&keyspace_of(day))?;
        for entry in keyspace.range(key(series, from)..key(series, to)) {
            let (key, value) = entry?;
            let time = u64::from_be_bytes(key[series.len() + 1..].try_into()?);
            let value = f64::from_be_bytes((*value).try_into()?);
            println!("{time} {value}");
            (count, sum) = (count + 1, sum + value);
        }
    }
    println!("{count} values, mean {:.3}", sum / f64::from(count.max(1)));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let usage = "FOLDER add DAYS_KEPT < lines, or FOLDER ask SERIES FROM TO";
    let dir = arguments.first().ok_or(usage)?;
    let db = Options::new()
        .memory(MemoryBudget::bytes(16 << 20))
        .open(dir)?;
    match arguments[1..] {
        ["add", days] => add(&db, days.parse()?)?,
        ["ask", series, from, to] => ask(&db, series, from.parse()?, to.parse()?)?,
        _ => return Err(usage.into()),
    }
    db.close()?;
    Ok(())
}
