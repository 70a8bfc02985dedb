//! `tune`: its numbers are the model's, its inputs come from where they should, nonsense is told.

mod common;

use common::Work;
use serde_json::Value;
use shamba_model::cost::{
    Allocation, Costs, Design, Device, Environment, Workload, costs, filters,
};
use shamba_model::curve::Family;
use shamba_model::search::{self, Bounds, Knobs, Request};
use shamba_model::tree::MergePolicy;

const MIB: f64 = 1024.0 * 1024.0;

/// Flags that say all that [`request`] has.
const FLAGS: [&str; 20] = [
    "--entries",
    "100M",
    "--entry-size",
    "128",
    "--memory",
    "256MiB",
    "--page-size",
    "4KiB",
    "--read-latency",
    "80",
    "--write-cost",
    "1.5",
    "--empty-lookups",
    "30",
    "--existing-lookups",
    "20",
    "--range-lookups",
    "10",
    "--updates",
    "40",
];

fn request() -> Request {
    Request {
        environment: Environment {
            entries: 1e8,
            entry_bytes: 128.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 80e-6,
                write_cost: 1.5,
                merge_read_cost: 1.0,
            },
        },
        workload: Workload {
            empty_lookups: 0.3,
            existing_lookups: 0.2,
            range_lookups: 0.1,
            updates: 0.4,
            selectivity: 100.0 / 1e8,
        },
        memory_bytes: 256.0 * MIB,
        knobs: Knobs::default(),
        bounds: Bounds::default(),
    }
}

/// The engine's defaults with the memory of [`request`].
fn present() -> Design {
    Design {
        policy: MergePolicy::Leveling,
        size_ratio: 10,
        buffer_bytes: 64.0 * MIB,
        filter_bytes: 192.0 * MIB,
        allocation: Allocation::Uniform,
    }
}

fn tune(work: &Work, more: &[&str]) -> Value {
    let arguments = [&["tune", "--json"], &FLAGS as &[&str], more].concat();
    serde_json::from_slice(&work.ok(&arguments)).unwrap()
}

fn json(work: &Work, arguments: &[&str]) -> Value {
    let arguments = [&["tune", "--json"], arguments].concat();
    serde_json::from_slice(&work.ok(&arguments)).unwrap()
}

#[track_caller]
fn close(got: &Value, want: f64) {
    let got = got.as_f64().unwrap();
    let off = (got - want).abs();
    assert!(off <= 1e-12 * want.abs(), "got {got}, want {want}");
}

#[track_caller]
fn same_costs(got: &Value, want: &Costs) {
    let want = serde_json::to_value(want).unwrap();
    for (name, want) in want.as_object().unwrap() {
        close(&got[name], want.as_f64().unwrap());
    }
}

#[track_caller]
fn same_design(got: &Value, want: &Design) {
    assert_eq!(got["policy"], serde_json::to_value(want.policy).unwrap());
    assert_eq!(got["size_ratio"], want.size_ratio);
    close(&got["buffer_bytes"], want.buffer_bytes);
    close(&got["filter_bytes"], want.filter_bytes);
}

#[test]
fn the_numbers_are_the_models() {
    let work = Work::new();
    let request = request();
    let (environment, workload) = (&request.environment, &request.workload);
    for (name, family) in [("bloom", Family::Bloom), ("ideal", Family::Ideal)] {
        let curve = family.curve().unwrap();
        let answer = tune(&work, &["--filter", name]);
        let now = costs(&present(), environment, workload, &curve).unwrap();
        same_design(&answer["present"], &present());
        same_costs(&answer["present"]["costs"], &now);
        let found = search::search(&request, &curve).unwrap();
        same_design(&answer["best"], &found.design);
        same_costs(&answer["best"]["costs"], &found.costs);
        assert!(found.costs.average < now.average);

        let levels = answer["best"]["levels"].as_array().unwrap();
        let filters = filters(&found.design, environment, workload, &curve).unwrap();
        assert_eq!(levels.len(), filters.len());
        for (level, filter) in levels.iter().zip(&filters) {
            close(&level["bits_per_key"], filter.bits_per_key);
            close(&level["false_positive_rate"], filter.rate);
        }

        let policies = MergePolicy::ALL;
        let steps =
            search::contributions(&present(), &policies, environment, workload, &curve).unwrap();
        let told = answer["contributions"].as_array().unwrap();
        assert_eq!(told.len(), steps.len());
        for (told, step) in told.iter().zip(&steps) {
            same_design(told, &step.design);
            same_costs(&told["costs"], &step.costs);
            close(&told["speedup"], step.costs.throughput / now.throughput);
        }
        assert_eq!(told[0]["step"], "present");
        same_costs(&told[6]["costs"], &found.costs);
    }
}

