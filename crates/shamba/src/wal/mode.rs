//! What recovery does about damage: the caller's choice. Plain data.

/// What to do about log bytes that do not verify when a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RecoveryMode {
    /// What a crash may leave ends the log quietly: writes that were never made durable may be
    /// missing from some point on. Damage to anything that was durable is an error. The default;
    /// right unless the log is known to be damaged.
    #[default]
    TolerateTornTail,
    /// The log ends quietly at the first damage, or where a log is missing, whatever follows: the
    /// database is as it was at some moment, perhaps before writes that had been made durable. To
    /// get a consistent state out of a damaged log. An error where there is no such moment, because
    /// tables hold later writes.
    PointInTime,
    /// Any damage is an error, even an incomplete last record. For logs that were closed cleanly.
    AbsoluteConsistency,
    /// Damaged records and missing logs are left out and everything else is applied, so that later
    /// writes may be present without earlier ones, and parts of a batch without the others. To
    /// salvage what can be read, as the last resort.
    SkipDamaged,
}
