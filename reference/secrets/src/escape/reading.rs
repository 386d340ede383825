//! One reading of an escape, and how readings of one position are collected.

use smallvec::SmallVec;

use super::DEPTH;
use crate::blocks::digit;

/// The number of readings of an escape that are stored inline, and the maximum that are kept: octal digits that are octal escapes in
/// turn, four deep, have nearly a hundred.
pub(super) const USUAL: usize = 4;
const READINGS_MAX: usize = 128;

/// The readings of one escape.
pub(crate) type Readings = SmallVec<[Reading; USUAL]>;

/// One reading of an escape: the bytes it stands for, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The position after the last byte of the escape.
    pub end: usize,
    bytes: [u8; READING_BYTES_MAX],
    length: u8,
    /// Whether it is a style sheet escape: hexadecimal digits behind a backslash. People write these by hand, and no writer uses them
    /// for the characters of its own escapes, so this reading is not used as a character of another escape. Otherwise `\134` (octal
    /// for a backslash, or U+0134 of a style sheet) would have twice as many readings in each layer.
    pub(super) style: bool,
    /// The first layer in which it is read.
    pub(super) layer: u8,
}

/// Maximum bytes that one escape stands for: one character, or the two of some entities.
const READING_BYTES_MAX: usize = 8;

impl Reading {
    /// The bytes that the escape stands for: a character in UTF-8, or one raw byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// A blank that a form writes as one other character.
    pub fn blank(end: usize) -> Self {
        Self::from_byte(b' ', end)
    }

    pub fn from_byte(byte: u8, end: usize) -> Self {
        let mut bytes = [0; READING_BYTES_MAX];
        bytes[0] = byte;
        Self {
            end,
            bytes,
            length: 1,
            style: false,
            layer: 0,
        }
    }

    pub(super) fn in_layer(self, layer: u8) -> Self {
        Self { layer, ..self }
    }

    /// The same reading for an escape whose introducer is read in `layer`.
    pub(super) fn behind_introducer(self, layer: u8) -> Self {
        self.in_layer(self.layer.max(1 + layer))
    }

    /// Whether the two are equal apart from their layer.
    pub fn reads_as(&self, other: &Self) -> bool {
        (self.end, self.bytes, self.length, self.style)
            == (other.end, other.bytes, other.length, other.style)
    }

    /// The single byte that the escape stands for, if it is ASCII.
    pub fn ascii(&self) -> Option<u8> {
        match self.bytes() {
            [byte] if byte.is_ascii() => Some(*byte),
            _ => None,
        }
    }

    /// The byte as a character of another escape or of a block, if it can be one.
    pub fn character(&self) -> Option<u8> {
        self.ascii().filter(|_| !self.style)
    }
}

pub(super) fn push_text(text: &[u8], end: usize, layer: u8, out: &mut Readings) {
    let mut bytes = [0; READING_BYTES_MAX];
    if let Some(place) = bytes.get_mut(..text.len()) {
        place.copy_from_slice(text);
        let length = text.len() as u8;
        let reading = Reading {
            end,
            bytes,
            length,
            style: false,
            layer,
        };
        push_unique(reading, out);
    }
}

pub(super) fn push_char(code: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        let length = character.encode_utf8(&mut [0; 4]).len();
        let mut reading = Reading::from_byte(0, end).in_layer(layer);
        character.encode_utf8(&mut reading.bytes);
        reading.length = length as u8;
        push_unique(reading, out);
    }
}

pub(super) fn push_style_char(code: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        let mut reading = Reading::from_byte(0, end).in_layer(layer);
        reading.length = character.encode_utf8(&mut reading.bytes).len() as u8;
        reading.style = true;
        push_unique(reading, out);
    }
}

pub(super) fn push_byte(byte: u8, end: usize, layer: u8, out: &mut Readings) {
    push_unique(Reading::from_byte(byte, end).in_layer(layer), out);
}

/// The byte that two hexadecimal digits encode.
pub(super) fn pair(high: u8, low: u8) -> Option<u8> {
    let (high, low) = digit(high).zip(digit(low))?;
    Some((high << 4 | low) as u8)
}

/// Adds both the raw byte and the character with that number: `%XX` may mean either.
pub(super) fn push_byte_or_char(value: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Ok(byte) = u8::try_from(value) {
        push_byte(byte, end, layer, out);
        if !byte.is_ascii() {
            push_char(value, end, layer, out);
        }
    }
}

/// Adds a reading unless it is present or too deep; an existing equal reading keeps the lower layer.
#[inline]
pub(super) fn push_unique(reading: Reading, out: &mut Readings) {
    if reading.layer > DEPTH {
        return;
    }
    if let Some(other) = out.iter_mut().find(|other| other.reads_as(&reading)) {
        other.layer = other.layer.min(reading.layer);
    } else if out.len() < READINGS_MAX {
        out.push(reading);
    } else if let Some(deepest) = out.iter_mut().max_by_key(|other| other.layer)
        && reading.layer < deepest.layer
    {
        *deepest = reading;
    }
}
