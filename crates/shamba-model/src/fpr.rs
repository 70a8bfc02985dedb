//! False-positive rates of filter families.
//!
//! | bits per key | hashes | Bloom | blocked, 512-bit lines |
//! |---|---|---|---|
//! | 5 | 3 | 9.18 % | 9.29 % |
//! | 10 | 7 | 0.819 % | 0.957 % |
//! | 20 | 14 | 0.0067 % | 0.0220 % (11 hashes: 0.0192 %) |
//!
//! The tests check these numbers, and the engine's tests check the formulas against its filters;
//! what they measured (written by the engine's ignored test `false_positives_table`):
#![doc = ""]
#![doc = include_str!("../measured/false_positives.md")]

use crate::ModelError;

/// Bits in the cache-line block of a blocked Bloom filter.
pub const LINE_BITS: u32 = 512;

/// The most hashes per key that any filter of the engine uses.
pub const MAX_HASHES: u32 = 30;

fn check(bits_per_key: f64, hashes: u32) -> Result<(), ModelError> {
    ModelError::check(
        bits_per_key.is_finite() && bits_per_key > 0.0,
        "bits_per_key",
        bits_per_key,
        "finite and above 0",
    )?;
    ModelError::check(
        (1..=MAX_HASHES).contains(&hashes),
        "hashes",
        f64::from(hashes),
        "between 1 and 30",
    )
}

/// The false-positive rate of a standard Bloom filter of `bits_per_key` bits per key and `hashes`
/// hashes, in the limit of many keys: `(1 - e^(-k/c))^k`.
///
/// Bloom (1970), as equation (1) of Putze, Sanders, Singler, "Cache-, hash- and space-efficient
/// Bloom filters" (2007). Domain: `bits_per_key > 0`, `1 <= hashes <= 30`.
///
/// # Errors
/// An argument outside its domain.
///
/// ```
/// let rate = shamba_model::fpr::bloom(10.0, 7)?;
/// assert!((rate - 0.00819).abs() < 0.00001);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn bloom(bits_per_key: f64, hashes: u32) -> Result<f64, ModelError> {
    check(bits_per_key, hashes)?;
    let hashes = f64::from(hashes);
    Ok((-(-hashes / bits_per_key).exp_m1()).powf(hashes))
}

/// The false-positive rate of a filter split into blocks of `block_bits` bits, each key wholly in
/// one block: the mean over Poisson-distributed block loads of the rate of a block of that load,
/// `sum_i Poisson(B/c; i) * (1 - (1 - 1/B)^(k*i))^k`.
///
/// Equation (3) of Putze, Sanders, Singler (2007). With `block_bits` = 512 it is the cache-line
/// blocked filter, with the bits of a page the page-local one. Domain: as [`bloom`], and
/// `8 <= block_bits <= 2^24`.
///
/// # Errors
/// An argument outside its domain.
pub fn blocked(bits_per_key: f64, hashes: u32, block_bits: u32) -> Result<f64, ModelError> {
    check(bits_per_key, hashes)?;
    ModelError::check(
        (8..=1 << 24).contains(&block_bits),
        "block_bits",
        f64::from(block_bits),
        "between 8 and 2^24",
    )?;
    let block = f64::from(block_bits);
    let load = block / bits_per_key;
    let hashes = f64::from(hashes);
    let unset = (-1.0 / block).ln_1p();
    // Terms further than twelve standard deviations from the mean add nothing to a double.
    let spread = 12.0 * load.sqrt() + 30.0;
    let first = (load - spread).max(0.0).floor();
    let last = (load + spread).ceil();
    let mut log_weight = first * load.ln() - load - ln_factorial(first);
    let mut rate = 0.0;
    let mut i = first;
    while i <= last {
        rate += log_weight.exp() * (-(hashes * i * unset).exp_m1()).powf(hashes);
        i += 1.0;
        log_weight += load.ln() - i.ln();
    }
    Ok(rate)
}

/// `ln(n!)`, summed: `n` is at most a block's mean load, so that this is quick enough.
fn ln_factorial(n: f64) -> f64 {
    let mut sum = 0.0;
    let mut i = 2.0;
    while i <= n {
        sum += i.ln();
        i += 1.0;
    }
    sum
}

/// The number of hashes that minimises [`bloom`]: the better integer beside `c ln 2`, at least 1
/// and at most 30.
///
/// # Errors
/// `bits_per_key` outside its domain.
pub fn optimal_hashes(bits_per_key: f64) -> Result<u32, ModelError> {
    check(bits_per_key, 1)?;
    let ideal = bits_per_key * std::f64::consts::LN_2;
    let low = (ideal.floor().clamp(1.0, f64::from(MAX_HASHES))) as u32;
    let high = (low + 1).min(MAX_HASHES);
    if bloom(bits_per_key, low)? <= bloom(bits_per_key, high)? {
        Ok(low)
    } else {
        Ok(high)
    }
}

