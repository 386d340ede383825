//! Runs one program of an agent: its tools, its clock, its errors as payload reasons. Knows nothing of turns.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use ptc_lang::form::{Form, FormKind};
use ptc_lang::reader::{ReadLimits, read};
use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Host, HostFault, Limits, Program, Pulse, Reason, Value};
use ptc_protocol::{ErrorReason, encoded_bytes, stack};

use crate::cache::{Cache, CanonicalArgs};
use crate::call::{Invocation, invoke};
use crate::scrubber::Scrubber;
use crate::telemetry::{Layer, Telemetry, ToolCallFacts};
use crate::tool::Tool;

/// The host of a program.
pub struct ProgramHost<'a> {
    pub tools: &'a BTreeMap<String, &'a Tool>,
    pub names: &'a [String],
    pub cache: &'a Mutex<Cache>,
    pub telemetry: Option<&'a dyn Telemetry>,
    /// Applied to prints and to what an error quotes.
    pub scrubber: &'a dyn Scrubber,
    pub deadline: Instant,
    pub budget: Value,
}

/// The end of a program, in the terms of payloads.
#[derive(Debug)]
pub enum ProgramEnd {
    /// The value of the last form.
    Value(Value),
    /// `(return v)`.
    Returned(Value),
    /// `(fail v)`.
    Failed(Value),
    Error {
        reason: ErrorReason,
        message: String,
        /// The position and advice, one line each.
        explained: String,
    },
}

pub struct ProgramRun {
    pub end: ProgramEnd,
    pub prints: Vec<String>,
    /// The environment afterwards; unchanged when the program failed.
    pub env: Env,
}

/// Runs `source`. If it names a tool that programs may not call, it is refused before anything runs.
pub fn run_program(
    source: &str,
    env: &Env,
    host: &ProgramHost<'_>,
    timeout: Duration,
    heap_bytes: usize,
) -> ProgramRun {
    let refused = |message: String| ProgramRun {
        end: ProgramEnd::Error {
            reason: ErrorReason::ParseError,
            message,
            explained: String::new(),
        },
        prints: Vec::new(),
        env: env.clone(),
    };
    if let Some(message) = refuse_unknown_tools(source, host.names) {
        return refused(host.scrubber.text(&message));
    }
    let heap_bytes = heap_bytes as u64;
    let limits = Limits {
        memory_bytes: heap_bytes,
        ..Limits::default()
    };
    let (outcome, after) = ptc_lang::run(&Program::new(source), env, &limits, host);
    let end = match outcome.ended {
        Ended::Value(value) => ProgramEnd::Value(value),
        Ended::Return(value) => ProgramEnd::Returned(value),
        Ended::Fail(value) => ProgramEnd::Failed(value),
        Ended::Error(error) => {
            let veil = |quoted: &str| host.scrubber.text(quoted);
            // A tool's own words are no quotes.
            let message = || veil(&error.redacted_message(&veil));
            let (reason, message) = match error.reason() {
                Reason::ParseError => (ErrorReason::ParseError, message()),
                Reason::RuntimeError => (ErrorReason::RuntimeError, message()),
                Reason::Timeout | Reason::Cancelled => (
                    ErrorReason::Timeout,
                    format!("execution exceeded {}ms limit", timeout.as_millis()),
                ),
                Reason::MemoryLimit => (
                    ErrorReason::MemoryLimit,
                    format!("heap limit {heap_bytes} bytes exceeded"),
                ),
            };
            ProgramEnd::Error {
                reason,
                message,
                explained: error.explained(source, &veil),
            }
        }
    };
    ProgramRun {
        end,
        prints: outcome.prints,
        env: after,
    }
}

/// The message about all tools that the program names but may not call; `None` when there are none, or when
/// the text can't be read (which the run itself reports).
pub(crate) fn refuse_unknown_tools(source: &str, names: &[String]) -> Option<String> {
    // Most programs name no tool, and a byte scan is cheaper than reading.
    if !source.contains("tool/") {
        return None;
    }
    let limits = Limits::default();
    let limits = ReadLimits {
        nesting: limits.nesting,
        symbols: limits.symbols,
        ..ReadLimits::default()
    };
    let forms = read(source, &limits).ok()?;
    let mut unknown = Vec::new();
    collect_unknown(&forms, names, &mut unknown);
    if unknown.is_empty() {
        return None;
    }
    unknown.sort_unstable();
    let plural = if unknown.len() == 1 { "" } else { "s" };
    let available = match names.is_empty() {
        true => "No tools available.".to_owned(),
        false => format!("Available tools: {}", names.join(", ")),
    };
    Some(format!(
        "Unknown tool{plural}: {}. {available}",
        unknown.join(", ")
    ))
}

