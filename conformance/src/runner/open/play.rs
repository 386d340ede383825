//! Plays the steps of an open exchange. A reply is the next response to a request of the case, or to an unknown id; anything else that the
//! server sends is skipped, unless a step expects its method. Does not know how the connection was made.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::controls::{self, CaseFiles, ControlContext};
use super::super::script;
use super::super::transcript::{Record, Stop, differs, unmet};
use super::super::trial::Trial;
use super::findings::{Findings, MessageKind};
use super::input::RequestedInput;
use super::out_of_place;
use super::talk::Connection;
use crate::json::Json;
use crate::judge;
use crate::suite::{Control, Pattern, WireAction, WireCase, WireStep, finding};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::process::ProcessHandle;

/// Plays the case on a connection.
pub async fn steps(
    talk: &mut Connection,
    case: &WireCase,
    record: Record,
    findings: &Findings,
    patience: Patience,
) -> Trial {
    let began = Instant::now();
    talk.record = record;
    let before = talk.requests().count();
    let mut play = OpenPlayer {
        talk,
        findings,
        patience,
        before,
        wanted_input: RequestedInput::default(),
    };
    let mut stopped = None;
    for step in &case.steps {
        if let Err(stop) = play.step(step).await {
            stopped = Some(stop);
            break;
        }
    }
    let stderr = talk.stderr();
    let record = std::mem::take(&mut talk.record);
    record.concluded(stopped, began, stderr)
}

/// Judges a case that only checks findings.
pub fn looked_back(case: &WireCase, findings: &Findings) -> Trial {
    let record = Record {
        answered: true,
        ..Record::default()
    };
    let judged = case.steps.iter().try_for_each(|step| match &step.action {
        WireAction::Control(Control::Never { finding }) => never(step.line, finding, findings),
        _ => Err(out_of_place("this step")),
    });
    record.concluded(judged.err(), Instant::now(), String::new())
}

/// Checks that there are no findings of one kind.
///
/// # Errors
/// When there are any.
pub fn never(line: u32, word: &str, findings: &Findings) -> Result<(), Stop> {
    let found = findings.of(word);
    if found.is_empty() {
        return Ok(());
    }
    Err(differs(line, finding(word), "none", &found.join("\n")))
}

struct OpenPlayer<'a> {
    talk: &'a mut Connection,
    findings: &'a Findings,
    patience: Patience,
    /// The number of requests on the connection before the case.
    before: usize,
    wanted_input: RequestedInput,
}

impl OpenPlayer<'_> {
    async fn step(&mut self, step: &WireStep) -> Result<(), Stop> {
        let line = step.line;
        match &step.action {
            WireAction::Send(text) => {
                let bytes = self.talk.record.bytes(text)?;
                let mut bytes = self.talk.worded(self.wanted_input.with_state(bytes));
                bytes.push(b'\n');
                self.talk.send(&bytes).await
            }
            WireAction::SendRaw(text) => {
                let bytes = self.talk.record.bytes(text)?;
                let bytes = self.talk.worded_raw(bytes);
                self.talk.send(&bytes).await
            }
            WireAction::Expect(expect) => {
                let waited = self.within(expect.within_ms);
                let message = self
                    .wanted(&expect.pattern, Instant::now() + waited, waited)
                    .await?;
                let captures = &mut self.talk.record.captures;
                judge::json("reply", &expect.pattern, &message, captures)
                    .map_err(|mismatch| unmet(line, mismatch))
            }
            WireAction::ExpectUnordered {
                patterns,
                within_ms,
            } => {
                let waited = self.within(*within_ms);
                let deadline = Instant::now() + waited;
                let mut values = Vec::with_capacity(patterns.len());
                for pattern in patterns {
                    values.push(self.wanted(pattern, deadline, waited).await?);
                }
                let captures = &mut self.talk.record.captures;
                judge::unordered("replies", patterns, &values, captures)
                    .map_err(|mismatch| unmet(line, mismatch))
            }
            WireAction::ExpectRaw { .. } => Err(out_of_place("`<-raw`")),
            WireAction::Control(control) => controls::play(self, line, control).await,
        }
    }

    /// The next message that a pattern can match: one with its method, or else a response.
    async fn wanted(
        &mut self,
        pattern: &Pattern,
        deadline: Instant,
        waited: Duration,
    ) -> Result<Json, Stop> {
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
            let (message, kind) = self.talk.message(deadline, waited).await?;
            let meant = match method {
                Some(method) => message.get("method").and_then(Value::as_str) == Some(method),
                None => kind == MessageKind::Response && self.is_ours(&message, null),
            };
            if meant {
                self.wanted_input
                    .look(&message, &mut self.talk.record.captures);
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
    fn is_ours(&self, message: &Value, null: bool) -> bool {
        let id = message.get("id").unwrap_or(&Value::Null);
        if id.is_null() {
            return null;
        }
        let requests = self.talk.requests();
        requests.knows_since(self.before, id) || !requests.knows(id)
    }

    fn within(&self, within_ms: Option<u64>) -> Duration {
        self.patience
            .of_process(within_ms, self.talk.record.answered)
    }
}

impl ControlContext for OpenPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        &mut self.talk.record
    }

    fn patience(&self) -> Patience {
        self.patience
    }

    fn process(&self, control: &Control) -> Result<Arc<ProcessHandle>, Stop> {
        let process = self.talk.process().cloned();
        process.ok_or_else(|| out_of_place(&format!("`{}` over HTTP", script::control(control))))
    }

    fn files(&self, control: &Control) -> Result<CaseFiles, Stop> {
        Err(out_of_place(&format!("`{}`", script::control(control))))
    }

    fn findings(&self) -> Option<&Findings> {
        Some(self.findings)
    }

    async fn end_input(&mut self) {
        self.talk.end_input();
    }

    async fn silence(&mut self, line: u32, time: Duration) -> Result<(), Stop> {
        let deadline = Instant::now() + time;
        loop {
            match self.talk.message(deadline, time).await {
                // The end of output counts as silence, too.
                Err(Stop::Fault(
                    Fault::NoReply { .. } | Fault::Exited { .. } | Fault::ClosedOutput,
                )) => {
                    self.talk
                        .record
                        .note(&format!("no response for {} ms", time.as_millis()));
                    return Ok(());
                }
                Err(stop) => return Err(stop),
                Ok((message, MessageKind::Response)) if self.is_ours(&message, true) => {
                    return Err(differs(line, "output", "no response", &message.to_string()));
                }
                Ok(_) => {}
            }
        }
    }
}
