//! Requests over connections that are kept, and may have been closed by the time that one is sent.

use crate::connections::Connections;
use crate::refusal::causes;
use reqwest::{Client, ClientBuilder, Request, Response};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tower::util::MapRequestLayer;

/// A client with a thread for its connections, which end with it. It knows whether a request went over a connection which had been used before.
#[derive(Clone, Debug)]
pub struct Sender {
    client: Client,
    /// Connections that were made, or tried to be.
    made: Arc<AtomicU64>,
    /// None where there was no thread to be had: then they are driven where requests are awaited.
    connections: Option<Arc<Connections>>,
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
        let connections = Connections::new().ok().map(Arc::new);
        Ok(Sender {
            client,
            made,
            connections,
        })
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
            // Made here, so that the request's own time is counted here.
            let answer = self.client.execute(request);
            let answer = match &self.connections {
                Some(connections) => connections.driving(answer).await,
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

/// Whether a connection ended where the head of an answer was due.
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

    /// A server that answers the first request on each connection and closes it on the second; how many came.
    fn hanging_up() -> (String, Arc<AtomicU64>) {
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
    fn what_may_do_harm_is_sent_once() {
        let (url, came) = hanging_up();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let sender = Sender::new(crate::client(&url).unwrap()).unwrap();
        let asked = |repeat| {
            let request = sender.client().post(&url).build().unwrap();
            let answered = runtime.block_on(sender.send(request, repeat)).is_ok();
            // A connection is kept once its own thread has seen that the answer ends.
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

    /// A server that says `100 Continue` to every request as fast as it is read, and never answers.
    fn flooding() -> String {
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

    /// A flood hides a deadline of a fifth of this until it ends.
    const DEADLINE_SEEN: Duration = Duration::from_secs(1);

    #[test]
    fn a_flood_of_heads_moves_no_deadline() {
        let url = flooding();
        // As few threads as there can be, none of which a flood may hold.
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
            let (url, _) = hanging_up();
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
