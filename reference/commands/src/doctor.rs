//! `ptc doctor`: reads the settings like `ptc start`, checks them, and reports what would happen.
//!
//! Serves nothing and changes nothing; upstream servers are started and stopped. Its flags are all flags of `ptc start`, so
//! [`Settings::read`] reads them, too: rows of its own would be a second list of the settings.

use crate::start::secrets_named_in;
use crate::{environment, print, wants_help};
use ptc_outbound::executor;
use ptc_secrets::{Redactor, SCRUB_TIME_MAX};
use ptc_server::facts;
use ptc_server::settings::flags;
use ptc_server::settings::{HttpSettings, Level, Settings, Warning};
use ptc_server::start;
use ptc_server::token;
use ptc_server::upstreams;
use ptc_server::{Agentic, Server};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;

/// The findings, line by line.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    failed: bool,
    /// The secrets that no line may show.
    redactor: Redactor,
}

impl Findings {
    fn note(&mut self, mark: &str, text: &str) {
        self.failed |= mark == FAIL;
        let line = format!("{mark} {text}");
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }
}

const USAGE: &str = "\
Usage: ptc doctor [FLAGS OF START]

Reads flags and environment as `ptc start` does, checks them, and reports what it would do: settings, address, session store,
upstream servers with their tools, limits. It serves no requests and changes nothing, but starts and stops the upstream servers.

`ptc start --help` lists the flags. Exit status: 0 when `ptc start` would start, 1 when it would not.
";

const OK: &str = "ok  ";
const WARN: &str = "warn";
const FAIL: &str = "FAIL";

/// The log level: the findings already include each warning.
const LOG_LEVEL: Level = Level::Error;

/// Checks the settings in `arguments` and the environment. Exit status 1 when `ptc start` would not start.
pub fn run(arguments: &[String]) -> ExitCode {
    if wants_help(arguments) {
        return print(USAGE);
    }
    let mut findings = Findings::default();
    examine(arguments, &mut findings);
    let verdict = match findings.failed {
        true => "`ptc start` would not start with these settings.",
        false => "`ptc start` would start with these settings.",
    };
    findings.lines.push(verdict.to_owned());
    // Continuation lines are indented so that they don't look like findings. A credential may have several lines, so scrubbing comes
    // first.
    let shown = findings.lines.iter().map(|line| {
        let line = findings.redactor.scrub_str(line);
        line.replace('\n', "\n     ") + "\n"
    });
    let text = findings.redactor.scrub(shown.collect::<String>());
    let written = print(&*text);
    match findings.failed {
        true => ExitCode::FAILURE,
        false => written,
    }
}

fn examine(arguments: &[String], findings: &mut Findings) {
    let settings = match Settings::read(arguments, environment) {
        Ok(settings) => settings,
        Err(refused) => {
            findings.redactor = secrets_named_in(&refused.settings);
            return findings.note(FAIL, &refused.to_string());
        }
    };
    // All secrets must be known before anything is printed. Each file is read once, because it may be readable only once.
    let mut secrets = start::secrets(&settings);
    let config = upstreams::config_path(&settings).map(|path| {
        (
            upstreams::read_with_all_faults(&path, &settings, &mut secrets),
            path,
        )
    });
    findings.redactor = secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX);
    findings.note(OK, "flags and environment");
    for warning in &settings.warnings {
        findings.note(WARN, &describe_warning(warning));
    }
    stray_variables(findings);
    match &settings.http {
        None => findings.note(OK, "transport: stdio"),
        Some(http) => check_listener(http, findings),
    }
    check_store(&settings, findings);
    if let Some(dir) = &settings.diagnostics.trace_dir {
        check_trace_directory(dir, findings);
    }
    let agentic = match Agentic::read(&settings.agentic) {
        Ok(agentic) => agentic,
        Err(fault) => return findings.note(FAIL, &fault.to_string()),
    };
    if let Err(fault) =
        upstreams::check_agentic(&settings.agentic, &settings.upstreams, config.is_some())
    {
        findings.note(FAIL, &fault.to_string());
    }
    let Some(((configured, refused), path)) = config else {
        findings.note(OK, "upstream servers: none");
        let redactor = findings.redactor.clone();
        let sinks = ptc_server::install_diagnostics(LOG_LEVEL, &redactor);
        return check_limits(
            &Server::new(settings, sinks, redactor, None, agentic),
            findings,
        );
    };
    for fault in &refused {
        findings.note(FAIL, &format!("upstream servers: {fault}"));
    }
    let Some(configured) = configured else { return };
    let executor = match executor::with_threads(usize::MAX) {
        Ok(executor) => executor,
        Err(error) => {
            return findings.note(FAIL, &format!("cannot start the I/O runtime: {error}"));
        }
    };
    match executor.block_on(configured.start_with_all_faults(findings.redactor.clone())) {
        Err(faults) => {
            for fault in faults {
                findings.note(FAIL, &format!("upstream servers: {fault}"));
            }
        }
        // The upstreams that start have to be shut down, too.
        Ok(runtime) if !refused.is_empty() => executor.block_on(runtime.shutdown()),
        Ok(runtime) => {
            let names: Vec<&str> = runtime.names().collect();
            let names = match names.is_empty() {
                true => "none".to_owned(),
                false => names.join(", "),
            };
            let servers = format!("upstream servers from {}: {names}", path.display());
            findings.note(OK, &servers);
            for (server, tools) in runtime.toolsets() {
                let summary = tools.as_ref().map(|tools| tools.summary());
                let summary = summary.unwrap_or_else(|| "no tools".to_owned());
                findings.note(OK, &format!("  {server}: {summary}"));
                for omission in tools.iter().flat_map(|tools| tools.omissions()) {
                    findings.note(WARN, &format!("  {server}: {omission}"));
                }
            }
            for warning in runtime.warnings() {
                findings.note(WARN, &warning);
            }
            let redactor = runtime.redactor().clone();
            let sinks = ptc_server::install_diagnostics(LOG_LEVEL, &redactor);
            let server = Server::new(settings, sinks, redactor, Some(runtime), agentic);
            check_limits(&server, findings);
            server.shut_down(Some(executor.handle()));
        }
    }
}

