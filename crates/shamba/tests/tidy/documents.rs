//! What the documents name is there.

use std::fs;

use super::papers::{defines, quoted};
use super::{collect, report, root};

/// Folders that paths in the documents begin from.
const FOLDERS: [&str; 4] = [
    "",
    "crates/shamba",
    "crates/shamba/src",
    "crates/shamba-bench/src/reproduce",
];

/// The names in backquotes of a text, without what is set as code.
fn names(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.lines().flat_map(quoted))
        .collect()
}

/// Whether a name is that of a type's method, constant, variant or field.
fn is_member(name: &str) -> Option<(&str, &str)> {
    let (of, member) = name.split_once("::")?;
    let word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (of.starts_with(char::is_uppercase) && word(of) && word(member)).then_some((of, member))
}

/// Whether a text has a line that begins with a field or a variant of this name.
fn has_field(text: &str, member: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let line = ["pub(crate) ", "pub "]
            .iter()
            .fold(line, |line, visible| line.trim_start_matches(visible));
        (line.strip_prefix(member))
            .is_some_and(|rest| rest.starts_with([',', ':', '(']) || rest.starts_with(" {"))
    })
}

#[test]
fn what_the_architecture_names_is_there() {
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut paths = Vec::new();
    collect(&root.join("crates"), ".rs", &mut paths);
    let sources: Vec<String> = (paths.iter())
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut complaints = Vec::new();
    let (mut files, mut members) = (0, 0);
    for name in names(&text) {
        let there = if let Some((of, member)) = is_member(name) {
            members += 1;
            sources.iter().any(|text| defines(text, of))
                && (sources.iter()).any(|text| defines(text, member) || has_field(text, member))
        } else if name.contains(' ') {
            continue;
        } else if name.contains('/') {
            files += 1;
            FOLDERS
                .iter()
                .any(|folder| root.join(folder).join(name).exists())
        } else if name.ends_with(".rs") {
            files += 1;
            paths.iter().any(|path| path.ends_with(name))
        } else {
            continue;
        };
        if !there {
            complaints.push(format!("`{name}` is not there"));
        }
    }
    assert!(
        files > 60 && members > 40,
        "{files} files, {members} members"
    );
    report("ARCHITECTURE.md", &complaints);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let mut complaints = Vec::new();
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "docs/format.md",
        "docs/paper-map.md",
        "docs/command.md",
        "docs/experiments.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for rest in text.split("](").skip(1) {
            let link = rest.split([')', '#']).next().unwrap_or_default();
            let home = root.join(document);
            let target = home.parent().unwrap().join(link);
            if !link.contains("://") && !target.exists() {
                complaints.push(format!("{document}: {link}"));
            }
        }
    }
    report("links that lead nowhere", &complaints);
}

/// Where the source says that bytes are specified, they are.
#[test]
fn sections_of_the_format_are_there() {
    let format = fs::read_to_string(root().join("docs/format.md")).unwrap();
    let mut complaints = Vec::new();
    let mut seen = 0;
    for source in super::sources() {
        let comments = source.text.lines().map(|line| {
            let line = line.trim_start().trim_start_matches(['/', '!']);
            line.trim()
        });
        let text = comments.collect::<Vec<_>>().join(" ");
        for rest in text.split("docs/format.md, \"").skip(1) {
            seen += 1;
            let section = rest.split('"').next().unwrap_or_default();
            let heading = format!("# {section}\n");
            if !format.contains(&heading) && !format.contains(&format!("**{section}**")) {
                complaints.push(format!("{}: {section}", source.name()));
            }
        }
    }
    assert!(seen > 15, "{seen} sections named");
    report("sections of docs/format.md", &complaints);
}
