//! One report over all results of a folder, as HTML (plots inside, nothing loaded from elsewhere)
//! and as Markdown (a page for each paper, every table, no plots). Made from the experiments' JSON
//! files, so that it can be made anew.
use super::claim::{self, Claim, Verdict};
use super::{Ended, Experiment, Findings, claims_file, table_file};
use crate::Result;
use crate::report::{Cell, Report};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fmt::Write as _;
use std::path::Path;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
table{border-collapse:collapse;margin:.5rem 0;display:block;overflow-x:auto}\
th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.v{font-weight:600;white-space:nowrap}.within,.holds,.met{color:#00614a}.above,.model-only,.not-comparable{color:#00466f}.below,.does-not-hold,.missed,.failed{color:#a33b00}\
section{border-top:2px solid #ddd;margin-top:2rem;padding-top:.5rem}svg{max-width:100%;height:auto}\
.setting{color:#444}summary{cursor:pointer}";

/// Makes `report.html` and `report.md` in `out` of the experiments that ended there; returns them
/// in the order of `known`.
pub fn write(out: &Path, known: &[&Experiment]) -> Result<Vec<Ended>> {
    let ended = read(out, known);
    write_markdown(out, "report", &ended)?;
    std::fs::write(
        out.join("report.html"),
        html_page(out, &ended).into_string(),
    )?;
    Ok(ended.into_iter().map(|(_, ended)| ended).collect())
}

/// The experiments that ended in a folder, in the order of `known`.
pub(super) fn read<'a>(out: &Path, known: &[&'a Experiment]) -> Vec<(&'a Experiment, Ended)> {
    let ended = |experiment: &&'a Experiment| Ended::read(out, experiment.name);
    known
        .iter()
        .filter_map(|experiment| Some((*experiment, ended(experiment)?)))
        .collect()
}

/// What became of an experiment's claims, in words.
fn verdict(ended: &Ended) -> String {
    match &ended.outcome {
        Err(_) => "failed".to_owned(),
        Ok(findings) => claim::in_words(&claim::counts(findings.claims.iter())),
    }
}

/// Whose claims an experiment is about, by the beginning of its name, and the name of their page.
pub(super) const SOURCES: [(&str, &str); 5] = [
    ("SHaMBa", "shamba"),
    ("hash sharing", "hash-sharing"),
    ("ElasticBF", "elasticbf"),
    ("Monkey", "monkey"),
    ("this project", "ours"),
];

/// Whether an experiment is about the claims of that one.
pub(super) fn is_of(experiment: &Experiment, (_, page): (&str, &str)) -> bool {
    let rest = experiment.name.strip_prefix(page);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// How many claims have which verdict: a row for each paper, and one for this project.
fn totals(ended: &[(&Experiment, Ended)]) -> Report {
    let mut columns = vec!["claims of".to_owned(), "experiments".to_owned()];
    columns.extend(Verdict::ALL.map(|verdict| verdict.to_string()));
    columns.push("failed".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut report = Report::new("Claims by their verdicts", &columns);
    for of in SOURCES {
        let own = || ended.iter().filter(|(known, _)| is_of(known, of));
        if own().next().is_none() {
            continue;
        }
        let findings = || own().filter_map(|(_, ended)| ended.outcome.as_ref().ok());
        let counts = claim::counts(findings().flat_map(|findings| &findings.claims));
        let count = |verdict| counts.iter().find(|(known, _)| *known == verdict);
        let number = |count: usize| Cell::from(count.to_string());
        let mut row = vec![of.0.into(), number(own().count())];
        for verdict in Verdict::ALL {
            row.push(number(count(verdict).map_or(0, |(_, count)| *count)));
        }
        row.push(number(own().count() - findings().count()));
        report.push(row);
    }
    report
}

/// The claims of the paper, and the goals of our own, apart: each with the heads of its columns.
fn by_source(claims: &[Claim]) -> [([&'static str; 4], Vec<&Claim>); 2] {
    let (goals, claims): (Vec<_>, Vec<_>) =
        claims.iter().partition(|claim| claim.verdict.is_of_goal());
    [
        (["claim", "paper", "measured", "verdict"], claims),
        (
            ["goal of this project", "aimed at", "measured", "verdict"],
            goals,
        ),
    ]
}

/// Where and how large: one line for each combination met. The first is most experiments'; where
/// there are more, the others name theirs.
pub(super) fn places(ended: &[(&Experiment, Ended)]) -> Vec<String> {
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
            Some((_, names)) => names.push(experiment.name),
            None => lines.push((line, vec![experiment.name])),
        }
    }
    lines.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let told = lines.into_iter().enumerate();
    told.map(|(number, (line, names))| match number {
        0 => line,
        _ => format!("{line}: {}", names.join(", ")),
    })
    .collect()
}

/// The seeds in a word: `1`, or `1 to 3`.
fn seeds(ended: &Ended) -> String {
    let (first, last) = (ended.seeds.start, ended.seeds.end.saturating_sub(1));
    if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    }
}

fn html_page(out: &Path, ended: &[(&Experiment, Ended)]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "SHaMBa: experiments" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Experiments" }
                (html_table(&totals(ended)))
                @for line in places(ended) { p.setting { (line) } }
                table {
                    thead { tr { th { "experiment" } th { "what" } th { "verdicts" } } }
                    tbody {
                        @for (experiment, ended) in ended {
                            tr {
                                td { a href=(format!("#{}", experiment.name)) { (experiment.name) } }
                                td { (experiment.title) }
                                td { (verdict(ended)) }
                            }
                        }
                    }
                }
                @for (experiment, ended) in ended {
                    section id=(experiment.name) {
                        h2 { (experiment.name) ": " (experiment.title) }
                        p { b { "The claim: " } (experiment.claim) }
                        @match &ended.outcome {
                            Err(error) => p.failed { "Failed: " (error) },
                            Ok(findings) => (html_findings(out, ended, findings)),
                        }
                    }
                }
            }
        }
    }
}

