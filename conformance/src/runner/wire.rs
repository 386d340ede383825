//! Plays a `wire` case: lines over the standard streams of its own process, step by step.
//! Knows nothing of HTTP or of reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::json::Json;
use crate::judge;
use crate::suite::{Control, Pattern, WireAction, WireCase, WireStep};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::frame::pong;
use crate::target::lines::Piece;
use crate::target::link;
use crate::target::process::{Process, ProcessHandle};

use super::controls::{self, CaseFiles, ControlContext};
use super::start::PreparedProcess;
use super::transcript::{Record, ReplySource, Stop, differs, unmet};
use super::trial::Trial;

/// How long a target may take to close its output after its input has ended, after the last step.
const CLOSE_WAIT: Duration = Duration::from_millis(250);
/// How long a target that closed its output may take to exit.
const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(500);
/// Time limit for writing the answer to a ping.
const PONG_WAIT: Duration = Duration::from_millis(250);
/// The id of the handshake; no case uses it.
const HANDSHAKE_ID: &str = "ptc-conformance";

/// Starts the process and plays the case; `warm` permits a warm-up program first.
pub async fn play(
    case: &WireCase,
    prepared: &PreparedProcess,
    patience: Patience,
    warm: bool,
) -> Trial {
    let began = Instant::now();
    let process = match link::launch(&prepared.spawn) {
        Ok(process) => process,
        Err(fault) => return Trial::faulted(&fault, "", String::new(), false),
    };
    let mut player = StdioPlayer {
        process,
        prepared,
        patience,
        record: Record::default(),
        ended: false,
        warm,
    };
    let stopped = player.play_steps(case).await.err();
    let process = Arc::clone(player.process.handle());
    process.kill().await;
    player
        .record
        .into_trial(stopped, began, process.stderr().text())
}

/// The frame that begins the handshake before a case.
pub(super) fn initialize() -> String {
    let params = link::initialize_params();
    link::frame(link::quoted(HANDSHAKE_ID), "initialize", Some(&params))
}

struct StdioPlayer<'a> {
    process: Process,
    prepared: &'a PreparedProcess,
    patience: Patience,
    record: Record,
    /// Whether an `exit` step has seen the process exit.
    ended: bool,
    /// Whether a warm-up program runs before the steps.
    warm: bool,
}

