//! Figure 12 (A to F): lookup cost over the number of entries, their size, and filter memory.
use super::trees::{self, BesideModel};
use crate::device::Device;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups, Seen};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::shamba::pressure::crossing;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-12",
    title: "Lookups over the number of entries, their size, and filter memory",
    claim: "(A, B) As entries grow in number or size, lookups with uniform filters take ever longer, with \
            Monkey's equally long: up to 60 % less. (C, D) For absent keys Monkey does with 6 bits per key \
            what uniform filters do with 10, (E, F) for existing ones with 4, where Monkey for these is \
            about 10 % better than Monkey for absent keys. SSD and HDD alike.",
    seconds: 20.0,
    run,
};

/// The bits of uniform filters whose work is to be done with fewer.
const USUAL: f64 = 10.0;

/// The smallest tree that is set beside the model: 2^10 entries.
const LEAST: f64 = 10.0;

/// Curves of one part of the figure: for each kind of filters a name and its points.
struct Part {
    title: &'static str,
    x: &'static str,
    points: Vec<(Filters, f64, Seen)>,
}

impl Part {
    fn of(&self, filters: Filters) -> Vec<(f64, Seen)> {
        let points = self.points.iter().filter(|(of, ..)| *of == filters);
        points.map(|(_, x, seen)| (*x, *seen)).collect()
    }

    fn kinds(&self) -> Vec<Filters> {
        let mut kinds = Vec::new();
        for (filters, ..) in &self.points {
            if !kinds.contains(filters) {
                kinds.push(*filters);
            }
        }
        kinds
    }

    /// Latency on a device: a read for each search.
    fn panel(&self, letter: char, device: Device) -> Panel {
        let (unit, ns) = match device {
            Device::Hdd => ("ms", 1e6),
            _ => ("us", 1e3),
        };
        let each = device.read_ns() as f64 / ns;
        let mut series: Vec<Series> = Vec::new();
        for filters in self.kinds() {
            let name = trees::name(filters);
            for (x, seen) in self.of(filters) {
                trees::add(&mut series, name, (x, seen.searches * each));
                trees::add(
                    &mut series,
                    &format!("{name}, model"),
                    (x, seen.model * each),
                );
            }
        }
        Panel {
            title: format!("({letter}) {}, {device}", self.title),
            x: self.x.into(),
            y: format!("{unit} per lookup"),
            log_y: false,
            series,
        }
    }

    fn rows(&self, part: &str, table: &mut Report) {
        for (filters, x, seen) in &self.points {
            let latency = |device: Device| seen.searches * device.read_ns() as f64 / 1e3;
            table.add(row! {
                "part": part,
                "over": self.x,
                "at": *x,
                "filters": trees::name(*filters),
                "searches": seen.searches,
                "model": seen.model,
                "reads": seen.reads,
                "sata-ssd us": latency(Device::SataSsd),
                "hdd us": latency(Device::Hdd),
            });
        }
    }
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (entries, sizes) = (by_entries(lab)?, by_size(lab)?);
    let (absent, existing) = by_bits(lab)?;
    let mut table = Report::titled("Searches and reads of a lookup, and latencies of its searches");
    let mut beside = BesideModel::default();
    for (part, name) in [
        (&entries, "A"),
        (&sizes, "B"),
        (&absent, "C, D"),
        (&existing, "E, F"),
    ] {
        part.rows(name, &mut table);
        // Of small trees' filters each errs by chance more or less than it should.
        let least = if name == "A" { LEAST } else { f64::MIN };
        for (_, _, seen) in part.points.iter().filter(|(_, x, _)| *x >= least) {
            beside.add(seen.searches, seen.model, trees::count(lab));
        }
    }
    let mut claims = growth(&entries, "entries", |what, saved| {
        Claim::up_to(what + ", up to", 60.0, saved)
    });
    // The paper has no number for larger entries but that of its abstract, for all data sizes.
    claims.extend(growth(&sizes, "bytes of an entry", |what, saved| {
        let largest = saved
            .get(saved.len().saturating_sub(1)..)
            .unwrap_or_default();
        Claim::range(what + ", the most of them", (50.0, 80.0), largest)
    }));
    claims.extend(memory(&absent, &existing));
    claims.push(beside.claim("measured searches are the model's"));
    Ok(Findings {
        setting: format!(
            "{} Latencies: searches times what the modelled devices take for a page (sata-ssd 98 us, hdd 8 ms; \
             the paper's 360 us and 1.9 ms).",
            trees::setting(lab)
        ),
        panels: vec![
            entries.panel('A', Device::SataSsd),
            sizes.panel('B', Device::SataSsd),
            absent.panel('C', Device::SataSsd),
            absent.panel('D', Device::Hdd),
            existing.panel('E', Device::SataSsd),
            existing.panel('F', Device::Hdd),
        ],
        claims,
        tables: vec![table],
        ..Findings::default()
    })
}

fn empty(lab: &mut Lab<'_>, tree: FullTree) -> Result<Seen> {
    Ok(trees::equal(lab, tree, &[Lookups::Mixed(0.0)])?.lookups[0])
}

/// A: more and more entries with one buffer.
fn by_entries(lab: &mut Lab<'_>) -> Result<Part> {
    let mut points = Vec::new();
    let default = trees::default(lab);
    for filters in [Filters::Uniform, Filters::Zero] {
        for levels in 1..=default.levels {
            let tree = FullTree {
                levels,
                filters,
                ..default
            };
            points.push((filters, (tree.entries() as f64).log2(), empty(lab, tree)?));
        }
    }
    Ok(Part {
        title: "more entries, empty lookups",
        x: "entries, power of two",
        points,
    })
}

