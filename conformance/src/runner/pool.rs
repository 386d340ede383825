//! Runs cases that consist of one request: many at a time, with as few starts of the target as possible.
//! When a target breaks during concurrent requests, the cases in flight are retried alone, so that the right one is blamed.
//! If none of them breaks it alone, the first one reports the fault: a target that fails intermittently does not pass. The exception is a
//! timeout, including the late answer that follows it: it is attributed to a busy machine, and noted with the pass.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::json::Json;
use crate::judge;
use crate::observed::CallAnswer;
use crate::suite::{CallCase, Captures, CaseBody, CljCase, Outcome, Reason, TargetSpec};
use crate::target::fault::Fault;
use crate::target::link::{Evaluation, Link};
use crate::target::program::{self, Unreadable};
use crate::target::{Answer, capability};
use crate::verdict::{Mismatch, Verdict};

use super::RunState;
use super::start::{Refusal, Target};
use super::trial::{self, Trial};

/// Consecutive faults, without an answered case in between, after which a target is given up.
const STRIKES_MAX: usize = 3;
/// Number of requests in flight to one server.
const WINDOW: usize = 8;
/// How often a call that is alone may be refused as `busy` before the case fails; a case that passes after fewer says so.
const BUSY_RETRIES_MAX: usize = 50;
/// The pause before such a call is retried.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Name of the fault that may turn out to be a late answer.
const STRAY: &str = "stray-reply";
/// The reason that a server gives when it refuses a call beyond its concurrency limit.
const BUSY: &str = "busy";
/// The flag that sets the time limit of programs.
const PROGRAM_TIMEOUT: &str = "program_timeout_ms";
/// The flags that are passed to a testee, because its library can honour them: flag, member of `limits`.
const TESTEE_LIMITS: &[(&str, &str)] = &[
    (PROGRAM_TIMEOUT, "timeout_ms"),
    ("program_memory_limit_bytes", "memory_bytes"),
];

/// Cases that need the same target.
#[derive(Debug)]
pub struct CaseGroup {
    target: Target,
    spec: TargetSpec,
    queue: Mutex<VecDeque<usize>>,
    window: AtomicUsize,
}

impl CaseGroup {
    /// Groups cases, given by their indices in the suite.
    pub fn new(target: Target, spec: TargetSpec, cases: Vec<usize>) -> Self {
        // Requests of one HTTP session share its limit of calls in flight, which may be as low as this.
        let window = match (&target, target.over()) {
            (Target::Url(_), _) | (_, super::start::PreferredTransport::Http) => WINDOW / 2,
            _ => WINDOW,
        };
        Self {
            target,
            spec,
            queue: Mutex::new(cases.into()),
            window: AtomicUsize::new(window),
        }
    }

    /// The number of cases in the queue.
    pub fn len(&self) -> usize {
        self.queue().len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue().is_empty()
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<usize>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<usize> {
        self.queue().pop_front()
    }
}

/// How one attempt at a case ended.
enum Attempt {
    /// The case was judged, and the target is fine.
    Done(Trial),
    /// The target also wrote something unsolicited.
    Noisy(Trial),
    /// The target can no longer be used.
    Broke(Trial),
    /// The target refused the call as `busy`.
    Busy,
}

/// The cases in flight when a target broke, in the order in which their failures were noticed.
#[derive(Default)]
struct Suspects {
    /// Not yet retried alone, each with its first, concurrent trial.
    waiting: VecDeque<(usize, Trial)>,
    /// Retried alone without breaking the target: each with its concurrent trial and its trial alone.
    cleared: Vec<(usize, Trial, Trial)>,
    /// Whether one of them broke the target alone, too.
    explained: bool,
}

impl Suspects {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.cleared.is_empty()
    }

    /// The first cleared case whose concurrent failure can't be explained by a busy machine.
    fn first_blamed(&self) -> Option<usize> {
        let mut late = false;
        self.cleared.iter().position(|(_, concurrent, _)| {
            late |= is_timeout(concurrent);
            // A late answer may arrive after its request has timed out.
            let came_late = late && concurrent.cause == Some(STRAY);
            !is_timeout(concurrent) && !came_late
        })
    }

