//! Judges faults by the cases that come past them: a fault is switched on and off in a file that servers share, and the same file tells
//! which faults a case came past. Cases that are one request go to servers that run on, so that they cost an answer and no start; then
//! exchanges and commands, each with a server of its own, and of them last those that wait on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conformance::runner::Orders;
use conformance::runner::asker::Asker;
use conformance::runner::start::{Over, Target};
use conformance::suite::{Case, CaseBody, Suite, page_name};
use conformance::target::Patience;
use conformance::target::claims::Claims;
use conformance::target::launch::Launch;
use conformance::target::reference::{BINARY, TESTEE, command};
use conformance::verdict::Verdict;

use super::faults::{MAP_BYTES, MARKS};

/// How long an answer may take, with a fault.
const PATIENCE: Duration = Duration::from_secs(6);

/// The file through which faults are switched on, and tell that they were asked for.
pub struct Map(File);

impl Map {
    /// A new file, in which no fault is on and none was asked for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(path: &Path) -> Result<Self, String> {
        let _absent = crate::written::remove(path);
        let told = |error| format!("{}: {error}", path.display());
        crate::written::file(path, vec![0; MAP_BYTES]).map_err(told)?;
        let file = File::options().read(true).write(true).open(path);
        file.map(Self).map_err(told)
    }

    /// Switches a fault on; 0 is none.
    fn switch(&self, fault: u32) -> Result<(), String> {
        let mut file = &self.0;
        let written = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&fault.to_ne_bytes()));
        written.map_err(|error| format!("the switch of faults: {error}"))
    }

    /// The faults that were asked for since the last time.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn asked(&self) -> Result<Vec<u32>, String> {
        let mut marks = vec![0; MAP_BYTES - MARKS];
        let none = vec![0; marks.len()];
        let (mut file, start) = (&self.0, SeekFrom::Start(MARKS as u64));
        file.seek(start)
            .and_then(|_| file.read_exact(&mut marks))
            .and_then(|()| file.seek(start))
            .and_then(|_| file.write_all(&none))
            .map_err(|error| format!("the marks of faults: {error}"))?;
        let marked = (0..).zip(marks).filter(|(_, mark)| *mark != 0);
        Ok(marked.map(|(id, _)| id).collect())
    }
}

/// A fault that is to be judged.
pub struct Suspect<'a> {
    pub id: u32,
    pub file: &'a str,
    /// Cases that hold these are likelier to tell of it.
    pub words: Vec<String>,
    /// Whether people read it, and gave up on it.
    pub is_read: bool,
}

/// Servers that run on, and which case comes past which fault.
pub struct Quick {
    runtime: tokio::runtime::Runtime,
    suite: Arc<Suite>,
    asker: Asker,
    map: Map,
    reached: BTreeMap<u32, Vec<usize>>,
    /// Which of its page a case is, those that come past the fewest faults first.
    turns: BTreeMap<usize, usize>,
    /// What each case says, in its id and below it.
    texts: Vec<String>,
    /// Whether all cases judge, however many.
    whole: bool,
}

