//! The redactor: replaces every written form of every secret, and nothing else.
//!
//! Forms are found by decoding the text, not by listing the encodings that writers use:
//!
//! 1. A secret may be written literally.
//! 2. Each of its characters may be escaped (`escape`): percent, backslash, HTML, one inside another, up to four deep. A position in
//!    a text has several readings; a walk through the sorted secrets follows the readings that begin a secret (`needles`). The walk
//!    starts only where an escape is next to a piece of a secret, so ordinary text costs little more than finding its escapes.
//! 3. The whole secret may be a block (`blocks`): base64 in either alphabet, padded or not, wrapped or not, anywhere in a longer
//!    text, its characters escaped or not; or hexadecimal digits, with or without separators between the pairs. Long runs of such
//!    characters are decoded in every alignment, and the decoded bytes are searched again: literally, escaped, and as a block in turn.
//!
//! Matches are ranges of the original text. Overlapping matches become one marker. A part of a secret is not a form: text without a
//! whole form stays as it is, byte for byte; otherwise a program could spell out a secret by watching what vanishes.
//!
//! Every step reads a text a bounded number of times, whatever the text contains. Knows nothing of where text comes from.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use memchr::memmem;
use rustix::time::{ClockId, clock_gettime};
use zeroize::Zeroizing;

use crate::blocks::{self, ResolvedEscape, Run, Scratch, UnescapedView};
use crate::escape::Reading;
use crate::needles::Needles;
use crate::scrubbed::{Scrub, Scrubbed};
use crate::secret::{NUMBER_BYTES_MIN, SECRET_BYTES_MIN, Secret};
use crate::source::wipe;
use crate::stream::StreamScrubber;
use crate::veil::Veil;
use crate::watch::Watch;

/// Maximum time for scrubbing one answer that no program's own time limit covers, and everything that observers keep of one call. What
/// a program shows was scrubbed within the program's time, so only large text that is crafted to be slow to search takes longer.
pub const SCRUB_TIME_MAX: Duration = Duration::from_millis(250);

/// The text that replaces a secret.
pub const MARKER: &str = "[REDACTED]";

/// Maximum nesting depth of blocks.
const BLOCKS_MAX: u8 = 2;
/// Shorter secrets are not searched for in blocks: any block could contain them by chance.
pub(crate) const BLOCK_BYTES_MIN: usize = 8;
/// A form of up to `REACH_FACTOR` times the length of the longest secret, or of `REACH_BYTES_MIN`, is found even across a division of
/// long text.
const REACH_FACTOR: usize = 64;
const REACH_BYTES_MIN: usize = 16 * 1024;
/// Long text is divided into pieces of this many times the reach.
const PIECE_FACTOR: usize = 4;
/// Maximum number of zeros that an exponent may stand for in a secret.
const EXPONENT_ZEROS_MAX: usize = 512;
/// One in this many time checks reads the system clock.
const CHECKS_PER_CLOCK_READ: usize = 8;
/// Maximum number of passes over a text: a marker and the text next to it may together be a form, so cleaned text is searched again.
const PASSES_MAX: usize = 4;

/// The scrub set of one runtime. Clones share it. Without registered secrets every operation returns its input untouched.
#[derive(Clone, Default)]
pub struct Redactor {
    inner: Option<Arc<Finder>>,
    /// Asked whether there is time left; `None` means no limit.
    has_time: Option<TimeCheck>,
    /// The time limit for each text or value when `has_time` is `None`.
    each: Option<Duration>,
}

type TimeCheck = Arc<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct Finder {
    needles: Needles,
    /// Bytes of the shortest secret that is searched for in blocks; 0 when there is none.
    block_bytes: usize,
    /// Whether a number could spell a secret.
    numbers: bool,
    /// Whether a secret could be an object or array of JSON.
    structures: bool,
    /// The largest number of line ends in any one secret: a stream has to wait for this many lines.
    pub(crate) line_ends: usize,
}