    /// Reports the cleared cases, once all have been retried.
    fn report_cleared(&mut self, state: &RunState) {
        let explained = std::mem::take(&mut self.explained);
        let blamed = self.first_blamed().filter(|_| !explained);
        for (index, (case, concurrent, alone)) in self.cleared.drain(..).enumerate() {
            let trial = if blamed == Some(index) {
                concurrent.with_intermittent_note()
            } else if !explained && index == 0 && is_timeout(&concurrent) {
                alone.with_retry_note(&concurrent.verdict.message())
            } else {
                alone
            };
            state.report(case, trial);
        }
    }
}

/// Whether a wait timed out, which a busy machine can cause.
fn is_timeout(trial: &Trial) -> bool {
    matches!(
        trial.verdict,
        Verdict::TimedOut { .. } | Verdict::Silent { .. }
    )
}

/// Runs cases of `group` until none is left, on one server at a time.
pub async fn run_group(state: Arc<RunState>, group: Arc<CaseGroup>) {
    let mut suspects = Suspects::default();
    let mut strikes = 0;
    loop {
        let nothing_left = suspects.is_empty() && group.is_empty();
        if nothing_left || state.is_over() {
            return;
        }
        let started = group
            .target
            .link(&state.launch, &group.spec, state.patience)
            .await;
        let link = match started {
            Err(refusal) => return report_refusal(&state, &group, suspects, &refusal),
            Ok(Err((failed, stderr))) => {
                strikes += 1;
                if strikes >= STRIKES_MAX || state.is_hopeless() {
                    let trial = Trial::failed(&failed, stderr, state.has_answered());
                    return give_up(&state, &group, suspects, &trial);
                }
                continue;
            }
            Ok(Ok(link)) => {
                link.warm_up(state.patience).await;
                Arc::new(link)
            }
        };
        match retry_alone(&state, &group, &link, &mut suspects, &mut strikes).await {
            Some(trial) if strikes >= STRIKES_MAX => {
                stop(link, &state, true).await;
                return give_up(&state, &group, suspects, &trial);
            }
            Some(_) => {
                stop(link, &state, true).await;
                continue;
            }
            None => {}
        }
        let (broke, last) =
            run_concurrently(&state, &group, &link, &mut suspects, &mut strikes).await;
        let unasked = stop(link, &state, broke).await;
        if let Some((case, trial)) = last {
            state.report(case, trial.with_unsolicited_output(unasked));
        }
    }
}

/// Retries the suspects one by one. Returns the trial that broke the target, if one did.
async fn retry_alone(
    state: &Arc<RunState>,
    group: &CaseGroup,
    link: &Arc<Link>,
    suspects: &mut Suspects,
    strikes: &mut usize,
) -> Option<Trial> {
    while let Some((case, concurrent)) = suspects.waiting.pop_front() {
        match attempt(state, &group.spec, link, case).await {
            Attempt::Done(trial) => {
                *strikes = 0;
                suspects.cleared.push((case, concurrent, trial));
            }
            Attempt::Busy => state.report(case, overloaded(1)),
            Attempt::Noisy(trial) | Attempt::Broke(trial) => {
                *strikes += 1;
                suspects.explained = true;
                let trial = Trial {
                    seen_alone: true,
                    ..trial
                };
                state.report(case, trial.clone());
                return Some(trial);
            }
        }
    }
    suspects.report_cleared(state);
    None
}

