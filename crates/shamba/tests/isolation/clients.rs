//! One who runs random transactions on lists, and writes down what they did.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use shamba::{
    Append, Db, Error, Isolation, Keyspace, Options, Result, Transaction, TransactionOptions,
    WriteOptions,
};

use crate::checker::{Element, History, Record};
use crate::common::Rng;

/// Keys of a round, which nobody wrote before: the first half of them in the default keyspace, the
/// others in another one.
pub struct Round<'a> {
    pub db: &'a Db,
    keyspaces: [Keyspace; 2],
    prefix: String,
    pub keys: usize,
    ids: AtomicU32,
    clock: AtomicU64,
}

/// What a transaction did is written down here, and the lists of its appends that stand.
pub struct Client<'a> {
    round: &'a Round<'a>,
    id: u32,
    transaction: Transaction,
    record: Record,
    appended: u32,
    /// Whether it wrote lists anew.
    rewrote: bool,
    savepoints: Vec<BTreeMap<usize, Vec<Element>>>,
}

/// A transaction that has ended, and its number.
pub type Ended = (u32, Record);

/// What comes of a step of a client.
pub type Step<'a> = ControlFlow<Ended, Client<'a>>;

/// Lists of both keyspaces can be appended to by merges.
pub fn with_append(options: Options) -> Options {
    let options = options.merge_operator("default", Append);
    options.merge_operator("other", Append)
}

fn encode(list: &[Element]) -> Vec<u8> {
    let bytes = list.iter().flat_map(|(id, number)| [*id, *number]);
    bytes.flat_map(u32::to_be_bytes).collect()
}

fn decode(value: Option<&[u8]>) -> Vec<Element> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let elements = value.unwrap_or_default().chunks(8);
    elements
        .map(|both| (number(&both[..4]), number(&both[4..])))
        .collect()
}

/// Whether an error says that memory is short: the transaction is then given up.
fn is_shortage(error: &Error) -> bool {
    matches!(
        error,
        Error::TransactionTooLarge { .. } | Error::IteratorsExhausted { .. }
    )
}

impl<'a> Round<'a> {
    pub fn new(db: &'a Db, other: &Keyspace, number: u64, keys: usize) -> Round<'a> {
        Round {
            db,
            keyspaces: [db.default_keyspace(), other.clone()],
            prefix: format!("{number:06}/"),
            keys,
            ids: AtomicU32::new(1),
            clock: AtomicU64::new(0),
        }
    }

    fn half(&self) -> usize {
        self.keys / 2
    }

    fn keyspace(&self, key: usize) -> &Keyspace {
        &self.keyspaces[usize::from(key >= self.half())]
    }

    fn name(&self, key: usize) -> Vec<u8> {
        format!("{}{key:03}", self.prefix).into_bytes()
    }

    /// The key of a name of this round.
    fn key(&self, name: &[u8]) -> usize {
        let digits = name.strip_prefix(self.prefix.as_bytes()).unwrap();
        std::str::from_utf8(digits).unwrap().parse().unwrap()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn next_id(&self) -> u32 {
        self.ids.fetch_add(1, Ordering::SeqCst)
    }

    /// Appends to a list without a transaction that is held open.
    pub fn append_at_once(&self, rng: &mut Rng) -> Ended {
        let (id, key, began) = (
            self.next_id(),
            rng.below(self.keys as u64) as usize,
            self.now(),
        );
        let (keyspace, name) = (self.keyspace(key), self.name(key));
        let after = |before: Option<&[u8]>| {
            let mut list = before.unwrap_or_default().to_vec();
            list.extend(encode(&[(id, 0)]));
            list
        };
        let before = if rng.one_in(2) {
            let update = |before: Option<&[u8]>| Some(after(before));
            keyspace.fetch_update(&name, update).unwrap()
        } else {
            loop {
                let before = keyspace.get(&name).unwrap();
                let new = after(before.as_deref());
                let swapped = keyspace.compare_and_swap(&name, before.as_deref(), Some(&new));
                if swapped.unwrap().is_ok() {
                    break before;
                }
            }
        };
        let read = (key, decode(before.as_deref()));
        (id, self.appended(id, began, key, Some(read)))
    }

    /// Appends to a list by a merge, without reading it.
    pub fn append_unread(&self, rng: &mut Rng) -> Ended {
        let (id, began) = (self.next_id(), self.now());
        let key = rng.below(self.keys as u64) as usize;
        let operand = encode(&[(id, 0)]);
        self.keyspace(key).merge(self.name(key), operand).unwrap();
        (id, self.appended(id, began, key, None))
    }

    /// What one did that appended a single element, and has ended.
    fn appended(
        &self,
        id: u32,
        began: u64,
        key: usize,
        read: Option<(usize, Vec<Element>)>,
    ) -> Record {
        Record {
            began,
            ended: self.now(),
            committed: true,
            reads: read.into_iter().collect(),
            appends: BTreeMap::from([(key, vec![(id, 0)])]),
        }
    }

    /// Appends by a plain write after a read: for who is alone.
    pub fn append_plainly(&self, rng: &mut Rng) -> Ended {
        let (id, key, began) = (
            self.next_id(),
            rng.below(self.keys as u64) as usize,
            self.now(),
        );
        let (keyspace, name) = (self.keyspace(key), self.name(key));
        let before = decode(keyspace.get(&name).unwrap().as_deref());
        let after = [&before[..], &[(id, 0)]].concat();
        keyspace.put(&name, encode(&after)).unwrap();
        (id, self.appended(id, began, key, Some((key, before))))
    }

    /// What happened, once all have ended.
    pub fn history(&self, records: BTreeMap<u32, Record>) -> History {
        let list = |key| self.keyspace(key).get(self.name(key)).unwrap();
        History {
            records,
            lists: (0..self.keys)
                .map(|key| decode(list(key).as_deref()))
                .collect(),
        }
    }
}

impl<'a> Client<'a> {
    pub fn begin(round: &'a Round<'a>, isolation: Isolation) -> Client<'a> {
        let (began, id) = (round.now(), round.next_id());
        let options = TransactionOptions::new().isolation(isolation);
        Client {
            round,
            id,
            transaction: round.db.transaction_with(options),
            record: Record {
                began,
                ..Record::default()
            },
            appended: 0,
            rewrote: false,
            savepoints: Vec::new(),
        }
    }

    /// Does something at random.
    pub fn step(mut self, rng: &mut Rng) -> Step<'a> {
        let done = match rng.below(100) {
            0..20 => self.read(rng),
            20..26 => self.read_several(rng),
            26..45 => self.read_range(rng),
            45..60 => self.append(rng),
            60..67 => self.append_unread(rng),
            67..72 => self.rewrite(rng),
            72..77 => {
                self.transaction.set_savepoint();
                self.savepoints.push(self.record.appends.clone());
                Ok(())
            }
            77..80 => self.back_to_savepoint(rng),
            80..97 => return ControlFlow::Break(self.commit()),
            _ => Err(None),
        };
        match done {
            Ok(()) => ControlFlow::Continue(self),
            Err(error) => {
                assert!(error.as_ref().is_none_or(is_shortage), "{error:?}");
                ControlFlow::Break(self.give_up())
            }
        }
    }

