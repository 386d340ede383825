//! Drives the connections of one client on a separate thread. Knows nothing of what is sent over them.
//!
//! Interim responses before a server's answer (`100 Continue`, `103 Early Hints`) are parsed without limit while more can be read,
//! tens of megabytes at a stretch. On a shared thread that would keep other tasks from their timers, so that deadlines are missed, and
//! from the connections to other servers. On a separate thread it only delays the server itself.

use crate::executor;
use std::io;
use std::pin::pin;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The thread of one client's connections. Thread and connections end when this is dropped.
#[derive(Debug)]
pub(crate) struct Connections {
    thread: Handle,
    _ends: oneshot::Sender<()>,
}

impl Connections {
    /// # Errors
    /// The thread could not be started.
    pub fn new() -> io::Result<Self> {
        let runtime = executor::without_threads()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        thread::Builder::new()
            .name("connections".into())
            .spawn(move || runtime.block_on(ended))?;
        Ok(Self {
            thread: handle,
            _ends: ends,
        })
    }

    /// Awaits `work`; the connections that it opens are driven on this client's thread, not on the caller's.
    pub async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let _entered = self.thread.enter();
            work.as_mut().poll(context)
        })
        .await
    }
}
