//! What the experiments on ElasticBF share: databases with filter units, and lookups with units
//! that move beside units that stay where they are.
//!
//! Both open the same files, so that the tree is the same and the number of units enabled over all
//! files, [`BITS`] per key. Both have the same budget, large enough that filters stay in memory
//! beside data, as the paper's do outside its cache; what of the filters is in memory is what was
//! asked for, more of the units that move. Times are what a modelled device takes for the reads
//! that were counted: no clock ran.
use crate::device::Device;
use crate::report::Cell;
use crate::reproduce::Lab;
use crate::reproduce::trial::{Found, Trial};
use crate::store::Base;
use crate::workload::{Distribution, Mix};
use crate::{Result, row};
use shamba::MIN_MEMORY;

/// Filter bits per key that are enabled on the average, with and without ElasticBF: few, so that
/// false positives matter.
pub(super) const BITS: f64 = 4.0;

/// Units that move, as often as the engine lets them (after four lookups for each file; its default
/// of 2048 is that of a larger tree): else hardly a file goes unasked for the two epochs of its
/// lifetime.
pub(super) const WITH: &str = "shamba:elastic+epoch=1";

/// Units that stay: as many of each file.
pub(super) const WITHOUT: &str = "shamba:elastic+still";

/// Budget over the bytes of filters (of the enabled bits) and indexes.
pub(super) const MEMORY: f64 = 3.0;

/// The device whose latencies are taken.
pub(super) const DEVICE: Device = Device::PcieSsd;

/// Skewed towards one part of the key range, and so to few files.
pub(super) const CLUSTERED: Distribution = Distribution::Normal(0.05);

/// Workloads by what a reader should call them.
pub(super) const WORKLOADS: [(&str, Distribution); 4] = [
    ("uniform", Distribution::Uniform),
    ("Zipf 0.99, scattered", Distribution::Zipf(0.99)),
    ("Zipf 1.2, scattered", Distribution::Zipf(1.2)),
    ("normal, clustered", CLUSTERED),
];

/// The standard database of an engine.
pub(super) fn base(lab: &Lab<'_>, engine: &str) -> Base {
    Base {
        bits_per_key: BITS,
        ..lab.base(engine)
    }
}

/// The setting in a sentence.
pub(super) fn setting(lab: &Lab<'_>, base: &Base, what: &str) -> String {
    let (warm_up, measured) = lab.scale.lookups();
    let key = base.data().keys.key_len();
    format!(
        "{} entries of {} B (keys {key} B), 4 KiB blocks, write buffer and files (segments) of {} KiB, \
         size ratio {}; {} bits per key enabled on the average of the units written, with and without; \
         one budget for all, {MEMORY} times filters and indexes where nothing else is said, so that \
         filters stay in memory; {warm_up} + {measured} operations, one thread; {what}.",
        base.entries,
        key as f64 + base.value.mean(),
        base.file_size >> 10,
        base.size_ratio,
        base.bits_per_key,
    )
}

/// Operations on a database, under a budget in times of its filters and indexes.
pub(super) fn trial(
    lab: &mut Lab<'_>,
    base: &Base,
    engine: &str,
    memory: f64,
    mix: Mix,
) -> Result<Trial> {
    // The same for all engines: that of ElasticBF's files.
    let mut units = base.clone();
    if !base.engine.starts_with(WITH) {
        WITH.clone_into(&mut units.engine);
    }
    let written = lab.loaded(&units)?.facts.metadata.unwrap_or(0) as f64;
    let disabled = (written_per_enabled(&units.engine) - 1.0) * base.bits_per_key / 8.0;
    let bytes = ((written - disabled * base.entries as f64) * memory) as u64;
    let (warm_up, measured) = lab.scale.lookups();
    let lookups = Trial::lookups(base.clone(), bytes.max(MIN_MEMORY), 1.0, mix.distribution);
    Ok(Trial {
        engine: engine.to_owned(),
        // Work in the background is then done in turn, so that counts repeat.
        device: DEVICE,
        mix,
        warm_up,
        measured,
        ..lookups
    })
}

