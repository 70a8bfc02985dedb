//! What-if tuning for the SHaMBa engine: which design suits data, device, memory and workload best,
//! what it gains, and what changes when one of these does.
//!
//! Three layers say what is given, an upper one where it speaks before those below: what the caller
//! gives ([`Inputs`]), a description ([`description`]), a database ([`database`]). [`Problem::new`]
//! lays the database below the rest, adds what is assumed and checks it all; [`answer()`] asks the
//! model (`shamba_model`); [`text()`] shows the answer to a person. [`what_if`] changes inputs, and
//! [`serve`] does it all again and again for a page on this machine.
//!
//! An input has one name: as a flag of `shamba tune`, as a key of a description and as a field of
//! the page. [`Error::Refused`] speaks of inputs by it.
//!
//! ```
//! use shamba_tune::{Inputs, Number, Problem};
//!
//! # fn main() -> shamba_tune::Result<()> {
//! let given = Inputs {
//!     entries: Some(Number(1e9)),
//!     memory: Some(Number(1e9)),
//!     updates: Some(Number(0.2)),
//!     empty_lookups: Some(Number(0.8)),
//!     ..Inputs::default()
//! };
//! let problem = Problem::new(given, None)?;
//! let answer = shamba_tune::answer(&problem, None)?;
//! assert!(answer.best.costs.average < answer.present.costs.average);
//! // What a program would open the database with.
//! assert!(answer.options.rust.starts_with("KeyspaceOptions::new()"));
//! # Ok(()) }
//! ```
//!
//! Nothing here prints, and files are those of the database that is asked. All functions may be
//! called from any thread; they take milliseconds.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

mod answer;
pub mod database;
pub mod description;
mod error;
mod inputs;
mod merged;
mod problem;
pub mod serve;
pub mod tables;
mod text;
mod value;
pub mod what_if;

pub use answer::{Answer, EngineOptions, Level, Plan, Step, WhatIf, answer};
pub use error::{Error, Result};
pub use inputs::Inputs;
pub use problem::Problem;
pub use text::text;
pub use value::{Division, Filter, Number, Policy};
