//! Figure 13: the gain by the share of empty lookups, on a PCIe SSD.
use super::shares;
use crate::device::Device;
use crate::experiments::hash_sharing::Place;
use crate::reproduce::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-13",
    title: "Gain by the share of empty lookups, a PCIe SSD",
    claim: "On a PCIe SSD the gain grows with the share of empty lookups, from nothing where all keys exist to 17 %.",
    seconds: 2.0,
    run: |lab| shares::figure(lab, Place::On(Device::FastPcieSsd), [0.0, 17.0]),
};
