//! The page in Chromium, used as a person would.

use serde_json::{Value, json};

use crate::chromium::Tab;
use crate::common::Work;
use crate::served::Served;

/// The results are there, and of the inputs of the fields.
const READY: &str = "!document.getElementById('results').hasAttribute('aria-busy') \
    && document.querySelector('#costs table') !== null \
    && !document.getElementById('results').classList.contains('stale') \
    && [...document.querySelectorAll('.frame')].every((frame) => frame.firstChild)";

/// Layout and what follows from it are done.
const SETTLED: &str =
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

const COSTS: &str = "document.getElementById('costs').innerText";
const HASH: &str = "location.hash";

struct Page {
    tab: Tab,
    served: Served,
    work: Work,
}

impl Page {
    /// The page of a server with these arguments, or `None` where there is no browser.
    fn open(arguments: &[&str]) -> Option<Page> {
        let tab = Tab::open()?;
        let work = Work::new();
        let served = Served::new(&work, arguments);
        let mut page = Page { tab, served, work };
        page.tab.size(1280, 900, false);
        page.go("");
        Some(page)
    }

    fn address(&self, hash: &str) -> String {
        format!("http://127.0.0.1:{}/{hash}", self.served.port)
    }

    fn go(&mut self, hash: &str) {
        let url = self.address(hash);
        self.tab.go(&url);
        self.tab.wait(READY);
    }

    fn value(&mut self, id: &str) -> String {
        self.tab
            .text(&format!("document.getElementById('{id}').value"))
    }

    /// Waits until the costs are others than these.
    #[track_caller]
    fn changed(&mut self, before: &str) -> String {
        let before = Value::from(before);
        self.tab.wait(&format!("{READY} && {COSTS} !== {before}"));
        self.tab.text(COSTS)
    }

    fn shown(&mut self, id: &str) -> bool {
        let shown = format!("!document.getElementById('{id}').hidden");
        self.tab.eval(&shown) == json!(true)
    }
}

const FIRST: [&str; 6] = [
    "--entries",
    "1G",
    "--memory",
    "2GiB",
    "--present-write-buffer",
    "64MiB",
];

#[test]
fn it_loads_from_its_server_only_and_without_errors() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    assert_eq!(page.tab.errors(), [""; 0]);
    let own = page.address("");
    let asked = page.tab.requests();
    assert!(asked.len() > 10, "{asked:?}");
    for url in asked {
        assert!(url.starts_with(&own) || url == "about:blank", "{url}");
    }
    // What it shows is what the model says.
    let inputs = json!({"entries": "1G", "memory": "2GiB", "present-write-buffer": "64MiB"});
    let answer = page.served.ask("/api/design", &inputs);
    let throughput = answer["best"]["costs"]["throughput"].as_f64().unwrap();
    let summary = page
        .tab
        .text("document.getElementById('summary').innerText");
    let digits: String = summary.replace(',', "");
    assert!(
        digits.contains(&format!("{throughput:.0} operations")),
        "{summary}"
    );
    for store in ["RocksDB", "LevelDB", "Cassandra", "HBase"] {
        for place in ["#chart .frame svg", "#marks"] {
            let text = page
                .tab
                .text(&format!("document.querySelector('{place}').textContent"));
            assert!(text.contains(store), "{place}: {store}");
        }
    }
    let levels = answer["best"]["levels"].as_array().unwrap().len();
    let drawn = "document.querySelectorAll('#trees figure:last-child .filter').length";
    assert_eq!(page.tab.eval(drawn), json!(levels));
    let options = page
        .tab
        .text("document.querySelector('#options pre').textContent");
    assert_eq!(options, answer["options"]["rust"]);
}