#[test]
fn what_must_hold_holds() {
    let work = Work::new();
    let curve = Family::Bloom.curve().unwrap();
    let fixed = [
        "--merge-policy",
        "leveling",
        "--size-ratio",
        "5",
        "--write-buffer",
        "16MiB",
        "--allocation",
        "uniform",
    ];
    let best = &tune(&work, &fixed)["best"];
    let mut wanted = request();
    wanted.knobs = Knobs {
        policies: vec![MergePolicy::Leveling],
        size_ratio: Some(5),
        buffer_bytes: Some(16.0 * MIB),
        allocation: Allocation::Uniform,
    };
    let found = search::search(&wanted, &curve).unwrap();
    same_design(best, &found.design);
    same_costs(&best["costs"], &found.costs);
    assert_eq!(best["allocation"], "uniform");

    let free = &tune(&work, &[])["best"]["costs"];
    let bound = free["point_lookup"].as_f64().unwrap() * 0.97;
    let best = &tune(&work, &["--max-lookup-cost", &bound.to_string()])["best"]["costs"];
    assert!(best["point_lookup"].as_f64().unwrap() <= bound);
    assert!(best["update"].as_f64() > free["update"].as_f64());
    let bound = free["update"].as_f64().unwrap() * 0.9;
    let best = &tune(&work, &["--max-update-cost", &bound.to_string()])["best"]["costs"];
    assert!(best["update"].as_f64().unwrap() <= bound);
}

#[test]
fn a_description_says_it_all() {
    let work = Work::new();
    let direct = tune(&work, &["--max-lookup-cost", "2"]);
    for (file, json_flag) in [("tune.toml", None), ("tune.json", Some("--json"))] {
        let mut arguments = [&["tune"], &FLAGS as &[&str]].concat();
        arguments.extend(["--max-lookup-cost", "2", "--print-description"]);
        arguments.extend(json_flag);
        work.file(file, work.ok(&arguments));
        let again = json(&work, &["--description", file]);
        for part in ["input", "present", "best", "contributions", "options"] {
            assert_eq!(again[part], direct[part], "{file}: {part}");
        }
        assert_eq!(again["assumed"].as_array().unwrap().len(), 0, "{again}");
        // What was printed prints the same.
        let mut arguments = vec!["tune", "--description", file, "--print-description"];
        arguments.extend(json_flag);
        let printed = work.ok(&arguments);
        assert_eq!(printed, std::fs::read(work.path(file)).unwrap());
    }
    let text = std::fs::read_to_string(work.path("tune.toml")).unwrap();
    for line in [
        "entries = 100000000",
        "updates = 0.4",
        "max-lookup-cost = 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let ran = work.run_with(
        &["tune", "--description", "-", "--json"],
        b"entries = \"1M\"\nupdates = \"10%\"\nempty-lookups = 0.9\npresent-merge-policy = \"tiering\"\n",
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer["input"]["entries"], 1_000_000);
    assert_eq!(answer["input"]["updates"], 0.1);
    assert_eq!(answer["present"]["policy"], "tiering");
}