    /// Commits, if others allow it; one in some has entries that expire, after the test.
    pub fn commit(self) -> Ended {
        let Client {
            round,
            id,
            transaction,
            mut record,
            rewrote,
            ..
        } = self;
        let mut options = WriteOptions::new();
        options.ttl = (id % 8 == 0).then_some(Duration::from_secs(24 * 60 * 60));
        let done = transaction.commit_with(options);
        record.ended = round.now();
        record.committed = done.is_ok();
        match done {
            Ok(()) => {}
            Err(Error::Conflict { key, .. }) => {
                let wrote = rewrote || !record.appends.is_empty();
                assert!(wrote && round.key(&key) < round.keys);
            }
            Err(error) => assert!(is_shortage(&error), "{error}"),
        }
        (id, record)
    }

    /// Rolls back.
    fn give_up(self) -> Ended {
        let Client {
            round,
            id,
            transaction,
            mut record,
            ..
        } = self;
        transaction.rollback();
        record.ended = round.now();
        (id, record)
    }

    fn back_to_savepoint(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let Some(then) = self.savepoints.pop() else {
            let none = self.transaction.rollback_to_savepoint();
            assert!(matches!(none, Err(Error::NoSavepoint)), "{none:?}");
            return Ok(());
        };
        if rng.one_in(3) {
            self.transaction.pop_savepoint()?;
        } else {
            self.transaction.rollback_to_savepoint()?;
            self.record.appends = then;
        }
        Ok(())
    }

    /// Writes down a list that was read: what others appended, and before its end what the
    /// transaction did itself.
    fn note(&mut self, key: usize, mut list: Vec<Element>) {
        let own = self.record.appends.get(&key).cloned().unwrap_or_default();
        let others = list.len().saturating_sub(own.len());
        assert_eq!(list[others..], own, "a transaction misses its own appends");
        list.truncate(others);
        self.record.reads.push((key, list));
    }

    fn random_key(&self, rng: &mut Rng) -> usize {
        rng.below(self.round.keys as u64) as usize
    }

    fn get(&mut self, key: usize, for_update: bool) -> Result<Vec<Element>> {
        let (keyspace, name) = (self.round.keyspace(key), self.round.name(key));
        let value = if for_update {
            self.transaction.get_for_update_in(keyspace, &name)?
        } else {
            self.transaction.get_in(keyspace, &name)?
        };
        let list = decode(value.as_deref());
        self.note(key, list.clone());
        Ok(list)
    }