/// Runs cases from the queue, as many at a time as the target accepts. Returns whether the target broke, and the trial of the last
/// answered case, which is not reported yet because unsolicited output may still follow the answer.
async fn run_concurrently(
    state: &Arc<RunState>,
    group: &Arc<CaseGroup>,
    link: &Arc<Link>,
    suspects: &mut Suspects,
    strikes: &mut usize,
) -> (bool, Option<(usize, Trial)>) {
    let mut last = None;
    let mut in_flight: JoinSet<(usize, Attempt)> = JoinSet::new();
    let mut broke = false;
    let mut refused_alone = 0;
    loop {
        while !broke
            && !state.is_over()
            && in_flight.len() < group.window.load(Ordering::Relaxed)
            && let Some(case) = group.take()
        {
            let (state, group, link) = (Arc::clone(state), Arc::clone(group), Arc::clone(link));
            in_flight.spawn(async move { (case, attempt(&state, &group.spec, &link, case).await) });
        }
        match in_flight.join_next().await {
            None => return (broke, last),
            Some(Err(_)) => broke = true,
            Some(Ok((case, Attempt::Done(trial)))) => {
                *strikes = 0;
                let trial = match std::mem::take(&mut refused_alone) {
                    0 => trial,
                    times => trial.with_busy_note(times),
                };
                if let Some((case, trial)) = last.replace((case, trial)) {
                    state.report(case, trial);
                }
            }
            Some(Ok((case, Attempt::Noisy(trial) | Attempt::Broke(trial)))) => {
                broke = true;
                suspects.waiting.push_back((case, trial));
            }
            Some(Ok((case, Attempt::Busy))) => {
                group
                    .window
                    .fetch_min(in_flight.len().max(1), Ordering::Relaxed);
                if in_flight.is_empty() {
                    refused_alone += 1;
                    // The server may still be counting calls that it has just answered.
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                if refused_alone > BUSY_RETRIES_MAX {
                    state.report(case, overloaded(refused_alone));
                    refused_alone = 0;
                } else {
                    group.queue().push_front(case);
                }
            }
        }
    }
}

/// Ends a target. Unless it is killed at once, returns the unsolicited output that followed its last answer.
async fn stop(link: Arc<Link>, state: &RunState, at_once: bool) -> Option<Fault> {
    // Every task that shared the link has ended.
    let link = Arc::try_unwrap(link).ok()?;
    if at_once {
        link.kill().await;
        None
    } else {
        link.close(state.patience).await
    }
}

fn report_refusal(state: &RunState, group: &CaseGroup, suspects: Suspects, refusal: &Refusal) {
    give_up(state, group, suspects, &Trial::refused(refusal));
}

/// Reports all remaining cases with the trial that made the target hopeless.
fn give_up(state: &RunState, group: &CaseGroup, mut suspects: Suspects, trial: &Trial) {
    suspects.report_cleared(state);
    let waiting = suspects.waiting.into_iter().map(|(case, _)| case);
    let rest = std::mem::take(&mut *group.queue());
    for case in waiting.chain(rest) {
        state.report(case, trial.clone());
    }
}

/// The trial of a call that was refused as `busy` although no other was in flight.
fn overloaded(times: usize) -> Trial {
    Trial::of(Verdict::Crashed {
        detail: format!(
            "the target refused a single call as beyond its concurrency ({})",
            trial::attempts(times)
        ),
    })
}

/// Runs one case over a link that the caller keeps. Returns no trial if the target was busy, and whether the link is still usable.
pub(super) async fn run_case(
    state: &RunState,
    spec: &TargetSpec,
    link: &Link,
    case: usize,
) -> (Option<Trial>, bool) {
    match attempt(state, spec, link, case).await {
        Attempt::Done(trial) => (Some(trial), true),
        Attempt::Noisy(trial) | Attempt::Broke(trial) => (Some(trial), false),
        Attempt::Busy => (None, true),
    }
}

/// How long to wait for an answer: the usual time plus the time limit that the target allows programs.
fn patience(state: &RunState, spec: &TargetSpec) -> Duration {
    let usual = state.patience.reply;
    let limit = spec.flags.get(PROGRAM_TIMEOUT).and_then(Json::as_i64);
    match limit.and_then(|told| u64::try_from(told).ok()) {
        Some(limit) => usual + state.patience.within(Some(limit), usual),
        None => usual,
    }
}

async fn attempt(state: &RunState, spec: &TargetSpec, link: &Link, case: usize) -> Attempt {
    let waited = patience(state, spec);
    let mut schema = None;
    let asked = match &state.suite.cases[case].body {
        CaseBody::Clj(body) => match evaluation(state, body, spec, link.is_testee()) {
            Ok(evaluation) => {
                let asked = link.eval(&evaluation, waited).await;
                schema = evaluation.output_schema.is_some().then_some(evaluation);
                asked
            }
            Err(trial) => return Attempt::Done(*trial),
        },
        CaseBody::Call(body) => {
            let input = body.input.to_string();
            link.operation(&body.op, &input, waited).await
        }
        CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
            return Attempt::Done(Trial::harness("the case is not one request"));
        }
    };
    let answer = match asked {
        Ok(answer) => answer,
        Err(failed) => {
            let trial = Trial::failed(&failed, link.stderr(), state.has_answered());
            return Attempt::Broke(trial);
        }
    };
    state.note_answer();
    let verdict = match &state.suite.cases[case].body {
        CaseBody::Clj(body) => {
            let expects_busy = matches!(&body.expect.outcome, Outcome::Raises(raised) if raised.reason.word() == BUSY);
            if !expects_busy && program::refusal(&answer.received).as_deref() == Some(BUSY) {
                return Attempt::Busy;
            }
            let verdict = judge_program(state, body, &answer, link.is_testee(), schema.is_some());
            match (verdict, schema) {
                (Verdict::Fail(mismatch), Some(evaluation))
                    if program::is_failure(&answer.received) =>
                {
                    // The harness added the schema, so the result without it counts as well.
                    let plain = Evaluation {
                        output_schema: None,
                        ..evaluation.clone()
                    };
                    match link.eval(&plain, waited).await {
                        Ok(answer) => without_schema(body, &answer, mismatch, &evaluation),
                        Err(failed) => {
                            let trial = Trial::failed(&failed, link.stderr(), true);
                            return Attempt::Broke(trial);
                        }
                    }
                }
                (verdict, _) => verdict,
            }
        }
        CaseBody::Call(body) => judge_call(body, &answer),
        CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
            Verdict::HarnessError {
                message: "the case is not one request".to_owned(),
            }
        }
    };
    if let Some(fault) = answer.strays.first() {
        let noisy = Trial::answered(fault.verdict(true), &answer, link.stderr());
        return Attempt::Noisy(Trial {
            cause: Some(fault.name()),
            ..noisy
        });
    }
    // Any of the cases that share a log may have written the secret there, so each is retried alone.
    let log = LazyCell::new(|| link.log());
    let leaked = judge::leaked_credential(
        &state.suite.cases[case],
        std::iter::once_with(|| log.as_str()),
    );
    if let Some(mismatch) = leaked {
        let verdict = Verdict::Fail(mismatch);
        return Attempt::Noisy(Trial::answered(verdict, &answer, link.stderr()));
    }
    let stderr = if verdict.is_pass() || matches!(verdict, Verdict::Fail(_)) {
        String::new()
    } else {
        link.stderr()
    };
    Attempt::Done(Trial::answered(verdict, &answer, stderr))
}

