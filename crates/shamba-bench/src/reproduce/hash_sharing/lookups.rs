//! What the figures of lookups have in common: trees of which one thing varies, the gain of hash
//! sharing over it, and what may be said of the gain.
//!
//! After Zhu, Mun, Raman, Athanassoulis, "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern
//! Storage Devices" (DaMoN 2021), section 5. Its hash is MurmurHash64, 235 ns for 1 KiB (Table 1);
//! ours is XXH3, several times quicker, so that there is less to gain: beside the gain measured
//! stands that of Eqs. 4 and 8 of `shamba_model::hash_sharing`, with our hash and with the paper's.
//! `T_H` is measured here, `T_D` is the device's, and `T_P` what is left of the measured lookup
//! with sharing. A visit to a table costs more than a probe; `T_P` holds all of it.
use super::pairs::Measured;
use super::tree::{Cell, Place, name};
use crate::cell;
use crate::reproduce::claim::{TOLERANCE, WHERE};
use crate::reproduce::prelude::*;
use shamba_model::hash_sharing::{Times, leveling};

/// MurmurHash64 of 1 KiB in nanoseconds (Table 1).
const MURMUR_KIB: f64 = 235.0;

/// The axis of a gain: axes begin at 0.
pub(super) const GAIN: &str = "gain, % (less than 0 as 0)";

/// The line of the model with the paper's hash.
const PAPERS_HASH: &str = "model with the paper's hash times";

/// What MurmurHash64 of a key of so many bytes takes in the paper, in nanoseconds.
pub(super) fn murmur_ns(key: usize) -> f64 {
    MURMUR_KIB * key as f64 / 1024.0
}

/// The paper's default: keys of 512 B in entries of 1 KB, 5 levels, 10 bits per key, empty lookups.
pub(super) fn base(lab: &Lab<'_>, devices: &[Place]) -> Cell {
    let scale = lab.scale;
    Cell {
        key: 512,
        value: 512,
        levels: scale.tiny_or(3, 5),
        size_ratio: 2,
        tiered: false,
        data: scale.pick(256 << 10, 8 << 20, 64 << 20, 512 << 20),
        bits_per_key: 10.0,
        distribution: Distribution::Uniform,
        devices: devices.to_vec(),
        empty: vec![1.0],
        batch: scale.tiny_or(20, 100),
        pairs: scale.pick(6, 400, 600, 2_000),
        repeat: scale.pick(1, 4, 4, 5),
        seconds: scale.pick(0.2, 1.2, 3.0, 20.0),
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
    let found = lab.measured("hashing", cell, |_| cell::measure(cell))?;
    lab.note(format!("keys of {} B, {} levels", cell.key, cell.levels));
    Ok(found)
}

/// A gain of the paper in percent: so much, or more than that.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gain {
    Of(f64),
    MoreThan(f64),
}

impl Gain {
    fn percent(self) -> f64 {
        let (Self::Of(percent) | Self::MoreThan(percent)) = self;
        percent
    }
}

/// Trees of which one thing varies.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    /// What varies, with its unit.
    pub(super) axis: &'static str,
    /// Of the table.
    pub(super) title: &'static str,
    /// Begins the titles of panels: `(a) `.
    pub(super) part: &'static str,
    pub(super) devices: &'static [Place],
    /// The trees, made of the common one.
    pub(super) trees: fn(Scale, Cell) -> Vec<Cell>,
    /// Where a measured point belongs on the axis.
    pub(super) at: fn(&Cell, &Measured) -> f64,
    /// Gains of the paper: of what, on which device, where on the axis, and the percentage.
    pub(super) paper: &'static [(&'static str, Place, f64, Gain)],
    /// The gain that grows along the axis, and how the paper says it.
    pub(super) trend: &'static str,
    pub(super) course: &'static str,
    /// Where it is to grow: on each of these devices, or from the first to the last of several.
    pub(super) rising: &'static [&'static [Place]],
}

/// A measured point.
pub(super) struct Point {
    /// On the axis.
    pub(super) x: f64,
    pub(super) seen: Measured,
}

