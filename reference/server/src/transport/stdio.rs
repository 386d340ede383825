//! The stdio transport: newline-framed JSON-RPC in, replies out, and the ways in which the service ends.
//!
//! Cheap requests are answered on the reading thread, which also runs a program when no other call is in flight; programs answer from the
//! thread that runs them. Calls that ask a store are queued for a separate thread. Only frames are written to stdout. Knows nothing of
//! methods.

use crate::call::Responder;
use crate::evaluation::pool::Job;
use crate::lock::lock;
use crate::mcp::connection::{Connection, RequestContext, Transport};
use crate::mcp::dispatch::{Handled, handle};
use crate::mcp::incoming::Incoming;
use crate::render::reply::Reply;
use crate::server::Server;
use crate::transport::intake::{self, CallSource, NextCall};
use crate::transport::serial_queue::SerialQueue;
use ptc_rpc::{Document, Frame, FrameFault, Framer, JsonText, Line, RpcError};
use ptc_secrets::Scrubbed;
use std::io::{self, Read, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time that calls in flight get to finish after the end of input.
const END_OF_INPUT_GRACE: Duration = Duration::from_millis(100);
/// Time that calls in flight get to finish after `exit`.
const EXIT_GRACE: Duration = Duration::from_millis(2000);
/// Time that calls waiting for a store get to finish after the end of input.
const STORE_GRACE: Duration = Duration::from_secs(10);
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Initial chunk size, until a client fills it: most clients send little at first, and untouched memory costs a start nothing.
const CHUNK_BYTES_FIRST: usize = 4 << 10;

/// Why the service ends without the client's doing.
#[derive(Debug, thiserror::Error)]
pub enum StdioFault {
    #[error("cannot read from stdin: {0}")]
    Input(io::Error),
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
    #[error("cannot start the thread that reads: {0}")]
    Reader(io::Error),
}

/// Serves `input` and `output` until the end of input or `exit`. Whatever still runs then is cancelled.
///
/// # Errors
/// When no thread can be started, and when a stream fails for another reason than that the client closed it.
pub fn serve(
    server: &Arc<Server>,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
) -> Result<(), StdioFault> {
    let connection = Connection::new("stdio".into(), Transport::Stdio, usize::MAX);
    let queue = Arc::<SerialQueue>::default();
    let (ended, end) = sync_channel(1);
    let output = Output::new(output, ended.clone());
    let frames = Frames {
        server: server.clone(),
        queue: queue.clone(),
        connection: connection.clone(),
        output,
        input,
        framer: Framer::new(server.settings.frame_bytes),
        chunk: vec![0; CHUNK_BYTES_FIRST],
    };
    intake::start(frames, server.pool.clone(), ended).map_err(StdioFault::Reader)?;
    let gone = |_| StdioFault::Reader(io::Error::other("the threads that read are gone"));
    let mut ended = end.recv().map_err(gone)?;
    if !matches!(ended, ServiceEnd::Output(_)) {
        queue.drain(STORE_GRACE);
    }
    close(&connection, &ended);
    // The last replies may have failed as well.
    if let Ok(fault) = end.try_recv() {
        ended = fault;
    }
    match ended {
        ServiceEnd::Output(error) => Err(StdioFault::Output(error)),
        ServiceEnd::Input(error) => Err(StdioFault::Input(error)),
        ServiceEnd::Gone | ServiceEnd::Exit => Ok(()),
    }
}

/// The input, with everything that is needed to handle its frames.
struct Frames {
    server: Arc<Server>,
    connection: Arc<Connection>,
    output: Arc<Output>,
    queue: Arc<SerialQueue>,
    input: Box<dyn Read + Send>,
    framer: Framer,
    chunk: Vec<u8>,
}

/// Why the service ended.
#[derive(Debug)]
enum ServiceEnd {
    /// The client closed its end of the input or of the output.
    Gone,
    /// The client sent `exit`.
    Exit,
    /// The input cannot be read.
    Input(io::Error),
    /// A reply cannot be written although the client is there.
    Output(io::Error),
}

impl CallSource for Frames {
    type End = ServiceEnd;

    fn next(&mut self) -> NextCall<ServiceEnd> {
        let Frames {
            server,
            connection,
            output,
            queue,
            input,
            framer,
            chunk,
        } = self;
        loop {
            let read = match input.read(chunk) {
                Ok(0) => return NextCall::End(ServiceEnd::Gone),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(event = "stdin_read_error", reason = %error);
                    return NextCall::End(match is_gone(&error) {
                        true => ServiceEnd::Gone,
                        false => ServiceEnd::Input(error),
                    });
                }
            };
            // The call of the last frame so far. A call that another frame follows is not alone.
            let mut last = None;
            let whole = framer.feed(&chunk[..read], |line| {
                start(server, last.take());
                match handle_line(server, connection, output, queue, line) {
                    LineOutcome::Done => true,
                    LineOutcome::Call(job) => {
                        last = Some(job);
                        true
                    }
                    LineOutcome::Exit => false,
                }
            });
            if read == chunk.len() && read < CHUNK_BYTES {
                chunk.resize(CHUNK_BYTES, 0);
            }
            let alone = !framer.is_mid_line() && server.gate.taken() <= 1;
            match last {
                Some(job) if whole && alone => return NextCall::Run(job),
                job => start(server, job),
            }
            if !whole {
                return NextCall::End(ServiceEnd::Exit);
            }
        }
    }
}

fn start(server: &Server, job: Option<Job>) {
    if let Some(job) = job {
        // A job that no thread takes answers its call itself.
        drop(server.pool.run(job));
    }
}

