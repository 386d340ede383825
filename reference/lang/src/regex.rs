//! Regular expressions: compiled once, compared by their text. Knows nothing of how functions use them.
//!
//! A pattern is written as on the JVM; the few spellings that the engine reads differently are
//! translated. Plain patterns run in linear time, those with look-around or back-references under a
//! bound of steps.

use std::fmt;
use std::sync::OnceLock;

use fancy_regex::{CompileError, ParseError, RegexBuilder};
use smallvec::SmallVec;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Steps back that a pattern with look-around or back-references may take in one search.
const BACKTRACK_MAX: usize = 200_000;
/// Bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Bytes that an automaton built while searching may take.
const AUTOMATON_BYTES_MAX: usize = 1 << 18;

/// A compiled regular expression.
pub struct Regex {
    source: Box<str>,
    search: Engine,
    /// Compiled when first needed: where `$` stands before a last line feed too.
    search_before_newline: OnceLock<Option<Engine>>,
    /// Compiled when first needed: for the whole of a text.
    whole: OnceLock<Option<Engine>>,
    whole_before_newline: OnceLock<Option<Engine>>,
    hard: bool,
}

/// What searches.
enum Engine {
    /// Everything that the language has; plain patterns go to the linear engine from here.
    Full(fancy_regex::Regex),
    /// The linear engine by itself, for plain patterns that are nested deeper than the other one reads.
    Linear(regex::Regex),
}

/// Where a match and its groups start and end, in bytes; a group that took no part has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    groups: SmallVec<[Option<(usize, usize)>; 4]>,
}

impl Match {
    /// Where the match starts and ends.
    pub fn span(&self) -> (usize, usize) {
        self.groups.first().copied().flatten().unwrap_or_default()
    }

    /// Where group `at` starts and ends; 0 is the match.
    pub fn group(&self, at: usize) -> Option<(usize, usize)> {
        self.groups.get(at).copied().flatten()
    }

    /// The match and its groups.
    pub fn groups(&self) -> &[Option<(usize, usize)>] {
        &self.groups
    }
}

/// A search took more steps than its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Regex {
    /// Compiles `pattern`. Errors: a sentence that says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Regex, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!(
                "a pattern has at most {PATTERN_BYTES_MAX} bytes, this one has {}",
                pattern.len()
            ));
        }
        let search = compile(&translate(pattern, false)?)?;
        Ok(Regex {
            source: pattern.into(),
            search,
            search_before_newline: OnceLock::new(),
            whole: OnceLock::new(),
            whole_before_newline: OnceLock::new(),
            hard: is_hard(pattern),
        })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of groups, the whole match not counted.
    pub fn groups(&self) -> usize {
        self.search.groups()
    }

    /// Whether a search may step back, so that its time is bounded by steps alone.
    pub fn is_hard(&self) -> bool {
        self.hard
    }

    /// Where the first match at or behind byte `from` starts and ends.
    pub fn find_at(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        self.engine(text).find_at(text, from)
    }

    /// The first match at or behind byte `from`, with its groups.
    pub fn captures_at(&self, text: &str, from: usize) -> Result<Option<Match>, Exhausted> {
        self.engine(text).captures_at(text, from)
    }

    /// The match of the whole `text`, with its groups.
    pub fn matches(&self, text: &str) -> Result<Option<Match>, Exhausted> {
        let before_newline = self.dollar_before_newline(text);
        let cell = if before_newline {
            &self.whole_before_newline
        } else {
            &self.whole
        };
        let engine = cell.get_or_init(|| {
            // The line feed ends a comment that the pattern may end with.
            let open_comment = self.source.contains("(?x") && self.source.contains('#');
            let end = if open_comment { "\n" } else { "" };
            let pattern = translate(&self.source, before_newline).ok()?;
            compile(&format!("\\A(?:{pattern}{end})\\z")).ok()
        });
        match engine {
            Some(engine) => engine.captures_at(text, 0),
            None => Err(Exhausted),
        }
    }

    fn engine(&self, text: &str) -> &Engine {
        if !self.dollar_before_newline(text) {
            return &self.search;
        }
        self.search_before_newline
            .get_or_init(|| compile(&translate(&self.source, true).ok()?).ok())
            .as_ref()
            .unwrap_or(&self.search)
    }

    /// Whether `$` has to stand before the last line feed of `text`, which only the slower engine can.
    fn dollar_before_newline(&self, text: &str) -> bool {
        text.ends_with('\n') && self.source.contains('$') && !is_multi_line(&self.source)
    }
}