#[test]
fn a_changed_input_changes_costs_and_link_beside_the_present() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    let before = page.tab.text(COSTS);
    assert!(!before.contains("What if") && !page.shown("changes"));
    page.tab.fill("entries", "10G");
    let after = page.changed(&before);
    assert!(
        after.contains("What if") && after.contains("Present inputs"),
        "{after}"
    );
    let hash = page.tab.text(HASH);
    assert!(
        hash.contains("entries=1G") && hash.contains("if.entries=10G"),
        "{hash}"
    );
    // The link brings it all back.
    page.go(&hash);
    assert_eq!(page.tab.text(COSTS), after);
    assert_eq!(page.value("entries"), "10G");
    assert!(page.shown("changes"));
    // So does another link in the same page.
    let plain = hash.split("&if.").next().unwrap().to_owned();
    page.tab.eval(&format!("void (location.hash = '{plain}')"));
    assert_eq!(page.changed(&after), before);
    // Undone by its button; made the present by another.
    page.tab.fill("entries", "10G");
    let again = page.changed(&before);
    page.tab.click("undo");
    assert_eq!(page.changed(&again), before);
    page.tab.eval(
        "(() => { const choice = document.getElementById('present-merge-policy');
           choice.value = 'tiering'; choice.dispatchEvent(new Event('change')); })()",
    );
    let tiered = page.changed(&before);
    page.tab.click("adopt");
    let adopted = page.changed(&tiered);
    assert!(
        !adopted.contains("What if") && adopted.contains("tiering"),
        "{adopted}"
    );
    assert!(page.tab.text(HASH).contains("present-merge-policy=tiering"));
    assert_eq!(page.tab.errors(), [""; 0]);
}

#[test]
fn shares_make_room_for_the_one_that_moves() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    let before = page.tab.text(COSTS);
    page.tab.fill("updates", "80");
    page.changed(&before);
    assert_eq!(page.value("empty-lookups"), "10");
    assert_eq!(page.value("existing-lookups"), "10");
    // All to one and back: the others keep their proportions.
    page.tab.fill("updates", "100");
    page.tab
        .wait("document.getElementById('empty-lookups').value === '0'");
    page.tab.fill("updates", "50");
    page.tab
        .wait("document.getElementById('empty-lookups').value === '25'");
    let before = Value::from(before);
    page.tab.wait(&format!("{READY} && {COSTS} === {before}"));
}

#[test]
fn the_keyboard_reaches_and_moves_everything() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    page.tab
        .eval("document.querySelectorAll('details').forEach((group) => { group.open = true; })");
    page.tab.eval(SETTLED);
    let controls =
        "[...document.querySelectorAll('input, select, button, summary, pre, .scroll, #chart .frame svg')]
        .filter((control) => control.getClientRects().length > 0)";
    page.tab.eval(&format!(
        "{controls}.forEach((control, at) => {{ control.dataset.at = at; }})"
    ));
    let count = page
        .tab
        .eval(&format!("{controls}.length"))
        .as_u64()
        .unwrap();
    assert!(count > 50, "{count}");
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..count + 5 {
        page.tab.key("Tab");
        let at = page.tab.eval("document.activeElement.dataset?.at ?? null");
        reached.extend(at.as_str().and_then(|at| at.parse::<u64>().ok()));
    }
    let missed: Vec<u64> = (0..count).filter(|at| !reached.contains(at)).collect();
    assert_eq!(missed, [0u64; 0]);
    // Each has a name.
    let nameless = page.tab.eval(
        "[...document.querySelectorAll('input, select')].filter((control) =>
           !control.getAttribute('aria-label') && control.labels.length === 0).map((control) => control.id)",
    );
    assert_eq!(nameless, json!([]));

    let before = page.tab.text(COSTS);
    let slider = "document.getElementById('entries-slider')";
    page.tab.eval(&format!("{slider}.focus()"));
    page.tab.key("ArrowRight");
    let after = page.changed(&before);
    assert_eq!(page.value("entries"), "1.1G");
    assert!(page.tab.text(HASH).contains("if.entries=1.1G"));
    page.tab.key("ArrowRight");
    page.changed(&after);
    let spoken = page
        .tab
        .text(&format!("{slider}.getAttribute('aria-valuetext')"));
    assert!(
        spoken.starts_with("1.") && spoken.ends_with('G'),
        "{spoken}"
    );

    // Along the curve of the chart.
    page.tab
        .eval("document.querySelector('#chart .frame svg').focus()");
    page.tab.key("End");
    let last = page
        .tab
        .text("document.getElementById('readout').textContent");
    page.tab.key("ArrowLeft");
    let other = page
        .tab
        .text("document.getElementById('readout').textContent");
    assert!(
        last.contains("T = ") && other.contains("T = ") && last != other,
        "{last} {other}"
    );
    // And a button.
    page.tab.eval("document.getElementById('undo').focus()");
    page.tab.key("Enter");
    page.tab
        .wait(&format!("{READY} && {COSTS} === {}", Value::from(before)));
}

