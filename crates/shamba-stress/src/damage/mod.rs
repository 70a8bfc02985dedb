//! Damage to the files of a database: bits, pages and ends of files, files that are swapped, old or
//! gone, and bytes that were changed together with their checksums.
//!
//! A case makes a database of several keyspaces and levels, damages one of its files in some way,
//! and reads everything in every way. Each answer is right or a typed error, and `verify` reports
//! what made an answer fail. Two exceptions: of the write-ahead log the end may be lost without
//! notice (docs/format.md, "Logs"), and where checksums were forged nothing is asked but that the
//! engine goes on.

mod forge;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use shamba::fs::{Fs, MemFs};
use shamba::{Db, Error, IterOptions, MemoryBudget, Options, Result, WriteBatch, WriteOptions};

use crate::common::story::{Story, told};
use crate::common::{Map, Rng, contents, grouped_key, random_keyspace_options};
use crate::{Kind, Tally};
use forge::forge;

const DIR: &str = "/db";
const NAMES: [&str; 2] = ["default", "second"];
const KEYS: u64 = 300;
const BUDGET: u64 = 4 << 20;

/// Damage of files.
#[derive(Debug, Default)]
pub struct Damage;

/// What is in every keyspace.
type Contents = BTreeMap<&'static str, Map>;

/// A database, and everything it ever was.
struct Sample {
    fs: MemFs,
    options: Options,
    /// The contents after each write since all was in tables, the last one last; the first is what
    /// tables hold.
    states: Vec<Contents>,
    /// The files at an earlier moment.
    old: Vec<(PathBuf, Vec<u8>)>,
}

fn files(fs: &MemFs) -> Vec<PathBuf> {
    let files = fs.files().into_iter();
    files
        .filter(|path| path.starts_with(DIR) && !path.ends_with("LOCK"))
        .collect()
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

impl Sample {
    fn make(rng: &mut Rng) -> Sample {
        let fs = MemFs::new();
        let mut options = Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(BUDGET))
            .background_threads(0);
        for name in NAMES {
            let combines = rng.one_in(2);
            options = options
                .keyspace_options(name, random_keyspace_options(rng))
                .merge_operator(name, Story { combines });
        }
        let db = options.clone().open(DIR).unwrap();
        db.create_keyspace(NAMES[1], random_keyspace_options(rng))
            .unwrap();
        let mut contents = Contents::from(NAMES.map(|name| (name, Map::new())));
        let mut states = vec![contents.clone()];
        let mut old = Vec::new();
        let writes = rng.between(30, 200);
        // A value that the budget does not let be written whole, in some.
        let long = rng.one_in(4).then(|| rng.below(writes));
        for number in 0..writes {
            let mut batch = WriteBatch::new();
            for _ in 0..rng.between(1, 8) {
                let name = *rng.pick(&NAMES);
                let keyspace = db.keyspace(name).unwrap();
                let at = rng.below(KEYS);
                let key = grouped_key(at);
                let map = contents.get_mut(name).unwrap();
                if rng.one_in(60) {
                    let range = key..grouped_key(at + rng.between(1, 30));
                    let added = batch.delete_range_in(&keyspace, range.clone());
                    added.unwrap();
                    map.retain(|key, _| !range.contains(key));
                } else if rng.one_in(6) {
                    batch.delete_in(&keyspace, &key);
                    map.remove(&key);
                } else if rng.one_in(8) {
                    let operand = format!("{number},").into_bytes();
                    batch.merge_in(&keyspace, &key, &operand);
                    let base = map.get(&key).map(Vec::as_slice);
                    map.insert(key, told(base, [&operand[..]]));
                } else if rng.one_in(12) {
                    // In the next century, or long ago.
                    let years = *rng.pick(&[1, 150]);
                    let until = UNIX_EPOCH + Duration::from_secs(years * 365 * 86_400);
                    let value = rng.bytes(30);
                    batch.put_until_in(&keyspace, &key, &value, until);
                    if years > 1 {
                        map.insert(key, value);
                    } else {
                        map.remove(&key);
                    }
                } else {
                    let most = if rng.one_in(40) { 9000 } else { 120 };
                    let len = rng.below(most) as usize;
                    let value = [format!("{number}:").into_bytes(), rng.bytes(len)].concat();
                    batch.put_in(&keyspace, &key, &value);
                    map.insert(key, value);
                }
            }
            if long == Some(number) {
                let value = rng.bytes(BUDGET as usize / 16 + 1000);
                let key = grouped_key(rng.below(KEYS));
                batch.put(&key, &value);
                contents.get_mut("default").unwrap().insert(key, value);
            }
            db.write_with(batch, WriteOptions::synced()).unwrap();
            states.push(contents.clone());
            if rng.one_in(40) {
                db.flush().unwrap();
                states = vec![contents.clone()];
            }
            if rng.one_in(60) {
                db.compact_range(None, None).unwrap();
            }
            if number == writes / 2 {
                old = files(&fs)
                    .into_iter()
                    .map(|path| (path.clone(), fs.read_file(&path).unwrap()))
                    .collect();
            }
        }
        if rng.one_in(3) {
            db.close().unwrap();
            states = vec![contents];
        }
        Sample {
            fs: fs.deep_clone(),
            options: options.create_if_missing(false),
            states,
            old,
        }
    }

    fn open(&self, fs: &MemFs) -> Result<Db> {
        self.options.clone().fs(Arc::new(fs.clone())).open(DIR)
    }
}

