//! One partition from its first visit to its eviction: makes the numbers of `docs/policy.md`, and
//! fails when the document says others.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::geometry::ModuleGeometry;
use super::*;
use crate::budget::Budget;
use crate::fs::{BlockKind, PAGE};

/// The partition followed, of the eight of its table.
const PARTITION: u32 = 0;
const PARTITIONS: usize = 8;

/// The default filter: three ribbon modules of four columns, a page each.
const MODULES: usize = 3;
const COLUMNS: u8 = 4;

/// What a byte is worth of what the rest of the cache evicts, in page reads per window.
const PRICE: f32 = 4e-4;

/// Visits before nobody comes any more.
const VISITS: u32 = 20;

/// A table under pressure, and what of the partition is resident.
struct Walk {
    policy: Arc<PolicyState>,
    stats: PartitionStats,
    resident: [u8; MODULES],
    index: bool,
    random: u32,
    said: String,
}

fn kind(module: usize) -> BlockKind {
    BlockKind::Filter(module as u8)
}

impl Walk {
    fn new() -> Walk {
        let module = ModuleGeometry {
            fpr: 0.5,
            columns: COLUMNS,
            blocks: 1,
            pages: 1,
        };
        let geometry =
            FilterGeometry::new([module; MODULES].into(), |_| 0, |block, _| block.into());
        let (policy, budget) = (Arc::new(PolicyState::new(1)), Budget::new(1 << 20));
        let geometry = Arc::new(geometry);
        let stats = PartitionStats::new(Arc::clone(&policy), &budget, PARTITIONS, geometry, 1);
        Walk {
            policy,
            stats,
            resident: [0; MODULES],
            index: false,
            random: 1,
            said: String::new(),
        }
    }

    /// Time passes, in which the cache evicts what is worth the price.
    fn ticks(&self, ticks: u32) {
        for _ in 0..ticks {
            let before = self.policy.ticks();
            while self.policy.ticks() == before {
                self.policy.advance(32);
            }
            (0..200).for_each(|_| self.policy.note_marginal(PRICE));
        }
    }

