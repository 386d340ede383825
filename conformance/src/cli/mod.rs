//! The command line of `ptc-conformance`: subcommands, flags and exit statuses.
//! Each command has its own file; this one only parses arguments and dispatches.

mod inspect;
mod record;
mod run;
mod selftest;

use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cut;
use crate::files;
use crate::fixture;
use crate::peer;
use crate::report::conclusion::Conclusion;
use crate::report::{self, ReportError, ReportRequest, Run, compare, html, matrix, sanitize};
use crate::runner::plan::{Selection, Shard};
use crate::suite::{Selector, SelectorError, Suite, bundle};
use crate::target::{process, reference};

/// Number of faults of a suite that are reported at once.
const ERROR_LINES_MAX: usize = 40;
/// Longest name of an implementation in a comparison, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Exit statuses: all cases passed; some failed; the harness itself could not run.
const PASSED: u8 = 0;
const FAILED: u8 = 1;
const UNABLE: u8 = 2;
/// Exit status of a run that a signal ended: 128 plus the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Tests whether an MCP server conforms: any server to the requirements of the Model Context Protocol (`run --profile mcp`), a server of the PTC-Lisp family to the whole specification.
///
/// Exit status: 0 if all judged cases pass or fail as expected, 1 if a case fails unexpectedly or none passes, 2 if the harness or the target could not run, 130 if a signal ended the run. `diff` exits with 1 if the later run is worse, `selftest` if it misses a faulty server.
#[derive(Debug, Parser)]
#[command(name = "ptc-conformance", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite against a target; default: the reference server, built first
    Run(Box<run::RunArgs>),
    /// List the cases with their ids, kinds, levels and locations
    List(ListArgs),
    /// List the capabilities that a target can have, how each is detected, and how many cases need it
    Capabilities(SuiteOption),
    /// Show a case with its section, its clauses and the commands that run it by hand; or a clause or section with its cases
    Show(ShowArgs),
    /// Write the suite as one JSON bundle, or the JSON Schema of bundles or reports
    Export(ExportArgs),
    /// Run the suite against deliberately faulty servers (mutants), and print which case catches each
    Selftest(selftest::SelftestArgs),
    /// Act as a deliberately faulty server
    #[command(hide = true)]
    Mutate(selftest::MutateArgs),
    /// Compare two JSON reports: list the cases that were fixed, that broke, that crash now
    Diff {
        /// JSON report of the earlier run
        old: PathBuf,
        /// JSON report of the later run
        new: PathBuf,
        /// Write the later report as an HTML page that shows the differences
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Compare the JSON reports of several implementations page by page; with --html also clause by clause
    Compare {
        /// JSON reports, each as `FILE` or `NAME=FILE`; NAME defaults to the name of the server
        #[arg(required = true)]
        reports: Vec<String>,
        /// Write an HTML page with the results of each clause
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Run a scripted upstream server until standard input ends
    Peer {
        /// JSON file with the script
        script: PathBuf,
    },
    /// Run scripted upstream servers until standard input ends, and print the upstreams config with which a server reaches them
    Peers {
        /// JSON file with an object of scripts by name
        scripts: PathBuf,
    },
    /// Merge the JSON reports of the shards or the transports of one run
    Merge {
        /// JSON reports to merge
        #[arg(required = true)]
        parts: Vec<PathBuf>,
        /// Write a report of the whole run: json, junit, tap, markdown, html, badge or badges; FILE may be - for standard output, and missing directories are created; repeatable
        #[arg(long = "report", value_name = "FORMAT=FILE")]
        reports: Vec<ReportRequest>,
    },
}

/// Where the suite is.
#[derive(Debug, Clone, Args)]
pub(crate) struct SuiteOption {
    /// Directory of the specification, or an exported bundle; default: `spec` in the checkout around the working directory, else the suite built into this executable
    #[arg(long = "suite", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl SuiteOption {
    /// Loads the named suite, or the specification of the surrounding workspace, or the one built into this executable.
    fn load(&self) -> Result<Suite, Failure> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => match reference::workspace() {
                Ok(root) => root.join("spec"),
                Err(_) => {
                    return Ok(
                        fixture::embedded().map_err(|error| limit_lines(&error.to_string()))?
                    );
                }
            },
        };
        if path.is_dir() {
            return Ok(fixture::load(&path).map_err(|error| limit_lines(&error.to_string()))?);
        }
        let text = files::read_text(&path, files::REPORT_BYTES_MAX)?;
        Ok(bundle::read(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }
}

/// Where the suite is, and which cases of it are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct SuiteArgs {
    #[command(flatten)]
    suite: SuiteOption,
    /// Select only cases whose id, clause, section or page (such as lang.reader) matches the glob; repeatable
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Leave out cases whose id, clause, section or page matches the glob; repeatable
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Leave out cases that wait in real time: pauses, slow peers, time limits that expire
    #[arg(long)]
    skip_waiting: bool,
    /// Select only the i-th of n shards, counted from 1
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// JSON report of an earlier run, whose durations balance the shards
    #[arg(long, value_name = "FILE", requires = "shard")]
    times: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    suite: SuiteArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "lines")]
    format: ListFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListFormat {
    /// One case per line, with fields separated by tabs
    Lines,
    /// Only the ids
    Ids,
    /// The number of cases in each section
    Sections,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Id of a case, a clause or a section
    id: String,
    /// Show how to run it against the server that this command starts, as one shell-quoted argument; default: the reference
    #[arg(long, value_name = "CMD")]
    stdio: Option<String>,
    /// Show how to run it against the server that is running at this URL
    #[arg(long, value_name = "URL", conflicts_with = "stdio", value_parser = http_url)]
    url: Option<String>,
    /// Show how to run library operations against the adapter that this command starts, as one shell-quoted argument
    #[arg(long, value_name = "CMD")]
    testee: Option<String>,
    /// Launch template: how the server is started (spec/protocol/launch.md)
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    #[command(flatten)]
    suite: SuiteOption,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    suite: SuiteOption,
    /// What to export
    #[arg(long, value_enum, default_value = "bundle")]
    what: ExportWhat,
    /// File to write; default: standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportWhat {
    /// The suite
    Bundle,
    /// The JSON Schema of a bundle
    BundleSchema,
    /// The JSON Schema of a JSON report
    ReportSchema,
}

