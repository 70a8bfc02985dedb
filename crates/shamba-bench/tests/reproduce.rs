//! Every experiment of `shamba-bench reproduce` runs, in its tiny form: so none can rot.
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str], home: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
        .args(arguments)
        .args(["--out".as_ref(), home.join("results").as_os_str()])
        .args(["--dir".as_ref(), home.join("databases").as_os_str()])
        .env("TMPDIR", home)
        .output()
        .unwrap()
}

fn succeeded(output: &Output) -> String {
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    log
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_experiment_runs_and_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let results = home.path().join("results");
    let log = succeeded(&bench(
        &["reproduce", "all", "--scale", "tiny"],
        home.path(),
    ));
    let page = std::fs::read_to_string(results.join("results.md")).unwrap();
    let experiments = shamba_bench::reproduce::all();
    for experiment in experiments {
        let name = &experiment.name;
        let ended = json(&results.join(format!("{name}.json")));
        let findings = &ended["outcome"]["Ok"];
        let tables = findings["tables"].as_array().unwrap();
        assert!(!tables.is_empty(), "{name} has no table");
        for table in tables {
            let rows = table["rows"].as_array().unwrap();
            assert!(!rows.is_empty(), "{name}: {} is empty", table["title"]);
        }
        let table = std::fs::read_to_string(results.join(format!("{name}.csv"))).unwrap();
        assert!(table.lines().count() > 1, "{name}");
        let drawing = std::fs::read_to_string(results.join(format!("{name}.svg"))).unwrap();
        assert!(drawing.contains("<circle"), "{name}");
        assert!(!findings["setting"].as_str().unwrap().is_empty(), "{name}");
        assert!(page.contains(name.as_str()), "{name}");
    }
    assert!(log.contains("min left"), "{log}");

    // What ended well is kept, and nothing is measured again.
    let log = succeeded(&bench(
        &["reproduce", "all", "--scale", "tiny", "--resume"],
        home.path(),
    ));
    assert_eq!(log.matches(": kept").count(), experiments.len(), "{log}");

    // Judged anew, all is what it was: nothing that is said was measured and not kept.
    let judged = home.path().join("judged");
    let log = succeeded(
        &Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
            .args(["reproduce", "all", "--scale", "tiny", "--judge"])
            .arg(results.join("measurements.jsonl"))
            .args(["--out".as_ref(), judged.as_os_str()])
            .output()
            .unwrap(),
    );
    for experiment in experiments {
        let file = format!("{}.json", experiment.name);
        let [before, again] = [&results, &judged].map(|dir| json(&dir.join(&file)));
        for what in ["outcome", "place"] {
            let same = before[what] == again[what];
            assert!(
                same,
                "{what} of {file}, judged in {}\n{log}",
                judged.display()
            );
        }
    }

    // What another program measured is not kept, neither as a whole nor its trials.
    let name = "shamba-table-1";
    of_another_program(&results.join(format!("{name}.json")));
    of_another_program(&results.join("measurements.jsonl"));
    let log = succeeded(&bench(
        &["reproduce", name, "--scale", "tiny", "--resume"],
        home.path(),
    ));
    assert!(!log.contains(": kept"), "{log}");
    assert!(log.contains("of other builds are made again"), "{log}");

    // Several seeds make one result of medians.
    succeeded(&bench(
        &["reproduce", name, "--scale", "tiny", "--seeds", "2"],
        home.path(),
    ));
    let ended = json(&results.join(format!("{name}.json")));
    let setting = ended["outcome"]["Ok"]["setting"].as_str().unwrap();
    assert!(setting.contains("2 seeds: medians"), "{setting}");
    assert_eq!(ended["seeds"]["end"], 3);
}

/// Changes the digest of the program that measured what is in the file.
fn of_another_program(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let at = text.find("\"binary\"").unwrap();
    let digest = text[at..].split('"').nth(3).unwrap().to_owned();
    assert_eq!(digest.len(), 32, "{digest}");
    std::fs::write(path, text.replace(&digest, &"0".repeat(32))).unwrap();
}

#[test]
fn a_grid_keeps_nothing_of_another_program() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("grid.jsonl");
    let grid = |resume: &[&str]| {
        let arguments = [
            "pressure",
            "--engines",
            "shamba",
            "--entries",
            "2000",
            "--budgets",
            "100",
            "--positives",
            "0",
            "--distributions",
            "uniform",
            "--warm-up",
            "10",
            "--measured",
            "10",
        ];
        Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
            .args(arguments)
            .args(["--out".as_ref(), out.as_os_str()])
            .args(["--dir".as_ref(), home.path().join("databases").as_os_str()])
            .args(resume)
            .output()
            .unwrap()
    };
    let measured = || std::fs::read_to_string(&out).unwrap().lines().count();
    succeeded(&grid(&[]));
    succeeded(&grid(&["--resume"]));
    assert_eq!(measured(), 1);
    let refused = grid(&[]);
    let log = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && log.contains("--resume"),
        "{log}"
    );
    of_another_program(&out);
    let log = succeeded(&grid(&["--resume"]));
    assert!(log.contains("of other builds are made again"), "{log}");
    assert_eq!(measured(), 2);
}

#[test]
fn an_experiment_that_does_not_exist_is_named() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(&["reproduce", "shamba-figure-99"], home.path());
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("shamba-figure-99") && log.contains("--list"),
        "{log}"
    );
}

/// The pages in docs/ are those of the results kept there: after a change to what they show, make
/// them again by the command below, with `--docs docs`.
#[test]
fn published_pages_are_those_of_the_published_results() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let home = tempfile::tempdir().unwrap();
    let made = home.path().join("docs");
    std::fs::create_dir_all(&made).unwrap();
    let paper = "paper-scale.jsonl.zst";
    if docs.join(paper).exists() {
        std::fs::copy(docs.join(paper), made.join(paper)).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
        .args(["reproduce", "--report", "--from"])
        .arg(docs.join("results.jsonl.zst"))
        .arg("--out")
        .arg(home.path().join("results"))
        .arg("--docs")
        .arg(&made)
        .output()
        .unwrap();
    succeeded(&output);
    let mut compared = 0;
    for folder in ["", "results"] {
        for entry in std::fs::read_dir(made.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.metadata().unwrap().is_file() {
                let name = Path::new(folder).join(entry.file_name());
                let published = std::fs::read(docs.join(&name)).unwrap_or_default();
                let same = std::fs::read(entry.path()).unwrap() == published;
                assert!(same, "docs/{} is not up to date", name.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 5, "{compared}");
}
