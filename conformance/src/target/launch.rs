//! Starts a server under test: its command line, environment and files.
//! A template translates the suite's vocabulary (the reference's flags) into a server's own. Knows nothing of cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;

use super::Patience;
use crate::files::{self, FileError, TomlError};
use crate::json::Json;

/// A launch template, as in the file given to `--launch`. Members that the file omits are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launch {
    /// The command, when neither `--stdio` nor the reference gives one.
    pub command: Vec<String>,
    /// Arguments between the command and the flags.
    pub arguments: Vec<String>,
    /// Arguments that pass a flag with a value: `{name}` and `{value}` are filled in.
    pub flag: Vec<String>,
    pub switch_on: Vec<String>,
    pub switch_off: Vec<String>,
    /// The server's own name for a flag of the suite, which writes `max_program_bytes` for `--max-program-bytes`.
    /// An empty string means that the server has no such flag.
    pub flags: BTreeMap<String, String>,
    /// The server's own word for a value of a flag: `[values.response_profile] debug = "full"`.
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// Replacement for the prefix `PTC_RUNNER_MCP_` in names of variables.
    pub environment_prefix: String,
    /// Variables that are always set.
    pub environment: BTreeMap<String, String>,
    /// Inherited variables that are removed; a trailing `*` removes all with that prefix.
    pub withheld: Vec<String>,
    /// Whether `HOME` is an empty directory, so that the user's configuration is not found.
    pub scratch_home: bool,
    /// Arguments that pass the path of an upstreams configuration: `{file}` is filled in. Empty: the server has no upstreams.
    pub upstreams: Vec<String>,
    /// Arguments that enable the HTTP listener: `{port}` is filled in. Empty: the server has none.
    pub http: Vec<String>,
    /// Commands that `cli` cases may run, by the name that they use: `programs.ptc = ["/usr/bin/ptc"]`.
    pub programs: BTreeMap<String, Vec<String>>,
    /// The adapter of the same implementation, for cases that call its library.
    pub testee: Vec<String>,
    /// Path of the MCP endpoint.
    pub http_path: String,
    /// A path that answers 200 as soon as the listener is ready.
    pub http_ready: String,
    /// Flags that make a program's prints and result visible, in the suite's vocabulary.
    pub observe: IndexMap<String, FlagValue>,
    /// Waits, in milliseconds.
    pub patience: PatienceMs,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
pub enum FlagValue {
    /// A switch: on or off.
    Switch(bool),
    Number(i64),
    Text(String),
    /// A flag that is given several times.
    Many(Vec<String>),
}

/// Waits of a template, in milliseconds; absent ones keep their default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PatienceMs {
    /// From starting the process to its first answer.
    pub start: Option<u64>,
    /// From a request to its answer.
    pub reply: Option<u64>,
    /// From the end of input, or from `exit`, to the end of the process.
    pub exit: Option<u64>,
    /// How long to watch for silence.
    pub silence: Option<u64>,
    /// Factor by which every wait is multiplied, including those that cases ask for.
    pub factor: Option<u32>,
}

/// Why no template can be read from a file.
#[derive(Debug, thiserror::Error)]
pub enum LaunchFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", .path.display())]
    Unusable {
        path: PathBuf,
        source: Box<LaunchError>,
    },
}

/// A flag, by its name in the suite, that the server does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MissingFlag(pub String);

/// Why a template is unusable: no server could be started with it, or a value would silently be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The text is not TOML of this shape.
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error("{}; write {hint}", .error.to_string().trim_end())]
    NoList {
        error: TomlError,
        /// The member with its words.
        hint: String,
    },
    #[error("{member}: expected a word that holds {hole}, found {found:?}")]
    NoHole {
        member: &'static str,
        hole: &'static str,
        found: Vec<String>,
    },
    #[error("programs.{name}: expected a command, found none")]
    NoCommand { name: String },
    #[error("environment: expected the name of a variable, found {name:?}")]
    NoVariable { name: String },
    #[error("expected words that a system can pass to a program, found {word:?}")]
    NoWord { word: String },
}

/// Prefix of the variables in the suite's vocabulary.
pub const ENVIRONMENT_PREFIX: &str = "PTC_RUNNER_MCP_";

impl FlagValue {
    /// The value in a target block, if it can be passed on a command line.
    pub fn from_json(value: &Json) -> Option<Self> {
        match value {
            Json::Bool(on) => Some(Self::Switch(*on)),
            Json::String(text) => Some(Self::Text(text.clone())),
            // As written: a case may pass `1.5` or `007` on purpose.
            Json::Number(number) => Some(Self::Text(number.token().to_owned())),
            Json::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .map(Self::Many),
            Json::Null | Json::Object(_) => None,
        }
    }
}

