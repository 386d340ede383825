//! Reads command line and environment into one value per setting, driven by the table of flags.
//!
//! Knows nothing of what a setting does. The environment is passed in, never read here.

use super::flags::{Case, FLAGS, Flag, FlagKind, Group, SETTING_IGNORED, Value, closest, find};
use super::{Draft, SettingsFault, Warning};
use std::collections::HashMap;

/// The values that were given, by flag name.
pub struct Values {
    given: HashMap<&'static str, Vec<String>>,
    from_env: HashMap<&'static str, String>,
    http: bool,
}

/// A value that was ignored, and the one that was used instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredValue {
    pub flag: &'static str,
    /// The event of the warning.
    pub event: &'static str,
    pub got: String,
    pub using: String,
    pub expected: String,
}

/// Reads the flag in `word` and its value, which may be the next of the words `behind`.
///
/// # Errors
/// An unknown flag, a flag without its value, or a stray word.
fn flag(
    word: &str,
    behind: &mut std::slice::Iter<'_, String>,
) -> Result<(&'static str, String), SettingsFault> {
    let Some(body) = word.strip_prefix("--").filter(|body| !body.is_empty()) else {
        return Err(SettingsFault::StrayArgument(word.to_owned()));
    };
    let (name, inline) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (body, None),
    };
    if let Some(flag) = find(name) {
        let value = match (inline, flag.kind) {
            (Some(value), _) => value,
            (None, FlagKind::Bool) => "true".into(),
            (None, _) => behind.next().cloned().ok_or(SettingsFault::NoValue(flag))?,
        };
        return Ok((flag.name, value));
    }
    match name.strip_prefix("no-").and_then(find) {
        Some(flag) if matches!(flag.kind, FlagKind::Bool) && inline.is_none() => {
            Ok((flag.name, "false".into()))
        }
        _ => Err(SettingsFault::UnknownFlag {
            name: name.to_owned(),
            closest: closest(name),
        }),
    }
}

