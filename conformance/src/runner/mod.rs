//! Runs the cases of a suite against a target: plans, starts servers, runs each case, and collects the trials.
//! Knows nothing of reports, baselines or command lines.

pub mod by_hand;
pub mod case_runner;
pub mod case_source;
mod command;
mod controls;
mod exchange;
mod listening_server;
mod open;
pub mod plan;
mod pool;
mod retry;
pub mod start;
mod transcript;
pub mod trial;
mod warm_up;
mod wire;
mod wire_http;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::expected::{BaselineMatch, ExpectedFailures};
use crate::judge;
use crate::suite::{BlockKind, Case, CaseBody, Level, Suite, TargetSpec, Transport};
use crate::target::Patience;
use crate::target::capability;
use crate::target::claims::Claims;
use crate::target::launch::Launch;
use crate::verdict::Verdict;

use listening_server::ListeningServer;
use pool::CaseGroup;
use start::{PreferredTransport, Refusal, Target};
use trial::Trial;

/// After this many failed starts, if the target has never answered, nothing more is started.
const FAILED_STARTS_MAX: usize = 3;
/// How often a target whose very first handshake fails is tried.
const FIRST_START_ATTEMPTS: usize = 2;
/// Cases with a process of their own that run at the same time, per job.
const PROCESSES_PER_JOB: usize = 4;
/// One more server is started for each this many cases.
const CASES_PER_SERVER: usize = 250;

/// Bytes of target output that a run keeps for passed cases, and again for the others. Reports that are much larger can't
/// be read back.
const EVIDENCE_BYTES_MAX: usize = 64 << 20;
/// Longest text that a case keeps until that budget is used up, and afterwards, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;
const SHORT_TEXT_BYTES_MAX: usize = 256;

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The target under test.
    pub target: Target,
    /// How it is started.
    pub launch: Launch,
    /// What it claims to implement.
    pub claims: Claims,
    /// How long it may take.
    pub patience: Patience,
    /// Number of servers that run at the same time.
    pub jobs: usize,
    /// The failures that end the run early, if any do.
    pub fail_fast: Option<FailFast>,
    /// Tools of any MCP server that open cases may call, whatever their annotations say: `NAME`, or `NAME={…}` with arguments.
    pub tools: Vec<String>,
}

/// Which failures end a run early.
#[derive(Debug, Clone, Default)]
pub struct FailFast {
    /// Whether failures of SHOULD clauses do; otherwise these only warn.
    pub advised: bool,
    /// Expected failures, which don't.
    pub known: Arc<ExpectedFailures>,
}

impl FailFast {
    /// Whether this verdict on a case ends the run.
    pub fn ends(&self, suite: &Suite, index: usize, verdict: &Verdict) -> bool {
        let case = &suite.cases[index];
        verdict.is_failure()
            && (self.advised || suite.level(case) == Level::Must)
            && self.known.compare(case, verdict) == BaselineMatch::Plain
    }
}

impl RunOptions {
    /// The target for operations of the library: the target itself, or the adapter of the template.
    fn library(&self) -> Option<Target> {
        match &self.target {
            Target::Testee { .. } => Some(self.target.clone()),
            _ if self.launch.testee.is_empty() => None,
            _ => Some(Target::Testee {
                argv: self.launch.testee.clone(),
            }),
        }
    }
}

/// The trial of each selected case, by the case's index in the suite; absent when the run ended before its turn.
pub type Trials = BTreeMap<usize, Trial>;

/// The result of a run besides its trials.
#[derive(Debug)]
pub struct RunOutcome {
    /// The target's own name and version.
    pub server: Option<String>,
    /// The trial in which the target could not be judged at all: start, handshake or listing failed.
    pub unable: Option<Box<Trial>>,
}

/// State shared by the tasks of a run.
#[derive(Debug)]
pub struct RunState {
    suite: Arc<Suite>,
    launch: Launch,
    patience: Patience,
    answered: AtomicBool,
    failed_starts: AtomicUsize,
    over: AtomicBool,
    accepts_schemas: AtomicBool,
    exact_json: AtomicBool,
    retries: retry::RetryList,
    open: std::sync::OnceLock<Arc<open::OpenState>>,
    /// Bytes of output kept so far: of the cases that did not pass, and of those that passed.
    evidence: [AtomicUsize; 2],
    events: mpsc::UnboundedSender<RunEvent>,
}

