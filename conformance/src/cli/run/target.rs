//! What `run` tests, as the command line and its files say: the target, how it is started and reached, what it claims, the failures that
//! are expected of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::expected::ExpectedFailures;
use crate::files::{self, FileError};
use crate::fixture;
use crate::report::Transport;
use crate::runner::start::{PreferredTransport, Target};
use crate::runner::trial::STDERR_FOLLOWS;
use crate::runner::{FailFast, RunOptions};
use crate::suite::{Suite, nearest};
use crate::target::Patience;
use crate::target::claims::{Claims, Declaration};
use crate::target::http::Endpoint;
use crate::target::launch::{FlagValue, Launch};
use crate::target::reference;

use super::super::{Failure, command_words};
use super::{Profile, RunArgs, TransportArg};

/// The reference's baseline, relative to the workspace.
const REFERENCE_BASELINE: &str = "reference/expected_failures.toml";

/// The ways to name a target.
const TARGETS: &str =
    "add --stdio 'my-server', --url URL, --testee 'my-adapter', or --launch FILE with a `command`";

/// Rejects combinations of arguments that make no sense.
///
/// # Errors
/// A message that says what to specify.
pub fn check(args: &RunArgs) -> Result<(), String> {
    if args.fix_baseline && baseline_path(args).is_none() {
        return Err("--fix-baseline needs --baseline FILE".to_owned());
    }
    if has_target(args) {
        return Ok(());
    }
    // Files that the user wrote for another server must never be applied to the reference.
    for (flag, given) in [
        ("--claims", args.claims.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--header", !args.header.is_empty()),
    ] {
        if given && args.launch.is_none() {
            return Err(format!(
                "{flag} is about a target, and none is named: {TARGETS}"
            ));
        }
    }
    Ok(())
}

/// Whether a target was named on the command line; a launch template may name it as well.
fn has_target(args: &RunArgs) -> bool {
    args.reference.is_some() || args.stdio.is_some() || args.url.is_some() || args.testee.is_some()
}

/// Whether the reference is judged: because it is named, or because nothing else is.
pub fn is_reference(args: &RunArgs) -> bool {
    args.stdio.is_none()
        && args.url.is_none()
        && args.testee.is_none()
        && (args.launch.is_none() || args.reference.is_some())
}

/// The contents of the files that describe the target.
pub struct TargetFiles {
    pub launch: Launch,
    pub declaration: Declaration,
    /// The expected failures of its baseline, unless this run rewrites the baseline.
    pub known: ExpectedFailures,
}

impl TargetFiles {
    pub fn read(args: &RunArgs) -> Result<Self, Failure> {
        Ok(Self {
            known: match baseline_path(args) {
                Some(path) if !args.fix_baseline => {
                    expected_failures(&path).map_err(|error| match &args.baseline {
                        Some(_) => Failure::from(format!("--baseline {error}")),
                        None => error,
                    })?
                }
                _ => ExpectedFailures::default(),
            },
            launch: args
                .launch
                .as_deref()
                .map_or(Ok(Launch::default()), Launch::read)
                .map_err(|error| format!("--launch {error}"))?,
            declaration: args
                .claims
                .as_deref()
                .map_or(Ok(Declaration::default()), Declaration::read)
                .map_err(|error| format!("--claims {error}"))?,
        })
    }
}

/// Rejects a template with a flag that no case uses, because it is probably misspelt, and cases would be judged with the reference's
/// name of the intended flag. A custom suite may be small, so the flags of the built-in one are permitted as well.
pub fn known_flags(template: &Path, launch: &Launch, suite: &Suite) -> Result<(), String> {
    let flags = |suite: &Suite| -> BTreeSet<String> {
        let targets = suite.cases.iter().map(|case| &case.target);
        targets
            .flat_map(|target| target.flags.keys().cloned())
            .collect()
    };
    let named = || launch.flags.keys().chain(launch.values.keys());
    let mut known = flags(suite);
    known.extend(launch.observe.keys().cloned());
    if named().any(|flag| !known.contains(flag)) {
        known.extend(flags(
            &fixture::embedded().map_err(|error| error.to_string())?,
        ));
    }
    let Some(flag) = named().find(|flag| !known.contains(*flag)) else {
        return Ok(());
    };
    let hint = nearest(flag, known.iter().cloned())
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    Err(format!(
        "{}: expected flags as the suite names them, found `{flag}`, which no case passes{hint}",
        template.display()
    ))
}

pub fn options(
    args: &RunArgs,
    mut launch: Launch,
    declaration: Declaration,
    known: &Arc<ExpectedFailures>,
    suite: &Suite,
) -> Result<RunOptions, Failure> {
    let target = target(args, &mut launch)?;
    let mut patience = launch.patience(Patience::default());
    if let Some(timeout) = args.timeout {
        patience.reply = Duration::from_millis(timeout);
        patience.start = patience
            .start
            .min(patience.reply.max(Duration::from_millis(100)));
    }
    let claims = claims(args, declaration, suite)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(RunOptions {
        target,
        launch,
        claims,
        patience,
        jobs: args.jobs.unwrap_or(processors).max(1),
        fail_fast: args.fail_fast.then(|| FailFast {
            advised: args.strict,
            known: Arc::clone(known),
        }),
        tools: args.tools.clone(),
    })
}

fn claims(args: &RunArgs, mut declaration: Declaration, suite: &Suite) -> Result<Claims, String> {
    if args.claims.is_none() && args.extensions.is_empty() && is_reference(args) {
        return Ok(Claims::everything());
    }
    declaration
        .extensions
        .extend(args.extensions.iter().cloned());
    declaration
        .claims(suite)
        .map_err(|error| match &args.claims {
            Some(path) => format!("--claims {}: {error}", path.display()),
            None => error.to_string(),
        })
}

fn target(args: &RunArgs, launch: &mut Launch) -> Result<Target, Failure> {
    // `targets` sets the transport.
    let over = PreferredTransport::Stdio;
    if let Some(url) = &args.url {
        return Ok(Target::Url(Endpoint {
            url: url.clone(),
            headers: args.header.clone(),
        }));
    }
    if let Some(testee) = &args.testee {
        return Ok(Target::Testee {
            argv: command_words("--testee", testee)?,
        });
    }
    if let Some(stdio) = &args.stdio {
        return Ok(Target::Command {
            argv: command_words("--stdio", stdio)?,
            over,
        });
    }
    if !launch.command.is_empty() {
        return Ok(Target::Command {
            argv: launch.command.clone(),
            over,
        });
    }
    let binary = match (&args.reference, &args.launch) {
        (Some(path), _) => path.clone(),
        (None, Some(template)) => {
            return Err(format!(
                "{}: there is no `command` in it, and no other target is named: write `command = [\"my-server\"]` at its top, \
                 or add --stdio 'my-server'",
                template.display()
            )
            .into());
        }
        (None, None) => reference::build().map_err(|error| format!("{error}; {TARGETS}"))?,
    };
    let word = binary.to_string_lossy().into_owned();
    launch
        .programs
        .insert(reference::BINARY.to_owned(), vec![word.clone()]);
    if launch.testee.is_empty() {
        launch.testee = vec![word, reference::TESTEE.to_owned()];
    }
    Ok(Target::Command {
        argv: reference::command(&binary),
        over,
    })
}

/// The target, once for each transport to be tested.
pub fn targets(target: &Target, args: &RunArgs) -> Vec<Target> {
    let Target::Command { argv, .. } = target else {
        return vec![target.clone()];
    };
    let mut wanted = args.transport.clone();
    if wanted.is_empty() {
        wanted.push(TransportArg::Stdio);
        if is_reference(args) {
            wanted.push(TransportArg::Http);
        }
    }
    wanted.dedup();
    let of = |transport: &TransportArg| Target::Command {
        argv: argv.clone(),
        over: transport.over(),
    };
    wanted.iter().map(of).collect()
}

/// The transport that reports show for a target.
pub fn transport(target: &Target) -> Option<Transport> {
    match target {
        Target::Testee { .. } => None,
        Target::Url(_)
        | Target::Command {
            over: PreferredTransport::Http,
            ..
        } => Some(Transport::Http),
        Target::Command {
            over: PreferredTransport::Stdio,
            ..
        } => Some(Transport::Stdio),
    }
}

/// Why a target could not be judged, with advice.
pub fn cannot_judge(
    RunOptions { target, launch, .. }: &RunOptions,
    profile: Profile,
    transport: Option<Transport>,
    why: &str,
) -> String {
    let answered = match profile {
        _ if matches!(target, Target::Testee { .. }) => "`capabilities`",
        Profile::Ptc => "`initialize` and `tools/list`",
        Profile::Mcp => "`initialize`",
    };
    let over = transport.map(|transport| format!(" over {}", transport.words()));
    format!(
        "the target could not be judged{}: `{}` must start, and answer {answered}: {why}{}",
        over.unwrap_or_default(),
        target.name(),
        added_flag_hint(launch, why),
    )
}

/// Advice for a target that complains of a flag that the harness adds to its command.
fn added_flag_hint(launch: &Launch, why: &str) -> String {
    // Before it stands the command, with every flag.
    let Some((_, stderr)) = why.split_once(STDERR_FOLLOWS) else {
        return String::new();
    };
    let words = |(name, value): (&String, &FlagValue)| launch.words([(name.as_str(), value)]).ok();
    let mut added = launch.observe.iter().filter_map(words);
    let named = |words: &Vec<String>| {
        let flag = words.first().map(|flag| flag.trim_start_matches('-'));
        flag.is_some_and(|flag| !flag.is_empty() && stderr.contains(flag))
    };
    match added.find(named) {
        Some(words) => format!(
            "\nthe harness added `{}`, to see results: if the server has no such flag, leave [observe] of a launch file (--launch) empty, \
             or list the server's own there",
            shell_words::join(words)
        ),
        None => String::new(),
    }
}

/// The baseline that was named, or the reference's own.
pub fn baseline_path(args: &RunArgs) -> Option<PathBuf> {
    let own = || {
        reference::workspace()
            .ok()
            .map(|root| root.join(REFERENCE_BASELINE))
    };
    match &args.baseline {
        Some(path) => Some(path.clone()),
        None if is_reference(args) => own().filter(|path| path.is_file()),
        None => None,
    }
}

pub fn expected_failures(path: &Path) -> Result<ExpectedFailures, Failure> {
    let list = ExpectedFailures::read(&read(path)?);
    Ok(list.map_err(|error| format!("{}: {error}", path.display()))?)
}

pub fn read(path: &Path) -> Result<String, FileError> {
    files::read_text(path, files::SETTINGS_BYTES_MAX)
}
