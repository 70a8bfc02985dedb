//! Figure 12 (A to F): lookup cost over the number of entries, their size, and filter memory.
use super::trees::{self, Curves};
use crate::device::Device::{self, Hdd, SataSsd};
use crate::experiments::full_tree::{Filters, FullTree, Lookups, Point};
use crate::reproduce::claim::{TOLERANCE, WHERE};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::curves::crossing;
use shamba_model::curve::{self, Curve};
use shamba_model::matching;
use shamba_model::tree::Tree;

/// The bits of uniform filters whose work is to be done with fewer.
const USUAL: f64 = 10.0;

/// The smallest tree that is set beside the model.
const LEAST: u64 = 1 << 10;

const SEARCHES: fn(&Point) -> f64 = |point| point.searches;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    // A: more and more entries with one buffer.
    let entries = |point: &Point| (point.tree.entries() as f64).log2();
    let entries = trees::by_levels(lab, "entries, power of two", entries)?;
    let sizes = by_size(lab)?;
    let (absent, existing) = by_bits(lab)?;
    let (c_d, e_f) = (("C, D", &absent), ("E, F", &existing));
    let parts = [("A", &entries), ("B", &sizes), c_d, e_f];
    let mut table = Report::titled("Searches and reads of a lookup, and latencies of its searches");
    for (name, part) in parts {
        for point in &part.points {
            let latency = |device: Device| point.searches * device.read_ns() as f64 / 1e3;
            let place = row! { "part": name, "over": part.x };
            let us = row! { "sata-ssd us": latency(SataSsd), "hdd us": latency(Hdd) };
            table.add([place, part.row("at", point), us].concat());
        }
    }
    // Of larger entries the paper says that they have the same impact, and no number.
    let saved = entries.saved(SEARCHES);
    let what = "searches that Monkey saves with more entries, %, up to (the paper: lookup latency, without a cache)";
    let mut claims = vec![Claim::up_to(what, 60.0, &saved)];
    let notes = vec![format!(
        "The paper's figure is a latency on a disk without a block cache, where a search of a run is a read. Here no clock \
         ran: searches are counted, and latency is drawn as so many reads of a device. In pages that were read, which the \
         cache of 64 KiB makes fewer in small levels, Monkey saves up to {:.1} % with more entries.",
        most_of(&entries.saved(|point| point.reads))
    )];
    let what = "searches that Monkey saves with more entries, %, over all numbers of them (the abstract: lookup latency)";
    let reason = "the paper's own curves meet at the fewest entries, and it has up to 60 % at the most, which is judged";
    let claim = Claim::range(what, (50.0, 80.0), &saved);
    claims.push(claim.without_verdict(reason));
    claims.extend(growth(&entries, "entries"));
    claims.extend(growth(&sizes, "bytes of an entry"));
    let tree = trees::default(lab).tree()?;
    let (of_absent, bits) = equal_bits(&tree, &absent, "absent", (0.0, 6.0))?;
    let (of_existing, _) = equal_bits(&tree, &existing, "existing", (1.0, 4.0))?;
    claims.extend([of_absent, of_existing]);
    claims.extend(savings(&absent, &existing, bits));
    // Of small trees' filters each errs by chance more or less than it should.
    let large = |point: &&Point| point.tree.entries() >= LEAST;
    let others = parts[1..].iter().flat_map(|(_, part)| &part.points);
    let beside = entries.points.iter().filter(large).chain(others);
    let what = "measured searches are the model's (trees of 1,024 entries and more)";
    claims.push(trees::near_model(what, beside));
    let on = |device: Device, title: &str, part: &Curves| {
        let each = device.read_ns() as f64 / 1e3;
        part.panel(format!("{title}, {device}"), "us per lookup", each)
    };
    let trees = [sizes.points.first(), sizes.points.last()].into_iter();
    let trees = trees.flatten().map(|point| point.tree);
    let trees = trees.map(|tree| format!("{} entries of {} B", tree.entries(), tree.value + 16));
    let trees: Vec<String> = trees.collect();
    let setting = format!("{} (B) has {}.", trees::setting(lab), trees.join(" to "));
    let panels = vec![
        on(SataSsd, "(A) more entries, empty lookups", &entries),
        on(SataSsd, "(B) larger entries, empty lookups", &sizes),
        on(SataSsd, "(C) filter memory, empty lookups", &absent),
        on(Hdd, "(D) filter memory, empty lookups", &absent),
        on(SataSsd, "(E) filter memory, existing keys", &existing),
        on(Hdd, "(F) filter memory, existing keys", &existing),
    ];
    Ok(Findings::of(setting, [table], panels, claims).noting(notes))
}

