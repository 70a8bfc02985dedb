//! One filter partition: its states, what each costs, and their lower convex hull. Pure functions.
use super::start::Start;
use crate::ModelError;

/// The most filter pages of a partition: all subsets of them are tried, before the index and after.
const MOST_PAGES: usize = 8;

/// One column (module) of a partition's filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Bytes of memory while resident.
    pub bytes: u64,
    /// The share of empty visits it lets pass, 0 to 1. Columns are independent.
    pub false_positive: f64,
    /// Which page of [`Partition::page_reads`] it is read with.
    pub page: usize,
}

/// Data pages of a partition that are alike: the visits are those of each one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataPages {
    /// How many.
    pub count: u64,
    /// Empty visits to each, were there no filter.
    pub empty: f64,
    /// Positive visits to each.
    pub positive: f64,
    /// Bytes of memory of each while resident.
    pub bytes: u64,
    /// Pages read to fetch each.
    pub reads: f64,
}

/// A filter partition of one file, with the index block and the data pages of its key range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    /// Empty visits, those to its data pages included. Empty visits beyond those to
    /// [`data`](Self::data) end in data pages that are never worth memory.
    pub empty: f64,
    /// The filter. Empty: there is none, every visit goes to the index.
    pub columns: Vec<Column>,
    /// Pages read to fetch each page of columns; at most 8.
    pub page_reads: Vec<f64>,
    /// Bytes of memory that each page of columns takes beside them, while any of them is resident;
    /// where there are fewer than pages, the others take none.
    pub page_bytes: Vec<u64>,
    /// Bytes of memory of the index block while resident.
    pub index_bytes: u64,
    /// Pages read to fetch the index block.
    pub index_reads: f64,
    /// The data pages that are visited at all. All positive visits are to these.
    pub data: Vec<DataPages>,
}

/// A state on the way from nothing resident to everything, cheapest memory first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub bytes: f64,
    pub cost: f64,
    /// The combination of columns and index it belongs to, and its position in the order in which
    /// that combination admits data pages.
    config: (u32, u32),
    /// Data pages that came in since the position before.
    parts: u64,
}

/// From one hull point to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    /// More bytes, on the average of the time.
    pub bytes: f64,
    /// Fewer pages read.
    pub saved: f64,
    /// Equal parts that can be taken one by one.
    pub parts: u64,
}

/// What is resident, but for data pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Any column.
    pub columns: bool,
    /// The index block.
    pub index: bool,
}

/// A filter page that is not wholly resident, as a test: what reading costs, what passes.
#[derive(Clone, Copy, Debug)]
struct Test {
    reads: f64,
    pass: f64,
}

/// The pages read by `empty` and `positive` visits to the tests whose bits are set in `chosen`, and
/// the share of empty visits that pass them all.
fn read_tests(tests: &[Test], chosen: u32, empty: f64, positive: f64) -> (f64, f64) {
    let (mut cost, mut left) = (0.0, 1.0);
    for (at, test) in tests.iter().enumerate() {
        if chosen >> at & 1 == 1 {
            cost += (empty * left + positive) * test.reads;
            left *= test.pass;
        }
    }
    (cost, left)
}

impl Partition {
    /// Positive visits.
    pub fn positive(&self) -> f64 {
        let each = self.data.iter();
        each.map(|page| page.count as f64 * page.positive).sum()
    }

    /// Empty visits to data pages that are not listed.
    fn elsewhere(&self) -> f64 {
        let listed = self.data.iter().map(|page| page.count as f64 * page.empty);
        (self.empty - listed.sum::<f64>()).max(0.0)
    }

    pub(super) fn check(&self) -> Result<(), ModelError> {
        let amount = |name, value: f64| {
            let sane = value.is_finite() && value >= 0.0;
            ModelError::check(sane, name, value, "finite and at least 0")
        };
        amount("empty", self.empty)?;
        amount("index_reads", self.index_reads)?;
        for reads in &self.page_reads {
            amount("page_reads", *reads)?;
        }
        for page in &self.data {
            amount("data.empty", page.empty)?;
            amount("data.positive", page.positive)?;
            amount("data.reads", page.reads)?;
        }
        ModelError::check(
            self.page_reads.len() <= MOST_PAGES,
            "page_reads.len()",
            self.page_reads.len() as f64,
            "at most 8",
        )?;
        for column in &self.columns {
            ModelError::check(
                (0.0..=1.0).contains(&column.false_positive),
                "false_positive",
                column.false_positive,
                "between 0 and 1",
            )?;
            ModelError::check(
                column.page < self.page_reads.len(),
                "page",
                column.page as f64,
                "a position in page_reads",
            )?;
        }
        Ok(())
    }

