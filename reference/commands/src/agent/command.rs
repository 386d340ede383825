//! A tool that is a command: its arguments as JSON on standard input, its result from standard output.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ptc_agent::ToolFault;
use ptc_lang::json::{self, Duplicates, Problem, WriteError};
use ptc_lang::{Value, heap};
use ptc_secrets::{Redactor, scrub_json_text};
use ptc_upstream::KeptCommand;

use super::scrubbed::SCRUB_TIME;
use super::tools::{TOOL_TIMEOUT, ToolDeadline, earlier};

/// How long to wait for remaining output after a command has ended.
const REST_WAIT: Duration = Duration::from_secs(1);
/// Maximum bytes of a command's output.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum characters shown of a failed command's error output (`agent.cli.commands`).
const ERROR_CHARS_MAX: usize = 4_096;

/// Runs a command. Its output is scrubbed like an upstream's answer, because it inherits this process's environment with the keys in it.
pub(super) fn run_command(
    words: &[String],
    directory: &Path,
    args: &Value,
    until: Option<Instant>,
    redactor: &Redactor,
) -> Result<Value, ToolFault> {
    let input =
        json::to_string_within(args, usize::MAX, &ToolDeadline { until }).map_err(|error| {
            ToolFault::new(match error {
                WriteError::Path(error) => error.to_string(),
                WriteError::Sink(_) => "the arguments are longer than there is room for".to_owned(),
            })
        })?;
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let mut kept = KeptCommand::start(words, directory)
        .map_err(|error| ToolFault::new(format!("cannot start {}: {error}", words[0])))?;
    let child = &mut kept.process;
    let stdin = child.stdin.take();
    std::thread::spawn(move || {
        // A command that does not read its input may still answer.
        let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
    });
    let mut streams = CommandOutput::of(child.stdout.take(), child.stderr.take());
    let deadline = earlier(until, Instant::now() + TOOL_TIMEOUT);
    let status = loop {
        let ended = child.try_wait();
        let problem = match ended {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => {
                match streams.receive(Duration::from_millis(2)) {
                    Ok(more) => {
                        if !more {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        continue;
                    }
                    Err(OutputTooLarge) => NO_ROOM.to_owned(),
                }
            }
            _ => match until {
                Some(until) if until <= deadline => {
                    "the command was ended: nobody waits for it any more".to_owned()
                }
                _ => format!("the command took longer than {} s", TOOL_TIMEOUT.as_secs()),
            },
        };
        kept.end();
        return Err(ToolFault::new(problem));
    };
    let [output, errors] = streams
        .collect_until(Instant::now() + REST_WAIT)
        .map_err(|OutputTooLarge| ToolFault::new(NO_ROOM))?;
    // A partial answer must not pass as a complete one.
    if output.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(ToolFault::new(format!(
            "the command wrote more than {OUTPUT_BYTES_MAX} bytes"
        )));
    }
    if status.success() {
        let redactor = redactor.with_time_limit(SCRUB_TIME);
        let output = String::from_utf8_lossy(&output);
        return answer(&output, until, &redactor);
    }
    let errors = String::from_utf8_lossy(&errors).into_owned();
    let errors = redactor.with_time_limit(SCRUB_TIME).scrub(errors);
    let detail: String = errors.trim().chars().take(ERROR_CHARS_MAX).collect();
    let detail = if detail.is_empty() {
        status.to_string()
    } else {
        detail
    };
    Err(ToolFault::new(detail))
}

const NO_ROOM: &str = "the command wrote more than there is room for";

/// The value of a command's output: parsed if it is JSON, otherwise text. Charged to the memory of the calling program, if any, because
/// a parsed tree takes many times the bytes of the text.
fn answer(output: &str, until: Option<Instant>, redactor: &Redactor) -> Result<Value, ToolFault> {
    let clean = scrub_json_text(output.trim(), redactor);
    match json::read(&clean, Duplicates::Last, &ToolDeadline { until }) {
        Ok(value) => Ok(value),
        Err(error) if matches!(error.problem, Problem::Limit(_)) => Err(ToolFault::new(NO_ROOM)),
        Err(_) => Ok(Value::str(redactor.scrub(output.to_owned()).into_inner())),
    }
}

/// The output of a command. The reading threads may outlive the command: a process that escaped from it may hold its output open
/// forever, and a blocked read can't be cancelled. So each thread holds only one piece, and the caller collects all of them.
struct CommandOutput {
    texts: [Vec<u8>; 2],
    /// Pairs of stream index and piece. Disconnected once everything is read.
    pieces: mpsc::Receiver<(usize, Vec<u8>)>,
}

/// The output exceeds the memory of the calling program.
struct OutputTooLarge;

impl CommandOutput {
    fn of(output: Option<ChildStdout>, errors: Option<ChildStderr>) -> Self {
        let (sender, pieces) = mpsc::sync_channel(0);
        let read = |stream: usize, pipe: Box<dyn std::io::Read + Send>| {
            let mut pipe = pipe.take(OUTPUT_BYTES_MAX + 1);
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                // If the pipe breaks, the output read so far counts.
                while let Ok(count @ 1..) = pipe.read(&mut piece)
                    && sender.send((stream, piece[..count].to_vec())).is_ok()
                {}
            });
        };
        if let Some(output) = output {
            read(0, Box::new(output));
        }
        if let Some(errors) = errors {
            read(1, Box::new(errors));
        }
        CommandOutput {
            texts: [Vec::new(), Vec::new()],
            pieces,
        }
    }

    /// Waits at most `wait` for another piece; false when everything is read.
    fn receive(&mut self, wait: Duration) -> Result<bool, OutputTooLarge> {
        let (stream, piece) = match self.pieces.recv_timeout(wait) {
            Ok(said) => said,
            Err(error) => return Ok(error == mpsc::RecvTimeoutError::Timeout),
        };
        let text = &mut self.texts[stream];
        if text.capacity() - text.len() < piece.len() {
            let more = text.len().max(piece.len());
            if !heap::reserve(more) {
                return Err(OutputTooLarge);
            }
            text.reserve_exact(more);
        }
        text.extend_from_slice(&piece);
        // The piece was not charged to a program, so dropping it gives no credit.
        heap::uncharged(|| drop(piece));
        Ok(true)
    }

    /// The output until `until`, or until everything is read. Of a longer stream, one byte more than [`OUTPUT_BYTES_MAX`].
    fn collect_until(mut self, until: Instant) -> Result<[Vec<u8>; 2], OutputTooLarge> {
        while self.receive(until.saturating_duration_since(Instant::now()))?
            && Instant::now() < until
        {}
        Ok(self.texts)
    }
}
