//! The server's name and version, as in `serverInfo`.

use ptc_protocol::members::{Build, ServerInfo};

/// The server's name in `serverInfo`.
pub const NAME: &str = "ptc_lisp";
pub const PACKAGE_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit of this build, twelve hex digits, as set by the build.
const BUILD_COMMIT: Option<&str> = option_env!("PTC_BUILD_COMMIT");
/// `"true"` when the build's working tree had changes.
const BUILD_DIRTY: Option<&str> = option_env!("PTC_BUILD_DIRTY");

/// Name, version and build.
pub fn server_info() -> ServerInfo {
    let dirty = BUILD_DIRTY == Some("true");
    let version = match (BUILD_COMMIT, dirty) {
        (None, _) => PACKAGE_VERSION.to_owned(),
        (Some(commit), false) => format!("{PACKAGE_VERSION}+{commit}"),
        (Some(commit), true) => format!("{PACKAGE_VERSION}+{commit}.dirty"),
    };
    ServerInfo {
        build: Build {
            git_commit: BUILD_COMMIT.unwrap_or("unknown"),
            git_dirty: dirty,
            package_version: PACKAGE_VERSION,
        },
        name: NAME,
        version,
    }
}
