//! A server of the page for one test, and requests to it byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Work;

/// Nothing here takes long; what hangs is to fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tune --serve`, killed at the end. Were the test killed, it would stop by itself.
pub struct Served {
    child: Child,
    pub port: u16,
}

/// A response.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Served {
    /// Serves with these arguments, on any port.
    pub fn new(work: &Work, arguments: &[&str]) -> Served {
        Served::for_minutes(work, "5", arguments)
    }

    /// The same, with the minutes it may be idle.
    pub fn for_minutes(work: &Work, idle: &str, arguments: &[&str]) -> Served {
        let all = [arguments, &["--serve", "--port", "0", "--idle", idle]].concat();
        let mut child = work
            .command()
            .arg("tune")
            .args(all)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("http://127.0.0.1:");
        let port = port.and_then(|rest| rest.strip_suffix('/'));
        let Some(port) = port.and_then(|port| port.parse().ok()) else {
            let _ = child.kill();
            let mut told = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut told);
            panic!("it printed {line:?}, and {told}");
        };
        Served { child, port }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes and reads until the server closes the connection.
    pub fn raw(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        // It may refuse, and close, before it has read everything.
        let _ = stream.write_all(request.as_ref());
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let text = String::from_utf8_lossy(&all);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// A request with these header lines besides its Host.
    pub fn request(&self, line: &str, headers: &str, body: &str) -> Answer {
        let (port, length) = (self.port, body.len());
        self.raw(format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        ))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), "", "")
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        let json = "Content-Type: application/json\r\n";
        self.request(&format!("POST {path}"), json, body)
    }

    /// A question that is answered.
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, &body.to_string());
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
        answer.json()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended; how, and what it said.
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut told = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut told).unwrap();
        (status, told)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}
