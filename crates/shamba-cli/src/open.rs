//! Opening databases, and the engine options commands share.

use std::path::Path;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use shamba::{
    Compression, Db, Durability, FilterAllocation, FilterFamily, Granularity, Keyspace,
    KeyspaceOptions, MemoryBudget, MergePolicy, Options, Prefix, Preset,
};

use crate::args::{Global, size};
use crate::failure::Failure;
use crate::merge::Operator;

/// Options of the engine. Those of the keyspace are kept with it, and hold for what is written from
/// now on; what is not named stays as it is, and is at first the default.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Engine options")]
pub struct EngineArgs {
    /// A system as settings of filters, which other options then change: state-of-the-art,
    /// partitioned, shamba-eq, shamba-eq-p, shamba-eq-f, shamba-prop, shamba-prop-p, shamba-prop-f,
    /// elastic or default [default: default]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<Preset>,
    /// How sorted runs are merged [default: leveling]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub merge_policy: Option<Merge>,
    /// Size ratio between levels, 2 to 1000 [default: 10]
    #[arg(long, value_name = "T")]
    pub size_ratio: Option<u32>,
    /// Size of the write buffer [default: 64MiB; less where the memory budget asks for it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_buffer: Option<u64>,
    /// Where compaction starts a new file [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub target_file: Option<u64>,
    /// Filter bits per key, 0 (no filter) to 64 [default: 10]
    #[arg(long, value_name = "BITS")]
    pub bits_per_key: Option<f64>,
    /// Filter family [default: auto, which has bits of its own]
    #[arg(long, value_enum, value_name = "FAMILY")]
    pub filter: Option<Filter>,
    /// How filter bits are divided over the tree: uniform, monkey (by the sizes of runs, for
    /// lookups of absent keys), monkey:V (for V existing keys to each absent one) or measured (by
    /// the lookups of the run) [default: uniform]
    #[arg(long, value_name = "HOW")]
    pub filter_allocation: Option<Division>,
    /// What prefixes of keys tables have a filter of, for scans within one prefix: fixed:N (of N
    /// bytes), delimiter:C (up to this character, with it) or none [default: none]
    #[arg(long, value_name = "KIND")]
    pub prefix_filter: Option<Prefixes>,
    /// Bits per key of a filter of ranges in tables, 4 to 32, for scans from one key to another; 0
    /// for none [default: 0]
    #[arg(long, value_name = "BITS", conflicts_with = "prefix_filter")]
    pub range_filter: Option<f64>,
    /// Whether filters and indexes are cut into pages by key range [default: true]
    #[arg(long, value_name = "BOOL")]
    pub partitioned: Option<bool>,
    /// Compression by level, the last for all deeper ones: none, lz4, zstd or zstd:LEVEL [default:
    /// none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub compression: Vec<LevelCompression>,
    /// The shortest values that lie in files of their own, which merges do not write again; 0 for
    /// none [default: none]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub value_files_from: Option<u64>,
    /// What a write survives once acknowledged: nothing, a crash of the process, or of the machine
    /// [default: buffered]
    #[arg(long, value_enum, value_name = "DURABILITY")]
    pub durability: Option<Durable>,
    /// Threads for flushes and compactions, 0 to 64 [default: 2]
    #[arg(long, value_name = "N")]
    pub background_threads: Option<usize>,
    /// Whether a lookup hashes its key once, or for each table [default: true]
    #[arg(long, value_name = "BOOL")]
    pub hash_sharing: Option<bool>,
    /// The merge operator of the keyspace
    #[arg(skip)]
    pub merge_operator: Option<Operator>,
}

/// How runs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Merge {
    /// One run a level, merged a file at a time
    Leveling,
    /// One run a level, merged as a whole
    WholeLevel,
    /// Several runs a level
    Tiering,
    /// Several runs a level, one in the last
    LazyLeveling,
}

/// Filter families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Filter {
    /// Standard Bloom
    Bloom,
    /// Bloom blocked by cache line
    BlockedBloom,
    /// Ribbon columns
    Ribbon,
    /// By level: Bloom in flushed files, ribbon columns below
    Auto,
}

/// How filter bits are divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Division(pub FilterAllocation);

