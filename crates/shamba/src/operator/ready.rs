//! Operators that are ready-made: keyspaces that have one by name need no program's to be opened.

use std::sync::Arc;

use super::{MergeError, MergeOperator};

/// Adds to a counter: values and operands are integers of 64 bits with a sign, little-endian. A key
/// without a value is 0; past the largest number it goes on from the least ([`i64::wrapping_add`]).
#[derive(Debug, Clone, Copy, Default)]
pub struct Increment;

/// Keeps the least of what was merged, by the order of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Minimum;

/// Keeps the greatest of what was merged, by the order of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Maximum;

/// Puts operands behind the value, one after the other, with nothing between them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Append;

/// The operator of a name.
pub(crate) fn ready_made(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let all: Vec<Arc<dyn MergeOperator>> = vec![
        Arc::new(Increment),
        Arc::new(Minimum),
        Arc::new(Maximum),
        Arc::new(Append),
        #[cfg(feature = "json")]
        Arc::new(super::JsonMergePatch),
    ];
    all.into_iter().find(|operator| operator.name() == name)
}

fn number(bytes: &[u8]) -> Result<i64, MergeError> {
    let bytes = <[u8; 8]>::try_from(bytes);
    let bytes = bytes.map_err(|_| "a counter has 8 bytes, a little-endian i64")?;
    Ok(i64::from_le_bytes(bytes))
}

impl MergeOperator for Increment {
    fn name(&self) -> &str {
        "counter"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut sum = base.map_or(Ok(0), number)?;
        for operand in operands {
            sum = sum.wrapping_add(number(operand)?);
        }
        Ok(sum.to_le_bytes().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let sum = number(older).ok()?.wrapping_add(number(newer).ok()?);
        Some(sum.to_le_bytes().to_vec())
    }

    fn combines_at_writes(&self) -> bool {
        true
    }
}

/// Of a value and operands the one that `better` prefers to all.
fn best(base: Option<&[u8]>, operands: &[&[u8]], better: impl Fn(&[u8], &[u8]) -> bool) -> Vec<u8> {
    let all = base.iter().chain(operands).copied();
    let best = all.reduce(|best, one| if better(one, best) { one } else { best });
    best.unwrap_or_default().to_vec()
}

impl MergeOperator for Minimum {
    fn name(&self) -> &str {
        "minimum"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        Ok(best(base, operands, |one, best| one < best))
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(best(Some(older), &[newer], |one, best| one < best))
    }

    fn combines_at_writes(&self) -> bool {
        true
    }
}

impl MergeOperator for Maximum {
    fn name(&self) -> &str {
        "maximum"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        Ok(best(base, operands, |one, best| one > best))
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(best(Some(older), &[newer], |one, best| one > best))
    }

    fn combines_at_writes(&self) -> bool {
        true
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut value = base.unwrap_or_default().to_vec();
        operands
            .iter()
            .for_each(|operand| value.extend_from_slice(operand));
        Ok(value)
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Arc<dyn MergeOperator>> {
        ["counter", "minimum", "maximum", "append"]
            .map(|name| ready_made(name).unwrap())
            .to_vec()
    }

    fn value() -> impl Strategy<Value = i64> {
        prop_oneof![any::<i64>(), -3i64..3, Just(i64::MAX), Just(i64::MIN)]
    }

    proptest! {
        /// However operands are grouped, the value is the same.
        #[test]
        fn grouping_makes_no_difference(
            base in prop::option::of(value()),
            operands in prop::collection::vec(value(), 1..6),
            cut in 0usize..6,
        ) {
            for operator in all() {
                let bytes = |of: &i64| of.to_le_bytes().to_vec();
                let base = base.as_ref().map(bytes);
                let operands: Vec<Vec<u8>> = operands.iter().map(bytes).collect();
                let slices: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
                let whole = operator.merge(b"k", base.as_deref(), &slices).unwrap();
                let (first, rest) = slices.split_at(cut.min(slices.len()));
                let mut step = base.clone();
                for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
                    step = Some(operator.merge(b"k", step.as_deref(), part).unwrap());
                }
                prop_assert_eq!(step.as_ref(), Some(&whole), "{}", operator.name());
                // From the newest on, as reads and merges come to them.
                let mut left: Vec<Vec<u8>> = Vec::new();
                for older in operands.iter().rev() {
                    match left.last().and_then(|newer| operator.combine(b"k", older, newer)) {
                        Some(both) => *left.last_mut().unwrap() = both,
                        None => left.push(older.clone()),
                    }
                }
                let left: Vec<&[u8]> = left.iter().rev().map(Vec::as_slice).collect();
                let combined = operator.merge(b"k", base.as_deref(), &left).unwrap();
                prop_assert_eq!(combined, whole, "{} combined", operator.name());
            }
        }
    }

    #[test]
    fn a_counter_counts_and_says_what_is_none() {
        let one = 1i64.to_le_bytes();
        let sum = Increment.merge(b"k", None, &[&one, &one]).unwrap();
        assert_eq!(sum, 2i64.to_le_bytes());
        let error = Increment.merge(b"k", Some(b"short"), &[&one]).unwrap_err();
        assert!(error.to_string().contains("8 bytes"), "{error}");
    }
}
