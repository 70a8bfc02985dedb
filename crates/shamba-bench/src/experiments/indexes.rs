//! Bytes of index for each data block, by the kind of the keys: the command `indexes`.
//!
//! The same entries in each engine, put in random order, in the standard setting; nothing is
//! looked up. *Stored* is what index blocks have, without what fills their pages; *resident* what
//! they take in the cache, all included; *beside* what open tables take that hold them.
//! *Separators, packed* is what the information in them comes to about: the shortest ones between
//! as many blocks of equally many keys, front-coded and all in one piece, after Zstandard at its
//! highest level. An index that is searched as it lies, a partition at a time, can't be expected to
//! get below it where keys are text; of random numbers it knows more than Zstandard.
use super::named;
use crate::engine::{self, EngineConfig, Indexes, Write};
use crate::report::Report;
use crate::workload::{Random, random};
use crate::{Error, Result, row};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::path::PathBuf;

/// What keys look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeySet {
    /// 32 random hexadecimal digits.
    Hex,
    /// 8 random bytes.
    Random,
    /// The numbers from 0 on, as 8 bytes.
    Sequence,
    /// UUIDs of version 4, 16 bytes.
    Uuid,
    /// The same as text.
    UuidText,
    /// The number of a user, who has a hundred entries, and a time within a year: 8 bytes each.
    UserTime,
}

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines, such as `shamba` and `rocksdb`.
    #[arg(long, value_delimiter = ',', default_value = "shamba")]
    pub engines: Vec<String>,
    /// Kinds of keys.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "hex,random,sequence,uuid,uuid-text,user-time"
    )]
    pub keys: Vec<KeySet>,
    /// Files with a key in each line, measured too.
    #[arg(long)]
    pub lines: Vec<PathBuf>,
    /// Keys of each kind; of files all.
    #[arg(long, default_value_t = 1_000_000)]
    pub entries: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 32)]
    pub value_size: usize,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Seconds of a year.
const YEAR: u64 = 365 * 86_400;

impl KeySet {
    pub(super) fn key(self, number: u64, random: &mut Random) -> Vec<u8> {
        let uuid = |random: &mut Random| {
            let drawn: u128 = random.random();
            drawn & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62
        };
        match self {
            Self::Hex => format!("{:032x}", random.random::<u128>()).into_bytes(),
            Self::Random => random.random::<[u8; 8]>().to_vec(),
            Self::Sequence => number.to_be_bytes().to_vec(),
            Self::Uuid => uuid(random).to_be_bytes().to_vec(),
            Self::UuidText => {
                let digits = format!("{:032x}", uuid(random));
                let mut text = digits.into_bytes();
                for at in [20, 16, 12, 8] {
                    text.insert(at, b'-');
                }
                text
            }
            Self::UserTime => {
                let time = 1_700_000_000 + random.random_range(0..YEAR);
                [(number / 100).to_be_bytes(), time.to_be_bytes()].concat()
            }
        }
    }
}

/// Measures every key set with every engine.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let mut report = Report::titled("Bytes of index for each data block");
    for &kind in &settings.keys {
        let mut random = random(settings.seed, 1);
        let keys = (0..settings.entries).map(|number| kind.key(number, &mut random));
        measure(settings, &named(&kind), keys.collect(), &mut report)?;
        note(named(&kind));
    }
    for path in &settings.lines {
        let text = std::fs::read(path)
            .map_err(|error| Error::InvalidSetting(format!("{}: {error}", path.display())))?;
        let lines = text.split(|&byte| byte == b'\n');
        let keys = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec);
        let name = path.display().to_string();
        measure(settings, &name, keys.collect(), &mut report)?;
        note(name);
    }
    Ok(report)
}

/// Bytes with which both begin.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Bytes that the separators between so many blocks take at the least, about.
fn packed_separators(sorted: &[Vec<u8>], blocks: usize) -> Result<u64> {
    let mut coded = Vec::new();
    let mut before: &[u8] = &[];
    for block in 1..blocks {
        let at = sorted.len() * block / blocks;
        let (Some(last), Some(first)) = (sorted.get(at.wrapping_sub(1)), sorted.get(at)) else {
            continue;
        };
        let separator = &first[..first.len().min(common(last, first) + 1)];
        let shared = common(before, separator);
        coded.push(shared.min(255) as u8);
        coded.extend_from_slice(&separator[shared..]);
        coded.push(0);
        before = separator;
    }
    let highest = *zstd::compression_level_range().end();
    Ok(zstd::encode_all(&coded[..], highest)?.len() as u64)
}

/// A row for each engine.
fn measure(
    settings: &Settings,
    name: &str,
    mut keys: Vec<Vec<u8>>,
    report: &mut Report,
) -> Result<()> {
    keys.sort_unstable();
    keys.dedup();
    let sorted = keys.clone();
    keys.shuffle(&mut random(settings.seed, 2));
    for engine in &settings.engines {
        let dir = tempfile::TempDir::with_prefix_in("indexes-", &settings.dir)?;
        let config = EngineConfig {
            background: if engine.starts_with("shamba") { 0 } else { 2 },
            ..EngineConfig::standard(dir.path().to_owned(), 64 << 20)
        };
        let opened = engine::open(engine, &config)?;
        let mut values = random(settings.seed, 3);
        for chunk in keys.chunks(100) {
            let mut all = vec![vec![0; settings.value_size]; chunk.len()];
            all.iter_mut().for_each(|value| values.fill(&mut value[..]));
            let puts = chunk.iter().zip(&all);
            let puts: Vec<Write<'_>> = puts.map(|(key, value)| Write::Put(key, value)).collect();
            opened.write_batch(&puts)?;
        }
        opened.flush()?;
        opened.wait_idle()?;
        let untold = || Error::InvalidSetting(format!("{engine} does not tell its indexes"));
        let found: Indexes = opened.indexes()?.ok_or_else(untold)?;
        let each = |bytes: u64| bytes as f64 / found.blocks.max(1) as f64;
        report.add(row! {
            "keys": name,
            "entries": keys.len(),
            "engine": engine.clone(),
            "data blocks": found.blocks,
            "stored": each(found.bytes),
            "separators, packed": each(packed_separators(&sorted, found.blocks as usize)?),
            "resident": found.resident.map(each),
            "open tables, beside": found.tables.map(each),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::settings;

    #[test]
    fn keys_are_of_their_kinds_and_their_indexes_small() {
        let mut random = random(1, 1);
        let text = KeySet::UuidText.key(0, &mut random);
        assert_eq!((text.len(), text[14], text[8]), (36, b'4', b'-'));
        assert!(b"89ab".contains(&text[19]));
        let settings: Settings = settings("--keys hex,user-time --entries 20000");
        let report = run(&settings, &mut |_| {}).unwrap();
        for row in &report.rows {
            let stored = report.number(row, "stored").unwrap();
            assert!(stored < 2.5, "{report}");
            assert!(report.number(row, "resident").unwrap() > stored);
            let packed = report.number(row, "separators, packed").unwrap();
            assert!((0.2 * stored..3.0 * stored).contains(&packed), "{report}");
        }
        assert_eq!(report.rows.len(), 2);
    }
}
