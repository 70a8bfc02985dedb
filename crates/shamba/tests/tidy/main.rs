//! The structure of the source: who imports whom, and the rules of the house that a program can
//! check. The rules are those of ARCHITECTURE.md.

mod documents;
mod graph;
mod layout;
mod packages;
mod papers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use graph::{Graph, ModulePath};

/// Which modules of the engine each may import, by ARCHITECTURE.md's table: the rows of "Modules of
/// the engine", with the names in backquotes of the first and the last column. A name with a path
/// allows that part only, `all` allows everything, and the error type is everybody's.
fn imports() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split_once("## Modules of the engine").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let names = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(|name| name.replace('-', "_")).collect()
    };
    let mut table = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [modules, _, may] = cells[..] else {
            panic!("not a row of three cells: {row}");
        };
        let mut may_import = names(may);
        if may.trim() == "all" {
            may_import.push("*".to_owned());
        }
        for module in names(modules) {
            let before = table.insert(module.clone(), may_import.clone());
            assert!(before.is_none(), "`{module}` is in the table twice");
        }
    }
    assert!(table.len() > 12, "the table of imports was not found");
    table
}

/// No file is longer without tests, unless its first paragraph says why, in these words.
const MOST_LINES: usize = 500;
const REASON: &str = "This file is long because ";

struct Source {
    /// From the root of the repository.
    path: PathBuf,
    text: String,
    /// Declared by its parent for tests only.
    declared_test: bool,
}

impl Source {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The text before its unit tests.
    fn code(&self) -> &str {
        let end = self
            .text
            .find("#[cfg(test)]\nmod tests {")
            .unwrap_or(self.text.len());
        &self.text[..end]
    }

    /// Whether the file is compiled for tests only.
    fn is_test(&self) -> bool {
        let name = self.name();
        self.declared_test || name.contains("/tests/") || name.contains("/benches/")
    }

    /// Whether it belongs to a crate others link to.
    fn is_library(&self) -> bool {
        let name = self.name();
        ["shamba", "shamba-model", "shamba-tune"]
            .iter()
            .any(|library| name.starts_with(&format!("crates/{library}/src/")))
    }

    /// Its module of the engine, if it is one.
    fn module(&self) -> Option<String> {
        let inside = self.path.strip_prefix("crates/shamba/src").ok()?;
        let first = inside.components().next()?.as_os_str().to_str()?;
        Some(first.trim_end_matches(".rs").to_owned())
    }

    /// Lines with their numbers, comments and the insides of strings blanked out.
    fn lines(&self) -> Vec<(usize, String)> {
        self.code()
            .lines()
            .enumerate()
            .map(|(number, line)| (number + 1, without_comment(line)))
            .collect()
    }
}

/// A line without its comment and its strings. Good for rules by line; not a parser.
fn without_comment(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => drop(chars.next()),
            '"' => {
                in_string = !in_string;
                out.push('"');
            }
            '/' if !in_string && chars.peek() == Some(&'/') => break,
            _ if in_string => {}
            _ => out.push(c),
        }
    }
    out
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn collect(dir: &Path, ends: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&entry, ends, found);
        } else if name.ends_with(ends) {
            found.push(entry);
        }
    }
}

fn sources() -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root.join("crates"), ".rs", &mut paths);
    paths.sort();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&root).unwrap().to_path_buf(),
        declared_test: false,
    };
    let mut sources: Vec<Source> = paths.into_iter().map(read).collect();
    // Modules of a module for tests are for tests too.
    loop {
        let tests: BTreeSet<PathBuf> = sources.iter().flat_map(test_modules).collect();
        let found = |source: &&mut Source| !source.declared_test && tests.contains(&source.path);
        let new = sources.iter_mut().filter(found);
        if new.map(|source| source.declared_test = true).count() == 0 {
            break;
        }
    }
    assert!(sources.len() > 40, "the sources were not found");
    sources
}

