//! Inspects every message of a server, whatever case it belongs to, and records what is wrong with it.
//! Knows JSON-RPC and the shapes of MCP's results; knows nothing of cases or transports.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jsonschema::Validator;
use serde_json::Value;

use super::shapes;
use crate::json;
use crate::target::sse::Event;

/// Number of findings of each kind that are kept.
const KEPT_MAX: usize = 5;
/// Longest excerpt of a message in a finding, in characters.
const QUOTE_CHARS_MAX: usize = 160;
/// The range of error codes that is reserved for the specification (2026-07-28, Error Codes).
const RESERVED_CODES: std::ops::RangeInclusive<i64> = -32099..=-32020;
/// The codes in that range that it defines.
const DEFINED_CODES: &[i64] = &[-32020, -32021, -32022];
/// Codes of earlier revisions that it has withdrawn.
const WITHDRAWN_CODES: &[i64] = &[-32002, -32042];
/// Methods whose results carry caching hints (2026-07-28, Caching).
const CACHEABLE: &[&str] = &[
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];
/// Methods whose results may request input first (2026-07-28, Multi Round-Trip Requests).
const INPUT_METHODS: &[&str] = &["tools/call", "prompts/get", "resources/read"];

/// The inputs that such a result may request, with the client capability that each needs (2026-07-28, Multi Round-Trip Requests).
const INPUT_REQUESTS: &[(&str, &str)] = &[
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// The answer to one of our requests.
    Response,
    /// A request by the server.
    Request,
    /// A notification by the server.
    Notification,
}

/// A request that the harness sent.
#[derive(Debug, Clone)]
pub struct SentRequest {
    pub method: String,
    /// The tool that it calls.
    pub tool: Option<String>,
    /// Its progress token, as JSON text.
    pub token: Option<String>,
    /// Whether it uses the stateless revision.
    pub stateless: bool,
    /// The capabilities that it declares itself, as requests of that revision do.
    pub declares: Vec<String>,
    /// Whether it asks for a page after the first.
    pub has_cursor: bool,
    /// Whether it has been answered.
    pub answered: bool,
}

/// The requests of one connection, by id as JSON text, and their progress.
#[derive(Debug, Default)]
pub struct SentRequests {
    asked: HashMap<String, SentRequest>,
    /// Ids in the order of the requests.
    order: Vec<String>,
    /// The part already sent of a line that is not complete yet.
    partial_line: Vec<u8>,
    progress: HashMap<String, f64>,
    /// Ids of the events in the session's streams.
    events: HashSet<String>,
    /// The cache scope of the last page of a list, by its method.
    scopes: HashMap<String, Value>,
    /// The capabilities that the client declared.
    declared: Vec<String>,
    /// Whether `notifications/initialized` was sent.
    initialized: bool,
}

/// The findings so far.
#[derive(Debug, Default)]
pub struct Findings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    found: BTreeMap<String, Vec<String>>,
    logging: Option<bool>,
    resources: Option<bool>,
    outputs: HashMap<String, Validator>,
    mirrored: HashMap<String, Vec<(String, String)>>,
}