/// What was done to a database.
struct Harm {
    fs: MemFs,
    what: String,
    /// Whether checksums were made right again.
    forged: bool,
    /// Whether a table is not what it was.
    table: bool,
    /// Whether the end of the log may be lost: not where it is gone, or another, which the manifest
    /// knows.
    log: bool,
}

impl Harm {
    /// Harms a copy of a database in one way; `None` if that came to nothing.
    fn some(rng: &mut Rng, sample: &Sample) -> Option<Harm> {
        let fs = sample.fs.deep_clone();
        let paths = files(&fs);
        let path = rng.pick(&paths).clone();
        let before = fs.read_file(&path).ok()?;
        let mut bytes = before.clone();
        let mut forged = false;
        let len = bytes.len() as u64;
        let at = rng.below(len.max(1)) as usize;
        let what = match rng.below(12) {
            0..2 => {
                for _ in 0..rng.between(1, 3) {
                    let at = rng.below(len.max(1)) as usize;
                    *bytes.get_mut(at)? ^= 1 << rng.below(8);
                }
                "bits changed"
            }
            2 => {
                bytes.truncate(at);
                "cut"
            }
            3 => {
                let page = at - at % 4096;
                let end = (page + 4096).min(bytes.len());
                bytes[page..end].fill(0);
                "a page of zeros"
            }
            4 => {
                bytes.extend(rng.bytes(rng.clone().between(1, 5000) as usize));
                "longer"
            }
            5 => {
                let (old, was) = rng.pick(&sample.old);
                if *old != path {
                    return None;
                }
                bytes.clone_from(was);
                "an old copy"
            }
            6 => {
                let other = rng.pick(&paths);
                if other.extension() != path.extension() {
                    return None;
                }
                let others = fs.read_file(other).ok()?;
                fs.write_file(other, &bytes).ok()?;
                bytes = others;
                "swapped with another"
            }
            7 => {
                fs.remove(&path).ok()?;
                "removed"
            }
            _ => {
                forge(rng, &path, &mut bytes)?;
                forged = true;
                "forged"
            }
        };
        if what != "removed" {
            if bytes == before {
                return None;
            }
            fs.write_file(&path, &bytes).ok()?;
        }
        Some(Harm {
            fs: fs.deep_clone(),
            what: format!("{}: {what}", path.display()),
            forged,
            table: is_table(&path),
            log: is_log(&path) && !matches!(what, "removed" | "swapped with another"),
        })
    }
}

/// Whether an error says what is wrong with stored bytes, or follows from such a one.
fn typed(error: &Error) -> bool {
    match error {
        Error::Corruption { .. }
        | Error::UnsupportedFormat { .. }
        | Error::UnknownFeatures { .. }
        | Error::NotADatabase { .. }
        | Error::KeyspaceNotFound { .. } => true,
        Error::Poisoned { cause } | Error::Stalled { cause } => typed(cause),
        _ => false,
    }
}

fn backward(db: &Db, name: &str) -> Result<Map> {
    let mut iter = db.keyspace(name)?.cursor(IterOptions::default())?;
    let mut map = Map::new();
    iter.seek_to_last()?;
    while iter.valid() {
        map.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.prev()?;
    }
    Ok(map)
}

/// Reads a damaged database in every way.
struct Examination<'a> {
    harm: &'a Harm,
    /// The states that fit all answers so far.
    possible: Vec<&'a Contents>,
    noticed: Option<String>,
}

