//! Agents over PTC-Lisp: models, tools, the run loop of combined text mode, the planner of `lisp_task`.
//!
//! An agent answers a request with text. In combined mode the model may call app tools natively, and may escalate
//! to `lisp_eval`, whose programs call the tools that are exposed to them; both layers share results.
//!
//! ```
//! use ptc_agent::{Agent, Exposure, LlmReply, RunOptions, Scripted, Tool, ToolCall, run};
//! use ptc_lang::Value;
//!
//! ptc_lang::counting_allocator!();
//!
//! let rows = Tool::new("rows", |_| Ok(Value::vector(vec![Value::Int(1), Value::Int(2)])))
//!     .signature("() -> [:int]")
//!     .expose(Exposure::Both)
//!     .cached();
//! let agent = Agent::combined("How many rows are there?").tool(rows);
//! let program = serde_json::json!({"program": "(count (tool/rows {}))"});
//! let model = Scripted::new([
//!     Ok(LlmReply {
//!         tool_calls: vec![ToolCall { name: "lisp_eval".into(), args: Some(program), ..ToolCall::default() }],
//!         ..LlmReply::default()
//!     }),
//!     Ok(LlmReply::text("Two.")),
//! ]);
//! let step = run(&agent, RunOptions::new(&model))?;
//! assert_eq!(step.returned, Value::str("Two."));
//! # Ok::<(), ptc_agent::AgentError>(())
//! ```
//!
//! Blocks the calling thread while it works. Knows nothing of MCP or upstream servers: their tools are passed in
//! as functions, or through a planner's [`TaskHost`].

mod agent;
mod answer;
mod cache;
mod call;
mod card;
mod exposure;
mod extract;
mod lisp_mode;
mod llm;
#[doc(hidden)]
pub mod lock;
mod planner;
mod preview;
mod program;
mod provider;
mod run;
mod scrubber;
mod step;
mod task_answer;
mod telemetry;
mod tool;
mod turn;

#[cfg(test)]
ptc_lang::counting_allocator!();

pub use agent::{
    Agent, AgentError, LISP_EVAL, MemoryStrategy, ToolSource, fill_placeholders, read_preview,
};
pub use answer::{AnswerError, final_answer};
pub use cache::{Cache, CanonicalArgs};
pub use card::{CARD, SystemPrompt, base_prompt, combined_prompt};
pub use exposure::{Exposure, Output, Transport, resolve_exposure};
pub use extract::{ExtractError, extract_json};
pub use llm::{
    AbandonCheck, AnthropicMessages, ChatCompletions, Llm, LlmError, LlmErrorKind, LlmReply,
    LlmRequest, Message, ProviderOptions, Recorder, RecordingError, Replay, RetryPolicy, Scripted,
    Tokens, ToolCall, WireCall,
};
pub use planner::{
    Conclude, PLANNER_SYSTEM, PlannerRequest, PromptParts, Task, TaskEnd, TaskHost, TaskOutcome,
    TaskReason, planner_prompt, run_task,
};
pub use preview::{Fallback, NativePreview, lenient_json, native_preview};
pub use program::{ProgramEnd, ProgramHost, ProgramRun, run_program};
pub use provider::{
    ALIASES, Format, PROVIDERS, Provider, key_variables, open_model, open_replay, url_variables,
};
pub use run::{RunOptions, chat, run};
pub use scrubber::{Scrubber, Unscrubbed};
pub use step::{AgentStep, CallRecord, RunFailure, RunReason, TurnRecord, Usage};
pub use task_answer::{Constraints, TaskAnswer, task_answer};
pub use telemetry::{Event, Layer, SPAN_FIELDS, TOOL_CALL, Telemetry, ToolCallFacts};
pub use tool::{NativeResult, Preview, PreviewFn, Tool, ToolFault, ToolFn};
pub use turn::PROTOCOL_ERRORS;
