//! Checks of options.

use crate::error::{Error, Result};

/// Refuses a value that is not from `min` to `max`.
pub(super) fn range<T: PartialOrd + std::fmt::Display>(
    name: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<()> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(Error::option(
        name,
        format!("{value} is not between {min} and {max}"),
    ))
}
