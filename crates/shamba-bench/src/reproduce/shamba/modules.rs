//! What lookups do with the modules of filters in 1, 2, 3 or 7 parts: for Table 3 and Figures 8
//! to 10.
use crate::reproduce::Lab;
use crate::reproduce::trial::Found;
use crate::store::Base;

/// Numbers of modules.
pub(super) const MODULES: [usize; 4] = [1, 2, 3, 7];

/// The database of an engine, in files large enough for seven modules.
pub(super) fn base(lab: &Lab<'_>, engine: &str) -> Base {
    // As large as the paper's, whatever the scale: 2 MiB are the least with a page for each of
    // seven modules (Eq. 11), and in 4 MiB less is lost to whole pages.
    let file = lab.scale.pick(64 << 10, 4 << 20, 4 << 20, 4 << 20);
    Base {
        file_size: file,
        write_buffer: file,
        ..lab.base(engine)
    }
}

/// The engine that reads all of so many equal modules.
pub(super) fn equal(modules: usize) -> String {
    match modules {
        1 => "shamba:state-of-the-art".to_owned(),
        _ => format!("shamba:shamba-eq+modules={modules}"),
    }
}

/// What of a model's error is told.
pub(super) fn failed(error: shamba_model::ModelError) -> crate::Error {
    crate::Error::InvalidSetting(error.to_string())
}

/// How often lookups asked each module, of those that asked the first: sampled.
pub(super) fn asked(found: &Found, modules: usize) -> Vec<f64> {
    let count = |module: usize| found.count(&format!("module_{module}_probed")) as f64;
    // The engine tells six modules apart; the sixth stands for the seventh as well. Half of those
    // that pass one bit pass the next.
    let split = |module: usize| match (modules, module) {
        (7, 5) => count(5) * 2.0 / 3.0,
        (7, 6) => count(5) / 3.0,
        _ => count(module),
    };
    let first = split(0).max(1.0);
    (0..modules).map(|module| split(module) / first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventh_module_is_counted_with_the_sixth() {
        let mut found = Found::default();
        for (module, count) in [(0, 64), (1, 32), (2, 16), (3, 8), (4, 4), (5, 3)] {
            found
                .counts
                .insert(format!("module_{module}_probed"), count);
        }
        let asked = asked(&found, 7);
        assert_eq!(asked.iter().sum::<f64>() * 64.0, 127.0);
        assert_eq!((asked[5] * 64.0, asked[6] * 64.0), (2.0, 1.0));
    }
}
