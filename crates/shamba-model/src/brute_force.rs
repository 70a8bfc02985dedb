//! An optimum for tests that knows nothing of how optima are found elsewhere.

use crate::allocation::Run;
use crate::curve::Curve;

/// The optimum found without knowing anything of it: move bits between pairs of runs as long as
/// that lowers the sum, ever smaller amounts.
pub(crate) fn brute_force(runs: &[Run], bits: f64, curve: &Curve) -> f64 {
    let mut given: Vec<f64> = vec![bits / runs.len() as f64; runs.len()];
    let cost = |i: usize, bits: f64| {
        let run: &Run = &runs[i];
        run.weight * curve.rate(bits / run.entries).unwrap()
    };
    let mut delta = bits / 4.0;
    while delta > bits * 1e-7 {
        let mut moved = false;
        for to in 0..runs.len() {
            for from in 0..runs.len() {
                let step = delta.min(given[from]);
                if to == from || step == 0.0 {
                    continue;
                }
                let before = cost(to, given[to]) + cost(from, given[from]);
                let after = cost(to, given[to] + step) + cost(from, given[from] - step);
                if after < before * (1.0 - 1e-13) {
                    given[to] += step;
                    given[from] -= step;
                    moved = true;
                }
            }
        }
        if !moved {
            delta /= 2.0;
        }
    }
    (0..runs.len()).map(|i| cost(i, given[i])).sum()
}
