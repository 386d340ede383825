//! Reads command line and environment into one value per setting, as the flag table says.
//!
//! Knows nothing of what a setting does. The environment is handed in, never read here.

use super::flags::{FLAGS, Flag, Group, Kind, closest, find};
use std::collections::HashMap;

/// The values that were given, by flag name, the strongest source first.
pub struct Values {
    given: HashMap<&'static str, Vec<String>>,
    from_env: HashMap<&'static str, String>,
    http: bool,
    /// Values that were passed over for their default.
    pub ignored: Vec<Ignored>,
}

/// A value that was passed over or changed, and what was used instead: one warning each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The setting.
    pub flag: &'static str,
    /// What was given.
    pub got: String,
    /// What is used.
    pub using: String,
    /// What would have been right.
    pub expected: String,
}

impl Values {
    /// Reads `arguments` (those after the command) and `environment`.
    ///
    /// # Errors
    /// A sentence for the operator: an unknown flag, a flag without its value, or a stray word.
    pub fn read(
        arguments: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut given: HashMap<&'static str, Vec<String>> = HashMap::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let Some(body) = word.strip_prefix("--").filter(|body| !body.is_empty()) else {
                return Err(format!(
                    "unexpected argument {word:?}; every argument of `ptc start` is a flag (see `ptc start --help`)"
                ));
            };
            let (name, inline) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            if let Some(flag) = find(name) {
                let value = match (inline, flag.kind) {
                    (Some(value), _) => value,
                    (None, Kind::Bool) => "true".into(),
                    (None, _) => words.next().cloned().ok_or_else(|| {
                        format!("--{name} needs a value: {}", flag.kind.expected())
                    })?,
                };
                given.entry(flag.name).or_default().push(value);
                continue;
            }
            let negated = name.strip_prefix("no-").and_then(find);
            match negated {
                Some(flag) if flag.kind == Kind::Bool && inline.is_none() => {
                    given.entry(flag.name).or_default().push("false".into());
                }
                _ => {
                    let hint = closest(name)
                        .map(|flag| format!(" Did you mean --{}?", flag.name))
                        .unwrap_or_default();
                    return Err(format!("unknown flag --{name}.{hint}"));
                }
            }
        }
        let mut file = HashMap::new();
        let env_file = given
            .get("env-file")
            .and_then(|values| values.last().cloned())
            .or_else(|| environment("PTC_RUNNER_MCP_ENV_FILE"))
            .filter(|path| !path.is_empty());
        if let Some(path) = env_file {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("--env-file: cannot read {path}: {error}"))?;
            file = env_lines(&text);
        }
        let from_env = FLAGS
            .iter()
            .filter_map(|flag| {
                let name = flag.env();
                environment(&name)
                    .or_else(|| file.get(&name).cloned())
                    .map(|value| (flag.name, value))
            })
            .collect();
        let mut values = Values {
            given,
            from_env,
            http: true,
            ignored: Vec::new(),
        };
        values.http = values.boolean("http", false);
        Ok(values)
    }

    /// The strict positive integer `name`.
    ///
    /// # Errors
    /// The sentence that names flag, environment variable and the bad value.
    pub fn positive(&mut self, name: &'static str, default: u64) -> Result<u64, String> {
        Ok(self.positive_if_given(name)?.unwrap_or(default))
    }

    /// The same, `None` when nothing was given.
    ///
    /// # Errors
    /// As [`Values::positive`].
    pub fn positive_if_given(&mut self, name: &'static str) -> Result<Option<u64>, String> {
        let flag = row(name);
        let empty_counts = flag.kind == Kind::HttpPositive && self.http;
        let Some(text) = self.raw(name, empty_counts) else {
            return Ok(None);
        };
        let value = match flag.kind {
            Kind::HttpPositive | Kind::HttpPort => leading_integer(&text)
                .and_then(|value| u64::try_from(value).ok())
                .filter(|value| *value > 0),
            _ => positive(&text),
        };
        match value {
            Some(value) => Ok(Some(value)),
            None if flag.group == Group::Http && !self.http => Ok(None),
            None => Err(format!(
                "--{} / {} must be {}, got: {text:?}",
                flag.name,
                flag.env(),
                flag.kind.expected()
            )),
        }
    }

    /// The clamped integer `name`; a clamp is also noted in [`Values::ignored`].
    pub fn clamped(&mut self, name: &'static str, default: u64) -> (u64, Option<i128>) {
        let Kind::Clamped { min, max } = row(name).kind else {
            return (default, None);
        };
        let Some(text) = self.raw(name, false) else {
            return (default, None);
        };
        match leading_integer(&text) {
            None => {
                self.note(name, &text, &default.to_string());
                (default, None)
            }
            Some(wanted) => {
                let value = wanted.clamp(i128::from(min), i128::from(max));
                let clamped = u64::try_from(value).unwrap_or(default);
                (clamped, (value != wanted).then_some(wanted))
            }
        }
    }

    /// The integer `name`, zero allowed.
    pub fn count(&mut self, name: &'static str, default: u64) -> u64 {
        let Some(text) = self.raw(name, false) else {
            return default;
        };
        leading_integer(&text)
            .and_then(|value| u64::try_from(value).ok())
            .unwrap_or_else(|| {
                self.note(name, &text, &default.to_string());
                default
            })
    }

    /// The boolean `name`.
    pub fn boolean(&mut self, name: &'static str, default: bool) -> bool {
        let Some(text) = self.raw(name, false) else {
            return default;
        };
        match text.trim().to_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => {
                self.note(name, &text, &default.to_string());
                default
            }
        }
    }

    /// The text `name`; for [`Kind::TextOrEmpty`] the empty text counts as given.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.raw(name, row(name).kind == Kind::TextOrEmpty)
    }

    /// Where `name` was given: `flag` or `env`.
    pub fn source(&self, name: &'static str) -> Option<&'static str> {
        match (self.given.get(name), self.from_env.get(name)) {
            (Some(_), _) => Some("flag"),
            (None, Some(text)) if !text.is_empty() => Some("env"),
            _ => None,
        }
    }

    /// All items of the list `name`: the flags' first, then the environment's.
    pub fn list(&mut self, name: &'static str) -> Vec<String> {
        let flags = self.given.get(name).into_iter().flatten();
        flags
            .chain(self.from_env.get(name))
            .flat_map(|text| text.split(','))
            .map(|item| item.trim().to_owned())
            .filter(|item| !item.is_empty())
            .collect()
    }

    /// The word `name`, `None` when nothing (valid) was given. `lower` folds case.
    ///
    /// # Errors
    /// For [`Kind::OneOf`], the offending text.
    pub fn word(
        &mut self,
        name: &'static str,
        lower: bool,
    ) -> Result<Option<&'static str>, String> {
        let Some(text) = self.raw(name, false) else {
            return Ok(None);
        };
        let wanted = match lower {
            true => text.trim().to_lowercase(),
            false => text.trim().to_owned(),
        };
        let flag = row(name);
        let (Kind::OneOf(words) | Kind::OneOfOrDefault(words)) = flag.kind else {
            return Ok(None);
        };
        match words.iter().find(|word| **word == wanted) {
            Some(word) => Ok(Some(word)),
            None if matches!(flag.kind, Kind::OneOf(_)) => Err(text),
            None => {
                self.note(name, &text, flag.default);
                Ok(None)
            }
        }
    }

    fn raw(&self, name: &'static str, empty_counts: bool) -> Option<String> {
        let set = |text: &String| empty_counts || !text.is_empty();
        self.given
            .get(name)
            .and_then(|values| values.last())
            .filter(|text| set(text))
            .or_else(|| self.from_env.get(name).filter(|text| set(text)))
            .cloned()
    }

    fn note(&mut self, name: &'static str, got: &str, using: &str) {
        let ignored = Ignored {
            flag: name,
            got: got.to_owned(),
            using: using.to_owned(),
            expected: row(name).kind.expected(),
        };
        if !self.ignored.contains(&ignored) {
            self.ignored.push(ignored);
        }
    }
}