/// A limit of the CPU time that the thread may spend on searches. Most texts are short, and reading that clock takes longer than
/// searching them, so only some of the checks read it, and the time begins with the first of these.
struct TimeLimit {
    time: Duration,
    until: OnceLock<Duration>,
    checks: AtomicUsize,
    is_over: AtomicBool,
}

impl TimeLimit {
    fn new(time: Duration) -> Self {
        Self {
            time,
            until: OnceLock::new(),
            checks: AtomicUsize::new(0),
            is_over: AtomicBool::new(time.is_zero()),
        }
    }

    fn has_time(&self) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let check = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
        if check.is_multiple_of(CHECKS_PER_CLOCK_READ) {
            let now = thread_cpu_time();
            let until = self.until.get_or_init(|| now.saturating_add(self.time));
            self.is_over.store(now >= *until, Ordering::Relaxed);
        }
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// A time budget that several texts share: time spent on one is not available to the others.
#[derive(Clone, Debug)]
pub struct SharedTime(Arc<AtomicU64>);

impl SharedTime {
    #[must_use]
    pub fn new(time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self(Arc::new(AtomicU64::new(nanos)))
    }

    /// Calls `scrub` with a redactor limited to the remaining time, then deducts the CPU time that this thread spent.
    pub fn spend<T>(&self, redactor: &Redactor, scrub: impl FnOnce(&Redactor) -> T) -> T {
        let (began, left) = (thread_cpu_time(), self.0.load(Ordering::Relaxed));
        let scrubbed = scrub(&redactor.with_time_limit(Duration::from_nanos(left)));
        let took = thread_cpu_time().saturating_sub(began).as_nanos();
        let left = left.saturating_sub(u64::try_from(took).unwrap_or(u64::MAX));
        self.0.store(left, Ordering::Relaxed);
        scrubbed
    }
}

impl Redactor {
    /// A redactor without secrets.
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

    /// Bytes that the tables occupy (0 when empty).
    pub fn memory_bytes(&self) -> usize {
        self.inner
            .as_ref()
            .map_or(0, |finder| finder.needles.memory_bytes())
    }

    /// Scrubs a value by its own rules (see [`Scrub`]) and marks it as fit to leave the process.
    pub fn scrub<T: Scrub>(&self, mut value: T) -> Scrubbed<T> {
        if !self.is_empty() {
            value.scrub_in_place(self.for_one_text().as_ref().unwrap_or(self));
        }
        Scrubbed::seal(value)
    }

    /// A redactor with the same secrets that searches while `has_time` returns true; it is asked before each text and many times a
    /// millisecond. A text whose search was cut short becomes a marker: nothing leaves unsearched.
    #[must_use]
    pub fn with_time_check(&self, has_time: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            inner: self.inner.clone(),
            has_time: Some(Arc::new(has_time)),
            each: self.each,
        }
    }

    /// A redactor with the same secrets that spends at most `time` of the thread's CPU time on each text or value, unless
    /// [`with_time_check`](Self::with_time_check) or [`with_time_limit`](Self::with_time_limit) sets another limit.
    #[must_use]
    pub fn with_time_limit_per_text(self, time: Duration) -> Self {
        Self {
            each: Some(time),
            ..self
        }
    }

    /// The redactor for one text or value when no other limit is set.
    fn for_one_text(&self) -> Option<Self> {
        let time = self
            .each
            .filter(|_| self.has_time.is_none() && !self.is_empty())?;
        Some(self.with_time_limit(time))
    }

    /// A redactor with the same secrets that searches until this thread has used `time` of CPU time: for text from a client or an
    /// upstream, which no program's own time limit covers, or not enough. Time in which the process was suspended does not count. The
    /// condition of [`with_time_check`](Self::with_time_check) still applies.
    #[must_use]
    pub fn with_time_limit(&self, time: Duration) -> Self {
        if self.is_empty() {
            return self.clone();
        }
        let (limit, has_time) = (TimeLimit::new(time), self.has_time.clone());
        self.with_time_check(move || {
            limit.has_time() && has_time.as_ref().is_none_or(|has_time| has_time())
        })
    }

