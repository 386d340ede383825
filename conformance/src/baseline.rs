//! Rewrites a list of expected failures so that it fits a run. What the list means is defined in `expected`.
//! Knows cases and verdicts, nothing of targets.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::files::{self, TomlError};
use crate::report::sanitize;
use crate::suite::{Case, Selector, SelectorError};
use crate::verdict::Verdict;

/// Length of the message prefix in a new entry, in characters.
const MESSAGE_CHARS_MAX: usize = 80;
/// The reason given for a new entry.
const UNEXPLAINED: &str = "not explained yet";
/// The comment above the entries.
const HEAD: &str = "\
# Failures that are expected, each with its reason. An entry that has become needless fails the run;
# `ptc-conformance run --fix-baseline` rewrites this file.
";

/// Why a list of expected failures can't be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error(transparent)]
    Glob(#[from] SelectorError),
}

#[derive(Default, Deserialize)]
struct List {
    #[serde(default)]
    case: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    reason: String,
    message: Option<String>,
}

/// The list, as TOML, that leaves no complaints. Entries of `old` that still hold for all their cases
/// keep their reason; each other failure gets an entry of its own. Unless `whole` (every case was run), entries that
/// match none of the cases that ran are kept.
///
/// # Errors
/// When `old` is not a list of expected failures.
pub fn rewritten(
    old: &str,
    judged: &[(&Case, &Verdict)],
    whole: bool,
) -> Result<String, RewriteError> {
    let list: List = files::parse_toml(old)?;
    let mut text = HEAD.to_owned();
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    for entry in &list.case {
        let selector = Selector::new(&entry.id)?;
        let mine: Vec<_> = judged
            .iter()
            .filter(|(case, _)| selector.selects(case))
            .collect();
        let failing = mine
            .iter()
            .filter(|(_, verdict)| still_holds(entry, verdict));
        let failing: Vec<&str> = failing.map(|(case, _)| case.id.as_str()).collect();
        let untried = !whole && mine.is_empty();
        if untried || !failing.is_empty() && !mine.iter().any(|(_, verdict)| verdict.is_pass()) {
            covered.extend(failing);
            write(
                &mut text,
                &entry.id,
                &entry.reason,
                entry.message.as_deref(),
            );
        }
    }
    let failures = judged.iter().filter(|(_, verdict)| verdict.is_failure());
    for (case, verdict) in failures.filter(|(case, _)| !covered.contains(case.id.as_str())) {
        let message = verdict.message();
        let reason = list
            .case
            .iter()
            .find(|entry| {
                Selector::new(&entry.id).is_ok_and(|selector| selector.selects(case))
                    && still_holds(entry, verdict)
            })
            .map_or(UNEXPLAINED, |entry| entry.reason.as_str());
        write(&mut text, &case.id, reason, Some(message_prefix(&message)));
    }
    Ok(text)
}

fn still_holds(entry: &Entry, verdict: &Verdict) -> bool {
    let message = verdict.message();
    verdict.is_failure()
        && entry
            .message
            .as_ref()
            .is_none_or(|wanted| message.starts_with(wanted))
}

fn write(text: &mut String, id: &str, reason: &str, message: Option<&str>) {
    text.push_str(&format!(
        "\n[[case]]\nid = {}\nreason = {}\n",
        quoted(id),
        quoted(reason)
    ));
    if let Some(message) = message {
        text.push_str(&format!("message = {}\n", quoted(message)));
    }
}

/// A TOML string. Control characters in a target's message are written as their numbers, so that no editor or terminal obeys them.
fn quoted(value: &str) -> String {
    if !value.contains(sanitize::needs_escape) {
        return toml::Value::from(value).to_string();
    }
    let mut text = "\"".to_owned();
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            numbered if sanitize::needs_escape(numbered) => {
                text.push_str(&format!("\\U{:08X}", u32::from(numbered)));
            }
            plain => text.push(plain),
        }
    }
    text + "\""
}

fn message_prefix(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    line.char_indices()
        .nth(MESSAGE_CHARS_MAX)
        .map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baseline_escapes_control_characters_and_reads_back() {
        for text in [
            "plain 'x' \"y\" \\",
            "\u{1b}[2J\u{9b}\u{202e}\u{e0041} \"'\\",
        ] {
            let written = quoted(text);
            assert_eq!(written.find(sanitize::needs_escape), None, "{written}");
            let list: toml::Table = toml::from_str(&format!("x = {written}")).expect("TOML");
            assert_eq!(list["x"].as_str(), Some(text));
        }
    }
}
