//! Figure 13 (E, F): throughput of lookups and updates, and of short ranges and updates, when more and more
//! of the design follows the workload.
use super::trees;
use crate::Result;
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::{Found, Trial};
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::{Distribution, Mix, Operation};
use shamba::MIN_MEMORY;
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

const PAGE: f64 = 4096.0;

/// Bytes of a value; a key has 32.
const VALUE: usize = 480;

/// Buffers of the fixed design that make all data.
const BUFFERS: u64 = 128;

/// Entries that a range lookup returns: 0.001 % of the paper's million.
const RANGE: usize = 10;

/// What goes to the engine's memtable besides keys and values, and keeps a level's bytes below what the
/// model has.
const BUFFER_SLACK: f64 = 1.25;

/// A design, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Design {
    policy: MergePolicy,
    size_ratio: u32,
    buffer: u64,
    bits_per_key: f64,
    monkey: bool,
}

impl Design {
    /// The fixed one: the paper's default, of uniform filters.
    fn fixed(entries: u64) -> Self {
        Self {
            policy: MergePolicy::Leveling,
            size_ratio: 2,
            buffer: entries * (VALUE as u64 + 32) / BUFFERS,
            bits_per_key: trees::BITS,
            monkey: false,
        }
    }

    fn name(&self) -> String {
        let policy = match self.policy {
            MergePolicy::Tiering => "T",
            _ => "L",
        };
        format!(
            "{policy}{}, {} KiB, {:.1} b",
            self.size_ratio,
            self.buffer >> 10,
            self.bits_per_key
        )
    }

    /// The best for the workload of those that `free` allows, with as much memory as the fixed one.
    fn best(entries: u64, workload: &Workload, free: bool) -> Result<Self> {
        let fixed = Self::fixed(entries);
        let filters = fixed.bits_per_key / 8.0 * entries as f64;
        let request = Request {
            environment: Environment {
                entries: entries as f64,
                entry_bytes: VALUE as f64 + 32.0,
                device: cost::Device {
                    page_bytes: PAGE,
                    read_seconds: Device::SataSsd.read_ns() as f64 / 1e9,
                    write_cost: 1.0,
                },
            },
            workload: *workload,
            memory_bytes: fixed.buffer as f64 + filters,
            knobs: Knobs {
                policies: vec![MergePolicy::Leveling, MergePolicy::Tiering],
                size_ratio: None,
                buffer_bytes: (!free).then_some(fixed.buffer as f64),
                allocation: Allocation::Monkey,
            },
            bounds: Bounds::default(),
        };
        let curve = curve::Family::Bloom.curve().map_err(trees::failed)?;
        let found = search(&request, &curve).map_err(trees::failed)?.design;
        Ok(Self {
            policy: found.policy,
            size_ratio: found.size_ratio,
            buffer: found.buffer_bytes as u64,
            bits_per_key: found.filter_bytes * 8.0 / entries as f64,
            monkey: true,
        })
    }

    fn base(&self, entries: u64, seed: u64) -> Base {
        let merge = match self.policy {
            MergePolicy::Tiering => "tiering",
            _ => "full",
        };
        let monkey = if self.monkey { "+monkey" } else { "" };
        let engine = format!("shamba:state-of-the-art+{merge}{monkey}");
        Base {
            value: VALUE,
            write_buffer: ((self.buffer as f64 * BUFFER_SLACK) as u64).max(8 << 10),
            // One file a run, as in the paper.
            file_size: 1 << 30,
            size_ratio: self.size_ratio,
            bits_per_key: (self.bits_per_key * 100.0).round() / 100.0,
            ..Base::standard(&engine, entries, seed)
        }
    }
}

/// What a design made of a mix.
struct Outcome {
    design: Design,
    /// Pages per operation: read by lookups and ranges, read and written by flushes and merges.
    pages: f64,
    /// Operations a second, each page at the price of a read.
    throughput: f64,
    /// The same by what the modelled device charged, and the engine's own time.
    timed: f64,
}

