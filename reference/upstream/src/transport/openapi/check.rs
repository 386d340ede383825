//! Properties that hold for every OpenAPI description that compiles.

use super::address;
use super::compile::{self, Operation};
use super::config::{OpenApiConfig, SchemaSource};
use crate::config::RemoteConfig;
use ptc_secrets::Redactor;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum operations that are also compiled alone: in a joint compilation one faulty operation hides the
/// others.
const CHECKED_ALONE_MAX: usize = 8;

/// Compiles the operations that `text` names, together and one by one, and checks the results.
pub fn compiles(text: &str) {
    let ids = operation_ids(text);
    let alone = ids.iter().take(CHECKED_ALONE_MAX);
    for include in alone.map(|id| vec![id.clone()]).chain([ids.clone()]) {
        let config = OpenApiConfig {
            remote: RemoteConfig {
                url: "https://host/base".into(),
                auth: Vec::new(),
                static_headers: Vec::new(),
                request_timeout: Duration::from_secs(1),
                connect_timeout: Duration::from_secs(1),
                response_bytes_max: 1,
            },
            schema: SchemaSource::File("unread".into()),
            schema_bytes_max: usize::MAX,
            include,
            overrides: Default::default(),
        };
        if let Ok((tools, operations)) =
            compile::compile(text.as_bytes(), &config, &Redactor::empty())
        {
            assert_eq!(tools.len(), config.include.len());
            assert_eq!(tools.len(), operations.len());
            assert!(tools.iter().all(|tool| operations.contains_key(&tool.name)));
            operations.values().for_each(check_addresses);
        }
    }
}

/// Texts with which a program could try to escape from an operation.
const HOSTILE: &[&str] = &[
    "x", "..", ".", "%2e%2e", "%252e.", "a/b", "a%2fb", "..\\", "", "?q=1", "#f", "@h", ":1",
    "\r\nX: y", "%c0%af", ";", "é",
];

/// An argument never leaves the host, nor adds or removes a segment, a query or a fragment.
fn check_addresses(operation: &Operation) {
    let sample = |text: &str| {
        let names = operation
            .path
            .parameters()
            .chain(operation.query.iter().map(String::as_str));
        let members: Map<String, Value> =
            names.map(|name| (name.to_owned(), text.into())).collect();
        let arguments = Value::Object(members).to_string();
        let arguments = ptc_rpc::parse(arguments.as_bytes()).expect("JSON was written");
        address("https://host/base", operation, arguments).ok()
    };
    let parts = |url: &str| {
        let url = reqwest::Url::parse(url).expect("an address is a URL");
        assert_eq!(url.host_str(), Some("host"));
        assert!(url.path().starts_with("/base/"));
        assert_eq!(url.fragment(), None);
        (url.path().split('/').count(), url.query_pairs().count())
    };
    let Some(plain) = sample("zzzz").map(|url| parts(&url)) else {
        return;
    };
    for text in HOSTILE {
        if let Some(url) = sample(text) {
            assert_eq!(parts(&url), plain, "{text:?}");
        }
    }
}

/// The operation ids in the text, sorted; none when it is not JSON.
fn operation_ids(text: &str) -> Vec<String> {
    let mut ids = BTreeSet::new();
    let mut waiting = vec![serde_json::from_str(text).unwrap_or(Value::Null)];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                let id = members.get("operationId").and_then(Value::as_str);
                ids.extend(id.map(str::to_owned));
                waiting.extend(members.into_iter().map(|(_, member)| member));
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    ids.into_iter().collect()
}