    /// The columns that an absent key passes before one rejects it: of half of the keys none, of a
    /// quarter one, and so on.
    fn passes(&mut self) -> u8 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random.trailing_zeros() as u8
    }

    /// What a byte is worth of a part that takes so many pages.
    fn density(&self, kind: BlockKind, columns: u8, evidence: ColumnEvidence, pages: f32) -> f32 {
        let value = self
            .stats
            .value_of(PARTITION, kind, columns, evidence)
            .value;
        value / (pages * PAGE as f32)
    }

    fn density_of_next(&self, module: usize, columns: u8) -> f32 {
        let share = 1.0 / f32::from(COLUMNS);
        self.density(kind(module), columns, ColumnEvidence::UNKNOWN, share)
    }

    fn density_of_index(&self) -> f32 {
        self.density(BlockKind::Index, 1, ColumnEvidence::UNKNOWN, 1.0)
    }

    /// Admits as many columns of a module that was read as are worth more than the price.
    fn admit(&mut self, module: usize) {
        let had = self.resident[module];
        let worth = |columns: &u8| self.density_of_next(module, *columns) > PRICE;
        let columns = (had + 1..=COLUMNS).take_while(worth).last();
        if let Some(columns) = columns {
            let bits = (1u8 << columns) - 1;
            self.stats.note_insert(PARTITION, kind(module), bits, 0);
            self.stats
                .set_resident(PARTITION, kind(module), columns, true);
            self.resident[module] = columns;
        }
    }

    fn admit_index(&mut self) {
        if !self.index && self.density_of_index() > PRICE {
            self.stats
                .set_resident(PARTITION, BlockKind::Index, 1, true);
            self.index = true;
        }
    }

    /// A lookup, as the table's reader does it: what is resident is probed, then what is worth
    /// reading is read, then index and data. Gives what it read.
    fn visit(&mut self, exists: bool) -> Vec<String> {
        let mut left = if exists { u8::MAX } else { self.passes() };
        let mut probed = self.resident;
        for columns in probed {
            if left < columns {
                self.stats.record(PARTITION, Outcome::Rejected, 1);
                return Vec::new();
            }
            left -= columns;
        }
        let mut read = Vec::new();
        let mut seen_index = self.index;
        while let Some(module) = self.stats.best_to_read(PARTITION, &probed, seen_index) {
            read.push(format!("F{module}"));
            if !seen_index && self.stats.coalesces_index(PARTITION, &probed, module) {
                read.push("I".to_owned());
                seen_index = true;
                self.admit_index();
            }
            let more = COLUMNS - probed[module];
            probed[module] = COLUMNS;
            let passed = left >= more;
            self.stats.note_filter_read(passed);
            let needed = self.resident[module] + left + 1;
            self.admit(module);
            if !passed {
                // If the column that rejected it stays, the next such visit reads nothing.
                let outcome = if needed <= self.resident[module] {
                    Outcome::Rejected
                } else {
                    Outcome::FalsePositive
                };
                self.stats.record(PARTITION, outcome, 1);
                return read;
            }
            left -= more;
        }
        if !seen_index {
            read.push("I".to_owned());
            self.admit_index();
        }
        read.push("D".to_owned());
        let outcome = if exists {
            Outcome::Found
        } else {
            Outcome::FalsePositive
        };
        self.stats.record(PARTITION, outcome, 1);
        read
    }

    /// Evicts what is worth less than the price, a column or the index at a time. Gives what went.
    fn evict(&mut self) -> Vec<String> {
        let mut gone = Vec::new();
        loop {
            let mut least = None;
            for module in 0..MODULES {
                let columns = self.resident[module];
                if columns > 0 {
                    // As many sole rejections as the model expects.
                    let sole_rejections = self.stats.visits(PARTITION).empty;
                    let evidence = ColumnEvidence::Resident { sole_rejections };
                    let share = 1.0 / f32::from(COLUMNS);
                    let density = self.density(kind(module), columns, evidence, share);
                    if least.is_none_or(|(_, least)| density < least) {
                        least = Some((Some(module), density));
                    }
                }
            }
            if self.index {
                let density = self.density_of_index();
                if least.is_none_or(|(_, least)| density < least) {
                    least = Some((None, density));
                }
            }
            match least {
                Some((Some(module), density)) if density < PRICE => {
                    gone.push(format!("F{module}.{}", self.resident[module]));
                    let rejections = self.stats.visits(PARTITION).empty;
                    self.stats
                        .note_eviction(PARTITION, kind(module), rejections);
                    self.resident[module] -= 1;
                    let (left, here) = (self.resident[module], self.resident[module] > 0);
                    self.stats.set_resident(PARTITION, kind(module), left, here);
                }
                Some((None, density)) if density < PRICE => {
                    gone.push("I".to_owned());
                    self.index = false;
                    self.stats
                        .set_resident(PARTITION, BlockKind::Index, 0, false);
                }
                _ => return gone,
            }
        }
    }

    /// A row: who came, what that did, and what is known afterwards; worth and price by byte, in
    /// ten-thousandths of a page read per window.
    fn row(&mut self, what: &str, did: &str) {
        let view = self.stats.view(PARTITION).unwrap();
        let module = (0..MODULES).find(|module| self.resident[*module] < COLUMNS);
        let next = module.map_or(0.0, |module| {
            self.density_of_next(module, self.resident[module] + 1)
        });
        let (visits, expected) = (view.visits, view.expected.empty);
        let [first, second, third] = self.resident;
        writeln!(
            self.said,
            "{:>4}  {what:<10}{did:<22}{:>6.2}{:>7.2}{expected:>10.2}{:>9.2}{:>7.2}{:>6.2}   \
             {first} {second} {third}  {}",
            self.policy.ticks(),
            visits.empty,
            visits.positive,
            next * 1e4,
            self.density_of_index() * 1e4,
            self.policy.price() * 1e4,
            if self.index { "yes" } else { "no" },
        )
        .unwrap();
    }
}

/// The rows of the document.
fn walk() -> String {
    let mut walk = Walk::new();
    walk.said.push_str(
        "tick  visit     does                  empty  found  expected   column  index price   \
         filter index\n",
    );
    walk.ticks(1);
    walk.row("none", "");
    for count in 1..=VISITS {
        // The other partitions have a visit for every other one of this.
        if count % 2 == 0 {
            for other in 1..PARTITIONS as u32 {
                walk.stats.record(other, Outcome::Rejected, 1);
            }
        }
        let exists = count % 4 == 3;
        let read = walk.visit(exists);
        let did = if read.is_empty() {
            "rejected".to_owned()
        } else {
            format!("reads {}", read.join(" "))
        };
        walk.row(if exists { "found" } else { "empty" }, &did);
        walk.ticks(u32::from(count % 8 == 0));
    }
    while walk.resident != [0; MODULES] || walk.index {
        walk.ticks(2);
        let gone = walk.evict();
        let did = if gone.is_empty() {
            String::new()
        } else {
            format!("evicts {}", gone.join(" "))
        };
        walk.row("none", &did);
    }
    walk.said
}

const OPENS: &str = "```walkthrough\n";

#[test]
fn the_document_follows_a_partition_in_these_numbers() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(OPENS).unwrap();
    let (shown, after) = rest.split_once("```\n").unwrap();
    let said = walk();
    if std::env::var_os("SHAMBA_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{OPENS}{said}```\n{after}")).unwrap();
    } else {
        assert!(said == shown, "differs from {}:\n{said}", path.display());
    }
}
