//! Values as lookups return them: a copy, or a part of a block that stays in memory with them.

use std::fmt;
use std::ops::Deref;

use crate::table::TableValue;

/// A value, without a copy where the block it lies in is cached: holding it keeps that block in
/// memory, on the budget. Dereferences to its bytes.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Owned(Box<[u8]>),
    Table(TableValue),
}

impl Value {
    #[inline]
    pub(crate) fn owned(bytes: &[u8]) -> Self {
        Value(Repr::Owned(bytes.into()))
    }

    pub(crate) fn boxed(bytes: Box<[u8]>) -> Self {
        Value(Repr::Owned(bytes))
    }

    pub(crate) fn in_table(value: TableValue) -> Self {
        Value(Repr::Table(value))
    }

    /// How much of the cache it holds, in bytes.
    pub(crate) fn pinned(&self) -> usize {
        match &self.0 {
            Repr::Table(TableValue::Shared { block, .. }) => block.len(),
            _ => 0,
        }
    }

    /// The bytes in memory of their own.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes.into_vec(),
            Repr::Table(value) => value.to_vec(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Table(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.into_vec()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Value {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}