fn pages(found: &Found) -> f64 {
    let bytes = |name: &str| found.count(name) as f64 / PAGE;
    let pages = |name: &str| found.count(name) as f64;
    let merged = bytes("compaction_bytes_read") + bytes("compaction_bytes_written");
    let read =
        pages("data_pages") + pages("index_pages") + pages("filter_pages") + pages("scan_pages");
    (read + merged + bytes("flush_bytes")) / found.times.operations.max(1) as f64
}

fn measure(lab: &mut Lab<'_>, design: Design, mix: &Mix) -> Result<Outcome> {
    let entries = entries(lab);
    let base = design.base(entries, lab.seed);
    let metadata = lab.loaded(&base)?.facts.metadata.unwrap_or(0);
    // Filters, indexes and the memtables, and next to no data.
    let memory = metadata * 11 / 10 + 2 * base.write_buffer + (128 << 10);
    let operations = lab.scale.pick(500, 12_000, 60_000, 1_000_000);
    let trial = Trial {
        mix: mix.clone(),
        warm_up: operations / 5,
        measured: operations,
        ..Trial::lookups(base, memory.max(MIN_MEMORY), 0.0, Distribution::Uniform)
    };
    let found = lab.measure(&trial.on(Device::SataSsd))?;
    let pages = pages(&found);
    Ok(Outcome {
        design,
        pages,
        throughput: 1e9 / (pages * Device::SataSsd.read_ns() as f64),
        timed: found.times.per_second,
    })
}

fn entries(lab: &Lab<'_>) -> u64 {
    lab.scale.pick(2_000, 30_000, 120_000, 1_000_000)
}

/// Of lookups (or ranges) and updates.
fn mix(operation: Operation, share: f64) -> Mix {
    Mix {
        shares: vec![(operation, share), (Operation::Update, 1.0 - share)],
        scan: RANGE..=RANGE,
        ..Mix::lookups(0.0, Distribution::Uniform)
    }
}

fn workload(operation: Operation, share: f64, entries: u64) -> Workload {
    let is = |of: Operation| if operation == of { share } else { 0.0 };
    Workload {
        empty_lookups: is(Operation::ReadMissing),
        existing_lookups: 0.0,
        range_lookups: is(Operation::Scan),
        updates: 1.0 - share,
        selectivity: RANGE as f64 / entries as f64,
    }
}

/// The lines of a panel, in their order.
const NAMES: [&str; 4] = ["fixed design", "+ filters", "+ merging", "+ memory"];

fn part(lab: &mut Lab<'_>, operation: Operation) -> Result<Vec<(f64, Vec<Outcome>)>> {
    let entries = entries(lab);
    let few: &[f64] = &[0.1, 0.5, 0.9];
    let many: &[f64] = &[0.1, 0.3, 0.5, 0.7, 0.9];
    let mut rows = Vec::new();
    for &share in lab.scale.pick(&few[1..2], few, many, many) {
        let (mix, workload) = (mix(operation, share), workload(operation, share, entries));
        let fixed = Design::fixed(entries);
        let designs = [
            fixed,
            Design {
                monkey: true,
                ..fixed
            },
            Design::best(entries, &workload, false)?,
            Design::best(entries, &workload, true)?,
        ];
        let mut outcomes = Vec::new();
        for design in designs {
            outcomes.push(measure(lab, design, &mix)?);
        }
        rows.push((share, outcomes));
        lab.note(format!("{operation:?}, share {share}"));
    }
    Ok(rows)
}

