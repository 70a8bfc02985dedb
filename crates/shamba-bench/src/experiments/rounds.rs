//! What is measured again and again, those to compare alternating, and its medians.
use crate::Result;
use crate::progress::Progress;
use crate::report::median;
use std::fmt::Debug;

/// What was measured of each of some works.
pub(super) struct Rounds<W, M>(Vec<(W, Vec<M>)>);

impl<W: Copy + Debug + PartialEq, M> Rounds<W, M> {
    /// Measures every work `repeat` times, all of them in turn; `measure` is also told in which
    /// round.
    pub(super) fn measure(
        works: &[W],
        repeat: usize,
        note: &mut dyn FnMut(String),
        mut measure: impl FnMut(W, u64, &mut dyn FnMut(String)) -> Result<M>,
    ) -> Result<Self> {
        let rounds = 0..repeat.max(1) as u64;
        let name = |work| format!("{work:?}");
        let mut progress = Progress::default();
        for &work in works {
            rounds.clone().for_each(|_| progress.expect(&name(work)));
        }
        let mut found: Vec<(W, Vec<M>)> = works.iter().map(|work| (*work, Vec::new())).collect();
        for round in rounds {
            for (work, found) in &mut found {
                progress.start();
                found.push(measure(*work, round, note)?);
                note(format!("{} {}", progress.done(&name(*work)), name(*work)));
            }
        }
        Ok(Self(found))
    }

    /// The median of a value over all rounds of these works.
    pub(super) fn median(&self, of: &[W], value: impl Fn(&M) -> f64) -> Option<f64> {
        let found = self.0.iter().filter(|(work, _)| of.contains(work));
        let found = found.flat_map(|(_, found)| found);
        median(&found.map(value).collect::<Vec<_>>())
    }

    /// The same to that of other works.
    pub(super) fn ratio(&self, of: &[W], to: &[W], value: impl Fn(&M) -> f64) -> Option<f64> {
        Some(self.median(of, &value)? / self.median(to, &value)?)
    }
}
