//! Compares strings with texts that have holes. Knows nothing of JSON structure.

use fancy_regex::Regex;

use super::{Judged, mismatch};
use crate::json::Json;
use crate::suite::{Captures, ExpandError, HoleKind, Part, Text};

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
        Err(shown) => Err(mismatch(what, shown, observed)),
    }
}

/// Judges an output line before it is parsed.
///
/// # Errors
/// Expected and observed.
pub fn raw_line(expected: &Text, observed: &str, captures: &mut Captures) -> Judged {
    text("line", expected, observed, captures)
}

/// Compares; the error is the expected text, for display.
pub(super) fn compare(
    expected: &Text,
    observed: &str,
    captures: &mut Captures,
) -> Result<(), String> {
    if !expected.has_holes() {
        let exact = expected
            .bytes(captures)
            .map_err(|fault| fault.to_string())?;
        return if exact == observed.as_bytes() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&exact).into_owned())
        };
    }
    let (pattern, holes) = regex(expected, captures).map_err(|fault| fault.to_string())?;
    let regex = Regex::new(&pattern).map_err(|error| format!("a usable regex ({error})"))?;
    let found = regex
        .captures(observed)
        .map_err(|error| format!("a match within bounds ({error})"))?;
    let found = found.ok_or_else(|| expected.source())?;
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
                return Err(expected.source());
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
/// A message, when the regex is unusable or too slow.
pub(super) fn matches_whole(regex: &str, letters: &str) -> Result<bool, String> {
    let regex =
        Regex::new(&anchored(regex)).map_err(|error| format!("a usable regex ({error})"))?;
    regex
        .is_match(letters)
        .map_err(|error| format!("a match within bounds ({error})"))
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
