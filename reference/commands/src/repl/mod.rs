//! `ptc repl`: PTC-Lisp at a prompt, from `-e`, from files and from pipes, with upstreams if configured.
//!
//! Knows nothing of MCP. All output goes through the runtime's redactor.

mod editor;
pub(crate) mod evaluator;
pub(crate) mod options;
mod prompt;

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::{AccessFlags, access};

use crate::command_line::{self, Refusal, Stop};
use crate::{fail, print};
use evaluator::{Evaluator, SessionFileError, SessionFileFault, Shown};
use options::ReplArguments;

/// Runs the command with the arguments after `repl`.
pub fn main(words: &[String]) -> ExitCode {
    match command_line::read(words) {
        Ok(arguments) => start(&arguments),
        Err(Stop::Help(text)) => print(text),
        Err(Stop::Refuse(problem)) => {
            let told = match &problem {
                Refusal::Surplus(word) => format!("one FILE at most, found {word} too"),
                problem => problem.to_string(),
            };
            let secrets = options::secrets_named_in(words);
            fail(secrets.scrub(problem.explain::<ReplArguments>(&told)))
        }
    }
}

fn start(arguments: &ReplArguments) -> ExitCode {
    let started = Evaluator::start(&arguments.evaluation, arguments.catalog);
    let mut evaluator = match started {
        Ok(evaluator) => evaluator,
        Err(error) => return fail(format_args!("Error starting upstream runtime: {error}")),
    };
    evaluator.session = arguments.session.clone();
    evaluator.display = arguments.display;
    let status = run_in_session(arguments, &mut evaluator);
    evaluator.end();
    evaluator.interrupts.end();
    match status {
        Ok(()) => ExitCode::SUCCESS,
        Err(()) => ExitCode::FAILURE,
    }
}

/// Restores the session from an existing file, and saves it afterwards, whether or not the last program succeeded.
fn run_in_session(arguments: &ReplArguments, evaluator: &mut Evaluator) -> Result<(), ()> {
    let Some(path) = &arguments.session else {
        return run(arguments, evaluator);
    };
    if Path::new(path).exists() {
        let restored = evaluator.restore(path);
        restored.map_err(|error| tell(evaluator, error))?;
    }
    if arguments.expressions.is_empty() && arguments.script.is_none() {
        check_can_save(path).map_err(|error| tell(evaluator, error))?;
    }
    let status = run(arguments, evaluator);
    let saved = evaluator.save(path);
    saved.map_err(|error| tell(evaluator, error))?;
    status
}

/// Writes a message that may quote an argument, scrubbed, to standard error.
fn tell(evaluator: &Evaluator, message: impl Display) {
    crate::print_error(evaluator.scrubbed(&message.to_string()));
}

/// Refuses a place where nothing can be saved: the user must not find out after an hour of typing.
fn check_can_save(path: &str) -> Result<(), SessionFileError> {
    let directory = match Path::new(path).parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    access(directory, AccessFlags::W_OK).map_err(|errno| {
        let directory = directory.to_owned();
        SessionFileError::saving(path, SessionFileFault::Directory { directory, errno })
    })
}

/// Runs expressions first, then a script, and a prompt only when neither was given.
fn run(arguments: &ReplArguments, evaluator: &mut Evaluator) -> Result<(), ()> {
    for expression in &arguments.expressions {
        evaluate_once(evaluator, expression)?;
    }
    if let Some(path) = &arguments.load {
        let text = read_file(evaluator, path)?;
        let shown = evaluator.evaluate(&text);
        report(&shown, ReportDetail::Failure)?;
        println_out(&evaluator.scrubbed(&format!("Loaded {path}")))?;
    }
    match &arguments.script {
        Some(path) if path == "-" => evaluate_once(evaluator, &read_stdin()?),
        Some(path) => {
            let text = read_file(evaluator, path)?;
            evaluate_once(evaluator, &text)
        }
        None if !arguments.expressions.is_empty() => Ok(()),
        None if !arguments.interactive && !std::io::stdin().is_terminal() => {
            prompt::piped(evaluator)
        }
        None => prompt::interactive(evaluator),
    }
}

fn evaluate_once(evaluator: &mut Evaluator, text: &str) -> Result<(), ()> {
    report(&evaluator.evaluate(text), ReportDetail::All)
}

/// How much of an evaluation is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReportDetail {
    All,
    Failure,
}

fn report(shown: &Shown, show: ReportDetail) -> Result<(), ()> {
    for line in &shown.prints {
        println_out(line)?;
    }
    match (&shown.text, shown.ok) {
        (text, true) if show == ReportDetail::All => println_out(text)?,
        (_, true) => {}
        (text, false) => {
            crate::print_error(text);
            return Err(());
        }
    }
    Ok(())
}

fn println_out(line: &str) -> Result<(), ()> {
    crate::write(format!("{line}\n").as_bytes()).map_err(|error| {
        crate::print_error(format_args!("cannot write to standard output: {error}"));
    })
}

fn read_file(evaluator: &Evaluator, path: &str) -> Result<String, ()> {
    ptc_secrets::read_text(path, ptc_secrets::PROGRAM_BYTES_MAX)
        .map_err(|unread| tell(evaluator, format_args!("Error reading {path}: {unread}")))
}

fn read_stdin() -> Result<String, ()> {
    ptc_secrets::read_standard_input(ptc_secrets::PROGRAM_BYTES_MAX).map_err(|unread| {
        crate::print_error(format_args!("Error reading standard input: {unread}"))
    })
}
