//! What a database reads after it was closed and opened again, beside what it read before: pages
//! per lookup, window by window.
//!
//! Pages of lookups are those that the thread that looks up read itself; what the engine reads in
//! the background is told apart.
use super::{Lookups, Target};
use crate::cell::{self, Measurement};
use crate::device::Device;
use crate::engine::{self, Engine};
use crate::proc_io::ProcessIo;
use crate::report::{Report, median};
use crate::reproduce::trial::Trial;
use crate::store::{self, Store};
use crate::workload::Distribution;
use crate::{Error, Result, row};
use std::time::{Duration, Instant};

/// The grid.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases; each cell works on a copy.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,40,100")]
    pub budgets: Vec<f64>,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    pub positives: Vec<f64>,
    /// Of `uniform`, `zipf[THETA]`, `normal[SHARE]`, `normal-keys[KEYS]`, `hot-set[SHARE]` and
    /// `latest`.
    #[arg(long, value_delimiter = ',', default_value = "uniform,zipf0.99")]
    pub distributions: Vec<Distribution>,
    /// Lookups before the database is closed.
    #[arg(long, default_value_t = 400_000)]
    pub warm_up: u64,
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
    window: u64,
    windows: u64,
    pause: f64,
    forget: bool,
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
            let windows = 0..self.windows;
            let windows = windows.map(|_| window(&mut lookups, engine, self.window));
            windows.collect()
        };
        let before = windows(engine.as_ref())?;
        let start = Instant::now();
        drop(engine);
        let close = start.elapsed().as_secs_f64();
        if self.forget {
            engine::forget(&target.dir)?;
        }
        let (all, own) = (ProcessIo::now(), ProcessIo::of_thread());
        let start = Instant::now();
        let engine = engine::open(&trial.engine, &config)?;
        let open = start.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_secs_f64(self.pause));
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
    let pause = settings.pause;
    if !(pause.is_finite() && pause >= 0.0) || settings.windows == 0 || settings.window == 0 {
        let what = "--pause is a number of seconds from 0, --windows and --window are 1 at least";
        return Err(Error::InvalidSetting(what.into()));
    }
    let mut report = Report::titled("Pages per lookup before closing and after opening again");
    let store = &settings.store;
    for &distribution in &settings.distributions {
        for &positive in &settings.positives {
            for &percent in &settings.budgets {
                for engine in &store.engines {
                    let memory = store.budget(percent);
                    let trial = Trial::lookups(store.base(engine), memory, positive, distribution)
                        .lasting((settings.warm_up, settings.window))
                        .on(Device::Disk);
                    let dir = store.loaded(engine, note)?;
                    let found = cell::measure(&Cell {
                        target: Target { trial, dir },
                        window: settings.window,
                        windows: settings.windows,
                        pause,
                        forget: settings.forget,
                    })?;
                    add(
                        &mut report,
                        (distribution, positive, percent),
                        engine,
                        &found,
                    );
                }
            }
            note(format!("{}, {positive} existing", distribution.name()));
        }
    }
    Ok(report)
}

/// The row of a cell.
fn add(report: &mut Report, cell: (Distribution, f64, f64), engine: &str, found: &Reopened) {
    let (distribution, positive, percent) = cell;
    let all = |windows: &[Window], value: fn(&Window) -> f64| {
        let values: Vec<f64> = windows.iter().map(value).collect();
        values
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let steady = mean(&all(&found.before, |window| window.pages));
    let after = all(&found.after, |window| window.pages);
    let first = found.after.first();
    let rest = after.get(1..).unwrap_or_default();
    report.add(row! {
        "distribution": distribution.name(),
        "positive": positive,
        "budget %": percent,
        "engine": engine,
        "steady": steady,
        "first window": after.first().copied(),
        "second": after.get(1).copied(),
        "others": mean(rest.get(1..).unwrap_or_default()),
        "second to steady": after.get(1).map(|pages| pages / steady),
        "others to steady": mean(rest.get(1..).unwrap_or_default()) / steady,
        "steady us": median(&all(&found.before, |window| window.mean_us)),
        "first us": first.map(|first| first.mean_us),
        "steady p99 us": median(&all(&found.before, |window| window.p99_us)),
        "first p99 us": first.map(|first| first.p99_us),
        "close s": found.close,
        "open s": found.open,
        "background pages": found.background,
    });
}
