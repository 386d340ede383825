//! Members about upstream calls, and about what they saved.

use super::task::PlannerCost;
use super::{members, schema};

members! {
    /// Members that an answer adds for a program that called upstreams.
    pub struct UpstreamMembers {
        upstream_calls: Vec<UpstreamCall>,
        ptc_metrics: Metrics,
    }
    maybe {
        /// Outside of sessions, where each call has its own overview.
        upstream_results: Vec<UpstreamResult>,
    }
}

members! {
    pub struct UpstreamCall {
        server: String,
        tool: String,
        status: &'static str,
        duration_ms: u64,
        oversize: bool,
        result_bytes: Option<u64>,
    }
    maybe {
        reason: &'static str,
        error: String,
        /// Only in a session.
        result_overview: ResultOverview,
        /// Only in a task.
        effect: &'static str,
        /// Only in a task.
        turn: u32,
        /// Only in a task.
        args_hash: String,
    }
}

members! {
    /// Summary of a call's result.
    pub struct UpstreamResult {
        server: String,
        status: &'static str,
        tool: String,
    }
    maybe {
        reason: &'static str,
        error: String,
        preview: String,
        shape: String,
        value_kind: &'static str,
    }
}

members! {
    /// Summary of a value.
    pub struct ResultOverview {
        preview: String,
        shape: String,
        value_kind: &'static str,
    }
}

members! {
    /// How much upstream payload a program reduced to its answer.
    pub struct Metrics {
        schema_version: u64,
        final_result_bytes: u64,
        prints_bytes: u64,
        upstream_call_count: usize,
        upstream_ok_count: usize,
        upstream_error_count: usize,
        upstream_oversize_count: usize,
        upstream_result_bytes: u64,
        upstream_error_bytes: u64,
        upstream_oversize_bytes: u64,
        payload_reduction_ratio: Option<f64>,
        estimated_final_result_tokens: u64,
        estimated_upstream_result_tokens: u64,
        token_estimate_method: &'static str,
        baseline: Baseline,
    }
    maybe {
        /// Only in a task.
        server_side_llm: PlannerCost,
        /// Only in a task.
        efficiency_note: &'static str,
    }
}

members! {
    /// What the savings are compared with.
    pub struct Baseline {
        conservative: Conservative,
        optimistic: Optimistic,
    }
}

members! {
    /// The bytes that were fetched.
    pub struct Conservative {
        name: &'static str,
        bytes: u64,
        ratio: Option<f64>,
        note: &'static str,
    }
}

members! {
    /// A baseline that can't be measured.
    pub struct Optimistic {
        name: &'static str,
        available: bool,
        note: &'static str,
    }
}
