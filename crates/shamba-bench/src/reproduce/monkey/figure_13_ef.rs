//! Figure 13 (E, F): throughput of lookups and updates, and of short ranges and updates, when more
//! and more of the design follows the workload.
use super::{trade_off, trees};
use crate::experiments::full_tree::{Filters, FullTree, Lookups, WIDE};
use crate::reproduce::Verdict;
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;
use shamba_model::cost::{self, Allocation, Design, Environment, Workload};
use shamba_model::curve;
use shamba_model::search::{Bounds, Knobs, Request, search};
use shamba_model::tree::MergePolicy;

/// Bytes of an entry, such that five are a page as the model has it.
const ENTRY: f64 = 4096.0 / trade_off::ENTRIES_PER_PAGE;

/// Filter bits per key above which filters no longer err: in the smallest scale there is so much
/// memory.
const MOST_BITS: f64 = 32.0;

/// Entries that a range lookup returns: 0.001 % of the paper's million.
const RANGE: u64 = 10;

/// The designs of a panel, in their order.
const NAMES: [&str; 4] = ["fixed design", "+ filters", "+ merging", "+ memory"];

/// The paper's default, and all entries.
fn default(lab: &Lab<'_>) -> (Design, Environment) {
    let buffer = lab.scale.pick(64.0, 64.0, 128.0, 512.0);
    let entries = buffer * lab.scale.pick(32.0, 512.0, 1024.0, 1024.0);
    let filters = trees::BITS / 8.0 * entries;
    let design = trees::leveled(2, buffer * ENTRY, filters, Allocation::Uniform);
    (design, trees::environment(entries, ENTRY))
}

/// The best for the workload with as much memory as `fixed`: with this buffer, or with any.
fn best(
    fixed: &Design,
    environment: Environment,
    workload: Workload,
    buffer_bytes: Option<f64>,
) -> Result<Design> {
    let curve = curve::Family::Bloom.curve()?;
    let (mut best, mut least) = (*fixed, f64::INFINITY);
    for ratio in 2..=trade_off::MOST_LEVELED {
        let request = Request {
            environment,
            workload,
            memory_bytes: fixed.buffer_bytes + fixed.filter_bytes,
            knobs: Knobs {
                policies: vec![MergePolicy::Leveling, MergePolicy::Tiering],
                size_ratio: Some(ratio),
                buffer_bytes,
                allocation: Allocation::Monkey,
            },
            bounds: Bounds::default(),
        };
        let found = search(&request, &curve)?;
        if found.costs.average < least {
            (best, least) = (found.design, found.costs.average);
        }
    }
    Ok(best)
}

/// The share of its memory that a design has for filters, and whether by the model it costs no more
/// with all of it for the buffer: of designs that cost the same the search gives any.
fn filters_of(
    design: &Design,
    environment: Environment,
    workload: Workload,
) -> Result<(f64, bool)> {
    let memory_bytes = design.filter_bytes + design.buffer_bytes;
    let bare = Design {
        buffer_bytes: memory_bytes,
        filter_bytes: 0.0,
        ..*design
    };
    let curve = curve::Family::Bloom.curve()?;
    let own = cost::costs(design, &environment, &workload, &curve)?;
    let bare = cost::costs(&bare, &environment, &workload, &curve)?;
    Ok((share_of_filters(design), bare.average <= own.average))
}

fn share_of_filters(design: &Design) -> f64 {
    design.filter_bytes / (design.filter_bytes + design.buffer_bytes)
}

/// The workload of a share of lookups or ranges.
fn workload(kind: Lookups, share: f64, entries: f64) -> Workload {
    match kind {
        Lookups::Scan(range) => Workload {
            range_lookups: share,
            empty_lookups: 0.0,
            selectivity: range as f64 / entries,
            ..trees::workload(share, 0.0)
        },
        _ => trees::workload(share, 0.0),
    }
}

