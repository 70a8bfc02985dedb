//! The bits per key with which Monkey's filters do the work of uniform ones, over the number of
//! levels: measured in trees of this experiment, by the model for larger ones.
use super::Settings;
use crate::Result;
use crate::experiments::full_tree::{Filters, Measured};
use crate::plot::{Panel, Series};
use crate::progress::Progress;
use crate::report::Report;
use shamba_model::curve::Curve;
use shamba_model::matching;
use shamba_model::tree::{MergePolicy, Tree};

/// Bits per key around the model's that are measured, to draw a line through.
const AROUND: [f64; 3] = [-0.8, 0.0, 0.8];

/// The bits per key that the paper says do the work of 10, for absent and for existing keys.
const PAPER: [f64; 2] = [6.0, 4.0];

/// Where the line through points, in the logarithm of what falls, comes to `goal`: least squares,
/// since in small trees few keys there are to err on. `None` without a falling line.
fn crossing(points: &[(f64, f64)], goal: f64) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1.ln()));
    let slope = mean(&|p| (p.0 - x) * (p.1.ln() - y)) / mean(&|p| (p.0 - x) * (p.0 - x));
    (slope < 0.0 && goal > 0.0).then(|| x + (goal.ln() - y) / slope)
}

/// Searches in vain per lookup of an absent key, and of a key of the last level.
type Vain = fn(&Measured) -> f64;

const KINDS: [(Filters, f64, Vain); 2] = [
    (Filters::Monkey, 0.0, |m| m.false_positives),
    (Filters::MonkeyExisting, 1.0, |m| m.searches - 1.0),
];

/// Trees of growing size: for each, how many bits do the work of the uniform ones. For existing
/// keys filters are those for existing keys.
pub(super) fn measured(
    settings: &Settings,
    powers: &[u32],
    curve: &Curve,
    note: &mut dyn FnMut(String),
) -> Result<(Report, Panel)> {
    let mut report = Report::new(
        format!(
            "Bits per key with which Monkey's filters read as little in vain as uniform ones of {} \
             asked for; T = 2",
            settings.uniform_bits
        ),
        &[
            "entries",
            "levels",
            "uniform bits",
            "absent keys",
            "model",
            "Eqs. 7, 56",
            "existing keys",
            "model existing",
        ],
    );
    let mut lines = ["absent keys", "model", "existing keys", "model existing"].map(Series::new);
    let mut progress = Progress::default();
    for power in powers {
        (0..7).for_each(|_| progress.expect(&power.to_string()));
    }
    for &power in powers {
        let mut measure = |bits, filters| -> Result<Measured> {
            progress.start();
            let measured = settings.measure(&settings.design(power, bits, filters))?;
            note(format!(
                "{} 2^{power} entries, {bits:.2} bits per key to equal {}",
                progress.done(&power.to_string()),
                settings.uniform_bits
            ));
            Ok(measured)
        };
        let even = measure(settings.uniform_bits, Filters::Uniform)?;
        let tree = settings.design(power, 0.0, Filters::Uniform).tree()?;
        let mut row = vec![
            2f64.powi(power as i32).into(),
            f64::from(tree.levels()).into(),
            even.bits_per_key.into(),
        ];
        for (at, (filters, positive, vain)) in KINDS.into_iter().enumerate() {
            let model = matching::bits(&tree, positive, even.bits_per_key, curve)?;
            let points = (AROUND.iter())
                .map(|more| measure((model + more).max(0.1), filters))
                .map(|measured| measured.map(|m| (m.bits_per_key, vain(&m))))
                .collect::<Result<Vec<_>>>()?;
            let found = crossing(&points, vain(&even));
            row.push(found.into());
            row.push(model.into());
            if positive == 0.0 {
                let many = matching::many_levels(&tree, even.bits_per_key)?;
                row.push(many.into());
            }
            for (line, bits) in lines.iter_mut().skip(2 * at).zip([found, Some(model)]) {
                let point = bits.map(|bits| (f64::from(tree.levels()), bits));
                line.points.extend(point);
            }
        }
        report.push(row);
    }
    let panel = Panel {
        title: format!("the work of {} uniform bits", settings.uniform_bits),
        x: "levels (T = 2)".into(),
        y: "bits per key".into(),
        log_y: false,
        series: lines.into(),
    };
    Ok((report, panel))
}

/// Where the paper's 6 and 4 bits are reached, by the model: the levels needed, and what is needed
/// with the nine levels of its setting.
pub(super) fn reach(uniform_bits: f64) -> Result<Report> {
    let title = format!(
        "By the model: bits per key that do the work of {uniform_bits} uniform ones in the paper's nine \
         levels, and levels at which the paper's 6 bits (absent keys) and 4 bits (existing keys) do it"
    );
    let columns = [
        "policy",
        "T",
        "absent, 9 levels",
        "existing, 9 levels",
        "levels for 6 bits",
        "levels for 4 bits",
    ];
    let mut report = Report::new(title, &columns);
    let ideal = Curve::ideal();
    for (policy, name) in [
        (MergePolicy::Leveling, "leveling"),
        (MergePolicy::Tiering, "tiering"),
    ] {
        for ratio in [2, 4, 10] {
            let tree = Tree::new(policy, ratio, 9, 1.0)?;
            let mut row = vec![name.into(), f64::from(ratio).into()];
            for positive in [0.0, 1.0] {
                let bits = matching::bits(&tree, positive, uniform_bits, &ideal);
                row.push(bits?.into());
            }
            for (positive, bits) in [0.0, 1.0].into_iter().zip(PAPER) {
                let levels = matching::levels(&tree, positive, bits, uniform_bits, &ideal);
                row.push(levels?.map(f64::from).into());
            }
            report.push(row);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_crosses_where_its_line_does() {
        let points = [(1.0, 8.0), (2.0, 4.0), (3.0, 2.0)];
        let at = |goal: f64| crossing(&points, goal).unwrap();
        assert!((at(8f64.sqrt()) - 2.5).abs() < 1e-12);
        assert!((at(16.0) - 0.0).abs() < 1e-12);
        let wavering = [(1.0, 8.0), (2.0, 4.5), (3.0, 2.0)];
        let at = crossing(&wavering, 4.0).unwrap();
        assert!((2.0..2.1).contains(&at), "{at}");
        assert_eq!(crossing(&points[..1], 1.0), None);
        assert_eq!(crossing(&[(1.0, 2.0), (2.0, 3.0)], 1.0), None);
    }
}
