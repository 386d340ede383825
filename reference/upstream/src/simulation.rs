//! What a simulation puts in place of the network and of waiting threads. Knows no transport and no program; not in releases.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::fault::WorldFault;

/// Carries HTTP requests, and lets programs wait and run in parallel, as a simulation decides.
#[derive(Clone)]
pub struct Simulation {
    pub http_backend: Arc<dyn HttpBackend>,
    pub driver: Arc<dyn Driver>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").finish_non_exhaustive()
    }
}

impl Simulation {
    /// Blocks a program's thread until `work` is done.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let mut done = None;
        {
            let mut work = std::pin::pin!(async { done = Some(work.await) });
            self.driver.drive(work.as_mut());
        }
        done.expect("a driver returns when the work is done")
    }
}

/// The threads of programs. The one that waits drives everything else.
pub trait Driver: Send + Sync {
    /// Polls `work`, and whatever it depends on, until it is done.
    fn drive(&self, work: Pin<&mut dyn Future<Output = ()>>);

    /// Runs the workers of a program; see [`ptc_lang::Host::run_workers`].
    fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize;
}

/// The future of a response.
pub type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<http::Response<Vec<u8>>, WorldFault>> + Send + 'a>>;

pub trait HttpBackend: Send + Sync {
    /// Sends a request with its whole body and waits for the whole response; redirects are not followed. Called inside a
    /// tokio runtime; to give up, the caller drops the future.
    ///
    /// # Errors
    /// `upstream_unavailable` with the reason.
    fn send(&self, request: http::Request<Vec<u8>>) -> ResponseFuture<'_>;
}