/// The request that runs a case's program and makes as much of its outcome visible as the target can show.
fn evaluation(
    state: &RunState,
    body: &CljCase,
    spec: &TargetSpec,
    testee: bool,
) -> Result<Evaluation, Box<Trial>> {
    let text = |text: &crate::suite::Text| {
        text.string(&Captures::new())
            .map_err(|fault| Box::new(Trial::harness(format!("the case cannot be sent: {fault}"))))
    };
    let program = text(&body.program)?;
    let context = body.context.as_ref().map(text).transpose()?;
    let wants_refusal = matches!(&body.expect.outcome, Outcome::Raises(raised) if raised.reason == Reason::ArgsError);
    let refused = refused_by_servers(&program, context.as_deref());
    if let Some(reason) = refused.filter(|_| !testee && !wants_refusal) {
        return Err(Box::new(Trial::of(Verdict::Unobservable { reason })));
    }
    let rounds = |context: &String| Json::parse(context).is_ok_and(|it| !it.survives_doubles());
    if !testee && !state.exact_json() && context.as_ref().is_some_and(rounds) {
        let need = format!(
            "`{}`, for the numbers in its context",
            capability::EXACT_JSON
        );
        return Err(Box::new(Trial::refused(&Refusal::NotClaimed(need))));
    }
    Ok(Evaluation {
        program,
        context,
        output_schema: judge::output_schema(&body.expect)
            .ok()
            .filter(|_| !testee && state.accepts_schemas())
            .map(|schema| schema.to_string()),
        limits: if testee { limits(spec)? } else { None },
    })
}

