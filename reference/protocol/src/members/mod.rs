//! The objects of the wire as types: members of program results, sessions, upstream calls and tasks.
//!
//! A struct's fields are the members, under the names that clients see, and each struct has one way to be written: as a
//! [`Payload`](crate::Payload). Server, agents and the testee all answer through these types. Decides names, not texts.

mod diagnostics;
mod mcp;
mod program;
mod session;
mod task;
mod upstream;

pub use diagnostics::{
    CallStarted, CallStopped, Condition, DebugFound, DebugRecent, DebugStats, Described, Digested,
    Errors, EstimatedTokens, PayloadReduction, PlannerMeasurements, PlannerRecord, PlannerTally,
    PlannerTurn, Readiness, RecordedCall, RecordedContent, Reducer, ReductionRatio, Spread,
    StartMeasurements, StopMeasurements, TaskTally, ToolTally, TraceEvent, TraceStart, TraceStop,
    TracedCall, TracedProgram, UpstreamTally, Window,
};
pub use mcp::{
    Build, Capabilities, DiscoverResult, InitializeResult, ServerInfo, ToolsCapability,
    UnsupportedVersion,
};
pub use program::{
    Failure, Memory, ProtocolError, ReplResult, Success, ToolError, Truncated, ValidatedPreview,
};
pub use session::{
    HistoryEntry, HistoryNotice, LimitExceeded, SessionClosed, SessionForgotten, SessionLimits,
    SessionList, SessionStarted, SessionSummary, SessionUsage, SessionView, StoredBinding,
    StoredToolCall, StoredUpstreamCall, ToolCallArguments, TurnSummary,
};
pub use task::{
    PlannerCost, PlannerReport, PlannerTokens, TaskAnswered, TaskExecution, TaskFailed, Warning,
};
pub use upstream::{
    Baseline, Conservative, Metrics, Optimistic, ResultOverview, UpstreamCall, UpstreamMembers,
    UpstreamResult,
};

/// Declares an object of the wire: a struct whose fields have the names of its members, and its conversion into a payload. Members
/// after `maybe` are omitted when `None`; all others are always present, with `None` as null. `as` gives the name of a member that
/// is not a valid Rust name.
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
