//! The one error of this crate.

use std::io;

/// The result of what can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was given makes no sense or cannot be had.
    #[error("{what}")]
    Refused {
        /// What is wrong. Inputs are named as in a description.
        what: String,
        /// What to do about it. Inputs are named as flags.
        hint: String,
    },
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] shamba::Error),
    /// The page cannot be served.
    #[error("cannot serve the page: {0}")]
    Serve(#[source] io::Error),
}

impl Error {
    /// That `what` is wrong, and what to do about it.
    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Error::Refused {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// What to do about it, where the message does not say it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Refused { hint, .. } => Some(hint),
            Error::Engine(_) | Error::Serve(_) => None,
        }
    }
}