/// What a run tells while it goes on.
#[derive(Debug)]
enum RunEvent {
    /// A case was judged.
    Trial(usize, Box<Trial>),
    /// Something that the user should know at once.
    Notice(String),
}

/// What a run tells its caller while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'r> {
    /// A case was judged.
    Judged(&'r Trial),
    /// Something that the user should know at once: a sentence.
    Notice(&'r str),
}

impl RunState {
    fn new(
        suite: Arc<Suite>,
        options: &RunOptions,
        events: mpsc::UnboundedSender<RunEvent>,
    ) -> Self {
        Self {
            suite,
            launch: options.launch.clone(),
            patience: options.patience,
            answered: AtomicBool::new(false),
            failed_starts: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            accepts_schemas: AtomicBool::new(true),
            exact_json: AtomicBool::new(true),
            retries: retry::RetryList::default(),
            open: std::sync::OnceLock::new(),
            evidence: Default::default(),
            events,
        }
    }

    fn report(&self, case: usize, trial: Trial) {
        let trial = self.limit_evidence(trial.checked_for_leaks(&self.suite.cases[case]));
        let Some(trial) = self.retries.hold_back(case, &self.suite.cases[case], trial) else {
            return;
        };
        // The receiver lives as long as the run.
        let _run_is_over = self.events.send(RunEvent::Trial(case, Box::new(trial)));
    }

    /// Tells the user something at once.
    fn notify(&self, notice: String) {
        let _run_is_over = self.events.send(RunEvent::Notice(notice));
    }

    /// Truncates the trial's evidence to the budget that the run has left.
    fn limit_evidence(&self, trial: Trial) -> Trial {
        let kept = &self.evidence[usize::from(trial.verdict.is_pass())];
        let room = kept.load(Ordering::Relaxed) < EVIDENCE_BYTES_MAX;
        let trial = trial.truncated_to(if room {
            TEXT_BYTES_MAX
        } else {
            SHORT_TEXT_BYTES_MAX
        });
        kept.fetch_add(trial.output_bytes(), Ordering::Relaxed);
        trial
    }

    fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether requests to servers may contain an `output_schema`.
    fn accepts_schemas(&self) -> bool {
        self.accepts_schemas.load(Ordering::Relaxed)
    }

    /// Whether the target's JSON keeps what doubles lose of a number.
    fn exact_json(&self) -> bool {
        self.exact_json.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts a failed start; returns whether there is no point in another one.
    fn is_hopeless(&self) -> bool {
        let failed = self.failed_starts.fetch_add(1, Ordering::Relaxed) + 1;
        !self.has_answered() && failed >= FAILED_STARTS_MAX
    }
}

/// Runs the cases at the `selected` indices. Each trial is stored in `trials` as it arrives, so that a caller that drops the run keeps
/// them. `seen` is told of it, and of what the user should know at once.
pub async fn run(
    suite: Arc<Suite>,
    selected: &[usize],
    options: RunOptions,
    trials: &mut Trials,
    mut seen: impl FnMut(Progress<'_>),
) -> RunOutcome {
    let (sender, mut events) = mpsc::unbounded_channel();
    let state = Arc::new(RunState::new(Arc::clone(&suite), &options, sender));
    let fail_fast = options.fail_fast.clone();
    let planned = selected.to_vec();
    let shared_state = Arc::clone(&state);
    // Dropping the run ends this task, and with it the starting of further servers.
    let mut runner_task = JoinSet::new();
    runner_task.spawn(async move {
        let server = run_by_group(&shared_state, &planned, options).await;
        drop(shared_state);
        server
    });
    let judge_over = Arc::downgrade(&state);
    drop(state);
    let mut stopped = false;
    while let Some(event) = events.recv().await {
        let (case, trial) = match event {
            RunEvent::Trial(case, trial) => (case, *trial),
            RunEvent::Notice(notice) => {
                seen(Progress::Notice(&notice));
                continue;
            }
        };
        seen(Progress::Judged(&trial));
        if let Some(which) = &fail_fast
            && which.ends(&suite, case, &trial.verdict)
            && let Some(state) = judge_over.upgrade()
        {
            state.over.store(true, Ordering::Relaxed);
            stopped = true;
        }
        trials.insert(case, trial);
    }
    let joined = runner_task.join_next().await;
    if !stopped {
        // A case without a trial counts as a failure; otherwise a broken harness would report success.
        let why = match &joined {
            Some(Err(error)) => error.to_string(),
            _ => "its task broke off".to_owned(),
        };
        for index in selected {
            trials
                .entry(*index)
                .or_insert_with(|| Trial::harness(format!("the harness lost this case: {why}")));
        }
    }
    match joined {
        Some(Ok(Ok(server))) => RunOutcome {
            server,
            unable: None,
        },
        Some(Ok(Err(unable))) => RunOutcome {
            server: None,
            unable: Some(unable),
        },
        Some(Err(_)) | None => RunOutcome {
            server: None,
            unable: None,
        },
    }
}

/// Groups the cases by what they need, and runs each group.
///
/// # Errors
/// The trial in which the target could not be judged at all; each case that needs it has it.
async fn run_by_group(
    state: &Arc<RunState>,
    selected: &[usize],
    options: RunOptions,
) -> Result<Option<String>, Box<Trial>> {
    let mut need_target = Vec::new();
    for index in selected {
        match &state.suite.cases[*index].body {
            CaseBody::Fixture(case) => state.report(*index, Trial::of(judge::fixture(case))),
            CaseBody::Clj(_)
            | CaseBody::Wire(_)
            | CaseBody::Http(_)
            | CaseBody::Call(_)
            | CaseBody::Cli(_) => need_target.push(*index),
        }
    }
    if need_target.is_empty() {
        return Ok(None);
    }
    let (open_cases, need_target): (Vec<usize>, Vec<usize>) = need_target
        .into_iter()
        .partition(|index| state.suite.cases[*index].is_open());
    if !open_cases.is_empty() {
        let server = open::run_all(state, &options, &open_cases).await;
        if need_target.is_empty() {
            retry::retry_all(state, &options).await;
            return server;
        }
    }
    let mut claims = options.claims.clone();
    let name = match probe_target(state, &options.target, &mut claims).await {
        Ok(name) => name,
        Err(trial) => {
            for index in need_target {
                state.report(index, (*trial).clone());
            }
            return Err(trial);
        }
    };
    for (shown, capability) in [
        (&state.accepts_schemas, capability::OUTPUT_SCHEMA),
        (&state.exact_json, capability::EXACT_JSON),
    ] {
        shown.store(claims.has(capability), Ordering::Relaxed);
    }
    let adapter = adapter(state, &options, &need_target, &claims).await;
    let (groups, single) = divide(state, need_target, &options, &claims, &adapter);
    let options = Arc::new(options);
    play(state, groups, single, &options).await;
    retry::retry_all(state, &options).await;
    Ok(name)
}

/// Divides the claimed cases into groups that share servers, and those that each have processes of their own. Reports the others.
fn divide(
    state: &RunState,
    indices: Vec<usize>,
    options: &RunOptions,
    claims: &Claims,
    adapter: &Result<Option<(Target, Claims)>, Box<Trial>>,
) -> (GroupsByTarget, Vec<usize>) {
    let mut groups = GroupsByTarget::default();
    let mut single = Vec::new();
    for index in indices {
        let case = &state.suite.cases[index];
        if let Some(reason) = not_claimed(case, options, claims) {
            state.report(index, Trial::of(Verdict::NotClaimed { capability: reason }));
            continue;
        }
        match &case.body {
            CaseBody::Clj(_) => groups.add(&options.target, &case.target, index),
            CaseBody::Call(call) => match adapter {
                Err(trial) => state.report(index, (**trial).clone()),
                Ok(Some((target, offered))) if offered.operations().contains(&call.op) => {
                    groups.add(target, &TargetSpec::default(), index);
                }
                Ok(_) => {
                    let capability = format!("the operation `{}`", call.op);
                    state.report(index, Trial::of(Verdict::NotClaimed { capability }));
                }
            },
            CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
                single.push(index)
            }
        }
    }
    (groups, single)
}

/// Plays the groups and the single cases, side by side unless the target is one running server.
async fn play(
    state: &Arc<RunState>,
    groups: GroupsByTarget,
    single: Vec<usize>,
    options: &Arc<RunOptions>,
) {
    // A server that is already running is a single server: parallel calls would use up its concurrency limit for each other.
    let shared = matches!(options.target, Target::Url(_));
    let jobs = if shared { 1 } else { options.jobs.max(1) };
    let mut tasks = JoinSet::new();
    let servers = Arc::new(Semaphore::new(jobs));
    for group in groups.largest_first() {
        let wanted = group.len().div_ceil(CASES_PER_SERVER).clamp(1, jobs);
        let group = Arc::new(group);
        for _ in 0..wanted {
            let (state, group) = (Arc::clone(state), Arc::clone(&group));
            let servers = Arc::clone(&servers);
            tasks.spawn(async move {
                let _permit = servers.acquire_owned().await;
                pool::run_group(state, group).await;
            });
        }
    }
    if shared {
        while tasks.join_next().await.is_some() {}
    }
    // Cases with a process of their own spend most of their time waiting.
    let slots = Arc::new(Semaphore::new(if shared {
        1
    } else {
        jobs * PROCESSES_PER_JOB
    }));
    for index in single {
        let (state, options) = (Arc::clone(state), Arc::clone(options));
        let slots = Arc::clone(&slots);
        tasks.spawn(async move {
            let _permit = slots.acquire_owned().await;
            if !state.is_over() {
                let trial = run_alone(&state, &options, index).await;
                state.report(index, trial);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Starts the target once without further settings, asks for its capabilities, and learns its name.
async fn probe_target(
    state: &RunState,
    target: &Target,
    claims: &mut Claims,
) -> Result<Option<String>, Box<Trial>> {
    let mut tries = 0;
    loop {
        tries += 1;
        let started = target
            .link(&state.launch, &TargetSpec::default(), state.patience)
            .await
            .map_err(|refusal| Box::new(Trial::refused(&refusal)))?;
        let trial = match started {
            Err((failed, stderr)) => Trial::failed(&failed, stderr, false),
            Ok(link) => {
                let restartable = matches!(target, Target::Command { .. });
                match claims.probe(&link, restartable, state.patience).await {
                    Ok(()) => {
                        state.note_answer();
                        let name = link.name().map(str::to_owned);
                        let _no_case_is_about_it = link.close(state.patience).await;
                        return Ok(name);
                    }
                    Err(fault) => {
                        let trial = Trial::faulted(&fault, "", link.stderr(), false);
                        link.kill().await;
                        trial
                    }
                }
            }
        };
        let slow = matches!(
            trial.verdict,
            Verdict::Silent { .. } | Verdict::TimedOut { .. }
        );
        if slow || tries >= FIRST_START_ATTEMPTS {
            return Err(Box::new(trial));
        }
    }
}

/// The adapter for cases that call the library, with its capabilities: the target itself, or the template's adapter.
async fn adapter(
    state: &RunState,
    options: &RunOptions,
    need_target: &[usize],
    claims: &Claims,
) -> Result<Option<(Target, Claims)>, Box<Trial>> {
    let calls = |index: &usize| matches!(state.suite.cases[*index].body, CaseBody::Call(_));
    let target = match options.library() {
        Some(target) if matches!(options.target, Target::Testee { .. }) => {
            return Ok(Some((target, claims.clone())));
        }
        Some(target) if need_target.iter().any(calls) => target,
        _ => return Ok(None),
    };
    let mut offered = Claims::default();
    probe_target(state, &target, &mut offered).await?;
    Ok(Some((target, offered)))
}

fn not_claimed(case: &Case, options: &RunOptions, claims: &Claims) -> Option<String> {
    let kind = case.body.kind();
    if let Some(need) = kind.capability().filter(|_| !can_run(kind, options)) {
        return Some(format!("{need}, which this kind of target does not have"));
    }
    if case.target.transport == Transport::Stdio
        && !matches!(options.target, Target::Command { .. })
    {
        return Some("stdio, which this kind of target does not have".to_owned());
    }
    claims.refusal(case, case.needs())
}

/// Whether cases of this kind can run at all against such a target.
fn can_run(kind: BlockKind, options: &RunOptions) -> bool {
    let command = matches!(options.target, Target::Command { .. });
    let url = matches!(options.target, Target::Url(_));
    let testee = matches!(options.target, Target::Testee { .. });
    match kind {
        // Over HTTP a transcript can still be played if it needs no standard streams.
        BlockKind::Wire => command || url,
        BlockKind::Http => url || (command && !options.launch.http.is_empty()),
        BlockKind::Call => testee || !options.launch.testee.is_empty(),
        BlockKind::Cli => command && !options.launch.programs.is_empty(),
        BlockKind::Clj | BlockKind::Fixture => true,
    }
}

/// Runs a case that needs a process of its own.
async fn run_alone(state: &RunState, options: &RunOptions, index: usize) -> Trial {
    let case = &state.suite.cases[index];
    if case.is_open() {
        return open::retry(state, case).await;
    }
    let over = match case.target.transport {
        Transport::Any => options.target.over(),
        Transport::Stdio => PreferredTransport::Stdio,
        Transport::Http => PreferredTransport::Http,
    };
    let tried = match &case.body {
        CaseBody::Cli(cli) => {
            return command::run(cli, &case.target, &state.launch, state.patience).await;
        }
        CaseBody::Wire(wire) if over == PreferredTransport::Stdio => {
            prepare(state, options, case, over).map(|prepared| Some((wire, prepared)))
        }
        CaseBody::Wire(_) | CaseBody::Http(_) => Ok(None),
        CaseBody::Clj(_) | CaseBody::Call(_) | CaseBody::Fixture(_) => {
            return Trial::harness("the case is not an exchange");
        }
    };
    match tried {
        Err(refusal) => Trial::refused(&refusal),
        Ok(Some((wire, prepared))) => {
            wire::play(
                wire,
                &prepared,
                state.patience,
                warm_up::cannot_observe(case),
            )
            .await
        }
        Ok(None) => over_http(state, options, case).await,
    }
}

async fn over_http(state: &RunState, options: &RunOptions, case: &Case) -> Trial {
    let mut files = None;
    let (server, endpoint) = if let Target::Url(endpoint) = &options.target {
        if let Some(need) = start::needs_start(&case.target) {
            let reason = format!("{need}, which a running server cannot be given");
            return Trial::refused(&Refusal::NotClaimed(reason));
        }
        let server = ListeningServer {
            process: None,
            traces: None,
            directory: std::path::PathBuf::new(),
        };
        (server, endpoint.clone())
    } else {
        let prepared = match prepare(state, options, case, PreferredTransport::Http) {
            Ok(prepared) => prepared,
            Err(refusal) => return Trial::refused(&refusal),
        };
        let Some(listener) = prepared.listener.clone() else {
            return Trial::harness("the server was not told to listen");
        };
        let process = match listener.start(state.patience).await {
            Ok(process) => process,
            Err((failed, stderr)) => return Trial::failed(&failed, stderr, false),
        };
        let server = ListeningServer {
            process: Some(process),
            traces: prepared.traces.clone(),
            directory: prepared.directory.clone(),
        };
        files = Some(prepared);
        (server, listener.endpoint)
    };
    let trial = match &case.body {
        CaseBody::Http(http) => exchange::play(http, server, &endpoint, state.patience, None).await,
        CaseBody::Wire(wire) => {
            wire_http::play(
                wire,
                server,
                &endpoint,
                state.patience,
                warm_up::cannot_observe(case),
            )
            .await
        }
        CaseBody::Clj(_) | CaseBody::Call(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
            Trial::harness("the case is not an exchange")
        }
    };
    drop(files);
    trial
}

fn prepare(
    state: &RunState,
    options: &RunOptions,
    case: &Case,
    over: PreferredTransport,
) -> Result<start::PreparedProcess, Refusal> {
    options
        .target
        .prepare(&state.launch, &case.target, over, false)
}

/// Cases grouped by the target that they need.
#[derive(Default)]
struct GroupsByTarget(BTreeMap<String, (Target, TargetSpec, Vec<usize>)>);

impl GroupsByTarget {
    fn add(&mut self, target: &Target, spec: &TargetSpec, index: usize) {
        let spec = TargetSpec {
            requires: Default::default(),
            transport: Transport::Any,
            ..spec.clone()
        };
        // Two target blocks are the same if they serialize to the same text.
        let written = serde_json::to_string(&spec).unwrap_or_default();
        let key = format!("{} {written}", target.name());
        let (_, _, indices) = self
            .0
            .entry(key)
            .or_insert_with(|| (target.clone(), spec, Vec::new()));
        indices.push(index);
    }

    fn largest_first(self) -> Vec<CaseGroup> {
        let mut groups: Vec<CaseGroup> = self
            .0
            .into_values()
            .map(|(target, spec, indices)| CaseGroup::new(target, spec, indices))
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups
    }
}
