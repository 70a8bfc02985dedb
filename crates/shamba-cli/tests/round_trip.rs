//! What is imported comes back: every format, every byte, across restarts.

mod common;

use common::{Random, Work};
use std::collections::BTreeMap;

/// Entries with every awkward byte, in key order.
fn awkward() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for byte in 0..=u8::MAX {
        entries.insert(vec![byte], vec![byte, b'x', byte]);
        entries.insert(vec![b'k', byte, byte], Vec::new());
    }
    for text in [
        "\\", "\\t", "a\tb", "a,b", "\"", "a\"\"b", "l1\r\nl2", "\r", "straße", " ", "{}", "null",
    ] {
        entries.insert(text.as_bytes().to_vec(), text.repeat(3).into_bytes());
    }
    entries
}

#[test]
fn every_byte_comes_back_in_every_format() {
    let work = Work::new();
    let text = awkward_tsv();
    work.file("in.tsv", &text);
    work.ok(&["import", "first", "in.tsv"]);
    assert_eq!(work.ok(&["export", "first"]), text, "tsv");
    for format in ["tsv", "csv", "jsonl"] {
        let (file, copy) = (format!("out.{format}"), format!("copy-{format}"));
        work.ok(&["export", "first", "--output", &file]);
        work.ok(&["import", &copy, &file]);
        assert_eq!(work.ok(&["export", &copy]), text, "{format}");
        // The format's own text comes back byte by byte too.
        let exported = std::fs::read(work.path(&file)).unwrap();
        assert_eq!(
            work.ok(&["export", &copy, "--format", format]),
            exported,
            "{format}"
        );
        assert!(!work.path(&format!("{file}.partial")).exists());
    }
}

/// The awkward entries as export writes them, written here by the rules of the manual.
fn awkward_tsv() -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in awkward() {
        for (bytes, is_key) in [(key, true), (value, false)] {
            for byte in bytes {
                match byte {
                    b'\\' => text.extend(b"\\\\"),
                    b'\n' => text.extend(b"\\n"),
                    b'\r' => text.extend(b"\\r"),
                    b'\t' if is_key => text.extend(b"\\t"),
                    other => text.push(other),
                }
            }
            text.push(if is_key { b'\t' } else { b'\n' });
        }
    }
    text
}

#[test]
fn many_records_of_varied_sizes_come_back() {
    const RECORDS: u64 = 61_000;
    let seed = 20_240_607;
    let mut random = Random(seed);
    let mut entries = BTreeMap::new();
    while (entries.len() as u64) < RECORDS {
        let number = random.next();
        let key = format!(
            "{:x}/{}",
            number >> 40,
            "n".repeat(random.below(60) as usize)
        );
        // Most are short, a few are far larger than a page.
        let length = match random.below(1000) {
            0 => 20_000 + random.below(50_000),
            1..=99 => random.below(4_000),
            _ => random.below(300),
        };
        let value: String = (0..length)
            .map(|_| char::from(b' ' + (random.next() % 95) as u8))
            .collect();
        entries.insert(key, value.replace('\\', "/"));
    }
    let text: String = entries
        .iter()
        .map(|(key, value)| format!("{key}\t{value}\n"))
        .collect();
    let work = Work::new();
    work.file("in.tsv", &text);
    let memory = ["--memory", "4MiB"];
    let run = |arguments: &[&str]| work.ok(&[arguments, &memory].concat());

    run(&["import", "db", "in.tsv"]);
    assert!(
        run(&["export", "db"]) == text.as_bytes(),
        "seed {seed}: the export differs"
    );
    assert!(
        String::from_utf8(run(&["verify", "db"]))
            .unwrap()
            .contains("no damage")
    );
    run(&["compact", "db"]);
    assert!(
        run(&["export", "db"]) == text.as_bytes(),
        "seed {seed}: compaction changed the export"
    );
    let stats: serde_json::Value =
        serde_json::from_slice(&run(&["stats", "db", "--json"])).unwrap();
    let levels = stats["keyspaces"][0]["levels"].as_array().unwrap();
    let stored: u64 = levels
        .iter()
        .map(|level| level["entries"].as_u64().unwrap())
        .sum();
    assert_eq!(stored, RECORDS);

    run(&["checkpoint", "db", "copy"]);
    for (key, value) in entries.iter().step_by(9_000) {
        assert_eq!(run(&["get", "copy", key]), value.as_bytes(), "{key}");
    }
    let (middle, _) = entries.iter().nth(30_000).unwrap();
    let from_middle: Vec<_> = entries
        .range(middle.clone()..)
        .take(3)
        .map(|(key, _)| format!("{key}\n"))
        .collect();
    assert_eq!(
        run(&[
            "scan",
            "db",
            "--from",
            middle,
            "--limit",
            "3",
            "--keys-only"
        ]),
        from_middle.concat().as_bytes()
    );
    let to_middle: Vec<_> = entries
        .range(..middle.clone())
        .rev()
        .take(2)
        .map(|(key, _)| format!("{key}\n"))
        .collect();
    let reverse = run(&[
        "scan",
        "db",
        "--to",
        middle,
        "--reverse",
        "--limit",
        "2",
        "--keys-only",
    ]);
    assert_eq!(reverse, to_middle.concat().as_bytes());
}

