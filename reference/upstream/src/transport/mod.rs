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
mod reconnect;
mod revision;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ptc_rpc::JsonText;
use ptc_secrets::{AuthHeaders, Emitter, Redactor};
use tokio::time::Instant;

use crate::config::{ConfigResult, Entry};
use crate::fault::WorldFault;
use crate::runtime::Surroundings;
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
    Envelope(JsonText),
    /// A plain JSON value.
    Json(JsonText),
    /// Success without a body.
    None,
}

/// What is waited for.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How one upstream is reached: lists its tools and calls one.
pub(crate) trait Transport: Send + Sync {
    /// Whether its tools are listed at start-up, whatever else is listed when it is first needed.
    fn loads_at_start(&self) -> bool {
        false
    }

    /// Whether arguments (the text of a JSON object) can't make a call to `tool` another one.
    ///
    /// # Errors
    /// What is wrong with which.
    fn judge(&self, _tool: &str, _arguments: &str) -> Result<(), String> {
        Ok(())
    }

    /// Whether the upstream said that its tools changed since this was last asked.
    fn take_list_changed(&self) -> bool {
        false
    }

    fn list_tools(&self) -> Pending<'_, Result<Vec<RawTool>, WorldFault>>;

    fn call<'a>(
        &'a self,
        call: Outgoing<'a>,
        limits: CallLimits,
    ) -> Pending<'a, Result<Answer, WorldFault>>;

    /// Ends what it keeps open. Calls in flight fail.
    fn close(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What the entry of an upstream says of its transport.
pub(crate) trait TransportConfig: fmt::Debug + Send + Sync {
    /// Credentials that its requests carry, in the order of the entry.
    fn auth(&self) -> &[Emitter] {
        &[]
    }

    /// The transport; nothing is opened yet.
    fn transport(&self, setting: Setting) -> Arc<dyn Transport>;
}

/// What a transport works with besides its entry.
pub(crate) struct Setting {
    /// The upstream's name.
    pub name: String,
    pub auth: AuthHeaders,
    pub redactor: Redactor,
    pub surroundings: Surroundings,
}

/// A transport's name in entries, its keys besides the common ones, and how an entry is read.
pub(crate) struct TransportRow {
    pub name: &'static str,
    pub keys: &'static [&'static [&'static str]],
    pub read: Read,
}

/// Reads an entry; what is odd but harmless in it is added to the warnings.
type Read = fn(&Entry<'_>, &mut Vec<String>) -> ConfigResult<Box<dyn TransportConfig>>;

pub(crate) const TRANSPORTS: &[TransportRow] = &[stdio::ROW, mcp_http::ROW, openapi::ROW];

const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;
