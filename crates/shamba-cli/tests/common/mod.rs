//! Runs the `shamba` command in a folder of its own.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder, removed at the end, in which commands run.
pub struct Work {
    dir: tempfile::TempDir,
}

/// What a command gave.
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Work {
    pub fn new() -> Self {
        Work {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shamba"));
        command.current_dir(self.dir.path());
        command
    }

    /// Runs `shamba` with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Runs `shamba` with these arguments and standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command();
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // A command that fails early closes its input; that is not this test's failure.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        });
        Ran::from(output)
    }

    /// Runs `shamba`, which must succeed; its standard output.
    pub fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    /// Runs `shamba`, which must fail with this code, an `error:` and a `hint:`; its error output.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        ran.failed(code, arguments)
    }
}

impl Ran {
    pub fn failed(self, code: i32, what: &[&str]) -> String {
        let what = format!("{:.200}", format!("{what:?}"));
        assert_eq!(self.code, code, "{what}: {}", self.stderr);
        assert!(self.stdout.is_empty(), "{what} printed {:?}", self.text());
        for line in ["error: ", "hint: "] {
            assert!(
                self.stderr.lines().any(|shown| shown.starts_with(line)),
                "{what}: {}",
                self.stderr
            );
        }
        self.stderr
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A small generator (SplitMix64): the same numbers for the same seed, everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
