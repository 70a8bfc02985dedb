//! Lookups in the engine with hash sharing beside lookups that hash the key for each table: the
//! measuring of `shamba-bench hash-sharing`, shared by the figures; and what figures say of it.
use super::micro::{self, Hash};
use crate::cell::{self, Request};
use crate::experiments::hash_sharing::{Cell, Measured, Place, murmur_ns, predict};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Lab};
use crate::{Error, Result};
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
    let found = lab.once(cell, || cell::measure(&Request::HashSharing(cell.clone())))?;
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
        let mut table = Report::new(
            title,
            &[
                self.axis,
                "device",
                "levels",
                "shared us",
                "per table us",
                "gain %",
                "+- %",
                "model gain %",
                "model gain with the paper's hash times %",
                "hash ns",
                "hashes shared",
                "hashes per table",
                "tables asked",
                "reads",
                "false positives %",
            ],
        );
        for point in &self.all {
            let seen = &point.seen;
            let (gain, with_murmur) = model(point)?;
            table.push(vec![
                point.x.into(),
                seen.device.to_string().into(),
                f64::from(seen.levels).into(),
                seen.shared_us.into(),
                seen.each_us.into(),
                (seen.gain * 100.0).into(),
                (seen.uncertain * 100.0).into(),
                gain.into(),
                with_murmur.into(),
                seen.hash_ns.into(),
                seen.shared_hashes.into(),
                seen.each_hashes.into(),
                seen.tables.into(),
                seen.reads.into(),
                (seen.false_positives * 100.0).into(),
            ]);
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
            Panel {
                title: format!("{}lookups, {}", self.part, device),
                x: self.axis.into(),
                y: "us per lookup".into(),
                log_y: false,
                series: vec![
                    line("a hash for each table", |seen| seen.each_us),
                    line("hash sharing", |seen| seen.shared_us),
                ],
            }
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

    /// Every lookup hashed its key once with sharing (if it asked any table), and once for each
    /// table without.
    pub(super) fn counted(&self) -> Claim {
        let once =
            |p: &&Point| p.seen.shared_hashes <= 1.0 && p.seen.each_hashes >= p.seen.tables - 1e-9;
        let good = self.all.iter().filter(once).count();
        let most = self
            .all
            .iter()
            .map(|p| p.seen.each_hashes)
            .fold(0.0, f64::max);
        Claim::statement(
            "hashes of a lookup: one with sharing, one for each table without",
            "1 and as many as levels",
            format!(
                "in {good} of {} points; up to {most:.1} without sharing",
                self.all.len()
            ),
            good == self.all.len(),
        )
    }
}

/// A gain in percent of the paper beside the measured one; if it falls short, why: the hash is
/// quicker.
pub(super) fn gain(what: &str, paper: f64, point: Option<&Point>) -> Result<Claim> {
    let untold = || Error::InvalidSetting(format!("{what}: not measured"));
    let point = point.ok_or_else(untold)?;
    let seen = &point.seen;
    let (model, with_paper_s) = model(point)?;
    let (here, in_paper) = (murmur_here(point.key), murmur_ns(point.key));
    let with_murmur = predict(seen, here)?.with_murmur * 100.0;
    let claim = Claim::figure(format!("{what}, %"), paper, seen.gain * 100.0);
    let saved = seen.each_hashes - seen.shared_hashes;
    let explained = saved * seen.hash_ns / 1e3 / seen.each_us * 100.0;
    let rest = if paper > with_paper_s {
        format!(
            ", still {:.1} less than the paper has",
            paper - with_paper_s
        )
    } else {
        String::new()
    };
    Ok(claim.because(true, format!(
        "{saved:.1} hashes less of {:.0} ns are {explained:.1} % of the {:.2} us of a lookup (the model's gain: \
         {model:.1} %; measured {:.1} ± {:.1}). XXH3 is quicker than the paper's MurmurHash64, which takes \
         {here:.0} ns for such a key here: with it the model says {with_murmur:.1} %; and this machine is quicker \
         than the paper's, where it took {in_paper:.0} ns: with that {with_paper_s:.1} %{rest}",
        seen.hash_ns,
        seen.each_us,
        seen.gain * 100.0,
        seen.uncertain * 100.0,
    )))
}

/// The gain measured, in percent, for sentences.
pub(super) fn percent(points: &[&Point]) -> String {
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

/// Whether the last gain is no smaller than the first: by no more than both are uncertain, and a
/// tenth.
pub(super) fn grows(points: &[&Point]) -> bool {
    match (points.first(), points.last()) {
        (Some(first), Some(last)) => {
            // Noise excuses a tenth at most.
            let noise = first.seen.uncertain + last.seen.uncertain;
            let excused = noise.min(first.seen.gain.abs() / 10.0);
            last.seen.gain >= first.seen.gain - excused && last.seen.gain > 0.0
        }
        _ => false,
    }
}
