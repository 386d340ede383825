//! Finds the cases that deliberately let real time pass, by looking at their fixtures. Does not estimate how long.

use super::{
    BodyExpect, CallExpect, Case, CaseBody, Control, HttpAction, Outcome, ProgramExpect, Reason,
    WireAction,
};
use crate::json::Json;

/// Members of a peer's script that make it respond slowly.
const SLOW_MEMBERS: &[&str] = &["delay_ms", "silent", "stall", "open", "close_input"];

/// The command with which a shell script pauses.
const SLEEP: &str = "sleep ";

impl Case {
    /// Whether the case deliberately lets real time pass: it waits, expects silence, has a slow peer, or exhausts a
    /// time limit.
    pub fn waits(&self) -> bool {
        let said = match &self.body {
            CaseBody::Clj(clj) => times_out(&clj.expect),
            CaseBody::Wire(wire) => wire.steps.iter().any(|step| match &step.action {
                WireAction::Control(control) => control.waits(),
                WireAction::Expect(line) => names_timeout(&line.pattern.source()),
                WireAction::ExpectUnordered { patterns, .. } => patterns
                    .iter()
                    .any(|pattern| names_timeout(&pattern.source())),
                _ => false,
            }),
            CaseBody::Http(http) => http.steps.iter().any(|step| match &step.action {
                HttpAction::Control(control) => control.waits(),
                HttpAction::Dropped { .. } | HttpAction::Nothing { .. } => true,
                HttpAction::Response(response) => {
                    let body = match &response.body {
                        BodyExpect::Json(pattern) => pattern.source(),
                        BodyExpect::Text(text) => text.source(),
                        _ => String::new(),
                    };
                    response.status == REQUEST_TIMEOUT || names_timeout(&body)
                }
                _ => false,
            }),
            CaseBody::Call(call) => {
                matches!(&call.expect, CallExpect::Returns(pattern) if names_timeout(&pattern.source()))
            }
            CaseBody::Cli(cli) => cli.commands().any(|cli| {
                let mut told = [&cli.expect.stdout, &cli.expect.stderr]
                    .into_iter()
                    .flatten();
                let mut scripts = cli.files.values();
                told.any(|text| names_timeout(&text.source()))
                    || scripts.any(|text| text.source().contains(SLEEP))
            }),
            CaseBody::Fixture(_) => false,
        };
        said || self.target.peers.values().any(is_slow)
    }
}

/// The status for a request that was not sent in time.
const REQUEST_TIMEOUT: u16 = 408;

impl Control {
    fn waits(&self) -> bool {
        matches!(self, Control::Wait { .. } | Control::Silence { .. })
    }
}

fn times_out(expect: &ProgramExpect) -> bool {
    let reason = match &expect.outcome {
        Outcome::Raises(raised) => raised.reason == Reason::Timeout,
        Outcome::Returns(_) => false,
    };
    reason || expect.otherwise.as_deref().is_some_and(times_out)
}

fn names_timeout(pattern: &str) -> bool {
    pattern.contains("timeout") || pattern.contains("timed out")
}

fn is_slow(script: &Json) -> bool {
    match script {
        Json::Object(members) => members
            .iter()
            .any(|(name, value)| SLOW_MEMBERS.contains(&name.as_str()) || is_slow(value)),
        Json::Array(items) => items.iter().any(is_slow),
        _ => false,
    }
}
