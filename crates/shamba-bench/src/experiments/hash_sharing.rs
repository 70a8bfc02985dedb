//! What hash sharing gains: lookups that hash their key once beside lookups that hash it once for
//! each table (`Options::hash_sharing(false)`), by key size, number of levels, share of empty
//! lookups and device.
//!
//! After Zhu, Mun, Raman, Athanassoulis, "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern
//! Storage Devices" (DaMoN 2021), section 5. The paper's claims: empty lookups become 10 % faster
//! on a PCIe SSD and 40 % faster on a RAM disk (5 levels, 512-byte keys, Figures 11 to 14); 23 %
//! faster with keys of 1 KiB (Figure 8a); the cost of hashing no longer depends on the number of
//! levels (Figure 8b). Its hash is MurmurHash64, 235 ns for 1 KiB (Table 1). Ours is XXH3, several
//! times quicker and a few nanoseconds for short keys, so that there is less to gain: the column
//! `model, MM64` tells what the same lookups would gain with the paper's hash. Two more things make
//! the gain smaller than the paper's: a visit to a table costs more than a probe (the model's `T_P`
//! holds all of it), and our PCIe SSD takes 61 us a page, the paper's 10. Small data favours
//! sharing, since filters stay in the processor's caches; `--data` makes it larger.
//!
//! Both ways look up the same keys in two copies of one tree (hard links), in one process, in small
//! batches that alternate and change order each time; the median difference of the pairs counts, so
//! that what else the machine does disturbs few of them. Devices are modelled (`fs::MeteredFs`):
//! what they charge is added, and nothing waits. Every answer is checked, and hashes are counted.
//! Beside it stands the prediction of `shamba_model::hash_sharing` (Eqs. 4 and 8): `T_H` is
//! measured here, `T_D` is the device's, and `T_P` what is left of the measured lookup with
//! sharing. Eq. 4 has a lookup visit every level; a lookup asks only files that span its key, which
//! in the smallest levels not all do, so that a little fewer hashes are counted.
mod pairs;
mod tree;

pub(crate) use pairs::Measured;
pub(crate) use tree::Cell;
pub use tree::Place;

use crate::plot::{self, Panel};
use crate::progress::Progress;
use crate::report::Report;
use crate::{Error, Result, cell, row};
use shamba_model::hash_sharing::{Times, Work, leveling};
use std::path::PathBuf;

/// MurmurHash64 of 1 KiB in nanoseconds (Table 1).
const MURMUR_KIB: f64 = 235.0;

/// What to measure. Each sweep changes one thing and leaves the others at their base; the base of
/// the share of empty lookups is 1.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Bytes of a key, at least 8.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,16,32,64,128,256,512,1024"
    )]
    pub key_sizes: Vec<usize>,
    /// Numbers of levels wanted (size ratio 2, the data being about the same); the table has those
    /// that came about. More than 10 take minutes to write.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,6,8,10")]
    pub levels: Vec<u32>,
    /// Shares of empty lookups.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,0.9,1")]
    pub empty: Vec<f64>,
    /// Where the data lies; with --dir also `disk`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "resident,ram,nvm,pcie-ssd,sata-ssd"
    )]
    pub devices: Vec<Place>,
    /// Bytes of a key where it is not the key size that changes.
    #[arg(long, default_value_t = 512)]
    pub base_key: usize,
    /// Levels where it is not their number that changes.
    #[arg(long, default_value_t = 8)]
    pub base_levels: u32,
    /// Bytes of an entry; a key that leaves less than 16 for the value gets 16 more.
    #[arg(long, default_value_t = 1040)]
    pub entry: usize,
    /// Data of a tree, about, in KiB. Many levels may need more.
    #[arg(long, default_value_t = 32 << 10)]
    pub data: u64,
    /// Filter family: auto (the engine's default), bloom, blocked or ribbon; 10 bits per key.
    #[arg(long, default_value = "auto", value_parser = family)]
    pub family: String,
    /// Lookups in a batch.
    #[arg(long, default_value_t = 100)]
    pub batch: usize,
    /// Pairs of batches, of each point.
    #[arg(long, default_value_t = 300)]
    pub pairs: usize,
    /// Times that both databases are opened anew for a point: where things come to lie in memory
    /// changes times by some per cent.
    #[arg(long, default_value_t = 4)]
    pub repeat: usize,
    /// Seconds after which a point ends with the pairs it has.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// A folder on a real disk to measure as well.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn family(name: &str) -> std::result::Result<String, String> {
    let known = tree::family(name).map(|_| name.to_owned());
    known.ok_or_else(|| format!("`{name}` is not auto, bloom, blocked or ribbon"))
}