impl FromStr for Division {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ratio = text.strip_prefix("monkey:").map(str::parse);
        Ok(Division(match (text, ratio) {
            ("uniform", _) => FilterAllocation::Uniform,
            ("monkey", _) => FilterAllocation::Monkey,
            ("measured", _) => FilterAllocation::Measured,
            (_, Some(Ok(existing_per_empty))) => {
                FilterAllocation::MonkeyGeneral { existing_per_empty }
            }
            _ => return Err("write uniform, monkey, monkey:V or measured".to_owned()),
        }))
    }
}

/// Prefixes of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefixes(pub Option<Prefix>);

impl FromStr for Prefixes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || "write fixed:N, delimiter:C or none".to_owned();
        if text == "none" {
            return Ok(Prefixes(None));
        }
        let (kind, of) = text.split_once(':').ok_or_else(refused)?;
        let prefix = match (kind, of.as_bytes()) {
            ("fixed", _) => Prefix::Fixed(of.parse().map_err(|_| refused())?),
            ("delimiter", &[byte]) => Prefix::Delimiter(byte),
            _ => return Err(refused()),
        };
        Ok(Prefixes(Some(prefix)))
    }
}

/// Durability of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durable {
    /// Not logged
    None,
    /// Handed to the operating system
    Buffered,
    /// On storage
    Synced,
}

/// Compression of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelCompression(pub Compression);

impl FromStr for LevelCompression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let compression = match text {
            "none" => Compression::None,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd(3),
            _ => match text
                .strip_prefix("zstd:")
                .and_then(|level| level.parse().ok())
            {
                Some(level) => Compression::Zstd(level),
                None => return Err("write none, lz4, zstd or zstd:LEVEL".to_owned()),
            },
        };
        Ok(LevelCompression(compression))
    }
}

/// Sets an option that was asked for.
fn set<T>(option: &mut T, asked: Option<T>) {
    if let Some(value) = asked {
        *option = value;
    }
}

impl EngineArgs {
    /// The keyspace options, `base` where nothing was asked for.
    pub fn keyspace(&self, base: KeyspaceOptions) -> KeyspaceOptions {
        let mut options = match self.preset {
            Some(preset) => base.preset(preset),
            None => base,
        };
        if let Some(policy) = self.merge_policy {
            options.merge_policy = match policy {
                Merge::Leveling => MergePolicy::Leveling {
                    granularity: Granularity::File,
                },
                Merge::WholeLevel => MergePolicy::Leveling {
                    granularity: Granularity::Level,
                },
                Merge::Tiering => MergePolicy::Tiering,
                Merge::LazyLeveling => MergePolicy::LazyLeveling,
            };
        }
        set(&mut options.size_ratio, self.size_ratio);
        set(&mut options.write_buffer, self.write_buffer);
        set(&mut options.target_file, self.target_file);
        if !self.compression.is_empty() {
            options.compression = self.compression.iter().map(|level| level.0).collect();
        }
        if let Some(from) = self.value_files_from {
            options.value_files_from = (from > 0).then_some(from);
        }
        let filter = &mut options.filter;
        if let Some(family) = self.filter {
            filter.family = match family {
                Filter::Bloom => FilterFamily::Bloom,
                Filter::BlockedBloom => FilterFamily::BlockedBloom,
                Filter::Ribbon => FilterFamily::Ribbon,
                Filter::Auto => FilterFamily::Auto,
            };
        }
        set(&mut filter.bits_per_key, self.bits_per_key);
        let allocation = self.filter_allocation.map(|division| division.0);
        set(&mut filter.allocation, allocation);
        set(&mut filter.partitioned, self.partitioned);
        let prefix = self.prefix_filter.clone().map(|prefixes| prefixes.0);
        set(&mut options.prefix, prefix);
        if let Some(bits) = self.range_filter {
            options.range_filter = (bits != 0.0).then_some(bits);
        }
        options
    }

    /// Gives a keyspace that exists what was asked for.
    pub fn alter(&self, db: &Db, keyspace: &Keyspace) -> shamba::Result<()> {
        let present = keyspace.options();
        let wanted = self.keyspace(present.clone());
        if wanted == present {
            return Ok(());
        }
        db.alter_keyspace(keyspace.name(), wanted)
    }

