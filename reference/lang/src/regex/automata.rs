//! The library's engines for plain patterns: its best engine where even the worst case is cheap, and its lazy
//! automaton, driven here byte by byte, for long texts. Knows no syntax.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, MatchKind, meta};
use regex_syntax::hir::{Capture, Class, Hir, Look, Repetition};
use smallvec::SmallVec;

use super::Slots;
use super::parse::{Assert, Greed, Node};
use crate::clock::WorkMeter;
use crate::error::Stop;

/// The most bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The most bytes that an automaton that is built during a search may take.
const AUTOMATON_BYTES_MAX: usize = 1 << 18;

/// The library's tree for `node`, which is plain; `$` matches only at the end.
fn hir(node: &Node) -> Hir {
    match node {
        Node::Char(character) => {
            Hir::literal(character.encode_utf8(&mut [0; 4]).as_bytes().to_vec())
        }
        Node::Class(class) => Hir::class(Class::Unicode(class.clone())),
        Node::Assert(assert) => Hir::look(match assert {
            Assert::Start => Look::Start,
            Assert::LineStart => Look::StartLF,
            Assert::LineEnd => Look::EndLF,
            Assert::Word => Look::WordUnicode,
            Assert::NotWord => Look::WordUnicodeNegate,
            Assert::End | Assert::EndOrLineFeed | Assert::Continue => Look::End,
        }),
        Node::Cat(nodes) => Hir::concat(nodes.iter().map(hir).collect()),
        Node::Alt(nodes) => {
            let mut branches: Vec<_> = nodes.iter().map(hir).collect();
            let fixed = |node: &Node| {
                let (min, max) = node.width();
                max == Some(min)
            };
            // The library factors out a common prefix of all branches. If the prefix matches in several ways, matches
            // of the second branch could then precede others of the first (rust-lang/regex#1357). A branch that never
            // matches prevents the factoring.
            if !nodes.iter().all(fixed) {
                branches.push(Hir::fail());
            }
            Hir::alternation(branches)
        }
        Node::Group(index, node) => Hir::capture(Capture {
            index: u32::try_from(*index).unwrap_or(u32::MAX),
            name: None,
            sub: Box::new(hir(node)),
        }),
        Node::Repeat {
            node,
            min,
            max,
            greed,
        } => Hir::repetition(Repetition {
            min: *min,
            max: *max,
            greedy: *greed != Greed::Lazy,
            sub: Box::new(hir(node)),
        }),
        Node::Empty => Hir::empty(),
        // These nodes are not plain.
        Node::Atomic(_) | Node::Look { .. } | Node::Backref { .. } => Hir::empty(),
    }
}

/// The library's best engine for `node`; it matches only whole texts if `whole`. `None` when it would be too large.
pub fn direct(node: &Node, whole: bool) -> Option<meta::Regex> {
    let mut hir = hir(node);
    if whole {
        hir = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
    }
    let config = meta::Config::new()
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .onepass_size_limit(Some(COMPILED_BYTES_MAX))
        .hybrid_cache_capacity(AUTOMATON_BYTES_MAX);
    let mut builder = meta::Builder::new();
    builder.configure(config).build_from_hir(&hir).ok()
}

/// A search by the library for the match alone, or also for its groups.
pub fn search(
    regex: &meta::Regex,
    cache: &mut meta::Cache,
    input: &Input<'_>,
    groups: usize,
) -> Option<Slots> {
    if groups == 0 {
        let found = regex.search_with(cache, input)?;
        return Some(SmallVec::from_slice(&[found.start(), found.end()]));
    }
    let mut slots: SmallVec<[Option<NonMaxUsize>; 16]> =
        SmallVec::from_elem(None, 2 * (groups + 1));
    regex.search_slots_with(cache, input, &mut slots)?;
    let position = |slot: &Option<NonMaxUsize>| slot.map_or(usize::MAX, NonMaxUsize::get);
    Some(slots.iter().map(position).collect())
}

/// Two automata that find the end and the start of a match.
#[derive(Debug)]
pub struct Automata {
    forward: DFA,
    backward: DFA,
    /// Bytes between two calls of the meter.
    window: usize,
}

/// The parts of the automata that were built so far.
#[derive(Debug)]
pub struct AutomataCache {
    forward: Cache,
    backward: Cache,
}

impl AutomataCache {
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.forward.memory_usage() + self.backward.memory_usage()
    }
}

/// The automata are of no use for this search.
#[derive(Debug)]
pub struct GaveUp;

