//! The keys of an upstream that is a child process. Starts nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ptc_secrets::json_kind;
use serde_json::Value;

use crate::config::{ConfigEntry, ConfigResult};
use ptc_protocol::limits::upstream_entry::{HANDSHAKE_TIMEOUT_MS, RESPONSE_BYTES_MAX};

#[derive(Debug, Clone)]
pub struct StdioConfig {
    /// Absolute path, or a name looked up on `PATH`.
    pub command: String,
    pub args: Vec<String>,
    /// Added to the inherited environment; `${VAR}` is already expanded.
    pub env: BTreeMap<String, String>,
    /// Variables of the server's environment that the child gets in addition to those that every child gets.
    pub inherit_env: Vec<String>,
    pub cd: Option<PathBuf>,
    pub handshake_timeout: Duration,
    /// Maximum bytes of a handshake answer.
    pub handshake_bytes_max: usize,
}

pub(super) const KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "inherit_env",
    "cd",
    "handshake_timeout_ms",
    "max_response_bytes",
];

impl ConfigEntry<'_> {
    pub fn stdio(&self, warnings: &mut Vec<String>) -> ConfigResult<StdioConfig> {
        let command = match self.get("command") {
            Some(Value::String(command)) if !command.is_empty() => command.clone(),
            Some(_) => {
                return Err(self.refuse(&["command"], "requires command, a non-empty string"));
            }
            None => return Err(self.refuse(&[], "requires command")),
        };
        self.refuse_self(&command)?;
        let args = match self.get("args") {
            None => Vec::new(),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(_) => return Err(self.refuse(&["args"], "args must be a list of strings")),
        };
        let mut env = BTreeMap::new();
        match self.get("env") {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (key, value) in entries {
                    env.insert(key.clone(), self.env_value(key, value)?);
                }
            }
            Some(_) => return Err(self.refuse(&["env"], "env must be an object")),
        }
        let inherit_env = self.inherit_env(warnings)?;
        let cd = match self.get("cd") {
            None | Some(Value::Null) => None,
            Some(Value::String(cd)) if Path::new(cd).is_dir() => Some(PathBuf::from(cd)),
            Some(Value::String(cd)) => {
                return Err(self.refuse(&["cd"], &format!("cd is not a directory: {cd}")));
            }
            Some(_) => return Err(self.refuse(&["cd"], "cd must be a string")),
        };
        Ok(StdioConfig {
            command,
            args,
            env,
            inherit_env,
            cd,
            handshake_timeout: self.millis("handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS, warnings),
            handshake_bytes_max: self.positive("max_response_bytes", RESPONSE_BYTES_MAX, warnings)
                as usize,
        })
    }

    /// Names of variables. An unset variable is only a warning: the child would also lack it when started elsewhere.
    fn inherit_env(&self, warnings: &mut Vec<String>) -> ConfigResult<Vec<String>> {
        let names = self.texts("inherit_env")?.unwrap_or_default();
        for (index, name) in names.iter().enumerate() {
            if !is_variable(name) {
                let cause = format!(
                    "inherit_env {name:?} is not the name of a variable; a value is set by env"
                );
                return Err(self.refuse(&["inherit_env", &index.to_string()], &cause));
            }
            if (self.env)(name).is_none() {
                warnings.push(format!(
                    "upstream {}: inherit_env {name} is not set",
                    self.name
                ));
            }
        }
        Ok(names)
    }

    /// Refuses a command that is this program itself, or the server that it stands in for.
    fn refuse_self(&self, command: &str) -> ConfigResult<()> {
        let resolved = find_command(command, self.env);
        let is_own = resolved
            .as_deref()
            .and_then(|path| path.canonicalize().ok())
            .is_some_and(|path| {
                self.own
                    .iter()
                    .any(|own| own.canonicalize().is_ok_and(|own| own == path))
            });
        if is_own
            || Path::new(command)
                .file_name()
                .is_some_and(|name| name == "ptc_runner_mcp")
        {
            let cause =
                format!("self-as-upstream rejected: command {command} is this server itself");
            return Err(self.refuse(&["command"], &cause));
        }
        Ok(())
    }

    /// Scalars become text; every `${NAME}` in a string is replaced by that variable of the server's environment.
    fn env_value(&self, key: &str, value: &Value) -> ConfigResult<String> {
        let text = match value {
            Value::String(text) => text,
            Value::Null => return Ok(String::new()),
            Value::Bool(_) | Value::Number(_) => return Ok(value.to_string()),
            _ => {
                return Err(self.refuse(
                    &["env", key],
                    &format!("env {key} must be a scalar, got {}", json_kind(value)),
                ));
            }
        };
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(open) = rest.find("${") {
            out.push_str(&rest[..open]);
            let name = rest[open + 2..]
                .split_once('}')
                .map(|(name, _)| name)
                .filter(|name| is_variable(name));
            match name {
                Some(name) => {
                    let value = (self.env)(name).ok_or_else(|| {
                        let cause =
                            format!("env var {name} is not set (referenced as ${{{name}}})");
                        self.refuse(&["env", key], &cause)
                    })?;
                    out.push_str(&value);
                    rest = &rest[open + 2 + name.len() + 1..];
                }
                None => {
                    out.push_str("${");
                    rest = &rest[open + 2..];
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The file of a command: the path itself when it has a slash, otherwise the first executable file of that name on `PATH`.
pub(crate) fn find_command(command: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if command.contains('/') {
        return Path::new(command).is_file().then(|| PathBuf::from(command));
    }
    let path = env("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(command))
        .find(|candidate| candidate.is_file())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
