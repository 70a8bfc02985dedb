//! `bench` and `demo`: every workload runs, its answers are right, its numbers add up.

mod common;

use common::Work;
use serde_json::Value;

fn json(work: &Work, arguments: &[&str]) -> Value {
    serde_json::from_slice(&work.ok(arguments)).unwrap()
}

#[test]
fn every_workload_runs() {
    let work = Work::new();
    for workload in [
        "fillseq",
        "fillrandom",
        "overwrite",
        "readrandom",
        "readmissing",
        "seekrandom",
        "scan",
        "readwhilewriting",
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
    ] {
        let settings = [
            "--entries",
            "3000",
            "--ops",
            "2000",
            "--memory",
            "2MiB",
            "--threads",
            "2",
            "--json",
        ];
        let report = json(
            &work,
            &[&["bench", workload], &settings as &[&str]].concat(),
        );
        assert_eq!(report["workload"], workload);
        let phases = report["phases"].as_array().unwrap();
        let measured = phases
            .iter()
            .find(|phase| phase["name"] == workload)
            .unwrap();
        let expected = if workload.starts_with("fill") || workload == "scan" {
            3000
        } else {
            2000
        };
        assert!(
            measured["summary"]["operations"].as_u64().unwrap() >= expected,
            "{workload}: {measured}"
        );
        assert!(
            measured["summary"]["per_second"].as_f64().unwrap() > 0.0,
            "{workload}"
        );
    }
}

#[test]
fn settings_of_a_measurement_hold() {
    let work = Work::new();
    let common = [
        "--entries",
        "2000",
        "--key-size",
        "50",
        "--value-size",
        "20",
        "--dir",
        "db",
    ];
    let engine = [
        "--merge-policy",
        "tiering",
        "--compression",
        "none,lz4,zstd:1",
        "--filter",
        "blocked-bloom",
    ];
    work.ok(&[&["bench", "fillrandom"], &common as &[&str], &engine].concat());
    let first = work.ok(&["scan", "db", "--limit", "1", "--keys-only"]);
    assert_eq!(first.len(), 51);
    let report = json(
        &work,
        &[
            &[
                "bench",
                "readrandom",
                "--reuse",
                "--ops",
                "500",
                "--json",
                "--warmup",
                "10",
            ],
            &common as &[&str],
        ]
        .concat(),
    );
    let phases = report["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2, "nothing is filled again");
    assert_eq!(phases[1]["reads"]["found"], 500);
    let text =
        String::from_utf8(work.ok(&["bench", "readmissing", "--entries", "500", "--ops", "100"]))
            .unwrap();
    assert!(
        text.contains("storage reads per lookup") && text.contains("p99"),
        "{text}"
    );
}

#[test]
fn answers_are_checked() {
    let work = Work::new();
    work.ok(&["bench", "fillseq", "--entries", "200", "--dir", "db"]);
    let first = String::from_utf8(work.ok(&["scan", "db", "--limit", "1", "--keys-only"])).unwrap();
    work.ok(&["delete", "db", first.trim()]);
    let message = work.fails(
        3,
        &[
            "bench",
            "readrandom",
            "--entries",
            "200",
            "--ops",
            "5000",
            "--dir",
            "db",
            "--reuse",
        ],
    );
    assert!(message.contains("wrong answer"), "{message}");
}

#[test]
fn the_demo_keeps_its_promises() {
    let work = Work::new();
    let small = [
        "demo",
        "--size",
        "24MiB",
        "--lookups",
        "2000",
        "--memory",
        "8MiB",
    ];
    let report = json(&work, &[&small, &["--json"] as &[&str]].concat());
    assert_eq!(report["entries"], 393_216);
    assert_eq!(report["existing"]["reads"]["found"], 2000);
    assert_eq!(report["absent"]["reads"]["found"], 0);
    assert!(report["process_peak_bytes"].as_u64() <= report["process_allowed_bytes"].as_u64());
    assert!(
        report["memory"]["peak"].as_u64() <= report["memory_limit"].as_u64(),
        "{}",
        report["memory"]
    );
    assert!(report["write_amplification"].as_f64().unwrap() >= 1.0);
    let text = String::from_utf8(work.ok(&small)).unwrap();
    for part in [
        "fill, 100 entries a write",
        "storage reads per lookup",
        "p99.9",
        "budget",
        "kept",
        "393,216",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
