//! Inputs as a file: TOML, or JSON, whose keys are the names of inputs.
//!
//! [`parse`] reads what [`to_toml`] writes, and `serde_json` writes of [`Inputs`]; a person may
//! leave lines out, and write numbers with units as text.

use crate::error::{Error, Result};
use crate::inputs::Inputs;

/// Why a text is no description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// Reads a description: JSON if it begins with a brace, which no TOML does.
///
/// # Errors
/// [`Malformed`], where the text is neither, has an unknown key or a value that makes no sense.
pub fn parse(text: &str) -> Result<Inputs, Malformed> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| Malformed {
            line: error.line(),
            what: error.to_string(),
        });
    }
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        Malformed {
            line: before.matches('\n').count() + 1,
            what: error.message().to_owned(),
        }
    })
}

const HEAD: &str = "\
# Inputs of `shamba tune`: shamba tune --description FILE. Keys and values are those of the flags:
# sizes also as \"64MiB\", numbers as \"100M\", shares as \"25%\". Lines left out take defaults.
";

/// The inputs as TOML, with what may be set beside them.
///
/// # Errors
/// [`Error::Refused`] for a number that TOML does not have.
pub fn to_toml(inputs: &Inputs) -> Result<String> {
    let text = toml::to_string(inputs).map_err(|error| {
        Error::refused(
            format!("these inputs are no description: {error}"),
            "write them as JSON",
        )
    })?;
    let mut text = format!("{HEAD}\n{text}");
    let unset = [
        ("max-lookup-cost = 1.1", inputs.max_lookup_cost.is_none()),
        ("max-update-cost = 0.5", inputs.max_update_cost.is_none()),
        ("merge-policy = \"leveling\"", inputs.merge_policy.is_none()),
        ("size-ratio = 10", inputs.size_ratio.is_none()),
        ("write-buffer = \"64MiB\"", inputs.write_buffer.is_none()),
    ];
    if unset.iter().any(|(_, unset)| *unset) {
        text += "\n# What must hold:\n";
    }
    for (line, _) in unset.iter().filter(|(_, unset)| *unset) {
        text += &format!("# {line}\n");
    }
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Number, Policy};

    #[test]
    fn what_is_written_is_read() {
        let inputs = Inputs {
            entries: Some(Number(1e8)),
            updates: Some(Number(0.4)),
            merge_policy: Some(Policy::LazyLeveling),
            ..Inputs::default()
        };
        assert_eq!(parse(&to_toml(&inputs).unwrap()), Ok(inputs.clone()));
        let json = serde_json::to_string_pretty(&inputs).unwrap();
        assert_eq!(parse(&json), Ok(inputs));
    }

    #[test]
    fn the_line_is_told() {
        for (text, line) in [
            ("entries = 1\nentrys = 2\n", 2),
            ("\nentries = \n", 2),
            ("{\n\"entries\": 1,\n\"filter\": \"oak\"}", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
