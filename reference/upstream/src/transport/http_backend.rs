//! Carries outbound HTTP requests where a simulation replaces the network. Knows nothing of their meaning.

use std::future::Future;
use std::pin::Pin;

use crate::fault::WorldFault;

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
