//! One POST to a provider: headers, timeouts, retries, size limits. Knows no provider's body format.

use std::time::Duration;

use ptc_json::{Document, Json as Read};
use ptc_outbound::{Repeat, Sender, causes, tls_refusal};
use ptc_secrets::{AuthHeaders, Redactor, SCRUB_TIME_MAX};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value as Json;

use super::{LlmError, LlmErrorKind, LlmReply, LlmRequest};

/// Maximum bytes of an answer from a provider: several times what models write.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum calls in one answer: each is made, and sent back to the provider. An adapter reads at most one more.
pub(super) const TOOL_CALLS_MAX: usize = 256;
/// Maximum bytes of the arguments of all calls in one answer that are parsed; values take up to a hundred times as much memory.
const ARGUMENTS_BYTES_MAX: usize = 512 * 1024;
/// Maximum bytes of a provider's error text; a longer one is replaced, never cut.
const DETAIL_BYTES_MAX: usize = 4 * 1024;
/// Interval for checking whether anybody still waits for an answer.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest pause requested by a provider that is honoured.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How a request is repeated after rate limits, timeouts and server errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of requests; 1 means no retry.
    pub attempts_max: u32,
    /// Pause before the second attempt; doubles each time.
    pub base_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            attempts_max: 1,
            base_delay: Duration::from_millis(1000),
        }
    }
}

/// Where a provider is and how to talk to it.
#[derive(Debug, Clone)]
pub struct ProviderOptions {
    /// URL without the operation, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name at the provider.
    pub model: String,
    /// The credential, ready to be sent.
    pub auth: AuthHeaders,
    /// Maximum duration of one attempt.
    pub timeout: Duration,
    pub retry: RetryPolicy,
}

/// A client with its own runtime, so that agents can block on it from any thread that is not async.
pub(super) struct HttpProvider {
    runtime: tokio::runtime::Runtime,
    sender: Sender,
    options: ProviderOptions,
    url: String,
    headers: HeaderMap,
    /// A provider may repeat its key in an answer.
    redactor: Redactor,
}

impl HttpProvider {
    pub(super) fn new(
        options: ProviderOptions,
        path: &str,
        fixed: &[(&'static str, &'static str)],
    ) -> Result<Self, LlmError> {
        let config = |message: String| LlmError::new(LlmErrorKind::Config, message);
        let runtime =
            ptc_outbound::executor::without_threads().map_err(|error| config(error.to_string()))?;
        let builder = ptc_outbound::client(&options.base_url)
            .map_err(|fault| config(fault.to_string()))?
            .redirect(reqwest::redirect::Policy::none());
        let sender = Sender::new(builder).map_err(|error| config(error.to_string()))?;
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        options.auth.apply(&mut headers);
        let url = format!("{}{path}", options.base_url.trim_end_matches('/'));
        Ok(HttpProvider {
            runtime,
            sender,
            redactor: options.auth.redactor(),
            options,
            url,
            headers,
        })
    }

    pub(super) fn model(&self) -> &str {
        &self.options.model
    }

    /// Posts `body` and parses the answer with `read`. If that gives `None`, the answer is malformed because it `lacks` something. The
    /// answer is read in place, so content besides the reply costs nothing.
    pub(super) fn exchange(
        &self,
        body: &Json,
        request: &LlmRequest<'_>,
        read: fn(Read<'_>) -> Option<LlmReply>,
        lacks: &str,
    ) -> Result<LlmReply, LlmError> {
        let malformed = |message| LlmError::new(LlmErrorKind::Malformed, message);
        let answer = self.post(body, request)?;
        let answer = Document::read(&answer).map_err(|error| {
            let at = error.offset;
            malformed(format!(
                "the provider's answer is not JSON: it can't be read at byte {at}"
            ))
        })?;
        let reply = read(answer.json())
            .ok_or_else(|| malformed(format!("the provider's answer has no {lacks}")))?;
        match reply.tool_calls.len() > TOOL_CALLS_MAX {
            true => Err(malformed(format!(
                "the provider's answer calls more than {TOOL_CALLS_MAX} tools"
            ))),
            false => {
                let redactor = self.redactor.with_time_limit(SCRUB_TIME_MAX);
                Ok(redactor.scrub(reply).into_inner())
            }
        }
    }

    /// Posts `body` and returns the body of a 2xx response, unless the request is abandoned before.
    fn post(&self, body: &Json, request: &LlmRequest<'_>) -> Result<Vec<u8>, LlmError> {
        let body = body.to_string();
        self.runtime.block_on(async {
            tokio::select! {
                answer = self.send_with_retries(body, request.timeout) => answer,
                () = wait_until_abandoned(request) => Err(LlmError::new(
                    LlmErrorKind::Abandoned,
                    "nobody waits for the answer any more",
                )),
            }
        })
    }

    async fn send_with_retries(
        &self,
        body: String,
        timeout: Option<Duration>,
    ) -> Result<Vec<u8>, LlmError> {
        let timeout = timeout
            .unwrap_or(self.options.timeout)
            .min(self.options.timeout);
        let deadline =
            tokio::time::Instant::now() + timeout * self.options.retry.attempts_max.max(1);
        let mut pause = self.options.retry.base_delay;
        let mut attempt = 1;
        loop {
            let (error, asked_pause) = match self.send_once(body.clone(), timeout).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let wait = asked_pause.unwrap_or(pause);
            let last = attempt >= self.options.retry.attempts_max
                || wait > PAUSE_MAX
                || tokio::time::Instant::now() + wait >= deadline;
            if last || !error.kind.is_transient() {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
            pause = pause.saturating_mul(2);
            attempt += 1;
        }
    }

    async fn send_once(
        &self,
        body: String,
        timeout: Duration,
    ) -> Result<Vec<u8>, (LlmError, Option<Duration>)> {
        let failed = |error| (transport_error(&error), None);
        let request = self
            .sender
            .client()
            .post(&self.url)
            .headers(self.headers.clone())
            .body(body)
            .timeout(timeout)
            .build()
            .map_err(failed)?;
        // Asking a model twice has no side effects.
        let mut response = self
            .sender
            .send(request, Repeat::Harmless)
            .await
            .map_err(failed)?;
        let status = response.status();
        let asked_pause = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                let message =
                    format!("the provider's answer is longer than {ANSWER_BYTES_MAX} bytes");
                return Err((LlmError::new(LlmErrorKind::Malformed, message), None));
            }
            answer.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(answer);
        }
        let redactor = self.redactor.with_time_limit(SCRUB_TIME_MAX);
        let detail = redactor.scrub(error_text(&answer)).into_inner();
        Err((status_error(status, &detail), asked_pause))
    }
}

