//! `ptc agent run AGENT.toml`: runs an agent from the shell. Its tools are commands, PTC-Lisp functions or upstream tools. Reads files
//! and starts processes; the agent crate does the run itself.

use std::io::{IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, ExitCode};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use ptc_agent::{
    Agent, AgentError, Llm, LlmError, LlmReply, LlmRequest, Message, PreviewFn, Recorder,
    RunOptions, Scrubber, ToolFault, ToolFn, ToolSource, open_model, open_replay, run,
};
use ptc_lang::error::{Limit, Quote};
use ptc_lang::json::{self, Duplicates, Problem, WriteError};
use ptc_lang::meter::Watch;
use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Host, Limits, Program, Pulse, Value, heap};
use ptc_outbound::executor;
use ptc_protocol::limits::IN_AGENT;
use ptc_protocol::limits::agent::{MEMORY_UNITS_MAX, PREVIEW_ROWS_MAX, TURN_BUDGET, TURNS_MAX};
use ptc_protocol::{json_to_value, to_json_value};
use ptc_secrets::{
    ConfigFault, DATA_BYTES_MAX, FileError, LineColumn, Redactor, SCRUB_TIME_MAX,
    SETTINGS_BYTES_MAX, read_text, scrub_json_text,
};
use ptc_upstream::{Cancel, ConfiguredUpstreams, KeptCommand, ProgramCalls, Runtime, StartFault};
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use crate::command_line::{self, Arguments, FILE, Flag, Refusal, Stop, TextKind, switch, text};
use crate::{environment, fail, open_private_file, print, refuse, wants_help};
use ptc_protocol::closest_of;
use ptc_server::clock;
use ptc_server::redact;
use ptc_server::settings::{Level, Settings};
use ptc_server::upstreams;

/// The arguments of `ptc agent run`.
#[derive(Default)]
struct RunArguments {
    file: PathBuf,
    model: Option<String>,
    context: Option<PathBuf>,
    replay: Option<PathBuf>,
    record: Option<PathBuf>,
    /// `None`: only when standard error is a terminal.
    transcript: Option<bool>,
}

impl Arguments for RunArguments {
    const COMMAND: &str = "ptc agent";
    const USAGE: &str = "run AGENT.toml [FLAGS]";
    const DOC: &str = "Runs an agent and prints its answer. If standard error is a terminal, it shows the transcript as the run proceeds.";

    fn flags() -> Vec<Flag<Self>> {
        const NAME: TextKind = TextKind {
            placeholder: "MODEL",
            expected: "a name, such as openrouter:NAME",
            may_be_empty: false,
        };
        vec![
            text(
                "model",
                &NAME,
                "Model to use instead of the file's.",
                |to: &mut Self, model| to.model = Some(model),
            ),
            text(
                "context",
                &FILE,
                "File with a JSON object whose members programs read as data/NAME and prompts as {{NAME}}.",
                |to: &mut Self, file| to.context = Some(file.into()),
            ),
            text(
                "replay",
                &FILE,
                "Replay a recording instead of asking the model.",
                |to: &mut Self, file| to.replay = Some(file.into()),
            ),
            text(
                "record",
                &FILE,
                "Record the exchanges with the model, one JSON line each.",
                |to: &mut Self, file| to.record = Some(file.into()),
            ),
            switch(
                "transcript",
                "Show the transcript even if standard error is not a terminal.",
                |to: &mut Self| to.transcript = Some(true),
            ),
            switch("quiet", "Show no transcript.", |to: &mut Self| {
                to.transcript = Some(false)
            }),
        ]
    }

    fn take(&mut self, word: &str) -> Result<(), Refusal> {
        if !self.file.as_os_str().is_empty() {
            return Err(Refusal::Surplus(word.to_owned()));
        }
        self.file = PathBuf::from(word);
        Ok(())
    }

    fn notes() -> String {
        run_notes()
    }
}

