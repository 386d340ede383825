//! Upstream entries: from JSON to typed configuration, with a refusal for everything that could not work.
//! Credentials appear here by name only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ptc_secrets::{ConfigDocument, ConfigFault, Emitter, RESERVED_AUTH_HEADERS, Scheme, json_kind};
use serde_json::{Map, Value};

#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Its key under `upstreams`.
    pub name: String,
    /// Optional prose for the catalog and `(tool/servers)`.
    pub description: String,
    /// Optional words for the catalog's server line.
    pub capabilities: Vec<String>,
    /// How it is reached.
    pub transport: TransportConfig,
}

/// How an upstream is reached.
#[derive(Debug, Clone)]
pub enum TransportConfig {
    /// A child process that speaks MCP over stdin and stdout.
    McpStdio(StdioConfig),
    /// An MCP server over Streamable HTTP.
    McpHttp(HttpConfig),
    /// A JSON service described by OpenAPI.
    OpenApi(OpenApiConfig),
}

#[derive(Debug, Clone)]
pub struct StdioConfig {
    /// Absolute path, or a name looked up on `PATH`.
    pub command: String,
    pub args: Vec<String>,
    /// Added to the inherited environment; `${VAR}` is already expanded.
    pub env: BTreeMap<String, String>,
    /// Variables of the server's environment that it gets besides those that every child gets.
    pub inherit_env: Vec<String>,
    pub cd: Option<PathBuf>,
    pub handshake_timeout: Duration,
    /// Largest handshake answer, in bytes.
    pub handshake_bytes_max: usize,
}

/// What both HTTP transports share.
#[derive(Debug, Clone)]
pub struct Remote {
    /// `url` or `base_url`, checked.
    pub url: String,
    /// Auth emitters in order.
    pub auth: Vec<Emitter>,
    /// Literal headers, names in lower case.
    pub static_headers: Vec<(String, String)>,
    /// Longest that one request may take.
    pub request_timeout: Duration,
    /// Longest that connecting may take.
    pub connect_timeout: Duration,
    /// Largest answer, in bytes (handshake answers for MCP).
    pub response_bytes_max: usize,
}

/// An MCP server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Where and with which headers.
    pub remote: Remote,
    pub handshake_timeout: Duration,
}

/// A service described by OpenAPI.
#[derive(Debug, Clone)]
pub struct OpenApiConfig {
    /// Where and with which headers.
    pub remote: Remote,
    /// Where its description is.
    pub schema: SchemaSource,
    /// Largest description, in bytes.
    pub schema_bytes_max: usize,
    /// `operationId`s to expose, in order.
    pub include: Vec<String>,
    pub overrides: BTreeMap<String, OperationOverride>,
}

/// Where an OpenAPI description comes from.
#[derive(Debug, Clone)]
pub enum SchemaSource {
    /// A file; relative ones are resolved against the config's directory.
    File(PathBuf),
    /// Fetched at start, with the upstream's headers.
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

/// Keys of every entry.
const COMMON_KEYS: &[&str] = &[
    "transport",
    "description",
    "capabilities",
    "raw_envelope",
    "tools",
];
const STDIO_KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "inherit_env",
    "cd",
    "handshake_timeout_ms",
    "max_response_bytes",
];
const REMOTE_KEYS: &[&str] = &[
    "auth",
    "static_headers",
    "allow_insecure_http",
    "allow_insecure_auth",
    "request_timeout_ms",
    "connect_timeout_ms",
    "max_response_bytes",
];
const HTTP_KEYS: &[&str] = &["url", "handshake_timeout_ms"];
const OPENAPI_KEYS: &[&str] = &[
    "base_url",
    "schema_file",
    "schema_url",
    "schema_max_bytes",
    "include_operations",
    "operation_overrides",
];

