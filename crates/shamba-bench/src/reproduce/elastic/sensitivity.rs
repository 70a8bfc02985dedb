//! ElasticBF by share of absent keys, cache, value, database, segment and unit size.
use super::common::{self, CLUSTERED, MEMORY, Pair};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Mix;

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
    let mut table = Report::new(
        "Clustered lookups by setting",
        &[
            "setting",
            "value",
            "reads without",
            "reads with",
            "false positives left",
            "times as fast, device model",
        ],
    );
    let mut panels: Vec<Panel> = Vec::new();
    let mut left = Vec::new();
    for point in points(lab) {
        let mix = Mix::lookups(point.positive, CLUSTERED);
        let engine = point.base.engine.clone();
        let pair = measure(lab, &point, &engine, &mix)?;
        let gain = pair.times_as_fast();
        left.push(pair.reads_left());
        table.push(vec![
            format!("{} ({})", point.what, point.unit).into(),
            point.value.into(),
            pair.without.reads().into(),
            pair.with.reads().into(),
            pair.false_positives_left().into(),
            gain.into(),
        ]);
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
fn measure(lab: &mut Lab<'_>, point: &Point, engine: &str, mix: &Mix) -> Result<Pair> {
    let mut of = |engine: &str| -> Result<_> {
        let trial = common::trial(lab, &point.base, engine, point.memory, mix.clone())?;
        lab.measure(&trial)
    };
    Ok(Pair {
        without: of(&format!("{engine}+still"))?,
        with: of(engine)?,
    })
}

/// Half the standard database, since there are many.
fn base(lab: &Lab<'_>) -> Base {
    Base {
        entries: lab.scale.entries() / 2,
        ..common::base(lab, common::WITH)
    }
}

/// Everything that is varied, one thing at a time.
fn points(lab: &Lab<'_>) -> Vec<Point> {
    let base = base(lab);
    let point = |what, unit, value| Point {
        what,
        unit,
        value,
        base: base.clone(),
        memory: MEMORY,
        positive: 0.5,
    };
    let mut points = Vec::new();
    let tiny = lab.scale == crate::reproduce::Scale::Tiny;
    let of = |values: &'static [f64]| &values[..if tiny { 1 } else { values.len() }];
    for &value in of(&[0.0, 0.25, 0.5, 0.75, 1.0]) {
        points.push(Point {
            positive: 1.0 - value,
            ..point("share of absent keys", "of 1", value)
        });
    }
    for &value in of(&[1.5, 2.0, 3.0, 6.0, 12.0]) {
        points.push(Point {
            memory: value,
            ..point("budget", "times filters and indexes", value)
        });
    }
    for &value in of(&[64.0, 256.0, 1024.0]) {
        let base = Base {
            value: (value as usize - 32).into(),
            // As many bytes, so that the tree is as large.
            entries: (base.entries as f64 * 64.0 / value) as u64,
            ..base.clone()
        };
        points.push(Point {
            base,
            ..point("entry size", "bytes", value)
        });
    }
    for &value in of(&[0.5, 1.0, 2.0]) {
        let entries = (base.entries as f64 * value) as u64;
        let base = Base {
            entries,
            ..base.clone()
        };
        points.push(Point {
            base,
            ..point("database size", "million entries", entries as f64 / 1e6)
        });
    }
    for &value in of(&[0.25, 0.5, 1.0, 2.0]) {
        let base = Base {
            file_size: (base.file_size as f64 * value) as u64,
            ..base.clone()
        };
        points.push(Point {
            value: base.file_size as f64 / 1024.0,
            base,
            ..point("segment size", "KiB", value)
        });
    }
    // Units of so many bits: as many enabled on the average, three times as many written.
    for (value, units) in [(1.0, "12/4"), (2.0, "6/2"), (4.0, "3/1")] {
        if tiny && value > 1.0 {
            break;
        }
        let base = Base {
            engine: format!("{}+units={units}", common::WITH),
            ..base.clone()
        };
        points.push(Point {
            base,
            ..point("unit size", "bits per key", value)
        });
    }
    points
}