/// Why a server must refuse to run a program that the language itself handles, if it must: the arguments of
/// `lisp_eval` are more restricted than the language. A library runs it.
fn refused_by_servers(program: &str, context: Option<&str>) -> Option<String> {
    if program.trim().is_empty() {
        return Some("a server refuses a blank program".to_owned());
    }
    let context = Json::parse(context?).ok()?;
    let key = context
        .as_object()?
        .keys()
        .find(|key| key.is_empty() || key.contains('/'))?;
    Some(format!("a server refuses the context key {key:?}"))
}

fn limits(spec: &TargetSpec) -> Result<Option<String>, Box<Trial>> {
    if let Some(need) = super::start::needs_start(spec) {
        let known = |flag: &String| TESTEE_LIMITS.iter().any(|(name, _)| name == flag);
        let only_limits = spec.flags.keys().all(known)
            && spec.env.is_empty()
            && spec.files.is_empty()
            && spec.peers.is_empty()
            && spec.upstreams.is_none();
        if !only_limits {
            let refusal = Refusal::NotClaimed(format!("{need}, which only a server can be given"));
            return Err(Box::new(Trial::refused(&refusal)));
        }
    }
    let members = TESTEE_LIMITS
        .iter()
        .filter_map(|(flag, member)| Some((*member, spec.flags.get(*flag)?.clone())));
    let limits: Vec<(&str, Json)> = members.collect();
    Ok((!limits.is_empty()).then(|| Json::object(limits).to_string()))
}

fn judge_program(
    state: &RunState,
    body: &CljCase,
    answer: &Answer,
    testee: bool,
    asked: bool,
) -> Verdict {
    let read = if testee {
        program::from_testee(&answer.received)
    } else {
        program::from_tool_result(&answer.received, asked)
    };
    match read {
        Ok(run) if testee || state.exact_json() => judge::program(&body.expect, &run),
        Ok(run) => judge::program_in_doubles(&body.expect, run),
        Err(expected) => malformed(&expected, answer),
    }
}

/// The verdict on a program whose call failed under the schema that the harness added: judged by its text, with both answers.
fn without_schema(
    body: &CljCase,
    plain: &Answer,
    under_schema: Mismatch,
    asked: &Evaluation,
) -> Verdict {
    let schema = asked.output_schema.as_deref().unwrap_or_default();
    let run = match program::from_tool_result(&plain.received, false) {
        Ok(run) => run,
        Err(_) => return Verdict::Fail(under_schema),
    };
    let both = |observed: &str| {
        format!(
            "{observed} (with the output_schema {schema}: {})",
            under_schema.observed
        )
    };
    match judge::program(&body.expect, &run) {
        Verdict::Pass { mut unobserved } => {
            unobserved.retain(|part| !part.starts_with("json: "));
            unobserved.push(format!(
                "json: the call with an output_schema failed: {}",
                under_schema.observed
            ));
            Verdict::Pass { unobserved }
        }
        Verdict::Fail(mismatch) => Verdict::Fail(Mismatch {
            observed: both(&mismatch.observed),
            ..mismatch
        }),
        _ => Verdict::Fail(Mismatch {
            observed: both(&run.outcome.words()),
            ..under_schema
        }),
    }
}

fn judge_call(body: &CallCase, answer: &Answer) -> Verdict {
    let reply = Json::parse(&answer.received).ok();
    let member = |name: &str| reply.as_ref().and_then(|reply| reply.get(name)).cloned();
    let observed = match (member("ok"), member("error")) {
        (Some(value), None) => CallAnswer::Returned(value),
        (None, Some(error)) => CallAnswer::Refused(error),
        _ => return malformed(&Unreadable::OkOrError, answer),
    };
    match judge::call(&body.expect, &observed, &mut Captures::new()) {
        Ok(()) => Verdict::pass(),
        Err(mismatch) => Verdict::Fail(mismatch),
    }
}

fn malformed(expected: &Unreadable, answer: &Answer) -> Verdict {
    let line = answer.received.clone();
    Verdict::Fail(Mismatch {
        what: "reply".to_owned(),
        observed: crate::target::fault::quote(&line).into_owned(),
        expected: expected.to_string(),
        diff: String::new(),
        clause: None,
        line: None,
    })
}
