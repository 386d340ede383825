//! The `ptc` command: its subcommands and their exit statuses. Knows nothing of MCP.

mod agent;
mod doctor;
mod eval;
mod repl;
mod session;
#[doc(hidden)]
pub mod testee;

use crate::agentic::{self, Agentic};
use crate::diagnostics;
use crate::evaluation::isolation::Evaluation;
#[cfg(target_os = "linux")]
use crate::evaluation::isolation::Terms;
use crate::server::Server;
use crate::sessions::Shared;
#[cfg(target_os = "linux")]
use crate::sessions::store::Address;
use crate::settings::flags::{FLAGS, FlagKind, Group};
use crate::settings::{HttpSettings, Settings};
use crate::transport::http;
use crate::transport::signals;
use crate::transport::stdio;
use crate::upstreams;
use ptc_secrets::{Redactor, RedactorBuilder};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

struct Command {
    name: &'static str,
    doc: &'static str,
    run: fn(&[String]) -> ExitCode,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "start",
        doc: "Serve MCP over stdio, or over HTTP with --http.",
        run: start,
    },
    Command {
        name: "doctor",
        doc: "Check the settings of start, and say what would happen.",
        run: crate::commands::doctor::run,
    },
    Command {
        name: "repl",
        doc: "Evaluate PTC-Lisp at a prompt, from files, from pipes or from -e.",
        run: crate::commands::repl::main,
    },
    Command {
        name: "eval",
        doc: "Run a program from a file, standard input or the command line.",
        run: crate::commands::eval::main,
    },
    Command {
        name: "session",
        doc: "List, show, export and delete the sessions of a store.",
        run: crate::commands::session::main,
    },
    Command {
        name: "version",
        doc: "Print the version.",
        run: version,
    },
    Command {
        name: "docs",
        doc: "Print every setting as a Markdown table.",
        run: docs,
    },
    Command {
        name: "agent",
        doc: "Run an agent described by a file: ptc agent run AGENT.toml.",
        run: crate::commands::agent::main,
    },
    Command {
        name: "testee",
        doc: "Answer operations of the library, one JSON line each.",
        run: crate::commands::testee::serve,
    },
    Command {
        name: "help",
        doc: "Print this text.",
        run: help,
    },
];

/// Commands that the server runs itself, and no help shows.
#[cfg(target_os = "linux")]
const HIDDEN: &[Command] = &[Command {
    name: "worker",
    doc: "Evaluate programs for the server at the other end of standard input.",
    run: crate::evaluation::isolation::worker::main,
}];
#[cfg(not(target_os = "linux"))]
const HIDDEN: &[Command] = &[];

/// Runs the command that `arguments` (without the program's name) names.
pub fn main(arguments: &[String]) -> ExitCode {
    ptc_lang::heap::tune();
    let Some((word, rest)) = arguments.split_first() else {
        eprint!("{}", usage());
        return ExitCode::SUCCESS;
    };
    #[cfg(target_os = "linux")]
    if word == ptc_upstream::keeper::WORD {
        return ptc_upstream::keeper::keep(rest);
    }
    hide_memory();
    let word = match word.as_str() {
        "--help" | "-h" => "help",
        "--version" | "-V" => "version",
        other => other,
    };
    let mut commands = COMMANDS.iter().chain(HIDDEN);
    match commands.find(|command| command.name == word) {
        Some(command) => (command.run)(rest),
        None => {
            eprint!("{}\nERROR: Unknown command {word}\n", usage());
            ExitCode::FAILURE
        }
    }
}

/// Keeps other processes of the same user, an upstream's among them, from reading the credentials in this one's memory and
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

fn print(text: &str) -> ExitCode {
    // A reader that went away has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn help(_: &[String]) -> ExitCode {
    print(&usage())
}

fn version(_: &[String]) -> ExitCode {
    print(&format!("ptc {}\n", crate::version::PACKAGE_VERSION))
}