/// Memory that the engine's defaults do not fit into, and designs described with other memory than
/// there is.
#[test]
fn memory_need_not_be_the_present_designs() {
    let work = Work::new();
    let answer = json(&work, &["--entries", "10M", "--memory", "8MiB"]);
    close(&answer["present"]["buffer_bytes"], 4.0 * MIB);
    close(&answer["present"]["filter_bytes"], 4.0 * MIB);
    let given = [
        "--present-write-buffer",
        "1MiB",
        "--present-bits-per-key",
        "2",
    ];
    let answer = json(
        &work,
        &[&["--entries", "10M", "--memory", "8MiB"] as &[&str], &given].concat(),
    );
    close(&answer["present"]["filter_bytes"], 2.5e6);
    let steps = answer["contributions"].as_array().unwrap();
    assert_eq!(
        (&steps[0]["step"], &steps[1]["step"]),
        (&"present".into(), &"memory".into())
    );
    close(&steps[1]["filter_bytes"], 7.0 * MIB);
    same_costs(
        &steps.last().unwrap()["costs"],
        &serde_json::from_value(answer["best"]["costs"].clone()).unwrap(),
    );
    let answer = json(&work, &["--entries", "8M"]);
    close(&answer["input"]["memory"], 64.0 * MIB + 10e6);
}

#[test]
fn flags_come_before_the_description() {
    let work = Work::new();
    work.file(
        "d.toml",
        "entries = 1000000\nentry-size = 100\nselectivity = 0.01\n",
    );
    let answer = json(
        &work,
        &[
            "--description",
            "d.toml",
            "--entries",
            "2M",
            "--range-entries",
            "50",
        ],
    );
    let input = &answer["input"];
    assert_eq!(
        (&input["entries"], &input["entry-size"]),
        (&2_000_000.into(), &100.into())
    );
    assert_eq!(
        (&input["range-entries"], &input["selectivity"]),
        (&50.into(), &Value::Null)
    );
    assert_eq!(
        json(&work, &["--description", "d.toml"])["input"]["entries"],
        1_000_000
    );
}

#[test]
fn a_what_if_is_the_same_as_asking_for_it() {
    let work = Work::new();
    let answer = tune(
        &work,
        &["--what-if", "updates=90%", "--what-if", "entries=1G"],
    );
    let other = &answer["what_if"];
    for (name, share) in [
        ("empty-lookups", 0.05),
        ("existing-lookups", 0.1 / 3.0),
        ("range-lookups", 0.05 / 3.0),
        ("updates", 0.9),
    ] {
        let got = other["input"][name].as_f64().unwrap();
        assert!((got - share).abs() < 1e-12, "{name}: {got}");
    }
    assert_ne!(other["best"], answer["best"]);
    assert_eq!(answer["best"], tune(&work, &[])["best"]);
    let curve = Family::Bloom.curve().unwrap();
    let mut wanted = request();
    let of = |name: &str| other["input"][name].as_f64().unwrap();
    wanted.environment.entries = 1e9;
    wanted.workload = Workload {
        empty_lookups: of("empty-lookups"),
        existing_lookups: of("existing-lookups"),
        range_lookups: of("range-lookups"),
        updates: of("updates"),
        selectivity: 100.0 / 1e9,
    };
    let found = search::search(&wanted, &curve).unwrap();
    same_design(&other["best"], &found.design);
    close(&other["best"]["costs"]["average"], found.costs.average);
    // The filters there are have ten times the keys now.
    close(&other["present"]["filter_bytes"], present().filter_bytes);

    let smaller = tune(
        &work,
        &["--what-if", "memory=32MiB", "--what-if", "filter=ribbon"],
    );
    close(&smaller["what_if"]["present"]["buffer_bytes"], 16.0 * MIB);
    assert_eq!(smaller["what_if"]["options"]["filter"], "Ribbon");
    let fixed = tune(&work, &["--size-ratio", "3", "--what-if", "size-ratio="]);
    assert_eq!(fixed["best"]["size_ratio"], 3);
    assert_eq!(fixed["what_if"]["best"], answer["best"]);

    let text = String::from_utf8(
        work.ok(&[&["tune"], &FLAGS as &[&str], &["--what-if", "updates=50"]].concat()),
    );
    assert!(text.unwrap().contains("what if updates=50"));
}

