//! The protocol between a server and its worker processes: length-prefixed CBOR frames. Knows nothing of either end, and trusts neither.

use std::io::{self, Read, Write};

use minicbor::encode::write::Writer;
use minicbor::{Decode, Encode};

/// A message from the server to a process.
#[derive(Debug, Encode, Decode)]
pub enum ToWorker {
    #[n(0)]
    Run(#[n(0)] RunRequest),
    #[n(1)]
    Answer {
        #[n(0)]
        number: u32,
        #[n(1)]
        reply: HostReply,
    },
    /// The call was cancelled.
    #[n(2)]
    Cancel,
}

/// A program and everything that it may know.
#[derive(Debug, Encode, Decode)]
pub struct RunRequest {
    #[n(0)]
    pub program: String,
    /// Its environment, as a snapshot.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub env: Vec<u8>,
    /// Whether the environment that it leaves is wanted.
    #[n(2)]
    pub keeps: bool,
    /// The program's remaining time in microseconds, not rounded down: a program that timed out before the deadline of its task would be
    /// reported with another reason.
    #[n(3)]
    pub time_micros: u64,
    #[n(4)]
    pub limits: RunLimits,
    /// Names that may follow `tool/`.
    #[n(5)]
    pub tools: Vec<String>,
}

/// The limits of a program, as [`ptc_lang::Limits`] has them.
#[derive(Debug, Encode, Decode)]
pub struct RunLimits {
    /// Bytes that the program may hold.
    #[n(0)]
    pub memory_bytes: u64,
    #[n(1)]
    pub workers: u64,
    #[n(2)]
    pub nesting: u32,
    #[n(3)]
    pub symbols: u32,
}

#[derive(Debug, Encode, Decode)]
pub enum HostReply {
    /// A value, as a snapshot.
    #[n(0)]
    Value(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    #[n(1)]
    Raise {
        #[n(0)]
        code: Option<String>,
        #[n(1)]
        message: String,
    },
    /// The deadline has passed.
    #[n(2)]
    TimedOut,
    /// The call was cancelled.
    #[n(3)]
    Cancelled,
    /// The server cannot answer such a question.
    #[n(4)]
    Unsupported,
    #[n(5)]
    Number(#[n(0)] i64),
    #[n(6)]
    Texts(#[n(0)] Vec<String>),
    /// The request would take more memory than the program has.
    #[n(7)]
    OutOfMemory,
}

/// A message from a process to the server.
#[derive(Debug, Encode, Decode)]
pub enum ToServer {
    /// The process is ready, confined as described.
    #[n(0)]
    Ready(#[n(0)] Confinement),
    /// A question to the program's host.
    #[n(1)]
    Ask {
        #[n(0)]
        number: u32,
        #[n(1)]
        question: HostRequest,
    },
    /// The program printed a line.
    #[n(2)]
    Printed(#[n(0)] String),
    #[n(3)]
    Done(#[n(0)] RunResult),
    /// The process has accepted a program, and begins.
    #[n(5)]
    Began,
    /// The process cannot get ready, and why.
    #[n(4)]
    Failed(#[n(0)] String),
}

/// How a process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Confinement {
    /// Whether the kernel denies it all files (Landlock).
    #[n(0)]
    pub landlock: bool,
}

/// A question to the program's host.
#[derive(Debug, Encode, Decode)]
pub enum HostRequest {
    #[n(0)]
    Call {
        #[n(0)]
        tool: String,
        /// Its arguments, as a snapshot.
        #[cbor(n(1), with = "minicbor::bytes")]
        arguments: Vec<u8>,
    },
    /// `(tool/servers)`
    #[n(1)]
    Servers,
    /// `(apropos query opts)`
    #[n(2)]
    Apropos {
        #[n(0)]
        query: String,
        /// `:limit`
        #[n(1)]
        limit: u64,
        /// `:load`
        #[n(2)]
        load: bool,
        /// Local matches, as a snapshot.
        #[cbor(n(3), with = "minicbor::bytes")]
        local: Vec<u8>,
    },
    /// `(dir server opts)`
    #[n(3)]
    Dir {
        #[n(0)]
        server: String,
        /// `:limit`
        #[n(1)]
        limit: u64,
        /// `:offset`
        #[n(2)]
        offset: u64,
    },
    /// `(doc 'server/tool)`
    #[n(4)]
    Doc(#[n(0)] String),
    /// `(meta 'server/tool)`
    #[n(5)]
    Meta(#[n(0)] String),
    #[n(6)]
    Now,
    /// `(budget/remaining)`
    #[n(7)]
    Budget,
    /// Quotations for a message, to be redacted before they are truncated.
    #[n(8)]
    Quotes(#[n(0)] Vec<String>),
}

#[derive(Debug, Encode, Decode)]
pub struct RunResult {
    #[n(0)]
    pub end: RunEnd,
    /// The environment that it left, followed by its value, as a snapshot.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub left: Vec<u8>,
    /// The definitions that it changed, one per line. A list would take many times the memory of its bytes.
    #[n(2)]
    pub changed: String,
}

#[derive(Debug, Encode, Decode)]
pub enum RunEnd {
    #[n(0)]
    Value,
    /// `(return v)`
    #[n(1)]
    Return,
    /// `(fail v)`
    #[n(2)]
    Fail,
    #[n(3)]
    Error {
        /// The name of the reason.
        #[n(0)]
        reason: String,
        /// The name of the more specific error code.
        #[n(1)]
        code: String,
        #[n(2)]
        message: String,
        /// The position in the program.
        #[n(3)]
        span: Option<(u32, u32)>,
        /// The explanation: the place of the error and how to fix it.
        #[n(4)]
        explained: String,
    },
}

/// Bytes of the length prefix of a frame.
const HEADER_BYTES: usize = 4;

/// Encodes a frame.
///
/// # Errors
/// When the frame is too long for its length prefix.
pub fn encode(frame: &impl Encode<()>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    minicbor::encode(frame, &mut bytes).map_err(io::Error::other)?;
    let header = header(bytes.len() - HEADER_BYTES)?;
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    Ok(bytes)
}

/// The length prefix of a frame of this many bytes.
fn header(bytes: usize) -> io::Result<[u8; HEADER_BYTES]> {
    let length = u32::try_from(bytes).map_err(|_| io::Error::other("the frame is too long"))?;
    Ok(length.to_le_bytes())
}

/// Writes a frame. Large parts are written from where they are, because a worker process has no memory for a copy.
///
/// # Errors
/// Those of the stream, and when the frame is too long for its length prefix.
pub fn send(stream: impl Write, frame: &impl Encode<()>) -> io::Result<()> {
    let mut count = Count(0);
    minicbor::encode(frame, Writer::new(&mut count)).map_err(io::Error::other)?;
    let header = header(count.0)?;
    let mut stream =
        io::BufWriter::with_capacity((header.len() + count.0).min(CHUNK_BYTES), stream);
    stream.write_all(&header)?;
    minicbor::encode(frame, Writer::new(&mut stream)).map_err(io::Error::other)?;
    stream.flush()
}

/// Counts the bytes that are written.
struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Assembles frames as their bytes arrive.
#[derive(Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// How many of the bytes belong to frames that were returned.
    taken: usize,
}

/// Bytes of the first read, and of the largest. The buffer is zeroed before each read.
const CHUNK_BYTES: usize = 4 * 1024;
const CHUNK_BYTES_MAX: usize = 1 << 20;

impl FrameReader {
    /// Whether all bytes were returned in frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a frame of more than `bytes_max` bytes, and for a malformed one.
    pub fn next<F: for<'b> Decode<'b, ()>>(&mut self, bytes_max: usize) -> io::Result<Option<F>> {
        let wrong = |problem: &'static str| io::Error::new(io::ErrorKind::InvalidData, problem);
        let rest = &self.bytes[self.taken..];
        let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(wrong("a frame is too long"));
        }
        let Some(body) = rest[HEADER_BYTES..].get(..length) else {
            return Ok(None);
        };
        let mut input = minicbor::Decoder::new(body);
        let frame = input.decode().map_err(|_| wrong("a frame is malformed"))?;
        if input.position() != length {
            return Err(wrong("a frame has something behind it"));
        }
        self.taken += HEADER_BYTES + length;
        if self.taken == self.bytes.len() {
            self.taken = 0;
            self.bytes.clear();
            // The memory of a large frame is not kept for small ones.
            self.bytes.shrink_to(CHUNK_BYTES);
        }
        Ok(Some(frame))
    }

    /// Reads what is available. False at the end of the stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn fill(&mut self, mut stream: impl Read) -> io::Result<bool> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        // The rest of a frame is read in larger pieces.
        let chunk = self.bytes.len().clamp(CHUNK_BYTES, CHUNK_BYTES_MAX);
        let at = self.bytes.len();
        self.bytes.resize(at + chunk, 0);
        let read = stream.read(&mut self.bytes[at..]);
        self.bytes.truncate(at + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }
}

#[cfg(test)]
mod tests;
