//! The default policy, as far as files go: it sets no limits. What a lookup reads is weighed by the
//! lookup itself, partition by partition (`value/read_plan.rs`).

use super::{All, FileView, ModuleController};

/// Limits nothing, and has lookups weigh what to read.
#[derive(Debug)]
pub(super) struct ExpectedReads;

impl ModuleController for ExpectedReads {
    fn reads_as_valued(&self) -> bool {
        true
    }

    fn looks_at_files(&self) -> bool {
        All.looks_at_files()
    }

    fn limits(&mut self, files: &[FileView], epoch: u64) -> Vec<u8> {
        All.limits(files, epoch)
    }
}
