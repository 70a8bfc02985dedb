//! Golden tests of the pickers: `testdata/pickers.txt` holds small trees and the tasks they get.
//! Run with `SHAMBA_REWRITE=1` to write what the pickers say now, and read the difference.
//!
//! A case is a command, levels, `----`, and the answer, with an empty line after it. A level is
//! runs separated by `|`, newest first; a run is its id and files `smallest-largest:size`, with
//! `,t3` (tombstones), `,g3` (garbage), `,s9` (largest sequence number), `,r9` (pages that scans
//! read to find their place in it), `,v101.9` (bytes of value file 101 that it points to) and `*`
//! (busy). A file has as many entries as its size. Files are numbered from 101 on; those of level
//! `V` are value files, each of which points to all of its own values.
//! Commands: `pick` (one task), `steps` (tasks until none is left, a merge making one file),
//! `manual FROM-TO` (the same for a range, one task after the other).

use std::fmt::Write as _;
use std::path::PathBuf;

use super::manual::{Manual, ManualRange, manual};
use super::picker::pick;
use super::policy::{Granularity, MergePolicy, Moving, PickerOptions};
use super::task::{TargetRun, Task, TaskKind};
use crate::budget::Budget;
use crate::fs::PAGE;
use crate::version::{FileInfo, FileMeta, KeyspaceEdit, VALUE_LEVEL, Version};

fn parse_options(words: &[&str]) -> PickerOptions {
    let mut options = PickerOptions {
        size_ratio: 4,
        buffer_bytes: 4,
        oldest_snapshot: 100,
        ..PickerOptions::default()
    };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse().unwrap();
        match name {
            "leveling" => options.policy = MergePolicy::default(),
            "whole-level" => {
                options.policy = MergePolicy::Leveling {
                    granularity: Granularity::Level,
                }
            }
            "tiering" => options.policy = MergePolicy::Tiering,
            "lazy" => options.policy = MergePolicy::LazyLeveling,
            "T" => options.size_ratio = number(),
            "buffer" => options.buffer_bytes = value.parse().unwrap(),
            "flush" => options.flush_bytes = value.parse().unwrap(),
            "l0" => options.level0_runs = number(),
            "max-levels" => options.max_levels = number(),
            "moving" => options.moving = Some(Moving::default()),
            // A byte of a merge costs so many reads.
            "byte-cost" => options.page_cost = PAGE as f64 * value.parse::<f64>().unwrap(),
            "no-scans" => options.merge_for_scans = false,
            "snapshot" => options.oldest_snapshot = value.parse().unwrap(),
            _ => panic!("unknown option {word}"),
        }
    }
    options
}

fn parse_version(lines: &[&str], next: &mut u64) -> Version {
    let mut edit = KeyspaceEdit::default();
    for line in lines {
        let (level, runs) = line.split_once(':').unwrap();
        let level = level.strip_prefix('L').unwrap_or(level);
        for run in runs.split('|') {
            let mut words = run.split_whitespace();
            let run: u64 = words.next().unwrap().parse().unwrap();
            let level = match level {
                "V" => VALUE_LEVEL,
                level => level.parse().unwrap(),
            };
            for word in words {
                let (word, busy) = match word.strip_suffix('*') {
                    Some(word) => (word, true),
                    None => (word, false),
                };
                let (range, size) = word.split_once(':').unwrap();
                let (smallest, largest) = range.split_once('-').unwrap();
                let mut parts = size.split(',');
                let size = parts.next().unwrap().parse().unwrap();
                *next += 1;
                let mut info = FileInfo {
                    number: *next,
                    size,
                    entries: size,
                    smallest: smallest.as_bytes().into(),
                    largest: largest.as_bytes().into(),
                    ..FileInfo::default()
                };
                let mut reads = 0;
                for part in parts {
                    let (kind, number) = part.split_at(1);
                    if kind == "v" {
                        let (file, bytes) = number.split_once('.').unwrap();
                        let values = (file.parse().unwrap(), bytes.parse().unwrap());
                        info.points_to.push(values);
                        continue;
                    }
                    let number = number.parse().unwrap();
                    match kind {
                        "t" => info.tombstones = number,
                        "g" => info.garbage = number,
                        "s" => info.max_seq = number,
                        "r" => reads = number as u32,
                        _ => panic!("unknown mark {part}"),
                    }
                }
                let file = FileMeta::new(&info);
                if reads > 0 {
                    file.slot().set_seek_pages(reads, &Budget::new(1 << 20));
                }
                if busy {
                    file.try_claim();
                }
                edit.add(level as usize, run, file);
            }
        }
    }
    Version::default().apply(&edit).unwrap()
}

fn show(version: &Version) -> String {
    let mut out = String::new();
    for (i, level) in version.levels().iter().enumerate() {
        let runs: Vec<_> = level
            .runs()
            .iter()
            .map(|run| {
                let mut text = run.id().to_string();
                for file in run.files() {
                    let (lo, hi) = (
                        file.smallest().escape_ascii(),
                        file.largest().escape_ascii(),
                    );
                    write!(text, " {lo}-{hi}:{}", file.size()).unwrap();
                }
                text
            })
            .collect();
        if !runs.is_empty() {
            writeln!(out, "= L{i}: {}", runs.join(" | ")).unwrap();
        }
    }
    out
}