/// Of a point: bytes of a key, levels wanted, share of empty lookups.
type Values = (usize, u32, f64);

/// What changes from row to row.
struct Sweep {
    name: &'static str,
    axis: &'static str,
    /// Its column in the table.
    column: &'static str,
    values: Vec<Values>,
}

impl Settings {
    fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::InvalidSetting(what.to_owned()));
        if self.devices.contains(&Place::DISK) && self.dir.is_none() {
            return refuse("the device `disk` needs --dir");
        }
        if self
            .key_sizes
            .iter()
            .chain([&self.base_key])
            .any(|k| *k < 8)
        {
            return refuse("keys have at least 8 bytes");
        }
        let levels = self.levels.iter().chain([&self.base_levels]);
        if levels.clone().any(|levels| !(1..=20).contains(levels)) {
            return refuse("levels are 1 to 20");
        }
        if self.empty.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return refuse("shares are 0 to 1");
        }
        if self.batch == 0 || self.pairs == 0 || self.repeat == 0 {
            return refuse("a point needs a batch, a pair of them, and a repetition");
        }
        Ok(())
    }

    /// The trees to be made, each with the shares of empty lookups it is measured at.
    fn cells(&self) -> Vec<Cell> {
        let mut devices = self.devices.clone();
        if self.dir.is_some() && !devices.contains(&Place::DISK) {
            devices.push(Place::DISK);
        }
        let base = (self.base_key, self.base_levels);
        let mut trees: Vec<(usize, u32)> = Vec::new();
        let of_sweeps = self.sweeps().into_iter().flat_map(|sweep| sweep.values);
        for (key, levels, _) in of_sweeps.chain([(base.0, base.1, 1.0)]) {
            if !trees.contains(&(key, levels)) {
                trees.push((key, levels));
            }
        }
        let cell = |(key, levels)| {
            let mut empty = vec![1.0];
            if (key, levels) == base {
                empty.extend(self.empty.iter().filter(|share| **share < 1.0));
            }
            Cell {
                key,
                levels,
                size_ratio: 2,
                tiered: false,
                value: self.entry.saturating_sub(key).max(16),
                data: self.data << 10,
                family: self.family.clone(),
                bits_per_key: 10.0,
                zipf: false,
                devices: devices.clone(),
                empty,
                batch: self.batch,
                pairs: self.pairs,
                repeat: self.repeat,
                seconds: self.seconds,
                dir: self.dir.clone(),
                seed: self.seed,
            }
        };
        trees.into_iter().map(cell).collect()
    }

    /// The sweeps, each over its values with the others at their base.
    fn sweeps(&self) -> [Sweep; 3] {
        let (key, levels) = (self.base_key, self.base_levels);
        let sweep = |name, axis, column, values| Sweep {
            name,
            axis,
            column,
            values,
        };
        let by_key = self.key_sizes.iter().map(|key| (*key, levels, 1.0));
        let by_levels = self.levels.iter().map(|levels| (key, *levels, 1.0));
        let by_share = self.empty.iter().map(|empty| (key, levels, *empty));
        [
            sweep("key size", "bytes of a key", "key B", by_key.collect()),
            sweep("levels", "levels", "levels", by_levels.collect()),
            sweep(
                "empty lookups",
                "share of empty lookups",
                "empty",
                by_share.collect(),
            ),
        ]
    }
}

impl Sweep {
    /// Its measured points, in its order, each with its tree.
    fn points<'a>(&self, found: &'a [(Cell, Vec<Measured>)]) -> Vec<(&'a Cell, &'a Measured)> {
        let of = |(key, levels, empty): &Values| {
            let (tree, empty) = ((*key, *levels), *empty);
            let trees = found.iter().filter(move |(c, _)| (c.key, c.levels) == tree);
            let all = trees.flat_map(|(cell, all)| all.iter().map(move |point| (cell, point)));
            all.filter(move |(_, point)| point.empty == empty)
        };
        self.values.iter().flat_map(of).collect()
    }
}

/// What the model says of a point.
pub(crate) struct Prediction {
    /// Hashes of a lookup without sharing: Eq. 4.
    pub(crate) hashes: f64,
    /// The share of the time that sharing saves: Eq. 8.
    pub(crate) gain: f64,
    /// The same if the key were hashed with MurmurHash64, in the time that was given.
    pub(crate) with_murmur: f64,
}

