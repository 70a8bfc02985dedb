//! Modules whose blocks are all in memory, made ready to be probed many times.
//!
//! [`Parsed::new`] looks at blocks once: at their number, and at the headers of ribbon columns.
//! What stays to do for a key is what depends on it, and of ribbon modules of one partition that is
//! mostly done once for all of them ([`Memo`]). Answers are those of [`super::may_contain`] of the
//! block that [`super::block_of`] names. Pure; immutable.

use std::ops::Deref;

use super::banding::Row;
use super::plan::{Family, ModulePlan};
use super::ribbon::Columns;
use super::{blocked, bloom, hash_of, locate};
use crate::base::digest::KeyDigest;

/// One module of a partition's filter: all its blocks, and what there is to know of them.
#[derive(Debug)]
pub(crate) struct Parsed<B> {
    kind: Kind<B>,
    hashes: u8,
    number: u8,
}

#[derive(Debug)]
enum Kind<B> {
    Bloom(Box<[B]>),
    Blocked(Box<[B]>),
    Ribbon(B, Columns),
}

/// What was computed for a key and the modules probed so far; for one key and one partition.
#[derive(Default)]
pub(crate) struct Memo(Option<(Columns, Row)>);

impl<B: Deref<Target = [u8]>> Parsed<B> {
    /// The module of this number over its blocks, in their order; `None` unless they are all there
    /// is of it, and sound.
    pub(crate) fn new(plan: &ModulePlan, number: usize, mut blocks: Vec<B>) -> Option<Self> {
        let kind = match plan.family {
            _ if blocks.is_empty() || blocks.iter().any(|block| block.is_empty()) => return None,
            Family::Bloom => Kind::Bloom(blocks.into_boxed_slice()),
            Family::Blocked => Kind::Blocked(blocks.into_boxed_slice()),
            // Lookups of keys ask none.
            Family::Range => return None,
            Family::Ribbon => {
                let block = blocks.pop().filter(|_| blocks.is_empty())?;
                let columns = Columns::of(&block).filter(|own| own.count() == plan.columns)?;
                Kind::Ribbon(block, columns)
            }
        };
        Some(Parsed {
            kind,
            hashes: plan.hashes,
            number: u8::try_from(number).ok()?,
        })
    }

    /// Whether the module may contain a key.
    #[inline]
    pub(crate) fn may_contain(
        &self,
        plan: &ModulePlan,
        digest: KeyDigest,
        memo: &mut Memo,
    ) -> bool {
        let number = usize::from(self.number);
        match &self.kind {
            Kind::Ribbon(block, columns) => {
                let row = match &memo.0 {
                    Some((known, row)) if known.same_rows(columns) => row,
                    _ => {
                        let row = columns.row(hash_of(plan, number, digest));
                        &memo.0.insert((*columns, row)).1
                    }
                };
                columns.may_contain(block, row)
            }
            Kind::Bloom(blocks) => {
                let hash = hash_of(plan, number, digest);
                block(blocks, hash).is_none_or(|b| bloom::may_contain(b, hash, self.hashes))
            }
            Kind::Blocked(blocks) => {
                let hash = hash_of(plan, number, digest);
                block(blocks, hash).is_none_or(|b| blocked::may_contain(b, hash, self.hashes))
            }
        }
    }
}

/// The block of a hash.
#[inline]
fn block<B>(blocks: &[B], hash: u64) -> Option<&B> {
    blocks.get(locate(hash, blocks.len() as u32) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Filter, digest};
    use super::super::{FilterPlan, Layout, keep_columns};
    use super::*;

    const KEYS: u64 = 20_000;

    fn filter(layout: Layout, modules: Vec<ModulePlan>) -> Filter {
        Filter::build(FilterPlan { layout, modules }, 0..KEYS)
    }

    fn parsed(filter: &Filter) -> Vec<Option<Parsed<Vec<u8>>>> {
        let modules = filter.plan.modules.iter().zip(&filter.modules).enumerate();
        modules
            .map(|(number, (plan, blocks))| Parsed::new(plan, number, blocks.clone()))
            .collect()
    }

    #[test]
    fn parsed_modules_answer_as_their_blocks_do() {
        let bloom = |bits, hashes| ModulePlan::bloom(Family::Bloom, bits, hashes);
        let blocked = |bits, hashes| ModulePlan::bloom(Family::Blocked, bits, hashes);
        let ribbon = |columns| ModulePlan::ribbon(columns, 1);
        for layout in [Layout::Whole, Layout::Partitioned] {
            for modules in [
                vec![bloom(10_000, 7)],
                vec![bloom(4_000, 3), bloom(4_000, 3)],
                vec![blocked(10_000, 6), blocked(2_000, 1)],
                vec![ribbon(4), ribbon(4), ribbon(4)],
                // Few columns, the most there are, and modules of different families.
                vec![ribbon(1), ribbon(3), ribbon(8)],
                vec![ribbon(2), bloom(2_000, 1), ribbon(2)],
            ] {
                let filter = filter(layout, modules);
                let parsed = parsed(&filter);
                let mut passed = 0;
                for key in 0..3 * KEYS {
                    let key = digest(key);
                    let mut memo = Memo::default();
                    for (number, own) in parsed.iter().enumerate() {
                        let plan = &filter.plan.modules[number];
                        let own = own.as_ref().unwrap().may_contain(plan, key, &mut memo);
                        assert_eq!(own, filter.probe(number, key), "{:?}", filter.plan);
                        passed += u64::from(own);
                    }
                }
                let all = 3 * KEYS * parsed.len() as u64;
                assert!(passed > all / 3 && passed < all, "{:?}", filter.plan);
            }
        }
    }

    #[test]
    fn only_whole_and_sound_modules_are_parsed() {
        let filter = filter(Layout::Partitioned, vec![ModulePlan::ribbon(4, 1)]);
        let (plan, block) = (&filter.plan.modules[0], &filter.modules[0][0]);
        assert!(Parsed::new(plan, 0, vec![block.clone()]).is_some());
        assert!(Parsed::new(plan, 0, vec![block.clone(); 2]).is_none());
        assert!(Parsed::new(plan, 0, vec![keep_columns(block, 0b111)]).is_none());
        assert!(Parsed::new(plan, 0, vec![block[1..].to_vec()]).is_none());
        assert!(Parsed::new(plan, 0, vec![Vec::new()]).is_none());
        assert!(Parsed::new(plan, 0, Vec::<Vec<u8>>::new()).is_none());
        let bloom = ModulePlan::bloom(Family::Bloom, 10_000, 7);
        assert!(Parsed::new(&bloom, 0, vec![vec![0xff], Vec::new()]).is_none());
    }
}
