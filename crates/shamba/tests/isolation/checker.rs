//! What transactions did to lists, and whether they can have been isolated.
//!
//! Each key has a list, and each append an element of its own: so the last state of a list tells in
//! which order versions came, and a list that was read which versions came before and which after
//! the read.

use std::collections::BTreeMap;

use shamba::Isolation;

use crate::graph::{Cycle, Edge, Graph, Kind};

/// What was appended: by whom, and which append of that transaction it is.
pub type Element = (u32, u32);

/// What a transaction did.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// When it began, before its first step; and when it had ended.
    pub began: u64,
    pub ended: u64,
    pub committed: bool,
    /// The lists that it read, without what it appended itself.
    pub reads: Vec<(usize, Vec<Element>)>,
    /// What it appended, by key, in order.
    pub appends: BTreeMap<usize, Vec<Element>>,
}

/// All that happened to some keys.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Each with its number.
    pub records: BTreeMap<u32, Record>,
    /// The lists at the end, by key.
    pub lists: Vec<Vec<Element>>,
}

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// An append of a transaction that did not commit was read or is there (G1a).
    Aborted(Element),
    /// A part of a transaction's appends was read, or is there (G1b, and dirty writes).
    Intermediate(Element),
    /// A committed append is not there (P4).
    Lost(Element),
    /// What was read was never in the list (versions came in two orders).
    NeverThere { reader: u32, key: usize },
    /// Overwrites alone make a cycle.
    G0(Cycle),
    /// Overwrites and reads of what was written do.
    G1c(Cycle),
    /// So do those with reads of what was overwritten, of which no two come after each other.
    GSingle(Cycle),
    /// So do those with any of them.
    G2(Cycle),
    /// And so they do only with those that began after others had ended.
    RealTime(Cycle),
}

impl History {
    /// The worst that is not allowed under an isolation.
    pub fn check(&self, isolation: Isolation) -> Result<(), Breach> {
        self.check_lists()?;
        let edges = self.edges();
        let wanted = match isolation {
            Isolation::Snapshot => Graph::cycle_without_two_overwritten_reads,
            _ => Graph::cycle,
        };
        let with_time = Graph::new(edges.iter().copied().chain(self.order_in_time()));
        let Some(in_time) = wanted(&with_time) else {
            return Ok(());
        };
        let of = |kinds: &[Kind]| {
            let some = edges.iter().filter(|edge| kinds.contains(&edge.kind));
            Graph::new(some.copied())
        };
        let all = Graph::new(edges.iter().copied());
        if let Some(cycle) = of(&[Kind::Overwrote]).cycle() {
            return Err(Breach::G0(cycle));
        }
        if let Some(cycle) = of(&[Kind::Overwrote, Kind::Read]).cycle() {
            return Err(Breach::G1c(cycle));
        }
        if let Some(cycle) = all.cycle_without_two_overwritten_reads() {
            return Err(Breach::GSingle(cycle));
        }
        match wanted(&all) {
            Some(cycle) => Err(Breach::G2(cycle)),
            None => Err(Breach::RealTime(in_time)),
        }
    }

    /// Whether each list, at the end and whenever it was read, is made of whole transactions that
    /// committed, and those read are beginnings of those at the end.
    fn check_lists(&self) -> Result<(), Breach> {
        let read = |record: &Record| record.reads.clone();
        let read = self.records.values().flat_map(read);
        let ends = self.lists.iter().cloned().enumerate();
        for (key, list) in ends.chain(read) {
            self.check_list(key, &list)?;
        }
        for record in self.records.values().filter(|record| record.committed) {
            for (key, appends) in &record.appends {
                let there = &self.lists[*key];
                if let Some(lost) = appends.iter().find(|append| !there.contains(append)) {
                    return Err(Breach::Lost(*lost));
                }
            }
        }
        for (&reader, record) in &self.records {
            let never = |(key, list): &&(usize, Vec<Element>)| !self.lists[*key].starts_with(list);
            if let Some(&(key, _)) = record.reads.iter().find(never) {
                return Err(Breach::NeverThere { reader, key });
            }
        }
        Ok(())
    }

    fn check_list(&self, key: usize, list: &[Element]) -> Result<(), Breach> {
        for one in list.chunk_by(|a, b| a.0 == b.0) {
            let writer = &self.records[&one[0].0];
            if !writer.committed {
                return Err(Breach::Aborted(one[0]));
            }
            if writer.appends[&key] != one {
                return Err(Breach::Intermediate(one[0]));
            }
        }
        Ok(())
    }

    /// Who depends on whom. Those that did not commit are there too, as readers: they saw a state
    /// that was.
    fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        // Of each list the writers, each once, and how much of it was there after each.
        let writers: Vec<Vec<(u32, usize)>> = self
            .lists
            .iter()
            .map(|list| {
                let mut there = 0;
                let whole = list.chunk_by(|a, b| a.0 == b.0);
                let whole = whole.map(|one| {
                    there += one.len();
                    (one[0].0, there)
                });
                whole.collect()
            })
            .collect();
        for writers in &writers {
            let pairs = writers.windows(2);
            edges.extend(pairs.map(|pair| Edge::new(pair[0].0, Kind::Overwrote, pair[1].0)));
        }
        for (&reader, record) in &self.records {
            for (key, list) in &record.reads {
                if let Some(last) = list.last() {
                    edges.push(Edge::new(last.0, Kind::Read, reader));
                }
                let next = writers[*key].iter().find(|(_, there)| *there > list.len());
                if let Some((next, _)) = next {
                    edges.push(Edge::new(reader, Kind::ReadWhatBecameOld, *next));
                }
            }
        }
        edges.retain(|edge| edge.from != edge.to);
        edges
    }

    /// Who began after whom had ended: by way of numbers for the ends, so that they are few.
    fn order_in_time(&self) -> Vec<Edge> {
        let ends = self.records.iter().map(|(id, of)| (of.ended, *id));
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        let end = |at: usize| u32::MAX - at as u32;
        let mut edges = Vec::new();
        for (at, (_, id)) in ends.iter().enumerate() {
            edges.push(Edge::new(*id, Kind::EndedBefore, end(at)));
            if at > 0 {
                edges.push(Edge::new(end(at - 1), Kind::EndedBefore, end(at)));
            }
        }
        for (id, record) in &self.records {
            let before = ends.partition_point(|(ended, _)| *ended < record.began);
            if before > 0 {
                edges.push(Edge::new(end(before - 1), Kind::EndedBefore, *id));
            }
        }
        edges
    }
}
