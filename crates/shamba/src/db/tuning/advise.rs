//! Which design suits a keyspace best, and the automatic move to it.
//!
//! The answer is that of `shamba_model::search` for what the engine knows of the keyspace's data,
//! operations and device. Nothing here changes an answer of the database; the automatic mode looks
//! at most once in so many operations, on the thread that does background work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shamba_model::cost::{self, Allocation, Costs, Device, Environment, Workload};
use shamba_model::curve::{Curve, Family as CurveFamily};
use shamba_model::search::{Bounds, Knobs, Request, search};
use shamba_model::{ModelError, tree};

use super::device::DeviceMeter;
use super::redesign::Redesigner;
use crate::budget::{Role, max_memtable_bytes};
use crate::compaction::{MergePolicy, Moving, bytes_to_merge};
use crate::db::context::DbContext;
use crate::db::files::Files;
use crate::db::jobs::Compactor;
use crate::db::keyspaces::KeyspaceInner;
use crate::db::keyspaces::workload::WorkloadEstimate;
use crate::error::{Error, Result};
use crate::fs::PAGE;
use crate::options::{AutoDesign, Design, DeviceCosts, FilterFamily, KeyspaceOptions};

/// Designs are made for so many times the entries there are: the best design for them is full, and
/// would have a level more as soon as they grow.
const GROWTH: f64 = 1.2;

/// Recent operations below which the workload is not known.
const FEW_OPERATIONS: f64 = 1000.0;

/// Lookups that find nothing, those that find something and updates each count as at least this
/// share of all operations: the best design for writes alone has hundreds of runs and no filters,
/// and the first reader would pay for it.
const LEAST_SHARE: f64 = 0.01;

/// The same of range lookups, which read a page of every run.
const LEAST_RANGES: f64 = 0.001;

/// The share of the present cost that an automatic move must save: less is within what estimates of
/// a steady workload waver.
const LEAST_GAIN: f64 = 0.1;

/// Answers in a row that must agree before an automatic move.
const AGREEING: u32 = 3;

/// A move is forecast on copies of what is known of each table, of which an edit makes another, and
/// on lists of so many bytes for each.
const COPIES: u64 = 2;
const LISTED_BYTES: u64 = 64;

/// A design and what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PricedDesign {
    /// The design.
    pub design: Design,
    /// What operations cost, predicted: reads of a page each, for a full tree of this design with
    /// 1.2 times the present entries. A written page counts as [`DeviceCosts::write_cost`] reads.
    pub costs: Costs,
}

/// The present design of a keyspace beside the best one for what is known of it.
///
/// Both have the same memory for write buffer and filters. No kind of operation counts as nothing,
/// or a design could be best only because nobody reads, or writes, just now: updates, and lookups
/// with and without a result, count as a hundredth of the operations each at least, range lookups
/// as a thousandth. The cost of an average operation counts lookups and scans by the part of the
/// data that the memory budget does not hold.
///
/// Predictions are those of Monkey's model (`shamba_model::cost`). It knows nothing else of the
/// block cache, and nothing of the runs that [`KeyspaceOptions::level0_runs`] lets gather under
/// leveling. It takes all merges for merges of whole levels. Leveling by single files keeps its
/// levels full and writes more: in trees that fill for the first time 1.4 times (size ratio 10) to
/// 2.3 times (2) what is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Advice {
    /// What is known of data and operations.
    pub workload: WorkloadEstimate,
    /// The device.
    pub device: DeviceCosts,
    /// The design there is, or that is moved to.
    pub present: PricedDesign,
    /// The best design, of all merge policies, size ratios, buffers and bits; with
    /// [`FilterFamily::Auto`], which has bits of its own, of the present bits and buffer. The
    /// present one if none is better.
    pub best: PricedDesign,
    /// About how many bytes of tables the move to it reads, and as many it writes.
    pub move_bytes: u64,
}

impl Advice {
    /// Reads that the move costs: its pages, read and written.
    #[must_use]
    pub fn move_cost(&self) -> f64 {
        let page = self.device.merge_read_cost + self.device.write_cost;
        self.move_bytes as f64 / PAGE as f64 * page
    }

    /// Reads that an operation of the workload costs less with the best design.
    #[must_use]
    pub fn gain(&self) -> f64 {
        (self.present.costs.average - self.best.costs.average).max(0.0)
    }

