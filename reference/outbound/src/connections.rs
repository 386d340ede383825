//! Where the connections of one client are driven: on a thread of their own. Knows nothing of what is sent over them.
//!
//! What a server sends before its answer (`100 Continue`, `103 Early Hints`) is parsed as long as there is more of it to read, tens of
//! megabytes at a stretch, and nothing counts it. Among other tasks that would keep a thread from its timers, so that deadlines pass
//! unseen, and from the connections to other servers. Here it costs the server its own time.

use std::io;
use std::pin::pin;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread of one client's connections, which ends with this, and they with it.
#[derive(Debug)]
pub(crate) struct Connections {
    thread: Handle,
    _ends: oneshot::Sender<()>,
}

impl Connections {
    /// # Errors
    /// Why there is no thread.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
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

    /// Awaits `work`; the connections that it opens are driven here, and not where it is awaited.
    pub async fn driving<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let _entered = self.thread.enter();
            work.as_mut().poll(context)
        })
        .await
    }
}