fn collect_unknown<'a>(forms: &[Form<'a>], names: &[String], unknown: &mut Vec<&'a str>) {
    for form in forms {
        match &form.kind {
            FormKind::Symbol(symbol) => {
                if let Some(name) = symbol.strip_prefix("tool/")
                    && !names.iter().any(|known| known == name)
                    && !unknown.contains(&name)
                {
                    unknown.push(name);
                }
            }
            FormKind::List(items) => {
                let is_comment = matches!(
                    items.first().map(|head| &head.kind),
                    Some(FormKind::Symbol("comment"))
                );
                if !is_comment {
                    collect_unknown(items, names, unknown);
                }
            }
            FormKind::Vector(items)
            | FormKind::Map(items)
            | FormKind::Set(items)
            | FormKind::AnonFn(items) => {
                collect_unknown(items, names, unknown);
            }
            _ => {}
        }
    }
}

/// Maximum nesting of the arguments of a program's call: each level takes a part of the native stack, which no program's memory counts.
const ARGUMENT_DEPTH_MAX: u32 = 10_000;

impl Host for ProgramHost<'_> {
    fn tool_names(&self) -> &[String] {
        self.names
    }

    fn call(&self, name: &str, args: &Value) -> Result<Value, HostFault> {
        let Some(tool) = self.tools.get(name) else {
            return Err(HostFault::unknown_tool(name));
        };
        if args.shape().depth > ARGUMENT_DEPTH_MAX {
            return Err(HostFault::Raise {
                code: None,
                message: format!(
                    "Tool '{name}' failed: its arguments are nested deeper than {ARGUMENT_DEPTH_MAX} levels"
                ),
            });
        }
        let args = plain_args(args);
        let started = Instant::now();
        let key = tool.cache.then(|| CanonicalArgs::of(&args));
        let until = Some(self.deadline);
        let made = invoke(tool, &args, key.as_ref(), self.cache, until, self.telemetry);
        if let Some(telemetry) = self.telemetry {
            let facts = ToolCallFacts {
                tool_name: name.to_owned(),
                layer: Layer::PtcLisp,
                cached: made.cached,
                error: made.result.is_err(),
                cache_key_hash: key.as_ref().map(|key| key.hash(name)),
                retained_bytes: retained_bytes(&made, key.is_some()),
                full_result_cached: made.stored,
                result_preview_truncated: false,
                duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            telemetry.emit(&facts.event());
        }
        // Whatever the tool returned, the program has ended.
        if ptc_lang::heap::is_overdrawn() {
            return Err(HostFault::Stopped(Pulse::OutOfMemory));
        }
        match self.pulse() {
            Pulse::Continue => {}
            ended => return Err(HostFault::Stopped(ended)),
        }
        made.result.map_err(|fault| HostFault::Raise {
            code: None,
            message: format!(
                "Tool '{name}' failed: {}",
                ptc_lang::print::readable(&Value::str(fault.message.as_str()))
            ),
        })
    }

    fn printed(&self, line: String) -> String {
        self.scrubber.text(&line)
    }

    fn now_micros(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn pulse(&self) -> Pulse {
        if Instant::now() >= self.deadline {
            Pulse::TimedOut
        } else {
            Pulse::Continue
        }
    }

    fn budget(&self) -> Value {
        self.budget.clone()
    }
}

/// Bytes of a stored result's JSON, for calls with a cache entry.
pub(crate) fn retained_bytes(made: &Invocation, keyed: bool) -> Option<u64> {
    let result = made
        .result
        .as_ref()
        .ok()
        .filter(|_| keyed && (made.stored || made.cached))?;
    Some(encoded_bytes(result))
}

/// Arguments as tools receive them from programs: keys are strings with `_` for `-`, at every depth; other
/// values are unchanged.
fn plain_args(value: &Value) -> Value {
    match value {
        Value::Vector(items)
            if value.shape().depth > 1 || items.iter().any(|item| item.shape().depth > 0) =>
        {
            stack::with_room(|| Value::vector(items.iter().map(plain_args).collect()))
        }
        Value::Map(map) => stack::with_room(|| {
            Value::Map(
                map.iter()
                    .map(|(key, value)| (plain_key(key), plain_args(value)))
                    .collect::<Map>(),
            )
        }),
        other => other.clone(),
    }
}

fn plain_key(key: &Value) -> Value {
    match key {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => {
            Value::str(text.as_str().replace('-', "_"))
        }
        other => Value::str(ptc_lang::print::readable(other).replace('-', "_")),
    }
}
