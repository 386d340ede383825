//! Scripted upstream peers: MCP over stdio, MCP over HTTP and OpenAPI services that misbehave as instructed.
//!
//! A peer is a process of this command (`ptc-conformance peer SCRIPT`), so that it can be an upstream of any aggregator.
//! Knows nothing of the servers under test.

mod barriers;
pub mod case_peers;
mod http;
mod mcp;
mod script;
mod stdio;
mod tls;

use std::path::Path;

pub use http::event_stream;
pub use script::{Action, PeerKind, Script};

/// Runs the script at `path` until standard input ends.
///
/// # Errors
/// When the script cannot be read or the peer cannot listen.
pub fn play(path: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let script = Script::read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let files = PeerFiles::next_to(path);
    files.pid();
    match script.kind {
        PeerKind::Stdio => {
            stdio::play(script, files);
            Ok(())
        }
        PeerKind::Http | PeerKind::Openapi => http::play(script, files),
    }
}

/// The files that a peer leaves next to its script for the harness to inspect.
#[derive(Debug, Clone)]
struct PeerFiles {
    received: std::path::PathBuf,
    pid: std::path::PathBuf,
}

impl PeerFiles {
    fn next_to(script: &Path) -> Self {
        Self {
            received: script.with_extension("received"),
            pid: script.with_extension("pid"),
        }
    }

    fn pid(&self) {
        // Without this file the harness can't kill the peer, and reports that.
        let _ = std::fs::write(&self.pid, std::process::id().to_string());
    }

    /// Records one message or request, each on a line.
    fn received(&self, line: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.received);
        if let Ok(mut file) = file {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}
