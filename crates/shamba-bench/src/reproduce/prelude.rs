//! What experiments are written with.
pub(super) use super::claim::{by_model, least_of, most_of};
pub(super) use super::lab::{Lab, STATE_OF_THE_ART};
pub(super) use super::trial::{Found, Trial};
pub(super) use super::{Claim, Findings, Scale};
pub(super) use crate::device::Device;
pub(super) use crate::plot::{self, Panel, Series};
pub(super) use crate::report::{Cell, Report, joined, median};
pub(super) use crate::store::Base;
pub(super) use crate::workload::{Distribution, KeyKind, Mix, Operation, random};
pub(super) use crate::{Error, Result, row};
