//! Tools of an upstream: as the upstream described them, and as the outside may see them. Knows nothing of rendering.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ptc_secrets::{MARKER, Redactor, Scrub};
use serde_json::Value;

use crate::limits::NAME_BYTES_MAX;
use crate::prose::{enumerated, printable};
use crate::schema_keys::SchemaKeys;
use ptc_lang::rank::Indexed;

/// JSON that an upstream sent with a tool: a schema, annotations. Kept as text: a parsed tree takes twenty times the memory, and
/// the upstream chooses the size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedJson(Option<Arc<str>>);

impl PackedJson {
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// As compact JSON.
    pub fn text(&self) -> &str {
        self.0.as_deref().unwrap_or("null")
    }

    /// Parsed anew on each call.
    pub fn read(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|error| {
            tracing::error!(event = "tool_json_unreadable", %error);
            Value::Null
        })
    }

    /// Scrubbed; shares the text when it contains no secrets.
    fn scrubbed(&self, redactor: &Redactor) -> Self {
        let mut tree = self.read();
        tree.scrub_in_place(redactor);
        let scrubbed = Self::from(tree);
        match scrubbed == *self {
            true => self.clone(),
            false => scrubbed,
        }
    }
}

impl From<Value> for PackedJson {
    fn from(tree: Value) -> Self {
        Self(match tree {
            Value::Null => None,
            tree => Some(tree.to_string().into()),
        })
    }
}

/// A tool as its upstream described it. Never shown; used to call the tool and to check arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawTool {
    pub name: String,
    pub description: String,
    pub input_schema: PackedJson,
    /// The parts of `input_schema` that calls need.
    pub schema_keys: SchemaKeys,
    pub output_schema: PackedJson,
    pub annotations: PackedJson,
    /// The effect of a call according to the annotations: `read`, `write` or `unknown`.
    pub effect: &'static str,
    /// Provenance of compiled tools.
    pub ptc: PackedJson,
}

impl RawTool {
    /// Reads an entry of `tools/list`; an entry without a name can't be called and is dropped.
    pub fn read(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else {
            return None;
        };
        let Some(Value::String(name)) = entry.remove("name") else {
            return None;
        };
        if name.is_empty() {
            return None;
        }
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let mut part = |key: &str| entry.remove(key).unwrap_or_default();
        let (input_schema, annotations) = (part("inputSchema"), part("annotations"));
        Some(Self {
            name,
            schema_keys: SchemaKeys::of(&input_schema),
            input_schema: input_schema.into(),
            output_schema: part("outputSchema").into(),
            effect: effect(&annotations),
            annotations: annotations.into(),
            ptc: PackedJson::default(),
            description: text(entry.remove("description")),
        })
    }
}

fn effect(annotations: &Value) -> &'static str {
    let says = |hint: &str| annotations.get(hint).and_then(Value::as_bool);
    match (says("readOnlyHint"), says("destructiveHint")) {
        (Some(true), _) => "read",
        (_, Some(true)) => "write",
        _ => "unknown",
    }
}

/// A tool ready to be shown: every part is scrubbed.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name that programs use.
    pub name: String,
    /// Description as the upstream wrote it.
    pub description: String,
    /// JSON Schema of the arguments, or null.
    pub input_schema: PackedJson,
    /// JSON Schema of the result, or null.
    pub output_schema: PackedJson,
    /// MCP annotations, or null.
    pub annotations: PackedJson,
    /// `_ptc`: transport, operationId, method and path of an OpenAPI tool; otherwise null.
    pub ptc: PackedJson,
    /// The text of `doc`, built on first use; `None` when it is too long.
    pub(crate) doc: OnceLock<Option<Arc<str>>>,
}

/// The tools of one upstream, in its order.
#[derive(Debug, Default)]
pub struct Toolset {
    raw: Vec<RawTool>,
    shown: Vec<Tool>,
    /// Index by shown name and by real name.
    by_name: HashMap<String, usize>,
    /// Indices in bytewise order of shown names.
    sorted: Vec<usize>,
    /// Entries for `apropos`, in the order of the tools.
    indexed: Vec<Indexed>,
    /// The number of listed tools that are left out because their names are too long.
    pub(crate) left_out: usize,
    /// The number of tools that were not scrubbed in time, so that markers replace parts of them.
    pub(crate) late: usize,
}

impl Toolset {
    pub(crate) fn new(mut raw: Vec<RawTool>, server: &str, redactor: &Redactor) -> Self {
        let listed = raw.len();
        raw.retain(|tool| tool.name.len() <= NAME_BYTES_MAX);
        let left_out = listed - raw.len();
        let (shown, late) = scrub_all(&raw, redactor);
        let mut by_name = HashMap::new();
        for (at, tool) in shown.iter().enumerate() {
            by_name.entry(tool.name.clone()).or_insert(at);
        }
        for (at, tool) in raw.iter().enumerate() {
            by_name.entry(tool.name.clone()).or_insert(at);
        }
        let mut sorted: Vec<usize> = (0..shown.len()).collect();
        sorted.sort_by(|&a, &b| shown[a].name.cmp(&shown[b].name));
        let indexed = shown.iter().map(|tool| index(server, tool)).collect();
        Self {
            raw,
            shown,
            by_name,
            sorted,
            indexed,
            left_out,
            late,
        }
    }

    /// The number of tools, and as many of their names as fit.
    pub fn summary(&self) -> String {
        let names = || enumerated(self.sorted().map(|tool| tool.name.as_str()));
        match self.shown.len() {
            0 => "no tools".to_owned(),
            1 => format!("1 tool: {}", names()),
            count => format!("{count} tools: {}", names()),
        }
    }

