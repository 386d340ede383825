//! Runs the cases of a suite against a target: plans, starts servers, runs each case, and collects the trials.
//! Knows nothing of reports, baselines or command lines.

mod again;
pub mod asker;
pub mod by_hand;
mod command;
mod controls;
mod exchange;
mod open;
pub mod plan;
mod pool;
mod posted;
pub mod script;
mod served;
pub mod start;
mod transcript;
pub mod trial;
mod warm_up;
mod wire;

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

use pool::CaseGroup;
use served::ListeningServer;
use start::{PreferredTransport, Refusal, Target};
use trial::Trial;

/// After this many failed starts, if the target has never answered, nothing more is started.
const HOPELESS_STARTS: usize = 3;
/// How often a target whose very first handshake fails is tried.
const FIRST_TRIES: usize = 2;
/// Cases with a process of their own that run at the same time, per job.
const SEATS_PER_JOB: usize = 4;
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
    pub fn ends(&self, suite: &Suite, place: usize, verdict: &Verdict) -> bool {
        let case = &suite.cases[place];
        verdict.is_failure()
            && (self.advised || suite.level(case) == Level::Must)
            && self.known.standing(case, verdict) == BaselineMatch::Plain
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
    /// Why the target could not be judged at all: start, handshake or listing failed.
    pub unable: Option<String>,
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
    takes_schemas: AtomicBool,
    again: again::RetryList,
    ground: std::sync::OnceLock<Arc<open::OpenState>>,
    /// Bytes of output kept so far: of the cases that did not pass, and of those that passed.
    evidence: [AtomicUsize; 2],
    trials: mpsc::UnboundedSender<(usize, Trial)>,
}

impl RunState {
    fn new(
        suite: Arc<Suite>,
        orders: &RunOptions,
        trials: mpsc::UnboundedSender<(usize, Trial)>,
    ) -> Self {
        Self {
            suite,
            launch: orders.launch.clone(),
            patience: orders.patience,
            answered: AtomicBool::new(false),
            failed_starts: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            takes_schemas: AtomicBool::new(true),
            again: again::RetryList::default(),
            ground: std::sync::OnceLock::new(),
            evidence: Default::default(),
            trials,
        }
    }

    fn report(&self, case: usize, trial: Trial) {
        let trial = self.bounded(trial.held_to_all(&self.suite.cases[case]));
        let Some(trial) = self.again.keep(case, &self.suite.cases[case], trial) else {
            return;
        };
        // The receiver lives as long as the run.
        let _run_is_over = self.trials.send((case, trial));
    }

    /// Truncates the trial's evidence to the budget that the run has left.
    fn bounded(&self, trial: Trial) -> Trial {
        let kept = &self.evidence[usize::from(trial.verdict.is_pass())];
        let room = kept.load(Ordering::Relaxed) < EVIDENCE_BYTES_MAX;
        let trial = trial.within(if room {
            TEXT_BYTES_MAX
        } else {
            SHORT_TEXT_BYTES_MAX
        });
        kept.fetch_add(trial.size(), Ordering::Relaxed);
        trial
    }

    fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether requests to servers may contain an `output_schema`.
    fn takes_schemas(&self) -> bool {
        self.takes_schemas.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts a failed start; returns whether there is no point in another one.
    fn is_hopeless(&self) -> bool {
        let failed = self.failed_starts.fetch_add(1, Ordering::Relaxed) + 1;
        !self.has_answered() && failed >= HOPELESS_STARTS
    }
}

/// Runs the cases at the `selected` indices. Each trial is stored in `trials` as it arrives, so that a caller that drops the run keeps
/// them, and is passed to `seen`.
pub async fn run(
    suite: Arc<Suite>,
    selected: &[usize],
    orders: RunOptions,
    trials: &mut Trials,
    mut seen: impl FnMut(&Trial),
) -> RunOutcome {
    let (sender, mut tried) = mpsc::unbounded_channel();
    let session = Arc::new(RunState::new(Arc::clone(&suite), &orders, sender));
    let fail_fast = orders.fail_fast.clone();
    let planned = selected.to_vec();
    let playing = Arc::clone(&session);
    // Dropping the run ends this task, and with it the starting of further servers.
    let mut director = JoinSet::new();
    director.spawn(async move {
        let server = direct(&playing, &planned, orders).await;
        drop(playing);
        server
    });
    let judge_over = Arc::downgrade(&session);
    drop(session);
    let mut stopped = false;
    while let Some((case, trial)) = tried.recv().await {
        seen(&trial);
        if let Some(which) = &fail_fast
            && which.ends(&suite, case, &trial.verdict)
            && let Some(session) = judge_over.upgrade()
        {
            session.over.store(true, Ordering::Relaxed);
            stopped = true;
        }
        trials.insert(case, trial);
    }
    let told = director.join_next().await;
    if !stopped {
        // A case without a trial counts as a failure; otherwise a broken harness would report success.
        let why = match &told {
            Some(Err(error)) => error.to_string(),
            _ => "its task broke off".to_owned(),
        };
        for place in selected {
            trials
                .entry(*place)
                .or_insert_with(|| Trial::harness(format!("the harness lost this case: {why}")));
        }
    }
    match told {
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
/// Why the target could not be judged at all; each case that needs it has a trial that says so.
async fn direct(
    session: &Arc<RunState>,
    selected: &[usize],
    orders: RunOptions,
) -> Result<Option<String>, String> {
    let mut needy = Vec::new();
    for place in selected {
        match &session.suite.cases[*place].body {
            CaseBody::Fixture(case) => session.report(*place, Trial::of(judge::fixture(case))),
            CaseBody::Clj(_)
            | CaseBody::Wire(_)
            | CaseBody::Http(_)
            | CaseBody::Call(_)
            | CaseBody::Cli(_) => needy.push(*place),
        }
    }
    if needy.is_empty() {
        return Ok(None);
    }
    let (opened, needy): (Vec<usize>, Vec<usize>) = needy
        .into_iter()
        .partition(|place| session.suite.cases[*place].is_open());
    if !opened.is_empty() {
        let told = open::all(session, &orders, &opened).await;
        if needy.is_empty() {
            again::all(session, &orders).await;
            return told;
        }
    }
    let mut claims = orders.claims.clone();
    let name = match first_contact(session, &orders.target, &mut claims).await {
        Ok(name) => name,
        Err(trial) => {
            for place in needy {
                session.report(place, (*trial).clone());
            }
            return Err(trial.told());
        }
    };
    let takes_schemas = claims.has(capability::OUTPUT_SCHEMA);
    session
        .takes_schemas
        .store(takes_schemas, Ordering::Relaxed);
    let adapter = adapter(session, &orders, &needy, &claims).await;
    let mut groups = GroupsByTarget::default();
    let mut single = Vec::new();
    for place in needy {
        let case = &session.suite.cases[place];
        if let Some(reason) = not_claimed(case, &orders, &claims) {
            session.report(place, Trial::of(Verdict::NotClaimed { capability: reason }));
            continue;
        }
        match &case.body {
            CaseBody::Clj(_) => groups.add(&orders.target, &case.target, place),
            CaseBody::Call(call) => match &adapter {
                Err(trial) => session.report(place, (**trial).clone()),
                Ok(Some((target, offered))) if offered.operations().contains(&call.op) => {
                    groups.add(target, &TargetSpec::default(), place);
                }
                Ok(_) => {
                    let capability = format!("the operation `{}`", call.op);
                    session.report(place, Trial::of(Verdict::NotClaimed { capability }));
                }
            },
            CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
                single.push(place)
            }
        }
    }
    // A server that is already running is a single server: parallel calls would use up its concurrency limit for each other.
    let shared = matches!(orders.target, Target::Url(_));
    let jobs = if shared { 1 } else { orders.jobs.max(1) };
    let mut tasks = JoinSet::new();
    let servers = Arc::new(Semaphore::new(jobs));
    for group in groups.largest_first() {
        let wanted = group.len().div_ceil(CASES_PER_SERVER).clamp(1, jobs);
        let group = Arc::new(group);
        for _ in 0..wanted {
            let (session, group) = (Arc::clone(session), Arc::clone(&group));
            let servers = Arc::clone(&servers);
            tasks.spawn(async move {
                let _permit = servers.acquire_owned().await;
                pool::serve(session, group).await;
            });
        }
    }
    if shared {
        while tasks.join_next().await.is_some() {}
    }
    // Cases with a process of their own spend most of their time waiting.
    let seats = Arc::new(Semaphore::new(if shared {
        1
    } else {
        jobs * SEATS_PER_JOB
    }));
    let orders = Arc::new(orders);
    for place in single {
        let (session, orders) = (Arc::clone(session), Arc::clone(&orders));
        let seats = Arc::clone(&seats);
        tasks.spawn(async move {
            let _permit = seats.acquire_owned().await;
            if !session.is_over() {
                let trial = try_alone(&session, &orders, place).await;
                session.report(place, trial);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    again::all(session, &orders).await;
    Ok(name)
}

/// Starts the target once without further settings, asks for its capabilities, and learns its name.
async fn first_contact(
    session: &RunState,
    target: &Target,
    claims: &mut Claims,
) -> Result<Option<String>, Box<Trial>> {
    let mut tries = 0;
    loop {
        tries += 1;
        let started = target
            .link(&session.launch, &TargetSpec::default(), session.patience)
            .await
            .map_err(|refusal| Box::new(Trial::refused(&refusal)))?;
        let trial = match started {
            Err((failed, stderr)) => Trial::failed(&failed, stderr, false),
            Ok(link) => {
                let restartable = matches!(target, Target::Command { .. });
                match claims.probe(&link, restartable, session.patience).await {
                    Ok(()) => {
                        session.note_answer();
                        let name = link.name().map(str::to_owned);
                        let _no_case_is_about_it = link.close(session.patience).await;
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
        if slow || tries >= FIRST_TRIES {
            return Err(Box::new(trial));
        }
    }
}

/// The adapter for cases that call the library, with its capabilities: the target itself, or the template's adapter.
async fn adapter(
    session: &RunState,
    orders: &RunOptions,
    needy: &[usize],
    claims: &Claims,
) -> Result<Option<(Target, Claims)>, Box<Trial>> {
    let calls = |place: &usize| matches!(session.suite.cases[*place].body, CaseBody::Call(_));
    let target = match orders.library() {
        Some(target) if matches!(orders.target, Target::Testee { .. }) => {
            return Ok(Some((target, claims.clone())));
        }
        Some(target) if needy.iter().any(calls) => target,
        _ => return Ok(None),
    };
    let mut offered = Claims::default();
    first_contact(session, &target, &mut offered).await?;
    Ok(Some((target, offered)))
}

fn not_claimed(case: &Case, orders: &RunOptions, claims: &Claims) -> Option<String> {
    let kind = case.body.kind();
    if let Some(need) = kind.capability().filter(|_| !reachable(kind, orders)) {
        return Some(format!("{need}, which this kind of target does not have"));
    }
    if case.target.transport == Transport::Stdio && !matches!(orders.target, Target::Command { .. })
    {
        return Some("stdio, which this kind of target does not have".to_owned());
    }
    claims.refusal(case, case.needs())
}

/// Whether cases of this kind can run at all against such a target.
fn reachable(kind: BlockKind, orders: &RunOptions) -> bool {
    let command = matches!(orders.target, Target::Command { .. });
    let url = matches!(orders.target, Target::Url(_));
    let testee = matches!(orders.target, Target::Testee { .. });
    match kind {
        // Over HTTP a transcript can still be played if it needs no standard streams.
        BlockKind::Wire => command || url,
        BlockKind::Http => url || (command && !orders.launch.http.is_empty()),
        BlockKind::Call => testee || !orders.launch.testee.is_empty(),
        BlockKind::Cli => command && !orders.launch.programs.is_empty(),
        BlockKind::Clj | BlockKind::Fixture => true,
    }
}

/// Runs a case that needs a process of its own.
async fn try_alone(session: &RunState, orders: &RunOptions, place: usize) -> Trial {
    let case = &session.suite.cases[place];
    if case.is_open() {
        return open::again(session, case).await;
    }
    let over = match case.target.transport {
        Transport::Any => orders.target.over(),
        Transport::Stdio => PreferredTransport::Stdio,
        Transport::Http => PreferredTransport::Http,
    };
    let tried = match &case.body {
        CaseBody::Cli(cli) => {
            return command::run(cli, &case.target, &session.launch, session.patience).await;
        }
        CaseBody::Wire(wire) if over == PreferredTransport::Stdio => {
            prepare(session, orders, case, over).map(|prepared| Some((wire, prepared)))
        }
        CaseBody::Wire(_) | CaseBody::Http(_) => Ok(None),
        CaseBody::Clj(_) | CaseBody::Call(_) | CaseBody::Fixture(_) => {
            return Trial::harness("the case is not an exchange");
        }
    };
    match tried {
        Err(refusal) => Trial::refused(&refusal),
        Ok(Some((wire, prepared))) => {
            wire::play(wire, &prepared, session.patience, warm_up::is_unseen(case)).await
        }
        Ok(None) => over_http(session, orders, case).await,
    }
}

async fn over_http(session: &RunState, orders: &RunOptions, case: &Case) -> Trial {
    let mut files = None;
    let (server, endpoint) = if let Target::Url(endpoint) = &orders.target {
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
        let prepared = match prepare(session, orders, case, PreferredTransport::Http) {
            Ok(prepared) => prepared,
            Err(refusal) => return Trial::refused(&refusal),
        };
        let Some(served) = prepared.served.clone() else {
            return Trial::harness("the server was not told to listen");
        };
        let process = match served.up(session.patience).await {
            Ok(process) => process,
            Err((failed, stderr)) => return Trial::failed(&failed, stderr, false),
        };
        let server = ListeningServer {
            process: Some(process),
            traces: prepared.traces.clone(),
            directory: prepared.directory.clone(),
        };
        files = Some(prepared);
        (server, served.endpoint)
    };
    let trial = match &case.body {
        CaseBody::Http(http) => {
            exchange::play(http, server, &endpoint, session.patience, None).await
        }
        CaseBody::Wire(wire) => {
            posted::play(
                wire,
                server,
                &endpoint,
                session.patience,
                warm_up::is_unseen(case),
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
    session: &RunState,
    orders: &RunOptions,
    case: &Case,
    over: PreferredTransport,
) -> Result<start::Prepared, Refusal> {
    orders
        .target
        .prepare(&session.launch, &case.target, over, false)
}

/// Cases grouped by the target that they need.
#[derive(Default)]
struct GroupsByTarget(BTreeMap<String, (Target, TargetSpec, Vec<usize>)>);

impl GroupsByTarget {
    fn add(&mut self, target: &Target, spec: &TargetSpec, place: usize) {
        let spec = TargetSpec {
            requires: Default::default(),
            transport: Transport::Any,
            ..spec.clone()
        };
        // Two target blocks are the same if they serialize to the same text.
        let written = serde_json::to_string(&spec).unwrap_or_default();
        let key = format!("{} {written}", target.name());
        let (_, _, places) = self
            .0
            .entry(key)
            .or_insert_with(|| (target.clone(), spec, Vec::new()));
        places.push(place);
    }

    fn largest_first(self) -> Vec<CaseGroup> {
        let mut groups: Vec<CaseGroup> = self
            .0
            .into_values()
            .map(|(target, spec, places)| CaseGroup::new(target, spec, places))
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups
    }
}
