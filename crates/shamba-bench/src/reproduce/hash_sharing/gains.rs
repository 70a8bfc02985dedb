//! Figures 8 to 14: the gain of hash sharing by what varies.
use super::lookups::{self, GAIN, Gain, Number, Points, Sweep};
use super::tree::{Cell, FAST_SSD, NVM, PCIE_SSD, Place, RAM, RESIDENT, SATA_SSD};
use crate::reproduce::prelude::*;

/// A tree for each number of bytes of a key, all with entries of `entry` bytes.
fn by_key(keys: &[usize], entry: usize, base: &Cell) -> Vec<Cell> {
    let tree = |&key: &usize| Cell {
        key,
        value: entry - key,
        ..base.clone()
    };
    keys.iter().map(tree).collect()
}

/// Bytes of a key.
const KEYS: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

/// Entries of 2 KB, as in the paper.
fn large_entries(scale: Scale, base: Cell) -> Vec<Cell> {
    let keys = scale.pick(&[8, 256][..], &[16, 128, 512, 1024], &KEYS, &KEYS);
    by_key(keys, 2048, &base)
}

/// Figure 8 (a), of which the others differ in part.
const BY_KEY: Sweep = Sweep {
    axis: "bytes of a key",
    title: "By key size (a)",
    part: "",
    devices: &[FAST_SSD, RAM],
    trees: large_entries,
    at: |cell, _| cell.key as f64,
    paper: &[("gain by key size", FAST_SSD, 1024.0, Gain::Of(23.0))],
    trend: "gain by key size",
    course: "more beneficial for larger keys",
    rising: &[&[RAM]],
};

/// Bytes of data over 2^levels in (b): a write buffer has two thirds of it.
const BUFFER: u64 = 32 << 10;

/// The fewest levels in the paper's Figure 8 (b).
const PAPER_LEVELS: u32 = 8;

/// Figure 8 (b).
const BY_LEVELS: Sweep = Sweep {
    axis: "levels",
    title: "By levels (b)",
    part: "(b) ",
    trees: |scale, base| {
        // One write buffer, ever more data; smaller entries than elsewhere, to be written in time.
        let tree = |&levels: &u32| Cell {
            levels,
            value: 16,
            data: BUFFER << levels,
            ..base.clone()
        };
        let levels = scale.pick(
            &[2, 4][..],
            &[4, 6, 8, 10],
            &[4, 6, 8, 10, 12],
            &[8, 9, 10, 11, 12, 13, 14],
        );
        levels.iter().map(tree).collect()
    },
    at: |_, seen| f64::from(seen.levels),
    paper: &[],
    trend: "gain by the number of levels",
    course: "a small improvement",
    ..BY_KEY
};

pub(super) fn figure_8(lab: &mut Lab<'_>) -> Result<Findings> {
    let keys = Sweep {
        part: "(a) ",
        ..BY_KEY
    };
    let (keys, mut levels) = (keys.measure(lab)?, BY_LEVELS.measure(lab)?);
    let tables = [keys.table(), levels.table()];
    let mut panels = keys.gains();
    let hashes: [Number; 2] = [|of| of.seen.each_hashes, |of| of.seen.shared_hashes];
    panels.push(levels.both(RAM, "hashes counted", "hashes per empty lookup", hashes));
    panels.extend(levels.gains());
    panels.push(keys.times(FAST_SSD));
    // What fewer levels than the paper's have is told, and not judged.
    levels.all.retain(|point| point.seen.levels >= PAPER_LEVELS);
    let what = "gain by key size, fast-pcie-ssd (a device model), %";
    let gain = Claim::up_to(what, 23.0, &keys.each(FAST_SSD, |seen| seen.gain));
    let most = keys.on(&[FAST_SSD]);
    let most = most.max_by(|a, b| a.seen.gain.total_cmp(&b.seen.gain));
    let gain = match most {
        Some(most) => lookups::with_another_hash(gain, Gain::Of(23.0), most),
        None => gain,
    };
    let gain = gain.by_model();
    let trends = keys.trends().chain(levels.trends());
    let claims = std::iter::once(gain).chain(trends);
    Ok(Findings::of(lookups::setting(lab), tables, panels, claims))
}

/// A part that is negligible, in percent: the paper gives no number.
const LITTLE: f64 = 10.0;

