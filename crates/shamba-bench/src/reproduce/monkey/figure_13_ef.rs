//! Figure 13 (E, F): throughput of lookups and updates, and of short ranges and updates, when more and more
//! of the design follows the workload.
use super::{trade_off, trees};
use crate::Result;
use crate::device::Device;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use shamba_model::cost::{self, Allocation, Environment, Workload};
use shamba_model::curve;
use shamba_model::search::{Bounds, Knobs, Request, search};
use shamba_model::tree::{self, MergePolicy};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-13-ef",
    title: "Throughput of designs that follow the workload (E, F)",
    claim: "For any mix of empty lookups and updates, optimal filters are better than the fixed design, merging \
            that adapts is better still, and with memory divided too throughput is at least 50 % higher. For short \
            ranges and updates the gain is up to 50 %.",
    seconds: 25.0,
    run,
};

/// Bytes of a value, of which five fill a page.
const VALUE: usize = 690;

/// Bytes of an entry, such that five are a page as the model has it.
const ENTRY: f64 = 4096.0 / trade_off::ENTRIES_PER_PAGE;

/// Entries that a range lookup returns: 0.001 % of the paper's million.
const RANGE: u64 = 10;

/// The smallest buffer: with fewer entries a table's pages would not be full.
const LEAST_BUFFER: f64 = 20.0;

/// Filter bits per key of the fixed design, and of what is measured of it.
fn fixed(lab: &Lab<'_>) -> FullTree {
    FullTree {
        policy: MergePolicy::Leveling,
        size_ratio: 2,
        levels: lab.scale.pick(5, 10, 10, 10),
        buffer_entries: lab.scale.pick(32, 40, 128, 512),
        value: VALUE,
        ..trees::default(lab)
    }
}

/// Entries of a full tree, those of the buffer counted.
fn entries(tree: &FullTree) -> f64 {
    tree.buffer_entries as f64 * f64::from(tree.size_ratio).powi(tree.levels as i32)
}

/// Bytes of buffer and filters.
fn memory(tree: &FullTree) -> f64 {
    tree.buffer_entries as f64 * ENTRY + tree.bits_per_key / 8.0 * entries(tree)
}

/// The best tree for the workload with as much memory as the fixed one: of those with its buffer, or with
/// any.
fn best(fixed: &FullTree, workload: &Workload, any_buffer: bool) -> Result<FullTree> {
    let entries = entries(fixed);
    let buffer = fixed.buffer_entries as f64 * ENTRY;
    let request = Request {
        environment: Environment {
            entries,
            entry_bytes: ENTRY,
            device: cost::Device {
                page_bytes: 4096.0,
                read_seconds: Device::SataSsd.read_ns() as f64 / 1e9,
                write_cost: 1.0,
            },
        },
        workload: *workload,
        memory_bytes: memory(fixed),
        knobs: Knobs {
            policies: vec![MergePolicy::Leveling, MergePolicy::Tiering],
            size_ratio: None,
            buffer_bytes: (!any_buffer).then_some(buffer),
            allocation: Allocation::Monkey,
        },
        bounds: Bounds::default(),
    };
    let curve = curve::Family::Bloom.curve().map_err(trees::failed)?;
    let found = search(&request, &curve).map_err(trees::failed)?;
    let design = found.design;
    // The buffer that fills the levels, if it is not too small.
    let levels = found.costs.levels;
    let full = entries / f64::from(design.size_ratio).powi(levels as i32);
    Ok(FullTree {
        policy: design.policy,
        size_ratio: design.size_ratio,
        levels,
        buffer_entries: full.max(LEAST_BUFFER).round() as u64,
        bits_per_key: design.filter_bytes * 8.0 / entries,
        filters: Filters::General(workload.positive()),
        ..*fixed
    })
}

fn name(tree: &FullTree) -> String {
    let policy = match tree.policy {
        MergePolicy::Tiering => "T",
        _ => "L",
    };
    format!(
        "{policy}{}, {} levels, buffer of {}, {:.1} bits",
        tree.size_ratio, tree.levels, tree.buffer_entries, tree.bits_per_key
    )
}