#[test]
fn columns_fields_and_whole_objects_come_back() {
    let work = Work::new();
    let table = "id,name,note\n1,\"a,b\",x\n2,c,\"q\"\"q\"\n";
    work.file("t.csv", table);
    work.ok(&["import", "csv", "t.csv", "--key", "id"]);
    assert_eq!(work.ok(&["get", "csv", "1"]), b"\"a,b\",x");
    let back = work.ok(&[
        "export",
        "csv",
        "--format",
        "csv",
        "--columns",
        "--header",
        "id,name,note",
    ]);
    assert_eq!(String::from_utf8(back).unwrap(), table);

    let objects = "{\"id\":1, \"tags\":[1,2]}\n{\"id\":2,\"x\":\"\\u00e9\"}\n";
    work.file("o.jsonl", objects);
    work.ok(&["import", "json", "o.jsonl", "--key", "id"]);
    assert_eq!(
        work.ok(&["export", "json", "--format", "jsonl", "--values-only"]),
        objects.as_bytes()
    );

    let wide = "b\tc:\\temp\t1\nk\t\\q\t2\n";
    work.file("wide.tsv", wide);
    work.ok(&["import", "wide", "wide.tsv", "--no-escapes"]);
    assert_eq!(
        work.ok(&["export", "wide", "--no-escapes"]),
        wide.as_bytes()
    );
}

