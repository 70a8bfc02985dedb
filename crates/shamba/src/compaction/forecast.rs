//! What a move to another design will read and write, told from the tree's files alone.
//!
//! Pure: the pickers are asked for task after task, each of which is carried out on descriptions of
//! files. Sizes are upper bounds, since nobody knows what merges will drop.

use super::picker::pick;
use super::policy::PickerOptions;
use super::task::{TargetRun, Task, TaskKind};
use crate::version::{FileInfo, FileMeta, KeyspaceEdit, Version};

/// Tasks after which the rest is not looked at.
const MOST_TASKS: usize = 500;

/// The bytes of tables that tasks read until none is left; about as many are written. `target_file`
/// is the size of their outputs. A tree of very many files counts as rewritten twice.
pub(crate) fn bytes_to_merge(version: &Version, options: &PickerOptions, target_file: u64) -> u64 {
    // Described anew, so that files which are busy now count like others.
    let mut next = Next {
        number: 1,
        created: options.moving.as_ref().map_or(0, |moving| moving.since),
    };
    let mut edit = KeyspaceEdit::default();
    for (level, run) in version.runs() {
        for file in run.files() {
            next.number = next.number.max(file.number() + 1).max(run.id() + 1);
            let copy = FileMeta::new(&file.info());
            edit.add(level, run.id(), copy);
        }
    }
    let size = version.sums().size;
    let Ok(mut version) = Version::default().apply(&edit) else {
        return size.saturating_mul(2);
    };
    let mut merged = 0u64;
    for _ in 0..MOST_TASKS {
        let Some(task) = pick(&version, options) else {
            return merged;
        };
        if task.kind == TaskKind::Merge {
            merged = merged.saturating_add(task.input_bytes());
        }
        match version.apply(&carry_out(&task, target_file, &mut next)) {
            Ok(after) => version = after,
            Err(_) => break,
        }
    }
    merged.max(size.saturating_mul(2))
}

struct Next {
    /// For files and runs.
    number: u64,
    created: u64,
}

impl Next {
    fn draw(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}

fn carry_out(task: &Task, target_file: u64, next: &mut Next) -> KeyspaceEdit {
    let run = match task.output {
        TargetRun::Join(run) => run,
        TargetRun::New => next.draw(),
        TargetRun::Keep => 0,
    };
    if task.kind == TaskKind::TrivialMove {
        return KeyspaceEdit {
            moves: task.moves(run),
            ..KeyspaceEdit::default()
        };
    }
    // A merge: its inputs go.
    let mut edit = KeyspaceEdit {
        removes: task.removes(),
        ..KeyspaceEdit::default()
    };
    // What lies behind a cut counts as half of its file.
    let mut left = Vec::new();
    for input in &task.inputs {
        let crossing = |cut: &[u8]| input.files.last().filter(|file| file.largest() > cut);
        if let Some(file) = task.cut.as_deref().and_then(crossing) {
            left.push((input.level, input.run, file));
        }
    }
    let mut rest = Sum::default();
    for (level, run, file) in left {
        let half = Sum::of(file).half();
        rest.add(half);
        let start = after(task.cut.as_deref().unwrap_or_default());
        let range = (start, file.largest().into());
        edit.add(level, run, half.file(range, next));
    }
    // Outputs end where some input ends, and share what there is.
    let mut total = Sum::default();
    task.files().for_each(|file| total.add(Sum::of(file)));
    total.take(rest);
    let mut ends: Vec<&[u8]> = task.files().map(|file| file.largest()).collect();
    if let Some(cut) = &task.cut {
        ends.retain(|end| *end <= &**cut);
    }
    ends.sort_unstable();
    ends.dedup();
    let files = total.bytes.div_ceil(target_file.max(1)).max(1) as usize;
    let step = ends.len().div_ceil(files).max(1);
    let chosen: Vec<&[u8]> = ends
        .chunks(step)
        .filter_map(|part| part.last().copied())
        .collect();
    let part = total.part(chosen.len() as u64);
    // Each output begins behind the one before.
    let mut start = task
        .files()
        .map(|file| file.smallest())
        .min()
        .map(Box::from);
    for end in chosen {
        if let Some(start) = start.take() {
            edit.add(task.output_level, run, part.file((start, end.into()), next));
        }
        start = Some(after(end));
    }
    edit
}

/// The next key.
fn after(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

/// What files hold together.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    entries: u64,
    filter_bytes: u64,
}

impl Sum {
    fn of(file: &FileMeta) -> Self {
        Sum {
            bytes: file.size(),
            entries: file.entries(),
            filter_bytes: file.filter_bytes(),
        }
    }

    fn add(&mut self, other: Sum) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.filter_bytes = self.filter_bytes.saturating_add(other.filter_bytes);
    }

    fn take(&mut self, other: Sum) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.entries = self.entries.saturating_sub(other.entries);
        self.filter_bytes = self.filter_bytes.saturating_sub(other.filter_bytes);
    }

    fn part(self, of: u64) -> Self {
        let of = of.max(1);
        Sum {
            bytes: self.bytes / of,
            entries: self.entries / of,
            filter_bytes: self.filter_bytes / of,
        }
    }

    fn half(self) -> Self {
        self.part(2)
    }

    fn file(self, (smallest, largest): (Box<[u8]>, Box<[u8]>), next: &mut Next) -> FileMeta {
        let smallest = smallest.min(largest.clone());
        FileMeta::new(&FileInfo {
            number: next.draw(),
            size: self.bytes,
            entries: self.entries,
            filter_bytes: self.filter_bytes,
            smallest,
            largest,
            created: next.created,
            ..FileInfo::default()
        })
    }
}
