//! The prompt and its commands. Incomplete text continues on the next line.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use ptc_lang::reader::{self, ReadError, ReadErrorKind, ReadLimits};
use ptc_protocol::closest_of;
use ptc_secrets::{FileError, PROGRAM_BYTES_MAX};

use super::editor::{Editor, Input};
use super::evaluator::Evaluator;
use super::options::Display;
use super::println_out;

const GREETING: &str =
    "PTC-Lisp REPL (Ctrl+D to exit)\nType :help for commands, :doc <name> for function docs\n";

/// A command of the prompt: its name, its argument, its help text.
struct PromptCommand {
    name: &'static str,
    takes: &'static str,
    doc: &'static str,
    run: fn(&mut Evaluator, &str) -> String,
}

const QUIT: &str = "quit";

const COMMANDS: &[PromptCommand] = &[
    PromptCommand {
        name: "help",
        takes: "",
        doc: "Show the commands",
        run: |_, _| help(),
    },
    PromptCommand {
        name: "doc",
        takes: " <name>",
        doc: "Show what a function or an upstream tool does",
        run: doc,
    },
    PromptCommand {
        name: "find",
        takes: " <words>",
        doc: "Search functions and upstream tools",
        run: find,
    },
    PromptCommand {
        name: "apropos",
        takes: " <words>",
        doc: "Same as :find",
        run: find,
    },
    PromptCommand {
        name: "tools",
        takes: "",
        doc: "Show the upstream tools",
        run: |evaluator, _| tools(evaluator),
    },
    PromptCommand {
        name: "display",
        takes: " <mode>",
        doc: "Set how values are shown: value, envelope or json",
        run: set_display,
    },
    PromptCommand {
        name: "save",
        takes: " <file>",
        doc: "Save definitions and the last results to a file",
        run: |evaluator, path| match evaluator.save(path) {
            Ok(()) => format!("Saved {path}"),
            Err(error) => error.to_string(),
        },
    },
    PromptCommand {
        name: "restore",
        takes: " <file>",
        doc: "Replace the definitions with those saved in a file",
        run: |evaluator, path| match evaluator.restore(path) {
            Ok(()) => format!("Restored {path}"),
            Err(error) => error.to_string(),
        },
    },
    PromptCommand {
        name: QUIT,
        takes: "",
        doc: "Leave, like Ctrl+D",
        run: |_, _| String::new(),
    },
];

/// Prompts on a terminal until its input ends.
pub fn interactive(evaluator: &mut Evaluator) -> Result<(), ()> {
    evaluator.abbreviate = true;
    evaluator.shows_documents = true;
    evaluator.typed = std::io::stdin().is_terminal();
    if evaluator.typed {
        evaluator.interrupts.begin_prompt();
    }
    println_out(GREETING)?;
    let mut editor = Editor::new();
    let mut typed = Unfinished::default();
    loop {
        editor.names(evaluator.names());
        let prompt = if typed.is_empty() { "ptc> " } else { "...> " };
        // A credential must not end up in the history file.
        let clean = |line: &str| evaluator.scrubbed(line) == line;
        match editor.line(prompt, clean)? {
            Input::Line(line) if typed.is_quit(&line) => break,
            Input::Line(line) => {
                handle_line(evaluator, &mut typed, &line)?;
                if evaluator.interrupts.is_ending() {
                    return Ok(());
                }
            }
            Input::Interrupted => typed = Unfinished::default(),
            Input::End => break,
        }
    }
    println_out("\nGoodbye!")
}

/// Reads programs from a pipe like a prompt, but prints no prompt. Stops at the first failure.
pub fn piped(evaluator: &mut Evaluator) -> Result<(), ()> {
    evaluator.shows_documents = true;
    let mut piped = Unfinished::default();
    while let Some(line) = line_of_input()? {
        if piped.is_quit(&line) {
            return Ok(());
        }
        if piped.is_empty() && line.trim_start().starts_with(':') {
            println_out(&command(evaluator, line.trim()))?;
            continue;
        }
        if let Some(program) = piped.push_line(&line)?
            && !is_blank(&program)
        {
            super::evaluate_once(evaluator, &program)?;
        }
    }
    match is_blank(&piped.text) {
        true => Ok(()),
        false => super::evaluate_once(evaluator, &piped.text),
    }
}

/// The next line of standard input, without its terminator.
pub fn line_of_input() -> Result<Option<String>, ()> {
    let mut line = Vec::new();
    let mut input = std::io::stdin().lock().take(PROGRAM_BYTES_MAX + 1);
    let read = input.read_until(b'\n', &mut line);
    let count = read.map_err(|error| report_unread(&FileError::Io(error)))?;
    if count as u64 > PROGRAM_BYTES_MAX {
        return too_long();
    }
    let line = String::from_utf8(line).map_err(|_| report_unread(&FileError::NotText))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    Ok((count > 0).then(|| line.to_owned()))
}

fn too_long<T>() -> Result<T, ()> {
    report_unread(&FileError::TooLong {
        bytes: None,
        bytes_max: PROGRAM_BYTES_MAX,
    });
    Err(())
}

fn report_unread(cause: &FileError) {
    crate::print_error(format_args!("Error reading standard input: {cause}"));
}

fn handle_line(evaluator: &mut Evaluator, typed: &mut Unfinished, line: &str) -> Result<(), ()> {
    if typed.is_empty() && line.trim().is_empty() {
        return Ok(());
    }
    if typed.is_empty() && line.trim_start().starts_with(':') {
        return println_out(&command(evaluator, line.trim()));
    }
    let Some(program) = typed.push_line(line)? else {
        return Ok(());
    };
    let shown = evaluator.evaluate(&program);
    for line in &shown.prints {
        println_out(line)?;
    }
    println_out(&shown.text)
}

