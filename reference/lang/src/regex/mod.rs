//! Regular expressions: compiled once, compared by their text. Knows nothing of how functions use them.
//!
//! A pattern is read by a parser of our own, so that it means what the specification says. Three engines search, and
//! none of them does more than a millisecond of work between two calls of the meter:
//! - the library's best one, where pattern times text is so little that it cannot take long, whatever it does;
//! - for longer texts its lazy automaton, driven byte by byte, and where that is of no use, one of our own that
//!   follows all ways at once;
//! - one that steps back, for look-around, back-references and what gives nothing back.

mod automata;
mod backtrack;
mod parse;
mod program;
mod threads;

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use regex_automata::{Input, meta};
use smallvec::SmallVec;

use crate::clock::Meter;
use crate::error::Stop;
use automata::{Automata, Built};
use parse::{Assert, Node, Parsed, TOO_LARGE};
use program::Program;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Instructions of a pattern once repetitions are written out.
const SIZE_MAX: u64 = 1 << 15;
/// States of the library's automaton, about, beyond which it is not built: compiling looks at no clock, and so many take less than a
/// millisecond.
const STATES_MAX: u64 = 1 << 12;
/// Steps that compiling takes, about.
const COMPILE_STEPS: usize = 1 << 15;
/// Pattern times text that the library may search at one go.
const DIRECT_STEPS_MAX: u64 = 1 << 17;
/// Bytes of what searches built that are kept for the next one.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Where each slot stands: the start and the end of the match and of each group; `usize::MAX` for nowhere.
type Slots = SmallVec<[usize; 8]>;

/// A regular expression that was found to be right. It is compiled where it searches: see [`Scratch`], so that what is
/// kept from program to program is its text.
pub struct Regex {
    source: Box<str>,
    groups: usize,
}

/// What searches for a regex.
struct Compiled {
    node: Node,
    groups: usize,
    /// Searched without stepping back.
    plain: bool,
    /// Steps that one character may take at most.
    steps: u64,
    /// Whether `$` stands anywhere that a last line feed changes.
    dollar: bool,
    /// Whether `\\G` stands anywhere.
    continues: bool,
    /// Of plain patterns that are not large.
    direct: Option<meta::Regex>,
    /// Compiled when first needed, as all that follows: for the whole of a text.
    whole: OnceCell<Option<meta::Regex>>,
    automata: OnceCell<Option<Automata>>,
    program: OnceCell<Program>,
}

/// Where a match and its groups start and end, in bytes; a group that took no part has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    slots: Slots,
}

impl Match {
    /// Where the match starts and ends.
    pub fn span(&self) -> (usize, usize) {
        self.group(0).unwrap_or_default()
    }

    /// Where group `at` starts and ends; 0 is the match.
    pub fn group(&self, at: usize) -> Option<(usize, usize)> {
        let start = *self.slots.get(at.checked_mul(2)?)?;
        let end = *self.slots.get(2 * at + 1)?;
        (start <= end && end != usize::MAX).then_some((start, end))
    }

    /// The match and its groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Option<(usize, usize)>> {
        (0..self.slots.len() / 2).map(|at| self.group(at))
    }
}

/// What searches compiled and built, kept for the next search with the same regex as long as the program runs.
#[derive(Default)]
pub struct Scratch {
    /// The last one used stands in front.
    kept: Vec<Kept>,
}

struct Kept {
    regex: Arc<Regex>,
    compiled: Compiled,
    built: Caches,
}

#[derive(Default)]
struct Caches {
    direct: Option<meta::Cache>,
    whole: Option<meta::Cache>,
    automata: Option<Built>,
}

impl Scratch {
    /// What is kept for `regex`, compiled when it is new here.
    #[inline]
    fn of(&mut self, regex: &Arc<Regex>, meter: &mut dyn Meter) -> Result<&mut Kept, Stop> {
        let known = self
            .kept
            .iter()
            .position(|kept| Arc::ptr_eq(&kept.regex, regex));
        match known {
            Some(0) => {}
            Some(at) => self.kept[..=at].rotate_right(1),
            None => self.compile(regex, meter)?,
        }
        Ok(&mut self.kept[0])
    }

