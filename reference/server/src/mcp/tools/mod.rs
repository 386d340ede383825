//! The MCP tools as one table. Knows nothing of frames; each tool lives in its own file.

mod argument;
mod card;
mod debug;
mod lisp_eval;
pub mod program;
mod session;
mod task;

use crate::call::Call;
use crate::mcp::connection::Connection;
use crate::render::profile::View;
use crate::render::reply::{Era, ToolReply};
use crate::server::Server;
use ptc_protocol::{Field, Payload};
use ptc_rpc::{Id, Json};
use ptc_secrets::Scrubbed;
use std::sync::Arc;

pub struct Tool {
    pub name: &'static str,
    /// Whether `tools/list` shows it.
    pub listed: fn(&Server) -> bool,
    /// Whether its results follow the response profile; all others are mirrored in full.
    pub profiled: bool,
    /// Its entry in `tools/list`, without the name.
    pub entry: fn(&Server) -> Payload,
    pub run: Execution,
}

/// How a tool runs.
#[derive(Clone, Copy)]
pub enum Execution {
    /// At once, on the thread that reads frames.
    Now(fn(&ToolRequest<'_>) -> ToolReply),
    /// As a program on a thread, behind the gate. Arguments are validated first.
    Program(fn(&ToolRequest<'_>) -> Result<PreparedCall, NotReady>),
}

/// Why a program is not ready to run.
pub enum NotReady {
    Refused(ToolReply),
    /// Its arguments are valid but its id is in flight. This takes precedence over the state of a session.
    Duplicate,
}

impl From<ToolReply> for NotReady {
    fn from(refusal: ToolReply) -> Self {
        NotReady::Refused(refusal)
    }
}

/// A program that is ready to run.
pub struct PreparedCall {
    /// Called when the call is admitted, before anything else can happen to it.
    pub admitted: Option<AdmissionHook>,
    /// The program itself, on its thread.
    pub run: ToolJob,
}

/// Runs on a thread of the pool.
pub type ToolJob = Box<dyn FnOnce(&Arc<Call>) -> ToolOutcome + Send>;

/// A hook that needs the call.
pub type AdmissionHook = Box<dyn FnOnce(&Arc<Call>) + Send>;

impl PreparedCall {
    /// A program without a hook.
    pub fn of(run: impl FnOnce(&Arc<Call>) -> ToolOutcome + Send + 'static) -> Self {
        PreparedCall {
            admitted: None,
            run: Box::new(run),
        }
    }
}

/// Commits what a program did, or returns the reply that says why it was not committed.
pub type Commit = Box<dyn FnOnce() -> Option<ToolReply> + Send>;

/// The outcome of a program.
pub struct ToolOutcome {
    /// The reply; `None` when the program was ended and nobody waits for a reply.
    pub reply: Option<ToolReply>,
    /// Commits what the program did, once it is certain that its call was not cancelled.
    pub commit: Option<Commit>,
}

impl ToolOutcome {
    /// A reply, and nothing to commit.
    pub fn of(reply: ToolReply) -> Self {
        ToolOutcome {
            reply: Some(reply),
            commit: None,
        }
    }
}

pub struct ToolRequest<'a> {
    pub server: &'a Arc<Server>,
    pub connection: &'a Arc<Connection>,
    pub id: &'a Id,
    /// The era of the reply.
    pub era: Era,
    /// The key that identifies the call while it is in flight.
    pub key: &'a Id,
    /// `params.arguments` as sent.
    pub arguments: Option<Json<'a>>,
}

/// The tool that runs a program in a session.
pub const SESSION_EVAL: &str = "lisp_session_eval";

/// Every tool, in the order of `tools/list`.
const TOOLS: &[Tool] = &[
    Tool {
        name: "lisp_eval",
        listed: |_| true,
        profiled: true,
        entry: lisp_eval::entry,
        run: Execution::Program(lisp_eval::prepare),
    },
    Tool {
        name: "lisp_task",
        listed: |server| server.settings.agentic.enabled && server.is_aggregator(),
        profiled: false,
        entry: task::entry,
        run: Execution::Program(task::prepare),
    },
    Tool {
        name: "lisp_debug",
        listed: |server| server.settings.diagnostics.debug_tool,
        profiled: false,
        entry: debug::entry,
        run: Execution::Now(debug::run),
    },
    session_tool(
        "lisp_session_start",
        session::start_entry,
        Execution::Now(session::start),
    ),
    session_tool(
        "lisp_session_list",
        session::list_entry,
        Execution::Now(session::list),
    ),
    session_tool(
        SESSION_EVAL,
        session::eval_entry,
        Execution::Program(session::prepare),
    ),
    session_tool(
        "lisp_session_inspect",
        session::inspect_entry,
        Execution::Now(session::inspect),
    ),
    session_tool(
        "lisp_session_forget",
        session::forget_entry,
        Execution::Now(session::forget),
    ),
    session_tool(
        "lisp_session_close",
        session::close_entry,
        Execution::Now(session::close),
    ),
];

const fn session_tool(name: &'static str, entry: fn(&Server) -> Payload, run: Execution) -> Tool {
    Tool {
        name,
        listed: |server| server.sessions.are_enabled(),
        profiled: matches!(run, Execution::Program(_)),
        entry,
        run,
    }
}

impl Tool {
    /// How its results are rendered.
    pub fn view(&self, server: &Server) -> View {
        match self.profiled {
            true => View::Profile(server.settings.profile),
            false => View::Mirrored,
        }
    }
}

/// The tool that a call names. Session tools are found even where they are not listed, so that they can report that they are disabled.
pub fn find(server: &Server, name: &str) -> Option<&'static Tool> {
    let known = |tool: &&Tool| (tool.listed)(server) || is_session_tool(tool.name);
    TOOLS.iter().filter(known).find(|tool| tool.name == name)
}

/// Whether this is a tool for program sessions.
pub fn is_session_tool(name: &str) -> bool {
    name.starts_with("lisp_session_")
}

/// Whether this tool runs programs.
pub fn runs_program(name: &str) -> bool {
    TOOLS
        .iter()
        .any(|tool| tool.name == name && matches!(tool.run, Execution::Program(_)))
}

pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// The tools that `tools/list` shows.
pub fn listed(server: &Server) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(|tool| (tool.listed)(server))
}

/// The result of `tools/list`, rendered once.
pub fn list(server: &Server) -> Arc<Scrubbed<String>> {
    let made = || Arc::new(list_json(server));
    server.tools_list.get_or_init(made).clone()
}

/// The result of `tools/list` as JSON.
fn list_json(server: &Server) -> Scrubbed<String> {
    let tools: Vec<Field> = listed(server)
        .map(|tool| Field::Object((tool.entry)(server).with("name", tool.name)))
        .collect();
    let list = Payload::new().with("tools", Field::List(tools));
    server.redactor.scrub(list).derive(Payload::to_json)
}

/// The four hints of a tool.
pub fn annotations(
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
) -> Payload {
    Payload::new()
        .with("destructiveHint", destructive)
        .with("idempotentHint", idempotent)
        .with("openWorldHint", open_world)
        .with("readOnlyHint", read_only)
}