/// The files a file declares as modules for tests, or tests and fuzzers, only.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let dir = source.path.parent().unwrap();
    let stem = source.path.file_stem().unwrap().to_str().unwrap();
    let home = if matches!(stem, "mod" | "lib" | "main") {
        dir.to_path_buf()
    } else {
        dir.join(stem)
    };
    let mut found = Vec::new();
    let mut cfg_test = false;
    for line in source.text.lines() {
        let declared = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let declared = declared.strip_prefix("pub ").unwrap_or(declared);
        if let Some(name) = declared
            .strip_prefix("mod ")
            .and_then(|line| line.strip_suffix(';'))
            && (cfg_test || source.declared_test)
        {
            found.extend([
                home.join(format!("{name}.rs")),
                home.join(name).join("mod.rs"),
            ]);
        }
        cfg_test = line.starts_with("#[cfg(test)]")
            || line.starts_with("#[cfg(any(test, all(fuzzing, feature = \"testing\")))]")
            || cfg_test && line.starts_with("#[");
    }
    found
}

/// Fails with all complaints at once.
fn report(rule: &str, complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{rule}:\n  {}",
        complaints.join("\n  ")
    );
}

/// The paths after `crate::` in a text, groups in braces taken apart: `a::{b, c::d}` gives `a::b`
/// and `a::c::d`. The crate of models counts as one module, `shamba_model`.
fn crate_paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, name) in text.match_indices("shamba_model::") {
        if text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_')
        {
            found.push(name.trim_end_matches(':').to_owned());
        }
    }
    for (at, _) in text.match_indices("crate::") {
        let before = text[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':' && c != '$') {
            expand("", &text[at + "crate::".len()..], &mut found);
        }
    }
    found
}

/// Expands one path at the start of `rest`; gives what follows it.
fn expand<'a>(prefix: &str, rest: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(rest.len());
    let (path, mut rest) = rest.split_at(end);
    let whole = format!("{prefix}{path}");
    if !(path.ends_with("::") || path.is_empty()) || !rest.starts_with('{') {
        found.push(whole.trim_end_matches(':').to_owned());
        return rest;
    }
    rest = &rest[1..];
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if rest.is_empty() {
            return rest;
        }
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        let before = rest.len();
        rest = expand(&whole, rest, found);
        // `as name`, or something that is no path: go past it.
        if rest.len() == before || rest.trim_start().starts_with("as ") || rest.starts_with('*') {
            let skip = rest.find([',', '}']).unwrap_or(rest.len());
            rest = &rest[skip..];
        }
    }
}

#[test]
fn paths_are_taken_apart() {
    let text = "use crate::a::{b, c::d, e::{f, g as h}};\nlet x = crate::i::j(); $crate::no; my_crate::no; \
                shamba_model::k::l, not_shamba_model::no";
    assert_eq!(
        crate_paths(text),
        [
            "shamba_model",
            "a::b",
            "a::c::d",
            "a::e::f",
            "a::e::g",
            "i::j"
        ]
    );
}

#[test]
fn modules_import_only_what_they_may() {
    let allowed = imports();
    let mut complaints = Vec::new();
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    let mut modules = BTreeSet::new();
    let mut seen = 0;
    for source in sources() {
        let Some(module) = source.module() else {
            continue;
        };
        if source.is_test() {
            continue;
        }
        let Some(may_import) = allowed.get(&module) else {
            complaints.push(format!(
                "{}: `{module}` is not in the table of imports",
                source.name()
            ));
            continue;
        };
        modules.insert(module.clone());
        let code: String = source
            .lines()
            .into_iter()
            .map(|(_, line)| line + "\n")
            .collect();
        for path in crate_paths(&code) {
            let first = path.split("::").next().unwrap_or_default();
            seen += 1;
            // `crate::Error` and `crate::Result` are the error module's.
            if first == module || matches!(first, "error" | "Error" | "Result") {
                continue;
            }
            let fits = |allowed: &&String| {
                *allowed == "*"
                    || *allowed == first
                    || path == **allowed
                    || path.starts_with(&format!("{allowed}::"))
            };
            match may_import.iter().find(fits) {
                Some(allowed) => drop(used.insert((module.clone(), allowed.clone()))),
                None => complaints.push(format!("{}: imports {path}", source.name())),
            }
        }
    }
    assert!(seen > 100, "only {seen} imports were found");
    // The table says what is, not what could be.
    for (module, may_import) in &allowed {
        if !modules.contains(module) {
            complaints.push(format!("ARCHITECTURE.md: there is no module `{module}`"));
        }
        for name in may_import {
            if !used.contains(&(module.clone(), name.clone())) {
                complaints.push(format!(
                    "ARCHITECTURE.md: `{module}` does not import `{name}`"
                ));
            }
        }
    }
    report("imports against ARCHITECTURE.md", &complaints);
}