fn row(name: &'static str) -> &'static Flag {
    find(name).expect("settings ask for flags of the table only")
}

/// Decimal digits with an optional sign, above zero.
fn positive(text: &str) -> Option<u64> {
    let digits = text.trim();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|value| *value > 0)
}

/// The integer that the text starts with.
fn leading_integer(text: &str) -> Option<i128> {
    let text = text.trim_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    Some(sign * digits[..end].parse::<i128>().unwrap_or(i128::MAX))
}

/// `KEY=VALUE` lines: comments and other lines are passed over, one pair of quotes around a value is removed.
fn env_lines(text: &str) -> HashMap<String, String> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| {
            let value = value.trim();
            let quoted = |quote: char| {
                value
                    .strip_prefix(quote)
                    .and_then(|rest| rest.strip_suffix(quote))
            };
            let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
            (key.trim().to_owned(), value.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Values, String> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        Values::read(&arguments, |name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const PROGRAM: &str = "max-program-bytes";
    const PROGRAM_ENV: &str = "PTC_RUNNER_MCP_MAX_PROGRAM_BYTES";

    #[test]
    fn the_flag_beats_the_environment_and_the_last_flag_wins() {
        let mut read = values(
            &["--max-program-bytes", "5", "--max-program-bytes=6"],
            &[(PROGRAM_ENV, "bad")],
        )
        .unwrap();
        assert_eq!(read.positive(PROGRAM, 1), Ok(6));
        let mut read = values(&["--max-program-bytes="], &[(PROGRAM_ENV, " +50 ")]).unwrap();
        assert_eq!(read.positive(PROGRAM, 1), Ok(50));
        assert_eq!(values(&[], &[]).unwrap().positive(PROGRAM, 7), Ok(7));
    }

    #[test]
    fn a_bad_integer_names_flag_variable_and_value() {
        for bad in ["abc", "0", "-5", "1.5", "10abc", "5_000", "0x10", "  "] {
            let error = values(&["--max-program-bytes", bad], &[])
                .unwrap()
                .positive(PROGRAM, 1);
            assert_eq!(
                error.unwrap_err(),
                format!(
                    "--max-program-bytes / {PROGRAM_ENV} must be a positive integer, got: {bad:?}"
                )
            );
        }
    }

    #[test]
    fn booleans() {
        for (arguments, expected) in [
            (vec!["--sessions"], true),
            (vec!["--sessions", "--no-sessions"], false),
            (vec!["--sessions= ON "], true),
            (vec!["--sessions=0"], false),
            (vec!["--sessions=maybe"], false),
            (vec![], false),
        ] {
            assert_eq!(
                values(&arguments, &[]).unwrap().boolean("sessions", false),
                expected
            );
        }
    }

    #[test]
    fn what_is_no_flag_is_refused_with_a_hint() {
        let refused = |arguments: &[&str]| values(arguments, &[]).err().unwrap();
        assert_eq!(
            refused(&["--max-frame-byte", "5"]),
            "unknown flag --max-frame-byte. Did you mean --max-frame-bytes?"
        );
        assert!(refused(&["stray"]).starts_with("unexpected argument \"stray\""));
        assert!(refused(&["--"]).starts_with("unexpected argument"));
        assert!(refused(&["--log-level"]).contains("needs a value"));
        assert!(refused(&["--no-log-level"]).contains("unknown flag"));
    }

    #[test]
    fn clamps_and_lists() {
        let mut read = values(
            &[
                "--debug-ring-size=20x",
                "--http-allowed-origin",
                "a, b",
                "--http-allowed-origin=c",
            ],
            &[("PTC_RUNNER_MCP_HTTP_ALLOWED_ORIGIN", "d,,")],
        )
        .unwrap();
        assert_eq!(read.clamped("debug-ring-size", 500), (20, None));
        assert_eq!(read.list("http-allowed-origin"), ["a", "b", "c", "d"]);
        let mut read = values(&["--debug-ring-size=1"], &[]).unwrap();
        assert_eq!(read.clamped("debug-ring-size", 500), (10, Some(1)));
    }

    #[test]
    fn http_numbers_count_only_with_http() {
        assert_eq!(
            values(&["--http-port=x"], &[])
                .unwrap()
                .positive("http-port", 7332),
            Ok(7332)
        );
        assert!(
            values(&["--http", "--http-port=x"], &[])
                .unwrap()
                .positive("http-port", 7332)
                .is_err()
        );
        assert!(
            values(&["--http", "--http-max-sessions="], &[])
                .unwrap()
                .positive("http-max-sessions", 256)
                .is_err()
        );
        assert_eq!(
            values(&["--http", "--http-port="], &[])
                .unwrap()
                .positive("http-port", 7332),
            Ok(7332)
        );
    }

    #[test]
    fn env_file_lines() {
        let lines = env_lines("# c\nA=1\n B = \"two words\" \nnot a line\nC='x'\n");
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (
                lines["A"].as_str(),
                lines["B"].as_str(),
                lines["C"].as_str()
            ),
            ("1", "two words", "x")
        );
    }
}
