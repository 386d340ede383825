//! `ptc eval`: runs a program from the shell, with diagnostics that point into its text. Knows nothing of MCP.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use ptc_lang::value::Map;
use ptc_lang::visible::{escape_nonprinting, is_nonprinting};
use ptc_lang::{Ended, Error, Value, json};
use ptc_secrets::{FileError, LineColumn, Veil};

use crate::repl::evaluator::{Evaluator, INTERRUPTED};
use crate::repl::options;
use crate::{environment, fail, refuse, wants_help};

const USAGE: &str = "Usage: ptc eval (FILE | - | -e PROGRAM) [--context FILE] [--json]

  FILE, -          Read the program from a file, or from standard input.
  -e PROGRAM       Run this program.
  --context FILE   File with a JSON object whose members the program reads as data/NAME.
  --json           Print the value as JSON instead of PTC-Lisp.

Upstream servers and limits, as for `ptc repl`:
FLAGS

Printed lines go to standard output before the value. Exit status: 0 for a value, 1 for an error or (fail v),
2 for an invalid argument or an unreadable file.
";

/// The parsed command line.
#[derive(Default)]
struct EvalRequest {
    /// The name of the program in diagnostics, and its text.
    program: Option<(String, String)>,
    context: Option<Map>,
    as_json: bool,
    /// The words of the shared flags.
    shared: Vec<String>,
}

/// Why a command does not run.
enum Problem {
    /// The words are wrong: the usage is shown as well.
    Words(String),
    /// The words refer to something wrong, as the message says.
    Meaning(String),
    /// The file with this name can't be read.
    Unread(String, FileError),
}

impl From<String> for Problem {
    fn from(problem: String) -> Self {
        Problem::Words(problem)
    }
}

impl Problem {
    /// Reports the problem with `arguments`.
    fn report(self, arguments: &[String]) -> ExitCode {
        let secrets = options::secrets_named_in(arguments, environment);
        let (problem, usage) = match self {
            Problem::Words(problem) => (problem, format!("\n\n{}", usage())),
            Problem::Meaning(problem) => (problem, String::new()),
            Problem::Unread(file, error) => {
                // Scrubbed before it is quoted: a shell's quotes change an apostrophe.
                let file = secrets.scrub_str(&file);
                let hint = match is_program(&file) {
                    true => format!("; did you mean -e {}?", shell_quoted(&file)),
                    false => String::new(),
                };
                (format!("cannot read {file}: {error}{hint}"), String::new())
            }
        };
        refuse(format_args!(
            "ptc eval: {}{usage}",
            secrets.scrub_str(&problem)
        ))
    }
}

fn usage() -> String {
    USAGE.replace("FLAGS\n", &options::shared_help())
}

/// Runs the command with the arguments after `eval`.
pub fn main(arguments: &[String]) -> ExitCode {
    if wants_help(arguments) {
        return crate::print(usage());
    }
    let ran = parse_arguments(arguments).and_then(|wanted| run(&wanted));
    ran.unwrap_or_else(|problem| problem.report(arguments))
}

fn parse_arguments(arguments: &[String]) -> Result<EvalRequest, Problem> {
    let mut wanted = EvalRequest::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().ok_or(format!("{word} takes {what}"));
        match word.as_str() {
            "-e" => {
                let text = value("a program")?.clone();
                program(&mut wanted, "-e", text)?;
            }
            flag if flag == "--context" || flag.starts_with("--context=") => {
                let file = match flag.split_once('=') {
                    Some((_, file)) => file,
                    None => value("a file")?,
                };
                wanted.context = Some(context(file).map_err(Problem::Meaning)?);
            }
            "--json" => wanted.as_json = true,
            "-" => {
                let text = ptc_secrets::read_standard_input(ptc_secrets::PROGRAM_BYTES_MAX)
                    .map_err(|error| {
                        Problem::Meaning(format!("cannot read standard input: {error}"))
                    })?;
                program(&mut wanted, "standard input", text)?;
            }
            flag if flag.starts_with('-') && flag.len() > 1 && !starts_program(&flag[1..]) => {
                let Some(takes) = options::is_shared(flag) else {
                    return Err(format!("unknown flag {flag}").into());
                };
                wanted.shared.push(flag.to_owned());
                if takes {
                    let value = value("a value")?.clone();
                    wanted.shared.push(value);
                }
            }
            file => {
                let read = ptc_secrets::read_text(file, ptc_secrets::PROGRAM_BYTES_MAX);
                let text = read.map_err(|error| Problem::Unread(file.to_owned(), error))?;
                program(&mut wanted, file, text)?;
            }
        }
    }
    Ok(wanted)
}

fn starts_program(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '(')
}

/// Whether a word that names no file looks like PTC-Lisp.
fn is_program(word: &str) -> bool {
    word.contains(['(', '[', '{', '"', '\'', '#', ' ', ':'])
        || word.trim_start_matches('-').parse::<f64>().is_ok()
}

