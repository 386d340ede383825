//! What `lisp_session_inspect` shows of a session. Values appear as bounded previews, quoted as untrusted data.
//!
//! Knows nothing of MCP.

use super::limits::{RESULTS_MAX, list_bytes};
use super::{Session, SessionState, Sessions, size};
use crate::render::profile::prefix;
use crate::render::redact;
use ptc_lang::error::Limit;
use ptc_lang::json::Duplicates;
use ptc_lang::meter::Watch;
use ptc_lang::value::Type;
use ptc_lang::{Env, Value, ValueSummary};
use ptc_protocol::members::{HistoryEntry, SessionUsage, SessionView, StoredBinding};
use ptc_protocol::{
    Field, FormatOptions, UNTRUSTED_PREAMBLE, Word, format_value_within, untrusted_block,
};
use ptc_secrets::Redactor;
use std::borrow::Cow;
use std::fmt::Write as _;

/// A view's name, and the function that adds it to the reply.
type View = (
    &'static str,
    fn(&Sessions, &SessionState, &mut SessionView, &dyn Watch) -> Result<(), Limit>,
);

/// The views; the first is the default.
const VIEWS: &[View] = &[
    ("overview", overview),
    ("memory", memory),
    ("prints", prints),
    ("tool_calls", tool_calls),
    ("history", history),
    ("limits", limits),
];

/// Columns that names are padded to.
const NAME_COLUMNS: usize = 30;
/// Limits of a sample.
const SAMPLE: FormatOptions = FormatOptions {
    items: Some(3),
    printable: Some(80),
    chars: Some(400),
};
/// Limits of a kept result.
const HISTORY: FormatOptions = FormatOptions {
    items: Some(10),
    printable: Some(120),
    chars: Some(480),
};
/// Number of definitions listed by size.
const TOP_BINDINGS: usize = 10;

pub fn names() -> impl Iterator<Item = &'static str> {
    VIEWS.iter().map(|(name, _)| *name)
}

/// The reply of an inspection by the view's name; an unknown name shows the overview.
///
/// # Errors
/// The limit that was reached: a program decides what a session holds, and so how long showing it takes.
pub fn inspect(
    sessions: &Sessions,
    session: &Session,
    view: &str,
    redactor: &Redactor,
    watch: &dyn Watch,
) -> Result<SessionView, Limit> {
    let summary = session.summary();
    let mut state = session.state().clone();
    if !redactor.is_empty() {
        state.env = shown(&state.env, redactor, watch)?;
    }
    let (name, add) = VIEWS
        .iter()
        .find(|(name, _)| *name == view)
        .unwrap_or(&VIEWS[0]);
    let mut reply = SessionView {
        session_id: Word(session.id.clone()),
        session: summary,
        view: name,
        ..SessionView::default()
    };
    add(sessions, &state, &mut reply, watch)?;
    watch.check_limits()?;
    Ok(reply)
}

/// A copy of the environment whose values may be shown.
fn shown(env: &Env, redactor: &Redactor, watch: &dyn Watch) -> Result<Env, Limit> {
    let mut shown = env.clone();
    for (name, value, _) in env.definitions() {
        if let Cow::Owned(clean) = redact::value_within(value, redactor, watch)? {
            shown.define(name, clean);
        }
    }
    shown.clear_history();
    for value in env.history().iter().rev() {
        shown.remember(redact::value_within(value, redactor, watch)?.into_owned());
    }
    Ok(shown)
}

/// The `usage` member of a session.
pub fn usage(session: &Session) -> SessionUsage {
    usage_of(&session.state())
}

/// Names of all definitions, sorted.
pub fn stored_keys(session: &Session) -> Vec<String> {
    keys_of(&session.state())
}

fn keys_of(state: &SessionState) -> Vec<String> {
    state
        .env
        .definitions()
        .iter()
        .map(|(name, ..)| shown_name(name))
        .collect()
}

/// Bytes of a name that are shown. Anything that shows a session repeats its names, which may be as long as a program.
const NAME_BYTES_MAX: usize = 1024;

