//! The one reader of command lines: a command lists its flags as rows, and the reader, the help and the messages derive from them.
//!
//! Knows nothing of what a command does, and shows nothing: a refusal may quote a credential.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use ptc_protocol::closest_of;

use crate::wants_help;

/// The arguments of a command.
pub trait Arguments: Default + 'static {
    /// How the command is called, such as `ptc eval`.
    const COMMAND: &'static str;
    /// What follows the command, in its usage.
    const USAGE: &'static str;
    /// What the help says above the flags.
    const DOC: &'static str;

    /// The flags; the reader adds `--help`.
    fn flags() -> Vec<Flag<Self>>;

    /// Takes a word that is no flag.
    ///
    /// # Errors
    /// The word is one too many.
    fn take(&mut self, word: &str) -> Result<(), Refusal>;

    /// Whether a word that begins with a dash is no flag all the same.
    fn takes_dashed(_: &str) -> bool {
        false
    }

    /// What the help says below the flags.
    fn notes() -> String {
        String::new()
    }
}

/// A flag of a command.
pub struct Flag<T> {
    name: &'static str,
    short: Option<char>,
    /// `None` for a switch.
    value: Option<FlagValue>,
    doc: String,
    /// Sets the flag to a value, or refuses it.
    set: Setter<T>,
}

type Setter<T> = Box<dyn Fn(&mut T, &str) -> bool>;

struct FlagValue {
    /// Its placeholder in the help.
    placeholder: &'static str,
    /// Which values the flag accepts.
    expected: String,
    default: FlagDefault,
}

enum FlagDefault {
    None,
    /// Set before the arguments are read.
    Set(String),
    /// Depends on something; only described here.
    Described(String),
}

/// A flag without a value.
pub fn switch<T: 'static>(name: &'static str, doc: &str, set: fn(&mut T)) -> Flag<T> {
    Flag {
        name,
        short: None,
        value: None,
        doc: doc.to_owned(),
        set: Box::new(move |to, _| {
            set(to);
            true
        }),
    }
}

/// What the text of a flag stands for.
pub struct TextKind {
    /// Its placeholder in the help.
    pub placeholder: &'static str,
    /// Its description in messages.
    pub expected: &'static str,
    pub may_be_empty: bool,
}

pub const FILE: TextKind = TextKind {
    placeholder: "FILE",
    expected: "a file",
    may_be_empty: false,
};

pub const PROGRAM: TextKind = TextKind {
    placeholder: "PROGRAM",
    expected: "a program",
    may_be_empty: true,
};

/// A flag with a text as its value.
pub fn text<T: 'static>(
    name: &'static str,
    kind: &'static TextKind,
    doc: &str,
    set: fn(&mut T, String),
) -> Flag<T> {
    let set: Setter<T> = Box::new(move |to, text| {
        let accepted = kind.may_be_empty || !text.is_empty();
        if accepted {
            set(to, text.to_owned());
        }
        accepted
    });
    Flag::valued(name, kind.placeholder, kind.expected.to_owned(), doc, set)
}

/// A flag with a number above zero as its value.
pub fn positive<T: 'static, N>(
    name: &'static str,
    placeholder: &'static str,
    default: Option<N>,
    doc: &str,
    set: fn(&mut T, N),
) -> Flag<T>
where
    N: FromStr + ToString + Default + PartialEq + 'static,
{
    let set: Setter<T> = Box::new(move |to, text| match text.parse() {
        Ok(number) if number != N::default() => {
            set(to, number);
            true
        }
        _ => false,
    });
    let flag = Flag::valued(name, placeholder, "a positive integer".to_owned(), doc, set);
    match default {
        Some(default) => flag.with_default(FlagDefault::Set(default.to_string())),
        None => flag,
    }
}

/// A flag with one of the words of a table as its value.
pub fn word<T: 'static, W: Copy + PartialEq>(
    name: &'static str,
    words: &'static [(&'static str, W)],
    default: W,
    doc: &str,
    set: fn(&mut T, W),
) -> Flag<T> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let expected = format!("one of {}", names.join(", "));
    let default = words.iter().find(|(_, known)| *known == default);
    let default = default.expect("each value has its word").0;
    let set: Setter<T> = Box::new(move |to, text| {
        let known = words.iter().find(|(name, _)| *name == text);
        known.is_some_and(|(_, word)| {
            set(to, *word);
            true
        })
    });
    let flag = Flag::valued(name, "MODE", expected, doc, set);
    flag.with_default(FlagDefault::Set(default.to_owned()))
}

