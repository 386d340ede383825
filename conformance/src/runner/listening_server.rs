//! Steps that act on the process of a listening server rather than on a connection to it.
//! Shared by cases that are played over HTTP; knows nothing of requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::suite::Control;
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::pipe::Pipe;
use crate::target::process::ProcessHandle;
use crate::verdict::Verdict;

use super::case_source;
use super::controls::{self, CaseFiles, ControlContext};
use super::open::findings::Findings;
use super::transcript::{Record, Stop};

/// Why a case is not played against a server that the harness did not start.
pub const ALREADY_RUNNING: &str = "a server that runs already is not shut down";

/// Whether a frame asks the server to exit.
pub fn asks_to_exit(frame: &str) -> bool {
    frame.contains("\"shutdown\"") || frame.contains("\"exit\"")
}

/// A listening server.
#[derive(Debug)]
pub struct ListeningServer {
    pub process: Option<Pipe>,
    /// The directory for traces.
    pub traces: Option<PathBuf>,
    /// The case's own directory; peers leave notes in it.
    pub directory: PathBuf,
}

impl ListeningServer {
    /// Plays a control step of an exchange with the server.
    pub async fn control(
        &self,
        record: &mut Record,
        line: u32,
        control: &Control,
        patience: Patience,
        findings: Option<&Findings>,
    ) -> Result<(), Stop> {
        let mut exchange = ServerControls {
            server: self,
            record,
            patience,
            findings,
        };
        controls::play(&mut exchange, line, control).await
    }

    /// Output on the server's standard output, where nothing is expected.
    pub fn unexpected_output(&self) -> Option<Fault> {
        self.process.as_ref()?.strays().into_iter().next()
    }

    /// The server's standard error.
    pub fn stderr(&self) -> String {
        let process = self.process.as_ref();
        process
            .map(|process| process.handle().stderr().text())
            .unwrap_or_default()
    }

    /// Takes the server down.
    pub async fn kill(&self) {
        if let Some(process) = &self.process {
            process.handle().kill().await;
        }
    }
}

/// An exchange with the server, as seen by control steps.
struct ServerControls<'a> {
    server: &'a ListeningServer,
    record: &'a mut Record,
    patience: Patience,
    findings: Option<&'a Findings>,
}

impl ControlContext for ServerControls<'_> {
    fn record(&mut self) -> &mut Record {
        self.record
    }

    fn patience(&self) -> Patience {
        self.patience
    }

    fn process(&self, control: &Control) -> Result<Arc<ProcessHandle>, Stop> {
        let process = self.server.process.as_ref();
        process
            .map(|pipe| Arc::clone(pipe.handle()))
            .ok_or_else(|| {
                let reason = format!(
                    "`{}` at a server that someone else started",
                    case_source::control(control)
                );
                Stop::Verdict(Verdict::Unobservable { reason })
            })
    }

    fn files(&self, _control: &Control) -> Result<CaseFiles, Stop> {
        Ok(CaseFiles {
            directory: self.server.directory.clone(),
            traces: self.server.traces.clone(),
        })
    }

    fn findings(&self) -> Option<&Findings> {
        self.findings
    }

    async fn end_input(&mut self) {
        if let Some(pipe) = &self.server.process {
            pipe.end_input().await;
        }
    }

    /// The receiver checks for silence; here it is only a wait.
    async fn expect_silence(&mut self, _line: u32, time: Duration) -> Result<(), Stop> {
        controls::wait(self.record, time).await;
        Ok(())
    }
}