    /// Describes the listed tools that are left out or shown incompletely.
    pub fn omissions(&self) -> Vec<String> {
        let left_out = match self.left_out {
            0 => None,
            1 => Some(format!(
                "1 tool is left out: its name has more than {NAME_BYTES_MAX} bytes"
            )),
            count => Some(format!(
                "{count} tools are left out: their names have more than {NAME_BYTES_MAX} bytes"
            )),
        };
        let late = match self.late {
            0 => None,
            count => Some(format!(
                "parts of {count} of its tools are shown as {MARKER}: all that it lists takes too long to look through for credentials"
            )),
        };
        left_out.into_iter().chain(late).collect()
    }

    /// All tools in the upstream's order.
    pub fn tools(&self) -> &[Tool] {
        &self.shown
    }

    /// All tools sorted by name.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.sorted.iter().map(|&at| &self.shown[at])
    }

    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|&at| &self.shown[at])
    }

    /// Every tool with its entry for `apropos`.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (&Tool, &Indexed)> {
        self.shown.iter().zip(&self.indexed)
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&RawTool> {
        self.by_name.get(name).map(|&at| &self.raw[at])
    }
}

/// The tools as the outside may see them, and the number of tools that were not scrubbed in time. Names are scrubbed first, because
/// tools are called by their shown names, and schemas, the largest part, last.
fn scrub_all(raw: &[RawTool], redactor: &Redactor) -> (Vec<Tool>, usize) {
    let mut shown: Vec<Tool> = raw.iter().map(scrubbed_tool).collect();
    let mut late = vec![false; shown.len()];
    let parts: [fn(&mut Tool, &Redactor); 3] = [
        |tool, redactor| tool.name.scrub_in_place(redactor),
        |tool, redactor| tool.description.scrub_in_place(redactor),
        |tool, redactor| {
            for part in [
                &mut tool.input_schema,
                &mut tool.output_schema,
                &mut tool.annotations,
                &mut tool.ptc,
            ] {
                *part = part.scrubbed(redactor);
            }
        },
    ];
    for scrub in parts.iter().filter(|_| !redactor.is_empty()) {
        for (tool, late) in shown.iter_mut().zip(&mut late) {
            scrub(tool, redactor);
            *late |= redactor.is_out_of_time();
        }
    }
    for tool in &mut shown {
        if let Cow::Owned(name) = printable(&tool.name) {
            tool.name = name;
        }
    }
    (shown, late.into_iter().filter(|late| *late).count())
}

fn scrubbed_tool(tool: &RawTool) -> Tool {
    Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        annotations: tool.annotations.clone(),
        ptc: tool.ptc.clone(),
        doc: OnceLock::new(),
    }
}

/// Names are boosted; description, argument keys and annotations are not.
fn index(server: &str, tool: &Tool) -> Indexed {
    let (input_schema, annotations) = (tool.input_schema.read(), tool.annotations.read());
    let keys = input_schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let annotations = annotations.as_object().into_iter().flatten();
    let mut prose = vec![tool.description.clone()];
    prose.extend(keys.map(|(key, _)| key.clone()));
    prose.extend(annotations.map(|(key, value)| {
        format!(
            "{key} {}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        )
    }));
    Indexed::new(
        [server, tool.name.as_str()],
        prose.iter().map(String::as_str),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests {
    use super::*;
    use ptc_secrets::Secret;
    use serde_json::json;

    #[test]
    fn names_are_scrubbed_first() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let mut secrets = Redactor::builder();
        secrets.add(&Secret::new("canary-of-tools-0123".into()));
        let questions = AtomicUsize::new(0);
        let redactor = secrets
            .build()
            .with_time_check(move || questions.fetch_add(1, Ordering::Relaxed) < 200);
        let tool = |name: &str| {
            let long = "canary-of-tools-0124 ".repeat(100_000);
            RawTool::read(json!({"name": name, "description": long})).unwrap()
        };
        let names = ["a canary-of-tools-0123", "b", "c"];
        let set = Toolset::new(names.map(tool).to_vec(), "s", &redactor);
        let shown: Vec<&str> = set.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(shown, ["a [REDACTED]", "b", "c"]);
        assert_eq!(set.tools()[2].description, MARKER);
        assert!(set.late > 0);
        assert!(set.omissions()[0].contains("of its tools are shown as [REDACTED]"));
    }

    #[test]
    fn clean_tools_share_their_text() {
        let mut secrets = Redactor::builder();
        secrets.add(&Secret::new("canary-of-tools-0123".into()));
        let redactor = secrets.build();
        let tool = |word: &str| {
            let schema = json!({"properties": {word: {"enum": [1, 2.5, null]}}});
            let entry = json!({"name": "t\n\u{1b}[2J", "inputSchema": schema, "annotations": null});
            RawTool::read(entry).unwrap()
        };
        let set = Toolset::new(
            vec![tool("plain"), tool("canary-of-tools-0123")],
            "s",
            &redactor,
        );
        let (raw, shown) = (&set.raw, &set.shown);
        let text = |part: &PackedJson| part.0.clone().unwrap();
        assert!(Arc::ptr_eq(
            &text(&raw[0].input_schema),
            &text(&shown[0].input_schema)
        ));
        assert_eq!(
            shown[0].input_schema.text(),
            r#"{"properties":{"plain":{"enum":[1,2.5,null]}}}"#
        );
        assert!(shown[0].annotations.is_null());
        assert!(raw[1].input_schema.text().contains("canary"));
        assert!(!shown[1].input_schema.text().contains("canary"));
        // Both names find the tool.
        assert_eq!(shown[0].name, "t\u{fffd}\u{fffd}[2J");
        for name in ["t\n\u{1b}[2J", "t\u{fffd}\u{fffd}[2J"] {
            assert_eq!(set.raw(name).unwrap().name, "t\n\u{1b}[2J");
        }
    }
}
