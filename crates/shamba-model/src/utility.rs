//! What a filter module is worth: SHaMBa's utility and its skipping thresholds. (How a file's
//! statistics are inherited is in [`expected_reads`](crate::expected_reads), by partition.)
//!
//! After Mun, Zhu, Raman, Athanassoulis, "LSM-Trees Under (Memory) Pressure" (ADMS 2022), section
//! 4.2. Shares are of 1. *Access* is the share of lookups that consult the file (the paper's
//! beta), *positive* the share of those that find their key in it (the paper's alpha).
//!
//! As printed, two things there cannot be meant. Eq. 8 is the cost with `d` modules less the cost
//! with `d - 1`, which is never above 0, while modules of a utility *below* a threshold are
//! skipped; it is taken here the other way round. And the text gives the cost without modules as
//! alpha times beta, where every lookup that comes to a file without a filter reads its data, so
//! that it is beta; Eq. 9 itself says so for `d = 0`.

use crate::ModelError;

fn share(name: &'static str, value: f64) -> Result<(), ModelError> {
    ModelError::check((0.0..=1.0).contains(&value), name, value, "between 0 and 1")
}

/// The rate at which `modules` modules of the rate `module_rate` each let an absent key pass:
/// `f^d`. SHaMBa, Eq. 7.
///
/// # Errors
/// A rate outside 0 to 1.
pub fn passing(module_rate: f64, modules: u32) -> Result<f64, ModelError> {
    share("module_rate", module_rate)?;
    Ok(module_rate.powf(f64::from(modules)))
}

/// The data reads per lookup that a file is expected to cost when its filter lets a share
/// `pass_rate` of absent keys pass: `beta (alpha + (1 - alpha) f^d)`, `f^d` being [`passing`], and
/// `beta` without a filter. SHaMBa, Eq. 9.
///
/// # Errors
/// An argument outside 0 to 1.
pub fn expected_io(access: f64, positive: f64, pass_rate: f64) -> Result<f64, ModelError> {
    share("access", access)?;
    share("positive", positive)?;
    share("pass_rate", pass_rate)?;
    Ok(access * (positive + (1.0 - positive) * pass_rate))
}

/// The data reads per lookup that a module of the rate `module_rate` saves behind modules that
/// together let a share `pass_before` of absent keys pass:
/// `expIO_{d-1} - expIO_d = beta (1 - alpha) f^{d-1} (1 - f)` for equal modules. SHaMBa, Eq. 8 with
/// its sign corrected.
///
/// # Errors
/// An argument outside 0 to 1.
///
/// ```
/// // The second of two modules of 5 bits per key, in a file every lookup comes to in vain.
/// let saved = shamba_model::utility::utility(1.0, 0.0, 0.092, 0.092)?;
/// assert!((saved - 0.0835).abs() < 0.0001);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn utility(
    access: f64,
    positive: f64,
    pass_before: f64,
    module_rate: f64,
) -> Result<f64, ModelError> {
    share("module_rate", module_rate)?;
    let before = expected_io(access, positive, pass_before)?;
    Ok(before - expected_io(access, positive, pass_before * module_rate)?)
}

/// The utility below which the first module is skipped, and with it the filter: SHaMBa, section
/// 5.1.1. In reads per lookup.
pub const FIRST_THRESHOLD: f64 = 0.2;

/// The utility below which a later module is skipped: SHaMBa, section 5.1.1. In reads per lookup.
/// Of two modules of 5 bits per key the second never comes up to it.
pub const LATER_THRESHOLD: f64 = 0.1;