/// The measured points of a sweep, in the order of its axis.
pub(super) struct Points {
    pub(super) sweep: Sweep,
    pub(super) all: Vec<Point>,
}

/// A number of a point, and a line of a panel that shows it.
pub(super) type Number = fn(&Point) -> f64;
type Line = (&'static str, Number);

impl Point {
    /// The gain in percent by the model (Eq. 4 for the levels of the tree, at the false-positive
    /// rate counted): with our hash and with the paper's. No numbers of a tree of one level, for
    /// which the closed form is not.
    fn model(&self) -> [f64; 2] {
        let seen = &self.seen;
        let rate = seen.false_positives / 100.0;
        let work = leveling(2, seen.levels, 1.0 - seen.empty, rate);
        let read = seen.device.map_or(0.0, |device| device.read_ns() as f64);
        // What the lookup with sharing takes besides its hash and its reads is the probes'.
        let rest = seen.shared_us * 1e3 - seen.hash_ns - seen.reads * read;
        [seen.hash_ns, murmur_ns(seen.key)].map(|hash| {
            let probe = (rest / seen.tables.max(1e-9)).max(0.0);
            let times = Times { hash, probe, read };
            let gain = work.as_ref().ok().and_then(|work| work.gain(&times).ok());
            gain.map_or(f64::NAN, |gain| gain * 100.0)
        })
    }

    fn row(&self, axis: &str) -> Vec<(String, crate::report::Cell)> {
        let (seen, [gain, with_murmur]) = (&self.seen, self.model());
        row! {
            axis: self.x,
            "device": name(seen.device),
            "levels": seen.levels,
            "shared us": seen.shared_us,
            "per table us": seen.each_us,
            "gain %": seen.gain,
            "+- %": seen.uncertain,
            "model gain %": gain,
            "model gain with the paper's hash times %": with_murmur,
            "hash ns": seen.hash_ns,
            "hashes shared": seen.shared_hashes,
            "hashes per table": seen.each_hashes,
            "tables asked": seen.tables,
            "reads": seen.reads,
            "false positives %": seen.false_positives,
        }
    }
}

impl Sweep {
    /// Measures what no other figure has.
    pub(super) fn measure(&self, lab: &mut Lab<'_>) -> Result<Points> {
        let mut all = Vec::new();
        for cell in (self.trees)(lab.scale, base(lab, self.devices)) {
            let seen = measure(lab, &cell)?;
            all.extend(seen.into_iter().map(|seen| Point {
                x: (self.at)(&cell, &seen),
                seen,
            }));
        }
        all.sort_by(|a, b| a.x.total_cmp(&b.x));
        Ok(Points { sweep: *self, all })
    }

    /// A figure that is this sweep alone.
    pub(super) fn findings(&self, lab: &mut Lab<'_>) -> Result<(Points, Findings)> {
        let points = self.measure(lab)?;
        let (setting, tables) = (setting(lab), [points.table()]);
        let findings = Findings::of(setting, tables, points.gains(), points.claims()?);
        Ok((points, findings))
    }
}

impl Points {
    /// Those of these devices.
    pub(super) fn on(&self, devices: &[Place]) -> impl Iterator<Item = &Point> {
        let on = |point: &&Point| devices.contains(&point.seen.device);
        self.all.iter().filter(on)
    }

    /// The point of a device there on the axis, or the last before, where a scale has none there.
    pub(super) fn at(&self, device: Place, x: f64) -> Option<&Point> {
        self.on(&[device]).filter(|point| point.x <= x).last()
    }

    /// Something of each point of a device.
    pub(super) fn each<T>(&self, device: Place, of: impl Fn(&Measured) -> T) -> Vec<T> {
        self.on(&[device]).map(|point| of(&point.seen)).collect()
    }

    pub(super) fn table(&self) -> Report {
        let row = |point: &Point| point.row(self.sweep.axis);
        Report::of(self.sweep.title, &self.all, row)
    }

    fn lines(&self, devices: &[Place], lines: &[Line]) -> Vec<Series> {
        let line = |(name, of): &Line| {
            let points = self.on(devices).map(|point| (point.x, of(point)));
            Series::of(*name, points)
        };
        lines.iter().map(line).collect()
    }

    /// A panel of both ways: what each has of a lookup, without sharing first.
    pub(super) fn both(&self, device: Place, what: &str, y: &str, of: [Number; 2]) -> Panel {
        let title = format!("{}{what}", self.sweep.part);
        let lines = [("a hash for each table", of[0]), ("hash sharing", of[1])];
        Panel::new(title, self.sweep.axis, y, self.lines(&[device], &lines))
    }

    /// The times of both ways.
    pub(super) fn times(&self, device: Place) -> Panel {
        let times: [Number; 2] = [|of| of.seen.each_us, |of| of.seen.shared_us];
        let title = format!("lookups, {}", name(device));
        self.both(device, &title, "us per lookup", times)
    }

    /// The gain on devices: measured, by the model, and by the model with the paper's hash; beside
    /// them the numbers of the paper, if it has any.
    pub(super) fn gain_lines(&self, devices: &[Place]) -> Vec<Series> {
        let lines: [Line; 3] = [
            ("measured", |of| of.seen.gain.max(0.0)),
            ("model", |of| of.model()[0].max(0.0)),
            (PAPERS_HASH, |of| of.model()[1].max(0.0)),
        ];
        let mut lines = self.lines(devices, &lines);
        let paper = (self.sweep.paper.iter()).filter(|(_, device, ..)| devices.contains(device));
        lines.push(Series::of(
            "paper",
            paper.map(|&(.., x, gain)| (x, gain.percent())),
        ));
        lines.retain(|line| !line.points.is_empty());
        lines
    }

    /// A panel of the gain for each device.
    pub(super) fn gains(&self) -> Vec<Panel> {
        let panel = |device: &Place| {
            let title = format!("{}gain of hash sharing, {}", self.sweep.part, name(*device));
            Panel::new(title, self.sweep.axis, GAIN, self.gain_lines(&[*device]))
        };
        self.sweep.devices.iter().map(panel).collect()
    }

    /// What the sweep has of the paper's gains, beside those measured.
    fn claims(&self) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        for &(what, device, x, paper) in self.sweep.paper {
            let untold = || Error::InvalidSetting(format!("{what}: not measured"));
            let point = self.at(device, x).ok_or_else(untold)?;
            claims.push(gain(what, paper, point));
        }
        claims.extend(self.trends());
        Ok(claims)
    }

    /// That the gain at the end of the axis is more than another sweep's, by more than both are
    /// uncertain by.
    pub(super) fn higher_at_the_end(&self, other: &Points, device: Place) -> Option<Claim> {
        let own = &self.on(&[device]).last()?.seen;
        let theirs = &other.on(&[device]).last()?.seen;
        let papers = other.sweep.paper.last().zip(self.sweep.paper.last());
        let papers = papers.map(|(theirs, own)| own.3.percent() - theirs.3.percent());
        let what = format!(
            "gain with the longest keys, Zipf over uniform lookups, {}, %",
            place(device)
        );
        let course = papers.map_or("higher".to_owned(), |more| {
            format!("higher, by {more} or more on its SSD")
        });
        let seen = format!("{}, uniform {}", own.gain(), theirs.gain());
        let apart = own.uncertain + theirs.uncertain;
        let claim = Claim::statement(what, course, seen, own.gain - theirs.gain > apart);
        let claim = claim.unless(is_unclear([theirs, own], papers), UNCLEAR);
        Some(by(claim, &[device]))
    }

    /// That gains grow along the axis: no step down by more than both ends of it are uncertain, and
    /// more at the end than at the beginning by more than that.
    pub(super) fn trends(&self) -> impl Iterator<Item = Claim> {
        self.sweep.rising.iter().map(|devices| {
            let points: Vec<&Point> = self.on(devices).collect();
            // In units of what both are uncertain by.
            let rise = |a: &Measured, b: &Measured| (b.gain - a.gain) / (a.uncertain + b.uncertain);
            let falls = (points.windows(2)).any(|two| rise(&two[0].seen, &two[1].seen) < -1.0);
            let ends = points.first().zip(points.last());
            let grows = ends.is_some_and(|(first, last)| rise(&first.seen, &last.seen) > 1.0);
            let mut places: Vec<String> = devices.iter().map(|device| place(*device)).collect();
            if let [first, .., last] = &places[..] {
                places = vec![format!("{first} to {last}")];
            }
            let what = format!("{}, {}, %", self.sweep.trend, places.concat());
            let (course, holds) = (self.sweep.course, grows && !falls);
            let mut seen = joined(points.iter().map(|point| point.seen.gain()));
            if devices.len() == 1 {
                let at = joined(points.iter().map(|point| point.x.to_string()));
                seen += &format!(" ({} {at})", self.sweep.axis);
            }
            let claim = Claim::statement(what, course, seen, holds);
            let claim = match slower_at_the_end(&points).filter(|_| falls) {
                Some(place) => claim.because(true, place),
                None => claim,
            };
            let papers = self.sweep.paper.iter();
            let mut papers = papers.filter(|(_, device, ..)| devices.contains(device));
            let papers = papers.next().zip(papers.next_back());
            let papers = papers.map(|(first, last)| last.3.percent() - first.3.percent());
            let unclear = ends.is_none_or(|(a, b)| is_unclear([&a.seen, &b.seen], papers));
            by(claim.unless(!falls && unclear, UNCLEAR), devices)
        })
    }
}