fn describe_warning(warning: &Warning) -> String {
    match warning {
        Warning::Ignored(ignored) => format!(
            "--{}: expected {}, got {:?}; {} is used",
            ignored.flag, ignored.expected, ignored.got, ignored.using
        ),
        Warning::Clamped {
            flag,
            requested,
            used,
            ..
        } => format!("--{flag}: {requested} is out of range; {used} is used"),
    }
}

/// Reports variables that look like settings but are unknown.
fn stray_variables(findings: &mut Findings) {
    let known: Vec<String> = flags::FLAGS.iter().map(flags::Flag::env).collect();
    let mut strays: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(flags::ENV_PREFIX) && !known.contains(name))
        .collect();
    strays.sort();
    for name in strays {
        findings.note(
            WARN,
            &format!("{name} is set, but no setting has that name"),
        );
    }
}

fn check_listener(http: &HttpSettings, findings: &mut Findings) {
    let address = std::net::SocketAddr::new(http.host.0, http.port);
    match std::net::TcpListener::bind(address) {
        Ok(_) => findings.note(
            OK,
            &format!("transport: HTTP at http://{address}{}", http.path),
        ),
        Err(error) => findings.note(
            FAIL,
            &format!("cannot listen on {address} (--http-host, --http-port): {error}"),
        ),
    }
    let auth = match (&http.token, http.checked_token().is_some()) {
        (_, true) => "a bearer token is required",
        (Some(_), false) => "the token is not checked (--http-disable-auth)",
        (None, _) => "no token; only this machine can connect",
    };
    findings.note(OK, &format!("authentication: {auth}"));
}

/// Checks the session store without changing it.
fn check_store(settings: &Settings, findings: &mut Findings) {
    let sessions = &settings.sessions;
    if sessions.store.address.is_some() && !sessions.enabled && settings.http.is_none() {
        return findings.note(WARN, "session store: not used without --sessions or --http");
    }
    match ptc_server::examine_store(sessions) {
        Ok(None) => {}
        Ok(Some((line, warnings))) => {
            findings.note(OK, &line);
            for warning in warnings {
                findings.note(WARN, &format!("  {warning}"));
            }
        }
        Err(fault) if sessions.store.optional => findings.note(
            WARN,
            &format!("{fault}; it is looked for again (--session-store-optional)"),
        ),
        Err(fault) => findings.note(FAIL, &fault.to_string()),
    }
}

fn check_trace_directory(dir: &str, findings: &mut Findings) {
    match try_directory(Path::new(dir)) {
        Ok(()) => findings.note(OK, &format!("traces go to {dir}")),
        Err(error) => findings.note(
            WARN,
            &format!("--trace-dir {dir}: {error}; calls would be served without traces"),
        ),
    }
}

/// Whether a file can be created in `dir`. The file and any directories created for it are removed again.
fn try_directory(dir: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .collect();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let path = dir.join(format!(".ptc-doctor-{}", token::random(9)));
    // The random name ensures that only this file is touched, even in a shared directory.
    let written = made
        .and_then(|()| File::create_new(&path))
        .and_then(|_| fs::remove_file(&path));
    for dir in missing {
        // A directory that was not created, or that others have used since, stays.
        let _ = fs::remove_dir(dir);
    }
    written
}

fn check_limits(server: &Server, findings: &mut Findings) {
    let settings = &server.settings;
    let program = server.program_limits();
    let names: Vec<&str> = facts::listed_tools(server).collect();
    findings.note(OK, &format!("tools: {}", names.join(", ")));
    findings.note(
        OK,
        &format!(
            "response profile {}; {} calls at once; a program may take {} ms and {} bytes of memory",
            settings.profile.name(),
            settings.concurrent_calls,
            program.timeout.as_millis(),
            program.memory_bytes
        ),
    );
}
