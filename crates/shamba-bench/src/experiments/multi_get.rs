//! Batched lookups on cold data: `multi_get` against as many single lookups, batches alternating
//! in one process, every key asked for once.
use super::{Lookups, Target};
use crate::progress::Progress;
use crate::report::Report;
use crate::store::Store;
use crate::workload::Distribution;
use crate::{Result, cell};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    pub budgets: Vec<f64>,
    /// Keys in a batch.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    pub batch: Vec<usize>,
    /// Batches of each kind.
    #[arg(long, default_value_t = 200)]
    pub batches: usize,
    /// Share of lookups for existing keys.
    #[arg(long, default_value_t = 1.0)]
    pub positive: f64,
}

/// One engine, one budget, one batch size.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    batch: usize,
    batches: usize,
    positive: f64,
}

impl Cell {
    /// Microseconds per key: single lookups, `multi_get`.
    pub(crate) fn measure(&self) -> Result<(f64, f64)> {
        let engine = self.target.open(true)?;
        let data = self.target.data();
        let mut lookups = Lookups::new(data, self.positive, Distribution::Uniform, 1)?;
        let (mut single, mut batched) = (Duration::ZERO, Duration::ZERO);
        let mut found = Vec::new();
        for _ in 0..self.batches {
            for _ in 0..self.batch {
                single += lookups.step(engine.as_ref())?;
            }
            let drawn: Vec<_> = (0..self.batch).map(|_| lookups.draw()).collect();
            let keys: Vec<&[u8]> = drawn.iter().map(|(_, key)| key.as_slice()).collect();
            let start = Instant::now();
            engine.multi_get(&keys, &mut found)?;
            batched += start.elapsed();
            for ((number, _), found) in drawn.iter().zip(&found) {
                lookups.check(*number, found.as_deref())?;
            }
            if found.len() != drawn.len() {
                return Err(crate::Error::WrongAnswer(format!(
                    "{} answers",
                    found.len()
                )));
            }
        }
        let keys = (self.batches * self.batch).max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / keys;
        Ok((each(single), each(batched)))
    }
}

/// Measures every cell.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let mut report = Report::new(
        "Lookups in batches on cold data",
        &[
            "engine",
            "budget %",
            "keys",
            "single us/key",
            "multi_get us/key",
            "times the throughput",
        ],
    );
    let mut progress = Progress::default();
    let cells = settings.budgets.len() * settings.batch.len();
    for engine in &settings.store.engines {
        (0..cells).for_each(|_| progress.expect(engine));
    }
    for &percent in &settings.budgets {
        for &batch in &settings.batch {
            for engine in &settings.store.engines {
                let target = Target::loaded(&settings.store, engine, percent, 0, note)?;
                progress.start();
                let (single, batched): (f64, f64) =
                    cell::measure(&cell::Request::MultiGet(Cell {
                        target,
                        batch,
                        batches: settings.batches,
                        positive: settings.positive,
                    }))?;
                note(format!("{} {engine}", progress.done(engine)));
                report.push(vec![
                    engine.clone().into(),
                    percent.into(),
                    (batch as f64).into(),
                    single.into(),
                    batched.into(),
                    (single / batched.max(1e-9)).into(),
                ]);
            }
        }
    }
    Ok(report)
}