fn shown_name(name: &str) -> String {
    match name.len() <= NAME_BYTES_MAX {
        true => name.to_owned(),
        false => format!("{}…", prefix(name, NAME_BYTES_MAX)),
    }
}

fn usage_of(state: &SessionState) -> SessionUsage {
    let kept: Vec<&Value> = kept_results(state);
    let history: u64 = match kept.len() {
        0 => 2,
        _ => 7 + kept.iter().map(|value| size::of(value) - 1).sum::<u64>(),
    };
    SessionUsage {
        binding_count: state.env.definitions().len(),
        history_bytes: history,
        history_count: kept.len(),
        memory_bytes: state.memory_bytes,
        print_bytes: size::of_texts(state.prints.iter().map(String::as_str)),
        print_entries: state.prints.len(),
        tool_call_bytes: list_bytes(&state.tool_calls),
        tool_call_entries: state.tool_calls.len(),
        upstream_call_bytes: list_bytes(&state.upstream_calls),
        upstream_call_entries: state.upstream_calls.len(),
    }
}

/// The results that `*1 *2 *3` hold.
fn kept_results(state: &SessionState) -> Vec<&Value> {
    state.env.history().iter().take(state.results).collect()
}

fn overview(
    sessions: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    watch: &dyn Watch,
) -> Result<(), Limit> {
    let mut sections = Vec::new();
    if !state.env.definitions().is_empty() {
        sections.push(memory_text(state, watch)?);
    }
    if !state.prints.is_empty() {
        sections.push(prints_text(state));
    }
    sections.push(tool_calls_text(sessions, state, watch)?);
    sections.push(history_text(state, watch)?);
    reply.text = Some(sections.join("\n\n"));
    reply.usage = Some(usage_of(state));
    Ok(())
}

fn memory(
    _: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    watch: &dyn Watch,
) -> Result<(), Limit> {
    reply.text = Some(memory_text(state, watch)?);
    reply.stored_keys = Some(keys_of(state));
    reply.usage = Some(usage_of(state));
    Ok(())
}

fn prints(
    _: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    _: &dyn Watch,
) -> Result<(), Limit> {
    reply.prints = Some(state.prints.iter().cloned().collect());
    reply.text = Some(prints_text(state));
    Ok(())
}

fn tool_calls(
    sessions: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    watch: &dyn Watch,
) -> Result<(), Limit> {
    reply.tool_calls = Some(state.tool_calls.iter().cloned().collect());
    reply.upstream_calls = Some(state.upstream_calls.iter().cloned().collect());
    reply.text = Some(tool_calls_text(sessions, state, watch)?);
    Ok(())
}

fn history(
    _: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    watch: &dyn Watch,
) -> Result<(), Limit> {
    let entries = kept_results(state)
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let shown = format_value_within(value, HISTORY, watch)?;
            Ok(HistoryEntry {
                name: format!("*{}", at + 1),
                preview: shown.text,
                truncated: shown.truncated || shown.cut,
            })
        })
        .collect::<Result<_, Limit>>()?;
    reply.history = Some(entries);
    reply.text = Some(history_text(state, watch)?);
    Ok(())
}

fn limits(
    sessions: &Sessions,
    state: &SessionState,
    reply: &mut SessionView,
    watch: &dyn Watch,
) -> Result<(), Limit> {
    let mut sizes: Vec<(u64, String)> = Vec::new();
    for (name, value, _) in state.env.definitions() {
        sizes.push((size::of(value), shown_name(name)));
        watch.check_limits()?;
    }
    sizes.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let top = sizes.into_iter().take(TOP_BINDINGS);
    reply.limits = Some(sessions.limits());
    reply.top_bindings = Some(
        top.map(|(bytes, name)| StoredBinding { bytes, name })
            .collect(),
    );
    reply.usage = Some(usage_of(state));
    Ok(())
}