/// A transport: its name, its keys besides the common ones, and how an entry is read.
struct TransportRow {
    name: &'static str,
    keys: &'static [&'static [&'static str]],
    read: fn(&Entry<'_>, &mut Vec<String>) -> ConfigResult<TransportConfig>,
}

const TRANSPORTS: &[TransportRow] = &[
    TransportRow {
        name: "mcp_stdio",
        keys: &[STDIO_KEYS],
        read: |entry, warnings| entry.stdio(warnings).map(TransportConfig::McpStdio),
    },
    TransportRow {
        name: "mcp_http",
        keys: &[REMOTE_KEYS, HTTP_KEYS],
        read: |entry, warnings| entry.http(warnings).map(TransportConfig::McpHttp),
    },
    TransportRow {
        name: "openapi",
        keys: &[REMOTE_KEYS, OPENAPI_KEYS],
        read: |entry, warnings| entry.openapi(warnings).map(TransportConfig::OpenApi),
    },
];

/// `mcp_stdio, mcp_http or openapi`
fn transport_names() -> String {
    let names: Vec<&str> = TRANSPORTS.iter().map(|row| row.name).collect();
    let (last, others) = names.split_last().expect("there are transports");
    format!("{} or {last}", others.join(", "))
}

/// Names that `static_headers` may not set: secrets belong into `auth`, the last three belong to the client.
const RESERVED_STATIC_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "mcp-protocol-version",
    "mcp-session-id",
    "user-agent",
];

const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;
const REQUEST_TIMEOUT_MS: u64 = 30_000;
const CONNECT_TIMEOUT_MS: u64 = 5_000;
const RESPONSE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Reads every entry, in name order; the first refusal wins. `own` are paths of the running program: an stdio command that
/// resolves to one of them is refused. Things that are odd but harmless are pushed to `warnings`.
pub fn parse_entries(
    document: &ConfigDocument,
    env: &dyn Fn(&str) -> Option<String>,
    own: &[PathBuf],
    warnings: &mut Vec<String>,
) -> Result<Vec<UpstreamConfig>, ConfigFault> {
    let place = vec!["upstreams".to_owned()];
    let entries = match document.root.get("upstreams") {
        Some(Value::Object(entries)) => entries,
        Some(other) => {
            return Err(document.fault(
                &place,
                format!("upstreams must be an object, got {}", json_kind(other)),
            ));
        }
        None => {
            let message = match clients_words(&document.root) {
                Some(words) => words,
                None => "upstreams must be an object: the key is missing".into(),
            };
            return Err(document.fault(&[], message));
        }
    };
    let mut names: Vec<&String> = entries.keys().collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let path = vec!["upstreams".to_owned(), name.clone()];
            Entry {
                document,
                env,
                own,
                name,
                path,
                fields: entries[name].as_object(),
            }
            .parse(warnings)
        })
        .collect()
}

/// Keys under which clients keep the servers that they start.
const CLIENT_KEYS: &[&str] = &["mcpServers", "servers", "context_servers"];

/// What to write instead of a client's configuration: its servers as upstreams, by their keys. No value is shown: some are
/// credentials.
fn clients_words(root: &Map<String, Value>) -> Option<String> {
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

/// Servers of a client's configuration that the message about it repeats.
const CLIENT_SERVERS_SHOWN: usize = 3;

struct Entry<'a> {
    document: &'a ConfigDocument,
    env: &'a dyn Fn(&str) -> Option<String>,
    own: &'a [PathBuf],
    name: &'a str,
    path: Vec<String>,
    fields: Option<&'a Map<String, Value>>,
}

type ConfigResult<T> = Result<T, ConfigFault>;

