//! Text that grows within a byte limit and a program's memory and time limits: every printer writes to it. Knows
//! nothing of values.

use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer as _;

use crate::clock;
use crate::error::Limit;
use crate::heap;
use crate::meter::{Unwatched, Watch};
use crate::value::text::{free_text, grow_text};

/// The number of digits of an integer that are written at once.
const INTEGER_PIECE_DIGITS: u32 = 304;

/// Why a text is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkError {
    /// The text exceeds the allowed length.
    Bytes,
    /// The program reached a limit.
    Limit(Limit),
}

impl From<Limit> for SinkError {
    fn from(limit: Limit) -> SinkError {
        SinkError::Limit(limit)
    }
}

/// A text that is being written. Memory is reserved before it is allocated, and the watch is checked every few thousand
/// writes.
pub struct Sink<'w> {
    text: String,
    bytes_max: usize,
    watch: &'w dyn Watch,
    until_check: usize,
    /// The work that writing integers may still take; `None` when there is no limit.
    work_left: Option<u64>,
}

/// The most work that the integers of one text may take.
const WORK_MAX: u64 = 1 << 30;
/// Writes and blocks of bytes between two checks: together much less than a millisecond of work.
const WRITES_BETWEEN_CHECKS: usize = 2_048;
/// The number of bytes that are copied in about the time of one write.
const BLOCK_BYTES: usize = 64;
/// Growth below this size is not worth reserving.
const SMALL_BYTES: usize = 4_096;
/// Text is copied in pieces of this size, with checks in between.
pub const PIECE_BYTES: usize = 64 * 1024;

impl Sink<'static> {
    /// A text of any length, for values that do not come from a program.
    pub fn unbounded() -> Sink<'static> {
        let mut sink = Sink::new(String::new(), usize::MAX, &Unwatched);
        sink.work_left = None;
        sink
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        free_text(std::mem::take(&mut self.text));
    }
}

impl<'w> Sink<'w> {
    /// Continues `text`, which may grow to `bytes_max` bytes.
    pub fn new(text: String, bytes_max: usize, watch: &'w dyn Watch) -> Sink<'w> {
        Sink {
            text,
            bytes_max,
            watch,
            until_check: WRITES_BETWEEN_CHECKS,
            work_left: Some(WORK_MAX),
        }
    }

    /// The text written so far.
    pub fn into_text(mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The number of bytes written.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The number of bytes that may still be written.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.text.len())
    }

    /// Appends `text`, or as much of it as fits.
    ///
    /// # Errors
    /// [`SinkError`] when not all of it fits, or when the program reached a limit.
    #[inline]
    pub fn push_str(&mut self, text: &str) -> Result<(), SinkError> {
        if text.len() <= PIECE_BYTES {
            return self.push_piece(text);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            self.push_piece(piece)?;
            rest = after;
        }
        Ok(())
    }

    /// Appends a character.
    ///
    /// # Errors
    /// As [`Sink::push_str`].
    #[inline]
    pub fn push(&mut self, character: char) -> Result<(), SinkError> {
        self.push_piece(character.encode_utf8(&mut [0; 4]))
    }

    /// Appends all digits of `integer`, or the leading ones when not all of them fit.
    ///
    /// # Errors
    /// As [`Sink::push_str`]; an integer that takes longer to write than any time limit times out.
    pub fn push_integer(&mut self, integer: &BigInt) -> Result<(), SinkError> {
        const DIGITS_PER_1000_BITS: u64 = 301;
        let digits = integer.bits() / 1000 * DIGITS_PER_1000_BITS;
        let excess = digits.saturating_sub((self.room() as u64).saturating_add(2));
        self.watch.check_limits()?;
        // The work grows with about the square of the length.
        let words = (integer.bits() / 64).min(self.room() as u64 / 16);
        let work = words.saturating_mul(words);
        if let Some(left) = &mut self.work_left {
            *left = left.checked_sub(work).ok_or(Limit::Time)?;
        }
        let wanted = digits - excess.min(digits);
        let leading;
        let integer = match u32::try_from(excess) {
            // A few leading digits take a single division, whose cost depends on the length of its result.
            Ok(excess @ 1..) if wanted < u64::from(INTEGER_PIECE_DIGITS) => {
                leading = integer / BigInt::from(10).pow(excess);
                &leading
            }
            _ => integer,
        };
        if integer.sign() == Sign::Minus {
            self.push('-')?;
        }
        let mut pieces = self.pieces(integer.magnitude().clone())?;
        if let Some(first) = pieces.pop() {
            self.push_str(&first.to_string())?;
        }
        while let Some(piece) = pieces.pop() {
            self.check_limits()?;
            self.push_str(&format!(
                "{:0>1$}",
                piece.to_string(),
                INTEGER_PIECE_DIGITS as usize
            ))?;
        }
        match excess {
            0 => Ok(()),
            _ => Err(SinkError::Bytes),
        }
    }

