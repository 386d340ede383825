//! The keys of a service described by OpenAPI. Reads no description.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptc_protocol::limits::upstream_entry::RESPONSE_BYTES_MAX;
use serde_json::{Map, Value};

use crate::config::{ConfigEntry, ConfigResult, RemoteConfig};

#[derive(Debug, Clone)]
pub struct OpenApiConfig {
    /// The URL and the headers.
    pub remote: RemoteConfig,
    /// Where its description is.
    pub schema: SchemaSource,
    /// Maximum bytes of the description.
    pub schema_bytes_max: usize,
    /// The `operationId`s to expose, in order.
    pub include: Vec<String>,
    pub overrides: BTreeMap<String, OperationOverride>,
}

/// Where an OpenAPI description comes from.
#[derive(Debug, Clone)]
pub enum SchemaSource {
    /// A file; a relative path is resolved against the config's directory.
    File(PathBuf),
    /// Fetched at start-up, with the upstream's headers.
    Url(String),
}

/// `operation_overrides.ID`.
#[derive(Debug, Clone, Default)]
pub struct OperationOverride {
    /// Replaces the tool's name.
    pub name: Option<String>,
    /// Replaces the tool's description.
    pub description: Option<String>,
    /// Replaces `x-ptc-default-args`, even when empty.
    pub default_args: Option<Map<String, Value>>,
}

pub(super) const KEYS: &[&str] = &[
    "base_url",
    "schema_file",
    "schema_url",
    "schema_max_bytes",
    "include_operations",
    "operation_overrides",
];

impl ConfigEntry<'_> {
    pub fn openapi(&self, warnings: &mut Vec<String>) -> ConfigResult<OpenApiConfig> {
        let remote = self.remote("base_url", warnings)?;
        let file = self.optional_text("schema_file")?;
        let url = self.url("schema_url")?;
        let schema = match (file, url) {
            (Some(file), None) => {
                let base = self.document.path().parent().unwrap_or(Path::new("."));
                SchemaSource::File(base.join(file))
            }
            (None, Some(url)) => {
                self.check_insecure_http("schema_url", &url, &remote.auth)?;
                SchemaSource::Url(url)
            }
            _ => return Err(self.refuse(&[], "must set exactly one of schema_file or schema_url")),
        };
        let include = self
            .texts("include_operations")
            .ok()
            .flatten()
            .filter(|ids| !ids.is_empty());
        let include = include.ok_or_else(|| {
            let at: &[&str] = if self.get("include_operations").is_some() {
                &["include_operations"]
            } else {
                &[]
            };
            self.refuse(
                at,
                "requires non-empty include_operations, a list of operationIds",
            )
        })?;
        Ok(OpenApiConfig {
            remote,
            schema,
            schema_bytes_max: self.positive("schema_max_bytes", RESPONSE_BYTES_MAX, warnings)
                as usize,
            include,
            overrides: self.overrides(warnings)?,
        })
    }

    fn overrides(
        &self,
        warnings: &mut Vec<String>,
    ) -> ConfigResult<BTreeMap<String, OperationOverride>> {
        let entries = match self.get("operation_overrides") {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                return Err(self.refuse(
                    &["operation_overrides"],
                    "operation_overrides must be an object",
                ));
            }
        };
        let mut overrides = BTreeMap::new();
        for (id, entry) in entries {
            let refuse = |key: Option<&str>, cause: String| {
                let path: Vec<&str> = ["operation_overrides", id.as_str()]
                    .into_iter()
                    .chain(key)
                    .collect();
                self.refuse(&path, &format!("operation_overrides {id}{cause}"))
            };
            let Value::Object(fields) = entry else {
                return Err(refuse(None, " must be an object".into()));
            };
            let text = |key: &str| match fields.get(key) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(refuse(Some(key), format!(" {key} must be a string"))),
            };
            let default_args = match fields.get("default_args") {
                None => None,
                Some(Value::Object(args)) => Some(args.clone()),
                Some(_) => {
                    return Err(refuse(
                        Some("default_args"),
                        " default_args must be an object".into(),
                    ));
                }
            };
            if !self
                .texts("include_operations")
                .ok()
                .flatten()
                .is_some_and(|ids| ids.contains(id))
            {
                warnings.push(format!(
                    "upstream {}: operation_overrides names {id}, which is not included",
                    self.name
                ));
            }
            let over = OperationOverride {
                name: text("name")?,
                description: text("description")?,
                default_args,
            };
            overrides.insert(id.clone(), over);
        }
        Ok(overrides)
    }
}