/// What a design makes of a mix.
struct Outcome {
    tree: FullTree,
    /// Pages of a lookup or range, of an update, and of an operation of the mix.
    read: f64,
    update: f64,
    pages: f64,
    /// Pages of an operation by the model.
    model: f64,
}

impl Outcome {
    /// Operations a second, each page at the price of a read.
    fn throughput(&self) -> f64 {
        1e9 / (self.pages * Device::SataSsd.read_ns() as f64)
    }
}

/// The workload of a share of lookups or ranges.
fn workload(kind: Lookups, share: f64, entries: f64) -> Workload {
    let ranges = matches!(kind, Lookups::Scan(_));
    Workload {
        empty_lookups: if ranges { 0.0 } else { share },
        existing_lookups: 0.0,
        range_lookups: if ranges { share } else { 0.0 },
        updates: 1.0 - share,
        selectivity: RANGE as f64 / entries,
    }
}

fn measure(lab: &mut Lab<'_>, tree: FullTree, kind: Lookups, share: f64) -> Result<Outcome> {
    let seen = trees::equal(lab, tree, &[kind])?;
    let read = match kind {
        Lookups::Scan(_) => seen.lookups[0].reads,
        _ => seen.lookups[0].in_vain,
    };
    let update = trade_off::update(&seen);
    let environment = Environment {
        entries: entries(&tree),
        entry_bytes: ENTRY,
        device: cost::Device {
            page_bytes: 4096.0,
            read_seconds: 1.0,
            write_cost: 1.0,
        },
    };
    let model_tree = tree::Tree::new(tree.policy, tree.size_ratio, tree.levels, entries(&tree));
    let model_update = cost::update(&model_tree.map_err(trees::failed)?, &environment);
    Ok(Outcome {
        tree,
        read,
        update,
        pages: share * read + (1.0 - share) * update,
        model: share * seen.lookups[0].model
            + (1.0 - share) * model_update.map_err(trees::failed)?,
    })
}

/// The lines of a panel, in their order.
const NAMES: [&str; 4] = ["fixed design", "+ filters", "+ merging", "+ memory"];

type Row = (f64, Vec<Outcome>);

fn part(lab: &mut Lab<'_>, kind: Lookups) -> Result<Vec<Row>> {
    let few: &[f64] = &[0.1, 0.5, 0.9];
    let many: &[f64] = &[0.1, 0.3, 0.5, 0.7, 0.9];
    let fixed = fixed(lab);
    let mut rows = Vec::new();
    for &share in lab.scale.pick(&few[1..2], many, many, many) {
        let workload = workload(kind, share, entries(&fixed));
        let mut outcomes = Vec::new();
        for tree in [
            fixed,
            FullTree {
                filters: Filters::Zero,
                ..fixed
            },
            best(&fixed, &workload, false)?,
            best(&fixed, &workload, true)?,
        ] {
            outcomes.push(measure(lab, tree, kind, share)?);
        }
        rows.push((share, outcomes));
        lab.note(format!("{kind:?}, share {share}"));
    }
    Ok(rows)
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Operations by design; throughput: each page at the price of a read",
        &[
            "operations",
            "share %",
            "variant",
            "design",
            "pages of a read",
            "pages of an update",
            "pages/op",
            "model pages/op",
            "ops/s",
            "to fixed",
        ],
    );
    let fixed = fixed(lab);
    let (mut panels, mut claims) = (Vec::new(), Vec::new());
    for (letter, kind, what) in [
        ('E', Lookups::Mixed(0.0), "empty lookups"),
        ('F', Lookups::Scan(RANGE), "short ranges"),
    ] {
        let rows = part(lab, kind)?;
        let mut series = NAMES.map(Series::new);
        for (share, outcomes) in &rows {
            for ((name_of, series), outcome) in NAMES.iter().zip(&mut series).zip(outcomes) {
                series.points.push((share * 100.0, outcome.throughput()));
                table.push(vec![
                    what.into(),
                    (share * 100.0).into(),
                    (*name_of).into(),
                    name(&outcome.tree).into(),
                    outcome.read.into(),
                    outcome.update.into(),
                    outcome.pages.into(),
                    outcome.model.into(),
                    outcome.throughput().into(),
                    (outcome.throughput() / outcomes[0].throughput()).into(),
                ]);
            }
        }
        panels.push(Panel {
            title: format!("({letter}) {what} and updates"),
            x: format!("{what}, % of operations"),
            y: "operations per second".into(),
            log_y: false,
            series: series.into(),
        });
        match kind {
            Lookups::Scan(_) => claims.extend(of_ranges(&fixed, &rows)?),
            _ => claims.extend(of_lookups(&rows)),
        }
    }
    Ok(Findings {
        setting: format!(
            "{:.0} entries of 706 B, five to a page; the fixed design as the paper's: leveling, T = 2, {} levels, a buffer \
             of {} entries, uniform filters of {} bits; the others have as much memory for buffer and filters, which the \
             model's search divides. Each design's full tree is written (pages read and written by flushes and merges, \
             over the entries) and asked; a mix costs its shares of both. A page is 98 us (sata-ssd).",
            entries(&fixed),
            fixed.levels,
            fixed.buffer_entries,
            fixed.bits_per_key,
        ),
        claims,
        tables: vec![table],
        panels,
        ..Findings::default()
    })
}

