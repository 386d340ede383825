//! What a frame asks for, determined once on arrival: its method, its era, and the tool that it calls.

use crate::mcp::tools;
use crate::render::reply::Era;
use crate::sessions::Sessions;
use ptc_rpc::{Frame, Id, Json};
use std::borrow::Cow;

/// The key under `_meta` that names the revision of a stateless request.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A frame, and what its members say.
pub struct Incoming<'f> {
    pub frame: Frame<'f>,
    /// The request's id; `None` makes it a notification.
    pub id: Option<Id>,
    /// The method's name; `None` when it is missing or not a string.
    pub method: Option<Cow<'f, str>>,
    pub era: Era,
    /// The name of the tool that a request calls.
    pub tool: Option<Cow<'f, str>>,
    pub members: Members<'f>,
}

/// Parameters that any call may have. The first of duplicate members counts.
#[derive(Clone, Copy, Default)]
pub struct Members<'f> {
    name: Option<Json<'f>>,
    pub arguments: Option<Json<'f>>,
    pub meta: Option<Json<'f>>,
}

impl<'f> Members<'f> {
    fn of(params: Option<Json<'f>>) -> Self {
        let mut members = Members::default();
        for (name, value) in params.into_iter().flat_map(Json::members) {
            let slot = match name.as_str().as_deref() {
                Some("name") => &mut members.name,
                Some("arguments") => &mut members.arguments,
                Some("_meta") => &mut members.meta,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        members
    }
}

impl<'f> From<Frame<'f>> for Incoming<'f> {
    fn from(frame: Frame<'f>) -> Self {
        let method = frame.method_name();
        let members = Members::of(frame.params);
        // A frame names its revision, or uses a method that only one era has.
        let era = match method.as_deref() {
            Some("initialize") => Era::Session,
            Some("server/discover") => Era::Stateless,
            _ => match members.meta.and_then(|meta| meta.get(META_VERSION)) {
                Some(_) => Era::Stateless,
                None => Era::Session,
            },
        };
        let calls = method.as_deref() == Some("tools/call") && frame.id.is_some();
        let tool = members.name.filter(|_| calls).and_then(Json::as_str);
        Incoming {
            id: frame.request_id(),
            frame,
            method,
            era,
            tool,
            members,
        }
    }
}

impl Incoming<'_> {
    /// The id under which a request for a program is in flight.
    pub fn runs_program(&self) -> Option<Id> {
        self.tool
            .as_deref()
            .filter(|name| tools::runs_program(name))?;
        self.id.clone()
    }

    /// Whether handling a request asks a store, and so may wait for it.
    pub fn needs_store(&self, sessions: &Sessions) -> bool {
        sessions.shared().is_some() && self.tool.as_deref().is_some_and(tools::is_session_tool)
    }

    /// Whether a request begins a turn in a program session. With a store, the turn's first request to the store also checks that the
    /// protocol session exists.
    pub fn begins_turn(&self) -> bool {
        self.frame.version_ok && self.tool.as_deref() == Some(tools::SESSION_EVAL)
    }
}
