//! Transports: how an upstream is reached. Each lists tools and calls one; what the results mean is decided
//! elsewhere.

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

use crate::config::{ConfigEntry, ConfigResult};
use crate::fault::WorldFault;
use crate::runtime::Platform;
use crate::tool::RawTool;
use crate::trace_context::TraceContext;
use openapi::PathArgumentFault;

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    pub deadline: Instant,
    /// Maximum bytes of the answer, cut before decoding.
    pub bytes_max: usize,
}

impl CallLimits {
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// An outgoing call.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub tool: &'a RawTool,
    /// The text of a JSON object.
    pub arguments: &'a str,
    /// The trace that the call belongs to.
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

/// An upstream's answer to a call, undecoded.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An MCP tool result: JSON text of an object.
    Envelope(JsonText),
    /// A plain JSON value.
    Json(JsonText),
    /// Success without a body.
    None,
}

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How one upstream is reached: lists its tools and calls one.
pub(crate) trait Transport: Send + Sync {
    /// Whether its tools are listed at start-up even where other upstreams are listed on first use.
    fn loads_at_start(&self) -> bool {
        false
    }

    /// Checks that the arguments (the text of a JSON object) can't turn a call to `tool` into one to another
    /// operation.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    fn check_arguments(&self, _tool: &str, _arguments: &str) -> Result<(), PathArgumentFault> {
        Ok(())
    }

    /// Whether the upstream reported a change of its tools since the last call of this method.
    fn take_list_changed(&self) -> bool {
        false
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<RawTool>, WorldFault>>;

    fn call<'a>(
        &'a self,
        call: Outgoing<'a>,
        limits: CallLimits,
    ) -> BoxFuture<'a, Result<Answer, WorldFault>>;

    /// Closes what it keeps open. Calls in flight fail.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The transport part of an upstream's entry.
pub(crate) trait TransportConfig: fmt::Debug + Send + Sync {
    /// The credentials that its requests carry, in the order of the entry.
    fn auth(&self) -> &[Emitter] {
        &[]
    }

    /// Creates the transport; nothing is opened yet.
    fn transport(&self, setting: TransportContext) -> Arc<dyn Transport>;
}

/// What a transport needs besides its entry.
pub(crate) struct TransportContext {
    pub name: String,
    pub auth: AuthHeaders,
    pub redactor: Redactor,
    pub platform: Platform,
}

/// A transport's name in entries, its keys besides the common ones, and its parser.
pub(crate) struct TransportRow {
    pub name: &'static str,
    pub keys: &'static [&'static [&'static str]],
    pub read: ReadConfig,
}

/// Parses an entry; adds harmless oddities to the warnings.
type ReadConfig = fn(&ConfigEntry<'_>, &mut Vec<String>) -> ConfigResult<Box<dyn TransportConfig>>;

pub(crate) const TRANSPORTS: &[TransportRow] = &[stdio::ROW, mcp_http::ROW, openapi::ROW];
