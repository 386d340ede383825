//! Lexical ranking for `apropos`: tokens and scores. The same input ranks the same everywhere, unless the
//! clock says that nobody waits any more.

use crate::clock;

/// Score of an exact token match, of a prefix match, of a substring match, and what a name adds to each.
const EXACT: u32 = 10;
const PREFIX: u32 = 5;
const SUBSTRING: u32 = 2;
const NAME_BOOST: u32 = 2;

/// Bytes that are searched in about the time of a step.
const STEP_BYTES: usize = 16;

/// Characters between tokens, besides white space.
const SEPARATORS: &[char] = &['_', '-', '.', '/', '(', ')', ',', ':'];

/// Lower-case tokens: split at separators and where a lower-case letter meets an upper-case one.
pub fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut token = String::new();
    let mut after_lower = false;
    for c in text.chars() {
        let separates = c.is_whitespace() || SEPARATORS.contains(&c);
        if (separates || (after_lower && c.is_uppercase())) && !token.is_empty() {
            tokens.push(std::mem::take(&mut token));
        }
        if !separates {
            token.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    if !token.is_empty() {
        tokens.push(token);
    }
    tokens
}

/// What a query is matched against.
#[derive(Debug, Clone, Default)]
pub struct Indexed {
    names: Words,
    prose: Words,
}

/// Distinct tokens in order, a line each: a tool's author chooses how many there are, and a string each takes ten times as much.
#[derive(Debug, Clone, Default)]
struct Words(Box<str>);

impl Words {
    fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: Vec<String> = texts.into_iter().flat_map(tokens).collect();
        // A repeated word can't score twice.
        words.sort_unstable();
        words.dedup();
        Words(words.join("\n").into())
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator('\n')
    }
}

impl Indexed {
    /// `names` are boosted, `prose` is not.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        prose: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            names: Words::new(names),
            prose: Words::new(prose),
        }
    }

    /// Sum over the query's tokens of the best match among names and the best in prose; 0 when nothing matches.
    pub fn score(&self, query: &[String]) -> u32 {
        let each =
            |token: &String| best(token, &self.names, NAME_BOOST) + best(token, &self.prose, 0);
        query.iter().map(each).sum()
    }
}

fn best(query: &str, targets: &Words, boost: u32) -> u32 {
    let mut best = 0;
    for target in targets.iter() {
        // Somebody else's text may be searched for as long a word.
        if !clock::goes_on(1 + target.len().saturating_add(query.len()) / STEP_BYTES) {
            return 0;
        }
        let score = if target == query {
            return EXACT + boost;
        } else if target.starts_with(query) {
            PREFIX + boost
        } else if best < SUBSTRING + boost && target.contains(query) {
            SUBSTRING + boost
        } else {
            0
        };
        best = best.max(score);
    }
    best
}

#[cfg(test)]
mod tests;
