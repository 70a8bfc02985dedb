//! What was written, in order, and which of its prefixes a recovered database may be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shamba::{Clock, Db, ManualClock, Result, Transaction, WriteBatch, WriteOptions};

use super::story::told;
use super::{Map, Rng, all_contents, check_short_scans, grouped_key};

/// How many keys there may be.
pub const KEYS: u64 = 60;

/// What an operation does to a key.
#[derive(Debug, Clone)]
pub enum Write {
    Put(Vec<u8>),
    Delete,
    /// An operand, merged into what is there as a [`Story`](super::story::Story).
    Merge(Vec<u8>),
    /// All keys from the key on are deleted, up to this one.
    DeleteRange(Vec<u8>),
}

/// One operation of a batch: keyspace, key, and what it does.
pub type BatchOp = (&'static str, Vec<u8>, Write);

/// All keyspaces, those without keys left out.
pub type State = BTreeMap<String, Map>;

/// What was written, by keyspace and key: the value that was put last and not deleted, and what was
/// merged into it.
#[derive(Debug, Default)]
pub struct Written(BTreeMap<&'static str, BTreeMap<Vec<u8>, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    base: Option<Vec<u8>>,
    operands: Vec<Vec<u8>>,
}

impl Entry {
    /// The value, after [`LIFE`] or before.
    fn value(&self, late: bool) -> Option<Vec<u8>> {
        let base = self.base.as_deref();
        let base = base.filter(|base| !(late && expires(base)));
        if self.operands.is_empty() {
            return base.map(<[u8]>::to_vec);
        }
        Some(told(base, self.operands.iter().map(Vec::as_slice)))
    }
}

impl Written {
    /// Applies a batch.
    pub fn apply(&mut self, batch: &[BatchOp]) {
        for (name, key, write) in batch {
            let map = self.0.entry(name).or_default();
            let base = match write {
                Write::Merge(operand) => {
                    let entry = map.entry(key.clone()).or_default();
                    entry.operands.push(operand.clone());
                    continue;
                }
                Write::DeleteRange(to) => {
                    map.retain(|at, _| at < key || at >= to);
                    continue;
                }
                Write::Put(value) => Some(value.clone()),
                Write::Delete => None,
            };
            let operands = Vec::new();
            map.insert(key.clone(), Entry { base, operands });
        }
    }

    /// What there is to read, after [`LIFE`] or before.
    pub fn state(&self, late: bool) -> State {
        let mut state = State::new();
        for (name, entries) in &self.0 {
            let values = entries.iter();
            let values = values.filter_map(|(key, entry)| Some((key.clone(), entry.value(late)?)));
            state.insert((*name).to_owned(), values.collect());
        }
        state.retain(|_, map| !map.is_empty());
        state
    }
}

/// Values that begin so are there for [`LIFE`] from the epoch on: by the system's clock, never.
pub const EXPIRES: &str = "for a minute: ";
pub const LIFE: Duration = Duration::from_secs(60);
/// And those for so long: for every test.
const STAYS: &str = "for a century: ";
const CENTURY: Duration = Duration::from_secs(200 * 365 * 24 * 60 * 60);

/// How a value begins that has a time to live.
#[allow(dead_code, reason = "of some programs")]
pub fn life(rng: &mut Rng) -> &'static str {
    if rng.one_in(2) { EXPIRES } else { STAYS }
}

/// Batches in the order they were written, and what time it is.
#[derive(Debug, Default, Clone)]
pub struct History {
    pub batches: Vec<Vec<BatchOp>>,
    pub clock: ManualClock,
}

/// How far a writer had come: no crash at this moment may leave fewer than `durable` batches of
/// the history, nor more than `started`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub started: usize,
    pub durable: usize,
}

impl History {
    /// The number of batches whose prefix of the history `state` is, within what `progress` allows;
    /// if there are several, the largest.
    pub fn prefix_of(
        &self,
        state: &State,
        progress: Progress,
    ) -> std::result::Result<usize, String> {
        let mut written = Written::default();
        let late = self.is_late();
        let mut found = None;
        let mut elsewhere = None;
        for applied in 0..=self.batches.len() {
            if applied > 0 {
                written.apply(&self.batches[applied - 1]);
            }
            if written.state(late) == *state {
                if (progress.durable..=progress.started).contains(&applied) {
                    found = Some(applied);
                } else {
                    elsewhere = Some(applied);
                }
            }
        }
        found.ok_or_else(|| match elsewhere {
            Some(applied) => format!("{applied} batches survived, {progress:?}"),
            None => format!(
                "no prefix of the writes survived, {progress:?}: {}",
                self.explain(state, progress)
            ),
        })
    }

    /// Whether all has expired that ever will.
    fn is_late(&self) -> bool {
        self.clock.now() >= UNIX_EPOCH + LIFE
    }

