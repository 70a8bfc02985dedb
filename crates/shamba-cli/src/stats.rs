//! `shamba stats`: what is on storage and in memory, and what was read and written.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use shamba::{
    Counters, Keyspace, KeyspaceStatistics, LevelStatistics, MarginalValue, MergePolicy, Statistics,
};

use crate::args::Global;
use crate::failure::Failure;
use crate::format::{Keys, Problem};
use crate::import::open_input;
use crate::open::{Access, EngineArgs, open};
use crate::show::{self, Progress};

const HELP: &str = "\
Sizes are of the files. What is in memory and what lookups did is of this run, so a database that
was just opened has little to show but with --keys. Bits in memory are of the filter blocks and
columns that are cached now, over the entries of the level. B/block are the bytes of indexes for
each data block.

For each level and each filter module, of the lookups that came to a table there:
  probed   it was in memory, wholly or in part, and asked (one lookup in eight counts, as eight)
  fetched  it was read from storage and asked (exact)
  skipped  it was neither in memory nor worth a read: index and data were searched without it
           (one lookup in eight counts, as eight)
Operands in tables are what merge operators were given that no merge has made a value of yet.
False positives are searches of index and data for keys that were not there (exact), beside what
the model of the filters predicts for the same lookups. Storage reads by kind are exact.

What a page more is worth is in page reads saved per million lookups, by what it would hold: as
much as what lately was evicted or found no room, on average. What is worth most of what is not
in memory may not be worth the read that would bring it in.

Examples:
  shamba stats db
  shamba scan db --keys-only | shuf -n 100000 > keys
  shamba stats db --keys keys --memory 32MiB
  shamba stats db --json | jq .memory";

/// Show levels, runs, files, sizes, filter bits, memory by role, reads by kind, what more memory is
/// worth
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct StatsArgs {
    /// The database folder
    dir: PathBuf,
    /// Look these keys up first, one a line as `scan --keys-only` writes them, there or not; - for
    /// standard input
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: &StatsArgs) -> Result<(), Failure> {
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    if let Some(path) = &args.keys {
        look_up(&opened.keyspace, path, global.quiet)?;
    }
    let mut stats = opened.db.stats();
    if let Some(name) = &global.keyspace {
        stats.keyspaces.retain(|keyspace| keyspace.name == *name);
    }
    if args.json {
        show::print_json(&stats)?
    } else {
        show::print(text(&stats))?
    }
    opened.close()
}

/// Looks up every key of a file.
pub fn look_up(keyspace: &Keyspace, path: &Path, quiet: bool) -> Result<(), Failure> {
    let (input, name, _) = open_input(path)?;
    let mut keys = Keys::new(BufReader::new(input));
    let progress = Progress::endless(quiet, "keys looked up:");
    let (mut line, mut key, mut done) = (Vec::new(), Vec::new(), 0);
    let failure = |problem| match problem {
        Problem::Io(source) => Failure::io("read", &name, source),
        Problem::Columns(what) => Failure::data(what, "a line is a key"),
        Problem::Malformed { line, what } => Failure::data(
            format!("{name}:{line}: {what}"),
            "a line is a key, as `shamba scan DIR --keys-only` writes it",
        ),
    };
    while keys.next(&mut line, &mut key).map_err(failure)? {
        keyspace.get(&key)?;
        done += 1;
        if done % 1000 == 0 {
            progress.set(done);
        }
    }
    Ok(())
}

fn text(stats: &Statistics) -> String {
    let mut parts: Vec<String> = stats.keyspaces.iter().map(levels).collect();
    parts.push(show::memory(&stats.memory));
    parts.push(worth(stats.marginal_value.as_ref()));
    parts.push(format!(
        "tables open: {}, snapshots and iterators held: {}",
        stats.open_tables, stats.snapshots
    ));
    parts.push(reads(&stats.counters));
    for (what, reason) in [
        ("writes", &stats.writes_stopped),
        ("flushes", &stats.flushes_stopped),
        ("compactions", &stats.compactions_stopped),
        ("new manifests", &stats.manifest_stopped),
    ] {
        if let Some(reason) = reason {
            parts.push(format!("{what} are stopped: {reason}"));
        }
    }
    parts.join("\n\n")
}

