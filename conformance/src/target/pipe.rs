//! Many concurrent requests to one process that answers each with its id, one JSON object per line.
//! Knows nothing of MCP: the callers define what a request means.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::Answer;
use super::fault::{Fault, STRAYS_KEPT_MAX};
use super::frame::{FrameHead, pong};
use super::lines::{Lines, Piece};
use super::process::{Process, ProcessHandle};

/// How long a process that closed its output may take to exit before it counts as still running.
const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(500);
/// How long a request may still wait for its answer after the process has sent an answer that matches no request: most likely this
/// was the one, under a wrong id.
const PATIENCE_AFTER_STRAY: Duration = Duration::from_millis(500);
/// Maximum number of answers to pings that are queued for writing; further pings from a target that does not read are not answered.
const PONGS_MAX: usize = 64;
/// How long closing the input waits for an answer to a ping that is being written.
const LAST_PONG: Duration = Duration::from_millis(500);
/// How long the output of a process that has exited is read; a process left behind may hold it open.
const LAST_OUTPUT: Duration = Duration::from_millis(250);

type SharedStdin = AsyncMutex<Option<ChildStdin>>;

/// A process with requests in flight.
#[derive(Debug)]
pub struct Pipe {
    input: Arc<SharedStdin>,
    handle: Arc<ProcessHandle>,
    pending: Arc<PendingRequests>,
    ids: AtomicU64,
    reading: AbortHandle,
    ponging: AbortHandle,
}

impl Pipe {
    /// Takes over `process` and starts to read its output.
    pub fn over(process: Process) -> Self {
        let (input, lines, handle) = process.split();
        let input = Arc::new(AsyncMutex::new(input));
        let pending = Arc::new(PendingRequests::default());
        let (pongs, due) = mpsc::channel(PONGS_MAX);
        let reading = tokio::spawn(read(
            lines,
            Arc::clone(&pending),
            Arc::clone(&handle),
            pongs,
        ));
        let ponging = tokio::spawn(answer_pings(due, Arc::clone(&input)));
        Self {
            input,
            handle,
            pending,
            ids: AtomicU64::new(1),
            reading: reading.abort_handle(),
            ponging: ponging.abort_handle(),
        }
    }

