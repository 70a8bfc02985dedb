//! What a person sees: tables, amounts, bars, progress, warnings.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shamba::MemoryUsage;
// Answers of `tune` are shown in the same way.
pub use shamba_tune::tables::{bytes, measured, number, table};

use crate::failure::Failure;

/// Time with a unit.
pub fn seconds(time: f64) -> String {
    if time >= 60.0 {
        format!("{:.0} min {:02.0} s", (time / 60.0).floor(), time % 60.0)
    } else if time >= 1.0 {
        format!("{time:.1} s")
    } else {
        format!("{:.1} ms", time * 1000.0)
    }
}

/// A bar of `width` characters, filled to `share` of 1.
pub fn bar(share: f64, width: usize) -> String {
    let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(filled) + &"·".repeat(width - filled)
}

/// Memory by role against the budget.
pub fn memory(usage: &MemoryUsage) -> String {
    let budget = &usage.budget;
    let limit = budget.limit.max(1) as f64;
    let row = |name: &str, amount: u64| {
        let share = amount as f64 / limit;
        vec![
            name.to_owned(),
            bytes(amount),
            format!("{:.1} %", share * 100.0),
            bar(share, 40),
        ]
    };
    let mut rows: Vec<_> = budget
        .by_role
        .iter()
        .map(|(role, amount)| row(role.name(), *amount))
        .collect();
    rows.push(row("all, now", budget.used));
    rows.push(row("all, at most", budget.peak));
    rows.push(row("budget", budget.limit));
    let mut text = table(&["memory", "bytes", "of the budget", ""], &rows);
    if budget.overdraft > 0 {
        text += &format!(
            "\nat one moment {} above the budget were needed",
            bytes(budget.overdraft)
        );
    }
    text
}

/// Writes to standard output; a reader that went away ends the command quietly.
pub fn print(text: impl std::fmt::Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(Failure::output)
}

/// Writes a value as JSON to standard output.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::output(io::Error::other(e)))?;
    print(text)
}

/// A note to the person at the terminal.
pub fn note(quiet: bool, text: impl std::fmt::Display) {
    if !quiet {
        eprintln!("{text}");
    }
}

/// A bar on standard error; nothing when quiet or when that is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Counts to `total` things.
    pub fn count(quiet: bool, name: &str, total: u64) -> Self {
        Self::new(
            quiet,
            name,
            Some(total),
            "{msg:<24} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left",
        )
    }

    /// Counts to `total` bytes.
    pub fn bytes(quiet: bool, name: &str, total: u64) -> Self {
        Self::new(
            quiet,
            name,
            Some(total),
            "{msg:<24} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left",
        )
    }

    /// Counts what has no known end.
    pub fn endless(quiet: bool, name: &str) -> Self {
        Self::new(quiet, name, None, "{spinner} {msg} {human_pos} {elapsed}")
    }

    /// Shows that something goes on.
    pub fn spinner(quiet: bool, name: &str) -> Self {
        let progress = Self::new(quiet, name, None, "{spinner} {msg} {elapsed}");
        progress.0.enable_steady_tick(Duration::from_millis(120));
        progress
    }

    fn new(quiet: bool, name: &str, total: Option<u64>, template: &str) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(8)
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(total, target).with_style(style);
        bar.set_message(name.to_owned());
        Progress(bar)
    }

    /// Sets what is counted to, once it is known.
    pub fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Sets how far the work is.
    pub fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Moves on.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// Does `work`, meanwhile showing the counter it moves.
    pub fn watch<T>(&self, counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if !self.0.is_hidden() {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        self.set(counter.load(Ordering::Relaxed));
                        std::thread::sleep(Duration::from_millis(100));
                    }
                });
            }
            // Also when the work panics, or the thread above would keep the scope open.
            let _done = Done(&done);
            work()
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The engine's warnings, each cause once: work that fails is tried again and again, and then the
/// command may fail of the same.
struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    fn add(&self, text: String) {
        let Ok(mut held) = self.0.lock() else { return };
        if held.iter().all(|other| cause(other) != cause(&text)) {
            held.push(text);
        }
    }

    /// Those whose cause an error does not tell anyhow.
    fn take_beside(&self, error: Option<&str>) -> Vec<String> {
        let Ok(mut held) = self.0.lock() else {
            return Vec::new();
        };
        let mut told = std::mem::take(&mut *held);
        told.retain(|text| error.is_none_or(|error| !error.contains(cause(text))));
        told
    }
}

/// What a message says last is why.
fn cause(text: &str) -> &str {
    text.rsplit(": ").next().unwrap_or(text)
}

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            self.add(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

/// Keeps the engine's warnings for [`tell_warnings`].
pub fn start_logging(quiet: bool) {
    log::set_max_level(if quiet {
        log::LevelFilter::Off
    } else {
        log::LevelFilter::Warn
    });
    // Only fails when set twice, which main does not do.
    let _set = log::set_logger(&WARNINGS);
}

/// Shows the engine's warnings on standard error, but for what the error tells that ended the
/// command.
pub fn tell_warnings(error: Option<&str>) {
    for warning in WARNINGS.take_beside(error) {
        eprintln!("warning: {warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let warnings = Warnings(Mutex::new(Vec::new()));
        for number in 0..3 {
            warnings.add(format!(
                "db: work failed: cannot write {number}.sst: no space left"
            ));
        }
        warnings.add("db: a filter is damaged".to_owned());
        let error = "cannot append to 7.wal: no space left";
        let told = warnings.take_beside(Some(error));
        assert_eq!(told, ["db: a filter is damaged"]);
        warnings.add("db: work failed: no space left".to_owned());
        assert_eq!(warnings.take_beside(None).len(), 1);
    }

    #[test]
    fn times() {
        assert_eq!(seconds(0.0021), "2.1 ms");
        assert_eq!(seconds(75.0), "1 min 15 s");
    }

    #[test]
    fn bars_keep_their_width() {
        for share in [-1.0, 0.0, 0.26, 1.0, 7.0] {
            assert_eq!(bar(share, 20).chars().count(), 20);
        }
        assert_eq!(bar(0.5, 4), "██··");
    }

    #[test]
    fn watching_returns_what_the_work_returns() {
        let counter = AtomicU64::new(0);
        let progress = Progress::count(true, "test", 1);
        assert_eq!(progress.watch(&counter, || 7), 7);
    }
}
