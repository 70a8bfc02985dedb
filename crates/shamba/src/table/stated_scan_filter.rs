//! What a table says of its filter for scans, and what of that stays in memory while it is open
//! (docs/format.md, "Filters of prefixes" and "Filters of ranges"). Plain data and its bytes.

use super::format::Damage;
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint};
use crate::budget::allocated;
use crate::filter::{FilterPlan, PlanError, ScanRule};

/// A rule's name is no longer: a function's, and what is before it.
const LONGEST_NAME: usize = 300;

/// A filter for scans has no more modules.
pub(super) const MOST_MODULES: usize = 4;

const BAD: Damage = Damage("what a table says of its filter for scans is malformed");

/// What a table says of its filter for scans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatedScanFilter {
    /// The name of what it is of ([`ScanRule::name`]).
    pub(crate) rule: String,
    /// How many there are, or keys of ranges, each counted in each partition that has it.
    pub(crate) members: u64,
    /// Payload bytes of the filter's blocks.
    pub(crate) bytes: u64,
    /// The filter's modules.
    pub(crate) plan: FilterPlan,
}

impl StatedScanFilter {
    /// Its bytes among the table's properties.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, self.rule.as_bytes());
        put_varint(&mut out, self.members);
        put_varint(&mut out, self.bytes);
        self.plan.encode(&mut out);
        out
    }

    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Damage> {
        let name = take_bytes(&mut input).ok_or(BAD)?;
        let name = std::str::from_utf8(name).map_err(|_| BAD)?;
        let stated = StatedScanFilter {
            rule: name.to_owned(),
            members: take_varint(&mut input).ok_or(BAD)?,
            bytes: take_varint(&mut input).ok_or(BAD)?,
            plan: FilterPlan::decode(&mut input).map_err(|error| match error {
                PlanError::Malformed => BAD,
                PlanError::Unknown => Damage(
                    "the filter for scans is of a kind this build does not know; a newer may",
                ),
            })?,
        };
        let mut modules = stated.plan.modules.iter();
        if name.len() > LONGEST_NAME
            || !(1..=MOST_MODULES).contains(&stated.plan.modules.len())
            || !modules.all(|module| ScanRule::has_family(name, module.family))
        {
            return Err(BAD);
        }
        Ok(stated)
    }

    /// What an open table keeps of it.
    pub(super) fn for_readers(self) -> ScanFilter {
        ScanFilter {
            rule: self.rule.into(),
            plan: self.plan.for_readers(),
        }
    }
}

/// What an open table knows of its filter for scans.
#[derive(Debug)]
pub(super) struct ScanFilter {
    /// The name of what it is of.
    pub(super) rule: Box<str>,
    pub(super) plan: FilterPlan,
}

impl ScanFilter {
    pub(super) fn memory(&self) -> usize {
        let modules = allocated(size_of_val(&*self.plan.modules));
        allocated(size_of::<Self>()) + allocated(self.rule.len()) + modules
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::{Families, Family, Layout};

    fn stated(name: &str, families: Families) -> StatedScanFilter {
        let rule = ScanRule::named("fixed 1").unwrap();
        StatedScanFilter {
            rule: name.to_owned(),
            members: 300,
            bytes: 7_000,
            plan: rule.plan(families, Layout::Partitioned),
        }
    }

    #[test]
    fn what_is_stated_comes_back_and_nothing_shorter() {
        for families in [Families::ByLevel, Families::Same(Family::Blocked)] {
            let stated = stated("function of words", families);
            let bytes = stated.encode();
            assert_eq!(StatedScanFilter::decode(&bytes), Ok(stated));
            for len in 0..bytes.len() {
                assert_eq!(StatedScanFilter::decode(&bytes[..len]), Err(BAD), "{len}");
            }
        }
    }

    #[test]
    fn more_than_may_be_is_damage() {
        let with_modules = |count| {
            let mut stated = stated("fixed 4", Families::ByLevel);
            stated.plan.modules = vec![stated.plan.modules[0]; count];
            StatedScanFilter::decode(&stated.encode())
        };
        assert_eq!(with_modules(0), Err(BAD));
        assert!(with_modules(MOST_MODULES).is_ok());
        assert_eq!(with_modules(MOST_MODULES + 1), Err(BAD));
        let with_name = |len| {
            let stated = stated(&"n".repeat(len), Families::ByLevel);
            StatedScanFilter::decode(&stated.encode())
        };
        assert!(with_name(LONGEST_NAME).is_ok());
        assert_eq!(with_name(LONGEST_NAME + 1), Err(BAD));
    }

    #[test]
    fn a_name_that_is_no_text_is_damage_and_an_unknown_family_is_named_so() {
        let good = stated("fixed 4", Families::ByLevel).encode();
        let mut no_text = good.clone();
        // The name begins behind its length.
        no_text[1] = 0xff;
        assert_eq!(StatedScanFilter::decode(&no_text), Err(BAD));
        // The plan is at the end: layout, number of modules, and the family of the only one.
        let stated = stated("fixed 4", Families::ByLevel);
        let mut plan = Vec::new();
        stated.plan.encode(&mut plan);
        let mut unknown = good.clone();
        unknown[good.len() - plan.len() + 2] = 99;
        let refused = StatedScanFilter::decode(&unknown).unwrap_err();
        assert!(refused.0.contains("does not know"), "{refused:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in any::<Vec<u8>>()) {
            let _ = StatedScanFilter::decode(&bytes);
        }
    }
}
