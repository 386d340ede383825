//! Parses patterns: exactly the syntax that the specification names, even where a library would accept more. Knows
//! nothing of how patterns are matched.
//!
//! Groups are kept on an explicit stack, so depth takes no native stack here.

use regex_syntax::hir::{self, Class, ClassUnicode, ClassUnicodeRange, HirKind};
use regex_syntax::{ParserBuilder, ast};

use super::PATTERN_BYTES_MAX;

/// A pattern as a tree.
#[derive(Clone, Debug)]
pub enum Node {
    Empty,
    Char(char),
    /// One character from a set.
    Class(ClassUnicode),
    /// A zero-width assertion.
    Assert(Assert),
    /// Nodes in sequence.
    Cat(Vec<Node>),
    /// Alternatives; the first that leads to a match wins.
    Alt(Vec<Node>),
    /// A capture group with its number.
    Group(usize, Box<Node>),
    /// A repetition.
    Repeat {
        node: Box<Node>,
        /// The least number of times.
        min: u32,
        /// The largest number of times; `None` when there is no upper bound.
        max: Option<u32>,
        greed: Greed,
    },
    /// An atomic group, whose first match is kept: `(?>…)`.
    Atomic(Box<Node>),
    Look {
        /// Whether it is a look-ahead rather than a look-behind.
        ahead: bool,
        /// Whether the look-around holds when `node` does not match.
        negative: bool,
        node: Box<Node>,
    },
    /// The text that a group matched.
    Backref {
        group: usize,
        /// Whether case is ignored.
        folded: bool,
    },
}

/// How much a repetition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greed {
    /// As much as possible.
    Greedy,
    /// As little as possible.
    Lazy,
    /// As much as possible, without backtracking.
    Possessive,
}

/// A zero-width assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assert {
    /// `\A`
    Start,
    /// `\z`
    End,
    /// `\Z`, and `$` without the flag `m`: the end of the text, or before a final line feed.
    EndOrLineFeed,
    /// `^` with the flag `m`: the start of the text, or after a line feed that is not the last character.
    LineStart,
    /// `$` with the flag `m`.
    LineEnd,
    /// `\b`
    Word,
    /// `\B`
    NotWord,
    /// `\G`: the position where the search began.
    Continue,
}

