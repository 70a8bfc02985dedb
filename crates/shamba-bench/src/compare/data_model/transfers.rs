//! Transfers between two accounts, of a fiftieth of the entries (low contention) and of few (high
//! contention); a fifth as many as the comparison has reads.
use super::numbers::Numbers;
use super::{Purpose, open};
use crate::Result;
use crate::compare::{Cell, Line};
use crate::engine::data_model::DataModel;
use crate::runner::{on_threads, share, timed};
use crate::workload::{MAX_KEY, random};
use rand::RngExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Accounts that are contended for. Of half as many two threads meet at twice as many transfers, of
/// twice as many at half.
const FEW: u64 = 16;

/// What each account has at first.
const BALANCE: i64 = 1_000;

/// The most that is moved at once.
const MOST: i64 = 100;

/// Both contentions, each in a database of its own.
pub(super) fn measure(cell: &Cell, dir: &Path) -> Result<Vec<Line>> {
    let many = (cell.settings.entries / 50).max(FEW);
    let mut lines = Vec::new();
    for (contention, count) in [("low", many), ("high", FEW)] {
        let Some(engine) = open(cell, &dir.join(contention), Purpose::Accounts)? else {
            return Ok(Vec::new());
        };
        lines.extend(run(cell, engine.as_ref(), contention, count)?);
    }
    Ok(lines)
}

/// An amount, and the accounts that lose and get it.
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

/// The transfers of a thread among so many accounts.
fn transfers(cell: &Cell, thread: usize, count: u64) -> impl Iterator<Item = Transfer> {
    let mut random = random(cell.seed, thread as u64 + 1);
    let own = share(cell.settings.reads / 5, thread, cell.threads);
    own.map(move |_| {
        let from = random.random_range(0..count);
        Transfer {
            from,
            to: (from + random.random_range(1..count)) % count,
            amount: random.random_range(1..=MOST),
        }
    })
}

fn run(cell: &Cell, engine: &dyn DataModel, contention: &str, count: u64) -> Result<Vec<Line>> {
    let mut accounts = Numbers::new(count, BALANCE);
    accounts.fill(engine)?;
    engine.wait_idle()?;
    let conflicts = AtomicU64::new(0);
    let outcome = on_threads(cell.threads, |thread, outcome| {
        let (mut from, mut to) = ([0; MAX_KEY], [0; MAX_KEY]);
        for transfer in transfers(cell, thread, count) {
            let from = accounts.keys.key(transfer.from, &mut from);
            let to = accounts.keys.key(transfer.to, &mut to);
            let moved = timed(engine, || engine.transfer(from, to, transfer.amount))?;
            let (Some(met), took) = moved else { break };
            outcome.record(took, 1);
            conflicts.fetch_add(met, Ordering::Relaxed);
        }
        Ok(())
    })?;
    if outcome.operations == 0 {
        return Ok(Vec::new());
    }
    // Additions commute: whatever the order, an account has what the seed says.
    for transfer in (0..cell.threads.max(1)).flat_map(|thread| transfers(cell, thread, count)) {
        accounts.expect(transfer.from, -transfer.amount);
        accounts.expect(transfer.to, transfer.amount);
    }
    accounts.check(engine)?;
    let name = format!("transfers, {contention} contention");
    let share = conflicts.into_inner() as f64 / outcome.operations as f64;
    Ok(vec![
        Line::phase(name.clone(), &outcome.summary()),
        Line::fact(format!("{name}: conflicts/transfer"), share),
    ])
}
