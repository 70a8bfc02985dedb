//! The claims by which the papers are known, and how they are drawn.
use crate::reproduce::claim::{Claim, TOLERANCE, Verdict};

/// A claim by which a paper is known.
pub(in crate::reproduce) struct Headline {
    pub(in crate::reproduce) experiment: &'static str,
    /// How the claim begins.
    pub(in crate::reproduce) claim: &'static str,
    /// What it is called in the picture.
    pub(super) label: &'static str,
}

/// A headline from its parts, so that the list reads as a table.
const fn headline(experiment: &'static str, claim: &'static str, label: &'static str) -> Headline {
    Headline {
        experiment,
        claim,
        label,
    }
}

/// All of them, by paper.
pub(in crate::reproduce) const HEADLINES: [Headline; 12] = [
    headline(
        "shamba-figure-6",
        "shamba-eq-f+paper: part of the memory needed",
        "memory for as many reads, part of",
    ),
    headline(
        "shamba-table-1",
        "times as much is read with 10 % of memory",
        "reads with 10 % of memory, times",
    ),
    headline(
        "shamba-figure-16",
        "shamba-eq-f+paper on disk: times as fast",
        "speed under pressure on a disk, times",
    ),
    headline(
        "hash-sharing-figure-11",
        "gain, sata-ssd",
        "gain on a SATA SSD, %",
    ),
    headline(
        "hash-sharing-figure-11",
        "gain, ram",
        "gain on a RAM disk, %",
    ),
    headline(
        "elasticbf-micro-benchmark",
        "uniform: I/Os saved",
        "I/Os saved, uniform, %",
    ),
    headline(
        "elasticbf-micro-benchmark",
        "times the read throughput",
        "read throughput, times",
    ),
    headline(
        "elasticbf-against-monkey",
        "times Monkey's throughput, 0 existing",
        "beside Monkey, absent keys, times",
    ),
    headline(
        "monkey-figure-10",
        "cost that general saves beside uniform",
        "lookup cost saved for a mix, %",
    ),
    headline(
        "monkey-figure-12",
        "searches that Monkey saves with more entries",
        "searches saved, more entries, %",
    ),
    headline(
        "monkey-figure-12",
        "searches that Monkey saves with more bytes",
        "searches saved, larger entries, %",
    ),
    headline(
        "monkey-figure-13",
        "share of lookup cost that Monkey saves",
        "lookup cost saved at one update cost, %",
    ),
];

/// A claim as a row of a dot plot: the paper's figure, or the upper end of its range, is 1.
pub(super) struct Row {
    /// The paper's figure or range, and a tenth more and less.
    pub(super) span: (f64, f64),
    /// The ends of what came out.
    pub(super) dots: Vec<f64>,
    pub(super) by_model: bool,
}

/// The row of a claim that has ranges above 0.
pub(super) fn row_of(claim: &Claim) -> Option<Row> {
    let [(from, to), (least, most)] = claim.ranges?;
    let mut dots = vec![least / to, most / to];
    dots.dedup();
    let above_0 = to > 0.0 && from > 0.0 && least > 0.0;
    above_0.then(|| Row {
        span: ((1.0 - TOLERANCE) * from / to, 1.0 + TOLERANCE),
        dots,
        by_model: claim.verdict == Verdict::ModelOnly,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_is_drawn_beside_its_paper_s_range() {
        let claim = Claim::range("reads saved, %", (50.0, 80.0), &[40.0, 60.0]);
        let row = row_of(&claim).unwrap();
        assert_eq!(row.span, (0.9 * 0.625, 1.1));
        assert_eq!((row.dots, row.by_model), (vec![0.5, 0.75], false));
        assert!(row_of(&claim.by_model()).unwrap().by_model);
        assert!(row_of(&Claim::statement("", "", "", true)).is_none());
    }
}
