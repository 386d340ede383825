//! The flags of `ptc repl`, and those that `ptc eval` shares with it. A setting that `ptc start` also has takes its default and help text
//! from there.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ptc_protocol::limits::ProgramLimits;
use ptc_secrets::Redactor;
use ptc_server::settings::Settings;
use ptc_server::settings::flags;
use ptc_upstream::{CatalogMode, ConfigLookup, Limits, SnapshotMode, resolve_path};

use crate::command_line::{Arguments, FILE, Flag, PROGRAM, Refusal, positive, switch, text, word};
use crate::environment;
use crate::start::secrets_with_config;

/// The arguments of `ptc repl`.
#[derive(Debug, Default)]
pub struct ReplArguments {
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
    pub display: Display,
    /// How `:tools` shows the catalog.
    pub catalog: CatalogMode,
    pub evaluation: EvaluationArguments,
}

impl Arguments for ReplArguments {
    const COMMAND: &str = "ptc repl";
    const USAGE: &str = "[FLAGS] [FILE | -]";
    const DOC: &str =
        "Evaluates PTC-Lisp at a prompt, from a file, from standard input (-) or from -e.";

    fn flags() -> Vec<Flag<Self>> {
        let mut flags = vec![
            text("eval", &PROGRAM, "Evaluate PROGRAM and print its value; repeatable, and later ones see the definitions of earlier ones.", |to: &mut Self, program| to.expressions.push(program)).short('e'),
            text("load", &FILE, "Run FILE, then prompt.", |to: &mut Self, file| to.load = Some(file)).short('l'),
            text("session", &FILE, "Restore the definitions saved in FILE, if it exists, and save them there at the end.", |to: &mut Self, file| to.session = Some(file)),
            switch("interactive", "Prompt even when input is a pipe.", |to: &mut Self| to.interactive = true).short('i'),
            word("display", Display::NAMES, Display::Value, "How values are shown: value (PTC-Lisp), envelope (JSON with prints and upstream calls) or json.", |to: &mut Self, mode| to.display = mode),
            word("catalog-mode", CatalogMode::NAMES, CatalogMode::Auto, "How :tools shows the catalog: auto, inline or lazy.", |to: &mut Self, mode| to.catalog = mode),
        ];
        flags.extend(EvaluationArguments::flags());
        flags
    }

    fn take(&mut self, word: &str) -> Result<(), Refusal> {
        match self.script.replace(word.to_owned()) {
            None => Ok(()),
            Some(_) => Err(Refusal::Surplus(word.to_owned())),
        }
    }
}

impl AsMut<EvaluationArguments> for ReplArguments {
    fn as_mut(&mut self) -> &mut EvaluationArguments {
        &mut self.evaluation
    }
}

/// The arguments for upstreams and limits.
#[derive(Debug, Default)]
pub struct EvaluationArguments {
    config: Option<String>,
    /// When upstreams are started.
    pub snapshot: SnapshotMode,
    /// Limits of upstream calls.
    pub limits: Limits,
    timeout_ms: Option<u64>,
    memory_bytes: Option<u64>,
}

impl EvaluationArguments {
    /// The flags of a command that has these arguments.
    pub fn flags<T: AsMut<Self> + 'static>() -> Vec<Flag<T>> {
        let defaults = Limits::DEFAULT;
        vec![
            text(CONFIG, &FILE, start_flag(CONFIG).doc, |to: &mut T, path| {
                to.as_mut().config = Some(path)
            })
            .unless_given(format!("${CONFIG_VARIABLE}")),
            positive(
                "max-tool-calls",
                "N",
                Some(defaults.calls_per_program),
                start_flag("max-upstream-calls-per-program").doc,
                |to: &mut T, n| to.as_mut().limits.calls_per_program = n,
            ),
            positive(
                "max-catalog-ops",
                "N",
                Some(defaults.catalog_ops_per_program),
                start_flag("max-catalog-ops-per-program").doc,
                |to: &mut T, n| to.as_mut().limits.catalog_ops_per_program = n,
            ),
            as_start(
                "upstream-call-timeout-ms",
                "MS",
                Some(defaults.call_timeout.as_millis() as u64),
                |to: &mut T, ms| to.as_mut().limits.call_timeout = Duration::from_millis(ms),
            ),
            as_start(
                "max-upstream-response-bytes",
                "N",
                Some(defaults.response_bytes_max),
                |to: &mut T, n| to.as_mut().limits.response_bytes_max = n,
            ),
            word(
                "catalog-snapshot-mode",
                SnapshotMode::NAMES,
                SnapshotMode::Live,
                "When upstream servers are started: live (on first use) or frozen (all at the start).",
                |to: &mut T, mode| to.as_mut().snapshot = mode,
            ),
            as_start("program-timeout-ms", "MS", None, |to: &mut T, ms| {
                to.as_mut().timeout_ms = Some(ms)
            }),
            as_start("program-memory-limit-bytes", "N", None, |to: &mut T, n| {
                to.as_mut().memory_bytes = Some(n)
            }),
        ]
    }

    /// The upstreams config, if there is one.
    pub fn config(&self) -> Option<PathBuf> {
        resolve_config(self.config.as_deref())
    }

    /// The limits of one evaluation, which may call upstream servers or not.
    pub fn program_limits(&self, upstreams: bool) -> ProgramLimits {
        let defaults = ProgramLimits::of(upstreams);
        let timeout = self.timeout_ms.map(Duration::from_millis);
        ProgramLimits {
            timeout: timeout.unwrap_or(defaults.timeout),
            memory_bytes: self.memory_bytes.unwrap_or(defaults.memory_bytes),
        }
    }
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

impl Display {
    pub const NAMES: &[(&str, Display)] = &[
        ("value", Display::Value),
        ("envelope", Display::Envelope),
        ("json", Display::Json),
    ];
}

/// The flag that names the upstreams config.
const CONFIG: &str = "upstreams-config";
/// The variable that names it otherwise.
const CONFIG_VARIABLE: &str = "PTC_RUNNER_UPSTREAMS";

/// A number that `ptc start` has a flag of the same name for.
fn as_start<T: 'static, N>(
    name: &'static str,
    placeholder: &'static str,
    default: Option<N>,
    set: fn(&mut T, N),
) -> Flag<T>
where
    N: FromStr + ToString + Default + PartialEq + 'static,
{
    let row = start_flag(name);
    let depends = default.is_none();
    let flag = positive(name, placeholder, default, row.doc, set);
    match depends {
        true => flag.unless_given(row.default_text()),
        false => flag,
    }
}

fn start_flag(name: &str) -> &'static flags::Flag {
    flags::find(name).expect("a test lists the flags")
}

/// The secrets in the upstreams config that refused arguments or the environment name; messages about them must not show these.
pub fn secrets_named_in(words: &[String]) -> Redactor {
    let flag = format!("--{CONFIG}");
    let value = |at: usize| match words[at].strip_prefix(&flag)? {
        "" => words.get(at + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    };
    let config = resolve_config((0..words.len()).rev().find_map(value));
    secrets_with_config(Redactor::builder(), config, &Settings::default())
}

fn resolve_config(flag: Option<&str>) -> Option<PathBuf> {
    let lookup = ConfigLookup {
        flag: flag.map(PathBuf::from),
        variable: CONFIG_VARIABLE,
        default_file: false,
    };
    resolve_path(&lookup, &environment)
}

#[cfg(test)]
mod tests;
