//! The byte stream of a connection. It fails when the peer does not read what is written, or is gone while one of its calls runs. A peer
//! that closed only its sending side is still there: it is probed with an interim response or, where the version has none, with a byte of
//! the coming answer; a dead connection refuses either. Knows nothing of what the bytes mean.

use crate::lock::lock;
use axum::http::Version;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// The interval at which the peer is checked while a call runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A peer that closed its sending side is probed once in this many checks.
const PROBE_EVERY: u32 = 10;
/// The probe: every client ignores it, and most know no other interim response.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// After the last response, the peer has this much time to close the connection, and this many bytes from it are discarded. Closing a
/// connection with unread bytes resets it, and the reset can overtake the response.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// How much of a connection its peer has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    Nothing,
    /// The peer will send no more. Whether it still reads shows only when something is written.
    Sending,
    /// The connection is dead: the peer does not accept writes.
    Both,
}

/// A stream that can detect that its peer will send no more, without reading what was sent before.
pub trait DetectClose {
    fn closed(&self) -> Closed;
}

impl DetectClose for TcpStream {
    fn closed(&self) -> Closed {
        // The readiness shows the end at once, even behind unread bytes; reading would show it only after them.
        let mut context = Context::from_waker(Waker::noop());
        let interest = Interest::READABLE | Interest::WRITABLE;
        match pin!(self.ready(interest)).poll(&mut context) {
            Poll::Ready(Ok(ready)) if ready.is_write_closed() => Closed::Both,
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => Closed::Sending,
            Poll::Ready(Err(_)) => Closed::Both,
            Poll::Ready(Ok(_)) | Poll::Pending => Closed::Nothing,
        }
    }
}

/// In memory the end shows only after everything is read.
impl DetectClose for tokio::io::DuplexStream {
    fn closed(&self) -> Closed {
        Closed::Nothing
    }
}

/// What a stream knows of the requests on it.
#[derive(Default)]
pub struct Activity {
    calls: AtomicUsize,
    /// The first bytes of every answer to the last call, where its version has no interim responses.
    beginning: Mutex<Option<&'static [u8]>>,
    ending: AtomicBool,
}

/// A running call.
pub struct CallGuard<'a>(&'a Activity);

impl Activity {
    /// Registers a call in this version of HTTP until the guard is dropped. In HTTP/1.0 its answer has this `beginning`.
    pub fn call(&self, version: Version, beginning: &'static [u8]) -> CallGuard<'_> {
        *self.beginning() = (version < Version::HTTP_11).then_some(beginning);
        self.calls.fetch_add(1, Ordering::Relaxed);
        CallGuard(self)
    }

    fn beginning(&self) -> impl std::ops::DerefMut<Target = Option<&'static [u8]>> {
        lock(&self.beginning)
    }

    /// Called when the process ends: streams no longer linger.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of one connection.
pub struct WatchedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    write_timeout: Duration,
    /// The deadline for pending writes; set while something waits to be written.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// When the peer is checked next. Kept beyond a short call, because setting a timer wakes another thread.
    look: Option<Pin<Box<Sleep>>>,
    /// Number of checks since the peer closed its sending side.
    checks_since: u32,
    /// The part of the coming answer that was already sent as probes; it is skipped when the answer is written.
    already_sent: &'static [u8],
    /// Set once the write side is closed: until when to wait for the peer, and how many bytes may still come.
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> WatchedStream<S> {
    /// Watches `stream`. Whatever is written must leave within `write_timeout`, counted from when it first had to wait.
    pub fn new(stream: S, activity: Arc<Activity>, write_timeout: Duration) -> Self {
        WatchedStream {
            stream,
            activity,
            write_timeout,
            write_deadline: None,
            look: None,
            checks_since: 0,
            already_sent: &[],
            linger: None,
        }
    }

    /// Handles the result of a write. The deadline is kept across partial writes: a peer that accepts a byte now and then is slow, too.
    fn apply_write_timeout(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if wrote.is_ready() {
            return wrote;
        }
        let timeout = self.write_timeout;
        let deadline = self
            .write_deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + DetectClose + Unpin> WatchedStream<S> {
    fn look(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.activity.calls.load(Ordering::Relaxed) == 0 {
            self.look.take_if(|look| look.is_elapsed());
            self.checks_since = 0;
            return Ok(());
        }
        let mut look = self
            .look
            .take()
            .unwrap_or_else(|| Box::pin(tokio::time::sleep(CHECK_INTERVAL)));
        while look.as_mut().poll(context).is_ready() {
            let gone = match self.stream.closed() {
                Closed::Nothing => false,
                Closed::Both => true,
                Closed::Sending => {
                    let asks = self.checks_since.is_multiple_of(PROBE_EVERY);
                    self.checks_since += 1;
                    asks && self.probe(context)
                }
            };
            if gone {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            look.as_mut().reset(Instant::now() + CHECK_INTERVAL);
        }
        self.look = Some(look);
        Ok(())
    }
}

impl<S: AsyncWrite + Unpin> WatchedStream<S> {
    /// Sends a probe; returns whether the peer refuses it. The answer has not begun: the HTTP library flushes, and so checks, only when
    /// everything that it wrote has left.
    fn probe(&mut self, context: &mut Context<'_>) -> bool {
        let beginning = *self.activity.beginning();
        let asked = match beginning {
            None => PROBE,
            Some(beginning) => match beginning.get(self.already_sent.len()..) {
                Some([next, ..]) => std::slice::from_ref(next),
                // All of it was sent: the rest of the answer is not known yet.
                _ => return false,
            },
        };
        match Pin::new(&mut self.stream).poll_write(context, asked) {
            Poll::Ready(Ok(written)) if written == asked.len() => {
                if let Some(beginning) = beginning {
                    self.already_sent = &beginning[..=self.already_sent.len()];
                }
                false
            }
            Poll::Ready(_) => true,
            Poll::Pending => false,
        }
    }

    /// How many of `bytes` were already sent as probes, if any.
    fn skip_sent(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        let left = self.already_sent.len().min(bytes.len());
        if left == 0 {
            return None;
        }
        let (these, rest) = self.already_sent.split_at(left);
        self.already_sent = rest;
        // The answer differs from the one that was begun, so it cannot be sent.
        Some(match bytes.starts_with(these) {
            true => Ok(left),
            false => Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + DetectClose + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(passed) = this.skip_sent(bytes) {
            return Poll::Ready(passed);
        }
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.apply_write_timeout(context, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(passed) = first.and_then(|first| this.skip_sent(first)) {
            return Poll::Ready(passed);
        }
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.apply_write_timeout(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library flushes once everything is written, and whenever it is woken with nothing to write: the moment to check the peer.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        this.look(context)?;
        this.write_deadline = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (until, bytes_left) = match &mut this.linger {
            Some(linger) => linger,
            None => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
                let until = Box::pin(tokio::time::sleep(LINGER));
                this.linger.insert((until, LINGER_BYTES_MAX))
            }
        };
        let mut chunk = [std::mem::MaybeUninit::uninit(); 4096];
        while !this.activity.ending.load(Ordering::Relaxed) && *bytes_left > 0 {
            let mut buffer = ReadBuf::uninit(&mut chunk);
            match Pin::new(&mut this.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    *bytes_left = bytes_left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(until.as_mut().poll(context));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