#[test]
fn the_text_has_every_part() {
    let work = Work::new();
    let text = String::from_utf8(work.ok(&["tune", "--entries", "100M"])).unwrap();
    for part in [
        "| present ",
        "| best ",
        "operations/s",
        "existing lookup",
        "  all together",
        "filter bits/key",
        "KeyspaceOptions::new()",
        "    .merge_policy(MergePolicy::",
        "            .family(FilterFamily::Bloom)",
        "assumed",
        "read-latency 100 µs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// What [`options_can_be_pasted`] finds in this file, so that the compiler has seen it.
fn pasted() -> [shamba::KeyspaceOptions; 4] {
    use shamba::{
        FilterAllocation, FilterFamily, FilterOptions, Granularity, KeyspaceOptions, MergePolicy,
    };
    [
        KeyspaceOptions::new()
            .merge_policy(MergePolicy::Leveling {
                granularity: Granularity::File,
            })
            .size_ratio(5)
            .write_buffer(16777216)
            .filter(
                FilterOptions::new()
                    .family(FilterFamily::Ribbon)
                    .bits_per_key(9.41)
                    .allocation(FilterAllocation::MonkeyGeneral {
                        existing_per_empty: 1.0,
                    }),
            ),
        KeyspaceOptions::new()
            .merge_policy(MergePolicy::LazyLeveling)
            .size_ratio(5)
            .write_buffer(16777216)
            .filter(
                FilterOptions::new()
                    .family(FilterFamily::Ribbon)
                    .bits_per_key(9.41)
                    .allocation(FilterAllocation::MonkeyGeneral {
                        existing_per_empty: 1.0,
                    }),
            ),
        KeyspaceOptions::new()
            .merge_policy(MergePolicy::LazyLeveling)
            .size_ratio(5)
            .write_buffer(16777216)
            .filter(
                FilterOptions::new()
                    .family(FilterFamily::Ribbon)
                    .bits_per_key(9.41)
                    .allocation(FilterAllocation::Monkey),
            ),
        KeyspaceOptions::new()
            .merge_policy(MergePolicy::LazyLeveling)
            .size_ratio(5)
            .write_buffer(16777216)
            .filter(
                FilterOptions::new()
                    .family(FilterFamily::Ribbon)
                    .bits_per_key(9.41),
            ),
    ]
}

#[test]
fn options_can_be_pasted() {
    let work = Work::new();
    let bare = |text: &str| text.replace([' ', '\n', ','], "");
    let source = bare(include_str!("tune.rs"));
    let designs = [
        ("leveling", "monkey"),
        ("lazy-leveling", "monkey"),
        ("lazy-leveling", "monkey-zero"),
        ("lazy-leveling", "uniform"),
    ];
    for ((policy, allocation), options) in designs.into_iter().zip(pasted()) {
        options.validate().unwrap();
        let given = [
            "--entries",
            "100M",
            "--memory",
            "128MiB",
            "--filter",
            "ribbon",
        ];
        let fixed = ["--size-ratio", "5", "--write-buffer", "16MiB"];
        let answer = json(
            &work,
            &[
                &given as &[&str],
                &fixed,
                &["--merge-policy", policy, "--allocation", allocation],
            ]
            .concat(),
        );
        let told = &answer["options"];
        assert!(
            source.contains(&bare(told["rust"].as_str().unwrap())),
            "{told}"
        );
        assert_eq!(told["write_buffer"], options.write_buffer);
        assert_eq!(told["bits_per_key"], options.filter.bits_per_key);
        // All that the design has the engine can have, but for hundredths of a bit.
        let [same, best] = [told, &answer["best"]].map(|of| of["costs"]["average"].as_f64());
        let (same, best) = (same.unwrap(), best.unwrap());
        assert!((same - best).abs() < 0.01 * best, "{same} is not {best}");
    }
}

/// Whole bytes and hundredths of bits are no other design: above all, it has as many levels.
#[test]
fn options_are_the_best_design() {
    let work = Work::new();
    for (entries, memory, allocation) in [
        ("100M", "128MiB", "monkey"),
        ("20M", "64MiB", "monkey"),
        ("50M", "100MiB", "monkey-zero"),
        ("1G", "1GiB", "uniform"),
    ] {
        let given = ["--entries", entries, "--memory", memory];
        let answer = json(
            &work,
            &[&given as &[&str], &["--allocation", allocation]].concat(),
        );
        let [same, best] = ["options", "best"].map(|of| &answer[of]["costs"]);
        assert_eq!(same["levels"], best["levels"], "{entries}");
        let [same, best] = [same, best].map(|costs| costs["average"].as_f64().unwrap());
        assert!((same - best).abs() < 0.001 * best, "{same} is not {best}");
    }
}

/// The engine's allocation is for the lookups that the design is for.
#[test]
fn options_divide_filters_for_the_lookups_there_are() {
    let work = Work::new();
    for (empty, existing, told) in [
        ("30", "20", "0.666667"),
        ("50", "0", "0.0"),
        ("0", "50", "1000000.0"),
        ("0", "0", "0.0"),
    ] {
        let rest =
            (100 - empty.parse::<u32>().unwrap() - existing.parse::<u32>().unwrap()).to_string();
        let given = [
            "--entries",
            "100M",
            "--memory",
            "128MiB",
            "--updates",
            &rest,
        ];
        let lookups = ["--empty-lookups", empty, "--existing-lookups", existing];
        let options = &json(&work, &[&given as &[&str], &lookups].concat())["options"];
        let line = format!("existing_per_empty: {told},");
        let rust = options["rust"].as_str().unwrap();
        assert!(rust.contains(&line), "{line} is not in {rust}");
        assert_eq!(options["allocation"], "monkey");
        assert_eq!(
            options["existing_per_empty"].as_f64(),
            Some(told.parse().unwrap())
        );
    }
}

/// A database that was redesigned keeps its design, and `tune` begins with it.
#[test]
fn a_database_tells_its_design() {
    let work = Work::new();
    let db = shamba::Options::new().open(work.path("db")).unwrap();
    for key in 0..20_000u32 {
        db.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let design = shamba::Design::default()
        .merge_policy(shamba::MergePolicy::LazyLeveling)
        .size_ratio(4)
        .write_buffer(128 << 10)
        .bits_per_key(6.0);
    db.redesign(design).unwrap();
    db.wait_for_compaction().unwrap();
    assert!(!db.stats().keyspaces[0].moving);
    db.close().unwrap();

    let answer = json(&work, &["db"]);
    let (present, told) = (&answer["present"], answer["from_database"].to_string());
    assert_eq!(present["policy"], "lazy-leveling");
    assert_eq!(present["size_ratio"], 4);
    assert_eq!(present["buffer_bytes"], f64::from(128 << 10));
    for part in [
        "present-merge-policy lazy-leveling (of the design that it keeps)",
        "present-size-ratio 4 (of the design that it keeps)",
        "present-write-buffer 131072 (of the design that it keeps)",
        "(of its files)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let assumed = answer["assumed"].to_string();
    for part in [
        "present-merge-policy",
        "present-size-ratio",
        "present-write-buffer",
    ] {
        assert!(!assumed.contains(part), "{part}: {assumed}");
    }

    // Flags come before it, and memory that its buffer does not fit leaves another.
    let flags = [
        "--present-merge-policy",
        "tiering",
        "--present-size-ratio",
        "3",
    ];
    let other = json(&work, &[&["db"], &flags as &[&str]].concat());
    assert_eq!(other["present"]["policy"], "tiering");
    assert_eq!(other["present"]["size_ratio"], 3);
    assert_eq!(other["present"]["buffer_bytes"], f64::from(128 << 10));
    let told = other["from_database"].to_string();
    assert!(
        !told.contains("merge-policy") && !told.contains("size-ratio"),
        "{told}"
    );
    let less = json(&work, &["db", "--memory", "64KiB"]);
    assert_eq!(less["present"]["buffer_bytes"], f64::from(32 << 10));
    assert!(less["assumed"].to_string().contains("another write buffer"));

    // The engine's own design, when it is one that was chosen, is told and not assumed.
    let db = shamba::Options::new().open(work.path("db")).unwrap();
    db.redesign(shamba::KeyspaceOptions::default().design())
        .unwrap();
    db.close().unwrap();
    let told = json(&work, &["db"])["from_database"].to_string();
    assert!(
        told.contains("present-size-ratio 10 (of the design"),
        "{told}"
    );
}

/// The best designs of extreme workloads are beyond what the engine's options allow.
#[test]
fn options_stay_within_the_engines() {
    let work = Work::new();
    let only = ["--entries", "1G", "--updates", "1", "--memory", "16GiB"];
    let answer = json(&work, &only);
    let options = &answer["options"];
    assert!(
        !options["limited"].as_array().unwrap().is_empty(),
        "{options}"
    );
    assert!(options["size_ratio"].as_u64().unwrap() <= 1000);
    assert!(options["write_buffer"].as_u64().unwrap() <= 2 << 30);
    let rust = options["rust"].as_str().unwrap();
    assert!(
        rust.contains(&format!(".size_ratio({})", options["size_ratio"])),
        "{rust}"
    );
}

#[test]
fn a_database_tells_what_it_knows() {
    let work = Work::new();
    let common = ["--entries", "20000", "--dir", "db", "--value-size", "84"];
    work.ok(&[&["bench", "fillseq"], &common as &[&str]].concat());
    let fresh = json(&work, &["db"]);
    let input = &fresh["input"];
    assert_eq!(input["entries"], 20_000);
    let size = input["entry-size"].as_f64().unwrap();
    assert!((90.0..130.0).contains(&size), "{size}");
    assert!(fresh["from_database"].to_string().contains("entries 20000"));
    let assumed = fresh["assumed"].to_string();
    for part in [
        "updates 50 % (a database counts operations while it is open; this one has counted none)",
        "present-allocation uniform",
    ] {
        assert!(assumed.contains(part), "{part}: {assumed}");
    }
    let told = fresh["from_database"].to_string();
    for part in [
        "present-merge-policy leveling",
        "present-size-ratio 10 (of the design",
        "present-write-buffer 67108864",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(input["empty-lookups"], 0.25);
    // Flags come before the database, and memory that no database could be opened with is fine.
    let more = json(&work, &["db", "--entries", "1M", "--memory", "64KiB"]);
    assert_eq!(more["input"]["entries"], 1_000_000);
    assert_eq!(more["input"]["memory"], 65536);

    // Of four keys looked up one is there.
    let first = work.ok(&["scan", "db", "--keys-only", "--limit", "1"]);
    work.file("keys", [&first, b"x\ny\nz\n" as &[u8]].concat());
    let asked = json(&work, &["db", "--keys", "keys"]);
    assert_eq!(asked["input"]["empty-lookups"], 0.375);
    assert_eq!(asked["input"]["existing-lookups"], 0.125);
    assert_eq!(asked["input"]["updates"], 0.5);
    assert!(asked["from_database"].to_string().contains("looked up"));
    let given = json(&work, &["db", "--keys", "keys", "--empty-lookups", "1"]);
    assert_eq!(given["input"]["existing-lookups"], 0);

    work.ok(&["put", "empty", "a", "1"]);
    work.ok(&["delete", "empty", "a"]);
    work.ok(&["compact", "empty"]);
    let message = work.fails(2, &["tune", "empty"]);
    assert!(message.contains("no entries"), "{message}");
    json(&work, &["empty", "--entries", "1M"]);
    work.fails(3, &["tune", "nowhere"]);
    assert!(!work.path("nowhere").exists());
}

#[test]
fn nonsense_is_told_with_what_to_do() {
    let work = Work::new();
    for (more, told) in [
        (&["--entries", "0"] as &[&str], "entries is 0"),
        (&[], "how many entries"),
        (&["--entries", "1M", "--updates", "0.9"], "sum to 0.9"),
        (
            &[
                "--entries",
                "1M",
                "--updates",
                "60",
                "--empty-lookups",
                "60",
            ],
            "sum to 120: empty-lookups 60",
        ),
        (&["--entries", "1M", "--updates=-1"], "negative"),
        (&["--entries", "1M", "--memory", "1000"], "one page"),
        (&["--entries", "1M", "--entry-size", "0"], "entry-size"),
        (&["--entries", "1M", "--read-latency", "0"], "read-latency"),
        (&["--entries", "1M", "--write-cost=-1"], "write-cost"),
        (
            &["--entries", "1M", "--range-entries", "2M"],
            "range lookup",
        ),
        (
            &["--entries", "1M", "--size-ratio", "2.5"],
            "whole number from 2",
        ),
        (
            &["--entries", "1M", "--size-ratio", "1"],
            "whole number from 2",
        ),
        (&["--entries", "1M", "--size-ratio", "100k"], "buffers"),
        (
            &[
                "--entries",
                "1M",
                "--memory",
                "1MiB",
                "--write-buffer",
                "2MiB",
            ],
            "write-buffer",
        ),
        (
            &[
                "--entries",
                "1M",
                "--memory",
                "1MiB",
                "--present-write-buffer",
                "2MiB",
            ],
            "present-write-buffer",
        ),
        (
            &["--entries", "1M", "--max-lookup-cost", "0"],
            "max-lookup-cost",
        ),
        (&["--entries", "1M", "--what-if", "updates"], "no `=`"),
        (
            &["--entries", "1M", "--what-if", "colour=red"],
            "unknown field `colour`",
        ),
        (
            &["--entries", "1M", "--what-if", "colour="],
            "unknown field `colour`",
        ),
        (
            &["--entries", "1M", "--what-if", "entries=many"],
            "not a number",
        ),
        (
            &[
                "--entries",
                "1M",
                "--updates",
                "1",
                "--what-if",
                "updates=0.5",
            ],
            "name others too",
        ),
        (
            &["--entries", "1M", "--what-if", "entries=0"],
            "entries is 0",
        ),
    ] {
        let message = work.fails(2, &[&["tune"], more].concat());
        assert!(message.contains(told), "{more:?}: {message}");
    }
}

#[test]
fn bounds_out_of_reach_say_what_is_within() {
    let work = Work::new();
    let arguments = [&["tune"], &FLAGS as &[&str], &["--max-update-cost"]].concat();
    let message = work.fails(2, &[&arguments as &[&str], &["1e-9"]].concat());
    assert!(message.contains("the lowest found is"), "{message}");
    let (_, least) = message.split_once("raise --max-update-cost to ").unwrap();
    let least = least.split(',').next().unwrap();
    work.ok(&[&arguments as &[&str], &[least]].concat());
    let lookups = ["--max-lookup-cost", "0.1"];
    let message = work.fails(2, &[&["tune"], &FLAGS as &[&str], &lookups].concat());
    assert!(message.contains("raise --max-lookup-cost"), "{message}");
}

#[test]
fn malformed_descriptions_are_told_by_line() {
    let work = Work::new();
    for (name, text, told) in [
        (
            "a.toml",
            "entries = 1\nentrys = 2\n",
            "a.toml:2: unknown field `entrys`",
        ),
        ("b.toml", "entries = \n", "b.toml:1:"),
        ("c.toml", "entries = \"many\"\n", "not a number"),
        (
            "d.json",
            "{\n\"filter\": \"oak\"}",
            "d.json:2: unknown variant `oak`",
        ),
    ] {
        work.file(name, text);
        let message = work.fails(5, &["tune", "--description", name]);
        assert!(message.contains(told), "{name}: {message}");
    }
    work.file(
        "both.toml",
        "entries = 1e6\nselectivity = 0.1\nrange-entries = 5\n",
    );
    work.fails(2, &["tune", "--description", "both.toml"]);
    work.fails(3, &["tune", "--description", "none.toml"]);
}
