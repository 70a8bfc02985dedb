//! The shape of a tree.

use crate::ModelError;

/// The capacity in bytes of a level of a tree: `buffer_bytes * size_ratio^level`, where level 0 is
/// the write buffer itself and level 1 the first on storage (Monkey, section 2, equation for the
/// capacity of a level). Saturates at `u64::MAX`.
///
/// # Errors
/// `buffer_bytes` of 0, or a `size_ratio` below 2.
pub fn level_capacity(buffer_bytes: u64, size_ratio: u32, level: u32) -> Result<u64, ModelError> {
    ModelError::check(
        buffer_bytes > 0,
        "buffer_bytes",
        buffer_bytes as f64,
        "at least 1",
    )?;
    ModelError::check(
        size_ratio >= 2,
        "size_ratio",
        f64::from(size_ratio),
        "at least 2",
    )?;
    Ok(buffer_bytes.saturating_mul(u64::from(size_ratio).saturating_pow(level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_grow_by_the_ratio() {
        assert_eq!(level_capacity(4 << 20, 4, 0), Ok(4 << 20));
        assert_eq!(level_capacity(4 << 20, 4, 3), Ok(256 << 20));
        assert_eq!(level_capacity(1, 10, 40), Ok(u64::MAX));
        assert!(level_capacity(0, 4, 1).is_err());
        assert!(level_capacity(1, 1, 1).is_err());
    }
}
