//! Splits a byte stream into lines with bounded memory.
//! Knows nothing of JSON, processes or verdicts.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Longest line that is kept whole, in bytes; the reference's largest frame and envelope are far smaller.
pub const LINE_BYTES_MAX: usize = 32 << 20;
/// Bytes that may be queued unread; a target that writes more is blocked by its full pipe.
pub const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Cost of a queued piece in addition to its bytes, so that empty lines are bounded, too.
const PIECE_COST_BYTES: usize = 64;
/// How many bytes of an overlong line are kept for display.
const HEAD_BYTES: usize = 256;
const CHUNK_BYTES: usize = 64 << 10;

const _: () = assert!(LINE_BYTES_MAX + PIECE_COST_BYTES < BACKLOG_BYTES_MAX);

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A terminated line, without its `\n`.
    Line(Vec<u8>),
    /// A line over [`LINE_BYTES_MAX`]: its first bytes and its whole length.
    Overlong {
        /// The first bytes of the line.
        head: Vec<u8>,
        /// Length of the line without its terminator.
        bytes: u64,
    },
    /// Bytes at the end of the stream that are not terminated by `\n`.
    Unterminated(Vec<u8>),
}

/// The receiving end of a stream that is being split into lines.
#[derive(Debug)]
pub struct Lines {
    pieces: mpsc::UnboundedReceiver<(Piece, OwnedSemaphorePermit)>,
}

impl Lines {
    /// Starts a task that splits `reader`.
    pub fn of<R: AsyncRead + Unpin + Send + 'static>(reader: R) -> Self {
        let (sender, pieces) = mpsc::unbounded_channel();
        tokio::spawn(pump(reader, sender));
        Self { pieces }
    }

    /// The next piece, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Piece> {
        self.pieces.recv().await.map(|(piece, _permit)| piece)
    }

    /// The next piece, if it has already arrived.
    pub fn next_if_ready(&mut self) -> Option<Piece> {
        self.pieces.try_recv().ok().map(|(piece, _permit)| piece)
    }
}

async fn pump<R: AsyncRead + Unpin>(
    mut reader: R,
    sender: mpsc::UnboundedSender<(Piece, OwnedSemaphorePermit)>,
) {
    let room = Arc::new(Semaphore::new(BACKLOG_BYTES_MAX));
    let mut cutter = LineSplitter::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        // Stop reading once the receiver is gone: a process that outlived its parent may write forever, even without ending a line.
        let read = tokio::select! {
            biased;
            () = sender.closed() => return,
            read = reader.read(&mut chunk) => match read {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            },
        };
        for piece in cutter.feed(&chunk[..read]) {
            if !send(piece, &room, &sender).await {
                return;
            }
        }
    }
    if let Some(piece) = cutter.finish() {
        send(piece, &room, &sender).await;
    }
}

async fn send(
    piece: Piece,
    room: &Arc<Semaphore>,
    sender: &mpsc::UnboundedSender<(Piece, OwnedSemaphorePermit)>,
) -> bool {
    let bytes = match &piece {
        Piece::Line(line) | Piece::Unterminated(line) => line.len(),
        Piece::Overlong { head, .. } => head.len(),
    };
    let cost = u32::try_from(bytes + PIECE_COST_BYTES).unwrap_or(u32::MAX);
    tokio::select! {
        permit = room.clone().acquire_many_owned(cost) => match permit {
            Ok(permit) => sender.send((piece, permit)).is_ok(),
            Err(_) => false,
        },
        () = sender.closed() => false,
    }
}

/// The state between two reads.
#[derive(Default)]
struct LineSplitter {
    partial: Vec<u8>,
    dropped: u64,
}

impl LineSplitter {
    fn feed(&mut self, mut bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.push(&bytes[..end]);
            pieces.push(self.line());
            bytes = &bytes[end + 1..];
        }
        self.push(bytes);
        pieces
    }

    fn finish(mut self) -> Option<Piece> {
        if self.partial.is_empty() && self.dropped == 0 {
            return None;
        }
        Some(match self.line() {
            Piece::Line(line) => Piece::Unterminated(line),
            overlong => overlong,
        })
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.dropped > 0 || self.partial.len() + bytes.len() > LINE_BYTES_MAX {
            self.dropped += (self.partial.len().saturating_sub(HEAD_BYTES) + bytes.len()) as u64;
            self.partial.truncate(HEAD_BYTES);
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn line(&mut self) -> Piece {
        let partial = std::mem::take(&mut self.partial);
        match std::mem::take(&mut self.dropped) {
            0 => Piece::Line(partial),
            dropped => Piece::Overlong {
                bytes: partial.len() as u64 + dropped,
                head: partial,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(bytes: &'static [u8]) -> Vec<Piece> {
        let mut lines = Lines::of(bytes);
        let mut seen = Vec::new();
        while let Some(piece) = lines.next().await {
            seen.push(piece);
        }
        seen
    }

    #[tokio::test]
    async fn unterminated_last_line_is_reported_as_such() {
        assert_eq!(
            check(b"a\n\nbc\r\nd").await,
            [
                Piece::Line(b"a".to_vec()),
                Piece::Line(Vec::new()),
                Piece::Line(b"bc\r".to_vec()),
                Piece::Unterminated(b"d".to_vec()),
            ]
        );
    }

    #[tokio::test]
    async fn reading_stops_while_the_backlog_is_full() {
        let (mut writer, reader) = tokio::io::duplex(1 << 10);
        drop(Lines::of(reader));
        let endless = async {
            use tokio::io::AsyncWriteExt;
            while writer.write_all(&[b'x'; 1 << 10]).await.is_ok() {}
        };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), endless).await;
        assert!(ended.is_ok(), "it is read on");
    }

    #[test]
    fn an_overlong_line_keeps_its_head_and_length_only() {
        let mut cutter = LineSplitter::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            assert!(cutter.feed(&chunk).is_empty());
        }
        let pieces = cutter.feed(b"y\nz\n");
        assert_eq!(
            pieces,
            [
                Piece::Overlong {
                    head: vec![b'x'; HEAD_BYTES],
                    bytes: (40 << 20) + 1
                },
                Piece::Line(b"z".to_vec())
            ]
        );
    }
}
