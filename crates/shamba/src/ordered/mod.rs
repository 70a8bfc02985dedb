//! Keys as integers that order as they do, and ascending integers in little more room than the
//! information in them (docs/format.md, "Keys as integers" and "Integers in order"): what index
//! blocks and filters of ranges are made of. Pure.

pub(crate) mod bits;
pub(crate) mod ints;
pub(crate) mod shape;
pub(crate) mod symbols;

pub(crate) use ints::Ints;
pub(crate) use shape::Shape;
pub(crate) use symbols::{Symbols, SymbolsBuilder, SymbolsOfKeys};