    #[cold]
    fn compile(&mut self, regex: &Arc<Regex>, meter: &mut dyn Meter) -> Result<(), Stop> {
        meter.work(COMPILE_STEPS)?;
        let mut bytes = 0;
        self.kept.retain(|kept| {
            bytes += kept.bytes();
            bytes < KEPT_BYTES_MAX
        });
        let parsed = checked(&regex.source).expect("the pattern was right when it was read");
        let kept = Kept {
            regex: Arc::clone(regex),
            compiled: Compiled::new(parsed),
            built: Caches::default(),
        };
        self.kept.insert(0, kept);
        Ok(())
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let caches = [&self.built.direct, &self.built.whole];
        let caches = caches.into_iter().flatten();
        let built = self.built.automata.as_ref().map_or(0, Built::heap_bytes);
        caches.map(meta::Cache::memory_usage).sum::<usize>()
            + built
            + self.compiled.heap_bytes()
            + size_of::<Kept>()
    }
}

/// What `pattern` says, when it is right and not too large.
fn checked(pattern: &str) -> Result<Parsed, String> {
    let parsed = parse::parse(pattern)?;
    if parsed.node.size() > SIZE_MAX {
        return Err(TOO_LARGE.to_owned());
    }
    Ok(parsed)
}

impl Regex {
    /// Reads `pattern`. Errors: a sentence that says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Regex, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!(
                "a pattern has at most {PATTERN_BYTES_MAX} bytes, this one has {}",
                pattern.len()
            ));
        }
        Ok(Regex {
            source: pattern.into(),
            groups: checked(pattern)?.groups,
        })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of groups, the whole match not counted.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Bytes that it holds on the heap: its text. What searches compile belongs to the program that searches.
    pub fn heap_bytes(&self) -> usize {
        self.source.len()
    }

    /// Where the first match at or behind byte `from` starts and ends.
    pub fn find_at(
        self: &Arc<Self>,
        text: &str,
        from: usize,
        scratch: &mut Scratch,
        meter: &mut dyn Meter,
    ) -> Result<Option<(usize, usize)>, Stop> {
        let Kept {
            compiled, built, ..
        } = scratch.of(self, meter)?;
        let found = compiled.search(built, text, from, 0, meter)?;
        Ok(found.map(|slots| (slots[0], slots[1])))
    }

    /// The first match at or behind byte `from`, with its groups.
    pub fn captures_at(
        self: &Arc<Self>,
        text: &str,
        from: usize,
        scratch: &mut Scratch,
        meter: &mut dyn Meter,
    ) -> Result<Option<Match>, Stop> {
        let Kept {
            compiled, built, ..
        } = scratch.of(self, meter)?;
        let found = compiled.search(built, text, from, self.groups, meter)?;
        Ok(found.map(|slots| Match { slots }))
    }

    /// The match of the whole `text`, with its groups.
    pub fn matches(
        self: &Arc<Self>,
        text: &str,
        scratch: &mut Scratch,
        meter: &mut dyn Meter,
    ) -> Result<Option<Match>, Stop> {
        let Kept {
            compiled, built, ..
        } = scratch.of(self, meter)?;
        let found = compiled.matches(built, text, meter)?;
        Ok(found.map(|slots| Match { slots }))
    }
}

impl Compiled {
    fn new(parsed: Parsed) -> Compiled {
        let node = parsed.node;
        let plain = node.is_plain();
        let direct = (plain && node.states() <= STATES_MAX)
            .then(|| automata::direct(&node, false))
            .flatten();
        Compiled {
            groups: parsed.groups,
            plain,
            steps: node.size().saturating_add(2),
            dollar: node.asserts(Assert::EndOrLineFeed),
            continues: node.asserts(Assert::Continue),
            node,
            direct,
            whole: OnceCell::new(),
            automata: OnceCell::new(),
            program: OnceCell::new(),
        }
    }

    /// Bytes on the heap, about.
    fn heap_bytes(&self) -> usize {
        let compiled = [
            self.direct.as_ref(),
            self.whole.get().and_then(Option::as_ref),
        ];
        let compiled = compiled.into_iter().flatten();
        let automata = self.automata.get().and_then(Option::as_ref);
        self.node.heap_bytes()
            + compiled.map(meta::Regex::memory_usage).sum::<usize>()
            + automata.map_or(0, Automata::heap_bytes)
            + self.program.get().map_or(0, Program::heap_bytes)
    }

