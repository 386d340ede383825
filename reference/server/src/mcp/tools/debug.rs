//! `lisp_debug`: shows the contents of the ring and the traces, within a size. Knows nothing of how calls are recorded.

use super::annotations;
use super::argument::{self, Argument, ArgumentFault, Shape};
use crate::clock;
use crate::diagnostics::observe::Observers;
use crate::diagnostics::record::{CallRecord, Ring, SharedRecord, trace_keys};
use crate::diagnostics::trace::Tracer;
use crate::render::profile::View;
use crate::render::reason::{Refusal, RefusalReason};
use crate::render::redact;
use crate::render::reply::{Era, Reply, ToolReply};
use crate::settings::PayloadPolicy;
use ptc_protocol::members::schema::{self, JsonSchema, Member, ObjectSchema};
use ptc_protocol::members::{
    DebugFound, DebugRecent, DebugStats, Errors, EstimatedTokens, Failure, PayloadReduction,
    PlannerTally, Reducer, ReductionRatio, Spread, TaskTally, ToolTally, UpstreamTally, Window,
};
use ptc_protocol::{Field, Name, Payload};
use ptc_rpc::{Id, Json, JsonKind, JsonText};
use ptc_secrets::Redactor;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Stats,
    Recent,
    Get,
}

const OPS: &[(&str, Op)] = &[
    ("stats", Op::Stats),
    ("recent", Op::Recent),
    ("get", Op::Get),
];

struct DebugQuery {
    op: Op,
    limit: usize,
    since_seconds: Option<i64>,
    errors_only: bool,
    request_id: String,
}

const LIMIT_DEFAULT: i64 = 20;
const LIMIT_MAX: i64 = 200;
const SINCE_SECONDS_MAX: i64 = 86_400;
const REQUEST_ID_BYTES_MAX: usize = 256;
const TOP_REDUCERS: usize = 10;

/// A call, and what it may see.
pub struct DebugCall<'a> {
    pub observers: &'a Observers,
    /// Bytes of the largest reply.
    pub response_bytes: usize,
    pub id: &'a Id,
    pub era: Era,
    pub arguments: Option<Json<'a>>,
}

pub fn run(call: &DebugCall<'_>) -> ToolReply {
    let query = match read(call.arguments, &call.observers.redactor) {
        Ok(query) => query,
        Err(fault) => {
            let refusal = Refusal::Arguments(fault.to_string());
            return ToolReply::new(refusal.payload(), View::Mirrored);
        }
    };
    let Some(ring) = &call.observers.ring else {
        let message = "the debug ring is off".to_owned();
        return ToolReply::new(Refusal::Arguments(message).payload(), View::Mirrored);
    };
    let payload = match query.op {
        Op::Stats => stats(call, ring, &query),
        Op::Recent => recent(call, ring, &query),
        Op::Get => get(call, ring, &query),
    };
    ToolReply::new(payload, View::Mirrored)
}

/// The entry in `tools/list`.
pub fn entry() -> Payload {
    Payload::new()
        .with("annotations", annotations(true, false, true, false))
        .with(
            "description",
            "Look at recent tool calls of this server: op \"stats\" sums them up, \"recent\" lists them, \"get\" shows one by its \
             request id. Everything is scrubbed of credentials.",
        )
        .with("inputSchema", argument::schema(ARGUMENTS, true))
        .with("outputSchema", output_schema())
}

const OP: Argument = Argument::required("op", Shape::Word(ops), "");
const LIMIT: Argument = Argument::optional(
    "limit",
    Shape::Integer {
        max: Some(LIMIT_MAX),
    },
    "recent: most records returned (default 20)",
);
const SINCE_SECONDS: Argument = Argument::optional(
    "since_seconds",
    Shape::Integer {
        max: Some(SINCE_SECONDS_MAX),
    },
    "stats/recent: only calls newer than this",
);
const ERRORS_ONLY: Argument = Argument::optional(
    "errors_only",
    Shape::Bool,
    "stats/recent: only calls that failed",
);
const REQUEST_ID: Argument = Argument::optional(
    "request_id",
    Shape::TextWithin(REQUEST_ID_BYTES_MAX),
    "get: the call to show (required for op=get)",
);
const ARGUMENTS: &[Argument] = &[OP, LIMIT, SINCE_SECONDS, ERRORS_ONLY, REQUEST_ID];

