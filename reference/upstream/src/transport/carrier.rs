//! Carries outbound HTTP requests where a simulation replaces the network. Knows nothing of what they mean.

use std::future::Future;
use std::pin::Pin;

use crate::fault::WorldFault;

/// The future of an answer.
pub type Carried<'a> =
    Pin<Box<dyn Future<Output = Result<http::Response<Vec<u8>>, WorldFault>> + Send + 'a>>;

pub trait Carrier: Send + Sync {
    /// Sends a request with its whole body and waits for the whole answer, redirects not followed. Called inside a tokio
    /// runtime; a caller that loses patience drops the future.
    ///
    /// # Errors
    /// `upstream_unavailable` with the reason.
    fn carry(&self, request: http::Request<Vec<u8>>) -> Carried<'_>;
}