    /// Sends the request that `frame` builds for a fresh id, and waits at most `patience` for its answer.
    ///
    /// # Errors
    /// A [`Fault`] when no answer arrived: the process exited, closed its output, or took too long.
    pub async fn ask(
        &self,
        frame: impl FnOnce(u64) -> String,
        patience: Duration,
    ) -> Result<Answer, Box<(Fault, String)>> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let sent = frame(id);
        let began = Instant::now();
        let strays_before = self.pending.lock().strays_told;
        let mut misdirected = self.pending.misdirected.subscribe();
        let mut answer = match self.pending.wait_for(id) {
            Ok(answer) => answer,
            Err(fault) => return Err(Box::new((fault, sent))),
        };
        if let Err(fault) = self.notify(&sent, patience).await {
            // What the process wrote before it stopped reading explains more than the failed write.
            let said = tokio::time::timeout(EXIT_AFTER_OUTPUT, &mut answer).await;
            let fault = match said {
                Ok(Ok(Err(ended))) => ended,
                _ => self.pending.abandon(id).unwrap_or(fault),
            };
            let first = self.pending.strays_since(strays_before).into_iter().next();
            return Err(Box::new((fault.after(first), sent)));
        }
        let left = patience.saturating_sub(began.elapsed());
        let lost = async {
            // The pending requests outlive this wait, so a change is a misdirected reply, not the end of the channel.
            let _seen = misdirected.changed().await;
            tokio::time::sleep(PATIENCE_AFTER_STRAY).await;
        };
        let answered = tokio::select! {
            biased;
            answered = answer => Some(answered),
            () = lost => None,
            () = tokio::time::sleep(left) => None,
        };
        let fault = match answered {
            Some(Ok(Ok(received))) => {
                return Ok(Answer {
                    sent,
                    received,
                    strays: self.pending.strays_since(strays_before),
                    took: began.elapsed(),
                });
            }
            Some(Ok(Err(fault))) => fault,
            Some(Err(_)) => self.pending.abandon(id).unwrap_or(Fault::ClosedOutput),
            None => {
                let _broken = self.pending.abandon(id);
                let waited = patience.min(began.elapsed());
                Fault::NoReply { waited }
            }
        };
        let first = self.pending.strays_since(strays_before).into_iter().next();
        Err(Box::new((fault.after(first), sent)))
    }

    /// Sends a line that expects no answer.
    ///
    /// # Errors
    /// When the process does not accept it within `patience`.
    pub async fn notify(&self, line: &str, patience: Duration) -> Result<(), Fault> {
        match tokio::time::timeout(patience, write(&self.input, line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.closed_fault().await),
            Err(_) => Err(Fault::InputStalled { waited: patience }),
        }
    }

    /// The handle for signals, exit status and standard error.
    pub fn handle(&self) -> &Arc<ProcessHandle> {
        &self.handle
    }

    /// Why the process can answer nothing any more, if that is the case.
    pub fn fault(&self) -> Option<Fault> {
        self.pending.lock().broken.clone()
    }

    /// What the process has written unsolicited since it started.
    pub fn strays(&self) -> Vec<Fault> {
        self.pending.strays_since(0)
    }

    /// Closes the input and waits at most `patience` for the process to exit, then kills its group. Returns what it wrote unsolicited since
    /// the last answer.
    pub async fn close(&self, patience: Duration) -> Option<Fault> {
        self.end_input().await;
        let ended = tokio::time::timeout(patience, self.handle.exited()).await;
        if ended.is_err() {
            self.handle.kill().await;
        }
        // Its last output is read by another task.
        let mut broken = self.pending.broke.subscribe();
        let _still_open =
            tokio::time::timeout(LAST_OUTPUT, broken.wait_for(|broken| *broken)).await;
        let told = self.pending.lock().strays_told;
        self.pending.strays_since(told).into_iter().next()
    }

    /// Closes the process's input. An answer to a ping that the process does not read is abandoned.
    pub async fn end_input(&self) {
        if tokio::time::timeout(LAST_PONG, self.input.lock())
            .await
            .is_err()
        {
            self.ponging.abort();
        }
        *self.input.lock().await = None;
    }

    /// Why nothing can be written any more.
    async fn closed_fault(&self) -> Fault {
        match tokio::time::timeout(EXIT_AFTER_OUTPUT, self.handle.exited()).await {
            Ok(exit) => Fault::Exited { exit },
            Err(_) => Fault::Harness {
                message: "the target closed its standard input, and runs on".to_owned(),
            },
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _gone_already = self.handle.signal(nix::sys::signal::Signal::SIGKILL);
        // A process that outlives this one may hold both ends of its pipes.
        self.reading.abort();
        self.ponging.abort();
    }
}

/// The pending requests by id, and the unsolicited output.
#[derive(Debug, Default)]
struct PendingRequests {
    state: Mutex<State>,
    /// Signals each reply under an id that was never used. A late or second answer to an older request does not count: it
    /// says nothing about the pending requests.
    misdirected: watch::Sender<()>,
    /// Whether the output has ended.
    broke: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Result<String, Fault>>>,
    last_asked: u64,
    broken: Option<Fault>,
    strays: Vec<(u64, Fault)>,
    strays_seen: u64,
    /// How many of them callers were told of. Those that arrive while no request is pending are reported with the next answer.
    strays_told: u64,
}

impl PendingRequests {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, id: u64) -> Result<oneshot::Receiver<Result<String, Fault>>, Fault> {
        let mut state = self.lock();
        if let Some(fault) = &state.broken {
            return Err(fault.clone());
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(id, sender);
        state.last_asked = state.last_asked.max(id);
        Ok(receiver)
    }

