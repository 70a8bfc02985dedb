//! Prefixes of keys: what a keyspace's prefixes are, which of them a key has, and which of them a
//! range of keys lies in.
//!
//! A [`Prefix`] says it, as an option; a [`PrefixRule`] does it, with the function that an option
//! only names. A rule tells of any byte string whether it *is* a prefix, and a key has as many
//! prefixes as it has beginnings that are. So whatever a function answers, a prefix that a scan
//! lies in is among those of every key of the scan, as long as the function answers the same each
//! time. Pure. Thread-safe.

use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::choose::Families;
use super::plan::{Family, FilterPlan, Layout, ModulePlan};
use super::{blocked, range, ribbon};
use crate::error::{Error, Result};

/// No prefix is longer, in bytes: what a function is asked about for a key is bounded by that.
/// Fixed lengths are a byte in the manifest, and keys that begin alike for longer are rare. Not
/// tuned.
pub(crate) const LONGEST_PREFIX: usize = u8::MAX as usize;

/// Columns of a ribbon module of prefixes: as many as one module has.
const COLUMNS: u8 = 8;

/// Ribbon modules: of two one scan in vain in 65,536 passes where memory holds them, and it holds
/// those columns that pay. With half of it it is one in 256, however much memory there is; twice of
/// it would take as much again of storage, for scans that hardly ever pass.
const RIBBON_MODULES: usize = 2;

/// Thousandths of bits per prefix that [`COLUMNS`] come to.
const NOMINAL_MILLIBITS: u32 = 8_400;

/// The same of Bloom modules, and bits set for each: one scan in vain in 120 passes, or of blocked
/// ones in 90. With half of the bits it is one in 11, with twice as many one in 15,000.
const BLOOM: (u32, u8) = (10_000, 7);

/// What the prefixes of keys are that a keyspace's tables have filters of
/// ([`KeyspaceOptions::prefix`](crate::KeyspaceOptions::prefix)).
///
/// A prefix has 1 to 255 bytes. A key without one is in no such filter, and a scan that does not
/// lie in one prefix asks none: that costs reads and changes no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Prefix {
    /// The first so many bytes, 1 to 255. A shorter key has none.
    Fixed(u8),
    /// All up to this byte where it is first met, the byte included. A key without it has none.
    Delimiter(u8),
    /// What a function of this name says, 1 to 255 bytes long, which each open gives
    /// ([`Options::prefix_function`](crate::Options::prefix_function)).
    Function(String),
}

impl Prefix {
    /// Checks the length.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Prefix::Fixed(0) => Err(Error::option("prefix", "a prefix has 1 to 255 bytes")),
            Prefix::Function(name) if !(1..=LONGEST_PREFIX).contains(&name.len()) => Err(
                Error::option("prefix", "the name of a function has 1 to 255 bytes"),
            ),
            _ => Ok(()),
        }
    }
}

/// Says how many bytes of a key are its prefix, if it has one.
pub(crate) type PrefixFunction = dyn Fn(&[u8]) -> Option<usize> + Send + Sync;

/// Says which byte strings are prefixes.
pub(crate) struct PrefixRule {
    name: String,
    kind: RuleKind,
}

enum RuleKind {
    Fixed(usize),
    Delimiter(u8),
    Function(Arc<PrefixFunction>),
}

impl fmt::Debug for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrefixRule").field(&self.name).finish()
    }
}

impl PrefixRule {
    /// That of an option, where `function` finds the function of a name; `None` without it.
    pub(crate) fn of(
        prefix: &Prefix,
        function: impl FnOnce(&str) -> Option<Arc<PrefixFunction>>,
    ) -> Option<PrefixRule> {
        let (name, kind) = match prefix {
            Prefix::Fixed(len) => (format!("fixed {len}"), RuleKind::Fixed(usize::from(*len))),
            Prefix::Delimiter(byte) => (format!("delimiter {byte}"), RuleKind::Delimiter(*byte)),
            Prefix::Function(name) => (
                format!("function {name}"),
                RuleKind::Function(function(name)?),
            ),
        };
        Some(PrefixRule { name, kind })
    }

    /// The rule of a name, if that says all of it.
    pub(crate) fn named(name: &str) -> Option<PrefixRule> {
        let (kind, of) = name.split_once(' ')?;
        let number = of.parse::<u8>().ok()?;
        let prefix = match kind {
            "fixed" => Prefix::Fixed(number),
            "delimiter" => Prefix::Delimiter(number),
            _ => return None,
        };
        PrefixRule::of(&prefix, |_| None)
    }

