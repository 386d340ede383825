//! Plays the steps that all transports share, over whatever carries the exchange.
//! Knows peers, logs and traces of a started target; knows nothing of how frames travel.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::json::Json;
use crate::judge;
use crate::peer::stage;
use crate::report::{Direction, Traffic};
use crate::suite::{Captures, LineMatch, Pattern, Text};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::verdict::{Mismatch, Verdict};

use super::trial::Trial;

/// How often logs and traces are looked into while a line is waited for.
const POLL: Duration = Duration::from_millis(5);
/// How long a log or trace line is waited for, before the factor of the target's patience.
const LINE_PATIENCE: Duration = Duration::from_secs(5);

/// Why a transcript ended before its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The case is decided.
    Verdict(Verdict),
    /// The target did not do its part.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was said and captured so far.
#[derive(Debug, Default)]
pub struct Record {
    /// The bytes that went each way.
    pub traffic: Vec<Traffic>,
    /// Values captured by holes.
    pub captures: Captures,
    /// Whether the target ever answered.
    pub answered: bool,
    /// The error messages among what was received.
    pub messages: Vec<String>,
}

impl Record {
    /// The trial of a case that took since `began`: passed, unless something stopped it. The target's error output
    /// is kept only where it explains something.
    pub fn concluded(
        self,
        stopped: Option<Stop>,
        began: Instant,
        stderr: impl FnOnce() -> String,
    ) -> Trial {
        let (verdict, cause) = match stopped {
            None => (Verdict::pass(), None),
            Some(Stop::Verdict(verdict)) => (verdict, None),
            Some(Stop::Fault(fault)) => (fault.verdict(self.answered), Some(fault.name())),
        };
        Trial {
            stderr: if verdict.is_pass() {
                String::new()
            } else {
                stderr()
            },
            verdict,
            cause,
            traffic: self.traffic,
            messages: self.messages,
            seen_alone: false,
            took: began.elapsed(),
        }
    }

    /// Notes what was sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.push(Direction::Sent, &String::from_utf8_lossy(bytes));
    }

    pub fn received(&mut self, text: &str) {
        self.answered = true;
        self.messages.extend(judge::error_messages(text));
        self.push(Direction::Received, text);
    }

    /// Notes what else happened.
    pub fn note(&mut self, text: &str) {
        self.push(Direction::Note, text);
    }

    /// The bytes of a text, with captures filled in.
    ///
    /// # Errors
    /// A verdict about the fixture, when the text cannot be made.
    pub fn bytes(&self, text: &Text) -> Result<Vec<u8>, Stop> {
        text.bytes(&self.captures).map_err(|fault| {
            Stop::Verdict(Verdict::HarnessError {
                message: format!("the step cannot be sent: {fault}"),
            })
        })
    }

    fn push(&mut self, direction: Direction, text: &str) {
        self.traffic.push(Traffic::new(direction, text));
    }
}

/// A verdict of failure at a line of the fixture.
pub fn unmet(line: u32, mismatch: Mismatch) -> Stop {
    Stop::Verdict(super::trial::unmet(mismatch, line))
}

/// A failure in words.
pub fn differs(line: u32, what: &str, expected: &str, observed: &str) -> Stop {
    unmet(
        line,
        Mismatch {
            what: what.to_owned(),
            expected: expected.to_owned(),
            observed: observed.to_owned(),
            diff: String::new(),
            clause: None,
            line: None,
        },
    )
}

/// The signal of a name that a fixture may use.
pub fn signal(name: &str) -> Option<Signal> {
    const SIGNALS: &[(&str, Signal)] = &[
        ("TERM", Signal::SIGTERM),
        ("INT", Signal::SIGINT),
        ("HUP", Signal::SIGHUP),
        ("KILL", Signal::SIGKILL),
        ("USR1", Signal::SIGUSR1),
        ("USR2", Signal::SIGUSR2),
        ("STOP", Signal::SIGSTOP),
        ("CONT", Signal::SIGCONT),
    ];
    SIGNALS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, signal)| *signal)
}

/// Looks for a line in `source`: waits for a wanted one, judges an unwanted one at once.
///
/// # Errors
/// When the wanted line does not come, or the unwanted one is there.
pub async fn look(
    record: &mut Record,
    line: u32,
    what: &str,
    present: bool,
    wanted: &LineMatch,
    patience: Patience,
    source: impl Fn() -> String,
) -> Result<(), Stop> {
    let deadline = Instant::now() + patience.stretched(LINE_PATIENCE);
    loop {
        let text = source();
        for candidate in text.lines() {
            let found = judge::line(wanted, candidate, &mut record.captures)
                .map_err(|message| Stop::Verdict(Verdict::HarnessError { message }))?;
            if found && present {
                return Ok(());
            }
            if found {
                return Err(differs(
                    line,
                    what,
                    &format!("no line like {}", shown(wanted)),
                    candidate,
                ));
            }
        }
        if !present {
            return Ok(());
        }
        if Instant::now() > deadline {
            let lines = text.lines().count();
            let expected = format!("a line like {}", shown(wanted));
            let last: Vec<&str> = text.lines().rev().take(5).collect();
            let observed = format!("none of {lines} lines; the last ones: {}", last.join(" | "));
            return Err(differs(line, what, &expected, &observed));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Looks for a message among those that a peer of the case received.
///
/// # Errors
/// As [`look`]; a verdict about the fixture when there is no such peer.
pub async fn look_at_peer(
    record: &mut Record,
    line: u32,
    directory: &Path,
    peer: &str,
    present: bool,
    pattern: &Pattern,
    patience: Patience,
) -> Result<(), Stop> {
    if stage::received(directory, peer).is_none() {
        let message = format!("the target block names no peer `{peer}`");
        return Err(Stop::Verdict(Verdict::HarnessError { message }));
    }
    let wanted = LineMatch::Json(pattern.clone());
    let what = format!("peer {peer}");
    let source = || stage::received(directory, peer).unwrap_or_default();
    look(record, line, &what, present, &wanted, patience, source).await
}

/// All that stands in the files of a directory, in the order of their names; before each a line that says who may use it.
pub fn files_in(directory: &Path) -> String {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    let mut all = String::new();
    for path in &paths {
        let (Ok(text), Ok(data)) = (std::fs::read(path), std::fs::metadata(path)) else {
            continue;
        };
        let file = Json::from(
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .as_ref(),
        );
        let mode = data.permissions().mode() & 0o777;
        all.push_str(&format!("{{\"file\":{file},\"mode\":\"{mode:03o}\"}}\n"));
        all.push_str(&String::from_utf8_lossy(&text));
        all.push('\n');
    }
    all
}

fn shown(wanted: &LineMatch) -> String {
    match wanted {
        LineMatch::Json(pattern) => pattern.source(),
        LineMatch::Regex(regex) => format!("/{regex}/"),
    }
}
