//! One measurement in a process of its own.
//!
//! Peak memory and `/proc/self/io` belong to a process, and one engine's threads and allocator
//! must not disturb the next: the experiments run every cell by starting this program again with
//! the hidden command `cell`, the request as JSON on standard input, the result as JSON on
//! standard output.
use crate::experiments::{cpu, hash_sharing, hot_spot, keyspaces, multi_get, small_budgets};
use crate::reproduce::trial;
use crate::{Error, Result, compare, oracle, pressure, store, trace};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

/// The hidden command that answers one request.
pub const COMMAND: &str = "cell";

/// What a system without memory left sends.
const SIGKILL: i32 = 9;

/// A measurement to make.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    Compare(compare::Cell),
    ComparePressed(compare::Pressed),
    Load(store::Load),
    Pressure(pressure::Cell),
    Oracle(oracle::Request),
    HotSpot(hot_spot::Cell),
    Keyspaces(keyspaces::Cell),
    SmallBudgets(small_budgets::Cell),
    MultiGet(multi_get::Cell),
    Cpu(cpu::Cell),
    HashSharing(hash_sharing::Cell),
    Trial(trial::Cell),
    Replay(trace::Cell),
}

/// Makes the measurement in a new process of this program.
pub(crate) fn measure<T: serde::de::DeserializeOwned>(request: &Request) -> Result<T> {
    measure_by(Command::new(std::env::current_exe()?), request)
}

/// The same in a process that `command` starts, to which only [`COMMAND`] is added.
pub(crate) fn measure_by<T: serde::de::DeserializeOwned>(
    mut command: Command,
    request: &Request,
) -> Result<T> {
    let mut child = command
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&serde_json::to_vec(request)?)?;
    }
    let output = child.wait_with_output()?;
    if output.status.signal() == Some(SIGKILL) {
        return Err(Error::Killed(format!("{request:?}")));
    }
    if !output.status.success() {
        return Err(Error::Child(format!("{} in {request:?}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Answers the request on standard input. The program's hidden command.
pub fn answer() -> Result<()> {
    let request = serde_json::from_reader(std::io::stdin().lock())?;
    let answer = match request {
        Request::Compare(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::ComparePressed(pressed) => serde_json::to_vec(&pressed.measure()?)?,
        Request::Load(load) => serde_json::to_vec(&load.run()?)?,
        Request::HotSpot(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::Keyspaces(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::SmallBudgets(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::MultiGet(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::Cpu(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::HashSharing(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::Oracle(request) => serde_json::to_vec(&request.solve()?)?,
        Request::Replay(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::Trial(cell) => serde_json::to_vec(&cell.measure()?)?,
        Request::Pressure(cell) => serde_json::to_vec(&cell.measure()?)?,
    };
    Ok(std::io::stdout().write_all(&answer)?)
}