fn ops() -> Vec<&'static str> {
    OPS.iter().map(|(name, _)| *name).collect()
}

/// The reasons for which it refuses.
const REASONS: [RefusalReason; 3] = [
    RefusalReason::Arguments,
    RefusalReason::UnknownTool,
    RefusalReason::ShuttingDown,
];

fn output_schema() -> Payload {
    let policies = PayloadPolicy::NAMES.iter().map(|(name, _)| *name);
    let answer = |members: &[Member], op: &'static str| {
        ObjectSchema::of(members)
            .described("op", schema::constant(op))
            .described("payload_policy", schema::one_word_of(policies.clone()))
            .described("redaction_applied", schema::constant(true))
    };
    // The schema admits nulls that the server does not send, as clients have known it.
    let block = || schema::nullable(Payload::json_schema());
    let stats = answer(DebugStats::MEMBERS, "stats")
        .optional(&["errors", "trace_dir_enabled"])
        .described("debug_source", schema::constant(RING))
        .described("agentic", block())
        .described("payload_reduction", block())
        .described("upstream_calls", block());
    let recent = answer(DebugRecent::MEMBERS, "recent");
    let found = answer(DebugFound::MEMBERS, "get")
        .optional(&["source"])
        .described("source", schema::one_word_of([RING, TRACE_FILE]));
    let reasons = schema::one_word_of(REASONS.map(RefusalReason::name));
    let refused = ObjectSchema::of(Failure::MEMBERS)
        .only(&["feedback", "message", "reason", "status"])
        .described("reason", reasons);
    let answers = [stats, recent, found, refused];
    schema::one_of(answers.map(ObjectSchema::into_payload).into())
}

/// Where a record comes from.
const RING: &str = "ring_buffer";
const TRACE_FILE: &str = "trace_file";

fn read(arguments: Option<Json<'_>>, redactor: &Redactor) -> Result<DebugQuery, ArgumentFault> {
    let arguments = arguments.filter(|arguments| arguments.kind() == JsonKind::Object);
    let given = |argument: &Argument| {
        arguments
            .and_then(|arguments| arguments.get(argument.name))
            .filter(|value| !value.is_null())
    };
    let judged = |argument: &Argument| {
        let value = given(argument);
        match value.and_then(|value| Some((argument.mismatch(value)?, value))) {
            Some((expected, value)) => Err(ArgumentFault::Value {
                name: argument.name,
                expected,
                shown: shown(value, redactor),
            }),
            None => Ok(value),
        }
    };
    let op = judged(&OP)?.and_then(Json::as_str);
    let op = op.and_then(|word| OPS.iter().find(|(name, _)| *name == word));
    let Some((_, op)) = op else {
        return Err(ArgumentFault::NoOp(ops()));
    };
    let limit = judged(&LIMIT)?.and_then(Json::as_i64);
    let since_seconds = judged(&SINCE_SECONDS)?.and_then(Json::as_i64);
    let errors_only = judged(&ERRORS_ONLY)?.and_then(Json::as_bool);
    let request_id = given(&REQUEST_ID).and_then(Json::as_str);
    if request_id
        .as_ref()
        .is_some_and(|text| text.len() > REQUEST_ID_BYTES_MAX)
    {
        return Err(ArgumentFault::RequestIdTooLong {
            bytes_max: REQUEST_ID_BYTES_MAX,
        });
    }
    if *op == Op::Get && request_id.as_ref().is_none_or(|text| text.is_empty()) {
        return Err(ArgumentFault::NoRequestId);
    }
    judged(&REQUEST_ID)?;
    Ok(DebugQuery {
        op: *op,
        limit: usize::try_from(limit.unwrap_or(LIMIT_DEFAULT)).unwrap_or_default(),
        since_seconds,
        errors_only: errors_only.unwrap_or_default(),
        request_id: request_id.map(Cow::into_owned).unwrap_or_default(),
    })
}

