//! What experiments are written with.
pub(super) use super::lab::{Lab, STATE_OF_THE_ART};
pub(super) use super::trial::{Found, Trial};
pub(super) use super::{Claim, Findings, Scale};
pub(super) use crate::device::Device;
pub(super) use crate::plot::{self, Panel, Series};
pub(super) use crate::report::{Cell, Report};
pub(super) use crate::store::Base;
pub(super) use crate::workload::{Distribution, Mix};
pub(super) use crate::{Result, row};