    /// The match of the whole `text`, with all groups.
    fn matches(
        &self,
        built: &mut Caches,
        text: &str,
        meter: &mut dyn Meter,
    ) -> Result<Option<Slots>, Stop> {
        if !self.plain {
            return backtrack::Search::run(self.program(), text, 0, true, meter);
        }
        let direct = self.direct.is_some() && self.is_little(text.len()) && !self.needs_own(text);
        if direct && self.whole.get().is_none() {
            meter.work(COMPILE_STEPS)?;
        }
        if direct
            && let Some(regex) = self
                .whole
                .get_or_init(|| automata::direct(&self.node, true))
        {
            meter.work(self.work(text.len()))?;
            let cache = built.whole.get_or_insert_with(|| regex.create_cache());
            return Ok(automata::search(
                regex,
                cache,
                &Input::new(text),
                self.groups,
            ));
        }
        self.follow(text, 0, true, true, self.groups, meter)
    }

    /// The first match at or behind byte `from`, with `groups` groups: none or all.
    fn search(
        &self,
        built: &mut Caches,
        text: &str,
        from: usize,
        groups: usize,
        meter: &mut dyn Meter,
    ) -> Result<Option<Slots>, Stop> {
        if !self.plain {
            return backtrack::Search::run(self.program(), text, from, false, meter);
        }
        let Some(regex) = self.direct.as_ref().filter(|_| !self.needs_own(text)) else {
            return self.follow(text, from, false, false, groups, meter);
        };
        if self.is_little(text.len() - from) {
            let cache = built.direct.get_or_insert_with(|| regex.create_cache());
            let found = automata::search(regex, cache, &Input::new(text).range(from..), groups);
            let end = found.as_ref().map_or(text.len(), |found| found[1]);
            meter.work(self.work(end - from))?;
            return Ok(found);
        }
        if self.automata.get().is_none() {
            meter.work(COMPILE_STEPS)?;
        }
        let automata = self
            .automata
            .get_or_init(|| Automata::new(&self.node, self.steps));
        let Some(automata) = automata else {
            return self.follow(text, from, false, false, groups, meter);
        };
        let cache = built.automata.get_or_insert_with(|| automata.built());
        match automata.find(cache, text, from, meter)? {
            Ok(None) => Ok(None),
            Ok(Some((start, end))) if groups == 0 => Ok(Some(SmallVec::from_slice(&[start, end]))),
            // Where it is is known: only the groups are to be found.
            Ok(Some((start, end))) if self.is_little(end - start) => {
                let cache = built.direct.get_or_insert_with(|| regex.create_cache());
                let input = Input::new(text)
                    .span(start..end)
                    .anchored(regex_automata::Anchored::Yes);
                meter.work(self.work(end - start))?;
                Ok(automata::search(regex, cache, &input, groups))
            }
            Ok(Some((start, _))) => self.follow(text, start, true, false, groups, meter),
            Err(automata::GaveUp) => self.follow(text, from, false, false, groups, meter),
        }
    }

    fn follow(
        &self,
        text: &str,
        from: usize,
        anchored: bool,
        whole: bool,
        groups: usize,
        meter: &mut dyn Meter,
    ) -> Result<Option<Slots>, Stop> {
        let search = threads::Search {
            program: self.program(),
            text,
            from,
            anchored,
            whole,
            slots: 2 * (groups + 1),
        };
        search.run(meter)
    }

    fn program(&self) -> &Program {
        self.program
            .get_or_init(|| Program::new(&self.node, self.groups))
    }

    /// Whether `$` has to stand in front of the last line feed of `text`, or `\G` where the search began: the library
    /// knows neither.
    fn needs_own(&self, text: &str) -> bool {
        self.continues || self.dollar && text.ends_with('\n')
    }

    /// Whether the library is done with `bytes` of text in good time, whatever it does.
    #[inline]
    fn is_little(&self, bytes: usize) -> bool {
        self.steps.saturating_mul(bytes as u64) <= DIRECT_STEPS_MAX
    }

