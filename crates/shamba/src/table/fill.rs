//! What becomes of a block that lookups needed and somebody read: it is checked, given to them and
//! offered to the cache, and so are the blocks of its partition's filter and index that came along.
//!
//! Thread-safe; the buffer read into belongs to the caller's thread.

use super::block_read::BlockRead;
use super::get::Fetched;
use super::reader::Table;
use crate::cache::{IoBuf, Owner};
use crate::error::Result;
use crate::filter;
use crate::fs::BlockKind;

/// What those say who were handed what they need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    /// Whether any of them has no answer yet.
    pub(super) waiting: bool,
    /// The columns of a filter block that turned any of them away.
    pub(super) rejected_by: u8,
}

impl Table {
    /// Hands what was read, or the failure, to those who need it, who say what came of it, and offers it to
    /// the cache. A damaged filter is ignored.
    pub(super) fn fill(
        &self,
        need: &BlockRead,
        read: Result<IoBuf>,
        mut deliver: impl FnMut(Fetched<'_>) -> Result<Delivery>,
    ) -> Result<()> {
        let start = need.pages.start;
        if !matches!(need.kind, BlockKind::Filter(_)) {
            let read = self.open_raw(read?, start)?;
            let block = self.admit(read, need.partition, need.kind, true)?;
            return deliver(Fetched::Block(&block)).map(drop);
        }
        let mut waiting = true;
        let filter = |buf: &IoBuf| {
            let bytes = self.payload_in(need.part(buf, &need.pages), start)?;
            // Probed before it is offered: the cache may keep only a part of it. Refused, the bytes
            // have served all the same.
            let heard = deliver(Fetched::Filter(&bytes))?;
            waiting = heard.waiting;
            self.partition_stats.note_filter_read(waiting);
            let owner = Owner {
                rejected_by: heard.rejected_by,
                ..self.owner(start, need.partition, need.kind)
            };
            self.cache().insert(owner, &bytes);
            Ok(())
        };
        match read.as_ref().map_err(Clone::clone).and_then(filter) {
            Ok(()) => {}
            Err(error) if error.is_corruption() => {
                log::warn!("a filter is ignored: {error}");
                waiting = deliver(Fetched::NoFilter)?.waiting;
            }
            Err(error) => return Err(error),
        }
        let Ok(buf) = read else { return Ok(()) };
        self.offer_others(need, &buf);
        match need.with_index {
            true => self.fill_index(need, &buf, waiting, deliver),
            false => Ok(()),
        }
    }

    /// Offers the filter blocks that came along, if they are sound: else damage is for those who
    /// need them.
    fn offer_others(&self, need: &BlockRead, buf: &IoBuf) {
        for (number, plan) in self.plan.modules.iter().enumerate() {
            let pages = self.top.module(need.partition, number).unwrap_or(0..0);
            let (_, each) = filter::division(plan, self.plan.layout, pages.end - pages.start);
            for start in pages.step_by(usize::from(each.max(1))) {
                let pages = start..start + u32::from(each);
                let inside = need.around.start <= start && pages.end <= need.around.end;
                if !inside || start == need.pages.start {
                    continue;
                }
                if let Ok(bytes) = self.payload_in(need.part(buf, &pages), start) {
                    let kind = BlockKind::Filter(number as u8);
                    self.offer_unasked(start, need.partition, kind, &bytes);
                }
            }
        }
    }

    /// Goes on with the index block that was read with a filter block.
    fn fill_index(
        &self,
        need: &BlockRead,
        buf: &IoBuf,
        waiting: bool,
        mut deliver: impl FnMut(Fetched<'_>) -> Result<Delivery>,
    ) -> Result<()> {
        let page = need.around.end - 1;
        let index = self.payload_in(need.part(buf, &(page..page + 1)), page);
        if !waiting {
            // Nobody asked for it: damage is for those who do.
            if let Ok(bytes) = index {
                self.offer_unasked(page, need.partition, BlockKind::Index, &bytes);
            }
            return Ok(());
        }
        let bytes = index?;
        deliver(Fetched::Index(&bytes))?;
        self.offer(page, need.partition, BlockKind::Index, &bytes);
        Ok(())
    }
}