/// The levels of a keyspace, and what lookups did there.
pub fn levels(keyspace: &KeyspaceStatistics) -> String {
    let header = [
        "level",
        "runs",
        "files",
        "size",
        "entries",
        "tombstones",
        "ranges deleted",
        "filters",
        "indexes",
        "B/block",
        "bits/key",
        "in memory",
    ];
    let rows: Vec<Vec<String>> = keyspace
        .levels
        .iter()
        .filter(|level| level.files > 0)
        .map(|level| {
            vec![
                level.level.to_string(),
                show::number(level.runs as u64),
                show::number(level.files as u64),
                show::bytes(level.bytes),
                show::number(level.entries),
                show::number(level.tombstones),
                show::number(level.range_tombstones),
                show::bytes(level.filter_bytes),
                show::bytes(level.index_bytes),
                format!("{:.1}", level.index_bytes_per_page),
                format!("{:.1}", level.bits_per_key),
                format!("{:.1}", level.resident_bits_per_key),
            ]
        })
        .collect();
    let waiting = match keyspace.frozen_memtables {
        0 => String::new(),
        frozen => format!(", {frozen} memtables waiting to be flushed"),
    };
    let sum = |of: fn(&LevelStatistics) -> u64| keyspace.levels.iter().map(of).sum::<u64>();
    let in_tables = sum(|level| level.entries);
    let mut text = format!(
        "keyspace `{}`: {} entries: {} in tables ({}), {} in the log and in memory ({}){waiting}",
        keyspace.name,
        show::number(in_tables + keyspace.memtable_entries),
        show::number(in_tables),
        show::bytes(sum(|level| level.bytes)),
        show::number(keyspace.memtable_entries),
        show::bytes(keyspace.memtable_bytes)
    );
    if !rows.is_empty() {
        text += &format!("\n{}", show::table(&header, &rows))
    }
    let operands = sum(|level| level.operands);
    if operands > 0 {
        text += &format!("\noperands in tables: {}", show::number(operands));
    }
    let expiring = sum(|level| level.expiring_files as u64);
    if expiring > 0 {
        text += &format!(
            "\nfiles with entries that expire: {}, in {} of them some have",
            show::number(expiring),
            show::number(sum(|level| level.expired_files as u64))
        );
    }
    let values = &keyspace.values;
    if values.files > 0 {
        text += &format!(
            "\nvalues: {} files, {} ({} of values, {} of them garbage)",
            show::number(values.files as u64),
            show::bytes(values.bytes),
            show::bytes(values.value_bytes),
            show::bytes(values.garbage_bytes)
        );
    }
    text += &format!("\n{}", use_and_design(keyspace));
    for part in [lookups(keyspace), modules(keyspace)].into_iter().flatten() {
        text += &format!("\n\n{part}");
    }
    text
}

/// The design, and what is known of data and operations.
fn use_and_design(keyspace: &KeyspaceStatistics) -> String {
    let (design, work) = (&keyspace.design, &keyspace.workload);
    let policy = match design.merge_policy {
        MergePolicy::Leveling { .. } => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
        _ => "another merge policy",
    };
    let mut text = format!(
        "design: {policy}, size ratio {}, write buffer {}{}; {} entries of {:.0} bytes",
        design.size_ratio,
        show::bytes(design.write_buffer),
        if keyspace.moving {
            " (moving to it)"
        } else {
            ""
        },
        show::number(work.entries as u64),
        work.entry_bytes,
    );
    if work.operations > 0.0 {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        text += &format!(
            "\nrecent operations: {} empty lookups, {} existing, {} ranges, {} updates",
            percent(work.empty_lookups),
            percent(work.existing_lookups),
            percent(work.range_lookups),
            percent(work.updates),
        );
        if let Some(hottest) = work.hottest_tenth {
            text += &format!(
                "; the hottest tenth of key ranges gets {}",
                percent(hottest)
            );
        }
    }
    text
}

/// Levels that lookups came to since the database was opened.
fn asked(keyspace: &KeyspaceStatistics) -> impl Iterator<Item = &LevelStatistics> {
    let came = |level: &&LevelStatistics| {
        let lookups = &level.lookups;
        lookups.found + lookups.absent + lookups.data.reads > 0
    };
    keyspace.levels.iter().filter(came)
}

/// A share of 1 in percent.
fn percent(share: Option<f64>) -> String {
    match share {
        None => "-".to_owned(),
        Some(share) => format!("{:.3} %", share * 100.0),
    }
}

/// What lookups did in each level.
fn lookups(keyspace: &KeyspaceStatistics) -> Option<String> {
    let header = [
        "lookups of level",
        "key there",
        "not there",
        "false positives",
        "rate",
        "predicted",
        "data reads",
        "index reads",
        "filter reads",
        "data in memory",
        "index",
        "filter",
    ];
    let row = |level: &LevelStatistics| {
        let lookups = &level.lookups;
        vec![
            level.level.to_string(),
            show::number(lookups.found),
            show::number(lookups.absent),
            show::number(lookups.false_positives),
            percent(lookups.false_positive_rate()),
            percent(lookups.predicted_false_positive_rate()),
            show::number(lookups.data.reads),
            show::number(lookups.index.reads),
            show::number(lookups.filter.reads),
            show::bytes(level.resident.data),
            show::bytes(level.resident.index),
            show::bytes(level.resident.filter),
        ]
    };
    let rows: Vec<_> = asked(keyspace).map(row).collect();
    (!rows.is_empty()).then(|| show::table(&header, &rows))
}