    /// Steps of a search through `bytes` of text at worst.
    #[inline]
    fn work(&self, bytes: usize) -> usize {
        usize::try_from(self.steps)
            .unwrap_or(usize::MAX)
            .saturating_mul(bytes)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#\"{}\"", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::parse::{COUNTS_DOWN, NO_CONTROL, NO_GROUP};
    use super::*;
    use crate::error::Limit;

    /// Stops after so many steps.
    struct Steps(usize);

    impl Meter for Steps {
        fn work(&mut self, steps: usize) -> Result<(), Stop> {
            assert!(
                steps <= 1 << 18,
                "{steps} steps without a look at the clock"
            );
            match self.0.checked_sub(steps) {
                Some(left) => self.0 = left,
                None => return Err(Limit::Time.into()),
            }
            Ok(())
        }

        fn reserve(&mut self, _: usize) -> Result<(), Stop> {
            Ok(())
        }
    }

    const PATIENCE: usize = 4_000_000;

    fn check(pattern: &str, text: &str) -> String {
        let regex = match Regex::new(pattern) {
            Ok(regex) => Arc::new(regex),
            Err(problem) => return problem,
        };
        match regex.find_at(text, 0, &mut Scratch::default(), &mut Steps(PATIENCE)) {
            Ok(Some((start, end))) => text[start..end].to_owned(),
            Ok(None) => "none".to_owned(),
            Err(_) => "stopped".to_owned(),
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
            (r"(\w{100}){1000}", TOO_LARGE),
            (r"(a)\2", NO_GROUP),
            ("a{2,1}", COUNTS_DOWN),
            ("(?=b)a{10,9}?", COUNTS_DOWN),
            (r"\N{DIGIT ONE}", r"unknown escape `\N`"),
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
        let regex = Arc::new(Regex::new(&pattern).unwrap());
        let found = regex.captures_at("ba", 0, &mut Scratch::default(), &mut Steps(PATIENCE));
        let found = found.unwrap().unwrap();
        assert!(found.groups().eq([Some((1, 2)); 101]));
    }

    #[test]
    fn the_whole_text_is_matched() {
        let whole = |pattern: &str, text: &str| {
            let regex = Arc::new(Regex::new(pattern).unwrap());
            let found = regex.matches(text, &mut Scratch::default(), &mut Steps(PATIENCE));
            found.unwrap().is_some()
        };
        assert!(whole("a|ab", "ab"));
        assert!(whole("(?x) a b # note", "ab"));
        assert!(whole(r"a$\n", "a\n"));
        assert!(!whole("abc$", "abc\n"));
        assert!(!whole("bc", "abc"));
    }

    #[test]
    fn only_what_is_specified_is_understood() {
        for (pattern, problem) in [
            (r"\((?:[^()]|(?R))*\)", "unknown flag `(?R`"),
            ("(?-R)a", "unknown flag `(?-R`"),
            ("(?-u)a", "unknown flag `(?-u`"),
            ("(?P>a)", "unknown flag `(?P`"),
            ("(?P=a)", "unknown flag `(?P`"),
            ("(?1)(a)", "unknown group `(?1`"),
            ("(?|a|b)", "unknown group `(?|`"),
            ("(?(1)a|b)", "unknown group `(?(`"),
            ("(?&a)", "unknown group `(?&`"),
            ("(*FAIL)", "a repetition has nothing in front to repeat"),
            (r"\b{start}a", r"unknown escape `\b{`"),
            (r"\B{end}", r"unknown escape `\B{`"),
            (r"\u{41}", r"unknown escape `\u{`"),
            (r"[\u{41}]", r"unknown escape `\u{`"),
            (r"\U00000041", r"unknown escape `\U`"),
            (r"[\U00000041]", r"unknown escape `\U`"),
            (r"\K", r"unknown escape `\K`"),
            (r"(a)\g1", r"unknown escape `\g`"),
            (r"[\b]", r"unknown escape `\b`"),
            (r"[\R]", r"unknown escape `\R`"),
            (r"\0101", r"unknown escape `\0`"),
            (r"\O", r"unknown escape `\O`"),
            (r"\y", r"unknown escape `\y`"),
            ("a{,3}", "a repetition like {2,5} is malformed"),
            ("a{", "a repetition like {2,5} is malformed"),
            ("a**", "a repetition has nothing in front to repeat"),
            ("a{2}{3}", "a repetition has nothing in front to repeat"),
            ("a|*", "a repetition has nothing in front to repeat"),
            (r"\p{^L}", "Unicode property not found"),
            ("[^]", "a character class is malformed, check `[` and `]`"),
            (
                "[z-a]",
                "a range like [a-z] in a character class starts with the smaller character",
            ),
        ] {
            assert_eq!(check(pattern, ""), problem, "{pattern}");
        }
    }

    #[test]
    fn what_steps_back_is_that_of_the_jvm() {
        for (pattern, text, found) in [
            ("(?=a)*b", "b", "b"),
            ("(?<=a)?b", "ab", "b"),
            ("(?=a)+a", "a", "a"),
            ("x*+x", "xxx", "none"),
            ("(?:a|ab)++c", "abc", "none"),
            ("(?>a*)a", "aaa", "none"),
            ("(?>a|ab)c", "abac", "ac"),
            (r"(?<n1>a)\k<n1>", "aa", "aa"),
            (r"(a)|b\1", "b", "none"),
            (r"(a)\11", "aa1", "aa1"),
            (r"(?i)(a)\1", "aA", "aA"),
            ("(?=(a+))a*b", "baaabac", "aaab"),
            (r"(?=(\w+))\1:", "abc:", "abc:"),
            ("(?<!ab)c", "abc xc", "c"),
            ("(?<=a|bc)d", "bcd", "d"),
            ("(?:(?=a)a|b)*c", "abac", "abac"),
            ("(?!a)(?:a*)*b", "b", "b"),
            ("(?=a)(?:a|b?)*?c", "abc", "abc"),
            ("(?=.)(?:){3,}a", "a", "a"),
            ("(?=a).{2,3}?b", "aaab", "aaab"),
            ("(?=a)[ab]{1,2}+b", "abb", "abb"),
            ("(?=a)[ab]{1,3}+b", "abb", "none"),
            (r"\Ga", "ba", "none"),
            (r"(?=a)\u0061\x61\x{61}", "aaa", "aaa"),
            (r"\uD83D\uDE00", "\u{1f600}", "\u{1f600}"),
            ("(?U)a+", "aa", "a"),
            ("(?x) [a b] + # c", "ab", "ab"),
            ("(?i:a)b|C", "Ab", "Ab"),
            ("a(?i)b|C", "c", "c"),
            (r"c$", "c\r\n", "none"),
            (r"\s", "\u{a0}", "\u{a0}"),
            ("]}", "]}", "]}"),
        ] {
            assert_eq!(check(pattern, text), found, "{pattern}");
        }
    }

    /// Small patterns of every plain construct, and texts to try them on.
    fn some(mut seed: u64) -> (String, String) {
        let mut below = |count: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % count
        };
        const ATOMS: [&str; 14] = [
            "a", "b", "é", ".", "[ab]", "[^a]", r"\w", r"(?:\b)", "^", "$", "(a|b)", "(ab?)",
            "(?:a|b|)", "(b*)",
        ];
        const SIGNS: [&str; 10] = ["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}"];
        let mut pattern = String::new();
        for _ in 0..=below(4) {
            if below(6) == 0 {
                pattern.push('|');
            }
            pattern.push_str(ATOMS[below(14) as usize]);
            pattern.push_str(SIGNS[below(10) as usize]);
        }
        let text = (0..below(12)).map(|_| ['a', 'b', 'é', ' ', '\n'][below(5) as usize]);
        (pattern, text.collect())
    }

    /// All engines find the same.
    #[test]
    fn engines_agree() {
        for seed in 0..4_000 {
            let (pattern, mut text) = some(seed);
            let parsed = checked(&pattern).unwrap_or_else(|_| panic!("{pattern}"));
            let (regex, built) = (Compiled::new(parsed), &mut Caches::default());
            if regex.needs_own(&text) {
                text.push('.');
            }
            let meter = &mut Steps(PATIENCE);
            let direct = regex.search(built, &text, 0, regex.groups, meter).unwrap();
            let threads = regex.follow(&text, 0, false, false, regex.groups, meter);
            assert_eq!(threads.unwrap(), direct, "{pattern} in {text:?}");
            // With something in front that steps back.
            let look = Node::Look {
                ahead: true,
                negative: false,
                node: Box::new(Node::Empty),
            };
            let hard = Node::Cat(vec![look, regex.node.clone()]);
            let hard = Program::new(&hard, regex.groups);
            let back = backtrack::Search::run(&hard, &text, 0, false, meter);
            let span = |slots: &Option<Slots>| slots.as_ref().map(|slots| (slots[0], slots[1]));
            assert_eq!(span(&back.unwrap()), span(&direct), "{pattern} in {text:?}");
            if let Some(automata) = Automata::new(&regex.node, regex.steps) {
                let found = automata.find(&mut automata.built(), &text, 0, meter);
                if let Ok(found) = found.unwrap() {
                    assert_eq!(found, span(&direct), "{pattern} in {text:?}");
                }
            }
            let whole = regex.matches(built, &text, meter).unwrap();
            let followed = regex.follow(&text, 0, true, true, regex.groups, meter);
            assert_eq!(followed.unwrap(), whole, "{pattern} in {text:?}");
        }
    }

    #[test]
    fn long_texts_are_searched_as_short_ones() {
        let text = "x".repeat(200_000) + "ab=12 " + &"y".repeat(200_000) + "cd=34";
        assert_eq!(check(r"\w(\w)=(\d+)", &text), "ab=12");
        assert_eq!(check(r"\d+$", &text), "34");
        assert_eq!(check(r"\bcd", &(text.clone() + " cd")), "cd");
        assert_eq!(check("é", &text), "none");
        let regex = Arc::new(Regex::new(r"\w(\w)=(\d+)").unwrap());
        let found = regex.captures_at(
            &text,
            200_003,
            &mut Scratch::default(),
            &mut Steps(PATIENCE),
        );
        let found = found.unwrap().unwrap();
        let parts: Vec<_> = found.groups().flatten().map(|(a, b)| &text[a..b]).collect();
        assert_eq!(parts, ["cd=34", "d", "34"]);
    }

    #[test]
    fn searches_are_bounded() {
        let text = "a".repeat(50_000) + "!b";
        assert_eq!(check(r"^(a+)+$", &text), "none");
        assert_eq!(check(r"^(a+)+$", &(text.clone() + "\n")), "none");
        for pattern in [
            r"^(?:(a|aa)\1?)+(?=b)",
            "(?=a.*c)a",
            "(?>a+)*a\\d*?b{3,}",
            "(?:[ab]{0,1000}){9}c",
            "(?<=a+c)b",
            "(?<=c.*)a",
            r"(a*)*\1c",
            r"(?i)(a+)\1c",
        ] {
            assert!(
                ["stopped", "none"].contains(&&*check(pattern, &text)),
                "{pattern}"
            );
        }
        assert!(Regex::new(&"a".repeat(257)).is_err());
        assert!(Regex::new(r"(\w{100}){1000}").is_err());
        assert!(Regex::new(r"(?=a)((a{100}){100}){100}").is_err());
    }

    #[test]
    fn only_the_text_of_a_regex_is_kept() {
        let regex = Arc::new(Regex::new(r"\w{15}").unwrap());
        assert_eq!(regex.heap_bytes(), 6);
        let (mut scratch, meter) = (Scratch::default(), &mut Steps(usize::MAX));
        for count in 0..200 {
            let other = Arc::new(Regex::new(&format!(r"\w{{15}}{count}")).unwrap());
            other.find_at("abc", 0, &mut scratch, meter).unwrap();
        }
        regex.find_at("abc", 0, &mut scratch, meter).unwrap();
        let kept = &scratch.kept;
        assert!(Arc::ptr_eq(&kept[0].regex, &regex));
        let bytes: usize = kept.iter().map(Kept::bytes).sum();
        assert!(
            kept.len() > 1 && bytes < 2 * KEPT_BYTES_MAX,
            "{} {bytes}",
            kept.len()
        );
    }
}
