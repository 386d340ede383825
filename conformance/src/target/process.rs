//! Starts a program in its own process group, and makes sure that the whole group is gone afterwards.
//! Knows nothing of JSON-RPC, cases or verdicts.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::cut;

use super::lines::Lines;

/// How many bytes of a child's standard error are kept, from its end.
pub const STDERR_BYTES_MAX: usize = 4 << 20;
/// How many bytes of that are shown with a failure.
pub const STDERR_TAIL_BYTES: usize = 4 << 10;
/// How long to wait for an exited child's standard error when there is none; a surviving grandchild can hold it open.
const STDERR_DRAIN: Duration = Duration::from_millis(200);
/// How many bytes of it are read then: the capacity of the largest pipe. A grandchild may write forever.
const STDERR_LEFT_BYTES_MAX: usize = 1 << 20;

/// Process groups that have been started and not yet been reaped.
static LIVE: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// Groups that were killed, but may still have members to be reaped.
static KILLED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// What to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Spawn {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables added to the inherited environment; they take precedence over it.
    pub env: Vec<(String, String)>,
    /// Inherited variables that are removed; a trailing `*` removes all with that prefix.
    pub withheld: Vec<String>,
    /// Working directory; absent: the harness's own.
    pub cwd: Option<PathBuf>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "killed by {signal}"),
                Err(_) => write!(f, "killed by signal {number}"),
            },
        }
    }
}

/// A running child. Dropping it kills its process group; the group is reaped in the background.
#[derive(Debug)]
pub struct Process {
    /// The child's standard output, split into lines.
    pub lines: Lines,
    input: Option<ChildStdin>,
    handle: Arc<ProcessHandle>,
}

/// Controls a running child, for code that does not read its output.
#[derive(Debug)]
pub struct ProcessHandle {
    group: i32,
    stderr: Stderr,
    exit: watch::Receiver<Option<Exit>>,
    /// Dropping the sender makes the supervisor kill the child and its group.
    kill: Mutex<Option<oneshot::Sender<()>>>,
}

impl Process {
    /// Starts `spawn`.
    ///
    /// # Errors
    /// When the program cannot be started: not found, not executable, or no such directory.
    pub fn start(spawn: &Spawn) -> std::io::Result<Self> {
        let (program, arguments) = spawn.argv.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "the command is empty")
        })?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            if spawn
                .withheld
                .iter()
                .any(|held| matches_variable(held, &name.to_string_lossy()))
            {
                command.env_remove(name);
            }
        }
        command.envs(spawn.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &spawn.cwd {
            command.current_dir(directory);
        }
        let mut child = command.spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default();
        live().insert(group);
        let missing = || std::io::Error::other("a standard stream of the child is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let lines = Lines::of(child.stdout.take().ok_or_else(missing)?);
        let stderr = Stderr::default();
        let (ended, end) = oneshot::channel();
        let pipe = child.stderr.take().ok_or_else(missing)?;
        let drained = tokio::spawn(stderr.clone().read_all(pipe, end));
        let (kill, killed) = oneshot::channel();
        let (exited, exit) = watch::channel(None);
        tokio::spawn(supervise(child, group, killed, (ended, drained), exited));
        Ok(Self {
            lines,
            input: Some(input),
            handle: Arc::new(ProcessHandle {
                group,
                stderr,
                exit,
                kill: Mutex::new(Some(kill)),
            }),
        })
    }

    /// Writes all of `bytes` to the child's standard input.
    ///
    /// # Errors
    /// When the input is already closed, or the child has closed its end.
    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(input) = self.input.as_mut() else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(bytes).await?;
        input.flush().await
    }

    /// Closes the child's standard input, so that the child reads end of file.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// The handle for signals, exit status and standard error.
    pub fn handle(&self) -> &Arc<ProcessHandle> {
        &self.handle
    }

    /// Splits the child, so that one task can write while another reads.
    pub fn split(self) -> (Option<ChildStdin>, Lines, Arc<ProcessHandle>) {
        (self.input, self.lines, self.handle)
    }
}

impl ProcessHandle {
    /// Process id of the child, which is also the id of its group.
    pub fn id(&self) -> i32 {
        self.group
    }

    /// Sends `signal` to the whole process group.
    ///
    /// # Errors
    /// When the group no longer exists.
    pub fn signal(&self, signal: Signal) -> std::io::Result<()> {
        if self.exit.borrow().is_some() {
            return Err(std::io::Error::from(nix::errno::Errno::ESRCH));
        }
        killpg(Pid::from_raw(self.group), signal).map_err(std::io::Error::from)
    }

    /// Waits for the child to exit by itself. Its standard error is then complete, as far as it can be read.
    pub async fn exited(&self) -> Exit {
        match self.exit.clone().wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Signal(0)),
            // The supervisor ends only after it has published the exit.
            Err(_) => Exit::Signal(0),
        }
    }

    /// How the child ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Kills the child and its group, and waits until the child is reaped.
    pub async fn kill(&self) -> Exit {
        let kill = self.kill.lock();
        drop(kill.unwrap_or_else(PoisonError::into_inner).take());
        self.exited().await
    }

    /// The child's standard error so far.
    pub fn stderr(&self) -> &Stderr {
        &self.stderr
    }
}

/// A child's standard error: the last [`STDERR_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Default)]
pub struct Stderr(Arc<Mutex<Vec<u8>>>);