impl Engine {
    fn groups(&self) -> usize {
        let with_match = match self {
            Engine::Full(regex) => regex.captures_len(),
            Engine::Linear(regex) => regex.captures_len(),
        };
        with_match.saturating_sub(1)
    }

    fn find_at(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        match self {
            Engine::Full(regex) => match regex.find_from_pos(text, from) {
                Ok(found) => Ok(found.map(|found| (found.start(), found.end()))),
                Err(_) => Err(Exhausted),
            },
            Engine::Linear(regex) => Ok(regex
                .find_at(text, from)
                .map(|found| (found.start(), found.end()))),
        }
    }

    fn captures_at(&self, text: &str, from: usize) -> Result<Option<Match>, Exhausted> {
        match self {
            Engine::Full(regex) => match regex.captures_from_pos(text, from) {
                Ok(found) => Ok(found.map(|found| Match {
                    groups: (0..found.len())
                        .map(|at| found.get(at).map(|group| (group.start(), group.end())))
                        .collect(),
                })),
                Err(_) => Err(Exhausted),
            },
            Engine::Linear(regex) => Ok(regex.captures_at(text, from).map(|found| Match {
                groups: found
                    .iter()
                    .map(|group| group.map(|group| (group.start(), group.end())))
                    .collect(),
            })),
        }
    }
}

fn compile(pattern: &str) -> Result<Engine, String> {
    let full = RegexBuilder::new(pattern)
        .backtrack_limit(BACKTRACK_MAX)
        .delegate_size_limit(COMPILED_BYTES_MAX)
        .delegate_dfa_size_limit(AUTOMATON_BYTES_MAX)
        .max_prog_size(COMPILED_BYTES_MAX / 64)
        .build();
    match full {
        Ok(regex) => Ok(Engine::Full(regex)),
        Err(fancy_regex::Error::ParseError(_, ParseError::RecursionExceeded)) => {
            regex::RegexBuilder::new(pattern)
                .size_limit(COMPILED_BYTES_MAX)
                .dfa_size_limit(AUTOMATON_BYTES_MAX)
                .build()
                .map(Engine::Linear)
                .map_err(|_| "groups are nested too deep".to_owned())
        }
        Err(error) => Err(problem(&error)),
    }
}

/// What is wrong with a pattern, in words.
fn problem(error: &fancy_regex::Error) -> String {
    let words = match error {
        fancy_regex::Error::ParseError(_, error) => match error {
            ParseError::UnclosedOpenParen => "a group is not closed, add `)`",
            ParseError::InvalidRepeat => "a repetition like {2,5} is malformed",
            ParseError::TrailingBackslash => "nothing follows the last backslash",
            ParseError::InvalidEscape(escape) => return format!("unknown escape `{escape}`"),
            ParseError::UnclosedUnicodeName
            | ParseError::InvalidHex
            | ParseError::InvalidCodepointValue => "a character code is malformed",
            ParseError::InvalidClass => "a character class is malformed, check `[` and `]`",
            ParseError::UnknownFlag(flag) => return format!("unknown flag `{flag}`"),
            ParseError::InvalidBackref | ParseError::InvalidGroupNameBackref(_) => NO_GROUP,
            ParseError::TargetNotRepeatable => "a repetition has nothing in front to repeat",
            ParseError::InvalidGroupName => "the name of a group is malformed",
            // What stops the engine before the end is a bracket too many.
            ParseError::GeneralParseError(words) if words.starts_with("end of string") => {
                "a `)` closes no group"
            }
            _ => return last_line(&error.to_string()),
        },
        fancy_regex::Error::CompileError(error) => match &**error {
            CompileError::PatternTooComplex => TOO_LARGE,
            CompileError::InvalidBackref(_) | CompileError::InvalidGroupNameBackref(_) => NO_GROUP,
            CompileError::InnerError(error) if error.size_limit().is_some() => TOO_LARGE,
            CompileError::InnerError(error) => match error.syntax_error() {
                Some(error) => return last_line(&error.to_string()),
                None => TOO_LARGE,
            },
            other => return last_line(&other.to_string()),
        },
        error => return last_line(&error.to_string()),
    };
    words.to_owned()
}

