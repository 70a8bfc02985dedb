//! Golden tests of what blocks are worth and what is read: `testdata/value.txt` holds partitions
//! and the decisions they get.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use shamba_model::expected_reads::Visits;

use super::geometry::ModuleGeometry;
use super::rejections::ColumnEvidence;
use super::*;
use crate::budget::Budget;
use crate::fs::BlockKind;

/// One table with a partition that is probed about, and one beside it.
fn table(modules: &[ModuleGeometry], index_pages: u32) -> (Arc<PolicyState>, PartitionStats) {
    let geometry = FilterGeometry::new(modules.into(), |_| 0, |block, _| block.into());
    let (policy, budget) = (Arc::new(PolicyState::new(1)), Budget::new(1 << 20));
    policy.set_observed(1.0);
    let stats = PartitionStats::new(
        Arc::clone(&policy),
        &budget,
        2,
        Arc::new(geometry),
        index_pages,
    );
    (policy, stats)
}

fn numbers(words: &[&str]) -> Vec<f32> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn outcome(word: &str) -> Outcome {
    match word {
        "found" => Outcome::Found,
        "rejected" => Outcome::Rejected,
        "false-positive" => Outcome::FalsePositive,
        "absent" => Outcome::Absent,
        word => panic!("{word}"),
    }
}

/// Does what the lines of a case say, and tells the decisions.
fn answer(lines: &[&str]) -> String {
    let mut modules = Vec::new();
    let mut index_pages = 1;
    for line in lines {
        match *line.split(' ').collect::<Vec<_>>() {
            ["module", ref shape @ ..] => {
                let shape = numbers(shape);
                modules.push(ModuleGeometry {
                    fpr: shape[0],
                    columns: shape[1] as u8,
                    blocks: shape[2] as u16,
                    pages: shape[3] as u16,
                });
            }
            ["index-pages", pages] => index_pages = pages.parse().unwrap(),
            _ => {}
        }
    }
    let (policy, stats) = table(&modules, index_pages);
    let kind = |number: usize| BlockKind::Filter(number as u8);
    let mut out = String::new();
    let mut here = vec![0u8; modules.len()];
    for line in lines {
        match *line.split(' ').collect::<Vec<_>>() {
            ["module" | "index-pages", ..] => {}
            ["inherit", ref visits @ ..] => {
                let visits = numbers(visits);
                let (empty, positive, scans) = (visits[0], visits[1], visits[2]);
                stats.inherit(
                    0,
                    Visits {
                        empty,
                        positive,
                        scans,
                    },
                );
            }
            ["record", times, word] => {
                for _ in 0..times.parse().unwrap() {
                    stats.record(0, outcome(word), 1);
                }
            }
            ["ticks", ticks] => {
                for _ in 0..ticks.parse::<u64>().unwrap() {
                    policy.advance(1 << 20);
                }
            }
            ["scans", times] => stats.record_scan(0, times.parse().unwrap()),
            ["price", price] => {
                let price: f32 = price.parse().unwrap();
                (0..1000).for_each(|_| policy.note_marginal(price));
            }
            ["observed", share] => policy.set_observed(share.parse().unwrap()),
            ["lru"] => policy.set_active(false),
            ["index"] => stats.set_resident(0, BlockKind::Index, 0, true),
            ["resident", number, count] => {
                let (number, count): (usize, u8) =
                    (number.parse().unwrap(), count.parse().unwrap());
                here[number] = count;
                match modules[number].columns {
                    0 | 1 => {
                        (0..count).for_each(|_| stats.set_resident(0, kind(number), 1, true));
                    }
                    _ => stats.set_resident(0, kind(number), count, true),
                }
            }
            ["arrive", number, columns, rejected_by] => {
                let (number, bits) = (number.parse().unwrap(), |text| {
                    u8::from_str_radix(text, 2).unwrap()
                });
                let alone = stats.note_insert(0, kind(number), bits(columns), bits(rejected_by));
                stats.set_resident(0, kind(number), bits(columns).count_ones() as u8, true);
                here[number] = bits(columns).count_ones() as u8;
                writeln!(out, "arrived: alone {alone:.4e}").unwrap();
            }
            ["goes", number, alone] => {
                let number: usize = number.parse().unwrap();
                let alone = stats.note_eviction(0, kind(number), alone.parse().unwrap());
                here[number] -= 1;
                stats.set_resident(0, kind(number), here[number], true);
                writeln!(out, "gone: alone {alone:.4e}").unwrap();
            }
            ref line => panic!("{line:?}"),
        }
    }
    decisions(&stats, &modules, &here, &mut out);
    out
}

fn decisions(stats: &PartitionStats, modules: &[ModuleGeometry], here: &[u8], out: &mut String) {
    let kind = |number: usize| BlockKind::Filter(number as u8);
    let value = |kind, columns, part| stats.value_of(0, kind, columns, part).value;
    let arriving = |rejected_reader| ColumnEvidence::Arriving { rejected_reader };
    let visits = stats.visits(0);
    writeln!(
        out,
        "visits {:.3} {:.3} {:.3}; get by {:.4e}",
        visits.empty,
        visits.positive,
        visits.scans,
        stats.view(0).unwrap().implied_empty
    )
    .unwrap();
    let index = value(BlockKind::Index, 1, arriving(false));
    writeln!(out, "index {index:.4e}").unwrap();
    for (number, module) in modules.iter().enumerate() {
        write!(out, "module {number}: next").unwrap();
        for columns in here[number] + 1..=module.columns.max(1) {
            let next = [false, true].map(|by| value(kind(number), columns, arriving(by)));
            write!(out, " {:.4e}/{:.4e}", next[0], next[1]).unwrap();
        }
        write!(out, "; last").unwrap();
        if here[number] > 0 {
            for sole_rejections in [0.0, 4.0, 1000.0] {
                let last = value(
                    kind(number),
                    here[number],
                    ColumnEvidence::Resident { sole_rejections },
                );
                write!(out, " {last:.4e}").unwrap();
            }
        }
        let stands_for = stats.visits_per_sole_rejection(0, kind(number));
        writeln!(out, "; a rejection stands for {stands_for:.4e}").unwrap();
    }
    let mut probed = [0u8; 16];
    for ((probed, here), module) in probed.iter_mut().zip(here).zip(modules) {
        *probed = match module.columns {
            0 | 1 => u8::from(u16::from(*here) >= module.blocks),
            _ => *here,
        };
    }
    for past_index in [false, true] {
        let best = stats.best_to_read(0, &probed, past_index);
        let with_index = best.is_some_and(|best| stats.coalesces_index(0, &probed, best));
        writeln!(out, "read {best:?}, with the index: {with_index}").unwrap();
    }
    let missing = stats.missing_modules(0);
    let pass = [(0, true), (0, false), (1, false), (16, false)]
        .map(|(limit, by_worth)| format!("{:.4e}", stats.forecast_fpr(0, limit, by_worth)));
    writeln!(out, "missing {missing:?}; pass {}", pass.join(" ")).unwrap();
    let absent = stats.best_absent(|_, number| modules[usize::from(number)].blocks);
    writeln!(out, "absent {:.4e} {:.4e}", absent.index, absent.filter).unwrap();
}

#[test]
fn values_are_those_of_the_golden_file() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/value.txt");
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