    /// Kinds of columns that are alike, with their number: residents differ by numbers only.
    fn kinds(&self) -> Vec<(Column, u32)> {
        let mut kinds: Vec<(Column, u32)> = Vec::new();
        for column in &self.columns {
            match kinds.iter_mut().find(|(kind, _)| kind == column) {
                Some((_, count)) => *count += 1,
                None => kinds.push((*column, 1)),
            }
        }
        kinds
    }

    /// Shows `visit` every combination of resident columns and index: the bytes they take, the
    /// share of empty visits the resident columns pass, what is resident, and the filter pages
    /// still worth asking, in the best order. Those without columns come first.
    fn combinations(&self, mut visit: impl FnMut(u64, f64, Held, &[Test])) {
        let kinds = self.kinds();
        let mut held = vec![0u32; kinds.len()];
        let mut tests = Vec::new();
        loop {
            let (mut bytes, mut pass) = (0, 1.0);
            let mut missing = vec![1.0; self.page_reads.len()];
            let mut beside = self.page_bytes.clone();
            for ((kind, count), held) in kinds.iter().zip(&held) {
                bytes += kind.bytes * u64::from(*held);
                if *held > 0
                    && let Some(beside) = beside.get_mut(kind.page)
                {
                    bytes += std::mem::take(beside);
                }
                pass *= kind.false_positive.powi(*held as i32);
                if let Some(missing) = missing.get_mut(kind.page) {
                    *missing *= kind.false_positive.powi((count - held) as i32);
                }
            }
            tests.clear();
            let pages = self.page_reads.iter().zip(&missing);
            tests.extend(
                pages
                    .map(|(&reads, &pass)| Test { reads, pass })
                    .filter(|test| test.pass < 1.0),
            );
            let rank = |test: &Test| test.reads / (1.0 - test.pass);
            tests.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
            let columns = held.iter().any(|held| *held > 0);
            let with = |index| Held { columns, index };
            visit(bytes, pass, with(false), &tests);
            visit(bytes + self.index_bytes, pass, with(true), &tests);
            // Count up, as an odometer does.
            let mut wheels = held.iter_mut().zip(&kinds);
            if !wheels.any(|(held, (_, count))| {
                *held = if *held < *count { *held + 1 } else { 0 };
                *held > 0
            }) {
                return;
            }
        }
    }

    /// Every combination of columns, index and pages read before the index: the base state (no
    /// data page resident), and what each kind of data page would save.
    fn bases(&self, mut visit: impl FnMut(u64, f64, Held, &[f64])) {
        let positive = self.positive();
        let elsewhere = self.elsewhere();
        let mut savings = Vec::with_capacity(self.data.len());
        self.combinations(|bytes, pass, held, tests| {
            let arriving = self.empty * pass;
            let all = 1u32 << tests.len();
            // With the index at hand a lookup decides after asking it: it knows more, for nothing.
            for before in 0..if held.index { 1 } else { all } {
                let (mut cost, left) = read_tests(tests, before, arriving, positive);
                if !held.index {
                    cost += (arriving * left + positive) * self.index_reads;
                }
                let pass = pass * left;
                // The cheapest way on to a data page that takes `reads` to fetch.
                let onward = |empty: f64, positive: f64, reads: f64| {
                    (0..all)
                        .filter(|after| after & before == 0)
                        .map(|after| {
                            let (cost, left) = read_tests(tests, after, empty, positive);
                            cost + (empty * left + positive) * reads
                        })
                        .fold(f64::INFINITY, f64::min)
                };
                savings.clear();
                for page in &self.data {
                    let each = onward(page.empty * pass, page.positive, page.reads);
                    cost += each * page.count as f64;
                    savings.push(each);
                }
                if elsewhere > 0.0 {
                    cost += onward(elsewhere * pass, 0.0, 1.0);
                }
                visit(bytes, cost, held, &savings);
            }
        });
    }