impl SentRequests {
    /// Records what is sent, line by line.
    pub fn record_sent(&mut self, bytes: &[u8]) {
        self.partial_line.extend_from_slice(bytes);
        while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial_line.drain(..=end).collect();
            let Ok(message) = serde_json::from_slice::<Value>(&line) else {
                continue;
            };
            let several = message.as_array().cloned();
            for message in several.unwrap_or_else(|| vec![message]) {
                self.record_message(&message);
            }
        }
    }

    fn record_message(&mut self, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if method == Some("notifications/initialized") {
            self.initialized = true;
        }
        let (Some(method), Some(id)) = (method, message.get("id")) else {
            return;
        };
        if let Some(declared) = message
            .pointer("/params/capabilities")
            .and_then(Value::as_object)
        {
            self.declared = declared.keys().cloned().collect();
        }
        let at = |path: &str| message.pointer(path);
        let token = at("/params/_meta/progressToken").map(Value::to_string);
        let revision = at("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        let declares = at("/params/_meta/io.modelcontextprotocol~1clientCapabilities");
        let declares = declares.and_then(Value::as_object);
        let asked = SentRequest {
            method: method.to_owned(),
            tool: at("/params/name")
                .and_then(Value::as_str)
                .map(str::to_owned),
            token,
            stateless: revision.is_some(),
            declares: declares
                .map(|all| all.keys().cloned().collect())
                .unwrap_or_default(),
            has_cursor: at("/params/cursor").is_some(),
            answered: false,
        };
        self.order.push(id.to_string());
        self.asked.insert(id.to_string(), asked);
    }

    /// The number of requests so far.
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Whether a request with this id was sent after the first `before` requests.
    pub fn contains_since(&self, before: usize, id: &Value) -> bool {
        let id = id.to_string();
        self.order.iter().skip(before).any(|asked| *asked == id)
    }

    /// Whether a request with this id was sent on this connection.
    pub fn contains(&self, id: &Value) -> bool {
        self.asked.contains_key(&id.to_string())
    }
}

impl Findings {
    /// Adds a finding.
    pub fn add(&self, word: &str, what: &str) {
        let mut state = self.lock();
        let found = state.found.entry(word.to_owned()).or_default();
        let what = cut(what);
        if found.len() < KEPT_MAX && !found.contains(&what) {
            found.push(what);
        }
    }

    /// The findings of one kind.
    pub fn of_kind(&self, word: &str) -> Vec<String> {
        self.lock().found.get(word).cloned().unwrap_or_default()
    }

