//! What a table says of its filter of prefixes, and what of that stays in memory while it is open
//! (docs/format.md, "Filters of prefixes"). Plain data and its bytes.

use super::format::Damage;
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint};
use crate::budget::allocated;
use crate::filter::{FilterPlan, PlanError, ScanRule};

/// A rule's name is no longer: a function's, and what is before it.
const LONGEST_NAME: usize = 300;

/// A filter of prefixes has no more modules.
pub(super) const MOST_MODULES: usize = 4;

const BAD: Damage = Damage("what a table says of its prefixes is malformed");

/// What a table says of its prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatedPrefixes {
    /// The name of what it is of ([`ScanRule::name`]).
    pub(crate) rule: String,
    /// How many there are, or keys of ranges, each counted in each partition that has it.
    pub(crate) members: u64,
    /// Payload bytes of the filter's blocks.
    pub(crate) bytes: u64,
    /// The filter's modules.
    pub(crate) plan: FilterPlan,
}

impl StatedPrefixes {
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
        let stated = StatedPrefixes {
            rule: name.to_owned(),
            members: take_varint(&mut input).ok_or(BAD)?,
            bytes: take_varint(&mut input).ok_or(BAD)?,
            plan: FilterPlan::decode(&mut input).map_err(|error| match error {
                PlanError::Malformed => BAD,
                PlanError::Unknown => Damage(
                    "the filter of prefixes is of a kind this build does not know; a newer may",
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
    pub(super) fn for_readers(self) -> PrefixFilter {
        PrefixFilter {
            rule: self.rule.into(),
            plan: self.plan.for_readers(),
        }
    }
}

/// What an open table knows of its filter of prefixes.
#[derive(Debug)]
pub(super) struct PrefixFilter {
    /// The name of what says the prefixes.
    pub(super) rule: Box<str>,
    pub(super) plan: FilterPlan,
}

impl PrefixFilter {
    pub(super) fn memory(&self) -> usize {
        let modules = allocated(size_of_val(&*self.plan.modules));
        allocated(size_of::<Self>()) + allocated(self.rule.len()) + modules
    }
}
