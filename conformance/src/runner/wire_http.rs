//! Plays a `wire` case over Streamable HTTP: each line that is sent becomes a POST within one session.
//! Only cases that need no standard streams can be played this way; the others are unobservable here.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::json::Json;
use crate::suite::{Control, Pattern, WireAction, WireCase, WireStep};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::frame::{self, FrameHead};
use crate::target::http::{Endpoint, HttpLink};
use crate::target::link;
use crate::verdict::Verdict;

use super::listening_server::{ALREADY_RUNNING, ListeningServer, asks_to_exit};
use super::transcript::{Record, ReplySource, Stop, differs};
use super::trial::Trial;

/// How long a sent line gets before the next one is sent, so that quick answers keep their order.
const HEAD_START: Duration = Duration::from_millis(25);
/// How long to wait for output that no step expected.
const STRAY_WAIT: Duration = Duration::from_millis(10);

/// Plays the case against the server at `endpoint`, and takes the server down; `warm` permits a warm-up program first.
pub async fn play(
    case: &WireCase,
    server: ListeningServer,
    endpoint: &Endpoint,
    patience: Patience,
    warm: bool,
) -> Trial {
    let began = Instant::now();
    let ends =
        || server.process.is_none() && case.steps.iter().any(|step| ends_server(&step.action));
    let spared = || ends().then(|| ALREADY_RUNNING.to_owned());
    if let Some(reason) = needs_pipe(case).or_else(spared) {
        server.kill().await;
        return Trial::of(Verdict::Unobservable { reason });
    }
    let mut record = Record::default();
    let stopped = match HttpLink::new(endpoint) {
        Ok(link) => {
            let (sender, replies) = mpsc::unbounded_channel();
            let link = std::sync::Arc::new(link);
            let mut player = PostPlayer {
                server: &server,
                link: std::sync::Arc::clone(&link),
                patience,
                warm,
                record: &mut record,
                sender,
                replies,
            };
            let stopped = player.play_steps(case).await.err();
            if server.process.is_none() {
                // A server that keeps running has a limited number of sessions.
                link.close(patience.reply).await;
            }
            stopped
        }
        Err(fault) => Some(Stop::Fault(fault)),
    };
    server.kill().await;
    record.into_trial(stopped, began, server.stderr())
}

/// Whether a step would end a server that others may be using.
fn ends_server(action: &WireAction) -> bool {
    match action {
        WireAction::Send(text) => asks_to_exit(&text.source()),
        _ => false,
    }
}

/// Why a case cannot be played without standard streams.
fn needs_pipe(case: &WireCase) -> Option<String> {
    if !case.handshake {
        return Some("a bare transcript needs standard streams".to_owned());
    }
    case.steps.iter().find_map(|step| match &step.action {
        WireAction::Send(text) if text.source().contains("\"initialize\"") => {
            Some("a second handshake is another session over HTTP".to_owned())
        }
        WireAction::SendRaw(_) | WireAction::ExpectRaw { .. } => {
            Some("byte-exact lines need standard streams".to_owned())
        }
        WireAction::Control(Control::Eof | Control::Exit { .. } | Control::Signal { .. }) => {
            Some("the life of the process is judged over its standard streams".to_owned())
        }
        WireAction::Send(_)
        | WireAction::Expect(_)
        | WireAction::ExpectUnordered { .. }
        | WireAction::Control(_) => None,
    })
}

struct PostPlayer<'a> {
    server: &'a ListeningServer,
    link: std::sync::Arc<HttpLink>,
    patience: Patience,
    warm: bool,
    record: &'a mut Record,
    sender: mpsc::UnboundedSender<Result<String, Fault>>,
    replies: mpsc::UnboundedReceiver<Result<String, Fault>>,
}

