//! The upstream access of one program: calls and discovery under their budgets, with a ledger.
//!
//! Called from evaluation threads, several at once; blocks them while the upstream works. Programmer faults end the program; world
//! faults are values.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ptc_lang::error::{Limit, Quote};
use ptc_lang::json::{self, Duplicates, Problem};
use ptc_lang::meter::Watch;
use ptc_lang::value::Map;
use ptc_lang::{Discovery, HostFault, Pulse, Value, heap};
use ptc_secrets::{Redactor, SCRUB_TIME_MAX, scrub_json_text};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::arguments::{self, EncodeError};
use crate::fault::{Reason, WorldFault};
use crate::ledger::{CallEntry, cut, summarize};
use crate::limits::{LISTED_ERROR_BYTES, REFUSED_CALLS_LISTED_MAX};
use crate::prose::{enumerated, printable};
use crate::runtime::{Runtime, Upstream};
use crate::schema_keys::{Declared, SchemaKeys};
use crate::select::{SelectError, Selected, ValueKind, select};
use crate::span::CallSpan;
use crate::tool::{RawTool, Toolset};
use crate::trace_context::TraceContext;
use crate::transport::{CallLimits, Outgoing};

/// Cancels what a program waits for. Clones share the state.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Cancels everything that waits, now and later.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    async fn cancelled(&self) {
        // The sender lives in `self`, so waiting can't fail.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

/// The upstream access of one evaluation.
pub struct ProgramCalls {
    runtime: Arc<Runtime>,
    deadline: Option<Instant>,
    cancel: Cancel,
    trace: Option<TraceContext>,
    calls: AtomicUsize,
    /// The calls that were refused because of the cap.
    refused: AtomicUsize,
    operations: AtomicUsize,
    entries: Mutex<Vec<CallEntry>>,
    hint: Mutex<Option<String>>,
    records_faults: bool,
}

/// Keys of the map that `tool/call` takes.
const CALL_KEYS: &[&str] = &["server", "tool", "args"];

impl ProgramCalls {
    /// For an evaluation that ends at `deadline` at the latest, or when `cancel` is triggered.
    pub fn new(runtime: Arc<Runtime>, deadline: Option<Instant>, cancel: Cancel) -> Self {
        Self {
            runtime,
            deadline,
            cancel,
            trace: None,
            calls: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
            entries: Mutex::new(Vec::new()),
            hint: Mutex::new(None),
            records_faults: false,
        }
    }

    /// The same with a ledger that also lists programmer faults of calls that named a server, a tool and a map of arguments.
    #[must_use]
    pub fn with_fault_entries(self) -> Self {
        Self {
            records_faults: true,
            ..self
        }
    }

