//! What came of a `run`: the verdicts that count, the record of each case, the failures that were expected.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::expected::{BaselineMatch, ExpectedFailures};
use crate::report::{CaseRecord, ExpectedBy, Run, Status, Transport};
use crate::runner::by_hand::ShownServer;
use crate::runner::start::Target;
use crate::runner::trial::Trial;
use crate::runner::{RunOptions, Trials};
use crate::suite::{Case, Suite};
use crate::verdict::Verdict;

use super::super::record;
use super::target::is_reference;
use super::{Profile, RunArgs, TransportArg};

/// The results of the suite over one transport.
pub struct TransportRun {
    pub transport: Option<Transport>,
    /// The trials of each repetition.
    pub rounds: Vec<Trials>,
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

    /// The cases that were tried, with the verdict that counts.
    pub fn verdicts(&self, indices: &[usize]) -> impl Iterator<Item = (usize, &Verdict)> {
        let tried = indices.iter();
        tried.filter_map(|index| Some((*index, self.verdict(*index)?)))
    }
}

/// Cases that passed over another transport and would run the same way now. Those that did not pass are tried again, because
/// what a target appears to offer may depend on the transport.
pub fn played_before(suite: &Suite, passes: &[TransportRun], round: usize) -> Trials {
    let rounds = passes.iter().filter_map(|pass| pass.rounds.get(round));
    rounds
        .flatten()
        .filter(|(index, trial)| {
            suite.cases[**index].is_transport_independent() && trial.verdict.is_pass()
        })
        .map(|(index, trial)| (*index, trial.clone()))
        .collect()
}

/// The cases with the verdicts that count for a baseline: a failure, if any pass had one.
pub fn judged<'s>(
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

pub fn records(
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

/// Marks the failures that the list expects.
pub fn mark_expected(
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
