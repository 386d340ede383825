//! The suite as data: sections, clauses, cases, and what each case does and expects. Everything
//! else depends on this model: the fixture parser and the bundle reader build a [`Suite`], the runner walks
//! it, the judge compares against its patterns. Knows nothing of Markdown, processes or verdicts.
//!
//! Shape:
//! ```text
//! Suite
//! ├─ sections: Section { id "strings.join", title, file, line, prose }
//! ├─ clauses:  Clause  { id "strings.join.nil", level MUST|SHOULD|MAY, sentence, section }
//! └─ cases:    Case    { id "strings.join.nil/3f2a9c01", clauses, section, file, line,
//!                        target: TargetSpec   how the server under test must be started
//!                        body:   Clj | Wire | Http | Call | Cli | Fixture }
//! ```
//! The bundle (`cargo tool export`) is this model as JSON; see [`bundle`].

// This model is public: its documentation gives units, shapes and errors.
#![warn(missing_docs)]

pub mod bundle;
mod case;
mod encoding;
mod finding;
mod pattern;
mod select;
mod target;
mod text;
mod waiting;

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Prefix of the names of values that a survey of the server provides: `{{mcp.tool}}`.
pub const SURVEY_PREFIX: &str = "mcp.";

pub use self::case::{
    BLOCK_KINDS, BlockKind, BodyExpect, CallCase, CallExpect, Case, CaseBody, CliCase, CliExpect,
    CljCase, Control, ExpectLine, FileExpect, FixtureCase, FixtureExpect, HeaderExpect, HttpAction,
    HttpCase, HttpRequest, HttpResponse, HttpStep, LineMatch, MessageExpect, Outcome,
    ProgramExpect, Raised, Reason, Received, Returned, WireAction, WireCase, WireStep,
};
pub use self::encoding::EncodingError;
pub use self::finding::{FINDINGS, finding};
pub use self::pattern::{Hole, HoleKind, Pattern};
pub use self::select::{Selector, SelectorError, nearest, page_name};
pub use self::target::{TargetSpec, Transport};
pub use self::text::{CaptureForm, Captures, ExpandError, Part, TEXT_BYTES_MAX, Text};

/// The whole suite, in the order of its files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// The headings that have an id.
    pub sections: Vec<Section>,
    /// The normative sentences.
    pub clauses: Vec<Clause>,
    /// The cases; their ids are unique.
    pub cases: Vec<Case>,
}

/// A heading with an id, and the text below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// Dotted id, as in `## join {#strings.join}`.
    pub id: String,
    /// The heading without its id.
    pub title: String,
    /// Path relative to the suite's root, with forward slashes.
    pub file: String,
    /// Line of the heading, from 1.
    pub line: u32,
    /// The Markdown between this heading and the next one, without case blocks and case tables.
    pub prose: String,
}

/// A normative sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clause {
    /// Dotted id, as in `- {#strings.join.nil} …`.
    pub id: String,
    /// How binding the sentence is.
    pub level: Level,
    /// The sentence, one line of Markdown.
    pub sentence: String,
    /// Id of the section that contains it; empty above the first heading with an id.
    pub section: String,
    /// Path relative to the suite's root.
    pub file: String,
    /// Line of the sentence, from 1.
    pub line: u32,
    /// Why no case can test it (`{#id untested: reason}`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// Capabilities that the clause's cases require of a target (`{#id requires: capability}`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<String>,
}

/// How binding a clause is: the strongest of these words in its sentence, or MUST if it has none.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Level {
    /// Optional behaviour.
    #[serde(rename = "MAY")]
    May,
    /// A failure is a warning, unless the run is strict.
    #[serde(rename = "SHOULD")]
    Should,
    /// A failure fails the run.
    #[serde(rename = "MUST")]
    Must,
}

impl Level {
    /// The word as a clause spells it.
    pub const fn word(self) -> &'static str {
        match self {
            Level::May => "MAY",
            Level::Should => "SHOULD",
            Level::Must => "MUST",
        }
    }
}

impl Suite {
    /// Sets each case's page to the one that declares its section; a case in a corpus file is stored elsewhere.
    pub(crate) fn find_pages(&mut self) {
        let sections = self.sections.iter();
        let pages: HashMap<&str, &str> = sections
            .map(|section| (section.id.as_str(), section.file.as_str()))
            .collect();
        for case in &mut self.cases {
            if let Some(page) = pages.get(case.section.as_str()) {
                case.page = (*page).to_owned();
            }
        }
    }

