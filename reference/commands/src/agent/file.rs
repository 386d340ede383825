//! The file of an agent: read once, with the upstreams config that it names, and its keys checked.

use std::path::{Path, PathBuf};

use ptc_lang::Value;
use ptc_lang::value::Map;
use ptc_protocol::{closest_of, json_to_value};
use ptc_secrets::{
    ConfigFault, DATA_BYTES_MAX, LineColumn, Redactor, SCRUB_TIME_MAX, SETTINGS_BYTES_MAX,
    read_text,
};
use ptc_server::settings::Settings;
use ptc_server::upstreams;
use ptc_upstream::ConfiguredUpstreams;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::RunError;
use crate::environment;

/// An agent file, and the upstreams config that it names.
pub(super) struct AgentFile {
    text: String,
    table: Result<Json, toml::de::Error>,
    configured: Option<Result<ConfiguredUpstreams, ConfigFault>>,
}

impl AgentFile {
    /// Reads both files once, because a file may be readable only once. Returns the secrets in them and in the environment, too: no
    /// message may show these.
    pub(super) fn read(file: &Path) -> (Result<Self, RunError>, Redactor) {
        let mut secrets = Redactor::builder();
        ptc_server::register_keys(&environment, &mut secrets);
        let settings = Settings::read(&[], |_| None).unwrap_or_else(|refused| *refused.settings);
        let read = read(file, SETTINGS_BYTES_MAX).map(|text| {
            let table: Result<Json, _> = toml::from_str(&text);
            let config = table.as_ref().ok().and_then(|table| table.get("upstreams"));
            let configured = config.and_then(Json::as_str).map(|config| {
                let path = directory_of(file).join(config);
                upstreams::read(&path, &settings, &mut secrets)
            });
            AgentFile {
                text,
                table,
                configured,
            }
        });
        let secrets = secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX);
        (read, secrets)
    }

    /// The options of the agent, with keys and shapes checked, and the upstreams. `path` is for messages.
    pub(super) fn into_config(
        self,
        path: &Path,
    ) -> Result<(Json, Option<ConfiguredUpstreams>), RunError> {
        check_keys(path, &self.text)?;
        let mut config = self.table.map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let LineColumn { line, column } = LineColumn::of(&self.text, offset);
            RunError::Toml {
                path: path.to_owned(),
                line,
                column,
                // TOML's full message shows the whole line, which may contain a credential.
                problem: error.message().to_owned(),
            }
        })?;
        let defaults = [("output", "text"), ("ptc_transport", "tool_call")];
        let table = config.as_object_mut().ok_or(RunError::NoTable)?;
        for (key, value) in defaults {
            table.entry(key).or_insert_with(|| value.into());
        }
        Ok((config, self.configured.transpose()?))
    }
}