    /// Passes the trace context on with every call.
    #[must_use]
    pub fn with_trace_context(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// `(tool/call {:server … :tool … :args …})`; `request` is the map.
    pub fn call(&self, request: &Value) -> Result<Value, HostFault> {
        let _clock = self.runtime.enter();
        let mut call = self.check_shape(request)?;
        let made = self.perform(&mut call);
        if let Err(HostFault::Stopped(why)) = &made {
            call.span.stop(*why);
        }
        if let (Err(HostFault::Raise { message, .. }), true) = (&made, self.records_faults) {
            if call.arguments.is_empty() {
                let known = arguments::encode(&call.args, Declared::NOTHING, self);
                call.arguments = known.unwrap_or_else(|_| "{}".into());
            }
            let fault = WorldFault::new(Reason::Programmer, message.as_str());
            self.record(&call, 0, Err(fault));
        }
        made
    }

    /// Makes a call that passed the shape checks.
    fn perform(&self, call: &mut Call) -> Result<Value, HostFault> {
        let upstream = self.upstream(&call.server)?;
        let begun = Instant::now();
        let limits = self.runtime.limits();
        let call_deadline = begun + limits.call_timeout;
        let deadline = self
            .deadline
            .map_or(call_deadline, |program| program.min(call_deadline));
        let budget = CallLimits {
            deadline,
            bytes_max: limits.response_bytes_max,
        };
        let live = self.runtime.is_live();
        let tools = match upstream.tools() {
            // The upstream may have added tools since, so the list proves nothing about a tool that is not in it.
            Some(tools) if !live || tools.raw(&call.tool).is_some() => Ok(tools),
            _ => self.wait(load(upstream, budget, live))?,
        };
        let answer = match tools {
            Ok(tools) => {
                let tool = self.known_tool(call, &tools)?;
                call.effect = tool.effect;
                call.arguments = self.encode(call, &tool.schema_keys)?;
                if let Err(problem) = upstream
                    .transport
                    .check_arguments(&tool.name, &call.arguments)
                {
                    return self.reject(call, &problem.to_string());
                }
                self.spend_call().map(|()| {
                    call.span = CallSpan::open(&upstream.config.name, &tool.name);
                    let own = call.span.context();
                    let outgoing = Outgoing {
                        tool,
                        arguments: &call.arguments,
                        trace: own.as_ref().or(self.trace.as_ref()),
                    };
                    self.wait(upstream.call(outgoing, budget))
                })
            }
            Err(fault) => self.spend_call().and(Err(fault)),
        };
        let answer = match answer {
            Ok(waited) => ExecutorOwned::new(waited?),
            Err(fault) => ExecutorOwned::new(Err(fault)),
        };
        if answer
            .get()
            .as_ref()
            .is_err_and(|fault| fault.reason == Reason::Timeout)
        {
            self.check_running()?;
        }
        let selected = match answer.get() {
            Ok(answer) => select(answer, &self.program_redactor(), self),
            Err(fault) => Err(SelectError::Fault(fault.clone())),
        };
        drop(answer);
        let outcome = match selected {
            Ok(selected) => self.read(selected)?,
            Err(SelectError::Fault(fault)) => Err(fault),
            Err(SelectError::Stopped(limit)) => return Err(HostFault::Stopped(limit.into())),
        };
        let duration = begun.elapsed().as_millis() as u64;
        Ok(self.record(call, duration, outcome))
    }

    /// Lets this thread use the clock of the deadlines.
    pub fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs the workers of the program, on a simulation's threads if there is one; see [`ptc_lang::Host::run_workers`].
    #[cfg(feature = "checks")]
    #[doc(hidden)]
    pub fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize {
        self.runtime.run_workers(count, worker)
    }

    /// Answers a discovery form; never gives `None`, since a runtime is a discovery backend.
    pub fn discover(&self, request: &Discovery<'_>) -> Result<Value, HostFault> {
        let _clock = self.runtime.enter();
        let limit = self.runtime.limits().catalog_ops_per_program;
        if self.operations.fetch_add(1, Ordering::Relaxed) >= limit {
            return Ok(Value::Nil);
        }
        crate::discovery::answer(self, request)
    }

    /// The calls so far, in order of completion; of those beyond the cap only the first.
    pub fn entries(&self) -> Vec<CallEntry> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A hint for a program that ended with a programmer fault: the servers or tools that exist. Scrubbed.
    pub fn hint(&self) -> Option<String> {
        self.hint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Blocks until `work` is done on the executor, at most until the program ends. Memory for the result is allocated by executor
    /// threads; what this thread allocates of it is not charged to the program either.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, HostFault> {
        self.check_running()?;
        heap::uncharged(|| self.wait_aside(work))
    }

    fn wait_aside<T>(&self, work: impl Future<Output = T>) -> Result<T, HostFault> {
        let deadline = self.deadline;
        self.runtime.block_on(async {
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                done = work => Ok(done),
                () = self.cancel.cancelled() => Err(HostFault::Stopped(Pulse::Cancelled)),
                () = expired => Err(HostFault::Stopped(Pulse::TimedOut)),
            }
        })
    }

