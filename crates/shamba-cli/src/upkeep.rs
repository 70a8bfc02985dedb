//! `shamba verify`, `compact` and `checkpoint`: the care of a database.

use std::path::PathBuf;

use clap::Args;
use shamba::Db;

use crate::args::Global;
use crate::failure::Failure;
use crate::open::{Access, EngineArgs, open};
use crate::show::{self, Progress};

/// Read every file through and check every checksum and invariant
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 4 when damage is found, and says where.\n\nExample:\n  shamba verify db"
)]
pub struct VerifyArgs {
    /// The database folder
    dir: PathBuf,
    /// Print the summary as JSON
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
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let progress = Progress::count(global.quiet, "verifying tables", tables(&opened.db).0);
    let summary = opened
        .db
        .verify_with_progress(|done, _| progress.set(done as u64))?;
    drop(progress);
    opened.close()?;
    if args.json {
        return show::print_json(&summary);
    }
    show::print(format_args!(
        "no damage: {} tables, {} blocks, {} entries, {}",
        show::number(summary.tables),
        show::number(summary.blocks),
        show::number(summary.entries),
        show::bytes(summary.bytes)
    ))
}

pub fn compact(global: &Global, args: &CompactArgs) -> Result<(), Failure> {
    let opened = open(global, &args.dir, Access::Write, &args.engine)?;
    opened.db.flush()?;
    let (files, size) = tables(&opened.db);
    let progress = Progress::spinner(global.quiet, "compacting");
    opened.db.compact_range_in(&opened.keyspace, None, None)?;
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
    let opened = open(global, &args.dir, Access::Write, &EngineArgs::default())?;
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
