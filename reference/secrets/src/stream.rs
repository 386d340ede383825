//! Scrubbing text that arrives in chunks. Holds back as many bytes as an unfinished secret could take, never more.

use std::io::{self, Write};
use std::sync::Arc;

use crate::redactor::{Automaton, Redactor};

/// Scrubs one stream. Feed chunks with [`push`](Self::push); [`finish`](Self::finish) releases what was held back.
pub struct StreamScrubber {
    automaton: Option<Arc<Automaton>>,
    held: Vec<u8>,
    /// Leading bytes of `held` that a marker already written stands for.
    covered: usize,
}

impl StreamScrubber {
    pub(crate) fn new(automaton: Option<Arc<Automaton>>) -> Self {
        Self {
            automaton,
            held: Vec::new(),
            covered: 0,
        }
    }

    /// Takes a chunk and appends to `out` whatever can no longer be part of a secret.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let Some(automaton) = self.automaton.clone() else {
            out.extend_from_slice(chunk);
            return;
        };
        self.held.extend_from_slice(chunk);
        let decided = (self.held.len() + 1).saturating_sub(automaton.pattern_bytes_max);
        self.release(&automaton, decided, out);
    }

    /// Ends the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if let Some(automaton) = self.automaton.clone() {
            let decided = self.held.len();
            self.release(&automaton, decided, out);
        }
    }

    fn release(&mut self, automaton: &Automaton, decided: usize, out: &mut Vec<u8>) {
        if decided == 0 {
            return;
        }
        let reach = automaton.replace(&self.held, decided, self.covered, out);
        self.held.drain(..decided);
        self.covered = reach - decided;
    }
}

/// An `io::Write` that scrubs what goes through it. A secret split across writes is found as long as they belong to one
/// line: the writer holds text back until a line ends, so that logs appear promptly.
pub struct ScrubbingWriter<W: Write> {
    sink: W,
    redactor: Redactor,
    line: Vec<u8>,
}

impl<W: Write> ScrubbingWriter<W> {
    /// Wraps `sink`.
    pub fn new(sink: W, redactor: Redactor) -> Self {
        Self {
            sink,
            redactor,
            line: Vec::new(),
        }
    }

    fn write_clean(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.sink.write_all(&self.redactor.scrub_bytes(&line))
    }
}

impl<W: Write> Write for ScrubbingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.redactor.is_empty() {
            return self.sink.write(bytes);
        }
        self.line.extend_from_slice(bytes);
        if self.line.ends_with(b"\n") {
            self.write_clean()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl<W: Write> Drop for ScrubbingWriter<W> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            // Nobody is left to tell about a failing sink.
            let _ = self.write_clean();
            let _ = self.sink.flush();
        }
    }
}
