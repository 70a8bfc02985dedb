//! From what is known to what is asked: defaults for what nobody said, and checks of the rest.

use bytesize::ByteSize;
use shamba::KeyspaceOptions;
use shamba_model::ModelError;
use shamba_model::cost::{Design, Device, Environment, Workload};
use shamba_model::search::{Bounds, Knobs, Request};
use shamba_model::tree::{self, MergePolicy};

use crate::database::Known;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::merged::Merged;
use crate::value::{Division, Filter, Number, Policy};

/// What is asked of the model.
#[derive(Debug, Clone)]
pub struct Problem {
    /// All inputs, those assumed included; the same problem follows from them.
    pub inputs: Inputs,
    /// Names and values of inputs that the database told.
    pub from_database: Vec<String>,
    /// Names and values of inputs that nobody told.
    pub assumed: Vec<String>,
    /// What is given and looked for.
    pub request: Request,
    /// The design there is.
    pub present: Design,
    /// The filter family.
    pub filter: Filter,
}

const PAGE: f64 = 4096.0;
const ENTRY: f64 = 128.0;
const READ_MICROS: f64 = 100.0;
const RANGE_ENTRIES: f64 = 100.0;

/// Memory that two of its uses sum to but for rounding.
const ROUNDING: f64 = 1e-6;

impl Problem {
    /// The problem of what was given, of what a database knows, and of defaults.
    ///
    /// # Errors
    /// [`Error::Refused`] where nothing says how many entries there are, and for inputs that make
    /// no sense, alone or together.
    pub fn new(given: Inputs, known: Option<Known>) -> Result<Problem> {
        let Merged {
            mut inputs,
            from_database,
            assumed,
        } = Merged::new(given, known)?;
        let mut maker = Maker { assumed };
        let environment = maker.environment(&mut inputs)?;
        let workload = maker.workload(&mut inputs, &environment)?;
        let present = maker.present(&mut inputs, &environment)?;
        let memory_bytes = inputs.memory.map_or(0.0, |memory| memory.0);
        Ok(Problem {
            request: Request {
                environment,
                workload,
                memory_bytes,
                knobs: knobs(&inputs, &environment, memory_bytes)?,
                bounds: bounds(&inputs)?,
            },
            present,
            filter: inputs.filter.unwrap_or(Filter::Bloom),
            inputs,
            from_database,
            assumed: maker.assumed,
        })
    }
}

/// Collects what it had to assume.
#[derive(Debug)]
struct Maker {
    assumed: Vec<String>,
}

impl Maker {
    /// The value, or a default that is told to the user.
    fn or(&mut self, value: &mut Option<Number>, name: &str, unit: &str, default: f64) -> f64 {
        let assumed = &mut self.assumed;
        let number = value.get_or_insert_with(|| {
            let shown = match unit {
                "bytes" => ByteSize::b(default as u64).display().iec().to_string(),
                "" => default.to_string(),
                unit => format!("{default} {unit}"),
            };
            assumed.push(format!("{name} {shown}"));
            Number(default)
        });
        number.0
    }

    fn environment(&mut self, inputs: &mut Inputs) -> Result<Environment> {
        let entries = inputs.entries.ok_or_else(|| {
            Error::refused(
                "nothing says how many entries there are",
                "give --entries, a --description that has them, or a database folder",
            )
        })?;
        let entry_bytes = self.or(&mut inputs.entry_size, "entry-size", "bytes", ENTRY);
        let page_bytes = self.or(&mut inputs.page_size, "page-size", "bytes", PAGE);
        let micros = self.or(&mut inputs.read_latency, "read-latency", "µs", READ_MICROS);
        let write_cost = self.or(&mut inputs.write_cost, "write-cost", "", 1.0);
        if inputs.filter.is_none() {
            self.assumed.push("filter bloom".to_owned());
            inputs.filter = Some(Filter::Bloom);
        }
        above_zero("entries", entries.0)?;
        above_zero("entry-size", entry_bytes)?;
        above_zero("page-size", page_bytes)?;
        above_zero("read-latency", micros)?;
        not_negative("write-cost", write_cost)?;
        Ok(Environment {
            entries: entries.0,
            entry_bytes,
            device: Device {
                page_bytes,
                read_seconds: micros / 1e6,
                write_cost,
                merge_read_cost: 1.0,
            },
        })
    }

