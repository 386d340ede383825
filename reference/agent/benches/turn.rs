//! What one turn costs besides the model: a combined turn, a canonical key of 1 MB, a preview of 100,000 rows.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use ptc_agent::{
    Agent, CanonicalArgs, Exposure, Llm, LlmError, LlmReply, LlmRequest, NativeResult, RunOptions,
    Tool, ToolCall, native_preview, run,
};
use ptc_lang::Value;
use ptc_lang::value::Map;
use serde_json::json;

/// Turns of the measured run, so that its start and end weigh little.
const TURNS: u32 = 100;

/// Calls a tool natively and in a program in turn, then answers.
struct Busy;

impl Llm for Busy {
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

fn turns(c: &mut Criterion) {
    let few = rows(50);
    let tool = Tool::new("rows", move |_| Ok(few.clone()))
        .expose(Exposure::Both)
        .cached();
    let mut agent = Agent::combined("go").tool(tool);
    agent.max_turns = TURNS;
    agent.turn_budget = TURNS;
    c.bench_function("100 combined turns", |b| {
        b.iter(|| run(&agent, RunOptions::new(&Busy)).map(|step| step.usage.turns))
    });
}

fn keys(c: &mut Criterion) {
    let item = |n: i64| {
        // One in ten has a float to collapse; the rest is canonical already.
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
    c.bench_function("canonical key of 1 MB", |b| {
        b.iter(|| CanonicalArgs::of(black_box(&args)))
    });
    let key = CanonicalArgs::of(&args);
    c.bench_function("hash of a 1 MB key", |b| {
        b.iter(|| black_box(&key).hash("rows"))
    });
}

fn previews(c: &mut Criterion) {
    let many = rows(100_000);
    let key = CanonicalArgs::of(&Value::Map(Map::new()));
    let options = NativeResult::default();
    c.bench_function("metadata of 100,000 rows", |b| {
        b.iter(|| native_preview(&options, "rows", &key, black_box(&many)))
    });
}

criterion_group!(benches, turns, keys, previews);
criterion_main!(benches);
