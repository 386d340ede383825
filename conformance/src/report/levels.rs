//! The levels that an implementation can reach, in a possible order of implementation. Knows the names of the specification's pages, and
//! the record.

use serde_json::json;

use super::{Run, Status};

/// A part of the specification that has a badge of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConformanceLevel {
    /// Its name in badges and tables.
    pub name: &'static str,
    /// What an implementation of it does, as a verb phrase.
    pub means: &'static str,
    /// Its pages: exact names, or names that end with a dot for all pages below.
    pub pages: &'static [&'static str],
}

/// The level of any MCP server.
const MCP: &str = "MCP";

/// Every level, in a possible order of implementation: each needs only those above it.
pub const LEVELS: &[ConformanceLevel] = &[
    ConformanceLevel {
        name: MCP,
        means: "does what the Model Context Protocol asks of any server: messages, lifecycle, transports, and what it declares of tools, resources, prompts and utilities",
        pages: &["base."],
    },
    ConformanceLevel {
        name: "language core",
        means: "reads, evaluates and prints programs: reader, special forms, names, errors, limits",
        pages: &[
            "divergences.",
            "lang.absent",
            "lang.control",
            "lang.destructuring",
            "lang.errors",
            "lang.forms",
            "lang.limits",
            "lang.names",
            "lang.parallel",
            "lang.printing",
            "lang.reader",
        ],
    },
    ConformanceLevel {
        name: "library",
        means: "has the functions of the language",
        pages: &["lib."],
    },
    ConformanceLevel {
        name: "wire format",
        means: "renders and validates payloads, schemas and signatures as a library",
        pages: &["protocol."],
    },
    ConformanceLevel {
        name: "stdio",
        means: "offers `lisp_eval` over standard streams: framing, lifecycle, profiles, settings, concurrency",
        pages: &[
            "mcp.concurrency",
            "mcp.dispatch",
            "mcp.framing",
            "mcp.isolation",
            "mcp.lifecycle",
            "mcp.limits",
            "mcp.lisp_eval",
            "mcp.profiles",
            "mcp.settings",
        ],
    },
    ConformanceLevel {
        name: "HTTP",
        means: "offers it over Streamable HTTP: tokens, origins, protocol sessions, draining",
        pages: &["mcp.http", "mcp.metrics", "mcp.security", "mcp.stateless"],
    },
    ConformanceLevel {
        name: "sessions",
        means: "keeps definitions between programs, and tells what it ran",
        pages: &["mcp.sessions", "mcp.session_store", "mcp.debug"],
    },
    ConformanceLevel {
        name: "aggregator",
        means: "lets programs call upstream servers: catalog, discovery, calls, faults, redaction",
        pages: &["upstream.", "lang.discovery"],
    },
    ConformanceLevel {
        name: "agent",
        means: "runs models that write programs",
        pages: &["agent.", "lang.tasks"],
    },
];

/// The results of a run for a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelResult {
    pub level: &'static ConformanceLevel,
    pub passed: usize,
    /// Cases that failed, whether or not that was expected.
    pub failed: usize,
    /// Cases that the target doesn't claim.
    pub unclaimed: usize,
    /// Cases that were not run, or are unobservable on this target.
    pub unseen: usize,
    /// Whether only a part of the suite was run, which reaches no level.
    pub partial: bool,
}

impl LevelResult {
    /// Whether the whole suite was run, at least one of the level's cases was judged, and all judged ones passed.
    pub fn is_reached(&self) -> bool {
        !self.partial && self.failed == 0 && self.passed > 0
    }

    /// The text that tables and badges print.
    pub fn words(&self) -> String {
        let of = self.passed + self.failed;
        let share = format!("{}/{of}", self.passed);
        match (self.is_reached(), self.unclaimed) {
            (true, 0) => format!("reached, {share}"),
            (true, unclaimed) => format!("reached in part, {share}, {unclaimed} not claimed"),
            (false, _) if of == 0 => "not shown".to_owned(),
            (false, _) if self.failed == 0 => format!("passed in the part that was run, {share}"),
            (false, _) => format!("not reached, {share}"),
        }
    }
}