    /// Operations after which the move has saved what it cost; infinite if there is no gain.
    #[must_use]
    pub fn pays_after(&self) -> f64 {
        if self.gain() > 0.0 {
            self.move_cost() / self.gain()
        } else {
            f64::INFINITY
        }
    }
}

/// The numbers of one question to the model.
struct Question {
    environment: Environment,
    /// The operations that storage sees, hedged.
    workload: Workload,
    /// How many of the operations these are.
    seen: f64,
    curve: Curve,
    /// The largest buffer that the memory budget lets be used.
    most_buffer: f64,
    /// Bits per key, where the design does not say them.
    fixed_bits: Option<f64>,
    granularity: MergePolicy,
}

impl Question {
    fn entries(&self) -> f64 {
        self.environment.entries
    }

    /// A design as the model knows it. Its size ratio is at most that of a tree of one level.
    fn modelled(&self, design: &Design) -> cost::Design {
        let buffer_bytes = (design.write_buffer as f64).min(self.most_buffer);
        let largest = self.environment.data_bytes() / buffer_bytes;
        let bits = self.fixed_bits.unwrap_or(design.bits_per_key);
        cost::Design {
            policy: design.merge_policy.modelled(),
            size_ratio: design.size_ratio.min(largest.max(2.0) as u32),
            buffer_bytes,
            filter_bytes: bits / 8.0 * self.entries(),
            allocation: Allocation::Uniform,
        }
    }

    fn price(&self, design: Design) -> std::result::Result<PricedDesign, ModelError> {
        let model = self.modelled(&design);
        let mut costs = cost::costs(&model, &self.environment, &self.workload, &self.curve)?;
        costs.average *= self.seen;
        costs.throughput /= self.seen.max(f64::MIN_POSITIVE);
        Ok(PricedDesign { design, costs })
    }

    /// The model's design as one of the engine.
    fn engine(&self, model: &cost::Design, present: &Design) -> Design {
        let bits = model.filter_bytes * 8.0 / self.entries();
        Design {
            merge_policy: match model.policy {
                tree::MergePolicy::Leveling => self.granularity,
                tree::MergePolicy::Tiering => MergePolicy::Tiering,
                tree::MergePolicy::LazyLeveling => MergePolicy::LazyLeveling,
            },
            size_ratio: model.size_ratio.clamp(2, 1000),
            write_buffer: match self.fixed_bits {
                Some(_) => present.write_buffer,
                None => (model.buffer_bytes.ceil() as u64).clamp(PAGE as u64, 2 << 30),
            },
            bits_per_key: match self.fixed_bits {
                Some(_) => present.bits_per_key,
                None => (bits.clamp(0.0, 64.0) * 1000.0).round() / 1000.0,
            },
        }
    }

    fn best(&self, present: &Design) -> std::result::Result<PricedDesign, ModelError> {
        let now = self.modelled(present);
        let ask = |buffer_bytes| {
            let request = Request {
                environment: self.environment,
                workload: self.workload,
                memory_bytes: now.buffer_bytes + now.filter_bytes,
                knobs: Knobs {
                    buffer_bytes,
                    allocation: Allocation::Uniform,
                    ..Knobs::default()
                },
                bounds: Bounds::default(),
            };
            search(&request, &self.curve)
        };
        let mut found = ask(self.fixed_bits.map(|_| now.buffer_bytes))?;
        if found.design.buffer_bytes > self.most_buffer {
            found = ask(Some(self.most_buffer))?;
        }
        // As the engine can have it, which is not always quite what was found.
        let best = self.price(self.engine(&found.design, present))?;
        let present = self.price(*present)?;
        Ok(if best.costs.average < present.costs.average {
            best
        } else {
            present
        })
    }
}

/// Asks the model. Thread-safe.
pub(in crate::db) struct Advisor {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    compactor: Arc<Compactor>,
    redesigner: Arc<Redesigner>,
    device: DeviceMeter,
    /// Whether some keyspace chooses its design itself.
    asks: AtomicBool,
}

impl Advisor {
    pub(in crate::db) fn new(
        shared: &Arc<DbContext>,
        files: &Arc<Files>,
        compactor: &Arc<Compactor>,
        redesigner: &Arc<Redesigner>,
    ) -> Self {
        Advisor {
            shared: shared.clone(),
            files: files.clone(),
            compactor: compactor.clone(),
            redesigner: redesigner.clone(),
            device: DeviceMeter::new(shared),
            asks: AtomicBool::new(false),
        }
    }

    /// Some keyspace chooses its design itself.
    pub(in crate::db) fn begin_to_ask(&self) {
        self.asks.store(true, Relaxed);
    }

