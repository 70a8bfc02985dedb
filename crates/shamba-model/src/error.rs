//! The one error of this crate: an argument outside a formula's domain, or bounds that no design
//! keeps.

/// An argument for which a formula is not defined, or a wish that cannot be met.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The value is outside the formula's domain.
    #[error("{name} is {value}, but must be {domain}")]
    OutOfDomain {
        /// The argument's name.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed, in words.
        domain: &'static str,
    },
    /// No design keeps a bound of a search.
    #[error("no design keeps {name} at or below {bound}; the lowest found is {best}")]
    OutOfReach {
        /// The bounded cost.
        name: &'static str,
        /// The bound given.
        bound: f64,
        /// The lowest value of that cost among the designs tried.
        best: f64,
    },
}

impl ModelError {
    pub(crate) fn check(
        ok: bool,
        name: &'static str,
        value: f64,
        domain: &'static str,
    ) -> Result<(), Self> {
        if ok {
            Ok(())
        } else {
            Err(ModelError::OutOfDomain {
                name,
                value,
                domain,
            })
        }
    }

    /// Refuses what is not a finite number above 0.
    pub(crate) fn above_zero(name: &'static str, value: f64) -> Result<(), Self> {
        let ok = value.is_finite() && value > 0.0;
        Self::check(ok, name, value, "finite and above 0")
    }

    /// Refuses what is not a finite number of at least 0.
    pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<(), Self> {
        let ok = value.is_finite() && value >= 0.0;
        Self::check(ok, name, value, "finite and at least 0")
    }

    /// Refuses what is not between 0 and 1.
    pub(crate) fn share(name: &'static str, value: f64) -> Result<(), Self> {
        Self::check((0.0..=1.0).contains(&value), name, value, "between 0 and 1")
    }
}
