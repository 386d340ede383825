//! The `ptc` command: its subcommands and their exit statuses. A library, so that it can be tested. Knows nothing of MCP.

#![forbid(unsafe_code)]

mod agent;
mod command_line;
mod doctor;
mod eval;
mod interrupt;
mod repl;
mod session;
mod start;
#[doc(hidden)]
pub mod testee;

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use ptc_lang::visible::escape_nonprinting;
use ptc_protocol::closest_of;

/// The allocator declaration that a binary running commands needs once.
pub use ptc_lang::counting_allocator;

#[cfg(test)]
counting_allocator!();

struct Command {
    name: &'static str,
    doc: &'static str,
    /// Whether it takes arguments, and so has its own help.
    explains_itself: bool,
    run: fn(&[String]) -> ExitCode,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "start",
        doc: "Serve MCP over stdio, or over HTTP with --http.",
        explains_itself: true,
        run: start::main,
    },
    Command {
        name: "doctor",
        doc: "Check the settings of `ptc start` and report what it would do.",
        explains_itself: true,
        run: doctor::run,
    },
    Command {
        name: "repl",
        doc: "Evaluate PTC-Lisp at a prompt, from files, from pipes or from -e.",
        explains_itself: true,
        run: repl::main,
    },
    Command {
        name: "eval",
        doc: "Run a program from a file, standard input or the command line.",
        explains_itself: true,
        run: eval::main,
    },
    Command {
        name: "session",
        doc: "List, show, export and delete the sessions of a store.",
        explains_itself: true,
        run: session::main,
    },
    Command {
        name: "version",
        doc: "Print the version.",
        explains_itself: false,
        run: version,
    },
    Command {
        name: "docs",
        doc: "Print every setting as a Markdown table.",
        explains_itself: false,
        run: start::docs,
    },
    Command {
        name: "agent",
        doc: "Run the agent that a file describes: ptc agent run AGENT.toml.",
        explains_itself: true,
        run: agent::main,
    },
    Command {
        name: "testee",
        doc: "Run library operations for the conformance suite, one JSON request per line.",
        explains_itself: false,
        run: testee::serve,
    },
    Command {
        name: "help",
        doc: "Print this text.",
        explains_itself: false,
        run: help,
    },
];

/// Commands that the server runs itself; not shown in the help.
#[cfg(target_os = "linux")]
const HIDDEN: &[Command] = &[Command {
    name: "worker",
    doc: "Evaluate programs for the server at the other end of standard input.",
    explains_itself: true,
    run: ptc_server::worker::main,
}];
#[cfg(not(target_os = "linux"))]
const HIDDEN: &[Command] = &[];

/// Runs the command named in `arguments` (without the program's name).
pub fn main(arguments: &[String]) -> ExitCode {
    ptc_lang::heap::tune();
    let Some((word, rest)) = arguments.split_first() else {
        print_error(usage().trim_end());
        return ExitCode::SUCCESS;
    };
    #[cfg(target_os = "linux")]
    if word == ptc_upstream::keeper::KEEPER_COMMAND {
        return ptc_upstream::keeper::keep(rest);
    }
    hide_memory();
    let word = match word.as_str() {
        "--help" | "-h" => "help",
        "--version" | "-V" => "version",
        other => other,
    };
    // An unreadable variable, possibly a token, would be treated as not set.
    if !INFORMATION.contains(&word)
        && let Some(name) = unreadable_setting()
    {
        return fail(format_args!("{name} is not UTF-8 text"));
    }
    let mut commands = COMMANDS.iter().chain(HIDDEN);
    match commands.find(|command| command.name == word) {
        Some(command) if wants_help(rest) && !command.explains_itself => help(&[word.to_owned()]),
        Some(command) => (command.run)(rest),
        None => {
            let known: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            let meant = closest_of(word, &known);
            let meant = meant.map(|name| format!("Did you mean `ptc {name}`?\n"));
            let (usage, meant) = (usage(), meant.unwrap_or_default());
            fail(format_args!(
                "{usage}\n{meant}ERROR: Unknown command {word}"
            ))
        }
    }
}

/// Commands that read no settings.
const INFORMATION: [&str; 3] = ["help", "version", "docs"];

/// A setting's variable whose value is not text.
fn unreadable_setting() -> Option<String> {
    std::env::vars_os().find_map(|(name, value)| {
        let name = name.into_string().ok()?;
        (name.starts_with("PTC_") && value.to_str().is_none()).then_some(name)
    })
}

