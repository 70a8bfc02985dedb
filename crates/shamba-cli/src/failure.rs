//! Every way a command can fail: the message, a hint that says what to do, and the exit code.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// `get` found nothing.
    Absent { key: String },
    /// The command line makes no sense.
    Usage { what: String, hint: String },
    /// The engine's error.
    Engine(shamba::Error),
    /// A file or stream that is not the database's.
    Io {
        op: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The input data is malformed, or data cannot be written in the format asked for.
    Data { what: String, hint: String },
    /// Another process is in the way.
    Busy { what: String, hint: String },
    /// Damage was found in a database.
    Damage { what: String, hint: String },
    /// A measurement failed.
    Measurement(shamba_bench::Error),
    /// A limit was not kept.
    Limit(String),
    /// Whoever read our output has stopped; nobody is left to tell.
    BrokenPipe,
}

impl Failure {
    /// An error of a file that is not the database's.
    pub fn io(op: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Failure::Io {
            op,
            path: path.as_ref().to_path_buf(),
            source,
        }
    }

    /// An error of writing to standard output.
    pub fn output(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::io("write", "standard output", source),
        }
    }

    /// What a value's reader says: the engine's own error.
    pub fn value(error: io::Error) -> Self {
        match error.downcast::<shamba::Error>() {
            Ok(error) => error.into(),
            Err(error) => Failure::io("read", "the value", error),
        }
    }

    /// A command line that makes no sense.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Malformed data.
    pub fn data(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Data {
            what: what.into(),
            hint: hint.into(),
        }
    }

    fn code(&self) -> u8 {
        use shamba::Error;
        match self {
            Failure::BrokenPipe => 0,
            Failure::Absent { .. } => 1,
            Failure::Usage { .. }
            | Failure::Engine(Error::InvalidOption { .. } | Error::InvertedRange { .. }) => 2,
            Failure::Measurement(shamba_bench::Error::InvalidSetting(_)) => 2,
            Failure::Damage { .. } => 4,
            Failure::Engine(error) if error.is_corruption() => 4,
            Failure::Engine(
                Error::KeyTooLarge { .. }
                | Error::ValueTooLarge { .. }
                | Error::RangeEndTooLarge { .. },
            )
            | Failure::Data { .. } => 5,
            Failure::Engine(_)
            | Failure::Busy { .. }
            | Failure::Io { .. }
            | Failure::Measurement(_) => 3,
            Failure::Limit(_) => 6,
        }
    }

    /// Says on standard error what is wrong and what to do, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Failure::BrokenPipe) {
            let Message { what, hint } = self.message();
            eprintln!("error: {what}");
            if let Some(hint) = hint {
                eprintln!("hint: {hint}");
            }
        }
        ExitCode::from(self.code())
    }

    /// What is wrong, and what to do.
    pub fn words(&self) -> (String, Option<String>) {
        let Message { what, hint } = self.message();
        (what, hint)
    }

    fn message(&self) -> Message {
        match self {
            Failure::Absent { key } => Message::new(
                format!("there is no key `{key}`"),
                "`shamba scan DIR --keys-only --limit 10` shows what keys look like",
            ),
            Failure::Usage { what, hint }
            | Failure::Data { what, hint }
            | Failure::Busy { what, hint }
            | Failure::Damage { what, hint } => Message::new(what, hint),
            Failure::Engine(error) => engine_message(error),
            Failure::Io { op, path, source } => Message::new(
                format!("cannot {op} {}: {source}", path.display()),
                match source.kind() {
                    io::ErrorKind::NotFound => "check the path",
                    io::ErrorKind::PermissionDenied => "check the permissions",
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        "make room, then do it again"
                    }
                    _ => "mend the cause, then do it again",
                },
            ),
            Failure::Measurement(error) => Message::new(
                error,
                match error {
                    shamba_bench::Error::WrongAnswer(_) => {
                        "this is a defect of the engine unless the folder was filled with other settings; please report it"
                    }
                    _ => "`shamba bench --help` lists the settings",
                },
            ),
            Failure::Limit(what) => Message::new(
                what,
                "this is a defect; please report it with the output above",
            ),
            Failure::BrokenPipe => Message {
                what: String::new(),
                hint: None,
            },
        }
    }
}

