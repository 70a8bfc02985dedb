//! Which partition and data page each lookup visits in each run. Pure; 4 bytes for each entry.
use super::Weights;
use crate::workload::KeySpace;
use crate::{Error, Result};
use shamba::inspect::{FilterPartition, PartitionData};
use shamba_model::oracle::{Column, DataPages, Partition};

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
    pub fn add(&mut self, told: &FilterPartition) -> Result<()> {
        let pages = told.data.iter().map(|page| self.page(page));
        let pages = pages.collect::<Result<_>>()?;
        let modules = || told.modules.iter();
        let columns = modules().enumerate().flat_map(|(page, module)| {
            let column = Column {
                bytes: module.column_bytes,
                false_positive: module.false_positive,
                page,
            };
            std::iter::repeat_n(column, usize::from(module.columns))
        });
        let filter = Partition {
            columns: columns.collect(),
            page_reads: modules().map(|module| f64::from(module.pages)).collect(),
            page_bytes: modules().map(|module| module.block_bytes).collect(),
            index_bytes: told.index_bytes,
            index_reads: f64::from(told.index_pages),
            ..Partition::default()
        };
        self.insert(Known {
            run: told.run,
            file: told.file,
            filter,
            pages,
        })
    }

    fn page(&self, told: &PartitionData) -> Result<Page> {
        let number = |key: &Vec<u8>| {
            let number = self.keys.number(key);
            let number = number.and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| {
                Error::WrongAnswer(format!("the tree holds a key nobody wrote: {key:?}"))
            })
        };
        Ok(Page {
            bytes: told.bytes,
            reads: f64::from(told.pages),
            numbers: told.keys.iter().map(number).collect::<Result<_>>()?,
        })
    }

    fn insert(&mut self, partition: Known) -> Result<()> {
        let run = u8::try_from(partition.run).ok();
        let run = run.filter(|run| *run != NOWHERE);
        let run = run.ok_or_else(|| Error::InvalidSetting(format!("run {}", partition.run)))?;
        for number in partition.pages.iter().flat_map(|page| &page.numbers) {
            let newest = &mut self.run_of[*number as usize];
            *newest = run.min(*newest);
        }
        self.partitions.push(partition);
        Ok(())
    }
}

/// The partitions of a tree with the visits that `weights` give them.
///
/// A page is visited by the keys after the last key of the page before it in its file, up to its
/// own last key; fence pointers keep lookups out of files whose key range they miss.
pub fn partitions(tree: &Tree, weights: &Weights) -> Vec<Partition> {
    let filled = (tree.partitions.iter()).filter(|partition| partition.first().is_some());
    let mut known: Vec<&Known> = filled.collect();
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
            let beyond = tree.run_of.iter().zip(&weights.present);
            older = sums(beyond.map(|(run, weight)| {
                let deeper = *run != NOWHERE && usize::from(*run) > of_run;
                if deeper { f64::from(*weight) } else { 0.0 }
            }));
            last = None;
        }
        let mut filter = partition.filter.clone();
        for page in &partition.pages {
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
            let numbers = page.numbers.iter().map(|number| *number as usize);
            let here = numbers.filter(|number| usize::from(tree.run_of[*number]) == of_run);
            let alike = DataPages {
                count: 1,
                empty,
                positive: here.map(|number| f64::from(weights.present[number])).sum(),
                bytes: page.bytes,
                reads: page.reads,
            };
            filter.empty += empty;
            if empty <= 0.0 && alike.positive <= 0.0 {
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
    found
}

/// The data pages that lookups of existing keys `now` have to read since those `before` read
/// nothing of theirs: of pages of which no entry was asked for, and of entries that were not.
pub fn first_reads(tree: &Tree, before: &Weights, now: &Weights) -> [f64; 2] {
    let (mut of_page, mut of_entry) = (0.0, 0.0);
    for partition in &tree.partitions {
        for page in &partition.pages {
            let numbers = page.numbers.iter().map(|number| *number as usize);
            let here = numbers.filter(|n| usize::from(tree.run_of[*n]) == partition.run);
            let (mut was_asked, mut first) = (false, 0u32);
            for number in here {
                let asked = before.present[number] > 0.0;
                was_asked |= asked;
                first += u32::from(!asked && now.present[number] > 0.0);
            }
            of_entry += page.reads * f64::from(first);
            if first > 0 && !was_asked {
                of_page += page.reads;
            }
        }
    }
    [of_page, of_entry]
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
