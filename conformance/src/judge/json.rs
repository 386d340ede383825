//! Compares JSON with patterns, as data: the order of members is ignored, numbers are exact.

use indexmap::IndexMap;

use super::{Judged, mismatch, permitted_members, text};
use crate::json::Json;
use crate::observed::CallAnswer;
use crate::suite::{CallExpect, Captures, Hole, HoleKind, Pattern};
use crate::verdict::Mismatch;

/// Judges one JSON value; `what` names it in the mismatch. Keeps the captures of the pattern.
///
/// # Errors
/// The first difference, with a diff of the whole value.
pub fn json(what: &str, pattern: &Pattern, observed: &Json, captures: &mut Captures) -> Judged {
    let observed = &*permitted_members::without_permitted(pattern, observed);
    let mut taken = captures.clone();
    match compare(pattern, observed, &mut taken) {
        Ok(()) => {
            *captures = taken;
            Ok(())
        }
        Err(difference) => {
            let whole = super::diff::values(&resolved(pattern, observed, captures), observed);
            Err(Mismatch {
                what: format!("{what}{}", difference.path),
                expected: difference.expected,
                observed: difference.observed,
                diff: whole,
                clause: None,
                line: None,
            })
        }
    }
}

/// Judges values in any order: one per pattern, none left over.
///
/// # Errors
/// A pattern for which no value is left.
pub fn unordered(
    what: &str,
    patterns: &[Pattern],
    observed: &[Json],
    captures: &mut Captures,
) -> Judged {
    let mut taken = captures.clone();
    match assign(patterns, false, observed, &mut taken) {
        Ok(()) => {
            *captures = taken;
            Ok(())
        }
        Err(unmatched) => {
            let lines = |values: Vec<String>| values.join("\n");
            let seen = lines(observed.iter().map(Json::to_string).collect());
            let mut mismatch = mismatch(
                what,
                lines(patterns.iter().map(Pattern::source).collect()),
                seen,
            );
            if let Some(unmatched) = unmatched {
                let expected = patterns[unmatched].source();
                mismatch.what = format!("{what}: nothing matches {expected}");
            }
            Err(mismatch)
        }
    }
}

/// Judges the answer of an operation.
///
/// # Errors
/// The first difference.
pub fn call(expect: &CallExpect, answer: &CallAnswer, captures: &mut Captures) -> Judged {
    match (expect, answer) {
        (CallExpect::Returns(pattern), CallAnswer::Returned(value)) => {
            json("value", pattern, value, captures)
        }
        (CallExpect::Refuses(pattern), CallAnswer::Refused(error)) => {
            json("error", pattern, error, captures)
        }
        (CallExpect::Returns(pattern), CallAnswer::Refused(error)) => Err(mismatch(
            "answer",
            pattern.source(),
            format!("the error {error}"),
        )),
        (CallExpect::Refuses(pattern), CallAnswer::Returned(value)) => Err(mismatch(
            "answer",
            format!("the error {}", pattern.source()),
            format!("the value {value}"),
        )),
    }
}

/// The first difference between two values.
struct JsonDifference {
    path: String,
    expected: String,
    observed: String,
}

impl JsonDifference {
    fn at_root(expected: impl Into<String>, observed: impl Into<String>) -> JsonDifference {
        JsonDifference {
            path: String::new(),
            expected: expected.into(),
            observed: observed.into(),
        }
    }

    fn inside(mut self, step: &str) -> JsonDifference {
        self.path.insert_str(0, step);
        self
    }
}

fn compare(
    pattern: &Pattern,
    observed: &Json,
    captures: &mut Captures,
) -> Result<(), JsonDifference> {
    match pattern {
        Pattern::Exact(expected) => equal(expected, observed),
        Pattern::Use(name) => match captures.get(name) {
            Some(expected) => equal(&expected.clone(), observed),
            None => Err(JsonDifference::at_root(
                format!("the value captured as {name}"),
                observed.to_string(),
            )),
        },
        Pattern::Text(expected) => match observed {
            Json::String(letters) => text::compare(expected, letters, captures)
                .map_err(|wrong| JsonDifference::at_root(wrong.to_string(), observed.to_string())),
            _ => Err(JsonDifference::at_root(
                Json::from(expected.source()).to_string(),
                observed.to_string(),
            )),
        },
        Pattern::Hole(hole) => fill(hole, observed, captures),
        Pattern::Array { items, open } => array(items, *open, observed, captures),
        Pattern::Object { members, open } => object(members, *open, observed, captures),
    }
}

fn equal(expected: &Json, observed: &Json) -> Result<(), JsonDifference> {
    if expected == observed {
        Ok(())
    } else {
        Err(JsonDifference::at_root(
            expected.to_string(),
            observed.to_string(),
        ))
    }
}

