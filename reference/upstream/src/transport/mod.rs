//! Transports: how an upstream is reached. Each lists tools and calls one; what either means is decided elsewhere.

pub(crate) mod child;
mod lines;
pub(crate) mod listing;
mod revision;
pub(crate) mod stdio;

#[cfg(feature = "http")]
pub(crate) mod http_client;
#[cfg(feature = "http")]
pub(crate) mod mcp_http;
#[cfg(feature = "http")]
pub(crate) mod openapi;
#[cfg(feature = "http")]
pub(crate) mod sse;

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::WorldFault;
use crate::tool::RawTool;

/// What a call may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    /// When waiting ends.
    pub deadline: Instant,
    /// Answer bytes, cut before decoding.
    pub bytes_max: usize,
}

impl CallLimits {
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What an upstream answered to a call, undecoded.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only OpenAPI answers so")
)]
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
    #[cfg(feature = "http")]
    Http(Box<mcp_http::HttpConnection>),
}

impl Connection {
    pub async fn list_tools(&self) -> Result<Vec<RawTool>, WorldFault> {
        match self {
            Self::Stdio(stdio) => stdio.list_tools().await,
            #[cfg(feature = "http")]
            Self::Http(http) => http.list_tools().await,
        }
    }

    /// `tools/call`; `arguments` is the text of a JSON object.
    pub async fn call(
        &self,
        tool: &RawTool,
        arguments: &str,
        limits: CallLimits,
    ) -> Result<Answer, WorldFault> {
        match self {
            Self::Stdio(stdio) => stdio.call(tool, arguments, limits).await,
            #[cfg(feature = "http")]
            Self::Http(http) => http.call(tool, arguments, limits).await,
        }
    }

    /// When the connection ended, if it did.
    pub fn ended(&self) -> Option<Instant> {
        match self {
            Self::Stdio(stdio) => stdio.ended(),
            #[cfg(feature = "http")]
            Self::Http(_) => None,
        }
    }

    /// Whether the upstream said that its tools changed since this was last asked.
    pub fn take_list_changed(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.take_list_changed(),
            #[cfg(feature = "http")]
            Self::Http(_) => false,
        }
    }

    pub async fn close(&self) {
        match self {
            Self::Stdio(stdio) => stdio.close().await,
            #[cfg(feature = "http")]
            Self::Http(http) => http.close().await,
        }
    }
}