fn carry_out(version: &Version, task: &Task, next: &mut u64) -> Version {
    *next += 1;
    let number = *next;
    let run = match task.output {
        TargetRun::Join(run) => run,
        TargetRun::New => number,
        TargetRun::Keep => 0,
    };
    let mut edit = KeyspaceEdit::default();
    match task.kind {
        TaskKind::TrivialMove => edit.moves = task.moves(run),
        TaskKind::Merge => {
            edit.removes = task.removes();
            let dead = |f: &FileMeta| {
                if task.bottom {
                    f.tombstones() + f.garbage()
                } else {
                    0
                }
            };
            let size = task.files().map(|f| f.size() - dead(f)).sum();
            let tombstones: u64 = task.files().map(|f| f.tombstones()).sum();
            let info = FileInfo {
                number,
                size,
                entries: size,
                tombstones: if task.bottom { 0 } else { tombstones },
                smallest: task.files().map(|f| f.smallest()).min().unwrap().into(),
                largest: task.files().map(|f| f.largest()).max().unwrap().into(),
                ..FileInfo::default()
            };
            edit.add(task.output_level, run, FileMeta::new(&info));
        }
    }
    version.apply(&edit).unwrap()
}

fn answer(case: &[&str]) -> String {
    let words: Vec<_> = case[0].split_whitespace().collect();
    let mut next = 100;
    let mut version = parse_version(&case[1..], &mut next);
    let mut out = String::new();
    match words[0] {
        "pick" => match pick(&version, &parse_options(&words[1..])) {
            Some(task) => writeln!(out, "{task}").unwrap(),
            None => out.push_str("none\n"),
        },
        "steps" => {
            let options = parse_options(&words[1..]);
            while let Some(task) = pick(&version, &options) {
                writeln!(out, "{task}").unwrap();
                version = carry_out(&version, &task, &mut next);
                assert!(out.lines().count() < 100, "no end:\n{out}");
            }
            out.push_str(&show(&version));
        }
        "manual" => {
            let (from, to) = words[1].split_once('-').unwrap();
            let range = ManualRange {
                from: (!from.is_empty()).then_some(from.as_bytes()),
                to: (!to.is_empty()).then_some(to.as_bytes()),
                max_seq: 100,
                rewrite_before: 0,
            };
            let options = parse_options(&words[2..]);
            loop {
                match manual(&version, range, &options) {
                    Manual::Done => break,
                    Manual::Busy => {
                        out.push_str("busy\n");
                        break;
                    }
                    Manual::Task(task) => {
                        writeln!(out, "{task}").unwrap();
                        version = carry_out(&version, &task, &mut next);
                    }
                }
                assert!(out.lines().count() < 100, "no end:\n{out}");
            }
            out.push_str(&show(&version));
        }
        command => panic!("unknown command {command}"),
    }
    out
}

#[test]
fn pickers_say_what_the_golden_file_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/pickers.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut said = String::new();
    for block in text.split("\n\n") {
        let block = block.trim_matches('\n');
        let (question, _) = block.split_once("\n----").unwrap_or((block, ""));
        let case: Vec<_> = question.lines().filter(|l| !l.starts_with('#')).collect();
        if case.is_empty() {
            writeln!(said, "{block}\n").unwrap();
            continue;
        }
        writeln!(said, "{question}\n----\n{}", answer(&case)).unwrap();
    }
    let said = format!("{}\n", said.trim_end());
    if std::env::var_os("SHAMBA_REWRITE").is_some() {
        std::fs::write(&path, said).unwrap();
    } else {
        assert!(said == text, "differs from {}:\n{said}", path.display());
    }
}

/// A level that was made for more memory goes down in moves that each take little, and reaches as
/// many files as it has room for.
#[test]
fn a_move_is_of_a_bounded_number_of_files() {
    let mut level = String::from("L1: 7");
    for number in 0..5000 {
        write!(level, " {number:04}a-{number:04}b:1").unwrap();
    }
    let mut next = 10_000;
    let mut version = parse_version(&[&level], &mut next);
    let options = parse_options(&["leveling", "buffer=100", "T=4"]);
    let mut moved = Vec::new();
    while let Some(task) = pick(&version, &options) {
        assert_eq!(task.kind, TaskKind::TrivialMove);
        moved.push(task.files().count());
        version = carry_out(&version, &task, &mut next);
    }
    assert!(moved.iter().all(|files| *files <= 1024), "{moved:?}");
    let files: Vec<usize> = version.runs().map(|(_, run)| run.files().len()).collect();
    let room = [1, 2].map(|level| options.capacity(level) as usize);
    assert_eq!(files, [room[0], room[1], 5000 - room[0] - room[1]]);
}

/// A move of files that had better be written again becomes a merge: of the first of them alone
/// where they join a run, whose files may lie between them, else of all.
#[test]
fn a_move_of_misfits_is_a_merge() {
    let task = |levels: &[&str], options: &str| {
        let version = parse_version(levels, &mut 0);
        let options: Vec<_> = options.split(' ').collect();
        let task = pick(&version, &parse_options(&options)).unwrap();
        assert_eq!(task.kind, TaskKind::TrivialMove);
        task
    };
    let numbers = |task: &Task| task.files().map(|file| file.number()).collect::<Vec<_>>();
    let join = || task(&["L0: 2 a-c:4 g-h:4", "L1: 1 d-f:4"], "leveling l0=1");
    assert_eq!(numbers(&join()), [1, 2]);
    let same = join().rewriting(|_| false);
    assert_eq!(
        (same.kind, numbers(&same)),
        (TaskKind::TrivialMove, vec![1, 2])
    );
    let one = join().rewriting(|file| file.number() == 2);
    assert_eq!((one.kind, numbers(&one)), (TaskKind::Merge, vec![2]));
    assert!(matches!(one.output, TargetRun::Join(1)) && one.removes().len() == 1);
    let runs = ["L0: 4 a-c:4 | 3 d-f:4 | 2 g-h:4 | 1 i-j:4"];
    let all = task(&runs, "tiering T=4").rewriting(|file| file.number() == 2);
    assert_eq!(
        (all.kind, numbers(&all)),
        (TaskKind::Merge, vec![1, 2, 3, 4])
    );
}