impl<'a> Entry<'a> {
    fn parse(&self, warnings: &mut Vec<String>) -> ConfigResult<UpstreamConfig> {
        let Some(named) = self.get("transport") else {
            let words = format!("requires explicit transport; use {}", transport_names());
            return Err(self.refuse(&[], &words));
        };
        let known = |name: &str| TRANSPORTS.iter().find(|row| row.name == name);
        let Some(row) = named.as_str().and_then(known) else {
            let words = match named.as_str() {
                Some("stdio" | "http") => {
                    format!("uses old transport {named}; use mcp_stdio or mcp_http")
                }
                _ => format!(
                    "has unsupported transport {named}; use {}",
                    transport_names()
                ),
            };
            return Err(self.refuse(&["transport"], &words));
        };
        let transport = (row.read)(self, warnings)?;
        for key in self.fields.into_iter().flat_map(Map::keys) {
            if !COMMON_KEYS.contains(&key.as_str())
                && !row.keys.iter().any(|keys| keys.contains(&key.as_str()))
            {
                warnings.push(format!(
                    "upstream {}: key \"{key}\" is unknown and ignored",
                    self.name
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

    fn stdio(&self, warnings: &mut Vec<String>) -> ConfigResult<StdioConfig> {
        let command = match self.get("command") {
            Some(Value::String(command)) if !command.is_empty() => command.clone(),
            Some(_) => {
                return Err(self.refuse(&["command"], "requires command, a non-empty string"));
            }
            None => return Err(self.refuse(&[], "requires command")),
        };
        self.refuse_self(&command)?;
        let args = match self.get("args") {
            None => Vec::new(),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(_) => return Err(self.refuse(&["args"], "args must be a list of strings")),
        };
        let mut env = BTreeMap::new();
        match self.get("env") {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (key, value) in entries {
                    env.insert(key.clone(), self.env_value(key, value)?);
                }
            }
            Some(_) => return Err(self.refuse(&["env"], "env must be an object")),
        }
        let inherit_env = self.inherit_env(warnings)?;
        let cd = match self.get("cd") {
            None | Some(Value::Null) => None,
            Some(Value::String(cd)) if Path::new(cd).is_dir() => Some(PathBuf::from(cd)),
            Some(Value::String(cd)) => {
                return Err(self.refuse(&["cd"], &format!("cd is not a directory: {cd}")));
            }
            Some(_) => return Err(self.refuse(&["cd"], "cd must be a string")),
        };
        Ok(StdioConfig {
            command,
            args,
            env,
            inherit_env,
            cd,
            handshake_timeout: self.millis("handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS, warnings),
            handshake_bytes_max: self.positive("max_response_bytes", RESPONSE_BYTES_MAX, warnings)
                as usize,
        })
    }

    /// Names of variables. One that is not set is no mistake that stops a start: the child would do without it elsewhere, too.
    fn inherit_env(&self, warnings: &mut Vec<String>) -> ConfigResult<Vec<String>> {
        let names = self.texts("inherit_env")?.unwrap_or_default();
        for (index, name) in names.iter().enumerate() {
            if !is_variable(name) {
                let words = format!(
                    "inherit_env {name:?} is not the name of a variable; a value is set by env"
                );
                return Err(self.refuse(&["inherit_env", &index.to_string()], &words));
            }
            if (self.env)(name).is_none() {
                warnings.push(format!(
                    "upstream {}: inherit_env {name} is not set",
                    self.name
                ));
            }
        }
        Ok(names)
    }

    /// Self-as-upstream: the command is this very program, or the server that it stands in for.
    fn refuse_self(&self, command: &str) -> ConfigResult<()> {
        let resolved = find_command(command, self.env);
        let is_own = resolved
            .as_deref()
            .and_then(|path| path.canonicalize().ok())
            .is_some_and(|path| {
                self.own
                    .iter()
                    .any(|own| own.canonicalize().is_ok_and(|own| own == path))
            });
        if is_own
            || Path::new(command)
                .file_name()
                .is_some_and(|name| name == "ptc_runner_mcp")
        {
            let words =
                format!("self-as-upstream rejected: command {command} is this server itself");
            return Err(self.refuse(&["command"], &words));
        }
        Ok(())
    }

    /// Scalars become text; every `${NAME}` in a string is replaced from the parent's environment.
    fn env_value(&self, key: &str, value: &Value) -> ConfigResult<String> {
        let text = match value {
            Value::String(text) => text,
            Value::Null => return Ok(String::new()),
            Value::Bool(_) | Value::Number(_) => return Ok(value.to_string()),
            _ => {
                return Err(self.refuse(
                    &["env", key],
                    &format!("env {key} must be a scalar, got {}", json_kind(value)),
                ));
            }
        };
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(open) = rest.find("${") {
            out.push_str(&rest[..open]);
            let name = rest[open + 2..]
                .split_once('}')
                .map(|(name, _)| name)
                .filter(|name| is_variable(name));
            match name {
                Some(name) => {
                    let value = (self.env)(name).ok_or_else(|| {
                        let words =
                            format!("env var {name} is not set (referenced as ${{{name}}})");
                        self.refuse(&["env", key], &words)
                    })?;
                    out.push_str(&value);
                    rest = &rest[open + 2 + name.len() + 1..];
                }
                None => {
                    out.push_str("${");
                    rest = &rest[open + 2..];
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn http(&self, warnings: &mut Vec<String>) -> ConfigResult<HttpConfig> {
        Ok(HttpConfig {
            remote: self.remote("url", warnings)?,
            handshake_timeout: self.millis("handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS, warnings),
        })
    }

    fn remote(&self, url_key: &str, warnings: &mut Vec<String>) -> ConfigResult<Remote> {
        let auth = self.auth()?;
        let url = self
            .url(url_key)?
            .ok_or_else(|| self.refuse(&[], &format!("requires {url_key}")))?;
        self.gate_insecure(url_key, &url, &auth)?;
        let static_headers = self.static_headers()?;
        for emitter in &auth {
            let Scheme::CustomHeader(header) = &emitter.scheme else {
                continue;
            };
            if static_headers
                .iter()
                .any(|(name, _)| name == header.as_str())
            {
                let words =
                    format!("configures header \"{header}\" in both auth and static_headers");
                return Err(self.refuse(&["static_headers"], &words));
            }
        }
        Ok(Remote {
            url,
            auth,
            static_headers,
            request_timeout: self.millis("request_timeout_ms", REQUEST_TIMEOUT_MS, warnings),
            connect_timeout: self.millis("connect_timeout_ms", CONNECT_TIMEOUT_MS, warnings),
            response_bytes_max: self.positive("max_response_bytes", RESPONSE_BYTES_MAX, warnings)
                as usize,
        })
    }

    /// Plain HTTP needs one opt-in, and auth over it a second.
    fn gate_insecure(&self, key: &str, url: &str, auth: &[Emitter]) -> ConfigResult<()> {
        if !url.starts_with("http://") {
            return Ok(());
        }
        let allowed = |flag| self.get(flag) == Some(&Value::Bool(true));
        if !allowed("allow_insecure_http") {
            return Err(self.refuse(
                &[key],
                &format!("{key} \"{url}\" uses http:// without allow_insecure_http"),
            ));
        }
        if !auth.is_empty() && !allowed("allow_insecure_auth") {
            return Err(self.refuse(
                &[key],
                "uses http:// with auth but allow_insecure_auth is not true",
            ));
        }
        Ok(())
    }

    /// A URL with an http scheme (in lower case afterwards) and a host.
    fn url(&self, key: &str) -> ConfigResult<Option<String>> {
        let text = match self.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => return Err(self.refuse(&[key], &format!("{key} must be a string"))),
        };
        let malformed = || self.refuse(&[key], &format!("has malformed {key} \"{text}\""));
        let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(malformed());
        }
        if scheme != "http" && scheme != "https" {
            return Err(self.refuse(
                &[key],
                &format!("{key} \"{text}\" has unsupported URL scheme \"{scheme}\""),
            ));
        }
        if authority.contains('@') {
            return Err(self.refuse(
                &[key],
                &format!("{key} carries credentials in the URL; use auth"),
            ));
        }
        Ok(Some(format!("{scheme}://{rest}")))
    }

    fn auth(&self) -> ConfigResult<Vec<Emitter>> {
        let items = match self.get("auth") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.refuse(&["auth"], "auth must be a list")),
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| self.emitter(&index.to_string(), item))
            .collect()
    }

    fn emitter(&self, index: &str, item: &Value) -> ConfigResult<Emitter> {
        let invalid = |key: Option<&str>, cause: &str| {
            let path: Vec<&str> = ["auth", index].into_iter().chain(key).collect();
            self.refuse(&path, &format!("has invalid auth emitter: {cause}"))
        };
        let field = |key| {
            item.get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let scheme = field("scheme").ok_or_else(|| {
            invalid(
                None,
                "`scheme` is missing; use bearer, basic or custom_header",
            )
        })?;
        let binding = field("binding").ok_or_else(|| invalid(None, "`binding` is missing"))?;
        let scheme = match scheme {
            "bearer" => Scheme::Bearer,
            "basic" => Scheme::Basic,
            "custom_header" | "api_key" => {
                let header =
                    field("header").ok_or_else(|| invalid(None, "custom_header needs `header`"))?;
                let name = header.parse::<http::HeaderName>().map_err(|_| {
                    self.refuse(
                        &["auth", index, "header"],
                        &format!("auth header \"{header}\" is invalid"),
                    )
                })?;
                if RESERVED_AUTH_HEADERS.contains(&name.as_str()) {
                    let words = format!("auth header \"{header}\" is reserved");
                    return Err(self.refuse(&["auth", index, "header"], &words));
                }
                Scheme::CustomHeader(name)
            }
            other => {
                let cause =
                    format!("unknown scheme \"{other}\"; use bearer, basic or custom_header");
                return Err(invalid(Some("scheme"), &cause));
            }
        };
        if self.document.credentials.get(binding).is_none() {
            let words = format!("references unknown credential binding {binding}");
            return Err(self.refuse(&["auth", index, "binding"], &words));
        }
        Ok(Emitter {
            scheme,
            binding: binding.to_owned(),
        })
    }

    fn static_headers(&self) -> ConfigResult<Vec<(String, String)>> {
        let entries = match self.get("static_headers") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                return Err(self.refuse(&["static_headers"], "static_headers must be an object"));
            }
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        for (header, value) in entries {
            let refuse = |cause: &str| {
                self.refuse(
                    &["static_headers", header],
                    &format!("static_headers {cause}"),
                )
            };
            let name = header
                .parse::<http::HeaderName>()
                .map_err(|_| refuse(&format!("header \"{header}\" is invalid")))?;
            if RESERVED_STATIC_HEADERS.contains(&name.as_str()) {
                return Err(refuse(&format!("header \"{header}\" is reserved")));
            }
            let Value::String(value) = value else {
                return Err(refuse(&format!("\"{header}\" value must be a string")));
            };
            if http::HeaderValue::from_str(value).is_err() {
                return Err(refuse(&format!(
                    "\"{header}\" value contains characters that a header cannot carry"
                )));
            }
            if headers.iter().any(|(seen, _)| seen == name.as_str()) {
                return Err(refuse(&format!("duplicate header \"{header}\"")));
            }
            headers.push((name.as_str().to_owned(), value.clone()));
        }
        Ok(headers)
    }

    fn openapi(&self, warnings: &mut Vec<String>) -> ConfigResult<OpenApiConfig> {
        let remote = self.remote("base_url", warnings)?;
        let file = self.optional_text("schema_file")?;
        let url = self.url("schema_url")?;
        let schema = match (file, url) {
            (Some(file), None) => {
                let base = self.document.path().parent().unwrap_or(Path::new("."));
                SchemaSource::File(base.join(file))
            }
            (None, Some(url)) => {
                self.gate_insecure("schema_url", &url, &remote.auth)?;
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

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields?.get(key)
    }

    fn optional_text(&self, key: &str) -> ConfigResult<Option<&'a str>> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.refuse(&[key], &format!("{key} must be a string"))),
        }
    }

    fn texts(&self, key: &str) -> ConfigResult<Option<Vec<String>>> {
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

    fn millis(&self, key: &str, default: u64, warnings: &mut Vec<String>) -> Duration {
        Duration::from_millis(self.positive(key, default, warnings))
    }

    /// An existing configuration must go on working: a number that makes no sense is reported and the default used.
    fn positive(&self, key: &str, default: u64, warnings: &mut Vec<String>) -> u64 {
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

    fn refuse(&self, keys: &[&str], cause: &str) -> ConfigFault {
        let mut path = self.path.clone();
        path.extend(keys.iter().map(|key| (*key).to_owned()));
        self.document
            .fault(&path, format!("upstream {} {cause}", self.name))
    }
}

/// Where a command is: itself when it has a slash, otherwise the first executable file of that name on `PATH`.
pub(crate) fn find_command(command: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if command.contains('/') {
        return Path::new(command).is_file().then(|| PathBuf::from(command));
    }
    let path = env("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(command))
        .find(|candidate| candidate.is_file())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
