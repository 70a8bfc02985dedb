//! The offline optimum: the fewest pages per lookup that any fixed choice of what stays in memory
//! can reach, for a given tree, given visits and a given budget.
//!
//! Pure functions over plain data, no state. Make a [`Partition`] of every filter partition of
//! every file, build one [`Curve`] from all of them, and ask the curve about any budget:
//!
//! ```
//! use shamba_model::oracle::{Column, Curve, DataPages, Partition};
//! let partition = Partition {
//!     empty: 900.0,
//!     columns: vec![Column { bytes: 1024, false_positive: 0.5, page: 0 }; 4],
//!     page_reads: vec![1.0],
//!     page_bytes: vec![100],
//!     index_bytes: 1000,
//!     index_reads: 1.0,
//!     data: vec![DataPages { count: 10, empty: 90.0, positive: 10.0, bytes: 4200, reads: 1.0 }],
//! };
//! let curve = Curve::new(&[partition])?;
//! let all = curve.at(u64::MAX);
//! assert_eq!(all.cost, 0.0);
//! assert!(curve.at(4096).cost <= curve.at(1024).cost);
//! # Ok::<(), shamba_model::ModelError>(())
//! ```
//!
//! # The model
//! This is the expected-reads policy of this project (section 6 of its notes on the papers) with
//! perfect knowledge of the visit counts. A lookup visits the runs from the newest down until its
//! key is found. Each visited partition gets an *empty* visit (the key is not in it) or a
//! *positive* one. In the partition, the lookup
//! 1. probes every resident column, for nothing; an empty visit survives with the product `F` of
//!    their false-positive factors, a positive one always;
//! 2. may read missing filter pages, one after the other, as long as it survives. A page brings
//!    all its columns for this one lookup;
//! 3. reads the index block unless resident, and so learns which data page it needs;
//! 4. may read further filter pages, now knowing whether that data page is resident;
//! 5. reads the data page unless resident. A surviving empty visit does so in vain.
//!
//! A *state* of the partition says which columns, whether the index, and which data pages are
//! resident; the memory of a state is the sum of their bytes. The cost of a state is the pages
//! read in all visits when every fetch-or-skip decision is the one that costs least in
//! expectation, given the counts of the partition and of the data page, but not the answer. If
//! `e` empty and `x` positive visits arrive at a filter page that costs `c` reads and passes a
//! share `f` of empty visits, reading it costs `(e + x) c` and leaves `e f + x`. The best order of
//! pages ascends in `c / (1 - f)` whatever `e` and `x` are (exchange two neighbours), so that
//! trying all subsets in this order is exact.
//!
//! # The optimum and its bound
//! To choose one state for each partition under a budget is a multiple-choice knapsack. Its
//! Lagrangian `L(price) = sum of min over states (cost + price * bytes) - price * budget` never
//! exceeds the optimum, and the best price makes it the optimum of the linear relaxation
//! (Sinha and Zoltners, "The multiple-choice knapsack problem", Operations Research 27, 1979). That
//! is found exactly without searching for a price: take the lower convex hull of each partition's
//! (bytes, cost) states, sort the edges of all hulls by pages saved per byte, and go down the list.
//! Where the budget ends within an edge, its share gives [`Optimum::bound`]. Whole edges, and whole
//! data pages of an edge that consists of equal ones, give [`Optimum::cost`], which some static
//! choice does reach. The list does not depend on the budget, so both fall, or stay, when the
//! budget grows. They differ by less than one edge.
//! [`exact`] solves small instances without a gap, to check all this.
//!
//! # What was never met
//! A run that begins with empty memory cannot hold a block before the first visit that needs it,
//! and some blocks are first needed among the visits that count, whatever is decided. After an
//! empty [`Start`] ([`Curve::after`]) a choice may depend on what has been met, and only that can
//! be resident: the Lagrangian is taken for every moment, `min(cost + price * bytes)` over the
//! states that can be had then, and averaged over the time that counts with the chance of each set
//! of blocks to have been met. [`Curve::new`] takes everything as met.
//!
//! # What it leaves out
//! An online policy has to estimate `e` and `x`. With the counts of a short trace the optimum has
//! seen the future: it keeps exactly the data pages that happen to be asked for twice. Counts
//! expected from the distribution give the optimum an online policy can hope to approach. Nor does
//! a fixed choice of residents exploit requests that come in bursts; for independent lookups there
//! are none.
mod curve;
mod start;
mod state;
#[cfg(test)]
mod tests;

pub use curve::{Curve, Optimum, exact};
pub use start::Start;
pub use state::{Column, DataPages, Partition};
