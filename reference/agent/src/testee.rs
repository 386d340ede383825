//! The adapter protocol: a line asks for one operation, a line answers. Knows no operation itself.
//!
//! `{"id":…,"op":NAME,"input":{…}}` is answered by `{"id":…,"ok":…}` or `{"id":…,"error":…}`. An operation that is not
//! in the tables is answered by `{"id":…,"error":{"reason":"unknown_op","message":…}}`, a line that is no request by an answer with a
//! null id.

use std::io::{self, BufRead, Write};

use ptc_protocol::Operation;
use serde_json::{Map, Value as Json, json};

/// The operation that every adapter has: what else there is.
const CAPABILITIES: &str = "capabilities";
/// Bytes of one line. Longer ones are answered as if they were no request.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Serves the operations of `tables` until the input ends.
///
/// # Errors
/// When reading or writing fails.
pub fn serve_operations(
    tables: &[&[Operation]],
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
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
        let answer = answer(tables, &line);
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

/// The answer to one line.
#[must_use]
pub fn answer(tables: &[&[Operation]], line: &[u8]) -> Json {
    let request: Json = serde_json::from_slice(line).unwrap_or_default();
    let id = request.get("id").cloned().unwrap_or_default();
    let Some(name) = request.get("op").and_then(Json::as_str) else {
        return json!({ "id": id, "error": { "invalid": "op" } });
    };
    let empty = Json::Object(Map::new());
    let input = request.get("input").unwrap_or(&empty);
    let outcome = match tables
        .iter()
        .copied()
        .flatten()
        .find(|operation| operation.name == name)
    {
        Some(operation) => (operation.run)(input),
        None if name == CAPABILITIES => Ok(capabilities(tables)),
        None => {
            Err(json!({ "reason": "unknown_op", "message": format!("unknown operation: {name}") }))
        }
    };
    match outcome {
        Ok(ok) => json!({ "id": id, "ok": ok }),
        Err(error) => json!({ "id": id, "error": error }),
    }
}

fn capabilities(tables: &[&[Operation]]) -> Json {
    let mut names: Vec<&str> = tables
        .iter()
        .copied()
        .flatten()
        .map(|operation| operation.name)
        .collect();
    names.push(CAPABILITIES);
    names.sort_unstable();
    json!({ "ops": names, "name": "ptc", "version": env!("CARGO_PKG_VERSION") })
}