pub(super) fn figure_9(lab: &mut Lab<'_>) -> Result<Findings> {
    let sweep = Sweep {
        title: "Small keys",
        trees: |scale, base| {
            let keys = scale.pick(&[8, 32][..], &[8, 32, 256], &KEYS[..6], &KEYS[..6]);
            by_key(keys, 512, &base)
        },
        paper: &[],
        trend: "gain by key size, entries of 512 B",
        course: "diminishes for smaller keys",
        ..BY_KEY
    };
    let (points, mut findings) = sweep.findings(lab)?;
    let hashing = points.each(RAM, |seen| seen.hashing()[0])[0];
    let what = format!(
        "share of a lookup without sharing that is hashing, keys of 8 B, ram, % (under {LITTLE})"
    );
    let seen = format!("{hashing:.1}");
    let little = Claim::statement(what, "negligible", seen, hashing < LITTLE);
    findings.claims.push(little);
    findings.panels.push(points.times(FAST_SSD));
    Ok(findings)
}

const ZIPF: Distribution = Distribution::Zipf(0.99);

pub(super) fn figure_10(lab: &mut Lab<'_>) -> Result<Findings> {
    let skewed = Sweep {
        title: "Zipfian lookups",
        trees: |scale, mut base| {
            base.distribution = ZIPF;
            large_entries(scale, base)
        },
        paper: &[(
            "gain at keys of 1 KB",
            FAST_SSD,
            1024.0,
            Gain::MoreThan(60.0),
        )],
        course: "increases (the paper: steeply, which is not judged)",
        ..BY_KEY
    };
    let uniform = Sweep {
        title: "Uniform lookups, the same keys",
        ..BY_KEY
    };
    let (skewed, mut findings) = skewed.findings(lab)?;
    let uniform = uniform.measure(lab)?;
    findings.tables.push(uniform.table());
    let higher = |device: &Place| skewed.higher_at_the_end(&uniform, *device);
    let higher = BY_KEY.devices.iter().filter_map(higher);
    findings.claims.extend(higher);
    let (rates, even) = (choices(lab, ZIPF)?, choices(lab, Distribution::Uniform)?);
    let title = "False positives by the choice of the popular keys, %";
    let by_choice = (1u32..).zip(rates.iter().zip(&even));
    let by_choice = Report::of(title, by_choice, |(choice, (zipf, uniform))| {
        row! { "choice": choice, "Zipfian lookups": *zipf, "uniform lookups": *uniform }
    });
    findings.tables.push(by_choice);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let what = format!(
        "false positives of Zipfian lookups, mean of {} choices of the popular keys, %",
        rates.len()
    );
    let untold = "the paper tells neither how skewed its lookups are nor how many choices of popular keys it has, and \
                  which keys are popular decides whether they pass (the table)";
    let skewed = Claim::figure(what, 0.08, mean(&rates)).without_verdict(untold);
    let what = "false positives of uniform lookups of the same trees, %";
    let uniform = Claim::figure(what, 0.8, mean(&even));
    findings.claims.extend([skewed, uniform]);
    Ok(findings)
}

/// False positives in percent, by which keys are popular.
fn choices(lab: &mut Lab<'_>, distribution: Distribution) -> Result<Vec<f64>> {
    let mut rates = Vec::new();
    for seed in 0..lab.scale.pick(1, 6, 12, 12) {
        let cell = Cell {
            key: 16,
            value: 100,
            data: 1 << 20,
            distribution,
            repeat: 1,
            pairs: lab.scale.pick(6, 200, 400, 400),
            seed: lab.seed + seed,
            ..lookups::base(lab, &[RAM])
        };
        let seen = lookups::measure(lab, &cell)?;
        rates.extend(seen.iter().map(|seen| seen.false_positives));
    }
    Ok(rates)
}

/// From the slowest to the fastest, as the axis numbers them.
const DEVICES: [Place; 6] = [SATA_SSD, PCIE_SSD, FAST_SSD, NVM, RAM, RESIDENT];

