//! What a run took: times of its operations, and the numbers to report. Plain data.
use crate::{Error, Result};
use hdrhistogram::Histogram;
use std::time::Duration;

/// What a run took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations done.
    pub operations: u64,
    /// Wall time, making keys and checking answers included.
    pub wall: Duration,
    /// Nanoseconds inside the engine, per operation.
    pub latency: Histogram<u64>,
    busy: Duration,
    pub(super) writes: u64,
    pub(super) writing: Duration,
    threads: usize,
}

/// The numbers of an [`Outcome`], for reports and other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Operations done.
    pub operations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Operations per second of engine time, all threads together.
    pub per_second: f64,
    /// Mean microseconds.
    pub mean_us: f64,
    /// Median microseconds.
    pub p50_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, microseconds.
    pub p999_us: f64,
    /// Slowest, microseconds.
    pub max_us: f64,
}

impl Outcome {
    pub(super) fn new(threads: usize) -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|e| Error::InvalidSetting(format!("histogram: {e}")))?;
        Ok(Self {
            operations: 0,
            wall: Duration::ZERO,
            latency,
            busy: Duration::ZERO,
            writes: 0,
            writing: Duration::ZERO,
            threads: threads.max(1),
        })
    }

    pub(super) fn record(&mut self, took: Duration, operations: u64) {
        self.operations += operations;
        self.busy += took;
        let each = took.as_nanos() as u64 / operations.max(1);
        self.latency.saturating_record_n(each.max(1), operations);
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        self.operations += other.operations;
        self.busy += other.busy;
        self.writes += other.writes;
        self.writing += other.writing;
        self.latency
            .add(&other.latency)
            .map_err(|e| Error::InvalidSetting(format!("histogram: {e}")))
    }

    /// Single writes among the operations.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Time inside the engine for [`writes`](Self::writes), and for everything else.
    pub fn split(&self) -> (Duration, Duration) {
        (self.writing, self.busy.saturating_sub(self.writing))
    }

    /// The numbers to report.
    pub fn summary(&self) -> Summary {
        let us = |ns: u64| ns as f64 / 1000.0;
        let busy = self.busy.as_secs_f64().max(1e-9);
        let operations = self.operations as f64;
        Summary {
            operations: self.operations,
            seconds: self.wall.as_secs_f64(),
            per_second: operations * self.threads as f64 / busy,
            mean_us: busy * 1e6 / operations.max(1.0),
            p50_us: us(self.latency.value_at_quantile(0.5)),
            p99_us: us(self.latency.value_at_quantile(0.99)),
            p999_us: us(self.latency.value_at_quantile(0.999)),
            max_us: us(self.latency.max()),
        }
    }
}
