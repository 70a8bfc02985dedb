//! What hashing costs a lookup, once per run and once per lookup.
//!
//! After Zhu, Mun, Raman, Athanassoulis, "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern
//! Storage Devices" (DaMoN 2021), section 3 and 4.3. `positive` is the share of lookups that find
//! their key (the paper's alpha is the *empty* share, `1 - positive`); keys are spread evenly, so
//! that a level of a size ratio `T` finds `T` times what the one above it does.
//!
//! The paper's Eqs. 4, 6 and 7 are of one form, a count of hashes, filter probes and data reads
//! ([`Work`]), each times what it takes ([`Times`]); sharing changes the count of hashes to 1. The
//! counts are approximate in the paper's way: the number of levels is large, and under tiering
//! false positives in the runs before the one with the key are not counted.

use crate::ModelError;

/// How long each part of a lookup takes, in one unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Times {
    /// Hashing the key: `T_H`.
    pub hash: f64,
    /// Probing a filter in memory: `T_P`.
    pub probe: f64,
    /// Reading a data page: `T_D`.
    pub read: f64,
}

/// What a lookup does on average.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Work {
    /// Hashes of the key.
    pub hashes: f64,
    /// Filters probed.
    pub probes: f64,
    /// Data pages read.
    pub reads: f64,
}

impl Work {
    /// The same work with one hash per lookup, whatever the levels and runs: Eq. 7, for tiering as
    /// well ("no increase in hashing for tiering compared to leveling").
    #[must_use]
    pub fn shared(self) -> Self {
        Work {
            hashes: 1.0,
            ..self
        }
    }

    /// How long it takes: Eqs. 4, 6 and 7.
    ///
    /// # Errors
    /// A time that is negative or not finite.
    pub fn time(&self, times: &Times) -> Result<f64, ModelError> {
        ModelError::not_negative("hash", times.hash)?;
        ModelError::not_negative("probe", times.probe)?;
        ModelError::not_negative("read", times.read)?;
        Ok(self.hashes * times.hash + self.probes * times.probe + self.reads * times.read)
    }

    /// The share of the time that sharing saves: `(time - shared time) / time`, Eq. 8, of which
    /// Eq. 9 is another form.
    ///
    /// # Errors
    /// A time that is negative or not finite; no time at all.
    ///
    /// ```
    /// use shamba_model::hash_sharing::{Times, leveling};
    /// // Table 1: MM64 of a 1 KB key, a 4 KB read from a PCIe SSD; 5 levels, absent keys.
    /// let times = Times { hash: 235e-9, probe: 100e-9, read: 10e-6 };
    /// let gain = leveling(10, 5, 0.0, 0.0082)?.gain(&times)?;
    /// assert!((gain - 0.45).abs() < 0.01);
    /// # Ok::<(), shamba_model::ModelError>(())
    /// ```
    pub fn gain(&self, times: &Times) -> Result<f64, ModelError> {
        let time = self.time(times)?;
        ModelError::above_zero("the time of a lookup", time)?;
        Ok(1.0 - self.shared().time(times)? / time)
    }
}

/// The time that a visit to one level takes, of lookups of which a share `empty` does not find its
/// key there: `T_H + T_P + (1 - alpha_i) T_D + alpha_i f_p T_D`. Eqs. 2 and 3.
///
/// # Errors
/// A share or rate outside 0 to 1; a time that is negative or not finite.
pub fn level_time(times: &Times, empty: f64, rate: f64) -> Result<f64, ModelError> {
    ModelError::share("empty", empty)?;
    ModelError::share("rate", rate)?;
    Work {
        hashes: 1.0,
        probes: 1.0,
        reads: (1.0 - empty) + empty * rate,
    }
    .time(times)
}

fn check(size_ratio: u32, levels: u32, positive: f64, rate: f64) -> Result<f64, ModelError> {
    let (t, count) = (f64::from(size_ratio), f64::from(levels));
    ModelError::check(size_ratio >= 2, "size_ratio", t, "at least 2")?;
    ModelError::check(levels >= 2, "levels", count, "at least 2")?;
    ModelError::share("positive", positive)?;
    ModelError::share("rate", rate)?;
    Ok(t)
}

/// The work of a point lookup under leveling, with a hash for every filter: `L - (1-alpha)/(T-1)`
/// hashes and probes, and `1 - alpha + (L - (1-alpha)/(T-1) - 1 + alpha) f_p` reads. Eq. 4.
///
/// # Errors
/// A size ratio below 2; fewer than 2 levels; a share or rate outside 0 to 1.
pub fn leveling(
    size_ratio: u32,
    levels: u32,
    positive: f64,
    rate: f64,
) -> Result<Work, ModelError> {
    let t = check(size_ratio, levels, positive, rate)?;
    let visits = f64::from(levels) - positive / (t - 1.0);
    Ok(Work {
        hashes: visits,
        probes: visits,
        reads: positive + (visits - positive) * rate,
    })
}