#[test]
fn points_bounds_and_keyspaces() {
    let work = Work::new();
    work.ok(&["put", "db", "b", "2"]);
    let stored = work.run_with(&["put", "db", "a", "-"], b"from\0stdin\n");
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    work.ok(&["put", "db", "--escaped", "c\\x00", "x\\ty"]);
    work.ok(&["put", "db", "b", "other", "--keyspace", "side"]);
    assert_eq!(work.ok(&["get", "db", "a"]), b"from\0stdin\n");
    assert_eq!(work.ok(&["get", "db", "b"]), b"2");
    assert_eq!(work.ok(&["get", "db", "b", "--keyspace", "side"]), b"other");
    work.ok(&["get", "db", "b", "--output", "value"]);
    assert_eq!(std::fs::read(work.path("value")).unwrap(), b"2");
    assert_eq!(
        work.ok(&["scan", "db", "--from", "b"]),
        b"b\t2\nc\\x00\tx\ty\n"
    );
    assert_eq!(work.ok(&["scan", "db", "--count"]), b"3\n");
    assert_eq!(work.ok(&["scan", "db", "--from", "b", "--count"]), b"2\n");
    assert_eq!(work.ok(&["scan", "db", "--count", "--limit", "1"]), b"1\n");
    // What a scan shows of any bytes can be imported.
    work.ok(&["put", "db", "--escaped", "\\x1b[2J", "\\xff\\\\"]);
    let shown = work.ok(&["scan", "db"]);
    assert!(!shown.contains(&0x1b) && std::str::from_utf8(&shown).is_ok());
    assert_eq!(
        work.run_with(&["import", "copy", "-", "--format", "tsv"], &shown)
            .code,
        0
    );
    assert_eq!(
        work.ok(&["get", "copy", "--escaped", "\\x1b[2J"]),
        b"\xff\\"
    );
    assert_eq!(work.ok(&["export", "copy"]), work.ok(&["export", "db"]));
    work.ok(&["delete", "db", "--escaped", "\\x1b[2J"]);
    assert_eq!(
        work.ok(&["scan", "db", "--prefix", "c", "--json"]),
        b"{\"key\":\"c\\u0000\",\"value\":\"x\\ty\"}\n"
    );
    assert_eq!(
        work.ok(&[
            "scan",
            "db",
            "--reverse",
            "--limit",
            "1",
            "--json",
            "--keys-only"
        ]),
        b"{\"key\":\"c\\u0000\"}\n"
    );
    assert_eq!(
        work.ok(&["scan", "db", "--keyspace", "side"]),
        b"b\tother\n"
    );
    work.ok(&["delete", "db", "b"]);
    work.fails(1, &["get", "db", "b"]);
    assert_eq!(work.ok(&["get", "db", "b", "--keyspace", "side"]), b"other");
    let stats = String::from_utf8(work.ok(&["stats", "db"])).unwrap();
    assert!(
        stats.contains("keyspace `side`") && stats.contains("budget"),
        "{stats}"
    );
}

#[test]
fn ranges_of_keys_are_deleted() {
    let work = Work::new();
    work.file("keys.tsv", "a\t1\nb/1\t1\nb/2\t1\nc\t1\nd\t1\ne\t1\n");
    work.ok(&["import", "db", "keys.tsv"]);
    let left = |deleted: &[&str], left: &[u8]| {
        work.ok(&[&["delete", "db"][..], deleted].concat());
        assert_eq!(work.ok(&["export", "db"]), left, "{deleted:?}");
    };
    left(&["--prefix", "b/"], b"a\t1\nc\t1\nd\t1\ne\t1\n");
    left(&["--from", "c", "--to", "d"], b"a\t1\nd\t1\ne\t1\n");
    left(&["--from", "\\x65", "--escaped"], b"a\t1\nd\t1\n");
    left(&["--to", "b"], b"d\t1\n");
    left(&["--from", "x", "--to", "x"], b"d\t1\n");
    // Three tables and no scan are nothing to merge: the tombstones are there to be counted.
    work.ok(&["import", "told", "keys.tsv"]);
    work.ok(&["delete", "told", "--prefix", "b/"]);
    work.ok(&["delete", "told", "--from", "c", "--to", "d"]);
    let stats: serde_json::Value =
        serde_json::from_slice(&work.ok(&["stats", "told", "--json"])).unwrap();
    let levels = stats["keyspaces"][0]["levels"].as_array().unwrap();
    let told = levels
        .iter()
        .map(|level| level["range_tombstones"].as_u64());
    assert_eq!(told.sum::<Option<u64>>(), Some(2), "{stats}");
    let inverted = work.fails(2, &["delete", "db", "--from", "z", "--to", "a"]);
    assert!(
        inverted.contains("begins at key z and ends before it"),
        "{inverted}"
    );
    for refused in [
        &["delete", "db"][..],
        &["delete", "db", "d", "--prefix", "d"],
        &["delete", "db", "--prefix", "d", "--to", "e"],
    ] {
        let ran = work.run(refused);
        assert!(
            ran.code == 2 && ran.stderr.contains("Usage: shamba delete"),
            "{refused:?}"
        );
    }
    assert_eq!(work.ok(&["export", "db"]), b"d\t1\n");
}