    /// Adds to each case the capabilities that its clauses require, in whichever file they are declared.
    pub(crate) fn inherit_requirements(&mut self) {
        let clauses = self.clauses.iter();
        let required: HashMap<&str, &BTreeSet<String>> = clauses
            .filter(|clause| !clause.requires.is_empty())
            .map(|clause| (clause.id.as_str(), &clause.requires))
            .collect();
        for case in &mut self.cases {
            for requires in case
                .clauses
                .iter()
                .filter_map(|id| required.get(id.as_str()))
            {
                case.target.requires.extend(requires.iter().cloned());
            }
        }
    }

    /// Sixteen hexadecimal digits that tell this suite from any other, whether it was read from pages or from a bundle.
    pub fn digest(&self) -> String {
        let mut digest = Digest::default();
        serde_json::to_writer(&mut digest, self)
            .expect("a suite is plain JSON, and a digest takes every byte");
        format!("{:016x}", digest.finish())
    }

    /// The case with this id.
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// The clause with this id.
    pub fn clause(&self, id: &str) -> Option<&Clause> {
        self.clauses.iter().find(|clause| clause.id == id)
    }

    /// The section with this id.
    pub fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// The sentence that a case tests: that of its first clause, or else the title of its section.
    pub fn sentence<'s>(&'s self, case: &'s Case) -> &'s str {
        let clause = case.clauses.first().and_then(|id| self.clause(id));
        clause
            .map(|clause| clause.sentence.as_str())
            .or_else(|| {
                self.section(&case.section)
                    .map(|section| section.title.as_str())
            })
            .unwrap_or(&case.section)
    }

    /// How binding a case is: the level of its first clause; a case that belongs to a section only is a
    /// MUST.
    pub fn level(&self, case: &Case) -> Level {
        let clause = case.clauses.first().and_then(|id| self.clause(id));
        clause.map_or(Level::Must, |clause| clause.level)
    }

    /// Clauses that no case tests and that give no reason for it.
    pub fn untested(&self) -> Vec<&Clause> {
        let tested: HashSet<&str> = self
            .cases
            .iter()
            .flat_map(|case| &case.clauses)
            .map(String::as_str)
            .collect();
        let silent =
            |clause: &&Clause| clause.untested.is_none() && !tested.contains(clause.id.as_str());
        self.clauses.iter().filter(silent).collect()
    }

    /// Inconsistencies within the suite: duplicate ids, and references to ids that are not declared.
    pub fn faults(&self) -> Vec<SuiteFault> {
        let mut faults = self.duplicates();
        faults.extend(self.dangling_references());
        faults
    }

    /// Ids that are used more than once.
    pub fn duplicates(&self) -> Vec<SuiteFault> {
        let mut faults = Vec::new();
        let mut anchors: HashMap<&str, (&str, u32)> = HashMap::new();
        let sections = self
            .sections
            .iter()
            .map(|section| (&section.id, &section.file, section.line));
        let clauses = self
            .clauses
            .iter()
            .map(|clause| (&clause.id, &clause.file, clause.line));
        for (id, file, line) in sections.chain(clauses) {
            if let Some((first_file, first_line)) = anchors.insert(id, (file, line)) {
                let message = format!(
                    "expected an id of its own, but {id} is declared at {first_file}:{first_line}"
                );
                faults.push(SuiteFault {
                    file: file.clone(),
                    line,
                    message,
                });
            }
        }
        let mut cases: HashMap<&str, (&str, u32)> = HashMap::new();
        for case in &self.cases {
            if let Some((file, line)) = cases.insert(&case.id, (&case.file, case.line)) {
                let message = format!(
                    "expected a case of its own, but {} stands at {file}:{line}; if both are meant, name one",
                    case.id
                );
                faults.push(SuiteFault {
                    file: case.file.clone(),
                    line: case.line,
                    message,
                });
            }
        }
        faults
    }

    /// Cases that refer to an id that no heading or clause declares.
    fn dangling_references(&self) -> Vec<SuiteFault> {
        let sections = self.sections.iter().map(|section| section.id.as_str());
        let declared: HashSet<&str> = sections
            .chain(self.clauses.iter().map(|clause| clause.id.as_str()))
            .collect();
        let mut faults = Vec::new();
        for case in &self.cases {
            for id in case
                .clauses
                .iter()
                .chain([&case.section])
                .filter(|id| !id.is_empty())
            {
                if !declared.contains(id.as_str()) {
                    let message =
                        format!("expected a heading or a clause with the id {id}, found none");
                    faults.push(SuiteFault {
                        file: case.file.clone(),
                        line: case.line,
                        message,
                    });
                }
            }
        }
        faults
    }
}

/// An inconsistency within a suite, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteFault {
    /// Path relative to the suite's root.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What was expected and what was found.
    pub message: String,
}