    /// True when everything scrubbed from now on becomes a marker, whatever it holds.
    pub fn is_out_of_time(&self) -> bool {
        self.has_time.as_ref().is_some_and(|has_time| !has_time())
    }

    /// Scrubs text; borrows it unchanged when nothing matches.
    pub fn scrub_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if let Some(clocked) = self.for_one_text() {
            return clocked.scrub_str(text);
        }
        if self.has_time.is_some() {
            let scrubbed = self.scrub_str_within(text, &mut || Ok::<_, Infallible>(()));
            return scrubbed.unwrap_or_else(|never| match never {});
        }
        let clean = self.inner.as_ref();
        match clean.and_then(|finder| finder.redact(text.as_bytes(), &mut Watch::unlimited())) {
            None => Cow::Borrowed(text),
            Some(bytes) => Cow::Owned(into_text(bytes)),
        }
    }

    /// [`scrub_str`](Self::scrub_str) for text of any length, in pieces; `look` is called before each piece and several times a
    /// millisecond to decide whether to go on. A form that is much longer than its secret (see [`Finder::reach`]) may be missed at the
    /// end of a piece.
    ///
    /// # Errors
    /// The error of `look`.
    pub fn scrub_str_within<'a, E>(
        &self,
        text: &'a str,
        look: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Cow<'a, str>, E> {
        let Some(finder) = &self.inner else {
            return Ok(Cow::Borrowed(text));
        };
        let (mut stopped, mut late) = (None, false);
        let mut has_time = || {
            late = self.is_out_of_time();
            stopped = look().err();
            stopped.is_none() && !late
        };
        let (mut clean, mut copied, mut done) = (String::new(), 0, 0);
        while done < text.len() {
            let mut watch = Watch::new(&mut has_time);
            let end = text.floor_char_boundary(done.saturating_add(finder.piece_bytes()));
            let piece = &text.as_bytes()[done..end];
            let mut places = finder.find_forms(piece, &mut watch);
            let decided = match end == text.len() {
                true => end,
                false => text.ceil_char_boundary(done + finder.decided(piece, &places)),
            };
            places.retain(|place| done + place.start < decided);
            let piece = finder.redact_ranges(&text.as_bytes()[done..decided], &places, &mut watch);
            if watch.is_over() {
                break;
            }
            if let Some(piece) = piece {
                clean.push_str(&text[copied..done]);
                clean.push_str(&into_text(piece));
                copied = decided;
            }
            done = decided;
        }
        if let Some(stopped) = stopped {
            return Err(stopped);
        }
        if late {
            return Ok(Cow::Owned(MARKER.to_owned()));
        }
        if copied == 0 {
            return Ok(Cow::Borrowed(text));
        }
        clean.push_str(&text[copied..]);
        Ok(Cow::Owned(clean))
    }

    /// [`scrub_lines_within`](Self::scrub_lines_within), never given up.
    pub fn scrub_lines(&self, lines: Vec<String>) -> Vec<String> {
        let clocked = self.for_one_text();
        let redactor = clocked.as_ref().unwrap_or(self);
        let scrubbed = redactor.scrub_lines_within(lines, &mut || Ok::<_, Infallible>(()));
        scrubbed.unwrap_or_else(|never| match never {})
    }

    /// [`scrub_str_within`](Self::scrub_str_within) for lines that are shown one below the other: each of them, and what they make
    /// together. Where a secret spans several lines there are fewer afterwards.
    ///
    /// # Errors
    /// The error of `look`.
    pub fn scrub_lines_within<E>(
        &self,
        mut lines: Vec<String>,
        look: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        /// Bytes of lines that are scanned between two looks: hostile lines take a good part of a millisecond.
        const BYTES_BETWEEN_LOOKS: usize = 512;
        let mut until_look = BYTES_BETWEEN_LOOKS;
        for line in &mut lines {
            let mut look_at_times = || {
                if line.len() < until_look {
                    until_look -= line.len();
                    return Ok(());
                }
                until_look = BYTES_BETWEEN_LOOKS;
                look()
            };
            if let Cow::Owned(clean) = self.scrub_str_within(line, &mut look_at_times)? {
                *line = clean;
            }
        }
        if lines.len() > 1
            && !self.is_empty()
            && let Cow::Owned(clean) = self.scrub_str_within(&lines.join("\n"), look)?
        {
            lines = clean.split('\n').map(str::to_owned).collect();
        }
        Ok(lines)
    }

    /// The result of `search`; `None` when there was no time to complete it.
    fn in_time<T>(&self, search: impl FnOnce(&mut Watch<'_>) -> T) -> Option<T> {
        if let Some(clocked) = self.for_one_text() {
            return clocked.in_time(search);
        }
        let Some(has_time) = self.has_time.as_ref().filter(|_| !self.is_empty()) else {
            return Some(search(&mut Watch::unlimited()));
        };
        let mut has_time = || has_time();
        let mut watch = Watch::new(&mut has_time);
        let found = search(&mut watch);
        (!watch.is_over()).then_some(found)
    }

    /// The ranges of all forms in a text; `None` when there was no time to find them all.
    pub(crate) fn find_forms(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        self.in_time(|watch| {
            let finder = self.inner.as_ref();
            finder.map_or_else(Vec::new, |finder| finder.find_forms(text, watch))
        })
    }

    /// A veil over what messages quote from `program`.
    pub fn veil<'r>(&'r self, program: &'r str) -> Veil<'r> {
        Veil::new(self, program)
    }

    /// The forms of secrets in a text, as they are written; the whole text when there was no time to find them all.
    pub(crate) fn forms_in<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let Some(places) = self.find_forms(text.as_bytes()) else {
            return vec![text];
        };
        let written = places.into_iter().filter_map(|place| text.get(place));
        written.collect()
    }

    /// True when `text` contains a form of a secret, or may contain one because there was no time to search it.
    pub fn finds_secret_in(&self, text: &str) -> bool {
        self.find_forms(text.as_bytes())
            .is_none_or(|places| !places.is_empty())
    }

    /// True when a number's text contains a secret of at least eight bytes, literally or with its exponent applied (`1.2E1` is 12).
    /// Shorter secrets can't be distinguished from ordinary numbers.
    pub fn finds_secret_in_number(&self, digits: &str) -> bool {
        let Some(finder) = self.inner.as_ref().filter(|finder| finder.numbers) else {
            return false;
        };
        let stands = |text: &str| {
            finder
                .needles
                .contains_literal(text.as_bytes(), NUMBER_BYTES_MIN)
        };
        stands(digits) || without_exponent(digits).is_some_and(|digits| stands(&digits))
    }

    /// The ranges of the objects and arrays in JSON text that are secrets, as they stand; the whole text when there was no time to find
    /// them all.
    pub(crate) fn find_structures(&self, json: &str) -> Vec<Range<usize>> {
        if !self.has_structured_secret() {
            return Vec::new();
        }
        let whole = || std::iter::once(0..json.len()).collect();
        let mut places = self.find_forms(json.as_bytes()).unwrap_or_else(whole);
        places.retain(|place| {
            let form = json.get(place.clone()).unwrap_or_default();
            let is_whole = |open, close| form.starts_with(open) && form.ends_with(close);
            form.len() >= SECRET_BYTES_MIN && (is_whole('{', '}') || is_whole('[', ']'))
        });
        places
    }

    /// True when a secret could be an object or array of JSON.
    pub fn has_structured_secret(&self) -> bool {
        self.inner.as_ref().is_some_and(|finder| finder.structures)
    }

    /// True when a secret consists of digits, so that a number could spell it.
    pub fn has_numeric_secret(&self) -> bool {
        self.inner.as_ref().is_some_and(|finder| finder.numbers)
    }

    /// A scrubber for one stream of chunks that finds secrets split across chunks. Threads may spend at most `time` on it.
    pub fn stream(&self, time: Duration) -> StreamScrubber {
        StreamScrubber::new(self.inner.clone(), time)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            None => f.write_str("Redactor(empty)"),
            Some(finder) => write!(f, "Redactor({} secrets)", finder.needles.len()),
        }
    }
}