#[test]
fn later_lines_replace_earlier_ones_and_imports_add_up() {
    let work = Work::new();
    work.file("1.tsv", "a\t1\nb\t1\na\t2\n");
    work.file("2.tsv", "b\t3\nc\t3");
    work.ok(&["import", "db", "1.tsv", "--batch", "1"]);
    work.ok(&["import", "db", "2.tsv"]);
    assert_eq!(work.ok(&["export", "db"]), b"a\t2\nb\t3\nc\t3\n");
}

#[test]
fn stats_say_what_lookups_did_and_what_memory_is_worth() {
    let work = Work::new();
    let key = |number: usize| format!("key{number:06}");
    let lines: String = (0..60_000)
        .map(|number| format!("{}\tvalue {number:030}\n", key(number)))
        .collect();
    work.file("in.tsv", lines);
    work.ok(&["import", "db", "in.tsv", "--memory", "16MiB"]);
    work.ok(&["compact", "db"]);
    // There and not there by turns, in no order; a key may have any bytes.
    let keys: String = (0..40_000)
        .map(|number| {
            let key = key(number * 7919 % 60_000);
            match number % 2 {
                0 => key + "\n",
                _ => key + "\\t\n",
            }
        })
        .collect();
    work.file("keys", &keys);
    let stats = |memory: &str| -> serde_json::Value {
        let arguments = [
            "stats", "db", "--json", "--keys", "keys", "--memory", memory,
        ];
        serde_json::from_slice(&work.ok(&arguments)).unwrap()
    };
    let plenty = stats("64MiB");
    let counters = &plenty["counters"];
    assert_eq!(counters["lookups"], 40_000);
    assert_eq!(counters["lookups_found"], 20_000);
    let levels = plenty["keyspaces"][0]["levels"].as_array().unwrap();
    let level = levels
        .iter()
        .find(|level| level["entries"] == 60_000)
        .unwrap();
    let lookups = &level["lookups"];
    // One in eight is counted, as eight. Every second is there, so they may all be of one kind.
    let counted = |what: &str| lookups[what].as_i64().unwrap();
    let all = counted("found") + counted("absent");
    assert!((all - 40_000).abs() <= 400, "{lookups}");
    for (what, all) in [
        ("data", "data_reads"),
        ("index", "index_reads"),
        ("filter", "filter_reads"),
    ] {
        assert_eq!(lookups[what]["reads"], counters[all], "{what}");
        assert!(lookups[what]["pages"].as_u64().unwrap() > 0);
    }
    assert_eq!(level["resident"]["filter"], level["filter_bytes"]);
    assert_eq!(level["resident_bits_per_key"], level["bits_per_key"]);
    assert_eq!(lookups["false_positives"], counters["false_positives"]);
    assert!(lookups["predicted_false_positives"].is_number());
    let module = &lookups["modules"][0];
    assert!(module["probed"].as_u64() > module["fetched"].as_u64());
    assert_eq!(module["skipped"], 0);
    assert_eq!(plenty["marginal_value"]["short"], false);
    assert_eq!(plenty["marginal_value"]["cache"], 0.0);

    let little = stats("1MiB");
    let value = &little["marginal_value"];
    assert_eq!(value["short"], true);
    for what in ["cache", "data", "accesses_per_lookup"] {
        assert!(value[what].as_f64().unwrap() > 0.0, "{what}: {value}");
    }
    for what in ["index", "filter", "best_absent_index", "best_absent_filter"] {
        assert!(value[what].is_number(), "{what}: {value}");
    }

    // For people, and with keys that are not well written.
    let text = |arguments: &[&str]| String::from_utf8(work.ok(arguments)).unwrap();
    let shown = text(&["stats", "db", "--keys", "keys", "--memory", "1MiB"]);
    for part in ["predicted", "skipped", "memory is short", "one more page"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = text(&["stats", "db"]);
    assert!(shown.contains("--keys FILE makes some"), "{shown}");
    assert!(!shown.contains("skipped"), "{shown}");
    work.file("bad", "good\nba\\d\n");
    let error = work.fails(5, &["stats", "db", "--keys", "bad"]);
    assert!(error.contains("bad:2"), "{error}");
    work.fails(3, &["stats", "db", "--keys", "missing"]);
}

#[test]
fn numbers_are_keys_as_json_has_them() {
    let work = Work::new();
    let lines = b"{\"key\": 7, \"value\": \"seven\"}\n{\"key\":\"8\",\"value\":8}\n";
    let read = work.run_with(&["import", "db", "-", "--format", "jsonl"], lines);
    assert_eq!(read.code, 0, "{}", read.stderr);
    assert_eq!(work.ok(&["scan", "db"]), b"7\tseven\n8\t8\n");
}

#[test]
fn shells_and_manuals_get_what_they_want() {
    let work = Work::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(work.ok(&["completions", shell])).unwrap();
        assert!(script.contains("checkpoint"), "{shell}: {script}");
    }
    let page = String::from_utf8(work.ok(&["man"])).unwrap();
    assert!(
        page.contains(".TH shamba") && page.contains("Exit codes"),
        "{page}"
    );
    work.ok(&["man", "--output", "pages/man1"]);
    let pages = std::fs::read_dir(work.path("pages/man1")).unwrap().count();
    assert!(pages > 12, "{pages}");
}

