//! The configuration of `lisp_task`: the planner's model, the operator's planner settings, the capability summary. Knows nothing of
//! calls.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use ptc_agent::{Llm, LlmError, key_variables, open_model, url_variables};
use ptc_secrets::{FileError, RedactorBuilder, Secret, register_login};
use ptc_upstream::{CatalogMode, Runtime, Tool};
use serde_json::{Map, Value as Json, json};

use crate::settings::AgenticSettings;
use ptc_protocol::digest;

/// Keys that a planner settings file may have.
const KEYS: &[&str] = &["max_turns", "retry_turns", "system_prompt"];
/// Keys of its `system_prompt`.
const PROMPT_KEYS: &[&str] = &["prefix", "suffix"];
/// Keys that the server decides; keys that start with `_` are reserved, too.
const RESERVED: &[&str] = &[
    "tools",
    "signature",
    "output",
    "ptc_transport",
    "completion_mode",
    "trace_context",
];
/// Bytes of each text of `system_prompt`.
const PROMPT_BYTES_MAX: usize = 4_096;

const LAZY_SUMMARY: &str = "Upstream discovery is loaded lazily (catalog mode: lazy); lisp_task's internal planner discovers configured \
     upstream servers and their tools at runtime. Describe the task you want in plain English and the planner will pick the right \
     upstream calls.";

/// The planner of a server.
pub struct Agentic {
    /// Turns of a task.
    pub turns: u32,
    /// Further turns after failures.
    pub retry_turns: u32,
    /// The operator's text before the middle of the instructions.
    pub prefix: String,
    pub suffix: String,
    summary: Option<String>,
    /// Which of [`KEYS`] the planner settings file set.
    from_file: Vec<&'static str>,
    model: OnceLock<Result<Box<dyn Llm>, LlmError>>,
}

/// What is wrong with the settings of `lisp_task`, or with the files that they name.
#[derive(Debug, thiserror::Error)]
pub enum AgenticFault {
    #[error("agentic_subagent_config: {0}")]
    PlannerSettings(String),
    #[error("agentic_capability_summary: cannot read {path}: {error}")]
    SummaryUnread { path: String, error: FileError },
    #[error("agentic_capability_summary: {path} is {bytes} bytes, exceeding configured cap {cap}")]
    SummaryTooLong { path: String, bytes: u64, cap: u64 },
    #[error("agentic configuration invalid: --agentic-allow-writes requires --agentic.")]
    WritesAlone,
    #[error(
        "agentic configuration invalid: configured upstream access is not asserted read-only.\n\n\
         Set --aggregator-read-only when every upstream tool only reads, or\n\
         --agentic-allow-writes when tasks may call tools that write."
    )]
    MayWrite,
}

/// Registers the providers' keys as secrets, and the passwords in the addresses of providers and of proxies.
pub fn register_keys(environment: &dyn Fn(&str) -> Option<String>, secrets: &mut RedactorBuilder) {
    for key in key_variables().filter_map(environment) {
        let key = Secret::new(key.trim().to_owned());
        // No provider accepts a key that short.
        if !key.is_short() {
            secrets.add(&key);
        }
    }
    for address in url_variables().filter_map(environment) {
        register_login(&address, secrets);
    }
    ptc_outbound::register_proxies(environment, secrets);
}

impl Agentic {
    /// Reads the operator's files.
    ///
    /// # Errors
    /// Which file is wrong, and how.
    pub fn read(settings: &AgenticSettings) -> Result<Self, AgenticFault> {
        let mut agentic = Agentic {
            turns: u32::try_from(settings.turns).unwrap_or(u32::MAX),
            retry_turns: u32::try_from(settings.retry_turns).unwrap_or(u32::MAX),
            prefix: String::new(),
            suffix: String::new(),
            summary: None,
            from_file: Vec::new(),
            model: OnceLock::new(),
        };
        if let Some(path) = &settings.subagent_config {
            agentic.read_config(path)?;
        }
        if let Some(path) = &settings.capability_summary {
            let cap = settings.capability_summary_bytes;
            let read = ptc_secrets::read_text(path, cap);
            agentic.summary = Some(read.map_err(|error| match (path.clone(), error) {
                (
                    path,
                    FileError::TooLong {
                        bytes: Some(bytes), ..
                    },
                ) => AgenticFault::SummaryTooLong { path, bytes, cap },
                (path, error) => AgenticFault::SummaryUnread { path, error },
            })?);
        }
        Ok(agentic)
    }

    /// The planner's model, opened on first use.
    ///
    /// # Errors
    /// The model is not configured.
    pub fn model(&self, settings: &AgenticSettings) -> Result<&dyn Llm, LlmError> {
        let open = || {
            let timeout = Duration::from_millis(settings.planner_timeout_ms);
            open_model(&settings.model, &|name| std::env::var(name).ok(), timeout)
        };
        match self.model.get_or_init(open) {
            Ok(model) => Ok(&**model),
            Err(error) => Err(error.clone()),
        }
    }

