//! `ptc testee`: the libraries' operations over standard input and output, one line each way. The crate under test decides what an
//! operation does; the tables here decode and encode.
//!
//! `{"id":…,"op":NAME,"input":{…}}` is answered by `{"id":…,"ok":…}` or `{"id":…,"error":…}`. An operation that is not in the tables
//! is answered by `{"id":…,"error":{"reason":"unknown_op","message":…}}`, a line that is not a request by an answer with a null id.

mod agent;
mod protocol;
mod upstream;

use std::io::{self, BufRead, Write, stdin, stdout};
use std::process::ExitCode;

use ptc_lang::Value;
use ptc_protocol::decode_value;
use serde_json::{Map, Value as Json, json};

/// The operation that every adapter has: it lists the others.
const CAPABILITIES: &str = "capabilities";
/// Maximum bytes of one line. Longer lines are answered like lines that are not requests.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// All operations, one table per crate.
pub const OPERATIONS: &[&[Operation]] = &[
    protocol::OPERATIONS,
    agent::OPERATIONS,
    upstream::OPERATIONS,
];

/// Serves until the input ends.
pub fn serve(_: &[String]) -> ExitCode {
    // A caller that closed the output needs no more answers.
    let _ = answer_lines(stdin().lock(), stdout().lock());
    ExitCode::SUCCESS
}

fn answer_lines(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read =
            io::Read::take(&mut input, LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = answer(&line);
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

/// The answer to one line.
#[must_use]
pub fn answer(line: &[u8]) -> Json {
    let request: Json = serde_json::from_slice(line).unwrap_or_default();
    let id = request.get("id").cloned().unwrap_or_default();
    let Some(name) = request.get("op").and_then(Json::as_str) else {
        return json!({ "id": id, "error": { "invalid": "op" } });
    };
    let empty = Json::Object(Map::new());
    let input = request.get("input").unwrap_or(&empty);
    let outcome = match operations().find(|operation| operation.name == name) {
        Some(operation) => (operation.run)(input),
        None if name == CAPABILITIES => Ok(capabilities()),
        None => {
            Err(json!({ "reason": "unknown_op", "message": format!("unknown operation: {name}") }))
        }
    };
    match outcome {
        Ok(ok) => json!({ "id": id, "ok": ok }),
        Err(error) => json!({ "id": id, "error": error }),
    }
}

fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().flatten()
}

fn capabilities() -> Json {
    let mut names: Vec<&str> = operations().map(|operation| operation.name).collect();
    names.push(CAPABILITIES);
    names.sort_unstable();
    json!({ "ops": names, "name": "ptc", "version": env!("CARGO_PKG_VERSION") })
}

/// Takes the input object and returns a result, or an error as defined by the operation.
pub type OperationFn = fn(&Json) -> Result<Json, Json>;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The name in the testee protocol.
    pub name: &'static str,
    /// What it does with which input, in a sentence.
    pub doc: &'static str,
    pub run: OperationFn,
}

/// The input does not fit the operation: a mistake of the caller. On the wire `{"invalid":FIELD}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InvalidInput(&'static str);

impl From<InvalidInput> for Json {
    fn from(invalid: InvalidInput) -> Json {
        json!({ "invalid": invalid.0 })
    }
}

/// The text of a member of an operation's input.
///
/// # Errors
/// The member is missing or not a text.
fn text_of<'a>(input: &'a Json, field: &'static str) -> Result<&'a str, InvalidInput> {
    input
        .get(field)
        .and_then(Json::as_str)
        .ok_or(InvalidInput(field))
}

/// The program value that a member of an operation's input encodes.
///
/// # Errors
/// The member is missing or encodes no value.
fn value_of(input: &Json, field: &'static str) -> Result<Value, InvalidInput> {
    let encoded = input.get(field).ok_or(InvalidInput(field))?;
    decode_value(encoded).map_err(|_| InvalidInput(field))
}
