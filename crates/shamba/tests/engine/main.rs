//! Tests through the public interface, in one program: each program is linked with the whole
//! engine, and tests of several files keep all cores busy. Those that count what a process
//! allocates, opens or holds, or start others, have programs of their own, and so have the longest.

#[path = "../common/mod.rs"]
mod common;

mod after_close;
mod background;
mod bad_input;
mod basics;
mod behaviour;
mod budget_corners;
mod checkpoints;
mod compaction_filters;
mod expiry;
mod foreign_files;
mod handles;
mod hash_sharing;
mod held_iterators;
mod hot_entries;
mod hot_keys;
mod in_memory;
mod iteration;
mod joint_reads;
mod keyspace_options;
mod large_batches;
mod logs;
mod long_keys;
mod merge_operators;
mod merge_readers;
mod misplaced_logs;
mod misplaced_tables;
mod momentary_charges;
mod multi_get;
mod prefix_filters;
mod range_deletes;
mod range_filters;
mod read_only;
mod redesign;
mod scan_merges;
mod scans;
mod self_design;
mod shortage;
mod small_budget;
mod smoke;
mod statistics;
mod transactions;
mod value_files;
mod verify;
mod warm;
mod write_memory;