impl Finder {
    /// Bytes of the longest form that is found even across a division of long text.
    pub(crate) fn reach(&self) -> usize {
        REACH_BYTES_MIN.max(self.needles.longest.saturating_mul(REACH_FACTOR))
    }

    /// Maximum bytes of text that are searched at once before the text is divided.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.reach().saturating_mul(PIECE_FACTOR)
    }

    /// The end of the part of `text` that no form can extend beyond; the last [`reach`](Self::reach) bytes stay undecided. `places`: the
    /// ranges of all forms in `text`.
    pub(crate) fn decided(&self, text: &[u8], places: &[Range<usize>]) -> usize {
        let mut decided = text.len().saturating_sub(self.reach());
        for place in places {
            if place.contains(&decided) {
                decided = place.end;
            }
        }
        decided
    }

    /// The text with a marker for every form; `None` when it has no form.
    pub(crate) fn redact(&self, text: &[u8], watch: &mut Watch<'_>) -> Option<Vec<u8>> {
        let places = self.find_forms(text, watch);
        self.redact_ranges(text, &places, watch)
    }

    /// Like [`redact`](Self::redact), with the ranges of all forms already known.
    pub(crate) fn redact_ranges(
        &self,
        text: &[u8],
        places: &[Range<usize>],
        watch: &mut Watch<'_>,
    ) -> Option<Vec<u8>> {
        if places.is_empty() {
            return None;
        }
        let mut clean = replace_ranges(text, places);
        for _ in 1..PASSES_MAX {
            let places = self.find_forms(&clean, watch);
            if places.is_empty() {
                return Some(clean);
            }
            clean = replace_ranges(&clean, &places);
        }
        match self.find_forms(&clean, watch).is_empty() {
            true => Some(clean),
            // Secrets that are made of markers: nothing of the text can be kept.
            false => Some(MARKER.as_bytes().to_vec()),
        }
    }

    /// The ranges of all forms in ascending order, without overlap. A marker stays intact, even with the secret `E`: a match inside a
    /// marker is no form, and a match that overlaps a marker is extended to include it.
    pub(crate) fn find_forms(&self, text: &[u8], watch: &mut Watch<'_>) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        self.search(text, BLOCKS_MAX, 1, &mut places, watch);
        if places.is_empty() || watch.is_over() {
            return places;
        }
        let markers: Vec<Range<usize>> = memmem::find_iter(text, MARKER)
            .map(|at| at..at + MARKER.len())
            .collect();
        let marker_at = |at: usize| {
            let next = markers.partition_point(|marker| marker.end <= at);
            markers.get(next).filter(|marker| marker.start <= at)
        };
        places.retain_mut(|place| {
            let inside = marker_at(place.start).is_some_and(|marker| place.end <= marker.end);
            if let Some(marker) = marker_at(place.start) {
                place.start = marker.start;
            }
            if let Some(marker) = marker_at(place.end - 1) {
                place.end = marker.end;
            }
            !inside
        });
        places.sort_unstable_by_key(|place| (place.start, place.end));
        let mut joined: Vec<Range<usize>> = Vec::new();
        for place in places {
            match joined.last_mut() {
                Some(last) if place.start < last.end => last.end = last.end.max(place.end),
                _ => joined.push(place),
            }
        }
        joined
    }

    /// Adds the ranges of secrets of `least` bytes and more in `text` and in its blocks, which are decoded up to `blocks` deep.
    fn search(
        &self,
        text: &[u8],
        blocks: u8,
        least: usize,
        places: &mut Vec<Range<usize>>,
        watch: &mut Watch<'_>,
    ) {
        self.needles
            .find_literal(text, least, &mut |place| places.push(place), watch);
        let mut usual = BlockEscapes::default();
        // The same escapes, read as if a backslash before an introducer escapes the introducer; `None` while there is no such backslash.
        let mut escaped: Option<BlockEscapes> = None;
        // Escapes that read as a letter or as a line end or tab: the index of the escape and the line end or tab.
        let mut ambiguous: Vec<(usize, u8)> = Vec::new();
        let mut found = Vec::new();
        self.needles.find_escaped(
            text,
            least,
            &mut |place| found.push(place),
            &mut |at, readings| {
                if blocks == 0 {
                    return;
                }
                let is_escaped = |at: usize| matches!(text[at..], [b'\\', b'%' | b'&', ..]);
                if is_escaped(at) {
                    escaped.get_or_insert_with(|| usual.clone());
                } else if let Some(escaped) = &mut escaped {
                    let before = at.checked_sub(1).filter(|before| is_escaped(*before));
                    let longest = escaped.longest(text, before.unwrap_or(at), readings);
                    if let Some(escape) = longest {
                        escaped.add(escape);
                    }
                }
                let Some(escape) = usual.longest(text, at, readings) else {
                    return;
                };
                if blocks::is_sextet(escape.2) {
                    let blank = |other: &ResolvedEscape| {
                        other.1 == escape.1 && matches!(other.2, b'\n' | b'\r' | b'\t')
                    };
                    if let Some((.., byte)) = usual.block_readings(text, at, readings).find(blank) {
                        ambiguous.push((usual.escapes.len(), byte));
                    }
                }
                usual.add(escape);
            },
            watch,
        );
        places.append(&mut found);
        if watch.is_over() || blocks == 0 || self.block_bytes == 0 || text.len() < self.block_bytes
        {
            return;
        }
        let mut escapes = usual.escapes;
        self.search_blocks(text, blocks, &mut |place| places.push(place), watch);
        self.search_escaped_blocks(text, blocks, &escapes, places, watch);
        // `\%363` is two digits after an escaped percent sign, or an octal escape with one of its digits escaped.
        if let Some(escaped) = escaped {
            self.search_escaped_blocks(text, blocks, &escaped.escapes, places, watch);
        }
        // `\\x6e` is a letter to one writer and a line end to another. A text has one writer, so two views find its blocks.
        if !ambiguous.is_empty() {
            for (index, byte) in ambiguous {
                escapes[index].2 = byte;
            }
            self.search_escaped_blocks(text, blocks, &escapes, places, watch);
        }
    }

    /// Adds the ranges of secrets in blocks that contain at least one of `escapes`.
    fn search_escaped_blocks(
        &self,
        text: &[u8],
        blocks: u8,
        escapes: &[ResolvedEscape],
        places: &mut Vec<Range<usize>>,
        watch: &mut Watch<'_>,
    ) {
        let chars = self.block_bytes * 4 / 3;
        if !watch.try_spend(escapes.len()) {
            return;
        }
        for (around, which) in blocks::surroundings(text, escapes, chars) {
            if !watch.try_spend(around.len()) {
                return;
            }
            let view = UnescapedView::new(text, around, &escapes[which]);
            let mut hit = |place| places.push(view.original(place));
            self.search_blocks(&view.text, blocks, &mut hit, watch);
            let indented = view.with_blank_indent();
            if let Some(text) = indented.filter(|text| watch.try_spend(text.len())) {
                self.search_blocks(&text, blocks, &mut hit, watch);
            }
        }
    }

    fn search_blocks(
        &self,
        text: &[u8],
        blocks: u8,
        hit: &mut dyn FnMut(Range<usize>),
        watch: &mut Watch<'_>,
    ) {
        let chars = self.block_bytes * 4 / 3;
        let mut scratch = Scratch::default();
        let wrapped = std::cell::RefCell::new(Vec::new());
        let mut run_at = |from: usize| {
            let run = Run::read(text, from);
            if run.len() >= chars && watch.try_spend(run.len()) {
                run.decode(self.block_bytes, &mut scratch, |bytes, piece| {
                    for place in self.search_decoded(bytes, blocks, watch) {
                        hit(run.place(text, piece, place));
                    }
                });
            }
            if run.is_wrapped() {
                wrapped.borrow_mut().push(from..run.end);
            }
            run.end
        };
        blocks::scan(text, chars, &mut run_at);
        let known = wrapped.take();
        blocks::scan_indented(text, &known, &mut run_at);
        blocks::find_dumps(text, self.block_bytes, |bytes, starts| {
            for place in self.search_decoded(bytes, blocks, watch) {
                hit(starts[place.start]..starts[place.end - 1] + 2);
            }
        });
    }

    /// The ranges of secrets in the decoded bytes of a block.
    fn search_decoded(&self, bytes: &[u8], blocks: u8, watch: &mut Watch<'_>) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        if !watch.try_spend(bytes.len()) {
            return places;
        }
        // Most decoded bytes can be skipped: no form can be written in them.
        for stretch in self.needles.candidates(bytes, self.block_bytes) {
            let known = places.len();
            let (from, piece) = (stretch.start, &bytes[stretch]);
            self.search(piece, blocks - 1, BLOCK_BYTES_MIN, &mut places, watch);
            for place in &mut places[known..] {
                *place = from + place.start..from + place.end;
            }
        }
        places
    }
}

