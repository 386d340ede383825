//! Converts the trials of the cases to the record of the run. Knows the suite and the trials, not the target.

use crate::report::{CaseRecord, Finding, Status, Transport};
use crate::runner::by_hand::{self, ShownServer};
use crate::runner::case_source;
use crate::runner::trial::Trial;
use crate::suite::{Case, Level, Suite, page_name};
use crate::verdict::Verdict;

/// Settings for recording cases.
pub struct RecordSettings {
    /// Whether failures of SHOULD and MAY clauses count.
    pub strict: bool,
    /// Whether cases that passed keep their source and traffic.
    pub whole: bool,
    /// How the target was reached.
    pub transport: Option<Transport>,
    /// The command that repeats a run; the case's id is appended.
    pub rerun: String,
    /// The server in the commands that reproduce a case by hand.
    pub subject: ShownServer,
}

/// The record of one case.
pub fn case(
    suite: &Suite,
    case: &Case,
    trial: Option<&Trial>,
    style: &RecordSettings,
) -> CaseRecord {
    let status = trial.map_or(Status::NotRun, |trial| {
        status(suite, case, &trial.verdict, style.strict)
    });
    let mut record = CaseRecord {
        id: case.id.clone(),
        page: page_name(case),
        section: case.section.clone(),
        clause: case.clauses.first().cloned(),
        sentence: None,
        place: format!("{}:{}", case.file, case.line),
        divergence: case.divergence.clone(),
        expected_by: None,
        rulings: case.rulings.clone(),
        why: case.why.clone(),
        transport: style.transport,
        status,
        cause: None,
        message: None,
        findings: Vec::new(),
        unobserved: Vec::new(),
        source: None,
        traffic: Vec::new(),
        stderr: None,
        duration_us: 0,
        by_hand: None,
        rerun: None,
    };
    let Some(trial) = trial else {
        return record;
    };
    record.duration_us = u64::try_from(trial.took.as_micros()).unwrap_or(u64::MAX);
    if let Verdict::Pass { unobserved } = &trial.verdict {
        record.unobserved.clone_from(unobserved);
    }
    if matches!(status, Status::Pass | Status::SelfCheck) {
        if style.whole {
            record.source = Some(case_source::render(case));
            record.traffic.clone_from(&trial.traffic);
        }
        return record;
    }
    record.sentence = Some(suite.sentence(case).to_owned());
    if let Verdict::Fail(mismatch) = &trial.verdict
        && let Some(clause) = mismatch.clause.as_deref().and_then(|id| suite.clause(id))
    {
        record.clause = Some(clause.id.clone());
        record.sentence = Some(clause.sentence.clone());
    }
    record.message = Some(trial.verdict.message()).filter(|message| !message.is_empty());
    if matches!(status, Status::Unobservable | Status::NotClaimed) {
        return record;
    }
    record.cause = Some(cause(trial).to_owned());
    record.source = Some(case_source::render(case));
    record.traffic.clone_from(&trial.traffic);
    record.stderr = Some(trial.stderr.clone()).filter(|stderr| !stderr.is_empty());
    record.by_hand = by_hand::commands(case, &style.subject);
    record.rerun = Some(format!(
        "{} --filter {}",
        style.rerun,
        shell_words::quote(&exact_glob(&case.id))
    ));
    if let Verdict::Fail(mismatch) = &trial.verdict {
        let line = mismatch.line.map(|line| format!(" (line {line})"));
        record.findings.push(Finding {
            at: format!("{}{}", mismatch.what, line.unwrap_or_default()),
            expected: mismatch.expected.clone(),
            observed: mismatch.observed.clone(),
            diff: mismatch.diff.clone(),
        });
    }
    record
}

fn status(suite: &Suite, case: &Case, verdict: &Verdict, strict: bool) -> Status {
    let advised = !strict && suite.level(case) != Level::Must;
    match verdict {
        Verdict::Pass { .. } => Status::Pass,
        Verdict::SelfCheck => Status::SelfCheck,
        Verdict::Unobservable { .. } => Status::Unobservable,
        Verdict::NotClaimed { .. } => Status::NotClaimed,
        Verdict::Excluded { .. } => Status::NotRun,
        Verdict::Fail(_) if advised => Status::Warning,
        // No answer to what advice is about.
        Verdict::Silent { .. } if advised => Status::Warning,
        // The case is advice to any server: it makes no difference how the server fails it.
        Verdict::Crashed { .. } | Verdict::TimedOut { .. } | Verdict::Silent { .. }
            if advised && case.is_open() =>
        {
            Status::Warning
        }
        Verdict::Fail(_)
        | Verdict::HarnessError { .. }
        | Verdict::Crashed { .. }
        | Verdict::TimedOut { .. }
        | Verdict::Silent { .. }
        | Verdict::Junk { .. } => Status::Fail,
    }
}

fn cause(trial: &Trial) -> &'static str {
    if let Some(cause) = trial.cause {
        return cause;
    }
    match &trial.verdict {
        Verdict::HarnessError { .. } => "harness",
        Verdict::Crashed { .. } => "crash",
        Verdict::TimedOut { .. } => "no-reply",
        Verdict::Silent { .. } => "silent",
        Verdict::Junk { .. } => "junk",
        _ => "mismatch",
    }
}

/// A glob that matches `id` only.
fn exact_glob(id: &str) -> String {
    let mut glob = String::with_capacity(id.len());
    for character in id.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}') {
            glob.push_str(&format!("[{character}]"));
        } else {
            glob.push(character);
        }
    }
    glob
}
