//! Immutable text: strings, keyword and symbol names. Knows nothing of printing.

use std::sync::{Arc, OnceLock};

use unicode_segmentation::{GraphemeCursor, GraphemeIncomplete};

use super::shape::{charge_free, free_flat};
use crate::clock;
use crate::heap::MAPPED_BYTES;

/// Text longer than this gets an index when a position in it is first looked up.
const SCAN_BYTES_MAX: usize = 256;
/// The number of graphemes between two entries of an index.
const INDEX_STEP: usize = 64;

/// A shared string. Positions and lengths that programs see count graphemes.
#[derive(Clone)]
pub struct Text(Arc<Data>);

struct Data {
    /// `None` when every grapheme is one byte, so that positions need no scan.
    index: Option<Box<Index>>,
    text: Box<str>,
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.text.len() > MAPPED_BYTES {
            free_text(std::mem::take(&mut self.text).into_string());
        }
        charge_free();
    }
}

/// The byte offset of every 64th grapheme of a text, computed on first use.
type Index = OnceLock<Box<[usize]>>;

allocation!(Text);

impl Text {
    /// The text as a string slice.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether every grapheme is one byte long.
    pub fn is_bytewise(&self) -> bool {
        self.0.index.is_none()
    }

    /// The number of steps to find a position.
    pub fn seek_steps(&self) -> usize {
        match &self.0.index {
            None => 1,
            Some(index) if index.get().is_some() => INDEX_STEP,
            Some(_) => self.0.text.len(),
        }
    }

    /// Length in graphemes.
    pub fn count(&self) -> usize {
        match self.grapheme_starts() {
            None if self.is_bytewise() => self.0.text.len(),
            None => self.graphemes().count(),
            Some(starts) => {
                let last = starts.len() - 1;
                last * INDEX_STEP + graphemes(&self.0.text[starts[last]..]).count()
            }
        }
    }

    /// The graphemes in order.
    pub fn graphemes(&self) -> impl Iterator<Item = &str> {
        graphemes(&self.0.text)
    }

    /// The grapheme at position `index`.
    pub fn grapheme(&self, index: usize) -> Option<&str> {
        let offset = self.byte_offset(index)?;
        graphemes(&self.0.text[offset..]).next()
    }

    /// The byte offset of the grapheme at position `index`; the length in bytes when `index` equals the count; `None`
    /// beyond that.
    pub fn byte_offset(&self, index: usize) -> Option<usize> {
        let text = &*self.0.text;
        if self.is_bytewise() {
            return (index <= text.len()).then_some(index);
        }
        let (from, skip) = match self.grapheme_starts() {
            None => (0, index),
            Some(starts) => match starts.get(index / INDEX_STEP) {
                Some(start) => (*start, index % INDEX_STEP),
                None => (
                    starts[starts.len() - 1],
                    index - (starts.len() - 1) * INDEX_STEP,
                ),
            },
        };
        let rest = &text[from..];
        // The end of the text counts as the start of one more grapheme.
        let mut at = 0;
        let starts = graphemes(rest).map(|grapheme| {
            at += grapheme.len();
            at - grapheme.len()
        });
        starts.chain([rest.len()]).nth(skip).map(|at| from + at)
    }

    /// The position of the grapheme that contains the byte at `offset`; the count at the end of the text.
    pub fn grapheme_index(&self, offset: usize) -> usize {
        if self.is_bytewise() {
            return offset;
        }
        let (from, before) = match self.grapheme_starts() {
            None => (0, 0),
            Some(starts) => {
                let at = starts.partition_point(|start| *start <= offset) - 1;
                (starts[at], at * INDEX_STEP)
            }
        };
        let mut end = from;
        let ends = graphemes(&self.0.text[from..]).map(|grapheme| {
            end += grapheme.len();
            end
        });
        before + ends.take_while(|end| *end <= offset).count()
    }

    /// The index of a long text; its first entry is 0.
    fn grapheme_starts(&self) -> Option<&[usize]> {
        let index = self.0.index.as_ref()?;
        if self.0.text.len() <= SCAN_BYTES_MAX {
            return None;
        }
        if let Some(starts) = index.get() {
            return Some(starts);
        }
        let mut starts = Vec::new();
        let mut at = 0;
        for (count, grapheme) in self.graphemes().enumerate() {
            if count % INDEX_STEP == 0 {
                starts.push(at);
            }
            at += grapheme.len();
        }
        // An index that was cut short by a limit is not kept: the text may outlive the program.
        (!clock::has_stopped()).then(|| &**index.get_or_init(|| starts.into()))
    }
}

/// The graphemes of `text` in order. One grapheme may be as long as the text, so each is searched in slices.
pub(crate) fn graphemes(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (grapheme, after) = rest.split_at(first_grapheme(rest));
        rest = after;
        (!grapheme.is_empty()).then_some(grapheme)
    })
}