impl From<shamba::Error> for Failure {
    fn from(error: shamba::Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<shamba_bench::Error> for Failure {
    fn from(error: shamba_bench::Error) -> Self {
        Failure::Measurement(error)
    }
}

impl From<shamba_tune::Error> for Failure {
    fn from(error: shamba_tune::Error) -> Self {
        use shamba_tune::Error;
        match error {
            Error::Engine(error) => Failure::Engine(error),
            Error::Serve(source) => Failure::io("serve", "the page", source),
            error => {
                let hint = error
                    .hint()
                    .unwrap_or("`shamba tune --help` says what inputs mean");
                Failure::usage(error.to_string(), hint)
            }
        }
    }
}

struct Message {
    what: String,
    hint: Option<String>,
}

impl Message {
    fn new(what: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Message {
            what: what.to_string(),
            hint: Some(hint.to_string()),
        }
    }
}

fn engine_message(error: &shamba::Error) -> Message {
    use shamba::Error;
    match error {
        Error::NotFound { path } => Message::new(
            format!("there is no database at {}", path.display()),
            "check the path; `shamba import` and `shamba put` create a database",
        ),
        Error::NotADatabase { path } => Message::new(
            format!(
                "{} is not a SHaMBa database: it has no CURRENT file but is not empty",
                path.display()
            ),
            "check the path, or choose an empty or new folder",
        ),
        Error::AlreadyExists { path } => Message::new(
            format!("{} holds a database already", path.display()),
            "choose an empty or new folder",
        ),
        Error::NotEmpty { path } => Message::new(
            format!("{} is not empty", path.display()),
            "a checkpoint needs a new or an empty folder",
        ),
        Error::Locked { path, .. } => Message::new(
            format!("{} is in use by another process", path.display()),
            "close the program that has it open, or work on a checkpoint",
        ),
        Error::InvalidOption { option, what } => Message::new(
            format!("option `{option}` is invalid: {what}"),
            "`--help` says what is allowed",
        ),
        Error::KeyspaceNotFound { name } => Message::new(
            format!("there is no keyspace named `{name}`"),
            "`shamba stats DIR` lists the keyspaces; import and put create missing ones",
        ),
        Error::LogsExceedMemory { max, needed } => Message::new(
            format!(
                "the write-ahead logs hold more than the {max} bytes that may be kept of them in memory"
            ),
            format!(
                "give at least --memory {needed}, or have `shamba compact` write them to tables"
            ),
        ),
        Error::IteratorsExhausted { limit, needed } => Message::new(
            format!("iterators hold as much as they may of the memory budget of {limit} bytes"),
            format!("give at least --memory {needed}"),
        ),
        Error::BudgetTooSmall { limit, needed } => Message::new(
            format!("the memory budget of {limit} bytes is too small for what this database holds"),
            format!("give at least --memory {needed}"),
        ),
        Error::Poisoned { cause } => Message::new(
            format!("writes were stopped by an earlier failure: {cause}"),
            "mend the cause (a full disk, a failing device), then do it again: what was written is safe",
        ),
        Error::Io { source, .. } => Message::new(
            error,
            match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "check the permissions of the folder and its files"
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room on the device, then do it again"
                }
                _ => "check the path and the device, then do it again",
            },
        ),
        // The engine's other messages end in advice of their own.
        other => {
            let text = other.to_string();
            match text.rsplit_once("; ") {
                Some((what, hint)) => Message::new(what, hint),
                None => Message::new(text, "`shamba --help` shows what can be done"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_the_causes_apart() {
        let option = shamba::Error::InvalidOption {
            option: "memory",
            what: String::new(),
        };
        let damage = shamba::Error::Corruption {
            file: "f".into(),
            offset: 0,
            what: "x".into(),
        };
        let large = shamba::Error::KeyTooLarge {
            len: 2,
            max: 1,
            needed: None,
        };
        assert_eq!(Failure::Absent { key: String::new() }.code(), 1);
        assert_eq!(Failure::Engine(option).code(), 2);
        assert_eq!(Failure::Engine(shamba::Error::Closed).code(), 3);
        assert_eq!(Failure::Engine(damage).code(), 4);
        assert_eq!(Failure::Engine(large).code(), 5);
        assert_eq!(Failure::Limit(String::new()).code(), 6);
    }

    #[test]
    fn advice_in_engine_messages_becomes_the_hint() {
        let damage = shamba::Error::Corruption {
            file: "f.sst".into(),
            offset: 7,
            what: "bad; very bad".into(),
        };
        let message = Failure::Engine(damage).message();
        assert!(
            message.what.contains("f.sst") && message.what.contains("very bad"),
            "{}",
            message.what
        );
        assert!(
            message
                .hint
                .is_some_and(|hint| hint.contains("shamba verify"))
        );
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failure = Failure::output(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(failure.code(), 0);
    }
}
