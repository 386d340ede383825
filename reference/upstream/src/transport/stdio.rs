//! MCP over a child process: one child per upstream, any number of calls in flight over it.
//!
//! A reader task matches answers to waiting calls, a writer task feeds the child, a third drains its stderr into the log. When the child
//! ends, breaks the protocol beyond repair, or hangs, every waiting call fails and the whole process group is killed.

mod config;

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use ptc_rpc::{
    Document, Frame, Id, JsonKind, JsonText, RpcError, write_error, write_notification,
    write_request, write_result,
};
use ptc_secrets::{Redactor, SCRUB_TIME_MAX};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::child::{Child, ChildExit, DirectLauncher, Launcher, ProcessGroup};
use super::lines::{LineEvent, LineSplitter, OverlongLine, id_at_start};
use super::outbox::{Outbox, Overflow, Queued};
use super::reconnect::{Connection, Connector, Reconnecting};
use super::{
    Answer, CallLimits, Outgoing, Transport, TransportConfig, TransportContext, TransportRow,
    listing,
};
use crate::fault::{Reason, WorldFault};
use crate::limits::{ANSWER_BYTES_QUEUED_MAX, CHILD_GRACE, REQUEST_ID_BYTES_MAX};
use crate::tool::RawTool;
use crate::trace_context::TraceContext;
use crate::transport::revision::{initialize_params, with_meta, with_trace};

pub use config::StdioConfig;

/// How long a line is held because a secret may continue in the next one. A line that looks like wrapped base64 is held until more
/// arrives.
const STDERR_QUIET: Duration = Duration::from_millis(250);
/// Maximum bytes of one stderr line that are logged.
const STDERR_LINE_BYTES: usize = 4 * 1024;
/// Maximum bytes of stderr that are scrubbed and logged per child; a chatty child must not fill a disk.
const STDERR_BYTES_MAX: usize = 1024 * 1024;
/// Bytes charged for a line beyond its own, for what the log adds to it.
const STDERR_LINE_COST: usize = 128;
/// How long a child may be silent after a call was given up and the child was pinged. A child that does one thing at a time may be busy
/// with earlier requests, so this is longer than most calls take.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Number of checks for output during that time.
const SILENCE_CHECKS: u32 = 15;
/// How long output is still read after the child has exited: a grandchild may hold the pipe open forever.
const DRAIN: Duration = Duration::from_millis(50);
/// How long a child that closed a pipe may take to exit by itself: its exit status is more informative.
const EXIT_WAIT: Duration = Duration::from_secs(1);

pub(super) const ROW: TransportRow = TransportRow {
    name: "mcp_stdio",
    keys: &[config::KEYS],
    read: |entry, warnings| Ok(Box::new(entry.stdio(warnings)?)),
};

impl TransportConfig for StdioConfig {
    fn transport(&self, setting: TransportContext) -> Arc<dyn Transport> {
        let launcher = setting.platform.launcher;
        let child = ChildServer {
            config: self.clone(),
            redactor: setting.redactor.clone(),
            launcher: launcher.unwrap_or_else(|| Arc::new(DirectLauncher)),
        };
        Arc::new(Reconnecting::new(setting.name, setting.redactor, child))
    }
}

/// The settings for starting the child repeatedly.
struct ChildServer {
    config: StdioConfig,
    redactor: Redactor,
    launcher: Arc<dyn Launcher>,
}

impl Connector for ChildServer {
    type Connection = StdioConnection;

    async fn open(&self, name: &str) -> Result<StdioConnection, WorldFault> {
        StdioConnection::open(name, &self.config, &self.redactor, &*self.launcher).await
    }
}

/// A started child after its handshake.
pub(crate) struct StdioConnection {
    shared: Arc<ChildLink>,
    handshake: Duration,
    handshake_bytes: usize,
    modern: AtomicBool,
    ending: watch::Receiver<bool>,
}

struct ChildLink {
    server: String,
    redactor: Redactor,
    next_id: AtomicU64,
    waiting: Mutex<PendingRequests>,
    outbox: Outbox,
    list_changed: AtomicBool,
    /// We end the child ourselves, so its end is not logged as a failure.
    closing: AtomicBool,
    /// Bytes of the child's output so far.
    output_bytes: AtomicU64,
    /// Notified when a call was given up.
    request_abandoned: Notify,
    group: Box<dyn ProcessGroup>,
}

