//! Lookups in the engine with hash sharing beside lookups that hash the key for each table: the
//! measuring of `shamba-bench hash-sharing`, shared by the figures; and what figures say of it.
use super::micro::{self, Hash};
use crate::cell;
use crate::experiments::hash_sharing::{Cell, Measured, Place, murmur_ns, predict};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Lab};
use crate::{Error, Result, row};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Batches of keys by which the paper's hash function is timed here.
const BATCHES: usize = 16;

/// What MurmurHash64 of a key of so many bytes takes here, in nanoseconds.
fn murmur_here(key: usize) -> f64 {
    static KNOWN: Mutex<BTreeMap<usize, f64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let time = || micro::hash_ns(Hash::Murmur64, key, BATCHES, 1);
    *known.entry(key).or_insert_with(time)
}

/// The paper's default: keys of 512 B in entries of 1 KB, 5 levels, 10 bits per key, empty lookups.
pub(super) fn base(lab: &Lab<'_>, devices: &[Place]) -> Cell {
    let scale = lab.scale;
    Cell {
        key: 512,
        levels: scale.pick(3, 5, 5, 5),
        size_ratio: 2,
        tiered: false,
        value: 512,
        data: scale.pick(256 << 10, 8 << 20, 64 << 20, 512 << 20),
        family: "bloom".to_owned(),
        bits_per_key: 10.0,
        zipf: false,
        devices: devices.to_vec(),
        empty: vec![1.0],
        batch: scale.pick(20, 100, 100, 100),
        pairs: scale.pick(6, 400, 600, 2_000),
        repeat: scale.pick(1, 4, 4, 5),
        seconds: scale.pick(0.2, 1.2, 3.0, 20.0),
        dir: None,
        seed: lab.seed,
    }
}

/// The setting in a sentence.
pub(super) fn setting(lab: &Lab<'_>) -> String {
    let base = base(lab, &[]);
    format!(
        "Keys of {} B and values of {} B, {} levels (T = 2, about {} MiB; the paper: T = 10, 22 GB), Bloom filters of \
         10 bits per key, XXH3, where nothing else is said. Both ways look the same keys up in one process, in \
         batches of {} that alternate; times are medians, the gain is of the pairs. Devices are modelled: what they \
         take is added (fast-pcie-ssd: the paper's 10 us a page).",
        base.key,
        base.value,
        base.levels,
        base.data >> 20,
        base.batch,
    )
}

/// Measures a tree, unless another figure has: each device, and each share of empty lookups.
pub(super) fn measure(lab: &mut Lab<'_>, cell: &Cell) -> Result<Vec<Measured>> {
    let found = lab.once(cell, || cell::measure(cell))?;
    lab.note(format!("keys of {} B, {} levels", cell.key, cell.levels));
    Ok(found)
}

/// A measured point and where it belongs.
pub(super) struct Point {
    /// On the axis of the figure.
    pub(super) x: f64,
    pub(super) key: usize,
    pub(super) seen: Measured,
}

/// The points of a figure, and what it calls them.
pub(super) struct Points {
    /// The axis, with its unit.
    pub(super) axis: &'static str,
    /// Begins the titles of panels.
    pub(super) part: &'static str,
    pub(super) all: Vec<Point>,
}

/// The model's gain in percent: with our hash and with the paper's.
fn model(point: &Point) -> Result<(f64, f64)> {
    let prediction = predict(&point.seen, murmur_ns(point.key))?;
    Ok((prediction.gain * 100.0, prediction.with_murmur * 100.0))
}

impl Points {
    pub(super) fn new(axis: &'static str) -> Self {
        Self {
            axis,
            part: "",
            all: Vec::new(),
        }
    }

    /// The points of a part of a figure: `(a) `.
    pub(super) fn part(self, part: &'static str) -> Self {
        Self { part, ..self }
    }

    pub(super) fn add(&mut self, x: f64, cell: &Cell, seen: impl IntoIterator<Item = Measured>) {
        let point = |seen| Point {
            x,
            key: cell.key,
            seen,
        };
        self.all.extend(seen.into_iter().map(point));
    }

    /// Those of a device, in their order.
    pub(super) fn on(&self, device: Place) -> impl Iterator<Item = &Point> {
        self.all
            .iter()
            .filter(move |point| point.seen.device == device)
    }

    fn devices(&self) -> Vec<Place> {
        let mut devices = Vec::new();
        for point in &self.all {
            if !devices.contains(&point.seen.device) {
                devices.push(point.seen.device);
            }
        }
        devices
    }

    pub(super) fn table(&self, title: &str) -> Result<Report> {
        let (axis, mut table) = (self.axis, Report::titled(title));
        for point in &self.all {
            let seen = &point.seen;
            let (gain, with_murmur) = model(point)?;
            table.add(row! {
                axis: point.x,
                "device": seen.device.to_string(),
                "levels": seen.levels,
                "shared us": seen.shared_us,
                "per table us": seen.each_us,
                "gain %": seen.gain * 100.0,
                "+- %": seen.uncertain * 100.0,
                "model gain %": gain,
                "model gain with the paper's hash times %": with_murmur,
                "hash ns": seen.hash_ns,
                "hashes shared": seen.shared_hashes,
                "hashes per table": seen.each_hashes,
                "tables asked": seen.tables,
                "reads": seen.reads,
                "false positives %": seen.false_positives * 100.0,
            });
        }
        Ok(table)
    }

