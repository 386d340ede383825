//! What a turn may leave in its session: the limits, and how results, prints and calls are kept within them.

use super::turn::Turn;
use super::{SessionState, Sessions, size};
use crate::settings::HistoryCap;
use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_lang::value::{HeapSize, Map};
use ptc_lang::{Env, Value};
use ptc_protocol::members::{HistoryNotice, LimitExceeded, TurnSummary};
use ptc_protocol::{Field, Payload, Word};
use std::collections::VecDeque;

/// Number of results that a session keeps: `*1 *2 *3`.
pub(super) const RESULTS_MAX: usize = 3;
/// Bytes of real memory that a session may hold for each byte of its memory limit. The limit is computed for a compact encoding
/// (`mcp.sessions.kept`); in memory, values have headers, functions carry their code, and regexes their compiled form.
pub(super) const HEAP_FACTOR: u64 = 4;

/// What a program leaves behind.
pub struct TurnEffects {
    /// The environment that the program left.
    pub env: Env,
    pub value: Value,
    /// The same value, as it may be shown.
    pub shown: Value,
    /// Its prints, scrubbed.
    pub prints: Vec<String>,
    /// Its tool calls, scrubbed.
    pub tool_calls: Vec<Payload>,
    /// Its upstream calls, scrubbed.
    pub upstream_calls: Vec<Payload>,
}

/// A turn within all limits, ready to be committed.
pub struct CheckedTurn {
    pub(super) state: SessionState,
    /// Values that were kept as a preview only.
    pub notices: Vec<HistoryNotice>,
    /// The `session` member of the reply.
    pub summary: TurnSummary,
}

impl Sessions {
    /// Checks what a program leaves behind against the limits, as a part of the program. Changes nothing yet.
    ///
    /// # Errors
    /// The limit that ends the program. The inner result is the first session limit that is exceeded: number of definitions, their total
    /// size, the size of one definition.
    pub fn check_limits(
        &self,
        turn: &Turn,
        effects: TurnEffects,
        watch: &dyn Watch,
    ) -> Result<Result<CheckedTurn, LimitExceeded>, Limit> {
        let judged = self.check_turn(turn, effects, watch);
        // A count that was interrupted may be too low.
        watch.check_limits()?;
        match judged {
            Ok(checked) => Ok(Ok(checked)),
            Err(TurnRejection::Exceeded(exceeded)) => Ok(Err(exceeded)),
            Err(TurnRejection::Stopped(limit)) => Err(limit),
        }
    }

    fn check_turn(
        &self,
        turn: &Turn,
        effects: TurnEffects,
        watch: &dyn Watch,
    ) -> Result<CheckedTurn, TurnRejection> {
        let settings = &self.settings;
        let mut env = effects.env.with_context(Map::new());
        let definitions = env.definitions();
        let definitions_count = definitions.len();
        let count = definitions_count as u64;
        check_limit("max_bindings", count, settings.bindings_max as u64, None)?;
        let memory_bytes = size::of_named_within(
            definitions.iter().map(|(name, value, _)| (*name, *value)),
            watch,
        )?;
        check_limit(
            "max_memory_bytes",
            memory_bytes,
            settings.memory_bytes,
            None,
        )?;
        for (name, value, _) in &definitions {
            check_limit(
                "max_binding_bytes",
                size::of_within(value, watch)?,
                settings.binding_bytes,
                Some(name),
            )?;
        }
        drop(definitions);
        let held_bytes = env.held_bytes();
        let held = held_bytes.div_ceil(HEAP_FACTOR);
        check_limit("max_memory_bytes", held, settings.memory_bytes, None)?;
        let mut notices = Vec::new();
        env.remember(self.history_entry(effects.value, &effects.shown, &mut notices, watch)?);
        let mut state = turn.session.state().clone();
        state.env = env;
        state.bindings = definitions_count;
        state.results = (state.results + 1).min(RESULTS_MAX);
        state.memory_bytes = memory_bytes;
        state.held_bytes = held_bytes;
        state.turn += 1;
        state.prints.extend(effects.prints);
        keep_newest(&mut state.prints, settings.prints, |prints| {
            size::of_texts(prints.iter().map(String::as_str))
        });
        state.tool_calls.extend(effects.tool_calls);
        keep_newest(&mut state.tool_calls, settings.tool_calls, list_bytes);
        state.upstream_calls.extend(effects.upstream_calls);
        keep_newest(
            &mut state.upstream_calls,
            settings.upstream_calls,
            list_bytes,
        );
        let summary = TurnSummary {
            binding_count: count,
            memory_bytes,
            session_id: Word(turn.session.id.clone()),
            turn: state.turn,
        };
        Ok(CheckedTurn {
            state,
            notices,
            summary,
        })
    }

