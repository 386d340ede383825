//! Check functions for hostile input: each takes any input, and panics when a promise is broken.
//! Driven by libFuzzer in `fuzz/`, and with seeded random input by the tests.

use std::path::Path;
use std::sync::LazyLock;

use ptc_lang::meter::Unwatched;
use ptc_rpc::JsonText;
use ptc_secrets::{ConfigDocument, Redactor, Secret};
use serde_json::Value;

use crate::config::parse_entries;
use crate::label::{argument_label, arguments, result_label};
use crate::select::select;
use crate::tool::{RawTool, Toolset};
use crate::transport::Answer;

/// Maximum characters of a label: every part of one is capped.
const LABEL_CHARS_MAX: usize = 1 << 20;

/// Promises of the config parser: it terminates, a refusal is one line that points into the text, and no literal
/// is quoted.
pub fn config(text: &str) {
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    let refused = match ConfigDocument::parse(Path::new("u.json"), text.to_owned(), &env) {
        Ok(document) => {
            let (_, faults) = parse_entries(&document, &env, &[], &mut Vec::new());
            document.refused.into_iter().chain(faults).next()
        }
        Err(fault) => Some(fault),
    };
    let Some(fault) = refused else { return };
    if let Some(place) = fault.place {
        assert!(
            place.line >= 1 && place.line <= text.lines().count().max(1) + 1,
            "{fault}"
        );
        assert!(place.column >= 1, "{fault}");
    }
}

/// Promises of labels: they terminate and are one line.
pub fn labels(text: &str) {
    let Ok(schema) = serde_json::from_str::<Value>(text) else {
        return;
    };
    for label in [argument_label(&schema), result_label(&schema)] {
        assert!(
            !label.contains('\n') && label.chars().count() <= LABEL_CHARS_MAX,
            "{label}"
        );
    }
    let rows = arguments(&schema);
    assert!(
        rows.windows(2)
            .all(|pair| pair[0].required >= pair[1].required),
        "required arguments come first"
    );
}

/// Promise of a tool list, whatever an upstream sends: every shown tool can be found by its shown name.
pub fn tools(text: &str) {
    let Ok(Value::Array(entries)) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let raw: Vec<RawTool> = entries.into_iter().filter_map(RawTool::read).collect();
    let tools = Toolset::new(raw, "server", &REDACTOR);
    for tool in tools.tools() {
        assert!(tools.get(&tool.name).is_some());
        assert!(!tool.name.contains(CANARY), "{}", tool.name);
        let doc = crate::docs::render("server", tool, usize::MAX);
        assert!(doc.is_some_and(|doc| doc.contains("Returns: Result<")));
    }
}

/// Promises of an answer: its value is compact JSON without the canary, in any escaping that JSON knows.
pub fn answer(text: &str) {
    let Ok(text) = JsonText::read(text) else {
        return;
    };
    for answer in [Answer::Envelope(text.clone()), Answer::Json(text)] {
        let Ok(selected) = select(&answer, &REDACTOR, &Unwatched) else {
            continue;
        };
        let json = ptc_rpc::parse(selected.json.as_bytes()).expect("a selected value is JSON");
        assert_eq!(*json.compact(), *selected.json, "it is compact");
        assert!(
            !REDACTOR.finds_secret_in(&selected.json) || selected.json.contains("[REDACTED]"),
            "{}",
            selected.json
        );
        assert!(!selected.json.contains(CANARY), "{}", selected.json);
    }
}

/// Promises of the compiler: it terminates, and every tool that it creates has its own operation.
pub fn openapi(text: &str) {
    crate::transport::openapi::check::compiles(text);
}

/// Promises of the parser: events do not depend on how the stream is split, and contain nothing that was not
/// sent.
pub fn sse(bytes: &[u8]) {
    let whole = events(&[bytes]);
    let halves = bytes.split_at(bytes.len() / 2);
    assert_eq!(whole, events(&[halves.0, halves.1]));
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(whole, events(&single));
    assert!(whole.iter().map(Vec::len).sum::<usize>() <= bytes.len());
}

fn events(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut parser = crate::transport::sse::SseParser::default();
    let mut seen = Vec::new();
    for chunk in chunks {
        parser.feed(chunk, |data| seen.push(data.to_vec()));
    }
    parser.finish(|data| seen.push(data.to_vec()));
    seen
}

const CANARY: &str = "canary-0123456789";

/// Built once: building takes longer than any check.
static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let mut builder = Redactor::builder();
    builder.add(&Secret::new(CANARY.to_owned()));
    builder.build()
});

#[cfg(test)]
mod tests;
