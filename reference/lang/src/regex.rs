//! Regular expressions: compiled once, compared by their text. Knows nothing of how functions use them.

use std::fmt;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Steps that a pattern with look-around or back-references may take on one text.
const BACKTRACK_MAX: usize = 1_000_000;
/// Bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled regular expression.
pub struct Regex {
    source: Box<str>,
    program: fancy_regex::Regex,
}

impl Regex {
    /// Compiles `pattern`. Errors: a sentence that says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Regex, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!(
                "a pattern has at most {PATTERN_BYTES_MAX} bytes, this one has {}",
                pattern.len()
            ));
        }
        let program = fancy_regex::RegexBuilder::new(pattern)
            .backtrack_limit(BACKTRACK_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Regex {
            source: pattern.into(),
            program,
        })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The compiled pattern.
    pub fn program(&self) -> &fancy_regex::Regex {
        &self.program
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#\"{}\"", self.source)
    }
}
