//! Snapshots: everything that a session keeps, as bytes, and back. Knows no files, stores, clocks or keys: the caller
//! gives bounds and a [`Host`] whose pulse can end the work.
//!
//! A snapshot is CBOR (RFC 8949) in that document's deterministic encoding, so that CBOR tools for any language can
//! show its contents. `minicbor` reads it as a stream: a claimed length alone allocates nothing, and nothing recurses.
//! In the notation of RFC 8610:
//!
//! ```text
//! snapshot = #6.55799([ "ptc-snapshot", version: uint, body: bstr .cbor contents, checksum: uint ])
//! contents = [ names: [* tstr], compared: [* index], nodes: [* node], session, values: [* part] ]
//! session  = [ context: part, definitions: [* definition], history: [part, part, part],
//!              journal: part / null, steps: part, notes-results: bool, turn: uint ]
//! definition = null / [ value: part, doc: part / null, gave: null / [ kind: tstr, count: uint ] ]
//!
//! part = null / bool / int / float64 / ref / date / instant / duration
//! ref  = #6.29(index)                                ; an earlier node
//! date = #6.100(int)                                 ; days since 1970-01-01
//! instant  = #6.27([ "instant", micros: int, digits: uint ])
//! duration = #6.27([ "duration", micros: int ])
//!
//! node = tstr                                        ; string
//!      / [* part]                                    ; vector
//!      / { * part => part }                          ; map, its keys in term order
//!      / #6.258([* part])                            ; set, its members in term order
//!      / bigint / #6.35(tstr)                        ; regex
//!      / #6.27([ "keyword" / "symbol" / "var" / "builtin" / "tool", tstr ])
//!      / #6.27([ "code", text: tstr, globals: [* tstr], turn: uint, line: uint, column: uint ])
//!      / #6.27([ "fn", code: index, number: uint, captures: [* part] ])
//!      / #6.27([ "made", how: tstr, parts: [* part] ])
//! ```
//!
//! - **Sharing.** Shared values, and values that are identical to the last digit, are one node; a part refers to it by
//!   its index. A node refers only to earlier nodes, so there are no cycles, and the cost of reading depends only on
//!   the bytes, however often a node is used. Each function is a node of its own, since two functions are equal only
//!   when they are the same one.
//! - **Code** is the text of the top-level expression that a function was written in, the function's number in it, and
//!   which of its names were globals then. It is analysed when it is read, so a later version runs it with its own
//!   evaluator, or refuses it and gives the reason. Captured locals are ordinary values.
//! - **Order.** Functions get a place in the order of values when they are first compared with each other, for example
//!   as members of a set; `compared` lists those functions in that order, which is restored on reading.
//! - **Canonical.** Nodes are written in the post-order of a walk over the session, names in the order in which they
//!   became known. Equal sessions give equal bytes, and writing what was read gives the same bytes again.
//! - **Turns** are 0 where nobody counts them; line and column give the position of the code in its program.
//! - **Versions.** A change to the meaning of the bytes increments the version; a reader accepts its own version and
//!   earlier ones. Version 1 had neither turns nor positions of code.

mod order;
mod read;
mod write;

use std::fmt;

use crate::host::{Host, Pulse};
use crate::limits::Limits;
use crate::meter::Meter;
use crate::{Env, Value};

pub use read::read;
pub use write::write;

/// The format version that is written; this version and earlier ones are read.
pub const VERSION: u32 = 2;
/// The first format without turns.
const VERSION_WITHOUT_TURNS: u64 = 1;
/// The first element of the envelope, after the tag that marks the bytes as CBOR.
const NAME: &str = "ptc-snapshot";

/// Tags of the envelope and of parts and nodes, as registered with IANA.
mod tag {
    pub const CBOR: u64 = 55_799;
    pub const POSITIVE: u64 = 2;
    pub const NEGATIVE: u64 = 3;
    pub const OBJECT: u64 = 27;
    pub const REF: u64 = 29;
    pub const REGEX: u64 = 35;
    pub const DATE: u64 = 100;
    pub const SET: u64 = 258;
}

/// Parts between two checks of the clock.
const FUEL: u32 = 4096;
/// The number of bytes that are copied and hashed in about the time that one part takes.
const PART_BYTES: usize = 64;
/// Bytes that are copied at once.
const SLICE_BYTES: usize = 64 * 1024;