/// B: larger and larger entries, of which fewer and fewer fill the buffer.
fn by_size(lab: &mut Lab<'_>) -> Result<Curves> {
    let default = trees::default(lab);
    // About as many entries in each tree: two levels have three quarters of what many have.
    let most = default.levels.max(3);
    let tree = |levels| FullTree {
        levels,
        buffer_entries: (default.buffer_entries << (most - levels)) / 2,
        value: 8 << (levels - 2),
        ..default
    };
    Ok(Curves {
        x: "bytes of a value, power of two",
        at: |point| (point.tree.value as f64).log2(),
        points: trees::empty(lab, (2..=most).map(tree))?,
    })
}

/// C, D and E, F: the largest tree with more and more filter memory.
fn by_bits(lab: &mut Lab<'_>) -> Result<(Curves, Curves)> {
    let many: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
    let quick: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let bits = lab.scale.pick(&[4.0, 10.0][..], quick, many, many);
    let trees = trees::with_bits(trees::default(lab), bits);
    let points = trees::sweep(lab, trees::equal, trees, &trees::THREE, &trees::mixes())?;
    let of = |kind: Lookups, filters: &[Filters]| {
        let of = |point: &&Point| point.kind == kind && filters.contains(&point.tree.filters);
        Curves::by_bits(points.iter().filter(of).cloned().collect())
    };
    let absent = of(Lookups::Mixed(0.0), &trees::TWO);
    Ok((absent, of(Lookups::Mixed(1.0), &trees::THREE)))
}

/// What is claimed as data grow.
fn growth(part: &Curves, of: &str) -> [Claim; 2] {
    let [even, best, _] = part.each(SEARCHES);
    let last = even.len() - 1;
    // From few levels on Monkey's cost has yet to come near its limit.
    let middle = last.saturating_sub(3);
    let saved = trees::saved(&even, &best);
    let grown = |searches: &[f64]| searches[last] / searches[middle];
    let (even, best) = (grown(&even), grown(&best));
    let what = format!("Monkey's margin grows with {of}, % three levels before the end and at it");
    let seen = format!("{:.0}, {:.0}", saved[middle], saved[last]);
    let margin = Claim::statement(what, "yes", seen, saved[last] > saved[middle]);
    let what = format!(
        "growth of searches over the last doublings, three levels, of {of} (Monkey's by less than 1.1 times, uniform's by \
         more than 1.2: our limits)"
    );
    let seen = format!("Monkey {best:.2} times, uniform {even:.2} times");
    let paper = "Monkey's stay, uniform's grow";
    let holds = best < 1.1 && even > 1.2;
    [margin, Claim::statement(what, paper, seen, holds)]
}

/// The bits with which Monkey's filters, the last of the part's, do what uniform ones do with ten;
/// the model knows how many the tree takes, which is told too.
fn equal_bits(
    tree: &Tree,
    part: &Curves,
    what: &str,
    (positive, paper): (f64, f64),
) -> Result<(Claim, f64)> {
    let (bits, vain) = (part.each(part.at), part.each(|point| point.in_vain));
    let at = if positive == 0.0 { 1 } else { 2 };
    let usual = bits[0].iter().position(|bits| *bits > USUAL - 0.5);
    let usual = usual.unwrap_or(bits[0].len() - 1);
    let pairs = bits[at].iter().zip(&vain[at]);
    let measured: Vec<_> = pairs.map(|(bits, vain)| (*bits, *vain)).collect();
    let found = crossing(&measured, vain[0][usual]).unwrap_or(f64::NAN);
    let curve = curve::Family::Bloom.curve()?;
    let model = matching::bits(tree, positive, bits[0][usual], &curve)?;
    let levels = matching::levels(tree, positive, paper, USUAL, &Curve::ideal())?;
    let what = format!(
        "bits per key with which Monkey searches for {what} keys what uniform filters of {USUAL} do (fewer are better)"
    );
    let claim = Claim::figure(what, paper, found);
    let where_it_lies = format!(
        "{WHERE}the model has it at {model:.1} bits too, in these {} levels with filters as they are made here, and with \
         ideal ones at {paper} from {} levels on",
        tree.levels(),
        levels.map_or("no".to_owned(), |levels| levels.to_string()),
    );
    let claim = claim.because((found - model).abs() < 0.5, where_it_lies);
    Ok((claim, model))
}

