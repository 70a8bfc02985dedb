//! The top-level index as it is stored (docs/format.md, "Top-level index"): collected while a table
//! is written, and read. [`ParsedTop`] says what the index takes in memory before it takes it.

use super::{BEFORE_MODULES, FRONTS, HEAD, LONG, TopIndex, head_of, is_front_coded};
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_len, take_varint};
use crate::base::key::MAX_KEY_LEN;
use crate::base::key::common_prefix;
use crate::table::format::Damage;
use crate::table::packed_ints::PackedInts;

const BAD: Damage = Damage("the top-level index is malformed");

/// Collects the top-level index while a table is written.
#[derive(Debug, Default)]
pub(in crate::table) struct TopIndexBuilder {
    bytes: Vec<u8>,
    count: usize,
    /// The last separator.
    last: Vec<u8>,
    /// Bytes of all separators, and of what each does not share with the one before.
    whole: usize,
    front: usize,
}

impl TopIndexBuilder {
    /// Adds a partition: its last separator, and the pages of its parts in the order in which they
    /// follow the previous partition.
    pub(in crate::table) fn push(
        &mut self,
        separator: &[u8],
        data_pages: u32,
        blocks: u32,
        module_pages: &[u32],
        index_pages: u32,
    ) {
        let shared = common_prefix(&self.last, separator);
        let rest = separator.get(shared..).unwrap_or_default();
        if rest.len() > LONG {
            // To double would be to take as much again.
            self.bytes.reserve_exact(rest.len() + LONG);
        }
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, rest);
        put_varint(&mut self.bytes, u64::from(data_pages));
        put_varint(&mut self.bytes, u64::from(blocks));
        for pages in module_pages {
            put_varint(&mut self.bytes, u64::from(*pages));
        }
        put_varint(&mut self.bytes, u64::from(index_pages));
        self.count += 1;
        self.whole += separator.len();
        self.front += rest.len();
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    pub(in crate::table) fn memory(&self) -> usize {
        self.bytes.capacity() + self.last.capacity()
    }

    /// Nothing is added any more.
    pub(in crate::table) fn close(&mut self) {
        self.last = Vec::new();
    }

    /// About the bytes that the index takes in an open table, or as it is stored if that is more.
    pub(in crate::table) fn len(&self) -> usize {
        let separators = if is_front_coded(self.count, self.whole, self.front) {
            self.front
        } else {
            self.whole
        };
        (2 * HEAD * self.count + separators).max(self.bytes.len())
    }

    pub(in crate::table) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count as u64);
        out.extend_from_slice(&self.bytes);
    }
}

/// An encoded index that was read: what it says is sound, and how much memory it takes is known.
pub(in crate::table) struct ParsedTop<'a> {
    /// The index without separators.
    top: TopIndex,
    /// The partitions as they are encoded.
    partitions: &'a [u8],
    starts: Vec<u32>,
    rows: Vec<u32>,
    memory: usize,
}

/// The shared length of the next partition's separator, and its rest; leaves the numbers.
fn take_separator<'a>(input: &mut &'a [u8]) -> Option<(usize, &'a [u8])> {
    let shared = usize::try_from(take_varint(input)?).ok()?;
    Some((shared, take_bytes(input)?))
}

