//! Judges faults by the cases that reach them: a fault is switched on and off in a file that the servers share, and the same file records
//! which faults a case reached. Cases that consist of one request use servers that keep running, so that they cost no start; then
//! exchanges and commands run, each with its own server, and among these the cases that deliberately wait come last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conformance::runner::RunOptions;
use conformance::runner::case_runner::CaseRunner;
use conformance::runner::start::{PreferredTransport, Target};
use conformance::suite::{Case, CaseBody, Suite, page_name};
use conformance::target::Patience;
use conformance::target::claims::Claims;
use conformance::target::launch::Launch;
use conformance::target::reference::{BINARY, TESTEE, command};
use conformance::verdict::Verdict;

use super::faults::{MAP_BYTES, MARKS};
use anyhow::{Context, Result};

/// Time limit for an answer of a server with a fault.
const PATIENCE: Duration = Duration::from_secs(6);

/// The file that sets the active fault, and that records which guards were evaluated.
pub struct FaultMap(File);

impl FaultMap {
    /// Creates the file, with no fault active and no guard marked.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        let _absent = crate::guarded_fs::remove(path);
        crate::guarded_fs::write(path, vec![0; MAP_BYTES])?;
        Ok(Self(crate::guarded_fs::open_to_change(path)?))
    }

    /// Activates a fault; 0 means none.
    fn activate(&self, fault: u32) -> Result<()> {
        let mut file = &self.0;
        let written = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&fault.to_ne_bytes()));
        written.context("the switch of faults")
    }

    /// The faults whose guards have been evaluated since the last call.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn take_reached(&self) -> Result<Vec<u32>> {
        let mut marks = vec![0; MAP_BYTES - MARKS];
        let none = vec![0; marks.len()];
        let (mut file, start) = (&self.0, SeekFrom::Start(MARKS as u64));
        file.seek(start)
            .and_then(|_| file.read_exact(&mut marks))
            .and_then(|()| file.seek(start))
            .and_then(|_| file.write_all(&none))
            .context("the marks of faults")?;
        let marked = (0..).zip(marks).filter(|(_, mark)| *mark != 0);
        Ok(marked.map(|(id, _)| id).collect())
    }
}

/// A fault to be judged.
pub struct JudgedFault<'a> {
    pub id: u32,
    pub file: &'a str,
    /// Cases that contain these words are more likely to catch it.
    pub words: Vec<String>,
    /// Whether a person has read it and given a reason why no case catches it.
    pub is_excused: bool,
}

/// Servers that keep running, and the faults that each case reaches.
pub struct QuickJudge {
    runtime: tokio::runtime::Runtime,
    suite: Arc<Suite>,
    runner: CaseRunner,
    map: FaultMap,
    reached: BTreeMap<u32, Vec<usize>>,
    /// The rank of each case within its page, by ascending number of faults that it reaches.
    turns: BTreeMap<usize, usize>,
    /// The id and the contents of each case.
    texts: Vec<String>,
    /// Whether all cases that reach a fault judge it, however many.
    whole: bool,
}

