//! Stress for the engine, of several kinds, each from numbered seeds and for any length of time.
//!
//! A [`Kind`] does one case for a seed, checks every answer, and panics on a wrong one. [`run`]
//! does case after case, from any number of threads, and says how a failing one is had again. The
//! options that cases draw are those of the engine's own tests.

#[path = "../../shamba/tests/common/mod.rs"]
mod common;
pub mod damage;
pub mod kill;
pub mod memory;
pub mod power;
mod progress;
mod run;
pub mod threads;

pub use progress::Progress;
pub use run::{Failure, Limits, Outcome, Tally, run};

/// One kind of stress.
pub trait Kind: Sync {
    /// What the command line calls it.
    fn name(&self) -> &'static str;

    /// Whether several cases may run at a time. Not where a case uses threads of its own.
    fn in_parallel(&self) -> bool {
        true
    }

    /// What else the command line says to do the same cases: arguments with a space before each.
    fn arguments(&self) -> String {
        String::new()
    }

    /// The command that does the case of a seed again.
    fn again(&self, seed: u64) -> String {
        let arguments = self.arguments();
        format!("stress {}{arguments} --seed {seed} --cases 1", self.name())
    }

    /// Does the case of a seed.
    ///
    /// # Panics
    /// On a wrong answer, a lost write, a wrong error.
    fn case(&self, seed: u64, tally: &Tally);
}
