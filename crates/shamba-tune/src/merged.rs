//! What was given laid over what a database knows, with shares of operations; pure.

use crate::database::Known;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::problem::{percent, round};
use crate::value::{Number, name};

/// The share of updates, where nothing is known of the workload.
pub(crate) const UPDATES: f64 = 0.5;

/// Inputs of which some may still be missing, and who told those that nobody gave.
#[derive(Debug)]
pub(crate) struct Merged {
    pub inputs: Inputs,
    /// Names and values of inputs that the database told.
    pub from_database: Vec<String>,
    /// Names and values of inputs that nobody told.
    pub assumed: Vec<String>,
}

impl Merged {
    /// What was given over what the database knows, with shares of operations.
    pub(crate) fn new(given: Inputs, known: Option<Known>) -> Result<Merged> {
        let (mut from_database, mut assumed) = (Vec::new(), Vec::new());
        let asked = known.is_some();
        let Known {
            inputs: mut below,
            bits_of_design,
            moving,
            workload,
            empty,
            measured: _,
        } = known.unwrap_or_default();
        if asked && given.entries.is_none() && below.entries == Some(Number(0.0)) {
            return Err(Error::refused(
                "the database holds no entries",
                "fill it first, or say with --entries how many it will hold",
            ));
        }
        if given.memory.is_some() {
            below.present_bits_per_key = None;
        }
        if let (None, Some(policy)) = (given.present_merge_policy, below.present_merge_policy) {
            let moved = if moving {
                ", which the tree has yet to reach"
            } else {
                ""
            };
            let policy = name(policy);
            from_database.push(format!(
                "present-merge-policy {policy} (of the design that it keeps{moved})"
            ));
        }
        if let (None, Some(memory), Some(buffer)) = (
            given.present_write_buffer,
            given.memory,
            below.present_write_buffer,
        ) && buffer > memory
        {
            below.present_write_buffer = None;
            assumed.push(format!(
                "another write buffer than that of {buffer} bytes which the database keeps: memory is less"
            ));
        }
        for (name, own, known) in [
            ("entries", given.entries, below.entries),
            ("entry-size", given.entry_size, below.entry_size),
            (
                "present-bits-per-key",
                given.present_bits_per_key,
                below.present_bits_per_key,
            ),
            (
                "present-size-ratio",
                given.present_size_ratio,
                below.present_size_ratio,
            ),
            (
                "present-write-buffer",
                given.present_write_buffer,
                below.present_write_buffer,
            ),
            (
                "range-entries",
                given.range_entries.or(given.selectivity),
                below.range_entries,
            ),
        ] {
            if let (None, Some(value)) = (own, known) {
                let whence = match (name, bits_of_design) {
                    ("present-bits-per-key", false) => " (of its files)",
                    ("entries" | "entry-size", _) => "",
                    ("range-entries", _) => " (of the range lookups that it counted)",
                    _ => " (of the design that it keeps)",
                };
                from_database.push(format!("{name} {value}{whence}"));
            }
        }
        let mut inputs = given.over(below);
        let unsaid = inputs.shares().iter().all(|(_, share)| share.is_none());
        if let (true, Some(workload)) = (unsaid, workload) {
            let shares = [
                workload.empty_lookups,
                workload.existing_lookups,
                workload.range_lookups,
                workload.updates,
            ];
            inputs.set_shares(shares.map(|share| Some(Number(share))));
            let named = inputs.shares().into_iter().zip(shares);
            let named: Vec<_> = named
                .map(|((name, _), share)| format!("{name} {}", percent(share)))
                .collect();
            from_database.push(format!(
                "{} (of the operations that it counted)",
                named.join(", ")
            ));
        } else if unsaid {
            let split = empty.unwrap_or(0.5);
            let lookups = 1.0 - UPDATES;
            let empty_lookups = round(lookups * split);
            let shares = [empty_lookups, lookups - empty_lookups, 0.0, UPDATES];
            inputs.set_shares(shares.map(|share| Some(Number(share))));
            let [empty_share, existing, _, updates] = shares.map(percent);
            let lookups = format!("empty-lookups {empty_share}, existing-lookups {existing}");
            match empty {
                Some(_) => from_database.push(format!(
                    "{lookups} (in the proportion of the keys looked up)"
                )),
                None => assumed.push(lookups),
            }
            let why = match (asked, empty) {
                (false, _) => "",
                (true, None) => {
                    " (a database counts operations while it is open; this one has counted none)"
                }
                (true, Some(_)) => " (the keys looked up say nothing of these)",
            };
            assumed.push(format!("range-lookups 0 %, updates {updates}{why}"));
        }
        Ok(Merged {
            inputs,
            from_database,
            assumed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Policy;

    #[test]
    fn a_move_that_is_under_way_is_told() {
        for (moving, there) in [(true, true), (false, false)] {
            let known = Known {
                inputs: Inputs {
                    present_merge_policy: Some(Policy::Tiering),
                    ..Inputs::default()
                },
                moving,
                ..Known::default()
            };
            let told = Merged::new(Inputs::default(), Some(known)).unwrap();
            let told = told.from_database.join("; ");
            assert!(told.contains("present-merge-policy tiering"), "{told}");
            assert_eq!(told.contains("yet to reach"), there, "{told}");
        }
    }
}
