//! Starts the server as its settings say, serves until the end of the input or a signal, and shuts everything down. Knows the order of
//! these steps, and no command line.

mod boot_log;

use crate::agentic::{self, Agentic};
use crate::diagnostics;
use crate::evaluation::Programs;
#[cfg(target_os = "linux")]
use crate::evaluation::isolation::WorkerSettings;
use crate::evaluation::isolation::{Evaluation, IsolationFault};
use crate::evaluation::pool::ThreadPool;
use crate::server::{Server, ServerParts};
#[cfg(target_os = "linux")]
use crate::sessions::store::Address;
use crate::sessions::{Sessions, SharedSessions, StoreOpenError};
use crate::settings::{HttpSettings, Settings};
use crate::transport::http::{self, ListenFault};
use crate::transport::signals::{self, Signals};
use crate::transport::stdio::{self, StdioFault};
use crate::upstreams;
use ptc_secrets::{ConfigFault, Redactor, RedactorBuilder, SCRUB_TIME_MAX, Scrubbed};
use ptc_upstream::StartFault;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Why a server does not start, as a message for operators, without credentials.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Agentic(Scrubbed<String>),
    #[error(transparent)]
    Config(#[from] ConfigFault),
    #[error(transparent)]
    Upstream(#[from] StartFault),
    #[error(transparent)]
    Isolation(#[from] IsolationFault),
    #[error(transparent)]
    Listen(#[from] ListenFault),
    #[error("{0}")]
    SessionStore(Scrubbed<String>),
    #[error("cannot start the I/O runtime: {0}")]
    Executor(io::Error),
    #[error(transparent)]
    Stdio(#[from] StdioFault),
}

/// The credentials in the settings themselves.
pub fn secrets(settings: &Settings) -> RedactorBuilder {
    let mut secrets = Redactor::builder();
    if let Some(token) = settings.http.as_ref().and_then(|http| http.token.as_ref()) {
        secrets.add(token);
    }
    if let Some(store) = &settings.sessions.store.address {
        store.add_secrets(&mut secrets);
    }
    let environment = |name: &str| std::env::var(name).ok();
    if settings.agentic.enabled {
        agentic::register_keys(&environment, &mut secrets);
    }
    #[cfg(feature = "otlp")]
    crate::diagnostics::otlp::register_logins(&environment, &mut secrets);
    secrets
}

/// Starts everything, serves, and shuts everything down.
///
/// # Errors
/// Why the server cannot start.
pub fn serve(settings: Settings) -> Result<(), StartError> {
    signals::block();
    let mut secrets = secrets(&settings);
    let agentic = Agentic::read(&settings.agentic);
    let config = upstreams::config_path(&settings);
    let permitted =
        upstreams::check_agentic(&settings.agentic, &settings.upstreams, config.is_some());
    #[cfg(target_os = "linux")]
    if settings.isolated && config.is_none() {
        let traces = settings.diagnostics.trace_dir.as_deref().map(Path::new);
        // The directory is created while this process may still create it.
        if let Some(traces) = traces {
            let _ = std::fs::create_dir_all(traces);
        }
        // The confinement also applies to threads that are started later; there are none yet.
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
    // An upstream may be slow to start. Everything that was started ends with this process.
    let signals = Signals::watch(|| std::process::exit(0));
    // Plain stdio needs no executor, and starts faster without one.
    let executor = match config.is_some() || settings.http.is_some() {
        true => {
            Some(ptc_outbound::executor::with_threads(usize::MAX).map_err(StartError::Executor)?)
        }
        false => None,
    };
    let configured = config.map(|path| upstreams::read(&path, &settings, &mut secrets));
    let redactor = secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX);
    // The message may quote a setting, and the setting a credential of the config.
    let agentic = agentic
        .and_then(|agentic| permitted.map(|()| agentic))
        .map_err(|fault| StartError::Agentic(redactor.scrub(fault.to_string())))?;
    let configured = configured.transpose()?;
    let sinks = diagnostics::install(settings.diagnostics.level, &redactor);
    let upstreams = match (&executor, configured) {
        (Some(executor), Some(configured)) => {
            let started = executor.block_on(configured.start(redactor.clone()));
            // The messages of the upstreams may tell why.
            let started = started.inspect_err(|_| sinks.flush());
            Some(started?)
        }
        _ => None,
    };
    boot_log::settings(&settings, upstreams.as_deref(), &agentic);
    let mut programs = Programs::new(&settings, redactor.clone(), upstreams);
    let store = session_store(&settings, &programs)
        .map_err(|fault| StartError::SessionStore(redactor.scrub(fault.to_string())))?;
    if settings.isolated {
        programs.evaluation = evaluation(&settings, &programs)?;
        boot_log::isolation(&programs.evaluation, settings.concurrent_calls);
    }
    let server = Server::of(ServerParts {
        programs,
        sessions: Sessions::new(settings.sessions.clone(), store),
        pool: ThreadPool::new(settings.concurrent_calls),
        settings,
        sinks,
        redactor,
        agentic,
    });
    let handle = executor.as_ref().map(|executor| executor.handle().clone());
    let served = match (&executor, server.settings.http.clone()) {
        (Some(executor), Some(http)) => serve_http(executor, server.clone(), http, &signals),
        _ => serve_stdio(&server, handle.clone(), &signals),
    };
    server.shut_down(handle.as_ref());
    served
}

/// Opens the store of sessions, where there are sessions and the settings name one.
fn session_store(
    settings: &Settings,
    programs: &Programs,
) -> Result<Option<Arc<SharedSessions>>, StoreOpenError> {
    match settings.sessions.enabled || settings.http.is_some() {
        true => {
            let limit = Duration::from_millis(programs.timeout_ms);
            SharedSessions::open(&settings.sessions, limit)
        }
        false => Ok(None),
    }
}

/// Starts the worker processes.
#[cfg(target_os = "linux")]
fn evaluation(settings: &Settings, programs: &Programs) -> Result<Evaluation, IsolationFault> {
    Evaluation::start_processes(WorkerSettings {
        places: settings.concurrent_calls,
        memory_bytes: programs.memory_bytes,
        time_ms: programs.timeout_ms,
    })
}

#[cfg(not(target_os = "linux"))]
fn evaluation(_: &Settings, _: &Programs) -> Result<Evaluation, IsolationFault> {
    Err(IsolationFault::System)
}

fn serve_http(
    executor: &tokio::runtime::Runtime,
    server: Arc<Server>,
    settings: HttpSettings,
    signals: &Signals,
) -> Result<(), StartError> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    signals.set_action(move || {
        // A second signal finds the drain under way.
        let _ = stop.send(true);
    });
    executor.block_on(http::serve(server, settings, stopped))?;
    Ok(())
}

fn serve_stdio(
    server: &Arc<Server>,
    executor: Option<tokio::runtime::Handle>,
    signals: &Signals,
) -> Result<(), StartError> {
    let ending = server.clone();
    signals.set_action(move || {
        ending.shut_down(executor.as_ref());
        std::process::exit(0);
    });
    // Unbuffered: every reply is one write.
    let own = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(File::from);
    let input = own(io::stdin().as_fd()).map_err(StdioFault::Input)?;
    let output = own(io::stdout().as_fd()).map_err(StdioFault::Output)?;
    stdio::serve(server, Box::new(input), Box::new(output))?;
    Ok(())
}
