//! Upstream entries: turns JSON into typed configuration, and refuses everything that could not work. Credentials appear
//! here by name only.

use std::path::PathBuf;
use std::time::Duration;

use ptc_protocol::closest_of;
use ptc_secrets::{ConfigDocument, ConfigFault, json_kind};
use serde_json::{Map, Value};

use crate::transport::{TRANSPORTS, TransportConfig};

#[derive(Debug)]
pub struct UpstreamConfig {
    /// Its key under `upstreams`.
    pub name: String,
    /// Optional description for the catalog and `(tool/servers)`.
    pub description: String,
    /// Optional words for the catalog's server line.
    pub capabilities: Vec<String>,
    pub transport: Box<dyn TransportConfig>,
}

/// The keys that every entry may have.
const COMMON_KEYS: &[&str] = &[
    "transport",
    "description",
    "capabilities",
    "raw_envelope",
    "tools",
];
/// `mcp_stdio, mcp_http or openapi`
fn transport_names() -> String {
    let names: Vec<&str> = TRANSPORTS.iter().map(|row| row.name).collect();
    let (last, others) = names.split_last().expect("there are transports");
    format!("{} or {last}", others.join(", "))
}

/// The keys of a config; `$schema` is for editors.
const ROOT_KEYS: &[&str] = &["upstreams", "credentials", "$schema"];

/// Reads every entry, in name order; each gives a configuration or its first refusal. `own` are paths of the running
/// program: an stdio command that resolves to one of them is refused. Harmless oddities are pushed to `warnings`.
pub fn parse_entries(
    document: &ConfigDocument,
    env: &dyn Fn(&str) -> Option<String>,
    own: &[PathBuf],
    warnings: &mut Vec<String>,
) -> (Vec<UpstreamConfig>, Vec<ConfigFault>) {
    let refused = |path: &[String], message| (Vec::new(), vec![document.fault(path, message)]);
    let place = vec!["upstreams".to_owned()];
    let entries = match document.root.get("upstreams") {
        Some(Value::Object(entries)) => entries,
        Some(other) => {
            let kind = json_kind(other);
            return refused(&place, format!("upstreams must be an object, got {kind}"));
        }
        None => {
            let message = match client_config_hint(&document.root) {
                Some(words) => words,
                None => "upstreams must be an object: the key is missing".into(),
            };
            return refused(&[], message);
        }
    };
    for key in document.root.keys() {
        if !ROOT_KEYS.contains(&key.as_str()) {
            warnings.push(unknown_key(key, ROOT_KEYS));
        }
    }
    let mut names: Vec<&String> = entries.keys().collect();
    names.sort();
    let (mut configs, mut faults) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        let entry = ConfigEntry {
            document,
            env,
            own,
            name,
            path: vec!["upstreams".to_owned(), name.clone()],
            fields: entries[name].as_object(),
        };
        match entry.parse(warnings) {
            Ok(config) => configs.push(config),
            Err(fault) => faults.push(fault),
        }
    }
    (configs, faults)
}

/// What is said of a key that nothing reads, with the known one that was probably meant.
fn unknown_key(key: &str, known: &[&str]) -> String {
    let meant = closest_of(key, known).map(|known| format!("; did you mean \"{known}\"?"));
    format!(
        "key \"{key}\" is unknown and ignored{}",
        meant.unwrap_or_default()
    )
}

/// Keys under which MCP clients configure the servers that they start.
const CLIENT_KEYS: &[&str] = &["mcpServers", "servers", "context_servers"];

