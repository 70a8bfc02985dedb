//! Which of a thread's lookups and scans statistics are made of: one in eight, at places drawn at
//! random, so that what alternates (two keyspaces, keys that exist and keys that do not) is met as
//! often as it comes.
//!
//! Thread-local and seeded alike in every thread.

use std::cell::Cell;

/// One of so many lookups is taken.
pub(crate) const SAMPLE: u64 = 8;

/// A thread's place in its lookups, or scans.
#[derive(Clone, Copy)]
struct Draw {
    random: u32,
    /// Lookups of the present eight so far.
    met: u8,
    /// Which of them is taken.
    taken: u8,
}

impl Draw {
    const NEW: Draw = Draw {
        random: 0x9e37_79b9,
        met: 0,
        taken: 0,
    };

    /// A number below eight (xorshift).
    fn draw(&mut self) -> u8 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        (self.random >> 29) as u8
    }

    /// Whether the next lookup is the one taken of its eight.
    fn next(&mut self) -> bool {
        let taken = self.met == self.taken;
        self.met += 1;
        if u64::from(self.met) == SAMPLE {
            self.met = 0;
            self.taken = self.draw();
        }
        taken
    }
}

/// What the next lookup of this thread weighs in what is sampled: mostly nothing.
#[inline]
pub(crate) fn weight() -> u64 {
    thread_local! {
        static LOOKUPS: Cell<Draw> = const { Cell::new(Draw::NEW) };
    }
    LOOKUPS.with(weight_of)
}

/// The same of the next scan.
pub(crate) fn weight_of_scan() -> u64 {
    thread_local! {
        static SCANS: Cell<Draw> = const { Cell::new(Draw::NEW) };
    }
    SCANS.with(weight_of)
}

#[inline]
fn weight_of(cell: &Cell<Draw>) -> u64 {
    let mut draw = cell.get();
    let taken = draw.next();
    cell.set(draw);
    if taken { SAMPLE } else { 0 }
}

/// Lookups that a thread gathers before it counts them all for the keyspace of the last: eight on
/// average.
pub(crate) fn batch() -> u64 {
    thread_local! {
        static BATCHES: Cell<Draw> = const { Cell::new(Draw::NEW) };
    }
    let mut draw = BATCHES.get();
    let (one, other) = (draw.draw(), draw.draw());
    BATCHES.set(draw);
    1 + u64::from(one) + u64::from(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_eight_is_taken_at_any_place() {
        let mut draw = Draw::NEW;
        let mut places = [0; SAMPLE as usize];
        for _ in 0..8000 {
            let taken: Vec<usize> = (0..8).filter(|_| draw.next()).collect();
            assert_eq!(taken.len(), 1);
            places[taken[0]] += 1;
        }
        assert!(
            places.iter().all(|&count| (800..1200).contains(&count)),
            "{places:?}"
        );
    }

    #[test]
    fn batches_are_of_eight_and_end_at_any_place() {
        let batches: Vec<u64> = (0..8000).map(|_| batch()).collect();
        let ends = batches.iter().scan(0, |sum, batch| {
            *sum += batch;
            Some(*sum)
        });
        let odd = ends.filter(|end| end % 2 == 1).count();
        assert!(
            (3600..4400).contains(&odd),
            "{odd} of 8000 end at an odd lookup"
        );
        let sum: u64 = batches.iter().sum();
        assert!((60_000..68_000).contains(&sum), "{sum}");
    }
}
