//! The same operations without and with ElasticBF: the slides' micro-benchmark, lookups among
//! writes, and YCSB.
use super::common::{self, CLUSTERED, MEMORY, WITH, WITHOUT, WORKLOADS};
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
            common::measure(lab, &base, engine, mix.clone())
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
    let what = "I/Os saved, all workloads, with none, half and all of the keys existing, %";
    let saved = Claim::range(what, (60.0, 60.0), &saved(&table));
    let more = if table.least(FILTERS) > 1.0 {
        "; and ElasticBF's filters in memory have more bytes than the others (the table has how many)"
    } else {
        ""
    };
    let untold = format!("{UNTOLD}{more}");
    let mut claims = vec![saved.without_verdict(&untold)];
    let what = "times the read throughput (of one thread, so that its inverse is the latency), device model, all workloads, more than";
    let mut faster = Claim::from_on(what, 2.0, &table.numbers(FASTER));
    faster.measured += &format!("; {:.2} at most", table.most(FASTER));
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
    let slow = common::measure(lab, &base, "shamba:elastic", mix)?;
    let (warm_up, measured) = lab.scale.lookups();
    let setting = common::setting(lab, &base);
    let notes = vec![format!(
        "Units move after a lookup for each file, or for 16,384 entries. With the engine's default, epochs of at least \
         2048 lookups, of which there are {} here, uniform lookups of absent keys read {:.3} times: in a \
         tree of so few files hardly one goes unasked for two epochs, and no unit comes free.",
        (warm_up + measured) / 2048,
        slow.reads(),
    )];
    Ok(Findings::of(setting, [table], panels, claims).noting(notes))
}

/// Shares of overwrites.
const WRITES: [f64; 4] = [0.0, 0.1, 0.3, 0.5];

/// Compaction makes new files, whose hotness is inherited.
pub(super) fn mixed(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, WITH);
    let mut table = Report::titled("Lookups among overwrites");
    // So many that the buffer is flushed several times.
    let measured = lab.scale.pick(1_000, 30_000, 400_000, 600_000);
    for share in WRITES {
        let missing = (Operation::ReadMissing, 1.0 - share);
        let mix = Mix {
            shares: vec![(Operation::Update, share), missing],
            ..Mix::lookups(0.0, CLUSTERED)
        };
        let pair = Pair::of([WITHOUT, WITH], |engine| {
            let mut trial = common::trial(lab, &base, engine, MEMORY, mix.clone())?;
            trial.measured = measured;
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
    let all = saved(&table);
    let compactions = table.numbers("compactions");
    let compacted = compactions.iter().zip(WRITES.iter().zip(&all));
    let compacted = compacted.filter(|(count, _)| **count > 0.0);
    let (shares, among): (Vec<f64>, Vec<f64>) = compacted.map(|(_, both)| both).unzip();
    let keeps = all[0] > 0.0 && among.iter().all(|saving| *saving >= 0.9 * all[0]);
    let what = format!(
        "I/Os of clustered lookups of absent keys saved with shares of writes of {shares:?}, at which files are \
         compacted, %"
    );
    // As in the micro-benchmark's note on accounting.
    let seen = format!(
        "{among:.0?}, without writes {:.0} (nine tenths of it: {}), where memory has {:.2} to {:.2} times the filters",
        all[0],
        if keeps { "yes" } else { "no" },
        table.least(FILTERS),
        table.most(FILTERS),
    );
    let claim = Claim::told(what, "still remarkable improvement", seen, UNTOLD);
    let claim = claim.unless(among.is_empty(), "no file was compacted");
    let (title, x) = ("Lookups among overwrites", "share of writes");
    let lines = [FASTER, FALSE_POSITIVES];
    let panel = Panel::of_columns(title, &table, x, "times that without ElasticBF", &lines);
    let setting = common::setting(lab, &base);
    let setting =
        format!("{setting}; {measured} operations are measured, not as many as elsewhere");
    Ok(Findings::of(setting, [table], [panel], [claim]))
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
    let named = table.rows_of("read-dominant", true);
    let what = "B, C and D (a point each): read throughput improves, device model";
    let improves = Claim::at_each(what, named.numbers(FASTER).iter().map(|gain| *gain > 1.0));
    let what = "A and F: times as fast as without, at least, device model";
    // E reads no filter.
    let others = ["A", "F"].map(|letter| table.rows_of("workload", letter));
    let of = |column| others.each_ref().map(|rows| rows.numbers(column)).concat();
    let goal = Claim::goal_from(what, 0.98, least_of(&of(FASTER)));
    let claims = [(improves, named.numbers(FILTERS)), (goal, of(FILTERS))];
    let claims = claims
        .map(|(claim, times)| by_model(common::of_equal_memory(claim, &times, "those without")));
    let (title, x) = ("YCSB with ElasticBF", "workload (1 is A, 6 is F)");
    let y = "read throughput, times that without";
    let panel = Panel::of_columns(title, &table, x, y, &[FASTER]);
    let setting = common::setting(lab, &base);
    Ok(Findings::of(setting, [table], [panel], claims))
}