/// The reader of a child's output. The connection has ended when the reader is gone, for whatever reason.
struct Reader {
    shared: Arc<ChildLink>,
    ending: watch::Sender<bool>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.shared.lock().ended.is_none() {
            self.shared
                .kill("mcp_stdio process ended: its output is read no more".into());
        }
        let _ = self.ending.send(true);
    }
}

#[derive(Default)]
struct PendingRequests {
    /// By id, so that the first is the oldest.
    calls: BTreeMap<u64, PendingRequest>,
    /// Why the connection ended, and when.
    ended: Option<(WorldFault, Instant)>,
}

struct PendingRequest {
    reply: oneshot::Sender<Result<JsonText, WorldFault>>,
    bytes_max: usize,
}

impl StdioConnection {
    /// Starts the child and performs the handshake.
    async fn open(
        name: &str,
        config: &StdioConfig,
        redactor: &Redactor,
        launcher: &dyn Launcher,
    ) -> Result<Self, WorldFault> {
        let Child {
            stdin,
            stdout,
            stderr,
            mut life,
            group,
        } = launcher.launch(config)?;
        let (outbox, frames) = Outbox::new();
        let (ending_tx, ending) = watch::channel(false);
        let shared = Arc::new(ChildLink {
            server: name.to_owned(),
            redactor: redactor.clone(),
            next_id: AtomicU64::new(1),
            waiting: Mutex::new(PendingRequests::default()),
            outbox,
            list_changed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            output_bytes: AtomicU64::new(0),
            request_abandoned: Notify::new(),
            group,
        });
        let called = {
            let shared = Arc::downgrade(&shared);
            move || {
                let shared = shared.upgrade();
                shared.is_some_and(|shared| !shared.lock().calls.is_empty())
            }
        };
        tokio::spawn(log_stderr(
            name.to_owned(),
            stderr,
            redactor.clone(),
            called,
        ));
        tokio::spawn(write_frames(
            Arc::clone(&shared),
            stdin,
            frames,
            ending.clone(),
        ));
        tokio::spawn(kill_if_hung(
            Arc::clone(&shared),
            ending.clone(),
            SILENCE_MAX,
        ));
        let reader = Reader {
            shared: Arc::clone(&shared),
            ending: ending_tx,
        };
        tokio::spawn(async move {
            let shared = &reader.shared;
            let fault = read_until_end(shared, stdout, &mut *life).await;
            // Nothing that the child started may outlive it.
            shared.group.signal(Signal::SIGKILL);
            let _ = life.wait().await;
            shared.end(fault);
            shared.log_end();
        });
        let connection = Self {
            shared,
            handshake: config.handshake_timeout,
            handshake_bytes: config.handshake_bytes_max,
            modern: AtomicBool::new(false),
            ending,
        };
        connection.perform_handshake().await?;
        Ok(connection)
    }
}

impl Connection for StdioConnection {
    async fn list_tools(&self) -> Result<Vec<RawTool>, WorldFault> {
        // The deadline covers all pages together.
        let limits = self.handshake_limits();
        listing::list_all(|params| async move {
            let params = self.adapt_params(&params, None);
            self.request("tools/list", &params, limits)
                .await
                .map_err(as_handshake_fault)
        })
        .await
    }

    async fn call(&self, call: Outgoing<'_>, limits: CallLimits) -> Result<Answer, WorldFault> {
        self.request(
            "tools/call",
            &self.adapt_params(&call.params(), call.trace),
            limits,
        )
        .await
        .map(Answer::Envelope)
    }

    fn ended(&self) -> Option<Instant> {
        self.shared.lock().ended.as_ref().map(|(_, when)| *when)
    }

    fn take_list_changed(&self) -> bool {
        self.shared.list_changed.swap(false, Ordering::Relaxed)
    }

    /// Closes the child's input, then terminates, then kills the child and everything that it started.
    async fn close(&self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.outbox.close();
        let mut ending = self.ending.clone();
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if tokio::time::timeout(CHILD_GRACE, ending.wait_for(|over| *over))
                .await
                .is_ok()
            {
                return;
            }
            self.shared.group.signal(signal);
        }
        let _ = tokio::time::timeout(CHILD_GRACE, ending.wait_for(|over| *over)).await;
    }
}

