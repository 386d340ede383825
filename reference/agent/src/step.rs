//! The result of a run. Pure data.

use std::collections::BTreeMap;

use ptc_lang::Value;
use ptc_lang::value::Map;
use serde_json::Value as Json;

use crate::cache::Cache;

#[derive(Default)]
pub struct AgentStep {
    /// The final answer; nil when the run failed.
    pub returned: Value,
    pub fail: Option<RunFailure>,
    /// The whole conversation, system message first, if requested.
    pub messages: Option<Vec<Json>>,
    pub usage: Usage,
    /// One record per turn; empty when tracing is off.
    pub turns: Vec<TurnRecord>,
    /// Every native call and `lisp_eval` that was made, in order, without rejected turns and skipped calls. Empty when
    /// the run failed: the turn records have them.
    pub tool_calls: Vec<CallRecord>,
    /// Definitions at the end. After a failure: those that exceeded the memory limit, if that was the reason, else
    /// none.
    pub memory: BTreeMap<String, Value>,
    /// Results of `task`, when the run had a journal.
    pub journal: Option<Map>,
    /// Summaries of `step-done`.
    pub summaries: Map,
    /// The cached results.
    pub cache: Cache,
    /// The prompt with its placeholders filled.
    pub prompt: String,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    pub reason: RunReason,
    pub message: String,
}

ptc_lang::reasons! {
    /// Reasons for which a run fails.
    pub enum RunReason {
        /// The time of the run is used up.
        MissionTimeout = "mission_timeout",
        /// The provider gave no answer.
        Llm = "llm_error",
        /// Each turn was used, without an answer.
        MaxTurns = "max_turns_exceeded",
        /// All turns of the run's budget are used.
        TurnBudget = "turn_budget_exhausted",
        /// The reply has no text.
        EmptyResponse = "empty_response",
        /// The definitions need more memory than a run has.
        MemoryLimit = "memory_limit_exceeded",
        /// The program called `(fail v)`.
        Failed = "failed",
        /// The answer is not the JSON that its type asks for.
        JsonParse = "json_parse_error",
        /// The answer does not match its type.
        Validation = "validation_error",
    }
}

/// Resources used by a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub duration_ms: u64,
    pub turns: u32,
    /// The number of requests that were answered.
    pub llm_requests: u32,
    /// As reported by the provider.
    pub input_tokens: u64,
    /// As reported by the provider.
    pub output_tokens: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// From 1.
    pub number: u32,
    /// Whether the turn achieved its purpose; a tool turn does even when a call fails.
    pub success: bool,
    /// The answer, or why the turn was rejected.
    pub result: Value,
    /// Calls of the turn, in order.
    pub tool_calls: Vec<CallRecord>,
    pub raw_response: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// The name that the model used.
    pub name: String,
    pub args: Value,
    /// The full result; for a program its value.
    pub result: Value,
    /// Whether `result` is the value of `(fail v)`.
    pub failed_value: bool,
    pub error: Option<String>,
    pub duration_ms: u64,
}

impl CallRecord {
    /// A call without a result yet.
    pub(crate) fn begun(name: &str, args: &Value) -> Self {
        CallRecord {
            name: name.to_owned(),
            args: args.clone(),
            result: Value::Nil,
            failed_value: false,
            error: None,
            duration_ms: 0,
        }
    }
}