    fn workload(&mut self, inputs: &mut Inputs, environment: &Environment) -> Result<Workload> {
        let shares = normal_shares(inputs)?;
        inputs.set_shares(shares.map(|share| Some(Number(share))));
        let [empty_lookups, existing_lookups, range_lookups, updates] = shares;
        if inputs.range_entries.is_none() && inputs.selectivity.is_none() {
            let entries = RANGE_ENTRIES.min(environment.entries);
            if range_lookups > 0.0 {
                self.assumed.push(format!("range-entries {entries}"));
            }
            inputs.range_entries = Some(Number(entries));
        }
        let selectivity = match (inputs.range_entries, inputs.selectivity) {
            (Some(_), Some(_)) => {
                return Err(Error::refused(
                    "range-entries and selectivity say the same in two ways",
                    "leave one of them out",
                ));
            }
            (Some(Number(entries)), None) => {
                not_negative("range-entries", entries)?;
                entries / environment.entries
            }
            (None, selectivity) => selectivity.map_or(0.0, |share| share.0),
        };
        if !(0.0..=1.0).contains(&selectivity) {
            return Err(Error::refused(
                format!("a range lookup cannot return {selectivity} of all entries"),
                "--selectivity is between 0 and 1, --range-entries between 0 and --entries",
            ));
        }
        Ok(Workload {
            empty_lookups,
            existing_lookups,
            range_lookups,
            updates,
            selectivity,
        })
    }

    /// The present design, and the memory that it has if no other was given.
    fn present(&mut self, inputs: &mut Inputs, environment: &Environment) -> Result<Design> {
        let engine = KeyspaceOptions::default();
        let page = environment.device.page_bytes;
        if let Some(Number(memory)) = inputs.memory
            && memory < page
        {
            return Err(Error::refused(
                format!("a memory of {memory} bytes does not hold one page of {page} bytes"),
                "give more --memory: the write buffer alone takes a page",
            ));
        }
        let policy = *inputs.present_merge_policy.get_or_insert_with(|| {
            self.assumed
                .push("present-merge-policy leveling".to_owned());
            Policy::Leveling
        });
        let ratio = f64::from(engine.size_ratio);
        let ratio = self.or(
            &mut inputs.present_size_ratio,
            "present-size-ratio",
            "",
            ratio,
        );
        let ratio = size_ratio("present-size-ratio", ratio)?;
        let default = inputs.memory.map_or(f64::INFINITY, |memory| memory.0 / 2.0);
        let default = default.min(engine.write_buffer as f64).round().max(page);
        let name = "present-write-buffer";
        let buffer = self.or(&mut inputs.present_write_buffer, name, "bytes", default);
        let full = environment.entries / 8.0;
        let memory = match inputs.memory {
            Some(memory) => memory.0,
            None => {
                let bits = engine.filter.bits_per_key;
                let bits = &mut inputs.present_bits_per_key.unwrap_or(Number(bits)).0;
                not_negative("present-bits-per-key", *bits)?;
                if inputs.present_bits_per_key.is_none() {
                    self.assumed.push(format!("present-bits-per-key {bits}"));
                }
                let memory = (buffer + *bits * full).round();
                self.assumed
                    .push("memory as much as the present design has".to_owned());
                inputs.memory = Some(Number(memory));
                inputs.present_bits_per_key = Some(Number((memory - buffer) / full));
                memory
            }
        };
        if !(page..=memory).contains(&buffer) {
            return Err(Error::refused(
                format!("{name} is {buffer} bytes, but memory is {memory} and a page {page}"),
                "the buffer is at least a page and at most --memory",
            ));
        }
        let left = (memory - buffer) / full;
        let bits = inputs.present_bits_per_key.get_or_insert(Number(left)).0;
        not_negative("present-bits-per-key", bits)?;
        let filter_bytes = if (buffer + bits * full - memory).abs() <= ROUNDING * memory {
            memory - buffer
        } else {
            bits * full
        };
        let allocation = *inputs.present_allocation.get_or_insert_with(|| {
            self.assumed.push("present-allocation uniform".to_owned());
            Division::Uniform
        });
        inputs.allocation.get_or_insert(Division::Monkey);
        let most = tree::largest_size_ratio(environment.data_bytes(), buffer).map_err(explain)?;
        let most = most.floor().clamp(2.0, f64::from(u32::MAX)) as u32;
        if ratio > most {
            self.assumed.push(format!(
                "a present size ratio of {most} instead of {ratio}: the data are no more than {most} write buffers"
            ));
        }
        Ok(Design {
            policy: policy.into(),
            size_ratio: ratio.min(most),
            buffer_bytes: buffer,
            filter_bytes,
            allocation: allocation.into(),
        })
    }
}

