//! The redactor: replaces every written form of every secret. Knows matching; knows nothing of where text comes from.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored, Input, Match, MatchKind, StartKind};
use memchr::memmem;

use crate::forms;
use crate::scrubbed::{Scrub, Scrubbed};
use crate::secret::{SECRET_BYTES_COMFORTABLE, Secret};
use crate::skip::Skip;
use crate::stream::StreamScrubber;

/// What a secret is replaced by.
pub const MARKER: &str = "[REDACTED]";

/// Up to this many pattern bytes the automaton is a dense table (fast on text full of near misses); above it, a compact one.
const DENSE_PATTERN_BYTES_MAX: usize = 8 * 1024;
/// Up to this many patterns the automaton itself knows a quick way past text without secrets.
const QUICK_PATTERNS_MAX: usize = 64;
/// Places where a secret could start and did not, before and per so many bytes of text, after which skipping is given up: text
/// full of near misses must not cost more than one pass of the automaton.
const MISSES_MIN: usize = 64;
const BYTES_PER_MISS: usize = 512;

/// The scrub set of one runtime. Cloning shares it. With no secret registered every operation returns its input untouched.
#[derive(Clone, Default)]
pub struct Redactor {
    inner: Option<Arc<Automaton>>,
}

pub(crate) struct Automaton {
    matcher: AhoCorasick,
    /// For more patterns than the automaton is quick with.
    skip: Option<Skip>,
    /// Bytes of the longest pattern: a stream has to hold back one byte less.
    pub(crate) pattern_bytes_max: usize,
    /// Per pattern: long enough to be looked for inside a number.
    distinctive: Vec<bool>,
    /// Whether a number could spell one of them.
    numbers: bool,
}

impl Redactor {
    /// A redactor without secrets: costs nothing.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Starts a scrub set.
    pub fn builder() -> RedactorBuilder {
        RedactorBuilder::default()
    }

    /// True when there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    /// Bytes that the automaton occupies (0 when empty).
    pub fn memory_bytes(&self) -> usize {
        self.inner.as_ref().map_or(0, |automaton| {
            let table = automaton.skip.as_ref().map_or(0, Skip::memory_bytes);
            automaton.matcher.memory_usage() + table
        })
    }

    /// Scrubs a value by its own rules (see [`Scrub`]) and marks it as fit to leave the process.
    pub fn scrub<T: Scrub>(&self, mut value: T) -> Scrubbed<T> {
        if !self.is_empty() {
            value.scrub_in_place(self);
        }
        Scrubbed::seal(value)
    }

    /// Scrubs text; borrows it unchanged when nothing matches.
    pub fn scrub_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scrub_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Patterns and marker are UTF-8, so matches start and end between characters and nothing is lost here.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
            ),
        }
    }

    /// Scrubs bytes; borrows them unchanged when nothing matches.
    pub fn scrub_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(automaton) = &self.inner else {
            return Cow::Borrowed(bytes);
        };
        if automaton.find(bytes, 0).is_none() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        automaton.replace(bytes, bytes.len(), 0, &mut out);
        Cow::Owned(out)
    }

    /// True when `text` contains a form of a secret.
    pub fn finds_secret_in(&self, text: &str) -> bool {
        self.inner
            .as_ref()
            .is_some_and(|automaton| automaton.find(text.as_bytes(), 0).is_some())
    }

    /// True when a number's text contains a secret of at least eight bytes. Shorter ones can't be told from ordinary numbers.
    pub fn finds_secret_in_number(&self, digits: &str) -> bool {
        self.inner.as_ref().is_some_and(|automaton| {
            automaton
                .matcher
                .find_iter(digits)
                .any(|found| automaton.distinctive[found.pattern().as_usize()])
        })
    }

    /// True when a secret consists of digits, so that a number could spell it.
    pub fn knows_numbers(&self) -> bool {
        self.inner
            .as_ref()
            .is_some_and(|automaton| automaton.numbers)
    }

    /// A scrubber for one stream of chunks: finds secrets that are split across them.
    pub fn stream(&self) -> StreamScrubber {
        StreamScrubber::new(self.inner.clone())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            None => f.write_str("Redactor(empty)"),
            Some(automaton) => write!(f, "Redactor({} patterns)", automaton.matcher.patterns_len()),
        }
    }
}