/// B: larger and larger entries, of which fewer and fewer fill the buffer.
fn by_size(lab: &mut Lab<'_>) -> Result<Part> {
    let mut points = Vec::new();
    let default = trees::default(lab);
    // As many entries in each tree, half of what the largest other tree has.
    let most = default.levels.max(3);
    for filters in [Filters::Uniform, Filters::Zero] {
        for levels in 2..=most {
            let value = 8 << (levels - 2);
            let tree = FullTree {
                levels,
                buffer_entries: (default.buffer_entries << (most - levels)) / 2,
                value,
                filters,
                ..default
            };
            points.push((filters, (value as f64).log2(), empty(lab, tree)?));
        }
    }
    Ok(Part {
        title: "larger entries, empty lookups",
        x: "bytes of a value, power of two",
        points,
    })
}

/// C, D and E, F: the largest tree with more and more filter memory.
fn by_bits(lab: &mut Lab<'_>) -> Result<(Part, Part)> {
    let many: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
    let quick: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let bits = lab.scale.pick(&[4.0, 10.0][..], quick, many, many);
    let (mut absent, mut existing) = (Vec::new(), Vec::new());
    for filters in [Filters::Uniform, Filters::Zero, Filters::General(1.0)] {
        for &bits_per_key in bits {
            let tree = FullTree {
                bits_per_key,
                filters,
                ..trees::default(lab)
            };
            let seen = trees::mixes(lab, tree)?;
            let (first, last) = (seen.lookups[0], seen.lookups[trees::MIXES.len() - 1]);
            if filters != Filters::General(1.0) {
                absent.push((filters, seen.bits_per_key, first));
            }
            existing.push((filters, seen.bits_per_key, last));
        }
    }
    let part = |title, points| Part {
        title,
        x: "bits per key",
        points,
    };
    Ok((
        part("filter memory, empty lookups", absent),
        part("filter memory, existing keys", existing),
    ))
}

/// What is claimed as data grow.
fn growth(part: &Part, what: &str, claim: fn(String, &[f64]) -> Claim) -> Vec<Claim> {
    let (even, best) = (part.of(Filters::Uniform), part.of(Filters::Zero));
    let reads =
        |points: &[(f64, Seen)], at: usize| points.get(at).map_or(f64::NAN, |p| p.1.searches);
    let last = even.len().saturating_sub(1);
    // From few levels on Monkey's cost has yet to come near its limit.
    let middle = last.saturating_sub(3);
    let saved = |at: usize| 1.0 - reads(&best, at) / reads(&even, at);
    let all: Vec<f64> = (0..=last).map(|at| saved(at) * 100.0).collect();
    let most = format!("searches that Monkey saves with more {what}, %");
    vec![
        claim(most, &all),
        Claim::statement(
            format!("Monkey's margin grows with {what}, % three levels before the end and at it"),
            "yes",
            format!("{:.0}, {:.0}", saved(middle) * 100.0, saved(last) * 100.0),
            saved(last) > saved(middle),
        ),
        Claim::statement(
            format!("growth of searches over the last doublings, three levels, of {what}"),
            "Monkey's stay, uniform's grow",
            format!(
                "Monkey {:.2} times, uniform {:.2} times",
                reads(&best, last) / reads(&best, middle),
                reads(&even, last) / reads(&even, middle)
            ),
            reads(&best, last) / reads(&best, middle) < 1.1
                && reads(&even, last) / reads(&even, middle) > 1.2,
        ),
    ]
}

/// The bits with which Monkey's filters do what uniform ones do with ten.
fn equal_bits(part: &Part, filters: Filters) -> Option<f64> {
    let even = part.of(Filters::Uniform);
    let goal = even.iter().find(|(bits, _)| *bits > USUAL - 0.5)?.1;
    let measured: Vec<(f64, f64)> = (part.of(filters).iter())
        .map(|(bits, seen)| (*bits, seen.in_vain))
        .collect();
    crossing(&measured, goal.in_vain)
}

/// What is claimed of filter memory.
fn memory(absent: &Part, existing: &Part) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (part, filters, paper, what) in [
        (absent, Filters::Zero, 6.0, "absent"),
        (existing, Filters::General(1.0), 4.0, "existing"),
    ] {
        let bits = equal_bits(part, filters).unwrap_or(f64::NAN);
        claims.push(
            Claim::figure(
                format!("bits per key with which Monkey searches for {what} keys what uniform filters of {USUAL} do"),
                paper,
                bits,
            ),
        );
    }
    let (even, best) = (absent.of(Filters::Uniform), absent.of(Filters::Zero));
    let saved = even
        .iter()
        .zip(&best)
        .map(|(even, best)| 1.0 - best.1.searches / even.1.searches);
    claims.push(Claim::figure(
        "share of empty lookups' searches that Monkey saves at best, %",
        50.0,
        saved.fold(f64::MIN, f64::max) * 100.0,
    ));
    let (zero, general) = (
        existing.of(Filters::Zero),
        existing.of(Filters::General(1.0)),
    );
    let pairs = || zero.iter().zip(&general);
    let gain = pairs().map(|(zero, general)| 1.0 - general.1.searches / zero.1.searches);
    claims.push(Claim::figure(
        "share of existing lookups' searches that Monkey for them saves over Monkey for absent keys at best, %",
        10.0,
        gain.fold(f64::MIN, f64::max) * 100.0,
    ));
    claims
}
