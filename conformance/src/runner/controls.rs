//! Plays the steps that every transport supports: waits, signals, exits, peers, logs and traces.
//! Does not know how frames are transported; whatever depends on that, it asks the [`ControlContext`] of the exchange.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::open::findings::Findings;
use super::open::play::expect_no_finding;
use super::transcript::{Record, Stop, differs, harness};
use crate::files;
use crate::json::Json;
use crate::judge;
use crate::peer::case_peers;
use crate::suite::{Control, LineMatch};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::process::{Exit, ProcessHandle};

/// How often logs and traces are polled while a line is awaited.
const POLL: Duration = Duration::from_millis(5);
/// How long a log or trace line is awaited, before multiplication by the target's patience factor.
const LINE_WAIT: Duration = Duration::from_secs(5);

/// What control steps act on: a process of its own, a listening server, an open connection.
pub trait ControlContext {
    fn record(&mut self) -> &mut Record;
    fn patience(&self) -> Patience;
    /// The target's process.
    ///
    /// # Errors
    /// The case's result when `control` needs a process and the harness started none.
    fn process(&self, control: &Control) -> Result<Arc<ProcessHandle>, Stop>;
    /// The files of the case.
    ///
    /// # Errors
    /// The case's result when `control` needs files and there are none.
    fn files(&self, control: &Control) -> Result<CaseFiles, Stop>;
    /// The findings of an open exchange.
    fn findings(&self) -> Option<&Findings> {
        None
    }
    async fn end_input(&mut self);
    /// Expects that no output arrives for this time.
    async fn expect_silence(&mut self, line: u32, time: Duration) -> Result<(), Stop>;
    /// Called when a step has seen the process exit as expected.
    async fn on_exit(&mut self, _line: u32) -> Result<(), Stop> {
        Ok(())
    }
}

/// Where a started target and its peers write files.
pub struct CaseFiles {
    /// The case's own directory; peers leave notes in it.
    pub directory: PathBuf,
    /// The directory for traces, if the target block asks for traces.
    pub traces: Option<PathBuf>,
}

/// Waits, and notes it in the record.
pub async fn wait(record: &mut Record, time: Duration) {
    record.note(&format!("wait {} ms", time.as_millis()));
    tokio::time::sleep(time).await;
}

/// Plays one control step, at `line` of the fixture.
///
/// # Errors
/// When the result is not what the case expects, or the exchange lacks what the step acts on.
pub async fn play<C: ControlContext>(
    context: &mut C,
    line: u32,
    control: &Control,
) -> Result<(), Stop> {
    match control {
        Control::Wait { ms } => {
            wait(context.record(), Duration::from_millis(*ms)).await;
            Ok(())
        }
        Control::Silence { ms } => {
            context
                .expect_silence(line, Duration::from_millis(*ms))
                .await
        }
        Control::Eof => {
            context.process(control)?;
            context.record().note("end of input");
            context.end_input().await;
            Ok(())
        }
        Control::Signal { name } => {
            let signal = format!("SIG{name}").parse::<Signal>();
            let signal = signal.map_err(|_| harness(format!("no signal is called {name}")))?;
            let process = context.process(control)?;
            context.record().note(&format!("signal {name}"));
            let sent = process.signal(signal);
            sent.map_err(|_| differs(line, "signal", "a running process", "it had ended"))
        }
        Control::Exit { status, within_ms } => {
            let process = context.process(control)?;
            let patience = context.patience();
            let waited = patience.within(*within_ms, patience.exit);
            let Ok(exit) = tokio::time::timeout(waited, process.exited()).await else {
                return Err(Stop::Fault(Fault::StillRunning { waited }));
            };
            context.record().note(&exit.to_string());
            if let Some(status) = status.filter(|status| exit != Exit::Code(*status)) {
                let expected = format!("exit status {status}");
                return Err(differs(line, "exit", &expected, &exit.to_string()));
            }
            context.on_exit(line).await
        }
        Control::Log {
            present,
            line: wanted,
        } => {
            let process = context.process(control)?;
            let log = || process.stderr().text();
            expect_line(context, line, "log", *present, wanted, log).await
        }
        Control::Trace {
            present,
            line: wanted,
        } => {
            let Some(directory) = context.files(control)?.traces else {
                return Err(harness("the target block names no `trace_dir`"));
            };
            let traces = || files_in(&directory);
            expect_line(context, line, "trace", *present, wanted, traces).await
        }
        Control::Never { finding } => match context.findings() {
            Some(findings) => expect_no_finding(line, finding, findings),
            None => Err(harness("`never` stands in open exchanges only")),
        },
        Control::KillPeer { peer } => {
            let files = context.files(control)?;
            context.record().note(&format!("kill peer {peer}"));
            case_peers::kill_peer(&files.directory, peer)
                .map_err(|error| harness(error.to_string()))
        }
        Control::PeerReceived {
            peer,
            present,
            pattern,
        } => {
            let directory = context.files(control)?.directory;
            if case_peers::received(&directory, peer).is_none() {
                return Err(harness(format!("the target block names no peer `{peer}`")));
            }
            let wanted = LineMatch::Json(pattern.clone());
            let what = format!("peer {peer}");
            let received = || case_peers::received(&directory, peer).unwrap_or_default();
            expect_line(context, line, &what, *present, &wanted, received).await
        }
    }
}

/// Looks for a line in `source`: waits for a wanted one, judges an unwanted one at once.
async fn expect_line<C: ControlContext>(
    context: &mut C,
    line: u32,
    what: &str,
    present: bool,
    wanted: &LineMatch,
    source: impl Fn() -> String,
) -> Result<(), Stop> {
    let deadline = Instant::now() + context.patience().stretched(LINE_WAIT);
    loop {
        let text = source();
        for candidate in text.lines() {
            let captures = &mut context.record().captures;
            let found = judge::line(wanted, candidate, captures)
                .map_err(|error| harness(error.to_string()))?;
            if found && present {
                return Ok(());
            }
            if found {
                let expected = format!("no line like {}", shown(wanted));
                return Err(differs(line, what, &expected, candidate));
            }
        }
        if !present {
            return Ok(());
        }
        if Instant::now() > deadline {
            let lines = text.lines().count();
            let expected = format!("a line like {}", shown(wanted));
            let last: Vec<&str> = text.lines().rev().take(5).collect();
            let observed = format!("none of {lines} lines; the last ones: {}", last.join(" | "));
            return Err(differs(line, what, &expected, &observed));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The contents of all files in a directory, ordered by name, each preceded by a line with its permissions.
fn files_in(directory: &Path) -> String {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    let mut all = String::new();
    for path in &paths {
        let text = files::read_left_file(path, files::SETTINGS_BYTES_MAX);
        let (Some(text), Ok(data)) = (text, std::fs::metadata(path)) else {
            continue;
        };
        let file = Json::from(
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .as_ref(),
        );
        let mode = data.permissions().mode() & 0o777;
        all.push_str(&format!("{{\"file\":{file},\"mode\":\"{mode:03o}\"}}\n"));
        all.push_str(&String::from_utf8_lossy(&text));
        all.push('\n');
    }
    all
}

fn shown(wanted: &LineMatch) -> String {
    match wanted {
        LineMatch::Json(pattern) => pattern.source(),
        LineMatch::Regex(regex) => format!("/{regex}/"),
    }
}
