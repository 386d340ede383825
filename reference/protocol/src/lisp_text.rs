//! JSON shown to people as PTC-Lisp text: `nil`, `[1 2]`, `{"a" 1}`. Knows nothing of language values.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// The text of a JSON value. The JSON reader bounds its depth.
pub(crate) fn lisp_text(value: &Json) -> String {
    let mut out = String::new();
    write_text(&mut out, value);
    out
}

fn write_text(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("nil"),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            // The language's reader accepts all escapes of JSON.
            let _ = write!(out, "{value}");
        }
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_text(out, item);
            }
            out.push(']');
        }
        Json::Object(entries) => {
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                let space = if i > 0 { " " } else { "" };
                let _ = write!(out, "{space}{} ", Json::from(key.as_str()));
                write_text(out, value);
            }
            out.push('}');
        }
    }
}
