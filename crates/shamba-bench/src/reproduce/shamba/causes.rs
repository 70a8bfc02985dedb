//! Why an engine reads more pages than the baseline: which kind of page it is, what pages of
//! filters come from, and what memory held.
use super::pressure::{Measure, Point, kib};
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;

/// Filter pages that a lookup asks for. Probes of modules in memory are counted in one lookup of
/// eight; these are taken to have as many pages as those that are read.
fn asked(found: &Found) -> f64 {
    found.per_lookup("filter_pages") / missing(found)
}

/// The share of these that memory does not have.
fn missing(found: &Found) -> f64 {
    let names = found.counts.keys();
    let probed = names.filter(|name| name.starts_with("module_") && name.ends_with("_probed"));
    let in_memory = probed.map(|name| found.per_lookup(name)).sum::<f64>();
    let reads = found.per_lookup("filter_reads");
    reads / (in_memory + reads)
}

/// Numbers that are told of where an engine reads more.
const TOLD: [(&str, Measure); 5] = [
    ("filter pages asked for per lookup", asked),
    ("share of these that memory does not have", missing),
    ("KB of filters in memory at the end", |found| {
        kib(found, |resident| resident.filter)
    }),
    ("KB of indexes", |found| {
        kib(found, |resident| resident.index)
    }),
    ("KB of data", |found| kib(found, |resident| resident.data)),
];

/// By kind of page, what an engine reads beside the baseline on the average of points it loses, and
/// what memory held; and whether it reads more of one kind alone, or nearly: four fifths of what it
/// reads more.
pub(super) fn more(lost: &[&Point], engine: usize) -> (bool, String) {
    let mean = |of: usize, value: &dyn Fn(&Found) -> f64| {
        let each = lost.iter().filter_map(|point| point.found.get(of));
        // Where all is in memory there is no share of nothing.
        let each: Vec<f64> = each.map(value).filter(|value| value.is_finite()).collect();
        each.iter().fold(0.0, |sum, value| sum + value) / each.len().max(1) as f64
    };
    let both = |value: &dyn Fn(&Found) -> f64| [engine, 0].map(|of| mean(of, value));
    let kinds = ["filter", "index", "data"].map(|kind| {
        let [own, baseline] = both(&|found| found.per_lookup(&format!("{kind}_pages")));
        let text = format!("{kind} {own:.2} against {baseline:.2}");
        (kind, own - baseline, text)
    });
    let [own, baseline] = both(&Found::pages);
    let more: f64 = kinds.iter().map(|(_, excess, _)| excess.max(0.0)).sum();
    let most = kinds.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (most, excess) = most.map_or(("", 0.0), |(kind, excess, _)| (*kind, *excess));
    let told = own > baseline && excess >= 0.8 * more;
    let others = TOLD.map(|(name, of)| {
        let [own, baseline] = both(&of);
        format!("{name} {own:.2} against {baseline:.2}")
    });
    let pages = kinds.map(|(.., text)| text).join(", ");
    let text = format!(
        "{WHERE}it is {most} pages that it reads more of where it reads more, at {} of these points: {pages} per \
         lookup; {}",
        lost.len(),
        others.join(", ")
    );
    (told, text)
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::point;
    use super::*;

    /// Of 100 lookups, each asking for so many modules of two pages, this share of them read.
    fn found(asked: u64, read: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 100;
        let counts = [
            ("module_0_probed", asked * 100 - read),
            ("filter_reads", read),
            ("filter_pages", 2 * read),
            ("data_pages", 0),
        ];
        found.counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
        found
    }

    #[test]
    fn filter_pages_are_those_asked_for_times_the_share_that_is_not_in_memory() {
        let one = found(4, 100);
        assert_eq!((asked(&one), missing(&one)), (8.0, 0.25));
    }

    #[test]
    fn the_kind_of_page_that_makes_the_difference_is_told() {
        let lost = point([found(4, 40), found(2, 80)]);
        let (told, text) = more(&[&lost], 1);
        assert!(told, "{text}");
        for seen in [
            "where it reads more, at 1 of these points: filter 1.60 against 0.80",
            "memory does not have 0.40 against 0.10",
        ] {
            assert!(text.contains(seen), "{text}");
        }
        let same = point([found(4, 40), found(4, 40)]);
        assert!(!more(&[&same], 1).0);
        // Fewer filter pages, and of two kinds about as many more: it is neither.
        let mut both = found(2, 80);
        for (kind, pages) in [("index_pages", 60), ("data_pages", 80)] {
            both.counts.insert(kind.to_owned(), pages);
        }
        assert!(!more(&[&point([found(2, 100), both])], 1).0);
    }
}