/// Maximum number of single-request cases that judge a fault.
const REQUESTS_MAX: usize = 4000;
/// Maximum number of cases with their own server that judge a fault, taken from all pages in turn: otherwise all of them would judge what
/// every start reaches.
const OWN_SERVER_MAX: usize = 250;
/// For a fault that a person has excused, the maxima are divided by this.
const EXCUSED_DIVISOR: usize = 10;
/// Maximum number of deliberately waiting cases that judge a fault.
const WAITING_MAX: usize = 30;
/// The pages about a file, by the prefix of its path; the first matching row counts. All of their cases that reach a fault judge
/// it, however many, unless a person has excused it.
const PAGES_BY_PATH: &[(&str, &[&str])] = &[
    ("reference/agent/", &["agent."]),
    (
        "reference/json/",
        &["lib.json", "protocol.encoding", "mcp.framing"],
    ),
    ("reference/lang/src/regex/", &["lib.regex", "lang.limits"]),
    ("reference/lang/src/builtins/discovery", &["lang.discovery"]),
    ("reference/lang/src/builtins/", &["lib."]),
    ("reference/lang/src/error/", &["lang.errors", "lang.absent"]),
    ("reference/lang/", &["lang.", "lib."]),
    (
        "reference/outbound/",
        &["upstream.http", "upstream.openapi"],
    ),
    ("reference/protocol/", &["protocol.", "mcp.profiles"]),
    ("reference/commands/src/repl/", &["upstream.repl"]),
    (
        "reference/commands/",
        &["mcp.settings", "upstream.repl", "agent.runs"],
    ),
    (
        "reference/rpc/",
        &["base.messages", "mcp.dispatch", "mcp.framing"],
    ),
    (
        "reference/secrets/",
        &["upstream.redaction", "upstream.config"],
    ),
    (
        "reference/server/src/diagnostics/",
        &[
            "mcp.debug",
            "mcp.metrics",
            "upstream.metrics",
            "upstream.transcript",
        ],
    ),
    (
        "reference/server/src/evaluation/",
        &[
            "mcp.limits",
            "mcp.concurrency",
            "mcp.isolation",
            "mcp.metrics",
        ],
    ),
    (
        "reference/server/src/mcp/tools/",
        &["mcp.lisp_eval", "mcp.debug", "mcp.sessions", "mcp.profiles"],
    ),
    (
        "reference/server/src/render/",
        &[
            "mcp.profiles",
            "mcp.debug",
            "protocol.rendering",
            "upstream.rendering",
        ],
    ),
    (
        "reference/server/src/sessions/",
        &["mcp.sessions", "mcp.session_store"],
    ),
    ("reference/server/src/settings/", &["mcp.settings"]),
    (
        "reference/server/src/transport/http/",
        &["mcp.http", "mcp.security", "mcp.stateless", "base.http"],
    ),
    (
        "reference/server/src/transport/",
        &["mcp.framing", "mcp.concurrency", "mcp.lifecycle"],
    ),
    (
        "reference/server/",
        &["mcp.lifecycle", "mcp.dispatch", "mcp.stateless"],
    ),
    ("reference/upstream/src/config/", &["upstream.config"]),
    (
        "reference/upstream/src/transport/openapi/",
        &["upstream.openapi"],
    ),
    (
        "reference/upstream/src/transport/",
        &["upstream.http", "upstream.faults", "protocol.upstream"],
    ),
    (
        "reference/upstream/",
        &[
            "upstream.calls",
            "upstream.catalog",
            "upstream.discovery",
            "upstream.faults",
        ],
    ),
];

