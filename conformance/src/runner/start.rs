//! Turns what a case needs of a target into a process to start, or says why that is impossible.
//! Knows target blocks and launch templates; knows nothing of verdicts.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use tempfile::TempDir;

use crate::files;
use crate::json::Json;
use crate::peer::case_peers::CasePeers;
use crate::suite::TargetSpec;
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::http::Endpoint;
use crate::target::launch::{FlagValue, Launch};
use crate::target::link::{self, FailedRequest, Link, ListenerLaunch};
use crate::target::process::Spawn;

use super::controls::CaseFiles;

/// Name of the upstreams configuration in the case's directory.
pub const UPSTREAMS_FILE: &str = "upstreams.json";

/// The target under test, and how to reach it.
#[derive(Debug, Clone)]
pub enum Target {
    /// A server that the harness starts as often as needed.
    Command {
        /// The command, without flags.
        argv: Vec<String>,
        /// The transport for cases that work over any.
        over: PreferredTransport,
    },
    /// A server that is already running.
    Url(Endpoint),
    /// A library behind an adapter.
    Testee { argv: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PreferredTransport {
    /// Standard input and output.
    Stdio,
    Http,
}

/// Why a target cannot be started for a case, as known without trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The target does not claim what the case needs: a noun phrase.
    NotClaimed(String),
    /// The harness itself failed.
    Harness(String),
}

/// A process that is ready to be started, with the files that it needs.
#[derive(Debug)]
pub struct PreparedProcess {
    pub spawn: Spawn,
    /// The address it will listen on, if it is to serve HTTP.
    pub listener: Option<ListenerLaunch>,
    /// The case's own directory: `{{dir}}`.
    pub directory: PathBuf,
    /// The directory for traces, if the target block asks for traces.
    pub traces: Option<PathBuf>,
    files: TempDir,
    peers: CasePeers,
}

impl PreparedProcess {
    /// The files that steps of its cases inspect.
    pub fn files(&self) -> CaseFiles {
        CaseFiles {
            directory: self.directory.clone(),
            traces: self.traces.clone(),
        }
    }
}

impl Target {
    /// The name that reports print.
    pub fn name(&self) -> String {
        match self {
            Self::Command { argv, .. } => shell_words::join(argv),
            Self::Url(endpoint) => endpoint.url.clone(),
            Self::Testee { argv } => format!("{} as testee", shell_words::join(argv)),
        }
    }

    /// The transport for cases that work over any.
    pub fn over(&self) -> PreferredTransport {
        match self {
            Self::Command { over, .. } => *over,
            Self::Url(_) => PreferredTransport::Http,
            Self::Testee { .. } => PreferredTransport::Stdio,
        }
    }

    /// Prepares a process for `spec`. `observing` adds the flags that make results visible.
    ///
    /// # Errors
    /// Why it is impossible: the target is already running, lacks a flag, or lacks the transport.
    pub fn prepare(
        &self,
        launch: &Launch,
        spec: &TargetSpec,
        over: PreferredTransport,
        observing: bool,
    ) -> Result<PreparedProcess, Refusal> {
        let argv = match self {
            Self::Command { argv, .. } => argv,
            Self::Testee { argv } => return adapter(argv, launch),
            Self::Url(_) => {
                return Err(Refusal::NotClaimed(
                    "a server that can be started anew".to_owned(),
                ));
            }
        };
        let (files, directory) = scratch()?;
        let (peers, upstreams) = set_up_peers(spec, &directory, &directory)?;
        let expand = |text: &str| peers.expand(&expand_dir(text, &directory));
        write_files(&directory, spec, expand)?;
        let mut words: Vec<String> = argv.iter().chain(&launch.arguments).cloned().collect();
        let flags = flags(launch, spec, observing, expand)?;
        let named = flags.iter().map(|(name, value)| (name.as_str(), value));
        words.extend(
            launch
                .words(named)
                .map_err(|flag| Refusal::NotClaimed(format!("a flag for `{flag}`")))?,
        );
        if let Some(config) = upstreams {
            let path = directory.join(UPSTREAMS_FILE);
            write(&path, config)?;
            words.extend(
                launch
                    .upstreams_words(&path)
                    .ok_or_else(|| Refusal::NotClaimed("an upstreams config".to_owned()))?,
            );
        }
        let listener = match over {
            PreferredTransport::Stdio => None,
            PreferredTransport::Http => Some(prepare_listener(launch, &mut words)?),
        };
        let spawn = Spawn {
            argv: words,
            env: environment(launch, spec, &directory, expand)?,
            withheld: launch.withheld.clone(),
            cwd: None,
        };
        let traces = match flags.get("trace_dir") {
            Some(FlagValue::Text(path)) => Some(PathBuf::from(path)),
            _ => None,
        };
        Ok(PreparedProcess {
            listener: listener.map(|(endpoint, address)| ListenerLaunch {
                spawn: spawn.clone(),
                endpoint,
                address,
                ready: launch.http_ready.clone(),
            }),
            spawn,
            directory,
            traces,
            files,
            peers,
        })
    }