/// The metered steps for `parts` and `bytes`.
fn steps(parts: usize, bytes: usize) -> u32 {
    u32::try_from(parts.saturating_add(bytes / PART_BYTES)).unwrap_or(u32::MAX)
}

/// The checksum of `bytes`; `check_limits` is called regularly and may end the work.
fn checksum<E>(bytes: &[u8], check_limits: &mut dyn FnMut() -> Result<(), E>) -> Result<u32, E> {
    let mut hasher = crc32fast::Hasher::new();
    for slice in bytes.chunks(SLICE_BYTES) {
        check_limits()?;
        hasher.update(slice);
    }
    Ok(hasher.finalize())
}

/// [`read`] on behalf of a program, which pays for its memory and time. Call it inside [`Meter::within`].
///
/// # Errors
/// As [`read`].
pub fn read_metered(bytes: &[u8], meter: &Meter<'_>) -> Result<(Env, Vec<Value>), Error> {
    read::read_body(&read::open(bytes, meter)?, meter)
}

/// The body of a snapshot, if it is intact and of this version.
#[cfg(feature = "checks")]
pub(crate) fn body(bytes: &[u8]) -> Option<&[u8]> {
    let envelope = read::open(bytes, &crate::meter::Unwatched).ok()?;
    (envelope.version == u64::from(VERSION)).then_some(envelope.body)
}

/// A snapshot with this body, which may be invalid.
#[cfg(feature = "checks")]
pub(crate) fn seal(body: &[u8]) -> Vec<u8> {
    // The callback never ends the work.
    write::seal(&[], body.to_vec(), &[], &mut || Ok(())).unwrap_or_default()
}

impl Env {
    /// This environment as bytes.
    ///
    /// # Errors
    /// As [`write`](write()).
    pub fn snapshot(&self, bytes_max: usize, host: &dyn Host) -> Result<Vec<u8>, Error> {
        write(self, &[], bytes_max, host)
    }

    /// The environment that `bytes` hold.
    ///
    /// # Errors
    /// As [`read`](read()).
    pub fn restore(bytes: &[u8], limits: &Limits, host: &dyn Host) -> Result<Env, Error> {
        read(bytes, limits, host).map(|(env, _)| env)
    }
}

/// Why a snapshot could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The snapshot would exceed the limit.
    TooLarge {
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The host ended the work.
    Stopped(Pulse),
    /// Compiling the code or regexes exceeded the memory limit.
    Memory,
    /// The bytes are not a snapshot.
    Foreign,
    /// The bytes were written by a version that this reader does not know.
    Version(u64),
    /// The bytes were changed since they were written.
    Damaged,
    /// The bytes do not follow the format.
    Malformed {
        /// Byte offset in the body.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// The bytes contain code or a regex that this version does not run, or a name that it does not have.
    Unsupported {
        /// The code, regex or name.
        what: String,
        /// Why it is not supported.
        problem: String,
    },
}

impl Error {
    /// The limit of the program that this error stands for, if any. Such an error is not a fault of the bytes, and a
    /// program cannot handle it.
    #[must_use]
    pub fn limit(&self) -> Option<Pulse> {
        match self {
            Error::Stopped(pulse) => Some(*pulse),
            Error::TooLarge { .. } | Error::Memory => Some(Pulse::OutOfMemory),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLarge { bytes_max } => {
                write!(f, "the snapshot would be larger than {bytes_max} bytes")
            }
            Error::Stopped(Pulse::Cancelled) => f.write_str("cancelled"),
            Error::Stopped(_) => f.write_str("out of time"),
            Error::Memory => f.write_str("the snapshot takes more memory than a program may have"),
            Error::Foreign => f.write_str("this is no snapshot of a session"),
            Error::Version(version) => write!(
                f,
                "the snapshot has version {version} of the format, and this program reads versions up to {VERSION}"
            ),
            Error::Damaged => f.write_str("the snapshot is damaged: its checksum does not match"),
            Error::Malformed { at, problem } => {
                write!(f, "the snapshot is malformed: {problem} (byte {at})")
            }
            Error::Unsupported { what, problem } => {
                write!(
                    f,
                    "the snapshot holds what this version does not run: {what}: {problem}"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