fn memory_text(state: &SessionState, watch: &dyn Watch) -> Result<String, Limit> {
    let definitions = state.env.definitions();
    if definitions.is_empty() {
        return Ok(";; No stored bindings".into());
    }
    let (mut functions, mut values) = (String::new(), String::new());
    for (name, value, doc) in definitions {
        let defined = name;
        let name = shown_name(name);
        match value {
            Value::Fn(closure) => {
                let signature = format!("({name} [{}])", closure.lambda.heading.as_str());
                let _ = match doc {
                    Some(doc) => write!(
                        functions,
                        "{signature:<NAME_COLUMNS$}; {}",
                        ptc_lang::print::readable(&Value::str(doc))
                    ),
                    None => write!(functions, "{signature}"),
                };
                if let Some(gave) = state.env.last_result(defined) {
                    let _ = write!(functions, " -> {}", label(gave));
                }
                functions.push('\n');
            }
            value if is_blank(value) => {}
            value => {
                let sample = match state.prints.is_empty() {
                    true => format!(
                        ", sample: {}",
                        format_value_within(value, SAMPLE, watch)?.text
                    ),
                    false => String::new(),
                };
                let _ = writeln!(
                    values,
                    "{name:<NAME_COLUMNS$}; = {}{sample}",
                    label(ValueSummary::of(value))
                );
            }
        }
    }
    let mut text = format!(";; === user/ (your prelude) ===\n{functions}");
    match values.is_empty() {
        true => text.truncate(text.trim_end().len()),
        false => {
            let _ = write!(
                text,
                "{UNTRUSTED_PREAMBLE}\n\n{}",
                untrusted_block("memory", values.trim_end())
            );
        }
    }
    Ok(text)
}

/// Whether a value is nil or empty: such definitions have no line of their own.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Vector(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// The type of a value as views name it, with the size of a collection.
fn label(value: ValueSummary) -> String {
    match value.kind {
        Type::Vector => format!("list[{}]", value.count),
        Type::Map => format!("map[{}]", value.count),
        Type::Set => format!("set[{}]", value.count),
        Type::Function => "fn".to_owned(),
        Type::Instant => "datetime".to_owned(),
        other => other.word().to_owned(),
    }
}

fn prints_text(state: &SessionState) -> String {
    if state.prints.is_empty() {
        return ";; Output:".into();
    }
    let lines: Vec<&str> = state.prints.iter().map(String::as_str).collect();
    format!(
        ";; Output:\n{UNTRUSTED_PREAMBLE}\n\n{}",
        untrusted_block("println", &lines.join("\n"))
    )
}

/// The newest entries of both histories together, as many as one of them may hold.
fn tool_calls_text(
    sessions: &Sessions,
    state: &SessionState,
    watch: &dyn Watch,
) -> Result<String, Limit> {
    let total = state.tool_calls.len() + state.upstream_calls.len();
    if total == 0 {
        return Ok(";; No tool calls made".into());
    }
    let shown = sessions.settings.tool_calls.entries;
    let calls = state.tool_calls.iter().chain(&state.upstream_calls);
    let mut text = String::from(";; Tool calls made:");
    for call in calls.skip(total.saturating_sub(shown)) {
        let name = call.text("name").unwrap_or_default();
        let arguments = match call.get("args") {
            Some(Field::Object(arguments)) => arguments.to_json(),
            _ => "{}".into(),
        };
        let arguments = ptc_lang::json::read(&arguments, Duplicates::First, watch);
        let preview = format_value_within(&arguments.unwrap_or(Value::Nil), SAMPLE, watch)?;
        let _ = write!(text, "\n;   {name}({})", preview.text);
    }
    Ok(text)
}

/// The existing results; without any, all three names are shown as nil.
fn history_text(state: &SessionState, watch: &dyn Watch) -> Result<String, Limit> {
    let shown = match state.results {
        0 => RESULTS_MAX,
        results => results,
    };
    let mut text = String::from(";; History:");
    for (at, value) in state.env.history().iter().take(shown).enumerate() {
        let _ = write!(
            text,
            "\n;   *{} {}",
            at + 1,
            format_value_within(value, HISTORY, watch)?.text
        );
    }
    Ok(text)
}
