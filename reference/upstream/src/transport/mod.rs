//! Transports: how an upstream is reached. Each lists tools and calls one; what either means is decided elsewhere.

pub(crate) mod carrier;
pub(crate) mod child;
pub(crate) mod http_client;
#[cfg(target_os = "linux")]
pub mod keeper;
mod lines;
pub(crate) mod listing;
pub(crate) mod mcp_http;
pub(crate) mod openapi;
mod outbox;
mod revision;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::WorldFault;
use crate::tool::RawTool;
use crate::trace_context::TraceContext;

/// What a call may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    pub deadline: Instant,
    /// Answer bytes, cut before decoding.
    pub bytes_max: usize,
}

impl CallLimits {
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A call on its way out.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub tool: &'a RawTool,
    /// The text of a JSON object.
    pub arguments: &'a str,
    /// The trace that it belongs to.
    pub trace: Option<&'a TraceContext>,
}

impl Outgoing<'_> {
    /// Params of `tools/call`.
    fn params(&self) -> String {
        let mut name = Vec::with_capacity(self.tool.name.len() + 2);
        ptc_rpc::write_string(&mut name, &self.tool.name);
        let name = String::from_utf8_lossy(&name);
        format!("{{\"arguments\":{},\"name\":{name}}}", self.arguments)
    }
}

/// What an upstream answered to a call, undecoded.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An MCP tool result: JSON text of an object.
    Envelope(String),
    /// A plain JSON value.
    Json(String),
    /// Success without a body.
    None,
}

/// A live connection to one upstream.
pub(crate) enum Connection {
    Stdio(stdio::StdioConnection),
    Http(Box<mcp_http::HttpConnection>),
}

impl Connection {
    pub async fn list_tools(&self) -> Result<Vec<RawTool>, WorldFault> {
        match self {
            Self::Stdio(stdio) => stdio.list_tools().await,
            Self::Http(http) => http.list_tools().await,
        }
    }

    /// `tools/call`
    pub async fn call(&self, call: Outgoing<'_>, limits: CallLimits) -> Result<Answer, WorldFault> {
        match self {
            Self::Stdio(stdio) => stdio.call(call, limits).await,
            Self::Http(http) => http.call(call, limits).await,
        }
    }

    /// When the connection ended, if it did.
    pub fn ended(&self) -> Option<Instant> {
        match self {
            Self::Stdio(stdio) => stdio.ended(),
            Self::Http(_) => None,
        }
    }

    /// Whether the upstream said that its tools changed since this was last asked.
    pub fn take_list_changed(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.take_list_changed(),
            Self::Http(http) => http.take_list_changed(),
        }
    }

    pub async fn close(&self) {
        match self {
            Self::Stdio(stdio) => stdio.close().await,
            Self::Http(http) => http.close().await,
        }
    }
}