    /// For each device a panel of the times of both ways.
    pub(super) fn times(&self) -> Vec<Panel> {
        let panel = |device: Place| {
            let line = |name: &str, of: fn(&Measured) -> f64| Series {
                name: name.to_owned(),
                points: self.on(device).map(|p| (p.x, of(&p.seen))).collect(),
            };
            Panel::new(
                format!("{}lookups, {}", self.part, device),
                self.axis,
                "us per lookup",
                vec![
                    line("a hash for each table", |seen| seen.each_us),
                    line("hash sharing", |seen| seen.shared_us),
                ],
            )
        };
        self.devices().into_iter().map(panel).collect()
    }

    /// For each device a panel of the gain: measured, by the model, and by the model with the
    /// paper's hash; beside them the numbers of the paper, if it has any.
    pub(super) fn gains(&self, paper: &[(Place, Vec<(f64, f64)>)]) -> Result<Vec<Panel>> {
        let mut panels = Vec::new();
        for device in self.devices() {
            let mut lines =
                ["measured", "model", "model with the paper's hash times"].map(Series::new);
            for point in self.on(device) {
                let (model, murmur) = model(point)?;
                let all = [point.seen.gain * 100.0, model, murmur];
                for (line, gain) in lines.iter_mut().zip(all) {
                    // Axes begin at 0.
                    line.points.push((point.x, gain.max(0.0)));
                }
            }
            let mut series: Vec<Series> = lines.into();
            for (_, points) in paper.iter().filter(|(of, _)| *of == device) {
                series.push(Series {
                    name: "paper".into(),
                    points: points.clone(),
                });
            }
            panels.push(Panel {
                title: format!("{}gain of hash sharing, {}", self.part, device),
                x: self.axis.into(),
                y: "gain, % (less than 0 as 0)".into(),
                log_y: false,
                series,
            });
        }
        Ok(panels)
    }
}

/// A gain in percent of the paper beside the measured one; by the model where the device is one,
/// since the paper has a clock. Where it differs: the hash, if the model with the paper's time for
/// it comes to the paper's gain, but for a fifth of the difference.
pub(super) fn gain(what: &str, paper: f64, point: Option<&Point>) -> Result<Claim> {
    let untold = || Error::InvalidSetting(format!("{what}: not measured"));
    let point = point.ok_or_else(untold)?;
    let seen = &point.seen;
    let measured = seen.gain * 100.0;
    let (_, with_paper_s) = model(point)?;
    let (here, in_paper) = (murmur_here(point.key), murmur_ns(point.key));
    let on = on(seen.device);
    let claim = Claim::figure(format!("{what}, {on}, %"), paper, measured);
    Ok(of(claim, &[point]).because(
        (paper - with_paper_s).abs() <= 0.2 * (paper - measured).abs(),
        format!(
            "the hash is quicker: XXH3 takes {:.0} ns of the {:.2} us of a lookup (MurmurHash64 {here:.0} ns here), and \
             MurmurHash64 {in_paper:.0} ns in the paper (Table 1, by the size): with that time this lookup would gain \
             {with_paper_s:.1} % by Eq. 8",
            seen.hash_ns, seen.each_us,
        ),
    ))
}

/// That the gain grows along the axis: no step down by more than both ends of it are uncertain, and
/// more at the end than at the beginning by more than that.
pub(super) fn trend(what: &str, paper: &str, points: &[&Point]) -> Claim {
    let rise = |from: &Point, to: &Point| {
        let noise = from.seen.uncertain + to.seen.uncertain;
        (to.seen.gain - from.seen.gain, noise)
    };
    let falls = points.windows(2).any(|two| {
        let (rise, noise) = rise(two[0], two[1]);
        rise < -noise
    });
    let grows = points.first().zip(points.last()).is_some_and(|(a, b)| {
        let (rise, noise) = rise(a, b);
        rise > noise
    });
    let ends = points.first().into_iter().chain(points.last());
    let mut on: Vec<String> = ends.map(|p| on(p.seen.device)).collect();
    on.dedup();
    let what = format!("{what}, {}, %", on.join(" to "));
    of(
        Claim::statement(what, paper, percent(points), grows && !falls),
        points,
    )
}

/// Where lookups were measured, for sentences.
fn on(device: Place) -> String {
    match device.model() {
        Some(_) => format!("{device} (a device model)"),
        None => device.to_string(),
    }
}

/// The claim, by the model where one of its points is of a modelled device.
fn of(claim: Claim, points: &[&Point]) -> Claim {
    if points.iter().any(|p| p.seen.device.model().is_some()) {
        claim.by_model()
    } else {
        claim
    }
}

/// The gain measured, in percent, for sentences.
fn percent(points: &[&Point]) -> String {
    let all: Vec<String> = (points.iter())
        .map(|p| {
            format!(
                "{:.1} ± {:.1}",
                p.seen.gain * 100.0,
                p.seen.uncertain * 100.0
            )
        })
        .collect();
    all.join(", ")
}