impl Automata {
    /// The automata for `node`, each state of which takes up to `steps` steps to build; `None` when it is too large, or
    /// may match the empty string.
    pub fn new(node: &Node, steps: u64) -> Option<Automata> {
        /// Larger patterns have too many states.
        const STEPS_MAX: u64 = 512;
        /// The largest number of steps in one window, in the worst case.
        const WINDOW_STEPS: u64 = 1 << 17;
        if steps > STEPS_MAX || node.width().0 == 0 {
            return None;
        }
        let hir = hir(node);
        let build = |backward: bool| {
            let config = thompson::Config::new()
                .reverse(backward)
                .nfa_size_limit(Some(COMPILED_BYTES_MAX))
                .which_captures(thompson::WhichCaptures::None);
            let mut compiler = thompson::Compiler::new();
            let nfa = compiler.configure(config).build_from_hir(&hir).ok()?;
            let kind = if backward {
                MatchKind::All
            } else {
                MatchKind::LeftmostFirst
            };
            let config = DFA::config()
                .cache_capacity(AUTOMATON_BYTES_MAX)
                .unicode_word_boundary(true)
                .minimum_cache_clear_count(Some(8))
                .minimum_bytes_per_state(Some(16))
                .match_kind(kind);
            DFA::builder().configure(config).build_from_nfa(nfa).ok()
        };
        Some(Automata {
            forward: build(false)?,
            backward: build(true)?,
            window: usize::try_from(WINDOW_STEPS / steps.max(1))
                .map_or(64, |window| window.clamp(64, 16_384)),
        })
    }

    /// Buffers for the parts that will be built.
    pub fn create_cache(&self) -> AutomataCache {
        AutomataCache {
            forward: self.forward.create_cache(),
            backward: self.backward.create_cache(),
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let bytes = |automaton: &DFA| automaton.memory_usage() + automaton.get_nfa().memory_usage();
        bytes(&self.forward) + bytes(&self.backward)
    }

    /// The start and end of the first match at or after byte `from`.
    pub fn find(
        &self,
        cache: &mut AutomataCache,
        text: &str,
        from: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Result<Option<(usize, usize)>, GaveUp>, Stop> {
        let end = match self.end(&mut cache.forward, text.as_bytes(), from, meter)? {
            Ok(Some(end)) => end,
            Ok(None) => return Ok(Ok(None)),
            Err(gave_up) => return Ok(Err(gave_up)),
        };
        let start = self.start(&mut cache.backward, text.as_bytes(), from, end, meter)?;
        Ok(start.map(|start| start.map(|start| (start, end))))
    }

    fn end(
        &self,
        cache: &mut Cache,
        text: &[u8],
        from: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Result<Option<usize>, GaveUp>, Stop> {
        let input = Input::new(text).range(from..);
        let Ok(mut state) = self.forward.start_state_forward(cache, &input) else {
            return Ok(Err(GaveUp));
        };
        let mut last = None;
        let mut at = from;
        while at < text.len() {
            let stop = text.len().min(at + self.window);
            let start = at;
            while at < stop {
                match self.forward.next_state(cache, state, text[at]) {
                    Ok(next) => state = next,
                    Err(_) => return Ok(Err(GaveUp)),
                }
                if state.is_tagged() {
                    if state.is_match() {
                        // A match is reported one byte after its end.
                        last = Some(at);
                    } else if state.is_dead() {
                        meter.work((at - start) / 4)?;
                        return Ok(Ok(last));
                    } else if state.is_quit() {
                        return Ok(Err(GaveUp));
                    }
                }
                at += 1;
            }
            // A window whose states had to be built takes much longer than one with known states.
            meter.work((at - start).max(2_048))?;
        }
        match self.forward.next_eoi_state(cache, state) {
            Ok(state) if state.is_match() => Ok(Ok(Some(text.len()))),
            Ok(_) => Ok(Ok(last)),
            Err(_) => Ok(Err(GaveUp)),
        }
    }

    fn start(
        &self,
        cache: &mut Cache,
        text: &[u8],
        from: usize,
        end: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Result<Option<usize>, GaveUp>, Stop> {
        let input = Input::new(text).span(from..end).anchored(Anchored::Yes);
        let Ok(mut state) = self.backward.start_state_reverse(cache, &input) else {
            return Ok(Err(GaveUp));
        };
        let mut last = None;
        let mut at = end;
        while at > from {
            let stop = from.max(at.saturating_sub(self.window));
            let start = at;
            while at > stop {
                at -= 1;
                match self.backward.next_state(cache, state, text[at]) {
                    Ok(next) => state = next,
                    Err(_) => return Ok(Err(GaveUp)),
                }
                if state.is_tagged() {
                    if state.is_match() {
                        last = Some(at + 1);
                    } else if state.is_dead() {
                        meter.work((start - at) / 4)?;
                        return Ok(Ok(last));
                    } else if state.is_quit() {
                        return Ok(Err(GaveUp));
                    }
                }
            }
            meter.work((start - at).max(2_048))?;
        }
        let state = match from.checked_sub(1) {
            None => self.backward.next_eoi_state(cache, state),
            Some(before) => self.backward.next_state(cache, state, text[before]),
        };
        match state {
            Ok(state) if state.is_match() => Ok(Ok(Some(from))),
            Ok(state) if state.is_quit() => Ok(Err(GaveUp)),
            Ok(_) => Ok(Ok(last)),
            Err(_) => Ok(Err(GaveUp)),
        }
    }
}
