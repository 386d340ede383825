//! `selftest` and `mutate`: checks that the suite catches deliberately faulty servers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use nix::sys::signal::{SigSet, Signal};

use crate::mutant::{self, Mutant, MutantTransport};
use crate::runner::start::{PreferredTransport, Target};
use crate::runner::{self, FailFast, RunOptions, Trials};
use crate::suite::{Selector, Suite, nearest};
use crate::target::claims::Claims;
use crate::target::launch::{Launch, PatienceMs};
use crate::target::{Patience, reference};

use super::{FAILED, Failure, PASSED, SuiteOption, write_stdout};

/// Reply timeout for a mutant, in milliseconds: one that stays silent should not take long.
const REPLY_MS: u64 = 3000;

/// Calls that open exchanges may make: a fast program, and one that runs until it is stopped.
const TOOLS: [&str; 2] = [
    "lisp_eval={\"program\":\"(+ 1 2)\"}",
    "lisp_eval={\"program\":\"(loop [n 0] (recur (inc n)))\"}",
];

/// Mutants that no case catches, each with the reason. All others must be caught, and so must not be listed here.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// The arguments of `selftest`.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Command that starts the correct server behind the mutants, as one shell-quoted argument; default: the reference, built first
    #[arg(long, value_name = "CMD")]
    stdio: Option<String>,
    /// Use this executable of the reference server instead of building it
    #[arg(long, value_name = "PATH", conflicts_with = "stdio")]
    reference: Option<PathBuf>,
    #[command(flatten)]
    suite: SuiteOption,
    /// Try only mutants whose name or clause matches the glob; repeatable
    #[arg(long, value_name = "GLOB")]
    mutant: Vec<String>,
}