/// The shares as parts of 1, those left out as 0.
fn normal_shares(inputs: &Inputs) -> Result<[f64; 4]> {
    let named = inputs.shares();
    for (name, share) in named {
        not_negative(name, share.map_or(0.0, |share| share.0))?;
    }
    let shares = named.map(|(_, share)| share.map_or(0.0, |share| share.0));
    let sum: f64 = shares.iter().sum();
    if (sum - 1.0).abs() <= ROUNDING {
        Ok(shares)
    } else if (sum - 100.0).abs() <= 100.0 * ROUNDING {
        Ok(shares.map(|share| share / 100.0))
    } else {
        let all = named.map(|(name, share)| match share {
            Some(share) => format!("{name} {share}"),
            None => format!("{name} left out"),
        });
        Err(Error::refused(
            format!(
                "the shares of operations sum to {}: {}",
                round(sum),
                all.join(", ")
            ),
            "make them sum to 1, or to 100 if they are percentages; what is left out counts as 0",
        ))
    }
}

fn knobs(inputs: &Inputs, environment: &Environment, memory: f64) -> Result<Knobs> {
    let page = environment.device.page_bytes;
    let buffer = inputs.write_buffer.map(|buffer| buffer.0);
    if let Some(buffer) = buffer
        && !(page..=memory).contains(&buffer)
    {
        return Err(Error::refused(
            format!("write-buffer is {buffer} bytes, but memory is {memory} and a page {page}"),
            "the buffer is at least a page and at most --memory",
        ));
    }
    let ratio = inputs
        .size_ratio
        .map(|ratio| size_ratio("size-ratio", ratio.0));
    let ratio = ratio.transpose()?;
    let most = environment.data_bytes() / buffer.unwrap_or(page);
    if let Some(ratio) = ratio
        && f64::from(ratio) > most.max(2.0)
    {
        return Err(Error::refused(
            format!(
                "size-ratio is {ratio}, but the data are only {:.1} buffers",
                most
            ),
            "give a smaller --size-ratio or --write-buffer",
        ));
    }
    let policies = match inputs.merge_policy {
        Some(policy) => vec![policy.into()],
        None => MergePolicy::ALL.to_vec(),
    };
    Ok(Knobs {
        policies,
        size_ratio: ratio,
        buffer_bytes: buffer,
        allocation: inputs.allocation.unwrap_or(Division::Monkey).into(),
    })
}

fn bounds(inputs: &Inputs) -> Result<Bounds> {
    let bound = |name: &'static str, bound: Option<Number>| {
        bound
            .map(|Number(bound)| above_zero(name, bound).map(|()| bound))
            .transpose()
    };
    Ok(Bounds {
        point_lookup: bound("max-lookup-cost", inputs.max_lookup_cost)?,
        update: bound("max-update-cost", inputs.max_update_cost)?,
    })
}

/// Ten digits: what a person typed, without what computing added.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1e10).round() / 1e10
}

/// A share of 1 in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

fn above_zero(name: &str, value: f64) -> Result<()> {
    if value > 0.0 {
        Ok(())
    } else {
        Err(Error::refused(
            format!("{name} is {value}, but must be above 0"),
            format!("give another --{name}"),
        ))
    }
}

fn not_negative(name: &str, value: f64) -> Result<()> {
    if value >= 0.0 {
        Ok(())
    } else {
        Err(Error::refused(
            format!("{name} is {value}, but must not be negative"),
            format!("give another --{name}"),
        ))
    }
}

fn size_ratio(name: &str, value: f64) -> Result<u32> {
    if value.fract() == 0.0 && (2.0..=f64::from(u32::MAX)).contains(&value) {
        Ok(value as u32)
    } else {
        Err(Error::refused(
            format!("{name} is {value}, but must be a whole number from 2 on"),
            format!("give another --{name}"),
        ))
    }
}

/// A model's error in the words of inputs.
pub(crate) fn explain(error: ModelError) -> Error {
    match error {
        ModelError::OutOfReach { name, bound, best } => {
            let flag = if name.starts_with("the update") {
                "--max-update-cost"
            } else {
                "--max-lookup-cost"
            };
            // Up, so that the hint can be followed.
            let digits = 10f64.powf(3.0 - best.log10().floor());
            let best = (best * digits).ceil() / digits;
            Error::refused(
                format!(
                    "no design keeps {name} at or below {bound} pages; the lowest found is {best}"
                ),
                format!(
                    "raise {flag} to {best}, give more --memory, or free the other bound and what is fixed"
                ),
            )
        }
        other => Error::refused(
            other.to_string(),
            "check entries, sizes and memory: `shamba tune --help` says what they mean",
        ),
    }
}
