//! Reads and prints values as PTC-Lisp prints them, just enough to compare results as data. Knows
//! nothing of programs; the harness has its own reader so that it shares no bug with a target.

use std::fmt;

use crate::json::VALUES_MAX;

/// Nesting depth of collections that [`Edn::parse`] accepts.
const DEPTH_MAX: usize = 256;

/// A printed value. Maps and sets are kept sorted, so equality is by data; an integer never equals
/// a float, and two floats are equal when they are the same double.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edn {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// Decimal digits without leading zeros, possibly after a minus sign.
    Int(String),
    /// The shortest text that reads back to the same double.
    Float(String),
    /// `##Inf`, `##-Inf` or `##NaN`.
    Symbolic(String),
    Keyword(String),
    String(String),
    /// A bare name; in expected data, `<int>` and the like are holes.
    Symbol(String),
    /// `[…]`
    Vector(Vec<Edn>),
    /// `(…)`; no result is printed this way.
    List(Vec<Edn>),
    /// `{…}`, sorted by key, keys unique.
    Map(Vec<(Edn, Edn)>),
    /// `#{…}`, sorted, elements unique.
    Set(Vec<Edn>),
    /// `#fn[name]`, `#'name` or `#"pattern"`, as printed.
    Opaque(String),
}

/// A predicate that decides whether a hole matches a value.
type HolePredicate = fn(&Edn) -> bool;

/// Holes that may appear as values in expected data, with the values that they match.
const HOLES: &[(&str, HolePredicate)] = &[
    ("<any>", |_| true),
    ("<bool>", |value| matches!(value, Edn::Bool(_))),
    ("<int>", |value| matches!(value, Edn::Int(_))),
    ("<float>", |value| matches!(value, Edn::Float(_))),
    ("<number>", |value| {
        matches!(value, Edn::Int(_) | Edn::Float(_))
    }),
    ("<string>", |value| matches!(value, Edn::String(_))),
    ("<keyword>", |value| matches!(value, Edn::Keyword(_))),
    ("<vector>", |value| matches!(value, Edn::Vector(_))),
    ("<map>", |value| matches!(value, Edn::Map(_))),
    ("<set>", |value| matches!(value, Edn::Set(_))),
    (
        "<function>",
        |value| matches!(value, Edn::Opaque(text) if text.starts_with("#fn[")),
    ),
];

/// Why a value can't be what a fixture expects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ExpectedFault {
    #[error("expected a vector: sequences print as vectors, never as lists")]
    List,
    /// A hole where order is not known.
    #[error("expected no hole in a key or a set, found {0}")]
    UnorderedHole(String),
    #[error("expected one of the holes {known}, found {0}", known = hole_names())]
    UnknownHole(String),
}

fn hole_names() -> String {
    let names: Vec<&str> = HOLES.iter().map(|(name, _)| *name).collect();
    names.join(" ")
}

impl Edn {
    /// Parses `text` as exactly one value.
    ///
    /// # Errors
    /// The byte offset, and what was expected there. The limit on the number of values is that of JSON.
    pub fn parse(text: &str) -> Result<Edn, (usize, String)> {
        let mut reader = EdnReader {
            text,
            at: 0,
            values: 0,
        };
        let value = reader.value(0)?;
        reader.skip_blanks();
        if reader.at < text.len() {
            return reader.error("expected one value, found more after it");
        }
        Ok(value)
    }

    /// Parses what a fixture expects: a value in the form in which results are printed, with holes.
    ///
    /// # Errors
    /// As [`Edn::parse`]; also for a list (sequences print as vectors), for an unknown hole, and
    /// for a hole where order is not known (keys, set elements).
    pub fn parse_expected(text: &str) -> Result<Edn, (usize, String)> {
        let value = Edn::parse(text)?;
        value
            .check_expected(true)
            .map_err(|fault| (0, fault.to_string()))?;
        Ok(value)
    }

