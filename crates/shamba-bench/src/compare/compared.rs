//! What a comparison found, and its tables: medians beside each other, and each repetition.
use super::{Cell, IN_ONE_RUN, KILLED, Line, ONE_RUN, PHASES, PRESSED, Settings, UNDER_PRESSURE};
use crate::plot::Dots;
use crate::report::{Cell as ReportCell, Report, median};
use crate::row;

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What was compared.
    pub settings: Settings,
    /// In the order they were measured.
    pub cells: Vec<(Cell, Vec<Line>)>,
}

impl Compared {
    /// What was measured, without the folder where that was: these settings are the same but for
    /// it.
    pub fn wherever(mut self, settings: &Settings) -> Vec<(Cell, Vec<Line>)> {
        for (cell, _) in &mut self.cells {
            cell.settings = settings.clone();
        }
        self.cells
    }

    /// The lines of that name, one for each repetition.
    fn repeated<'a>(
        &'a self,
        name: &'a str,
        threads: usize,
        engine: &'a str,
    ) -> impl Iterator<Item = &'a Line> {
        let own = self.cells.iter();
        let own = own.filter(move |(cell, _)| cell.threads == threads && cell.engine == engine);
        own.filter_map(move |(_, lines)| lines.iter().find(|line| line.name == name))
    }

    /// The values of an engine's line, one for each repetition.
    pub fn values(&self, name: &str, threads: usize, engine: &str) -> Vec<f64> {
        let lines = self.repeated(name, threads, engine);
        lines.map(|line| line.value).collect()
    }

    /// The median of the values; [`KILLED`] is what ever happened.
    pub fn value(&self, name: &str, threads: usize, engine: &str) -> Option<f64> {
        let values = self.values(name, threads, engine);
        if name == KILLED {
            return values.into_iter().max_by(f64::total_cmp);
        }
        median(&values)
    }

    /// The names of lines that any engine has.
    fn names(&self, wanted: impl Fn(&Line) -> bool) -> Vec<String> {
        let lines = self.cells.iter().flat_map(|(_, lines)| lines);
        let wanted = lines.filter(|line| wanted(line));
        let wanted = Report::of("", wanted, |line| row! { "name": &line.name });
        let names = wanted.distinct("name").into_iter();
        names.map(|name| name.to_string()).collect()
    }

    /// A row for each phase, or other fact, and number of threads; of repetitions the medians.
    pub fn table(&self) -> Report {
        let mut report = Report::titled(self.title());
        // Those of a workload together, or all phases before the facts.
        let names = match self.settings.workloads.as_slice() {
            [] => [phases(), self.names(|line| line.p99_us.is_none())].concat(),
            _ => self.names(|_| true),
        };
        for &threads in &self.settings.threads {
            for name in &names {
                report.add(self.row(name, threads));
            }
        }
        report
    }

    /// What was measured, how often and on how much.
    fn title(&self) -> String {
        let settings = &self.settings;
        let (entries, repeat) = (settings.entries, settings.repeat);
        if settings.workloads.is_empty() {
            return format!(
                "{entries} entries of 16 B keys and {} B values, in memory if nothing else is \
                 said, median of {repeat}; op/s of engine time",
                settings.value_size
            );
        }
        let reads = settings.reads;
        format!(
            "Counters, transfers, range deletions, expiry, large values and short scans for {entries} entries and \
             {reads} reads, median of {repeat}; op/s of engine time, of all else less is better; \
             fjall increments by reading and writing in a transaction"
        )
    }

    /// For each engine a value and its 99th percentile, and how many times the others' values the
    /// first engine's is.
    fn row(&self, name: &str, threads: usize) -> Vec<(String, ReportCell)> {
        let mut row = row! { "phase": name, "threads": threads.to_string() };
        let engines = &self.settings.engines;
        for engine in engines {
            let lines = self.repeated(name, threads, engine);
            let tails: Vec<f64> = lines.filter_map(|line| line.p99_us).collect();
            let value = self.value(name, threads, engine);
            row.push((format!("{engine} op/s"), value.into()));
            row.push((format!("{engine} p99 us"), median(&tails).into()));
        }
        if let [first, others @ ..] = &engines[..] {
            let ours = self.value(name, threads, first);
            for engine in others {
                let theirs = self.value(name, threads, engine);
                let both = ours.zip(theirs).filter(|(_, theirs)| *theirs > 0.0);
                let ratio = both.map(|(ours, theirs)| ours / theirs);
                row.push((format!("{first} / {engine}"), ratio.into()));
            }
        }
        row
    }

    /// The throughputs of each repetition.
    pub fn repetitions(&self) -> Report {
        let lines = self.cells.iter().flat_map(|(cell, lines)| {
            let phases = lines.iter().filter(|line| line.p99_us.is_some());
            phases.map(move |line| (cell, line))
        });
        Report::of("Throughputs of each repetition", lines, |(cell, line)| {
            row! {
                "phase": line.name.clone(),
                "threads": cell.threads.to_string(),
                "engine": cell.engine.clone(),
                "op/s": line.value,
            }
        })
    }
}

/// The names of all phases: of the lines of a comparison that are throughputs.
pub fn phases() -> Vec<String> {
    let mut names: Vec<String> = PHASES.map(str::to_owned).into();
    names.extend(PRESSED.map(|name| format!("{name}{UNDER_PRESSURE}")));
    names.extend(ONE_RUN.map(|name| format!("{name}{IN_ONE_RUN}")));
    names
}

/// Whether a row of the comparison is a throughput.
pub fn is_throughput(row: &[ReportCell]) -> bool {
    row.first()
        .is_some_and(|name| phases().contains(&name.to_string()))
}

/// The throughputs of a comparison's table as a dot plot.
pub fn dots(table: &Report) -> Dots {
    Dots::of_report(table, "op/s", |row| match row {
        [phase, threads, ..] if is_throughput(row) => {
            let plural = if threads.to_string() == "1" { "" } else { "s" };
            Some(format!("{phase}, {threads} thread{plural}"))
        }
        _ => None,
    })
}
