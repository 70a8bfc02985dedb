//! What the papers have and no experiment here measures, each with the reason.
use crate::report::Report;
use crate::row;

/// The paper, the item, and why there is none.
const LEFT_OUT: [(&str, &str, &str); 13] = [
    (
        "SHaMBa",
        "Figures 1 and 4, Tables 4 to 6",
        "drawings, notation and settings: nothing is measured in them",
    ),
    (
        "SHaMBa",
        "Figure 16 on a fast PCIe SSD",
        "no such device is here; a model of one has no clock, which is what the figure is about",
    ),
    ("hash sharing", "Figure 7", "a drawing"),
    (
        "hash sharing",
        "Figure 11 with and without direct I/O, on real devices",
        "devices are models here: there is no page cache below them",
    ),
    (
        "hash sharing",
        "Section 4.3, hashing of ElasticBF falls by its number of units",
        "all filters of this engine share a hash already: there is no ElasticBF with a hash for each unit",
    ),
    (
        "ElasticBF",
        "system configurations on a hard disk",
        "no such device is here; the other six settings are in elasticbf-sensitivity",
    ),
    (
        "ElasticBF",
        "latencies and throughput by a clock, 100 GB, 10M GET",
        "a store of that size does not fit on the machine, and a smaller one lies in its memory: a model of a device \
         takes the place of the clock, and the rows say so",
    ),
    (
        "Monkey",
        "Figures 1 to 6, Tables 1 and 3",
        "drawings, terms and formulas; Figure 4, and Table 1's formulas, are the state of the art's lines in \
         monkey-figure-8 and monkey-table-2",
    ),
    (
        "Monkey",
        "bounds for service-level agreements (section 4.5)",
        "the paper has no figure of them; monkey-table-4 searches for designs under bounds of both costs",
    ),
    (
        "Monkey",
        "three trials, and one standard deviation of latency",
        "searches and reads are counted, and repeat; `--seeds 3` has data and lookups of three seeds",
    ),
    (
        "Monkey",
        "Figure 12 and 13 in latencies of a real SSD and HDD",
        "searches times what a modelled device takes; no such devices are here",
    ),
    (
        "Monkey",
        "Figures 13 (E, F) by a clock",
        "throughput is the model's, beside pages that were counted: the rows say so",
    ),
    (
        "Monkey",
        "the interactive design tool",
        "`shamba tune` is ours; the paper's is a web page, and claims no figure",
    ),
];

/// The items of these papers.
pub(super) fn table(papers: &[&str]) -> Report {
    let own = LEFT_OUT.iter().filter(|(paper, ..)| papers.contains(paper));
    Report::of("Left out, and why", own, |(paper, item, reason)| {
        row! { "of": *paper, "not measured": *item, "why": *reason }
    })
}
