//! ElasticBF by share of absent keys, cache, value, database, segment and unit size.
use super::common::{self, CLUSTERED, MEMORY, device_us};
use super::pairs::{FALSE_POSITIVES, FASTER, FILTERS, Pair, READS};
use crate::reproduce::prelude::*;

/// One setting.
struct Point {
    value: f64,
    base: Base,
    memory: f64,
    positive: f64,
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    // Half the standard database, since there are many.
    let base = Base {
        entries: lab.scale.entries() / 2,
        ..common::base(lab, common::WITH)
    };
    // Of each the first value alone at the tiny scale.
    let most = lab.scale.tiny_or(1, usize::MAX);
    let mut table = Report::titled("Clustered lookups by setting");
    let mut panels = Vec::new();
    for varied in VARIED {
        for &value in varied.values.iter().take(most) {
            let mut point = Point {
                value,
                base: base.clone(),
                memory: MEMORY,
                positive: 0.5,
            };
            (varied.set)(&mut point, value);
            let place = row! { "setting": varied.what, "value": point.value };
            // The same files with units that stay and units that move.
            let moving = &point.base.engine;
            let pair = Pair::of([&format!("{moving}+still"), moving], |engine| {
                let mix = Mix::lookups(point.positive, CLUSTERED);
                let trial = common::trial(lab, &point.base, engine, point.memory, mix)?;
                lab.measure(&trial)
            })?;
            table.add([place, pair.columns(device_us)].concat());
        }
        let (own, y) = (table.rows_of("setting", varied.what), "times that without");
        let lines = [FASTER, FALSE_POSITIVES];
        let panel = Panel::of_columns(varied.what, &own, "value", y, &lines);
        panels.push(panel.over(varied.what));
    }
    let setting = common::setting(lab, &base);
    let what = "reads with ElasticBF over those without, at any setting of the table";
    let claim = Claim::goal_to(what, 1.0, table.most(READS));
    let claim = common::of_equal_memory(claim, &table.numbers(FILTERS), "those without");
    Ok(Findings::of(setting, [table], panels, [claim]))
}

/// Something that is varied.
struct Varied {
    /// What, with its unit.
    what: &'static str,
    values: &'static [f64],
    /// Gives the point this value.
    set: fn(&mut Point, f64),
}

/// Everything that is varied, one thing at a time.
const VARIED: [Varied; 6] = [
    Varied {
        what: "share of absent keys",
        values: &[0.0, 0.25, 0.5, 0.75, 1.0],
        set: |point, value| point.positive = 1.0 - value,
    },
    Varied {
        what: "budget, times filters and indexes",
        values: &[1.5, 2.0, 3.0, 6.0, 12.0],
        set: |point, value| point.memory = value,
    },
    Varied {
        what: "entry size, bytes",
        values: &[64.0, 256.0, 1024.0],
        set: |point, value| {
            point.base.value = (value as usize - 32).into();
            // As many bytes, so that the tree is as large.
            point.base.entries = (point.base.entries as f64 * 64.0 / value) as u64;
        },
    },
    Varied {
        what: "database size, million entries",
        values: &[0.5, 1.0, 2.0],
        set: |point, value| {
            point.base.entries = (point.base.entries as f64 * value) as u64;
            point.value = point.base.entries as f64 / 1e6;
        },
    },
    Varied {
        what: "segment size, KiB",
        values: &[0.25, 0.5, 1.0, 2.0],
        set: |point, value| {
            point.base.file_size = (point.base.file_size as f64 * value) as u64;
            point.value = point.base.file_size as f64 / 1024.0;
        },
    },
    Varied {
        what: "unit size, bits per key",
        values: &[1.0, 2.0, 4.0],
        // As many bits enabled on the average, three times as many written.
        set: |point, value| {
            point.base.engine += &format!("+units={}/{}", 12.0 / value, 4.0 / value);
        },
    },
];
