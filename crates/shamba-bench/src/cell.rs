//! One measurement in a process of its own.
//!
//! Peak memory and `/proc/self/io` belong to a process, and one engine's threads and allocator
//! must not disturb the next: the experiments run every cell by starting this program again with
//! the hidden command `cell`, the name of a measurement and the request as JSON on standard
//! input, the result as JSON on standard output.
use crate::experiments::{cpu, reopen, writes};
use crate::reproduce::ours::{hot_spot, keyspaces, multi_get, small_budgets};
use crate::reproduce::{hash_sharing, trial};
use crate::{Error, Result, compare, oracle, store, trace};
use serde::{Serialize, de::DeserializeOwned};
use std::any::type_name;
use std::fmt;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

/// The hidden command that answers one request.
pub const COMMAND: &str = "cell";

/// What a system without memory left sends.
const SIGKILL: i32 = 9;

/// A measurement that a process of its own makes.
pub(crate) trait Measurement: fmt::Debug + Serialize + DeserializeOwned {
    /// What comes out.
    type Found: Serialize + DeserializeOwned;

    /// Makes it, in this process.
    fn measure(&self) -> Result<Self::Found>;
}

/// Makes the measurement of a request in JSON; its result in JSON.
type Answer = fn(serde_json::Value) -> Result<Vec<u8>>;

/// The name of a measurement's type, by which it is asked for, and how it is made.
type Known = (fn() -> &'static str, Answer);

/// What the hidden command can be asked for.
const KNOWN: [Known; 15] = [
    known::<compare::Cell>(),
    known::<compare::Pressed>(),
    known::<store::Load>(),
    known::<oracle::Request>(),
    known::<hot_spot::Cell>(),
    known::<keyspaces::Cell>(),
    known::<small_budgets::Cell>(),
    known::<multi_get::Cell>(),
    known::<cpu::Cell>(),
    known::<cpu::puts::Cell>(),
    known::<reopen::Cell>(),
    known::<writes::Cell>(),
    known::<hash_sharing::Cell>(),
    known::<trial::Cell>(),
    known::<trace::Cell>(),
];

const fn known<M: Measurement>() -> Known {
    (type_name::<M>, |request| {
        let asked: M = serde_json::from_value(request)?;
        Ok(serde_json::to_vec(&asked.measure()?)?)
    })
}

/// Makes the measurement in a new process of this program.
pub(crate) fn measure<M: Measurement>(asked: &M) -> Result<M::Found> {
    measure_by(Command::new(std::env::current_exe()?), asked)
}

/// The same in a process that `command` starts, to which only [`COMMAND`] is added.
pub(crate) fn measure_by<M: Measurement>(mut command: Command, asked: &M) -> Result<M::Found> {
    let mut child = command
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&serde_json::to_vec(&(type_name::<M>(), asked))?)?;
    }
    let output = child.wait_with_output()?;
    if output.status.signal() == Some(SIGKILL) {
        return Err(Error::Killed(format!("{asked:?}")));
    }
    if !output.status.success() {
        return Err(Error::Child(format!("{} in {asked:?}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Answers the request on standard input. The program's hidden command.
pub fn answer() -> Result<()> {
    let (name, request): (String, _) = serde_json::from_reader(std::io::stdin().lock())?;
    let known = KNOWN.iter().find(|(known, _)| known() == name);
    let unknown = || Error::InvalidSetting(format!("there is no measurement `{name}`"));
    let (_, answer) = known.ok_or_else(unknown)?;
    Ok(std::io::stdout().write_all(&answer(request)?)?)
}
