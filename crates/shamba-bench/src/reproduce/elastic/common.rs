//! What the experiments on ElasticBF share: databases with filter units, and operations with units
//! that move beside units that stay where they are.
//!
//! Both open the same files, so that the tree is the same and the number of units enabled over all
//! files, [`BITS`] per key. Both have the same budget, large enough that filters stay in memory
//! beside data, as the paper's do outside its cache; what of the filters is in memory is what was
//! asked for, more of the units that move. Times are what a modelled device takes for the reads
//! that were counted: no clock ran.
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{HIGH_SKEW, kib};

/// Filter bits per key that are enabled on the average, with and without ElasticBF: few, so that
/// false positives matter.
pub(super) const BITS: f64 = 4.0;

/// Units that move, as often as the engine lets them (after a lookup for each file, or for 16,384
/// entries; its default of 2048 is that of a larger tree): else hardly a file goes unasked for the
/// two epochs of its lifetime.
pub(super) const WITH: &str = "shamba:elastic+epoch=1";

/// Units that stay: as many of each file.
pub(super) const WITHOUT: &str = "shamba:elastic+still";

/// Budget over the bytes of filters (of the enabled bits) and indexes.
pub(super) const MEMORY: f64 = 3.0;

/// The device whose latencies are taken.
pub(super) const DEVICE: Device = Device::PcieSsd;

/// Skewed towards one part of the key range, and so to few files.
pub(super) const CLUSTERED: Distribution = HIGH_SKEW;

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
pub(super) fn setting(lab: &Lab<'_>, base: &Base) -> String {
    format!(
        "{}; bits are enabled on the average of the units written, with and without; one budget for all, \
         {MEMORY} times filters and indexes where nothing else is said, so that filters stay in memory; \
         a file is a segment",
        lab.setting(base)
    )
}

/// Operations on a database, under a budget in times of its filters (of the enabled bits) and
/// indexes.
pub(super) fn trial(
    lab: &mut Lab<'_>,
    base: &Base,
    engine: &str,
    memory: f64,
    mix: Mix,
) -> Result<Trial> {
    let lookups = lab.lookups_in(base.clone(), memory * 100.0, 1.0, mix.distribution)?;
    Ok(Trial {
        engine: engine.to_owned(),
        // Work in the background is then done in turn, so that counts repeat.
        device: DEVICE,
        mix,
        ..lookups
    })
}

/// What these operations find, under the standard budget.
pub(super) fn measure(lab: &mut Lab<'_>, base: &Base, engine: &str, mix: Mix) -> Result<Found> {
    let trial = trial(lab, base, engine, MEMORY, mix)?;
    lab.measure(&trial)
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
pub(super) fn ratio(above: f64, below: f64) -> f64 {
    match (above, below) {
        (0.0, 0.0) => 1.0,
        _ => above / below,
    }
}

/// The claim without a verdict where filters have over a tenth more memory, so many times that of
/// others: who met it with more memory may have met it by that.
pub(super) fn of_equal_memory(claim: Claim, times: &[f64], others: &str) -> Claim {
    let most = most_of(times);
    let more =
        format!("ElasticBF's filters in memory have up to {most:.2} times the bytes of {others}");
    claim.unless(most > 1.1, more)
}

/// Bytes of filters in memory at the end, in KB.
pub(super) fn filter_kb(found: &Found) -> f64 {
    kib(found, |resident| resident.filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_with_more_memory_has_no_verdict() {
        let verdict = |times: &[f64]| {
            let claim = Claim::goal_to("", 1.0, 0.9);
            of_equal_memory(claim, times, "others").verdict
        };
        use crate::reproduce::Verdict::{Met, NotComparable};
        assert_eq!(verdict(&[1.0, 1.1]), Met);
        assert_eq!(verdict(&[1.0, 1.11]), NotComparable);
    }

    #[test]
    fn nothing_over_nothing_is_the_same() {
        assert_eq!(ratio(0.0, 0.0), 1.0);
        assert_eq!(ratio(1.0, 2.0), 0.5);
        assert!(ratio(1.0, 0.0).is_infinite());
    }
}
