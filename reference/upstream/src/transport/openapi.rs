//! OpenAPI upstreams: the description is loaded and compiled once, then each included GET operation is a tool.

#[cfg(feature = "checks")]
pub(crate) mod check;
mod compile;
mod config;
mod names;
mod path;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderMap, StatusCode};
use ptc_rpc::{Json, JsonKind, JsonText};
use ptc_secrets::{AuthHeaders, Emitter, FileError, Redactor};

use super::http_client::{HttpClient, read_body, set_trace, status_fault, with_timeout};
use super::{
    Answer, BoxFuture, CallLimits, Outgoing, Transport, TransportConfig, TransportContext,
    TransportRow,
};
use crate::arguments::members_by_name;
use crate::config::REMOTE_KEYS;
use crate::fault::{QuotedText, Reason, WorldFault};
use crate::limits::{CLAIM_BYTES_MAX, URL_BYTES_MAX};
use crate::runtime::Platform;
use crate::tool::RawTool;
use compile::Operation;
use config::{OpenApiConfig, SchemaSource};
pub(crate) use path::PathArgumentFault;

/// Maximum characters of an error body that a message shows.
const ERROR_CHARS_MAX: usize = 500;
/// Maximum bytes of an error body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

struct Service {
    config: OpenApiConfig,
    auth: AuthHeaders,
    redactor: Redactor,
    platform: Platform,
    loaded: RwLock<Option<Arc<Loaded>>>,
}

struct Loaded {
    client: HttpClient,
    operations: HashMap<String, Operation>,
}

pub(super) const ROW: TransportRow = TransportRow {
    name: "openapi",
    keys: &[REMOTE_KEYS, config::KEYS],
    read: |entry, warnings| Ok(Box::new(entry.openapi(warnings)?)),
};

impl TransportConfig for OpenApiConfig {
    fn auth(&self) -> &[Emitter] {
        &self.remote.auth
    }

    fn transport(&self, setting: TransportContext) -> Arc<dyn Transport> {
        Arc::new(Service {
            config: self.clone(),
            auth: setting.auth,
            redactor: setting.redactor,
            platform: setting.platform,
            loaded: RwLock::new(None),
        })
    }
}

impl Transport for Service {
    fn loads_at_start(&self) -> bool {
        true
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<RawTool>, WorldFault>> {
        Box::pin(self.load())
    }

    fn call<'a>(
        &'a self,
        call: Outgoing<'a>,
        limits: CallLimits,
    ) -> BoxFuture<'a, Result<Answer, WorldFault>> {
        Box::pin(self.get(call, limits))
    }

    fn check_arguments(&self, tool: &str, arguments: &str) -> Result<(), PathArgumentFault> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let operation = loaded
            .as_ref()
            .and_then(|loaded| loaded.operations.get(tool));
        let (Some(operation), Ok(arguments)) = (operation, ptc_rpc::parse(arguments.as_bytes()))
        else {
            return Ok(());
        };
        match address(&self.config.remote.url, operation, arguments) {
            Err(AddressError::Refused(why)) => Err(why),
            Ok(_) | Err(AddressError::Fault(_)) => Ok(()),
        }
    }
}

impl Service {
    /// Reads and compiles the description.
    async fn load(&self) -> Result<Vec<RawTool>, WorldFault> {
        let remote = &self.config.remote;
        let client = |url| HttpClient::new(remote, url, &self.auth, &self.platform);
        let text = match &self.config.schema {
            SchemaSource::File(path) => read_schema(path, self.config.schema_bytes_max)?,
            SchemaSource::Url(url) => {
                // The description may be on another host, for which other proxy settings and certificates apply.
                let fetched = self.fetch_schema(client(url)?, url);
                with_timeout(remote.request_timeout, fetched).await?
            }
        };
        let (tools, operations) = compile::compile(&text, &self.config, &self.redactor)
            .map_err(|error| WorldFault::unavailable(error.to_string()))?;
        let client = client(&remote.url)?;
        let loaded = Arc::new(Loaded { client, operations });
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(loaded);
        Ok(tools)
    }