/// The work of a point lookup under tiering with `T` runs a level, with a hash for every filter:
/// `(1-alpha)(T+1)/2 + T L - (1-alpha)(T+1)` hashes and probes, and `1 - alpha` and `f_p` times the
/// latter two terms of reads. Eq. 6, of the levels of Eq. 5.
///
/// # Errors
/// A size ratio below 2; fewer than 2 levels; a share or rate outside 0 to 1.
pub fn tiering(size_ratio: u32, levels: u32, positive: f64, rate: f64) -> Result<Work, ModelError> {
    let t = check(size_ratio, levels, positive, rate)?;
    let in_vain = t * f64::from(levels) - positive * (t + 1.0);
    let visits = positive * (t + 1.0) / 2.0 + in_vain;
    Ok(Work {
        hashes: visits,
        probes: visits,
        reads: positive + in_vain * rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1, in nanoseconds: MM64 of a 1 KB key; a probe is taken for a tenth of a microsecond,
    /// less than the access of a page in memory.
    fn times(read: f64) -> Times {
        Times {
            hash: 235.0,
            probe: 100.0,
            read,
        }
    }

    /// Table 1's devices, from a hard disk to memory.
    const READS: [f64; 6] = [4.6e6, 113e3, 10e3, 7e3, 250.0, 160.0];

    /// The sums that Eqs. 4 and 6 approximate: level by level, of the lookups that come so far.
    fn by_level(t: f64, levels: i32, positive: f64, rate: f64, tiered: bool) -> Work {
        let all: f64 = (0..levels).map(|i| t.powi(i)).sum();
        let (mut reach, mut probes, mut reads) = (1.0, 0.0, 0.0);
        for i in 0..levels {
            let found = positive * t.powi(i) / all;
            let missed = reach - found;
            if tiered {
                probes += found * (t + 1.0) / 2.0 + missed * t;
                reads += found + missed * t * rate;
            } else {
                probes += reach;
                reads += found + missed * rate;
            }
            reach = missed;
        }
        Work {
            hashes: probes,
            probes,
            reads,
        }
    }

    #[test]
    fn closed_forms_are_the_sums_over_levels() {
        for (t, levels) in [(2u32, 14u32), (10, 5), (4, 8)] {
            for positive in [0.0, 0.5, 1.0] {
                for tiered in [false, true] {
                    let work = if tiered { tiering } else { leveling };
                    let got = work(t, levels, positive, 0.0082).unwrap();
                    let sum = by_level(f64::from(t), levels as i32, positive, 0.0082, tiered);
                    // Tiering drops (1-alpha)/(T-1) runs of about T L.
                    let tolerance = if tiered { 0.05 } else { 0.002 };
                    assert!((got.probes / sum.probes - 1.0).abs() < tolerance);
                    assert!((got.reads / sum.reads - 1.0).abs() < tolerance);
                }
            }
        }
    }

    /// Eqs. 2 and 3, and Eq. 4 for a tree as the sum of its levels: absent keys visit all alike.
    #[test]
    fn levels_add_up() {
        let each = level_time(&times(10e3), 1.0, 0.01).unwrap();
        assert!((each - (335.0 + 100.0)).abs() < 1e-9);
        assert!((level_time(&times(10e3), 0.0, 0.01).unwrap() - 10_335.0).abs() < 1e-9);
        let all = leveling(10, 5, 0.0, 0.01).unwrap().time(&times(10e3));
        assert!((all.unwrap() - 5.0 * each).abs() < 1e-9);
    }

    /// Eq. 9 is Eq. 8.
    #[test]
    fn gains_in_both_forms() {
        let (t, levels, fp) = (10u32, 5u32, 0.0082);
        for read in READS {
            for alpha in [0.0, 0.3, 1.0] {
                let gain = leveling(t, levels, 1.0 - alpha, fp).unwrap();
                let gain = gain.gain(&times(read)).unwrap();
                let Times { hash, probe, .. } = times(read);
                let others = 5.0 - 1.0 - (1.0 - alpha) / 9.0;
                let constant = hash + probe + fp * read;
                let rest = hash + probe + (1.0 - alpha) * read + alpha * fp * read;
                // (L - (1-alpha)/(T-1) - 1 + alpha) f_p = (others + alpha) f_p
                let eq_9 = hash / (constant + rest / others);
                assert!((gain - eq_9).abs() < 1e-12, "{gain} and {eq_9}");
            }
        }
    }

    /// Figure 6 and section 4.3: negligible on hard disks, small on SSDs, more than 40 % on what is
    /// as fast as memory; more for tiering, for absent keys, for more levels, for better filters.
    #[test]
    fn the_papers_findings() {
        let gain = |read, levels, positive, rate| {
            let work = leveling(10, levels, positive, rate).unwrap();
            work.gain(&times(read)).unwrap()
        };
        let gains = READS.map(|read| gain(read, 5, 0.0, 0.0082));
        assert!(gains.windows(2).all(|two| two[1] > two[0]), "{gains:?}");
        assert!(gains[0] < 0.01 && gains[1] < 0.2, "{gains:?}");
        assert!(gains[4] > 0.4, "{gains:?}");
        for read in READS {
            let tiered = tiering(10, 5, 0.0, 0.0082).unwrap();
            assert!(tiered.gain(&times(read)).unwrap() > gain(read, 5, 0.0, 0.0082));
            assert!(gain(read, 5, 0.5, 0.0082) < gain(read, 5, 0.0, 0.0082));
            assert!(gain(read, 8, 0.0, 0.0082) > gain(read, 5, 0.0, 0.0082));
            assert!(gain(read, 5, 0.0, 0.001) > gain(read, 5, 0.0, 0.0082));
        }
        // "Hashing cost stays constant regardless of the number of levels."
        let hashes = [5, 14].map(|l| leveling(10, l, 0.0, 0.01).unwrap().shared().hashes);
        assert_eq!(hashes, [1.0, 1.0]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(leveling(1, 5, 0.0, 0.0).is_err());
        assert!(tiering(2, 1, 0.0, 0.0).is_err());
        assert!(leveling(2, 5, 1.5, 0.0).is_err());
        assert!(tiering(2, 5, 0.0, f64::NAN).is_err());
        assert!(level_time(&times(1.0), -0.1, 0.0).is_err());
        let work = leveling(2, 5, 0.0, 0.0).unwrap();
        assert!(work.time(&times(-1.0)).is_err());
        let nothing = Times {
            hash: 0.0,
            probe: 0.0,
            read: 0.0,
        };
        assert!(work.gain(&nothing).is_err());
    }
}
