//! Tries cases again, alone, that ran out of time beside others, in which real time passes on purpose, or whose messages overtook each
//! other: on a busy machine their failure says little of the target. Knows which ends a busy machine can cause; knows nothing of how a case is tried.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::suite::{Case, CaseBody, TargetSpec};
use crate::verdict::Verdict;

use super::pool::{self, Group};
use super::trial::Trial;
use super::{Orders, Session, try_alone};

/// Cases in a row that failed again, after which the rest is believed.
const BELIEVED: usize = 5;

/// Cases that failed so beside others, with how they ended.
#[derive(Debug, Default)]
pub(super) struct List(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(usize, Trial)>,
    /// What came first of the case that is tried again, by its place.
    first: HashMap<usize, String>,
    /// Whether the case that was tried again last failed again.
    failed_again: bool,
    /// Whether nothing is kept any more.
    closed: bool,
}

impl List {
    /// Keeps a trial that is to be made again; gives back any other, with what is to be said of it.
    pub(super) fn keep(&self, place: usize, case: &Case, trial: Trial) -> Option<Trial> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = state.first.remove(&place) {
            state.failed_again = trial.verdict.is_failure();
            return Some(trial.tried_again(&first));
        }
        let hurried = case.waits() || trial.overtaken;
        let doubtful = ran_out_of_time(&trial) || (trial.verdict.is_failure() && hurried);
        if state.closed || !doubtful || trial.seen_alone {
            return Some(trial);
        }
        state.waiting.push((place, trial));
        None
    }

    /// What is to be made again. From now on nothing is kept.
    fn close(&self) -> Vec<(usize, Trial)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        std::mem::take(&mut state.waiting)
    }

    fn begin(&self, case: usize, first: &Trial) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.first.insert(case, first.verdict.message());
    }

    /// Whether the case that was tried again failed again; `None` when nothing came of it.
    fn end(&self, case: usize) -> Option<bool> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = state.first.remove(&case).is_some();
        (!untold).then_some(state.failed_again)
    }
}

/// Whether a machine that is busy with other things could be why. Requests that go many to a server are left out: those that
/// were in flight when one got no answer have been tried alone already.
fn ran_out_of_time(trial: &Trial) -> bool {
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

/// Tries the cases again, one after the other, when nothing else runs.
pub(super) async fn all(session: &Arc<Session>, orders: &Orders) {
    let mut in_a_row = 0;
    for (case, first) in session.again.close() {
        if session.is_over() || in_a_row >= BELIEVED || !session.has_answered() {
            session.report(case, first);
            continue;
        }
        session.again.begin(case, &first);
        alone(session, orders, case).await;
        match session.again.end(case) {
            None => session.report(case, first),
            Some(true) => in_a_row += 1,
            Some(false) => in_a_row = 0,
        }
    }
}

async fn alone(session: &Arc<Session>, orders: &Orders, case: usize) {
    let tried = &session.suite.cases[case];
    let (target, spec) = match &tried.body {
        CaseBody::Clj(_) => (Some(orders.target.clone()), tried.target.clone()),
        CaseBody::Call(_) => (orders.library(), TargetSpec::default()),
        CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => {
            return session.report(case, try_alone(session, orders, case).await);
        }
    };
    if let Some(target) = target {
        let group = Arc::new(Group::new(target, spec, vec![case]));
        pool::serve(Arc::clone(session), group).await;
    }
}