    /// Its name, by which tables say whose prefixes their filters are of.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `add` with the prefixes of a key that are longer than `shared` bytes: those that the
    /// key before, in order, does not have, if it has so many bytes in common with it.
    pub(crate) fn each_longer(&self, key: &[u8], shared: usize, mut add: impl FnMut(&[u8])) {
        match self.kind {
            RuleKind::Function(_) => {
                let beginnings =
                    (shared + 1..=key.len().min(LONGEST_PREFIX)).map(|len| key.get(..len));
                let prefixes = beginnings.flatten().filter(|bytes| self.is_prefix(bytes));
                prefixes.for_each(add);
            }
            _ => {
                let len = self.len_in(key).filter(|len| *len > shared);
                if let Some(prefix) = len.and_then(|len| key.get(..len)) {
                    add(prefix);
                }
            }
        }
    }

    /// Whether some bytes are a prefix.
    fn is_prefix(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && self.len_in(bytes) == Some(bytes.len())
    }

    /// The length of the prefix of some bytes, as far as what says it is right.
    fn len_in(&self, bytes: &[u8]) -> Option<usize> {
        match &self.kind {
            RuleKind::Fixed(len) => (bytes.len() >= *len).then_some(*len),
            RuleKind::Delimiter(delimiter) => {
                let at = bytes
                    .iter()
                    .take(LONGEST_PREFIX)
                    .position(|byte| byte == delimiter);
                at.map(|at| at + 1)
            }
            // One that panics says nothing.
            RuleKind::Function(function) => catch_unwind(AssertUnwindSafe(|| function(bytes)))
                .unwrap_or_default()
                .filter(|len| (1..=bytes.len()).contains(len)),
        }
    }

    /// The prefix that all keys of a range have, if they have one.
    pub(super) fn of_range<'a>(
        &self,
        lower: &'a Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
    ) -> Option<&'a [u8]> {
        let (Bound::Included(start) | Bound::Excluded(start)) = lower else {
            return None;
        };
        let common = start.get(..common_in_range(start, upper).min(LONGEST_PREFIX))?;
        let prefix = common.get(..self.len_in(common)?)?;
        self.is_prefix(prefix).then_some(prefix)
    }
}

/// With how many bytes of `start` every key begins that is at or after it and not above `upper`.
fn common_in_range(start: &[u8], upper: &Bound<Vec<u8>>) -> usize {
    let (Bound::Included(end) | Bound::Excluded(end)) = upper else {
        // A key that is greater begins with these bytes, too: no byte is greater than they.
        return start.iter().take_while(|byte| **byte == u8::MAX).count();
    };
    let shared = start.iter().zip(end).take_while(|(a, b)| a == b).count();
    let rest = start.get(shared..).unwrap_or_default();
    // Up to what is right behind all that begin with one byte more, and with any of the greatest
    // bytes behind that.
    let is_next = match (rest.first(), end.get(shared..)) {
        (Some(&last), Some(&[next])) => last.checked_add(1) == Some(next),
        _ => false,
    };
    if !is_next || matches!(upper, Bound::Included(_)) {
        return shared;
    }
    let greatest = rest.iter().skip(1).take_while(|byte| **byte == u8::MAX);
    shared + 1 + greatest.count()
}

/// The filter of prefixes of tables that have key filters of these families in this layout.
pub(super) fn prefix_plan(families: Families, layout: Layout) -> FilterPlan {
    let (millibits, hashes) = BLOOM;
    let modules = match families {
        Families::Same(family @ (Family::Bloom | Family::Blocked)) => {
            vec![ModulePlan::bloom(family, millibits, hashes)]
        }
        Families::Same(Family::Ribbon | Family::Range) | Families::ByLevel => {
            vec![ModulePlan::ribbon(COLUMNS, NOMINAL_MILLIBITS); RIBBON_MODULES]
        }
    };
    FilterPlan { layout, modules }
}

