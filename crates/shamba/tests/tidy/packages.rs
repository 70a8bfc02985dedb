//! What is published: each package stands on its own, with licences, a front page and where it
//! comes from.

use std::fs;
use std::path::PathBuf;

use super::{collect, report, root};

/// The folders of the crates that are published, and those of the others.
fn packages() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut manifests = Vec::new();
    collect(&root().join("crates"), "Cargo.toml", &mut manifests);
    let published = |manifest: &PathBuf| {
        let text = fs::read_to_string(manifest).unwrap();
        !text.lines().any(|line| line == "publish = false")
    };
    let (published, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(published);
    let folder = |manifest: PathBuf| manifest.parent().unwrap().to_path_buf();
    (
        published.into_iter().map(folder).collect(),
        others.into_iter().map(folder).collect(),
    )
}

#[test]
fn packages_have_what_a_registry_shows() {
    let (published, others) = packages();
    assert_eq!((published.len(), others.len()), (5, 1));
    let mut complaints = Vec::new();
    for folder in published {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let ours = fs::read(root().join(licence)).unwrap();
            // A file of its own, since a package cannot have what lies outside.
            let path = folder.join(licence);
            let is_file = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
            if !is_file || fs::read(&path).unwrap() != ours {
                complaints.push(format!("{name}: {licence} is not that of the root"));
            }
        }
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        if !readme.starts_with(&format!("# {name}\n")) {
            complaints.push(format!("{name}: its README does not begin with its name"));
        }
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for key in [
            "description = ",
            "license.workspace = true",
            "repository.workspace = true",
            "rust-version.workspace = true",
            "readme = \"README.md\"",
            "keywords = ",
            "categories = ",
            "include = [\"/src\", ",
        ] {
            if !manifest.lines().any(|line| line.starts_with(key)) {
                complaints.push(format!("{name}: no `{key}`"));
            }
        }
        if name != "shamba-cli" && !manifest.contains(&format!("https://docs.rs/{name}")) {
            complaints.push(format!("{name}: no documentation"));
        }
        // A program asks for a version from a registry; a path alone is for the repository.
        for line in manifest.lines() {
            let by_path = line.starts_with("shamba") && line.contains("path = ");
            if by_path && !line.contains("path = \".\"") {
                complaints.push(format!("{name}: a dependency by its path: {line}"));
            }
        }
    }
    report("packages", &complaints);
}

/// The example of a text between its first marks of Rust code.
fn example(text: &str) -> &str {
    let start = text.find("```rust").expect("an example");
    let rest = &text[start..];
    let end = rest[3..].find("```").expect("its end");
    &rest[..end + 3]
}

/// The example of the package's README is compiled (`lib.rs`), and that of the repository is the
/// same.
#[test]
fn both_front_pages_have_one_example() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (ours, packaged) = (read("README.md"), read("crates/shamba/README.md"));
    assert!(example(&ours).contains("fn main()"));
    assert_eq!(example(&ours), example(&packaged));
}

/// The features stand in the manifest, in the README and on the front page of the documentation,
/// and the script checks all of them.
#[test]
fn features_are_documented_where_people_look() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let manifest = read("crates/shamba/Cargo.toml");
    let section = manifest.split("[features]\n").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let features: Vec<&str> = (section.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    assert_eq!(features.len(), 7, "{features:?}");
    let (readme, page) = (
        read("crates/shamba/README.md"),
        read("crates/shamba/src/lib.rs"),
    );
    let script = read(".ci/features");
    for feature in features.into_iter().filter(|name| *name != "default") {
        assert!(
            readme.contains(&format!("`{feature}`")),
            "README: {feature}"
        );
        assert!(
            page.contains(&format!("//! | `{feature}` | ")),
            "lib.rs: {feature}"
        );
        let checked = script.contains(feature) || feature == "testing";
        assert!(checked, ".ci/features: {feature}");
    }
}
