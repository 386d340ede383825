//! Immutable text: strings, keyword and symbol names. Knows nothing of printing.

use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

/// A shared string. Positions and lengths that programs see count graphemes.
#[derive(Clone)]
pub struct Text(Arc<Data>);

struct Data {
    /// Every grapheme is one byte, so that positions need no scan.
    bytewise: bool,
    text: Box<str>,
}

impl Text {
    /// The string itself.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether both are the same allocation.
    #[inline]
    pub fn same(&self, other: &Text) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether every grapheme is one byte long.
    pub fn is_bytewise(&self) -> bool {
        self.0.bytewise
    }

    /// Length in graphemes.
    pub fn count(&self) -> usize {
        if self.0.bytewise {
            self.0.text.len()
        } else {
            self.0.text.graphemes(true).count()
        }
    }

    /// The graphemes in order.
    pub fn graphemes(&self) -> impl Iterator<Item = &str> {
        self.0.text.graphemes(true)
    }

    /// Byte offset of the grapheme with index `index`; the length in bytes when `index` is the
    /// count; `None` beyond.
    pub fn byte_offset(&self, index: usize) -> Option<usize> {
        let text = &*self.0.text;
        if self.0.bytewise {
            return (index <= text.len()).then_some(index);
        }
        let mut starts = text.grapheme_indices(true).map(|(at, _)| at);
        match starts.nth(index) {
            Some(at) => Some(at),
            None => (index == text.graphemes(true).count()).then_some(text.len()),
        }
    }
}

impl From<Box<str>> for Text {
    fn from(text: Box<str>) -> Self {
        // "\r\n" is one grapheme, so a carriage return alone decides for ASCII text.
        let bytewise = text.is_ascii() && !text.as_bytes().contains(&b'\r');
        Text(Arc::new(Data { bytewise, text }))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::from(Box::<str>::from(text))
    }
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
        self.same(other) || *self.0.text == *other.0.text
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
        if self.same(other) {
            std::cmp::Ordering::Equal
        } else {
            self.0.text.cmp(&other.0.text)
        }
    }
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
