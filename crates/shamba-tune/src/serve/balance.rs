//! Shares of operations that go on summing to 1 while one of them is moved.

use crate::error::{Error, Result};
use crate::inputs::Inputs;

/// A share keeps six digits: what a person can read, and less than what sums may be off.
const DIGITS: f64 = 1e6;

/// The names of the shares of operations.
pub(super) fn names() -> [&'static str; 4] {
    Inputs::default().shares().map(|(name, _)| name)
}

/// The share named `changed` as it is in `inputs`, and the others scaled in their proportions to
/// what it leaves.
pub(super) fn balanced(changed: &str, inputs: &Inputs) -> Result<[(&'static str, f64); 4]> {
    let mut shares = inputs
        .shares()
        .map(|(name, share)| (name, share.map_or(0.0, |share| share.0)));
    let own = shares.iter().find(|(name, _)| *name == changed);
    let own = own.map_or(0.0, |(_, share)| *share);
    for (name, share) in shares {
        if share < 0.0 || (name == changed && share > 1.0) {
            return Err(Error::refused(
                format!("{name} is {} %, but must be from 0 to 100 %", share * 100.0),
                "a share is a part of all operations",
            ));
        }
    }
    let others = shares.iter().filter(|(name, _)| *name != changed);
    let others: f64 = others.map(|(_, share)| share).sum();
    let left = 1.0 - own;
    if others == 0.0 && left > 0.0 {
        return Err(Error::refused(
            format!("{changed} is {} %, and all other shares are 0", own * 100.0),
            "raise another share instead, or let the sum be free while several change",
        ));
    }
    let round = |share: f64| (share * DIGITS).round() / DIGITS;
    let scale = if others > 0.0 { left / others } else { 0.0 };
    for (_, share) in shares.iter_mut().filter(|(name, _)| *name != changed) {
        *share = round(*share * scale);
    }
    // What rounding left over goes to the largest of the others.
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let others = shares.iter_mut().filter(|(name, _)| *name != changed);
    if let Some((_, largest)) = others.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        *largest = round((*largest + 1.0 - sum).max(0.0));
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Number;

    fn shares(shares: [f64; 4]) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.set_shares(shares.map(|share| Some(Number(share))));
        inputs
    }

    #[test]
    fn others_keep_their_proportions() {
        let got = balanced("updates", &shares([0.3, 0.1, 0.1, 0.75])).unwrap();
        assert_eq!(got.map(|(_, share)| share), [0.15, 0.05, 0.05, 0.75]);
        let got = balanced("updates", &shares([0.3, 0.1, 0.1, 1.0])).unwrap();
        assert_eq!(got.map(|(_, share)| share), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn they_always_sum_to_one() {
        for step in 0..1000 {
            let own = f64::from(step) / 999.0;
            let own = (own * 1e4).round() / 1e4;
            let got = balanced("empty-lookups", &shares([own, 1.0, 1.0, 1.0])).unwrap();
            let sum: f64 = got.iter().map(|(_, share)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{own}: {got:?}");
            assert!(got.iter().all(|(_, share)| *share >= 0.0));
        }
    }

    #[test]
    fn what_cannot_be_balanced_is_told() {
        for (own, others) in [(1.5, 0.1), (-0.1, 0.5), (0.5, 0.0), (0.5, -1.0)] {
            let given = shares([others, others, others, own]);
            assert!(balanced("updates", &given).is_err(), "{own}, {others}");
        }
    }
}
