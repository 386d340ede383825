//! Steps that rewrite a JSON value, in the form of the table of mutants. Knows the shapes of MCP's frames; knows no transport.

use std::sync::atomic::{AtomicBool, Ordering};

use indexmap::IndexMap;
use serde::Deserialize;

use crate::json::{Json, JsonError};

use super::edit::{member_at, payload, remove, set, text_block};
use super::text::replaced;

/// An edit that is made where a reply and its members meet the step's conditions. `mutants.toml` describes each member.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameStep {
    to: Option<String>,
    r#where: Option<Condition>,
    remove: Option<String>,
    set: Option<(String, JsonText)>,
    put: Option<(String, JsonText)>,
    add: Option<(String, JsonText)>,
    change: Option<(String, JsonText, JsonText)>,
    replace: Option<(String, Vec<(String, String)>)>,
    append: Option<(String, String)>,
    by: Option<CustomFrameEdit>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Condition {
    Is(String, JsonText),
    Stands((String,)),
}

/// JSON, written as text in the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct JsonText(Json);

/// Why a step of the table is unusable.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("`{text}`: {source}")]
    NoJson { text: String, source: JsonError },
    #[error("no edit is called `{name}`")]
    NoEdit { name: String },
}

impl TryFrom<String> for JsonText {
    type Error = StepError;

    fn try_from(text: String) -> Result<JsonText, StepError> {
        match Json::parse(&text) {
            Ok(json) => Ok(JsonText(json)),
            Err(source) => Err(StepError::NoJson { text, source }),
        }
    }
}

/// Applies the steps. `method` is the method that a reply answers; empty if that is not known.
pub fn apply(steps: &[FrameStep], json: &mut Json, method: &str) {
    for step in steps {
        step.apply(json, method);
    }
}

impl FrameStep {
    fn apply(&self, json: &mut Json, method: &str) {
        let mut stands =
            |path: &str| member_at(json, &path.split('.').collect::<Vec<_>>()).cloned();
        let is_meant = match &self.r#where {
            None => true,
            Some(Condition::Stands((path,))) => stands(path).is_some(),
            Some(Condition::Is(path, JsonText(value))) => stands(path).as_ref() == Some(value),
        };
        if !is_meant || self.to.as_ref().is_some_and(|to| to != method) {
            return;
        }
        if let Some(path) = &self.remove {
            visit_parents(json, path, &mut |members, name| {
                members.shift_remove(name);
            });
        }
        if let Some((path, JsonText(value))) = &self.set {
            visit_parents(json, path, &mut |members, name| {
                members.insert(name.to_owned(), value.clone());
            });
        }
        if let Some((path, JsonText(value))) = &self.put {
            visit_members(json, path, &mut |member| *member = value.clone());
        }
        if let Some((path, JsonText(value))) = &self.add {
            visit_parents(json, path, &mut |members, name| {
                let member = members.entry(name.to_owned());
                member.or_insert_with(|| value.clone());
            });
        }
        if let Some((path, JsonText(from), JsonText(to))) = &self.change {
            visit_members(json, path, &mut |member| {
                if member == from {
                    *member = to.clone();
                }
            });
        }
        if let Some((path, pairs)) = &self.replace {
            visit_members(json, path, &mut |member| {
                if let Json::String(text) = member {
                    *text = replaced(text, pairs);
                }
            });
        }
        if let Some((path, more)) = &self.append {
            visit_members(json, path, &mut |member| {
                if let Json::String(text) = member {
                    text.push_str(more);
                }
            });
        }
        if let Some(CustomFrameEdit(edit)) = &self.by {
            edit(json, method);
        }
    }
}

/// Visits each object that may contain the last member of a path, with that member's name.
fn visit_parents(
    json: &mut Json,
    path: &str,
    visit: &mut dyn FnMut(&mut IndexMap<String, Json>, &str),
) {
    match (path.split_once('.'), json) {
        (None, Json::Object(members)) => visit(members, path),
        (Some(("*", rest)), Json::Array(items)) => {
            items
                .iter_mut()
                .for_each(|item| visit_parents(item, rest, visit));
        }
        (Some((name, rest)), Json::Object(members)) => {
            if let Some(member) = members.get_mut(name) {
                visit_parents(member, rest, visit);
            }
        }
        _ => {}
    }
}

/// Visits each member at a path.
fn visit_members(json: &mut Json, path: &str, visit: &mut dyn FnMut(&mut Json)) {
    visit_parents(json, path, &mut |members, name| {
        members.get_mut(name).into_iter().for_each(&mut *visit);
    });
}

/// An edit that steps cannot express. It gets the frame or the payload, and the method that a reply answers.
type FrameEditFn = fn(&mut Json, &str);

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct CustomFrameEdit(FrameEditFn);

impl TryFrom<String> for CustomFrameEdit {
    type Error = StepError;

    fn try_from(wanted: String) -> Result<CustomFrameEdit, StepError> {
        let found = CUSTOM_EDITS.iter().find(|(name, _)| *name == wanted);
        found
            .map(|(_, edit)| CustomFrameEdit(*edit))
            .ok_or(StepError::NoEdit { name: wanted })
    }
}