/// A word quoted for a shell.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn program(wanted: &mut EvalRequest, name: &str, text: String) -> Result<(), String> {
    match wanted.program.replace((name.to_owned(), text)) {
        None => Ok(()),
        Some((other, _)) => Err(format!(
            "one program at a time: {other} and {name} were given"
        )),
    }
}

fn context(file: &str) -> Result<Map, String> {
    let text = ptc_secrets::read_text(file, ptc_secrets::DATA_BYTES_MAX)
        .map_err(|error| format!("cannot read {file}: {error}"))?;
    match json::from_str(&text) {
        Ok(Value::Map(map)) => Ok(map),
        Ok(other) => {
            let found = other.kind().word();
            Err(format!("{file}: expected a JSON object, found: {found}"))
        }
        Err(error) => {
            let LineColumn { line, column } = LineColumn::of(&text, error.offset);
            let problem = error.problem;
            Err(format!("{file}: {problem} at line {line} column {column}"))
        }
    }
}

fn run(wanted: &EvalRequest) -> Result<ExitCode, Problem> {
    let Some((name, text)) = &wanted.program else {
        return Err(Problem::Words("expected a program".to_owned()));
    };
    let options = match options::read(&wanted.shared, environment).map_err(Problem::Meaning)? {
        options::ReplRequest::Run(options) => options,
        options::ReplRequest::Help(_) => return Ok(ExitCode::SUCCESS),
    };
    let evaluator = match Evaluator::start(&options) {
        Ok(evaluator) => evaluator,
        Err(message) => {
            return Ok(fail(format_args!(
                "Error starting upstream runtime: {message}"
            )));
        }
    };
    let context = wanted.context.clone().unwrap_or_default();
    let (outcome, hint) = evaluator.outcome_of(text, context);
    evaluator.end();
    let mut out = outcome
        .prints
        .iter()
        .fold(String::new(), |all, line| all + line + "\n");
    let status = match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) => {
            let value = evaluator.clean(value);
            let text = match wanted.as_json {
                true => evaluator.json(&value),
                false => evaluator.readable(&value),
            };
            text.map(|text| {
                out.push_str(&text);
                out.push('\n');
            })
        }
        Ended::Fail(value) => {
            let value = evaluator.readable(&evaluator.clean(value));
            Err(match value {
                Ok(value) => escape_nonprinting(&format!("(fail {value})")).into_owned(),
                Err(message) => message,
            })
        }
        Ended::Error(error) if error.code() == "cancelled" => {
            Err(format!("{}: {INTERRUPTED}", error.code()))
        }
        Ended::Error(error) => {
            let hint = hint.map_or_else(String::new, |hint| format!("\n{hint}"));
            let veil = evaluator.veil(text);
            Err(diagnostic(error, name, text, &veil) + &hint)
        }
    };
    let written = crate::print(evaluator.scrubbed(&out));
    let ended = match status {
        Ok(()) => written,
        Err(problem) => {
            // The colours are ours; control characters in quoted text were made visible before.
            let problem = evaluator.scrubbed(problem.trim_end());
            let _ = writeln!(std::io::stderr(), "{problem}");
            ExitCode::FAILURE
        }
    };
    evaluator.interrupts.end();
    Ok(ended)
}

/// The error message with the line that it points to.
fn diagnostic(error: &Error, name: &str, text: &str, veil: &Veil<'_>) -> String {
    let redact = |quoted: &str| veil.redact(quoted);
    let mut message = format!(
        "{}: {}",
        error.reason().name(),
        error.redacted_message(&redact)
    );
    let explained = error.explained(text, &redact);
    if !explained.is_empty() {
        message = format!("{message}\n{explained}");
    }
    let message = escape_nonprinting(&message);
    let Some(span) = error.span_in(text).filter(|span| span.end > span.start) else {
        return message.into_owned();
    };
    let name = &*escape_nonprinting(name);
    let range = span.start as usize..span.end as usize;
    let colour = std::io::stderr().is_terminal();
    let config = Config::default()
        .with_color(colour)
        .with_index_type(IndexType::Byte);
    let report = Report::build(ReportKind::Error, (name, range.clone()))
        .with_config(config)
        .with_message(&message)
        .with_label(Label::new((name, range)).with_message("here"))
        .finish();
    let mut written = Vec::new();
    match report.write(
        (
            name,
            Source::from(mask_control_characters(&veil.masked_program())),
        ),
        &mut written,
    ) {
        Ok(()) => String::from_utf8_lossy(&written).into_owned(),
        Err(_) => message.into_owned(),
    }
}

/// `text` with each control character replaced by a character of the same byte length, so that offsets in it stay valid.
fn mask_control_characters(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '\n' | '\t' => letter,
        letter if !is_nonprinting(letter) => letter,
        letter => match letter.len_utf8() {
            1 => '?',
            2 => '¿',
            _ => '\u{fffd}',
        },
    });
    letters.collect()
}
