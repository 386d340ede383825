//! A target's claims. A case that it does not claim is reported as not claimed, never as passed.
//! Knows nothing of what cases do; what a tool or operation implies is a table in `capability`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::capability::{CAPABILITIES, DetectionRule, LISP_RUN, OUTPUT_SCHEMA, is_extension};
use super::link::{Evaluation, Link, NUMBERS, parse_result};
use super::{Patience, fault::Fault, program};
use crate::files::{self, FileError};
use crate::json::Json;
use crate::observed::{ProgramOutcome, ProgramRun};
use crate::suite::{Case, Selector, SelectorError, Suite};

/// A declaration, as in the file given to `--claims`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declaration {
    /// Capabilities that the target implements. Absent: all.
    pub implements: Option<BTreeSet<String>>,
    /// Capabilities that it does not implement.
    pub lacks: BTreeSet<String>,
    /// Additional capabilities, of those that are off by default.
    pub extensions: BTreeSet<String>,
    /// Cases, clauses or sections that it claims, as globs over their ids. Absent: all.
    pub cases: Option<Vec<String>>,
    /// Cases, clauses or sections that it does not claim.
    pub not_cases: Vec<String>,
}

/// A compiled declaration, completed by what was observed of the target. The default claims everything except
/// extensions.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    implements: Option<BTreeSet<String>>,
    lacks: BTreeSet<String>,
    extensions: BTreeSet<String>,
    cases: Option<Vec<Selector>>,
    not_cases: Vec<Selector>,
    operations: BTreeSet<String>,
}

/// Why a declaration is unusable: a typo would leave out every case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    #[error("no extension is called `{word}`; there are {known}")]
    NoExtension {
        word: String,
        /// Those that there are.
        known: String,
    },
    #[error(
        "no case needs `{word}`; capabilities are {known} (`ptc-conformance capabilities` says what each means)"
    )]
    NoCapability {
        word: String,
        /// Those that there are.
        known: String,
    },
    #[error("`{glob}` is not a glob: {error}")]
    NoGlob { glob: String, error: SelectorError },
    /// A glob that selects nothing.
    #[error(transparent)]
    NoMatch(SelectorError),
    #[error(
        "`{member}` is empty, so that nothing would be tested: write {wanted}, or leave `{member}` out to claim everything"
    )]
    Empty {
        member: &'static str,
        /// What to write in it.
        wanted: &'static str,
    },
}

impl Declaration {
    /// Reads a declaration.
    ///
    /// # Errors
    /// When the file can't be read or is not a declaration.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        files::read_toml(path)
    }

    /// Compiles the declaration.
    ///
    /// # Errors
    /// When it claims nothing, or has an invalid glob, or a word that is not a capability.
    pub fn claims(&self, suite: &Suite) -> Result<Claims, ClaimsError> {
        self.check_not_empty()?;
        let needed = suite.cases.iter().flat_map(Case::needs);
        let names = CAPABILITIES.iter().map(|row| row.name);
        let known: BTreeSet<&str> = names.chain(needed).collect();
        let mut extensions = known.iter().filter(|word| is_extension(word));
        if let Some(word) = self
            .extensions
            .iter()
            .find(|word| !extensions.clone().any(|known| known == word))
        {
            let known: Vec<&str> = extensions.by_ref().copied().collect();
            return Err(ClaimsError::NoExtension {
                word: word.clone(),
                known: known.join(", "),
            });
        }
        let mut words = self.implements.iter().flatten().chain(&self.lacks);
        if let Some(word) = words.find(|word| !known.contains(word.as_str())) {
            return Err(ClaimsError::NoCapability {
                word: word.clone(),
                known: Vec::from_iter(known).join(", "),
            });
        }
        let selector = |text: &String| {
            Selector::new(text).map_err(|error| ClaimsError::NoGlob {
                glob: text.clone(),
                error,
            })
        };
        let globs = |globs: &[String]| -> Result<Vec<Selector>, ClaimsError> {
            let globs: Vec<Selector> = globs.iter().map(selector).collect::<Result<_, _>>()?;
            globs
                .iter()
                .try_for_each(|glob| glob.check_matches(suite))
                .map_err(ClaimsError::NoMatch)?;
            Ok(globs)
        };
        Ok(Claims {
            implements: self.implements.clone(),
            lacks: self.lacks.clone(),
            extensions: self.extensions.clone(),
            cases: self.cases.as_deref().map(globs).transpose()?,
            not_cases: globs(&self.not_cases)?,
            operations: BTreeSet::new(),
        })
    }

    fn check_not_empty(&self) -> Result<(), ClaimsError> {
        let implements = self.implements.as_ref().map(BTreeSet::is_empty);
        let cases = self.cases.as_ref().map(Vec::is_empty);
        let (member, wanted) = match (implements, cases) {
            // Extensions may be all that is implemented.
            (Some(true), _) if self.extensions.is_empty() => (
                "implements",
                "the capabilities that the target has (`ptc-conformance capabilities` lists them)",
            ),
            (_, Some(true)) => (
                "cases",
                "the cases, clauses or pages that the target claims",
            ),
            _ => return Ok(()),
        };
        Err(ClaimsError::Empty { member, wanted })
    }
}

