//! Retries cases alone that timed out during concurrent runs, that deliberately let real time pass, or whose messages overtook each
//! other: on a busy machine their failure says little about the target. Knows which failures a busy machine can cause, not how cases run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::suite::{Case, CaseBody, TargetSpec};
use crate::verdict::Verdict;

use super::open::SILENT_CASES_MAX;
use super::pool::{self, CaseGroup};
use super::trial::Trial;
use super::{RunOptions, RunState, run_alone};

/// After this many consecutive retries that failed, or [`SILENT_CASES_MAX`] in which the target sent nothing, the remaining first results are
/// accepted.
const FAILURES_IN_A_ROW_MAX: usize = 5;

/// Signals with which a process dies through its own fault, as messages name them.
const CRASH_SIGNALS: [&str; 6] = [
    "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP",
];

/// Cases that failed in one of these ways during concurrent runs, with their trials.
#[derive(Debug, Default)]
pub(super) struct RetryList(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(usize, Trial)>,
    /// The first message of the case that is being retried, by its index.
    first: HashMap<usize, String>,
    /// The result of the last retried case.
    retried: Retried,
    /// Whether the list is closed.
    closed: bool,
}

/// The result of a retried case.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Retried {
    #[default]
    Passed,
    Failed,
    /// It timed out without a byte of the target.
    Silent,
}

impl RetryList {
    /// Keeps a trial that must be retried; returns any other, with notes added.
    pub(super) fn hold_back(&self, index: usize, case: &Case, trial: Trial) -> Option<Trial> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = state.first.remove(&index) {
            state.retried = match trial.verdict.is_failure() {
                false => Retried::Passed,
                true if trial.is_silent() => Retried::Silent,
                true => Retried::Failed,
            };
            return Some(trial.with_retry_note(&first));
        }
        let timing_dependent = (case.waits() || trial.overtaken) && !is_conclusive(&trial.verdict);
        let doubtful = may_be_overload(&trial) || (trial.verdict.is_failure() && timing_dependent);
        if state.closed || !doubtful || trial.seen_alone {
            return Some(trial);
        }
        state.waiting.push((index, trial));
        None
    }

    /// Takes the trials to be retried, and closes the list.
    fn close(&self) -> Vec<(usize, Trial)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        std::mem::take(&mut state.waiting)
    }

    fn begin_retry(&self, case: usize, first: &Trial) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.first.insert(case, first.verdict.message());
    }

    /// The result of the retried case; `None` when it produced no trial.
    fn end_retry(&self, case: usize) -> Option<Retried> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unreported = state.first.remove(&case).is_some();
        (!unreported).then_some(state.retried)
    }
}

/// Whether a busy machine could be the cause. Cases that share a server are excluded: those in flight when
/// one got no answer have already been retried alone.
fn may_be_overload(trial: &Trial) -> bool {
    match &trial.verdict {
        Verdict::TimedOut { .. } | Verdict::Silent { .. } => true,
        Verdict::Fail(mismatch) => {
            let says = |text: &str| text.contains("timeout") || text.contains("timed out");
            let line = |mark: char| {
                let mut lines = mismatch.diff.lines();
                lines.any(|line| line.starts_with(mark) && says(line))
            };
            (says(&mismatch.observed) || line('+')) && !says(&mismatch.expected) && !line('-')
        }
        _ => false,
    }
}

/// Whether no busy machine could be the cause: output that is not a frame, or a crash of the process.
fn is_conclusive(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Junk { .. } => true,
        Verdict::Crashed { detail } => CRASH_SIGNALS.iter().any(|signal| detail.contains(signal)),
        _ => false,
    }
}

/// Retries the cases, one after the other, when nothing else is running.
pub(super) async fn retry_all(state: &Arc<RunState>, options: &RunOptions) {
    let (mut failed, mut silent) = (0, 0);
    for (case, first) in state.retries.close() {
        let is_hopeless = failed >= FAILURES_IN_A_ROW_MAX || silent >= SILENT_CASES_MAX;
        if state.is_over() || is_hopeless || !state.has_answered() {
            state.report(case, first);
            continue;
        }
        state.retries.begin_retry(case, &first);
        retry_case(state, options, case).await;
        match state.retries.end_retry(case) {
            None => state.report(case, first),
            Some(Retried::Passed) => (failed, silent) = (0, 0),
            Some(Retried::Failed) => (failed, silent) = (failed + 1, 0),
            Some(Retried::Silent) => (failed, silent) = (failed + 1, silent + 1),
        }
    }
}

async fn retry_case(state: &Arc<RunState>, options: &RunOptions, case: usize) {
    let tried = &state.suite.cases[case];
    let (target, spec) = match &tried.body {
        CaseBody::Clj(_) => (Some(options.target.clone()), tried.target.clone()),
        CaseBody::Call(_) => (options.library(), TargetSpec::default()),
        CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
            return state.report(case, run_alone(state, options, case).await);
        }
    };
    if let Some(target) = target {
        let group = Arc::new(CaseGroup::new(target, spec, vec![case]));
        pool::run_group(Arc::clone(state), group).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_no_busy_machine_causes_are_not_retried() {
        let page = concat!(
            "# A {#a}\n\n- {#a.b} It MUST be.\n\n```wire\n",
            "wait 100ms\n-> {\"id\":1}\n<- {\"id\":1}\n```\n",
        );
        let suite = crate::fixture::page("a.md", page.as_bytes()).expect("the page is right");
        let case = &suite.cases[0];
        let crashed = |how: &str| Verdict::Crashed {
            detail: format!("the target ended while an answer was due ({how})"),
        };
        let junk = Verdict::Junk {
            detail: String::new(),
        };
        for (verdict, is_kept) in [
            (crashed("exit status 0"), true),
            (crashed("killed by SIGKILL"), true),
            (crashed("killed by SIGSEGV"), false),
            (junk, false),
            (Verdict::pass(), false),
        ] {
            let returned = RetryList::default().hold_back(0, case, Trial::of(verdict.clone()));
            assert_eq!(returned.is_none(), is_kept, "{verdict:?}");
        }
    }
}
