//! Members for operators: the answers of `lisp_debug`, the lines of a trace, and whether the process is ready.

use super::members;
use crate::{Field, Payload};

members! {
    /// `lisp_debug` `stats`: what the ring holds, summed up.
    pub struct DebugStats {
        op: &'static str,
        payload_policy: &'static str,
        redaction_applied: bool,
        debug_source: &'static str,
        errors: Errors,
        ring_count: usize,
        ring_size: usize,
        trace_dir_enabled: bool,
        window: Window,
    }
    maybe {
        /// A [`ToolTally`] under each tool's name.
        by_tool: Payload,
        upstream_calls: UpstreamTally,
        payload_reduction: PayloadReduction,
        agentic: TaskTally,
        truncated: bool,
    }
}

members! {
    /// Failed calls, counted under their reasons.
    pub struct Errors {
        by_reason: Payload,
    }
}

members! {
    /// The calls that were looked at.
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
    /// Durations at their ranks.
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
        /// The same under each server's name.
        by_server: Payload,
    }
}

members! {
    /// How much upstream payload programs collapsed.
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
    /// Tokens that bytes may make.
    pub struct EstimatedTokens {
        final_result: i64,
        method: &'static str,
        upstream_result: i64,
    }
}

members! {
    /// Ratios at their ranks, and that of the sums.
    pub struct ReductionRatio {
        max: Option<f64>,
        p50: Option<f64>,
        p95: Option<f64>,
        weighted: Option<f64>,
    }
}

members! {
    /// A call that collapsed much.
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
    /// How tasks went.
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
        calls: Vec<Payload>,
        count: usize,
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
    /// What is remembered of how a call went.
    pub struct RecordedCall {
        duration_ms: u64,
        reason: Option<String>,
        request_id: String,
        status: &'static str,
        tool: Field,
        ts: String,
        /// Themselves, or how many there were.
        upstream_calls: Field,
    }
    maybe {
        ptc_metrics: Payload,
        agentic: Payload,
    }
}

members! {
    /// What is remembered of what a call asked for and got; each as far as the payload policy shows it.
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
    /// A text that only its size and digest are shown of, and perhaps how it begins.
    pub struct Digested {
        bytes: usize,
        sha256: String,
    }
    maybe {
        preview: String,
    }
}

members! {
    /// A value's kind, and how many parts it has.
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
    /// What both events of a call name.
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
    /// What a call began with.
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
    /// How a call ended.
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
    /// What both events of a program say of it.
    pub struct TracedProgram {
        caller: &'static str,
        profile: &'static str,
        program_bytes: usize,
        signature_supplied as "signature_supplied?": bool,
    }
}

members! {
    /// Measured when something begins.
    pub struct StartMeasurements {
        monotonic_time: i64,
        system_time: i64,
    }
}

members! {
    /// Measured when something ended.
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
    /// Measured of one request to a planner.
    pub struct PlannerMeasurements {
        completion_bytes: u64,
        input_tokens: u64,
        output_tokens: u64,
        prompt_bytes: u64,
    }
}

members! {
    /// How one request to a planner went.
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
    /// `/health`, and `/ready` where the process takes nothing in.
    pub struct Condition {
        status: &'static str,
    }
}

members! {
    /// `/ready` where it does.
    pub struct Readiness = "ready" {
        instance: Field,
    }
}