impl QuickJudge {
    /// Runs every case without a fault and records which faults it reaches. The results are saved in the file `seen`, so that the next run
    /// only runs new cases. With `whole`, all cases that reach a fault judge it.
    ///
    /// # Errors
    /// When the results cannot be saved.
    pub fn prepare(
        suite: Suite,
        script: &Path,
        map: FaultMap,
        seen: &Path,
        whole: bool,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let word = script.to_string_lossy().into_owned();
        let suite = Arc::new(suite);
        let launch = Launch {
            programs: BTreeMap::from([(BINARY.to_owned(), vec![word.clone()])]),
            testee: vec![word, TESTEE.to_owned()],
            ..Launch::default()
        };
        let options = RunOptions {
            target: Target::Command {
                argv: command(script),
                over: PreferredTransport::Stdio,
            },
            launch,
            claims: Claims::everything(),
            patience: Patience {
                reply: PATIENCE,
                ..Patience::default()
            },
            jobs: 1,
            fail_fast: None,
            tools: Vec::new(),
        };
        let runner = CaseRunner::new(Arc::clone(&suite), options);
        let mut quick = Self {
            runtime,
            suite,
            runner,
            map,
            reached: BTreeMap::new(),
            turns: BTreeMap::new(),
            texts: Vec::new(),
            whole,
        };
        let text = |case: &Case| format!("{} {:?}", case.id, case.body).to_lowercase();
        quick.texts = quick.suite.cases.iter().map(text).collect();
        let mut kept: BTreeMap<String, Vec<u32>> = std::fs::read(seen)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let mut tried = 0;
        for index in 0..quick.suite.cases.len() {
            let case = &quick.suite.cases[index];
            let judges = !matches!(case.body, CaseBody::Fixture(_)) && !case.is_open();
            if !judges || kept.contains_key(&case.id) {
                continue;
            }
            let id = case.id.clone();
            let _before = quick.map.take_reached()?;
            // A case that fails without a fault judges none.
            let faults = match quick.passes(index) {
                true => quick.map.take_reached()?,
                false => Vec::new(),
            };
            kept.insert(id, faults);
            tried += 1;
            if tried % 500 == 0 {
                save(seen, &kept)?;
            }
        }
        save(seen, &kept)?;
        // Ranks the cases of each page by the number of faults that they reach, fewest first, so that pages can take turns.
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (index, case) in quick.suite.cases.iter().enumerate() {
            order.push((kept.get(&case.id).map_or(0, Vec::len), index));
        }
        order.sort_unstable();
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        for (_, index) in order {
            let case = &quick.suite.cases[index];
            let turn = turns.entry(page_name(case)).or_default();
            *turn += 1;
            quick.turns.insert(index, *turn);
            for id in kept.get(&case.id).into_iter().flatten() {
                quick.reached.entry(*id).or_default().push(index);
            }
        }
        Ok(quick)
    }