/// Refuses the `number`th argument, which is not text.
pub fn unreadable_argument(number: usize) -> ExitCode {
    fail(format_args!("argument {number} is not UTF-8 text"))
}

/// Prevents other processes of the same user, including upstreams, from reading the credentials in this process's memory and
/// environment: no core dump, no debugger, no `/proc/PID/mem`.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
}

fn usage() -> String {
    let mut text = String::from("Usage: ptc COMMAND [FLAGS]\n\nCommands:\n");
    for command in COMMANDS {
        let _ = writeln!(text, "  {:<9} {}", command.name, command.doc);
    }
    text.push_str("\n`ptc start --help` lists the settings.\n");
    text
}

/// Whether help is requested anywhere in the arguments.
fn wants_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

/// Writes `text` to standard output and returns the exit status. On a terminal control characters are made visible; a file or a program
/// receives the text unchanged.
fn print(text: impl AsRef<[u8]>) -> ExitCode {
    match write(text.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(format_args!("cannot write to standard output: {error}")),
    }
}

/// Writes `text` to standard output.
fn write(text: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let written = match std::str::from_utf8(text) {
        Ok(text) if out.is_terminal() => out.write_all(escape_nonprinting(text).as_bytes()),
        _ => out.write_all(text),
    };
    match written.and_then(|()| out.flush()) {
        // A reader that closed the pipe has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Opens a file to be overwritten, readable only by its owner from now on.
fn open_private_file(path: impl AsRef<Path>) -> std::io::Result<File> {
    let file = open_for_writing(path.as_ref())?;
    let there = file.metadata()?;
    // The mode and length of a device or pipe are left alone.
    if there.is_file() {
        if there.permissions().mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        file.set_len(0)?;
    }
    Ok(file)
}

/// How long a pipe may have no reader.
const READER_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a pipe's reader is looked for.
const READER_TICK: Duration = Duration::from_millis(20);

/// Opens a file, or creates one that is readable only by its owner. To open a pipe would otherwise wait for a reader for ever.
fn open_for_writing(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let until = Instant::now() + READER_WAIT_MAX;
    let file = loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {
                if Instant::now() >= until || !is_pipe(path) {
                    return Err(error);
                }
                std::thread::sleep(READER_TICK);
            }
            opened => break opened?,
        }
    };
    // Only opening must not wait.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

/// Replaces the file at `path`, or the one that links from there lead to, by one with `bytes`, readable only by its owner. On failure the
/// old file is unchanged.
fn replace_private_file(path: &str, bytes: &[u8]) -> std::io::Result<()> {
    let path = &link_target(path)?;
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".{}.new", ptc_server::token::random(9)));
    let mut options = OpenOptions::new();
    let written = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&fresh, path));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

/// The number of symbolic links to follow, as in Linux.
const LINKS_MAX: usize = 40;

/// The path that the symbolic links from `path` lead to, whether or not it exists.
fn link_target(path: &str) -> std::io::Result<PathBuf> {
    let mut path = PathBuf::from(path);
    for _ in 0..LINKS_MAX {
        if !path.is_symlink() {
            return Ok(path);
        }
        let target = std::fs::read_link(&path)?;
        // An absolute target replaces the whole path.
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Errno::ELOOP.into())
}

/// Writes a message for people to standard error. If that fails, the exit status still tells.
fn print_error(message: impl std::fmt::Display) {
    let _ = writeln!(
        std::io::stderr(),
        "{}",
        escape_nonprinting(&message.to_string())
    );
}

/// Writes to standard error why a command failed.
fn fail(message: impl std::fmt::Display) -> ExitCode {
    print_error(message);
    ExitCode::FAILURE
}

/// The exit status of `eval` and `agent` for an invalid command line. The specification of the server has 1 for the other commands.
const USAGE_STATUS: u8 = 2;

/// Writes to standard error why a command line is invalid.
fn refuse(message: impl std::fmt::Display) -> ExitCode {
    print_error(message);
    ExitCode::from(USAGE_STATUS)
}

fn help(words: &[String]) -> ExitCode {
    let command = words
        .first()
        .and_then(|word| COMMANDS.iter().find(|command| command.name == word));
    match command.filter(|command| command.name != "help") {
        Some(command) if command.explains_itself => (command.run)(&["--help".to_owned()]),
        Some(command) => print(format!("Usage: ptc {}\n\n{}\n", command.name, command.doc)),
        None => print(usage()),
    }
}

fn version(_: &[String]) -> ExitCode {
    print(format!("ptc {}\n", ptc_server::version::PACKAGE_VERSION))
}

/// Looks up a variable of the process environment.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
