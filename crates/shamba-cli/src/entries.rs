//! A walk through the entries of a keyspace at one moment, in key order or against it, whatever the
//! length of their values: one that iterators may not hold is read in pieces, and the walk goes on
//! behind it. One thread at a time.

use std::ops::Bound;

use shamba::{Cursor, Error, IterOptions, Snapshot};

use crate::failure::Failure;
use crate::format::Value;
use crate::open::Opened;
use crate::text::preview;

pub struct Entries<'a> {
    opened: &'a Opened,
    snapshot: Snapshot,
    /// What is left of what was asked for, from the last entry that a cursor was opened behind.
    range: IterOptions,
    backward: bool,
    /// None only while another takes its place: there may be no memory for both.
    cursor: Option<Cursor>,
    /// The cursor is one of keys, at an entry whose value iterators may not hold.
    in_pieces: bool,
    key: Vec<u8>,
}

impl<'a> Entries<'a> {
    /// At the first entry, or going backward at the last.
    pub fn new(opened: &'a Opened, range: IterOptions, backward: bool) -> shamba::Result<Self> {
        let mut entries = Entries {
            opened,
            snapshot: opened.db.snapshot(),
            range,
            backward,
            cursor: None,
            in_pieces: false,
            key: Vec::new(),
        };
        entries.begin()?;
        Ok(entries)
    }

    /// Whether it is at an entry.
    pub fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    /// The present key.
    pub fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], Cursor::key)
    }

    /// The present value.
    pub fn value(&self) -> Result<Value<'_>, Failure> {
        let Some(cursor) = &self.cursor else {
            return Ok(Value::Whole(&[]));
        };
        if !self.in_pieces {
            return Ok(Value::Whole(cursor.value()));
        }
        let reader = cursor.value_reader()?;
        let reader = reader.ok_or_else(|| Failure::Absent {
            key: preview(cursor.key()),
        })?;
        Ok(Value::Pieces(Box::new(reader)))
    }

    /// To the next entry.
    pub fn next(&mut self) -> shamba::Result<()> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(());
        };
        self.key.clear();
        self.key.extend_from_slice(cursor.key());
        if self.in_pieces {
            self.leave_out_key();
            return self.begin();
        }
        let moved = if self.backward {
            cursor.prev()
        } else {
            cursor.next()
        };
        match moved {
            Err(Error::IteratorsExhausted { .. }) => {
                self.leave_out_key();
                self.begin()
            }
            moved => moved,
        }
    }

    fn leave_out_key(&mut self) {
        let bound = Bound::Excluded(self.key.clone());
        if self.backward {
            self.range.upper = bound;
        } else {
            self.range.lower = bound;
        }
    }

    /// To the first entry of what is left.
    fn begin(&mut self) -> shamba::Result<()> {
        self.in_pieces = false;
        match self.open(self.range.clone()) {
            Err(Error::IteratorsExhausted { .. }) if !self.range.keys_only => {
                self.open(self.range.clone().keys_only(true))?;
                self.in_pieces = true;
                Ok(())
            }
            opened => opened,
        }
    }

    fn open(&mut self, range: IterOptions) -> shamba::Result<()> {
        self.cursor = None;
        let mut cursor = self.snapshot.cursor_in(&self.opened.keyspace, range)?;
        if self.backward {
            cursor.seek_to_last()?;
        } else {
            cursor.seek_to_first()?;
        }
        self.cursor = Some(cursor);
        Ok(())
    }
}
