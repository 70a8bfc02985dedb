//! Figure 15: what modules gain by the size of indexes beside filters, that is, by the size of
//! keys.
use super::beside_rocksdb::OTHER_BASELINE;
use super::pressure::{MEMORY, setting_of};
use crate::reproduce::prelude::*;

/// Bytes of an entry.
const ENTRY: u16 = 128;

/// Index over filter size with 128-byte entries, by key size, as the paper's Table 2 has them (and
/// its text for 124 B).
const PAPER: [(u16, f64); 4] = [(8, 0.2), (32, 0.8), (64, 1.6), (124, 3.1)];

const SIZES: [u16; 4] = [8, 32, 64, 124];

const KEYS: &str = "key bytes";
const TIMES: &str = "times as fast";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (sizes, budgets): (&[u16], &[f64]) = match lab.scale {
        Scale::Tiny => (&[8, 124], &[40.0]),
        Scale::Quick => (&SIZES, &[25.0, 50.0, 75.0, 100.0]),
        _ => (&SIZES, &[10.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0]),
    };
    let mut table = Report::titled("SHaMBa-eq over one filter a file, by key size");
    let mut claimed = Vec::new();
    let base = |lab: &Lab<'_>, engine: &str, size: u16| Base {
        keys: KeyKind::Sized(size),
        value: usize::from(ENTRY - size).into(),
        entries: lab.scale.entries() / 2,
        ..lab.base(engine)
    };
    for &size in sizes {
        let [plain, equal] =
            [STATE_OF_THE_ART, "shamba:shamba-eq"].map(|engine| base(lab, engine, size));
        let filters = plain.entries as f64 * plain.bits_per_key / 8.0;
        let index = lab.metadata(&plain)? as f64 / filters - 1.0;
        let paper = PAPER.iter().find(|paper| paper.0 == size);
        for percent in lab.budgets(&plain, budgets)? {
            let mut measure = |base: &Base| {
                let trial = lab.lookups_in(base.clone(), percent, 0.0, Distribution::Uniform)?;
                lab.measure(&trial.on(Device::Disk))
            };
            let (before, after) = (measure(&plain)?, measure(&equal)?);
            table.add(row! {
                KEYS: u32::from(size),
                "paper, index over filter bytes": paper.map(|paper| paper.1),
                "index over filter bytes": index,
                "budget %": percent,
                "state of the art, us": before.times.mean_us,
                "shamba-eq, us": after.times.mean_us,
                "state of the art, pages": before.pages(),
                "shamba-eq, pages": after.pages(),
                TIMES: before.times.mean_us / after.times.mean_us,
            });
        }
        let gains = table.rows_of(KEYS, u32::from(size));
        claimed.push((size, index, gains.most(TIMES)));
    }
    let best: Vec<f64> = claimed.iter().map(|(.., gain)| *gain).collect();
    let (first, last) = (claimed[0], claimed[claimed.len() - 1]);
    let mut claims = Vec::new();
    let claim = Claim::figure("times as fast, keys of 8 B", 2.0, first.2);
    claims.push(claim.without_verdict(OTHER_BASELINE));
    let grown = claimed
        .iter()
        .fold(0.0, |most, (_, index, _)| index.max(most));
    let what = "the gain shrinks with larger keys";
    let seen = format!("at best {best:.2?} times for keys of {sizes:?} B");
    let claim = Claim::statement(what, "yes", seen, last.2 < first.2);
    claims.push(claim.unless(
        grown < 1.0,
        format!(
            "it is claimed of indexes that are larger than filters; here none takes more than {grown:.3} of their bytes"
        ),
    ));
    let notes = vec![format!(
        "Indexes hardly grow with keys here: separators are cut to the shortest that separate, so that indexes take \
         {:.3} of the bytes of filters with keys of {} B and {:.3} with {} B.",
        first.1, first.0, last.1, last.0
    )];
    let title = "SHaMBa-eq over one filter a file";
    let panel = Panel::of_lines(title, &table, KEYS, "budget %", TIMES).over(MEMORY);
    let setting = setting_of(lab, &base(lab, STATE_OF_THE_ART, sizes[0]));
    Ok(Findings::of(setting, [table], [panel], claims).noting(notes))
}