    fn abandon(&self, id: u64) -> Option<Fault> {
        let mut state = self.lock();
        state.waiting.remove(&id);
        state.broken.clone()
    }

    fn strays_since(&self, before: u64) -> Vec<Fault> {
        let mut state = self.lock();
        state.strays_told = state.strays_seen;
        let strays = state.strays.iter();
        strays
            .filter(|(number, _)| *number > before)
            .map(|(_, fault)| fault.clone())
            .collect()
    }

    fn handle_piece(&self, piece: Piece, pongs: &mpsc::Sender<String>) {
        let line = match piece {
            Piece::Line(line) | Piece::Unterminated(line) => line,
            Piece::Overlong { head, bytes } => {
                let head = String::from_utf8_lossy(&head).into_owned();
                return self.record_stray(Fault::Overlong { head, bytes });
            }
        };
        let line = match String::from_utf8(line) {
            Ok(line) => line,
            Err(error) => {
                let line = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let why = "not UTF-8".to_owned();
                return self.record_stray(Fault::Junk { line, why });
            }
        };
        match FrameHead::parse(&line) {
            Ok(head) => {
                let answer = head.has_method.then(|| pong(&line)).flatten();
                // A ping without room in the queue is reported as unsolicited.
                let is_answered = answer.is_some_and(|answer| pongs.try_send(answer).is_ok());
                if !is_answered {
                    self.deliver(&head, line);
                }
            }
            Err(error) => self.record_stray(Fault::Junk {
                line,
                why: error.to_string(),
            }),
        }
    }

    fn deliver(&self, head: &FrameHead, line: String) {
        let mut state = self.lock();
        match head.answers.and_then(|id| state.waiting.remove(&id)) {
            Some(sender) => {
                // A caller that has just given up has already reported that.
                let _gave_up = sender.send(Ok(line));
            }
            None => {
                let asked = head
                    .answers
                    .is_some_and(|id| (1..=state.last_asked).contains(&id));
                drop(state);
                self.record_stray(Fault::Stray { line });
                // A message with a method is a request or a notification, not an answer.
                if !head.has_method && !asked {
                    self.misdirected.send_replace(());
                }
            }
        }
    }

    fn record_stray(&self, fault: Fault) {
        let mut state = self.lock();
        state.strays_seen += 1;
        let number = state.strays_seen;
        if state.strays.len() < STRAYS_KEPT_MAX {
            state.strays.push((number, fault.as_stray()));
        }
    }

    fn fail_all(&self, fault: &Fault) {
        let mut state = self.lock();
        state.broken = Some(fault.clone());
        for (_, sender) in state.waiting.drain() {
            let _gave_up = sender.send(Err(fault.clone()));
        }
        drop(state);
        self.broke.send_replace(true);
    }
}

async fn read(
    mut lines: Lines,
    pending: Arc<PendingRequests>,
    handle: Arc<ProcessHandle>,
    pongs: mpsc::Sender<String>,
) {
    while let Some(piece) = lines.next().await {
        pending.handle_piece(piece, &pongs);
    }
    let fault = match tokio::time::timeout(EXIT_AFTER_OUTPUT, handle.exited()).await {
        Ok(exit) => Fault::Exited { exit },
        Err(_) => Fault::ClosedOutput,
    };
    pending.fail_all(&fault);
}

/// Writes queued answers in a task of its own: a process that does not read must not keep its output from being read.
async fn answer_pings(mut due: mpsc::Receiver<String>, input: Arc<SharedStdin>) {
    while let Some(line) = due.recv().await {
        if write(&input, &line).await.is_err() {
            return;
        }
    }
}

async fn write(input: &SharedStdin, line: &str) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(line.len() + 1);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    let mut input = input.lock().await;
    let input = input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
    input.write_all(&bytes).await?;
    input.flush().await
}
