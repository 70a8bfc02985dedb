//! The pages of all results of a folder, as Markdown: one with the verdicts, and one for each paper
//! with every table and, where they lie in the folder, the plots.
use super::catalogue::CATALOGUE;
use super::claim::{self, Claim, Verdict};
use super::{Ended, Experiment, claims_file};
use crate::report::Report;
use crate::{Result, row};
use std::path::Path;

/// Whose claims an experiment is about, by the beginning of its name, and the name of their page.
const SOURCES: [(&str, &str); 5] = [
    ("SHaMBa", "shamba"),
    ("hash sharing", "hash-sharing"),
    ("ElasticBF", "elasticbf"),
    ("Monkey", "monkey"),
    ("this project", OURS),
];

/// The page of this project's own experiments.
const OURS: &str = "ours";

/// The source of an experiment's claims, and its page.
pub(super) fn source(experiment: &Experiment) -> (&'static str, &'static str) {
    let own = |(_, page): &(&str, &str)| experiment.name.starts_with(page);
    SOURCES.into_iter().find(own).unwrap_or_default()
}

/// The experiments that ended in a folder, in the order of `known`.
pub(super) fn read<'a>(out: &Path, known: &'a [Experiment]) -> Vec<(&'a Experiment, Ended)> {
    let ended = |experiment: &Experiment| Ended::read(out, &experiment.name);
    known
        .iter()
        .filter_map(|experiment| Some((experiment, ended(experiment)?)))
        .collect()
}

/// How large the scale `paper` is beside the papers.
const LARGER: &str = "The scale `paper`: as many entries of the same size as the papers have in the figures of SHaMBa and in Monkey's 10, 12 \
     and 13 A to D. The others are larger than at the scale `standard` and smaller than the papers': 512 MiB where hash \
     sharing has 22 GB, 1 GB where ElasticBF has 100 GB, and in Monkey's 13 E and F what the setting says. It was \
     measured once, and is judged by the rules of the scale `standard`: a row that what was kept does not suffice for is \
     not there.";

/// Makes `results.md` and `results/`, with a page for each paper, in `dir`, and one for what ran at
/// a larger scale.
pub(super) fn write(
    dir: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<()> {
    std::fs::create_dir_all(dir.join("results"))?;
    for (of, page) in SOURCES {
        let own = ended.iter().filter(|(known, _)| source(known).1 == page);
        let sections: String = own
            .map(|(known, ended)| section(dir, known, ended))
            .collect();
        if !sections.is_empty() {
            let head = format!("# Experiments: {of}\n\n[All experiments](../results.md)\n");
            std::fs::write(dir.join(format!("results/{page}.md")), head + &sections)?;
        }
    }
    let mut first = index(ended);
    if !paper.is_empty() {
        let sections = paper
            .iter()
            .map(|(known, ended)| section(dir, known, ended));
        let sections: String = sections.collect();
        let (title, places) = ("Experiments at a larger scale", places(paper));
        let text = format!(
            "# {title}\n\n[All experiments](../results.md)\n\n{LARGER}\n\n{places}{sections}"
        );
        std::fs::write(dir.join("results/paper-scale.md"), text)?;
        first += &format!("\n{title}: [those of the headlines](results/paper-scale.md).\n");
    }
    Ok(std::fs::write(dir.join("results.md"), first)?)
}

/// Whether a claim is a goal of this project, whatever came of it.
fn is_ours(experiment: &Experiment, claim: &Claim) -> bool {
    claim.is_goal() || source(experiment).1 == OURS
}

/// What became of an experiment's claims, in words.
fn verdict(ended: &Ended) -> String {
    match &ended.outcome {
        Err(_) => "failed".to_owned(),
        Ok(findings) => claim::in_words(&findings.claims),
    }
}

/// How many claims have which verdict: a row for each paper, and one for this project.
fn totals(ended: &[(&Experiment, Ended)]) -> Report {
    let own = |page: &str| -> Vec<&Ended> {
        let own = ended.iter().filter(|(known, _)| source(known).1 == page);
        own.map(|(_, ended)| ended).collect()
    };
    let sources = SOURCES.iter().filter(|(_, page)| !own(page).is_empty());
    // Each with the page it counts for: what a model says of a goal is no claim of a paper.
    let claims = ended.iter().flat_map(|(known, ended)| {
        let own = ended.outcome.iter().flat_map(|found| &found.claims);
        own.map(|claim| match (claim.is_goal(), claim.verdict) {
            (true, Verdict::ModelOnly) => (OURS, claim),
            _ => (source(known).1, claim),
        })
    });
    let claims: Vec<(&str, &Claim)> = claims.collect();
    Report::of("Claims by their verdicts", sources, |(of, page)| {
        let own = own(page);
        let claims = || {
            claims
                .iter()
                .filter(|(of, _)| of == page)
                .map(|(_, claim)| *claim)
        };
        let count = |verdict| claims().filter(|claim| claim.verdict == verdict).count();
        let failed = own.iter().filter(|ended| ended.outcome.is_err()).count();
        let verdicts =
            Verdict::ALL.map(|(kind, name)| (name.to_owned(), count(kind).to_string().into()));
        let mut row = row! { "claims of": of, "experiments": own.len().to_string() };
        row.extend(verdicts);
        row.extend(row! { "failed": failed.to_string() });
        row
    })
}

/// Where and how large: one line for each combination met. The first is most experiments'; where
/// there are more, the others name theirs.
pub(super) fn places(ended: &[(&Experiment, Ended)]) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (experiment, ended) in ended {
        let place = &ended.place;
        let line = format!(
            "Scale {}, seeds {}, commit {} (program {}), {}, {}, {}",
            ended.scale,
            seeds(ended),
            place.build.commit,
            place.build.binary.get(..12).unwrap_or_default(),
            place.machine,
            place.system,
            place.date
        );
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(&experiment.name),
            None => lines.push((line, vec![&experiment.name])),
        }
    }
    lines.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let told = lines.into_iter().enumerate();
    told.map(|(number, (line, names))| match number {
        0 => format!("{line}.\n\n"),
        _ => format!("{line}: {}.\n\n", names.join(", ")),
    })
    .collect()
}