fn array(
    items: &[Pattern],
    open: bool,
    observed: &Json,
    captures: &mut Captures,
) -> Result<(), JsonDifference> {
    let Json::Array(values) = observed else {
        return Err(JsonDifference::at_root("an array", observed.to_string()));
    };
    for (index, (item, value)) in items.iter().zip(values).enumerate() {
        compare(item, value, captures)
            .map_err(|difference| difference.inside(&format!("[{index}]")))?;
    }
    if values.len() < items.len() || (values.len() > items.len() && !open) {
        let more = if open { " or more" } else { "" };
        return Err(JsonDifference::at_root(
            format!("{} elements{more}", items.len()),
            format!("{} elements", values.len()),
        ));
    }
    Ok(())
}

fn object(
    members: &IndexMap<String, Pattern>,
    open: bool,
    observed: &Json,
    captures: &mut Captures,
) -> Result<(), JsonDifference> {
    let Json::Object(values) = observed else {
        return Err(JsonDifference::at_root("an object", observed.to_string()));
    };
    for (key, pattern) in members {
        let step = format!(".{key}");
        match (values.get(key), pattern) {
            (None, Pattern::Hole(hole)) if hole.optional || hole.kind == HoleKind::Absent => {}
            (None, pattern) => {
                let instead = values.get("error").filter(|_| key == "result");
                let observed = match instead {
                    Some(error) => format!("no such member, but the error {error}"),
                    None => "no such member".to_owned(),
                };
                return Err(JsonDifference::at_root(pattern.source(), observed).inside(&step));
            }
            (Some(value), pattern) => {
                compare(pattern, value, captures).map_err(|difference| difference.inside(&step))?;
            }
        }
    }
    match values
        .iter()
        .find(|(key, _)| !open && !members.contains_key(*key))
    {
        Some((key, value)) => {
            Err(JsonDifference::at_root("no such member", value.to_string())
                .inside(&format!(".{key}")))
        }
        None => Ok(()),
    }
}

fn fill(hole: &Hole, observed: &Json, captures: &mut Captures) -> Result<(), JsonDifference> {
    let met = match (&hole.kind, observed) {
        (HoleKind::Any, _)
        | (HoleKind::Bool, Json::Bool(_))
        | (HoleKind::Number, Json::Number(_))
        | (HoleKind::String(None), Json::String(_))
        | (HoleKind::Array, Json::Array(_))
        | (HoleKind::Object, Json::Object(_)) => true,
        (HoleKind::Int { min, max }, Json::Number(number)) => {
            number.is_integer() && within(number.as_i64(), *min, *max)
        }
        (HoleKind::Float, Json::Number(number)) => !number.is_integer(),
        (HoleKind::String(Some(regex)), Json::String(letters)) => {
            text::matches_whole(regex, letters)
                .map_err(|error| JsonDifference::at_root(error.to_string(), observed.to_string()))?
        }
        (HoleKind::JsonText(pattern), Json::String(letters)) => {
            let inner = Json::parse(letters).map_err(|error| {
                JsonDifference::at_root("a string that holds JSON", format!("{observed} ({error})"))
            })?;
            compare(pattern, &inner, captures).map_err(|difference| difference.inside("(json)"))?;
            true
        }
        (HoleKind::Unordered { items, open }, Json::Array(values)) => {
            assign(items, *open, values, captures).map_err(|unmatched| {
                let nearest = unmatched.and_then(|at| nearest(&items[at], values, captures));
                nearest
                    .unwrap_or_else(|| JsonDifference::at_root(hole.source(), observed.to_string()))
            })?;
            true
        }
        (HoleKind::Either(patterns), value) => {
            let fits = |pattern: &&Pattern| compare(pattern, value, &mut captures.clone()).is_ok();
            match patterns.iter().find(fits) {
                Some(pattern) => {
                    compare(pattern, value, captures)?;
                    true
                }
                None => false,
            }
        }
        _ => false,
    };
    if !met {
        return Err(JsonDifference::at_root(hole.source(), observed.to_string()));
    }
    if let Some(name) = &hole.capture {
        captures.insert(name.clone(), observed.clone());
    }
    Ok(())
}

/// Whether an integer is within the bounds. Integers beyond 64 bits are outside of any bound.
fn within(value: Option<i64>, min: Option<i64>, max: Option<i64>) -> bool {
    match value {
        Some(value) => min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max),
        None => min.is_none() && max.is_none(),
    }
}

