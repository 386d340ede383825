//! Members of the session tools' answers: sessions, their contents and their limits.

use super::{members, schema};
use crate::Payload;
use crate::payload::Word;

members! {
    pub struct SessionStarted = "ok" {
        expires_at: String,
        limits: SessionLimits,
        session_id: Word,
    }
}

members! {
    /// The sessions of an owner.
    pub struct SessionList = "ok" {
        count: usize,
        sessions: Vec<SessionSummary>,
    }
}

members! {
    pub struct SessionClosed = "ok" {
        closed: bool,
        reason: String,
        session_id: Word,
    }
}

members! {
    /// A session from which something was removed.
    pub struct SessionForgotten = "ok" {
        cleared: Vec<&'static str>,
        removed_bindings: Vec<String>,
        session_id: Word,
        stored_keys: Vec<String>,
        usage: SessionUsage,
    }
}

members! {
    pub struct SessionView = "ok" {
        session_id: Word,
        session: SessionSummary,
        view: &'static str,
    }
    maybe {
        text: String,
        usage: SessionUsage,
        stored_keys: Vec<String>,
        prints: Vec<String>,
        tool_calls: Vec<Payload>,
        upstream_calls: Vec<Payload>,
        history: Vec<HistoryEntry>,
        limits: SessionLimits,
        top_bindings: Vec<StoredBinding>,
    }
}

members! {
    /// The description of a session in lists and views.
    pub struct SessionSummary {
        binding_count: usize,
        created_at: String,
        eval_status: &'static str,
        expires_at: String,
        memory_bytes: u64,
        session_id: Word,
        title: Option<String>,
        turn: u64,
        updated_at: String,
    }
}

members! {
    /// A session after a turn that was kept.
    pub struct TurnSummary {
        binding_count: u64,
        memory_bytes: u64,
        session_id: Word,
        turn: u64,
    }
}

members! {
    /// The limits of a session.
    pub struct SessionLimits {
        max_binding_bytes: u64,
        max_bindings: usize,
        max_history_entry_bytes: u64,
        max_idle_ms: u64,
        max_memory_bytes: u64,
        max_print_bytes: u64,
        max_print_entries: usize,
        max_tool_call_bytes: u64,
        max_tool_call_entries: usize,
        max_upstream_call_bytes: u64,
        max_upstream_call_entries: usize,
    }
}

members! {
    /// What a session currently holds.
    pub struct SessionUsage {
        binding_count: usize,
        history_bytes: u64,
        history_count: usize,
        memory_bytes: u64,
        print_bytes: u64,
        print_entries: usize,
        tool_call_bytes: u64,
        tool_call_entries: usize,
        upstream_call_bytes: u64,
        upstream_call_entries: usize,
    }
}

members! {
    /// The limit that a turn would have exceeded.
    pub struct LimitExceeded {
        actual: u64,
        field: &'static str,
        limit: &'static str,
        max: u64,
    }
    maybe {
        name: String,
    }
}

members! {
    /// A result of which a session keeps only a preview.
    pub struct HistoryNotice {
        bytes: u64,
        field: &'static str,
        max_bytes: u64,
        message: &'static str,
        reason: &'static str,
    }
}

members! {
    /// One of `*1 *2 *3`.
    pub struct HistoryEntry {
        name: String,
        preview: String,
        truncated: bool,
    }
}

members! {
    /// A definition and its size.
    pub struct StoredBinding {
        bytes: u64,
        name: String,
    }
}

members! {
    /// A tool call as a session remembers it.
    pub struct StoredToolCall {
        args: ToolCallArguments,
        name: &'static str,
    }
}

members! {
    /// The arguments that a program gave to `tool/call`.
    pub struct ToolCallArguments {
        server: String,
        tool: String,
    }
    maybe {
        args: crate::Field,
    }
}

members! {
    /// An upstream call as a session remembers it.
    pub struct StoredUpstreamCall {
        args: Payload,
        name: String,
        status: &'static str,
    }
    maybe {
        error: String,
    }
}
