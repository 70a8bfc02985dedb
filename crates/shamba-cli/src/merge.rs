//! `shamba merge`: an operand into the value of a key.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shamba::{
    Append, Increment, JsonMergePatch, Maximum, MergeOperator, Minimum, Options, WriteOptions,
};

use crate::args::Global;
use crate::failure::Failure;
use crate::import::read_stdin;
use crate::open::{Access, EngineArgs, open};
use crate::text::{argument, preview};

/// Merge an operand into the value of a key, without reading it
///
/// What the value becomes says the merge operator of the keyspace, which is kept with it once it
/// was named: `counter` adds, `minimum` and `maximum` keep the least and the greatest by the order
/// of bytes, `append` puts behind, `json-merge-patch` patches JSON (RFC 7396).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  shamba merge db visits 1 --operator counter\n  shamba merge db visits -1\n  shamba get db visits --number\n  shamba merge db log 'one more line\\n' --escaped --keyspace logs --operator append"
)]
pub struct MergeArgs {
    /// The database folder; created when missing
    dir: PathBuf,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// The operand, a number for a counter, or - for standard input
    #[arg(allow_hyphen_values = true)]
    operand: OsString,
    /// Key and operand are written with escapes: \t \n \r \\ \xNN
    #[arg(long)]
    escaped: bool,
    /// The merge operator that the keyspace has from now on, for good: values that it does not know
    /// cannot be merged into
    #[arg(long, value_enum, value_name = "NAME")]
    operator: Option<Operator>,
}

/// Merge operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operator {
    /// Adds numbers
    Counter,
    /// Keeps the least
    Minimum,
    /// Keeps the greatest
    Maximum,
    /// Puts behind
    Append,
    /// Merges JSON merge patches (RFC 7396)
    JsonMergePatch,
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Operator::Counter => "counter",
            Operator::Minimum => "minimum",
            Operator::Maximum => "maximum",
            Operator::Append => "append",
            Operator::JsonMergePatch => "json-merge-patch",
        }
    }

    /// Options that give a keyspace this operator.
    pub fn give(self, options: Options, keyspace: &str) -> Options {
        match self {
            Operator::Counter => options.merge_operator(keyspace, Increment),
            Operator::Minimum => options.merge_operator(keyspace, Minimum),
            Operator::Maximum => options.merge_operator(keyspace, Maximum),
            Operator::Append => options.merge_operator(keyspace, Append),
            Operator::JsonMergePatch => options.merge_operator(keyspace, JsonMergePatch),
        }
    }
}

pub fn run(global: &Global, args: &MergeArgs) -> Result<(), Failure> {
    let key = argument(&args.key, args.escaped)?;
    let given = match args.operand.as_encoded_bytes() {
        b"-" => read_stdin((64 << 20) + 1)?,
        _ => argument(&args.operand, args.escaped)?,
    };
    // What makes no sense gives no keyspace an operator, which stays.
    let known = args.operator.map(Operator::name);
    let checked = known.map(|name| operand(name, &given)).transpose()?;
    let engine = EngineArgs {
        merge_operator: args.operator,
        ..EngineArgs::default()
    };
    let opened = open(global, &args.dir, Access::Create, &engine)?;
    let Some(name) = opened.keyspace.merge_operator() else {
        return Err(Failure::usage(
            format!(
                "keyspace `{}` has no merge operator",
                opened.keyspace.name()
            ),
            "name one with --operator: counter, minimum, maximum, append or json-merge-patch",
        ));
    };
    let operand = match checked {
        Some(operand) => operand,
        None => operand(name, &given)?,
    };
    let options = WriteOptions::synced();
    opened.keyspace.merge_with(&key, operand, options)?;
    opened.close()
}

/// What is merged by the operator of a name, where it is written like this.
fn operand(operator: &str, text: &[u8]) -> Result<Vec<u8>, Failure> {
    if operator == Increment.name() {
        let number = std::str::from_utf8(text).ok();
        let number: Option<i64> = number.and_then(|text| text.trim().parse().ok());
        let number = number.ok_or_else(|| {
            Failure::usage(
                format!("`{}` is no number to count by", preview(text)),
                "a counter takes an integer of 64 bits, such as 1 or -5",
            )
        })?;
        return Ok(number.to_le_bytes().to_vec());
    }
    if operator == JsonMergePatch.name()
        && let Err(error) = serde_json::from_slice::<serde_json::Value>(text)
    {
        let what = format!("the patch is no JSON: {error}");
        return Err(Failure::usage(what, "write it as {\"name\":\"value\"}"));
    }
    Ok(text.to_vec())
}
