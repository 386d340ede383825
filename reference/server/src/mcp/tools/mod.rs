//! The MCP tools as one table. Knows nothing of frames; each tool lives in its own file.

mod argument;
mod card;
mod debug;
mod lisp_eval;
pub mod program;
mod session;
pub mod task;

use crate::call::Call;
use crate::diagnostics::observe::Observers;
use crate::mcp::connection::Connection;
use crate::render::profile::View;
use crate::render::reason::Refusal;
use crate::render::reply::{Era, RefusalForm, ToolReply};
use crate::sessions::Sessions;
use crate::settings::ResponseProfile;
use debug::DebugCall;
use program::ProgramContext;
use ptc_protocol::{Field, Payload};
use ptc_rpc::{Id, Json};
use ptc_secrets::Scrubbed;
use session::SessionCall;
use std::sync::{Arc, OnceLock};
use task::TaskContext;

/// What tools may use. Each gets only its own part: see the rows of [`TOOLS`].
pub struct ToolContext {
    pub programs: ProgramContext,
    pub sessions: Arc<Sessions>,
    pub tasks: TaskContext,
    pub observers: Arc<Observers>,
    /// Bytes of the largest reply of `lisp_debug`; `None` when it is disabled.
    pub debug_bytes: Option<usize>,
    /// Whether the operator asserts that every upstream tool only reads.
    pub read_only: bool,
    /// The result of `tools/list`, rendered on first use.
    pub list: OnceLock<Arc<Scrubbed<String>>>,
}

pub struct Tool {
    pub name: &'static str,
    /// Whether `tools/list` shows it.
    pub listed: fn(&ToolContext) -> bool,
    /// Whether its results follow the response profile; all others are mirrored in full.
    pub profiled: bool,
    /// Its entry in `tools/list`, without the name.
    pub entry: fn(&ToolContext) -> Payload,
    /// The payload of a call that does not run, or not to its end.
    pub refused: fn(&Refusal) -> Payload,
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

/// A call of a tool, and what tools may use.
pub struct ToolRequest<'a> {
    pub tools: &'a ToolContext,
    pub connection: &'a Arc<Connection>,
    pub id: &'a Id,
    /// The era of the reply.
    pub era: Era,
    /// The key that identifies the call while it is in flight.
    pub key: &'a Id,
    /// `params.arguments` as sent.
    pub arguments: Option<Json<'a>>,
}

impl<'a> ToolRequest<'a> {
    fn in_sessions(&self) -> SessionCall<'a> {
        SessionCall {
            sessions: &self.tools.sessions,
            programs: &self.tools.programs,
            connection: self.connection,
            key: self.key,
            arguments: self.arguments,
        }
    }

    fn of_debug(&self) -> DebugCall<'a> {
        DebugCall {
            observers: &self.tools.observers,
            response_bytes: self.tools.debug_bytes.unwrap_or_default(),
            id: self.id,
            era: self.era,
            arguments: self.arguments,
        }
    }
}

/// The tool that runs a program in a session.
pub const SESSION_EVAL: &str = "lisp_session_eval";

/// Every tool, in the order of `tools/list`.
const TOOLS: &[Tool] = &[
    Tool {
        name: "lisp_eval",
        listed: |_| true,
        profiled: true,
        entry: |tools| lisp_eval::entry(&tools.programs, tools.read_only),
        refused: Refusal::payload,
        run: Execution::Program(|call| lisp_eval::prepare(call.arguments, &call.tools.programs)),
    },
    Tool {
        name: "lisp_task",
        listed: |tools| tools.tasks.is_offered(),
        profiled: false,
        entry: |tools| task::entry(&tools.tasks, tools.read_only),
        refused: task::refused,
        run: Execution::Program(|call| task::prepare(call.arguments, &call.tools.tasks)),
    },
    Tool {
        name: "lisp_debug",
        listed: |tools| tools.debug_bytes.is_some(),
        profiled: false,
        entry: |_| debug::entry(),
        refused: Refusal::payload,
        run: Execution::Now(|call| debug::run(&call.of_debug())),
    },
    session_tool(
        "lisp_session_start",
        |_| session::start_entry(),
        Execution::Now(|call| session::start(&call.in_sessions())),
    ),
    session_tool(
        "lisp_session_list",
        |_| session::list_entry(),
        Execution::Now(|call| session::list(&call.in_sessions())),
    ),
    session_tool(
        SESSION_EVAL,
        |tools| {
            let upstreams = tools.programs.programs.upstreams.as_deref();
            session::eval_entry(tools.programs.profile, upstreams)
        },
        Execution::Program(|call| session::prepare(&call.in_sessions())),
    ),
    session_tool(
        "lisp_session_inspect",
        |_| session::inspect_entry(),
        Execution::Now(|call| session::inspect(&call.in_sessions())),
    ),
    session_tool(
        "lisp_session_forget",
        |_| session::forget_entry(),
        Execution::Now(|call| session::forget(&call.in_sessions())),
    ),
    session_tool(
        "lisp_session_close",
        |_| session::close_entry(),
        Execution::Now(|call| session::close(&call.in_sessions())),
    ),
];

const fn session_tool(
    name: &'static str,
    entry: fn(&ToolContext) -> Payload,
    run: Execution,
) -> Tool {
    Tool {
        name,
        listed: |tools| tools.sessions.are_enabled(),
        profiled: matches!(run, Execution::Program(_)),
        entry,
        refused: Refusal::payload,
        run,
    }
}

impl Tool {
    /// How its results are rendered.
    pub fn view(&self, profile: ResponseProfile) -> View {
        match self.profiled {
            true => View::Profile(profile),
            false => View::Mirrored,
        }
    }

    /// How its calls are refused.
    pub fn refusal_form(&self, profile: ResponseProfile, era: Era) -> RefusalForm {
        RefusalForm {
            payload: self.refused,
            view: self.view(profile),
            era,
        }
    }
}

/// The tool that a call names. Session tools are found even where they are not listed, so that they can report that they are disabled.
pub fn find(tools: &ToolContext, name: &str) -> Option<&'static Tool> {
    let known = |tool: &&Tool| (tool.listed)(tools) || is_session_tool(tool.name);
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
pub fn listed(tools: &ToolContext) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(|tool| (tool.listed)(tools))
}

/// The result of `tools/list`, rendered once.
pub fn list(tools: &ToolContext) -> Arc<Scrubbed<String>> {
    let made = || Arc::new(list_json(tools));
    tools.list.get_or_init(made).clone()
}

/// The result of `tools/list` as JSON.
fn list_json(tools: &ToolContext) -> Scrubbed<String> {
    let entries: Vec<Field> = listed(tools)
        .map(|tool| Field::Object((tool.entry)(tools).with("name", tool.name)))
        .collect();
    let list = Payload::new().with("tools", Field::List(entries));
    tools
        .programs
        .programs
        .redactor
        .scrub(list)
        .derive(Payload::to_json)
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