/// From how many bits per key on each further hash lowers [`blocked`] in blocks of [`LINE_BITS`]:
/// the first is where two hashes become better than one. A search sums hundreds of terms for each
/// number of hashes, and a file's filter may have sixteen modules; a test checks these against it.
const FURTHER_LINE_HASHES: [f64; MAX_HASHES as usize - 1] = [
    2.079494, 3.576060, 5.086502, 6.643335, 8.269661, 9.987818, 11.821337, 13.795854, 15.939821,
    18.285206, 20.868282, 23.730524, 26.919673, 30.490988, 34.508753, 39.048064, 44.196998,
    50.059213, 56.757108, 64.435651, 73.267045, 83.456420, 95.248799, 108.937647, 124.875383,
    143.486350, 165.282841, 190.884965, 221.045333,
];

/// The number of hashes that minimises [`blocked`]; fewer than for a standard filter, since crowded
/// blocks suffer most from more. In blocks of [`LINE_BITS`] it is looked up, else searched for.
///
/// # Errors
/// An argument outside its domain.
pub fn optimal_blocked_hashes(bits_per_key: f64, block_bits: u32) -> Result<u32, ModelError> {
    if block_bits != LINE_BITS {
        return search_blocked_hashes(bits_per_key, block_bits);
    }
    check(bits_per_key, 1)?;
    Ok(1 + FURTHER_LINE_HASHES.partition_point(|&from| from <= bits_per_key) as u32)
}

fn search_blocked_hashes(bits_per_key: f64, block_bits: u32) -> Result<u32, ModelError> {
    let mut best = (1, blocked(bits_per_key, 1, block_bits)?);
    for hashes in 2..=optimal_hashes(bits_per_key)? {
        let rate = blocked(bits_per_key, hashes, block_bits)?;
        if rate < best.1 {
            best = (hashes, rate);
        }
    }
    Ok(best.0)
}

/// The false-positive rate of `columns` columns of a standard ribbon filter: `2^-columns`, for
/// any columns over any keys, since each compares one bit of the key's fingerprint with a sum that
/// knows nothing of it.
///
/// Dillinger, Hübschle-Schneider, Sanders, Walzer (2022), section 2. Domain: at most 32 columns,
/// the bits of a fingerprint; no columns say nothing, and have rate 1.
///
/// # Errors
/// More columns.
pub fn ribbon(columns: u32) -> Result<f64, ModelError> {
    ModelError::check(
        columns <= 32,
        "columns",
        f64::from(columns),
        "between 0 and 32",
    )?;
    Ok(0.5f64.powi(columns as i32))
}