    /// The description of the upstreams in the tool's description: the operator's text, or else one made from the catalog.
    pub fn capability_summary(&self, runtime: &Runtime, bytes_max: usize) -> String {
        if let Some(text) = &self.summary {
            return text.clone();
        }
        let servers: Vec<(String, Option<Vec<String>>)> = runtime
            .toolsets()
            .map(|(name, tools)| {
                let labels = tools.map(|tools| tools.sorted().map(tool_label).collect());
                (name.to_owned(), labels)
            })
            .collect();
        match runtime.catalog_mode() {
            CatalogMode::Lazy => LAZY_SUMMARY.to_owned(),
            CatalogMode::Inline => summary(&servers, usize::MAX),
            CatalogMode::Auto => summary(&servers, bytes_max),
        }
    }

    /// The planner's settings for the log: each with its source, and those that are defaults.
    pub fn described(&self, settings: &AgenticSettings) -> Json {
        let file = |key: &str| self.from_file.contains(&key).then_some("config_file");
        let sources = settings.sources;
        let prompt = file("system_prompt");
        let rows: [(&str, Json, Option<&str>); 5] = [
            (
                "allow_writes",
                settings.allow_writes.into(),
                sources.allow_writes,
            ),
            (
                "max_turns",
                self.turns.into(),
                file("max_turns").or(sources.turns),
            ),
            (
                "retry_turns",
                self.retry_turns.into(),
                file("retry_turns").or(sources.retry_turns),
            ),
            (
                "system_prompt_prefix_bytes",
                self.prefix.len().into(),
                prompt,
            ),
            (
                "system_prompt_suffix_bytes",
                self.suffix.len().into(),
                prompt,
            ),
        ];
        let (mut applied, mut defaulted) = (Map::new(), Map::new());
        for (name, value, source) in rows {
            match source {
                Some(source) => {
                    applied.insert(name.into(), json!({ "source": source, "value": value }));
                }
                None => {
                    applied.insert(name.into(), value.clone());
                    defaulted.insert(name.into(), value);
                }
            }
        }
        json!({
            "applied": applied,
            "capability_summary": {
                "bytes": self.summary.as_ref().map_or(0, String::len),
                "hash": self.summary.as_ref().map(|text| digest::hex(text.as_bytes())),
            },
            "defaulted": defaulted,
            "subagent_config": settings.subagent_config,
        })
    }

