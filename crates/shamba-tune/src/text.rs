//! The answer as tables, for a person to read.

use shamba_model::cost::{Allocation, Costs, Design};
use shamba_model::tree::MergePolicy;

use crate::answer::{Answer, EngineOptions, Level, Plan, Step, WhatIf};
use crate::inputs::Inputs;
use crate::problem::percent;
use crate::tables;
use crate::value::{Number, name};

/// Everything that was answered.
pub fn text(answer: &Answer) -> String {
    let mut parts = vec![
        given(&answer.input),
        designs(&[("present", &answer.present), ("best", &answer.best)]),
        costs(&[
            ("present", &answer.present.costs),
            ("best", &answer.best.costs),
        ]),
        contributions(&answer.contributions, &answer.input),
        levels(&answer.best.levels),
        options(&answer.options),
    ];
    if let Some(other) = &answer.what_if {
        parts.push(what_if(answer, other));
    }
    for (title, notes) in [
        ("from the database", &answer.from_database),
        ("assumed, as nothing says otherwise", &answer.assumed),
    ] {
        if !notes.is_empty() {
            parts.push(format!("{title}: {}", notes.join("; ")));
        }
    }
    parts.join("\n\n")
}

/// The inputs in two lines.
fn given(input: &Inputs) -> String {
    let number = |number: Option<Number>| number.map_or(0.0, |number| number.0);
    let bytes = |size: Option<Number>| tables::bytes(number(size) as u64);
    let shares = input.shares().map(|(name, share)| {
        let share = percent(number(share));
        format!("{share} {}", name.replace('-', " "))
    });
    let entries = number(input.entries);
    let data = entries * number(input.entry_size);
    format!(
        "{} entries of {} bytes ({}), memory {}, pages of {} read in {} µs, a write worth {} reads, {} filters\n{}",
        tables::number(entries as u64),
        number(input.entry_size),
        tables::bytes(data as u64),
        bytes(input.memory),
        bytes(input.page_size),
        number(input.read_latency),
        number(input.write_cost),
        input.filter.map_or_else(String::new, name),
        shares.join(", ")
    )
}

fn policy(policy: MergePolicy) -> &'static str {
    match policy {
        MergePolicy::Leveling => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
    }
}

fn allocation(allocation: Allocation) -> &'static str {
    match allocation {
        Allocation::Uniform => "uniform",
        Allocation::MonkeyZero => "monkey-zero",
        Allocation::Monkey => "monkey",
    }
}

/// A cost in pages; small ones matter too.
fn pages(cost: f64) -> String {
    if cost > 0.0 && cost < 0.001 {
        format!("{cost:.1e}")
    } else {
        tables::measured(cost)
    }
}

fn per_second(throughput: f64) -> String {
    if throughput < 1e15 {
        tables::measured(throughput)
    } else {
        "no bound".to_owned()
    }
}

fn gain(speedup: f64) -> String {
    let percent = (speedup - 1.0) * 100.0;
    if percent < 1000.0 {
        format!("{percent:+.1} %")
    } else {
        format!("{} times", tables::measured(speedup))
    }
}

fn designs(plans: &[(&str, &Plan)]) -> String {
    let header = [
        "design",
        "merge policy",
        "size ratio",
        "write buffer",
        "filters",
        "bits/key",
        "divided",
        "levels",
    ];
    let rows = plans.iter().map(|(name, plan)| {
        let design = &plan.design;
        vec![
            (*name).to_owned(),
            policy(design.policy).to_owned(),
            design.size_ratio.to_string(),
            tables::bytes(design.buffer_bytes as u64),
            tables::bytes(design.filter_bytes as u64),
            format!("{:.2}", plan.bits_per_key),
            allocation(design.allocation).to_owned(),
            plan.costs.levels.to_string(),
        ]
    });
    let mut text = tables::table(&header, &rows.collect::<Vec<_>>());
    for (name, plan) in plans {
        if plan.spare_bytes > 0.0 {
            text += &format!(
                "\n{name}: {} of the memory for filters are of no use to them",
                tables::bytes(plan.spare_bytes as u64)
            );
        }
    }
    text
}

