//! Tells the program of what commit it is: results name it, and the checkout may be another one by
//! the time they are measured.
use std::process::Command;

/// What the program is made of, from this folder; a change makes a build of no commit.
const SOURCES: [&str; 4] = [
    "src",
    "../shamba/src",
    "../shamba-model/src",
    "../../Cargo.lock",
];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["describe", "--always", "--dirty"]);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SHAMBA_COMMIT={commit}");
    // Each commit and each checkout adds a line to it.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
}
