//! A session encoded for a store: a head, which lists show, and a body with everything else. Both are CBOR, and sealed.

use super::SessionState;
use super::limits::{HEAP_FACTOR, RESULTS_MAX};
use super::store::UnsealError;
use crate::clock;
use minicbor::{Decode, Encode};
use ptc_lang::{Env, Host, Limits, Pulse};
use ptc_protocol::Payload;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Why a session cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    #[error(transparent)]
    Encode(#[from] minicbor::encode::Error<Infallible>),
    #[error(transparent)]
    Decode(#[from] minicbor::decode::Error),
    #[error(transparent)]
    Snapshot(#[from] ptc_lang::snapshot::Error),
    #[error("its body is missing")]
    NoBody,
    #[error("a call is unreadable")]
    Call,
    #[error("no session has so many turns")]
    Turns,
}

/// What lists show.
#[derive(Clone, Debug, Encode, Decode)]
pub struct SessionHead {
    #[n(0)]
    pub id: String,
    #[n(1)]
    pub title: Option<String>,
    #[n(2)]
    pub bindings: u64,
    #[n(3)]
    pub memory_bytes: u64,
    #[n(4)]
    pub turn: u64,
}

#[derive(Debug, Encode, Decode)]
struct SessionBody {
    /// A snapshot of the environment.
    #[cbor(n(0), with = "minicbor::bytes")]
    env: Vec<u8>,
    #[n(1)]
    results: u64,
    #[n(2)]
    prints: Vec<String>,
    /// The histories of calls, each call in its stored form.
    #[n(3)]
    tool_calls: Vec<String>,
    #[n(4)]
    upstream_calls: Vec<String>,
}

/// Bytes of the largest snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;
/// The time limit for writing or reading a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// More turns than any session has; another one can follow.
const TURNS_MAX: u64 = 1 << 53;
/// Memory that reading a snapshot may take beyond the session's own.
const READING_BYTES: u64 = 64 << 20;

/// A host that offers a clock and a deadline, and nothing else.
pub struct SnapshotDeadline(Instant);

impl SnapshotDeadline {
    pub fn start() -> Self {
        SnapshotDeadline(Instant::now() + SNAPSHOT_TIMEOUT)
    }
}

impl Host for SnapshotDeadline {
    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn pulse(&self) -> Pulse {
        match Instant::now() >= self.0 {
            true => Pulse::TimedOut,
            false => Pulse::Continue,
        }
    }
}

impl SessionHead {
    pub fn of(id: &str, title: Option<&str>, state: &SessionState) -> Self {
        SessionHead {
            id: id.to_owned(),
            title: title.map(str::to_owned),
            bindings: state.bindings as u64,
            memory_bytes: state.memory_bytes,
            turn: state.turn,
        }
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        Ok(minicbor::to_vec(self)?)
    }

    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let head: Self = minicbor::decode(bytes)?;
        match head.turn <= TURNS_MAX {
            true => Ok(head),
            false => Err(RecordError::Turns),
        }
    }
}

/// Encodes the body of a session.
///
/// # Errors
/// When the session is too large.
pub fn encode_body(state: &SessionState) -> Result<Vec<u8>, RecordError> {
    let env = state
        .env
        .snapshot(SNAPSHOT_BYTES_MAX, &SnapshotDeadline::start())?;
    let kept = |calls: &VecDeque<Payload>| calls.iter().map(Payload::to_stored_text).collect();
    let body = SessionBody {
        env,
        results: state.results as u64,
        prints: state.prints.iter().cloned().collect(),
        tool_calls: kept(&state.tool_calls),
        upstream_calls: kept(&state.upstream_calls),
    };
    Ok(minicbor::to_vec(body)?)
}

/// Decodes a body into `state`; the bytes are untrusted.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_body(
    state: &mut SessionState,
    body: &[u8],
    memory_bytes: u64,
) -> Result<(), RecordError> {
    let body: SessionBody = minicbor::decode(body)?;
    let limits = Limits {
        memory_bytes: memory_bytes
            .saturating_mul(HEAP_FACTOR * 4)
            .saturating_add(READING_BYTES),
        ..Limits::default()
    };
    state.env = Env::restore(&body.env, &limits, &SnapshotDeadline::start())?;
    state.bindings = state.env.definitions().len();
    state.held_bytes = state.env.held_bytes();
    state.results = usize::try_from(body.results).unwrap_or(0).min(RESULTS_MAX);
    state.prints = body.prints.into();
    let read = |calls: Vec<String>| {
        let calls = calls
            .iter()
            .map(|call| Payload::from_stored_text(call).ok_or(RecordError::Call));
        calls.collect::<Result<VecDeque<_>, _>>()
    };
    state.tool_calls = read(body.tool_calls)?;
    state.upstream_calls = read(body.upstream_calls)?;
    Ok(())
}
