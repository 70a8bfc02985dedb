//! Values that are larger than the memory that holds entries of a scan: in by a pipe, out in every
//! format, in again elsewhere.

mod common;

use common::{Random, Work};

const LENGTH: usize = (8 << 20) + 5;

/// Text of characters of one byte to four, some of which each format writes in another way.
fn text() -> Vec<u8> {
    let characters = [
        "a", "é", "€", "🦀", "\n", "\t", "\"", "\\", ",", "\r", "\u{1}",
    ];
    let mut random = Random(8);
    let mut text = String::with_capacity(LENGTH);
    while text.len() < LENGTH {
        let pick = random.below(16) as usize;
        text += characters.get(pick).copied().unwrap_or("plain text ");
    }
    text.into_bytes()
}

/// Bytes that are no text, except in stretches.
fn bytes() -> Vec<u8> {
    let mut random = Random(9);
    let mut bytes = Vec::with_capacity(LENGTH);
    while bytes.len() < LENGTH {
        bytes.extend(random.next().to_le_bytes());
        bytes.extend("text ".repeat(20).bytes());
    }
    bytes
}

#[test]
fn values_larger_than_the_budget_come_back_in_every_format() {
    let work = Work::new();
    let large = [("bytes", bytes()), ("text", text())];
    let small = [("a", "1"), ("c", "2"), ("z", "3")];
    for budget in ["1MiB", "4MiB"] {
        let memory = ["--memory", budget];
        let run = |arguments: &[&str]| work.ok(&[arguments, &memory].concat());
        let db = format!("db-{budget}");
        for (key, value) in &large {
            let put = ["put", &db, key, "-", "--memory", budget];
            let stored = work.run_with(&put, value);
            assert_eq!(stored.code, 0, "{}", stored.stderr);
        }
        for (key, value) in small {
            run(&["put", &db, key, value]);
        }
        let came_back = |copy: &str, what: &str| {
            for (key, value) in &large {
                assert!(run(&["get", copy, key]) == *value, "{what}: `{key}`");
            }
            for (key, value) in small {
                assert_eq!(run(&["get", copy, key]), value.as_bytes(), "{what}");
            }
        };
        for format in ["tsv", "csv", "jsonl"] {
            let (file, copy) = (format!("{budget}.{format}"), format!("{budget}-{format}"));
            run(&["export", &db, "--output", &file]);
            run(&["import", &copy, &file]);
            came_back(&copy, format);
        }
        for (way, format) in [("--reverse", "tsv"), ("--json", "jsonl")] {
            let (file, copy) = (format!("scan.{format}"), format!("{budget}{way}"));
            work.file(&file, run(&["scan", &db, way]));
            run(&["import", &copy, &file]);
            came_back(&copy, way);
        }
        let keys = "a\nbytes\nc\ntext\nz\n";
        assert_eq!(run(&["scan", &db, "--keys-only"]), keys.as_bytes());
        assert_eq!(run(&["scan", &db, "--count"]), b"5\n");
        let reverse = run(&["scan", &db, "--reverse", "--keys-only", "--limit", "2"]);
        assert_eq!(reverse, b"z\ntext\n");
    }
}

#[test]
fn a_large_value_that_a_format_cannot_write_is_refused_before_a_byte_of_it() {
    let work = Work::new();
    let memory = ["--memory", "1MiB"];
    let put = ["put", "db", "text", "-", "--memory", "1MiB"];
    assert_eq!(work.run_with(&put, &text()).code, 0);
    for how in ["--no-escapes", "--values-only"] {
        let failed = work.fails(5, &[&["export", "db", how], &memory[..]].concat());
        assert!(
            failed.contains("entry `text` cannot be written so"),
            "{failed}"
        );
    }
    // Without line feeds both give it as it is.
    let line: Vec<u8> = text().into_iter().filter(|&byte| byte != b'\n').collect();
    assert_eq!(work.run_with(&put, &line).code, 0);
    let shown = work.ok(&[&["export", "db", "--values-only"], &memory[..]].concat());
    assert!(shown.strip_suffix(b"\n") == Some(&line[..]));
    let shown = work.ok(&[&["export", "db", "--no-escapes"], &memory[..]].concat());
    assert!(shown.strip_prefix(b"text\t") == Some(&[&line[..], b"\n"].concat()[..]));
}
