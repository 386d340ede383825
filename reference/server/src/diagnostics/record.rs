//! The record of recent calls: the ring behind `lisp_debug`. Contents are reduced by policy and scrubbed when they are stored.
//!
//! Knows nothing of how calls run.

use crate::clock;
use crate::lock::lock;
use crate::render::profile::prefix;
use crate::render::redact;
use crate::settings::PayloadPolicy;
use ptc_protocol::digest;
use ptc_protocol::members::{Described, Digested, RecordedCall, RecordedContent};
use ptc_protocol::{Field, Name, Payload};
use ptc_rpc::{Json, JsonKind, JsonText};
use ptc_secrets::{MARKER, Redactor, SharedTime};
use ptc_upstream::TraceContext;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A call as it was on arrival.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// The request's id as plain text; `None` for the null id.
    pub id: Option<String>,
    /// The tool's name, as called.
    pub tool: String,
    /// The tool's own name, if there is such a tool.
    pub known: Option<&'static str>,
    /// The revision that the client speaks.
    pub revision: &'static str,
    pub started: Instant,
    /// The time of arrival, in microseconds since 1970.
    pub started_micros: i64,
    /// The program, if one was sent.
    pub program: Option<String>,
    /// The context, if one was sent.
    pub context: Option<ContextText>,
    /// The W3C trace context of the request.
    pub trace: Option<TraceContext>,
    /// Over HTTP: `X-Request-Id`.
    pub transport_request_id: Option<String>,
    /// Over HTTP: `owner_hash`, `mcp_session_hash`.
    pub transport: Option<(String, String)>,
    /// The time budget for scrubbing everything that is kept of the call.
    pub time: SharedTime,
}

/// A context as compact JSON.
#[derive(Clone, Debug)]
pub struct ContextText {
    /// Scrubbed before it was made compact, which drops digits of numbers.
    pub clean: JsonText,
    /// Its bytes before it was scrubbed.
    pub bytes: usize,
}

impl ContextText {
    pub fn of(context: Json<'_>, redactor: &Redactor) -> Self {
        let clean = redact::compact(context, redactor);
        let bytes = match clean.contains(MARKER) {
            true => context.compact().len(),
            false => clean.len(),
        };
        ContextText { clean, bytes }
    }

    /// A member that is not scrubbed again.
    pub fn field(&self) -> Field {
        Field::OwnJson(self.clean.to_string().into())
    }
}

impl CallInfo {
    /// The key in the names of its trace files.
    pub fn trace_key(&self) -> String {
        trace_key(self.id.as_deref())
    }
}

/// First 8 hex digits of a digest of a request id; zeros for the null id.
fn trace_key(id: Option<&str>) -> String {
    match id {
        None => "00000000".into(),
        Some(id) => digest::hex(id.as_bytes())[..8].to_owned(),
    }
}

/// The keys of traces that a request id may refer to, as a client writes it: the null id is written like its name.
pub fn trace_keys(request_id: &str) -> Vec<String> {
    let null = (request_id == NULL).then_some(None);
    let ids = std::iter::once(Some(request_id)).chain(null);
    ids.map(trace_key).collect()
}

/// How the null id is shown.
const NULL: &str = "null";

/// A record, shared by the ring and its readers.
pub type SharedRecord = Arc<CallRecord>;

#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The request's id, bounded.
    pub request_id: String,
    /// The key of its trace, computed from the whole id.
    pub trace_key: String,
    pub tool: String,
    /// When it ended, in microseconds since 1970.
    pub ts: i64,
    pub is_error: bool,
    pub reason: Option<String>,
    /// How long a program ran; zero for everything else.
    pub duration_ms: u64,
    /// Calls to upstream servers.
    pub upstream_calls: Vec<Payload>,
    /// Cost and savings of the upstream calls.
    pub metrics: Option<Payload>,
    /// The planner's part.
    pub agentic: Option<Payload>,
    /// The members that describe program, context and result.
    content: Payload,
}

/// The most recent calls of a process.
pub struct Ring {
    size: usize,
    policy: PayloadPolicy,
    bytes_max: usize,
    records: Mutex<VecDeque<SharedRecord>>,
}

