//! The map of the papers leads to what is there.

use std::collections::BTreeSet;
use std::fs;

use super::{collect, report, root};

/// Where the names of the map are looked for.
struct Repository<'a> {
    /// The text of a file of the folder `crates`, if there is such a file.
    file: &'a dyn Fn(&str) -> Option<String>,
    /// Whether some file has such a function.
    has_function: &'a dyn Fn(&str) -> bool,
    commands: &'a BTreeSet<String>,
}

/// How many names of a map were looked for, and which are not there.
#[derive(Debug, Default, PartialEq)]
struct Looked {
    tests: usize,
    commands: usize,
    /// Functions and types of the files that stand before them.
    items: usize,
    complaints: Vec<String>,
}

/// Whether a text defines a function, a type or a constant of such a name. A name with a type
/// before it (`Partition::reads`) needs both.
pub(crate) fn defines(text: &str, name: &str) -> bool {
    if let Some((first, second)) = name.rsplit_once("::") {
        return defines(text, first) && defines(text, second);
    }
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    kinds.iter().any(|kind| {
        let start = format!("{kind} {name}");
        text.match_indices(&start).any(|(at, _)| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let before = text[..at].chars().next_back();
            let after = text[at + start.len()..].chars().next();
            !before.is_some_and(word) && !after.is_some_and(word)
        })
    })
}

impl Repository<'_> {
    /// The text of a module of the models: of its file, and of its folder's files but tests.
    fn model(&self, module: &str) -> Option<String> {
        let files = ["", "/mod", "/curve", "/start", "/state"];
        let of = |file: &str| (self.file)(&format!("shamba-model/src/{module}{file}.rs"));
        let found: Vec<String> = files.into_iter().filter_map(of).collect();
        (!found.is_empty()).then(|| found.join("\n"))
    }

    /// Looks for each name in backquotes of a map. Its rows have five columns: item, formula, code,
    /// test, command.
    fn look(&self, map: &str) -> Looked {
        let mut looked = Looked::default();
        for row in map.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            if let [_, formula, code, test, command] = cells[..] {
                self.look_for_code(formula, &mut looked);
                self.look_for_code(code, &mut looked);
                for name in quoted(test) {
                    looked.tests += 1;
                    looked.note(name, (self.has_function)(name));
                }
                for name in quoted(command) {
                    looked.commands += 1;
                    looked.note(name, is_command(name, self.commands));
                }
            }
        }
        looked
    }

    /// Looks for modules, files, and the functions and types behind each.
    fn look_for_code(&self, cell: &str, looked: &mut Looked) {
        let mut home = None;
        for name in quoted(cell) {
            let there = if let Some(path) = name.strip_prefix("M::") {
                let (module, item) = path.split_once("::").unwrap_or((path, ""));
                home = self.model(module);
                looked.items += usize::from(!item.is_empty());
                let has = |text: &String| item.is_empty() || defines(text, item);
                home.as_ref().is_some_and(has)
            } else if name.ends_with(".rs") {
                home = (self.file)(&format!("shamba/src/{name}"));
                home.is_some()
            } else if name.starts_with("shamba ") {
                is_command(name, self.commands)
            } else {
                looked.items += 1;
                home.as_ref().is_some_and(|text| defines(text, name))
            };
            looked.note(name, there);
        }
    }
}

impl Looked {
    fn note(&mut self, name: &str, there: bool) {
        if !there {
            self.complaints.push(format!("`{name}` is not there"));
        }
    }
}

/// The names in backquotes.
pub(crate) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The map of the papers leads to files, functions, types, tests and commands that exist, each
/// function in the file that it stands behind.
#[test]
fn the_map_of_the_papers_is_true() {
    let root = root();
    let map = fs::read_to_string(root.join("docs/paper-map.md")).unwrap();
    let mut paths = Vec::new();
    collect(&root.join("crates"), ".rs", &mut paths);
    let all: Vec<String> = (paths.iter())
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let repository = Repository {
        file: &|path| fs::read_to_string(root.join("crates").join(path)).ok(),
        has_function: &|name| all.iter().any(|text| text.contains(&format!("fn {name}("))),
        commands: &commands(),
    };
    let looked = repository.look(&map);
    assert!(looked.tests > 40, "{looked:?}");
    assert!(looked.commands > 30, "{looked:?}");
    assert!(looked.items > 60, "{looked:?}");
    report("docs/paper-map.md", &looked.complaints);
}

