//! The error of a planner that ran out of time.

use super::*;
use crate::llm::LlmReply;

/// A planner that fails once its time is over.
struct TimedOutLlm;

impl Llm for TimedOutLlm {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        std::thread::sleep(request.timeout.unwrap_or_default());
        Err(LlmError::new(LlmErrorKind::Timeout, "too late"))
    }
}

struct NullHost;

impl TaskHost for NullHost {
    fn run(&self, _: &str, _: &Env, _: Instant, _: Conclude<'_>) -> Result<(), Limit> {
        unreachable!("the planner never answers")
    }
    fn turn(&self, _: u32) {}
    fn may_have_written(&self) -> bool {
        false
    }
    fn notes(&self) -> Option<String> {
        None
    }
    fn scrub(&self, text: String) -> String {
        text
    }
    fn scrub_value(&self, value: &Value, _: &dyn Watch) -> Result<Value, Limit> {
        Ok(value.clone())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}

#[test]
fn timed_out_planner_is_reported() {
    let ended = |task_ms: u64, planner_ms: u64| {
        let outcome = run_task(
            &Task {
                llm: &TimedOutLlm,
                prompt: String::new(),
                task: "x",
                context: Map::new(),
                constraints: &Constraints::default(),
                result_bytes: 1000,
                max_turns: 1,
                retry_turns: 0,
                deadline: Instant::now() + Duration::from_millis(task_ms),
                planner_timeout: Duration::from_millis(planner_ms),
                program_timeout: Duration::from_secs(1),
                output_tokens: 1,
                program_bytes: 1000,
            },
            &NullHost,
        );
        match outcome.end {
            TaskEnd::Failed { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ended(30, 60_000), TaskReason::Budget);
    assert_eq!(ended(60_000, 30), TaskReason::PlannerTimeout);
}