impl ConformanceLevel {
    /// Whether a page belongs to it.
    pub fn holds(&self, page: &str) -> bool {
        self.pages.iter().any(|own| match own.strip_suffix('.') {
            Some(_) => page.starts_with(own),
            None => page == *own,
        })
    }
}

/// The subject of the run: `MCP` if it contains only cases for any MCP server, otherwise `PTC-Lisp`.
pub fn run_subject(run: &Run) -> &'static str {
    let of_mcp = |page: &str| LEVELS[0].holds(page);
    let any_server = !run.cases.is_empty() && run.cases.iter().all(|case| of_mcp(&case.page));
    if any_server { MCP } else { "PTC-Lisp" }
}

/// The results for each level; if the subject of the run is MCP, for that level only.
pub fn level_results(run: &Run) -> Vec<LevelResult> {
    let of = |level: &'static ConformanceLevel| {
        let mut standing = LevelResult {
            level,
            passed: 0,
            failed: 0,
            unclaimed: 0,
            unseen: 0,
            partial: run.partial,
        };
        for case in run.cases.iter().filter(|case| level.holds(&case.page)) {
            match case.status {
                Status::Pass => standing.passed += 1,
                Status::Fail | Status::Flaky | Status::ExpectedFailure => standing.failed += 1,
                Status::NotClaimed => standing.unclaimed += 1,
                Status::Unobservable | Status::NotRun => standing.unseen += 1,
                // A failed SHOULD does not prevent a level from being reached.
                Status::Warning | Status::SelfCheck => {}
            }
        }
        standing
    };
    let shown = if run_subject(run) == MCP {
        1
    } else {
        LEVELS.len()
    };
    LEVELS[..shown].iter().map(of).collect()
}

/// The badges of all levels by name, each in the format of a shields.io endpoint.
pub fn badges(run: &Run) -> String {
    let of = |standing: &LevelResult| {
        let color = match (standing.is_reached(), standing.unclaimed) {
            (true, 0) => "brightgreen",
            (true, _) => "yellow",
            (false, _) if standing.failed == 0 => "lightgrey",
            (false, _) => "red",
        };
        let badge = json!({
            "schemaVersion": 1,
            "label": match standing.level.name {
                MCP => format!("{MCP} conformance"),
                name => format!("PTC-Lisp {name}"),
            },
            "message": standing.words(),
            "color": color,
        });
        (standing.level.name.to_owned(), badge)
    };
    let all: serde_json::Map<_, _> = level_results(run).iter().map(of).collect();
    format!("{}\n", serde_json::Value::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_run_mentions_only_the_mcp_level() {
        let case = |page: &str| crate::report::CaseRecord {
            page: page.to_owned(),
            ..crate::report::CaseRecord::default()
        };
        let mut run = Run {
            format: crate::report::FORMAT,
            harness: String::new(),
            target: String::new(),
            server: None,
            suite_cases: 3,
            suite_digest: None,
            partial: false,
            interrupted: false,
            strict: false,
            duration_ms: 1,
            cases: vec![case("base.http"), case("base.tools")],
            complaints: Vec::new(),
        };
        assert_eq!((run_subject(&run), level_results(&run).len()), (MCP, 1));
        run.cases.push(case("mcp.http"));
        assert_eq!(run_subject(&run), "PTC-Lisp");
        assert_eq!(level_results(&run).len(), LEVELS.len());
        run.cases.clear();
        assert_eq!(run_subject(&run), "PTC-Lisp");
    }

    #[test]
    fn every_page_belongs_to_one_level() {
        let suite = crate::fixture::embedded().expect("the specification can be read");
        let pages: std::collections::BTreeSet<String> = suite
            .cases
            .iter()
            .map(crate::suite::page_name)
            .filter(|page| page != "README")
            .collect();
        assert!(pages.len() > 40, "{pages:?}");
        for page in pages {
            let levels = LEVELS.iter().filter(|level| level.holds(&page));
            assert_eq!(levels.count(), 1, "{page}");
        }
    }
}