    /// Ends the program with a programmer fault.
    pub(crate) fn raise<T>(&self, message: String, hint: Option<String>) -> Result<T, HostFault> {
        if let Some(hint) = hint {
            let hint = self.scrubbed(&hint);
            *self.hint.lock().unwrap_or_else(PoisonError::into_inner) = Some(hint);
        }
        Err(HostFault::Raise {
            code: None,
            message,
        })
    }

    /// A value as messages show it.
    fn shown(&self, value: &Value) -> String {
        Quote::value(value).render(&|text| self.scrubbed(text))
    }

    pub(crate) fn scrubbed(&self, text: &str) -> String {
        self.text_redactor().scrub_str(text).into_owned()
    }

    /// A redactor for a single text: searches no longer than the program may run, and at most a part of that time.
    fn text_redactor(&self) -> Redactor {
        self.program_redactor().with_time_limit(SCRUB_TIME_MAX)
    }

    /// A redactor that searches no longer than the program may run: an upstream's text may be slow to search.
    fn program_redactor(&self) -> Redactor {
        let (deadline, cancel) = (self.deadline, self.cancel.clone());
        self.runtime.redactor().with_time_check(move || {
            !cancel.is_cancelled() && deadline.is_none_or(|deadline| Instant::now() < deadline)
        })
    }