    /// The present and the best design; `None` while too little is known or stored.
    pub(in crate::db) fn advise(&self, keyspace: &KeyspaceInner) -> Result<Option<Advice>> {
        self.shared.check_open()?;
        keyspace.check_alive()?;
        // What is known, if it is enough to say anything.
        let known = WorkloadEstimate::of(keyspace);
        let options = KeyspaceOptions::clone(&keyspace.options());
        let design = options.design();
        let limit = self.shared.limit();
        let most_buffer = max_memtable_bytes(limit) as f64;
        let buffer = (design.write_buffer as f64).min(most_buffer);
        let Some(workload) = known.model() else {
            return Ok(None);
        };
        if known.operations < FEW_OPERATIONS || known.entries * known.entry_bytes < 4.0 * buffer {
            return Ok(None);
        }
        // The device, and the lookups that memory does not answer: the others cost no reads in any
        // design.
        let device = self.device.costs()?;
        let held = limit as f64 / (known.entries * known.entry_bytes);
        let (workload, seen) = on_storage(workload, held);
        let question = Question {
            environment: Environment {
                entries: known.entries * GROWTH,
                entry_bytes: known.entry_bytes,
                device: Device {
                    page_bytes: PAGE as f64,
                    read_seconds: device.read_seconds,
                    write_cost: device.write_cost,
                    merge_read_cost: device.merge_read_cost,
                },
            },
            workload: hedged(workload),
            seen,
            curve: curve(options.filter.family)?,
            most_buffer,
            fixed_bits: match options.filter.family {
                FilterFamily::Auto => Some(written_bits(keyspace)),
                _ => None,
            },
            granularity: match design.merge_policy {
                leveling @ MergePolicy::Leveling { .. } => leveling,
                _ => MergePolicy::default(),
            },
        };
        // Present and best are priced by the same model, so that its errors are alike.
        let present = question.price(design).map_err(refused)?;
        let best = question.best(&design).map_err(refused)?;
        let move_bytes = if best == present {
            0
        } else {
            self.bytes_to_move(keyspace, &best.design)
        };
        Ok(Some(Advice {
            workload: known,
            device,
            present,
            best,
            move_bytes,
        }))
    }

    /// About how many bytes of tables a move would read: all, where there is no memory to go
    /// through it.
    fn bytes_to_move(&self, keyspace: &KeyspaceInner, design: &Design) -> u64 {
        let version = keyspace.version();
        let before = KeyspaceOptions::clone(&keyspace.options());
        let options = before.clone().with_design(design);
        let rewrite_filters = before.filter.bits_per_key != options.filter.bits_per_key;
        let mut picker = self.compactor.picker_options(keyspace);
        picker.policy = options.merge_policy;
        picker.size_ratio = options.size_ratio;
        picker.buffer_bytes = options.write_buffer;
        picker.moving = Some(Moving {
            since: u64::MAX,
            bits: if rewrite_filters {
                self.compactor.wanted_bits(&version, &options)
            } else {
                Vec::new()
            },
        });
        let copied = version.files().map(|file| file.memory() + LISTED_BYTES);
        let copied = COPIES * copied.sum::<u64>();
        match self.shared.budget().try_reserve(Role::Tables, copied) {
            Some(_held) => bytes_to_merge(&version, &picker, options.target_file),
            None => version.sums().size,
        }
    }

    /// Asks for keyspaces whose time has come whether a move pays, and begins it.
    pub(in crate::db) fn ask_designs(&self) {
        if !self.asks.load(Relaxed) {
            return;
        }
        for keyspace in self.files.keyspaces() {
            let Some(auto) = keyspace.options().auto_design else {
                continue;
            };
            if let Err(error) = self.ask_design(&keyspace, &auto) {
                log::warn!("keyspace {}: choosing a design: {error}", keyspace.name());
            }
        }
    }

