//! The process behind a stdio upstream: its pipes, its end, its process group. Knows nothing of frames. A simulation can replace it.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;

use super::stdio::StdioConfig;
use crate::fault::WorldFault;

pub trait Launcher: Send + Sync {
    /// Starts the child process of `config`. Called inside a tokio runtime.
    ///
    /// # Errors
    /// `upstream_unavailable` with the reason.
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault>;
}

/// A started child process.
pub struct Child {
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub life: Box<dyn ChildExit>,
    /// The process and everything that it started.
    pub group: Box<dyn ProcessGroup>,
}

/// The future of a child's exit status.
pub type ExitFuture<'a> = Pin<Box<dyn Future<Output = std::io::Result<ExitStatus>> + Send + 'a>>;

/// Waits for the exit of a child.
pub trait ChildExit: Send {
    /// Waits for the exit; returns at once when the child has already exited.
    fn wait(&mut self) -> ExitFuture<'_>;
}

/// A child with everything that it started.
pub trait ProcessGroup: Send + Sync {
    /// Sends a signal to all processes that are left.
    fn signal(&self, signal: Signal);
}

/// Starts the command as a child of this process.
pub struct DirectLauncher;

impl Launcher for DirectLauncher {
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault> {
        let mut command = Command::new(&config.command);
        command.args(&config.args);
        spawn_child(prepare(command, config).kill_on_drop(true), config, killpg)
    }
}

/// Starts the command below a [keeper](super::keeper), so that nothing that it starts outlives it or this process. For programs whose
/// `main` passes a command line that begins with [`KEEPER_COMMAND`](super::keeper::KEEPER_COMMAND) to [`keep`](super::keeper::keep).
#[cfg(target_os = "linux")]
pub struct KeeperLauncher;

#[cfg(target_os = "linux")]
impl Launcher for KeeperLauncher {
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault> {
        use super::keeper::{KEEPER_COMMAND, KILL_ALL, OWN_EXECUTABLE};
        let path = match config.env.get("PATH") {
            Some(path) => Some(OsString::from(path)),
            None => std::env::var_os("PATH"),
        };
        check_runnable(&config.command, path.as_deref(), config.cd.as_deref()).map_err(
            |errno| match errno {
                Errno::EACCES => not_executable(config),
                _ => not_found(config),
            },
        )?;
        let mut command = Command::new(OWN_EXECUTABLE);
        command
            .args([
                KEEPER_COMMAND,
                &std::process::id().to_string(),
                &config.command,
            ])
            .args(&config.args);
        let tell = |keeper: Pid, signal: Signal| match signal {
            Signal::SIGKILL => kill(keeper, KILL_ALL),
            other => kill(keeper, other),
        };
        spawn_child(&mut prepare(command, config), config, tell)
    }
}

/// Other systems don't notify a process of its parent's death.
#[cfg(not(target_os = "linux"))]
pub use DirectLauncher as KeeperLauncher;

/// A command that runs once, in `directory`, with pipes for its streams. Whatever it starts ends with it, as with [`KeeperLauncher`]; the
/// thread that starts it has to live as long as the command.
pub struct KeptCommand {
    pub process: std::process::Child,
}

/// How long a keeper may take to end everything after it was signalled.
const END_TIME_MAX: Duration = Duration::from_secs(5);

impl KeptCommand {
    /// # Errors
    /// The command does not exist or can't be run.
    pub fn start(words: &[String], directory: &Path) -> std::io::Result<Self> {
        let (name, arguments) = words.split_first().ok_or(Errno::ENOENT)?;
        let mut command;
        #[cfg(target_os = "linux")]
        {
            use super::keeper::{KEEPER_COMMAND, OWN_EXECUTABLE};
            let path = std::env::var_os("PATH");
            check_runnable(name, path.as_deref(), Some(directory))?;
            command = std::process::Command::new(OWN_EXECUTABLE);
            command.args([KEEPER_COMMAND, &std::process::id().to_string(), name]);
        }
        #[cfg(not(target_os = "linux"))]
        {
            command = std::process::Command::new(name);
        }
        use std::os::unix::process::CommandExt as _;
        command
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let process = command.spawn()?;
        Ok(KeptCommand { process })
    }

    /// Ends the command and everything that it started.
    pub fn end(mut self) {
        let id = Pid::from_raw(self.process.id().cast_signed());
        #[cfg(target_os = "linux")]
        let signalled = kill(id, super::keeper::KILL_ALL);
        #[cfg(not(target_os = "linux"))]
        let signalled = killpg(id, Signal::SIGKILL);
        let until = Instant::now() + END_TIME_MAX;
        while signalled.is_ok() && Instant::now() < until {
            match self.process.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process, and whether it has ended: from then on its id may belong to another process.
struct ChildProcess {
    process: tokio::process::Child,
    has_exited: Arc<AtomicBool>,
}

impl ChildExit for ChildProcess {
    fn wait(&mut self) -> ExitFuture<'_> {
        Box::pin(async move {
            let status = self.process.wait().await;
            self.has_exited.store(true, Ordering::Release);
            status
        })
    }
}

struct Signaller<T> {
    id: Pid,
    has_exited: Arc<AtomicBool>,
    send_signal: T,
}

impl<T> ProcessGroup for Signaller<T>
where
    T: Fn(Pid, Signal) -> nix::Result<()> + Send + Sync,
{
    fn signal(&self, signal: Signal) {
        if !self.has_exited.load(Ordering::Acquire) {
            let _ = (self.send_signal)(self.id, signal);
        }
    }
}

/// Variables that a command gets from this process's environment, and the prefix of further ones.
const INHERITED: &[&str] = &[
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR", "TZ",
];
const INHERITED_PREFIX: &str = "LC_";

/// Whether a child gets the variable without configuration.
pub(crate) fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name) || name.starts_with(INHERITED_PREFIX)
}

