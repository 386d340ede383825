//! What a target says that it implements. What it does not claim is reported as not claimed, never as passed.
//! Knows nothing of what cases do; what a tool or operation implies is a table here.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use super::link::{Link, result_of};
use super::{Patience, fault::Fault};
use crate::suite::{Case, Selector, Suite};

/// The capability that each tool of `tools/list` shows.
const TOOL_CAPABILITIES: &[(&str, &str)] = &[
    ("lisp_eval", LISP_RUN),
    ("lisp_debug", "debug"),
    ("lisp_session_eval", "sessions"),
    ("lisp_task", "agentic"),
];

/// The capabilities that cases need by their kind, whether or not the suite at hand has such cases.
const KINDS: &[&str] = &[LISP_RUN, "stdio", "http", "cli", "testee"];

/// What a later revision adds to the language. A target has none of them unless it says so: a server of an earlier
/// revision is right without.
pub const EXTENSIONS: &[&str] = &["lang-1.1"];

/// Running programs at all.
const LISP_RUN: &str = "lisp_run";

/// A declaration, as `--claims FILE` gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declaration {
    /// Capabilities that the target implements. Absent: all.
    pub implements: Option<BTreeSet<String>>,
    /// Capabilities that it does not.
    pub lacks: BTreeSet<String>,
    /// Extensions of the language that it has besides.
    pub extensions: BTreeSet<String>,
    /// Cases, clauses or sections that it claims, as globs over their ids. Absent: all.
    pub cases: Option<Vec<String>>,
    /// Cases, clauses or sections that it does not claim.
    pub not_cases: Vec<String>,
}

/// A declaration that can be asked, completed by what was seen of the target. The default claims everything but
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

impl Declaration {
    /// Reads a declaration.
    ///
    /// # Errors
    /// A message with the file, and the line when it is not a declaration.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Makes the declaration askable.
    ///
    /// # Errors
    /// A message that names the glob that is none, or the word that is no capability: a slip of the pen would leave out every case.
    pub fn claims(&self, suite: &Suite) -> Result<Claims, String> {
        let shown = TOOL_CAPABILITIES.iter().map(|(_, capability)| *capability);
        let needed = suite
            .cases
            .iter()
            .flat_map(|case| case.target.requires.iter().map(String::as_str));
        if let Some(word) = self.extensions.iter().find(|word| !is_extension(word)) {
            let known = EXTENSIONS.join(", ");
            return Err(format!(
                "no extension is called `{word}`; there are {known}"
            ));
        }
        let known: BTreeSet<&str> = KINDS.iter().copied().chain(shown).chain(needed).collect();
        let mut words = self.implements.iter().flatten().chain(&self.lacks);
        if let Some(word) = words.find(|word| !known.contains(word.as_str())) {
            let known = Vec::from_iter(known).join(", ");
            return Err(format!("no case needs `{word}`; capabilities are {known}"));
        }
        let selector = |text: &String| {
            Selector::new(text).map_err(|error| format!("`{text}` is not a glob: {error}"))
        };
        let globs = |globs: &[String]| -> Result<Vec<Selector>, String> {
            let globs: Vec<Selector> = globs.iter().map(selector).collect::<Result<_, _>>()?;
            globs.iter().try_for_each(|glob| glob.needed(suite))?;
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
}

impl Claims {
    /// What a case needs that is not claimed, if it needs such a thing: a noun phrase.
    pub fn refusal<'a>(
        &self,
        case: &Case,
        needs: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let listed = self.cases.as_ref();
        let claimed = listed.is_none_or(|globs| globs.iter().any(|glob| glob.selects(case)));
        if !claimed || self.not_cases.iter().any(|glob| glob.selects(case)) {
            return Some("this case, which its declaration leaves out".to_owned());
        }
        needs
            .into_iter()
            .find(|need| !self.has(need))
            .map(|need| format!("`{need}`"))
    }

    /// What the reference claims: everything.
    pub fn everything() -> Self {
        Self {
            extensions: EXTENSIONS.iter().map(|&word| word.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Whether the target claims a capability.
    pub fn has(&self, capability: &str) -> bool {
        if is_extension(capability) {
            return self.extensions.contains(capability) && !self.lacks.contains(capability);
        }
        !self.lacks.contains(capability)
            && self
                .implements
                .as_ref()
                .is_none_or(|implements| implements.contains(capability))
    }

    /// Adds what `tools/list`, or a testee's `capabilities`, shows. What was declared stays. `restartable` says that
    /// other flags could make a server show other tools.
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
        for (tool, capability) in TOOL_CAPABILITIES {
            // A server that the harness starts may show more tools when flags ask for them.
            let conclusive = *capability == LISP_RUN || !restartable;
            if !tools.contains(*tool) && conclusive {
                self.lacks.insert((*capability).to_owned());
            }
        }
        Ok(())
    }

    /// The operations that a testee offers; empty for a server.
    pub fn operations(&self) -> &BTreeSet<String> {
        &self.operations
    }
}

fn is_extension(word: &str) -> bool {
    EXTENSIONS.contains(&word)
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

fn tools(line: &str) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Listing {
        tools: Vec<Tool>,
    }
    #[derive(Deserialize)]
    struct Tool {
        name: String,
    }
    let listing: Listing = serde_json::from_value(result_of(line)?).ok()?;
    Some(listing.tools.into_iter().map(|tool| tool.name).collect())
}
