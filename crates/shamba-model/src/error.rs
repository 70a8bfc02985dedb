//! The one error of this crate: an argument outside a formula's domain.

/// An argument for which a formula is not defined.
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
}
