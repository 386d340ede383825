//! Compares strings with texts that have holes. Knows nothing of JSON structure.

use fancy_regex::Regex;

use super::{Judged, mismatch};
use crate::json::Json;
use crate::suite::{Captures, ExpandError, HoleKind, Part, Text};

/// Why a text does not match. The words stand where the expected text would.
#[derive(Debug, thiserror::Error)]
pub(super) enum TextMismatch {
    /// The text differs from this one.
    #[error("{0}")]
    Differs(String),
    #[error(transparent)]
    Expansion(#[from] ExpandError),
    #[error(transparent)]
    Regex(#[from] RegexFault),
}

/// Why a regex gives no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegexFault {
    #[error("a usable regex ({0})")]
    Unusable(fancy_regex::Error),
    /// It backtracks too much.
    #[error("a match within bounds ({0})")]
    TooSlow(fancy_regex::Error),
}

/// Judges a whole text; `what` names it in the mismatch. Keeps the captures of the holes.
///
/// # Errors
/// Expected and observed, with a diff when they have several lines.
pub fn text(what: &str, expected: &Text, observed: &str, captures: &mut Captures) -> Judged {
    let mut taken = captures.clone();
    match compare(expected, observed, &mut taken) {
        Ok(()) => {
            *captures = taken;
            Ok(())
        }
        Err(shown) => Err(mismatch(what, shown.to_string(), observed)),
    }
}

/// Judges an output line before it is parsed.
///
/// # Errors
/// Expected and observed.
pub fn raw_line(expected: &Text, observed: &str, captures: &mut Captures) -> Judged {
    text("line", expected, observed, captures)
}

/// Compares.
pub(super) fn compare(
    expected: &Text,
    observed: &str,
    captures: &mut Captures,
) -> Result<(), TextMismatch> {
    let differs = || TextMismatch::Differs(expected.source());
    if !expected.has_holes() {
        let exact = expected.bytes(captures)?;
        return if exact == observed.as_bytes() {
            Ok(())
        } else {
            let exact = String::from_utf8_lossy(&exact).into_owned();
            Err(TextMismatch::Differs(exact))
        };
    }
    let (pattern, holes) = regex(expected, captures)?;
    let regex = Regex::new(&pattern).map_err(RegexFault::Unusable)?;
    let found = regex.captures(observed).map_err(RegexFault::TooSlow)?;
    let found = found.ok_or_else(differs)?;
    for (group, hole) in holes.into_iter().enumerate() {
        let letters = found
            .name(&format!("hole{group}"))
            .map_or("", |found| found.as_str());
        if let HoleKind::Int { min, max } = &hole.kind {
            let value: Option<i64> = letters.parse().ok();
            let inside = match value {
                Some(value) => {
                    min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
                }
                None => min.is_none() && max.is_none(),
            };
            if !inside {
                return Err(differs());
            }
        }
        if let Some(name) = &hole.capture {
            captures.insert(name.clone(), Json::from(letters));
        }
    }
    Ok(())
}

/// Whether the regex matches the whole text.
///
/// # Errors
/// When the regex is unusable or too slow.
pub(super) fn matches_whole(regex: &str, letters: &str) -> Result<bool, RegexFault> {
    let regex = Regex::new(&anchored(regex)).map_err(RegexFault::Unusable)?;
    regex.is_match(letters).map_err(RegexFault::TooSlow)
}

/// A regex that must match from the first to the last character.
pub(crate) fn anchored(regex: &str) -> String {
    format!(r"\A(?:{regex})\z")
}

/// The regex for a text with holes, and its holes in order.
fn regex<'t>(
    expected: &'t Text,
    captures: &Captures,
) -> Result<(String, Vec<&'t crate::suite::Hole>), ExpandError> {
    let mut pattern = String::from(r"\A");
    let mut holes = Vec::new();
    for part in &expected.parts {
        match part {
            Part::Hole(hole) => {
                let body = match &hole.kind {
                    HoleKind::Int { .. } => "-?[0-9]+".to_owned(),
                    HoleKind::Float => {
                        r"-?[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)".to_owned()
                    }
                    HoleKind::Number => r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?".to_owned(),
                    HoleKind::Bool => "true|false".to_owned(),
                    HoleKind::String(Some(regex)) => regex.clone(),
                    _ => "(?s:.*?)".to_owned(),
                };
                pattern.push_str(&format!("(?<hole{}>{body})", holes.len()));
                holes.push(hole);
            }
            part => {
                let exact = Text {
                    parts: vec![part.clone()],
                }
                .string(captures)?;
                pattern.push_str(&fancy_regex::escape(&exact));
            }
        }
    }
    pattern.push_str(r"\z");
    Ok((pattern, holes))
}