/// Where there are only ranges and updates, filters should have nothing.
fn no_filters(entries: u64, rows: &[(f64, Vec<Outcome>)]) -> Result<Claim> {
    let fixed = Design::fixed(entries);
    let all = fixed.buffer as f64 + fixed.bits_per_key / 8.0 * entries as f64;
    let designs = rows.iter().map(|(_, all)| all[3].design);
    let most = designs.max_by(|a, b| a.bits_per_key.total_cmp(&b.bits_per_key));
    let most = most.unwrap_or(fixed);
    let data = entries as f64 * (VALUE as f64 + 32.0);
    let levels = tree::levels(data, most.buffer as f64, most.size_ratio).map_err(trees::failed)?;
    let share = most.bits_per_key / 8.0 * entries as f64 / all * 100.0;
    let claim = Claim::holds(
        "share of the memory that filters get where there are only ranges and updates, at most",
        "none: it goes to the buffer",
        format!("{share:.1} %"),
        share < 1.0,
    );
    if levels < 2 {
        return Ok(claim);
    }
    let fewer = tree::buffer_for(data, most.size_ratio, levels - 1).map_err(trees::failed)?;
    Ok(claim.because(format!(
        "what the buffer has no use for: for one level less than its {levels} it would need {:.0} KiB, and all memory is \
         {:.0} KiB",
        fewer / 1024.0,
        all / 1024.0
    )))
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Operations by design; throughput: each page at the price of a read",
        &[
            "operations",
            "share %",
            "variant",
            "design",
            "pages/op",
            "ops/s",
            "to fixed",
            "timed ops/s",
        ],
    );
    let (mut panels, mut claims) = (Vec::new(), Vec::new());
    for (letter, operation, what, least) in [
        ('E', Operation::ReadMissing, "empty lookups", true),
        ('F', Operation::Scan, "short ranges", false),
    ] {
        let rows = part(lab, operation)?;
        let mut series = NAMES.map(Series::new);
        for (share, outcomes) in &rows {
            for ((name, series), outcome) in NAMES.iter().zip(&mut series).zip(outcomes) {
                series.points.push((share * 100.0, outcome.throughput));
                table.push(vec![
                    what.into(),
                    (share * 100.0).into(),
                    (*name).into(),
                    outcome.design.name().into(),
                    outcome.pages.into(),
                    outcome.throughput.into(),
                    (outcome.throughput / outcomes[0].throughput).into(),
                    outcome.timed.into(),
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
        let gains: Vec<f64> = (rows.iter())
            .map(|(_, all)| (all[3].throughput / all[0].throughput - 1.0) * 100.0)
            .collect();
        let (smallest, largest) = (
            gains.iter().copied().fold(f64::INFINITY, f64::min),
            gains.iter().copied().fold(f64::MIN, f64::max),
        );
        claims.push(match least {
            true => Claim::at_least(
                format!("gain of throughput with {what}, at least, %"),
                50.0,
                smallest,
            ),
            false => Claim::at_least(
                format!("gain of throughput with {what}, up to, %"),
                50.0,
                largest,
            ),
        });
        if least {
            let better = |from: usize, to: usize| {
                let steps = rows
                    .iter()
                    .filter(|(_, all)| all[to].throughput >= all[from].throughput * 0.98);
                steps.count()
            };
            let (filters, merging, memory) = (better(0, 1), better(1, 2), better(2, 3));
            claims.push(Claim::holds(
                "each further decision is no worse than the one before (within 2 %)",
                "filters, merging, memory: always",
                format!("in {filters}, {merging}, {memory} of {} mixes", rows.len()),
                filters + merging + memory == 3 * rows.len(),
            ));
        } else {
            claims.push(no_filters(entries(lab), &rows)?);
        }
    }
    let fixed = Design::fixed(entries(lab));
    let levels = tree::levels(
        entries(lab) as f64 * (VALUE as f64 + 32.0),
        fixed.buffer as f64,
        fixed.size_ratio,
    );
    Ok(Findings {
        setting: format!(
            "{} entries of {} B; the fixed design as the paper's: leveling, T = 2, {} KiB buffer ({} levels), \
             uniform filters of {} bits; the others have as much memory for buffer and filters, which the model's \
             search divides; full merges, no cache for data. Pages are counted, ops/s is one over pages at 98 us; \
             timed ops/s is the modelled SATA SSD, on which pages of merges are cheaper, with the engine's own time.",
            entries(lab),
            VALUE + 32,
            fixed.buffer >> 10,
            levels.map_err(trees::failed)?,
            fixed.bits_per_key,
        ),
        claims,
        tables: vec![table],
        panels,
        ..Findings::default()
    })
}
