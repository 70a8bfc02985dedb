//! Sizes in bytes as people read and write them: `64K`, `1.5 MiB`. Pure functions.

use std::fmt;

use crate::error::{Error, Result};

/// Bytes from a size as people write it: a number, and a unit if you like. A letter alone is a
/// binary unit, as RocksDB, Docker and systemd have them, and so is `KiB`; `KB` is a decimal one.
/// Upper and lower case are the same, up to `T`.
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// use shamba::parse_size;
/// assert_eq!(parse_size("65536")?, 64 << 10);
/// assert_eq!(parse_size("64K")?, 64 << 10);
/// assert_eq!(parse_size("1.5 GiB")?, 3 << 29);
/// assert_eq!(parse_size("1 GB")?, 1_000_000_000);
/// assert!(parse_size("much").is_err());
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Error::InvalidOption`] for anything else.
pub fn parse_size(text: &str) -> Result<u64> {
    parse(text.trim()).ok_or_else(|| {
        let what = format!("`{text}` is not a size; write for example 65536, 64K or 1G");
        Error::option("size", what)
    })
}

fn parse(text: &str) -> Option<u64> {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let number = text.trim_end_matches(|c| !digit(c));
    let unit = text.strip_prefix(number)?.trim_start();
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    if number.chars().all(|c| c.is_ascii_digit()) {
        return number.parse::<u64>().ok()?.checked_mul(unit);
    }
    let bytes = number.chars().all(digit).then(|| number.parse::<f64>());
    let bytes = bytes?.ok()? * unit as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Bytes, shown with a binary unit and a digit behind the point.
pub(crate) struct SizeText(pub(crate) u64);

impl fmt::Display for SizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let (mut shown, mut unit) = (self.0 as f64 / 1024.0, "KiB");
        for larger in ["MiB", "GiB", "TiB"] {
            // What would be shown as 1024.0 is one of the larger unit.
            if shown < 1023.95 {
                break;
            }
            (shown, unit) = (shown / 1024.0, larger);
        }
        write!(f, "{shown:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_alone_are_binary_units() {
        for (text, bytes) in [
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1.5M", 3 << 19),
            ("2 G", 2 << 30),
            ("1T", 1 << 40),
            ("64KiB", 64 << 10),
            ("64kB", 64_000),
            ("1 MB", 1_000_000),
            (" 7 ", 7),
            ("7B", 7),
            ("0.5 TiB", 1 << 39),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            " ",
            "K",
            "5i",
            "-1",
            "+1",
            "1e3",
            ".",
            "1.2.3",
            "12 parsecs",
            "5 5",
            "5K5",
            "K5",
            "inf",
            "nan",
            "18446744073709551616",
            "16777216T",
            "99999999.5T",
            "5%",
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn sizes_have_the_largest_unit_that_they_fill() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (32 << 20, "32.0 MiB"),
            (5 << 40, "5.0 TiB"),
            (5 << 50, "5120.0 TiB"),
        ] {
            assert_eq!(SizeText(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_about_the_same(bytes: u64) {
            let read = parse_size(&SizeText(bytes).to_string()).unwrap() as f64;
            prop_assert!((read - bytes as f64).abs() <= bytes as f64 / 20.0);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse_size(&text);
        }
    }
}