/// Waits until the request is abandoned.
async fn wait_until_abandoned(request: &LlmRequest<'_>) {
    while !(request.abandoned.0)() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Parses the arguments of an answer's calls up to a total size.
pub(super) struct ArgumentParser {
    bytes_left: usize,
}

impl ArgumentParser {
    pub(super) fn new() -> Self {
        ArgumentParser {
            bytes_left: ARGUMENTS_BYTES_MAX,
        }
    }

    /// The value that `text` encodes, else the text itself and what is wrong with it.
    pub(super) fn value(&mut self, text: &str) -> (Json, Option<String>) {
        let kept = |wrong| (Json::from(text), Some(wrong));
        let Some(bytes_left) = self.bytes_left.checked_sub(text.len()) else {
            return kept(format!(
                "Tool arguments of one answer may have {ARGUMENTS_BYTES_MAX} bytes"
            ));
        };
        self.bytes_left = bytes_left;
        match serde_json::from_str(text) {
            Ok(value) => (value, None),
            Err(error) => kept(format!("Tool arguments are not valid JSON: {error}")),
        }
    }
}

fn transport_error(error: &reqwest::Error) -> LlmError {
    if error.is_timeout() {
        return LlmError::new(LlmErrorKind::Timeout, "the provider did not answer in time");
    }
    // The URL may contain a key in its query, so the error is described without it.
    let problem = if error.is_connect() {
        "cannot connect to the provider"
    } else {
        "the exchange with the provider broke"
    };
    let cause = tls_refusal(error).or_else(|| {
        let io = causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>());
        // An error that wraps another has no information of its own.
        io.filter(|io| io.raw_os_error().is_some())
            .map(ToString::to_string)
    });
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    LlmError::new(LlmErrorKind::Unavailable, format!("{problem}{cause}"))
}

/// The provider's error text; empty when there is none that can be read.
fn error_text(answer: &[u8]) -> String {
    let Ok(answer) = Document::read(answer) else {
        return String::new();
    };
    let error = answer.json().get("error");
    let text = error.and_then(|error| error.as_str().or_else(|| error.get("message")?.as_str()));
    text.unwrap_or_default().into_owned()
}

fn status_error(status: reqwest::StatusCode, detail: &str) -> LlmError {
    let kind = match status.as_u16() {
        401 | 403 => LlmErrorKind::Auth,
        429 => LlmErrorKind::RateLimited,
        // A timeout on the provider's side, not of this request.
        408 | 500..=599 => LlmErrorKind::Unavailable,
        _ => LlmErrorKind::Refused,
    };
    // Other secrets are scrubbed from the text later; a text cut before that could contain an unrecognisable part of one.
    let detail = Some(detail).filter(|detail| detail.len() <= DETAIL_BYTES_MAX);
    let detail = detail.unwrap_or("a long text");
    let colon = if detail.is_empty() { "" } else { ": " };
    LlmError::new(
        kind,
        format!("the provider answered {}{colon}{detail}", status.as_u16()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cut could split another credential.
    #[test]
    fn provider_error_text_is_never_cut() {
        let said = |text: &str| {
            let answer = serde_json::json!({"error": {"message": text}}).to_string();
            let detail = error_text(answer.as_bytes());
            status_error(reqwest::StatusCode::UNAUTHORIZED, &detail).message
        };
        let text = "x".repeat(290) + "canary-0123456789";
        assert_eq!(said(&text), format!("the provider answered 401: {text}"));
        assert_eq!(
            said(&"x".repeat(DETAIL_BYTES_MAX + 1)),
            "the provider answered 401: a long text"
        );
    }
}