#[test]
fn statistics_begin_with_how_many_entries_there_are() {
    let work = Work::new();
    for key in ["a", "b", "c"] {
        work.ok(&["put", "db", key, "1"]);
    }
    work.ok(&["compact", "db"]);
    let stats = String::from_utf8(work.ok(&["stats", "db"])).unwrap();
    let first = stats.lines().next().unwrap();
    assert!(
        first.starts_with("keyspace `default`: 3 entries: 3 in tables"),
        "{first}"
    );
}

/// Engine options stay with the keyspace they were given for.
#[test]
fn options_given_once_are_kept() {
    let work = Work::new();
    work.file("lines.tsv", "a\t1\nb\t2\n");
    work.ok(&[
        "import",
        "db",
        "lines.tsv",
        "--size-ratio",
        "7",
        "--compression",
        "lz4",
    ]);
    work.ok(&["put", "db", "c", "3"]);
    let options = || {
        let db = shamba::Options::new().read_only(true).open(work.path("db"));
        db.unwrap().default_keyspace().options()
    };
    assert_eq!(options().size_ratio, 7);
    assert_eq!(options().compression, [shamba::Compression::Lz4]);
    work.ok(&["compact", "db", "--target-file", "1M"]);
    assert_eq!((options().size_ratio, options().target_file), (7, 1 << 20));
}

#[test]
fn what_is_put_with_a_time_to_live_is_gone_then() {
    let work = Work::new();
    work.ok(&["put", "db", "a", "an hour", "--ttl", "1h"]);
    assert_eq!(work.ok(&["get", "db", "a"]), b"an hour");
    work.ok(&["put", "db", "a", "no longer", "--ttl", "0s"]);
    work.fails(1, &["get", "db", "a"]);
    let refused = work.run(&["put", "db", "a", "v", "--ttl", "soon"]);
    assert!(refused.code == 2 && refused.stderr.contains("--ttl"));
    work.fails(1, &["get", "db", "a"]);
}

