//! `run`: determines the target, runs the suite, writes the reports.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::baseline;
use crate::expected::{BaselineMatch, ExpectedFailures};
use crate::files::{self, FileError};
use crate::fixture;
use crate::report::{
    CaseRecord, ExpectedBy, FORMAT, Format, ReportRequest, Run, Status, Transport, terminal,
};
use crate::runner::by_hand::ShownServer;
use crate::runner::start::{PreferredTransport, Target};
use crate::runner::trial::{STDERR_FOLLOWS, Trial};
use crate::runner::{self, FailFast, RunOptions, Trials};
use crate::suite::{Case, Suite, nearest, page_name};
use crate::target::Patience;
use crate::target::claims::{Claims, Declaration};
use crate::target::http::Endpoint;
use crate::target::launch::{FlagValue, Launch};
use crate::target::reference;
use crate::verdict::Verdict;

use super::{
    Failure, StopSignal, SuiteArgs, UNABLE, command_words, http_url, record, status, write_stdout,
};

/// The reference's baseline, relative to the workspace.
const REFERENCE_BASELINE: &str = "reference/expected_failures.toml";

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

/// The trials of each repetition.
type Rounds = Vec<Trials>;

/// The results of the suite over one transport.
struct TransportRun {
    transport: Option<Transport>,
    rounds: Rounds,
}

impl TransportRun {
    /// The verdict that counts: a failure, if any round had one.
    fn verdict(&self, index: usize) -> Option<&Verdict> {
        let verdicts = self
            .rounds
            .iter()
            .filter_map(|round| Some(&round.get(&index)?.verdict));
        // `min_by_key` returns the first of equal elements.
        verdicts.min_by_key(|verdict| !verdict.is_failure())
    }
}

