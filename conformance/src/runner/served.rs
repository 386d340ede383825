//! Steps that touch the process of a listening server rather than a connection to it.
//! Shared by cases that are played over HTTP; knows nothing of requests.

use std::path::PathBuf;
use std::time::Duration;

use crate::peer::stage;
use crate::suite::Control;
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::pipe::Pipe;
use crate::target::process::Exit;
use crate::verdict::Verdict;

use super::transcript::{Record, Stop, differs, files_in, look, look_at_peer, signal};

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
    /// Plays a step. Silence is judged by whoever receives; here it is only a wait.
    pub async fn control(
        &self,
        record: &mut Record,
        line: u32,
        control: &Control,
        patience: Patience,
    ) -> Result<(), Stop> {
        match control {
            Control::Wait { ms } | Control::Silence { ms } => {
                record.note(&format!("wait {ms} ms"));
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Ok(())
            }
            Control::Eof => {
                record.note("end of input");
                self.process("the end of input")?.end_input().await;
                Ok(())
            }
            Control::Signal { name } => {
                record.note(&format!("signal {name}"));
                let Some(signal) = signal(name) else {
                    return Err(harness(format!("no signal is called {name}")));
                };
                let sent = self.process("a signal")?.signal(signal).await;
                sent.map_err(|_| differs(line, "signal", "a running process", "it had ended"))
            }
            Control::Exit { status, within_ms } => {
                let waited = patience.within(*within_ms, patience.exit);
                let exited = self.process("an exit status")?.exited(waited).await;
                let Some(exit) = exited else {
                    return Err(Stop::Fault(Fault::StillRunning { waited }));
                };
                record.note(&exit.to_string());
                match status.filter(|status| exit != Exit::Code(*status)) {
                    Some(status) => {
                        let expected = format!("exit status {status}");
                        Err(differs(line, "exit", &expected, &exit.to_string()))
                    }
                    None => Ok(()),
                }
            }
            Control::Log {
                present,
                line: wanted,
            } => {
                let stderr = self.process("its log")?.stderr().clone();
                look(record, line, "log", *present, wanted, patience, || {
                    stderr.text()
                })
                .await
            }
            Control::Trace {
                present,
                line: wanted,
            } => {
                let Some(directory) = &self.traces else {
                    return Err(harness("the target block names no `trace_dir`".to_owned()));
                };
                look(record, line, "trace", *present, wanted, patience, || {
                    files_in(directory)
                })
                .await
            }
            Control::Never { .. } => {
                Err(harness("`never` stands in open exchanges only".to_owned()))
            }
            Control::KillPeer { peer } => {
                record.note(&format!("kill peer {peer}"));
                stage::kill_peer(&self.directory, peer).map_err(harness)
            }
            Control::PeerReceived {
                peer,
                present,
                pattern,
            } => {
                look_at_peer(
                    record,
                    line,
                    &self.directory,
                    peer,
                    *present,
                    pattern,
                    patience,
                )
                .await
            }
        }
    }

    /// What the server wrote to its standard output, where it has nothing to say.
    pub fn chatter(&self) -> Option<Fault> {
        self.process.as_ref()?.strays().into_iter().next()
    }

    /// The end of the server's error output.
    pub fn stderr(&self) -> String {
        let process = self.process.as_ref();
        process
            .map(|process| process.stderr().tail())
            .unwrap_or_default()
    }

    /// Takes the server down.
    pub async fn kill(&self) {
        if let Some(process) = &self.process {
            process.kill().await;
        }
    }

    fn process(&self, what: &str) -> Result<&Pipe, Stop> {
        self.process.as_ref().ok_or_else(|| {
            Stop::Verdict(Verdict::Unobservable {
                reason: format!("{what} of a server that someone else started"),
            })
        })
    }
}

fn harness(message: String) -> Stop {
    Stop::Verdict(Verdict::HarnessError { message })
}
