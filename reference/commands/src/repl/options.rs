//! The flags of `ptc repl` as one table, and their parser. A setting that `ptc start` also has takes its default and help text from there.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use ptc_protocol::limits::ProgramLimits;
use ptc_secrets::Redactor;
use ptc_server::settings::Settings;
use ptc_server::settings::flags::{self, closest_of};
use ptc_upstream::{CatalogMode, ConfigLookup, Limits, SnapshotMode, resolve_path};

use crate::start::secrets_with_config;

/// Whether `ptc eval` also has this flag (one for upstreams or limits), and if so, whether it takes a value.
pub fn is_shared(word: &str) -> Option<bool> {
    const OWN: &[&str] = &[
        "eval",
        "load",
        "session",
        "interactive",
        "display",
        "catalog-mode",
        "help",
    ];
    let (flag, inline) = find(word).ok()?;
    let shared = word.starts_with("--") && !OWN.contains(&flag.name);
    shared.then_some(flag.takes.is_some() && inline.is_none())
}

/// Help text of the shared flags, for `ptc eval`.
pub fn shared_help() -> String {
    let shared = FLAGS
        .iter()
        .filter(|flag| is_shared(&format!("--{}", flag.name)).is_some());
    shared.map(flag_help).collect()
}

fn flag_help(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-{short}, "));
    let (short, takes) = (
        short.unwrap_or_default(),
        flag.takes.map(|takes| format!(" {takes}")),
    );
    let (default, doc) = flag.texts();
    let mut text = format!(
        "  {short}--{}{}\n      {doc}\n",
        flag.name,
        takes.unwrap_or_default(),
    );
    if !default.is_empty() {
        let _ = writeln!(text, "      Default: {default}");
    }
    text
}

/// What the arguments ask for.
pub enum ReplRequest {
    Help(String),
    Run(Box<ReplOptions>),
}