impl<T> Flag<T> {
    fn valued(
        name: &'static str,
        placeholder: &'static str,
        expected: String,
        doc: &str,
        set: Setter<T>,
    ) -> Self {
        Flag {
            name,
            short: None,
            value: Some(FlagValue {
                placeholder,
                expected,
                default: FlagDefault::None,
            }),
            doc: doc.to_owned(),
            set,
        }
    }

    pub fn short(self, short: char) -> Self {
        Flag {
            short: Some(short),
            ..self
        }
    }

    /// Describes a default that depends on something.
    pub fn unless_given(self, default: impl Into<String>) -> Self {
        self.with_default(FlagDefault::Described(default.into()))
    }

    fn with_default(mut self, default: FlagDefault) -> Self {
        if let Some(value) = &mut self.value {
            value.default = default;
        }
        self
    }

    fn is(&self, word: &str) -> bool {
        match word.strip_prefix("--") {
            Some(name) => name == self.name,
            None => self
                .short
                .is_some_and(|short| word[1..].chars().eq([short])),
        }
    }

    fn help(&self, text: &mut String) {
        let short = self.short.map(|short| format!("-{short}, "));
        let takes = self
            .value
            .as_ref()
            .map(|value| format!(" {}", value.placeholder));
        let (short, takes) = (short.unwrap_or_default(), takes.unwrap_or_default());
        let _ = writeln!(text, "  {short}--{}{takes}\n      {}", self.name, self.doc);
        if let Some(FlagDefault::Set(default) | FlagDefault::Described(default)) =
            self.value.as_ref().map(|value| &value.default)
        {
            let _ = writeln!(text, "      Default: {default}");
        }
    }
}

/// What to do instead of running a command.
#[derive(Debug)]
pub enum Stop {
    /// Print this text, which is the help.
    Help(String),
    Refuse(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refuse(refusal)
    }
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `meant` is the flag with a similar name.
    UnknownFlag {
        word: String,
        meant: Option<&'static str>,
    },
    /// This argument is one too many.
    Surplus(String),
    /// Several arguments where one is expected.
    Several {
        what: &'static str,
        given: [String; 2],
    },
    /// A word other than the expected one.
    OtherWord {
        expected: &'static str,
        found: String,
    },
    /// An argument is missing.
    Missing { expected: &'static str },
    /// A flag without its value.
    NoValue {
        flag: &'static str,
        expected: String,
    },
    /// A flag with a value, which it does not take.
    TakesNoValue { flag: &'static str },
    /// A flag with a value that it can't have.
    Value {
        flag: &'static str,
        expected: String,
        found: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownFlag { word, meant } => {
                write!(out, "unknown flag {word}")?;
                meant.map_or(Ok(()), |name| write!(out, "; did you mean --{name}?"))
            }
            Refusal::Surplus(word) => write!(out, "unexpected argument {word}"),
            Refusal::Several {
                what,
                given: [one, other],
            } => write!(out, "one {what} at a time: {one} and {other} were given"),
            Refusal::OtherWord { expected, found } => {
                write!(out, "expected {expected}, got {found}")
            }
            Refusal::Missing { expected } => write!(out, "expected {expected}"),
            Refusal::NoValue { flag, expected } => write!(out, "--{flag} needs {expected}"),
            Refusal::TakesNoValue { flag } => write!(out, "--{flag} takes no value"),
            Refusal::Value {
                flag,
                expected,
                found,
            } => write!(out, "--{flag} must be {expected}, got: \"{found}\""),
        }
    }
}

impl Refusal {
    /// The message, of which `told` names the problem: unless the value of a flag is all that is wrong, it ends with the usage.
    pub fn explain<T: Arguments>(&self, told: &str) -> String {
        match self {
            Refusal::Value { .. } => told.to_owned(),
            _ => format!(
                "{told}\n\n{}`{} --help` explains the arguments.",
                usage::<T>(),
                T::COMMAND
            ),
        }
    }
}

/// Reads the words after a command. Of a flag that is repeated, the last counts. `--` ends the flags.
///
/// # Errors
/// The help, if that is asked for; otherwise the first problem.
pub fn read<T: Arguments>(words: &[String]) -> Result<T, Stop> {
    let flags = all_flags::<T>();
    let read = read_with(&flags, words);
    match read {
        Err(Stop::Refuse(_)) if wants_help(words) => Err(Stop::Help(help::<T>())),
        read => read,
    }
}

fn read_with<T: Arguments>(flags: &[Flag<T>], words: &[String]) -> Result<T, Stop> {
    let mut read = T::default();
    for flag in flags {
        if let Some(value) = &flag.value
            && let FlagDefault::Set(default) = &value.default
        {
            let accepted = (flag.set)(&mut read, default);
            assert!(accepted, "--{} accepts its default", flag.name);
        }
    }
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            for word in rest.by_ref() {
                read.take(word)?;
            }
        } else if !is_flag(word) || T::takes_dashed(word) {
            read.take(word)?;
        } else {
            let (name, inline) = split_value(word);
            let flag = flags.iter().find(|flag| flag.is(name));
            let flag = flag.ok_or_else(|| unknown(word, flags))?;
            if flag.name == HELP && inline.is_none() {
                return Err(Stop::Help(help::<T>()));
            }
            set(flag, &mut read, inline, &mut rest)?;
        }
    }
    Ok(read)
}