    fn read(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let key = self.random_key(rng);
        let (keyspace, name) = (self.round.keyspace(key), self.round.name(key));
        match rng.below(8) {
            0 if !self.transaction.contains_key_in(keyspace, &name)? => self.note(key, Vec::new()),
            way => drop(self.get(key, way == 1)?),
        }
        Ok(())
    }

    fn read_several(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let keys: Vec<_> = (0..3).map(|_| self.random_key(rng)).collect();
        let keyspace = self.round.keyspace(keys[0]).clone();
        let is_there = |key: &usize| self.round.keyspace(*key).name() == keyspace.name();
        let keys: Vec<_> = keys.into_iter().filter(is_there).collect();
        let names: Vec<_> = keys.iter().map(|key| self.round.name(*key)).collect();
        let values = self.transaction.multi_get_in(&keyspace, &names)?;
        for (key, value) in keys.into_iter().zip(values) {
            self.note(key, decode(value.as_deref()));
        }
        Ok(())
    }

    fn append(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let key = self.random_key(rng);
        let for_update = rng.one_in(4);
        let mut list = self.get(key, for_update)?;
        let element = self.next_element();
        list.push(element);
        let (keyspace, name) = (self.round.keyspace(key), self.round.name(key));
        self.transaction.put_in(keyspace, name, encode(&list))?;
        self.record.appends.entry(key).or_default().push(element);
        Ok(())
    }

    /// Appends by a merge, without reading.
    fn append_unread(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let key = self.random_key(rng);
        let element = self.next_element();
        let (keyspace, name) = (self.round.keyspace(key), self.round.name(key));
        let operand = encode(&[element]);
        self.transaction.merge_in(keyspace, name, operand)?;
        self.record.appends.entry(key).or_default().push(element);
        Ok(())
    }

    /// Deletes a range of lists, or one, and writes anew what was there.
    fn rewrite(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let of_default = rng.one_in(2);
        let range = self.random_range(rng, of_default);
        let range = range.start..range.end.min(range.start + 3);
        if range.is_empty() {
            return Ok(());
        }
        let lists: Vec<_> = range.clone().map(|key| self.get(key, false)).collect();
        let keyspace = self.round.keyspace(range.start);
        let names = self.round.name(range.start)..self.round.name(range.end);
        self.rewrote = true;
        match range.len() {
            1 => self.transaction.delete_in(keyspace, names.start)?,
            _ => self.transaction.delete_range_in(keyspace, names)?,
        }
        for (key, list) in range.zip(lists) {
            let (name, list) = (self.round.name(key), encode(&list?));
            match rng.below(2) {
                _ if list.is_empty() => {}
                0 => self.transaction.put_in(keyspace, name, list)?,
                _ => self.transaction.merge_in(keyspace, name, list)?,
            }
        }
        Ok(())
    }

    fn next_element(&mut self) -> Element {
        self.appended += 1;
        (self.id, self.appended - 1)
    }

    /// A range of the keys of one of the keyspaces.
    fn random_range(&self, rng: &mut Rng, of_default: bool) -> Range<usize> {
        let all = if of_default {
            0..self.round.half()
        } else {
            self.round.half()..self.round.keys
        };
        let mut at = || rng.between(all.start as u64, all.end as u64) as usize;
        let (a, b) = (at(), at());
        a.min(b)..a.max(b)
    }

    /// Reads a range of one of the keyspaces from its ends, all of it or some.
    fn read_range(&mut self, rng: &mut Rng) -> std::result::Result<(), Option<Error>> {
        let of_default = rng.one_in(2);
        let range = self.random_range(rng, of_default);
        let mut seen = BTreeMap::new();
        // Where what was read from each end ends.
        let (mut front, mut back) = (range.start, range.end);
        let most = *rng.pick(&[1, 2, 4, usize::MAX]);
        let ends = rng.below(3);
        let names = self.round.name(range.start)..self.round.name(range.end);
        let keyspace = &self.round.keyspaces[usize::from(!of_default)];
        let mut iter = self.transaction.range_in(keyspace, names);
        for _ in 0..most {
            let from_back = ends == 1 || ends == 2 && rng.one_in(2);
            let entry = if from_back {
                iter.next_back()
            } else {
                iter.next()
            };
            let Some(entry) = entry else {
                front = range.end;
                break;
            };
            let (name, value) = entry?;
            let key = self.round.key(&name);
            if from_back {
                back = key;
            } else {
                front = key + 1;
            }
            seen.insert(key, decode(Some(&value)));
        }
        drop(iter);
        self.note_range(range.start..front, &mut seen);
        self.note_range(back.max(front)..range.end, &mut seen);
        assert!(seen.is_empty(), "{seen:?} is not of {range:?}");
        Ok(())
    }

    /// Those of a range that were not there had empty lists.
    fn note_range(&mut self, range: Range<usize>, seen: &mut BTreeMap<usize, Vec<Element>>) {
        for key in range {
            let list = seen.remove(&key).unwrap_or_default();
            self.note(key, list);
        }
    }
}
