//! What a process takes of the machine's memory: never more than its budget, 8 MiB for everything
//! that does not grow (code, stacks, the standard library's and this crate's own), and 64 KiB a
//! thread.
//!
//! Each [`Row`] is a process of its own, in a memory control group of exactly that size where the
//! system lets us make one: it counts what the system caches for the process too, and kills what
//! does not fit. The process's own (anonymous) resident memory is looked at all the while, and must
//! stay below the same bound without the system's help.

mod rows;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use shamba_bench::container::Container;

pub use rows::{ROWS, Row, Scale, Work};

use crate::{Kind, Tally};

/// Beside the budget, for what does not grow.
const FIXED: u64 = 8 << 20;

/// Beside the budget, for each thread.
const PER_THREAD: u64 = 64 << 10;

/// The memory of processes that use the engine, row by row.
#[derive(Debug)]
pub struct Memory {
    /// The command that runs a row: this one's own file.
    pub stress: PathBuf,
    /// The engine's budget.
    pub budget: u64,
    /// How much a row does.
    pub scale: Scale,
}

/// What a process says of itself when a row is done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Said {
    /// The most resident memory that is no file's, in bytes, as looked at every few milliseconds.
    resident: u64,
    /// The most threads.
    threads: u64,
    /// The most that was charged to the budget, in bytes.
    charged: u64,
    /// Bytes charged above the budget.
    overdraft: u64,
    /// The control groups that it is in, as the system tells it.
    groups: String,
}

/// What was measured of a row.
#[derive(Debug)]
pub struct Measured {
    /// What the process says of itself; `None` if it did not come to an end.
    pub said: Option<Said>,
    /// The bound in bytes: the size of its control group.
    pub bound: u64,
    /// Whether it was in a control group of the bound, by its own word.
    pub contained: bool,
    /// How often the group was full and the system had to take back what it had cached.
    pub reclaims: u64,
    /// How it ended, if not well.
    pub trouble: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Measured {
    /// What is wrong, if anything is.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        if let Some(trouble) = &self.trouble {
            return Some(trouble.clone());
        }
        let Some(said) = &self.said else {
            return Some("it said nothing".to_owned());
        };
        let over = said.resident.saturating_sub(self.bound);
        if over > 0 {
            return Some(format!("{over} bytes above the bound are resident"));
        }
        (said.overdraft > 0).then(|| format!("{} bytes overdrawn", said.overdraft))
    }

    /// The cells of a line of the table: resident, charged, bound, reclaims, seconds, verdict.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let of =
            |get: fn(&Said) -> u64| self.said.as_ref().map_or("–".to_owned(), |s| mib(get(s)));
        vec![
            of(|said| said.resident),
            of(|said| said.charged),
            mib(self.bound),
            if self.contained {
                self.reclaims.to_string()
            } else {
                "no group".to_owned()
            },
            format!("{:.0}", self.took.as_secs_f64()),
            self.complaint().unwrap_or_else(|| "within".to_owned()),
        ]
    }
}

/// The headings of [`Measured::cells`], with the row's name before them.
pub const HEADINGS: [&str; 7] = [
    "row",
    "resident MiB",
    "charged MiB",
    "bound MiB",
    "reclaims",
    "s",
    "verdict",
];

impl Memory {
    /// Runs a row in a process of its own, in a control group of the bound.
    ///
    /// # Errors
    /// The system's.
    pub fn measure(&self, row: usize, seed: u64) -> std::io::Result<Measured> {
        let folder = tempfile::tempdir()?;
        // The engine's own threads and the one that looks.
        let own = rows::BACKGROUND_THREADS as u64 + 1;
        let bound = self.budget + FIXED + (ROWS[row].threads + own) * PER_THREAD;
        let group = Container::new(bound);
        let mut command = match &group {
            // Whatever the process takes from its beginning on is in the group.
            Some(group) => {
                let mut shell = Command::new("sh");
                let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
                shell.args(["-c", enter]).arg(group.dir()).arg(&self.stress);
                shell
            }
            None => Command::new(&self.stress),
        };
        let scale = match self.scale {
            Scale::Small => "small",
            Scale::Full => "full",
        };
        let start = Instant::now();
        let output = command
            .arg("memory-row")
            .arg(folder.path().join("db"))
            .args([row as u64, self.budget, seed].map(|n| n.to_string()))
            .arg(scale)
            .output()?;
        let took = start.elapsed();
        let trouble = match (output.status.code(), output.status.signal()) {
            (Some(0), _) => None,
            (_, Some(9)) => Some("killed for its memory".to_owned()),
            _ => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        };
        let said: Option<Said> = serde_json::from_slice(&output.stdout).ok();
        let contained = group.as_ref().is_some_and(|group| {
            let name = group.dir().file_name().unwrap_or_default();
            let entered = |said: &Said| said.groups.contains(&*name.to_string_lossy());
            // One that was killed says nothing; it was killed in its group.
            said.as_ref().is_none_or(entered)
        });
        Ok(Measured {
            said,
            bound,
            contained,
            reclaims: group.as_ref().map_or(0, Container::times_full),
            trouble,
            took,
        })
    }

    /// The process of a row: does its work, and says on standard output what it took.
    ///
    /// # Errors
    /// As the engine's.
    ///
    /// # Panics
    /// On a wrong answer; without /proc.
    pub fn be_measured(row: usize, work: &Work) -> shamba::Result<()> {
        let (done, resident, threads) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let look = || {
            resident.fetch_max(status("RssAnon") << 10, Relaxed);
            threads.fetch_max(status("Threads"), Relaxed);
        };
        let memory = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    look();
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let db = ROWS[row].run(work);
            look();
            done.store(true, Relaxed);
            Ok::<_, shamba::Error>(db?.stats().memory.budget)
        })?;
        let said = Said {
            resident: resident.into_inner(),
            threads: threads.into_inner(),
            charged: memory.peak,
            overdraft: memory.overdraft,
            groups: std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        };
        let said = serde_json::to_string(&said).map_err(std::io::Error::other);
        println!("{}", said.unwrap());
        Ok(())
    }
}

/// A number of this process's status.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim_start_matches(':').split_whitespace();
    number.into_iter().next().unwrap().parse().unwrap()
}

impl Kind for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn arguments(&self) -> String {
        let small = match self.scale {
            Scale::Small => " --small",
            Scale::Full => "",
        };
        format!(" --budget {}{small}", self.budget >> 20)
    }

    /// Each row has the memory of the machine for itself.
    fn in_parallel(&self) -> bool {
        false
    }

    fn case(&self, seed: u64, tally: &Tally) {
        let row = (seed % ROWS.len() as u64) as usize;
        let measured = self.measure(row, seed).unwrap();
        if let Some(complaint) = measured.complaint() {
            panic!("{}: {complaint}: {measured:?}", ROWS[row].name);
        }
        tally.add("rows", 1);
        tally.add("rows in a control group", u64::from(measured.contained));
        tally.add("reclaims", measured.reclaims);
    }
}
