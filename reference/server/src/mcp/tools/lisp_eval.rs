//! `lisp_eval`: one program, nothing kept. Knows nothing of sessions or transports.

use super::argument::{self, Argument, ArgumentFault};
use super::program::{self, ProgramContext};
use super::{NotReady, PreparedCall, ToolOutcome, annotations, card};

use crate::evaluation::{self, ProgramRun};
use crate::render::profile::{self, View};
use crate::render::reason::{Refusal, RefusalReason};
use crate::render::reply::ToolReply;
use crate::settings::ResponseProfile;
use ptc_protocol::members::schema::{self, JsonSchema, Member, ObjectSchema};
use ptc_protocol::members::{
    Failure, Metrics, Success, Truncated, UpstreamCall, UpstreamMembers, UpstreamResult,
    ValidatedPreview,
};
use ptc_protocol::{ErrorReason, Payload};
use ptc_rpc::Json;

/// Validates the arguments and prepares the program.
pub fn prepare(
    arguments: Option<Json<'_>>,
    context: &ProgramContext,
) -> Result<PreparedCall, NotReady> {
    let profile = context.profile;
    let view = View::Profile(profile);
    let refuse = |fault: ArgumentFault| {
        ToolReply::new(Refusal::Arguments(fault.to_string()).payload(), view)
    };
    let arguments = program::validate(arguments, context.limits).map_err(refuse)?;
    let schema = evaluation::OutputSchema::read(arguments.output_schema.as_deref())
        .map_err(|fault| refuse(fault.into()))?;
    let programs = context.programs.clone();
    Ok(PreparedCall::of(move |call| {
        let job = ProgramRun {
            program: &arguments.program,
            context: arguments.context.json(),
            schema: schema.as_ref(),
            room: profile::room(profile),
            programs: &programs,
            call,
        };
        ToolOutcome::of(ToolReply::new(evaluation::run_once(&job), view))
    }))
}

/// The entry in `tools/list`.
pub fn entry(context: &ProgramContext, read_only: bool) -> Payload {
    let upstreams = context.programs.upstreams.as_deref();
    let hints = match (upstreams.is_some(), read_only) {
        (false, _) => annotations(true, false, true, false),
        (true, false) => annotations(false, true, false, true),
        (true, true) => annotations(true, false, false, true),
    };
    let arguments = match upstreams.is_some() {
        false => ARGUMENTS,
        true => AGGREGATOR_ARGUMENTS,
    };
    let mut entry = Payload::new()
        .with("annotations", hints)
        .with("description", card::lisp_eval(context.profile, upstreams))
        .with("inputSchema", argument::schema(arguments, false));
    match context.profile {
        ResponseProfile::Slim => {}
        ResponseProfile::Structured => {
            entry.set("outputSchema", structured_schema());
        }
        ResponseProfile::Debug => {
            entry.set("outputSchema", debug_schema(upstreams.is_some()));
        }
    }
    entry
}

/// The arguments of a call; `about` describes the output schema to clients.
const fn arguments(about: &'static str) -> [Argument; 3] {
    [
        program::CONTEXT,
        program::schema_argument(about),
        program::PROGRAM,
    ]
}

const ARGUMENTS: &[Argument] = &arguments(
    "Optional JSON Schema for the returned value. Types: string, integer, number, boolean, array with items, object with \
     properties and required. A match adds `validated` to the reply, for example \
     {\"type\":\"object\",\"properties\":{\"count\":{\"type\":\"integer\"}}}.",
);

/// The arguments with upstreams.
const AGGREGATOR_ARGUMENTS: &[Argument] = &arguments(
    "Optional JSON Schema for the returned value. Types: string, integer, number, boolean, array with items, object with \
     properties and required. Leave it out while exploring upstream answers.",
);

/// Members that only replies in sessions have.
const IN_SESSIONS: &[&str] = &[
    "detail",
    "history_notices",
    "memory",
    "session",
    "session_id",
];

/// Members that only the ledger of a session or of a task has.
const IN_OTHER_LEDGERS: &[&str] = &["args_hash", "effect", "result_overview", "turn"];

/// Every reply of a program that gave a value satisfies this, even one that the envelope guard truncated.
fn success() -> ObjectSchema {
    ObjectSchema::of(Success::MEMBERS)
        .with(Truncated::MEMBERS)
        .with(ValidatedPreview::MEMBERS)
        .without(IN_SESSIONS)
        .optional(profile::DROPPED_BY_GUARD)
}

/// The same for a program that gave none.
fn error() -> ObjectSchema {
    ObjectSchema::of(Failure::MEMBERS)
        .with(Truncated::MEMBERS)
        .without(IN_SESSIONS)
        .without(&["prints", "prints_truncated"])
        .optional(profile::DROPPED_BY_GUARD)
}

fn structured_schema() -> Payload {
    // The compact object has neither nulls nor a `truncated` that is false.
    let success = success()
        .only(profile::COMPACT_SUCCESS)
        .optional(&["truncated"])
        .described("result", schema::of_type("string"))
        .described("upstream_results", Vec::<UpstreamResult>::json_schema());
    let failed_call = ObjectSchema::of(UpstreamCall::MEMBERS)
        .only(profile::COMPACT_CALL)
        .described("status", schema::constant("error"));
    let error = error().only(profile::COMPACT_ERROR).described(
        "upstream_calls",
        schema::list_of(failed_call.into_payload()),
    );
    schema::one_of(vec![success.into_payload(), error.into_payload()])
}

/// `aggregator`: whether programs can call upstreams.
fn debug_schema(aggregator: bool) -> Payload {
    let refusals = RefusalReason::ALL.iter().map(|reason| reason.name());
    let programs = ErrorReason::ALL.iter().map(|reason| reason.name());
    // Both lists have a word for wrong arguments.
    let refusals = refusals.filter(|name| ErrorReason::from_name(name).is_none());
    let reasons = schema::one_word_of(programs.chain(refusals));
    let branches = [success(), error().described("reason", reasons)];
    let branch = |branch: ObjectSchema| match aggregator {
        true => branch.followed_by(upstream_members()).into_payload(),
        false => branch.into_payload(),
    };
    schema::one_of(branches.map(branch).into())
}

/// The members that replies add with upstreams. The schema admits more than the server sends, as clients have known it.
fn upstream_members() -> ObjectSchema {
    let reasons = ptc_upstream::Reason::ALL.iter().map(|reason| reason.name());
    let call = ObjectSchema::of(UpstreamCall::MEMBERS)
        .without(IN_OTHER_LEDGERS)
        .optional(&["oversize", "result_bytes"])
        .described("reason", schema::one_word_of(reasons))
        .described("status", schema::one_word_of(["ok", "error"]))
        .described("auth", ObjectSchema::of(AUTH).into_payload())
        .described(
            "http_status",
            u32::json_schema()
                .with("minimum", 100_usize)
                .with("maximum", 599_usize),
        );
    ObjectSchema::of(UpstreamMembers::MEMBERS)
        .described("ptc_metrics", schema::nullable(Metrics::json_schema()))
        .described("upstream_calls", schema::list_of(call.into_payload()))
}

/// How a call was authenticated.
const AUTH: &[Member] = &[
    Member::required("scheme", String::json_schema),
    Member::required("binding", String::json_schema),
];
