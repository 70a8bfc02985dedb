//! The picker of each merge policy: a pure function that says what to do next.

use super::policy::{MergePolicy, PickerOptions};
use super::task::Task;
use super::{lazy_leveling, leveling, paid_by_scans, tiering};
use crate::version::Version;

/// The next task, or `None` when the tree is in shape or all that could be done is under way.
pub(crate) fn pick(version: &Version, options: &PickerOptions) -> Option<Task> {
    let task = match options.policy {
        MergePolicy::Leveling { granularity } => leveling::pick(version, options, granularity)
            .or_else(|| paid_by_scans::pick(version, options, granularity)),
        MergePolicy::Tiering => tiering::pick(version, options),
        MergePolicy::LazyLeveling => lazy_leveling::pick(version, options),
    };
    task?.within(version, options)
}
