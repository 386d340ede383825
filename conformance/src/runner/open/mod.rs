//! Plays open exchanges: cases that can be run against any MCP server. The server is surveyed once; then most cases share one connection,
//! those that need a process get their own, and the findings in everything that the server sent are judged last.

mod arguments;
mod authorization;
mod connection;
pub(super) mod findings;
mod input;
pub(super) mod play;
mod shapes;
mod silence;
pub(super) mod stateless;
mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::listening_server::ListeningServer;
use super::start::{PreferredTransport, PreparedProcess, Refusal, Target};
use super::transcript::{Record, Stop};
use super::trial::Trial;
use super::{RunOptions, RunState, exchange, not_claimed};
use crate::json::Json;
use crate::suite::{
    Captures, Case, CaseBody, Control, TargetSpec, Transport, WireAction, WireCase,
};
use crate::target::Patience;
use crate::target::capability;
use crate::target::fault::Fault;
use crate::target::http::Endpoint;
use crate::target::pipe::Pipe;
use crate::verdict::Verdict;

use connection::Connection;
use findings::Findings;
pub use silence::SILENT_CASES_MAX;
use silence::Silence;
use survey::Survey;

/// Separate processes that run at the same time, per job.
const PROCESSES_PER_JOB: usize = 1;
/// Minimum time for a server to answer whether it supports the stateless revision.
const DISCOVERY_MIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Maximum time for that answer after the server rejected `initialize`.
const DISCOVERY_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Time limit of the first start, unless the user sets one.
const FIRST_START_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// A case that waits longer than this gets a connection of its own, so that others need not wait for it.
const LONG_WAIT_MS: u64 = 400;
/// Any later start or answer may take this many times as long as the first start, because concurrent cases slow it down.
const WAIT_FACTOR: u32 = 5;
/// The first id assigned to cases; smaller ones appear literally in cases.
const FIRST_ID: u64 = 1001;
/// Names of the ids that a case may use.
const IDS: &[&str] = &["mcp.id", "mcp.id2", "mcp.id3", "mcp.id4"];

/// State shared by all open cases of a run.
#[derive(Debug)]
pub struct OpenState {
    survey: Survey,
    findings: Arc<Findings>,
    access: ServerAccess,
    patience: Patience,
    silence: Silence,
    /// Whether the server does not support `initialize`, so that the stateless revision is used.
    stateless: bool,
    next: AtomicU64,
}

/// The way in which the server is reached.
#[derive(Debug)]
enum ServerAccess {
    /// Over the standard streams of a process that is started.
    Pipe(Arc<PreparedProcess>),
    /// Over HTTP; the process is present if the harness started it.
    Http {
        endpoint: Endpoint,
        _server: Option<Box<(Pipe, PreparedProcess)>>,
    },
}

