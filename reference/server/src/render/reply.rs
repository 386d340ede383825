//! A reply as data, so that it can be scrubbed before it is truncated, and its serialization.
//!
//! Knows nothing of transports.

use crate::render::profile::{View, write_result as write_tool_result};
use crate::render::reason::Refusal;
use crate::version;
use ptc_agent::PlannerRequest;
use ptc_protocol::Payload;
use ptc_rpc::{Id, RpcError, write_error, write_result};
use ptc_secrets::{Redactor, Scrub, Scrubbed};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Debug)]
pub struct Reply {
    /// The request's id; `None` is written as `null`.
    pub id: Option<Id>,
    pub body: ReplyBody,
    /// The era that shapes the result object.
    pub era: Era,
}

/// The two shapes of results: with a session, and stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2025-06-18 and 2025-11-25.
    Session,
    /// 2026-07-28.
    Stateless,
}

impl Era {
    /// JSON members that begin every result object.
    pub fn result_members(self) -> &'static str {
        static STATELESS: OnceLock<String> = OnceLock::new();
        match self {
            Era::Session => "",
            Era::Stateless => STATELESS.get_or_init(|| {
                let info = Payload::from(version::server_info()).to_json();
                format!("\"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{info}}},\"resultType\":\"complete\",")
            }),
        }
    }
}

#[derive(Clone, Debug)]
pub enum ReplyBody {
    Error(RpcError),
    /// A result that is JSON text of the server's own, scrubbed when it was made.
    Json(Arc<Scrubbed<String>>),
    Tool(ToolReply),
    /// A result that was scrubbed before, which may have taken long, and is not scanned again.
    Clean(Scrubbed<ToolReply>),
}

/// A tool's reply.
#[derive(Clone, Debug)]
pub struct ToolReply {
    pub payload: Payload,
    pub view: View,
    /// A last line of a slim text.
    pub suffix: Option<String>,
    /// What observers see besides the payload, under `agentic`.
    pub observed_details: Option<Payload>,
    /// The planner's requests, for traces.
    pub planner: Vec<PlannerRequest>,
}

/// How a call is refused: as its tool shows results, in the era of its request.
#[derive(Clone, Copy)]
pub struct RefusalForm {
    pub payload: fn(&Refusal) -> Payload,
    pub view: View,
    pub era: Era,
}

impl RefusalForm {
    /// Where no tool has the name that a call gives.
    pub fn of_no_tool(era: Era) -> Self {
        RefusalForm {
            payload: Refusal::payload,
            view: View::Mirrored,
            era,
        }
    }

    /// The reply to `id`.
    pub fn reply(self, id: Id, refusal: &Refusal) -> Reply {
        Reply::tool(id, self.era, self.tool_reply(refusal))
    }

    pub fn tool_reply(self, refusal: &Refusal) -> ToolReply {
        ToolReply::new((self.payload)(refusal), self.view)
    }
}

impl ToolReply {
    /// The payload, shown as `view` says.
    pub fn new(payload: Payload, view: View) -> Self {
        ToolReply {
            payload,
            view,
            suffix: None,
            observed_details: None,
            planner: Vec::new(),
        }
    }

    fn write(&self, out: &mut Vec<u8>, id: &Id, era: Era) {
        write_result(out, id, |out| {
            let (suffix, extra) = (self.suffix.as_deref(), era.result_members());
            write_tool_result(out, &self.payload, self.view, suffix, extra);
        });
    }

    pub fn observed_payload(&self) -> Cow<'_, Payload> {
        match &self.observed_details {
            Some(aside) => Cow::Owned(self.payload.clone().with("agentic", aside.clone())),
            None => Cow::Borrowed(&self.payload),
        }
    }
}

impl Reply {
    /// A JSON-RPC error in reply to `id`.
    pub fn error(id: Option<Id>, error: RpcError) -> Self {
        Reply {
            id,
            body: ReplyBody::Error(error),
            era: Era::Session,
        }
    }

    /// A result in reply to `id`.
    pub fn json(id: Id, json: Arc<Scrubbed<String>>) -> Self {
        Reply {
            id: Some(id),
            body: ReplyBody::Json(json),
            era: Era::Session,
        }
    }

    /// A tool result in reply to `id`.
    pub fn tool(id: Id, era: Era, tool: ToolReply) -> Self {
        Reply {
            id: Some(id),
            body: ReplyBody::Tool(tool),
            era,
        }
    }

    /// An already scrubbed tool result in reply to `id`.
    pub fn scrubbed(id: Id, era: Era, tool: Scrubbed<ToolReply>) -> Self {
        Reply {
            id: Some(id),
            body: ReplyBody::Clean(tool),
            era,
        }
    }

    /// The reply as compact JSON.
    pub fn bytes(reply: &Scrubbed<Reply>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        Reply::write(reply, &mut bytes);
        bytes
    }

    /// Appends the reply as compact JSON without a line end. Truncation happens here, after scrubbing.
    pub fn write(reply: &Scrubbed<Reply>, out: &mut Vec<u8>) {
        match (&reply.body, &reply.id) {
            (ReplyBody::Error(error), id) => write_error(out, id.as_ref(), error),
            (ReplyBody::Json(json), id) => write_result(out, &or_null(id), |out| {
                out.extend_from_slice(json.as_bytes());
            }),
            (ReplyBody::Tool(tool), id) => tool.write(out, &or_null(id), reply.era),
            (ReplyBody::Clean(tool), id) => tool.write(out, &or_null(id), reply.era),
        }
    }
}

fn or_null(id: &Option<Id>) -> Id {
    id.clone().unwrap_or_else(Id::null)
}

/// Ids, JSON-RPC errors (the server's own words about the frame) and names of members are left unchanged.
impl Scrub for Reply {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        if let ReplyBody::Tool(tool) = &mut self.body {
            tool.scrub_in_place(redactor);
        }
    }
}

impl Scrub for ToolReply {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        self.payload.scrub_in_place(redactor);
        self.suffix.scrub_in_place(redactor);
        self.observed_details.scrub_in_place(redactor);
    }
}
