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
use crate::report::{self, ReportRequest, Run, compare, html, matrix, sanitize};
use crate::runner::plan::{Selection, Shard};
use crate::suite::{Selector, Suite, bundle};
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

/// Decides, with evidence, whether an MCP server conforms: any server to what MCP asks of each (`run --profile mcp`), one of the PTC-Lisp family to its whole specification.
///
/// Exit status: 0 when all cases pass, 1 when some fail, 2 when the harness itself could not run, 130 when it was interrupted.
#[derive(Debug, Parser)]
#[command(name = "ptc-conformance", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite against a target; without one, build the reference and start it
    Run(Box<run::RunArgs>),
    /// List the cases: id, kind, level, place
    List(ListArgs),
    /// List what a target can have, how that is known, and how many cases each capability unlocks
    Capabilities(SuiteOption),
    /// Show a case: prose, clause, case, and how to run it by hand
    Show(ShowArgs),
    /// Write the suite as one JSON bundle
    Export(ExportArgs),
    /// Try servers that are wrong on purpose, and print which case catches each
    Selftest(selftest::SelftestArgs),
    /// Stand in for a server that is wrong on purpose
    #[command(hide = true)]
    Mutate(selftest::MutateArgs),
    /// Compare two JSON reports: fixed, broken, new crashes
    Diff {
        /// The earlier report
        old: PathBuf,
        /// The later report
        new: PathBuf,
        /// Write the later one as a page that shows the difference
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Put the JSON reports of several implementations side by side, page by page; as a page, clause by clause
    Compare {
        /// The reports, each `FILE` or `NAME=FILE`
        #[arg(required = true)]
        reports: Vec<String>,
        /// Write the table of clauses
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Play a scripted upstream until standard input ends
    Peer {
        /// The script
        script: PathBuf,
    },
    /// Start scripted upstreams and print the upstreams config that reaches them, for a server that someone else starts
    Peers {
        /// A JSON object of scripts by name
        scripts: PathBuf,
    },
    /// Put the JSON reports of a run together: its shards, or its transports
    Merge {
        /// The parts
        #[arg(required = true)]
        parts: Vec<PathBuf>,
        /// Write a report of the whole
        #[arg(long = "report", value_name = "FORMAT=FILE")]
        reports: Vec<ReportRequest>,
    },
}

/// Where the suite is.
#[derive(Debug, Clone, Args)]
pub(crate) struct SuiteOption {
    /// A directory of fixtures, or an exported bundle; default: the specification around here, else the one built in
    #[arg(long = "suite", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl SuiteOption {
    /// Loads the named suite, or the specification of the surrounding workspace, or the one built into this executable.
    fn load(&self) -> Result<Suite, String> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => match reference::workspace() {
                Ok(root) => root.join("spec"),
                Err(_) => {
                    return fixture::embedded().map_err(|error| limit_lines(&error.to_string()));
                }
            },
        };
        if path.is_dir() {
            return fixture::load(&path).map_err(|error| limit_lines(&error.to_string()));
        }
        let text = files::read_text(&path, files::REPORT_BYTES_MAX)?;
        bundle::read(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Where the suite is, and which cases of it are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct SuiteArgs {
    #[command(flatten)]
    suite: SuiteOption,
    /// Only cases whose id, clause, section or page (lang.reader) matches; repeatable
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Not the cases whose id, clause, section or page matches; repeatable
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Not the cases in which real time passes on purpose: waits, slow peers, time limits that run out
    #[arg(long)]
    skip_waiting: bool,
    /// Only the i-th of n parts
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// A JSON report of an earlier run, whose times balance the parts
    #[arg(long, value_name = "FILE", requires = "shard")]
    times: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    suite: SuiteArgs,
    /// How to list
    #[arg(long, value_enum, default_value = "lines")]
    format: ListFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListFormat {
    /// One case a line, fields separated by tabs
    Lines,
    /// Only the ids
    Ids,
    /// How many cases each section has
    Sections,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A case, a clause or a section
    id: String,
    /// Show it against this server, as one shell-quoted command; default: the reference
    #[arg(long, value_name = "CMD")]
    stdio: Option<String>,
    /// Show it against a server that runs already
    #[arg(long, value_name = "URL", conflicts_with = "stdio")]
    url: Option<String>,
    /// Show operations of a library against this adapter
    #[arg(long, value_name = "CMD")]
    testee: Option<String>,
    /// How that server is started: a launch template (spec/protocol/launch.md)
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    #[command(flatten)]
    suite: SuiteOption,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    suite: SuiteOption,
    /// What to write
    #[arg(long, value_enum, default_value = "bundle")]
    what: ExportWhat,
    /// Where; default: standard output
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
        Command::Peer { script } => peer::play(&script).map(|()| PASSED),
        Command::Peers { scripts } => peers(&scripts).map(|()| PASSED),
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            // The message may contain text chosen by a target or a file.
            let message = format!("ptc-conformance: {}\n", sanitize::block(&message));
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
fn with_runtime<W: Future<Output = Result<u8, String>>>(
    work: impl FnOnce(StopSignal) -> W,
) -> Result<u8, String> {
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
            return Err("a child of the harness could not be ended".to_owned());
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

fn export(args: &ExportArgs) -> Result<(), String> {
    let text = match args.what {
        ExportWhat::Bundle => bundle::write(&args.suite.load()?)
            .map_err(|error| format!("the suite cannot be written: {error}"))?,
        ExportWhat::BundleSchema => bundle::schema(),
        ExportWhat::ReportSchema => Run::schema(),
    };
    match &args.output {
        None => write_stdout(&mut std::io::stdout(), &text),
        Some(path) => report::write_file(path, &text),
    }
}

fn diff(old: &Path, new: &Path, page: Option<&Path>) -> Result<u8, String> {
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

fn compare_implementations(reports: &[String], page: Option<&Path>) -> Result<u8, String> {
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

fn merge(parts: &[PathBuf], reports: &[ReportRequest]) -> Result<u8, String> {
    let parts: Result<Vec<Run>, String> = parts.iter().map(|part| Run::read(part)).collect();
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

/// Starts peers and keeps them running until standard input ends.
fn peers(path: &Path) -> Result<(), String> {
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
    fn selection(&self) -> Result<Selection, String> {
        let selectors = |globs: &[String]| -> Result<Vec<Selector>, String> {
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
fn times(path: &Path) -> Result<HashMap<String, u64>, String> {
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