pub(super) fn figure_11(lab: &mut Lab<'_>) -> Result<Findings> {
    let sweep = Sweep {
        axis: "device",
        title: "By device",
        part: "",
        devices: &DEVICES,
        trees: |_, base| vec![base],
        at: |_, seen| {
            let slower = DEVICES.iter().position(|device| *device == seen.device);
            slower.map_or(f64::NAN, |slower| slower as f64 + 1.0)
        },
        // In memory also the figure of Figures 12 and 14: it is judged once.
        paper: &[
            ("gain", SATA_SSD, 1.0, Gain::Of(10.0)),
            ("gain", RAM, 5.0, Gain::MoreThan(40.0)),
        ],
        trend: "gain from the slowest device to the fastest",
        course: "increases as the storage latency reduces",
        rising: &[&DEVICES],
    };
    let (points, mut findings) = sweep.findings(lab)?;
    let lines = points.gain_lines(&DEVICES);
    let axis = "device, from slow to fast";
    findings.panels = vec![Panel::new("gain by device", axis, GAIN, lines)];
    Ok(findings)
}

pub(super) fn figure_12(lab: &mut Lab<'_>) -> Result<Findings> {
    let sweep = Sweep {
        axis: "bits per key",
        title: "By bits per key",
        part: "",
        devices: &[SATA_SSD, FAST_SSD, RAM],
        trees: |scale, base| {
            let tree = |&bits_per_key: &f64| Cell {
                bits_per_key,
                ..base.clone()
            };
            let all = &[8.0, 10.0, 12.0, 14.0];
            let bits = scale.pick(&all[..2], &[8.0, 10.0, 14.0], all, all);
            bits.iter().map(tree).collect()
        },
        at: |cell, _| cell.bits_per_key,
        paper: &[("gain at 10 bits", FAST_SSD, 10.0, Gain::MoreThan(10.0))],
        trend: "gain by bits per key",
        course: "increases",
        rising: &[&[FAST_SSD], &[RAM]],
    };
    let (points, mut findings) = sweep.findings(lab)?;
    let tables = points.each(RAM, |seen| seen.tables);
    if most_of(&tables) > least_of(&tables) {
        findings.notes.push(format!(
            "The trees differ in more than bits: an empty lookup asks {tables:.2?} tables with so many bits per key, the \
             fewest first, and of fewer there is less to gain."
        ));
    }
    Ok(findings)
}

/// Figures 13 and 14 differ in the device and what is said of it.
const BY_SHARE: Sweep = Sweep {
    axis: "share of empty lookups",
    title: "By the share of empty lookups",
    trees: |scale, base| {
        let shares = scale.pick(
            &[1.0, 0.0][..],
            &[1.0, 0.5, 0.0],
            &[1.0, 0.75, 0.5, 0.25, 0.0],
            &[1.0, 0.8, 0.6, 0.4, 0.2, 0.0],
        );
        let empty = shares.to_vec();
        vec![Cell { empty, ..base }]
    },
    at: |_, seen| seen.empty,
    trend: "gain by the share of empty lookups",
    ..BY_KEY
};

/// A figure with the times beside the gain.
pub(super) fn figure_13(lab: &mut Lab<'_>) -> Result<Findings> {
    let sweep = Sweep {
        devices: &[FAST_SSD],
        paper: &[(
            "gain with 1 of lookups empty",
            FAST_SSD,
            1.0,
            Gain::Of(17.0),
        )],
        course: "increases",
        rising: &[&[FAST_SSD]],
        ..BY_SHARE
    };
    let (points, mut findings) = timed(&sweep, lab)?;
    let gain = points
        .at(FAST_SSD, 0.0)
        .map_or(f64::NAN, |point| point.seen.gain);
    let what = format!(
        "gain with none of lookups empty, fast-pcie-ssd (a device model), % (under {LITTLE}, our limit)"
    );
    let little = Claim::statement(what, "negligible", format!("{gain:.2}"), gain < LITTLE);
    findings.claims.push(little.by_model());
    Ok(findings)
}

pub(super) fn figure_14(lab: &mut Lab<'_>) -> Result<Findings> {
    let sweep = Sweep {
        devices: &[RAM],
        paper: &[("gain with 0 of lookups empty", RAM, 0.0, Gain::Of(10.0))],
        course: "grows",
        ..BY_SHARE
    };
    Ok(timed(&sweep, lab)?.1)
}

fn timed(sweep: &Sweep, lab: &mut Lab<'_>) -> Result<(Points, Findings)> {
    let (points, mut findings) = sweep.findings(lab)?;
    let times = sweep.devices.iter().map(|device| points.times(*device));
    findings.panels.extend(times);
    Ok((points, findings))
}
