//! Checking a database through: every table, the versions' invariants.

use super::DbInner;
use crate::error::{Error, Result};

/// What a verification went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Tables checked.
    pub tables: u64,
    /// Blocks whose checksum was checked.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes of tables.
    pub bytes: u64,
}

impl DbInner {
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<VerifySummary> {
        self.check_open()?;
        let versions: Vec<_> = self
            .all_keyspaces()
            .iter()
            .map(|keyspace| keyspace.state.load().version.clone())
            .collect();
        let total = versions.iter().map(|version| version.files().count()).sum();
        let mut summary = VerifySummary::default();
        let mut checked = 0;
        for version in versions {
            version
                .check()
                .map_err(|e| Error::corruption(&self.dir, 0, e.to_string()))?;
            for file in version.files() {
                let table = self.tables.get(file.number, &file.slot)?;
                let report = table.verify()?;
                if let Some(problem) = report.problems.into_iter().next() {
                    return Err(problem);
                }
                let properties = table.properties()?;
                let path = crate::compaction::job::table_path(&self.dir, file.number);
                if report.entries != file.entries
                    || *properties.smallest != *file.smallest
                    || *properties.largest != *file.largest
                {
                    return Err(Error::corruption(
                        path,
                        0,
                        "the table is not the one the manifest describes",
                    ));
                }
                summary.tables += 1;
                summary.blocks += report.blocks;
                summary.entries += report.entries;
                summary.bytes += file.size;
                checked += 1;
                progress(checked, total);
            }
        }
        Ok(summary)
    }
}
