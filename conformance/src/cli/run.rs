//! `run`: plays the suite over each transport, and reports. `target` says what is tested and how, `results` what came of it.

mod results;
mod target;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::baseline;
use crate::expected::ExpectedFailures;
use crate::files;
use crate::report::{FORMAT, Format, ReportRequest, Run, Transport, terminal};
use crate::runner::plan::Selection;
use crate::runner::start::PreferredTransport;
use crate::runner::{self, RunOptions, Trials};
use crate::suite::{Case, Suite, page_name};
use crate::verdict::Verdict;

use super::{Failure, StopSignal, SuiteArgs, UNABLE, http_url, status, write_stdout};
use results::TransportRun;
use target::TargetFiles;

/// The arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(group(clap::ArgGroup::new("target").multiple(false)))]
pub struct RunArgs {
    /// Test the MCP server that this command starts, as one shell-quoted argument
    #[arg(long, value_name = "CMD", group = "target")]
    stdio: Option<String>,
    /// Test the server that is running at this URL, over Streamable HTTP
    #[arg(long, value_name = "URL", group = "target", value_parser = http_url)]
    url: Option<String>,
    /// Test a library through the adapter that this command starts, as one shell-quoted argument
    #[arg(long, value_name = "CMD", group = "target")]
    testee: Option<String>,
    /// Test the reference server with this executable instead of building it
    #[arg(long, value_name = "PATH", group = "target")]
    reference: Option<PathBuf>,
    /// Send this header with every request to --url; repeatable
    #[arg(long, value_name = "K:V", value_parser = header)]
    header: Vec<(String, String)>,
    /// Transport to a server that the harness starts; repeatable, or separated by commas; default: stdio, and both for the reference server
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<TransportArg>,
    /// Launch template: how the target is started (spec/protocol/launch.md)
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// TOML file that declares what the target implements (conformance/README.md); default: everything except extensions
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// Extension that the target implements, such as lang-1.1; repeatable; the reference implements all
    #[arg(long = "extension", value_name = "NAME")]
    extensions: Vec<String>,
    /// Requirements to test
    #[arg(long, value_enum, default_value = "ptc")]
    profile: Profile,
    /// Tool that may be called although it does not declare `readOnlyHint`, optionally with the arguments to use (NAME={…}); repeatable
    #[arg(long = "tool", value_name = "NAME[=JSON]", value_parser = tool)]
    tools: Vec<String>,
    #[command(flatten)]
    suite: SuiteArgs,
    /// Number of servers that run at the same time; default: one per processor
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit for one response, in milliseconds; default: the limit in the launch template, else 10000
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Stop at the first unexpected failure
    #[arg(long)]
    fail_fast: bool,
    /// Count violations of SHOULD and MAY clauses as failures instead of warnings
    #[arg(long)]
    strict: bool,
    /// Run each case N times, and report the cases whose verdict differs
    #[arg(long, value_name = "N", default_value = "1")]
    repeat: usize,
    /// Include the source and traffic of passed cases in the reports, too
    #[arg(long)]
    keep_traffic: bool,
    /// TOML file of expected failures; default for the reference server: reference/expected_failures.toml, if it exists
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Expect the failures that a page of spec/divergences (such as original-0.12), or one entry of it, records; repeatable
    #[arg(long, value_name = "PAGE|ID")]
    by_divergence: Vec<String>,
    /// Rewrite the baseline so that it matches the results of this run
    #[arg(long)]
    fix_baseline: bool,
    /// Print only the counts and the conclusion: no progress, no single failures
    #[arg(long, short)]
    quiet: bool,
    /// Write a report: json, junit, tap, markdown, html, badge or badges; FILE may be - for standard output, and missing directories are created; repeatable
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    reports: Vec<ReportRequest>,
}

/// What a target is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// The whole specification of the PTC-Lisp family
    Ptc,
    /// The requirements of the Model Context Protocol for any server: the pages `base.*`
    Mcp,
}

