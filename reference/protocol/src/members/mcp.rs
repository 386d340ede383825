//! Members about the server itself: its name, its versions and its capabilities.

use super::{members, schema};

members! {
    /// The result of `initialize`.
    pub struct InitializeResult {
        capabilities: Capabilities,
        protocol_version as "protocolVersion": &'static str,
        server_info as "serverInfo": ServerInfo,
    }
}

members! {
    /// The result of `server/discover`, without the members that every stateless result has.
    pub struct DiscoverResult {
        cache_scope as "cacheScope": &'static str,
        capabilities: Capabilities,
        supported_versions as "supportedVersions": Vec<&'static str>,
        ttl_ms as "ttlMs": u64,
    }
}

members! {
    /// The server's capabilities.
    pub struct Capabilities {
        tools: ToolsCapability,
    }
}

members! {
    /// The capability of having tools.
    pub struct ToolsCapability {
        /// Whether the server sends a notification when the list changes.
        list_changed as "listChanged": bool,
    }
}

members! {
    /// Name and version of an implementation, with the commit that it was built from.
    pub struct ServerInfo {
        build: Build,
        name: &'static str,
        version: String,
    }
}

members! {
    /// The build of an implementation.
    pub struct Build {
        git_commit: &'static str,
        git_dirty: bool,
        package_version: &'static str,
    }
}

members! {
    /// The `data` of the error for an unsupported protocol revision.
    pub struct UnsupportedVersion {
        requested: String,
        supported: Vec<&'static str>,
    }
}
