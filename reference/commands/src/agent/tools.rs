//! The tools of an agent file: PTC-Lisp functions and upstream tools. Commands have their own file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ptc_agent::{PreviewFn, ToolFault, ToolFn, ToolSource};
use ptc_lang::error::{Limit, Quote};
use ptc_lang::meter::Watch;
use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Host, Limits, Program, Pulse, Value, heap};
use ptc_secrets::Redactor;
use ptc_server::{clock, redact};
use ptc_upstream::{Cancel, ProgramCalls, Runtime};
use serde_json::Value as Json;

use super::command::run_command;
use super::scrubbed::SCRUB_TIME;

/// Maximum duration of a command or of a PTC-Lisp function.
pub(super) const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum memory of a PTC-Lisp function; inside a program less may be left.
const FUNCTION_BYTES_MAX: u64 = 256 << 20;

/// The tools of an agent file.
pub(super) struct Tools {
    pub(super) directory: PathBuf,
    pub(super) runtime: Option<Arc<Runtime>>,
    pub(super) redactor: Redactor,
}

impl ToolSource for Tools {
    fn function(&self, tool: &Json) -> Result<ToolFn, String> {
        let given = ["command", "lisp", "upstream"].map(|key| tool.get(key).is_some());
        if given.into_iter().filter(|given| *given).count() != 1 {
            return Err("given one of command, lisp and upstream".to_owned());
        }
        if let Some(words) = tool.get("command").and_then(Json::as_array) {
            let words: Option<Vec<String>> = words
                .iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect();
            let words = words
                .filter(|words| !words.is_empty())
                .ok_or("given a command of strings")?;
            let (directory, redactor) = (self.directory.clone(), self.redactor.clone());
            return Ok(Arc::new(move |args: &Value, until| {
                run_command(&words, &directory, args, until, &redactor)
            }));
        }
        if let Some(lisp) = tool.get("lisp") {
            let source = lisp.as_str().ok_or("given its lisp as a string")?;
            check_function(source, &self.redactor)?;
            return Ok(lisp_function(source, &self.redactor));
        }
        let upstream = tool.get("upstream");
        let name = |key: &str| upstream?.get(key)?.as_str().map(str::to_owned);
        let (Some(server), Some(tool)) = (name("server"), name("tool")) else {
            return Err("given upstream = { server = \"…\", tool = \"…\" }".to_owned());
        };
        let runtime = self
            .runtime
            .clone()
            .ok_or("used with an upstreams config")?;
        Ok(Arc::new(move |args: &Value, until| {
            call_upstream(&runtime, &server, &tool, args, until)
        }))
    }

    fn preview(&self, option: &Json) -> Option<PreviewFn> {
        let source = option.get("lisp").and_then(Json::as_str)?;
        let function = lisp_function(source, &self.redactor);
        Some(Arc::new(move |result: &Value| function(result, None)))
    }
}

/// Whether a tool's result is still needed.
pub(super) struct ToolDeadline {
    pub(super) until: Option<Instant>,
}

impl Watch for ToolDeadline {
    fn check_limits(&self) -> Result<(), Limit> {
        if heap::is_overdrawn() {
            return Err(Limit::Memory);
        }
        match self.until.is_some_and(|until| Instant::now() >= until) {
            true => Err(Limit::Time),
            false => Ok(()),
        }
    }
}

pub(super) fn earlier(until: Option<Instant>, other: Instant) -> Instant {
    until.map_or(other, |until| until.min(other))
}

/// Refuses a function that no call could run.
fn check_function(source: &str, redactor: &Redactor) -> Result<(), String> {
    let host = ClockHost {
        deadline: Instant::now() + TOOL_TIMEOUT,
    };
    let (outcome, _) = ptc_lang::run(
        &Program::new(source),
        &Env::new(),
        &Limits::default(),
        &host,
    );
    match outcome.ended {
        Ended::Error(error) => Err(format!(
            "given a function: {}",
            error.redacted_message(&|quoted| redactor.scrub_str(quoted).into_owned())
        )),
        _ => Ok(()),
    }
}

/// Calls a function of one argument. Its result is scrubbed again, even though its argument was scrubbed.
fn lisp_function(source: &str, redactor: &Redactor) -> ToolFn {
    let program = Program::new(format!("({source} data/argument)"));
    let redactor = redactor.clone();
    Arc::new(move |argument: &Value, until| {
        let context: Map = [(Value::str("argument"), argument.clone())]
            .into_iter()
            .collect();
        let env = Env::new().with_context(context);
        let host = ClockHost {
            deadline: earlier(until, Instant::now() + TOOL_TIMEOUT),
        };
        let limits = Limits {
            memory_bytes: FUNCTION_BYTES_MAX,
            ..Limits::default()
        };
        let (outcome, _) = ptc_lang::run(&program, &env, &limits, &host);
        let redactor = redactor.with_time_limit(SCRUB_TIME);
        let veil = |quoted: &str| redactor.scrub_str(quoted).into_owned();
        match outcome.ended {
            Ended::Value(value) | Ended::Return(value) => {
                Ok(redact::value(&value, &redactor).into_owned())
            }
            Ended::Fail(value) => {
                let value = redact::value(&value, &redactor);
                Err(ToolFault::new(Quote::value(&value).render(&veil)))
            }
            Ended::Error(error) => Err(ToolFault::new(error.redacted_message(&veil))),
        }
    })
}

/// A host that offers only a clock.
pub(crate) struct ClockHost {
    pub(crate) deadline: Instant,
}

impl Host for ClockHost {
    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn pulse(&self) -> Pulse {
        if Instant::now() >= self.deadline {
            Pulse::TimedOut
        } else {
            Pulse::Continue
        }
    }
}

fn call_upstream(
    runtime: &Arc<Runtime>,
    server: &str,
    tool: &str,
    args: &Value,
    until: Option<Instant>,
) -> Result<Value, ToolFault> {
    let calls = ProgramCalls::new(
        Arc::clone(runtime),
        until.map(tokio::time::Instant::from_std),
        Cancel::default(),
    );
    let fields = [
        ("server", Value::str(server)),
        ("tool", Value::str(tool)),
        ("args", args.clone()),
    ];
    let request: Map = fields
        .into_iter()
        .map(|(key, value)| (Value::keyword(key), value))
        .collect();
    let reply = match calls.call(&Value::Map(request)) {
        Ok(Value::Map(reply)) => reply,
        Ok(_) => return Err(ToolFault::new("the upstream gave no reply")),
        Err(ptc_lang::HostFault::Raise { message, .. }) => {
            return Err(ToolFault {
                message,
                hint: calls.hint(),
            });
        }
        Err(ptc_lang::HostFault::Stopped(Pulse::OutOfMemory)) => {
            return Err(ToolFault::new(
                "the upstream answered more than there is room for",
            ));
        }
        Err(ptc_lang::HostFault::Stopped(_)) => return Err(ToolFault::new("the call was stopped")),
    };
    let field = |name: &str| {
        reply
            .get(&Value::keyword(name))
            .cloned()
            .unwrap_or_default()
    };
    match field("ok") {
        Value::Bool(true) => Ok(field("value")),
        _ => Err(ToolFault::new(ptc_lang::print::display(&field("message")))),
    }
}
