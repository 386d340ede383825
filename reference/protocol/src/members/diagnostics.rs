//! Members for operators: the answers of `lisp_debug`, the lines of a trace, and whether the process is ready.

use super::{members, schema};
use crate::{Field, Payload};

members! {
    /// `lisp_debug` `stats`: a summary of the recorded calls.
    pub struct DebugStats {
        op: &'static str,
        payload_policy: &'static str,
        redaction_applied: bool,
        debug_source: &'static str,
        ring_size: usize,
        ring_count: usize,
        window: Window,
        errors: Errors,
        trace_dir_enabled: bool,
    }
    maybe {
        /// A [`ToolTally`] by tool name.
        by_tool: Payload,
        upstream_calls: UpstreamTally,
        payload_reduction: PayloadReduction,
        agentic: TaskTally,
        truncated: bool,
    }
}

members! {
    /// Counts of failed calls by reason.
    pub struct Errors {
        by_reason: Payload,
    }
}

members! {
    /// The calls that were evaluated.
    pub struct Window {
        calls: usize,
        from: Option<String>,
        to: Option<String>,
    }
}

members! {
    /// The calls of one tool.
    pub struct ToolTally {
        calls: usize,
        error: usize,
        error_rate: f64,
        ok: usize,
    }
    maybe {
        duration_ms: Spread,
    }
}

members! {
    /// Percentiles of durations.
    pub struct Spread {
        max: Option<u64>,
        p50: Option<u64>,
        p95: Option<u64>,
    }
}

members! {
    /// Calls to upstreams.
    pub struct UpstreamTally {
        by_reason: Payload,
        ok: usize,
        total: usize,
    }
    maybe {
        /// The same tally by server name.
        by_server: Payload,
    }
}

members! {
    /// How much upstream payload programs reduced.
    pub struct PayloadReduction {
        calls_with_metrics: usize,
        estimated_tokens: EstimatedTokens,
        reduction_ratio: ReductionRatio,
        schema_version: usize,
        total_final_result_bytes: i64,
        total_upstream_calls: i64,
        total_upstream_error_bytes: i64,
        total_upstream_oversize_bytes: i64,
        total_upstream_result_bytes: i64,
    }
    maybe {
        top_reducers: Vec<Reducer>,
        agentic_planner: PlannerTally,
    }
}

members! {
    /// Estimated tokens for byte counts.
    pub struct EstimatedTokens {
        final_result: i64,
        method: &'static str,
        upstream_result: i64,
    }
}

members! {
    /// Percentiles of the ratios, and the ratio of the sums.
    pub struct ReductionRatio {
        max: Option<f64>,
        p50: Option<f64>,
        p95: Option<f64>,
        weighted: Option<f64>,
    }
}

members! {
    /// A call with a large reduction.
    pub struct Reducer {
        final_result_bytes: i64,
        ratio: f64,
        request_id: String,
        tool: Field,
        ts: String,
        upstream_result_bytes: i64,
    }
}

members! {
    /// What planners cost.
    pub struct PlannerTally {
        estimated_total_tokens: i64,
        provider_reported_tasks: usize,
        tasks: usize,
        total_completion_bytes: i64,
        total_completion_tokens: Option<i64>,
        total_prompt_bytes: i64,
        total_prompt_tokens: Option<i64>,
    }
}

members! {
    /// Outcomes of tasks.
    pub struct TaskTally {
        planner_calls: usize,
        planner_errors: usize,
        planner_rejects: i64,
        retries: i64,
        tasks: usize,
    }
}

members! {
    /// `lisp_debug` `recent`: the newest calls.
    pub struct DebugRecent {
        op: &'static str,
        payload_policy: &'static str,
        redaction_applied: bool,
        count: usize,
        calls: Vec<Payload>,
    }
    maybe {
        truncated: bool,
    }
}

members! {
    /// `lisp_debug` `get`: one call.
    pub struct DebugFound {
        op: &'static str,
        payload_policy: &'static str,
        redaction_applied: bool,
        request_id: String,
        found: bool,
        source: &'static str,
    }
    maybe {
        /// A [`RecordedCall`], or the lines of its trace.
        record: Field,
        note: String,
        truncated: bool,
    }
}