/// The rate at which every one of several independent filters answers wrongly: their product.
/// True of modules only because each remixes the key's digest.
///
/// # Errors
/// A rate outside 0 to 1.
pub fn product(rates: &[f64]) -> Result<f64, ModelError> {
    for &rate in rates {
        ModelError::check((0.0..=1.0).contains(&rate), "rate", rate, "between 0 and 1")?;
    }
    Ok(rates.iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, tolerance: f64) {
        assert!(
            (got / want - 1.0).abs() <= tolerance,
            "got {got}, want {want}"
        );
    }

    #[test]
    fn standard_bloom_matches_its_table() {
        close(bloom(10.0, 7).unwrap(), 0.008_194, 0.001);
        close(bloom(20.0, 14).unwrap(), 0.000_067, 0.01);
        close(bloom(5.0, 3).unwrap(), 0.091_849, 0.001);
        assert_eq!(optimal_hashes(10.0), Ok(7));
        assert_eq!(optimal_hashes(0.1), Ok(1));
        assert_eq!(optimal_hashes(2.0), Ok(1));
        assert_eq!(optimal_hashes(100.0), Ok(30));
    }

    #[test]
    fn blocked_bloom_matches_its_table() {
        close(blocked(5.0, 3, LINE_BITS).unwrap(), 0.0929, 0.001);
        close(blocked(10.0, 7, LINE_BITS).unwrap(), 0.009_57, 0.001);
        close(blocked(20.0, 14, LINE_BITS).unwrap(), 0.000_220, 0.002);
        close(blocked(20.0, 11, LINE_BITS).unwrap(), 0.000_192, 0.003);
        assert_eq!(optimal_blocked_hashes(20.0, LINE_BITS), Ok(11));
    }

    #[test]
    fn hashes_of_lines_are_looked_up_as_a_search_finds_them() {
        let both = |bits| {
            let looked_up = optimal_blocked_hashes(bits, LINE_BITS).unwrap();
            (looked_up, search_blocked_hashes(bits, LINE_BITS).unwrap())
        };
        for (fewer, from) in (1..).zip(FURTHER_LINE_HASHES) {
            assert_eq!(both(from * 0.99999), (fewer, fewer));
            assert_eq!(both(from * 1.00001), (fewer + 1, fewer + 1));
        }
        for bits in (0..60).map(|i| 0.05 * 1.15f64.powi(i)) {
            let (looked_up, searched) = both(bits);
            assert_eq!(looked_up, searched, "{bits} bits per key");
        }
        assert!(optimal_blocked_hashes(0.0, LINE_BITS).is_err());
    }

    /// An independent way to the same number: throw balls, do not sum a series.
    #[test]
    fn blocked_bloom_matches_a_simulation() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let (keys, hashes) = (400_000usize, 5u32);
        let lines = keys * 8 / 512;
        let mut bits = vec![[0u64; 8]; lines];
        for _ in 0..keys {
            let line = (random() % lines as u64) as usize;
            for _ in 0..hashes {
                let bit = (random() % 512) as usize;
                bits[line][bit / 64] |= 1 << (bit % 64);
            }
        }
        let probes = 1_000_000;
        let mut hits = 0;
        for _ in 0..probes {
            let line = (random() % lines as u64) as usize;
            hits += u32::from((0..hashes).all(|_| {
                let bit = (random() % 512) as usize;
                bits[line][bit / 64] >> (bit % 64) & 1 == 1
            }));
        }
        close(
            f64::from(hits) / f64::from(probes),
            blocked(8.0, hashes, 512).unwrap(),
            0.03,
        );
    }

    #[test]
    fn page_local_filters_cost_next_to_nothing() {
        let page = blocked(10.0, 7, 4087 * 8).unwrap();
        let whole = bloom(10.0, 7).unwrap();
        assert!(
            page > whole && page < whole * 1.03,
            "page {page}, whole {whole}"
        );
    }

    #[test]
    fn rates_fall_with_bits_and_multiply() {
        for hashes in [1, 4, 9] {
            let mut last = 1.0;
            for bits in 1..30 {
                let rate = blocked(f64::from(bits), hashes, 512).unwrap();
                assert!(rate < last);
                last = rate;
            }
        }
        assert_eq!(product(&[0.5, 0.25]), Ok(0.125));
        assert_eq!(product(&[]), Ok(1.0));
    }

    /// Every row of the committed measurement is within 3 % of its theory, and the theory is that
    /// of these formulas.
    #[test]
    fn committed_measurements_agree_with_the_formulas() {
        let mut rows = 0;
        for line in include_str!("../measured/false_positives.md")
            .lines()
            .skip(2)
        {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [family, filter, bits, theory, measured] = cells[..] else {
                panic!("not a row: {line}");
            };
            let percent = |cell: &str| cell.trim_end_matches(" %").parse::<f64>().unwrap() / 100.0;
            let (theory, measured) = (percent(theory), percent(measured));
            let numbers = filter.trim_matches(['{', '}']).split(", ");
            let numbers: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
            let bits: f64 = bits.parse().unwrap();
            let each = bits / numbers.len() as f64;
            let rates: Vec<f64> = numbers
                .iter()
                .map(|&number| match family {
                    "Bloom" => bloom(each, number).unwrap(),
                    "blocked" => blocked(each, number, LINE_BITS).unwrap(),
                    "ribbon" => ribbon(number).unwrap(),
                    _ => panic!("unknown family: {line}"),
                })
                .collect();
            close(theory, product(&rates).unwrap(), 0.002);
            close(measured, theory, 0.03);
            rows += 1;
        }
        assert!(rows >= 16, "{rows} rows");
    }

    #[test]
    fn ribbon_columns_halve() {
        assert_eq!(ribbon(0), Ok(1.0));
        assert_eq!(ribbon(8), Ok(1.0 / 256.0));
        assert!(ribbon(33).is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for bits in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(bloom(bits, 1).is_err());
            assert!(blocked(bits, 1, 512).is_err());
            assert!(optimal_hashes(bits).is_err());
        }
        assert!(bloom(10.0, 0).is_err());
        assert!(bloom(10.0, 31).is_err());
        assert!(blocked(10.0, 3, 1).is_err());
        assert_eq!(
            product(&[2.0]).unwrap_err().to_string(),
            "rate is 2, but must be between 0 and 1"
        );
    }
}
