//! The script of a peer, as JSON. Data only.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Why a text is not a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// In the text of `tools_json`.
    #[error("tools_json: {0}")]
    Tools(serde_json::Error),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The transport of the peer.
    pub kind: PeerKind,
    /// Its tools, each an entry of `tools/list` with an additional `does`, and with a default schema if it has none.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// The tools as JSON text, for what TOML cannot express: null.
    #[serde(default)]
    pub tools_json: Option<String>,
    /// Tools per page of `tools/list`; absent: one page.
    #[serde(default)]
    pub page: Option<usize>,
    /// Whether `tools/list` returns cursors forever.
    #[serde(default)]
    pub endless_pages: bool,
    /// Scripted actions for methods and notifications, by name, or by name, a blank and the path at which the message
    /// arrived. They replace the default answer.
    #[serde(default)]
    pub methods: BTreeMap<String, Action>,
    /// Lines written to standard output before anything is read.
    #[serde(default)]
    pub banner: Vec<String>,
    /// Lines written to standard error at the start.
    #[serde(default)]
    pub stderr: Vec<String>,
    /// Whether the peer supports only the stateless revision.
    #[serde(default)]
    pub modern: bool,
    /// Whether MCP requests over HTTP are answered with event streams.
    #[serde(default)]
    pub sse: bool,
    /// Whether the peer assigns session ids, and answers 404 to a session that it has forgotten.
    #[serde(default)]
    pub sessions: bool,
    /// Whether the peer is reached over https, with a certificate that only its authority's proves.
    #[serde(default)]
    pub tls: bool,
    /// A header that every HTTP request must have; others are answered with 401.
    #[serde(default)]
    pub require_header: Option<(String, String)>,
    /// The OpenAPI description, served at `/openapi.json`.
    #[serde(default)]
    pub schema: Option<Value>,
    /// The action of each path of an OpenAPI service.
    #[serde(default)]
    pub routes: BTreeMap<String, Action>,
    /// Members of the upstreams entry besides those that say how to reach the peer.
    #[serde(default)]
    pub entry: Map<String, Value>,
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// When it is not JSON of this shape.
    pub fn read(text: &str) -> Result<Self, ScriptError> {
        let mut script: Script = serde_json::from_str(text)?;
        if let Some(tools) = script.tools_json.take() {
            let tools: Vec<Value> = serde_json::from_str(&tools).map_err(ScriptError::Tools)?;
            script.tools.extend(tools);
        }
        script.tools.iter_mut().for_each(complete);
        Ok(script)
    }
}

/// Adds the schema that MCP requires to a tool that has none: one that accepts any arguments.
pub fn complete(tool: &mut Value) {
    if let Some(tool) = tool.as_object_mut() {
        let schema = tool.entry("inputSchema");
        schema.or_insert_with(|| json!({"type": "object"}));
    }
}

/// The transport of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// MCP over a child's standard input and output.
    Stdio,
    /// MCP over Streamable HTTP.
    Http,
    Openapi,
}

/// The action of a tool, method or route. Members may be combined where that makes sense: wait, then answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Action {
    /// Delay before anything else, in milliseconds.
    pub delay_ms: u64,
    /// Number of calls that must be in flight before any of them continues; zero and one mean no waiting.
    pub together: usize,
    /// Text content; `{{arg.NAME}}` is replaced.
    pub text: Option<String>,
    /// Text content of this many bytes.
    pub fill: Option<usize>,
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// Return the arguments as `structuredContent`.
    pub echo: bool,
    pub result: Option<Value>,
    pub error: Option<Value>,
    /// Set `isError: true` next to the content.
    pub is_error: bool,
    /// A line or body that is written verbatim.
    pub raw: Option<String>,
    /// Lines written before the answer; `{{id}}` is replaced.
    pub before: Vec<String>,
    /// Write the answer twice.
    pub twice: bool,
    /// Answer under an id that was never used.
    pub wrong_id: bool,
    pub silent: bool,
    /// Exit with this status.
    pub exit: Option<i32>,
    /// Stop reading for good.
    pub close_input: bool,
    /// Announce that the list of tools changed, and add this one.
    pub add_tool: Option<Value>,
    /// HTTP status. For a tool it applies at the peer's own path; at another path, the target of a redirect, the tool answers.
    pub status: Option<u16>,
    pub headers: BTreeMap<String, String>,
    /// HTTP body for `status`.
    pub body: Option<String>,
    /// The bytes of an event stream, verbatim except that `{{answer}}` and `{{id}}` are replaced.
    pub events: Option<String>,
    /// Bytes per chunk, if the body is sent in chunks.
    pub chunk: Option<usize>,
    /// Forget the HTTP session first.
    pub lose_session: bool,
    /// Send half of the body, then nothing.
    pub stall: bool,
    /// Send the body in chunks, without the final one.
    pub open: bool,
    /// Send half of the body, then close the connection.
    pub cut: bool,
    /// Close the connection without an answer.
    pub hang_up: bool,
}
