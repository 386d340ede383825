//! Credential bindings: where secrets come from (`env`, `file`, `literal`), resolved once at start-up.
//! Knows nothing of upstreams.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use zeroize::Zeroize;

use crate::auth::register_pairs;
use crate::file::{FileError, read_file};
use crate::redactor::RedactorBuilder;
use crate::secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, Secret};

/// The resolved bindings of one runtime, by name.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    bindings: BTreeMap<String, Secret>,
    /// Bindings whose entries allow a short value.
    short: BTreeSet<String>,
    /// Names of the bindings that could not be resolved.
    refused: BTreeSet<String>,
}

/// Why a binding was refused. Never quotes a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CredentialFault {
    /// Path inside the config, from the root: `["credentials", "github-pat", "var"]`.
    pub path: Vec<String>,
    /// What was expected and what was found.
    pub message: String,
}

/// The sources that a binding may name, each with the key that it needs; `None` for a known source that is refused.
const SOURCES: &[(&str, Option<&str>)] = &[
    ("env", Some("var")),
    ("file", Some("path")),
    ("literal", Some("value")),
    ("exec", None),
];

impl Credentials {
    /// Resolves the `credentials` block. Bindings that fail are returned as faults, in name order, beside those that succeed:
    /// these are secret all the same. `env` looks up the process environment. The block's strings are wiped in any case.
    pub fn resolve(
        block: Value,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> (Self, Vec<CredentialFault>) {
        let mut block = block;
        let resolved = resolve_block(&block, env);
        wipe(&mut block);
        resolved
    }

    /// The secret bound to `name`.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.bindings.get(name)
    }

    /// Whether the binding `name` exists but could not be resolved.
    pub fn is_refused(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// Whether some binding has this value.
    pub fn has(&self, value: &Secret) -> bool {
        let mut bound = self.bindings.values();
        bound.any(|secret| secret.matches(value.expose().as_bytes()))
    }

    /// Whether the entry of `name` allows a guessable value.
    pub(crate) fn allows_short(&self, name: &str) -> bool {
        self.short.contains(name)
    }

    /// Names of the bindings, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bindings.keys().map(String::as_str)
    }

    /// Bindings whose value is so short that a program could guess it and that scrubbing it may mangle ordinary text.
    pub fn short_names(&self) -> impl Iterator<Item = &str> {
        self.bindings
            .iter()
            .filter(|(_, secret)| secret.is_short())
            .map(|(name, _)| name.as_str())
    }

    /// Registers every value, used by an upstream or not, and the passwords in the values that nothing `uses`.
    pub fn register(&self, uses: &dyn Fn(&str) -> bool, builder: &mut RedactorBuilder) {
        for secret in self.bindings.values() {
            builder.add(secret);
        }
        register_pairs(self, uses, builder);
    }
}

fn resolve_block(
    block: &Value,
    env: &dyn Fn(&str) -> Option<String>,
) -> (Credentials, Vec<CredentialFault>) {
    let mut resolved = Credentials::default();
    let bindings = match block {
        Value::Null => return (resolved, Vec::new()),
        Value::Object(bindings) => bindings,
        other => {
            let message = format!("credentials must be an object, got {}", json_kind(other));
            let fault = CredentialFault {
                path: vec!["credentials".into()],
                message,
            };
            return (resolved, vec![fault]);
        }
    };
    let mut names: Vec<&String> = bindings.keys().collect();
    names.sort();
    let mut faults = Vec::new();
    for name in names {
        let binding = &bindings[name];
        let secret = resolve_binding(name, binding, env).and_then(|secret| {
            let short = allows_short(name, binding)?;
            check_length(name, secret, short).map(|secret| (secret, short))
        });
        match secret {
            Ok((secret, short)) => {
                resolved.bindings.insert(name.clone(), secret);
                if short {
                    resolved.short.insert(name.clone());
                }
            }
            Err((key, message)) => {
                let path = ["credentials", name].into_iter().chain(key);
                let path = path.map(str::to_owned).collect();
                faults.push(CredentialFault { path, message });
                resolved.refused.insert(name.clone());
            }
        }
    }
    (resolved, faults)
}