/// Runs the suite and returns the exit status.
pub async fn run(args: RunArgs, stop: StopSignal) -> Result<u8, Failure> {
    check(&args)?;
    // Checked before the suite is loaded and run, so that unusable arguments are reported at once.
    let TargetFiles {
        launch,
        declaration,
        mut known,
    } = TargetFiles::read(&args)?;
    args.reports.iter().try_for_each(ReportRequest::prepare)?;
    let suite = Arc::new(args.suite.suite.load()?);
    let selection = args.suite.selection()?;
    let mut indices = selection.indices(&suite)?;
    indices.retain(|index| args.profile.includes(&suite.cases[*index]));
    if indices.is_empty() {
        return Err("the profile and the filters leave no case".into());
    }
    if let Some(template) = &args.launch {
        known_flags(template, &launch, &suite)?;
    }
    let by_divergence = |known: &mut ExpectedFailures| {
        let expected = known.expect_divergences(&args.by_divergence, &suite);
        expected.map_err(|error| format!("--by-divergence: {error}"))
    };
    by_divergence(&mut known)?;
    let mut known = Arc::new(known);
    let options = options(&args, launch, declaration, &known, &suite)?;
    let began = Instant::now();
    let mut server = None;
    let mut passes = Vec::new();
    let mut unable = Vec::new();
    let mut interrupted = false;
    for target in targets(&options.target, &args) {
        let options = RunOptions {
            target,
            ..options.clone()
        };
        let transport = transport(&options.target);
        let mut rounds = Vec::new();
        for round in 0..args.repeat.max(1) {
            let mut trials = played_before(&suite, &passes, round);
            let wanted: Vec<usize> = indices
                .iter()
                .copied()
                .filter(|index| !trials.contains_key(index))
                .collect();
            tokio::select! {
                outcome = play(&suite, &wanted, &options, &mut trials, args.quiet) => {
                    server = outcome.server.or(server);
                    if let Some(trial) = outcome.unable {
                        unable.push((transport, trial.display_text()));
                        break;
                    }
                }
                () = stop.clone().wait() => interrupted = true,
            }
            rounds.push(trials);
            if interrupted {
                break;
            }
        }
        if rounds.is_empty() {
            continue;
        }
        let pass = TransportRun { transport, rounds };
        let ended = options.fail_fast.as_ref().is_some_and(|which| {
            let mut tried = indices
                .iter()
                .filter_map(|index| Some((*index, pass.verdict(*index)?)));
            tried.any(|(index, verdict)| which.ends(&suite, index, verdict))
        });
        passes.push(pass);
        if interrupted || ended {
            break;
        }
    }
    if passes.is_empty() {
        let (_, why) = unable.first().ok_or("nothing was run")?;
        return Err(cannot_judge(&options, args.profile, None, why).into());
    }
    let held = suite
        .cases
        .iter()
        .filter(|case| args.profile.includes(case));
    let mut run = Run {
        format: FORMAT,
        harness: format!("ptc-conformance {}", env!("CARGO_PKG_VERSION")),
        target: options.target.name(),
        server,
        suite_cases: held.count(),
        // Only `merge` compares it.
        suite_digest: (args.reports.iter())
            .any(|report| report.format == Format::Json)
            .then(|| suite.digest()),
        partial: selection.is_partial() || args.fail_fast || interrupted,
        interrupted,
        strict: args.strict,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        cases: passes
            .iter()
            .flat_map(|pass| records(&suite, &indices, pass, &args, &options))
            .collect(),
        complaints: unable
            .iter()
            .map(|(transport, why)| cannot_judge(&options, args.profile, *transport, why))
            .collect(),
    };
    let judged = judged(&suite, &indices, &passes);
    if args.fix_baseline
        && let Some(path) = baseline_path(&args)
    {
        let old = if path.is_file() {
            read(&path)?
        } else {
            String::new()
        };
        let text = baseline::rewritten(&old, &judged, !run.partial)?;
        files::replace(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut list = expected_failures(&path)?;
        by_divergence(&mut list)?;
        known = Arc::new(list);
    }
    mark_expected(&mut run, &known, &suite, &indices, &passes);
    run.complaints
        .extend(known.stale_entries(judged.iter().copied(), !run.partial));
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
    Ok(if unable.is_empty() {
        status(&run)
    } else {
        UNABLE
    })
}

/// Cases that passed over another transport and would run the same way now. Those that did not pass are tried again, because
/// what a target appears to offer may depend on the transport.
fn played_before(suite: &Suite, passes: &[TransportRun], round: usize) -> Trials {
    let rounds = passes.iter().filter_map(|pass| pass.rounds.get(round));
    rounds
        .flatten()
        .filter(|(index, trial)| {
            suite.cases[**index].is_transport_independent() && trial.verdict.is_pass()
        })
        .map(|(index, trial)| (*index, trial.clone()))
        .collect()
}

/// Rejects combinations of arguments that make no sense.
///
/// # Errors
/// A message that says what to specify.
fn check(args: &RunArgs) -> Result<(), String> {
    if args.fix_baseline && baseline_path(args).is_none() {
        return Err("--fix-baseline needs --baseline FILE".to_owned());
    }
    if has_target(args) {
        return Ok(());
    }
    // Files that the user wrote for another server must never be applied to the reference.
    for (flag, given) in [
        ("--claims", args.claims.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--header", !args.header.is_empty()),
    ] {
        if given && args.launch.is_none() {
            return Err(format!(
                "{flag} is about a target, and none is named: {TARGETS}"
            ));
        }
    }
    Ok(())
}

/// The ways to name a target.
const TARGETS: &str =
    "add --stdio 'my-server', --url URL, --testee 'my-adapter', or --launch FILE with a `command`";

/// Why a target could not be judged, with advice.
fn cannot_judge(
    RunOptions { target, launch, .. }: &RunOptions,
    profile: Profile,
    transport: Option<Transport>,
    why: &str,
) -> String {
    let answered = match profile {
        _ if matches!(target, Target::Testee { .. }) => "`capabilities`",
        Profile::Ptc => "`initialize` and `tools/list`",
        Profile::Mcp => "`initialize`",
    };
    let over = transport.map(|transport| format!(" over {}", transport.words()));
    format!(
        "the target could not be judged{}: `{}` must start, and answer {answered}: {why}{}",
        over.unwrap_or_default(),
        target.name(),
        added_flag_hint(launch, why),
    )
}

/// Advice for a target that complains of a flag that the harness adds to its command.
fn added_flag_hint(launch: &Launch, why: &str) -> String {
    // Before it stands the command, with every flag.
    let Some((_, stderr)) = why.split_once(STDERR_FOLLOWS) else {
        return String::new();
    };
    let words = |(name, value): (&String, &FlagValue)| launch.words([(name.as_str(), value)]).ok();
    let mut added = launch.observe.iter().filter_map(words);
    let named = |words: &Vec<String>| {
        let flag = words.first().map(|flag| flag.trim_start_matches('-'));
        flag.is_some_and(|flag| !flag.is_empty() && stderr.contains(flag))
    };
    match added.find(named) {
        Some(words) => format!(
            "\nthe harness added `{}`, to see results: if the server has no such flag, leave [observe] of a launch file (--launch) empty, \
             or list the server's own there",
            shell_words::join(words)
        ),
        None => String::new(),
    }
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

/// The target, once for each transport to be tested.
fn targets(target: &Target, args: &RunArgs) -> Vec<Target> {
    let Target::Command { argv, .. } = target else {
        return vec![target.clone()];
    };
    let mut wanted = args.transport.clone();
    if wanted.is_empty() {
        wanted.push(TransportArg::Stdio);
        if is_reference(args) {
            wanted.push(TransportArg::Http);
        }
    }
    wanted.dedup();
    let of = |transport: &TransportArg| Target::Command {
        argv: argv.clone(),
        over: transport.over(),
    };
    wanted.iter().map(of).collect()
}

/// The transport that reports show for a target.
fn transport(target: &Target) -> Option<Transport> {
    match target {
        Target::Testee { .. } => None,
        Target::Url(_)
        | Target::Command {
            over: PreferredTransport::Http,
            ..
        } => Some(Transport::Http),
        Target::Command {
            over: PreferredTransport::Stdio,
            ..
        } => Some(Transport::Stdio),
    }
}

/// Whether the reference is judged: because it is named, or because nothing else is.
fn is_reference(args: &RunArgs) -> bool {
    args.stdio.is_none()
        && args.url.is_none()
        && args.testee.is_none()
        && (args.launch.is_none() || args.reference.is_some())
}

/// Whether a target was named on the command line; a launch template may name it as well.
fn has_target(args: &RunArgs) -> bool {
    args.reference.is_some() || args.stdio.is_some() || args.url.is_some() || args.testee.is_some()
}

/// The contents of the files that describe the target.
struct TargetFiles {
    launch: Launch,
    declaration: Declaration,
    /// The expected failures of its baseline, unless this run rewrites the baseline.
    known: ExpectedFailures,
}

impl TargetFiles {
    fn read(args: &RunArgs) -> Result<Self, Failure> {
        Ok(Self {
            known: match baseline_path(args) {
                Some(path) if !args.fix_baseline => {
                    expected_failures(&path).map_err(|error| match &args.baseline {
                        Some(_) => Failure::from(format!("--baseline {error}")),
                        None => error,
                    })?
                }
                _ => ExpectedFailures::default(),
            },
            launch: args
                .launch
                .as_deref()
                .map_or(Ok(Launch::default()), Launch::read)
                .map_err(|error| format!("--launch {error}"))?,
            declaration: args
                .claims
                .as_deref()
                .map_or(Ok(Declaration::default()), Declaration::read)
                .map_err(|error| format!("--claims {error}"))?,
        })
    }
}

/// Rejects a template with a flag that no case uses, because it is probably misspelt, and cases would be judged with the reference's
/// name of the intended flag. A custom suite may be small, so the flags of the built-in one are permitted as well.
fn known_flags(template: &Path, launch: &Launch, suite: &Suite) -> Result<(), String> {
    let flags = |suite: &Suite| -> BTreeSet<String> {
        let targets = suite.cases.iter().map(|case| &case.target);
        targets
            .flat_map(|target| target.flags.keys().cloned())
            .collect()
    };
    let named = || launch.flags.keys().chain(launch.values.keys());
    let mut known = flags(suite);
    known.extend(launch.observe.keys().cloned());
    if named().any(|flag| !known.contains(flag)) {
        known.extend(flags(
            &fixture::embedded().map_err(|error| error.to_string())?,
        ));
    }
    let Some(flag) = named().find(|flag| !known.contains(*flag)) else {
        return Ok(());
    };
    let hint = nearest(flag, known.iter().cloned())
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    Err(format!(
        "{}: expected flags as the suite names them, found `{flag}`, which no case passes{hint}",
        template.display()
    ))
}

fn options(
    args: &RunArgs,
    mut launch: Launch,
    declaration: Declaration,
    known: &Arc<ExpectedFailures>,
    suite: &Suite,
) -> Result<RunOptions, Failure> {
    let target = target(args, &mut launch)?;
    let mut patience = launch.patience(Patience::default());
    if let Some(timeout) = args.timeout {
        patience.reply = Duration::from_millis(timeout);
        patience.start = patience
            .start
            .min(patience.reply.max(Duration::from_millis(100)));
    }
    let claims = claims(args, declaration, suite)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(RunOptions {
        target,
        launch,
        claims,
        patience,
        jobs: args.jobs.unwrap_or(processors).max(1),
        fail_fast: args.fail_fast.then(|| FailFast {
            advised: args.strict,
            known: Arc::clone(known),
        }),
        tools: args.tools.clone(),
    })
}

fn claims(args: &RunArgs, mut declaration: Declaration, suite: &Suite) -> Result<Claims, String> {
    if args.claims.is_none() && args.extensions.is_empty() && is_reference(args) {
        return Ok(Claims::everything());
    }
    declaration
        .extensions
        .extend(args.extensions.iter().cloned());
    declaration
        .claims(suite)
        .map_err(|error| match &args.claims {
            Some(path) => format!("--claims {}: {error}", path.display()),
            None => error.to_string(),
        })
}

fn target(args: &RunArgs, launch: &mut Launch) -> Result<Target, Failure> {
    // `targets` sets the transport.
    let over = PreferredTransport::Stdio;
    if let Some(url) = &args.url {
        return Ok(Target::Url(Endpoint {
            url: url.clone(),
            headers: args.header.clone(),
        }));
    }
    if let Some(testee) = &args.testee {
        return Ok(Target::Testee {
            argv: command_words("--testee", testee)?,
        });
    }
    if let Some(stdio) = &args.stdio {
        return Ok(Target::Command {
            argv: command_words("--stdio", stdio)?,
            over,
        });
    }
    if !launch.command.is_empty() {
        return Ok(Target::Command {
            argv: launch.command.clone(),
            over,
        });
    }
    let binary = match (&args.reference, &args.launch) {
        (Some(path), _) => path.clone(),
        (None, Some(template)) => {
            return Err(format!(
                "{}: there is no `command` in it, and no other target is named: write `command = [\"my-server\"]` at its top, \
                 or add --stdio 'my-server'",
                template.display()
            )
            .into());
        }
        (None, None) => reference::build().map_err(|error| format!("{error}; {TARGETS}"))?,
    };
    let word = binary.to_string_lossy().into_owned();
    launch
        .programs
        .insert(reference::BINARY.to_owned(), vec![word.clone()]);
    if launch.testee.is_empty() {
        launch.testee = vec![word, reference::TESTEE.to_owned()];
    }
    Ok(Target::Command {
        argv: reference::command(&binary),
        over,
    })
}

/// The server for which cases are shown by hand.
fn shown_server(options: &RunOptions) -> ShownServer {
    let mut subject = ShownServer {
        launch: options.launch.clone(),
        testee: options.launch.testee.clone(),
        ..ShownServer::default()
    };
    match &options.target {
        Target::Command { argv, .. } => subject.command = Some(argv.clone()),
        Target::Url(endpoint) => {
            subject.command = None;
            subject.url.clone_from(&endpoint.url);
        }
        Target::Testee { argv } => {
            subject.testee.clone_from(argv);
            subject.is_library = true;
        }
    }
    subject
}

fn records(
    suite: &Suite,
    indices: &[usize],
    pass: &TransportRun,
    args: &RunArgs,
    options: &RunOptions,
) -> Vec<CaseRecord> {
    let style = record::RecordSettings {
        strict: args.strict,
        whole: args.keep_traffic,
        transport: pass.transport,
        rerun: rerun(args, pass.transport),
        subject: shown_server(options),
    };
    let of = |index: &usize| {
        let case = &suite.cases[*index];
        let rounds = pass.rounds.iter();
        let trials: Vec<Option<&Trial>> = rounds.map(|round| round.get(index)).collect();
        // The first failure is shown.
        let failed = trials
            .iter()
            .flatten()
            .find(|trial| trial.verdict.is_failure());
        let shown = failed
            .copied()
            .or_else(|| trials.first().copied().flatten());
        let mut record = record::case(suite, case, shown, &style);
        let words: Vec<&str> = trials
            .iter()
            .flatten()
            .map(|trial| trial.verdict.word())
            .collect();
        if words.iter().any(|word| *word != words[0]) {
            record.status = Status::Flaky;
            record.cause = Some("flaky".to_owned());
            record.message = Some(format!("its verdicts differ: {}", words.join(", ")));
        }
        record
    };
    indices.iter().map(of).collect()
}

/// The command that repeats the run over one transport, without its selection and reports.
fn rerun(args: &RunArgs, transport: Option<Transport>) -> String {
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "ptc-conformance".to_owned());
    let mut words = vec![program, "run".to_owned()];
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([format!("--{name}"), value]);
        }
    };
    let path = |path: &Option<PathBuf>| {
        path.as_ref()
            .map(|path| path.to_string_lossy().into_owned())
    };
    add("stdio", args.stdio.clone());
    add("url", args.url.clone());
    add("testee", args.testee.clone());
    add("reference", path(&args.reference));
    for (name, value) in &args.header {
        add("header", Some(format!("{name}:{value}")));
    }
    let chosen = match transport {
        Some(Transport::Http) if args.url.is_none() => Some(TransportArg::Http),
        Some(Transport::Stdio) if is_reference(args) => Some(TransportArg::Stdio),
        _ => None,
    };
    add(
        "transport",
        chosen.map(|transport| transport.word().to_owned()),
    );
    add("launch", path(&args.launch));
    add("suite", path(&args.suite.suite.path));
    if args.profile == Profile::Mcp {
        add("profile", Some("mcp".to_owned()));
    }
    for tool in &args.tools {
        add("tool", Some(tool.clone()));
    }
    add("timeout", args.timeout.map(|timeout| timeout.to_string()));
    shell_words::join(words)
}