    fn check_expected(&self, holes: bool) -> Result<(), ExpectedFault> {
        match self {
            Edn::List(_) => Err(ExpectedFault::List),
            Edn::Symbol(name) if name.starts_with('<') && name.ends_with('>') && name.len() > 2 => {
                let known = HOLES.iter().any(|(hole, _)| hole == name);
                match (known, holes) {
                    (true, true) => Ok(()),
                    (true, false) => Err(ExpectedFault::UnorderedHole(name.clone())),
                    (false, _) => Err(ExpectedFault::UnknownHole(name.clone())),
                }
            }
            Edn::Vector(items) => items.iter().try_for_each(|item| item.check_expected(holes)),
            Edn::Set(items) => items.iter().try_for_each(|item| item.check_expected(false)),
            Edn::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                key.check_expected(false)?;
                value.check_expected(holes)
            }),
            _ => Ok(()),
        }
    }

    /// Whether an observed value matches this expected one, including its holes.
    pub fn matches(&self, observed: &Edn) -> bool {
        match (self, observed) {
            (Edn::Symbol(name), observed) => match HOLES.iter().find(|(hole, _)| hole == name) {
                Some((_, takes)) => takes(observed),
                None => self == observed,
            },
            (Edn::Vector(expected), Edn::Vector(observed)) => {
                expected.len() == observed.len()
                    && expected
                        .iter()
                        .zip(observed)
                        .all(|(expected, observed)| expected.matches(observed))
            }
            (Edn::Map(expected), Edn::Map(observed)) => {
                expected.len() == observed.len()
                    && expected.iter().zip(observed).all(
                        |((key, value), (observed_key, observed_value))| {
                            key == observed_key && value.matches(observed_value)
                        },
                    )
            }
            _ => self == observed,
        }
    }
}

