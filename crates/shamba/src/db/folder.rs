//! What the files in a database's folder are, by their names (docs/format.md, "Files of a database").
//! Pure.

use super::hints::HINTS;

/// Locked by whoever has the database open.
pub(super) const LOCK: &str = "LOCK";

/// What a file's name says it is.
pub(super) enum FileKind {
    Table(u64),
    Log(u64),
    Manifest,
    Temporary,
    Hints,
    Other,
}

/// What a file of a database's folder is.
pub(super) fn classify(name: &str) -> FileKind {
    let numbered = |suffix: &str| name.strip_suffix(suffix).and_then(|stem| stem.parse().ok());
    if let Some(number) = numbered(".sst") {
        FileKind::Table(number)
    } else if let Some(number) = numbered(".wal") {
        FileKind::Log(number)
    } else if name.starts_with("MANIFEST-") || name.starts_with("MARKS-") {
        FileKind::Manifest
    } else if name == HINTS {
        FileKind::Hints
    } else if name.ends_with(".tmp") {
        FileKind::Temporary
    } else {
        FileKind::Other
    }
}