/// A longer id or name is truncated.
const ID_BYTES_MAX: usize = 256;
const ID_CHARS_KEPT: usize = 64;
/// The word for a request's id in the note that it was truncated.
const REQUEST: &str = "id";
/// The member of a record that holds the context.
const CONTEXT: &str = "context";
/// Bytes of the summary of one member of a context, without its name.
const SUMMARY_BYTES_MIN: usize = r#"{"count":0,"type":"null"}"#.len();
/// Characters of a program that the summary shows.
const PROGRAM_PREVIEW_CHARS: usize = 256;

impl Ring {
    /// A ring of `size` calls under a payload policy. No reply shows more than `bytes_max` bytes, so no longer text is kept: what is
    /// truncated here is too large to be shown anyway.
    pub fn new(size: usize, policy: PayloadPolicy, bytes_max: usize) -> Self {
        Ring {
            size,
            policy,
            bytes_max,
            records: Mutex::new(VecDeque::new()),
        }
    }

    pub fn policy(&self) -> PayloadPolicy {
        self.policy
    }

    /// The maximum number of calls.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Records a call that ended with `payload`, in full. `ran` tells whether a program ran.
    pub fn record(&self, info: &CallInfo, payload: &Payload, ran: bool, redactor: &Redactor) {
        let reason = payload
            .text("reason")
            .filter(|_| payload.text("status") == Some("error"));
        let refused = matches!(reason, Some("args_error" | "busy"));
        let program = info.program.as_deref().filter(|_| !refused);
        // Scrubbing comes before truncation.
        let clean = program.map(|program| redactor.scrub_str(program));
        let context = info.context.as_ref().filter(|_| !refused);
        let content = RecordedContent {
            context: context.map(|context| self.context_field(context)).into(),
            program: program
                .zip(clean)
                .map(|(program, clean)| self.program_field(program, &clean))
                .into(),
            prints_count: match payload.get("prints") {
                Some(Field::List(prints)) => Some(prints.len()),
                _ => None,
            },
            protocol_version: info.revision,
            result_bytes: payload.text("result").map(str::len),
            signature_present: false,
        };
        let mut content = redactor.scrub(Payload::from(content)).into_inner();
        // Kept as text, and no more than can be shown: a tree takes ten times as much memory.
        if let Some(Field::Object(summary)) = content.get(CONTEXT) {
            // Copied into an exact allocation: the written string has spare capacity, and shrinking it in place would leave a gap of that
            // size.
            let exact = summary.to_json().as_str().to_owned();
            content.set(CONTEXT, Field::OwnJson(exact.into()));
        }
        let upstream_calls = match payload.get("upstream_calls") {
            Some(Field::List(calls)) => calls
                .iter()
                .filter_map(|call| upstream_entry(call, redactor))
                .collect(),
            _ => Vec::new(),
        };
        let object = |name: &str| match payload.get(name) {
            Some(Field::Object(object)) => Some(redactor.scrub(object.clone()).into_inner()),
            _ => None,
        };
        let record = CallRecord {
            request_id: bounded(
                &redactor.scrub_str(info.id.as_deref().unwrap_or(NULL)),
                REQUEST,
            ),
            trace_key: info.trace_key(),
            tool: info.tool.clone(),
            ts: clock::now_micros(),
            is_error: payload.text("status") == Some("error"),
            reason: reason.map(str::to_owned),
            duration_ms: match ran {
                true => u64::try_from(info.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                false => 0,
            },
            upstream_calls,
            metrics: object("ptc_metrics"),
            agentic: object("agentic"),
            content,
        };
        let mut records = self.records();
        if records.len() >= self.size {
            records.pop_front();
        }
        records.push_back(Arc::new(record));
    }

    /// The current number of calls.
    pub fn count(&self) -> usize {
        self.records().len()
    }

    /// The calls that ended at or after `since` (microseconds since 1970), only failures with `errors_only`, newest first.
    pub fn select(&self, since: Option<i64>, errors_only: bool) -> Vec<SharedRecord> {
        let wanted = |record: &&SharedRecord| {
            since.is_none_or(|since| record.ts >= since) && (!errors_only || record.is_error)
        };
        self.records()
            .iter()
            .rev()
            .filter(wanted)
            .cloned()
            .collect()
    }

    /// The newest call with this id.
    pub fn find(&self, request_id: &str) -> Option<SharedRecord> {
        let wanted = bounded(request_id, REQUEST);
        self.records()
            .iter()
            .rev()
            .find(|record| record.request_id == wanted)
            .cloned()
    }

    /// Digest and size are those of the original program; the preview is of `clean`.
    fn program_field(&self, program: &str, clean: &str) -> Field {
        let preview = match self.policy {
            PayloadPolicy::Full => return Field::Text(prefix(clean, self.bytes_max).to_owned()),
            PayloadPolicy::Summary => Some(clean.chars().take(PROGRAM_PREVIEW_CHARS).collect()),
            PayloadPolicy::None => None,
        };
        Digested {
            preview,
            ..digest_of(program)
        }
        .into()
    }

    fn context_field(&self, context: &ContextText) -> Field {
        let clean = &context.clean;
        match self.policy {
            PayloadPolicy::Full if clean.len() > self.bytes_max => {
                Field::Text(prefix(clean, self.bytes_max).to_owned())
            }
            PayloadPolicy::Full => context.field(),
            PayloadPolicy::None => Field::Object(Payload::new().with("<bytes>", context.bytes)),
            PayloadPolicy::Summary => {
                let mut bytes = 0;
                let members = clean.json().members().map_while(|(name, value)| {
                    let name = name.as_str().unwrap_or_default();
                    let name = match name.len() > self.bytes_max {
                        true => prefix(&name, self.bytes_max + 1).to_owned(),
                        false => name.into_owned(),
                    };
                    let summary = describe(value);
                    // One member more than can be shown, so that a truncated summary is not taken for a complete one.
                    let goes_on = bytes <= self.bytes_max;
                    bytes += name.len() + SUMMARY_BYTES_MIN;
                    goes_on.then(|| (Name::from(name), summary.into()))
                });
                Field::Object(members.collect())
            }
        }
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<SharedRecord>> {
        lock(&self.records)
    }
}

impl CallRecord {
    /// The record as `recent` shows it, or as `get` does with `in_full`.
    pub fn payload(&self, in_full: bool) -> Payload {
        let calls = match in_full {
            true => Field::from(self.upstream_calls.clone()),
            false => Field::from(self.upstream_calls.len()),
        };
        let mut payload = self.content.clone();
        payload.add(RecordedCall {
            duration_ms: self.duration_ms,
            reason: self.reason.clone(),
            request_id: self.request_id.clone(),
            status: if self.is_error { "error" } else { "ok" },
            tool: Field::word(self.tool.clone()),
            ts: clock::text(self.ts),
            upstream_calls: calls,
            ptc_metrics: self.metrics.clone(),
            agentic: self.agentic.clone(),
        });
        payload
    }
}

/// The part of a ledger entry that diagnostics show: neither error text nor previews.
fn upstream_entry(entry: &Field, redactor: &Redactor) -> Option<Payload> {
    let Field::Object(entry) = entry else {
        return None;
    };
    let mut shown = Payload::new().with("reason", Field::Null);
    for name in [
        "duration_ms",
        "oversize",
        "reason",
        "result_bytes",
        "server",
        "status",
        "tool",
    ] {
        if let Some(value) = entry.get(name) {
            shown.set(name, value.clone());
        }
    }
    let mut shown = redactor.scrub(shown).into_inner();
    for name in ["server", "tool"] {
        if let Some(long) = shown.text(name).filter(|text| text.len() > ID_BYTES_MAX) {
            let short = bounded(long, "name");
            shown.set(name, short);
        }
    }
    Some(shown)
}

/// A name that a client or a program chose, truncated if it is long; `what` names its kind in the note.
fn bounded(id: &str, what: &str) -> String {
    match id.len() <= ID_BYTES_MAX {
        true => id.to_owned(),
        false => {
            let kept: String = id.chars().take(ID_CHARS_KEPT).collect();
            format!("{kept}…({}B {what}, truncated)", id.len())
        }
    }
}

fn describe(value: Json<'_>) -> Described {
    let (kind, count) = match value.kind() {
        JsonKind::Null => ("null", None),
        JsonKind::Bool => ("boolean", None),
        JsonKind::Integer | JsonKind::Float => ("number", None),
        JsonKind::String => ("string", None),
        JsonKind::Array => ("array", Some(value.elements().count())),
        JsonKind::Object => ("object", Some(value.members().count())),
    };
    Described { count, kind }
}

/// The size and the digest of a text.
pub fn digest_of(text: &str) -> Digested {
    Digested {
        bytes: text.len(),
        sha256: digest::hex(text.as_bytes()),
        preview: None,
    }
}

#[cfg(test)]
mod tests;
