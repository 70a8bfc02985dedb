//! Entry points for fuzzers: each takes any bytes, and panics when the engine is wrong.
//!
//! Compiled for `cargo fuzz` (`fuzz/` in the repository, which says how to run them), with the
//! feature `testing`, and for tests, which run every input that is kept there. A decoder's entry
//! point stands in its module; where bytes are checked before they are decoded it puts the right
//! checksums in, so that a fuzzer comes past them. What decodes is walked as the engine would, and
//! must come back the same when it is encoded. Pure, except that `operations` and `table` use a
//! file system in memory.

mod input;
mod listing;
mod operations;

pub(crate) use input::{Input, chunked};

use crate::{db, filter, table, version, wal};

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs it on some bytes.
    pub run: fn(&[u8]),
    /// Inputs to start from, made by the engine's own encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("batch", db::fuzzing::batch, db::fuzzing::batch_seeds),
    target(
        "block_frame",
        table::fuzzing::block_frame,
        table::fuzzing::block_frame_seeds,
    ),
    target(
        "data_block",
        table::fuzzing::data_block,
        table::fuzzing::data_block_seeds,
    ),
    target(
        "filter_block",
        filter::fuzzing::filter_block,
        filter::fuzzing::filter_block_seeds,
    ),
    target("hints", db::fuzzing::hints, db::fuzzing::hints_seeds),
    target(
        "index_block",
        table::fuzzing::index_block,
        table::fuzzing::index_block_seeds,
    ),
    target("log", wal::fuzzing::log, wal::fuzzing::log_seeds),
    target(
        "manifest",
        version::fuzzing::manifest,
        version::fuzzing::manifest_seeds,
    ),
    target("operations", operations::run, operations::seeds),
    target(
        "table",
        table::fuzzing::whole::table,
        table::fuzzing::whole::table_seeds,
    ),
    target(
        "table_meta",
        table::fuzzing::table_meta,
        table::fuzzing::table_meta_seeds,
    ),
    target(
        "version_edit",
        version::fuzzing::version_edit,
        version::fuzzing::version_edit_seeds,
    ),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

/// Runs a target.
///
/// # Panics
/// When there is none of this name, or the engine is wrong.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").run)(data);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        root.join(name)
    }

    fn names_in(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    /// What a fuzzer found once is run for good.
    #[test]
    fn every_input_of_the_corpora_is_run() {
        for target in TARGETS {
            let folder = folder("corpus").join(target.name);
            let names = names_in(&folder);
            assert!(names.len() >= 8, "{}: {} inputs", target.name, names.len());
            for name in names {
                let input = fs::read(folder.join(&name)).unwrap();
                let ran = std::panic::catch_unwind(|| (target.run)(&input));
                assert!(ran.is_ok(), "{}: {name} panics", target.name);
            }
        }
    }

    #[test]
    fn seeds_are_run() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{}", target.name);
            seeds.iter().for_each(|seed| (target.run)(seed));
        }
    }

    #[test]
    fn each_target_has_a_file_and_a_corpus_and_each_of_these_a_target() {
        let targets: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
        assert_eq!(names_in(&folder("corpus")), targets);
        let files = names_in(&folder("fuzz_targets"));
        let files = files
            .iter()
            .map(|name| name.trim_end_matches(".rs").to_owned());
        assert_eq!(files.collect::<BTreeSet<_>>(), targets);
        let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
        for name in &targets {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        }
    }

    /// Writes the seeds into the corpora, after an encoder or a target's format changed.
    #[test]
    #[ignore = "changes files in the repository"]
    fn write_seeds() {
        for target in TARGETS {
            let folder = folder("corpus").join(target.name);
            fs::create_dir_all(&folder).unwrap();
            for (number, seed) in (target.seeds)().iter().enumerate() {
                fs::write(folder.join(format!("seed-{number:02}")), seed).unwrap();
            }
        }
    }
}
