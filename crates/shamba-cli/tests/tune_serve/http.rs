//! The server: its answers are the model's, and untrusted requests get nothing.

use std::io::Write;

use serde_json::{Value, json};
use shamba_model::cost::{Allocation, Design, Device, Environment, Workload, costs};
use shamba_model::curve::Family;
use shamba_model::presets;
use shamba_model::trade_off::trade_off;
use shamba_model::tree::MergePolicy;

use crate::common::Work;
use crate::served::Served;

#[test]
fn the_page_and_its_files() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    for (path, kind, part) in [
        ("/", "text/html", "<main>"),
        ("/style.css", "text/css", "prefers-color-scheme: dark"),
        ("/main.js", "text/javascript", "import"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains(part), "{path}");
        for header in [
            &format!("content-type: {kind}") as &str,
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
    }
    let start = served.get("/api/start").json();
    assert_eq!(start["input"]["entries"], 100_000_000);
    assert!(start["database"].is_null());
    assert!(start["assumed"].to_string().contains("entries 100000000"));
}

/// The page's inputs, as it sends them.
fn question() -> Value {
    json!({
        "entries": "100M", "entry-size": "128", "memory": "256MiB", "page-size": "4KiB",
        "read-latency": "80", "write-cost": "1.5", "empty-lookups": "30%",
        "existing-lookups": "20%", "range-lookups": "10%", "updates": "40%",
        "present-size-ratio": "4", "max-lookup-cost": "", "selectivity": "",
    })
}

#[test]
fn answers_are_those_of_the_command() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    let mut arguments = vec!["tune".to_owned(), "--json".to_owned()];
    for (name, value) in question().as_object().unwrap() {
        let value = value.as_str().unwrap();
        if !value.is_empty() {
            arguments.push(format!("--{name}={value}"));
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told: Value = serde_json::from_slice(&work.ok(&arguments)).unwrap();
    let answer = served.ask("/api/design", &question());
    for part in [
        "input",
        "assumed",
        "present",
        "best",
        "contributions",
        "options",
    ] {
        assert_eq!(answer[part], told[part], "{part}");
        assert!(!told[part].is_null(), "{part}");
    }
    // The command that it shows asks the same again.
    let command = answer["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--json"]).collect();
    let again: Value = serde_json::from_slice(&work.ok(&words)).unwrap();
    assert_eq!(again["best"], answer["best"]);
}

#[test]
fn curves_and_stores_are_the_models() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    let answer = served.ask("/api/design", &question());
    let environment = Environment {
        entries: 1e8,
        entry_bytes: 128.0,
        device: Device {
            page_bytes: 4096.0,
            read_seconds: 80e-6,
            write_cost: 1.5,
            merge_read_cost: 1.0,
        },
    };
    let workload = Workload {
        empty_lookups: 0.3,
        existing_lookups: 0.2,
        range_lookups: 0.1,
        updates: 0.4,
        selectivity: 1e-6,
    };
    let bloom = Family::Bloom.curve().unwrap();
    let close = |got: &Value, want: f64| {
        let got = got.as_f64().unwrap();
        assert!((got - want).abs() <= 1e-12 * want, "{got} is not {want}");
    };
    let present = Design {
        policy: MergePolicy::Leveling,
        size_ratio: 4,
        buffer_bytes: (64u64 << 20) as f64,
        filter_bytes: (192u64 << 20) as f64,
        allocation: Allocation::Uniform,
    };
    let points = trade_off(&present, &MergePolicy::ALL, &environment, &workload, &bloom).unwrap();
    let told = answer["present_curve"].as_array().unwrap();
    assert_eq!(told.len(), points.len());
    for (told, point) in told.iter().zip(&points) {
        close(&told["lookup"], point.costs.point_lookup);
        close(&told["update"], point.costs.update);
        assert_eq!(told["size_ratio"], point.design.size_ratio);
        assert_eq!(told["efficient"], point.efficient);
    }
    // The best design is on the other curve, which is below.
    let best = &answer["best"];
    let on = |point: &&Value| {
        point["policy"] == best["policy"] && point["size_ratio"] == best["size_ratio"]
    };
    let curve = answer["best_curve"].as_array().unwrap();
    if let Some(point) = curve.iter().find(on) {
        assert_eq!(point["lookup"], best["costs"]["point_lookup"]);
    }
    assert!(curve.iter().any(|point| point["efficient"] == true));

    let stores = answer["stores"].as_array().unwrap();
    let names: Vec<_> = stores.iter().map(|store| &store["name"]).collect();
    assert_eq!(
        names,
        ["LevelDB", "RocksDB", "Cassandra", "HBase", "Accumulo"]
    );
    for (store, preset) in stores.iter().zip(presets::ALL) {
        let design = preset.design(&environment, present.buffer_bytes).unwrap();
        let want = costs(&design, &environment, &workload, &bloom).unwrap();
        close(&store["plan"]["costs"]["point_lookup"], want.point_lookup);
        close(&store["plan"]["costs"]["update"], want.update);
        assert_eq!(store["plan"]["size_ratio"], preset.size_ratio);
    }
    let few = served.ask("/api/design", &json!({"entries": "100k", "memory": "1MiB"}));
    let why = few["stores"][1]["why"].as_str().unwrap();
    assert!(why.starts_with("size_ratio is 10"), "{why}");
}