/// Why a command could not do its work. It is only printed.
type Failure = Box<dyn std::error::Error>;

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let status = match cli.command {
        Command::Run(args) => with_runtime(|stop| run::run(*args, stop)),
        Command::List(args) => inspect::list(&args).map(|()| PASSED),
        Command::Capabilities(suite) => inspect::capabilities(&suite).map(|()| PASSED),
        Command::Show(args) => inspect::show(&args).map(|()| PASSED),
        Command::Export(args) => export(&args).map(|()| PASSED),
        Command::Selftest(args) => with_runtime(|stop| async {
            tokio::select! {
                status = selftest::selftest(args) => status,
                () = stop.wait() => Ok(INTERRUPTED),
            }
        }),
        Command::Mutate(args) => selftest::mutate(&args),
        Command::Diff { old, new, html } => diff(&old, &new, html.as_deref()),
        Command::Merge { parts, reports } => merge(&parts, &reports),
        Command::Compare { reports, html } => compare_implementations(&reports, html.as_deref()),
        Command::Peer { script } => peer::play(&script).map(|()| PASSED).map_err(Failure::from),
        Command::Peers { scripts } => peers(&scripts).map(|()| PASSED),
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            // The message may contain text chosen by a target or a file.
            let message = format!(
                "ptc-conformance: {}\n",
                sanitize::block(&failure.to_string())
            );
            let _nowhere_else = write_stdout(&mut std::io::stderr(), &message);
            ExitCode::from(UNABLE)
        }
    }
}

/// Signals that the user asked the run to stop.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(tokio::sync::watch::Receiver<bool>);