const CUSTOM_EDITS: &[(&str, FrameEditFn)] = &[
    ("batches", |frame, _| {
        *frame = Json::Array(vec![frame.clone()]);
    }),
    ("bytes-one-more", bytes_one_more),
    ("calls-cleared-together", calls_cleared_together),
    ("cancelled-as-timeout", cancelled_as_timeout),
    ("context-keys-free", |frame, _| {
        if let Some(Json::Object(members)) = member_at(frame, &["params", "arguments", "context"]) {
            members.retain(|key, _| !key.is_empty() && !key.contains('/'));
        }
    }),
    ("dies", |_, _| std::process::exit(70)),
    ("dies-of-batch", |frame, _| {
        if matches!(frame, Json::Array(_)) {
            std::process::exit(70);
        }
    }),
    ("dies-of-unknown-method", |frame, _| {
        let method = frame.get("method").and_then(Json::as_str);
        if method.is_some_and(|method| method.starts_with("touchstone")) {
            std::process::exit(70);
        }
    }),
    ("errors-as-results", |frame, _| {
        if let Some(error) = remove(frame, &[], "error") {
            set(frame, &[], "result", error);
        }
    }),
    ("lists-shrink", lists_shrink),
    ("long-names-unread", long_names_unread),
    ("long-schemas-unreadable", long_schemas_unreadable),
    ("long-titles-unknown", long_titles_unknown),
    ("mirror-differs", |frame, _| {
        if let Some(Json::String(text)) = text_block(frame)
            && text.starts_with('{')
        {
            *text = "{}".to_owned();
        }
    }),
    ("sessions-tool-missing", |frame, _| {
        if let Some(Json::Array(tools)) = member_at(frame, &["result", "tools"]) {
            let forgets = Some("lisp_session_forget");
            tools.retain(|tool| tool.get("name").and_then(Json::as_str) != forgets);
        }
    }),
    ("starred", |frame, _| {
        let text = frame.to_string().replace("[REDACTED]", "********");
        if let Ok(changed) = Json::parse(&text) {
            *frame = changed;
        }
    }),
    ("succeeds", refusal_as_success),
    ("text-ids", |frame, _| {
        if let Some(id @ Json::Number(_)) = member_at(frame, &["id"]) {
            *id = Json::from(id.to_string());
        }
    }),
    ("two-blocks", |frame, _| {
        if let Some(Json::Array(blocks)) = member_at(frame, &["result", "content"]) {
            let again = blocks.clone();
            blocks.extend(again);
        }
    }),
    ("validated-as-text", |payload, _| {
        if let Some(value) = member_at(payload, &["validated"]) {
            *value = Json::from(value.to_string());
        }
    }),
    ("validated-partial", |payload, _| {
        match member_at(payload, &["validated"]) {
            Some(Json::Array(items)) => drop(items.pop()),
            Some(Json::Object(members)) => drop(members.pop()),
            _ => {}
        }
    }),
];

fn bytes_one_more(payload: &mut Json, _method: &str) {
    let Some(Json::Array(bindings)) = member_at(payload, &["top_bindings"]) else {
        return;
    };
    for binding in bindings {
        if let Some(bytes) = binding.get("bytes").and_then(Json::as_i64) {
            set(binding, &[], "bytes", Json::from(bytes + 1));
        }
    }
}

fn calls_cleared_together(frame: &mut Json, _method: &str) {
    if let Some(Json::Array(targets)) = member_at(frame, &["params", "arguments", "clear"])
        && targets
            .iter()
            .any(|target| target.as_str() == Some("tool_calls"))
    {
        targets.push(Json::from("upstream_calls"));
    }
}

fn cancelled_as_timeout(frame: &mut Json, _method: &str) {
    payload(frame, |payload| {
        if let Some(Json::String(reason)) = member_at(payload, &["reason"])
            && reason == "cancelled"
        {
            *reason = "timeout".to_owned();
        }
    });
    if let Some(Json::String(text)) = text_block(frame) {
        *text = text.replace("cancelled", "timeout");
    }
}

/// Lists are empty once anything was called.
fn lists_shrink(frame: &mut Json, method: &str) {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if method == "tools/call" {
        CALLED.store(true, Ordering::Relaxed);
    }
    if method == "tools/list"
        && CALLED.load(Ordering::Relaxed)
        && let Some(Json::Array(tools)) = member_at(frame, &["result", "tools"])
    {
        tools.clear();
    }
}

/// Schemas longer than 32 KiB are invalid.
fn long_schemas_unreadable(frame: &mut Json, _method: &str) {
    if let Some(schema) = member_at(frame, &["params", "arguments", "output_schema"])
        && schema.to_string().len() > 32 << 10
    {
        *schema = Json::from("too long");
    }
}

/// A schema with a name longer than 1,000 bytes is ignored.
fn long_names_unread(frame: &mut Json, _method: &str) {
    let names_at_length = |schema: &Json| match schema.get("properties") {
        Some(Json::Object(properties)) => properties.iter().any(|(name, _)| name.len() > 1_000),
        _ => false,
    };
    let is_passed_over = member_at(frame, &["params", "arguments", "output_schema", "items"])
        .is_some_and(|items| names_at_length(items));
    if is_passed_over {
        remove(frame, &["params", "arguments"], "output_schema");
    }
}

/// Titles longer than 100 bytes become an unknown argument.
fn long_titles_unknown(frame: &mut Json, _method: &str) {
    let is_long = member_at(frame, &["params", "arguments", "title"])
        .and_then(|title| title.as_str().map(str::len))
        .is_some_and(|bytes| bytes > 100);
    if is_long {
        set(frame, &["params", "arguments"], "titel", Json::from(1));
    }
}

/// A refused call succeeds.
fn refusal_as_success(frame: &mut Json, _method: &str) {
    let failed = member_at(frame, &["result", "isError"]) == Some(&mut Json::Bool(true));
    if failed || frame.get("error").is_some() {
        remove(frame, &[], "error");
        let result = Json::parse(r#"{"content":[]}"#).unwrap_or(Json::Null);
        set(frame, &[], "result", result);
    }
}
