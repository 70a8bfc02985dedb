//! Every experiment of `shamba-bench reproduce` runs, in its tiny form: so none can rot.
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command in the folder `home`: its results are in `results` if it names no other one.
fn bench(arguments: &str, home: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
        .args(arguments.split_whitespace())
        .current_dir(home)
        .env("TMPDIR", home)
        .output()
        .unwrap()
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The log of a command that must succeed.
fn succeeded(arguments: &str, home: &Path) -> String {
    let output = bench(arguments, home);
    assert!(output.status.success(), "{}", log(&output));
    log(&output)
}

/// The log of one that must not.
fn refused(arguments: &str, home: &Path) -> String {
    let output = bench(arguments, home);
    assert!(!output.status.success(), "{}", log(&output));
    log(&output)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_experiment_runs_and_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let results = home.path().join("results");
    let all = "reproduce all --scale tiny --dir databases";
    let log = succeeded(all, home.path());
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
    let log = succeeded(&format!("{all} --resume"), home.path());
    assert_eq!(log.matches(": kept").count(), experiments.len(), "{log}");

    // Judged anew, all is what it was: nothing that is said was measured and not kept.
    let judged = home.path().join("judged");
    let judge = "reproduce all --scale tiny --judge results/measurements.jsonl --out judged";
    let log = succeeded(judge, home.path());
    for experiment in experiments {
        let file = format!("{}.json", experiment.name);
        let [before, again] = [&results, &judged].map(|dir| json(&dir.join(&file)));
        for what in ["outcome", "place"] {
            let same = before[what] == again[what];
            let judged = judged.display();
            assert!(same, "{what} of {file}, judged in {judged}\n{log}");
        }
    }

    // What another program measured is not kept, neither as a whole nor its trials.
    let name = "shamba-table-1";
    of_another_program(&results.join(format!("{name}.json")));
    of_another_program(&results.join("measurements.jsonl"));
    let one = format!("reproduce {name} --scale tiny --dir databases");
    let log = succeeded(&format!("{one} --resume"), home.path());
    assert!(!log.contains(": kept"), "{log}");
    assert!(log.contains("of other builds are made again"), "{log}");

    // Several seeds make one result of medians.
    succeeded(&format!("{one} --seeds 2"), home.path());
    let ended = json(&results.join(format!("{name}.json")));
    let setting = ended["outcome"]["Ok"]["setting"].as_str().unwrap();
    assert!(setting.contains("2 seeds: medians"), "{setting}");
    assert_eq!(ended["seeds"]["end"], 3);
}

#[test]
fn trials_side_by_side_count_what_they_count_in_turn() {
    let pages = |jobs: &str| {
        let home = tempfile::tempdir().unwrap();
        let one = "reproduce ours-pressure --scale tiny --dir databases";
        succeeded(&format!("{one}{jobs}"), home.path());
        let found = &json(&home.path().join("results/ours-pressure.json"))["outcome"]["Ok"];
        found["tables"][0].clone()
    };
    assert_eq!(pages(" --jobs 4"), pages(""));
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
    let grid = "pressure --engines shamba --entries 2000 --budgets 100 --positives 0 --warm-up 10 \
                --distributions uniform --measured 10 --out grid.jsonl --dir databases";
    let resumed = format!("{grid} --resume");
    let measured = || std::fs::read_to_string(&out).unwrap().lines().count();
    succeeded(grid, home.path());
    succeeded(&resumed, home.path());
    assert_eq!(measured(), 1);
    let log = refused(grid, home.path());
    assert!(log.contains("--resume"), "{log}");
    of_another_program(&out);
    let log = succeeded(&resumed, home.path());
    assert!(log.contains("of other builds are made again"), "{log}");
    assert_eq!(measured(), 2);
}

#[test]
fn an_experiment_that_does_not_exist_is_named() {
    let home = tempfile::tempdir().unwrap();
    let log = refused("reproduce shamba-figure-99", home.path());
    let is_said = log.contains("shamba-figure-99") && log.contains("--list");
    assert!(is_said, "{log}");
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
    let results = docs.join("results.jsonl.zst");
    let report = format!(
        "reproduce --report --from {} --docs docs",
        results.display()
    );
    succeeded(&report, home.path());
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