/// Eq. 4 for the levels of the tree, at the false-positive rate counted; what the measured lookup
/// with sharing takes besides its hash and its reads is the probes' time. `murmur_ns` is what
/// MurmurHash64 of the key takes, in nanoseconds.
pub(crate) fn predict(point: &Measured, murmur_ns: f64) -> Result<Prediction> {
    let model = |error| Error::InvalidSetting(format!("the model refuses: {error}"));
    let positive = 1.0 - point.empty;
    let work = if point.levels >= 2 {
        leveling(2, point.levels, positive, point.false_positives).map_err(model)?
    } else {
        // The closed form is for several levels.
        Work {
            hashes: 1.0,
            probes: 1.0,
            reads: positive + point.empty * point.false_positives,
        }
    };
    let read = point.device.read_ns();
    let rest = point.shared_us * 1e3 - point.hash_ns - point.reads * read;
    let times = Times {
        hash: point.hash_ns,
        probe: (rest / point.tables.max(1e-9)).max(0.0),
        read,
    };
    let gain = |hash| work.gain(&Times { hash, ..times }).map_err(model);
    Ok(Prediction {
        hashes: work.hashes,
        gain: gain(point.hash_ns)?,
        with_murmur: gain(murmur_ns)?,
    })
}

/// What MurmurHash64 of a key of so many bytes takes in the paper, in nanoseconds.
pub(crate) fn murmur_ns(key: usize) -> f64 {
    MURMUR_KIB * key as f64 / 1024.0
}

/// Measures every point. Returns the table and the diagrams: for each sweep what was measured and
/// what the model says.
///
/// # Errors
/// Also where a lookup gives a wrong answer, or hashes more often than it should.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<(Report, Vec<Panel>)> {
    run_with(settings, &cell::measure, note)
}

fn run_with(
    settings: &Settings,
    measure: &dyn Fn(&Cell) -> Result<Vec<Measured>>,
    note: &mut dyn FnMut(String),
) -> Result<(Report, Vec<Panel>)> {
    settings.check()?;
    let cells = settings.cells();
    let mut progress = Progress::default();
    let kind = |cell: &Cell| format!("{} shares", cell.empty.len());
    cells.iter().for_each(|cell| progress.expect(&kind(cell)));
    let mut found = Vec::new();
    for cell in cells {
        progress.start();
        let points = measure(&cell)?;
        note(format!(
            "{} keys of {} B, {} levels",
            progress.done(&kind(&cell)),
            cell.key,
            cell.levels
        ));
        found.push((cell, points));
    }
    let mut report = Report::titled(format!(
        "Hash sharing against a hash for each table, about {} MiB, seed {}: pairs of batches of {}",
        settings.data >> 10,
        settings.seed,
        settings.batch
    ));
    let mut panels = Vec::new();
    for sweep in settings.sweeps() {
        let mut rows = Report::titled("");
        for (cell, point) in sweep.points(&found) {
            let prediction = predict(point, murmur_ns(cell.key))?;
            rows.add(row! {
                "sweep": sweep.name,
                "key B": cell.key,
                "levels": point.levels,
                "empty": point.empty,
                "device": point.device.to_string(),
                "shared us": point.shared_us,
                "per table us": point.each_us,
                "gain %": point.gain * 100.0,
                "+- %": point.uncertain * 100.0,
                "model %": prediction.gain * 100.0,
                "model, MM64 %": prediction.with_murmur * 100.0,
                "hash ns": point.hash_ns,
                "hashes shared": point.shared_hashes,
                "per table": point.each_hashes,
                "Eq. 4": prediction.hashes,
                "reads": point.reads,
                "lookups": point.lookups,
            });
        }
        panels.extend(drawn(&sweep, &rows));
        if report.columns.is_empty() {
            report.columns = rows.columns;
        }
        report.rows.extend(rows.rows);
    }
    Ok((report, panels))
}