/// A parsed pattern.
#[derive(Debug)]
pub struct Parsed {
    pub node: Node,
    pub groups: usize,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`: case is ignored.
    folded: bool,
    /// `m`: `^` and `$` match at line ends.
    lines: bool,
    /// `s`: `.` matches a line feed.
    all: bool,
    /// `x`: white space and comments are ignored.
    spaced: bool,
    /// `U`: repetitions are lazy unless marked.
    swapped: bool,
}

enum GroupKind {
    Plain,
    Group(usize),
    Atomic,
    Look { ahead: bool, negative: bool },
}

/// A group that is still open, with the state to restore when it closes.
struct OpenGroup {
    kind: GroupKind,
    outer: Flags,
    branches: Vec<Node>,
    items: Vec<Node>,
}

struct Parser<'p> {
    rest: &'p str,
    flags: Flags,
    open: Vec<OpenGroup>,
    branches: Vec<Node>,
    items: Vec<Node>,
    groups: usize,
    names: Vec<(&'p str, usize)>,
    /// Names in references, in order of appearance; resolved at the end.
    named: Vec<&'p str>,
    /// The largest group number that is referred to.
    referred: usize,
    /// Whether a quantifier may follow the last item.
    repeatable: bool,
}

/// Horizontal white space, as the inside of a class.
const HORIZONTAL: &str = r"\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
/// Vertical white space, as the inside of a class.
const VERTICAL: &str = r"\n\x0B\f\r\x{85}\x{2028}\x{2029}";
const LINE_END: &str = r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])";
/// A grapheme: a line end, a flag, an emoji sequence, a Hangul syllable, or a character with its marks.
const GRAPHEME: &str = concat!(
    r"(?>\r\n|\p{RI}\p{RI}",
    r"|\p{Extended_Pictographic}[\p{M}\x{1F3FB}-\x{1F3FF}]*",
    r"(?:\x{200D}\p{Extended_Pictographic}[\p{M}\x{1F3FB}-\x{1F3FF}]*)*",
    r"|[\x{1100}-\x{115F}]*[\x{1160}-\x{11A7}]+[\x{11A8}-\x{11FF}]*\p{M}*",
    r"|(?s:.)[\p{M}\x{200D}]*)",
);

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a pattern has at most {PATTERN_BYTES_MAX} bytes, this one has {bytes}")]
    TooLong { bytes: usize },
    #[error("it is too large once repetitions are written out")]
    TooLarge,
    #[error("a character class is malformed, check `[` and `]`")]
    Class,
    #[error("a range like [a-z] in a character class starts with the smaller character")]
    RangeCountsDown,
    #[error("a range like [a-z] has one character on either side")]
    Range,
    #[error("{0}")]
    Property(hir::ErrorKind),
    #[error("the name of a property follows `\\p`, as in `\\p{{L}}`")]
    NoProperty,
    #[error("a character code is malformed")]
    Code,
    #[error("a letter follows `\\c`, as in `\\cA`")]
    NoControl,
    #[error("unknown escape `{0}`")]
    Escape(String),
    #[error("nothing follows the last backslash")]
    NothingFollows,
    #[error("a group is not closed, add `)`")]
    NotClosed,
    #[error("a `)` closes no group")]
    NotOpen,
    #[error("the name of a group is malformed")]
    Name,
    #[error("two groups are named `{0}`")]
    SameName(String),
    #[error("it refers to a group that it does not have")]
    NoGroup,
    #[error("unknown flag `(?{minus}{letter}`")]
    Flag { minus: &'static str, letter: char },
    #[error("unknown group `(?{minus}{sign}`")]
    Group { minus: &'static str, sign: char },
    #[error("a repetition like {{2,5}} is malformed")]
    Repetition,
    #[error("a repetition like {{2,5}} starts with the smaller number")]
    CountsDown,
    #[error("a repetition has nothing in front to repeat")]
    NothingToRepeat,
}

/// Group numbers from this one on stand for references by name that are not resolved yet.
const UNRESOLVED_GROUP: usize = 1 << 20;

/// Parses `pattern`.
pub fn parse(pattern: &str) -> Result<Parsed, PatternError> {
    let mut parser = Parser {
        rest: pattern,
        flags: Flags::default(),
        open: Vec::new(),
        branches: Vec::new(),
        items: Vec::new(),
        groups: 0,
        names: Vec::new(),
        named: Vec::new(),
        referred: 0,
        repeatable: false,
    };
    parser.alternatives()?;
    let mut node = parser.finish_group();
    if parser.referred > parser.groups {
        return Err(PatternError::NoGroup);
    }
    if !parser.named.is_empty() {
        let groups = parser.named.iter().map(|name| {
            let known = parser.names.iter().find(|(known, _)| known == name);
            known.map(|(_, group)| *group)
        });
        let groups = groups.collect::<Option<Vec<_>>>();
        resolve(&mut node, &groups.ok_or(PatternError::NoGroup)?);
    }
    Ok(Parsed {
        node,
        groups: parser.groups,
    })
}

/// Replaces references by name with group numbers.
fn resolve(node: &mut Node, groups: &[usize]) {
    match node {
        Node::Backref { group, .. } if *group >= UNRESOLVED_GROUP => {
            *group = groups[*group - UNRESOLVED_GROUP]
        }
        Node::Cat(nodes) | Node::Alt(nodes) => {
            nodes.iter_mut().for_each(|node| resolve(node, groups));
        }
        Node::Group(_, node)
        | Node::Atomic(node)
        | Node::Repeat { node, .. }
        | Node::Look { node, .. } => resolve(node, groups),
        _ => {}
    }
}

impl<'p> Parser<'p> {
    fn alternatives(&mut self) -> Result<(), PatternError> {
        while let Some(next) = self.rest.chars().next() {
            if self.flags.spaced && self.skip_space(next) {
                continue;
            }
            let after = &self.rest[next.len_utf8()..];
            match next {
                '\\' => self.escape()?,
                '[' => {
                    let text = self.class_text()?;
                    let class = class(&text, self.flags)?;
                    self.push(class);
                }
                '(' => self.open_group()?,
                ')' => {
                    self.rest = after;
                    let node = self.finish_group();
                    let open = self.open.pop().ok_or(PatternError::NotOpen)?;
                    self.branches = open.branches;
                    self.items = open.items;
                    self.flags = open.outer;
                    let node = Box::new(node);
                    self.push(match open.kind {
                        GroupKind::Plain => *node,
                        GroupKind::Group(index) => Node::Group(index, node),
                        GroupKind::Atomic => Node::Atomic(node),
                        GroupKind::Look { ahead, negative } => Node::Look {
                            ahead,
                            negative,
                            node,
                        },
                    });
                }
                '|' => {
                    self.rest = after;
                    let branch = cat(std::mem::take(&mut self.items));
                    self.branches.push(branch);
                    self.repeatable = false;
                }
                '*' | '+' | '?' | '{' => self.repeat(next)?,
                '^' | '$' => {
                    self.rest = after;
                    self.push(Node::Assert(match (next, self.flags.lines) {
                        ('^', false) => Assert::Start,
                        ('^', true) => Assert::LineStart,
                        (_, false) => Assert::EndOrLineFeed,
                        (_, true) => Assert::LineEnd,
                    }));
                }
                '.' => {
                    self.rest = after;
                    let mut any = ClassUnicode::empty();
                    if !self.flags.all {
                        any.push(ClassUnicodeRange::new('\n', '\n'));
                    }
                    any.negate();
                    self.push(Node::Class(any));
                }
                literal => {
                    self.rest = after;
                    self.literal(literal);
                }
            }
        }
        if self.open.is_empty() {
            Ok(())
        } else {
            Err(PatternError::NotClosed)
        }
    }

    /// The content of the innermost open group as one node.
    fn finish_group(&mut self) -> Node {
        let last = cat(std::mem::take(&mut self.items));
        let mut branches = std::mem::take(&mut self.branches);
        if branches.is_empty() {
            return last;
        }
        branches.push(last);
        Node::Alt(branches)
    }

    fn push(&mut self, node: Node) {
        self.items.push(node);
        self.repeatable = true;
    }

    fn literal(&mut self, literal: char) {
        let node = if self.flags.folded {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(literal, literal)]);
            // Case folding fails only without the Unicode tables, which are built in.
            let _ = class.try_case_fold_simple();
            match class.ranges() {
                [only] if only.start() == only.end() => Node::Char(literal),
                _ => Node::Class(class),
            }
        } else {
            Node::Char(literal)
        };
        self.push(node);
    }

    /// Skips white space or a comment, as the flag `x` allows. Returns false when `next` starts neither.
    fn skip_space(&mut self, next: char) -> bool {
        if next.is_whitespace() {
            self.rest = &self.rest[next.len_utf8()..];
            return true;
        }
        if next == '#' {
            self.rest = self.rest.split_once('\n').map_or("", |(_, after)| after);
            return true;
        }
        false
    }

    fn repeat(&mut self, sign: char) -> Result<(), PatternError> {
        self.rest = &self.rest[1..];
        let (min, max) = match sign {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            _ => self.repetition_bounds()?,
        };
        if !std::mem::take(&mut self.repeatable) {
            return Err(PatternError::NothingToRepeat);
        }
        let greed = if self.take("?") {
            if self.flags.swapped {
                Greed::Greedy
            } else {
                Greed::Lazy
            }
        } else if self.take("+") {
            Greed::Possessive
        } else if self.flags.swapped {
            Greed::Lazy
        } else {
            Greed::Greedy
        };
        let node = Box::new(self.items.pop().unwrap_or(Node::Empty));
        self.items.push(Node::Repeat {
            node,
            min,
            max,
            greed,
        });
        Ok(())
    }

    /// The minimum and maximum after `{`.
    fn repetition_bounds(&mut self) -> Result<(u32, Option<u32>), PatternError> {
        let (inside, after) = self.rest.split_once('}').ok_or(PatternError::Repetition)?;
        self.rest = after;
        let number = |digits: &str| {
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(PatternError::Repetition);
            }
            digits.parse::<u32>().map_err(|_| PatternError::TooLarge)
        };
        let (min, max) = match inside.split_once(',') {
            None => {
                let count = number(inside)?;
                (count, Some(count))
            }
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        if max.is_some_and(|max| max < min) {
            return Err(PatternError::CountsDown);
        }
        Ok((min, max))
    }

    /// Consumes `sign` if it follows; returns whether it did.
    fn take(&mut self, sign: &str) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn open_group(&mut self) -> Result<(), PatternError> {
        self.rest = &self.rest[1..];
        let outer = self.flags;
        let kind = if !self.take("?") {
            self.groups += 1;
            GroupKind::Group(self.groups)
        } else if self.take("#") {
            let (_, after) = self.rest.split_once(')').ok_or(PatternError::NotClosed)?;
            self.rest = after;
            return Ok(());
        } else if self.take(":") {
            GroupKind::Plain
        } else if self.take(">") {
            GroupKind::Atomic
        } else if let Some((ahead, negative)) = self.look_around() {
            GroupKind::Look { ahead, negative }
        } else if self.take("<") || self.take("P<") {
            self.groups += 1;
            let name = self.name()?;
            if self.names.iter().any(|(known, _)| *known == name) {
                return Err(PatternError::SameName(name.to_owned()));
            }
            self.names.push((name, self.groups));
            GroupKind::Group(self.groups)
        } else {
            match self.flags_of_group()? {
                true => GroupKind::Plain,
                false => {
                    self.repeatable = false;
                    return Ok(());
                }
            }
        };
        self.open.push(OpenGroup {
            kind,
            outer,
            branches: std::mem::take(&mut self.branches),
            items: std::mem::take(&mut self.items),
        });
        self.repeatable = false;
        Ok(())
    }

    fn look_around(&mut self) -> Option<(bool, bool)> {
        const SIGNS: [(&str, bool, bool); 4] = [
            ("=", true, false),
            ("!", true, true),
            ("<=", false, false),
            ("<!", false, true),
        ];
        let found = SIGNS.iter().find(|(sign, ..)| self.rest.starts_with(sign));
        let (sign, ahead, negative) = found?;
        self.take(sign);
        Some((*ahead, *negative))
    }

    /// The name before `>`.
    fn name(&mut self) -> Result<&'p str, PatternError> {
        let (name, after) = self.rest.split_once('>').ok_or(PatternError::Name)?;
        let rightly = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !rightly {
            return Err(PatternError::Name);
        }
        self.rest = after;
        Ok(name)
    }

    /// The flags after `(?`. Returns true when they apply to a group that follows, false when they apply to the rest of
    /// the enclosing group.
    fn flags_of_group(&mut self) -> Result<bool, PatternError> {
        let mut on = true;
        let mut flags = self.flags;
        loop {
            let Some(next) = self.rest.chars().next() else {
                return Err(PatternError::NotClosed);
            };
            self.rest = &self.rest[next.len_utf8()..];
            match next {
                'i' => flags.folded = on,
                'm' => flags.lines = on,
                's' => flags.all = on,
                'x' => flags.spaced = on,
                'U' => flags.swapped = on,
                // Case folding always follows Unicode.
                'u' if on => {}
                '-' if on => on = false,
                ')' | ':' => {
                    self.flags = flags;
                    return Ok(next == ':');
                }
                other => {
                    let minus = if on { "" } else { "-" };
                    return Err(match other.is_ascii_alphabetic() {
                        true => PatternError::Flag {
                            minus,
                            letter: other,
                        },
                        false => PatternError::Group { minus, sign: other },
                    });
                }
            }
        }
    }

    /// An escape outside of classes.
    fn escape(&mut self) -> Result<(), PatternError> {
        let Some(next) = self.rest[1..].chars().next() else {
            return Err(PatternError::NothingFollows);
        };
        let token = &self.rest[..1 + next.len_utf8()];
        self.rest = &self.rest[token.len()..];
        match next {
            'Q' => {
                let (quoted, after) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = after;
                quoted.chars().for_each(|quoted| self.literal(quoted));
            }
            'E' => {}
            'A' => self.push(Node::Assert(Assert::Start)),
            'z' => self.push(Node::Assert(Assert::End)),
            'Z' => self.push(Node::Assert(Assert::EndOrLineFeed)),
            'G' => self.push(Node::Assert(Assert::Continue)),
            'b' | 'B' if self.rest.starts_with('{') => {
                return Err(PatternError::Escape(format!("{token}{{")));
            }
            'b' => self.push(Node::Assert(Assert::Word)),
            'B' => self.push(Node::Assert(Assert::NotWord)),
            'R' => self.push(parse(LINE_END)?.node),
            'X' => self.push(parse(GRAPHEME)?.node),
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                let class = class(token, self.flags)?;
                self.push(class);
            }
            'h' | 'H' | 'v' | 'V' => {
                let class = class(&space_class(next), Flags::default())?;
                self.push(class);
            }
            'p' | 'P' => {
                let mut text = token.to_owned();
                self.property(&mut text)?;
                let class = class(&text, self.flags)?;
                self.push(class);
            }
            'k' => {
                if !self.take("<") {
                    return Err(PatternError::Name);
                }
                let name = self.name()?;
                self.named.push(name);
                self.push(Node::Backref {
                    group: UNRESOLVED_GROUP + self.named.len() - 1,
                    folded: self.flags.folded,
                });
            }
            '1'..='9' => {
                let mut group = next as usize - '0' as usize;
                // Further digits belong to the number as long as a group with that number exists.
                while let Some(digit) = self.rest.chars().next().and_then(|next| next.to_digit(10))
                    && group * 10 + digit as usize <= self.groups
                {
                    group = group * 10 + digit as usize;
                    self.rest = &self.rest[1..];
                }
                self.referred = self.referred.max(group);
                self.push(Node::Backref {
                    group,
                    folded: self.flags.folded,
                });
            }
            _ => {
                let character = self.character(token, next)?;
                self.literal(character);
            }
        }
        Ok(())
    }

    /// The character that an escape stands for, inside or outside of a class; `rest` begins after `token`.
    fn character(&mut self, token: &str, next: char) -> Result<char, PatternError> {
        Ok(match next {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'c' => {
                let control = self.rest.chars().next().filter(char::is_ascii_graphic);
                let control = control.ok_or(PatternError::NoControl)?;
                self.rest = &self.rest[1..];
                // A control letter has the same code in either case.
                char::from(control.to_ascii_uppercase() as u8 ^ 0x40)
            }
            'x' => {
                let digits = if self.take("{") {
                    let (digits, after) = self.rest.split_once('}').ok_or(PatternError::Code)?;
                    self.rest = after;
                    digits
                } else {
                    self.digits(2)?
                };
                char::from_u32(hexadecimal(digits)?).ok_or(PatternError::Code)?
            }
            'u' if self.rest.starts_with('{') => {
                return Err(PatternError::Escape(format!("{token}{{")));
            }
            'u' => {
                let digits = self.digits(4)?;
                let mut code = hexadecimal(digits)?;
                if (0xd800..0xdc00).contains(&code) && self.take("\\u") {
                    let digits = self.digits(4)?;
                    let low = hexadecimal(digits)?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                char::from_u32(code).ok_or(PatternError::Code)?
            }
            next if next.is_ascii_alphanumeric() => {
                return Err(PatternError::Escape(token.to_owned()));
            }
            next => next,
        })
    }

    /// The next `count` characters, as the digits of a code point.
    fn digits(&mut self, count: usize) -> Result<&'p str, PatternError> {
        let digits = self.rest.get(..count).ok_or(PatternError::Code)?;
        self.rest = &self.rest[count..];
        Ok(digits)
    }

    /// Appends the name of a Unicode property, which follows the `\p` or `\P` at the end of `text`.
    fn property(&mut self, text: &mut String) -> Result<(), PatternError> {
        /// Classes that are written like properties in Java, with their members in Unicode.
        const CLASSES: &[(&str, &str)] = &[
            ("{Alnum}", r"\p{Alphabetic}\p{Nd}"),
            ("{Blank}", r"\t\p{Zs}"),
            ("{Graph}", r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}"),
            ("{Print}", r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs}"),
            ("{XDigit}", r"\p{Hex_Digit}\p{Nd}"),
        ];
        let length = match self.rest.chars().next() {
            Some('{') => self.rest.find('}').map(|end| end + 1),
            Some(letter) if letter.is_ascii_alphabetic() => Some(1),
            _ => None,
        };
        let Some(length) = length else {
            return Err(PatternError::NoProperty);
        };
        let name = &self.rest[..length];
        if name.contains('^') {
            let unknown = hir::ErrorKind::UnicodePropertyNotFound;
            return Err(PatternError::Property(unknown));
        }
        self.rest = &self.rest[length..];
        match CLASSES.iter().find(|(class, _)| *class == name) {
            Some((_, members)) => {
                let open = if text.ends_with('P') { "[^" } else { "[" };
                text.truncate(text.len() - r"\p".len());
                *text += &format!("{open}{members}]");
            }
            None => text.push_str(name),
        }
        Ok(())
    }

    /// A class in brackets, in the syntax of the library that evaluates character classes.
    fn class_text(&mut self) -> Result<String, PatternError> {
        let mut out = String::new();
        let mut depth = 0usize;
        let mut last = "";
        loop {
            let Some(next) = self.rest.chars().next() else {
                return Err(PatternError::Class);
            };
            let length = match next {
                '\\' => 1 + self.rest[1..].chars().next().map_or(0, char::len_utf8),
                _ => next.len_utf8(),
            };
            let token = &self.rest[..length];
            self.rest = &self.rest[length..];
            match next {
                '\\' => self.class_escape(token, &mut out)?,
                '[' => {
                    depth += 1;
                    out.push('[');
                    if self.take("^") {
                        out.push('^');
                    }
                    // A closing bracket directly after the opening one stands for itself.
                    if self.take("]") {
                        out.push_str("\\]");
                    }
                }
                ']' => {
                    depth -= 1;
                    out.push(']');
                    if depth == 0 {
                        return Ok(out);
                    }
                }
                '-' | '~' if last == token => {
                    out.push('\\');
                    out.push(next);
                }
                // Behind a class there is no range that could begin.
                '-' if is_class_escape(last) => out.push_str("\\-"),
                _ => out.push(next),
            }
            last = token;
        }
    }

    /// An escape in a class.
    fn class_escape(&mut self, token: &'p str, out: &mut String) -> Result<(), PatternError> {
        let Some(next) = token.chars().nth(1) else {
            return Err(PatternError::NothingFollows);
        };
        match next {
            'Q' => {
                let (quoted, after) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = after;
                quoted.chars().for_each(|quoted| push_literal(out, quoted));
            }
            'E' => {}
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => out.push_str(token),
            'h' | 'H' | 'v' | 'V' => out.push_str(&space_class(next)),
            'p' | 'P' => {
                out.push_str(token);
                self.property(out)?;
            }
            _ => {
                let character = self.character(token, next)?;
                push_literal(out, character);
            }
        }
        Ok(())
    }
}

/// Whether a token is an escape that stands for several characters.
fn is_class_escape(token: &str) -> bool {
    let letter = token.strip_prefix('\\').unwrap_or_default();
    matches!(
        letter,
        "d" | "D" | "w" | "W" | "s" | "S" | "h" | "H" | "v" | "V" | "p" | "P"
    )
}

/// Appends a character, escaped so that it stands only for itself.
fn push_literal(out: &mut String, character: char) {
    out.push_str(&format!("\\x{{{:X}}}", u32::from(character)));
}

fn hexadecimal(digits: &str) -> Result<u32, PatternError> {
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(PatternError::Code);
    }
    u32::from_str_radix(digits, 16).map_err(|_| PatternError::Code)
}

/// The class that `\h` or a related escape stands for.
fn space_class(letter: char) -> String {
    let negated = if letter.is_ascii_uppercase() { "^" } else { "" };
    let inside = match letter.to_ascii_lowercase() {
        'h' => HORIZONTAL,
        _ => VERTICAL,
    };
    format!("[{negated}{inside}]")
}

/// The set of characters of the class `text`.
fn class(text: &str, flags: Flags) -> Result<Node, PatternError> {
    let mut parser = ParserBuilder::new()
        .case_insensitive(flags.folded)
        .ignore_whitespace(flags.spaced)
        .build();
    let hir = parser.parse(text).map_err(|error| class_problem(&error))?;
    Ok(match hir.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Node::Class(class),
        HirKind::Class(Class::Bytes(class)) => {
            Node::Class(ClassUnicode::new(class.ranges().iter().map(|range| {
                ClassUnicodeRange::new(range.start().into(), range.end().into())
            })))
        }
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok();
            let only = text.and_then(|text| text.chars().next());
            only.map(Node::Char).ok_or(PatternError::Class)?
        }
        _ => return Err(PatternError::Class),
    })
}

/// What is wrong with a class.
fn class_problem(error: &regex_syntax::Error) -> PatternError {
    use ast::ErrorKind::{ClassRangeInvalid, ClassRangeLiteral};
    match error {
        regex_syntax::Error::Parse(error) => match error.kind() {
            ClassRangeInvalid => PatternError::RangeCountsDown,
            ClassRangeLiteral => PatternError::Range,
            _ => PatternError::Class,
        },
        regex_syntax::Error::Translate(error) => PatternError::Property(error.kind().clone()),
        _ => PatternError::Class,
    }
}

fn cat(mut items: Vec<Node>) -> Node {
    match items.len() {
        0 => Node::Empty,
        1 => items.pop().unwrap_or(Node::Empty),
        _ => Node::Cat(items),
    }
}

impl Node {
    /// The smallest and largest number of characters in a match; `None` when there is no known upper bound.
    pub fn width(&self) -> (usize, Option<usize>) {
        match self {
            Node::Empty | Node::Assert(_) | Node::Look { .. } => (0, Some(0)),
            Node::Char(_) | Node::Class(_) => (1, Some(1)),
            Node::Cat(nodes) => nodes.iter().fold((0, Some(0)), |(min, max), node| {
                let width = node.width();
                let max = max.zip(width.1).map(|(a, b)| usize::saturating_add(a, b));
                (usize::saturating_add(min, width.0), max)
            }),
            Node::Alt(nodes) => nodes
                .iter()
                .map(Node::width)
                .reduce(|a, b| (a.0.min(b.0), a.1.zip(b.1).map(|(a, b)| a.max(b))))
                .unwrap_or((0, Some(0))),
            Node::Group(_, node) | Node::Atomic(node) => node.width(),
            Node::Repeat { node, min, max, .. } => {
                let width = node.width();
                let most = match (max, width.1) {
                    (_, Some(0)) => Some(0),
                    (Some(max), Some(each)) => Some(each.saturating_mul(*max as usize)),
                    _ => None,
                };
                (width.0.saturating_mul(*min as usize), most)
            }
            Node::Backref { .. } => (0, None),
        }
    }

    /// Whether one pass over the text always suffices: the pattern has no look-around, back-reference, atomic group or
    /// possessive repetition.
    pub fn is_plain(&self) -> bool {
        match self {
            Node::Empty | Node::Char(_) | Node::Class(_) | Node::Assert(_) => true,
            Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().all(Node::is_plain),
            Node::Group(_, node) => node.is_plain(),
            Node::Repeat { node, greed, .. } => *greed != Greed::Possessive && node.is_plain(),
            Node::Atomic(_) | Node::Look { .. } | Node::Backref { .. } => false,
        }
    }

    /// Whether an iteration that is not the only one of its loop may match the empty string.
    pub fn has_empty_iteration(&self) -> bool {
        match self {
            Node::Repeat { node, max, .. } => {
                max.is_none_or(|max| max > 1) && node.width().0 == 0 || node.has_empty_iteration()
            }
            Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().any(Node::has_empty_iteration),
            Node::Group(_, node) | Node::Atomic(node) | Node::Look { node, .. } => {
                node.has_empty_iteration()
            }
            _ => false,
        }
    }

    /// Whether `assert` occurs anywhere in the node.
    pub fn asserts(&self, assert: Assert) -> bool {
        match self {
            Node::Assert(here) => *here == assert,
            Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().any(|node| node.asserts(assert)),
            Node::Group(_, node)
            | Node::Atomic(node)
            | Node::Repeat { node, .. }
            | Node::Look { node, .. } => node.asserts(assert),
            _ => false,
        }
    }

    /// Approximate number of instructions after repetitions are expanded; saturating.
    pub fn size(&self) -> u64 {
        match self {
            Node::Empty => 0,
            Node::Char(_) | Node::Class(_) | Node::Assert(_) | Node::Backref { .. } => 1,
            Node::Cat(nodes) => nodes.iter().map(Node::size).fold(0, u64::saturating_add),
            Node::Alt(nodes) => nodes
                .iter()
                .map(|node| node.size().saturating_add(2))
                .fold(0, u64::saturating_add),
            Node::Group(_, node) | Node::Atomic(node) | Node::Look { node, .. } => {
                node.size().saturating_add(2)
            }
            Node::Repeat { node, min, max, .. } => {
                let each = node.size().saturating_add(2);
                let times = max.unwrap_or(min.saturating_add(1)).max(1);
                each.saturating_mul(times.into()).saturating_add(2)
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Node::Class(class) => size_of_val(class.ranges()),
            Node::Cat(nodes) | Node::Alt(nodes) => {
                nodes.capacity() * size_of::<Node>()
                    + nodes.iter().map(Node::heap_bytes).sum::<usize>()
            }
            Node::Group(_, node)
            | Node::Atomic(node)
            | Node::Repeat { node, .. }
            | Node::Look { node, .. } => size_of::<Node>() + node.heap_bytes(),
            _ => 0,
        }
    }

    /// Approximate number of states of the library's automaton: a class takes more than one.
    pub fn states(&self) -> u64 {
        match self {
            Node::Class(class) => 2 + class.ranges().len() as u64,
            Node::Cat(nodes) | Node::Alt(nodes) => {
                nodes.iter().map(Node::states).fold(2, u64::saturating_add)
            }
            Node::Group(_, node) => node.states().saturating_add(2),
            Node::Repeat { node, min, max, .. } => {
                // An unbounded repetition is expanded to one copy, or to its minimum.
                let times = max.unwrap_or(*min).max(1);
                node.states().saturating_add(2).saturating_mul(times.into())
            }
            _ => 4,
        }
    }
}
