//! What the tree consists of, file by file and partition by partition: for tools that measure, such
//! as a comparison with the offline optimum. Callers of a database need none of it.

use super::Db;
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::table::FilterPartition;
use crate::value::Hotness;

/// A file of the tree and what lookups did with it of late.
#[derive(Debug, Clone, PartialEq)]
pub struct FileLookups {
    /// Its level; 0 holds flushed memtables.
    pub level: usize,
    /// Its sorted run; 0 is the one a lookup visits first.
    pub run: usize,
    /// Its entries, tombstones included.
    pub entries: u64,
    /// The share of the keyspace's lookups that ask it, 0 to 1 (SHaMBa's and ElasticBF's access
    /// frequency): what its partitions count, which fades, and which it inherits.
    pub access: f64,
    /// The share of those that find their key in it, 0 to 1.
    pub positive: f64,
}

/// Roles whose memory is no copy of what is on storage, and is taken whatever is cached and
/// whatever the budget: a memtable's arena grows with the budget even while it is empty.
const FIXED: [Role; 3] = [Role::Iterators, Role::Wal, Role::IoBuffers];

/// The files of the default keyspace: newer runs first, those of a run by their keys.
#[must_use]
pub fn file_lookups(db: &Db) -> Vec<FileLookups> {
    let keyspace = db.inner().default_keyspace();
    let version = keyspace.version();
    let lookups = keyspace.limits().recent_lookups(&version);
    let mut files = Vec::new();
    for (run, (level, of_run)) in version.runs().enumerate() {
        files.extend(of_run.files().iter().map(|file| {
            let hotness = Hotness::of(file.visits().unwrap_or_default(), lookups);
            FileLookups {
                level,
                run,
                entries: file.entries(),
                access: hotness.access,
                positive: hotness.positive,
            }
        }));
    }
    files
}

