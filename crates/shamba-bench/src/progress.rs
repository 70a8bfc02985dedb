//! How far an experiment is, and how long the rest will take. Plain data of one thread.
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The cells still to be measured, by kind, and what the measured ones took.
#[derive(Debug, Default)]
pub struct Progress {
    left: HashMap<String, u32>,
    took: HashMap<String, (u32, Duration)>,
    started: Option<Instant>,
    done: u32,
}

impl Progress {
    /// Announces a cell of a kind (the cells of one kind take about as long).
    pub fn expect(&mut self, kind: &str) {
        *self.left.entry(kind.to_owned()).or_default() += 1;
    }

    /// Starts the clock of the next cell.
    pub fn start(&mut self) {
        self.started = Some(Instant::now());
    }

    /// A cell of this kind is done: `[3 of 54, about 7 min left]`.
    pub fn done(&mut self, kind: &str) -> String {
        let took = self
            .started
            .take()
            .map_or(Duration::ZERO, |start| start.elapsed());
        let entry = self.took.entry(kind.to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + took);
        if let Some(left) = self.left.get_mut(kind) {
            *left = left.saturating_sub(1);
        }
        self.done += 1;
        let total = self.done + self.left.values().sum::<u32>();
        let minutes = self.time_left().as_secs_f64() / 60.0;
        format!("[{} of {total}, about {minutes:.0} min left]", self.done)
    }

    /// The time the rest takes if cells take as long as those of their kind did.
    fn time_left(&self) -> Duration {
        let all = self
            .took
            .values()
            .fold((0, Duration::ZERO), |a, b| (a.0 + b.0, a.1 + b.1));
        let mean = |(count, took): (u32, Duration)| took / count.max(1);
        self.left
            .iter()
            .map(|(kind, left)| mean(self.took.get(kind).copied().unwrap_or(all)) * *left)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_kind() {
        let mut progress = Progress::default();
        for kind in ["slow", "slow", "quick", "quick", "quick"] {
            progress.expect(kind);
        }
        progress
            .took
            .insert("quick".into(), (1, Duration::from_secs(2)));
        progress
            .took
            .insert("slow".into(), (1, Duration::from_secs(100)));
        assert_eq!(progress.time_left(), Duration::from_secs(206));
        let line = progress.done("quick");
        assert!(line.starts_with("[1 of 5, about 3 min left"), "{line}");
    }
}
