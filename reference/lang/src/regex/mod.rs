//! Regular expressions: checked when read, compiled by the first search of a program, compared by their text. Knows
//! nothing of how functions use them.
//!
//! Our own parser reads patterns, so that they mean what the specification says. Three engines search, none of which
//! does more than a millisecond of work between two calls of the meter:
//! - the library's best engine, where pattern size times text length is so small that no search can take long;
//! - for longer texts the library's lazy automaton, driven byte by byte; where that is of no use, one of our own that
//!   runs all threads of the NFA in parallel, including loops with empty iterations;
//! - a backtracking engine, for look-around, back-references, atomic groups and possessive repetitions.

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

use crate::clock::WorkMeter;
use crate::error::Stop;
use automata::{Automata, AutomataCache};
use parse::{Assert, Node, Parsed, PatternError};
use program::Program;

/// The longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// The largest number of instructions of a pattern after repetitions are expanded.
const SIZE_MAX: u64 = 1 << 15;
/// The approximate number of states beyond which the library's automaton is not built: its compiler checks no clock,
/// and this many states take it less than a millisecond.
const STATES_MAX: u64 = 1 << 12;
/// The approximate number of metered steps that compiling takes.
const COMPILE_STEPS: usize = 1 << 15;
/// The largest product of pattern size and text length that the library may search at once.
const DIRECT_STEPS_MAX: u64 = 1 << 17;
/// The largest size in bytes of search buffers that are kept for the next search.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The positions in the slots: the start and end of the match and of each group; `usize::MAX` for none.
type Slots = SmallVec<[usize; 8]>;

/// The position where a search starts.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The first byte at which a match may begin.
    pub at: usize,
    /// The end of the previous match, where `\\G` holds. After an empty match, the search starts one character further.
    pub previous: usize,
}

impl Start {
    /// The start of a search at byte `at`, after a match that ended there.
    pub fn at(at: usize) -> Start {
        Start { at, previous: at }
    }
}

/// Counts the steps of one of our own engines, and reports them to the meter regularly.
struct StepCounter<'m> {
    steps: usize,
    meter: &'m mut dyn WorkMeter,
}

impl<'m> StepCounter<'m> {
    fn new(meter: &'m mut dyn WorkMeter) -> Self {
        StepCounter { steps: 0, meter }
    }

    #[inline]
    fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        /// Steps between two calls of the meter.
        const STEPS: usize = 4_096;
        self.steps += steps;
        if self.steps >= STEPS {
            self.report()?;
        }
        Ok(())
    }

    /// Reports the steps since the last call of the meter.
    fn report(&mut self) -> Result<(), Stop> {
        self.meter.work(std::mem::take(&mut self.steps))
    }
}

/// A valid regular expression. It is compiled where it is used for searching (see [`Scratch`]), so that only its text
/// is kept from program to program.
pub struct Regex {
    source: Box<str>,
    groups: usize,
}

/// The compiled form of a regex.
struct CompiledRegex {
    node: Node,
    groups: usize,
    /// Whether it is searched without backtracking.
    plain: bool,
    /// The largest number of steps for one character of text.
    steps: u64,
    /// Whether it contains a `$`, or a `^` with the flag `m`, whose meaning depends on a final line feed.
    line_feed: bool,
    /// Whether it contains `\\G`.
    continues: bool,
    /// Only for plain patterns that are small and have no loop with empty iterations, for which the library finds
    /// different groups.
    direct: Option<meta::Regex>,
    /// Matches only a whole text. Like the fields below, it is compiled on first use.
    whole: OnceCell<Option<meta::Regex>>,
    automata: OnceCell<Option<Automata>>,
    program: OnceCell<Program>,
}

/// The start and end in bytes of a match and of its groups; a group that took no part has neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    slots: Slots,
}

impl Match {
    /// The start and end of the match.
    pub fn span(&self) -> (usize, usize) {
        self.group(0).unwrap_or_default()
    }

    /// The start and end of group `at`; group 0 is the whole match.
    pub fn group(&self, at: usize) -> Option<(usize, usize)> {
        let start = *self.slots.get(at.checked_mul(2)?)?;
        let end = *self.slots.get(2 * at + 1)?;
        (start <= end && end != usize::MAX).then_some((start, end))
    }

    /// The whole match, followed by its groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Option<(usize, usize)>> {
        (0..self.slots.len() / 2).map(|at| self.group(at))
    }
}

