//! ElasticBF by share of absent keys, cache, value, database, segment and unit size.
use super::common::{self, CLUSTERED, MEMORY, Pair};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Mix;
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-sensitivity",
    title: "ElasticBF by setting",
    claim: "Impact of hard disk, zero lookup ratio, block cache size, KV pair size, database size, segment size and filter \
            unit size: please refer to our paper for detailed results.",
    seconds: 35.0,
    run,
};

/// One setting.
struct Point {
    what: &'static str,
    unit: &'static str,
    value: f64,
    base: Base,
    memory: f64,
    positive: f64,
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Clustered lookups by setting");
    let mut panels: Vec<Panel> = Vec::new();
    let mut left = Vec::new();
    for point in points(lab) {
        let pair = measure(lab, &point)?;
        let gain = pair.times_as_fast();
        left.push(pair.reads_left());
        table.add(
            [
                row! { "setting": format!("{} ({})", point.what, point.unit), "value": point.value },
                pair.both("reads", Found::reads),
                row! {
                    "false positives left": pair.false_positives_left(),
                    "times as fast, device model": gain,
                },
            ]
            .concat(),
        );
        if panels.last().is_none_or(|panel| panel.title != point.what) {
            panels.push(Panel {
                title: point.what.into(),
                x: format!("{}, {}", point.what, point.unit),
                y: "times that without ElasticBF".into(),
                series: vec![
                    Series::new("throughput, device model"),
                    Series::new("false positives left"),
                ],
                ..Panel::default()
            });
        }
        if let Some(panel) = panels.last_mut() {
            panel.series[0].points.push((point.value, gain));
            let left = pair.false_positives_left();
            panel.series[1].points.push((point.value, left));
        }
    }
    let base = base(lab);
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "clustered lookups, half of the keys absent where nothing else is said; times are a device \
             model's alone: what a PCIe SSD takes for the reads that were counted",
        ),
        tables: vec![table],
        panels,
        claims: vec![
            Claim::not_comparable(
                "the impact of the seven",
                "refers to the paper",
                "the slides, which are what is known here, give no result",
            ),
            Claim::goal_to(
                "reads with ElasticBF over those without, at any setting of the table",
                1.0,
                left.into_iter().fold(f64::MIN, f64::max),
            ),
        ],
        notes: vec!["A segment is a file here.".into()],
        ..Findings::default()
    })
}

/// The same files with units that move and units that stay.
fn measure(lab: &mut Lab<'_>, point: &Point) -> Result<Pair> {
    let moving = &point.base.engine;
    Pair::of([&format!("{moving}+still"), moving], |engine| {
        let mix = Mix::lookups(point.positive, CLUSTERED);
        let trial = common::trial(lab, &point.base, engine, point.memory, mix)?;
        lab.measure(&trial)
    })
}

/// Half the standard database, since there are many.
fn base(lab: &Lab<'_>) -> Base {
    Base {
        entries: lab.scale.entries() / 2,
        ..common::base(lab, common::WITH)
    }
}

/// Something that is varied.
struct Varied {
    what: &'static str,
    unit: &'static str,
    values: &'static [f64],
    /// Gives the point this value.
    set: fn(&mut Point, f64),
}

/// Everything that is varied, one thing at a time.
static VARIED: [Varied; 6] = [
    Varied {
        what: "share of absent keys",
        unit: "of 1",
        values: &[0.0, 0.25, 0.5, 0.75, 1.0],
        set: |point, value| point.positive = 1.0 - value,
    },
    Varied {
        what: "budget",
        unit: "times filters and indexes",
        values: &[1.5, 2.0, 3.0, 6.0, 12.0],
        set: |point, value| point.memory = value,
    },
    Varied {
        what: "entry size",
        unit: "bytes",
        values: &[64.0, 256.0, 1024.0],
        set: |point, value| {
            point.base.value = (value as usize - 32).into();
            // As many bytes, so that the tree is as large.
            point.base.entries = (point.base.entries as f64 * 64.0 / value) as u64;
        },
    },
    Varied {
        what: "database size",
        unit: "million entries",
        values: &[0.5, 1.0, 2.0],
        set: |point, value| {
            point.base.entries = (point.base.entries as f64 * value) as u64;
            point.value = point.base.entries as f64 / 1e6;
        },
    },
    Varied {
        what: "segment size",
        unit: "KiB",
        values: &[0.25, 0.5, 1.0, 2.0],
        set: |point, value| {
            point.base.file_size = (point.base.file_size as f64 * value) as u64;
            point.value = point.base.file_size as f64 / 1024.0;
        },
    },
    Varied {
        what: "unit size",
        unit: "bits per key",
        values: &[1.0, 2.0, 4.0],
        // As many bits enabled on the average, three times as many written.
        set: |point, value| {
            point.base.engine += &format!("+units={}/{}", 12.0 / value, 4.0 / value);
        },
    },
];

/// Every value of everything that is varied; of each the first alone at the tiny scale.
fn points(lab: &Lab<'_>) -> Vec<Point> {
    let base = base(lab);
    let most = lab.scale.pick(1, usize::MAX, usize::MAX, usize::MAX);
    let values =
        |varied: &'static Varied| varied.values.iter().take(most).map(move |v| (varied, *v));
    let point = |(varied, value): (&Varied, f64)| {
        let mut point = Point {
            what: varied.what,
            unit: varied.unit,
            value,
            base: base.clone(),
            memory: MEMORY,
            positive: 0.5,
        };
        (varied.set)(&mut point, value);
        point
    };
    VARIED.iter().flat_map(values).map(point).collect()
}