/// Sets a flag to its value, which stands in the same word or is the next one, whatever that looks like.
fn set<T>(
    flag: &Flag<T>,
    to: &mut T,
    inline: Option<&str>,
    rest: &mut std::slice::Iter<'_, String>,
) -> Result<(), Refusal> {
    let Some(FlagValue { expected, .. }) = &flag.value else {
        (flag.set)(to, "");
        return match inline {
            None => Ok(()),
            Some(_) => Err(Refusal::TakesNoValue { flag: flag.name }),
        };
    };
    let (flag_name, expected) = (flag.name, expected.clone());
    match inline.or_else(|| rest.next().map(String::as_str)) {
        Some(value) if (flag.set)(to, value) => Ok(()),
        None | Some("") => Err(Refusal::NoValue {
            flag: flag_name,
            expected,
        }),
        Some(value) => Err(Refusal::Value {
            flag: flag_name,
            expected,
            found: value.to_owned(),
        }),
    }
}

const HELP: &str = "help";

fn all_flags<T: Arguments>() -> Vec<Flag<T>> {
    let mut flags = T::flags();
    flags.push(switch(HELP, "Print this text.", |_| {}).short('h'));
    flags
}

fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word != "-"
}

/// The flag of a word, and the value after its `=`.
fn split_value(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
        _ => (word, None),
    }
}

fn unknown<T>(word: &str, flags: &[Flag<T>]) -> Refusal {
    let known: Vec<&'static str> = flags.iter().map(|flag| flag.name).collect();
    let name = split_value(word).0.strip_prefix("--");
    Refusal::UnknownFlag {
        word: word.to_owned(),
        meant: name.and_then(|name| closest_of(name, &known)),
    }
}

/// Whether `word` is a flag of a command whose value is the next word.
pub fn takes_next_word<T: Arguments>(word: &str) -> bool {
    let flags = all_flags::<T>();
    flags
        .iter()
        .any(|flag| is_flag(word) && flag.is(word) && flag.value.is_some())
}

fn usage<T: Arguments>() -> String {
    format!("Usage: {} {}\n", T::COMMAND, T::USAGE)
}

/// The help of a command.
pub fn help<T: Arguments>() -> String {
    let mut text = format!("{}\n{}\n\nFlags:\n", usage::<T>(), T::DOC);
    for flag in all_flags::<T>() {
        flag.help(&mut text);
    }
    let notes = T::notes();
    if !notes.is_empty() {
        let _ = writeln!(text, "\n{notes}");
    }
    text
}
