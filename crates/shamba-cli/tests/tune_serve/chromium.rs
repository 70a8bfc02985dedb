//! A headless Chromium, driven by its DevTools protocol over a pipe.
//!
//! One browser and one tab for each test. Messages are JSON that ends with a zero byte; a `sh`
//! moves the pipes to where Chromium wants them, file descriptors 3 and 4.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Nothing takes long; what hangs is to fail.
const PATIENCE: Duration = Duration::from_secs(60);

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// The browser, or `None` where there is none and that is fine: outside of continuous integration,
/// which sets `CI` and must not pass without having tried.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("SHAMBA_CHROMIUM").map(PathBuf::from);
    let installed = std::env::split_paths(&path)
        .flat_map(|dir| NAMES.map(|name| dir.join(name)))
        .find(|path| path.is_file());
    let found = named.or(installed);
    if found.is_none() {
        let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        assert!(
            !ci,
            "there is no Chromium to test the page with: install it"
        );
        eprintln!("SKIPPED: there is no Chromium to test the page with");
    }
    found
}

/// A browser with one tab.
pub struct Tab {
    child: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    session: Option<String>,
    last: u64,
    _profile: tempfile::TempDir,
}

impl Tab {
    /// Opens one, or `None` where tests may do without.
    pub fn open() -> Option<Tab> {
        let chromium = find()?;
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"])
            .arg(chromium)
            .args([
                "--headless=new",
                // Tests may run as root, which has no sandbox; the page is our own.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut tab = Tab {
            child,
            pipe,
            messages,
            events: VecDeque::new(),
            session: None,
            last: 0,
            _profile: profile,
        };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tab.call("Target.attachToTarget", attach);
        tab.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        Some(tab)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.pipe.write_all(&bytes).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let message = message.unwrap_or_else(|e| panic!("{method}: no answer: {e}"));
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// The value of an expression of JavaScript, awaited.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", params);
        let thrown = &result["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        result["result"]["value"].clone()
    }

    /// Text that an expression gives.
    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.eval(expression) != json!(true) {
            let page = self.eval("document.body.innerText");
            assert!(
                begin.elapsed() < PATIENCE,
                "never {expression}; the page says {page}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How large the window is, and whether that is a phone's.
    pub fn size(&mut self, width: u32, height: u32, phone: bool) {
        let factor = if phone { 2 } else { 1 };
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": factor, "mobile": phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Light or dark.
    pub fn scheme(&mut self, name: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": name}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Goes to an address, as if for the first time.
    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        self.wait("location.href === 'about:blank'");
        self.call("Page.navigate", json!({"url": url}));
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'");
    }

    /// Presses a key as a person would.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            " " => 32,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("what is the code of {other}?"),
        };
        let mut params = json!({
            "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code,
        });
        match key {
            "Enter" => params["text"] = json!("\r"),
            " " => (params["text"], params["code"]) = (json!(" "), json!("Space")),
            _ => {}
        }
        self.call("Input.dispatchKeyEvent", params.clone());
        params["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", params);
    }

    /// Types into a field, in place of what it holds.
    pub fn fill(&mut self, id: &str, text: &str) {
        self.eval(&format!(
            "(() => {{ const field = document.getElementById('{id}'); field.focus(); field.select(); }})()"
        ));
        match text {
            "" => self.eval("document.execCommand('delete')"),
            text => self.call("Input.insertText", json!({"text": text})),
        };
    }

    /// Clicks in the middle of an element.
    pub fn click(&mut self, id: &str) {
        let at = self.eval(&format!(
            "(() => {{ const element = document.getElementById('{id}'); element.scrollIntoView({{block: 'center'}});
               const box = element.getBoundingClientRect();
               return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({
                "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// What went wrong in the page so far: exceptions, errors of the console and of loading.
    pub fn errors(&mut self) -> Vec<String> {
        // Answers come in order: what was to be told before this is there then.
        self.eval("0");
        let wrong = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Network.loadingFailed") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].contains(&event["params"]["type"].as_str().unwrap())
            }
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        let all = self.events.iter().filter(|event| wrong(event));
        all.map(Value::to_string).collect()
    }

    /// The addresses that were asked for so far.
    pub fn requests(&self) -> Vec<String> {
        let sent = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let url = |event: &Value| {
            event["params"]["request"]["url"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.events.iter().filter(sent).map(url).collect()
    }

    /// Saves a picture of the whole page into the folder `SHAMBA_SCREENSHOTS`, for a person to look
    /// at; without it, does nothing.
    pub fn picture(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("SHAMBA_SCREENSHOTS") else {
            return;
        };
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.call("Page.captureScreenshot", params);
        let bytes = base64_bytes(picture["data"].as_str().unwrap());
        std::fs::write(Path::new(&dir).join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64_bytes(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four
            .iter()
            .fold(0u32, |bits, digit| bits << 6 | u32::from(value(*digit)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