#[test]
fn nonsense_is_told_beside_its_field() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    let costs = page.tab.text(COSTS);
    for (field, text, told) in [
        ("entries", "0", "must be above 0"),
        ("entries", "many", "is not a number"),
        ("entries", "", "how many entries"),
        ("memory", "1000", "does not hold one page"),
        ("updates", "150", "must be from 0 to 100 %"),
    ] {
        let before = page.value(field);
        page.tab.fill(field, text);
        page.tab.wait("!document.getElementById('error').hidden");
        let error = page.tab.text("document.getElementById('error').innerText");
        assert!(error.contains(told), "{field} {text}: {error}");
        let own = page.tab.text(&format!(
            "document.getElementById('{field}-error').innerText"
        ));
        assert!(own.contains(told), "{field} {text}: {own}");
        let invalid = format!("document.getElementById('{field}').getAttribute('aria-invalid')");
        assert_eq!(page.tab.text(&invalid), "true", "{field} {text}");
        // What is right again is shown again.
        page.tab.fill(field, &before);
        page.tab.wait(&format!(
            "document.getElementById('error').hidden && {READY}"
        ));
        assert_eq!(page.tab.text(&invalid), "false", "{field} {text}");
        assert_eq!(page.tab.text(COSTS), costs);
    }
    // Shares that do not sum to 1, once they are free to.
    page.tab.click("balance");
    page.tab.fill("updates", "80");
    page.tab.wait("!document.getElementById('error').hidden");
    let error = page.tab.text("document.getElementById('error').innerText");
    assert!(error.contains("sum to 1.3"), "{error}");
    // A link to nonsense shows the present, and says what is wrong with its what-if.
    let hash = page.tab.text(HASH);
    let plain = hash.split("&if.").next().unwrap();
    let url = page.address(&format!("{plain}&if.entries=0"));
    page.tab.go(&url);
    page.tab.wait("!document.getElementById('error').hidden");
    assert_eq!(page.tab.text(COSTS), costs);
    let error = page.tab.text("document.getElementById('error').innerText");
    assert!(error.contains("“Entries” is 0"), "{error}");
    let url = page.address("#entries=0");
    page.tab.go(&url);
    page.tab.wait("!document.getElementById('error').hidden");
    let summary = page
        .tab
        .text("document.getElementById('summary').innerText");
    assert!(summary.contains("nothing to show"), "{summary}");
    let thrown = page.tab.errors();
    let thrown: Vec<_> = thrown
        .iter()
        .filter(|error| !error.contains("422"))
        .collect();
    assert!(thrown.is_empty(), "{thrown:?}");
}

/// Trees of one level and of many, of one run and of millions; costs near nothing and beyond
/// measure.
#[test]
fn extremes_are_drawn() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    for inputs in [
        "entries=1&memory=4KiB",
        "entries=1e15&memory=1GiB&present-size-ratio=2&present-write-buffer=4KiB",
        "entries=1e12&memory=1TiB&present-size-ratio=100000&present-merge-policy=tiering",
        "entries=1G&memory=100GiB&updates=1",
        "entries=1G&memory=1e15&empty-lookups=1",
        "entries=1G&memory=2GiB&range-lookups=1&selectivity=1",
        "entries=1G&memory=4KiB&existing-lookups=1&present-bits-per-key=0",
        "entries=1G&memory=2GiB&read-latency=1e-300&write-cost=1e300",
        "entries=1e9&memory=2GiB&present-bits-per-key=1e9&if.filter=ribbon",
    ] {
        page.go(&format!("#{inputs}"));
        page.tab.eval(SETTLED);
        assert_eq!(page.tab.errors(), [""; 0], "{inputs}");
        let error = page.tab.text("document.getElementById('error').innerText");
        assert!(!page.shown("error"), "{inputs}: {error}");
        let text = page
            .tab
            .text("document.getElementById('results').innerHTML");
        for bad in ["NaN", "Infinity", "undefined", "null"] {
            assert!(!text.contains(bad), "{inputs}: {bad}: {text}");
        }
    }
}

