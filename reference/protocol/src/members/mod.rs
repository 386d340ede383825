//! The objects of the wire as types: what a program's end, a session, an upstream call and a task show, member by member.
//!
//! A struct's fields are the members, under the names that clients see, and each has one way to be written: into a
//! [`Payload`](crate::Payload). Server, agents and the testee all answer through these. Decides names, not texts.

mod diagnostics;
mod mcp;
mod program;
mod session;
mod task;
mod upstream;

pub use diagnostics::{
    CallStarted, CallStopped, Condition, DebugFound, DebugRecent, DebugStats, Described, Digested,
    Errors, EstimatedTokens, PayloadReduction, PlannerMeasurements, PlannerTally, PlannerTurn,
    Readiness, RecordedCall, RecordedContent, Reducer, ReductionRatio, Spread, StartMeasurements,
    StopMeasurements, TaskTally, ToolTally, TraceEvent, TraceStart, TraceStop, TracedCall,
    TracedProgram, UpstreamTally, Window,
};
pub use mcp::{
    Build, Capabilities, DiscoverResult, InitializeResult, ServerInfo, ToolsCapability,
    UnsupportedVersion,
};
pub use program::{Failure, Memory, ProtocolError, ReplResult, Success, ToolError};
pub use session::{
    HistoryEntry, HistoryNotice, KeptToolCall, KeptUpstreamCall, LimitExceeded, SessionClosed,
    SessionForgotten, SessionLimits, SessionList, SessionStarted, SessionSummary, SessionUsage,
    SessionView, StoredBinding, ToolCallArguments, TurnSummary,
};
pub use task::{
    PlannerCost, PlannerReport, PlannerTokens, TaskAnswered, TaskExecution, TaskFailed, Warning,
};
pub use upstream::{
    Baseline, Conservative, Metrics, Optimistic, ResultOverview, UpstreamCall, UpstreamMembers,
    UpstreamResult,
};

/// Declares an object of the wire: a struct whose fields have the names of its members, and its way into a payload. What stands
/// behind `maybe` is left out where it is `None`; the rest is always there, `None` as null. A member whose name is no name in Rust
/// has it behind `as`.
macro_rules! members {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (
        $(#[$about:meta])*
        pub struct $name:ident $(= $status:literal)? {
            $($(#[$always_about:meta])* $always:ident $(as $always_name:literal)?: $always_type:ty,)*
        }
        $(maybe { $($(#[$maybe_about:meta])* $maybe:ident: $maybe_type:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $($(#[$always_about])* pub $always: $always_type,)*
            $($($(#[$maybe_about])* pub $maybe: Option<$maybe_type>,)*)?
        }

        impl From<$name> for $crate::Payload {
            fn from(members: $name) -> Self {
                #[allow(unused_mut, reason = "an object may have no members of one kind")]
                let mut payload = $crate::Payload::with_room(
                    [$($status,)? $(stringify!($always),)* $($(stringify!($maybe),)*)?].len(),
                );
                $(payload.set("status", $status);)?
                $(payload.set(members!(@name $always $($always_name)?), members.$always);)*
                $($(if let Some(value) = members.$maybe {
                    payload.set(stringify!($maybe), value);
                })*)?
                payload
            }
        }

        impl From<$name> for $crate::Field {
            fn from(members: $name) -> Self {
                $crate::Field::Object(members.into())
            }
        }
    };
}
use members;