/// A value as a message echoes it: quotes enclose what is left of a truncated string.
fn shown(value: Json<'_>, redactor: &Redactor) -> String {
    const CHARS_MAX: usize = 64;
    let text = match value.as_str() {
        Some(text) => redactor.scrub_str(&text).into_owned(),
        None => redact::compact(value, redactor).into(),
    };
    let kept: String = text.chars().take(CHARS_MAX).collect();
    let is_cut = kept.len() < text.len();
    let mut shown = match value.kind() {
        JsonKind::String => JsonText::string(&kept).into(),
        _ => kept,
    };
    if is_cut {
        shown.push_str("...");
    }
    shown
}

fn select(ring: &Ring, query: &DebugQuery) -> Vec<SharedRecord> {
    let since = query
        .since_seconds
        .map(|seconds| clock::now_micros().saturating_sub(seconds.saturating_mul(1_000_000)));
    ring.select(since, query.errors_only)
}

/// Bytes of the complete reply line.
fn line_bytes(call: &DebugCall<'_>, payload: &Payload) -> usize {
    let reply = Reply::tool(
        call.id.clone(),
        call.era,
        ToolReply::new(payload.clone(), View::Mirrored),
    );
    let mut line = Vec::new();
    Reply::write(&call.observers.redactor.scrub(reply), &mut line);
    line.len() + 1
}

fn fits(call: &DebugCall<'_>, payload: &Payload) -> bool {
    line_bytes(call, payload) <= call.response_bytes
}

fn recent(call: &DebugCall<'_>, ring: &Ring, query: &DebugQuery) -> Payload {
    let with = |records: &[Payload], truncated: Option<bool>| {
        Payload::from(DebugRecent {
            op: "recent",
            payload_policy: ring.policy().name(),
            redaction_applied: true,
            calls: records.to_vec(),
            count: records.len(),
            truncated,
        })
    };
    // Every record appears twice: as it is, and escaped in the mirror, whose quotes account for the commas between records. At most
    // one record is rendered that does not fit.
    let cap = call.response_bytes;
    let mut room = cap
        .saturating_add(COMMAS)
        .saturating_sub(line_bytes(call, &with(&[], None)));
    let mut records = Vec::new();
    let mut truncated = None;
    for record in select(ring, query).iter().take(query.limit) {
        let record = record.payload(false);
        let json = record.to_json();
        let mut mirrored = Vec::new();
        ptc_rpc::write_string(&mut mirrored, &json);
        let Some(left) = room.checked_sub(json.len() + mirrored.len()) else {
            truncated = Some(true);
            break;
        };
        room = left;
        records.push(record);
    }
    let mut payload = with(&records, truncated);
    while !records.is_empty() && !fits(call, &payload) {
        records.pop();
        payload = with(&records, Some(true));
    }
    payload
}

/// The first record has no comma before it, neither in the reply nor in its mirror.
const COMMAS: usize = 2;

