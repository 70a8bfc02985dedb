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
    let (page, text) = (
        std::fs::read_to_string(results.join("report.html")).unwrap(),
        std::fs::read_to_string(results.join("report.md")).unwrap(),
    );
    let experiments = shamba_bench::reproduce::all();
    for experiment in &experiments {
        let name = experiment.name;
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
        assert!(page.contains(name) && text.contains(name), "{name}");
    }
    assert!(log.contains("min left"), "{log}");

    // What ended well is kept, and nothing is measured again.
    let log = succeeded(&bench(
        &["reproduce", "all", "--scale", "tiny", "--resume"],
        home.path(),
    ));
    assert_eq!(log.matches(": kept").count(), experiments.len(), "{log}");
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
