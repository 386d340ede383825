//! Snapshots: everything that a session keeps, as bytes, and back. Knows no files, stores, clocks or keys: who asks gives
//! bounds and a [`Host`] whose pulse ends the work.
//!
//! A snapshot is CBOR (RFC 8949), so that any language's reader shows what is in it, in the encoding that is called
//! deterministic there. `minicbor` reads it as a stream: nothing is allocated by a length that only is claimed, and nothing
//! recurses. In the notation of RFC 8610:
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
//! - **Sharing.** What values share, and what is equal to the last digit, is one node; a part names it by its index. A node
//!   names earlier nodes only, so there are no cycles, and reading costs what the bytes cost however often a node is used.
//!   Functions are nodes of their own, since two of them are equal only when they are the same one.
//! - **Code** is the text of the top-level expression that a function stood in, the function's number in it, and which of the
//!   names in it were globals then. It is analysed when it is read, so a later version runs it with its own evaluator, or
//!   refuses it and says why. Captured locals are values like others.
//! - **Order.** Functions have a place in the order of values once they were compared with each other, say as members of a
//!   set; `compared` lists them in that order, which they have again
//!   afterwards.
//! - **Canonical.** Nodes stand in the order in which a walk over the session ends with them, names in that in which they
//!   came to be known. Equal sessions give equal bytes, and what was read gives the bytes that it was read from.
//! - **Turns** are 0 where nobody counts them; line and column are those of the code in the program that it was in.
//! - **Versions.** What changes the meaning of the bytes counts the version up; a reader takes its own and those before. Version 1
//!   had neither turns nor places of code.

mod order;
mod read;
mod write;

use std::fmt;

use crate::host::{Host, Pulse};
use crate::limits::Limits;
use crate::meter::Meter;
use crate::{Env, Value};

/// The format that is written; it and those before it are read.
pub const VERSION: u32 = 2;
/// The first format without turns.
const VERSION_WITHOUT_TURNS: u64 = 1;
/// What the envelope begins with, behind the tag that says that this is CBOR.
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

/// Parts between two looks at the clock.
const FUEL: u32 = 4096;
/// Bytes that are copied and hashed in about the time of one part.
const PART_BYTES: usize = 64;
/// Bytes that are copied at one go.
const SLICE_BYTES: usize = 64 * 1024;

/// Steps of `parts` and of `bytes`.
fn steps(parts: usize, bytes: usize) -> u32 {
    u32::try_from(parts.saturating_add(bytes / PART_BYTES)).unwrap_or(u32::MAX)
}

/// The checksum of `bytes`; `look` is asked now and then whether to go on.
fn checksum<E>(bytes: &[u8], look: &mut dyn FnMut() -> Result<(), E>) -> Result<u32, E> {
    let mut hasher = crc32fast::Hasher::new();
    for slice in bytes.chunks(SLICE_BYTES) {
        look()?;
        hasher.update(slice);
    }
    Ok(hasher.finalize())
}

/// Writes a session, and values that may share structure with it.
///
/// # Errors
/// [`Error::TooLarge`] above `bytes_max`, and [`Error::Stopped`] when the host's pulse ends.
pub fn write(
    env: &Env,
    values: &[&Value],
    bytes_max: usize,
    host: &dyn Host,
) -> Result<Vec<u8>, Error> {
    write::write(env, values, bytes_max, host)
}

/// Reads what [`write`](write()) wrote. Time and memory are a multiple of the length of `bytes`, regexes and code aside, for
/// which `limits` and the host's pulse count as they do for programs.
///
/// # Errors
/// Whatever is wrong with the bytes, or [`Error::Stopped`]; never a panic, even on bytes that somebody forged.
pub fn read(bytes: &[u8], limits: &Limits, host: &dyn Host) -> Result<(Env, Vec<Value>), Error> {
    read::read(bytes, limits, host)
}

/// [`read`] for a program, whose memory and time it takes. Call it inside [`Meter::within`].
///
/// # Errors
/// As [`read`].
pub fn read_metered(bytes: &[u8], meter: &Meter<'_>) -> Result<(Env, Vec<Value>), Error> {
    read::read_body(&read::open(bytes, meter)?, meter)
}

/// The body of a snapshot of this version that is whole.
#[cfg(feature = "checks")]
pub(crate) fn body(bytes: &[u8]) -> Option<&[u8]> {
    let opened = read::open(bytes, &crate::meter::Unwatched).ok()?;
    (opened.version == u64::from(VERSION)).then_some(opened.body)
}

/// A snapshot with this body, whatever it is.
#[cfg(feature = "checks")]
pub(crate) fn seal(body: &[u8]) -> Vec<u8> {
    // Nothing stops it.
    write::seal(&[], body.to_vec(), &[], &mut || Ok(())).unwrap_or_default()
}

impl Env {
    /// These surroundings as bytes.
    ///
    /// # Errors
    /// As [`write`](write()).
    pub fn snapshot(&self, bytes_max: usize, host: &dyn Host) -> Result<Vec<u8>, Error> {
        write(self, &[], bytes_max, host)
    }

    /// The surroundings that `bytes` hold.
    ///
    /// # Errors
    /// As [`read`](read()).
    pub fn restore(bytes: &[u8], limits: &Limits, host: &dyn Host) -> Result<Env, Error> {
        read(bytes, limits, host).map(|(env, _)| env)
    }
}

/// Why there is no snapshot, or why bytes are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It would have more bytes than it may.
    TooLarge {
        /// How many it may have.
        bytes_max: usize,
    },
    /// The host ended the work.
    Stopped(Pulse),
    /// Making code or regexes anew took more memory than there is.
    Memory,
    /// The bytes are something else.
    Foreign,
    /// Another version wrote them.
    Version(u64),
    /// They were changed since.
    Damaged,
    /// They do not follow the format.
    Malformed {
        /// Where, counted in bytes of the body.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// They hold code or a regex that this version does not run, or a name that it does not have.
    Unsupported {
        /// What it is.
        what: String,
        /// Why not.
        problem: String,
    },
}

impl Error {
    /// The limit of the program that it is, if it is one: no fault of the bytes, and nothing that a program can handle.
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