    /// A result as `*1` keeps it: the value itself, or a marker with its size and a preview.
    fn history_entry(
        &self,
        value: Value,
        shown: &Value,
        notices: &mut Vec<HistoryNotice>,
        watch: &dyn Watch,
    ) -> Result<Value, Limit> {
        const MARKER_ITEMS: usize = 20;
        let mut heap_size = HeapSize::default();
        heap_size.add(&value);
        let reckoned = size::of_within(&value, watch)?;
        let max = self.settings.history_entry_bytes;
        let bytes = match heap_size.bytes().div_ceil(HEAP_FACTOR) {
            held if held > max => held.max(reckoned),
            _ => reckoned,
        };
        if bytes <= max {
            return Ok(value);
        }
        notices.push(HistoryNotice {
            bytes,
            field: "*1",
            max_bytes: max,
            message: "*1 stored as preview; original value exceeded max_session_history_entry_bytes",
            reason: "max_history_entry_bytes",
        });
        let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let chars = ptc_lang::print::PREVIEW_GRAPHEMES;
        let preview = ptc_lang::print::preview_within(shown, MARKER_ITEMS, chars, watch)?;
        let mut marker = Map::new();
        marker.insert(Value::keyword("lisp_session_preview"), Value::Bool(true));
        let least = marker.clone();
        marker.insert(Value::keyword("bytes"), int(bytes));
        marker.insert(Value::keyword("max_bytes"), int(max));
        marker.insert(
            Value::keyword("reason"),
            Value::keyword("max_history_entry_bytes"),
        );
        let short = marker.clone();
        marker.insert(Value::keyword("preview"), Value::str(preview));
        Ok([marker, short]
            .into_iter()
            .map(Value::Map)
            .find(|marker| size::of(marker) <= max)
            .unwrap_or(Value::Map(least)))
    }
}

/// Why a turn is not kept.
enum TurnRejection {
    Exceeded(LimitExceeded),
    Stopped(Limit),
}

impl From<LimitExceeded> for TurnRejection {
    fn from(exceeded: LimitExceeded) -> Self {
        TurnRejection::Exceeded(exceeded)
    }
}

impl From<Limit> for TurnRejection {
    fn from(limit: Limit) -> Self {
        TurnRejection::Stopped(limit)
    }
}

/// Fails where `actual` exceeds `max`.
fn check_limit(
    limit: &'static str,
    actual: u64,
    max: u64,
    name: Option<&str>,
) -> Result<(), LimitExceeded> {
    if actual <= max {
        return Ok(());
    }
    Err(LimitExceeded {
        actual,
        field: match name {
            Some(_) => "binding",
            None => "memory",
        },
        limit,
        max,
        name: name.map(str::to_owned),
    })
}

/// Drops items from the front until both bounds hold.
fn keep_newest<T>(items: &mut VecDeque<T>, cap: HistoryCap, bytes: impl Fn(&VecDeque<T>) -> u64) {
    while items.len() > cap.entries {
        items.pop_front();
    }
    while !items.is_empty() && bytes(items) > cap.bytes {
        items.pop_front();
    }
}

pub(super) fn list_bytes(items: &VecDeque<Payload>) -> u64 {
    2 + items
        .iter()
        .map(|item| Field::Object(item.clone()).json_bytes() as u64 + 1)
        .sum::<u64>()
}