/// The design's full tree, written and asked: operations a second, each page at the price of a
/// read, and a row of the table.
fn measure(
    lab: &mut Lab<'_>,
    design: &Design,
    environment: &Environment,
    (kind, share): (Lookups, f64),
) -> Result<(f64, Vec<(String, Cell)>)> {
    let bits = design.filter_bytes * 8.0 / environment.entries;
    // Costs follow from policy, ratio, levels and bits per key: a buffer of another size, with
    // which tables fill their pages, makes a tree of another number of entries and the same costs.
    let tree = FullTree {
        policy: design.policy,
        size_ratio: design.size_ratio,
        levels: design.tree(environment)?.levels(),
        buffer_entries: trade_off::BUFFER,
        value: WIDE,
        bits_per_key: bits.min(MOST_BITS),
        filters: match design.allocation {
            Allocation::Uniform => Filters::Uniform,
            _ => Filters::Zero,
        },
        ..trees::default(lab)
    };
    let point = trees::equal(lab, tree, &[kind])?.swap_remove(0);
    let (read, update) = (point.searches, trade_off::update(&point));
    let of_mix = |read: f64, update: f64| share * read + (1.0 - share) * update;
    let pages = of_mix(read, update);
    let throughput = 1e9 / (pages * Device::SataSsd.read_ns() as f64);
    let row = row! {
        "policy": trees::policy(design.policy),
        "T": design.size_ratio,
        "levels": tree.levels,
        "buffer KiB": design.buffer_bytes / 1024.0,
        "bits per key": tree.bits_per_key,
        "pages of a read": read,
        "pages of an update": update,
        "pages/op": pages,
        "model pages/op": of_mix(point.model, cost::update(&tree.tree()?, environment)?),
        "operations per second": throughput,
    };
    Ok((throughput, row))
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (fixed, environment) = default(lab);
    let mut table =
        Report::titled("Operations by design; throughput: each page at the price of a read");
    let few: &[f64] = &[0.1, 0.5, 0.9];
    let many: &[f64] = &[0.1, 0.3, 0.5, 0.7, 0.9];
    let mut claims = Vec::new();
    for (kind, what) in [
        (Lookups::Mixed(0.0), "(E) empty lookups and updates"),
        (Lookups::Scan(RANGE), "(F) short ranges and updates"),
    ] {
        let (mut throughputs, mut filters) = (Vec::new(), Vec::new());
        // Of the last two designs at each share.
        let mut runs: [Vec<f64>; 2] = Default::default();
        for &share in lab.scale.pick(&few[1..2], few, many, many) {
            let workload = workload(kind, share, environment.entries);
            let memory = best(&fixed, environment, workload, None)?;
            let mut filters_alone = fixed;
            filters_alone.allocation = Allocation::Monkey;
            let designs = [
                fixed,
                filters_alone,
                best(&fixed, environment, workload, Some(fixed.buffer_bytes))?,
                memory,
            ];
            filters.push(filters_of(&memory, environment, workload)?);
            for (runs, design) in runs.iter_mut().zip(&designs[2..]) {
                runs.push(design.tree(&environment)?.all_runs());
            }
            let mut all = Vec::new();
            for (name, design) in NAMES.into_iter().zip(designs) {
                let (throughput, cells) = measure(lab, &design, &environment, (kind, share))?;
                all.push(throughput);
                let place = row! {
                    "operations": what,
                    "lookups or ranges, %": share * 100.0,
                    "variant": name,
                };
                table.add([place, cells, row! { "to fixed": throughput / all[0] }].concat());
            }
            throughputs.push(all);
            lab.note(format!("{kind:?}, share {share}"));
        }
        claims.extend(match kind {
            Lookups::Scan(_) => of_ranges(&throughputs, &filters, &runs[1]),
            _ => of_lookups(&throughputs, &filters, &runs, share_of_filters(&fixed)),
        });
    }
    let setting = format!(
        "{:.0} entries of 706 B, five to a page; the fixed design as the paper's: leveling, T = 2, {} levels, a buffer \
         of {:.0} entries, uniform filters of {} bits; the others have as much memory for buffer and filters, which the \
         model's search divides, trying size ratios to {}. Each design's full tree is written (pages read and written \
         by flushes and merges, over the entries), with as many entries as its levels have above a buffer of 64, and \
         asked; a mix costs its shares of both: no mix was run, so that its throughput is the model's. A page is 98 us (sata-ssd).",
        environment.entries,
        fixed.tree(&environment)?.levels(),
        fixed.buffer_bytes / ENTRY,
        trees::BITS,
        trade_off::MOST_LEVELED,
    );
    let claims = claims.into_iter().map(Claim::by_model);
    let y = "operations per second";
    let panels = plot::of_report(&table, "operations", "variant", "lookups or ranges, %", y);
    Ok(Findings::of(setting, [table], panels, claims))
}

/// The gains of the last design over the first, in percent.
fn gains(throughputs: &[Vec<f64>]) -> Vec<f64> {
    let gain = |all: &Vec<f64>| (all[3] / all[0] - 1.0) * 100.0;
    throughputs.iter().map(gain).collect()
}

/// That merging is the more read-optimized the more of the operations read: fewer runs.
fn read_optimized(of: &str, runs: &[f64]) -> Claim {
    let what = format!(
        "merging is the more read-optimized the more of the operations are {of} (runs of the tree, by the share)"
    );
    let fewer = runs.is_sorted_by(|few, more| few >= more) && runs.first() > runs.last();
    let merging = Claim::statement(what, "increasingly", format!("{runs:.0?}"), fewer);
    merging.unless(runs.len() < 2, "one share is measured at this scale")
}

