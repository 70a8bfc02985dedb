//! The commands that measure one thing each run on a small database and give their table.
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command on 20,000 entries under 2 MiB.
fn bench(arguments: &[&str], home: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
        .args(arguments)
        .args(["--engines", "shamba", "--entries", "20000"])
        .args(["--full-budget", "2097152", "--budgets", "100"])
        .args(["--dir".as_ref(), home.join("databases").as_os_str()])
        .args(["--table".as_ref(), home.join("table.json").as_os_str()])
        .env("TMPDIR", home)
        .output()
        .unwrap()
}

/// The rows of the table that a command gave: cells by the names of their columns.
fn rows(arguments: &[&str], home: &Path) -> Vec<HashMap<String, Value>> {
    let output = bench(arguments, home);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    let table = std::fs::read(home.join("table.json")).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    let columns = table["columns"].as_array().unwrap().iter();
    let columns: Vec<&str> = columns.map(|name| name.as_str().unwrap()).collect();
    let named = |row: &Value| {
        let cells = row.as_array().unwrap().iter().cloned();
        columns
            .iter()
            .map(|name| (*name).to_owned())
            .zip(cells)
            .collect()
    };
    table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(named)
        .collect()
}

#[test]
fn each_gives_a_row_for_each_cell() {
    let home = tempfile::tempdir().unwrap();
    let few = ["--warm-up", "500", "--measured", "500"];
    let uniform = ["--distributions", "uniform"];
    let writes = [&["writes", "--writes", "0.5"], &uniform[..], &few[..]].concat();
    let found = rows(&writes, home.path());
    assert_eq!(found.len(), 1);
    assert!(found[0]["flushes"].as_f64().is_some());
    let mixes = ["mixes", "--mixes", "ycsb-a,ycsb-e", "--repeat", "2"];
    let found = rows(&[&mixes[..], &few[..]].concat(), home.path());
    assert_eq!(found.len(), 2);
    for row in &found {
        assert!(row["operations/s"].as_f64().unwrap() > 0.0, "{row:?}");
        assert_eq!(row["repetitions"].as_f64(), Some(2.0));
    }
    let reopen = [&["reopen", "--positives", "0.5"], &uniform[..]].concat();
    assert_eq!(rows(&reopen, home.path()).len(), 1);
}

#[test]
fn what_is_no_mix_is_said_with_those_that_are() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(&["mixes", "--mixes", "none"], home.path());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && log.contains("ycsb-a"), "{log}");
}
