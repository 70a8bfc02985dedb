//! Table 2: how large a file's index is beside its filter.
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Findings, Lab};
use crate::store::Base;
use crate::workload::{KeyKind, Sizes};
use crate::{Result, row};

/// Bytes of a file's data, and of a page.
const FILE: u64 = 4 << 20;
const PAGE: u64 = 4 << 10;

const ENTRIES: [u64; 5] = [64, 128, 256, 512, 1024];
const KEYS: [u16; 6] = [8, 32, 64, 96, 128, 256];

/// Filter bits per key.
const BITS: f64 = 10.0;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Bytes of the index over those of the filter");
    let (mut ratios, mut lines) = (Vec::new(), Vec::new());
    let mut shorter = true;
    for entry in ENTRIES {
        let mut line = Series::new(format!("entries of {entry} B"));
        for key in KEYS.into_iter().filter(|key| u64::from(*key) < entry) {
            let entries = FILE / entry;
            let base = Base {
                keys: KeyKind::Sized(key),
                value: Sizes::Fixed((entry - u64::from(key)) as usize),
                // One flush makes one file of all.
                write_buffer: 4 * FILE,
                file_size: 4 * FILE,
                bits_per_key: BITS,
                ..Base::standard(STATE_OF_THE_ART, entries, lab.base("").seed)
            };
            let filter = entries as f64 * BITS / 8.0;
            let index = lab.metadata(&base)? as f64 - filter;
            let pages = (FILE / PAGE) as f64;
            let paper = pages * f64::from(key) / filter;
            let ratio = index / filter;
            shorter &= index / pages < f64::from(key);
            line.points.push((f64::from(key), ratio));
            ratios.push(ratio);
            table.add(row! {
                "entry B": entry as f64,
                "key B": f64::from(key),
                "filter KB": filter / 1000.0,
                "index KB": index / 1000.0,
                "index B a page": index / pages,
                "paper": paper,
                "measured": ratio,
            });
        }
        lines.push(line);
    }
    let cut = "separators are cut to what tells two pages apart: fewer bytes a page than a key has, everywhere";
    let setting = format!(
        "One file of 4 MiB of entries for each row, {BITS} bits per key, one filter a file; keys of random bytes."
    );
    let claim = Claim::range("index over filter, all sizes", (0.1, 51.2), &ratios);
    let claims = vec![claim.because(shorter, cut)];
    let panels =
        vec![Panel::new("Index over filter", "bytes of a key", "times", lines).logarithmic()];
    Ok(Findings::of(setting, [table], panels, claims))
}
