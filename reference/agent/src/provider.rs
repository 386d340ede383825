//! Models by name: `gemini-flash-lite`, `openai:gpt-4.1-mini`, `replay:FILE`. The only place that knows
//! providers' addresses; keys are passed in as secrets and sent as headers.

use std::path::Path;
use std::time::Duration;

use ptc_secrets::{AuthHeaders, SECRET_BYTES_MIN, Secret};
use reqwest::header::HeaderName;

use crate::llm::{
    AnthropicMessages, ChatCompletions, Llm, LlmError, LlmErrorKind, ProviderOptions, Replay,
    RetryPolicy,
};

/// A provider: its prefix in model names, its protocol, and the variable with its key.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// The part of a model's name before the colon.
    pub prefix: &'static str,
    /// The name in messages.
    pub title: &'static str,
    pub base_url: &'static str,
    pub key_variable: &'static str,
    /// The variable that overrides its address.
    pub url_variable: &'static str,
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenAI's chat completions, with the key as a bearer token.
    ChatCompletions,
    /// Anthropic's messages, with the key in `x-api-key`.
    Messages,
}

pub const PROVIDERS: &[Provider] = &[
    Provider {
        prefix: "openrouter",
        title: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        key_variable: "OPENROUTER_API_KEY",
        url_variable: "OPENROUTER_BASE_URL",
        format: Format::ChatCompletions,
    },
    Provider {
        prefix: "openai",
        title: "OpenAI",
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
        url_variable: "OPENAI_BASE_URL",
        format: Format::ChatCompletions,
    },
    Provider {
        prefix: "anthropic",
        title: "Anthropic",
        base_url: "https://api.anthropic.com/v1",
        key_variable: "ANTHROPIC_API_KEY",
        url_variable: "ANTHROPIC_BASE_URL",
        format: Format::Messages,
    },
];

/// Short names of models.
pub const ALIASES: &[(&str, &str)] = &[
    (
        "gemini-flash-lite",
        "openrouter:google/gemini-2.5-flash-lite",
    ),
    ("gemini-flash", "openrouter:google/gemini-2.5-flash"),
    ("haiku", "anthropic:claude-haiku-4-5"),
    ("sonnet", "anthropic:claude-sonnet-4-5"),
    ("gpt-mini", "openai:gpt-5-mini"),
];

/// Prefix of the file name of a recording that is replayed instead of asking a provider.
const REPLAY: &str = "replay:";

/// The variables that may contain keys, which must be scrubbed.
pub fn key_variables() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.key_variable)
}

/// The variables that may override the providers' addresses; an address may contain a login.
pub fn url_variables() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.url_variable)
}

/// Opens a model by name.
///
/// # Errors
/// The model is unknown, its key is missing, or the recording can't be read.
pub fn open_model(
    name: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    timeout: Duration,
) -> Result<Box<dyn Llm>, LlmError> {
    if let Some(file) = name.strip_prefix(REPLAY) {
        return open_replay(Path::new(file)).map(|model| Box::new(model) as Box<dyn Llm>);
    }
    let config = |message: String| LlmError::new(LlmErrorKind::Config, message);
    let full = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, full)| *full);
    let found = full.split_once(':').and_then(|(prefix, model)| {
        PROVIDERS
            .iter()
            .find(|provider| provider.prefix == prefix)
            .map(|provider| (provider, model))
    });
    let Some((provider, model)) = found else {
        let aliases: Vec<&str> = ALIASES.iter().map(|(alias, _)| *alias).collect();
        let providers: Vec<&str> = PROVIDERS.iter().map(|provider| provider.prefix).collect();
        return Err(config(format!(
            "Unknown model: '{name}'\n\nAvailable aliases: {}; or PROVIDER:NAME, the provider one of {}",
            aliases.join(", "),
            providers.join(", ")
        )));
    };
    let key = lookup(provider.key_variable).filter(|key| !key.trim().is_empty());
    let Some(key) = key else {
        return Err(config(format!(
            "{} is required for {} planner models",
            provider.key_variable, provider.title
        )));
    };
    let key = Secret::new(key.trim().to_owned());
    if key.is_short() {
        return Err(config(format!(
            "{} is shorter than {SECRET_BYTES_MIN} bytes, so that a program could guess it",
            provider.key_variable
        )));
    }
    let auth = match provider.format {
        Format::ChatCompletions => AuthHeaders::bearer(&key),
        Format::Messages => AuthHeaders::custom(HeaderName::from_static("x-api-key"), &key),
    };
    let auth =
        auth.map_err(|_| config(format!("{} is not a usable key", provider.key_variable)))?;
    let base_url = lookup(provider.url_variable).unwrap_or_else(|| provider.base_url.to_owned());
    // The value is not shown: it may contain a credential.
    if !reqwest::Url::parse(&base_url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        return Err(config(format!(
            "{} must be an http or https URL",
            provider.url_variable
        )));
    }
    let options = ProviderOptions {
        base_url,
        model: model.to_owned(),
        auth,
        timeout,
        retry: RetryPolicy::default(),
    };
    Ok(match provider.format {
        Format::ChatCompletions => Box::new(ChatCompletions::new(options)?),
        Format::Messages => Box::new(AnthropicMessages::new(options)?),
    })
}

/// Opens a recording.
///
/// # Errors
/// The file can't be read, or a line is invalid.
pub fn open_replay(path: &Path) -> Result<Replay, LlmError> {
    let config = |message: String| LlmError::new(LlmErrorKind::Config, message);
    let text = ptc_secrets::read_text(path, ptc_secrets::DATA_BYTES_MAX)
        .map_err(|error| config(format!("{}: {error}", path.display())))?;
    Replay::parse(&text, false).map_err(|error| config(format!("{}: {error}", path.display())))
}
