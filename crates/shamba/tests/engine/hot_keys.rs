//! Absent keys that are asked for again and again: memory goes to the filter columns that turn them
//! away, and not to as many as independent visits would need.

use crate::common::{Rng, scattered_key as key};
use shamba::{Counters, Db};

/// The least budget has less than six bits for each.
const KEYS: u64 = 1_600_000;
const LOOKUPS: u32 = 160_000;

/// All keys in one run, opened with little memory, of which no cached entry turns a key away.
fn opened() -> Db {
    crate::common::scarce_run(KEYS, |options| options.cache_entries(false))
}

/// Looks up absent keys, of which `draw` names the next by a number from 0 to 1 drawn at random,
/// and gives the pages read for each of the later ones.
fn pages_per_lookup(draw: impl Fn(f64) -> u64) -> f64 {
    let db = opened();
    let mut rng = Rng::new(1);
    let mut look_up = |lookups: u32| {
        for _ in 0..lookups {
            let number = draw(rng.next() as f64 / u64::MAX as f64);
            assert!(db.get(key(2 * number + 1)).unwrap().is_none());
        }
        let Counters {
            data_pages,
            index_pages,
            filter_pages,
            ..
        } = db.stats().counters;
        data_pages + index_pages + filter_pages
    };
    let before = look_up(LOOKUPS);
    let after = look_up(LOOKUPS);
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    (after - before) as f64 / f64::from(LOOKUPS)
}

/// Ranks by a power law (their logarithms are uniform), scattered over the keys.
fn skewed(drawn: f64) -> u64 {
    let rank = (KEYS as f64).powf(drawn) as u64;
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS
}

#[test]
fn columns_that_turn_hot_keys_away_stay() {
    // .040; .103 where it counts for nothing whom a column turned away.
    let pages = pages_per_lookup(skewed);
    assert!(pages < 0.048, "{pages} pages per lookup");
}

#[test]
fn keys_that_come_once_in_a_while_do_not_disturb_the_model() {
    // .065; .278 where it counts for nothing whom a column turned away.
    let pages = pages_per_lookup(|drawn| (drawn * KEYS as f64) as u64);
    assert!(pages < 0.077, "{pages} pages per lookup");
}