#[test]
fn nonsense_is_told_with_its_fields() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    for (question, told, field) in [
        (json!({"entries": 0}), "entries is 0", "entries"),
        (json!({}), "how many entries", "entries"),
        (
            json!({"entries": "many"}),
            "`many` is not a number",
            "entries",
        ),
        (
            json!({"entries": "1M", "memory": 1000}),
            "one page",
            "memory",
        ),
        (
            json!({"entries": "1M", "updates": "60%", "empty-lookups": "60%"}),
            "sum to 1.2",
            "updates",
        ),
        (
            json!({"entries": "1M", "updates": "-1"}),
            "negative",
            "updates",
        ),
        (
            json!({"entries": "1M", "size-ratio": "2.5"}),
            "whole number from 2",
            "size-ratio",
        ),
        (
            json!({"entries": "1M", "max-update-cost": "1e-9"}),
            "the lowest found is",
            "max-update-cost",
        ),
        (
            json!({"entries": "1M", "colour": 1}),
            "unknown field",
            "colour",
        ),
        (
            json!({"entries": "1M", "range-entries": 1, "selectivity": 0.1}),
            "the same in two ways",
            "range-entries",
        ),
    ] {
        let answer = served.post("/api/design", &question.to_string());
        assert_eq!(answer.status, 422, "{question}: {}", answer.body);
        let answer = answer.json();
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(told), "{question}: {error}");
        let fields = answer["fields"].as_array().unwrap();
        assert!(fields.contains(&Value::from(field)), "{question}: {answer}");
    }
    for extreme in [
        json!({"entries": 1e300}),
        json!({"entries": 1e-300, "entry-size": 1e-300}),
        json!({"entries": 1, "memory": 4096}),
        json!({"entries": 1e18, "memory": 1e300, "page-size": 1e-300}),
        json!({"entries": 1e15, "present-size-ratio": 4_294_967_295u32}),
        json!({"entries": 1e9, "updates": 1, "memory": 1e12, "write-cost": 0}),
        json!({"entries": 1e9, "empty-lookups": 1, "memory": 1e12}),
    ] {
        let answer = served.post("/api/design", &extreme.to_string());
        assert!(
            [200, 422].contains(&answer.status),
            "{extreme}: {}",
            answer.body
        );
    }
    served.ask("/api/design", &question());
}

#[test]
fn shares_make_room() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    let shares = json!({
        "empty-lookups": "30%", "existing-lookups": "10%", "range-lookups": "10%", "updates": "75%",
    });
    let body = json!({"changed": "updates", "shares": shares});
    let got = served.ask("/api/balance", &body);
    let want = json!({
        "empty-lookups": 0.15, "existing-lookups": 0.05, "range-lookups": 0.05, "updates": 0.75,
    });
    assert_eq!(got, want);
    for (body, status) in [
        (json!({"changed": "entries", "shares": {}}), 422),
        (json!({"changed": "updates", "shares": {"memory": 1}}), 422),
        (
            json!({"changed": "updates", "shares": {"updates": "150%"}}),
            422,
        ),
        (
            json!({"changed": "updates", "shares": {"updates": "50%"}}),
            422,
        ),
        (json!({"shares": {}}), 400),
    ] {
        let answer = served.post("/api/balance", &body.to_string());
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
    }
}

