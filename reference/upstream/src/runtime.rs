//! The upstream runtime: every configured upstream of one process, started together, recovered one by one.
//! Knows transports and snapshots; knows nothing of programs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ptc_secrets::{
    AuthHeaders, ConfigDocument, ConfigFault, Redactor, RedactorBuilder, Scrubbed, Secret,
};

use crate::catalog::{self, CatalogMode, Thresholds};
use crate::config::{UpstreamConfig, parse_entries};
use crate::fault::{Reason, WorldFault};
use crate::limits::Limits;
use crate::prose::printable;
#[cfg(feature = "checks")]
use crate::simulation::Simulation;
use crate::tool::Toolset;
use crate::transport::child::{Launcher, is_inherited};
use crate::transport::{Answer, CallLimits, Outgoing, Transport, TransportContext};
use ptc_lang::rank::Indexed;

/// Maximum processor time for scrubbing one upstream's tool list.
const LISTING_TIME_MAX: Duration = Duration::from_secs(5);

/// When MCP upstreams are started and listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotMode {
    /// All at start-up, once; any failure fails start-up.
    #[default]
    Frozen,
    /// Each when it is first needed.
    Live,
}

impl SnapshotMode {
    /// The names on the command line.
    pub const NAMES: &[(&str, SnapshotMode)] = &[("frozen", Self::Frozen), ("live", Self::Live)];
}

#[derive(Debug, Clone, Default)]
pub struct UpstreamOptions {
    pub snapshot: SnapshotMode,
    pub limits: Limits,
    /// How much of the catalog the descriptions show.
    pub catalog: CatalogMode,
    /// The thresholds above which `auto` becomes lazy.
    pub thresholds: Thresholds,
    /// Paths of the running program, which must not be configured as its own upstream.
    pub own: Vec<PathBuf>,
    pub platform: Platform,
}

/// How the runtime reaches the world outside of the process. The network is always the system's, except in simulations.
#[derive(Clone, Default)]
pub struct Platform {
    /// Starts the child processes of stdio upstreams; by default the operating system does.
    pub launcher: Option<Arc<dyn Launcher>>,
    #[cfg(feature = "checks")]
    pub simulation: Option<Simulation>,
}

impl Platform {
    /// The system's network, and child processes that `launcher` starts.
    pub fn with_launcher(launcher: Arc<dyn Launcher>) -> Self {
        Self {
            launcher: Some(launcher),
            #[cfg(feature = "checks")]
            simulation: None,
        }
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform")
            .field("launcher", &self.launcher.is_some())
            .finish_non_exhaustive()
    }
}

/// An upstream that could not be started, listed or compiled. `Display` is the operator's message; it contains no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("upstream {name}: {message}")]
pub struct StartFault {
    pub name: String,
    pub message: String,
}

impl StartFault {
    fn scrubbed(self, redactor: &Redactor) -> Self {
        Self {
            name: redactor.scrub(self.name).into_inner(),
            // The upstream's own text is shown on a terminal.
            message: printable(&redactor.scrub(self.message)).into_owned(),
        }
    }
}

/// Upstreams whose entries were read. Their secrets are registered; nothing is started.
pub struct ConfiguredUpstreams {
    upstreams: Vec<(UpstreamConfig, AuthHeaders)>,
    options: UpstreamOptions,
    warnings: Vec<String>,
}