/// The escapes of a text that stand for block characters, as one writer means them.
#[derive(Clone, Default)]
struct BlockEscapes {
    escapes: Vec<ResolvedEscape>,
    /// The end of the last of them.
    resolved: usize,
}

impl BlockEscapes {
    fn add(&mut self, escape: ResolvedEscape) {
        self.resolved = escape.1;
        self.escapes.push(escape);
    }

    /// The longest block reading of the escape that begins at `from`.
    fn longest(&self, text: &[u8], from: usize, readings: &[Reading]) -> Option<ResolvedEscape> {
        // Blocks are made of sextets; other characters only separate them.
        let best = |(_, end, byte): &ResolvedEscape| (*end, blocks::is_sextet(*byte));
        self.block_readings(text, from, readings).max_by_key(best)
    }

    /// The readings that belong to a block; none when an escape added before already covers `from`.
    fn block_readings(
        &self,
        text: &[u8],
        from: usize,
        readings: &[Reading],
    ) -> impl Iterator<Item = ResolvedEscape> {
        // Directly behind an escape, or behind one digit and a separator after it: this position may be inside a block.
        let joined = self.resolved > 0 && from <= self.resolved + 2;
        let belongs = move |reading: &Reading| {
            let in_block = |byte: &u8| blocks::belongs(&text[..from], *byte, joined);
            Some((from, reading.end, reading.character().filter(in_block)?))
        };
        let apart = from >= self.resolved;
        readings.iter().filter(move |_| apart).filter_map(belongs)
    }
}

