//! Sends requests over kept-alive connections, which may have been closed in the meantime.

use crate::connections::Connections;
use crate::refusal::causes;
use reqwest::{Client, ClientBuilder, Request, Response};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tower::util::MapRequestLayer;

/// A client with a thread for its connections, which end with the client. Detects whether a request used an existing connection.
#[derive(Clone, Debug)]
pub struct Sender {
    client: Client,
    /// The number of connections that were opened or attempted.
    made: Arc<AtomicU64>,
    /// `None` when no thread could be started: connections are then driven where requests are awaited.
    connections: Option<Arc<Connections>>,
}

/// Whether a request may reach its server twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The request changes nothing there, or repeating it has no further effect.
    Harmless,
    /// The effect of the request is unknown.
    Never,
}

impl Sender {
    /// A sender with the client that `builder` builds.
    ///
    /// # Errors
    /// The client could not be built.
    pub fn new(builder: ClientBuilder) -> reqwest::Result<Self> {
        let made = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&made);
        let counting = MapRequestLayer::new(move |to| {
            counted.fetch_add(1, Ordering::Relaxed);
            to
        });
        let client = builder.connector_layer(counting).build()?;
        let connections = Connections::new().ok().map(Arc::new);
        Ok(Sender {
            client,
            made,
            connections,
        })
    }

    /// Builds requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request. A server may close a kept-alive connection at any moment, so a request that got no answer on such a connection says
    /// nothing about the server: if repeating is harmless, the request is sent again, as often as it goes to a kept-alive connection (each
    /// of which is then gone), within the request's timeout.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn send(&self, mut request: Request, repeat: Repeat) -> reqwest::Result<Response> {
        let began = Instant::now();
        let time = request.timeout().copied();
        loop {
            let again = match repeat {
                Repeat::Harmless => request.try_clone(),
                Repeat::Never => None,
            };
            let made = self.made.load(Ordering::Relaxed);
            // Created outside of `drive`, so that the timeout uses the timers of the caller, not those of the thread of connections.
            let answer = self.client.execute(request);
            let answer = match &self.connections {
                Some(connections) => connections.drive(answer).await,
                None => answer.await,
            };
            let error = match answer {
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

/// Whether the connection was closed where the head of a response was expected.
fn was_closed(error: &reqwest::Error) -> bool {
    if !error.is_request() || error.is_timeout() || error.is_connect() {
        return false;
    }
    causes(error).any(|cause| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Duration;

    /// A server that answers the first request on each connection and closes it on the second; and the number of requests received.
    fn closing_server() -> (String, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let came = Arc::new(AtomicU64::new(0));
        let counted = came.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                for answers in [true, false] {
                    if head
                        .by_ref()
                        .map_while(Result::ok)
                        .any(|line| line.is_empty())
                    {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    if answers {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            }
        });
        (url, came)
    }

    #[test]
    fn unrepeatable_request_is_sent_once() {
        let (url, came) = closing_server();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let sender = Sender::new(crate::client(&url).unwrap()).unwrap();
        let asked = |repeat| {
            let request = sender.client().post(&url).build().unwrap();
            let answered = runtime.block_on(sender.send(request, repeat)).is_ok();
            // The connection is kept alive once its own thread has seen the end of the answer.
            std::thread::sleep(Duration::from_millis(200));
            (answered, came.load(Ordering::Relaxed))
        };
        assert_eq!(asked(Repeat::Never), (true, 1));
        assert_eq!(asked(Repeat::Never), (false, 2), "on a kept connection");
        assert_eq!(asked(Repeat::Never), (true, 3));
        assert_eq!(
            asked(Repeat::Harmless),
            (true, 5),
            "and once more on its own"
        );
    }

    /// A server that sends `100 Continue` as fast as it is read, and never answers.
    fn flooding_server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let heads = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
            for mut stream in listener.incoming().flatten() {
                let heads = heads.clone();
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 1024]);
                    while stream.write_all(&heads).is_ok() {}
                });
            }
        });
        url
    }

    /// Without the separate thread, a flood hides a deadline of a fifth of this until the flood ends.
    const DEADLINE_SEEN: Duration = Duration::from_secs(1);

    #[test]
    fn flood_of_response_heads_extends_no_deadline() {
        let url = flooding_server();
        // The minimum number of threads, none of which a flood may block.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let sender = Sender::new(crate::client(&url).unwrap()).unwrap();
        for _ in 0..2 {
            let began = Instant::now();
            let request = sender.client().post(&url).build().unwrap();
            let waited = runtime.block_on(async {
                let sent = sender.send(request, Repeat::Never);
                tokio::time::timeout(Duration::from_millis(200), sent).await
            });
            assert!(waited.is_err(), "there is no answer");
            let took = began.elapsed();
            assert!(took < DEADLINE_SEEN, "{took:?}");
            let began = Instant::now();
            let mut request = sender.client().post(&url).build().unwrap();
            *request.timeout_mut() = Some(Duration::from_millis(200));
            let ended = runtime.block_on(sender.send(request, Repeat::Never));
            assert!(ended.is_err_and(|error| error.is_timeout()));
            let took = began.elapsed();
            assert!(took < DEADLINE_SEEN, "{took:?}");
            let (url, _) = closing_server();
            let other = Sender::new(crate::client(&url).unwrap()).unwrap();
            let request = other.client().post(&url).build().unwrap();
            let answered = runtime.block_on(async {
                let sent = other.send(request, Repeat::Never);
                tokio::time::timeout(DEADLINE_SEEN, sent).await
            });
            assert!(
                answered.is_ok_and(|answer| answer.is_ok()),
                "other servers are heard"
            );
        }
    }
}
