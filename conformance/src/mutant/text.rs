//! Rewrites texts: programs, printed results, errors. Knows the syntax of the language and its messages; knows no frames.

use serde::Deserialize;

/// How a text is rewritten.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum TextEdit {
    /// Each first text is replaced with its second, one pair after the other.
    Replaced(Vec<(String, String)>),
    Rewritten(Rewrite),
}

/// Rewrites that a list of replacements cannot express.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewrite {
    /// A prefix and a suffix for the text.
    Between(String, String),
    /// Only this many characters are kept.
    First(usize),
    By(CustomTextEdit),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CustomTextEdit {
    ArgumentsUncounted,
    BlankProgramRuns,
    CommasInMaps,
    FirstLine,
    FormsUnnamed,
    MapsBackwards,
    OneMore,
    PlacesBehindFail,
    StrayClosersIgnored,
}

impl TextEdit {
    pub fn apply(&self, text: &str) -> String {
        match self {
            TextEdit::Replaced(pairs) => replaced(text, pairs),
            TextEdit::Rewritten(Rewrite::Between(before, behind)) => {
                format!("{before}{text}{behind}")
            }
            TextEdit::Rewritten(Rewrite::First(count)) => text.chars().take(*count).collect(),
            TextEdit::Rewritten(Rewrite::By(own)) => own.apply(text),
        }
    }
}

pub fn replaced(text: &str, pairs: &[(String, String)]) -> String {
    pairs
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

impl CustomTextEdit {
    fn apply(&self, text: &str) -> String {
        match self {
            CustomTextEdit::ArgumentsUncounted => edit_after(text, "arity_error: ", |line| {
                line.replace(|sign: char| sign.is_ascii_digit(), "some")
            }),
            CustomTextEdit::BlankProgramRuns if text.trim().is_empty() => "nil".to_owned(),
            CustomTextEdit::BlankProgramRuns => text.to_owned(),
            CustomTextEdit::CommasInMaps => commas_in_maps(text),
            CustomTextEdit::FirstLine => text.lines().next().unwrap_or_default().to_owned(),
            CustomTextEdit::FormsUnnamed => {
                edit_after(text, "Analysis error: expected (", |_| "a form)".to_owned())
            }
            CustomTextEdit::MapsBackwards => maps_backwards(text),
            CustomTextEdit::OneMore => match text.parse::<i64>() {
                Ok(number) => number.wrapping_add(1).to_string(),
                Err(_) => text.to_owned(),
            },
            CustomTextEdit::PlacesBehindFail if text.starts_with("fail: ") => {
                format!("{text}\nat line 1, column 1")
            }
            CustomTextEdit::PlacesBehindFail => text.to_owned(),
            CustomTextEdit::StrayClosersIgnored => stray_closers_ignored(text),
        }
    }
}

/// `text`, with the rest of the line after `start` edited.
fn edit_after(text: &str, start: &str, edit: impl Fn(&str) -> String) -> String {
    let Some(from) = text.find(start).map(|at| at + start.len()) else {
        return text.to_owned();
    };
    // In JSON text a line ends with an escape.
    let end = text[from..].find(['\n', '\\', '"']);
    let end = end.map_or(text.len(), |end| from + end);
    format!(
        "{}{}{}",
        &text[..from],
        edit(&text[from..end]),
        &text[end..]
    )
}

fn commas_in_maps(text: &str) -> String {
    let mut depth = 0_usize;
    let mut gaps = 0_usize;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '{' => (depth, gaps) = (depth + 1, 0),
            '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 1 => {
                gaps += 1;
                if gaps.is_multiple_of(2) {
                    out.push(',');
                }
            }
            _ => {}
        }
        out.push(character);
    }
    out
}

/// The entries of a flat map in reverse order.
fn maps_backwards(text: &str) -> String {
    let Some(inner) = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    else {
        return text.to_owned();
    };
    let words: Vec<&str> = inner.split(' ').collect();
    let entries: Vec<String> = words.chunks(2).rev().map(|entry| entry.join(" ")).collect();
    format!("{{{}}}", entries.join(" "))
}

/// Drops the last closing bracket if there are more closing than opening ones.
fn stray_closers_ignored(text: &str) -> String {
    let count = |brackets: &[char]| {
        text.chars()
            .filter(|character| brackets.contains(character))
            .count()
    };
    let mut text_out = text.to_owned();
    if count(&[')', ']', '}']) > count(&['(', '[', '{'])
        && let Some(last) = text.rfind([')', ']', '}'])
    {
        text_out.remove(last);
    }
    text_out
}
