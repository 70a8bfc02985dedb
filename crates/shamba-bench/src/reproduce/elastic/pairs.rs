//! The same operations without and with ElasticBF: the slides' micro-benchmark, lookups among
//! writes, and YCSB.
use super::common::{self, BITS, CLUSTERED, MEMORY, WITH, WITHOUT, WORKLOADS};
use super::common::{device_us, false_positives, filter_kb, ratio};
use crate::reproduce::prelude::*;

/// The same operations without and with ElasticBF.
pub(super) struct Pair {
    pub(super) without: Found,
    pub(super) with: Found,
}

/// Columns of every table of pairs: how many times the operations per second by the device model,
/// and reads, false positives and bytes of filters in memory, with over without.
pub(super) const FASTER: &str = "times as fast, device model";
pub(super) const READS: &str = "reads left";
pub(super) const FALSE_POSITIVES: &str = "false positives left";
pub(super) const FILTERS: &str = "filter memory, times";

impl Pair {
    /// What `found` gives for both: by default for [`WITHOUT`] and [`WITH`].
    pub(super) fn of(
        [without, with]: [&str; 2],
        mut found: impl FnMut(&str) -> Result<Found>,
    ) -> Result<Self> {
        Ok(Self {
            without: found(without)?,
            with: found(with)?,
        })
    }

    /// Operations on the standard database.
    fn measure(lab: &mut Lab<'_>, mix: &Mix) -> Result<Self> {
        let base = common::base(lab, WITH);
        Self::of([WITHOUT, WITH], |engine| {
            let trial = common::trial(lab, &base, engine, MEMORY, mix.clone())?;
            lab.measure(&trial)
        })
    }

    /// A number of both.
    fn both(&self, name: &str, of: fn(&Found) -> f64) -> Vec<(String, Cell)> {
        let [without, with] = ["without", "with"].map(|which| format!("{name} {which}"));
        row! { without: of(&self.without), with: of(&self.with) }
    }

    /// All that is told of both; `us` counts the microseconds of an operation.
    pub(super) fn columns(&self, us: fn(&Found) -> f64) -> Vec<(String, Cell)> {
        let left = |of: fn(&Found) -> f64| ratio(of(&self.with), of(&self.without));
        [
            self.both("reads", Found::reads),
            self.both("false positives", false_positives),
            self.both("us of device model", us),
            self.both("filter KB in memory", filter_kb),
            row! {
                FASTER: ratio(us(&self.without), us(&self.with)),
                READS: left(Found::reads),
                FALSE_POSITIVES: left(false_positives),
                FILTERS: left(filter_kb),
            },
        ]
        .concat()
    }
}

/// The reads saved in percent.
fn saved(table: &Report) -> Vec<f64> {
    let left = table.numbers(READS).into_iter();
    left.map(|left| (1.0 - left) * 100.0).collect()
}

const EXISTING: &str = "share of existing keys";

/// Why no verdict follows from what lookups save.
pub(super) const UNTOLD: &str = "the slides name YCSB-C, the program or its mix C, and tell neither how keys are chosen \
                                 nor how many exist: the savings here go from the one end to the other by both";

pub(super) fn micro_benchmark(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Lookups without and with ElasticBF");
    for (name, distribution) in WORKLOADS {
        for positive in [0.0, 0.5, 1.0] {
            let pair = Pair::measure(lab, &Mix::lookups(positive, distribution))?;
            let place = row! { "workload": name, EXISTING: positive };
            table.add([place, pair.columns(device_us)].concat());
        }
        lab.note(name);
    }
    let saved = Claim::range(
        "I/Os saved, all workloads, with none, half and all of the keys existing, %",
        (60.0, 60.0),
        &saved(&table),
    );
    let untold = format!(
        "{UNTOLD}; and ElasticBF's filters in memory have {:.2} to {:.2} times the bytes of the others",
        table.least(FILTERS),
        table.most(FILTERS)
    );
    let mut claims = vec![saved.without_verdict(&untold)];
    let what = "times the read throughput (of one thread, so that its inverse is the latency), device model, all workloads, more than";
    let faster = Claim::from_on(what, 2.0, &table.numbers(FASTER));
    claims.push(faster.without_verdict(untold));
    let what =
        "bytes of filters in memory at the end, with ElasticBF over without, under any workload";
    claims.push(Claim::goal_to(what, 1.1, table.most(FILTERS)));
    let panels = [
        ("Throughput", FASTER),
        ("Reads", READS),
        ("False positives", FALSE_POSITIVES),
    ];
    let panels = panels.map(|(title, y)| Panel::of_lines(title, &table, "workload", EXISTING, y));
    let base = common::base(lab, WITH);
    let mix = Mix::lookups(0.0, Distribution::Uniform);
    let trial = common::trial(lab, &base, "shamba:elastic", MEMORY, mix)?;
    let slow = lab.measure(&trial)?;
    let (warm_up, measured) = lab.scale.lookups();
    let setting = common::setting(lab, &base);
    let notes = vec![
        format!(
            "Units move after a lookup for each file, or for 16,384 entries. With the engine's default, epochs of at least \
             2048 lookups, of which there are {} here, uniform lookups of absent keys read {:.3} times: in a \
             tree of so few files hardly one goes unasked for two epochs, and no unit comes free.",
            (warm_up + measured) / 2048,
            slow.reads(),
        ),
        format!(
            "Accounting: {BITS} bits per key are enabled over all files in both, moved between files by \
             ElasticBF alone. What of them is in memory is what lookups asked for: more of the moving units, which lie in \
             files that are asked. The same budget covers these, indexes and the cached data of both; the paper keeps \
             filters outside its cache."
        ),
    ];
    Ok(Findings::of(setting, [table], panels, claims).noting(notes))
}

