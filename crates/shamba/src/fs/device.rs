//! What storage devices take for reads, writes and syncs, from their data sheets. Plain data.

/// What a storage device takes for an operation, in nanoseconds: a fixed part, and a part for each
/// page. Of reads asked for together ([`Fs::read_many`](super::Fs::read_many)) the fixed parts
/// overlap, so many as the device serves at the same time, and the pages come one after another
/// over its bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceModel {
    /// For each read.
    pub read: u64,
    /// Reads served at the same time, at least 1.
    pub parallel: u32,
    /// For each page read.
    pub read_page: u64,
    /// For each write.
    pub write: u64,
    /// For each page written, parts of pages counting in proportion.
    pub write_page: u64,
    /// For each sync of a file or folder.
    pub sync: u64,
}

impl DeviceModel {
    /// A 7200 rpm disk: 8 ms to seek, 150 MB/s; one arm.
    pub const HDD: DeviceModel = DeviceModel {
        read: 8_000_000,
        parallel: 1,
        read_page: 27_000,
        write: 4_000_000,
        write_page: 27_000,
        sync: 8_000_000,
    };
    /// An SSD on a SATA bus: 90 us a read, 500 MB/s, a queue of 32 (native command queuing). That
    /// makes 10,200 random reads of a page a second alone and 92,000 with 32 in flight; data sheet
    /// of Samsung's 860 EVO: 10,000 and 98,000.
    pub const SATA_SSD: DeviceModel = DeviceModel {
        read: 90_000,
        parallel: 32,
        read_page: 8_000,
        write: 40_000,
        write_page: 9_000,
        sync: 1_000_000,
    };
    /// An NVMe flash SSD: 60 us a read, 3 GB/s, 128 in flight. That makes 16,300 random reads of a
    /// page a second alone and 537,000 with 128 in flight; data sheet of Samsung's 970 EVO (1 TB):
    /// 15,000 and 500,000.
    pub const PCIE_SSD: DeviceModel = DeviceModel {
        read: 60_000,
        parallel: 128,
        read_page: 1_400,
        write: 15_000,
        write_page: 2_000,
        sync: 300_000,
    };
    /// Byte-addressable or 3D XPoint memory: a few microseconds a read, 2.5 GB/s. The processor
    /// itself reads it, so that nothing overlaps.
    pub const NVM: DeviceModel = DeviceModel {
        read: 3_000,
        parallel: 1,
        read_page: 1_600,
        write: 3_000,
        write_page: 2_000,
        sync: 5_000,
    };
}
