//! Modular Bloom filters: into how many modules a filter may be divided, and how large the first
//! is (Mun et al., "LSM-Trees Under (Memory) Pressure", 2022; SHaMBa).

use crate::ModelError;

fn positive(name: &'static str, value: f64) -> Result<(), ModelError> {
    ModelError::check(
        value.is_finite() && value > 0.0,
        name,
        value,
        "finite and above 0",
    )
}

/// The most modules that a filter over `entries` entries of `bits_per_key` bits each can have, if
/// every module is to fill at least one page of `page` bytes; 0 if the whole filter is smaller.
///
/// SHaMBa, equation (10), with `entries` for file size over entry size; for a partitioned filter,
/// `entries` are those of one partition.
///
/// # Errors
/// An argument that is not finite and above 0.
///
/// ```
/// // A file of 1.6 MiB (2 * 4096 * 256 * 8 / 10 bytes) of 256-byte entries at 10 bits per key.
/// // (The paper's example says "256KB": its number is that of 256 bytes.)
/// let entries = 1_677_722.0 / 256.0;
/// assert_eq!(shamba_model::modular::most_modules(entries, 10.0, 4096.0)?, 2);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn most_modules(entries: f64, bits_per_key: f64, page: f64) -> Result<u32, ModelError> {
    positive("entries", entries)?;
    positive("bits_per_key", bits_per_key)?;
    positive("page", page)?;
    Ok((entries * bits_per_key / 8.0 / page) as u32)
}

/// The smallest file, in bytes, whose filter can be divided into `modules` modules of at least a
/// page of `page` bytes, with entries of `entry` bytes.
///
/// SHaMBa, equation (11): `modules * page * entry / (bits_per_key / 8)`.
///
/// # Errors
/// An argument that is not finite and above 0.
///
/// ```
/// let bytes = shamba_model::modular::smallest_file(2, 4096.0, 256.0, 10.0)?;
/// assert_eq!(bytes.round(), 1_677_722.0);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn smallest_file(
    modules: u32,
    page: f64,
    entry: f64,
    bits_per_key: f64,
) -> Result<f64, ModelError> {
    positive("modules", f64::from(modules))?;
    positive("page", page)?;
    positive("entry", entry)?;
    positive("bits_per_key", bits_per_key)?;
    Ok(f64::from(modules) * page * entry * 8.0 / bits_per_key)
}

/// Bits per key of the first module so that the first modules of all files fit `memory` bytes:
/// `memory * 8 / keys`, and never more than the whole filter has. "If the memory budget is 70 %,
/// the bits-per-element of the first module is 7, and for the second module 3" (SHaMBa, section
/// 5.1.1); from 100 % on there is one module.
///
/// # Errors
/// An argument that is not finite and above 0.
///
/// ```
/// let keys = 16e6;
/// let memory = 0.7 * keys * 10.0 / 8.0;
/// let first = shamba_model::modular::first_bits_per_key(memory, keys, 10.0)?;
/// assert!((first - 7.0).abs() < 1e-9);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn first_bits_per_key(memory: f64, keys: f64, bits_per_key: f64) -> Result<f64, ModelError> {
    positive("memory", memory)?;
    positive("keys", keys)?;
    positive("bits_per_key", bits_per_key)?;
    Ok((memory * 8.0 / keys).min(bits_per_key))
}

/// Divides `total` hashes over modules in proportion to their bits, the larger remainders first
/// and the later module first among equal ones; no module has fewer than one. At 10 bits and 7
/// hashes that is {7}, {3, 4}, {2, 2, 3} and {1 x 7} (SHaMBa, section 3): the hashes of the whole
/// filter, not those that would be best for each module.
///
/// # Errors
/// Bits that are not finite and above 0.
///
/// ```
/// assert_eq!(shamba_model::modular::divide_hashes(7, &[5.0, 5.0])?, [3, 4]);
/// assert_eq!(shamba_model::modular::divide_hashes(7, &[7.0, 3.0])?, [5, 2]);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn divide_hashes(total: u32, bits: &[f64]) -> Result<Vec<u32>, ModelError> {
    for &bits in bits {
        positive("bits", bits)?;
    }
    let sum: f64 = bits.iter().sum();
    let ideal: Vec<f64> = bits.iter().map(|b| f64::from(total) * b / sum).collect();
    // What is a whole number but for rounding is one.
    let mut hashes: Vec<u32> = ideal
        .iter()
        .map(|ideal| ((ideal + 1e-9) as u32).max(1))
        .collect();
    let mut order: Vec<usize> = (0..bits.len()).collect();
    let remainder = |i: usize| ideal[i] - f64::from(hashes[i]);
    order.sort_by(|&a, &b| {
        let (a_left, b_left) = (remainder(a), remainder(b));
        if (a_left - b_left).abs() < 1e-9 {
            b.cmp(&a)
        } else {
            b_left.total_cmp(&a_left)
        }
    });
    let left = total.saturating_sub(hashes.iter().sum()) as usize;
    for i in order.into_iter().take(left) {
        hashes[i] += 1;
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fpr;

    #[test]
    fn hashes_are_divided_as_the_paper_does() {
        for (modules, want) in [
            (1, vec![7]),
            (2, vec![3, 4]),
            (3, vec![2, 2, 3]),
            (7, vec![1; 7]),
        ] {
            let bits = vec![10.0 / f64::from(modules); modules as usize];
            assert_eq!(divide_hashes(7, &bits), Ok(want));
        }
        assert_eq!(divide_hashes(7, &[1.0; 9]), Ok(vec![1; 9]));
        assert_eq!(divide_hashes(7, &[]), Ok(vec![]));
        assert_eq!(divide_hashes(7, &[9.0, 1.0]), Ok(vec![6, 1]));
        assert!(divide_hashes(7, &[1.0, f64::NAN]).is_err());
    }

    #[test]
    fn a_filter_is_as_accurate_in_modules_as_whole() {
        let whole = fpr::bloom(10.0, 7).unwrap();
        for modules in [2, 3, 7] {
            let bits = 10.0 / f64::from(modules);
            let hashes = divide_hashes(7, &vec![bits; modules as usize]).unwrap();
            let rate: f64 = hashes
                .iter()
                .map(|&k| fpr::bloom(bits, k).unwrap())
                .product();
            assert!((rate / whole - 1.0).abs() < 0.06, "{modules}: {rate}");
        }
    }

    #[test]
    fn feasibility_has_two_sides() {
        let file = smallest_file(3, 4096.0, 64.0, 10.0).unwrap();
        assert_eq!(most_modules((file + 64.0) / 64.0, 10.0, 4096.0), Ok(3));
        assert_eq!(most_modules((file - 64.0) / 64.0, 10.0, 4096.0), Ok(2));
        assert_eq!(most_modules(100.0, 10.0, 4096.0), Ok(0));
        assert!(most_modules(0.0, 10.0, 4096.0).is_err());
        assert!(smallest_file(0, 4096.0, 64.0, 10.0).is_err());
        assert_eq!(first_bits_per_key(1e9, 10.0, 10.0), Ok(10.0));
        assert!(first_bits_per_key(-1.0, 10.0, 10.0).is_err());
    }
}
