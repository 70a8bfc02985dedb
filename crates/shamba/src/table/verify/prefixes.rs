//! Checks a table's filter of prefixes: every block's checksum, and that it has every prefix, if
//! the table says all of what its prefixes are. What a function says of keys is not known here.

use super::Verifier;
use crate::base::digest::KeyDigest;
use crate::error::Result;
use crate::filter::{self, PrefixRule};
use crate::fs::BlockKind;
use crate::table::block::common_prefix;
use crate::table::stated_prefixes::{PrefixFilter, StatedPrefixes};

/// What was seen of prefixes.
pub(super) struct SeenPrefixes {
    rule: Option<PrefixRule>,
    /// Of the partition.
    digests: Vec<KeyDigest>,
    /// Whether no key of the partition was seen.
    is_first: bool,
    prefixes: u64,
    bytes: u64,
}

impl SeenPrefixes {
    pub(super) fn of(filter: &PrefixFilter) -> Self {
        SeenPrefixes {
            rule: PrefixRule::named(&filter.rule),
            digests: Vec::new(),
            is_first: true,
            prefixes: 0,
            bytes: 0,
        }
    }

    /// A key that is not the one before, which was `last`.
    pub(super) fn key(&mut self, last: &[u8], key: &[u8]) {
        let Some(rule) = &self.rule else { return };
        let shared = if std::mem::take(&mut self.is_first) {
            0
        } else {
            common_prefix(last, key)
        };
        let digests = &mut self.digests;
        rule.each_longer(key, shared, |prefix| digests.push(KeyDigest::of(prefix)));
    }

    pub(super) fn memory(&self) -> usize {
        self.digests.capacity() * size_of::<KeyDigest>()
    }

    /// What the table should say of them, as far as that is known.
    pub(super) fn stated(self, stated: StatedPrefixes) -> StatedPrefixes {
        StatedPrefixes {
            prefixes: match self.rule {
                Some(_) => self.prefixes,
                None => stated.prefixes,
            },
            bytes: self.bytes,
            ..stated
        }
    }
}

impl Verifier<'_, '_> {
    /// Checks the filter of a partition whose entries were seen.
    pub(super) fn prefixes(&mut self, partition: usize) -> Result<()> {
        let table = self.table;
        let (Some(filter), Some(mut seen)) = (table.prefixes.as_deref(), self.prefixes.take())
        else {
            return Ok(());
        };
        for (number, module) in filter.plan.modules.iter().enumerate() {
            let place = table.plan.modules.len() + number;
            let pages = table.top.module(partition, place).unwrap_or(0..0);
            let (blocks, size) =
                filter::division(module, filter.plan.layout, pages.end - pages.start);
            for block in 0..u32::from(blocks) {
                let start = pages.start + block * u32::from(size);
                let kind = BlockKind::Filter(number as u8);
                let Some(block) = self.read(start..start + u32::from(size), kind)? else {
                    continue;
                };
                seen.bytes += block.len() as u64;
                let is_missing = seen.digests.iter().any(|digest| {
                    let hash = filter::hash_of(module, number, *digest);
                    let place = filter::block_of(module, filter.plan.layout, hash, pages.clone());
                    place.start == start && !filter::may_contain(module, &block, hash)
                });
                if is_missing {
                    self.problem(start, "a filter does not contain a prefix of its partition");
                }
            }
        }
        seen.prefixes += seen.digests.len() as u64;
        seen.digests.clear();
        seen.is_first = true;
        self.prefixes = Some(seen);
        Ok(())
    }
}
