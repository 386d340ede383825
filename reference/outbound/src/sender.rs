//! Requests over connections that are kept, and may have been closed by the time that one is sent.

use reqwest::{Client, ClientBuilder, Request, Response};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tower::util::MapRequestLayer;

/// A client that knows whether a request went over a connection which had been used before.
#[derive(Clone, Debug)]
pub struct Sender {
    client: Client,
    /// Connections that were made, or tried to be.
    made: Arc<AtomicU64>,
}

/// Whether a request may reach its server twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing there, or the same again.
    Harmless,
    /// Nobody knows what it does there.
    Never,
}

impl Sender {
    /// The client that `builder` makes.
    ///
    /// # Errors
    /// Why it makes none.
    pub fn new(builder: ClientBuilder) -> reqwest::Result<Self> {
        let made = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&made);
        let counting = MapRequestLayer::new(move |to| {
            counted.fetch_add(1, Ordering::Relaxed);
            to
        });
        let client = builder.connector_layer(counting).build()?;
        Ok(Sender { client, made })
    }

    /// What requests are made with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request. A server may close a connection that is kept for the next request at any moment, so that one which was sent
    /// over such a connection and got no answer says nothing of the server: where that is harmless it is sent again, as often as a
    /// kept connection takes it, which is the last of that connection; within the time that it has.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(&self, mut request: Request, repeat: Repeat) -> reqwest::Result<Response> {
        let began = Instant::now();
        let time = request.timeout().copied();
        loop {
            let again = match repeat {
                Repeat::Harmless => request.try_clone(),
                Repeat::Never => None,
            };
            let made = self.made.load(Ordering::Relaxed);
            let error = match self.client.execute(request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let kept = self.made.load(Ordering::Relaxed) == made;
            request = match again {
                Some(again) if kept && was_closed(&error) => again,
                _ => return Err(error),
            };
            if let Some(time) = time {
                *request.timeout_mut() = Some(time.saturating_sub(began.elapsed()));
            }
        }
    }
}

/// Whether a connection ended where the head of an answer was due.
fn was_closed(error: &reqwest::Error) -> bool {
    if !error.is_request() || error.is_timeout() || error.is_connect() {
        return false;
    }
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let io = cause.downcast_ref::<io::Error>();
        http.is_some_and(hyper::Error::is_incomplete_message)
            || io.is_some_and(|error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::UnexpectedEof
                )
            })
    })
}