/// The seeds in a word: `1`, or `1 to 3`.
fn seeds(ended: &Ended) -> String {
    let (first, last) = (ended.seeds.start, ended.seeds.end.saturating_sub(1));
    match last - first {
        0 => first.to_string(),
        _ => format!("{first} to {last}"),
    }
}

/// The first page: how many claims have which verdict, where it was measured, and how long each
/// experiment took.
fn index(ended: &[(&Experiment, Ended)]) -> String {
    let run = |name: &str| ended.iter().any(|(known, _)| known.name == name);
    let all = super::all().iter().map(|known| &known.name[..]);
    let missing: Vec<&str> = all.filter(|name| !run(name)).collect();
    let missing = match missing[..] {
        [] => String::new(),
        _ => format!("Not run: {}.\n\n", missing.join(", ")),
    };
    let each = Report::of("", ended, |(experiment, ended)| {
        let (name, page) = (&experiment.name, source(experiment).1);
        row! {
            "experiment": format!("[{name}](results/{page}.md#{name})"),
            "what": &experiment.title,
            "verdicts": verdict(ended),
            "s": format!("{:.0}", ended.seconds),
        }
    });
    let totals = totals(ended).to_markdown();
    let (places, each) = (places(ended), each.to_markdown());
    let papers: Vec<&str> = ended.iter().map(|(known, _)| source(known).0).collect();
    let left_out = CATALOGUE.left_out(&papers);
    let left_out = match left_out.rows[..] {
        [] => String::new(),
        _ => format!("\n## {}\n\n{}", left_out.title, left_out.to_markdown()),
    };
    format!("# Experiments\n\n{totals}\n{places}{missing}{each}{left_out}")
}