const COUNTS_DOWN: &str = "a repetition like {2,5} starts with the smaller number";
const NO_CONTROL: &str = "a letter follows `\\c`, as in `\\cA`";
const NO_GROUP: &str = "it refers to a group that it does not have";
const TOO_LARGE: &str = "it is too large once repetitions are written out";

/// The last line says it; what stands before is a drawing.
fn last_line(text: &str) -> String {
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it is malformed").trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Whether flags make `$` stand before every line feed.
fn is_multi_line(pattern: &str) -> bool {
    pattern.match_indices("(?").any(|(at, _)| {
        pattern[at + 2..]
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .any(|flag| flag == 'm')
    })
}

/// Whether the pattern may need to step back. May say so of one that need not.
fn is_hard(pattern: &str) -> bool {
    const SIGNS: &[&str] = &[
        "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "++", "*+", "?+", "}+", "\\k", "\\K", "\\G",
        "\\X", "\\R", "\\Z", "\\g", "(?|", "(?P=", "(?P>", "(?&", "(?R", "(*",
    ];
    SIGNS.iter().any(|sign| pattern.contains(sign))
        || pattern
            .as_bytes()
            .windows(2)
            .any(|pair| pair[0] == b'\\' && pair[1].is_ascii_digit())
}

/// The pattern in the engine's spelling. `before_newline`: `$` stands before a last line feed too.
/// Errors: what the engine would read as something else than it says.
fn translate(pattern: &str, before_newline: bool) -> Result<String, String> {
    /// Horizontal white space, as the inside of a class.
    const HORIZONTAL: &str =
        r"\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
    /// Vertical white space, as the inside of a class.
    const VERTICAL: &str = r"\n\x0B\f\r\x{85}\x{2028}\x{2029}";
    /// A grapheme: a line end, a flag, an emoji sequence, a Hangul syllable, a character with its marks.
    const GRAPHEME: &str = concat!(
        r"(?>\r\n|\p{RI}\p{RI}",
        r"|\p{Extended_Pictographic}[\p{M}\x{1F3FB}-\x{1F3FF}]*",
        r"(?:\x{200D}\p{Extended_Pictographic}[\p{M}\x{1F3FB}-\x{1F3FF}]*)*",
        r"|[\x{1100}-\x{115F}]*[\x{1160}-\x{11A7}]+[\x{11A8}-\x{11FF}]*\p{M}*",
        r"|(?s:.)[\p{M}\x{200D}]*)",
    );
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = 0usize;
    let mut names = Vec::new();
    let mut last = "";
    while let Some(character) = rest.chars().next() {
        let (token, escaped) = match character {
            '\\' => {
                let next = rest[1..].chars().next().map_or(0, char::len_utf8);
                (&rest[..1 + next], true)
            }
            _ => (&rest[..character.len_utf8()], false),
        };
        rest = &rest[token.len()..];
        match (token, escaped) {
            ("\\Q", _) => {
                let (quoted, behind) = rest.split_once("\\E").unwrap_or((rest, ""));
                for character in quoted.chars() {
                    if character.is_ascii_punctuation() {
                        out.push('\\');
                    }
                    out.push(character);
                }
                rest = behind;
            }
            ("\\E", _) => {}
            ("\\c", _) => {
                let control = rest.chars().next().filter(char::is_ascii_graphic);
                let control = control.ok_or_else(|| NO_CONTROL.to_owned())?;
                rest = &rest[1..];
                // A letter stands for the same code in either case.
                let code = control.to_ascii_uppercase() as u8 ^ 0x40;
                out.push_str(&format!("\\x{{{code:X}}}"));
            }
            ("\\h", _) if class > 0 => out.push_str(HORIZONTAL),
            ("\\v", _) if class > 0 => out.push_str(VERTICAL),
            ("\\h" | "\\H" | "\\v" | "\\V", _) if class == 0 => {
                let negated = token.ends_with(char::is_uppercase);
                let horizontal = token.eq_ignore_ascii_case("\\h");
                out.push_str(if negated { "[^" } else { "[" });
                out.push_str(if horizontal { HORIZONTAL } else { VERTICAL });
                out.push(']');
            }
            // Characters that stand for themselves here, and for something else in the engine.
            ("\\<" | "\\>", _) => out.push_str(&token[1..]),
            ("-" | "~", false) if class > 0 && last == token => {
                out.push('\\');
                out.push_str(token);
            }
            ("\\N", _) if rest.starts_with('{') => {
                return Err(format!("unknown escape `{token}{{`"));
            }
            ("\\X", _) if class == 0 => out.push_str(GRAPHEME),
            ("$", false) if class == 0 && before_newline => out.push_str("(?=\\n?\\z)"),
            ("{", false) if class == 0 && counts_down(rest) => return Err(COUNTS_DOWN.to_owned()),
            ("(", false) if class == 0 => {
                if let Some(name) = group_name(rest) {
                    if names.contains(&name) {
                        return Err(format!("two groups are named `{name}`"));
                    }
                    names.push(name);
                }
                out.push('(');
            }
            ("[", false) => {
                class += 1;
                out.push('[');
                // A bracket that closes stands for itself right behind one that opens.
                if let Some(behind) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = behind;
                }
                if let Some(behind) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = behind;
                }
            }
            ("]", false) if class > 0 => {
                class -= 1;
                out.push(']');
            }
            _ => out.push_str(token),
        }
        last = token;
    }
    Ok(out)
}