impl PostPlayer<'_> {
    async fn play_steps(&mut self, case: &WireCase) -> Result<(), Stop> {
        let params = link::initialize_params();
        let answer = self
            .link
            .ask(
                |id| link::frame(id, "initialize", Some(&params)),
                self.patience.start,
            )
            .await;
        let answer = answer.map_err(|failed| Stop::Fault(failed.0))?;
        if link::parse_result(&answer.received).is_none() {
            return Err(Stop::Fault(Fault::Malformed {
                expected: "a result for `initialize`".to_owned(),
                line: answer.received,
            }));
        }
        self.record.sent(answer.sent.as_bytes());
        self.record.received(&answer.received);
        self.send(link::INITIALIZED.to_owned()).await;
        if self.warm {
            let (method, params) = link::Evaluation::warm_up().request();
            let frame = |id| link::frame(id, method, Some(&params));
            let _whatever = self.link.ask(frame, self.patience.start).await;
        }
        for step in &case.steps {
            self.step(step).await?;
        }
        let last = case.steps.last().map_or(0, |step| step.line);
        self.expect_silence(last, STRAY_WAIT).await
    }

    async fn step(&mut self, step: &WireStep) -> Result<(), Stop> {
        let line = step.line;
        match &step.action {
            WireAction::Send(text) => {
                let bytes = self.record.bytes(text)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.send(text).await;
                Ok(())
            }
            WireAction::Expect(expect) => self.expect(line, expect).await,
            WireAction::ExpectUnordered {
                patterns,
                within_ms,
            } => self.expect_unordered(line, patterns, *within_ms).await,
            WireAction::Control(Control::Silence { ms }) => {
                self.expect_silence(line, Duration::from_millis(*ms)).await
            }
            WireAction::Control(control) => {
                self.server
                    .control(self.record, line, control, self.patience, None)
                    .await
            }
            WireAction::SendRaw(_) | WireAction::ExpectRaw { .. } => {
                Err(Stop::Verdict(Verdict::Unobservable {
                    reason: "byte-exact lines need standard streams".to_owned(),
                }))
            }
        }
    }

    async fn send(&mut self, text: String) {
        self.record.sent(text.as_bytes());
        let (link, sender, patience) = (
            std::sync::Arc::clone(&self.link),
            self.sender.clone(),
            self.patience.reply,
        );
        // Accepting a notification takes no work that the next line could be meant to overtake, so its response is awaited.
        let only_tells = frame::is_notification(&text);
        let task = tokio::spawn(async move {
            let frames = match link.post(&text, patience).await {
                Ok(reply) => {
                    let head = |frame: &String| FrameHead::parse(frame).ok();
                    let fault = |frame: &String| reply.fault(&head(frame)?);
                    reply
                        .frames()
                        .into_iter()
                        .filter(|frame| frame::pong(frame).is_none())
                        .map(|frame| fault(&frame).map_or(Ok(frame), Err))
                        .collect()
                }
                Err(fault) => vec![Err(fault)],
            };
            for frame in frames {
                // The case may have ended already.
                let _over = sender.send(frame);
            }
        });
        let head_start = if only_tells { patience } else { HEAD_START };
        self.record.overtaken |= tokio::time::timeout(head_start, task).await.is_err();
    }

    async fn next_reply(&mut self, waited: Duration) -> Result<Json, Stop> {
        let frame = match tokio::time::timeout(waited, self.replies.recv()).await {
            Ok(Some(frame)) => frame?,
            Ok(None) | Err(_) => return Err(Stop::Fault(Fault::NoReply { waited })),
        };
        self.record.received(&frame);
        Json::parse(&frame).map_err(|error| {
            let why = error.to_string();
            Stop::Fault(Fault::Junk { line: frame, why })
        })
    }

    async fn expect_silence(&mut self, line: u32, time: Duration) -> Result<(), Stop> {
        match tokio::time::timeout(time, self.replies.recv()).await {
            Err(_) | Ok(None) => Ok(()),
            Ok(Some(frame)) => {
                let frame = frame?;
                self.record.received(&frame);
                Err(differs(line, "output", "no more output", &frame))
            }
        }
    }
}

impl ReplySource for PostPlayer<'_> {
    fn record(&mut self) -> &mut Record {
        self.record
    }

    fn within(&self, within_ms: Option<u64>) -> Duration {
        self.patience.within(within_ms, self.patience.reply)
    }

    async fn next_reply_for(&mut self, _: &Pattern, waited: Duration) -> Result<Json, Stop> {
        self.next_reply(waited).await
    }
}
