//! What was written, in order, and which of its prefixes a recovered database may be.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use shamba::{Clock, Db, ManualClock, Result, WriteBatch, WriteOptions};

use crate::common::{Map, all_contents};

/// One operation of a batch: keyspace, key, value or delete.
pub type BatchOp = (&'static str, Vec<u8>, Option<Vec<u8>>);

/// All keyspaces, those without keys left out.
pub type State = BTreeMap<String, Map>;

/// Values that begin so are there for [`LIFE`] from the epoch on.
pub const EXPIRES: &str = "for a minute: ";
pub const LIFE: Duration = Duration::from_secs(60);

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
        let mut model = State::new();
        let mut found = None;
        let mut elsewhere = None;
        for applied in 0..=self.batches.len() {
            if applied > 0 {
                apply(&mut model, &self.batches[applied - 1]);
            }
            if self.live(&model) == *state {
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

    /// What has not expired of a state.
    fn live(&self, state: &State) -> State {
        let mut live = state.clone();
        if self.clock.now() >= UNIX_EPOCH + LIFE {
            for map in live.values_mut() {
                map.retain(|_, value| !expires(value));
            }
            live.retain(|_, map| !map.is_empty());
        }
        live
    }

    /// The key nearest to an explanation: how the state differs from the whole and the durable.
    fn explain(&self, state: &State, progress: Progress) -> String {
        let mut text = String::new();
        for upto in [progress.durable, progress.started.min(self.batches.len())] {
            let mut model = State::new();
            self.batches[..upto]
                .iter()
                .for_each(|batch| apply(&mut model, batch));
            let model = self.live(&model);
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

/// Whether a value has a time to live.
pub fn expires(value: &[u8]) -> bool {
    value.starts_with(EXPIRES.as_bytes())
}

/// Applies a batch to a model.
pub fn apply(state: &mut State, batch: &[BatchOp]) {
    for (name, key, value) in batch {
        let map = state.entry((*name).to_owned()).or_default();
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
        if map.is_empty() {
            state.remove(*name);
        }
    }
}

/// Makes the batch of a database.
pub fn to_batch(db: &Db, ops: &[BatchOp]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for (name, key, value) in ops {
        let keyspace = db.keyspace(name)?;
        match value {
            Some(value) if expires(value) => {
                batch.put_until_in(&keyspace, key, value, UNIX_EPOCH + LIFE);
            }
            Some(value) => batch.put_in(&keyspace, key, value),
            None => batch.delete_in(&keyspace, key),
        }
    }
    Ok(batch)
}

/// Whether [`write_as_transaction`] writes a batch: one of few operations, that a small budget has
/// room for, none of which has a time to live of its own.
pub fn fits_transaction(ops: &[BatchOp]) -> bool {
    let mut values = ops.iter().filter_map(|(.., value)| value.as_ref());
    ops.len() <= 12 && !values.any(|value| expires(value))
}

/// Writes a batch as a transaction, which reads too, and takes something back.
pub fn write_as_transaction(db: &Db, ops: &[BatchOp], options: WriteOptions) -> Result<()> {
    let mut transaction = db.transaction();
    transaction.multi_get(&["key000", "key001", "absent"])?;
    for (i, (name, key, value)) in ops.iter().enumerate() {
        let keyspace = db.keyspace(name)?;
        if i == ops.len() / 2 {
            transaction.set_savepoint();
            transaction.put_in(&keyspace, "taken back", "1")?;
            transaction.delete_in(&keyspace, key)?;
            transaction.rollback_to_savepoint()?;
        }
        transaction.get_in(&keyspace, key)?;
        match value {
            Some(value) => transaction.put_in(&keyspace, key, value)?,
            None => transaction.delete_in(&keyspace, key)?,
        }
    }
    transaction.commit_with(options)
}

/// Everything in a database, checked to be the same by lookups and by scans.
pub fn read_state(db: &Db) -> Result<State> {
    let mut state = all_contents(db)?;
    for (name, map) in &state {
        let keyspace = db.keyspace(name)?;
        for (key, value) in map {
            assert_eq!(
                keyspace.get(key)?.as_deref(),
                Some(value.as_slice()),
                "{name} {key:?}"
            );
        }
    }
    state.retain(|_, map| !map.is_empty());
    Ok(state)
}
