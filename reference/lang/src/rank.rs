//! Lexical ranking for `apropos`: tokens and scores. The same input is ranked the same everywhere, unless a limit ends
//! the ranking.

use memchr::memchr;

use crate::clock::{self, WorkMeter};
use crate::error::Stop;
use crate::substring::Needle;

/// The scores of an exact match, a prefix match and a substring match of a token, and the bonus for a match in a name.
const EXACT: u32 = 10;
const PREFIX: u32 = 5;
const SUBSTRING: u32 = 2;
const NAME_BOOST: u32 = 2;

/// Characters between tokens, besides white space.
const SEPARATORS: &[char] = &['_', '-', '.', '/', '(', ')', ',', ':'];

/// The lower-case tokens of `text`, split at separators and between a lower-case letter and an upper-case one.
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

/// The tokens of an entry that queries are matched against.
#[derive(Debug, Clone, Default)]
pub struct Indexed {
    names: Words,
    prose: Words,
}

/// Distinct sorted tokens, one per line: the author of a tool decides how many there are, and a string per token would
/// take ten times the memory.
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

    /// The score of the best match, 0 without a match. One search covers all words: a word contains no line feed, so a
    /// match is within one word, and the first match in a word is its best.
    fn best(&self, query: &Needle<'_>, boost: u32) -> u32 {
        let bytes = self.0.as_bytes();
        let (mut best, mut from) = (0, 0);
        while let Ok(Some(at)) = query.find(&self.0, from, &mut ClockMeter) {
            let end = at + query.len();
            let begins = at == 0 || bytes[at - 1] == b'\n';
            let left = memchr(b'\n', &bytes[end..]).unwrap_or(bytes.len() - end);
            let score = match (begins, left) {
                (true, 0) => return EXACT + boost,
                (true, _) => PREFIX + boost,
                (false, _) => SUBSTRING + boost,
            };
            best = best.max(score);
            from = end + left;
        }
        best
    }
}

impl Indexed {
    /// Indexes an entry; matches in `names` get a bonus, matches in `prose` do not.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        prose: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            names: Words::new(names),
            prose: Words::new(prose),
        }
    }

    /// The sum, over the tokens of the query, of the best match among names and the best match in prose; 0 when nothing
    /// matches.
    pub fn score(&self, query: &Query<'_>) -> u32 {
        let each = |token| self.names.best(token, NAME_BOOST) + self.prose.best(token, 0);
        query.0.iter().map(each).sum()
    }
}

/// The tokens of a query, prepared for searching many entries.
pub struct Query<'q>(Vec<Needle<'q>>);

impl<'q> Query<'q> {
    /// Prepares tokens that [`tokens`] returned; they stay borrowed.
    pub fn new(tokens: &'q [String]) -> Self {
        Query(tokens.iter().map(|token| Needle::new(token)).collect())
    }
}

/// Ranking has no evaluator at hand, and searches text that others control.
struct ClockMeter;

impl WorkMeter for ClockMeter {
    fn work(&mut self, steps: usize) -> Result<(), Stop> {
        clock::check(steps)
    }

    fn reserve(&mut self, _: usize) -> Result<(), Stop> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