impl<'a> Examination<'a> {
    fn error(&mut self, error: &Error) {
        let what = &self.harm.what;
        assert!(self.harm.forged || typed(error), "{what}: {error:?}");
        self.noticed = Some(error.to_string());
    }

    fn answer(&mut self, how: &str, fits: impl Fn(&Contents) -> bool) {
        if self.harm.forged {
            return;
        }
        self.possible.retain(|state| fits(state));
        let what = &self.harm.what;
        assert!(!self.possible.is_empty(), "{what}: a wrong answer of {how}");
    }

    fn scans(&mut self, db: &Db, name: &'static str) {
        let forward = db.keyspace(name).and_then(|keyspace| contents(&keyspace));
        for (how, got) in [("a scan", forward), ("a backward scan", backward(db, name))] {
            match got {
                Ok(got) => self.answer(how, |state| state[name] == got),
                Err(error) => self.error(&error),
            }
        }
    }

    fn lookups(&mut self, db: &Db, name: &'static str) {
        let keyspace = match db.keyspace(name) {
            Ok(keyspace) => keyspace,
            Err(error) => return self.error(&error),
        };
        for number in 0..KEYS {
            let key = grouped_key(number);
            match keyspace.get(&key) {
                Ok(got) => self.answer("a lookup", |state| {
                    state[name].get(&key).map(Vec::as_slice) == got.as_deref()
                }),
                Err(error) => self.error(&error),
            }
        }
    }

    /// Scans that filters are asked for: of keys that begin alike, and of few in a row.
    fn short_scans(&mut self, db: &Db, name: &'static str) {
        let keyspace = match db.keyspace(name) {
            Ok(keyspace) => keyspace,
            Err(error) => return self.error(&error),
        };
        for number in (0..KEYS).step_by(11) {
            let key = grouped_key(number);
            let alike = IterOptions::prefix(&key[..4]);
            let few = IterOptions::range(key..grouped_key(number + 3));
            for options in [alike, few] {
                let range = (options.lower.clone(), options.upper.clone());
                let got: Result<Map> = keyspace
                    .iter_with(options)
                    .map(|entry| entry.map(|(key, value)| (key, value.into_vec())))
                    .collect();
                match got {
                    Ok(got) => self.answer("a scan of few keys", |state| {
                        got.iter()
                            .eq(state[name].range::<Vec<u8>, _>(range.clone()))
                    }),
                    Err(error) => self.error(&error),
                }
            }
        }
    }

    /// Everything, and again once it was merged: merging must not turn damage into answers.
    fn read(&mut self, db: &Db) {
        for merged in [false, true] {
            if merged && let Err(error) = db.compact_range(None, None) {
                self.error(&error);
            }
            for name in NAMES {
                self.lookups(db, name);
                self.scans(db, name);
                self.short_scans(db, name);
            }
        }
    }
}

fn examine(sample: &Sample, harm: &Harm) {
    let last = sample.states.len() - 1;
    // In a log, as many of the last writes as are not in tables may be missing.
    let first = if harm.log { 0 } else { last };
    let mut examination = Examination {
        harm,
        possible: sample.states[first..].iter().collect(),
        noticed: None,
    };
    let verified = sample.options.clone().fs(Arc::new(harm.fs.deep_clone()));
    let verified = verified.verify(DIR, &mut |_, _| {});
    match sample.open(&harm.fs.deep_clone()) {
        Ok(db) => examination.read(&db),
        Err(error) => examination.error(&error),
    }
    let sound = match &verified {
        Ok(summary) => summary.is_sound(),
        Err(error) => {
            assert!(harm.forged || typed(error), "{}: {error:?}", harm.what);
            false
        }
    };
    if let Some(noticed) = &examination.noticed {
        assert!(
            !sound || harm.forged,
            "{}: verify found nothing, but: {noticed}",
            harm.what
        );
    }
    assert!(
        !sound || !harm.table || harm.forged,
        "{}: verify found nothing",
        harm.what
    );
}

impl Kind for Damage {
    fn name(&self) -> &'static str {
        "damage"
    }

    fn case(&self, seed: u64, tally: &Tally) {
        let mut rng = Rng::new(seed);
        let sample = Sample::make(&mut rng);
        let mut harms = 0;
        while harms < 30 {
            let Some(harm) = Harm::some(&mut rng, &sample) else {
                continue;
            };
            examine(&sample, &harm);
            harms += 1;
            tally.add(if harm.forged { "forged" } else { "damaged" }, 1);
        }
    }
}