impl StdioConnection {
    async fn perform_handshake(&self) -> Result<(), WorldFault> {
        let hello = initialize_params();
        match self
            .request("initialize", &hello, self.handshake_limits())
            .await
        {
            Ok(_) => {
                let mut frame = Vec::new();
                write_notification(&mut frame, "notifications/initialized", Some("{}"));
                self.shared.outbox.request(frame).await;
                Ok(())
            }
            // A server of the stateless revisions has no initialize; `server/discover` settles the matter.
            Err(fault) if fault.reason == Reason::UpstreamError => {
                self.modern.store(true, Ordering::Relaxed);
                let discovered = self
                    .request(
                        "server/discover",
                        &self.adapt_params("{}", None),
                        self.handshake_limits(),
                    )
                    .await;
                discovered
                    .map(|_| ())
                    .map_err(|_| as_handshake_fault(fault))
            }
            Err(fault) => Err(as_handshake_fault(fault)),
        }
    }

    fn handshake_limits(&self) -> CallLimits {
        CallLimits {
            deadline: Instant::now() + self.handshake,
            bytes_max: self.handshake_bytes,
        }
    }

    /// Adapts params to the server's revision: stateless ones include the client's identity in every request.
    fn adapt_params(&self, params: &str, trace: Option<&TraceContext>) -> String {
        match self.modern.load(Ordering::Relaxed) {
            true => with_meta(params, trace),
            false => with_trace(params, trace),
        }
    }

    async fn request(
        &self,
        method: &str,
        params: &str,
        limits: CallLimits,
    ) -> Result<JsonText, WorldFault> {
        let (reply, answer) = oneshot::channel();
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiting = self.shared.lock();
            if let Some((fault, _)) = &waiting.ended {
                return Err(fault.clone());
            }
            waiting.calls.insert(
                id,
                PendingRequest {
                    reply,
                    bytes_max: limits.bytes_max,
                },
            );
        }
        // Dropped when the wait is over: answered, timed out, or cancelled with the program.
        let mut wait = PendingGuard {
            shared: &self.shared,
            id,
            queued: false,
        };
        let mut frame = Vec::with_capacity(params.len() + 80);
        write_request(&mut frame, &Id::number(id), method, Some(params));
        let exchange = async {
            self.shared.outbox.request(frame).await;
            wait.queued = true;
            answer.await
        };
        match tokio::time::timeout(limits.remaining(), exchange).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(WorldFault::unavailable("mcp_stdio process has gone")),
            Err(_) => Err(WorldFault::new(
                Reason::Timeout,
                "mcp_stdio request timed out",
            )),
        }
    }
}

/// Removes its waiter when the wait is over without an answer, and cancels the request.
struct PendingGuard<'a> {
    shared: &'a ChildLink,
    id: u64,
    /// The request was queued: one that never found room needs no cancellation.
    queued: bool,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        if self.shared.lock().calls.remove(&self.id).is_none() {
            return;
        }
        self.shared.request_abandoned.notify_one();
        if !self.queued {
            return;
        }
        let mut frame = Vec::new();
        let params = format!(
            "{{\"reason\":\"the caller stopped waiting\",\"requestId\":{}}}",
            self.id
        );
        write_notification(&mut frame, "notifications/cancelled", Some(&params));
        self.shared.send_frame(frame);
    }
}

impl Drop for StdioConnection {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.shared.closing.store(true, Ordering::Relaxed);
            self.shared.group.signal(Signal::SIGKILL);
        }
    }
}

impl ChildLink {
    fn lock(&self) -> MutexGuard<'_, PendingRequests> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame that the child's behaviour caused; a child that lets too many pile up is not reading and is ended.
    fn send_frame(&self, frame: Vec<u8>) {
        if let Err(Overflow) = self.outbox.answer(frame) {
            self.kill(format!(
                "mcp_stdio process ended: it left {ANSWER_BYTES_QUEUED_MAX} bytes of answers unread"
            ));
        }
    }

