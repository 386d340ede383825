//! The upstreams config: which file, and what its entries mean. Reads no network and starts nothing.

mod entry;
mod resolve;

#[cfg(feature = "http")]
pub use entry::{HttpConfig, OpenApiConfig, Remote, SchemaSource};
pub use entry::{StdioConfig, TransportConfig, UpstreamConfig, parse_entries};
pub use resolve::{Lookup, resolve_path};