/// Assigns a different value to every pattern, with none left over unless `open`. Patterns are matched by
/// augmenting paths, using the captures from before the group; then the pairs are compared once more in order,
/// so that captures in the group are kept, and are visible to later patterns of the group only.
fn assign(
    patterns: &[Pattern],
    open: bool,
    values: &[Json],
    captures: &mut Captures,
) -> Result<(), Option<usize>> {
    if values.len() < patterns.len() || (values.len() > patterns.len() && !open) {
        return Err(None);
    }
    let fits: Vec<Vec<bool>> = patterns
        .iter()
        .map(|pattern| {
            values
                .iter()
                .map(|value| permitted_members::without_permitted(pattern, value))
                .map(|value| compare(pattern, &value, &mut captures.clone()).is_ok())
                .collect()
        })
        .collect();
    let mut owner: Vec<Option<usize>> = vec![None; values.len()];
    for pattern in 0..patterns.len() {
        if !augment(pattern, &fits, &mut owner, &mut vec![false; values.len()]) {
            return Err(Some(pattern));
        }
    }
    let mut pairs: Vec<(usize, usize)> = owner
        .iter()
        .enumerate()
        .filter_map(|(value, pattern)| pattern.map(|pattern| (pattern, value)))
        .collect();
    pairs.sort_unstable();
    for (pattern, value) in pairs {
        let value = permitted_members::without_permitted(&patterns[pattern], &values[value]);
        compare(&patterns[pattern], &value, captures).map_err(|_| Some(pattern))?;
    }
    Ok(())
}

/// How the object that has most of the members of `pattern` differs from it; `None` if none has any.
fn nearest(pattern: &Pattern, values: &[Json], captures: &Captures) -> Option<JsonDifference> {
    let Pattern::Object { members, .. } = pattern else {
        return None;
    };
    let fitting = |value: &Json| {
        let fits = |(key, member): (&String, &Pattern)| {
            let value = value.get(key)?;
            compare(member, value, &mut captures.clone()).ok()
        };
        members.iter().filter_map(fits).count()
    };
    let counted = values.iter().map(fitting).enumerate();
    let (at, count) = counted.max_by_key(|(at, count)| (*count, std::cmp::Reverse(*at)))?;
    let differs = compare(pattern, &values[at], &mut captures.clone()).err();
    differs
        .filter(|_| count > 0)
        .map(|difference| difference.inside(&format!("[{at}]")))
}

fn augment(
    pattern: usize,
    fits: &[Vec<bool>],
    owner: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for value in 0..owner.len() {
        if fits[pattern][value] && !seen[value] {
            seen[value] = true;
            if owner[value].is_none_or(|other| augment(other, fits, owner, seen)) {
                owner[value] = Some(pattern);
                return true;
            }
        }
    }
    false
}

/// The pattern as a value for the diff: parts that matched are replaced with the observed values, so that only real
/// differences stand out.
fn resolved(pattern: &Pattern, observed: &Json, captures: &Captures) -> Json {
    if compare(pattern, observed, &mut captures.clone()).is_ok() {
        return observed.clone();
    }
    match (pattern, observed) {
        (Pattern::Array { items, open }, Json::Array(values)) => {
            let mut shown: Vec<Json> = items
                .iter()
                .enumerate()
                .map(|(index, item)| match values.get(index) {
                    Some(value) => resolved(item, value, captures),
                    None => Json::from(item.source()),
                })
                .collect();
            if *open {
                shown.extend(values.iter().skip(items.len()).cloned());
            }
            Json::Array(shown)
        }
        (Pattern::Object { members, open }, Json::Object(values)) => {
            let mut shown: IndexMap<String, Json> = IndexMap::new();
            for (key, pattern) in members {
                match (values.get(key), pattern) {
                    (Some(value), pattern) => {
                        shown.insert(key.clone(), resolved(pattern, value, captures));
                    }
                    (None, Pattern::Hole(hole))
                        if hole.optional || hole.kind == HoleKind::Absent => {}
                    (None, pattern) => {
                        shown.insert(key.clone(), plain(pattern));
                    }
                }
            }
            if *open {
                for (key, value) in values.iter().filter(|(key, _)| !members.contains_key(*key)) {
                    shown.insert(key.clone(), value.clone());
                }
            }
            Json::Object(shown)
        }
        (pattern, _) => plain(pattern),
    }
}

fn plain(pattern: &Pattern) -> Json {
    match pattern {
        Pattern::Exact(json) => json.clone(),
        Pattern::Array { items, .. } => Json::Array(items.iter().map(plain).collect()),
        Pattern::Object { members, .. } => Json::Object(
            members
                .iter()
                .map(|(key, pattern)| (key.clone(), plain(pattern)))
                .collect(),
        ),
        Pattern::Text(text) => Json::from(text.source()),
        other => Json::from(other.source()),
    }
}