impl Default for Launch {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            command: Vec::new(),
            arguments: Vec::new(),
            flag: words(&["--{name}", "{value}"]),
            switch_on: words(&["--{name}"]),
            switch_off: words(&["--no-{name}"]),
            flags: BTreeMap::new(),
            values: BTreeMap::new(),
            environment_prefix: ENVIRONMENT_PREFIX.to_owned(),
            environment: BTreeMap::new(),
            withheld: words(&["PTC_*", "XDG_CONFIG_HOME"]),
            scratch_home: true,
            upstreams: words(&["--upstreams-config", "{file}"]),
            http: words(&["--http", "--http-port", "{port}"]),
            programs: BTreeMap::new(),
            testee: Vec::new(),
            http_path: "/mcp".to_owned(),
            http_ready: "/ready".to_owned(),
            observe: IndexMap::from([(
                "response_profile".to_owned(),
                FlagValue::Text("debug".to_owned()),
            )]),
            patience: PatienceMs::default(),
        }
    }
}

impl Launch {
    /// Reads a template.
    ///
    /// # Errors
    /// When the file can't be read or is not a template.
    pub fn read(path: &Path) -> Result<Self, LaunchFileError> {
        let text = files::read_text(path, files::SETTINGS_BYTES_MAX)?;
        Self::parse(&text).map_err(|source| LaunchFileError::Unusable {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    fn parse(text: &str) -> Result<Self, LaunchError> {
        let launch: Self = files::parse_toml(text).map_err(|error| match as_list(text) {
            Some(hint) => LaunchError::NoList { error, hint },
            None => error.into(),
        })?;
        launch.check()?;
        Ok(launch)
    }

    fn check(&self) -> Result<(), LaunchError> {
        let holed: [(&'static str, &[String], &[&'static str]); 5] = [
            ("flag", &self.flag, &["{name}", "{value}"]),
            ("switch_on", &self.switch_on, &["{name}"]),
            ("switch_off", &self.switch_off, &["{name}"]),
            ("http", &self.http, &["{port}"]),
            ("upstreams", &self.upstreams, &["{file}"]),
        ];
        for (member, words, holes) in holed {
            for hole in holes {
                if !words.is_empty() && !words.iter().any(|word| word.contains(hole)) {
                    return Err(LaunchError::NoHole {
                        member,
                        hole,
                        found: words.to_vec(),
                    });
                }
            }
        }
        if let Some((name, _)) = self.programs.iter().find(|(_, words)| words.is_empty()) {
            return Err(LaunchError::NoCommand { name: name.clone() });
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = self.environment.keys().find(|name| !is_name(name)) {
            return Err(LaunchError::NoVariable { name: name.clone() });
        }
        let commands = [&self.command, &self.arguments, &self.testee];
        let words = commands.into_iter().chain(self.programs.values()).flatten();
        match words
            .chain(self.environment.values())
            .find(|word| word.contains('\0'))
        {
            Some(word) => Err(LaunchError::NoWord { word: word.clone() }),
            None => Ok(()),
        }
    }

    /// The arguments that pass `flags`, which have the suite's names (`max_program_bytes`).
    ///
    /// # Errors
    /// When the server does not have one of them.
    pub fn words<'a>(
        &self,
        flags: impl IntoIterator<Item = (&'a str, &'a FlagValue)>,
    ) -> Result<Vec<String>, MissingFlag> {
        let mut words = Vec::new();
        for (name, value) in flags {
            let own = match self.flags.get(name) {
                Some(own) if own.is_empty() => return Err(MissingFlag(name.to_owned())),
                Some(own) => own.clone(),
                None => name.replace('_', "-"),
            };
            match value {
                FlagValue::Switch(true) => fill(&self.switch_on, &own, "", &mut words),
                FlagValue::Switch(false) => fill(&self.switch_off, &own, "", &mut words),
                FlagValue::Number(number) => {
                    fill(&self.flag, &own, &number.to_string(), &mut words);
                }
                FlagValue::Text(text) => fill(&self.flag, &own, self.value(name, text), &mut words),
                FlagValue::Many(texts) => {
                    for text in texts {
                        fill(&self.flag, &own, self.value(name, text), &mut words);
                    }
                }
            }
        }
        Ok(words)
    }

    /// The server's own name for a variable of the suite.
    pub fn variable(&self, name: &str) -> String {
        match name.strip_prefix(ENVIRONMENT_PREFIX) {
            Some(rest) => format!("{}{rest}", self.environment_prefix),
            None => name.to_owned(),
        }
    }

    /// The arguments that pass an upstreams configuration, or `None` when the server takes none.
    pub fn upstreams_words(&self, file: &Path) -> Option<Vec<String>> {
        expand(&self.upstreams, "{file}", &file.to_string_lossy())
    }

    /// The arguments that enable the HTTP listener, or `None` when the server has none.
    pub fn http_words(&self, port: u16) -> Option<Vec<String>> {
        expand(&self.http, "{port}", &port.to_string())
    }

    /// `base`, with the waits that the template sets.
    pub fn patience(&self, base: Patience) -> Patience {
        let of = |given: Option<u64>, base| given.map_or(base, std::time::Duration::from_millis);
        let factor = self.patience.factor.unwrap_or(base.factor).max(1);
        let stretched = |given, base| of(given, base).saturating_mul(factor);
        Patience {
            start: stretched(self.patience.start, base.start),
            reply: stretched(self.patience.reply, base.reply),
            exit: stretched(self.patience.exit, base.exit),
            // The time for silence is absolute, however fast the target is; a shorter one would prove less than the suite asks.
            silence: of(self.patience.silence, base.silence).max(base.silence),
            factor,
        }
    }

    fn value<'a>(&'a self, name: &str, text: &'a str) -> &'a str {
        self.values
            .get(name)
            .and_then(|own| own.get(text))
            .map_or(text, String::as_str)
    }
}

fn fill(pattern: &[String], name: &str, value: &str, words: &mut Vec<String>) {
    words.extend(
        pattern
            .iter()
            .map(|word| word.replace("{name}", name).replace("{value}", value)),
    );
}

fn expand(pattern: &[String], hole: &str, value: &str) -> Option<Vec<String>> {
    (!pattern.is_empty()).then(|| {
        pattern
            .iter()
            .map(|word| word.replace(hole, value))
            .collect()
    })
}

/// The first member that has a command as text, as the list that it must be.
fn as_list(text: &str) -> Option<String> {
    const LISTS: &[&str] = &["command", "arguments", "testee"];
    let members: toml::Table = toml::from_str(text).ok()?;
    let (member, text) = LISTS
        .iter()
        .find_map(|member| Some((*member, members.get(*member)?.as_str()?)))?;
    let words = shell_words::split(text).ok()?;
    Some(format!("{member} = {words:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_template_passes_suite_flags_unchanged() {
        let flags = [
            ("sessions", FlagValue::Switch(true)),
            ("http_auth_rate_limit", FlagValue::Switch(false)),
            ("max_program_bytes", FlagValue::Number(500)),
        ];
        let words = Launch::default().words(flags.iter().map(|(name, value)| (*name, value)));
        assert_eq!(
            words.expect("the reference has every flag"),
            [
                "--sessions",
                "--no-http-auth-rate-limit",
                "--max-program-bytes",
                "500"
            ]
        );
    }

    #[test]
    fn invalid_templates_are_rejected_with_a_reason() {
        let told = |text: &str| {
            let launch: Launch = toml::from_str(text).expect("a template");
            launch.check().expect_err(text).to_string()
        };
        for (text, words) in [
            (
                "flag = ['--{nam}={value}']",
                "flag: expected a word that holds {name}",
            ),
            (
                "flag = ['--{name}']",
                "flag: expected a word that holds {value}",
            ),
            (
                "http = ['--listen']",
                "http: expected a word that holds {port}",
            ),
            (
                "upstreams = ['-u']",
                "upstreams: expected a word that holds {file}",
            ),
            ("[programs]\nptc = []", "programs.ptc: expected a command"),
            (
                "[environment]\n'A=B' = '1'",
                "environment: expected the name of a variable",
            ),
            (
                "command = [\"a\\u0000\"]",
                "expected words that a system can pass",
            ),
        ] {
            assert!(told(text).starts_with(words), "{}", told(text));
        }
        for text in ["", "http = []\nupstreams = []\nflag = []"] {
            let launch: Launch = toml::from_str(text).expect("a template");
            assert_eq!(launch.check(), Ok(()));
        }
    }

    #[test]
    fn command_as_text_is_shown_as_a_list() {
        for (text, words) in [
            (
                "command = \"ptc start --name='a b'\"",
                "command = [\"ptc\", \"start\", \"--name=a b\"]",
            ),
            ("testee = 'adapter'", "testee = [\"adapter\"]"),
        ] {
            let told = Launch::parse(text).expect_err(text).to_string();
            assert!(
                told.contains("line 1") && told.ends_with(&format!("write {words}")),
                "{told}"
            );
        }
    }

    #[test]
    fn template_cannot_shorten_silence() {
        let launch: Launch = toml::from_str("[patience]\nsilence = 0").expect("a template");
        let base = Patience::default();
        assert_eq!(launch.patience(base).silence, base.silence);
    }

    #[test]
    fn factor_multiplies_every_wait() {
        let launch: Launch =
            toml::from_str("[patience]\nfactor = 3\nexit = 100").expect("a template");
        let patience = launch.patience(Patience::default());
        let ms = std::time::Duration::from_millis;
        assert_eq!(patience.start, ms(30_000));
        assert_eq!(patience.exit, ms(300));
        assert_eq!(patience.within(Some(2000), patience.reply), ms(6000));
        assert_eq!(patience.within(None, patience.reply), patience.reply);
    }

    #[test]
    fn template_renames_joins_and_rejects_flags() {
        let launch: Launch = toml::from_str(
            r#"
            flag = ["-{name}={value}"]
            [flags]
            response_profile = "view"
            sessions = ""
            [values.response_profile]
            debug = "full"
            "#,
        )
        .expect("a template");
        let view = FlagValue::Text("debug".to_owned());
        assert_eq!(
            launch.words([("response_profile", &view)]),
            Ok(vec!["-view=full".to_owned()])
        );
        let on = FlagValue::Switch(true);
        assert_eq!(
            launch.words([("sessions", &on)]),
            Err(MissingFlag("sessions".to_owned()))
        );
    }
}