/// The gains of a sweep over what it changes, a line for each device: measured, and by the model.
fn drawn(sweep: &Sweep, rows: &Report) -> Vec<Panel> {
    let both = [("measured", "gain %"), ("by the model", "model %")].map(|(what, gain)| {
        let mut panels = plot::of_report(rows, "sweep", "device", sweep.column, gain);
        for panel in &mut panels {
            panel.title = format!("gain by {}, {what}", sweep.name);
            panel.x = sweep.axis.to_owned();
            panel.y = "gain, % (less than 0 as 0)".to_owned();
            for series in &mut panel.series {
                series
                    .points
                    .iter_mut()
                    .for_each(|(_, gain)| *gain = gain.max(0.0));
                series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
        }
        panels
    });
    both.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::report::Cell as Entry;

    fn tiny() -> Settings {
        Settings {
            key_sizes: vec![8, 40],
            levels: vec![1, 5],
            empty: vec![0.0, 1.0],
            devices: vec![
                Place::Resident,
                Place::On(Device::Ram),
                Place::On(Device::Nvm),
            ],
            base_key: 40,
            base_levels: 3,
            entry: 120,
            data: 1024,
            family: "auto".into(),
            batch: 20,
            pairs: 6,
            repeat: 2,
            seconds: 60.0,
            dir: None,
            seed: 5,
        }
    }

    /// The whole experiment in small. Times are not looked at, counts and forms are.
    #[test]
    fn hashes_are_counted_and_every_point_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            dir: Some(dir.path().to_owned()),
            ..tiny()
        };
        let mut notes = Vec::new();
        let (report, panels) = run_with(&settings, &cell::Measurement::measure, &mut |line| {
            notes.push(line)
        })
        .unwrap();
        assert_eq!(notes.len(), 4, "{notes:?}");
        // Two key sizes, two numbers of levels, two shares; three devices and the disk.
        assert_eq!(report.rows.len(), 6 * 4, "{report}");
        let column = |name: &str| report.columns.iter().position(|c| c == name).unwrap();
        let number = |row: &[Entry], name: &str| match row[column(name)] {
            Entry::Number(number) => number,
            _ => panic!("{name} of {row:?}"),
        };
        for row in &report.rows {
            let shared = number(row, "hashes shared");
            assert!((0.9..=1.0).contains(&shared), "{shared} hashes: {report}");
            let (each, levels) = (number(row, "per table"), number(row, "levels"));
            assert!(each <= levels && each >= shared, "{report}");
            if levels >= 3.0 && number(row, "empty") == 1.0 {
                assert_eq!(number(row, "Eq. 4"), levels, "{report}");
            }
            assert_eq!(number(row, "lookups"), 120.0);
            let resident = row[column("device")] == Entry::from("resident");
            let reads = number(row, "reads");
            if resident {
                assert_eq!(reads, 0.0, "{report}");
            } else if number(row, "empty") == 0.0 {
                assert!(reads > 0.3, "little is read: {report}");
            }
        }
        let levels: Vec<f64> = report
            .rows
            .iter()
            .map(|row| number(row, "levels"))
            .collect();
        assert!(levels.contains(&1.0), "{report}");
        let most = report.rows.iter().map(|row| number(row, "per table"));
        assert!(most.fold(0.0, f64::max) > 1.9, "{report}");
        let path = dir.path().join("plot.svg");
        plot::save(&path, &panels, 2).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        for words in ["gain by levels, by the model", "resident", "nvm", "disk"] {
            assert!(text.contains(words), "{words}");
        }
    }

    /// A point as the paper has them: 5 levels, absent keys of 1 KiB in memory.
    #[test]
    fn the_model_is_asked_with_what_was_measured() {
        let point = Measured {
            device: Place::Resident,
            empty: 1.0,
            levels: 5,
            lookups: 1000,
            shared_us: 0.735,
            each_us: 1.7,
            gain: 0.5,
            uncertain: 0.0,
            shared_hashes: 1.0,
            each_hashes: 5.0,
            tables: 5.0,
            reads: 0.0,
            false_positives: 0.0082,
            hash_ns: 235.0,
        };
        let own = predict(&point, murmur_ns(1024)).unwrap();
        // T_P is 100 ns: sharing saves 4 of 5 * (235 + 100).
        assert!(
            (own.gain - 4.0 * 235.0 / 1675.0).abs() < 1e-9,
            "{}",
            own.gain
        );
        assert!((own.with_murmur - own.gain).abs() < 1e-9);
        assert_eq!(own.hashes, 5.0);
        let quick = Measured {
            hash_ns: 35.0,
            ..point.clone()
        };
        let quick = predict(&quick, murmur_ns(1024)).unwrap();
        assert!(quick.gain < own.gain / 2.0 && quick.with_murmur > 2.0 * quick.gain);
        let alone = Measured { levels: 1, ..point };
        assert_eq!(predict(&alone, murmur_ns(1024)).unwrap().gain, 0.0);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |settings: Settings| {
            let measure = |_: &Cell| panic!("measured");
            run_with(&settings, &measure, &mut |_| ()).is_err()
        };
        let of = |change: fn(&mut Settings)| {
            let mut settings = tiny();
            change(&mut settings);
            settings
        };
        assert!(refused(of(|s| s.key_sizes = vec![4])));
        assert!(refused(of(|s| s.base_levels = 0)));
        assert!(refused(of(|s| s.empty = vec![1.5])));
        assert!(refused(of(|s| s.devices = vec![Place::DISK])));
        assert!(refused(of(|s| s.pairs = 0)));
        assert!(family("cuckoo").is_err());
    }
}
