//! The upstreams config: which file, and what its entries mean. Uses no network and starts nothing.

mod entry;
mod remote;
mod resolve;

pub(crate) use entry::{ConfigEntry, ConfigResult, UpstreamConfig, parse_entries};
pub(crate) use remote::{REMOTE_KEYS, RemoteConfig};
pub use resolve::{ConfigLookup, resolve_path};
