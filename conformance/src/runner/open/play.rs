//! Plays the steps of an open exchange. A reply is the next response to a request of the case, or to an unknown id; anything else that the
//! server sends is skipped, unless a step expects its method. Does not know how the connection was made.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::case_source;
use super::super::controls::{self, CaseFiles, ControlContext};
use super::super::transcript::{Record, ReplySource, Stop, differs};
use super::super::trial::Trial;
use super::connection::Connection;
use super::findings::{Findings, MessageKind};
use super::input::RequestedInput;
use super::not_permitted;
use crate::json::Json;
use crate::suite::{Control, Pattern, WireAction, WireCase, WireStep, finding};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::process::ProcessHandle;

/// Plays the case on a connection.
pub async fn steps(
    connection: &mut Connection,
    case: &WireCase,
    record: Record,
    findings: &Findings,
    patience: Patience,
) -> Trial {
    let began = Instant::now();
    connection.record = record;
    let before = connection.requests().count();
    let mut player = OpenPlayer {
        connection,
        findings,
        patience,
        before,
        requested_input: RequestedInput::default(),
    };
    let mut stopped = None;
    for step in &case.steps {
        if let Err(stop) = player.step(step).await {
            stopped = Some(stop);
            break;
        }
    }
    let stderr = connection.stderr();
    let record = std::mem::take(&mut connection.record);
    record.into_trial(stopped, began, stderr)
}

/// Judges a case that only checks findings.
pub fn judge_findings(case: &WireCase, findings: &Findings) -> Trial {
    let record = Record {
        answered: true,
        ..Record::default()
    };
    let judged = case.steps.iter().try_for_each(|step| match &step.action {
        WireAction::Control(Control::Never { finding }) => {
            expect_no_finding(step.line, finding, findings)
        }
        _ => Err(not_permitted("this step")),
    });
    record.into_trial(judged.err(), Instant::now(), String::new())
}

/// Checks that there are no findings of one kind.
///
/// # Errors
/// When there are any.
pub fn expect_no_finding(line: u32, word: &str, findings: &Findings) -> Result<(), Stop> {
    let found = findings.of_kind(word);
    if found.is_empty() {
        return Ok(());
    }
    Err(differs(line, finding(word), "none", &found.join("\n")))
}

struct OpenPlayer<'a> {
    connection: &'a mut Connection,
    findings: &'a Findings,
    patience: Patience,
    /// The number of requests on the connection before the case.
    before: usize,
    requested_input: RequestedInput,
}

impl OpenPlayer<'_> {
    async fn step(&mut self, step: &WireStep) -> Result<(), Stop> {
        let line = step.line;
        match &step.action {
            WireAction::Send(text) => {
                let bytes = self.connection.record.bytes(text)?;
                let mut bytes = self
                    .connection
                    .encode_message(self.requested_input.with_state(bytes));
                bytes.push(b'\n');
                self.connection.send(&bytes).await
            }
            WireAction::SendRaw(text) => {
                let bytes = self.connection.record.bytes(text)?;
                let bytes = self.connection.encode_raw(bytes);
                self.connection.send(&bytes).await
            }
            WireAction::Expect(expect) => self.expect(line, expect).await,
            WireAction::ExpectUnordered {
                patterns,
                within_ms,
            } => self.expect_unordered(line, patterns, *within_ms).await,
            WireAction::ExpectRaw { .. } => Err(not_permitted("`<-raw`")),
            WireAction::Control(control) => controls::play(self, line, control).await,
        }
    }

    /// The next message that a pattern can match: one with its method, or else a response.
    async fn next_matching(&mut self, pattern: &Pattern, waited: Duration) -> Result<Json, Stop> {
        let deadline = Instant::now() + waited;
        let member = |name: &str| match pattern {
            Pattern::Object { members, .. } => members.get(name),
            _ => None,
        };
        let method = match member("method") {
            Some(Pattern::Exact(method)) => method.as_str(),
            _ => None,
        };
        let null = matches!(member("id"), Some(Pattern::Exact(Json::Null)));
        loop {
            let (message, kind) = self.connection.message(deadline, waited).await?;
            let is_match = match method {
                Some(method) => message.get("method").and_then(Value::as_str) == Some(method),
                None => kind == MessageKind::Response && self.belongs_to_case(&message, null),
            };
            if is_match {
                self.requested_input
                    .inspect(&message, &mut self.connection.record.captures);
                return Json::parse(&message.to_string()).map_err(|error| {
                    Stop::Fault(Fault::Junk {
                        line: message.to_string(),
                        why: error.to_string(),
                    })
                });
            }
        }
    }

    /// Whether a response belongs to this case: its id is one of the case's, or unknown. `null` is the result if it has no id.
    fn belongs_to_case(&self, message: &Value, null: bool) -> bool {
        let id = message.get("id").unwrap_or(&Value::Null);
        if id.is_null() {
            return null;
        }
        let requests = self.connection.requests();
        requests.contains_since(self.before, id) || !requests.contains(id)
    }
}

impl ReplySource for OpenPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        &mut self.connection.record
    }

    fn within(&self, within_ms: Option<u64>) -> Duration {
        self.patience
            .of_process(within_ms, self.connection.record.answered)
    }

    async fn next_reply_for(&mut self, pattern: &Pattern, waited: Duration) -> Result<Json, Stop> {
        self.next_matching(pattern, waited).await
    }
}

impl ControlContext for OpenPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        &mut self.connection.record
    }

    fn patience(&self) -> Patience {
        self.patience
    }

    fn process(&self, control: &Control) -> Result<Arc<ProcessHandle>, Stop> {
        let process = self.connection.process().cloned();
        process
            .ok_or_else(|| not_permitted(&format!("`{}` over HTTP", case_source::control(control))))
    }

    fn files(&self, control: &Control) -> Result<CaseFiles, Stop> {
        Err(not_permitted(&format!(
            "`{}`",
            case_source::control(control)
        )))
    }

    fn findings(&self) -> Option<&Findings> {
        Some(self.findings)
    }

    async fn end_input(&mut self) {
        self.connection.end_input();
    }

    async fn expect_silence(&mut self, line: u32, time: Duration) -> Result<(), Stop> {
        let deadline = Instant::now() + time;
        loop {
            match self.connection.message(deadline, time).await {
                // The end of output counts as silence, too.
                Err(Stop::Fault(
                    Fault::NoReply { .. } | Fault::Exited { .. } | Fault::ClosedOutput,
                )) => {
                    self.connection
                        .record
                        .note(&format!("no response for {} ms", time.as_millis()));
                    return Ok(());
                }
                Err(stop) => return Err(stop),
                Ok((message, MessageKind::Response)) if self.belongs_to_case(&message, true) => {
                    return Err(differs(line, "output", "no response", &message.to_string()));
                }
                Ok(_) => {}
            }
        }
    }
}