fn get(call: &DebugCall<'_>, ring: &Ring, query: &DebugQuery) -> Payload {
    let record = ring.find(&query.request_id);
    let mut keys = trace_keys(&query.request_id);
    // An id that was truncated or scrubbed is looked up as it is shown.
    keys.extend(record.as_ref().map(|record| record.trace_key.clone()));
    let tracer = call.observers.tracer.as_ref();
    let trace = tracer.and_then(|tracer| Some((tracer, tracer.find(&keys)?)));
    let mut answer = DebugFound {
        op: "get",
        payload_policy: ring.policy().name(),
        redaction_applied: true,
        request_id: query.request_id.clone(),
        found: record.is_some() || trace.is_some(),
        source: RING,
        ..DebugFound::default()
    };
    match trace {
        Some((tracer, path)) if tracer.policy() == PayloadPolicy::Full => {
            answer.source = TRACE_FILE;
            answer.record = inline(tracer, &path, call);
            if answer.record.is_none() {
                answer.truncated = Some(true);
                answer.note = Some(format!(
                    "trace file {} exceeds --max-debug-response-bytes; read it directly under --trace-dir",
                    file_name(&path)
                ));
            }
        }
        trace => {
            answer.record = record.map(|record| record.payload(true).into());
            if let Some((tracer, path)) = trace {
                if answer.record.is_none() {
                    answer.source = TRACE_FILE;
                }
                answer.note = Some(format!(
                    "an on-disk trace exists ({}) under --trace-dir; not inlined under --trace-payloads={} — read it there, or \
                     restart with --trace-payloads full to inline it here",
                    file_name(&path),
                    tracer.policy().name()
                ));
            }
        }
    }
    let payload = Payload::from(answer.clone());
    if !answer.found || fits(call, &payload) {
        return payload;
    }
    let note = "record exceeds --max-debug-response-bytes; set --trace-dir and read the trace file directly";
    DebugFound {
        record: None,
        note: Some(note.to_owned()),
        truncated: Some(true),
        ..answer
    }
    .into()
}

fn file_name(path: &std::path::Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The lines of a trace file; `None` when the file is larger than a reply may be.
fn inline(tracer: &Tracer, path: &std::path::Path, call: &DebugCall<'_>) -> Option<Field> {
    let cap = call.response_bytes as u64;
    let text = tracer.read(path, cap)?;
    let lines = text
        .lines()
        .map(|line| match ptc_rpc::parse(line.as_bytes()) {
            Ok(json) => Field::Json(json.compact().into()),
            Err(_) => Field::Object(Payload::new().with("_raw", line.to_owned())),
        });
    Some(Field::List(lines.collect()))
}

fn stats(call: &DebugCall<'_>, ring: &Ring, query: &DebugQuery) -> Payload {
    let records = select(ring, query);
    let reasons = records.iter().filter_map(|record| record.reason.as_deref());
    let mut stats = DebugStats {
        op: "stats",
        payload_policy: ring.policy().name(),
        redaction_applied: true,
        debug_source: RING,
        errors: Errors {
            by_reason: counts(reasons),
        },
        ring_count: ring.count(),
        ring_size: ring.size(),
        trace_dir_enabled: call.observers.tracer.is_some(),
        window: window(&records),
        by_tool: Some(by_tool(&records, true)),
        upstream_calls: upstream_calls(&records),
        payload_reduction: payload_reduction(&records),
        agentic: agentic(&records),
        truncated: None,
    };
    for give_up in SHRINKING {
        let payload = Payload::from(stats.clone());
        if fits(call, &payload) {
            return payload;
        }
        give_up(&mut stats, &records);
        stats.truncated = Some(true);
    }
    stats.into()
}

/// Parts of the statistics that are dropped one after the other when the reply is too large.
const SHRINKING: &[fn(&mut DebugStats, &[SharedRecord])] = &[
    |stats, _| {
        if let Some(block) = &mut stats.payload_reduction {
            block.top_reducers = None;
        }
    },
    |stats, _| stats.payload_reduction = None,
    |stats, _| {
        if let Some(block) = &mut stats.upstream_calls {
            block.by_server = None;
        }
    },
    |stats, records| stats.by_tool = Some(by_tool(records, false)),
    |stats, _| stats.by_tool = None,
    |stats, _| stats.upstream_calls = None,
];

fn window(records: &[SharedRecord]) -> Window {
    let text = |ts: Option<i64>| ts.map(clock::text);
    Window {
        calls: records.len(),
        from: text(records.iter().map(|record| record.ts).min()),
        to: text(records.iter().map(|record| record.ts).max()),
    }
}

fn counts<'a>(words: impl Iterator<Item = &'a str>) -> Payload {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    named(counts, |count| count)
}

