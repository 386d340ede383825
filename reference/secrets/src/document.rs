//! The upstreams config as a document: read once, credentials moved out, positions located for error messages. Knows JSON text
//! and the `credentials` block; knows nothing of what an upstream entry means.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::file::{FileError, read_text};
use crate::redactor::Redactor;
use crate::source::{CredentialFault, Credentials, json_kind};

/// A config larger than this is a mistake.
const CONFIG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A parsed config without its credentials. Keeps its text (wiped on drop) to locate faults.
pub struct ConfigDocument {
    path: PathBuf,
    text: Zeroizing<String>,
    /// Everything except `credentials`.
    pub root: Map<String, Value>,
    /// The credentials that could be resolved.
    pub credentials: Credentials,
    /// Why the others could not be resolved; reported once all secrets are known.
    pub refused: Vec<ConfigFault>,
}

/// A position in the file. Line and column count from 1; the column is in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineColumn {
    pub line: usize,
    pub column: usize,
}

impl LineColumn {
    /// The position of the byte at `offset`, or of the character that contains it.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        LineColumn {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A refusal with its place. `Display` gives `FILE:LINE:COLUMN: at PATH: message`. It may quote the config outside of the
/// credentials, so it is [`scrubbed`](Self::scrubbed) before anybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    pub file: PathBuf,
    /// Line and column, when the fault is inside the text.
    pub place: Option<LineColumn>,
    /// Dotted path of the offending member (`upstreams.fs.auth[0].scheme`), empty for the whole file.
    pub member: String,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(LineColumn { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        f.write_str(": ")?;
        if !self.member.is_empty() {
            write!(f, "at {}: ", shown(&self.member))?;
        }
        f.write_str(&shown(&self.message))
    }
}

/// Maximum bytes of a quoted part of the config in a diagnostic.
const SHOWN_BYTES_MAX: usize = 2_000;

fn shown(text: &str) -> Cow<'_, str> {
    match text.len() <= SHOWN_BYTES_MAX {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!(
            "{}...",
            &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
        )),
    }
}

impl std::error::Error for ConfigFault {}

impl ConfigFault {
    /// The same fault with secrets redacted: a credential may be written where none belongs.
    #[must_use]
    pub fn scrubbed(mut self, redactor: &Redactor) -> Self {
        if let Cow::Owned(file) = redactor.scrub_str(&self.file.to_string_lossy()) {
            self.file = PathBuf::from(file);
        }
        self.member = redactor.scrub(self.member).into_inner();
        self.message = redactor.scrub(self.message).into_inner();
        self
    }
}

impl ConfigDocument {
    /// Reads and parses `path`, resolving its credentials through `env`. The root must be an object; an empty file is refused.
    pub fn read(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigFault> {
        let refuse = |message: String| ConfigFault {
            file: path.to_owned(),
            place: None,
            member: String::new(),
            message,
        };
        let text = read_text(path, CONFIG_BYTES_MAX).map_err(|unread| {
            refuse(match unread {
                FileError::TooLong {
                    bytes: Some(bytes),
                    bytes_max,
                } => format!("upstreams config is {bytes} bytes, exceeding {bytes_max}"),
                FileError::NotText => "upstreams config is not UTF-8 text".into(),
                other => format!("upstreams config: {other}"),
            })
        })?;
        Self::parse(path, text, env)
    }

    /// Parses config text that came from `path`.
    pub fn parse(
        path: &Path,
        text: String,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigFault> {
        let text = Zeroizing::new(text);
        let refuse = |place, member: String, message| ConfigFault {
            file: path.to_owned(),
            place,
            member,
            message,
        };
        if text.trim().is_empty() {
            return Err(refuse(
                None,
                String::new(),
                "upstreams config is empty".into(),
            ));
        }
        let root: Value = serde_json::from_str(&text).map_err(|e| {
            let words = e.to_string();
            let words = words.split(" at line ").next().unwrap_or(&words).to_owned();
            let place = LineColumn {
                line: e.line().max(1),
                column: e.column().max(1),
            };
            refuse(
                Some(place),
                String::new(),
                format!("upstreams config JSON decode failed: {words}"),
            )
        })?;
        let mut root = match root {
            Value::Object(root) => root,
            other => {
                let message = format!(
                    "upstreams config must be a JSON object, got {}",
                    json_kind(&other)
                );
                return Err(refuse(
                    Some(LineColumn { line: 1, column: 1 }),
                    String::new(),
                    message,
                ));
            }
        };
        let block = root.remove("credentials").unwrap_or(Value::Null);
        let (credentials, faults) = Credentials::resolve(block, env);
        let refused = faults
            .into_iter()
            .map(|CredentialFault { path: at, message }| {
                refuse(Some(locate(&text, &at)), dotted(&at), message)
            })
            .collect();
        Ok(Self {
            path: path.to_owned(),
            text,
            root,
            credentials,
            refused,
        })
    }

    /// The file that the document came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A fault located at a member. `path`: object keys and array indices from the root.
    pub fn fault(&self, path: &[String], message: String) -> ConfigFault {
        ConfigFault {
            file: self.path.clone(),
            place: Some(locate(&self.text, path)),
            member: dotted(path),
            message,
        }
    }
}

impl fmt::Debug for ConfigDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDocument")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn dotted(path: &[String]) -> String {
    let mut out = String::new();
    for step in path {
        if !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{step}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(step);
        }
    }
    out
}

/// The position of the deepest member of `path` that exists in `text`, which is valid JSON. A duplicate member is located at its
/// last occurrence, the one that counts.
fn locate(text: &str, path: &[String]) -> LineColumn {
    let mut scan = JsonScanner {
        bytes: text.as_bytes(),
        at: 0,
    };
    scan.blank();
    let mut found = scan.at;
    for step in path {
        match scan.enter(step) {
            Some(at) => found = at,
            None => break,
        }
    }
    LineColumn::of(text, found)
}

/// A scanner over valid JSON text that skips values without building them.
struct JsonScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl JsonScanner<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn blank(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Moves to the value of member `step` of the object or array here; returns where the member (its key) begins.
    fn enter(&mut self, step: &str) -> Option<usize> {
        let open = self.peek();
        if open != b'{' && open != b'[' {
            return None;
        }
        self.at += 1;
        let mut last = None;
        let mut index = 0usize;
        loop {
            self.blank();
            if matches!(self.peek(), b'}' | b']' | 0) {
                break;
            }
            let begin = self.at;
            let hit = if open == b'{' {
                self.skip();
                let key: Option<String> = serde_json::from_slice(&self.bytes[begin..self.at]).ok();
                self.blank();
                self.at += 1;
                self.blank();
                key.as_deref() == Some(step)
            } else {
                index.to_string() == step
            };
            if hit {
                last = Some((begin, self.at));
            }
            self.skip();
            self.blank();
            if self.peek() == b',' {
                self.at += 1;
            }
            index += 1;
        }
        let (begin, value) = last?;
        self.at = value;
        Some(begin)
    }

    fn skip(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                b'"' => self.string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                0 => return,
                b if depth > 0 && (b.is_ascii_whitespace() || b == b',' || b == b':') => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    while !matches!(self.peek(), b',' | b'}' | b']' | b':' | 0)
                        && !self.peek().is_ascii_whitespace()
                    {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            match self.peek() {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return;
                }
                0 => return,
                _ => self.at += 1,
            }
        }
    }
}