/// The end of the first grapheme of `text`; the end of the text when a limit was reached.
#[inline]
fn first_grapheme(text: &str) -> usize {
    match text.as_bytes() {
        [] => 0,
        // Two ASCII characters form one grapheme only in a line end.
        [first, second, ..] if first.is_ascii() && second.is_ascii() && *first != b'\r' => {
            if clock::may_continue(1) {
                1
            } else {
                text.len()
            }
        }
        _ => cluster(text),
    }
}

fn cluster(text: &str) -> usize {
    const SLICE_BYTES: usize = 1_024;
    let mut cursor = GraphemeCursor::new(0, text.len(), true);
    let (mut start, mut end) = (0, text.floor_char_boundary(SLICE_BYTES));
    loop {
        match cursor.next_boundary(&text[start..end], start) {
            Ok(Some(boundary)) => {
                // Looking up a character takes about ten steps.
                let may_continue = clock::may_continue(8 + (boundary - start));
                return if may_continue { boundary } else { text.len() };
            }
            Err(GraphemeIncomplete::NextChunk) if clock::may_continue(4 * SLICE_BYTES) => {
                start = end;
                end = text.floor_char_boundary(end + SLICE_BYTES);
            }
            Err(GraphemeIncomplete::PreContext(before)) => {
                let from = text.floor_char_boundary(before.saturating_sub(SLICE_BYTES));
                cursor.provide_context(&text[from..before], from);
            }
            _ => return text.len(),
        }
    }
}

impl From<Box<str>> for Text {
    fn from(text: Box<str>) -> Self {
        // "\r\n" is one grapheme, so ASCII text is bytewise if it contains no carriage return.
        let bytewise = text.as_bytes().chunks(COPIED_BYTES).all(|slice| {
            if slice.len() == COPIED_BYTES {
                clock::may_continue(COPIED_BYTES / 64);
            }
            slice.is_ascii() && memchr::memchr(b'\r', slice).is_none()
        });
        let index = (!bytewise).then(Box::default);
        Text(Arc::new(Data { index, text }))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::from(copy_metered(text))
    }
}

/// Copies `text`, in slices between which the clock is checked if it is long: its memory may be touched for the first
/// time.
fn copy_metered(text: &str) -> Box<str> {
    if text.len() <= COPIED_BYTES {
        return text.into();
    }
    let mut copy = String::with_capacity(text.len());
    push_metered(&mut copy, text);
    copy.into()
}

/// Frees a text, in slices between which the clock is checked if it is long.
pub(crate) fn free_text(text: String) {
    free_flat(text.into_bytes());
}

/// The number of bytes that are copied at once.
const COPIED_BYTES: usize = 256 * 1024;

/// Appends `part`, for which there is room, in slices between which the clock is checked. Stops early when a limit was
/// reached.
#[inline(always)] // It is one comparison, and a call would cost more than most parts.
pub(crate) fn push_metered(out: &mut String, part: &str) {
    match part.len() > COPIED_BYTES {
        true => push_slices(out, part),
        false => out.push_str(part),
    }
}

#[cold]
fn push_slices(out: &mut String, part: &str) {
    let mut rest = part;
    while rest.len() > COPIED_BYTES {
        let (slice, after) = rest.split_at(rest.floor_char_boundary(COPIED_BYTES));
        out.push_str(slice);
        rest = after;
        if !clock::may_continue(COPIED_BYTES / 16) {
            return;
        }
    }
    out.push_str(rest);
}

/// Grows the capacity of `text` to `capacity` bytes, which are already reserved. Copies in slices between which the
/// clock is checked.
pub(crate) fn grow_text(text: &mut String, capacity: usize) {
    // Short text is copied at once. Long text grows by remapping its pages where the system supports this, and is
    // copied at once elsewhere.
    if (COPIED_BYTES..MAPPED_BYTES).contains(&text.capacity()) {
        let mut grown = String::with_capacity(capacity);
        push_metered(&mut grown, text);
        *text = grown;
    }
    text.reserve_exact(capacity.saturating_sub(text.len()));
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::from(text.into_boxed_str())
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Text) -> bool {
        let (a, b) = (&*self.0.text, &*other.0.text);
        self.ptr_eq(other) || a.len() == b.len() && charge_comparison(a.len()) && a == b
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> std::cmp::Ordering {
        let (a, b) = (&*self.0.text, &*other.0.text);
        if self.ptr_eq(other) || !charge_comparison(a.len().min(b.len())) {
            std::cmp::Ordering::Equal
        } else {
            a.cmp(b)
        }
    }
}

/// Meters a comparison of `bytes`. Returns false when a limit was reached.
#[inline]
fn charge_comparison(bytes: usize) -> bool {
    /// Comparing shorter texts takes no longer than whatever compares them.
    const SHORT_BYTES: usize = 256;
    bytes <= SHORT_BYTES || clock::may_continue(bytes / 64)
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