#[test]
fn crates_depend_downwards() {
    let allowed: [(&str, &[&str]); 6] = [
        ("shamba-model", &[]),
        ("shamba", &["shamba-model"]),
        ("shamba-bench", &["shamba", "shamba-model"]),
        ("shamba-tune", &["shamba", "shamba-model"]),
        // The model is for its tests only, which compute the same again.
        (
            "shamba-cli",
            &["shamba", "shamba-bench", "shamba-model", "shamba-tune"],
        ),
        ("shamba-stress", &["shamba", "shamba-bench"]),
    ];
    let mut complaints = Vec::new();
    for crate_dir in fs::read_dir(root().join("crates")).unwrap() {
        let name = crate_dir.unwrap().file_name();
        if !allowed.iter().any(|(known, _)| **known == *name) {
            complaints.push(format!("{} has no place", name.display()));
        }
    }
    for (name, allowed) in allowed {
        let manifest =
            fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        for line in manifest.lines() {
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or_default();
            // A crate may ask for itself, with a feature for its tests.
            if dependency.starts_with("shamba")
                && dependency != name
                && !allowed.contains(&dependency)
            {
                complaints.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    report("crates against the layers", &complaints);
}

#[test]
fn files_are_short_or_say_why_not() {
    let mut complaints = Vec::new();
    for source in sources() {
        let lines = source.code().lines().count();
        let first: String = (source.text.lines())
            .map_while(|line| line.strip_prefix("//!"))
            .take_while(|line| !line.trim().is_empty())
            .collect();
        if !source.is_test() && lines > MOST_LINES && !first.contains(REASON) {
            complaints.push(format!("{}: {lines} lines without tests", source.name()));
        }
    }
    report(
        "files over 500 lines whose first paragraph does not say why they are that long",
        &complaints,
    );
}

#[test]
fn every_file_says_what_it_is_for() {
    let without = sources()
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "));
    report(
        "files that do not begin with what they are for",
        &without.map(|source| source.name()).collect::<Vec<_>>(),
    );
}

#[test]
fn no_two_types_of_the_engine_have_one_name() {
    let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        if source.module().is_none() || source.is_test() {
            continue;
        }
        for (_, line) in source.lines() {
            let mut words = line
                .split_whitespace()
                .skip_while(|word| word.starts_with("pub"));
            let defines = matches!(words.next(), Some("struct" | "enum" | "trait" | "union"));
            let Some(rest) = words.next().filter(|_| defines) else {
                continue;
            };
            let end = rest
                .find(|c: char| !c.is_alphanumeric())
                .unwrap_or(rest.len());
            let name = rest[..end].to_owned();
            homes.entry(name).or_default().push(source.name());
        }
    }
    assert!(homes.len() > 200, "only {} types were found", homes.len());
    let twice = homes.iter().filter(|(_, homes)| homes.len() > 1);
    let complaints: Vec<_> = twice
        .map(|(name, homes)| format!("{name}: {}", homes.join(", ")))
        .collect();
    report("types of one name", &complaints);
}

#[test]
fn storage_is_reached_only_through_the_fs_module() {
    let mut complaints = Vec::new();
    for source in sources() {
        let name = source.name();
        if !source.is_library() || source.is_test() || name.starts_with("crates/shamba/src/fs/") {
            continue;
        }
        for (number, line) in source.lines() {
            for banned in [
                "std::fs",
                "fs::File",
                "File::open",
                "OpenOptions",
                "rustix::fs",
                "std::os::unix::fs",
            ] {
                if line.contains(banned) && !line.contains("crate::fs") {
                    complaints.push(format!("{name}:{number}: {banned}"));
                }
            }
        }
    }
    report("storage reached past the fs module", &complaints);
}

/// The count of hashes is that of all hashes only as long as lookups hash in one place, which
/// counts.
#[test]
fn keys_are_hashed_where_it_is_counted() {
    let mut complaints = Vec::new();
    for source in sources() {
        let name = source.name();
        let Some(place) = name.strip_prefix("crates/shamba/src/") else {
            continue;
        };
        if source.is_test() || place == "base/digest.rs" {
            continue;
        }
        let mut hashes = 0;
        for (number, line) in source.lines() {
            if line.contains("xxh") {
                complaints.push(format!("{name}:{number}: a hash beside the key digest"));
            }
            if line.contains("KeyDigest::of") {
                hashes += 1;
                // Filters are built in one, and checked in another; cached entries move, and change
                // with tables. What is hashed of prefixes is none of the keys that lookups count.
                if ![
                    "table/builder.rs",
                    "table/verify.rs",
                    "table/builder/scan_filter.rs",
                    "table/verify/scan_filter.rs",
                    "filter/scan.rs",
                    "table/get/lookup.rs",
                    "cache/entries/mod.rs",
                    "cache/entries/hot.rs",
                ]
                .contains(&place)
                {
                    complaints.push(format!("{name}:{number}: a key is hashed"));
                }
            }
        }
        if place == "table/get/lookup.rs" && hashes != 1 {
            complaints.push(format!("{name}: {hashes} places hash keys, one counts"));
        }
    }
    report("keys hashed without being counted", &complaints);
}

#[test]
fn nothing_is_left_undone_and_libraries_print_nothing() {
    let mut complaints = Vec::new();
    for source in sources() {
        let undone = ["TODO", "FIXME", "XXX", "HACK"];
        let macros = ["todo!", "unimplemented!", "dbg!"];
        let prints = ["println!", "eprintln!", "print!", "eprint!"];
        // This file names what it bans.
        if source.path.ends_with("tests/tidy/main.rs") {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            let words: BTreeSet<&str> = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .collect();
            if let Some(word) = undone.iter().find(|word| words.contains(**word)) {
                complaints.push(format!("{}:{}: {word}", source.name(), number + 1));
            }
        }
        for (number, line) in source.lines() {
            let prints: &[&str] = if source.is_library() && !source.is_test() {
                &prints
            } else {
                &[]
            };
            if let Some(word) = macros
                .iter()
                .chain(prints)
                .find(|word| line.contains(**word))
            {
                complaints.push(format!("{}:{number}: {word}", source.name()));
            }
        }
    }
    report("left undone, or printing in a library", &complaints);
}

/// What is public is documented, or stands behind a feature that is.
#[test]
fn nothing_public_is_hidden() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.is_library()) {
        for (number, line) in source.lines() {
            if line.contains("doc(hidden)") {
                complaints.push(format!("{}:{number}", source.name()));
            }
        }
    }
    report("public items hidden from the documentation", &complaints);
}