fn start(arguments: &[String]) -> ExitCode {
    if arguments
        .iter()
        .any(|word| word == "--help" || word == "-h")
    {
        return print(&start_help());
    }
    let settings = match Settings::read(arguments, environment) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    signals::hold();
    match serve(settings) {
        // Threads of cancelled programs need not be waited for.
        Ok(()) => std::process::exit(0),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The process environment, under the names of settings.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What the settings themselves have of credentials.
fn secrets(settings: &Settings) -> RedactorBuilder {
    let mut secrets = Redactor::builder();
    if let Some(token) = settings.http.as_ref().and_then(|http| http.token.as_ref()) {
        secrets.add(token);
    }
    if let Some(store) = &settings.sessions.store.address {
        store.add_secrets(&mut secrets);
    }
    if settings.agentic.enabled {
        agentic::register_keys(&environment, &mut secrets);
    }
    secrets
}

/// Starts everything, serves, and ends everything.
fn serve(settings: Settings) -> Result<(), String> {
    let mut secrets = secrets(&settings);
    let agentic = Agentic::read(&settings.agentic)?;
    let config = upstreams::config_path(&settings);
    upstreams::check_agentic(&settings.agentic, &settings.upstreams, config.is_some())?;
    #[cfg(target_os = "linux")]
    if settings.isolated && config.is_none() {
        let traces = settings.diagnostics.trace_dir.as_deref().map(Path::new);
        // It is made here while it can be.
        if let Some(traces) = traces {
            let _ = std::fs::create_dir_all(traces);
        }
        // Threads that are started later are kept too; there are none yet.
        let store = match &settings.sessions.store.address {
            Some(Address::Directory(path)) => Some(path.as_path()),
            _ => None,
        };
        if let Some(store) = store {
            let _ = std::fs::create_dir_all(store);
        }
        let written: Vec<&Path> = traces.into_iter().chain(store).collect();
        crate::evaluation::isolation::confine_server(&written);
    }
    // Plain stdio needs no executor, and starts quicker without.
    let executor = match config.is_some() || settings.http.is_some() {
        true => Some(
            tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .map_err(|error| format!("cannot start the I/O runtime: {error}"))?,
        ),
        false => None,
    };
    let configured = config.map(|path| upstreams::read(&path, &settings, &mut secrets));
    let configured = configured.transpose()?;
    let redactor = secrets.build();
    let sinks = diagnostics::install(settings.diagnostics.level, &redactor);
    let upstreams = match (&executor, configured) {
        (Some(executor), Some(configured)) => {
            let started = executor.block_on(configured.start(redactor.clone()));
            // What the upstreams said may tell why.
            let started = started.inspect_err(|_| sinks.flush());
            Some(started.map_err(|fault| fault.to_string())?)
        }
        _ => None,
    };
    let mut server = Server::new(settings, sinks, redactor, upstreams, agentic);
    let shares = server.settings.sessions.enabled || server.settings.http.is_some();
    if shares && server.settings.sessions.store.address.is_some() {
        let limit = Duration::from_millis(server.programs.timeout_ms);
        let opened = Shared::open(&server.settings.sessions, limit);
        let shared = opened.map_err(|message| server.redactor.scrub(message).into_inner())?;
        let server = Arc::get_mut(&mut server).ok_or("the server is shared before it is served")?;
        server.sessions.keep_in(shared);
    }
    if server.settings.isolated {
        let started = evaluation(&server);
        let server = Arc::get_mut(&mut server).ok_or("the server is shared before it is served")?;
        server.programs.evaluation = started?;
        server.log_isolation();
    }
    let handle = executor.as_ref().map(|executor| executor.handle().clone());
    let served = match (&executor, server.settings.http.clone()) {
        (Some(executor), Some(http)) => serve_http(executor, server.clone(), http),
        _ => serve_stdio(&server, handle.clone()),
    };
    server.shut_down(handle.as_ref());
    served
}

/// Starts the processes that evaluate.
#[cfg(target_os = "linux")]
fn evaluation(server: &Server) -> Result<Evaluation, String> {
    Evaluation::in_processes(Terms {
        places: server.settings.concurrent_calls,
        memory_bytes: server.programs.memory_bytes,
        time_ms: server.programs.timeout_ms,
    })
}

#[cfg(not(target_os = "linux"))]
fn evaluation(_: &Server) -> Result<Evaluation, String> {
    Err("--isolation=process needs Linux".into())
}

fn serve_http(
    executor: &tokio::runtime::Runtime,
    server: Arc<Server>,
    settings: HttpSettings,
) -> Result<(), String> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    signals::watch(move || {
        // A second signal finds the drain under way.
        let _ = stop.send(true);
    });
    executor.block_on(http::serve(server, settings, stopped))
}

fn serve_stdio(
    server: &Arc<Server>,
    executor: Option<tokio::runtime::Handle>,
) -> Result<(), String> {
    let ending = server.clone();
    signals::watch(move || {
        ending.shut_down(executor.as_ref());
        std::process::exit(0);
    });
    // Unbuffered: every reply is one write.
    let own = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(File::from);
    let input = own(std::io::stdin().as_fd())
        .map_err(|error| format!("cannot read from stdin: {error}"))?;
    let output = own(std::io::stdout().as_fd())
        .map_err(|error| format!("cannot write to stdout: {error}"))?;
    stdio::serve(server, Box::new(input), Box::new(output))
}

fn start_help() -> String {
    let mut text = String::from(
        "Usage: ptc start [FLAGS]\n\nServes MCP over stdio, or over HTTP with --http. A flag beats its environment variable.\n\
         Booleans: --NAME, --no-NAME or --NAME=true.\n",
    );
    for group in Group::ALL {
        let _ = writeln!(text, "\n{}:", group.title());
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            let _ = writeln!(text, "  --{}{}", flag.name, flag.kind.placeholder());
            let _ = writeln!(text, "      {}", flag.doc);
            if let FlagKind::OneOf(..) | FlagKind::OneOfOrDefault(..) | FlagKind::Clamped { .. } =
                flag.kind
            {
                let _ = writeln!(text, "      Takes {}.", flag.kind.expected());
            }
            let mut default = flag.default_text();
            if default.is_empty() {
                default = "unset".into();
            }
            let _ = writeln!(
                text,
                "      Default: {default}. Environment: {}",
                flag.env()
            );
        }
    }
    text
}

fn docs(_: &[String]) -> ExitCode {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(
            text,
            "### {}\n\n| Flag | Environment | Default | Meaning |\n|---|---|---|---|",
            group.title()
        );
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            let _ = writeln!(
                text,
                "| `--{}` | `{}` | {} | {} |",
                flag.name,
                flag.env(),
                flag.default_text().replace('|', "\\|"),
                flag.doc.replace('|', "\\|")
            );
        }
        text.push('\n');
    }
    print(&text)
}