/// The CPU time that this thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Writes a number in scientific notation as plain digits with the point where its exponent puts it, at most some hundred digits; `None`
/// when the point would be before the digits.
fn without_exponent(number: &str) -> Option<String> {
    let (mantissa, exponent) = number.split_once(['e', 'E'])?;
    let exponent: isize = exponent
        .strip_prefix('+')
        .unwrap_or(exponent)
        .parse()
        .ok()?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = [sign, whole, fraction].concat();
    let point = whole.len().checked_add_signed(exponent)?;
    let zeros = point.saturating_sub(whole.len() + fraction.len());
    if point == 0 || zeros >= EXPONENT_ZEROS_MAX {
        return None;
    }
    digits.extend(std::iter::repeat_n('0', zeros));
    let fraction = digits.split_off(sign.len() + point);
    match fraction.trim_end_matches('0') {
        "" => Some(digits),
        fraction => Some(digits + "." + fraction),
    }
}

/// Patterns and marker are UTF-8, so matches start and end at character boundaries and nothing is lost here.
pub(crate) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn replace_ranges(text: &[u8], places: &[Range<usize>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        out.extend_from_slice(&text[done..place.start]);
        out.extend_from_slice(MARKER.as_bytes());
        done = place.end;
    }
    out.extend_from_slice(&text[done..]);
    out
}

