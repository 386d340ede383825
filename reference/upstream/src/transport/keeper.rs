//! The process between the server and a stdio upstream's command. Its one purpose: whatever the command starts ends with the
//! command and with the server, however either ends.
//!
//! A process that calls `setsid` leaves its group, and a process whose parent dies is handed to init: a server that is killed
//! can't find either again. The keeper is the reaper of its descendants, so none escapes, and the kernel signals it when the
//! server's launching thread ends. The command's standard streams bypass the keeper. Knows nothing of what is sent over them.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getpid, getppid};

use crate::limits::CHILD_GRACE;

/// The first word of a command line that makes a process a keeper.
pub const KEEPER_COMMAND: &str = "keep-upstream";
/// The executable of this process, whatever happened to its file since.
pub(super) const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// Marks the command's own process before it becomes the command.
const INNER_FLAG: &str = "--inner";
/// "Kill everything now". `SIGKILL` can't mean that: it would end the keeper alone.
pub(super) const KILL_ALL: Signal = Signal::SIGUSR1;
/// How long descendants may keep writing after the command itself ended.
const DRAIN: Duration = Duration::from_millis(50);
/// Maximum searches for descendants before the keeper gives up, and the pause between two searches.
const ROUNDS_MAX: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum rounds of stopping running processes before they are killed anyway.
const STOP_ROUNDS_MAX: usize = 20;
/// A shell's exit statuses for a command that can't be run, and for one that does not exist.
const NOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Added to a signal's number to give a shell's exit status for a process that the signal ended.
const BY_SIGNAL: u8 = 128;

/// Keeps the command of `arguments` (after [`KEEPER_COMMAND`]: the id of the expected parent process, then the command), and ends as the
/// command ended.
pub fn keep(arguments: &[String]) -> ExitCode {
    let (inner, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == INNER_FLAG => (true, rest),
        _ => (false, arguments),
    };
    let parent = arguments.first().and_then(|id| id.parse().ok());
    let (Some(parent), Some(command @ [_, ..])) = (parent, arguments.get(1..)) else {
        let _ = writeln!(
            std::io::stderr(),
            "{KEEPER_COMMAND} is for the server's own use"
        );
        return ExitCode::FAILURE;
    };
    let parent = Pid::from_raw(parent);
    match inner {
        true => become_command(parent, command),
        false => watch_over(parent, command),
    }
}

/// Turns this process into the command, which is killed with the keeper.
fn become_command(keeper: Pid, command: &[String]) -> ExitCode {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    if getppid() != keeper {
        return ExitCode::FAILURE;
    }
    // The command would inherit the signals that the keeper and the server block for themselves.
    let _ = SigSet::empty().thread_set_mask();
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    let _ = writeln!(std::io::stderr(), "{}: {error}", command[0]);
    ExitCode::from(match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    })
}

fn watch_over(server: Pid, command: &[String]) -> ExitCode {
    let signals = awaited_signals();
    // Blocked signals stay pending for `wait` below.
    let _ = signals.thread_block();
    let _ = prctl::set_child_subreaper(true);
    let _ = prctl::set_pdeathsig(Signal::SIGTERM);
    // The server may have ended before the death signal was set.
    if getppid() != server {
        return ExitCode::FAILURE;
    }
    let spawned = Command::new(OWN_EXECUTABLE)
        .args([KEEPER_COMMAND, INNER_FLAG, &getpid().to_string()])
        .args(command)
        .process_group(0)
        .spawn();
    let child = match spawned {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}: {error}", command[0]);
            return ExitCode::from(NOT_RUN);
        }
    };
    release_streams();
    let mut ending = false;
    loop {
        let status = match signals.wait() {
            Ok(Signal::SIGCHLD) => match reap(child).child {
                None => continue,
                status => {
                    if !descendants().is_empty() {
                        std::thread::sleep(DRAIN);
                    }
                    kill_descendants(child);
                    status
                }
            },
            Ok(KILL_ALL) => kill_descendants(child),
            Ok(_) if ending => continue,
            Ok(_) => {
                ending = true;
                let _ = killpg(child, Signal::SIGTERM);
                let _ = std::thread::Builder::new().spawn(|| {
                    std::thread::sleep(CHILD_GRACE);
                    let _ = kill(getpid(), KILL_ALL);
                });
                continue;
            }
            Err(_) => kill_descendants(child),
        };
        return exit_like(status.unwrap_or(WaitStatus::StillAlive));
    }
}

