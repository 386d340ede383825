//! Newline framing with a size limit: bytes in, lines out. Does no I/O and knows nothing of JSON.

/// Splits a byte stream into lines of at most `cap` bytes, not counting the terminator and carriage returns before it.
///
/// An over-long line is dropped while it arrives and reported once, when its newline arrives.
#[derive(Debug)]
pub struct Framer {
    cap: usize,
    pending: Vec<u8>,
    overflowed: bool,
}

/// What a newline ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its terminator.
    Whole(&'a [u8]),
    /// A line longer than the limit; its bytes are discarded.
    TooLong,
}

impl Framer {
    /// Memory that an emptied buffer may keep.
    const IDLE_BYTES_MAX: usize = 1 << 20;

    /// A framer for lines of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Framer {
            cap,
            pending: Vec::new(),
            overflowed: false,
        }
    }

    /// Takes the next bytes of the stream and passes every line that they complete to `each`, in order, until it returns false;
    /// the bytes after that line are dropped. Returns whether all bytes were taken.
    pub fn feed(&mut self, mut chunk: &[u8], mut each: impl FnMut(Line<'_>) -> bool) -> bool {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
            chunk = rest;
            let go_on = if self.is_mid_line() {
                self.buffer(line);
                each(match self.overflowed {
                    true => Line::TooLong,
                    false => Line::Whole(trim(&self.pending)),
                })
            } else if self.fits(line) {
                each(Line::Whole(trim(line)))
            } else {
                each(Line::TooLong)
            };
            self.overflowed = false;
            self.pending.clear();
            if self.pending.capacity() > Self::IDLE_BYTES_MAX {
                self.pending = Vec::new();
            }
            if !go_on {
                return false;
            }
        }
        self.buffer(chunk);
        true
    }

    /// True when bytes of an unfinished line are held.
    pub fn is_mid_line(&self) -> bool {
        self.overflowed || !self.pending.is_empty()
    }

    /// Whether `part` can follow the held bytes: beyond the limit only carriage returns are allowed, in any number.
    fn fits(&self, part: &[u8]) -> bool {
        let room = self.cap - self.pending.len();
        part.iter().skip(room).all(|&byte| byte == b'\r')
    }

    /// Keeps `part` of an unfinished line. Carriage returns beyond the limit are not kept: either they precede the newline and
    /// don't count, or what follows them makes the line too long.
    fn buffer(&mut self, part: &[u8]) {
        if self.overflowed {
            return;
        }
        if self.fits(part) {
            let room = self.cap - self.pending.len();
            self.pending
                .extend_from_slice(&part[..part.len().min(room)]);
        } else {
            self.overflowed = true;
            self.pending = Vec::new();
        }
    }
}

/// The line without the carriage returns at its end.
fn trim(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|&byte| byte != b'\r');
    &line[..end.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests;
