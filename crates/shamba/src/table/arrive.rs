//! What becomes of a block that lookups needed and somebody read: it is checked, given to them and
//! offered to the cache, and so is the index block that came with a filter block.
//!
//! Thread-safe; the buffer read into belongs to the caller's thread.

use super::reader::Table;
use super::visit::{Given, Need};
use crate::cache::IoBuf;
use crate::error::Result;
use crate::fs::{BlockKind, PAGE};

impl Table {
    /// Hands what was read, or the failure, to those who need it, who say whether any of them has
    /// no answer yet, and offers it to the cache. A damaged filter is ignored.
    pub(super) fn arrive(
        &self,
        need: &Need,
        read: Result<IoBuf>,
        mut hand: impl FnMut(Given<'_>) -> Result<bool>,
    ) -> Result<()> {
        let start = need.pages.start;
        if !matches!(need.kind, BlockKind::Filter(_)) {
            let read = self.open_raw(read?, start)?;
            let block = self.admit(read, need.partition, need.kind, true)?;
            return hand(Given::Block(&block)).map(drop);
        }
        let mut waiting = true;
        let filter = |buf: &IoBuf| {
            let bytes = self.filter_in(buf.get(..need.pages.len() * PAGE), start)?;
            // Asked before it is offered: the cache may keep only a part of it. Refused, the bytes
            // have served all the same.
            waiting = hand(Given::Filter(&bytes))?;
            self.heat.filter_was_read(waiting);
            self.offer(start, need.partition, need.kind, &bytes);
            Ok(())
        };
        match read.as_ref().map_err(Clone::clone).and_then(filter) {
            Ok(()) => {}
            Err(error) if error.is_corruption() => {
                log::warn!("a filter is ignored: {error}");
                waiting = hand(Given::NoFilter)?;
            }
            Err(error) => return Err(error),
        }
        match read {
            Ok(buf) if need.with_index => self.arrive_index(need, &buf, waiting, hand),
            _ => Ok(()),
        }
    }

    /// Goes on with the index block that was read with a filter block.
    fn arrive_index(
        &self,
        need: &Need,
        buf: &IoBuf,
        waiting: bool,
        mut hand: impl FnMut(Given<'_>) -> Result<bool>,
    ) -> Result<()> {
        let page = need.pages.end;
        let index = self.index_behind(buf, page);
        if !waiting {
            // Nobody asked for it: damage is for those who do.
            if let Ok(bytes) = index {
                self.offer_unasked(page, need.partition, BlockKind::Index, &bytes);
            }
            return Ok(());
        }
        let bytes = index?;
        hand(Given::Index(&bytes))?;
        self.offer(page, need.partition, BlockKind::Index, &bytes);
        Ok(())
    }
}
