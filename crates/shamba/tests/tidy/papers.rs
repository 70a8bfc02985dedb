//! The map of the papers leads to what is there.

use std::collections::BTreeSet;
use std::fs;

use super::{collect, report, root};

/// The map of the papers leads to files, functions and tests that exist.
#[test]
fn the_map_of_the_papers_is_true() {
    let root = root();
    let map = fs::read_to_string(root.join("docs/paper-map.md")).unwrap();
    let mut paths = Vec::new();
    collect(&root.join("crates"), ".rs", &mut paths);
    let all: Vec<String> = (paths.iter())
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let defined = |name: &str| {
        let function = format!("fn {name}(");
        all.iter().any(|text| text.contains(&function))
    };
    let commands = commands();
    let mut complaints = Vec::new();
    let (mut tests, mut measured) = (0, 0);
    for row in map.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').skip(1).collect();
        for (column, cell) in cells.iter().enumerate() {
            for name in cell.split('`').skip(1).step_by(2) {
                let there = match (column, name.strip_prefix("M::")) {
                    (_, Some(path)) => {
                        let module = path.split("::").next().unwrap_or_default();
                        let source = root.join("crates/shamba-model/src").join(module);
                        let last = path.rsplit("::").next().unwrap_or_default();
                        (source.is_dir() || source.with_extension("rs").is_file())
                            && (last == module
                                || defined(last)
                                || last.starts_with(char::is_uppercase))
                    }
                    (2, None) if name.contains('/') => {
                        root.join("crates/shamba/src").join(name).exists()
                    }
                    (3, None) => {
                        tests += 1;
                        defined(name)
                    }
                    // Five columns; a later table has other ones.
                    (4, None) if cells.len() == 6 => {
                        measured += 1;
                        is_command(name, &commands)
                    }
                    _ => true,
                };
                if !there {
                    complaints.push(format!("docs/paper-map.md: `{name}` is not there"));
                }
            }
        }
    }
    assert!(tests > 20, "{tests} tests found in the map");
    assert!(measured > 20, "{measured} commands found in the map");
    report("the map of the papers", &complaints);
}

/// What `shamba-bench` can be asked for: its commands, as clap names those of `enum Command`, and
/// the names of experiments.
fn commands() -> BTreeSet<String> {
    let root = root().join("crates/shamba-bench/src");
    let main = fs::read_to_string(root.join("main.rs")).unwrap();
    let body = main.split_once("enum Command {").unwrap().1;
    let body = body.split_once("\n}").unwrap().0;
    let mut found = BTreeSet::new();
    for line in body.lines().map(str::trim) {
        let end = line.find(|c: char| !c.is_alphanumeric());
        let name = &line[..end.unwrap_or(line.len())];
        if !name.starts_with(char::is_uppercase) || line.starts_with('/') {
            continue;
        }
        let mut kebab = String::new();
        for c in name.chars() {
            if c.is_uppercase() && !kebab.is_empty() {
                kebab.push('-');
            }
            kebab.extend(c.to_lowercase());
        }
        found.insert(kebab);
    }
    assert!(found.len() > 10, "{found:?}");
    let mut paths = Vec::new();
    collect(&root.join("reproduce"), ".rs", &mut paths);
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        let named = text.split("\n    name: \"").skip(1);
        found.extend(named.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
    }
    found
}

/// Whether a cell's text begins with a command, and an experiment's name follows `reproduce`. What
/// begins with a sign goes on from the one before: options and words of engines; `shamba:` is one.
fn is_command(text: &str, commands: &BTreeSet<String>) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    match first {
        "shamba" => words.next().is_none_or(|word| word.starts_with('-')),
        "reproduce" => words.all(|word| word.starts_with('-') || commands.contains(word)),
        first if first.starts_with(['-', '+']) || first.starts_with("shamba:") => true,
        // Continues a range of experiments: "`reproduce a-figure-6` to `-9`", "`a-figure-7`".
        first => commands.contains(first),
    }
}

#[test]
fn commands_are_known_by_their_names() {
    let commands = commands();
    for name in ["pressure", "moving-hot-spot", "reproduce shamba-figure-6"] {
        assert!(is_command(name, &commands), "{name}");
    }
    for name in ["ribbon", "reproduce ribbon", "Pressure", ""] {
        assert!(!is_command(name, &commands), "{name:?}");
    }
}