/// Whether hashing keys of the same size takes half as long again at the end of the axis, or more,
/// in words: then not only lookups take longer there.
fn slower_at_the_end(points: &[&Point]) -> Option<String> {
    let [.., before, last] = points else {
        return None;
    };
    let [before, last] = [before, last].map(|point| &point.seen);
    let slower = before.key == last.key && last.hash_ns > 1.5 * before.hash_ns;
    slower.then(|| {
        format!(
            "{WHERE}at the last of these points everything takes longer: a lookup without sharing takes {:.1} us there and \
             {:.1} at the one before, and the hash of keys of the same {} B, in the same run, {:.0} ns and {:.0}",
            last.each_us, before.each_us, last.key, last.hash_ns, before.hash_ns
        )
    })
}

const UNCLEAR: &str = "the gains differ by less than they are uncertain by";

/// Whether nothing follows from two gains: they differ by no more than they are uncertain by, and
/// may differ by as much as the paper's, where it has both.
fn is_unclear([from, to]: [&Measured; 2], papers: Option<f64>) -> bool {
    let (more, apart) = (to.gain - from.gain, from.uncertain + to.uncertain);
    more.abs() <= apart && papers.is_none_or(|papers| papers <= more + apart)
}

/// A gain in percent of the paper beside the measured one; by the model where the device is one,
/// since the paper has a clock.
fn gain(what: &str, paper: Gain, point: &Point) -> Claim {
    let what = format!("{what}, {}, with XXH3, %", place(point.seen.device));
    let claim = match paper {
        Gain::Of(percent) => Claim::figure(what, percent, point.seen.gain),
        Gain::MoreThan(percent) => Claim::from_on(what, percent, &[point.seen.gain]),
    };
    by(with_another_hash(claim, paper, point), &[point.seen.device])
}

