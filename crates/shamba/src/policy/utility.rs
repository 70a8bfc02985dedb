//! SHaMBa's skipping: read the leading modules that are worth it (Algorithm 1 of the paper).

use shamba_model::utility::{relative_threshold, utility};

use super::{EVERY_MODULE, FileView, ModuleController, Skipping, Thresholds};

/// Keeps no state.
#[derive(Debug)]
pub(super) struct Utility {
    pub(super) skipping: Skipping,
    pub(super) thresholds: Thresholds,
}

impl ModuleController for Utility {
    fn limits(&mut self, files: &[FileView], _epoch: u64) -> Vec<u8> {
        let (first, later) = match self.thresholds {
            Thresholds::Absolute { first, later } => (first, later),
            Thresholds::Relative { first, later } => {
                let of = |t| relative_threshold(t, files.len().max(1) as u64).unwrap_or(t);
                (of(first), of(later))
            }
        };
        files
            .iter()
            .map(|file| self.limit(file, first, later))
            .collect()
    }
}

impl Utility {
    /// Modules are probed in order, so the first one not worth it ends the list.
    fn limit(&self, file: &FileView, first: f64, later: f64) -> u8 {
        let Some((access, positive)) = file.hotness else {
            return EVERY_MODULE;
        };
        let mut passing = 1.0;
        for (module, &rate) in file.rates.iter().enumerate() {
            let (threshold, forced) = match module {
                0 => (first, self.skipping == Skipping::Partial),
                _ => (later, false),
            };
            // Shares out of range say nothing, and a module nothing is known of is read.
            let saved = utility(access, positive, passing, rate).unwrap_or(f64::INFINITY);
            if !forced && saved < threshold {
                return module as u8;
            }
            passing *= rate;
        }
        EVERY_MODULE
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    fn limits(skipping: Skipping, thresholds: Thresholds, files: &[FileView]) -> Vec<u8> {
        Utility {
            skipping,
            thresholds,
        }
        .limits(files, 1)
    }

    const OWN: Thresholds = Thresholds::Absolute {
        first: 0.2,
        later: 0.02,
    };

    #[test]
    fn modules_worth_less_than_the_threshold_are_skipped() {
        let files = [
            file(1, 1.0, 0.0, 2),  // 0.908 and 0.083 saved
            file(2, 0.23, 0.0, 2), // 0.209 and 0.019
            file(3, 0.1, 0.0, 2),  // 0.091
            file(4, 1.0, 0.9, 2),  // 0.091: probed often, but for keys that are there
            file(5, 1.0, 0.0, 0),
        ];
        assert_eq!(
            limits(Skipping::Full, OWN, &files),
            [EVERY_MODULE, 1, 0, 0, EVERY_MODULE]
        );
        assert_eq!(
            limits(Skipping::Partial, OWN, &files),
            [EVERY_MODULE, 1, 1, 1, EVERY_MODULE]
        );
    }

    #[test]
    fn the_printed_thresholds_never_read_a_second_module() {
        let files = [file(1, 1.0, 0.0, 2)];
        for skipping in [Skipping::Full, Skipping::Partial] {
            assert_eq!(limits(skipping, Thresholds::PAPER, &files), [1]);
        }
    }

    #[test]
    fn relative_thresholds_follow_the_number_of_files() {
        // Each of many files is probed by its part of the lookups: worth nothing in absolute terms.
        let files: Vec<_> = (0..100).map(|i| file(i, 0.02, 0.0, 2)).collect();
        let full = |thresholds| limits(Skipping::Full, thresholds, &files);
        assert_eq!(full(Thresholds::PAPER), [0; 100]);
        assert_eq!(full(Thresholds::RELATIVE), [EVERY_MODULE; 100]);
        let cold: Vec<_> = (0..100).map(|i| file(i, 0.002, 0.0, 2)).collect();
        assert_eq!(
            limits(Skipping::Full, Thresholds::RELATIVE, &cold),
            [0; 100]
        );
    }

    #[test]
    fn a_file_nothing_is_known_of_keeps_its_filter() {
        let unknown = FileView {
            hotness: None,
            ..file(1, 0.0, 0.0, 2)
        };
        assert_eq!(limits(Skipping::Full, OWN, &[unknown]), [EVERY_MODULE]);
    }
}
