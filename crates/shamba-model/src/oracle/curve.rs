//! All partitions under one budget: the edges of their hulls in one order, and the exact optimum
//! of small instances. Pure functions; a [`Curve`] is immutable.
use super::start::Start;
use super::state::{Edge, Partition};
use crate::ModelError;

/// The best that a budget allows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Optimum {
    /// Pages read in all visits by a choice of residents that fits the budget.
    pub cost: f64,
    /// No choice that fits the budget reads fewer pages: the Lagrangian's dual value.
    pub bound: f64,
    /// Bytes of the choice behind `cost`.
    pub bytes: u64,
    /// Pages one more byte would save: the dual price of memory. 0 when everything useful fits.
    pub price: f64,
}

/// The optimum of every budget, for one tree and its visits.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The cost with nothing resident.
    start: f64,
    /// Steps of memory, those that save most per byte first.
    edges: Vec<Edge>,
}

impl Curve {
    /// The curve of all partitions of a tree together, whatever stays resident being there already.
    ///
    /// # Errors
    /// A count or a rate outside its domain, or more than 8 filter pages in a partition.
    pub fn new(partitions: &[Partition]) -> Result<Self, ModelError> {
        Self::after(partitions, Start::WARM)
    }

    /// The curve of all partitions of a tree together after such a start.
    ///
    /// # Errors
    /// As [`Curve::new`].
    pub fn after(partitions: &[Partition], run: Start) -> Result<Self, ModelError> {
        let mut start = 0.0;
        let mut edges = Vec::new();
        for partition in partitions {
            partition.check()?;
            let (cost, hull) = partition.hull(run);
            start += cost;
            edges.extend(hull);
        }
        let density = |edge: &Edge| edge.saved / edge.bytes.max(f64::MIN_POSITIVE);
        // A stable sort: edges of one hull stay in order, even where rounding makes slopes equal.
        edges.sort_by(|a, b| density(b).total_cmp(&density(a)));
        Ok(Self { start, edges })
    }

    /// The optimum under `budget` bytes for everything that [`Partition`]s list; fixed overheads
    /// are to be taken off before.
    pub fn at(&self, budget: u64) -> Optimum {
        let mut left = budget as f64;
        let mut cost = self.start;
        for edge in &self.edges {
            if edge.bytes <= left {
                left -= edge.bytes;
                cost -= edge.saved;
                continue;
            }
            let price = edge.saved / edge.bytes;
            let bound = (cost - left * price).max(0.0);
            let each = edge.bytes / edge.parts as f64;
            let parts = (left / each).floor();
            let saved = edge.saved * parts / edge.parts as f64;
            return Optimum {
                cost: (cost - saved).max(0.0),
                bound,
                bytes: budget - (left - parts * each).ceil() as u64,
                price,
            };
        }
        // What is left below zero, or just above it, is rounding.
        let cost = if cost.abs() <= self.start * 1e-12 {
            0.0
        } else {
            cost.max(0.0)
        };
        Optimum {
            cost,
            bound: cost,
            bytes: budget - left as u64,
            price: 0.0,
        }
    }

    /// Bytes above which no memory saves anything.
    pub fn enough(&self) -> u64 {
        self.edges.iter().map(|edge| edge.bytes).sum::<f64>().ceil() as u64
    }
}

/// The least cost under `budget`, without a gap: all states of all partitions, merged one
/// partition after the other, dominated ones dropped. Exponential in the worst case; for small
/// instances and for checking [`Curve`].
///
/// # Errors
/// As [`Curve::new`].
pub fn exact(partitions: &[Partition], budget: u64) -> Result<f64, ModelError> {
    let mut best = vec![(0u64, 0.0f64)];
    for partition in partitions {
        partition.check()?;
        let states = undominated(partition.states(), budget);
        let merged = best.iter().flat_map(|(bytes, cost)| {
            let more = states.iter();
            more.map(move |(b, c)| (bytes.saturating_add(*b), cost + c))
        });
        best = undominated(merged.collect(), budget);
    }
    Ok(best.last().map_or(0.0, |(_, cost)| *cost))
}

/// The states within the budget that cost less than every smaller one, by size.
fn undominated(mut states: Vec<(u64, f64)>, budget: u64) -> Vec<(u64, f64)> {
    states.retain(|(bytes, _)| *bytes <= budget);
    states.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut least = f64::INFINITY;
    states.retain(|(_, cost)| {
        let better = *cost < least;
        least = least.min(*cost);
        better
    });
    states
}