    /// Pings the child. Any output counts as an answer, including an error: later revisions have no `ping`.
    fn ping(&self) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut frame = Vec::new();
        write_request(&mut frame, &Id::number(id), "ping", None);
        self.send_frame(frame);
        id
    }

    /// Whether a call made before `id` is still waiting.
    fn has_request_before(&self, id: u64) -> bool {
        let waiting = self.lock();
        let oldest = waiting.calls.keys().next();
        oldest.is_some_and(|oldest| *oldest < id)
    }

    /// Ends a child that asks for more than a peer may.
    fn kill(&self, why: String) {
        self.end(WorldFault::unavailable(why));
        self.group.signal(Signal::SIGKILL);
    }

    fn kill_for_long_id(&self) {
        self.kill(format!(
            "mcp_stdio process ended: the id of its request exceeded {REQUEST_ID_BYTES_MAX} bytes"
        ));
    }

    fn log_end(&self) {
        if self.closing.load(Ordering::Relaxed) {
            return;
        }
        let waiting = self.lock();
        if let Some((fault, _)) = &waiting.ended {
            let server = self.server.as_str();
            tracing::warn!(event = "upstream_ended", server, message = %fault.log_message(&self.redactor));
        }
    }

    fn bytes_max(&self) -> usize {
        self.lock()
            .calls
            .values()
            .map(|waiter| waiter.bytes_max)
            .max()
            .unwrap_or(IDLE_LINE_BYTES_MAX)
    }

    fn end(&self, fault: WorldFault) {
        let calls = {
            let mut waiting = self.lock();
            waiting.ended.get_or_insert((fault.clone(), Instant::now()));
            std::mem::take(&mut waiting.calls)
        };
        for waiter in calls.into_values() {
            let _ = waiter.reply.send(Err(fault.clone()));
        }
        self.outbox.close();
    }

    fn answer(&self, id: u64, outcome: Result<JsonText, WorldFault>) {
        if let Some(waiter) = self.lock().calls.remove(&id) {
            let _ = waiter.reply.send(outcome);
        }
    }

    /// Fails the call that has waited longest: it is taken to be the one that an answer without a usable id is for.
    fn fail_oldest(&self, fault: WorldFault) {
        if let Some((_, waiter)) = self.lock().calls.pop_first() {
            let _ = waiter.reply.send(Err(fault));
        }
    }

    fn handle_line(&self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let Ok(document) = Document::read(line) else {
            let fault = WorldFault::error("invalid JSON-RPC response: ")
                .quoting(String::from_utf8_lossy(line));
            return match id_at_start(line) {
                Some(id) => self.answer(id, Err(fault)),
                None => self.fail_oldest(fault),
            };
        };
        let json = document.json();
        match Frame::of(json) {
            Ok(frame) => self.handle_frame(&frame, line.len()),
            // An object is refused only for its id.
            Err(_) if json.kind() == JsonKind::Object => self.kill_for_long_id(),
            // A batch, as in the 2025-03-26 revision; any other value is ignored.
            Err(_) => {
                for element in json.elements() {
                    match Frame::of(element) {
                        Ok(frame) => self.handle_frame(&frame, element.text().len()),
                        Err(_) if element.kind() == JsonKind::Object => {
                            return self.kill_for_long_id();
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }

    fn handle_frame(&self, frame: &Frame<'_>, bytes: usize) {
        if let Some(method) = frame.method_name() {
            if frame
                .id
                .is_some_and(|id| id.text().len() > REQUEST_ID_BYTES_MAX)
            {
                return self.kill_for_long_id();
            }
            match frame.request_id() {
                Some(id) => self.answer_request(&id, &method),
                // Logged once.
                None if method == LIST_CHANGED
                    && !self.list_changed.swap(true, Ordering::Relaxed) =>
                {
                    log_list_changed(&self.server);
                }
                None => {}
            }
            return;
        }
        // Our ids are integers: a string with the same digits is not one of ours.
        let Some(id) = frame
            .id
            .filter(|id| id.kind() == JsonKind::Integer)
            .and_then(|id| id.text().parse().ok())
        else {
            return;
        };
        let cap = self.lock().calls.get(&id).map(|waiter| waiter.bytes_max);
        let Some(cap) = cap else { return };
        if bytes > cap {
            return self.answer(
                id,
                Err(WorldFault::too_large(
                    "mcp_stdio response",
                    cap,
                    bytes as u64,
                )),
            );
        }
        if let Some(error) = frame.error.filter(|error| error.kind() != JsonKind::Null) {
            self.answer(id, Err(WorldFault::from_rpc_error(error)));
        } else if let Some(result) = frame.result {
            self.answer(id, Ok(result.to_text()));
        }
    }

    /// Answers a request from the upstream: `ping` succeeds; this client has no capability for anything else.
    fn answer_request(&self, id: &Id, method: &str) {
        let mut frame = Vec::new();
        if method == "ping" {
            write_result(&mut frame, id, |out| out.extend_from_slice(b"{}"));
        } else {
            write_error(&mut frame, Some(id), &RpcError::METHOD_NOT_FOUND);
        }
        self.send_frame(frame);
    }

    /// Handles an over-long line, at the cut and at its end. Returns whether a call was answered.
    fn handle_overlong_line(&self, cut: &OverlongLine, cap: usize) -> bool {
        let fault = WorldFault::too_large("mcp_stdio response", cap, cap as u64 + 1);
        let alone = self.lock().calls.len() == 1;
        match cut.id() {
            Some(id) => self.answer(id, Err(fault)),
            // If a single call is waiting at the cut, the line is for that one. Of several, the end of the line may still identify it; if
            // not, the oldest is taken.
            None if (alone && !cut.ended) || (cut.ended && !cut.settled) => self.fail_oldest(fault),
            None => return false,
        }
        true
    }
}

/// Bytes of output that are read at full speed while no call waits, and the pause after each further piece: a flooding upstream would
/// keep a processor busy forever.
const UNSOLICITED_BYTES_MAX: usize = 1024 * 1024;
const UNSOLICITED_PAUSE: Duration = Duration::from_millis(20);

/// Maximum length of a line while no call waits: notifications.
const IDLE_LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A line longer than this is taken to be endless.
const ENDLESS_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// The notification that an upstream's tools changed.
pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Informs the operator; the catalog's mode decides what programs see.
pub(crate) fn log_list_changed(server: &str) {
    tracing::info!(event = "upstream_tools_changed", server);
}

/// Writes frames to the child. A child that takes no more input can answer nothing more: it is ended, and its calls fail.
async fn write_frames(
    shared: Arc<ChildLink>,
    mut stdin: impl AsyncWrite + Unpin,
    mut frames: mpsc::UnboundedReceiver<Queued>,
    mut ending: watch::Receiver<bool>,
) {
    while let Some(queued) = frames.recv().await {
        let written = async {
            stdin.write_all(&queued.frame).await?;
            stdin.flush().await
        };
        let written = tokio::select! {
            written = written => written,
            // A process that keeps its input open may never read it.
            _ = ending.wait_for(|over| *over) => return,
        };
        if written.is_err() {
            tokio::time::sleep(EXIT_WAIT).await;
            shared.end(WorldFault::unavailable(
                "mcp_stdio process closed its input",
            ));
            shared.group.signal(Signal::SIGKILL);
            return;
        }
    }
}

/// Ends a child that hangs: after a call was given up, no output came for `patience` despite a ping. While an earlier call waits within
/// its own limit, the child may be busy with that one.
async fn kill_if_hung(
    shared: Arc<ChildLink>,
    mut ending: watch::Receiver<bool>,
    patience: Duration,
) {
    loop {
        tokio::select! {
            () = shared.request_abandoned.notified() => {}
            _ = ending.wait_for(|over| *over) => return,
        }
        let heard = shared.output_bytes.load(Ordering::Relaxed);
        let ping = shared.ping();
        let mut looks = 0;
        while shared.output_bytes.load(Ordering::Relaxed) == heard {
            if looks >= SILENCE_CHECKS && !shared.has_request_before(ping) {
                let seconds = patience.as_secs();
                return shared.kill(format!(
                    "mcp_stdio process ended: it said nothing for {seconds} s, not even when pinged"
                ));
            }
            looks += 1;
            tokio::select! {
                () = tokio::time::sleep(patience / SILENCE_CHECKS) => {}
                _ = ending.wait_for(|over| *over) => return,
            }
        }
    }
}

/// Reads the child's output until it or the child ends, and returns the reason.
async fn read_until_end(
    shared: &ChildLink,
    mut stdout: impl AsyncRead + Unpin,
    life: &mut dyn ChildExit,
) -> WorldFault {
    let mut lines = LineSplitter::default();
    let mut chunk = vec![0u8; 64 * 1024];
    let mut unasked = 0;
    let mut exit: Option<std::io::Result<ExitStatus>> = None;
    loop {
        let read = if exit.is_some() {
            match tokio::time::timeout(DRAIN, stdout.read(&mut chunk)).await {
                Ok(read) => read,
                Err(_) => break,
            }
        } else {
            tokio::select! {
                // Output written before the exit still counts.
                biased;
                read = stdout.read(&mut chunk) => read,
                status = life.wait() => {
                    exit = Some(status);
                    continue;
                }
            }
        };
        let Ok(count @ 1..) = read else { break };
        shared
            .output_bytes
            .fetch_add(count as u64, Ordering::Relaxed);
        let cap = shared.bytes_max();
        lines.feed(&chunk[..count], cap, |event| match event {
            LineEvent::Line(line) => {
                shared.handle_line(line);
                true
            }
            LineEvent::OverlongLine(cut) => shared.handle_overlong_line(cut, cap),
        });
        if lines.overlong_bytes() > ENDLESS_LINE_BYTES {
            // Calls waiting behind such a line would never be answered.
            shared.kill(format!(
                "mcp_stdio process ended: a line exceeded {ENDLESS_LINE_BYTES} bytes and went on"
            ));
        }
        unasked = match shared.lock().calls.is_empty() {
            true => count.saturating_add(unasked),
            false => 0,
        };
        if unasked > UNSOLICITED_BYTES_MAX {
            tokio::time::sleep(UNSOLICITED_PAUSE).await;
        }
    }
    if exit.is_none() {
        // The output ended first: usually because the child is exiting.
        exit = tokio::time::timeout(EXIT_WAIT, life.wait()).await.ok();
    }
    WorldFault::unavailable(match exit {
        Some(Ok(status)) => describe_exit(status),
        _ => "mcp_stdio process closed its output".into(),
    })
}

fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("mcp_stdio process exited with status {code}"),
        (None, Some(signal)) => format!("mcp_stdio process was ended by signal {signal}"),
        (None, None) => "mcp_stdio process ended".into(),
    }
}

/// Logs the child's stderr, scrubbed, line by line; the length of a line, the total and the scrubbing time are bounded. Always drained,
/// or the child would block; after the limits slowly, unless a call is waiting (`called`).
async fn log_stderr(
    server: String,
    stderr: impl AsyncRead + Unpin,
    redactor: Redactor,
    called: impl Fn() -> bool,
) {
    let mut reader = BufReader::new(stderr);
    let mut scrubber = redactor.stream(SCRUB_TIME_MAX);
    let mut clean = Vec::new();
    let mut left = STDERR_BYTES_MAX;
    let (mut quiet, mut ended) = (false, false);
    while left > 0 && !ended {
        let read = match scrubber.is_holding() && !quiet {
            true => tokio::time::timeout(STDERR_QUIET, reader.fill_buf()).await,
            false => Ok(reader.fill_buf().await),
        };
        quiet = read.is_err();
        let count = match read {
            Err(_) => {
                scrubber.release_lines(&mut clean);
                0
            }
            Ok(Ok(bytes)) if !bytes.is_empty() => {
                scrubber.push(bytes, &mut clean);
                bytes.len()
            }
            Ok(_) => {
                scrubber.flush(&mut clean);
                ended = true;
                0
            }
        };
        reader.consume(count);
        let lines = log_lines(&server, &mut clean, ended);
        left = match scrubber.is_out_of_time() {
            true => 0,
            false => left.saturating_sub(count + lines * STDERR_LINE_COST),
        };
    }
    if left == 0 {
        tracing::warn!(event = "upstream_stderr_dropped", server);
        // Held text is dropped: it may be the beginning of a credential.
        let mut rest = vec![0u8; 64 * 1024];
        while let Ok(1..) = reader.read(&mut rest).await {
            if !called() {
                tokio::time::sleep(UNSOLICITED_PAUSE).await;
            }
        }
    }
}

/// Logs and removes the whole lines of `clean`, and the rest when it is long or the stream `ended`. Returns the number of lines.
fn log_lines(server: &str, clean: &mut Vec<u8>, ended: bool) -> usize {
    let whole = memchr::memrchr(b'\n', clean).map_or(0, |end| end + 1);
    let whole = match ended || clean.len() - whole > STDERR_LINE_BYTES {
        true => clean.len(),
        false => whole,
    };
    let lines = clean[..whole].split_inclusive(|byte| *byte == b'\n');
    let count = lines.clone().count();
    for line in lines {
        let text = String::from_utf8_lossy(&line[..line.len().min(STDERR_LINE_BYTES)]);
        tracing::info!(event = "upstream_stderr", server, line = %text.trim_end());
    }
    clean.drain(..whole);
    count
}

/// A failed handshake makes the upstream unavailable, whatever the reason.
pub(crate) fn as_handshake_fault(fault: WorldFault) -> WorldFault {
    match fault.reason {
        Reason::AuthFailed | Reason::RateLimited => fault,
        _ => WorldFault {
            reason: Reason::UpstreamUnavailable,
            ..fault
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests;
