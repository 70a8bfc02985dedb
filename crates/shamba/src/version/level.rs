//! A level: runs, newest first. Immutable.

use std::sync::Arc;

use super::{FileMeta, Inconsistent, Run, Sums};

/// The runs of a level, newest (largest id) first. Runs may overlap; of two entries of one key the
/// one in the newer run is the newer one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    runs: Vec<Arc<Run>>,
}

impl Level {
    /// A level of these runs, in any order; an error when two have one id.
    pub(crate) fn new(mut runs: Vec<Arc<Run>>) -> Result<Self, Inconsistent> {
        runs.sort_by_key(|run| std::cmp::Reverse(run.id()));
        for pair in runs.windows(2) {
            if let [a, b] = pair
                && a.id() == b.id()
            {
                return Err(Inconsistent::new(format!(
                    "two runs have the id {}",
                    a.id()
                )));
            }
        }
        Ok(Level { runs })
    }

    /// The runs, newest first.
    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// The files of all runs, newest run first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileMeta> {
        self.runs.iter().flat_map(|run| run.files())
    }

    /// Whether there are no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The sums over the files.
    pub(crate) fn sums(&self) -> Sums {
        self.runs.iter().map(|run| run.sums()).sum()
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.sums().size
    }

    /// Entries of all files.
    pub(crate) fn entries(&self) -> u64 {
        self.sums().entries
    }
}