/// The gains of the last design over the first, in percent.
fn gains(rows: &[Row]) -> Vec<f64> {
    let gain = |all: &[Outcome]| (all[3].throughput() / all[0].throughput() - 1.0) * 100.0;
    rows.iter().map(|(_, all)| gain(all)).collect()
}

fn of_lookups(rows: &[Row]) -> Vec<Claim> {
    let better = |from: usize, to: usize| {
        let steps = rows.iter();
        let steps = steps.filter(|(_, all)| all[to].throughput() >= all[from].throughput() * 0.98);
        steps.count()
    };
    let (filters, merging, memory) = (better(0, 1), better(1, 2), better(2, 3));
    vec![
        Claim::at_least(
            "gain of throughput with empty lookups, at least, %",
            50.0,
            gains(rows).into_iter().fold(f64::INFINITY, f64::min),
        ),
        Claim::holds(
            "each further decision is no worse than the one before (within 2 %)",
            "filters, merging, memory: always",
            format!("in {filters}, {merging}, {memory} of {} mixes", rows.len()),
            filters + merging + memory == 3 * rows.len(),
        ),
    ]
}

fn of_ranges(fixed: &FullTree, rows: &[Row]) -> Result<Vec<Claim>> {
    let gain = Claim::at_least(
        "gain of throughput with short ranges, up to, %",
        50.0,
        gains(rows).into_iter().fold(f64::MIN, f64::max),
    );
    // Where there are only ranges and updates, filters should have nothing.
    let trees = rows.iter().map(|(_, all)| all[3].tree);
    let most = trees.max_by(|a, b| a.bits_per_key.total_cmp(&b.bits_per_key));
    let most = most.unwrap_or(*fixed);
    let share = most.bits_per_key / 8.0 * entries(&most) / memory(fixed) * 100.0;
    let mut filters = Claim::holds(
        "share of the memory that filters get where there are only ranges and updates, at most",
        "none: it goes to the buffer",
        format!("{share:.1} %"),
        share < 1.0,
    );
    if most.levels > 1 {
        let fewer = tree::buffer_for(entries(fixed) * ENTRY, most.size_ratio, most.levels - 1);
        filters = filters.because(format!(
            "they get what the buffer has no use for: for one level less than {} it would need {:.0} KiB, and all memory \
             is {:.0} KiB",
            most.levels,
            fewer.map_err(trees::failed)? / 1024.0,
            memory(fixed) / 1024.0
        ));
    }
    Ok(vec![gain, filters])
}
