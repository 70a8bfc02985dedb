//! What a new file inherits of the hotness of the files it comes from or lies above.
//!
//! Pure: versions and tasks in, hotness out. So a file made by a flush or compaction starts with
//! the right filter modules, and measured statistics take over as it ages.

use shamba_model::utility::{inherited_access, inherited_positive, weighted_mean};

use super::Task;
use crate::version::{FileMeta, Hotness, Version};

/// Where a new file comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A flush to level 0 of a tree of this size ratio.
    Flush(&'a Version, u32),
    /// A compaction.
    Merge(&'a Task),
}

impl Origin<'_> {
    /// The hotness of a new file of this key range (inclusive); `None` when nothing is known.
    pub(crate) fn hotness(&self, smallest: &[u8], largest: &[u8]) -> Option<Hotness> {
        match self {
            Origin::Flush(version, size_ratio) => at_flush(version, *size_ratio, smallest, largest),
            Origin::Merge(task) => {
                let meets =
                    |file: &&FileMeta| *file.smallest() <= *largest && *file.largest() >= *smallest;
                mean(task.files().filter(meets))
            }
        }
    }
}

/// From the files of the last level that it overlaps (SHaMBa, section 4.2). Of several runs there
/// the oldest counts, since each lookup asks a file of each.
fn at_flush(
    version: &Version,
    size_ratio: u32,
    smallest: &[u8],
    largest: &[u8],
) -> Option<Hotness> {
    let last = version.levels().len().checked_sub(1)?;
    let below = version.runs_of(last).last()?.overlapping(smallest, largest);
    let known = below.iter().filter_map(|file| file.hotness());
    let access = inherited_access(known.map(|hotness| hotness.access)).ok()??;
    let positive = mean(below.iter())?.positive;
    let positive = inherited_positive(positive, size_ratio, last as u32).ok()?;
    Some(Hotness { access, positive })
}

/// The mean by entries, of the files of which something is known.
fn mean<'a>(files: impl Iterator<Item = &'a FileMeta>) -> Option<Hotness> {
    let known: Vec<(Hotness, f64)> = files
        .filter_map(|file| Some((file.hotness()?, file.entries() as f64)))
        .collect();
    let of = |what: fn(&Hotness) -> f64| {
        let values = known
            .iter()
            .map(|(hotness, entries)| (what(hotness), *entries));
        weighted_mean(values).ok().flatten()
    };
    Some(Hotness {
        access: of(|hotness| hotness.access)?,
        positive: of(|hotness| hotness.positive)?,
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::budget::Budget;
    use crate::compaction::{TargetRun, TaskInput, TaskKind};
    use crate::version::{FileInfo, KeyspaceEdit};

    fn file(number: u64, range: (&str, &str), entries: u64, hotness: (f64, f64)) -> FileMeta {
        let info = FileInfo {
            number,
            entries,
            smallest: range.0.as_bytes().into(),
            largest: range.1.as_bytes().into(),
            ..FileInfo::default()
        };
        let (access, positive) = hotness;
        let file = FileMeta::new(&info);
        let hotness = Some(Hotness { access, positive });
        file.restore((0, 0), hotness, &Budget::new(u64::MAX));
        file
    }

    fn close(got: Option<Hotness>, access: f64, positive: f64) {
        let got = got.unwrap();
        assert!(
            (got.access - access).abs() < 1e-9 && (got.positive - positive).abs() < 1e-9,
            "{got:?}, not {access} and {positive}"
        );
    }

    #[test]
    fn a_flushed_file_inherits_from_the_last_level() {
        let mut edit = KeyspaceEdit::new(0);
        edit.add(1, 9, file(1, ("a", "z"), 10, (0.01, 0.9)));
        edit.add(2, 1, file(2, ("a", "c"), 300, (0.1, 0.8)));
        edit.add(2, 1, file(3, ("d", "f"), 100, (0.3, 0.4)));
        edit.add(2, 1, file(4, ("x", "z"), 100, (0.5, 1.0)));
        let version = Version::default().apply(&edit).unwrap();
        let flush = Origin::Flush(&version, 4);
        // The positive share of the last level, 0.7 by entries, over 4 for each of two levels.
        close(flush.hotness(b"b", b"e"), 0.4, 0.7 / 16.0);
        close(flush.hotness(b"y", b"y"), 0.5, 1.0 / 16.0);
        assert_eq!(flush.hotness(b"m", b"n"), None);
        assert_eq!(
            Origin::Flush(&Version::default(), 4).hotness(b"a", b"z"),
            None
        );
    }

    #[test]
    fn of_several_last_runs_the_oldest_counts() {
        let mut edit = KeyspaceEdit::new(0);
        edit.add(0, 1, file(1, ("a", "z"), 10, (0.2, 0.5)));
        edit.add(0, 2, file(2, ("a", "z"), 10, (0.9, 0.1)));
        let version = Version::default().apply(&edit).unwrap();
        close(Origin::Flush(&version, 10).hotness(b"b", b"c"), 0.2, 0.5);
    }

    #[test]
    fn a_merged_file_inherits_the_mean_of_the_inputs_it_meets() {
        let unknown = FileInfo {
            number: 4,
            entries: 1000,
            smallest: b"a".as_slice().into(),
            largest: b"z".as_slice().into(),
            ..FileInfo::default()
        };
        let inputs = [
            (0, vec![file(1, ("a", "m"), 100, (0.8, 0.0))]),
            (
                1,
                vec![
                    file(2, ("a", "f"), 300, (0.4, 0.4)),
                    file(3, ("n", "z"), 500, (0.1, 1.0)),
                ],
            ),
            (1, vec![FileMeta::new(&unknown)]),
        ];
        let input = |(level, files)| TaskInput {
            level,
            run: 1,
            files,
        };
        let task = Task {
            score: 1.0,
            inputs: inputs.into_iter().map(input).collect(),
            output_level: 1,
            output: TargetRun::New,
            cut: None,
            kind: TaskKind::Merge,
            bottom: false,
            reason: "",
        };
        close(Origin::Merge(&task).hotness(b"a", b"f"), 0.5, 0.3);
        close(Origin::Merge(&task).hotness(b"n", b"o"), 0.1, 1.0);
        close(Origin::Merge(&task).hotness(b"g", b"h"), 0.8, 0.0);
    }
}