    async fn get(&self, call: Outgoing<'_>, limits: CallLimits) -> Result<Answer, WorldFault> {
        let loaded = self
            .loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let loaded = loaded.ok_or_else(|| WorldFault::unavailable("schema is not loaded"))?;
        let operation = loaded
            .operations
            .get(&call.tool.name)
            .ok_or_else(|| WorldFault::error("operation is not compiled"))?;
        let arguments = ptc_rpc::parse(call.arguments.as_bytes())
            .map_err(|_| WorldFault::error("arguments are not JSON"))?;
        let url = address(&self.config.remote.url, operation, arguments)
            .map_err(AddressError::into_fault)?;
        let limit = limits.remaining().min(self.config.remote.request_timeout);
        let cap = limits.bytes_max.min(self.config.remote.response_bytes_max);
        let mut extra = HeaderMap::new();
        set_trace(&mut extra, call.trace);
        with_timeout(limit, answer(&loaded.client, &url, extra, cap)).await
    }

    async fn fetch_schema(&self, client: HttpClient, url: &str) -> Result<Vec<u8>, WorldFault> {
        let response = client.get(url, HeaderMap::new()).await?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(WorldFault::unavailable(format!(
                "schema_url returned http {status}"
            )));
        }
        read_body(response, "schema response", self.config.schema_bytes_max).await
    }
}

fn read_schema(path: &std::path::Path, cap: usize) -> Result<Vec<u8>, WorldFault> {
    let read = ptc_secrets::read_file(path, cap as u64);
    let mut bytes = read.map_err(|unread| {
        let words = match unread {
            FileError::TooLong { .. } => "schema exceeds byte cap".to_owned(),
            other => other.to_string(),
        };
        WorldFault::unavailable(format!("schema_file: {words}"))
    })?;
    Ok(std::mem::take(&mut *bytes))
}

async fn answer(
    client: &HttpClient,
    url: &str,
    extra: HeaderMap,
    cap: usize,
) -> Result<Answer, WorldFault> {
    let response = client.get(url, extra).await?;
    let status = response.status();
    if status.is_success() {
        let bytes = read_body(response, "response", cap).await?;
        if status == StatusCode::NO_CONTENT || bytes.is_empty() {
            return Ok(Answer::None);
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return Err(WorldFault::error("malformed JSON response: not UTF-8"));
        };
        return JsonText::read(text).map(Answer::Json).map_err(|error| {
            WorldFault::error(format!(
                "malformed JSON response: not JSON at byte {}",
                error.offset
            ))
        });
    }
    let mut fault = status_fault(&response);
    let has_error_body = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::TOO_MANY_REQUESTS
    );
    if has_error_body {
        // Without the body of an oversize error the status still determines the fault.
        let bytes = read_body(response, "error", ERROR_BYTES_MAX)
            .await
            .unwrap_or_default();
        if status != StatusCode::TOO_MANY_REQUESTS {
            fault.reason = Reason::ToolError;
            fault.bytes = Some(bytes.len() as u64);
        }
        let text = String::from_utf8_lossy(&bytes);
        if !text.is_empty() {
            fault.message.clear();
            fault.quoted = Some(QuotedText {
                text: text.into_owned(),
                is_json: false,
                chars_max: ERROR_CHARS_MAX,
            });
        }
    }
    Err(fault)
}

/// Why arguments give no address.
#[derive(Debug)]
enum AddressError {
    /// They would lead out of the operation: the program's fault.
    Refused(PathArgumentFault),
    /// They have a form that operations can't take.
    Fault(WorldFault),
}

impl AddressError {
    fn into_fault(self) -> WorldFault {
        match self {
            Self::Refused(why) => WorldFault::error(why.to_string()),
            Self::Fault(fault) => fault,
        }
    }
}

impl From<PathArgumentFault> for AddressError {
    fn from(why: PathArgumentFault) -> Self {
        Self::Refused(why)
    }
}

impl From<WorldFault> for AddressError {
    fn from(fault: WorldFault) -> Self {
        Self::Fault(fault)
    }
}

