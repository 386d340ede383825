//! Runs a `cli` case: its commands to completion, one after another, in an empty directory of its own.
//! Knows which programs the launch template offers; knows nothing of MCP.

use std::path::Path;
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use crate::files::read_left_file;
use crate::json::Json;
use crate::judge;
use crate::observed::CommandRun;
use crate::peer::case_peers;
use crate::suite::{Captures, CliCase, TargetSpec, Text};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::launch::Launch;
use crate::target::lines::Piece;
use crate::target::link;
use crate::target::process::{Exit, Spawn};
use crate::traffic::{Direction, Traffic};
use crate::verdict::Verdict;

use super::start::{self, Refusal, path_inside, scratch, write};
use super::trial::Trial;

/// Largest file that is compared, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of a command's standard output, in bytes.
const STDOUT_BYTES_MAX: usize = 32 << 20;
/// How many bytes of a larger output are shown.
const SHOWN_BYTES: usize = 256;

/// Runs the commands and judges the results. Of `spec`, it uses the peers and the upstreams configuration.
pub async fn run(case: &CliCase, spec: &TargetSpec, launch: &Launch, patience: Patience) -> Trial {
    match attempt(case, spec, launch, patience).await {
        Ok(trial) => trial,
        Err(refusal) => Trial::refused(&refusal),
    }
}

async fn attempt(
    case: &CliCase,
    spec: &TargetSpec,
    launch: &Launch,
    patience: Patience,
) -> Result<Trial, Refusal> {
    let (_files, directory) = scratch()?;
    let work = directory.join("work");
    std::fs::create_dir_all(&work)
        .map_err(|error| Refusal::Harness(format!("{}: {error}", work.display())))?;
    let (peers, upstreams) = start::set_up_peers(spec, &directory, &work)?;
    if let Some(config) = upstreams {
        write(&work.join(start::UPSTREAMS_FILE), config)?;
    }
    let mut names: Captures = peers
        .variables()
        .map(|(name, word)| (name.to_owned(), Json::from(word)))
        .collect();
    let began = Instant::now();
    let (mut traffic, mut messages, mut stderr) = (Vec::new(), Vec::new(), String::new());
    let mut verdict = Verdict::pass();
    for case in case.commands() {
        for (name, content) in &case.files {
            write(&path_inside(&work, name)?, bytes(content, &names)?)?;
        }
        let spawn = spawn(case, launch, &names, &directory, &work)?;
        let stdin = case
            .stdin
            .as_ref()
            .map(|stdin| bytes(stdin, &names))
            .transpose()?
            .unwrap_or_default();
        let waited = patience.within(case.expect.within_ms, patience.exit.max(patience.reply));
        let line = shell_words::join(&spawn.argv);
        traffic.push(Traffic::new(Direction::Sent, &line));
        let open_for = match &case.expect.stdout {
            Some(stdout) if case.stdin_open => stdout.source().lines().count(),
            _ => 0,
        };
        let run = match finish(&spawn, &stdin, open_for, waited).await {
            Ok(run) => run,
            Err(fault) => return Ok(Trial::faulted(&fault, &line, String::new(), false)),
        };
        traffic.push(Traffic::new(
            Direction::Received,
            String::from_utf8_lossy(&run.stdout),
        ));
        let run = CommandRun {
            files: files(case, &work)?,
            received: received(case, &directory)?,
            ..run
        };
        let said = String::from_utf8_lossy(&run.stderr);
        stderr.push_str(&said);
        if run.status != Some(0) {
            messages.push(said.into_owned());
        }
        if let Err(mismatch) = judge::command(&case.expect, &run, &mut names) {
            verdict = Verdict::Fail(mismatch);
            break;
        }
    }
    Ok(Trial {
        messages,
        stderr,
        traffic,
        took: began.elapsed(),
        ..Trial::of(verdict)
    })
}

