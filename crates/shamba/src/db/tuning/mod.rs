//! The design of a keyspace: which one suits it, by the model, and moving to another.

mod advise;
mod device;
mod redesign;

pub(super) use advise::Advisor;
pub use advise::{Advice, PricedDesign};
pub(super) use redesign::{Redesigner, restore};