fn costs(designs: &[(&str, &Costs)]) -> String {
    let header = [
        "predicted pages for",
        "empty lookup",
        "existing lookup",
        "range lookup",
        "update",
        "average operation",
        "operations/s",
    ];
    let rows = designs.iter().map(|(name, costs)| {
        vec![
            (*name).to_owned(),
            pages(costs.empty_lookup),
            pages(costs.existing_lookup),
            pages(costs.range_lookup),
            pages(costs.update),
            pages(costs.average),
            per_second(costs.throughput),
        ]
    });
    tables::table(&header, &rows.collect::<Vec<_>>())
}

/// A design in a few words.
fn brief(design: &Design) -> String {
    format!(
        "{}, T = {}, buffer {}",
        policy(design.policy),
        design.size_ratio,
        tables::bytes(design.buffer_bytes as u64)
    )
}

fn contributions(steps: &[Step], input: &Inputs) -> String {
    let header = [
        "step",
        "leads to",
        "pages/operation",
        "operations/s",
        "gain",
    ];
    let rows = steps.iter().map(|step| {
        let title = match step.step {
            "present" => "the present design",
            "memory" => "filters fitted to the memory",
            "filters" => "filters divided by Monkey, and",
            "memory-split" => "  memory divided anew",
            "merge-policy" => "  merge policy",
            "size-ratio" => "  size ratio",
            "merging" => "  merge policy and size ratio",
            _ => "  all together",
        };
        vec![
            title.to_owned(),
            brief(&step.design),
            pages(step.costs.average),
            per_second(step.costs.throughput),
            gain(step.speedup),
        ]
    });
    let mut text = tables::table(&header, &rows.collect::<Vec<_>>());
    let fixed = input.size_ratio.is_some() || input.write_buffer.is_some();
    let bound = input.max_lookup_cost.is_some() || input.max_update_cost.is_some();
    if fixed || bound {
        text += "\nthe steps heed no bounds, and no size ratio or write buffer that must stay";
    }
    text
}

fn levels(levels: &[Level]) -> String {
    let header = [
        "level of the best design",
        "runs",
        "entries, full",
        "filter bits/key",
        "false positives",
    ];
    let rows = levels.iter().map(|level| {
        let rate = level.false_positive_rate * 100.0;
        vec![
            level.level.to_string(),
            tables::number(level.runs as u64),
            tables::number(level.entries as u64),
            format!("{:.2}", level.bits_per_key),
            if rate > 0.0 && rate < 0.001 {
                format!("{rate:.1e} %")
            } else {
                format!("{rate:.3} %")
            },
        ]
    });
    tables::table(&header, &rows.collect::<Vec<_>>())
}

fn options(options: &EngineOptions) -> String {
    let mut text = format!("engine options for the best design:\n{}", options.rust);
    for limit in &options.limited {
        text += &format!("\nthe design has {limit}");
    }
    text += &format!(
        "\npredicted for these options: {} pages an operation, {} operations/s",
        pages(options.costs.average),
        per_second(options.costs.throughput)
    );
    text
}

fn what_if(answer: &Answer, other: &WhatIf) -> String {
    let title = format!("what if {}:", other.changes.join(", "));
    let names = [
        "present inputs: present",
        "present inputs: best",
        "changed inputs: present",
        "changed inputs: best",
    ];
    let plans = [&answer.present, &answer.best, &other.present, &other.best];
    let plans: Vec<_> = names.into_iter().zip(plans).collect();
    let all: Vec<_> = plans
        .iter()
        .map(|(name, plan)| (*name, &plan.costs))
        .collect();
    format!(
        "{title}\n{}\n\n{}\n\n{}",
        designs(&plans),
        costs(&all),
        options(&other.options)
    )
}
