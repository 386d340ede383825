//! Steps that touch the process of a listening server rather than a connection to it.
//! Shared by cases that are played over HTTP; knows nothing of requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::suite::Control;
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::pipe::Pipe;
use crate::target::process::Handle;
use crate::verdict::Verdict;

use super::controls::{self, Carrier, Files};
use super::open::findings::Findings;
use super::script;
use super::transcript::{Record, Stop};

/// Why a case is not played against a server that someone else started.
pub const SPARED: &str = "a server that runs already is not shut down";

/// Whether a frame asks the server to end.
pub fn sends_end(frame: &str) -> bool {
    frame.contains("\"shutdown\"") || frame.contains("\"exit\"")
}

/// The process of a listening server; absent when someone else started it.
#[derive(Debug)]
pub struct Server {
    pub process: Option<Pipe>,
    /// Where it writes traces.
    pub traces: Option<PathBuf>,
    /// The case's own directory; peers leave notes in it.
    pub directory: PathBuf,
}

impl Server {
    /// Plays a step of an exchange with the server.
    pub async fn control(
        &self,
        record: &mut Record,
        line: u32,
        control: &Control,
        patience: Patience,
        findings: Option<&Findings>,
    ) -> Result<(), Stop> {
        let mut exchange = Exchange {
            server: self,
            record,
            patience,
            findings,
        };
        controls::play(&mut exchange, line, control).await
    }

    /// What the server wrote to its standard output, where it has nothing to say.
    pub fn chatter(&self) -> Option<Fault> {
        self.process.as_ref()?.strays().into_iter().next()
    }

    /// The server's error output.
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

/// An exchange with the server, as far as controls touch it.
struct Exchange<'a> {
    server: &'a Server,
    record: &'a mut Record,
    patience: Patience,
    findings: Option<&'a Findings>,
}

impl Carrier for Exchange<'_> {
    fn record(&mut self) -> &mut Record {
        self.record
    }

    fn patience(&self) -> Patience {
        self.patience
    }

    fn process(&self, control: &Control) -> Result<Arc<Handle>, Stop> {
        let process = self.server.process.as_ref();
        process
            .map(|pipe| Arc::clone(pipe.handle()))
            .ok_or_else(|| {
                let reason = format!(
                    "`{}` at a server that someone else started",
                    script::control(control)
                );
                Stop::Verdict(Verdict::Unobservable { reason })
            })
    }

    fn files(&self, _control: &Control) -> Result<Files, Stop> {
        Ok(Files {
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

    /// Silence is judged by the receiver; here it is only a wait.
    async fn silence(&mut self, _line: u32, time: Duration) -> Result<(), Stop> {
        controls::wait(self.record, time).await;
        Ok(())
    }
}