/// The request's URL: path and query filled in from arguments, or from defaults where an argument is missing.
fn address(base: &str, operation: &Operation, arguments: Json<'_>) -> Result<String, AddressError> {
    let base = base
        .split(['?', '#'])
        .next()
        .unwrap_or(base)
        .trim_end_matches('/');
    let arguments = members_by_name(arguments);
    let text_of = |place: &str, name: &str, value: Json<'_>| match value.text().len() {
        // Checked before decoding, with room to spare: JSON escapes and URL escapes differ in length.
        bytes if bytes > 2 * URL_BYTES_MAX => Err(too_long()),
        _ => scalar(value).ok_or_else(|| unsupported(place, name)),
    };
    let mut filled_in = 0;
    let filled = operation.path.fill(|name| {
        let text = match (arguments.get(name), operation.defaults.get(name)) {
            (Some(value), _) => text_of("path", name, *value)?,
            (None, Some(default)) => default.clone().unwrap_or_default(),
            (None, None) => String::new(),
        };
        // A description may name one parameter any number of times.
        filled_in += text.len();
        match filled_in > URL_BYTES_MAX {
            true => Err(AddressError::from(too_long())),
            false => Ok(text),
        }
    })?;
    // The description's author also chooses what is searched for in the path.
    if filled.path.len() > URL_BYTES_MAX {
        return Err(too_long().into());
    }
    let mut left = CLAIM_BYTES_MAX;
    for other in operation.excluded.iter() {
        let fault = match other.also_routes(&filled, &operation.path, &mut left) {
            Some(false) => continue,
            Some(true) => PathArgumentFault::Excluded(other.text.clone()),
            None => PathArgumentFault::TooLong {
                operations: operation.excluded.len(),
            },
        };
        return Err(fault.into());
    }
    if !is_plain(&filled.path) {
        return Err(PathArgumentFault::OtherPath.into());
    }
    // Arguments in the path are encoded, so a `?` in it begins the description's own query.
    let mut separator = if filled.path.contains('?') { '&' } else { '?' };
    let mut url = format!("{base}{}", filled.path);
    for name in &operation.query {
        let text = match (arguments.get(name.as_str()), operation.defaults.get(name)) {
            (Some(value), _) if value.is_null() => return Err(unsupported("query", name).into()),
            (Some(value), _) => text_of("query", name, *value)?,
            (None, Some(default)) => default.clone().ok_or_else(|| unsupported("query", name))?,
            (None, None) => continue,
        };
        url.push(separator);
        url.push_str(&form(name));
        url.push('=');
        url.push_str(&form(&text));
        separator = '&';
        if url.len() > URL_BYTES_MAX {
            break;
        }
    }
    match url.len() > URL_BYTES_MAX {
        true => Err(too_long().into()),
        false => Ok(url),
    }
}

fn too_long() -> WorldFault {
    WorldFault::error(format!("request URL exceeds {URL_BYTES_MAX} bytes"))
}

fn unsupported(place: &str, name: &str) -> WorldFault {
    WorldFault::error(format!(
        "unsupported {place} arg '{name}': OpenAPI v1 supports scalar {place} values only"
    ))
}

/// The text of a scalar; empty for null.
fn scalar(value: Json<'_>) -> Option<String> {
    match value.kind() {
        JsonKind::Null => Some(String::new()),
        JsonKind::String => value.as_str().map(|text| text.into_owned()),
        JsonKind::Array | JsonKind::Object => None,
        _ => Some(value.compact().into()),
    }
}

/// Whether a URL parser reads the path exactly as written: the same segments, none resolved away, no characters skipped, and no
/// fragment, which would never be sent.
fn is_plain(path: &str) -> bool {
    if path.contains(|c: char| c == '#' || c.is_control()) {
        return false;
    }
    let written = path.split('?').next().unwrap_or(path);
    // Read as a slash, it would make up for a segment that is resolved away.
    if written.contains('\\') {
        return false;
    }
    // Enclosed in extra segments, since dots in the first or last segment would not change the number of segments.
    let written = format!("/first{written}/last");
    let url = reqwest::Url::parse(&format!("http://host{written}"));
    url.is_ok_and(|url| url.path().split('/').count() == written.split('/').count())
}

/// Percent-encodes all but unreserved characters, and a blank as `+`: for queries.
fn form(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

const _: () = assert!(ERROR_CHARS_MAX < ERROR_BYTES_MAX);