    /// The database options over `memory`, which name no keyspace.
    pub fn options(&self, memory: MemoryBudget) -> Options {
        let mut options = Options::new().memory(memory);
        if let Some(durability) = self.durability {
            options = options.durability(match durability {
                Durable::None => Durability::None,
                Durable::Buffered => Durability::Buffered,
                Durable::Synced => Durability::Synced,
            });
        }
        if let Some(threads) = self.background_threads {
            options = options.background_threads(threads);
        }
        let sharing = self.preset.map(Preset::hash_sharing);
        if let Some(yes) = self.hash_sharing.or(sharing) {
            options = options.hash_sharing(yes);
        }
        options
    }
}

/// What a command does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only looks: nothing is written or locked, so that it can be done beside a process that
    /// writes, and where nothing can be written.
    Read,
    /// Changes what is there.
    Write,
    /// Creates database and keyspace where missing.
    Create,
}

/// An open database and the keyspace the command works on.
pub struct Opened {
    pub db: Db,
    pub keyspace: Keyspace,
}

/// Opens the database in `dir`.
pub fn open(
    global: &Global,
    dir: &Path,
    access: Access,
    engine: &EngineArgs,
) -> Result<Opened, Failure> {
    // Before anything is made.
    engine.keyspace(KeyspaceOptions::default()).validate()?;
    let mut options = engine
        .options(global.budget())
        .create_if_missing(access == Access::Create);
    if access == Access::Read {
        options = options.read_only(true);
    }
    if let Some(operator) = engine.merge_operator {
        let keyspace = global.keyspace.as_deref().unwrap_or("default");
        options = operator.give(options, keyspace);
    }
    let db = options.open(dir)?;
    let keyspace = match &global.keyspace {
        None => db.default_keyspace(),
        Some(name) if access == Access::Create => {
            db.open_keyspace(name, engine.keyspace(KeyspaceOptions::default()))?
        }
        Some(name) => db.keyspace(name)?,
    };
    engine.alter(&db, &keyspace)?;
    Ok(Opened { db, keyspace })
}

impl Opened {
    /// Closes the database, so that what goes wrong then is told.
    pub fn close(self) -> Result<(), Failure> {
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_stays() {
        let base = KeyspaceOptions::new().size_ratio(4).write_buffer(1 << 20);
        let none = EngineArgs::default().keyspace(base.clone());
        assert_eq!(none, base);
        let asked = EngineArgs {
            size_ratio: Some(7),
            bits_per_key: Some(5.0),
            ..EngineArgs::default()
        }
        .keyspace(base);
        assert_eq!((asked.size_ratio, asked.write_buffer), (7, 1 << 20));
        assert_eq!(asked.filter.bits_per_key, 5.0);
    }

    #[test]
    fn a_preset_holds_where_nothing_else_was_asked_for() {
        let made = EngineArgs {
            preset: Some(Preset::ShambaEqP),
            partitioned: Some(true),
            ..EngineArgs::default()
        }
        .keyspace(KeyspaceOptions::default());
        assert_eq!(made.filter_policy, Preset::ShambaEqP.filter_policy());
        assert!(made.filter.partitioned && made.filter.modules == 2);
        // The help lists them all.
        let help = {
            use clap::Args;
            let command = EngineArgs::augment_args(clap::Command::new("x"));
            let preset = command.get_arguments().find(|a| a.get_id() == "preset");
            preset.and_then(|a| a.get_help()).map(ToString::to_string)
        };
        for preset in Preset::ALL {
            assert!(help.as_ref().unwrap().contains(preset.name()), "{preset}");
        }
    }

    #[test]
    fn divisions() {
        let parse = |text: &str| text.parse::<Division>().map(|division| division.0);
        assert_eq!(parse("monkey"), Ok(FilterAllocation::Monkey));
        let existing_per_empty = 0.5;
        let general = FilterAllocation::MonkeyGeneral { existing_per_empty };
        assert_eq!(parse("monkey:0.5"), Ok(general));
        assert!(parse("monkey:").is_err() && parse("even").is_err());
        let asked = EngineArgs {
            filter_allocation: Some(Division(general)),
            ..EngineArgs::default()
        };
        let made = asked.keyspace(KeyspaceOptions::default());
        assert_eq!(made.filter.allocation, general);
    }

    #[test]
    fn compressions() {
        let parse = |text: &str| text.parse::<LevelCompression>().map(|level| level.0);
        assert_eq!(parse("lz4"), Ok(Compression::Lz4));
        assert_eq!(parse("zstd:9"), Ok(Compression::Zstd(9)));
        assert!(parse("zstd:").is_err() && parse("gzip").is_err());
    }
}