    /// Starts a target that can serve many cases, or connects to it.
    ///
    /// # Errors
    /// The outer error when nothing was tried; the inner one, with the target's standard error, when the attempt failed.
    pub async fn link(
        &self,
        launch: &Launch,
        spec: &TargetSpec,
        patience: Patience,
    ) -> Result<Result<Link, (FailedRequest, String)>, Refusal> {
        if let Self::Url(endpoint) = self {
            return match needs_start(spec) {
                Some(need) => Err(Refusal::NotClaimed(format!(
                    "{need}, which a running server cannot be given"
                ))),
                None => Ok(Link::url(endpoint, patience).await),
            };
        }
        let prepared = self.prepare(launch, spec, self.over(), true)?;
        let PreparedProcess {
            spawn,
            listener,
            files,
            peers,
            ..
        } = prepared;
        let files: link::KeptAlive = Box::new((files, peers));
        Ok(match (self, listener) {
            (Self::Testee { .. }, _) => Link::testee(&spawn, Some(files), patience).await,
            (_, Some(listener)) => Link::http(listener, Some(files), patience).await,
            (_, None) => Link::stdio(&spawn, Some(files), patience).await,
        })
    }
}

/// Sets up the peers of a target block below `directory`, and creates the upstreams configuration: the block's own, or one that
/// reaches every peer. `{{dir}}` is replaced with `shown`.
pub fn set_up_peers(
    spec: &TargetSpec,
    directory: &Path,
    shown: &Path,
) -> Result<(CasePeers, Option<String>), Refusal> {
    let peers = CasePeers::set_up(directory, &spec.peers, |text| expand_dir(text, shown))
        .map_err(|error| Refusal::Harness(error.to_string()))?;
    let own = spec.upstreams.as_ref().map(Json::to_string);
    let config = own.map(|config| peers.expand(&expand_dir(&config, shown)));
    let config = config.or_else(|| peers.upstreams());
    Ok((peers, config))
}

/// `text` with `{{dir}}` replaced.
pub fn expand_dir(text: &str, directory: &Path) -> String {
    text.replace("{{dir}}", &directory.to_string_lossy())
}

/// The first thing in a target block that can only be set when a server is started.
pub fn needs_start(spec: &TargetSpec) -> Option<String> {
    let first = |kind: &str, name: Option<&String>| name.map(|name| format!("{kind} `{name}`"));
    first("the flag", spec.flags.keys().next())
        .or_else(|| first("the variable", spec.env.keys().next()))
        .or_else(|| first("the file", spec.files.keys().next()))
        .or_else(|| first("the peer", spec.peers.keys().next()))
        .or_else(|| {
            spec.upstreams
                .as_ref()
                .map(|_| "an upstreams config".to_owned())
        })
}

fn adapter(argv: &[String], launch: &Launch) -> Result<PreparedProcess, Refusal> {
    let (files, directory) = scratch()?;
    let spawn = Spawn {
        argv: argv.to_vec(),
        env: launch.environment.clone().into_iter().collect(),
        withheld: launch.withheld.clone(),
        cwd: None,
    };
    Ok(PreparedProcess {
        spawn,
        listener: None,
        directory,
        traces: None,
        files,
        peers: CasePeers::default(),
    })
}

/// The flags that a target block asks for, with `expand` applied to their texts; `observing` adds those that make results visible.
///
/// # Errors
/// When a value cannot be passed on a command line.
pub fn flags(
    launch: &Launch,
    spec: &TargetSpec,
    observing: bool,
    expand: impl Fn(&str) -> String,
) -> Result<IndexMap<String, FlagValue>, Refusal> {
    let mut flags = IndexMap::new();
    if observing {
        flags.extend(launch.observe.clone());
    }
    for (name, value) in &spec.flags {
        let value = match FlagValue::from_json(value) {
            Some(FlagValue::Text(text)) => FlagValue::Text(expand(&text)),
            Some(FlagValue::Many(texts)) => {
                FlagValue::Many(texts.iter().map(|text| expand(text)).collect())
            }
            Some(value) => value,
            None => {
                return Err(Refusal::Harness(format!(
                    "flag `{name}`: {value} cannot stand on a command line"
                )));
            }
        };
        flags.insert(name.clone(), value);
    }
    Ok(flags)
}

fn environment(
    launch: &Launch,
    spec: &TargetSpec,
    directory: &Path,
    expand: impl Fn(&str) -> String,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut variables: Vec<(String, String)> = launch.environment.clone().into_iter().collect();
    if launch.scratch_home {
        variables.push(home(directory)?);
    }
    for (name, value) in &spec.env {
        variables.push((launch.variable(name), expand(value)));
    }
    Ok(variables)
}

/// The variable that sets `HOME` to an empty directory below the case's directory.
pub fn home(directory: &Path) -> Result<(String, String), Refusal> {
    let home = directory.join("home");
    std::fs::create_dir_all(&home).map_err(|error| io(&home, &error))?;
    Ok(("HOME".to_owned(), home.to_string_lossy().into_owned()))
}

fn prepare_listener(
    launch: &Launch,
    words: &mut Vec<String>,
) -> Result<(Endpoint, String), Refusal> {
    let port =
        link::free_port().map_err(|error| Refusal::Harness(format!("no port is free: {error}")))?;
    let http = launch
        .http_words(port)
        .ok_or_else(|| Refusal::NotClaimed("an HTTP listener".to_owned()))?;
    words.extend(http);
    let address = format!("127.0.0.1:{port}");
    let endpoint = Endpoint {
        url: format!("http://{address}{}", launch.http_path),
        headers: Vec::new(),
    };
    Ok((endpoint, address))
}

fn write_files(
    directory: &Path,
    spec: &TargetSpec,
    expand: impl Fn(&str) -> String,
) -> Result<(), Refusal> {
    for (name, content) in &spec.files {
        write(&path_inside(directory, name)?, expand(content))?;
    }
    Ok(())
}

/// The path of a case's file, which must stay inside its directory.
pub fn path_inside(directory: &Path, name: &str) -> Result<PathBuf, Refusal> {
    files::path_inside(directory, name).ok_or_else(|| {
        Refusal::Harness(format!(
            "`{name}` is not a path inside the case's directory"
        ))
    })
}

/// Writes a file, creating its parent directories.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Refusal> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| io(parent, &error))?;
    }
    std::fs::write(path, content).map_err(|error| io(path, &error))
}

pub fn scratch() -> Result<(TempDir, PathBuf), Refusal> {
    link::scratch().map_err(|fault: Fault| Refusal::Harness(fault.to_string()))
}

fn io(path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::Harness(format!("{}: {error}", path.display()))
}
