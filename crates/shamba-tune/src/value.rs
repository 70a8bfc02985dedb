//! What inputs are made of: numbers with units, and names of choices.
//!
//! A value reads the same wherever it stands: as a word of the command line, as text in a
//! description, or (numbers) as a number there. It is written as a number or a name.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use clap::ValueEnum;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use shamba_model::cost::Allocation;
use shamba_model::curve::Family;
use shamba_model::tree::MergePolicy;

/// A finite number: `0.25`, `25%`, `5e9`, `60_000`, `100M` (millions), `64MiB`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Number(pub f64);

/// Integers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.trim().replace('_', "");
        let number = match plain.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|n| n / 100.0),
            None => plain.parse::<f64>().ok().or_else(|| with_unit(&plain)),
        };
        number.filter(|n| n.is_finite()).map(Number).ok_or_else(|| {
            format!("`{text}` is not a number; write for example 5000, 0.25, 25%, 100M or 64MiB")
        })
    }
}

/// A number with a unit: thousands and their powers by a letter, sizes by the units of SIZE.
fn with_unit(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let number: f64 = number.trim().parse().ok()?;
    let unit = match unit {
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => ByteSize::from_str(&format!("1{unit}")).ok()?.as_u64() as f64,
    };
    Some(number * unit)
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() <= EXACT {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or text such as \"25%\", \"100M\" or \"64MiB\"")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
        if number.is_finite() {
            Ok(Number(number))
        } else {
            Err(E::custom(format!("{number} is not a finite number")))
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        text.parse().map_err(E::custom)
    }
}

/// When runs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One run a level
    Leveling,
    /// Several runs a level
    Tiering,
    /// Several runs a level, one in the last
    LazyLeveling,
}

impl From<Policy> for MergePolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Leveling => MergePolicy::Leveling,
            Policy::Tiering => MergePolicy::Tiering,
            Policy::LazyLeveling => MergePolicy::LazyLeveling,
        }
    }
}

/// How filter memory is divided among levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// The same bits per key in all levels
    Uniform,
    /// Least reads for absent keys
    MonkeyZero,
    /// Least reads for the lookups there are
    Monkey,
}

impl From<Division> for Allocation {
    fn from(division: Division) -> Self {
        match division {
            Division::Uniform => Allocation::Uniform,
            Division::MonkeyZero => Allocation::MonkeyZero,
            Division::Monkey => Allocation::Monkey,
        }
    }
}

/// Filter families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// Standard Bloom
    Bloom,
    /// Bloom blocked by cache line
    BlockedBloom,
    /// Ribbon columns
    Ribbon,
    /// The Bloom filter of the papers' formulas, with any fraction of a hash
    Ideal,
}

impl From<Filter> for Family {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Bloom => Family::Bloom,
            Filter::BlockedBloom => Family::Blocked,
            Filter::Ribbon => Family::Ribbon,
            Filter::Ideal => Family::Ideal,
        }
    }
}

/// The name of a choice, as flags and descriptions have it.
pub(crate) fn name(choice: impl ValueEnum) -> String {
    choice
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, number) in [
            ("0.25", 0.25),
            ("25%", 0.25),
            ("60_000", 60_000.0),
            ("1.5M", 1.5e6),
            ("5e9", 5e9),
            ("64MiB", 67_108_864.0),
            ("1 GB", 1e9),
            ("2k", 2000.0),
        ] {
            assert_eq!(text.parse(), Ok(Number(number)), "{text}");
        }
        for nonsense in ["", "%", "many", "12 parsecs", "inf", "NaN", "1e999", "MiB"] {
            assert!(nonsense.parse::<Number>().is_err(), "{nonsense}");
        }
    }

    #[test]
    fn numbers_are_written_as_they_would_be_typed() {
        let json = |number| serde_json::to_string(&Number(number)).unwrap();
        assert_eq!(json(1e8), "100000000");
        assert_eq!(json(0.25), "0.25");
        let back: [Number; 3] = serde_json::from_str("[1, 0.5, \"50%\"]").unwrap();
        assert_eq!(back, [Number(1.0), Number(0.5), Number(0.5)]);
    }
}
