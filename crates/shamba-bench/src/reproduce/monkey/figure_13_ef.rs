//! Figure 13 (E, F): throughput of lookups and updates, and of short ranges and updates, when more
//! and more of the design follows the workload.
use super::{trade_off, trees};
use crate::device::Device;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::cost::{self, Allocation, Environment, Workload};
use shamba_model::curve;
use shamba_model::search::{Bounds, Found, Knobs, Request, search};
use shamba_model::tree::{self, MergePolicy};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-13-ef",
    title: "Throughput of designs that follow the workload (E, F)",
    claim: "For any mix of empty lookups and updates, optimal filters are better than the fixed design, merging \
            that adapts is better still, and with memory divided too throughput is at least 50 % higher. For short \
            ranges and updates the gain is up to 50 %.",
    seconds: 15.0,
    run,
};

/// Bytes of a value, of which five fill a page.
const VALUE: usize = 690;

/// Bytes of an entry, such that five are a page as the model has it.
const ENTRY: f64 = 4096.0 / trade_off::ENTRIES_PER_PAGE;

/// Filter bits per key above which filters no longer err: in the smallest scale there is so much
/// memory.
const MOST_BITS: f64 = 32.0;

/// Entries that a range lookup returns: 0.001 % of the paper's million.
const RANGE: u64 = 10;

/// A design for all entries.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Design {
    policy: MergePolicy,
    size_ratio: u32,
    /// Bytes of all entries.
    data: f64,
    /// Bytes of the buffer.
    buffer: f64,
    bits_per_key: f64,
    filters: Filters,
}

impl Design {
    /// The paper's default.
    fn fixed(lab: &Lab<'_>) -> Self {
        let buffer = lab.scale.pick(64.0, 64.0, 128.0, 512.0) * ENTRY;
        Self {
            policy: MergePolicy::Leveling,
            size_ratio: 2,
            data: buffer * lab.scale.pick(32.0, 512.0, 1024.0, 1024.0),
            buffer,
            bits_per_key: trees::BITS,
            filters: Filters::Uniform,
        }
    }

    fn entries(&self) -> f64 {
        self.data / ENTRY
    }

    /// Eq. 1.
    fn levels(&self) -> Result<u32> {
        Ok(tree::levels(self.data, self.buffer, self.size_ratio)?)
    }

    fn filter_bytes(&self) -> f64 {
        self.bits_per_key / 8.0 * self.entries()
    }

    /// Bytes of buffer and filters.
    fn memory(&self) -> f64 {
        self.buffer + self.filter_bytes()
    }

    /// The best for the workload with as much memory as this one: with its buffer, or with any.
    fn best(&self, workload: &Workload, any_buffer: bool) -> Result<Self> {
        let request = |ratio| Request {
            environment: Environment {
                entries: self.entries(),
                entry_bytes: ENTRY,
                device: DEVICE,
            },
            workload: *workload,
            memory_bytes: self.memory(),
            knobs: Knobs {
                policies: vec![MergePolicy::Leveling, MergePolicy::Tiering],
                size_ratio: Some(ratio),
                buffer_bytes: (!any_buffer).then_some(self.buffer),
                allocation: Allocation::Monkey,
            },
            bounds: Bounds::default(),
        };
        let curve = curve::Family::Bloom.curve()?;
        let all = (2..=trade_off::MOST_LEVELED).map(|ratio| search(&request(ratio), &curve));
        let all = all.collect::<std::result::Result<Vec<_>, _>>()?;
        let least = |a: &&Found, b: &&Found| a.costs.average.total_cmp(&b.costs.average);
        let Some(found) = all.iter().min_by(least) else {
            return Ok(*self);
        };
        Ok(Self {
            policy: found.design.policy,
            size_ratio: found.design.size_ratio,
            buffer: found.design.buffer_bytes,
            bits_per_key: (found.design.filter_bytes * 8.0 / self.entries()).min(MOST_BITS),
            filters: Filters::Zero,
            ..*self
        })
    }

    fn name(&self) -> Result<String> {
        let policy = match self.policy {
            MergePolicy::Tiering => "T",
            _ => "L",
        };
        Ok(format!(
            "{policy}{}, {} levels, buffer {:.0} KiB, {:.1} bits",
            self.size_ratio,
            self.levels()?,
            self.buffer / 1024.0,
            self.bits_per_key
        ))
    }
}

/// A page of it is the unit of costs.
const DEVICE: cost::Device = cost::Device {
    page_bytes: 4096.0,
    read_seconds: 1.0,
    write_cost: 1.0,
    merge_read_cost: 1.0,
};

