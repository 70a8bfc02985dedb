//! The memory needed for equal reads: the smallest budget at which the default policy reads no more
//! than another engine does with memory for all filters and indexes.
use super::{missing, rocksdb};
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{DISTRIBUTIONS, setting, short};

/// A third of the memory, in percent.
const THIRD: f64 = 33.0;

/// Budgets tried, in percent of filters and indexes, ascending.
const BUDGETS: [f64; 10] = [10.0, 15.0, 20.0, 25.0, 30.0, 33.0, 40.0, 50.0, 70.0, 100.0];

/// Pages of data that a lookup reads, but for false positives: what no filter saves.
fn of_keys_there(found: &Found) -> f64 {
    found.per_lookup("data_pages") - found.per_lookup("false_positives")
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let settings = rocksdb::settings(lab);
    let mut rivals = vec![STATE_OF_THE_ART];
    if !settings.is_empty() {
        rivals.push(rocksdb::BEST);
    }
    let title = "The least budget that is enough (% of filters and indexes)";
    let mut table = Report::titled(title);
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for distribution in DISTRIBUTIONS {
        for positive in [0.0, 0.5, 1.0] {
            let pages = |lab: &mut Lab<'_>, engine: &str, percent| -> Result<Found> {
                let trial = lab.lookups(engine, percent, positive, distribution)?;
                lab.measure(&trial)
            };
            let mut ours = Series::new("our default");
            let mut at_a_third = Found::default();
            for percent in BUDGETS {
                let found = pages(lab, "shamba", percent)?;
                ours.points.push((percent, found.pages()));
                if percent <= THIRD {
                    at_a_third = found;
                }
            }
            let mut series = Vec::new();
            for rival in &rivals {
                let all = if *rival == rocksdb::BEST {
                    let place = (distribution, positive, 100.0);
                    rocksdb::at_its_best(lab, &settings, place)?.unwrap_or_default()
                } else {
                    pages(lab, rival, 100.0)?
                };
                let theirs = all.pages();
                let ends = [(BUDGETS[0], theirs), (100.0, theirs)];
                series.push(Series::of(format!("{} at 100 %", short(rival)), ends));
                let least = ours.points.iter().find(|(_, ours)| *ours <= theirs);
                table.add(row! {
                    "distribution": distribution.name(),
                    "existing": positive,
                    "engine": short(rival),
                    "its pages at 100 %": theirs,
                    "enough %": least.map(|(percent, _)| *percent),
                    "our pages there": least.map(|(_, ours)| *ours),
                });
                let what = format!(
                    "% of memory for the reads of {} with 100 %: {}, {positive} existing",
                    short(rival),
                    distribution.name()
                );
                let enough = least.map_or(f64::INFINITY, |(percent, _)| *percent);
                let mut claim = Claim::goal_to(what, THIRD, enough).because(
                    of_keys_there(&at_a_third) >= theirs,
                    format!(
                        "{WHERE}with a third of the memory {:.3} pages of data are read for keys that are there, and \
                         {theirs:.3} in all by the other",
                        of_keys_there(&at_a_third),
                    ),
                );
                if enough.is_infinite() {
                    claim.measured = format!("more than {}", BUDGETS[BUDGETS.len() - 1]);
                }
                claims.push(claim);
            }
            series.insert(0, ours);
            let title = format!("{}, {positive} existing", distribution.name());
            let x = "our memory, % of filters and indexes";
            panels.push(Panel::new(title, x, "pages read per lookup", series).logarithmic());
        }
    }
    Ok(Findings::of(setting(lab), [table], panels, claims).noting(missing(lab)))
}