    /// Every state worth considering, data pages of a kind one by one. For small instances.
    pub(super) fn states(&self) -> Vec<(u64, f64)> {
        let mut states = Vec::new();
        self.bases(|bytes, cost, _, savings| {
            let mut partial = vec![(bytes, cost)];
            for (page, saved) in self.data.iter().zip(savings) {
                let before = std::mem::take(&mut partial);
                for (bytes, cost) in before {
                    partial.extend(
                        (0..=page.count)
                            .map(|held| (bytes + held * page.bytes, cost - held as f64 * saved)),
                    );
                }
            }
            states.extend(partial);
        });
        states
    }

    /// What the partition costs without memory, and the edges of the lower convex hulls of its
    /// states from there. After a [`Start`] there is a hull for each part of the time: before the
    /// first visit nothing of the partition can be resident, before the first that no filter holds
    /// back no index and no data page; and of the data pages those that were met.
    pub(super) fn hull(&self, start: Start) -> (f64, Vec<Edge>) {
        let positive = self.positive();
        let all_pass: f64 = self.columns.iter().map(|c| c.false_positive).product();
        let new = start.unmet(self.empty + positive);
        let past_filter = start.unmet(self.empty * all_pass + positive).max(new);
        let met = |page: &DataPages| {
            let visits = page.empty * all_pass + page.positive;
            ((1.0 - start.unmet(visits)) / (1.0 - past_filter).max(f64::MIN_POSITIVE)).min(1.0)
        };
        let met: Vec<f64> = self.data.iter().map(met).collect();
        let [mut anything, mut filter] = [const { Vec::<Point>::new() }; 2];
        let mut number = 0;
        self.bases(|bytes, cost, held, savings| {
            let (mut bytes, mut cost) = (bytes as f64, cost);
            let pages = self.data.iter().zip(savings).zip(&met);
            let mut order: Vec<(f64, u64, f64, f64)> = pages
                .map(|((page, saved), met)| {
                    let density = saved / page.bytes.max(1) as f64;
                    let all = page.count as f64 * met;
                    (density, page.count, page.bytes as f64 * all, saved * all)
                })
                .filter(|(_, count, bytes, saved)| *count > 0 && *bytes > 0.0 && *saved > 0.0)
                .collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0));
            number += 1;
            let base = Point {
                bytes,
                cost,
                config: (number, 0),
                parts: 1,
            };
            anything.push(base);
            if !held.index {
                filter.push(base);
            }
            for (place, (_, count, more, saved)) in order.into_iter().enumerate() {
                bytes += more;
                cost -= saved;
                let config = (number, place as u32 + 1);
                anything.push(Point {
                    bytes,
                    cost,
                    config,
                    parts: count,
                });
            }
        });
        let parts = [(anything, 1.0 - past_filter), (filter, past_filter - new)];
        let mut without = 0.0;
        let mut edges = Vec::new();
        for (points, time) in parts {
            let hull = lower_hull(points);
            without = hull.first().map_or(0.0, |point| point.cost);
            if time > 0.0 {
                edges.extend(hull.windows(2).filter_map(|pair| match pair {
                    [from, to] => Some(edge(from, to, time)),
                    _ => None,
                }));
            }
        }
        (without, edges)
    }
}

/// The edge between two states that can be had for this share of the time.
fn edge(from: &Point, to: &Point, time: f64) -> Edge {
    // Neighbours within one combination differ by the data pages of one kind.
    let same = from.config.0 == to.config.0 && from.config.1 + 1 == to.config.1;
    Edge {
        bytes: (to.bytes - from.bytes) * time,
        saved: (from.cost - to.cost) * time,
        parts: if same { to.parts } else { 1 },
    }
}

/// The points no mixture of others beats, from the least memory to the least cost.
fn lower_hull(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| {
        let bytes = a.bytes.total_cmp(&b.bytes);
        bytes.then(a.cost.total_cmp(&b.cost))
    });
    let mut hull: Vec<Point> = Vec::new();
    for point in points {
        // More memory for the same cost, or the same memory for more, is never worth it.
        if hull.last().is_some_and(|last| point.cost >= last.cost) {
            continue;
        }
        while let [.., a, b] = hull.as_slice() {
            let slope = |from: &Point, to: &Point| (from.cost - to.cost) / (to.bytes - from.bytes);
            // Points on a line stay: each is a place where a budget may end.
            if slope(a, b) >= slope(b, &point) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}
