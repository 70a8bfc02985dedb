//! How often lookups ask each file, for the figures about that.
use crate::engine::FileFacts;
use crate::reproduce::prelude::*;

/// The database of an engine in files so small that there are several levels, on which it hangs how
/// accesses spread: at the scale `standard` about twice as many as the paper's 1 GB has in files of
/// 4 MB.
pub fn base(lab: &Lab<'_>, engine: &str) -> Base {
    let file = lab.scale.pick(64 << 10, 256 << 10, 1 << 20, 4 << 20);
    Base {
        file_size: file,
        write_buffer: file,
        ..lab.base(engine)
    }
}

/// Lookups of a database under ample memory, with its files at the end.
pub fn measure(
    lab: &mut Lab<'_>,
    base: Base,
    positive: f64,
    distribution: Distribution,
) -> Result<Found> {
    let mut trial = lab.lookups_in(base, 150.0, positive, distribution)?;
    trial.files = true;
    lab.measure(&trial)
}

/// The files of the levels that are one run each: all lookups ask every file of level 0.
pub fn below_level_0(files: &[FileFacts]) -> Vec<FileFacts> {
    let below = files.iter().filter(|file| file.level > 0);
    below.copied().collect()
}

/// The files' shares of all accesses, the most asked first.
pub fn shares(files: &[FileFacts]) -> Vec<f64> {
    let total: f64 = files.iter().map(|file| file.access).sum();
    let mut shares: Vec<f64> = (files.iter())
        .map(|file| file.access / total.max(f64::MIN_POSITIVE))
        .collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    shares
}

/// The cumulative shares: of files in percent, of accesses.
pub fn cumulative(shares: &[f64]) -> Vec<(f64, f64)> {
    let mut sum = 0.0;
    let steps = shares.iter().enumerate().map(|(at, share)| {
        sum += share;
        ((at + 1) as f64 * 100.0 / shares.len() as f64, sum)
    });
    std::iter::once((0.0, 0.0)).chain(steps).collect()
}

/// The percentage of files, the most asked first, that get this share of the accesses.
pub fn files_with(shares: &[f64], wanted: f64) -> f64 {
    let curve = cumulative(shares);
    let reached = curve.iter().find(|(_, share)| *share >= wanted - 1e-9);
    reached.map_or(100.0, |(files, _)| *files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_files_count_first() {
        let file = |access| FileFacts {
            access,
            ..FileFacts::default()
        };
        let shares = shares(&[file(0.05), file(0.35), file(0.05), file(0.05)]);
        assert!((shares[0] - 0.7).abs() < 1e-9);
        assert_eq!(files_with(&shares, 0.7), 25.0);
        assert_eq!(files_with(&shares, 0.8), 50.0);
        assert_eq!(cumulative(&shares).len(), 5);
    }
}