fn of_lookups(
    throughputs: &[Vec<f64>],
    filters: &[(f64, bool)],
    [merged, all]: &[Vec<f64>; 2],
    fixed: f64,
) -> Vec<Claim> {
    let steps = || 1..NAMES.len();
    let count = |step: usize, is_so: fn(f64, f64) -> bool| {
        let so = |of: &&Vec<f64>| is_so(of[step], of[step - 1]);
        throughputs.iter().filter(so).count()
    };
    let better = steps().map(|step| count(step, |own, before| own > before));
    let better: Vec<usize> = better.collect();
    let worse: usize = steps()
        .map(|step| count(step, |own, before| own < before))
        .sum();
    let mixes = throughputs.len();
    let what = "gain of throughput with empty lookups, at least, %";
    let gain = Claim::from_on(what, 50.0, &gains(throughputs));
    let what =
        "each further decision has more throughput than the one before (filters, merging, memory)";
    let seen = format!(
        "in {} of {mixes} mixes",
        joined(better.iter().map(usize::to_string))
    );
    let holds = better.iter().all(|better| *better == mixes);
    let each = Claim::statement(what, "dominates, dominates, improves", seen, holds);
    let same =
        format!("{WHERE}in no mix it is less; where it is not more, the design is the one before");
    let each = each.because(worse == 0, same);
    let merging = read_optimized("lookups, with the fixed buffer", merged);
    // Of what costs the same by the model any design could have been found.
    let what = "with memory divided too merging is more write-optimized (runs of the tree, before and after), and filters get \
                more of the memory (% before and after)";
    let shares = filters.iter().map(|(share, _)| share * 100.0);
    let shares: Vec<f64> = shares.collect();
    let fixed = fixed * 100.0;
    let seen = format!("runs {merged:.0?} and {all:.0?}; filters {fixed:.0} % and {shares:.0?} %");
    let more = merged.iter().zip(all).all(|(before, after)| after > before);
    let moved = more && shares.iter().all(|share| *share > fixed);
    let memory = Claim::statement(what, "yes", seen, moved);
    vec![gain, each, merging, memory]
}

fn of_ranges(throughputs: &[Vec<f64>], filters: &[(f64, bool)], runs: &[f64]) -> Vec<Claim> {
    let merging = read_optimized("ranges", runs);
    let what = "gain of throughput with short ranges, up to, %";
    let gain = Claim::up_to(what, 50.0, &gains(throughputs));
    let what = "share of the memory that filters get where there are only ranges and updates";
    let shares: Vec<f64> = filters.iter().map(|(share, _)| share * 100.0).collect();
    let alike = filters.iter().filter(|(_, alike)| *alike).count();
    let seen = format!(
        "{shares:.0?} %; by the model {alike} of {} designs would cost as much with none, levels being whole",
        filters.len()
    );
    let none = |(share, alike): &(f64, bool)| (*share < 0.01, *alike);
    let all = filters.iter().map(none);
    let memory = Claim::statement(
        what,
        "none: it goes to the buffer",
        seen,
        all.clone().all(|(none, _)| none),
    );
    let chance = "where filters get memory a design with none costs the same by the model: which of the two the search \
                  comes to first says nothing";
    let alike = filters.len() == all.filter(|(none, alike)| *none || *alike).count();
    let differs = memory.verdict == Verdict::DoesNotHold;
    vec![merging, gain, memory.unless(differs && alike, chance)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{DoesNotHold, Holds, NotComparable};

    /// The verdict of the claim that begins so.
    fn verdict(claims: Vec<Claim>, what: &str) -> Verdict {
        let own = claims
            .into_iter()
            .find(|claim| claim.what.starts_with(what));
        own.unwrap().verdict
    }

    #[test]
    fn filters_that_cost_nothing_refute_nothing() {
        let of = |filters: [(f64, bool); 2]| {
            let claims = of_ranges(&[vec![1.0; 4], vec![1.0; 4]], &filters, &[9.0, 3.0]);
            verdict(claims, "share of the memory")
        };
        assert_eq!(of([(0.0, true), (0.009, false)]), Holds);
        assert_eq!(of([(0.4, true), (0.0, false)]), NotComparable);
        assert_eq!(of([(0.4, true), (0.4, false)]), DoesNotHold);
    }

    #[test]
    fn each_decision_is_to_be_better_in_every_mix_and_memory_to_move() {
        let of = |last: [f64; 2], runs: [f64; 2], share: f64, what: &str| {
            let throughputs = last.map(|last| vec![1.0, 2.0, 3.0, last]);
            let runs = [vec![9.0, 3.0], runs.to_vec()];
            let filters = [(0.6, false), (share, false)];
            verdict(of_lookups(&throughputs, &filters, &runs, 0.5), what)
        };
        let (each, memory) = ("each further decision", "with memory divided too");
        assert_eq!(of([4.0, 3.1], [10.0, 4.0], 0.6, each), Holds);
        assert_eq!(of([4.0, 3.0], [10.0, 4.0], 0.6, each), DoesNotHold);
        assert_eq!(of([4.0, 4.0], [10.0, 4.0], 0.6, memory), Holds);
        assert_eq!(of([4.0, 4.0], [10.0, 3.0], 0.6, memory), DoesNotHold);
        assert_eq!(of([4.0, 4.0], [10.0, 4.0], 0.5, memory), DoesNotHold);
    }

    #[test]
    fn merging_that_reads_more_where_more_is_read_is_none() {
        assert_eq!(read_optimized("", &[9.0, 9.0, 3.0]).verdict, Holds);
        assert_eq!(read_optimized("", &[9.0, 3.0, 4.0]).verdict, DoesNotHold);
        assert_eq!(read_optimized("", &[9.0, 9.0]).verdict, DoesNotHold);
        assert_eq!(read_optimized("", &[9.0]).verdict, NotComparable);
    }
}