#[test]
fn unsafe_code_is_rare_and_argued_for() {
    let mut complaints = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        let mut uses = 0;
        for (number, line) in source.text.lines().enumerate() {
            let code = without_comment(line);
            let words: Vec<&str> = code
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .collect();
            if !words.contains(&"unsafe") {
                continue;
            }
            uses += 1;
            let above = lines[number.saturating_sub(8)..=number].iter();
            if !above
                .clone()
                .any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
            {
                complaints.push(format!("{}:{}: no SAFETY line", source.name(), number + 1));
            }
        }
        let says = source.text.contains("unsafe_code, reason")
            || source.text.contains("unsafe_code,\n    reason");
        if uses > 0 && !says && !source.is_test() {
            complaints.push(format!(
                "{}: unsafe without an expectation that gives the reason",
                source.name()
            ));
        }
        if uses > 0 && source.code().lines().count() > 350 {
            complaints.push(format!(
                "{}: unsafe in a file that is not tiny",
                source.name()
            ));
        }
    }
    report("unsafe code", &complaints);
}

#[test]
fn every_file_is_part_of_a_crate() {
    let sources = sources();
    let paths: BTreeSet<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    let is_root = |path: &Path| {
        let name = path.to_string_lossy();
        let parent = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.ends_with("src/lib.rs")
            || name.ends_with("src/main.rs")
            || matches!(parent, "tests" | "examples" | "benches" | "bin")
            || (name.ends_with("/main.rs") && name.contains("/tests/"))
            || name.ends_with("build.rs")
    };
    let mut waiting: Vec<PathBuf> = paths.iter().filter(|path| is_root(path)).cloned().collect();
    while let Some(path) = waiting.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let source = sources.iter().find(|source| source.path == path).unwrap();
        let dir = path.parent().unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let home = if is_root(&path) || stem == "mod" {
            dir.to_path_buf()
        } else {
            dir.join(stem)
        };
        let mut elsewhere: Option<PathBuf> = None;
        for line in source.text.lines().map(str::trim) {
            if let Some(named) = line.strip_prefix("#[path = \"") {
                elsewhere = named.split('"').next().map(|named| dir.join(named));
            }
            let declared = line
                .strip_suffix(';')
                .and_then(|line| line.rsplit_once("mod "))
                .map(|(_, name)| name);
            let Some(name) =
                declared.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
            else {
                continue;
            };
            let candidates = match elsewhere.take() {
                Some(path) => vec![normal(&path)],
                None => vec![
                    home.join(format!("{name}.rs")),
                    home.join(name).join("mod.rs"),
                ],
            };
            waiting.extend(candidates.into_iter().filter(|path| paths.contains(path)));
        }
    }
    let dead: Vec<String> = paths
        .difference(&reached)
        .map(|path| path.display().to_string())
        .collect();
    report("files that no crate compiles", &dead);
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

