//! How many connections the system allows this process. Knows nothing of connections.

use super::permits::{PROMOTED_MAX, RESERVED_MAX};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// File descriptors for everything but clients' connections: pipes and sockets of upstreams, files.
const OTHER_DESCRIPTORS: usize = 256;

/// Raises the limit on descriptors for `wanted` connections as far as the system allows, and returns how many connections it then
/// suffices for. A server that runs out of descriptors cannot accept a health check either.
pub fn connections(wanted: usize) -> usize {
    let besides = RESERVED_MAX + PROMOTED_MAX + OTHER_DESCRIPTORS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return wanted;
    };
    let needed = u64::try_from(wanted.saturating_add(besides)).unwrap_or(u64::MAX);
    let raised = needed.min(hard).max(soft);
    let soft = match setrlimit(Resource::RLIMIT_NOFILE, raised, hard) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    let room = usize::try_from(soft).unwrap_or(usize::MAX);
    wanted.min(room.saturating_sub(besides).max(1))
}
