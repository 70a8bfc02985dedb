//! Figure 14: the gain by the share of empty lookups, on a RAM disk.
use super::shares;
use crate::device::Device;
use crate::experiments::hash_sharing::Place;
use crate::reproduce::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-14",
    title: "Gain by the share of empty lookups, a RAM disk",
    claim: "On a RAM disk the gain grows with the share of empty lookups, from 10 % where all keys exist to more than 40 %.",
    seconds: 0.5,
    run: |lab| shares::figure(lab, Place::On(Device::Ram), [10.0, 40.0]),
};
