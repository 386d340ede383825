//! The upstreams config: which file, and what its entries mean. Reads no network and starts nothing.

mod entry;
mod resolve;

pub use entry::{
    HttpConfig, OpenApiConfig, Remote, SchemaSource, StdioConfig, TransportConfig, UpstreamConfig,
    parse_entries,
};
pub use resolve::{Lookup, resolve_path};