    fn read_config(&mut self, path: &str) -> Result<(), AgenticFault> {
        let fault = AgenticFault::PlannerSettings;
        let text = ptc_secrets::read_text(path, ptc_secrets::SETTINGS_BYTES_MAX)
            .map_err(|error| fault(format!("cannot read {path}: {error}")))?;
        let config: Json = serde_json::from_str(&text)
            .map_err(|error| fault(format!("malformed JSON in {path}: {error}")))?;
        let Json::Object(config) = config else {
            return Err(fault(format!("{path} must contain a JSON object")));
        };
        let allowed = format!(
            "Allowed keys: {}. Allowed system_prompt keys: {}.",
            KEYS.join(", "),
            PROMPT_KEYS.join(", ")
        );
        let reserved = |key: &str| RESERVED.contains(&key) || key.starts_with('_');
        if let Some(keys) = listed(&config, reserved) {
            let note = "Reserved keys are MCP-controlled and cannot be set here.";
            return Err(fault(format!(
                "{path} contains reserved key(s): {keys}. {allowed} {note}"
            )));
        }
        if let Some(keys) = listed(&config, |key| !KEYS.contains(&key)) {
            return Err(fault(format!(
                "{path} contains unknown key(s): {keys}. {allowed}"
            )));
        }
        if let Some(turns) = config.get("max_turns") {
            let turns = count(turns).filter(|turns| *turns > 0);
            self.from_file.push("max_turns");
            self.turns = turns
                .ok_or_else(|| fault(format!("{path} key max_turns must be a positive integer")))?;
        }
        if let Some(turns) = config.get("retry_turns") {
            let message = || {
                fault(format!(
                    "{path} key retry_turns must be a non-negative integer"
                ))
            };
            self.from_file.push("retry_turns");
            self.retry_turns = count(turns).ok_or_else(message)?;
        }
        if config.contains_key("system_prompt") {
            self.from_file.push("system_prompt");
        }
        let prompt = match config.get("system_prompt") {
            None | Some(Json::Null) => return Ok(()),
            Some(Json::Object(prompt)) => prompt,
            Some(_) => {
                return Err(fault(format!(
                    "{path} key system_prompt must be an object or null"
                )));
            }
        };
        if let Some(keys) = listed(prompt, |key| !PROMPT_KEYS.contains(&key)) {
            return Err(fault(format!(
                "{path} contains unknown system_prompt key(s): {keys}. Allowed system_prompt keys: {}.",
                PROMPT_KEYS.join(", ")
            )));
        }
        for (key, target) in [("prefix", &mut self.prefix), ("suffix", &mut self.suffix)] {
            match prompt.get(key) {
                None | Some(Json::Null) => {}
                Some(Json::String(text)) if text.len() <= PROMPT_BYTES_MAX => {
                    target.clone_from(text)
                }
                Some(Json::String(text)) => {
                    let length = text.len();
                    return Err(fault(format!(
                        "{path} system_prompt.{key} is {length} bytes, exceeding {PROMPT_BYTES_MAX}"
                    )));
                }
                Some(_) => {
                    return Err(fault(format!(
                        "{path} system_prompt.{key} must be a string or null"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn listed(object: &Map<String, Json>, wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut keys: Vec<&str> = object
        .keys()
        .map(String::as_str)
        .filter(|key| wanted(key))
        .collect();
    keys.sort_unstable();
    (!keys.is_empty()).then(|| keys.join(", "))
}

fn count(value: &Json) -> Option<u32> {
    value.as_u64().and_then(|count| u32::try_from(count).ok())
}

/// One bullet per server. Tools and servers that do not fit into `bytes_max` are counted instead.
fn summary(servers: &[(String, Option<Vec<String>>)], bytes_max: usize) -> String {
    let mut text = String::new();
    for (at, (name, tools)) in servers.iter().enumerate() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let bullet = match tools {
            None => format!("- {name}: (unavailable at startup)"),
            Some(tools) if tools.is_empty() => format!("- {name}: (no tools advertised)"),
            Some(tools) => format!("- {name}: {}", tools.join(", ")),
        };
        if text.len() + gap.len() + bullet.len() <= bytes_max {
            let _ = write!(text, "{gap}{bullet}");
            continue;
        }
        let room = bytes_max.saturating_sub(text.len() + gap.len());
        let tools = tools.as_deref().unwrap_or_default();
        if let Some(clipped) = clipped(name, tools, room) {
            let _ = write!(text, "{gap}{clipped}");
        }
        let more = servers.len() - at - 1;
        let note = format!("\n- (+{more} more upstreams)");
        if more > 0 && text.len() + note.len() <= bytes_max {
            text.push_str(&note);
        }
        break;
    }
    text
}

/// As many tools as fit, and the number of the others.
fn clipped(name: &str, tools: &[String], room: usize) -> Option<String> {
    let mut text = format!("- {name}: ");
    let mut fitting = None;
    for (shown, tool) in tools.iter().enumerate() {
        let bullet = format!("{text}(+{} more)", tools.len() - shown);
        if shown == 0 || bullet.len() <= room {
            fitting = Some(bullet);
        }
        // With more tools the text only gets longer.
        if text.len() > room {
            break;
        }
        text.push_str(tool);
        text.push_str(", ");
    }
    fitting
}

fn tool_label(tool: &Tool) -> String {
    format!(
        "{}->{}",
        tool.name,
        output_label(&tool.output_schema.read())
    )
}

/// Properties of an object that its label shows.
const PROPERTIES_SHOWN: usize = 3;

fn output_label(schema: &Json) -> String {
    match schema {
        Json::Null => ":unknown_content".to_owned(),
        schema => type_label(schema),
    }
}

fn type_label(schema: &Json) -> String {
    match schema.get("type").and_then(Json::as_str) {
        _ if schema.get("enum").is_some() => ":any".to_owned(),
        Some("string") => ":string".to_owned(),
        Some("integer") => ":int".to_owned(),
        Some("number") => ":float".to_owned(),
        Some("boolean") => ":bool".to_owned(),
        Some("array") => match schema.get("items") {
            Some(items) => format!("[{}]", type_label(items)),
            None => "[:any]".to_owned(),
        },
        Some("object") => match schema.get("properties").and_then(Json::as_object) {
            None => ":map".to_owned(),
            Some(properties) => {
                let mut names: Vec<&String> = properties.keys().collect();
                names.sort_unstable();
                let shown = names.into_iter().take(PROPERTIES_SHOWN);
                let fields: Vec<String> = shown
                    .map(|name| format!("{name} {}", type_label(&properties[name])))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
        },
        _ => ":any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<(String, Option<Vec<String>>)> {
        let tools =
            |count: usize| Some((1..=count).map(|n| format!("tool_{n}->:string")).collect());
        vec![("srv1".to_owned(), tools(4)), ("srv2".to_owned(), tools(4))]
    }

    #[test]
    fn summary_is_clipped_to_the_budget() {
        assert_eq!(
            summary(&servers()[..1], 40),
            "- srv1: tool_1->:string, (+3 more)"
        );
        assert_eq!(summary(&servers()[..1], 20), "- srv1: (+4 more)");
        let full = "- srv1: tool_1->:string, tool_2->:string, tool_3->:string, tool_4->:string";
        assert_eq!(
            summary(&servers(), 120),
            format!("{full}\n- srv2: tool_1->:string, (+3 more)")
        );
    }

    #[test]
    fn output_types_are_labelled() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": { "n": { "type": "integer" }, "items": { "type": "array", "items": { "type": "string" } } },
        });
        assert_eq!(output_label(&schema), "{items [:string],n :int}");
        assert_eq!(output_label(&Json::Null), ":unknown_content");
        assert_eq!(
            output_label(&serde_json::json!({ "type": "object" })),
            ":map"
        );
        assert_eq!(output_label(&serde_json::json!({})), ":any");
    }
}