impl ConfiguredUpstreams {
    /// Reads the entries of `document` and registers their secrets with `scrub`.
    ///
    /// # Errors
    /// The first refused credential or entry; the message contains no credential.
    pub fn read(
        document: &ConfigDocument,
        options: UpstreamOptions,
        scrub: &mut RedactorBuilder,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigFault> {
        let (configured, faults) = Self::read_with_all_faults(document, options, scrub, env);
        match faults.into_iter().next() {
            None => Ok(configured),
            Some(fault) => Err(fault),
        }
    }

    /// [`read`](Self::read) that reports all faults at once: the upstreams that could be started, and every refusal, those of
    /// credentials first.
    pub fn read_with_all_faults(
        document: &ConfigDocument,
        options: UpstreamOptions,
        scrub: &mut RedactorBuilder,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> (Self, Vec<ConfigFault>) {
        let mut warnings = Vec::new();
        // A value that an entry takes from the environment is as secret as a credential.
        let taken = RefCell::new(BTreeMap::new());
        let noting = |name: &str| {
            let value = env(name)?;
            if !is_inherited(name) {
                let secret = Secret::new(value.clone());
                taken.borrow_mut().insert(name.to_owned(), secret);
            }
            Some(value)
        };
        let (configs, refused) = parse_entries(document, &noting, &options.own, &mut warnings);
        let mut faults = document.refused.clone();
        faults.extend(refused);
        for (name, secret) in taken.into_inner() {
            if !secret.is_short() {
                scrub.add(&secret);
            } else if !document.credentials.has(&secret) {
                warnings.push(format!(
                    "the value of {name}, which an upstream gets, is shorter than 16 bytes and is not scrubbed; if it is secret, \
                     make it a credential with \"allow_short\": true as well"
                ));
            }
        }
        let sent = |name: &str| {
            let auth = configs.iter().flat_map(|config| config.transport.auth());
            auth.into_iter().any(|emitter| emitter.binding == name)
        };
        document.credentials.register(&sent, scrub);
        ptc_outbound::register_proxies(env, scrub);
        for name in document.credentials.short_names() {
            warnings.push(format!(
                "credential {name} is shorter than 16 bytes; a program could guess it, and scrubbing it may mangle ordinary text"
            ));
        }
        let mut upstreams = Vec::with_capacity(configs.len());
        for config in configs {
            let auth = config.transport.auth();
            if auth
                .iter()
                .any(|emitter| document.credentials.is_refused(&emitter.binding))
            {
                continue;
            }
            match AuthHeaders::emit(auth, &document.credentials, scrub) {
                Ok(auth) => upstreams.push((config, auth)),
                Err((index, fault)) => {
                    let path =
                        ["upstreams", &config.name, "auth", &index.to_string()].map(str::to_owned);
                    let message = format!("upstream {}: {fault}", config.name);
                    faults.push(document.fault(&path, message));
                }
            }
        }
        if !faults.is_empty() {
            let redactor = scrub.clone().build();
            faults = faults
                .into_iter()
                .map(|fault| fault.scrubbed(&redactor))
                .collect();
        }
        let configured = Self {
            upstreams,
            options,
            warnings,
        };
        (configured, faults)
    }

    /// Starts every upstream as the options say; no secret known to `redactor` is disclosed. Runs inside a tokio runtime, which later
    /// calls use too.
    ///
    /// # Errors
    /// The first upstream, in name order, that did not start. Later ones are not waited for.
    pub async fn start(self, redactor: Redactor) -> Result<Arc<Runtime>, StartFault> {
        let started = self.start_reporting(1, redactor).await;
        started.map_err(|mut faults| faults.swap_remove(0))
    }

    /// [`start`](Self::start) that reports all failures at once.
    ///
    /// # Errors
    /// Every upstream that did not start, in name order; at least one.
    pub async fn start_with_all_faults(
        self,
        redactor: Redactor,
    ) -> Result<Arc<Runtime>, Vec<StartFault>> {
        self.start_reporting(usize::MAX, redactor).await
    }

    async fn start_reporting(
        self,
        most: usize,
        redactor: Redactor,
    ) -> Result<Arc<Runtime>, Vec<StartFault>> {
        let options = self.options;
        let upstream = |(config, auth): (UpstreamConfig, AuthHeaders)| {
            let name = config.name.clone();
            (
                name,
                Upstream::new(config, auth, &redactor, &options.platform),
            )
        };
        let upstreams = self.upstreams.into_iter().map(upstream).collect();
        let runtime = Arc::new(Runtime {
            upstreams,
            redactor,
            options,
            executor: tokio::runtime::Handle::current(),
            warnings: self.warnings,
            exclusive: tokio::sync::Mutex::default(),
        });
        let faults = runtime.start_all(most).await;
        if faults.is_empty() {
            return Ok(runtime);
        }
        runtime.shutdown().await;
        let faults = faults.into_iter();
        Err(faults
            .map(|fault| fault.scrubbed(&runtime.redactor))
            .collect())
    }
}

/// The running upstreams. Shared by everything that evaluates programs.
pub struct Runtime {
    upstreams: BTreeMap<String, Upstream>,
    redactor: Redactor,
    options: UpstreamOptions,
    /// Its threads drive timers and streams, and deadlines use its clock.
    executor: tokio::runtime::Handle,
    warnings: Vec<String>,
    /// Held during work on a tool that briefly takes much memory.
    exclusive: tokio::sync::Mutex<()>,
}

impl Runtime {
    /// Waits for the exclusive right to do work on a tool that briefly takes much memory.
    pub(crate) async fn exclusive(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.exclusive.lock().await
    }

    /// The scrub set of the process.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Harmless oddities found at start-up, for the log.
    pub fn warnings(&self) -> Vec<Scrubbed<String>> {
        self.warnings
            .iter()
            .map(|warning| self.redactor.scrub(warning.clone()))
            .collect()
    }

    /// Names of the configured upstreams, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.upstreams.keys().map(String::as_str)
    }

    /// Every upstream by name, with its tools; `None` for one that was never listed.
    pub fn toolsets(&self) -> impl Iterator<Item = (&str, Option<Arc<Toolset>>)> {
        self.upstreams
            .iter()
            .map(|(name, upstream)| (name.as_str(), upstream.tools()))
    }

    /// How much of the catalog the tool descriptions show.
    pub fn catalog_mode(&self) -> CatalogMode {
        self.options.catalog
    }

    /// The catalog text for tool descriptions; empty without upstreams.
    pub fn catalog_text(&self) -> Scrubbed<String> {
        let tools: Vec<Option<Arc<Toolset>>> =
            self.upstreams.values().map(Upstream::tools).collect();
        let servers: Vec<catalog::CatalogServer<'_>> = self
            .upstreams
            .values()
            .zip(&tools)
            .map(|(upstream, tools)| catalog::CatalogServer {
                name: &upstream.config.name,
                description: &upstream.config.description,
                capabilities: &upstream.config.capabilities,
                tools: tools.as_deref(),
            })
            .collect();
        self.redactor.scrub(catalog::render(
            &servers,
            self.options.catalog,
            self.options.thresholds,
        ))
    }

    /// Ends every child process with its process group, and every HTTP session. Calls in flight fail.
    pub async fn shutdown(&self) {
        let mut closing = tokio::task::JoinSet::new();
        for upstream in self.upstreams.values() {
            let transport = Arc::clone(&upstream.transport);
            closing.spawn(async move { transport.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Upstream> {
        self.upstreams.get(name)
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.values()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.options.snapshot == SnapshotMode::Live
    }

    /// Lets this thread, which may be a worker of a program, use the executor's clock.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.executor.enter()
    }

    /// Blocks a program's thread until `work` is done.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        #[cfg(feature = "checks")]
        if let Some(simulation) = &self.options.platform.simulation {
            return simulation.block_on(work);
        }
        self.executor.block_on(work)
    }

    /// Runs the workers of a program; see [`ptc_lang::Host::run_workers`].
    #[cfg(feature = "checks")]
    pub(crate) fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize {
        match &self.options.platform.simulation {
            Some(simulation) => simulation.driver.run_workers(count, worker),
            None => ptc_lang::run_on_threads(count, worker),
        }
    }

    /// Starts all upstreams at once and returns the failures in name order; gives up after `most` failures.
    async fn start_all(self: &Arc<Self>, most: usize) -> Vec<StartFault> {
        let mut starting = Vec::new();
        for name in self.upstreams.keys() {
            let name = name.clone();
            let runtime = Arc::clone(self);
            starting.push((
                name.clone(),
                tokio::spawn(async move { runtime.start_one(&name).await }),
            ));
        }
        let mut faults = Vec::new();
        for (name, task) in starting {
            if faults.len() == most {
                task.abort();
                let _ = task.await;
                continue;
            }
            let outcome = task
                .await
                .unwrap_or_else(|_| Err(WorldFault::unavailable("start-up was interrupted")));
            if let Err(fault) = outcome {
                let message = fault.log_message(&self.redactor);
                faults.push(StartFault { name, message });
            }
        }
        faults
    }

    async fn start_one(&self, name: &str) -> Result<(), WorldFault> {
        let Some(upstream) = self.upstreams.get(name) else {
            return Ok(());
        };
        if upstream.transport.loads_at_start() || !self.is_live() {
            upstream.ensure_tools(false).await?;
        }
        Ok(())
    }
}

/// One upstream: its connection, if any, and its tools.
pub(crate) struct Upstream {
    pub config: UpstreamConfig,
    pub transport: Arc<dyn Transport>,
    listed: RwLock<ListedTools>,
    /// How often it reported that its tools changed.
    changes: AtomicU64,
    /// The entry for `apropos` while its tools are unknown.
    pub indexed: Indexed,
    redactor: Redactor,
}

/// The result of the last tool listing.
#[derive(Default)]
struct ListedTools {
    tools: Option<Arc<Toolset>>,
    /// The value of `changes` when the listing was requested.
    changes: u64,
}

impl Upstream {
    fn new(
        mut config: UpstreamConfig,
        auth: AuthHeaders,
        redactor: &Redactor,
        platform: &Platform,
    ) -> Self {
        config.description = redactor.scrub_str(&config.description).into_owned();
        for word in &mut config.capabilities {
            *word = redactor.scrub_str(word).into_owned();
        }
        let prose = std::iter::once(&config.description)
            .chain(&config.capabilities)
            .map(String::as_str);
        let indexed = Indexed::new([config.name.as_str()], prose);
        let transport = config.transport.transport(TransportContext {
            name: config.name.clone(),
            auth,
            redactor: redactor.clone(),
            platform: platform.clone(),
        });
        Self {
            config,
            transport,
            listed: RwLock::default(),
            changes: AtomicU64::new(0),
            indexed,
            redactor: redactor.clone(),
        }
    }

    /// The tools, once known.
    pub fn tools(&self) -> Option<Arc<Toolset>> {
        let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        listed.tools.clone()
    }

    /// Returns the tools; starts the upstream and lists them if necessary. With `refresh`, an upstream that reported a change of its
    /// tools is listed again. Of concurrent listings the one requested after more changes is kept.
    pub async fn ensure_tools(&self, refresh: bool) -> Result<Arc<Toolset>, WorldFault> {
        if refresh && self.transport.take_list_changed() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        let changes = self.changes.load(Ordering::Relaxed);
        {
            let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(tools) = &listed.tools
                && !(refresh && listed.changes < changes)
            {
                return Ok(Arc::clone(tools));
            }
        }
        let raw = self.transport.list_tools().await?;
        let redactor = self.redactor.with_time_limit(LISTING_TIME_MAX);
        let tools = Arc::new(Toolset::new(raw, &self.config.name, &redactor));
        let server = self.config.name.as_str();
        if tools.left_out > 0 {
            tracing::warn!(
                event = "upstream_tools_left_out",
                server,
                count = tools.left_out
            );
        }
        if tools.late > 0 {
            tracing::warn!(
                event = "upstream_tools_redacted",
                server,
                count = tools.late
            );
        }
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        if listed.changes <= changes {
            *listed = ListedTools {
                tools: Some(Arc::clone(&tools)),
                changes,
            };
        }
        Ok(tools)
    }

    /// Calls a tool, restarting the upstream if necessary.
    pub async fn call(&self, call: Outgoing<'_>, limits: CallLimits) -> Result<Answer, WorldFault> {
        let (server, tool) = (self.config.name.as_str(), call.tool.name.as_str());
        let answer = self.transport.call(call, limits).await;
        if let Err(fault) = &answer
            && fault.reason == Reason::Timeout
        {
            tracing::warn!(event = "upstream_timeout", server, tool);
        }
        answer
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests;