/// A threshold for a tree of `files` files, given one for the access a file would have if every
/// lookup consulted one file, all alike: `threshold / files`. Access falls as the number of files
/// rises, and the utility with it, so that a threshold fit for one size of a tree is not for
/// another; this is not in the paper, whose thresholds are absolute.
///
/// # Errors
/// A threshold that is negative or not finite; no file.
pub fn relative_threshold(threshold: f64, files: u64) -> Result<f64, ModelError> {
    ModelError::check(
        threshold.is_finite() && threshold >= 0.0,
        "threshold",
        threshold,
        "finite and at least 0",
    )?;
    ModelError::check(files > 0, "files", files as f64, "at least 1")?;
    Ok(threshold / files as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fpr;

    const MODULE: f64 = 0.091_849;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-9, "got {got}, want {want}");
    }

    /// Eq. 7 gives the rate of the whole filter that the paper's Table 3 has: 0.819 % for 10 bits.
    #[test]
    fn modules_multiply_to_the_papers_rate() {
        let two = passing(fpr::bloom(5.0, 3).unwrap(), 2).unwrap();
        assert!((two - 0.008_4).abs() < 0.000_1, "{two}");
        assert_eq!(passing(0.5, 0), Ok(1.0));
    }

    /// With Eq. 8 as printed every utility is negative, so that every module would be skipped.
    #[test]
    fn a_module_is_worth_what_it_saves() {
        for positive in [0.0, 0.3, 0.9] {
            for d in 1..=7 {
                let before = passing(MODULE, d - 1).unwrap();
                let saved = utility(0.6, positive, before, MODULE).unwrap();
                assert!(saved > 0.0, "module {d} is worth {saved}");
                let closed = 0.6 * (1.0 - positive) * before * (1.0 - MODULE);
                close(saved, closed);
                let printed = expected_io(0.6, positive, before * MODULE).unwrap()
                    - expected_io(0.6, positive, before).unwrap();
                close(saved, -printed);
            }
        }
        // Keys that are all there are found whatever the filter says.
        close(utility(1.0, 1.0, 1.0, MODULE).unwrap(), 0.0);
    }

    /// The text's alpha times beta for no modules would make the first module's utility negative.
    #[test]
    fn without_modules_every_access_reads() {
        close(expected_io(0.25, 0.5, 1.0).unwrap(), 0.25);
        close(expected_io(0.25, 0.5, 0.0).unwrap(), 0.125);
        close(utility(0.25, 0.5, 1.0, 0.0).unwrap(), 0.125);
    }

    /// Utilities of all modules add up to what the whole filter saves.
    #[test]
    fn utilities_add_up() {
        let sum: f64 = (0..3)
            .map(|d| utility(0.4, 0.2, passing(MODULE, d).unwrap(), MODULE).unwrap())
            .sum();
        close(sum, 0.4 * 0.8 * (1.0 - passing(MODULE, 3).unwrap()));
    }

    /// Why the thresholds are an option: the paper's never use the second module.
    #[test]
    fn the_printed_thresholds_never_use_a_second_module() {
        let best = utility(1.0, 0.0, MODULE, MODULE).unwrap();
        assert!((best - 0.083_4).abs() < 1e-4, "{best}");
        assert!(best < LATER_THRESHOLD);
        // No rate of equal modules lifts it past a quarter; f (1 - f) is largest at one half.
        assert!(utility(1.0, 0.0, 0.5, 0.5).unwrap() <= 0.25);
        assert!(utility(1.0, 0.0, 1.0, MODULE).unwrap() > FIRST_THRESHOLD);
        close(relative_threshold(FIRST_THRESHOLD, 100).unwrap(), 0.002);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for bad in [-0.1, 1.1, f64::NAN] {
            assert!(passing(bad, 1).is_err());
            assert!(expected_io(bad, 0.0, 0.0).is_err());
            assert!(expected_io(0.0, bad, 0.0).is_err());
            assert!(utility(0.0, 0.0, bad, 0.0).is_err());
            assert!(utility(0.0, 0.0, 0.0, bad).is_err());
        }
        assert!(relative_threshold(-1.0, 1).is_err());
        assert!(relative_threshold(1.0, 0).is_err());
        let error = passing(2.0, 1).unwrap_err().to_string();
        assert_eq!(error, "module_rate is 2, but must be between 0 and 1");
    }
}
