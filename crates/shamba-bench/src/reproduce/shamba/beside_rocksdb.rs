//! Figures 13, 14 and 16: SHaMBa beside RocksDB itself; latency by this machine's clock, past the
//! page cache.
use super::pressure::short_of_memory;
use super::pressure::{self, ALL, Grid, MEMORY, micros, quicker, short, short_budgets};
use super::{first_modules, thresholds};
use crate::reproduce::prelude::*;

/// The disk that this machine has, and a RAM disk.
const DEVICES: [Device; 2] = [Device::Disk, Device::Ram];

const NOT_BUILT_IN: &str = "RocksDB is not in this build (cargo feature `rocksdb`)";

/// Why no verdict follows from how many times as fast as a baseline an engine of ours is.
pub(super) const OTHER_BASELINE: &str = "how many times as fast depends on what the baseline reads, and the paper's, RocksDB \
     with SHaMBa's filters and without, is not here: RocksDB itself is another engine, whose budget is its block cache alone, and \
     this engine with one filter a file reads other pages than RocksDB with one (the table of Figure 13 has both). Figures 13 \
     and 14 ask whether modules are quicker in one engine, and say where no verdict follows";

/// The least and the most times as fast on the paper's devices.
const GAIN: (f64, f64) = (1.4, 2.0);

/// The column of what is claimed of devices.
const TIMES: &str = "times as fast as the baseline";

/// Repetitions on each device, by seed; the fastest counts, the one least disturbed.
const REPEAT: u64 = 3;

/// Measures these engines of ours, whose names may hang on the budget, and RocksDB where it is
/// built in; `with_goals`: what our default does is judged too, which is the same in both figures.
pub(super) fn over_budget(lab: &mut Lab<'_>, with_goals: bool) -> Result<Findings> {
    let engines = lab.engines.clone();
    let peers = &engines[..engines.partition_point(|engine| engine.starts_with("rocksdb"))];
    let grid = Grid {
        positives: &[0.0, 1.0],
        device: Device::Disk,
        ..Grid::uniform(&engines, short_budgets(lab.scale))
    };
    let points = pressure::measure(lab, &grid)?;
    let pressed = short_of_memory(&points);
    // The first of ours has one filter a file, the last is not the paper's.
    let (plain, last) = (peers.len(), engines.len() - 1);
    let papers = (plain + 1..last).map(|engine| {
        let name = short(engines[engine]);
        let (pressed, place) = thresholds::judged(&engines, engine, &pressed);
        let place = place.unwrap_or("under pressure");
        let what =
            format!("{name}: lower latency than one filter a file {place}, both in this engine");
        let mut claim = quicker(what, &pressed, (engine, plain));
        if !peers.is_empty() {
            let all = pressed.len();
            let so = all - pressure::not_less(&pressed, (engine, 0), micros, ALL).len();
            claim.measured += &format!("; beside RocksDB itself, another engine, at {so} of {all}");
        }
        claim
    });
    let mut claims: Vec<Claim> = papers.collect();
    // Beside the same modules, all read: of those that are as large as memory the paper says so of
    // full skipping alone.
    let all = plain + 1;
    let claimed = (all + 1..last).filter(|engine| !engines[*engine].contains("-prop-p"));
    claims.extend(claimed.map(|engine| {
        let [own, other] = [engine, all].map(|at| short(engines[at]));
        let (pressed, place) = thresholds::judged(&engines, engine, &pressed);
        let place = place.unwrap_or("under pressure");
        let what = format!("{own}: lower latency than {other} {place}");
        quicker(what, &pressed, (engine, all))
    }));
    thresholds::without_verdicts(&engines, &points, &mut claims);
    let said = first_modules::Said::LeadsAllTheSame;
    first_modules::note(said, lab.scale.entries(), &engines, &points, &mut claims);
    let mut notes = thresholds::notes(&engines, &points);
    if peers.is_empty() {
        notes.push(NOT_BUILT_IN.to_owned());
    } else if with_goals {
        let what =
            "our default: lower latency than RocksDB's partitioned ribbon filters under pressure";
        claims.push(quicker(what, &pressed, (last, 1)).as_goal());
    }
    let setting = pressure::setting(lab) + &pressure::memory_of_both(lab)?;
    Ok(Findings {
        panels: pressure::panels_of(&engines, &points, "microseconds per lookup", micros),
        notes,
        ..pressure::findings(setting, &engines, &points, claims)
    })
}