/// The claim of a point's gain with what the hash has to do with it, by the model. That ours is
/// another is the cause where the model comes to the measured gain with ours, and to the paper's
/// with the paper's; that it comes to the paper's or more with that alone is told.
pub(super) fn with_another_hash(claim: Claim, paper: Gain, point: &Point) -> Claim {
    let seen = &point.seen;
    let [own, with_murmur] = point.model();
    let near = |model: f64, of: f64| (model - of).abs() <= TOLERANCE * of.abs();
    let cause = format!(
        "XXH3 takes {:.0} ns for a key of {} B, the paper's MurmurHash64 in proportion to its 235 ns for 1 KB {:.0} ns; the model has {own:.1} % with the one \
         and {with_murmur:.1} % with the other",
        seen.hash_ns,
        seen.key,
        murmur_ns(seen.key)
    );
    let as_the_paper = match paper {
        Gain::Of(percent) => near(with_murmur, percent),
        Gain::MoreThan(percent) => with_murmur >= percent * (1.0 - TOLERANCE),
    };
    let told = own < paper.percent() && paper.percent() <= with_murmur;
    let claim = claim.because(told, format!("{WHERE}with the hash: {cause}"));
    claim.because(near(own, seen.gain) && as_the_paper, cause)
}

/// Where lookups were measured, for sentences.
fn place(device: Place) -> String {
    let model = device.and_then(Device::model);
    name(device) + model.map_or("", |_| " (a device model)")
}

