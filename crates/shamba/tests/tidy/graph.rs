//! Which file of the engine uses which: by its `use` lines and by paths in its code, names that are
//! exported again followed to where they are defined. Good for the source as `cargo fmt` leaves it;
//! not a parser.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the root of the crate: `["db", "files"]`.
pub type ModulePath = Vec<String>;

/// The files of the engine, each with those it uses.
pub struct Graph {
    edges: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
}

struct Names {
    modules: BTreeSet<ModulePath>,
    /// What each module's `use` lines call by which name.
    imported: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

impl Names {
    /// A path from a module, from the root; `None` if it is not of the engine.
    fn absolute(&self, from: &ModulePath, path: &[String]) -> Option<ModulePath> {
        let first = path.first()?.as_str();
        match first {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([from, &path[1..]].concat()),
            "super" => {
                let supers = path.iter().take_while(|name| *name == "super").count();
                let home = from.get(..from.len().checked_sub(supers)?)?;
                Some([home, &path[supers..]].concat())
            }
            _ => {
                let child = [&from[..], &path[..1]].concat();
                let known = self.modules.contains(&child);
                known.then(|| [&from[..], path].concat())
            }
        }
    }

    /// The module that defines what a path from the root names.
    fn home_of(&self, path: &[String], depth: usize) -> ModulePath {
        let mut home = ModulePath::new();
        for (at, name) in path.iter().enumerate() {
            let inner = [&home[..], std::slice::from_ref(name)].concat();
            if self.modules.contains(&inner) {
                home = inner;
                continue;
            }
            let exported = self.imported.get(&home).and_then(|names| names.get(name));
            return match exported {
                Some(target) if depth < 8 && *target != path[..=at] => {
                    self.home_of(&[target, &path[at + 1..]].concat(), depth + 1)
                }
                _ => home,
            };
        }
        home
    }
}

/// Splits a path.
fn names(path: &str) -> Vec<String> {
    let names = path.split("::").map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A path of a `use` line, and by which name it is known then.
struct Used {
    path: Vec<String>,
    alias: String,
}

/// The paths of a `use` line without its braces.
fn flatten(prefix: &str, rest: &str, found: &mut Vec<Used>) {
    let Some(open) = rest.find('{') else {
        let (rest, alias) = rest.split_once(" as ").unwrap_or((rest, ""));
        let path = names(&format!("{prefix}{}", rest.trim()));
        let alias = match (alias.trim(), path.last()) {
            ("", Some(last)) => last.clone(),
            (alias, _) => alias.to_owned(),
        };
        found.push(Used { path, alias });
        return;
    };
    let prefix = format!("{prefix}{}", rest[..open].trim());
    let inside = &rest[open + 1..rest.rfind('}').unwrap_or(rest.len())];
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[start..at].trim();
                if !part.is_empty() {
                    flatten(&prefix, part, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The statements that begin with `use`, and the code without them.
fn uses(code: &str) -> (Vec<Used>, String) {
    let (mut found, mut other, mut statement) = (Vec::new(), String::new(), None::<String>);
    for line in code.lines() {
        let text = line.trim();
        let public = text
            .strip_prefix("pub")
            .filter(|rest| rest.starts_with([' ', '(']));
        let inner = match public {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, r)| r),
            Some(rest) => rest.trim(),
            None => text,
        };
        match &mut statement {
            Some(whole) => whole.push_str(text),
            None if inner.starts_with("use ") => statement = Some(inner[4..].to_owned()),
            None => {
                other.push_str(line);
                other.push('\n');
            }
        }
        if let Some(whole) = statement.take_if(|whole| whole.contains(';')) {
            flatten("", whole.split(';').next().unwrap_or_default(), &mut found);
        }
    }
    (found, other)
}

/// The paths in code: names joined by `::`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !is_part(c));
    words
        .filter(|word| word.contains("::"))
        .map(names)
        .collect()
}

impl Graph {
    /// Of files by module path, with their code without comments, strings and tests.
    pub fn of(files: &BTreeMap<ModulePath, String>) -> Graph {
        let mut all = Names {
            modules: files.keys().cloned().collect(),
            imported: BTreeMap::new(),
        };
        let read: BTreeMap<_, _> = files
            .iter()
            .map(|(path, code)| (path, uses(code)))
            .collect();
        for (path, (used, _)) in &read {
            let named = used.iter().filter_map(|used| {
                let target = all.absolute(path, &used.path)?;
                Some((used.alias.clone(), target))
            });
            let named = named.collect();
            all.imported.insert((*path).clone(), named);
        }
        let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (path, (used, code)) in &read {
            let own = &all.imported[*path];
            let in_code = paths(code).into_iter().filter_map(|found| {
                // By the name of a module that a `use` line brought.
                let brought = own.get(&found[0]);
                let module = brought.filter(|target| all.modules.contains(*target));
                match module {
                    Some(target) => Some([target, &found[1..]].concat()),
                    None => all.absolute(path, &found),
                }
            });
            let used = used
                .iter()
                .filter_map(|used| all.absolute(path, &used.path));
            let homes = used.chain(in_code).map(|target| all.home_of(&target, 0));
            let homes = homes.filter(|home| !home.is_empty() && home != *path);
            edges.insert((*path).clone(), homes.collect());
        }
        Graph { edges }
    }

    /// The circles among the outermost modules: each with two files of which one uses the other.
    pub fn circles_of_modules(&self) -> Vec<Vec<String>> {
        let mut outer: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, targets) in self.edges.iter().filter(|(from, _)| !from.is_empty()) {
            let targets = targets.iter().map(|target| target[0].clone());
            let others = targets.filter(|target| *target != from[0]);
            outer.entry(from[0].clone()).or_default().extend(others);
        }
        circles(&outer)
    }

    /// The circles among the files of an outermost module. A file may use the type that its folder
    /// is about, which stands in the folder's `mod.rs`.
    pub fn circles_within(&self, module: &str) -> Vec<Vec<String>> {
        let inside = |path: &ModulePath| path.first().is_some_and(|first| first == module);
        let name = |path: &ModulePath| path.join("/");
        let mut files = BTreeMap::new();
        for (from, targets) in self.edges.iter().filter(|(from, _)| inside(from)) {
            let of_folder = |target: &ModulePath| from.starts_with(target);
            let others = targets
                .iter()
                .filter(|target| inside(target) && !of_folder(target));
            files.insert(name(from), others.map(name).collect());
        }
        circles(&files)
    }

    /// How many uses there are.
    pub fn uses(&self) -> usize {
        self.edges.values().map(BTreeSet::len).sum()
    }
}

/// The sets of nodes that reach each other.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = edges
        .keys()
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                for to in edges.get(at).into_iter().flatten() {
                    if seen.insert(to) {
                        next.push(to);
                    }
                }
            }
            (from, seen)
        })
        .collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, seen) in &reached {
        if seen.contains(from) {
            let back = |to: &&&String| reached.get(**to).is_some_and(|seen| seen.contains(from));
            let circle = seen.iter().filter(back).map(|to| (*to).clone());
            found.insert(circle.collect());
        }
    }
    found.into_iter().collect()
}
