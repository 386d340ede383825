//! Searches error messages for text of the host: what an implementation's own language prints for its values, modules and
//! traces. Knows how some languages print; knows nothing of what was expected.

use std::sync::LazyLock;

use fancy_regex::Regex;

use crate::json::Json;
use crate::suite::Case;
use crate::verdict::Mismatch;

/// The clause that applies to every error message, in every case.
pub const CLAUSE: &str = "errors.words.host";

/// Text that only hosts print: a regex, and a description for messages.
const HOST_TEXT: &[(&str, &str)] = &[
    // Elixir and Erlang.
    (r"%\{", "a map of Elixir"),
    (r"%[A-Z][\w.]*\{", "a struct of Elixir"),
    (r"\{:[a-z_]+, ", "a tuple of Elixir"),
    (r"#(?:Function|PID|Reference|Port)<", "a term of Erlang"),
    (r"MapSet\.new\(", "a set of Elixir"),
    (
        r"no function clause|no case clause|FunctionClauseError",
        "a fault of Elixir",
    ),
    (
        r"\bbadarg\b|\{badmatch|\bArgumentError\b",
        "a fault of Erlang",
    ),
    (r"\bElixir\.|\bPtcRunner\b", "a module of Elixir"),
    (
        r"\b[A-Z]\w*(?:\.[A-Z]\w*)*\.[a-z_]\w*[!?]?/\d",
        "a function of Elixir",
    ),
    (r"\b[A-Z]\w*(?:\.[A-Z]\w*){2,}", "a path of modules"),
    (r"\*\* \(", "a fault of Elixir"),
    (r"~[rUNDT]\[", "a sigil of Elixir"),
    // Rust and C++.
    (r"\b(?:Some|Ok|Err)\(", "a value of Rust"),
    (
        r"panicked at|RUST_BACKTRACE|attempt to \w+ with overflow|index out of bounds: the len is",
        "a panic of Rust",
    ),
    (
        r"\b(?:Vec|Option|Result|Box|HashMap)<|invalid digit found in string",
        "a text of Rust",
    ),
    (
        r"Segmentation fault|\bcore dumped\b|\berrno\b",
        "a text of C",
    ),
    (r"\b\w+::\w", "a path of Rust or C++"),
    (
        r"\.(?:rs|exs?|erl|py|js|ts|java|go|rb|cs|cpp):\d+",
        "a place in a source",
    ),
    // Python.
    (
        r"Traceback|<class '|\bNoneType\b| object at 0x|unsupported operand type|invalid literal for int\(",
        "a text of Python",
    ),
    (
        r"\b(?:Type|Value|Key|Index|Attribute|Name|Range|Reference|Syntax|Runtime|ZeroDivision|Recursion|Assertion)Error\b",
        "a fault of Python or JavaScript",
    ),
    // JavaScript.
    (
        r"\[object |\[native code\]|\bat Object\.|Cannot read propert(?:y|ies) of|Maximum call stack size exceeded|\(node:",
        "a text of JavaScript",
    ),
    // The JVM, .NET, Ruby and Go.
    (
        r"Exception in thread|\b(?:[a-z]\w*\.){2,}[A-Z]\w*Exception|\b[A-Z]\w+Exception\b|\bclojure\.lang\.",
        "a text of the JVM",
    ),
    (
        r"Object reference not set|\bOptional\(",
        "a text of .NET or Swift",
    ),
    (
        r"NoMethodError|undefined method `|#<[A-Z]\w*(?::0x|>)|stack level too deep",
        "a text of Ruby",
    ),
    (
        r"goroutine \d+|panic: |%!\w\(|interface \{\}|\bnil pointer\b|<nil>|runtime error: (?:index out of range|integer divide)",
        "a text of Go",
    ),
    (r"\b0x[0-9a-f]{6,}\b|#<\w+@", "an address"),
];

static REGEXES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let compiled = HOST_TEXT.iter().map(|(regex, what)| {
        let regex = Regex::new(regex).expect("the regexes of the table are tested");
        (regex, *what)
    });
    compiled.collect()
});

/// The first host text in a message, with its description. Text that occurs in `said` is the program's own, and is ignored.
pub fn host_text<'m>(message: &'m str, said: &str) -> Option<(&'m str, &'static str)> {
    REGEXES.iter().find_map(|(regex, what)| {
        let mut found = regex
            .find_iter(message)
            .flatten()
            .map(|found| found.as_str());
        found
            .find(|text| !said.contains(text))
            .map(|text| (text, *what))
    })
}

/// A mismatch for the first error message with text of the host, if there is one. Text from the case itself is permitted:
/// programs, contexts, peers, files, and expectations.
pub fn host_text_mismatch(case: &Case, messages: &[String]) -> Option<Mismatch> {
    let suspect = |message: &&String| host_text(message, "").is_some();
    if !messages.iter().any(|message| suspect(&message)) {
        return None;
    }
    let said = case_texts(case);
    messages.iter().find_map(|message| {
        let (text, what) = host_text(message, &said)?;
        let expected = format!("words of the program, without `{text}`, {what}");
        Some(super::breach(CLAUSE, "message", expected, message.as_str()))
    })
}

/// All texts of a case, unescaped.
fn case_texts(case: &Case) -> String {
    let mut out = String::new();
    if let Ok(value) = serde_json::to_value(case) {
        collect_strings(&value, &mut out);
    }
    out
}

/// All strings, names and numbers in a value, one per line.
pub(super) fn collect_strings(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_strings(item, out)),
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                out.push_str(name);
                out.push('\n');
                collect_strings(value, out);
            }
        }
        serde_json::Value::Number(number) => {
            out.push_str(&number.to_string());
            out.push('\n');
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) => {}
    }
}

/// The error messages in a target's output: a frame, a reply of an adapter, or an HTTP response with such a body.
pub fn error_messages(written: &str) -> Vec<String> {
    let body = written
        .strip_prefix("HTTP ")
        .and_then(|answer| answer.split_once("\n\n"))
        .map_or(written, |(_, body)| body);
    let mut messages = Vec::new();
    match Json::parse(body) {
        Ok(frame) => collect_messages(&frame, &mut messages),
        // A stream of events, each of which contains a frame.
        Err(_) => {
            let frames = body
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .filter_map(|data| Json::parse(data.trim()).ok());
            frames.for_each(|frame| collect_messages(&frame, &mut messages));
        }
    }
    messages
}

fn collect_messages(frame: &Json, messages: &mut Vec<String>) {
    match frame.get("error") {
        Some(Json::String(message)) => messages.push(message.clone()),
        Some(error) => push_members(error, &["message"], messages),
        None => {}
    }
    let Some(result) = frame.get("result") else {
        return;
    };
    if result.get("isError").and_then(Json::as_bool) != Some(true) {
        return;
    }
    if let Some(payload) = result.get("structuredContent") {
        push_members(payload, &["message", "feedback"], messages);
        return;
    }
    let blocks = result.get("content").and_then(Json::as_array);
    for block in blocks.into_iter().flatten() {
        push_members(block, &["text"], messages);
    }
}

fn push_members(object: &Json, names: &[&str], messages: &mut Vec<String>) {
    let texts = names.iter().filter_map(|name| object.get(name)?.as_str());
    messages.extend(texts.map(str::to_owned));
}

#[cfg(test)]
mod tests;