/// The claim, by the model where one of its devices is one.
fn by(claim: Claim, devices: &[Place]) -> Claim {
    match devices.iter().flatten().find_map(|device| device.model()) {
        Some(_) => claim.by_model(),
        None => claim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point as the paper has them: absent keys of 1 KiB in memory.
    fn point(levels: u32, hash_ns: f64) -> Point {
        Point {
            x: 0.0,
            seen: Measured {
                empty: 1.0,
                key: 1024,
                levels,
                shared_us: 0.735,
                tables: 5.0,
                false_positives: 0.82,
                hash_ns,
                ..Measured::default()
            },
        }
    }

    #[test]
    fn another_hash_is_the_cause_where_the_model_comes_to_both() {
        let mut quick = point(5, 35.0);
        let [own, with_murmur] = quick.model();
        quick.seen.gain = own;
        let cause = |paper, point: &Point| gain("", Gain::Of(paper), point).cause;
        assert!(
            cause(with_murmur, &quick)
                .unwrap()
                .starts_with("XXH3 takes 35 ns")
        );
        assert_eq!(cause(1.3 * with_murmur, &quick), None);
        // With the paper's hash it would be more than the paper's: no cause, and told.
        let told = cause(0.8 * with_murmur, &quick).unwrap();
        assert!(told.starts_with(WHERE) && told.contains("35 ns"), "{told}");
        quick.seen.gain = 1.3 * own;
        assert!(cause(with_murmur, &quick).unwrap().starts_with(WHERE));
    }

    #[test]
    fn more_than_a_gain_is_what_is_claimed_of_more_than_it() {
        use crate::reproduce::Verdict::{Above, Below, Within};
        let verdict = |paper, seen| {
            let mut point = point(5, 35.0);
            point.seen.gain = seen;
            gain("", paper, &point).verdict
        };
        let of = [30.0, 40.0, 50.0].map(|seen| verdict(Gain::Of(40.0), seen));
        assert_eq!(of, [Below, Within, Above]);
        let more = [30.0, 40.0, 50.0].map(|seen| verdict(Gain::MoreThan(40.0), seen));
        assert_eq!(more, [Below, Within, Within]);
    }

    #[test]
    fn gains_too_near_to_tell_apart_are_not_the_paper_s_larger_rise() {
        let unclear = |gain, papers| {
            let [from, to] = [10.0, gain].map(|gain| Measured {
                gain,
                uncertain: 1.0,
                ..Measured::default()
            });
            is_unclear([&from, &to], papers)
        };
        let [within, beyond] = [Some(3.0), Some(3.1)];
        assert!(unclear(11.0, None) && unclear(11.0, within) && !unclear(11.0, beyond));
        assert!(!unclear(12.1, None) && !unclear(7.9, None) && !unclear(12.1, within));
    }

    #[test]
    fn the_model_is_asked_with_what_was_measured() {
        let [own, with_murmur] = point(5, 235.0).model();
        // T_P is 100 ns: sharing saves 4 of 5 * (235 + 100).
        assert!((own - 400.0 * 235.0 / 1675.0).abs() < 1e-9, "{own}");
        assert!((with_murmur - own).abs() < 1e-9);
        let [quick, quick_with_murmur] = point(5, 35.0).model();
        assert!(quick < own / 2.0 && quick_with_murmur > 2.0 * quick);
        assert!(point(1, 235.0).model()[0].is_nan());
    }
}