/// The outcome of a line.
enum LineOutcome {
    Done,
    Call(Job),
    Exit,
}

fn handle_line(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    output: &Arc<Output>,
    queue: &SerialQueue,
    line: Line<'_>,
) -> LineOutcome {
    let document = match line {
        Line::Whole(bytes) => Document::read(bytes).map_err(FrameFault::from),
        Line::TooLong => {
            tracing::warn!(
                event = "frame_too_large",
                max_frame_bytes = server.settings.frame_bytes,
            );
            Err(FrameFault::Malformed)
        }
    };
    let frame = match &document {
        Ok(document) => Frame::of(document.json()).map(Incoming::from),
        Err(fault) => Err(*fault),
    };
    let handled = match (&document, frame) {
        (Ok(document), Ok(frame))
            if frame.needs_store(&server.sessions) && !connection.is_draining() =>
        {
            let context = RequestContext {
                arrival: frame.runs_program().map(|key| connection.arrive(&key)),
                arrived_in_time: true,
                ..RequestContext::default()
            };
            let text = document.json().to_text();
            let (server, connection, output) = (server.clone(), connection.clone(), output.clone());
            queue.add(
                text.len(),
                Box::new(move || handle_blocking(&server, &connection, &output, &context, &text)),
            );
            return LineOutcome::Done;
        }
        (_, Ok(frame)) => handle(
            &server.handler,
            connection,
            &RequestContext::default(),
            &frame,
            || responder(output),
        ),
        (_, Err(FrameFault::Malformed)) => Handled::Now(Reply::error(None, RpcError::PARSE)),
        (_, Err(FrameFault::NotAnObject)) => {
            Handled::Now(Reply::error(None, RpcError::INVALID_REQUEST))
        }
    };
    match handled {
        Handled::Silent => LineOutcome::Done,
        Handled::Later(_, job) => LineOutcome::Call(job),
        Handled::Now(reply) => {
            output.send(&server.redactor.scrub(reply));
            LineOutcome::Done
        }
        Handled::Exit(reply) => {
            if let Some(reply) = reply {
                output.send(&server.redactor.scrub(reply));
            }
            LineOutcome::Exit
        }
    }
}

/// Handles the call in `text`, on a thread that may block; its program, if there is one, runs in the pool.
fn handle_blocking(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    output: &Arc<Output>,
    context: &RequestContext,
    text: &JsonText,
) {
    let Ok(frame) = Frame::of(text.json()) else {
        return;
    };
    match handle(&server.handler, connection, context, &frame.into(), || {
        responder(output)
    }) {
        Handled::Later(_, job) => start(server, Some(job)),
        Handled::Now(reply) | Handled::Exit(Some(reply)) => {
            output.send(&server.redactor.scrub(reply));
        }
        Handled::Silent | Handled::Exit(None) => {}
    }
}

fn responder(output: &Arc<Output>) -> Responder {
    let output = output.clone();
    Box::new(move |reply| output.send(&reply))
}

fn close(connection: &Arc<Connection>, ended: &ServiceEnd) {
    let exit = matches!(ended, ServiceEnd::Exit);
    let (grace, event) = match ended {
        ServiceEnd::Exit => (EXIT_GRACE, "exit_drained"),
        ServiceEnd::Gone | ServiceEnd::Input(_) => (END_OF_INPUT_GRACE, "stdin_eof"),
        ServiceEnd::Output(_) => (Duration::ZERO, "stdout_lost"),
    };
    let in_flight = connection.in_flight();
    if exit {
        tracing::debug!(event = "exit_notification", in_flight);
    }
    let remaining = connection.wait_until_idle(grace);
    connection.cancel_all();
    if exit && remaining > 0 {
        tracing::warn!(event = "exit_grace_elapsed", remaining);
    } else {
        tracing::info!(event);
    }
}

/// The single writer of a stream: whole frames, one after the other.
struct Output {
    stream: Mutex<Stream>,
    /// Ends the service: nobody would learn what else it does.
    ended: SyncSender<ServiceEnd>,
}

struct Stream {
    writer: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    /// A reply could not be written. A part of it may have been, so nothing is written after it.
    has_failed: bool,
}

/// Whether the other end of a stream was closed, which is a client's way to leave.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// Memory that the write buffer may keep between replies.
const IDLE_BUFFER_BYTES_MAX: usize = 256 << 10;

impl Output {
    fn new(writer: Box<dyn Write + Send>, ended: SyncSender<ServiceEnd>) -> Arc<Self> {
        Arc::new(Output {
            stream: Mutex::new(Stream {
                writer,
                buffer: Vec::new(),
                has_failed: false,
            }),
            ended,
        })
    }

    fn send(&self, reply: &Scrubbed<Reply>) {
        let mut stream = lock(&self.stream);
        let Stream {
            writer,
            buffer,
            has_failed,
        } = &mut *stream;
        if *has_failed {
            return;
        }
        buffer.clear();
        Reply::write(reply, buffer);
        buffer.push(b'\n');
        if let Err(error) = writer.write_all(buffer).and_then(|()| writer.flush()) {
            *has_failed = true;
            let end = match is_gone(&error) {
                true => ServiceEnd::Gone,
                false => {
                    tracing::error!(event = "stdout_write_error", reason = %error);
                    ServiceEnd::Output(error)
                }
            };
            // The service may be ending already.
            let _ = self.ended.try_send(end);
        }
        if buffer.capacity() > IDLE_BUFFER_BYTES_MAX {
            *buffer = Vec::new();
        }
    }
}