    /// The key nearest to an explanation: how the state differs from the whole and the durable.
    fn explain(&self, state: &State, progress: Progress) -> String {
        let mut text = String::new();
        for upto in [progress.durable, progress.started.min(self.batches.len())] {
            let mut written = Written::default();
            self.batches[..upto]
                .iter()
                .for_each(|batch| written.apply(batch));
            let model = written.state(self.is_late());
            let differing = |a: &State, b: &State| -> Vec<String> {
                let keys = a
                    .iter()
                    .flat_map(|(name, map)| map.iter().map(move |pair| (name, pair)));
                keys.filter(|(name, (key, value))| {
                    b.get(*name).and_then(|map| map.get(*key)) != Some(value)
                })
                .map(|(name, (key, _))| format!("{name}/{}", String::from_utf8_lossy(key)))
                .collect()
            };
            text += &format!(
                "\n  against {upto} batches, wanted {:?}, got {:?}",
                differing(&model, state),
                differing(state, &model)
            );
        }
        text
    }
}

/// Until when a value is there that has a time to live.
fn until(value: &[u8]) -> Option<SystemTime> {
    if expires(value) {
        return Some(UNIX_EPOCH + LIFE);
    }
    value
        .starts_with(STAYS.as_bytes())
        .then(|| UNIX_EPOCH + CENTURY)
}

/// Whether a value is there for a minute.
pub fn expires(value: &[u8]) -> bool {
    value.starts_with(EXPIRES.as_bytes())
}

/// Makes the batch of a database.
pub fn to_batch(db: &Db, ops: &[BatchOp]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for (name, key, write) in ops {
        let keyspace = db.keyspace(name)?;
        match write {
            Write::Put(value) => match until(value) {
                Some(until) => batch.put_until_in(&keyspace, key, value, until),
                None => batch.put_in(&keyspace, key, value),
            },
            Write::Delete => batch.delete_in(&keyspace, key),
            Write::Merge(operand) => batch.merge_in(&keyspace, key, operand),
            Write::DeleteRange(to) => batch.delete_range_in(&keyspace, key..to)?,
        }
    }
    Ok(batch)
}

/// Whether [`write_as_transaction`] writes a batch: one of few operations and short values, that a
/// small budget has room for, none of which has a time to live of its own.
pub fn fits_transaction(ops: &[BatchOp]) -> bool {
    let other = |(.., write): &BatchOp| match write {
        Write::Put(value) => until(value).is_some() || value.len() > 24 << 10,
        _ => false,
    };
    ops.len() <= 12 && !ops.iter().any(other)
}

/// Writes a batch as a transaction.
pub fn write_as_transaction(db: &Db, ops: &[BatchOp], options: WriteOptions) -> Result<()> {
    to_transaction(db, ops)?.commit_with(options)
}

/// Makes the transaction that a batch is, which reads too, and takes something back.
pub fn to_transaction(db: &Db, ops: &[BatchOp]) -> Result<Transaction> {
    let mut transaction = db.transaction();
    transaction.multi_get(&["k00/00", "k00/01", "absent"])?;
    for entry in transaction.range("k05/".."k05/9").take(3) {
        entry?;
    }
    for (i, (name, key, write)) in ops.iter().enumerate() {
        let keyspace = db.keyspace(name)?;
        if i == ops.len() / 2 {
            transaction.set_savepoint();
            transaction.put_in(&keyspace, "taken back", "1")?;
            transaction.delete_in(&keyspace, key)?;
            transaction.merge_in(&keyspace, key, "taken back too")?;
            transaction.delete_range_in(&keyspace, key..)?;
            transaction.rollback_to_savepoint()?;
        }
        transaction.get_in(&keyspace, key)?;
        match write {
            Write::Put(value) => transaction.put_in(&keyspace, key, value)?,
            Write::Delete => transaction.delete_in(&keyspace, key)?,
            Write::Merge(operand) => transaction.merge_in(&keyspace, key, operand)?,
            Write::DeleteRange(to) => transaction.delete_range_in(&keyspace, key..to)?,
        }
    }
    // A write of somebody else's, without which the commit had nothing to look for.
    db.delete("nobody has this")?;
    Ok(transaction)
}

/// Everything in a database, checked to be the same by lookups, by a scan of all, and by scans of
/// few keys, which filters are asked for.
pub fn read_state(db: &Db, rng: &mut Rng) -> Result<State> {
    let mut state = all_contents(db)?;
    for (name, map) in &state {
        let keyspace = db.keyspace(name)?;
        // Those that are not there, too: a scan and a lookup find that out in different ways.
        let known = (0..KEYS).map(grouped_key).chain(map.keys().cloned());
        for key in known.collect::<BTreeSet<_>>() {
            assert_eq!(
                keyspace.get(&key)?.as_deref(),
                map.get(&key).map(Vec::as_slice),
                "{name} {key:?}"
            );
        }
        check_short_scans(&keyspace, map, rng, KEYS)?;
    }
    state.retain(|_, map| !map.is_empty());
    Ok(state)
}