/// Cases that are one request that judge a fault at most.
const REQUESTS_MAX: usize = 4000;
/// Cases with a server of their own that judge a fault at most, those of all pages in turn: what every start comes past would be judged
/// by all of them.
const ALONE_MAX: usize = 250;
/// Of a fault that people read and gave up on, so much less is asked.
const READ_SHARE: usize = 10;
/// Cases that wait on purpose that judge a fault at most.
const WAITING_MAX: usize = 30;
/// Which pages speak of a file, by the beginning of its path: the first row that fits. All of their cases that come past a fault judge
/// it, however many, unless people gave up on it.
const ROOMS: &[(&str, &[&str])] = &[
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

impl Quick {
    /// Tries every case without any fault, and sees what each comes past. What was seen is kept in the file `seen`: the next run
    /// tries what is new. `whole`: however many cases come past a fault, all judge it.
    ///
    /// # Errors
    /// When what was seen cannot be kept.
    pub fn begin(
        suite: Suite,
        script: &Path,
        map: Map,
        seen: &Path,
        whole: bool,
    ) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let word = script.to_string_lossy().into_owned();
        let suite = Arc::new(suite);
        let launch = Launch {
            programs: BTreeMap::from([(BINARY.to_owned(), vec![word.clone()])]),
            testee: vec![word, TESTEE.to_owned()],
            ..Launch::default()
        };
        let orders = Orders {
            target: Target::Command {
                argv: command(script),
                over: Over::Stdio,
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
        let asker = Asker::new(Arc::clone(&suite), orders);
        let mut quick = Self {
            runtime,
            suite,
            asker,
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
        for place in 0..quick.suite.cases.len() {
            let case = &quick.suite.cases[place];
            let judges = !matches!(case.body, CaseBody::Fixture(_)) && !case.is_open();
            if !judges || kept.contains_key(&case.id) {
                continue;
            }
            let id = case.id.clone();
            let _before = quick.map.asked()?;
            // A case that fails without a fault judges none.
            let faults = match quick.passes(place) {
                true => quick.map.asked()?,
                false => Vec::new(),
            };
            kept.insert(id, faults);
            tried += 1;
            if tried % 500 == 0 {
                keep(seen, &kept)?;
            }
        }
        keep(seen, &kept)?;
        // Of each page those that come past the fewest faults first, and of all pages in turn.
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (place, case) in quick.suite.cases.iter().enumerate() {
            order.push((kept.get(&case.id).map_or(0, Vec::len), place));
        }
        order.sort_unstable();
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        for (_, place) in order {
            let case = &quick.suite.cases[place];
            let turn = turns.entry(page_name(case)).or_default();
            *turn += 1;
            quick.turns.insert(place, *turn);
            for id in kept.get(&case.id).into_iter().flatten() {
                quick.reached.entry(*id).or_default().push(place);
            }
        }
        Ok(quick)
    }

    /// Whether a server comes past a fault once for all that it is asked: as it starts, or where it makes what it keeps. Any case may tell
    /// of such a fault, and only the one that came first was seen to come past it.
    fn is_met_once(&mut self, fault: u32) -> Result<bool, String> {
        /// Cases that are asked: what is made once for each of several things is met again by some.
        const ASKED: usize = 3;
        let places = self.reached.get(&fault).into_iter().flatten().copied();
        let is_request = |place: &usize| Cost::of(&self.suite.cases[*place]) == Cost::Request;
        let places: Vec<usize> = places.filter(is_request).take(ASKED).collect();
        for place in places {
            self.runtime.block_on(self.asker.end());
            let _first = self.passes(place);
            let _before = self.map.asked()?;
            let _again = self.passes(place);
            if !self.map.asked()?.contains(&fault) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The cases that judge a fault: the cheap ones first, of these the ones that speak of it.
    fn judges(&self, fault: &Suspect, met_once: bool) -> Vec<usize> {
        let reached = self.reached.get(&fault.id).cloned().unwrap_or_default();
        let room = ROOMS
            .iter()
            .find(|(beginning, _)| fault.file.starts_with(beginning))
            .map_or(&[][..], |(_, pages)| pages);
        let page = |place: &usize| page_name(&self.suite.cases[*place]);
        // Those of the pages for which a server was started that came past it are the likeliest to tell.
        let pages: BTreeSet<String> = reached.iter().map(page).collect();
        let mut places = match met_once {
            true => (0..self.suite.cases.len())
                .filter(|place| self.turns.contains_key(place))
                .collect(),
            false => reached,
        };
        places.sort_by_cached_key(|place| {
            let said = fault
                .words
                .iter()
                .filter(|word| self.texts[*place].contains(word.as_str()));
            (
                Cost::of(&self.suite.cases[*place]),
                !pages.contains(&page(place)),
                std::cmp::Reverse(said.count()),
                self.turns[place],
            )
        });
        let mut counts: BTreeMap<Cost, usize> = BTreeMap::new();
        places.retain(|place| {
            let page = page(place);
            if self.whole || !fault.is_read && room.iter().any(|part| page.starts_with(part)) {
                return true;
            }
            let cost = Cost::of(&self.suite.cases[*place]);
            let count = counts.entry(cost).or_default();
            *count += 1;
            *count <= cost.cases_max() / if fault.is_read { READ_SHARE } else { 1 }
        });
        places
    }

    /// How many cases judge.
    pub fn cases(&self) -> usize {
        let mut places: Vec<usize> = self.reached.values().flatten().copied().collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    }

    /// The case that fails with a fault and passes without it.
    ///
    /// # Errors
    /// When a server cannot be asked any more.
    pub fn judge(&mut self, fault: &Suspect) -> Result<Option<String>, String> {
        /// Cases that fail in the company of others alone, after which that is believed: what a fault leaves behind adds up.
        const COMPANY_MAX: usize = 2;
        let mut in_company = 0;
        let met_once = self.is_met_once(fault.id)?;
        // What is made once is made with the fault.
        self.runtime.block_on(self.asker.end());
        for place in self.judges(fault, met_once) {
            self.map.switch(fault.id)?;
            if self.passes(place) {
                continue;
            }
            // What the fault left behind in the server is nobody else's.
            self.runtime.block_on(self.asker.end());
            self.map.switch(0)?;
            let without = self.passes(place);
            // What is made once is made with the fault again.
            self.runtime.block_on(self.asker.end());
            self.map.switch(fault.id)?;
            let with = self.passes(place);
            self.runtime.block_on(self.asker.end());
            in_company += usize::from(without);
            if without && (!with || in_company > COMPANY_MAX) {
                self.map.switch(0)?;
                self.runtime.block_on(self.asker.end());
                return Ok(Some(self.suite.cases[place].id.clone()));
            }
        }
        self.map.switch(0)?;
        self.runtime.block_on(self.asker.end());
        Ok(None)
    }

    /// A server that cannot even be asked passes nothing.
    fn passes(&mut self, place: usize) -> bool {
        let trial = self.runtime.block_on(self.asker.ask(place));
        trial.is_ok_and(|trial| matches!(trial.verdict, Verdict::Pass { .. }))
    }
}

/// What a case costs, the cheapest first.
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

    /// How many of such cases judge a fault.
    fn cases_max(self) -> usize {
        match self {
            Self::Request => REQUESTS_MAX,
            Self::Server => ALONE_MAX,
            Self::Wait => WAITING_MAX,
        }
    }
}

fn keep(path: &Path, kept: &BTreeMap<String, Vec<u32>>) -> Result<(), String> {
    let text = serde_json::to_vec(kept).map_err(|error| error.to_string())?;
    crate::written::file(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Drop for Quick {
    fn drop(&mut self) {
        self.runtime.block_on(self.asker.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that nothing fits any more would let its room's faults pass.
    #[test]
    fn every_room_is_there_and_has_its_pages() {
        let suite = crate::suite().expect("the specification");
        let pages: BTreeSet<String> = suite.cases.iter().map(page_name).collect();
        for (files, parts) in ROOMS {
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
