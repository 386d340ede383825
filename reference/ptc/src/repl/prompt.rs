//! The prompt and its commands. Text that is not finished continues on the next line.

use std::io::{BufRead as _, IsTerminal as _};

use ptc_lang::reader::{self, ReadErrorKind, ReadLimits};

use super::editor::{Editor, Input};
use super::evaluator::Evaluator;
use super::options::display;
use super::println_out;

const GREETING: &str =
    "PTC-Lisp REPL (Ctrl+D to exit)\nType :help for commands, :doc <name> for function docs\n";

/// A command of the prompt: its name, what it takes, what it does.
struct Command {
    name: &'static str,
    takes: &'static str,
    doc: &'static str,
    run: fn(&mut Evaluator, &str) -> String,
}

const QUIT: &str = "quit";

fn quits(text: &str, line: &str) -> bool {
    text.is_empty() && line.trim().strip_prefix(':') == Some(QUIT)
}

const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        takes: "",
        doc: "Show the commands",
        run: |_, _| help(),
    },
    Command {
        name: "doc",
        takes: " <name>",
        doc: "Show what a function or an upstream tool does",
        run: doc,
    },
    Command {
        name: "find",
        takes: " <words>",
        doc: "Search functions and upstream tools",
        run: find,
    },
    Command {
        name: "apropos",
        takes: " <words>",
        doc: "The same",
        run: find,
    },
    Command {
        name: "tools",
        takes: "",
        doc: "Show the upstream tools",
        run: |evaluator, _| tools(evaluator),
    },
    Command {
        name: "display",
        takes: " <mode>",
        doc: "Show values as value, envelope or json",
        run: set_display,
    },
    Command {
        name: "save",
        takes: " <file>",
        doc: "Keep definitions and the last results in a file",
        run: |evaluator, path| match evaluator.save(path) {
            Ok(()) => format!("Saved {path}"),
            Err(message) => message,
        },
    },
    Command {
        name: "restore",
        takes: " <file>",
        doc: "Go on with what a file keeps",
        run: |evaluator, path| match evaluator.restore(path) {
            Ok(()) => format!("Restored {path}"),
            Err(message) => message,
        },
    },
    Command {
        name: QUIT,
        takes: "",
        doc: "Leave, as Ctrl+D does",
        run: |_, _| String::new(),
    },
];

/// Prompts on a terminal until its input ends.
pub fn interactive(evaluator: &mut Evaluator) -> Result<(), ()> {
    evaluator.abbreviate = true;
    evaluator.typed = std::io::stdin().is_terminal();
    println_out(GREETING)?;
    let mut editor = Editor::new();
    let mut text = String::new();
    loop {
        editor.names(evaluator.names());
        let prompt = if text.is_empty() { "ptc> " } else { "...> " };
        // A credential must not lie about in a file.
        let clean = |line: &str| evaluator.scrubbed(line) == line;
        match editor.line(prompt, clean) {
            Input::Line(line) if quits(&text, &line) => break,
            Input::Line(line) => take(evaluator, &mut text, &line)?,
            Input::Interrupted => text.clear(),
            Input::End => break,
        }
    }
    println_out("\nGoodbye!")
}

/// Reads programs from a pipe as a prompt would, but says nothing besides. The first failure ends it.
pub fn piped(evaluator: &mut Evaluator) -> Result<(), ()> {
    let mut text = String::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| {
            crate::tell(format_args!("Error reading standard input: {error}"));
        })?;
        if quits(&text, &line) {
            return Ok(());
        }
        if text.is_empty() && line.trim_start().starts_with(':') {
            println_out(&command(evaluator, line.trim()))?;
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        if is_complete(&text) {
            let program = std::mem::take(&mut text);
            if !is_blank(&program) {
                super::once(evaluator, &program)?;
            }
        }
    }
    if is_blank(&text) {
        Ok(())
    } else {
        super::once(evaluator, &text)
    }
}

fn take(evaluator: &mut Evaluator, text: &mut String, line: &str) -> Result<(), ()> {
    if text.is_empty() && line.trim().is_empty() {
        return Ok(());
    }
    if text.is_empty() && line.trim_start().starts_with(':') {
        return println_out(&command(evaluator, line.trim()));
    }
    text.push_str(line);
    text.push('\n');
    if !is_complete(text) {
        return Ok(());
    }
    let shown = evaluator.evaluate(&std::mem::take(text));
    for line in &shown.prints {
        println_out(line)?;
    }
    println_out(&shown.text)
}

/// Whether more lines could not make the text a program: an open bracket or string waits for its end, any other fault is told.
pub fn is_complete(text: &str) -> bool {
    let error = reader::read(text, &ReadLimits::default()).err();
    !error.is_some_and(|error| {
        matches!(
            error.kind,
            ReadErrorKind::Unclosed { .. }
                | ReadErrorKind::UnclosedString
                | ReadErrorKind::UnclosedRegex
        )
    })
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
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => {
            let told = (command.run)(evaluator, rest.trim());
            evaluator.scrubbed(&told)
        }
        None => {
            let known: Vec<String> = COMMANDS
                .iter()
                .map(|command| format!(":{}{}", command.name, command.takes))
                .collect();
            format!("Unknown command. Available: {}", known.join(", "))
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
    match display(mode) {
        Some(display) => {
            evaluator.display = display;
            format!("Values are shown as {mode}")
        }
        None => "Display modes: value, envelope, json".into(),
    }
}
