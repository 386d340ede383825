//! `lisp_eval`: one program, nothing kept. Knows nothing of sessions or transports.

use super::argument::{self, Argument, ArgumentFault};
use super::program::{self, ProgramContext};
use super::{NotReady, PreparedCall, ToolOutcome, annotations, card};

use crate::evaluation::{self, ProgramRun};
use crate::render::profile::{self, View};
use crate::render::reason::{Refusal, RefusalReason};
use crate::render::reply::ToolReply;
use crate::settings::ResponseProfile;
use ptc_protocol::ErrorReason;
use ptc_protocol::{Field, Payload};
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
            entry.set("outputSchema", Field::OwnJson(STRUCTURED_SCHEMA.into()));
        }
        ResponseProfile::Debug => {
            entry.set(
                "outputSchema",
                Field::OwnJson(debug_schema(upstreams.is_some()).into()),
            );
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

/// Every reply of the structured profile satisfies this, even one that the envelope guard truncated.
const STRUCTURED_SCHEMA: &str = r#"{"oneOf":[{"properties":{"output_truncated":{"type":"boolean"},"result":{"type":"string"},"status":{"const":"ok"},"truncated":{"type":"boolean"},"upstream_results":{"items":{"type":"object"},"type":"array"},"validated":{},"validated_bytes":{"minimum":0,"type":"integer"},"validated_preview":{"type":"string"},"validated_preview_truncated":{"type":"boolean"}},"required":["status"],"type":"object"},{"properties":{"feedback":{"type":"string"},"feedback_truncated":{"type":"boolean"},"message":{"type":"string"},"output_truncated":{"type":"boolean"},"reason":{"type":"string"},"result":{"type":"string"},"status":{"const":"error"},"truncated":{"type":"boolean"},"upstream_calls":{"items":{"properties":{"reason":{"type":"string"},"server":{"type":"string"},"status":{"const":"error"},"tool":{"type":"string"}},"required":["server","tool","status"],"type":"object"},"type":"array"}},"required":["status","reason","message"],"type":"object"}],"type":"object"}"#;

/// Members of every debug reply.
const DEBUG_SUCCESS: &str = r#""feedback":{"type":"string"},"feedback_truncated":{"type":"boolean"},"output_truncated":{"type":"boolean"},"prints":{"items":{"type":"string"},"type":"array"},"prints_truncated":{"type":"boolean"},"result":{"type":["string","null"]},"status":{"const":"ok"},"truncated":{"type":"boolean"},"validated":{},"validated_bytes":{"minimum":0,"type":"integer"},"validated_preview":{"type":"string"},"validated_preview_truncated":{"type":"boolean"}"#;
const DEBUG_ERROR: &str = r#""feedback":{"type":"string"},"feedback_truncated":{"type":"boolean"},"message":{"type":"string"},"output_truncated":{"type":"boolean"},"reason":{"enum":REASONS,"type":"string"},"result":{"type":"string"},"status":{"const":"error"},"truncated":{"type":"boolean"}"#;
/// Members that debug replies add with upstreams.
const DEBUG_UPSTREAM: &str = r#","ptc_metrics":{"type":["object","null"]},"upstream_calls":{"items":{"properties":{"auth":{"properties":{"binding":{"type":"string"},"scheme":{"type":"string"}},"required":["scheme","binding"],"type":"object"},"duration_ms":{"minimum":0,"type":"integer"},"error":{"type":"string"},"http_status":{"maximum":599,"minimum":100,"type":"integer"},"oversize":{"type":"boolean"},"reason":{"enum":REASONS,"type":"string"},"result_bytes":{"minimum":0,"type":["integer","null"]},"server":{"type":"string"},"status":{"enum":["ok","error"],"type":"string"},"tool":{"type":"string"}},"required":["server","tool","status","duration_ms"],"type":"object"},"type":"array"},"upstream_results":{"items":{"type":"object"},"type":"array"}"#;

fn debug_schema(aggregator: bool) -> String {
    let refusals = RefusalReason::ALL.iter().map(|reason| reason.name());
    let programs = ErrorReason::ALL.iter().map(|reason| reason.name());
    // Both lists have a word for wrong arguments.
    let refusals = refusals.filter(|name| ErrorReason::from_name(name).is_none());
    let error = DEBUG_ERROR.replace("REASONS", &names_json(programs.chain(refusals)));
    let upstreams = ptc_upstream::Reason::ALL.iter().map(|reason| reason.name());
    let more = match aggregator {
        true => DEBUG_UPSTREAM.replace("REASONS", &names_json(upstreams)),
        false => String::new(),
    };
    format!(
        "{{\"oneOf\":[{{\"properties\":{{{DEBUG_SUCCESS}{more}}},\"required\":[\"status\",\"truncated\"],\"type\":\"object\"}},\
         {{\"properties\":{{{error}{more}}},\"required\":[\"status\",\"reason\",\"message\"],\"type\":\"object\"}}],\"type\":\"object\"}}"
    )
}

/// Plain names as a JSON array.
fn names_json(names: impl Iterator<Item = &'static str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    format!("[{}]", quoted.join(","))
}
