//! `ptc agent run AGENT.toml`: runs an agent from the shell. Its tools are commands, PTC-Lisp functions or upstream tools. Reads files
//! and starts processes; the agent crate does the run itself.

mod command;
mod file;
mod scrubbed;
mod tools;
mod transcript;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ptc_agent::{
    Agent, AgentError, Llm, LlmError, Message, Recorder, RunOptions, Scrubber as _, open_model,
    open_replay, run,
};
use ptc_lang::Value;
use ptc_lang::value::Map;
use ptc_outbound::executor;
use ptc_protocol::limits::IN_AGENT;
use ptc_protocol::limits::agent::{MEMORY_UNITS_MAX, PREVIEW_ROWS_MAX, TURN_BUDGET, TURNS_MAX};
use ptc_protocol::to_json_value;
use ptc_secrets::{ConfigFault, FileError, Redactor};
use ptc_upstream::StartFault;
use serde_json::Value as Json;

use crate::command_line::{self, Arguments, FILE, Flag, Refusal, Stop, TextKind, switch, text};
use crate::{environment, fail, open_private_file, print, refuse, wants_help};
use file::{AgentFile, KeyFault, directory_of, key_fault_lines, read_object};
use ptc_server::redact;
use ptc_server::settings::Level;
use scrubbed::{ScrubbedLines, ScrubbedLlm};
pub(super) use tools::ClockHost;
use tools::Tools;

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

/// Maximum duration of one request to a model.
const MODEL_TIMEOUT: Duration = Duration::from_secs(120);

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
    let (config, configured) = file.into_config(&options.file)?;
    let directory = directory_of(&options.file);
    let executor = executor::with_threads(usize::MAX).map_err(RunError::Executor)?;
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
    let show = |message: &Message| transcript::show(message, redactor);
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
            let answer = render_answer(&redact::value(&step.returned, redactor));
            let path = options.record.as_deref().unwrap_or(Path::new(""));
            let problem = unrecorded
                .get()
                .map(|fault| format!("{}: the recording is not whole: {fault}", path.display()));
            Ok((answer, problem))
        }
    }
}

/// An answer as it is printed: text as it is, other values as JSON, or as PTC-Lisp where JSON has no form for them.
fn render_answer(answer: &Value) -> String {
    match answer {
        Value::Str(text) => text.as_str().to_owned(),
        value => to_json_value(value).map_or_else(
            |_| ptc_lang::print::readable(value),
            |json| json.to_string(),
        ),
    }
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
