//! Why an engine reads more pages than the baseline: which kind of page it is, and for pages of
//! filters which factor.
use super::pressure::{Point, kib};
use crate::engine::Resident;
use crate::reproduce::trial::Found;

/// What the filter pages read by a lookup are the product of.
const FACTORS: [&str; 2] = [
    "filter pages that a lookup asks for",
    "share of these that memory does not have",
];

/// The numbers of [`FACTORS`]. Probes of modules in memory are counted in one lookup of eight;
/// these are taken to have as many pages as those that are read.
fn factors(found: &Found) -> [f64; FACTORS.len()] {
    let modules = found
        .counts
        .keys()
        .filter(|name| name.starts_with("module_") && name.ends_with("_probed"));
    let in_memory = modules.map(|name| found.per_lookup(name)).sum::<f64>();
    let (reads, pages) = (
        found.per_lookup("filter_reads"),
        found.per_lookup("filter_pages"),
    );
    let asked = in_memory + reads;
    [asked * pages / reads, reads / asked]
}

/// Which of the factors is the cause that more filter pages are read than others do: the one that
/// rose most of their geometric means; `None` where none of them rose. `pairs` are of one point
/// each, the one that reads more last.
fn factor_to_blame<'a>(pairs: impl Iterator<Item = (&'a Found, &'a Found)>) -> Option<String> {
    let (mut sums, mut points, mut all) = ([[0.0; FACTORS.len()]; 2], 0, 0);
    for (less, more) in pairs {
        let of = [factors(less), factors(more)];
        all += 1;
        // Where all is in memory there is nothing to divide.
        let told = |factor: &f64| factor.is_finite() && *factor > 0.0;
        if of.iter().flatten().all(told) {
            for (sums, of) in sums.iter_mut().zip(of) {
                for (sum, factor) in sums.iter_mut().zip(of) {
                    *sum += factor.ln();
                }
            }
            points += 1;
        }
    }
    let [less, more] = sums.map(|sums| sums.map(|sum: f64| (sum / f64::from(points)).exp()));
    let rise = |at: usize| more[at] / less[at];
    let blamed = (0..FACTORS.len()).max_by(|&a, &b| rise(a).total_cmp(&rise(b)))?;
    // Of no point it is no number, and no more than 1.
    if points == 0 || rise(blamed) <= 1.0 {
        return None;
    }
    let named: Vec<String> = FACTORS
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name} {:.3} against {:.3}", more[at], less[at]))
        .collect();
    Some(format!(
        "filter pages are a product (geometric means over {points} of {all} points: {}); what tells is the {}, \
         {:.2} times as large",
        named.join(", "),
        FACTORS[blamed],
        rise(blamed)
    ))
}

/// By kind of page, what an engine reads beside the baseline on the average of points it loses,
/// what filter pages come from, and what each had in memory; and whether pages of one kind make up
/// four fifths of the difference.
pub(super) fn more(lost: &[&Point], engine: usize) -> (bool, String) {
    let mean = |of: usize, value: &dyn Fn(&Found) -> f64| {
        let each = lost.iter().filter_map(|point| point.found.get(of));
        each.map(value).sum::<f64>() / lost.len().max(1) as f64
    };
    let kinds = ["filter", "index", "data"].map(|kind| {
        let pages = |found: &Found| found.per_lookup(&format!("{kind}_pages"));
        let (own, baseline) = (mean(engine, &pages), mean(0, &pages));
        let text = format!("{kind} {own:.2} against {baseline:.2}");
        (kind, own - baseline, text)
    });
    let difference = mean(engine, &Found::pages) - mean(0, &Found::pages);
    let most = kinds.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (most, excess) = most.map_or(("", 0.0), |(kind, excess, _)| (*kind, *excess));
    let told = difference > 0.0 && excess >= 0.8 * difference;
    let pages = kinds.map(|(.., text)| text).join(", ");
    let pairs = lost
        .iter()
        .filter_map(|point| Some((point.found.first()?, point.found.get(engine)?)));
    let product = match most {
        "filter" => factor_to_blame(pairs).map(|text| format!("; {text}")),
        _ => None,
    };
    let product = product.unwrap_or_default();
    let held = |name: &str, of: fn(&Resident) -> u64| {
        let [own, baseline] = [engine, 0].map(|at| mean(at, &|found| kib(found, of)));
        format!("{own:.0} KB of {name} against {baseline:.0}")
    };
    let text = format!(
        "where it loses it reads more {most} pages: {pages} per lookup{product}; in memory at the end it \
         has {}, {}, {}",
        held("filters", |resident| resident.filter),
        held("indexes", |resident| resident.index),
        held("data", |resident| resident.data),
    );
    (told, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 lookups, each asking for so many modules of two pages, this share of them read.
    fn found(asked: u64, read: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 100;
        let counts = [
            ("module_0_probed", asked * 100 - read),
            ("filter_reads", read),
            ("filter_pages", 2 * read),
        ];
        found.counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
        found
    }

    #[test]
    fn the_factor_that_rose_is_blamed_and_none_where_none_did() {
        assert_eq!(factors(&found(4, 100)), [8.0, 0.25]);
        let blame = |less: Found, more: Found| factor_to_blame([(&less, &more)].into_iter());
        let text = blame(found(4, 40), found(2, 80)).unwrap();
        assert!(text.contains("tells is the share of these that memory does not have, 4.00"));
        let text = blame(found(2, 80), found(4, 160)).unwrap();
        assert!(text.contains("tells is the filter pages that a lookup asks for, 2.00"));
        assert_eq!(blame(found(4, 160), found(2, 20)), None);
        assert_eq!(blame(found(2, 0), found(2, 20)), None, "nothing to divide");
        assert_eq!(factor_to_blame(std::iter::empty()), None);
    }
}