/// Runs the open cases. Returns the server's own name.
///
/// # Errors
/// The trial in which the server could not be judged at all; each case has it.
pub async fn run_all(
    state: &Arc<RunState>,
    options: &RunOptions,
    indices: &[usize],
) -> Result<Option<String>, Box<Trial>> {
    // If the claims exclude all these cases, the server is not even started.
    let mut wanted = Vec::new();
    for index in indices {
        let case = &state.suite.cases[*index];
        match options.claims.refusal(case, std::iter::empty::<&str>()) {
            Some(capability) => {
                state.report(*index, Trial::of(Verdict::NotClaimed { capability }));
            }
            None => wanted.push(*index),
        }
    }
    let indices = &wanted;
    if indices.is_empty() {
        return Ok(None);
    }
    let (mut connection, open) = match start(state, options).await {
        Ok(begun) => begun,
        Err((trial, findings)) => {
            for index in indices {
                let case = &state.suite.cases[*index];
                let found = judge_findings(case, &findings);
                state.report(*index, found.unwrap_or_else(|| (*trial).clone()));
            }
            // What the server wrote instead of an answer explains more than the missing answer.
            return match findings.is_empty() {
                true => Err(trial),
                false => Ok(None),
            };
        }
    };
    state.note_answer();
    let open = state.open.get_or_init(|| Arc::new(open));
    let mut claims = options.claims.clone();
    claims.add_surveyed(open.survey.capabilities.iter().cloned());
    let (mut shared, mut own, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for index in indices {
        let case = &state.suite.cases[*index];
        let closed = || {
            connection
                .is_none()
                .then(|| open.lacks_token(case))
                .flatten()
        };
        let lacking = closed()
            .or_else(|| not_claimed(case, options, &claims).map(capability_phrase))
            .or_else(|| open.lacks(case));
        if let Some(capability) = lacking {
            state.report(*index, Trial::of(Verdict::NotClaimed { capability }));
        } else if only_checks_findings(case) {
            last.push(*index);
        } else if needs_own_connection(case) || (open.is_pipe() && waits_long(case)) {
            own.push(*index);
        } else {
            shared.push(*index);
        }
    }
    let mut tasks = JoinSet::new();
    let jobs = match options.target {
        Target::Url(_) => 1,
        _ => options.jobs.max(1) * PROCESSES_PER_JOB,
    };
    let slots = Arc::new(Semaphore::new(jobs));
    for index in own {
        let (state, open, slots) = (Arc::clone(state), Arc::clone(open), Arc::clone(&slots));
        tasks.spawn(async move {
            let _permit = slots.acquire_owned().await;
            if !state.is_over() {
                let patience = open.silence.patience(open.patience);
                let trial = open.play_alone(&state.suite.cases[index], patience).await;
                open.report(&state, index, trial);
            }
        });
    }
    for index in shared {
        if state.is_over() {
            break;
        }
        let trial = open
            .play_shared(&mut connection, &state.suite.cases[index])
            .await;
        open.report(state, index, trial);
    }
    if let Some(mut connection) = connection {
        connection.shut_down().await;
    }
    while tasks.join_next().await.is_some() {}
    for index in last {
        let trial = open
            .play_alone(&state.suite.cases[index], open.patience)
            .await;
        state.report(index, trial);
    }
    Ok(open.survey.name.clone())
}

/// Retries an open case, alone.
pub async fn retry(state: &RunState, case: &Case) -> Trial {
    match state.open.get() {
        Some(open) => open.play_alone(case, open.patience).await,
        None => Trial::harness("the server was not surveyed"),
    }
}

/// Starts the server, performs the handshake and surveys the server.
async fn start(
    state: &RunState,
    options: &RunOptions,
) -> Result<(Option<Connection>, OpenState), (Box<Trial>, Arc<Findings>)> {
    let findings: Arc<Findings> = Arc::default();
    let open = start_and_survey(state, options, &findings).await;
    open.map_err(|trial| (trial, findings))
}

async fn start_and_survey(
    state: &RunState,
    options: &RunOptions,
    findings: &Arc<Findings>,
) -> Result<(Option<Connection>, OpenState), Box<Trial>> {
    let mut open = OpenState {
        survey: Survey::default(),
        findings: Arc::clone(findings),
        access: ServerAccess::of(state, options).await?,
        patience: state.patience,
        silence: Silence::default(),
        stateless: false,
        next: AtomicU64::new(FIRST_ID),
    };
    let faulted =
        |fault: &Fault, stderr: String| Box::new(Trial::faulted(fault, "", stderr, false));
    // Unless the user sets a time limit, allow for a command that has to install the server first.
    if state.patience.start == Patience::default().start {
        open.patience.start = FIRST_START_MAX;
    }
    let mut connection = open
        .connect()
        .map_err(|fault| faulted(&fault, String::new()))?;
    if let ServerAccess::Http { endpoint, .. } = &open.access
        && let Some(opened) = authorization::survey(endpoint, &open.findings, state.patience).await
    {
        open.add_capability("mcp-authorization");
        if !opened {
            return Ok((None, open));
        }
    }
    let began = Instant::now();
    let opened = open.initialize(&mut connection).await;
    let surveyed = async {
        let (opened, fresh) = opened?;
        let slow = began.elapsed() * WAIT_FACTOR;
        open.patience.start = state.patience.start;
        open.patience.start = open.patience.start.max(slow);
        open.patience.reply = open.patience.reply.max(slow);
        open.patience.exit = open.patience.exit.max(slow);
        let (tools, patience) = (&options.tools, state.patience);
        let survey =
            survey::survey(&mut connection, &opened, tools, &open.findings, patience).await?;
        Ok((survey, fresh))
    };
    match surveyed.await {
        Ok((survey, fresh)) => {
            open.survey = survey;
            if let Ok(fresh) = fresh {
                open.survey_stateless(fresh, began.elapsed().max(DISCOVERY_MIN))
                    .await;
            }
            if !(open.stateless && matches!(open.access, ServerAccess::Http { .. })) {
                open.add_capability("mcp-cancelled");
            }
            if connection
                .session_headers()
                .iter()
                .any(|(name, _)| name == "Mcp-Session-Id")
            {
                open.add_capability("mcp-sessions");
                let other = open.connect_initialized(open.patience).await?;
                if other.close().await.is_some_and(|status| status < 300) {
                    open.add_capability("mcp-delete");
                }
            }
            Ok((Some(connection), open))
        }
        Err(stop) => {
            let stderr = connection.stderr();
            let record = std::mem::take(&mut connection.record);
            connection.shut_down().await;
            Err(Box::new(record.into_trial(
                Some(stop),
                Instant::now(),
                stderr,
            )))
        }
    }
}

impl ServerAccess {
    /// Prepares the target, and starts it if it is to listen.
    async fn of(state: &RunState, options: &RunOptions) -> Result<Self, Box<Trial>> {
        let refused = |refusal: Refusal| Box::new(Trial::refused(&refusal));
        let spec = TargetSpec::default();
        match &options.target {
            Target::Testee { .. } => {
                let need = "stdio, which this kind of target does not have".to_owned();
                Err(refused(Refusal::NotClaimed(need)))
            }
            Target::Url(endpoint) => Ok(ServerAccess::Http {
                endpoint: endpoint.clone(),
                _server: None,
            }),
            Target::Command { over, .. } => {
                let prepared = options.target.prepare(&state.launch, &spec, *over, false);
                let prepared = prepared.map_err(refused)?;
                match prepared.listener.clone() {
                    None => Ok(ServerAccess::Pipe(Arc::new(prepared))),
                    Some(listener) => {
                        let up = listener.start(state.patience).await;
                        let pipe = up.map_err(|(failed, stderr)| {
                            Box::new(Trial::failed(&failed, stderr, false))
                        })?;
                        Ok(ServerAccess::Http {
                            endpoint: listener.endpoint,
                            _server: Some(Box::new((pipe, prepared))),
                        })
                    }
                }
            }
        }
    }
}

impl OpenState {
    fn report(&self, state: &RunState, index: usize, trial: Trial) {
        if self.silence.observe(&trial) {
            state.notify(Silence::notice(self.patience));
        }
        state.report(index, trial);
    }

    /// Performs the handshake, or finds that the server speaks the stateless revision only; `connection` then is one of that revision.
    /// Returns the answer, and an unused connection.
    async fn initialize(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(Value, Result<Connection, Fault>), Stop> {
        let began = Instant::now();
        let fresh = self.connect();
        let stop = match connection.initialize().await {
            Ok(opened) => return Ok((opened, fresh)),
            Err(stop) => stop,
        };
        // A server of the stateless revision only is discovered on a connection that does not begin with `initialize`.
        let Ok(fresh) = fresh else { return Err(stop) };
        let mut other = fresh.into_stateless();
        let patience = began.elapsed().clamp(DISCOVERY_MIN, DISCOVERY_MAX);
        let discovered = tokio::time::timeout(patience, other.initialize()).await;
        if let Ok(Ok(_)) = &discovered {
            std::mem::swap(connection, &mut other);
        }
        other.shut_down().await;
        match discovered {
            Ok(Ok(opened)) => {
                self.stateless = true;
                Ok((opened, self.connect()))
            }
            _ => Err(stop),
        }
    }

    fn connect(&self) -> Result<Connection, Fault> {
        self.connect_within(self.patience)
    }

    fn connect_within(&self, patience: Patience) -> Result<Connection, Fault> {
        let findings = Arc::clone(&self.findings);
        match &self.access {
            ServerAccess::Pipe(prepared) => {
                Connection::over_stdio(Arc::clone(prepared), findings, patience)
            }
            ServerAccess::Http { endpoint, .. } => {
                Connection::over_http(endpoint, findings, patience)
            }
        }
    }

    /// Surveys the server's features in the stateless revision, if it supports that.
    async fn survey_stateless(&mut self, mut fresh: Connection, waited: std::time::Duration) {
        let (findings, patience) = (Arc::clone(&self.findings), self.patience);
        let found = survey::stateless(&mut fresh, &self.survey, &findings, patience, waited).await;
        let spoken = found.capabilities.contains("stateless");
        self.survey.capabilities.extend(found.capabilities);
        self.survey.bindings.extend(found.bindings);
        if spoken && let Ok(mut other) = self.connect() {
            survey::compare(&mut fresh, &mut other, &self.survey, &findings, patience).await;
            other.shut_down().await;
        }
        fresh.shut_down().await;
    }

    fn add_capability(&mut self, word: &str) {
        self.survey.capabilities.insert(word.to_owned());
    }

    fn is_pipe(&self) -> bool {
        matches!(self.access, ServerAccess::Pipe(_))
    }

    /// What a case needs when the server refuses all requests without a token: a noun phrase.
    fn lacks_token(&self, case: &Case) -> Option<String> {
        let mut needs = case.target.requires.iter();
        let about = needs.any(|word| word == "mcp-authorization");
        (!about).then(|| {
            "a server that answers without a token (HTTP 401); --header 'Authorization: Bearer …' gives one"
                .to_owned()
        })
    }

    /// What a case needs and the server lacks: a noun phrase.
    fn lacks(&self, case: &Case) -> Option<String> {
        let over = match &self.access {
            ServerAccess::Pipe(_) => PreferredTransport::Stdio,
            ServerAccess::Http { .. } => PreferredTransport::Http,
        };
        let wire = case.body.wire();
        let over_pipes = |wire: &WireCase| {
            needs_process(wire) || sends_bytes(wire) || case.target.transport == Transport::Stdio
        };
        match over {
            PreferredTransport::Stdio
                if matches!(case.body, CaseBody::Http(_))
                    || case.target.transport == Transport::Http =>
            {
                return Some("HTTP, which it is not reached by here".to_owned());
            }
            PreferredTransport::Http if wire.is_some_and(over_pipes) => {
                return Some("standard streams, which it is not reached by here".to_owned());
            }
            PreferredTransport::Stdio | PreferredTransport::Http => {}
        }
        let body = serde_json::to_string(&case.body).unwrap_or_default();
        let missing = survey::names().find(|name| {
            body.contains(&format!("\"{name}\"")) && !self.survey.bindings.contains_key(*name)
        });
        missing.and_then(survey::missing_value).map(str::to_owned)
    }

    /// The captures that a case starts with: the survey's values, and ids of its own.
    fn captures(&self) -> Captures {
        let mut captures = self.survey.bindings.clone();
        for name in IDS {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            captures.insert(
                (*name).to_owned(),
                Json::from(i64::try_from(id).unwrap_or(i64::MAX)),
            );
        }
        let word = self.next.fetch_add(1, Ordering::Relaxed);
        captures.insert("mcp.word".to_owned(), Json::from(format!("word-{word}")));
        captures
    }

    /// Plays a case on the shared connection, or on a new one if that is no longer usable.
    async fn play_shared(&self, shared: &mut Option<Connection>, case: &Case) -> Trial {
        let patience = self.silence.patience(self.patience);
        let Some(wire) = case.body.wire() else {
            return self.play_alone(case, patience).await;
        };
        if shared.is_none() {
            match self.connect_initialized(patience).await {
                Ok(connection) => *shared = Some(connection),
                Err(trial) => return *trial,
            }
        }
        let Some(connection) = shared.as_mut() else {
            return Trial::harness("there is no connection");
        };
        let trial = play::steps(connection, wire, self.record(), &self.findings, patience).await;
        let gone = matches!(
            trial.verdict,
            Verdict::Crashed { .. }
                | Verdict::TimedOut { .. }
                | Verdict::Silent { .. }
                | Verdict::Junk { .. }
        );
        if gone && let Some(mut connection) = shared.take() {
            connection.shut_down().await;
        }
        trial
    }

    /// Plays a case on a connection of its own.
    async fn play_alone(&self, case: &Case, patience: Patience) -> Trial {
        let wire = match &case.body {
            CaseBody::Wire(wire) => wire,
            CaseBody::Http(http) => return self.play_http(http, patience).await,
            CaseBody::Clj(_) | CaseBody::Call(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
                return Trial::harness("the case is no open exchange");
            }
        };
        if only_checks_findings(case) {
            return play::judge_findings(wire, &self.findings);
        }
        let begun = if wire.handshake {
            self.connect_initialized(patience).await
        } else {
            let connection = self.connect_within(patience);
            connection.map_err(|fault| Box::new(Trial::faulted(&fault, "", String::new(), false)))
        };
        match begun {
            Ok(mut connection) => {
                let trial = play::steps(
                    &mut connection,
                    wire,
                    self.record(),
                    &self.findings,
                    patience,
                )
                .await;
                connection.shut_down().await;
                trial
            }
            Err(trial) => *trial,
        }
    }

    async fn play_http(&self, http: &crate::suite::HttpCase, patience: Patience) -> Trial {
        let ServerAccess::Http { endpoint, .. } = &self.access else {
            return Trial::harness("the server is not reached over HTTP");
        };
        let mut settings = exchange::OpenSettings {
            captures: self.captures(),
            findings: Arc::clone(&self.findings),
            headers: Vec::new(),
            stateless: self.stateless && !http.bare,
        };
        let mut connection = None;
        if !http.bare {
            match self.connect_initialized(patience).await {
                Ok(begun) => {
                    settings.headers = begun.session_headers();
                    connection = Some(begun);
                }
                Err(trial) => return *trial,
            }
        }
        let server = ListeningServer {
            process: None,
            traces: None,
            directory: std::path::PathBuf::new(),
        };
        let trial = exchange::play(http, server, endpoint, patience, Some(settings)).await;
        if let Some(mut connection) = connection {
            connection.shut_down().await;
        }
        trial
    }

    /// A connection on which the protocol is initialized.
    async fn connect_initialized(&self, patience: Patience) -> Result<Connection, Box<Trial>> {
        let connection = self.connect_within(patience);
        let mut connection = connection
            .map_err(|fault| Box::new(Trial::faulted(&fault, "", String::new(), false)))?;
        if self.stateless {
            connection = connection.into_stateless();
        }
        match connection.initialize().await {
            Ok(_) => Ok(connection),
            Err(stop) => {
                let stderr = connection.stderr();
                let record = std::mem::take(&mut connection.record);
                Err(Box::new(record.into_trial(
                    Some(stop),
                    Instant::now(),
                    stderr,
                )))
            }
        }
    }

    fn record(&self) -> Record {
        Record {
            captures: self.captures(),
            ..Record::default()
        }
    }
}

/// What a case needs, for readers who don't know the words for capabilities.
fn capability_phrase(need: String) -> String {
    match capability::find(need.trim_matches('`')) {
        Some(row) => format!("a server that {}", row.meaning),
        None => need,
    }
}

/// The trial of a case that only checks findings, if there are such findings.
fn judge_findings(case: &Case, findings: &Findings) -> Option<Trial> {
    let wire = case.body.wire().filter(|_| only_checks_findings(case))?;
    let trial = play::judge_findings(wire, findings);
    trial.verdict.is_failure().then_some(trial)
}

/// Whether a case only checks findings.
fn only_checks_findings(case: &Case) -> bool {
    let Some(wire) = case.body.wire() else {
        return false;
    };
    let never = |action: &WireAction| matches!(action, WireAction::Control(Control::Never { .. }));
    wire.steps.iter().all(|step| never(&step.action))
}

/// Whether a case is about the beginning or the end of a connection.
fn needs_own_connection(case: &Case) -> bool {
    let Some(WireCase {
        handshake, steps, ..
    }) = case.body.wire()
    else {
        return false;
    };
    let own = |action: &WireAction| match action {
        WireAction::Send(text) => text.source().contains("\"initialize\""),
        WireAction::Control(control) => acts_on_process(control),
        WireAction::SendRaw(_)
        | WireAction::Expect(_)
        | WireAction::ExpectUnordered { .. }
        | WireAction::ExpectRaw { .. } => false,
    };
    !*handshake || steps.iter().any(|step| own(&step.action))
}

/// Whether a case starts, signals or ends the server's process.
fn needs_process(wire: &WireCase) -> bool {
    let own = |action: &WireAction| matches!(action, WireAction::Control(control) if acts_on_process(control));
    wire.steps.iter().any(|step| own(&step.action))
}

fn acts_on_process(control: &Control) -> bool {
    !matches!(
        control,
        Control::Wait { .. } | Control::Silence { .. } | Control::Never { .. }
    )
}

/// Whether a case waits long enough to hold up others.
fn waits_long(case: &Case) -> bool {
    let Some(wire) = case.body.wire() else {
        return false;
    };
    let waits = wire.steps.iter().map(|step| match &step.action {
        WireAction::Control(Control::Wait { ms } | Control::Silence { ms }) => *ms,
        _ => 0,
    });
    waits.sum::<u64>() > LONG_WAIT_MS
}

/// Whether a case sends bytes that need not be messages.
fn sends_bytes(wire: &WireCase) -> bool {
    wire.steps
        .iter()
        .any(|step| matches!(step.action, WireAction::SendRaw(_)))
}

/// The error for a step that is not permitted in an open exchange.
fn not_permitted(what: &str) -> Stop {
    Stop::Verdict(Verdict::HarnessError {
        message: format!("{what} stands in no open exchange"),
    })
}