fn spawn(
    case: &CliCase,
    launch: &Launch,
    names: &Captures,
    directory: &Path,
    work: &Path,
) -> Result<Spawn, Refusal> {
    let mut argv = Vec::with_capacity(case.argv.len());
    for word in &case.argv {
        argv.push(text(word, names)?);
    }
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let Some(command) = launch.programs.get(program) else {
        return Err(Refusal::NotClaimed(format!("a program `{program}`")));
    };
    argv.splice(..1, command.iter().cloned());
    // The command runs in another directory, where a relative path would name another file.
    if let Some(program) = argv.first_mut().filter(|program| program.contains('/')) {
        *program = std::path::absolute(&*program)
            .map_err(|error| Refusal::Harness(format!("{program}: {error}")))?
            .to_string_lossy()
            .into_owned();
    }
    let mut env: Vec<(String, String)> = launch.environment.clone().into_iter().collect();
    env.push(start::home(directory)?);
    for (name, value) in &case.env {
        env.push((launch.variable(name), text(value, names)?));
    }
    Ok(Spawn {
        argv,
        env,
        withheld: launch.withheld.clone(),
        cwd: Some(work.to_path_buf()),
    })
}

/// Runs a command whose input stays open until it has written `open_for` lines.
async fn finish(
    spawn: &Spawn,
    stdin: &[u8],
    open_for: usize,
    waited: Duration,
) -> Result<CommandRun, Fault> {
    let mut process = link::launch(spawn)?;
    let ran = tokio::time::timeout(waited, async {
        // A command need not read its input.
        let _unread = process.write(stdin).await;
        let mut stdout = Vec::new();
        let mut lines = 0;
        loop {
            if lines >= open_for {
                process.end_input();
            }
            let Some(piece) = process.lines.next().await else {
                break;
            };
            lines += 1;
            match piece {
                Piece::Line(line) => {
                    stdout.extend_from_slice(&line);
                    stdout.push(b'\n');
                }
                Piece::Unterminated(rest) => stdout.extend_from_slice(&rest),
                Piece::Overlong { head, bytes } => return Err((head, bytes)),
            }
            if stdout.len() > STDOUT_BYTES_MAX {
                return Err((stdout[..SHOWN_BYTES].to_vec(), stdout.len() as u64));
            }
        }
        Ok((process.handle().exited().await, stdout))
    });
    let (exit, stdout) = match ran.await {
        Ok(Ok(ran)) => ran,
        Ok(Err((head, bytes))) => {
            process.handle().kill().await;
            let head = String::from_utf8_lossy(&head).into_owned();
            return Err(Fault::Flooded { head, bytes });
        }
        Err(_) => {
            process.handle().kill().await;
            return Err(Fault::StillRunning { waited });
        }
    };
    Ok(CommandRun {
        status: match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        },
        stdout,
        stderr: process.handle().stderr().text().into_bytes(),
        files: IndexMap::new(),
        received: IndexMap::new(),
    })
}

fn received(case: &CliCase, directory: &Path) -> Result<IndexMap<String, String>, Refusal> {
    let mut all = IndexMap::new();
    for wanted in &case.expect.received {
        let Some(lines) = case_peers::received(directory, &wanted.peer) else {
            let message = format!("the target block names no peer `{}`", wanted.peer);
            return Err(Refusal::Harness(message));
        };
        all.insert(wanted.peer.clone(), lines);
    }
    Ok(all)
}

fn files(case: &CliCase, work: &Path) -> Result<IndexMap<String, Vec<u8>>, Refusal> {
    let mut files = IndexMap::new();
    for name in case.expect.files.keys() {
        let path = path_inside(work, name)?;
        if let Some(content) = read_left_file(&path, FILE_BYTES_MAX) {
            files.insert(name.clone(), content);
        }
    }
    Ok(files)
}

fn bytes(text: &Text, names: &Captures) -> Result<Vec<u8>, Refusal> {
    text.bytes(names)
        .map_err(|fault| Refusal::Harness(format!("the case cannot be set up: {fault}")))
}

fn text(text: &Text, names: &Captures) -> Result<String, Refusal> {
    text.string(names)
        .map_err(|fault| Refusal::Harness(format!("the case cannot be set up: {fault}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn endless_output_ends_the_command() {
        let spawn = Spawn {
            // With long lines, because a million short ones take a busy machine a minute.
            argv: vec!["yes".to_owned(), "y".repeat(1 << 10)],
            ..Spawn::default()
        };
        let ran = finish(&spawn, b"", 0, Duration::from_secs(60)).await;
        let fault = ran.expect_err("it does not end by itself");
        assert!(matches!(fault, Fault::Flooded { .. }), "{fault}");
    }
}