impl StopSignal {
    /// Waits for that signal.
    pub(crate) async fn wait(mut self) {
        // The sender lives as long as the run.
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Runs `work`, which ends early on a signal, and leaves no child behind.
fn with_runtime<W: Future<Output = Result<u8, Failure>>>(
    work: impl FnOnce(StopSignal) -> W,
) -> Result<u8, Failure> {
    process::adopt_orphans();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let status = runtime.block_on(async {
        let (sender, receiver) = tokio::sync::watch::channel(false);
        let watch = tokio::spawn(async move {
            wait_for_signal().await;
            let _work_is_done = sender.send(true);
            // A second signal ends the process without reports.
            wait_for_signal().await;
            process::kill_all();
            std::process::exit(i32::from(INTERRUPTED));
        });
        let status = work(StopSignal(receiver)).await;
        watch.abort();
        if !process::kill_and_reap_all(std::time::Duration::from_secs(5)).await {
            return Err("a child of the harness could not be ended".into());
        }
        status
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    status
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut waits = tokio::task::JoinSet::new();
    for kind in kinds {
        if let Ok(mut stream) = signal(kind) {
            waits.spawn(async move { stream.recv().await });
        }
    }
    // A stream that ends, as all do when the runtime shuts down, is not a signal.
    while let Some(ended) = waits.join_next().await {
        if matches!(ended, Ok(Some(()))) {
            return;
        }
    }
    std::future::pending::<()>().await;
}

fn export(args: &ExportArgs) -> Result<(), Failure> {
    let text = match args.what {
        ExportWhat::Bundle => bundle::write(&args.suite.load()?)
            .map_err(|error| format!("the suite cannot be written: {error}"))?,
        ExportWhat::BundleSchema => bundle::schema(),
        ExportWhat::ReportSchema => Run::schema(),
    };
    match &args.output {
        None => write_stdout(&mut std::io::stdout(), &text)?,
        Some(path) => report::write_file(path, &text)?,
    }
    Ok(())
}

fn diff(old: &Path, new: &Path, page: Option<&Path>) -> Result<u8, Failure> {
    let (before, after) = (Run::read(old)?.sanitized(), Run::read(new)?.sanitized());
    let difference = compare::difference(&before, &after);
    if let Some(page) = page {
        let name = old.file_name().unwrap_or_default().to_string_lossy();
        report::write_file(page, &html::render(&after, Some((&name, &difference)))?)?;
    }
    write_stdout(&mut std::io::stdout(), &difference.render())?;
    Ok(if difference.is_worse() {
        FAILED
    } else {
        PASSED
    })
}

fn compare_implementations(reports: &[String], page: Option<&Path>) -> Result<u8, Failure> {
    let mut runs = Vec::new();
    for report in reports {
        let (name, path) = match report.split_once('=') {
            Some((name, path)) => (Some(name.to_owned()), path),
            None => (None, report.as_str()),
        };
        let run = Run::read(Path::new(path))?.sanitized();
        let name = name.or_else(|| run.server.clone());
        let name = name.unwrap_or_else(|| run.target.clone());
        // The name heads a column.
        runs.push((cut::to_chars(&name, NAME_CHARS_MAX).into_owned(), run));
    }
    let matrix = matrix::join(&runs);
    if let Some(page) = page {
        report::write_file(page, &matrix.html()?)?;
    }
    write_stdout(&mut std::io::stdout(), &matrix.render())?;
    Ok(PASSED)
}

fn merge(parts: &[PathBuf], reports: &[ReportRequest]) -> Result<u8, Failure> {
    let parts: Result<Vec<Run>, _> = parts.iter().map(|part| Run::read(part)).collect();
    let whole = compare::merge(parts?)?;
    for wanted in reports {
        wanted.write(&whole)?;
    }
    write_stdout(
        &mut std::io::stdout(),
        &format!("{}\n{}\n", whole.summary().join("\n"), whole.headline()),
    )?;
    Ok(status(&whole))
}

/// The exit status of a run.
fn status(run: &Run) -> u8 {
    match run.conclusion() {
        Conclusion::Interrupted => INTERRUPTED,
        conclusion if conclusion.is_good() => PASSED,
        _ => FAILED,
    }
}

/// The words of a command that the user wrote as one argument of `flag`.
///
/// # Errors
/// When there are none, or a quote is open.
fn command_words(flag: &str, text: &str) -> Result<Vec<String>, String> {
    match shell_words::split(text) {
        Ok(words) if words.is_empty() => Err(format!(
            "{flag} is empty: write the command and its arguments, as in {flag} 'my-program --flag'"
        )),
        Ok(words) => Ok(words),
        Err(shell_words::ParseError) => Err(format!("{flag} {text}: a closing quote is missing")),
    }
}

/// Checks the value of `--url` and returns it unchanged.
fn http_url(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", rest)) if !rest.is_empty() => Ok(text.to_owned()),
        Some((_, rest)) if !rest.is_empty() => {
            Err(format!("write http://{rest} or https://{rest}"))
        }
        Some(_) => Err("write the host behind ://".to_owned()),
        None => Err(format!("write http://{text}")),
    }
}

/// Starts peers and keeps them running until standard input ends.
fn peers(path: &Path) -> Result<(), Failure> {
    let text = files::read_text(path, files::SETTINGS_BYTES_MAX)?;
    let scripts: indexmap::IndexMap<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let peers = peer::case_peers::CasePeers::set_up(directory, &scripts, str::to_owned)?;
    let config = peers.upstreams().unwrap_or_default();
    write_stdout(&mut std::io::stdout(), &format!("{config}\n"))?;
    let mut rest = String::new();
    let _ended = std::io::Read::read_to_string(&mut std::io::stdin(), &mut rest);
    Ok(())
}

fn limit_lines(message: &str) -> String {
    let mut lines: Vec<&str> = message.lines().take(ERROR_LINES_MAX).collect();
    let hidden = message.lines().count() - lines.len();
    let more = format!("… and {hidden} more");
    if hidden > 0 {
        lines.push(&more);
    }
    lines.join("\n")
}

impl SuiteArgs {
    fn selection(&self) -> Result<Selection, Failure> {
        let selectors = |globs: &[String]| -> Result<Vec<Selector>, SelectorError> {
            globs.iter().map(|glob| Selector::new(glob)).collect()
        };
        Ok(Selection {
            filters: selectors(&self.filter)?,
            skips: selectors(&self.skip)?,
            skip_waiting: self.skip_waiting,
            shard: self.shard,
            times: self.times.as_deref().map(times).transpose()?,
        })
    }
}

/// The duration of each case in an earlier run, summed over its transports, in microseconds.
fn times(path: &Path) -> Result<HashMap<String, u64>, ReportError> {
    let mut times = HashMap::new();
    for case in Run::read(path)?.cases {
        let all: &mut u64 = times.entry(case.id).or_default();
        *all = all.saturating_add(case.duration_us);
    }
    Ok(times)
}

/// Writes text. A closed pipe is not an error, since the reader wants no more; any other failure is.
///
/// # Errors
/// When the text can't be written.
fn write_stdout(out: &mut dyn Write, text: &str) -> Result<(), String> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}
