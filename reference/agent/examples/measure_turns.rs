//! Measures the overhead of a turn, excluding the model, against its targets:
//! `cargo run --release -p ptc-agent --example measure_turns`.
#![allow(clippy::print_stdout)]

#[path = "../../../tools/src/bench/row.rs"]
mod row;

use std::hint::black_box;
use std::time::Duration;

use ptc_agent::{
    Agent, CanonicalArgs, Exposure, Llm, LlmError, LlmReply, LlmRequest, NativeResult, RunOptions,
    Tool, ToolCall, native_preview, run,
};
use ptc_lang::Value;
use ptc_lang::value::Map;
use row::{Row, median};
use serde_json::json;

ptc_lang::counting_allocator!();

/// Turns of the measured run: enough that its start and end have little weight.
const TURNS: u32 = 100;
/// How often each measurement is repeated.
const ROUNDS: usize = 50;
const TURN: Duration = Duration::from_micros(50);
const KEY: Duration = Duration::from_millis(3);
const PREVIEW: Duration = Duration::from_millis(5);

fn main() {
    let rows = [
        Row::time("agent: a combined turn without the model", turn(), TURN),
        Row::time("agent: canonical key of 1 MB", key(), KEY),
        Row::time("agent: metadata of 100,000 rows", preview(), PREVIEW),
    ];
    for row in rows {
        println!("{}", row.line());
    }
}

/// Alternates between a native tool call and a call in a program, then answers.
struct ToolCallingLlm;

impl Llm for ToolCallingLlm {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        if request.turn == TURNS {
            return Ok(LlmReply::text("done"));
        }
        let (name, args) = match request.turn % 2 {
            0 => ("rows", json!({ "q": "x" })),
            _ => (
                "lisp_eval",
                json!({ "program": "(count (tool/rows {:q \"x\"}))" }),
            ),
        };
        let call = ToolCall {
            id: Some("c".into()),
            name: name.into(),
            args: Some(args),
            args_error: None,
        };
        Ok(LlmReply {
            tool_calls: vec![call],
            ..LlmReply::default()
        })
    }
}

fn rows(count: i64) -> Value {
    let row = |id: i64| {
        let entries = [
            ("id", Value::Int(id)),
            ("message", Value::str("m")),
            ("timestamp", Value::str("t")),
        ];
        Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (Value::str(key), value))
                .collect(),
        )
    };
    Value::vector((1..=count).map(row).collect())
}

fn turn() -> Duration {
    let few = rows(50);
    let tool = Tool::new("rows", move |_| Ok(few.clone()))
        .expose(Exposure::Both)
        .cached();
    let mut agent = Agent::combined("go").tool(tool);
    agent.max_turns = TURNS;
    agent.turn_budget = TURNS;
    let run = median(ROUNDS, || {
        let step = run(&agent, RunOptions::new(&ToolCallingLlm));
        assert!(step.is_ok_and(|step| step.usage.turns == TURNS));
    });
    run / TURNS
}

fn key() -> Duration {
    let item = |n: i64| {
        // One in ten has a float to convert; the rest is already canonical.
        let number = if n % 10 == 0 {
            Value::Float(2.0)
        } else {
            Value::Int(n)
        };
        Value::vector(vec![number, Value::str("some-text-here")])
    };
    let items = (0..40_000).map(item).collect();
    let args = Value::Map(
        [(Value::keyword("some-items"), Value::vector(items))]
            .into_iter()
            .collect::<Map>(),
    );
    median(ROUNDS, || {
        black_box(CanonicalArgs::of(black_box(&args)));
    })
}

fn preview() -> Duration {
    let many = rows(100_000);
    let key = CanonicalArgs::of(&Value::Map(Map::new()));
    let options = NativeResult::default();
    median(ROUNDS, || {
        black_box(native_preview(&options, "rows", &key, black_box(&many)));
    })
}
