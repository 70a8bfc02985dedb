//! Where the page's first inputs come from, and the database it is attached to.
//!
//! The database is opened only while it is asked, at the start and whenever the page wants to
//! measure again; in between other programs may have it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::super::database::{self, Measured};
use super::super::inputs::Inputs;
use super::super::problem::Problem;
use super::super::value::Number;
use crate::args::Global;
use crate::failure::Failure;

/// Entries that the page begins with where nobody says how many there are.
const ENTRIES: f64 = 1e8;

/// What the page begins with.
#[derive(Debug, Clone, Serialize)]
pub struct Start {
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
pub struct Attached {
    pub path: String,
    pub keyspace: Option<String>,
    /// The file whose keys are looked up to measure.
    pub keys: Option<String>,
    pub measured: Measured,
}

/// What was given on the command line, and what came of it.
#[derive(Debug)]
pub struct Source {
    given: Inputs,
    global: Global,
    database: Option<(PathBuf, Option<PathBuf>)>,
    start: Mutex<Start>,
}

impl Source {
    /// Asks the database in `dir`, if there is one, and checks the inputs.
    pub fn new(
        global: &Global,
        mut given: Inputs,
        dir: Option<&Path>,
        keys: Option<&Path>,
    ) -> Result<Source, Failure> {
        if keys.is_some_and(|path| path.as_os_str() == "-") {
            return Err(Failure::usage(
                "--serve cannot read keys from standard input",
                "give a file: its keys are looked up again whenever the page measures",
            ));
        }
        let mut assumed = None;
        if dir.is_none() && given.entries.is_none() {
            given.entries = Some(Number(ENTRIES));
            assumed = Some(format!("entries {ENTRIES}"));
        }
        let database = dir.map(|dir| (dir.to_owned(), keys.map(Path::to_owned)));
        let global = Global {
            memory: None,
            keyspace: global.keyspace.clone(),
            quiet: global.quiet,
        };
        let mut start = ask(&global, &given, database.as_ref())?;
        start.assumed.splice(0..0, assumed);
        Ok(Source {
            given,
            // Only the first time is there somebody at the terminal.
            global: Global {
                quiet: true,
                ..global
            },
            database,
            start: Mutex::new(start),
        })
    }

    /// What the page begins with.
    pub fn start(&self) -> Start {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        start.clone()
    }

    /// The share of the lookups measured that found their key.
    pub fn positive(&self) -> Option<f64> {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = &start.database.as_ref()?.measured;
        measured.lookups.map(|lookups| lookups.positive)
    }

    /// The same, the database asked anew.
    pub fn measure(&self) -> Result<Start, Failure> {
        // Held all the while: only one can have the database open.
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        if self.database.is_some() {
            *start = ask(&self.global, &self.given, self.database.as_ref())?;
        }
        Ok(start.clone())
    }
}

fn ask(
    global: &Global,
    given: &Inputs,
    database: Option<&(PathBuf, Option<PathBuf>)>,
) -> Result<Start, Failure> {
    let known = database.map(|(dir, keys)| database::ask(global, dir, keys.as_deref()));
    let known = known.transpose()?;
    let attached = database.zip(known.as_ref());
    let attached = attached.map(|((dir, keys), known)| Attached {
        path: dir.display().to_string(),
        keyspace: global.keyspace.clone(),
        keys: keys.as_ref().map(|path| path.display().to_string()),
        measured: known.measured.clone(),
    });
    let problem = Problem::new(given.clone(), known)?;
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