/// Canonical text: maps and sets are sorted, so that two values can be compared by eye.
impl fmt::Display for Edn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, open: &str, items: &[Edn], close: &str| {
            f.write_str(open)?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    f.write_str(" ")?;
                }
                write!(f, "{item}")?;
            }
            f.write_str(close)
        };
        match self {
            Edn::Nil => f.write_str("nil"),
            Edn::Bool(value) => write!(f, "{value}"),
            Edn::Int(text)
            | Edn::Float(text)
            | Edn::Symbolic(text)
            | Edn::Symbol(text)
            | Edn::Opaque(text) => f.write_str(text),
            Edn::Keyword(name) => write!(f, ":{name}"),
            Edn::String(text) => {
                f.write_str("\"")?;
                for c in text.chars() {
                    match c {
                        '"' => f.write_str("\\\"")?,
                        '\\' => f.write_str("\\\\")?,
                        '\n' => f.write_str("\\n")?,
                        '\r' => f.write_str("\\r")?,
                        '\t' => f.write_str("\\t")?,
                        c if c.is_control() => write!(f, "\\u{:04X}", c as u32)?,
                        c => write!(f, "{c}")?,
                    }
                }
                f.write_str("\"")
            }
            Edn::Vector(items) => list(f, "[", items, "]"),
            Edn::List(items) => list(f, "(", items, ")"),
            Edn::Set(items) => list(f, "#{", items, "}"),
            Edn::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    write!(f, "{key} {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

struct EdnReader<'t> {
    text: &'t str,
    at: usize,
    values: usize,
}

type ReadResult<T> = Result<T, (usize, String)>;

impl<'t> EdnReader<'t> {
    fn value(&mut self, depth: usize) -> ReadResult<Edn> {
        if depth > DEPTH_MAX {
            return self.error("expected at most 256 levels of nesting");
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return self.error(&format!("expected at most {VALUES_MAX} values"));
        }
        self.skip_blanks();
        let rest = self.rest();
        match rest.as_bytes().first() {
            None => self.error("expected a value, found the end"),
            Some(b'[') => Ok(Edn::Vector(self.items(1, ']', depth)?)),
            Some(b'(') => Ok(Edn::List(self.items(1, ')', depth)?)),
            Some(b'{') => self.map(depth),
            Some(b'"') => Ok(Edn::String(self.string()?)),
            Some(b'#') => self.dispatch(depth),
            Some(b')' | b']' | b'}') => self.error("expected a value, found a closing bracket"),
            Some(b'\\') => self.error("expected a string: a character prints as one"),
            Some(_) => self.atom(),
        }
    }

    fn items(&mut self, open: usize, close: char, depth: usize) -> ReadResult<Vec<Edn>> {
        self.at += open;
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest().starts_with(close) {
                self.at += 1;
                return Ok(items);
            }
            if self.rest().is_empty() {
                return self.error(&format!("expected a value or '{close}', found the end"));
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> ReadResult<Edn> {
        let start = self.at;
        let items = self.items(1, '}', depth)?;
        if items.len() % 2 == 1 {
            return Err((
                start,
                "expected a value for every key of the map".to_owned(),
            ));
        }
        let mut entries = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            entries.push((key, value));
        }
        entries.sort();
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err((
                start,
                format!("expected each key once, found {} twice", pair[0].0),
            ));
        }
        Ok(Edn::Map(entries))
    }

    fn dispatch(&mut self, depth: usize) -> ReadResult<Edn> {
        let start = self.at;
        let rest = self.rest();
        if rest.starts_with("#{") {
            let mut items = self.items(2, '}', depth)?;
            items.sort();
            if let Some(pair) = items.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err((
                    start,
                    format!("expected each element once, found {} twice", pair[0]),
                ));
            }
            return Ok(Edn::Set(items));
        }
        if let Some(word) = ["##Inf", "##-Inf", "##NaN"]
            .into_iter()
            .find(|word| self.token() == *word)
        {
            self.at += word.len();
            return Ok(Edn::Symbolic(word.to_owned()));
        }
        if rest.starts_with("#\"") {
            self.at += 1;
            self.raw_string()?;
        } else if rest.starts_with("#fn[") {
            match rest.find(']') {
                Some(end) => self.at += end + 1,
                None => return self.error("expected ']' after #fn["),
            }
        } else if rest.starts_with("#'") {
            self.at += 2;
            let name = self.token().len();
            if name == 0 {
                return self.error("expected a name after #'");
            }
            self.at += name;
        } else {
            return self.error("expected #{ #\" #' #fn[ ##Inf ##-Inf or ##NaN");
        }
        Ok(Edn::Opaque(self.text[start..self.at].to_owned()))
    }

    /// Skips a string in which a backslash only escapes the next character.
    fn raw_string(&mut self) -> ReadResult<()> {
        let start = self.at;
        let mut chars = self.text[self.at + 1..].char_indices();
        while let Some((index, c)) = chars.next() {
            match c {
                '\\' => {
                    chars.next();
                }
                '"' => {
                    self.at += index + 2;
                    return Ok(());
                }
                _ => {}
            }
        }
        Err((start, "expected a closing quote".to_owned()))
    }

    fn string(&mut self) -> ReadResult<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        while let Some(c) = self.rest().chars().next() {
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => out.push(self.escape()?),
                c => {
                    self.at += c.len_utf8();
                    out.push(c);
                }
            }
        }
        Err((start, "expected a closing quote".to_owned()))
    }

    fn escape(&mut self) -> ReadResult<char> {
        let rest = self.rest().as_bytes();
        let c = match rest.get(1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'u') => {
                let digits = rest
                    .get(2..6)
                    .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                let code = digits
                    .and_then(|digits| std::str::from_utf8(digits).ok())
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(c) = code.and_then(char::from_u32) else {
                    return self.error("expected four hexadecimal digits after \\u");
                };
                self.at += 6;
                return Ok(c);
            }
            _ => return self.error("expected one of n t r b f \" \\ u after '\\'"),
        };
        self.at += 2;
        Ok(c)
    }

    fn atom(&mut self) -> ReadResult<Edn> {
        let token = self.token();
        if token.is_empty() {
            return self.error("expected a value");
        }
        let start = self.at;
        self.at += token.len();
        match token {
            "nil" => Ok(Edn::Nil),
            "true" => Ok(Edn::Bool(true)),
            "false" => Ok(Edn::Bool(false)),
            _ if token.starts_with(':') && token.len() > 1 => {
                Ok(Edn::Keyword(token[1..].to_owned()))
            }
            _ => match number(token) {
                Some(number) => Ok(number),
                None if token.starts_with(|c: char| c.is_ascii_digit())
                    || token.starts_with(':') =>
                {
                    Err((start, format!("expected a value, found {token}")))
                }
                None => Ok(Edn::Symbol(token.to_owned())),
            },
        }
    }

    fn token(&self) -> &'t str {
        let rest = self.rest();
        let stop = |c: char| {
            c.is_whitespace() || matches!(c, ',' | '(' | ')' | '[' | ']' | '{' | '}' | '"' | ';')
        };
        &rest[..rest.find(stop).unwrap_or(rest.len())]
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let blank = |c: char| c.is_whitespace() || c == ',';
        self.at += rest.find(|c: char| !blank(c)).unwrap_or(rest.len());
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn error<T>(&self, message: &str) -> ReadResult<T> {
        Err((self.at, message.to_owned()))
    }
}

fn number(token: &str) -> Option<Edn> {
    let digits = token.strip_prefix(['-', '+']).unwrap_or(token);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let trimmed = digits.trim_start_matches('0');
        return Some(Edn::Int(match trimmed {
            "" => "0".to_owned(),
            trimmed if token.starts_with('-') => format!("-{trimmed}"),
            trimmed => trimmed.to_owned(),
        }));
    }
    let plain = digits
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let value: f64 = token.parse().ok().filter(|_| plain)?;
    value.is_finite().then(|| Edn::Float(format!("{value:?}")))
}

#[cfg(test)]
mod tests;