impl Stderr {
    /// Everything that is kept, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The end of it, as much as is shown with a failure.
    pub fn tail(&self) -> String {
        cut::to_last_bytes(&self.text(), STDERR_TAIL_BYTES).into_owned()
    }

    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads to the end, or, once the child has exited, to the end of what is already in the pipe. That is read however busy the machine
    /// is, because each iteration looks at the pipe before the clock.
    async fn read_all<R: AsyncRead + Unpin>(self, mut reader: R, mut end: oneshot::Receiver<()>) {
        let mut chunk = vec![0; 8 << 10];
        loop {
            let read = tokio::select! {
                biased;
                // Polled first, or a pipe that is never empty would starve it.
                _ = &mut end => break,
                read = reader.read(&mut chunk) => read,
            };
            match read {
                Ok(read @ 1..) => self.push(&chunk[..read]),
                _ => return,
            }
        }
        let mut left = STDERR_LEFT_BYTES_MAX;
        while left > 0 {
            match tokio::time::timeout(STDERR_DRAIN, reader.read(&mut chunk)).await {
                Ok(Ok(read @ 1..)) => {
                    self.push(&chunk[..read]);
                    left = left.saturating_sub(read);
                }
                _ => return,
            }
        }
    }

    fn push(&self, more: &[u8]) {
        let mut bytes = self.bytes();
        bytes.extend_from_slice(more);
        if bytes.len() > 2 * STDERR_BYTES_MAX {
            let surplus = bytes.len() - STDERR_BYTES_MAX;
            bytes.drain(..surplus);
        }
    }
}

/// Makes processes that a target leaves behind children of the harness, whatever group or session they are in, so that they are found and
/// killed with the run. Only Linux supports this.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _as_before = nix::sys::prctl::set_child_subreaper(true);
}

/// Kills every live process group, and the adopted orphans: for the harness's signal handler.
pub fn kill_all() {
    let groups = live();
    for group in groups.iter() {
        let _gone_already = killpg(Pid::from_raw(*group), Signal::SIGKILL);
        // The child may have moved to another group.
        let _gone_already = kill(Pid::from_raw(*group), Signal::SIGKILL);
    }
    for id in orphans(&groups) {
        let _gone_already = kill(Pid::from_raw(id), Signal::SIGKILL);
        let _not_yet = waitpid(Pid::from_raw(id), Some(WaitPidFlag::WNOHANG));
    }
}

/// Children of this process that are not leaders of `groups`.
fn orphans(groups: &BTreeSet<i32>) -> Vec<i32> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let child = |entry: std::fs::DirEntry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name, which may contain anything, is followed by the state and the parent.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?;
        (parent == own && !groups.contains(&id)).then_some(id)
    };
    entries.flatten().filter_map(child).collect()
}

/// Reaps dead members of killed groups.
fn reap() {
    let mut killed = KILLED.lock().unwrap_or_else(PoisonError::into_inner);
    killed.retain(|group| {
        loop {
            match waitpid(Pid::from_raw(-group), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    });
}

/// Kills every child and waits, at most `patience`, until all have been reaped. Returns whether none is left.
pub async fn kill_and_reap_all(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        // A cancelled task may just have been starting another one.
        kill_all();
        let alive = !live().is_empty();
        if !alive && orphans(&BTreeSet::new()).is_empty() {
            return true;
        }
        if Instant::now() > deadline {
            return !alive;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Owns the child: reaps it when it exits, or kills its group once its handle asks for it.
async fn supervise(
    mut child: Child,
    group: i32,
    killed: oneshot::Receiver<()>,
    (ended, drained): (oneshot::Sender<()>, JoinHandle<()>),
    exited: watch::Sender<Option<Exit>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        // Nothing is ever sent: the sender is dropped.
        _ = killed => {
            let _gone_already = killpg(Pid::from_raw(group), Signal::SIGKILL);
            // The child may have moved to another group.
            let _gone_already = child.start_kill();
            child.wait().await
        }
    };
    // Anything that the child left behind in its group is killed, too.
    let _nothing_left = killpg(Pid::from_raw(group), Signal::SIGKILL);
    live().remove(&group);
    KILLED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(group);
    reap();
    // The reader may have finished already.
    let _ = ended.send(());
    let _read = drained.await;
    exited.send_replace(Some(status.map_or(Exit::Signal(0), Exit::from)));
}

fn matches_variable(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

fn live() -> std::sync::MutexGuard<'static, BTreeSet<i32>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that outlives the child holds the pipe open, and may go on writing.
    #[tokio::test]
    async fn stderr_is_read_while_grandchildren_hold_the_pipe() {
        let ended = || {
            let (ended, end) = oneshot::channel();
            ended.send(()).unwrap();
            end
        };
        let stderr = Stderr::default();
        let (mut pipe, reader) = tokio::io::duplex(1 << 16);
        pipe.write_all(&[b'x'; 60_000]).await.unwrap();
        stderr.clone().read_all(reader, ended()).await;
        assert_eq!(stderr.bytes().len(), 60_000);

        let stderr = Stderr::default();
        stderr
            .clone()
            .read_all(tokio::io::repeat(b'x'), ended())
            .await;
        assert!(stderr.bytes().len() >= STDERR_LEFT_BYTES_MAX);
    }
}
