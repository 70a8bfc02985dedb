//! A moving hot spot: pages per lookup, window by window, around a jump of a normal distribution
//! from one part of the key range to another, and of a set of hot keys to other keys.
use crate::cell::{self, Measurement};
use crate::experiments::Target;
use crate::proc_io::ProcessIo;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::full_memory;

/// Windows that make a smoothed one: 10,000 lookups at the default window.
const SMOOTH: usize = 10;

/// One engine.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    /// Its lookups are those before the jump, and again after it.
    target: Target,
    /// Lookups in a window.
    window: u64,
}

impl Measurement for Cell {
    type Found = Vec<f64>;

    /// Pages per lookup of each window. The hot spot jumps by half of the key range.
    fn measure(&self) -> Result<Vec<f64>> {
        let engine = self.target.open()?;
        let trial = &self.target.trial;
        let mut lookups = self.target.lookups(1)?;
        let mut windows = Vec::new();
        for shift in [0, trial.base.entries / 2] {
            lookups.shift = shift;
            for _ in 0..trial.measured / self.window {
                let mut steps = (0..self.window).map(|_| lookups.step(engine.as_ref()));
                let ((), io) = ProcessIo::during(|| steps.try_for_each(|took| took.map(drop)))?;
                windows.push(io.pages() / self.window as f64);
            }
        }
        Ok(windows)
    }
}

/// Hot spots, and lookups within which their pages should be settled again. Half of the key range
/// is far from where a normal distribution was, and makes another hot set.
const HOT_SPOTS: [(&str, Distribution, f64); 2] = [
    ("range", Distribution::Normal(0.05), 50_000.0),
    ("set", Distribution::HotSet(0.01), 30_000.0),
];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let engines = lab.engines.clone();
    let budget = lab.scale.tiny_or(400.0, 10.0);
    let lookups = lab.scale.pick(2_000, 60_000, 150_000, 150_000);
    let window = lab.scale.tiny_or(100, 1000);
    let mut table = Report::titled(format!(
        "A hot spot jumps by half of the key range; budget {budget} %, positive share 0.5; pages per lookup",
    ));
    let mut windows = Report::titled("Pages per lookup by window");
    let mut claims = Vec::new();
    for (hot, distribution, goal) in HOT_SPOTS {
        let mut found = Vec::new();
        for &engine in &engines {
            let mut trial = lab.lookups(engine, budget, 0.5, distribution)?;
            trial.measured = lookups;
            let trial = trial.on(Device::Disk);
            let asked = (trial.clone(), window);
            found.push(lab.measured("hot spot", &asked, |lab| {
                let target = Target::of(lab, trial)?;
                cell::measure(&Cell { target, window })
            })?);
            lab.note(format!("{hot}, {engine}"));
        }
        let reference = found.last().map_or(Vec::new(), |pages| smoothed(pages));
        for (at, (engine, pages)) in engines.iter().zip(&found).enumerate() {
            for (number, pages) in (1..).zip(pages) {
                windows.add(row! {
                    "hot, engine": format!("{hot}, {engine}"),
                    "lookups": number * window,
                    "pages": *pages,
                });
            }
            let settling = Settling::of(pages, &reference, window);
            table.add(row! {
                "hot": hot,
                "engine": engine,
                "settled before": settling.before,
                "settled after": settling.after,
                "worst window after": settling.worst,
                "lookups to within 15 %": settling.lookups,
                "worst to the last engine": settling.to_reference,
            });
            if at > 0 {
                continue;
            }
            // Memory that holds little of a hot set loses nothing when that jumps.
            if settling.worst > settling.before * 1.15 {
                let what = format!("hot {hot}: lookups until within 15 % of the settled value");
                claims.push(Claim::goal_to(what, goal, settling.lookups as f64));
            }
            let what = format!("hot {hot}: pages in the worst window, times those of LRU");
            claims.push(Claim::goal_to(what, 1.3, settling.to_reference));
        }
    }
    let title = format!("hot spot, jump after {lookups} lookups");
    let panels = plot::of_report(&windows, &title, "hot, engine", "lookups", "pages");
    let panels = panels.into_iter().map(Panel::logarithmic);
    let setting = format!(
        "{} entries of 64 B, half of the keys exist, memory {budget} % of filters and indexes. Range: a \
         normal distribution with a deviation of 5 % of the key range; set: nine lookups in ten ask for \
         1 % of the keys, which are scattered. After {lookups} lookups either jumps by half of the key \
         range. Direct I/O on this disk{}.",
        lab.scale.entries(),
        full_memory(lab, &lab.base("")),
    );
    Ok(Findings::of(setting, [table, windows], panels, claims))
}

/// Each mean of [`SMOOTH`] windows in a row.
fn smoothed(windows: &[f64]) -> Vec<f64> {
    let means = windows.windows(SMOOTH.min(windows.len()).max(1));
    means
        .map(|w| w.iter().sum::<f64>() / w.len() as f64)
        .collect()
}

/// What is settled: the median of the last fifth.
fn settled(windows: &[f64]) -> f64 {
    let last = windows.len() - windows.len() / 5;
    median(windows.get(last..).unwrap_or_default()).unwrap_or(0.0)
}

/// How pages per lookup settle after the jump in the middle.
#[derive(Debug)]
struct Settling {
    /// What is settled before and after it.
    before: f64,
    after: f64,
    /// The worst smoothed window after it.
    worst: f64,
    /// Lookups until 15 % above what is settled.
    lookups: u64,
    /// The worst smoothed window of all, times that of the reference.
    to_reference: f64,
}

impl Settling {
    fn of(windows: &[f64], reference: &[f64], window: u64) -> Self {
        let (before, after) = windows.split_at(windows.len() / 2);
        let goal = settled(after) * 1.15;
        let smooth = smoothed(after);
        // From when on it never leaves: what only dips below has not settled.
        let back = smooth.iter().rposition(|pages| *pages > goal);
        let whole = smoothed(windows);
        let beside = whole.iter().zip(reference);
        Self {
            before: settled(before),
            after: settled(after),
            worst: smooth.iter().copied().fold(0.0, f64::max),
            lookups: back.map_or(0, |at| at as u64 + 1) * window,
            to_reference: beside
                .map(|(ours, theirs)| ours / theirs.max(1e-9))
                .fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_is_to_stay_below() {
        let flat = vec![1.0; 200];
        let mut windows = flat.clone();
        windows[100..130].fill(5.0);
        let reference = smoothed(&flat);
        let found = Settling::of(&windows, &reference, 1000);
        assert_eq!((found.before, found.after, found.worst), (1.0, 1.0, 5.0));
        // The last smoothed window with a slow one in it begins at 29.
        assert_eq!(found.lookups, 30_000);
        assert_eq!(found.to_reference, 5.0);
        assert_eq!(Settling::of(&flat, &reference, 1000).lookups, 0);
    }
}
