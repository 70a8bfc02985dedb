//! Inputs of which some are changed: what a what-if asks.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::value::Number;

/// Complete inputs with some of them changed, each by `KEY=VALUE`, or by `KEY=` taken away. Shares
/// of operations that are not named keep their proportions in what is left. The present design
/// keeps its buffer where it fits, and gives its filters what memory is left.
///
/// # Errors
/// [`Error::Refused`] for a change that is none, names no input or one twice, and for shares that
/// sum to more than all operations.
pub fn change(inputs: &Inputs, changes: &[String]) -> Result<Inputs> {
    let hint = "write for example --what-if entries=10G; the keys are the names of the flags";
    let mut map = Map::new();
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(Error::refused(format!("`{change}` has no `=`"), hint));
        };
        let key = key.trim().trim_start_matches("--").to_owned();
        let value = match value.trim() {
            "" => Value::Null,
            value => Value::from(value),
        };
        if map.insert(key.clone(), value).is_some() {
            return Err(Error::refused(format!("`{key}` is changed twice"), hint));
        }
    }
    let nothing = |(key, value): (&String, &Value)| value.is_null().then(|| key.clone());
    let taken: Vec<String> = map.iter().filter_map(nothing).collect();
    let wrong = |error| Error::refused(format!("--what-if: {error}"), hint);
    let mut named: Inputs = serde_json::from_value(Value::Object(map)).map_err(wrong)?;
    make_room(&mut named, inputs)?;
    let mut base = serde_json::to_value(inputs).map_err(wrong)?;
    if let Value::Object(base) = &mut base {
        base.retain(|key, _| !taken.contains(key));
    }
    let mut base: Inputs = serde_json::from_value(base).map_err(wrong)?;
    // What fills the memory there is fills other memory differently.
    if named.entries.is_some() || named.memory.is_some() || named.present_write_buffer.is_some() {
        base.present_bits_per_key = None;
    }
    if named.memory < base.present_write_buffer && named.memory.is_some() {
        base.present_write_buffer = None;
    }
    Ok(named.over(base))
}

/// Scales the shares that were not named so that all sum to 1 again.
fn make_room(named: &mut Inputs, inputs: &Inputs) -> Result<()> {
    let shares = named.shares();
    let taken: f64 = shares
        .iter()
        .filter_map(|(_, share)| *share)
        .map(|share| share.0)
        .sum();
    if shares.iter().all(|(_, share)| share.is_none()) {
        return Ok(());
    }
    let unit = if taken > 1.0 { 100.0 } else { 1.0 };
    let others = inputs.shares().into_iter().zip(shares);
    let others = others.filter(|(_, (_, share))| share.is_none());
    let others: f64 = others
        .filter_map(|((_, share), _)| share)
        .map(|share| share.0)
        .sum();
    let left = 1.0 - taken / unit;
    if left < 0.0 || (left > 1e-6 && others == 0.0) {
        return Err(Error::refused(
            format!("the shares of operations that --what-if names sum to {taken}"),
            "name others too, so that all sum to 1, or to 100 if they are percentages",
        ));
    }
    let scale = if others > 0.0 { left / others } else { 0.0 };
    let mut all = inputs.shares().map(|(_, share)| share);
    for (share, (_, own)) in all.iter_mut().zip(shares) {
        *share = match own {
            Some(own) => Some(Number(own.0 / unit)),
            None => share.map(|share| Number(share.0 * scale)),
        };
    }
    named.set_shares(all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        let mut inputs = Inputs {
            entries: Some(Number(1e6)),
            size_ratio: Some(Number(3.0)),
            present_bits_per_key: Some(Number(10.0)),
            ..Inputs::default()
        };
        inputs.set_shares([0.3, 0.2, 0.1, 0.4].map(|share| Some(Number(share))));
        inputs
    }

    fn changed(changes: &[&str]) -> Result<Inputs> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        change(&inputs(), &changes)
    }

    #[test]
    fn other_inputs_stay() {
        let got = changed(&["--entries=2M", "size-ratio="]).unwrap();
        let want = Inputs {
            entries: Some(Number(2e6)),
            size_ratio: None,
            // Of other entries.
            present_bits_per_key: None,
            ..inputs()
        };
        assert_eq!(got, want);
    }

    #[test]
    fn other_shares_make_room() {
        let got = changed(&["updates=70%"]).unwrap();
        let shares = got.shares().map(|(_, share)| share.unwrap().0);
        for (got, want) in shares.into_iter().zip([0.15, 0.1, 0.05, 0.7]) {
            assert!((got - want).abs() < 1e-12, "{shares:?}");
        }
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for changes in [
            &["updates"] as &[&str],
            &["colour=red"],
            &["updates=0.1", "updates=0.2"],
            &["updates=70", "empty-lookups=40"],
        ] {
            assert!(changed(changes).is_err(), "{changes:?}");
        }
    }
}