impl<'a> ParsedTop<'a> {
    /// Reads the index of a table with `modules` filter modules whose partitions take exactly
    /// `pages` pages.
    pub(in crate::table) fn of(
        mut encoded: &'a [u8],
        modules: usize,
        pages: u32,
    ) -> Result<Self, Damage> {
        let columns = BEFORE_MODULES + modules;
        // Each partition takes two bytes for its separator and one for each number, at least, so
        // that no count can ask for much memory.
        let most = encoded.len() / (2 + columns);
        let count = take_len(&mut encoded, most).ok_or(BAD)?;
        let mut input = encoded;
        let mut rows = Vec::with_capacity(count * columns);
        let mut starts = Vec::with_capacity(count + 1);
        let mut last: Vec<u8> = Vec::new();
        let (mut whole, mut front, mut next) = (0, 0, 0u32);
        // All begin as the two neighbours do that have least in common.
        let mut common = usize::MAX;
        for i in 0..count {
            let (shared, rest) = take_separator(&mut input).ok_or(BAD)?;
            // They ascend, and none says twice what the one before says.
            let ascends = match (last.get(shared), rest.first()) {
                (None, first) => shared == last.len() && (i == 0 || first.is_some()),
                (Some(before), first) => first > Some(before),
            };
            let len = shared.saturating_add(rest.len());
            if !ascends || len > MAX_KEY_LEN {
                return Err(BAD);
            }
            last.truncate(shared);
            last.extend_from_slice(rest);
            common = common.min(if i == 0 { len } else { shared });
            whole += len;
            front += rest.len();
            starts.push(next);
            // The numbers of a partition.
            let row = rows.len();
            for _ in 0..columns {
                let number = take_varint(&mut input).and_then(|n| u32::try_from(n).ok());
                rows.push(number.filter(|n| *n > 0).ok_or(BAD)?);
            }
            let row = rows.get_mut(row..).unwrap_or_default();
            // Written behind the modules.
            row.get_mut(2..).unwrap_or_default().rotate_right(1);
            let [data_pages, blocks, rest @ ..] = row else {
                return Err(BAD);
            };
            *blocks = data_pages.checked_sub(*blocks).ok_or(BAD)?;
            for pages in std::iter::once(data_pages).chain(rest) {
                next = next.checked_add(*pages).ok_or(BAD)?;
            }
        }
        if next != pages || !input.is_empty() {
            return Err(BAD);
        }
        starts.push(next);
        // Numbers that are alike in all partitions are kept once.
        let (first, others) = rows.split_at(rows.len().min(columns));
        let varies = |column: &usize| {
            let mut numbers = others.iter().skip(*column).step_by(columns);
            numbers.any(|number| first.get(*column) != Some(number))
        };
        let varying: Vec<usize> = (0..columns).filter(varies).collect();
        let numbers = rows.chunks(columns);
        let numbers = numbers.flat_map(|row| varying.iter().filter_map(|&at| row.get(at).copied()));
        let rows: Vec<u32> = first.iter().copied().chain(numbers).collect();
        // Separators are kept as they are stored, or whole where sharing saves little.
        let front_coded = is_front_coded(count, whole, front);
        let separators = if front_coded { front } else { whole };
        let last = u32::try_from(separators).map_err(|_| BAD)?;
        let top = TopIndex {
            bytes: Box::default(),
            partitions: count as u32,
            shared: common.min(whole) as u32,
            modules: modules as u16,
            starts: PackedInts::of(&starts),
            ends: PackedInts::of(&[last]),
            rows: PackedInts::of(&rows),
            varying: varying.iter().fold(0, |set, &column| set | 1 << column),
            front_coded,
        };
        let fronts = if front_coded { FRONTS.bytes(count) } else { 0 };
        Ok(ParsedTop {
            memory: top.places().3 + separators + fronts,
            top,
            partitions: encoded,
            starts,
            rows,
        })
    }

    /// Memory that the index takes, in bytes.
    pub(in crate::table) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether separators have no place where they lie whole.
    pub(in crate::table) fn is_front_coded(&self) -> bool {
        self.top.front_coded
    }

    /// About the memory that reading an index of so many encoded bytes takes meanwhile.
    pub(in crate::table) const fn scratch(encoded: usize) -> usize {
        size_of::<u32>() * encoded
    }

    /// The index, in memory of the size that was said.
    pub(in crate::table) fn build(self) -> TopIndex {
        let shared = self.top.shared as usize;
        let front_coded = self.top.front_coded;
        let mut bytes = Vec::with_capacity(self.memory);
        let (mut ends, mut fronts) = (Vec::new(), Vec::new());
        let (mut head, mut end) = (Vec::with_capacity(HEAD), 0);
        for (front, rest) in self.separators() {
            head.truncate(front.saturating_sub(shared));
            let behind = rest.iter().skip(shared.saturating_sub(front));
            let room = HEAD - head.len();
            head.extend(behind.take(room));
            bytes.extend_from_slice(&head_of(&head).to_le_bytes());
            end += rest.len() + if front_coded { 0 } else { front };
            ends.push(end as u32);
            fronts.push(front as u32);
        }
        self.top.starts.put(&mut bytes, &self.starts);
        self.top.ends.put(&mut bytes, &ends);
        self.top.rows.put(&mut bytes, &self.rows);
        let mut last = bytes.len();
        for (front, rest) in self.separators() {
            let start = bytes.len();
            if !front_coded {
                bytes.extend_from_within(last..last + front);
            }
            bytes.extend_from_slice(rest);
            last = start;
        }
        if front_coded {
            FRONTS.put(&mut bytes, &fronts);
        }
        TopIndex {
            bytes: bytes.into_boxed_slice(),
            ..self.top
        }
    }

    /// Of each separator what it shares with the one before, and its rest.
    fn separators(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let (mut input, columns) = (self.partitions, self.top.columns());
        (0..self.top.len()).map_while(move |_| {
            let separator = take_separator(&mut input)?;
            for _ in 0..columns {
                take_varint(&mut input)?;
            }
            Some(separator)
        })
    }
}
