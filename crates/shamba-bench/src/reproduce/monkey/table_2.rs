//! Table 2: how lookup cost grows, checked on the model's numbers and on measured trees.
use super::trees::{self, Curves};
use crate::experiments::full_tree::FullTree;
use crate::reproduce::claim::TOLERANCE;
use crate::reproduce::prelude::*;
use shamba_model::monkey::threshold_bits;
use shamba_model::tree::MergePolicy::{Leveling, Tiering};
use shamba_model::tree::{MergePolicy, Tree};

const ENTRIES: f64 = (1u64 << 40) as f64;

/// Reads of an empty lookup with uniform filters and Monkey's.
fn costs(policy: MergePolicy, ratio: u32, levels: u32, bits_per_key: f64) -> Result<[f64; 2]> {
    trees::closed_forms(&Tree::new(policy, ratio, levels, ENTRIES)?, bits_per_key)
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Reads of an empty lookup by the model as levels double");
    for (policy, ratio) in [(Leveling, 2), (Leveling, 10), (Tiering, 4), (Tiering, 10)] {
        for levels in [5, 10, 20] {
            let [even, best] = costs(policy, ratio, levels, trees::BITS)?;
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
    let by_levels = (1..=20)
        .map(|levels| Ok((f64::from(levels), costs(Leveling, 2, levels, trees::BITS)?)))
        .collect::<Result<Vec<_>>>()?;
    let tree = Tree::new(Leveling, 2, 20, ENTRIES)?;
    let threshold = threshold_bits(&tree, 0.0)? / ENTRIES;
    let [even_few, best_few] = costs(Leveling, 2, 20, threshold / 16.0)?;
    let measured = measured(lab)?;
    // Half of the default levels, and all of them.
    let all = trees::default(lab).levels as usize;
    let growth = |searches: &[f64]| searches[all - 1] / searches[all / 2 - 1];
    let [even, best, _] = measured.each(|point| point.in_vain);
    let (even, best) = (growth(&even), growth(&best));
    let setting = trees::setting(lab);
    let mut claims = Vec::new();
    let what = "reads with a sixteenth of M_threshold in 20 levels (model)";
    let seen = format!("{even_few:.1} and {best_few:.1}");
    let paper = "uniform: about all 20; Monkey: the four levels without filters and what the \
                 others let through";
    let holds = best_few < 6.5 && even_few > 15.0;
    claims.push(by_model(Claim::statement(what, paper, seen, holds)));
    // From half of the levels on to all, within a tenth. That Monkey's stay is of many levels: of
    // so few it is the closed form that says how far they have come.
    let [even_model, best_model, _] = measured.each(|point| point.model);
    let (even_model, best_model) = (growth(&even_model), growth(&best_model));
    let what = "growth of searches in vain as measured levels double";
    let seen = format!("uniform {even:.2}, Monkey {best:.2}");
    let paper = format!(
        "by the closed forms of so many levels {even_model:.2} and {best_model:.2} (of many 2 and 1)"
    );
    let within = |growth: f64, of: f64| (growth / of - 1.0).abs() <= TOLERANCE;
    let holds = within(even, even_model) && within(best, best_model);
    claims.push(Claim::statement(what, paper, seen, holds));
    let seen = measured.table("Searches of an empty lookup, measured beside the model");
    let (title, lines) = (
        "by the model, T = 2, 5 bits per key",
        trees::model_lines(&by_levels),
    );
    let panels = [
        Panel::new(title, "levels", "reads per empty lookup", lines),
        measured.panel("measured", "searches per empty lookup", 1.0),
    ];
    Ok(Findings::of(setting, [table, seen], panels, claims))
}

/// Trees of one level, two, and more.
fn measured(lab: &mut Lab<'_>) -> Result<Curves> {
    let default = trees::default(lab);
    let tree = |levels| FullTree { levels, ..default };
    Ok(Curves {
        x: "levels",
        at: |point| point.tree.levels.into(),
        points: trees::empty(lab, (1..=default.levels).map(tree))?,
    })
}