#[test]
fn the_licences_and_documents_are_there() {
    for file in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "README.md",
        "ARCHITECTURE.md",
        "docs/format.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".ci/run",
    ] {
        let text = fs::read_to_string(root().join(file));
        assert!(
            text.is_ok_and(|text| text.len() > 300),
            "{file} is missing or empty"
        );
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().count();
    assert!(
        lines <= 150,
        "the README has {lines} lines: it is for 30 seconds"
    );
    let checks = fs::read_to_string(root().join(".ci/run")).unwrap();
    let last = checks.lines().last().unwrap();
    assert!(
        readme.contains(last),
        "the README's test command is not `{last}`, which .ci/run ends with"
    );
}

/// What was measured stands in pages that are made from it: in the README it would grow old.
#[test]
fn the_readme_compares_without_figures() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let begun = readme.split_once("## How it compares").unwrap().1;
    let compared = begun.split_once("\n## ").unwrap().0;
    for line in compared.lines().filter(|line| !line.starts_with('<')) {
        // Where a link leads does not count.
        let told = line.split('(').enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        });
        let told: String = told.collect();
        assert!(
            !told.contains(|of: char| of.is_ascii_digit()),
            "the README has a figure by hand: {line}"
        );
    }
}

/// The files of the engine by module, without tests.
fn engine_code() -> BTreeMap<ModulePath, String> {
    let mut files = BTreeMap::new();
    for source in sources() {
        let Ok(inside) = source.path.strip_prefix("crates/shamba/src") else {
            continue;
        };
        if source.is_test() {
            continue;
        }
        let mut path: ModulePath = inside
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if matches!(path.last().map(String::as_str), Some("mod" | "lib")) {
            path.pop();
        }
        let code = source.lines().into_iter().map(|(_, line)| line + "\n");
        files.insert(path, code.collect());
    }
    files
}

#[test]
fn no_import_runs_back_up() {
    let files = engine_code();
    let graph = Graph::of(&files);
    assert!(graph.uses() > 500, "only {} uses were found", graph.uses());
    let mut complaints: Vec<String> = graph
        .circles_of_modules()
        .into_iter()
        .map(|circle| format!("modules: {}", circle.join(", ")))
        .collect();
    let modules: BTreeSet<&String> = files.keys().filter_map(|path| path.first()).collect();
    for module in modules {
        let circles = graph.circles_within(module).into_iter();
        complaints.extend(circles.map(|circle| format!("files: {}", circle.join(", "))));
    }
    report("circles of imports", &complaints);
}

#[test]
fn circles_are_found_by_any_way_of_naming() {
    let file = |path: &str, code: &str| {
        let path = path.split('/').map(str::to_owned).collect::<ModulePath>();
        (path, code.to_owned())
    };
    let files = BTreeMap::from([
        file("a", "pub(crate) use b::{B, C as D};\nuse crate::z::Z;"),
        file("a/b", "pub struct B;\nfn f() { super::c::g(); }"),
        file("a/c", "use super::D;\npub fn g() -> D {}"),
        file(
            "a/d",
            "use super::A;\nuse crate::{y::{self, Y}, z};\nfn f() { z::h(); y::i() }",
        ),
        file("y", "pub struct Y;"),
        file("z", "use crate::a::B;"),
    ]);
    let graph = Graph::of(&files);
    assert_eq!(graph.circles_of_modules(), [["a", "z"]]);
    assert_eq!(graph.circles_within("a"), [["a/b", "a/c"]]);
    assert!(graph.circles_within("y").is_empty());
}