    /// A name chosen by a program, as messages show it.
    pub(crate) fn shown_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        /// Longer names can't exist.
        const NAME_BYTES_MAX: usize = 1_024;
        match name.len() <= NAME_BYTES_MAX {
            true => Cow::Borrowed(name),
            false => Cow::Owned(Quote::name(name).render(&|text| self.scrubbed(text))),
        }
    }

    /// The upstream with that name, or the fault that there is none.
    pub(crate) fn upstream(&self, name: &str) -> Result<&Upstream, HostFault> {
        match self.runtime.upstream(name) {
            Some(upstream) => Ok(upstream),
            None => self.raise(
                format!("no upstream '{}' configured", self.shown_name(name)),
                Some(self.servers_hint()),
            ),
        }
    }

    pub(crate) fn no_tool<T>(
        &self,
        server: &str,
        tool: &str,
        tools: &Toolset,
    ) -> Result<T, HostFault> {
        let hint = format!(
            "Known tools: {}",
            enumerated(tools.sorted().map(|tool| tool.name.as_str()))
        );
        let (server, tool) = (self.shown_name(server), self.shown_name(tool));
        self.raise(
            format!("no tool '{tool}' in upstream '{server}'"),
            Some(hint),
        )
    }

    fn servers_hint(&self) -> String {
        format!("Configured upstreams: {}", enumerated(self.runtime.names()))
    }

    fn check_running(&self) -> Result<(), HostFault> {
        if self.cancel.is_cancelled() {
            return Err(HostFault::Stopped(Pulse::Cancelled));
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(HostFault::Stopped(Pulse::TimedOut));
        }
        Ok(())
    }

    /// Checks the shape of a call, in the order of the specification.
    fn check_shape(&self, request: &Value) -> Result<Call, HostFault> {
        let none = Map::new();
        let request = match request {
            Value::Map(map) => map,
            _ => &none,
        };
        for key in request.keys() {
            let name = key.key_text().map(|text| text.as_str());
            if !name.is_some_and(|name| CALL_KEYS.contains(&name)) {
                let shown = name.map_or_else(
                    || self.shown(key),
                    |name| format!("\"{}\"", self.shown_name(name)),
                );
                let hint = "Known keys: :server, :tool, :args".to_owned();
                return self.raise(format!("tool/call got unknown key {shown}"), Some(hint));
            }
        }
        let field = |name: &str| {
            request
                .find(&Value::keyword(name))
                .map_or(&Value::Nil, |(_, value)| value)
        };
        let server = match word(field("server")) {
            Some(server) => server.to_owned(),
            None => {
                let message = format!(
                    "tool/call requires :server (string), got {}",
                    self.shown(field("server"))
                );
                return self.raise(message, Some(self.servers_hint()));
            }
        };
        let tool = match word(field("tool")) {
            Some(tool) => tool.to_owned(),
            None => {
                let (server, got) = (self.shown_name(&server), self.shown(field("tool")));
                return self.raise(
                    format!("tool/call on upstream '{server}' requires :tool (string), got {got}"),
                    None,
                );
            }
        };
        let given = request.find(&Value::keyword("args"));
        let args_given = given.is_some();
        let args = match given {
            None => none.clone(),
            Some((_, Value::Map(args))) => args.clone(),
            Some((_, set @ Value::Set(_))) => {
                let why = format!("a set at args has no JSON form: {}", self.shown(set));
                let (server, tool) = (self.shown_name(&server), self.shown_name(&tool));
                return self.raise(
                    format!("tool '{server}.{tool}' rejected args: not JSON-encodable ({why})"),
                    None,
                );
            }
            Some((_, other)) => {
                let got = self.shown(other);
                let (server, tool) = (self.shown_name(&server), self.shown_name(&tool));
                return self.raise(
                    format!("tool '{server}.{tool}' rejected args: :args must be a map, got {got}"),
                    None,
                );
            }
        };
        Ok(Call {
            server,
            tool,
            args,
            args_given,
            arguments: String::new(),
            effect: "unknown",
            span: CallSpan::none(),
        })
    }

    fn known_tool<'t>(&self, call: &Call, tools: &'t Toolset) -> Result<&'t RawTool, HostFault> {
        match tools.raw(&call.tool) {
            Some(tool) => Ok(tool),
            None => self.no_tool(&call.server, &call.tool, tools),
        }
    }

    /// The arguments as text; fails when a required argument is missing.
    fn encode(&self, call: &Call, schema_keys: &SchemaKeys) -> Result<String, HostFault> {
        let text = match arguments::encode(&call.args, schema_keys.declared(), self) {
            Ok(text) => text,
            Err(EncodeError::Limit(limit)) => return Err(HostFault::Stopped(limit.into())),
            Err(EncodeError::Problem(problem)) => {
                return self.reject(call, &problem.render(&|text| self.scrubbed(text)));
            }
        };
        let missing = arguments::missing_names(&text, schema_keys);
        if missing.is_empty() {
            return Ok(text);
        }
        // The names come from the upstream, and a credential may contain a line end.
        let missing = self.scrubbed(&missing.join(", "));
        let missing = printable(&missing);
        self.reject(call, &format!("missing required args {missing}"))
    }

    fn reject<T>(&self, call: &Call, problem: &str) -> Result<T, HostFault> {
        let (server, tool) = (self.shown_name(&call.server), self.shown_name(&call.tool));
        self.raise(
            format!("tool '{server}.{tool}' rejected args: {problem}"),
            None,
        )
    }

    /// Takes one call from the budget.
    fn spend_call(&self) -> Result<(), WorldFault> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.runtime.limits().calls_per_program {
            return Ok(());
        }
        Err(WorldFault::new(Reason::CapExhausted, "cap_exhausted"))
    }

    /// The value of the selected JSON, read within the program's memory and time.
    fn read(&self, selected: Selected) -> Result<Result<(Selected, Value), WorldFault>, HostFault> {
        match json::build(selected.json.json(), Duplicates::Last, self) {
            Ok(value) => Ok(Ok((selected, value))),
            Err(error) => match error.problem {
                Problem::Limit(limit) => Err(HostFault::Stopped(limit.into())),
                // An upstream may send JSON that no value can represent; it has no substitute.
                _ => Ok(Err(WorldFault::error(format!(
                    "result cannot be read: {error}"
                )))),
            },
        }
    }

    /// Adds the call to the ledger, if it is to be listed, and builds the value for the program.
    fn record(
        &self,
        call: &Call,
        duration_ms: u64,
        outcome: Result<(Selected, Value), WorldFault>,
    ) -> Value {
        if let Err(fault) = &outcome
            && fault.reason == Reason::CapExhausted
            && self.refused.fetch_add(1, Ordering::Relaxed) >= REFUSED_CALLS_LISTED_MAX
        {
            return failed_reply(fault.reason, fault.message_for(&self.text_redactor()));
        }
        let names = &self.runtime.redactor().with_time_limit(SCRUB_TIME_MAX);
        let mut entry = CallEntry {
            server: names.scrub_str(&self.shown_name(&call.server)).into_owned(),
            tool: names.scrub_str(&self.shown_name(&call.tool)).into_owned(),
            duration_ms,
            error: None,
            result_bytes: None,
            summary: None,
            effect: call.effect,
            arguments: scrub_json_text(&call.arguments, &self.text_redactor()).into_owned(),
            args_given: call.args_given,
        };
        let value = match outcome {
            Ok((Selected { json, kind }, value)) => {
                entry.result_bytes = Some(if kind == ValueKind::None {
                    0
                } else {
                    json.len() as u64
                });
                entry.summary = Some(summarize(json.json(), kind.name(), self));
                reply([
                    ("ok", true.into()),
                    ("value", value),
                    ("value_kind", Value::keyword(kind.name())),
                ])
            }
            Err(fault) => {
                call.span.fail(fault.reason.name());
                // Gets its own time, however long scrubbing the arguments took.
                let message = fault.message_for(&self.text_redactor());
                entry.result_bytes = fault.bytes;
                entry.error = Some((fault.reason, cut(&message, LISTED_ERROR_BYTES)));
                failed_reply(fault.reason, message)
            }
        };
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
        value
    }
}

