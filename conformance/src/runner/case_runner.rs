//! Runs single cases one at a time, reusing connections for those that consist of one request: for callers that ask the same server the
//! same things many times, so that starts would cost more than answers. Does not know why they ask.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::suite::{CaseBody, Suite, TargetSpec};
use crate::target::link::Link;

use super::trial::Trial;
use super::{RunOptions, RunState, pool};

/// Why a case can't be run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotRun {
    #[error("there is no adapter to call")]
    NoAdapter,
    #[error("the case has no target")]
    NoTarget,
    #[error("the target refused a single request as one too many")]
    Busy,
}

/// Connections to a target, one for each way to start it.
#[derive(Debug)]
pub struct CaseRunner {
    state: RunState,
    options: RunOptions,
    links: HashMap<String, Link>,
}

impl CaseRunner {
    /// Creates a runner; nothing is started yet.
    pub fn new(suite: Arc<Suite>, options: RunOptions) -> Self {
        let (sender, _) = mpsc::unbounded_channel();
        Self {
            state: RunState::new(suite, &options, sender),
            options,
            links: HashMap::new(),
        }
    }

    /// Runs the case at `index`. A target that breaks is discarded, and started anew for the next case; an exchange or a command
    /// gets a target of its own.
    ///
    /// # Errors
    /// When the case cannot be run this way.
    pub async fn run(&mut self, index: usize) -> Result<Trial, CannotRun> {
        let case = &self.state.suite.cases[index];
        let default = TargetSpec::default();
        let (target, spec) = match &case.body {
            CaseBody::Clj(_) => (self.options.target.clone(), &case.target),
            CaseBody::Call(_) => match self.options.library() {
                Some(target) => (target, &default),
                None => return Err(CannotRun::NoAdapter),
            },
            CaseBody::Fixture(_) => return Err(CannotRun::NoTarget),
            CaseBody::Wire(_) | CaseBody::Http(_) | CaseBody::Cli(_) => {
                let trial = super::run_alone(&self.state, &self.options, index).await;
                return Ok(trial.checked_for_leaks(case));
            }
        };
        let key = format!("{} {spec:?}", target.name());
        if !self.links.contains_key(&key) {
            let launch = &self.options.launch;
            match target.link(launch, spec, self.options.patience).await {
                Ok(Ok(link)) => {
                    link.warm_up(self.options.patience).await;
                    self.links.insert(key.clone(), link);
                }
                Ok(Err((failed, stderr))) => return Ok(Trial::failed(&failed, stderr, false)),
                Err(refusal) => return Ok(Trial::refused(&refusal)),
            }
        }
        let link = &self.links[&key];
        let (trial, is_fine) = pool::run_case(&self.state, spec, link, index).await;
        if !is_fine && let Some(link) = self.links.remove(&key) {
            link.kill().await;
        }
        let trial = trial.ok_or(CannotRun::Busy)?;
        Ok(trial.checked_for_leaks(case))
    }

    /// Takes every target down. The next case starts a new one.
    pub async fn stop(&mut self) {
        for (_, link) in self.links.drain() {
            link.kill().await;
        }
    }
}
