//! Each example is run as a person would, and does what it says.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Runs a program with this input; its output, where it went well.
fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// A folder, and the path of one in it that is not there yet.
fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db").to_str().unwrap().to_owned();
    (folder, db)
}

#[test]
fn words_are_counted_and_counted_on() {
    let (_folder, db) = place();
    let counter = env!("CARGO_BIN_EXE_counter");
    assert_eq!(run(counter, &[&db, "2"], "a b A\nb a c\n"), "3\ta\n2\tb\n");
    let more = "c c c c\n".repeat(300);
    assert_eq!(run(counter, &[&db, "2"], &more), "1201\tc\n3\ta\n");
    assert_eq!(run(counter, &[&db], "").lines().count(), 3);
}

#[test]
fn a_cache_keeps_within_memory_and_disk() {
    let (_folder, db) = place();
    let cache = env!("CARGO_BIN_EXE_cache");
    let first = run(cache, &[&db, "20000"], "");
    assert!(
        first.starts_with("17673 takes the most steps, 278; 0 of"),
        "{first}"
    );
    // What was put before is there.
    let again = run(cache, &[&db, "20000"], "");
    assert!(
        again.starts_with("17673 takes the most steps, 278; 20000 of"),
        "{again}"
    );
    // Generations go when the cache is full.
    let (_folder, db) = place();
    let full = run(cache, &[&db, "600000", "4"], "");
    let number = |line: &str, at: usize| {
        let words = full.lines().find(|found| found.starts_with(line)).unwrap();
        let number = words
            .split(' ')
            .filter_map(|word| word.parse::<u64>().ok())
            .nth(at);
        number.unwrap_or_else(|| panic!("{words}"))
    };
    assert!(number("memory", 0) <= number("memory", 1), "{full}");
    assert!(number("on disk", 0) < 5 << 20, "{full}");
}

#[test]
fn old_days_are_forgotten_and_ranges_found() {
    let (_folder, db) = place();
    let series = env!("CARGO_BIN_EXE_time-series");
    let day = 86_400;
    let mut lines = String::new();
    for number in 0..5 * 24 {
        let time = number * 3600;
        lines += &format!("cpu {time} {number}\ncpux {time} 7\n");
    }
    let told = run(series, &[&db, "add", "3"], &lines);
    assert_eq!(told, "day 0 is forgotten\nday 1 is forgotten\n");
    let (from, to) = ((3 * day - 3600).to_string(), (3 * day + 7200).to_string());
    let asked = run(series, &[&db, "ask", "cpu", &from, &to], "");
    let expected = format!(
        "{from} 71\n{} 72\n{} 73\n3 values, mean 72.000\n",
        3 * day,
        3 * day + 3600
    );
    assert_eq!(asked, expected);
    let gone = run(series, &[&db, "ask", "cpu", "0", "7200"], "");
    assert_eq!(gone, "0 values, mean 0.000\n");
}

#[test]
fn documents_with_all_words_are_found() {
    let (folder, db) = place();
    let search = env!("CARGO_BIN_EXE_search");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (one, two, three) = (path("1"), path("2"), path("3"));
    std::fs::write(&one, "The memory budget").unwrap();
    std::fs::write(&two, "memory, and memory again").unwrap();
    std::fs::write(&three, "A budget for MEMORY").unwrap();
    run(search, &[&db, "add", &one, &two, &three], "");
    let find = |words: &[&str]| run(search, &[&[&*db, "find"], words].concat(), "");
    assert_eq!(find(&["memory", "Budget"]), format!("{one}\n{three}\n"));
    assert_eq!(find(&["memory"]), format!("{one}\n{two}\n{three}\n"));
    assert_eq!(find(&["mem"]), "");
    // A document that was changed is found by what it says now.
    std::fs::write(&one, "nothing").unwrap();
    run(search, &[&db, "add", &one], "");
    assert_eq!(find(&["memory", "budget"]), format!("{three}\n"));
    assert_eq!(find(&["nothing"]), format!("{one}\n"));
}

/// A request over a connection of its own: the status, and the body.
fn request(address: &str, head: &str, body: &str) -> Result<(u16, String), Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    let status = head.split(' ').nth(1).ok_or("no status")?;
    Ok((status.parse()?, body.to_owned()))
}

#[test]
fn a_service_answers_and_ends() {
    let (_folder, db) = place();
    for round in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_service"))
            .arg(&db)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap();
        let ask = |head: &str, body: &str| request(address, head, body).unwrap();
        if round == 0 {
            assert_eq!(ask("GET /keys/a", "").0, 404);
            assert_eq!(ask("PUT /keys/a", "one").0, 204);
            assert_eq!(ask("PUT /keys/b", "two").0, 204);
            assert_eq!(ask("DELETE /keys/b", "").0, 204);
        }
        assert_eq!(ask("GET /keys/a", ""), (200, "one".to_owned()));
        assert_eq!(ask("GET /keys/b", "").0, 404);
        let (status, stats) = ask("GET /stats", "");
        assert!(status == 200 && stats.contains("lookups"), "{stats}");
        // What ends its input ends it.
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_database_of_fjall_comes_over() {
    let (folder, db) = place();
    let old = folder.path().join("fjall");
    let fjall = fjall::Database::builder(&old).open().unwrap();
    for name in ["users", "posts"] {
        let keyspace = fjall
            .keyspace(name, fjall::KeyspaceCreateOptions::default)
            .unwrap();
        for number in 0..5000u32 {
            keyspace
                .insert(number.to_be_bytes(), format!("{name} {number}"))
                .unwrap();
        }
        keyspace.remove(7u32.to_be_bytes()).unwrap();
    }
    drop(fjall);
    let migrate = env!("CARGO_BIN_EXE_migrate");
    let told = run(migrate, &["fjall", old.to_str().unwrap(), &db], "");
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["posts: 4999 entries", "users: 4999 entries"]);
    let moved = shamba::Options::new().open(&db).unwrap();
    let users = moved.keyspace("users").unwrap();
    assert_eq!(users.len().unwrap(), 4999);
    let value = users.get(4999u32.to_be_bytes()).unwrap();
    assert_eq!(value.as_deref(), Some(b"users 4999".as_slice()));
    assert!(users.get(7u32.to_be_bytes()).unwrap().is_none());
}