/// Whether the program may go on, for output written on its behalf.
impl Watch for ProgramCalls {
    fn check_limits(&self) -> Result<(), Limit> {
        if heap::is_overdrawn() {
            return Err(Limit::Memory);
        }
        match self.check_running() {
            Err(HostFault::Stopped(Pulse::Cancelled)) => Err(Limit::Cancelled),
            Err(_) => Err(Limit::Time),
            Ok(()) => Ok(()),
        }
    }
}

/// A value allocated by the executor. It was not charged to the program, so dropping it gives no credit.
struct ExecutorOwned<T>(Option<T>);

impl<T> ExecutorOwned<T> {
    fn new(came: T) -> Self {
        Self(Some(came))
    }

    fn get(&self) -> &T {
        self.0
            .as_ref()
            .expect("it is taken only when it is dropped")
    }
}

impl<T> Drop for ExecutorOwned<T> {
    fn drop(&mut self) {
        heap::uncharged(|| drop(self.0.take()));
    }
}

/// A call that passed the shape checks.
struct Call {
    server: String,
    tool: String,
    args: Map,
    args_given: bool,
    arguments: String,
    effect: &'static str,
    /// Open from when the call is sent until its outcome is recorded.
    span: CallSpan,
}

/// Loads the tools of an upstream that was never listed or reported a change; a failure is a world fault.
async fn load(
    upstream: &Upstream,
    limits: CallLimits,
    refresh: bool,
) -> Result<Arc<Toolset>, WorldFault> {
    match tokio::time::timeout(limits.remaining(), upstream.ensure_tools(refresh)).await {
        Ok(tools) => tools,
        Err(_) => Err(WorldFault::unavailable(format!(
            "upstream {} did not start in time",
            upstream.config.name
        ))),
    }
}

fn reply<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(
        fields
            .into_iter()
            .map(|(key, value)| (Value::keyword(key), value))
            .collect(),
    )
}

fn failed_reply(reason: Reason, message: String) -> Value {
    reply([
        ("ok", false.into()),
        ("reason", Value::keyword(reason.name())),
        ("message", message.into()),
    ])
}

/// A non-empty string, or the name of a keyword or symbol.
fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text)
            if !text.as_str().is_empty() =>
        {
            Some(text.as_str())
        }
        _ => None,
    }
}