    /// Whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.lock().found.is_empty()
    }

    /// Sets whether the server declares `logging`.
    pub fn set_declares_logging(&self, declared: bool) {
        self.lock().logging = Some(declared);
    }

    /// Sets whether the server declares `resources`.
    pub fn set_declares_resources(&self, declared: bool) {
        self.lock().resources = Some(declared);
    }

    /// Inspects an event stream that answered a request within a session.
    pub fn inspect_stream(&self, events: &[Event], requests: &mut SentRequests) {
        let primes = |event: &Event| {
            let empty = event.data.as_deref().unwrap_or_default().is_empty();
            event.id.is_some() && empty
        };
        if !events.first().is_some_and(primes) {
            let first = events.first().and_then(|event| event.data.clone());
            self.add("unprimed", &first.unwrap_or_else(|| "no event".to_owned()));
        }
        for id in events.iter().filter_map(|event| event.id.as_ref()) {
            if !requests.events.insert(id.clone()) {
                self.add("event-ids", &quoted(id));
            }
        }
    }

    /// Inspects what arrived on a stream that a GET opened.
    pub fn inspect_get_stream(&self, text: &str) {
        for line in text.lines() {
            let Some(data) = line.strip_prefix("data:") else {
                continue;
            };
            let message = json::parse_loosely(data).unwrap_or_default();
            if message.get("id").is_some() && message.get("method").is_none() {
                self.add("stream-responses", data.trim());
            }
        }
    }

    /// Registers the schema of a tool's structured results.
    pub fn register_output_schema(&self, tool: &str, schema: Validator) {
        self.lock().outputs.insert(tool.to_owned(), schema);
    }

    /// Registers the parameters of a tool that headers repeat: JSON pointers into its arguments, and the names of the headers.
    pub fn register_header_parameters(&self, tool: &str, parameters: Vec<(String, String)>) {
        self.lock().mirrored.insert(tool.to_owned(), parameters);
    }

    /// The parameters of a tool that headers repeat.
    pub fn header_parameters(&self, tool: &str) -> Vec<(String, String)> {
        self.lock().mirrored.get(tool).cloned().unwrap_or_default()
    }

    /// Inspects a line, or the data of an event. On `stdio`, anything that is not a message is junk.
    pub fn inspect(
        &self,
        bytes: &[u8],
        requests: &mut SentRequests,
        stdio: bool,
    ) -> Option<(Value, MessageKind)> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.add("not-utf8", &String::from_utf8_lossy(bytes));
            return None;
        };
        let Some(message) = json::parse_loosely(text) else {
            self.add(if stdio { "junk" } else { "malformed" }, &quoted(text));
            return None;
        };
        if message.is_array() {
            self.add("batches", text);
            return None;
        }
        if !message.is_object() {
            self.add(if stdio { "junk" } else { "malformed" }, &quoted(text));
            return None;
        }
        let kind = self.inspect_frame(&message, text);
        for key in malformed_keys(&message) {
            self.add("meta-keys", &quoted(key));
        }
        match kind {
            MessageKind::Response => self.inspect_response(&message, text, requests),
            MessageKind::Request => self.inspect_request(&message, text, requests),
            MessageKind::Notification => self.inspect_notification(&message, text, requests),
        }
        Some((message, kind))
    }

    fn inspect_frame(&self, message: &Value, text: &str) -> MessageKind {
        let has = |name: &str| message.get(name).is_some();
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            self.add("malformed", &format!("no \"jsonrpc\": \"2.0\" in {text}"));
        }
        let method = message.get("method");
        let kind = match (method, message.get("id")) {
            (Some(_), Some(_)) => MessageKind::Request,
            (Some(_), None) => MessageKind::Notification,
            (None, _) => MessageKind::Response,
        };
        if method.is_some_and(|method| !method.is_string()) {
            self.add("malformed", &format!("a method that is no string: {text}"));
        }
        if method.is_some() && (has("result") || has("error")) {
            self.add(
                "malformed",
                &format!("a method and a result in one: {text}"),
            );
        }
        if let Some(params) = message.get("params")
            && !params.is_object()
        {
            self.add("malformed", &format!("params that are no object: {text}"));
        }
        kind
    }

    fn inspect_response(&self, message: &Value, text: &str, requests: &mut SentRequests) {
        let (result, error) = (message.get("result"), message.get("error"));
        match (result, error) {
            (Some(_), Some(_)) => self.add("malformed", &format!("a result and an error: {text}")),
            (None, None) => self.add("malformed", &format!("neither result nor error: {text}")),
            _ => {}
        }
        if result.is_some_and(|result| !result.is_object()) {
            self.add("malformed", &format!("a result that is no object: {text}"));
        }
        if let Some(error) = error {
            let code = error
                .get("code")
                .is_some_and(|code| code.is_i64() || code.is_u64());
            let said = error.get("message").is_some_and(Value::is_string);
            if !code || !said {
                self.add("error-objects", text);
            }
        }
        let id = message.get("id").unwrap_or(&Value::Null);
        if id.is_null() {
            // An error for a request whose id could not be parsed has no id.
            if error.is_none() && !requests.contains(id) {
                self.add("malformed", &format!("a result without an id: {text}"));
            }
            return;
        }
        let Some(asked) = requests.asked.get_mut(&id.to_string()) else {
            return self.add("strays", text);
        };
        if std::mem::replace(&mut asked.answered, true) {
            self.add("strays", &format!("once more: {text}"));
        }
        let asked = asked.clone();
        if let Some(result) = result {
            self.inspect_result(result, &asked);
            if asked.stateless {
                self.inspect_hints(result, &asked, requests);
            }
        }
        let code = error.and_then(|error| error.get("code")?.as_i64());
        let foreign = |code: &i64| {
            WITHDRAWN_CODES.contains(code)
                || RESERVED_CODES.contains(code) && !DEFINED_CODES.contains(code)
        };
        if asked.stateless && code.as_ref().is_some_and(foreign) {
            self.add("reserved-codes", &format!("{}: {text}", asked.method));
        }
    }

    /// Inspects the caching hints or the input requests of a result of the stateless revision.
    fn inspect_hints(&self, result: &Value, asked: &SentRequest, requests: &mut SentRequests) {
        let describe = |what: &str| format!("{}: {what}: {result}", asked.method);
        let kind = result.get("resultType").and_then(Value::as_str);
        if kind == Some("input_required") {
            let inputs = result.get("inputRequests").and_then(Value::as_object);
            if !INPUT_METHODS.contains(&asked.method.as_str()) {
                self.add("input-required", &describe("asks for input"));
            }
            if inputs.is_none() && result.get("requestState").is_none() {
                self.add("input-required", &describe("wants nothing"));
            }
            for input in inputs.into_iter().flat_map(serde_json::Map::values) {
                let method = input.get("method").and_then(Value::as_str);
                let row = INPUT_REQUESTS
                    .iter()
                    .find(|(known, _)| Some(*known) == method);
                match row {
                    None => self.add("input-required", &describe("wants what no client has")),
                    Some((_, needed)) if !asked.declares.iter().any(|has| has == needed) => {
                        self.add("unasked-input", &describe("wants input"));
                    }
                    Some(_) => {}
                }
            }
        }
        if kind != Some("complete") || !CACHEABLE.contains(&asked.method.as_str()) {
            return;
        }
        let fresh = result.get("ttlMs").and_then(Value::as_f64);
        if !fresh.is_some_and(|fresh| fresh >= 0.0 && fresh.fract() == 0.0) {
            self.add("cache-hints", &describe("`ttlMs`"));
        }
        let scope = result.get("cacheScope").cloned().unwrap_or_default();
        if !matches!(scope.as_str(), Some("public" | "private")) {
            self.add("cache-hints", &describe("`cacheScope`"));
        }
        let before = requests.scopes.insert(asked.method.clone(), scope.clone());
        if asked.has_cursor
            && let Some(before) = before
            && before != scope
        {
            self.add("cache-scopes", &describe(&format!("{before} before")));
        }
    }

    fn inspect_result(&self, result: &Value, asked: &SentRequest) {
        if asked.stateless && !result.get("resultType").is_some_and(Value::is_string) {
            self.add("result-types", &format!("{}: {result}", asked.method));
        }
        // The request did not end with its own result: input is requested first, or a task continues it.
        let other = result
            .get("resultType")
            .is_some_and(|kind| kind != "complete");
        if other || result.get("task").is_some() {
            return;
        }
        if let Some((word, shape)) = shapes::of_method(&asked.method)
            && let Some(why) = shapes::shape_fault(shape, result)
        {
            self.add(word, &why);
        }
        if let (Some(tool), "tools/call") = (&asked.tool, asked.method.as_str()) {
            self.inspect_structured(tool, result);
        }
    }

    fn inspect_structured(&self, tool: &str, result: &Value) {
        let content = result.get("content").and_then(Value::as_array);
        let embedded = |block: &Value| block.get("type").is_some_and(|kind| kind == "resource");
        if content.into_iter().flatten().any(embedded) && self.lock().resources == Some(false) {
            self.add("undeclared-embedded", tool);
        }
        let failed = result.get("isError") == Some(&Value::Bool(true));
        let structured = result.get("structuredContent");
        let why = {
            let state = self.lock();
            let Some(schema) = state.outputs.get(tool) else {
                return;
            };
            structured.and_then(|value| schema.validate(value).err().map(|why| why.to_string()))
        };
        if let Some(why) = why.filter(|_| !failed) {
            self.add("structured", &format!("{tool}: {why}"));
        }
        let Some(structured) = structured else {
            if !failed {
                self.add("no-structure", tool);
            }
            return;
        };
        let content = result.get("content").and_then(Value::as_array);
        let mirrored = content.into_iter().flatten().any(|block| {
            let text = block.get("text").and_then(Value::as_str);
            let read = text.and_then(json::parse_loosely);
            read.as_ref() == Some(structured)
        });
        if !mirrored && !failed {
            self.add("unmirrored", tool);
        }
    }

    fn inspect_request(&self, message: &Value, text: &str, requests: &SentRequests) {
        let id = message.get("id").unwrap_or(&Value::Null);
        if !(id.is_string() || id.is_i64() || id.is_u64()) {
            self.add(
                "malformed",
                &format!("an id that is neither string nor integer: {text}"),
            );
        }
        let method = message
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if method == "ping" {
            return;
        }
        // `roots/list` needs `roots`, `sampling/createMessage` needs `sampling`.
        let feature = method.split('/').next().unwrap_or_default();
        if !requests.declared.iter().any(|declared| declared == feature) {
            self.add("unasked-requests", text);
        }
        if !requests.initialized {
            self.add("early-requests", text);
        }
    }

    fn inspect_notification(&self, message: &Value, text: &str, requests: &mut SentRequests) {
        let method = message
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let params = message
            .get("params")
            .cloned()
            .unwrap_or(Value::Object(Default::default()));
        if let Some(shape) = shapes::of_notification(method)
            && let Some(why) = shapes::shape_fault(shape, &params)
        {
            self.add("shape-notifications", &format!("{method}: {why}"));
        }
        match method {
            "notifications/message" if self.lock().logging == Some(false) => {
                self.add("undeclared-logs", text);
            }
            "notifications/cancelled" => self.inspect_cancellation(&params, text, requests),
            "notifications/progress" => self.inspect_progress(&params, text, requests),
            _ => {}
        }
    }

    /// A server of the stateless revision may cancel only subscriptions.
    fn inspect_cancellation(&self, params: &Value, text: &str, requests: &SentRequests) {
        let id = params.get("requestId").unwrap_or(&Value::Null).to_string();
        let asked = requests.asked.get(&id);
        if asked.is_some_and(|asked| asked.stateless && asked.method != "subscriptions/listen") {
            self.add("stray-cancellations", text);
        }
    }

    fn inspect_progress(&self, params: &Value, text: &str, requests: &mut SentRequests) {
        let Some(token) = params.get("progressToken").map(Value::to_string) else {
            return;
        };
        let mut asked = requests.asked.values();
        match asked.find(|asked| asked.token.as_ref() == Some(&token)) {
            None => return self.add("progress-tokens", text),
            Some(asked) if asked.answered => self.add("progress-late", text),
            Some(_) => {}
        }
        let Some(now) = params.get("progress").and_then(Value::as_f64) else {
            return;
        };
        if let Some(before) = requests.progress.insert(token, now)
            && now <= before
        {
            self.add(
                "progress-backwards",
                &format!("{now} behind {before}: {text}"),
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The malformed keys of every `_meta` in a message. A key is a name, optionally preceded by dot-separated labels and a
/// slash (Base Protocol, `_meta`).
fn malformed_keys(value: &Value) -> Vec<&str> {
    let mut odd = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                for (name, inner) in members {
                    match (name.as_str(), inner) {
                        ("_meta", Value::Object(keys)) => {
                            let keys = keys.keys().map(String::as_str);
                            odd.extend(keys.filter(|key| !is_valid_key(key)));
                        }
                        // The contents of a tool's results and schemas are up to the tool.
                        ("structuredContent" | "inputSchema" | "outputSchema", _) => {}
                        _ => open.push(inner),
                    }
                }
            }
            _ => {}
        }
    }
    odd
}

fn is_valid_key(key: &str) -> bool {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let ends = |text: &str, first: fn(&char) -> bool| {
        let last = |c: &char| c.is_ascii_alphanumeric();
        text.chars().next().as_ref().is_some_and(first)
            && text.chars().next_back().as_ref().is_some_and(last)
    };
    let of = |text: &str, others: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let label = |label: &str| ends(label, char::is_ascii_alphabetic) && of(label, "-");
    let named = name.is_empty() || ends(name, char::is_ascii_alphanumeric) && of(name, "-_.");
    named && prefix.is_none_or(|prefix| prefix.split('.').all(label))
}

/// A line as a JSON string, so that it can be displayed whatever it contains.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