/// An object with a member for each name.
fn named<T, F: Into<Field>>(members: BTreeMap<&str, T>, shown: impl Fn(T) -> F) -> Payload {
    let members = members.into_iter();
    members
        .map(|(name, member)| (Name::from(name.to_owned()), shown(member).into()))
        .collect()
}

/// With `timed`, includes how long the calls took.
fn by_tool(records: &[SharedRecord], timed: bool) -> Payload {
    let mut tools: BTreeMap<&str, Vec<&CallRecord>> = BTreeMap::new();
    for record in records {
        tools.entry(&record.tool).or_default().push(record);
    }
    named(tools, |records| {
        let errors = records.iter().filter(|record| record.is_error).count();
        let mut durations: Vec<u64> = records.iter().map(|record| record.duration_ms).collect();
        durations.sort_unstable();
        ToolTally {
            calls: records.len(),
            error: errors,
            error_rate: (errors as f64 / records.len() as f64 * 1000.0).round() / 1000.0,
            ok: records.len() - errors,
            duration_ms: timed.then(|| Spread {
                max: durations.last().copied(),
                p50: nearest_rank(&durations, 50),
                p95: nearest_rank(&durations, 95),
            }),
        }
    })
}

/// The percentile of sorted values by nearest rank.
fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn upstream_calls(records: &[SharedRecord]) -> Option<UpstreamTally> {
    let entries: Vec<&Payload> = records
        .iter()
        .flat_map(|record| &record.upstream_calls)
        .collect();
    if entries.is_empty() {
        return None;
    }
    let mut servers: BTreeMap<&str, Vec<&Payload>> = BTreeMap::new();
    for entry in &entries {
        let server = entry.text("server").unwrap_or_default();
        servers.entry(server).or_default().push(entry);
    }
    Some(UpstreamTally {
        by_server: Some(named(servers, |entries| tally(&entries))),
        ..tally(&entries)
    })
}

fn tally(entries: &[&Payload]) -> UpstreamTally {
    let failed = entries
        .iter()
        .filter(|entry| entry.text("status") != Some("ok"));
    let reasons = failed
        .clone()
        .map(|entry| entry.text("reason").unwrap_or("upstream_error"));
    UpstreamTally {
        by_reason: counts(reasons),
        ok: entries.len() - failed.count(),
        total: entries.len(),
        by_server: None,
    }
}

fn number(payload: &Payload, name: &str) -> i64 {
    match payload.get(name) {
        Some(Field::Int(number)) => *number,
        _ => 0,
    }
}

