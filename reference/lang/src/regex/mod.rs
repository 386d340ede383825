//! Regular expressions: compiled once, compared by their text. Knows nothing of how functions use them.
//!
//! A pattern is read by a parser of our own, so that it means what the specification says. Three engines search, and
//! none of them does more than a millisecond of work between two calls of the meter:
//! - the library's best one, where pattern times text is so little that it cannot take long, whatever it does;
//! - for longer texts its lazy automaton, driven byte by byte, and where that is of no use, one of our own that
//!   follows all ways at once, also for loops a round of which may take nothing;
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

/// Counts the steps of an engine of our own, and tells the meter now and then.
struct Clock<'m> {
    steps: usize,
    meter: &'m mut dyn Meter,
}

impl<'m> Clock<'m> {
    fn new(meter: &'m mut dyn Meter) -> Self {
        Clock { steps: 0, meter }
    }

    #[inline]
    fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        /// Steps between two calls of the meter.
        const STEPS: usize = 4_096;
        self.steps += steps;
        if self.steps >= STEPS {
            self.tell()?;
        }
        Ok(())
    }

    /// Tells what the meter was not told yet.
    fn tell(&mut self) -> Result<(), Stop> {
        self.meter.work(std::mem::take(&mut self.steps))
    }
}

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
    /// Whether `$` stands anywhere, or `^` with the flag `m`, that a last line feed changes.
    line_feed: bool,
    /// Whether `\\G` stands anywhere.
    continues: bool,
    /// Of plain patterns that are not large and no loop of which may stand still: there the library finds other groups.
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
        let direct = (plain && node.states() <= STATES_MAX && !node.may_stand_still())
            .then(|| automata::direct(&node, false))
            .flatten();
        Compiled {
            groups: parsed.groups,
            plain,
            steps: node.size().saturating_add(2),
            line_feed: node.asserts(Assert::EndOrLineFeed) || node.asserts(Assert::LineStart),
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

    /// Whether `$` has to stand in front of the last line feed of `text`, a `^` not behind it, or `\G` where the search began: the
    /// library knows none of that.
    fn needs_own(&self, text: &str) -> bool {
        self.continues || self.line_feed && text.ends_with('\n')
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
mod tests;
