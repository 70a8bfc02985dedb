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
    /// Nanoseconds inside the engine, per call: of a write of several entries, all of it.
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
    /// Calls of the engine that did them: fewer where entries are written in batches.
    #[serde(default)]
    pub calls: u64,
    /// Operations per second of engine time, all threads together.
    pub per_second: f64,
    /// Mean microseconds of a call.
    pub mean_us: f64,
    /// Median microseconds of a call.
    pub p50_us: f64,
    /// 99th percentile of calls, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of calls, microseconds.
    pub p999_us: f64,
    /// Slowest call, microseconds.
    pub max_us: f64,
}

impl Outcome {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(refused)?;
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

    /// Notes a call that did so many operations.
    pub(crate) fn record(&mut self, took: Duration, operations: u64) {
        self.operations += operations;
        self.busy += took;
        let nanos = (took.as_nanos() as u64).max(1);
        self.latency.saturating_record(nanos);
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        self.operations += other.operations;
        self.busy += other.busy;
        self.writes += other.writes;
        self.writing += other.writing;
        self.latency.add(&other.latency).map_err(refused)
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
        let calls = self.latency.len();
        Summary {
            operations: self.operations,
            calls,
            seconds: self.wall.as_secs_f64(),
            per_second: operations * self.threads as f64 / busy,
            mean_us: busy * 1e6 / (calls as f64).max(1.0),
            p50_us: us(self.latency.value_at_quantile(0.5)),
            p99_us: us(self.latency.value_at_quantile(0.99)),
            p999_us: us(self.latency.value_at_quantile(0.999)),
            max_us: us(self.latency.max()),
        }
    }
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::InvalidSetting(format!("histogram: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write of many entries is one call: its latency is not that of an entry.
    #[test]
    fn latencies_are_of_calls_and_rates_of_operations() {
        let mut outcome = Outcome::new(1).unwrap();
        for _ in 0..9 {
            outcome.record(Duration::from_micros(200), 100);
        }
        outcome.record(Duration::from_micros(2000), 100);
        let summary = outcome.summary();
        assert_eq!((summary.operations, summary.calls), (1000, 10));
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.01;
        assert!(near(summary.p50_us, 200.0), "{summary:?}");
        assert!(near(summary.max_us, 2000.0), "{summary:?}");
        assert!(near(summary.mean_us, 380.0), "{summary:?}");
        assert!(near(summary.per_second, 1000.0 / 3800e-6), "{summary:?}");
    }
}
