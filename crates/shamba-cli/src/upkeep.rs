//! `shamba verify`, `compact` and `checkpoint`: the care of a database.

use std::path::PathBuf;

use clap::Args;
use shamba::{Db, VerifySummary};

use crate::args::Global;
use crate::failure::Failure;
use crate::open::{Access, EngineArgs, open};
use crate::show::{self, Progress};

/// Read every file through and check every checksum and invariant
#[derive(Debug, Args)]
#[command(
    after_help = "Changes nothing, and may run beside a process that has the database open. Goes on after damage to the end, shows the damaged files as a table, and exits with 4.\nWhere the manifest is damaged nobody knows what the tables are: then it says that.\n\nExample:\n  shamba verify db"
)]
pub struct VerifyArgs {
    /// The database folder
    dir: PathBuf,
    /// Print the summary, with the damaged files, as JSON
    #[arg(long)]
    json: bool,
}

/// Merge everything into one sorted run, dropping what nobody can see
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  shamba compact db --compression none,none,zstd")]
pub struct CompactArgs {
    /// The database folder
    dir: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Make a consistent copy in another folder, by hard links where possible
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  shamba checkpoint db backup/monday")]
pub struct CheckpointArgs {
    /// The database folder
    dir: PathBuf,
    /// The folder for the copy: new or empty
    dest: PathBuf,
}

pub fn verify(global: &Global, args: &VerifyArgs) -> Result<(), Failure> {
    let options = EngineArgs::default().options(global.budget());
    let options = options.read_only(true);
    let progress = Progress::count(global.quiet, "verifying tables", 0);
    let verified = options.verify(&args.dir, |done, total| {
        progress.set_total(total as u64);
        progress.set(done as u64);
    });
    drop(progress);
    let summary = verified.map_err(unverifiable)?;
    if args.json {
        show::print_json(&summary)?;
    } else if !summary.is_sound() {
        show::print(damage(&summary))?;
    }
    if !summary.is_sound() {
        return Err(Failure::Damage {
            what: format!(
                "{} is damaged: {} problems in {} files",
                args.dir.display(),
                show::number(summary.problems),
                show::number(summary.damaged_files),
            ),
            hint: "restore the database from a checkpoint or backup".to_owned(),
        });
    }
    if args.json {
        return Ok(());
    }
    show::print(format_args!(
        "no damage: {} tables, {} blocks, {} entries, {}; {} logs, {} operations ({} in no table yet), {}",
        show::number(summary.tables),
        show::number(summary.blocks),
        show::number(summary.entries),
        show::bytes(summary.bytes),
        show::number(summary.logs),
        show::number(summary.log_operations),
        show::number(summary.unflushed_operations),
        show::bytes(summary.log_bytes)
    ))
}

/// What keeps a database from being verified at all.
fn unverifiable(error: shamba::Error) -> Failure {
    match error {
        shamba::Error::Corruption { file, offset, what } => Failure::Damage {
            what: format!(
                "{} is corrupt at byte {offset}: {what}; no table was checked, since this file says which there are",
                file.display()
            ),
            hint: "restore the database from a checkpoint or backup".to_owned(),
        },
        other => Failure::Engine(other),
    }
}

/// The damaged files as a table: a row for each problem listed.
fn damage(summary: &VerifySummary) -> String {
    let mut rows = Vec::new();
    for file in &summary.damaged {
        for (number, problem) in file.first.iter().enumerate() {
            let mut row = match number {
                0 => vec![
                    file.file.clone(),
                    file.keyspace.clone().unwrap_or_default(),
                    show::number(file.problems),
                ],
                _ => vec![String::new(); 3],
            };
            row.push(problem.offset.map(show::number).unwrap_or_default());
            row.push(problem.what.clone());
            rows.push(row);
        }
    }
    let header = [
        "damaged file",
        "keyspace",
        "problems",
        "at byte",
        "what is wrong",
    ];
    let mut text = show::table(&header, &rows);
    let unlisted = summary.damaged_files - summary.damaged.len() as u64;
    if unlisted > 0 {
        text += &format!("\nand {} more files", show::number(unlisted));
    }
    text
}

pub fn compact(global: &Global, args: &CompactArgs) -> Result<(), Failure> {
    let opened = open(global, &args.dir, Access::Write, &args.engine)?;
    opened.db.flush()?;
    let (files, size) = tables(&opened.db);
    let progress = Progress::spinner(global.quiet, "compacting");
    opened.keyspace.compact_range(None, None)?;
    opened.db.wait_for_compaction()?;
    drop(progress);
    let (files_after, size_after) = tables(&opened.db);
    opened.close()?;
    show::note(
        global.quiet,
        format_args!(
            "compacted {} in {} files to {} in {} files",
            show::bytes(size),
            show::number(files),
            show::bytes(size_after),
            show::number(files_after)
        ),
    );
    Ok(())
}

pub fn checkpoint(global: &Global, args: &CheckpointArgs) -> Result<(), Failure> {
    let opened = match open(global, &args.dir, Access::Write, &EngineArgs::default()) {
        Err(Failure::Engine(shamba::Error::Locked { path, .. })) => {
            return Err(Failure::Busy {
                what: format!("{} is in use by another process", path.display()),
                hint: "only that process can make a checkpoint, by `Db::checkpoint`: have it do \
                       so, or stop it; `shamba export` copies what is there beside it"
                    .to_owned(),
            });
        }
        opened => opened?,
    };
    let progress = Progress::spinner(global.quiet, "copying");
    opened.db.checkpoint(&args.dest)?;
    drop(progress);
    opened.close()?;
    show::note(
        global.quiet,
        format_args!("{} is a copy that stands by itself", args.dest.display()),
    );
    Ok(())
}

/// Number and bytes of all tables.
fn tables(db: &Db) -> (u64, u64) {
    let stats = db.stats();
    let levels = || stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    (
        levels().map(|level| level.files as u64).sum(),
        levels().map(|level| level.bytes).sum(),
    )
}