/// What a design makes of a mix.
struct Outcome {
    design: Design,
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

fn measure(lab: &mut Lab<'_>, design: Design, kind: Lookups, share: f64) -> Result<Outcome> {
    // Costs follow from policy, ratio, levels and bits per key: a buffer of another size, with
    // which tables fill their pages, makes a tree of another number of entries and the same costs.
    let tree = FullTree {
        policy: design.policy,
        size_ratio: design.size_ratio,
        levels: design.levels()?,
        buffer_entries: trade_off::BUFFER,
        value: VALUE,
        bits_per_key: design.bits_per_key,
        filters: design.filters,
        ..trees::default(lab)
    };
    let seen = trees::equal(lab, tree, &[kind])?;
    let read = match kind {
        Lookups::Scan(_) => seen.lookups[0].reads,
        _ => seen.lookups[0].in_vain,
    };
    let update = trade_off::update(&seen);
    let environment = Environment {
        entries: design.entries(),
        entry_bytes: ENTRY,
        device: DEVICE,
    };
    let model = tree::Tree::new(tree.policy, tree.size_ratio, tree.levels, design.entries());
    let model = model.and_then(|tree| cost::update(&tree, &environment));
    Ok(Outcome {
        design,
        read,
        update,
        pages: share * read + (1.0 - share) * update,
        model: share * seen.lookups[0].model + (1.0 - share) * model?,
    })
}

/// The lines of a panel, in their order.
const NAMES: [&str; 4] = ["fixed design", "+ filters", "+ merging", "+ memory"];

type Row = (f64, Vec<Outcome>);

fn part(lab: &mut Lab<'_>, kind: Lookups) -> Result<Vec<Row>> {
    let few: &[f64] = &[0.1, 0.5, 0.9];
    let many: &[f64] = &[0.1, 0.3, 0.5, 0.7, 0.9];
    let fixed = Design::fixed(lab);
    let mut rows = Vec::new();
    for &share in lab.scale.pick(&few[1..2], few, many, many) {
        let workload = workload(kind, share, fixed.entries());
        let mut outcomes = Vec::new();
        let filters = Design {
            filters: Filters::Zero,
            ..fixed
        };
        let (merging, memory) = (fixed.best(&workload, false)?, fixed.best(&workload, true)?);
        for design in [fixed, filters, merging, memory] {
            outcomes.push(measure(lab, design, kind, share)?);
        }
        rows.push((share, outcomes));
        lab.note(format!("{kind:?}, share {share}"));
    }
    Ok(rows)
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table =
        Report::titled("Operations by design; throughput: each page at the price of a read");
    let fixed = Design::fixed(lab);
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
                table.add(row! {
                    "operations": what,
                    "share %": share * 100.0,
                    "variant": *name_of,
                    "design": outcome.design.name()?,
                    "pages of a read": outcome.read,
                    "pages of an update": outcome.update,
                    "pages/op": outcome.pages,
                    "model pages/op": outcome.model,
                    "ops/s": outcome.throughput(),
                    "to fixed": outcome.throughput() / outcomes[0].throughput(),
                });
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
            Lookups::Scan(_) => claims.extend(of_ranges(&fixed, &rows)),
            _ => claims.extend(of_lookups(&rows)),
        }
    }
    Ok(Findings {
        setting: format!(
            "{:.0} entries of 706 B, five to a page; the fixed design as the paper's: leveling, T = 2, {} levels, a buffer \
             of {:.0} entries, uniform filters of {} bits; the others have as much memory for buffer and filters, which the \
             model's search divides, trying size ratios to {}. Each design's full tree is written (pages read and written \
             by flushes and merges, over the entries), with as many entries as its levels have above a buffer of 64, and \
             asked; a mix costs its shares of both: no mix was run, so that its throughput is the model's. A page is 98 us (sata-ssd).",
            fixed.entries(),
            fixed.levels()?,
            fixed.buffer / ENTRY,
            fixed.bits_per_key,
            trade_off::MOST_LEVELED,
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
        Claim::figure(
            "gain of throughput with empty lookups, at least, %",
            50.0,
            gains(rows).into_iter().fold(f64::INFINITY, f64::min),
        )
        .by_model(),
        Claim::statement(
            "each further decision is no worse than the one before (within 2 %)",
            "filters, merging, memory: always",
            format!("in {filters}, {merging}, {memory} of {} mixes", rows.len()),
            filters + merging + memory == 3 * rows.len(),
        )
        .by_model(),
    ]
}

fn of_ranges(fixed: &Design, rows: &[Row]) -> Vec<Claim> {
    let gain = Claim::figure(
        "gain of throughput with short ranges, up to, %",
        50.0,
        gains(rows).into_iter().fold(f64::MIN, f64::max),
    )
    .by_model();
    // Where there are only ranges and updates, filters should have nothing.
    let designs = rows.iter().map(|(_, all)| all[3].design);
    let most = designs.max_by(|a, b| a.bits_per_key.total_cmp(&b.bits_per_key));
    let most = most.unwrap_or(*fixed);
    let share = most.filter_bytes() / fixed.memory() * 100.0;
    let filters = Claim::statement(
        "share of the memory that filters get where there are only ranges and updates, at most",
        "none: it goes to the buffer",
        format!("{share:.1} %"),
        share < 1.0,
    )
    .by_model();
    vec![gain, filters]
}
