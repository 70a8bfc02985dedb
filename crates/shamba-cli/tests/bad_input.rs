//! Bad input: a clear message, a hint, the right exit code, and nothing lost.

mod common;

use common::Work;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

const READERS: [&[&str]; 6] = [
    &["get", "db", "k"],
    &["scan", "db"],
    &["stats", "db"],
    &["export", "db"],
    &["verify", "db"],
    &["delete", "db", "k"],
];

#[test]
fn a_missing_folder_is_not_created_by_looking() {
    let work = Work::new();
    for command in READERS
        .iter()
        .chain([&["compact", "db"] as &[&str], &["checkpoint", "db", "copy"]].iter())
    {
        let message = work.fails(3, command);
        assert!(message.contains("no database"), "{message}");
        assert!(!work.path("db").exists(), "{command:?} created it");
    }
    assert!(!work.path("copy").exists());
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let work = Work::new();
    std::fs::create_dir(work.path("db")).unwrap();
    work.file("db/letter.txt", "dear");
    work.file("in.tsv", "a\t1\n");
    for command in READERS.iter().chain(
        [
            &["put", "db", "k", "v"] as &[&str],
            &["import", "db", "in.tsv"],
        ]
        .iter(),
    ) {
        let message = work.fails(3, command);
        assert!(message.contains("not a SHaMBa database"), "{message}");
    }
    let files: Vec<_> = std::fs::read_dir(work.path("db"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["letter.txt"]);
    assert_eq!(std::fs::read(work.path("db/letter.txt")).unwrap(), b"dear");
}

#[test]
fn a_file_is_no_database() {
    let work = Work::new();
    work.file("db", "text");
    work.fails(3, &["get", "db", "k"]);
    work.fails(3, &["put", "db", "k", "v"]);
    assert_eq!(std::fs::read(work.path("db")).unwrap(), b"text");
}

/// Each file of a folder: its name, bytes, and when it was written.
fn files_of(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| {
            let written = entry.metadata().unwrap().modified().unwrap();
            (
                entry.file_name(),
                std::fs::read(entry.path()).unwrap(),
                written,
            )
        })
        .collect();
    files.sort();
    files
}

/// Who has an older build than the database needs is told what is new in it.
#[test]
fn a_database_of_newer_features_is_refused_by_their_names() {
    let work = Work::new();
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shamba/tests/fixtures/sets");
    std::fs::create_dir(work.path("db")).unwrap();
    for file in std::fs::read_dir(sets.join("unknown/features")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), work.path("db").join(file.file_name())).unwrap();
    }
    let looks = READERS.iter().filter(|command| command[0] != "delete");
    let before = files_of(&work.path("db"));
    let refused = |command: &[&str]| {
        let message = work.fails(3, command);
        for part in ["`telepathy`, `time travel`", "hint: use a newer build"] {
            assert!(message.contains(part), "{command:?}: {message}");
        }
    };
    looks.for_each(|command| refused(command));
    assert!(files_of(&work.path("db")) == before, "a file was changed");
    refused(&["put", "db", "k", "v"]);
    let mut after = files_of(&work.path("db"));
    // A lock leaves its file.
    after.retain(|(name, ..)| name != "LOCK");
    assert!(after == before, "a file was changed");
}

/// What only looks leaves every file as it was, and makes none, whatever it finds in the log.
#[test]
fn looking_changes_nothing() {
    let work = Work::new();
    work.ok(&["put", "db", "a", "1"]);
    let mut command = work.command();
    command.args(["import", "db", "-", "--format", "tsv"]);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut import = command.spawn().unwrap();
    // More than it gathers before it writes, and then it is killed: this stays in the log.
    let lines: String = (0..50_000).map(|i| format!("key{i}\tvalue{i}\n")).collect();
    let mut input = import.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    let log = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".wal");
    let start = std::time::Instant::now();
    while !files_of(&work.path("db"))
        .iter()
        .any(|(name, bytes, _)| log(name) && bytes.len() > 9999)
    {
        assert!(start.elapsed().as_secs() < 60, "nothing was logged");
    }
    import.kill().unwrap();
    import.wait().unwrap();
    let before = files_of(&work.path("db"));
    for _ in 0..2 {
        assert_eq!(work.ok(&["get", "db", "a"]), b"1");
        assert_eq!(work.ok(&["get", "db", "key7"]), b"value7");
        for command in ["scan", "stats", "verify", "export"] {
            work.ok(&[command, "db"]);
        }
    }
    let verified = String::from_utf8(work.ok(&["verify", "db"])).unwrap();
    assert!(verified.contains("; 1 logs, "), "{verified}");
    assert!(files_of(&work.path("db")) == before);
}

