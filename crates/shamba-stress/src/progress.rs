//! How far a run is: a line that is drawn anew on a terminal, and a line a minute elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Limits;

/// How often a line is written where nothing can be drawn.
const EVERY: Duration = Duration::from_secs(60);

/// Shows a run's cases; from any thread.
pub struct Progress {
    bar: ProgressBar,
    name: &'static str,
    /// When the last line was written; `None` where lines are drawn, or nothing is wanted.
    written: Option<Mutex<Instant>>,
    start: Instant,
    cases: AtomicU64,
}

impl Progress {
    /// Shows nothing.
    #[must_use]
    pub fn hidden() -> Self {
        Progress {
            bar: ProgressBar::hidden(),
            name: "",
            written: None,
            start: Instant::now(),
            cases: AtomicU64::new(0),
        }
    }

    /// Shows the cases of a kind on standard error.
    #[must_use]
    pub fn of(name: &'static str, limits: &Limits) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(limits.cases, target);
        let template = "{prefix:<8} {pos} cases, {per_sec}, {elapsed} {wide_msg}";
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(name);
        Progress {
            bar,
            name,
            written: (!terminal).then(|| Mutex::new(Instant::now())),
            start: Instant::now(),
            cases: AtomicU64::new(0),
        }
    }

    /// A case is done.
    pub(crate) fn done(&self) {
        let cases = self.cases.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.set_position(cases);
        let Some(written) = &self.written else {
            return;
        };
        let mut written = written.lock().unwrap();
        if written.elapsed() >= EVERY {
            *written = Instant::now();
            let (name, seconds) = (self.name, self.start.elapsed().as_secs_f64());
            let rate = cases as f64 / seconds;
            eprintln!("{name}: {cases} cases in {seconds:.0} s, {rate:.1} a second");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
