//! Figure 14: the gain by the share of empty lookups, on a RAM disk.
use super::shares;
use crate::device::Device;
use crate::experiments::hash_sharing::Place;
use crate::reproduce::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-14",
    title: "Gain by the share of empty lookups, a RAM disk",
    claim: "In the case of a RAM disk (used to emulate NVM) the gain starts from 10 % for no empty queries (alpha = 0), and \
            grows to more than 40 % for only empty ones (alpha = 1).",
    seconds: 0.5,
    run: |lab| {
        shares::figure(
            lab,
            Place::On(Device::Ram),
            "grows",
            &[(0.0, 10.0), (1.0, 40.0)],
        )
    },
};