fn awaited_signals() -> SigSet {
    [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        KILL_ALL,
        Signal::SIGCHLD,
    ]
    .into_iter()
    .collect()
}

/// Closes the keeper's copies of the command's streams, so that only the command and its descendants hold them open.
fn release_streams() {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    if let Ok(null) = null {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}

struct Reaped {
    /// How the command ended, if it was among the reaped processes.
    child: Option<WaitStatus>,
    others_left: bool,
}

/// Reaps every child that ended.
fn reap(child: Pid) -> Reaped {
    let mut reaped = Reaped {
        child: None,
        others_left: false,
    };
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                reaped.others_left = true;
                return reaped;
            }
            Ok(status) if status.pid() == Some(child) => reaped.child = Some(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return reaped,
        }
    }
}

/// Kills all descendants of this process; returns how `child` ended, unless it had ended before. Running processes are stopped
/// first: one that forks faster than it is killed would escape forever. All are reaped here: where process 1 is no init, as in
/// many containers, a zombie that this process leaves would remain, and its id would look alive.
fn kill_descendants(child: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    for _ in 0..ROUNDS_MAX {
        for _ in 0..STOP_ROUNDS_MAX {
            let running: Vec<Descendant> = descendants()
                .into_iter()
                .filter(|found| !found.held)
                .collect();
            if running.is_empty() {
                break;
            }
            for found in running {
                let _ = kill(found.id, Signal::SIGSTOP);
            }
        }
        for found in descendants() {
            let _ = kill(found.id, Signal::SIGKILL);
        }
        let reaped = reap(child);
        ended = reaped.child.or(ended);
        if !reaped.others_left && descendants().is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    ended
}

/// A living descendant of this process.
struct Descendant {
    id: Pid,
    held: bool,
}

fn descendants() -> Vec<Descendant> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut all: Vec<(i32, i32, char)> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // A process name may contain anything, including brackets and blanks, but the last bracket ends the name.
            let mut behind = stat.rsplit_once(')')?.1.split_ascii_whitespace();
            let state = behind.next()?.chars().next()?;
            Some((id, behind.next()?.parse().ok()?, state))
        })
        .collect();
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw()];
    while let Some(parent) = parents.pop() {
        all.retain(|&(id, its_parent, state)| {
            if its_parent != parent {
                return true;
            }
            parents.push(id);
            // A zombie is dead; its children, if any, already have another parent.
            if !matches!(state, 'Z' | 'X') {
                found.push(Descendant {
                    id: Pid::from_raw(id),
                    held: matches!(state, 'T' | 't'),
                });
            }
            false
        });
    }
    found
}

/// Ends this process as the command ended.
fn exit_like(status: WaitStatus) -> ExitCode {
    match status {
        WaitStatus::Exited(_, code) => ExitCode::from(code.to_le_bytes()[0]),
        WaitStatus::Signaled(_, signal, _) => {
            // One core dump is enough.
            let _ = prctl::set_dumpable(false);
            let _ = SigSet::all().thread_unblock();
            let _ = raise(signal);
            // Reached when the signal is ignored here.
            ExitCode::from(BY_SIGNAL + (signal as i32).to_le_bytes()[0])
        }
        _ => ExitCode::from(BY_SIGNAL + (Signal::SIGKILL as i32).to_le_bytes()[0]),
    }
}