/// The cases with the verdicts that count for a baseline: a failure, if any pass had one.
fn judged<'s>(
    suite: &'s Suite,
    indices: &[usize],
    passes: &'s [TransportRun],
) -> Vec<(&'s Case, &'s Verdict)> {
    let of = |index: &usize| {
        let verdicts = passes.iter().filter_map(|pass| pass.verdict(*index));
        let worst = verdicts.min_by_key(|verdict| !verdict.is_failure())?;
        Some((&suite.cases[*index], worst))
    };
    indices.iter().filter_map(of).collect()
}

/// Marks the failures that the list expects.
fn mark_expected(
    run: &mut Run,
    list: &ExpectedFailures,
    suite: &Suite,
    indices: &[usize],
    passes: &[TransportRun],
) {
    let mut standings: BTreeMap<(&str, Option<Transport>), (ExpectedBy, String)> = BTreeMap::new();
    for pass in passes {
        for index in indices {
            let case = &suite.cases[*index];
            let standing = pass
                .verdict(*index)
                .map(|verdict| list.compare(case, verdict));
            let expected = match standing {
                Some(BaselineMatch::Expected(reason)) => (ExpectedBy::Baseline, reason),
                Some(BaselineMatch::Diverges(id)) => {
                    (ExpectedBy::Divergence, format!("recorded divergence {id}"))
                }
                Some(BaselineMatch::Plain) | None => continue,
            };
            standings.insert((&case.id, pass.transport), expected);
        }
    }
    for record in &mut run.cases {
        if let Some((by, reason)) = standings.get(&(record.id.as_str(), record.transport))
            && record.status == Status::Fail
        {
            record.status = Status::ExpectedFailure;
            record.expected_by = Some(*by);
            let message = record.message.take().unwrap_or_default();
            record.message = Some(format!("{reason} ({message})"));
        }
    }
}

/// The baseline that was named, or the reference's own.
fn baseline_path(args: &RunArgs) -> Option<PathBuf> {
    let own = || {
        reference::workspace()
            .ok()
            .map(|root| root.join(REFERENCE_BASELINE))
    };
    match &args.baseline {
        Some(path) => Some(path.clone()),
        None if is_reference(args) => own().filter(|path| path.is_file()),
        None => None,
    }
}

fn expected_failures(path: &Path) -> Result<ExpectedFailures, Failure> {
    let list = ExpectedFailures::read(&read(path)?);
    Ok(list.map_err(|error| format!("{}: {error}", path.display()))?)
}

fn read(path: &Path) -> Result<String, FileError> {
    files::read_text(path, files::SETTINGS_BYTES_MAX)
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
