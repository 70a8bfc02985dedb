//! What can go wrong in a measurement.

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a measurement. A wrong answer is an error, never a number in a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine under test reported an error.
    #[error("{engine}: {message}")]
    Engine {
        /// Name of the engine.
        engine: String,
        /// The engine's own message.
        message: String,
    },
    /// An engine gave an answer that contradicts what was written.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// A setting makes no sense.
    #[error("invalid setting: {0}")]
    InvalidSetting(String),
    /// The engine is not built in, or there is no engine of that name.
    #[error("no engine named `{0}` in this build (peers need --features rocksdb,fjall,redb)")]
    UnknownEngine(String),
    /// A measurement in a child process failed.
    #[error("the measuring process failed: {0}")]
    Child(String),
    /// A child process was killed, as the system does when memory is used up.
    #[error("the measuring process was killed: {0}")]
    Killed(String),
    /// An experiment panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// It is to be judged, and there is no measurement of it.
    #[error("not measured: {0}")]
    NotMeasured(String),
    /// Reading or writing files of the measurement failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A report could not be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A report could not be written as CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

impl From<shamba_model::ModelError> for Error {
    /// What the cost model refuses is a setting that makes no sense.
    fn from(source: shamba_model::ModelError) -> Self {
        Self::InvalidSetting(format!("the model: {source}"))
    }
}

impl From<shamba::Error> for Error {
    fn from(source: shamba::Error) -> Self {
        Self::engine("shamba", source)
    }
}

impl Error {
    /// An error reported by the engine `engine`.
    pub fn engine(engine: &str, source: impl std::fmt::Display) -> Self {
        Self::Engine {
            engine: engine.to_owned(),
            message: source.to_string(),
        }
    }
}
