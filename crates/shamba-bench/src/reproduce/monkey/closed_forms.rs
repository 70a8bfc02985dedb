//! Table 2 and Figures 7 and 9: reads of an empty lookup by the model's closed forms, with uniform
//! filters and with Monkey's, beside measured trees.
use super::trees::{self, Curves};
use crate::experiments::full_tree::FullTree;
use crate::reproduce::prelude::*;
use shamba_model::cost::{Allocation, Costs, costs};
use shamba_model::curve::Curve;
use shamba_model::monkey::{point_lookup_cost, uniform_cost};
use shamba_model::tree::MergePolicy::{Leveling, Tiering};
use shamba_model::tree::{MergePolicy, Tree};

/// Entries of Table 2, and of the paper's other trees, which have size ratio 4.
const MANY: f64 = (1u64 << 40) as f64;
const ENTRIES: f64 = (1u64 << 35) as f64;
const RATIO: u32 = 4;

/// Levels of Figure 7: entries have 16 B, the buffer 2 MB.
const LEVELS: u32 = 9;

/// Bytes of Figure 9 for buffer and filters.
const MEMORY: f64 = 35e9;

/// How many times as large searches have to be to count as changed.
const APART: f64 = 1.3;

const SEARCHES: &str = "searches per empty lookup";
const BESIDE: &str = "Searches of an empty lookup, measured beside the model";

/// Reads of an empty lookup with uniform filters and with Monkey's: Eqs. 7, 8 and 55.
fn reads(tree: &Tree, bits_per_key: f64) -> Result<[f64; 2]> {
    let bits = bits_per_key * tree.entries();
    Ok([
        uniform_cost(tree, 0.0, bits)?,
        point_lookup_cost(tree, 0.0, bits)?,
    ])
}

/// What both come to over something, as lines.
fn modelled(title: &str, x: &str, points: &[(f64, [f64; 2])]) -> Panel {
    let line = |of: usize| points.iter().map(move |(x, reads)| (*x, reads[of]));
    let names = ["uniform, model", "Monkey, model"].into_iter().enumerate();
    let lines: Vec<Series> = names.map(|(of, name)| Series::of(name, line(of))).collect();
    Panel::new(title, x, "reads per empty lookup", lines)
}

/// How lookup cost grows with levels.
pub(super) fn table_2(lab: &mut Lab<'_>) -> Result<Findings> {
    let costs = |policy: MergePolicy, ratio: u32, levels: u32| {
        reads(&Tree::new(policy, ratio, levels, MANY)?, trees::BITS)
    };
    let mut table = Report::titled("Reads of an empty lookup by the model as levels double");
    for (policy, ratio) in [(Leveling, 2), (Leveling, 10), (Tiering, 4), (Tiering, 10)] {
        for levels in [5, 10, 20] {
            let [even, best] = costs(policy, ratio, levels)?;
            table.add(row! {
                "policy": trees::policy(policy),
                "T": ratio,
                "bits per key": trees::BITS,
                "levels": levels,
                "uniform": even,
                "Monkey": best,
            });
        }
    }
    let by_levels = (1..=20).map(|levels| Ok((levels.into(), costs(Leveling, 2, levels)?)));
    let by_levels = by_levels.collect::<Result<Vec<_>>>()?;
    let measured = trees::by_levels(lab, "levels", |point| point.tree.levels.into())?;
    let title = "by the model, T = 2, 5 bits per key";
    let panels = [
        modelled(title, "levels", &by_levels),
        measured.panel("measured", SEARCHES, 1.0),
    ];
    let tables = [table, measured.table(BESIDE)];
    Ok(Findings::of(trees::setting(lab), tables, panels, []))
}

