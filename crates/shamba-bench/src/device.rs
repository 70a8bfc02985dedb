//! Where a database lies, and what reading there costs. Plain data.
//!
//! [`Device::Disk`] is the disk of the database's folder, read past the page cache: times are its
//! own. With every other device the same files are read through the page cache, from memory as on a
//! RAM disk (outside the engine's memory budget); a modelled device ([`DeviceModel`]) charges each
//! read and write what it would take there. Nothing waits for what is charged: it is added to the
//! times measured.
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use shamba::fs::{Charge, DeviceModel, MeteredFs, OsFs};
use std::fmt;
use std::sync::Arc;

/// Nanoseconds for a page on [`Device::FastPcieSsd`].
const FAST_READ: u64 = 10_000;

/// Where a database lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// The disk of the folder, by direct I/O.
    #[default]
    Disk,
    /// The page cache: a RAM disk.
    Ram,
    /// Modelled: non-volatile memory, 4.6 us a page.
    Nvm,
    /// Modelled: the PCIe SSD of the hash-sharing paper (Table 1), 10 us a page.
    FastPcieSsd,
    /// Modelled: a flash SSD on PCIe, 61 us a page.
    PcieSsd,
    /// Modelled: a flash SSD on SATA, 98 us a page.
    SataSsd,
    /// Modelled: a disk of 7200 rpm, 8 ms a page.
    Hdd,
}

impl Device {
    /// What it charges, if it is modelled.
    pub fn model(self) -> Option<DeviceModel> {
        match self {
            Self::Disk | Self::Ram => None,
            Self::Nvm => Some(DeviceModel::NVM),
            Self::FastPcieSsd => Some(DeviceModel {
                read: FAST_READ - DeviceModel::PCIE_SSD.read_page,
                ..DeviceModel::PCIE_SSD
            }),
            Self::PcieSsd => Some(DeviceModel::PCIE_SSD),
            Self::SataSsd => Some(DeviceModel::SATA_SSD),
            Self::Hdd => Some(DeviceModel::HDD),
        }
    }

    /// Nanoseconds charged for a read of one page.
    pub fn read_ns(self) -> u64 {
        self.model().map_or(0, |model| model.read + model.read_page)
    }

    /// The system's files as they are on this device, counted.
    pub fn fs(self, charge: Charge) -> MeteredFs {
        let files = match self {
            Self::Disk => OsFs::new(),
            _ => OsFs::new().without_direct_io(),
        };
        match self.model() {
            None => MeteredFs::new(Arc::new(files)),
            Some(model) => MeteredFs::with_device(Arc::new(files), model, charge),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for device in Device::value_variants() {
            assert_eq!(Device::from_str(&device.to_string(), false), Ok(*device));
        }
        assert_eq!(Device::PcieSsd.to_string(), "pcie-ssd");
    }

    #[test]
    fn slower_devices_charge_more() {
        let order = [
            Device::Ram,
            Device::Nvm,
            Device::FastPcieSsd,
            Device::PcieSsd,
            Device::SataSsd,
            Device::Hdd,
        ];
        assert!(order.map(Device::read_ns).is_sorted_by(|a, b| a < b));
    }
}