#[test]
fn a_database_in_use_says_so() {
    let work = Work::new();
    work.ok(&["put", "db", "a", "1"]);
    // An import that waits for its input holds the database.
    let hold = || {
        let mut command = work.command();
        command.args(["import", "db", "-", "--format", "tsv"]);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut holder = hold();
    let start = std::time::Instant::now();
    loop {
        let ran = work.run(&["delete", "db", "b"]);
        if ran.code != 0 {
            let message = ran.failed(3, &["delete"]);
            assert!(message.contains("in use"), "{message}");
            break;
        }
        // It came while the other held the database.
        if holder.try_wait().unwrap().is_some() {
            holder = hold();
        }
        assert!(
            start.elapsed().as_secs() < 60,
            "the import never opened the database"
        );
    }
    work.fails(3, &["put", "db", "a", "2"]);
    // Those that only look go on beside it.
    assert_eq!(work.ok(&["get", "db", "a"]), b"1");
    for command in ["scan", "stats", "verify", "export"] {
        work.ok(&[command, "db"]);
    }
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(work.ok(&["get", "db", "a"]), b"1");
}

#[test]
fn malformed_lines_end_an_import_and_nothing_of_their_batch_is_written() {
    for (format, good, bad) in [
        ("tsv", "K\tv", "no tab here"),
        ("tsv", "K\tv", "k\t\\q"),
        ("csv", "K,v", "a,b,c"),
        ("csv", "K,v", "\"a,b"),
        ("jsonl", r#"{"key":"K","value":"v"}"#, r#"{"key":"a"}"#),
        ("jsonl", r#"{"key":"K","value":"v"}"#, "{"),
    ] {
        let work = Work::new();
        let good = |number| good.replace('K', &format!("k{number}")) + "\n";
        let before: String = (0..5).map(good).collect();
        let name = format!("in.{format}");
        work.file(&name, format!("{before}{bad}\n{}", good(9)));
        let entries = || {
            let keys = work.ok(&["scan", "db", "--keys-only"]);
            keys.iter().filter(|&&byte| byte == b'\n').count()
        };
        let message = work.fails(5, &["import", "db", &name, "--batch", "2"]);
        assert!(message.contains(&format!("{name}:6: ")), "{message}");
        assert!(message.contains("4 entries were written"), "{message}");
        assert_eq!(entries(), 4, "{format} {bad}");
        // The same import again with the bad line passed over gives everything good.
        let ran = work.run(&["import", "db", &name, "--skip-bad"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let warning =
            ran.stderr.contains("skipped 1 malformed entry") && ran.stderr.contains(":6: ");
        assert!(warning, "{}", ran.stderr);
        // A quote that is never closed takes the rest of the file with it.
        let expected = if bad.starts_with('"') { 5 } else { 6 };
        assert_eq!(entries(), expected, "{format} {bad}");
    }
}

#[test]
fn values_of_any_length_are_imported() {
    let work = Work::new();
    let (long, longest) = ("v".repeat(300_000), "w".repeat((64 << 20) + 1));
    // Later lines replace earlier ones, though one of them is written by itself.
    let lines = format!("a\t{long}\nb\tbefore\nb\t{longest}\nc\t{longest}\nc\t3\n");
    work.file("in.tsv", lines);
    work.ok(&["import", "db", "in.tsv", "--memory", "4MiB"]);
    assert_eq!(
        work.ok(&["get", "db", "a"]).trim_ascii_end(),
        long.as_bytes()
    );
    let got = work.ok(&["get", "db", "b"]);
    assert!(got.trim_ascii_end() == longest.as_bytes());
    assert_eq!(work.ok(&["get", "db", "c"]).trim_ascii_end(), b"3");
}

#[test]
fn keys_and_values_that_are_too_large_are_bad_input() {
    let work = Work::new();
    let key = "k".repeat(70_000);
    work.file("in.tsv", format!("a\t1\n{key}\t2\nb\t3\n"));
    let message = work.fails(5, &["import", "db", "in.tsv"]);
    assert!(
        message.contains("in.tsv:2: ") && message.contains("too large"),
        "{message}"
    );
    assert_eq!(work.ok(&["scan", "db"]), b"");
    let ran = work.run(&["import", "db", "in.tsv", "--skip-bad"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(work.ok(&["scan", "db"]), b"a\t1\nb\t3\n");
    work.fails(5, &["put", "db", &key, "v"]);
    assert_eq!(work.ok(&["get", "db", "a"]), b"1");
}

#[test]
fn input_that_cannot_be_read_creates_nothing() {
    let work = Work::new();
    std::fs::create_dir(work.path("folder.tsv")).unwrap();
    work.file("names.csv", "a,b\n1,2\n");
    work.file("data", "a\t1\n");
    work.fails(3, &["import", "db", "absent.tsv"]);
    work.fails(3, &["import", "db", "folder.tsv"]);
    work.fails(2, &["import", "db", "names.csv", "--key", "c"]);
    work.fails(2, &["import", "db", "data"]);
    work.fails(2, &["import", "db", "-"]);
    work.fails(2, &["import", "db", "names.csv", "--no-escapes"]);
    work.fails(2, &["import", "db", "names.csv", "--key", "0"]);
    assert!(!work.path("db").exists());
}

#[test]
fn nonsense_options_are_refused() {
    let work = Work::new();
    work.file("in.tsv", "a\t1\n");
    for nonsense in [
        &["--memory", "lots"] as &[&str],
        &["--memory", "0%"],
        &["--memory", "1KiB"],
        &["--size-ratio", "1"],
        &["--size-ratio", "many"],
        &["--bits-per-key", "-1"],
        &["--bits-per-key", "1000"],
        &["--bits-per-key", "NaN"],
        &["--write-buffer", "1"],
        &["--compression", "gzip"],
        &["--compression", "zstd:99"],
        &["--merge-policy", "sometimes"],
        &["--background-threads", "1000"],
        &["--batch", "0"],
        &["--format", "xml"],
    ] {
        let ran = work.run(&[&["import", "db", "in.tsv"], nonsense].concat());
        assert_eq!(ran.code, 2, "{nonsense:?}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: "),
            "{nonsense:?}: {}",
            ran.stderr
        );
        assert!(!work.path("db").exists(), "{nonsense:?}");
    }
    work.ok(&["put", "db", "a", "1"]);
    for nonsense in [
        &["scan", "db", "--from", "b", "--to", "a"] as &[&str],
        &["scan", "db", "--prefix", "a", "--from", "a"],
        &["scan", "db", "--limit", "0"],
        &["get", "db", "--escaped", "\\x1"],
        &["export", "db", "--columns"],
        &["export", "db", "--output", "data.xml"],
        &["bench", "readrandom", "--distribution", "flat"],
        &["bench", "readrandom", "--compressible", "2"],
        &["bench", "readrandom", "--reuse"],
        &["bench", "sleeprandom"],
        &["bench", "fillseq", "--dir", "db"],
        &["demo", "--size", "big"],
        &[],
    ] {
        let ran = work.run(nonsense);
        assert_eq!(ran.code, 2, "{nonsense:?}: {}", ran.stderr);
    }
    assert_eq!(work.ok(&["export", "db"]), b"a\t1\n");
    work.fails(3, &["get", "db", "a", "--keyspace", "absent"]);
}

#[test]
fn a_checkpoint_does_not_overwrite() {
    let work = Work::new();
    work.ok(&["put", "db", "a", "1"]);
    work.ok(&["put", "other", "b", "2"]);
    work.fails(3, &["checkpoint", "db", "other"]);
    work.fails(3, &["checkpoint", "db", "db"]);
    assert_eq!(work.ok(&["export", "other"]), b"b\t2\n");
    assert_eq!(work.ok(&["export", "db"]), b"a\t1\n");
}

#[test]
fn what_cannot_be_written_so_is_not_written_halfway() {
    let work = Work::new();
    work.ok(&["put", "db", "a", "1"]);
    work.ok(&["put", "db", "b", "l1\nl2"]);
    work.file("out.jsonl", "before");
    let message = work.fails(
        5,
        &["export", "db", "--values-only", "--output", "out.jsonl"],
    );
    assert!(message.contains("`b`"), "{message}");
    assert_eq!(std::fs::read(work.path("out.jsonl")).unwrap(), b"before");
    assert!(!work.path("out.jsonl.partial").exists());
}

#[test]
fn a_reader_that_stops_ends_the_command_quietly() {
    let work = Work::new();
    let text: String = (0..20_000)
        .map(|i| format!("{i:08}\t{}\n", "v".repeat(50)))
        .collect();
    work.file("in.tsv", text);
    work.ok(&["import", "db", "in.tsv"]);
    for command in ["scan", "export"] {
        let mut child = work
            .command()
            .args([command, "db"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{command}: {:?}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    }
}

#[test]
fn damage_is_found_and_named() {
    let work = Work::new();
    let text: String = (0..20_000)
        .map(|i| format!("{i:08}\tvalue {i}\n"))
        .collect();
    work.file("in.tsv", &text);
    work.ok(&["import", "db", "in.tsv"]);
    work.ok(&["compact", "db"]);
    assert_eq!(work.ok(&["export", "db"]), text.as_bytes());
    // Every open may write a new manifest: names are looked up when they are needed.
    let files = || {
        std::fs::read_dir(work.path("db"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let table = &files()
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let length = table.metadata().unwrap().len();
    let named = |start: &str| {
        let name =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        files().find(|path| name(path).starts_with(start)).unwrap()
    };
    let flip = |path: &std::path::Path, at: u64| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at as usize] ^= 0x10;
        std::fs::write(path, bytes).unwrap();
    };
    let damaged = |path: &std::path::Path, damage: &dyn Fn()| {
        let whole = std::fs::read(path).unwrap();
        damage();
        let ran = work.run(&["verify", "db"]);
        std::fs::write(path, whole).unwrap();
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        for line in ["error: ", "hint: "] {
            assert!(ran.stderr.contains(line), "{}", ran.stderr);
        }
        (ran.text(), ran.stderr)
    };
    let name = table.file_name().unwrap().to_str().unwrap();
    for at in [100, length / 2, length - 10] {
        let (table, message) = damaged(table, &|| flip(table, at));
        assert!(table.contains(name), "byte {at}: {table}");
        assert!(message.contains("1 files"), "{message}");
    }
    let (shown, _) = damaged(table, &|| {
        std::fs::OpenOptions::new()
            .write(true)
            .open(table)
            .unwrap()
            .set_len(length / 3)
            .unwrap();
    });
    assert!(shown.contains(name), "cut: {shown}");
    // A table that is gone, and the summary for programs.
    let gone = std::fs::read(table).unwrap();
    std::fs::remove_file(table).unwrap();
    let ran = work.run(&["verify", "db", "--json"]);
    std::fs::write(table, gone).unwrap();
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!(summary["damaged_files"], 1);
    assert_eq!(summary["damaged"][0]["file"], name);
    let manifest = &named("MANIFEST");
    let (shown, message) = damaged(manifest, &|| flip(manifest, 20));
    assert!(
        shown.is_empty() && message.contains("no table was checked"),
        "{message}"
    );
    let current = &named("CURRENT");
    damaged(current, &|| {
        std::fs::write(current, "MANIFEST-999999\n").unwrap()
    });
    damaged(current, &|| std::fs::write(current, "nonsense").unwrap());
    work.ok(&["verify", "db"]);
    assert_eq!(work.ok(&["export", "db"]), text.as_bytes());
}