#[test]
fn untrusted_requests_get_nothing() {
    let work = Work::new();
    let mut served = Served::new(&work, &[]);
    let port = served.port;
    let plain = |host: &str| format!("GET /api/start HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    for host in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"),
        String::new(),
    ] {
        let answer = served.raw(plain(&host));
        assert!(
            [400, 421].contains(&answer.status),
            "{host}: {}",
            answer.head
        );
        assert!(!answer.body.contains("input"), "{host}: {}", answer.body);
    }
    let fine = served.raw(plain(&format!("Host: localhost:{port}\r\n")));
    assert_eq!(fine.status, 200, "{}", fine.head);

    let json = "Content-Type: application/json\r\n";
    let (own, other) = (
        format!("{json}Origin: http://127.0.0.1:{port}\r\n"),
        format!("{json}Origin: http://evil.example\r\n"),
    );
    for (line, headers, body, status) in [
        ("POST /api/design", &own as &str, r#"{"entries":1e6}"#, 200),
        ("POST /api/design", &other, r#"{"entries":1e6}"#, 403),
        ("POST /api/stop", &other, "{}", 403),
        ("POST /api/stop", "Origin: null\r\n", "{}", 403),
        ("POST /api/stop", "Content-Type: text/plain\r\n", "{}", 415),
        ("POST /api/stop", "", "{}", 415),
        ("GET /api/stop", "", "", 405),
        ("GET /api/design", "", "", 405),
        ("DELETE /", "", "", 405),
        ("POST /", json, "{}", 405),
        ("POST /api/design", json, "entries", 400),
        ("POST /api/design", json, "[1]", 400),
        ("POST /api/design", json, &"[".repeat(10_000), 400),
        ("GET /Cargo.toml", "", "", 404),
        ("GET /../Cargo.toml", "", "", 404),
        ("GET /%2e%2e/%2e%2e/etc/passwd", "", "", 404),
        ("GET /style.css/../../../../etc/passwd", "", "", 404),
        ("GET //etc/passwd", "", "", 404),
        ("GET /page/index.html", "", "", 404),
    ] {
        let answer = served.request(line, headers, body);
        assert_eq!(answer.status, status, "{line} {headers}: {}", answer.body);
        assert!(answer.head.contains("content-security-policy"), "{line}");
    }
    let large = format!(r#"{{"entries":"{}"}}"#, "1".repeat(1 << 20));
    assert_eq!(served.post("/api/design", &large).status, 413);
    // The same without a length said beforehand.
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let answer = served.raw(format!(
        "POST /api/design HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{json}\
         Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
    ));
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert_eq!(served.raw("\0\0\0\r\n\r\n").status, 400);
    let mut broken = served.connect();
    broken.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
    drop(broken);
    // All that, and it goes on.
    served.ask("/api/design", &question());
    served.ask("/api/stop", &json!({}));
    assert!(served.ended().0.success());
}

/// What the kernel says that the port listens on.
#[cfg(target_os = "linux")]
#[test]
fn only_this_machine_can_reach_it() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    let port = format!(":{:04X}", served.port);
    let mut found = 0;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines() {
            let mut words = line.split_whitespace().skip(1);
            let (local, _, state) = (words.next(), words.next(), words.next());
            // 0A is a socket that listens.
            if let Some(local) = local.and_then(|local| local.strip_suffix(&port))
                && state == Some("0A")
            {
                assert_eq!(local, "0100007F", "{line}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn it_stops_when_asked_interrupted_or_idle() {
    let work = Work::new();
    let mut asked = Served::new(&work, &[]);
    // A connection that is kept open does not keep it.
    let open = asked.connect();
    asked.ask("/api/stop", &json!({}));
    let (status, told) = asked.ended();
    assert!(
        status.success() && told.contains("stopped: the page"),
        "{told}"
    );
    drop(open);

    let mut interrupted = Served::new(&work, &[]);
    interrupted.get("/");
    let id = interrupted.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(kill.unwrap().success());
    let (status, told) = interrupted.ended();
    assert!(
        status.success() && told.contains("stopped: Ctrl-C"),
        "{told}"
    );

    let mut idle = Served::for_minutes(&work, "0.005", &[]);
    let (status, told) = idle.ended();
    assert!(
        status.success() && told.contains("no request for"),
        "{told}"
    );
}

#[test]
fn a_database_is_measured_beside() {
    let work = Work::new();
    work.ok(&[
        "bench",
        "fillseq",
        "--entries",
        "20000",
        "--dir",
        "db",
        "--value-size",
        "84",
    ]);
    let some = work.ok(&["scan", "db", "--keys-only", "--limit", "300"]);
    work.file("keys", [&some, b"x\ny\nz\n" as &[u8]].concat());
    let served = Served::new(&work, &["db", "--keys", "keys"]);
    let start = served.get("/api/start").json();
    assert_eq!(start["input"]["entries"], 20_000);
    assert!(start["from_database"].to_string().contains("entries 20000"));
    let measured = &start["database"]["measured"];
    let levels = measured["levels"].as_array().unwrap();
    let entries: u64 = levels
        .iter()
        .map(|level| level["entries"].as_u64().unwrap())
        .sum();
    assert_eq!(entries + measured["buffered"].as_u64().unwrap(), 20_000);
    assert!(
        levels
            .iter()
            .any(|level| level["bits_per_key"].as_f64() > Some(5.0))
    );
    let lookups = &measured["lookups"];
    assert_eq!(lookups["lookups"], 303);
    let close = |got: &Value, want: f64| {
        let got = got.as_f64().unwrap();
        assert!((got - want).abs() < 1e-12, "{got} is not {want}");
    };
    let positive = 300.0 / 303.0;
    close(&lookups["positive"], positive);
    assert!(lookups["searched"].as_f64().unwrap() > positive - 1e-12);

    // What is predicted for these lookups is of their mix, whatever the inputs say.
    let mut inputs = start["input"].clone();
    inputs
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    let answer = served.ask("/api/design", &inputs);
    let costs = &answer["present"]["costs"];
    let of = |name: &str| costs[name].as_f64().unwrap();
    let want = positive * of("existing_lookup") + (1.0 - positive) * of("empty_lookup");
    close(&answer["measured_lookup"], want);

    // In between others may have the database, and what they do is measured then.
    work.ok(&["put", "db", "another", "1"]);
    let again = served.ask("/api/measure", &json!({}));
    assert_eq!(again["input"]["entries"], 20_001);
    std::fs::remove_dir_all(work.path("db")).unwrap();
    let gone = served.post("/api/measure", "{}");
    assert_eq!(gone.status, 409, "{}", gone.body);
    assert!(gone.body.contains("no database"), "{}", gone.body);
    assert_eq!(served.get("/api/start").json(), again);
}

#[test]
fn what_cannot_be_served_is_told() {
    let work = Work::new();
    let served = Served::new(&work, &[]);
    let port = served.port.to_string();
    let taken = work.fails(2, &["tune", "--serve", "--port", &port]);
    assert!(taken.contains("--port 0"), "{taken}");
    for (arguments, told) in [
        (&["--serve", "--entries", "0"] as &[&str], "entries is 0"),
        (&["--serve", "--memory", "1000"], "one page"),
    ] {
        let message = work.fails(2, &[&["tune"], arguments].concat());
        assert!(message.contains(told), "{message}");
    }
    work.fails(3, &["tune", "nowhere", "--serve"]);
    work.ok(&["put", "db", "a", "1"]);
    let stdin = work.fails(2, &["tune", "db", "--serve", "--keys", "-"]);
    assert!(stdin.contains("standard input"), "{stdin}");
    for arguments in [
        &["--port", "0"] as &[&str],
        &["--idle", "5"],
        &["--serve", "--json"],
        &["--serve", "--idle", "0"],
        &["--serve", "--idle", "soon"],
        &["--serve", "--what-if", "updates=1"],
        &["--serve", "--print-description"],
    ] {
        assert_eq!(
            work.run(&[&["tune"], arguments].concat()).code,
            2,
            "{arguments:?}"
        );
    }
}