#[test]
fn a_wrong_name_in_the_map_is_found() {
    let file = |path: &str| {
        let text = match path {
            "shamba-model/src/worth.rs" => "pub struct Block;\nimpl Block { pub fn reads() {} }",
            "shamba/src/a/b.rs" => "pub(super) fn read() {}\nfn next_of() {}",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let look = |row: &str| {
        let repository = Repository {
            file: &file,
            has_function: &|name| name == "it_works",
            commands: &["pressure", "shamba tune"].map(str::to_owned).into(),
        };
        repository.look(row)
    };
    let right = "| item | `M::worth::Block::reads`, `Block` | `a/b.rs` `read`; `M::worth`; \
                 `shamba tune` | `it_works` | `pressure` |";
    let expected = Looked {
        tests: 1,
        commands: 1,
        items: 3,
        complaints: Vec::new(),
    };
    assert_eq!(look(right), expected);
    for (there, wrong) in [
        ("M::worth", "M::value"),
        ("Block::reads", "Block::writes"),
        ("`Block`", "`Bloc`"),
        ("a/b.rs", "b.rs"),
        // A part of a name is not the name, and a function of another file is not of this one.
        ("`read`", "`next`"),
        ("`read`", "`reads`"),
        ("it_works", "it_work"),
        ("pressure", "pressures"),
        ("shamba tune", "shamba prune"),
    ] {
        let complaints = look(&right.replace(there, wrong)).complaints;
        assert!(!complaints.is_empty(), "{wrong}");
    }
}

/// What can be asked for: the commands of `shamba-bench` and of `shamba` (as `shamba tune`), and
/// the names of experiments.
fn commands() -> BTreeSet<String> {
    let crates = root().join("crates");
    let read = |path: &str| fs::read_to_string(crates.join(path)).unwrap();
    let mut found = commands_of(&read("shamba-bench/src/main.rs"));
    let of_shamba = commands_of(&read("shamba-cli/src/args.rs"));
    assert!(found.len() >= 8 && of_shamba.len() > 10, "{found:?}");
    found.extend(of_shamba.iter().map(|name| format!("shamba {name}")));
    let experiments = read("shamba-bench/src/reproduce/experiments.toml");
    let named = experiments.split("\nname = \"").skip(1);
    found.extend(named.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
    found
}

/// The commands of a program, as clap names those of its `enum Command`.
fn commands_of(source: &str) -> BTreeSet<String> {
    let body = source.split_once("enum Command {").unwrap().1;
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
    found
}

/// Whether a cell's text begins with a command, and an experiment's name follows `reproduce`. What
/// begins with a sign goes on from the one before: options and words of engines; `shamba:` is one.
fn is_command(text: &str, commands: &BTreeSet<String>) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    match first {
        "shamba" => match words.next() {
            // The engine of that name, and its options.
            None => true,
            Some(word) => word.starts_with('-') || commands.contains(&format!("shamba {word}")),
        },
        "reproduce" => words.all(|word| word.starts_with('-') || commands.contains(word)),
        first if first.starts_with(['-', '+']) || first.starts_with("shamba:") => true,
        // Continues a range of experiments: "`reproduce a-figure-6` to `-9`", "`a-figure-7`".
        first => commands.contains(first),
    }
}

#[test]
fn commands_are_known_by_their_names() {
    let commands = commands();
    for name in [
        "pressure",
        "reproduce shamba-figure-6",
        "shamba",
        "shamba tune --serve",
    ] {
        assert!(is_command(name, &commands), "{name}");
    }
    for name in [
        "ribbon",
        "reproduce ribbon",
        "Pressure",
        "shamba pressure",
        "",
    ] {
        assert!(!is_command(name, &commands), "{name:?}");
    }
}
