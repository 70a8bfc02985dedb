//! Why an engine reads more pages than the baseline: which kind of page it is, and what memory
//! held.
use super::pressure::{Measure, Point, kib};
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;

/// What memory held at the end, where an engine reads more.
const HELD: [(&str, Measure); 3] = [
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
        each.map(value).sum::<f64>() / lost.len() as f64
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
    let held = HELD.map(|(name, of)| {
        let [own, baseline] = both(&of);
        format!("{name} {own:.2} against {baseline:.2}")
    });
    let pages = kinds.map(|(.., text)| text).join(", ");
    let text = format!(
        "{WHERE}it is {most} pages that it reads more of where it reads more, at {} of these points: {pages} per \
         lookup; {}",
        lost.len(),
        held.join(", ")
    );
    (told, text)
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::point;
    use super::*;

    /// Of 100 lookups that read so many pages of filters, and of data.
    fn found(filter: u64, data: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 100;
        let counts = [("filter_pages", filter), ("data_pages", data)];
        found.counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
        found
    }

    #[test]
    fn the_kind_of_page_that_makes_the_difference_is_told() {
        let lost = |own, baseline| more(&[&point([baseline, own])], 1);
        let (told, text) = lost(found(160, 0), found(80, 0));
        let seen =
            "where it reads more, at 1 of these points: filter 1.60 against 0.80, index 0.00";
        assert!(told && text.contains(seen), "{text}");
        assert!(!lost(found(80, 0), found(80, 0)).0);
        // Of two kinds about as many more: it is neither.
        assert!(!lost(found(160, 80), found(80, 0)).0);
    }
}
