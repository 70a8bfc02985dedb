//! Table 4: the default designs of stores, and what the same memory can do.
use super::trees;
use crate::reproduce::prelude::*;
use shamba_model::cost::{Allocation, Costs, Design, Environment, Workload, costs};
use shamba_model::curve::Curve;
use shamba_model::presets;
use shamba_model::search::{Bounds, Found, Knobs, Request, search};
use shamba_model::tree::MergePolicy;

const MIB: f64 = 1024.0 * 1024.0;

/// What Cassandra's unbounded buffer is taken for.
const OTHER_BUFFER: f64 = 64.0 * MIB;

fn environment() -> Environment {
    trees::environment(1e9, 128.0)
}

fn workload() -> Workload {
    trees::workload(0.5, 0.0)
}

fn cost(design: &Design) -> Result<Costs> {
    Ok(costs(design, &environment(), &workload(), &Curve::ideal())?)
}

/// The best design of the same memory that is no dearer in lookups and updates.
fn better(design: &Design, own: &Costs) -> Result<Found> {
    let request = Request {
        environment: environment(),
        workload: workload(),
        memory_bytes: design.buffer_bytes + design.filter_bytes,
        // Monkey has no other policies.
        knobs: Knobs {
            policies: vec![MergePolicy::Leveling, MergePolicy::Tiering],
            ..Knobs::default()
        },
        bounds: Bounds {
            point_lookup: Some(own.point_lookup),
            update: Some(own.update),
        },
    };
    Ok(search(&request, &Curve::ideal())?)
}

pub(super) fn run(_: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Defaults, and the best design of the same memory that is no dearer in either; 1e9 entries of 128 B",
    );
    let mut lines = ["default", "+ Monkey's filters", "best design"].map(Series::new);
    let mut gains = Vec::new();
    for (at, preset) in (1u32..).zip(presets::ALL) {
        let design = preset.design(&environment(), OTHER_BUFFER)?;
        let own = cost(&design)?;
        let monkey = cost(&Design {
            allocation: Allocation::Monkey,
            ..design
        })?;
        let best = better(&design, &own)?;
        for (line, costs) in lines.iter_mut().zip([&own, &monkey, &best.costs]) {
            line.points.push((at.into(), costs.average));
        }
        gains.push(own.average / best.costs.average);
        table.add(row! {
            "store": preset.name,
            "policy": trees::policy(preset.policy),
            "T": preset.size_ratio,
            "bits per entry": preset.bits_per_key,
            "buffer MiB": preset.buffer_bytes.map(|bytes| bytes / MIB),
            "reads per empty lookup": own.empty_lookup,
            "with Monkey's filters": monkey.empty_lookup,
            "pages per update": own.update,
            "better: policy": trees::policy(best.design.policy),
            "better: T": best.design.size_ratio,
            "better: reads per empty lookup": best.costs.empty_lookup,
            "better: pages per update": best.costs.update,
        });
    }
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let what = "a design of Monkey's of the same memory has less cost at no dearer lookups and updates (by more than a tenth, \
                our limit)";
    let seen = format!("costs {least:.2} times less at least");
    let claim = Claim::statement(what, "for every store", seen, least > 1.1).by_model();
    let title = "LevelDB, RocksDB, Cassandra, HBase, Accumulo";
    let (x, y) = (
        "store, in this order",
        "reads per operation, half of them updates",
    );
    let panel = Panel::new(title, x, y, lines).logarithmic();
    Ok(Findings::of("", [table], [panel], [claim]))
}
