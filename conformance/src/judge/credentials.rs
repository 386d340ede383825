//! Searches everything that a target wrote for the credentials of its case. A pattern checks only the members that it
//! names; a credential may leak through any other, through a header, or through the log.

use std::collections::BTreeMap;

use serde_json::Value;

use super::host_text::collect_strings;
use crate::json::{self, Json};
use crate::suite::{Case, TargetSpec};
use crate::verdict::Mismatch;

/// The clause that applies to everything that a target writes, in every case.
pub const CLAUSE: &str = "upstream.redaction.values.nowhere";

/// Shorter ones, in bytes, are words that may occur in other texts as well.
const BYTES_MIN: usize = 16;

/// The flag that holds the credential of the server's own clients.
const TOKEN_FLAG: &str = "http_auth_token";

/// The header that returns the client's own id for its request.
const REQUEST_ID: &str = "x-request-id:";

/// A mismatch for the first credential that occurs in what a target wrote, if any does.
pub fn leaked_credential<'w>(
    case: &Case,
    mut written: impl Iterator<Item = &'w str>,
) -> Option<Mismatch> {
    let credentials = credentials(&case.target);
    if credentials.is_empty() {
        return None;
    }
    written.find_map(|text| {
        let said = unescaped(text);
        let (name, _) = credentials
            .iter()
            .find(|(_, value)| said.contains(*value))?;
        let expected = format!("nothing that holds the credential {name}");
        Some(super::breach(CLAUSE, "written", expected, text))
    })
}

/// The unescaped texts in a frame, an HTTP response or a log line, without the client's own id for the request.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    for part in parts(text) {
        let is_id = part
            .get(..REQUEST_ID.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(REQUEST_ID));
        match json::parse_loosely(part.trim()) {
            _ if is_id => {}
            Some(Value::Object(mut members)) => {
                members.remove("id");
                collect_strings(&Value::Object(members), &mut out);
            }
            // A truncated frame, as kept of a target that writes much: its id can't be separated from the rest.
            None if part.trim_start().starts_with('{') => {}
            _ => out.push_str(&part),
        }
        out.push('\n');
    }
    out
}

/// What may be JSON by itself: a frame, a header or log line, a body, which may have several lines, and the data of an event, which may, too.
fn parts(text: &str) -> Vec<String> {
    let (head, body) = text.split_once("\n\n").unwrap_or(("", text));
    let mut parts: Vec<String> = head.lines().map(str::to_owned).collect();
    if json::parse_loosely(body.trim()).is_some() {
        parts.push(body.to_owned());
        return parts;
    }
    let mut data: Option<String> = None;
    for line in body.lines() {
        match line.strip_prefix("data:") {
            Some(more) => {
                let data = data.get_or_insert_default();
                data.push_str(more);
                data.push('\n');
            }
            None => {
                parts.extend(data.take());
                parts.push(line.to_owned());
            }
        }
    }
    parts.extend(data);
    parts
}

/// The secrets of a target's configuration, by their names there. A value without a digit is ignored, since it may be a word of the
/// protocol.
fn credentials(target: &TargetSpec) -> BTreeMap<&str, &str> {
    let bindings = target
        .upstreams
        .as_ref()
        .and_then(|upstreams| upstreams.get("credentials"))
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, binding)| Some((name.as_str(), value(target, binding)?)));
    let token = target.flags.get(TOKEN_FLAG).and_then(Json::as_str);
    bindings
        .chain(token.map(|token| (TOKEN_FLAG, token)))
        .filter(|(_, value)| {
            value.len() >= BYTES_MIN && value.contains(|c: char| c.is_ascii_digit())
        })
        .collect()
}

fn value<'t>(target: &'t TargetSpec, binding: &'t Json) -> Option<&'t str> {
    let text = |key| binding.get(key).and_then(Json::as_str);
    match text("source")? {
        "literal" => text("value"),
        "env" => target.env.get(text("var")?).map(String::as_str),
        "file" => {
            let name = text("path")?.strip_prefix("{{dir}}/")?;
            target.files.get(name).map(|held| held.trim_end())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_in_any_output() {
        for (written, leaks) in [
            (
                r#"{"id":1,"result":{"_meta":{"used":"canary-abcdef-123"}}}"#,
                true,
            ),
            (
                r#"{"id":1,"error":{"data":["canary-\u0061bcdef-123"]}}"#,
                true,
            ),
            (r#"{"id":1,"result":{"canary-abcdef-123":1}}"#, true),
            ("HTTP 200\nx-used: canary-abcdef-123\n\n{}", true),
            ("HTTP 200\n\ndata: {\"params\":\"canary-abcdef-123\"}", true),
            (
                "HTTP 200\n\n{\n \"a\": \"canary-\\u0061bcdef-123\"\n}",
                true,
            ),
            (
                "HTTP 200\n\ndata: {\ndata: \"a\": \"canary-\\u0061bcdef-123\"}\n",
                true,
            ),
            (
                "HTTP 200\n\nid: canary-abcdef-123\ndata: {\"id\":1}\n",
                true,
            ),
            ("started with canary-abcdef-123", true),
            (r#"{"id":"canary-abcdef-123","result":{}}"#, false),
            (
                "HTTP 200\n\n{\n \"id\": \"canary-abcdef-123\",\n \"result\": {}\n}",
                false,
            ),
            (
                "HTTP 200\n\ndata: {\ndata: \"id\": \"canary-abcdef-123\"}\n\ndata: {}\n",
                false,
            ),
            ("HTTP 404\nX-Request-Id: canary-abcdef-123\n\n", false),
            (r#"{"id":1,"result":{"text":"canary-abcdef-12"}}"#, false),
            (r#"{"result":{"structuredContent":"short-1"}}"#, false),
        ] {
            let case = case();
            let found = leaked_credential(&case, std::iter::once(written));
            assert_eq!(found.is_some(), leaks, "{written}");
            assert!(found.is_none_or(|found| found.clause.as_deref() == Some(CLAUSE)));
        }
    }

    fn case() -> Case {
        let page = concat!(
            "# A {#a}\n\n```toml target\n",
            "[upstreams.credentials]\n",
            "long = { source = \"literal\", value = \"canary-abcdef-123\" }\n",
            "short = { source = \"literal\", value = \"short-1\" }\n",
            "word = { source = \"literal\", value = \"structuredContent\" }\n",
            "```\n\n- {#a.b} It MUST be.\n\n```clj\n1 ;=> 1\n```\n",
        );
        let suite = crate::fixture::page("a.md", page.as_bytes()).expect("the page is right");
        suite.cases[0].clone()
    }
}
