//! A connection's bytes, ended when its peer doesn't take what is written, or has gone while a call of its own runs. A peer that
//! closed its sending side alone is still there: it is asked with an interim response, or where there is none with a byte of the
//! answer to come; a connection that is gone refuses either. Knows nothing of what the bytes say.

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

/// How often a peer is looked after while a call runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often one that will send no more is asked whether it still reads, in looks.
const ASK_EVERY: u32 = 10;
/// What it is asked with: every client passes over it, and most know no other interim response.
const ASKED: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Time that a peer gets to hang up after the last response, and bytes that are passed over meanwhile. A connection that is
/// closed with bytes unread is reset, and the reset can overtake the response.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// How much of a connection its peer has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    Nothing,
    /// It will send no more. Whether it still reads shows when something is written.
    Sending,
    /// It refused what was written.
    Both,
}

/// A stream that knows whether its peer will send no more, without reading what it sent before.
pub trait HangUp {
    /// What the peer has closed.
    fn closed(&self) -> Closed;
}

impl HangUp for TcpStream {
    fn closed(&self) -> Closed {
        // The end shows in the readiness at once, behind bytes that nobody reads; reading shows it only behind them.
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

/// In memory nobody knows before everything is read.
impl HangUp for tokio::io::DuplexStream {
    fn closed(&self) -> Closed {
        Closed::Nothing
    }
}

/// What a stream is told of the requests on it.
#[derive(Default)]
pub struct Activity {
    calls: AtomicUsize,
    /// What every answer to the last call begins with, where its version has no interim responses.
    beginning: Mutex<Option<&'static [u8]>>,
    ending: AtomicBool,
}

/// A call that runs.
pub struct Call<'a>(&'a Activity);

impl Activity {
    /// A call that came in this version of HTTP runs until the guard is dropped. In HTTP/1.0 its answer has this `beginning`.
    pub fn call(&self, version: Version, beginning: &'static [u8]) -> Call<'_> {
        *self.beginning() = (version < Version::HTTP_11).then_some(beginning);
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(self)
    }

    fn beginning(&self) -> impl std::ops::DerefMut<Target = Option<&'static [u8]>> {
        lock(&self.beginning)
    }

    /// The process ends: nobody is lingered for.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of one connection.
pub struct WatchedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    write_timeout: Duration,
    /// When what is written must have left; running while something waits to.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// When the peer is looked after next. Outlives a short call: setting a timer wakes another thread.
    look: Option<Pin<Box<Sleep>>>,
    /// Looks since the peer closed its sending side.
    looks_since: u32,
    /// What has left of the answer to come, and is passed over when it does.
    ahead: &'static [u8],
    /// Since the write side is closed: when the wait for the peer ends, and how much may still come.
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
            looks_since: 0,
            ahead: &[],
            linger: None,
        }
    }

    /// Passes on a write. The deadline runs on through partial writes: a peer that takes a byte now and then is slow as well.
    fn wrote(
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

impl<S: AsyncWrite + HangUp + Unpin> WatchedStream<S> {
    fn look(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.activity.calls.load(Ordering::Relaxed) == 0 {
            self.look.take_if(|look| look.is_elapsed());
            self.looks_since = 0;
            return Ok(());
        }
        let mut look = self
            .look
            .take()
            .unwrap_or_else(|| Box::pin(tokio::time::sleep(LOOK_EVERY)));
        while look.as_mut().poll(context).is_ready() {
            let gone = match self.stream.closed() {
                Closed::Nothing => false,
                Closed::Both => true,
                Closed::Sending => {
                    let asks = self.looks_since.is_multiple_of(ASK_EVERY);
                    self.looks_since += 1;
                    asks && self.ask(context)
                }
            };
            if gone {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            look.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
        self.look = Some(look);
        Ok(())
    }
}

impl<S: AsyncWrite + Unpin> WatchedStream<S> {
    /// Writes what the peer may get before its answer; returns whether it refuses that. The answer has not begun, and the HTTP library
    /// looks when all that it wrote has left.
    fn ask(&mut self, context: &mut Context<'_>) -> bool {
        let beginning = *self.activity.beginning();
        let asked = match beginning {
            None => ASKED,
            Some(beginning) => match beginning.get(self.ahead.len()..) {
                Some([next, ..]) => std::slice::from_ref(next),
                // All of it has left: nothing more is certain.
                _ => return false,
            },
        };
        match Pin::new(&mut self.stream).poll_write(context, asked) {
            Poll::Ready(Ok(written)) if written == asked.len() => {
                if let Some(beginning) = beginning {
                    self.ahead = &beginning[..=self.ahead.len()];
                }
                false
            }
            Poll::Ready(_) => true,
            Poll::Pending => false,
        }
    }

    /// How many of `bytes` have left already, if any did.
    fn pass_over(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        let left = self.ahead.len().min(bytes.len());
        if left == 0 {
            return None;
        }
        let (these, rest) = self.ahead.split_at(left);
        self.ahead = rest;
        // Another answer than was begun can't be given any more.
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

impl<S: AsyncRead + AsyncWrite + HangUp + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(passed) = this.pass_over(bytes) {
            return Poll::Ready(passed);
        }
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.wrote(context, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(passed) = first.and_then(|first| this.pass_over(first)) {
            return Poll::Ready(passed);
        }
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.wrote(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library flushes once all is written, and each time that it is woken with nothing to write: the moment to look.
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