/// Shares of overwrites.
const WRITES: [f64; 4] = [0.0, 0.1, 0.3, 0.5];

/// Compaction makes new files, whose hotness is inherited.
pub(super) fn mixed(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, WITH);
    let mut table = Report::titled("Lookups among overwrites");
    for share in WRITES {
        let missing = (Operation::ReadMissing, 1.0 - share);
        let mix = Mix {
            shares: vec![(Operation::Update, share), missing],
            ..Mix::lookups(0.0, CLUSTERED)
        };
        let pair = Pair::of([WITHOUT, WITH], |engine| {
            let mut trial = common::trial(lab, &base, engine, MEMORY, mix.clone())?;
            // So many that the buffer is flushed several times.
            trial.measured = lab.scale.pick(1_000, 30_000, 400_000, 600_000);
            lab.measure(&trial)
        })?;
        let place = row! {
            "share of writes": share,
            "flushes": pair.with.count("flushes"),
            "compactions": pair.with.count("compactions"),
        };
        table.add([place, pair.columns(device_us)].concat());
    }
    // What the slides speak of is new files: of no compaction there are none.
    let compactions = table.numbers("compactions");
    let all = saved(&table);
    let among = compactions
        .iter()
        .zip(&all)
        .filter(|(count, _)| **count > 0.0);
    let among: Vec<f64> = among.map(|(_, saving)| *saving).collect();
    let told = compactions.iter().zip(WRITES);
    let told = told.filter(|(count, _)| **count > 0.0);
    let told: Vec<f64> = told.map(|(_, share)| share).collect();
    // As in the micro-benchmark's note on accounting.
    let memory = table.numbers(FILTERS);
    let setting = common::setting(lab, &base);
    let title = "Lookups among overwrites";
    let x = "share of writes";
    let y = "times that without ElasticBF";
    let panels = vec![Panel::of_columns(
        title,
        &table,
        x,
        y,
        &[FASTER, FALSE_POSITIVES],
    )];
    let keeps = all[0] > 0.0 && among.iter().all(|saving| *saving >= 0.9 * all[0]);
    let claims = vec![Claim::statement(
            format!(
                "I/Os of clustered lookups of absent keys saved with shares of writes of {told:?}, at which files are \
                 compacted, %"
            ),
            "still remarkable improvement",
            format!(
                "{among:.0?}, without writes {:.0} (nine tenths of it: {}), where memory has {:.2} to {:.2} times the filters",
                all[0],
                if keeps { "yes" } else { "no" },
                least_of(&memory),
                most_of(&memory),
            ),
            keeps,
        )
        .without_verdict(UNTOLD)
        .unless(among.is_empty(), "no file was compacted")];
    Ok(Findings::of(setting, [table], panels, claims))
}

/// The workloads that mostly read, of which the slides speak.
pub(super) const READ_DOMINANT: [char; 3] = ['b', 'c', 'd'];

/// The workload of scans, for which no filter is asked.
const SCANS: char = 'e';

pub(super) fn ycsb(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, WITH);
    let mut table = Report::titled("YCSB without and with ElasticBF");
    for (at, letter) in ('a'..='f').enumerate() {
        let pair = Pair::measure(lab, &Mix::ycsb(letter)?)?;
        // Scans read too, and no lookup counts that: their time is all there is.
        let us = match letter {
            SCANS => |found: &Found| found.charged_us,
            _ => device_us,
        };
        let place = row! {
            "workload": letter.to_uppercase().to_string(),
            "workload (1 is A, 6 is F)": at + 1,
            "read-dominant": READ_DOMINANT.contains(&letter),
        };
        table.add([place, pair.columns(us)].concat());
    }
    let gains = |named: bool| table.rows_of("read-dominant", named);
    let named = gains(true).numbers(FASTER);
    let mut claims = Vec::new();
    let what = "B, C and D (a point each): read throughput improves, device model";
    claims.push(by_model(Claim::everywhere_but(
        what,
        named.len(),
        named.iter().filter(|gain| **gain <= 1.0).count(),
    )));
    // E reads no filter.
    let what = "A and F: times as fast as without, at least, device model";
    let others = ["A", "F"].map(|letter| table.rows_of("workload", letter).numbers(FASTER));
    claims.push(by_model(Claim::goal_from(
        what,
        0.98,
        least_of(&others.concat()),
    )));
    let setting = common::setting(lab, &base);
    let (x, y) = (
        "workload (1 is A, 6 is F)",
        "read throughput, times that without",
    );
    let panels = vec![Panel::of_columns(
        "YCSB with ElasticBF",
        &table,
        x,
        y,
        &[FASTER],
    )];
    Ok(Findings::of(setting, [table], panels, claims))
}
