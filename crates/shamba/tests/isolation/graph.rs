//! The graph of which transaction depends on which, and its cycles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why one comes before another in every order in which they can have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The other wrote over what it wrote (ww).
    Overwrote,
    /// The other read what it wrote (wr).
    Read,
    /// It read what the other wrote over (rw).
    ReadWhatBecameOld,
    /// It had ended before the other began.
    EndedBefore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: u32,
    pub kind: Kind,
    pub to: u32,
}

impl Edge {
    pub fn new(from: u32, kind: Kind, to: u32) -> Edge {
        Edge { from, kind, to }
    }
}

/// Edges of which each begins where the one before ends, and the first where the last does.
pub type Cycle = Vec<Edge>;

pub struct Graph {
    edges: BTreeMap<u32, BTreeSet<Edge>>,
}

/// A node, and whether it was come to by a read of what became old.
type State = (u32, bool);

impl Graph {
    pub fn new(edges: impl Iterator<Item = Edge>) -> Graph {
        let mut graph = Graph {
            edges: BTreeMap::new(),
        };
        for edge in edges {
            graph.edges.entry(edge.from).or_default().insert(edge);
        }
        graph
    }

    /// A cycle, as short as there is one from one of its nodes.
    pub fn cycle(&self) -> Option<Cycle> {
        self.cycle_by(|(from, _)| {
            let edges = self.edges.get(&from).into_iter().flatten();
            edges.map(|edge| (*edge, (edge.to, false))).collect()
        })
    }

    /// A cycle without two reads of what became old after each other. Snapshot isolation has none
    /// (Cerone and Gotsman, "Analysing Snapshot Isolation", PODC 2016).
    pub fn cycle_without_two_overwritten_reads(&self) -> Option<Cycle> {
        self.cycle_by(|(from, after_read)| {
            let edges = self.edges.get(&from).into_iter().flatten();
            let is_read = |edge: &Edge| edge.kind == Kind::ReadWhatBecameOld;
            let edges = edges.filter(|edge| !(after_read && is_read(edge)));
            edges
                .map(|edge| (*edge, (edge.to, is_read(edge))))
                .collect()
        })
    }

    fn cycle_by(&self, next: impl Fn(State) -> Vec<(Edge, State)>) -> Option<Cycle> {
        // Those that nothing comes to are taken away until there are none: the rest has a cycle.
        let states = self
            .edges
            .keys()
            .flat_map(|&from| [(from, false), (from, true)]);
        let mut steps: BTreeMap<State, Vec<(Edge, State)>> = BTreeMap::new();
        let mut come: BTreeMap<State, usize> = BTreeMap::new();
        for state in states {
            let from_here = next(state);
            come.entry(state).or_default();
            for (_, to) in &from_here {
                *come.entry(*to).or_default() += 1;
            }
            steps.insert(state, from_here);
        }
        let free = come.iter().filter(|(_, count)| **count == 0);
        let mut free: Vec<State> = free.map(|(state, _)| *state).collect();
        while let Some(state) = free.pop() {
            come.remove(&state);
            for (_, to) in steps.remove(&state).unwrap_or_default() {
                let count = come.get_mut(&to).unwrap();
                *count -= 1;
                if *count == 0 {
                    free.push(to);
                }
            }
        }
        // Back from any that is left one comes into a cycle, for something comes to each.
        let mut before: BTreeMap<State, State> = BTreeMap::new();
        for (state, from_here) in &steps {
            before.extend(from_here.iter().map(|(_, to)| (*to, *state)));
        }
        let mut at = *come.keys().next()?;
        let mut seen = BTreeSet::new();
        while seen.insert(at) {
            at = before[&at];
        }
        Some(shortest_from(at, &steps))
    }
}

/// The shortest way from a state back to it.
fn shortest_from(start: State, steps: &BTreeMap<State, Vec<(Edge, State)>>) -> Cycle {
    let mut came: BTreeMap<State, (Edge, State)> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front()
        && !came.contains_key(&start)
    {
        for (edge, to) in steps.get(&state).into_iter().flatten() {
            if !came.contains_key(to) {
                came.insert(*to, (*edge, state));
                queue.push_back(*to);
            }
        }
    }
    let mut cycle = Vec::new();
    let mut at = start;
    while cycle.is_empty() || at != start {
        let (edge, from) = came[&at];
        cycle.push(edge);
        at = from;
    }
    cycle.reverse();
    cycle
}
