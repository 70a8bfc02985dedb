//! What of a run's results is kept in the project: the pages for people, and the results
//! themselves, compressed, from which all pages can be made again.
use super::{Ended, Experiment, front_page, page};
use crate::{Error, Result};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

/// The results: a JSON line for each experiment, compressed by Zstandard.
pub(super) const DATA: &str = "results.jsonl.zst";

/// The same of experiments at a larger scale, beside those of the scale that is published.
pub(super) const PAPER: &str = "paper-scale.jsonl.zst";

/// What was measured, as a run keeps it, compressed.
const MEASUREMENTS: &str = "measurements.jsonl.zst";

/// Slow, and once a run.
const LEVEL: i32 = 19;

/// Makes the front page, the pages of results and their data in `docs`; `paper` are those at the
/// larger scale, if there are any.
pub(super) fn write(
    docs: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<()> {
    std::fs::create_dir_all(docs)?;
    pages(docs, ended, paper)?;
    pack(&docs.join(DATA), ended)?;
    match paper {
        [] => Ok(()),
        _ => pack(&docs.join(PAPER), paper),
    }
}

/// Keeps results in a file.
fn pack(file: &Path, ended: &[(&Experiment, Ended)]) -> Result<()> {
    let mut data = zstd::Encoder::new(std::fs::File::create(file)?, LEVEL)?;
    for (_, ended) in ended {
        serde_json::to_writer(&mut data, ended)?;
        data.write_all(b"\n")?;
    }
    data.finish()?;
    Ok(())
}

/// Keeps in `docs` what was measured, of a file that a run wrote.
pub(super) fn keep(docs: &Path, measurements: &Path) -> Result<()> {
    let mut to = zstd::Encoder::new(std::fs::File::create(docs.join(MEASUREMENTS))?, LEVEL)?;
    std::io::copy(&mut std::fs::File::open(measurements)?, &mut to)?;
    to.finish()?;
    Ok(())
}

/// The pages alone.
pub(super) fn pages(
    docs: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<()> {
    page::write(docs, ended, paper)?;
    front_page::write(docs, ended, paper)
}

/// The results in a folder, or in a file that [`write`] made.
pub(super) fn read(from: &Path) -> Result<Vec<(&'static Experiment, Ended)>> {
    if from.is_dir() {
        return Ok(page::read(from, super::all()));
    }
    let passing = tempfile::Builder::new().prefix("shamba-").tempdir()?;
    unpack(from, passing.path())?;
    Ok(page::read(passing.path(), super::all()))
}

/// Writes the files of all results in `data` into `out`, as the run that made them did.
pub(super) fn unpack(data: &Path, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out)?;
    let file = std::fs::File::open(data)
        .map_err(|error| Error::InvalidSetting(format!("{}: {error}", data.display())))?;
    for line in BufReader::new(zstd::Decoder::new(file)?).lines() {
        let ended: Ended = serde_json::from_str(&line?)?;
        // Its name is that of files.
        if !super::all().iter().any(|known| known.name == ended.name) {
            let unknown = format!("there is no experiment `{}`", ended.name);
            return Err(Error::InvalidSetting(unknown));
        }
        ended.write(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::catalogue::CATALOGUE;
    use crate::reproduce::{Claim, Findings, Scale, machine};
    use crate::row;

    #[test]
    fn pages_and_results_are_made_again_of_what_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut table = crate::report::Report::titled("Pages");
        table.add(row! { "distribution": "uniform", "existing": 0.0, "our default": 1.0 });
        let [experiment, headline] = &CATALOGUE.headlines[0];
        let findings = Findings {
            tables: vec![table],
            claims: vec![Claim::range(headline, (1.0, 2.0), &[1.5])],
            ..Findings::default()
        };
        let ended = Ended {
            name: experiment.clone(),
            scale: Scale::Tiny,
            seeds: 1..2,
            place: machine::Place::default(),
            seconds: 2.0,
            outcome: Ok(findings),
        };
        std::fs::create_dir_all(at("out")).unwrap();
        ended.write(&at("out")).unwrap();
        let known = crate::reproduce::all();
        let larger = {
            let mut larger = ended.clone();
            larger.scale = Scale::Paper;
            let claims = vec![Claim::range(headline, (1.0, 2.0), &[1.75])];
            larger.outcome.as_mut().unwrap().claims = claims;
            std::fs::create_dir_all(at("larger")).unwrap();
            larger.write(&at("larger")).unwrap();
            super::read(&at("larger")).unwrap()
        };
        write(&at("docs"), &page::read(&at("out"), known), &larger).unwrap();
        unpack(&at("docs").join(DATA), &at("again")).unwrap();
        let larger = super::read(&at("docs").join(PAPER)).unwrap();
        write(&at("docs again"), &page::read(&at("again"), known), &larger).unwrap();
        let read = |name: &str| std::fs::read(at(name)).unwrap();
        for file in [
            "summary.md",
            "summary-headlines-dark.svg",
            "results.md",
            "results/shamba.md",
            "results/paper-scale.md",
            DATA,
            PAPER,
        ] {
            let [one, two] = ["docs", "docs again"].map(|dir| read(&format!("{dir}/{file}")));
            assert_eq!(one, two, "{file}");
        }
        let summary = String::from_utf8(read("docs/summary.md")).unwrap();
        let row = format!("{headline} | 1.00 to 2.00 | 1.50 | within | 1.75 | within |");
        assert!(summary.contains(&row), "{summary}");
        let dark = String::from_utf8(read("docs/summary-headlines-dark.svg")).unwrap();
        assert!(dark.contains("#0D1117") && !dark.contains("#FFFFFF"));
    }

    /// A row that was given another name would be missing without a word; and rules change: what
    /// was kept of a larger scale is judged by those of today, or left out.
    #[test]
    fn headlines_are_published_and_a_larger_scale_has_rows_of_today() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let [rows, larger] = [DATA, PAPER].map(|file| {
            let published = read(&docs.join(file)).unwrap();
            let rows = published.into_iter().flat_map(|(known, ended)| {
                let claims = ended.outcome.unwrap().claims.into_iter();
                claims.map(|claim| (known.name.clone(), claim.what))
            });
            rows.collect::<Vec<_>>()
        });
        for [name, beginning] in &CATALOGUE.headlines {
            let own = rows.iter().filter(|row| row.0 == *name);
            let own = own.filter(|row| row.1.starts_with(beginning));
            let shown = own.map(|row| larger.contains(row)).collect::<Vec<_>>();
            assert!(
                !shown.is_empty() && !shown.contains(&false),
                "{name}: {beginning}"
            );
        }
        // Numbers in the names of rows are the scale's.
        let bare = |row: &(String, String)| (row.0.clone(), row.1.replace(char::is_numeric, ""));
        let rows: Vec<_> = rows.iter().map(bare).collect();
        let unknown = larger.iter().find(|row| !rows.contains(&bare(row)));
        assert_eq!(unknown, None);
    }

    #[test]
    fn results_of_no_known_experiment_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join(DATA);
        let ended = Ended {
            name: "../elsewhere".to_owned(),
            scale: Scale::Tiny,
            seeds: 1..2,
            place: machine::Place::default(),
            seconds: 0.0,
            outcome: Err(String::new()),
        };
        let text = serde_json::to_vec(&ended).unwrap();
        std::fs::write(&data, zstd::encode_all(&text[..], 1).unwrap()).unwrap();
        let error = unpack(&data, dir.path()).unwrap_err().to_string();
        assert!(error.contains("no experiment `../elsewhere`"), "{error}");
        assert!(unpack(&dir.path().join("none"), dir.path()).is_err());
    }
}