/// An experiment on the page of its paper.
fn section(dir: &Path, experiment: &Experiment, ended: &Ended) -> String {
    let Experiment {
        name, title, claim, ..
    } = experiment;
    let mut text = format!("\n## {name}\n\n{title}.\n\n**The claim:** {claim}\n\n");
    let findings = match &ended.outcome {
        Err(error) => return text + &format!("Failed: {error}\n"),
        Ok(findings) => findings,
    };
    text += &format!("{} Took {:.0} s.\n\n", findings.setting, ended.seconds);
    let (goals, claims): (Vec<_>, Vec<_>) =
        (findings.claims.iter()).partition(|claim| is_ours(experiment, claim));
    text += &claims_table(["claim", "paper"], &claims);
    text += &claims_table(["goal of this project", "aimed at"], &goals);
    for drawing in [claims_file(name), format!("{name}.svg")] {
        if dir.join(&drawing).exists() {
            text += &format!("![{title}](../{drawing})\n\n");
        }
    }
    for note in &findings.notes {
        text += &format!("{note}\n\n");
    }
    for table in &findings.tables {
        let title = format!("{} ({} rows)", table.title, table.rows.len());
        text += &folded(&title, table);
    }
    text
}

/// What is claimed or aimed at, what was measured, and why they differ.
fn claims_table([what, whose]: [&str; 2], claims: &[&Claim]) -> String {
    let table = Report::of("", claims, |claim| {
        let why = claim.explanation();
        let why = why.map_or(String::new(), |why| format!(" *{why}*"));
        row! {
            what: format!("{}{why}", claim.what),
            whose: claim.claimed.clone(),
            "measured": claim.measured.clone(),
            "verdict": claim.in_words(),
        }
    });
    match claims {
        [] => String::new(),
        _ => table.to_markdown() + "\n",
    }
}

/// A table that is shown when its title is clicked.
pub(super) fn folded(title: &str, table: &Report) -> String {
    let table = table.to_markdown();
    format!("<details><summary>{title}</summary>\n\n{table}\n</details>\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Findings, Scale, machine};

    const NAME: &str = "shamba-figure-1";

    fn known() -> [Experiment; 1] {
        let mut known = Experiment::default();
        known.name = NAME.to_owned();
        known.title = "Reads".to_owned();
        known.claim = "Fewer than before.".to_owned();
        [known]
    }

    fn ended(outcome: std::result::Result<Findings, String>) -> Ended {
        Ended {
            name: NAME.to_owned(),
            scale: Scale::Tiny,
            seeds: 1..2,
            place: machine::Place::default(),
            seconds: 2.0,
            outcome,
        }
    }

    #[test]
    fn a_report_says_what_was_claimed_measured_and_concluded() {
        let dir = tempfile::tempdir().unwrap();
        let mut table = Report::new("Pages", &["engine", "pages"]);
        table.push(vec!["a|b".into(), 0.5.into()]);
        let mut panel = crate::plot::Panel::default();
        let line = crate::plot::Series::of("line", [(1.0, 2.0)]);
        panel.series.push(line);
        let findings = Findings {
            setting: "100 entries.".into(),
            tables: vec![table],
            panels: vec![panel],
            claims: vec![
                Claim::figure("speed-up", 2.0, 4.0),
                Claim::figure("gain", 2.0, 1.0).because(true, "the disk"),
                Claim::goal_to("pages of ours", 1.0, 3.0),
            ],
            notes: vec!["one run".into()],
            ..Findings::default()
        };
        ended(Ok(findings)).write(dir.path()).unwrap();
        let known = known();
        let all = read(dir.path(), &known);
        assert_eq!(all.len(), 1);
        write(dir.path(), &all, &[]).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let text = read("results.md") + &read("results/shamba.md");
        for part in [
            "1 above, 1 below, 1 missed",
            "| speed-up *Not explained.* | 2.00 | 4.00 | above |",
            "| gain *Cause: the disk* | 2.00 | 1.00 | below |",
            "| goal of this project | aimed at | measured | verdict |",
            "SHaMBa",
            "100 entries.",
            "one run",
            "| a\\|b | 0.500 |",
            "![Reads](../shamba-figure-1.svg)",
            "![Reads](../shamba-figure-1-claims.svg)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(read("shamba-figure-1.csv"), "engine,pages\na|b,0.5\n");
    }

    #[test]
    fn what_failed_is_said() {
        let dir = tempfile::tempdir().unwrap();
        ended(Err("no space".into())).write(dir.path()).unwrap();
        write(dir.path(), &read(dir.path(), &known()), &[]).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(read("results/shamba.md").contains("Failed: no space"));
        assert!(read("results.md").contains("| failed |"));
    }
}