pub(super) fn by_device(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = lab.base(STATE_OF_THE_ART);
    let budgets = lab.budgets(&base, short_budgets(lab.scale))?;
    let mut engines = lab.engines.clone();
    let peers = engines.extract_if(.., |engine| engine.starts_with("rocksdb"));
    let baseline = peers.last().unwrap_or(STATE_OF_THE_ART);
    let mut table = Report::titled("Times as fast as the baseline");
    let (mut claims, mut notes) = (Vec::new(), Vec::new());
    for device in DEVICES {
        for &engine in &engines {
            let name = short(engine);
            // Pages of filters that were read under pressure.
            let mut filters = 0.0;
            for &percent in &budgets {
                let (before, _) = least_micros(lab, baseline, percent, device)?;
                let (after, pages) = least_micros(lab, engine, percent, device)?;
                filters += if percent < 100.0 { pages } else { 0.0 };
                table.add(row! {
                    "device": device.to_string(),
                    "engine": name,
                    "budget %": percent,
                    "baseline, us": before,
                    "us": after,
                    TIMES: before / after,
                });
            }
            let own = table.rows_of("device", device.to_string());
            let times = own.rows_of("engine", name).points("budget %", TIMES);
            let pressed = times.iter().filter(|(percent, _)| *percent < 100.0);
            let times: Vec<f64> = pressed.map(|(_, times)| *times).collect();
            if filters == 0.0 {
                notes.push(format!(
                    "{name} reads no page of a filter on {device} under pressure: next to no module is worth what the \
                     paper's thresholds ask for."
                ));
            }
            // The default is ours; the paper's baseline is RocksDB.
            let what = format!("{name} on {device}: times as fast under pressure");
            let beside = short(baseline);
            let none = match filters {
                0.0 => "; it reads no page of a filter here",
                _ => "",
            };
            claims.push(match engine {
                "shamba" => {
                    let what = format!("{what} as {beside}, at least");
                    Claim::goal_from(what, GAIN.0, least_of(&times))
                }
                _ => Claim::range(&what, GAIN, &times)
                    .without_verdict(format!("{OTHER_BASELINE}{none}")),
            });
        }
    }
    let panels = plot::of_report(&table, "device", "engine", "budget %", TIMES).into_iter();
    let panels = panels.map(|panel| panel.over(MEMORY).logarithmic().beside(GAIN));
    let setting = format!(
        "{}{}; uniform empty lookups; baseline {}; times are this machine's, the least of three, on its disk past the page \
         cache and on a RAM disk.",
        pressure::setting(lab),
        pressure::memory_of_both(lab)?,
        short(baseline)
    );
    Ok(Findings::of(setting, [table], panels, claims).noting(notes))
}

/// Microseconds of a lookup, and the pages of filters that lookups read.
fn least_micros(
    lab: &mut Lab<'_>,
    engine: &str,
    percent: f64,
    device: Device,
) -> Result<(f64, f64)> {
    let (mut least, mut filters) = (f64::INFINITY, 0.0);
    for seed in 0..REPEAT {
        let mut trial = lab.lookups(engine, percent, 0.0, Distribution::Uniform)?;
        // Others than those of the next seed of the experiment.
        trial.seed += 100 * seed;
        let found = lab.measure(&trial.on(device))?;
        least = least.min(found.times.mean_us);
        filters += pressure::filter_pages(&found);
    }
    Ok((least, filters))
}
