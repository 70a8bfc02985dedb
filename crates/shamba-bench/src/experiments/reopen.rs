//! What a database reads after it was closed and opened again, beside what it read before: pages
//! per lookup, window by window.
//!
//! Pages of lookups are those that the thread that looks up read itself; what the engine reads in
//! the background is told apart.
use super::grid::Grid;
use super::{Lookups, Target};
use crate::cell::{self, Measurement};
use crate::engine::{self, Engine};
use crate::proc_io::ProcessIo;
use crate::report::{self, Report, median};
use crate::{Error, Result, row, store};
use std::time::{Duration, Instant};

/// What to measure; each cell works on a copy of the engine's database.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// The grid; it warms up before the database is closed.
    #[command(flatten)]
    pub grid: Grid,
    /// The windows.
    #[command(flatten)]
    pub windows: Windows,
}

/// Windows of lookups before closing and after opening, and what is between.
#[derive(Clone, Copy, Debug, clap::Args, serde::Serialize, serde::Deserialize)]
pub struct Windows {
    /// Lookups in a window.
    #[arg(long, default_value_t = 5_000)]
    pub window: u64,
    /// Windows before closing, of which the mean is taken, and after opening.
    #[arg(long, default_value_t = 6)]
    pub windows: u64,
    /// Seconds between opening and the first lookup.
    #[arg(long, default_value_t = 0.0)]
    pub pause: f64,
    /// Open as if nothing was known of the time before.
    #[arg(long)]
    pub forget: bool,
}

/// One engine in one place of the grid.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    /// Its lookups are those before closing.
    target: Target,
    windows: Windows,
}

/// A window.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// Pages that the thread which looks up read, per lookup.
    pages: f64,
    /// Microseconds of a lookup: the mean, and what one in a hundred takes longer than.
    mean_us: f64,
    p99_us: f64,
}

/// What came out.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Reopened {
    /// Before closing.
    before: Vec<Window>,
    /// Seconds of closing and of opening.
    close: f64,
    open: f64,
    /// After opening.
    after: Vec<Window>,
    /// Pages that others than the thread which looks up read, from opening to the end.
    background: f64,
}

fn window(lookups: &mut Lookups, engine: &dyn Engine, count: u64) -> Result<Window> {
    let before = ProcessIo::of_thread();
    let mut times = Vec::new();
    for _ in 0..count {
        times.push(lookups.step(engine)?);
    }
    let pages = ProcessIo::of_thread().since(&before).pages();
    times.sort_unstable();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let sum: Duration = times.iter().sum();
    Ok(Window {
        pages: pages / count.max(1) as f64,
        mean_us: us(sum) / count.max(1) as f64,
        p99_us: times.get(times.len() * 99 / 100).copied().map_or(0.0, us),
    })
}

impl Measurement for Cell {
    type Found = Reopened;

    fn measure(&self) -> Result<Reopened> {
        let copy = store::copy(&self.target.dir)?;
        let target = Target {
            dir: copy.path().to_owned(),
            ..self.target.clone()
        };
        let trial = &target.trial;
        let config = trial.base.config(target.dir.clone(), trial.memory);
        engine::forget(&target.dir)?;
        let engine = engine::open(&trial.engine, &config)?;
        let mut lookups = target.lookups(1)?;
        for _ in 0..trial.warm_up {
            lookups.step(engine.as_ref())?;
        }
        let mut windows = |engine: &dyn Engine| -> Result<Vec<Window>> {
            let all = 0..self.windows.windows;
            let all = all.map(|_| window(&mut lookups, engine, self.windows.window));
            all.collect()
        };
        let before = windows(engine.as_ref())?;
        let start = Instant::now();
        drop(engine);
        let close = start.elapsed().as_secs_f64();
        if self.windows.forget {
            engine::forget(&target.dir)?;
        }
        let (all, own) = (ProcessIo::now(), ProcessIo::of_thread());
        let start = Instant::now();
        let engine = engine::open(&trial.engine, &config)?;
        let open = start.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_secs_f64(self.windows.pause));
        let after = windows(engine.as_ref())?;
        let all = ProcessIo::now().since(&all).pages();
        let own = ProcessIo::of_thread().since(&own).pages();
        Ok(Reopened {
            before,
            close,
            open,
            after,
            background: all - own,
        })
    }
}

/// Measures every cell, each in a process of its own.
///
/// # Errors
/// Whatever the engines answer, wrong answers among it.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let windows = settings.windows;
    let is_time = windows.pause.is_finite() && windows.pause >= 0.0;
    if !is_time || windows.windows == 0 || windows.window == 0 {
        let what = "--pause is a number of seconds from 0, --windows and --window are 1 at least";
        return Err(Error::InvalidSetting(what.into()));
    }
    let mut report = Report::titled("Pages per lookup before closing and after opening again");
    let grid = &settings.grid;
    for place in grid.places() {
        for engine in &grid.store.engines {
            let found = cell::measure(&Cell {
                target: grid.target(engine, place, windows.window, note)?,
                windows,
            })?;
            report.add(place.row(engine, found.row()));
        }
        note(format!("{}, {} %", place.workload(), place.percent));
    }
    Ok(report)
}

impl Reopened {
    fn row(&self) -> Vec<(String, report::Cell)> {
        let pages = |windows: &[Window]| {
            let sum: f64 = windows.iter().map(|window| window.pages).sum();
            sum / windows.len().max(1) as f64
        };
        let before = |value: fn(&Window) -> f64| {
            let values: Vec<f64> = self.before.iter().map(value).collect();
            median(&values)
        };
        let [first, second] = [0, 1].map(|at| self.after.get(at));
        let second = second.map(|second| second.pages);
        let steady = pages(&self.before);
        let others = pages(self.after.get(2..).unwrap_or_default());
        row! {
            "steady": steady,
            "first window": first.map(|first| first.pages),
            "second": second,
            "others": others,
            "second to steady": second.map(|pages| pages / steady),
            "others to steady": others / steady,
            "steady us": before(|window| window.mean_us),
            "first us": first.map(|first| first.mean_us),
            "steady p99 us": before(|window| window.p99_us),
            "first p99 us": first.map(|first| first.p99_us),
            "close s": self.close,
            "open s": self.open,
            "background pages": self.background,
        }
    }
}
