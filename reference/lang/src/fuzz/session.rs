//! Sessions generated from bytes, and bytes read as snapshots, with the properties that each must have.

use super::program::{program, run_program};
use crate::meter::Unwatched;
use crate::sink::Sink;
use crate::snapshot::{self, Error};
use crate::{Ended, Env, Limits, Outcome, Reason, Value, print};

/// The largest snapshot of such a session, in bytes.
const BYTES_MAX: usize = 16 << 20;
/// The number of programs in a session.
const TURNS: usize = 3;

/// What must hold for every session and for any bytes: a session continues after being written and read as it would
/// have without, and is written as the same bytes again; any bytes are read or refused, and whatever is read from them
/// is a session.
pub fn snapshot(bytes: &[u8]) {
    let (changes, bytes) = bytes.split_at(bytes.len().min(16));
    let mut env = Env::new()
        .recording_results()
        .with_journal(Default::default());
    let mut turns = bytes.chunks(bytes.len().div_ceil(TURNS + 1).max(1));
    for (at, turn) in (1..).zip(turns.by_ref().take(TURNS)) {
        let (outcome, mut after) = run_program(&program(turn), &env.clone().in_turn(at));
        if let Ended::Value(value) | Ended::Return(value) = outcome.ended {
            after.remember(value);
        }
        env = after;
    }
    let Ok(written) = env.snapshot(BYTES_MAX, &UnlimitedHost) else {
        return;
    };
    same_session(&env, &written, &program(turns.next().unwrap_or_default()));
    // The same bytes with some of them changed, under a matching checksum.
    let Some(mut body) = snapshot::body(&written).map(<[u8]>::to_vec) else {
        panic!("what was written is open to read");
    };
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % body.len();
        body[at] = change[2];
    }
    hostile(&snapshot::seal(&body));
}

/// What must hold for any bytes, both as the body of a snapshot and as a whole snapshot.
pub fn snapshot_bytes(bytes: &[u8]) {
    hostile(bytes);
    hostile(&snapshot::seal(bytes));
}

/// Panics unless `written`, a snapshot of `env`, continues as `env` does.
pub fn same_session(env: &Env, written: &[u8], next: &str) {
    let restored = match Env::restore(written, &large_limits(), &UnlimitedHost) {
        Ok(restored) => restored,
        Err(error) => panic!("what was written is read: {error}"),
    };
    let again = restored.snapshot(BYTES_MAX, &UnlimitedHost);
    assert!(
        again.as_deref() == Ok(written),
        "what was read is written as it was"
    );
    let (expected, expected_env) = run_program(next, env);
    let (found, found_env) = run_program(next, &restored);
    // Newly shared structure is copied before it is changed, so a limit may be reached sooner or later than before.
    if is_limit(&expected) || is_limit(&found) {
        return;
    }
    assert_eq!(outcome_text(&expected), outcome_text(&found), "{next}");
    let bytes = |env: &Env| env.snapshot(BYTES_MAX, &UnlimitedHost);
    assert!(
        bytes(&expected_env) == bytes(&found_env),
        "the sessions stay equal after {next}"
    );
}

/// Any bytes are read as a session, or refused.
fn hostile(bytes: &[u8]) {
    let env = match Env::restore(bytes, &Limits::default(), &UnlimitedHost) {
        Ok(env) => env,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = match env.snapshot(BYTES_MAX, &UnlimitedHost) {
        Ok(written) => written,
        Err(Error::TooLarge { .. }) => return,
        Err(error) => panic!("what was read is written: {error}"),
    };
    for (_, value, _) in env.definitions() {
        let _ = print::preview(value, print::PREVIEW_ITEMS, print::PREVIEW_GRAPHEMES);
    }
    same_session(&env, &written, "[*1 *2 *3 (+ 1 2)]");
    let names: Vec<String> = env
        .definitions()
        .iter()
        .take(8)
        .map(|(name, ..)| format!("({name} 1 2)"))
        .collect();
    for call in names {
        let _ = run_program(&call, &env);
    }
}

fn large_limits() -> Limits {
    Limits {
        memory_bytes: 1 << 30,
        ..Limits::default()
    }
}

fn is_limit(outcome: &Outcome) -> bool {
    match &outcome.ended {
        Ended::Error(error) => matches!(error.reason(), Reason::Timeout | Reason::MemoryLimit),
        _ => false,
    }
}

/// An outcome as text.
fn outcome_text(outcome: &Outcome) -> String {
    const BYTES: usize = 64 * 1024;
    let value = |value: &Value| {
        let mut text = Sink::new(String::new(), BYTES, &Unwatched);
        // Long text is compared up to the limit.
        let _ = print::write_readable(&mut text, value);
        text.into_text()
    };
    let ended = match &outcome.ended {
        Ended::Value(given) => value(given),
        Ended::Return(given) => format!("return {}", value(given)),
        Ended::Fail(given) => format!("fail {}", value(given)),
        Ended::Error(error) => format!("{}: {}", error.code(), error.message()),
    };
    format!("{ended} {:?}", outcome.prints)
}

/// A world that gives snapshots all the time that they need.
struct UnlimitedHost;

impl crate::Host for UnlimitedHost {
    fn now_micros(&self) -> i64 {
        0
    }
}