/// The arguments of `mutate`.
#[derive(Debug, Args)]
pub struct MutateArgs {
    /// Name of the mutant; `selftest` lists the names
    #[arg(allow_hyphen_values = true)]
    name: String,
    /// Command of the correct server, after `--`
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The result for a mutant.
enum MutantResult {
    /// A case of its clause failed.
    Caught(String),
    /// Every case of its clause passed.
    Survived,
    /// Its clause has no case that the correct server passes.
    Unproven(&'static str),
}

/// Acts as a faulty server. The exit status is that of the server behind it.
pub fn mutate(args: &MutateArgs) -> Result<u8, Failure> {
    outlive_signals()?;
    let mutant = mutant::find(&args.name).ok_or_else(|| {
        format!(
            "no mutant is called `{}`; `ptc-conformance selftest` names them",
            args.name
        )
    })?;
    let status = mutant::run(mutant, &args.command)
        .map_err(|error| format!("{}: {error}", args.command.join(" ")))?;
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

/// A signal goes to the whole process group, and it is the server behind the proxy that acts on it. If the proxy ended first, every
/// mutant would fail the cases about signals. Threads inherit the mask; a child that `std::process` starts does not.
fn outlive_signals() -> Result<(), Failure> {
    let ends = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    SigSet::from_iter(ends)
        .thread_block()
        .map_err(|error| format!("cannot block signals: {error}").into())
}

/// Runs the cases of the clause that each mutant breaks, and prints the results.
pub async fn selftest(args: SelftestArgs) -> Result<u8, Failure> {
    let suite = Arc::new(args.suite.load()?);
    let command = match (&args.stdio, &args.reference) {
        (Some(text), _) => {
            shell_words::split(text).map_err(|error| format!("`{text}`: {error}"))?
        }
        (None, Some(path)) => reference::command(path),
        (None, None) => reference::command(&reference::build()?),
    };
    let wanted: Result<Vec<Selector>, _> =
        args.mutant.iter().map(|glob| Selector::new(glob)).collect();
    let wanted = wanted?;
    for glob in &wanted {
        // A typo would select no mutant and so report success.
        if !mutant::all()
            .any(|mutant| glob.matches_name(&mutant.name) || glob.matches_name(&mutant.clause))
        {
            let names = mutant::all().flat_map(|mutant| [&mutant.name, &mutant.clause]);
            let hint = nearest(glob.text(), names.cloned())
                .map(|name| format!("; did you mean `{name}`?"));
            return Err(format!(
                "`{}` matches no mutant and no clause that one breaks{}",
                glob.text(),
                hint.unwrap_or_default()
            )
            .into());
        }
    }
    let means = |mutant: &&Mutant| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|glob| glob.matches_name(&mutant.name) || glob.matches_name(&mutant.clause))
    };
    let mutants: Vec<&Mutant> = mutant::all().filter(means).collect();
    let mut right = Vec::new();
    for transport in [MutantTransport::Stdio, MutantTransport::Http] {
        right.push((
            transport,
            passing_cases(&suite, &mutants, transport, &command).await,
        ));
    }
    let (mut caught, mut excepted, mut wrong) = (0, 0, 0);
    for mutant in &mutants {
        let known = right
            .iter()
            .find(|(transport, _)| *transport == mutant.transport);
        let known = known
            .map(|(_, indices)| indices.clone())
            .unwrap_or_default();
        let fate = try_mutant(&suite, mutant, &command, &known).await?;
        let exception = EXCEPTIONS.iter().find(|(name, _)| *name == mutant.name);
        match (&fate, exception) {
            (MutantResult::Caught(_), None) => caught += 1,
            (MutantResult::Survived, Some(_)) => excepted += 1,
            _ => wrong += 1,
        }
        let reason = exception.map(|(_, reason)| *reason);
        write_stdout(&mut std::io::stdout(), &line(mutant, &fate, reason))?;
    }
    let share = caught * 1000 / mutants.len().max(1);
    let summary = format!(
        "{caught} of {} mutants caught ({}.{} %){}\n",
        mutants.len(),
        share / 10,
        share % 10,
        match excepted {
            0 => String::new(),
            excepted => format!(", {excepted} known to survive"),
        }
    );
    write_stdout(&mut std::io::stdout(), &summary)?;
    Ok(if wrong == 0 { PASSED } else { FAILED })
}

fn line(mutant: &Mutant, fate: &MutantResult, exception: Option<&str>) -> String {
    let fate = match (fate, exception) {
        (MutantResult::Caught(case), None) => format!("caught by {case}"),
        (MutantResult::Caught(case), Some(_)) => format!("NO EXCEPTION ANY MORE: caught by {case}"),
        (MutantResult::Survived, Some(reason)) => format!("survives: {reason}"),
        (MutantResult::Survived, None) => "SURVIVED".to_owned(),
        (MutantResult::Unproven(why), _) => format!("UNPROVEN: {why}"),
    };
    format!("{:28} {:32} {fate}\n", mutant.name, mutant.clause)
}

/// Indices of the cases of a clause or section.
fn cases_of(suite: &Suite, anchor: &str) -> Vec<usize> {
    let cases = suite.cases.iter().enumerate();
    cases
        .filter(|(_, case)| {
            let hangs = |id: &str| {
                id == anchor
                    || id
                        .strip_prefix(anchor)
                        .is_some_and(|rest| rest.starts_with('.'))
            };
            hangs(&case.section) || case.clauses.iter().any(|clause| hangs(clause))
        })
        .map(|(index, _)| index)
        .collect()
}

/// The cases that the server passes without a mutation.
async fn passing_cases(
    suite: &Arc<Suite>,
    mutants: &[&Mutant],
    transport: MutantTransport,
    command: &[String],
) -> BTreeSet<usize> {
    let all: BTreeSet<usize> = mutants
        .iter()
        .filter(|mutant| mutant.transport == transport)
        .flat_map(|mutant| cases_of(suite, &mutant.clause))
        .collect();
    let all: Vec<usize> = all.into_iter().collect();
    let options = options(command.to_vec(), transport);
    let mut trials = Trials::new();
    runner::run(Arc::clone(suite), &all, options, &mut trials, |_| {}).await;
    let passed = trials
        .into_iter()
        .filter(|(_, trial)| trial.verdict.is_pass());
    passed.map(|(index, _)| index).collect()
}

async fn try_mutant(
    suite: &Arc<Suite>,
    mutant: &Mutant,
    command: &[String],
    right: &BTreeSet<usize>,
) -> Result<MutantResult, String> {
    let mine = cases_of(suite, &mutant.clause);
    if mine.is_empty() {
        return Ok(MutantResult::Unproven("the clause has no case"));
    }
    let mine: Vec<usize> = mine
        .into_iter()
        .filter(|index| right.contains(index))
        .collect();
    if mine.is_empty() {
        return Ok(MutantResult::Unproven(
            "the right server passes no case of the clause",
        ));
    }
    let own = std::env::current_exe()
        .map_err(|error| format!("the harness cannot find itself: {error}"))?;
    let mut argv = vec![
        own.to_string_lossy().into_owned(),
        "mutate".to_owned(),
        mutant.name.clone(),
        "--".to_owned(),
    ];
    argv.extend(command.iter().cloned());
    let mut options = options(argv, mutant.transport);
    options.fail_fast = Some(FailFast {
        advised: true,
        ..FailFast::default()
    });
    let mut trials = Trials::new();
    runner::run(Arc::clone(suite), &mine, options, &mut trials, |_| {}).await;
    let failed = trials.iter().find(|(_, trial)| trial.verdict.is_failure());
    Ok(match failed {
        Some((index, _)) => MutantResult::Caught(suite.cases[*index].id.clone()),
        None => MutantResult::Survived,
    })
}

fn options(argv: Vec<String>, transport: MutantTransport) -> RunOptions {
    let launch = Launch {
        patience: PatienceMs {
            reply: Some(REPLY_MS),
            ..PatienceMs::default()
        },
        ..Launch::default()
    };
    let patience = launch.patience(Patience::default());
    RunOptions {
        target: Target::Command {
            argv,
            over: match transport {
                MutantTransport::Stdio => PreferredTransport::Stdio,
                MutantTransport::Http => PreferredTransport::Http,
            },
        },
        launch,
        claims: Claims::everything(),
        patience,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        fail_fast: None,
        tools: TOOLS.map(str::to_owned).to_vec(),
    }
}