    /// The digits of `integer` in pieces, last piece first. Each division takes a fraction of a millisecond.
    fn pieces(&mut self, mut integer: BigUint) -> Result<Vec<BigUint>, SinkError> {
        let piece = BigUint::from(10u8).pow(INTEGER_PIECE_DIGITS);
        let mut pieces = Vec::new();
        while integer >= piece {
            self.check_limits()?;
            let (rest, last) = integer.div_rem(&piece);
            pieces.push(last);
            integer = rest;
        }
        pieces.push(integer);
        Ok(pieces)
    }

    /// Checks the watch and the clock.
    fn check_limits(&mut self) -> Result<(), SinkError> {
        self.watch.check_limits()?;
        // This many writes, or one piece of an integer, take several thousand steps.
        match clock::may_continue(16 * 1024) {
            true => Ok(()),
            false => Err(Limit::Time.into()),
        }
    }

    /// Counts steps of work that may write nothing.
    ///
    /// # Errors
    /// The limit that ends the program.
    #[inline]
    pub fn charge_steps(&mut self, steps: usize) -> Result<(), SinkError> {
        if steps < self.until_check {
            self.until_check -= steps;
            return Ok(());
        }
        self.until_check = WRITES_BETWEEN_CHECKS;
        self.check_limits()
    }

    #[inline]
    fn push_piece(&mut self, piece: &str) -> Result<(), SinkError> {
        self.charge_steps(1 + piece.len() / BLOCK_BYTES)?;
        if piece.len() > self.text.capacity() - self.text.len() {
            self.grow(piece)?;
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// Makes room for `piece`. When it would exceed the limit, writes as much of it as fits.
    #[cold]
    fn grow(&mut self, piece: &str) -> Result<(), SinkError> {
        /// The initial capacity of a text.
        const LEAST_BYTES: usize = 64;
        let needed = self.text.len().saturating_add(piece.len());
        if needed > self.bytes_max {
            let fits = piece.floor_char_boundary(self.room());
            self.text.push_str(&piece[..fits]);
            return Err(SinkError::Bytes);
        }
        let capacity = self.text.capacity();
        let doubled = capacity.saturating_mul(2).max(LEAST_BYTES);
        let wanted = match doubled.max(needed).min(self.bytes_max) {
            // The next check catches small growth.
            small @ ..=SMALL_BYTES => small,
            large if heap::reserve(large - capacity) => large,
            _ => {
                // When memory is nearly exhausted, takes half of what is left, so that few steps are needed to reach
                // the limit.
                let spare = heap::room().saturating_sub(needed - capacity) / 2;
                let most = needed.saturating_add(spare).min(self.bytes_max);
                if !heap::reserve(most - capacity) {
                    return Err(SinkError::Limit(Limit::Memory));
                }
                most
            }
        };
        grow_text(&mut self.text, wanted);
        Ok(())
    }

    /// Appends formatted text.
    ///
    /// # Errors
    /// As [`Sink::push_str`].
    pub fn write_fmt(&mut self, format: fmt::Arguments<'_>) -> Result<(), SinkError> {
        struct Writing<'s, 'w>(&'s mut Sink<'w>, Option<SinkError>);
        impl fmt::Write for Writing<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.push_str(text).map_err(|over| {
                    self.1 = Some(over);
                    fmt::Error
                })
            }
        }
        let mut writing = Writing(self, None);
        match (fmt::Write::write_fmt(&mut writing, format), writing.1) {
            (Err(_), Some(over)) => Err(over),
            _ => Ok(()),
        }
    }
}
