//! The transcript of a run: each message, scrubbed, for the person at the terminal.

use ptc_agent::Message;
use ptc_secrets::Redactor;
use serde_json::Value as Json;

use super::scrubbed::SCRUB_TIME;

/// Maximum characters of a text in the transcript.
const TRANSCRIPT_CHARS_MAX: usize = 2_000;
/// Maximum characters of one member of a result in the transcript.
const MEMBER_CHARS_MAX: usize = 300;

/// Writes one message of the transcript.
pub(super) fn show(message: &Message, redactor: &Redactor) {
    crate::print_error(render_message(message, redactor));
}

/// A message in the form of the transcript: the speaker, then the text; programs and results on separate lines. Scrubbed before it is
/// cut.
fn render_message(message: &Message, redactor: &Redactor) -> String {
    let redactor = &redactor.with_time_limit(SCRUB_TIME);
    let mut lines = Vec::new();
    let say = |lines: &mut Vec<String>, text: &str| push_indented(lines, &redactor.scrub_str(text));
    let name = |text: &str| escape_line_ends(&redactor.scrub_str(text));
    match message {
        Message::User(text) => {
            lines.push("user".to_owned());
            say(&mut lines, text);
        }
        Message::Assistant {
            content,
            tool_calls,
        } => {
            lines.push("assistant".to_owned());
            say(&mut lines, content);
            for call in tool_calls {
                let arguments: Json = serde_json::from_str(&call.arguments).unwrap_or_default();
                match arguments.get("program").and_then(Json::as_str) {
                    Some(program) => {
                        lines.push(format!("  → {} ({})", name(&call.name), name(&call.id)));
                        say(&mut lines, program);
                    }
                    None => {
                        let arguments = redactor.scrub_str(&call.arguments);
                        let arguments = truncate(&arguments, TRANSCRIPT_CHARS_MAX);
                        let (tool, id) = (name(&call.name), name(&call.id));
                        lines.push(format!(
                            "  → {tool} {} ({id})",
                            escape_line_ends(&arguments)
                        ));
                    }
                }
            }
        }
        Message::Tool {
            tool_call_id,
            content,
        } => {
            lines.push(format!("result of {}", name(tool_call_id)));
            match serde_json::from_str(content) {
                Ok(Json::Object(fields)) => {
                    for (field, value) in &fields {
                        // The feedback repeats the other fields.
                        if field != "feedback" {
                            let value = redactor.scrub(value.clone());
                            lines.push(render_member(&name(field), &value));
                        }
                    }
                }
                _ => say(&mut lines, content),
            }
        }
    }
    lines.push(String::new());
    // Names may contain secrets too.
    redactor.scrub(lines.join("\n")).into_inner()
}

/// Adds the lines of a text, indented.
fn push_indented(lines: &mut Vec<String>, text: &str) {
    let text = truncate(text, TRANSCRIPT_CHARS_MAX);
    lines.extend(text.lines().map(|line| format!("    {line}")));
}

fn render_member(name: &str, value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.replace('\n', "\n      "),
        other => other.to_string(),
    };
    format!("    {name}: {}", truncate(&text, MEMBER_CHARS_MAX))
}

/// A name that a model chose, with line ends escaped so that it can't imitate lines of the transcript.
fn escape_line_ends(name: &str) -> String {
    name.replace('\n', "\\n")
}

fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}
