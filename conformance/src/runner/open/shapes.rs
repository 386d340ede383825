//! The shapes of MCP's results and notifications, as the JSON Schemas in `shapes.json`: written from the tables and prose of the
//! revisions 2025-06-18, 2025-11-25 and 2026-07-28, and open to what extensions add. Knows nothing of any server.

use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Methods with the finding for a result of another shape, and the name of the shape.
const RESULTS: &[(&str, &str, &str)] = &[
    ("initialize", "shape-initialize", "InitializeResult"),
    ("tools/list", "shape-tools", "ListToolsResult"),
    ("tools/call", "shape-call", "CallToolResult"),
    ("resources/list", "shape-resources", "ListResourcesResult"),
    (
        "resources/templates/list",
        "shape-templates",
        "ListResourceTemplatesResult",
    ),
    ("resources/read", "shape-read", "ReadResourceResult"),
    ("prompts/list", "shape-prompts", "ListPromptsResult"),
    ("prompts/get", "shape-prompt", "GetPromptResult"),
    ("completion/complete", "shape-completion", "CompleteResult"),
    ("server/discover", "shape-discover", "DiscoverResult"),
];

/// Notifications with the name of the shape of their params.
const NOTIFICATIONS: &[(&str, &str)] = &[
    ("notifications/progress", "ProgressParams"),
    ("notifications/message", "LoggingParams"),
    ("notifications/cancelled", "CancelledParams"),
    ("notifications/resources/updated", "ResourceUpdatedParams"),
];

/// The finding and the shape for a method's result.
pub fn of_method(method: &str) -> Option<(&'static str, &'static str)> {
    let row = RESULTS.iter().find(|(known, ..)| *known == method);
    row.map(|(_, word, shape)| (*word, *shape))
}

/// The shape of a notification's params.
pub fn of_notification(method: &str) -> Option<&'static str> {
    let row = NOTIFICATIONS.iter().find(|(known, _)| *known == method);
    row.map(|(_, shape)| *shape)
}

/// Why a value does not have a shape: the first reason, with its location.
pub fn shape_fault(shape: &str, value: &Value) -> Option<String> {
    let validator = validators().get(shape)?;
    let why = validator.validate(value).err()?;
    let place = why.instance_path().to_string();
    let place = if place.is_empty() {
        "the result".to_owned()
    } else {
        place
    };
    Some(format!("{place}: {why}"))
}

fn validators() -> &'static HashMap<&'static str, Validator> {
    static VALIDATORS: OnceLock<HashMap<&'static str, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let document: Value =
            serde_json::from_str(include_str!("shapes.json")).expect("shapes.json is JSON");
        let definitions = &document["$defs"];
        let results = RESULTS.iter().map(|(_, _, shape)| *shape);
        let names = results.chain(NOTIFICATIONS.iter().map(|(_, shape)| *shape));
        names
            .map(|name| {
                let schema = json!({"$ref": format!("#/$defs/{name}"), "$defs": definitions});
                let validator = jsonschema::validator_for(&schema);
                (name, validator.expect("each shape is a JSON Schema"))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests;