/// Shows every filter partition of the default keyspace's tables to `visit`, newer runs first,
/// and gives the bytes of the budget that are taken whatever is cached: the handles and
/// top-level indexes of all tables, and buffers. Not the memtables, whose size depends on the
/// budget, nor what the cache keeps in order to decide. Nothing may be written meanwhile. Reads
/// everything: for measurements.
///
/// # Errors
/// Those of `visit`, which end it; [`Error::Io`], [`Error::Corruption`], [`Error::Closed`].
pub fn filter_partitions<E: From<Error>>(
    db: &Db,
    mut visit: impl FnMut(FilterPartition) -> Result<(), E>,
) -> Result<u64, E> {
    let inner = db.inner();
    inner.shared().check_open()?;
    let version = inner.default_keyspace().version();
    let budget = inner.shared().budget();
    let mut fixed = FIXED.iter().map(|role| budget.used_by(*role)).sum();
    for (run, (_, files)) in version.runs().enumerate() {
        for file in files.files() {
            let table = inner.files().tables().get(file)?;
            fixed += table.resident_bytes();
            for partition in 0..table.partitions() {
                visit(table.inspect(partition, run, file.number())?)?;
            }
        }
    }
    Ok(fixed)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use super::*;
    use crate::fs::MemFs;
    use crate::{
        FilterFamily, FilterOptions, FilterPolicy, KeyspaceOptions, MemoryBudget, Options,
    };

    /// Partitions hold every key once per run, their parts are charged what the cache charges when
    /// everything is resident, and the false-positive rates are those that lookups see.
    #[test]
    fn partitions_are_what_lookups_bring_into_memory() {
        for family in [FilterFamily::Ribbon, FilterFamily::Bloom] {
            let memory = MemoryBudget::bytes(32 << 20);
            let db = Options::new()
                .fs(Arc::new(MemFs::new()))
                .create_if_missing(true)
                .background_threads(0)
                .memory(memory.clone())
                .keyspace(KeyspaceOptions {
                    filter: FilterOptions {
                        family,
                        ..FilterOptions::default()
                    },
                    filter_policy: FilterPolicy::All,
                    ..KeyspaceOptions::default()
                })
                .open("db")
                .unwrap();
            let key = |number: u32| format!("key{number:08}").into_bytes();
            for number in 0..20_000 {
                db.put(key(number), [7; 30]).unwrap();
            }
            db.flush().unwrap();
            for number in 0..100 {
                db.put(key(number * 100), [8; 30]).unwrap();
            }
            db.flush().unwrap();

            let mut runs: Vec<BTreeSet<Vec<u8>>> = Vec::new();
            let mut charged = 0;
            let mut partitions = 0;
            let fixed = filter_partitions(&db, |partition| {
                runs.resize(runs.len().max(partition.run + 1), BTreeSet::new());
                partitions += 1;
                charged += partition.index_bytes;
                assert_eq!(partition.index_pages, 1);
                for module in &partition.modules {
                    assert!(module.columns > 0 && module.pages > 0);
                    assert!(module.false_positive <= 0.5);
                    charged += module.column_bytes * u64::from(module.columns);
                    charged += module.block_bytes;
                }
                for page in &partition.data {
                    charged += page.bytes;
                    for key in &page.keys {
                        assert!(runs[partition.run].insert(key.clone()), "twice");
                    }
                }
                Ok::<_, Error>(())
            })
            .unwrap();
            let sizes: Vec<usize> = runs.iter().map(BTreeSet::len).collect();
            assert_eq!(sizes, [100, 20_000], "newer runs first");
            assert!(partitions > 2);

            for number in 0..20_000 {
                assert!(db.get(key(number)).unwrap().is_some());
                let mut absent = key(number);
                absent.push(b'x');
                assert!(db.get(absent).unwrap().is_none());
            }
            let used = memory.usage().budget;
            let of = |role| {
                let found = used.by_role.iter().find(|(other, _)| *other == role);
                found.unwrap().1
            };
            let cached =
                of(Role::Data) + of(Role::Index) + of(Role::FilterFirst) + of(Role::FilterRest);
            // Slots are in steps, and those of a block's columns are alike.
            let rounded = charged..charged + charged / 100;
            assert!(
                rounded.contains(&cached),
                "{family:?}: {cached} of {charged}"
            );
            let rest = used.used - cached;
            assert!(fixed <= rest && fixed > 0, "{family:?}: {fixed} of {rest}");

            let stop = filter_partitions(&db, |_| Err(Error::Closed));
            assert!(matches!(stop, Err(Error::Closed)));
        }
    }

    /// A table's modules fill the pages of the partitions that it has: of 10,000 keys one, with
    /// four modules, and not two with three each, of which the second's would be nearly empty.
    #[test]
    fn tables_of_few_partitions_have_modules_that_fill_pages() {
        for (target_file, partitions, columns) in [
            (534 << 10, 1, [3; 4].as_slice()),
            (256 << 10, 1, &[6; 2]),
            (2 << 20, 5, &[4; 3]),
        ] {
            let db = Options::new()
                .fs(Arc::new(MemFs::new()))
                .background_threads(0)
                .memory(MemoryBudget::bytes(32 << 20))
                .keyspace(KeyspaceOptions::new().target_file(target_file))
                .open("db")
                .unwrap();
            // Two tables that a merge has to go through.
            for number in (0..64_000).step_by(2).chain((1..64_000).step_by(2)) {
                db.put(format!("{number:016}"), [7; 44]).unwrap();
                if number == 63_998 {
                    db.flush().unwrap();
                }
            }
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
            let mut tables: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
            filter_partitions(&db, |partition| {
                let modules = partition.modules.iter().map(|module| module.columns);
                let table = tables.entry(partition.file).or_default();
                table.push(modules.collect());
                assert!(partition.modules.iter().all(|module| module.pages == 1));
                Ok::<_, Error>(())
            })
            .unwrap();
            // The last one has what is left.
            tables.pop_last();
            assert!(!tables.is_empty());
            for table in tables.values() {
                assert_eq!(table.len(), partitions, "{target_file}");
                assert!(table.iter().all(|modules| modules == columns), "{table:?}");
            }
        }
    }
}
