//! Where the page's first inputs come from, and the database it is attached to.
//!
//! The database is opened only while it is asked, at the start and whenever the page wants to
//! measure again; in between other programs may have it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::database::{Known, Measured};
use crate::error::Result;
use crate::inputs::Inputs;
use crate::problem::Problem;
use crate::value::Number;

/// Entries that the page begins with where nobody says how many there are.
const ENTRIES: f64 = 1e8;

/// Opens a database, asks it and closes it again.
pub type Ask = Box<dyn Fn() -> Result<Known> + Send + Sync>;

/// A database to attach a page to.
pub struct Database {
    /// Where it is.
    pub path: String,
    /// The keyspace that is asked, if it is not the default one.
    pub keyspace: Option<String>,
    /// The file whose keys are looked up to measure.
    pub keys: Option<String>,
    /// Asks it, whenever the page wants to measure again.
    pub ask: Ask,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .field("keyspace", &self.keyspace)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// What the page begins with.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Start {
    pub version: &'static str,
    /// All inputs.
    pub input: Inputs,
    /// Those that the database told.
    pub from_database: Vec<String>,
    /// Those that nobody told.
    pub assumed: Vec<String>,
    pub database: Option<Attached>,
}

/// A database the page is attached to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Attached {
    pub path: String,
    pub keyspace: Option<String>,
    /// The file whose keys are looked up to measure.
    pub keys: Option<String>,
    pub measured: Measured,
}

/// What a page begins with: what was given, and what a database knows.
#[derive(Debug)]
pub struct Source {
    given: Inputs,
    database: Option<Database>,
    start: Mutex<Start>,
}

impl Source {
    /// Checks what was given, over what a database told when it was asked first.
    ///
    /// # Errors
    /// Those of [`Problem::new`].
    pub fn new(mut given: Inputs, database: Option<(Database, Known)>) -> Result<Source> {
        let mut assumed = None;
        if database.is_none() && given.entries.is_none() {
            given.entries = Some(Number(ENTRIES));
            assumed = Some(format!("entries {ENTRIES}"));
        }
        let (database, known) = database.unzip();
        let mut start = start(&given, database.as_ref().zip(known))?;
        start.assumed.splice(0..0, assumed);
        Ok(Source {
            given,
            database,
            start: Mutex::new(start),
        })
    }

    /// What the page begins with.
    pub(super) fn start(&self) -> Start {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        start.clone()
    }

    /// The share of the lookups measured that found their key.
    pub(super) fn positive(&self) -> Option<f64> {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = &start.database.as_ref()?.measured;
        measured.lookups.map(|lookups| lookups.positive)
    }

    /// The same, the database asked anew.
    pub(super) fn measure(&self) -> Result<Start> {
        // Held all the while: only one can have the database open.
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &self.database {
            let known = (database.ask)()?;
            *start = self::start(&self.given, Some((database, known)))?;
        }
        Ok(start.clone())
    }
}

/// The start of a page for what was given, over what its database knows.
fn start(given: &Inputs, database: Option<(&Database, Known)>) -> Result<Start> {
    let attached = database.as_ref().map(|(database, known)| Attached {
        path: database.path.clone(),
        keyspace: database.keyspace.clone(),
        keys: database.keys.clone(),
        measured: known.measured.clone(),
    });
    let problem = Problem::new(given.clone(), database.map(|(_, known)| known))?;
    let mut input = problem.inputs;
    // Filters that fill the memory are to fill it when it changes, too.
    let filled = problem.present.buffer_bytes + problem.present.filter_bytes;
    if filled == problem.request.memory_bytes {
        input.present_bits_per_key = None;
    }
    Ok(Start {
        version: env!("CARGO_PKG_VERSION"),
        input,
        from_database: problem.from_database,
        assumed: problem.assumed,
        database: attached,
    })
}