type BindingFault = (Option<&'static str>, String);

fn resolve_binding(
    name: &str,
    binding: &Value,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Secret, BindingFault> {
    let invalid = |key, cause: String| {
        (
            key,
            format!("invalid credential binding \"{name}\": {cause}"),
        )
    };
    let Value::Object(binding) = binding else {
        return Err(invalid(
            None,
            format!("expected an object, got {}", json_kind(binding)),
        ));
    };
    let source = match binding.get("source") {
        Some(Value::String(source)) => source.as_str(),
        Some(other) => {
            return Err(invalid(
                Some("source"),
                format!("`source` must be a string, got {}", json_kind(other)),
            ));
        }
        None => {
            return Err(invalid(
                None,
                "`source` is missing; use env, file or literal".into(),
            ));
        }
    };
    match SOURCES.iter().find(|(known, _)| *known == source) {
        None => Err(invalid(
            Some("source"),
            format!("unknown source \"{source}\"; use env, file or literal"),
        )),
        Some((_, None)) => Err(invalid(
            Some("source"),
            format!("source \"{source}\" is reserved and not supported; use env, file or literal"),
        )),
        Some((_, Some(key))) => {
            let text = text_of(binding, key);
            let text = text.map_err(|fault| invalid(Some(*key), fault.to_string()))?;
            match source {
                "env" => from_env(name, text, env),
                "file" => from_file(name, text),
                _ => Ok(Secret::new(text.to_owned())),
            }
        }
    }
}

/// The member that allows a short value.
const ALLOW_SHORT: &str = "allow_short";

/// Whether the entry declares that its value is short.
fn allows_short(name: &str, binding: &Value) -> Result<bool, BindingFault> {
    match binding.get(ALLOW_SHORT) {
        None => Ok(false),
        Some(Value::Bool(allowed)) => Ok(*allowed),
        Some(other) => {
            let kind = json_kind(other);
            let message = format!(
                "invalid credential binding \"{name}\": `{ALLOW_SHORT}` must be a boolean, got {kind}"
            );
            Err((Some(ALLOW_SHORT), message))
        }
    }
}

/// Refuses a guessable value unless its entry allows it, and in any case a value too long for a credential.
fn check_length(name: &str, secret: Secret, allowed: bool) -> Result<Secret, BindingFault> {
    if secret.byte_len() > SECRET_BYTES_MAX {
        let bytes = secret.byte_len();
        let message = format!(
            "credential {name} has {bytes} bytes, more than the {SECRET_BYTES_MAX} that one may have"
        );
        return Err((None, message));
    }
    if secret.is_short() && !allowed {
        return Err((
            None,
            format!(
                "credential {name} is shorter than {SECRET_BYTES_MIN} bytes, so that a program could guess it; use a longer \
                 one, or set \"{ALLOW_SHORT}\": true in its entry"
            ),
        ));
    }
    Ok(secret)
}

/// A member that is no usable string.
#[derive(Debug, thiserror::Error)]
enum MemberFault<'a> {
    #[error("`{0}` is missing")]
    Missing(&'a str),
    #[error("`{key}` must be a string, got {kind}")]
    Kind { key: &'a str, kind: &'static str },
    #[error("`{0}` must not be empty")]
    Empty(&'a str),
}

/// The string under `key`. A literal may be empty; a variable name and a path may not.
fn text_of<'a>(binding: &'a Map<String, Value>, key: &'a str) -> Result<&'a str, MemberFault<'a>> {
    match binding.get(key) {
        Some(Value::String(text)) if !text.is_empty() || key == "value" => Ok(text),
        Some(Value::String(_)) => Err(MemberFault::Empty(key)),
        Some(other) => Err(MemberFault::Kind {
            key,
            kind: json_kind(other),
        }),
        None => Err(MemberFault::Missing(key)),
    }
}

fn from_env(
    name: &str,
    var: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Secret, BindingFault> {
    match env(var) {
        Some(value) if !value.is_empty() => Ok(Secret::new(value)),
        _ => Err((
            Some("var"),
            format!("credential {name} env {var} is not set"),
        )),
    }
}

/// A credential file larger than this is a mistake (a device, a log).
const FILE_BYTES_MAX: u64 = 1024 * 1024;

fn from_file(name: &str, path: &str) -> Result<Secret, BindingFault> {
    let fault = |cause: String| (Some("path"), format!("credential {name}: {cause}"));
    let bytes = read_file(path, FILE_BYTES_MAX).map_err(|unread| fault(unread.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| fault(FileError::NotText.to_string()))?;
    Ok(Secret::new(text.trim_end().to_owned()))
}

/// The name of a JSON value's type in diagnostics.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) fn wipe(root: &mut Value) {
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => text.zeroize(),
            Value::Array(items) => pending.extend(items.iter_mut()),
            Value::Object(entries) => pending.extend(entries.values_mut()),
            _ => {}
        }
    }
}