/// Compiled regexes and buffers, kept for the next search with the same regex as long as the program runs.
#[derive(Default)]
pub struct Scratch {
    /// The most recently used one comes first.
    cached: Vec<CachedRegex>,
}

struct CachedRegex {
    regex: Arc<Regex>,
    compiled: CompiledRegex,
    caches: Caches,
}

#[derive(Default)]
struct Caches {
    direct: Option<meta::Cache>,
    whole: Option<meta::Cache>,
    automata: Option<AutomataCache>,
}

impl Scratch {
    /// The entry for `regex`, which is compiled if it is new here.
    #[inline]
    fn entry(
        &mut self,
        regex: &Arc<Regex>,
        meter: &mut dyn WorkMeter,
    ) -> Result<&mut CachedRegex, Stop> {
        let known = self
            .cached
            .iter()
            .position(|kept| Arc::ptr_eq(&kept.regex, regex));
        match known {
            Some(0) => {}
            Some(at) => self.cached[..=at].rotate_right(1),
            None => self.compile(regex, meter)?,
        }
        Ok(&mut self.cached[0])
    }

    #[cold]
    fn compile(&mut self, regex: &Arc<Regex>, meter: &mut dyn WorkMeter) -> Result<(), Stop> {
        meter.work(COMPILE_STEPS)?;
        let mut bytes = 0;
        self.cached.retain(|kept| {
            bytes += kept.bytes();
            bytes < KEPT_BYTES_MAX
        });
        let parsed = parse_checked(&regex.source).expect("the pattern was right when it was read");
        let kept = CachedRegex {
            regex: Arc::clone(regex),
            compiled: CompiledRegex::new(parsed),
            caches: Caches::default(),
        };
        self.cached.insert(0, kept);
        Ok(())
    }
}

impl CachedRegex {
    fn bytes(&self) -> usize {
        let library = [&self.caches.direct, &self.caches.whole];
        let library = library.into_iter().flatten();
        let automata = self
            .caches
            .automata
            .as_ref()
            .map_or(0, AutomataCache::heap_bytes);
        library.map(meta::Cache::memory_usage).sum::<usize>()
            + automata
            + self.compiled.heap_bytes()
            + size_of::<CachedRegex>()
    }
}

/// Parses `pattern` and checks that it is valid and not too large.
fn parse_checked(pattern: &str) -> Result<Parsed, PatternError> {
    let parsed = parse::parse(pattern)?;
    if parsed.node.size() > SIZE_MAX {
        return Err(PatternError::TooLarge);
    }
    Ok(parsed)
}

