//! The pieces of background work on tables: flushes and compactions, carried out on whatever thread
//! takes them. What is done when, and who waits, is [`super::background`]'s.
//!
//! [`Flusher`] and [`Compactor`] have [`TableMaker`] say how tables are built and [`Jobs`] count
//! what is under way; both install what they wrote with [`Files`](super::files::Files).

mod compact;
mod flush;
mod heirs;
mod hidden;
mod job_guard;
mod merge;
mod table_maker;
mod table_options;

pub(super) use compact::{Compactor, RangeStep};
pub(super) use flush::Flusher;
pub(super) use job_guard::Jobs;
pub(super) use table_maker::TableMaker;