/// What lookups did with each filter module.
fn modules(keyspace: &KeyspaceStatistics) -> Option<String> {
    let header = [
        "filter module",
        "in memory",
        "bits/key in memory",
        "probed",
        "fetched",
        "skipped",
    ];
    let of_level = |level: &LevelStatistics| {
        let (lookups, resident) = (&level.lookups.modules, &level.resident.modules);
        let row = |number: usize| {
            let module = lookups.get(number).copied().unwrap_or_default();
            let bytes = resident.get(number).copied().unwrap_or_default();
            let bits = bytes as f64 * 8.0 / level.entries.max(1) as f64;
            vec![
                format!("level {}, module {number}", level.level),
                show::bytes(bytes),
                format!("{bits:.1}"),
                show::number(module.probed),
                show::number(module.fetched),
                show::number(module.skipped),
            ]
        };
        let count = lookups.len().max(resident.len());
        (0..count).map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = asked(keyspace).flat_map(of_level).collect();
    (!rows.is_empty()).then(|| show::table(&header, &rows))
}

/// What one more page of memory is worth.
fn worth(value: Option<&MarginalValue>) -> String {
    let header = [
        "one more page (4 KiB) of",
        "reads saved per million lookups",
        "the best not in memory",
    ];
    let saved = |of: f64| match value {
        Some(value) if value.accesses_per_lookup > 0.0 => {
            show::measured(of * value.accesses_per_lookup * 1e6)
        }
        _ => "-".to_owned(),
    };
    let known = value.copied().unwrap_or_default();
    let rows = [
        ("the cache, at its margin", known.cache, None),
        ("data blocks", known.data, None),
        ("index blocks", known.index, Some(known.best_absent_index)),
        ("filters", known.filter, Some(known.best_absent_filter)),
    ];
    let rows = rows.map(|(name, page, best)| {
        let best = best.map_or_else(|| "-".to_owned(), saved);
        vec![name.to_owned(), saved(page), best]
    });
    let why = match value {
        None => {
            "blocks leave by age (two-priority LRU): nobody knows what they are worth".to_owned()
        }
        Some(value) if value.accesses_per_lookup == 0.0 => {
            "no lookups since the database was opened; --keys FILE makes some".to_owned()
        }
        Some(value) if !value.short => "memory is plenty: all that is asked for fits in".to_owned(),
        Some(value) => {
            let kinds = [
                ("data blocks", value.data),
                ("index blocks", value.index),
                ("filters", value.filter),
            ];
            let most = kinds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
            let name = most.map_or("data blocks", |(name, _)| name);
            format!("memory is short: more of {name} is worth most")
        }
    };
    format!("{}\n{why}", show::table(&header, &rows))
}

fn reads(counters: &Counters) -> String {
    let each = |reads: u64| match counters.lookups {
        0 => "-".to_owned(),
        lookups => show::measured(reads as f64 / lookups as f64),
    };
    let row = |name: &str, reads: u64, pages: u64| {
        vec![
            name.to_owned(),
            show::number(reads),
            show::number(pages),
            each(reads),
        ]
    };
    let rows = [
        row("data", counters.data_reads, counters.data_pages),
        row("index", counters.index_reads, counters.index_pages),
        row("filter", counters.filter_reads, counters.filter_pages),
    ];
    let scans = match counters.scan_filter_probes {
        0 => String::new(),
        probes => format!(
            "\nby scans: {} filters of prefixes or ranges asked, {} tables left out, {} pages of these filters read",
            show::number(probes),
            show::number(counters.scan_filter_negatives),
            show::number(counters.scan_filter_pages),
        ),
    };
    format!(
        "{}\nsince the database was opened: {} lookups ({} found), {} of them from cached entries, {} blocks found in memory, {} tables ruled out by filters, {} false positives{scans}",
        show::table(&["storage reads", "reads", "pages", "reads/lookup"], &rows),
        show::number(counters.lookups),
        show::number(counters.lookups_found),
        show::number(counters.entry_hits),
        show::number(counters.cache_hits),
        show::number(counters.filter_negatives),
        show::number(counters.false_positives),
    )
}