impl Profile {
    /// Whether a case belongs to the profile.
    fn includes(self, case: &Case) -> bool {
        match self {
            Self::Ptc => true,
            Self::Mcp => page_name(case).starts_with("base."),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// Standard input and output
    Stdio,
    /// Streamable HTTP on a free port
    Http,
}

impl TransportArg {
    fn over(self) -> PreferredTransport {
        match self {
            Self::Stdio => PreferredTransport::Stdio,
            Self::Http => PreferredTransport::Http,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// Runs the suite and returns the exit status.
pub async fn run(args: RunArgs, stop: StopSignal) -> Result<u8, Failure> {
    let mut plan = Plan::read(&args)?;
    let began = Instant::now();
    let played = plan.play(&stop).await;
    if played.passes.is_empty() {
        let (_, why) = played.unable.first().ok_or("nothing was run")?;
        return Err(target::cannot_judge(&plan.options, args.profile, None, why).into());
    }
    let suite = Arc::clone(&plan.suite);
    let judged = results::judged(&suite, &plan.indices, &played.passes);
    let mut run = plan.record(&played, began);
    if args.fix_baseline {
        plan.rewrite_baseline(&judged, !run.partial)?;
    }
    results::mark_expected(&mut run, &plan.known, &suite, &plan.indices, &played.passes);
    let stale = (plan.known).stale_entries(judged.iter().copied(), !run.partial);
    run.complaints.extend(stale);
    // A report that can't be written must not suppress the others or the result of the run.
    let written = args.reports.iter().map(|wanted| wanted.write(&run));
    let unwritten: Vec<String> = written
        .filter_map(Result::err)
        .map(|error| error.to_string())
        .collect();
    let shown = run.sanitized();
    let text = match args.quiet {
        true => terminal::verdict(&shown),
        false => terminal::render(&shown),
    };
    write_stdout(&mut anstream::stdout(), &text)?;
    if !unwritten.is_empty() {
        return Err(unwritten.join("\n").into());
    }
    Ok(if played.unable.is_empty() {
        status(&run)
    } else {
        UNABLE
    })
}

/// What is to be run.
struct Plan<'a> {
    args: &'a RunArgs,
    suite: Arc<Suite>,
    selection: Selection,
    /// The selected cases.
    indices: Vec<usize>,
    known: Arc<ExpectedFailures>,
    options: RunOptions,
}

/// What was run.
struct Played {
    /// One for each transport, or fewer if the run ended early.
    passes: Vec<TransportRun>,
    /// The target's own name and version.
    server: Option<String>,
    /// The transports over which the target could not be judged, and why.
    unable: Vec<(Option<Transport>, String)>,
    /// Whether a signal ended the run.
    interrupted: bool,
}

impl<'a> Plan<'a> {
    fn read(args: &'a RunArgs) -> Result<Self, Failure> {
        target::check(args)?;
        // Checked before the suite is loaded and run, so that unusable arguments are reported at once.
        let TargetFiles {
            launch,
            declaration,
            mut known,
        } = TargetFiles::read(args)?;
        args.reports.iter().try_for_each(ReportRequest::prepare)?;
        let suite = Arc::new(args.suite.suite.load()?);
        let selection = args.suite.selection()?;
        let mut indices = selection.indices(&suite)?;
        indices.retain(|index| args.profile.includes(&suite.cases[*index]));
        if indices.is_empty() {
            return Err("the profile and the filters leave no case".into());
        }
        if let Some(template) = &args.launch {
            target::known_flags(template, &launch, &suite)?;
        }
        expect_divergences(&mut known, args, &suite)?;
        let known = Arc::new(known);
        let options = target::options(args, launch, declaration, &known, &suite)?;
        Ok(Self {
            args,
            suite,
            selection,
            indices,
            known,
            options,
        })
    }

    /// Runs the cases over each transport, `--repeat` times.
    async fn play(&self, stop: &StopSignal) -> Played {
        let mut played = Played {
            passes: Vec::new(),
            server: None,
            unable: Vec::new(),
            interrupted: false,
        };
        for target in target::targets(&self.options.target, self.args) {
            let options = RunOptions {
                target,
                ..self.options.clone()
            };
            let pass = self.play_over(&options, stop, &mut played).await;
            let Some(pass) = pass else { continue };
            let ended = options.fail_fast.as_ref().is_some_and(|which| {
                let mut tried = pass.verdicts(&self.indices);
                tried.any(|(index, verdict)| which.ends(&self.suite, index, verdict))
            });
            played.passes.push(pass);
            if played.interrupted || ended {
                break;
            }
        }
        played
    }

    /// Runs the cases over one transport; `None` if the target could not be judged over it.
    async fn play_over(
        &self,
        options: &RunOptions,
        stop: &StopSignal,
        played: &mut Played,
    ) -> Option<TransportRun> {
        let transport = target::transport(&options.target);
        let mut rounds = Vec::new();
        for round in 0..self.args.repeat.max(1) {
            let mut trials = results::played_before(&self.suite, &played.passes, round);
            let wanted = self.indices.iter().copied();
            let wanted: Vec<usize> = wanted.filter(|index| !trials.contains_key(index)).collect();
            tokio::select! {
                outcome = play(&self.suite, &wanted, options, &mut trials, self.args.quiet) => {
                    played.server = outcome.server.or(played.server.take());
                    if let Some(trial) = outcome.unable {
                        played.unable.push((transport, trial.display_text()));
                        break;
                    }
                }
                () = stop.clone().wait() => played.interrupted = true,
            }
            rounds.push(trials);
            if played.interrupted {
                break;
            }
        }
        (!rounds.is_empty()).then_some(TransportRun { transport, rounds })
    }

    fn record(&self, played: &Played, began: Instant) -> Run {
        let Self { args, suite, .. } = self;
        let profile = args.profile;
        let held = suite.cases.iter().filter(|case| profile.includes(case));
        let wants_digest = (args.reports.iter()).any(|report| report.format == Format::Json);
        Run {
            format: FORMAT,
            harness: format!("ptc-conformance {}", env!("CARGO_PKG_VERSION")),
            target: self.options.target.name(),
            server: played.server.clone(),
            suite_cases: held.count(),
            // Only `merge` compares it.
            suite_digest: wants_digest.then(|| suite.digest()),
            partial: self.selection.is_partial() || args.fail_fast || played.interrupted,
            interrupted: played.interrupted,
            strict: args.strict,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            cases: (played.passes.iter())
                .flat_map(|pass| results::records(suite, &self.indices, pass, args, &self.options))
                .collect(),
            complaints: (played.unable.iter())
                .map(|(over, why)| target::cannot_judge(&self.options, profile, *over, why))
                .collect(),
        }
    }

    /// Rewrites the baseline so that it expects what was judged, and expects that from here on.
    fn rewrite_baseline(
        &mut self,
        judged: &[(&Case, &Verdict)],
        is_whole: bool,
    ) -> Result<(), Failure> {
        let Some(path) = target::baseline_path(self.args) else {
            return Ok(());
        };
        let old = if path.is_file() {
            target::read(&path)?
        } else {
            String::new()
        };
        let text = baseline::rewritten(&old, judged, is_whole)?;
        files::replace(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut known = target::expected_failures(&path)?;
        expect_divergences(&mut known, self.args, &self.suite)?;
        self.known = Arc::new(known);
        Ok(())
    }
}

/// Adds the failures that `--by-divergence` expects.
fn expect_divergences(
    known: &mut ExpectedFailures,
    args: &RunArgs,
    suite: &Suite,
) -> Result<(), String> {
    known
        .expect_divergences(&args.by_divergence, suite)
        .map_err(|error| format!("--by-divergence: {error}"))
}

async fn play(
    suite: &Arc<Suite>,
    indices: &[usize],
    options: &RunOptions,
    trials: &mut Trials,
    quiet: bool,
) -> runner::RunOutcome {
    let progress = progress(indices.len(), quiet);
    let mut failures = 0_usize;
    let outcome = runner::run(
        Arc::clone(suite),
        indices,
        options.clone(),
        trials,
        |told| {
            let trial = match told {
                runner::Progress::Judged(trial) => trial,
                runner::Progress::Notice(_) if quiet => return,
                runner::Progress::Notice(notice) => {
                    let line = format!("{notice}\n");
                    let write = || write_stdout(&mut std::io::stderr(), &line);
                    let _nowhere_else = progress.suspend(write);
                    return;
                }
            };
            if trial.verdict.is_failure() {
                failures += 1;
                progress.set_message(match failures {
                    1 => "1 failure so far".to_owned(),
                    failures => format!("{failures} failures so far"),
                });
            }
            progress.inc(1);
        },
    )
    .await;
    progress.finish_and_clear();
    outcome
}

fn progress(cases: usize, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cases as u64);
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {per_sec}, {eta} to go {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Checks the value of `--tool` and returns it unchanged.
fn tool(text: &str) -> Result<String, String> {
    let (name, arguments) = text.split_once('=').unwrap_or((text, "{}"));
    let arguments = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments);
    match arguments {
        _ if name.is_empty() => Err(format!("`{text}`: expected the name of a tool")),
        Err(error) => Err(format!(
            "`{text}`: expected a JSON object behind =: {error}"
        )),
        Ok(_) => Ok(text.to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}`: expected NAME:VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
