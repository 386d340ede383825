//! The process behind a stdio upstream: its pipes, its end, its group. Knows nothing of frames. A simulation puts something
//! else in its place.

use std::future::Future;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;

use crate::config::StdioConfig;
use crate::fault::WorldFault;

/// Starts children.
pub trait Launcher: Send + Sync {
    /// Starts the child of `config`. Called inside a tokio runtime.
    ///
    /// # Errors
    /// `upstream_unavailable` with the reason.
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault>;
}

/// A child that was started.
pub struct Child {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it complains about.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Its end.
    pub life: Box<dyn Life>,
    /// It, and what it started.
    pub group: Box<dyn Group>,
}

/// The future of a child's end.
pub type End<'a> = Pin<Box<dyn Future<Output = std::io::Result<ExitStatus>> + Send + 'a>>;

/// The end of a child.
pub trait Life: Send {
    /// Waits for it; once it came, it comes at once.
    fn wait(&mut self) -> End<'_>;
}

/// A child with everything that it started.
pub trait Group: Send + Sync {
    /// Sends a signal to all of them, if there are any left.
    fn signal(&self, signal: Signal);
}

/// Starts real processes.
pub struct OperatingSystem;

impl Launcher for OperatingSystem {
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault> {
        let mut process = spawn(config)?;
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        let pipes = (
            process.stdin.take(),
            process.stdout.take(),
            process.stderr.take(),
        );
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(WorldFault::unavailable("mcp_stdio process has no pipes"));
        };
        Ok(Child {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            life: Box::new(process),
            group: Box::new(Pid::from_raw(id.unwrap_or(i32::MAX))),
        })
    }
}

impl Life for tokio::process::Child {
    fn wait(&mut self) -> End<'_> {
        Box::pin(self.wait())
    }
}

impl Group for Pid {
    fn signal(&self, signal: Signal) {
        let _ = killpg(*self, signal);
    }
}

fn spawn(config: &StdioConfig) -> Result<tokio::process::Child, WorldFault> {
    let mut command = Command::new(&config.command);
    command
        .args(&config.args)
        .envs(&config.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A group of its own: a shell wrapper's children end with it.
    command.process_group(0).kill_on_drop(true);
    if let Some(cd) = &config.cd {
        command.current_dir(cd);
    }
    command.spawn().map_err(|error| {
        let words = match error.kind() {
            std::io::ErrorKind::NotFound => format!("command not found: {}", config.command),
            std::io::ErrorKind::PermissionDenied => {
                format!("command is not executable: {}", config.command)
            }
            _ => format!("command {} could not be started: {error}", config.command),
        };
        WorldFault::unavailable(words)
    })
}