members! {
    /// The recorded outcome of a call.
    pub struct RecordedCall {
        duration_ms: u64,
        reason: Option<String>,
        request_id: String,
        status: &'static str,
        tool: Field,
        ts: String,
        /// The calls, or their number.
        upstream_calls: Field,
    }
    maybe {
        ptc_metrics: Payload,
        agentic: Payload,
    }
}

members! {
    /// The recorded request and answer of a call, each as far as the payload policy shows it.
    pub struct RecordedContent {
        context: Field,
        program: Field,
        prints_count: Option<usize>,
        protocol_version: &'static str,
        result_bytes: Option<usize>,
        signature_present: bool,
    }
}

members! {
    /// A text shown only by its size and digest, and perhaps its beginning.
    pub struct Digested {
        bytes: usize,
        sha256: String,
    }
    maybe {
        preview: String,
    }
}

members! {
    /// The kind of a value, and the number of its parts.
    pub struct Described {
        count: Option<usize>,
        kind as "type": &'static str,
    }
}

members! {
    /// The first line of a trace.
    pub struct TraceStart {
        data: Field,
        event: &'static str,
        producer: &'static str,
        query: String,
        schema_version: u64,
        trace_id: String,
        trace_kind: &'static str,
        trace_label: String,
    }
}

members! {
    /// A line of a trace between the first and the last.
    pub struct TraceEvent {
        event: &'static str,
        measurements: Payload,
        metadata: Payload,
    }
    maybe {
        duration_ms: u64,
    }
}

members! {
    /// The last line of a trace.
    pub struct TraceStop {
        duration_ms: u64,
        event: &'static str,
        schema_version: u64,
        trace_id: String,
    }
}

members! {
    /// Members common to both events of a call.
    pub struct TracedCall {
        protocol_version: &'static str,
        request_id: String,
        tool_name: Field,
    }
    maybe {
        mcp_session_hash: Field,
        owner_hash: Field,
        transport: &'static str,
        transport_request_id: Option<String>,
    }
}

members! {
    /// The event at the start of a call.
    pub struct CallStarted {
        context_bytes: usize,
        program_bytes: usize,
        signature_present as "signature_present?": bool,
    }
    maybe {
        context: Field,
    }
}

members! {
    /// The event at the end of a call.
    pub struct CallStopped {
        is_error: bool,
        status: &'static str,
        validated_present as "validated_present?": bool,
    }
    maybe {
        reason: Field,
        result: Payload,
    }
}

members! {
    /// Members common to both events of a program.
    pub struct TracedProgram {
        caller: &'static str,
        profile: &'static str,
        program_bytes: usize,
        signature_supplied as "signature_supplied?": bool,
    }
}

members! {
    /// Measurements at the start of a span.
    pub struct StartMeasurements {
        monotonic_time: i64,
        system_time: i64,
    }
}

members! {
    /// Measurements at the end of a span.
    pub struct StopMeasurements {
        duration: i64,
        monotonic_time: i64,
    }
    maybe {
        prints_count: usize,
        result_bytes: usize,
    }
}

members! {
    /// The planner's part of a recorded task: what its reply reports, and the size of the last program.
    pub struct PlannerRecord {
        planner_duration_ms: Option<u64>,
        /// Replies that were no program.
        planner_rejects: u64,
        planner_status: &'static str,
        program_bytes: Option<usize>,
        retries: u64,
    }
}

members! {
    /// Measurements of one request to a planner.
    pub struct PlannerMeasurements {
        completion_bytes: u64,
        input_tokens: u64,
        output_tokens: u64,
        prompt_bytes: u64,
    }
}

members! {
    /// The outcome of one request to a planner.
    pub struct PlannerTurn {
        status: &'static str,
        turn: usize,
    }
    maybe {
        reason: &'static str,
        completion: String,
        prompt: String,
    }
}

members! {
    /// `/health`, and `/ready` where the process accepts no requests.
    pub struct Condition {
        status: &'static str,
    }
}

members! {
    /// `/ready` where it accepts requests.
    pub struct Readiness = "ready" {
        instance: Field,
    }
}
