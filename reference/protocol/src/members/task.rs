//! Members of the answers of `lisp_task`.

use super::upstream::{Metrics, UpstreamCall, UpstreamResult};
use super::{members, schema};
use crate::Field;

members! {
    /// A task with an answer.
    pub struct TaskAnswered = "ok" {
        answer: String,
        /// The answer as JSON, when it is the value of a program.
        structured_result: Field,
        execution: TaskExecution,
        planner: PlannerReport,
        trace_id: Option<String>,
        upstream_calls: Vec<UpstreamCall>,
        warnings: Vec<Warning>,
    }
    maybe {
        program: Option<String>,
        upstream_results: Vec<UpstreamResult>,
        ptc_metrics: Metrics,
    }
}

members! {
    /// A task without an answer.
    pub struct TaskFailed = "error" {
        reason: &'static str,
        message: String,
        execution: TaskExecution,
        planner: PlannerReport,
        upstream_calls: Vec<UpstreamCall>,
        warnings: Vec<Warning>,
    }
    maybe {
        feedback: String,
        program: Option<String>,
        trace_id: String,
        upstream_results: Vec<UpstreamResult>,
        ptc_metrics: Metrics,
    }
}

members! {
    /// How a task was executed; empty where the task never began or exceeded its budget.
    pub struct TaskExecution {}
    maybe {
        duration_ms: u64,
        turn_count: u32,
        result_bytes: u64,
        truncated: bool,
        max_result_bytes: usize,
    }
}

members! {
    /// A warning about an answer.
    pub struct Warning {
        code: &'static str,
        detail: Field,
    }
}

members! {
    /// The planner's last request, and the number of requests; empty where there was none.
    pub struct PlannerReport {}
    maybe {
        calls: usize,
        model: String,
        prompt_bytes: u64,
        error: String,
        duration_ms: u64,
        completion_bytes: u64,
        output_bytes: u64,
        tokens: PlannerTokens,
    }
}

members! {
    /// Tokens of one request, as reported by the provider.
    pub struct PlannerTokens {}
    maybe {
        input: u64,
        output: u64,
    }
}

members! {
    /// The cost of all requests to the planner. Token counts are null unless every request reported
    /// them.
    pub struct PlannerCost {
        planner_calls: usize,
        provider_reported: bool,
        prompt_tokens: Option<u64>,
        completion_tokens: Option<u64>,
        total_tokens: Option<u64>,
        prompt_bytes: u64,
        completion_bytes: u64,
        estimated_prompt_tokens: u64,
        estimated_completion_tokens: u64,
        estimate_method: &'static str,
    }
}
