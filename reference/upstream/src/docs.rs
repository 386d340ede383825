//! The text of `doc` for an upstream's tool. Knows scrubbed tools; knows nothing of servers or budgets.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::label::{arguments, required_keys, result_label, shown_key};
use crate::prose::{DOC_GRAPHEMES_MAX, one_line};
use crate::tool::{PackedJson, Tool};

/// The documentation of one tool: its description, its arguments, a call to edit, and its result. `None` when it is evidently
/// longer than `bytes_max`.
pub(crate) fn render(server: &str, tool: &Tool, bytes_max: usize) -> Option<String> {
    if names_bytes(&tool.input_schema) > bytes_max {
        return None;
    }
    let mut out = format!("{server}/{}\n", tool.name);
    let description = one_line(&tool.description, DOC_GRAPHEMES_MAX);
    if !description.is_empty() {
        out.push_str(&format!("Description: {description}\n"));
    }
    let empty = serde_json::Map::new();
    let input_schema = tool.input_schema.read();
    let properties = input_schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let arguments = arguments(&input_schema);
    let listed: Vec<String> = arguments
        .iter()
        .map(|argument| {
            format!(
                "{} {}{}",
                argument.shown,
                argument.label,
                if argument.required { "" } else { "?" }
            )
        })
        .collect();
    let required: Vec<String> = required_keys(&input_schema)
        .into_iter()
        .map(|key| shown_key(key, properties))
        .collect();
    let placeholders: Vec<String> = match (required.is_empty(), arguments.first()) {
        (true, Some(first)) => vec![format!("{} ...", first.shown)],
        _ => required.iter().map(|key| format!("{key} ...")).collect(),
    };
    let required = if required.is_empty() {
        "none".to_owned()
    } else {
        required.join(", ")
    };
    out.push_str(&format!(
        "\nArgs: {{{}}}\nRequired args: {required}\n\nCall:\n(tool/call {{:server {} :tool {} :args {{{}}}}})\n\n\
         Returns: Result<{}>\nUse `(:value r)` after checking `(:ok r)`.",
        listed.join(" "),
        Value::from(server),
        Value::from(tool.name.as_str()),
        placeholders.join(" "),
        result_label(&tool.output_schema.read()),
    ));
    Some(out)
}

/// Bytes of the names of a schema's properties, computed without building a tree, which takes many times the memory of the text.
fn names_bytes(schema: &PackedJson) -> usize {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        properties: HashMap<Cow<'a, str>, &'a RawValue>,
    }
    let object: Option<Object<'_>> = serde_json::from_str(schema.text()).ok();
    object.map_or(0, |object| {
        object.properties.keys().map(|name| name.len()).sum()
    })
}