/// The parts of a secret that are scrubbed: the whole secret; the secret without surrounding blanks, as it is sent in a header or read
/// from a variable; and the token after a scheme name, as a server sees it. Never empty.
pub fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let token = token(secret).filter(|token| token.len() >= SECRET_BYTES_MIN);
    let parts = [Some(secret), Some(secret.trim()), token];
    parts.into_iter().flatten().filter(|part| !part.is_empty())
}

/// The compact form of a secret that is an object or array of JSON: others parse it, and write it anew.
fn compact_json(secret: &str) -> Option<Zeroizing<String>> {
    if !secret.trim_start().starts_with(['{', '[']) {
        return None;
    }
    wipe(&mut serde_json::from_str(secret).ok()?);
    let mut compact = Zeroizing::new(String::with_capacity(secret.len()));
    let (mut quoted, mut escaped) = (false, false);
    for letter in secret.chars() {
        if quoted || !letter.is_ascii_whitespace() {
            compact.push(letter);
        }
        quoted ^= letter == '"' && !escaped;
        escaped = quoted && letter == '\\' && !escaped;
    }
    Some(compact)
}

/// The token in a text that has the shape of HTTP credentials: a scheme name, blanks, a token.
fn token(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.trim().split_once(' ')?;
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let token = token.trim_start_matches(' ');
    (scheme.bytes().all(named) && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then_some(token)
}

/// Collects secrets, then builds the tables once.
#[derive(Clone, Default)]
pub struct RedactorBuilder {
    secrets: Vec<Zeroizing<String>>,
}

impl RedactorBuilder {
    /// Registers a secret with its [`parts`], and one that is JSON also in its compact form. The empty secret is ignored.
    pub fn add(&mut self, secret: &Secret) -> &mut Self {
        let parts = parts(secret.expose()).map(|part| Zeroizing::new(part.to_owned()));
        self.secrets.extend(parts);
        self.secrets.extend(compact_json(secret.expose()));
        self
    }

    /// Builds the scrub set. Memory stays below 16 MB for 1,000 secrets of usual length.
    pub fn build(self) -> Redactor {
        let mut secrets = self.secrets;
        secrets.sort_unstable_by(|left, right| left.as_str().cmp(right));
        secrets.dedup_by(|left, right| left.as_str() == right.as_str());
        if secrets.is_empty() {
            return Redactor::empty();
        }
        let long = |secret: &Zeroizing<String>| {
            Some(secret.len()).filter(|length| *length >= BLOCK_BYTES_MIN)
        };
        let number = |secret: &Zeroizing<String>| {
            let digit = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
            secret.bytes().all(digit)
        };
        let finder = Finder {
            block_bytes: secrets.iter().filter_map(long).min().unwrap_or(0),
            numbers: secrets.iter().any(number),
            structures: secrets.iter().any(|secret| secret.starts_with(['{', '['])),
            line_ends: secrets
                .iter()
                .map(|secret| secret.matches('\n').count())
                .max()
                .unwrap_or(0),
            needles: Needles::new(&secrets),
        };
        Redactor {
            inner: Some(Arc::new(finder)),
            ..Redactor::default()
        }
    }
}