/// What is wrong with a key of an agent file.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFault {
    #[error("unknown key {key}; did you mean {meant}?")]
    Misspelt { key: String, meant: &'static str },
    #[error("unknown key {key}; {known} are known")]
    Unknown { key: String, known: &'static str },
    #[error("{key} must be {expected}")]
    Shape { key: String, expected: &'static str },
}

pub(super) fn key_fault_lines(path: &Path, faults: &[(usize, KeyFault)]) -> String {
    let lines = faults
        .iter()
        .map(|(line, fault)| format!("{}:{line}: {fault}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The directory that the paths in an agent file are relative to.
pub(super) fn directory_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// The tables of an agent file, by path, with their keys. Other tables may have any keys.
const TABLES: &[(&str, &str)] = &[
    (
        "",
        "prompt, model, name, signature, output, ptc_transport, ptc_reference, compaction, max_turns, max_tool_calls, timeout, \
         mission_timeout, turn_budget, max_heap_bytes, memory_limit, memory_strategy, system_prompt, context_descriptions, \
         upstreams, tools",
    ),
    ("system_prompt.", "prefix, suffix"),
    (
        "tools.",
        "name, description, signature, expose, cache, native_result, command, lisp, upstream",
    ),
    ("tools.native_result.", "preview, limit"),
    ("tools.native_result.preview.", "lisp"),
    ("tools.upstream.", "server, tool"),
];

/// The required shape of a key whose value would otherwise be ignored silently.
struct RequiredShape {
    path: &'static str,
    expected: &'static str,
    fits: fn(&DeValue<'_>) -> bool,
}

const fn shape(
    path: &'static str,
    expected: &'static str,
    fits: fn(&DeValue<'_>) -> bool,
) -> RequiredShape {
    RequiredShape {
        path,
        expected,
        fits,
    }
}

const REQUIRED_SHAPES: &[RequiredShape] = &[
    shape("tools", "tables, each below a line [[tools]]", is_tables),
    shape("tools.command", "a list of strings", is_strings),
    shape("tools.cache", "true or false", |value| {
        matches!(value, DeValue::Boolean(_))
    }),
    shape("upstreams", "a string", is_string),
    shape("system_prompt.prefix", "a string", is_string),
    shape("system_prompt.suffix", "a string", is_string),
    shape("context_descriptions", "a table of strings", |value| {
        let DeValue::Table(texts) = value else {
            return false;
        };
        texts.values().all(|text| is_string(text.get_ref()))
    }),
];

fn is_string(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::String(_))
}

fn is_strings(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Array(words) if words.iter().all(|word| is_string(word.get_ref())))
}

fn is_tables(value: &DeValue<'_>) -> bool {
    let is_table = |item: &DeValue<'_>| matches!(item, DeValue::Table(_));
    matches!(value, DeValue::Array(items) if items.iter().all(|item| is_table(item.get_ref())))
}

/// Refuses unknown keys, and values of the wrong shape: they would otherwise be ignored silently. All are reported, by line.
fn check_keys(file: &Path, text: &str) -> Result<(), RunError> {
    // Text that is not TOML is refused later, with TOML's message.
    let Ok(document) = DeTable::parse(text) else {
        return Ok(());
    };
    let mut faults: Vec<(usize, KeyFault)> = Vec::new();
    let mut waiting = vec![(document.get_ref(), String::new())];
    while let Some((table, place)) = waiting.pop() {
        let Some((_, keys)) = TABLES.iter().find(|(path, _)| *path == place) else {
            continue;
        };
        let known: Vec<&str> = keys.split(", ").collect();
        for (word, value) in table {
            let name = word.get_ref().as_ref();
            let mut report = |fault| faults.push((word.span().start, fault));
            let key = format!("{place}{name}");
            if !known.contains(&name) {
                report(match closest_of(name, &known) {
                    Some(meant) => KeyFault::Misspelt { key, meant },
                    None => KeyFault::Unknown { key, known: keys },
                });
                continue;
            }
            let shape = REQUIRED_SHAPES.iter().find(|shape| shape.path == key);
            if let Some(shape) = shape.filter(|shape| !(shape.fits)(value.get_ref())) {
                let expected = shape.expected;
                report(KeyFault::Shape { key, expected });
                continue;
            }
            let place = format!("{key}.");
            match value.get_ref() {
                DeValue::Table(table) => waiting.push((table, place)),
                DeValue::Array(items) => {
                    for item in items.iter() {
                        if let DeValue::Table(table) = item.get_ref() {
                            waiting.push((table, place.clone()));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort_by_key(|(at, _)| *at);
    for (at, _) in &mut faults {
        *at = LineColumn::of(text, *at).line;
    }
    let path = file.to_owned();
    Err(RunError::Keys { path, faults })
}

fn read(path: &Path, bytes_max: u64) -> Result<String, RunError> {
    read_text(path, bytes_max).map_err(|error| RunError::Read {
        path: path.to_owned(),
        error,
    })
}

pub(super) fn read_object(path: &Path) -> Result<Map, RunError> {
    let text = read(path, DATA_BYTES_MAX)?;
    let path = path.to_owned();
    match serde_json::from_str(&text).map(|json: Json| json_to_value(&json)) {
        Ok(Value::Map(map)) => Ok(map),
        Ok(_) => Err(RunError::Context { path }),
        Err(error) => Err(RunError::Json { path, error }),
    }
}