    /// Whether a server reaches a fault only once: at its start, or when it fills a cache. Any case may reveal
    /// such a fault, although only the first one was recorded as reaching it.
    fn is_reached_once(&mut self, fault: u32) -> Result<bool> {
        /// Number of cases that are tried: what is computed once per item is reached again by some of them.
        const ASKED: usize = 3;
        let indices = self.reached.get(&fault).into_iter().flatten().copied();
        let is_request = |index: &usize| Cost::of(&self.suite.cases[*index]) == Cost::Request;
        let indices: Vec<usize> = indices.filter(is_request).take(ASKED).collect();
        for index in indices {
            self.runtime.block_on(self.runner.stop());
            let _first = self.passes(index);
            let _before = self.map.take_reached()?;
            let _again = self.passes(index);
            if !self.map.take_reached()?.contains(&fault) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The cases that judge a fault: the cheap ones first, and among these the ones that mention it.
    fn judging_cases(&self, fault: &JudgedFault, met_once: bool) -> Vec<usize> {
        let reached = self.reached.get(&fault.id).cloned().unwrap_or_default();
        let room = PAGES_BY_PATH
            .iter()
            .find(|(beginning, _)| fault.file.starts_with(beginning))
            .map_or(&[][..], |(_, pages)| pages);
        let page = |index: &usize| page_name(&self.suite.cases[*index]);
        // Cases on the pages that reached the fault are the most likely to catch it.
        let pages: BTreeSet<String> = reached.iter().map(page).collect();
        let mut indices = match met_once {
            true => (0..self.suite.cases.len())
                .filter(|index| self.turns.contains_key(index))
                .collect(),
            false => reached,
        };
        indices.sort_by_cached_key(|index| {
            let said = fault
                .words
                .iter()
                .filter(|word| self.texts[*index].contains(word.as_str()));
            (
                Cost::of(&self.suite.cases[*index]),
                !pages.contains(&page(index)),
                std::cmp::Reverse(said.count()),
                self.turns[index],
            )
        });
        let mut counts: BTreeMap<Cost, usize> = BTreeMap::new();
        indices.retain(|index| {
            let page = page(index);
            if self.whole || !fault.is_excused && room.iter().any(|part| page.starts_with(part)) {
                return true;
            }
            let cost = Cost::of(&self.suite.cases[*index]);
            let count = counts.entry(cost).or_default();
            *count += 1;
            *count <= cost.cases_max() / if fault.is_excused { EXCUSED_DIVISOR } else { 1 }
        });
        indices
    }

    /// The number of cases that judge.
    pub fn cases(&self) -> usize {
        let mut indices: Vec<usize> = self.reached.values().flatten().copied().collect();
        indices.sort_unstable();
        indices.dedup();
        indices.len()
    }

    /// The case that fails with a fault and passes without it.
    ///
    /// # Errors
    /// When no case can be run any more.
    pub fn judge(&mut self, fault: &JudgedFault) -> Result<Option<String>> {
        /// After more than this many cases that fail only after others, the failure is accepted: the effects of a fault may accumulate.
        const COMPANY_MAX: usize = 2;
        let mut in_company = 0;
        let met_once = self.is_reached_once(fault.id)?;
        // Restart, so that what is computed once is computed with the fault active.
        self.runtime.block_on(self.runner.stop());
        for index in self.judging_cases(fault, met_once) {
            self.map.activate(fault.id)?;
            if self.passes(index) {
                continue;
            }
            // Restart, so that no effects of the fault remain in the server.
            self.runtime.block_on(self.runner.stop());
            self.map.activate(0)?;
            let without = self.passes(index);
            // Restart, so that what is computed once is computed with the fault again.
            self.runtime.block_on(self.runner.stop());
            self.map.activate(fault.id)?;
            let with = self.passes(index);
            self.runtime.block_on(self.runner.stop());
            in_company += usize::from(without);
            if without && (!with || in_company > COMPANY_MAX) {
                self.map.activate(0)?;
                self.runtime.block_on(self.runner.stop());
                return Ok(Some(self.suite.cases[index].id.clone()));
            }
        }
        self.map.activate(0)?;
        self.runtime.block_on(self.runner.stop());
        Ok(None)
    }

    /// Whether a case passes. If the server cannot be reached, it does not.
    fn passes(&mut self, index: usize) -> bool {
        let trial = self.runtime.block_on(self.runner.run(index));
        trial.is_ok_and(|trial| matches!(trial.verdict, Verdict::Pass { .. }))
    }
}

/// The cost of a case, the cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Request,
    Server,
    Wait,
}

impl Cost {
    fn of(case: &Case) -> Self {
        match case.body {
            _ if case.waits() => Self::Wait,
            CaseBody::Clj(_) | CaseBody::Call(_) => Self::Request,
            _ => Self::Server,
        }
    }

    /// The maximum number of such cases that judge a fault.
    fn cases_max(self) -> usize {
        match self {
            Self::Request => REQUESTS_MAX,
            Self::Server => OWN_SERVER_MAX,
            Self::Wait => WAITING_MAX,
        }
    }
}

fn save(path: &Path, kept: &BTreeMap<String, Vec<u32>>) -> Result<()> {
    let text = serde_json::to_vec(kept)?;
    Ok(crate::guarded_fs::write(path, text)?)
}

impl Drop for QuickJudge {
    fn drop(&mut self) {
        self.runtime.block_on(self.runner.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that no longer matches anything would let its files' faults go unnoticed.
    #[test]
    fn every_path_exists_and_has_pages() {
        let suite = crate::suite().expect("the specification");
        let pages: BTreeSet<String> = suite.cases.iter().map(page_name).collect();
        for (files, parts) in PAGES_BY_PATH {
            assert!(
                crate::root().join(files).parent().is_some_and(Path::exists),
                "{files}"
            );
            for part in *parts {
                assert!(
                    pages.iter().any(|page| page.starts_with(part)),
                    "{files}: {part}"
                );
            }
        }
    }
}