/// What to write instead of a client's configuration: its servers as upstreams, by their keys. No value is shown, since
/// some are credentials.
fn client_config_hint(root: &Map<String, Value>) -> Option<String> {
    let (key, servers) = CLIENT_KEYS
        .iter()
        .find_map(|key| Some((*key, root.get(*key)?.as_object()?)))?;
    let entry = |(name, server): (&String, &Value)| {
        let transport = match server.get("url") {
            Some(_) => "mcp_http",
            None => "mcp_stdio",
        };
        let known = ["command", "args", "env", "url"];
        let kept = known.iter().filter(|key| server.get(key).is_some());
        let kept: String = kept.map(|key| format!(", \"{key}\": …")).collect();
        format!(
            "{}: {{\"transport\": \"{transport}\"{kept}}}",
            Value::from(name.as_str())
        )
    };
    let mut entries: Vec<String> = servers
        .iter()
        .map(entry)
        .take(CLIENT_SERVERS_SHOWN)
        .collect();
    if servers.len() > entries.len() {
        entries.push("…".into());
    }
    let entries = entries.join(", ");
    Some(format!(
        "this is a client's configuration (\"{key}\"), which names no transports; for upstreams write \
         {{\"upstreams\": {{{entries}}}}}; a server's headers go into \"auth\" with a credential, or into \"static_headers\""
    ))
}

/// Maximum servers of a client's configuration that the message repeats.
const CLIENT_SERVERS_SHOWN: usize = 3;

/// An entry being parsed.
pub(crate) struct ConfigEntry<'a> {
    pub document: &'a ConfigDocument,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub own: &'a [PathBuf],
    pub name: &'a str,
    pub path: Vec<String>,
    pub fields: Option<&'a Map<String, Value>>,
}

pub(crate) type ConfigResult<T> = Result<T, ConfigFault>;

impl<'a> ConfigEntry<'a> {
    fn parse(&self, warnings: &mut Vec<String>) -> ConfigResult<UpstreamConfig> {
        let Some(named) = self.get("transport") else {
            let cause = format!("requires explicit transport; use {}", transport_names());
            return Err(self.refuse(&[], &cause));
        };
        let known = |name: &str| TRANSPORTS.iter().find(|row| row.name == name);
        let Some(row) = named.as_str().and_then(known) else {
            let cause = match named.as_str() {
                Some("stdio" | "http") => {
                    format!("uses old transport {named}; use mcp_stdio or mcp_http")
                }
                _ => format!(
                    "has unsupported transport {named}; use {}",
                    transport_names()
                ),
            };
            return Err(self.refuse(&["transport"], &cause));
        };
        let transport = (row.read)(self, warnings)?;
        let known = COMMON_KEYS.iter().chain(row.keys.iter().copied().flatten());
        let known: Vec<&str> = known.copied().collect();
        for key in self.fields.into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                warnings.push(format!(
                    "upstream {}: {}",
                    self.name,
                    unknown_key(key, &known)
                ));
            }
        }
        Ok(UpstreamConfig {
            name: self.name.to_owned(),
            description: self
                .optional_text("description")?
                .unwrap_or_default()
                .to_owned(),
            capabilities: self.texts("capabilities")?.unwrap_or_default(),
            transport,
        })
    }

    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields?.get(key)
    }

    pub fn optional_text(&self, key: &str) -> ConfigResult<Option<&'a str>> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.refuse(&[key], &format!("{key} must be a string"))),
        }
    }

    pub fn texts(&self, key: &str) -> ConfigResult<Option<Vec<String>>> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => Ok(Some(
                items
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            )),
            Some(_) => Err(self.refuse(&[key], &format!("{key} must be a list of strings"))),
        }
    }

    pub fn millis(&self, key: &str, default: u64, warnings: &mut Vec<String>) -> Duration {
        Duration::from_millis(self.positive(key, default, warnings))
    }

    /// An existing configuration must keep working: an invalid number is reported and the default used.
    pub fn positive(&self, key: &str, default: u64, warnings: &mut Vec<String>) -> u64 {
        match self.get(key) {
            None => default,
            Some(value) => value
                .as_u64()
                .filter(|number| *number > 0)
                .unwrap_or_else(|| {
                    warnings.push(format!(
                        "upstream {}: {key} must be a positive integer; using {default}",
                        self.name
                    ));
                    default
                }),
        }
    }

    pub fn refuse(&self, keys: &[&str], cause: &str) -> ConfigFault {
        let mut path = self.path.clone();
        path.extend(keys.iter().map(|key| (*key).to_owned()));
        self.document
            .fault(&path, format!("upstream {} {cause}", self.name))
    }
}
