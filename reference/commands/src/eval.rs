//! `ptc eval`: runs a program from the shell, with diagnostics that point into its text. Knows nothing of MCP.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use ptc_lang::json::Problem;
use ptc_lang::value::Map;
use ptc_lang::visible::{escape_nonprinting, is_nonprinting};
use ptc_lang::{Ended, Error, Value, json};
use ptc_secrets::{FileError, LineColumn, Veil};

use ptc_upstream::CatalogMode;

use crate::command_line::{self, Arguments, FILE, Flag, PROGRAM, Refusal, Stop, switch, text};
use crate::repl::evaluator::{Evaluator, INTERRUPTED};
use crate::repl::options::{self, EvaluationArguments};
use crate::{fail, print, refuse};

/// The arguments of `ptc eval`.
#[derive(Default)]
struct EvalArguments {
    /// One, unless too many or too few were given.
    sources: Vec<ProgramSource>,
    context: Option<String>,
    json: bool,
    evaluation: EvaluationArguments,
}

/// Where the program is.
enum ProgramSource {
    /// `-e`.
    Expression(String),
    /// A file, or `-`.
    File(String),
}

impl Arguments for EvalArguments {
    const COMMAND: &str = "ptc eval";
    const USAGE: &str = "(FILE | - | -e PROGRAM) [FLAGS]";
    const DOC: &str = "Runs a program from a file, from standard input (-) or from -e.";

    fn flags() -> Vec<Flag<Self>> {
        let mut flags = vec![
            text(
                "eval",
                &PROGRAM,
                "Run PROGRAM.",
                |to: &mut Self, program| to.sources.push(ProgramSource::Expression(program)),
            )
            .short('e'),
            text(
                "context",
                &FILE,
                "File with a JSON object whose members the program reads as data/NAME.",
                |to: &mut Self, file| to.context = Some(file),
            ),
            switch(
                "json",
                "Print the value as JSON instead of PTC-Lisp.",
                |to: &mut Self| to.json = true,
            ),
        ];
        flags.extend(EvaluationArguments::flags());
        flags
    }

    fn take(&mut self, word: &str) -> Result<(), Refusal> {
        self.sources.push(ProgramSource::File(word.to_owned()));
        Ok(())
    }

    /// A program that begins with a dash is answered with the flag that it should follow.
    fn takes_dashed(word: &str) -> bool {
        word[1..].starts_with(|c: char| c.is_ascii_digit() || c == '(')
    }

    fn notes() -> String {
        "Printed lines go to standard output before the value. Exit status: 0 for a value, 1 for an error or (fail v),\n\
         2 for an invalid argument or an unreadable file."
            .to_owned()
    }
}

impl AsMut<EvaluationArguments> for EvalArguments {
    fn as_mut(&mut self) -> &mut EvaluationArguments {
        &mut self.evaluation
    }
}

/// Why a command does not run.
enum Obstacle {
    Refused(Refusal),
    StandardInput(FileError),
    Context(ContextError),
    /// The file with this name can't be read.
    Unread(String, FileError),
}

impl Obstacle {
    /// Reports the obstacle to a run with these words.
    fn report(self, words: &[String]) -> ExitCode {
        let secrets = options::secrets_named_in(words);
        let told = match self {
            Obstacle::Refused(problem) => problem.explain::<EvalArguments>(&problem.to_string()),
            Obstacle::StandardInput(error) => format!("cannot read standard input: {error}"),
            Obstacle::Context(error) => error.to_string(),
            Obstacle::Unread(file, error) => {
                // Scrubbed before it is quoted: a shell's quotes change an apostrophe.
                let file = secrets.scrub_str(&file);
                let hint = match is_program(&file) {
                    true => format!("; did you mean -e {}?", shell_quoted(&file)),
                    false => String::new(),
                };
                format!("cannot read {file}: {error}{hint}")
            }
        };
        refuse(format_args!("ptc eval: {}", secrets.scrub(told)))
    }
}