fn run_notes() -> String {
    let (program_timeout_ms, program_bytes) = (IN_AGENT.timeout.as_millis(), IN_AGENT.memory_bytes);
    format!(
        "\
AGENT.toml (only prompt is required; defaults are in parentheses):
  prompt                the user's request; {{{{NAME}}}} is filled from the context
  model                 PROVIDER:NAME, or an alias; required without --replay or --model. Providers and their keys:
                        openrouter (OPENROUTER_API_KEY), openai (OPENAI_API_KEY), anthropic (ANTHROPIC_API_KEY)
  signature             type of the answer, such as {{count :int}}; without it, the answer is the model's text
  max_turns             maximum turns of the run ({TURNS_MAX})
  max_tool_calls        maximum native tool calls of the run; calls inside programs don't count (unlimited)
  timeout               time limit of one program in milliseconds ({program_timeout_ms})
  mission_timeout       time limit of the whole run in milliseconds (unlimited)
  turn_budget           maximum turns in total, as (budget/remaining) reports them ({TURN_BUDGET})
  max_heap_bytes        memory limit of one program in bytes ({program_bytes})
  memory_limit          maximum size of all definitions in bytes ({MEMORY_UNITS_MAX})
  memory_strategy       beyond memory_limit, strict ends the run, rollback discards the turn's definitions (strict)
  system_prompt         text that replaces the built-in prompt, or {{ prefix = TEXT, suffix = TEXT }} around it
  context_descriptions  {{ NAME = TEXT }}: descriptions of context members for the model
  upstreams             path of an upstreams config, relative to this file
  [[tools]]             name, description, signature, and
    expose              native, ptc_lisp or both (native)
    cache               true reuses a result for later calls with the same arguments (false)
    native_result       {{ preview = \"metadata\" }}, {{ preview = \"rows\", limit = {PREVIEW_ROWS_MAX} }} or
                        {{ preview = {{ lisp = \"(fn [result] {{...}})\" }} }}, if expose is both and cache is true
    and one of
    command             [\"program\", \"arg\"]: reads arguments as JSON from standard input, writes its result to standard output
    lisp                \"(fn [args] ...)\"
    upstream            {{ server = NAME, tool = NAME }}

Exit status: 0 for an answer, 1 for a failed run or an invalid agent, 2 for an invalid command line."
    )
}

/// Maximum duration of a command or of a PTC-Lisp function.
const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum memory of a PTC-Lisp function; inside a program less may be left.
const FUNCTION_BYTES_MAX: u64 = 256 << 20;
/// How long to wait for remaining output after a command has ended.
const REST_WAIT: Duration = Duration::from_secs(1);
/// Maximum bytes of a command's output.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum characters shown of a failed command's error output (`agent.cli.commands`).
const ERROR_CHARS_MAX: usize = 4_096;
/// Maximum processor time for scrubbing one answer, result or record. The longest output of a command takes less, unless it is crafted
/// to be slow to search.
const SCRUB_TIME: Duration = Duration::from_secs(2);
/// Maximum duration of one request to a model.
const MODEL_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum characters of a text in the transcript.
const TRANSCRIPT_CHARS_MAX: usize = 2_000;
/// Maximum characters of one member of a result in the transcript.
const MEMBER_CHARS_MAX: usize = 300;

/// Runs the command with the arguments after `agent`.
pub fn main(words: &[String]) -> ExitCode {
    let ran = match words.split_first() {
        Some((verb, rest)) if verb == "run" => read_arguments(rest),
        _ if wants_help(words) => Err(Stop::Help(command_line::help::<RunArguments>())),
        None => Err(Refusal::Missing { expected: "run" }.into()),
        Some((verb, _)) => Err(Refusal::OtherWord {
            expected: "run",
            found: verb.clone(),
        }
        .into()),
    };
    let arguments = match ran {
        Ok(arguments) => arguments,
        Err(Stop::Help(text)) => return print(text),
        Err(Stop::Refuse(problem)) => {
            let told = problem.explain::<RunArguments>(&problem.to_string());
            // Problems in the files are reported once the arguments are accepted.
            let (_, secrets) = AgentFile::read(Path::new(agent_file_in(words)));
            return refuse(format_args!("ptc agent: {}", secrets.scrub(told)));
        }
    };
    match run_agent(&arguments) {
        Ok((answer, problem)) => {
            let written = print(answer + "\n");
            problem.map_or(written, fail)
        }
        Err(message) => fail(message),
    }
}

/// Reads the words after `run`.
fn read_arguments(words: &[String]) -> Result<RunArguments, Stop> {
    let arguments: RunArguments = command_line::read(words)?;
    match arguments.file.as_os_str().is_empty() {
        false => Ok(arguments),
        true => Err(Refusal::Missing {
            expected: "an agent file",
        }
        .into()),
    }
}

/// The agent file in refused arguments, as far as they are understood; empty when there is none.
fn agent_file_in(words: &[String]) -> &str {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if command_line::takes_next_word::<RunArguments>(word) {
            words.next();
        } else if !word.starts_with('-') {
            return word;
        }
    }
    ""
}

/// An agent file, and the upstreams config that it names.
struct AgentFile {
    text: String,
    table: Result<Json, toml::de::Error>,
    configured: Option<Result<ConfiguredUpstreams, ConfigFault>>,
}

impl AgentFile {
    /// Reads both files once, because a file may be readable only once. Returns the secrets in them and in the environment, too: no
    /// message may show these.
    fn read(file: &Path) -> (Result<Self, RunError>, Redactor) {
        let mut secrets = Redactor::builder();
        ptc_server::register_keys(&environment, &mut secrets);
        let settings = Settings::read(&[], |_| None).unwrap_or_else(|refused| *refused.settings);
        let read = read(file, SETTINGS_BYTES_MAX).map(|text| {
            let table: Result<Json, _> = toml::from_str(&text);
            let config = table.as_ref().ok().and_then(|table| table.get("upstreams"));
            let configured = config.and_then(Json::as_str).map(|config| {
                let path = directory_of(file).join(config);
                upstreams::read(&path, &settings, &mut secrets)
            });
            AgentFile {
                text,
                table,
                configured,
            }
        });
        let secrets = secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX);
        (read, secrets)
    }
}

/// Why an agent did not run, or gave no answer.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: FileError },
    /// Keys with their lines.
    #[error("{}", key_fault_lines(path, faults))]
    Keys {
        path: PathBuf,
        faults: Vec<(usize, KeyFault)>,
    },
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Toml {
        path: PathBuf,
        line: usize,
        column: usize,
        problem: String,
    },
    #[error("an agent file is a table")]
    NoTable,
    #[error("cannot start the I/O runtime: {0}")]
    Executor(std::io::Error),
    #[error(transparent)]
    Config(#[from] ConfigFault),
    #[error(transparent)]
    Upstreams(#[from] StartFault),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("{}: {error}", path.display())]
    Json {
        path: PathBuf,
        error: serde_json::Error,
    },
    #[error("{}: a context is a JSON object", path.display())]
    Context { path: PathBuf },
    #[error("the agent file names no model, and there is no --replay")]
    NoModel,
    #[error(transparent)]
    Model(#[from] LlmError),
    #[error("{}: {error}", path.display())]
    Record {
        path: PathBuf,
        error: std::io::Error,
    },
    /// The run ended without an answer.
    #[error("{reason}: {message}")]
    Failed {
        reason: &'static str,
        message: String,
    },
}

/// What is wrong with a key of an agent file.
#[derive(Debug, thiserror::Error)]
enum KeyFault {
    #[error("unknown key {key}; did you mean {meant}?")]
    Misspelt { key: String, meant: &'static str },
    #[error("unknown key {key}; {known} are known")]
    Unknown { key: String, known: &'static str },
    #[error("{key} must be {expected}")]
    Shape { key: String, expected: &'static str },
}

fn key_fault_lines(path: &Path, faults: &[(usize, KeyFault)]) -> String {
    let lines = faults
        .iter()
        .map(|(line, fault)| format!("{}:{line}: {fault}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The directory that the paths in an agent file are relative to.
fn directory_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns the answer, and a problem to report beside it; messages with secrets scrubbed.
fn run_agent(options: &RunArguments) -> Result<(String, Option<String>), String> {
    let (file, redactor) = AgentFile::read(&options.file);
    let clean = |message: String| redactor.scrub(message).into_inner();
    let ran = file.and_then(|file| run_file(options, file, &redactor));
    ran.map(|(answer, problem)| (answer, problem.map(clean)))
        .map_err(|error| clean(error.to_string()))
}

fn run_file(
    options: &RunArguments,
    file: AgentFile,
    redactor: &Redactor,
) -> Result<(String, Option<String>), RunError> {
    let AgentFile {
        text,
        table,
        configured,
    } = file;
    check_keys(&options.file, &text)?;
    let mut config = table.map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let LineColumn { line, column } = LineColumn::of(&text, offset);
        RunError::Toml {
            path: options.file.clone(),
            line,
            column,
            // TOML's full message shows the whole line, which may contain a credential.
            problem: error.message().to_owned(),
        }
    })?;
    let defaults = [("output", "text"), ("ptc_transport", "tool_call")];
    let table = config.as_object_mut().ok_or(RunError::NoTable)?;
    for (key, value) in defaults {
        table.entry(key).or_insert_with(|| value.into());
    }
    let directory = directory_of(&options.file);
    let executor = executor::with_threads(usize::MAX).map_err(RunError::Executor)?;
    let configured = configured.transpose()?;
    ptc_server::install_diagnostics(Level::Error, redactor);
    let started =
        configured.map(|configured| executor.block_on(configured.start(redactor.clone())));
    let runtime = started.transpose()?;
    let tools = Tools {
        directory,
        runtime: runtime.clone(),
        redactor: redactor.clone(),
    };
    let agent = Agent::from_options(&config, &tools)?;
    let context = match &options.context {
        None => Map::new(),
        Some(path) => read_object(path)?,
    };
    let model = options
        .model
        .as_deref()
        .or_else(|| config.get("model").and_then(Json::as_str));
    let unrecorded = Arc::default();
    let model = open(options, model, redactor, &unrecorded)?;
    let talkative = options
        .transcript
        .unwrap_or_else(|| std::io::stderr().is_terminal());
    let model = ScrubbedLlm {
        model,
        redactor: redactor.clone(),
    };
    let show = |message: &Message| show(message, redactor);
    let mut run_options = RunOptions::new(&model);
    run_options.scrubber = &model;
    run_options.context = context
        .iter()
        .map(|(key, value)| (key.clone(), model.value(value)))
        .collect();
    if talkative {
        run_options.on_message = Some(&show);
    }
    let step = run(&agent, run_options)?;
    if let Some(runtime) = runtime {
        executor.block_on(runtime.shutdown());
    }
    match step.fail {
        Some(failure) => Err(RunError::Failed {
            reason: failure.reason.name(),
            message: failure.message,
        }),
        None => {
            let answer = match &*redact::value(&step.returned, redactor) {
                Value::Str(text) => text.as_str().to_owned(),
                value => to_json_value(value).map_or_else(
                    |_| ptc_lang::print::readable(value),
                    |json| json.to_string(),
                ),
            };
            let path = options.record.as_deref().unwrap_or(Path::new(""));
            let problem = unrecorded
                .get()
                .map(|fault| format!("{}: the recording is not whole: {fault}", path.display()));
            Ok((answer, problem))
        }
    }
}

/// The tables of an agent file, by path, with their keys. Other tables may have any keys.
const TABLES: &[(&str, &str)] = &[
    (
        "",
        "prompt, model, name, signature, output, ptc_transport, ptc_reference, compaction, max_turns, max_tool_calls, timeout, \
         mission_timeout, turn_budget, max_heap_bytes, memory_limit, memory_strategy, system_prompt, context_descriptions, \
         upstreams, tools",
    ),
    ("system_prompt.", "prefix, suffix"),
    (
        "tools.",
        "name, description, signature, expose, cache, native_result, command, lisp, upstream",
    ),
    ("tools.native_result.", "preview, limit"),
    ("tools.native_result.preview.", "lisp"),
    ("tools.upstream.", "server, tool"),
];

/// The required shape of a key whose value would otherwise be ignored silently.
struct RequiredShape {
    path: &'static str,
    expected: &'static str,
    fits: fn(&DeValue<'_>) -> bool,
}

const fn shape(
    path: &'static str,
    expected: &'static str,
    fits: fn(&DeValue<'_>) -> bool,
) -> RequiredShape {
    RequiredShape {
        path,
        expected,
        fits,
    }
}

const REQUIRED_SHAPES: &[RequiredShape] = &[
    shape("tools", "tables, each below a line [[tools]]", is_tables),
    shape("tools.command", "a list of strings", is_strings),
    shape("tools.cache", "true or false", |value| {
        matches!(value, DeValue::Boolean(_))
    }),
    shape("upstreams", "a string", is_string),
    shape("system_prompt.prefix", "a string", is_string),
    shape("system_prompt.suffix", "a string", is_string),
    shape("context_descriptions", "a table of strings", |value| {
        let DeValue::Table(texts) = value else {
            return false;
        };
        texts.values().all(|text| is_string(text.get_ref()))
    }),
];

fn is_string(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::String(_))
}

fn is_strings(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Array(words) if words.iter().all(|word| is_string(word.get_ref())))
}

fn is_tables(value: &DeValue<'_>) -> bool {
    let is_table = |item: &DeValue<'_>| matches!(item, DeValue::Table(_));
    matches!(value, DeValue::Array(items) if items.iter().all(|item| is_table(item.get_ref())))
}

/// Refuses unknown keys, and values of the wrong shape: they would otherwise be ignored silently. All are reported, by line.
fn check_keys(file: &Path, text: &str) -> Result<(), RunError> {
    // Text that is not TOML is refused later, with TOML's message.
    let Ok(document) = DeTable::parse(text) else {
        return Ok(());
    };
    let mut faults: Vec<(usize, KeyFault)> = Vec::new();
    let mut waiting = vec![(document.get_ref(), String::new())];
    while let Some((table, place)) = waiting.pop() {
        let Some((_, keys)) = TABLES.iter().find(|(path, _)| *path == place) else {
            continue;
        };
        let known: Vec<&str> = keys.split(", ").collect();
        for (word, value) in table {
            let name = word.get_ref().as_ref();
            let mut report = |fault| faults.push((word.span().start, fault));
            let key = format!("{place}{name}");
            if !known.contains(&name) {
                report(match closest_of(name, &known) {
                    Some(meant) => KeyFault::Misspelt { key, meant },
                    None => KeyFault::Unknown { key, known: keys },
                });
                continue;
            }
            let shape = REQUIRED_SHAPES.iter().find(|shape| shape.path == key);
            if let Some(shape) = shape.filter(|shape| !(shape.fits)(value.get_ref())) {
                let expected = shape.expected;
                report(KeyFault::Shape { key, expected });
                continue;
            }
            let place = format!("{key}.");
            match value.get_ref() {
                DeValue::Table(table) => waiting.push((table, place)),
                DeValue::Array(items) => {
                    for item in items.iter() {
                        if let DeValue::Table(table) = item.get_ref() {
                            waiting.push((table, place.clone()));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort_by_key(|(at, _)| *at);
    for (at, _) in &mut faults {
        *at = LineColumn::of(text, *at).line;
    }
    let path = file.to_owned();
    Err(RunError::Keys { path, faults })
}

fn open(
    options: &RunArguments,
    model: Option<&str>,
    redactor: &Redactor,
    unrecorded: &Arc<OnceLock<String>>,
) -> Result<Box<dyn Llm>, RunError> {
    let model: Box<dyn Llm> = match (&options.replay, model) {
        (Some(file), _) => Box::new(open_replay(file)?),
        (None, Some(name)) => open_model(name, &environment, MODEL_TIMEOUT)?,
        (None, None) => return Err(RunError::NoModel),
    };
    match &options.record {
        None => Ok(model),
        Some(path) => {
            // The exchange contains the context, which only the user who runs the agent may see.
            let file = open_private_file(path).map_err(|error| RunError::Record {
                path: path.clone(),
                error,
            })?;
            let veiled = ScrubbedLines {
                redactor: redactor.clone(),
                line: Vec::new(),
                sink: file,
                fault: unrecorded.clone(),
            };
            Ok(Box::new(Recorder::new(model, veiled)))
        }
    }
}

/// A model whose answers are scrubbed when they arrive, like those of an upstream.
struct ScrubbedLlm {
    model: Box<dyn Llm>,
    redactor: Redactor,
}

impl Llm for ScrubbedLlm {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let answer = self.model.complete(request);
        let redactor = self.redactor.with_time_limit(SCRUB_TIME);
        match answer {
            Ok(reply) => Ok(redactor.scrub(reply).into_inner()),
            Err(error) => Err(LlmError {
                message: redactor.scrub(error.message).into_inner(),
                ..error
            }),
        }
    }
}

impl Scrubber for ScrubbedLlm {
    fn text(&self, text: &str) -> String {
        let redactor = self.redactor.with_time_limit(SCRUB_TIME);
        redactor.scrub_str(text).into_owned()
    }

    fn value(&self, value: &Value) -> Value {
        redact::value(value, &self.redactor.with_time_limit(SCRUB_TIME)).into_owned()
    }
}

/// Scrubs lines of JSON one by one before they are written to a file.
struct ScrubbedLines<W> {
    redactor: Redactor,
    line: Vec<u8>,
    sink: W,
    /// The first problem.
    fault: Arc<OnceLock<String>>,
}

impl<W: Write> Write for ScrubbedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                let clean = scrub_json_text(&line, &self.redactor.with_time_limit(SCRUB_TIME));
                if let Err(error) = self.sink.write_all(clean.as_bytes()) {
                    let _ = self.fault.set(error.to_string());
                    return Err(error);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

/// Writes one message of the transcript.
fn show(message: &Message, redactor: &Redactor) {
    crate::print_error(render_message(message, redactor));
}

/// A message in the form of the transcript: the speaker, then the text; programs and results on separate lines. Scrubbed before it is
/// cut.
fn render_message(message: &Message, redactor: &Redactor) -> String {
    let redactor = &redactor.with_time_limit(SCRUB_TIME);
    let mut lines = Vec::new();
    let say = |lines: &mut Vec<String>, text: &str| push_indented(lines, &redactor.scrub_str(text));
    let name = |text: &str| escape_line_ends(&redactor.scrub_str(text));
    match message {
        Message::User(text) => {
            lines.push("user".to_owned());
            say(&mut lines, text);
        }
        Message::Assistant {
            content,
            tool_calls,
        } => {
            lines.push("assistant".to_owned());
            say(&mut lines, content);
            for call in tool_calls {
                let arguments: Json = serde_json::from_str(&call.arguments).unwrap_or_default();
                match arguments.get("program").and_then(Json::as_str) {
                    Some(program) => {
                        lines.push(format!("  → {} ({})", name(&call.name), name(&call.id)));
                        say(&mut lines, program);
                    }
                    None => {
                        let arguments = redactor.scrub_str(&call.arguments);
                        let arguments = truncate(&arguments, TRANSCRIPT_CHARS_MAX);
                        let (tool, id) = (name(&call.name), name(&call.id));
                        lines.push(format!(
                            "  → {tool} {} ({id})",
                            escape_line_ends(&arguments)
                        ));
                    }
                }
            }
        }
        Message::Tool {
            tool_call_id,
            content,
        } => {
            lines.push(format!("result of {}", name(tool_call_id)));
            match serde_json::from_str(content) {
                Ok(Json::Object(fields)) => {
                    for (field, value) in &fields {
                        // The feedback repeats the other fields.
                        if field != "feedback" {
                            let value = redactor.scrub(value.clone());
                            lines.push(render_member(&name(field), &value));
                        }
                    }
                }
                _ => say(&mut lines, content),
            }
        }
    }
    lines.push(String::new());
    // Names may contain secrets too.
    redactor.scrub(lines.join("\n")).into_inner()
}

/// Adds the lines of a text, indented.
fn push_indented(lines: &mut Vec<String>, text: &str) {
    let text = truncate(text, TRANSCRIPT_CHARS_MAX);
    lines.extend(text.lines().map(|line| format!("    {line}")));
}

fn render_member(name: &str, value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.replace('\n', "\n      "),
        other => other.to_string(),
    };
    format!("    {name}: {}", truncate(&text, MEMBER_CHARS_MAX))
}

/// A name that a model chose, with line ends escaped so that it can't imitate lines of the transcript.
fn escape_line_ends(name: &str) -> String {
    name.replace('\n', "\\n")
}

fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<String, RunError> {
    read_text(path, bytes_max).map_err(|error| RunError::Read {
        path: path.to_owned(),
        error,
    })
}

fn read_object(path: &Path) -> Result<Map, RunError> {
    let text = read(path, DATA_BYTES_MAX)?;
    let path = path.to_owned();
    match serde_json::from_str(&text).map(|json: Json| json_to_value(&json)) {
        Ok(Value::Map(map)) => Ok(map),
        Ok(_) => Err(RunError::Context { path }),
        Err(error) => Err(RunError::Json { path, error }),
    }
}

/// The tools of an agent file.
struct Tools {
    directory: PathBuf,
    runtime: Option<Arc<Runtime>>,
    redactor: Redactor,
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

/// Runs a command. Its output is scrubbed like an upstream's answer, because it inherits this process's environment with the keys in it.
fn run_command(
    words: &[String],
    directory: &Path,
    args: &Value,
    until: Option<Instant>,
    redactor: &Redactor,
) -> Result<Value, ToolFault> {
    let input =
        json::to_string_within(args, usize::MAX, &ToolDeadline { until }).map_err(|error| {
            ToolFault::new(match error {
                WriteError::Path(error) => error.to_string(),
                WriteError::Sink(_) => "the arguments are longer than there is room for".to_owned(),
            })
        })?;
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let mut kept = KeptCommand::start(words, directory)
        .map_err(|error| ToolFault::new(format!("cannot start {}: {error}", words[0])))?;
    let child = &mut kept.process;
    let stdin = child.stdin.take();
    std::thread::spawn(move || {
        // A command that does not read its input may still answer.
        let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
    });
    let mut streams = CommandOutput::of(child.stdout.take(), child.stderr.take());
    let deadline = earlier(until, Instant::now() + TOOL_TIMEOUT);
    let status = loop {
        let ended = child.try_wait();
        let problem = match ended {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => {
                match streams.receive(Duration::from_millis(2)) {
                    Ok(more) => {
                        if !more {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        continue;
                    }
                    Err(OutputTooLarge) => NO_ROOM.to_owned(),
                }
            }
            _ => match until {
                Some(until) if until <= deadline => {
                    "the command was ended: nobody waits for it any more".to_owned()
                }
                _ => format!("the command took longer than {} s", TOOL_TIMEOUT.as_secs()),
            },
        };
        kept.end();
        return Err(ToolFault::new(problem));
    };
    let [output, errors] = streams
        .collect_until(Instant::now() + REST_WAIT)
        .map_err(|OutputTooLarge| ToolFault::new(NO_ROOM))?;
    // A partial answer must not pass as a complete one.
    if output.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(ToolFault::new(format!(
            "the command wrote more than {OUTPUT_BYTES_MAX} bytes"
        )));
    }
    if status.success() {
        let redactor = redactor.with_time_limit(SCRUB_TIME);
        let output = String::from_utf8_lossy(&output);
        return answer(&output, until, &redactor);
    }
    let errors = String::from_utf8_lossy(&errors).into_owned();
    let errors = redactor.with_time_limit(SCRUB_TIME).scrub(errors);
    let detail: String = errors.trim().chars().take(ERROR_CHARS_MAX).collect();
    let detail = if detail.is_empty() {
        status.to_string()
    } else {
        detail
    };
    Err(ToolFault::new(detail))
}

const NO_ROOM: &str = "the command wrote more than there is room for";

/// The value of a command's output: parsed if it is JSON, otherwise text. Charged to the memory of the calling program, if any, because
/// a parsed tree takes many times the bytes of the text.
fn answer(output: &str, until: Option<Instant>, redactor: &Redactor) -> Result<Value, ToolFault> {
    let clean = scrub_json_text(output.trim(), redactor);
    match json::read(&clean, Duplicates::Last, &ToolDeadline { until }) {
        Ok(value) => Ok(value),
        Err(error) if matches!(error.problem, Problem::Limit(_)) => Err(ToolFault::new(NO_ROOM)),
        Err(_) => Ok(Value::str(redactor.scrub(output.to_owned()).into_inner())),
    }
}

/// Whether a tool's result is still needed.
struct ToolDeadline {
    until: Option<Instant>,
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

fn earlier(until: Option<Instant>, other: Instant) -> Instant {
    until.map_or(other, |until| until.min(other))
}

/// The output of a command. The reading threads may outlive the command: a process that escaped from it may hold its output open
/// forever, and a blocked read can't be cancelled. So each thread holds only one piece, and the caller collects all of them.
struct CommandOutput {
    texts: [Vec<u8>; 2],
    /// Pairs of stream index and piece. Disconnected once everything is read.
    pieces: mpsc::Receiver<(usize, Vec<u8>)>,
}

/// The output exceeds the memory of the calling program.
struct OutputTooLarge;

impl CommandOutput {
    fn of(output: Option<ChildStdout>, errors: Option<ChildStderr>) -> Self {
        let (sender, pieces) = mpsc::sync_channel(0);
        let read = |stream: usize, pipe: Box<dyn std::io::Read + Send>| {
            let mut pipe = pipe.take(OUTPUT_BYTES_MAX + 1);
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                // If the pipe breaks, the output read so far counts.
                while let Ok(count @ 1..) = pipe.read(&mut piece)
                    && sender.send((stream, piece[..count].to_vec())).is_ok()
                {}
            });
        };
        if let Some(output) = output {
            read(0, Box::new(output));
        }
        if let Some(errors) = errors {
            read(1, Box::new(errors));
        }
        CommandOutput {
            texts: [Vec::new(), Vec::new()],
            pieces,
        }
    }

    /// Waits at most `wait` for another piece; false when everything is read.
    fn receive(&mut self, wait: Duration) -> Result<bool, OutputTooLarge> {
        let (stream, piece) = match self.pieces.recv_timeout(wait) {
            Ok(said) => said,
            Err(error) => return Ok(error == mpsc::RecvTimeoutError::Timeout),
        };
        let text = &mut self.texts[stream];
        if text.capacity() - text.len() < piece.len() {
            let more = text.len().max(piece.len());
            if !heap::reserve(more) {
                return Err(OutputTooLarge);
            }
            text.reserve_exact(more);
        }
        text.extend_from_slice(&piece);
        // The piece was not charged to a program, so dropping it gives no credit.
        heap::uncharged(|| drop(piece));
        Ok(true)
    }

    /// The output until `until`, or until everything is read. Of a longer stream, one byte more than [`OUTPUT_BYTES_MAX`].
    fn collect_until(mut self, until: Instant) -> Result<[Vec<u8>; 2], OutputTooLarge> {
        while self.receive(until.saturating_duration_since(Instant::now()))?
            && Instant::now() < until
        {}
        Ok(self.texts)
    }
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
pub(super) struct ClockHost {
    pub(super) deadline: Instant,
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