impl Claims {
    /// What a case needs and the target does not claim, if anything: a noun phrase.
    pub fn refusal<'a>(
        &self,
        case: &Case,
        needs: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let listed = self.cases.as_ref();
        let claimed = listed.is_none_or(|globs| globs.iter().any(|glob| glob.selects(case)));
        if !claimed || self.not_cases.iter().any(|glob| glob.selects(case)) {
            return Some(
                "a declaration that claims this case: `cases` or `not_cases` leaves it out"
                    .to_owned(),
            );
        }
        needs
            .into_iter()
            .find(|need| !self.has(need))
            .map(|need| format!("`{need}`"))
    }

    /// Adds the capabilities that a survey of the server found. What was declared is kept.
    pub fn add_surveyed(&mut self, capabilities: impl IntoIterator<Item = String>) {
        self.extensions.extend(capabilities);
    }

    /// The reference's claims: everything except what a survey finds.
    pub fn everything() -> Self {
        Self {
            extensions: CAPABILITIES
                .iter()
                .filter(|row| is_extension(row.name) && row.known != DetectionRule::Surveyed)
                .map(|row| row.name.to_owned())
                .collect(),
            ..Self::default()
        }
    }

    /// Whether the target claims a capability.
    pub fn has(&self, capability: &str) -> bool {
        let named = self
            .implements
            .as_ref()
            .map(|implements| implements.contains(capability));
        let has = if is_extension(capability) {
            self.extensions.contains(capability) || named == Some(true)
        } else {
            named != Some(false)
        };
        has && !self.lacks.contains(capability)
    }

    /// Adds what `tools/list`, or a testee's `capabilities`, shows. What was declared is kept. `restartable` means that
    /// the server could list other tools if it were started with other flags.
    ///
    /// # Errors
    /// When the target gives no usable answer.
    pub async fn probe(
        &mut self,
        link: &Link,
        restartable: bool,
        patience: Patience,
    ) -> Result<(), Fault> {
        let asked = if link.is_testee() {
            link.operation("capabilities", "{}", patience.start).await
        } else {
            link.call("tools/list", None, patience.start).await
        };
        let answer = asked.map_err(|failed| failed.0)?;
        if link.is_testee() {
            let operations = operations(&answer.received).ok_or_else(|| Fault::Malformed {
                expected: "`{\"id\":…,\"ok\":{\"ops\":[…]}}`".to_owned(),
                line: answer.received.clone(),
            })?;
            if !operations.contains(LISP_RUN) {
                self.lacks.insert(LISP_RUN.to_owned());
            }
            self.operations = operations;
            return Ok(());
        }
        let tools = tools(&answer.received).ok_or_else(|| Fault::Malformed {
            expected: "a `tools/list` result".to_owned(),
            line: answer.received.clone(),
        })?;
        for row in CAPABILITIES {
            let lacking = match row.known {
                // A server that the harness starts may list more tools when flags enable them.
                DetectionRule::Tool(tool) => {
                    let conclusive = row.name == LISP_RUN || !restartable;
                    conclusive && !tools.contains_key(tool)
                }
                DetectionRule::Argument(argument) => tools
                    .get(EVAL)
                    .is_some_and(|arguments| !arguments.contains(argument)),
                DetectionRule::Answered(method) => {
                    let asked = link.call(method, Some(DISCOVERY), patience.reply).await;
                    if asked.is_ok_and(|answer| parse_result(&answer.received).is_some()) {
                        self.extensions.insert(row.name.to_owned());
                    }
                    false
                }
                DetectionRule::Numbers => {
                    if self.has(OUTPUT_SCHEMA) && keeps_numbers(link, patience).await {
                        self.extensions.insert(row.name.to_owned());
                    }
                    false
                }
                DetectionRule::Reached
                | DetectionRule::Granted
                | DetectionRule::Declared
                | DetectionRule::Surveyed => false,
            };
            if lacking {
                self.lacks.insert(row.name.to_owned());
            }
        }
        Ok(())
    }

    /// The operations that a testee offers; empty for a server.
    pub fn operations(&self) -> &BTreeSet<String> {
        &self.operations
    }
}

/// The tool that runs programs.
const EVAL: &str = "lisp_eval";

/// The params of a request in the stateless revision.
const DISCOVERY: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;

/// Whether numbers come back as they are, and not as the nearest doubles.
async fn keeps_numbers(link: &Link, patience: Patience) -> bool {
    let asked = link.eval(&Evaluation::numbers(), patience.start).await;
    let run = asked.map(|answer| program::from_tool_result(&answer.received, true));
    let Ok(Ok(ProgramRun { outcome, .. })) = run else {
        return false;
    };
    match outcome {
        ProgramOutcome::Returned { json, .. } => json.flatten() == Json::parse(NUMBERS.1).ok(),
        ProgramOutcome::Raised { .. } => false,
    }
}

fn operations(line: &str) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Reply {
        ok: Ok,
    }
    #[derive(Deserialize)]
    struct Ok {
        ops: BTreeSet<String>,
    }
    serde_json::from_str::<Reply>(line)
        .ok()
        .map(|reply| reply.ok.ops)
}

/// The tools that a server lists, with the names of their arguments.
fn tools(line: &str) -> Option<BTreeMap<String, BTreeSet<String>>> {
    #[derive(Deserialize)]
    struct Listing {
        tools: Vec<Tool>,
    }
    #[derive(Deserialize)]
    struct Tool {
        name: String,
        #[serde(default, rename = "inputSchema")]
        input: Input,
    }
    #[derive(Default, Deserialize)]
    struct Input {
        #[serde(default)]
        properties: BTreeMap<String, serde_json::Value>,
    }
    let listing: Listing = serde_json::from_value(parse_result(line)?).ok()?;
    let named = |tool: Tool| (tool.name, tool.input.properties.into_keys().collect());
    Some(listing.tools.into_iter().map(named).collect())
}
