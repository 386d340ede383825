//! The script of a peer, as JSON. Data only.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// How the peer is reached.
    pub kind: PeerKind,
    /// Its tools, each an entry of `tools/list` with an additional `does`, and with a schema where it names none.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// The same as JSON text, for what TOML cannot say: null.
    #[serde(default)]
    pub tools_json: Option<String>,
    /// Tools per page of `tools/list`; absent: one page.
    #[serde(default)]
    pub page: Option<usize>,
    /// `tools/list` hands out cursors for ever.
    #[serde(default)]
    pub endless_pages: bool,
    /// What happens instead of answering a method or passing over a notification, by its name, or by its name, a blank and the path
    /// that it came to.
    #[serde(default)]
    pub methods: BTreeMap<String, Action>,
    /// Lines written before anything is read.
    #[serde(default)]
    pub banner: Vec<String>,
    /// Lines written to standard error at the start.
    #[serde(default)]
    pub stderr: Vec<String>,
    /// Speak the stateless revision only.
    #[serde(default)]
    pub modern: bool,
    /// Answer MCP requests over HTTP with event streams.
    #[serde(default)]
    pub sse: bool,
    /// Hand out session ids, and answer 404 to a session that is forgotten.
    #[serde(default)]
    pub sessions: bool,
    /// Header that every HTTP request must carry; others are answered 401.
    #[serde(default)]
    pub require_header: Option<(String, String)>,
    /// The OpenAPI description, served at `/openapi.json`.
    #[serde(default)]
    pub schema: Option<Value>,
    /// What each path of an OpenAPI service does.
    #[serde(default)]
    pub routes: BTreeMap<String, Action>,
    /// Members of the upstreams entry besides how to reach the peer.
    #[serde(default)]
    pub entry: Map<String, Value>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut script: Script = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(tools) = script.tools_json.take() {
            let tools: Vec<Value> =
                serde_json::from_str(&tools).map_err(|error| format!("tools_json: {error}"))?;
            script.tools.extend(tools);
        }
        script.tools.iter_mut().for_each(complete);
        Ok(script)
    }
}

/// MCP wants a schema of every tool: one that has none takes any arguments.
pub fn complete(tool: &mut Value) {
    if let Some(tool) = tool.as_object_mut() {
        let schema = tool.entry("inputSchema");
        schema.or_insert_with(|| json!({"type": "object"}));
    }
}

/// How a peer is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// MCP over a child's standard input and output.
    Stdio,
    /// MCP over Streamable HTTP.
    Http,
    Openapi,
}

/// What a tool, method or route does. Members work together where that makes sense: wait, then answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Action {
    /// Milliseconds before anything else.
    pub delay_ms: u64,
    /// Calls that must be in flight at once before any of them goes on; zero and one wait for nobody.
    pub together: usize,
    /// Text content, with `{{arg.NAME}}` replaced.
    pub text: Option<String>,
    /// Text content of so many bytes.
    pub fill: Option<usize>,
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// Give the arguments back as `structuredContent`.
    pub echo: bool,
    pub result: Option<Value>,
    pub error: Option<Value>,
    /// `isError: true` beside the content.
    pub is_error: bool,
    /// A line or body written as it stands.
    pub raw: Option<String>,
    /// Lines written before the answer, `{{id}}` replaced.
    pub before: Vec<String>,
    /// Write the answer twice.
    pub twice: bool,
    /// Answer under an id that nobody used.
    pub wrong_id: bool,
    pub silent: bool,
    /// End the process with this status.
    pub exit: Option<i32>,
    /// Stop reading, for ever.
    pub close_input: bool,
    /// Announce that the tools changed, and add this one.
    pub add_tool: Option<Value>,
    /// HTTP status. A tool has it at the peer's own path; at another one, where a redirect leads, it answers.
    pub status: Option<u16>,
    pub headers: BTreeMap<String, String>,
    /// HTTP body that comes with `status`.
    pub body: Option<String>,
    /// The bytes of an event stream as they stand, `{{answer}}` and `{{id}}` replaced.
    pub events: Option<String>,
    /// Bytes per chunk, where the body goes in chunks.
    pub chunk: Option<usize>,
    /// Forget the HTTP session first.
    pub lose_session: bool,
    /// Send half of the body, then nothing.
    pub stall: bool,
    /// Send the body in chunks, and never the one that ends it.
    pub open: bool,
    /// Send half of the body, then close the connection.
    pub cut: bool,
    /// Close the connection without an answer.
    pub hang_up: bool,
}