fn html_findings(out: &Path, ended: &Ended, findings: &Findings) -> Markup {
    let drawing = std::fs::read_to_string(out.join(format!("{}.svg", ended.name)));
    let claims = std::fs::read_to_string(out.join(claims_file(&ended.name)));
    html! {
        p.setting { (findings.setting) " Took " (format!("{:.0}", ended.seconds)) " s." }
        @for (heads, claims) in by_source(&findings.claims) {
            @if !claims.is_empty() {
                table {
                    thead { tr { @for head in heads { th { (head) } } } }
                    tbody { @for claim in claims { (html_claim(claim)) } }
                }
            }
        }
        // Drawn by this program: no text of others.
        @if let Ok(claims) = claims && ended.beside_the_paper(findings).is_some() {
            (PreEscaped(claims))
        }
        @for note in &findings.notes { p { (note) } }
        @if let Ok(drawing) = drawing && findings.is_drawn() { (PreEscaped(drawing)) }
        @for (number, table) in findings.tables.iter().enumerate() {
            details {
                summary { (table.title) " (" (table.rows.len()) " rows, "
                    a href=(table_file(&ended.name, number)) { "CSV" } ")" }
                (html_table(table))
            }
        }
    }
}

fn html_claim(claim: &Claim) -> Markup {
    html! {
        tr {
            td {
                (claim.what)
                @if let Some(why) = claim.explanation() { br; i { (why) } }
            }
            td.n { (claim.claimed) }
            td.n { (claim.measured) }
            td { span.v.(claim.verdict.class()) { (claim.verdict) } }
        }
    }
}