/// Runs the command with the arguments after `eval`.
pub fn main(words: &[String]) -> ExitCode {
    let ran = match command_line::read(words) {
        Ok(arguments) => run(&arguments),
        Err(Stop::Help(text)) => Ok(print(text)),
        Err(Stop::Refuse(problem)) => Err(Obstacle::Refused(problem)),
    };
    ran.unwrap_or_else(|obstacle| obstacle.report(words))
}

impl ProgramSource {
    /// The name of the program in diagnostics.
    fn name(&self) -> &str {
        match self {
            ProgramSource::Expression(_) => "-e",
            ProgramSource::File(file) if file == "-" => "standard input",
            ProgramSource::File(file) => file,
        }
    }

    /// The program's text.
    fn read(&self) -> Result<Cow<'_, str>, Obstacle> {
        let bytes_max = ptc_secrets::PROGRAM_BYTES_MAX;
        match self {
            ProgramSource::Expression(text) => Ok(text.into()),
            ProgramSource::File(file) if file == "-" => ptc_secrets::read_standard_input(bytes_max)
                .map(Cow::from)
                .map_err(Obstacle::StandardInput),
            ProgramSource::File(file) => ptc_secrets::read_text(file, bytes_max)
                .map(Cow::from)
                .map_err(|error| Obstacle::Unread(file.clone(), error)),
        }
    }
}

/// The one program of the arguments.
fn program(arguments: &EvalArguments) -> Result<&ProgramSource, Obstacle> {
    match arguments.sources.as_slice() {
        [source] => Ok(source),
        [] => Err(Obstacle::Refused(Refusal::Missing {
            expected: "a program",
        })),
        [first, second, ..] => Err(Obstacle::Refused(Refusal::Several {
            what: "program",
            given: [first, second].map(|source| source.name().to_owned()),
        })),
    }
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

/// Why a file is no context.
#[derive(Debug, thiserror::Error)]
enum ContextError {
    #[error("cannot read {file}: {error}")]
    Unread { file: String, error: FileError },
    #[error("{file}: expected a JSON object, found: {found}")]
    NoObject { file: String, found: &'static str },
    #[error("{file}: {problem} at line {line} column {column}")]
    Json {
        file: String,
        problem: Problem,
        line: usize,
        column: usize,
    },
}

fn context(path: &str) -> Result<Map, ContextError> {
    let file = path.to_owned();
    let text = match ptc_secrets::read_text(path, ptc_secrets::DATA_BYTES_MAX) {
        Ok(text) => text,
        Err(error) => return Err(ContextError::Unread { file, error }),
    };
    match json::from_str(&text) {
        Ok(Value::Map(map)) => Ok(map),
        Ok(other) => {
            let found = other.kind().word();
            Err(ContextError::NoObject { file, found })
        }
        Err(error) => {
            let LineColumn { line, column } = LineColumn::of(&text, error.offset);
            Err(ContextError::Json {
                file,
                problem: error.problem,
                line,
                column,
            })
        }
    }
}

fn run(arguments: &EvalArguments) -> Result<ExitCode, Obstacle> {
    let source = program(arguments)?;
    let (name, text) = (source.name(), &*source.read()?);
    let context = match &arguments.context {
        Some(file) => context(file).map_err(Obstacle::Context)?,
        None => Map::new(),
    };
    let evaluator = match Evaluator::start(&arguments.evaluation, CatalogMode::default()) {
        Ok(evaluator) => evaluator,
        Err(error) => {
            return Ok(fail(format_args!(
                "Error starting upstream runtime: {error}"
            )));
        }
    };
    let (outcome, hint) = evaluator.outcome_of(text, context);
    evaluator.end();
    let mut out = outcome
        .prints
        .iter()
        .fold(String::new(), |all, line| all + line + "\n");
    let status = match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) => {
            let value = evaluator.clean(value);
            let text = match arguments.json {
                true => evaluator.json(&value),
                false => evaluator.readable(&value),
            };
            text.map_err(|error| error.to_string()).map(|text| {
                out.push_str(&text);
                out.push('\n');
            })
        }
        Ended::Fail(value) => {
            let value = evaluator.readable(&evaluator.clean(value));
            Err(match value {
                Ok(value) => escape_nonprinting(&format!("(fail {value})")).into_owned(),
                Err(error) => error.to_string(),
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