#[test]
fn it_fits_every_width() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    let hash = page.tab.text(HASH);
    let changed = format!("{hash}&if.updates=90%25&if.empty-lookups=5%25&if.existing-lookups=5%25");
    for (width, phone) in [
        (320, true),
        (390, true),
        (768, true),
        (900, false),
        (1280, false),
        (1920, false),
    ] {
        page.tab.size(width, 844, phone);
        for hash in [&hash, &changed] {
            page.go(hash);
            page.tab.eval(
                "document.querySelectorAll('details').forEach((group) => { group.open = true; })",
            );
            page.tab.eval(SETTLED);
            let wide = page
                .tab
                .eval("document.documentElement.scrollWidth")
                .as_u64()
                .unwrap();
            assert!(wide <= u64::from(width), "{width}: {wide} wide");
            let out = page.tab.eval(
                "[...document.querySelectorAll('body *')].filter((element) => {
                   if (element.closest('.scroll, pre, .skip, svg')) return false;
                   const box = element.getBoundingClientRect();
                   return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
                 }).map((element) => element.outerHTML.slice(0, 100))",
            );
            assert_eq!(out, json!([]), "{width}");
            // Drawings are as wide as their frames.
            let frames = page.tab.eval(
                "[...document.querySelectorAll('.frame')].map((frame) => frame.clientWidth - frame.firstChild.clientWidth)",
            );
            for left in frames.as_array().unwrap() {
                assert_eq!(left, 0, "{width}: {frames}");
            }
        }
    }
    for (name, width, phone, scheme) in [
        ("desktop", 1280, false, "light"),
        ("desktop-dark", 1280, false, "dark"),
        ("phone", 390, true, "light"),
        ("phone-dark", 390, true, "dark"),
    ] {
        page.tab.size(width, 844, phone);
        page.tab.scheme(scheme);
        page.go(if scheme == "dark" { &changed } else { &hash });
        page.tab.picture(name);
    }
}

/// WCAG 2.1's contrast of text against what is behind it: 4.5 at least.
#[test]
fn text_can_be_read_in_light_and_dark() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    let hash = page.tab.text(HASH);
    for scheme in ["light", "dark"] {
        page.tab.scheme(scheme);
        page.go(&format!("{hash}&if.entries=2G"));
        let faint = page.tab.eval(
            r"(() => {
               const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
               const light = ([r, g, b]) => {
                 const part = (value) => { const c = value / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
                 return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
               };
               const behind = (element) => {
                 for (let at = element; at; at = at.parentElement) {
                   const colour = numbers(getComputedStyle(at).backgroundColor);
                   if (colour.length === 3 || colour[3] === 1) return colour;
                 }
                 return [255, 255, 255];
               };
               const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
               return [...document.querySelectorAll('body *')].filter((element) => own(element) && element.getClientRects().length && !element.closest('title'))
                 .map((element) => {
                   const style = getComputedStyle(element);
                   const colour = numbers(element.namespaceURI.endsWith('svg') ? style.fill : style.color);
                   const [a, b] = [light(colour), light(behind(element))];
                   return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.outerHTML.slice(0, 120)];
                 }).filter(([contrast]) => contrast < 4.5);
             })()",
        );
        assert_eq!(faint, json!([]), "{scheme}");
    }
}

#[test]
fn a_database_is_shown_beside() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    assert!(!page.shown("measured"));
    page.work.ok(&[
        "bench",
        "fillseq",
        "--entries",
        "20000",
        "--dir",
        "db",
        "--value-size",
        "84",
    ]);
    let some = page
        .work
        .ok(&["scan", "db", "--keys-only", "--limit", "300"]);
    page.work.file("keys", [&some, b"x\ny\n" as &[u8]].concat());
    page.served = Served::new(&page.work, &["db", "--keys", "keys"]);
    page.go("");
    assert!(page.shown("measured"));
    let measured = "document.getElementById('measured').innerText";
    let text = page.tab.text(measured);
    assert!(
        text.contains("302 lookups") && text.contains("99.3 %"),
        "{text}"
    );
    assert_eq!(page.value("entries"), "20k");
    page.work.file("keys", b"x\ny\n");
    page.tab.click("measure");
    page.tab
        .wait(&format!("{measured}.includes('2 lookups, 0 %')"));
    assert_eq!(page.tab.errors(), [""; 0]);
    page.tab.picture("database");
}

#[test]
fn the_server_can_be_stopped_from_it() {
    let Some(mut page) = Page::open(&FIRST) else {
        return;
    };
    page.tab.click("stop");
    let (status, told) = page.served.ended();
    assert!(
        status.success() && told.contains("the page asked"),
        "{told}"
    );
    page.tab.wait("!document.getElementById('banner').hidden");
    // What is asked then is told, and the link goes on keeping the inputs.
    page.tab.fill("entries", "3G");
    page.tab
        .wait("document.getElementById('banner').innerText.includes('--serve')");
    assert!(page.tab.text(HASH).contains("if.entries=3G"));
}