impl StdioPlayer<'_> {
    async fn play_steps(&mut self, case: &WireCase) -> Result<(), Stop> {
        if case.handshake {
            self.handshake().await?;
            if self.warm {
                self.warm_up().await?;
            }
        }
        for step in &case.steps {
            self.step(step).await?;
        }
        let last = case.steps.last().map_or(0, |step| step.line);
        self.close_input(last).await
    }

    async fn handshake(&mut self) -> Result<(), Stop> {
        self.write((initialize() + "\n").as_bytes()).await?;
        let line = self.next_line(self.patience.start).await?;
        let reply = parse(&line)?;
        let answers = reply.get("id").and_then(Json::as_str) == Some(HANDSHAKE_ID);
        if !answers || reply.get("result").is_none() {
            return Err(Stop::Fault(Fault::Malformed {
                expected: "the answer to `initialize`".to_owned(),
                line,
            }));
        }
        self.write(format!("{}\n", link::INITIALIZED).as_bytes())
            .await
    }

    /// Lets the server run a program that is not judged: the first one may have to load what all programs need.
    async fn warm_up(&mut self) -> Result<(), Stop> {
        let (method, params) = link::Evaluation::warm_up().request();
        let frame = link::frame(link::quoted(HANDSHAKE_ID), method, Some(&params));
        self.write((frame + "\n").as_bytes()).await?;
        self.next_line(self.patience.start).await.map(drop)
    }

    async fn step(&mut self, step: &WireStep) -> Result<(), Stop> {
        let line = step.line;
        match &step.action {
            WireAction::Send(text) => {
                let mut bytes = self.record.bytes(text)?;
                bytes.push(b'\n');
                self.write(&bytes).await
            }
            WireAction::SendRaw(text) => {
                let bytes = self.record.bytes(text)?;
                self.write(&bytes).await
            }
            WireAction::Expect(expect) => self.expect(line, expect).await,
            WireAction::ExpectUnordered {
                patterns,
                within_ms,
            } => self.expect_unordered(line, patterns, *within_ms).await,
            WireAction::ExpectRaw { text, within_ms } => {
                let observed = self.next_line(self.within(*within_ms)).await?;
                judge::raw_line(text, &observed, &mut self.record.captures)
                    .map_err(|mismatch| unmet(line, mismatch))
            }
            WireAction::Control(control) => controls::play(self, line, control).await,
        }
    }

    /// Ends the input and looks for output that no step expected.
    async fn close_input(&mut self, line: u32) -> Result<(), Stop> {
        if self.ended {
            return Ok(());
        }
        self.process.end_input();
        self.expect_no_output(line, CLOSE_WAIT).await
    }

    async fn expect_no_output(&mut self, line: u32, patience: Duration) -> Result<(), Stop> {
        match tokio::time::timeout(patience, self.next()).await {
            Ok(Some(piece)) => {
                let text = self.complete_line(piece)?;
                Err(differs(line, "output", "no more output", &text))
            }
            Ok(None) | Err(_) => Ok(()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.record.sent(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        let waited = self.patience.reply;
        match tokio::time::timeout(waited, self.process.write(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Stop::Fault(self.closed_fault().await)),
            Err(_) => Err(Stop::Fault(Fault::InputStalled { waited })),
        }
    }

    async fn next_line(&mut self, waited: Duration) -> Result<String, Stop> {
        match tokio::time::timeout(waited, self.next()).await {
            Ok(Some(piece)) => self.complete_line(piece),
            Ok(None) => Err(Stop::Fault(self.closed_fault().await)),
            Err(_) => Err(Stop::Fault(Fault::NoReply { waited })),
        }
    }

    /// The next output of the process, except pings: these are answered as they arrive, since no case is about them.
    async fn next(&mut self) -> Option<Piece> {
        loop {
            let piece = self.process.lines.next().await?;
            let Piece::Line(bytes) = &piece else {
                return Some(piece);
            };
            let Some(answer) = std::str::from_utf8(bytes).ok().and_then(pong) else {
                return Some(piece);
            };
            self.record.received(&String::from_utf8_lossy(bytes));
            self.record.sent(answer.as_bytes());
            let line = format!("{answer}\n");
            // Its input may have been closed, or nobody may be reading it.
            let written = self.process.write(line.as_bytes());
            let _unread = tokio::time::timeout(PONG_WAIT, written).await;
        }
    }

    fn complete_line(&mut self, piece: Piece) -> Result<String, Stop> {
        let bytes = match piece {
            Piece::Line(bytes) => bytes,
            Piece::Unterminated(bytes) => {
                let line = String::from_utf8_lossy(&bytes).into_owned();
                self.record.received(&line);
                let why = "its last line has no newline".to_owned();
                return Err(Stop::Fault(Fault::Junk { line, why }));
            }
            Piece::Overlong { head, bytes } => {
                let head = String::from_utf8_lossy(&head).into_owned();
                return Err(Stop::Fault(Fault::Overlong { head, bytes }));
            }
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let why = "not UTF-8".to_owned();
            Stop::Fault(Fault::Junk { line, why })
        })?;
        self.record.received(&text);
        Ok(text)
    }

    /// Why no more output or input is possible.
    async fn closed_fault(&mut self) -> Fault {
        let exited = self.process.handle().exited();
        match tokio::time::timeout(EXIT_AFTER_OUTPUT, exited).await {
            Ok(exit) => Fault::Exited { exit },
            Err(_) => Fault::ClosedOutput,
        }
    }
}

impl ReplySource for StdioPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    fn within(&self, within_ms: Option<u64>) -> Duration {
        self.patience.of_process(within_ms, self.record.answered)
    }

    async fn next_reply_for(&mut self, _: &Pattern, waited: Duration) -> Result<Json, Stop> {
        parse(&self.next_line(waited).await?)
    }
}

impl ControlContext for StdioPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    fn patience(&self) -> Patience {
        self.patience
    }

    fn process(&self, _control: &Control) -> Result<Arc<ProcessHandle>, Stop> {
        Ok(Arc::clone(self.process.handle()))
    }

    fn files(&self, _control: &Control) -> Result<CaseFiles, Stop> {
        Ok(self.prepared.files())
    }

    async fn end_input(&mut self) {
        self.process.end_input();
    }

    async fn expect_silence(&mut self, line: u32, time: Duration) -> Result<(), Stop> {
        match tokio::time::timeout(time, self.next()).await {
            Err(_) => {
                self.record
                    .note(&format!("silence for {} ms", time.as_millis()));
                Ok(())
            }
            // The end of output counts as silence, too.
            Ok(None) => {
                self.record.note("end of output");
                Ok(())
            }
            Ok(Some(piece)) => {
                let text = self.complete_line(piece)?;
                let expected = format!("silence for {} ms", time.as_millis());
                Err(differs(line, "output", &expected, &text))
            }
        }
    }

    async fn on_exit(&mut self, line: u32) -> Result<(), Stop> {
        self.ended = true;
        self.expect_no_output(line, Duration::from_secs(1)).await
    }
}

fn parse(line: &str) -> Result<Json, Stop> {
    Json::parse(line).map_err(|error| {
        Stop::Fault(Fault::Junk {
            line: line.to_owned(),
            why: error.to_string(),
        })
    })
}
