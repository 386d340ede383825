//! Evens out what JSON-RPC and MCP leave to the sender of a message. What they permit beyond what a case expects is removed: `data` of an
//! error, and `_meta` of parameters, of a result and of the entries of its lists; a pattern that names such a member is compared with it.
//! A tool result without `isError`, whose default is false, gets it where a pattern asks for `false`.

use std::borrow::Cow;

use crate::json::Json;
use crate::suite::Pattern;

/// The message without permitted members that `pattern` does not name, and with the default that it names; anything but a message is
/// unchanged.
pub fn without_permitted<'m>(pattern: &Pattern, message: &'m Json) -> Cow<'m, Json> {
    if message.get("jsonrpc").is_none() {
        return Cow::Borrowed(message);
    }
    let asked = pattern.source();
    let open = |name: &str| !asked.contains(&format!("\"{name}\""));
    let mut message = message.clone();
    if open("data")
        && let Some(error) = member(&mut message, "error")
    {
        remove(error, "data");
    }
    if open("_meta") {
        for name in ["params", "result"] {
            if let Some(holder) = member(&mut message, name) {
                remove_meta(holder);
            }
        }
    }
    if let Some(Json::Object(result)) = member(&mut message, "result")
        && result.contains_key("content")
        && !result.contains_key("isError")
        && asks_for_no_error(pattern)
    {
        result.insert("isError".to_owned(), Json::Bool(false));
    }
    Cow::Owned(message)
}

/// Whether `pattern` asks for a tool result that says `"isError": false`.
fn asks_for_no_error(pattern: &Pattern) -> bool {
    let no_error = Json::Bool(false);
    let in_result = |result: &Json| result.get("isError") == Some(&no_error);
    match pattern {
        Pattern::Exact(frame) => frame.get("result").is_some_and(in_result),
        Pattern::Object { members, .. } => match members.get("result") {
            Some(Pattern::Exact(result)) => in_result(result),
            Some(Pattern::Object { members, .. }) => {
                members.get("isError") == Some(&Pattern::Exact(no_error))
            }
            _ => false,
        },
        _ => false,
    }
}

fn remove_meta(holder: &mut Json) {
    if is_meta(holder.get("_meta")) {
        remove(holder, "_meta");
    }
    let Json::Object(members) = holder else {
        return;
    };
    for value in members.values_mut() {
        let Json::Array(items) = value else { continue };
        for item in items.iter_mut().filter(|item| is_meta(item.get("_meta"))) {
            remove(item, "_meta");
        }
    }
}

/// Whether a `_meta` has the permitted shape, an object.
fn is_meta(value: Option<&Json>) -> bool {
    matches!(value, Some(Json::Object(_)))
}

fn member<'m>(object: &'m mut Json, name: &str) -> Option<&'m mut Json> {
    match object {
        Json::Object(members) => members.get_mut(name),
        _ => None,
    }
}

fn remove(object: &mut Json, name: &str) {
    if let Json::Object(members) = object {
        members.shift_remove(name);
    }
}