impl Values {
    /// Reads `arguments` (those after the command) and `environment`. Returns all values together with the first fault: an unknown flag,
    /// a flag without its value, a stray word, or a file that cannot be read.
    pub fn read(
        arguments: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> (Self, Option<SettingsFault>) {
        let mut fault = None;
        let mut given: HashMap<&'static str, Vec<String>> = HashMap::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match flag(word, &mut words) {
                Ok((name, value)) => given.entry(name).or_default().push(value),
                Err(refused) => drop(fault.get_or_insert(refused)),
            }
        }
        let mut file = HashMap::new();
        let env_file = given
            .get("env-file")
            .and_then(|values| values.last().cloned())
            .or_else(|| environment("PTC_RUNNER_MCP_ENV_FILE"))
            .filter(|path| !path.is_empty());
        if let Some(path) = env_file {
            match ptc_secrets::read_text(&path, ptc_secrets::SETTINGS_BYTES_MAX) {
                Ok(text) => file = env_lines(&text),
                Err(error) => {
                    fault.get_or_insert(SettingsFault::EnvFile { path, error });
                }
            }
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
            http: false,
        };
        let http = find("http").and_then(|flag| values.raw(flag));
        values.http = http.as_deref().and_then(boolean).unwrap_or(false);
        (values, fault)
    }

    /// Passes the value of `flag`, or its default, to its row's setter. Returns a warning if the value was ignored or changed.
    ///
    /// # Errors
    /// The value is wrong.
    pub fn take(
        &self,
        flag: &'static Flag,
        draft: &mut Draft,
    ) -> Result<Option<Warning>, SettingsFault> {
        let mut warning = None;
        match flag.value {
            Value::Number(default, set) => {
                let number = self.number(flag, default, &mut warning)?;
                if let Some(number) = number.or(default) {
                    set(draft, number);
                }
            }
            Value::Switch(default, set) => {
                let given = self.raw(flag);
                let read = given.as_deref().and_then(boolean);
                if let (Some(text), None) = (&given, read) {
                    warning = Some(ignored(flag, text));
                }
                set(draft, read.unwrap_or(default));
            }
            Value::Text(default, set) => {
                if let Some(text) = self.raw(flag).or_else(|| default.map(str::to_owned)) {
                    set(draft, text);
                }
            }
            Value::List(set) => set(draft, self.list(flag.name)),
            Value::Word(default, set) => {
                if let Some(word) = self.word(flag, &mut warning)?.or(default) {
                    set(draft, word);
                }
            }
        }
        Ok(warning)
    }

    fn number(
        &self,
        flag: &'static Flag,
        default: Option<u64>,
        warning: &mut Option<Warning>,
    ) -> Result<Option<u64>, SettingsFault> {
        let Some(text) = self.raw(flag) else {
            return Ok(None);
        };
        let whole = leading_integer(&text);
        let unsigned = || whole.and_then(|value| u64::try_from(value).ok());
        let value = match flag.kind {
            FlagKind::Clamped { min, max } => {
                match whole {
                    None => *warning = Some(ignored(flag, &text)),
                    Some(requested) => {
                        let used = requested.clamp(i128::from(min), i128::from(max));
                        let used = u64::try_from(used).ok().or(default).unwrap_or(min);
                        if i128::from(used) != requested {
                            *warning = Some(Warning::Clamped {
                                flag: flag.name,
                                requested,
                                used,
                                min,
                                max,
                            });
                        }
                        return Ok(Some(used));
                    }
                }
                return Ok(None);
            }
            FlagKind::Count => {
                let count = unsigned();
                if count.is_none() {
                    *warning = Some(ignored(flag, &text));
                }
                return Ok(count);
            }
            FlagKind::HttpPositive => unsigned().filter(|value| *value > 0),
            FlagKind::HttpPort => {
                let port = unsigned().filter(|value| *value > 0);
                if self.http
                    && let Some(got) = port.filter(|port| *port > u64::from(u16::MAX))
                {
                    return Err(SettingsFault::PortTooLarge { flag, got });
                }
                port
            }
            FlagKind::Within { min, max } => {
                positive(&text).filter(|value| (min..=max).contains(value))
            }
            _ => positive(&text),
        };
        match value {
            Some(value) => Ok(Some(value)),
            None if flag.group == Group::Http && !self.http => Ok(None),
            None => Err(SettingsFault::Value { flag, got: text }),
        }
    }

    /// Where `name` was given: `flag` or `env`.
    pub fn source(&self, name: &'static str) -> Option<&'static str> {
        match (self.given.get(name), self.from_env.get(name)) {
            (Some(_), _) => Some("flag"),
            (None, Some(text)) if !text.is_empty() => Some("env"),
            _ => None,
        }
    }

    /// All items of the list `name`: those of flags first, then those of the environment.
    fn list(&self, name: &'static str) -> Vec<String> {
        let flags = self.given.get(name).into_iter().flatten();
        flags
            .chain(self.from_env.get(name))
            .flat_map(|text| text.split(','))
            .map(|item| item.trim().to_owned())
            .filter(|item| !item.is_empty())
            .collect()
    }

    fn word(
        &self,
        flag: &Flag,
        warning: &mut Option<Warning>,
    ) -> Result<Option<&'static str>, SettingsFault> {
        let Some(text) = self.raw(flag) else {
            return Ok(None);
        };
        let find = |words: &'static [&'static str], wanted: &str| {
            words.iter().find(|word| **word == wanted).copied()
        };
        match flag.kind {
            FlagKind::OneOf(words, fault) => match find(words, text.trim()) {
                Some(word) => Ok(Some(word)),
                None => Err(fault(text)),
            },
            FlagKind::OneOfOrDefault(words, case, _) => {
                let found = match case {
                    Case::Folded => find(words, &text.trim().to_lowercase()),
                    Case::Exact => find(words, text.trim()),
                };
                if found.is_none() {
                    *warning = Some(ignored(flag, &text));
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    /// The value with the highest precedence. An empty text counts as given only for the numbers of HTTP.
    fn raw(&self, flag: &Flag) -> Option<String> {
        let empty_counts = matches!(flag.kind, FlagKind::HttpPositive) && self.http;
        let set = |text: &String| empty_counts || !text.is_empty();
        self.given
            .get(flag.name)
            .and_then(|values| values.last())
            .filter(|text| set(text))
            .or_else(|| self.from_env.get(flag.name).filter(|text| set(text)))
            .cloned()
    }
}

fn ignored(flag: &Flag, got: &str) -> Warning {
    Warning::Ignored(IgnoredValue {
        flag: flag.name,
        event: match flag.kind {
            FlagKind::OneOfOrDefault(_, _, event) => event,
            _ => SETTING_IGNORED,
        },
        got: got.to_owned(),
        using: flag.default_text().into_owned(),
        expected: flag.kind.expected(),
    })
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Decimal digits with an optional plus sign, above zero.
fn positive(text: &str) -> Option<u64> {
    let digits = text.trim();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|value| *value > 0)
}

/// The integer at the start of the text.
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

/// Reads `KEY=VALUE` lines: ignores comments and other lines, and removes one pair of quotes around a value. A byte order mark is skipped:
/// as a part of the first name it would silently unset that variable.
fn env_lines(text: &str) -> HashMap<String, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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
            // A shell that reads the same file needs the word.
            let key = key.trim();
            let exported = key
                .strip_prefix("export")
                .filter(|name| name.starts_with(char::is_whitespace));
            (exported.unwrap_or(key).trim().to_owned(), value.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests;
