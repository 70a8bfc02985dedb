//! JSON merge patches (RFC 7396).

use serde_json::Value;

use super::{MergeError, MergeOperator};

/// Merges JSON merge patches (RFC 7396) into JSON: of an object the members that a patch names are
/// set, those that it has as null are removed, and all others stay; what is no object is replaced.
/// A key without a value is as an empty object. Values are written compactly. Numbers are integers
/// of 64 bits, or else doubles: what is neither becomes the nearest double.
#[cfg_attr(docsrs, doc(cfg(feature = "json")))]
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonMergePatch;

impl MergeOperator for JsonMergePatch {
    fn name(&self) -> &str {
        "json-merge-patch"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut document = match base {
            Some(base) => serde_json::from_slice(base)?,
            None => Value::Null,
        };
        for operand in operands {
            json_patch::merge(&mut document, &serde_json::from_slice(operand)?);
        }
        Ok(serde_json::to_vec(&document)?)
    }

    /// A patch that is no object replaces what there is, patched or not. Two objects cannot be made
    /// one: what the first replaces the second may add to.
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let replaces = !serde_json::from_slice::<Value>(newer).ok()?.is_object();
        // What is malformed is to be told.
        let well_formed = serde_json::from_slice::<Value>(older).is_ok();
        (replaces && well_formed).then(|| newer.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The examples of the RFC's appendix A.
    #[test]
    fn the_examples_of_the_rfc() {
        for (base, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let merged = JsonMergePatch.merge(b"k", Some(base.as_bytes()), &[patch.as_bytes()]);
            assert_eq!(merged.unwrap(), result.as_bytes(), "{base} {patch}");
        }
        assert!(JsonMergePatch.merge(b"k", Some(b"{"), &[b"{}"]).is_err());
        assert!(JsonMergePatch.merge(b"k", None, &[b"nonsense"]).is_err());
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0u8..3).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let object = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
            let object = object.prop_map(|of| Value::Object(of.into_iter().collect()));
            prop_oneof![
                object,
                prop::collection::vec(inner, 0..2).prop_map(Value::Array)
            ]
        })
    }

    proptest! {
        /// However patches are grouped, the document is the same.
        #[test]
        fn grouping_makes_no_difference(base in json(), one in json(), other in json()) {
            let [base, one, other] = [base, one, other].map(|of| of.to_string().into_bytes());
            let merge = |base: &[u8], operands: &[&[u8]]| {
                JsonMergePatch.merge(b"k", Some(base), operands).unwrap()
            };
            let whole = merge(&base, &[&one, &other]);
            prop_assert_eq!(&merge(&merge(&base, &[&one]), &[&other]), &whole);
            if let Some(both) = JsonMergePatch.combine(b"k", &one, &other) {
                prop_assert_eq!(&merge(&base, &[&both]), &whole);
            }
        }
    }
}
