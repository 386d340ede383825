//! The objects of the wire as types: members of program results, sessions, upstream calls and tasks.
//!
//! A struct's fields are the members, under the names that clients see, and each struct has one way to be written: as a
//! [`Payload`](crate::Payload). Server, agents and the testee all answer through these types. Decides names, not texts.

mod diagnostics;
mod mcp;
mod program;
pub mod schema;
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
/// is not a valid Rust name; `=>` says what a [`Field`](crate::Field) holds.
///
/// Its `MEMBERS` are what output schemas are derived from.
macro_rules! members {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@schema $type:ty) => { <$type as schema::JsonSchema>::json_schema };
    (@schema $type:ty, $held:ty) => { <$held as schema::JsonSchema>::json_schema };
    (
        $(#[$about:meta])*
        pub struct $name:ident $(= $status:literal)? {
            $($(#[$always_about:meta])* $always:ident $(as $always_name:literal)?: $always_type:ty $(=> $always_held:ty)?,)*
        }
        $(maybe { $($(#[$maybe_about:meta])* $maybe:ident: $maybe_type:ty $(=> $maybe_held:ty)?,)* })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $($(#[$always_about])* pub $always: $always_type,)*
            $($($(#[$maybe_about])* pub $maybe: Option<$maybe_type>,)*)?
        }

        impl $name {
            /// The members, as output schemas describe them.
            pub const MEMBERS: &'static [schema::Member] = &[
                $(schema::Member::required("status", || schema::constant($status)),)?
                $(schema::Member::required(
                    members!(@name $always $($always_name)?),
                    members!(@schema $always_type $(, $always_held)?),
                ),)*
                $($(schema::Member::optional(
                    stringify!($maybe),
                    members!(@schema $maybe_type $(, $maybe_held)?),
                ),)*)?
            ];
        }

        impl schema::JsonSchema for $name {
            fn json_schema() -> $crate::Payload {
                schema::of_type("object")
            }
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