/// Units written for each that is enabled on the average.
fn written_per_enabled(engine: &str) -> f64 {
    let units = engine.split("units=").nth(1);
    let units = units.and_then(|units| units.split('+').next()?.split_once('/'));
    let numbers = units
        .and_then(|(all, enabled)| Some((all.parse::<f64>().ok()?, enabled.parse::<f64>().ok()?)));
    // The preset's are 4, of which 2 are enabled.
    numbers.map_or(2.0, |(all, enabled)| all / enabled)
}

/// The same operations without and with ElasticBF.
pub(super) struct Pair {
    pub(super) without: Found,
    pub(super) with: Found,
}

impl Pair {
    /// What `found` gives for both: by default for [`WITHOUT`] and [`WITH`].
    pub(super) fn of(
        [without, with]: [&str; 2],
        mut found: impl FnMut(&str) -> Result<Found>,
    ) -> Result<Self> {
        Ok(Self {
            without: found(without)?,
            with: found(with)?,
        })
    }

    /// Operations on the standard database.
    pub(super) fn measure(lab: &mut Lab<'_>, mix: &Mix) -> Result<Self> {
        let base = base(lab, WITH);
        Self::of([WITHOUT, WITH], |engine| {
            let trial = trial(lab, &base, engine, MEMORY, mix.clone())?;
            lab.measure(&trial)
        })
    }

    /// A number of both as columns of a table.
    pub(super) fn both(&self, name: &str, of: impl Fn(&Found) -> f64) -> Vec<(String, Cell)> {
        let [without, with] = ["without", "with"].map(|which| format!("{name} {which}"));
        row! { without: of(&self.without), with: of(&self.with) }
    }

    /// Columns of what is read and, by the device model, how long that takes; `us` counts it.
    pub(super) fn costs(&self, reads: &str, us: impl Fn(&Found) -> f64) -> Vec<(String, Cell)> {
        [
            self.both(reads, Found::reads),
            self.both("false positives", false_positives),
            self.both("us of device model", &us),
            row! { "times as fast": ratio(us(&self.without), us(&self.with)) },
        ]
        .concat()
    }

    /// How many times the lookups per second, by a device model.
    pub(super) fn times_as_fast(&self) -> f64 {
        ratio(device_us(&self.without), device_us(&self.with))
    }

    /// Reads with over reads without.
    pub(super) fn reads_left(&self) -> f64 {
        ratio(self.with.reads(), self.without.reads())
    }

    /// False positives with over those without.
    pub(super) fn false_positives_left(&self) -> f64 {
        ratio(false_positives(&self.with), false_positives(&self.without))
    }
}

/// False positives per lookup.
pub(super) fn false_positives(found: &Found) -> f64 {
    found.per_lookup("false_positives")
}

/// Microseconds of a lookup's reads, by the device model.
pub(super) fn device_us(found: &Found) -> f64 {
    found.device_us(DEVICE)
}

/// One over another; 1 where both are nothing.
fn ratio(above: f64, below: f64) -> f64 {
    match (above, below) {
        (0.0, 0.0) => 1.0,
        _ => above / below,
    }
}

/// Bytes of filters in memory at the end, in KB.
pub(super) fn filter_kb(found: &Found) -> f64 {
    let resident = found.resident.map_or(0, |resident| resident.filter);
    resident as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_from_the_name() {
        assert_eq!(written_per_enabled("shamba:elastic+monkey"), 2.0);
        assert_eq!(written_per_enabled("shamba:elastic+units=12/4+still"), 3.0);
    }

    #[test]
    fn nothing_over_nothing_is_the_same() {
        assert_eq!(ratio(0.0, 0.0), 1.0);
        assert_eq!(ratio(1.0, 2.0), 0.5);
        assert!(ratio(1.0, 0.0).is_infinite());
    }
}
