//! Starts the server as its settings say, serves until the input or the process ends, and ends it. Knows the order of things,
//! and no command line.

use crate::agentic::{self, Agentic};
use crate::diagnostics;
use crate::evaluation::isolation::Evaluation;
#[cfg(target_os = "linux")]
use crate::evaluation::isolation::Terms;
use crate::server::Server;
use crate::sessions::Shared;
#[cfg(target_os = "linux")]
use crate::sessions::store::Address;
use crate::settings::{HttpSettings, Settings};
use crate::transport::http;
use crate::transport::signals;
use crate::transport::stdio;
use crate::upstreams;
use ptc_secrets::{Redactor, RedactorBuilder};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The credentials that the settings themselves hold.
pub fn secrets(settings: &Settings) -> RedactorBuilder {
    let mut secrets = Redactor::builder();
    if let Some(token) = settings.http.as_ref().and_then(|http| http.token.as_ref()) {
        secrets.add(token);
    }
    if let Some(store) = &settings.sessions.store.address {
        store.add_secrets(&mut secrets);
    }
    if settings.agentic.enabled {
        agentic::register_keys(&|name| std::env::var(name).ok(), &mut secrets);
    }
    secrets
}

/// Starts everything, serves, and ends everything.
///
/// # Errors
/// The sentence to print before exiting with status 1.
pub fn serve(settings: Settings) -> Result<(), String> {
    signals::hold();
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