impl Regex {
    /// Parses `pattern`.
    pub fn new(pattern: &str) -> Result<Regex, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong {
                bytes: pattern.len(),
            });
        }
        Ok(Regex {
            source: pattern.into(),
            groups: parse_checked(pattern)?.groups,
        })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The number of groups, not counting the whole match.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The bytes of its text on the heap. Compiled forms belong to the program that searches.
    pub fn heap_bytes(&self) -> usize {
        self.source.len()
    }

    /// The start and end of the first match from `start` on.
    pub fn find_at(
        self: &Arc<Self>,
        text: &str,
        start: Start,
        scratch: &mut Scratch,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<(usize, usize)>, Stop> {
        let found = self.slots_at(text, start, 0, scratch, meter)?;
        Ok(found.map(|slots| (slots[0], slots[1])))
    }

    /// The first match from `start` on, with its groups.
    pub fn captures_at(
        self: &Arc<Self>,
        text: &str,
        start: Start,
        scratch: &mut Scratch,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Match>, Stop> {
        let found = self.slots_at(text, start, self.groups, scratch, meter)?;
        Ok(found.map(|slots| Match { slots }))
    }

    /// Where the first match from `start` on and its first `groups` groups lie.
    fn slots_at(
        self: &Arc<Self>,
        text: &str,
        start: Start,
        groups: usize,
        scratch: &mut Scratch,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Slots>, Stop> {
        let CachedRegex {
            compiled, caches, ..
        } = scratch.entry(self, meter)?;
        compiled.search(caches, text, start, groups, meter)
    }

    /// The match of the whole `text`, with its groups.
    pub fn matches(
        self: &Arc<Self>,
        text: &str,
        scratch: &mut Scratch,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Match>, Stop> {
        let CachedRegex {
            compiled, caches, ..
        } = scratch.entry(self, meter)?;
        let found = compiled.matches(caches, text, meter)?;
        Ok(found.map(|slots| Match { slots }))
    }
}

impl CompiledRegex {
    fn new(parsed: Parsed) -> CompiledRegex {
        let node = parsed.node;
        let plain = node.is_plain();
        let direct = (plain && node.states() <= STATES_MAX && !node.has_empty_iteration())
            .then(|| automata::direct(&node, false))
            .flatten();
        CompiledRegex {
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

    /// The approximate number of bytes on the heap.
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
        caches: &mut Caches,
        text: &str,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Slots>, Stop> {
        if !self.plain {
            return backtrack::Search::run(self.program(), text, Start::at(0), true, meter);
        }
        let direct = self.direct.is_some()
            && self.is_small_search(text.len())
            && !self.needs_own_engine(text);
        if direct && self.whole.get().is_none() {
            meter.work(COMPILE_STEPS)?;
        }
        if direct
            && let Some(regex) = self
                .whole
                .get_or_init(|| automata::direct(&self.node, true))
        {
            meter.work(self.search_steps(text.len()))?;
            let cache = caches.whole.get_or_insert_with(|| regex.create_cache());
            return Ok(automata::search(
                regex,
                cache,
                &Input::new(text),
                self.groups,
            ));
        }
        self.search_threads(text, Start::at(0), true, true, self.groups, meter)
    }

    /// The first match from `start` on, with `groups` groups: none or all.
    fn search(
        &self,
        caches: &mut Caches,
        text: &str,
        start: Start,
        groups: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Slots>, Stop> {
        if !self.plain {
            return backtrack::Search::run(self.program(), text, start, false, meter);
        }
        let from = start.at;
        let Some(regex) = self
            .direct
            .as_ref()
            .filter(|_| !self.needs_own_engine(text))
        else {
            return self.search_threads(text, start, false, false, groups, meter);
        };
        if self.is_small_search(text.len() - from) {
            let cache = caches.direct.get_or_insert_with(|| regex.create_cache());
            let found = automata::search(regex, cache, &Input::new(text).range(from..), groups);
            let end = found.as_ref().map_or(text.len(), |found| found[1]);
            meter.work(self.search_steps(end - from))?;
            return Ok(found);
        }
        if self.automata.get().is_none() {
            meter.work(COMPILE_STEPS)?;
        }
        let automata = self
            .automata
            .get_or_init(|| Automata::new(&self.node, self.steps));
        let Some(automata) = automata else {
            return self.search_threads(text, start, false, false, groups, meter);
        };
        let cache = caches
            .automata
            .get_or_insert_with(|| automata.create_cache());
        match automata.find(cache, text, from, meter)? {
            Ok(None) => Ok(None),
            Ok(Some((start, end))) if groups == 0 => Ok(Some(SmallVec::from_slice(&[start, end]))),
            // The span of the match is known: only its groups are still needed.
            Ok(Some((start, end))) if self.is_small_search(end - start) => {
                let cache = caches.direct.get_or_insert_with(|| regex.create_cache());
                let input = Input::new(text)
                    .span(start..end)
                    .anchored(regex_automata::Anchored::Yes);
                meter.work(self.search_steps(end - start))?;
                Ok(automata::search(regex, cache, &input, groups))
            }
            Ok(Some((begin, _))) => {
                self.search_threads(text, Start::at(begin), true, false, groups, meter)
            }
            Err(automata::GaveUp) => self.search_threads(text, start, false, false, groups, meter),
        }
    }

    fn search_threads(
        &self,
        text: &str,
        start: Start,
        anchored: bool,
        whole: bool,
        groups: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<Slots>, Stop> {
        let search = threads::Search {
            program: self.program(),
            text,
            start,
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

    /// Whether our own engine is needed: for `$` before a final line feed of `text`, for `^` after it, and for `\G`,
    /// none of which the library supports.
    fn needs_own_engine(&self, text: &str) -> bool {
        self.continues || self.line_feed && text.ends_with('\n')
    }

    /// Whether the library finishes a search of `bytes` bytes of text in time in any case.
    #[inline]
    fn is_small_search(&self, bytes: usize) -> bool {
        self.steps.saturating_mul(bytes as u64) <= DIRECT_STEPS_MAX
    }

    /// The number of steps of a search through `bytes` of text in the worst case.
    #[inline]
    fn search_steps(&self, bytes: usize) -> usize {
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
