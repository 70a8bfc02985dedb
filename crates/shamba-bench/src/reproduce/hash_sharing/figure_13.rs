//! Figure 13: the gain by the share of empty lookups, on a PCIe SSD.
use super::shares;
use crate::device::Device;
use crate::experiments::hash_sharing::Place;
use crate::reproduce::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-13",
    title: "Gain by the share of empty lookups, a PCIe SSD",
    claim: "The benefit when using an SSD for data storage is negligible for no empty queries (alpha = 0) and increases to \
            17 % for only empty ones (alpha = 1).",
    seconds: 2.0,
    run: |lab| {
        shares::figure(
            lab,
            Place::On(Device::FastPcieSsd),
            "negligible at none, increases",
            &[(1.0, 17.0)],
        )
    },
};