/// How the REPL runs.
pub struct ReplOptions {
    /// `-e`, in order.
    pub expressions: Vec<String>,
    /// `-l`: run first, then prompt.
    pub load: Option<String>,
    /// A file, or `-`.
    pub script: Option<String>,
    /// The file from which definitions are restored, and to which they are saved.
    pub session: Option<String>,
    /// Prompt even if input is a pipe.
    pub interactive: bool,
    /// How values are shown.
    pub display: Display,
    /// The upstreams config, if there is one.
    pub config: Option<PathBuf>,
    /// Limits of upstream calls.
    pub limits: Limits,
    /// How `:tools` shows the catalog.
    pub catalog: CatalogMode,
    /// When upstreams are started.
    pub snapshot: SnapshotMode,
    /// Maximum wall-clock time of one evaluation.
    pub timeout: Duration,
    /// Maximum memory of one evaluation, in bytes.
    pub memory_bytes: u64,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Display {
    /// In PTC-Lisp syntax.
    #[default]
    Value,
    /// A JSON object with status, result, prints and upstream calls.
    Envelope,
    Json,
}

const DISPLAYS: &[(&str, Display)] = &[
    ("value", Display::Value),
    ("envelope", Display::Envelope),
    ("json", Display::Json),
];

struct Flag {
    name: &'static str,
    short: Option<&'static str>,
    /// The kind of its value; `None` for a switch.
    takes: Option<&'static str>,
    says: FlagText,
}

/// Where the default and help text of a flag come from.
enum FlagText {
    Own {
        default: &'static str,
        doc: &'static str,
    },
    /// From the row of `ptc start` for the same setting.
    AsStart(&'static str),
}

/// The flag that names the upstreams config.
const CONFIG: &str = "upstreams-config";

const FLAGS: &[Flag] = &[
    own(
        "eval",
        "EXPR",
        "",
        "Evaluate EXPR and print its value; repeatable, and later ones see the definitions of earlier ones.",
    )
    .short("e"),
    own("load", "FILE", "", "Run FILE, then prompt.").short("l"),
    own(
        "session",
        "FILE",
        "",
        "Restore the definitions saved in FILE, if it exists, and save them there at the end.",
    ),
    switch("interactive", "i", "Prompt even when input is a pipe."),
    own(
        "display",
        "MODE",
        "value",
        "How values are shown: value (PTC-Lisp), envelope (JSON with prints and upstream calls) or json.",
    ),
    own(
        CONFIG,
        "FILE",
        "$PTC_RUNNER_UPSTREAMS",
        "File that configures the upstream servers.",
    ),
    as_start("max-tool-calls", "N", "max-upstream-calls-per-program"),
    as_start("max-catalog-ops", "N", "max-catalog-ops-per-program"),
    as_start("upstream-call-timeout-ms", "MS", "upstream-call-timeout-ms"),
    as_start(
        "max-upstream-response-bytes",
        "N",
        "max-upstream-response-bytes",
    ),
    own(
        "catalog-mode",
        "MODE",
        "auto",
        "How :tools shows the catalog: auto, inline or lazy.",
    ),
    own(
        "catalog-snapshot-mode",
        "MODE",
        "live",
        "When upstream servers are started: live (on first use) or frozen (all at the start).",
    ),
    as_start("program-timeout-ms", "MS", "program-timeout-ms"),
    as_start(
        "program-memory-limit-bytes",
        "N",
        "program-memory-limit-bytes",
    ),
    switch("help", "h", "Print this text."),
];

const fn own(
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Flag {
    Flag {
        name,
        short: None,
        takes: Some(takes),
        says: FlagText::Own { default, doc },
    }
}

const fn switch(name: &'static str, short: &'static str, doc: &'static str) -> Flag {
    Flag {
        takes: None,
        ..own(name, "", "", doc)
    }
    .short(short)
}

const fn as_start(name: &'static str, takes: &'static str, row: &'static str) -> Flag {
    Flag {
        says: FlagText::AsStart(row),
        ..own(name, takes, "", "")
    }
}

impl Flag {
    const fn short(self, short: &'static str) -> Flag {
        Flag {
            short: Some(short),
            ..self
        }
    }

    /// Its default (empty when it has none) and its help text.
    fn texts(&self) -> (Cow<'static, str>, &'static str) {
        match self.says {
            FlagText::Own { default, doc } => (default.into(), doc),
            FlagText::AsStart(row) => {
                let row = flags::find(row).expect("a test finds each row");
                (row.default_text(), row.doc)
            }
        }
    }
}

/// The secrets in the upstreams config that refused arguments or the environment name; messages about them must not show these.
pub fn secrets_named_in(words: &[String], env: impl Fn(&str) -> Option<String>) -> Redactor {
    let flag = format!("--{CONFIG}");
    let value = |at: usize| match words[at].strip_prefix(&flag)? {
        "" => words.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    let config = resolve_config((0..words.len()).rev().find_map(value), &env);
    secrets_with_config(Redactor::builder(), config, &Settings::default())
}

fn resolve_config(flag: Option<String>, env: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let lookup = ConfigLookup {
        flag: flag.map(PathBuf::from),
        variable: "PTC_RUNNER_UPSTREAMS",
        default_file: false,
    };
    resolve_path(&lookup, env)
}

/// Parses the arguments after `repl`.
///
/// # Errors
/// The problem with the first invalid argument.
pub fn read(words: &[String], env: impl Fn(&str) -> Option<String>) -> Result<ReplRequest, String> {
    let mut given: Vec<(&'static str, String)> = Vec::new();
    let mut script = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "-" || !word.starts_with('-') {
            if script.replace(word.clone()).is_some() {
                return Err(format!("one FILE at most, found {word} too"));
            }
            continue;
        }
        let (flag, inline) = find(word)?;
        let value = match (flag.takes, inline) {
            (None, None) => String::new(),
            (None, Some(_)) => return Err(format!("--{} takes no value", flag.name)),
            (Some(_), Some(value)) => value,
            (Some(what), None) => rest
                .next()
                .cloned()
                .ok_or_else(|| format!("--{} needs a value: {what}", flag.name))?,
        };
        given.push((flag.name, value));
    }
    let last = |name: &str| {
        given
            .iter()
            .rev()
            .find(|(flag, _)| *flag == name)
            .map(|(_, value)| value.clone())
    };
    if last("help").is_some() {
        return Ok(ReplRequest::Help(help()));
    }
    let number = |name: &str, default: u64| match last(name) {
        None => Ok(default),
        Some(text) => text
            .parse::<u64>()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("--{name} must be a positive integer, got: \"{text}\"")),
    };
    let config = resolve_config(last(CONFIG), &env);
    let program = ProgramLimits::of(config.is_some());
    let defaults = Limits::default();
    Ok(ReplRequest::Run(Box::new(ReplOptions {
        expressions: given
            .iter()
            .filter(|(flag, _)| *flag == "eval")
            .map(|(_, value)| value.clone())
            .collect(),
        load: last("load"),
        session: last("session"),
        script,
        interactive: last("interactive").is_some(),
        display: one_of("display", last("display"), DISPLAYS)?,
        config,
        limits: Limits {
            call_timeout: Duration::from_millis(number(
                "upstream-call-timeout-ms",
                defaults.call_timeout.as_millis() as u64,
            )?),
            response_bytes_max: number(
                "max-upstream-response-bytes",
                defaults.response_bytes_max as u64,
            )? as usize,
            calls_per_program: number("max-tool-calls", defaults.calls_per_program as u64)?
                as usize,
            catalog_ops_per_program: number(
                "max-catalog-ops",
                defaults.catalog_ops_per_program as u64,
            )? as usize,
            ..defaults
        },
        catalog: one_of("catalog-mode", last("catalog-mode"), CatalogMode::NAMES)?,
        snapshot: match last("catalog-snapshot-mode") {
            None => SnapshotMode::Live,
            given => one_of("catalog-snapshot-mode", given, SnapshotMode::NAMES)?,
        },
        timeout: Duration::from_millis(number(
            "program-timeout-ms",
            program.timeout.as_millis() as u64,
        )?),
        memory_bytes: number("program-memory-limit-bytes", program.memory_bytes)?,
    })))
}

/// The display mode with this name; also used by the prompt's command.
pub fn display(name: &str) -> Option<Display> {
    DISPLAYS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, display)| *display)
}

fn one_of<T: Copy + Default>(
    flag: &str,
    given: Option<String>,
    known: &[(&str, T)],
) -> Result<T, String> {
    let Some(given) = given else {
        return Ok(T::default());
    };
    known
        .iter()
        .find(|(name, _)| *name == given)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!(
                "--{flag} must be one of {}, got: \"{given}\"",
                names.join(", ")
            )
        })
}

fn find(word: &str) -> Result<(&'static Flag, Option<String>), String> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        if let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) {
            return Ok((flag, value));
        }
        let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        let near = closest_of(name, &names);
        let hint = near
            .map(|known| format!("; did you mean --{known}?"))
            .unwrap_or_default();
        return Err(format!("unknown flag --{name}{hint}"));
    }
    let short = word.trim_start_matches('-');
    let flag = FLAGS.iter().find(|flag| flag.short == Some(short));
    flag.map(|flag| (flag, None))
        .ok_or_else(|| format!("unknown flag {word}; `ptc repl --help` lists the flags"))
}

fn help() -> String {
    let mut text = String::from(
        "Usage: ptc repl [FLAGS] [FILE | -]\n\nEvaluates PTC-Lisp at a prompt, from a file, from standard input (-) or from -e.\n\nFlags:\n",
    );
    text.extend(FLAGS.iter().map(flag_help));
    text
}

#[cfg(test)]
mod tests;