fn html_table(table: &Report) -> Markup {
    html! {
        table {
            thead { tr { @for column in &table.columns { th { (column) } } } }
            tbody {
                @for row in &table.rows {
                    tr {
                        @for cell in row {
                            @match cell {
                                Cell::Text(text) => td { (text) },
                                _ => td.n { (cell.to_string()) },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Text for a cell of a Markdown table.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Makes the Markdown pages in `dir`: `{stem}.md` has the verdicts, `{stem}/` a page for each
/// paper, with every table.
pub(super) fn write_markdown(dir: &Path, stem: &str, ended: &[(&Experiment, Ended)]) -> Result<()> {
    let pages = dir.join(stem);
    std::fs::create_dir_all(&pages)?;
    for of in SOURCES {
        let own: Vec<_> = ended.iter().filter(|(known, _)| is_of(known, of)).collect();
        if !own.is_empty() {
            let text = markdown_page(stem, of.0, &own)?;
            std::fs::write(pages.join(format!("{}.md", of.1)), text)?;
        }
    }
    Ok(std::fs::write(
        dir.join(format!("{stem}.md")),
        markdown_index(stem, ended)?,
    )?)
}

/// Writing to a string cannot fail.
fn unwritten(_: std::fmt::Error) -> crate::Error {
    crate::Error::Io(std::io::Error::other("formatting"))
}

/// The first page: how many claims have which verdict, where it was measured, and how long each
/// experiment took.
fn markdown_index(stem: &str, ended: &[(&Experiment, Ended)]) -> Result<String> {
    let mut text = String::from("# Experiments\n\n");
    let mut add = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").map_err(unwritten);
    add(format_args!("{}", totals(ended).to_markdown()))?;
    for line in places(ended) {
        add(format_args!("{line}.\n"))?;
    }
    let run = |name: &str| ended.iter().any(|(known, _)| known.name == name);
    let missing = super::all()
        .into_iter()
        .map(|known| known.name)
        .filter(|name| !run(name));
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        add(format_args!("Not run: {}.\n", missing.join(", ")))?;
    }
    add(format_args!(
        "| experiment | what | verdicts | s |\n|---|---|---|---|"
    ))?;
    for (experiment, ended) in ended {
        let (name, title) = (experiment.name, plain(experiment.title));
        let page = SOURCES.iter().find(|of| is_of(experiment, **of));
        let page = page.map_or("", |of| of.1);
        add(format_args!(
            "| [{name}]({stem}/{page}.md#{name}) | {title} | {} | {:.0} |",
            verdict(ended),
            ended.seconds,
        ))?;
    }
    Ok(text)
}

/// The page of a paper's experiments.
fn markdown_page(stem: &str, of: &str, ended: &[&(&Experiment, Ended)]) -> Result<String> {
    let mut text = format!("# Experiments: {of}\n\n[All experiments](../{stem}.md)\n");
    let mut add = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").map_err(unwritten);
    for (experiment, ended) in ended {
        add(format_args!(
            "\n## {}\n\n{}.\n\n**The claim:** {}\n",
            experiment.name, experiment.title, experiment.claim
        ))?;
        let findings = match &ended.outcome {
            Err(error) => {
                add(format_args!("Failed: {error}"))?;
                continue;
            }
            Ok(findings) => findings,
        };
        add(format_args!(
            "{} Took {:.0} s.\n",
            findings.setting, ended.seconds
        ))?;
        for (heads, claims) in by_source(&findings.claims) {
            if claims.is_empty() {
                continue;
            }
            add(format_args!("| {} |\n|---|---|---|---|", heads.join(" | ")))?;
            for claim in claims {
                let why = claim.explanation();
                let why = why.map_or(String::new(), |why| format!(" *{why}*"));
                add(format_args!(
                    "| {}{} | {} | {} | {} |",
                    plain(&claim.what),
                    plain(&why),
                    plain(&claim.claimed),
                    plain(&claim.measured),
                    claim.verdict
                ))?;
            }
            add(format_args!(""))?;
        }
        for note in &findings.notes {
            add(format_args!("{note}\n"))?;
        }
        for table in &findings.tables {
            add(format_args!(
                "<details><summary>{} ({} rows)</summary>\n",
                table.title,
                table.rows.len()
            ))?;
            add(format_args!("{}\n</details>\n", table.to_markdown()))?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Scale, machine};

    const EXPERIMENT: Experiment = Experiment {
        name: "shamba-figure-1",
        title: "Reads & writes",
        claim: "Fewer than <before>.",
        seconds: 1.0,
        run: |_| Ok(Findings::default()),
    };

    fn ended(outcome: std::result::Result<Findings, String>) -> Ended {
        Ended {
            name: EXPERIMENT.name.to_owned(),
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
        panel.series.push(crate::plot::Series {
            name: "line".into(),
            points: vec![(1.0, 2.0)],
        });
        let findings = Findings {
            setting: "100 entries.".into(),
            tables: vec![table],
            panels: vec![panel],
            claims: vec![
                Claim::figure("speed-up", 2.0, 4.0),
                Claim::figure("gain", 2.0, 1.0).because(true, "the <disk>"),
                Claim::goal_to("pages of ours", 1.0, 3.0),
            ],
            notes: vec!["one run".into()],
            ..Findings::default()
        };
        ended(Ok(findings)).write(dir.path()).unwrap();
        let all = write(dir.path(), &[&EXPERIMENT]).unwrap();
        assert_eq!(all.len(), 1);
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let (page, text) = (
            read("report.html"),
            read("report.md") + &read("report/shamba.md"),
        );
        for report in [&page, &text] {
            for part in [
                "1 above, 1 below, 1 missed",
                "Cause: the",
                "Not explained.",
                "goal of this project",
                "SHaMBa",
                "100 entries.",
                "one run",
            ] {
                assert!(report.contains(part), "{part} in {report}");
            }
        }
        assert!(page.contains("Fewer than &lt;before&gt;.") && page.contains("the &lt;disk&gt;"));
        assert_eq!(page.matches("<svg").count(), 2, "the plot and the claims");
        assert!(page.contains("shamba-figure-1.csv"));
        assert_eq!(read("shamba-figure-1.csv"), "engine,pages\na|b,0.5\n");
    }

    #[test]
    fn what_failed_is_said() {
        let dir = tempfile::tempdir().unwrap();
        ended(Err("no space".into())).write(dir.path()).unwrap();
        write(dir.path(), &[&EXPERIMENT]).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(read("report/shamba.md").contains("Failed: no space"));
        assert!(read("report.md").contains("| failed |"));
    }
}
