//! A connection's bytes, ended when its peer doesn't take what is written, or has gone while a call of its own runs.
//! Knows nothing of what the bytes say.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// How often a peer is looked after while a call runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time that a peer gets to hang up after the last response, and bytes that are passed over meanwhile. A connection that is
/// closed with bytes unread is reset, and the reset can overtake the response.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// A stream that knows whether its peer will send no more, without reading what it sent before.
pub trait HangUp {
    /// Whether the peer has closed its side.
    fn has_hung_up(&self) -> bool;
}

impl HangUp for TcpStream {
    fn has_hung_up(&self) -> bool {
        // The end shows in the readiness at once, behind bytes that nobody reads; reading shows it only behind them.
        let mut context = Context::from_waker(Waker::noop());
        match pin!(self.ready(Interest::READABLE)).poll(&mut context) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

/// In memory nobody knows before everything is read.
impl HangUp for tokio::io::DuplexStream {
    fn has_hung_up(&self) -> bool {
        false
    }
}

/// What a stream is told of the requests on it.
#[derive(Default)]
pub struct Activity {
    calls: AtomicUsize,
    ending: AtomicBool,
}

/// A call that runs.
pub struct Call<'a>(&'a Activity);

impl Activity {
    /// A call runs until the guard is dropped.
    pub fn call(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(self)
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
    /// When the peer is looked after next; running while a call runs.
    look: Option<Pin<Box<Sleep>>>,
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

impl<S: HangUp> WatchedStream<S> {
    fn look(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.activity.calls.load(Ordering::Relaxed) == 0 {
            self.look = None;
            return Ok(());
        }
        let look = self
            .look
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_EVERY)));
        while look.as_mut().poll(context).is_ready() {
            if self.stream.has_hung_up() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            look.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
        Ok(())
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
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.wrote(context, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.wrote(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library flushes once all is written, and each time that it is woken with nothing to write: the moment to look.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.look(context)?;
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
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