fn prepare(mut command: Command, config: &StdioConfig) -> Command {
    let inherited = std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| {
            is_inherited(name) || config.inherit_env.iter().any(|wanted| wanted == name)
        })
    });
    command
        .env_clear()
        .envs(inherited)
        .envs(&config.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A process group of its own: signals from the server's terminal are not for the child.
        .process_group(0);
    if let Some(cd) = &config.cd {
        command.current_dir(cd);
    }
    command
}

fn spawn_child(
    command: &mut Command,
    config: &StdioConfig,
    send_signal: impl Fn(Pid, Signal) -> nix::Result<()> + Send + Sync + 'static,
) -> Result<Child, WorldFault> {
    let mut process = spawn_on_launch_thread(command).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => not_found(config),
        std::io::ErrorKind::PermissionDenied => not_executable(config),
        _ => {
            let name = &config.command;
            WorldFault::unavailable(format!("command {name} could not be started: {error}"))
        }
    })?;
    let pipes = (
        process.stdin.take(),
        process.stdout.take(),
        process.stderr.take(),
    );
    let id = process.id().and_then(|id| i32::try_from(id).ok());
    let ((Some(stdin), Some(stdout), Some(stderr)), Some(id)) = (pipes, id) else {
        return Err(WorldFault::unavailable("mcp_stdio process has no pipes"));
    };
    let has_exited = Arc::new(AtomicBool::new(false));
    let group = Signaller {
        id: Pid::from_raw(id),
        has_exited: Arc::clone(&has_exited),
        send_signal,
    };
    Ok(Child {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        life: Box::new(ChildProcess {
            process,
            has_exited,
        }),
        group: Box::new(group),
    })
}

/// A command to start, the runtime that will watch it, and the channel for the outcome.
struct LaunchRequest {
    command: Command,
    executor: tokio::runtime::Handle,
    started: mpsc::SyncSender<std::io::Result<tokio::process::Child>>,
}

/// Starts `command` on a thread that lives as long as this process: the kernel reports the end of the *thread* that started a child as
/// its parent's death, and a program's thread ends with the program.
fn spawn_on_launch_thread(command: &mut Command) -> std::io::Result<tokio::process::Child> {
    static LAUNCHES: OnceLock<mpsc::Sender<LaunchRequest>> = OnceLock::new();
    let launches = LAUNCHES.get_or_init(|| {
        let (sender, launches) = mpsc::channel::<LaunchRequest>();
        // If the thread can't be started, the channel has no receiver, and each launch fails with an error.
        let _ = std::thread::Builder::new()
            .name("launches".into())
            .spawn(move || {
                for mut launch in launches {
                    let _runtime = launch.executor.enter();
                    let _ = launch.started.send(launch.command.spawn());
                }
            });
        sender
    });
    let gone = || std::io::Error::other("there is no thread to start it");
    let (started, outcome) = mpsc::sync_channel(1);
    let launch = LaunchRequest {
        command: std::mem::replace(command, Command::new("")),
        executor: tokio::runtime::Handle::current(),
        started,
    };
    launches.send(launch).map_err(|_| gone())?;
    outcome.recv().unwrap_or_else(|_| Err(gone()))
}

/// Whether the command can be run at all; otherwise only the keeper could report it.
#[cfg(target_os = "linux")]
fn check_runnable(command: &str, path: Option<&OsStr>, cd: Option<&Path>) -> nix::Result<()> {
    let files: Vec<PathBuf> = candidates(command, path, cd)
        .into_iter()
        .filter(|path| path.is_file())
        .collect();
    let executable =
        |path: &PathBuf| nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
    match files.iter().any(executable) {
        true => Ok(()),
        false if files.is_empty() => Err(Errno::ENOENT),
        false => Err(Errno::EACCES),
    }
}

/// The files that a command may refer to: the path itself when it has a slash, otherwise files of that name on `path`.
#[cfg(target_os = "linux")]
fn candidates(command: &str, path: Option<&OsStr>, cd: Option<&Path>) -> Vec<PathBuf> {
    let below = |file: PathBuf| match cd {
        Some(cd) => cd.join(file),
        None => file,
    };
    if command.contains('/') {
        return vec![below(PathBuf::from(command))];
    }
    // The C library's search path when `PATH` is not set.
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let files = std::env::split_paths(path).map(|directory| below(directory.join(command)));
    files.collect()
}

/// A command with arguments written into it may contain a credential, so a command with whitespace is not quoted.
fn not_found(config: &StdioConfig) -> WorldFault {
    let command = match config.command.contains(char::is_whitespace) {
        true => "its words are taken for the name of one file; arguments belong into args",
        false => &config.command,
    };
    WorldFault::unavailable(format!("command not found: {command}"))
}

fn not_executable(config: &StdioConfig) -> WorldFault {
    WorldFault::unavailable(format!("command is not executable: {}", config.command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_inherited() {
        for name in ["PATH", "HOME", "LC_ALL", "LC_", "TZ"] {
            assert!(is_inherited(name), "{name}");
        }
        for name in [
            "",
            "path",
            "LC",
            "PATHS",
            "LANGUAGE",
            "LD_PRELOAD",
            "XLC_ALL",
            "TOKEN",
        ] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
