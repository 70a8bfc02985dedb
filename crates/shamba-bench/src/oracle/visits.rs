//! Which partition and data page each lookup visits in each run. Pure; 4 bytes for each entry.
use super::Weights;
use crate::workload::KeySpace;
use crate::{Error, Result};
use shamba_model::oracle::{Column, DataPages, Partition};

/// A data page of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageFacts {
    /// Bytes of memory while resident, with all that memory keeps beside it.
    pub bytes: u64,
    /// Pages of 4096 bytes read to fetch it.
    pub reads: f64,
    /// Its keys, ascending.
    pub keys: Vec<Vec<u8>>,
}

/// A filter partition of a file, as an engine tells it. Whole-table filters are one partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionFacts {
    /// Its sorted run; 0 is the one a lookup visits first.
    pub run: usize,
    /// Its file, a number unlike that of any other file.
    pub file: u64,
    /// The columns (modules) of its filter; `page` counts within the partition.
    pub columns: Vec<Column>,
    /// Pages read to fetch each page of columns.
    pub page_reads: Vec<f64>,
    /// Bytes of memory that each page of columns takes beside them while any is resident.
    pub page_bytes: Vec<u64>,
    /// Bytes of memory of its index block while resident.
    pub index_bytes: u64,
    /// Pages read to fetch the index block.
    pub index_reads: f64,
    /// Its data pages, by key.
    pub pages: Vec<PageFacts>,
}

/// Nobody's run.
const NOWHERE: u8 = u8::MAX;

#[derive(Debug)]
struct Page {
    bytes: u64,
    reads: f64,
    numbers: Vec<u32>,
}

#[derive(Debug)]
struct Known {
    run: usize,
    file: u64,
    filter: Partition,
    pages: Vec<Page>,
}

impl Known {
    fn first(&self) -> Option<u32> {
        self.pages
            .iter()
            .find_map(|page| page.numbers.first().copied())
    }
}

/// A tree in terms of entry numbers, gathered partition by partition.
#[derive(Debug)]
pub struct Tree {
    keys: KeySpace,
    /// The newest run that holds each entry.
    run_of: Vec<u8>,
    partitions: Vec<Known>,
}

impl Tree {
    /// A tree of no partitions yet, over these keys.
    pub fn new(keys: KeySpace) -> Self {
        Self {
            keys,
            run_of: vec![NOWHERE; keys.entries() as usize],
            partitions: Vec::new(),
        }
    }

    /// Adds a partition. Partitions may come in any order.
    ///
    /// # Errors
    /// A key that was never loaded, or more runs than a tree has.
    pub fn add(&mut self, facts: PartitionFacts) -> Result<()> {
        let mut pages = Vec::with_capacity(facts.pages.len());
        for page in &facts.pages {
            let number = |key: &Vec<u8>| {
                let number = self.keys.number(key);
                let number = number.and_then(|number| u32::try_from(number).ok());
                number.ok_or_else(|| {
                    Error::WrongAnswer(format!("the tree holds a key nobody wrote: {key:?}"))
                })
            };
            pages.push(Page {
                bytes: page.bytes,
                reads: page.reads,
                numbers: page.keys.iter().map(number).collect::<Result<_>>()?,
            });
        }
        self.add_numbers(facts, pages)
    }

    fn add_numbers(&mut self, facts: PartitionFacts, pages: Vec<Page>) -> Result<()> {
        let run = u8::try_from(facts.run).ok().filter(|run| *run != NOWHERE);
        let run = run.ok_or_else(|| Error::InvalidSetting(format!("run {}", facts.run)))?;
        for number in pages.iter().flat_map(|page| &page.numbers) {
            let newest = &mut self.run_of[*number as usize];
            *newest = run.min(*newest);
        }
        self.partitions.push(Known {
            run: facts.run,
            file: facts.file,
            filter: Partition {
                columns: facts.columns,
                page_reads: facts.page_reads,
                page_bytes: facts.page_bytes,
                index_bytes: facts.index_bytes,
                index_reads: facts.index_reads,
                ..Partition::default()
            },
            pages,
        });
        Ok(())
    }
}

/// The partitions of a tree with the visits that `weights` give them.
///
/// A page is visited by the keys after the last key of the page before it in its file, up to its
/// own last key; fence pointers keep lookups out of files whose key range they miss.
pub fn partitions(tree: Tree, weights: &Weights) -> Result<Vec<Partition>> {
    let Tree {
        run_of,
        partitions: mut known,
        ..
    } = tree;
    known.retain(|partition| partition.first().is_some());
    known.sort_by_key(|partition| (partition.run, partition.first()));
    let absent = sums(weights.absent.iter().map(|weight| f64::from(*weight)));
    let mut older: Vec<f64> = Vec::new();
    let mut of_run = usize::MAX;
    let mut last: Option<(u64, u32)> = None;
    let mut found = Vec::with_capacity(known.len());
    for partition in known {
        if partition.run != of_run {
            of_run = partition.run;
            // Lookups of existing keys come by only if no run before, nor this one, has the key.
            let beyond = run_of.iter().zip(&weights.present).map(|(run, weight)| {
                let deeper = *run != NOWHERE && usize::from(*run) > of_run;
                if deeper { f64::from(*weight) } else { 0.0 }
            });
            older = sums(beyond);
            last = None;
        }
        let mut filter = partition.filter;
        for page in partition.pages {
            let (Some(&first), Some(&end)) = (page.numbers.first(), page.numbers.last()) else {
                continue;
            };
            // The absent key after entry n lies between n and n + 1.
            let (from, absent_from) = match last {
                Some((file, number)) if file == partition.file => (number + 1, number),
                _ => (first, first),
            };
            last = Some((partition.file, end));
            let end = end as usize;
            let empty =
                older[end + 1] - older[from as usize] + absent[end] - absent[absent_from as usize];
            let here = page
                .numbers
                .iter()
                .filter(|number| usize::from(run_of[**number as usize]) == of_run);
            let positive = here
                .map(|number| f64::from(weights.present[*number as usize]))
                .sum();
            filter.empty += empty;
            let alike = DataPages {
                count: 1,
                empty,
                positive,
                bytes: page.bytes,
                reads: page.reads,
            };
            if empty <= 0.0 && positive <= 0.0 {
                continue;
            }
            let same = |known: &&mut DataPages| {
                DataPages {
                    count: 1,
                    ..**known
                } == alike
            };
            match filter.data.iter_mut().find(same) {
                Some(known) => known.count += 1,
                None => filter.data.push(alike),
            }
        }
        if filter.empty > 0.0 || !filter.data.is_empty() {
            found.push(filter);
        }
    }
    Ok(found)
}

/// The sums of the first 0, 1, 2, … values.
fn sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let later = values.map(|value| {
        sum += value;
        sum
    });
    std::iter::once(0.0).chain(later).collect()
}

#[cfg(test)]
mod tests;
