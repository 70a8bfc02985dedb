//! The commands that measure one thing each run on a small database and give their table.
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command, with a table and with databases that it may keep.
fn bench(arguments: &str, home: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shamba-bench"))
        .args(arguments.split_whitespace())
        .args(["--dir".as_ref(), home.join("databases").as_os_str()])
        .args(["--table".as_ref(), home.join("table.json").as_os_str()])
        .env("TMPDIR", home)
        .output()
        .unwrap()
}

/// Few entries; 2 MiB are all of a budget.
const SMALL: &str = "--engines shamba --entries 20000 --full-budget 2097152";

/// The rows of the table that a command gave: cells by the names of their columns.
fn rows(arguments: &str, home: &Path) -> Vec<HashMap<String, Value>> {
    let output = bench(arguments, home);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    let table = std::fs::read(home.join("table.json")).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    let columns = table["columns"].as_array().unwrap().iter();
    let columns: Vec<&str> = columns.map(|name| name.as_str().unwrap()).collect();
    let named = |row: &Value| {
        let cells = row.as_array().unwrap().iter().cloned();
        let names = columns.iter().map(|name| (*name).to_owned());
        names.zip(cells).collect()
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
    let few = format!("{SMALL} --budgets 100 --warm-up 500 --measured 500");
    let writes = format!("writes --writes 0.5 --distributions uniform {few}");
    let found = rows(&writes, home.path());
    assert_eq!(found.len(), 1);
    for told in ["flushes", "to alone, without those"] {
        assert!(found[0][told].as_f64().is_some(), "{told}: {:?}", found[0]);
    }
    let mixes = format!("mixes --mixes ycsb-a,ycsb-e --repeat 2 {few}");
    let found = rows(&mixes, home.path());
    assert_eq!(found.len(), 2);
    for row in &found {
        assert!(row["operations/s"].as_f64().unwrap() > 0.0, "{row:?}");
        assert_eq!(row["repetitions"].as_f64(), Some(2.0));
    }
    let reopen = "reopen --positives 0.5 --distributions uniform --budgets 100";
    let found = rows(&format!("{reopen} {SMALL}"), home.path());
    assert_eq!(found.len(), 1);
}

#[test]
fn workloads_are_compared_in_processes_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let compare = "compare --engines shamba --entries 20000 --reads 5000 --threads 2 --repeat 1 \
                   --workloads counters,transfers,range-delete,large-values";
    let found = rows(compare, home.path());
    let rate = |phase: &str| {
        let mut own = found
            .iter()
            .filter(|row| row["phase"].as_str() == Some(phase));
        own.next().and_then(|row| row["shamba op/s"].as_f64())
    };
    for phase in [
        "counter increments",
        "counter lookups",
        "transfers, low contention",
        "transfers, high contention",
        "scan of everything",
        "scan after half was deleted",
        "readrandom of 16 KiB values",
    ] {
        assert!(
            rate(phase).is_some_and(|rate| rate > 0.0),
            "{phase}: {found:?}"
        );
    }
}

#[test]
fn puts_are_counted_where_valgrind_is() {
    let home = tempfile::tempdir().unwrap();
    let puts = &format!("cpu --puts plain,ttl --measured 300 {SMALL}");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        let found = rows(puts, home.path());
        assert_eq!(found.len(), 2);
        let count = |row: &HashMap<String, Value>| row["instructions"].as_f64().unwrap();
        assert!(count(&found[0]) > 100.0, "{found:?}");
        assert!(count(&found[1]) > count(&found[0]), "{found:?}");
        let left = std::fs::read_dir(home.path().join("databases")).unwrap();
        assert_eq!(left.count(), 0);
    } else {
        let output = bench(puts, home.path());
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && log.contains("Valgrind"),
            "{log}"
        );
    }
}

#[test]
fn what_is_no_mix_is_said_with_those_that_are() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(&format!("mixes --mixes none {SMALL}"), home.path());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && log.contains("ycsb-a"), "{log}");
}
