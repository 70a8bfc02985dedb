//! Reads over memory as curves: with how much memory an engine reads as much as another.
use super::pressure::Point;

/// Pages per lookup over all panels, by budget.
fn means<'a>(points: impl Iterator<Item = &'a Point>, engine: usize) -> Vec<(f64, f64)> {
    let mut means: Vec<(f64, f64, f64)> = Vec::new();
    for point in points {
        match means.iter_mut().find(|mean| mean.0 == point.percent) {
            Some(mean) => (mean.1, mean.2) = (mean.1 + point.pages(engine), mean.2 + 1.0),
            None => means.push((point.percent, point.pages(engine), 1.0)),
        }
    }
    means.iter().map(|(at, sum, of)| (*at, sum / of)).collect()
}

/// The part of its memory with which an engine reads what the baseline reads with so many percent,
/// on the average over all panels; between the measured budgets by a straight line over the
/// logarithm. The least budget measured, where that is enough.
pub fn memory_for_reads_at<'a>(
    points: impl Iterator<Item = &'a Point> + Clone,
    engine: usize,
    percent: f64,
) -> Option<f64> {
    let (own, baseline) = (means(points.clone(), engine), means(points, 0));
    let &(_, wanted) = baseline.iter().find(|(budget, _)| *budget == percent)?;
    Some(crossing(&own, wanted)? / percent)
}

/// Where a falling curve comes down to a value: between its points by a straight line over the
/// logarithm.
pub fn crossing(curve: &[(f64, f64)], value: f64) -> Option<f64> {
    let first = curve.first()?;
    if first.1 <= value {
        return Some(first.0);
    }
    let below = curve.windows(2).find(|pair| pair[1].1 <= value)?;
    let ((x0, y0), (x1, y1)) = (below[0], below[1]);
    let part = (y0.ln() - value.ln()) / (y0.ln() - y1.max(1e-9).ln());
    Some(x0 + (x1 - x0) * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_crossed_between_its_points() {
        let curve = [(10.0, 8.0), (40.0, 2.0), (100.0, 1.0)];
        assert_eq!(crossing(&curve, 9.0), Some(10.0));
        assert_eq!(crossing(&curve, 4.0).map(f64::round), Some(25.0));
        assert_eq!(crossing(&curve, 0.5), None);
    }
}