/// A block of a module that lets everything pass.
pub(crate) fn blank_block(module: &ModulePlan) -> &'static [u8] {
    match module.family {
        Family::Bloom | Family::Blocked => &[u8::MAX; blocked::LINE],
        Family::Ribbon => &ribbon::EMPTY,
        Family::Range => &range::BLANK,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn function(of: impl Fn(&[u8]) -> Option<usize> + Send + Sync + 'static) -> PrefixRule {
        let of: Arc<PrefixFunction> = Arc::new(of);
        PrefixRule::of(&Prefix::Function("f".to_owned()), |_| Some(of)).unwrap()
    }

    fn prefixes(rule: &PrefixRule, key: &[u8], shared: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        rule.each_longer(key, shared, |prefix| found.push(prefix.to_vec()));
        found
    }

    fn rules() -> Vec<PrefixRule> {
        vec![
            PrefixRule::named("fixed 2").unwrap(),
            PrefixRule::named("delimiter 1").unwrap(),
            // All up to each delimiter.
            function(|key| key.iter().rposition(|byte| *byte == 1).map(|at| at + 1)),
            // Nothing that a function should say.
            function(|key| Some(key.len() % 4)),
            function(|key| Some(key.len() + 1)),
            function(|key| (key.first() == Some(&0)).then_some(1)),
            function(|key| {
                key.iter()
                    .map(|byte| usize::from(*byte))
                    .sum::<usize>()
                    .into()
            }),
        ]
    }

    #[test]
    fn keys_have_the_prefixes_that_rules_say() {
        let fixed = PrefixRule::named("fixed 3").unwrap();
        assert_eq!(prefixes(&fixed, b"abcd", 0), [b"abc"]);
        assert_eq!(prefixes(&fixed, b"abcd", 2), [b"abc"]);
        assert!(prefixes(&fixed, b"abcd", 3).is_empty());
        assert!(prefixes(&fixed, b"ab", 0).is_empty());
        let delimiter = PrefixRule::named("delimiter 47").unwrap();
        assert_eq!(prefixes(&delimiter, b"a/b/c", 0), [b"a/"]);
        assert!(prefixes(&delimiter, b"a", 0).is_empty());
        assert!(prefixes(&delimiter, &[[b'a'; 255].as_slice(), b"/"].concat(), 0).is_empty());
        let each = function(|key| key.iter().rposition(|byte| *byte == b'/').map(|at| at + 1));
        assert_eq!(prefixes(&each, b"a/b/c", 0), [&b"a/"[..], b"a/b/"]);
        assert_eq!(prefixes(&each, b"a/b/c", 2), [b"a/b/"]);
        let panics = function(|_| panic!("as it was told"));
        std::panic::set_hook(Box::new(|_| {}));
        assert!(prefixes(&panics, b"abc", 0).is_empty());
        let _ = std::panic::take_hook();
    }

    #[test]
    fn names_say_all_but_functions() {
        for name in ["fixed 1", "fixed 255", "delimiter 0", "delimiter 47"] {
            assert_eq!(PrefixRule::named(name).unwrap().name(), name);
        }
        for name in ["fixed", "fixed 256", "function f", "", "delimiter x"] {
            assert!(PrefixRule::named(name).is_none(), "{name}");
        }
        assert!(PrefixRule::of(&Prefix::Function("f".to_owned()), |_| None).is_none());
    }

    #[test]
    fn ranges_lie_in_prefixes() {
        let included = |key: &[u8]| Bound::Included(key.to_vec());
        let excluded = |key: &[u8]| Bound::Excluded(key.to_vec());
        for (start, upper, common) in [
            (&b"abc"[..], excluded(b"abd"), 3),
            (b"abc", excluded(b"ac"), 2),
            (b"abc", included(b"ac"), 1),
            (b"abc", excluded(b"abdx"), 2),
            (b"abc", included(b"abcx"), 3),
            (b"ab\xff", excluded(b"ac"), 3),
            (b"ab\xffx", excluded(b"ac"), 3),
            (b"\xff\xff", Bound::Unbounded, 2),
            (b"a\xff", Bound::Unbounded, 0),
            (b"a", excluded(b"b"), 1),
            (b"", excluded(b"b"), 0),
        ] {
            assert_eq!(
                common_in_range(start, &upper),
                common,
                "{start:?} {upper:?}"
            );
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..6)
    }

    proptest! {
        /// Whatever a function says: of a range that lies in a prefix every key has it.
        #[test]
        fn every_key_of_a_scan_has_its_prefix(
            (start, end, key, before) in (bytes(), bytes(), bytes(), bytes()),
            included in any::<[bool; 2]>(),
        ) {
            let bound = |key: &Vec<u8>, included| if included {
                Bound::Included(key.clone())
            } else {
                Bound::Excluded(key.clone())
            };
            let (lower, upper) = (bound(&start, included[0]), bound(&end, included[1]));
            let is_in = std::ops::RangeBounds::contains(&(lower.clone(), upper.clone()), &key);
            for rule in rules() {
                if let Some(prefix) = rule.of_range(&lower, &upper).filter(|_| is_in) {
                    prop_assert!(key.starts_with(prefix));
                    prop_assert!(prefixes(&rule, &key, 0).iter().any(|of| of == prefix));
                }
                // What a neighbour has not is all that is not in common with it.
                let shared = key.iter().zip(&before).take_while(|(a, b)| a == b).count();
                let mut all = prefixes(&rule, &before, 0);
                all.extend(prefixes(&rule, &key, shared));
                prop_assert!(prefixes(&rule, &key, 0).iter().all(|of| all.contains(of)));
            }
        }
    }
}
