//! Judges HTTP responses and log lines.

use super::json::json;
use super::{Judged, mismatch, text};
use crate::json::Json;
use crate::observed::HttpMessage;
use crate::suite::{BodyExpect, Captures, HeaderExpect, HttpResponse, LineMatch};

/// Judges a response: status, then headers, then body.
///
/// # Errors
/// The first difference.
pub fn http(expect: &HttpResponse, observed: &HttpMessage, captures: &mut Captures) -> Judged {
    let body = || String::from_utf8_lossy(&observed.body).into_owned();
    if observed.status != expect.status && !expect.or_status.contains(&observed.status) {
        let seen = format!("{} {}", observed.status, body());
        return Err(mismatch("status", expect.statuses(), seen.trim_end()));
    }
    let mut taken = captures.clone();
    for header in &expect.headers {
        field(header, observed, &mut taken)?;
    }
    match &expect.body {
        BodyExpect::Any => {}
        BodyExpect::Empty if observed.body.is_empty() => {}
        BodyExpect::Empty => return Err(mismatch("body", "no byte", body())),
        BodyExpect::Json(pattern) => {
            let letters = std::str::from_utf8(&observed.body)
                .map_err(|_| mismatch("body", "UTF-8 text", body()))?;
            let value = Json::parse(letters).map_err(|error| {
                mismatch(
                    "body",
                    pattern.source(),
                    format!("{letters} (no JSON: {error})"),
                )
            })?;
            json("body", pattern, &value, &mut taken)?;
        }
        BodyExpect::Text(expected) => {
            let letters = std::str::from_utf8(&observed.body)
                .map_err(|_| mismatch("body", expected.source(), body()))?;
            text("body", expected, letters, &mut taken)?;
        }
    }
    *captures = taken;
    Ok(())
}

/// Fields that may occur only once (RFC 9110, 5.3; for the first one the Fetch Standard: browsers reject a second).
const SINGLE: &[&str] = &[
    "access-control-allow-origin",
    "content-type",
    "location",
    "mcp-session-id",
    "retry-after",
    "x-request-id",
];

/// A field may be repeated, unless it is one of [`SINGLE`]. At least one occurrence must be as expected, or all of them read as one list
/// (RFC 9110, 5.3); an unwanted field must be absent.
fn field(expect: &HeaderExpect, observed: &HttpMessage, captures: &mut Captures) -> Judged {
    let what = format!("header {}", expect.name);
    let found: Vec<&str> = observed
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(&expect.name))
        .map(|(_, value)| value.as_str())
        .collect();
    match &expect.value {
        None if found.is_empty() => Ok(()),
        None => Err(mismatch(what, "no such field", found.join(", "))),
        Some(value) if found.is_empty() => Err(mismatch(what, value.source(), "no such field")),
        Some(value) if found.len() > 1 && is_single(&expect.name) => {
            let expected = format!("{}, in one field", value.source());
            Err(mismatch(what, expected, found.join(", ")))
        }
        Some(value) => {
            let list = found.join(", ");
            let mut fits = |found: &str| text::text(&what, value, found, captures).is_ok();
            if found.iter().any(|found| fits(found)) || fits(&list) {
                return Ok(());
            }
            Err(mismatch(what, value.source(), list))
        }
    }
}

fn is_single(name: &str) -> bool {
    SINGLE.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a log or trace line matches. Keeps the captures of its pattern.
///
/// # Errors
/// When the regex of the case is unusable.
pub fn line(
    expect: &LineMatch,
    observed: &str,
    captures: &mut Captures,
) -> Result<bool, fancy_regex::Error> {
    match expect {
        LineMatch::Json(pattern) => Ok(match Json::parse(observed) {
            Ok(value) => json("line", pattern, &value, captures).is_ok(),
            Err(_) => false,
        }),
        LineMatch::Regex(regex) => fancy_regex::Regex::new(regex)?.is_match(observed),
    }
}