/// Reads over filter memory.
pub(super) fn figure_7(lab: &mut Lab<'_>) -> Result<Findings> {
    let title = "Reads of an empty lookup by Eqs. 7, 8 and 55 (56 is it for many levels); 2^35 entries, T = 4, 9 levels";
    let mut table = Report::titled(title);
    let mut panels = Vec::new();
    for policy in [Leveling, Tiering] {
        let tree = Tree::new(policy, RATIO, LEVELS, ENTRIES)?;
        let policy = trees::policy(policy);
        let mut points = Vec::new();
        for gigabytes in (0..=35).map(f64::from) {
            let bits_per_key = gigabytes * 8e9 / ENTRIES;
            let [even, best] = reads(&tree, bits_per_key)?;
            table.add(row! {
                "filters GB": gigabytes,
                "bits per key": bits_per_key,
                "policy": policy,
                "uniform reads": even,
                "Monkey reads": best,
            });
            points.push((gigabytes, [even, best]));
        }
        let title = format!("the paper's tree, {policy}");
        panels.push(modelled(&title, "memory of filters, GB", &points));
    }
    // A leveled tree of size ratio 4 with more and more bits per key.
    let many: &[f64] = &[0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
    let bits = lab
        .scale
        .pick(&many[4..5], &[1.0, 2.0, 4.0, 6.0], many, many);
    let tree = FullTree {
        policy: Leveling,
        size_ratio: RATIO,
        levels: lab.scale.pick(2, 4, 5, 5),
        buffer_entries: 128,
        ..trees::default(lab)
    };
    let setting = trees::setting_of(lab, &tree, "2^35 of 16 B, 2 MB, by formulas alone");
    let trees = trees::with_bits(tree, bits);
    let points = trees::sweep(lab, trees::measure, trees, &trees::TWO, &trees::EMPTY)?;
    let measured = Curves::by_bits(points);
    panels.push(measured.panel("measured, leveling", SEARCHES, 1.0));
    // Monkey's trees have a little more memory than those of uniform filters: beside what these do
    // with as much, by a straight line over the logarithm.
    let [even_bits, best_bits, _] = measured.each(measured.at);
    let [even, best, _] = measured.each(|point| point.in_vain);
    let even: Vec<(f64, f64)> = even_bits.into_iter().zip(even).collect();
    let pairs = best_bits.iter().zip(&best);
    let fewer = pairs.filter_map(|(bits, best)| Some(*best < at_bits(&even, *bits)?));
    let what = "leveling: Monkey searches in vain less often than uniform filters of the same memory (measured)";
    let fewer: Vec<bool> = fewer.collect();
    let alone = best.len() - fewer.len();
    let mut fewer = Claim::at_each(what, fewer);
    if alone > 0 {
        fewer.measured +=
            &format!("; of {alone} more trees no uniform filters of the memory were measured");
    }
    let claims = [
        fewer,
        trees::near_model("measured searches are the model's", &measured.points),
    ];
    let tables = [table, measured.table(BESIDE)];
    Ok(Findings::of(setting, tables, panels, claims))
}

/// A falling curve at so many bits, between its points by a straight line over the logarithm;
/// nothing outside of them.
fn at_bits(curve: &[(f64, f64)], bits: f64) -> Option<f64> {
    let mut pairs = curve.windows(2);
    let around = pairs.find(|pair| pair[0].0 <= bits && bits <= pair[1].0)?;
    let ((x0, y0), (x1, y1)) = (around[0], around[1]);
    let part = (bits - x0) / (x1 - x0);
    let [y0, y1] = [y0, y1].map(|y| y.max(1e-9).ln());
    Some((y0 + (y1 - y0) * part).exp())
}

/// Costs with so many bytes for the buffer, of entries of 16 B under leveling.
fn with_buffer(buffer: f64, allocation: Allocation) -> Result<Costs> {
    let environment = trees::environment(ENTRIES, 16.0);
    let design = trees::leveled(RATIO, buffer, MEMORY - buffer, allocation);
    let workload = trees::workload(0.5, 0.0);
    Ok(costs(&design, &environment, &workload, &Curve::ideal())?)
}

/// Lookup and update cost as memory goes from the filters to the buffer.
pub(super) fn figure_9(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Costs by the model; 2^35 entries of 16 B, T = 4, leveling, 35 GB for buffer and filters",
    );
    let mut lookups = Vec::new();
    // From a page to all of it.
    let steps = 46;
    for step in 0..=steps {
        let buffer = 4096.0 * (MEMORY / 4096.0).powf(f64::from(step) / f64::from(steps));
        let even = with_buffer(buffer, Allocation::Uniform)?;
        let best = with_buffer(buffer, Allocation::Monkey)?;
        table.add(row! {
            "buffer MB": buffer / 1e6,
            "buffer %": buffer / MEMORY * 100.0,
            "uniform reads": even.empty_lookup,
            "Monkey reads": best.empty_lookup,
            "update pages": best.update,
        });
        let x = (buffer / 1e6).log10();
        lookups.push((x, [even.empty_lookup, best.empty_lookup]));
    }
    let updates = table.numbers("update pages");
    // As many entries in more and more levels.
    let default = trees::default(lab);
    let levels = (default.levels / 2..=default.levels).rev().step_by(2);
    let tree = |levels| FullTree {
        levels,
        buffer_entries: default.buffer_entries << (default.levels - levels),
        ..default
    };
    let measured = Curves {
        x: "entries of the buffer, power of two",
        at: |point| (point.tree.buffer_entries as f64).log2(),
        points: trees::empty(lab, levels.map(tree))?,
    };
    let [even, best, _] = measured.each(|point| point.in_vain);
    let falls = even.is_sorted_by(|smaller, larger| smaller > larger);
    let [first, last] = [even.first(), even.last()].map(|end| end.copied().unwrap_or(f64::NAN));
    let (even, best) = (trees::spread(&even), trees::spread(&best));
    let what = format!(
        "largest over smallest number of searches in vain over all buffers measured, at the same memory of filters (the \
         paper takes the buffer's from theirs); below {APART} it stays (our limit)"
    );
    let seen = format!(
        "Monkey {best:.2}; uniform {even:.2}, from {first:.3} with the least buffer to {last:.3}"
    );
    let paper = "Monkey's stays, uniform's falls";
    let claim = Claim::statement(what, paper, seen, falls && even > APART && best < APART);
    let title = "Searches of an empty lookup by the size of the buffer, measured beside the model";
    let x = "buffer, power of ten of MB";
    let both = lookups.iter().map(|(x, _)| *x).zip(updates);
    let both = [Series::of("both, model", both)];
    let panels = [
        modelled("lookups", x, &lookups),
        Panel::new("updates", x, "pages per update", both),
        measured.panel("measured", SEARCHES, 1.0),
    ];
    let tables = [table, measured.table(title)];
    Ok(Findings::of(trees::setting(lab), tables, panels, [claim]))
}

#[cfg(test)]
mod tests {
    use super::at_bits;

    #[test]
    fn a_curve_is_read_between_its_points_only() {
        let curve = [(1.0, 1.0), (3.0, 0.01), (4.0, 0.0)];
        assert_eq!(at_bits(&curve, 2.0).map(|y| (y * 1e6).round()), Some(1e5));
        assert_eq!(at_bits(&curve, 1.0), Some(1.0));
        assert_eq!((at_bits(&curve, 0.5), at_bits(&curve, 4.5)), (None, None));
    }
}