impl Automaton {
    /// The leftmost match that starts at `from` or later, the longest of those that start there.
    fn find(&self, bytes: &[u8], mut from: usize) -> Option<Match> {
        let at = |from| Input::new(bytes).range(from..);
        if let Some(skip) = &self.skip {
            for _ in 0..MISSES_MIN + bytes.len() / BYTES_PER_MISS {
                let secret = skip.candidate(bytes, from);
                let reach = secret.map_or(bytes.len(), |at| bytes.len().min(at + MARKER.len()));
                let marker = memmem::find(&bytes[from..reach], MARKER.as_bytes());
                from = marker.map(|at| from + at).or(secret)?;
                let found = self.matcher.find(at(from).anchored(Anchored::Yes));
                if found.is_some() {
                    return found;
                }
                from += 1;
            }
        }
        self.matcher.find(at(from))
    }

    /// Copies `bytes[..decided]` to `out` with every match replaced; matches are looked for in all of `bytes`, and those that
    /// start before `decided` are final. Overlapping matches become one marker, so that no tail of a second secret survives.
    /// `covered`: how many leading bytes an earlier marker already stands for. Returns how far the last marker reaches.
    pub(crate) fn replace(
        &self,
        bytes: &[u8],
        decided: usize,
        mut covered: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut from = 0;
        while from < decided {
            let Some(found) = self.find(bytes, from) else {
                break;
            };
            if found.start() >= decided {
                break;
            }
            if found.start() >= covered {
                out.extend_from_slice(&bytes[covered..found.start()]);
                out.extend_from_slice(MARKER.as_bytes());
            }
            covered = covered.max(found.end());
            from = found.start() + 1;
        }
        if covered < decided {
            out.extend_from_slice(&bytes[covered..decided]);
            covered = decided;
        }
        covered
    }
}

/// Collects secrets, then builds the automaton once.
#[derive(Default)]
pub struct RedactorBuilder {
    patterns: BTreeSet<String>,
}

impl RedactorBuilder {
    /// Registers a secret in every written form. The empty secret is ignored.
    pub fn add(&mut self, secret: &Secret) -> &mut Self {
        forms::collect(secret.expose(), &mut self.patterns);
        self
    }

    /// Builds the scrub set. Memory stays below 16 MB for 1,000 secrets of usual length.
    pub fn build(self) -> Redactor {
        if self.patterns.is_empty() {
            return Redactor::empty();
        }
        let mut patterns: Vec<&str> = self
            .patterns
            .iter()
            .map(|pattern| pattern.as_str())
            .collect();
        // The marker matches itself and is replaced by itself: scrubbing twice changes nothing, even with the secret `E`.
        patterns.push(MARKER);
        let bytes: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let kind = if bytes <= DENSE_PATTERN_BYTES_MAX {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        // The marker is shorter than most secrets and would shorten every step; it is looked for beside.
        let secrets = &patterns[..patterns.len() - 1];
        let skip = (secrets.len() > QUICK_PATTERNS_MAX)
            .then(|| Skip::new(secrets))
            .flatten();
        let (start, kind) = match skip {
            Some(_) => (StartKind::Both, AhoCorasickKind::ContiguousNFA),
            None => (StartKind::Unanchored, kind),
        };
        let build = |kind| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .start_kind(start)
                .kind(kind)
                .build(&patterns)
        };
        // The builder fails only when state ids run out (2^31 pattern bytes); the noncontiguous form is its own fallback.
        let matcher = build(Some(kind)).or_else(|_| build(None)).expect(
            "patterns are bounded by the configuration file, far below the automaton's state limit",
        );
        let automaton = Automaton {
            matcher,
            skip,
            pattern_bytes_max: patterns
                .iter()
                .map(|pattern| pattern.len())
                .max()
                .unwrap_or(1),
            distinctive: patterns
                .iter()
                .map(|pattern| pattern.len() >= SECRET_BYTES_COMFORTABLE)
                .collect(),
            numbers: patterns
                .iter()
                .any(|pattern| pattern.bytes().all(|byte| byte.is_ascii_digit())),
        };
        Redactor {
            inner: Some(Arc::new(automaton)),
        }
    }
}
