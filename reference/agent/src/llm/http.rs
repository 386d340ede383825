//! One POST to a provider: headers, timeouts, retries, size cap. Knows no provider's body.

use std::time::Duration;

use ptc_secrets::{AuthHeaders, Redactor, SCRUB_TIME_MAX, Scrubbed};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value as Json;

use super::{LlmError, LlmErrorKind, LlmReply};

/// Longest answer read from a provider: several times what models write, for as a tree it takes twenty times its bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Calls of one answer: each is made, and told back to the provider. An adapter reads one more at most.
pub(super) const TOOL_CALLS_MAX: usize = 256;
/// Bytes of the longest error text of a provider that is passed on, as a whole.
const DETAIL_BYTES_MAX: usize = 4 * 1024;
/// A provider that asks for a longer pause is not waited for.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How often and how patiently a request is repeated after rate limits, timeouts and server errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests in all; 1 is no retry.
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
    /// URL up to the operation, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name at the provider.
    pub model: String,
    /// The credential, ready to be sent.
    pub auth: AuthHeaders,
    /// How long one attempt may take.
    pub timeout: Duration,
    pub retry: RetryPolicy,
}

/// A client with a runtime of its own, so that agents can block on it from any thread that is not async.
pub(super) struct Poster {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    options: ProviderOptions,
    url: String,
    headers: HeaderMap,
    /// A provider may repeat a key in its answer.
    redactor: Redactor,
}

impl Poster {
    pub(super) fn new(
        options: ProviderOptions,
        path: &str,
        fixed: &[(&'static str, &'static str)],
    ) -> Result<Self, LlmError> {
        let config = |message: String| LlmError::new(LlmErrorKind::Config, message);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| config(error.to_string()))?;
        let client = ptc_outbound::client(&options.base_url, None)
            .map_err(config)?
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| config(error.to_string()))?;
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        options.auth.apply(&mut headers);
        let url = format!("{}{path}", options.base_url.trim_end_matches('/'));
        Ok(Poster {
            runtime,
            client,
            redactor: options.auth.redactor(),
            options,
            url,
            headers,
        })
    }

    pub(super) fn model(&self) -> &str {
        &self.options.model
    }

    /// Posts `body` and reads the answer; one that `read` makes nothing of is malformed, for it `lacks` something.
    pub(super) fn exchange(
        &self,
        body: &Json,
        timeout: Option<Duration>,
        read: fn(&Json) -> Option<LlmReply>,
        lacks: &str,
    ) -> Result<LlmReply, LlmError> {
        let malformed = |message| LlmError::new(LlmErrorKind::Malformed, message);
        let reply = read(&self.post(body, timeout)?)
            .ok_or_else(|| malformed(format!("the provider's answer has no {lacks}")))?;
        match reply.tool_calls.len() > TOOL_CALLS_MAX {
            true => Err(malformed(format!(
                "the provider's answer calls more than {TOOL_CALLS_MAX} tools"
            ))),
            false => Ok(reply),
        }
    }

    /// Posts `body` and gives the decoded answer of a 2xx.
    fn post(&self, body: &Json, timeout: Option<Duration>) -> Result<Json, LlmError> {
        let timeout = timeout
            .unwrap_or(self.options.timeout)
            .min(self.options.timeout);
        let body = body.to_string();
        self.runtime.block_on(async {
            let deadline =
                tokio::time::Instant::now() + timeout * self.options.retry.attempts_max.max(1);
            let mut pause = self.options.retry.base_delay;
            let mut attempt = 1;
            loop {
                let (error, asked_pause) = match self.once(body.clone(), timeout).await {
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
        })
    }

    async fn once(
        &self,
        body: String,
        timeout: Duration,
    ) -> Result<Json, (LlmError, Option<Duration>)> {
        let request = self
            .client
            .post(&self.url)
            .headers(self.headers.clone())
            .body(body)
            .timeout(timeout);
        let mut response = request
            .send()
            .await
            .map_err(|error| (transport_error(&error), None))?;
        let status = response.status();
        let asked_pause = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let mut answer = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| (transport_error(&error), None))?
        {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                let message =
                    format!("the provider's answer is longer than {ANSWER_BYTES_MAX} bytes");
                return Err((LlmError::new(LlmErrorKind::Malformed, message), None));
            }
            answer.extend_from_slice(&chunk);
        }
        let redactor = self.redactor.for_at_most(SCRUB_TIME_MAX);
        let answer = serde_json::from_slice(&answer).map(|json: Json| redactor.scrub(json));
        if status.is_success() {
            return answer.map(Scrubbed::into_inner).map_err(|error| {
                let message = format!("the provider's answer is not JSON: {error}");
                (LlmError::new(LlmErrorKind::Malformed, message), None)
            });
        }
        Err((status_error(status, answer.as_deref().ok()), asked_pause))
    }
}

fn transport_error(error: &reqwest::Error) -> LlmError {
    if error.is_timeout() {
        return LlmError::new(LlmErrorKind::Timeout, "the provider did not answer in time");
    }
    // The URL may carry a key in its query, so the error is described without it.
    let kind = if error.is_connect() {
        "cannot connect to the provider"
    } else {
        "the exchange with the provider broke"
    };
    LlmError::new(LlmErrorKind::Unavailable, kind)
}

fn status_error(status: reqwest::StatusCode, answer: Option<&Json>) -> LlmError {
    let kind = match status.as_u16() {
        401 | 403 => LlmErrorKind::Auth,
        408 => LlmErrorKind::Timeout,
        429 => LlmErrorKind::RateLimited,
        500..=599 => LlmErrorKind::Unavailable,
        _ => LlmErrorKind::Refused,
    };
    let detail = match answer.and_then(|body| body.get("error")) {
        Some(Json::String(text)) => text.as_str(),
        Some(error) => error
            .get("message")
            .and_then(Json::as_str)
            .unwrap_or_default(),
        None => "",
    };
    // What is secret elsewhere is taken out of it later; what is cut before that may be a part of it.
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

    /// Another credential may stand where it would be cut.
    #[test]
    fn a_provider_s_error_text_is_never_cut() {
        let said = |text: &str| {
            let answer = serde_json::json!({"error": {"message": text}});
            status_error(reqwest::StatusCode::UNAUTHORIZED, Some(&answer)).message
        };
        let text = "x".repeat(290) + "canary-0123456789";
        assert_eq!(said(&text), format!("the provider answered 401: {text}"));
        assert_eq!(
            said(&"x".repeat(DETAIL_BYTES_MAX + 1)),
            "the provider answered 401: a long text"
        );
    }
}