/// What is claimed of filter memory; by the model Monkey needs so many bits for what uniform
/// filters do with ten.
fn savings(absent: &Curves, existing: &Curves, by_model: f64) -> Vec<Claim> {
    let [even, best, _] = absent.each(SEARCHES);
    let [bits, ..] = absent.each(absent.at);
    let [uniform, zero, general] = existing.each(SEARCHES);
    // With the paper's default, or the next more.
    let default = bits.iter().position(|bits| *bits > trees::BITS - 0.5);
    let own = default.map_or(f64::NAN, |at| best[at]);
    let last = even.len() - 1;
    let usual = even[last];
    let mut claims = Vec::new();
    let what = format!(
        "searches of empty lookups: Monkey with {} bits per key beside uniform with {USUAL}",
        trees::BITS
    );
    let seen = format!("{own:.3} beside {usual:.3}");
    let paper = "approximately the same or better";
    let claim = Claim::statement(what, paper, seen, own <= usual * 1.1);
    let where_it_lies = format!(
        "{WHERE}the model has it from {by_model:.1} bits on in these levels with filters as they are made here"
    );
    claims.push(claim.because(by_model > trees::BITS + 0.5, where_it_lies));
    let what = "searches of empty lookups: Monkey's more than a tenth fewer (\"significantly\", our limit) with about as many bits per key (the table has \
                them)";
    claims.push(significantly_fewer(what, &bits, (&even, &best), 0.0));
    let [bits, ..] = existing.each(existing.at);
    let what = "searches for existing keys: Monkey's for them more than a tenth fewer (\"significantly\", our limit) with about as many bits per key, \
                wherever a tenth could be saved (with many bits the paper's curves nearly converge too)";
    claims.push(significantly_fewer(what, &bits, (&uniform, &general), 1.0));
    if let Some(one) = bits.iter().position(|bits| (0.5..1.5).contains(bits)) {
        let what = "searches for existing keys with 1 bit per key: Monkey for absent keys and Monkey for existing ones";
        let seen = format!("{:.3} and {:.3}", zero[one], general[one]);
        let same = (zero[one] / general[one] - 1.0).abs() <= TOLERANCE;
        let paper = "identical (here within a tenth)";
        claims.push(Claim::statement(what, paper, seen, same));
    }
    let what = "share of existing lookups' searches that Monkey for them saves over Monkey for absent keys, %, 2 bits per key and more";
    let saved = trees::saved(&zero, &general);
    let saved = bits.iter().zip(saved).filter(|(bits, _)| **bits > 1.5);
    let saved: Vec<f64> = saved.map(|(_, saved)| saved).collect();
    let untold = "the paper has about 10 % \"as main memory increases\", and does not say with how many bits: with some \
                  it is that";
    let claim = Claim::range(what, (10.0, 10.0), &saved);
    claims.push(claim.without_verdict(untold));
    claims
}

/// That Monkey's filters save more than a tenth of the searches with each number of bits: but none,
/// where both are the same tree, and so many that uniform ones leave less than a tenth over the
/// least that any leave, which is where the curves nearly converge.
fn significantly_fewer(
    what: &str,
    bits: &[f64],
    (even, best): (&[f64], &[f64]),
    least: f64,
) -> Claim {
    let beside = bits.iter().zip(even.iter().zip(best));
    let could =
        beside.filter(|(bits, (even, _))| **bits > 0.0 && (1.0 - TOLERANCE) * **even > least);
    let lost = could
        .clone()
        .filter(|(_, (even, best))| **best > (1.0 - TOLERANCE) * **even);
    let lost = lost.map(|(bits, (even, best))| format!("{bits:.1} bits ({best:.3}, {even:.3})"));
    let lost: Vec<String> = lost.collect();
    Claim::everywhere(what, could.count(), &lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Verdict::{DoesNotHold, Holds};

    #[test]
    fn searches_are_to_be_fewer_with_any_bits_but_none() {
        let bits = [0.0, 1.0, 2.0];
        let of = |best| significantly_fewer("", &bits, (&[2.0, 1.0, 1.0], best), 0.0);
        assert_eq!(of(&[2.0, 0.89, 0.5]).verdict, Holds);
        let claim = of(&[2.0, 0.91, 0.5]);
        let seen = "at 1 of 2 points; not at: 1.0 bits (0.910, 1.000)";
        assert_eq!((claim.verdict, &*claim.measured), (DoesNotHold, seen));
        // Of what a lookup finds it searches once: with two bits a tenth could not be saved.
        let of = |best| significantly_fewer("", &bits, (&[2.0, 1.2, 1.1], best), 1.0);
        assert_eq!(of(&[2.0, 1.0, 1.1]).verdict, Holds);
        let claim = of(&[2.0, 1.1, 1.0]);
        let seen = "at 0 of 1 points; not at: 1.0 bits (1.100, 1.200)";
        assert_eq!((claim.verdict, &*claim.measured), (DoesNotHold, seen));
    }
}