    fn ask_design(&self, keyspace: &Arc<KeyspaceInner>, auto: &AutoDesign) -> Result<()> {
        // Whoever comes second has nothing to ask.
        let Some(mut state) = keyspace.asked_designs().try_lock() else {
            return Ok(());
        };
        let active = keyspace.state().active.len() as u64;
        let operations = keyspace.operations().total(active).operations();
        if operations < state.next {
            return Ok(());
        }
        let first = state.next == 0.0;
        state.next = operations + auto.every as f64;
        if first || keyspace.moving().is_some() {
            return Ok(());
        }
        let pays = |advice: &Advice| {
            let saved = advice.gain() * auto.horizon as f64;
            let worth_it = advice.gain() > LEAST_GAIN * advice.present.costs.average;
            worth_it && saved > auto.factor * advice.move_cost()
        };
        let Some(advice) = self.advise(keyspace)?.filter(pays) else {
            state.agreed = 0;
            return Ok(());
        };
        state.agreed += 1;
        if state.agreed < AGREEING {
            return Ok(());
        }
        state.agreed = 0;
        let rest = (auto.horizon / 10).max(auto.every);
        state.next = operations + rest as f64;
        let best = advice.best.design;
        log::info!("keyspace {}: moving to {best:?}", keyspace.name());
        self.redesigner.redesign(keyspace, &best)
    }
}

/// A workload as the storage sees it, and how many of its operations that are: where memory holds a
/// share of the data, so large a share of the lookups needs no reads, whatever the design (were all
/// keys asked for alike; more of them, if not).
fn on_storage(workload: Workload, held: f64) -> (Workload, f64) {
    let read = (1.0 - held).max(0.0);
    let point_lookups = workload.point_lookups() * read;
    let range_lookups = workload.range_lookups * read;
    let seen = point_lookups + range_lookups + workload.updates;
    let share = |operations: f64| operations / seen.max(f64::MIN_POSITIVE);
    let seen_only = Workload {
        empty_lookups: share(workload.empty_lookups * read),
        existing_lookups: share(workload.existing_lookups * read),
        range_lookups: share(range_lookups),
        updates: share(workload.updates),
        ..workload
    };
    (seen_only, seen)
}

/// A workload with a little of everything.
fn hedged(mut workload: Workload) -> Workload {
    for share in [
        &mut workload.empty_lookups,
        &mut workload.existing_lookups,
        &mut workload.updates,
    ] {
        *share = share.max(LEAST_SHARE);
    }
    workload.range_lookups = workload.range_lookups.max(LEAST_RANGES);
    let sum = workload.point_lookups() + workload.range_lookups + workload.updates;
    Workload {
        empty_lookups: workload.empty_lookups / sum,
        existing_lookups: workload.existing_lookups / sum,
        range_lookups: workload.range_lookups / sum,
        updates: workload.updates / sum,
        ..workload
    }
}

fn refused(error: ModelError) -> Error {
    Error::option("design", format!("the cost model refuses it: {error}"))
}

fn curve(family: FilterFamily) -> Result<Curve> {
    let family = match family {
        FilterFamily::Bloom => CurveFamily::Bloom,
        FilterFamily::BlockedBloom => CurveFamily::Blocked,
        FilterFamily::Ribbon | FilterFamily::Auto => CurveFamily::Ribbon,
    };
    family.curve().map_err(refused)
}

/// The filter bits per key of all tables.
fn written_bits(keyspace: &KeyspaceInner) -> f64 {
    let sums = keyspace.state().version.sums();
    let bits = sums.filter_bytes as f64 * 8.0;
    bits / sums.entries.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_that_memory_answers_ask_for_no_better_design() {
        let workload = Workload {
            empty_lookups: 0.2,
            existing_lookups: 0.3,
            range_lookups: 0.1,
            updates: 0.4,
            selectivity: 1e-5,
        };
        let (half, seen) = on_storage(workload, 0.5);
        assert!((seen - 0.7).abs() < 1e-12);
        assert!((half.updates - 0.4 / 0.7).abs() < 1e-12, "{half:?}");
        assert!((half.existing_lookups - 0.15 / 0.7).abs() < 1e-12);
        assert!((half.range_lookups - 0.05 / 0.7).abs() < 1e-12);
        let (all, seen) = on_storage(workload, 7.0);
        assert!((seen - 0.4).abs() < 1e-12 && (all.updates - 1.0).abs() < 1e-12);
        assert!(hedged(all).updates > 0.97, "{:?}", hedged(all));
        assert_eq!(on_storage(workload, 0.0), (workload, 1.0));
        let only_lookups = Workload {
            updates: 0.0,
            empty_lookups: 0.6,
            ..workload
        };
        let (none, seen) = on_storage(only_lookups, 1.0);
        assert_eq!(seen, 0.0);
        let hedged = hedged(none);
        let sum = hedged.point_lookups() + hedged.range_lookups + hedged.updates;
        assert!((sum - 1.0).abs() < 1e-9, "{hedged:?}");
    }
}
