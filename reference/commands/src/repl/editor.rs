//! Line editing: history, completion from the tables of names, matching brackets. Without a terminal, plain lines.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};

use ptc_lang::visible::is_nonprinting;

use super::prompt::{command_names, line_of_input};

/// Maximum lines of history.
const HISTORY_LINES: usize = 1000;
/// A larger file is not an editing history.
const HISTORY_BYTES_MAX: u64 = 16 << 20;

/// One input from the user.
pub enum Input {
    /// A line without its end.
    Line(String),
    /// Ctrl-C: the typed text is discarded.
    Interrupted,
    /// End of input.
    End,
}

pub struct Editor {
    terminal: Option<Box<rustyline::Editor<EditorHelper, DefaultHistory>>>,
    history: Option<PathBuf>,
}

impl Editor {
    /// Edits on the terminal, if there is one.
    pub fn new() -> Self {
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let editor = terminal.then(terminal_editor).flatten();
        let mut editor = Self {
            terminal: editor,
            history: history_file().filter(|path| {
                // In the first session the file does not exist yet.
                std::fs::metadata(path).map_or(true, |file| {
                    file.is_file() && file.len() <= HISTORY_BYTES_MAX
                })
            }),
        };
        if let (Some(terminal), Some(path)) = (&mut editor.terminal, &editor.history) {
            let _ = terminal.load_history(path);
        }
        editor
    }

    /// Sets the names that are currently defined.
    pub fn names(&mut self, defined: Vec<String>) {
        if let Some(names) = self
            .terminal
            .as_mut()
            .and_then(|terminal| terminal.helper_mut())
        {
            names.defined = defined;
        }
    }

    /// Reads the next line; it is added to the history when it `may_be_kept`. Reports read errors.
    pub fn line(&mut self, prompt: &str, may_be_kept: impl Fn(&str) -> bool) -> Result<Input, ()> {
        match &mut self.terminal {
            None => plain_line(prompt),
            Some(terminal) => Ok(match terminal.readline(prompt) {
                Ok(line) => {
                    // Failures to write history are ignored; the prompt works without it.
                    if may_be_kept(&line) {
                        let _ = terminal.add_history_entry(line.as_str());
                        if let Some(path) = &self.history {
                            let _ = terminal.append_history(path);
                        }
                    }
                    Input::Line(line)
                }
                Err(ReadlineError::Interrupted) => Input::Interrupted,
                Err(_) => Input::End,
            }),
        }
    }
}

fn terminal_editor() -> Option<Box<rustyline::Editor<EditorHelper, DefaultHistory>>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_LINES)
        .ok()?
        .build();
    let mut editor = rustyline::Editor::with_config(config).ok()?;
    editor.set_helper(Some(EditorHelper::new()));
    Some(Box::new(editor))
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let state = state.or_else(|| {
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"))
    })?;
    let directory = state.join("ptc");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("repl_history"))
}

fn plain_line(prompt: &str) -> Result<Input, ()> {
    let mut out = std::io::stdout();
    // If the reader is gone, the input ends soon, too.
    let _ = out.write_all(prompt.as_bytes()).and_then(|()| out.flush());
    Ok(line_of_input()?.map_or(Input::End, Input::Line))
}

/// Names for calling upstreams.
const TOOL_NAMES: [&str; 2] = ["tool/call", "tool/servers"];

/// What the editor knows of the language: its names, and how text is coloured.
struct EditorHelper {
    builtin: Vec<String>,
    defined: Vec<String>,
}

impl EditorHelper {
    fn new() -> Self {
        let mut builtin = Vec::new();
        for function in ptc_lang::builtins() {
            builtin.push(function.name.to_owned());
            let spaces = ptc_lang::NAMESPACES
                .iter()
                .filter(|space| function.homes.contains(&space.id));
            let spellings = spaces.flat_map(|space| space.spellings);
            // Members of classes and of `json` already have their namespace in their name.
            if !function.name.contains('/') {
                builtin.extend(spellings.map(|space| format!("{space}/{}", function.name)));
            }
        }
        builtin.extend(TOOL_NAMES.map(str::to_owned));
        builtin.extend(
            ptc_lang::special_forms()
                .iter()
                .map(|form| form.name.to_owned()),
        );
        builtin.extend(command_names());
        builtin.sort();
        builtin.dedup();
        Self {
            builtin,
            defined: Vec::new(),
        }
    }
}

impl Helper for EditorHelper {}

impl Hinter for EditorHelper {
    type Hint = String;
}

impl Validator for EditorHelper {}

impl Completer for EditorHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..at]
            .rfind(|c: char| c.is_whitespace() || "()[]{}\"'`,;#@".contains(c))
            .map_or(0, |i| i + 1);
        let word = &line[start..at];
        let names = self.builtin.iter().chain(&self.defined);
        // A config or a session may contain names with control characters.
        let mut found: Vec<String> = names
            .filter(|name| name.starts_with(word) && !name.contains(is_nonprinting))
            .cloned()
            .collect();
        found.sort();
        found.dedup();
        Ok((start, found))
    }
}

impl Highlighter for EditorHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(colored(line))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

/// Strings green, keywords cyan, comments dim, numbers yellow. Lexical only: a line may be an incomplete program.
fn colored(line: &str) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, color) = match first {
            '"' => (string_length(rest), "32"),
            ';' => (rest.len(), "2"),
            ':' => (word_length(rest), "36"),
            '0'..='9' => (word_length(rest), "33"),
            c if "()[]{}".contains(c) || c.is_whitespace() => (c.len_utf8(), ""),
            _ => (word_length(rest).max(first.len_utf8()), ""),
        };
        let (token, after) = rest.split_at(length);
        match color {
            "" => out.push_str(token),
            color => out.push_str(&format!("\x1b[{color}m{token}\x1b[0m")),
        }
        rest = after;
    }
    out
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "()[]{}\";".contains(c))
        .unwrap_or(text.len())
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_complete_with_their_namespaces() {
        let history = DefaultHistory::new();
        let complete = |line: &str| {
            let context = Context::new(&history);
            let (start, found) = EditorHelper::new()
                .complete(line, line.len(), &context)
                .unwrap();
            (start, found.join(" "))
        };
        assert_eq!(complete("(str/jo"), (1, "str/join".to_owned()));
        assert_eq!(
            complete("(clojure.set/un"),
            (1, "clojure.set/union".to_owned())
        );
        assert_eq!(complete("[:a (tool/c"), (5, "tool/call".to_owned()));
        assert_eq!(complete(":dis"), (0, ":display".to_owned()));
        assert_eq!(
            complete("(json/parse-s"),
            (1, "json/parse-string".to_owned())
        );
    }

    #[test]
    fn control_characters_are_never_completed() {
        let history = DefaultHistory::new();
        let mut names = EditorHelper::new();
        names.defined = ["zork".to_owned(), "zork\u{1b}[2J".to_owned()].into();
        let context = Context::new(&history);
        let (_, found) = names.complete("zo", 2, &context).unwrap();
        assert_eq!(found, ["zork"]);
    }

    #[test]
    fn coloring_keeps_the_text() {
        for line in [
            "(map :a [1 \"x\\\"y\"]) ; note",
            "\"open",
            ":k",
            "é(",
            "\"é\"",
        ] {
            let plain: String = colored(line).replace("\x1b[0m", "");
            let plain = ["32", "2", "36", "33"]
                .iter()
                .fold(plain, |text, c| text.replace(&format!("\x1b[{c}m"), ""));
            assert_eq!(plain, line);
        }
    }
}