/// The name of the group that begins in front of `rest`.
fn group_name(rest: &str) -> Option<&str> {
    let named = rest
        .strip_prefix("?<")
        .or_else(|| rest.strip_prefix("?P<"))?;
    // What looks back begins alike.
    let (name, _) = named.split_once('>')?;
    (!name.starts_with(['=', '!'])).then_some(name)
}

/// Whether `rest`, which stands behind `{`, asks for more repetitions at least than at most.
fn counts_down(rest: &str) -> bool {
    let counts = rest
        .split_once('}')
        .and_then(|(counts, _)| counts.split_once(','));
    let Some((least, most)) = counts else {
        return false;
    };
    match (least.parse::<u64>(), most.parse::<u64>()) {
        (Ok(least), Ok(most)) => least > most,
        _ => false,
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#\"{}\"", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str) -> String {
        let regex = match Regex::new(pattern) {
            Ok(regex) => regex,
            Err(problem) => return problem,
        };
        match regex.find_at(text, 0) {
            Ok(Some((start, end))) => text[start..end].to_owned(),
            Ok(None) => "none".to_owned(),
            Err(Exhausted) => "exhausted".to_owned(),
        }
    }

    #[test]
    fn patterns_are_those_of_the_jvm() {
        for (pattern, text, found) in [
            (r"\h+", "a \t\u{a0}b", " \t\u{a0}"),
            (r"[\h,]+", "a ,b", " ,"),
            (r"\H+", " ab ", "ab"),
            (r"\Qa.b\E+", "a.b a.bb", "a.b"),
            (r"^\X$", "e\u{301}", "e\u{301}"),
            (r"^\X$", "👩\u{200d}🚀", "👩\u{200d}🚀"),
            (r"^\X\X$", "🇨🇭🇳🇴", "🇨🇭🇳🇴"),
            (r"a\R", "a\r\n", "a\r\n"),
            (r"c$", "abc\n", "c"),
            (r"c$\n", "abc\n", "c\n"),
            (r"c$", "abc\nx", "none"),
            (r"(?m)b$", "ab\nc\n", "b"),
            (r"[]a]+", "x]a", "]a"),
            (r"[^]a]+", "]xa", "x"),
            (r"(\w)\1", "abccd", "cc"),
            (r"(?<!\$)\b\d+", "$45 67", "67"),
            (r"(?<=a+)b", "aab", "b"),
            (r"a(?#note)b", "ab", "ab"),
            (r"[a{2,1}]+\{2,1\}", "{1{2,1}", "{1{2,1}"),
            (r"a{1,1}b{0,2}", "abb", "abb"),
            (r"\p{Lu}", "aÉ", "É"),
            (r"a\cIb", "a\tb", "a\tb"),
            (r"[\cm\cJ]+", "a\r\n", "\r\n"),
            (r"\c[\c\\c?", "\u{1b}\u{1c}\u{7f}", "\u{1b}\u{1c}\u{7f}"),
            (r"\v+", "a\n\u{b}\u{2028}b", "\n\u{b}\u{2028}"),
            (r"[\v,]+\V", "a\n,b", "\n,b"),
            (r"\<b\>", "a<b>", "<b>"),
            (r"[+--]+", "a+,-.", "+,-"),
            (r"[~~a]+", "b~a", "~a"),
            (r"(?<a>x)(?<b>y)(?<=y)(?<!x)", "xy", "xy"),
        ] {
            assert_eq!(check(pattern, text), found, "{pattern}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (pattern, problem) in [
            ("(", "a group is not closed, add `)`"),
            ("a)", "a `)` closes no group"),
            ("[", "a character class is malformed, check `[` and `]`"),
            ("*a", "a repetition has nothing in front to repeat"),
            ("a\\", "nothing follows the last backslash"),
            (r"\p{Foo}", "Unicode property not found"),
            (r"(\w{100}){100}", TOO_LARGE),
            (r"(a)\2", NO_GROUP),
            ("a{2,1}", COUNTS_DOWN),
            ("(?=b)a{10,9}?", COUNTS_DOWN),
            (r"\N{DIGIT ONE}", r"unknown escape `\N{`"),
            (r"\c", NO_CONTROL),
            (r"\cé", NO_CONTROL),
            ("(?<a>x)|(?<a>y)", "two groups are named `a`"),
            ("(?<a>x)(?P<a>y)(?=z)", "two groups are named `a`"),
            ("(?y)a", "unknown flag `(?y`"),
        ] {
            assert_eq!(check(pattern, ""), problem, "{pattern}");
        }
    }

    #[test]
    fn plain_patterns_may_be_nested_deep() {
        let pattern = "(".repeat(100) + "a" + &")".repeat(100);
        assert_eq!(check(&pattern, "ba"), "a");
        let found = Regex::new(&pattern).unwrap().captures_at("ba", 0).unwrap();
        assert_eq!(found.unwrap().groups(), [Some((1, 2)); 101]);
    }

    #[test]
    fn the_whole_text_is_matched() {
        let whole = |pattern: &str, text: &str| {
            Regex::new(pattern)
                .unwrap()
                .matches(text)
                .unwrap()
                .is_some()
        };
        assert!(whole("a|ab", "ab"));
        assert!(whole("(?x) a b # note", "ab"));
        assert!(whole(r"a$\n", "a\n"));
        assert!(!whole("abc$", "abc\n"));
        assert!(!whole("bc", "abc"));
    }

    #[test]
    fn searches_are_bounded() {
        let text = "a".repeat(50_000) + "!b";
        assert_eq!(check(r"^(a+)+$", &text), "none");
        assert_eq!(check(r"^(?:(a|aa)\1?)+(?=b)", &text), "exhausted");
        assert!(Regex::new(&"a".repeat(257)).is_err());
        assert!(Regex::new(r"(\w{100}){100}").is_err());
    }
}