/// The lines of an incomplete program.
#[derive(Default)]
struct Unfinished {
    text: String,
    /// For a long text, a short one that needs the same closing brackets or quotes.
    open_context: Option<String>,
}

/// A text of up to this many bytes is read again with each new line. With longer texts that would take quadratic time.
const READ_AGAIN_BYTES_MAX: usize = 16 << 10;

impl Unfinished {
    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn is_quit(&self, line: &str) -> bool {
        self.is_empty() && line.trim().strip_prefix(':') == Some(QUIT)
    }

    /// Adds a line; returns the program if that completes it.
    fn push_line(&mut self, line: &str) -> Result<Option<String>, ()> {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() as u64 > PROGRAM_BYTES_MAX {
            return too_long();
        }
        if let Some(short) = &self.open_context {
            self.open_context = open_context(&format!("{short}{line}\n"));
            if self.open_context.is_some() {
                return Ok(None);
            }
        }
        if incomplete_error(&self.text).is_none() {
            return Ok(Some(std::mem::take(self).text));
        }
        if self.text.len() > READ_AGAIN_BYTES_MAX {
            self.open_context = open_context(&self.text);
        }
        Ok(None)
    }
}

/// The error of a text that more lines may complete: an unclosed bracket or string. Other errors are reported elsewhere.
fn incomplete_error(text: &str) -> Option<ReadError> {
    let error = reader::read(text, &ReadLimits::default()).err()?;
    let waits = matches!(
        error.kind,
        ReadErrorKind::Unclosed { .. }
            | ReadErrorKind::UnclosedString
            | ReadErrorKind::UnclosedRegex
    );
    waits.then_some(error)
}

/// The open brackets of a text and the opening of its unclosed string; `None` when the text is not waiting for more lines, or is too
/// deep.
fn open_context(text: &str) -> Option<String> {
    let error = incomplete_error(text)?;
    let string = match error.kind {
        ReadErrorKind::UnclosedString => "\"",
        ReadErrorKind::UnclosedRegex => "#\"",
        _ => return brackets(error.kind),
    };
    let before = text.get(..error.span.start as usize)?;
    let brackets = match reader::read(before, &ReadLimits::default()) {
        Ok(_) => String::new(),
        Err(error) => brackets(error.kind)?,
    };
    Some(brackets + string)
}

fn brackets(unclosed: ReadErrorKind) -> Option<String> {
    let ReadErrorKind::Unclosed { open, closers, .. } = unclosed else {
        return None;
    };
    let openers = closers.chars().rev().map(|closer| match closer {
        ')' => "(",
        ']' => "[",
        // A set instead of a map, whose forms must come in pairs: the first of a pair may be missing here.
        _ => "#{",
    });
    (closers.chars().count() == open as usize).then(|| openers.collect())
}

fn is_blank(text: &str) -> bool {
    reader::read(text, &ReadLimits::default()).is_ok_and(|forms| forms.is_empty())
}

/// Names of the commands, for completion.
pub fn command_names() -> impl Iterator<Item = String> {
    COMMANDS.iter().map(|command| format!(":{}", command.name))
}

fn command(evaluator: &mut Evaluator, line: &str) -> String {
    let (name, rest) = line[1..]
        .split_once(char::is_whitespace)
        .unwrap_or((&line[1..], ""));
    let rest = rest.trim();
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => {
            let told = match command.takes.is_empty() && !rest.is_empty() {
                true => format!(":{name} stands alone, found `{rest}` behind it"),
                false => (command.run)(evaluator, rest),
            };
            evaluator.scrubbed(&told)
        }
        None => {
            let known: Vec<String> = COMMANDS
                .iter()
                .map(|command| format!(":{}{}", command.name, command.takes))
                .collect();
            let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            let meant = closest_of(name, &names).map(|name| format!(". Did you mean :{name}?"));
            let (known, meant) = (known.join(", "), meant.unwrap_or_default());
            format!("Unknown command. Available: {known}{meant}")
        }
    }
}

fn help() -> String {
    let rows = COMMANDS.iter().map(|command| {
        let call = format!(":{}{}", command.name, command.takes);
        format!("  {call:<18} {}", command.doc)
    });
    format!("Commands:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

fn doc(evaluator: &mut Evaluator, name: &str) -> String {
    let quoted = serde_json::Value::from(name).to_string();
    let found = evaluator.look_up(&format!("(doc {quoted})"));
    match found.is_empty() {
        true => format!("No documentation found for: {name}"),
        false => found.join("\n"),
    }
}

fn find(evaluator: &mut Evaluator, words: &str) -> String {
    let quoted = serde_json::Value::from(words).to_string();
    let found = evaluator.look_up(&format!("(apropos {quoted} {{:limit 20}})"));
    if found.is_empty() {
        return format!("No matches for: {words}");
    }
    let lines: Vec<String> = found.iter().map(|line| format!("  {line}")).collect();
    format!("{}\n\n{} result(s)", lines.join("\n"), lines.len())
}

fn tools(evaluator: &Evaluator) -> String {
    match evaluator.catalog() {
        None => "No upstream runtime configured".into(),
        Some(text) => text,
    }
}

fn set_display(evaluator: &mut Evaluator, mode: &str) -> String {
    match Display::NAMES.iter().find(|(name, _)| *name == mode) {
        Some((_, display)) => {
            evaluator.display = *display;
            format!("Values are shown as {mode}")
        }
        None => {
            let names: Vec<&str> = Display::NAMES.iter().map(|(name, _)| *name).collect();
            format!("Display modes: {}", names.join(", "))
        }
    }
}