#[test]
fn statistics_tell_what_expires_and_what_has() {
    let work = Work::new();
    work.ok(&["put", "db", "kept", "v"]);
    let levels = |args: &[&str]| String::from_utf8(work.ok(args)).unwrap();
    work.ok(&["compact", "db"]);
    assert!(!levels(&["stats", "db"]).contains("expire:"));
    work.ok(&["put", "db", "soon gone", "v", "--ttl", "6s"]);
    work.ok(&["put", "db", "later gone", "v", "--ttl", "1h"]);
    work.ok(&["compact", "db"]);
    std::thread::sleep(std::time::Duration::from_millis(6_100));
    let text = levels(&["stats", "db"]);
    let told = "files with entries that expire: 2, in 1 of them some have";
    assert!(text.contains(told), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&levels(&["stats", "db", "--json"])).unwrap();
    let text = json.to_string();
    assert!(
        text.contains("\"expiring_files\":2") && text.contains("\"expired_files\":1"),
        "{text}"
    );
    work.ok(&["compact", "db"]);
    let text = levels(&["stats", "db"]);
    assert!(text.contains("expire: 1, in 0 of them"), "{text}");
}

/// What is larger than memory goes in and comes out in pieces.
#[test]
fn a_value_larger_than_the_budget_goes_through_a_pipe() {
    let work = Work::new();
    let film: Vec<u8> = (0..20u32 << 20)
        .map(|at| (at >> 3) as u8 ^ at as u8)
        .collect();
    let ran = work.run_with(&["put", "db", "film", "-", "--memory", "2MiB"], &film);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(work.ok(&["get", "db", "film", "--memory", "2MiB"]) == film);
    work.ok(&["get", "db", "film", "--memory", "2MiB", "--output", "copy"]);
    assert!(std::fs::read(work.path("copy")).unwrap() == film);
    let stats = String::from_utf8(work.ok(&["stats", "db"])).unwrap();
    assert!(stats.contains("values: 1 files, 20.2 MiB"), "{stats}");
    assert!(stats.contains("0 B of them garbage"), "{stats}");
    work.ok(&["verify", "db"]);
    work.ok(&["put", "db", "film", "short"]);
    work.ok(&["compact", "db", "--value-files-from", "1KiB"]);
    assert_eq!(work.ok(&["get", "db", "film"]), b"short");
    let stats = String::from_utf8(work.ok(&["stats", "db"])).unwrap();
    assert!(!stats.contains("values:"), "{stats}");
}

#[test]
fn operands_are_merged_by_the_operator_that_a_keyspace_keeps() {
    let work = Work::new();
    let refused = work.run(&["merge", "db", "visits", "1"]);
    assert!(refused.code == 2 && refused.stderr.contains("--operator"));
    // What makes no sense decides nothing.
    for (operand, operator) in [("many", "counter"), ("{", "json-merge-patch")] {
        work.fails(
            2,
            &["merge", "db", "visits", operand, "--operator", operator],
        );
    }
    work.ok(&["merge", "db", "visits", "5", "--operator", "counter"]);
    work.ok(&["merge", "db", "visits", "-2"]);
    assert_eq!(work.ok(&["get", "db", "visits", "--number"]), b"3");
    assert_eq!(work.ok(&["get", "db", "visits"]), 3i64.to_le_bytes());
    let stats = String::from_utf8(work.ok(&["stats", "db"])).unwrap();
    // With nothing below it the first became a value.
    assert!(stats.contains("operands in tables: 1\n"), "{stats}");
    let refused = work.run(&["merge", "db", "visits", "many"]);
    assert!(refused.code == 2 && refused.stderr.contains("integer"));
    let refused = work.run(&["merge", "db", "visits", "1", "--operator", "append"]);
    assert!(
        refused.code == 3 && refused.stderr.contains("counter"),
        "{}",
        refused.stderr
    );
    work.ok(&["put", "db", "text", "no number"]);
    let refused = work.run(&["get", "db", "text", "--number"]);
    assert!(
        refused.code == 5 && refused.stderr.contains("8"),
        "{}",
        refused.stderr
    );
    for line in ["a\\n", "b\\n"] {
        let log = [
            "merge",
            "db",
            "log",
            line,
            "--escaped",
            "--keyspace",
            "logs",
        ];
        work.ok(&[&log[..], &["--operator", "append"]].concat());
    }
    assert_eq!(
        work.ok(&["get", "db", "log", "--keyspace", "logs"]),
        b"a\nb\n"
    );
}
