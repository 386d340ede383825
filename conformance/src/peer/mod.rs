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

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use http::event_stream;
pub use script::{Action, PeerKind, Script, ScriptError};

/// Why a peer can't be set up, run or killed.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A file or directory of the peer can't be read, written or run.
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error("{}: {source}", .path.display())]
    ScriptFile { path: PathBuf, source: ScriptError },
    #[error("expected a name that can be a file's")]
    Name,
    /// The peer `name` can't be set up.
    #[error("peer {name}: {source}")]
    SetUp {
        name: String,
        source: Box<PeerError>,
    },
    #[error("it ended before it listened")]
    Ended,
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    #[error("cannot use TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the target block names no peer `{name}`, or it was never started")]
    NotRunning { name: String },
    #[error("peer {name}: {source}")]
    Kill { name: String, source: Errno },
    #[error("this program cannot find itself: {0}")]
    NoProgram(io::Error),
    #[error("`{command}` is not built; {variable} can name it")]
    NoCommand {
        command: &'static str,
        /// The environment variable.
        variable: &'static str,
    },
}

impl PeerError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> PeerError {
        move |source| PeerError::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// Runs the script at `path` until standard input ends.
///
/// # Errors
/// When the script cannot be read or the peer cannot listen.
pub fn play(path: &Path) -> Result<(), PeerError> {
    let text = std::fs::read_to_string(path).map_err(PeerError::file(path))?;
    let script = Script::read(&text).map_err(|source| PeerError::ScriptFile {
        path: path.to_owned(),
        source,
    })?;
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
    received: PathBuf,
    pid: PathBuf,
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