fn two_digits(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn payload_reduction(records: &[SharedRecord]) -> Option<PayloadReduction> {
    let measured: Vec<(&CallRecord, &Payload)> = records
        .iter()
        .filter_map(|record| Some((&**record, record.metrics.as_ref()?)))
        .collect();
    if measured.is_empty() {
        return None;
    }
    let sum = |name: &str| {
        measured
            .iter()
            .map(|(_, metrics)| number(metrics, name))
            .sum::<i64>()
    };
    let (upstream, last) = (sum("upstream_result_bytes"), sum("final_result_bytes"));
    let ratio = |metrics: &Payload| match metrics.get("payload_reduction_ratio") {
        Some(Field::Float(ratio)) => Some(*ratio),
        Some(Field::Int(ratio)) => Some(*ratio as f64),
        _ => None,
    };
    let mut reducers: Vec<(f64, &CallRecord, &Payload)> = measured
        .iter()
        .filter_map(|(record, metrics)| Some((ratio(metrics)?, *record, *metrics)))
        .collect();
    let mut ratios: Vec<f64> = reducers.iter().map(|(ratio, ..)| *ratio).collect();
    ratios.sort_by(f64::total_cmp);
    reducers.sort_by(|left, right| right.0.total_cmp(&left.0).then(right.1.ts.cmp(&left.1.ts)));
    let top = reducers
        .iter()
        .take(TOP_REDUCERS)
        .map(|(ratio, record, metrics)| Reducer {
            final_result_bytes: number(metrics, "final_result_bytes"),
            ratio: *ratio,
            request_id: record.request_id.clone(),
            tool: Field::word(record.tool.clone()),
            ts: clock::text(record.ts),
            upstream_result_bytes: number(metrics, "upstream_result_bytes"),
        });
    Some(PayloadReduction {
        calls_with_metrics: measured.len(),
        estimated_tokens: EstimatedTokens {
            final_result: tokens(last),
            method: "utf8_bytes_div_4",
            upstream_result: tokens(upstream),
        },
        reduction_ratio: ReductionRatio {
            max: ratios.last().copied(),
            p50: nearest_rank(&ratios, 50),
            p95: nearest_rank(&ratios, 95),
            weighted: (upstream > 0 && last > 0).then(|| two_digits(upstream as f64 / last as f64)),
        },
        schema_version: 1,
        total_final_result_bytes: last,
        total_upstream_calls: sum("upstream_call_count"),
        total_upstream_error_bytes: sum("upstream_error_bytes"),
        total_upstream_oversize_bytes: sum("upstream_oversize_bytes"),
        total_upstream_result_bytes: upstream,
        top_reducers: Some(top.collect()),
        agentic_planner: agentic_planner(&measured),
    })
}

fn tokens(bytes: i64) -> i64 {
    (bytes + 3) / 4
}

fn agentic_planner(measured: &[(&CallRecord, &Payload)]) -> Option<PlannerTally> {
    let costs: Vec<&Payload> = measured
        .iter()
        .filter_map(|(_, metrics)| match metrics.get("server_side_llm") {
            Some(Field::Object(cost)) => Some(cost),
            _ => None,
        })
        .collect();
    if costs.is_empty() {
        return None;
    }
    let sum = |name: &str| costs.iter().map(|cost| number(cost, name)).sum::<i64>();
    let reported = costs
        .iter()
        .filter(|cost| cost.is_true("provider_reported"))
        .count();
    let all = |name: &str| (reported == costs.len()).then(|| sum(name));
    let (prompt, completion) = (sum("prompt_bytes"), sum("completion_bytes"));
    Some(PlannerTally {
        estimated_total_tokens: tokens(prompt) + tokens(completion),
        provider_reported_tasks: reported,
        tasks: costs.len(),
        total_completion_bytes: completion,
        total_completion_tokens: all("completion_tokens"),
        total_prompt_bytes: prompt,
        total_prompt_tokens: all("prompt_tokens"),
    })
}

fn agentic(records: &[SharedRecord]) -> Option<TaskTally> {
    let tasks: Vec<&CallRecord> = records
        .iter()
        .map(|record| &**record)
        .filter(|record| record.tool == "lisp_task")
        .collect();
    if tasks.is_empty() {
        return None;
    }
    let blocks: Vec<&Payload> = tasks
        .iter()
        .filter_map(|record| record.agentic.as_ref())
        .collect();
    let sum = |name: &str| blocks.iter().map(|block| number(block, name)).sum::<i64>();
    let errors = blocks
        .iter()
        .filter(|block| block.text("planner_status") == Some("error"))
        .count();
    Some(TaskTally {
        planner_calls: blocks.len(),
        planner_errors: errors,
        planner_rejects: sum("planner_rejects"),
        retries: sum("retries"),
        tasks: tasks.len(),
    })
}

#[cfg(test)]
mod tests;
